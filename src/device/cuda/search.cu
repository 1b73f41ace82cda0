/* The k items of largest score, on the GPU: the queries times a tile of the catalogue after the
 * other, and a running selection, so that no more than a tile of scores is ever kept.
 *
 * Items are keys, as in mips/topk.h: the score's bits, made to order like integers, above the
 * complement of the id. Each query has room for ROOM keys in global memory: the k best of the tiles
 * up to some point, in descending order, and behind them what of the tiles since is above the k-th.
 * Blocks look through a tile's scores, each once, and append what passes. The last block to come
 * through for a query sorts them all and keeps k; but only where so many were appended that a
 * higher floor is worth it, or the k best are asked for. So a query's keys are sorted each time
 * that the items seen have doubled or so, and of most tiles hardly anything is written.
 *
 * Tiles grow as far as what the floor lets pass can be expected to fit; where it does not, as in a
 * catalogue sorted the wrong way, the last block goes through the tile once more by itself. Keys
 * are distinct: the order in which they are appended changes nothing.
 *
 * Where the items are there in bfloat16 too, tiles are multiplied in that, on the card's tensor
 * cores and from half of the bytes, once the queries have floors. What is so far below a floor that
 * no rounding explains it is dropped; the score of what is left is computed from the items
 * themselves before it is compared. So the answer is that of the items.
 *
 * A catalogue with an order is read by that order: its head as it is, further items gathered into a
 * tile that stays in the cache, each row read once. Whether to go on is decided on the device by
 *
 *     |q| |beta| (1 + rounding) < k-th best score,   |beta| the norm of the first item left
 *
 * (Cauchy and Schwarz) for all queries, and the answer fetched, for a product cannot be called off
 * by the device. That round trip takes some 10 microseconds and is made seldom: a short prefix is
 * searched without any. */
#include <cfloat>
#include <cmath>

#include "device/cuda/cuda.cuh"
#include "device/cuda/rows.cuh"

