/* flags x86_64: -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma */
/* The kernels for AVX-512 (F, BW, VL, DQ): 16 floats at a time, the last ones by masked loads.
 * Kernels that read item rows one by one are in kernels_rows_avx512.c. */
#include "kernels/kernels_tables.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)

#include <immintrin.h>
#include <math.h>

#include "kernels/kernels_panels.h"
#include "kernels/prefilter_512.h"

static size_t select_columns_at_least(uint32_t *list, const float *x, size_t ld, size_t count,
                                      const float *floor) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512 least = _mm512_loadu_ps(floor);
  size_t n = 0;
  for (size_t s = 0; s < count; s++) {
    __mmask16 pass = _mm512_cmp_ps_mask(_mm512_loadu_ps(x + s * ld), least, _CMP_GE_OQ);
    if (pass == 0) continue;
    __m512i place = _mm512_add_epi32(lane, _mm512_set1_epi32((int)(s * 16)));
    int found = __builtin_popcount(pass);
    __m512i packed = _mm512_maskz_compress_epi32(pass, place);
    _mm512_mask_storeu_epi32(list + n, (__mmask16)((1u << found) - 1u), packed);
    n += (size_t)found;
  }
  return n;
}

static float largest(const float *x, size_t n) {
  __m512 m = _mm512_set1_ps(-INFINITY);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) m = _mm512_max_ps(_mm512_loadu_ps(x + i), m);
  if (i < n) {
    __mmask16 rest = first_lanes(n - i);
    m = _mm512_mask_max_ps(m, rest, _mm512_maskz_loadu_ps(rest, x + i), m);
  }
  return _mm512_reduce_max_ps(m);
}

INLINE __m512d low(__m512 x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
INLINE __m512d high(__m512 x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }

static double exp_sum(float *w, const float *x, float shift, size_t n) {
  __m512 minus = _mm512_set1_ps(shift);
  __m512d sum0 = _mm512_setzero_pd(), sum1 = _mm512_setzero_pd();
  for (size_t i = 0; i < n; i += 16) {
    __mmask16 mask = n - i < 16 ? first_lanes(n - i) : (__mmask16)0xffff;
    __m512 z = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), minus);
    __m512 y = _mm512_maskz_mov_ps(mask, v_exp(z));
    _mm512_mask_storeu_ps(w + i, mask, y);
    sum0 = _mm512_add_pd(sum0, low(y));
    sum1 = _mm512_add_pd(sum1, high(y));
  }
  return _mm512_reduce_add_pd(_mm512_add_pd(sum0, sum1));
}

static void moments(double out[3], const float *x, const float *y, size_t n) {
  __m512d sum = _mm512_setzero_pd(), squares = sum, products = sum;
  for (size_t i = 0; i < n; i += 8) {
    __mmask8 mask = n - i < 8 ? (__mmask8)first_lanes(n - i) : (__mmask8)0xff;
    __m512d a = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, x + i));
    __m512d b = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, y + i));
    sum = _mm512_add_pd(sum, a);
    squares = _mm512_fmadd_pd(a, a, squares);
    products = _mm512_fmadd_pd(a, b, products);
  }
  out[0] = _mm512_reduce_add_pd(sum);
  out[1] = _mm512_reduce_add_pd(squares);
  out[2] = _mm512_reduce_add_pd(products);
}

/* Eight Philox4x32-10 blocks, one in each 64-bit lane: c[k] holds word k of the eight counters, in
 * the low half of its lanes. The high half holds remains of the product; _mm512_mul_epu32 ignores
 * it. */
INLINE void philox(__m512i c[4], uint64_t seed) {
  const __m512i m0 = _mm512_set1_epi64(PHILOX_M4x32_0), m1 = _mm512_set1_epi64(PHILOX_M4x32_1);
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; round++) {
    __m512i p0 = _mm512_mul_epu32(c[0], m0), p1 = _mm512_mul_epu32(c[2], m1);
    __m512i key0 = _mm512_set1_epi64(k0), key1 = _mm512_set1_epi64(k1);
    c[0] = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p1, 32), c[1]), key0);
    c[2] = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p0, 32), c[3]), key1);
    c[1] = p1;
    c[3] = p0;
    k0 += PHILOX_W32_0;
    k1 += PHILOX_W32_1;
  }
}

