/* The norm of a vector with the same bits on every machine. */
#ifndef FOPO_CORE_NORM_H
#define FOPO_CORE_NORM_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FOPO_NORM_LANES = 8 }; /* partial sums */

/* They are held in vectors as wide as the instruction set has. */
#if defined(__AVX__)
enum { FOPO_NORM_VECTOR = 4 };
#else
enum { FOPO_NORM_VECTOR = 2 };
#endif
enum { FOPO_NORM_VECTORS = FOPO_NORM_LANES / FOPO_NORM_VECTOR };
typedef float fopo_norm_floats __attribute__((vector_size(FOPO_NORM_VECTOR * sizeof(float))));
typedef double fopo_norm_doubles __attribute__((vector_size(FOPO_NORM_VECTOR * sizeof(double))));

/* The partial sums, added as a tree; lane l holds the squares of the numbers l, l + 8, .. */
static inline double fopo_norm_of_lanes(const double *sum) {
  return sqrt(((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7])));
}

static inline void fopo_norm_add(fopo_norm_doubles *sum, const float *x) {
#pragma GCC unroll 4
  for (size_t v = 0; v < FOPO_NORM_VECTORS; v++) {
    fopo_norm_floats part;
    memcpy(&part, x + v * FOPO_NORM_VECTOR, sizeof part);
    fopo_norm_doubles wide = __builtin_convertvector(part, fopo_norm_doubles);
    sum[v] += wide * wide;
  }
}

/* |x|, x [n], summed in double in the same order on every instruction set. The product of two
 * floats is exact in double, so a fused multiply-add gives the same bits. It is not finite if and
 * only if a value is not. */
static inline double fopo_norm(const float *x, size_t n) {
  fopo_norm_doubles sum[FOPO_NORM_VECTORS] = {{0}};
  float rest[FOPO_NORM_LANES] = {0};
  for (; n >= FOPO_NORM_LANES; n -= FOPO_NORM_LANES, x += FOPO_NORM_LANES) fopo_norm_add(sum, x);
  for (size_t l = 0; l < n; l++) rest[l] = x[l];
  fopo_norm_add(sum, rest);
  double lanes[FOPO_NORM_LANES];
  memcpy(lanes, sum, sizeof lanes);
  return fopo_norm_of_lanes(lanes);
}

/* The smallest float >= x, x >= 0: for norms that are used as upper bounds. */
static inline float fopo_norm_up(double x) {
  float near = (float)x;
  uint32_t bits;
  memcpy(&bits, &near, sizeof bits);
  bits += (double)near < x; /* the next float, because near >= 0 */
  memcpy(&near, &bits, sizeof near);
  return near;
}

#endif
