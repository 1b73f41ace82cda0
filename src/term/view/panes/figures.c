/* The figures of the run, each a label and a value, in as many columns as fit. A figure that has no
 * value is left out. The table says their order and form; a statistic with a label that is not in
 * the table is shown after it. */
#include <stdio.h>
#include <string.h>

#include "term/view/pane.h"
#include "term/view/words.h"

enum {
  COLUMN = 26, /* columns of the screen for one column of figures */
  LABEL = 11   /* of them for the label */
};

/* How a value is written. */
typedef enum {
  REAL,
  COUNT,
  PER_SECOND,
  PERCENT_0,
  PERCENT_1,
  PERCENT_2,
  TIME,
  BYTES,
  BEST,
  ESS
} form;

static const struct {
  int number;        /* FOPO_VIEW_... or FOPO_STAT_... */
  const char *label; /* NULL: that of the statistic */
  form form;
  fopo_ink ink;
} table[] = {
    {FOPO_STAT_REWARD, NULL, REAL, FOPO_INK_TRAIN},
    {FOPO_VIEW_VALID, "valid", REAL, FOPO_INK_VALID},
    {FOPO_VIEW_VALID_EXPECTED, "expected", REAL, FOPO_INK_VALID},
    {FOPO_VIEW_VALID_INDEX, "via index", REAL, FOPO_INK_INDEX},
    {FOPO_VIEW_BEST, "best", BEST, FOPO_INK_VALID},
    {FOPO_VIEW_CONTEXTS_RATE, "contexts", PER_SECOND, FOPO_INK_RATE},
    {FOPO_VIEW_STEPS_RATE, "steps", PER_SECOND, FOPO_INK_PLAIN},
    {FOPO_STAT_ESS, NULL, ESS, FOPO_INK_PLAIN},
    {FOPO_STAT_MAX_WEIGHT, NULL, REAL, FOPO_INK_PLAIN},
    {FOPO_VIEW_EPSILON, "eps", REAL, FOPO_INK_PLAIN},
    {FOPO_VIEW_K, "K", COUNT, FOPO_INK_PLAIN},
    {FOPO_STAT_HEAD_MASS, NULL, PERCENT_1, FOPO_INK_PLAIN},
    {FOPO_STAT_SHORT_ROWS, NULL, COUNT, FOPO_INK_WARN},
    {FOPO_STAT_NORM, NULL, REAL, FOPO_INK_PLAIN},
    {FOPO_VIEW_LR, "lr", REAL, FOPO_INK_PLAIN},
    {FOPO_VIEW_SECONDS, "trained", TIME, FOPO_INK_PLAIN},
    {FOPO_VIEW_MEMORY, "memory", BYTES, FOPO_INK_PLAIN},
    {FOPO_VIEW_MEMORY_FREE, "free", BYTES, FOPO_INK_PLAIN},
    {FOPO_VIEW_GPU_USE, "GPU", PERCENT_0, FOPO_INK_PLAIN},
    {FOPO_VIEW_GPU_MEMORY, "GPU mem", BYTES, FOPO_INK_PLAIN},
    {FOPO_VIEW_COST, "view costs", PERCENT_2, FOPO_INK_DIM},
};
enum { ROWS = sizeof table / sizeof *table, FIGURES = ROWS + FOPO_STATISTIC_ROWS };

/* ---- figure i of FIGURES: a row of the table, or a statistic ---- */

static int number_of(int i) { return i < ROWS ? table[i].number : i - ROWS; }

static int in_table(int number) {
  for (int i = 0; i < ROWS; i++) {
    if (table[i].number == number) return 1;
  }
  return 0;
}

static const char *label_of(int i) {
  if (i < ROWS && table[i].label != NULL) return table[i].label;
  return fopo_statistic_rows[number_of(i)].label;
}

static form form_of(int i) { return i < ROWS ? table[i].form : REAL; }

static fopo_ink ink_of(int i) { return i < ROWS ? table[i].ink : FOPO_INK_PLAIN; }

/* True if the figure has something to say now. */
static int is_shown(const fopo_view_model *m, int i) {
  int number = number_of(i);
  double v = m->number[number];
  if (i >= ROWS && (in_table(number) || *label_of(i) == '\0')) return 0;
  return fopo_pane_known(v) && (number != FOPO_VIEW_SHORT_ROWS || v > 0);
}

