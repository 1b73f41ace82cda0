/* Self-normalised importance sampling by blocks of threads, of rows that are read once: what a
 * block draws, what it adds up, and what the last block of a context makes of the sums. For the
 * kernel of one estimate (snis.cu) and that of many steps (persistent.cu). */
#ifndef FOPO_DEVICE_CUDA_SNIS_BLOCK_CUH
#define FOPO_DEVICE_CUDA_SNIS_BLOCK_CUH

#include <cmath>

#include "device/cuda/snis.cuh"
#include "device/cuda/team.cuh"

namespace gpu {

/* ---- the samples of a block ---- */

constexpr size_t TILE = 1024; /* samples that a block can draw */

/* In memory, or in shared memory if the block draws them. */
struct samples_at {
  const uint32_t *ids;
  const float *logq, *r;
};

__device__ inline samples_at drawn_at(char *memory, size_t chunk) {
  const uint32_t *ids = reinterpret_cast<const uint32_t *>(memory);
  const float *logq = reinterpret_cast<const float *>(ids + chunk);
  return {ids, logq, logq + chunk};
}

/* Draws samples from .. end - 1 of the S of context b, whose id is `row`, and looks up their
 * rewards, by all threads of a block. Not inlined, for there are dozens of kernels that do it. */
static __device__ __noinline__ void draw_samples(const drawing &x, fopo_draw_key key, uint32_t row,
                                                 char *memory, size_t chunk, size_t b, size_t S,
                                                 size_t from, size_t end) {
  samples_at to = drawn_at(memory, chunk);
  uint32_t *ids = const_cast<uint32_t *>(to.ids);
  float *logq = const_cast<float *>(to.logq), *r = const_cast<float *>(to.r);
  sample_range own = {from, end, threadIdx.x, blockDim.x};
  auto put = [&](size_t s, uint32_t id, float q) {
    ids[s - from] = id;
    logq[s - from] = q;
    r[s - from] = reward_of(x.reward, row, id);
  };
  bool listed = x.kind == MIXTURE || x.kind == TAIL;
  size_t place_of = listed && x.kept != nullptr ? x.kept[b] : b;
  size_t n = listed ? least(x.m.counts[place_of], x.m.k) : 0;
  const uint32_t *candidates_of = x.m.ids + place_of * x.m.k;
  char *room = x.scratch != nullptr ? x.scratch + blockIdx.x * x.bytes : memory + chunk * 12;
  if (x.kind == TAIL) {
    uint32_t *sorted = reinterpret_cast<uint32_t *>(room);
    sort_ids(sorted, candidates_of, n, x.capacity);
    tail_draws(own, sorted, n, S - n, x.P, row, key, put);
  } else if (x.kind == OTHERS) {
    others_draws(own, x.order, x.H, x.listed, S - x.listed, x.P, row, key, put);
  } else if (n > 0) {
    candidates c = place(room, x.m.k, x.bits);
    if (!prepare(c, candidates_of, x.m.scores + b * x.m.k, n, x.m.epsilon, (double)x.P)) n = 0;
    if (n > 0) mixture_draws(own, x.m, c, candidates_of, n, row, key, x.P, put);
  }
  if (n == 0 && (x.kind == UNIFORM || x.kind == MIXTURE)) {
    float density = x.m.uniform;
    uniform_draws(own, x.P, row, key, [&](size_t s, uint32_t id) { put(s, id, density); });
  }
  __syncthreads();
}

/* ---- the sums of a block ---- */

/* sparse_score with 32-bit counters: snis_kernel has no registers for more. */
__device__ inline float sparse_of(const fopo_sparse_scores &s, uint32_t row, uint32_t id) {
  uint64_t first = s.indptr[row];
  uint32_t n = (uint32_t)(s.indptr[row + 1] - first);
  const uint32_t *at = s.ids + first;
  while (n > 0) {
    uint32_t middle = n / 2;
    bool below = at[middle] < id;
    if (below) at += middle + 1;
    n = below ? n - middle - 1 : middle;
  }
  if (at == s.ids + s.indptr[row + 1] || *at != id) return 0.0f;
  return s.values != nullptr ? s.values[at - s.ids] : -INFINITY;
}

constexpr size_t SPLITS_MOST = 256;

struct snis_arguments {
  sums *partial;      /* [B, splits] */
  float *u, *v;       /* [B, splits, L] */
  float *V;           /* [B, L]; NULL: the partial sums alone are wanted */
  float *c;           /* [B, S], for samples that are given; NULL: not wanted */
  float *stats;       /* [B, FOPO_STATS] */
  unsigned *arrivals; /* one for the batch, then one for each context */
  const float *Q;
  const void *items;
  size_t ld;
  float floor;
  fopo_objective_kind objective;
  fopo_sparse_scores sparse;
  size_t S, L, chunk; /* samples of a block, a multiple of 4 */
  unsigned splits;
  bool rounded; /* the rows of a head that is listed are read as if in bfloat16 */
  drawing from;
  batch_stats batch;
};

/* Adds the partial sums of context b into V [B, L] and stats [B, FOPO_STATS], and computes c, which
 * holds f - log q; by one block, with factor [SPLITS_MOST]. */
static __device__ __noinline__ void finish_context(const snis_arguments &a, float *V, float *stats,
                                                   size_t b, double *factor) {
  size_t splits = a.splits, S = a.S, L = a.L;
  const sums *partial = a.partial + b * splits;
  const float *of_w = a.u + b * splits * L, *of_wd = a.v + b * splits * L;
  /* the scalars of all blocks, scaled to one shift: factor [splits] */
  sums t = {partial[0].shift, partial[0].low, 0, 0, 0, 0};
  for (size_t k = 1; k < splits; k++) t.shift = larger(t.shift, partial[k].shift);
  for (size_t k = threadIdx.x; k < splits; k += blockDim.x) {
    float shift = partial[k].shift; /* -infinity: its draws are all masked, or there are none */
    factor[k] = shift == -INFINITY ? 0.0 : exp((double)shift - (double)t.shift);
  }
  __syncthreads();
  for (size_t k = 0; k < splits; k++) {
    t.w += factor[k] * partial[k].w;
    t.ww += factor[k] * factor[k] * partial[k].ww;
    t.wd += factor[k] * partial[k].wd;
    t.head += factor[k] * partial[k].head;
  }
  /* V [L] = sum wbar (gamma (r - rbar) + alpha) beta, from sum w d beta and sum w beta */
  double dbar = t.wd / t.w;
  fopo_objective_rule rule = rule_of(a.objective, t);
  for (size_t i = threadIdx.x; i < L; i += blockDim.x) {
    double u = 0, v = 0;
#pragma unroll 4
    for (size_t k = 0; k < splits; k++) {
      u += factor[k] * (double)of_w[k * L + i];
      v += factor[k] * (double)of_wd[k * L + i];
    }
    double direction = fopo_objective_direction(&rule, v, dbar, u, t.w);
    V[b * L + i] = all_masked(t) ? 0.0f : (float)direction;
  }
  if (threadIdx.x == 0) write_stats(stats + b * FOPO_STATS, t, rule);
  /* c [S] */
  if (a.c == nullptr) return;
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) {
    a.c[b * S + s] = coefficient(a.c[b * S + s], a.from.given.r[b * S + s], t, rule);
  }
}

