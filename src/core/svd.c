/* Randomised subspace iteration on a sparse M [m, n] and its explicit transpose, so that both
 * products run over rows and every row is summed in one fixed order. Of both there is one block of
 * the rows of M at a time; a row of M^T Y goes on where the block before has ended, so its sum is
 * that of a single block.
 *
 *     Y = orth(M Omega) or, where M has fewer rows than columns, Y = orth(Omega)
 *     q times: W = orth(M^T Y), Y = orth(M W)         (Halko et al., algorithm 4.4)
 *     M^T Y = W R, R = U' S V'^T, V = W U'            (algorithm 5.1, on the transpose)
 *
 * Omega is drawn on the smaller side of M. The random matrix and every intermediate one are
 * orthonormalised; otherwise powers of M lose the small singular values in float32. The last Y and
 * W need it only if they are ill-conditioned, which is rare for interactions: if not, their Gram
 * matrices in double contain all that the last line needs. */
#include "core/svd.h"

#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/qr.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"

#define SLAB (32.0 * 1024 * 1024) /* multiply-adds between two progress calls: about 10 ms */
/* Rough costs of other work in multiply-adds of the sparse product, for progress only. */
#define QR_COST   0.15 /* a multiply-add of one pass of QR */
#define DRAW_COST 1.0  /* a random number */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t block_entries = FOPO_SVD_BLOCK;

void fopo_svd_block(size_t entries) { block_entries = entries > 0 ? entries : FOPO_SVD_BLOCK; }

typedef struct {
  const fopo_svd_rows *M; /* [m, n], not owned */
  size_t blocks, size;    /* of its rows: how many, and the rows of each */
  fopo_csr Mt;            /* [n, size] the transpose of the block that was taken last */
  size_t dim;             /* L */
  size_t l;               /* columns of the sketch */
  fopo_matrix Y;          /* [m, l] */
  fopo_matrix W;          /* [n, l] */
  fopo_matrix R;          /* [l, l] */
  fopo_matrix U;          /* [l, l] left singular vectors of R */
  float *s;               /* [l] */
  double *Gy, *Gw;        /* [l, l] Gram matrices of Y and W */
  double done, total;     /* work, in multiply-adds of the sparse product */
} job;

static int report(job *j, double work) {
  j->done += work;
  return fopo_progress("finding singular vectors", j->done, j->total);
}

static int check(fopo_matrix V, const fopo_svd_rows *M, size_t dim) {
  size_t most = M->rows < M->cols ? M->rows : M->cols;
  if (most == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a matrix of %zu rows and %zu columns has no singular vectors", M->rows,
                     M->cols);
  }
  if (dim < 1 || dim > most) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "dim is %zu but a matrix of %zu rows and %zu columns has %zu singular vectors; "
        "use 1 <= dim <= %zu",
        dim, M->rows, M->cols, most, most);
  }
  if (V.rows != M->cols || V.cols != dim) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the singular vectors are [%zu, %zu] but [%zu, %zu] was given for them",
                     M->cols, dim, V.rows, V.cols);
  }
  return FOPO_OK;
}

static double product_work(const job *j, size_t rows) {
  return (double)(j->M->entries + rows) * (double)j->l;
}

static double by_columns_work(const job *j) { return product_work(j, j->blocks * j->M->cols); }

static double draw_work(const job *j, size_t rows) {
  return (double)rows * (double)j->l * DRAW_COST;
}

static double qr_work(const job *j, size_t rows) {
  return (double)rows * (double)j->l * (double)j->l * QR_COST;
}

/* The total that iterate and extract_quickly will report. A Gram matrix counts as half a pass of
 * QR, the last product as one. */
static double all_work(const job *j, size_t q) {
  size_t m = j->M->rows, n = j->M->cols;
  int on_rows = m < n;
  double y_passes = 0.5 + (double)(q - (on_rows && q > 0)), w_passes = 1.5 + (double)q;
  return draw_work(j, on_rows ? m : n) + (double)(q + !on_rows) * product_work(j, m) +
         (double)(q + 1) * by_columns_work(j) + y_passes * qr_work(j, m) + w_passes * qr_work(j, n);
}

