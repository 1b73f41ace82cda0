/* The kernels that read item rows one by one, for AVX2 with FMA and F16C: 8 numbers at a time,
 * rests by masked loads, or, of 16 bits, whole with the zeros behind. One code serves float32,
 * float16 and bfloat16 rows; they differ in how 8 numbers become a vector of float32, and nowhere
 * else.
 *
 * dot and gather_dot keep one order of summation, so a row's score has the same bits from both,
 * wherever the row stands among the ids. */
#include "kernels/kernels_tables.h"
#include "kernels/rows.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
  LINE = 64,
  AHEAD = 32, /* rows from one that is read to the one that is asked for */
  PICK = 128  /* samples compacted at a time; their rows stay in L2 meanwhile */
};

/* Where row `id` begins; ld in elements of `type`. */
INLINE const char *row_at(const void *rows, size_t ld, uint32_t id, const fopo_float type) {
  return (const char *)rows + id * ld * fopo_float_bytes(type);
}

/* A row may start anywhere in its line. Into L2, as lines on their way to L1 would be fewer; a row
 * of a line or two has little to wait for. */
INLINE void prefetch_row(const char *row, size_t bytes) {
  if (bytes <= LINE) {
    __builtin_prefetch(row, 0, 3);
    __builtin_prefetch(row + bytes - 1, 0, 3);
    return;
  }
  for (size_t i = 0; i < bytes; i += LINE) __builtin_prefetch(row + i, 0, 2);
  __builtin_prefetch(row + bytes - 1, 0, 2);
}

/* The last vector of n > 0 numbers: where it begins, and the lanes that no other vector holds. It
 * ends with the numbers where it can: a load that looks into the next cache line waits for it, even
 * where its mask leaves nothing there. */
typedef struct {
  size_t at;
  __m256i lanes;
} tail;

INLINE tail tail_of(size_t n) {
  static const int32_t ramp[24] = {0,  0,  0,  0,  0, 0, 0, 0, -1, -1, -1, -1,
                                   -1, -1, -1, -1, 0, 0, 0, 0, 0,  0,  0,  0};
  size_t rest = (n - 1) % 8 + 1;
  const int32_t *lanes = n < 8 ? ramp + 16 - n : ramp + rest;
  __m256i mask = _mm256_loadu_si256((const __m256i *)(const void *)lanes);
  return (tail){n < 8 ? 0 : n - 8, mask};
}

/* Numbers i .. i + 7 of a row. */
INLINE __m256 load(const char *row, size_t i, const fopo_float type) {
  row += i * fopo_float_bytes(type);
  if (type == FOPO_FLOAT32) return _mm256_loadu_ps((const float *)(const void *)row);
  __m128i x = _mm_loadu_si128((const __m128i *)(const void *)row);
  if (type == FOPO_FLOAT16) return _mm256_cvtph_ps(x);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}

/* Those of the mask, and 0. Of 16 bits the others are read as well: a row ends with zeros. */
INLINE __m256 load_some(__m256i mask, const char *row, size_t i, const fopo_float type) {
  if (type != FOPO_FLOAT32) return _mm256_and_ps(load(row, i, type), _mm256_castsi256_ps(mask));
  return _mm256_maskload_ps((const float *)(const void *)row + i, mask);
}

/* 8 lanes to 4: lane i holds i and i + 4. */
INLINE __m128 fold(__m256 a) {
  return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}

/* (0 + 2) + (1 + 3) */
INLINE float sum4(__m128 a) {
  __m128 pair = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

INLINE __m128 sum4_each(__m128 a, __m128 b, __m128 c, __m128 d) {
  _MM_TRANSPOSE4_PS(a, b, c, d);
  return _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d));
}

