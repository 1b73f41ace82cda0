/* sum_{a in Y} exp(q . beta_a - log Z), with log Z summed over the whole catalogue
 * (policy/softmax.h); without the items of X divided by what they leave of the mass. */
#include "judge/expected.h"

#include <math.h>
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/sorted.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "policy/softmax.h"

enum { BLOCK = 1024 }; /* contexts whose queries are held at once */

/* If the items seen leave less of the mass, what they leave is summed item by item: in float32
 * scores 1 - mass would have a relative error of 1e-4 or more. */
static const double LITTLE = 1.0 / 16;

typedef struct {
  fopo_matrix x, Q;         /* [BLOCK, D], [BLOCK, L] of the block */
  double *log_z;            /* [BLOCK] */
  double *seen, *rest;      /* [BLOCK] the mass of X, and what it leaves */
  double *reward, *squares; /* [contexts] */
} work;

/* The row of an item here; UINT32_MAX: another rank holds it. */
static uint32_t row_of(const fopo_policy *pi, uint32_t item) {
  return pi->shard == NULL ? item : fopo_part_row(&pi->shard->part, item);
}

static double chance(const fopo_policy *pi, const float *q, double log_z, size_t row) {
  const float *beta = fopo_matrix_row(pi->items, row);
  return exp((double)fopo_kernels_get()->dot(q, beta, pi->items.cols) - log_z);
}

/* sum of pi(a | x) over the items a of a row, but not over those in the same row of `but` (NULL:
 * none). */
static double mass_of(const fopo_policy *pi, const float *q, double log_z, const fopo_csr *m,
                      size_t row, const fopo_csr *but) {
  const uint32_t *ids = fopo_csr_row(m, row);
  size_t n = fopo_csr_count(m, row);
  double sum = 0.0;
  for (size_t k = 0; k < n; k++) {
    if (but != NULL && fopo_csr_contains(but, row, ids[k])) continue;
    uint32_t here = row_of(pi, ids[k]);
    if (here != UINT32_MAX) sum += chance(pi, q, log_z, here);
  }
  return sum;
}

/* sum of pi(a | x) over the items that are not in the row, without the rounding that 1 - (mass of
 * the row) would keep if that mass is nearly 1. */
static double rest_of(const fopo_policy *pi, const float *q, double log_z, const fopo_csr *m,
                      size_t row) {
  double sum = 0.0;
  for (size_t a = 0; a < pi->items.rows; a++) {
    uint32_t item = pi->shard == NULL ? (uint32_t)a : pi->shard->id[a];
    if (!fopo_csr_contains(m, row, item)) sum += chance(pi, q, log_z, a);
  }
  return sum;
}

/* What the parts of a catalogue have found, together. */
static int join(const fopo_policy *pi, double *x, size_t n, int status) {
  if (pi->shard == NULL) return status;
  status = fopo_comm_agree(status);
  return status == FOPO_OK ? fopo_comm_sum_doubles(x, n) : status;
}

/* The masses of Y, and of X if `unseen`. */
static int masses_of_block(work *w, const fopo_policy *pi, fopo_matrix Q, const fopo_sessions *s,
                           size_t first, size_t n, int unseen) {
  int stopped = 0;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 8) reduction(| : stopped)
  for (size_t b = 0; b < Q.rows; b++) {
    if (stopped || fopo_interrupted()) {
      stopped = 1;
      continue;
    }
    size_t row = fopo_spread_context(first + b, n, s->Y.rows);
    const float *q = fopo_matrix_row(Q, b);
    w->reward[first + b] = mass_of(pi, q, w->log_z[b], &s->Y, row, unseen ? &s->X : NULL);
    w->seen[b] = unseen ? mass_of(pi, q, w->log_z[b], &s->X, row, NULL) : 0.0;
  }
  return stopped ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while evaluating") : FOPO_OK;
}

/* w->rest, of the contexts whose items seen leave little. */
static void find_rest(work *w, const fopo_policy *pi, fopo_matrix Q, const fopo_sessions *s,
                      size_t first, size_t n) {
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 8)
  for (size_t b = 0; b < Q.rows; b++) {
    w->rest[b] = 0.0;
    if (!(w->reward[first + b] > 0.0 && 1.0 - w->seen[b] < LITTLE)) continue;
    size_t row = fopo_spread_context(first + b, n, s->Y.rows);
    w->rest[b] = rest_of(pi, fopo_matrix_row(Q, b), w->log_z[b], &s->X, row);
  }
}

