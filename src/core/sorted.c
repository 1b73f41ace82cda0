#include "core/sorted.h"

#include <stdlib.h>

static int by_f64(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int by_u32(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

void fopo_sort_f64(double *x, size_t n) { qsort(x, n, sizeof *x, by_f64); }

void fopo_sort_u32(uint32_t *x, size_t n) { qsort(x, n, sizeof *x, by_u32); }
