/* Slates of Plackett and Luce: k items of pi, each drawn without those before it. With p = pi(a_j)
 * and g_j = 1 / (1 - p_1 - .. - p_(j-1)) the score function of a slate a_1 .. a_k is
 *
 *     sum_j d log = sum_j beta_{a_j} (1 + p_j (g_(j+1) + .. + g_k)) - (g_1 + .. + g_k) E_pi beta,
 *
 * and v = sum_s c_s of it, c as estimators/slates.h has it. All scores of a context are needed, for
 * Z and E_pi beta; the draws are exact, by inversion of their running sum. Over a head and a tail Z
 * and E_pi beta are estimates, and the draws are exact (draw_policy of device/ops.def).
 *
 * Where R is a sum over places of d_j r(a_j), PL-Rank-2 (Oosterhuis 2021) puts the
 * mean over what stands at place j in the place of what was drawn there, and gives it what is
 * earned from j on alone. With R_j = sum of d_i r(a_i) over i >= j,
 *
 *     v = 1 / S sum_s [ sum_j beta_{a_j} (R_(j+1) + p_j sum_{i > j} g_i (R_i - d_i r(a_j)))
 *                       + sum_j g_j (d_j E_pi[r beta] - R_j E_pi beta) ]
 *
 * E_pi[r beta] has a term for each item of Y. With the baseline the others' mean of R_(j+1) is
 * subtracted from both R_(j+1) and R_j, as beta_{a_j} - E_j beta, E_j over the items that may stand
 * at j, has the mean 0; and the r(a_j) in the R_j beside E_pi beta is its mean E_j r. */
#include <math.h>

#include "core/clock.h"
#include "core/status.h"
#include "core/threads.h"
#include "learn/estimators/slates.h"

enum { CREDIT = FOPO_SLATE_OPTIONS, TAIL }; /* the options */
enum { OF_SLATE, OF_PLACE };                /* its choices */
enum { MOST_PLACES = 1000 };

#define LEAST 1e-7 /* of the mass that is left: what float32 scores tell of it */

/* logq = log pi of the items drawn; samples.r has their scores until rewards are looked up. */
static int draw(fopo_batch *b) {
  fopo_device *d = b->data->device;
  const fopo_samples *x = &b->draws.samples;
  const fopo_gradient_options *o = b->options;
  fopo_policy_sums sums = {b->draws.mean, b->draws.log_z, o->proposal.k, NULL, o->own[TAIL].count};
  fopo_candidate_sets drawn = {.k = b->S, .ids = x->ids, .scores = x->r};
  fopo_rows items = {b->data->device_items.x, b->data->device_items.ld, FOPO_FLOAT32};
  double start = fopo_clock();
  if (o->head > 0) sums.head = &b->plan->head;
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

/* v [L] = sum of the draws' coefficients times their items, less of_mean E_pi beta; of the mass of
 * candidates nothing is told. */
static void add_up(float *v, const fopo_batch *b, size_t i, double of_mean) {
  const float *own = b->draws.samples.logq + i * b->S, *mean = b->draws.mean + i * b->data->L;
  const uint32_t *ids = b->draws.samples.ids + i * b->S;
  size_t L = b->data->L;
  b->piece.stats[i * FOPO_STATS + FOPO_STAT_HEAD_MASS] = 0.0f;
  for (size_t l = 0; l < L; l++) v[l] = (float)(-of_mean * (double)mean[l]);
  for (size_t s = 0; s < b->S; s++) {
    const float *beta = fopo_matrix_row(b->data->device_items, ids[s]);
    for (size_t l = 0; own[s] != 0.0f && l < L; l++) v[l] += own[s] * beta[l];
  }
}

static int by_slates(fopo_batch *b) {
  fopo_slates x = fopo_slates_of(b);
  fopo_device *d = b->data->device;
  size_t S = x.S, k = x.k;
  int status = d->ops->weigh_slates(d, &b->draws.samples, b->piece.stats, &x, &b->piece.device);
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t i = 0; i < b->piece.n; i++) {
    const float *c = b->draws.samples.r + i * b->S;
    float *own = b->draws.samples.logq + i * b->S;
    double of_mean = 0.0;
    for (size_t s = 0; s < S; s++) of_mean += coefficients(own + s * k, k, (double)c[s * k]);
    add_up(fopo_matrix_row(b->piece.V, i), b, i, of_mean);
  }
  return FOPO_OK;
}

/* ---- PL-Rank ---- */

/* Of one slate, or of all of a context. */
typedef struct {
  double R;                /* its reward */
  double of_mean, of_hits; /* the coefficients of - E_pi beta and E_pi[r beta] */
} place_sums;

