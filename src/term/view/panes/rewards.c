/* The curves of the reward: training, validation, validation through the index, a measure of
 * lists, earlier runs. */
#include <stdio.h>

#include "term/view/pane.h"

static void write_title(char *title, size_t size, const fopo_view_model *m) {
  size_t n = (size_t)snprintf(title, size, "%s%s", m->measure, m->logy ? ", log" : "");
  if (m->window > 0) {
    snprintf(title + n, size - n, m->axis ? ", last %g s" : ", last %g steps", m->window);
  }
}

static void draw(fopo_screen *s, fopo_area area, const fopo_view_model *m) {
  fopo_curve curves[FOPO_VIEW_OVERLAYS + 4];
  char title[80];
  size_t n = 0;
  for (int i = 0; m->overlays && i < m->n_overlays; i++) {
    curves[n++] = (fopo_curve){m->overlay[i].name, &m->overlay[i].trace, FOPO_INK_DIM, ':', 0, 0};
  }
  const fopo_trace *t = m->trace;
  curves[n++] = (fopo_curve){"train", &t[FOPO_VIEW_TRACE_REWARD], FOPO_INK_TRAIN, '*', 0, 1};
  curves[n++] = (fopo_curve){"via index", &t[FOPO_VIEW_TRACE_INDEX], FOPO_INK_INDEX, 'x', 1, 0};
  curves[n++] = (fopo_curve){"valid", &t[FOPO_VIEW_TRACE_VALID], FOPO_INK_VALID, 'o', 1, 0};
  curves[n++] = (fopo_curve){m->lists, &t[FOPO_VIEW_TRACE_LISTS], FOPO_INK_PLAIN, 'n', 1, 0};
  write_title(title, sizeof title, m);
  fopo_pane_curves(s, area, m, title, curves, n);
}

const fopo_pane fopo_pane_rewards = {.name = "rewards",
                                     .place = FOPO_PANE_PLOT,
                                     .least_rows = 5,
                                     .least_cols = 12,
                                     .weight = {.across = 5, .down = 3},
                                     .draw = draw};