static void draw_uniform(uint32_t *ids, uint32_t n, size_t count, uint64_t seed, uint32_t step,
                         uint32_t row) {
  const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  const __m512i left = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  const __m512i right = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  const __m512i bound64 = _mm512_set1_epi64(n), bound32 = _mm512_set1_epi32((int)n);
  size_t s = 0;
  for (; s + 32 <= count; s += 32) {
    __m512i c[4] = {_mm512_add_epi64(_mm512_set1_epi64((uint32_t)(s >> 2)), lane),
                    _mm512_set1_epi64(row), _mm512_set1_epi64(step),
                    _mm512_set1_epi64(FOPO_STREAM_SAMPLE)};
    philox(c, seed);
    /* fopo_below by multiplication: the id is the high half of word * n, unless the low half is
     * below n: then the word may have to be rejected, and the whole block is drawn one by one. */
    for (int k = 0; k < 4; k++) c[k] = _mm512_mul_epu32(c[k], bound64);
    __m512i low01 = _mm512_mask_blend_epi32(0xaaaa, c[0], _mm512_slli_epi64(c[1], 32));
    __m512i low23 = _mm512_mask_blend_epi32(0xaaaa, c[2], _mm512_slli_epi64(c[3], 32));
    if (_mm512_cmplt_epu32_mask(_mm512_min_epu32(low01, low23), bound32) != 0) {
      draw_uniform_from(ids, s, n, s + 32, seed, step, row);
      continue;
    }
    /* c[k] lane b is word k of block b: interleave words 0, 1 and 2, 3, then write blocks 0 .. 3
     * and 4 .. 7 */
    __m512i id01 = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(c[0], 32), c[1]);
    __m512i id23 = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(c[2], 32), c[3]);
    _mm512_storeu_si512(ids + s, _mm512_permutex2var_epi64(id01, left, id23));
    _mm512_storeu_si512(ids + s + 16, _mm512_permutex2var_epi64(id01, right, id23));
  }
  draw_uniform_from(ids, s, n, count, seed, step, row);
}

/* A block has two samples: words 0 and 2 are their a, words 1 and 3 their b. Eight blocks at once.
 */
static void draw_pairs(uint32_t *a, uint32_t *b, size_t first, size_t count, uint64_t seed,
                       uint32_t step, uint32_t row) {
  const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  size_t s = 0;
  for (; s + 16 <= count; s += 16) {
    __m512i c[4] = {_mm512_add_epi64(_mm512_set1_epi64((uint32_t)((first + s) >> 1)), lane),
                    _mm512_set1_epi64(row), _mm512_set1_epi64(step),
                    _mm512_set1_epi64(FOPO_STREAM_SAMPLE)};
    philox(c, seed);
    _mm512_storeu_si512(a + s, _mm512_mask_blend_epi32(0xaaaa, c[0], _mm512_slli_epi64(c[2], 32)));
    _mm512_storeu_si512(b + s, _mm512_mask_blend_epi32(0xaaaa, c[1], _mm512_slli_epi64(c[3], 32)));
  }
  draw_pairs_from(a, b, s, first, count, seed, step, row);
}

