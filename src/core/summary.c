#include "core/summary.h"

#include <math.h>
#include <string.h>

#include "core/progress.h"
#include "core/status.h"

enum {
  POLL = 4 << 20,     /* numbers between two polls of the interrupt flag: a few milliseconds */
  SEEN_MOST = 1 << 20 /* numbers that a histogram counts */
};

int fopo_summarise(fopo_summary *s, const float *x, size_t n) {
  *s = (fopo_summary){.least = INFINITY, .largest = -INFINITY};
  for (size_t first = 0; first < n; first += POLL) {
    size_t end = n - first < POLL ? n : first + POLL;
    for (size_t i = first; i < end; i++) {
      double v = (double)x[i];
      s->sum += v;
      s->squares += v * v;
      if (v < s->least) s->least = v;
      if (v > s->largest) s->largest = v;
    }
    int status = fopo_progress("adding up an array", (double)end, (double)n);
    if (status != FOPO_OK) return status;
  }
  /* A NaN fails every comparison, but shows in the sum of squares. */
  if (isnan(s->squares)) s->least = s->largest = NAN;
  return FOPO_OK;
}

size_t fopo_summary_bins(size_t *counts, size_t bins, const fopo_summary *s, const float *x,
                         size_t n) {
  size_t step = (n + SEEN_MOST - 1) / SEEN_MOST, seen = 0;
  double scale = s->largest > s->least ? (double)bins / (s->largest - s->least) : 0.0;
  memset(counts, 0, bins * sizeof *counts);
  for (size_t i = 0; i < n; i += step, seen++) {
    size_t bin = (size_t)(((double)x[i] - s->least) * scale);
    counts[bin < bins ? bin : bins - 1]++;
  }
  return seen;
}