namespace gpu {

constexpr size_t ROOM = 4096; /* keys: 32 KiB */
static_assert(2 * FOPO_TOPK_MOST <= ROOM, "a first tile must find room");
static_assert(FOPO_TOPK_MOST + 2 * THREADS <= ROOM, "a round of keys must fit behind the best");

constexpr size_t LATE = 512; /* appended keys that are worth a sort */
static_assert(FOPO_TOPK_MOST + 2 * LATE <= ROOM, "a tile must find room behind those");

constexpr size_t FIRST_LEAST = 512; /* items of a first tile, all of which pass */
constexpr size_t TILE_LEAST = 2048; /* items: a product of fewer does not fill a card */

/* Multiplications of one processor that take as long as asking whether to go on. */
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

/* For a first look: |q|, rounded up, and q in bfloat16 with zeros up to ld. A warp for each query.
 */
__global__ void narrow_kernel(uint16_t *narrowed, float *lengths, const float *Q, size_t B,
                              size_t L, size_t ld) {
  size_t b = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
  if (b >= B) return; /* the whole warp */
  const float *q = Q + b * L;
  double length = norm_of(q, L);
  if (threadIdx.x % WARP == 0) lengths[b] = nextafterf((float)length, INFINITY);
  for (size_t i = threadIdx.x % WARP; i < ld; i += WARP) {
    narrowed[b * ld + i] = i < L ? narrow(q[i]) : 0;
  }
}

/* ---- the selection of a block ---- */

/* keys [ROOM], of which the first *n are taken. Key 0 is worse than any. */
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

/* ---- the selection of a query ---- */

/* What the scores of a first look are made up for with: those that pass are computed again. */
struct look {
  const float *items;   /* [P, ld]; NULL: the scores are what counts */
  const float *Q;       /* [B, L] */
  const float *lengths; /* [B] |q|, rounded up */
  const float *norms;   /* [P] by place */
  size_t ld, L;
  int bytes; /* of a load */
};

/* One tile of the catalogue: scores f [B, ld] of `width` items from place `first` on. */
struct tile {
  const float *f;
  const uint32_t *order; /* NULL: places are ids */
  look again;
  size_t ld, width, first;
  unsigned parts; /* blocks of one query */
  bool wanted;    /* the k best are asked for after it */
};

struct search {
  uint64_t *keys;    /* [B, ROOM] */
  uint32_t *n;       /* [B] keys of the query, also those that found no room */
  uint32_t *before;  /* [B] so many were there before the tile, */
  uint32_t *sorted;  /* [B] and of them so many are the best up to some point, in order: k, or 0 */
  uint32_t *arrived; /* [B] blocks that are through with the tile */
  size_t k;
};

/* The k-th best of tiles before, 0 where there is none. */
__device__ inline uint64_t floor_of(const search &s, size_t b) {
  return s.sorted[b] == s.k ? s.keys[b * ROOM + s.k - 1] : 0;
}

/* The least score of the tile that may belong to a key above the floor. In a first look both
 * operands are within 2^-8 of their values (kernels/prefilter.h); for the sums, which the card
 * makes in an order and with a rounding of its own, 2^-20 for each product are sixteen roundings of
 * float. */
__device__ inline float lowest_of(const tile &t, size_t b, uint64_t floor) {
  if (floor == 0) return -INFINITY;
  if (t.again.items == nullptr) return score_of(floor);
  double q = (double)t.again.lengths[b], beta = (double)t.again.norms[t.first];
  double L = (double)t.again.L;
  double slack = q * beta * (0x1p-7 + 0x1p-16 + (L + 16) * 0x1p-20) +
                 (double)FLT_MIN * (sqrt(L) * (q + beta) + 2 * L);
  return nextafterf((float)((double)score_of(floor) - slack), -INFINITY);
}

/* The key of the tile's item `at` where it is above the floor, else 0. */
__device__ inline uint64_t passing(const tile &t, size_t b, size_t at, float score, uint64_t floor,
                                   float lowest) {
  if (score < lowest) return 0;
  size_t place = t.first + at;
  uint32_t id = t.order != nullptr ? t.order[place] : (uint32_t)place;
  const look &o = t.again;
  if (o.items != nullptr) {
    score = dot_part(o.items + id * o.ld, o.Q + b * o.L, o.L, 0, 1, o.bytes);
  }
  uint64_t key = key_of(score, id);
  return key > floor ? key : 0;
}

__device__ inline void append(const search &s, size_t b, uint64_t key) {
  uint32_t place = atomicAdd(&s.n[b], 1u);
  if (place < ROOM) s.keys[b * ROOM + place] = key;
}

/* The k best of all that was seen, where it is time to know them: of the keys there are, or, where
 * some found no room, of those before and all of the tile. */
__device__ inline void settle_query(const search &s, const tile &t, size_t b) {
  __shared__ uint64_t keys[ROOM];
  __shared__ uint32_t n;
  size_t taken = __ldcg(&s.n[b]), held = taken <= ROOM ? taken : s.before[b];
  if (t.wanted || taken > ROOM || taken - s.sorted[b] >= least(s.k, LATE)) {
    selection own = {keys, &n, s.k, floor_of(s, b)};
    for (size_t i = threadIdx.x; i < held; i += blockDim.x) keys[i] = __ldcg(&s.keys[b * ROOM + i]);
    if (threadIdx.x == 0) n = (uint32_t)held;
    float lowest = lowest_of(t, b, own.floor);
    for (size_t i = 0; taken > ROOM && i < t.width; i += blockDim.x) {
      size_t at = i + threadIdx.x;
      offer(own, at < t.width ? passing(t, b, at, t.f[b * t.ld + at], own.floor, lowest) : 0);
    }
    settle(own);
    held = least(s.k, t.first + t.width);
    for (size_t i = threadIdx.x; i < held; i += blockDim.x) s.keys[b * ROOM + i] = keys[i];
    if (threadIdx.x == 0) s.sorted[b] = held == s.k ? (uint32_t)held : 0;
  }
  if (threadIdx.x != 0) return;
  s.n[b] = s.before[b] = (uint32_t)held;
  s.arrived[b] = 0;
}

__global__ void select_kernel(search s, tile t) {
  __shared__ bool last;
  size_t b = blockIdx.x / t.parts, span = ((t.width + t.parts - 1) / t.parts + 3) / 4 * 4;
  size_t begin = blockIdx.x % t.parts * span;
  size_t end = begin + span < t.width ? begin + span : t.width;
  const float *f = t.f + b * t.ld;
  uint64_t floor = floor_of(s, b);
  float lowest = lowest_of(t, b, floor);
  for (size_t at = begin + threadIdx.x * 4; at < end; at += blockDim.x * 4) {
    float x[4];
    if (at + 4 <= end) load<16>(x, f + at);
    for (size_t j = 0; j < 4 && at + j < end; j++) {
      float score = at + 4 <= end ? x[j] : f[at + j];
      uint64_t key = passing(t, b, at + j, score, floor, lowest);
      if (key != 0) append(s, b, key);
    }
  }
  /* the last block to arrive sees what all have appended */
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&s.arrived[b], 1u) == t.parts - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  settle_query(s, t, b);
}

