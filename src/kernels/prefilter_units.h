/* The prefilters whose packed rows and queries are made of units: 4 bytes that hold two columns of
 * a row as bfloat16 or int16, or four columns as int8. A vector instruction multiplies a unit of 16
 * rows, side by side, by that unit of one query, and adds to sums of 4 bytes. So the cost is that
 * of the queries there are, and a query's scores lie in vectors.
 *
 * Packed rows: groups of 16 rows. A group is a header and units [units, 16], unit i of each row
 * side by side. Packed queries: the first 16 of a panel, then the others; each half is a header and
 * units [units, 16]. Missing columns are 0, and so are the scales of missing rows. Headers:
 *
 *   bfloat16  rows and queries: none
 *   int16     rows: float scale [16]      queries: float scale [16]
 *   int8      rows: float scale [16]      queries: float scale [16], int32_t start [16]
 *
 * Rows in int8 are stored as n + 128, unsigned, as the instructions require of one operand; so the
 * sums of a query start at -128 times the sum of its numbers. */
#ifndef FOPO_KERNELS_PREFILTER_UNITS_H
#define FOPO_KERNELS_PREFILTER_UNITS_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/norm.h"
#include "kernels/kernels_tables.h"
#include "kernels/prefilter.h"
#include "kernels/prefilter_tiles.h"

enum {
  FOPO_UNIT = 4,        /* bytes */
  FOPO_UNIT_PIECE = 64, /* columns that are rounded at a time: they fill whole units */
  FOPO_UNIT_OFFSET = 128
};

#define FOPO_INT16_NORM 32000.0 /* of a rounded vector, in units of its scale */
#define FOPO_INT8_MOST  127.0f  /* of a rounded number */

INLINE size_t unit_columns(fopo_packed kind) { return kind == FOPO_PACKED_INT8 ? 4 : 2; }

INLINE size_t unit_count(fopo_packed kind, size_t dim) {
  return (dim + unit_columns(kind) - 1) / unit_columns(kind);
}

INLINE size_t row_header(fopo_packed kind) { return kind == FOPO_PACKED_BFLOAT16 ? 0 : 64; }

INLINE size_t query_header(fopo_packed kind) {
  return row_header(kind) + (kind == FOPO_PACKED_INT8 ? 64 : 0);
}

/* Bytes of a group of rows, and of half a panel of queries. */
INLINE size_t group_bytes(fopo_packed kind, size_t dim) {
  return row_header(kind) + unit_count(kind, dim) * 16 * FOPO_UNIT;
}

INLINE size_t half_bytes(fopo_packed kind, size_t dim) {
  return query_header(kind) + unit_count(kind, dim) * 16 * FOPO_UNIT;
}

/* ---- rounding ---- */

/* The norm (int16) or the largest number (int8) of a vector, in units of its scale. */
INLINE double unit_steps(fopo_packed kind) {
  return kind == FOPO_PACKED_INT16 ? FOPO_INT16_NORM : (double)FOPO_INT8_MOST;
}

INLINE float scale_for(fopo_packed kind, double norm, float most) {
  float scale = kind == FOPO_PACKED_INT16 ? (float)(norm / FOPO_INT16_NORM) : most / FOPO_INT8_MOST;
  return scale > FLT_MIN ? scale : FLT_MIN;
}

INLINE float largest_size(const float *x, size_t n) {
  float most = 0;
#pragma omp simd reduction(max : most)
  for (size_t i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
  return most;
}

INLINE float scale_of(fopo_packed kind, const float *x, size_t n) {
  if (kind == FOPO_PACKED_BFLOAT16) return 1.0f;
  return kind == FOPO_PACKED_INT16 ? scale_for(kind, fopo_norm(x, n), 0.0f)
                                   : scale_for(kind, 0.0, largest_size(x, n));
}

/* x / scale rounded to the nearest integer, ties to even: the sum with 1.5 * 2^23 has no bits for a
 * fraction. */
INLINE float whole(float x, float inverse) { return (x * inverse + 0x1.8p23f) - 0x1.8p23f; }

/* Of integers in float32, in units of the scale: x (1 / scale) is wrong by 2^-23 of the largest
 * number at most, and the sum by 2^-7 at most, for which the result is raised. */
INLINE double unit_rounding(fopo_packed kind, const float *x, size_t n) {
  if (kind == FOPO_PACKED_BFLOAT16) return fopo_bfloat16_rounding(x, n);
  float scale = scale_of(kind, x, n), inverse = 1.0f / scale, sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < n; i++) {
    float rest = x[i] * inverse - whole(x[i], inverse);
    sum += rest * rest;
  }
  double slack = 0x1p-22 * unit_steps(kind) * sqrt((double)n);
  return (double)scale * ((1.0 + 0x1p-6) * sqrt((double)sum) + slack);
}

