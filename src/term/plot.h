/* Curves as text: a pure function from numbers to lines of characters.
 *
 * Braille dots (2 x 4 in a character) if the terminal has them and the series can be told apart, by
 * colour or because there is one; otherwise each series has a mark, one character for a point. */
#ifndef FOPO_TERM_PLOT_H
#define FOPO_TERM_PLOT_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *name; /* for the legend; NULL: none */
  const double *x;  /* [n]; points are joined in this order */
  const double *y;  /* [n]; a value that is not finite makes a gap */
  size_t n;
} fopo_series;

typedef struct {
  const fopo_series *series; /* [n_series]; not owned */
  size_t n_series;
  uint64_t points;                     /* bit i: the points of series i are not joined */
  const char *title, *xlabel, *ylabel; /* NULL: none */
  int logx, logy; /* 1: logarithmic; values <= 0 are left out, and the text says how many */
  int width;      /* columns of the whole, >= 24; 0: 80 */
  int height;     /* lines of the canvas, >= 3; 0: 16 */
  int utf8;       /* 1: braille and box lines may be used */
  int blocks;     /* 1: quarter blocks in the place of braille */
  int colour;     /* 1: ANSI colours may be used */
} fopo_plot;

/* *text becomes a new string of lines; free it with fopo_free. FOPO_ERR_ARGUMENT if there is
 * nothing to draw or the size is out of its bounds. */
int fopo_plot_text(char **text, const fopo_plot *plot);

#endif
