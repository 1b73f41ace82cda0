/* Off-policy evaluation, the statistics: estimators and intervals from the n terms of a log.
 *
 * An event gives one row of numbers, its terms under every estimator. All estimators are means of
 * those columns, snips a ratio of two, so a bootstrap replicate is one sum of resampled rows and
 * serves all of them. A replicate is a function of (seed, its number) alone and is summed by one
 * thread in order: the same bits for any number of threads. */
#include <math.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "judge/ope.h"

const char *const fopo_ope_names[FOPO_OPE_KINDS] = {"ips", "clipped_ips", "snips",
                                                    "dm",  "dr",          "clipped_dr"};

/* Columns of an event's row. */
enum { W, W_R, CLIPPED_W_R, DM, DR, CLIPPED_DR, COLUMNS };

/* The column whose mean an estimator is; snips divides its own by W. */
static const int column_of[FOPO_OPE_KINDS] = {W_R, CLIPPED_W_R, W_R, DM, DR, CLIPPED_DR};

typedef struct {
  double low, high;
} span;

typedef struct {
  size_t n;
  double (*x)[COLUMNS]; /* [n] rows */
  double mean[COLUMNS];
  int model;
  span reward, predicted; /* of r, and of r_M if there is a model */
  double bound[2];        /* of w: plain, clipped */
} table;

static void widen(span *s, double x) {
  s->low = fmin(s->low, x);
  s->high = fmax(s->high, x);
}

/* ---- the terms ---- */

static void fill(table *t, const fopo_ope_terms *terms, const fopo_logs *logs, double clip) {
  double sum[COLUMNS] = {0};
  t->predicted = t->reward = (span){INFINITY, -INFINITY};
  for (size_t i = 0; i < t->n; i++) {
    double r = (double)logs->rewards[i], p = (double)logs->propensities[i], *x = t->x[i];
    double w = terms->chance[i] / p, clipped = terms->chance[i] / fmax(clip, p);
    widen(&t->reward, r);
    x[W] = w;
    x[W_R] = w * r;
    x[CLIPPED_W_R] = clipped * r;
    if (t->model) {
      double expected = terms->expected[i], logged = terms->logged[i];
      widen(&t->predicted, expected);
      widen(&t->predicted, logged);
      x[DM] = expected;
      x[DR] = expected + w * (r - logged);
      x[CLIPPED_DR] = expected + clipped * (r - logged);
    }
    for (int c = 0; c < COLUMNS; c++) sum[c] += x[c];
  }
  for (int c = 0; c < COLUMNS; c++) t->mean[c] = sum[c] / (double)t->n;
}

static double value_of(const double mean[COLUMNS], int kind) {
  double top = mean[column_of[kind]];
  if (kind != FOPO_OPE_SNIPS) return top;
  return mean[W] > 0.0 ? top / mean[W] : (double)NAN;
}

/* Sum of the squared deviations of the estimator's terms; those of snips, by the delta method, are
 * w_i (r_i - V) / mean(w). */
static double squares_of(const table *t, int kind) {
  int c = column_of[kind];
  double value = value_of(t->mean, kind), sum = 0.0;
  for (size_t i = 0; i < t->n; i++) {
    double d = kind == FOPO_OPE_SNIPS ? (t->x[i][W_R] - value * t->x[i][W]) / t->mean[W]
                                      : t->x[i][c] - value;
    sum += d * d;
  }
  return sum;
}

/* ---- intervals ---- */

double fopo_ope_normal_point(double level) {
  /* P(-z < N < z) = erf(z / sqrt 2), by bisection down to neighbouring doubles */
  double low = 0.0, high = 40.0;
  for (;;) {
    double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) return middle;
    if (1.0 - erfc(middle / sqrt(2.0)) < level) {
      low = middle;
    } else {
      high = middle;
    }
  }
}

/* What one term can be, given the ranges of w, r and r_M. */
static span span_of(const table *t, int kind) {
  span r = t->reward, m = t->predicted;
  double w = t->bound[kind == FOPO_OPE_CLIPPED_IPS || kind == FOPO_OPE_CLIPPED_DR];
  switch (kind) {
  case FOPO_OPE_IPS:
  case FOPO_OPE_CLIPPED_IPS: return (span){w * fmin(r.low, 0.0), w * fmax(r.high, 0.0)};
  case FOPO_OPE_DM: return m;
  case FOPO_OPE_DR:
  case FOPO_OPE_CLIPPED_DR: /* expected + w (r - logged) */
    return (span){m.low + w * fmin(r.low - m.high, 0.0), m.high + w * fmax(r.high - m.low, 0.0)};
  default: return (span){NAN, NAN};
  }
}

