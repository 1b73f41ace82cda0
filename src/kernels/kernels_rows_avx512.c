/* flags x86_64: -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma */
/* The kernels that read item rows one by one, for AVX-512: 16 numbers at a time, the last ones
 * under a mask; shorter rows are left to AVX2. The code is the same for float32, float16 and
 * bfloat16 rows but for `load`, which widens 16 numbers to a vector of float32.
 *
 * dot and gather_dot sum in the same order, so a row's score has the same bits from both, at any
 * place among the ids. */
#include "kernels/kernels_tables.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)

#include "kernels/kernels_rows.h"

/* Bytes of a row from which its prefetches are spread over the dot products. */
enum { SPREAD = 256 };

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

INLINE __m512 widen(__m256i x, const fopo_float type) {
  if (type == FOPO_FLOAT16) return _mm512_cvtph_ps(x);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

/* Numbers i .. i + 15 of a row. */
INLINE __m512 load(const char *row, size_t i, const fopo_float type) {
  row += i * fopo_float_bytes(type);
  if (type == FOPO_FLOAT32) return _mm512_loadu_ps(row);
  return widen(_mm256_loadu_si256((const __m256i *)(const void *)row), type);
}

/* 16 lanes to 4: lane i is the sum of lanes i, i + 4, i + 8, i + 12. */
INLINE __m128 fold(__m512 a) {
  __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

/* Dot products of n_rows rows with q, each folded to 4 partial sums. Two accumulators a row: vector
 * i goes to accumulator i mod 2, and the last, incomplete one to accumulator 1. next [n_rows],
 * unless NULL: rows to prefetch, one cache line with each line that is read. */
INLINE void dots(__m128 *out, const char *const *row, const char *const *next, const float *q,
                 size_t n, const int n_rows, const fopo_float type) {
  __m512 even[4], odd[4];
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) even[l] = odd[l] = _mm512_setzero_ps();
  /* Two vectors at a time; the same lines of the next rows are prefetched. */
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __m512 q0 = _mm512_loadu_ps(q + i), q1 = _mm512_loadu_ps(q + i + 16);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) {
      if (next != NULL) {
        __builtin_prefetch(next[l] + i * fopo_float_bytes(type), 0, 2);
        if (type == FOPO_FLOAT32) __builtin_prefetch(next[l] + i * 4 + LINE, 0, 2);
      }
      even[l] = _mm512_fmadd_ps(load(row[l], i, type), q0, even[l]);
      odd[l] = _mm512_fmadd_ps(load(row[l], i + 16, type), q1, odd[l]);
    }
  }
  /* The prefetches of the last lines. */
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) {
    size_t done = i * fopo_float_bytes(type);
    if (next != NULL) prefetch_bytes(next[l] + done, n * fopo_float_bytes(type) - done);
  }
  /* One more whole vector, then the last lanes. */
  if (i + 16 <= n) {
    __m512 q0 = _mm512_loadu_ps(q + i);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) {
      even[l] = _mm512_fmadd_ps(load(row[l], i, type), q0, even[l]);
    }
    i += 16;
  }
  if (i < n) {
    tail last = tail_of(n);
    __m512 q1 = _mm512_maskz_loadu_ps(last.lanes, q + last.at);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) {
      odd[l] = _mm512_mask3_fmadd_ps(load(row[l], last.at, type), q1, odd[l], last.lanes);
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) out[l] = fold(_mm512_add_ps(even[l], odd[l]));
}

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

INLINE float dot_row(const char *row, const float *q, size_t n, const fopo_float type) {
  /* Only `dot` has such short rows here, and it has float32: gather_dot left them to AVX2 before.
   */
  if (n < 16) return fopo_dot_avx2((const float *)(const void *)row, q, n);
  __m128 sum;
  dots(&sum, &row, NULL, q, n, 1, type);
  return sum4(sum);
}

INLINE void gather_dot(float *f, const void *rows, size_t ld, const uint32_t *ids, size_t count,
                       const float *q, size_t dim, const fopo_float type) {
  if (dim < 16) {
    short_dot(f, rows, ld, ids, count, q, dim, type);
    return;
  }
  size_t bytes = dim * fopo_float_bytes(type);
  for (size_t s = 0; s < count && s < AHEAD; s++) {
    prefetch_bytes(row_at(rows, ld, ids[s], type), bytes);
  }
  size_t s = 0;
  for (; s + 4 <= count; s += 4) {
    const char *row[4], *next[4];
    int spread = bytes >= SPREAD && s + AHEAD + 4 <= count;
    for (size_t l = 0; l < 4; l++) {
      size_t at = s + AHEAD + l < count ? s + AHEAD + l : s;
      next[l] = row_at(rows, ld, ids[at], type);
      if (!spread && at != s) prefetch_bytes(next[l], bytes);
    }
#pragma GCC unroll 4
    for (size_t l = 0; l < 4; l++) row[l] = row_at(rows, ld, ids[s + l], type);
    __m128 sum[4];
    if (spread) {
      dots(sum, row, next, q, dim, 4, type);
    } else {
      dots(sum, row, NULL, q, dim, 4, type);
    }
    _mm_storeu_ps(f + s, sum4_each(sum[0], sum[1], sum[2], sum[3]));
  }
  for (; s < count; s++) f[s] = dot_row(row_at(rows, ld, ids[s], type), q, dim, type);
}

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

