/* The k items of largest score by one kernel, on cards that multiply bfloat16: the items lie in
 * bfloat16 in the order of their norms, and the search ends on the card as soon as no later item
 * can matter. Nothing waits for the host, so the search can be part of a CUDA graph.
 *
 * Blocks stay and take tickets, in order: pieces of work of which each waits for earlier ones
 * alone. As whoever holds an earlier ticket is running, no wait is for ever, however many blocks
 * the card holds at a time. The catalogue is cut into stretches, each about twice as long as all
 * before it. In a stretch a ticket is a run of tiles for a group of queries, and behind these a
 * selection for each query, whose new threshold the next stretch starts with.
 *
 * A tile is the product of ITEMS items and QUERIES queries by the tensor cores, in registers. A
 * score is dropped if it is too far below the query's threshold to be explained by rounding; the
 * other items are scored again in float32, eight threads an item, before they are compared. So the
 * result is that of the float32 items.
 *
 * A query is done if
 *
 *     |q| |beta| (1 + rounding) < k-th best score,   |beta| the norm of the tile's first item
 *
 * (Cauchy and Schwarz); a group stops if all of its queries are done. If the keys that pass do not
 * fit, as in a catalogue in ascending order of score, the block that selects goes through the
 * stretch again by itself, in float32. */
#include "device/cuda/rows.cuh"
#include "device/cuda/search.cuh"
#include "device/cuda/tensor.cuh"

namespace gpu {

constexpr unsigned ITEMS = 128, QUERIES = 64; /* of a tile */
constexpr unsigned DEPTH = 32;                /* numbers of a row that are staged at a time */
constexpr unsigned PITCH = DEPTH + 8; /* from row to row: eight rows lie in different banks */
constexpr unsigned STAGE = (ITEMS + QUERIES) * PITCH;
constexpr unsigned LIST = 1024; /* items of a tile that are rescored at a time */
constexpr unsigned TEAM = 8;    /* threads that score an item in float32 */
constexpr size_t SHARED = 2 * STAGE * sizeof(uint16_t) > CAPACITY * sizeof(uint64_t)
                              ? 2 * STAGE * sizeof(uint16_t)
                              : CAPACITY * sizeof(uint64_t);

/* A warp's part of a tile: ROWS x COLUMNS products of 16 items and 8 queries. */
constexpr unsigned ROWS = 2, COLUMNS = 4, WARPS_DOWN = ITEMS / (16 * ROWS);
static_assert(WARPS_DOWN * (QUERIES / (8 * COLUMNS)) == THREADS / WARP, "a part a warp");
static_assert(ROWS * COLUMNS * 4 == 32, "the scores of a thread have a bit each");

constexpr size_t MOST_STRETCHES = 48;
constexpr size_t MOST_RUN = 8; /* tiles of a ticket */

/* Places first .. end - 1 of the catalogue. */
struct stretch {
  uint32_t first, end;
  uint32_t run, runs; /* tiles of a ticket; tickets of a group */
};

struct norm_work {
  search s;
  const float *Q;       /* [B, L] */
  uint16_t *q;          /* [B, ld_half] in bfloat16 */
  float *lengths;       /* [B] |q|, rounded up */
  const uint16_t *half; /* [P, ld_half] by place */
  const float *items;   /* [P, ld] */
  const uint32_t *order;
  const float *norms;
  size_t ld_half, ld, B, L;
  int bytes; /* of a load of an item's row, device/cuda/rows.cuh */
  int zeros; /* queries of norm 0 need no search */
  uint32_t limit, groups, stretches;
  uint32_t *scanned;         /* [B] places before it were seen by the last selection */
  uint32_t *stopped;         /* [groups] 0, or 1 + a place from which no item matters */
  uint32_t *ticket, *n_done; /* the next one; groups that have stopped */
  uint32_t *scored, *chosen; /* [stretches, groups] tickets, and queries, that are finished */
  stretch part[MOST_STRETCHES];
};

/* A warp a query: |q| rounded up, and q in bfloat16 with zeros up to ld. */
__global__ void narrow_kernel(norm_work w) {
  size_t b = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
  if (b >= w.B) return; /* the whole warp */
  const float *q = w.Q + b * w.L;
  double length = norm_of(q, w.L);
  if (threadIdx.x % WARP == 0) w.lengths[b] = nextafterf((float)length, INFINITY);
  for (size_t i = threadIdx.x % WARP; i < w.ld_half; i += WARP) {
    w.q[b * w.ld_half + i] = i < w.L ? to_bf16(q[i]) : 0;
  }
}

/* ---- tickets ---- */

/* Each block adds 1 to a counter when its piece of work is finished, and what it wrote before is
 * seen by the blocks that have waited for the counter. Both are called by all threads. */
__device__ inline void finish(uint32_t *counter) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(counter, 1u);
}

