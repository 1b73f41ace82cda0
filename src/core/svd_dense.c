/* SVD of dense matrices. LAPACK is column-major, so it sees the transpose of a row-major matrix,
 * and the factors are swapped; nothing is copied only to be transposed. */
#include "core/svd_dense.h"

#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"

#define GRAM_LEAST 1e-3 /* Gram matrices are trusted up to 1 over this condition number */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
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
