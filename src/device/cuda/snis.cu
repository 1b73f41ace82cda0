/* Self-normalised importance sampling on the GPU.
 *
 * Rows of at most 1024 numbers are read once: a team of 1, 4, 8 or 32 threads loads a row into
 * registers, computes its score, and adds the row to sums that are relative to the largest
 * f - log q so far (an online softmax). The sums of a block's teams are then scaled to one shift
 * and added, and a second kernel adds the blocks of a context. Longer rows are read again for the
 * sums, when the weights are known. */
#include <cmath>

#include "device/cuda/rows.cuh"

namespace gpu {

/* ---- sums of a context ---- */

__device__ inline void write_stats(float *stats, const sums &t) {
  double dbar = t.wd / t.w;
  stats[FOPO_STAT_REWARD] = (float)((double)t.low + dbar);
  stats[FOPO_STAT_ESS] = (float)(t.w * t.w / t.ww);
  stats[FOPO_STAT_MAX_WEIGHT] = (float)(1 / t.w);
  stats[FOPO_STAT_HEAD_MASS] = (float)(t.head / t.w);
}

/* c = wbar (r - rbar) */
__device__ inline float coefficient(float z, float r, const sums &t) {
  return expf(z - t.shift) * (float)(1 / t.w) * (r - t.low - (float)(t.wd / t.w));
}

/* The least of r [S], in each thread of a block. */
__device__ inline float block_least(const float *r, size_t S) {
  float most = -INFINITY;
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) most = larger(most, -r[s]);
  return -block_max(most);
}

/* ---- SNIS, reading rows once ---- */

/* A team's sums so far; u and v are this lane's part of sum w beta and sum w d beta. */
template <int PER> struct running { float shift, w, ww, wd, head, u[PER], v[PER]; };

template <int PER>
__device__ inline void add_sample(running<PER> &t, const float *x, float z, float d, bool head) {
  if (z > t.shift) { /* scale every sum to the larger shift */
    float factor = expf(t.shift - z);
    t.w *= factor;
    t.ww *= factor * factor;
    t.wd *= factor;
    t.head *= factor;
#pragma unroll
    for (int e = 0; e < PER; e++) t.u[e] *= factor, t.v[e] *= factor;
    t.shift = z;
  }
  float w = expf(z - t.shift), c = w * d;
  t.w += w;
  t.ww += w * w;
  t.wd += c;
  t.head += head ? w : 0.0f;
#pragma unroll
  for (int e = 0; e < PER; e++) {
    t.u[e] += w * x[e];
    t.v[e] += c * x[e];
  }
}

/* Adds one of the two vectors over the warps of a block, each of which has added it over its teams:
 * tile [WARPS, LANES * PER] is shared memory, out [L]. */
template <class T, int BYTES, int LANES, int PER>
__device__ inline void add_warps(float *out, float *tile, float *own, size_t L) {
  constexpr int WIDTH = LANES * PER;
  unsigned lane = threadIdx.x % LANES, warp = threadIdx.x / WARP;
#pragma unroll
  for (int e = 0; e < PER; e++) {
#pragma unroll
    for (int o = LANES; o < (int)WARP; o <<= 1) own[e] += __shfl_xor_sync(0xffffffffu, own[e], o);
  }
  __syncthreads(); /* every thread has read the tile's earlier contents */
  if (threadIdx.x % WARP < LANES) {
#pragma unroll
    for (int e = 0; e < PER; e++) {
      tile[warp * WIDTH + place_in_row<BYTES, T>(e, lane, LANES)] = own[e];
    }
  }
  __syncthreads();
  for (size_t i = threadIdx.x; i < L; i += THREADS) {
    double sum = 0;
    for (unsigned w = 0; w < THREADS / WARP; w++) sum += (double)tile[w * WIDTH + i];
    out[i] = (float)sum;
  }
}

/* What a kernel of the next section is given. */
struct snis_arguments {
  sums *partial; /* [B, splits] */
  float *u, *v;  /* [B, splits, L] */
  float *z;      /* [B, S] gets f - log q; NULL: not wanted */
  const float *Q;
  const void *items;
  size_t ld;
  const uint32_t *ids;
  const float *logq, *r;
  float floor;
  size_t S, L;
  unsigned splits;
};

/* Each context has `splits` blocks, which share its samples: TEAMS at a time, one a team. A team
 * loads its next row, whose id it has already, before it computes with the one it holds. Writes the
 * block's sums, and its rows of u and v. Two blocks of short rows fit one processor. */
