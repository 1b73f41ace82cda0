/* What the prompt computes with arrays: operations element by element with broadcasting, reductions
 * of rows and columns, transposes. The rows of kernels/arrays.def name the operations.
 *
 * Sums are in double, in an order that the sizes alone decide. What may be long can be interrupted
 * and is FOPO_ERR_INTERRUPTED then. */
#ifndef FOPO_KERNELS_ARRAYS_H
#define FOPO_KERNELS_ARRAYS_H

#include "core/matrix.h"

enum { FOPO_OPERANDS = 3 }; /* most operands of an operation */

typedef enum {
#define OP(name, operands, value) FOPO_OP_##name,
#include "kernels/arrays.def"
  FOPO_OPS
} fopo_op;

typedef enum {
#define REDUCTION(name, type, start, term, sum, result) FOPO_REDUCTION_##name,
#include "kernels/arrays.def"
  FOPO_REDUCTION_logsumexp
} fopo_reduction;

size_t fopo_op_operands(fopo_op op);

/* The shape of the result of n operands: sizes are equal, or 1, which stands for all rows or all
 * columns. FOPO_ERR_ARGUMENT names both shapes, of "a", "b", "c", if they do not fit. */
int fopo_broadcast(size_t *rows, size_t *cols, const fopo_matrix *x, size_t n);

/* y [rows, cols], of the shape that fopo_broadcast says, and no operand. */
int fopo_elementwise(float *y, size_t rows, size_t cols, fopo_op op, const fopo_matrix *x);

/* y [x.rows], of each row; y [x.cols], of each column; and of all numbers of a matrix without gaps.
 * logsumexp has rows alone. */
int fopo_reduce_rows(float *y, fopo_reduction op, fopo_matrix x);
int fopo_reduce_columns(float *y, fopo_reduction op, fopo_matrix x);
int fopo_reduce_all(double *y, fopo_reduction op, fopo_matrix x);

/* The place of the largest number of each row, y [x.rows]; the first of equal ones. NaN is larger
 * than all others. x.cols > 0. */
int fopo_largest_places(uint32_t *y, fopo_matrix x);

/* y [x.rows, x.cols]: exp(x) / sum exp(x) of each row; the sums of a row up to each number. */
int fopo_softmax_rows(float *y, fopo_matrix x);
int fopo_cumsum_rows(float *y, fopo_matrix x);

/* y [x.cols, x.rows] = x^T, of any elements of 4 bytes. */
int fopo_transpose(void *y, const void *x, size_t rows, size_t cols);

#endif