/* |mean - V| <= sqrt(2 s^2 ln(4 / delta) / n) + 7 (high - low) ln(4 / delta) / (3 (n - 1)) with
 * probability 1 - delta: theorem 4 of Maurer and Pontil, delta / 2 for each side. */
static double bernstein(double variance, span s, size_t n, double level) {
  double m = (double)n, l = log(4.0 / (1.0 - level));
  return sqrt(2.0 * variance * l / m) + 7.0 * (s.high - s.low) * l / (3.0 * (m - 1.0));
}

static void around(double interval[2], double value, double half) {
  interval[0] = value - half;
  interval[1] = value + half;
}

static void estimate(fopo_ope_estimate *e, const table *t, int kind, double level) {
  double n = (double)t->n, variance = squares_of(t, kind) / (n - 1.0);
  span range = span_of(t, kind);
  e->value = value_of(t->mean, kind);
  e->se = sqrt(variance / n);
  e->range[0] = range.low;
  e->range[1] = range.high;
  e->bootstrap[0] = e->bootstrap[1] = NAN;
  around(e->normal, e->value, fopo_ope_normal_point(level) * e->se);
  around(e->bernstein, e->value, bernstein(variance, range, t->n, level));
}

/* ---- the bootstrap ---- */

/* The means of n rows drawn with replacement: number `step` of the replicates. 0: interrupted. */
static int replicate(double mean[COLUMNS], const table *t, uint64_t seed, uint32_t step) {
  uint32_t n = (uint32_t)t->n;
  double sum[COLUMNS] = {0};
  for (uint32_t i = 0; i < n; i += 4) {
    fopo_words words = fopo_random(seed, FOPO_STREAM_BOOTSTRAP, step, 0, i / 4);
    if (i % (1 << 16) == 0 && fopo_interrupted()) return 0;
    for (uint32_t k = 0; k < 4 && i + k < n; k++) {
      const double *x = t->x[fopo_below(n, words.v[k], seed, step, FOPO_STREAM_BOOTSTRAP, i + k)];
      for (int c = 0; c < COLUMNS; c++) sum[c] += x[c];
    }
  }
  for (int c = 0; c < COLUMNS; c++) mean[c] = sum[c] / (double)n;
  return 1;
}

static int replicates(double (*means)[COLUMNS], const table *t, const fopo_ope_settings *s) {
  const size_t draws = 1 << 20; /* between two reports of progress: some 10 ms */
  size_t together = draws / t->n + 1;
  if (together < 64) together = 64; /* enough for all threads, which poll for interruption */
  int status = FOPO_OK;
  for (size_t first = 0; first < s->bootstrap && status == FOPO_OK; first += together) {
    size_t end = s->bootstrap - first < together ? s->bootstrap : first + together;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
    for (size_t b = first; b < end; b++) replicate(means[b], t, s->seed, (uint32_t)b);
    status = fopo_progress("resampling the log", (double)end, (double)s->bootstrap);
  }
  return status;
}

