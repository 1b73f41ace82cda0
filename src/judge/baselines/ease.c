/* A linear model of each item by all others, in closed form (Steck: "Embarrassingly shallow
 * autoencoders for sparse data", WWW 2019), for R [N users, P items]:
 *
 *   min |R - R B|^2 + l2 |B|^2 with diag B = 0:   A = (R^T R + l2 I)^-1,  B_ab = -A_ab / A_bb
 *
 * and the scores of a session are the sum of the rows of B of its items. Where users are fewer than
 * items the same B comes from users x users (the inverse of Woodbury, in which l2 cancels):
 *
 *   K = (R R^T + l2 I)^-1,   Q = I - R^T K R = l2 A,   B_ab = -Q_ab / Q_bb
 *
 * and the scores without B: with z [N] the number of items of X that a user took,
 *
 *   f_b = h_b / Q_bb for b not in X,   (h_b - 1) / Q_bb + 1 for b in X,   h = R^T K z.
 *
 * Without one user, the row x of R, A becomes A + A x x^T A / (1 - x^T A x) (Sherman and Morrison
 * 1950), so that with g = A x, or R^T K_u for the K of all, and d = 1 - x^T g, or K_uu,
 *
 *   f_b without u = [b in X] - ([b in X] - f_b + t_b sum of g over X) / (1 + t_b g_b)
 *
 * where t_b = g_b / (A_bb d), or g_b / (Q_bb d).
 *
 * The inverse is made in place by the symmetric sweep operator, a block of rows at a time: with D =
 * (A_KK)^-1, R = D A_K.,
 *
 *   A_ij -= A_iK R_j,   A_Kj = R_j,   A_KK = -D      (Goodnight: "A tutorial on the SWEEP
 * operator", The American Statistician 1979)
 *
 * after which A is minus the inverse. Only the upper triangle is kept up to date: n^3
 * multiply-adds for n rows.
 *
 * Of users that are shared out to ranks, each counts the pairs of its own; all add them up, and
 * invert the sum. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "comm/pieces.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/solve.h"
#include "core/status.h"
#include "core/threads.h"
#include "core/twins.h"
#include "judge/baselines/baselines.h"
#include "judge/baselines/together.h"
#include "judge/baselines/weights.h"
#include "mips/topk.h"

enum {
  SWEEP = 256,   /* rows swept at once: long enough for the product, short beside P */
  STRIPE = 512,  /* rows of A that one product updates */
  TILE = 64,     /* rows and columns that are transposed at once */
  WAVE = 64,     /* items of a thread between two reports */
  KEPT = 4,      /* blocks of weights that are kept by a thread between two reports */
  ENOUGH = 4096, /* users or items that suffice to choose l2 */
  BLOCK = FOPO_BASELINE_BLOCK
};
#define NEEDS_L2 1e-4 /* least Q_bb: below, rounding of K would show in the weights */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* One of three: B; K with over_q and users; the weights W that are kept of either. */
typedef struct {
  size_t P;
  fopo_matrix B;  /* [P, P] */
  fopo_matrix K;  /* [N, N] */
  fopo_csr users; /* [P, N] of each item */
  float *over_q;  /* [P] 1 / Q_bb with K, 1 / A_bb with B */
  fopo_csr W;     /* [P, <= top] */
} model;

static void drop_weights(model *m) {
  fopo_matrix_done(&m->B);
  fopo_matrix_done(&m->K);
  fopo_csr_done(&m->users);
  fopo_free(m->over_q);
  m->over_q = NULL;
}

static void free_model(void *of) {
  model *m = of;
  if (m == NULL) return;
  drop_weights(m);
  fopo_csr_done(&m->W);
  fopo_free(m);
}

/* ---- the matrix ---- */

/* Of the matrix [n, n], n = P or N. */
static void fill_row(void *payload, size_t a, const fopo_together_count *counts, uint32_t *with,
                     size_t n, size_t thread) {
  float *row = fopo_matrix_row(*(const fopo_matrix *)payload, a);
  (void)thread;
  for (size_t i = 0; i < n; i++) row[with[i]] = (float)counts[with[i]].both;
}

