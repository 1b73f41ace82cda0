/* The page of keys, over the middle of the screen. */
#include "term/view/pane.h"

static const char *const lines[] = {
    "?  this page; ?, q or Esc puts it away",
    "q  back to the prompt; t:run goes on from there",
    "space  pause, and on    n  one step (or one slice)",
    "+ -  learning rate up, down by a quarter",
    "[ ]  eps down, up by 0.05    k K  half, twice the candidates",
    "e  evaluate now    s  checkpoint now",
    "y  log scale    x  steps or seconds    m  smoothing",
    "w  window: all, then the last part    o  earlier runs",
    "g  braille, blocks or ASCII",
    "S  screenshot: text, ANSI and SVG",
    ":  a line of Lua; t is the trainer    Esc  drop it",
    "Ctrl-L  draw all anew    Ctrl-C  stop the run",
};
enum { LINES = sizeof lines / sizeof *lines };

static int rows(const fopo_view_model *m, int screen_rows, int screen_cols) {
  (void)screen_rows, (void)screen_cols;
  return m->help ? LINES : 0;
}

static void draw(fopo_screen *s, fopo_area area, const fopo_view_model *m) {
  int width = 0;
  for (int i = 0; i < LINES; i++) {
    int w = fopo_screen_width(lines[i]);
    if (w > width) width = w;
  }
  int row = (area.rows - LINES) / 2, col = (area.cols - width) / 2;
  if (row < 0) row = 0;
  if (col < 2) col = 2;
  for (int r = row - 1; r <= row + LINES; r++) { /* a frame of rules, blank inside */
    int edge = r == row - 1 || r == row + LINES;
    for (int c = col - 2; c < col + width + 2; c++) {
      fopo_screen_set(s, r, c, edge ? fopo_pane_rule(m) : ' ', FOPO_INK_DIM);
    }
  }
  for (int i = 0; i < LINES; i++) {
    fopo_screen_put(s, row + i, col, area.cols - col, FOPO_INK_PLAIN, lines[i]);
  }
}

const fopo_pane fopo_pane_help = {.name = "help",
                                  .place = FOPO_PANE_OVER,
                                  .least_rows = 1,
                                  .least_cols = 1,
                                  .rows = rows,
                                  .draw = draw};
