/* flags x86_64: -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mamx-tile -mamx-bf16 */
/* The bf16 prefilter by AMX: the kernels of AVX-512, and scores of 32 rows by 32 queries at a time.
 *
 * A tile is a register of 16 rows of 64 bytes; TDPBF16PS multiplies a tile of bf16 rows by one of
 * bf16 queries (pairs of columns) and adds to a tile of float32 sums. Four tiles of sums use each
 * loaded tile twice: 4 x 8,192 products for four loads. The shapes of the tiles are a configuration
 * that each thread loads before its work and releases after it; the process must have been
 * permitted to use them (kernels.c). */
#include "kernels/kernels_tables.h"
#include "kernels/prefilter.h"
#include "kernels/prefilter_512.h"
#include "kernels/prefilter_tiles.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__)

#include <immintrin.h>
#include <string.h>

enum {
  AHEAD = 8, /* the prefetch distance in rows */
  BLOCK = 32 /* rows scored at once: two tiles */
};

/* The argument of LDTILECFG. Tiles 0 .. 3 are sums [16, 16]: of rows 0-15 with queries 0-15 and
 * 16-31, then of rows 16-31. Tiles 4, 5 are rows 0-15, 16-31 [16, width]; tiles 6, 7 are queries
 * 0-15, 16-31 [width / 2, 16, 2]. */
typedef struct {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16]; /* of a row of each tile */
  uint8_t rows[16];   /* of each tile */
} tile_config;

_Static_assert(sizeof(tile_config) == 64, "the configuration has 64 bytes");

static void configure(size_t width) {
  tile_config s = {.palette = 1};
  for (int t = 0; t < 8; t++) s.bytes[t] = 64, s.rows[t] = 16;
  for (int t = 4; t < 6; t++) s.bytes[t] = (uint16_t)(2 * width);
  for (int t = 6; t < 8; t++) s.rows[t] = (uint8_t)(width / 2);
  /* The intrinsic declares only 8 of the 64 bytes as read: without this the others stay unwritten.
   */
  __asm__ volatile("" : : "r"(&s) : "memory");
  _tile_loadconfig(&s);
}

