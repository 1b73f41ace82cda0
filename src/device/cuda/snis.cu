/* Self-normalised importance sampling on the GPU, of rows of at most FOPO_FUSED_DIM numbers, in one
 * kernel. They are read once: a team of 1, 4, 8 or 32 threads loads a row into registers, computes
 * its score, and adds the row to sums that are relative to the largest f - log q so far (an online
 * softmax). The sums of a block's teams are then scaled to one shift and added, and the last block
 * of a context to arrive adds those of its blocks. Longer rows: snis_long.cu. */
#include <cmath>
#include <cstdlib>

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

/* Draws samples from .. end - 1 of the S of context b, and looks up their rewards, by all threads
 * of a block. Not inlined, for there are dozens of kernels that do it. */
__device__ __noinline__ void draw_samples(const drawing &x, char *memory, size_t chunk, size_t b,
                                          size_t S, size_t from, size_t end) {
  samples_at to = drawn_at(memory, chunk);
  uint32_t *ids = const_cast<uint32_t *>(to.ids), row = x.rows[b];
  float *logq = const_cast<float *>(to.logq), *r = const_cast<float *>(to.r);
  fopo_draw_key key = current(x.key);
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
    others_draws(own, x.order, x.H, 0, S, x.P, row, key, put);
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

/* ---- the kernel ---- */

/* sparse_score with 32-bit counters: snis_kernel has no registers for more. */
__device__ inline float sparse_of(const fopo_sparse_scores &s, size_t b, uint32_t id) {
  uint64_t first = s.indptr[s.rows[b]];
  uint32_t n = (uint32_t)(s.indptr[s.rows[b] + 1] - first);
  const uint32_t *at = s.ids + first;
  while (n > 0) {
    uint32_t middle = n / 2;
    bool below = at[middle] < id;
    if (below) at += middle + 1;
    n = below ? n - middle - 1 : middle;
  }
  if (at == s.ids + s.indptr[s.rows[b] + 1] || *at != id) return 0.0f;
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
  drawing from;
  batch_stats batch;
};

/* Adds the partial sums of context b into V and stats, and computes c, which holds f - log q; by
 * one block, with factor [SPLITS_MOST]. */
__device__ __noinline__ void finish_context(const snis_arguments &a, size_t b, double *factor) {
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
    a.V[b * L + i] = all_masked(t) ? 0.0f : (float)direction;
  }
  if (threadIdx.x == 0) write_stats(a.stats + b * FOPO_STATS, t, rule);
  /* c [S] */
  if (a.c == nullptr) return;
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) {
    a.c[b * S + s] = coefficient(a.c[b * S + s], a.from.given.r[b * S + s], t, rule);
  }
}

__device__ __noinline__ void finish_batch(const snis_arguments &a) {
  add_up_batch(a.batch, a.stats);
}

/* Each context has `splits` blocks with a chunk of its samples each, which a block draws, or finds
 * in memory. TEAMS take one at a time; a team loads its next row before it computes with the one it
 * holds. The block writes its sums, and its rows of u and v; the last block of a context adds them,
 * and the last of the batch adds up the statistics. Two blocks of short rows fit one processor. */