/* FOPO_LOG_TERMS; getexp(0) is -inf and getmant(0) is 1, so log 0 = -inf. */
INLINE __m512d logarithm(__m512d x) {
  static const double term[] = FOPO_LOG_TERMS;
  const __m512d one = _mm512_set1_pd(1.0);
  __m512d e = _mm512_getexp_pd(x);
  __m512d m = _mm512_getmant_pd(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
  __mmask8 large = _mm512_cmp_pd_mask(m, _mm512_set1_pd(1.4142135623730951), _CMP_GT_OQ);
  m = _mm512_mask_mul_pd(m, large, m, _mm512_set1_pd(0.5));
  e = _mm512_mask_add_pd(e, large, e, one);
  __m512d t = _mm512_div_pd(_mm512_sub_pd(m, one), _mm512_add_pd(m, one));
  __m512d z = _mm512_mul_pd(t, t), p = _mm512_set1_pd(term[0]);
#pragma GCC unroll 8
  for (size_t i = 1; i < sizeof term / sizeof *term; i++) {
    p = _mm512_fmadd_pd(p, z, _mm512_set1_pd(term[i]));
  }
  return _mm512_fmadd_pd(e, _mm512_set1_pd(0.69314718055994531), _mm512_mul_pd(p, t));
}

static void log_mixture(float *logq, const float *w, double share, double rest, double total,
                        size_t n) {
  for (size_t i = 0; i < n; i += 8) {
    __mmask8 mask = n - i < 8 ? (__mmask8)first_lanes(n - i) : (__mmask8)0xff;
    __m512d x = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, w + i));
    x = _mm512_mul_pd(_mm512_set1_pd(rest), _mm512_div_pd(x, _mm512_set1_pd(total)));
    x = logarithm(_mm512_add_pd(_mm512_set1_pd(share), x));
    _mm256_mask_storeu_ps(logq + i, mask, _mm512_cvtpd_ps(x));
  }
}

/* ---- selection among keys ---- */

/* A mask of the first n keys of a vector, of all 8 if n is larger. */
INLINE __mmask8 key_lanes(size_t n) { return (__mmask8)(n < 8 ? (1u << n) - 1u : 0xffu); }

/* Keys i .. i + 7; lanes beyond the n keys are those of `other`. */
INLINE __m512i keys_at(const uint64_t *keys, size_t i, size_t n, __m512i other) {
  if (n - i >= 8) return _mm512_loadu_si512(keys + i);
  return _mm512_mask_loadu_epi64(other, key_lanes(n - i), keys + i);
}

static size_t count_at_least(const uint64_t *keys, size_t n, uint64_t least) {
  __m512i bound = _mm512_set1_epi64((long long)least), one = _mm512_set1_epi64(1);
  __m512i count = _mm512_setzero_si512();
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __mmask8 reach = _mm512_cmpge_epu64_mask(_mm512_loadu_si512(keys + i), bound);
    count = _mm512_mask_add_epi64(count, reach, count, one);
  }
  __mmask8 rest = key_lanes(n - i);
  rest = _mm512_mask_cmpge_epu64_mask(rest, _mm512_maskz_loadu_epi64(rest, keys + i), bound);
  return (size_t)_mm512_reduce_add_epi64(_mm512_mask_add_epi64(count, rest, count, one));
}

static uint64_t min_at_least(const uint64_t *keys, size_t n, uint64_t least) {
  __m512i bound = _mm512_set1_epi64((long long)least), found = _mm512_set1_epi64(-1);
  for (size_t i = 0; i < n; i += 8) {
    __m512i x = keys_at(keys, i, n, found);
    found = _mm512_mask_min_epu64(found, _mm512_cmpge_epu64_mask(x, bound), x, found);
  }
  return _mm512_reduce_min_epu64(found);
}

static uint64_t max_key(const uint64_t *keys, size_t n) {
  __m512i most = _mm512_setzero_si512();
  for (size_t i = 0; i < n; i += 8) most = _mm512_max_epu64(most, keys_at(keys, i, n, most));
  return _mm512_reduce_max_epu64(most);
}

static uint64_t kth(const uint64_t *keys, size_t n, size_t k) {
  return fopo_kth(keys, n, k, (fopo_key_passes){count_at_least, min_at_least, max_key});
}

