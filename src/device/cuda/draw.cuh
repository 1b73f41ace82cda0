/* How the threads of a block draw: uniformly, from the mixture q_{K,eps}, and from the tail outside
 * the candidates. For the kernels that leave draws in memory (draw.cu) and those that use them at
 * once (snis.cu).
 *
 * A function of samples takes those with from <= s < end of one context, shared out to the threads
 * from `thread` on in steps of `threads`, and hands each to put(s, id, log q). */
#ifndef FOPO_DEVICE_CUDA_DRAW_CUH
#define FOPO_DEVICE_CUDA_DRAW_CUH

#include <cmath>

#include "device/cuda/cuda.cuh"

namespace gpu {

struct sample_range {
  size_t from, end, thread, threads;
};

/* ---- uniform: a Philox block holds the words of four samples ---- */

template <class F>
__device__ inline void uniform_draws(sample_range x, uint32_t n, uint32_t row, fopo_draw_key key,
                                     F put) {
  for (size_t w = x.from / 4 + x.thread; 4 * w < x.end; w += x.threads) {
    fopo_words words = fopo_random(key.seed, FOPO_STREAM_SAMPLE, key.step, row, (uint32_t)w);
    for (unsigned i = 0; i < 4; i++) {
      size_t s = 4 * w + i;
      if (s < x.from || s >= x.end) continue;
      put(s, fopo_below(n, words.v[i], key.seed, key.step, row, (uint32_t)s));
    }
  }
}

/* ---- the mixture ---- */

/* The candidates of one context, ready to be drawn and looked up: in shared memory if they fit,
 * else in scratch. */
struct candidates {
  double *cumulative; /* [k] running sums of exp(score - max) */
  float *logq;        /* [k] log(eps / P + (1 - eps) kappa) */
  uint32_t *slots;    /* [1 << bits] hash table: index of a candidate plus 1, or 0 */
  unsigned bits;
};

/* Hash table for k candidates: load factor at most 1/4. */
inline unsigned slot_bits(size_t k) {
  unsigned bits = 2;
  while (((size_t)1 << bits) < 4 * k) bits++;
  return bits;
}

inline size_t candidate_bytes(size_t k) {
  size_t bytes = k * (sizeof(double) + sizeof(float)) + (sizeof(uint32_t) << slot_bits(k));
  return (bytes + 15) / 16 * 16;
}

__device__ inline candidates place(char *memory, size_t k, unsigned bits) {
  candidates c;
  c.cumulative = reinterpret_cast<double *>(memory);
  c.logq = reinterpret_cast<float *>(c.cumulative + k);
  c.slots = reinterpret_cast<uint32_t *>(c.logq + k);
  c.bits = bits;
  return c;
}

/* Fibonacci hashing: the high bits of the product with 2^32 / golden ratio. */
__device__ inline uint32_t slot_of(const candidates &c, uint32_t id) {
  return (id * 2654435769u) >> (32 - c.bits);
}

/* Linear probing. Candidates differ, so each is found again whichever thread takes a slot first. */
__device__ inline void insert(const candidates &c, uint32_t id, uint32_t i) {
  uint32_t mask = (1u << c.bits) - 1, slot = slot_of(c, id);
  while (atomicCAS(&c.slots[slot], 0u, i + 1) != 0) slot = (slot + 1) & mask;
}

/* log q of any item. */
__device__ inline float density(const candidates &c, const uint32_t *ids, uint32_t id,
                                float other) {
  uint32_t mask = (1u << c.bits) - 1, slot = slot_of(c, id);
  for (; c.slots[slot] != 0; slot = (slot + 1) & mask) {
    uint32_t i = c.slots[slot] - 1;
    if (ids[i] == id) return c.logq[i];
  }
  return other;
}

/* Fills c for n >= 1 candidates, by all threads of a block; false, and c is not filled, if they are
 * all masked. */
__device__ inline bool prepare(const candidates &c, const uint32_t *ids, const float *score,
                               size_t n, double epsilon, double P) {
  for (size_t i = threadIdx.x; i < (size_t)1 << c.bits; i += blockDim.x) c.slots[i] = 0;
  float most = -INFINITY;
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) most = larger(most, score[i]);
  most = block_max(most);
  if (most == -INFINITY) { /* or NaN, which is not masked */
    float other = 0.0f;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) other += score[i] != -INFINITY;
    if (block_max(other) == 0.0f) return false;
  }

  /* each thread sums a run of candidates; a scan over the block gives the sum before its run */
  size_t run = (n + blockDim.x - 1) / blockDim.x, first = threadIdx.x * run;
  size_t end = first + run < n ? first + run : n;
  double sum_of_run = 0, total;
  for (size_t i = first; i < end; i++) sum_of_run += (double)(c.logq[i] = expf(score[i] - most));
  double sum = block_scan(sum_of_run, &total);
  for (size_t i = first; i < end; i++) {
    sum += (double)c.logq[i];
    c.cumulative[i] = sum;
    /* q = eps / P + (1 - eps) kappa */
    c.logq[i] = (float)log(epsilon / P + (1 - epsilon) * ((double)c.logq[i] / total));
    insert(c, ids[i], (uint32_t)i);
  }
  __syncthreads();
  return true;
}

