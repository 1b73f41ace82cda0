/* flags x86_64: -mavx2 -mfma -mf16c */
/* Products of matrices for AVX2 with FMA: blocks of 6 rows times 16 columns. */
#include "kernels/kernels_tables.h"

#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

enum { FLOATS = 8, ROWS = 6 };
typedef __m256 vector;

INLINE vector zero(void) { return _mm256_setzero_ps(); }
INLINE vector each(float x) { return _mm256_set1_ps(x); }
INLINE vector load(const float *x) { return _mm256_loadu_ps(x); }
INLINE void store(float *x, vector v) { _mm256_storeu_ps(x, v); }
INLINE vector multiply_add(vector x, vector y, vector z) { return _mm256_fmadd_ps(x, y, z); }

INLINE __m256i first_lanes(size_t n) {
  static const int32_t ramp[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
  return _mm256_loadu_si256((const __m256i *)(const void *)(ramp + 8 - n));
}
INLINE vector load_first(const float *x, size_t n) { return _mm256_maskload_ps(x, first_lanes(n)); }
INLINE void store_first(float *x, vector v, size_t n) { _mm256_maskstore_ps(x, first_lanes(n), v); }

#include "kernels/kernels_product.h"

void fopo_product_avx2(const fopo_product_task *o) { product(o); }

#endif
