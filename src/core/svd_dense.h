/* Singular value decomposition of dense matrices, and of products that are given by their Gram
 * matrices. Results are independent of fopo_threads(). */
#ifndef FOPO_CORE_SVD_DENSE_H
#define FOPO_CORE_SVD_DENSE_H

#include "core/matrix.h"

/* For Y = Q T with Q orthonormal, and W = M^T Y, given by Gy = Y^T Y and Gw = W^T W [n, n] (upper
 * parts; both are destroyed): the columns of W C, C [n, dim], are the leading right singular
 * vectors of Q^T M and s [dim] its singular values:
 *
 *     Gy = T^T T,   T^-T Gw T^-1 = U diag(s^2) U^T,   C = T^-1 U diag(1 / s)
 *
 * *trusted = 0, and C and s are not set, if Y or the product is so ill-conditioned that squaring it
 * and rounding W to float would cost accuracy. */
int fopo_svd_of_grams(fopo_matrix C, float *s, double *Gy, double *Gw, int *trusted);

/* A [m, n] = U diag(s) Vt, thin, r = min(m, n): U [m, r], s [r] descending, Vt [r, n]; each output
 * may be {0} / NULL. A is destroyed. */
int fopo_svd_dense(fopo_matrix U, float *s, fopo_matrix Vt, fopo_matrix A);

#endif
