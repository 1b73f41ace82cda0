/* The prefilters of NEON: scores of 16 rows with 4 queries at a time, in registers, and the
 * selection from them. */
#ifndef FOPO_KERNELS_PREFILTER_NEON_H
#define FOPO_KERNELS_PREFILTER_NEON_H

#include "kernels/prefilter_units.h"

#if defined(__aarch64__)

#include <arm_neon.h>

/* For 4 rows, side by side: sum[l] + the products of the 2 or 4 columns of their unit with that of
 * query l. The four queries' units are side by side too.
 *
 * bfloat16: one instruction adds the exact products of two columns and then the sum so far, and
 * rounds both sums to odd, by 2^-23 of them. A unit's product is rounded L / 2 + 1 times at most:
 * (L + 2) 2^-24 in all, within the bound of kernels/prefilter.h. int8: the rows' numbers lose their
 * offset of 128, so that both operands are signed, and sums are exact. */
INLINE void add_products_neon(const fopo_packed kind, int32x4_t sum[4], uint8x16_t rows,
                              uint8x16_t queries) {
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  if (kind == FOPO_PACKED_BFLOAT16) {
    bfloat16x8_t x = vreinterpretq_bf16_u8(rows), q = vreinterpretq_bf16_u8(queries);
    float32x4_t f[4];
#pragma GCC unroll 4
    for (int l = 0; l < 4; l++) f[l] = vreinterpretq_f32_s32(sum[l]);
    f[0] = vbfdotq_laneq_f32(f[0], x, q, 0);
    f[1] = vbfdotq_laneq_f32(f[1], x, q, 1);
    f[2] = vbfdotq_laneq_f32(f[2], x, q, 2);
    f[3] = vbfdotq_laneq_f32(f[3], x, q, 3);
#pragma GCC unroll 4
    for (int l = 0; l < 4; l++) sum[l] = vreinterpretq_s32_f32(f[l]);
  }
#endif
#if defined(__ARM_FEATURE_DOTPROD)
  if (kind == FOPO_PACKED_INT8) {
    int8x16_t x = vreinterpretq_s8_u8(veorq_u8(rows, vdupq_n_u8(FOPO_UNIT_OFFSET)));
    int8x16_t q = vreinterpretq_s8_u8(queries);
    sum[0] = vdotq_laneq_s32(sum[0], x, q, 0);
    sum[1] = vdotq_laneq_s32(sum[1], x, q, 1);
    sum[2] = vdotq_laneq_s32(sum[2], x, q, 2);
    sum[3] = vdotq_laneq_s32(sum[3], x, q, 3);
  }
#endif
  (void)kind, (void)sum, (void)rows, (void)queries;
}

/* The scores of 4 rows from row r of a group on, with query j. */
INLINE float32x4_t scores_neon(const fopo_packed kind, int32x4_t sum, const char *group, size_t r,
                               const char *queries, size_t j) {
  if (kind == FOPO_PACKED_BFLOAT16) return vreinterpretq_f32_s32(sum);
  float32x4_t scales = vld1q_f32((const float *)(const void *)(group + 4 * r));
  return vmulq_n_f32(vmulq_f32(vcvtq_f32_s32(sum), scales), scale_at(queries, j));
}

/* Appends the lanes < rows with score >= floor, of query j and rows from s on. */
INLINE void append_neon(selection *c, const float32x4_t score[4], size_t s, size_t j) {
  float32x4_t floor = vdupq_n_f32(c->floor[j]);
  uint16x4_t pass[4];
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++) pass[v] = vmovn_u32(vcgeq_f32(score[v], floor));
  uint8x16_t bytes = vcombine_u8(vmovn_u16(vcombine_u16(pass[0], pass[1])),
                                 vmovn_u16(vcombine_u16(pass[2], pass[3])));
  uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(bytes), 4);
  uint64_t set = vget_lane_u64(vreinterpret_u64_u8(nibbles), 0) & 0x1111111111111111u;
  if (set == 0) return;
  float x[16];
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++) vst1q_f32(x + 4 * v, score[v]);
  if (c->count - s < 16) set &= ((uint64_t)1 << 4 * (c->count - s)) - 1;
  for (; set != 0; set &= set - 1) {
    size_t lane = (size_t)__builtin_ctzll(set) / 4;
    c->list[c->found] = (uint32_t)((s + lane) * 16 + j);
    c->scores[c->found++] = x[lane];
  }
}

/* A group of rows from row s on with queries j .. j + 3, of which those below `end` are wanted: 16
 * vectors of sums, which stay in registers. */
INLINE void select_block_neon(const fopo_packed kind, selection *c, size_t s, size_t j,
                              size_t end) {
  const char *group = c->rows + s / 16 * c->group, *x = group + row_header(kind);
  const char *q = c->queries + query_header(kind) + j * FOPO_UNIT;
  int32x4_t sum[4][4]; /* [4 rows, query] */
#pragma GCC unroll 16
  for (int k = 0; k < 16; k++) sum[k / 4][k % 4] = vdupq_n_s32(0);
#pragma GCC unroll 1
  for (size_t u = 0; u < c->units; u++, x += 64, q += 64) {
    uint8x16_t queries = vld1q_u8((const uint8_t *)q);
    if (j == 0) __builtin_prefetch(x + 4 * c->group);
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
      add_products_neon(kind, sum[v], vld1q_u8((const uint8_t *)x + 16 * v), queries);
    }
  }
#pragma GCC unroll 4
  for (size_t l = 0; l < 4; l++) {
    if (j + l >= end) return;
    float32x4_t score[4];
#pragma GCC unroll 4
    for (size_t v = 0; v < 4; v++) {
      score[v] = scores_neon(kind, sum[v][l], group, 4 * v, c->queries, j + l);
    }
    append_neon(c, score, s, j + l);
  }
}

/* score_and_select of kernels/prefilter.h */
INLINE void unit_select_neon(const fopo_packed kind, uint32_t *list, float *scores, size_t found[2],
                             const char *rows, size_t count, const char *queries, size_t dim,
                             size_t n, const float *floor) {
  found[0] = found[1] = 0;
  for (size_t h = 0; 16 * h < n; h++) {
    size_t left = n - 16 * h, end = left < 16 ? left : 16;
    selection c = half_selection(kind, list, scores, rows, count, queries, dim, floor, h);
    for (size_t s = 0; s < count; s += 16) {
      for (size_t j = 0; j < end; j += 4) select_block_neon(kind, &c, s, j, end);
    }
    found[h] = c.found;
  }
}

#endif
#endif
