/* Sorting of ids, of keys and of plain numbers, and what sorted numbers answer at once. */
#ifndef FOPO_CORE_SORT_H
#define FOPO_CORE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Sorts n ids < P, ascending, by radix. other [n] is scratch. */
void fopo_sort_ids(uint32_t *ids, uint32_t *other, size_t n, size_t P);

/* Sorts n keys, no two of them equal, descending: the definition of the kernel `sort`
 * (kernels/kernels.h). */
void fopo_sort_keys(uint64_t *keys, size_t n);

/* Ascending. */
void fopo_sort_f64(double *x, size_t n); /* without NaN */
void fopo_sort_u32(uint32_t *x, size_t n);

/* The mean of the two in the middle of n > 0 numbers: of one, if n is odd. */
static inline double fopo_sorted_median(const double *x, size_t n) {
  return 0.5 * (x[(n - 1) / 2] + x[n / 2]);
}

/* The first place whose id is not smaller than this one; n if all are (binary search). */
static inline size_t fopo_sorted_place(const uint32_t *ids, size_t n, uint32_t id) {
  size_t low = 0, high = n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (ids[middle] < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static inline int fopo_sorted_holds(const uint32_t *ids, size_t n, uint32_t id) {
  size_t place = fopo_sorted_place(ids, n, id);
  return place < n && ids[place] == id;
}

#endif
