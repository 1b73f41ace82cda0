/* flags x86_64: -mavx2 -mfma -mf16c */
/* The kernels of a shared head for AVX2 with FMA: columns of a panel in vectors of 8. */
#include "kernels/kernels_tables.h"

#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

#include "kernels/kernels_exp.h"

/* 8 columns of x [count, width] */
void fopo_max_columns_avx2(float *most, const float *x, size_t count, size_t width) {
  for (size_t j = 0; j < width; j += 8) {
    __m256 m = _mm256_loadu_ps(x + j);
    for (size_t s = 1; s < count; s++) m = _mm256_max_ps(m, _mm256_loadu_ps(x + s * width + j));
    _mm256_storeu_ps(most + j, m);
  }
}

void fopo_exp_columns_avx2(float *x, float *sum, float *squares, const float *shift, size_t count,
                           size_t width) {
  for (size_t j = 0; j < width; j += 8) {
    __m256 least = _mm256_loadu_ps(shift + j);
    __m256 sums = _mm256_setzero_ps(), squared = _mm256_setzero_ps();
    for (size_t s = 0; s < count; s++) {
      float *at = x + s * width + j;
      __m256 w = exponential8(_mm256_sub_ps(_mm256_loadu_ps(at), least));
      _mm256_storeu_ps(at, w);
      sums = _mm256_add_ps(sums, w);
      squared = _mm256_fmadd_ps(w, w, squared);
    }
    _mm256_storeu_ps(sum + j, sums);
    _mm256_storeu_ps(squares + j, squared);
  }
}

/* `dims` numbers of every row times 16 columns of the panel w [count, width]: 2 dims vectors of
 * sums in registers. v has the same width. */
INLINE void add_block(float *v, const float *rows, size_t ld, const float *w, size_t count,
                      size_t width, const int dims) {
  __m256 sum[12];
#pragma GCC unroll 6
  for (int i = 0; i < dims; i++) {
    sum[2 * i] = _mm256_loadu_ps(v + (size_t)i * width);
    sum[2 * i + 1] = _mm256_loadu_ps(v + (size_t)i * width + 8);
  }
#pragma GCC unroll 1
  for (size_t s = 0; s < count; s++, rows += ld, w += width) {
    __m256 low = _mm256_loadu_ps(w), high = _mm256_loadu_ps(w + 8);
#pragma GCC unroll 6
    for (int i = 0; i < dims; i++) {
      __m256 x = _mm256_set1_ps(rows[i]);
      sum[2 * i] = _mm256_fmadd_ps(x, low, sum[2 * i]);
      sum[2 * i + 1] = _mm256_fmadd_ps(x, high, sum[2 * i + 1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < dims; i++) {
    _mm256_storeu_ps(v + (size_t)i * width, sum[2 * i]);
    _mm256_storeu_ps(v + (size_t)i * width + 8, sum[2 * i + 1]);
  }
}

void fopo_add_products_avx2(float *v, const float *rows, size_t ld, const float *w, size_t count,
                            size_t dim, size_t width) {
  size_t i = 0;
  for (; i + 6 <= dim; i += 6) {
    for (size_t j = 0; j < width; j += 16) {
      add_block(v + i * width + j, rows + i, ld, w + j, count, width, 6);
    }
  }
  for (; i < dim; i++) {
    for (size_t j = 0; j < width; j += 16) {
      add_block(v + i * width + j, rows + i, ld, w + j, count, width, 1);
    }
  }
}

#endif
