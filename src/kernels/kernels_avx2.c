/* flags x86_64: -mavx2 -mfma -mf16c */
/* The kernels for AVX2 with FMA: 8 floats at a time, the last ones by masked loads. Sums have the
 * order of kernels_avx512.c, two vectors for one of its own, so the bits are the same. Kernels that
 * read item rows one by one are in kernels_rows_avx2.c, those over keys and ids in
 * kernels_keys_avx2.c. */
#include "kernels/kernels_tables.h"

#if defined(__AVX2__) && defined(__FMA__)

#include <float.h>
#include <immintrin.h>
#include <math.h>

#include "kernels/kernels_panels.h"
#include "kernels/prefilter_256.h"

static size_t select_columns_at_least(uint32_t *list, const float *x, size_t ld, size_t count,
                                      const float *floor) {
  __m256 least0 = _mm256_loadu_ps(floor), least1 = _mm256_loadu_ps(floor + 8);
  size_t n = 0;
  for (size_t s = 0; s < count; s++) {
    __m256 pass0 = _mm256_cmp_ps(_mm256_loadu_ps(x + s * ld), least0, _CMP_GE_OQ);
    __m256 pass1 = _mm256_cmp_ps(_mm256_loadu_ps(x + s * ld + 8), least1, _CMP_GE_OQ);
    unsigned pass = (unsigned)_mm256_movemask_ps(pass0) | (unsigned)_mm256_movemask_ps(pass1) << 8;
    for (; pass != 0; pass &= pass - 1) {
      list[n++] = (uint32_t)(s * 16) + (uint32_t)__builtin_ctz(pass);
    }
  }
  return n;
}

static float largest(const float *x, size_t n) {
  __m256 m = _mm256_set1_ps(-INFINITY);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) m = _mm256_max_ps(_mm256_loadu_ps(x + i), m);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
  __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  float best = _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  for (; i < n; i++) best = x[i] > best ? x[i] : best;
  return best;
}

INLINE __m256d low(__m256 x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
INLINE __m256d high(__m256 x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }

INLINE double sum_lanes(__m256d a) {
  __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* w = exp(x - minus) of 8 numbers, or of the first n < 8, and 0 in the other lanes. */
INLINE __m256 exp_8(float *w, const float *x, __m256 minus) {
  __m256 y = v_exp(_mm256_sub_ps(_mm256_loadu_ps(x), minus));
  _mm256_storeu_ps(w, y);
  return y;
}

INLINE __m256 exp_rest(float *w, const float *x, __m256 minus, size_t n) {
  __m256i rest = first_lanes(n);
  __m256 y = v_exp(_mm256_sub_ps(_mm256_maskload_ps(x, rest), minus));
  _mm256_maskstore_ps(w, rest, y);
  return _mm256_and_ps(y, _mm256_castsi256_ps(rest));
}

/* Lanes of sums in double, as AVX-512 has them: 8, of which `low` are the first four. */
typedef struct {
  __m256d low, high;
} lanes;

INLINE void add_lanes(lanes *sum, __m256 x) {
  sum->low = _mm256_add_pd(sum->low, low(x));
  sum->high = _mm256_add_pd(sum->high, high(x));
}

INLINE double sum_8_lanes(lanes a) { return sum_lanes(_mm256_add_pd(a.low, a.high)); }

/* In the order of AVX-512: number i goes to lane i mod 16, the first 8 lanes are even, the others
 * odd. */
static double exp_sum(float *w, const float *x, float shift, size_t n) {
  __m256 minus = _mm256_set1_ps(shift);
  lanes even = {_mm256_setzero_pd(), _mm256_setzero_pd()}, odd = even;
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    add_lanes(&even, exp_8(w + i, x + i, minus));
    add_lanes(&odd, exp_8(w + i + 8, x + i + 8, minus));
  }
  if (i + 8 <= n) {
    add_lanes(&even, exp_8(w + i, x + i, minus));
    if (i + 8 < n) add_lanes(&odd, exp_rest(w + i + 8, x + i + 8, minus, n - i - 8));
  } else if (i < n) {
    add_lanes(&even, exp_rest(w + i, x + i, minus, n - i));
  }
  even.low = _mm256_add_pd(even.low, odd.low);
  even.high = _mm256_add_pd(even.high, odd.high);
  return sum_8_lanes(even);
}

/* Adds 8 numbers of x and y to the sums of `moments`. */
INLINE void add_moments(lanes sum[3], __m256 x, __m256 y) {
  __m256d x0 = low(x), x1 = high(x), y0 = low(y), y1 = high(y);
  sum[0].low = _mm256_add_pd(sum[0].low, x0);
  sum[0].high = _mm256_add_pd(sum[0].high, x1);
  sum[1].low = _mm256_fmadd_pd(x0, x0, sum[1].low);
  sum[1].high = _mm256_fmadd_pd(x1, x1, sum[1].high);
  sum[2].low = _mm256_fmadd_pd(x0, y0, sum[2].low);
  sum[2].high = _mm256_fmadd_pd(x1, y1, sum[2].high);
}

/* In 8 lanes, the order of AVX-512. */
static void moments(double out[3], const float *x, const float *y, size_t n) {
  lanes zero = {_mm256_setzero_pd(), _mm256_setzero_pd()}, sum[3] = {zero, zero, zero};
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    add_moments(sum, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i));
  }
  if (i < n) {
    __m256i rest = first_lanes(n - i);
    add_moments(sum, _mm256_maskload_ps(x + i, rest), _mm256_maskload_ps(y + i, rest));
  }
  for (int k = 0; k < 3; k++) out[k] = sum_8_lanes(sum[k]);
}