/* The counts of this rank's users become those of all: exact up to 2^24 of two items, as one
 * process's are. Collective, after `status` of the work before. */
static int add_counts(fopo_matrix A, int status) {
  size_t stripe = FOPO_PIECE / (A.ld * sizeof *A.x) + 1;
  for (size_t i = 0; i < A.rows; i += stripe) {
    if (status == FOPO_OK) {
      status = fopo_progress("adding up counts of pairs", (double)i, (double)A.rows);
    }
    status = fopo_comm_agree(status);
    if (status != FOPO_OK) return status;
    status = fopo_comm_sum(fopo_matrix_row(A, i), least(stripe, A.rows - i) * A.ld);
  }
  return status;
}

static fopo_matrix part(fopo_matrix m, size_t i, size_t j, size_t rows, size_t cols) {
  return (fopo_matrix){m.x + i * m.ld + j, rows, cols, m.ld};
}

/* ---- one sweep ---- */

typedef struct {
  fopo_matrix A;
  fopo_matrix C, R; /* [SWEEP, P]: A_K. without A_KK, and D C */
  fopo_matrix D;    /* [SWEEP, SWEEP] */
  double *d;        /* [SWEEP, SWEEP] */
} sweep;

/* C = A_K. from the upper triangle, A_KK left out. */
static void take_rows(sweep *s, size_t k, size_t n) {
  for (size_t j = 0; j < k; j++) {
    const float *a = fopo_matrix_row(s->A, j) + k;
    for (size_t i = 0; i < n; i++) fopo_matrix_row(s->C, i)[j] = a[i];
  }
  for (size_t i = 0; i < n; i++) {
    float *c = fopo_matrix_row(s->C, i) + k;
    memset(c, 0, n * sizeof *c);
    memcpy(c + n, fopo_matrix_row(s->A, k + i) + k + n, (s->A.cols - k - n) * sizeof *c);
  }
}

/* D = (A_KK)^-1, in double. */
static int invert_block(sweep *s, size_t k, size_t n) {
  for (size_t i = 0; i < n; i++) {
    for (size_t j = i; j < n; j++) s->d[i * n + j] = (double)fopo_matrix_row(s->A, k + i)[k + j];
  }
  int status = fopo_invert_spd(s->d, n);
  for (size_t i = 0; status == FOPO_OK && i < n; i++) {
    for (size_t j = 0; j < n; j++) {
      fopo_matrix_row(s->D, i)[j] = (float)(i <= j ? s->d[i * n + j] : s->d[j * n + i]);
    }
  }
  return status;
}

/* A_.K = R^T, A_K. = R, A_KK = -D, in the upper triangle. */
static void put_rows(sweep *s, size_t k, size_t n) {
  for (size_t j = 0; j < k; j++) {
    float *a = fopo_matrix_row(s->A, j) + k;
    for (size_t i = 0; i < n; i++) a[i] = fopo_matrix_row(s->R, i)[j];
  }
  for (size_t i = 0; i < n; i++) {
    float *a = fopo_matrix_row(s->A, k + i) + k;
    for (size_t j = i; j < n; j++) a[j] = -fopo_matrix_row(s->D, i)[j];
    memcpy(a + n, fopo_matrix_row(s->R, i) + k + n, (s->A.cols - k - n) * sizeof *a);
  }
}

static int sweep_rows(sweep *s, size_t k, size_t n) {
  size_t P = s->A.cols;
  fopo_matrix C = fopo_matrix_rows(s->C, 0, n), R = fopo_matrix_rows(s->R, 0, n);
  take_rows(s, k, n);
  int status = invert_block(s, k, n);
  if (status == FOPO_OK) status = fopo_gemm(R, 1.0f, part(s->D, 0, 0, n, n), 0, C, 0, 0.0f);
  for (size_t i = 0; i < P && status == FOPO_OK; i += STRIPE) {
    size_t rows = least(STRIPE, P - i);
    status = fopo_gemm(part(s->A, i, i, rows, P - i), -1.0f, part(C, 0, i, n, rows), 1,
                       part(R, 0, i, n, P - i), 0, 1.0f);
  }
  if (status == FOPO_OK) put_rows(s, k, n);
  return status;
}

