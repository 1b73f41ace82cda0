/* The sparse part of a context's scores, looked up for many items at once: a Bloom filter rejects
 * most of them, a binary search in the row finds the others. */
#ifndef FOPO_DEVICE_CPU_SPARSE_H
#define FOPO_DEVICE_CPU_SPARSE_H

#include "device/device.h"
#include "kernels/bloom.h"

/* 16 bits of the filter for each id of the row, within 1 and 16 KiB: it stays in the cache. */
enum { FOPO_SPARSE_LEAST_BITS = 13, FOPO_SPARSE_MOST_BITS = 17 };

typedef struct {
  fopo_score_row row; /* n = 0: nothing is added */
  unsigned bits;
  uint32_t bloom[1 << (FOPO_SPARSE_MOST_BITS - 5)];
} fopo_cpu_sparse;

/* The row of context b, ready to be looked up. */
void fopo_cpu_sparse_take(fopo_cpu_sparse *x, const fopo_device_batch *batch, size_t b);

/* f[i] += s(ids[i]) for i < n. */
void fopo_cpu_sparse_add(float *f, const fopo_cpu_sparse *x, const uint32_t *ids, size_t n);

/* f[a] += s(first + a) for a < n, by the ids of the row alone. */
void fopo_cpu_sparse_add_run(float *f, const fopo_score_row *row, size_t first, size_t n);

/* True if all n scores are -infinity: none of the items has any weight. */
int fopo_cpu_all_masked(const float *f, size_t n);

#endif
