#include "judge/directions.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/svd.h"

enum { COLUMNS_MOST = 8192 }; /* their Gram matrix is 256 MB */

int fopo_directions_find(float **basis, size_t *d, fopo_matrix X, size_t dim, const char *what) {
  fopo_matrix G = {0}, V = {0};
  float *s = NULL;
  size_t m = X.cols;
  *basis = NULL;
  *d = 0;
  if (m > COLUMNS_MOST) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the %s have %zu columns; a model is fitted to at most %d",
                     what, m, COLUMNS_MOST);
  }
  int status = fopo_matrix_finite(X, what);
  if (status == FOPO_OK) status = fopo_matrix_init(&G, m, m);
  if (status == FOPO_OK) status = fopo_matrix_init(&V, m, m);
  if (status == FOPO_OK && (s = fopo_alloc(m, sizeof *s)) == NULL) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = fopo_gemm(G, 1.0f / (float)X.rows, X, 1, X, 0, 0.0f);
  if (status == FOPO_OK) status = fopo_svd_dense((fopo_matrix){0}, s, V, G);
  if (status != FOPO_OK) goto out;
  size_t kept = 0;
  double sum = 0.0;
  while (kept < m && kept < dim && s[kept] > 1e-6f * s[0]) sum += (double)s[kept++];
  float scale = kept > 0 ? (float)(1.0 / sqrt(sum / (double)kept)) : 1.0f;
  *basis = fopo_alloc(kept * m, sizeof **basis);
  if (*basis == NULL) {
    status = FOPO_ERR_MEMORY;
    goto out;
  }
  for (size_t i = 0; i < kept * m; i++) (*basis)[i] = V.x[i] * scale;
  *d = kept;
out:
  fopo_matrix_done(&G);
  fopo_matrix_done(&V);
  fopo_free(s);
  return status;
}

int fopo_directions_along(fopo_matrix *out, fopo_matrix X, const float *basis, size_t d) {
  int status = fopo_matrix_init(out, X.rows, d + 1);
  fopo_matrix left = *out, directions = {NULL, d, X.cols, X.cols};
  memcpy(&directions.x, &basis, sizeof basis);
  left.cols = d;
  if (status == FOPO_OK && d > 0) status = fopo_gemm(left, 1.0f, X, 0, directions, 1, 0.0f);
  for (size_t i = 0; i < out->rows && status == FOPO_OK; i++) fopo_matrix_row(*out, i)[d] = 1.0f;
  return status;
}