/* The upper triangle of A becomes that of -A^-1. */
static int sweep_all(fopo_matrix A, const char *what) {
  size_t P = A.rows, most = least(SWEEP, P);
  sweep s = {.A = A, .d = fopo_alloc(most * most, sizeof *s.d)};
  int status = s.d != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_matrix_init(&s.C, most, P);
  if (status == FOPO_OK) status = fopo_matrix_init(&s.R, most, P);
  if (status == FOPO_OK) status = fopo_matrix_init(&s.D, most, most);
  for (size_t k = 0; k < P && status == FOPO_OK; k += SWEEP) {
    status = sweep_rows(&s, k, least(SWEEP, P - k));
    if (status == FOPO_OK) {
      status = fopo_progress(what, (double)least(k + SWEEP, P), (double)P);
    }
  }
  fopo_free(s.d);
  fopo_matrix_done(&s.C);
  fopo_matrix_done(&s.R);
  fopo_matrix_done(&s.D);
  return status;
}

/* ---- items x items ---- */

/* Of the upper triangle of -A^-1, for a in rows i .. and b > a in columns j .. of one tile: (a, b)
 * becomes -A_ab / by_b, and (b, a) -A_ab / by_a. */
static void divide_tile(fopo_matrix A, const float *by, size_t i, size_t j) {
  size_t n = A.rows, last_row = least(i + TILE, n), last = least(j + TILE, n);
  for (size_t a = i; a < last_row; a++) {
    for (size_t b = j > a ? j : a + 1; b < last; b++) {
      float v = fopo_matrix_row(A, a)[b];
      fopo_matrix_row(A, a)[b] = -v / by[b];
      fopo_matrix_row(A, b)[a] = -v / by[a];
    }
  }
}

static void divide(fopo_matrix A, const float *by) {
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t i = 0; i < A.rows; i += TILE) {
    for (size_t j = i; j < A.rows; j += TILE) divide_tile(A, by, i, j);
  }
}

/* A = -(M^T M + l2 I)^-1 in its upper triangle, and by [M.cols]; T: M transposed; is_share: M has
 * the rows of this rank. */
static int invert(fopo_matrix *A, float **by, const fopo_csr *M, const fopo_csr *T, double l2,
                  int is_share, const char *counting, const char *inverting) {
  int status = fopo_matrix_init(A, M->cols, M->cols);
  *by = status == FOPO_OK ? fopo_alloc(M->cols, sizeof **by) : NULL;
  if (*by == NULL) return FOPO_ERR_MEMORY;
  status = fopo_together(M, T, NULL, counting, fill_row, A);
  if (is_share) status = add_counts(*A, status);
  for (size_t a = 0; a < A->rows && status == FOPO_OK; a++) {
    fopo_matrix_row(*A, a)[a] = (float)((double)fopo_matrix_row(*A, a)[a] + l2);
  }
  return status == FOPO_OK ? sweep_all(*A, inverting) : status;
}

static int learn_items(model *m, const fopo_csr *M, double l2, int is_share) {
  float *by = NULL;
  fopo_csr users;
  int status = fopo_csr_transpose(&users, M);
  if (status == FOPO_OK) {
    status = invert(&m->B, &by, M, &users, l2, is_share, "counting pairs of items",
                    "inverting items x items");
  }
  fopo_csr_done(&users);
  if (status == FOPO_OK) {
    for (size_t a = 0; a < m->P; a++) by[a] = fopo_matrix_row(m->B, a)[a];
    divide(m->B, by); /* the sign of the inverse cancels */
    for (size_t a = 0; a < m->P; a++) {
      fopo_matrix_row(m->B, a)[a] = 0.0f;
      by[a] = -1.0f / by[a];
    }
    status = fopo_matrix_finite(m->B, "the weights of ease");
  }
  m->over_q = by;
  return status;
}

/* ---- users x users ---- */