/* Dot products of `lanes` rows with q; vector i of a row goes to sum i mod 2, the rest to sum 1. */
INLINE void dots(__m128 *out, const char *const *row, const float *q, size_t n, const int lanes,
                 const fopo_float type) {
  __m256 even[4], odd[4];
#pragma GCC unroll 4
  for (int l = 0; l < lanes; l++) even[l] = odd[l] = _mm256_setzero_ps();
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m256 q0 = _mm256_loadu_ps(q + i), q1 = _mm256_loadu_ps(q + i + 8);
#pragma GCC unroll 4
    for (int l = 0; l < lanes; l++) {
      even[l] = _mm256_fmadd_ps(load(row[l], i, type), q0, even[l]);
      odd[l] = _mm256_fmadd_ps(load(row[l], i + 8, type), q1, odd[l]);
    }
  }
  if (i + 8 <= n) {
    __m256 q0 = _mm256_loadu_ps(q + i);
#pragma GCC unroll 4
    for (int l = 0; l < lanes; l++) {
      even[l] = _mm256_fmadd_ps(load(row[l], i, type), q0, even[l]);
    }
    i += 8;
  }
  if (i < n) {
    tail last = tail_of(n);
    __m256 q1 = _mm256_maskload_ps(q + last.at, last.lanes);
#pragma GCC unroll 4
    for (int l = 0; l < lanes; l++) {
      odd[l] = _mm256_fmadd_ps(load_some(last.lanes, row[l], last.at, type), q1, odd[l]);
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < lanes; l++) out[l] = fold(_mm256_add_ps(even[l], odd[l]));
}

INLINE float dot_row(const char *row, const float *q, size_t n, const fopo_float type) {
  __m128 sum;
  dots(&sum, &row, q, n, 1, type);
  return sum4(sum);
}

INLINE void gather_dot(float *f, const void *rows, size_t ld, const uint32_t *ids, size_t count,
                       const float *q, size_t dim, const fopo_float type) {
  if (dim == 0) {
    for (size_t s = 0; s < count; s++) f[s] = 0;
    return;
  }
  size_t bytes = dim * fopo_float_bytes(type);
  for (size_t s = 0; s < count && s < AHEAD; s++) {
    prefetch_row(row_at(rows, ld, ids[s], type), bytes);
  }
  size_t s = 0;
  for (; s + 4 <= count; s += 4) {
    for (size_t next = s + AHEAD; next < s + AHEAD + 4 && next < count; next++) {
      prefetch_row(row_at(rows, ld, ids[next], type), bytes);
    }
    const char *row[4];
#pragma GCC unroll 4
    for (size_t l = 0; l < 4; l++) row[l] = row_at(rows, ld, ids[s + l], type);
    __m128 sum[4];
    dots(sum, row, q, dim, 4, type);
    _mm_storeu_ps(f + s, sum4_each(sum[0], sum[1], sum[2], sum[3]));
  }
  for (; s < count; s++) f[s] = dot_row(row_at(rows, ld, ids[s], type), q, dim, type);
}

/* The samples whose c is not 0, in order. Mostly eight neighbours are alike; where not, there is no
 * branch, as c may be anything. */
INLINE size_t pick(uint32_t *id, float *w, const uint32_t *ids, const float *c, size_t count) {
  size_t n = 0, s = 0;
  for (; s + 8 <= count; s += 8) {
    __m256 value = _mm256_loadu_ps(c + s);
    int keep = _mm256_movemask_ps(_mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_NEQ_UQ));
    if (keep == 0) continue;
    if (keep == 0xff) {
      _mm256_storeu_ps(w + n, value);
      memcpy(id + n, ids + s, 8 * sizeof *id);
      n += 8;
      continue;
    }
    for (size_t i = s; i < s + 8; i++) {
      id[n] = ids[i];
      w[n] = c[i];
      n += c[i] != 0;
    }
  }
  for (; s < count; s++) {
    id[n] = ids[s];
    w[n] = c[s];
    n += c[s] != 0;
  }
  return n;
}

