/* The prefilters in plain C: the definitions that instruction sets are tested against. They are
 * slower than scoring in float32, so the program has none of them. */
#ifndef FOPO_TESTS_PREFILTER_PORTABLE_H
#define FOPO_TESTS_PREFILTER_PORTABLE_H

#include <string.h>

#include "kernels/kernels.h"
#include "kernels/prefilter.h"
#include "kernels/prefilter_tiles.h"
#include "kernels/prefilter_units.h"

static float float_of(uint16_t bf16) {
  uint32_t bits = (uint32_t)bf16 << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Appends one score to the list of its half. */
static void append(uint32_t *list, float *scores, size_t found[2], size_t count, size_t s, size_t j,
                   float score) {
  size_t half = j / 16, at = half * 16 * count + found[half]++;
  scores[at] = score;
  list[at] = (uint32_t)(s * 16 + j % 16);
}

/* ---- tiles ---- */

/* Where column i of row s is in packed rows. */
static size_t row_place(size_t s, size_t i, size_t dim) {
  size_t width = fopo_tile_width(dim), row = fopo_tile_row(dim);
  size_t group = s / FOPO_PREFILTER_GROUP * FOPO_PREFILTER_GROUP;
  return group * row + i / width * width * FOPO_PREFILTER_GROUP + s % FOPO_PREFILTER_GROUP * width +
         i % width;
}

/* Where column i of query j is in packed queries. */
static size_t query_place(size_t j, size_t i, size_t dim) {
  size_t width = fopo_tile_width(dim), pair = i % width / 2;
  return i / width * width * FOPO_PANEL + j / 16 * width * 16 + (pair * 16 + j % 16) * 2 + i % 2;
}

static void pack_tiles(void *out, const float *rows, size_t ld, const uint32_t *ids, size_t count,
                       size_t dim) {
  uint16_t *to = out;
  memset(out, 0, fopo_prefilter_rows(count) * fopo_tile_row_bytes(dim));
  for (size_t s = 0; s < count; s++) {
    const float *row = row_of(rows, ld, ids, s);
    for (size_t i = 0; i < dim; i++) {
      to[row_place(s, i, dim)] = (uint16_t)(fopo_bfloat16_bits(row[i]) >> 16);
    }
  }
}

static void pack_query_tiles(void *out, const float *panel, size_t dim, size_t width) {
  uint16_t *to = out;
  memset(out, 0, FOPO_PANEL * fopo_tile_row_bytes(dim));
  for (size_t i = 0; i < dim; i++) {
    for (size_t j = 0; j < width; j++) {
      to[query_place(j, i, dim)] = (uint16_t)(fopo_bfloat16_bits(panel[i * width + j]) >> 16);
    }
  }
}

static void select_of_tiles(uint32_t *list, float *scores, size_t found[2], const void *rows,
                            size_t count, const void *queries, size_t dim, size_t n,
                            const float *floor) {
  const uint16_t *a = rows, *b = queries;
  found[0] = found[1] = 0;
  for (size_t s = 0; s < count; s++) {
    for (size_t j = 0; j < n; j++) {
      float sum = 0;
      for (size_t i = 0; i < dim; i++) {
        sum += float_of(a[row_place(s, i, dim)]) * float_of(b[query_place(j, i, dim)]);
      }
      if (sum >= floor[j]) append(list, scores, found, count, s, j, sum);
    }
  }
}

/* ---- units ---- */

static float float_at(const char *at, size_t i) {
  float x;
  memcpy(&x, at + i * sizeof x, sizeof x);
  return x;
}

/* Column i of row or query j of `units`. */
static float bfloat16_at(const char *units, size_t j, size_t i) {
  uint16_t x;
  memcpy(&x, units + (i / 2 * 16 + j) * FOPO_UNIT + i % 2 * sizeof x, sizeof x);
  return float_of(x);
}

static int32_t int16_at(const char *units, size_t j, size_t i) {
  int16_t x;
  memcpy(&x, units + (i / 2 * 16 + j) * FOPO_UNIT + i % 2 * sizeof x, sizeof x);
  return x;
}

static int32_t int8_at(const char *units, size_t j, size_t i) {
  return (int8_t)units[(i / 4 * 16 + j) * FOPO_UNIT + i % 4];
}

static int32_t uint8_at(const char *units, size_t j, size_t i) {
  return (uint8_t)units[(i / 4 * 16 + j) * FOPO_UNIT + i % 4];
}

/* The score of row r of a group with query j of half a panel. */
static float unit_score(fopo_packed kind, const char *group, size_t r, const char *half, size_t j,
                        size_t dim) {
  const char *a = group + row_header(kind), *b = half + query_header(kind);
  float sum = 0;
  int32_t whole_sum = 0;
  if (kind == FOPO_PACKED_INT8) memcpy(&whole_sum, half + 64 + j * sizeof whole_sum, 4);
  for (size_t i = 0; i < dim; i++) {
    if (kind == FOPO_PACKED_BFLOAT16) sum += bfloat16_at(a, r, i) * bfloat16_at(b, j, i);
    if (kind == FOPO_PACKED_INT16) whole_sum += int16_at(a, r, i) * int16_at(b, j, i);
    if (kind == FOPO_PACKED_INT8) whole_sum += uint8_at(a, r, i) * int8_at(b, j, i);
  }
  if (kind == FOPO_PACKED_BFLOAT16) return sum;
  return (float)whole_sum * float_at(group, r) * float_at(half, j);
}

static inline void select_of_units(fopo_packed kind, uint32_t *list, float *scores, size_t found[2],
                                   const char *rows, size_t count, const char *queries, size_t dim,
                                   size_t n, const float *floor) {
  found[0] = found[1] = 0;
  for (size_t s = 0; s < count; s++) {
    for (size_t j = 0; j < n; j++) {
      float score = unit_score(kind, rows + s / 16 * group_bytes(kind, dim), s % 16,
                               queries + j / 16 * half_bytes(kind, dim), j % 16, dim);
      if (score >= floor[j]) append(list, scores, found, count, s, j, score);
    }
  }
}

FOPO_UNIT_FUNCTIONS(bfloat16, FOPO_PACKED_BFLOAT16, select_of_units)
FOPO_UNIT_FUNCTIONS(int16, FOPO_PACKED_INT16, select_of_units)
FOPO_UNIT_FUNCTIONS(int8, FOPO_PACKED_INT8, select_of_units)

static const fopo_prefilter *prefilter_portable(fopo_packed kind) {
  static const fopo_prefilter prefilters[FOPO_PACKED_KINDS] = {
      {FOPO_PACKED_TILES, SIZE_MAX, 3, fopo_tile_row_bytes, fopo_tile_row_bytes,
       fopo_bfloat16_rounding, fopo_bfloat16_most_rounding, pack_tiles, pack_query_tiles,
       select_of_tiles},
      FOPO_UNIT_MEMBERS(bfloat16, FOPO_PACKED_BFLOAT16, 3),
      FOPO_UNIT_MEMBERS(int16, FOPO_PACKED_INT16, 3),
      FOPO_UNIT_MEMBERS(int8, FOPO_PACKED_INT8, SIZE_MAX)};
  return &prefilters[kind];
}

#endif
