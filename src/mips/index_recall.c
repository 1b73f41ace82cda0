/* An index compared with exact search. A returned item is a hit if its score is not below the exact
 * k-th best: scores have the same bits for all kinds, so hits / k is the share of the exact top k,
 * and of items with equal scores each counts as well as another. The mass of an answer is the sum
 * of exp(score) over its items, divided by that of the exact top k: what matters of the candidates
 * of a softmax policy, however many of the true ones they are. */
#include <math.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/status.h"
#include "mips/index.h"
#include "mips/index_internal.h"

typedef struct {
  uint32_t *ids, *counts; /* [B, k], [B] */
  float *scores;          /* [B, k] */
  double seconds;
} answers;

static void answers_done(answers *a) {
  fopo_free(a->ids);
  fopo_free(a->counts);
  fopo_free(a->scores);
}

static int answer(answers *a, fopo_index *ix, fopo_matrix Q, size_t k, size_t batch) {
  a->ids = fopo_alloc(Q.rows * k, sizeof *a->ids);
  a->counts = fopo_alloc(Q.rows, sizeof *a->counts);
  a->scores = fopo_alloc(Q.rows * k, sizeof *a->scores);
  if (a->ids == NULL || a->counts == NULL || a->scores == NULL) return FOPO_ERR_MEMORY;
  double start = fopo_clock();
  int status = FOPO_OK;
  for (size_t b = 0; b < Q.rows && status == FOPO_OK; b += batch) {
    size_t rows = Q.rows - b < batch ? Q.rows - b : batch;
    status = fopo_index_search(a->ids + b * k, a->scores + b * k, a->counts + b, ix,
                               fopo_matrix_rows(Q, b, rows), k);
  }
  a->seconds = fopo_clock() - start;
  return status;
}

static double sum_of_exp(const float *scores, size_t n, float shift) {
  double sum = 0.0;
  for (size_t i = 0; i < n; i++) sum += exp((double)scores[i] - (double)shift);
  return sum;
}

static void compare(fopo_recall *r, const float *truth, const answers *found, size_t B, size_t k) {
  size_t hits = 0, first = 0, shorts = 0;
  double mass = 0.0;
  for (size_t b = 0; b < B; b++) {
    const float *t = truth + b * k, *f = found->scores + b * k;
    first += f[0] >= t[0];
    for (size_t i = 0; i < found->counts[b]; i++) hits += f[i] >= t[k - 1];
    shorts += found->counts[b] < k;
    double all = sum_of_exp(t, k, t[0]), held = sum_of_exp(f, found->counts[b], t[0]);
    mass += held < all ? held / all : 1.0;
  }
  r->recall = (double)hits / ((double)B * (double)k);
  r->mass = mass / (double)B;
  r->recall_at_1 = (double)first / (double)B;
  r->short_rows = shorts;
  r->ms_per_query = 1e3 * found->seconds / (double)B;
}

int fopo_index_measure(fopo_recall *r, fopo_index *ix, fopo_matrix Q, size_t k, const float *truth,
                       size_t batch) {
  *r = (fopo_recall){0};
  if (Q.rows == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "recall needs queries, but there are none; give some rows");
  }
  answers found = {0};
  size_t before = fopo_index_about(ix).scored;
  int status = answer(&found, ix, Q, k, batch > 0 ? batch : Q.rows);
  if (status == FOPO_OK) {
    fopo_index_facts facts = fopo_index_about(ix);
    compare(r, truth, &found, Q.rows, k);
    r->reachable = facts.reachable;
    r->scored = (double)(facts.scored - before) / ((double)Q.rows * (double)facts.n_items);
  }
  answers_done(&found);
  return status;
}

int fopo_index_recall(fopo_recall *r, fopo_index *ix, fopo_matrix Q, size_t k) {
  *r = (fopo_recall){0};
  if (Q.rows == 0) return fopo_index_measure(r, ix, Q, k, NULL, 0);
  fopo_index *exact;
  answers truth = {0};
  int status = fopo_index_exact(&exact, ix->items);
  if (status == FOPO_OK) status = answer(&truth, exact, Q, k, Q.rows);
  if (status == FOPO_OK) status = fopo_index_measure(r, ix, Q, k, truth.scores, 0);
  if (status == FOPO_OK) r->exact_ms_per_query = 1e3 * truth.seconds / (double)Q.rows;
  fopo_index_free(exact);
  answers_done(&truth);
  return status;
}
