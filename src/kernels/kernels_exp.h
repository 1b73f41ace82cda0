/* exp of a vector of floats, as the kernels of AVX2, AVX-512 and NEON compute it. NaN stays NaN,
 * from 89 on it is infinite, below -87 it is 0. */
#ifndef FOPO_KERNELS_KERNELS_EXP_H
#define FOPO_KERNELS_KERNELS_EXP_H

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include "kernels/kernels_tables.h"

/* exp(z) = 2^n exp(r) with n = round(z / log 2), so |r| <= log(2) / 2, and on that interval
 * exp(r) = 1 + r + r^2 (c0 + .. + c4 r^4), the minimax polynomial, with relative error 3e-9. */
#if defined(__AVX512F__) && defined(__AVX512DQ__)
INLINE __m512 exponential16(__m512 z) {
  __mmask16 keep = _mm512_cmp_ps_mask(z, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
  /* exp overflows from 89 on; min(100, z) returns z if it is NaN. */
  z = _mm512_min_ps(_mm512_set1_ps(100.0f), z);
  __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(z, _mm512_set1_ps(1.442695022e+00f)),
                                  _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(6.931471825e-01f), z);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-1.904654212e-09f), r);
  __m512 p = _mm512_set1_ps(1.381431706e-03f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.368851617e-03f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.166840017e-02f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.666651964e-01f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.999999404e-01f));
  p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
  p = _mm512_add_ps(p, _mm512_set1_ps(1.0f));
  return _mm512_maskz_scalef_ps(keep, p, n);
}
#endif

#if defined(__AVX2__) && defined(__FMA__)
INLINE __m256 exponential8(__m256 z) {
  __m256 keep = _mm256_cmp_ps(z, _mm256_set1_ps(-87.0f), _CMP_NLT_UQ);
  /* exp overflows from 89 on; min(100, z) returns z if it is NaN. */
  z = _mm256_min_ps(_mm256_set1_ps(100.0f), z);
  z = _mm256_max_ps(_mm256_set1_ps(-87.0f), z);
  __m256 n = _mm256_round_ps(_mm256_mul_ps(z, _mm256_set1_ps(1.442695022e+00f)),
                             _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(6.931471825e-01f), z);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-1.904654212e-09f), r);
  __m256 p = _mm256_set1_ps(1.381431706e-03f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.368851617e-03f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.166840017e-02f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.666651964e-01f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.999999404e-01f));
  p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
  p = _mm256_add_ps(p, _mm256_set1_ps(1.0f));
  /* 2^n in two factors, since n = 128 has no float of its own */
  __m256i whole = _mm256_cvtps_epi32(n), bias = _mm256_set1_epi32(127);
  __m256i part = _mm256_srai_epi32(whole, 1), other = _mm256_sub_epi32(whole, part);
  __m256i scale0 = _mm256_slli_epi32(_mm256_add_epi32(part, bias), 23);
  __m256i scale1 = _mm256_slli_epi32(_mm256_add_epi32(other, bias), 23);
  p = _mm256_mul_ps(p, _mm256_castsi256_ps(scale0));
  return _mm256_and_ps(keep, _mm256_mul_ps(p, _mm256_castsi256_ps(scale1)));
}
#endif

#if defined(__aarch64__)
INLINE float32x4_t exponential4(float32x4_t z) {
  uint32x4_t gone = vcltq_f32(z, vdupq_n_f32(-87.0f));
  /* exp overflows from 89 on; min and max leave NaN as it is. */
  z = vmaxq_f32(vdupq_n_f32(-87.0f), vminq_f32(vdupq_n_f32(100.0f), z));
  float32x4_t n = vrndnq_f32(vmulq_f32(z, vdupq_n_f32(1.442695022e+00f)));
  float32x4_t r = vfmsq_f32(z, n, vdupq_n_f32(6.931471825e-01f));
  r = vfmsq_f32(r, n, vdupq_n_f32(-1.904654212e-09f));
  float32x4_t p = vdupq_n_f32(1.381431706e-03f);
  p = vfmaq_f32(vdupq_n_f32(8.368851617e-03f), p, r);
  p = vfmaq_f32(vdupq_n_f32(4.166840017e-02f), p, r);
  p = vfmaq_f32(vdupq_n_f32(1.666651964e-01f), p, r);
  p = vfmaq_f32(vdupq_n_f32(4.999999404e-01f), p, r);
  p = vfmaq_f32(r, p, vmulq_f32(r, r));
  p = vaddq_f32(p, vdupq_n_f32(1.0f));
  /* 2^n in two factors, since n = 128 has no float of its own */
  int32x4_t whole = vcvtq_s32_f32(n), bias = vdupq_n_s32(127);
  int32x4_t part = vshrq_n_s32(whole, 1), other = vsubq_s32(whole, part);
  int32x4_t scale0 = vshlq_n_s32(vaddq_s32(part, bias), 23);
  int32x4_t scale1 = vshlq_n_s32(vaddq_s32(other, bias), 23);
  p = vmulq_f32(vmulq_f32(p, vreinterpretq_f32_s32(scale0)), vreinterpretq_f32_s32(scale1));
  return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(p), gone));
}
#endif

#endif