/* Four Philox4x32-10 blocks, one in each 64-bit lane: c[k] holds word k of the four counters, in
 * the low half of its lanes. The high half holds remains of the product; _mm256_mul_epu32 ignores
 * it. */
INLINE void philox(__m256i c[4], uint64_t seed) {
  const __m256i m0 = _mm256_set1_epi64x(PHILOX_M4x32_0), m1 = _mm256_set1_epi64x(PHILOX_M4x32_1);
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; round++) {
    __m256i p0 = _mm256_mul_epu32(c[0], m0), p1 = _mm256_mul_epu32(c[2], m1);
    __m256i key0 = _mm256_set1_epi64x(k0), key1 = _mm256_set1_epi64x(k1);
    c[0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c[1]), key0);
    c[2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c[3]), key1);
    c[1] = p1;
    c[3] = p0;
    k0 += PHILOX_W32_0;
    k1 += PHILOX_W32_1;
  }
}

static void draw_uniform(uint32_t *ids, uint32_t n, size_t count, uint64_t seed, uint32_t step,
                         uint32_t row) {
  const __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
  const __m256i bound64 = _mm256_set1_epi64x(n), bound32 = _mm256_set1_epi32((int)n);
  size_t s = 0;
  for (; s + 16 <= count; s += 16) {
    __m256i c[4] = {_mm256_add_epi64(_mm256_set1_epi64x((uint32_t)(s >> 2)), lane),
                    _mm256_set1_epi64x(row), _mm256_set1_epi64x(step),
                    _mm256_set1_epi64x(FOPO_STREAM_SAMPLE)};
    philox(c, seed);
    /* fopo_below by multiplication: the id is the high half of word * n, unless the low half is
     * below n: then the word may have to be rejected, and the whole block is drawn one by one. */
    for (int k = 0; k < 4; k++) c[k] = _mm256_mul_epu32(c[k], bound64);
    __m256i low01 = _mm256_blend_epi32(c[0], _mm256_slli_epi64(c[1], 32), 0xaa);
    __m256i low23 = _mm256_blend_epi32(c[2], _mm256_slli_epi64(c[3], 32), 0xaa);
    __m256i least = _mm256_min_epu32(low01, low23);
    __m256i enough = _mm256_cmpeq_epi32(_mm256_max_epu32(least, bound32), least);
    if (_mm256_movemask_epi8(enough) != -1) {
      draw_uniform_from(ids, s, n, s + 16, seed, step, row);
      continue;
    }
    /* c[k] lane b is word k of block b. Interleave words 0, 1 and 2, 3 of each block to 64-bit
     * pairs, then the pairs: `even` holds blocks 0 and 2, `odd` blocks 1 and 3. Last, swap the
     * 128-bit halves so that blocks are in order. */
    __m256i id01 = _mm256_blend_epi32(_mm256_srli_epi64(c[0], 32), c[1], 0xaa);
    __m256i id23 = _mm256_blend_epi32(_mm256_srli_epi64(c[2], 32), c[3], 0xaa);
    __m256i even = _mm256_unpacklo_epi64(id01, id23), odd = _mm256_unpackhi_epi64(id01, id23);
    _mm256_storeu_si256((__m256i *)(void *)(ids + s), _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(void *)(ids + s + 8),
                        _mm256_permute2x128_si256(even, odd, 0x31));
  }
  draw_uniform_from(ids, s, n, count, seed, step, row);
}

/* A block has two samples: words 0 and 2 are their a, words 1 and 3 their b. Four blocks at once.
 */
static void draw_pairs(uint32_t *a, uint32_t *b, size_t first, size_t count, uint64_t seed,
                       uint32_t step, uint32_t row) {
  const __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
  size_t s = 0;
  for (; s + 8 <= count; s += 8) {
    __m256i c[4] = {_mm256_add_epi64(_mm256_set1_epi64x((uint32_t)((first + s) >> 1)), lane),
                    _mm256_set1_epi64x(row), _mm256_set1_epi64x(step),
                    _mm256_set1_epi64x(FOPO_STREAM_SAMPLE)};
    philox(c, seed);
    _mm256_storeu_si256((__m256i *)(void *)(a + s),
                        _mm256_blend_epi32(c[0], _mm256_slli_epi64(c[2], 32), 0xaa));
    _mm256_storeu_si256((__m256i *)(void *)(b + s),
                        _mm256_blend_epi32(c[1], _mm256_slli_epi64(c[3], 32), 0xaa));
  }
  draw_pairs_from(a, b, s, first, count, seed, step, row);
}

