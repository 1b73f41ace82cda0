/* Dense products cut into tiles, and the factorisations that the program needs.
 *
 * Every tile is one call of single-threaded BLAS and its shape follows from the sizes alone, so
 * neither the number of threads nor their order changes a bit. Where C is small and the inner
 * dimension long, the inner dimension is cut into slices instead; their partial results are added
 * in order.
 *
 * LAPACK counts columns first: a row-major matrix is its transpose there. QR of A is therefore
 * LQ of A^T, and the SVD swaps its factors; nothing is ever copied to be transposed. */
#include "core/matrix.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"

#include <assert.h>
#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <string.h>

enum {
  TILE = 256,          /* rows and columns of a tile of C: two panels fit the second-level cache */
  SLICE = 4096,        /* least length of a slice of the inner dimension */
  SLICES = 32,         /* most slices */
  QR_ROWS = 1024,      /* rows that one thread of the Cholesky QR takes at a time */
};
#define SMALL (1.0 * 1024 * 1024)         /* multiply-adds below which threads cost more than they give */
#define LONG (2.0 * 1024 * 1024 * 1024)   /* from here on a product looks for Ctrl-C */
#define PARTIAL ((size_t)64 << 20)        /* bytes that partial results may take */
#define QR_SMALL (16.0 * 1024 * 1024)     /* rows * columns^2 below which Householder is quick */
#define QR_LEAST 1e-5                     /* least part of a column outside those before it */

int fopo_matrix_init(fopo_matrix *m, size_t rows, size_t cols) {
  *m = (fopo_matrix){0};
  size_t count;
  if (__builtin_mul_overflow(rows, cols, &count)) count = SIZE_MAX;
  float *x = fopo_alloc(count, sizeof *x);
  if (x == NULL) return FOPO_ERR_MEMORY;
  *m = fopo_matrix_view(x, rows, cols);
  return FOPO_OK;
}

void fopo_matrix_done(fopo_matrix *m) {
  fopo_free(m->x);
  *m = (fopo_matrix){0};
}

/* ---- products ---- */

static fopo_matrix block(fopo_matrix m, size_t i, size_t j, size_t rows, size_t cols) {
  return (fopo_matrix){m.x + i * m.ld + j, rows, cols, m.ld};
}

/* Rows first .. first + count - 1 of op(m). */
static fopo_matrix op_rows(fopo_matrix m, int transposed, size_t first, size_t count) {
  return transposed ? block(m, 0, first, m.rows, count) : block(m, first, 0, count, m.cols);
}

static fopo_matrix op_cols(fopo_matrix m, int transposed, size_t first, size_t count) {
  return op_rows(m, !transposed, first, count);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }
static size_t pieces(size_t n, size_t size) { return (n + size - 1) / size; }

static int stride(fopo_matrix m) { return (int)most(m.ld, 1); }

void fopo_gemm_tile(fopo_matrix C, float alpha, fopo_matrix A, int transpose_a, fopo_matrix B,
                    int transpose_b, float beta) {
  fopo_threads(); /* holds BLAS to one thread */
  size_t inner = transpose_a ? A.rows : A.cols;
  assert(C.rows <= INT_MAX && C.cols <= INT_MAX && inner <= INT_MAX);
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
              transpose_b ? CblasTrans : CblasNoTrans, (int)C.rows, (int)C.cols, (int)inner, alpha,
              A.x, stride(A), B.x, stride(B), beta, C.x, stride(C));
}

static int check_product(fopo_matrix C, fopo_matrix A, int ta, fopo_matrix B, int tb) {
  size_t m = ta ? A.cols : A.rows, ka = ta ? A.rows : A.cols;
  size_t n = tb ? B.rows : B.cols, kb = tb ? B.cols : B.rows;
  if (ka != kb) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a [%zu, %zu] matrix cannot multiply a [%zu, %zu] one: "
                     "%zu columns meet %zu rows",
                     m, ka, kb, n, ka, kb);
  }
  if (C.rows != m || C.cols != n) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the product of [%zu, %zu] and [%zu, %zu] does not fit in [%zu, %zu]", m, ka,
                     kb, n, C.rows, C.cols);
  }
  size_t widest = most(most(A.ld, B.ld), most(C.ld, ka));
  if (widest > INT_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a row of %zu numbers is too long for BLAS; use at most %d",
                     widest, INT_MAX);
  }
  return FOPO_OK;
}

