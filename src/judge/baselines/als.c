/* Matrix factorisation of implicit feedback by alternating least squares (Hu, Koren and Volinsky:
 * "Collaborative filtering for implicit feedback datasets", ICDM 2008):
 *
 *   min sum_ua c_ua (m_ua - x_u . y_a)^2 + l2 (|X|^2 + |Y|^2),   c_ua = 1 + alpha m_ua, m_ua 0 or 1
 *
 * Given Y, each user is a system of dim equations of its own,
 *
 *   (Y^T Y + l2 n^nu I + alpha sum_{a of u} y_a y_a^T) x_u = (1 + alpha) sum_{a of u} y_a
 *
 * and items likewise given X; n is the number of the row's entries (Rendle, Krichene, Zhang and
 * Koren: "Revisiting the performance of iALS on item recommendation benchmarks", RecSys 2022; their
 * n counts the other items too, by their weight). A new session is such a user.
 *
 * A system is solved by conjugate gradients from what the row was before (Takacs, Pilaszy and Tikk:
 * "Applications of the conjugate gradient method for implicit feedback collaborative filtering",
 * RecSys 2011), STEPS of them. Scores do not change when X and Y are turned together. So both are
 * turned until Y^T Y = diag(d), and the part of a system that does not depend on the row is d + l2
 * n^nu: a step costs the products with the n factors of the row and nothing of dim^2, and with the
 * diagonal as preconditioner the eigenvalues are 1 and up to n others near it. Factors are float32;
 * Y^T Y is summed in double, in an order that depends on the sizes alone.
 *
 * Of users that are shared out to ranks each solves its share of the rows of either side, and sums
 * its share of the slices of Y^T Y; then all have all. So the bits are those of one process. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "comm/pieces.h"
#include "comm/transpose.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/solve.h"
#include "core/status.h"
#include "core/threads.h"
#include "judge/baselines/baselines.h"
#include "kernels/kernels.h"
#include "kernels/product.h"

enum {
  CHUNK = 64,  /* factors that stay in the cache between their two products */
  STEPS = 3,   /* of conjugate gradients in a half iteration */
  FOLD = 100,  /* at most, for a new session */
  BLOCK = 256, /* rows turned, or added to Y^T Y, at once */
  SLICES = 32, /* partial sums of Y^T Y */
  WAVE = 2048  /* rows solved between two reports of progress */
};
#define DOING "factorising users x items"

static const float spread = 0.1f;   /* of the initial item factors */
static const float enough = 1e-12f; /* of the first residual's square, for a new session */

/* The model. */
typedef struct {
  size_t P, dim;
  double l2;
  float *Y; /* [P, dim] */
  float *d; /* [dim] the diagonal of Y^T Y */
} model;

static void free_model(void *of) {
  model *m = of;
  if (m == NULL) return;
  fopo_free(m->Y);
  fopo_free(m->d);
  fopo_free(m);
}

/* ---- one row ---- */

/* Its system: the other side's factors with the diagonal of their squares, and this row's ids. */
typedef struct {
  const fopo_kernels *k;
  const float *F, *d;  /* [.., dim], [dim]; not owned */
  const uint32_t *ids; /* [n]; not owned */
  size_t n, dim;
  float l2, alpha;
} row_system;

/* Floats of scratch for `solve`. */
static size_t scratch_size(size_t dim) { return 4 * dim + CHUNK; }

/* v += sum over the row of (base + slope f . p) f; returns sum of (f . p)^2. v NULL: the sum alone.
 */
static float add_factors(float *v, const row_system *s, const float *p, float base, float slope,
                         float *c) {
  float squares = 0.0f;
  for (size_t first = 0; first < s->n; first += CHUNK) {
    size_t count = s->n - first < CHUNK ? s->n - first : CHUNK;
    s->k->gather_dot(c, s->F, s->dim, s->ids + first, count, p, s->dim);
    squares += s->k->dot(c, c, count);
    if (v == NULL) continue;
    for (size_t i = 0; i < count; i++) c[i] = base + slope * c[i];
    s->k->gather_axpy(v, s->F, s->dim, s->ids + first, c, count, 0, s->dim);
  }
  return squares;
}