/* Q_bb = 1 - sum over users u, v of b of K_uv. */
static float unexplained(const model *m, size_t b) {
  const uint32_t *u = fopo_csr_row(&m->users, b);
  size_t n = fopo_csr_count(&m->users, b);
  double sum = 0.0;
  for (size_t i = 0; i < n && !fopo_interrupted(); i++) {
    const float *row = fopo_matrix_row(m->K, u[i]);
    double rest = 0.0;
    for (size_t j = i + 1; j < n; j++) rest += (double)row[u[j]];
    sum += (double)row[u[i]] + 2.0 * rest;
  }
  return (float)(1.0 - sum);
}

static int weigh_items(model *m, double l2) {
  size_t wave = WAVE * (size_t)fopo_threads();
  for (size_t first = 0; first < m->P; first += wave) {
    size_t last = least(first + wave, m->P);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
    for (size_t b = first; b < last; b++) m->over_q[b] = unexplained(m, b);
    int status = fopo_progress("weighing items", (double)last, (double)m->P);
    if (status != FOPO_OK) return status;
    for (size_t b = first; b < last; b++) {
      double q = (double)m->over_q[b];
      m->over_q[b] = (float)(1.0 / q);
      if (q >= NEEDS_L2) continue;
      return fopo_fail(FOPO_ERR_NUMERIC,
                       "the other items leave %.1g of item %zu with l2 = %g, too little for the "
                       "weights of ease by users x users; use a larger l2",
                       q, b + 1, l2);
    }
  }
  return fopo_interrupted() ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while weighing items")
                            : FOPO_OK;
}

static int learn_users(model *m, const fopo_csr *M, double l2) {
  float *by = NULL;
  int status = fopo_csr_transpose(&m->users, M);
  if (status == FOPO_OK) {
    status = invert(&m->K, &by, &m->users, M, l2, 0, "counting pairs of users",
                    "inverting users x users");
  }
  if (status == FOPO_OK) {
    for (size_t u = 0; u < M->rows; u++) {
      by[u] = 1.0f;
      fopo_matrix_row(m->K, u)[u] *= -1.0f;
    }
    divide(m->K, by);
    status = fopo_matrix_finite(m->K, "the users x users matrix of ease");
  }
  fopo_free(by);
  if (status != FOPO_OK) return status;
  m->over_q = fopo_alloc(m->P, sizeof *m->over_q);
  return m->over_q != NULL ? weigh_items(m, l2) : FOPO_ERR_MEMORY;
}

/* ---- scores ---- */

/* Of users x users, as by_users lays it out. */
static size_t scratch_bytes(const void *of) {
  return ((const model *)of)->K.rows * (4 + BLOCK) * sizeof(float);
}

typedef struct {
  float *v, *z;            /* [N] */
  float *V;                /* [N, BLOCK] */
  uint32_t *users, *count; /* [N]; count is 0 between two contexts */
} by_users;

static by_users lay_out(const model *m, void *scratch) {
  size_t N = m->K.rows;
  float *v = scratch;
  uint32_t *users = (uint32_t *)(void *)(v + (2 + BLOCK) * N);
  memset(scratch, 0, scratch_bytes(m));
  return (by_users){v, v + N, v + 2 * N, users, users + N};
}

/* Column i of V becomes K z: z_u items of the context were taken by user u. */
static void times_users(by_users *s, const model *m, const uint32_t *taken, size_t n, size_t i) {
  size_t found = 0, N = m->K.rows;
  for (size_t x = 0; x < n; x++) {
    const uint32_t *u = fopo_csr_row(&m->users, taken[x]);
    for (size_t k = 0; k < fopo_csr_count(&m->users, taken[x]); k++) {
      if (s->count[u[k]]++ == 0) s->users[found++] = u[k];
    }
  }
  for (size_t k = 0; k < found; k++) {
    s->z[k] = (float)s->count[s->users[k]];
    s->count[s->users[k]] = 0;
  }
  memset(s->v, 0, N * sizeof *s->v);
  fopo_csr_add_rows(s->v, s->users, s->z, found, 0, 0, m->K);
  for (size_t u = 0; u < N; u++) s->V[u * BLOCK + i] = s->v[u];
}

