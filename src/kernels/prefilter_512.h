/* The prefilters of AVX-512: scores of 32 rows with 8 queries at a time, in registers, and the
 * selection from them. */
#ifndef FOPO_KERNELS_PREFILTER_512_H
#define FOPO_KERNELS_PREFILTER_512_H

#include "kernels/prefilter_units.h"

#if defined(__AVX512F__) && defined(__AVX512BW__)

#include <immintrin.h>

/* Appends the lanes with x >= floor: their places and scores; returns how many. Both arrays get 16
 * lanes, of which the last are garbage that the next call overwrites: 16 is the most that a call
 * appends, so the lists never overflow. `few`: calls with any such lane are rare, so that a branch
 * over the others is predicted well; otherwise mispredictions would cost more than the stores. */
INLINE size_t append_passing(uint32_t *list, float *scores, __m512 x, __m512 floor, __m512i places,
                             int few) {
  __mmask16 pass = _mm512_cmp_ps_mask(x, floor, _CMP_GE_OQ);
  if (few && pass == 0) return 0;
  _mm512_storeu_si512(list, _mm512_maskz_compress_epi32(pass, places));
  _mm512_storeu_ps(scores, _mm512_maskz_compress_ps(pass, x));
  return (size_t)__builtin_popcount(pass);
}

/* The same of the first `rows` < 16 lanes alone, of which nothing else is written. */
INLINE size_t append_passing_of(uint32_t *list, float *scores, __m512 x, __m512 floor,
                                __m512i places, size_t rows) {
  __mmask16 pass = _mm512_cmp_ps_mask(x, floor, _CMP_GE_OQ) & (__mmask16)((1u << rows) - 1u);
  size_t found = (size_t)__builtin_popcount(pass);
  __mmask16 first = (__mmask16)((1u << found) - 1u);
  _mm512_mask_storeu_epi32(list, first, _mm512_maskz_compress_epi32(pass, places));
  _mm512_mask_storeu_ps(scores, first, _mm512_maskz_compress_ps(pass, x));
  return found;
}

/* sum + the products of the 2 or 4 columns of a unit, for 16 rows: one instruction, or two with
 * AVX-512 alone. */
INLINE __m512i add_products_512(const fopo_packed kind, __m512i sum, __m512i rows, __m512i query) {
#if defined(__AVX512BF16__)
  if (kind == FOPO_PACKED_BFLOAT16) {
    __m512 x = _mm512_castsi512_ps(sum);
    return _mm512_castps_si512(_mm512_dpbf16_ps(x, (__m512bh)rows, (__m512bh)query));
  }
#endif
#if defined(__AVX512VNNI__)
  if (kind == FOPO_PACKED_INT8) return _mm512_dpbusd_epi32(sum, rows, query);
#endif
  (void)kind;
  return _mm512_add_epi32(sum, _mm512_madd_epi16(rows, query));
}

/* The scores of 16 rows with query j. */
INLINE __m512 scores_512(const fopo_packed kind, __m512i sum, const char *group,
                         const char *queries, size_t j) {
  if (kind == FOPO_PACKED_BFLOAT16) return _mm512_castsi512_ps(sum);
  __m512 x = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps((const void *)group));
  return _mm512_mul_ps(x, _mm512_set1_ps(scale_at(queries, j)));
}

/* n_groups <= 2 groups of rows from row s on with n_queries <= 8 queries from query j on: n_queries
 * * n_groups vectors of sums, which stay in registers, and one broadcast unit of a query at a time.
 */
INLINE void select_block_512(const fopo_packed kind, selection *c, size_t s, size_t j, int few,
                             const int n_queries, const int n_groups) {
  const __m512i places =
      _mm512_setr_epi32(0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240);
  const char *group[2] = {c->rows + s / 16 * c->group, c->rows + (s / 16 + 1) * c->group};
  const char *x = group[0] + row_header(kind);
  const char *q = c->queries + query_header(kind) + j * FOPO_UNIT;
  __m512i sum[16];
#pragma GCC unroll 16
  for (int k = 0; k < n_queries * n_groups; k++) {
    size_t query = j + (size_t)(k / n_groups);
    sum[k] = kind == FOPO_PACKED_INT8 ? _mm512_set1_epi32(word_at(c->queries + 64, query))
                                      : _mm512_setzero_si512();
  }
#pragma GCC unroll 1
  for (size_t u = 0; u < c->units; u++, x += 64, q += 64) {
    __m512i row[2];
#pragma GCC unroll 2
    for (int g = 0; g < n_groups; g++) row[g] = _mm512_loadu_si512(x + (size_t)g * c->group);
    if (j == 0) {
#pragma GCC unroll 2
      for (int g = 0; g < n_groups; g++) __builtin_prefetch(x + (size_t)(g + 4) * c->group);
    }
#pragma GCC unroll 8
    for (int l = 0; l < n_queries; l++) {
      __m512i query = _mm512_set1_epi32(word_at(q, (size_t)l));
#pragma GCC unroll 2
      for (int g = 0; g < n_groups; g++) {
        int k = l * n_groups + g;
        sum[k] = add_products_512(kind, sum[k], row[g], query);
      }
    }
  }
#pragma GCC unroll 8
  for (int l = 0; l < n_queries; l++) {
    __m512 floor = _mm512_set1_ps(c->floor[j + (size_t)l]);
#pragma GCC unroll 2
    for (int g = 0; g < n_groups; g++) {
      size_t first = s + 16 * (size_t)g, left = c->count - first;
      __m512 score = scores_512(kind, sum[l * n_groups + g], group[g], c->queries, j + (size_t)l);
      __m512i place =
          _mm512_add_epi32(places, _mm512_set1_epi32((int)(first * 16 + j + (size_t)l)));
      uint32_t *list = c->list + c->found;
      float *scores = c->scores + c->found;
      c->found += left < 16 ? append_passing_of(list, scores, score, floor, place, left)
                            : append_passing(list, scores, score, floor, place, few);
    }
  }
}

/* The same with queries 0 .. n - 1, n <= 16: by eight, and what is left by four, two and one. */
INLINE void select_groups_512(const fopo_packed kind, selection *c, size_t s, size_t n, int few,
                              const int n_groups) {
  size_t j = 0;
  for (; j + 8 <= n; j += 8) select_block_512(kind, c, s, j, few, 8, n_groups);
  if ((n & 4) != 0) select_block_512(kind, c, s, j, few, 4, n_groups), j += 4;
  if ((n & 2) != 0) select_block_512(kind, c, s, j, few, 2, n_groups), j += 2;
  if ((n & 1) != 0) select_block_512(kind, c, s, j, few, 1, n_groups);
}

/* score_and_select of kernels/prefilter.h */
INLINE void unit_select_512(const fopo_packed kind, uint32_t *list, float *scores, size_t found[2],
                            const char *rows, size_t count, const char *queries, size_t dim,
                            size_t n, const float *floor) {
  found[0] = found[1] = 0;
  for (size_t h = 0; 16 * h < n; h++) {
    size_t queries_here = n - 16 * h < 16 ? n - 16 * h : 16, s = 0;
    selection c = half_selection(kind, list, scores, rows, count, queries, dim, floor, h);
    int few = 1; /* fewer than a quarter of the last vectors had a score that passed */
    for (; s < count; s += 32) {
      size_t before = c.found;
      if (count - s > 16) {
        select_groups_512(kind, &c, s, queries_here, few, 2);
      } else {
        select_groups_512(kind, &c, s, queries_here, few, 1);
      }
      few = c.found - before < queries_here / 2;
    }
    found[h] = c.found;
  }
}

#endif
#endif
