#include "judge/baselines/weights.h"

#include "core/memory.h"
#include "core/status.h"
#include "kernels/kernels.h"
#include "mips/topk.h"

int fopo_weights_init(fopo_csr *W, size_t P, size_t most) {
  return fopo_csr_init(W, P, P, P * most, 1);
}

/* High and low half change places: what orders by scores orders by ids, and back. */
static void turn(uint64_t *keys, size_t n) {
  for (size_t i = 0; i < n; i++) keys[i] = keys[i] << 32 | keys[i] >> 32;
}

size_t fopo_weights_choose(uint64_t *keys, size_t n, size_t most) {
  const fopo_kernels *kernels = fopo_kernels_get();
  n = fopo_topk_largest(keys, n, most, kernels);
  turn(keys, n);
  kernels->sort(keys, n);
  turn(keys, n);
  return n;
}

void fopo_weights_put(fopo_csr *W, size_t at, size_t a, const uint64_t *keys, size_t n) {
  W->indptr[a + 1] = n;
  for (size_t i = 0; i < n; i++) {
    W->ids[at + i] = fopo_topk_id(keys[i]);
    W->values[at + i] = fopo_topk_score(keys[i]);
  }
}

int fopo_weights_pack(fopo_csr *W, const uint64_t *room, size_t most) {
  size_t at = 0;
  for (size_t a = 0; a < W->rows; a++) {
    size_t n = (size_t)W->indptr[a + 1], from = room != NULL ? (size_t)room[a] : a * most;
    memmove(W->ids + at, W->ids + from, n * sizeof *W->ids);
    memmove(W->values + at, W->values + from, n * sizeof *W->values);
    at += n;
    W->indptr[a + 1] = at;
  }
  if (fopo_resize(&W->ids, at, sizeof *W->ids) != FOPO_OK) return FOPO_ERR_MEMORY;
  if (fopo_resize(&W->values, at, sizeof *W->values) != FOPO_OK) return FOPO_ERR_MEMORY;
  return FOPO_OK;
}

void fopo_weights_free(void *model) {
  if (model == NULL) return;
  fopo_csr_done(model);
  fopo_free(model);
}

const fopo_csr *fopo_weights_get(const void *model) { return model; }

void fopo_weights_score(float *scores, const fopo_csr *W, const fopo_csr *X, size_t first,
                        size_t n) {
  memset(scores, 0, n * W->cols * sizeof *scores);
  for (size_t i = 0; i < n; i++, scores += W->cols) {
    const uint32_t *taken = fopo_csr_row(X, first + i);
    for (size_t x = 0; x < fopo_csr_count(X, first + i); x++) {
      const uint32_t *ids = fopo_csr_row(W, taken[x]);
      const float *values = W->values + W->indptr[taken[x]];
      for (size_t k = 0; k < fopo_csr_count(W, taken[x]); k++) scores[ids[k]] += values[k];
    }
  }
}