INLINE double unit_most_rounding(fopo_packed kind, size_t n) {
  if (kind == FOPO_PACKED_BFLOAT16) return fopo_bfloat16_most_rounding(n);
  return 0.51 * sqrt((double)n) / unit_steps(kind);
}

/* ---- packing ---- */

/* n <= FOPO_UNIT_PIECE numbers at distance ld as words of units, offset added; the rest of `words`
 * is undefined but for the last unit, which is filled up with zeros. Returns the sum of the
 * integers. */
INLINE int32_t piece_words(fopo_packed kind, uint32_t *words, const float *x, size_t ld, size_t n,
                           float inverse, int32_t offset) {
  uint16_t two[FOPO_UNIT_PIECE] = {0};
  uint8_t four[FOPO_UNIT_PIECE] = {0};
  int32_t sum = 0;
  if (kind == FOPO_PACKED_BFLOAT16) {
#pragma omp simd
    for (size_t i = 0; i < n; i++) two[i] = (uint16_t)(fopo_bfloat16_bits(x[i * ld]) >> 16);
  } else if (kind == FOPO_PACKED_INT16) {
#pragma omp simd
    for (size_t i = 0; i < n; i++) two[i] = (uint16_t)(int32_t)whole(x[i * ld], inverse);
  } else {
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++) {
      int32_t number = (int32_t)whole(x[i * ld], inverse);
      sum += number;
      four[i] = (uint8_t)(number + offset);
    }
  }
  const void *numbers = kind == FOPO_PACKED_INT8 ? (const void *)four : (const void *)two;
  memcpy(words, numbers, FOPO_UNIT * FOPO_UNIT_PIECE / unit_columns(kind));
  return sum;
}

/* Column j of a group or of half a panel: units at out + 64 i + 4 j. Returns the sum of the
 * integers. */
INLINE int32_t pack_column(fopo_packed kind, char *out, size_t j, const float *x, size_t ld,
                           size_t dim, float scale, int32_t offset) {
  float inverse = 1.0f / scale;
  int32_t sum = 0;
  out += j * FOPO_UNIT;
  for (size_t i = 0; i < dim; i += FOPO_UNIT_PIECE) {
    uint32_t words[FOPO_UNIT_PIECE / 2];
    size_t n = dim - i < FOPO_UNIT_PIECE ? dim - i : FOPO_UNIT_PIECE;
    sum += piece_words(kind, words, x + i * ld, ld, n, inverse, offset);
    for (size_t u = 0; u < unit_count(kind, n); u++, out += 16 * FOPO_UNIT) {
      memcpy(out, &words[u], sizeof *words);
    }
  }
  return sum;
}

INLINE void put_scale(char *header, size_t j, float scale) {
  memcpy(header + j * sizeof scale, &scale, sizeof scale);
}

INLINE void put_start(char *header, size_t j, int32_t sum) {
  int32_t start = -FOPO_UNIT_OFFSET * sum;
  memcpy(header + 64 + j * sizeof start, &start, sizeof start);
}

INLINE void unit_pack(fopo_packed kind, char *out, const float *rows, size_t ld,
                      const uint32_t *ids, size_t count, size_t dim) {
  enum { AHEAD = 8 }; /* the prefetch distance in rows */
  size_t bytes = group_bytes(kind, dim), rest = count % FOPO_PREFILTER_GROUP;
  if (rest > 0) memset(out + count / FOPO_PREFILTER_GROUP * bytes, 0, bytes);
  for (size_t s = 0; s < count; s++) {
    char *group = out + s / FOPO_PREFILTER_GROUP * bytes;
    size_t j = s % FOPO_PREFILTER_GROUP;
    const float *x = row_of(rows, ld, ids, s);
    if (s + AHEAD < count) prefetch_row(row_of(rows, ld, ids, s + AHEAD), dim);
    float scale = scale_of(kind, x, dim);
    pack_column(kind, group + row_header(kind), j, x, 1, dim, scale, FOPO_UNIT_OFFSET);
    if (kind != FOPO_PACKED_BFLOAT16) put_scale(group, j, scale);
  }
}