static size_t partition_at_least(uint64_t *keys, size_t n, uint64_t least) {
  __m512i bound = _mm512_set1_epi64((long long)least);
  size_t kept = 0;
  for (size_t i = 0; i < n; i += 8) {
    __mmask8 lanes = key_lanes(n - i);
    __m512i x = _mm512_maskz_loadu_epi64(lanes, keys + i);
    __mmask8 stay = _mm512_mask_cmpge_epu64_mask(lanes, x, bound);
    size_t count = (size_t)__builtin_popcount(stay);
    _mm512_mask_storeu_epi64(keys + kept, key_lanes(count), _mm512_maskz_compress_epi64(stay, x));
    kept += count;
  }
  return kept;
}

/* Compare-exchange within a vector: `other` is x with the lanes of each pair swapped. A lane
 * becomes the larger of its pair where `first` is set, else the smaller. */
INLINE __m512i exchange(__m512i x, __m512i other, __mmask8 first) {
  return _mm512_mask_blend_epi64(_mm512_cmpgt_epu64_mask(x, other) ^ first, x, other);
}

/* Bitonic merge within a vector: each run of 2 * top lanes, which is bitonic, becomes descending
 * where `falling` is set, else ascending. Lanes at distance top are exchanged, then at top / 2
 * .. 1. */
INLINE __m512i merge_lanes(__m512i x, const int top, __mmask8 falling) {
  __mmask8 rising = (__mmask8)~falling;
  if (top >= 4) x = exchange(x, _mm512_shuffle_i64x2(x, x, 0x4e), 0x0f ^ rising);
  if (top >= 2) x = exchange(x, _mm512_permutex_epi64(x, 0x4e), 0x33 ^ rising);
  return exchange(x, _mm512_shuffle_epi32(x, 0x4e), 0x55 ^ rising);
}

/* Bitonic merge across vectors: each run of `size` vectors, which is bitonic, becomes descending or
 * ascending in turn. Vectors at distance size / 2 .. 1 are exchanged lane by lane, then each vector
 * is merged within itself. */
INLINE void merge_vectors(__m512i *x, size_t vectors, size_t size) {
  for (size_t stride = size / 2; stride > 0; stride /= 2) {
    for (size_t first = 0; first < vectors; first += 2 * stride) {
      __mmask8 rising = (first & size) != 0 ? 0xff : 0;
      for (size_t i = first; i < first + stride; i++) {
        __m512i a = x[i], b = x[i + stride];
        __mmask8 swap = _mm512_cmplt_epu64_mask(a, b) ^ rising;
        x[i] = _mm512_mask_blend_epi64(swap, a, b);
        x[i + stride] = _mm512_mask_blend_epi64(swap, b, a);
      }
    }
  }
  for (size_t i = 0; i < vectors; i++) x[i] = merge_lanes(x[i], 4, (i & size) != 0 ? 0 : 0xff);
}

enum { SORT_VECTORS = 64 };

/* Bitonic sort (Batcher, "Sorting networks and their applications", 1968): which keys are compared
 * does not depend on the keys, so no branch is mispredicted. The keys are padded to a power of two
 * of vectors with 0, the smallest key, which sorts last. */
static void sort(uint64_t *keys, size_t n) {
  __m512i x[SORT_VECTORS];
  size_t vectors = 1; /* ceil(n / 8), rounded up to a power of two */
  if (n > 8 * SORT_VECTORS) {
    fopo_sort_keys(keys, n);
    return;
  }
  while (8 * vectors < n) vectors *= 2;
  /* Each vector by itself: runs of 2, of 4, of 8 lanes, the vectors descending and ascending in
   * turn. */
  for (size_t i = 0; i < vectors; i++) {
    __m512i y = _mm512_setzero_si512();
    if (8 * i < n) y = keys_at(keys, 8 * i, n, y);
    y = merge_lanes(y, 1, 0x33);
    y = merge_lanes(y, 2, 0x0f);
    x[i] = merge_lanes(y, 4, (i & 1) != 0 ? 0 : 0xff);
  }
  /* Then runs of 2, 4, .. vectors; the last merge leaves one descending run. */
  for (size_t size = 2; size <= vectors; size *= 2) merge_vectors(x, vectors, size);
  for (size_t i = 0; 8 * i < n; i++) {
    _mm512_mask_storeu_epi64(keys + 8 * i, key_lanes(n - 8 * i), x[i]);
  }
}

