/* Draws on the GPU: uniform, from the mixture q_{K,eps}, and from the tail outside the candidates.
 *
 * Random words, the choice of the mixture's part, uniform ids and the ids of a tail equal the CPU's
 * to the bit (core/rng.h). A candidate is found in a cumulative sum of exp(score - max), whose last
 * bits differ from the CPU's: if a draw falls within rounding of the border between two candidates,
 * about once in 10^5 draws, the id may be the neighbour's. */
#include <cmath>

#include "device/cuda/draw.cuh"

namespace gpu {

/* ---- uniform ---- */

__global__ void uniform_kernel(uint32_t *ids, float *logq, const uint32_t *rows, draw_key recorded,
                               float density, size_t B, size_t S, uint32_t P) {
  fopo_draw_key key = current(recorded);
  size_t fours = (S + 3) / 4, i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= B * fours) return;
  size_t b = i / fours, from = i % fours * 4;
  uniform_draws({from, least(from + 4, S), 0, 1}, P, rows[b], key, [&](size_t s, uint32_t id) {
    ids[b * S + s] = id;
    logq[b * S + s] = density;
  });
}

int draw_uniform(fopo_device *d, const fopo_samples *samples, const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S, P = batch->P;
  return launch(d, "uniform draws", ceil_div(B * ceil_div(S, 4), THREADS), THREADS, 0,
                uniform_kernel, samples->ids, samples->logq, batch->rows, key_of(d, batch->key),
                (float)-log((double)P), B, S, (uint32_t)P);
}

/* ---- the mixture ---- */

/* Each context has `splits` blocks, which share its samples: each block prepares the candidates for
 * itself. */
__global__ void mixture_kernel(uint32_t *ids, float *logq, mixture m, const uint32_t *rows,
                               draw_key recorded, char *scratch, size_t bytes, unsigned bits,
                               size_t S, uint32_t P, unsigned splits) {
  fopo_draw_key key = current(recorded);
  size_t b = blockIdx.x / splits, split = blockIdx.x % splits;
  size_t n = m.counts[b] < m.k ? m.counts[b] : m.k;
  sample_range all = {0, S, split * blockDim.x + threadIdx.x, (size_t)splits * blockDim.x};
  auto put = [&](size_t s, uint32_t id, float q) {
    ids[b * S + s] = id;
    logq[b * S + s] = q;
  };
  char *memory = scratch != nullptr ? scratch + blockIdx.x * bytes : dynamic_shared<char>();
  candidates c = place(memory, m.k, bits);
  if (n == 0 || !prepare(c, m.ids + b * m.k, m.scores + b * m.k, n, m.epsilon, (double)P)) {
    uniform_draws(all, P, rows[b], key, [&](size_t s, uint32_t id) { put(s, id, m.uniform); });
    return;
  }
  mixture_draws(all, m, c, m.ids + b * m.k, n, rows[b], key, P, put);
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
  return launch(d, "draws from the mixture", B * splits, THREADS, shared, mixture_kernel,
                samples->ids, samples->logq, mixture_of(*m, S, P), batch->rows,
                key_of(d, batch->key), shared > 0 ? nullptr : of(d)->scratch, bytes,
                slot_bits(sets->k), S, (uint32_t)P, (unsigned)splits);
}

/* ---- head and tail ---- */

__global__ void tail_kernel(uint32_t *ids, float *logq, const uint32_t *head,
                            const uint32_t *counts, size_t k, const uint32_t *rows,
                            draw_key recorded, uint32_t *scratch, size_t capacity, size_t S,
                            size_t P) {
  fopo_draw_key key = current(recorded);
  size_t b = blockIdx.x, n = counts[b] < k ? counts[b] : k;
  uint32_t *sorted = scratch != nullptr ? scratch + b * capacity : dynamic_shared<uint32_t>();
  sort_ids(sorted, head + b * k, n, capacity);
  tail_draws({0, S, threadIdx.x, blockDim.x}, sorted, n, S - n, P, rows[b], key,
             [&](size_t s, uint32_t id, float q) {
               ids[b * S + s] = id;
               logq[b * S + s] = q;
             });
}

int draw_tail(fopo_device *d, const fopo_samples *samples, const fopo_candidate_sets *head,
              const fopo_device_batch *batch) {
  size_t capacity = sorted_capacity(head->k), B = batch->B;
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
  size_t b = blockIdx.x;
  others_draws({0, S, threadIdx.x, blockDim.x}, order, H, listed, S - listed, P, rows[b], key,
               [&](size_t s, uint32_t id, float q) {
                 ids[b * S + s] = id;
                 logq[b * S + s] = q;
               });
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
