/* Products of matrices in the training step and wherever scores are made: by the kernel `product`,
 * which gives the same bits on every x86-64 CPU with AVX2, where BLAS has other sums for other
 * kinds of CPU. A table without that kernel leaves them to BLAS. */
#ifndef FOPO_KERNELS_PRODUCT_H
#define FOPO_KERNELS_PRODUCT_H

#include "core/matrix.h"

/* As fopo_gemm: C = alpha op(A) op(B) + beta C, threaded, checked, and interrupted if it is long.
 */
int fopo_product(fopo_matrix C, float alpha, fopo_matrix A, int transpose_a, fopo_matrix B,
                 int transpose_b, float beta);

/* As fopo_gemm_tile: on the calling thread alone, unchecked. */
void fopo_product_tile(fopo_matrix C, float alpha, fopo_matrix A, int transpose_a, fopo_matrix B,
                       int transpose_b, float beta);

#endif
