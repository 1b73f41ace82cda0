/* The k items of largest score, on the GPU: the queries are multiplied by one tile of the catalogue
 * after the other, and a running selection keeps the best, so that only one tile of scores exists.
 *
 * An item is a key, as in mips/topk.h: the score's bits, transformed so that they compare like
 * integers, above the complement of the id. Each query has CAPACITY keys of global memory: first,
 * in descending order, the k best as of some earlier tile; then, in any order, the keys of later
 * tiles that are above the k-th of them, the threshold. Blocks read the scores of a tile and append
 * the keys that pass. The last block to finish a query sorts its keys and keeps k, but only if
 * enough keys were appended to be worth a higher threshold, or if the k best are needed. A query's
 * keys are thus sorted about once each time the number of items seen has doubled, and most tiles
 * append hardly anything.
 *
 * A tile is as wide as its passing keys are expected to fit. If they do not fit, as in a catalogue
 * in ascending order of score, the last block goes through the tile again by itself. Keys are
 * distinct, so the order in which they are appended does not change the result.
 *
 * If the catalogue has a bfloat16 copy, tiles are multiplied in bfloat16 once the queries have
 * thresholds: on the tensor cores, and reading half of the bytes. Scores that are too far below the
 * threshold to be explained by rounding are dropped; the others are computed again in float32
 * before they are compared. So the result is that of the float32 items.
 *
 * A catalogue with an order is read in that order: first its packed rows, then items gathered into
 * a tile that stays in the L2 cache, each row read once. The search ends early if
 *
 *     |q| |beta| (1 + rounding) < k-th best score,   |beta| the norm of the next item
 *
 * (Cauchy and Schwarz) for all queries. The device evaluates this test, but the host must fetch the
 * answer, for the device cannot cancel a product. That round trip takes about 10 microseconds and
 * is made seldom; a short prefix is searched without it. */
#include <cfloat>
#include <cmath>

#include "device/cuda/cuda.cuh"
#include "device/cuda/rows.cuh"