/* v[i] += sum_s w[s] row_s[i] over `vectors` vectors of columns from i = first on; the last vector
 * is `last`. Sample s is added to accumulator s mod chains: with few vectors a single accumulator
 * would wait for its own previous FMA. vectors * chains <= 8, all in registers. With every fourth
 * sample the same columns of a row of `next` are prefetched. */
INLINE void add_block(float *v, const batch *b, size_t first, const int vectors, const int chains,
                      tail last, const fopo_float type) {
  __m512 sum[8];
#pragma GCC unroll 8
  for (int k = 0; k < vectors * chains; k++) sum[k] = _mm512_setzero_ps();
  /* `chains` samples at a time, one for each set of accumulators. */
  size_t s = 0;
  for (; s + (size_t)chains <= b->n; s += (size_t)chains) {
    if (s % 4 == 0 && s / 4 < b->n_next) {
      const char *soon = row_at(b->rows, b->ld, b->next[s / 4], type);
      prefetch_bytes(soon + first * fopo_float_bytes(type),
                     (last.at + 16 - first) * fopo_float_bytes(type));
    }
#pragma GCC unroll 4
    for (int l = 0; l < chains; l++) {
      const char *row = row_at(b->rows, b->ld, b->id[s + (size_t)l], type);
      __m512 scale = _mm512_set1_ps(b->w[s + (size_t)l]);
#pragma GCC unroll 8
      for (int k = 0; k < vectors; k++) {
        __m512 x = load(row, k + 1 < vectors ? first + (size_t)k * 16 : last.at, type);
        sum[l * vectors + k] = _mm512_fmadd_ps(scale, x, sum[l * vectors + k]);
      }
    }
  }
  /* The last n mod chains samples go to accumulator 0. */
  for (; s < b->n; s++) {
    const char *row = row_at(b->rows, b->ld, b->id[s], type);
    __m512 scale = _mm512_set1_ps(b->w[s]);
#pragma GCC unroll 8
    for (int k = 0; k < vectors; k++) {
      __m512 x = load(row, k + 1 < vectors ? first + (size_t)k * 16 : last.at, type);
      sum[k] = _mm512_fmadd_ps(scale, x, sum[k]);
    }
  }
  /* The accumulators of each column are summed and added to v. */
#pragma GCC unroll 8
  for (int k = 0; k < vectors; k++) {
    size_t at = k + 1 < vectors ? first + (size_t)k * 16 : last.at;
    __mmask16 mask = k + 1 < vectors ? (__mmask16)0xffff : last.lanes;
    __m512 total = _mm512_maskz_loadu_ps(mask, v + at);
#pragma GCC unroll 4
    for (int l = 0; l < chains; l++) total = _mm512_add_ps(total, sum[l * vectors + k]);
    _mm512_mask_storeu_ps(v + at, mask, total);
  }
}

/* All columns: blocks of 128 first, then the rest with as many chains as registers allow. Each case
 * is a copy of add_block with constant sizes. */
INLINE void add_rows(float *v, const batch *b, size_t dim, const fopo_float type) {
  size_t first = 0;
  for (; dim - first >= 128; first += 128) {
    add_block(v, b, first, 8, 1, tail_of(first + 128), type);
  }
  tail last = tail_of(dim);
  switch ((dim - first + 15) / 16) {
  case 1: add_block(v, b, first, 1, 4, last, type); break;
  case 2: add_block(v, b, first, 2, 4, last, type); break;
  case 3: add_block(v, b, first, 3, 2, last, type); break;
  case 4: add_block(v, b, first, 4, 2, last, type); break;
  case 5: add_block(v, b, first, 5, 1, last, type); break;
  case 6: add_block(v, b, first, 6, 1, last, type); break;
  case 7: add_block(v, b, first, 7, 1, last, type); break;
  case 8: add_block(v, b, first, 8, 1, last, type); break;
  default: break;
  }
}

INLINE void gather_axpy(float *v, const void *rows, size_t ld, const uint32_t *ids, const float *c,
                        size_t count, size_t n_next, size_t dim, const fopo_float type) {
  if (dim < 16) {
    short_axpy(v, rows, ld, ids, c, count, n_next, dim, type);
    return;
  }
  add_picked(v, rows, ld, ids, c, count, n_next, dim, type);
}

FOPO_ROW_KERNELS(avx512)

#endif
