/* Slates of Plackett and Luce: k items of pi, each drawn without those before it. With p = pi(a_j)
 * and g_j = 1 / (1 - p_1 - .. - p_(j-1)) the score function of a slate a_1 .. a_k is
 *
 *     sum_j d log = sum_j beta_{a_j} (1 + p_j (g_(j+1) + .. + g_k)) - (g_1 + .. + g_k) E_pi beta,
 *
 * and v = sum_s c_s of it, c as estimators/slates.h has it. All scores of a context are needed, for
 * Z and E_pi beta; the draws are exact, by inversion of their running sum. */
#include <math.h>

#include "core/clock.h"
#include "core/threads.h"
#include "learn/estimators/slates.h"

#define LEAST 1e-7 /* of the mass that is left: what float32 scores tell of it */

/* logq = log pi of the items drawn; samples.r has their scores until rewards are looked up. */
static int draw(fopo_batch *b) {
  fopo_device *d = b->data->device;
  const fopo_samples *x = &b->draws.samples;
  fopo_policy_sums sums = {b->draws.mean, b->draws.log_z, b->options->proposal.k};
  fopo_candidate_sets drawn = {.k = b->S, .ids = x->ids, .scores = x->r};
  fopo_rows items = {b->data->device_items.x, b->data->device_items.ld, FOPO_FLOAT32};
  double start = fopo_clock();
  int status = d->ops->draw_policy(d, x, &sums, b->data->device_items, &b->piece.device);
  if (status == FOPO_OK) status = d->ops->scores(d, &drawn, &items, &b->piece.device);
  for (size_t i = 0; i < b->piece.n * b->S && status == FOPO_OK; i++) {
    if (x->logq[i] > -INFINITY) x->logq[i] = x->r[i] - b->draws.log_z[i / b->S];
  }
  b->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

static double rest(double taken) { return taken < 1.0 - LEAST ? 1.0 / (1.0 - taken) : 1.0 / LEAST; }

/* logq [k] of a slate becomes the coefficients of its items; returns that of - E_pi beta. */
static double coefficients(float *logq, size_t k, double c) {
  double taken = 0.0, all = 0.0, passed = 0.0;
  for (size_t j = 0; j < k && logq[j] > -INFINITY; j++) {
    all += rest(taken);
    taken += exp((double)logq[j]);
  }
  taken = 0.0;
  for (size_t j = 0; j < k; j++) {
    double p = logq[j] > -INFINITY ? exp((double)logq[j]) : 0.0;
    passed += rest(taken);
    logq[j] = logq[j] > -INFINITY ? (float)(c * (1.0 + p * (all - passed))) : 0.0f;
    taken += p;
  }
  return c * all;
}

static int combine(fopo_batch *b) {
  size_t S = b->options->samples, k = b->options->proposal.k, L = b->data->L;
  fopo_slate_weigh(b, 0);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t i = 0; i < b->piece.n; i++) {
    const float *c = b->draws.samples.r + i * b->S, *mean = b->draws.mean + i * L;
    const uint32_t *ids = b->draws.samples.ids + i * b->S;
    float *own = b->draws.samples.logq + i * b->S, *v = fopo_matrix_row(b->piece.V, i);
    double of_mean = 0.0;
    for (size_t s = 0; s < S; s++) of_mean += coefficients(own + s * k, k, (double)c[s]);
    for (size_t l = 0; l < L; l++) v[l] = (float)(-of_mean * (double)mean[l]);
    for (size_t s = 0; s < b->S; s++) {
      const float *beta = fopo_matrix_row(b->data->device_items, ids[s]);
      for (size_t l = 0; own[s] != 0.0f && l < L; l++) v[l] += own[s] * beta[l];
    }
    b->piece.stats[i * FOPO_STATS + FOPO_STAT_HEAD_MASS] = 0.0f;
  }
  return FOPO_OK;
}

static const fopo_option options[] = {FOPO_OPTION_SLATE_K(0),     FOPO_OPTION_SLATE_SAMPLES,
                                      FOPO_OPTION_SLATE_MEASURE,  FOPO_OPTION_SLATE_DISCOUNT,
                                      FOPO_OPTION_SLATE_BASELINE, {0}};

const fopo_estimator fopo_estimator_plackett_luce = {
    .name = "plackett_luce",
    .title = "plackett_luce",
    .needs = FOPO_READS_ALL_ITEMS | FOPO_DRAWS_SLATES,
    .least = 2,
    .draws = fopo_slate_draws,
    .check = fopo_slate_check,
    .draw = draw,
    .combine = combine,
    .options = options,
    // clang-format off
    .text = "Slates of k items of the softmax without replacement (Plackett 1975, Luce 1959): each place is drawn of\n"
          "pi without the items before it, exactly, and the gradient is that of the log-probability of a slate,\n"
          "v = sum_s c_s d log P(slate s), c_s = (R_s - mean R) / (S - 1) (REINFORCE, leave-one-out). The rival of\n"
          "fopo.gradient.slate, which describes measures, rewards and short slates.\n"
          "Bias: none. Variance: grows with k, as the terms of k places add up. Cost: P rows a context, and S k.\n"
          "Where less than 1e-12 of the mass is left, a slate is short; less than 1e-7 of it counts as 1e-7. On the\n"
          "CPU; items that are learnt, and items that are dealt out to ranks, are refused.",
    .example = "g = fopo.gradient.plackett_luce{k = 5, samples = 40, measure = \"ndcg\"}\n"
             "assert(g.k == 5 and g.samples == 40)",
    // clang-format on
};
