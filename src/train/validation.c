#include "train/validation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/rng.h"
#include "core/status.h"

int fopo_validation_samples(const fopo_validation *v) {
  return v->o.sampled > 0 && v->o.sampled < v->some.rows;
}

/* n of the contexts, evenly spread; in the order of their draw, so that the first are a sample. */
static int take_contexts(fopo_validation *v, size_t n) {
  const fopo_validation_options *o = &v->o;
  uint32_t *rows = fopo_alloc(n, sizeof *rows);
  int status = rows != NULL ? fopo_matrix_init(&v->some, n, o->contexts.cols) : FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n && status == FOPO_OK; i++) rows[i] = (uint32_t)i;
  if (status == FOPO_OK && o->sampled > 0) {
    fopo_shuffle(rows, (uint32_t)n, o->seed, FOPO_STREAM_JUDGED, 1);
  }
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    rows[i] = (uint32_t)fopo_spread_context(rows[i], n, o->contexts.rows);
    memcpy(fopo_matrix_row(v->some, i), fopo_matrix_row(o->contexts, rows[i]),
           o->contexts.cols * sizeof *v->some.x);
  }
  if (status == FOPO_OK) status = fopo_csr_take(&v->some_of.Y, &o->sessions->Y, rows, n);
  if (status == FOPO_OK && o->sessions->X.rows > 0) {
    status = fopo_csr_take(&v->some_of.X, &o->sessions->X, rows, n);
  }
  fopo_free(rows);
  return status;
}

/* Room for what n contexts come to, and for their lists; N: all contexts. */
static int reserve(fopo_validation *v, size_t n, size_t N) {
  const fopo_validation_options *o = &v->o;
  v->each.n[FOPO_BY_REWARD] = n;
  v->each.n[FOPO_BY_MEASURE] = o->k > 0 ? n : 0;
  if (o->expected_most > 0) {
    v->each.n[FOPO_BY_EXPECTED] = o->expected_most < N ? o->expected_most : N;
  }
  for (int by = 0; by < FOPO_BYS; by++) {
    if (v->each.n[by] == 0) continue;
    v->each.of[by] = fopo_alloc(v->each.n[by], sizeof *v->each.of[by]);
    if (v->each.of[by] == NULL) return FOPO_ERR_MEMORY;
  }
  if (o->k == 0) return FOPO_OK;
  v->ids = fopo_alloc(n * o->k, sizeof *v->ids);
  v->counts = fopo_alloc(n, sizeof *v->counts);
  v->scores = fopo_alloc(n * o->k, sizeof *v->scores);
  return v->ids && v->counts && v->scores ? FOPO_OK : FOPO_ERR_MEMORY;
}

int fopo_validation_init(fopo_validation *v, const fopo_validation_options *options,
                         uint64_t version) {
  *v = (fopo_validation){.o = *options, .version = version};
  if (options->exact == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "validation needs an index of the true argmax");
  }
  size_t N = options->sessions->Y.rows, most = options->most, P = options->sessions->Y.cols;
  if (options->k > P) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%s@%zu is of lists of %zu items but there are %zu",
                     fopo_measure_names[options->measure], options->k, options->k, P);
  }
  size_t n = most > 0 && most < N ? most : N;
  int some = n < N || (options->sampled > 0 && options->sampled < n);
  int status = some && options->contexts.rows == N ? take_contexts(v, n) : FOPO_OK;
  if (status == FOPO_OK) status = reserve(v, n, N);
  if (status != FOPO_OK) fopo_validation_done(v);
  return status;
}

void fopo_validation_done(fopo_validation *v) {
  fopo_matrix_done(&v->some);
  fopo_sessions_done(&v->some_of);
  fopo_worth_each_done(&v->each);
  fopo_few_items_done(&v->few);
  fopo_free(v->ids);
  fopo_free(v->counts);
  fopo_free(v->scores);
  *v = (fopo_validation){0};
}

/* The first n contexts of those that are judged. */
typedef struct {
  fopo_matrix x;
  fopo_sessions sessions;
} judged;

static judged first_of(const fopo_validation *v, size_t n) {
  const fopo_validation_options *o = &v->o;
  if (v->some.x == NULL) return (judged){o->contexts, *o->sessions};
  judged j = {fopo_matrix_rows(v->some, 0, n), v->some_of};
  j.sessions.Y = fopo_csr_rows(&j.sessions.Y, 0, n);
  if (j.sessions.X.rows > 0) j.sessions.X = fopo_csr_rows(&j.sessions.X, 0, n);
  return j;
}

