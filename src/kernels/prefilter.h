/* Screening: inner products in bfloat16, to find the few that are worth computing in float.
 *
 * Rows and queries are rounded to 8 bits of mantissa, products are summed in float, and what is
 * below a floor is dropped without being stored. |screened - exact| is bounded, so that no item is
 * lost whose exact score could matter:
 *
 *     |a'b' - ab| <= (2^-7 + 2^-16) sum |a b|          both operands within 2^-8 of their values
 *                  + (L + 16) 2^-24 1.01 sum |a b|     L products summed in any order
 *                  + FLT_MIN (sum |a| + sum |b| + 2 L) subnormal values and sums taken as 0
 *
 * and sum |a b| <= |a| |b|, sum |a| <= sqrt(L) |a|.
 *
 * Packed rows lie in groups of 16, a group as chunks of columns, a chunk as [16, width] values; all
 * chunks are of one even width <= 32, columns past the last are 0, and so are rows past the last.
 * Packed queries are chunks too, [width / 2, FOPO_PANEL, 2]: two columns of every query side by
 * side, those of the first 16 queries before the others. */
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

/* Columns of a chunk, dim > 0. */
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

/* To the nearest of 8 bits of mantissa, ties to even; subnormal values become 0. */
static inline float fopo_prefilter_round(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t kept = (bits & 0x7f800000u) == 0 ? 0x80000000u : 0xffff0000u;
  bits = (bits + 0x7fffu + (bits >> 16 & 1)) & kept;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* |x - rounded x|: at most 2^-8 |x| and often less than half of that. */
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
  /* out [fopo_prefilter_rows(count), fopo_prefilter_row(dim)]; rows, ld and ids as `scores` of
   * kernels.h takes them. */
  void (*pack)(uint16_t *out, const float *rows, size_t ld, const uint32_t *ids, size_t count,
               size_t dim);

  /* out [FOPO_PANEL, fopo_prefilter_row(dim)]: the queries of panel [dim, width], missing ones 0.
   */
  void (*pack_queries)(uint16_t *out, const float *panel, size_t dim, size_t width);

  /* Where row s and query 16 h + j < width score at least floor[16 h + j]: s * 16 + j, ascending,
   * in list + h * 16 * count, the score beside it in scores, found[h] of them; h = 0, 1.
   * floor [FOPO_PANEL]; list and scores [FOPO_PANEL * count]. */
  void (*above)(uint32_t *list, float *scores, size_t found[2], const uint16_t *rows, size_t count,
                const uint16_t *queries, size_t dim, size_t width, const float *floor);
} fopo_prefilter;

/* In plain C, for tests; by tiles of AMX, NULL where the build is not for x86-64 (whether the CPU
 * can run it is asked in kernels.c). */
const fopo_prefilter *fopo_prefilter_portable(void);
const fopo_prefilter *fopo_prefilter_amx(void);

#endif
