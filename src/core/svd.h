/* Truncated singular value decomposition of a sparse matrix by random projection with power
 * iterations (Halko, Martinsson, Tropp: "Finding structure with randomness", SIAM Review 2011,
 * algorithms 4.4 and 5.1). */
#ifndef FOPO_CORE_SVD_H
#define FOPO_CORE_SVD_H

#include "core/csr.h"
#include "core/matrix.h"

typedef struct {
  size_t dim;              /* L: singular vectors wanted, 1 <= dim <= min(rows, cols) */
  size_t oversample;       /* extra columns of the sketch; 0: 10 */
  size_t power_iterations; /* 2 to 7 is usual; each costs two passes over M */
  uint64_t seed;
} fopo_svd_options;

/* M [rows, cols] by blocks of its rows, of which no more than one need be held. */
typedef struct {
  size_t rows, cols;
  size_t entries;  /* that is, at most so many */
  int with_values; /* 0: all are 1 */
  /* *block: rows first .. first + n - 1, valid until the next is taken; not owned. */
  int (*take)(fopo_csr *block, void *of, size_t first, size_t n);
  void *of;
} fopo_svd_rows;

/* Entries of a block, about: 0.5 GB of ids, and as much of their transpose. A matrix of no more is
 * one block, which is transposed once; others are in each product with M^T. */
#define FOPO_SVD_BLOCK ((size_t)1 << 27)

/* For tests: another size of the blocks; 0: FOPO_SVD_BLOCK. */
void fopo_svd_block(size_t entries);

/* V [cols, dim] the right singular vectors (columns), s [dim] singular values, descending. Signs
 * are fixed: the entry of largest magnitude of each vector is positive. If dim exceeds the rank of
 * M, the singular values beyond it are rounding errors, and the columns of V are still orthonormal.
 * Estimates its memory first, reports progress, can be interrupted (V and s are then unspecified).
 * The same bits for any number of threads, and of blocks. */
int fopo_svd_sparse(fopo_matrix V, float *s, const fopo_svd_rows *m,
                    const fopo_svd_options *options);

/* The random start of the iteration: x [i, j] of row first + i is uniform on (-1, 1) and a function
 * of (seed, row, j) alone. */
void fopo_svd_sketch(fopo_matrix x, size_t first, uint64_t seed);

/* ---- dense matrices, and products given by their Gram matrices ---- */

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
