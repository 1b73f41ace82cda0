/* The k items of largest score, on the GPU. A catalogue in the order of its norms that has a
 * bfloat16 copy is searched by one kernel (norm_search.cu). Here is the search of others, in
 * float32: the queries are multiplied by one tile of the catalogue after the other, and a running
 * selection (topk.cuh) keeps the best, so that only one tile of scores exists.
 *
 * Blocks read the scores of a tile and append the keys that pass. The last block to finish a query
 * selects its k best, but only if enough keys were appended to be worth a higher threshold, or if
 * the k best are needed. So a selection is made about once each time the number of items seen has
 * doubled, and most tiles append hardly anything.
 *
 * A tile is as wide as its passing keys are expected to fit. If they do not fit, as in a catalogue
 * in ascending order of score, the last block goes through the tile again by itself.
 *
 * A catalogue with an order is read in that order: first its packed rows, then items gathered into
 * a tile that stays in the L2 cache, each row read once. The search ends early if
 *
 *     |q| |beta| (1 + rounding) < k-th best score,   |beta| the norm of the next item
 *
 * (Cauchy and Schwarz) for all queries. The device evaluates this test, but the host must fetch the
 * answer, for the device cannot cancel a product. That round trip takes about 10 microseconds and
 * is made seldom; a short prefix is searched without it. */
#include "device/cuda/rows.cuh"
#include "device/cuda/search.cuh"

namespace gpu {

constexpr size_t SORT_AFTER = 512; /* appended keys that are worth a selection */
static_assert(FOPO_TOPK_MOST + 2 * SORT_AFTER <= CAPACITY, "a tile must fit before the next one");

constexpr size_t TILE_LEAST = 2048; /* items: a smaller product does not fill a card */

/* Multiplications that one processor makes in the time of a round trip to the host. */
constexpr double ROUND_TRIP = 1.5e6;

/* One tile of the catalogue: the scores f [B, ld] of `width` items from place `first` on. */
struct tile {
  const float *f;
  const uint32_t *order; /* NULL: places are ids */
  size_t ld, width, first;
  unsigned parts;    /* blocks of one query */
  bool selects;      /* the k best must be known after it */
  uint32_t *before;  /* [B] keys before it */
  uint32_t *arrived; /* [B] blocks that have finished it */
};

/* The key of item `at` of the tile if it is above the threshold; else 0. */
__device__ inline uint64_t passing_key(const tile &t, size_t at, float score, uint64_t threshold) {
  size_t place = t.first + at;
  uint64_t key = key_of(score, t.order != nullptr ? t.order[place] : (uint32_t)place);
  return key > threshold ? key : 0;
}

/* The lowest score that can belong to a key above the threshold. */
__device__ inline float least_score(uint64_t threshold) {
  return threshold == 0 ? -INFINITY : score_of(threshold);
}

/* Ends a tile for one query, by the last block that finished it. If a selection is due, it selects
 * among the query's keys; if some keys of the tile did not fit, among the keys that were there
 * before the tile and the keys of all items of the tile, which are computed again. */
__device__ inline void update_query(const search &s, const tile &t, size_t b) {
  __shared__ uint64_t keys[CAPACITY];
  __shared__ uint32_t n;
  size_t taken = __ldcg(&s.n[b]), held = taken <= CAPACITY ? taken : t.before[b];
  if (t.selects || taken > CAPACITY || taken - s.kept[b] >= least(s.k, SORT_AFTER)) {
    selection best = load_selection(keys, &n, s, b, held);
    for (size_t i = 0; taken > CAPACITY && i < t.width; i += blockDim.x) {
      size_t at = i + threadIdx.x;
      add_key(best, at < t.width ? passing_key(t, at, t.f[b * t.ld + at], best.threshold) : 0);
    }
    keep_best(best);
    store_selection(s, b, best);
    held = n;
  }
  __syncthreads(); /* every thread has read before and n */
  if (threadIdx.x != 0) return;
  t.before[b] = (uint32_t)held;
  t.arrived[b] = 0;
}

/* Each query has t.parts blocks, which share the scores of the tile: four a thread at a time. */
__global__ void select_kernel(search s, tile t) {
  __shared__ bool last;
  size_t b = blockIdx.x / t.parts, span = ((t.width + t.parts - 1) / t.parts + 3) / 4 * 4;
  size_t begin = blockIdx.x % t.parts * span;
  size_t end = begin + span < t.width ? begin + span : t.width;
  const float *f = t.f + b * t.ld;
  uint64_t threshold = s.threshold[b];
  float lowest = least_score(threshold);
  for (size_t at = begin + threadIdx.x * 4; at < end; at += blockDim.x * 4) {
    float x[4];
    if (at + 4 <= end) load<16>(x, f + at);
    for (size_t j = 0; j < 4 && at + j < end; j++) {
      float score = at + 4 <= end ? x[j] : f[at + j];
      uint64_t key = score < lowest ? 0 : passing_key(t, at + j, score, threshold);
      if (key != 0) append(s, b, key);
    }
  }
  /* the fences let the last block of the query see the keys that all its blocks appended */
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&t.arrived[b], 1u) == t.parts - 1;
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
    double norm = norm_of(Q + b * L, L), kth = (double)score_of(s.threshold[b]);
    if (!(norm * share + (double)FLT_MIN < kth) && !(zeros && norm == 0)) can = 1;
  }
  can = block_max(can);
  if (threadIdx.x == 0) *go_on = can > 0;
}

