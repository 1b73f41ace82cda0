/* Self-normalised importance sampling on the GPU, between its files: rows that are read once
 * (snis.cu), rows that are read again (snis_long.cu), and a shared head (head.cu). */
#ifndef FOPO_DEVICE_CUDA_SNIS_CUH
#define FOPO_DEVICE_CUDA_SNIS_CUH

#include "device/cuda/draw.cuh"
#include "device/cuda/reward.cuh"
#include "device/cuda/rows.cuh"
#include "device/cuda/stats.cuh"

namespace gpu {

/* Sums over some samples of a context, relative to exp(shift); d = r - low. */
struct sums {
  float shift, low;       /* largest f - log q; the least reward */
  double w, ww, wd, head; /* sum w, sum w^2, sum w d, sum w over the draws of candidates */
};

/* The sums of a batch, in scratch: `splits` of a context, each over its part of the samples. */
struct sample_sums {
  size_t splits;
  sums *partial;        /* [B, splits] */
  float *u, *v;         /* [B, splits, L] sum w beta and sum w d beta */
  float *w, *wd, *rows; /* only for long rows: of each sample, and sum_rows_scratch */
};

/* ---- where samples come from ---- */

enum drawing_kind { GIVEN, UNIFORM, MIXTURE, TAIL, OTHERS };

/* Samples that lie in memory, or that a kernel draws for itself. */
struct drawing {
  drawing_kind kind;
  fopo_samples given;
  draw_key key;
  const uint32_t *rows; /* [B] */
  uint32_t P;
  sparse_reward reward;

  /* The candidates of MIXTURE and TAIL. */
  mixture m;
  const uint32_t *kept; /* ids and counts of context b are in row kept[b]; NULL: in row b */
  char *scratch;        /* [blocks, bytes] for what a block makes of them; NULL: it is shared */
  size_t bytes, capacity;
  unsigned bits;

  /* The head of OTHERS. */
  const uint32_t *order;
  size_t H, listed; /* listed: 0, or H to have the head among the samples */
};

drawing given_samples(const fopo_samples *samples);
drawing other_draws(fopo_device *d, const fopo_shared_head *head, const fopo_sparse_reward *reward,
                    const fopo_device_batch *batch);

/* An estimate of draws, with or without a head that all contexts share. */
struct noted_estimate {
  fopo_estimate e;
  drawing from;
  batch_stats about;
  fopo_rows items;
  float floor;
  fopo_device_batch batch;
  bool rounded; /* the head's rows are */
};

/* ---- sums ---- */

/* Lays out x for samples [B, S]. */
void place_sums(fopo_device *d, sample_sums *x, scratch_layout *memory, const fopo_rows *items,
                size_t B, size_t S, size_t L);
/* Fills x, w = exp(f - log q), for a batch with the same B, S and L. Rows that are longer than
 * FOPO_FUSED_DIM need samples that are given. */
int add_samples(fopo_device *d, const sample_sums &x, const drawing &from, const fopo_rows *items,
                const fopo_device_batch *batch);

/* snis_long.cu: the same for rows that are read again; and V, c and stats of e from them. */
int add_long(fopo_device *d, const sample_sums &x, const fopo_samples *samples,
             const fopo_rows *items, float floor, const fopo_device_batch *batch);
int snis_twice(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
               const fopo_rows *items, float floor, const fopo_device_batch *batch);

/* ---- sums of a context ---- */

/* True if every draw of the context is masked: its estimate is 0. */
__device__ inline bool all_masked(const sums &t) { return t.w == 0; }

__device__ inline fopo_objective_rule rule_of(fopo_objective_kind objective, const sums &t) {
  return fopo_objective_rule_of(objective, (double)t.low + t.wd / t.w, (double)t.shift, t.w);
}

__device__ inline void write_stats(float *stats, const sums &t, const fopo_objective_rule &rule) {
  if (all_masked(t)) {
    for (int i = 0; i < FOPO_STATS; i++) stats[i] = 0.0f;
    return;
  }
  stats[FOPO_STAT_REWARD] = (float)rule.value;
  stats[FOPO_STAT_ESS] = (float)(t.w * t.w / t.ww);
  stats[FOPO_STAT_MAX_WEIGHT] = (float)(1 / t.w);
  stats[FOPO_STAT_HEAD_MASS] = (float)(t.head / t.w);
}

/* c = wbar (gamma (r - rbar) + alpha) */
__device__ inline float coefficient(float z, float r, const sums &t,
                                    const fopo_objective_rule &rule) {
  if (all_masked(t)) return 0.0f;
  return expf(z - t.shift) * (float)(1 / t.w) *
         fopo_objective_excess(&rule, r - t.low - (float)(t.wd / t.w));
}

/* exp(from - to), which scales sums from one shift to another; sums of masked draws alone, whose
 * shift is -infinity, are 0 and stay so. */
__device__ inline float shift_factor(float from, float to) {
  return from == -INFINITY ? 0.0f : expf(from - to);
}

/* The least of r [S], in each thread of a block. */
__device__ inline float block_least(const float *r, size_t S) {
  float most = -INFINITY;
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) most = larger(most, -r[s]);
  return -block_max(most);
}

} // namespace gpu

#endif
