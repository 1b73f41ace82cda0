/* Least squares by normal equations in double: sums of outer products, and Cholesky's solution. */
#ifndef FOPO_CORE_SOLVE_H
#define FOPO_CORE_SOLVE_H

#include <stddef.h>

static inline double fopo_solve_dot(const double *a, const double *b, size_t n) {
  double sum = 0.0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

/* G [M, M] += Phi^T Phi (its upper triangle) and g [M] += Phi^T y for n rows of Phi [n, M], on the
 * calling thread alone. g or y NULL: G only. */
void fopo_gram_add(double *G, double *g, const double *Phi, const double *y, size_t n, size_t M);

/* x [M] = A^-1 x for a symmetric positive definite A [M, M], of which the upper triangle is read;
 * A is destroyed. FOPO_ERR_NUMERIC if it is not positive definite. */
int fopo_solve_spd(double *x, double *A, size_t M);

/* The same for another x, by what fopo_solve_spd has left in A. */
void fopo_solve_again(double *x, const double *A, size_t M);

/* The upper triangle of a symmetric positive definite A [M, M] becomes that of its inverse; what is
 * below is undefined. FOPO_ERR_NUMERIC if A is not positive definite. */
int fopo_invert_spd(double *A, size_t M);

/* values [M] ascending, and the rows of A [M, M] become their eigenvectors; of a symmetric A the
 * upper triangle is read. FOPO_ERR_NUMERIC if its numbers are not finite. */
int fopo_eigen(double *values, double *A, size_t M);

#endif
