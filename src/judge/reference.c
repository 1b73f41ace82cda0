/* A softmax over the catalogue for several parameter vectors at once. Items are cut into tiles; a
 * tile keeps its own largest score and its sums relative to it, and the tiles are merged in their
 * order, so that threads change nothing. */
#include "judge/reference.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"

enum {
  TILE = 256,  /* items; their scores, 66 KB at most, lie on the stack of a thread */
  TILES = 1024 /* between two reports of progress */
};

/* Of a tile, or of all tiles so far. */
typedef struct {
  double top; /* the largest score */
  double Z;   /* sum_a exp(f_a - top) */
  double R;   /* sum_a exp(f_a - top) r_a */
} sums;

/* The same of a kind that knows h in float32 alone. */
static int round_queries(double *h, const fopo_policy *pi, const double *theta, size_t M,
                         const float *x) {
  size_t D = fopo_policy_context_dim(pi), L = pi->items.cols, n = pi->theta.rows * pi->theta.cols;
  fopo_policy at = *pi;
  float *rounded = fopo_alloc(n + L + D, sizeof *rounded), *q = rounded + n, *in = q + L;
  int status = rounded != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) memcpy(in, x, D * sizeof *in);
  at.theta.x = rounded;
  for (size_t m = 0; m < M && status == FOPO_OK; m++) {
    for (size_t i = 0; i < n; i++) rounded[i] = (float)theta[m * n + i];
    status = fopo_policy_queries(fopo_matrix_view(q, 1, L), &at, fopo_matrix_view(in, 1, D));
    for (size_t j = 0; j < L && status == FOPO_OK; j++) h[j * M + m] = (double)q[j];
  }
  fopo_free(rounded);
  return status;
}

/* h [L, M]: h(x) / T for every theta, all M side by side, as the inner loop reads them. */
static int make_queries(double *h, const fopo_policy *pi, const double *theta, size_t M,
                        const float *x) {
  size_t D = fopo_policy_context_dim(pi), L = pi->items.cols, n = pi->theta.rows * pi->theta.cols;
  if (pi->kind->reference == NULL) return round_queries(h, pi, theta, M, x);
  double *in = fopo_alloc(D + L + pi->n_hidden, sizeof *in);
  if (in == NULL) return FOPO_ERR_MEMORY;
  double *q = in + D, *scratch = q + L;
  for (size_t i = 0; i < D; i++) in[i] = (double)x[i];
  for (size_t m = 0; m < M; m++) {
    pi->kind->reference(q, scratch, pi, theta + m * n, in);
    for (size_t j = 0; j < L; j++) h[j * M + m] = q[j] / (double)pi->temperature;
  }
  fopo_free(in);
  return FOPO_OK;
}

/* f [n, M] + s of the items first .. first + n - 1. */
static void add_sparse(double *f, const fopo_score_row *s, size_t first, size_t n, size_t M) {
  size_t i = s->n > 0 ? fopo_sorted_place(s->ids, s->n, (uint32_t)first) : 0;
  for (; i < s->n && s->ids[i] - first < n; i++) {
    double *fa = f + (s->ids[i] - first) * M, value = (double)fopo_score_entry(s, i);
    for (size_t m = 0; m < M; m++) fa[m] += value;
  }
}

/* f [M, P] of a policy that scores lists: X is what the context masks. */
static void score_lists(double *f, const fopo_policy *pi, const double *theta, size_t M,
                        const fopo_reference_context *context) {
  size_t P = pi->items.rows, n = pi->theta.rows * pi->theta.cols;
  fopo_score_row seen = fopo_score_row_of(context->sparse, 0);
  fopo_list_context list = {seen.ids, seen.n, context->x, context->row, NULL};
  for (size_t m = 0; m < M; m++) pi->kind->reference_list(f + m * P, pi, theta + m * n, &list);
}

/* The sums [M] over the items first .. first + n - 1, from the scores lists [M, P] if they are not
 * NULL, else from queries h [L, M]. */
static void score_tile(sums *out, const fopo_policy *pi, size_t first, size_t n, const double *h,
                       const double *lists, size_t M, const fopo_reference_context *context) {
  double f[TILE * FOPO_REFERENCE_MOST];
  fopo_matrix items = fopo_matrix_rows(pi->items, first, n);
  fopo_score_row row = fopo_score_row_of(context->sparse, 0);
  for (size_t a = 0; a < items.rows; a++) {
    const float *beta = fopo_matrix_row(items, a);
    double *fa = f + a * M;
    for (size_t m = 0; m < M; m++) {
      fa[m] = lists != NULL ? lists[m * pi->items.rows + first + a] : 0.0;
    }
    for (size_t j = 0; j < items.cols; j++) {
      for (size_t m = 0; m < M; m++) fa[m] += (double)beta[j] * h[j * M + m];
    }
  }
  add_sparse(f, &row, first, n, M);
  for (size_t m = 0; m < M; m++) {
    sums s = {.top = -INFINITY};
    for (size_t a = 0; a < n; a++) s.top = fmax(s.top, f[a * M + m]);
    for (size_t a = 0; a < n; a++) {
      double w = f[a * M + m] == -(double)INFINITY ? 0.0 : exp(f[a * M + m] - s.top);
      s.Z += w;
      s.R += w * (double)context->r[first + a];
    }
    out[m] = s;
  }
}