/* The n <= 16 floats at x; the other lanes are 0. */
static inline __m512 load_first(const float *x, size_t n) {
  return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), x);
}

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* A chunk of a row, `width` <= 32 bf16 values: n of them from x, then zeros. */
static inline void pack_chunk(uint16_t *out, const float *x, size_t n, size_t width) {
  __m512 low = load_first(x, smaller(n, 16));
  __m512 high = n > 16 ? load_first(x + 16, n - 16) : _mm512_setzero_ps();
  __mmask16 pairs = (__mmask16)((1u << width / 2) - 1u);
  _mm512_mask_storeu_epi32(out, pairs, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* Row by row: chunk i of row s goes to its group's chunk i. Rows from count on are 0. */
static void pack(void *out, const float *rows, size_t ld, const uint32_t *ids, size_t count,
                 size_t dim) {
  size_t width = fopo_tile_width(dim), row = fopo_tile_row(dim);
  for (size_t s = 0; s < fopo_prefilter_rows(count); s++) {
    uint16_t *to = (uint16_t *)out + s / 16 * 16 * row + s % 16 * width;
    const float *x = s < count ? row_of(rows, ld, ids, s) : rows;
    if (s + AHEAD < count) prefetch_row(row_of(rows, ld, ids, s + AHEAD), dim);
    for (size_t i = 0; i < row; i += width, to += 16 * width) {
      size_t n = s < count && i < dim ? smaller(dim - i, width) : 0;
      pack_chunk(to, x + (n > 0 ? i : 0), n, width);
    }
  }
}

/* Columns i and i + 1 of 16 queries as 16 pairs of bf16 values; columns from dim on are 0. */
static inline __m512i pair_columns(const float *panel, size_t i, size_t dim, size_t width) {
  __m512 even = i < dim ? _mm512_loadu_ps(panel + i * width) : _mm512_setzero_ps();
  __m512 odd = i + 1 < dim ? _mm512_loadu_ps(panel + (i + 1) * width) : _mm512_setzero_ps();
  __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(even));
  __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(odd));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

static void pack_queries(void *out, const float *panel, size_t dim, size_t columns) {
  size_t width = fopo_tile_width(dim), row = fopo_tile_row(dim);
  uint16_t *to = out;
  for (size_t first = 0; first < row; first += width, to += width * FOPO_PANEL) {
    for (size_t i = 0; i < width; i += 2) {
      for (size_t half = 0; half < 2; half++) {
        __m512i values = half * 16 < columns
                             ? pair_columns(panel + half * 16, first + i, dim, columns)
                             : _mm512_setzero_si512();
        _mm512_storeu_si512(to + half * width * 16 + i * 16, values);
      }
    }
  }
}

/* The scores of 32 rows with 32 queries. `lower` = 0: only the upper 16 rows exist; `right` = 0:
 * only the left 16 queries do. One pass over the chunks of columns: the next chunk of the queries
 * is FOPO_PANEL * width values further, that of a group of rows 16 * width. */
static inline void multiply(float out[BLOCK][FOPO_PANEL], const uint16_t *rows, size_t row,
                            const uint16_t *queries, size_t width, const int lower,
                            const int right) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (size_t i = 0; i < row; i += width, queries += width * FOPO_PANEL) {
    _tile_loadd(4, rows + i * 16, (int)(2 * width));
    _tile_loadd(6, queries, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (right) {
      _tile_loadd(7, queries + width * 16, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (lower) {
      _tile_loadd(5, rows + 16 * row + i * 16, (int)(2 * width));
      _tile_dpbf16ps(2, 5, 6);
      if (right) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, &out[0][0], FOPO_PANEL * sizeof(float));
  if (right) _tile_stored(1, &out[0][16], FOPO_PANEL * sizeof(float));
  if (lower) _tile_stored(2, &out[16][0], FOPO_PANEL * sizeof(float));
  if (lower && right) _tile_stored(3, &out[16][16], FOPO_PANEL * sizeof(float));
}

/* The same of the next block of `count` rows, or of its first 32. */
static inline void multiply_block(float out[BLOCK][FOPO_PANEL], const uint16_t *rows, size_t count,
                                  size_t row, const uint16_t *queries, size_t width, int wide) {
  if (count > 16) { /* each case is a copy of multiply with a constant `lower` */
    multiply(out, rows, row, queries, width, 1, wide);
  } else if (count > 0) {
    multiply(out, rows, row, queries, width, 0, wide);
  }
}

static void score_and_select(uint32_t *list, float *scores, size_t found[2], const void *packed,
                             size_t count, const void *queries, size_t dim, size_t columns,
                             const float *floor) {
  const uint16_t *rows = packed;
  size_t width = fopo_tile_width(dim), row = fopo_tile_row(dim), left = 0, right = 0;
  uint32_t *right_list = list + 16 * count;
  float *right_scores = scores + 16 * count;
  int wide = columns > 16;
  float out[2][BLOCK][FOPO_PANEL] __attribute__((aligned(64)));
  __m512 left_floor = _mm512_loadu_ps(floor);
  __m512 right_floor = _mm512_loadu_ps(floor + 16);
  __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int few = 1; /* fewer than a quarter of the last block's rows had a score that passed */
  configure(width);
  multiply_block(out[0], rows, count, row, queries, width, wide);
  for (size_t s = 0, turn = 0; s < count; s += BLOCK, turn ^= 1) {
    /* The tiles work on the next block while the vector units compare this one's scores. */
    size_t here = smaller(count - s, BLOCK), before = left + right;
    rows += BLOCK * row;
    multiply_block(out[turn ^ 1], rows, count - s - here, row, queries, width, wide);
    for (size_t r = 0; r < here; r++) {
      const float *x = out[turn][r];
      left +=
          append_passing(list + left, scores + left, _mm512_load_ps(x), left_floor, places, few);
      if (wide) {
        right += append_passing(right_list + right, right_scores + right, _mm512_load_ps(x + 16),
                                right_floor, places, few);
      }
      places = _mm512_add_epi32(places, _mm512_set1_epi32(16));
    }
    few = left + right - before < here / 4;
  }
  _tile_release();
  found[0] = left;
  found[1] = right;
}

FOPO_KERNELS_FILL(amx, table) {
  static const fopo_prefilter prefilter = {FOPO_PACKED_TILES,
                                           SIZE_MAX,
                                           3,
                                           fopo_tile_row_bytes,
                                           fopo_tile_row_bytes,
                                           fopo_bfloat16_rounding,
                                           fopo_bfloat16_most_rounding,
                                           pack,
                                           pack_queries,
                                           score_and_select};
  table->prefilter = &prefilter;
  return 1;
}

#endif
