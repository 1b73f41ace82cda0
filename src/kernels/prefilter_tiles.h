/* The numbers of a prefilter in bfloat16, and their layout in the tiles of AMX.
 *
 * Packed rows: groups of 16 rows; a group is a sequence of chunks of columns, a chunk is [16,
 * width] values. All chunks have the same even width <= 32; missing columns and rows are 0. Packed
 * queries: the same chunks of columns, a chunk is [2, width / 2, 16, 2] values: the first 16
 * queries, then the others; columns in pairs, and the pair of each query side by side. */
#ifndef FOPO_KERNELS_PREFILTER_TILES_H
#define FOPO_KERNELS_PREFILTER_TILES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FOPO_TILE_CHUNK = 32 };

static inline size_t fopo_tile_chunks(size_t dim) {
  return (dim + FOPO_TILE_CHUNK - 1) / FOPO_TILE_CHUNK;
}

/* The width of a chunk, dim > 0. */
static inline size_t fopo_tile_width(size_t dim) {
  size_t chunks = fopo_tile_chunks(dim);
  return ((dim + chunks - 1) / chunks + 1) / 2 * 2;
}

/* Values of a packed row, or of one packed query. */
static inline size_t fopo_tile_row(size_t dim) {
  return fopo_tile_chunks(dim) * fopo_tile_width(dim);
}
static inline size_t fopo_tile_row_bytes(size_t dim) {
  return fopo_tile_row(dim) * sizeof(uint16_t);
}

/* The bits of x rounded to bfloat16, to nearest, ties to even; subnormal values become 0. */
static inline uint32_t fopo_bfloat16_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t kept = (bits & 0x7f800000u) == 0 ? 0x80000000u : 0xffff0000u;
  return (bits + 0x7fffu + (bits >> 16 & 1)) & kept;
}

static inline double fopo_bfloat16_rounding(const float *x, size_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = fopo_bfloat16_bits(x[i]);
    float rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    double rest = (double)x[i] - (double)rounded;
    sum += rest * rest;
  }
  return sqrt(sum);
}

static inline double fopo_bfloat16_most_rounding(size_t n) {
  (void)n;
  return 0x1p-8;
}

#endif
