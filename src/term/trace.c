/* A full bucket is added to the ring of its level and merged into the pending bucket of the coarser
 * level above. */
#include "term/trace.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"

void fopo_trace_done(fopo_trace *t) {
  for (int l = 0; l < FOPO_TRACE_LEVELS; l++) fopo_free(t->ring[l]);
  *t = (fopo_trace){0};
}

static void merge(fopo_bucket *into, const fopo_bucket *b) {
  if (into->n <= 0) {
    *into = *b;
    return;
  }
  into->x[0] = b->x[0], into->x[1] = b->x[1];
  into->low = fmin(into->low, b->low);
  into->high = fmax(into->high, b->high);
  into->sum += b->sum;
  into->n += b->n;
}

/* Far from the limits of double, so that no width of a range overflows. */
static int is_place(double x) { return fabs(x) < 1e300; }

int fopo_trace_add(fopo_trace *t, double step, double seconds, double value) {
  if (!isfinite(value) || !is_place(step) || !is_place(seconds)) return FOPO_OK;
  fopo_bucket b = {{step, seconds}, value, value, value, 1};
  double full = 1;
  for (int l = 0; l < FOPO_TRACE_LEVELS; l++, full *= FOPO_TRACE_FACTOR) {
    merge(&t->pending[l], &b);
    if (t->pending[l].n < full) break;
    if (t->ring[l] == NULL) t->ring[l] = fopo_alloc(FOPO_TRACE_RING, sizeof *t->ring[l]);
    if (t->ring[l] == NULL) return FOPO_ERR_MEMORY;
    b = t->pending[l];
    t->ring[l][t->count[l]++ % FOPO_TRACE_RING] = b;
    t->pending[l] = (fopo_bucket){0};
  }
  return FOPO_OK;
}

int fopo_trace_level(const fopo_trace *t, int axis, double from) {
  int l = 0;
  for (; l < FOPO_TRACE_LEVELS - 1; l++) {
    if (t->count[l] <= FOPO_TRACE_RING) break; /* nothing was dropped */
    if (t->ring[l][t->count[l] % FOPO_TRACE_RING].x[axis] <= from) break;
  }
  return l;
}

const fopo_bucket *fopo_trace_get(const fopo_trace *t, int level, size_t i) {
  size_t held = t->count[level] < FOPO_TRACE_RING ? t->count[level] : FOPO_TRACE_RING;
  if (i < held) return &t->ring[level][(t->count[level] - held + i) % FOPO_TRACE_RING];
  i -= held;
  for (int l = level; l >= 0; l--) { /* a pending bucket is older than those of finer levels */
    if (t->pending[l].n > 0 && i-- == 0) return &t->pending[l];
  }
  return NULL;
}

fopo_bucket fopo_trace_last(const fopo_trace *t) {
  if (t->count[0] == 0) return (fopo_bucket){0};
  return t->ring[0][(t->count[0] - 1) % FOPO_TRACE_RING];
}
