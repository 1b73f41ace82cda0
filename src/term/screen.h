/* A screen of character cells in memory. It can be shown by a terminal (view/terminal.h), or
 * written as plain text, text with ANSI colours or an SVG picture, without any terminal. */
#ifndef FOPO_TERM_SCREEN_H
#define FOPO_TERM_SCREEN_H

#include <stdint.h>

#include "term/theme.h"

typedef struct {
  uint32_t code; /* a character one column wide */
  uint32_t ink;
} fopo_cell;

typedef struct {
  int rows, cols;
  fopo_cell *cells; /* [rows, cols] */
} fopo_screen;

enum { FOPO_SCREEN_MOST = 1000 }; /* rows, and columns */

/* Gives a screen this size and blanks it; the screen starts as {0}. Sizes are clamped to 1 .. MOST.
 */
int fopo_screen_resize(fopo_screen *s, int rows, int cols);
void fopo_screen_done(fopo_screen *s);
void fopo_screen_clear(fopo_screen *s);

/* Sets a cell; does nothing outside the screen. */
void fopo_screen_set(fopo_screen *s, int row, int col, uint32_t code, fopo_ink ink);

/* Writes UTF-8 text from (row, col) on, in at most `width` columns. Control characters, and
 * characters that are not one column wide, become '?'. Returns the columns used. */
int fopo_screen_put(fopo_screen *s, int row, int col, int width, fopo_ink ink, const char *text);

/* The columns that fopo_screen_put would use. */
int fopo_screen_width(const char *text);

/* Ends text that is wider behind its last word that fits, if one does. */
void fopo_screen_cut(char *text, int width);

/* *text becomes a new string; free it with fopo_free. Blanks at the end of a line are left out. */
int fopo_screen_text(char **text, const fopo_screen *s);
int fopo_screen_ansi(char **text, const fopo_screen *s);
int fopo_screen_svg(char **text, const fopo_screen *s);

#endif
