/* The target items of an objective, on the GPU: what they add to an estimate. */
#include <cmath>

#include "device/cuda/rows.cuh"

namespace gpu {

struct targets {
  fopo_estimate e;
  const uint64_t *indptr; /* of Y */
  const uint32_t *y;
  const float *value;   /* [P]; NULL: all targets weigh the same */
  const uint32_t *rows; /* [B] rows of Y */
  const float *Q;       /* [B, L] */
  fopo_sparse_scores sparse;
  double log_n;
  size_t S, L;
};

/* A block a context. items [P, ld] */
template <class T>
__global__ void targets_kernel(const __grid_constant__ targets a, const T *items, size_t ld) {
  size_t b = blockIdx.x, L = a.L;
  const uint32_t *y = a.y + a.indptr[a.rows[b]];
  size_t count = a.indptr[a.rows[b] + 1] - a.indptr[a.rows[b]];
  fopo_score_row row = fopo_score_row_of(&a.sparse, b);
  const float *q = a.Q + b * L;
  float *V = a.e.V + b * L, *stats = a.e.stats + b * FOPO_STATS;

  /* the sums of the values of the targets that are not masked, and of their scores times these: a
   * warp takes one target at a time */
  double score = 0, total = 0;
  for (size_t j = threadIdx.x / WARP; j < count; j += blockDim.x / WARP) {
    float s = fopo_score_of(&row, y[j]);
    if (s == -INFINITY) continue;
    double f = 0;
    for (size_t i = threadIdx.x % WARP; i < L; i += WARP) {
      f += (double)to_float(items[y[j] * ld + i]) * (double)q[i];
    }
    double weight = (double)fopo_hit_value(a.value, y[j]);
    score += weight * f;
    if (threadIdx.x % WARP == 0) score += weight * (double)s, total += weight;
  }
  double both[] = {score, total};
  block_sums(both);

  /* V [L] += the weighted mean of their rows: a thread takes a number of all targets at a time */
  bool none = both[1] == 0 || stats[FOPO_STAT_ESS] == 0.0f;
  for (size_t i = threadIdx.x; i < L; i += blockDim.x) {
    double sum = 0;
    for (size_t j = 0; j < count && !none; j++) {
      if (fopo_score_of(&row, y[j]) == -INFINITY) continue;
      sum += (double)fopo_hit_value(a.value, y[j]) * (double)to_float(items[y[j] * ld + i]);
    }
    V[i] = none ? 0.0f : (float)((double)V[i] + sum / both[1]);
  }
  for (size_t s = threadIdx.x; none && a.e.c != nullptr && s < a.S; s += blockDim.x) {
    a.e.c[b * a.S + s] = 0.0f;
  }
  if (threadIdx.x != 0) return;
  double log_z = (double)stats[FOPO_STAT_REWARD] - a.log_n;
  stats[FOPO_STAT_REWARD] = none ? 0.0f : (float)(both[0] / both[1] - log_z);
}

template <class T>
static int add_targets_as(fopo_device *d, const targets &a, const fopo_rows *items, size_t B) {
  return launch(d, "the target items", B, THREADS, 0, targets_kernel<T>, a,
                static_cast<const T *>(items->x), items->ld);
}

int add_targets(fopo_device *d, const fopo_estimate *e, const fopo_csr *Y, const float *value,
                const uint32_t *rows, const fopo_rows *items, double log_n,
                const fopo_device_batch *batch) {
  targets a = {*e,    Y->indptr, Y->ids,  value, rows, batch->Q, fopo_batch_scores(batch),
               log_n, batch->S,  batch->L};
  switch (items->type) {
  case FOPO_FLOAT16: return add_targets_as<fp16>(d, a, items, batch->B);
  case FOPO_BFLOAT16: return add_targets_as<bf16>(d, a, items, batch->B);
  default: return add_targets_as<float>(d, a, items, batch->B);
  }
}

} // namespace gpu