/* The reward by true argmax, or through an index, of so many contexts. */
static int judge(fopo_evaluation *e, fopo_validation *v, const fopo_policy *pi, fopo_index *ix,
                 size_t n) {
  const fopo_validation_options *o = &v->o;
  judged j = first_of(v, n);
  fopo_sparse_scores seen = fopo_mask_of(&j.sessions.X), *mask = o->unseen ? &seen : NULL;
  j.sessions.value = o->value;
  if (ix != o->exact) return fopo_evaluate(e, pi, j.x, &j.sessions, ix, mask);
  int status = fopo_evaluate_each(e, v->each.of[FOPO_BY_REWARD], pi, j.x, &j.sessions, ix, mask);
  if (status != FOPO_OK || o->k == 0) return status;
  if (mask == NULL && pi->masks_seen) mask = &seen;
  status = fopo_evaluate_lists(v->ids, v->scores, v->counts, pi, j.x, ix, mask, o->k);
  if (status != FOPO_OK) return status;
  return fopo_measure_each(v->each.of[FOPO_BY_MEASURE], o->measure, o->k, v->ids, o->k,
                           &j.sessions);
}

/* Few items stand for a large catalogue, unless they move. */
static int take_few(fopo_validation *v, const fopo_policy *pi) {
  size_t P = pi->items.rows;
  if (P <= FOPO_FEW_ITEMS || v->few.head > 0 || pi->kind->score_list != NULL || pi->shard != NULL ||
      pi->learns[FOPO_BLOCK_ITEMS] || !fopo_index_about(v->o.exact).by_norm) {
    return FOPO_OK;
  }
  uint64_t version;
  uint32_t *order = fopo_alloc(P, sizeof *order);
  float *norms = fopo_alloc(P, sizeof *norms);
  int status = order != NULL && norms != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_index_order(order, norms, &version, v->o.exact);
  if (status == FOPO_OK) status = fopo_few_items_take(&v->few, pi->items, order, v->o.seed);
  fopo_free(order);
  fopo_free(norms);
  return status;
}

/* The objective in n contexts. */
static int judge_expected(fopo_expected *e, fopo_validation *v, const fopo_policy *pi, size_t n) {
  const fopo_validation_options *o = &v->o;
  /* the first of a sample are one; without it the contexts are spread over all */
  judged j = fopo_validation_samples(v) ? first_of(v, n) : (judged){o->contexts, *o->sessions};
  fopo_sparse_scores seen = fopo_mask_of(&j.sessions.X), *mask = o->unseen ? &seen : NULL;
  float *each = v->each.of[FOPO_BY_EXPECTED];
  j.sessions.value = o->value;
  int status = take_few(v, pi);
  if (status != FOPO_OK) return status;
  const fopo_few_items *few = v->few.head > 0 ? &v->few : NULL;
  return fopo_evaluate_expected(e, each, o->objective, o->rule, pi, j.x, &j.sessions, mask, n, few);
}

static int refresh(fopo_validation *v, const fopo_policy *pi) {
  if (!pi->learns[FOPO_BLOCK_ITEMS] || pi->version == v->version) return FOPO_OK;
  int status = fopo_index_refresh(v->o.exact);
  if (status == FOPO_OK) v->version = pi->version;
  return status;
}

fopo_worth fopo_worth_unknown(void) {
  double unknown = (double)NAN;
  return (fopo_worth){.reward = unknown,
                      .reward_se = unknown,
                      .index = unknown,
                      .expected = unknown,
                      .measure = unknown,
                      .se = unknown};
}

static int check_theta(const fopo_policy *pi) {
  char where[160];
  int status = fopo_matrix_finite(pi->theta, "theta");
  if (status != FOPO_ERR_NUMERIC) return status;
  snprintf(where, sizeof where, "%s", fopo_error_sentence());
  return fopo_fail(status, "%s, so the policy cannot be judged; lower lr, or clip the gradient",
                   where);
}

/* Of `most` contexts, how many are judged. */
static size_t count_of(const fopo_validation *v, size_t most, int all) {
  return all || !fopo_validation_samples(v) || v->o.sampled > most ? most : v->o.sampled;
}