/* ---- the answer ---- */

/* A block a query, whose k best were selected last. */
__global__ void answer_kernel(answer a, search s, const float *Q, size_t L) {
  __shared__ uint64_t keys[CAPACITY];
  __shared__ uint32_t n;
  size_t b = blockIdx.x;
  selection best = load_selection(keys, &n, s, b, s.k);
  write_answer(a, b, best, a.zeros && norm_of(Q + b * L, L) == 0);
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
  uint32_t *before, *arrived; /* [B] of a tile */
  float *f;                   /* [B, tile_max] scores */
  float *rows;                /* [tile_max, L] gathered items, if any are */
  uint32_t *go_on;
  size_t tested; /* the place of the last early-exit test */
};

/* The widest tile whose scores, and rows if they are gathered, fit half of the L2 cache. */
static size_t tile_capacity(const state *s, const fopo_catalogue *c, size_t B, size_t L,
                            bool gathers) {
  size_t item = (B + (gathers ? L : 0)) * sizeof(float), most = s->cache / 2 / item;
  most = least(most > TILE_LEAST ? most : TILE_LEAST, c->limit);
  return (most + 3) / 4 * 4; /* each row of scores must be aligned to 16 bytes */
}

static int reserve_tiles(call *a) {
  const fopo_catalogue *c = a->c;
  bool gathers = c->order != nullptr && c->limit > c->packed_rows;
  a->tile_max = tile_capacity(of(a->d), c, a->B, a->L, gathers);
  size_t counters = 0;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(a->d)->scratch : nullptr, 0};
    a->s.threshold = memory.array<uint64_t>(a->B);
    a->s.n = memory.array<uint32_t>(4 * a->B + 1);
    counters = memory.used;
    a->s.keys = memory.array<uint64_t>(a->B * CAPACITY);
    a->f = memory.array<float>(a->B * a->tile_max);
    a->rows = memory.array<float>(gathers ? a->tile_max * a->L : 0);
    int status = placed ? FOPO_OK : reserve(a->d, memory.used, "the search");
    if (status != FOPO_OK) return status;
  }
  a->s.kept = a->s.n + a->B;
  a->before = a->s.kept + a->B;
  a->arrived = a->before + a->B;
  a->go_on = a->arrived + a->B;
  return check(cudaMemsetAsync(a->s.threshold, 0, counters, of(a->d)->stream), "the search");
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

static int select_tile(const call *a, size_t at, size_t width, bool selects) {
  unsigned parts = (unsigned)splits_of(of(a->d), a->B, width, 4 * THREADS);
  tile t = {a->f, a->c->order, a->tile_max, width, at, parts, selects, a->before, a->arrived};
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
  int status = FOPO_OK;
  for (size_t at = 0; at < a->c->limit && go_on && status == FOPO_OK;) {
    if (fopo_interrupted()) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while searching");
    size_t width = tile_width(a, at), next = at + width;
    bool tests = worth_exit_test(a, next);
    status = score_tile(a, at, width);
    if (status == FOPO_OK) status = select_tile(a, at, width, tests || next == a->c->limit);
    if (status == FOPO_OK && tests) status = test_exit(a, next, zeros, &go_on);
    at = next;
  }
  return status;
}

static int search_tiles(fopo_device *d, const answer &to, const fopo_catalogue *c,
                        const fopo_device_batch *batch) {
  call a = {};
  a.d = d, a.Q = batch->Q, a.c = c, a.B = batch->B, a.L = batch->L;
  a.s.k = least(to.k, c->limit);
  int status = reserve_tiles(&a);
  if (status == FOPO_OK) status = run_tiles(&a, to.zeros);
  if (status != FOPO_OK) return status;
  return launch(d, "the search", a.B, THREADS, 0, answer_kernel, to, a.s, a.Q, a.L);
}

/* scores [B, k] of ids [B, k] += their sparse part; the places that hold no item are left. */
__global__ void sparse_kernel(float *scores, const uint32_t *ids, fopo_sparse_scores sparse,
                              size_t k, size_t n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && ids[i] != UINT32_MAX)
    scores[i] = fopo_score_sum(scores[i], sparse_score(sparse, i / k, ids[i]));
}

int topk(fopo_device *d, const fopo_candidate_sets *sets, const fopo_catalogue *c,
         const fopo_device_batch *batch) {
  if (batch->B == 0) return FOPO_OK;
  int zeros = c->norms != nullptr && c->limit == c->P;
  answer to = {sets->ids, sets->scores, sets->counts, sets->k, zeros};
  bool by_norm = c->half.x != nullptr && c->norms != nullptr && c->order != nullptr;
  int status = (by_norm ? search_by_norm : search_tiles)(d, to, c, batch);
  if (status != FOPO_OK || batch->sparse.indptr == nullptr || sets->scores == nullptr)
    return status;
  size_t n = batch->B * sets->k;
  return launch(d, "the sparse scores", ceil_div(n, THREADS), THREADS, 0, sparse_kernel,
                sets->scores, sets->ids, fopo_batch_scores(batch), sets->k, n);
}

} // namespace gpu
