/* The k items of largest score, on the GPU: products of the queries with tiles of the catalogue, and
 * a running selection, so that no more than a tile of scores is ever kept.
 *
 * Items are keys, as in mips/topk.h: the score's bits, made to order like integers, above the
 * complement of the id. A block takes one part of the catalogue for one query. It keeps the k best
 * keys so far in shared memory and appends what is above the k-th; when the room is used up, a
 * bitonic sort drops all but k. Keys are distinct, so the order in which threads append changes
 * nothing. A last kernel selects among the parts. */
#include "device/device_cuda.cuh"

namespace gpu {

constexpr size_t ROOM = 4096; /* keys: 32 KiB */
static_assert(FOPO_TOPK_MOST + 2 * THREADS <= ROOM, "a round of keys must fit behind the best");

__device__ inline uint64_t key_of(float score, uint32_t id) {
  union { float x; uint32_t bits; } u;
  u.x = score + 0.0f; /* -0 becomes +0: equal scores have equal bits */
  uint32_t bits = u.bits ^ (u.bits >> 31 ? UINT32_MAX : (uint32_t)1 << 31);
  return (uint64_t)bits << 32 | (uint32_t)~id;
}

__device__ inline float score_of(uint64_t key) {
  union { float x; uint32_t bits; } u;
  u.bits = (uint32_t)(key >> 32);
  u.bits ^= u.bits >> 31 ? (uint32_t)1 << 31 : UINT32_MAX;
  return u.x;
}

/* The selection of a block: keys [ROOM], of which the first *n are taken. Key 0 is worse than any. */
struct selection {
  uint64_t *keys;
  uint32_t *n;
  size_t k;
  uint64_t floor; /* keys above it may belong to the k best */
};

/* Keeps the k best of the keys taken, in descending order. */
__device__ inline void settle(selection &s) {
  __syncthreads();
  size_t n = *s.n, room = 2;
  while (room < n || room < s.k) room *= 2;
  for (size_t i = n + threadIdx.x; i < room; i += blockDim.x) s.keys[i] = 0;
  sort_keys(s.keys, room, false);
  __syncthreads();
  s.floor = s.keys[s.k - 1];
  if (threadIdx.x == 0) *s.n = (uint32_t)s.k;
  __syncthreads();
}

/* One key a thread; 0 for none. Every thread of the block comes here. */
__device__ inline void offer(selection &s, uint64_t key) {
  __syncthreads(); /* all have seen the same *n below before anyone appends */
  if (*s.n + blockDim.x > ROOM) settle(s);
  __syncthreads();
  if (key > s.floor) s.keys[atomicAdd(s.n, 1u)] = key;
}

__device__ inline selection select(uint64_t *keys, uint32_t *n, size_t k) {
  if (threadIdx.x == 0) *n = 0;
  return {keys, n, k, 0};
}

/* best [B, parts, k] goes on with the scores f [B, width] of the items from `first` on. */
__global__ void select_kernel(uint64_t *best, const float *f, size_t width, size_t first, size_t k,
                              unsigned parts) {
  __shared__ uint64_t keys[ROOM];
  __shared__ uint32_t n;
  size_t b = blockIdx.x / parts, span = (width + parts - 1) / parts;
  size_t begin = blockIdx.x % parts * span, end = begin + span < width ? begin + span : width;
  selection s = select(keys, &n, k);
  best += (size_t)blockIdx.x * k;
  for (size_t i = 0; first > 0 && i < k; i += blockDim.x) {
    offer(s, i + threadIdx.x < k ? best[i + threadIdx.x] : 0);
  }
  if (first > 0) settle(s);
  for (size_t i = begin; i < end; i += blockDim.x) {
    size_t at = i + threadIdx.x;
    offer(s, at < end ? key_of(f[b * width + at], (uint32_t)(first + at)) : 0);
  }
  settle(s);
  for (size_t i = threadIdx.x; i < k; i += blockDim.x) best[i] = keys[i];
}

/* The k best of the parts of each context. */
__global__ void merge_kernel(uint32_t *ids, float *scores, uint32_t *counts, const uint64_t *best,
                             size_t k, unsigned parts) {
  __shared__ uint64_t keys[ROOM];
  __shared__ uint32_t n;
  size_t b = blockIdx.x, all = parts * k;
  selection s = select(keys, &n, k);
  best += b * all;
  for (size_t i = 0; i < all; i += blockDim.x) {
    offer(s, i + threadIdx.x < all ? best[i + threadIdx.x] : 0);
  }
  settle(s);
  for (size_t i = threadIdx.x; i < k; i += blockDim.x) {
    ids[b * k + i] = ~(uint32_t)keys[i];
    scores[b * k + i] = score_of(keys[i]);
  }
  if (threadIdx.x == 0) counts[b] = (uint32_t)k;
}

int topk(fopo_device *d, uint32_t *ids, float *scores, uint32_t *counts, const float *Q,
         const float *items, size_t ld, size_t B, size_t P, size_t L, size_t k) {
  size_t tile = of(d)->cache / 2 / (B * sizeof(float)), parts; /* its scores stay in the cache */
  tile = least(P, tile < ROOM ? ROOM : tile);
  parts = splits_of(of(d), B, tile, 4 * ROOM);
  uint64_t *best = nullptr;
  float *f = nullptr;
  for (int placed = 0; placed < 2; placed++) {
    carving room = {placed ? of(d)->scratch : nullptr, 0};
    best = room.take<uint64_t>(B * parts * k);
    f = room.take<float>(B * tile);
    int status = placed ? FOPO_OK : reserve(d, room.used, "a search");
    if (status != FOPO_OK) return status;
  }
  int status = FOPO_OK;
  for (size_t first = 0; first < P && status == FOPO_OK; first += tile) {
    size_t width = least(tile, P - first);
    if (fopo_interrupted()) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while searching");
    status = gemm(d, f, width, 1.0f, Q, L, 0, items + first * ld, ld, 1, 0.0f, B, width, L);
    if (status == FOPO_OK) {
      status = launch(d, "a search", B * parts, THREADS, 0, select_kernel, best, (const float *)f,
                      width, first, k, (unsigned)parts);
    }
  }
  if (status != FOPO_OK) return status;
  return launch(d, "a search", B, THREADS, 0, merge_kernel, ids, scores, counts,
                (const uint64_t *)best, k, (unsigned)parts);
}

} // namespace gpu
