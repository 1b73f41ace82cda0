/* The kernels for NEON, which every arm64 CPU has: vectors of 4 floats, two or four at a time.
 * Kernels that read item rows one by one are in kernels_rows_neon.c. Sums are made in 8 lanes.
 * Bloom filters, sorting and partition stay portable: NEON has no gather, and two keys a vector are
 * too few. */
#include "kernels/kernels_tables.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <float.h>
#include <math.h>

#include "kernels/kernels_panels.h"

static void axpy(float *y, float a, const float *x, size_t n) {
  float32x4_t scale = vdupq_n_f32(a);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    vst1q_f32(y + i, vfmaq_f32(vld1q_f32(y + i), scale, vld1q_f32(x + i)));
    vst1q_f32(y + i + 4, vfmaq_f32(vld1q_f32(y + i + 4), scale, vld1q_f32(x + i + 4)));
  }
  for (; i < n; i++) y[i] = fmaf(a, x[i], y[i]);
}

/* Bit 4 j is set for each of 16 numbers x[j] >= least[j]. */
INLINE uint64_t columns_at_least(const float *x, const float32x4_t least[4]) {
  uint16x8_t low = vcombine_u16(vmovn_u32(vcgeq_f32(vld1q_f32(x), least[0])),
                                vmovn_u32(vcgeq_f32(vld1q_f32(x + 4), least[1])));
  uint16x8_t high = vcombine_u16(vmovn_u32(vcgeq_f32(vld1q_f32(x + 8), least[2])),
                                 vmovn_u32(vcgeq_f32(vld1q_f32(x + 12), least[3])));
  uint8x16_t bytes = vcombine_u8(vmovn_u16(low), vmovn_u16(high));
  uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(bytes), 4);
  return vget_lane_u64(vreinterpret_u64_u8(nibbles), 0) & 0x1111111111111111u;
}

static size_t select_columns_at_least(uint32_t *list, const float *x, size_t ld, size_t count,
                                      const float *floor) {
  float32x4_t least[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) least[k] = vld1q_f32(floor + 4 * k);
  size_t n = 0;
  for (size_t s = 0; s < count; s++) {
    for (uint64_t pass = columns_at_least(x + s * ld, least); pass != 0; pass &= pass - 1) {
      list[n++] = (uint32_t)(s * 16) + (uint32_t)__builtin_ctzll(pass) / 4;
    }
  }
  return n;
}

/* fopo_approximate_kth, all 16 columns at once. */
static void approximate_kth(float *kth, const float *x, size_t ld, size_t count, size_t rank) {
  float32x4_t low[4], high[4], half = vdupq_n_f32(0.5f);
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) low[k] = high[k] = vld1q_f32(x + 4 * k);
  for (size_t s = 1; s < count; s++) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      float32x4_t row = vld1q_f32(x + s * ld + 4 * k);
      low[k] = vbslq_f32(vcltq_f32(row, low[k]), row, low[k]);
      high[k] = vbslq_f32(vcgtq_f32(row, high[k]), row, high[k]);
    }
  }
  for (int halving = 0; halving < 12; halving++) {
    float32x4_t middle[4];
    int32x4_t missing[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      middle[k] = vaddq_f32(vmulq_f32(half, low[k]), vmulq_f32(half, high[k]));
      missing[k] = vdupq_n_s32((int32_t)rank);
    }
    for (size_t s = 0; s < count; s++) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) { /* true is -1 */
        uint32x4_t reached = vcgeq_f32(vld1q_f32(x + s * ld + 4 * k), middle[k]);
        missing[k] = vaddq_s32(missing[k], vreinterpretq_s32_u32(reached));
      }
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      uint32x4_t enough = vclezq_s32(missing[k]);
      low[k] = vbslq_f32(enough, middle[k], low[k]);
      high[k] = vbslq_f32(enough, high[k], middle[k]);
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) vst1q_f32(kth + 4 * k, low[k]);
}