template <class T, int BYTES, int LANES, int PER>
__global__ void __launch_bounds__(THREADS, LANES *PER <= 512 ? 2 : 1)
    snis_kernel(const __grid_constant__ snis_arguments a) {
  constexpr int TEAMS = THREADS / LANES;
  await_inputs();
  char *memory = dynamic_shared<char>();
  size_t b = blockIdx.x / a.splits, S = a.S, L = a.L;
  size_t begin = blockIdx.x % a.splits * a.chunk, n = least(a.chunk, S - begin);
  unsigned lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
  const T *items = static_cast<const T *>(a.items);
  const fopo_samples &given = a.from.given;
  samples_at x_s;
  float low;
  /* the block's n samples: where they lie in memory, or drawn into shared memory */
  if (a.from.kind == GIVEN) {
    x_s = {given.ids + b * S + begin, given.logq + b * S + begin, given.r + b * S + begin};
    low = block_least(given.r + b * S, S);
  } else {
    x_s = drawn_at(memory, a.chunk);
    low = least_reward(a.from.reward, a.from.rows[b]);
    draw_samples(a.from, memory, a.chunk, b, S, begin, begin + n);
  }

  /* q [L] in registers, spread over the lanes of a team as the rows will be */
  float q[PER], x[PER], next[PER] = {};
#pragma unroll
  for (int e = 0; e < PER; e++) {
    size_t at = place_in_row<BYTES, T>(e, lane, LANES);
    q[e] = at < L ? a.Q[b * L + at] : 0.0f;
  }

  /* a team's sums over its samples s = team, team + TEAMS, ...; the row of the next one, and the id
   * of the one after it, are on their way while a row is used */
  running<PER> t = {};
  t.shift = -INFINITY;
  size_t s = team;
  if (s < n) load_row<BYTES, LANES, PER>(next, items + x_s.ids[s] * a.ld, L, lane);
  uint32_t id = s + TEAMS < n ? x_s.ids[s + TEAMS] : 0;
  for (size_t first = 0; first < n; first += TEAMS, s += TEAMS) {
    bool active = s < n; /* a team without a sample still takes part in its warp's shuffles */
    float f = 0.0f;
#pragma unroll
    for (int e = 0; e < PER; e++) x[e] = next[e];
    if (s + TEAMS < n) load_row<BYTES, LANES, PER>(next, items + id * a.ld, L, lane);
    if (s + 2 * TEAMS < n) id = x_s.ids[s + 2 * TEAMS];
#pragma unroll
    for (int e = 0; e < PER; e++) f += x[e] * q[e];
    f = team_sum<LANES>(f);
    if (!active) continue;
    if (a.sparse.indptr != nullptr) f += sparse_of(a.sparse, b, x_s.ids[s]);
    f -= x_s.logq[s];
    if (a.c != nullptr && lane == 0) a.c[b * S + begin + s] = f;
    add_sample(t, x, f, x_s.r[s] - low, x_s.logq[s] > a.floor);
  }

  /* all teams scaled to one shift (a team without a sample has sums of 0), and their sums: the
   * scalars, then u [L] and v [L] */
  float shift = block_max(t.shift), factor = shift_factor(t.shift, shift);
  double own = lane == 0 ? (double)factor : 0.0;
  double x4[] = {own * (double)t.w, own * (double)factor * (double)t.ww, own * (double)t.wd,
                 own * (double)t.head};
  block_sums(x4);
  if (threadIdx.x == 0) a.partial[blockIdx.x] = {shift, low, x4[0], x4[1], x4[2], x4[3]};
#pragma unroll
  for (int e = 0; e < PER; e++) t.u[e] *= factor, t.v[e] *= factor;
  float *of_warps = reinterpret_cast<float *>(memory); /* no sample is needed any more */
  add_warps<T, BYTES, LANES, PER>(a.u + blockIdx.x * L, of_warps, t.u, L);
  add_warps<T, BYTES, LANES, PER>(a.v + blockIdx.x * L, of_warps, t.v, L);

  /* the last block of a context writes its estimate, the last block of all the statistics */
  if (a.V == nullptr || !arrives_last(a.arrivals + 1 + b, a.splits)) return;
  finish_context(a, b, reinterpret_cast<double *>(memory));
  if (a.batch.sums == nullptr || !arrives_last(a.arrivals, (unsigned)a.batch.B)) return;
  finish_batch(a);
}

/* A kernel that reads rows once, and how many samples a block of it takes at a time. */
struct snis_plan {
  void (*kernel)(snis_arguments);
  size_t teams, width; /* numbers that a team holds */
};

template <class T, int BYTES> static snis_plan plan_by(size_t L) {
  if (L <= 16) return {snis_kernel<T, BYTES, 1, 16>, THREADS, 16};
  if (L <= 32) return {snis_kernel<T, BYTES, 4, 8>, THREADS / 4, 32};
  if (L <= 128) return {snis_kernel<T, BYTES, 8, 16>, THREADS / 8, 128};
  if (L <= 512) return {snis_kernel<T, BYTES, 32, 16>, THREADS / 32, 512};
  return {snis_kernel<T, BYTES, 32, 32>, THREADS / 32, 1024};
}

