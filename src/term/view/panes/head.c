/* The first line: step, title, time to the end and state. On a small screen a summary of the run
 * instead, as many of its pieces as fit, the most important first. */
#include <stdio.h>
#include <string.h>

#include "term/view/pane.h"
#include "term/view/words.h"

/* "step 30,000/100,000" */
static void progress(char out[3 * FOPO_WORD], const fopo_view_model *m) {
  char step[FOPO_WORD], steps[FOPO_WORD];
  fopo_word_count(step, fopo_pane_known(m->number[FOPO_VIEW_STEP]) ? m->number[FOPO_VIEW_STEP] : 0);
  if (fopo_pane_known(m->number[FOPO_VIEW_STEPS])) {
    fopo_word_count(steps, m->number[FOPO_VIEW_STEPS]);
    snprintf(out, 3 * FOPO_WORD, "step %s/%s", step, steps);
  } else {
    snprintf(out, 3 * FOPO_WORD, "step %s", step);
  }
}

static void append_progress(char *line, size_t size, int width, const fopo_view_model *m) {
  char piece[3 * FOPO_WORD];
  progress(piece, m);
  if ((int)strlen(piece) > width) { /* the bare number */
    double step = m->number[FOPO_VIEW_STEP];
    fopo_word_count(piece, fopo_pane_known(step) ? step : 0);
  }
  fopo_pane_append(line, size, width, piece);
}

static void append_figures(char *line, size_t size, int width, const fopo_view_model *m) {
  const double *x = m->number;
  char piece[2 * FOPO_WORD], word[FOPO_WORD];
  if (fopo_pane_known(x[FOPO_VIEW_REWARD])) {
    int letters = width < 30 ? 1 : (int)sizeof m->measure;
    snprintf(piece, sizeof piece, "%.*s %.4f", letters, m->measure, x[FOPO_VIEW_REWARD]);
    fopo_pane_append(line, size, width, piece);
  }
  if (fopo_pane_known(x[FOPO_VIEW_VALID])) {
    snprintf(piece, sizeof piece, "valid %.4f", x[FOPO_VIEW_VALID]);
    fopo_pane_append(line, size, width, piece);
  }
  if (fopo_pane_known(x[FOPO_VIEW_CONTEXTS_RATE])) {
    fopo_word_rate(word, x[FOPO_VIEW_CONTEXTS_RATE]);
    snprintf(piece, sizeof piece, "%s ctx/s", word);
    fopo_pane_append(line, size, width, piece);
  }
  if (fopo_pane_known(x[FOPO_VIEW_ETA])) {
    fopo_word_time(word, x[FOPO_VIEW_ETA]);
    snprintf(piece, sizeof piece, "ETA %s", word);
    fopo_pane_append(line, size, width, piece);
  }
  if (fopo_pane_known(x[FOPO_VIEW_ESS])) {
    snprintf(piece, sizeof piece, "ess %.1f", x[FOPO_VIEW_ESS]);
    fopo_pane_append(line, size, width, piece);
  }
}

static void summary(char *line, size_t size, int width, const fopo_view_model *m) {
  line[0] = '\0';
  if (m->cursor >= 0) {
    snprintf(line, size, ":%s", m->command);
    return;
  }
  if (m->message[0] != '\0' && width < 60) {
    snprintf(line, size, "%s", m->message);
    return;
  }
  append_progress(line, size, width, m);
  if (strcmp(m->state, "running") != 0) fopo_pane_append(line, size, width, m->state);
  append_figures(line, size, width, m);
  if (m->message[0] != '\0') fopo_pane_append(line, size, width, m->message);
}

static void draw_full(fopo_screen *s, const fopo_view_model *m) {
  char left[320], right[4 * FOPO_WORD], word[FOPO_WORD], made[3 * FOPO_WORD];
  progress(made, m);
  snprintf(right, sizeof right, "%s", m->state);
  if (fopo_pane_known(m->number[FOPO_VIEW_ETA])) {
    fopo_word_time(word, m->number[FOPO_VIEW_ETA]);
    snprintf(right, sizeof right, "ETA %s  %s", word, m->state);
  }
  snprintf(left, sizeof left, " fopo  %s  %s", made, m->title);
  int n = fopo_screen_width(right), alone = n + 30 >= s->cols; /* the left part needs the line */
  fopo_screen_cut(left, alone ? s->cols : s->cols - n - 3);
  fopo_pane_bar(s, 0, left);
  if (alone) return;
  for (int i = n + 3; i > 0; i--) fopo_screen_set(s, 0, s->cols - i, ' ', FOPO_INK_BAR);
  fopo_screen_put(s, 0, s->cols - n - 1, n, FOPO_INK_BAR, right);
}

static void draw(fopo_screen *s, fopo_area area, const fopo_view_model *m) {
  char line[320];
  if (!fopo_pane_small(s->rows, s->cols)) {
    draw_full(s, m);
    return;
  }
  summary(line, sizeof line, area.cols, m);
  if (s->rows > 1) {
    fopo_pane_bar(s, 0, line);
  } else if (m->cursor < 0) {
    fopo_screen_put(s, 0, 0, area.cols, FOPO_INK_PLAIN, line);
  } else {
    fopo_pane_command(s, 0, m); /* the only line: no foot shows it */
  }
}

const fopo_pane fopo_pane_head = {
    .name = "head", .place = FOPO_PANE_TOP, .least_rows = 1, .least_cols = 1, .draw = draw};