/* h_b / Q_bb of n contexts, `stride` from each other. */
static void explain(float *scores, size_t stride, const model *m, const float *V, size_t b,
                    size_t n) {
  float h[BLOCK] = {0};
  const uint32_t *u = fopo_csr_row(&m->users, b);
  for (size_t k = 0; k < fopo_csr_count(&m->users, b); k++) {
    const float *of = V + (size_t)u[k] * BLOCK;
    for (size_t i = 0; i < BLOCK; i++) h[i] += of[i];
  }
  for (size_t i = 0; i < n; i++) scores[i * stride] = h[i] * m->over_q[b];
}

static void score_by_users(float *scores, const model *m, const fopo_csr *X, size_t first, size_t n,
                           void *scratch) {
  by_users s = lay_out(m, scratch);
  for (size_t i = 0; i < n; i++) {
    times_users(&s, m, fopo_csr_row(X, first + i), fopo_csr_count(X, first + i), i);
  }
  for (size_t b = 0; b < m->P; b++) explain(scores + b, m->P, m, s.V, b, n);
  for (size_t i = 0; i < n; i++) {
    const uint32_t *taken = fopo_csr_row(X, first + i);
    for (size_t x = 0; x < fopo_csr_count(X, first + i); x++) {
      scores[i * m->P + taken[x]] += 1.0f - m->over_q[taken[x]];
    }
  }
}

static void score_by_items(float *scores, const model *m, const fopo_csr *X, size_t first,
                           size_t n) {
  for (size_t i = 0; i < n; i++, scores += m->P) {
    const uint32_t *taken = fopo_csr_row(X, first + i);
    memset(scores, 0, m->P * sizeof *scores);
    for (size_t x = 0; x < fopo_csr_count(X, first + i); x++) {
      const float *row = fopo_matrix_row(m->B, taken[x]);
      for (size_t b = 0; b < m->P; b++) scores[b] += row[b];
    }
  }
}

static int score(float *scores, const void *of, const fopo_baseline_options *o, const fopo_csr *X,
                 size_t first, size_t n, void *scratch) {
  const model *m = of;
  (void)o;
  if (m->B.x != NULL) {
    score_by_items(scores, m, X, first, n);
  } else if (m->K.x != NULL) {
    score_by_users(scores, m, X, first, n, scratch);
  } else {
    fopo_weights_score(scores, &m->W, X, first, n);
  }
  return 1;
}

/* ---- without one user ---- */

/* g [P] = R^T K_u; returns K_uu. */
static double of_user(float *g, const model *m, size_t user) {
  const float *of = fopo_matrix_row(m->K, user);
  for (size_t b = 0; b < m->P; b++) {
    const uint32_t *u = fopo_csr_row(&m->users, b);
    double sum = 0.0;
    for (size_t i = 0; i < fopo_csr_count(&m->users, b); i++) sum += (double)of[u[i]];
    g[b] = (float)sum;
  }
  return (double)of[user];
}

/* g [P] = A x from the scores f of x, which are [b in x] - (A x)_b / A_bb; returns 1 - x^T g. */
static double of_items(float *g, const model *m, const fopo_csr *M, size_t user) {
  const uint32_t *x = fopo_csr_row(M, user);
  double rest = 1.0;
  score_by_items(g, m, M, user, 1);
  for (size_t b = 0; b < m->P; b++) g[b] = -g[b] / m->over_q[b];
  for (size_t i = 0; i < fopo_csr_count(M, user); i++) {
    g[x[i]] += 1.0f / m->over_q[x[i]];
    rest -= (double)g[x[i]];
  }
  return rest;
}

/* Without the row of R of this user: g [P] as above; returns d. */
static double of_row(float *g, const void *of, const fopo_csr *M, size_t user) {
  const model *m = of;
  return m->K.x != NULL ? of_user(g, m, user) : of_items(g, m, M, user);
}

static const float *over_diagonal(const void *of) { return ((const model *)of)->over_q; }

