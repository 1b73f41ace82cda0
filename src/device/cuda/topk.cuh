/* The k best of a query on the GPU: items as keys, as in mips/topk.h (the score's bits, transformed
 * so that they compare like integers, above the complement of the id), and the selection of the k
 * largest by the threads of one block.
 *
 * Each query has CAPACITY keys of global memory: first, in any order, the k best of the last
 * selection, then the keys appended since. A key is appended if it is above the threshold, which is
 * the smallest key of the last selection. Keys are distinct, so the order in which they are
 * appended does not change the result.
 *
 * The k-th key is found by a radix select, digit by digit from the highest: a pass counts the keys
 * of each value of the digit among the keys that have all digits found before. Only the answer is
 * sorted. */
#ifndef FOPO_DEVICE_CUDA_TOPK_CUH
#define FOPO_DEVICE_CUDA_TOPK_CUH

#include <cfloat>
#include <cmath>

#include "device/cuda/cuda.cuh"

namespace gpu {

constexpr size_t CAPACITY = 4096; /* keys of a query: 32 KiB */
static_assert(2 * FOPO_TOPK_MOST <= CAPACITY, "all keys of a first tile must fit");
static_assert(FOPO_TOPK_MOST + 2 * THREADS <= CAPACITY, "a key of each thread must fit");

constexpr size_t FIRST_LEAST = 512; /* items that are seen before there is a threshold */

__device__ inline uint64_t key_of(float score, uint32_t id) {
  union {
    float x;
    uint32_t bits;
  } u;
  u.x = score + 0.0f; /* -0 becomes +0: equal scores have equal bits */
  uint32_t bits = u.bits ^ (u.bits >> 31 ? UINT32_MAX : (uint32_t)1 << 31);
  return (uint64_t)bits << 32 | (uint32_t)~id;
}

__device__ inline float score_of(uint64_t key) {
  union {
    float x;
    uint32_t bits;
  } u;
  u.bits = (uint32_t)(key >> 32);
  u.bits ^= u.bits >> 31 ? (uint32_t)1 << 31 : UINT32_MAX;
  return u.x;
}

/* |q|, in each lane of a warp. */
__device__ inline double norm_of(const float *q, size_t L) {
  double sum = 0;
  for (size_t i = threadIdx.x % WARP; i < L; i += WARP) sum += (double)q[i] * (double)q[i];
  return sqrt(warp_sum(sum));
}

/* ---- the k-th key ---- */

/* The smallest and the largest key of the block, in each thread. */
__device__ inline void block_bounds(uint64_t *least, uint64_t *most) {
  __shared__ uint64_t low[WARP], high[WARP];
  for (int o = WARP / 2; o > 0; o >>= 1) {
    uint64_t a = __shfl_xor_sync(0xffffffffu, *least, o),
             b = __shfl_xor_sync(0xffffffffu, *most, o);
    *least = a < *least ? a : *least;
    *most = b > *most ? b : *most;
  }
  __syncthreads(); /* every thread has read earlier bounds */
  if (threadIdx.x % WARP == 0) low[threadIdx.x / WARP] = *least, high[threadIdx.x / WARP] = *most;
  __syncthreads();
  for (unsigned w = 0; w < blockDim.x / WARP; w++) {
    *least = low[w] < *least ? low[w] : *least;
    *most = high[w] > *most ? high[w] : *most;
  }
}

constexpr unsigned DIGITS = 256; /* values of a digit: one a thread */
static_assert(DIGITS == THREADS, "a thread a digit");

struct digit {
  uint32_t value, above, keys; /* keys with a larger digit, and with this one */
};

/* The digit of the `wanted`-th largest key, count [DIGITS] being the keys of each. */
__device__ inline digit find_digit(const uint32_t *count, uint32_t wanted) {
  __shared__ uint32_t of_warp[WARP];
  __shared__ digit found;
  unsigned lane = threadIdx.x % WARP;
  uint32_t own = count[DIGITS - 1 - threadIdx.x], sum = own; /* thread 0 has the largest digit */
  for (unsigned o = 1; o < WARP; o <<= 1) {
    uint32_t before = __shfl_up_sync(0xffffffffu, sum, o);
    if (lane >= o) sum += before;
  }
  if (lane == WARP - 1) of_warp[threadIdx.x / WARP] = sum;
  __syncthreads();
  for (unsigned w = 0; w < threadIdx.x / WARP; w++) sum += of_warp[w];
  if (sum >= wanted && sum - own < wanted) found = {DIGITS - 1 - threadIdx.x, sum - own, own};
  __syncthreads();
  return found;
}

/* The k-th largest of keys [n] in shared memory, 1 <= k <= n. The block has THREADS threads; they
 * must be synchronised before the call, and are after it. */
__device__ inline uint64_t kth_key(const uint64_t *keys, size_t n, size_t k) {
  __shared__ uint32_t count[DIGITS];
  uint64_t least = UINT64_MAX, most = 0;
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
    least = keys[i] < least ? keys[i] : least;
    most = keys[i] > most ? keys[i] : most;
  }
  block_bounds(&least, &most);
  if (k == n) return least;
  if (k == 1) return most;

