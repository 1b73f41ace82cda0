/* Contexts of a batch whose queries lie on the device: a part of the batch, or a piece of a part.
 */
#ifndef FOPO_DEVICE_SPAN_H
#define FOPO_DEVICE_SPAN_H

#include "device/device.h"

/* All arrays are row-major with one row a context, and not owned. */
typedef struct {
  size_t first, n;          /* places first .. first + n - 1 of the batch */
  const uint32_t *rows;     /* [n] their ids, on the host */
  fopo_device_batch device; /* the same for the device's operations */
  fopo_matrix X;            /* device [n, D], of a part alone */
  fopo_matrix Q;            /* device [n, L] the queries h(x) / T */
  fopo_matrix V;            /* device [n, L] one v a context; scratch until it is combined */
  float *stats;             /* device [n, FOPO_STATS] */
} fopo_span;

/* Contexts of many steps that lie on the device already: of batches whose rows lie in `host`. */
typedef struct {
  const uint32_t *host;   /* [n]; NULL: there is none */
  const uint32_t *device; /* host[0] is at place `at` */
  size_t n, at;
} fopo_row_order;

#endif
