/* The prefilter: inner products of rounded rows and queries, to find the few items whose score must
 * be computed in float32. Scores below a floor are dropped without being stored. The error is
 * bounded, so that the caller can lower the floor by it and lose no item whose exact score could
 * matter. With a' the rounded a, and a'b' the exact inner product of rounded vectors,
 *
 *     |a'b' - ab| <= |a| |b - b'| + |a - a'| |b'|
 *
 * The caller measures |a - a'| of queries and packed rows by `rounding`, or takes what it can be at
 * most, `most_rounding` |a| + FLT_MIN sqrt(L). To this add the error of the computed a'b':
 *
 *     (L + 16) 2^-24 1.01 |a'| |b'|            L products summed in float32, in any order
 *     FLT_MIN (sqrt(L) (|a| + |b|) + 2 L)      operands, products and sums flushed to 0
 *
 * Kinds of numbers:
 *
 *   bfloat16  8 bits of mantissa, to nearest; subnormal values become 0. |a_i - a'_i| <= 2^-8 |a_i|
 *   int16     a'_i = s n_i with integers n_i and s = max(|a| / 32000, FLT_MIN). The sum of products
 *             of integers is exact in 32 bits, in any order: |n| <= 32000 + 0.51 sqrt(L), and by
 *             Cauchy-Schwarz the sum is at most the product of two such norms, < 2^31 for
 *             L <= 2^24. Three roundings follow: to float32, and the products with the scales s.
 *   int8      the same with s = max(max |a_i| / 127, FLT_MIN), |n_i| <= 127, and a sum <= 127^2 L,
 *             < 2^31 for L <= 2^17.
 *
 * Rounding to an integer is computed as n_i = round(a_i (1 / s)) in float32, so |a_i - s n_i| is at
 * most 0.51 s, and sqrt(L) times that for the vector. */
#ifndef FOPO_KERNELS_PREFILTER_H
#define FOPO_KERNELS_PREFILTER_H

#include <stddef.h>
#include <stdint.h>

enum { FOPO_PREFILTER_GROUP = 16 }; /* rows that are packed together */

/* How numbers are rounded and laid out: prefilter_tiles.h, prefilter_units.h, and in plain C
 * tests/c/prefilter_portable.h. */
typedef enum {
  FOPO_PACKED_TILES,    /* bfloat16, in the tiles of AMX */
  FOPO_PACKED_BFLOAT16, /* in units of two columns */
  FOPO_PACKED_INT16,    /* in units of two columns */
  FOPO_PACKED_INT8,     /* in units of four columns */
  FOPO_PACKED_KINDS
} fopo_packed;

typedef struct fopo_prefilter {
  fopo_packed kind;

  size_t max_dim; /* no longer rows */

  /* Rows that are not packed yet are worth packing for one search of so many queries; SIZE_MAX: for
   * none, because the bound on their rounding is too loose. */
  size_t pays_from;

  /* Bytes of a packed row, as one of a whole group, and of a packed query, as one of 16. */
  size_t (*row_bytes)(size_t dim);
  size_t (*query_bytes)(size_t dim);

  /* |x - x'| of x [n] as a row or a query is rounded, and a bound on it / |x| for any x. */
  double (*rounding)(const float *x, size_t n);
  double (*most_rounding)(size_t n);

  /* out [fopo_prefilter_rows(count), row_bytes(dim)] = the rows, packed; rows, ld and ids as
   * `scores` of kernels.h takes them. */
  void (*pack)(void *out, const float *rows, size_t ld, const uint32_t *ids, size_t count,
               size_t dim);

  /* out [FOPO_PANEL, query_bytes(dim)] = the queries of panel [dim, width], packed; width is
   * FOPO_PANEL or half of it. */
  void (*pack_queries)(void *out, const float *panel, size_t dim, size_t width);

  /* Multiplies `count` packed rows by the first n <= FOPO_PANEL packed queries and keeps the scores
   * >= their query's floor. For each half h = 0, 1 of the queries: list + h * 16 * count holds
   * s * 16 + j for row s and query 16 h + j < n, in rising order of s for each query; scores holds
   * the score at the same place; found[h] says how many. floor [FOPO_PANEL], INFINITY from n on;
   * list, scores [FOPO_PANEL * count]. */
  void (*score_and_select)(uint32_t *list, float *scores, size_t found[2], const void *rows,
                           size_t count, const void *queries, size_t dim, size_t n,
                           const float *floor);
} fopo_prefilter;

/* Rows rounded up to whole groups. */
static inline size_t fopo_prefilter_rows(size_t count) {
  return (count + FOPO_PREFILTER_GROUP - 1) / FOPO_PREFILTER_GROUP * FOPO_PREFILTER_GROUP;
}

#endif
