/* What all baselines share: learning from sessions, and the best items of the scores.
 *
 * Sessions are scored in blocks, a block by one thread, and each list is chosen from the scores of
 * its own session alone, so the bits do not depend on the number of threads. */
#include "judge/baseline.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "core/clock.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "core/values.h"
#include "data/histories.h"
#include "judge/baselines/baselines.h"
#include "mips/topk.h"

enum {
  BLOCK = FOPO_BASELINE_BLOCK,
  WAVE = 64 /* blocks of a thread between two reports of progress, at most .. */
};
#define WAVE_WORK ((size_t)1 << 24) /* .. and so many scores, some milliseconds */

struct fopo_baseline {
  fopo_baseline_options o;
  void *model;
  float *value; /* [P] what scores are multiplied by; NULL: 1 */
  size_t P, N;  /* items, sessions that it was learnt from */
  double seconds;
};

#define X(name) &fopo_baseline_##name,
const fopo_baseline_kind *const fopo_baseline_kinds[] = {
#include "judge/baselines/baselines.def"
    NULL};
#undef X

/* ---- learning ---- */

int fopo_baseline_new(fopo_baseline **b, const fopo_sessions *sessions,
                      const fopo_baseline_options *options) {
  double start = fopo_clock();
  fopo_csr M = {0};
  fopo_baseline_options o = *options;
  o.users = sessions->all;
  *b = NULL;
  if (fopo_sessions_count(sessions) == 0 || sessions->X.cols == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "no session to learn a baseline from; give s.train");
  }
  fopo_baseline *fresh = fopo_alloc(1, sizeof *fresh);
  if (fresh == NULL) return sessions->all > 0 ? fopo_comm_agree(FOPO_ERR_MEMORY) : FOPO_ERR_MEMORY;
  fresh->o = *options;
  fresh->P = sessions->X.cols;
  fresh->N = fopo_sessions_count(sessions);
  int status = FOPO_OK;
  if (options->value != NULL) {
    status = fopo_values_copy(&fresh->value, options->value, options->n_values, fresh->P);
  }
  fresh->o.value = fresh->value;
  if (status == FOPO_OK) status = fopo_interactions(&M, sessions);
  if (sessions->all > 0) fopo_comm_begin();
  if (status == FOPO_OK) status = o.kind->fit(&fresh->model, &M, &o);
  if (sessions->all > 0) {
    status = fopo_comm_agree(status);
    if (status == FOPO_OK && o.kind->join != NULL) status = o.kind->join(fresh->model, fresh->P);
    status = fopo_comm_end(status);
  }
  fopo_csr_done(&M);
  fresh->seconds = fopo_clock() - start;
  if (status != FOPO_OK) {
    fopo_baseline_free(fresh);
    return status;
  }
  *b = fresh;
  return FOPO_OK;
}

int fopo_baseline_new_given(fopo_baseline **b, const fopo_baseline_kind *kind) {
  *b = fopo_alloc(1, sizeof **b);
  if (*b == NULL) return FOPO_ERR_MEMORY;
  (*b)->o.kind = kind;
  return FOPO_OK;
}

static int learn_each(fopo_baseline **b, const fopo_sessions *sessions,
                      const fopo_baseline_options *options, const double *l2, void **models,
                      size_t n) {
  double start = fopo_clock();
  fopo_csr M = {0};
  int status = fopo_interactions(&M, sessions);
  if (status == FOPO_OK) status = options->kind->fit_each(models, &M, options, l2, n);
  fopo_csr_done(&M);
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    if (models[i] == NULL) continue;
    b[i] = fopo_alloc(1, sizeof *b[i]);
    if (b[i] == NULL) return FOPO_ERR_MEMORY;
    *b[i] = (fopo_baseline){.o = *options, .model = models[i], .P = sessions->X.cols};
    b[i]->o.l2 = l2[i];
    b[i]->N = fopo_sessions_count(sessions);
    b[i]->seconds = fopo_clock() - start;
    models[i] = NULL;
  }
  return status;
}

