#include "device/cpu/sparse.h"

#include <string.h>

#include "kernels/kernels.h"

enum { TILE = 256 }; /* ids that are filtered at once */

void fopo_cpu_sparse_take(fopo_cpu_sparse *x, const fopo_device_batch *batch, size_t b) {
  fopo_sparse_scores sparse = fopo_batch_scores(batch);
  x->row = fopo_score_row_of(&sparse, b);
  if (x->row.n == 0) return;
  x->bits = FOPO_SPARSE_LEAST_BITS;
  while (x->bits < FOPO_SPARSE_MOST_BITS && (size_t)1 << x->bits < 16 * x->row.n) x->bits++;
  memset(x->bloom, 0, fopo_bloom_words(x->bits) * sizeof *x->bloom);
  for (size_t i = 0; i < x->row.n; i++) fopo_bloom_add(x->bloom, x->bits, x->row.ids[i]);
}

void fopo_cpu_sparse_add(float *f, const fopo_cpu_sparse *x, const uint32_t *ids, size_t n) {
  uint32_t maybe[TILE];
  if (x->row.n == 0) return;
  for (size_t s = 0; s < n; s += TILE) {
    size_t count = n - s < TILE ? n - s : TILE;
    size_t found = fopo_kernels_get()->select_in_bloom(maybe, ids + s, count, x->bloom, x->bits);
    for (size_t i = 0; i < found; i++) {
      float *at = f + s + maybe[i];
      *at = fopo_score_sum(*at, fopo_score_of(&x->row, ids[s + maybe[i]]));
    }
  }
}

void fopo_cpu_sparse_add_run(float *f, const fopo_score_row *row, size_t first, size_t n) {
  if (row->n == 0) return;
  for (size_t i = fopo_score_place(row, (uint32_t)first); i < row->n; i++) {
    if (row->ids[i] >= first + n) break;
    float *at = f + (row->ids[i] - first);
    *at = fopo_score_sum(*at, fopo_score_entry(row, i));
  }
}

int fopo_cpu_all_masked(const float *f, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (f[i] != -INFINITY) return 0; /* NaN is not masked: it must be seen by those who sum */
  }
  return 1;
}