/* C in tiles, each with the whole inner dimension. */
static int product_by_tiles(fopo_matrix C, float alpha, fopo_matrix A, int ta, fopo_matrix B,
                            int tb, float beta, int interruptible) {
  size_t across = pieces(C.cols, TILE), tiles = pieces(C.rows, TILE) * across;
  int stopped = 0;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic) reduction(| : stopped)
  for (size_t t = 0; t < tiles; t++) {
    if (interruptible && fopo_interrupted()) {
      stopped = 1;
      continue;
    }
    size_t i = t / across * TILE, j = t % across * TILE;
    size_t rows = least(TILE, C.rows - i), cols = least(TILE, C.cols - j);
    fopo_gemm_tile(block(C, i, j, rows, cols), alpha, op_rows(A, ta, i, rows), ta,
                   op_cols(B, tb, j, cols), tb, beta);
  }
  return stopped ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while multiplying") : FOPO_OK;
}

/* c = beta c + the sum of the slices' x, in their order. */
static void add_partials(fopo_matrix C, const float *partial, size_t slices, float beta) {
  size_t count = C.rows * C.cols;
#pragma omp parallel for num_threads(fopo_threads()) if (count * slices > (1u << 16))
  for (size_t i = 0; i < C.rows; i++) {
    float *c = fopo_matrix_row(C, i);
    for (size_t j = 0; j < C.cols; j++) {
      double sum = beta == 0.0f ? 0.0 : (double)beta * (double)c[j];
      for (size_t s = 0; s < slices; s++) sum += (double)partial[s * count + i * C.cols + j];
      c[j] = (float)sum;
    }
  }
}

/* The inner dimension in slices, each with a private [rows, cols] result. */
static int product_by_slices(fopo_matrix C, float alpha, fopo_matrix A, int ta, fopo_matrix B,
                             int tb, float beta, size_t slices, int interruptible) {
  size_t inner = ta ? A.rows : A.cols, count = C.rows * C.cols;
  float *partial = fopo_alloc(slices * count, sizeof *partial);
  if (partial == NULL) return FOPO_ERR_MEMORY;
  int stopped = 0;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic) reduction(| : stopped)
  for (size_t s = 0; s < slices; s++) {
    size_t first = inner / slices * s + least(s, inner % slices);
    size_t length = inner / slices + (s < inner % slices);
    fopo_matrix part = fopo_matrix_view(partial + s * count, C.rows, C.cols);
    for (size_t at = 0; at < length && !stopped; at += SLICE) {
      size_t step = least(SLICE, length - at);
      fopo_gemm_tile(part, alpha, op_cols(A, ta, first + at, step), ta,
                     op_rows(B, tb, first + at, step), tb, at == 0 ? 0.0f : 1.0f);
      stopped = interruptible && fopo_interrupted();
    }
  }
  if (!stopped) add_partials(C, partial, slices, beta);
  fopo_free(partial);
  return stopped ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while multiplying") : FOPO_OK;
}

int fopo_gemm(fopo_matrix C, float alpha, fopo_matrix A, int transpose_a, fopo_matrix B,
              int transpose_b, float beta) {
  int status = check_product(C, A, transpose_a, B, transpose_b);
  if (status != FOPO_OK || C.rows == 0 || C.cols == 0) return status;
  size_t inner = transpose_a ? A.rows : A.cols;
  double work = (double)C.rows * (double)C.cols * (double)inner;
  if (work <= SMALL && most(C.rows, C.cols) <= INT_MAX) {
    fopo_gemm_tile(C, alpha, A, transpose_a, B, transpose_b, beta);
    return FOPO_OK;
  }
  size_t tiles = pieces(C.rows, TILE) * pieces(C.cols, TILE);
  size_t room = PARTIAL / sizeof(float) / (C.rows * C.cols);
  size_t slices = least(least(inner / SLICE, SLICES), room);
  if (tiles < 8 && slices >= 2 && slices > tiles) {
    return product_by_slices(C, alpha, A, transpose_a, B, transpose_b, beta, slices, work > LONG);
  }
  return product_by_tiles(C, alpha, A, transpose_a, B, transpose_b, beta, work > LONG);
}

/* ---- QR ---- */

