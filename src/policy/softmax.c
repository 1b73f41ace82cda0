/* Tiles of items are scored by GEMM, and each query keeps a running maximum m of its scores with
 * the sums relative to it (the streaming log-sum-exp),
 *
 *   z = sum_a exp(f_a - m),   zz = sum_a exp(f_a - m)^2,
 *
 * which are multiplied by exp(m_old - m) and its square if a tile raises m. A query is summed by
 * one thread in the order of the items. */
#include "policy/softmax.h"

#include <math.h>
#include <string.h>

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
  HELD = 16384,  /* items of which they are; of more, scores are counted */
  PASS = 16,     /* queries that are counted together */
  ITEMS = 4096,  /* of a tile; its scores take 4 MB */
  HALVINGS = 26, /* of the range of log temperatures, 24 wide: T is right to 4e-7 */
  BINS = 8192,   /* of scores that are counted, */
  SHARES = 256,  /* parts of a bin */
  OF_BINS = 2 * (BINS + 1),
  FRESH = 4096, /* tiles whose counts are held in 32 bits */
  FINE = 64,    /* of which a temperature has so many at least: 1e-5 of the items in effect, */
  REACH = 60, /* and which reach so many temperatures below the best score, if they are too wide */
  PASSES = 30 /* over the items at most */
};

/* The weight, as a share of the sum, that scores below the bins may have. */
static const double trifle = 1e-7;

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

/* The log temperatures between which one is sought; 0: all scores are equal, or not finite. spread:
 * of the best score over the mean, or over the least. */
static int range_of(double range[2], double spread) {
  if (!(spread > 0.0) || !isfinite(spread)) return 0;
  range[0] = log(spread) - 12.0;
  range[1] = log(spread) + 12.0;
  return 1;
}

/* *T of one query by bisection: the effective number grows with T. NAN if all scores are equal, or
 * too few. */
static void temperature_of(double *T, const scored *q, double effective) {
  *T = (double)NAN;
  if (effective >= (double)q->P) return;
  float m = largest_of(q);
  double moments[3], u[2];
  fopo_kernels_get()->moments(moments, q->f, q->f, q->n);
  join(q, moments, 1);
  if (!range_of(u, (double)m - moments[0] / (double)q->P)) return;
  for (int i = 0; i < HALVINGS; i++) {
    double middle = 0.5 * (u[0] + u[1]);
    u[effective_items(q, m, exp(middle)) >= effective] = middle;
  }
  *T = exp(0.5 * (u[0] + u[1]));
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
      temperature_of(&T[first + b], &q, effective);
    }
    status = fopo_progress("choosing the temperature", (double)(first + n), (double)N);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* ---- the temperature among many items ---- */

/* Scores are made anew in each pass over the items, tile by tile, which costs less than to hold
 * them. The first pass finds their extremes, the next one counts them in bins between these. The
 * counts tell the temperature if bins are narrow beside it, as they nearly always are; else they
 * are counted again, nearer to the best score. */
typedef struct {
  float top, last; /* the largest and the least score, */
  double n;        /* and how many they are */
  double reach;    /* of all bins, below the largest score; 0: it is not counted, or done */
  double u[2];     /* the range of log temperatures */
  double T;
  double *of; /* [BINS + 1] how many scores there are in each bin, the last one of those below all
               * and of masked items; and [BINS + 1] the sum of their distances from its top,
               * as shares of it */
  float *at;  /* [BINS] minus the mean place of its scores, in bins */
  uint64_t *fresh; /* [BINS + 1] of a part of the pass: how many << 32 | the sum of shares, in
                    * parts */
} counted;

static void add_extremes(counted *c, const float *f, size_t n) {
  float last = c->last;
  c->top = fmaxf(c->top, fopo_kernels_get()->max(f, n));
#pragma omp simd reduction(min : last)
  for (size_t a = 0; a < n; a++) {
    float x = f[a] == -INFINITY ? INFINITY : f[a];
    last = x < last ? x : last;
  }
  c->last = last;
}

static void count(counted *c, const float *f, size_t n) {
  float top = c->top, parts = (float)((double)BINS * SHARES / c->reach);
  uint32_t at[ITEMS];
#pragma omp simd
  for (size_t a = 0; a < n; a++) {
    float x = (top - f[a]) * parts;
    at[a] = (uint32_t)(int32_t)(x < (float)(BINS * SHARES) ? x : (float)(BINS * SHARES));
  }
  for (size_t a = 0; a < n; a++) {
    c->fresh[at[a] / SHARES] += (uint64_t)1 << 32 | at[a] % SHARES;
  }
}