int fopo_baseline_new_each(fopo_baseline **b, const fopo_sessions *sessions,
                           const fopo_baseline_options *options, const double *l2, size_t n) {
  for (size_t i = 0; i < n; i++) b[i] = NULL;
  void **models = fopo_alloc(n, sizeof *models);
  int status = models != NULL ? learn_each(b, sessions, options, l2, models, n) : FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n && status != FOPO_OK; i++) {
    if (models != NULL) options->kind->free(models[i]);
    fopo_baseline_free(b[i]);
    b[i] = NULL;
  }
  fopo_free(models);
  return status;
}

void fopo_baseline_free(fopo_baseline *b) {
  if (b == NULL) return;
  b->o.kind->free(b->model);
  fopo_free(b->value);
  fopo_free(b);
}

const fopo_baseline_options *fopo_baseline_get(const fopo_baseline *b) { return &b->o; }
size_t fopo_baseline_items(const fopo_baseline *b) { return b->P; }
double fopo_baseline_seconds(const fopo_baseline *b) { return b->seconds; }

int fopo_baseline_factors(fopo_matrix *rows, const fopo_baseline *b) {
  const fopo_baseline_kind *kind = b->o.kind;
  if (kind->factors == NULL) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "baseline %s has no factors of items; use als",
                     kind->name);
  }
  *rows = kind->factors(b->model);
  return FOPO_OK;
}

int fopo_baseline_theta(fopo_matrix theta, const fopo_baseline *b) {
  fopo_matrix rows;
  int status = fopo_baseline_factors(&rows, b);
  return status == FOPO_OK ? b->o.kind->theta(theta, b->model) : status;
}

int fopo_baseline_item_weights(const fopo_csr **W, const fopo_baseline *b) {
  const fopo_baseline_kind *kind = b->o.kind;
  *W = kind->item_weights != NULL ? kind->item_weights(b->model) : NULL;
  if (*W != NULL) return FOPO_OK;
  if (kind->item_weights != NULL) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "baseline %s keeps the weights of all pairs of items; make it with top = 100",
                     kind->name);
  }
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "baseline %s has no weights from item to item; use slim, item_knn, or ease with "
                   "top = 100",
                   kind->name);
}

/* ---- linear models without one of their users ---- */

int fopo_baseline_is_linear(const fopo_baseline *b) {
  const fopo_baseline_kind *kind = b->o.kind;
  return kind->largest != NULL && kind->item_weights(b->model) == NULL;
}

int fopo_baseline_largest(fopo_csr *W, const fopo_baseline *b, size_t top) {
  int status = fopo_memory_suffices((uint64_t)b->P * (top < b->P ? top : b->P) * 8,
                                    "the weights of all items", "keep fewer of an item (n = ..)");
  return status == FOPO_OK ? b->o.kind->largest(W, b->model, top) : status;
}

int fopo_baseline_rows(fopo_matrix G, float *d, const float **over, const fopo_baseline *b,
                       const fopo_csr *M) {
  const fopo_baseline_kind *kind = b->o.kind;
  size_t N = M->rows;
  int status = FOPO_OK;
  *over = kind->over_diagonal(b->model);
  for (size_t first = 0; first < N && status == FOPO_OK; first += WAVE) {
    size_t last = N - first < WAVE ? N : first + WAVE;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
    for (size_t u = first; u < last; u++) {
      d[u] = (float)kind->of_row(fopo_matrix_row(G, u), b->model, M, u);
    }
    status = fopo_progress("leaving users out", (double)last, (double)N);
  }
  return status;
}

/* ---- recommending ---- */

typedef struct {
  const fopo_baseline *b;
  const fopo_sessions *sessions;
  uint32_t *ids; /* [N, k], the outputs */
  float *scores;
  uint32_t *counts;
  size_t k;
  int unseen;
  fopo_csr M;     /* [N, P] what was learnt from, if each session is left out; or {0} */
  float *block;   /* [threads, BLOCK, P] scores */
  uint64_t *keys; /* [threads, P] */
  char *scratch;  /* [threads, scratch_bytes] of the kind */
  size_t scratch_bytes;
} job;