__device__ inline void wait_for(uint32_t *counter, uint32_t wanted) {
  if (threadIdx.x == 0) {
    while (atomicAdd(counter, 0u) < wanted) __nanosleep(100);
    __threadfence();
  }
  __syncthreads();
}

__device__ inline uint32_t queries_of(const norm_work &w, uint32_t group) {
  return (uint32_t)least(QUERIES, w.B - (size_t)group * QUERIES);
}

/* ---- a tile ---- */

/* What the threads of a block know of a tile's queries. */
struct bounds {
  uint64_t threshold[QUERIES];
  float lowest[QUERIES]; /* scores in bfloat16 below it are dropped */
};

/* The lowest score in bfloat16 of an item whose norm is at most beta that may be above the
 * threshold. Both operands are within 2^-8 of their values (kernels/prefilter.h). The order and the
 * rounding of the card's sums are not specified: 2^-20 a product allows for sixteen roundings of a
 * float. */
__device__ inline float lowest_of(uint64_t threshold, double q, double beta, double L) {
  if (threshold == 0) return -INFINITY;
  double slack = q * beta * (0x1p-7 + 0x1p-16 + (L + 16) * 0x1p-20) +
                 (double)FLT_MIN * (sqrt(L) * (q + beta) + 2 * L);
  return nextafterf((float)((double)score_of(threshold) - slack), -INFINITY);
}

/* Fills x for the tile at place `at`; false if no query needs it or those behind it. */
__device__ inline bool bound_queries(bounds &x, const norm_work &w, uint32_t group, uint32_t at) {
  bool needs = false;
  if (threadIdx.x < queries_of(w, group)) {
    size_t b = (size_t)group * QUERIES + threadIdx.x;
    uint64_t threshold = __ldcg(&w.s.threshold[b]);
    double q = (double)w.lengths[b], beta = (double)w.norms[at];
    double most = q * beta * (1 + (double)(w.L + 16) * 0x1p-23) + (double)FLT_MIN;
    bool zero = w.zeros && w.lengths[b] <= 0x1p-149f; /* 0 rounded up */
    needs = !zero && (threshold == 0 || !(most < (double)score_of(threshold)));
    x.threshold[threadIdx.x] = threshold;
    x.lowest[threadIdx.x] = needs ? lowest_of(threshold, q, beta, (double)w.L) : INFINITY;
  }
  return __syncthreads_or(needs) != 0;
}

/* Starts the copies of numbers `column` .. `column` + DEPTH - 1 of the tile's rows to shared
 * memory: items, then queries. Rows and numbers that are not there are 0. */
__device__ inline void stage(uint16_t *to, const norm_work &w, size_t at, size_t items,
                             size_t first, size_t queries, size_t column) {
  constexpr unsigned PIECES = DEPTH / 8; /* of 16 bytes, in a row */
  for (unsigned p = threadIdx.x; p < (ITEMS + QUERIES) * PIECES; p += THREADS) {
    size_t row = p / PIECES, i = column + p % PIECES * 8;
    bool is_item = row < ITEMS;
    bool there = i < w.ld_half && (is_item ? row < items : row - ITEMS < queries);
    const uint16_t *from =
        (is_item ? w.half + (at + row) * w.ld_half : w.q + (first + row - ITEMS) * w.ld_half) + i;
    copy_async(to + row * PITCH + p % PIECES * 8, there ? from : nullptr);
  }
  close_copies();
}

