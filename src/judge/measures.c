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
#include "mips/index.h"
#include "mips/topk.h"

static const double z = FOPO_Z95;

enum { BLOCK = 4096 }; /* contexts between two polls: some milliseconds for lists of 100 */

/* The sum over contexts of a number, and of its square. */
typedef struct {
  double sum, squares;
} total;

typedef struct {
  total precision, recall, ndcg, seen, value;
  uint64_t *order; /* [the most items of a Y] scratch of best_gain; NULL: all values are 1 */
} totals;

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
static double best_gain(const totals *t, const fopo_sessions *s, size_t n, size_t k) {
  size_t in_y = fopo_csr_count(&s->Y, n), most = k < in_y ? k : in_y;
  if (t->order == NULL) return gain_of_first(most);
  const uint32_t *ids = fopo_csr_row(&s->Y, n);
  double sum = 0.0;
  for (size_t i = 0; i < in_y; i++) {
    t->order[i] = fopo_topk_key(fopo_sessions_value(s, ids[i]), ids[i]);
  }
  fopo_kernels_get()->sort(t->order, in_y); /* the largest first */
  for (size_t i = 0; i < most; i++) sum += (double)fopo_topk_score(t->order[i]) * gain(i + 1);
  return sum;
}

/* Adds context n, whose list begins with ids [m->k]. times [P]: how often each item was listed. */
static void add_context(totals *t, fopo_measures *m, uint32_t *times, const uint32_t *ids,
                        const fopo_sessions *s, size_t n) {
  size_t k = m->k, length = 0, hits = 0, seen = 0, in_y = fopo_csr_count(&s->Y, n);
  double gained = 0.0, worth = 0.0;
  for (; length < k && ids[length] != FOPO_NO_ITEM; length++) {
    uint32_t a = ids[length];
    if (times[a]++ == 0) m->distinct++;
    seen += (size_t)fopo_csr_contains(&s->X, n, a);
    if (!fopo_csr_contains(&s->Y, n, a)) continue;
    double value = (double)fopo_sessions_value(s, a);
    hits++;
    worth += value;
    gained += value * gain(length + 1);
  }
  m->unanswered += length == 0;
  m->hits += hits > 0;
  add(&t->precision, (double)hits / (double)k);
  add(&t->recall, in_y > 0 ? (double)hits / (double)in_y : 0.0);
  add(&t->ndcg, gained > 0.0 ? gained / best_gain(t, s, n, k) : 0.0);
  add(&t->value, worth);
  add(&t->seen, length > 0 ? (double)seen / (double)length : 0.0);
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
  m->precision = mean_of(t.precision, N, 1.0);
  m->recall = mean_of(t.recall, N, 1.0);
  m->ndcg = mean_of(t.ndcg, N, 1.0);
  m->seen = mean_of(t.seen, N, 1.0);
  m->value = mean_of(t.value, N, (double)INFINITY);
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

int fopo_measure_lists(fopo_measures *m, size_t n, const uint32_t *ids, size_t width,
                       const fopo_sessions *sessions) {
  int status = check(m, n, ids, width, sessions);
  if (status != FOPO_OK) return status;
  size_t longest = 0, N = sessions->Y.rows;
  for (size_t i = 0; i < N && sessions->value != NULL; i++) {
    size_t count = fopo_csr_count(&sessions->Y, i);
    if (count > longest) longest = count;
  }
  uint32_t *times = fopo_alloc(sessions->Y.cols, sizeof *times);
  uint64_t *order = longest > 0 ? fopo_alloc(longest, sizeof *order) : NULL;
  status = times == NULL || (longest > 0 && order == NULL) ? FOPO_ERR_MEMORY : FOPO_OK;
  for (size_t i = 0; i < n && status == FOPO_OK; i++) {
    status = measure(&m[i], times, order, ids, width, sessions);
  }
  fopo_free(times);
  fopo_free(order);
  return status;
}