static int check(const fopo_baseline *b, const fopo_sessions *sessions) {
  if (sessions->X.rows > 0 && sessions->X.cols == b->P) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the baseline was learnt over %zu items but the sessions have %zu contexts over "
                   "%zu; use sessions of the same split",
                   b->P, sessions->X.rows, sessions->X.cols);
}

static int begin(job *j) {
  size_t threads = (size_t)fopo_threads(), P = j->b->P;
  if (j->k == 0 || j->k > P) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "k is %zu but the baseline knows %zu items; use 1 to %zu",
                     j->k, P, P);
  }
  j->scratch_bytes = fopo_baseline_left_out_bytes(j->b);
  uint64_t bytes = (uint64_t)P * (BLOCK * sizeof(float) + sizeof(uint64_t)) + j->scratch_bytes;
  int status = fopo_memory_suffices(threads * bytes, "scoring all items for each thread",
                                    "use fewer threads (fopo.threads(1))");
  if (status != FOPO_OK) return status;
  j->block = fopo_alloc(threads * BLOCK * P, sizeof *j->block);
  j->keys = fopo_alloc(threads * P, sizeof *j->keys);
  j->scratch = fopo_alloc(threads, j->scratch_bytes);
  return j->block && j->keys && j->scratch ? FOPO_OK : FOPO_ERR_MEMORY;
}

static void end(job *j) {
  fopo_csr_done(&j->M);
  fopo_free(j->block);
  fopo_free(j->keys);
  fopo_free(j->scratch);
}

/* keys: those of the items that may be recommended in context n; returns how many. */
static size_t eligible(uint64_t *keys, const float *scores, const job *j, size_t n) {
  const fopo_csr *X = &j->sessions->X;
  const uint32_t *seen = fopo_csr_row(X, n), *end = seen + fopo_csr_count(X, n);
  size_t count = 0;
  for (uint32_t a = 0; a < X->cols; a++) {
    int is_seen = seen < end && *seen == a;
    seen += is_seen;
    if ((is_seen && j->unseen) || !(scores[a] > -INFINITY)) continue;
    if (j->b->o.wanted != NULL && !j->b->o.wanted[a]) continue;
    keys[count++] = fopo_topk_key(scores[a], a);
  }
  return count;
}

/* The list of context n from its scores [P]. */
static void choose(job *j, size_t n, const float *scores, uint64_t *keys) {
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t k = j->k, count = eligible(keys, scores, j, n);
  count = fopo_topk_largest(keys, count, k, kernels);
  j->counts[n] = fopo_topk_give(j->ids + n * k, j->scores + n * k, keys, count, k, kernels);
}

/* scores [n, P] times what the items are worth, but of those that are never recommended. */
static void weigh(float *scores, const fopo_baseline *b, size_t n) {
  for (size_t i = 0; i < n * b->P; i++) {
    if (scores[i] > -INFINITY) scores[i] *= b->value[i % b->P];
  }
}

size_t fopo_baseline_left_out_bytes(const fopo_baseline *b) {
  const fopo_baseline_kind *kind = b->o.kind;
  size_t bytes = kind->scratch_bytes != NULL ? kind->scratch_bytes(b->model) : 0;
  return bytes + (kind->left_out != NULL ? b->P * sizeof(float) : 0);
}

int fopo_baseline_left_out(float *scores, const fopo_baseline *b, const fopo_csr *M, size_t user,
                           const fopo_csr *X, size_t row, void *scratch) {
  const fopo_baseline_kind *kind = b->o.kind;
  if (kind->left_out != NULL && kind->left_out(scores, b->model, M, user, X, row, scratch)) {
    if (b->value != NULL) weigh(scores, b, 1);
    return FOPO_OK;
  }
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "baseline %s cannot leave a session out without a fit to the others; use ease "
                   "with top = 0",
                   kind->name);
}