/* Scales of the columns of panel [dim, width]: each has the bits of scale_of. */
INLINE void panel_scales(fopo_packed kind, float *scale, const float *panel, size_t dim,
                         size_t width) {
  double sum[FOPO_PANEL][FOPO_NORM_LANES] = {{0}};
  float most[FOPO_PANEL] = {0};
  for (size_t i = 0; i < dim; i++) {
    for (size_t j = 0; j < width; j++) {
      float x = panel[i * width + j];
      sum[j][i % FOPO_NORM_LANES] += (double)x * (double)x;
      most[j] = fabsf(x) > most[j] ? fabsf(x) : most[j];
    }
  }
  for (size_t j = 0; j < width; j++) {
    scale[j] = scale_for(kind, fopo_norm_of_lanes(sum[j]), most[j]);
  }
}

INLINE void unit_pack_queries(fopo_packed kind, char *out, const float *panel, size_t dim,
                              size_t width) {
  size_t bytes = half_bytes(kind, dim);
  float scale[FOPO_PANEL];
  panel_scales(kind, scale, panel, dim, width);
  for (size_t j = 0; j < width; j++) {
    char *half = out + j / 16 * bytes;
    char *units = half + query_header(kind);
    int32_t sum = pack_column(kind, units, j % 16, panel + j, width, dim, scale[j], 0);
    if (kind != FOPO_PACKED_BFLOAT16) put_scale(half, j % 16, scale[j]);
    if (kind == FOPO_PACKED_INT8) put_start(half, j % 16, sum);
  }
}

/* ---- scores and selection ---- */

/* A call of score_and_select for half a panel. */
typedef struct {
  const char *rows, *queries;
  size_t count, units, group; /* rows, units of a row, bytes of a group of rows */
  const float *floor;
  uint32_t *list;
  float *scores;
  size_t found;
} selection;

INLINE int32_t word_at(const char *at, size_t i) {
  int32_t word;
  memcpy(&word, at + i * sizeof word, sizeof word);
  return word;
}

INLINE float scale_at(const char *at, size_t i) {
  float scale;
  memcpy(&scale, at + i * sizeof scale, sizeof scale);
  return scale;
}

/* Half h of the arguments of score_and_select. */
INLINE selection half_selection(fopo_packed kind, uint32_t *list, float *scores, const char *rows,
                                size_t count, const char *queries, size_t dim, const float *floor,
                                size_t h) {
  return (selection){rows,
                     queries + h * half_bytes(kind, dim),
                     count,
                     unit_count(kind, dim),
                     group_bytes(kind, dim),
                     floor + h * 16,
                     list + h * 16 * count,
                     scores + h * 16 * count,
                     0};
}

/* The functions of a prefilter and its members. `select` is an always inlined score_and_select that
 * takes the kind first; all is compiled with the flags of the file that makes the functions. */
#define FOPO_UNIT_FUNCTIONS(name, kind, select)                                                    \
  static size_t name##_row_bytes(size_t dim) { return group_bytes(kind, dim) / 16; }               \
  static size_t name##_query_bytes(size_t dim) { return half_bytes(kind, dim) / 16; }              \
  static double name##_rounding(const float *x, size_t n) { return unit_rounding(kind, x, n); }    \
  static double name##_most_rounding(size_t n) { return unit_most_rounding(kind, n); }             \
  static void name##_pack(void *out, const float *rows, size_t ld, const uint32_t *ids,            \
                          size_t count, size_t dim) {                                              \
    unit_pack(kind, out, rows, ld, ids, count, dim);                                               \
  }                                                                                                \
  static void name##_pack_queries(void *out, const float *panel, size_t dim, size_t width) {       \
    unit_pack_queries(kind, out, panel, dim, width);                                               \
  }                                                                                                \
  static void name##_select(uint32_t *list, float *scores, size_t found[2], const void *rows,      \
                            size_t count, const void *queries, size_t dim, size_t width,           \
                            const float *floor) {                                                  \
    select(kind, list, scores, found, rows, count, queries, dim, width, floor);                    \
  }
#define FOPO_UNIT_MEMBERS(name, kind, from)                                                        \
  {                                                                                                \
    kind, (size_t)1 << ((kind) == FOPO_PACKED_INT8 ? 17 : 24), from, name##_row_bytes,             \
        name##_query_bytes, name##_rounding, name##_most_rounding, name##_pack,                    \
        name##_pack_queries, name##_select                                                         \
  }

#endif
