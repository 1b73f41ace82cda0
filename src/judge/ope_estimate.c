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

/* The form of an estimator's term, with its weight w and its model m = r_M(a_i, x_i). */
typedef enum {
  TIMES,   /* w r */
  RATIO,   /* the mean of w r over that of w */
  FLOORED, /* low + w (r - low) */
  LOG,     /* low + log(1 + lambda w (r - low)) / lambda */
  MODELLED /* E_pi r_M + w (r - m) */
} form;

/* What an event says. */
typedef struct {
  double chance, p, r;     /* pi(a_i | x_i), its propensity, its reward */
  double expected, logged; /* E_pi r_M, r_M(a_i, x_i) */
  double group;            /* pi(c | x_i) / mu(c | x_i) of its group c */
} event;

/* ---- weights, by the parameter t ---- */

static double plain(const event *e, double t) { return e->chance / fmax(t, e->p); }
static double implicit(const event *e, double t) { return e->chance / (e->p + 0.5 * t); }

static double of_group(const event *e, double t) {
  (void)t;
  return e->group;
}

/* lambda w / (w^2 + lambda), whose largest value is sqrt(lambda) / 2 at w = sqrt lambda. */
static double shrunk(const event *e, double t) {
  double w = e->chance / e->p;
  return w > 0.0 ? t * w / (w * w + t) : 0.0;
}

typedef struct {
  fopo_ope_about about;
  form form;
  double (*weight)(const event *e, double t); /* NULL: 0 */
} row;

static const row rows[FOPO_OPE_KINDS] = {
    [FOPO_OPE_IPS] = {{"ips", 0, 0, NULL}, TIMES, plain},
    [FOPO_OPE_CLIPPED_IPS] = {{"clipped_ips", 0, 0, "tau"}, TIMES, plain},
    [FOPO_OPE_SNIPS] = {{"snips", 0, 0, NULL}, RATIO, plain},
    [FOPO_OPE_IX] = {{"ix", 0, 0, "gamma"}, FLOORED, implicit},
    [FOPO_OPE_LS] = {{"ls", 0, 0, "lambda"}, LOG, plain},
    [FOPO_OPE_DM] = {{"dm", 1, 0, NULL}, MODELLED, NULL},
    [FOPO_OPE_DR] = {{"dr", 1, 0, NULL}, MODELLED, plain},
    [FOPO_OPE_CLIPPED_DR] = {{"clipped_dr", 1, 0, "tau"}, MODELLED, plain},
    [FOPO_OPE_DROS] = {{"dros", 1, 0, "lambda"}, MODELLED, shrunk},
    [FOPO_OPE_MIPS] = {{"mips", 0, 1, NULL}, TIMES, of_group},
    [FOPO_OPE_OFFCEM] = {{"offcem", 1, 1, NULL}, MODELLED, of_group},
};

fopo_ope_about fopo_ope_about_kind(fopo_ope_kind kind) { return rows[kind].about; }

static double weight_of(int kind, const event *e, double parameter) {
  const row *r = &rows[kind];
  if (r->weight == NULL) return 0.0;
  return r->weight(e, r->form == LOG ? 0.0 : parameter); /* lambda of ls is none of the weight */
}

enum {
  GRID = 16, /* values that a parameter is chosen from; no fewer than there are kinds */
  W = 0      /* the column of the weight itself; that of a kind is 1 + kind */
};

typedef struct {
  double low, high;
} span;

typedef struct {
  size_t n;
  const fopo_ope_terms *terms;
  const fopo_logs *logs;
  const fopo_ope_settings *settings;
  size_t columns;                   /* of x */
  size_t column[FOPO_OPE_KINDS];    /* of each kind; 0: it is not wanted */
  double *x;                        /* [n, columns] */
  double mean[1 + FOPO_OPE_KINDS];  /* of each column */
  double parameter[FOPO_OPE_KINDS]; /* that is used */
  size_t tried[FOPO_OPE_KINDS];     /* values it was chosen from */
  span reward, predicted;           /* of r, and of r_M if there is a model */
  double low, range;                /* min(0, the least r), and the largest r less it */
  double least, least_group;        /* of p; of mu(c | x), 0: there are no groups */
  double largest;                   /* w of the log */
  double z;                         /* of the normal intervals */
} table;

static void widen(span *s, double x) {
  s->low = fmin(s->low, x);
  s->high = fmax(s->high, x);
}

/* ---- the terms ---- */