/* Scores [n, P], n <= BLOCK; 0 if one is not finite. */
static int score_block(float *scores, job *j, size_t first, size_t n, void *scratch) {
  const fopo_csr *X = &j->sessions->X;
  if (j->M.indptr != NULL) {
    for (size_t i = first; i < first + n; i++, scores += j->b->P) {
      int status = fopo_baseline_left_out(scores, j->b, &j->M, i, X, i, scratch);
      if (status != FOPO_OK) return 0;
    }
    return 1;
  }
  int good = j->b->o.kind->score(scores, j->b->model, &j->b->o, X, first, n, scratch);
  if (good && j->b->value != NULL) weigh(scores, j->b, n);
  return good;
}

/* The lists of one block of sessions; 0 if a score is not finite. */
static int block_of(job *j, size_t first) {
  size_t t = (size_t)omp_get_thread_num(), P = j->b->P, N = j->sessions->X.rows;
  size_t n = N - first < BLOCK ? N - first : BLOCK;
  float *scores = j->block + t * BLOCK * P;
  int good = score_block(scores, j, first, n, j->scratch + t * j->scratch_bytes);
  for (size_t i = 0; good && i < n; i++) choose(j, first + i, scores + i * P, j->keys + t * P);
  return good;
}

/* Blocks between two reports: some for every thread. */
static size_t blocks_of_wave(size_t P) {
  size_t fit = WAVE_WORK / (BLOCK * P);
  return (size_t)fopo_threads() * (fit < 1 ? 1 : fit > WAVE ? WAVE : fit);
}

static int run(job *j) {
  size_t N = j->sessions->X.rows, wave = blocks_of_wave(j->b->P) * BLOCK;
  int good = 1;
  for (size_t first = 0; first < N; first += wave) {
    size_t last = N - first < wave ? N : first + wave;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic) reduction(&& : good)
    for (size_t at = first; at < last; at += BLOCK) good = good && block_of(j, at);
    if (!good) {
      return fopo_fail(FOPO_ERR_NUMERIC, "a score of baseline %s is not finite; use a larger l2",
                       j->b->o.kind->name);
    }
    int status = fopo_progress("recommending", (double)last, (double)N);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* What was learnt from. A model that cannot leave a session out says so of the first one. */
static int begin_left_out(job *j) {
  if (j->sessions->X.rows != j->b->N) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "the baseline was learnt from %zu sessions, and these are %zu; leave out those "
        "that it was learnt from",
        j->b->N, j->sessions->X.rows);
  }
  int status = fopo_interactions(&j->M, j->sessions);
  if (status != FOPO_OK) return status;
  return fopo_baseline_left_out(j->block, j->b, &j->M, 0, &j->sessions->X, 0, j->scratch);
}

int fopo_baseline_best(uint32_t *ids, float *scores, uint32_t *counts, const fopo_baseline *b,
                       const fopo_sessions *sessions, size_t k, int unseen, int left_out) {
  job j = {b, sessions, ids, scores, counts, k, unseen, {0}, NULL, NULL, NULL, 0};
  int status = check(b, sessions);
  if (status == FOPO_OK) status = begin(&j);
  if (status == FOPO_OK && left_out) status = begin_left_out(&j);
  if (status == FOPO_OK) status = run(&j);
  end(&j);
  return status;
}

int fopo_baseline_choose(uint32_t *ids, float *scores, uint32_t *counts, const fopo_baseline *b,
                         const fopo_sessions *sessions, size_t k, int unseen, const float *given,
                         size_t first, size_t n) {
  size_t P = sessions->X.cols, N = sessions->X.rows;
  job j = {b, sessions, ids, scores, counts, k, unseen, {0}, NULL, NULL, NULL, 0};
  for (size_t i = 0; i < n * P; i++) {
    if (!isnan(given[i])) continue;
    return fopo_fail(FOPO_ERR_NUMERIC,
                     "the score of item %zu for session %zu is nan; give numbers, or -inf for an "
                     "item that is never recommended",
                     i % P + 1, first + i / P + 1);
  }
  j.keys = fopo_alloc((size_t)fopo_threads() * P, sizeof *j.keys);
  if (j.keys == NULL) return FOPO_ERR_MEMORY;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t i = 0; i < n; i++) {
    choose(&j, first + i, given + i * P, j.keys + (size_t)omp_get_thread_num() * P);
  }
  fopo_free(j.keys);
  return fopo_progress("recommending", (double)(first + n), (double)N);
}