static float largest(const float *x, size_t n) {
  float32x4_t even = vdupq_n_f32(-INFINITY), odd = even;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) { /* maxnm ignores NaN */
    even = vmaxnmq_f32(vld1q_f32(x + i), even);
    odd = vmaxnmq_f32(vld1q_f32(x + i + 4), odd);
  }
  float best = vmaxnmvq_f32(vmaxnmq_f32(even, odd));
  for (; i < n; i++) best = x[i] > best ? x[i] : best;
  return best;
}

/* w[0 .. 7] = exp(x - shift), which is also added to the sums. */
INLINE void exp_eight(float *w, const float *x, float32x4_t shift, float64x2_t sum[4]) {
  float32x4_t y0 = v_exp(vsubq_f32(vld1q_f32(x), shift));
  float32x4_t y1 = v_exp(vsubq_f32(vld1q_f32(x + 4), shift));
  vst1q_f32(w, y0);
  vst1q_f32(w + 4, y1);
  sum[0] = vaddq_f64(sum[0], vcvt_f64_f32(vget_low_f32(y0)));
  sum[1] = vaddq_f64(sum[1], vcvt_high_f64_f32(y0));
  sum[2] = vaddq_f64(sum[2], vcvt_f64_f32(vget_low_f32(y1)));
  sum[3] = vaddq_f64(sum[3], vcvt_high_f64_f32(y1));
}

static double exp_sum(float *w, const float *x, float shift, size_t n) {
  float32x4_t minus = vdupq_n_f32(shift);
  float64x2_t sum[4] = {vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0)};
  size_t i = 0;
  for (; i + 8 <= n; i += 8) exp_eight(w + i, x + i, minus, sum);
  if (i < n) { /* lanes behind the end are exp(-inf) = 0 */
    float last[8];
    for (size_t j = 0; j < 8; j++) last[j] = i + j < n ? x[i + j] : -INFINITY;
    exp_eight(last, last, vdupq_n_f32(shift), sum);
    for (size_t j = 0; i + j < n; j++) w[i + j] = last[j];
  }
  sum[0] = vaddq_f64(vaddq_f64(sum[0], sum[2]), vaddq_f64(sum[1], sum[3]));
  return vaddvq_f64(sum[0]);
}

/* The sums so far of four lanes. */
typedef struct {
  float64x2_t sum[2], squares[2], products[2];
} moment_sums;

INLINE void add_moments(moment_sums *m, float32x4_t x, float32x4_t y) {
  float64x2_t a[2] = {vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)};
  float64x2_t b[2] = {vcvt_f64_f32(vget_low_f32(y)), vcvt_high_f64_f32(y)};
#pragma GCC unroll 2
  for (int k = 0; k < 2; k++) {
    m->sum[k] = vaddq_f64(m->sum[k], a[k]);
    m->squares[k] = vfmaq_f64(m->squares[k], a[k], a[k]);
    m->products[k] = vfmaq_f64(m->products[k], a[k], b[k]);
  }
}

static void moments(double out[3], const float *x, const float *y, size_t n) {
  float64x2_t zero = vdupq_n_f64(0);
  moment_sums m = {{zero, zero}, {zero, zero}, {zero, zero}};
  size_t i = 0;
  for (; i + 4 <= n; i += 4) add_moments(&m, vld1q_f32(x + i), vld1q_f32(y + i));
  if (i < n) {
    float last[8] = {0};
    for (size_t j = 0; i + j < n; j++) last[j] = x[i + j], last[4 + j] = y[i + j];
    add_moments(&m, vld1q_f32(last), vld1q_f32(last + 4));
  }
  out[0] = vaddvq_f64(vaddq_f64(m.sum[0], m.sum[1]));
  out[1] = vaddvq_f64(vaddq_f64(m.squares[0], m.squares[1]));
  out[2] = vaddvq_f64(vaddq_f64(m.products[0], m.products[1]));
}