/* Samples to be added, and rows that are read after theirs. */
typedef struct {
  const char *rows;
  size_t ld;
  const uint32_t *id; /* [n] */
  const float *w;     /* [n] */
  size_t n;
  const uint32_t *soon; /* [n_soon] */
  size_t n_soon;
} batch;

/* v[i] += sum_s w[s] row_s[i] over `vectors` vectors from i = first on, the last one being `last`.
 * Sample s goes to sum s mod lanes: with few vectors, one sum alone would wait for itself. With
 * every fourth the same columns of a row of `soon` are asked for. */
INLINE void add_block(float *v, const batch *b, size_t first, const int vectors, const int lanes,
                      tail last, const fopo_float type) {
  __m256 sum[8];
#pragma GCC unroll 8
  for (int k = 0; k < vectors * lanes; k++) sum[k] = _mm256_setzero_ps();
  size_t s = 0;
  for (; s + (size_t)lanes <= b->n; s += (size_t)lanes) {
    if (s % 4 == 0 && s / 4 < b->n_soon) {
      const char *next = row_at(b->rows, b->ld, b->soon[s / 4], type);
      prefetch_row(next + first * fopo_float_bytes(type),
                   (last.at + 8 - first) * fopo_float_bytes(type));
    }
#pragma GCC unroll 4
    for (int l = 0; l < lanes; l++) {
      const char *row = row_at(b->rows, b->ld, b->id[s + (size_t)l], type);
      __m256 scale = _mm256_set1_ps(b->w[s + (size_t)l]);
#pragma GCC unroll 8
      for (int k = 0; k < vectors; k++) {
        __m256 x = k + 1 < vectors ? load(row, first + (size_t)k * 8, type)
                                   : load_some(last.lanes, row, last.at, type);
        sum[l * vectors + k] = _mm256_fmadd_ps(scale, x, sum[l * vectors + k]);
      }
    }
  }
  for (; s < b->n; s++) {
    const char *row = row_at(b->rows, b->ld, b->id[s], type);
    __m256 scale = _mm256_set1_ps(b->w[s]);
#pragma GCC unroll 8
    for (int k = 0; k < vectors; k++) {
      __m256 x = k + 1 < vectors ? load(row, first + (size_t)k * 8, type)
                                 : load_some(last.lanes, row, last.at, type);
      sum[k] = _mm256_fmadd_ps(scale, x, sum[k]);
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k < vectors; k++) {
    size_t at = k + 1 < vectors ? first + (size_t)k * 8 : last.at;
    __m256i mask = k + 1 < vectors ? _mm256_set1_epi32(-1) : last.lanes;
    __m256 total = _mm256_maskload_ps(v + at, mask);
#pragma GCC unroll 4
    for (int l = 0; l < lanes; l++) total = _mm256_add_ps(total, sum[l * vectors + k]);
    _mm256_maskstore_ps(v + at, mask, total);
  }
}

/* All columns, in blocks of 64 whose sums live in registers. */
INLINE void add_rows(float *v, const batch *b, size_t dim, const fopo_float type) {
  size_t first = 0;
  for (; dim - first >= 64; first += 64) {
    add_block(v, b, first, 8, 1, tail_of(first + 64), type);
  }
  tail last = tail_of(dim);
  switch ((dim - first + 7) / 8) {
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
                        size_t count, size_t after, size_t dim, const fopo_float type) {
  uint32_t id[PICK];
  float w[PICK];
  for (size_t s = 0; s < count; s += PICK) {
    size_t n = pick(id, w, ids + s, c + s, count - s < PICK ? count - s : PICK);
    size_t n_with_candidates = s / 4 < after ? s / 4 : after;
    batch b = {rows, ld, id, w, n, ids + count + n_with_candidates, after - n_with_candidates};
    if (n > 0) add_rows(v, &b, dim, type);
  }
}

FOPO_ROW_KERNELS(avx2)

#endif
