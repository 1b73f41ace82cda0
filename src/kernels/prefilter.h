/* The prefilter: inner products in bfloat16, to find the few items whose score must be computed in
 * float32.
 *
 * Rows and queries are rounded to 8 bits of mantissa, products are summed in float32, and scores
 * below a floor are dropped without being stored. The error is bounded, so that the caller can
 * lower the floor by it and lose no item whose exact score could matter; with a' the rounded a:
 *
 *     |a'b' - ab| <= (2^-7 + 2^-16) sum |a b|          both operands rounded by 2^-8 at most
 *                  + (L + 16) 2^-24 1.01 sum |a b|     L products summed in any order
 *                  + FLT_MIN (sum |a| + sum |b| + 2 L) subnormal values and sums flushed to 0
 *
 * and sum |a b| <= |a| |b|, sum |a| <= sqrt(L) |a|.
 *
 * Packed rows: groups of 16 rows; a group is a sequence of chunks of columns, a chunk is [16,
 * width] values. All chunks have the same even width <= 32; missing columns and rows are 0. Packed
 * queries: the same chunks of columns, a chunk is [2, width / 2, 16, 2] values: the first 16
 * queries, then the others; columns in pairs, and the pair of each query side by side. */
#ifndef FOPO_KERNELS_PREFILTER_H
#define FOPO_KERNELS_PREFILTER_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FOPO_PREFILTER_GROUP = 16, FOPO_PREFILTER_CHUNK = 32 };

static inline size_t fopo_prefilter_chunks(size_t dim) {
  return (dim + FOPO_PREFILTER_CHUNK - 1) / FOPO_PREFILTER_CHUNK;
}

/* The width of a chunk, dim > 0. */
static inline size_t fopo_prefilter_width(size_t dim) {
  size_t chunks = fopo_prefilter_chunks(dim);
  return ((dim + chunks - 1) / chunks + 1) / 2 * 2;
}

/* Values of a packed row, or of one packed query. */
static inline size_t fopo_prefilter_row(size_t dim) {
  return fopo_prefilter_chunks(dim) * fopo_prefilter_width(dim);
}

/* Rows rounded up to whole groups. */
static inline size_t fopo_prefilter_rows(size_t count) {
  return (count + FOPO_PREFILTER_GROUP - 1) / FOPO_PREFILTER_GROUP * FOPO_PREFILTER_GROUP;
}

/* Rounded to 8 bits of mantissa, to nearest, ties to even; subnormal values become 0. */
static inline float fopo_prefilter_round(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t kept = (bits & 0x7f800000u) == 0 ? 0x80000000u : 0xffff0000u;
  bits = (bits + 0x7fffu + (bits >> 16 & 1)) & kept;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* The norm of x - rounded x: at most 2^-8 |x|, and often less than half of that. */
static inline double fopo_prefilter_error(const float *x, size_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < n; i++) {
    double rest = (double)x[i] - (double)fopo_prefilter_round(x[i]);
    sum += rest * rest;
  }
  return sqrt(sum);
}

typedef struct fopo_prefilter {
  /* out [fopo_prefilter_rows(count), fopo_prefilter_row(dim)] = the rows, packed; rows, ld and ids
   * as `scores` of kernels.h takes them. */
  void (*pack)(uint16_t *out, const float *rows, size_t ld, const uint32_t *ids, size_t count,
               size_t dim);

  /* out [FOPO_PANEL, fopo_prefilter_row(dim)] = the queries of panel [dim, width], packed; queries
   * from width on are 0. */
  void (*pack_queries)(uint16_t *out, const float *panel, size_t dim, size_t width);

  /* Multiplies `count` packed rows by the packed queries and keeps the scores >= their query's
   * floor. For each half h = 0, 1 of the queries: list + h * 16 * count holds s * 16 + j,
   * ascending, for row s and query 16 h + j < width; scores holds the score at the same place;
   * found[h] says how many. floor [FOPO_PANEL]; list, scores [FOPO_PANEL * count]. */
  void (*score_and_select)(uint32_t *list, float *scores, size_t found[2], const uint16_t *rows,
                           size_t count, const uint16_t *queries, size_t dim, size_t width,
                           const float *floor);
} fopo_prefilter;

/* In plain C: for tests. It is slower than scoring in float32. */
const fopo_prefilter *fopo_prefilter_portable(void);

#endif