/* Adds what is fresh. A share is that of the middle of its part. */
static void take_fresh(counted *c) {
  for (size_t i = 0; i <= BINS; i++) {
    double n = (double)(c->fresh[i] >> 32), shares = (double)(uint32_t)c->fresh[i];
    c->of[i] += n;
    c->of[BINS + 1 + i] += (shares + 0.5 * n) / SHARES;
    c->fresh[i] = 0;
  }
}

/* One pass for the queries of c [n], from `first` on. tile [PASS, ITEMS]. */
static int pass(counted *c, float *tile, const fopo_scores *scores, size_t first, size_t n,
                int extremes) {
  fopo_matrix Q = fopo_matrix_rows(scores->Q, first, n), items = scores->items;
  for (size_t at = 0; at < items.rows; at += ITEMS) {
    size_t wide = least(ITEMS, items.rows - at);
    fopo_matrix f = fopo_matrix_view(tile, n, wide);
    int status = fopo_product(f, 1.0f, Q, 0, fopo_matrix_rows(items, at, wide), 1, 0.0f);
    if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads_for(n *wide * 4)) schedule(static)
    for (size_t b = 0; b < n; b++) {
      if (!extremes && c[b].reach == 0.0) continue;
      fopo_score_row row = fopo_score_row_of(scores->sparse, first + b);
      fopo_score_add(fopo_matrix_row(f, b), &row, scores->part, at, wide);
      if (extremes) {
        add_extremes(&c[b], fopo_matrix_row(f, b), wide);
      } else {
        count(&c[b], fopo_matrix_row(f, b), wide);
        if (at + wide == items.rows || (at / ITEMS + 1) % FRESH == 0) take_fresh(&c[b]);
      }
    }
    status = fopo_progress("choosing the temperature", (double)first, (double)scores->Q.rows);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* z, zz = the sums of w and w^2 at log T = u; w [BINS] is scratch. */
static void sum_bins(double z[2], float *w, const counted *c, double u) {
  float wide = (float)(c->reach / BINS), share = (float)exp(-u);
  for (size_t i = 0; i < BINS; i++) w[i] = c->at[i] * wide * share;
  fopo_kernels_get()->exp_sum(w, w, 0.0f, BINS);
  z[0] = z[1] = 0.0;
  for (size_t i = 0; i < BINS; i++) {
    double x = (double)w[i] * c->of[i];
    z[0] += x;
    z[1] += x * (double)w[i];
  }
}

/* The temperature by the counts, or how far bins have to reach to tell it. */
static void find_root(counted *c, double effective) {
  float w[BINS];
  double z[2], u[2] = {c->u[0], c->u[1]}, below = c->n;
  for (size_t i = 0; i < BINS; i++) {
    double share = c->of[i] > 0.0 ? c->of[BINS + 1 + i] / c->of[i] : 0.5;
    c->at[i] = -(float)((double)i + share);
    below -= c->of[i];
  }
  for (int i = 0; i < HALVINGS; i++) {
    double middle = 0.5 * (u[0] + u[1]);
    sum_bins(z, w, c, middle);
    u[z[0] * z[0] >= effective * z[1]] = middle;
  }
  c->T = exp(0.5 * (u[0] + u[1]));
  sum_bins(z, w, c, log(c->T));
  double wide = c->reach / BINS;
  if (wide * FINE > c->T) {
    c->reach = fmax(REACH * c->T, 2.0 * wide);
  } else {
    c->reach = below * exp(-c->reach / c->T) > trifle * z[0] ? 2.0 * c->reach : 0.0;
  }
}

static int join_extremes(counted *c, size_t n) {
  for (size_t b = 0; b < n; b++) {
    float own[2] = {c[b].top, c[b].last}, all[FOPO_COMM_RANKS][2];
    int status = fopo_comm_gather(all, own, sizeof own);
    if (status != FOPO_OK) return status;
    for (size_t r = 0; r < fopo_comm_ranks(); r++) {
      c[b].top = fmaxf(c[b].top, all[r][0]);
      c[b].last = fminf(c[b].last, all[r][1]);
    }
  }
  return FOPO_OK;
}

static int join_counts(counted *c, size_t n) {
  int status = FOPO_OK;
  for (size_t b = 0; b < n && status == FOPO_OK; b++) {
    if (c[b].reach > 0.0) status = fopo_comm_sum_doubles(c[b].of, OF_BINS);
  }
  return status;
}

/* The temperatures of n queries, c [n]. */
static int temperatures_by_counts(counted *c, float *tile, const fopo_scores *scores, size_t first,
                                  size_t n, double effective) {
  size_t all = scores->part != NULL ? scores->part->P : scores->items.rows, left = n;
  for (size_t b = 0; b < n; b++) {
    c[b] = (counted){.top = -INFINITY,
                     .last = INFINITY,
                     .T = (double)NAN,
                     .of = c[b].of,
                     .fresh = c[b].fresh,
                     .at = c[b].at};
    c[b].n = (double)(all - fopo_score_row_of(scores->sparse, first + b).n);
  }
  int status = pass(c, tile, scores, first, n, 1);
  if (scores->part != NULL) status = fopo_comm_agree(status);
  if (status == FOPO_OK && scores->part != NULL) status = join_extremes(c, n);
  for (size_t b = 0; b < n; b++) {
    double spread = (double)c[b].top - (double)c[b].last;
    int has = effective < c[b].n && range_of(c[b].u, spread);
    c[b].reach = has ? spread * (1.0 + 1e-6) : 0.0;
  }
  for (int i = 0; i < PASSES && left > 0 && status == FOPO_OK; i++) {
    for (size_t b = 0; b < n; b++) memset(c[b].of, 0, OF_BINS * sizeof *c[b].of);
    status = pass(c, tile, scores, first, n, 0);
    if (scores->part != NULL) status = fopo_comm_agree(status);
    if (status == FOPO_OK && scores->part != NULL) status = join_counts(c, n);
    left = 0;
    for (size_t b = 0; b < n && status == FOPO_OK; b++) {
      if (c[b].reach > 0.0) find_root(&c[b], effective);
      left += c[b].reach > 0.0;
    }
  }
  return status;
}

static int temperatures_of_many(double *T, const fopo_scores *scores, double effective) {
  size_t N = scores->Q.rows, most = least(PASS, N);
  counted c[PASS] = {{0}};
  double *of = fopo_alloc(most * OF_BINS, sizeof *of);
  uint64_t *fresh = fopo_alloc(most * (BINS + 1), sizeof *fresh);
  float *at = fopo_alloc(most * BINS, sizeof *at), *tile = fopo_alloc(most * ITEMS, sizeof *tile);
  int status = of && fresh && at && tile ? FOPO_OK : FOPO_ERR_MEMORY;
  if (scores->part != NULL) status = fopo_comm_agree(status);
  for (size_t first = 0; first < N && status == FOPO_OK; first += PASS) {
    size_t n = least(PASS, N - first);
    for (size_t b = 0; b < n; b++) {
      c[b] =
          (counted){.of = of + b * OF_BINS, .fresh = fresh + b * (BINS + 1), .at = at + b * BINS};
    }
    status = temperatures_by_counts(c, tile, scores, first, n, effective);
    for (size_t b = 0; b < n; b++) T[first + b] = c[b].T;
  }
  if (status == FOPO_OK) {
    status = fopo_progress("choosing the temperature", (double)N, (double)N);
  }
  fopo_free(of);
  fopo_free(fresh);
  fopo_free(at);
  fopo_free(tile);
  return status;
}

static int temperatures_of_few(double *T, const fopo_scores *scores, double effective) {
  float *f = fopo_alloc(TOGETHER * scores->items.rows, sizeof *f);
  int status = f != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (scores->part != NULL) status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = temperatures(T, f, scores, effective);
  fopo_free(f);
  return status;
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
  size_t N = scores->Q.rows;
  size_t P = scores->part != NULL ? scores->part->P : scores->items.rows;
  if (!(effective > 1.0) || !(effective < (double)P)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "no temperature gives a softmax over %zu items %g in effect; ask for more "
                     "than 1 and fewer than %zu",
                     P, effective, P);
  }
  int status = fopo_score_check_mask(scores->sparse, "choosing a temperature");
  if (status != FOPO_OK) return status;
  double *T = fopo_alloc(N, sizeof *T);
  status = T != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (scores->part != NULL) status = fopo_comm_agree(status);
  if (status == FOPO_OK) {
    status = P > HELD ? temperatures_of_many(T, scores, effective)
                      : temperatures_of_few(T, scores, effective);
  }
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
  return status;
}