/* ---- whether to go on ---- */

/* *open: 1 where an item from place `next` on can score as high as the k-th best of a query. One
 * block; a warp takes every so manieth query. Those of norm 0 are answered without a look. */
__global__ void open_kernel(uint32_t *open, search s, const float *Q, const float *norms,
                            size_t next, int zeros, size_t B, size_t L) {
  float can = 0;
  double share = (1 + (double)(L + 16) * 0x1p-23) * (double)norms[next];
  for (size_t b = threadIdx.x / WARP; b < B; b += blockDim.x / WARP) {
    double norm = norm_of(Q + b * L, L), kth = (double)score_of(s.keys[b * ROOM + s.k - 1]);
    if (!(norm * share + (double)FLT_MIN < kth) && !(zeros && norm == 0)) can = 1;
  }
  can = block_max(can);
  if (threadIdx.x == 0) *open = can > 0;
}

/* ---- the answer ---- */

/* zeros: a query of norm 0 scores 0 everywhere, so its best are the smallest ids. */
__global__ void answer_kernel(uint32_t *ids, float *scores, uint32_t *counts, search s,
                              const float *Q, int zeros, size_t L, size_t k) {
  size_t b = blockIdx.x;
  bool zero = zeros && norm_of(Q + b * L, L) == 0;
  for (size_t i = threadIdx.x; i < k; i += blockDim.x) {
    uint64_t key = zero ? key_of(0, (uint32_t)i) : i < s.k ? s.keys[b * ROOM + i] : 0;
    ids[b * k + i] = i < s.k ? ~(uint32_t)key : UINT32_MAX;
    scores[b * k + i] = i < s.k ? score_of(key) : -INFINITY;
  }
  if (threadIdx.x == 0) counts[b] = (uint32_t)s.k;
}

/* ---- the course of a search ---- */

/* One call of topk, with its arrays in scratch. */
struct call {
  fopo_device *d;
  const float *Q;
  const fopo_catalogue *c;
  size_t B, L, most; /* most: items of a tile */
  search s;
  float *f;    /* [B, most] */
  float *rows; /* [most, L] items that are gathered, where some are */
  uint32_t *open;
  bool screens;         /* tiles get a first look, by */
  uint16_t *q, *halves; /* [B, half.ld], [most, half.ld] in bfloat16 */
  float *lengths;       /* [B] */
  size_t asked;         /* items when it was last asked whether to go on */
};

/* A tile's scores, and the rows that were gathered for it, stay in half of the cache. */
static size_t most_of(const state *s, const fopo_catalogue *c, size_t B, size_t L, bool gathers) {
  size_t item = (B + (gathers ? L : 0)) * sizeof(float), most = s->cache / 2 / item;
  most = least(most > TILE_LEAST ? most : TILE_LEAST, c->limit);
  return (most + 3) / 4 * 4; /* rows of scores begin at 16 bytes */
}

static int make_room(call *a) {
  const fopo_catalogue *c = a->c;
  bool gathers = c->order != nullptr && c->limit > c->packed_rows;
  a->screens =
      of(a->d)->has_bf16 && c->half.x != nullptr && c->norms != nullptr && c->order != nullptr;
  a->most = most_of(of(a->d), c, a->B, a->L, gathers);
  for (int placed = 0; placed < 2; placed++) {
    carving room = {placed ? of(a->d)->scratch : nullptr, 0};
    a->s.n = room.take<uint32_t>(4 * a->B + 1);
    a->s.keys = room.take<uint64_t>(a->B * ROOM);
    a->f = room.take<float>(a->B * a->most);
    a->rows = room.take<float>(gathers ? a->most * a->L : 0);
    a->q = room.take<uint16_t>(a->screens ? a->B * c->half.ld : 0);
    a->halves = room.take<uint16_t>(a->screens ? a->most * c->half.ld : 0);
    a->lengths = room.take<float>(a->screens ? a->B : 0);
    int status = placed ? FOPO_OK : reserve(a->d, room.used, "a search");
    if (status != FOPO_OK) return status;
  }
  a->s.before = a->s.n + a->B;
  a->s.sorted = a->s.before + a->B;
  a->s.arrived = a->s.sorted + a->B;
  a->open = a->s.arrived + a->B;
  return check(cudaMemsetAsync(a->s.n, 0, (4 * a->B + 1) * sizeof *a->s.n, of(a->d)->stream),
               "a search");
}

