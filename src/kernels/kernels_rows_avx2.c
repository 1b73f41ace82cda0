/* flags x86_64: -mavx2 -mfma -mf16c */
/* The kernels that read item rows one by one, for AVX2 with FMA and F16C: 8 numbers at a time. The
 * last ones of a float32 row are loaded by a mask; rows of 16-bit numbers end with zeros and are
 * loaded whole. The code is the same for float32, float16 and bfloat16 rows but for `load`, which
 * widens 8 numbers to a vector of float32.
 *
 * Sums have the order of AVX-512 (kernels_rows_drivers.h), so the bits are the same. */
#include "kernels/kernels_tables.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <string.h>

#include "kernels/kernels_rows.h"

/* The last vector of n > 0 numbers: its first number, and a mask of the lanes that the vectors
 * before it do not cover. If n >= 8 it ends with the n numbers and overlaps the vector before: a
 * masked load that crosses into the next cache line waits for that line even if the mask is 0
 * there. */
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

/* The same lanes under a mask, 0 elsewhere. 16-bit numbers are all read: a row ends with zeros. */
INLINE __m256 load_some(__m256i mask, const char *row, size_t i, const fopo_float type) {
  if (type != FOPO_FLOAT32) return _mm256_and_ps(load(row, i, type), _mm256_castsi256_ps(mask));
  return _mm256_maskload_ps((const float *)(const void *)row + i, mask);
}

/* 8 lanes to 4: lane i is the sum of lanes i and i + 4. */
INLINE __m128 fold(__m256 a) {
  return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
}

/* Dot products of n_rows rows of n < 16 numbers with q, each folded to 4 partial sums: 8 numbers,
 * if there are so many, and then the others. */
INLINE void short_dots(four *out, const char *const *row, const float *q, size_t n,
                       const int n_rows, const fopo_float type) {
  __m256 sum[4];
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) sum[l] = _mm256_setzero_ps();
  if (n >= 8) {
    __m256 q0 = _mm256_loadu_ps(q);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) sum[l] = _mm256_fmadd_ps(load(row[l], 0, type), q0, sum[l]);
  }
  if (n % 8 != 0) {
    tail last = tail_of(n);
    __m256 q1 = _mm256_maskload_ps(q + last.at, last.lanes);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) {
      __m256 x = load_some(last.lanes, row[l], last.at, type);
      sum[l] = _mm256_add_ps(sum[l], _mm256_mul_ps(x, q1));
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) out[l] = fold(sum[l]);
}

/* Sixteen lanes of sums, as one vector of AVX-512 holds them. */
typedef struct {
  __m256 low, high;
} lanes;

/* Every second vector of 16 numbers from `first` on, for as long as they are whole. */
INLINE void add_whole(lanes *sum, const char *const *row, const float *q, size_t first, size_t n,
                      const int n_rows, const fopo_float type) {
  for (size_t i = first; i + 16 <= n; i += 32) {
    __m256 q0 = _mm256_loadu_ps(q + i), q1 = _mm256_loadu_ps(q + i + 8);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) {
      sum[l].low = _mm256_fmadd_ps(load(row[l], i, type), q0, sum[l].low);
      sum[l].high = _mm256_fmadd_ps(load(row[l], i + 8, type), q1, sum[l].high);
    }
  }
}

/* The last n mod 16 numbers, in the last lanes of a vector that ends with the row. In the other
 * lanes the query is 0. */
INLINE void add_rest(lanes *sum, const char *const *row, const float *q, size_t n, const int n_rows,
                     const fopo_float type) {
  static const int32_t ramp[32] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                   -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  const __m256i *mask = (const __m256i *)(const void *)(ramp + n % 16);
  size_t at = n - 16;
  if (n % 16 > 8) {
    __m256 q0 = _mm256_maskload_ps(q + at, _mm256_loadu_si256(mask));
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) {
      sum[l].low = _mm256_fmadd_ps(load(row[l], at, type), q0, sum[l].low);
    }
  }
  __m256 q1 = _mm256_maskload_ps(q + at + 8, _mm256_loadu_si256(mask + 1));
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) {
    sum[l].high = _mm256_fmadd_ps(load(row[l], at + 8, type), q1, sum[l].high);
  }
}

