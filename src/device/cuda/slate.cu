/* Slates on the GPU (device/slate.h): perturbed queries, which topk searches for, what is taken of
 * the answers, and the gradient. Random words and the arithmetic of normals are the CPU's, but for
 * products and sums that the card makes in one rounding. */
#include "device/cuda/cuda.cuh"

namespace gpu {

/* A thread four numbers of one e. */
__global__ void perturb_kernel(fopo_slates x, const float *Q, const uint32_t *rows,
                               draw_key recorded, size_t L, size_t n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  fopo_draw_key key = current(recorded);
  size_t fours = (L + 3) / 4, step = x.paired ? 2 : 1, of_row = x.S / step * fours;
  size_t b = i / of_row, s = i % of_row / fours * step, at = i % fours;
  fopo_words w =
      fopo_random(key.seed, FOPO_STREAM_SLATE, key.step, rows[b], (uint32_t)(s * fours + at));
  float z[4], sigma = (float)x.sigma;
  fopo_slate_normals(z, w.v);
  fopo_slate_normals(z + 2, w.v + 2);
  const float *q = Q + b * L;
  float *near = x.near + (b * x.S + s) * L;
#pragma unroll
  for (unsigned j = 0; j < 4; j++) {
    size_t l = 4 * at + j;
    if (l >= L) return;
    near[l] = q[l] + sigma * z[j];
    if (x.paired) near[L + l] = q[l] - sigma * z[j];
  }
}

int perturb(fopo_device *d, const fopo_slates *x, const fopo_device_batch *batch) {
  size_t n = batch->B * (x->S / (x->paired ? 2 : 1)) * ceil_div(batch->L, 4);
  return launch(d, "perturbed queries", ceil_div(n, THREADS), THREADS, 0, perturb_kernel, *x,
                batch->Q, batch->rows, key_of(d, batch->key), batch->L, n);
}

/* A block a context, a thread a slate. */
__global__ void take_kernel(fopo_samples to, uint32_t *counts, float *stats,
                            fopo_candidate_sets found, fopo_slates x, fopo_sparse_scores sparse,
                            size_t L) {
  size_t b = blockIdx.x, k = x.k;
  fopo_score_row mask = fopo_score_row_of(&sparse, b);
  double proven = 0.0;
  float missing = 0.0f;
  for (size_t s = threadIdx.x; s < x.S; s += blockDim.x) {
    size_t q = b * x.S + s;
    float last = -INFINITY;
    size_t n = fopo_slate_take(to.ids + q * k, to.logq + q * k, &last, k, found.ids + q * found.k,
                               found.scores + q * found.k, found.counts[q], &mask);
    double square = 0.0;
    for (size_t l = 0; x.beyond > 0.0f && l < L; l++) {
      square += (double)x.near[q * L + l] * (double)x.near[q * L + l];
    }
    proven += fopo_slate_is_proven(&x, n, last, sqrt(square));
    missing = larger(missing, (float)(k - n));
  }
  proven = block_sum(proven);
  missing = block_max(missing);
  if (threadIdx.x != 0) return;
  counts[b] = (uint32_t)(k - (size_t)missing);
  stats[b * FOPO_STATS + FOPO_STAT_HEAD_MASS] = (float)(proven / (double)x.S);
}

int take_slates(fopo_device *d, const fopo_samples *samples, uint32_t *counts, float *stats,
                const fopo_candidate_sets *found, const fopo_slates *x,
                const fopo_device_batch *batch) {
  return launch(d, "slates", batch->B, THREADS, 0, take_kernel, *samples, counts, stats, *found, *x,
                fopo_batch_scores(batch), batch->L);
}

/* A block a context, a thread a slate, whose c takes the place of its first reward. */
__global__ void weigh_kernel(fopo_samples samples, float *stats, fopo_slates x,
                             fopo_sparse_scores sparse) {
  size_t b = blockIdx.x, k = x.k;
  float *r = samples.r + b * x.S * k;
  const float *logq = samples.logq + b * x.S * k;
  double best = fopo_slate_ideal(&x, &sparse, b), sum = 0.0;
  for (size_t s = threadIdx.x; s < x.S; s += blockDim.x) {
    double R = fopo_slate_reward(&x, r + s * k, logq + s * k) / best;
    r[s * k] = (float)R;
    sum += R;
  }
  double mean = block_sum(sum) / (double)x.S;
  for (size_t s = threadIdx.x; s < x.S; s += blockDim.x) {
    r[s * k] = fopo_slate_coefficient(&x, r[s * k], mean);
  }
  if (threadIdx.x == 0) fopo_slate_tell(stats + b * FOPO_STATS, &x, mean);
}

int weigh_slates(fopo_device *d, const fopo_samples *samples, float *stats, const fopo_slates *x,
                 const fopo_device_batch *batch) {
  return launch(d, "rewards of slates", batch->B, THREADS, 0, weigh_kernel, *samples, stats, *x,
                fopo_batch_scores(batch));
}

/* A block a context, a thread a dimension. */
__global__ void perturbed_kernel(float *V, float *stats, const float *r, fopo_slates x,
                                 const float *Q, size_t L) {
  size_t b = blockIdx.x;
  const float *near = x.near + b * x.S * L, *c = r + b * x.S * x.k;
  double variance = x.sigma * x.sigma, sums[2] = {0.0, 0.0}; /* of c |near - q|^2, and of c */
  float scale = (float)(1.0 / variance);
  for (size_t l = threadIdx.x; l < L; l += blockDim.x) {
    float v = 0.0f, q = Q[b * L + l];
    for (size_t s = 0; s < x.S; s++) {
      float moved = near[s * L + l] - q;
      v += c[s * x.k] * moved;
      sums[0] += (double)(c[s * x.k] * moved * moved);
    }
    V[b * L + l] = v * scale;
  }
  for (size_t s = threadIdx.x; s < x.S; s += blockDim.x) sums[1] += (double)c[s * x.k];
  block_sums(sums);
  if (threadIdx.x != 0) return;
  stats[b * FOPO_STATS + FOPO_STAT_MAX_WEIGHT] = (float)(sums[0] / variance - (double)L * sums[1]);
}

int add_perturbed(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
                  const fopo_slates *x, const fopo_device_batch *batch) {
  unsigned threads = (unsigned)least(rounded_up(batch->L, WARP), THREADS);
  return launch(d, "the gradient of slates", batch->B, threads, 0, perturbed_kernel, e->V, e->stats,
                (const float *)samples->r, *x, batch->Q, batch->L);
}

} // namespace gpu
