/* The kernels of a shared head for NEON: columns of a panel in vectors of 4, 16 columns at once. */
#include "kernels/kernels_tables.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/kernels_exp.h"

void fopo_max_columns_neon(float *most, const float *x, size_t count, size_t width) {
  for (size_t j = 0; j < width; j += 16) {
    float32x4_t m[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) m[k] = vld1q_f32(x + j + 4 * k);
    for (size_t s = 1; s < count; s++) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; k++) m[k] = vmaxnmq_f32(m[k], vld1q_f32(x + s * width + j + 4 * k));
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) vst1q_f32(most + j + 4 * k, m[k]);
  }
}

/* 8 columns, so that constants and sums stay in registers. */
void fopo_exp_columns_neon(float *x, float *sum, float *squares, const float *shift, size_t count,
                           size_t width) {
  for (size_t j = 0; j < width; j += 8) {
    float32x4_t sums[2], squared[2], least[2];
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
      least[k] = vld1q_f32(shift + j + 4 * k);
      sums[k] = squared[k] = vdupq_n_f32(0);
    }
    for (size_t s = 0; s < count; s++) {
#pragma GCC unroll 2
      for (int k = 0; k < 2; k++) {
        float *at = x + s * width + j + 4 * k;
        float32x4_t w = exponential4(vsubq_f32(vld1q_f32(at), least[k]));
        vst1q_f32(at, w);
        sums[k] = vaddq_f32(sums[k], w);
        squared[k] = vfmaq_f32(squared[k], w, w);
      }
    }
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
      vst1q_f32(sum + j + 4 * k, sums[k]);
      vst1q_f32(squares + j + 4 * k, squared[k]);
    }
  }
}

/* 4 numbers of every row times 16 columns of the panel w [count, width]: 16 vectors of sums in
 * registers. v has the same width. */
INLINE void add_four(float *v, const float *rows, size_t ld, const float *w, size_t count,
                     size_t width) {
  float32x4_t sum[4][4], weight[4];
#pragma GCC unroll 16
  for (int k = 0; k < 16; k++) {
    sum[k / 4][k % 4] = vld1q_f32(v + (size_t)(k / 4) * width + 4 * (k % 4));
  }
#pragma GCC unroll 1
  for (size_t s = 0; s < count; s++, rows += ld, w += width) {
    float32x4_t x = vld1q_f32(rows);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
      weight[k] = vld1q_f32(w + 4 * k);
      sum[0][k] = vfmaq_laneq_f32(sum[0][k], weight[k], x, 0);
      sum[1][k] = vfmaq_laneq_f32(sum[1][k], weight[k], x, 1);
      sum[2][k] = vfmaq_laneq_f32(sum[2][k], weight[k], x, 2);
      sum[3][k] = vfmaq_laneq_f32(sum[3][k], weight[k], x, 3);
    }
  }
#pragma GCC unroll 16
  for (int k = 0; k < 16; k++) {
    vst1q_f32(v + (size_t)(k / 4) * width + 4 * (k % 4), sum[k / 4][k % 4]);
  }
}

/* One number of every row. */
INLINE void add_one(float *v, const float *rows, size_t ld, const float *w, size_t count,
                    size_t width) {
  float32x4_t sum[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) sum[k] = vld1q_f32(v + 4 * k);
  for (size_t s = 0; s < count; s++, rows += ld, w += width) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) sum[k] = vfmaq_n_f32(sum[k], vld1q_f32(w + 4 * k), *rows);
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) vst1q_f32(v + 4 * k, sum[k]);
}

void fopo_add_products_neon(float *v, const float *rows, size_t ld, const float *w, size_t count,
                            size_t dim, size_t width) {
  size_t i = 0;
  for (; i + 4 <= dim; i += 4) {
    for (size_t j = 0; j < width; j += 16) {
      add_four(v + i * width + j, rows + i, ld, w + j, count, width);
    }
  }
  for (; i < dim; i++) {
    for (size_t j = 0; j < width; j += 16) {
      add_one(v + i * width + j, rows + i, ld, w + j, count, width);
    }
  }
}

#endif
