/* QR.
 *
 * LAPACK is column-major, so it sees the transpose of a row-major matrix. QR of A is therefore LQ
 * of A^T; nothing is copied only to be transposed.
 *
 * Rows are cut into blocks whose sizes depend on the shape alone. Each block is computed by one
 * thread, and sums over blocks run in their order. */
#include "core/qr.h"

#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"

enum {
  QR_ROWS = 1024, /* rows that a thread converts, divides or multiplies at a time */
  SLICES = 32     /* at most so many partial Gram matrices */
};
#define PARTIAL  ((size_t)64 << 20)   /* bytes of the partial Gram matrices, at most */
#define QR_SMALL (16.0 * 1024 * 1024) /* rows * columns^2; up to so many, Householder is faster */
#define QR_LEAST 1e-5 /* Cholesky needs so large a part of each column outside those before it */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }
static size_t pieces(size_t n, size_t size) { return (n + size - 1) / size; }
static int stride(fopo_matrix m) { return (int)most(m.ld, 1); }

static int interrupted(void) {
  return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while orthonormalising");
}

/* ---- Householder ---- */

typedef struct {
  size_t n;    /* columns */
  size_t size; /* rows of a block; the last one may have up to twice as many */
  int threads;
  float *tau;  /* [threads, n] */
  float *work; /* [threads, n, 64]: LAPACK's block size is 32 or 64 */
  float *copy; /* [threads, QR_ROWS, n] rows to be multiplied in place */
} tree_scratch;

static size_t blocks_of(size_t m, const tree_scratch *scratch) {
  return most(m / scratch->size, 1);
}

static fopo_matrix block_of(fopo_matrix A, size_t b, const tree_scratch *scratch) {
  size_t first = b * scratch->size, rest = A.rows - first;
  return fopo_matrix_rows(A, first, b + 1 < blocks_of(A.rows, scratch) ? scratch->size : rest);
}

/* A becomes Q, R its triangle, by LQ of A^T, which is how LAPACK sees A. */
static void block_qr(fopo_matrix A, fopo_matrix R, const tree_scratch *scratch) {
  size_t t = (size_t)omp_get_thread_num();
  int m = (int)A.rows, n = (int)A.cols, lda = stride(A), work_size = n * 64;
  float *tau = scratch->tau + t * scratch->n, *work = scratch->work + t * scratch->n * 64;
  LAPACKE_sgelqf_work(LAPACK_COL_MAJOR, n, m, A.x, lda, tau, work, work_size);
  for (size_t i = 0; i < A.cols; i++) {
    for (size_t j = 0; j < A.cols; j++) R.x[i * R.ld + j] = j < i ? 0.0f : A.x[i * A.ld + j];
  }
  LAPACKE_sorglq_work(LAPACK_COL_MAJOR, n, m, n, A.x, lda, tau, work, work_size);
}

/* A = A B in place, B [n, n]. */
static void block_times(fopo_matrix A, fopo_matrix B, const tree_scratch *scratch) {
  float *copy = scratch->copy + (size_t)omp_get_thread_num() * QR_ROWS * scratch->n;
  for (size_t first = 0; first < A.rows; first += QR_ROWS) {
    fopo_matrix a = fopo_matrix_rows(A, first, least(QR_ROWS, A.rows - first));
    for (size_t i = 0; i < a.rows; i++) {
      memcpy(copy + i * a.cols, fopo_matrix_row(a, i), a.cols * sizeof *copy);
    }
    fopo_gemm_tile(a, 1.0f, fopo_matrix_view(copy, a.rows, a.cols), 0, B, 0, 0.0f);
  }
}

/* TSQR. Blocks A_b = Q_b R_b in parallel; the stacked R_b [blocks * n, n] are factored in the same
 * way into blocks S_b and R; then A_b becomes Q_b S_b. */
static int tree_qr(fopo_matrix A, fopo_matrix R, const tree_scratch *scratch) {
  size_t n = A.cols, blocks = blocks_of(A.rows, scratch);
  if (blocks == 1) {
    block_qr(A, R, scratch);
    return FOPO_OK;
  }
  fopo_matrix stack;
  int status = fopo_matrix_init(&stack, blocks * n, n), stopped = 0;
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(scratch->threads) schedule(dynamic) reduction(| : stopped)
  for (size_t b = 0; b < blocks; b++) {
    stopped |= fopo_interrupted();
    if (!stopped) block_qr(block_of(A, b, scratch), fopo_matrix_rows(stack, b * n, n), scratch);
  }
  status = stopped ? interrupted() : tree_qr(stack, R, scratch);
  if (status != FOPO_OK) goto out;
#pragma omp parallel for num_threads(scratch->threads) schedule(dynamic) reduction(| : stopped)
  for (size_t b = 0; b < blocks; b++) {
    stopped |= fopo_interrupted();
    if (!stopped) block_times(block_of(A, b, scratch), fopo_matrix_rows(stack, b * n, n), scratch);
  }
  if (stopped) status = interrupted();
out:
  fopo_matrix_done(&stack);
  return status;
}

