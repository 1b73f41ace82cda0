/* sum_{a in Y} exp(f(a) - log Z), with log Z summed over the whole catalogue (policy/softmax.h) and
 * the sparse scores in f. */
#include "judge/expected.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "kernels/product.h"
#include "policy/lists.h"
#include "policy/softmax.h"

enum {
  BLOCK = 1024, /* contexts whose queries are held at once */
  TILE = 32,    /* contexts whose scores of few items are held at once */
  HEAD = 1024,  /* of few items */
  TAIL = 1024
};

/* Of the items of Y that are not masked. Those of the parts of a catalogue add up. */
typedef struct {
  double reward;     /* sum of value pi(a | x) */
  double likelihood; /* mean of log pi(a | x), weighted by value; NAN if nothing has a weight */
} in_y;

typedef struct {
  fopo_matrix x, Q;     /* [BLOCK, D], [BLOCK, L] of the block */
  uint32_t *rows;       /* [BLOCK] of the sparse scores */
  in_y *sums;           /* [BLOCK] */
  double *reward;       /* [contexts] */
  double *squares;      /* [contexts] sum_a pi(a | x)^2 */
  double *likelihood;   /* [contexts]; NAN: Y has no item that is not masked */
  double *log_z;        /* [contexts] */
  double *error;        /* [contexts] the standard error of log_z; 0: all items were summed */
  float *tile;          /* [TILE, few items] of scores; NULL: all items are summed */
  float *dots;          /* [TILE, most_y] with the items of Y */
  size_t most_y;        /* items of a Y */
  double *value;        /* [contexts] of an objective */
  fopo_list_row *lists; /* [threads] of a policy that scores lists, else NULL */
} work;

/* The contexts that are summed, n of all. */
typedef struct {
  const fopo_policy *pi;
  fopo_matrix x;
  const fopo_sessions *sessions;
  const fopo_sparse_scores *sparse;
  size_t n;
  const fopo_few_items *few; /* NULL: all items */
  const fopo_own_objective *rule;
} plan;

/* The session of the i-th context. */
static size_t session_of(const plan *p, size_t i) {
  return fopo_spread_context(i, p->n, p->x.rows);
}

/* The largest reward of a context, which rounding may pass. */
static double most_of(const plan *p) { return p->sessions->value != NULL ? (double)INFINITY : 1.0; }

/* What the items of Y of a session come to, as far as this process holds them. dots [Y]: q . beta
 * of each, or NULL. */
static in_y sum_y(const plan *p, const float *q, const float *dots, double log_z, size_t session) {
  const fopo_kernels *kernels = fopo_kernels_get();
  fopo_matrix items = p->pi->items;
  fopo_score_row s = fopo_score_row_of(p->sparse, session);
  const uint32_t *ids = fopo_csr_row(&p->sessions->Y, session);
  size_t n = fopo_csr_count(&p->sessions->Y, session);
  double reward = 0.0, logs = 0.0, worth = 0.0;
  for (size_t k = 0; k < n; k++) {
    float sparse = fopo_score_of(&s, ids[k]);
    if (sparse == -INFINITY) continue;
    double value = (double)fopo_sessions_value(p->sessions, ids[k]);
    worth += value;
    uint32_t row = fopo_shard_row(p->pi->shard, ids[k]);
    if (row == UINT32_MAX) continue;
    float dot = dots != NULL ? dots[k] : kernels->dot(q, fopo_matrix_row(items, row), items.cols);
    double f = (double)dot + (double)sparse;
    reward += value * exp(f - log_z);
    logs += value * (f - log_z);
  }
  return (in_y){reward, worth > 0.0 ? logs / worth : (double)NAN};
}

/* ---- few items ---- */

