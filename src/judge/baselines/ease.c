/* A linear model of each item by all others, in closed form (Steck: "Embarrassingly shallow
 * autoencoders for sparse data", WWW 2019):
 *
 *   min |M - M B|^2 + l2 |B|^2 with diag B = 0:   A = (M^T M + l2 I)^-1,  B_ab = -A_ab / A_bb
 *
 * and the scores of a session are the sum of the rows of B of its items. The inverse is made in
 * place by the symmetric sweep operator, a block of rows at a time: with D = (A_KK)^-1, R = D A_K.,
 *
 *   A_ij -= A_iK R_j,   A_Kj = R_j,   A_KK = -D      (Goodnight: "A tutorial on the SWEEP
 * operator", The American Statistician 1979)
 *
 * after which A is minus the inverse. Only the upper triangle is kept up to date: P^3
 * multiply-adds. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/solve.h"
#include "core/status.h"
#include "core/threads.h"
#include "judge/baselines/baselines.h"
#include "judge/baselines/together.h"

enum {
  SWEEP = 256,  /* rows swept at once: long enough for the product, short beside P */
  STRIPE = 512, /* rows of A that one product updates */
  TILE = 64     /* rows and columns that are transposed at once */
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static void free_model(void *of) {
  fopo_matrix *B = of;
  if (B == NULL) return;
  fopo_matrix_done(B);
  fopo_free(B);
}

/* ---- the matrix ---- */

typedef struct {
  fopo_matrix A; /* [P, P] */
  double l2;
} gram;

static void fill_row(void *payload, size_t a, const uint32_t *counts, uint32_t *with, size_t n,
                     size_t thread) {
  gram *g = payload;
  float *row = fopo_matrix_row(g->A, a);
  (void)thread;
  for (size_t i = 0; i < n; i++) row[with[i]] = (float)counts[with[i]];
  row[a] = (float)((double)row[a] + g->l2);
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
static int sweep_all(fopo_matrix A) {
  size_t P = A.rows, most = least(SWEEP, P);
  sweep s = {.A = A, .d = fopo_alloc(most * most, sizeof *s.d)};
  int status = s.d != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_matrix_init(&s.C, most, P);
  if (status == FOPO_OK) status = fopo_matrix_init(&s.R, most, P);
  if (status == FOPO_OK) status = fopo_matrix_init(&s.D, most, most);
  for (size_t k = 0; k < P && status == FOPO_OK; k += SWEEP) {
    status = sweep_rows(&s, k, least(SWEEP, P - k));
    if (status == FOPO_OK) {
      status = fopo_progress("inverting items x items", (double)least(k + SWEEP, P), (double)P);
    }
  }
  fopo_free(s.d);
  fopo_matrix_done(&s.C);
  fopo_matrix_done(&s.R);
  fopo_matrix_done(&s.D);
  return status;
}

/* ---- the model ---- */

/* B_ab = -A_ab / A_bb from the upper triangle of -A^-1, whose sign cancels: for a in rows i .., b >
 * a in columns j .. of one tile, and B_ba with them. diagonal [P] is A's. */
static void weights_of_tile(fopo_matrix B, const float *diagonal, size_t i, size_t j) {
  size_t P = B.rows, last_row = least(i + TILE, P), last = least(j + TILE, P);
  for (size_t a = i; a < last_row; a++) {
    for (size_t b = j > a ? j : a + 1; b < last; b++) {
      float v = fopo_matrix_row(B, a)[b];
      fopo_matrix_row(B, a)[b] = -v / diagonal[b];
      fopo_matrix_row(B, b)[a] = -v / diagonal[a];
    }
  }
}

static void make_weights(fopo_matrix B, float *diagonal) {
  size_t P = B.rows;
  for (size_t a = 0; a < P; a++) diagonal[a] = fopo_matrix_row(B, a)[a];
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t i = 0; i < P; i += TILE) {
    for (size_t j = i; j < P; j += TILE) weights_of_tile(B, diagonal, i, j);
  }
  for (size_t a = 0; a < P; a++) fopo_matrix_row(B, a)[a] = 0.0f;
}

static int learn(fopo_matrix B, const fopo_csr *M, double l2) {
  gram g = {.A = B, .l2 = l2};
  float *diagonal = fopo_alloc(B.rows, sizeof *diagonal);
  int status = diagonal == NULL ? FOPO_ERR_MEMORY : FOPO_OK;
  if (status == FOPO_OK) status = fopo_together(M, "counting pairs of items", fill_row, &g);
  if (status == FOPO_OK) status = sweep_all(B);
  if (status == FOPO_OK) make_weights(B, diagonal);
  fopo_free(diagonal);
  return status == FOPO_OK ? fopo_matrix_finite(B, "the weights of ease") : status;
}

static int fit(void **of, const fopo_csr *M, const fopo_baseline_options *o) {
  size_t P = M->cols;
  int status =
      fopo_memory_suffices((uint64_t)P * P * sizeof(float), "the items x items weights of ease",
                           "it is for small catalogues: use item_knn or als");
  if (status != FOPO_OK) return status;
  fopo_matrix *B = *of = fopo_alloc(1, sizeof *B);
  if (B == NULL) return FOPO_ERR_MEMORY;
  status = fopo_matrix_init(B, P, P);
  return status == FOPO_OK ? learn(*B, M, o->l2) : status;
}

static int score(float *scores, const void *of, const fopo_baseline_options *o, const fopo_csr *X,
                 size_t first, size_t n, void *scratch) {
  const fopo_matrix *B = of;
  (void)o;
  (void)scratch;
  for (size_t i = 0; i < n; i++, scores += B->cols) {
    const uint32_t *taken = fopo_csr_row(X, first + i);
    memset(scores, 0, B->cols * sizeof *scores);
    for (size_t x = 0; x < fopo_csr_count(X, first + i); x++) {
      const float *row = fopo_matrix_row(*B, taken[x]);
      for (size_t b = 0; b < B->cols; b++) scores[b] += row[b];
    }
  }
  return 1;
}

static const fopo_option options[] = {{.name = "l2",
                                       .type = FOPO_OPTION_NUMBER,
                                       .member = offsetof(fopo_baseline_options, l2),
                                       .standard = 300,
                                       .least = 1e-3,
                                       .text = "penalty of the weights; more for few users"},
                                      {0}};

const fopo_baseline_kind fopo_baseline_ease = {
    .name = "ease",
    .fit = fit,
    .free = free_model,
    .score = score,
    .options = options,
    // clang-format off
    .text = "Each item is predicted from all others by a linear model without an intercept, in closed form:\n"
          "B_ab = -A_ab / A_bb with A = (M^T M + l2 I)^-1 and a zero diagonal, where M holds 1 for each item that\n"
          "a training user took. The score of an item is the sum over a in X of B_ab. Hard to beat where it fits:\n"
          "4 P^2 bytes and P^3 multiply-adds, 0.4 GB and seconds for 10,000 items; refused where that is too much.\n"
          "Source: Steck 2019.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "ease = fopo.baseline.ease{data = s.train, l2 = 100}\n"
             "assert(fopo.evaluate(ease, s.test, {exclude = \"seen\"}).reward > 0.05)",
    // clang-format on
};