static int householder(fopo_matrix A, fopo_matrix R) {
  size_t n = A.cols;
  int status = fopo_matrix_finite(A, "the matrix to orthonormalise");
  if (status != FOPO_OK) return status;
  tree_scratch scratch = {.n = n, .size = most(4 * n, 512)};
  scratch.threads = (int)least((size_t)fopo_threads(), blocks_of(A.rows, &scratch));
  size_t threads = (size_t)scratch.threads;
  scratch.tau = fopo_alloc(threads * n, sizeof(float));
  scratch.work = fopo_alloc(threads * n * 64, sizeof(float));
  scratch.copy = fopo_alloc(threads * QR_ROWS * n, sizeof(float));
  int whole = scratch.tau != NULL && scratch.work != NULL && scratch.copy != NULL;
  status = whole ? tree_qr(A, R, &scratch) : FOPO_ERR_MEMORY;
  fopo_free(scratch.tau);
  fopo_free(scratch.work);
  fopo_free(scratch.copy);
  return status;
}

/* ---- Cholesky QR ---- */

typedef struct {
  size_t n;      /* columns */
  size_t slices; /* of the rows; each has its own partial Gram matrix */
  int threads;
  double *R;        /* [n, n] upper: the product of the triangles so far */
  double *G;        /* [n, n] upper: Gram matrix, then the triangle of this pass */
  double *diagonal; /* [n] of the Gram matrix */
  double *partial;  /* [slices, n, n] */
  double *rows;     /* [threads, QR_ROWS, n] rows of A in double */
  float *divisor;   /* [n, n] the triangle in float */
} qr_scratch;

static void qr_done(qr_scratch *scratch) {
  fopo_free(scratch->R);
  fopo_free(scratch->G);
  fopo_free(scratch->diagonal);
  fopo_free(scratch->partial);
  fopo_free(scratch->rows);
  fopo_free(scratch->divisor);
}

/* Slices of m rows for partial sums of [n, n]. */
static size_t slices_of(size_t m, size_t n) {
  size_t fit = most(PARTIAL / sizeof(double) / (n * n), 4);
  return least(least(pieces(m, QR_ROWS), fit), SLICES);
}

uint64_t fopo_qr_bytes(size_t m, size_t n) {
  uint64_t slices = slices_of(m, n), threads = least((size_t)fopo_threads(), slices);
  uint64_t squares = (2 + slices) * sizeof(double) + sizeof(float);
  return squares * n * n + threads * QR_ROWS * n * sizeof(double);
}

static int qr_init(qr_scratch *scratch, size_t m, size_t n, int tall) {
  *scratch = (qr_scratch){.n = n};
  scratch->R = fopo_alloc(n * n, sizeof(double));
  scratch->G = fopo_alloc(n * n, sizeof(double));
  scratch->divisor = fopo_alloc(n * n, sizeof(float));
  if (scratch->R == NULL || scratch->G == NULL || scratch->divisor == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) scratch->R[i * n + i] = 1.0;
  if (!tall) return FOPO_OK;
  scratch->slices = slices_of(m, n);
  scratch->diagonal = fopo_alloc(n, sizeof(double));
  scratch->partial = fopo_alloc(scratch->slices * n * n, sizeof(double));
  scratch->threads = (int)least((size_t)fopo_threads(), scratch->slices);
  scratch->rows = fopo_alloc((size_t)scratch->threads * QR_ROWS * n, sizeof(double));
  int whole = scratch->diagonal != NULL && scratch->partial != NULL && scratch->rows != NULL;
  return whole ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* P += a^T a for a few rows of A, converted to double in copy. */
static void add_gram(double *P, double *copy, fopo_matrix a) {
  int n = (int)a.cols;
  for (size_t i = 0; i < a.rows; i++) {
    const float *from = fopo_matrix_row(a, i);
    for (size_t j = 0; j < a.cols; j++) copy[i * a.cols + j] = (double)from[j];
  }
  cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, n, (int)a.rows, 1.0, copy, n, 1.0, P, n);
}

/* G = A^T A. */
static int gram(qr_scratch *scratch, fopo_matrix A) {
  size_t n = scratch->n, chunks = pieces(A.rows, QR_ROWS), size = pieces(chunks, scratch->slices);
  int stopped = 0;
  memset(scratch->partial, 0, scratch->slices * n * n * sizeof(double));
#pragma omp parallel for num_threads(scratch->threads) schedule(dynamic) reduction(| : stopped)
  for (size_t s = 0; s < scratch->slices; s++) {
    double *copy = scratch->rows + (size_t)omp_get_thread_num() * QR_ROWS * n;
    for (size_t c = s * size; c < least((s + 1) * size, chunks) && !stopped; c++) {
      size_t first = c * QR_ROWS;
      add_gram(scratch->partial + s * n * n, copy,
               fopo_matrix_rows(A, first, least(QR_ROWS, A.rows - first)));
      stopped |= fopo_interrupted();
    }
  }
  if (stopped) return interrupted();
  for (size_t i = 0; i < n * n; i++) {
    double sum = 0;
    for (size_t s = 0; s < scratch->slices; s++) sum += scratch->partial[s * n * n + i];
    scratch->G[i] = sum;
  }
  return FOPO_OK;
}

