/* Factorisations of dense matrices: QR and SVD, the only calls of LAPACK. Results are independent
 * of fopo_threads(). */
#ifndef FOPO_CORE_FACTOR_H
#define FOPO_CORE_FACTOR_H

#include "core/matrix.h"

/* A = Q R: A [m, n], m >= n, becomes Q with orthonormal columns; R [n, n], upper triangular, may be
 * {0}. A may have any rank: Q is completed by further orthonormal columns.
 * Tall matrices: Cholesky QR twice, the Gram matrix in double (Fukaya et al.: "CholeskyQR2", ScalA
 * 2014); small or ill-conditioned ones: Householder in blocks of rows and a tree over them (TSQR;
 * Demmel, Grigori, Hoemmen, Langou, SIAM J. Sci. Comput. 2012). Threaded, can be interrupted. */
int fopo_qr(fopo_matrix A, fopo_matrix R);

/* A [m, n], m >= n, becomes an orthonormal basis of its columns: fopo_qr without R. */
int fopo_orthonormalise(fopo_matrix A);

/* The same in half the time, orthonormal only up to about 1e-7 times the condition number of A:
 * enough between the steps of a power iteration. */
int fopo_orthonormalise_roughly(fopo_matrix A);

/* Bytes that the functions above and fopo_gram take beside a tall A [m, n]. */
uint64_t fopo_qr_bytes(size_t m, size_t n);

/* G [n, n], row-major: the upper part becomes that of A^T A, summed in double. */
int fopo_gram(double *G, fopo_matrix A);

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
