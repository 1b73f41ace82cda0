/* flags x86_64: -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma */
/* The kernels that read item rows one by one, for AVX-512: 16 numbers at a time, the last ones
 * under a mask; shorter rows are left to AVX2. The code is the same for float32, float16 and
 * bfloat16 rows but for `load`, which widens 16 numbers to a vector of float32. */
#include "kernels/kernels_tables.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)

#include "kernels/kernels_rows.h"

typedef __m512 vec;
enum { VEC = 16, LEAST_DIM = 16, SPREAD = 255 };

/* The last vector of n >= 16 numbers: its first number, and a mask of the lanes that the vectors
 * before it do not cover. It ends with the n numbers and overlaps the vector before: a masked load
 * that crosses into the next cache line waits for that line even if the mask is 0 there. */
typedef struct {
  size_t at;
  __mmask16 lanes;
} tail;

INLINE tail tail_of(size_t n) {
  return (tail){n - 16, (__mmask16)(0xffffu << (15 - (n - 1) % 16))};
}

INLINE vec widen(__m256i x, const fopo_float type) {
  if (type == FOPO_FLOAT16) return _mm512_cvtph_ps(x);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

/* Numbers i .. i + 15 of a row. */
INLINE vec load(const char *row, size_t i, const fopo_float type) {
  row += i * fopo_float_bytes(type);
  if (type == FOPO_FLOAT32) return _mm512_loadu_ps(row);
  return widen(_mm256_loadu_si256((const __m256i *)(const void *)row), type);
}

/* 16 lanes to 4: lane i is the sum of lanes i, i + 4, i + 8, i + 12. */
INLINE four fold(vec a) {
  __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

INLINE vec vec_zero(void) { return _mm512_setzero_ps(); }
INLINE vec vec_all(float x) { return _mm512_set1_ps(x); }
INLINE vec vec_of(const float *x) { return _mm512_loadu_ps(x); }
INLINE void vec_store(float *x, vec a) { _mm512_storeu_ps(x, a); }
INLINE vec add(vec a, vec b) { return _mm512_add_ps(a, b); }
INLINE vec add_product(vec sum, vec x, vec y) { return _mm512_fmadd_ps(x, y, sum); }

INLINE vec load_tail(const float *x, tail last) {
  return _mm512_maskz_loadu_ps(last.lanes, x + last.at);
}
INLINE void store_tail(float *x, vec a, tail last) {
  _mm512_mask_storeu_ps(x + last.at, last.lanes, a);
}
/* Other lanes than the tail's are not used. */
INLINE vec load_last(const char *row, tail last, const fopo_float type) {
  return load(row, last.at, type);
}
INLINE vec add_last(vec sum, const char *row, vec q, tail last, const fopo_float type) {
  return _mm512_mask3_fmadd_ps(load(row, last.at, type), q, sum, last.lanes);
}
INLINE size_t end_of(tail last) { return last.at + VEC; }

/* Rows shorter than a vector are left to AVX2, by both gather_dot and dot, which must agree. */
INLINE void short_dot(float *f, const void *rows, size_t ld, const uint32_t *ids, size_t count,
                      const float *q, size_t dim, const fopo_float type) {
  switch (type) {
  case FOPO_FLOAT32: fopo_gather_dot_avx2(f, rows, ld, ids, count, q, dim); break;
  case FOPO_FLOAT16: fopo_gather_dot_float16_avx2(f, rows, ld, ids, count, q, dim); break;
  case FOPO_BFLOAT16: fopo_gather_dot_bfloat16_avx2(f, rows, ld, ids, count, q, dim); break;
  }
}

INLINE void short_axpy(float *v, const void *rows, size_t ld, const uint32_t *ids, const float *c,
                       size_t count, size_t n_next, size_t dim, const fopo_float type) {
  switch (type) {
  case FOPO_FLOAT32: fopo_gather_axpy_avx2(v, rows, ld, ids, c, count, n_next, dim); break;
  case FOPO_FLOAT16: fopo_gather_axpy_float16_avx2(v, rows, ld, ids, c, count, n_next, dim); break;
  case FOPO_BFLOAT16:
    fopo_gather_axpy_bfloat16_avx2(v, rows, ld, ids, c, count, n_next, dim);
    break;
  }
}

INLINE float short_one(const float *a, const float *b, size_t n) { return fopo_dot_avx2(a, b, n); }

/* Compacts the samples with c != 0, in order, and returns how many. id, w [count + 16]. */
INLINE size_t pick(uint32_t *id, float *w, const uint32_t *ids, const float *c, size_t count) {
  size_t n = 0;
  for (size_t s = 0; s < count; s += 16) {
    __mmask16 valid = (__mmask16)(count - s < 16 ? (1u << (count - s)) - 1 : 0xffff);
    __m512 value = _mm512_maskz_loadu_ps(valid, c + s);
    __mmask16 keep = _mm512_mask_cmp_ps_mask(valid, value, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    __m512i number = _mm512_maskz_loadu_epi32(valid, ids + s);
    _mm512_storeu_ps(w + n, _mm512_maskz_compress_ps(keep, value));
    _mm512_storeu_si512(id + n, _mm512_maskz_compress_epi32(keep, number));
    n += (size_t)__builtin_popcount(keep);
  }
  return n;
}

#define FOPO_ROW_VECTORS
#include "kernels/kernels_rows_drivers.h"

FOPO_ROW_KERNELS(avx512)

#endif