/* R = T R, T upper triangular. */
static void collect(qr_scratch *scratch, const double *T) {
  int n = (int)scratch->n;
  cblas_dtrmm(CblasRowMajor, CblasLeft, CblasUpper, CblasNoTrans, CblasNonUnit, n, n, 1.0, T, n,
              scratch->R, n);
}

/* G becomes its Cholesky factor; 0 if a column almost depends on those before it. A NaN fails every
 * comparison, so it counts as dependent, too. */
static int cholesky(qr_scratch *scratch) {
  size_t n = scratch->n;
  for (size_t j = 0; j < n; j++) scratch->diagonal[j] = scratch->G[j * n + j];
  if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', (int)n, scratch->G, (int)n) != 0) return 0;
  for (size_t j = 0; j < n; j++) {
    double left = scratch->G[j * n + j];
    if (!(left * left > QR_LEAST * QR_LEAST * scratch->diagonal[j])) return 0;
  }
  return 1;
}

/* A = A T^-1, T the Cholesky factor. */
static int divide(fopo_matrix A, qr_scratch *scratch) {
  size_t n = scratch->n, chunks = pieces(A.rows, QR_ROWS);
  int stopped = 0;
  for (size_t i = 0; i < n * n; i++) scratch->divisor[i] = (float)scratch->G[i];
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic) reduction(| : stopped)
  for (size_t c = 0; c < chunks; c++) {
    if (stopped || fopo_interrupted()) {
      stopped = 1;
      continue;
    }
    fopo_matrix a = fopo_matrix_rows(A, c * QR_ROWS, least(QR_ROWS, A.rows - c * QR_ROWS));
    cblas_strsm(CblasRowMajor, CblasRight, CblasUpper, CblasNoTrans, CblasNonUnit, (int)a.rows,
                (int)n, 1.0f, scratch->divisor, (int)n, a.x, stride(a));
  }
  return stopped ? interrupted() : FOPO_OK;
}

/* The same by Householder, for ill-conditioned A. */
static int householder_step(fopo_matrix A, qr_scratch *scratch) {
  size_t n = scratch->n;
  int status = householder(A, fopo_matrix_view(scratch->divisor, n, n));
  for (size_t i = 0; i < n * n; i++) scratch->G[i] = (double)scratch->divisor[i];
  collect(scratch, scratch->G);
  return status;
}

static int cholesky_qr_pass(fopo_matrix A, qr_scratch *scratch) {
  int status = gram(scratch, A);
  if (status != FOPO_OK) return status;
  if (!cholesky(scratch)) return householder_step(A, scratch);
  collect(scratch, scratch->G);
  return divide(A, scratch);
}

/* The first pass leaves columns orthonormal to about 1e-7 times their condition (Householder in
 * float: to 1e-7 times the root of the rows), the second to rounding. */
static int cholesky_qr(fopo_matrix A, qr_scratch *scratch, int passes) {
  int status = FOPO_OK;
  for (int p = 0; p < passes && status == FOPO_OK; p++) status = cholesky_qr_pass(A, scratch);
  return status;
}

static void narrow(fopo_matrix R, const qr_scratch *scratch) {
  for (size_t i = 0; i < R.rows; i++) {
    for (size_t j = 0; j < R.cols; j++) R.x[i * R.ld + j] = (float)scratch->R[i * scratch->n + j];
  }
}

static int qr(fopo_matrix A, fopo_matrix R, int passes) {
  size_t m = A.rows, n = A.cols;
  if (m < n || m > INT_MAX || A.ld > INT_MAX || (R.x != NULL && (R.rows != n || R.cols != n))) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "no thin QR of a [%zu, %zu] matrix with R [%zu, %zu]; it needs rows >= columns", m, n,
        R.rows, R.cols);
  }
  if (n == 0) return FOPO_OK;
  fopo_threads(); /* limits BLAS to one thread */
  int tall = m >= 4 * n && (double)m * (double)n * (double)n > QR_SMALL;
  qr_scratch scratch;
  int status = qr_init(&scratch, m, n, tall);
  if (status == FOPO_OK) {
    status = tall ? cholesky_qr(A, &scratch, passes) : householder_step(A, &scratch);
  }
  if (status == FOPO_OK && R.x != NULL) narrow(R, &scratch);
  qr_done(&scratch);
  return status;
}

int fopo_qr(fopo_matrix A, fopo_matrix R) { return qr(A, R, 2); }

int fopo_orthonormalise_roughly(fopo_matrix A) { return qr(A, (fopo_matrix){0}, 1); }

int fopo_gram(double *G, fopo_matrix A) {
  fopo_threads(); /* limits BLAS to one thread */
  qr_scratch scratch;
  int status = qr_init(&scratch, A.rows, A.cols, 1);
  if (status == FOPO_OK) status = gram(&scratch, A);
  if (status == FOPO_OK) memcpy(G, scratch.G, A.cols * A.cols * sizeof *G);
  qr_done(&scratch);
  return status;
}
