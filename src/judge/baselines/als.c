/* Matrix factorisation of implicit feedback by alternating least squares (Hu, Koren and Volinsky:
 * "Collaborative filtering for implicit feedback datasets", ICDM 2008):
 *
 *   min sum_ua c_ua (m_ua - x_u . y_a)^2 + l2 (|X|^2 + |Y|^2),   c_ua = 1 + alpha m_ua, m_ua 0 or 1
 *
 * Given Y, each user is a system of dim equations of its own,
 *
 *   x_u = (Y^T Y + l2 I + alpha sum_{a of u} y_a y_a^T)^-1 (1 + alpha) sum_{a of u} y_a
 *
 * and items likewise given X. With nu the penalty of a row of n entries is l2 n^nu instead (Rendle,
 * Krichene, Zhang and Koren: "Revisiting the performance of iALS on item recommendation
 * benchmarks", RecSys 2022; their n counts the other items too, by their weight). A new session is
 * such a user. All sums are in double, in an order that depends on the sizes alone. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/solve.h"
#include "core/status.h"
#include "core/threads.h"
#include "judge/baselines/baselines.h"

enum {
  CHUNK = 64,  /* rows of one product */
  SLICES = 32, /* partial sums of Y^T Y */
  WAVE = 2048  /* rows solved between two reports of progress */
};
#define DOING "factorising users x items"

static const double spread = 0.1; /* of the initial item factors */

/* The model. */
typedef struct {
  size_t P, dim;
  double *Y;   /* [P, dim] */
  double *G;   /* [dim, dim] upper triangle of Y^T Y + l2 I */
  float *rows; /* [P, dim] Y, for scores */
} model;

static void free_model(void *of) {
  model *m = of;
  if (m == NULL) return;
  fopo_free(m->Y);
  fopo_free(m->G);
  fopo_free(m->rows);
  fopo_free(m);
}

/* ---- one side ---- */

/* Doubles of scratch that a thread needs for solve_one: the system, and CHUNK rows. */
static size_t scratch_size(size_t dim) { return dim * dim + CHUNK * dim; }

/* x [dim] of one row with these n ids, given the other side's factors F and its G. Returns 0 if the
 * system has no solution. */
static int solve_one(double *x, const uint32_t *ids, size_t n, const double *F, const double *G,
                     const fopo_baseline_options *o, double *scratch) {
  size_t dim = o->dim;
  double alpha = o->alpha;
  double *A = scratch, *phi = scratch + dim * dim, root = sqrt(alpha);
  memset(x, 0, dim * sizeof *x);
  if (n == 0) return 1;
  memcpy(A, G, dim * dim * sizeof *A);
  double more = o->l2 * (pow((double)n, o->nu) - 1.0); /* than the l2 in G */
  for (size_t d = 0; d < dim; d++) A[d * dim + d] += more;
  for (size_t first = 0; first < n; first += CHUNK) {
    size_t count = n - first < CHUNK ? n - first : CHUNK;
    for (size_t i = 0; i < count; i++) {
      const double *f = F + ids[first + i] * dim;
      for (size_t d = 0; d < dim; d++) {
        phi[i * dim + d] = root * f[d];
        x[d] += (1.0 + alpha) * f[d];
      }
    }
    fopo_gram_add(A, NULL, phi, NULL, count, dim);
  }
  return fopo_solve_spd(x, A, dim) == FOPO_OK;
}

/* G = F^T F + l2 I for F [n, dim]; partial [SLICES, dim, dim]. */
static void gram(double *G, double *partial, const double *F, size_t n, size_t dim, double l2) {
  memset(partial, 0, SLICES * dim * dim * sizeof *partial);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t s = 0; s < SLICES; s++) {
    size_t first = n * s / SLICES, last = n * (s + 1) / SLICES;
    for (; first < last && !fopo_interrupted(); first += WAVE) {
      size_t count = last - first < WAVE ? last - first : WAVE;
      fopo_gram_add(partial + s * dim * dim, NULL, F + first * dim, NULL, count, dim);
    }
  }
  memset(G, 0, dim * dim * sizeof *G);
  for (size_t s = 0; s < SLICES; s++) {
    for (size_t i = 0; i < dim * dim; i++) G[i] += partial[s * dim * dim + i];
  }
  for (size_t d = 0; d < dim; d++) G[d * dim + d] += l2;
}

