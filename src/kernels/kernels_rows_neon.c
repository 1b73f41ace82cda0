/* The kernels that read item rows one by one, for NEON, which every arm64 CPU has: 8 numbers at a
 * time, in two vectors. The last ones of a float32 row are masked; rows of 16-bit numbers end with
 * zeros and are loaded whole. The code is the same for float32, float16 and bfloat16 rows but for
 * `load`, which widens 8 numbers to float32.
 *
 * Sums are made in two accumulators of 8 lanes. */
#include "kernels/kernels_tables.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

#include "kernels/kernels_rows.h"

typedef struct {
  float32x4_t low, high;
} vec; /* 8 numbers: 0 .. 3 and 4 .. 7 */

enum { VEC = 8 };

typedef struct {
  uint32x4_t low, high;
} mask;

/* The last 8 of n > 0 numbers: the place of the first, and a mask of the lanes that the vectors
 * before it do not cover. If n >= 8 it ends with the n numbers and overlaps the vector before. */
typedef struct {
  size_t at;
  mask lanes;
  size_t few; /* n if it is below 8: only so many numbers can be read; else 8 */
} tail;

INLINE tail tail_of(size_t n) {
  static const uint32_t ramp[24] = {0,   0,   0,   0,   0, 0, 0, 0, ~0u, ~0u, ~0u, ~0u,
                                    ~0u, ~0u, ~0u, ~0u, 0, 0, 0, 0, 0,   0,   0,   0};
  const uint32_t *lanes = n < 8 ? ramp + 16 - n : ramp + (n - 1) % 8 + 1;
  mask rest = {vld1q_u32(lanes), vld1q_u32(lanes + 4)};
  return (tail){n < 8 ? 0 : n - 8, rest, n < 8 ? n : 8};
}

INLINE vec vec_zero(void) { return (vec){vdupq_n_f32(0), vdupq_n_f32(0)}; }

INLINE vec vec_of(const float *x) { return (vec){vld1q_f32(x), vld1q_f32(x + 4)}; }

INLINE vec masked(vec x, mask m) {
  x.low = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x.low), m.low));
  x.high = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x.high), m.high));
  return x;
}

/* The vector at x[last.at], 0 outside the mask. */
INLINE vec load_tail(const float *x, tail last) {
  if (last.few == 8) return masked(vec_of(x + last.at), last.lanes);
  float some[8] = {0};
  for (size_t i = 0; i < last.few; i++) some[i] = x[i];
  return vec_of(some);
}

/* Numbers i .. i + 7 of a row. */
INLINE vec load(const char *row, size_t i, const fopo_float type) {
  row += i * fopo_float_bytes(type);
  if (type == FOPO_FLOAT32) return vec_of((const float *)(const void *)row);
  uint16x8_t x = vld1q_u16((const uint16_t *)(const void *)row);
  if (type == FOPO_FLOAT16) {
    float16x8_t half = vreinterpretq_f16_u16(x);
    return (vec){vcvt_f32_f16(vget_low_f16(half)), vcvt_high_f32_f16(half)};
  }
  return (vec){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16)),
               vreinterpretq_f32_u32(vshll_high_n_u16(x, 16))};
}

/* The last vector of a row. 16-bit numbers are all read: a row ends with zeros. */
INLINE vec load_last(const char *row, tail last, const fopo_float type) {
  if (type != FOPO_FLOAT32) return masked(load(row, last.at, type), last.lanes);
  return load_tail((const float *)(const void *)row, last);
}

/* sum + x * y */
INLINE vec add_product(vec sum, vec x, vec y) {
  return (vec){vfmaq_f32(sum.low, x.low, y.low), vfmaq_f32(sum.high, x.high, y.high)};
}

INLINE vec add(vec x, vec y) { return (vec){vaddq_f32(x.low, y.low), vaddq_f32(x.high, y.high)}; }

INLINE vec vec_all(float x) { return (vec){vdupq_n_f32(x), vdupq_n_f32(x)}; }

INLINE void vec_store(float *x, vec a) {
  vst1q_f32(x, a.low);
  vst1q_f32(x + 4, a.high);
}

INLINE vec add_last(vec sum, const char *row, vec q, tail last, const fopo_float type) {
  return add_product(sum, load_last(row, last, type), q);
}

INLINE size_t end_of(tail last) { return last.at + last.few; }

typedef float32x4_t four;

INLINE four fold(vec a) { return vaddq_f32(a.low, a.high); }

/* (a0 + a2) + (a1 + a3) */
INLINE float sum4(four a) { return vpadds_f32(vadd_f32(vget_low_f32(a), vget_high_f32(a))); }

/* f [4] = the same of four vectors. */
INLINE void store4(float *f, const four *a) {
  /* lanes 0 and 2 of a pair stand before its lanes 1 and 3 */
  four ab02 = vuzp1q_f32(a[0], a[1]), ab13 = vuzp2q_f32(a[0], a[1]);
  four cd02 = vuzp1q_f32(a[2], a[3]), cd13 = vuzp2q_f32(a[2], a[3]);
  vst1q_f32(f, vaddq_f32(vpaddq_f32(ab02, cd02), vpaddq_f32(ab13, cd13)));
}

/* Compacts the samples with c != 0, in order, and returns how many. Mostly all or none of four
 * neighbours pass; a mixed four is compacted without branches, which would be mispredicted. */
INLINE size_t pick(uint32_t *id, float *w, const uint32_t *ids, const float *c, size_t count) {
  size_t n = 0, s = 0;
  for (; s + 4 <= count; s += 4) {
    float32x4_t value = vld1q_f32(c + s);
    uint32x4_t dropped = vceqzq_f32(value);
    if (vminvq_u32(dropped) != 0) continue;
    if (vmaxvq_u32(dropped) == 0) {
      vst1q_f32(w + n, value);
      vst1q_u32(id + n, vld1q_u32(ids + s));
      n += 4;
      continue;
    }
    for (size_t i = s; i < s + 4; i++) {
      id[n] = ids[i];
      w[n] = c[i];
      n += c[i] != 0;
    }
  }
  for (; s < count; s++) {
    id[n] = ids[s];
    w[n] = c[s];
    n += c[s] != 0;
  }
  return n;
}

/* Stores the lanes of a vector that the mask names. */
INLINE void store_tail(float *v, vec x, tail last) {
  if (last.few < 8) {
    float some[8];
    vst1q_f32(some, x.low);
    vst1q_f32(some + 4, x.high);
    for (size_t i = 0; i < last.few; i++) v[i] = some[i];
    return;
  }
  v += last.at;
  vst1q_f32(v, vbslq_f32(last.lanes.low, x.low, vld1q_f32(v)));
  vst1q_f32(v + 4, vbslq_f32(last.lanes.high, x.high, vld1q_f32(v + 4)));
}

#define FOPO_ROW_VECTORS
#include "kernels/kernels_rows_drivers.h"

FOPO_ROW_KERNELS(neon)

#endif