int fopo_few_items_take(fopo_few_items *few, fopo_matrix items, const uint32_t *order,
                        uint64_t seed) {
  size_t n = HEAD + TAIL, M = items.rows - HEAD;
  *few = (fopo_few_items){.head = HEAD, .tail = TAIL, .others = M};
  few->places = fopo_alloc(n, sizeof *few->places);
  few->bits = fopo_alloc(FOPO_FEW_BITS / 64, sizeof *few->bits);
  int status = few->places != NULL && few->bits != NULL
                   ? fopo_matrix_init(&few->rows, n, items.cols)
                   : FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    uint64_t u = i < HEAD ? 0 : i - HEAD, place = i;
    if (i >= HEAD) {
      uint32_t w = fopo_random(seed, FOPO_STREAM_JUDGED, 0, 0, (uint32_t)u).v[0];
      place = HEAD + (u * M + fopo_below((uint32_t)M, w, seed, 0, 0, (uint32_t)u)) / TAIL;
    }
    few->places[i] = (uint64_t)order[place] << 32 | i;
    few->bits[order[place] % FOPO_FEW_BITS / 64] |= (uint64_t)1 << order[place] % 64;
    memcpy(fopo_matrix_row(few->rows, i), fopo_matrix_row(items, order[place]),
           items.cols * sizeof *items.x);
  }
  if (status == FOPO_OK) fopo_sort_keys(few->places, n);
  if (status != FOPO_OK) fopo_few_items_done(few);
  return status;
}

void fopo_few_items_done(fopo_few_items *few) {
  fopo_matrix_done(&few->rows);
  fopo_free(few->places);
  fopo_free(few->bits);
  *few = (fopo_few_items){0};
}

/* Sets the scores f of the rows from `first` on that are this item, which may be drawn twice; 1 if
 * it is in the head. */
static int put_score(float *f, const fopo_few_items *few, uint32_t id, float score, size_t first) {
  size_t low = 0, n = few->head + few->tail;
  if (!(few->bits[id % FOPO_FEW_BITS / 64] >> id % 64 & 1)) return 0;
  while (n > 0) { /* the first place of the item */
    int before = few->places[low + n / 2] >> 32 > id;
    low = before ? low + n / 2 + 1 : low;
    n = before ? n - n / 2 - 1 : n / 2;
  }
  int in_head = 0;
  for (; low < few->head + few->tail && few->places[low] >> 32 == id; low++) {
    size_t row = (uint32_t)few->places[low];
    if (row >= first) f[row] = fopo_score_sum(f[row], score);
    in_head |= row < few->head;
  }
  return in_head;
}

/* log Z of context n, and its standard error, from the scores f [head + tail] of the few items, and
 * what its Y come to, whose dots [Y] are scratch.
 *
 *   Z = sum over the head and Y of exp f + M / U sum over the draws that are not in Y of exp f */
static in_y sum_few(work *w, const plan *p, float *f, float *dots, const float *q, size_t n) {
  const fopo_kernels *kernels = fopo_kernels_get();
  const fopo_few_items *few = p->few;
  fopo_matrix items = p->pi->items;
  size_t session = session_of(p, n), n_y = fopo_csr_count(&p->sessions->Y, session);
  fopo_score_row s = fopo_score_row_of(p->sparse, session);
  const uint32_t *Y = fopo_csr_row(&p->sessions->Y, session);
  double head[3], tail[3], z = 0.0, zz = 0.0, U = (double)few->tail, M = (double)few->others;
  for (size_t i = 0; i < s.n; i++) put_score(f, few, s.ids[i], fopo_score_entry(&s, i), 0);
  float m = kernels->max(f, few->head + few->tail);
  if (m == -INFINITY) m = 0.0f;
  kernels->gather_dot(dots, items.x, items.ld, Y, n_y, q, items.cols);
  for (size_t k = 0; k < n_y; k++) {
    float own = fopo_score_of(&s, Y[k]);
    if (put_score(f, few, Y[k], -INFINITY, few->head) || own == -INFINITY) continue;
    double weight = exp((double)dots[k] + (double)own - (double)m);
    z += weight;
    zz += weight * weight;
  }
  kernels->exp_sum(f, f, m, few->head + few->tail);
  kernels->moments(head, f, f, few->head);
  kernels->moments(tail, f + few->head, f + few->head, few->tail);
  double spread = fmax(tail[1] - tail[0] * tail[0] / U, 0.0) / (U - 1.0);
  z += head[0] + M / U * tail[0];
  zz += head[1] + M / U * tail[1];
  w->log_z[n] = (double)m + log(z);
  w->squares[n] = z > 0.0 ? zz / (z * z) : 0.0;
  w->error[n] = z > 0.0 ? M * sqrt(spread / U * (1.0 - U / M)) / z : 0.0;
  return sum_y(p, q, dots, w->log_z[n], session);
}