static event event_of(const table *t, size_t i) {
  const fopo_ope_terms *terms = t->terms;
  event e = {.chance = terms->chance[i],
             .p = (double)t->logs->propensities[i],
             .r = (double)t->logs->rewards[i]};
  if (terms->expected != NULL) e.expected = terms->expected[i], e.logged = terms->logged[i];
  if (t->least_group > 0.0) e.group = terms->group[i] / (double)t->settings->logging[i];
  return e;
}

/* What event i contributes to an estimator of this kind with this parameter. */
static double term(const table *t, int kind, size_t i, double parameter) {
  event e = event_of(t, i);
  double w = weight_of(kind, &e, parameter);
  switch (rows[kind].form) {
  case FLOORED: return t->low + w * (e.r - t->low);
  case LOG: return t->low + log1p(parameter * w * (e.r - t->low)) / parameter;
  case MODELLED: return e.expected + w * (e.r - e.logged);
  default: return w * e.r;
  }
}

/* The ranges of what the events hold. */
static void look(table *t, fopo_ope_report *report) {
  t->predicted = t->reward = (span){INFINITY, -INFINITY};
  t->least = 1.0;
  for (size_t i = 0; i < t->n; i++) {
    event e = event_of(t, i);
    widen(&t->reward, e.r);
    widen(&t->predicted, e.expected);
    widen(&t->predicted, e.logged);
    t->least = fmin(t->least, e.p);
    t->largest = fmax(t->largest, e.chance / e.p);
    report->reward += e.r / (double)t->n;
    if (t->terms->shown) report->unshown += (1.0 - t->terms->shown[i]) / (double)t->n;
  }
}

static double value_of(const table *t, const double mean[], int kind) {
  double top = mean[t->column[kind]];
  if (rows[kind].form != RATIO) return top;
  return mean[W] > 0.0 ? top / mean[W] : (double)NAN;
}

/* Sum of the squared deviations of the estimator's terms; those of snips, by the delta method, are
 * w_i (r_i - V) / mean(w). */
static double squares_of(const table *t, int kind) {
  double value = value_of(t, t->mean, kind), sum = 0.0;
  for (size_t i = 0; i < t->n; i++) {
    const double *x = t->x + i * t->columns;
    double term = x[t->column[kind]];
    double d = rows[kind].form == RATIO ? (term - value * x[W]) / t->mean[W] : term - value;
    sum += d * d;
  }
  return sum;
}