static int left_out(float *scores, const void *of, const fopo_csr *M, size_t user,
                    const fopo_csr *X, size_t row, void *scratch) {
  const model *m = of;
  const uint32_t *taken = fopo_csr_row(X, row), *end = taken + fopo_csr_count(X, row);
  float *g = scratch;
  double over_x = 0.0;
  if (m->W.indptr != NULL) return 0;
  double d = of_row(g, m, M, user);
  score(scores, m, NULL, X, row, 1, g + m->P);
  for (const uint32_t *a = taken; a < end; a++) over_x += (double)g[*a];
  for (size_t b = 0; b < m->P; b++) {
    int in_x = taken < end && *taken == b;
    double x = (double)in_x, t = (double)g[b] * (double)m->over_q[b] / d;
    taken += in_x;
    scores[b] = (float)(x - (x - (double)scores[b] + t * over_x) / (1.0 + t * (double)g[b]));
  }
  return 1;
}

/* ---- the largest weights ---- */

/* Twins have the same weights but for their own, so their first one stands for all of them. */
typedef struct {
  const model *m;
  fopo_csr *W;
  size_t top;
  fopo_twins twins;  /* {0} with B */
  uint32_t *leaders; /* [n] the first twins, ascending; all items with B */
  size_t n;
  float *scores;  /* [threads, BLOCK, n] */
  uint64_t *keys; /* [threads, 2, P] */
  char *scratch;  /* [threads, scratch_bytes] */
} keeper;

/* scores [n, leaders] of leaders, of the contexts of one leader each: parts of rows of B. */
static void score_leaders(float *scores, const keeper *k, size_t first, size_t n, void *scratch) {
  const model *m = k->m;
  if (m->B.x != NULL) {
    memcpy(scores, fopo_matrix_row(m->B, first), n * m->P * sizeof *scores);
    return;
  }
  by_users s = lay_out(m, scratch);
  for (size_t i = 0; i < n; i++) times_users(&s, m, k->leaders + first + i, 1, i);
  for (size_t b = 0; b < k->n; b++) explain(scores + b, k->n, m, s.V, k->leaders[b], n);
}

/* keys: those of the `most` largest positive scores of leaders, in any order; of all scores, also
 * negative ones, if top is P. What is collected is cut to `most` whenever twice as many are there:
 * later ones must then be larger. */
static size_t largest(uint64_t *keys, const float *scores, const keeper *k, size_t most) {
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t found = 0;
  float floor = k->top < k->m->P ? 0.0f : -INFINITY;
  for (size_t b = 0; b < k->n; b++) {
    if (!(scores[b] > floor)) continue;
    keys[found++] = fopo_topk_key(scores[b], k->leaders[b]);
    if (found < 2 * most) continue;
    uint64_t least_key = kernels->kth(keys, found, most);
    found = kernels->partition_at_least(keys, found, least_key);
    floor = fopo_topk_score(least_key);
  }
  return fopo_topk_largest(keys, found, most, kernels);
}

/* all: the keys of n leaders and their twins, of each `most` at most. */
static size_t add_twins(uint64_t *all, const uint64_t *keys, size_t n, const keeper *k,
                        size_t most) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    size_t some = 0;
    uint32_t b = fopo_topk_id(keys[i]);
    do {
      all[found++] = fopo_topk_key(fopo_topk_score(keys[i]), b);
      b = k->twins.next != NULL ? k->twins.next[b] : 0;
    } while (b > 0 && ++some < most);
  }
  return found;
}

/* The rows of a leader and its twins, each without itself, or, where that is not there, without the
 * least of all top + 1. all [n]: keys, ascending ids; mine: scratch. */
static void put_twins(keeper *k, uint32_t a, const uint64_t *all, size_t n, uint64_t *mine) {
  size_t least_at = n > k->top ? 0 : n;
  for (size_t i = 1; i < n && least_at < n; i++) least_at = all[i] < all[least_at] ? i : least_at;
  do {
    size_t out = least_at, kept = 0;
    for (size_t i = 0; i < n; i++) out = fopo_topk_id(all[i]) == a ? i : out;
    for (size_t i = 0; i < n; i++) {
      mine[kept] = all[i];
      kept += i != out;
    }
    fopo_weights_put(k->W, a * k->top, a, mine, kept);
    a = k->twins.next != NULL ? k->twins.next[a] : 0;
  } while (a > 0);
}

