/* A tile of the norm search: the product of ITEMS items and QUERIES queries in bfloat16 by the
 * tensor cores, in registers, while the next numbers of their rows are copied to shared memory. A
 * score is dropped if it is too far below the query's threshold to be explained by rounding; the
 * other items are scored again in float32, eight threads an item, before their keys are compared.
 */
#ifndef FOPO_DEVICE_CUDA_NORM_TILE_CUH
#define FOPO_DEVICE_CUDA_NORM_TILE_CUH

#include "device/cuda/rows.cuh"
#include "device/cuda/tensor.cuh"
#include "device/cuda/topk.cuh"

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

__device__ inline uint32_t queries_of(const norm_work &w, uint32_t group) {
  return (uint32_t)least(QUERIES, w.B - (size_t)group * QUERIES);
}

/* ---- its queries ---- */

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

/* Fills x for the tile at place `at`; false if no query needs this tile or a later one. */
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

/* ---- the product ---- */

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

} // namespace gpu

#endif
