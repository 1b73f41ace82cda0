/* The two sampled estimators: self-normalised importance sampling, and REINFORCE. */
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"
#include "kernels/kernels.h"

/* ---- self-normalised importance sampling ---- */

/* Samples of a tile. Its rows are read twice, for the scores and for the sums: the second time they
 * come from L1 or, if they are long, from L2. */
enum { TILE = 128 };

/* Sums over the samples so far. All weights are relative to exp(shift), where shift is the largest
 * f - log q so far, so nothing overflows and the largest weight is 1. */
typedef struct {
  float shift;
  double w, ww, wd; /* sum w, sum w^2, sum w d, with d = r - least r */
  double head;      /* sum w over the draws of candidates */
  float *w_beta;    /* [L] sum w beta */
  float *wd_beta;   /* [L] sum w d beta, directly after w_beta */
} running;

/* The scratch of one thread. */
typedef struct {
  float *w; /* [TILE] f, then f - log q, then the weights */
  float *d; /* [TILE] */
  float *c; /* [TILE] w d */
  running sums;
} snis_scratch;

static size_t snis_bytes(size_t L) { return (3 * TILE + 2 * L) * sizeof(float); }

static snis_scratch snis_place(float *scratch, size_t L) {
  snis_scratch x = {.w = scratch, .d = scratch + TILE, .c = scratch + 2 * TILE};
  x.sums = (running){.shift = -INFINITY, .w_beta = scratch + 3 * TILE};
  x.sums.wd_beta = x.sums.w_beta + L;
  memset(x.sums.w_beta, 0, 2 * L * sizeof(float));
  return x;
}

/* The least of r [n], n >= 1. In 8 lanes, for one running minimum would be a chain of dependent
 * operations. */
static float least_of(const float *r, size_t n) {
  float lane[8], least = r[0];
  for (size_t j = 0; j < 8; j++) lane[j] = least;
  size_t s = 0;
  for (; s + 8 <= n; s += 8) {
    for (size_t j = 0; j < 8; j++) lane[j] = r[s + j] < lane[j] ? r[s + j] : lane[j];
  }
  for (; s < n; s++) least = r[s] < least ? r[s] : least;
  for (size_t j = 0; j < 8; j++) least = lane[j] < least ? lane[j] : least;
  return least;
}

/* Scales every sum to a larger shift. */
static void raise_shift(running *sums, float shift, size_t L) {
  double factor = exp((double)sums->shift - (double)shift);
  sums->w *= factor;
  sums->ww *= factor * factor;
  sums->wd *= factor;
  sums->head *= factor;
  for (size_t i = 0; i < 2 * L; i++) sums->w_beta[i] *= (float)factor;
  sums->shift = shift;
}

/* sum w over the draws of candidates, whose logq is above the floor; share [n] is scratch. */
static double head_weight(const float *w, const float *logq, float floor, float *share, size_t n) {
  double moments[3];
#pragma omp simd
  for (size_t s = 0; s < n; s++) share[s] = logq[s] > floor ? 1.0f : 0.0f;
  fopo_kernels_get()->moments(moments, w, share, n);
  return moments[2];
}

/* Adds a tile of n samples to the sums; z [n] = f - log q if not NULL. n_next samples
 * follow in ids, whose rows the next call reads. */
static void snis_tile(snis_scratch *x, float *z, const float *q, const fopo_rows *items,
                      const uint32_t *ids, const float *logq, const float *r, float least,
                      float floor, size_t n, size_t n_next, size_t L) {
  const fopo_kernels *k = fopo_kernels_get();
  running *sums = &x->sums;
  float *w = x->w, *d = x->d, *c = x->c;
  fopo_cpu_gather_dot(w, items, ids, n, q, L);
#pragma omp simd
  for (size_t s = 0; s < n; s++) w[s] -= logq[s];
  if (z != NULL) memcpy(z, w, n * sizeof *z);
  float largest = k->max(w, n);
  if (largest > sums->shift) raise_shift(sums, largest, L);

  /* w = exp(f - log q - shift), d = r - least */
  k->exp_sum(w, w, sums->shift, n);
#pragma omp simd
  for (size_t s = 0; s < n; s++) {
    d[s] = r[s] - least;
    c[s] = w[s] * d[s];
  }
  double moments[3];
  k->moments(moments, w, d, n);
  sums->w += moments[0];
  sums->ww += moments[1];
  sums->wd += moments[2];
  if (floor < INFINITY) sums->head += head_weight(w, logq, floor, d, n);

  /* most rewards are the least, with d = 0: the second sum reads few rows */
  fopo_cpu_gather_axpy(sums->w_beta, items, ids, w, n, n_next, L);
  fopo_cpu_gather_axpy(sums->wd_beta, items, ids, c, n, 0, L);
}