/* The high and the low words of x * y. */
INLINE void multiply(uint32x4_t *high, uint32x4_t *low, uint32x4_t x, uint32x4_t y) {
  uint32x4_t p01 = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(x), vget_low_u32(y)));
  uint32x4_t p23 = vreinterpretq_u32_u64(vmull_high_u32(x, y));
  *low = vuzp1q_u32(p01, p23);
  *high = vuzp2q_u32(p01, p23);
}

/* Blocks `index` .. `index` + 3 of Philox4x32-10, one in each lane: c[k] is word k of each. */
INLINE void philox(uint32x4_t c[4], uint32_t index, uint32_t row, uint32_t step, uint64_t seed) {
  static const uint32_t lane[4] = {0, 1, 2, 3};
  const uint32x4_t m0 = vdupq_n_u32(PHILOX_M4x32_0), m1 = vdupq_n_u32(PHILOX_M4x32_1);
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  c[0] = vaddq_u32(vdupq_n_u32(index), vld1q_u32(lane));
  c[1] = vdupq_n_u32(row);
  c[2] = vdupq_n_u32(step);
  c[3] = vdupq_n_u32(FOPO_STREAM_SAMPLE);
#pragma GCC unroll 10
  for (int round = 0; round < 10; round++) {
    uint32x4_t high0, low0, high1, low1;
    multiply(&high0, &low0, c[0], m0);
    multiply(&high1, &low1, c[2], m1);
    c[0] = veorq_u32(veorq_u32(high1, c[1]), vdupq_n_u32(k0));
    c[2] = veorq_u32(veorq_u32(high0, c[3]), vdupq_n_u32(k1));
    c[1] = low1;
    c[3] = low0;
    k0 += PHILOX_W32_0;
    k1 += PHILOX_W32_1;
  }
}

static void draw_uniform(uint32_t *ids, uint32_t n, size_t count, uint64_t seed, uint32_t step,
                         uint32_t row) {
  const uint32x4_t bound = vdupq_n_u32(n);
  size_t s = 0;
  for (; s + 16 <= count; s += 16) {
    uint32x4_t c[4], low[4];
    uint32x4x4_t id;
    philox(c, (uint32_t)(s >> 2), row, step, seed);
    /* fopo_below by multiplication: the id is the high half of word * n, unless the low half is
     * below n: then the word may have to be rejected, and the whole block is drawn one by one. */
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) multiply(&id.val[k], &low[k], c[k], bound);
    uint32x4_t least = vminq_u32(vminq_u32(low[0], low[1]), vminq_u32(low[2], low[3]));
    if (vminvq_u32(least) < n) {
      draw_uniform_from(ids, s, n, s + 16, seed, step, row);
      continue;
    }
    vst4q_u32(ids + s, id); /* the four words of the first block, then of the next */
  }
  draw_uniform_from(ids, s, n, count, seed, step, row);
}

/* A block has two samples: words 0 and 2 are their a, words 1 and 3 their b. Four blocks at once.
 */
static void draw_pairs(uint32_t *a, uint32_t *b, size_t first, size_t count, uint64_t seed,
                       uint32_t step, uint32_t row) {
  size_t s = 0;
  for (; s + 8 <= count; s += 8) {
    uint32x4_t c[4];
    philox(c, (uint32_t)((first + s) >> 1), row, step, seed);
    uint32x4x2_t even = {{c[0], c[2]}}, odd = {{c[1], c[3]}};
    vst2q_u32(a + s, even);
    vst2q_u32(b + s, odd);
  }
  draw_pairs_from(a, b, s, first, count, seed, step, row);
}

