/* flags x86_64: -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma */
/* Products of matrices for AVX-512: blocks of 12 rows times 32 columns. */
#include "kernels/kernels_tables.h"

#if defined(__AVX512F__)

#include <immintrin.h>

enum { FLOATS = 16, ROWS = 12 };
typedef __m512 vector;

INLINE vector zero(void) { return _mm512_setzero_ps(); }
INLINE vector each(float x) { return _mm512_set1_ps(x); }
INLINE vector load(const float *x) { return _mm512_loadu_ps(x); }
INLINE void store(float *x, vector v) { _mm512_storeu_ps(x, v); }
INLINE vector multiply_add(vector x, vector y, vector z) { return _mm512_fmadd_ps(x, y, z); }

INLINE __mmask16 first_lanes(size_t n) { return (__mmask16)((1u << n) - 1u); }
INLINE vector load_first(const float *x, size_t n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), x);
}
INLINE void store_first(float *x, vector v, size_t n) {
  _mm512_mask_storeu_ps(x, first_lanes(n), v);
}

#include "kernels/kernels_product.h"

void fopo_product_avx512(const fopo_product_task *o) { product(o); }

#endif
