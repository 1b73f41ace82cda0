/* Slates on the CPU (device/slate.h). */
#include "device/slate.h"

#include "core/norm.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"

enum { NUMBERS = 256 }; /* of e at a time */

/* near [S, L] of one context. */
static void perturb(float *near, const float *q, const fopo_slates *x, uint32_t row,
                    const fopo_device_batch *batch) {
  size_t L = batch->L, blocks = (L + 3) / 4;
  float sigma = (float)x->sigma, z[NUMBERS];
  uint32_t w[NUMBERS];
  for (size_t s = 0; s < x->S; s += x->paired ? 2 : 1) {
    float *to = near + s * L, *other = to + L;
    for (size_t first = 0; first < L; first += NUMBERS) {
      size_t n = L - first < NUMBERS ? L - first : NUMBERS, last = (n + 3) / 4;
      for (size_t at = 0; at < last; at++) {
        fopo_words four = fopo_random(batch->key.seed, FOPO_STREAM_SLATE, batch->key.step, row,
                                      (uint32_t)(s * blocks + first / 4 + at));
        memcpy(w + 4 * at, four.v, sizeof four.v);
      }
#pragma omp simd
      for (size_t i = 0; i < 4 * last; i += 2) fopo_slate_normals(z + i, w + i);
      for (size_t l = 0; l < n; l++) to[first + l] = q[first + l] + sigma * z[l];
      for (size_t l = 0; x->paired && l < n; l++) other[first + l] = q[first + l] - sigma * z[l];
    }
  }
}

int fopo_cpu_perturb(fopo_device *d, const fopo_slates *x, const fopo_device_batch *batch) {
  (void)d;
  size_t L = batch->L;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    perturb(x->near + b * x->S * L, batch->Q + b * L, x, batch->rows[b], batch);
  }
  return FOPO_OK;
}

int fopo_cpu_take_slates(fopo_device *d, const fopo_samples *samples, uint32_t *counts,
                         float *stats, const fopo_candidate_sets *found, const fopo_slates *x,
                         const fopo_device_batch *batch) {
  (void)d;
  size_t k = x->k, L = batch->L;
  fopo_sparse_scores scores = fopo_batch_scores(batch);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    fopo_score_row mask = fopo_score_row_of(&scores, b);
    size_t proven = 0, least = k;
    for (size_t q = b * x->S; q < (b + 1) * x->S; q++) {
      float last = -INFINITY;
      size_t n = fopo_slate_take(samples->ids + q * k, samples->logq + q * k, &last, k,
                                 found->ids + q * found->k, found->scores + q * found->k,
                                 found->counts[q], &mask);
      double norm = x->beyond > 0.0f ? fopo_norm(x->near + q * L, L) : 0.0;
      proven += (size_t)fopo_slate_is_proven(x, n, last, norm);
      least = n < least ? n : least;
    }
    counts[b] = (uint32_t)least;
    stats[b * FOPO_STATS + FOPO_STAT_HEAD_MASS] = (float)((double)proven / (double)x->S);
  }
  return FOPO_OK;
}

int fopo_cpu_weigh_slates(fopo_device *d, const fopo_samples *samples, float *stats,
                          const fopo_slates *x, const fopo_device_batch *batch) {
  (void)d;
  size_t S = x->S, k = x->k;
  fopo_sparse_scores scores = fopo_batch_scores(batch);
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < batch->B; b++) {
    float *r = samples->r + b * S * k;
    const float *logq = samples->logq + b * S * k;
    double best = fopo_slate_ideal(x, &scores, b), sum = 0.0;
    for (size_t s = 0; s < S; s++) {
      double R = fopo_slate_reward(x, r + s * k, logq + s * k) / best;
      r[s * k] = (float)R;
      sum += R;
    }
    double mean = sum / (double)S;
    for (size_t s = 0; s < S; s++) r[s * k] = fopo_slate_coefficient(x, r[s * k], mean);
    fopo_slate_tell(stats + b * FOPO_STATS, x, mean);
  }
  return FOPO_OK;
}

int fopo_cpu_add_perturbed(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
                           const fopo_slates *x, const fopo_device_batch *batch) {
  (void)d;
  size_t L = batch->L, S = x->S;
  double variance = x->sigma * x->sigma;
  float scale = (float)(1.0 / variance);
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < batch->B; b++) {
    const float *near = x->near + b * S * L, *q = batch->Q + b * L;
    const float *c = samples->r + b * S * x->k;
    float *v = e->V + b * L;
    for (size_t l = 0; l < L; l++) v[l] = 0.0f;
    double spread = 0.0;
    for (size_t s = 0; s < S; s++, near += L, c += x->k) {
      if (*c == 0.0f) continue;
      float square = 0.0f;
      for (size_t l = 0; l < L; l++) {
        float moved = near[l] - q[l];
        v[l] += *c * moved;
        square += moved * moved;
      }
      spread += (double)*c * ((double)square / variance - (double)L);
    }
    for (size_t l = 0; l < L; l++) v[l] *= scale;
    e->stats[b * FOPO_STATS + FOPO_STAT_MAX_WEIGHT] = (float)spread;
  }
  return FOPO_OK;
}