__device__ inline uint32_t pair_at(const uint16_t *p) {
  return *reinterpret_cast<const uint32_t *>(p);
}

/* Adds the products of what is staged to the sums of this thread. */
__device__ inline void multiply(float (&sums)[ROWS][COLUMNS][4], const uint16_t *staged) {
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const uint16_t *item = staged + (warp % WARPS_DOWN * ROWS * 16 + lane / 4) * PITCH + lane % 4 * 2;
  const uint16_t *query =
      staged + (ITEMS + warp / WARPS_DOWN * COLUMNS * 8 + lane / 4) * PITCH + lane % 4 * 2;
#pragma unroll
  for (unsigned i = 0; i < DEPTH; i += 16) {
    uint32_t a[ROWS][4], b[COLUMNS][2];
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
      const uint16_t *p = item + r * 16 * PITCH + i;
      a[r][0] = pair_at(p), a[r][1] = pair_at(p + 8 * PITCH);
      a[r][2] = pair_at(p + 8), a[r][3] = pair_at(p + 8 * PITCH + 8);
    }
#pragma unroll
    for (unsigned c = 0; c < COLUMNS; c++) {
      const uint16_t *p = query + c * 8 * PITCH + i;
      b[c][0] = pair_at(p), b[c][1] = pair_at(p + 8);
    }
#pragma unroll
    for (unsigned r = 0; r < ROWS; r++) {
#pragma unroll
      for (unsigned c = 0; c < COLUMNS; c++) multiply_bf16(sums[r][c], a[r], b[c]);
    }
  }
}

