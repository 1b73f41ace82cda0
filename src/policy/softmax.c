/* Tiles of items are scored by GEMM, and each query keeps a running maximum m of its scores with
 * the sums relative to it (the streaming log-sum-exp),
 *
 *   z = sum_a exp(f_a - m),   zz = sum_a exp(f_a - m)^2,
 *
 * which are multiplied by exp(m_old - m) and its square if a tile raises m. A query is summed by
 * one thread in the order of the items. */
#include "policy/softmax.h"

#include <math.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/sorted.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "kernels/product.h"

enum {
  QUERIES = 256, /* of a block: one pass over the items serves them all */
  TOGETHER = 4,  /* queries whose scores of all items are held: BLAS may round by the number of
                  * rows, which must not be the number of threads */
  ITEMS = 4096,  /* of a tile; its scores take 4 MB */
  HALVINGS = 26  /* of the range of log temperatures, 24 wide: T is right to 4e-7 */
};

typedef struct {
  float m;
  double z, zz;
} sums;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* ---- the sums ---- */

static void add_tile(sums *s, float *f, size_t n, int with_squares) {
  const fopo_kernels *kernels = fopo_kernels_get();
  float largest = kernels->max(f, n);
  if (largest > s->m) {
    double factor = exp((double)s->m - (double)largest);
    s->z *= factor;
    s->zz *= factor * factor;
    s->m = largest;
  }
  s->z += kernels->exp_sum(f, f, s->m, n);
  if (!with_squares) return;
  double moments[3];
  kernels->moments(moments, f, f, n);
  s->zz += moments[1];
}

/* The sums s [Q.rows] of a block of queries over all items. */
static int sum_block(sums *s, float *scores, fopo_matrix Q, fopo_matrix items, int with_squares) {
  for (size_t b = 0; b < Q.rows; b++) s[b] = (sums){.m = -INFINITY};
  for (size_t first = 0; first < items.rows; first += ITEMS) {
    size_t n = least(ITEMS, items.rows - first);
    fopo_matrix f = fopo_matrix_view(scores, Q.rows, n);
    int status = fopo_product(f, 1.0f, Q, 0, fopo_matrix_rows(items, first, n), 1, 0.0f);
    if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
    for (size_t b = 0; b < Q.rows; b++) add_tile(&s[b], fopo_matrix_row(f, b), n, with_squares);
  }
  return FOPO_OK;
}

/* done: the queries of earlier calls, before the first of log_z. */
static int give_sums(double *log_z, double *squares, const sums *s, size_t first, size_t n,
                     size_t done) {
  for (size_t b = 0; b < n; b++) {
    if (!isfinite(s[b].z)) {
      return fopo_fail(FOPO_ERR_NUMERIC,
                       "the policy's scores in context %zu are too large for a float; look at "
                       "theta, the temperature and the contexts",
                       done + first + b + 1);
    }
    log_z[first + b] = (double)s[b].m + log(s[b].z);
    if (squares != NULL) squares[first + b] = s[b].zz / (s[b].z * s[b].z);
  }
  return FOPO_OK;
}

int fopo_softmax_sums(double *log_z, double *squares, fopo_matrix Q, fopo_matrix items, size_t done,
                      size_t total) {
  size_t block = least(QUERIES, Q.rows), wide = least(ITEMS, items.rows);
  sums *s = fopo_alloc(block, sizeof *s);
  float *scores = fopo_alloc(block * wide, sizeof *scores);
  int status = s != NULL && scores != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  for (size_t first = 0; first < Q.rows && status == FOPO_OK; first += block) {
    size_t n = least(block, Q.rows - first);
    status = sum_block(s, scores, fopo_matrix_rows(Q, first, n), items, squares != NULL);
    if (status == FOPO_OK) status = give_sums(log_z, squares, s, first, n, done);
    if (status == FOPO_OK) {
      status = fopo_progress("normalising the policy", (double)(done + first + n), (double)total);
    }
  }
  fopo_free(s);
  fopo_free(scores);
  return status;
}

/* ---- the temperature ---- */

/* The scores of a query: f [n], of all items or of this rank's part of P. w [n] is scratch. */
typedef struct {
  const float *f;
  float *w;
  size_t n, P;
  int parts; /* 1: the other ranks have the others, and every sum is collective */
} scored;

/* Sums over all items, from those over f. */
static void join(const scored *q, double *x, size_t n) {
  if (q->parts) fopo_comm_sum_doubles(x, n);
}

