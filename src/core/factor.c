/* QR and SVD.
 *
 * LAPACK counts columns first: a row-major matrix is its transpose there. QR of A is therefore LQ
 * of A^T, and the SVD swaps its factors; nothing is ever copied to be transposed.
 *
 * Rows are cut into blocks whose sizes follow from the shape alone, each block is one thread's, and
 * sums over blocks run in their order. */
#include "core/factor.h"

#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"

enum {
  QR_ROWS = 1024, /* rows that a thread converts, divides or multiplies at a time */
  SLICES = 32     /* most private Gram matrices */
};
#define PARTIAL    ((size_t)64 << 20)   /* bytes that the private Gram matrices may take */
#define QR_SMALL   (16.0 * 1024 * 1024) /* rows * columns^2 below which Householder is quick */
#define QR_LEAST   1e-5                 /* least part of a column outside those before it */
#define GRAM_LEAST 1e-3                 /* 1 over the condition up to which Gram matrices will do */

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
  int threads; /* that share the blocks */
  float *tau;  /* [threads, n] */
  float *work; /* [threads, n, 64]: LAPACK's block size is 32 or 64 */
  float *copy; /* [threads, QR_ROWS, n] rows to be multiplied in place */
} tree_room;

static size_t blocks_of(size_t m, const tree_room *room) { return most(m / room->size, 1); }

static fopo_matrix block_of(fopo_matrix A, size_t b, const tree_room *room) {
  size_t first = b * room->size, rest = A.rows - first;
  return fopo_matrix_rows(A, first, b + 1 < blocks_of(A.rows, room) ? room->size : rest);
}

/* A = Q in place, R its triangle, by LQ of A^T, which is how LAPACK sees A. */
static void block_qr(fopo_matrix A, fopo_matrix R, const tree_room *room) {
  size_t t = (size_t)omp_get_thread_num();
  int m = (int)A.rows, n = (int)A.cols, lda = stride(A), work_size = n * 64;
  float *tau = room->tau + t * room->n, *work = room->work + t * room->n * 64;
  LAPACKE_sgelqf_work(LAPACK_COL_MAJOR, n, m, A.x, lda, tau, work, work_size);
  for (size_t i = 0; i < A.cols; i++) {
    for (size_t j = 0; j < A.cols; j++) R.x[i * R.ld + j] = j < i ? 0.0f : A.x[i * A.ld + j];
  }
  LAPACKE_sorglq_work(LAPACK_COL_MAJOR, n, m, n, A.x, lda, tau, work, work_size);
}

/* A = A B in place, B [n, n]. */
static void block_times(fopo_matrix A, fopo_matrix B, const tree_room *room) {
  float *copy = room->copy + (size_t)omp_get_thread_num() * QR_ROWS * room->n;
  for (size_t first = 0; first < A.rows; first += QR_ROWS) {
    fopo_matrix a = fopo_matrix_rows(A, first, least(QR_ROWS, A.rows - first));
    for (size_t i = 0; i < a.rows; i++) {
      memcpy(copy + i * a.cols, fopo_matrix_row(a, i), a.cols * sizeof *copy);
    }
    fopo_gemm_tile(a, 1.0f, fopo_matrix_view(copy, a.rows, a.cols), 0, B, 0, 0.0f);
  }
}

/* Blocks of A give Q_b and R_b; the R_b, stacked, are factored in the same way and give R and the
 * blocks that the Q_b are multiplied with. */
