/* Bresenham's line, and the order of the bits of U+2800: columns first, but the lowest row last. */
#include "term/dots.h"

const uint32_t fopo_dots_quarters[16] = {' ',    0x2598, 0x259D, 0x2580, 0x2596, 0x258C,
                                         0x259E, 0x259B, 0x2597, 0x259A, 0x2590, 0x259C,
                                         0x2584, 0x2599, 0x259F, 0x2588};

uint8_t fopo_dots_braille(int x, int y) {
  static const uint8_t bits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
  return bits[y % 4][x % 2];
}

/* Bresenham's line. */
void fopo_dots_line(fopo_dot *dot, void *canvas, int x0, int y0, int x1, int y1) {
  int dx = x1 > x0 ? x1 - x0 : x0 - x1, dy = y1 > y0 ? y0 - y1 : y1 - y0;
  int sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1, error = dx + dy;
  for (;;) {
    dot(canvas, x0, y0);
    if (x0 == x1 && y0 == y1) return;
    int twice = 2 * error;
    if (twice >= dy) error += dy, x0 += sx;
    if (twice <= dx) error += dx, y0 += sy;
  }
}