/* x [dim] by at most `steps` steps from where it is, fewer if the square of the residual has become
 * `least` of what it was. */
static void solve(float *x, const row_system *s, size_t steps, float least, float *scratch) {
  size_t dim = s->dim;
  float *r = scratch, *p = r + dim, *q = p + dim, *scale = q + dim, *c = scale + dim;
#pragma omp simd
  for (size_t i = 0; i < dim; i++) {
    scale[i] = s->d[i] + s->l2;
    r[i] = -scale[i] * x[i];
  }
  add_factors(r, s, x, 1.0f + s->alpha, -s->alpha, c);
#pragma omp simd
  for (size_t i = 0; i < dim; i++) p[i] = r[i] / scale[i];
  float rz = s->k->dot(r, p, dim), stop = least * rz;
  for (size_t step = 1; rz > stop; step++) {
    int last = step == steps;
#pragma omp simd
    for (size_t i = 0; i < dim; i++) q[i] = scale[i] * p[i];
    float curvature = s->k->dot(p, q, dim), before = rz;
    curvature += s->alpha * add_factors(last ? NULL : q, s, p, 0.0f, s->alpha, c);
    s->k->axpy(x, rz / curvature, p, dim);
    if (last) return;
    s->k->axpy(r, -rz / curvature, q, dim);
#pragma omp simd
    for (size_t i = 0; i < dim; i++) q[i] = r[i] / scale[i];
    rz = s->k->dot(r, q, dim);
#pragma omp simd
    for (size_t i = 0; i < dim; i++) p[i] = q[i] + rz / before * p[i];
  }
}

/* The system of row r of M given F and d. */
static row_system system_of(const fopo_csr *M, size_t r, const float *F, const float *d,
                            const fopo_baseline_options *o) {
  size_t n = fopo_csr_count(M, r);
  return (row_system){.k = fopo_kernels_get(),
                      .F = F,
                      .d = d,
                      .ids = fopo_csr_row(M, r),
                      .n = n,
                      .dim = o->dim,
                      .l2 = (float)(o->l2 * pow((double)n, o->nu)),
                      .alpha = (float)o->alpha};
}

/* ---- all rows ---- */

typedef struct {
  const fopo_baseline_options *o; /* not owned */
  float *X;                       /* [N, dim] */
  double *partial;                /* [SLICES, dim, dim] */
  double *values;                 /* [dim] */
  float *turn;                    /* [dim, dim] eigenvectors, one a row */
  double *scratch;                /* [threads, BLOCK, dim] */
  double done, passes;            /* half iterations */
} work;

/* Of n rows or slices those that this rank makes: from *first on, as many as are returned. */
static size_t own_share(size_t *first, const work *w, size_t n) {
  *first = 0;
  return w->o->users > 0 ? fopo_comm_own_share(first, n) : n;
}

/* of [n, width] with the rows of all ranks, after `status` of making them. */
static int gather(const work *w, void *of, size_t n, size_t width, int status) {
  size_t bytes[FOPO_COMM_RANKS], first;
  if (w->o->users == 0) return status;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    bytes[r] = fopo_comm_share(&first, n, r, fopo_comm_ranks()) * width;
  }
  fopo_comm_own_share(&first, n);
  return fopo_pieces_gather(of, (char *)of + first * width, bytes, FOPO_PIECE, status);
}

static double *scratch_of(const work *w) {
  return w->scratch + (size_t)omp_get_thread_num() * BLOCK * w->o->dim;
}

/* partial[0] = F^T F (its upper triangle) for F [n, dim]. */
static int gram(work *w, const float *F, size_t n) {
  size_t dim = w->o->dim, begin, slices = own_share(&begin, w, SLICES);
  memset(w->partial, 0, SLICES * dim * dim * sizeof *w->partial);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t s = begin; s < begin + slices; s++) {
    double *rows = scratch_of(w);
    size_t first = n * s / SLICES, last = n * (s + 1) / SLICES;
    for (; first < last && !fopo_interrupted(); first += BLOCK) {
      size_t count = last - first < BLOCK ? last - first : BLOCK;
      for (size_t i = 0; i < count * dim; i++) rows[i] = (double)F[first * dim + i];
      fopo_gram_add(w->partial + s * dim * dim, NULL, rows, NULL, count, dim);
    }
  }
  int status = FOPO_OK;
  if (fopo_interrupted()) status = fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while " DOING);
  status = gather(w, w->partial, SLICES, dim * dim * sizeof *w->partial, status);
  for (size_t s = 1; s < SLICES && status == FOPO_OK; s++) {
    for (size_t i = 0; i < dim * dim; i++) w->partial[i] += w->partial[s * dim * dim + i];
  }
  return status;
}