template <class T, int BYTES, int LANES, int PER>
__global__ void __launch_bounds__(THREADS, LANES *PER <= 512 ? 2 : 1)
    snis_kernel(snis_arguments a) {
  constexpr int TEAMS = THREADS / LANES;
  __shared__ float tile[THREADS / WARP * LANES * PER];
  size_t b = blockIdx.x / a.splits, step = (size_t)a.splits * TEAMS, S = a.S, L = a.L;
  unsigned lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
  const T *items = static_cast<const T *>(a.items);
  const uint32_t *ids = a.ids + b * S;
  const float *logq = a.logq + b * S, *r = a.r + b * S;
  float low = block_least(r, S);

  float q[PER], x[PER], next[PER] = {};
#pragma unroll
  for (int e = 0; e < PER; e++) {
    size_t at = place_in_row<BYTES, T>(e, lane, LANES);
    q[e] = at < L ? a.Q[b * L + at] : 0.0f;
  }
  running<PER> t = {};
  t.shift = -INFINITY;
  size_t first = blockIdx.x % a.splits * TEAMS, s = first + team;
  if (s < S) load_row<BYTES, LANES, PER>(next, items + ids[s] * a.ld, L, lane);
  uint32_t id = s + step < S ? ids[s + step] : 0;
  for (; first < S; first += step, s += step) {
    bool active = s < S; /* a team without a sample still takes part in the shuffles of its warp */
    float f = 0.0f;
#pragma unroll
    for (int e = 0; e < PER; e++) x[e] = next[e];
    if (s + step < S) load_row<BYTES, LANES, PER>(next, items + id * a.ld, L, lane);
    if (s + 2 * step < S) id = ids[s + 2 * step];
#pragma unroll
    for (int e = 0; e < PER; e++) f += x[e] * q[e];
    f = team_sum<LANES>(f);
    if (!active) continue;
    f -= logq[s];
    if (a.z != nullptr && lane == 0) a.z[b * S + s] = f;
    add_sample(t, x, f, r[s] - low, logq[s] > a.floor);
  }

  /* scale all teams to one shift; a team without a sample has sums of 0 */
  float shift = block_max(t.shift), factor = expf(t.shift - shift);
  double own = lane == 0 ? (double)factor : 0.0;
  double x4[] = {own * (double)t.w, own * (double)factor * (double)t.ww, own * (double)t.wd,
                 own * (double)t.head};
  block_sums(x4);
  if (threadIdx.x == 0) a.partial[blockIdx.x] = {shift, low, x4[0], x4[1], x4[2], x4[3]};
#pragma unroll
  for (int e = 0; e < PER; e++) t.u[e] *= factor, t.v[e] *= factor;
  add_warps<T, BYTES, LANES, PER>(a.u + blockIdx.x * L, tile, t.u, L);
  add_warps<T, BYTES, LANES, PER>(a.v + blockIdx.x * L, tile, t.v, L);
}

constexpr size_t SPLITS_MOST = 256;

/* `pieces` blocks a context, which share its L numbers and its coefficients: adds the partial sums
 * into V and stats, and computes c; on entry c holds z. */
__global__ void snis_finish_kernel(float *V, float *c, float *stats, sample_sums x, const float *r,
                                   size_t S, size_t L, unsigned pieces) {
  __shared__ double factor[SPLITS_MOST];
  size_t b = blockIdx.x / pieces, piece = blockIdx.x % pieces, splits = x.splits;
  const sums *partial = x.partial + b * splits;
  const float *of_w = x.u + b * splits * L, *of_wd = x.v + b * splits * L;
  /* add the scalars of all blocks, scaled to one shift */
  sums t = {partial[0].shift, partial[0].low, 0, 0, 0, 0};
  for (size_t k = 1; k < splits; k++) t.shift = larger(t.shift, partial[k].shift);
  for (size_t k = threadIdx.x; k < splits; k += blockDim.x) {
    factor[k] = exp((double)partial[k].shift - (double)t.shift);
  }
  __syncthreads();
  for (size_t k = 0; k < splits; k++) {
    t.w += factor[k] * partial[k].w;
    t.ww += factor[k] * factor[k] * partial[k].ww;
    t.wd += factor[k] * partial[k].wd;
    t.head += factor[k] * partial[k].head;
  }
  /* V = sum wbar (r - rbar) beta = (sum w d beta - dbar sum w beta) / W */
  double dbar = t.wd / t.w;
  for (size_t i = piece * blockDim.x + threadIdx.x; i < L; i += (size_t)pieces * blockDim.x) {
    double u = 0, v = 0;
#pragma unroll 4
    for (size_t k = 0; k < splits; k++) {
      u += factor[k] * (double)of_w[k * L + i];
      v += factor[k] * (double)of_wd[k * L + i];
    }
    V[b * L + i] = (float)((v - dbar * u) / t.w);
  }
  if (threadIdx.x == 0 && piece == 0) write_stats(stats + b * FOPO_STATS, t);
  if (c == nullptr) return;
  for (size_t s = piece * blockDim.x + threadIdx.x; s < S; s += (size_t)pieces * blockDim.x) {
    c[b * S + s] = coefficient(c[b * S + s], r[b * S + s], t);
  }
}