/* ---- the expected reward of a distribution ---- */

/* The weights of a baseline that is a distribution. */
typedef struct {
  const float *w;     /* [P] */
  const float *value; /* [P] by which they are multiplied; NULL: 1 */
} weights;

static double weight_of(const weights *w, uint32_t a) {
  return (double)w->w[a] * (w->value != NULL ? (double)w->value[a] : 1.0);
}

typedef struct {
  double sum, squares;
} weight_sums;

static void add_weight(weight_sums *t, double weight) {
  t->sum += weight;
  t->squares += weight * weight;
}

static weight_sums sums_of_x(const weights *w, const fopo_sessions *s, size_t n) {
  const uint32_t *ids = fopo_csr_row(&s->X, n);
  weight_sums x = {0.0, 0.0};
  for (size_t i = 0; i < fopo_csr_count(&s->X, n); i++) add_weight(&x, weight_of(w, ids[i]));
  return x;
}

/* The sum over the items of Y of the weight times what a hit is worth; unseen: not of those in X.
 */
static double sum_of_y(const weights *w, const fopo_sessions *s, size_t n, int unseen) {
  const uint32_t *ids = fopo_csr_row(&s->Y, n);
  double sum = 0.0;
  for (size_t i = 0; i < fopo_csr_count(&s->Y, n); i++) {
    if (unseen && fopo_csr_contains(&s->X, n, ids[i])) continue;
    sum += weight_of(w, ids[i]) * (double)fopo_sessions_value(s, ids[i]);
  }
  return sum;
}

int fopo_baseline_expected(fopo_expected *e, const fopo_baseline *b, const fopo_sessions *sessions,
                           int unseen) {
  weights w = {b->o.kind->weights != NULL ? b->o.kind->weights(b->model) : NULL, b->value};
  const fopo_csr *X = &sessions->X;
  weight_sums all = {0.0, 0.0}, rewards = {0.0, 0.0};
  size_t left = 0; /* contexts with an item that is not in X */
  *e = (fopo_expected){0};
  if (w.w == NULL) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "baseline %s gives no probabilities, so it has no expected reward",
                     b->o.kind->name);
  }
  int status = check(b, sessions);
  if (status != FOPO_OK) return status;
  double *items = fopo_alloc(X->rows, sizeof *items); /* in effect, of each of these contexts */
  if (items == NULL) return FOPO_ERR_MEMORY;
  for (uint32_t a = 0; a < b->P; a++) add_weight(&all, weight_of(&w, a));
  for (size_t n = 0; n < X->rows; n++) {
    double in_y = sum_of_y(&w, sessions, n, unseen);
    weight_sums x = unseen ? sums_of_x(&w, sessions, n) : (weight_sums){0.0, 0.0};
    double rest = all.sum - x.sum;
    add_weight(&rewards, in_y > 0.0 ? in_y / rest : 0.0);
    if (rest > 1e-12 * all.sum) items[left++] = rest * rest / (all.squares - x.squares);
  }
  double N = (double)X->rows;
  e->contexts = X->rows;
  e->unanswered = X->rows - left;
  e->reward = rewards.sum / N;
  double squared = fmax(rewards.squares - rewards.sum * rewards.sum / N, 0.0) / (N - 1.0) / N;
  e->se = N > 1.0 ? sqrt(squared) : (double)INFINITY;
  e->likelihood = e->likelihood_se = (double)NAN; /* an item that nobody took has the chance 0 */
  fopo_sort_f64(items, left);
  if (left > 0) e->effective = fopo_sorted_median(items, left);
  fopo_free(items);
  return FOPO_OK;
}
