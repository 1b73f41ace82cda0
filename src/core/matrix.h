/* Dense float32 matrices: views that own nothing, and the products of BLAS. Those of a training are
 * fopo_product's (kernels/product.h), which have the same bits on more machines.
 *
 * A view is row-major: element (i, j) is x[i * ld + j]. Sizes are checked here, once; the kernels
 * inside cannot fail. All results are independent of fopo_threads(). */
#ifndef FOPO_CORE_MATRIX_H
#define FOPO_CORE_MATRIX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  float *x; /* [rows, cols] with stride ld; not owned */
  size_t rows;
  size_t cols;
  size_t ld; /* >= cols */
} fopo_matrix;

/* Allocates a zeroed [rows, cols] with ld == cols, to be freed by fopo_matrix_done. On failure *m
 * is {0}. */
int fopo_matrix_init(fopo_matrix *m, size_t rows, size_t cols);
void fopo_matrix_done(fopo_matrix *m); /* frees x, zeroes the view; accepts {0} */

static inline fopo_matrix fopo_matrix_view(float *x, size_t rows, size_t cols) {
  fopo_matrix m = {x, rows, cols, cols};
  return m;
}

/* A view of values that are only read: fopo_matrix has no const. */
static inline fopo_matrix fopo_matrix_const_view(const float *x, size_t rows, size_t cols) {
  fopo_matrix m = {NULL, rows, cols, cols};
  memcpy(&m.x, &x, sizeof x);
  return m;
}

/* The kind of processor that OpenBLAS has chosen its kernels for ("Zen"): those of two kinds differ
 * by rounding. OPENBLAS_CORETYPE forces one at the start. "" of another BLAS. */
const char *fopo_matrix_processor(void);

/* Rows first .. first + count - 1. */
static inline fopo_matrix fopo_matrix_rows(fopo_matrix m, size_t first, size_t count) {
  fopo_matrix part = {m.x + first * m.ld, count, m.cols, m.ld};
  return part;
}

static inline float *fopo_matrix_row(fopo_matrix m, size_t i) { return m.x + i * m.ld; }

/* C = alpha op(A) op(B) + beta C; op is the transpose if the flag is 1. Threaded over tiles of C.
 * FOPO_ERR_ARGUMENT names both shapes if they do not fit. A product of more than 2^31 multiply-adds
 * can be interrupted; smaller ones always finish. */
int fopo_gemm(fopo_matrix C, float alpha, fopo_matrix A, int transpose_a, fopo_matrix B,
              int transpose_b, float beta);

/* One tile on the calling thread alone, unchecked: for loops that are parallel already. */
typedef void fopo_gemm_tile_of(fopo_matrix C, float alpha, fopo_matrix A, int transpose_a,
                               fopo_matrix B, int transpose_b, float beta);
fopo_gemm_tile_of fopo_gemm_tile;

/* fopo_gemm whose tiles another function makes (kernels/product.h). */
int fopo_gemm_by(fopo_gemm_tile_of *tile, fopo_matrix C, float alpha, fopo_matrix A,
                 int transpose_a, fopo_matrix B, int transpose_b, float beta);

/* FOPO_OK if every value is finite, else FOPO_ERR_NUMERIC naming `what`, row and column
 * (1-based) and the value. */
int fopo_matrix_finite(fopo_matrix m, const char *what);

/* Sum of the squares in double, serial order. */
double fopo_matrix_norm2(fopo_matrix m);

#endif