/* FOPO_LOG_TERMS, for normal numbers: exponent and mantissa are taken from the bits. */
INLINE __m256d log_normal(__m256d x, __m256d bias) {
  static const double term[] = FOPO_LOG_TERMS;
  const __m256d one = _mm256_set1_pd(1.0), two52 = _mm256_set1_pd(4503599627370496.0);
  __m256i bits = _mm256_castpd_si256(x);
  /* the biased exponent, or-ed into the mantissa of 2^52, is the double 2^52 + exponent */
  __m256d e = _mm256_or_pd(_mm256_castsi256_pd(_mm256_srli_epi64(bits, 52)), two52);
  e = _mm256_sub_pd(e, bias);
  __m256d m = _mm256_castsi256_pd(_mm256_and_si256(bits, _mm256_set1_epi64x(0xfffffffffffffLL)));
  m = _mm256_or_pd(m, one);
  __m256d large = _mm256_cmp_pd(m, _mm256_set1_pd(1.4142135623730951), _CMP_GT_OQ);
  m = _mm256_blendv_pd(m, _mm256_mul_pd(m, _mm256_set1_pd(0.5)), large);
  e = _mm256_add_pd(e, _mm256_and_pd(large, one));
  __m256d t = _mm256_div_pd(_mm256_sub_pd(m, one), _mm256_add_pd(m, one));
  __m256d z = _mm256_mul_pd(t, t), p = _mm256_set1_pd(term[0]);
#pragma GCC unroll 8
  for (size_t i = 1; i < sizeof term / sizeof *term; i++) {
    p = _mm256_fmadd_pd(p, z, _mm256_set1_pd(term[i]));
  }
  return _mm256_fmadd_pd(e, _mm256_set1_pd(0.69314718055994531), _mm256_mul_pd(p, t));
}

/* x >= 0. A subnormal number is multiplied by 2^54; log 0 = -inf; infinity and NaN are their own
 * logarithms. */
INLINE __m256d logarithm(__m256d x) {
  __m256d bias = _mm256_set1_pd(4503599627370496.0 + 1023.0);
  __m256d small = _mm256_cmp_pd(x, _mm256_set1_pd(DBL_MIN), _CMP_LT_OQ);
  __m256d finite = _mm256_cmp_pd(x, _mm256_set1_pd(DBL_MAX), _CMP_LE_OQ);
  if (_mm256_movemask_pd(_mm256_andnot_pd(small, finite)) == 15) return log_normal(x, bias);
  bias = _mm256_add_pd(bias, _mm256_and_pd(small, _mm256_set1_pd(54.0)));
  __m256d scaled = _mm256_blendv_pd(x, _mm256_mul_pd(x, _mm256_set1_pd(0x1p54)), small);
  __m256d zero = _mm256_cmp_pd(x, _mm256_setzero_pd(), _CMP_EQ_OQ);
  __m256d y = _mm256_blendv_pd(log_normal(scaled, bias), _mm256_set1_pd(-INFINITY), zero);
  return _mm256_blendv_pd(x, y, finite);
}

INLINE __m128 log_mixed(__m128 w, double share, double rest, double total) {
  __m256d x = _mm256_div_pd(_mm256_cvtps_pd(w), _mm256_set1_pd(total));
  x = _mm256_add_pd(_mm256_set1_pd(share), _mm256_mul_pd(_mm256_set1_pd(rest), x));
  return _mm256_cvtpd_ps(logarithm(x));
}

static void log_mixture(float *logq, const float *w, double share, double rest, double total,
                        size_t n) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    _mm_storeu_ps(logq + i, log_mixed(_mm_loadu_ps(w + i), share, rest, total));
  }
  if (i < n) {
    __m128i left = _mm256_castsi256_si128(first_lanes(n - i));
    _mm_maskstore_ps(logq + i, left, log_mixed(_mm_maskload_ps(w + i, left), share, rest, total));
  }
}

FOPO_UNIT_FUNCTIONS(int16, FOPO_PACKED_INT16, unit_select_256)

FOPO_KERNELS_FILL(avx2, table) {
  static const fopo_prefilter prefilter = FOPO_UNIT_MEMBERS(int16, FOPO_PACKED_INT16, 64);
  table->prefilter = &prefilter;
  fopo_fill_rows_avx2(table);
  table->axpy = axpy;
  table->scores = scores;
  table->max_columns = max_columns;
  table->exp_columns = exp_columns;
  table->add_products = add_products;
  table->product = fopo_product_avx2;
  table->select_columns_at_least = select_columns_at_least;
  table->approximate_kth = fopo_approximate_kth;
  table->adam = fopo_adam_all;
  table->adagrad = fopo_adagrad_all;
  table->kth = fopo_kth_avx2;
  table->sort = fopo_sort_avx2;
  table->partition_at_least = fopo_partition_at_least_avx2;
  table->select_at_least = fopo_select_at_least_avx2;
  table->select_in_bloom = fopo_select_in_bloom_avx2;
  table->max = largest;
  table->exp_sum = exp_sum;
  table->moments = moments;
  table->draw_uniform = draw_uniform;
  table->draw_pairs = draw_pairs;
  table->log_mixture = log_mixture;
  return 1;
}

#endif