/* F [n, dim] in the coordinates of the eigenvectors. */
static void turn(work *w, float *F, size_t n) {
  size_t dim = w->o->dim;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t first = 0; first < n; first += BLOCK) {
    size_t count = n - first < BLOCK ? n - first : BLOCK;
    float *copy = (float *)(void *)scratch_of(w);
    memcpy(copy, F + first * dim, count * dim * sizeof *copy);
    fopo_product_tile(fopo_matrix_view(F + first * dim, count, dim), 1.0f,
                      fopo_matrix_view(copy, count, dim), 0, fopo_matrix_view(w->turn, dim, dim), 1,
                      0.0f);
  }
}

/* Turns the factors of both sides until those of `of` [n, dim] have squares diag(d). */
static int turn_both(model *m, work *w, size_t users, const float *of, size_t n) {
  size_t dim = m->dim;
  int status = gram(w, of, n);
  if (status == FOPO_OK) status = fopo_eigen(w->values, w->partial, dim);
  if (status != FOPO_OK) return status;
  for (size_t i = 0; i < dim * dim; i++) w->turn[i] = (float)w->partial[i];
  for (size_t i = 0; i < dim; i++) m->d[i] = (float)fmax(w->values[i], 0.0);
  turn(w, m->Y, m->P);
  turn(w, w->X, users);
  return FOPO_OK;
}

/* out [M->rows, dim] from the other side's F and the diagonal of its squares. */
static int solve_rows(float *out, work *w, const fopo_csr *M, const float *F, const float *d) {
  for (size_t first = 0; first < M->rows; first += WAVE) {
    size_t last = M->rows - first < WAVE ? M->rows : first + WAVE;
    int good = 1;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 16) reduction(&& : good)
    for (size_t r = first; r < last; r++) {
      row_system s = system_of(M, r, F, d, w->o);
      float *x = out + r * s.dim;
      if (fopo_interrupted()) continue;
      if (s.n == 0) {
        memset(x, 0, s.dim * sizeof *x);
      } else {
        solve(x, &s, STEPS, 0.0f, (float *)(void *)scratch_of(w));
      }
      good = good && isfinite(s.k->dot(x, x, s.dim));
    }
    if (!good) {
      return fopo_fail(FOPO_ERR_NUMERIC, "the factors of als have no solution; use a larger l2");
    }
    int status = fopo_progress(DOING, w->done + (double)last / (double)M->rows, w->passes);
    if (status != FOPO_OK) return status;
  }
  w->done += 1.0;
  /* a thread may have seen an interruption that the calls above did not */
  return fopo_interrupted() ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while " DOING) : FOPO_OK;
}

/* The same of out [n, dim], of which M has the rows of this rank. */
static int solve_side(float *out, size_t n, work *w, const fopo_csr *M, const float *F,
                      const float *d) {
  size_t first;
  own_share(&first, w, n);
  int status = solve_rows(out + first * w->o->dim, w, M, F, d);
  return gather(w, out, n, w->o->dim * sizeof *out, status);
}

/* ---- all iterations ---- */

/* M [.., P], T [.., N]: the rows of this rank. */
static int iterate(model *m, work *w, const fopo_csr *M, const fopo_csr *T, size_t iterations) {
  size_t N = T->cols;
  int status = FOPO_OK;
  for (size_t i = 0; i < iterations && status == FOPO_OK; i++) {
    status = turn_both(m, w, N, m->Y, m->P);
    if (status == FOPO_OK) status = solve_side(w->X, N, w, M, m->Y, m->d);
    if (status == FOPO_OK) status = turn_both(m, w, N, w->X, N);
    if (status == FOPO_OK) status = solve_side(m->Y, m->P, w, T, w->X, m->d);
  }
  return status == FOPO_OK ? turn_both(m, w, N, m->Y, m->P) : status;
}

