/* A screen of character cells in memory. What is drawn on it can be shown by a terminal (view.h),
 * or turned into plain text, text with ANSI colours, or an SVG picture, without any terminal. */
#ifndef FOPO_TERM_SCREEN_H
#define FOPO_TERM_SCREEN_H

#include <stddef.h>
#include <stdint.h>

/* What a cell is for; how that looks is the terminal's or the picture's business. */
typedef enum {
  FOPO_INK_PLAIN,
  FOPO_INK_DIM,
  FOPO_INK_BOLD,
  FOPO_INK_BAR,   /* head and foot lines: reversed */
  FOPO_INK_TRAIN, /* the curves, in colours that can be told apart by all */
  FOPO_INK_VALID,
  FOPO_INK_INDEX,
  FOPO_INK_RATE,
  FOPO_INK_WARN,
  FOPO_INKS
} fopo_ink;

typedef struct {
  uint32_t code; /* a character one column wide */
  uint32_t ink;
} fopo_cell;

typedef struct {
  int rows, cols;
  fopo_cell *cells; /* [rows, cols] */
} fopo_screen;

enum { FOPO_SCREEN_MOST = 1000 }; /* rows, and columns */

/* Gives a zeroed or earlier screen this size, all blank. Sizes are brought into 1 .. MOST. */
int fopo_screen_resize(fopo_screen *s, int rows, int cols);
void fopo_screen_done(fopo_screen *s);
void fopo_screen_clear(fopo_screen *s);

/* Outside the screen nothing is set. */
void fopo_screen_set(fopo_screen *s, int row, int col, uint32_t code, fopo_ink ink);

/* Writes UTF-8 text from (row, col) on, in at most `width` columns. Control characters, and what is
 * not one column wide, become '?'. Returns the columns used. */
int fopo_screen_put(fopo_screen *s, int row, int col, int width, fopo_ink ink, const char *text);

/* Columns that fopo_screen_put would use. */
int fopo_screen_width(const char *text);

/* *text becomes a fresh string, to be freed with fopo_free; lines without blanks at their end. */
int fopo_screen_text(char **text, const fopo_screen *s);
int fopo_screen_ansi(char **text, const fopo_screen *s);
int fopo_screen_svg(char **text, const fopo_screen *s);

#endif
