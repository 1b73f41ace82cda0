/* What kernels are written in: CUDA's words, the numbers of a thread, and what threads do with each
 * other. Each function that a card executes as one instruction ends in a call of blocks.cc, which
 * decides who runs next. To be included by cuda_emulation.h. */
#ifndef CUDA_EMULATION_LANGUAGE_H
#define CUDA_EMULATION_LANGUAGE_H

#include <algorithm>
#include <functional>
#include <math.h>
#include <memory>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define __host__
#define __forceinline__ inline
#define __align__(n)    alignas(n)
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static thread_local /* a block's threads run on one thread of the host */

struct uint3 {
  unsigned x, y, z;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
extern constinit thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

/* Where a kernel waits or exchanges: threads that meet must have come to the same place. */
struct place {
  const char *file;
  int line;
};
#define EMULATION_HERE emulation::place where = {__builtin_FILE(), __builtin_LINE()}

/* Waits for the threads of the block; whether the vote of any was true. */
bool sync_block(bool vote, place where);
/* Waits for the lanes of the mask. Then value [of 8 bytes or less] is that of lane `from`. */
enum collective { SHUFFLE, SYNC, PRODUCT };
uint64_t meet(collective kind, unsigned mask, uint64_t value, unsigned from, place where);
void fence();
/* Before an atomic operation on x, and after it: another thread may run before it and after it. */
void begin_atomic(const volatile void *x, size_t bytes);
void end_atomic();
void misaligned(); /* ends the program */
void give_way();   /* of a thread that waits for another block */
void *shared_memory();

template <class T> uint64_t bits_of(T x) {
  static_assert(sizeof x <= 8, "a lane exchanges 8 bytes or less");
  uint64_t bits = 0;
  memcpy(&bits, &x, sizeof x);
  return bits;
}
template <class T> T value_of(uint64_t bits) {
  T x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
inline unsigned lane() { return threadIdx.x % 32; }

template <class T> T shuffle(unsigned mask, T x, unsigned from, place where) {
  return value_of<T>(meet(SHUFFLE, mask, bits_of(x), from, where));
}
} // namespace emulation

/* ---- barriers and fences ---- */

static inline void __syncthreads(EMULATION_HERE) { emulation::sync_block(false, where); }
static inline int __syncthreads_or(int x, EMULATION_HERE) {
  return emulation::sync_block(x != 0, where);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATION_HERE) {
  emulation::meet(emulation::SYNC, mask, 0, emulation::lane(), where);
}
static inline void __threadfence() { emulation::fence(); }
static inline void __nanosleep(unsigned) { emulation::give_way(); }

/* ---- exchanges of a warp, in segments of `width` lanes ---- */

template <class T> T __shfl_xor_sync(unsigned mask, T x, int by, int width = 32, EMULATION_HERE) {
  unsigned lane = emulation::lane(), from = lane ^ (unsigned)by;
  bool beyond = from / (unsigned)width > lane / (unsigned)width;
  return emulation::shuffle(mask, x, beyond ? lane : from, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32, EMULATION_HERE) {
  unsigned lane = emulation::lane();
  return emulation::shuffle(mask, x, lane % (unsigned)width >= by ? lane - by : lane, where);
}

/* ---- atomic operations ---- */

namespace emulation {
/* *x = change(*x) at once; returns what *x was. */
template <class T, class F> __attribute__((no_sanitize("thread"))) T change(T *x, F how) {
  begin_atomic(x, sizeof *x);
  T old = *x, fresh = how(old);
  *x = fresh;
  end_atomic();
  return old;
}
} // namespace emulation

template <class T> T atomicAdd(T *x, std::type_identity_t<T> y) {
  return emulation::change(x, [y](T old) { return old + y; });
}

/* 0 after `most`, else the next number. */
static inline unsigned atomicInc(unsigned *x, unsigned most) {
  return emulation::change(x, [most](unsigned old) { return old >= most ? 0 : old + 1; });
}
template <class T>
T atomicCAS(T *x, std::type_identity_t<T> expected, std::type_identity_t<T> wanted) {
  return emulation::change(x, [=](T old) { return old == expected ? wanted : old; });
}

/* ---- loads, and bits of numbers ---- */

template <class T> T __ldg(const T *x) {
  if ((uintptr_t)x % alignof(T) != 0) emulation::misaligned();
  return *x;
}
template <class T> T __ldcg(const T *x) { return __ldg(x); }

static inline unsigned __float_as_uint(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline float __uint_as_float(unsigned bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}

/* ---- tensor cores, and copies that a thread does not wait for ---- */

namespace emulation {
/* sums += A B of a warp, in the layout of the instruction mma.m16n8k16 of bfloat16. */
void multiply_bf16(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], place where);

/* 16 bytes, or as many zeros if from is nullptr. */
struct async_copy {
  void *to;
  const void *from;
  unsigned group;
};
void put_copy(const async_copy &x);
void close_copies();
/* Takes the oldest copy that does not belong to the `open` latest groups. */
bool take_copy(async_copy *x, unsigned open);
} // namespace emulation

/* Until it is waited for, the place that is written holds NaN, which the watcher lets nobody read,
 * and the source is not read. */
static inline void emulated_copy_async(void *to, const void *from) {
  if ((uintptr_t)to % 16 != 0 || (uintptr_t)from % 16 != 0) emulation::misaligned();
  *(uint4 *)to = {~0u, ~0u, ~0u, ~0u};
  emulation::put_copy({to, from, 0});
}
static inline void emulated_wait_copies(unsigned open) {
  emulation::async_copy x;
  while (emulation::take_copy(&x, open)) {
    *(uint4 *)x.to = x.from == nullptr ? uint4{0, 0, 0, 0} : *(const uint4 *)x.from;
  }
}

struct __half {
  uint16_t bits;
};
static inline __half __ushort_as_half(uint16_t bits) { return {bits}; }
float __half2float(__half x);

#endif
