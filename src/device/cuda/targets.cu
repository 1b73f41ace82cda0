/* Objectives that are more than a rule of each context's sums, on the GPU: what target items add to
 * an estimate, and the ratio over a batch. */
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
  return by_type(items->type, [&]<class T>() { return add_targets_as<T>(d, a, items, batch->B); });
}

/* ---- the ratio ---- */

struct ratio {
  double *sums; /* [2] W and rho, in scratch */
  float *stats; /* [B, FOPO_STATS] */
  const float *gain;
  const uint32_t *rows; /* [B] */
  float shift;
  size_t B;
};

/* W and rho, by one block; the statistics become rho. */
__global__ void ratio_kernel(const __grid_constant__ ratio a) {
  double all[] = {0, 0};
  for (size_t b = threadIdx.x; b < a.B; b += blockDim.x) {
    double gain = (double)a.gain[a.rows[b]];
    double w = (double)a.stats[b * FOPO_STATS + FOPO_STAT_REWARD] / (gain - (double)a.shift);
    all[0] += w;
    all[1] += w * gain;
  }
  block_sums(all);
  double rho = all[0] > 0 ? all[1] / all[0] : 0;
  if (threadIdx.x == 0) a.sums[0] = all[0], a.sums[1] = rho;
  for (size_t b = threadIdx.x; b < a.B; b += blockDim.x) {
    a.stats[b * FOPO_STATS + FOPO_STAT_REWARD] = (float)rho;
  }
}

/* A block a context. */
__global__ void scale_kernel(const __grid_constant__ ratio a, float *V, size_t ld, size_t L) {
  double gain = (double)a.gain[a.rows[blockIdx.x]], W = a.sums[0];
  double factor = W > 0 ? (double)a.B * (gain - a.sums[1]) / (gain - (double)a.shift) / W : 0;
  for (size_t i = threadIdx.x; i < L; i += blockDim.x) V[blockIdx.x * ld + i] *= (float)factor;
}

int take_ratio(fopo_device *d, fopo_matrix V, float *stats, const fopo_credit *credit, float shift,
               const uint32_t *rows) {
  int status = reserve(d, 2 * sizeof(double), "the sums of a ratio");
  if (status != FOPO_OK) return status;
  ratio a = {reinterpret_cast<double *>(of(d)->scratch), stats, credit->gain, rows, shift, V.rows};
  status = launch(d, "the sums of a ratio", 1, THREADS, 0, ratio_kernel, a);
  if (status != FOPO_OK) return status;
  return launch(d, "the ratio", V.rows, THREADS, 0, scale_kernel, a, V.x, V.ld, V.cols);
}

} // namespace gpu