/* FOPO_LOG_TERMS, for normal numbers: exponent and mantissa are taken from the bits. */
INLINE float64x2_t logarithm(float64x2_t x) {
  static const double term[] = FOPO_LOG_TERMS;
  const float64x2_t one = vdupq_n_f64(1.0);
  uint64x2_t bits = vreinterpretq_u64_f64(x);
  float64x2_t e = vcvtq_f64_u64(vshrq_n_u64(bits, 52));
  e = vsubq_f64(e, vdupq_n_f64(1023.0));
  uint64x2_t mantissa = vandq_u64(bits, vdupq_n_u64(0xfffffffffffffu));
  float64x2_t m = vreinterpretq_f64_u64(vorrq_u64(mantissa, vreinterpretq_u64_f64(one)));
  uint64x2_t large = vcgtq_f64(m, vdupq_n_f64(1.4142135623730951));
  m = vbslq_f64(large, vmulq_f64(m, vdupq_n_f64(0.5)), m);
  e = vbslq_f64(large, vaddq_f64(e, one), e);
  float64x2_t t = vdivq_f64(vsubq_f64(m, one), vaddq_f64(m, one));
  float64x2_t z = vmulq_f64(t, t), p = vdupq_n_f64(term[0]);
#pragma GCC unroll 8
  for (size_t i = 1; i < sizeof term / sizeof *term; i++) {
    p = vfmaq_f64(vdupq_n_f64(term[i]), p, z);
  }
  return vfmaq_f64(vmulq_f64(p, t), e, vdupq_n_f64(0.69314718055994531));
}

static void log_mixture(float *logq, const float *w, double share, double rest, double total,
                        size_t n) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    float32x4_t four = vld1q_f32(w + i);
    float64x2_t x[2] = {vcvt_f64_f32(vget_low_f32(four)), vcvt_high_f64_f32(four)};
    uint64x2_t normal = vdupq_n_u64(UINT64_MAX);
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
      x[k] = vmulq_f64(vdupq_n_f64(rest), vdivq_f64(x[k], vdupq_n_f64(total)));
      x[k] = vaddq_f64(vdupq_n_f64(share), x[k]);
      normal = vandq_u64(normal, vcgeq_f64(x[k], vdupq_n_f64(DBL_MIN)));
    }
    if (vminvq_u32(vreinterpretq_u32_u64(normal)) != 0) {
      float32x2_t low = vcvt_f32_f64(logarithm(x[0]));
      vst1q_f32(logq + i, vcvt_high_f32_f64(low, logarithm(x[1])));
      continue;
    }
    double value[4]; /* 0, subnormal or NaN among them: one by one */
    vst1q_f64(value, x[0]);
    vst1q_f64(value + 2, x[1]);
    for (size_t j = 0; j < 4; j++) logq[i + j] = (float)log(value[j]);
  }
  for (; i < n; i++) logq[i] = (float)log(share + rest * ((double)w[i] / total));
}

/* ---- selection ---- */

static size_t count_at_least(const uint64_t *keys, size_t n, uint64_t least) {
  uint64x2_t bound = vdupq_n_u64(least), even = vdupq_n_u64(0), odd = even;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) { /* true is -1 */
    even = vsubq_u64(even, vcgeq_u64(vld1q_u64(keys + i), bound));
    odd = vsubq_u64(odd, vcgeq_u64(vld1q_u64(keys + i + 2), bound));
  }
  size_t count = (size_t)vaddvq_u64(vaddq_u64(even, odd));
  for (; i < n; i++) count += keys[i] >= least;
  return count;
}

INLINE uint64x2_t smaller(uint64x2_t a, uint64x2_t b) { return vbslq_u64(vcgtq_u64(b, a), a, b); }
INLINE uint64x2_t larger(uint64x2_t a, uint64x2_t b) { return vbslq_u64(vcgtq_u64(a, b), a, b); }

static uint64_t min_at_least(const uint64_t *keys, size_t n, uint64_t least) {
  uint64x2_t bound = vdupq_n_u64(least), even = vdupq_n_u64(UINT64_MAX), odd = even;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) { /* a key below the bound becomes the largest of all */
    uint64x2_t a = vld1q_u64(keys + i), b = vld1q_u64(keys + i + 2);
    even = smaller(even, vorrq_u64(a, vcgtq_u64(bound, a)));
    odd = smaller(odd, vorrq_u64(b, vcgtq_u64(bound, b)));
  }
  even = smaller(even, odd);
  uint64_t low = vgetq_lane_u64(even, 0), high = vgetq_lane_u64(even, 1);
  uint64_t found = low < high ? low : high;
  for (; i < n; i++) found = keys[i] >= least && keys[i] < found ? keys[i] : found;
  return found;
}

