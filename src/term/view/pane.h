/* The panes of the live view. A pane is one file in panes/ and one row in panes/panes.def; view.c
 * lays the panes out from that table alone.
 *
 * To add a pane:
 *   1. write panes/NAME.c, which defines `const fopo_pane fopo_pane_NAME` and its draw function;
 *   2. add the row X(NAME) to panes/panes.def.
 * Nothing else changes: the Makefile compiles every file in src/. panes/throughput.c is a short
 * example.
 *
 * Layout. Panes at the TOP and at the BOTTOM take whole lines of the screen, in the order of the
 * table, from its edge inwards. What is left in the middle is shared by the PLOTS, beside or above
 * each other in proportion to their weights, and the FIGURES, below or to the right of the plots.
 * OVER panes are drawn last, over everything. */
#ifndef FOPO_TERM_VIEW_PANE_H
#define FOPO_TERM_VIEW_PANE_H

#include "term/screen.h"
#include "term/view/model.h"

/* A rectangle of the screen, in cells. */
typedef struct {
  int row, col, rows, cols;
} fopo_area;

typedef enum {
  FOPO_PANE_TOP,
  FOPO_PANE_BOTTOM,
  FOPO_PANE_PLOT,
  FOPO_PANE_FIGURES,
  FOPO_PANE_OVER
} fopo_place;

typedef struct {
  const char *name;
  fopo_place place;
  int least_rows, least_cols; /* of the screen; the pane is left out of a smaller one */
  struct {
    int across, down; /* beside other plots; above or below them */
  } weight;           /* PLOT only: its share of the width or height of all plots */
  /* Rows that the pane wants of `rows` x `cols` cells (of the whole screen for TOP, BOTTOM and
   * OVER); 0: it has nothing to show now. NULL: one row at the TOP and BOTTOM; PLOTs take their
   * share. */
  int (*rows)(const fopo_view_model *m, int rows, int cols);
  void (*draw)(fopo_screen *s, fopo_area area, const fopo_view_model *m);
} fopo_pane;

#define X(name) extern const fopo_pane fopo_pane_##name;
#include "term/view/panes/panes.def"
#undef X

/* ---- what several panes need: pane.c ---- */

/* True on a screen so small that the head is a summary, and margins and the list of keys are left
 * out. */
int fopo_pane_small(int rows, int cols);

/* False for NaN and infinities: such a figure is not shown. */
int fopo_pane_known(double v);

/* The horizontal line of the borders, in the characters that the model allows. */
uint32_t fopo_pane_rule(const fopo_view_model *m);

/* A row of the screen in the ink of head and foot. */
void fopo_pane_bar(fopo_screen *s, int row, const char *text);

/* The command being typed, with its cursor, on such a row. */
void fopo_pane_command(fopo_screen *s, int row, const fopo_view_model *m);

/* Appends a piece to a line of `width` columns if it still fits; the first piece always. */
void fopo_pane_append(char *line, size_t size, int width, const char *piece);

/* Draws curves with the axis, window, scale and glyphs that the keys have set. */
void fopo_pane_curves(fopo_screen *s, fopo_area area, const fopo_view_model *m, const char *title,
                      const fopo_curve *curves, size_t n);

#endif
