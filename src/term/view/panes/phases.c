/* The share of each phase in the time of a step: one bar, and the names of its largest parts. */
#include <math.h>
#include <stdio.h>

#include "term/view/pane.h"

enum { LABEL = 11, LEAST_BAR = 12 }; /* columns: of the label; of the bar */

static const fopo_ink inks[] = {FOPO_INK_TRAIN, FOPO_INK_VALID, FOPO_INK_INDEX, FOPO_INK_RATE,
                                FOPO_INK_WARN};
enum { INKS = sizeof inks / sizeof *inks };

static fopo_ink ink(int phase) { return inks[phase % INKS]; }

/* What a phase is drawn with: the first letter of its name if there are only ASCII characters. */
static uint32_t mark(const fopo_view_model *m, int phase, uint32_t code) {
  return m->glyphs == FOPO_GLYPHS_ASCII ? (unsigned char)fopo_phase_rows[phase].name[0] : code;
}

static double share(const fopo_view_model *m, int phase) {
  return m->phase[phase] > 0 ? m->phase[phase] : 0;
}

/* Writes "search 28 %" for the largest phases, as many as leave the bar at least LEAST_BAR of *bar
 * columns. Returns the set of the phases written. */
static int name_largest(char piece[FOPO_PHASES][32], int *bar, const fopo_view_model *m,
                        double sum) {
  int named = 0;
  for (int pass = 0; pass < FOPO_PHASES; pass++) {
    int best = -1;
    for (int i = 0; i < FOPO_PHASES; i++) {
      if (!(named >> i & 1) && (best < 0 || m->phase[i] > m->phase[best])) best = i;
    }
    int n = snprintf(piece[best], sizeof piece[best], "%s %.0f %%", fopo_phase_rows[best].name,
                     100 * m->phase[best] / sum) +
            4;
    if (*bar - n < LEAST_BAR) break;
    named |= 1 << best;
    *bar -= n;
  }
  return named;
}

static void draw(fopo_screen *s, fopo_area area, const fopo_view_model *m) {
  double sum = 0, upto = 0;
  int row = area.row, at = LABEL, bar = area.cols - LABEL - 1;
  char piece[FOPO_PHASES][32];
  for (int i = 0; i < FOPO_PHASES; i++) sum += share(m, i);
  fopo_screen_put(s, row, 1, LABEL, FOPO_INK_DIM, "time");
  if (!(sum > 0)) return;

  int named = name_largest(piece, &bar, m, sum);
  for (int i = 0; i < FOPO_PHASES; i++) {
    upto += share(m, i);
    int end = LABEL + (int)lround(bar * upto / sum);
    for (; at < end; at++) fopo_screen_set(s, row, at, mark(m, i, 0x2588), ink(i));
  }
  for (int i = 0; i < FOPO_PHASES; i++) {
    if (!(named >> i & 1)) continue;
    at += 2;
    fopo_screen_set(s, row, at, mark(m, i, 0x25A0), ink(i));
    at += 2 + fopo_screen_put(s, row, at + 2, area.cols - at - 2, FOPO_INK_DIM, piece[i]);
  }
}

const fopo_pane fopo_pane_phases = {
    .name = "phases", .place = FOPO_PANE_BOTTOM, .least_rows = 12, .least_cols = 40, .draw = draw};