typedef struct {
  size_t n;        /* columns */
  size_t slices;   /* of the rows; each has its own Gram matrix */
  int threads;     /* that share the slices */
  double *R;       /* [n, n] upper: the product of the triangles so far */
  double *G;       /* [n, n] upper: Gram matrix, then its Cholesky factor */
  double *diagonal;/* [n] of the Gram matrix */
  double *partial; /* [slices, n, n] */
  double *rows;    /* [threads, QR_ROWS, n] rows of A in double */
  float *narrow;   /* [n, n] the Cholesky factor in float */
} qr_room;

static void qr_done(qr_room *room) {
  fopo_free(room->R);
  fopo_free(room->G);
  fopo_free(room->diagonal);
  fopo_free(room->partial);
  fopo_free(room->rows);
  fopo_free(room->narrow);
}

static int qr_init(qr_room *room, size_t m, size_t n, int tall) {
  *room = (qr_room){.n = n};
  room->R = fopo_alloc(n * n, sizeof(double));
  room->G = fopo_alloc(n * n, sizeof(double));
  if (room->R == NULL || room->G == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) room->R[i * n + i] = 1.0;
  if (!tall) return FOPO_OK;
  size_t fit = most(PARTIAL / sizeof(double) / (n * n), 4);
  room->slices = least(least(pieces(m, QR_ROWS), fit), SLICES);
  room->diagonal = fopo_alloc(n, sizeof(double));
  room->partial = fopo_alloc(room->slices * n * n, sizeof(double));
  room->threads = (int)least((size_t)fopo_threads(), room->slices);
  room->rows = fopo_alloc((size_t)room->threads * QR_ROWS * n, sizeof(double));
  room->narrow = fopo_alloc(n * n, sizeof(float));
  int whole = room->diagonal != NULL && room->partial != NULL && room->rows != NULL &&
              room->narrow != NULL;
  return whole ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* P += a^T a for a few rows of A, through their copy in double. */
static void add_gram(double *P, double *copy, fopo_matrix a) {
  int n = (int)a.cols;
  for (size_t i = 0; i < a.rows; i++) {
    const float *from = fopo_matrix_row(a, i);
    for (size_t j = 0; j < a.cols; j++) copy[i * a.cols + j] = (double)from[j];
  }
  cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, n, (int)a.rows, 1.0, copy, n, 1.0, P, n);
}

/* G = A^T A. */
static int gram(qr_room *room, fopo_matrix A) {
  size_t n = room->n, chunks = pieces(A.rows, QR_ROWS), size = pieces(chunks, room->slices);
  int stopped = 0;
  memset(room->partial, 0, room->slices * n * n * sizeof(double));
#pragma omp parallel for num_threads(room->threads) schedule(dynamic) reduction(| : stopped)
  for (size_t s = 0; s < room->slices; s++) {
    double *copy = room->rows + (size_t)omp_get_thread_num() * QR_ROWS * n;
    for (size_t c = s * size; c < least((s + 1) * size, chunks) && !stopped; c++) {
      size_t first = c * QR_ROWS;
      add_gram(room->partial + s * n * n, copy,
               fopo_matrix_rows(A, first, least(QR_ROWS, A.rows - first)));
      stopped |= fopo_interrupted();
    }
  }
  if (stopped) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while orthonormalising");
  for (size_t i = 0; i < n * n; i++) {
    double sum = 0;
    for (size_t s = 0; s < room->slices; s++) sum += room->partial[s * n * n + i];
    room->G[i] = sum;
  }
  return FOPO_OK;
}

/* R = T R, T upper triangular. */
static void collect(qr_room *room, const double *T) {
  int n = (int)room->n;
  cblas_dtrmm(CblasRowMajor, CblasLeft, CblasUpper, CblasNoTrans, CblasNonUnit, n, n, 1.0, T, n,
              room->R, n);
}

/* G becomes its Cholesky factor; 0 where a column almost depends on those before it. A NaN fails
 * every comparison and so counts as dependent, too. */
static int cholesky(qr_room *room) {
  size_t n = room->n;
  for (size_t j = 0; j < n; j++) room->diagonal[j] = room->G[j * n + j];
  if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', (int)n, room->G, (int)n) != 0) return 0;
  for (size_t j = 0; j < n; j++) {
    double left = room->G[j * n + j];
    if (!(left * left > QR_LEAST * QR_LEAST * room->diagonal[j])) return 0;
  }
  return 1;
}

