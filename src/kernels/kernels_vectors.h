/* Vectors of floats of the instruction set that the including file is compiled for, and exp of one.
 * The kernels of kernels_panels.h are written with them. */
#ifndef FOPO_KERNELS_KERNELS_VECTORS_H
#define FOPO_KERNELS_KERNELS_VECTORS_H

#include "kernels/kernels_tables.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

/* v_fma(a, b, c) = a b + c and v_fnma(a, b, c) = c - a b, each rounded once. v_larger(m, x): if x
 * is NaN, AVX2 and AVX-512 give x and NEON m. first_lanes(n), of x86-64: a mask of n <= LANES
 * lanes, outside which v_load_first gives 0. v_round: to the nearest integer. v_clip limits the
 * argument of exp to what v_power can scale: exp overflows from 89 on; NaN stays NaN.
 * v_power(p, n, z) = p 2^n, and 0 where z < -87. */
#if defined(__AVX512F__) && defined(__AVX512DQ__)

typedef __m512 floats;
INLINE floats v_zero(void) { return _mm512_setzero_ps(); }
INLINE floats v_all(float x) { return _mm512_set1_ps(x); }
INLINE floats v_load(const float *x) { return _mm512_loadu_ps(x); }
INLINE void v_store(float *x, floats a) { _mm512_storeu_ps(x, a); }
INLINE floats v_add(floats a, floats b) { return _mm512_add_ps(a, b); }
INLINE floats v_sub(floats a, floats b) { return _mm512_sub_ps(a, b); }
INLINE floats v_mul(floats a, floats b) { return _mm512_mul_ps(a, b); }
INLINE floats v_fma(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
INLINE floats v_fnma(floats a, floats b, floats c) { return _mm512_fnmadd_ps(a, b, c); }
INLINE floats v_larger(floats m, floats x) { return _mm512_max_ps(m, x); }
INLINE __mmask16 first_lanes(size_t n) { return (__mmask16)((1u << n) - 1u); }
INLINE floats v_load_first(const float *x, size_t n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), x);
}
INLINE void v_store_first(float *x, floats a, size_t n) {
  _mm512_mask_storeu_ps(x, first_lanes(n), a);
}
INLINE floats v_round(floats a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE floats v_clip(floats z) { return _mm512_min_ps(_mm512_set1_ps(100.0f), z); }
INLINE floats v_power(floats p, floats n, floats z) {
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(z, v_all(-87.0f), _CMP_NLT_UQ), p, n);
}

#elif defined(__AVX2__) && defined(__FMA__)