static int check(const fopo_csr *M, const fopo_baseline_options *o) {
  uint64_t N = o->users > 0 ? o->users : M->rows, P = M->cols, dim = o->dim;
  uint64_t scratch = (uint64_t)fopo_threads() * BLOCK * dim + (SLICES + 3) * dim * dim;
  return fopo_memory_suffices((N + P) * dim * sizeof(float) + scratch * sizeof(double) +
                                  fopo_csr_nnz(M) * sizeof(uint32_t),
                              "the factors of users and items", "use a smaller dim");
}

/* An initial model: small normal item factors. */
static int begin(model **of, size_t P, const fopo_baseline_options *o) {
  model *m = *of = fopo_alloc(1, sizeof *m);
  if (m == NULL) return FOPO_ERR_MEMORY;
  m->P = P;
  m->dim = o->dim;
  m->l2 = o->l2;
  m->Y = fopo_alloc(P * o->dim, sizeof *m->Y);
  m->d = fopo_alloc(o->dim, sizeof *m->d);
  if (m->Y == NULL || m->d == NULL) return FOPO_ERR_MEMORY;
  fopo_fill_normal(m->Y, (uint64_t)P * o->dim, spread, o->seed, FOPO_STREAM_INIT);
  return FOPO_OK;
}

static int fit(void **of, const fopo_csr *M, const fopo_baseline_options *o) {
  size_t threads = (size_t)fopo_threads(), dim = o->dim, N = o->users > 0 ? o->users : M->rows;
  fopo_csr T = {0};
  model *m = NULL;
  work w = {.o = o, .passes = 2.0 * (double)o->iterations};
  int status = check(M, o);
  if (status == FOPO_OK) status = begin(&m, M->cols, o);
  *of = m;
  if (status != FOPO_OK) return status;
  w.X = fopo_alloc(N * dim, sizeof *w.X);
  w.partial = fopo_alloc(SLICES * dim * dim, sizeof *w.partial);
  w.values = fopo_alloc(dim, sizeof *w.values);
  w.turn = fopo_alloc(dim * dim, sizeof *w.turn);
  w.scratch = fopo_alloc(threads * BLOCK * dim, sizeof *w.scratch);
  int whole = w.X && w.partial && w.values && w.turn && w.scratch;
  status = whole ? FOPO_OK : FOPO_ERR_MEMORY;
  if (o->users > 0) {
    status = fopo_csr_transpose_shares(&T, M, N, status);
  } else if (status == FOPO_OK) {
    status = fopo_csr_transpose(&T, M);
  }
  if (status == FOPO_OK) status = iterate(m, &w, M, &T, o->iterations);
  fopo_csr_done(&T);
  fopo_free(w.X);
  fopo_free(w.partial);
  fopo_free(w.values);
  fopo_free(w.turn);
  fopo_free(w.scratch);
  return status;
}

/* ---- scores ---- */

/* Of `solve`, and x of the sessions of a block. */
static size_t scratch_bytes(const void *of) {
  size_t dim = ((const model *)of)->dim;
  return (scratch_size(dim) + FOPO_BASELINE_BLOCK * dim) * sizeof(float);
}

static int score(float *scores, const void *of, const fopo_baseline_options *o, const fopo_csr *X,
                 size_t first, size_t n, void *scratch) {
  const model *m = of;
  float *rows = scratch, *rest = rows + FOPO_BASELINE_BLOCK * m->dim;
  memset(rows, 0, n * m->dim * sizeof *rows);
  for (size_t i = 0; i < n; i++) {
    row_system s = system_of(X, first + i, m->Y, m->d, o);
    if (s.n > 0) solve(rows + i * m->dim, &s, FOLD, enough, rest);
  }
  fopo_product_tile(fopo_matrix_view(scores, n, m->P), 1.0f, fopo_matrix_view(rows, n, m->dim), 0,
                    fopo_matrix_view(m->Y, m->P, m->dim), 1, 0.0f);
  return isfinite(fopo_kernels_get()->dot(rows, rows, n * m->dim));
}