template <class T> static snis_plan plan_as(const fopo_rows *items, size_t L) {
  int bytes = load_bytes<T>(items->x, items->ld, L);
  if constexpr (sizeof(T) == 4) {
    if (bytes == 4) return plan_by<T, 4>(L);
    if (bytes == 8) return plan_by<T, 8>(L);
  }
  return plan_by<T, 16>(L);
}

static snis_plan plan_of(const fopo_rows *items, size_t L) {
  switch (items->type) {
  case FOPO_FLOAT16: return plan_as<fp16>(items, L);
  case FOPO_BFLOAT16: return plan_as<bf16>(items, L);
  default: return plan_as<float>(items, L);
  }
}

/* How many blocks share the samples of one context: of all numbers the one that takes the least
 * time, if blocks run in waves of as many as the card holds, a round of a block takes one sample a
 * team, and what a block adds up at its end takes as long as four rounds. A block holds TILE draws.
 * FOPO_GPU_SPLITS asks for a number, by which measurements look at the others. */
static size_t splits_in_waves(size_t held, size_t B, size_t S, size_t teams) {
  const char *asked = getenv("FOPO_GPU_SPLITS");
  size_t fewest = S <= FOPO_FUSED_DRAWS ? ceil_div(S, TILE) : 1, best = fewest;
  size_t least_time = SIZE_MAX, wanted = asked != nullptr ? strtoul(asked, nullptr, 10) : 0;
  if (wanted > 0) return wanted < fewest ? fewest : least(wanted, SPLITS_MOST);
  for (size_t splits = fewest; splits <= SPLITS_MOST; splits++) {
    if (splits > fewest && splits * teams > S) break;
    size_t time = ceil_div(B * splits, held) * (ceil_div(S, splits * teams) + 4);
    if (time < least_time) best = splits, least_time = time;
  }
  return best;
}

/* Samples of each of so many blocks of a context. */
static size_t chunk_of(size_t S, size_t splits) { return rounded_up(ceil_div(S, splits), 4); }

void place_sums(fopo_device *d, sample_sums *x, scratch_layout *memory, const fopo_rows *items,
                size_t B, size_t S, size_t L) {
  bool once = L <= FOPO_FUSED_DIM;
  snis_plan plan = once ? plan_of(items, L) : snis_plan{};
  x->splits = once ? splits_in_waves(blocks_held(d, plan.kernel, THREADS), B, S, plan.teams) : 1;
  x->splits = ceil_div(S, chunk_of(S, x->splits)); /* none is empty */
  x->partial = memory->array<sums>(B * x->splits);
  x->u = memory->array<float>(B * x->splits * L);
  x->v = memory->array<float>(B * x->splits * L);
  x->w = memory->array<float>(once ? 0 : B * S);
  x->wd = memory->array<float>(once ? 0 : B * S);
  x->rows = memory->array<float>(once ? 0 : sum_rows_scratch(B, S, L));
}

/* The sums alone, or with e what follows from them. */
static int add_once(fopo_device *d, const sample_sums &x, const fopo_estimate *e,
                    const drawing &from, const batch_stats &about, const fopo_rows *items,
                    float floor, const fopo_device_batch *batch) {
  snis_plan plan = plan_of(items, batch->L);
  size_t chunk = chunk_of(batch->S, x.splits);
  size_t samples = from.kind == GIVEN ? 0 : chunk * 12;
  if (from.scratch == nullptr) samples += from.bytes;
  size_t shared = THREADS / WARP * plan.width * sizeof(float);
  if (shared < samples) shared = samples;
  if (shared < x.splits * sizeof(double)) shared = x.splits * sizeof(double);
  snis_arguments a = {};
  a.partial = x.partial, a.u = x.u, a.v = x.v;
  if (e != nullptr) a.V = e->V, a.c = e->c, a.stats = e->stats, a.objective = e->objective;
  a.sparse = fopo_batch_scores(batch);
  a.arrivals = of(d)->arrivals;
  a.Q = batch->Q, a.items = items->x, a.ld = items->ld, a.floor = floor;
  a.S = batch->S, a.L = batch->L, a.chunk = chunk, a.splits = (unsigned)x.splits;
  a.from = from, a.batch = about;
  return launch_early(d, "the weights of the samples", batch->B * x.splits, THREADS, shared,
                      plan.kernel, a);
}