static void fill(table *t) {
  for (size_t i = 0; i < t->n; i++) {
    event e = event_of(t, i);
    double *x = t->x + i * t->columns;
    x[W] = plain(&e, 0.0);
    for (int kind = 0; kind < FOPO_OPE_KINDS; kind++) {
      if (t->column[kind] > 0) x[t->column[kind]] = term(t, kind, i, t->parameter[kind]);
    }
    for (size_t c = 0; c < t->columns; c++) t->mean[c] += x[c];
  }
  for (size_t c = 0; c < t->columns; c++) t->mean[c] /= (double)t->n;
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
  double parameter = t->parameter[kind];
  event e = {.chance = 1.0, .p = t->least, .group = 1.0 / t->least_group};
  if (kind == FOPO_OPE_DROS) e.chance = fmin(1.0, sqrt(parameter) * e.p);
  double w = weight_of(kind, &e, parameter);
  switch (rows[kind].form) {
  case TIMES: return (span){w * fmin(r.low, 0.0), w * fmax(r.high, 0.0)};
  case FLOORED: return (span){t->low, t->low + w * t->range};
  case LOG: return (span){t->low, t->low + log1p(parameter * w * t->range) / parameter};
  case MODELLED: /* expected + w (r - logged) */
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

/* V >= this with probability `level`, for all of the `tried` values of the parameter at once. */
static double bound_of(const table *t, int kind, double value, double parameter, size_t tried) {
  double cost = log((double)tried / (1.0 - t->settings->level)) / (double)t->n;
  if (kind == FOPO_OPE_LS) {
    return t->low + expm1(parameter * (value - t->low) - cost) / parameter;
  }
  return kind == FOPO_OPE_IX ? value - t->range * cost / parameter : (double)NAN;
}

static void estimate(fopo_ope_estimate *e, const table *t, int kind) {
  double n = (double)t->n, variance = squares_of(t, kind) / (n - 1.0);
  span range = span_of(t, kind);
  e->value = value_of(t, t->mean, kind);
  e->se = sqrt(variance / n);
  e->range[0] = range.low;
  e->range[1] = range.high;
  e->parameter = rows[kind].about.parameter ? t->parameter[kind] : (double)NAN;
  e->bound = bound_of(t, kind, e->value, t->parameter[kind], t->tried[kind]);
  e->bootstrap[0] = e->bootstrap[1] = NAN;
  around(e->normal, e->value, t->z * e->se);
  around(e->bernstein, e->value, bernstein(variance, range, t->n, t->settings->level));
}

/* ---- choices ---- */

/* The last of n estimates, by descending half width of their intervals, before the first that lies
 * too far from one of those before it: |v_i - v_j| > half_i + (sqrt 6 - 1) half_j. */
static size_t slope(const double *value, const double *half, size_t n) {
  size_t order[GRID];
  for (size_t i = 0; i < n; i++) {
    size_t at = i;
    for (; at > 0 && half[order[at - 1]] < half[i]; at--) order[at] = order[at - 1];
    order[at] = i;
  }
  for (size_t i = 1; i < n; i++) {
    size_t a = order[i];
    for (size_t j = 0; j < i; j++) {
      size_t b = order[j];
      if (fabs(value[a] - value[b]) > half[a] + (sqrt(6.0) - 1.0) * half[b]) return order[i - 1];
    }
  }
  return order[n - 1];
}

/* The values that a parameter is chosen from, in geometric steps. */
static double candidate(const table *t, int kind, int i) {
  double low = fmin(1.0 / (double)t->n, t->least), high = 1.0;
  if (rows[kind].weight == shrunk) low = 0.01, high = fmax(1.0, 100.0 * t->largest * t->largest);
  if (rows[kind].form == LOG) low /= t->range, high /= t->range;
  return low * pow(high / low, (double)i / (GRID - 1.0));
}

static int choose(table *t, int kind) {
  double value[GRID], half[GRID], n = (double)t->n;
  size_t best = 0;
  for (int g = 0; g < GRID; g++) {
    double parameter = candidate(t, kind, g), sum = 0.0, squares = 0.0;
    int status = fopo_progress("choosing a parameter", g, GRID);
    if (status != FOPO_OK) return status;
    for (size_t i = 0; i < t->n; i++) sum += term(t, kind, i, parameter);
    value[g] = sum / n;
    for (size_t i = 0; i < t->n; i++) {
      double d = term(t, kind, i, parameter) - value[g];
      squares += d * d;
    }
    half[g] = t->z * sqrt(squares / (n - 1.0) / n);
    if (t->settings->choice[kind] == FOPO_OPE_BOUND) {
      value[g] = bound_of(t, kind, value[g], parameter, GRID);
      if (value[g] > value[best]) best = (size_t)g;
    }
  }
  if (t->settings->choice[kind] == FOPO_OPE_SLOPE) best = slope(value, half, GRID);
  t->parameter[kind] = candidate(t, kind, (int)best);
  t->tried[kind] = GRID;
  return FOPO_OK;
}

static int set_parameters(table *t) {
  int status = FOPO_OK;
  for (int kind = 0; kind < FOPO_OPE_KINDS && status == FOPO_OK; kind++) {
    int has = rows[kind].about.parameter != NULL;
    t->tried[kind] = 1;
    t->parameter[kind] = has ? t->settings->parameter[kind] : 0.0;
    if ((kind == FOPO_OPE_IX || kind == FOPO_OPE_LS) && t->parameter[kind] == 0.0) {
      t->parameter[kind] = 1.0 / (sqrt((double)t->n) * (kind == FOPO_OPE_LS ? t->range : 1.0));
    }
    if (t->column[kind] > 0 && has && t->settings->choice[kind] != FOPO_OPE_GIVEN) {
      status = choose(t, kind);
    }
  }
  return status;
}

/* The kind that SLOPE takes of those that have a value. */
static int choose_kind(const fopo_ope_report *report) {
  double value[FOPO_OPE_KINDS], half[FOPO_OPE_KINDS];
  int kinds[FOPO_OPE_KINDS];
  size_t n = 0;
  for (int kind = 0; kind < FOPO_OPE_KINDS; kind++) {
    const fopo_ope_estimate *e = &report->by[kind];
    if (!report->has[kind] || isnan(e->value)) continue;
    value[n] = e->value;
    half[n] = e->normal[1] - e->value;
    kinds[n++] = kind;
  }
  return n > 0 ? kinds[slope(value, half, n)] : -1;
}

/* ---- the bootstrap ---- */

/* The means of n rows drawn with replacement: number `step` of the replicates. 0: interrupted. */
static int replicate(double *mean, const table *t, uint64_t seed, uint32_t step) {
  uint32_t n = (uint32_t)t->n;
  double sum[1 + FOPO_OPE_KINDS] = {0};
  for (uint32_t i = 0; i < n; i += 4) {
    fopo_words words = fopo_random(seed, FOPO_STREAM_BOOTSTRAP, step, 0, i / 4);
    if (i % (1 << 16) == 0 && fopo_interrupted()) return 0;
    for (uint32_t k = 0; k < 4 && i + k < n; k++) {
      uint32_t at = fopo_below(n, words.v[k], seed, step, FOPO_STREAM_BOOTSTRAP, i + k);
      const double *x = t->x + at * t->columns;
      for (size_t c = 0; c < t->columns; c++) sum[c] += x[c];
    }
  }
  for (size_t c = 0; c < t->columns; c++) mean[c] = sum[c] / (double)n;
  return 1;
}

static int replicates(double *means, const table *t, const fopo_ope_settings *s) {
  const size_t draws = 1 << 20; /* between two reports of progress: some 10 ms */
  size_t together = draws / t->n + 1;
  if (together < 64) together = 64; /* enough for all threads, which poll for interruption */
  int status = FOPO_OK;
  for (size_t first = 0; first < s->bootstrap && status == FOPO_OK; first += together) {
    size_t end = s->bootstrap - first < together ? s->bootstrap : first + together;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
    for (size_t b = first; b < end; b++) replicate(means + b * t->columns, t, s->seed, (uint32_t)b);
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

static void percentiles(fopo_ope_report *report, const table *t, int kind, double *values,
                        const double *means) {
  const fopo_ope_settings *s = t->settings;
  size_t n = 0;
  for (size_t b = 0; b < s->bootstrap; b++) {
    values[n] = value_of(t, means + b * t->columns, kind);
    if (!isnan(values[n])) n++;
  }
  if (kind == FOPO_OPE_SNIPS) report->degenerate = s->bootstrap - n;
  if (n == 0) return;
  double tail = 0.5 * (1.0 - s->level), *interval = report->by[kind].bootstrap;
  fopo_sort_f64(values, n);
  interval[0] = quantile(values, n, tail);
  interval[1] = quantile(values, n, 1.0 - tail);
}

static int bootstrap(fopo_ope_report *report, const table *t) {
  const fopo_ope_settings *s = t->settings;
  double *means = fopo_alloc(s->bootstrap * t->columns, sizeof *means);
  double *values = fopo_alloc(s->bootstrap, sizeof *values);
  int status = means && values ? replicates(means, t, s) : FOPO_ERR_MEMORY;
  for (int kind = 0; status == FOPO_OK && kind < FOPO_OPE_KINDS; kind++) {
    if (report->has[kind]) percentiles(report, t, kind, values, means);
  }
  fopo_free(means);
  fopo_free(values);
  return status;
}

/* ---- the weights ---- */

static void weights(fopo_ope_report *report, const table *t) {
  double sum = 0.0, squares = 0.0, around_mean = 0.0, n = (double)t->n;
  for (size_t i = 0; i < t->n; i++) {
    double w = t->x[i * t->columns + W], d = w - t->mean[W];
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
static void sampling(fopo_ope_report *report, const table *t) {
  for (size_t i = 0; i < t->n; i++) {
    double e = t->terms->z_error[i], w_r = t->x[i * t->columns + W] * (double)t->logs->rewards[i];
    report->z_error += e / (double)t->n;
    report->z_worst = fmax(report->z_worst, e);
    report->z_bias += e * e * w_r / (double)t->n;
  }
}

/* ---- all of it ---- */

static int check_probability(const char *what, double p, const char *remedy) {
  if (p >= 0.0 && p <= 1.0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "%s is %g; %s", what, p, remedy);
}

static int check_parameters(const fopo_ope_settings *s) {
  for (int kind = 0; kind < FOPO_OPE_KINDS; kind++) {
    double p = s->parameter[kind];
    int clips = kind == FOPO_OPE_CLIPPED_IPS || kind == FOPO_OPE_CLIPPED_DR, status = FOPO_OK;
    if (clips) {
      status = check_probability("clip", p,
                                 "it is the least propensity that a weight is divided "
                                 "by, use 0 to 1");
    } else if (!(p >= 0.0 && isfinite(p))) {
      status = fopo_fail(FOPO_ERR_ARGUMENT, "%s of %s is %g; use a number above 0",
                         rows[kind].about.parameter, rows[kind].about.name, p);
    }
    if (status != FOPO_OK) return status;
    if (s->choice[kind] == FOPO_OPE_BOUND && kind != FOPO_OPE_IX && kind != FOPO_OPE_LS) {
      return fopo_fail(FOPO_ERR_ARGUMENT, "%s has no lower bound to choose by; use slope",
                       rows[kind].about.name);
    }
  }
  return FOPO_OK;
}

static int check(const fopo_ope_settings *s, size_t n) {
  if (n < 2 || n >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the log has %zu events; a standard error needs 2 to %u", n,
                     UINT32_MAX - 1);
  }
  int status = check_parameters(s);
  if (status == FOPO_OK) {
    status = check_probability("the least propensity", s->least_propensity,
                               "use a probability, or 0 for the least of the log");
  }
  if (status != FOPO_OK) return status;
  if (!(s->level > 0.0 && s->level < 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "level is %g; use a probability between 0 and 1, as 0.95",
                     s->level);
  }
  if (s->bootstrap < UINT32_MAX) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "%zu replicates are too many; use some 1000", s->bootstrap);
}

/* Ranges that the caller gives must hold; if none are given, those of the log are used. */
static int set_ranges(table *t) {
  const fopo_ope_settings *s = t->settings;
  /* the rounding of a float is allowed: 0.05 is stored as 0.0500000007 */
  if (s->least_propensity > 0.0 && t->least < s->least_propensity * (1.0 - 1e-6)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the log holds a propensity of %g, less than the %g that "
                     "was given as the least",
                     t->least, s->least_propensity);
  }
  if (s->least_propensity > 0.0) t->least = s->least_propensity;
  if (s->reward_low < s->reward_high) {
    if (t->reward.low < s->reward_low || t->reward.high > s->reward_high) {
      return fopo_fail(FOPO_ERR_ARGUMENT,
                       "the log's rewards go from %g to %g, beyond the given range %g to %g",
                       t->reward.low, t->reward.high, s->reward_low, s->reward_high);
    }
    t->reward = (span){s->reward_low, s->reward_high};
  }
  t->low = fmin(0.0, t->reward.low);
  t->range = t->reward.high > t->low ? t->reward.high - t->low : 1.0; /* 1: every r is t->low */
  return FOPO_OK;
}

/* mu(c(a_i) | x_i) of every event. */
static int set_groups(table *t) {
  const float *mu = t->settings->logging;
  if (t->terms->group == NULL || mu == NULL) return FOPO_OK;
  for (size_t i = 0; i < t->n; i++) {
    double p = (double)mu[i];
    if (!(p > 0.0 && p <= 1.0)) {
      return fopo_fail(FOPO_ERR_NUMERIC,
                       "the logging policy shows the group of event %zu with probability %g; its "
                       "action was shown, so 0 < p <= 1",
                       i + 1, p);
    }
    t->least_group = i == 0 ? p : fmin(t->least_group, p);
  }
  return FOPO_OK;
}

/* The columns of the kinds that are wanted and have their terms. */
static int set_columns(table *t, fopo_ope_report *report) {
  t->columns = 1;
  for (int kind = 0; kind < FOPO_OPE_KINDS; kind++) {
    const fopo_ope_about *about = &rows[kind].about;
    int wanted = t->settings->wanted == 0 || (t->settings->wanted & 1u << kind) != 0;
    int model = !about->model || t->terms->expected != NULL;
    report->has[kind] = wanted && model && (!about->groups || t->least_group > 0.0);
    if (report->has[kind]) t->column[kind] = t->columns++;
  }
  t->x = fopo_alloc(t->n * t->columns, sizeof *t->x);
  return t->x != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

int fopo_ope_estimate_all(fopo_ope_report *report, const fopo_ope_terms *terms,
                          const fopo_logs *logs, const fopo_ope_settings *settings) {
  table t = {.n = terms->n, .terms = terms, .logs = logs, .settings = settings};
  *report = (fopo_ope_report){.n = t.n};
  int status = check(settings, t.n);
  if (status != FOPO_OK) return status;

  look(&t, report);
  status = set_ranges(&t);
  if (status == FOPO_OK) status = set_groups(&t);
  if (status == FOPO_OK) status = set_columns(&t, report);
  if (status == FOPO_OK) {
    t.z = fopo_ope_normal_point(settings->level);
    status = set_parameters(&t);
  }
  if (status == FOPO_OK) {
    fill(&t);
    report->weight_bound = 1.0 / t.least;
    weights(report, &t);
    if (terms->z_error != NULL) sampling(report, &t);
    for (int kind = 0; kind < FOPO_OPE_KINDS; kind++) {
      if (report->has[kind]) estimate(&report->by[kind], &t, kind);
    }
    report->chosen = choose_kind(report);
  }
  if (status == FOPO_OK && settings->bootstrap > 0) status = bootstrap(report, &t);
  fopo_free(t.x);
  return status;
}
