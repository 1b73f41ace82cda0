/* The kernels that read item rows one by one, for NEON, which every arm64 CPU has: 8 numbers at a
 * time, in two vectors. The last ones of a float32 row are masked; rows of 16-bit numbers end with
 * zeros and are loaded whole. The code is the same for float32, float16 and bfloat16 rows but for
 * `load`, which widens 8 numbers to float32.
 *
 * Sums are made in two accumulators of 8 lanes. dot and gather_dot sum in the same order, so a
 * row's score has the same bits from both, at any place among the ids. */
#include "kernels/kernels_tables.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

#include "kernels/kernels_rows.h"

/* 8 numbers: 0 .. 3 and 4 .. 7. */
typedef struct {
  float32x4_t low, high;
} eight;

typedef struct {
  uint32x4_t low, high;
} mask;

/* The last 8 of n > 0 numbers: the place of the first, and a mask of the lanes that the eights
 * before it do not cover. If n >= 8 it ends with the n numbers and overlaps the eight before. */
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

INLINE eight zero(void) { return (eight){vdupq_n_f32(0), vdupq_n_f32(0)}; }

INLINE eight load8(const float *x) { return (eight){vld1q_f32(x), vld1q_f32(x + 4)}; }

INLINE eight masked(eight x, mask m) {
  x.low = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x.low), m.low));
  x.high = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x.high), m.high));
  return x;
}

/* The eight at x[last.at], 0 outside the mask. */
INLINE eight load_tail(const float *x, tail last) {
  if (last.few == 8) return masked(load8(x + last.at), last.lanes);
  float some[8] = {0};
  for (size_t i = 0; i < last.few; i++) some[i] = x[i];
  return load8(some);
}

/* Numbers i .. i + 7 of a row. */
INLINE eight load(const char *row, size_t i, const fopo_float type) {
  row += i * fopo_float_bytes(type);
  if (type == FOPO_FLOAT32) return load8((const float *)(const void *)row);
  uint16x8_t x = vld1q_u16((const uint16_t *)(const void *)row);
  if (type == FOPO_FLOAT16) {
    float16x8_t half = vreinterpretq_f16_u16(x);
    return (eight){vcvt_f32_f16(vget_low_f16(half)), vcvt_high_f32_f16(half)};
  }
  return (eight){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16)),
                 vreinterpretq_f32_u32(vshll_high_n_u16(x, 16))};
}

/* The last eight of a row. 16-bit numbers are all read: a row ends with zeros. */
INLINE eight load_last(const char *row, tail last, const fopo_float type) {
  if (type != FOPO_FLOAT32) return masked(load(row, last.at, type), last.lanes);
  return load_tail((const float *)(const void *)row, last);
}

/* sum + x * y */
INLINE eight add_product(eight sum, eight x, eight y) {
  return (eight){vfmaq_f32(sum.low, x.low, y.low), vfmaq_f32(sum.high, x.high, y.high)};
}

INLINE eight add_scaled(eight sum, float32x4_t scale, eight x) {
  return (eight){vfmaq_f32(sum.low, scale, x.low), vfmaq_f32(sum.high, scale, x.high)};
}

INLINE eight add(eight x, eight y) {
  return (eight){vaddq_f32(x.low, y.low), vaddq_f32(x.high, y.high)};
}

/* (a0 + a2) + (a1 + a3) */
INLINE float sum4(float32x4_t a) { return vpadds_f32(vadd_f32(vget_low_f32(a), vget_high_f32(a))); }

/* The same of four vectors at once. */
INLINE float32x4_t sum4_each(const float32x4_t a[4]) {
  /* lanes 0 and 2 of a pair stand before its lanes 1 and 3 */
  float32x4_t ab02 = vuzp1q_f32(a[0], a[1]), ab13 = vuzp2q_f32(a[0], a[1]);
  float32x4_t cd02 = vuzp1q_f32(a[2], a[3]), cd13 = vuzp2q_f32(a[2], a[3]);
  return vaddq_f32(vpaddq_f32(ab02, cd02), vpaddq_f32(ab13, cd13));
}

/* Dot products of n_rows rows with q, each folded to 4 partial sums. Two accumulators a row: eight
 * i goes to accumulator i mod 2, and the last, incomplete one to accumulator 1. */
INLINE void dots(float32x4_t *out, const char *const *row, const float *q, size_t n,
                 const int n_rows, const fopo_float type) {
  eight even[4], odd[4];
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) even[l] = odd[l] = zero();
  /* Two eights at a time. */
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    eight q0 = load8(q + i), q1 = load8(q + i + 8);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) {
      even[l] = add_product(even[l], load(row[l], i, type), q0);
      odd[l] = add_product(odd[l], load(row[l], i + 8, type), q1);
    }
  }
  /* One more whole eight, then the last lanes. */
  if (i + 8 <= n) {
    eight q0 = load8(q + i);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) {
      even[l] = add_product(even[l], load(row[l], i, type), q0);
    }
    i += 8;
  }
  if (i < n) {
    tail last = tail_of(n);
    eight q1 = load_tail(q, last);
#pragma GCC unroll 4
    for (int l = 0; l < n_rows; l++) {
      odd[l] = add_product(odd[l], load_last(row[l], last, type), q1);
    }
  }
#pragma GCC unroll 4
  for (int l = 0; l < n_rows; l++) {
    eight sum = add(even[l], odd[l]);
    out[l] = vaddq_f32(sum.low, sum.high);
  }
}