static float largest_of(const scored *q) {
  float all[FOPO_COMM_RANKS], m = fopo_kernels_get()->max(q->f, q->n);
  if (!q->parts || fopo_comm_gather(all, &m, sizeof m) != FOPO_OK) return m;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) m = fmaxf(m, all[r]);
  return m;
}

/* The effective number of items of the softmax of f / T: (sum w)^2 / sum w^2, w = exp((f - m) / T).
 */
static double effective_items(const scored *q, float m, double T) {
  const fopo_kernels *kernels = fopo_kernels_get();
  float share = (float)(1.0 / T), *w = q->w;
  double moments[3];
  for (size_t a = 0; a < q->n; a++) w[a] = (q->f[a] - m) * share;
  double z[2] = {kernels->exp_sum(w, w, 0.0f, q->n)};
  kernels->moments(moments, w, w, q->n);
  z[1] = moments[1];
  join(q, z, 2);
  return z[0] * z[0] / z[1];
}

/* The temperature of one query by bisection: the effective number grows with T. NAN if all scores
 * are equal. */
static double temperature_of(const scored *q, double effective) {
  float m = largest_of(q);
  double moments[3];
  fopo_kernels_get()->moments(moments, q->f, q->f, q->n);
  join(q, moments, 1);
  double spread = (double)m - moments[0] / (double)q->P; /* of the best score over the mean */
  if (!(spread > 0.0) || !isfinite(spread)) return (double)NAN;
  double low = log(spread) - 12.0, high = log(spread) + 12.0;
  for (int i = 0; i < HALVINGS; i++) {
    double middle = 0.5 * (low + high);
    if (effective_items(q, m, exp(middle)) < effective) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return exp(0.5 * (low + high));
}

/* T [Q.rows], a temperature for each query. scores and scratch are [TOGETHER, P]. */
static int temperatures(double *T, float *scores, float *scratch, fopo_matrix Q, fopo_matrix items,
                        size_t all, int parts, double effective) {
  size_t P = items.rows;
  for (size_t first = 0; first < Q.rows; first += TOGETHER) {
    size_t n = least(TOGETHER, Q.rows - first);
    fopo_matrix f = fopo_matrix_view(scores, n, P);
    int status = fopo_product(f, 1.0f, fopo_matrix_rows(Q, first, n), 0, items, 1, 0.0f);
    if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (!parts)
    for (size_t b = 0; b < n; b++) {
      scored q = {scores + b * P, scratch + b * P, P, all, parts};
      T[first + b] = temperature_of(&q, effective);
    }
    status = fopo_progress("choosing the temperature", (double)(first + n), (double)Q.rows);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* The median of the numbers among T [n]; NAN if there is none. Sorts T. */
static double median(double *T, size_t n) {
  size_t kept = 0;
  for (size_t b = 0; b < n; b++) {
    if (!isnan(T[b])) T[kept++] = T[b];
  }
  fopo_sort_f64(T, kept);
  return kept > 0 ? fopo_sorted_median(T, kept) : (double)NAN;
}

/* Of `items`, all P or a part of them. */
static int temperature(double *found, fopo_matrix Q, fopo_matrix items, size_t P, int parts,
                       double effective) {
  if (!(effective > 1.0) || !(effective < (double)P)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "no temperature gives a softmax over %zu items %g in effect; ask for more "
                     "than 1 and fewer than %zu",
                     P, effective, P);
  }
  double *T = fopo_alloc(Q.rows, sizeof *T);
  float *scores = fopo_alloc(TOGETHER * items.rows, sizeof *scores);
  float *scratch = fopo_alloc(TOGETHER * items.rows, sizeof *scratch);
  int status = T != NULL && scores != NULL && scratch != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (parts) status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = temperatures(T, scores, scratch, Q, items, P, parts, effective);
  if (status == FOPO_OK) {
    *found = median(T, Q.rows);
    if (isnan(*found)) {
      status = fopo_fail(FOPO_ERR_ARGUMENT,
                         "none of %zu contexts scores one item above another, so no temperature "
                         "can be chosen; look at theta and the contexts, or give a temperature",
                         Q.rows);
    }
  }
  fopo_free(T);
  fopo_free(scores);
  fopo_free(scratch);
  return status;
}

int fopo_softmax_temperature(double *found, fopo_matrix Q, fopo_matrix items, double effective) {
  return temperature(found, Q, items, items.rows, 0, effective);
}

int fopo_softmax_temperature_of_parts(double *found, fopo_matrix Q, const fopo_shard *s,
                                      double effective) {
  return temperature(found, Q, s->items, s->part.P, 1, effective);
}
