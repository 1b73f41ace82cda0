/* The model of the view. */
#include "term/view/model.h"

#include <math.h>
#include <string.h>

const char *fopo_view_number_name(int number) {
#define FOPO_VIEW_NAME(id, name, meaning) name,
  static const char *const names[] = {FOPO_VIEW_FIGURES(FOPO_VIEW_NAME)};
#undef FOPO_VIEW_NAME
  if (number >= FOPO_STATISTIC_ROWS) return names[number - FOPO_STATISTIC_ROWS];
  const fopo_statistic *row = &fopo_statistic_rows[number];
  return row->label[0] != '\0' ? row->name : "";
}

void fopo_view_model_init(fopo_view_model *m) {
  memset(m, 0, sizeof *m);
  for (int i = 0; i < FOPO_VIEW_NUMBERS; i++) m->number[i] = (double)NAN;
  memcpy(m->measure, "reward", sizeof "reward");
  m->cursor = -1;
  m->glyphs = FOPO_GLYPHS_BRAILLE;
  m->overlays = 1;
}

void fopo_view_model_done(fopo_view_model *m) {
  for (int i = 0; i < FOPO_VIEW_TRACES; i++) fopo_trace_done(&m->trace[i]);
  for (int i = 0; i < FOPO_VIEW_OVERLAYS; i++) fopo_trace_done(&m->overlay[i].trace);
  m->n_overlays = 0;
}

/* Line number i of the output. */
static char *line_at(fopo_view_model *m, size_t i) { return m->line[i % FOPO_VIEW_LINES]; }

void fopo_view_say(fopo_view_model *m, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char *line = line_at(m, m->n_lines);
    size_t length = strlen(line);
    if (text[i] == '\n') {
      line_at(m, ++m->n_lines)[0] = '\0';
    } else if (text[i] == '\r') {
      line[0] = '\0'; /* a progress bar that redraws itself */
    } else if (text[i] == '\033') {
      while (i + 1 < n && !(text[i + 1] >= 'A' && text[i + 1] <= 'z' && text[i + 1] != '[')) i++;
      i++;
    } else if (((unsigned char)text[i] >= 32 || text[i] == '\t') && length + 1 < FOPO_VIEW_LINE) {
      line[length] = text[i] == '\t' ? ' ' : text[i];
      line[length + 1] = '\0';
    }
  }
}