/* Weights of an effective sample size below a tenth of the samples say little. */
static int is_low_ess(const double *x) {
  return fopo_pane_known(x[FOPO_VIEW_SAMPLES]) && x[FOPO_VIEW_ESS] < x[FOPO_VIEW_SAMPLES] / 10;
}

static void write_value(char out[2 * FOPO_WORD], const double *x, int i) {
  char word[FOPO_WORD];
  double v = x[number_of(i)];
  switch (form_of(i)) {
  case REAL: fopo_word_real(out, v); break;
  case COUNT: snprintf(out, 2 * FOPO_WORD, "%.0f", v); break;
  case PERCENT_0: snprintf(out, 2 * FOPO_WORD, "%.0f %%", 100 * v); break;
  case PERCENT_1: snprintf(out, 2 * FOPO_WORD, "%.1f %%", 100 * v); break;
  case PERCENT_2: snprintf(out, 2 * FOPO_WORD, "%.2f %%", 100 * v); break;
  case TIME: fopo_word_time(out, v); break;
  case BYTES: fopo_word_bytes(out, v); break;
  case PER_SECOND:
    fopo_word_rate(word, v);
    snprintf(out, 2 * FOPO_WORD, "%s /s", word);
    break;
  case BEST:
    fopo_word_short(word, x[FOPO_VIEW_BEST_STEP]);
    snprintf(out, 2 * FOPO_WORD, "%.4f @%s", v, word);
    break;
  case ESS:
    if (fopo_pane_known(x[FOPO_VIEW_SAMPLES])) {
      snprintf(out, 2 * FOPO_WORD, "%.1f of %.0f", v, x[FOPO_VIEW_SAMPLES]);
    } else {
      snprintf(out, 2 * FOPO_WORD, "%.1f", v);
    }
    break;
  }
}

/* ---- layout ---- */

static int count(const fopo_view_model *m) {
  int n = m->device[0] != '\0';
  for (int i = 0; i < FIGURES; i++) n += is_shown(m, i);
  return n;
}

static int columns(int cols) { return (cols + 1) / COLUMN > 1 ? (cols + 1) / COLUMN : 1; }

static int rows(const fopo_view_model *m, int area_rows, int area_cols) {
  (void)area_rows;
  int across = columns(area_cols);
  return (count(m) + across - 1) / across;
}

/* Figure `n` of those shown, in a grid that is filled column by column. */
static void draw_one(fopo_screen *s, fopo_area area, int n, int down, int width, const char *label,
                     fopo_ink ink, const char *value) {
  int row = area.row + n % down, col = area.col + n / down * width;
  fopo_screen_put(s, row, col, width - 2, FOPO_INK_DIM, label);
  if (width - 2 > LABEL) fopo_screen_put(s, row, col + LABEL, width - 2 - LABEL, ink, value);
}

static void draw(fopo_screen *s, fopo_area area, const fopo_view_model *m) {
  char value[2 * FOPO_WORD];
  int total = count(m), across = columns(area.cols), n = 0;
  if (across > total) across = total > 0 ? total : 1;
  int down = (total + across - 1) / across, width = (area.cols + 1) / across;
  if (down > area.rows) down = area.rows;
  for (int i = 0; i < FIGURES && n < across * down; i++) {
    if (!is_shown(m, i)) continue;
    fopo_ink ink = form_of(i) == ESS && is_low_ess(m->number) ? FOPO_INK_WARN : ink_of(i);
    write_value(value, m->number, i);
    draw_one(s, area, n++, down, width, label_of(i), ink, value);
  }
  if (m->device[0] == '\0' || n >= across * down) return;
  snprintf(value, sizeof value, "%.60s", m->device);
  for (char *part;
       fopo_screen_width(value) > width - 2 - LABEL && (part = strrchr(value, ',')) != NULL;) {
    *part = '\0';
  }
  draw_one(s, area, n, down, width, "on", FOPO_INK_DIM, value);
}

const fopo_pane fopo_pane_figures = {.name = "figures",
                                     .place = FOPO_PANE_FIGURES,
                                     .least_rows = 2,
                                     .least_cols = 1,
                                     .rows = rows,
                                     .draw = draw};