/* The arguments of one call. */
struct snis_call {
  float *z; /* [B, S] gets f - log q; NULL: not wanted */
  const fopo_samples *samples;
  const fopo_rows *items;
  float floor;
  const fopo_device_batch *batch;
};

constexpr size_t LONGEST = 1024; /* numbers of a row that is read once */

/* A kernel that reads rows once, and how many samples a block of it takes at a time. */
struct snis_plan {
  void (*kernel)(snis_arguments);
  size_t teams;
};

template <class T, int BYTES> static snis_plan plan_by(size_t L) {
  if (L <= 16) return {snis_kernel<T, BYTES, 1, 16>, THREADS};
  if (L <= 32) return {snis_kernel<T, BYTES, 4, 8>, THREADS / 4};
  if (L <= 128) return {snis_kernel<T, BYTES, 8, 16>, THREADS / 8};
  if (L <= 512) return {snis_kernel<T, BYTES, 32, 16>, THREADS / 32};
  return {snis_kernel<T, BYTES, 32, 32>, THREADS / 32};
}

template <class T> static snis_plan plan_as(const fopo_rows *items, size_t L) {
  int bytes = load_bytes<T>(items->x, items->ld, L);
  if (bytes == 16) return plan_by<T, 16>(L);
  if (bytes == 8 && sizeof(T) == 4) return plan_by < T, sizeof(T) == 4 ? 8 : sizeof(T) > (L);
  return plan_by<T, sizeof(T)>(L);
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
 * team, and what a block adds up at its end takes as long as four rounds. */
static size_t splits_in_waves(size_t held, size_t B, size_t S, size_t teams) {
  size_t best = 1, least_time = SIZE_MAX;
  for (size_t splits = 1; splits <= SPLITS_MOST && (splits == 1 || splits * teams <= S); splits++) {
    size_t time = ceil_div(B * splits, held) * (ceil_div(S, splits * teams) + 4);
    if (time < least_time) best = splits, least_time = time;
  }
  return best;
}

void place_sums(fopo_device *d, sample_sums *x, scratch_layout *memory, const fopo_rows *items,
                size_t B, size_t S, size_t L) {
  bool once = L <= LONGEST;
  snis_plan plan = once ? plan_of(items, L) : snis_plan{};
  x->splits = once ? splits_in_waves(blocks_held(d, plan.kernel, THREADS), B, S, plan.teams) : 1;
  x->partial = memory->array<sums>(B * x->splits);
  x->u = memory->array<float>(B * x->splits * L);
  x->v = memory->array<float>(B * x->splits * L);
  x->w = memory->array<float>(once ? 0 : B * S);
  x->wd = memory->array<float>(once ? 0 : B * S);
  x->rows = memory->array<float>(once ? 0 : sum_rows_scratch(B, S, L));
}

static int add_once(fopo_device *d, const sample_sums &x, const snis_call &a) {
  const fopo_device_batch *batch = a.batch;
  snis_arguments given = {x.partial,
                          x.u,
                          x.v,
                          a.z,
                          batch->Q,
                          a.items->x,
                          a.items->ld,
                          a.samples->ids,
                          a.samples->logq,
                          a.samples->r,
                          a.floor,
                          batch->S,
                          batch->L,
                          (unsigned)x.splits};
  return launch(d, "the weights of the samples", batch->B * x.splits, THREADS, 0,
                plan_of(a.items, batch->L).kernel, given);
}

/* ---- SNIS, reading rows again ---- */

/* A block a context: c and the statistics; on entry c holds the scores f. */
__global__ void weights_kernel(float *c, float *stats, const float *logq, const float *r,
                               float floor, size_t S) {
  size_t b = blockIdx.x;
  c += b * S;
  logq += b * S;
  r += b * S;
  float most = -INFINITY, low = block_least(r, S);
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) most = larger(most, c[s] -= logq[s]);
  float shift = block_max(most);
  double w = 0, ww = 0, wd = 0, head = 0;
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) {
    double x = (double)expf(c[s] - shift);
    w += x;
    ww += x * x;
    wd += x * (double)(r[s] - low);
    head += logq[s] > floor ? x : 0.0;
  }
  double x4[] = {w, ww, wd, head};
  block_sums(x4);
  sums t = {shift, low, x4[0], x4[1], x4[2], x4[3]};
  if (threadIdx.x == 0) write_stats(stats + b * FOPO_STATS, t);
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) c[s] = coefficient(c[s], r[s], t);
}