/* A block's part of the samples of context b: n from `begin` on. */
struct chunk_place {
  size_t at, b, begin, n; /* at: the row of the partial sums, of B * splits */
  uint32_t row;           /* the context's id; read if the kernel STAYS */
  float low;
};

/* Adds up the samples x of a block, with the context's query Q [L], into its row of the partial
 * sums, with of_warps [THREADS / WARP, LANES * PER]. TEAMS take one sample at a time; a team has
 * the next FLIGHT rows on their way while it computes with one. */
template <class T, int BYTES, int LANES, int PER, int FLIGHT, bool STAYS>
__device__ inline void add_chunk(const snis_arguments &a, const chunk_place &k, const float *Q,
                                 const samples_at &x_s, float *of_warps) {
  constexpr int TEAMS = THREADS / LANES;
  size_t S = a.S, L = a.L, n = k.n;
  unsigned lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
  const T *items = static_cast<const T *>(a.items);

  /* q [L] in registers, spread over the lanes of a team as the rows will be */
  float q[PER], x[PER], next[FLIGHT][PER] = {};
#pragma unroll
  for (int e = 0; e < PER; e++) {
    size_t at = place_in_row<BYTES, T>(e, lane, LANES);
    q[e] = at < L ? Q[at] : 0.0f;
  }

  /* a team's sums over its samples s = team, team + TEAMS, ...; the rows of the next ones, and the
   * ids of those after them, are on their way while a row is used */
  running<PER> t = {};
  t.shift = -INFINITY;
  uint32_t id[FLIGHT];
#pragma unroll
  for (int j = 0; j < FLIGHT; j++) {
    size_t s = team + j * TEAMS, later = s + FLIGHT * TEAMS;
    if (s < n) load_row<BYTES, LANES, PER>(next[j], items + x_s.ids[s] * a.ld, L, lane);
    id[j] = later < n ? x_s.ids[later] : 0;
  }
  for (size_t first = 0; first < n; first += FLIGHT * TEAMS) {
#pragma unroll
    for (int j = 0; j < FLIGHT; j++) {
      size_t s = first + j * TEAMS + team;
      if (j > 0 && s - team >= n) break;
      bool active = s < n; /* a team without a sample still takes part in its warp's shuffles */
      float f = 0.0f;
#pragma unroll
      for (int e = 0; e < PER; e++) x[e] = next[j][e];
      if (s + FLIGHT * TEAMS < n) {
        load_row<BYTES, LANES, PER>(next[j], items + id[j] * a.ld, L, lane);
      }
      if (s + 2 * FLIGHT * TEAMS < n) id[j] = x_s.ids[s + 2 * FLIGHT * TEAMS];
      if constexpr (STAYS) {
        bool rounds = a.rounded && active && x_s.logq[s] == 0.0f;
#pragma unroll
        for (int e = 0; e < PER; e++) x[e] = rounds ? to_float(bf16{to_bf16(x[e])}) : x[e];
      }
#pragma unroll
      for (int e = 0; e < PER; e++) f += x[e] * q[e];
      f = team_sum<LANES>(f);
      if (!active) continue;
      if (a.sparse.indptr != nullptr) {
        f += sparse_of(a.sparse, STAYS ? k.row : a.sparse.rows[k.b], x_s.ids[s]);
      }
      f -= x_s.logq[s];
      if (!STAYS && a.c != nullptr && lane == 0) a.c[k.b * S + k.begin + s] = f;
      add_sample(t, x, f, x_s.r[s] - k.low, x_s.logq[s] > a.floor);
    }
  }

  /* all teams scaled to one shift (a team without a sample has sums of 0), and their sums: the
   * scalars, then u [L] and v [L] */
  float shift = block_max(t.shift), factor = shift_factor(t.shift, shift);
  double own = lane == 0 ? (double)factor : 0.0;
  double x4[] = {own * (double)t.w, own * (double)factor * (double)t.ww, own * (double)t.wd,
                 own * (double)t.head};
  block_sums(x4);
  if (threadIdx.x == 0) a.partial[k.at] = {shift, k.low, x4[0], x4[1], x4[2], x4[3]};
#pragma unroll
  for (int e = 0; e < PER; e++) t.u[e] *= factor, t.v[e] *= factor;
  add_warps<T, BYTES, LANES, PER>(a.u + k.at * L, of_warps, t.u, L);
  add_warps<T, BYTES, LANES, PER>(a.v + k.at * L, of_warps, t.v, L);
}