static int sum_by_few(work *w, const plan *p, fopo_matrix Q, size_t first) {
  size_t n = p->few->head + p->few->tail;
  for (size_t at = 0; at < Q.rows; at += TILE) {
    size_t count = Q.rows - at < TILE ? Q.rows - at : TILE;
    fopo_matrix f = fopo_matrix_view(w->tile, count, n);
    int status = fopo_product(f, 1.0f, fopo_matrix_rows(Q, at, count), 0, p->few->rows, 1, 0.0f);
    if (status == FOPO_OK) status = fopo_matrix_finite(f, "a score");
    if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads_for(count *n * 16)) schedule(static)
    for (size_t b = 0; b < count; b++) {
      w->sums[at + b] = sum_few(w, p, fopo_matrix_row(f, b), w->dots + b * w->most_y,
                                fopo_matrix_row(Q, at + b), first + at + b);
    }
    status = fopo_progress("evaluating", (double)(first + at + count), (double)p->n);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* ---- the contexts ---- */

static int sum_block(work *w, const plan *p, fopo_matrix Q, size_t first) {
  int stopped = 0;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 8) reduction(| : stopped)
  for (size_t b = 0; b < Q.rows; b++) {
    if (stopped || fopo_interrupted()) {
      stopped = 1;
      continue;
    }
    w->sums[b] =
        sum_y(p, fopo_matrix_row(Q, b), NULL, w->log_z[first + b], session_of(p, first + b));
  }
  return stopped ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while evaluating") : FOPO_OK;
}

/* The measures of the contexts from `first` on, from their queries and log Z. */
static int measure_block(work *w, const plan *p, fopo_matrix Q, size_t first) {
  int status = p->few == NULL ? sum_block(w, p, Q, first) : FOPO_OK;
  if (p->pi->shard != NULL) {
    status = fopo_comm_agree(status);
    if (status == FOPO_OK) status = fopo_comm_sum_doubles(&w->sums->reward, 2 * Q.rows);
  }
  for (size_t b = 0; b < Q.rows && status == FOPO_OK; b++) {
    w->reward[first + b] = fmin(w->sums[b].reward, most_of(p));
    w->likelihood[first + b] = w->sums[b].likelihood;
  }
  return status;
}

/* The same of a policy that scores lists, the items of X by its mask: w->Q and w->rows are those of
 * the block. */
static void measure_lists(work *w, const plan *p, size_t first, size_t count) {
  const fopo_policy *pi = p->pi;
  fopo_sparse_scores sparse = fopo_score_from(p->sparse, 0);
  sparse.rows = w->rows;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 8)
  for (size_t b = 0; b < count; b++) {
    fopo_list_row *row = &w->lists[omp_get_thread_num()];
    fopo_score_row seen = fopo_score_row_of(&sparse, b);
    fopo_list_context context = {seen.ids, seen.n, fopo_matrix_row(w->Q, b), SIZE_MAX, NULL};
    size_t n = first + b, session = session_of(p, n);
    const uint32_t *Y = fopo_csr_row(&p->sessions->Y, session);
    double logs = 0.0, worth = 0.0;
    pi->kind->score_list(row, pi, pi->theta.x, &context);
    fopo_list_sums s = fopo_list_normalise(row);
    w->log_z[n] = s.top + log(s.w);
    w->squares[n] = s.w > 0.0 ? s.ww / (s.w * s.w) : 0.0;
    w->reward[n] = 0.0;
    for (size_t k = 0; k < fopo_csr_count(&p->sessions->Y, session); k++) {
      float f = fopo_list_score(row, Y[k]);
      if (f == -INFINITY) continue;
      double value = (double)fopo_sessions_value(p->sessions, Y[k]);
      worth += value;
      w->reward[n] += value * exp((double)f - w->log_z[n]);
      logs += value * ((double)f - w->log_z[n]);
    }
    w->reward[n] = fmin(w->reward[n], most_of(p));
    w->likelihood[n] = worth > 0.0 ? logs / worth : (double)NAN;
    fopo_list_clear(row, &context);
  }
}

