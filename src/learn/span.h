/* Contexts of a batch whose queries lie on the device: a part of the batch, or a piece of a part.
 */
#ifndef FOPO_LEARN_SPAN_H
#define FOPO_LEARN_SPAN_H

#include <stddef.h>
#include <stdint.h>

/* All arrays are row-major with one row a context; not owned. */
typedef struct {
  size_t first, n;             /* places first .. first + n - 1 of the batch */
  const uint32_t *rows;        /* [n] their ids, on the host */
  const uint32_t *device_rows; /* [n] */
  float *Q;                    /* device [n, L] their queries h(x) / T */
  float *V;                    /* device [n, L] one v a context; scratch until it is combined */
  float *stats;                /* device [n, FOPO_STATS] */
} fopo_span;

#endif