/* Dot products of n_rows rows of n >= 16 numbers with q, each folded to 4 partial sums, in the
 * order of AVX-512: two accumulators of 16 lanes a row, vector i of 16 numbers goes to accumulator
 * i mod 2, and the last, incomplete one to accumulator 1. Registers hold one accumulator of four
 * rows, so the even vectors come first, then the odd ones. */
INLINE void long_dots(four *out, const char *const *row, const float *q, size_t n, const int n_rows,
                      const fopo_float type) {
  lanes even[4], odd[4];
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) {
    even[l] = odd[l] = (lanes){_mm256_setzero_ps(), _mm256_setzero_ps()};
  }
  add_whole(even, row, q, 0, n, n_rows, type);
  add_whole(odd, row, q, 16, n, n_rows, type);
  if (n % 16 != 0) add_rest(odd, row, q, n, n_rows, type);
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) {
    out[l] = fold(_mm256_add_ps(_mm256_add_ps(even[l].low, odd[l].low),
                                _mm256_add_ps(even[l].high, odd[l].high)));
  }
}

INLINE void dots(four *out, const char *const *row, const char *const *next, const float *q,
                 size_t n, const int n_rows, const fopo_float type) {
  (void)next;
  if (n < 16) {
    short_dots(out, row, q, n, n_rows, type);
  } else {
    long_dots(out, row, q, n, n_rows, type);
  }
}

/* Compacts the samples with c != 0, in order, and returns how many. Mostly all or none of eight
 * neighbours pass; a mixed eight is compacted without branches, which would be mispredicted. */
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

/* `samples` samples from `sample` on, each to the accumulators of a chain of its own. rows: the
 * block's first column of row 0, from which the last vector lies `last` bytes, which may be below
 * 0; it is loaded whole unless `masked`, as a row shorter than it must be. */
INLINE void add_samples(__m256 *sum, const batch *b, const char *rows, size_t sample,
                        const int vectors, const int samples, ptrdiff_t last, __m256i mask,
                        const int masked, const fopo_float type) {
#pragma GCC unroll 4
  for (int l = 0; l < samples; l++) {
    const char *row = row_at(rows, b->ld, b->id[sample + (size_t)l], type);
    __m256 scale = _mm256_set1_ps(b->w[sample + (size_t)l]);
#pragma GCC unroll 14
    for (int k = 0; k < vectors; k++) {
      __m256 x = k + 1 < vectors ? load(row, (size_t)k * 8, type)
                 : masked        ? load_some(mask, row + last, 0, type)
                                 : load(row + last, 0, type);
      sum[l * vectors + k] = _mm256_fmadd_ps(scale, x, sum[l * vectors + k]);
    }
  }
}

/* v[i] += sum_s w[s] row_s[i] over `vectors` vectors of columns from i = first on; the last vector
 * is `end`. In the order of AVX-512: sample s is added to chain s mod chains, the last n mod chains
 * samples to chain 0, and the chains to v, one after the other. `together` chains are summed at
 * once, vectors * together <= 14, all in registers: with few vectors a single chain would wait for
 * its own previous FMA. With every fourth sample the same columns of a row of `next` are
 * prefetched. */
