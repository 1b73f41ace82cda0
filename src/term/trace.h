/* A series of any length in constant memory, for drawing. The latest values are kept one by one,
 * older ones in buckets of 4, 16, 64 ... values with their least, greatest and mean. Each level is
 * a ring buffer; when the last is full, after some 30 million values, the oldest are dropped. */
#ifndef FOPO_TERM_TRACE_H
#define FOPO_TERM_TRACE_H

#include <stddef.h>

typedef struct {
  double x[2]; /* step and seconds of the last value */
  double low, high;
  double sum;
  double n; /* values; 0: none yet */
} fopo_bucket;

enum { FOPO_TRACE_LEVELS = 8, FOPO_TRACE_RING = 2048, FOPO_TRACE_FACTOR = 4 };

typedef struct {
  fopo_bucket *ring[FOPO_TRACE_LEVELS];   /* [RING] each; NULL until the first bucket */
  size_t count[FOPO_TRACE_LEVELS];        /* buckets ever added */
  fopo_bucket pending[FOPO_TRACE_LEVELS]; /* the bucket that is being filled */
} fopo_trace;

void fopo_trace_done(fopo_trace *t); /* leaves an empty trace */

/* Adds a value; one that is not finite, or whose step or seconds are 1e300 or more, is left out,
 * and so is this one after FOPO_ERR_MEMORY. */
int fopo_trace_add(fopo_trace *t, double step, double seconds, double value);

/* The finest level whose oldest bucket is at x[axis] <= from, or that holds the whole series. */
int fopo_trace_level(const fopo_trace *t, int axis, double from);

/* Bucket i of a level in order of time; the unfinished buckets of this and the finer levels come
 * last. NULL after the last. */
const fopo_bucket *fopo_trace_get(const fopo_trace *t, int level, size_t i);

/* The last value; n == 0 if there is none. */
fopo_bucket fopo_trace_last(const fopo_trace *t);

#endif