/* ---- the kernels of all kinds of rows ---- */

/* f.operator()<T, BYTES, LANES, PER>() of rows of L numbers. */
template <class T, int BYTES, class F> static auto by_length(size_t L, F f) {
  if (L <= 16) return f.template operator()<T, BYTES, 1, 16>();
  if (L <= 32) return f.template operator()<T, BYTES, 4, 8>();
  if (L <= 128) return f.template operator()<T, BYTES, 8, 16>();
  if (L <= 512) return f.template operator()<T, BYTES, 32, 16>();
  return f.template operator()<T, BYTES, 32, 32>();
}

template <class T, class F> static auto by_load(const fopo_rows *items, size_t L, F f) {
  int bytes = load_bytes<T>(items->x, items->ld, L);
  if constexpr (sizeof(T) == 4) {
    if (bytes == 4) return by_length<T, 4>(L, f);
    if (bytes == 8) return by_length<T, 8>(L, f);
  }
  return by_length<T, 16>(L, f);
}

template <class F> static auto by_rows(const fopo_rows *items, size_t L, F f) {
  return by_type(items->type, [=]<class T>() { return by_load<T>(items, L, f); });
}

/* snis.cu: how many blocks share the samples of a context, if the card holds so many blocks at a
 * time; and how many samples each of them has. */
size_t splits_in_waves(size_t held, size_t B, size_t S, size_t teams);
size_t chunk_of(size_t S, size_t splits);

} // namespace gpu

#endif