static fopo_matrix factors(const void *of) {
  const model *m = of;
  return fopo_matrix_view(m->Y, m->P, m->dim);
}

/* theta = c G^-1, G = Y^T Y + l2 I: x_u of a user whose interactions count as all else (alpha = 0).
 * c = |G| / sqrt(dim), |.| the root of the sum of squares, so that scores have the size that the
 * identity gives: for x and y distributed as rows of Y, the mean square of x^T theta y is tr(theta
 * G theta G) / P^2, that is c^2 dim / P^2, and |G|^2 / P^2 with the identity. */
static int theta_of(fopo_matrix theta, const void *of) {
  const model *m = of;
  double squares = 0;
  for (size_t i = 0; i < m->dim; i++) squares += pow((double)m->d[i] + m->l2, 2.0);
  for (size_t i = 0; i < m->dim; i++) {
    memset(fopo_matrix_row(theta, i), 0, m->dim * sizeof(float));
    fopo_matrix_row(theta, i)[i] =
        (float)(sqrt(squares / (double)m->dim) / ((double)m->d[i] + m->l2));
  }
  return FOPO_OK;
}

static const fopo_option options[] = {
    {.name = "dim",
     .type = FOPO_OPTION_COUNT,
     .member = offsetof(fopo_baseline_options, dim),
     .standard = 64,
     .least = 1,
     .most = 2048,
     .low = 16,
     .high = 512,
     .text = "factors of a user and of an item"},
    {.name = "l2",
     .type = FOPO_OPTION_NUMBER,
     .member = offsetof(fopo_baseline_options, l2),
     .standard = 10,
     .least = 1e-6,
     .low = 0.01,
     .high = 1000,
     .text = "penalty of the factors"},
    {.name = "nu",
     .type = FOPO_OPTION_NUMBER,
     .member = offsetof(fopo_baseline_options, nu),
     .standard = 0,
     .least = 0,
     .most = 2,
     .low = 0,
     .high = 1,
     .text = "the penalty of a user or item of n interactions is l2 n^nu; with 1, a smaller l2"},
    {.name = "alpha",
     .type = FOPO_OPTION_NUMBER,
     .member = offsetof(fopo_baseline_options, alpha),
     .standard = 10,
     .least = 0,
     .low = 1,
     .high = 300,
     .text = "how much more an item that was taken counts than one that was not"},
    {.name = "iterations",
     .type = FOPO_OPTION_COUNT,
     .member = offsetof(fopo_baseline_options, iterations),
     .standard = 15,
     .least = 1,
     .low = 4,
     .high = 30,
     .text = "times that users and then items are solved for"},
    {0}};

const fopo_baseline_kind fopo_baseline_als = {
    .name = "als",
    .fit = fit,
    .shares = 1,
    .free = free_model,
    .score = score,
    .scratch_bytes = scratch_bytes,
    .factors = factors,
    .theta = theta_of,
    .options = options,
    .has_seed = 1,
    // clang-format off
    .text = "Matrix factorisation of implicit feedback by alternating least squares: factors x_u,\n"
          "y_a minimise sum over all u, a of c_ua (m_ua - x_u . y_a)^2 + l2 (|X|^2 + |Y|^2),\n"
          "where m_ua is 1 for an item that was taken and 0 for others, and c_ua = 1 + alpha\n"
          "m_ua. A session is folded in: its factors are those of a new user who took X, and\n"
          "scores are x . y_a. nu scales the penalty of each row with its interactions. Items\n"
          "start as 0.1 times standard normal numbers of the seed. Each user and item makes three\n"
          "steps of conjugate gradients in an iteration, from where it was; a session is solved\n"
          "for. Y^T Y is diagonal: the factors are along their principal axes. Source: Hu, Koren\n"
          "and Volinsky 2008; nu: Rendle, Krichene, Zhang and Koren 2022; steps: Takacs, Pilaszy\n"
          "and Tikk 2011. An iteration costs 14 dim multiply-adds for each interaction and 3\n"
          "dim^2 for each user and item.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "als = fopo.baseline.als{data = s.train, dim = 8, iterations = 5}\n"
             "assert(fopo.evaluate(als, s.test).reward > 0.05)",
    // clang-format on
};
