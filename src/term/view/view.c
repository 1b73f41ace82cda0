/* The layout of the panes; pane.h states the rules. */
#include "term/view/view.h"

#include "term/view/pane.h"

static const fopo_pane *const panes[] = {
#define X(name) &fopo_pane_##name,
#include "term/view/panes/panes.def"
#undef X
};
enum { PANES = sizeof panes / sizeof *panes };

enum {
  SIDE_COLS = 110,      /* columns of the screen from which the figures may stand at the side */
  SIDE_WIDE_COLS = 140, /* ... and have a wider column */
  SIDE = 34,
  SIDE_WIDE = 44,
  PLOT_ROWS = 3 /* a plot of fewer rows says nothing */
};

/* Rows that pane p wants of an area; 0 if it is not to be shown on this screen. */
static int wanted(const fopo_pane *p, const fopo_screen *s, const fopo_view_model *m, int rows,
                  int cols) {
  if (s->rows < p->least_rows || s->cols < p->least_cols) return 0;
  return p->rows != NULL ? p->rows(m, rows, cols) : 1;
}

/* Draws the panes of the edges; *middle becomes the area that they leave. */
static void draw_edges(fopo_screen *s, fopo_area *middle, const fopo_view_model *m) {
  *middle = (fopo_area){0, 0, s->rows, s->cols};
  for (int i = 0; i < PANES; i++) {
    int top = panes[i]->place == FOPO_PANE_TOP;
    if (!top && panes[i]->place != FOPO_PANE_BOTTOM) continue;
    int rows = wanted(panes[i], s, m, s->rows, s->cols);
    if (rows > middle->rows) rows = middle->rows;
    if (rows == 0) continue;
    int row = top ? middle->row : middle->row + middle->rows - rows;
    panes[i]->draw(s, (fopo_area){row, 0, rows, s->cols}, m);
    middle->rows -= rows;
    if (top) middle->row += rows;
  }
}

/* The weight of plot p on this screen; 0 if it is not to be shown or is no plot. */
static int weight(const fopo_pane *p, const fopo_screen *s, const fopo_view_model *m, int stacked) {
  if (p->place != FOPO_PANE_PLOT || wanted(p, s, m, s->rows, s->cols) == 0) return 0;
  return stacked ? p->weight.down : p->weight.across;
}

/* Divides an area among the plots in proportion to their weights: above each other if `stacked`,
 * else beside each other. `margin` columns stay free at the edges and between two plots. */
static void draw_plots(fopo_screen *s, fopo_area area, int stacked, int margin,
                       const fopo_view_model *m) {
  int total = 0, sum = 0, from = 0;
  int size = stacked ? area.rows : area.cols;
  for (int i = 0; i < PANES; i++) total += weight(panes[i], s, m, stacked);
  for (int i = 0; i < PANES; i++) {
    int own = weight(panes[i], s, m, stacked);
    if (own == 0) continue;
    sum += own;
    int to = size * sum / total, col = stacked || from == 0 ? margin : from;
    fopo_area part = {area.row, area.col + col, area.rows,
                      (stacked ? area.cols : to) - col - margin};
    if (stacked) part.row += from, part.rows = to - from;
    panes[i]->draw(s, part, m);
    from = to;
  }
}

static const fopo_pane *figures(void) {
  for (int i = 0; i < PANES; i++) {
    if (panes[i]->place == FOPO_PANE_FIGURES) return panes[i];
  }
  return NULL;
}

/* Plots on the left, figures on the right, if the screen is wide enough and all figures fit into
 * one column there. Returns 0 if not. */
static int draw_side_by_side(fopo_screen *s, fopo_area area, const fopo_view_model *m) {
  const fopo_pane *f = figures();
  int side = s->cols >= SIDE_WIDE_COLS ? SIDE_WIDE : SIDE;
  if (fopo_pane_small(s->rows, s->cols) || s->cols < SIDE_COLS || f == NULL) return 0;
  if (wanted(f, s, m, area.rows, side) > area.rows) return 0;
  draw_plots(s, (fopo_area){area.row, 0, area.rows, s->cols - side - 1}, 1, 1, m);
  f->draw(s, (fopo_area){area.row, s->cols - side, area.rows, side}, m);
  return 1;
}

/* Plots above, figures below. The figures get the rows that they want as long as the plots keep
 * four rows, or half of the area on a small screen. */
static void draw_stacked(fopo_screen *s, fopo_area area, const fopo_view_model *m) {
  const fopo_pane *f = figures();
  int small = fopo_pane_small(s->rows, s->cols), plots = 0;
  for (int i = 0; i < PANES; i++) plots += weight(panes[i], s, m, 0);
  int rows = f == NULL ? 0 : wanted(f, s, m, area.rows, s->cols - 1);
  int most = small ? (area.rows - 1) / 2 : area.rows > 6 ? area.rows - 4 : 2;
  if (rows > most) rows = most;
  if (plots == 0 || area.rows - rows < PLOT_ROWS) rows = area.rows;
  fopo_area below = {area.row + area.rows - rows, 1, rows, s->cols - 1};
  if (rows < area.rows) {
    draw_plots(s, (fopo_area){area.row, 0, area.rows - rows, s->cols}, 0, !small, m);
  }
  if (f != NULL && rows > 0) f->draw(s, below, m);
}

void fopo_view_draw(fopo_screen *s, const fopo_view_model *m) {
  fopo_area middle;
  fopo_screen_clear(s);
  draw_edges(s, &middle, m);
  if (middle.rows > 0 && !draw_side_by_side(s, middle, m)) draw_stacked(s, middle, m);
  for (int i = 0; i < PANES; i++) {
    if (panes[i]->place != FOPO_PANE_OVER || wanted(panes[i], s, m, s->rows, s->cols) == 0) {
      continue;
    }
    panes[i]->draw(s, (fopo_area){0, 0, s->rows, s->cols}, m);
  }
}