static uint64_t max_key(const uint64_t *keys, size_t n) {
  uint64x2_t even = vdupq_n_u64(0), odd = even;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    even = larger(even, vld1q_u64(keys + i));
    odd = larger(odd, vld1q_u64(keys + i + 2));
  }
  even = larger(even, odd);
  uint64_t low = vgetq_lane_u64(even, 0), high = vgetq_lane_u64(even, 1);
  uint64_t most = low > high ? low : high;
  for (; i < n; i++) most = keys[i] > most ? keys[i] : most;
  return most;
}

static uint64_t kth(const uint64_t *keys, size_t n, size_t k) {
  return fopo_kth(keys, n, k, (fopo_key_passes){count_at_least, min_at_least, max_key});
}

/* For each set of lanes, bit k for lane k: the bytes of its lanes, moved to the front. */
#define LANE(k) 4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3
#define BEHIND  LANE(0) /* not looked at */
static const uint8_t to_front[16][16] = {
    {BEHIND, BEHIND, BEHIND, BEHIND},    {LANE(0), BEHIND, BEHIND, BEHIND},
    {LANE(1), BEHIND, BEHIND, BEHIND},   {LANE(0), LANE(1), BEHIND, BEHIND},
    {LANE(2), BEHIND, BEHIND, BEHIND},   {LANE(0), LANE(2), BEHIND, BEHIND},
    {LANE(1), LANE(2), BEHIND, BEHIND},  {LANE(0), LANE(1), LANE(2), BEHIND},
    {LANE(3), BEHIND, BEHIND, BEHIND},   {LANE(0), LANE(3), BEHIND, BEHIND},
    {LANE(1), LANE(3), BEHIND, BEHIND},  {LANE(0), LANE(1), LANE(3), BEHIND},
    {LANE(2), LANE(3), BEHIND, BEHIND},  {LANE(0), LANE(2), LANE(3), BEHIND},
    {LANE(1), LANE(2), LANE(3), BEHIND}, {LANE(0), LANE(1), LANE(2), LANE(3)}};

/* Four places at a time. A store may write behind the places found, but not behind its own four. */
static size_t select_at_least(uint32_t *list, const uint32_t *words, size_t n, uint64_t least) {
  static const uint32_t ramp[4] = {0, 1, 2, 3}, bit[4] = {1, 2, 4, 8};
  if (least > UINT32_MAX) return 0;
  uint32x4_t bound = vdupq_n_u32((uint32_t)least), place = vld1q_u32(ramp);
  size_t found = 0, i = 0;
  for (; i + 4 <= n; i += 4) {
    uint32x4_t pass = vcgeq_u32(vld1q_u32(words + i), bound);
    uint32_t set = vaddvq_u32(vandq_u32(pass, vld1q_u32(bit)));
    uint8x16_t moved = vqtbl1q_u8(vreinterpretq_u8_u32(place), vld1q_u8(to_front[set]));
    vst1q_u32(list + found, vreinterpretq_u32_u8(moved));
    found += (size_t)__builtin_popcount(set);
    place = vaddq_u32(place, vdupq_n_u32(4));
  }
  for (; i < n; i++) {
    list[found] = (uint32_t)i;
    found += words[i] >= least;
  }
  return found;
}

FOPO_KERNELS_FILL(neon, table) {
  fopo_fill_rows_neon(table);
  table->axpy = axpy;
  table->scores = scores;
  table->max_columns = max_columns;
  table->exp_columns = exp_columns;
  table->add_products = add_products;
  table->select_columns_at_least = select_columns_at_least;
  table->approximate_kth = approximate_kth;
  table->kth = kth;
  table->max = largest;
  table->exp_sum = exp_sum;
  table->moments = moments;
  table->draw_uniform = draw_uniform;
  table->draw_pairs = draw_pairs;
  table->select_at_least = select_at_least;
  table->log_mixture = log_mixture;
  return 1;
}

#endif