namespace gpu {

constexpr size_t CAPACITY = 4096; /* keys of a query: 32 KiB */
static_assert(2 * FOPO_TOPK_MOST <= CAPACITY, "all keys of a first tile must fit");
static_assert(FOPO_TOPK_MOST + 2 * THREADS <= CAPACITY, "a key of each thread must fit");

constexpr size_t SORT_AFTER = 512; /* appended keys that are worth a sort */
static_assert(FOPO_TOPK_MOST + 2 * SORT_AFTER <= CAPACITY, "a tile must fit before the next sort");

constexpr size_t FIRST_LEAST = 512; /* items of the first tile, all of which pass */
constexpr size_t TILE_LEAST = 2048; /* items: a smaller product does not fill a card */

/* Multiplications that one processor makes in the time of a round trip to the host. */
constexpr double ROUND_TRIP = 1.5e6;

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

/* ---- the queries ---- */

/* |q|, in each lane of a warp. */
__device__ inline double norm_of(const float *q, size_t L) {
  double sum = 0;
  for (size_t i = threadIdx.x % WARP; i < L; i += WARP) sum += (double)q[i] * (double)q[i];
  return sqrt(warp_sum(sum));
}

/* A warp a query: |q| rounded up, and q in bfloat16 with zeros up to ld. */
__global__ void narrow_kernel(uint16_t *narrowed, float *lengths, const float *Q, size_t B,
                              size_t L, size_t ld) {
  size_t b = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
  if (b >= B) return; /* the whole warp */
  const float *q = Q + b * L;
  double length = norm_of(q, L);
  if (threadIdx.x % WARP == 0) lengths[b] = nextafterf((float)length, INFINITY);
  for (size_t i = threadIdx.x % WARP; i < ld; i += WARP) {
    narrowed[b * ld + i] = i < L ? to_bf16(q[i]) : 0;
  }
}

/* ---- the selection of a block ---- */

/* keys [CAPACITY], of which the first *n are in use. Key 0 is smaller than that of any item. */
struct selection {
  uint64_t *keys;
  uint32_t *n;
  size_t k;
  uint64_t threshold; /* only keys above it can belong to the k best */
};

/* Sorts the keys, keeps the k best in descending order, and raises the threshold. The caller must
 * synchronise the threads before they read *n. */
__device__ inline void keep_best(selection &s) {
  __syncthreads();
  size_t n = *s.n, padded = 2;
  while (padded < n || padded < s.k) padded *= 2;
  for (size_t i = n + threadIdx.x; i < padded; i += blockDim.x) s.keys[i] = 0;
  sort_keys(s.keys, padded, false);
  __syncthreads();
  s.threshold = s.keys[s.k - 1];
  if (threadIdx.x == 0) *s.n = (uint32_t)s.k;
}

/* Adds a key of each thread; 0: none. Every thread of the block must call it. */
__device__ inline void add_key(selection &s, uint64_t key) {
  __syncthreads(); /* no thread may append before all have compared the same *n */
  if (*s.n + blockDim.x > CAPACITY) keep_best(s);
  __syncthreads();
  if (key > s.threshold) s.keys[atomicAdd(s.n, 1u)] = key;
}

/* ---- the selection of a query ---- */

/* What is needed to rescore, in float32, the items that pass a threshold in bfloat16. */
struct rescoring {
  const float *items;   /* [P, ld]; NULL: the scores are in float32 already */
  const float *Q;       /* [B, L] */
  const float *lengths; /* [B] |q|, rounded up */
  const float *norms;   /* [P] by place, descending */
  size_t ld, L;
  int bytes; /* of a load, device/cuda/rows.cuh */
};

/* One tile of the catalogue: the scores f [B, ld] of `width` items from place `first` on. */
struct tile {
  const float *f;
  const uint32_t *order; /* NULL: places are ids */
  rescoring rescore;
  size_t ld, width, first;
  unsigned parts; /* blocks of one query */
  bool sorts;     /* the k best must be known after it */
};

struct search {
  uint64_t *keys;    /* [B, CAPACITY] */
  uint32_t *n;       /* [B] keys appended so far, also those that did not fit */
  uint32_t *before;  /* [B] keys before this tile */
  uint32_t *sorted;  /* [B] how many of them are sorted: k, or 0 before the first sort */
  uint32_t *arrived; /* [B] blocks that have finished the tile */
  size_t k;
};

/* The k-th best key as of the last sort; 0: k items were not seen yet. */
__device__ inline uint64_t threshold_of(const search &s, size_t b) {
  return s.sorted[b] == s.k ? s.keys[b * CAPACITY + s.k - 1] : 0;
}

/* The lowest score of the tile that can belong to a key above the threshold. In bfloat16 both
 * operands are within 2^-8 of their values (kernels/prefilter.h). The order and the rounding of the
 * card's sums are not specified: 2^-20 a product allows for sixteen roundings of a float. */
__device__ inline float least_score(const tile &t, size_t b, uint64_t threshold) {
  if (threshold == 0) return -INFINITY;
  if (t.rescore.items == nullptr) return score_of(threshold);
  double q = (double)t.rescore.lengths[b], beta = (double)t.rescore.norms[t.first];
  double L = (double)t.rescore.L;
  double slack = q * beta * (0x1p-7 + 0x1p-16 + (L + 16) * 0x1p-20) +
                 (double)FLT_MIN * (sqrt(L) * (q + beta) + 2 * L);
  return nextafterf((float)((double)score_of(threshold) - slack), -INFINITY);
}

/* The key of item `at` of the tile, rescored if need be, if it is above the threshold; else 0. */
__device__ inline uint64_t passing_key(const tile &t, size_t b, size_t at, float score,
                                       uint64_t threshold, float lowest) {
  if (score < lowest) return 0;
  size_t place = t.first + at;
  uint32_t id = t.order != nullptr ? t.order[place] : (uint32_t)place;
  const rescoring &o = t.rescore;
  if (o.items != nullptr) {
    score = dot_part(o.items + id * o.ld, o.Q + b * o.L, o.L, 0, 1, o.bytes);
  }
  uint64_t key = key_of(score, id);
  return key > threshold ? key : 0;
}

__device__ inline void append(const search &s, size_t b, uint64_t key) {
  uint32_t place = atomicAdd(&s.n[b], 1u);
  if (place < CAPACITY) s.keys[b * CAPACITY + place] = key;
}

/* Ends a tile for one query, by the last block that finished it. Sorts, if it is time: the query's
 * keys or, if some did not fit, the keys from before the tile and all of the tile's again. */
__device__ inline void update_query(const search &s, const tile &t, size_t b) {
  __shared__ uint64_t keys[CAPACITY];
  __shared__ uint32_t n;
  size_t taken = __ldcg(&s.n[b]), held = taken <= CAPACITY ? taken : s.before[b];
  if (t.sorts || taken > CAPACITY || taken - s.sorted[b] >= least(s.k, SORT_AFTER)) {
    selection best = {keys, &n, s.k, threshold_of(s, b)};
    for (size_t i = threadIdx.x; i < held; i += blockDim.x) {
      keys[i] = __ldcg(&s.keys[b * CAPACITY + i]);
    }
    if (threadIdx.x == 0) n = (uint32_t)held;
    float lowest = least_score(t, b, best.threshold);
    for (size_t i = 0; taken > CAPACITY && i < t.width; i += blockDim.x) {
      size_t at = i + threadIdx.x;
      add_key(best,
              at < t.width ? passing_key(t, b, at, t.f[b * t.ld + at], best.threshold, lowest) : 0);
    }
    keep_best(best);
    held = least(s.k, t.first + t.width);
    for (size_t i = threadIdx.x; i < held; i += blockDim.x) s.keys[b * CAPACITY + i] = keys[i];
    if (threadIdx.x == 0) s.sorted[b] = held == s.k ? (uint32_t)held : 0;
  }
  __syncthreads(); /* every thread has read n and sorted */
  if (threadIdx.x != 0) return;
  s.n[b] = s.before[b] = (uint32_t)held;
  s.arrived[b] = 0;
}

/* Each query has t.parts blocks, which share the scores of the tile: four a thread at a time. */
__global__ void select_kernel(search s, tile t) {
  __shared__ bool last;
  size_t b = blockIdx.x / t.parts, span = ((t.width + t.parts - 1) / t.parts + 3) / 4 * 4;
  size_t begin = blockIdx.x % t.parts * span;
  size_t end = begin + span < t.width ? begin + span : t.width;
  const float *f = t.f + b * t.ld;
  uint64_t threshold = threshold_of(s, b);
  float lowest = least_score(t, b, threshold);
  for (size_t at = begin + threadIdx.x * 4; at < end; at += blockDim.x * 4) {
    float x[4];
    if (at + 4 <= end) load<16>(x, f + at);
    for (size_t j = 0; j < 4 && at + j < end; j++) {
      float score = at + 4 <= end ? x[j] : f[at + j];
      uint64_t key = passing_key(t, b, at + j, score, threshold, lowest);
      if (key != 0) append(s, b, key);
    }
  }
  /* the fences let the last block of the query see the keys that all its blocks appended */
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&s.arrived[b], 1u) == t.parts - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  update_query(s, t, b);
}