/* after [k] += R_(j+1) of a slate whose places earn r [k]; returns R_1. */
static double add_after(double *after, const float *r, const float *logq, const fopo_slates *x) {
  double from = 0.0;
  for (size_t j = x->k; j-- > 0;) {
    if (after != NULL) after[j] += from;
    if (logq[j] > -INFINITY) from += fopo_slate_discount(x, j) * (double)r[j];
  }
  return from;
}

/* What slates are compared with in a context. */
typedef struct {
  double after[MOST_PLACES]; /* the sum over all slates of R_(j+1) */
  double r;                  /* E_pi r */
} expected;

/* logq [k] of a slate becomes the coefficients of its items; with the baseline, `of` not NULL, the
 * others' mean is subtracted from R_(j+1), and r(a_j) is E_j r beside E_j beta. */
static place_sums by_place(float *logq, const float *r, const expected *of, const fopo_slates *x,
                           double scale) {
  size_t k = x->k;
  place_sums all = {scale * add_after(NULL, r, logq, x), 0.0, 0.0}, passed = {0.0, 0.0, 0.0};
  for (int last = 0; last < 2; last++) {                    /* the sums over all places first */
    double taken = 0.0, earned = 0.0, next = all.R / scale; /* pi and pi r of the places before */
    for (size_t j = 0; j < k && logq[j] > -INFINITY; j++) {
      double p = exp((double)logq[j]), d = fopo_slate_discount(x, j), g = rest(taken);
      next -= d * (double)r[j];
      double b = of != NULL ? (of->after[j] - next) / (double)(x->S - 1) : 0.0;
      double here = of != NULL ? g * (of->r - earned) : (double)r[j];
      place_sums *to = last ? &passed : &all;
      to->of_mean += g * (next - b + d * here);
      to->of_hits += g * d;
      double c = next - b +
                 p * (all.of_mean - passed.of_mean - (double)r[j] * (all.of_hits - passed.of_hits));
      if (last) logq[j] = (float)(scale * c);
      taken += p, earned += p * (double)r[j];
    }
  }
  for (size_t j = 0; j < k; j++) logq[j] = logq[j] > -INFINITY ? logq[j] : 0.0f;
  all.of_mean *= scale, all.of_hits *= scale;
  return all;
}

/* E_pi r in context i; v += c E_pi[r beta], unless v is NULL. */
static double add_hits(float *v, const fopo_batch *b, const fopo_slates *x, size_t i, double c) {
  const float *q = fopo_matrix_row(b->piece.Q, i), *value = b->data->credited.value;
  fopo_sparse_scores scores = fopo_batch_scores(&b->piece.device);
  fopo_score_row mask = fopo_score_row_of(&scores, i);
  size_t L = b->data->L;
  double mean = 0.0;
  for (size_t e = 0; e < fopo_csr_count(&x->Y, x->rows[i]); e++) {
    uint32_t id = fopo_csr_row(&x->Y, x->rows[i])[e];
    if (fopo_score_of(&mask, id) == -INFINITY) continue;
    const float *beta = fopo_matrix_row(b->data->device_items, id);
    double f = 0.0;
    for (size_t l = 0; l < L; l++) f += (double)beta[l] * (double)q[l];
    double p = exp(f - (double)b->draws.log_z[i]);
    double share = p * (value != NULL ? (double)value[id] : 1.0);
    for (size_t l = 0; v != NULL && l < L; l++) v[l] += (float)(c * share) * beta[l];
    mean += share;
  }
  return mean;
}

static void by_places(fopo_batch *b) {
  fopo_slates x = fopo_slates_of(b);
  fopo_sparse_scores scores = fopo_batch_scores(&b->piece.device);
  size_t S = x.S, k = x.k;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t i = 0; i < b->piece.n; i++) {
    float *logq = b->draws.samples.logq + i * b->S, *v = fopo_matrix_row(b->piece.V, i);
    const float *r = b->draws.samples.r + i * b->S;
    double scale = 1.0 / ((double)S * fopo_slate_ideal(&x, &scores, i));
    expected of = {.r = add_hits(NULL, b, &x, i, 0.0)};
    place_sums sum = {0.0, 0.0, 0.0};
    for (size_t s = 0; s < S; s++) add_after(of.after, r + s * k, logq + s * k, &x);
    for (size_t s = 0; s < S; s++) {
      place_sums one = by_place(logq + s * k, r + s * k, x.baseline ? &of : NULL, &x, scale);
      sum.R += one.R, sum.of_mean += one.of_mean, sum.of_hits += one.of_hits;
    }
    add_up(v, b, i, sum.of_mean);
    add_hits(v, b, &x, i, sum.of_hits);
    fopo_slate_tell(b->piece.stats + i * FOPO_STATS, &x, sum.R);
  }
}

static int combine(fopo_batch *b) {
  int status = FOPO_OK;
  if (b->options->own[CREDIT].choice == OF_PLACE) {
    by_places(b);
  } else {
    status = by_slates(b);
  }
  return status;
}