/* The quantile of n sorted values, linear between neighbours. */
static double quantile(const double *sorted, size_t n, double q) {
  double place = q * (double)(n - 1);
  size_t below = (size_t)place;
  if (below + 1 >= n) return sorted[n - 1];
  return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

static void percentiles(fopo_ope_report *report, int kind, double *values, double (*means)[COLUMNS],
                        const fopo_ope_settings *s) {
  size_t n = 0;
  for (size_t b = 0; b < s->bootstrap; b++) {
    values[n] = value_of(means[b], kind);
    if (!isnan(values[n])) n++;
  }
  if (kind == FOPO_OPE_SNIPS) report->degenerate = s->bootstrap - n;
  if (n == 0) return;
  double tail = 0.5 * (1.0 - s->level), *interval = report->by[kind].bootstrap;
  fopo_sort_f64(values, n);
  interval[0] = quantile(values, n, tail);
  interval[1] = quantile(values, n, 1.0 - tail);
}

static int bootstrap(fopo_ope_report *report, const table *t, const fopo_ope_settings *s) {
  double(*means)[COLUMNS] = fopo_alloc(s->bootstrap, sizeof *means);
  double *values = fopo_alloc(s->bootstrap, sizeof *values);
  int status = means && values ? replicates(means, t, s) : FOPO_ERR_MEMORY;
  for (int kind = 0; status == FOPO_OK && kind < FOPO_OPE_KINDS; kind++) {
    if (report->has[kind]) percentiles(report, kind, values, means, s);
  }
  fopo_free(means);
  fopo_free(values);
  return status;
}

/* ---- the weights ---- */

static void weights(fopo_ope_report *report, const table *t) {
  double sum = 0.0, squares = 0.0, around_mean = 0.0, n = (double)t->n;
  for (size_t i = 0; i < t->n; i++) {
    double w = t->x[i][W], d = w - t->mean[W];
    report->overlap += w > 0.0;
    report->max_weight = fmax(report->max_weight, w);
    sum += w;
    squares += w * w;
    around_mean += d * d;
  }
  report->mean_weight = t->mean[W];
  report->mean_weight_se = sqrt(around_mean / (n - 1.0) / n);
  report->ess = squares > 0.0 ? sum * sum / squares : 0.0;
  report->max_share = sum > 0.0 ? report->max_weight / sum : 0.0;
}

/* 1 / Zhat is too large by the factor 1 + z_error^2, to the first order. */
static void sampling(fopo_ope_report *report, const table *t, const fopo_ope_terms *terms) {
  for (size_t i = 0; i < t->n; i++) {
    double e = terms->z_error[i];
    report->z_error += e / (double)t->n;
    report->z_worst = fmax(report->z_worst, e);
    report->z_bias += e * e * t->x[i][W_R] / (double)t->n;
  }
}

/* ---- all of it ---- */

static int check(const fopo_ope_settings *s, size_t n) {
  if (n < 2 || n >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the log has %zu events; a standard error needs 2 to %u", n,
                     UINT32_MAX - 1);
  }
  if (!(s->clip >= 0.0 && s->clip <= 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "clip is %g; it is the least propensity that a weight is "
                     "divided by, use 0 to 1",
                     s->clip);
  }
  if (!(s->level > 0.0 && s->level < 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "level is %g; use a probability between 0 and 1, as 0.95",
                     s->level);
  }
  if (!(s->least_propensity >= 0.0 && s->least_propensity <= 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the least propensity is %g; use a probability, or 0 for "
                     "the least of the log",
                     s->least_propensity);
  }
  if (s->bootstrap < UINT32_MAX) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "%zu replicates are too many; use some 1000", s->bootstrap);
}

/* Ranges that the caller gives must hold; if none are given, those of the log are used. */
static int set_ranges(table *t, const fopo_logs *logs, const fopo_ope_settings *s) {
  double p = 1.0;
  for (size_t i = 0; i < t->n; i++) p = fmin(p, (double)logs->propensities[i]);
  /* the rounding of a float is allowed: 0.05 is stored as 0.0500000007 */
  if (s->least_propensity > 0.0 && p < s->least_propensity * (1.0 - 1e-6)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the log holds a propensity of %g, less than the %g that "
                     "was given as the least",
                     p, s->least_propensity);
  }
  if (s->least_propensity > 0.0) p = s->least_propensity;
  t->bound[0] = 1.0 / p;
  t->bound[1] = 1.0 / fmax(p, s->clip);
  if (!(s->reward_low < s->reward_high)) return FOPO_OK;
  if (t->reward.low < s->reward_low || t->reward.high > s->reward_high) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the log's rewards go from %g to %g, beyond the given range %g to %g",
                     t->reward.low, t->reward.high, s->reward_low, s->reward_high);
  }
  t->reward = (span){s->reward_low, s->reward_high};
  return FOPO_OK;
}

int fopo_ope_estimate_all(fopo_ope_report *report, const fopo_ope_terms *terms,
                          const fopo_logs *logs, const fopo_ope_settings *settings) {
  table t = {.n = terms->n, .model = terms->expected != NULL};
  *report = (fopo_ope_report){.n = t.n};
  int status = check(settings, t.n);
  if (status != FOPO_OK) return status;
  t.x = fopo_alloc(t.n, sizeof *t.x);
  if (t.x == NULL) return FOPO_ERR_MEMORY;

  fill(&t, terms, logs, settings->clip);
  for (size_t i = 0; i < t.n; i++) report->reward += (double)logs->rewards[i] / (double)t.n;
  status = set_ranges(&t, logs, settings);
  report->weight_bound = t.bound[0];
  weights(report, &t);
  if (terms->z_error != NULL) sampling(report, &t, terms);
  for (int kind = 0; status == FOPO_OK && kind < FOPO_OPE_KINDS; kind++) {
    report->has[kind] = column_of[kind] < DM || t.model;
    if (report->has[kind]) estimate(&report->by[kind], &t, kind, settings->level);
  }
  if (status == FOPO_OK && settings->bootstrap > 0) status = bootstrap(report, &t, settings);
  fopo_free(t.x);
  return status;
}
