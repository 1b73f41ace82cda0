/* A series of any length in constant memory, for drawing: the latest values one by one, older ones
 * in buckets of 4, 16, 64 ... values, of which the least, the greatest and the mean are kept. Each
 * level is a ring; when all are full (after some 30 million values) the oldest go. */
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
  fopo_bucket *ring[FOPO_TRACE_LEVELS];   /* [RING] each; NULL before it is needed */
  size_t count[FOPO_TRACE_LEVELS];        /* buckets ever put into it */
  fopo_bucket pending[FOPO_TRACE_LEVELS]; /* of each level, being filled */
} fopo_trace;

void fopo_trace_done(fopo_trace *t); /* leaves an empty trace */

/* A value that is not finite is left out. FOPO_ERR_MEMORY: so is this one. */
int fopo_trace_add(fopo_trace *t, double step, double seconds, double value);

/* The finest level that reaches back to x[axis] >= from, or to the beginning. */
int fopo_trace_level(const fopo_trace *t, int axis, double from);

/* Bucket i of a level, in order of time, those being filled last; NULL after the last. */
const fopo_bucket *fopo_trace_get(const fopo_trace *t, int level, size_t i);

/* The last value; n == 0 where there is none. */
fopo_bucket fopo_trace_last(const fopo_trace *t);

#endif