/* ---- the early exit ---- */

/* *go_on = 1 if an item from place `next` on can score as high as the k-th best of some query. One
 * block, whose warps share the queries. If zeros, queries of norm 0 need no search. */
__global__ void exit_kernel(uint32_t *go_on, search s, const float *Q, const float *norms,
                            size_t next, int zeros, size_t B, size_t L) {
  float can = 0;
  double share = (1 + (double)(L + 16) * 0x1p-23) * (double)norms[next];
  for (size_t b = threadIdx.x / WARP; b < B; b += blockDim.x / WARP) {
    double norm = norm_of(Q + b * L, L), kth = (double)score_of(s.keys[b * CAPACITY + s.k - 1]);
    if (!(norm * share + (double)FLT_MIN < kth) && !(zeros && norm == 0)) can = 1;
  }
  can = block_max(can);
  if (threadIdx.x == 0) *go_on = can > 0;
}

/* ---- the answer ---- */

/* A block a query. If zeros, a query of norm 0 scores 0 everywhere, so its best are the smallest
 * ids. */
__global__ void answer_kernel(uint32_t *ids, float *scores, uint32_t *counts, search s,
                              const float *Q, int zeros, size_t L, size_t k) {
  size_t b = blockIdx.x;
  bool zero = zeros && norm_of(Q + b * L, L) == 0;
  for (size_t i = threadIdx.x; i < k; i += blockDim.x) {
    uint64_t key = zero ? key_of(0, (uint32_t)i) : i < s.k ? s.keys[b * CAPACITY + i] : 0;
    ids[b * k + i] = i < s.k ? ~(uint32_t)key : UINT32_MAX;
    scores[b * k + i] = i < s.k ? score_of(key) : -INFINITY;
  }
  if (threadIdx.x == 0) counts[b] = (uint32_t)s.k;
}

