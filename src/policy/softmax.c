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
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "kernels/product.h"

enum {
  QUERIES = 256, /* of a block: one pass over the items serves them all */
  TOGETHER = 4,  /* queries whose scores of all items are held: BLAS may round by the number of
                  * rows, which must not be the number of threads */
  ITEMS = 4096,  /* of a tile; its scores take 4 MB */
  HALVINGS = 26, /* of the range of log temperatures, 24 wide: T is right to 4e-7 */
  BINS = 4096    /* of scores, which tell a temperature nearly */
};

/* Of log temperatures: between two, for a slope; about a root that secants have found. */
static const double apart = 1e-3, nearly = 5e-7;

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
  if (s->m == -INFINITY && fopo_score_all_masked(f, n)) return;
  s->z += kernels->exp_sum(f, f, s->m, n);
  if (!with_squares) return;
  double moments[3];
  kernels->moments(moments, f, f, n);
  s->zz += moments[1];
}

/* The sums s [n] of the queries first .. first + n - 1 over all items. */
static int sum_block(sums *s, float *tile, const fopo_scores *scores, size_t first_query, size_t n,
                     int with_squares) {
  fopo_matrix Q = fopo_matrix_rows(scores->Q, first_query, n), items = scores->items;
  for (size_t b = 0; b < n; b++) s[b] = (sums){.m = -INFINITY};
  for (size_t first = 0; first < items.rows; first += ITEMS) {
    size_t wide = least(ITEMS, items.rows - first);
    fopo_matrix f = fopo_matrix_view(tile, n, wide);
    int status = fopo_product(f, 1.0f, Q, 0, fopo_matrix_rows(items, first, wide), 1, 0.0f);
    if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
    for (size_t b = 0; b < n; b++) {
      fopo_score_row row = fopo_score_row_of(scores->sparse, first_query + b);
      fopo_score_add(fopo_matrix_row(f, b), &row, scores->part, first, wide);
      add_tile(&s[b], fopo_matrix_row(f, b), wide, with_squares);
    }
  }
  return FOPO_OK;
}

/* done: the queries of earlier calls, before the first of log_z. */
static int give_sums(double *log_z, double *squares, const sums *s, const fopo_scores *scores,
                     size_t first, size_t n, size_t done) {
  for (size_t b = 0; b < n; b++) {
    int masked = s[b].z == 0.0 && fopo_score_row_of(scores->sparse, first + b).n > 0;
    if (!isfinite(s[b].z) || (s[b].z == 0.0 && !masked)) {
      return fopo_fail(FOPO_ERR_NUMERIC,
                       "the policy's scores in context %zu are too large for a float; look at "
                       "theta, the temperature and the contexts",
                       done + first + b + 1);
    }
    log_z[first + b] = masked ? -(double)INFINITY : (double)s[b].m + log(s[b].z);
    if (squares != NULL) squares[first + b] = masked ? 0.0 : s[b].zz / (s[b].z * s[b].z);
  }
  return FOPO_OK;
}

int fopo_softmax_sums(double *log_z, double *squares, const fopo_scores *scores, size_t done,
                      size_t total) {
  size_t N = scores->Q.rows, block = least(QUERIES, N), wide = least(ITEMS, scores->items.rows);
  sums *s = fopo_alloc(block, sizeof *s);
  float *tile = fopo_alloc(block * wide, sizeof *tile);
  int status = s != NULL && tile != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  for (size_t first = 0; first < N && status == FOPO_OK; first += block) {
    size_t n = least(block, N - first);
    status = sum_block(s, tile, scores, first, n, squares != NULL);
    if (status == FOPO_OK) status = give_sums(log_z, squares, s, scores, first, n, done);
    if (status == FOPO_OK) {
      status = fopo_progress("normalising the policy", (double)(done + first + n), (double)total);
    }
  }
  fopo_free(s);
  fopo_free(tile);
  return status;
}

/* ---- the temperature ---- */