/* The scores of a tile in bfloat16, one stage being copied while the one before is multiplied. */
__device__ inline void score_tile(float (&sums)[ROWS][COLUMNS][4], uint16_t *stages,
                                  const norm_work &w, size_t at, size_t items, size_t first,
                                  size_t queries) {
  size_t steps = (w.ld_half + DEPTH - 1) / DEPTH;
  stage(stages, w, at, items, first, queries, 0);
  for (size_t i = 0; i < steps; i++) {
    size_t next = i + 1 < steps ? i + 1 : i; /* behind the last one nothing is there */
    if (next > i) {
      stage(stages + next % 2 * STAGE, w, at, items, first, queries, next * DEPTH);
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    __syncthreads(); /* the copies of all threads have come */
    multiply(sums, stages + i % 2 * STAGE);
    __syncthreads(); /* every thread has read the stage that is copied to next */
  }
}

/* ---- what passes ---- */

/* The item and the query, in the tile, of score i of this thread. */
__device__ inline unsigned item_of(unsigned i) {
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  return (warp % WARPS_DOWN * ROWS + i / 16) * 16 + i / 2 % 2 * 8 + lane / 4;
}
__device__ inline unsigned query_of(unsigned i) {
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  return (warp / WARPS_DOWN * COLUMNS + i / 4 % 4) * 8 + lane % 4 * 2 + i % 2;
}

/* A bit for each score of this thread that is not too low; a NaN is not. */
__device__ inline uint32_t passing(const float (&sums)[ROWS][COLUMNS][4], const bounds &x,
                                   size_t items, size_t queries) {
  uint32_t passes = 0;
#pragma unroll
  for (unsigned i = 0; i < 32; i++) {
    float score = sums[i / 16][i / 4 % 4][i % 4];
    if (item_of(i) < items && query_of(i) < queries && !(score < x.lowest[query_of(i)])) {
      passes |= 1u << i;
    }
  }
  return passes;
}

/* The score of an item in float32, by a team, in each of its lanes: always the same sums. All teams
 * of the warp must call it; id UINT32_MAX: no item. */
__device__ inline float exact_score(const norm_work &w, uint32_t id, size_t b) {
  float sum = id == UINT32_MAX ? 0.0f
                               : dot_part(w.items + id * w.ld, w.Q + b * w.L, w.L,
                                          threadIdx.x % TEAM, TEAM, w.bytes);
  return team_sum<TEAM>(sum);
}

/* Scores the items that passed again, and appends the keys above the thresholds. */
__device__ inline void append_passing(uint32_t passes, const bounds &x, const norm_work &w,
                                      size_t at, size_t first) {
  __shared__ uint16_t list[LIST];
  __shared__ uint32_t n;
  if (threadIdx.x == 0) n = 0;
  while (__syncthreads_or(passes != 0)) {
    while (passes != 0) {
      uint32_t place = atomicAdd(&n, 1u);
      if (place >= LIST) break; /* it is left for the next round */
      unsigned i = (unsigned)__ffs((int)passes) - 1;
      passes &= passes - 1;
      list[place] = (uint16_t)(item_of(i) * QUERIES + query_of(i));
    }
    __syncthreads();
    unsigned count = n < LIST ? n : LIST, team = threadIdx.x / TEAM;
    for (unsigned i = team / (WARP / TEAM) * (WARP / TEAM); i < count; i += THREADS / TEAM) {
      unsigned j = i + team % (WARP / TEAM); /* i is the same for a warp */
      unsigned item = j < count ? list[j] / QUERIES : 0, query = j < count ? list[j] % QUERIES : 0;
      uint32_t id = j < count ? w.order[at + item] : UINT32_MAX;
      uint64_t key = key_of(exact_score(w, id, first + query), id);
      if (j < count && threadIdx.x % TEAM == 0 && key > x.threshold[query]) {
        append(w.s, first + query, key);
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) n = 0;
  }
}

/* The tiles of a ticket. */
__device__ inline void score_run(const norm_work &w, uint32_t part, uint32_t group, uint32_t run) {
  __shared__ bounds x;
  const stretch &p = w.part[part];
  size_t first = (size_t)group * QUERIES, queries = queries_of(w, group);
  for (uint32_t i = 0; i < p.run; i++) {
    size_t at = p.first + ((size_t)run * p.run + i) * ITEMS;
    if (at >= p.end) return;
    if (!bound_queries(x, w, group, (uint32_t)at)) {
      if (threadIdx.x == 0 && atomicCAS(&w.stopped[group], 0u, (uint32_t)at + 1) == 0) {
        atomicAdd(w.n_done, 1u);
      }
      return;
    }
    float sums[ROWS][COLUMNS][4] = {};
    size_t items = least(ITEMS, p.end - at);
    score_tile(sums, dynamic_shared<uint16_t>(), w, at, items, first, queries);
    append_passing(passing(sums, x, items, queries), x, w, at, first);
  }
}

/* ---- selections ---- */

/* Selects the k best of the keys of a query, if there are new ones, and leaves them in `keys`. If
 * some did not fit, the places since the last selection, up to `end`, are gone through again. */
__device__ inline selection select_best(uint64_t *keys, uint32_t *n, const norm_work &w, size_t b,
                                        uint32_t end) {
  size_t taken = __ldcg(&w.s.n[b]), kept = __ldcg(&w.s.kept[b]);
  selection best = load_selection(keys, n, w.s, b, taken <= CAPACITY ? taken : kept);
  size_t place = __ldcg(&w.scanned[b]) + threadIdx.x / TEAM;
  for (; taken > CAPACITY && place - threadIdx.x / TEAM < end; place += THREADS / TEAM) {
    uint32_t id = place < end ? w.order[place] : UINT32_MAX;
    uint64_t key = key_of(exact_score(w, id, b), id);
    add_key(best, place < end && threadIdx.x % TEAM == 0 ? key : 0);
  }
  keep_best(best);
  return best;
}

/* After a stretch. */
__device__ inline void select_query(const norm_work &w, size_t b, uint32_t end) {
  __shared__ uint32_t n;
  if (__ldcg(&w.s.n[b]) > __ldcg(&w.s.kept[b])) {
    store_selection(w.s, b, select_best(dynamic_shared<uint64_t>(), &n, w, b, end));
  }
  if (threadIdx.x == 0) w.scanned[b] = end;
}

/* ---- the search ---- */

/* The next ticket, in each thread; UINT32_MAX if all groups have stopped. */
__device__ inline uint32_t take_ticket(const norm_work &w) {
  __shared__ uint32_t taken;
  __syncthreads(); /* every thread has read the last ticket and done its work */
  if (threadIdx.x == 0) {
    taken = atomicAdd(w.n_done, 0u) == w.groups ? UINT32_MAX : atomicAdd(w.ticket, 1u);
  }
  __syncthreads();
  return taken;
}

/* Is a group stopped? In each thread the same. */
__device__ inline bool has_stopped(const norm_work &w, uint32_t group) {
  __shared__ uint32_t stopped;
  if (threadIdx.x == 0) stopped = atomicAdd(&w.stopped[group], 0u);
  __syncthreads();
  return stopped != 0;
}

__global__ void __launch_bounds__(THREADS, 2) norm_kernel(norm_work w) {
  for (uint32_t t = take_ticket(w); t != UINT32_MAX; t = take_ticket(w)) {
    uint32_t part = 0, of_part;
    for (; part < w.stretches; part++, t -= of_part) {
      of_part = w.part[part].runs * w.groups + (part + 1 < w.stretches ? (uint32_t)w.B : 0);
      if (t < of_part) break;
    }
    if (part == w.stretches) return;
    uint32_t runs = w.part[part].runs, *scored = w.scored + part * w.groups;
    if (t < runs * w.groups) { /* neighbours in time share the items */
      uint32_t group = t % w.groups;
      if (!has_stopped(w, group)) {
        if (part > 0) wait_for(&w.chosen[(part - 1) * w.groups + group], queries_of(w, group));
        score_run(w, part, group, t / w.groups);
      }
      finish(&scored[group]);
    } else {
      uint32_t b = t - runs * w.groups, group = b / QUERIES;
      wait_for(&scored[group], runs);
      select_query(w, b, w.part[part].end);
      finish(&w.chosen[part * w.groups + group]);
    }
  }
}

/* A block a query: the last selection, and the answer. */
__global__ void __launch_bounds__(THREADS) norm_answer_kernel(answer a, norm_work w) {
  __shared__ uint32_t n;
  size_t b = blockIdx.x;
  uint32_t stopped = w.stopped[b / QUERIES], end = stopped == 0 ? w.limit : stopped - 1;
  selection best = select_best(dynamic_shared<uint64_t>(), &n, w, b, end);
  write_answer(a, b, best, a.zeros && norm_of(w.Q + b * w.L, w.L) == 0);
}

/* ---- the host's side ---- */

/* Places of the next stretch: twice those before it, or fewer, so that the keys which are expected
 * to pass, k of as many as there were before, fill half of the free places. */
static size_t width_after(size_t at, size_t k) {
  size_t first = 2 * k > FIRST_LEAST ? 2 * k : FIRST_LEAST;
  if (at == 0) return first;
  size_t bears = at * (CAPACITY - k) / (2 * k);
  return rounded_up(least(2 * at, bears > ITEMS ? bears : ITEMS), ITEMS);
}

/* Cuts the catalogue into stretches, and these into tickets of which each block has a few. Returns
 * how many tickets there are. */
static size_t cut_stretches(norm_work *w, size_t blocks) {
  size_t tickets = 0;
  for (size_t at = 0; at < w->limit; w->stretches++) {
    size_t left = w->limit - at;
    size_t n = w->stretches + 1 < MOST_STRETCHES ? least(left, width_after(at, w->s.k)) : left;
    size_t tiles = ceil_div(n, ITEMS), run = tiles * w->groups / (4 * blocks);
    run = run < 1 ? 1 : least(run, MOST_RUN);
    size_t runs = ceil_div(tiles, run);
    w->part[w->stretches] = {(uint32_t)at, (uint32_t)(at + n), (uint32_t)run, (uint32_t)runs};
    tickets += runs * w->groups + w->B;
    at += n;
  }
  return tickets;
}

/* Places the arrays of w in scratch and clears the counters. */
static int reserve_work(fopo_device *d, norm_work *w) {
  size_t counters = 0, B = w->B, steps = w->stretches * w->groups;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    w->s.threshold = memory.array<uint64_t>(B);
    w->s.n = memory.array<uint32_t>(B);
    w->s.kept = memory.array<uint32_t>(B);
    w->scanned = memory.array<uint32_t>(B);
    w->stopped = memory.array<uint32_t>(w->groups);
    w->ticket = memory.array<uint32_t>(1);
    w->n_done = memory.array<uint32_t>(1);
    w->scored = memory.array<uint32_t>(steps);
    w->chosen = memory.array<uint32_t>(steps);
    counters = memory.used;
    w->s.keys = memory.array<uint64_t>(B * CAPACITY);
    w->q = memory.array<uint16_t>(B * w->ld_half);
    w->lengths = memory.array<float>(B);
    int status = placed ? FOPO_OK : reserve(d, memory.used, "the search");
    if (status != FOPO_OK) return status;
  }
  return check(cudaMemsetAsync(w->s.threshold, 0, counters, of(d)->stream), "the search");
}

int search_by_norm(fopo_device *d, const answer &to, const fopo_catalogue *c,
                   const fopo_device_batch *batch) {
  norm_work w = {};
  w.s.k = least(to.k, c->limit);
  w.Q = batch->Q, w.B = batch->B, w.L = batch->L;
  w.half = static_cast<const uint16_t *>(c->half.x), w.ld_half = c->half.ld;
  w.items = c->items, w.ld = c->ld, w.order = c->order, w.norms = c->norms;
  w.bytes = load_bytes<float>(c->items, c->ld, w.L);
  w.zeros = to.zeros;
  w.limit = (uint32_t)c->limit;
  w.groups = (uint32_t)ceil_div(w.B, QUERIES);
  size_t held = blocks_held(d, norm_kernel, THREADS, SHARED);
  size_t tickets = cut_stretches(&w, held);
  int status = reserve_work(d, &w);
  if (status != FOPO_OK) return status;
  status = launch(d, "the search", ceil_div(w.B * WARP, THREADS), THREADS, 0, narrow_kernel, w);
  if (status == FOPO_OK) {
    status = launch(d, "the search", least(held, tickets), THREADS, SHARED, norm_kernel, w);
  }
  if (status != FOPO_OK) return status;
  return launch(d, "the search", w.B, THREADS, SHARED, norm_answer_kernel, to, w);
}

/* ---- the copy ---- */

/* A block a row. */
__global__ void round_kernel(uint16_t *half, size_t ld_half, const float *items, size_t ld,
                             const uint32_t *order, size_t L) {
  const float *row = items + order[blockIdx.x] * ld;
  for (size_t i = threadIdx.x; i < ld_half; i += blockDim.x) {
    half[blockIdx.x * ld_half + i] = i < L ? to_bf16(row[i]) : 0;
  }
}

int round_items(fopo_device *d, fopo_rows *half, fopo_matrix items, const uint32_t *order) {
  *half = {};
  if (!of(d)->has_bf16) return alive();
  size_t ld = fopo_rows_ld(items.cols);
  void *x = nullptr;
  int status = alloc(d, &x, items.rows * ld * sizeof(uint16_t));
  if (status != FOPO_OK) return status;
  unsigned threads = (unsigned)least(rounded_up(ld, WARP), THREADS);
  status = launch(d, "rounding the items", items.rows, threads, 0, round_kernel,
                  static_cast<uint16_t *>(x), ld, items.x, items.ld, order, items.cols);
  if (status != FOPO_OK) {
    release(d, x);
    return status;
  }
  *half = {x, ld, FOPO_BFLOAT16};
  return FOPO_OK;
}

} // namespace gpu