/* ---- the loop over tiles ---- */

/* One call of topk, with its arrays in scratch. */
struct call {
  fopo_device *d;
  const float *Q;
  const fopo_catalogue *c;
  size_t B, L;
  size_t tile_max; /* items of the widest tile */
  search s;
  float *f;    /* [B, tile_max] scores */
  float *rows; /* [tile_max, L] gathered items, if any are */
  uint32_t *go_on;
  bool uses_bf16;          /* tiles are scored in bfloat16 first, from */
  uint16_t *q, *rows_bf16; /* [B, half.ld], [tile_max, half.ld] */
  float *lengths;          /* [B] */
  size_t tested;           /* the place of the last early-exit test */
};

/* The widest tile whose scores, and rows if they are gathered, fit half of the L2 cache. */
static size_t tile_capacity(const state *s, const fopo_catalogue *c, size_t B, size_t L,
                            bool gathers) {
  size_t item = (B + (gathers ? L : 0)) * sizeof(float), most = s->cache / 2 / item;
  most = least(most > TILE_LEAST ? most : TILE_LEAST, c->limit);
  return (most + 3) / 4 * 4; /* each row of scores must be aligned to 16 bytes */
}

static int reserve_search(call *a) {
  const fopo_catalogue *c = a->c;
  bool gathers = c->order != nullptr && c->limit > c->packed_rows;
  a->uses_bf16 =
      of(a->d)->has_bf16 && c->half.x != nullptr && c->norms != nullptr && c->order != nullptr;
  a->tile_max = tile_capacity(of(a->d), c, a->B, a->L, gathers);
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(a->d)->scratch : nullptr, 0};
    a->s.n = memory.array<uint32_t>(4 * a->B + 1);
    a->s.keys = memory.array<uint64_t>(a->B * CAPACITY);
    a->f = memory.array<float>(a->B * a->tile_max);
    a->rows = memory.array<float>(gathers ? a->tile_max * a->L : 0);
    a->q = memory.array<uint16_t>(a->uses_bf16 ? a->B * c->half.ld : 0);
    a->rows_bf16 = memory.array<uint16_t>(a->uses_bf16 ? a->tile_max * c->half.ld : 0);
    a->lengths = memory.array<float>(a->uses_bf16 ? a->B : 0);
    int status = placed ? FOPO_OK : reserve(a->d, memory.used, "the search");
    if (status != FOPO_OK) return status;
  }
  a->s.before = a->s.n + a->B;
  a->s.sorted = a->s.before + a->B;
  a->s.arrived = a->s.sorted + a->B;
  a->go_on = a->s.arrived + a->B;
  return check(cudaMemsetAsync(a->s.n, 0, (4 * a->B + 1) * sizeof *a->s.n, of(a->d)->stream),
               "the search");
}

/* Items of the tile at place `at`. About k of the `at` items before were the best of their tiles,
 * so k / at of a tile is expected to pass; a quarter of the free keys may be used up. A tile lies
 * among the packed rows or behind them. */
static size_t tile_width(const call *a, size_t at) {
  const fopo_catalogue *c = a->c;
  size_t k = a->s.k, first = 2 * k > FIRST_LEAST ? 2 * k : FIRST_LEAST;
  size_t bears = at < k ? first : at * (CAPACITY - k - SORT_AFTER) / (4 * k);
  size_t end =
      c->order != nullptr && at < c->packed_rows ? least(c->packed_rows, c->limit) : c->limit;
  return least(least(bears, a->tile_max), end - at);
}

/* The scores of a tile from the bfloat16 copy, whose rows are gathered as rows of 4-byte words. */
static int score_tile_bf16(const call *a, size_t at, size_t width) {
  const fopo_catalogue *c = a->c;
  size_t words = c->half.ld / 2;
  int status =
      gather_words(a->d, reinterpret_cast<float *>(a->rows_bf16),
                   static_cast<const float *>(c->half.x), words, c->order + at, width, words);
  return status != FOPO_OK
             ? status
             : gemm_bf16(a->d, a->f, a->tile_max, a->q, a->rows_bf16, a->B, width, c->half.ld);
}

