/* How evenly the weights are spread, as an example of a pane: a bar as long as the share of the
 * draws that the effective sample size is worth. */
#include <math.h>
#include <stdio.h>

#include "term/view/pane.h"

enum { LABEL = 11 }; /* columns */

static double share(const fopo_view_model *m) {
  return m->number[FOPO_VIEW_ESS] / m->number[FOPO_VIEW_SAMPLES];
}

/* One line, if the run has draws. */
static int rows(const fopo_view_model *m, int screen_rows, int screen_cols) {
  (void)screen_rows;
  (void)screen_cols;
  return fopo_pane_known(share(m));
}

static void draw(fopo_screen *s, fopo_area area, const fopo_view_model *m) {
  char text[32];
  int bar = area.cols - LABEL - 1, length = (int)lround(bar * share(m));
  uint32_t mark = m->glyphs == FOPO_GLYPHS_ASCII ? '#' : 0x2588;
  snprintf(text, sizeof text, "even %.0f %%", 100 * share(m));
  fopo_screen_put(s, area.row, 1, LABEL, FOPO_INK_DIM, text);
  for (int col = 0; col < length && col < bar; col++) {
    fopo_screen_set(s, area.row, LABEL + col, mark, FOPO_INK_TRAIN);
  }
}

const fopo_pane fopo_pane_weights = {.name = "weights",
                                     .place = FOPO_PANE_BOTTOM,
                                     .least_rows = 16,
                                     .least_cols = 40,
                                     .rows = rows,
                                     .draw = draw};
