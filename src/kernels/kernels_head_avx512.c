/* flags x86_64: -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma */
/* The kernels of a shared head for AVX-512: columns of a panel in vectors of 16. */
#include "kernels/kernels_tables.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)

#include <immintrin.h>

#include "kernels/kernels_exp.h"

INLINE void max_panel(float *most, const float *x, size_t count, const int vectors) {
  __m512 m[2];
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++) m[v] = _mm512_loadu_ps(x + 16 * v);
  for (size_t s = 1; s < count; s++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      m[v] = _mm512_max_ps(m[v], _mm512_loadu_ps(x + (s * (size_t)vectors + (size_t)v) * 16));
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++) _mm512_storeu_ps(most + 16 * v, m[v]);
}

void fopo_max_columns_avx512(float *most, const float *x, size_t count, size_t width) {
  if (width == FOPO_PANEL) {
    max_panel(most, x, count, 2);
  } else {
    max_panel(most, x, count, 1);
  }
}

INLINE void exp_panel(float *x, float *sum, float *squares, const float *shift, size_t count,
                      const int vectors) {
  __m512 least[2], sums[2], squared[2];
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++) {
    least[v] = _mm512_loadu_ps(shift + 16 * v);
    sums[v] = squared[v] = _mm512_setzero_ps();
  }
  for (size_t s = 0; s < count; s++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      float *at = x + (s * (size_t)vectors + (size_t)v) * 16;
      __m512 w = exponential16(_mm512_sub_ps(_mm512_loadu_ps(at), least[v]));
      _mm512_storeu_ps(at, w);
      sums[v] = _mm512_add_ps(sums[v], w);
      squared[v] = _mm512_fmadd_ps(w, w, squared[v]);
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < vectors; v++) {
    _mm512_storeu_ps(sum + 16 * v, sums[v]);
    _mm512_storeu_ps(squares + 16 * v, squared[v]);
  }
}

void fopo_exp_columns_avx512(float *x, float *sum, float *squares, const float *shift, size_t count,
                             size_t width) {
  if (width == FOPO_PANEL) {
    exp_panel(x, sum, squares, shift, count, 2);
  } else {
    exp_panel(x, sum, squares, shift, count, 1);
  }
}

/* `dims` numbers of every row times the panel w: dims * vectors vectors of sums in registers. */
INLINE void add_block(float *v, const float *rows, size_t ld, const float *w, size_t count,
                      const int dims, const int vectors) {
  __m512 sum[24];
#pragma GCC unroll 24
  for (int k = 0; k < dims * vectors; k++) sum[k] = _mm512_loadu_ps(v + 16 * k);
#pragma GCC unroll 1
  for (size_t s = 0; s < count; s++, rows += ld, w += 16 * vectors) {
    __m512 weight[2];
#pragma GCC unroll 2
    for (int k = 0; k < vectors; k++) weight[k] = _mm512_loadu_ps(w + 16 * k);
#pragma GCC unroll 12
    for (int i = 0; i < dims; i++) {
      __m512 x = _mm512_set1_ps(rows[i]);
#pragma GCC unroll 2
      for (int k = 0; k < vectors; k++) {
        sum[i * vectors + k] = _mm512_fmadd_ps(x, weight[k], sum[i * vectors + k]);
      }
    }
  }
#pragma GCC unroll 24
  for (int k = 0; k < dims * vectors; k++) _mm512_storeu_ps(v + 16 * k, sum[k]);
}

INLINE void add_panel(float *v, const float *rows, size_t ld, const float *w, size_t count,
                      size_t dim, const int vectors) {
  size_t width = (size_t)vectors * 16, i = 0;
  for (; i + 12 <= dim; i += 12) add_block(v + i * width, rows + i, ld, w, count, 12, vectors);
  for (; i + 4 <= dim; i += 4) add_block(v + i * width, rows + i, ld, w, count, 4, vectors);
  for (; i < dim; i++) add_block(v + i * width, rows + i, ld, w, count, 1, vectors);
}

void fopo_add_products_avx512(float *v, const float *rows, size_t ld, const float *w, size_t count,
                              size_t dim, size_t width) {
  if (width == FOPO_PANEL) {
    add_panel(v, rows, ld, w, count, dim, 2);
  } else {
    add_panel(v, rows, ld, w, count, dim, 1);
  }
}

#endif
