/* Dots of a plot: the lines between them, and their places in a braille character. */
#ifndef FOPO_TERM_DOTS_H
#define FOPO_TERM_DOTS_H

#include <stdint.h>

/* Sets the dot in column x and row y, from the upper left. */
typedef void fopo_dot(void *canvas, int x, int y);

/* Sets the dots of the line from (x0, y0) to (x1, y1), both included. */
void fopo_dots_line(fopo_dot *dot, void *canvas, int x0, int y0, int x1, int y1);

/* The characters of 2 x 2 dots: bit 0 upper left, 1 upper right, 2 lower left, 3 lower right. */
extern const uint32_t fopo_dots_quarters[16];

/* The bit of this dot in its character, which has 2 x 4 dots: to be added to U+2800. */
uint8_t fopo_dots_braille(int x, int y);

#endif
