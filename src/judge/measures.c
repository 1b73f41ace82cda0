/* The measures of lists: one pass over the lists for each k, sums in double in the order of the
 * contexts. */
#include "judge/measures.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/sort.h"
#include "core/status.h"
#include "judge/evaluate.h"
#include "kernels/kernels.h"
#include "mips/topk.h"

static const double z = FOPO_Z95;

enum { BLOCK = 4096 }; /* contexts between two polls: some milliseconds for lists of 100 */

/* The sum over contexts of a number, and of its square. */
typedef struct {
  double sum, squares;
} total;

typedef struct {
  total of[FOPO_MEASURES];
  uint64_t *order; /* [the most items of a Y] scratch of best_gain; NULL: all values are 1 */
} totals;

const char *const fopo_measure_names[FOPO_MEASURES + 1] = {"hit",  "precision", "recall", "ndcg",
                                                           "seen", "value",     NULL};

static void add(total *t, double value) {
  t->sum += value;
  t->squares += value * value;
}

/* most: of a single number. */
static fopo_measure mean_of(total t, size_t N, double most) {
  double n = (double)N, mean = t.sum / n;
  /* s^2 = sum (v - mean)^2 / (n - 1); one context says nothing about the spread */
  double squares = fmax(t.squares - n * mean * mean, 0.0);
  double half = N > 1 ? z * sqrt(squares / (n - 1.0) / n) : most;
  return (fopo_measure){mean, fmax(mean - half, 0.0), fmin(mean + half, most)};
}

/* 1 / log2(1 + rank), rank 1, 2 .. */
static double gain(size_t rank) { return 1.0 / log2(1.0 + (double)rank); }

static double gain_of_first(size_t n) {
  double sum = 0.0;
  for (size_t rank = 1; rank <= n; rank++) sum += gain(rank);
  return sum;
}

/* The gain of the best list of k items for context n. */
static double best_gain(uint64_t *order, const fopo_sessions *s, size_t n, size_t k) {
  size_t in_y = fopo_csr_count(&s->Y, n), most = k < in_y ? k : in_y;
  if (order == NULL) return gain_of_first(most);
  const uint32_t *ids = fopo_csr_row(&s->Y, n);
  double sum = 0.0;
  for (size_t i = 0; i < in_y; i++) {
    order[i] = fopo_topk_key(fopo_sessions_value(s, ids[i]), ids[i]);
  }
  fopo_kernels_get()->sort(order, in_y); /* the largest first */
  for (size_t i = 0; i < most; i++) sum += (double)fopo_topk_score(order[i]) * gain(i + 1);
  return sum;
}

/* x: the measures of context n, whose list begins with ids [k]. Returns the length of the list. */
static size_t measure_context(double x[FOPO_MEASURES], uint64_t *order, const uint32_t *ids,
                              size_t k, const fopo_sessions *s, size_t n) {
  size_t length = 0, hits = 0, seen = 0, in_y = fopo_csr_count(&s->Y, n);
  double gained = 0.0, worth = 0.0;
  for (; length < k && ids[length] != FOPO_NO_ITEM; length++) {
    uint32_t a = ids[length];
    seen += (size_t)fopo_csr_contains(&s->X, n, a);
    if (!fopo_csr_contains(&s->Y, n, a)) continue;
    double value = (double)fopo_sessions_value(s, a);
    hits++;
    worth += value;
    gained += value * gain(length + 1);
  }
  x[FOPO_MEASURE_HIT] = hits > 0 ? 1.0 : 0.0;
  x[FOPO_MEASURE_PRECISION] = (double)hits / (double)k;
  x[FOPO_MEASURE_RECALL] = in_y > 0 ? (double)hits / (double)in_y : 0.0;
  x[FOPO_MEASURE_NDCG] = gained > 0.0 ? gained / best_gain(order, s, n, k) : 0.0;
  x[FOPO_MEASURE_SEEN] = length > 0 ? (double)seen / (double)length : 0.0;
  x[FOPO_MEASURE_VALUE] = worth;
  return length;
}

/* Adds context n, whose list begins with ids [m->k]. times [P]: how often each item was listed. */
static void add_context(totals *t, fopo_measures *m, uint32_t *times, const uint32_t *ids,
                        const fopo_sessions *s, size_t n) {
  double x[FOPO_MEASURES];
  size_t length = measure_context(x, t->order, ids, m->k, s, n);
  for (size_t i = 0; i < length; i++) m->distinct += times[ids[i]]++ == 0;
  m->unanswered += length == 0;
  m->hits += x[FOPO_MEASURE_HIT] > 0.0;
  for (int i = 0; i < FOPO_MEASURES; i++) add(&t->of[i], x[i]);
}

