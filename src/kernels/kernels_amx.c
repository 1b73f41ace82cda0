/* Screening by the tiles of AMX: 32 rows by 32 queries at a time in four tiles of sums, 4 x 8,192
 * products an instruction quartet. A tile unit has its shape from a configuration that each thread
 * loads and releases around its work; the process must have been permitted to (kernels.c). */
#include "kernels/prefilter.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__)

#include <immintrin.h>
#include <string.h>

#include "kernels/kernels.h"

enum {
  AHEAD = 8, /* rows on their way while one is converted */
  BLOCK = 32 /* rows scored at once */
};

/* Tiles 0 .. 3: sums of rows 0-15, 16-31 with queries 0-15, 16-31; 4, 5: rows; 6, 7: queries. */
typedef struct {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16]; /* of a row of a tile */
  uint8_t rows[16];
} shapes;

_Static_assert(sizeof(shapes) == 64, "the configuration has 64 bytes");

static void configure(size_t width) {
  shapes s = {.palette = 1};
  for (int t = 0; t < 8; t++) s.bytes[t] = 64, s.rows[t] = 16;
  for (int t = 4; t < 6; t++) s.bytes[t] = (uint16_t)(2 * width);
  for (int t = 6; t < 8; t++) s.rows[t] = (uint8_t)(width / 2);
  __asm__ volatile("" : : "r"(&s) : "memory"); /* the header tells the compiler of 8 bytes alone */
  _tile_loadconfig(&s);
}

/* n <= 16 floats at x, the others 0. */
static inline __m512 first_of(const float *x, size_t n) {
  return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), x);
}

static inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* A row's chunk: width values of which the first n <= width come from x. */
static inline void pack_chunk(uint16_t *out, const float *x, size_t n, size_t width) {
  __m512 low = first_of(x, least(n, 16));
  __m512 high = n > 16 ? first_of(x + 16, n - 16) : _mm512_setzero_ps();
  __mmask16 pairs = (__mmask16)((1u << width / 2) - 1u);
  _mm512_mask_storeu_epi32(out, pairs, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

static void pack(uint16_t *out, const float *rows, size_t ld, const uint32_t *ids, size_t count,
                 size_t dim) {
  size_t width = fopo_prefilter_width(dim), row = fopo_prefilter_row(dim);
  for (size_t s = 0; s < fopo_prefilter_rows(count); s++) {
    uint16_t *to = out + s / 16 * 16 * row + s % 16 * width;
    const float *x = s < count ? rows + (ids != NULL ? ids[s] : s) * ld : rows;
    if (s + AHEAD < count) {
      const float *next = rows + (ids != NULL ? ids[s + AHEAD] : s + AHEAD) * ld;
      for (size_t i = 0; i < dim; i += 16) __builtin_prefetch(next + i);
      __builtin_prefetch(next + dim - 1);
    }
    for (size_t i = 0; i < row; i += width, to += 16 * width) {
      size_t n = s < count && i < dim ? least(dim - i, width) : 0;
      pack_chunk(to, x + (n > 0 ? i : 0), n, width);
    }
  }
}

/* 16 values of column i, and of the next in the high halves. */
static inline __m512i pair(const float *panel, size_t i, size_t dim, size_t width) {
  __m512 even = i < dim ? _mm512_loadu_ps(panel + i * width) : _mm512_setzero_ps();
  __m512 odd = i + 1 < dim ? _mm512_loadu_ps(panel + (i + 1) * width) : _mm512_setzero_ps();
  __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(even));
  __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(odd));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

static void pack_queries(uint16_t *out, const float *panel, size_t dim, size_t columns) {
  size_t width = fopo_prefilter_width(dim), row = fopo_prefilter_row(dim);
  for (size_t first = 0; first < row; first += width, out += width * FOPO_PANEL) {
    for (size_t i = 0; i < width; i += 2) {
      for (size_t half = 0; half < 2; half++) {
        __m512i values = half * 16 < columns ? pair(panel + half * 16, first + i, dim, columns)
                                             : _mm512_setzero_si512();
        _mm512_storeu_si512(out + half * width * 16 + i * 16, values);
      }
    }
  }
}

/* The scores of 32 rows, or of 16 in its upper half, with 32 queries, or 16 in the left half. A
 * chunk of queries follows the last after FOPO_PANEL * width values, one of rows after 16 width. */
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

/* The same of a block of `count` rows, those that it has room for. */
static inline void multiply_block(float out[BLOCK][FOPO_PANEL], const uint16_t *rows, size_t count,
                                  size_t row, const uint16_t *queries, size_t width, int wide) {
  if (count > 16) {
    multiply(out, rows, row, queries, width, 1, wide);
  } else if (count > 0) {
    multiply(out, rows, row, queries, width, 0, wide);
  }
}

/* Lanes past those found are garbage, in places that later rows may fill: never more than 16 a row.
 * Where few rows hold anything, a jump over the others is cheap; where many do, it cannot be
 * foretold and costs more than what it spares. */
static inline size_t keep(uint32_t *list, float *scores, __m512 x, __m512 floor, __m512i places,
                          int few) {
  __mmask16 pass = _mm512_cmp_ps_mask(x, floor, _CMP_GE_OQ);
  if (few && pass == 0) return 0;
  _mm512_storeu_si512(list, _mm512_maskz_compress_epi32(pass, places));
  _mm512_storeu_ps(scores, _mm512_maskz_compress_ps(pass, x));
  return (size_t)__builtin_popcount(pass);
}

static void above(uint32_t *list, float *scores, size_t found[2], const uint16_t *rows,
                  size_t count, const uint16_t *queries, size_t dim, size_t columns,
                  const float *floor) {
  size_t width = fopo_prefilter_width(dim), row = fopo_prefilter_row(dim), left = 0, right = 0;
  uint32_t *right_list = list + 16 * count;
  float *right_scores = scores + 16 * count;
  int wide = columns > 16;
  float out[2][BLOCK][FOPO_PANEL] __attribute__((aligned(64)));
  __m512 left_floor = _mm512_loadu_ps(floor);
  __m512 right_floor = _mm512_loadu_ps(floor + 16);
  __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int few = 1;
  configure(width);
  multiply_block(out[0], rows, count, row, queries, width, wide);
  for (size_t s = 0, turn = 0; s < count; s += BLOCK, turn ^= 1) {
    /* the rows of the next block are on their way while this one's scores are looked at */
    size_t here = least(count - s, BLOCK), before = left + right;
    rows += BLOCK * row;
    multiply_block(out[turn ^ 1], rows, count - s - here, row, queries, width, wide);
    for (size_t r = 0; r < here; r++) {
      const float *x = out[turn][r];
      left += keep(list + left, scores + left, _mm512_load_ps(x), left_floor, places, few);
      if (wide) {
        right += keep(right_list + right, right_scores + right, _mm512_load_ps(x + 16), right_floor,
                      places, few);
      }
      places = _mm512_add_epi32(places, _mm512_set1_epi32(16));
    }
    few = left + right - before < here / 4;
  }
  _tile_release();
  found[0] = left;
  found[1] = right;
}

const fopo_prefilter *fopo_prefilter_amx(void) {
  static const fopo_prefilter prefilter = {pack, pack_queries, above};
  return &prefilter;
}

#else

const fopo_prefilter *fopo_prefilter_amx(void) { return NULL; }

#endif