static int tree_qr(fopo_matrix A, fopo_matrix R, const tree_room *room) {
  size_t n = A.cols, blocks = blocks_of(A.rows, room);
  if (blocks == 1) {
    block_qr(A, R, room);
    return FOPO_OK;
  }
  fopo_matrix stack;
  int status = fopo_matrix_init(&stack, blocks * n, n), stopped = 0;
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(room->threads) schedule(dynamic) reduction(| : stopped)
  for (size_t b = 0; b < blocks; b++) {
    stopped |= fopo_interrupted();
    if (!stopped) block_qr(block_of(A, b, room), fopo_matrix_rows(stack, b * n, n), room);
  }
  status = stopped ? interrupted() : tree_qr(stack, R, room);
  if (status != FOPO_OK) goto out;
#pragma omp parallel for num_threads(room->threads) schedule(dynamic) reduction(| : stopped)
  for (size_t b = 0; b < blocks; b++) {
    stopped |= fopo_interrupted();
    if (!stopped) block_times(block_of(A, b, room), fopo_matrix_rows(stack, b * n, n), room);
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
  tree_room room = {.n = n, .size = most(4 * n, 512)};
  room.threads = (int)least((size_t)fopo_threads(), blocks_of(A.rows, &room));
  size_t threads = (size_t)room.threads;
  room.tau = fopo_alloc(threads * n, sizeof(float));
  room.work = fopo_alloc(threads * n * 64, sizeof(float));
  room.copy = fopo_alloc(threads * QR_ROWS * n, sizeof(float));
  int whole = room.tau != NULL && room.work != NULL && room.copy != NULL;
  status = whole ? tree_qr(A, R, &room) : FOPO_ERR_MEMORY;
  fopo_free(room.tau);
  fopo_free(room.work);
  fopo_free(room.copy);
  return status;
}

/* ---- Cholesky QR ---- */

typedef struct {
  size_t n;         /* columns */
  size_t slices;    /* of the rows; each has its own Gram matrix */
  int threads;      /* that share the slices */
  double *R;        /* [n, n] upper: the product of the triangles so far */
  double *G;        /* [n, n] upper: Gram matrix, then the triangle of this pass */
  double *diagonal; /* [n] of the Gram matrix */
  double *partial;  /* [slices, n, n] */
  double *rows;     /* [threads, QR_ROWS, n] rows of A in double */
  float *divisor;   /* [n, n] the triangle in float */
} qr_room;

static void qr_done(qr_room *room) {
  fopo_free(room->R);
  fopo_free(room->G);
  fopo_free(room->diagonal);
  fopo_free(room->partial);
  fopo_free(room->rows);
  fopo_free(room->divisor);
}

static int qr_init(qr_room *room, size_t m, size_t n, int tall) {
  *room = (qr_room){.n = n};
  room->R = fopo_alloc(n * n, sizeof(double));
  room->G = fopo_alloc(n * n, sizeof(double));
  room->divisor = fopo_alloc(n * n, sizeof(float));
  if (room->R == NULL || room->G == NULL || room->divisor == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) room->R[i * n + i] = 1.0;
  if (!tall) return FOPO_OK;
  size_t fit = most(PARTIAL / sizeof(double) / (n * n), 4);
  room->slices = least(least(pieces(m, QR_ROWS), fit), SLICES);
  room->diagonal = fopo_alloc(n, sizeof(double));
  room->partial = fopo_alloc(room->slices * n * n, sizeof(double));
  room->threads = (int)least((size_t)fopo_threads(), room->slices);
  room->rows = fopo_alloc((size_t)room->threads * QR_ROWS * n, sizeof(double));
  int whole = room->diagonal != NULL && room->partial != NULL && room->rows != NULL;
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
  if (stopped) return interrupted();
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
  for (size_t i = 0; i < n * n; i++) room->divisor[i] = (float)room->G[i];
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic) reduction(| : stopped)
  for (size_t c = 0; c < chunks; c++) {
    if (stopped || fopo_interrupted()) {
      stopped = 1;
      continue;
    }
    fopo_matrix a = fopo_matrix_rows(A, c * QR_ROWS, least(QR_ROWS, A.rows - c * QR_ROWS));
    cblas_strsm(CblasRowMajor, CblasRight, CblasUpper, CblasNoTrans, CblasNonUnit, (int)a.rows,
                (int)n, 1.0f, room->divisor, (int)n, a.x, stride(a));
  }
  return stopped ? interrupted() : FOPO_OK;
}

/* The same by Householder, for what Cholesky cannot do. */
static int householder_step(fopo_matrix A, qr_room *room) {
  size_t n = room->n;
  int status = householder(A, fopo_matrix_view(room->divisor, n, n));
  for (size_t i = 0; i < n * n; i++) room->G[i] = (double)room->divisor[i];
  collect(room, room->G);
  return status;
}

static int cholesky_qr_pass(fopo_matrix A, qr_room *room) {
  int status = gram(room, A);
  if (status != FOPO_OK) return status;
  if (!cholesky(room)) return householder_step(A, room);
  collect(room, room->G);
  return divide(A, room);
}

/* The first pass leaves columns orthonormal to about 1e-7 times their condition (Householder in
 * float: to 1e-7 times the root of the rows), the second to rounding. */
static int cholesky_qr(fopo_matrix A, qr_room *room, int passes) {
  int status = FOPO_OK;
  for (int p = 0; p < passes && status == FOPO_OK; p++) status = cholesky_qr_pass(A, room);
  return status;
}