INLINE float dot_row(const char *row, const float *q, size_t n, const fopo_float type) {
  float32x4_t sum;
  dots(&sum, &row, q, n, 1, type);
  return sum4(sum);
}

INLINE void gather_dot(float *f, const void *rows, size_t ld, const uint32_t *ids, size_t count,
                       const float *q, size_t dim, const fopo_float type) {
  if (dim == 0) {
    for (size_t s = 0; s < count; s++) f[s] = 0;
    return;
  }
  size_t bytes = dim * fopo_float_bytes(type);
  for (size_t s = 0; s < count && s < AHEAD; s++) {
    prefetch_bytes(row_at(rows, ld, ids[s], type), bytes);
  }
  size_t s = 0;
  for (; s + 4 <= count; s += 4) {
    for (size_t next = s + AHEAD; next < s + AHEAD + 4 && next < count; next++) {
      prefetch_bytes(row_at(rows, ld, ids[next], type), bytes);
    }
    const char *row[4];
#pragma GCC unroll 4
    for (size_t l = 0; l < 4; l++) row[l] = row_at(rows, ld, ids[s + l], type);
    float32x4_t sum[4];
    dots(sum, row, q, dim, 4, type);
    vst1q_f32(f + s, sum4_each(sum));
  }
  for (; s < count; s++) f[s] = dot_row(row_at(rows, ld, ids[s], type), q, dim, type);
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

/* Stores the lanes of an eight that the mask names. */
INLINE void store_last(float *v, eight x, tail last) {
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

/* v[i] += sum_s w[s] row_s[i] over `eights` eights of columns from i = first on; the last of them
 * is `last`. Sample s is added to accumulator s mod chains: with few eights a single accumulator
 * would wait for its own previous FMA. eights * chains <= 8: 16 registers. With every fourth
 * sample the same columns of a row of `next` are prefetched. */
INLINE void add_block(float *v, const batch *b, size_t first, const int eights, const int chains,
                      tail last, const fopo_float type) {
  eight sum[8];
#pragma GCC unroll 8
  for (int k = 0; k < eights * chains; k++) sum[k] = zero();
  /* `chains` samples at a time, one for each set of accumulators. */
  size_t s = 0;
  for (; s + (size_t)chains <= b->n; s += (size_t)chains) {
    if (s % 4 == 0 && s / 4 < b->n_next) {
      const char *soon = row_at(b->rows, b->ld, b->next[s / 4], type);
      prefetch_bytes(soon + first * fopo_float_bytes(type),
                     (last.at + last.few - first) * fopo_float_bytes(type));
    }
#pragma GCC unroll 4
    for (int l = 0; l < chains; l++) {
      const char *row = row_at(b->rows, b->ld, b->id[s + (size_t)l], type);
      float32x4_t scale = vdupq_n_f32(b->w[s + (size_t)l]);
#pragma GCC unroll 8
      for (int k = 0; k < eights; k++) {
        eight x =
            k + 1 < eights ? load(row, first + (size_t)k * 8, type) : load_last(row, last, type);
        sum[l * eights + k] = add_scaled(sum[l * eights + k], scale, x);
      }
    }
  }
  /* The last n mod chains samples go to accumulator 0. */
  for (; s < b->n; s++) {
    const char *row = row_at(b->rows, b->ld, b->id[s], type);
    float32x4_t scale = vdupq_n_f32(b->w[s]);
#pragma GCC unroll 8
    for (int k = 0; k < eights; k++) {
      eight x =
          k + 1 < eights ? load(row, first + (size_t)k * 8, type) : load_last(row, last, type);
      sum[k] = add_scaled(sum[k], scale, x);
    }
  }
  /* The accumulators of each column are summed and added to v. */
#pragma GCC unroll 8
  for (int k = 0; k < eights; k++) {
    int whole = k + 1 < eights;
    size_t at = first + (size_t)k * 8;
    eight total = whole ? load8(v + at) : load_tail(v, last);
#pragma GCC unroll 4
    for (int l = 0; l < chains; l++) total = add(total, sum[l * eights + k]);
    if (whole) {
      vst1q_f32(v + at, total.low);
      vst1q_f32(v + at + 4, total.high);
    } else {
      store_last(v, total, last);
    }
  }
}

/* All columns: blocks of 64 first, then the rest with as many chains as registers allow. Each case
 * is a copy of add_block with constant sizes. */
INLINE void add_rows(float *v, const batch *b, size_t dim, const fopo_float type) {
  size_t first = 0;
  for (; dim - first >= 64; first += 64) {
    add_block(v, b, first, 8, 1, tail_of(first + 64), type);
  }
  tail last = tail_of(dim);
  switch ((dim - first + 7) / 8) {
  case 1: add_block(v, b, first, 1, 4, last, type); break;
  case 2: add_block(v, b, first, 2, 4, last, type); break;
  case 3: add_block(v, b, first, 3, 2, last, type); break;
  case 4: add_block(v, b, first, 4, 2, last, type); break;
  case 5: add_block(v, b, first, 5, 1, last, type); break;
  case 6: add_block(v, b, first, 6, 1, last, type); break;
  case 7: add_block(v, b, first, 7, 1, last, type); break;
  case 8: add_block(v, b, first, 8, 1, last, type); break;
  default: break;
  }
}

INLINE void gather_axpy(float *v, const void *rows, size_t ld, const uint32_t *ids, const float *c,
                        size_t count, size_t n_next, size_t dim, const fopo_float type) {
  add_picked(v, rows, ld, ids, c, count, n_next, dim, type);
}

FOPO_ROW_KERNELS(neon)

#endif
