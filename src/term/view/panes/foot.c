/* The last line: the command being typed, a message, or the keys. */
#include <stdio.h>

#include "term/view/pane.h"

/* On a small screen the line is better used for figures while there is nothing to say. */
static int rows(const fopo_view_model *m, int screen_rows, int screen_cols) {
  return !fopo_pane_small(screen_rows, screen_cols) || m->cursor >= 0 || m->message[0] != '\0';
}

static void draw(fopo_screen *s, fopo_area area, const fopo_view_model *m) {
  static const char *const keys[] = {" ? help",  "q leave",      "space pause", "n step", "+ - lr",
                                     "[ ] eps",  "k K cands",    "e evaluate",  "s save", "y log",
                                     "w window", "S screenshot", ": Lua"};
  char line[320] = "";
  if (m->cursor >= 0) {
    fopo_pane_command(s, area.row, m);
    return;
  }
  if (m->message[0] != '\0') {
    snprintf(line, sizeof line, " %s", m->message);
  } else {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
      fopo_pane_append(line, sizeof line, area.cols, keys[i]);
    }
  }
  fopo_pane_bar(s, area.row, line);
}

const fopo_pane fopo_pane_foot = {.name = "foot",
                                  .place = FOPO_PANE_BOTTOM,
                                  .least_rows = 3,
                                  .least_cols = 1,
                                  .rows = rows,
                                  .draw = draw};
