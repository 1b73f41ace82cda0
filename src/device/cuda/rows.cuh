/* How kernels read rows of numbers: float32 by the widest loads that the alignment allows (16
 * bytes, 8 bytes, or one number); float16 and bfloat16, whose rows end with zeros (kernels/rows.h),
 * by 16 bytes. Sums are in float32.
 *
 * A team of LANES threads of one warp shares a row. A chunk is what one load brings; lane l holds
 * the chunks l, l + LANES, l + 2 LANES, ... */
#ifndef FOPO_DEVICE_CUDA_ROWS_CUH
#define FOPO_DEVICE_CUDA_ROWS_CUH

#include "device/cuda/cuda.cuh"

namespace gpu {

struct fp16 {
  uint16_t bits;
}; /* FOPO_FLOAT16 */
struct bf16 {
  uint16_t bits;
}; /* FOPO_BFLOAT16 */

/* f.operator()<T>() of rows of the type. */
template <class F> auto by_type(fopo_float type, F f) {
  switch (type) {
  case FOPO_FLOAT16: return f.template operator()<fp16>();
  case FOPO_BFLOAT16: return f.template operator()<bf16>();
  default: return f.template operator()<float>();
  }
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(fp16 x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ inline float to_float(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }

/* The bits of the nearest bfloat16, ties to even. A NaN stays one: rounding would carry that of the
 * card, 0x7fffffff, into the sign. */
__device__ inline uint16_t to_bf16(float x) {
  unsigned bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* The widest load, in bytes, whose chunks fit every row of L numbers and are aligned in it: 16, 8
 * or 4; always 16 for 16-bit numbers. */
template <class T> int load_bytes(const void *x, size_t ld, size_t L) {
  if (sizeof(T) == 2) return 16;
  size_t all = reinterpret_cast<uintptr_t>(x) | (ld | L) * sizeof(T);
  return all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : (int)sizeof(T);
}

/* x [BYTES / sizeof(T)] = the numbers at p, which must be aligned to BYTES. */
template <int BYTES, class T> __device__ inline void load(float *x, const T *p) {
  if constexpr (BYTES == sizeof(T)) {
    x[0] = to_float(*p);
  } else {
    using word = std::conditional_t<BYTES == 16, uint4, uint2>;
    union {
      word whole;
      T part[BYTES / sizeof(T)];
    } u;
    u.whole = __ldg(reinterpret_cast<const word *>(p));
#pragma unroll
    for (int i = 0; i < (int)(BYTES / sizeof(T)); i++) x[i] = to_float(u.part[i]);
  }
}

/* This lane's part of the dot product of a row with q [L]. */
template <int BYTES, class T>
__device__ inline float dot_by(const T *row, const float *q, size_t L, unsigned lane,
                               unsigned lanes) {
  constexpr int N = BYTES / sizeof(T);
  float sum = 0.0f, x[N];
  for (size_t i = (size_t)lane * N; i < L; i += (size_t)lanes * N) {
    load<BYTES>(x, row + i);
#pragma unroll
    for (int j = 0; j < N; j++) sum += x[j] * (sizeof(T) == 4 || i + j < L ? q[i + j] : 0.0f);
  }
  return sum;
}

template <class T>
__device__ inline float dot_part(const T *row, const float *q, size_t L, unsigned lane,
                                 unsigned lanes, int bytes) {
  if constexpr (sizeof(T) == 4) {
    if (bytes == 4) return dot_by<4>(row, q, L, lane, lanes);
    if (bytes == 8) return dot_by<8>(row, q, L, lane, lanes);
  }
  return dot_by<16>(row, q, L, lane, lanes);
}

/* Asks for `bytes` at p, both multiples of 16, to be brought into the L2 cache. */
__device__ inline void prefetch_row([[maybe_unused]] const void *p,
                                    [[maybe_unused]] unsigned bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(p)),
               "r"(bytes)
               : "memory");
#endif
}

/* The sum over a team, in each of its lanes. */
template <int LANES> __device__ inline float team_sum(float x) {
#pragma unroll
  for (int o = LANES / 2; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
  return x;
}

/* The place in the row of number e of a lane, for loads of BYTES. */
template <int BYTES, class T>
__device__ inline size_t place_in_row(int e, unsigned lane, int lanes) {
  constexpr int N = BYTES / sizeof(T);
  return ((size_t)(e / N) * lanes + lane) * N + e % N;
}

/* Loads a lane's numbers of a row into registers; beyond L they are 0. */
template <int BYTES, int LANES, int PER, class T>
__device__ inline void load_row(float *x, const T *row, size_t L, unsigned lane) {
  constexpr int N = BYTES / sizeof(T);
#pragma unroll
  for (int e = 0; e < PER; e += N) {
    size_t at = place_in_row<BYTES, T>(e, lane, LANES);
    if (at < L) {
      load<BYTES>(x + e, row + at);
    } else {
#pragma unroll
      for (int j = 0; j < N; j++) x[e + j] = 0.0f;
    }
  }
}

} // namespace gpu

#endif