/* Fills w->reward of the contexts first .. first + count - 1 of n from their queries. */
static int rewards_of_block(work *w, const fopo_policy *pi, fopo_matrix Q, const fopo_sessions *s,
                            size_t first, size_t n, int unseen) {
  int status = masses_of_block(w, pi, Q, s, first, n, unseen);
  status = join(pi, w->reward + first, Q.rows, status);
  if (status == FOPO_OK && unseen) {
    status = join(pi, w->seen, Q.rows, FOPO_OK);
    if (status == FOPO_OK) find_rest(w, pi, Q, s, first, n);
    status = join(pi, w->rest, Q.rows, status);
  }
  for (size_t b = 0; b < Q.rows && status == FOPO_OK; b++) {
    double *reward = w->reward + first + b, rest = 1.0 - w->seen[b];
    if (unseen && *reward > 0.0) *reward /= rest < LITTLE ? w->rest[b] : rest;
    *reward = fmin(*reward, 1.0); /* rounding may pass 1 */
  }
  return status;
}

static int sum_contexts(work *w, const fopo_policy *pi, fopo_matrix x, const fopo_sessions *s,
                        size_t n, int unseen) {
  for (size_t first = 0; first < n; first += BLOCK) {
    size_t count = n - first < BLOCK ? n - first : BLOCK;
    for (size_t b = 0; b < count; b++) {
      const float *row = fopo_matrix_row(x, fopo_spread_context(first + b, n, x.rows));
      memcpy(fopo_matrix_row(w->x, b), row, x.cols * sizeof *row);
    }
    fopo_matrix Q = fopo_matrix_rows(w->Q, 0, count);
    int status = fopo_policy_queries(Q, pi, fopo_matrix_rows(w->x, 0, count));
    if (status == FOPO_OK) {
      status = fopo_matrix_finite(Q, "a context's query (context times theta)");
    }
    if (status == FOPO_OK) {
      fopo_scores f = {.Q = Q, .items = pi->items};
      status = fopo_softmax_sums(w->log_z, w->squares + first, &f, first, n);
    }
    if (pi->shard != NULL) {
      status = fopo_shard_log_sums(w->log_z, w->squares + first, count, status);
    }
    if (status == FOPO_OK) status = rewards_of_block(w, pi, Q, s, first, n, unseen);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

static fopo_expected summary(double *reward, double *squares, size_t n) {
  double sum = 0.0, deviations = 0.0;
  for (size_t i = 0; i < n; i++) sum += reward[i];
  double mean = sum / (double)n;
  for (size_t i = 0; i < n; i++) deviations += (reward[i] - mean) * (reward[i] - mean);
  fopo_sort_f64(squares, n);
  return (fopo_expected){
      .contexts = n,
      .reward = mean,
      .se = n > 1 ? sqrt(deviations / (double)(n - 1) / (double)n) : 0.0,
      .effective = 1.0 / fopo_sorted_median(squares, n),
  };
}

static int check(const fopo_policy *pi, fopo_matrix x, const fopo_sessions *sessions) {
  size_t P = fopo_policy_n_items(pi);
  if (x.rows != sessions->Y.rows || sessions->Y.cols != P) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%zu contexts and %zu items do not fit sessions of %zu contexts x %zu items; "
                     "make contexts and items from the same sessions",
                     x.rows, P, sessions->Y.rows, sessions->Y.cols);
  }
  return fopo_policy_check_contexts(pi, x);
}

int fopo_evaluate_expected(fopo_expected *e, const fopo_policy *pi, fopo_matrix x,
                           const fopo_sessions *sessions, size_t most, int unseen) {
  *e = (fopo_expected){0};
  int status = check(pi, x, sessions);
  if (status != FOPO_OK) return status;
  size_t n = most > 0 && most < x.rows ? most : x.rows, block = n < BLOCK ? n : BLOCK;
  work w = {.log_z = fopo_alloc(block, sizeof(double)),
            .seen = fopo_alloc(block, sizeof(double)),
            .rest = fopo_alloc(block, sizeof(double)),
            .reward = fopo_alloc(n, sizeof(double)),
            .squares = fopo_alloc(n, sizeof(double))};
  status = w.log_z && w.seen && w.rest && w.reward && w.squares ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_matrix_init(&w.x, block, x.cols);
  if (status == FOPO_OK) status = fopo_matrix_init(&w.Q, block, pi->items.cols);
  if (status == FOPO_OK) status = sum_contexts(&w, pi, x, sessions, n, unseen);
  if (status == FOPO_OK) *e = summary(w.reward, w.squares, n);
  fopo_matrix_done(&w.x);
  fopo_matrix_done(&w.Q);
  fopo_free(w.log_z);
  fopo_free(w.seen);
  fopo_free(w.rest);
  fopo_free(w.reward);
  fopo_free(w.squares);
  return status;
}
