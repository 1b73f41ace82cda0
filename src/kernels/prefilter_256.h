/* The prefilters of AVX2: scores of 16 rows with 4 queries at a time, in registers, and the
 * selection from them. */
#ifndef FOPO_KERNELS_PREFILTER_256_H
#define FOPO_KERNELS_PREFILTER_256_H

#include "kernels/prefilter_units.h"

#if defined(__AVX2__)

#include <immintrin.h>

/* sum + the products of the 2 or 4 columns of a unit, for 8 rows: one instruction with VNNI, in
 * either of its codings, and two without. */
INLINE __m256i add_products_256(const fopo_packed kind, __m256i sum, __m256i rows, __m256i query) {
#if defined(__AVXVNNI__)
  if (kind == FOPO_PACKED_INT8) return _mm256_dpbusd_avx_epi32(sum, rows, query);
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__)
  if (kind == FOPO_PACKED_INT8) return _mm256_dpbusd_epi32(sum, rows, query);
#endif
  (void)kind;
  return _mm256_add_epi32(sum, _mm256_madd_epi16(rows, query));
}

INLINE __m256i load_256(const char *at) { return _mm256_loadu_si256((const void *)at); }

/* The scores of 8 rows from row r of a group on, with query j. */
INLINE __m256 scores_256(__m256i sum, const char *group, size_t r, const char *queries, size_t j) {
  __m256 x = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps((const void *)(group + 4 * r)));
  return _mm256_mul_ps(x, _mm256_set1_ps(scale_at(queries, j)));
}

/* Appends the lanes < rows with score >= floor, of query j and rows from s on. */
INLINE void append_256(selection *c, __m256 score, __m256 floor, size_t s, size_t j) {
  unsigned pass = (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(score, floor, _CMP_GE_OQ));
  if (pass == 0) return;
  float x[8];
  _mm256_storeu_ps(x, score);
  if (c->count - s < 8) pass &= (1u << (c->count - s)) - 1u;
  for (; pass != 0; pass &= pass - 1) {
    size_t lane = (size_t)__builtin_ctz(pass);
    c->list[c->found] = (uint32_t)((s + lane) * 16 + j);
    c->scores[c->found++] = x[lane];
  }
}

/* A group of rows from row s on with n_queries <= 4 queries from query j on: 2 n_queries vectors of
 * sums, which stay in registers, and one broadcast unit of a query at a time. */
INLINE void select_block_256(const fopo_packed kind, selection *c, size_t s, size_t j,
                             const int n_queries) {
  const char *group = c->rows + s / 16 * c->group, *x = group + row_header(kind);
  const char *q = c->queries + query_header(kind) + j * FOPO_UNIT;
  __m256i low[4], high[4];
#pragma GCC unroll 4
  for (int l = 0; l < n_queries; l++) {
    low[l] = high[l] = kind == FOPO_PACKED_INT8
                           ? _mm256_set1_epi32(word_at(c->queries + 64, j + (size_t)l))
                           : _mm256_setzero_si256();
  }
#pragma GCC unroll 1
  for (size_t u = 0; u < c->units; u++, x += 64, q += 64) {
    __m256i row0 = load_256(x), row1 = load_256(x + 32);
    if (j == 0) __builtin_prefetch(x + 4 * c->group);
#pragma GCC unroll 4
    for (int l = 0; l < n_queries; l++) {
      __m256i query = _mm256_set1_epi32(word_at(q, (size_t)l));
      low[l] = add_products_256(kind, low[l], row0, query);
      high[l] = add_products_256(kind, high[l], row1, query);
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < n_queries; l++) {
    size_t query = j + (size_t)l;
    __m256 floor = _mm256_set1_ps(c->floor[query]);
    append_256(c, scores_256(low[l], group, 0, c->queries, query), floor, s, query);
    if (c->count - s <= 8) continue;
    append_256(c, scores_256(high[l], group, 8, c->queries, query), floor, s + 8, query);
  }
}

/* score_and_select of kernels/prefilter.h */
INLINE void unit_select_256(const fopo_packed kind, uint32_t *list, float *scores, size_t found[2],
                            const char *rows, size_t count, const char *queries, size_t dim,
                            size_t n, const float *floor) {
  found[0] = found[1] = 0;
  for (size_t h = 0; 16 * h < n; h++) {
    size_t left = n - 16 * h, end = left < 16 ? left : 16;
    selection c = half_selection(kind, list, scores, rows, count, queries, dim, floor, h);
    for (size_t s = 0; s < count; s += 16) {
      size_t j = 0;
      for (; j + 4 <= end; j += 4) select_block_256(kind, &c, s, j, 4);
      if ((end & 2) != 0) select_block_256(kind, &c, s, j, 2), j += 2;
      if ((end & 1) != 0) select_block_256(kind, &c, s, j, 1);
    }
    found[h] = c.found;
  }
}

#endif
#endif
