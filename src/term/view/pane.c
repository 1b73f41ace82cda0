/* Pieces that several panes draw. */
#include "term/view/pane.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SMALL_ROWS = 8, SMALL_COLS = 40 }; /* below: plots with margins leave no room for figures */

int fopo_pane_small(int rows, int cols) { return rows < SMALL_ROWS || cols < SMALL_COLS; }

int fopo_pane_known(double v) { return isfinite(v); }

uint32_t fopo_pane_rule(const fopo_view_model *m) {
  return m->glyphs == FOPO_GLYPHS_ASCII ? '-' : 0x2500;
}

void fopo_pane_bar(fopo_screen *s, int row, const char *text) {
  for (int col = 0; col < s->cols; col++) fopo_screen_set(s, row, col, ' ', FOPO_INK_BAR);
  fopo_screen_put(s, row, 0, s->cols, FOPO_INK_BAR, text);
}

void fopo_pane_command(fopo_screen *s, int row, const fopo_view_model *m) {
  const char *text = m->command;
  int skip = m->cursor + 3 - s->cols; /* characters scrolled out, so that the cursor is visible */
  fopo_pane_bar(s, row, "");
  for (int i = 0; i < skip && *text != '\0'; i++) {
    do {
      text++;
    } while ((*text & 0xC0) == 0x80);
  }
  fopo_screen_put(s, row, 0, 1, FOPO_INK_BAR, ":");
  fopo_screen_put(s, row, 1, s->cols - 1, FOPO_INK_BAR, text);
  int at = 1 + m->cursor - (skip > 0 ? skip : 0);
  if (at >= 0 && at < s->cols) { /* the cursor: the cell in plain ink */
    uint32_t code = s->cells[(size_t)row * (size_t)s->cols + (size_t)at].code;
    fopo_screen_set(s, row, at, code == ' ' ? '_' : code, FOPO_INK_BOLD);
  }
}

void fopo_pane_append(char *line, size_t size, int width, const char *piece) {
  size_t n = strlen(line);
  if (n > 0 && (int)(n + 2 + strlen(piece)) > width) return;
  snprintf(line + n, size - n, "%s%s", n > 0 ? "  " : "", piece);
}

void fopo_pane_curves(fopo_screen *s, fopo_area area, const fopo_view_model *m, const char *title,
                      const fopo_curve *curves, size_t n) {
  fopo_curves all = {.title = title,
                     .curves = curves,
                     .n = n,
                     .glyphs = m->glyphs,
                     .axis = m->axis,
                     .window = m->window,
                     .logy = m->logy,
                     .smoothing = m->smoothing,
                     .mono = m->mono};
  fopo_curves_draw(s, area.row, area.col, area.rows, area.cols, &all);
}