/* The scores of a query: f [n], of the items that are not masked; on all ranks there are P of
 * these. */
typedef struct {
  const float *f;
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
  float share = (float)(1.0 / T), w[ITEMS];
  double moments[3], z[2] = {0.0, 0.0};
  for (size_t first = 0; first < q->n; first += ITEMS) {
    size_t n = least(ITEMS, q->n - first);
    const float *f = q->f + first;
#pragma omp simd
    for (size_t a = 0; a < n; a++) w[a] = (f[a] - m) * share;
    z[0] += kernels->exp_sum(w, w, 0.0f, n);
    kernels->moments(moments, w, w, n);
    z[1] += moments[1];
  }
  join(q, z, 2);
  return z[0] * z[0] / z[1];
}

/* Scores by how far they are below the largest one: count[i] of them about x[i]. */
typedef struct {
  float x[BINS], count[BINS], w[BINS];
} histogram;

static void count_scores(histogram *h, const scored *q, float m) {
  float least = m, wide;
#pragma omp simd reduction(min : least)
  for (size_t a = 0; a < q->n; a++) least = q->f[a] < least ? q->f[a] : least;
  wide = (m - least) / (float)BINS;
  for (size_t i = 0; i < BINS; i++) {
    h->x[i] = -((float)i + 0.5f) * wide;
    h->count[i] = 0.0f;
  }
  for (size_t a = 0; a < q->n; a++) {
    size_t i = (size_t)((m - q->f[a]) / wide);
    h->count[i < BINS ? i : BINS - 1] += 1.0f;
  }
}

/* log (items in effect / effective) at log T = u, nearly. */
static double nearly_excess(histogram *h, double u, double effective) {
  double z = 0.0, zz = 0.0;
  float share = (float)exp(-u);
  for (size_t i = 0; i < BINS; i++) h->w[i] = h->x[i] * share;
  fopo_kernels_get()->exp_sum(h->w, h->w, 0.0f, BINS);
  for (size_t i = 0; i < BINS; i++) {
    double w = (double)h->w[i], c = (double)h->count[i];
    z += c * w;
    zz += c * w * w;
  }
  return log(z * z / zz / effective);
}

/* What is known of log temperatures: up to `low` they have fewer items in effect than asked for,
 * from `high` on as many or more. */
typedef struct {
  double low, high;
} bracket;

/* The same, exactly; the bracket learns its sign. */
static double excess(bracket *k, const scored *q, float m, double u, double effective) {
  double y = log(effective_items(q, m, exp(u)) / effective);
  if (y < 0.0) {
    k->low = fmax(k->low, u);
  } else {
    k->high = fmin(k->high, u);
  }
  return y;
}

/* Finds the root between low and high by a histogram, then by a secant, and looks on both sides of
 * it: the bracket is a few HALVINGS wide. */
static int narrow(bracket *k, const scored *q, float m, double low, double high, double effective) {
  histogram *h = fopo_alloc(1, sizeof *h);
  if (h == NULL) return FOPO_ERR_MEMORY;
  count_scores(h, q, m);
  for (int i = 0; i < HALVINGS; i++) {
    double middle = 0.5 * (low + high);
    if (nearly_excess(h, middle, effective) < 0.0) {
      low = middle;
    } else {
      high = middle;
    }
  }
  double rise = nearly_excess(h, high + apart, effective) - nearly_excess(h, high, effective);
  double u = high - excess(k, q, m, high, effective) / (rise / apart);
  fopo_free(h);
  excess(k, q, m, u - nearly, effective);
  excess(k, q, m, u + nearly, effective);
  return FOPO_OK;
}

/* *T of one query by bisection: the effective number grows with T, so beside a root that is nearly
 * known most halvings need no sum over the items. NAN if all scores are equal, or too few. */