/* A = A T^-1, T the Cholesky factor. */
static int divide(fopo_matrix A, qr_room *room) {
  size_t n = room->n, chunks = pieces(A.rows, QR_ROWS);
  int stopped = 0;
  for (size_t i = 0; i < n * n; i++) room->narrow[i] = (float)room->G[i];
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic) reduction(| : stopped)
  for (size_t c = 0; c < chunks; c++) {
    if (stopped || fopo_interrupted()) {
      stopped = 1;
      continue;
    }
    fopo_matrix a = fopo_matrix_rows(A, c * QR_ROWS, least(QR_ROWS, A.rows - c * QR_ROWS));
    cblas_strsm(CblasRowMajor, CblasRight, CblasUpper, CblasNoTrans, CblasNonUnit, (int)a.rows,
                (int)n, 1.0f, room->narrow, (int)n, a.x, stride(a));
  }
  return stopped ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while orthonormalising") : FOPO_OK;
}

/* A = Q by LQ of A^T, A^T being how LAPACK sees A; R = T R. */
static int householder(fopo_matrix A, qr_room *room) {
  int m = (int)A.rows, n = (int)A.cols, lda = stride(A);
  int status = fopo_matrix_finite(A, "the matrix to orthonormalise");
  if (status != FOPO_OK) return status;
  int work_size = n * 64; /* LAPACK's block size is 32 or 64 */
  float *tau = fopo_alloc((size_t)n, sizeof *tau);
  float *work = fopo_alloc((size_t)work_size, sizeof *work);
  if (tau == NULL || work == NULL) {
    status = FOPO_ERR_MEMORY;
    goto out;
  }
  LAPACKE_sgelqf_work(LAPACK_COL_MAJOR, n, m, A.x, lda, tau, work, work_size);
  memset(room->G, 0, room->n * room->n * sizeof(double));
  for (size_t i = 0; i < A.cols; i++) {
    for (size_t j = i; j < A.cols; j++) room->G[i * A.cols + j] = (double)A.x[i * A.ld + j];
  }
  collect(room, room->G);
  LAPACKE_sorglq_work(LAPACK_COL_MAJOR, n, m, n, A.x, lda, tau, work, work_size);
out:
  fopo_free(tau);
  fopo_free(work);
  return status;
}

static int cholesky_qr_pass(fopo_matrix A, qr_room *room) {
  int status = gram(room, A);
  if (status != FOPO_OK) return status;
  if (!cholesky(room)) return householder(A, room);
  collect(room, room->G);
  return divide(A, room);
}

/* The first pass leaves columns orthonormal to about 1e-7 times their condition (Householder in
 * float: to 1e-7 times the root of the rows), the second to rounding. */
static int cholesky_qr(fopo_matrix A, qr_room *room) {
  int status = cholesky_qr_pass(A, room);
  return status == FOPO_OK ? cholesky_qr_pass(A, room) : status;
}

int fopo_qr(fopo_matrix A, fopo_matrix R) {
  size_t m = A.rows, n = A.cols;
  if (m < n || m > INT_MAX || A.ld > INT_MAX || (R.x != NULL && (R.rows != n || R.cols != n))) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "no thin QR of a [%zu, %zu] matrix with R [%zu, %zu]; it needs rows >= columns",
                     m, n, R.rows, R.cols);
  }
  if (n == 0) return FOPO_OK;
  int tall = m >= 4 * n && (double)m * (double)n * (double)n > QR_SMALL;
  qr_room room;
  int status = qr_init(&room, m, n, tall);
  if (status == FOPO_OK) status = tall ? cholesky_qr(A, &room) : householder(A, &room);
  if (status == FOPO_OK && R.x != NULL) {
    for (size_t i = 0; i < n; i++) {
      for (size_t j = 0; j < n; j++) R.x[i * R.ld + j] = (float)room.R[i * n + j];
    }
  }
  qr_done(&room);
  return status;
}

int fopo_orthonormalise(fopo_matrix A) { return fopo_qr(A, (fopo_matrix){0}); }

/* ---- SVD ---- */