/* Items of the tile at place `at`: as many as the room for keys is expected to bear, all of them
 * inside the head or all behind it. */
static size_t width_at(const call *a, size_t at) {
  const fopo_catalogue *c = a->c;
  size_t k = a->s.k, first = 2 * k > FIRST_LEAST ? 2 * k : FIRST_LEAST;
  size_t bears = at < k ? first : at * (ROOM - k - LATE) / (4 * k);
  size_t end =
      c->order != nullptr && at < c->packed_rows ? least(c->packed_rows, c->limit) : c->limit;
  return least(least(bears, a->most), end - at);
}

/* Scores in bfloat16, each row read once. A row of halves is moved as a row of floats. */
static int look_at_tile(const call *a, size_t at, size_t width) {
  const fopo_catalogue *c = a->c;
  size_t words = c->half.ld / 2;
  int status =
      gather_words(a->d, reinterpret_cast<float *>(a->halves),
                   static_cast<const float *>(c->half.x), words, c->order + at, width, words);
  return status != FOPO_OK
             ? status
             : gemm_brain(a->d, a->f, a->most, a->q, a->halves, a->B, width, c->half.ld);
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
  return status != FOPO_OK
             ? status
             : gemm(a->d, a->f, a->most, 1.0f, a->Q, a->L, 0, rows, ld, 1, 0.0f, a->B, width, a->L);
}

static int select_tile(const call *a, size_t at, size_t width, bool looked, bool wanted) {
  const fopo_catalogue *c = a->c;
  unsigned parts = (unsigned)splits_of(of(a->d), a->B, width, 4 * THREADS);
  look again = {looked ? c->items : nullptr,
                a->Q,
                a->lengths,
                c->norms,
                c->ld,
                a->L,
                load_bytes<float>(c->items, c->ld, a->L)};
  tile t = {a->f, c->order, again, a->most, width, at, parts, wanted};
  return launch(a->d, "a search", a->B * parts, THREADS, 0, select_kernel, a->s, t);
}

/* Whether it is worth asking if what lies beyond place `next` can matter: where the work left is
 * worth the round trip, and that since the last one and a quarter of all before it. */
static bool worth_asking(const call *a, size_t next) {
  size_t left = a->c->limit - next, since = next - a->asked;
  double work = (double)a->B * (double)a->L * (double)least(left, since);
  return a->c->norms != nullptr && next >= a->s.k && since >= next / 4 &&
         work >= ROUND_TRIP * (double)of(a->d)->processors;
}

/* Whether it can, into *open. */
static int ask(call *a, size_t next, int zeros, uint32_t *open) {
  int status = launch(a->d, "a search", 1, 1024, 0, open_kernel, a->open, a->s, a->Q, a->c->norms,
                      next, zeros, a->B, a->L);
  a->asked = next;
  return status != FOPO_OK ? status : get(a->d, open, a->open, sizeof *open);
}

static int run_tiles(call *a, int zeros) {
  uint32_t open = 1;
  int status = !a->screens
                   ? FOPO_OK
                   : launch(a->d, "a search", ceil_div(a->B * WARP, THREADS), THREADS, 0,
                            narrow_kernel, a->q, a->lengths, a->Q, a->B, a->L, a->c->half.ld);
  for (size_t at = 0; at < a->c->limit && open && status == FOPO_OK;) {
    if (fopo_interrupted()) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while searching");
    size_t width = width_at(a, at), next = at + width;
    bool asks = worth_asking(a, next), looks = a->screens && at >= a->s.k; /* there are floors */
    status = looks ? look_at_tile(a, at, width) : score_tile(a, at, width);
    if (status == FOPO_OK) status = select_tile(a, at, width, looks, asks || next == a->c->limit);
    if (status == FOPO_OK && asks) status = ask(a, next, zeros, &open);
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
  int zeros = c->norms != nullptr && c->limit == c->P, status = make_room(&a);
  if (status == FOPO_OK) status = run_tiles(&a, zeros);
  if (status != FOPO_OK) return status;
  return launch(d, "a search", a.B, THREADS, 0, answer_kernel, sets->ids, sets->scores,
                sets->counts, a.s, a.Q, zeros, a.L, sets->k);
}

} // namespace gpu