static int check(const fopo_gradient_options *o, const fopo_estimator_use *use) {
  int by_place = o->own[CREDIT].choice == OF_PLACE;
  if (by_place && o->own[FOPO_SLATE_MEASURE].choice == FOPO_SLATE_HIT) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "credit = \"place\" is of rewards that are sums over places; use measure = "
                     "\"sum\", \"dcg\" or \"ndcg\", or credit = \"slate\"");
  }
  if (by_place && o->proposal.k > MOST_PLACES) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "credit = \"place\" is of slates of %d items at most, not of %zu; use credit = "
        "\"slate\"",
        MOST_PLACES, o->proposal.k);
  }
  if (by_place && use->reward->Y == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "credit = \"place\" needs the rewards of all items, which hits tell; use "
                     "fopo.reward.hits, or credit = \"slate\"");
  }
  if (o->head > 0 && (o->head >= use->P || o->own[TAIL].count > use->P - o->head)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a head of %zu items and a tail of %zu draws are more than the %zu items; use "
                     "a smaller head or tail",
                     o->head, o->own[TAIL].count, use->P);
  }
  if (use->device->ops->snis_shared == NULL) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "gradient plackett_luce draws items without repeats, on the CPU alone; use "
                     "device = \"cpu\"");
  }
  return fopo_slate_check(o, use);
}

static const char *const credits[] = {"slate", "place", NULL};

static const fopo_option options[] = {
    FOPO_OPTION_SLATE_K(0),
    FOPO_OPTION_SLATE_SAMPLES,
    FOPO_OPTION_SLATE_MEASURE,
    FOPO_OPTION_SLATE_DISCOUNT,
    FOPO_OPTION_SLATE_BASELINE,
    {.name = "credit",
     .type = FOPO_OPTION_CHOICE,
     .member = offsetof(fopo_gradient_options, own[CREDIT].choice),
     .choices = credits,
     .text = "slate: the reward of a slate is all its places'; place: PL-Rank, of sums over places "
             "each place is credited with what is earned from it on"},
    {.name = "head",
     .type = FOPO_OPTION_COUNT,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_gradient_options, head),
     .symbol = "head",
     .text =
         "H, the items of largest norm, which are read for every context, besides a tail; 0: all "
         "items are"},
    {.name = "tail",
     .type = FOPO_OPTION_COUNT,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_gradient_options, own[TAIL].count),
     .standard = 1000,
     .least = 1,
     .text = "U, draws of the others for log Z and E_pi beta, if there is a head"},
    {0}};

const fopo_estimator fopo_estimator_plackett_luce = {
    .name = "plackett_luce",
    .title = "plackett_luce",
    .needs = FOPO_READS_ALL_ITEMS | FOPO_DRAWS_SLATES,
    .least = 2,
    .draws = fopo_slate_draws,
    .check = check,
    .draw = draw,
    .combine = combine,
    .options = options,
    // clang-format off
    .text = "Slates of k items of the softmax without replacement (Plackett 1975, Luce 1959): each place is drawn of\n"
          "pi without the items before it, exactly, and the gradient is that of the log-probability of a slate,\n"
          "v = sum_s c_s d log P(slate s), c_s = (R_s - mean R) / (S - 1) (REINFORCE, leave-one-out). The rival of\n"
          "fopo.gradient.slate, which describes measures, rewards and short slates. credit = \"place\" is PL-Rank-2\n"
          "(Oosterhuis, SIGIR 2021): where R is a sum over places (sum, dcg, ndcg, of fopo.reward.hits), place j is\n"
          "credited with what is earned from j on, less its mean over all items that could stand at j.\n"
          "Bias: none. Variance: grows with k, as the terms of k places add up; less by place. Cost: P rows a\n"
          "context, and S k; by place also a row for each item of Y.\n"
          "With head = H the H items of largest norm and U others, the tail, are read in the place of P. Slates have the\n"
          "same law: an item of the rest is proposed at the most that its norm allows, and kept with its own share of\n"
          "that; a context that rejects more than 1,000 + P / 32 reads all items. log Z and E_pi beta are estimates, of\n"
          "which each of the U stands for (P - H) / U items: a bias of order 1 / U, small where the head holds the mass.\n"
          "It is faster where norms fall fast, as the bound is then tight, and slower where they do not.\n"
          "Where less than 1e-12 of the mass is left, a slate is short; less than 1e-7 of it counts as 1e-7. On the\n"
          "CPU; items that are learnt, and items that are dealt out to ranks, are refused.",
    .example = "g = fopo.gradient.plackett_luce{k = 5, samples = 40, measure = \"ndcg\", credit = \"place\"}\n"
             "assert(g.k == 5 and g.samples == 40 and g.credit == \"place\")",
    // clang-format on
};