static int check_svd(fopo_matrix U, fopo_matrix Vt, fopo_matrix A) {
  size_t m = A.rows, n = A.cols, r = least(m, n);
  int u_fits = U.x == NULL || (U.rows == m && U.cols == r);
  int v_fits = Vt.x == NULL || (Vt.rows == r && Vt.cols == n);
  if (u_fits && v_fits && most(m, A.ld) <= INT_MAX && U.ld <= INT_MAX && Vt.ld <= INT_MAX) {
    return fopo_matrix_finite(A, "the matrix to decompose");
  }
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the SVD of [%zu, %zu] does not fit in U [%zu, %zu] and Vt [%zu, %zu]", m, n,
                   U.rows, U.cols, Vt.rows, Vt.cols);
}

/* LAPACK sees A^T = V diag(s) U^T: its left vectors are Vt here, its right ones U. */
static int svd_with_room(fopo_matrix U, float *s, fopo_matrix Vt, fopo_matrix A, int *indices) {
  int m = (int)A.rows, n = (int)A.cols;
  float size;
  LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, 'S', n, m, A.x, stride(A), s, Vt.x, stride(Vt), U.x,
                      stride(U), &size, -1, indices);
  int work_size = (int)((double)size * 1.001) + 64; /* the size came back rounded to float */
  float *work = fopo_alloc((size_t)work_size, sizeof *work);
  if (work == NULL) return FOPO_ERR_MEMORY;
  int info = LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, 'S', n, m, A.x, stride(A), s, Vt.x, stride(Vt),
                                 U.x, stride(U), work, work_size, indices);
  fopo_free(work);
  if (info == 0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_NUMERIC, "the SVD of a [%d, %d] matrix did not converge", m, n);
}

int fopo_svd_dense(fopo_matrix U, float *s, fopo_matrix Vt, fopo_matrix A) {
  int status = check_svd(U, Vt, A);
  size_t r = least(A.rows, A.cols);
  if (status != FOPO_OK || r == 0) return status;
  fopo_threads(); /* holds BLAS to one thread */
  fopo_matrix own_u = {0}, own_vt = {0};
  float *own_s = NULL;
  int *indices = fopo_alloc(8 * r, sizeof *indices);
  if (indices == NULL) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK && U.x == NULL) status = fopo_matrix_init(&own_u, A.rows, r);
  if (status == FOPO_OK && Vt.x == NULL) status = fopo_matrix_init(&own_vt, r, A.cols);
  if (status == FOPO_OK && s == NULL) {
    own_s = fopo_alloc(r, sizeof *own_s);
    if (own_s == NULL) status = FOPO_ERR_MEMORY;
  }
  if (status == FOPO_OK) {
    status = svd_with_room(U.x == NULL ? own_u : U, s == NULL ? own_s : s,
                           Vt.x == NULL ? own_vt : Vt, A, indices);
  }
  fopo_matrix_done(&own_u);
  fopo_matrix_done(&own_vt);
  fopo_free(own_s);
  fopo_free(indices);
  return status;
}

/* ---- checks ---- */

/* 1 where a row has a value that is not finite: every bit of its exponent set. */
static int row_is_bad(const float *x, size_t n) {
  uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
  for (size_t j = 0; j < n; j++) {
    uint32_t bits;
    memcpy(&bits, x + j, sizeof bits);
    bad |= (bits & 0x7f800000u) == 0x7f800000u;
  }
  return bad != 0;
}

int fopo_matrix_finite(fopo_matrix m, const char *what) {
  size_t first = SIZE_MAX;
#pragma omp parallel for num_threads(fopo_threads()) if (m.rows * m.cols > (1u << 20)) \
    reduction(min : first)
  for (size_t i = 0; i < m.rows; i++) {
    if (i < first && row_is_bad(fopo_matrix_row(m, i), m.cols)) first = i;
  }
  if (first == SIZE_MAX) return FOPO_OK;
  const float *row = fopo_matrix_row(m, first);
  size_t j = 0;
  while (isfinite(row[j])) j++;
  return fopo_fail(FOPO_ERR_NUMERIC, "%s has %g at row %zu, column %zu", what, (double)row[j],
                   first + 1, j + 1);
}

double fopo_matrix_norm2(fopo_matrix m) {
  double sum = 0;
  for (size_t i = 0; i < m.rows; i++) {
    const float *row = fopo_matrix_row(m, i);
    for (size_t j = 0; j < m.cols; j++) sum += (double)row[j] * (double)row[j];
  }
  return sum;
}