typedef __m256 floats;
INLINE floats v_zero(void) { return _mm256_setzero_ps(); }
INLINE floats v_all(float x) { return _mm256_set1_ps(x); }
INLINE floats v_load(const float *x) { return _mm256_loadu_ps(x); }
INLINE void v_store(float *x, floats a) { _mm256_storeu_ps(x, a); }
INLINE floats v_add(floats a, floats b) { return _mm256_add_ps(a, b); }
INLINE floats v_sub(floats a, floats b) { return _mm256_sub_ps(a, b); }
INLINE floats v_mul(floats a, floats b) { return _mm256_mul_ps(a, b); }
INLINE floats v_fma(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
INLINE floats v_fnma(floats a, floats b, floats c) { return _mm256_fnmadd_ps(a, b, c); }
INLINE floats v_larger(floats m, floats x) { return _mm256_max_ps(m, x); }
INLINE __m256i first_lanes(size_t n) {
  static const int32_t ramp[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
  return _mm256_loadu_si256((const __m256i *)(const void *)(ramp + 8 - n));
}
INLINE floats v_load_first(const float *x, size_t n) {
  return _mm256_maskload_ps(x, first_lanes(n));
}
INLINE void v_store_first(float *x, floats a, size_t n) {
  _mm256_maskstore_ps(x, first_lanes(n), a);
}
INLINE floats v_round(floats a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE floats v_clip(floats z) {
  return _mm256_max_ps(v_all(-87.0f), _mm256_min_ps(v_all(100.0f), z));
}
/* In two factors, since n = 128 has no float of its own. */
INLINE floats v_power(floats p, floats n, floats z) {
  __m256i whole = _mm256_cvtps_epi32(n), bias = _mm256_set1_epi32(127);
  __m256i part = _mm256_srai_epi32(whole, 1), other = _mm256_sub_epi32(whole, part);
  __m256i scale0 = _mm256_slli_epi32(_mm256_add_epi32(part, bias), 23);
  __m256i scale1 = _mm256_slli_epi32(_mm256_add_epi32(other, bias), 23);
  p = v_mul(v_mul(p, _mm256_castsi256_ps(scale0)), _mm256_castsi256_ps(scale1));
  return _mm256_and_ps(_mm256_cmp_ps(z, v_all(-87.0f), _CMP_NLT_UQ), p);
}

#elif defined(__aarch64__)

typedef float32x4_t floats;
INLINE floats v_zero(void) { return vdupq_n_f32(0); }
INLINE floats v_all(float x) { return vdupq_n_f32(x); }
INLINE floats v_load(const float *x) { return vld1q_f32(x); }
INLINE void v_store(float *x, floats a) { vst1q_f32(x, a); }
INLINE floats v_add(floats a, floats b) { return vaddq_f32(a, b); }
INLINE floats v_sub(floats a, floats b) { return vsubq_f32(a, b); }
INLINE floats v_mul(floats a, floats b) { return vmulq_f32(a, b); }
INLINE floats v_fma(floats a, floats b, floats c) { return vfmaq_f32(c, a, b); }
INLINE floats v_fnma(floats a, floats b, floats c) { return vfmsq_f32(c, a, b); }
INLINE floats v_larger(floats m, floats x) { return vmaxnmq_f32(m, x); }
INLINE floats v_round(floats a) { return vrndnq_f32(a); }
INLINE floats v_clip(floats z) { return vmaxq_f32(v_all(-87.0f), vminq_f32(v_all(100.0f), z)); }
INLINE floats v_power(floats p, floats n, floats z) {
  int32x4_t whole = vcvtq_s32_f32(n), bias = vdupq_n_s32(127);
  int32x4_t part = vshrq_n_s32(whole, 1), other = vsubq_s32(whole, part);
  int32x4_t scale0 = vshlq_n_s32(vaddq_s32(part, bias), 23);
  int32x4_t scale1 = vshlq_n_s32(vaddq_s32(other, bias), 23);
  p = v_mul(v_mul(p, vreinterpretq_f32_s32(scale0)), vreinterpretq_f32_s32(scale1));
  uint32x4_t gone = vcltq_f32(z, v_all(-87.0f));
  return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(p), gone));
}

#endif

enum { LANES = sizeof(floats) / sizeof(float) };

/* exp(z) = 2^n exp(r) with n = round(z / log 2), so |r| <= log(2) / 2, and on that interval
 * exp(r) = 1 + r + r^2 (c0 + .. + c4 r^4), the minimax polynomial, with relative error 3e-9. */
INLINE floats v_exp(floats z) {
  floats x = v_clip(z), n = v_round(v_mul(x, v_all(1.442695022e+00f)));
  floats r = v_fnma(n, v_all(6.931471825e-01f), x);
  r = v_fnma(n, v_all(-1.904654212e-09f), r);
  floats p = v_fma(v_all(1.381431706e-03f), r, v_all(8.368851617e-03f));
  p = v_fma(p, r, v_all(4.166840017e-02f));
  p = v_fma(p, r, v_all(1.666651964e-01f));
  p = v_fma(p, r, v_all(4.999999404e-01f));
  p = v_fma(p, v_mul(r, r), r);
  return v_power(v_add(p, v_all(1.0f)), n, z);
}

#endif