int fopo_validation_run(fopo_worth *w, fopo_validation *v, const fopo_policy *pi, int all) {
  const fopo_validation_options *o = &v->o;
  fopo_evaluation e, through;
  fopo_expected expected;
  size_t N = v->some.x != NULL ? v->some.rows : o->contexts.rows, n = count_of(v, N, all);
  *w = fopo_worth_unknown();
  int status = check_theta(pi);
  if (status == FOPO_OK) status = refresh(v, pi);
  if (status == FOPO_OK) status = judge(&e, v, pi, o->exact, n);
  if (status != FOPO_OK) return status;
  v->each.n[FOPO_BY_REWARD] = n;
  w->reward = e.reward;
  w->reward_se = e.se;
  w->contexts = e.contexts;
  w->distinct = e.distinct;
  w->top = e.top;
  double ignored;
  if (o->k > 0) {
    v->each.n[FOPO_BY_MEASURE] = n;
    fopo_mean_of_pairs(&w->measure, &ignored, v->each.of[FOPO_BY_MEASURE], NULL, n);
  }
  if (o->index != NULL) {
    status = judge(&through, v, pi, o->index, n);
    if (status == FOPO_OK) w->index = through.reward;
  }
  if (status != FOPO_OK || o->expected_most == 0) return status;
  size_t most = o->expected_most < o->contexts.rows ? o->expected_most : o->contexts.rows;
  if (fopo_validation_samples(v) && most > N) most = N;
  n = count_of(v, most, all);
  status = judge_expected(&expected, v, pi, n);
  if (status != FOPO_OK) return status;
  v->each.n[FOPO_BY_EXPECTED] = n;
  w->expected = expected.value[o->objective];
  w->se = expected.value_se[o->objective];
  return FOPO_OK;
}

/* ---- as numbers ---- */

void fopo_worth_put(double x[FOPO_WORTH_NUMBERS], const fopo_worth *w) {
  const double numbers[FOPO_WORTH_NUMBERS] = {
      w->reward,           w->reward_se,        w->index,      w->expected, w->se, w->measure,
      (double)w->contexts, (double)w->distinct, (double)w->top};
  memcpy(x, numbers, sizeof numbers);
}

/* A count of a file. */
static size_t as_count(double x) { return x >= 0.0 && x < 0x1p53 ? (size_t)x : 0; }

fopo_worth fopo_worth_take(const double x[FOPO_WORTH_NUMBERS]) {
  return (fopo_worth){.reward = x[0],
                      .reward_se = x[1],
                      .index = x[2],
                      .expected = x[3],
                      .se = x[4],
                      .measure = x[5],
                      .contexts = as_count(x[6]),
                      .distinct = as_count(x[7]),
                      .top = as_count(x[8])};
}

/* ---- of each context ---- */

int fopo_worth_each_copy(fopo_worth_each *to, const fopo_worth_each *from) {
  for (int by = 0; by < FOPO_BYS; by++) {
    size_t n = from->n[by];
    if (to->n[by] != n) {
      fopo_free(to->of[by]);
      to->n[by] = 0;
      to->of[by] = n > 0 ? fopo_alloc(n, sizeof *to->of[by]) : NULL;
      if (n > 0 && to->of[by] == NULL) return FOPO_ERR_MEMORY;
      to->n[by] = n;
    }
    if (n > 0) memcpy(to->of[by], from->of[by], n * sizeof *to->of[by]);
  }
  return FOPO_OK;
}

void fopo_worth_each_done(fopo_worth_each *e) {
  for (int by = 0; by < FOPO_BYS; by++) fopo_free(e->of[by]);
  *e = (fopo_worth_each){0};
}

static int difference_of_hits(double *mean, double *low, double *high, const float *x,
                              const float *y, size_t n) {
  size_t more = 0, less = 0;
  for (size_t i = 0; i < n; i++) {
    more += x[i] > y[i];
    less += x[i] < y[i];
  }
  *mean = ((double)more - (double)less) / (double)n;
  fopo_paired(low, high, more, less, n);
  return 1;
}

int fopo_worth_difference(double *mean, double *low, double *high, const fopo_worth_each *a,
                          const fopo_worth_each *b, fopo_by by, int by_value) {
  const float *x = a->of[by], *y = b->of[by];
  size_t n = a->n[by] < b->n[by] ? a->n[by] : b->n[by];
  double se;
  if (n == 0) return 0;
  if (by == FOPO_BY_REWARD && !by_value) return difference_of_hits(mean, low, high, x, y, n);
  fopo_mean_of_pairs(mean, &se, x, y, n);
  *low = *mean - FOPO_Z95 * se;
  *high = *mean + FOPO_Z95 * se;
  return 1;
}
