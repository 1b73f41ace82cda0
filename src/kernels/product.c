#include "kernels/product.h"

#include "kernels/kernels.h"

void fopo_product_tile(fopo_matrix C, float alpha, fopo_matrix A, int transpose_a, fopo_matrix B,
                       int transpose_b, float beta) {
  const fopo_kernels *k = fopo_kernels_get();
  if (k->product == NULL) {
    fopo_gemm_tile(C, alpha, A, transpose_a, B, transpose_b, beta);
    return;
  }
  fopo_product_task task = {.c = C.x, .a = A.x, .b = B.x, .ldc = C.ld, .lda = A.ld, .ldb = B.ld};
  task.m = C.rows, task.n = C.cols, task.k = transpose_a ? A.rows : A.cols;
  task.transpose_a = transpose_a, task.transpose_b = transpose_b;
  task.alpha = alpha, task.beta = beta;
  k->product(&task);
}

int fopo_product(fopo_matrix C, float alpha, fopo_matrix A, int transpose_a, fopo_matrix B,
                 int transpose_b, float beta) {
  return fopo_gemm_by(fopo_product_tile, C, alpha, A, transpose_a, B, transpose_b, beta);
}
