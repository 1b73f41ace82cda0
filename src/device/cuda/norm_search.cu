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
 * A tile is scored on the tensor cores, and what rounding leaves in doubt again in float32
 * (norm_tile.cuh), so the result is that of the float32 items.
 *
 * A query is done if
 *
 *     |q| |beta| (1 + rounding) < k-th best score,   |beta| the norm of the tile's first item
 *
 * (Cauchy and Schwarz); a group stops if all of its queries are done. If the keys that pass do not
 * fit, as in a catalogue in ascending order of score, the block that selects goes through the
 * stretch again by itself, in float32. */
#include "device/cuda/norm_tile.cuh"
#include "device/cuda/search.cuh"

namespace gpu {

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

/* ---- the tiles of a ticket ---- */

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

/* The next ticket, in each thread; UINT32_MAX if all groups have stopped. Every thread has read the
 * last one: it has come from arrive. */
__device__ inline uint32_t take_ticket(const norm_work &w) {
  __shared__ uint32_t taken;
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
      arrive(&scored[group]);
    } else {
      uint32_t b = t - runs * w.groups, group = b / QUERIES;
      wait_for(&scored[group], runs);
      select_query(w, b, w.part[part].end);
      arrive(&w.chosen[part * w.groups + group]);
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