/* With d = r - least r, dbar = sum w d / W and W = sum w,
 *   V = sum wbar (r - rbar) beta = (sum w d beta - dbar sum w beta) / W.
 * Subtracting the least reward changes nothing, but makes V exactly 0 if all rewards are equal. */
static void snis_finish(float *V, float *stats, const running *sums, float least, size_t L) {
  double W = sums->w, dbar = sums->wd / W;
  for (size_t i = 0; i < L; i++) {
    V[i] = (float)(((double)sums->wd_beta[i] - dbar * (double)sums->w_beta[i]) / W);
  }
  stats[FOPO_STAT_REWARD] = (float)((double)least + dbar);
  stats[FOPO_STAT_ESS] = (float)(W * W / sums->ww);
  stats[FOPO_STAT_MAX_WEIGHT] = (float)(1 / W);
  stats[FOPO_STAT_HEAD_MASS] = (float)(sums->head / W);
}

/* c = wbar (r - rbar); on entry c holds z = f - log q. */
static void snis_coefficients(float *c, const running *sums, const float *r, float least,
                              size_t S) {
  float dbar = (float)(sums->wd / sums->w), share = (float)(1 / sums->w);
  fopo_kernels_get()->exp_sum(c, c, sums->shift, S);
  for (size_t s = 0; s < S; s++) c[s] *= share * (r[s] - least - dbar);
}

int fopo_cpu_snis(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
                  const fopo_rows *items, float floor, const fopo_device_batch *batch) {
  size_t S = batch->S, L = batch->L;
  const uint32_t *ids = samples->ids;
  const float *logq = samples->logq, *r = samples->r;
  int status = fopo_cpu_reserve(d, snis_bytes(L));
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    snis_scratch x = snis_place(fopo_cpu_scratch(d), L);
    float least = least_of(r + b * S, S);
    for (size_t s = 0; s < S; s += TILE) {
      size_t at = b * S + s, n = S - s < TILE ? S - s : TILE;
      float *z = e->c == NULL ? NULL : e->c + at;
      snis_tile(&x, z, batch->Q + b * L, items, ids + at, logq + at, r + at, least, floor, n,
                S - s - n, L);
    }
    snis_finish(e->V + b * L, e->stats + b * FOPO_STATS, &x.sums, least, L);
    if (e->c != NULL) snis_coefficients(e->c + b * S, &x.sums, r + b * S, least, S);
  }
  return FOPO_OK;
}

/* ---- REINFORCE ---- */

static double mean_of(const float *r, size_t n) {
  double sum = 0;
  for (size_t s = 0; s < n; s++) sum += (double)r[s];
  return sum / (double)n;
}

/* mean NULL, the baseline: c = (r - rbar) / (S - 1), V = sum c beta;
 * else c = r / S, V = sum c beta - rbar mean. */
static void reinforce_row(float *V, float *c, double rbar, const float *mean, fopo_matrix items,
                          const uint32_t *ids, const float *r, size_t S) {
  int baseline = mean == NULL;
  size_t L = items.cols;
  double taken = baseline ? rbar : 0;
  double share = 1 / (double)(baseline && S > 1 ? S - 1 : S);
  for (size_t s = 0; s < S; s++) c[s] = (float)(((double)r[s] - taken) * share);
  for (size_t i = 0; i < L; i++) V[i] = baseline ? 0.0f : (float)(-rbar * (double)mean[i]);
  fopo_kernels_get()->gather_axpy(V, items.x, items.ld, ids, c, S, 0, L);
}

int fopo_cpu_reinforce(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
                       const float *mean, fopo_matrix items, const fopo_device_batch *batch) {
  size_t S = batch->S, L = batch->L;
  int status = fopo_cpu_reserve(d, S * sizeof(float));
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    const float *r = samples->r + b * S;
    double rbar = mean_of(r, S);
    float *c = e->c == NULL ? fopo_cpu_scratch(d) : e->c + b * S;
    reinforce_row(e->V + b * L, c, rbar, mean == NULL ? NULL : mean + b * L, items,
                  samples->ids + b * S, r, S);
    float *out = e->stats + b * FOPO_STATS;
    out[FOPO_STAT_REWARD] = (float)rbar;
    out[FOPO_STAT_ESS] = (float)S;
    out[FOPO_STAT_MAX_WEIGHT] = (float)(1 / (double)S);
    out[FOPO_STAT_HEAD_MASS] = 0;
  }
  return FOPO_OK;
}
