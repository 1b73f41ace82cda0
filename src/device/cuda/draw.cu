/* Draws on the GPU: uniform, from the mixture q_{K,eps}, and from the tail outside the candidates.
 *
 * Random words, the choice of the mixture's part, uniform ids and the ids of a tail equal the CPU's
 * to the bit (core/rng.h). A candidate is found in a cumulative sum of exp(score - max), whose last
 * bits differ from the CPU's: if a draw falls within rounding of the border between two candidates,
 * about once in 10^5 draws, the id may be the neighbour's. */
#include <cmath>

#include "device/cuda/cuda.cuh"

namespace gpu {

/* ---- uniform ---- */

/* Draws samples 4 w .. 4 w + 3 of one context, from one Philox block. */
__device__ inline void uniform_four(uint32_t *ids, size_t w, uint32_t n, uint32_t row,
                                    fopo_draw_key key, size_t S) {
  fopo_words words = fopo_random(key.seed, FOPO_STREAM_SAMPLE, key.step, row, (uint32_t)w);
  for (unsigned i = 0; i < 4 && 4 * w + i < S; i++) {
    size_t s = 4 * w + i;
    ids[s] = fopo_below(n, words.v[i], key.seed, key.step, row, (uint32_t)s);
  }
}

__global__ void uniform_kernel(uint32_t *ids, float *logq, const uint32_t *rows, draw_key recorded,
                               float density, size_t B, size_t S, uint32_t P) {
  fopo_draw_key key = current(recorded);
  size_t fours = (S + 3) / 4, i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= B * fours) return;
  size_t b = i / fours, w = i % fours;
  uniform_four(ids + b * S, w, P, rows[b], key, S);
  for (size_t s = 4 * w; s < 4 * w + 4 && s < S; s++) logq[b * S + s] = density;
}

int draw_uniform(fopo_device *d, const fopo_samples *samples, const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S, P = batch->P;
  return launch(d, "uniform draws", ceil_div(B * ceil_div(S, 4), THREADS), THREADS, 0,
                uniform_kernel, samples->ids, samples->logq, batch->rows, key_of(d, batch->key),
                (float)-log((double)P), B, S, (uint32_t)P);
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
static unsigned slot_bits(size_t k) {
  unsigned bits = 2;
  while (((size_t)1 << bits) < 4 * k) bits++;
  return bits;
}

static size_t candidate_bytes(size_t k) {
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

/* Fills c for n >= 1 candidates, by all threads of a block. */
__device__ inline void prepare(const candidates &c, const uint32_t *ids, const float *score,
                               size_t n, double epsilon, double P) {
  for (size_t i = threadIdx.x; i < (size_t)1 << c.bits; i += blockDim.x) c.slots[i] = 0;
  float most = -INFINITY;
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) most = larger(most, score[i]);
  most = block_max(most);

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

/* Each context has `splits` blocks, which share its samples: each block prepares the candidates for
 * itself. Sample s has two random words: the first chooses the part of the mixture, the second the
 * item. */
__global__ void mixture_kernel(uint32_t *ids, float *logq, mixture m, const uint32_t *rows,
                               draw_key recorded, char *scratch, size_t bytes, unsigned bits,
                               size_t S, uint32_t P, unsigned splits) {
  fopo_draw_key key = current(recorded);
  size_t b = blockIdx.x / splits, split = blockIdx.x % splits;
  size_t n = m.counts[b] < m.k ? m.counts[b] : m.k, step = (size_t)splits * blockDim.x;
  uint32_t row = rows[b];
  ids += b * S;
  logq += b * S;
  if (n == 0) {
    for (size_t w = split * blockDim.x + threadIdx.x; 4 * w < S; w += step) {
      uniform_four(ids, w, P, row, key, S);
      for (size_t s = 4 * w; s < 4 * w + 4 && s < S; s++) logq[s] = m.uniform;
    }
    return;
  }
  const uint32_t *candidate_ids = m.ids + b * m.k;
  char *memory = scratch != nullptr ? scratch + blockIdx.x * bytes : dynamic_shared<char>();
  candidates c = place(memory, m.k, bits);
  prepare(c, candidate_ids, m.scores + b * m.k, n, m.epsilon, (double)P);
  double total = c.cumulative[n - 1];
  for (size_t p = split * blockDim.x + threadIdx.x; 2 * p < S; p += step) {
    fopo_words words = fopo_random(key.seed, FOPO_STREAM_SAMPLE, key.step, row, (uint32_t)p);
    for (unsigned half = 0; half < 2 && 2 * p + half < S; half++) {
      size_t s = 2 * p + half;
      uint32_t which = words.v[2 * half], item = words.v[2 * half + 1];
      if (m.n_uniform != SIZE_MAX ? s < m.n_uniform : (double)which < m.below) {
        ids[s] = fopo_below(P, item, key.seed, key.step, row, (uint32_t)s);
        logq[s] = density(c, candidate_ids, ids[s], m.other);
      } else {
        size_t i = fopo_invert(c.cumulative, n, fopo_unit(item) * total);
        i = i < n ? i : n - 1; /* past the end only with NaN */
        ids[s] = candidate_ids[i];
        logq[s] = c.logq[i];
      }
    }
  }
}

int draw_mixture(fopo_device *d, const fopo_samples *samples, const fopo_mixture *m,
                 const fopo_device_batch *batch) {
  const fopo_candidate_sets *sets = &m->sets;
  size_t B = batch->B, S = batch->S, P = batch->P;
  size_t bytes = candidate_bytes(sets->k), shared = bytes <= SHARED_MOST / 2 ? bytes : 0;
  size_t splits = shared > 0 ? splits_of(of(d), B, S, THREADS) : 1;
  if (shared == 0) {
    int status = reserve(d, B * bytes, "the candidates of a mixture");
    if (status != FOPO_OK) return status;
  }
  double epsilon = m->epsilon;
  mixture prepared = {sets->k,
                      sets->ids,
                      sets->scores,
                      sets->counts,
                      epsilon,
                      epsilon * 4294967296.0,
                      (float)log(epsilon / (double)P),
                      (float)-log((double)P),
                      m->stratified ? (size_t)llround(epsilon * (double)S) : SIZE_MAX};
  return launch(d, "draws from the mixture", B * splits, THREADS, shared, mixture_kernel,
                samples->ids, samples->logq, prepared, batch->rows, key_of(d, batch->key),
                shared > 0 ? nullptr : of(d)->scratch, bytes, slot_bits(sets->k), S, (uint32_t)P,
                (unsigned)splits);
}

/* ---- head and tail ---- */

/* Sorts n ids, ascending; capacity >= n is a power of two, and the rest is filled. */
__device__ inline void sort_ids(uint32_t *ids, size_t n, size_t capacity) {
  for (size_t i = n + threadIdx.x; i < capacity; i += blockDim.x) ids[i] = UINT32_MAX;
  sort_keys(ids, capacity, true);
  __syncthreads();
}

/* The item of rank `rank` among the items that are not in sorted [n]: rank plus the number of
 * candidates below it, which are those with sorted[j] - j <= rank. By binary search. */
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

__global__ void tail_kernel(uint32_t *ids, float *logq, const uint32_t *head,
                            const uint32_t *counts, size_t k, const uint32_t *rows,
                            draw_key recorded, uint32_t *scratch, size_t capacity, size_t S,
                            size_t P) {
  fopo_draw_key key = current(recorded);
  size_t b = blockIdx.x, n = counts[b] < k ? counts[b] : k, U = S - n;
  uint64_t M = P - n;
  uint32_t row = rows[b];
  uint32_t *sorted = scratch != nullptr ? scratch + b * capacity : dynamic_shared<uint32_t>();
  ids += b * S;
  logq += b * S;
  head += b * k;
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) sorted[i] = head[i];
  sort_ids(sorted, n, capacity);
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
    ids[i] = sorted[i];
    logq[i] = 0.0f;
  }
  /* q = U / M: a draw stands for M / U items */
  float density = fminf((float)log((double)U / (double)M), FOPO_TAIL_LEAST);
  for (size_t w = threadIdx.x; 4 * w < U; w += blockDim.x) {
    uniform_four(ids + n, w, (uint32_t)M, row, key, U);
    for (size_t u = 4 * w; u < 4 * w + 4 && u < U; u++) {
      ids[n + u] = other_of(sorted, n, (u * M + ids[n + u]) / U);
      logq[n + u] = density;
    }
  }
}

