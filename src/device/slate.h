/* Slates on a device: lists of k items, S of them for each context, whose draws are [S, k]. The
 * operations on them are in device/ops.def; the GPU compiles this too. */
#ifndef FOPO_DEVICE_SLATE_H
#define FOPO_DEVICE_SLATE_H

#include <math.h>
#include <string.h>

#include "core/csr.h"
#include "device/score.h"
#include "device/statistics.h"

enum { FOPO_SLATE_HIT, FOPO_SLATE_SUM, FOPO_SLATE_DCG, FOPO_SLATE_NDCG }; /* measures */

typedef struct {
  size_t S, k;
  int measure;
  double discount;      /* g of place j, g^(j - 1); 0: 1 / log2(1 + j) */
  int baseline;         /* 1: the mean of the context's other slates is subtracted */
  fopo_csr Y;           /* its arrays are device pointers: the hits that ndcg divides by */
  const uint32_t *rows; /* device [B] their row of each context */
  /* Of queries that are perturbed: */
  float *near;  /* device [B, S, L] q + sigma e */
  double sigma; /* of q */
  int paired;   /* 1: e of query 2 j + 1 is minus that of 2 j */
  float beyond; /* the largest norm that was left out of the search; 0: none was */
} fopo_slates;

/* d_j of place j, from 0 on: 1 in a sum. */
FOPO_ON_BOTH static inline double fopo_slate_discount(const fopo_slates *x, size_t j) {
  if (x->measure == FOPO_SLATE_SUM) return 1.0;
  return x->discount > 0.0 ? pow(x->discount, (double)j) : 1.0 / log2((double)j + 2.0);
}

/* The R of a slate, ndcg apart, from the rewards of its places. */
FOPO_ON_BOTH static inline double fopo_slate_reward(const fopo_slates *x, const float *r,
                                                    const float *logq) {
  double best = (double)-INFINITY, sum = 0.0;
  for (size_t j = 0; j < x->k && logq[j] > -INFINITY; j++) {
    double earned = (double)r[j];
    best = fmax(best, earned);
    if (earned != 0.0) sum += fopo_slate_discount(x, j) * earned;
  }
  return x->measure == FOPO_SLATE_HIT && best > (double)-INFINITY ? best : sum;
}

/* By what the discounted sum of context b is divided: for ndcg that of a slate that begins with all
 * items of Y that it may show; 1 for other measures. */
FOPO_ON_BOTH static inline double fopo_slate_ideal(const fopo_slates *x,
                                                   const fopo_sparse_scores *scores, size_t b) {
  if (x->measure != FOPO_SLATE_NDCG) return 1.0;
  fopo_score_row mask = fopo_score_row_of(scores, b);
  double best = 0.0;
  size_t j = 0;
  for (uint64_t e = x->Y.indptr[x->rows[b]]; e < x->Y.indptr[x->rows[b] + 1] && j < x->k; e++) {
    if (fopo_score_of(&mask, x->Y.ids[e]) > -INFINITY) best += fopo_slate_discount(x, j++);
  }
  return best > 0.0 ? best : 1.0;
}

/* The statistics of a context whose slates earn `mean`. */
FOPO_ON_BOTH static inline void fopo_slate_tell(float *stats, const fopo_slates *x, double mean) {
  stats[FOPO_STAT_REWARD] = (float)mean;
  stats[FOPO_STAT_ESS] = (float)x->S;
  stats[FOPO_STAT_MAX_WEIGHT] = 1.0f / (float)x->S;
}

/* c of a slate that earns R where the mean is `mean`. The terms of a pair cancel whatever is
 * subtracted. */
FOPO_ON_BOTH static inline float fopo_slate_coefficient(const fopo_slates *x, float R,
                                                        double mean) {
  double share = 1.0 / (double)(x->baseline && !x->paired ? x->S - 1 : x->S);
  return (float)(((double)R - (x->baseline ? mean : 0.0)) * share);
}

/* The slate of the n items that were found for a query, best first, less those that are masked:
 * returns its length. One that is short repeats its first item in places that earn nothing. *last:
 * the score of its last item. */
FOPO_ON_BOTH static inline size_t fopo_slate_take(uint32_t *ids, float *logq, float *last, size_t k,
                                                  const uint32_t *found, const float *scores,
                                                  size_t n, const fopo_score_row *mask) {
  size_t taken = 0;
  for (size_t i = 0; i < n && taken < k; i++) {
    if (fopo_score_of(mask, found[i]) == -INFINITY) continue;
    ids[taken] = found[i];
    logq[taken++] = 0.0f;
    *last = scores[i];
  }
  for (size_t j = taken; j < k; j++) {
    ids[j] = taken > 0 ? ids[0] : 0;
    logq[j] = -INFINITY;
  }
  return taken;
}

/* Whether no item of a norm up to x->beyond can be in a slate of `taken` items for a query of this
 * norm (Cauchy-Schwarz, and the rounding of scores). */
FOPO_ON_BOTH static inline int fopo_slate_is_proven(const fopo_slates *x, size_t taken, float last,
                                                    double norm) {
  if (x->beyond == 0.0f) return 1;
  return taken == x->k && (double)last > norm * (double)x->beyond * (1.0 + 1e-5);
}

/* fopo_unit in float32. */
FOPO_ON_BOTH static inline float fopo_slate_unit(uint32_t w) {
  return ((float)(int32_t)(w >> 16) * 65536.0f + ((float)(int32_t)(w & 65535u) + 0.5f)) *
         (1.0f / 4294967296.0f);
}

/* -log u, 0 < u <= 1: u = 2^e m with m in [2/3, 4/3), log m = 2 artanh s, s = (m - 1) / (m + 1). */
FOPO_ON_BOTH static inline float fopo_slate_minus_log(float u) {
  uint32_t bits;
  memcpy(&bits, &u, sizeof bits);
  int32_t e = (int32_t)(bits - 0x3f2aaaab) >> 23; /* 2/3 is 0x3f2aaaab */
  bits -= (uint32_t)e << 23;
  float m;
  memcpy(&m, &bits, sizeof m);
  float s = (m - 1.0f) / (m + 1.0f), t = s * s;
  float log_m = 2.0f * s * (1.0f + t * (1.0f / 3 + t * (1.0f / 5 + t * (1.0f / 7 + t / 9))));
  return -(float)e * 0.69314718f - log_m;
}

/* z [2] of w [2] by Box and Muller's pairs: fopo_normal_pair in float32 but for rounding, with
 * series that compilers make vectors of. They have the same bits in all of these. */
FOPO_ON_BOTH static inline void fopo_slate_normals(float *z, const uint32_t *w) {
  float radius = sqrtf(2.0f * fopo_slate_minus_log(fopo_slate_unit(w[0])));
  float turn = 4.0f * fopo_slate_unit(w[1]); /* in quarters, of which the nearest whole is q */
  int32_t q = (int32_t)(turn + 0.5f);
  float x = (turn - (float)q) * 1.5707963f, t = x * x;
  float sine = x * (1.0f + t * (-1.0f / 6 + t * (1.0f / 120 - t * (1.0f / 5040))));
  float cosine = 1.0f + t * (-0.5f + t * (1.0f / 24 + t * (-1.0f / 720 + t * (1.0f / 40320))));
  float odd = (float)(q & 1), even = 1.0f - odd; /* sine and cosine change places */
  float negative = 1.0f - (float)((q + 1) & 2), below = 1.0f - (float)(q & 2);
  z[0] = radius * negative * (odd * sine + even * cosine);
  z[1] = radius * below * (even * sine + odd * cosine);
}

#endif