static int sum_contexts(work *w, const plan *p) {
  const fopo_policy *pi = p->pi;
  for (size_t first = 0; first < p->n; first += BLOCK) {
    size_t count = p->n - first < BLOCK ? p->n - first : BLOCK;
    for (size_t b = 0; b < count; b++) {
      size_t session = session_of(p, first + b);
      const float *row = fopo_matrix_row(p->x, session);
      memcpy(fopo_matrix_row(w->x, b), row, p->x.cols * sizeof *row);
      int other = p->sparse != NULL && p->sparse->rows != NULL;
      w->rows[b] = other ? p->sparse->rows[session] : (uint32_t)session;
    }
    if (pi->kind->score_list != NULL) {
      int status = fopo_policy_queries(fopo_matrix_rows(w->Q, 0, count), pi,
                                       fopo_matrix_rows(w->x, 0, count));
      if (status != FOPO_OK) return status;
      measure_lists(w, p, first, count);
      status = fopo_progress("evaluating", (double)(first + count), (double)p->n);
      if (status != FOPO_OK) return status;
      continue;
    }
    fopo_sparse_scores sparse = fopo_score_from(p->sparse, 0);
    sparse.rows = w->rows;
    fopo_scores f = {.Q = fopo_matrix_rows(w->Q, 0, count),
                     .items = pi->items,
                     .part = pi->shard != NULL ? &pi->shard->part : NULL,
                     .sparse = &sparse};
    int status = fopo_policy_queries(f.Q, pi, fopo_matrix_rows(w->x, 0, count));
    if (status == FOPO_OK) {
      status = fopo_matrix_finite(f.Q, "a context's query (context times theta)");
    }
    if (status == FOPO_OK && p->few != NULL) {
      status = sum_by_few(w, p, f.Q, first);
    } else if (status == FOPO_OK) {
      status = fopo_softmax_sums(w->log_z + first, w->squares + first, &f, first, p->n);
    }
    if (pi->shard != NULL) {
      status = fopo_shard_log_sums(w->log_z + first, w->squares + first, count, status);
    }
    if (status == FOPO_OK) status = measure_block(w, p, f.Q, first);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* The mean of those of x [n] that are numbers, and its standard error. */
static void mean_of(double *mean, double *se, const double *x, size_t n) {
  size_t known = 0;
  double sum = 0.0, deviations = 0.0;
  for (size_t i = 0; i < n; i++) {
    if (isnan(x[i])) continue;
    sum += x[i];
    known++;
  }
  *mean = sum / (double)known;
  for (size_t i = 0; i < n; i++) {
    if (!isnan(x[i])) deviations += (x[i] - *mean) * (x[i] - *mean);
  }
  *se = known > 1 ? sqrt(deviations / (double)(known - 1) / (double)known) : (double)INFINITY;
}

/* The value of the objective in each context. That of target items has their mean f - log Z in the
 * place of the rule's - log Z, as the operation add_targets makes it. */
static int fill_values(work *w, const plan *p, fopo_objective_kind objective, size_t n) {
  const fopo_own_objective *own = objective == FOPO_OBJECTIVE_CUSTOM ? p->rule : NULL;
  if (own != NULL) return own->rule(own->caller, w->value, NULL, w->reward, n);
  int targets = fopo_objective_rows[objective].targets;
  for (size_t i = 0; i < n; i++) {
    double log_z = w->log_z[i];
    double value = fopo_objective_rule_of(objective, w->reward[i], log_z, 1.0).value;
    w->value[i] = targets ? w->likelihood[i] + (log_z - value) : value;
  }
  return FOPO_OK;
}

/* The standard error of a mean value by those of log Z, which move a reward by its share and a
 * logarithm by themselves. */
static double error_of(const work *w, size_t n, int is_share) {
  double error = 0.0;
  for (size_t i = 0; i < n; i++) error += w->error[i] * (is_share ? w->reward[i] : 1.0);
  return error / (double)n;
}

static int sum_up(fopo_expected *to, work *w, const plan *p) {
  size_t n = p->n;
  fopo_expected e = {.contexts = n};
  mean_of(&e.reward, &e.se, w->reward, n);
  mean_of(&e.likelihood, &e.likelihood_se, w->likelihood, n);
  for (int k = 0; k < FOPO_OBJECTIVE_ROWS; k++) {
    int status = fill_values(w, p, (fopo_objective_kind)k, n);
    if (status != FOPO_OK) return status;
    mean_of(&e.value[k], &e.value_se[k], w->value, n);
    e.value_se[k] = hypot(e.value_se[k], error_of(w, n, k == FOPO_OBJECTIVE_REWARD));
  }
  e.error = error_of(w, n, 1);
  e.se = hypot(e.se, e.error);
  e.likelihood_se = hypot(e.likelihood_se, error_of(w, n, 0));
  double *items = w->squares; /* in effect, 1 / sum of pi^2; 0, sorted first: no item is left */
  for (size_t i = 0; i < n; i++) items[i] = items[i] > 0.0 ? 1.0 / items[i] : 0.0;
  fopo_sort_f64(items, n);
  while (e.unanswered < n && items[e.unanswered] == 0.0) e.unanswered++;
  size_t left = n - e.unanswered;
  if (left > 0) e.effective = fopo_sorted_median(items + e.unanswered, left);
  *to = e;
  return FOPO_OK;
}

int fopo_evaluate_expected(fopo_expected *e, float *each, fopo_objective_kind objective,
                           const fopo_own_objective *rule, const fopo_policy *pi, fopo_matrix x,
                           const fopo_sessions *sessions, const fopo_sparse_scores *s, size_t most,
                           const fopo_few_items *few) {
  *e = (fopo_expected){0};
  int status = fopo_sessions_check(sessions, x.rows, fopo_policy_n_items(pi));
  if (status == FOPO_OK) status = fopo_policy_check_contexts(pi, x);
  if (status != FOPO_OK) return status;
  fopo_sparse_scores own = fopo_mask_of(&sessions->X);
  if (pi->masks_seen && s == NULL) s = &own;
  size_t n = most > 0 && most < x.rows ? most : x.rows, block = n < BLOCK ? n : BLOCK;
  plan p = {.pi = pi, .x = x, .sessions = sessions, .sparse = s, .n = n, .few = few, .rule = rule};
  work w = {.rows = fopo_alloc(block, sizeof *w.rows),
            .sums = fopo_alloc(block, sizeof *w.sums),
            .reward = fopo_alloc(n, sizeof *w.reward),
            .squares = fopo_alloc(n, sizeof *w.squares),
            .likelihood = fopo_alloc(n, sizeof *w.likelihood),
            .log_z = fopo_alloc(n, sizeof *w.log_z),
            .error = fopo_alloc(n, sizeof *w.error),
            .value = fopo_alloc(n, sizeof *w.value)};
  int got =
      w.rows && w.sums && w.reward && w.squares && w.likelihood && w.log_z && w.error && w.value;
  status = got ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK && few != NULL) {
    for (size_t i = 0; i < x.rows; i++) {
      size_t n_y = fopo_csr_count(&sessions->Y, i);
      if (n_y > w.most_y) w.most_y = n_y;
    }
    w.tile = fopo_alloc(TILE * (few->head + few->tail), sizeof *w.tile);
    w.dots = fopo_alloc(TILE * w.most_y, sizeof *w.dots);
    if (w.tile == NULL || w.dots == NULL) status = FOPO_ERR_MEMORY;
  }
  if (status == FOPO_OK) status = fopo_matrix_init(&w.x, block, x.cols);
  if (status == FOPO_OK) status = fopo_matrix_init(&w.Q, block, pi->items.cols);
  if (status == FOPO_OK && pi->kind->score_list != NULL) {
    status = fopo_list_rows_renew(&w.lists, pi->items.rows, 0);
  }
  if (status == FOPO_OK) status = sum_contexts(&w, &p);
  if (status == FOPO_OK) status = sum_up(e, &w, &p);
  if (status == FOPO_OK) status = fill_values(&w, &p, objective, n);
  for (size_t i = 0; i < n && status == FOPO_OK; i++) each[i] = (float)w.value[i];
  fopo_matrix_done(&w.x);
  fopo_matrix_done(&w.Q);
  fopo_free(w.lists);
  fopo_free(w.rows);
  fopo_free(w.sums);
  fopo_free(w.reward);
  fopo_free(w.squares);
  fopo_free(w.likelihood);
  fopo_free(w.log_z);
  fopo_free(w.error);
  fopo_free(w.tile);
  fopo_free(w.dots);
  fopo_free(w.value);
  return status;
}
