/* The sampled estimators: self-normalised importance sampling, REINFORCE, and coefficients that are
 * given. */
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
 *   V = sum wbar (gamma (r - rbar) + alpha) beta
 *     = gamma (sum w d beta - dbar sum w beta) / W + alpha sum w beta / W.
 * Subtracting the least reward changes nothing, but makes the first part exactly 0 if all rewards
 * are equal. W = 0: every draw is masked, and all is 0. */
static fopo_objective_rule finish(float *V, float *stats, fopo_objective_kind objective,
                                  const fopo_running *sums, float least, size_t L) {
  double W = sums->w, dbar = sums->wd / W;
  if (W == 0.0) {
    memset(V, 0, L * sizeof *V);
    memset(stats, 0, FOPO_STATS * sizeof *stats);
    return (fopo_objective_rule){0};
  }
  fopo_objective_rule rule =
      fopo_objective_rule_of(objective, (double)least + dbar, (double)sums->shift, W);
  for (size_t i = 0; i < L; i++) {
    V[i] = (float)fopo_objective_direction(&rule, (double)sums->wd_beta[i], dbar,
                                           (double)sums->w_beta[i], W);
  }
  stats[FOPO_STAT_REWARD] = (float)rule.value;
  stats[FOPO_STAT_ESS] = (float)(W * W / sums->ww);
  stats[FOPO_STAT_MAX_WEIGHT] = (float)(1 / W);
  stats[FOPO_STAT_HEAD_MASS] = (float)(sums->head / W);
  return rule;
}

void fopo_cpu_put_sums(float *to, const fopo_running *sums, size_t L) {
  double heads[FOPO_SUMS_DOUBLES] = {(double)sums->shift, sums->w, sums->ww, sums->wd, sums->head};
  memcpy(to, heads, sizeof heads);
  memcpy(to + 2 * FOPO_SUMS_DOUBLES, sums->w_beta, 2 * L * sizeof *to);
}

/* Adds what fopo_cpu_put_sums has written. */
static void add_sums(fopo_running *sums, const float *from, size_t L) {
  double heads[FOPO_SUMS_DOUBLES];
  memcpy(heads, from, sizeof heads);
  if (!(heads[1] > 0.0)) return; /* no sample */
  float shift = (float)heads[0];
  if (shift > sums->shift) fopo_running_raise(sums, shift, L);
  double factor = exp((double)shift - (double)sums->shift);
  sums->w += factor * heads[1];
  sums->ww += factor * factor * heads[2];
  sums->wd += factor * heads[3];
  sums->head += factor * heads[4];
  for (size_t i = 0; i < 2 * L; i++) {
    sums->w_beta[i] += (float)factor * from[2 * FOPO_SUMS_DOUBLES + i];
  }
}

int fopo_cpu_join_sums(fopo_device *d, const fopo_estimate *e, const float *sums, size_t parts,
                       const fopo_device_batch *batch) {
  size_t B = batch->B, L = batch->L, width = fopo_sums_width(L);
  int status = fopo_cpu_reserve(d, fopo_running_bytes(L));
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (B > 8)
  for (size_t b = 0; b < B; b++) {
    fopo_running all = fopo_running_at(fopo_cpu_scratch(d), L);
    for (size_t r = 0; r < parts; r++) add_sums(&all, sums + (r * B + b) * width, L);
    finish(e->V + b * L, e->stats + b * FOPO_STATS, e->objective, &all, 0.0f, L);
  }
  return FOPO_OK;
}

/* c = wbar (gamma (r - rbar) + alpha); on entry c holds z = f - log q. */
static void coefficients(float *c, const fopo_objective_rule *rule, const fopo_running *sums,
                         const float *r, float least, size_t S) {
  float dbar = (float)(sums->wd / sums->w), share = (float)(1 / sums->w);
  if (sums->w == 0.0) {
    memset(c, 0, S * sizeof *c);
    return;
  }
  fopo_kernels_get()->exp_sum(c, c, sums->shift, S);
  for (size_t s = 0; s < S; s++) {
    c[s] *= share * fopo_objective_excess(rule, r[s] - least - dbar);
  }
}