static int score_tile(const call *a, size_t at, size_t width) {
  const fopo_catalogue *c = a->c;
  const float *rows = c->items + at * c->ld;
  size_t ld = c->ld;
  int status = FOPO_OK;
  if (c->order != nullptr) {
    bool packed = at < c->packed_rows;
    rows = packed ? c->packed + at * a->L : a->rows;
    ld = a->L;
    if (!packed) {
      status = gather_words(a->d, a->rows, c->items, c->ld, c->order + at, width, a->L);
    }
  }
  return status != FOPO_OK ? status
                           : gemm(a->d, a->f, a->tile_max, 1.0f, a->Q, a->L, 0, rows, ld, 1, 0.0f,
                                  a->B, width, a->L);
}

static int select_tile(const call *a, size_t at, size_t width, bool in_bf16, bool sorts) {
  const fopo_catalogue *c = a->c;
  unsigned parts = (unsigned)splits_of(of(a->d), a->B, width, 4 * THREADS);
  rescoring rescore = {in_bf16 ? c->items : nullptr,
                       a->Q,
                       a->lengths,
                       c->norms,
                       c->ld,
                       a->L,
                       load_bytes<float>(c->items, c->ld, a->L)};
  tile t = {a->f, c->order, rescore, a->tile_max, width, at, parts, sorts};
  return launch(a->d, "the search", a->B * parts, THREADS, 0, select_kernel, a->s, t);
}

/* Is the early-exit test after place `next` worth a round trip? Yes if the remaining work and the
 * work since the last test each exceed one round trip, and at least a quarter of the scan is new.
 */
static bool worth_exit_test(const call *a, size_t next) {
  size_t left = a->c->limit - next, since = next - a->tested;
  double work = (double)a->B * (double)a->L * (double)least(left, since);
  return a->c->norms != nullptr && next >= a->s.k && since >= next / 4 &&
         work >= ROUND_TRIP * (double)of(a->d)->processors;
}

/* Makes the early-exit test; waits for the answer. */
static int test_exit(call *a, size_t next, int zeros, uint32_t *go_on) {
  int status = launch(a->d, "the search", 1, 1024, 0, exit_kernel, a->go_on, a->s, a->Q,
                      a->c->norms, next, zeros, a->B, a->L);
  a->tested = next;
  return status != FOPO_OK ? status : get(a->d, go_on, a->go_on, sizeof *go_on);
}

static int run_tiles(call *a, int zeros) {
  uint32_t go_on = 1;
  int status = !a->uses_bf16
                   ? FOPO_OK
                   : launch(a->d, "the search", ceil_div(a->B * WARP, THREADS), THREADS, 0,
                            narrow_kernel, a->q, a->lengths, a->Q, a->B, a->L, a->c->half.ld);
  for (size_t at = 0; at < a->c->limit && go_on && status == FOPO_OK;) {
    if (fopo_interrupted()) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while searching");
    size_t width = tile_width(a, at), next = at + width;
    bool tests = worth_exit_test(a, next),
         in_bf16 = a->uses_bf16 && at >= a->s.k; /* there are thresholds */
    status = in_bf16 ? score_tile_bf16(a, at, width) : score_tile(a, at, width);
    if (status == FOPO_OK) {
      status = select_tile(a, at, width, in_bf16, tests || next == a->c->limit);
    }
    if (status == FOPO_OK && tests) status = test_exit(a, next, zeros, &go_on);
    at = next;
  }
  return status;
}

int topk(fopo_device *d, const fopo_candidate_sets *sets, const fopo_catalogue *c,
         const fopo_device_batch *batch) {
  if (batch->B == 0) return FOPO_OK;
  call a = {};
  a.d = d, a.Q = batch->Q, a.c = c, a.B = batch->B, a.L = batch->L;
  a.s.k = least(sets->k, c->limit);
  int zeros = c->norms != nullptr && c->limit == c->P, status = reserve_search(&a);
  if (status == FOPO_OK) status = run_tiles(&a, zeros);
  if (status != FOPO_OK) return status;
  return launch(d, "the search", a.B, THREADS, 0, answer_kernel, sets->ids, sets->scores,
                sets->counts, a.s, a.Q, zeros, a.L, sets->k);
}

} // namespace gpu