  /* all keys agree in the bits above the first digit, which has the highest bit that differs */
  int shift = 56 - __clzll((long long)(least ^ most)), step = 8;
  shift = shift < 0 ? 0 : shift;
  uint64_t prefix = least >> shift >> 8;
  for (;;) {
    count[threadIdx.x] = 0;
    __syncthreads();
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
      if (keys[i] >> shift >> step == prefix) atomicAdd(&count[keys[i] >> shift & 255], 1u);
    }
    __syncthreads();
    digit d = find_digit(count, (uint32_t)k);
    /* below the lowest 8 bits there are fewer: the upper bits of that digit repeat those before */
    prefix = (prefix << step) | (d.value & ((1u << step) - 1));
    k -= d.above;
    if (shift == 0) return prefix;
    step = shift < 8 ? shift : 8;
    shift -= step;
  }
}

/* ---- the selection of a block ---- */

/* keys [CAPACITY] in shared memory, of which the first *n are in use. Key 0 is smaller than that of
 * any item. */
struct selection {
  uint64_t *keys;
  uint32_t *n;
  size_t k;
  uint64_t threshold; /* only keys above it can belong to the k best; 0: k were not seen yet */
};

/* Keeps the k best keys, in any order, and raises the threshold. */
__device__ inline void keep_best(selection &s) {
  __syncthreads();
  size_t n = *s.n;
  if (n < s.k) return;
  s.threshold = kth_key(s.keys, n, s.k);
  __syncthreads(); /* every thread has read *n and the keys */
  if (n == s.k) return;
  if (threadIdx.x == 0) *s.n = 0;
  for (size_t first = 0; first < n; first += blockDim.x) { /* no key is overwritten unread */
    size_t i = first + threadIdx.x;
    uint64_t key = i < n ? s.keys[i] : 0;
    __syncthreads();
    if (key >= s.threshold) s.keys[atomicAdd(s.n, 1u)] = key;
  }
  __syncthreads();
}

/* Adds a key of each thread; 0: none. Every thread of the block must call it. */
__device__ inline void add_key(selection &s, uint64_t key) {
  __syncthreads(); /* no thread may append before all have compared the same *n */
  if (*s.n + blockDim.x > CAPACITY) keep_best(s);
  __syncthreads();
  if (key > s.threshold) s.keys[atomicAdd(s.n, 1u)] = key;
}

/* ---- the selection of a query ---- */

struct search {
  uint64_t *keys;      /* [B, CAPACITY] */
  uint64_t *threshold; /* [B] as of the last selection */
  uint32_t *n;         /* [B] keys appended so far, keys that did not fit included */
  uint32_t *kept;      /* [B] how many of them the last selection has left */
  size_t k;
};

__device__ inline void append(const search &s, size_t b, uint64_t key) {
  uint32_t place = atomicAdd(&s.n[b], 1u);
  if (place < CAPACITY) s.keys[b * CAPACITY + place] = key;
}

/* The first `held` keys of a query in shared memory, and its threshold. */
__device__ inline selection load_selection(uint64_t *keys, uint32_t *n, const search &s, size_t b,
                                           size_t held) {
  __syncthreads(); /* every thread has done with earlier keys */
  for (size_t i = threadIdx.x; i < held; i += blockDim.x) {
    keys[i] = __ldcg(&s.keys[b * CAPACITY + i]);
  }
  if (threadIdx.x == 0) *n = (uint32_t)held;
  return {keys, n, s.k, __ldcg(&s.threshold[b])};
}

/* Back to global memory. Every thread must have come from keep_best. */
__device__ inline void store_selection(const search &s, size_t b, const selection &best) {
  size_t held = *best.n;
  for (size_t i = threadIdx.x; i < held; i += blockDim.x) s.keys[b * CAPACITY + i] = best.keys[i];
  if (threadIdx.x != 0) return;
  s.n[b] = s.kept[b] = (uint32_t)held;
  s.threshold[b] = best.threshold;
}

/* ---- the answer ---- */

struct answer {
  uint32_t *ids;    /* [B, k] */
  float *scores;    /* [B, k] */
  uint32_t *counts; /* [B] */
  size_t k;         /* the stride: s.k or more */
  int zeros;        /* 1: the best of a query of norm 0 are the smallest ids */
};

/* Sorts the best of a query and writes them. */
__device__ inline void write_answer(const answer &a, size_t b, selection &best, bool zero) {
  size_t padded = 2;
  while (padded < best.k) padded *= 2;
  __syncthreads();
  for (size_t i = *best.n + threadIdx.x; i < padded; i += blockDim.x) best.keys[i] = 0;
  sort_keys(best.keys, padded, false);
  __syncthreads();
  for (size_t i = threadIdx.x; i < a.k; i += blockDim.x) {
    uint64_t key = i >= best.k ? 0 : zero ? key_of(0, (uint32_t)i) : best.keys[i];
    a.ids[b * a.k + i] = i < best.k ? ~(uint32_t)key : UINT32_MAX;
    a.scores[b * a.k + i] = i < best.k ? score_of(key) : -INFINITY;
  }
  if (threadIdx.x == 0) a.counts[b] = (uint32_t)best.k;
}

} // namespace gpu

#endif