int fopo_cpu_snis(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
                  const fopo_rows *items, float floor, const fopo_device_batch *batch) {
  size_t S = batch->S, L = batch->L;
  int status = fopo_cpu_reserve(d, fopo_running_bytes(L));
  if (status != FOPO_OK) return status;
  int threads = fopo_threads_for(2 * batch->B * S * L);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    fopo_cpu_sparse sparse;
    fopo_cpu_sparse_take(&sparse, batch, b);
    fopo_running sums = fopo_running_at(fopo_cpu_scratch(d), L);
    fopo_draws_of_context x = fopo_cpu_draws(samples, items, &sparse, batch, b);
    x.floor = floor;
    x.z = e->c == NULL ? NULL : e->c + b * S;
    x.least = e->sums == NULL ? least_of(x.r, S) : 0.0f; /* all parts take the same */
    fopo_running_add(&sums, &x);
    if (e->sums != NULL) {
      fopo_cpu_put_sums(e->sums + b * fopo_sums_width(L), &sums, L);
      continue;
    }
    fopo_objective_rule rule =
        finish(e->V + b * L, e->stats + b * FOPO_STATS, e->objective, &sums, x.least, L);
    if (e->c != NULL) coefficients(x.z, &rule, &sums, x.r, x.least, S);
  }
  return FOPO_OK;
}

/* ---- coefficients that are given ---- */

/* The statistics of the weights w = exp(f - logq - shift) of S draws; 0 if all are masked. */
static void weigh_row(float *stats, float *w, const float *f, const float *logq, const float *r,
                      float floor, size_t S) {
  const fopo_kernels *k = fopo_kernels_get();
  double moments[3], head = 0.0;
  memset(stats, 0, FOPO_STATS * sizeof *stats);
  for (size_t s = 0; s < S; s++) w[s] = f[s] - logq[s];
  float shift = k->max(w, S);
  if (shift == -INFINITY) return;
  k->exp_sum(w, w, shift, S);
  k->moments(moments, w, r, S); /* sum w, sum w^2, sum w r */
  for (size_t s = 0; s < S; s++) head += logq[s] > floor ? (double)w[s] : 0.0;
  stats[FOPO_STAT_REWARD] = (float)(moments[2] / moments[0]);
  stats[FOPO_STAT_ESS] = (float)(moments[0] * moments[0] / moments[1]);
  stats[FOPO_STAT_MAX_WEIGHT] = (float)(1 / moments[0]);
  stats[FOPO_STAT_HEAD_MASS] = (float)(head / moments[0]);
}

int fopo_cpu_weigh(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
                   const float *f, const fopo_rows *items, float floor,
                   const fopo_device_batch *batch) {
  size_t S = batch->S, L = batch->L;
  int threads = fopo_threads_for(batch->B * S * L), status = fopo_cpu_reserve(d, S * sizeof(float));
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    size_t at = b * S;
    float *V = e->V + b * L;
    weigh_row(e->stats + b * FOPO_STATS, fopo_cpu_scratch(d), f + at, samples->logq + at,
              samples->r + at, floor, S);
    memset(V, 0, L * sizeof *V);
    fopo_cpu_gather_axpy(V, items, samples->ids + at, e->c + at, S, 0, L);
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
  fopo_sparse_scores scores = fopo_batch_scores(batch);
  int status = fopo_cpu_reserve(d, S * sizeof(float));
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    fopo_score_row sparse = fopo_score_row_of(&scores, b);
    float *r = samples->r + b * S;
    /* a masked item is drawn only if there is no other: it earns nothing */
    if (fopo_score_of(&sparse, samples->ids[b * S]) == -INFINITY) memset(r, 0, S * sizeof *r);
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

int fopo_cpu_take_ratio(fopo_device *d, fopo_matrix V, float *stats, const fopo_credit *credit,
                        float shift, const uint32_t *rows) {
  (void)d;
  double weights = 0.0, earned = 0.0;
  for (size_t b = 0; b < V.rows; b++) {
    double gain = (double)credit->gain[rows[b]];
    double w = (double)stats[b * FOPO_STATS + FOPO_STAT_REWARD] / (gain - (double)shift);
    weights += w;
    earned += w * gain;
  }
  double rho = weights > 0.0 ? earned / weights : 0.0;
  for (size_t b = 0; b < V.rows; b++) {
    double gain = (double)credit->gain[rows[b]];
    double factor = weights > 0.0 ? (gain - rho) / (gain - (double)shift) : 0.0;
    if (weights > 0.0) factor *= (double)V.rows / weights; /* G is a mean over the batch */
    float *v = fopo_matrix_row(V, b);
    for (size_t i = 0; i < V.cols; i++) v[i] *= (float)factor;
    stats[b * FOPO_STATS + FOPO_STAT_REWARD] = (float)rho;
  }
  return FOPO_OK;
}
