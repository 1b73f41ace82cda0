/* Self-normalised importance sampling of rows that are too long for registers: they are read again
 * for the sums, when the weights are known. */
#include "device/cuda/snis.cuh"

namespace gpu {

/* The sums over the samples of a block's context, of which f [S] holds the scores on entry, and
 * then f - log q. each(s, w, d) is told the weight of a sample, relative to the sums' shift, and by
 * how much its reward is above the least. */
template <class F>
__device__ inline sums weigh(float *f, const float *logq, const float *r, float floor, size_t S,
                             F each) {
  float most = -INFINITY, low = block_least(r, S);
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) most = larger(most, f[s] -= logq[s]);
  float shift = block_max(most), base = shift == -INFINITY ? 0.0f : shift; /* all masked: w = 0 */
  double w = 0, ww = 0, wd = 0, head = 0;
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) {
    float weight = expf(f[s] - base), d = r[s] - low;
    double x = (double)weight;
    w += x;
    ww += x * x;
    wd += x * (double)d;
    head += logq[s] > floor ? x : 0.0;
    each(s, weight, d);
  }
  double x4[] = {w, ww, wd, head};
  block_sums(x4);
  return {shift, low, x4[0], x4[1], x4[2], x4[3]};
}

/* A block a context: c and the statistics; on entry c holds the scores f. */
__global__ void weights_kernel(float *c, float *stats, fopo_objective_kind objective,
                               const float *logq, const float *r, float floor, size_t S) {
  size_t b = blockIdx.x;
  c += b * S;
  r += b * S;
  sums t = weigh(c, logq + b * S, r, floor, S, [](size_t, float, float) {});
  fopo_objective_rule rule = rule_of(objective, t);
  if (threadIdx.x == 0) write_stats(stats + b * FOPO_STATS, t, rule);
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) c[s] = coefficient(c[s], r[s], t, rule);
}

/* The sums of samples whose scores are in w [B, S] on entry. On return w holds the weights, and wd
 * [B, S] the weights times d. */
__global__ void long_kernel(sums *partial, float *w, float *wd, const float *logq, const float *r,
                            float floor, size_t S) {
  size_t b = blockIdx.x;
  w += b * S;
  wd += b * S;
  sums t = weigh(w, logq + b * S, r + b * S, floor, S,
                 [=](size_t s, float weight, float d) { w[s] = weight, wd[s] = weight * d; });
  if (threadIdx.x == 0) partial[b] = t;
}

int add_long(fopo_device *d, const sample_sums &x, const fopo_samples *samples,
             const fopo_rows *items, float floor, const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S, L = batch->L;
  const uint32_t *ids = samples->ids;
  int status = score_ids(d, x.w, items, ids, nullptr, S, batch);
  if (status == FOPO_OK) {
    status = launch(d, "the weights of the samples", B, THREADS, 0, long_kernel, x.partial, x.w,
                    x.wd, samples->logq, samples->r, floor, S);
  }
  if (status == FOPO_OK) status = sum_rows(d, x.u, x.rows, items, ids, x.w, B, S, L);
  return status == FOPO_OK ? sum_rows(d, x.v, x.rows, items, ids, x.wd, B, S, L) : status;
}

/* Long rows, without the sums that only a head needs: V from the coefficients. */
int snis_twice(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
               const fopo_rows *items, float floor, const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S, L = batch->L;
  float *partial, *c;
  int status = reserve_sums(d, &partial, &c, e, batch);
  if (status != FOPO_OK) return status;
  const fopo_samples &x = *samples;
  status = score_ids(d, c, items, x.ids, nullptr, S, batch);
  if (status == FOPO_OK) {
    status = launch(d, "the weights of the samples", B, THREADS, 0, weights_kernel, c, e->stats,
                    e->objective, x.logq, x.r, floor, S);
  }
  return status == FOPO_OK ? sum_rows(d, e->V, partial, items, x.ids, c, B, S, L) : status;
}

} // namespace gpu
