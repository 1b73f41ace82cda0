/* Normal equations by BLAS and LAPACK. Row-major upper is LAPACK's lower: nothing is transposed. */
#include "core/solve.h"

#include <cblas.h>
#include <lapacke.h>

#include "core/memory.h"
#include "core/status.h"

void fopo_gram_add(double *G, double *g, const double *Phi, const double *y, size_t n, size_t M) {
  int m = (int)M, rows = (int)n;
  if (rows == 0 || m == 0) return;
  cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, m, rows, 1.0, Phi, m, 1.0, G, m);
  if (g == NULL || y == NULL) return;
  cblas_dgemv(CblasRowMajor, CblasTrans, rows, m, 1.0, Phi, m, y, 1, 1.0, g, 1);
}

int fopo_solve_spd(double *x, double *A, size_t M) {
  int m = (int)M;
  if (m == 0) return FOPO_OK;
  if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', m, A, m) != 0 ||
      LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'L', m, 1, A, m, x, m) != 0) {
    return fopo_fail(FOPO_ERR_NUMERIC,
                     "the normal equations of %zu parameters have no unique solution; use a larger "
                     "lambda, or fewer parameters",
                     M);
  }
  return FOPO_OK;
}

void fopo_solve_again(double *x, const double *A, size_t M) {
  int m = (int)M;
  cblas_dtrsv(CblasColMajor, CblasLower, CblasNoTrans, CblasNonUnit, m, A, m, x, 1);
  cblas_dtrsv(CblasColMajor, CblasLower, CblasTrans, CblasNonUnit, m, A, m, x, 1);
}

int fopo_invert_spd(double *A, size_t M) {
  int m = (int)M;
  if (m == 0) return FOPO_OK;
  if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', m, A, m) != 0 ||
      LAPACKE_dpotri_work(LAPACK_COL_MAJOR, 'L', m, A, m) != 0) {
    return fopo_fail(FOPO_ERR_NUMERIC,
                     "a matrix of %zu x %zu is not positive definite and has no inverse; use a "
                     "larger l2",
                     M, M);
  }
  return FOPO_OK;
}

int fopo_eigen(double *values, double *A, size_t M) {
  int m = (int)M, places = 3 + 5 * m, room = 1 + 6 * m + 2 * m * m, info = 0;
  double *work = fopo_alloc((size_t)room, sizeof *work);
  int *list = fopo_alloc((size_t)places, sizeof *list);
  int status = work != NULL && list != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK && m > 0) {
    info =
        LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'L', m, A, m, values, work, room, list, places);
  }
  fopo_free(work);
  fopo_free(list);
  return info == 0 ? status
                   : fopo_fail(FOPO_ERR_NUMERIC,
                               "a matrix of %zu x %zu has no eigenvalues; its numbers may not be "
                               "finite: use a larger l2",
                               M, M);
}