int draw_tail(fopo_device *d, const fopo_samples *samples, const fopo_candidate_sets *head,
              const fopo_device_batch *batch) {
  size_t capacity = 1, B = batch->B;
  while (capacity < head->k) capacity *= 2;
  size_t bytes = capacity * sizeof(uint32_t), shared = bytes <= SHARED_MOST / 2 ? bytes : 0;
  if (shared == 0) {
    int status = reserve(d, B * bytes, "the candidates of a tail");
    if (status != FOPO_OK) return status;
  }
  return launch(d, "draws from the tail", B, THREADS, shared, tail_kernel, samples->ids,
                samples->logq, head->ids, head->counts, head->k, batch->rows, key_of(d, batch->key),
                shared > 0 ? nullptr : reinterpret_cast<uint32_t *>(of(d)->scratch), capacity,
                batch->S, batch->P);
}

/* A block a context. */
__global__ void others_kernel(uint32_t *ids, float *logq, const uint32_t *order, size_t H,
                              size_t listed, const uint32_t *rows, draw_key recorded, size_t S,
                              size_t P) {
  fopo_draw_key key = current(recorded);
  size_t b = blockIdx.x, U = S - listed;
  uint64_t M = P - H;
  float density = fminf((float)log((double)U / (double)M), FOPO_TAIL_LEAST);
  ids += b * S;
  logq += b * S;
  for (size_t i = threadIdx.x; i < listed; i += blockDim.x) {
    ids[i] = order[i];
    logq[i] = 0.0f;
  }
  for (size_t w = threadIdx.x; 4 * w < U; w += blockDim.x) {
    uniform_four(ids + listed, w, (uint32_t)M, rows[b], key, U);
    for (size_t u = 4 * w; u < 4 * w + 4 && u < U; u++) {
      ids[listed + u] = order[H + (u * M + ids[listed + u]) / U];
      logq[listed + u] = density;
    }
  }
}

int draw_others(fopo_device *d, const fopo_samples *samples, const fopo_shared_head *head,
                size_t listed, const fopo_device_batch *batch) {
  size_t wanted = listed > 0 ? THREADS : ceil_div(batch->S, 4); /* threads that have work */
  unsigned threads = (unsigned)least(rounded_up(wanted, WARP), THREADS);
  return launch(d, "draws outside a head", batch->B, threads, 0, others_kernel, samples->ids,
                samples->logq, head->order, head->H, listed, batch->rows, key_of(d, batch->key),
                batch->S, batch->P);
}

} // namespace gpu