INLINE void add_block(float *v, const batch *b, size_t first, const int vectors, const int chains,
                      const int together, tail end, const int masked, const fopo_float type) {
  const size_t size = fopo_float_bytes(type);
  const char *rows = b->rows + first * size;
  ptrdiff_t last = ((ptrdiff_t)end.at - (ptrdiff_t)first) * (ptrdiff_t)size;
  size_t whole = b->n - b->n % (size_t)chains;
  for (size_t chain = 0; chain < (size_t)chains; chain += (size_t)together) {
    __m256 sum[14];
#pragma GCC unroll 14
    for (int k = 0; k < vectors * together; k++) sum[k] = _mm256_setzero_ps();
    for (size_t s = chain; s < whole; s += (size_t)chains) {
      if (s % 4 == 0 && s / 4 < b->n_next) {
        prefetch_bytes(row_at(rows, b->ld, b->next[s / 4], type), (end.at + 8 - first) * size);
      }
      add_samples(sum, b, rows, s, vectors, together, last, end.lanes, masked, type);
    }
    for (size_t s = whole; chain == 0 && s < b->n; s++) {
      add_samples(sum, b, rows, s, vectors, 1, last, end.lanes, masked, type);
    }
#pragma GCC unroll 14
    for (int k = 0; k < vectors; k++) {
      size_t at = k + 1 < vectors ? first + (size_t)k * 8 : end.at;
      __m256i mask = k + 1 < vectors ? _mm256_set1_epi32(-1) : end.lanes;
      __m256 total = _mm256_maskload_ps(v + at, mask);
#pragma GCC unroll 4
      for (int l = 0; l < together; l++) total = _mm256_add_ps(total, sum[l * vectors + k]);
      _mm256_maskstore_ps(v + at, mask, total);
    }
  }
}

/* All columns: blocks of 128 first, then the rest with as many chains as AVX-512 has, which depends
 * on its vectors of 16. More vectors than registers hold are cut in two. Each case is a copy of
 * add_block with constant sizes. */
INLINE void add_rows(float *v, const batch *b, size_t dim, const fopo_float type) {
  if (dim < 8) {
    add_block(v, b, 0, 1, 4, 4, tail_of(dim), 1, type);
    return;
  }
  size_t first = 0;
  for (; dim - first >= 128; first += 128) {
    add_block(v, b, first, 8, 1, 1, tail_of(first + 64), 0, type);
    add_block(v, b, first + 64, 8, 1, 1, tail_of(first + 128), 0, type);
  }
  tail end = tail_of(dim);
  switch ((dim - first + 7) / 8) {
  case 1: add_block(v, b, first, 1, 4, 4, end, 0, type); break;
  case 2: add_block(v, b, first, 2, 4, 4, end, 0, type); break;
  case 3: add_block(v, b, first, 3, 4, 4, end, 0, type); break;
  case 4: add_block(v, b, first, 4, 4, 2, end, 0, type); break;
  case 5: add_block(v, b, first, 5, 2, 2, end, 0, type); break;
  case 6: add_block(v, b, first, 6, 2, 2, end, 0, type); break;
  case 7: add_block(v, b, first, 7, 2, 2, end, 0, type); break;
  case 8: add_block(v, b, first, 8, 2, 1, end, 0, type); break;
  case 9: add_block(v, b, first, 9, 1, 1, end, 0, type); break;
  case 10: add_block(v, b, first, 10, 1, 1, end, 0, type); break;
  case 11: add_block(v, b, first, 11, 1, 1, end, 0, type); break;
  case 12: add_block(v, b, first, 12, 1, 1, end, 0, type); break;
  case 13: add_block(v, b, first, 13, 1, 1, end, 0, type); break;
  case 14: add_block(v, b, first, 14, 1, 1, end, 0, type); break;
  case 15:
  case 16:
    add_block(v, b, first, 8, 1, 1, tail_of(first + 64), 0, type);
    if (dim - first <= 120) {
      add_block(v, b, first + 64, 7, 1, 1, end, 0, type);
    } else {
      add_block(v, b, first + 64, 8, 1, 1, end, 0, type);
    }
    break;
  default: break;
  }
}

#include "kernels/kernels_rows_drivers.h"

FOPO_ROW_KERNELS(avx2)

#endif
