/* The prefilters of AVX2: scores of 16 rows with 4 queries at a time, in registers, and the
 * selection from them. */
#ifndef FOPO_KERNELS_PREFILTER_256_H
#define FOPO_KERNELS_PREFILTER_256_H

#include "kernels/prefilter_units.h"

#if defined(__AVX2__)

#include <immintrin.h>

enum { DENSE = 256 }; /* one of so many scores */

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

/* The lanes that a mask names, the first in the lowest 4 bits of a word; for each mask. */
#define LANE(mask, l, more) ((more) << 4 * ((mask) >> (l)&1u) | ((mask) >> (l)&1u) * (l))
#define LANES_FROM_4(m)     LANE(m, 4u, LANE(m, 5u, LANE(m, 6u, LANE(m, 7u, 0u))))
#define LANES(m)            LANE(m, 0u, LANE(m, 1u, LANE(m, 2u, LANE(m, 3u, LANES_FROM_4(m)))))
#define LANES_4(m)          LANES(m), LANES((m) + 1u), LANES((m) + 2u), LANES((m) + 3u)
#define LANES_16(m)         LANES_4(m), LANES_4((m) + 4u), LANES_4((m) + 8u), LANES_4((m) + 12u)
#define LANES_32(m)         LANES_16(m), LANES_16((m) + 16u)
#define LANES_64(m)         LANES_32(m), LANES_32((m) + 32u)
static const uint32_t lanes_of[] = {LANES_64(0u), LANES_64(64u), LANES_64(128u), LANES_64(192u)};

/* Appends the lanes < rows with score >= floor, of query j and rows from s on: 8 lanes are stored,
 * those that passed in front, and the next ones overwrite the others. is_dense: so many pass that a
 * wrong guess whether one does would cost more. */
INLINE void append_256(selection *c, __m256 score, __m256 floor, size_t s, size_t j, int is_dense) {
  unsigned pass = (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(score, floor, _CMP_GE_OQ));
  if (!is_dense && pass == 0) return;
  int is_whole = c->count - s >= 8;
  if (!is_whole) pass &= (1u << (c->count - s)) - 1u;
  size_t n = (size_t)__builtin_popcount(pass);
  uint32_t list[8];
  float scores[8];
  uint32_t *to = is_whole ? c->list + c->found : list;
  float *x = is_whole ? c->scores + c->found : scores;
  __m256i lane = _mm256_srlv_epi32(_mm256_set1_epi32((int)lanes_of[pass]),
                                   _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
  lane = _mm256_and_si256(lane, _mm256_set1_epi32(7));
  _mm256_storeu_si256((void *)to, _mm256_add_epi32(_mm256_slli_epi32(lane, 4),
                                                   _mm256_set1_epi32((int)(s * 16 + j))));
  _mm256_storeu_ps(x, _mm256_permutevar8x32_ps(score, lane));
  if (!is_whole) {
    memcpy(c->list + c->found, list, n * sizeof *list);
    memcpy(c->scores + c->found, scores, n * sizeof *scores);
  }
  c->found += n;
}

/* A group of rows from row s on with n_queries <= 4 queries from query j on: 2 n_queries vectors of
 * sums, which stay in registers, and one broadcast unit of a query at a time. is_first: of the
 * queries that the group meets, so it prefetches the rows to come. */
INLINE void select_block_256(const fopo_packed kind, selection *c, size_t s, size_t j,
                             const int n_queries, const int is_first) {
  const char *group = c->rows + s / 16 * c->group, *x = group + row_header(kind);
  const char *q = c->queries + query_header(kind) + j * FOPO_UNIT;
  int is_dense = c->found * DENSE > s * 16;
  __m256i low[4], high[4];
#pragma GCC unroll 4
  for (int l = 0; l < n_queries; l++) {
    low[l] = high[l] = kind == FOPO_PACKED_INT8
                           ? _mm256_set1_epi32(word_at(c->queries + 64, j + (size_t)l))
                           : _mm256_setzero_si256();
  }
#pragma GCC unroll 2
  for (size_t u = 0; u < c->units; u++, x += 64, q += 64) {
    __m256i row0 = load_256(x), row1 = load_256(x + 32);
    if (is_first) __builtin_prefetch(x + 4 * c->group);
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
    append_256(c, scores_256(low[l], group, 0, c->queries, query), floor, s, query, is_dense);
    if (c->count - s <= 8) continue;
    append_256(c, scores_256(high[l], group, 8, c->queries, query), floor, s + 8, query, is_dense);
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
      size_t j = end & ~(size_t)3;
      if (j > 0) select_block_256(kind, &c, s, 0, 4, 1);
      for (size_t i = 4; i < j; i += 4) select_block_256(kind, &c, s, i, 4, 0);
      if ((end & 2) != 0) select_block_256(kind, &c, s, j, 2, 1), j += 2;
      if ((end & 1) != 0) select_block_256(kind, &c, s, j, 1, 1);
    }
    found[h] = c.found;
  }
}

#endif
#endif