static int init(job *j, const fopo_svd_rows *M, const fopo_svd_options *options) {
  size_t most = M->rows < M->cols ? M->rows : M->cols;
  size_t extra = options->oversample == 0 ? 10 : options->oversample;
  size_t l = options->dim + (extra < most ? extra : most);
  l = (l + 15) / 16 * 16; /* whole cache lines: rows of Y and W are gathered */
  if (l > most) l = most;
  size_t blocks = least(M->entries / block_entries + 1, M->rows);
  *j = (job){.M = M, .dim = options->dim, .l = l};
  j->size = (M->rows + blocks - 1) / blocks;
  j->blocks = (M->rows + j->size - 1) / j->size;

  uint64_t bytes = (uint64_t)(M->rows + M->cols + 2 * l) * l * sizeof(float) +
                   (uint64_t)(M->entries / j->blocks) * 2 * (M->with_values ? 8 : 4) +
                   (j->size + M->cols) * sizeof(uint64_t) + 2 * (uint64_t)l * l * sizeof(double) +
                   fopo_qr_bytes(M->rows > M->cols ? M->rows : M->cols, l);
  char what[128];
  snprintf(what, sizeof what, "the SVD of [%zu, %zu] with dim %zu", M->rows, M->cols, j->dim);
  int status = fopo_memory_suffices(bytes, what, "use a smaller dim or fewer users");
  if (status == FOPO_OK) status = fopo_matrix_init(&j->Y, M->rows, l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->W, M->cols, l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->R, l, l);
  if (status == FOPO_OK) status = fopo_matrix_init(&j->U, l, l);
  if (status != FOPO_OK) return status;
  j->s = fopo_alloc(l, sizeof *j->s);
  j->Gy = fopo_alloc(l * l, sizeof *j->Gy);
  j->Gw = fopo_alloc(l * l, sizeof *j->Gw);
  return j->s != NULL && j->Gy != NULL && j->Gw != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

static void done(job *j) {
  fopo_csr_done(&j->Mt);
  fopo_matrix_done(&j->Y);
  fopo_matrix_done(&j->W);
  fopo_matrix_done(&j->R);
  fopo_matrix_done(&j->U);
  fopo_free(j->s);
  fopo_free(j->Gy);
  fopo_free(j->Gw);
}

/* Omega [i, j] is uniform on (-1, 1) with 16 bits and depends on (seed, i, j) alone. Normals would
 * give equally good spans at many times the cost. */
static void draw_row(float *x, size_t row, size_t cols, uint64_t seed) {
  for (size_t j = 0; j < cols; j += 8) {
    fopo_words w = fopo_random(seed, FOPO_STREAM_SKETCH, (uint32_t)((uint64_t)row >> 32),
                               (uint32_t)row, (uint32_t)(j / 8));
    for (size_t k = 0; k < 8 && j + k < cols; k++) {
      uint32_t bits = w.v[k / 2] >> 16 * (k % 2) & 0xffff;
      x[j + k] = ((float)bits - 32767.5f) * (1.0f / 32768);
    }
  }
}

void fopo_svd_sketch(fopo_matrix x, size_t first, uint64_t seed) {
#pragma omp parallel for num_threads(fopo_threads())
  for (size_t i = 0; i < x.rows; i++) draw_row(fopo_matrix_row(x, i), first + i, x.cols, seed);
}

static int draw_sketch(job *j, fopo_matrix omega, uint64_t seed) {
  size_t slab = (size_t)(SLAB / DRAW_COST / (double)j->l) + 1;
  for (size_t first = 0; first < omega.rows; first += slab) {
    size_t end = omega.rows - first < slab ? omega.rows : first + slab;
    fopo_svd_sketch(fopo_matrix_rows(omega, first, end - first), first, seed);
    int status = report(j, draw_work(j, end - first));
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* C = S B or, if it adds, C += S B in slabs of rows, with progress after each. */
static int times(job *j, fopo_matrix C, const fopo_csr *S, fopo_matrix B, int adds) {
  for (size_t first = 0, end; first < S->rows; first = end) {
    double work = 0;
    for (end = first; end < S->rows && work < SLAB; end++) {
      work += (double)(fopo_csr_count(S, end) + 1) * (double)j->l;
    }
    /* Rows first .. end - 1 of S; its ids and values are addressed through indptr. */
    fopo_csr slab = fopo_csr_rows(S, first, end - first);
    int status = fopo_csr_times_dense(fopo_matrix_rows(C, first, end - first), &slab, B, adds);
    if (status == FOPO_OK) status = report(j, work);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

static size_t rows_of(const job *j, size_t b) { return least(j->size, j->M->rows - b * j->size); }

static int take(job *j, fopo_csr *block, size_t b) {
  return j->M->take(block, j->M->of, b * j->size, rows_of(j, b));
}

/* Y = M W, from the last block, where by_columns ends, to the first, where it begins. */
static int by_rows(job *j) {
  fopo_csr block;
  int status = FOPO_OK;
  for (size_t b = j->blocks; b-- > 0 && status == FOPO_OK;) {
    status = take(j, &block, b);
    fopo_matrix Y = fopo_matrix_rows(j->Y, b * j->size, rows_of(j, b));
    if (status == FOPO_OK) status = times(j, Y, &block, j->W, 0);
  }
  return status;
}

/* Mt of block b. */
static int transpose(job *j, size_t b) {
  fopo_csr block;
  if (j->blocks == 1 && j->Mt.indptr != NULL) return FOPO_OK;
  fopo_csr_done(&j->Mt);
  int status = take(j, &block, b);
  return status == FOPO_OK ? fopo_csr_transpose(&j->Mt, &block) : status;
}

/* W = M^T Y. */
static int by_columns(job *j) {
  int status = FOPO_OK;
  for (size_t b = 0; b < j->blocks && status == FOPO_OK; b++) {
    status = transpose(j, b);
    fopo_matrix Y = fopo_matrix_rows(j->Y, b * j->size, rows_of(j, b));
    if (status == FOPO_OK) status = times(j, j->W, &j->Mt, Y, b > 0);
  }
  return status;
}

/* A becomes orthonormal up to rounding; R may be {0}. */
static int orthonormalise(job *j, fopo_matrix A, fopo_matrix R) {
  int status = fopo_qr(A, R);
  return status == FOPO_OK ? report(j, 2 * qr_work(j, A.rows)) : status;
}

/* A becomes orthonormal roughly: enough between two products. */
static int separate(job *j, fopo_matrix A) {
  int status = fopo_orthonormalise_roughly(A);
  return status == FOPO_OK ? report(j, qr_work(j, A.rows)) : status;
}

/* Power iterations: Y approximates the span of the leading left singular vectors. */
static int iterate(job *j, const fopo_svd_options *options) {
  int on_rows = j->M->rows < j->M->cols;
  int status = draw_sketch(j, on_rows ? j->Y : j->W, options->seed);
  if (status == FOPO_OK && !on_rows) status = by_rows(j);
  for (size_t q = 0; status == FOPO_OK && q < options->power_iterations; q++) {
    if (q > 0 || !on_rows) status = separate(j, j->Y);
    if (status == FOPO_OK) status = by_columns(j);
    if (status == FOPO_OK) status = separate(j, j->W);
    if (status == FOPO_OK) status = by_rows(j);
  }
  return status;
}

/* largest [cols]: the entry of largest magnitude of every column; the first of equal ones. */
static void largest_entries(float *largest, fopo_matrix V) {
  memset(largest, 0, V.cols * sizeof *largest);
  for (size_t i = 0; i < V.rows; i++) {
    const float *v = fopo_matrix_row(V, i);
    for (size_t c = 0; c < V.cols; c++) {
      largest[c] = fabsf(v[c]) > fabsf(largest[c]) ? v[c] : largest[c];
    }
  }
}

/* Makes the entry of largest magnitude of every column positive. */
static int fix_signs(fopo_matrix V) {
  enum { BLOCKS = 64 };
  size_t size = (V.rows + BLOCKS - 1) / BLOCKS, cols = V.cols;
  float *largest = fopo_alloc(BLOCKS * cols, sizeof *largest);
  if (largest == NULL) return FOPO_ERR_MEMORY;
#pragma omp parallel for num_threads(fopo_threads())
  for (size_t b = 0; b < BLOCKS; b++) {
    if (b * size >= V.rows) continue;
    size_t rows = V.rows - b * size < size ? V.rows - b * size : size;
    largest_entries(largest + b * cols, fopo_matrix_rows(V, b * size, rows));
  }
  for (size_t b = 1; b < BLOCKS; b++) {
    for (size_t c = 0; c < cols; c++) {
      if (fabsf(largest[b * cols + c]) > fabsf(largest[c])) largest[c] = largest[b * cols + c];
    }
  }
  for (size_t c = 0; c < cols; c++) largest[c] = largest[c] < 0 ? -1.0f : 1.0f;
#pragma omp parallel for num_threads(fopo_threads())
  for (size_t i = 0; i < V.rows; i++) {
    float *v = fopo_matrix_row(V, i);
    for (size_t c = 0; c < cols; c++) v[c] *= largest[c];
  }
  fopo_free(largest);
  return FOPO_OK;
}

static int gram(job *j, double *G, fopo_matrix A) {
  int status = fopo_gram(G, A);
  return status == FOPO_OK ? report(j, 0.5 * qr_work(j, A.rows)) : status;
}

/* V = W C, for which Y and Mt leave room. */
static int rotate(job *j, fopo_matrix V, fopo_matrix C) {
  fopo_matrix_done(&j->Y);
  fopo_csr_done(&j->Mt);
  return fopo_gemm(V, 1.0f, j->W, 0, C, 0, 0.0f);
}

/* V = W C and s from the Gram matrices of Y and W = M^T Y. *trusted = 0: they are too
 * ill-conditioned, and V is not set. */
static int extract_quickly(job *j, fopo_matrix V, int *trusted) {
  fopo_matrix C = j->U;
  C.cols = j->dim;
  *trusted = 0;
  int status = gram(j, j->Gy, j->Y);
  if (status == FOPO_OK) status = by_columns(j);
  if (status == FOPO_OK) status = gram(j, j->Gw, j->W);
  if (status == FOPO_OK) status = fopo_svd_of_grams(C, j->s, j->Gy, j->Gw, trusted);
  return status == FOPO_OK && *trusted ? rotate(j, V, C) : status;
}

/* The same from orthonormal bases of both, for any condition. */
static int extract_carefully(job *j, fopo_matrix V) {
  const fopo_matrix none = {0};
  j->total += 2 * qr_work(j, j->Y.rows) + by_columns_work(j) + 2 * qr_work(j, j->W.rows);
  int status = orthonormalise(j, j->Y, none);
  if (status == FOPO_OK) status = by_columns(j);
  if (status == FOPO_OK) status = orthonormalise(j, j->W, j->R);
  if (status == FOPO_OK) status = fopo_svd_dense(j->U, j->s, (fopo_matrix){0}, j->R);
  if (status != FOPO_OK) return status;
  fopo_matrix leading = j->U;
  leading.cols = j->dim;
  return rotate(j, V, leading);
}

/* V and s from Y. */
static int extract(job *j, fopo_matrix V, float *s) {
  int trusted, status = extract_quickly(j, V, &trusted);
  if (status == FOPO_OK && !trusted) status = extract_carefully(j, V);
  if (status == FOPO_OK) status = fix_signs(V);
  if (status != FOPO_OK) return status;
  memcpy(s, j->s, j->dim * sizeof *s);
  return fopo_progress("finding singular vectors", j->total, j->total);
}

int fopo_svd_sparse(fopo_matrix V, float *s, const fopo_svd_rows *m,
                    const fopo_svd_options *options) {
  job j = {0};
  int status = check(V, m, options->dim);
  if (status == FOPO_OK) status = init(&j, m, options);
  if (status == FOPO_OK) {
    j.total = all_work(&j, options->power_iterations);
    status = iterate(&j, options);
  }
  if (status == FOPO_OK) status = extract(&j, V, s);
  done(&j);
  return status;
}

/* ---- dense matrices, by LAPACK ---- */

/* LAPACK is column-major, so it sees the transpose of a row-major matrix, and the factors are
 * swapped; nothing is copied only to be transposed. */

#define GRAM_LEAST 1e-3 /* Gram matrices are trusted up to 1 over this condition number */

static size_t most(size_t a, size_t b) { return a > b ? a : b; }
static int stride(fopo_matrix m) { return (int)most(m.ld, 1); }

/* ---- by Gram matrices ---- */

typedef struct {
  size_t n;
  double *values, *work; /* [n]; [work_size] */
  int *indices;          /* [5 n + 3] */
  double *X;             /* [n, columns] */
} gram_scratch;

enum {
  GRAM_WORK = 2,        /* LAPACK: 1 + 6 n + 2 n^2 for all eigenvectors, */
  WIDEST_GRAM = 1 << 14 /* counted by an int */
};

/* H = T^-T H T^-1, H symmetric and given by its upper part. */
static void divide_both(double *H, const double *T, int n) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) H[i * n + j] = H[j * n + i];
  }
  cblas_dtrsm(CblasRowMajor, CblasRight, CblasUpper, CblasNoTrans, CblasNonUnit, n, n, 1.0, T, n, H,
              n);
  cblas_dtrsm(CblasRowMajor, CblasLeft, CblasUpper, CblasTrans, CblasNonUnit, n, n, 1.0, T, n, H,
              n);
}

/* Gy becomes its Cholesky factor T; returns 1 over the condition number of T in the 1-norm, 0 if
 * there is no T. */
static double triangle(double *Gy, gram_scratch *scratch) {
  int n = (int)scratch->n;
  double rest = 0;
  if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', n, Gy, n) != 0) return 0;
  LAPACKE_dtrcon_work(LAPACK_COL_MAJOR, '1', 'L', 'N', n, Gy, n, &rest, scratch->work,
                      scratch->indices);
  return rest;
}

/* See fopo_svd_of_grams; Gy becomes T, Gw the eigenvectors. */
static int svd_of_grams(fopo_matrix C, float *s, double *Gy, double *Gw, gram_scratch *scratch,
                        int *trusted) {
  int n = (int)scratch->n, work_size = 1 + 6 * n + GRAM_WORK * n * n;
  size_t columns = C.cols;
  *trusted = 0;
  double rest = triangle(Gy, scratch);
  if (!(rest > 0)) return FOPO_OK;
  divide_both(Gw, Gy, n);
  /* T^-T Gw T^-1 = U diag(s^2) U^T. Eigenvector j is column j for LAPACK, row j here; eigenvalues
   * ascend. */
  if (LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'U', n, Gw, n, scratch->values, scratch->work,
                          work_size, scratch->indices, 5 * n + 3) != 0) {
    return FOPO_OK;
  }
  double most_value = scratch->values[n - 1], least_value = scratch->values[scratch->n - columns];
  if (!(least_value > 0) || !(rest * sqrt(least_value / most_value) > GRAM_LEAST)) return FOPO_OK;
  *trusted = 1;
  for (size_t k = 0; k < columns; k++) {
    size_t from = scratch->n - 1 - k;
    double value = sqrt(scratch->values[from]);
    s[k] = (float)value;
    for (size_t i = 0; i < scratch->n; i++) {
      scratch->X[i * columns + k] = Gw[from * scratch->n + i] / value;
    }
  }
  /* C = T^-1 U diag(1 / s). */
  cblas_dtrsm(CblasRowMajor, CblasLeft, CblasUpper, CblasNoTrans, CblasNonUnit, n, (int)columns,
              1.0, Gy, n, scratch->X, (int)columns);
  for (size_t i = 0; i < scratch->n; i++) {
    for (size_t k = 0; k < columns; k++) C.x[i * C.ld + k] = (float)scratch->X[i * columns + k];
  }
  return FOPO_OK;
}

int fopo_svd_of_grams(fopo_matrix C, float *s, double *Gy, double *Gw, int *trusted) {
  size_t n = C.rows;
  *trusted = 0;
  if (n > WIDEST_GRAM) return FOPO_OK;
  fopo_threads(); /* limits BLAS to one thread */
  gram_scratch scratch = {.n = n};
  scratch.values = fopo_alloc(n, sizeof(double));
  scratch.work = fopo_alloc(1 + 6 * n + GRAM_WORK * n * n, sizeof(double));
  scratch.indices = fopo_alloc(5 * n + 3, sizeof(int));
  scratch.X = fopo_alloc(n * C.cols, sizeof(double));
  int whole = scratch.values != NULL && scratch.work != NULL && scratch.indices != NULL &&
              scratch.X != NULL;
  int status = whole ? svd_of_grams(C, s, Gy, Gw, &scratch, trusted) : FOPO_ERR_MEMORY;
  fopo_free(scratch.values);
  fopo_free(scratch.work);
  fopo_free(scratch.indices);
  fopo_free(scratch.X);
  return status;
}

/* ---- of a matrix ---- */

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
static int svd_with_outputs(fopo_matrix U, float *s, fopo_matrix Vt, fopo_matrix A, int *indices) {
  int m = (int)A.rows, n = (int)A.cols;
  float size;
  LAPACKE_sgesdd_work(LAPACK_COL_MAJOR, 'S', n, m, A.x, stride(A), s, Vt.x, stride(Vt), U.x,
                      stride(U), &size, -1, indices);
  int work_size = (int)((double)size * 1.001) + 64; /* LAPACK returns the size as a float */
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
  fopo_threads(); /* limits BLAS to one thread */
  fopo_matrix temporary_u = {0}, temporary_vt = {0};
  float *temporary_s = NULL;
  int *indices = fopo_alloc(8 * r, sizeof *indices);
  if (indices == NULL) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK && U.x == NULL) status = fopo_matrix_init(&temporary_u, A.rows, r);
  if (status == FOPO_OK && Vt.x == NULL) status = fopo_matrix_init(&temporary_vt, r, A.cols);
  if (status == FOPO_OK && s == NULL) {
    temporary_s = fopo_alloc(r, sizeof *temporary_s);
    if (temporary_s == NULL) status = FOPO_ERR_MEMORY;
  }
  if (status == FOPO_OK) {
    status = svd_with_outputs(U.x == NULL ? temporary_u : U, s == NULL ? temporary_s : s,
                              Vt.x == NULL ? temporary_vt : Vt, A, indices);
  }
  fopo_matrix_done(&temporary_u);
  fopo_matrix_done(&temporary_vt);
  fopo_free(temporary_s);
  fopo_free(indices);
  return status;
}