static int temperature_of(double *T, const scored *q, double effective) {
  *T = (double)NAN;
  if (effective >= (double)q->P) return FOPO_OK;
  float m = largest_of(q);
  double moments[3];
  fopo_kernels_get()->moments(moments, q->f, q->f, q->n);
  join(q, moments, 1);
  double spread = (double)m - moments[0] / (double)q->P; /* of the best score over the mean */
  if (!(spread > 0.0) || !isfinite(spread)) return FOPO_OK;
  double low = log(spread) - 12.0, high = log(spread) + 12.0;
  bracket k = {-(double)INFINITY, (double)INFINITY};
  int status = q->n > 4 * BINS && !q->parts ? narrow(&k, q, m, low, high, effective) : FOPO_OK;
  for (int i = 0; i < HALVINGS && status == FOPO_OK; i++) {
    double middle = 0.5 * (low + high);
    if (middle > k.low && middle < k.high) excess(&k, q, m, middle, effective);
    if (middle <= k.low) {
      low = middle;
    } else {
      high = middle;
    }
  }
  *T = exp(0.5 * (low + high));
  return status;
}

/* Masks f [n], the scores of query b, and moves those that are left to the front. */
static scored unmasked(float *f, const fopo_scores *scores, size_t b) {
  const fopo_part *part = scores->part;
  size_t n = scores->items.rows, all = part != NULL ? part->P : n;
  fopo_score_row row = fopo_score_row_of(scores->sparse, b);
  scored q = {f, n, all - row.n, part != NULL};
  if (row.n == 0) return q;
  fopo_score_add(f, &row, part, 0, n);
  q.n = 0;
  for (size_t a = 0; a < n; a++) {
    if (!(f[a] == -INFINITY)) f[q.n++] = f[a];
  }
  return q;
}

/* T [Q.rows], a temperature for each query. f is [TOGETHER, items.rows]. */
static int temperatures(double *T, float *f, const fopo_scores *scores, double effective) {
  size_t wide = scores->items.rows, N = scores->Q.rows;
  for (size_t first = 0; first < N; first += TOGETHER) {
    size_t n = least(TOGETHER, N - first);
    int status = fopo_product(fopo_matrix_view(f, n, wide), 1.0f,
                              fopo_matrix_rows(scores->Q, first, n), 0, scores->items, 1, 0.0f);
    if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (scores->part == NULL)
    for (size_t b = 0; b < n; b++) {
      scored q = unmasked(f + b * wide, scores, first + b);
      int made = temperature_of(&T[first + b], &q, effective);
      if (made != FOPO_OK) {
#pragma omp atomic write
        status = made;
      }
    }
    if (status != FOPO_OK) return status;
    status = fopo_progress("choosing the temperature", (double)(first + n), (double)N);
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

int fopo_softmax_temperature(double *found, const fopo_scores *scores, double effective) {
  size_t N = scores->Q.rows, wide = scores->items.rows;
  size_t P = scores->part != NULL ? scores->part->P : wide;
  if (!(effective > 1.0) || !(effective < (double)P)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "no temperature gives a softmax over %zu items %g in effect; ask for more "
                     "than 1 and fewer than %zu",
                     P, effective, P);
  }
  int status = fopo_score_check_mask(scores->sparse, "choosing a temperature");
  if (status != FOPO_OK) return status;
  double *T = fopo_alloc(N, sizeof *T);
  float *f = fopo_alloc(TOGETHER * wide, sizeof *f);
  status = T != NULL && f != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (scores->part != NULL) status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = temperatures(T, f, scores, effective);
  if (status == FOPO_OK) {
    *found = median(T, N);
    if (isnan(*found)) {
      status = fopo_fail(FOPO_ERR_ARGUMENT,
                         "none of %zu contexts scores one item above another%s, so no temperature "
                         "can be chosen; look at theta and the contexts, or give a temperature",
                         N, scores->sparse != NULL ? " and leaves enough of them unmasked" : "");
    }
  }
  fopo_free(T);
  fopo_free(f);
  return status;
}