int add_samples(fopo_device *d, const sample_sums &x, const drawing &from, const fopo_rows *items,
                const fopo_device_batch *batch) {
  if (batch->L <= FOPO_FUSED_DIM) {
    return add_once(d, x, nullptr, from, {}, items, INFINITY, batch);
  }
  return add_long(d, x, &from.given, items, INFINITY, batch);
}

/* ---- where samples come from ---- */

drawing given_samples(const fopo_samples *samples) {
  drawing x = {};
  x.kind = GIVEN;
  x.given = *samples;
  return x;
}

static drawing drawn(fopo_device *d, drawing_kind kind, const fopo_sparse_reward *reward,
                     const fopo_device_batch *batch) {
  drawing x = {};
  x.kind = kind;
  x.key = key_of(d, batch->key);
  x.rows = batch->rows;
  x.P = (uint32_t)batch->P;
  x.m.uniform = (float)-log((double)batch->P);
  x.reward = sparse_of(*reward);
  return x;
}

drawing other_draws(fopo_device *d, const fopo_shared_head *head, const fopo_sparse_reward *reward,
                    const fopo_device_batch *batch) {
  drawing x = drawn(d, OTHERS, reward, batch);
  x.order = head->order;
  x.H = head->H;
  return x;
}

static drawing drawing_of(fopo_device *d, const fopo_drawing *draws,
                          const fopo_sparse_reward *reward, const fopo_device_batch *batch) {
  static const drawing_kind kinds[] = {UNIFORM, MIXTURE, TAIL};
  drawing x = drawn(d, kinds[draws->kind], reward, batch);
  size_t k = draws->mixture.sets.k;
  if (x.kind == UNIFORM) return x;
  x.m = mixture_of(draws->mixture, batch->S, batch->P);
  x.kept = draws->kept;
  x.bits = slot_bits(k);
  x.capacity = sorted_capacity(k);
  x.bytes = x.kind == MIXTURE ? candidate_bytes(k) : x.capacity * sizeof(uint32_t);
  return x;
}

/* ---- the operations ---- */

static int estimate(fopo_device *d, const fopo_estimate *e, drawing from, const batch_stats &about,
                    const fopo_rows *items, float floor, const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S, L = batch->L;
  bool in_scratch = from.bytes > SHARED_MOST / 2;
  sample_sums x = {};
  int status = reserve_arrivals(d, 1 + B);
  if (status != FOPO_OK) return status;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    place_sums(d, &x, &memory, items, B, S, L);
    char *candidates = memory.array<char>(in_scratch ? B * x.splits * from.bytes : 0);
    from.scratch = in_scratch ? candidates : nullptr;
    status = placed ? FOPO_OK : reserve(d, memory.used, "the sums of a batch");
    if (status != FOPO_OK) return status;
  }
  return add_once(d, x, e, from, about, items, floor, batch);
}

int snis(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
         const fopo_rows *items, float floor, const fopo_device_batch *batch) {
  if (batch->L > FOPO_FUSED_DIM) return snis_twice(d, e, samples, items, floor, batch);
  return estimate(d, e, given_samples(samples), {}, items, floor, batch);
}

int snis_drawn(fopo_device *d, const fopo_estimate *e, const fopo_drawing *draws,
               const fopo_sparse_reward *reward, const fopo_rows *items, float floor,
               const fopo_device_batch *batch) {
  const fopo_candidate_sets *sets = &draws->mixture.sets;
  bool any = draws->kind != FOPO_DRAW_UNIFORM;
  batch_stats about = {e->batch,
                       any ? sets->counts : nullptr,
                       draws->kept,
                       any ? batch->with_candidates : 0,
                       sets->k,
                       batch->B,
                       1};
  return estimate(d, e, drawing_of(d, draws, reward, batch), about, items, floor, batch);
}

} // namespace gpu