static void keep_rows(keeper *k, size_t first, size_t n) {
  size_t t = (size_t)omp_get_thread_num(), most = k->top + 1;
  float *scores = k->scores + t * BLOCK * k->n;
  uint64_t *keys = k->keys + t * 2 * k->m->P, *all = keys + k->m->P;
  score_leaders(scores, k, first, n, k->scratch + t * scratch_bytes(k->m));
  for (size_t i = 0; i < n; i++, scores += k->n) {
    size_t found = add_twins(all, keys, largest(keys, scores, k, most), k, most);
    put_twins(k, k->leaders[first + i], all, fopo_weights_choose(all, found, most), keys);
  }
}

static int keep_all(keeper *k) {
  size_t wave = KEPT * BLOCK * (size_t)fopo_threads();
  for (size_t first = 0; first < k->n; first += wave) {
    size_t last = least(first + wave, k->n);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
    for (size_t at = first; at < last; at += BLOCK) keep_rows(k, at, least(BLOCK, last - at));
    int status = fopo_progress("keeping weights", (double)last, (double)k->n);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

static int find_leaders(keeper *k) {
  const model *m = k->m;
  k->leaders = fopo_alloc(m->P, sizeof *k->leaders);
  if (k->leaders == NULL) return FOPO_ERR_MEMORY;
  int status = m->K.x != NULL ? fopo_twins_find(&k->twins, &m->users) : FOPO_OK;
  for (uint32_t a = 0; status == FOPO_OK && a < m->P; a++) {
    if (k->twins.first == NULL || k->twins.first[a] == a) k->leaders[k->n++] = a;
  }
  return status;
}

static int largest_weights(fopo_csr *W, const void *of, size_t top) {
  const model *m = of;
  size_t threads = (size_t)fopo_threads(), P = m->P;
  keeper k = {.m = m, .W = W, .top = least(top, P)};
  int status = fopo_weights_init(W, P, k.top);
  if (status == FOPO_OK) status = find_leaders(&k);
  if (status == FOPO_OK) {
    k.scores = fopo_alloc(threads * BLOCK * k.n, sizeof *k.scores);
    k.keys = fopo_alloc(threads * 2 * P, sizeof *k.keys);
    k.scratch = fopo_alloc(threads, scratch_bytes(m));
    status = k.scores && k.keys && k.scratch ? keep_all(&k) : FOPO_ERR_MEMORY;
  }
  if (status == FOPO_OK) status = fopo_weights_pack(W, NULL, k.top);
  fopo_twins_done(&k.twins);
  fopo_free(k.leaders);
  fopo_free(k.scores);
  fopo_free(k.keys);
  fopo_free(k.scratch);
  return status;
}

/* ---- all of it ---- */

/* W is {0} unless `top` was asked for. */
static const fopo_csr *item_weights(const void *of) {
  const fopo_csr *W = &((const model *)of)->W;
  return W->indptr != NULL ? W : NULL;
}

static int fits(const fopo_csr *M, const fopo_baseline_options *o) {
  size_t top = least(o->top, M->cols);
  uint64_t N = o->users > 0 ? o->users : M->rows, P = M->cols, n = N < P ? N : P;
  uint64_t threads = (uint64_t)fopo_threads();
  uint64_t square = n * n + 2 * n * least(SWEEP, (size_t)n) + 2 * n * threads;
  uint64_t bytes = (square + 2 * fopo_csr_nnz(M)) * sizeof(float) + P * sizeof(uint64_t);
  if (top > 0) bytes += P * (top + 4 + threads * (BLOCK / 2 + 2)) * sizeof(uint64_t);
  char what[128];
  if (N < P) {
    snprintf(what, sizeof what, "the users x users matrix of ease, the smaller of %zu and %zu,",
             (size_t)N, M->cols);
  } else {
    snprintf(what, sizeof what, "the items x items weights of ease, the smaller of %zu and %zu,",
             M->cols, (size_t)N);
  }
  return fopo_memory_suffices(bytes, what, "use slim, whose memory is linear in the items");
}

static int fit(void **of, const fopo_csr *M, const fopo_baseline_options *o) {
  size_t top = least(o->top, M->cols);
  int status = fits(M, o);
  if (o->users > 0 && o->users < M->cols) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "ease of %zu users and %zu items inverts users x users, and of users that are "
                     "shared out no rank has all; give s:gather(%zu)",
                     o->users, M->cols, o->users);
  }
  if (status != FOPO_OK) return status;
  model *m = *of = fopo_alloc(1, sizeof *m);
  if (m == NULL) return FOPO_ERR_MEMORY;
  m->P = M->cols;
  if (o->users == 0 && M->rows < M->cols) {
    status = learn_users(m, M, o->l2);
  } else {
    status = learn_items(m, M, o->l2, o->users > 0);
  }
  if (status != FOPO_OK || top == 0) return status;
  status = largest_weights(&m->W, m, top);
  drop_weights(m);
  return status;
}