/* ---- selection among words and ids ---- */

/* Appends i + l for each lane l that is set; returns how many. */
INLINE size_t list_lanes(uint32_t *list, size_t i, __mmask16 lanes) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  size_t found = (size_t)__builtin_popcount(lanes);
  __m512i places = _mm512_add_epi32(lane, _mm512_set1_epi32((int)i));
  _mm512_mask_storeu_epi32(list, (__mmask16)((1u << found) - 1u),
                           _mm512_maskz_compress_epi32(lanes, places));
  return found;
}

/* A mask of the first n lanes, of all 16 if n is larger. */
INLINE __mmask16 lanes_left(size_t n) { return n < 16 ? first_lanes(n) : (__mmask16)0xffff; }

static size_t select_at_least(uint32_t *list, const uint32_t *words, size_t n, uint64_t least) {
  size_t found = 0;
  if (least > UINT32_MAX) return 0;
  __m512i bound = _mm512_set1_epi32((int)(uint32_t)least);
  for (size_t i = 0; i < n; i += 16) {
    __mmask16 lanes = lanes_left(n - i);
    __m512i x = _mm512_maskz_loadu_epi32(lanes, words + i);
    found += list_lanes(list + found, i, _mm512_mask_cmpge_epu32_mask(lanes, x, bound));
  }
  return found;
}

static size_t select_in_bloom(uint32_t *list, const uint32_t *ids, size_t n, const uint32_t *bloom,
                              unsigned bits) {
  const __m512i factor = _mm512_set1_epi32((int)FOPO_HASH_FACTOR), one = _mm512_set1_epi32(1);
  const __m128i shift = _mm_cvtsi32_si128(32 - (int)bits);
  size_t found = 0;
  for (size_t i = 0; i < n; i += 16) {
    __mmask16 lanes = lanes_left(n - i);
    __m512i x = _mm512_maskz_loadu_epi32(lanes, ids + i);
    __m512i hash = _mm512_srl_epi32(_mm512_mullo_epi32(x, factor), shift);
    __m512i word = _mm512_i32gather_epi32(_mm512_srli_epi32(hash, 5), bloom, 4);
    __m512i bit = _mm512_sllv_epi32(one, _mm512_and_si512(hash, _mm512_set1_epi32(31)));
    __mmask16 held = _mm512_mask_test_epi32_mask(lanes, word, bit);
    if (held != 0) found += list_lanes(list + found, i, held);
  }
  return found;
}

FOPO_UNIT_FUNCTIONS(int16, FOPO_PACKED_INT16, unit_select_512)

FOPO_KERNELS_FILL(avx512, table) {
  static const fopo_prefilter prefilter = FOPO_UNIT_MEMBERS(int16, FOPO_PACKED_INT16, 64);
  table->prefilter = &prefilter;
  fopo_fill_rows_avx512(table);
  table->axpy = axpy;
  table->scores = scores;
  table->max_columns = max_columns;
  table->exp_columns = exp_columns;
  table->add_products = add_products;
  table->product = fopo_product_avx512;
  table->select_columns_at_least = select_columns_at_least;
  table->approximate_kth = fopo_approximate_kth;
  table->adam = fopo_adam_all;
  table->adagrad = fopo_adagrad_all;
  table->kth = kth;
  table->sort = sort;
  table->partition_at_least = partition_at_least;
  table->max = largest;
  table->exp_sum = exp_sum;
  table->moments = moments;
  table->draw_uniform = draw_uniform;
  table->draw_pairs = draw_pairs;
  table->select_at_least = select_at_least;
  table->select_in_bloom = select_in_bloom;
  table->log_mixture = log_mixture;
  return 1;
}

#endif