static sums merge(sums s, sums t) {
  if (s.Z == 0.0) return t; /* nothing yet */
  if (t.Z == 0.0) return s; /* all masked */
  double top = fmax(s.top, t.top), a = exp(s.top - top), b = exp(t.top - top);
  return (sums){.top = top, .Z = a * s.Z + b * t.Z, .R = a * s.R + b * t.R};
}

/* The sums [M] over all items; tiles [TILES, M] is scratch. */
static int sum_up(sums *all, sums *tiles, const fopo_policy *pi, const double *h,
                  const double *lists, size_t M, const fopo_reference_context *context) {
  size_t P = pi->items.rows, n = (P + TILE - 1) / TILE;
  for (size_t m = 0; m < M; m++) all[m] = (sums){.top = -INFINITY};
  for (size_t first = 0; first < n; first += TILES) {
    size_t count = n - first < TILES ? n - first : TILES;
    int status = fopo_progress("summing over the catalogue in double", (double)first, (double)n);
    if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
    for (size_t t = 0; t < count; t++) {
      size_t a = (first + t) * TILE;
      if (fopo_interrupted()) continue; /* the next report of progress fails then */
      score_tile(tiles + t * M, pi, a, P - a < TILE ? P - a : TILE, h, lists, M, context);
    }
    for (size_t t = 0; t < count; t++) {
      for (size_t m = 0; m < M; m++) all[m] = merge(all[m], tiles[t * M + m]);
    }
  }
  return fopo_progress("summing over the catalogue in double", (double)n, (double)n);
}

int fopo_reference_reward(double *value, double *log_z, const fopo_policy *pi, const double *theta,
                          size_t M, const fopo_reference_context *context) {
  if (M == 0 || M > FOPO_REFERENCE_MOST) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu parameter vectors at once; use 1 to %d", M,
                     FOPO_REFERENCE_MOST);
  }
  double *h = fopo_alloc(pi->items.cols * M, sizeof *h);
  sums *all = fopo_alloc(M, sizeof *all), *tiles = fopo_alloc(TILES * M, sizeof *tiles);
  int is_list = pi->kind->score_list != NULL;
  size_t scratch = pi->items.cols + fopo_policy_context_dim(pi) + pi->n_hidden + pi->items.cols;
  double *lists = is_list ? fopo_alloc(pi->items.rows * M + scratch, sizeof *lists) : NULL;
  int status = h && all && tiles && (lists || !is_list) ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = make_queries(h, pi, theta, M, context->x);
  if (status == FOPO_OK && is_list) score_lists(lists, pi, theta, M, context);
  if (status == FOPO_OK) status = sum_up(all, tiles, pi, h, lists, M, context);
  for (size_t m = 0; m < M && status == FOPO_OK; m++) {
    value[m] = all[m].Z == 0.0 ? 0.0 : all[m].R / all[m].Z;
    log_z[m] = all[m].top + log(all[m].Z);
  }
  fopo_free(h);
  fopo_free(lists);
  fopo_free(all);
  fopo_free(tiles);
  return status;
}

/* theta [2 count + 1, n]: pi's own, then a step forward and one back along each direction. */
static void make_steps(double *theta, const fopo_policy *pi, fopo_matrix U, double h) {
  size_t n = U.cols;
  for (size_t i = 0; i < n; i++) theta[i] = (double)pi->theta.x[i];
  for (size_t k = 0; k < U.rows; k++) {
    double *forward = theta + (2 * k + 1) * n, *back = forward + n;
    const float *u = fopo_matrix_row(U, k);
    for (size_t i = 0; i < n; i++) {
      forward[i] = theta[i] + h * (double)u[i];
      back[i] = theta[i] - h * (double)u[i];
    }
  }
}

int fopo_reference_slopes(double *slope, double *value, double *log_z, const fopo_policy *pi,
                          const fopo_reference_context *context, fopo_matrix U, double h) {
  double values[FOPO_REFERENCE_MOST], log_zs[FOPO_REFERENCE_MOST];
  size_t n = pi->theta.rows * pi->theta.cols, M = 2 * U.rows + 1;
  if (U.rows > FOPO_REFERENCE_DIRECTIONS || U.cols != n) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the directions are %zu x %zu; at most %d of %zu parameters each are needed",
                     U.rows, U.cols, FOPO_REFERENCE_DIRECTIONS, n);
  }
  if (!(h > 0.0) || !isfinite(h)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the step of the differences is %g; use h > 0", h);
  }
  double *theta = fopo_alloc(M * n, sizeof *theta);
  if (theta == NULL) return FOPO_ERR_MEMORY;
  make_steps(theta, pi, U, h);
  int status = fopo_reference_reward(values, log_zs, pi, theta, M, context);
  fopo_free(theta);
  if (status != FOPO_OK) return status;
  for (size_t m = 0; m < M; m++) {
    values[m] = fopo_objective_rule_of(context->objective, values[m], log_zs[m], 1.0).value;
  }
  *value = values[0];
  *log_z = log_zs[0];
  /* slope = (value(theta + h u) - value(theta - h u)) / 2h */
  for (size_t k = 0; k < U.rows; k++) {
    slope[k] = (values[2 * k + 1] - values[2 * k + 2]) / (2.0 * h);
  }
  return FOPO_OK;
}
