/* Curves in a rectangle of a screen: traces as lines of braille dots, quarter blocks or characters,
 * with a legend above and axes on the left and below. A pure function from numbers to cells. */
#ifndef FOPO_TERM_CURVES_H
#define FOPO_TERM_CURVES_H

#include "term/screen.h"
#include "term/trace.h"

typedef enum { FOPO_GLYPHS_ASCII, FOPO_GLYPHS_BLOCK, FOPO_GLYPHS_BRAILLE } fopo_glyphs;

typedef struct {
  const char *name;        /* for the legend; NULL: none */
  const fopo_trace *trace; /* not owned */
  fopo_ink ink;
  char mark;  /* its character in ASCII; in all modes if `points` and there are few */
  int points; /* 1: draw each value as a mark while there are few */
  int smooth; /* 1: the moving average applies to this curve */
} fopo_curve;

typedef struct {
  const char *title;
  const fopo_curve *curves; /* [n]; later ones are on top */
  size_t n;
  fopo_glyphs glyphs;
  int axis;      /* 0: steps; 1: seconds */
  double window; /* units of that axis up to the last value; 0: all */
  int logy;
  double smoothing; /* 0: none, else the weight of the past in a moving average, < 1 */
  int mono;         /* 1: without colours, a smoothed curve is drawn without its raw values */
} fopo_curves;

/* Fills `rows` x `cols` cells from (row, col) on: from 1 row (the title) and 4 columns up. */
void fopo_curves_draw(fopo_screen *s, int row, int col, int rows, int cols, const fopo_curves *c);

#endif