/* Validation by the inverse of 4096 x 4096 costs a second or so for each l2. */
static void enough(size_t *users, size_t *items) {
  if (*items > ENOUGH) *users = least(ENOUGH, *users);
}

static const fopo_option options[] = {{.name = "l2",
                                       .type = FOPO_OPTION_NUMBER,
                                       .flags = FOPO_OPTION_AUTO,
                                       .member = offsetof(fopo_baseline_options, l2),
                                       .standard = 0,
                                       .least = 1e-3,
                                       .low = 1,
                                       .high = 1e4,
                                       .text = "penalty of the weights; auto: by validation"},
                                      {.name = "top",
                                       .type = FOPO_OPTION_COUNT,
                                       .member = offsetof(fopo_baseline_options, top),
                                       .standard = 0,
                                       .least = 0,
                                       .text = "largest positive weights that each item keeps; 0: "
                                               "all, also the negative ones"},
                                      {0}};

const fopo_baseline_kind fopo_baseline_ease = {
    .name = "ease",
    .fits = fits,
    .fit = fit,
    .shares = 1,
    .free = free_model,
    .score = score,
    .scratch_bytes = scratch_bytes,
    .item_weights = item_weights,
    .left_out = left_out,
    .largest = largest_weights,
    .of_row = of_row,
    .over_diagonal = over_diagonal,
    .enough = enough,
    .options = options,
    // clang-format off
    .text = "Each item is predicted from all others by a linear model without an intercept, in closed form:\n"
          "B_ab = -A_ab / A_bb with A = (R^T R + l2 I)^-1 and a zero diagonal, where R [N, P] holds 1 for each item\n"
          "that a training user took. The score of an item is the sum over a in X of B_ab. Exact by the smaller of\n"
          "users and items, n = min(N, P): 4 n^2 bytes and n^3 multiply-adds, 0.4 GB and seconds for n = 10,000;\n"
          "refused where that is too much (then slim). With N < P the inverse is that of R R^T + l2 I, scores are\n"
          "made of it without B, and a context costs N multiply-adds for each user of its items and one for each\n"
          "training interaction. `top` keeps the largest positive weights of each item instead, in 8 P top bytes (and\n"
          "top = P all, also negative ones): contexts cost less, and on large sparse catalogues it is as good; all\n"
          "weights are made once, a few rows at a time, with N < P one for all items that the same users\n"
          "took. l2 = \"auto\" holds out a tenth of the users (100 to 2,000), learns from the others with l2 = 100\n"
          "and a factor of the root of 10 more and less, follows NDCG@20 to its largest value, and then learns from all:\n"
          "three to six fits more, each of 4,096 users at most where users and items are more. b.tried has what it saw.\n"
          "Source: Steck 2019.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "ease = fopo.baseline.ease{data = s.train, l2 = 100}\n"
             "assert(fopo.evaluate(ease, s.test).reward > 0.05)",
    // clang-format on
};
