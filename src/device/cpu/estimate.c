/* The two sampled estimators: self-normalised importance sampling, and REINFORCE. */
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"
#include "device/cpu/running.h"
#include "kernels/kernels.h"

/* ---- self-normalised importance sampling ---- */

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

/* With d = r - least r, dbar = sum w d / W and W = sum w,
 *   V = sum wbar (r - rbar) beta = (sum w d beta - dbar sum w beta) / W.
 * Subtracting the least reward changes nothing, but makes V exactly 0 if all rewards are equal. */
static void finish(float *V, float *stats, const fopo_running *sums, float least, size_t L) {
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
static void coefficients(float *c, const fopo_running *sums, const float *r, float least,
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
  int status = fopo_cpu_reserve(d, fopo_running_bytes(L));
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    fopo_running sums = fopo_running_at(fopo_cpu_scratch(d), L);
    float least = least_of(r + b * S, S);
    float *z = e->c == NULL ? NULL : e->c + b * S;
    fopo_running_add(&sums, z, batch->Q + b * L, items, ids + b * S, logq + b * S, r + b * S, least,
                     floor, S, 0, L);
    finish(e->V + b * L, e->stats + b * FOPO_STATS, &sums, least, L);
    if (e->c != NULL) coefficients(e->c + b * S, &sums, r + b * S, least, S);
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