static void narrow(fopo_matrix R, const qr_room *room) {
  for (size_t i = 0; i < R.rows; i++) {
    for (size_t j = 0; j < R.cols; j++) R.x[i * R.ld + j] = (float)room->R[i * room->n + j];
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
  fopo_threads(); /* holds BLAS to one thread */
  int tall = m >= 4 * n && (double)m * (double)n * (double)n > QR_SMALL;
  qr_room room;
  int status = qr_init(&room, m, n, tall);
  if (status == FOPO_OK) status = tall ? cholesky_qr(A, &room, passes) : householder_step(A, &room);
  if (status == FOPO_OK && R.x != NULL) narrow(R, &room);
  qr_done(&room);
  return status;
}

int fopo_qr(fopo_matrix A, fopo_matrix R) { return qr(A, R, 2); }

int fopo_orthonormalise(fopo_matrix A) { return qr(A, (fopo_matrix){0}, 2); }

int fopo_orthonormalise_roughly(fopo_matrix A) { return qr(A, (fopo_matrix){0}, 1); }

int fopo_gram(double *G, fopo_matrix A) {
  fopo_threads(); /* holds BLAS to one thread */
  qr_room room;
  int status = qr_init(&room, A.rows, A.cols, 1);
  if (status == FOPO_OK) status = gram(&room, A);
  if (status == FOPO_OK) memcpy(G, room.G, A.cols * A.cols * sizeof *G);
  qr_done(&room);
  return status;
}

/* ---- SVD ---- */

typedef struct {
  size_t n;
  double *values, *work; /* [n]; [work_size] */
  int *indices;          /* [5 n + 3] */
  double *X;             /* [n, columns] */
} gram_room;

enum {
  GRAM_WORK = 2,        /* LAPACK: 1 + 6 n + 2 n^2 for all eigenvectors, */
  WIDEST_GRAM = 1 << 14 /* counted by an int */
};

/* H = T^-T H T^-1, H symmetric and given by its upper part. */
static void divide_both(double *H, const double *T, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) H[i * n + j] = H[j * n + i];
  cblas_dtrsm(CblasRowMajor, CblasRight, CblasUpper, CblasNoTrans, CblasNonUnit, n, n, 1.0, T, n, H,
              n);
  cblas_dtrsm(CblasRowMajor, CblasLeft, CblasUpper, CblasTrans, CblasNonUnit, n, n, 1.0, T, n, H,
              n);
}

/* T in place of Gy, and 1 over its condition in the 1-norm; 0 where there is none. */
static double triangle(double *Gy, gram_room *room) {
  int n = (int)room->n;
  double rest = 0;
  if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', n, Gy, n) != 0) return 0;
  LAPACKE_dtrcon_work(LAPACK_COL_MAJOR, '1', 'L', 'N', n, Gy, n, &rest, room->work, room->indices);
  return rest;
}

static int svd_of_grams(fopo_matrix C, float *s, double *Gy, double *Gw, gram_room *room,
                        int *trusted) {
  int n = (int)room->n, work_size = 1 + 6 * n + GRAM_WORK * n * n;
  size_t columns = C.cols;
  *trusted = 0;
  double rest = triangle(Gy, room);
  if (!(rest > 0)) return FOPO_OK;
  divide_both(Gw, Gy, n);
  /* Column j of what LAPACK sees is row j here; eigenvalues ascend. */
  if (LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'U', n, Gw, n, room->values, room->work, work_size,
                          room->indices, 5 * n + 3) != 0)
    return FOPO_OK;
  double most_value = room->values[n - 1], least_value = room->values[room->n - columns];
  if (!(least_value > 0) || !(rest * sqrt(least_value / most_value) > GRAM_LEAST)) return FOPO_OK;
  *trusted = 1;
  for (size_t k = 0; k < columns; k++) {
    size_t from = room->n - 1 - k;
    double value = sqrt(room->values[from]);
    s[k] = (float)value;
    for (size_t i = 0; i < room->n; i++) room->X[i * columns + k] = Gw[from * room->n + i] / value;
  }
  cblas_dtrsm(CblasRowMajor, CblasLeft, CblasUpper, CblasNoTrans, CblasNonUnit, n, (int)columns,
              1.0, Gy, n, room->X, (int)columns);
  for (size_t i = 0; i < room->n; i++)
    for (size_t k = 0; k < columns; k++) C.x[i * C.ld + k] = (float)room->X[i * columns + k];
  return FOPO_OK;
}

int fopo_svd_of_grams(fopo_matrix C, float *s, double *Gy, double *Gw, int *trusted) {
  size_t n = C.rows;
  *trusted = 0;
  if (n > WIDEST_GRAM) return FOPO_OK;
  fopo_threads(); /* holds BLAS to one thread */
  gram_room room = {.n = n};
  room.values = fopo_alloc(n, sizeof(double));
  room.work = fopo_alloc(1 + 6 * n + GRAM_WORK * n * n, sizeof(double));
  room.indices = fopo_alloc(5 * n + 3, sizeof(int));
  room.X = fopo_alloc(n * C.cols, sizeof(double));
  int whole = room.values != NULL && room.work != NULL && room.indices != NULL && room.X != NULL;
  int status = whole ? svd_of_grams(C, s, Gy, Gw, &room, trusted) : FOPO_ERR_MEMORY;
  fopo_free(room.values);
  fopo_free(room.work);
  fopo_free(room.indices);
  fopo_free(room.X);
  return status;
}

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
