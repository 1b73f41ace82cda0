/* The curve of the contexts per second. */
#include "term/view/pane.h"

static void draw(fopo_screen *s, fopo_area area, const fopo_view_model *m) {
  const fopo_curve curve = {NULL, &m->trace[FOPO_VIEW_TRACE_RATE], FOPO_INK_RATE, '#', 0, 1};
  fopo_pane_curves(s, area, m, m->axis ? "contexts/s by seconds" : "contexts/s by steps", &curve,
                   1);
}

const fopo_pane fopo_pane_throughput = {.name = "throughput",
                                        .place = FOPO_PANE_PLOT,
                                        .least_rows = 8,
                                        .least_cols = 70,
                                        .weight = {.across = 3, .down = 2},
                                        .draw = draw};
