/* The last lines that the program and its libraries have written, below a rule. */
#include "term/view/pane.h"

/* A sixth of the screen; never less than the rule and three lines. */
static int rows(const fopo_view_model *m, int screen_rows, int screen_cols) {
  (void)m, (void)screen_cols;
  return screen_rows / 6 > 4 ? screen_rows / 6 : 4;
}

static void draw(fopo_screen *s, fopo_area area, const fopo_view_model *m) {
  const char *unfinished = m->line[m->n_lines % FOPO_VIEW_LINES];
  size_t lines = m->n_lines + (unfinished[0] != '\0'), shown = (size_t)area.rows - 1;
  for (int i = 0; i < area.cols; i++) {
    fopo_screen_set(s, area.row, area.col + i, fopo_pane_rule(m), FOPO_INK_DIM);
  }
  fopo_screen_put(s, area.row, area.col + 2, area.cols - 2, FOPO_INK_DIM, " output ");
  if (shown > FOPO_VIEW_LINES - 1) shown = FOPO_VIEW_LINES - 1;
  size_t first = lines > shown ? lines - shown : 0;
  for (size_t i = first; i < lines; i++) {
    fopo_screen_put(s, area.row + 1 + (int)(i - first), area.col, area.cols, FOPO_INK_PLAIN,
                    m->line[i % FOPO_VIEW_LINES]);
  }
}

const fopo_pane fopo_pane_output = {.name = "output",
                                    .place = FOPO_PANE_BOTTOM,
                                    .least_rows = 16,
                                    .least_cols = 40,
                                    .rows = rows,
                                    .draw = draw};