struct mixture {
  size_t k;
  const uint32_t *ids;
  const float *scores;
  const uint32_t *counts;
  double epsilon, below; /* below = eps 2^32 */
  float other, uniform;  /* log(eps / P), -log P */
  size_t n_uniform;      /* stratified: how many of S; else SIZE_MAX */
};

inline mixture mixture_of(const fopo_mixture &m, size_t S, size_t P) {
  double epsilon = m.epsilon;
  return {m.sets.k,
          m.sets.ids,
          m.sets.scores,
          m.sets.counts,
          epsilon,
          epsilon * 4294967296.0,
          (float)log(epsilon / (double)P),
          (float)-log((double)P),
          m.stratified ? (size_t)llround(epsilon * (double)S) : SIZE_MAX};
}

/* Samples of a context with n > 0 candidates, prepared in c. A sample has two random words: the
 * first chooses the part of the mixture, the second the item. */
template <class F>
__device__ inline void mixture_draws(sample_range x, const mixture &m, const candidates &c,
                                     const uint32_t *ids, size_t n, uint32_t row, fopo_draw_key key,
                                     uint32_t P, F put) {
  double total = c.cumulative[n - 1];
  for (size_t p = x.from / 2 + x.thread; 2 * p < x.end; p += x.threads) {
    fopo_words words = fopo_random(key.seed, FOPO_STREAM_SAMPLE, key.step, row, (uint32_t)p);
    for (unsigned half = 0; half < 2; half++) {
      size_t s = 2 * p + half;
      if (s < x.from || s >= x.end) continue;
      uint32_t which = words.v[2 * half], item = words.v[2 * half + 1];
      if (m.n_uniform != SIZE_MAX ? s < m.n_uniform : (double)which < m.below) {
        uint32_t id = fopo_below(P, item, key.seed, key.step, row, (uint32_t)s);
        put(s, id, density(c, ids, id, m.other));
      } else {
        size_t i = fopo_invert(c.cumulative, n, fopo_unit(item) * total);
        i = i < n ? i : n - 1; /* past the end only with NaN */
        put(s, ids[i], c.logq[i]);
      }
    }
  }
}

/* ---- head and tail ---- */

inline size_t sorted_capacity(size_t k) {
  size_t capacity = 1;
  while (capacity < k) capacity *= 2;
  return capacity;
}

/* sorted [capacity] = ids [n], ascending; capacity >= n is a power of two, and the rest is filled.
 */
__device__ inline void sort_ids(uint32_t *sorted, const uint32_t *ids, size_t n, size_t capacity) {
  for (size_t i = threadIdx.x; i < capacity; i += blockDim.x)
    sorted[i] = i < n ? ids[i] : UINT32_MAX;
  sort_keys(sorted, capacity, true);
  __syncthreads();
}

/* The item of rank `rank` among the items that are not in sorted [n]: rank plus the number of
 * candidates below it: the number of j with sorted[j] - j <= rank, found by binary search. */
__device__ inline uint32_t other_of(const uint32_t *sorted, size_t n, uint64_t rank) {
  size_t first = 0;
  while (n > 0) {
    size_t half = n / 2;
    bool below = sorted[first + half] <= rank + first + half;
    first = below ? first + half + 1 : first;
    n = below ? n - half - 1 : half;
  }
  return (uint32_t)(rank + first);
}

/* The log density of a draw that stands for M / U items. */
__device__ inline float tail_density(size_t U, uint64_t M) {
  return fminf((float)log((double)U / (double)M), FOPO_TAIL_LEAST);
}

/* The part of samples that lies behind the first n, counted from there. */
__device__ inline sample_range behind(sample_range x, size_t n) {
  return {x.from > n ? x.from - n : 0, x.end > n ? x.end - n : 0, x.thread, x.threads};
}

/* Samples of a tail: `sorted` [n] first, each for itself, then U draws of the M others. */
template <class F>
__device__ inline void tail_draws(sample_range x, const uint32_t *sorted, size_t n, size_t U,
                                  size_t P, uint32_t row, fopo_draw_key key, F put) {
  uint64_t M = P - n;
  float density = tail_density(U, M);
  for (size_t s = x.from + x.thread; s < x.end && s < n; s += x.threads) put(s, sorted[s], 0.0f);
  uniform_draws(behind(x, n), (uint32_t)M, row, key, [&](size_t u, uint32_t id) {
    put(n + u, other_of(sorted, n, (u * M + id) / U), density);
  });
}

/* The same with a head that all contexts share, of which the first `listed` of `order` are listed:
 * 0 or H. */
template <class F>
__device__ inline void others_draws(sample_range x, const uint32_t *order, size_t H, size_t listed,
                                    size_t U, size_t P, uint32_t row, fopo_draw_key key, F put) {
  uint64_t M = P - H;
  float density = tail_density(U, M);
  for (size_t s = x.from + x.thread; s < x.end && s < listed; s += x.threads) {
    put(s, order[s], 0.0f);
  }
  uniform_draws(behind(x, listed), (uint32_t)M, row, key, [&](size_t u, uint32_t id) {
    put(listed + u, order[H + (u * M + id) / U], density);
  });
}

} // namespace gpu

#endif
