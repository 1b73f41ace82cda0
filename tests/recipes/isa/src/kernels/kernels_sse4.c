/* flags x86_64: -msse4.1 */
/* The kernels for SSE4.1, as an example: sums of products and of scaled rows, 4 floats at a time.
 * All other kernels stay those of the base, the portable ones. */
#include "kernels/kernels_tables.h"

#if defined(__SSE4_1__)

#include <smmintrin.h>

static float dot(const float *a, const float *b, size_t n) {
  __m128 sums = _mm_setzero_ps();
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    sums = _mm_add_ps(sums, _mm_mul_ps(_mm_loadu_ps(a + i), _mm_loadu_ps(b + i)));
  }
  float lanes[4];
  _mm_storeu_ps(lanes, sums);
  float sum = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  for (; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static void axpy(float *y, float a, const float *x, size_t n) {
  __m128 scale = _mm_set1_ps(a);
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    _mm_storeu_ps(y + i, _mm_add_ps(_mm_loadu_ps(y + i), _mm_mul_ps(scale, _mm_loadu_ps(x + i))));
  }
  for (; i < n; i++) y[i] += a * x[i];
}

FOPO_KERNELS_FILL(sse4, table) {
  table->dot = dot;
  table->axpy = axpy;
  return 1;
}

#else

FOPO_KERNELS_FILL(sse4, table) {
  (void)table;
  return 0;
}

#endif