typedef struct {
  const fopo_baseline_options *o; /* not owned */
  double *X;                      /* [N, dim] */
  double *partial;                /* [SLICES, dim, dim] */
  double *scratch;                /* [threads, scratch_size] */
  double done, passes;            /* half iterations */
} work;

/* out [M->rows, dim] from the other side's F and G. */
static int solve_side(double *out, work *w, const fopo_csr *M, const double *F, const double *G) {
  for (size_t first = 0; first < M->rows; first += WAVE) {
    size_t last = M->rows - first < WAVE ? M->rows : first + WAVE;
    int good = 1;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 16) reduction(&& : good)
    for (size_t r = first; r < last; r++) {
      double *scratch = w->scratch + (size_t)omp_get_thread_num() * scratch_size(w->o->dim);
      if (fopo_interrupted()) continue;
      good = good && solve_one(out + r * w->o->dim, fopo_csr_row(M, r), fopo_csr_count(M, r), F, G,
                               w->o, scratch);
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

/* ---- all iterations ---- */

static int iterate(model *m, work *w, const fopo_csr *M, const fopo_csr *T, size_t iterations) {
  int status = FOPO_OK;
  for (size_t i = 0; i < iterations && status == FOPO_OK; i++) {
    gram(m->G, w->partial, m->Y, m->P, m->dim, w->o->l2);
    status = solve_side(w->X, w, M, m->Y, m->G);
    if (status != FOPO_OK) break;
    gram(m->G, w->partial, w->X, M->rows, m->dim, w->o->l2);
    status = solve_side(m->Y, w, T, w->X, m->G);
  }
  gram(m->G, w->partial, m->Y, m->P, m->dim, w->o->l2);
  for (size_t i = 0; i < m->P * m->dim; i++) m->rows[i] = (float)m->Y[i];
  return status == FOPO_OK && fopo_interrupted()
             ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while " DOING)
             : status;
}

static int check(const fopo_csr *M, const fopo_baseline_options *o) {
  uint64_t N = M->rows, P = M->cols, dim = o->dim;
  uint64_t scratch = (uint64_t)fopo_threads() * scratch_size(o->dim) + SLICES * dim * dim;
  return fopo_memory_suffices((N + P) * dim * sizeof(double) + P * dim * sizeof(float) +
                                  scratch * sizeof(double) + fopo_csr_nnz(M) * sizeof(uint32_t),
                              "the factors of users and items", "use a smaller dim");
}

/* An initial model: small normal item factors. */
static int begin(model **of, size_t P, const fopo_baseline_options *o) {
  model *m = *of = fopo_alloc(1, sizeof *m);
  if (m == NULL) return FOPO_ERR_MEMORY;
  m->P = P;
  m->dim = o->dim;
  m->Y = fopo_alloc(P * o->dim, sizeof *m->Y);
  m->G = fopo_alloc(o->dim * o->dim, sizeof *m->G);
  m->rows = fopo_alloc(P * o->dim, sizeof *m->rows);
  if (m->Y == NULL || m->G == NULL || m->rows == NULL) return FOPO_ERR_MEMORY;
  fopo_fill_normal(m->rows, (uint64_t)P * o->dim, spread, o->seed, FOPO_STREAM_INIT);
  for (size_t i = 0; i < P * o->dim; i++) m->Y[i] = (double)m->rows[i];
  return FOPO_OK;
}

static int fit(void **of, const fopo_csr *M, const fopo_baseline_options *o) {
  size_t threads = (size_t)fopo_threads();
  fopo_csr T = {0};
  model *m = NULL;
  work w = {.o = o, .passes = 2.0 * (double)o->iterations};
  int status = check(M, o);
  if (status == FOPO_OK) status = begin(&m, M->cols, o);
  *of = m;
  if (status != FOPO_OK) return status;
  w.X = fopo_alloc(M->rows * o->dim, sizeof *w.X);
  w.partial = fopo_alloc(SLICES * o->dim * o->dim, sizeof *w.partial);
  w.scratch = fopo_alloc(threads * scratch_size(o->dim), sizeof *w.scratch);
  status = w.X && w.partial && w.scratch ? fopo_csr_transpose(&T, M) : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = iterate(m, &w, M, &T, o->iterations);
  fopo_csr_done(&T);
  fopo_free(w.X);
  fopo_free(w.partial);
  fopo_free(w.scratch);
  return status;
}

/* ---- scores ---- */

/* The system of one session, its x, and x of the sessions of a block in float. */
static size_t scratch_bytes(const void *of) {
  size_t dim = ((const model *)of)->dim;
  return (scratch_size(dim) + dim) * sizeof(double) + FOPO_BASELINE_BLOCK * dim * sizeof(float);
}

static int score(float *scores, const void *of, const fopo_baseline_options *o, const fopo_csr *X,
                 size_t first, size_t n, void *scratch) {
  const model *m = of;
  double *system = scratch, *x = system + scratch_size(m->dim);
  float *rows = (float *)(void *)(x + m->dim);
  int good = 1;
  for (size_t i = 0; i < n; i++) {
    good = good && solve_one(x, fopo_csr_row(X, first + i), fopo_csr_count(X, first + i), m->Y,
                             m->G, o, system);
    for (size_t d = 0; d < m->dim; d++) rows[i * m->dim + d] = (float)x[d];
  }
  fopo_gemm_tile(fopo_matrix_view(scores, n, m->P), 1.0f, fopo_matrix_view(rows, n, m->dim), 0,
                 fopo_matrix_view(m->rows, m->P, m->dim), 1, 0.0f);
  return good;
}

static fopo_matrix factors(const void *of) {
  const model *m = of;
  return fopo_matrix_view(m->rows, m->P, m->dim);
}

/* theta = c G^-1, G = Y^T Y + l2 I: x_u of a user whose interactions count as all else (alpha = 0).
 * c = |G| / sqrt(dim), |.| the root of the sum of squares, so that scores have the size that the
 * identity gives: for x and y distributed as rows of Y, the mean square of x^T theta y is tr(theta
 * G theta G) / P^2, that is c^2 dim / P^2, and |G|^2 / P^2 with the identity. */
static int theta_of(fopo_matrix theta, const void *of) {
  const model *m = of;
  size_t dim = m->dim;
  double squares = 0, *A = fopo_alloc(dim * dim, sizeof *A);
  if (A == NULL) return FOPO_ERR_MEMORY;
  memcpy(A, m->G, dim * dim * sizeof *A);
  for (size_t i = 0; i < dim; i++) {
    for (size_t k = i; k < dim; k++) squares += (i == k ? 1 : 2) * A[i * dim + k] * A[i * dim + k];
  }
  int status = fopo_invert_spd(A, dim);
  for (size_t i = 0; i < dim && status == FOPO_OK; i++) {
    for (size_t k = i; k < dim; k++) {
      float value = (float)(A[i * dim + k] * sqrt(squares / (double)dim));
      fopo_matrix_row(theta, i)[k] = fopo_matrix_row(theta, k)[i] = value;
    }
  }
  fopo_free(A);
  return status;
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
          "start as 0.1 times standard normal numbers of the seed. Source: Hu, Koren and Volinsky\n"
          "2008; nu: Rendle, Krichene, Zhang and Koren 2022. An iteration costs dim^2 multiply-adds\n"
          "for each interaction, twice, and dim^3 for each user and item.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "als = fopo.baseline.als{data = s.train, dim = 8, iterations = 5}\n"
             "assert(fopo.evaluate(als, s.test).reward > 0.05)",
    // clang-format on
};
