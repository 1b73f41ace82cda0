/* Pictures of series, .svg and .png, drawn by gnuplot.
 *
 * What comes in is numbers and words, never a command: the commands are made here, and in them a
 * word is letters, spaces and \ooo for every other byte. gnuplot reads no start-up file. */
#ifndef FOPO_TERM_PICTURE_H
#define FOPO_TERM_PICTURE_H

#include <stddef.h>

#include "core/program.h"

enum { FOPO_PICTURE_WORD = 512, FOPO_PICTURE_SERIES = 256, FOPO_PICTURE_LABELS = 256 };

/* A word: a title or a name, of at most 511 bytes; "": none. */
typedef char fopo_picture_word[FOPO_PICTURE_WORD];

typedef enum { FOPO_PICTURE_SVG, FOPO_PICTURE_PNG } fopo_picture_kind;
typedef enum { FOPO_PICTURE_LINES, FOPO_PICTURE_POINTS, FOPO_PICTURE_BARS } fopo_picture_style;

/* How the intervals of lines are drawn; FEW: as bands if the series are few, else as bars. */
typedef enum { FOPO_PICTURE_FEW, FOPO_PICTURE_BANDS, FOPO_PICTURE_ERRORS } fopo_picture_intervals;

typedef struct {
  fopo_picture_word name;
  fopo_picture_style style;
  size_t n;                 /* points */
  const double *x, *y;      /* [n]; not owned; of points that are not finite lines have a gap */
  const double *low, *high; /* [n]; not owned; NULL: no intervals */
} fopo_picture_series;

typedef struct {
  fopo_picture_kind kind;
  int width, height; /* pixels */
  int logx, logy;    /* 1: logarithmic */
  fopo_picture_intervals intervals;
  fopo_picture_word title, xlabel, ylabel;
  size_t n_labels;           /* of what stands at x = 1, 2, ...; at most FOPO_PICTURE_LABELS */
  fopo_picture_word *labels; /* [n_labels]; not owned */
  size_t n_series;           /* at most FOPO_PICTURE_SERIES */
  const fopo_picture_series *series; /* [n_series]; not owned */
} fopo_picture;

/* Draws it: what gnuplot left behind, the picture as `out`. Freed by fopo_output_done. */
int fopo_picture_draw(fopo_output *output, const fopo_picture *picture);

#endif
