/* sum_{a in Y} exp(q . beta_a - log Z), with log Z summed over the whole catalogue
 * (learn/softmax.h). */
#include "judge/expected.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/kernels.h"
#include "learn/softmax.h"

enum { BLOCK = 1024 }; /* contexts whose queries are held at once */

typedef struct {
  fopo_matrix x, Q;         /* [BLOCK, D], [BLOCK, L] of the block */
  double *log_z;            /* [BLOCK] */
  double *reward, *squares; /* [contexts] */
} work;

/* The context that is the i-th of n summed, out of N. */
static size_t context_of(size_t i, size_t n, size_t N) {
  return (size_t)((double)i * (double)N / (double)n);
}

static double reward_of(const fopo_policy *pi, const float *q, double log_z, const fopo_csr *Y,
                        size_t row) {
  const uint32_t *ids = fopo_csr_row(Y, row);
  size_t n = fopo_csr_count(Y, row);
  double sum = 0.0;
  for (size_t k = 0; k < n; k++) {
    const float *beta = fopo_matrix_row(pi->items, ids[k]);
    sum += exp((double)fopo_kernels_get()->dot(q, beta, pi->items.cols) - log_z);
  }
  return fmin(sum, 1.0); /* rounding may pass 1 */
}

static int sum_contexts(work *w, const fopo_policy *pi, fopo_matrix x, const fopo_csr *Y,
                        size_t n) {
  for (size_t first = 0; first < n; first += BLOCK) {
    size_t count = n - first < BLOCK ? n - first : BLOCK;
    for (size_t b = 0; b < count; b++) {
      const float *row = fopo_matrix_row(x, context_of(first + b, n, x.rows));
      memcpy(fopo_matrix_row(w->x, b), row, x.cols * sizeof *row);
    }
    fopo_matrix Q = fopo_matrix_rows(w->Q, 0, count);
    int status = fopo_policy_queries(Q, pi, fopo_matrix_rows(w->x, 0, count));
    if (status == FOPO_OK)
      status = fopo_matrix_finite(Q, "a context's query (context times theta)");
    if (status == FOPO_OK) {
      status = fopo_softmax_sums(w->log_z, w->squares + first, Q, pi->items, first, n);
    }
    if (status != FOPO_OK) return status;
    for (size_t b = 0; b < count; b++) {
      w->reward[first + b] =
          reward_of(pi, fopo_matrix_row(Q, b), w->log_z[b], Y, context_of(first + b, n, x.rows));
    }
  }
  return FOPO_OK;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static fopo_expected summary(double *reward, double *squares, size_t n) {
  double sum = 0.0, deviations = 0.0;
  for (size_t i = 0; i < n; i++) sum += reward[i];
  double mean = sum / (double)n;
  for (size_t i = 0; i < n; i++) deviations += (reward[i] - mean) * (reward[i] - mean);
  qsort(squares, n, sizeof *squares, ascending);
  return (fopo_expected){
      .contexts = n,
      .reward = mean,
      .se = n > 1 ? sqrt(deviations / (double)(n - 1) / (double)n) : 0.0,
      .effective = 2.0 / (squares[(n - 1) / 2] + squares[n / 2]),
  };
}

static int check(const fopo_policy *pi, fopo_matrix x, const fopo_sessions *sessions) {
  if (x.rows != sessions->Y.rows || sessions->Y.cols != pi->items.rows) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%zu contexts and %zu items do not fit sessions of %zu contexts x %zu items; "
                     "make contexts and items from the same sessions",
                     x.rows, pi->items.rows, sessions->Y.rows, sessions->Y.cols);
  }
  return fopo_policy_check_contexts(pi, x);
}

int fopo_evaluate_expected(fopo_expected *e, const fopo_policy *pi, fopo_matrix x,
                           const fopo_sessions *sessions, size_t most) {
  *e = (fopo_expected){0};
  int status = check(pi, x, sessions);
  if (status != FOPO_OK) return status;
  size_t n = most > 0 && most < x.rows ? most : x.rows, block = n < BLOCK ? n : BLOCK;
  work w = {.log_z = fopo_alloc(block, sizeof(double)),
            .reward = fopo_alloc(n, sizeof(double)),
            .squares = fopo_alloc(n, sizeof(double))};
  status = w.log_z && w.reward && w.squares ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_matrix_init(&w.x, block, x.cols);
  if (status == FOPO_OK) status = fopo_matrix_init(&w.Q, block, pi->items.cols);
  if (status == FOPO_OK) status = sum_contexts(&w, pi, x, &sessions->Y, n);
  if (status == FOPO_OK) *e = summary(w.reward, w.squares, n);
  fopo_matrix_done(&w.x);
  fopo_matrix_done(&w.Q);
  fopo_free(w.log_z);
  fopo_free(w.reward);
  fopo_free(w.squares);
  return status;
}