/* The sums of samples whose scores are in w [B, S]: then w holds their weights, and wd those times
 * d. */
__global__ void long_kernel(sums *partial, float *w, float *wd, const float *logq, const float *r,
                            float floor, size_t S) {
  size_t b = blockIdx.x;
  w += b * S;
  wd += b * S;
  logq += b * S;
  r += b * S;
  float most = -INFINITY, low = block_least(r, S);
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) most = larger(most, w[s] -= logq[s]);
  float shift = block_max(most);
  double sum = 0, squares = 0, rewards = 0, head = 0;
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) {
    double x = (double)(w[s] = expf(w[s] - shift));
    wd[s] = w[s] * (r[s] - low);
    sum += x;
    squares += x * x;
    rewards += (double)wd[s];
    head += logq[s] > floor ? x : 0.0;
  }
  double x4[] = {sum, squares, rewards, head};
  block_sums(x4);
  sums t = {shift, low, x4[0], x4[1], x4[2], x4[3]};
  if (threadIdx.x == 0) partial[b] = t;
}

static int add_long(fopo_device *d, const sample_sums &x, const snis_call &a) {
  size_t B = a.batch->B, S = a.batch->S, L = a.batch->L;
  const uint32_t *ids = a.samples->ids;
  int status = score_ids(d, x.w, a.batch->Q, a.items, ids, nullptr, B, S, L);
  if (status == FOPO_OK) {
    status = launch(d, "the weights of the samples", B, THREADS, 0, long_kernel, x.partial, x.w,
                    x.wd, a.samples->logq, a.samples->r, a.floor, S);
  }
  if (status == FOPO_OK) status = sum_rows(d, x.u, x.rows, a.items, ids, x.w, B, S, L);
  return status == FOPO_OK ? sum_rows(d, x.v, x.rows, a.items, ids, x.wd, B, S, L) : status;
}

/* ---- any rows ---- */

static int add_call(fopo_device *d, const sample_sums &x, const snis_call &a) {
  return a.batch->L <= LONGEST ? add_once(d, x, a) : add_long(d, x, a);
}

int add_samples(fopo_device *d, const sample_sums &x, const fopo_samples *samples,
                const fopo_rows *items, const fopo_device_batch *batch) {
  return add_call(d, x, {nullptr, samples, items, INFINITY, batch});
}

/* Long rows, without the sums that only a head needs: V from the coefficients. */
static int snis_twice(fopo_device *d, const fopo_estimate *e, const snis_call &a) {
  size_t B = a.batch->B, S = a.batch->S, L = a.batch->L;
  float *partial = nullptr, *c = nullptr;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    partial = memory.array<float>(sum_rows_scratch(B, S, L));
    c = e->c != nullptr ? e->c : memory.array<float>(B * S);
    int status = placed ? FOPO_OK : reserve(d, memory.used, "the sums of a batch");
    if (status != FOPO_OK) return status;
  }
  const fopo_samples &x = *a.samples;
  int status = score_ids(d, c, a.batch->Q, a.items, x.ids, nullptr, B, S, L);
  if (status == FOPO_OK) {
    status = launch(d, "the weights of the samples", B, THREADS, 0, weights_kernel, c, e->stats,
                    x.logq, x.r, a.floor, S);
  }
  return status == FOPO_OK ? sum_rows(d, e->V, partial, a.items, x.ids, c, B, S, L) : status;
}

int snis(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
         const fopo_rows *items, float floor, const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S, L = batch->L;
  snis_call a = {e->c, samples, items, floor, batch};
  if (L > LONGEST) return snis_twice(d, e, a);
  sample_sums x = {};
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    place_sums(d, &x, &memory, items, B, S, L);
    int status = placed ? FOPO_OK : reserve(d, memory.used, "the sums of a batch");
    if (status != FOPO_OK) return status;
  }
  int status = add_call(d, x, a);
  if (status != FOPO_OK) return status;
  size_t pieces = ceil_div(L, THREADS);
  return launch(d, "the sums of a batch", B * pieces, THREADS, 0, snis_finish_kernel, e->V, e->c,
                e->stats, x, samples->r, S, L, (unsigned)pieces);
}

} // namespace gpu