/* Of P counts x in ascending order, sum_i (2 i - P - 1) x_i / (P sum x), i = 1 .. P. The counts
 * above 0 move to the front and are sorted; the others would come first and add nothing. */
static double gini_of(uint32_t *times, size_t P) {
  size_t n = 0;
  double sum = 0.0, weighted = 0.0;
  for (size_t a = 0; a < P; a++) {
    if (times[a] > 0) times[n++] = times[a];
  }
  fopo_sort_u32(times, n);
  for (size_t j = 0; j < n; j++) {
    double rank = (double)(P - n + j + 1);
    sum += (double)times[j];
    weighted += (2.0 * rank - (double)P - 1.0) * (double)times[j];
  }
  return sum > 0.0 ? weighted / ((double)P * sum) : 0.0;
}

static int measure(fopo_measures *m, uint32_t *times, uint64_t *order, const uint32_t *ids,
                   size_t width, const fopo_sessions *s) {
  totals t = {.order = order};
  size_t N = s->Y.rows, P = s->Y.cols;
  *m = (fopo_measures){.k = m->k};
  memset(times, 0, P * sizeof *times);
  for (size_t n = 0; n < N; n++) {
    if (n % BLOCK == 0 && fopo_interrupted()) {
      return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while measuring");
    }
    add_context(&t, m, times, ids + n * width, s, n);
  }
  m->hit.value = (double)m->hits / (double)N;
  fopo_wilson(&m->hit.low, &m->hit.high, m->hits, N);
  m->precision = mean_of(t.of[FOPO_MEASURE_PRECISION], N, 1.0);
  m->recall = mean_of(t.of[FOPO_MEASURE_RECALL], N, 1.0);
  m->ndcg = mean_of(t.of[FOPO_MEASURE_NDCG], N, 1.0);
  m->seen = mean_of(t.of[FOPO_MEASURE_SEEN], N, 1.0);
  m->value = mean_of(t.of[FOPO_MEASURE_VALUE], N, (double)INFINITY);
  m->coverage = (double)m->distinct / (double)P;
  m->gini = gini_of(times, P);
  return FOPO_OK;
}

static int check(const fopo_measures *m, size_t n, const uint32_t *ids, size_t width,
                 const fopo_sessions *s) {
  size_t P = s->Y.cols, N = s->Y.rows;
  if (N == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "no context to measure recommendations by");
  for (size_t i = 0; i < n; i++) {
    if (m[i].k >= 1 && m[i].k <= width) continue;
    return fopo_fail(FOPO_ERR_ARGUMENT, "k is %zu but the lists have %zu items; use 1 to %zu",
                     m[i].k, width, width);
  }
  for (size_t i = 0; i < N * width; i++) {
    if (ids[i] < P || ids[i] == FOPO_NO_ITEM) continue;
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "list %zu has item %zu but the sessions have %zu items; use lists of the same "
                     "catalogue",
                     i / width + 1, (size_t)ids[i] + 1, P);
  }
  return FOPO_OK;
}

/* Scratch of best_gain; NULL: it needs none. */
static int make_order(uint64_t **order, const fopo_sessions *s) {
  size_t longest = s->value != NULL ? fopo_csr_longest(&s->Y) : 0;
  *order = NULL;
  if (longest > 0) *order = fopo_alloc(longest, sizeof **order);
  return longest > 0 && *order == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
}

int fopo_measure_each(float *each, fopo_measure_kind kind, size_t k, const uint32_t *ids,
                      size_t width, const fopo_sessions *sessions) {
  fopo_measures m = {.k = k};
  uint64_t *order;
  int status = check(&m, 1, ids, width, sessions);
  if (status == FOPO_OK) status = make_order(&order, sessions);
  if (status != FOPO_OK) return status;
  for (size_t n = 0; n < sessions->Y.rows; n++) {
    double x[FOPO_MEASURES];
    measure_context(x, order, ids + n * width, k, sessions, n);
    each[n] = (float)x[kind];
  }
  fopo_free(order);
  return FOPO_OK;
}

int fopo_measure_lists(fopo_measures *m, size_t n, const uint32_t *ids, size_t width,
                       const fopo_sessions *sessions) {
  int status = check(m, n, ids, width, sessions);
  if (status != FOPO_OK) return status;
  uint64_t *order;
  status = make_order(&order, sessions);
  uint32_t *times = fopo_alloc(sessions->Y.cols, sizeof *times);
  if (times == NULL) status = FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    status = measure(&m[i], times, order, ids, width, sessions);
  }
  fopo_free(times);
  fopo_free(order);
  return status;
}
