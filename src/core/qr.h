/* QR of dense matrices. Results are independent of fopo_threads(). */
#ifndef FOPO_CORE_QR_H
#define FOPO_CORE_QR_H

#include "core/matrix.h"

/* A = Q R: A [m, n], m >= n, becomes Q with orthonormal columns; R [n, n], upper triangular, may be
 * {0}. A may have any rank: Q is completed by further orthonormal columns.
 * Tall matrices: Cholesky QR twice, the Gram matrix in double (Fukaya et al.: "CholeskyQR2", ScalA
 * 2014); small or ill-conditioned ones: Householder in blocks of rows and a tree over them (TSQR;
 * Demmel, Grigori, Hoemmen, Langou, SIAM J. Sci. Comput. 2012). Threaded, can be interrupted. */
int fopo_qr(fopo_matrix A, fopo_matrix R);

/* fopo_qr without R in half the time, orthonormal only up to about 1e-7 times the condition number
 * of A: enough between the steps of a power iteration. */
int fopo_orthonormalise_roughly(fopo_matrix A);

/* Bytes that the functions above and fopo_gram take beside a tall A [m, n]. */
uint64_t fopo_qr_bytes(size_t m, size_t n);

/* G [n, n], row-major: the upper part becomes that of A^T A, summed in double. */
int fopo_gram(double *G, fopo_matrix A);

#endif
