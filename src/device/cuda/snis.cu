/* Self-normalised importance sampling on the GPU.
 *
 * Rows of at most 1024 numbers are read once: a team of 4, 8 or 32 threads loads a row into
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

/* Sums one of the two vectors over the teams of a block: tile [TEAMS, LANES * PER] is shared
 * memory, out [L]. */
template <int LANES, int PER>
__device__ inline void add_teams(float *out, float *tile, const float *own, float factor, int N,
                                 size_t L) {
  constexpr int WIDTH = LANES * PER, TEAMS = THREADS / LANES;
  unsigned lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
  __syncthreads(); /* every thread has read the tile's earlier contents */
#pragma unroll
  for (int e = 0; e < PER; e++) {
    tile[team * WIDTH + index_in_row(e, N, lane, LANES)] = factor * own[e];
  }
  __syncthreads();
  for (size_t i = threadIdx.x; i < L; i += THREADS) {
    double sum = 0;
    for (int t = 0; t < TEAMS; t++) sum += (double)tile[t * WIDTH + i];
    out[i] = (float)sum;
  }
}

/* Each context has `splits` blocks, which share its samples: TEAMS at a time, one a team. Writes
 * the block's sums, and its rows of u and v. */
template <class T, int LANES, int PER>
__global__ void snis_kernel(sums *partial, float *u, float *v, float *z, const float *Q,
                            const T *items, size_t ld, int bytes, const uint32_t *ids,
                            const float *logq, const float *r, float floor, size_t S, size_t L,
                            unsigned splits) {
  constexpr int TEAMS = THREADS / LANES;
  __shared__ float tile[TEAMS * LANES * PER];
  size_t b = blockIdx.x / splits, step = (size_t)splits * TEAMS;
  unsigned lane = threadIdx.x % LANES, team = threadIdx.x / LANES;
  int N = bytes / (int)sizeof(T);
  ids += b * S;
  logq += b * S;
  r += b * S;
  float low = block_least(r, S);

  float q[PER];
#pragma unroll
  for (int e = 0; e < PER; e++) {
    size_t at = index_in_row(e, N, lane, LANES);
    q[e] = at < L ? Q[b * L + at] : 0.0f;
  }
  running<PER> t = {};
  t.shift = -INFINITY;
  for (size_t first = blockIdx.x % splits * TEAMS; first < S; first += step) {
    size_t s = first + team;
    bool active = s < S; /* a team without a sample still takes part in the shuffles of its warp */
    float x[PER] = {}, f = 0.0f;
    if (active) load_row<LANES, PER>(x, items + ids[s] * ld, L, lane, bytes);
#pragma unroll
    for (int e = 0; e < PER; e++) f += x[e] * q[e];
    f = team_sum<LANES>(f);
    if (!active) continue;
    f -= logq[s];
    if (z != nullptr && lane == 0) z[b * S + s] = f;
    add_sample(t, x, f, r[s] - low, logq[s] > floor);
  }

  /* scale all teams to one shift; a team without a sample has sums of 0 */
  float shift = block_max(t.shift), factor = expf(t.shift - shift);
  double own = lane == 0 ? (double)factor : 0.0;
  double w = block_sum(own * (double)t.w), ww = block_sum(own * (double)factor * (double)t.ww);
  double wd = block_sum(own * (double)t.wd), head = block_sum(own * (double)t.head);
  if (threadIdx.x == 0) partial[blockIdx.x] = {shift, low, w, ww, wd, head};
  add_teams<LANES, PER>(u + blockIdx.x * L, tile, t.u, factor, N, L);
  add_teams<LANES, PER>(v + blockIdx.x * L, tile, t.v, factor, N, L);
}

/* A block a context: adds its partial sums into V and stats, and computes c; on entry c holds z. */
__global__ void snis_finish_kernel(float *V, float *c, float *stats, sample_sums x, const float *r,
                                   size_t S, size_t L) {
  size_t b = blockIdx.x, splits = x.splits;
  const sums *partial = x.partial + b * splits;
  const float *of_w = x.u + b * splits * L, *of_wd = x.v + b * splits * L;
  /* add the scalars of all blocks, scaled to one shift */
  sums t = {partial[0].shift, partial[0].low, 0, 0, 0, 0};
  for (size_t k = 1; k < splits; k++) t.shift = larger(t.shift, partial[k].shift);
  for (size_t k = 0; k < splits; k++) {
    double factor = exp((double)partial[k].shift - (double)t.shift);
    t.w += factor * partial[k].w;
    t.ww += factor * factor * partial[k].ww;
    t.wd += factor * partial[k].wd;
    t.head += factor * partial[k].head;
  }
  /* V = sum wbar (r - rbar) beta = (sum w d beta - dbar sum w beta) / W */
  double dbar = t.wd / t.w;
  for (size_t i = threadIdx.x; i < L; i += blockDim.x) {
    double u = 0, v = 0;
    for (size_t k = 0; k < splits; k++) {
      double factor = exp((double)partial[k].shift - (double)t.shift);
      u += factor * (double)of_w[k * L + i];
      v += factor * (double)of_wd[k * L + i];
    }
    V[b * L + i] = (float)((v - dbar * u) / t.w);
  }
  if (threadIdx.x == 0) write_stats(stats + b * FOPO_STATS, t);
  for (size_t s = threadIdx.x; c != nullptr && s < S; s += blockDim.x) {
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

/* Threads of a team. */
static size_t lanes_of(size_t L) { return L <= 32 ? 4 : L <= 128 ? 8 : 32; }

void place_sums(fopo_device *d, sample_sums *x, scratch_layout *memory, size_t B, size_t S,
                size_t L) {
  bool once = L <= LONGEST;
  x->splits = once ? splits_of(of(d), B, S, 4 * THREADS / lanes_of(L)) : 1;
  x->partial = memory->array<sums>(B * x->splits);
  x->u = memory->array<float>(B * x->splits * L);
  x->v = memory->array<float>(B * x->splits * L);
  x->w = memory->array<float>(once ? 0 : B * S);
  x->wd = memory->array<float>(once ? 0 : B * S);
  x->rows = memory->array<float>(once ? 0 : sum_rows_scratch(B, S, L));
}

template <class T, int LANES, int PER>
static int add_once(fopo_device *d, const sample_sums &x, const snis_call &a) {
  size_t S = a.batch->S, L = a.batch->L, ld = a.items->ld;
  const T *items = static_cast<const T *>(a.items->x);
  return launch(d, "the weights of the samples", a.batch->B * x.splits, THREADS, 0,
                snis_kernel<T, LANES, PER>, x.partial, x.u, x.v, a.z, a.batch->Q, items, ld,
                load_bytes<T>(items, ld, L), a.samples->ids, a.samples->logq, a.samples->r, a.floor,
                S, L, (unsigned)x.splits);
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
  sums t = {shift, low, block_sum(w), block_sum(ww), block_sum(wd), block_sum(head)};
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
  sums t = {shift, low, block_sum(sum), block_sum(squares), block_sum(rewards), block_sum(head)};
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

template <class T> static int add_of(fopo_device *d, const sample_sums &x, const snis_call &a) {
  size_t L = a.batch->L;
  if (L <= 32) return add_once<T, 4, 8>(d, x, a);
  if (L <= 128) return add_once<T, 8, 16>(d, x, a);
  if (L <= 512) return add_once<T, 32, 16>(d, x, a);
  if (L <= LONGEST) return add_once<T, 32, 32>(d, x, a);
  return add_long(d, x, a);
}

static int add_call(fopo_device *d, const sample_sums &x, const snis_call &a) {
  switch (a.items->type) {
  case FOPO_FLOAT16: return add_of<fp16>(d, x, a);
  case FOPO_BFLOAT16: return add_of<bf16>(d, x, a);
  default: return add_of<float>(d, x, a);
  }
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
    place_sums(d, &x, &memory, B, S, L);
    int status = placed ? FOPO_OK : reserve(d, memory.used, "the sums of a batch");
    if (status != FOPO_OK) return status;
  }
  int status = add_call(d, x, a);
  if (status != FOPO_OK) return status;
  return launch(d, "the sums of a batch", B, THREADS, 0, snis_finish_kernel, e->V, e->c, e->stats,
                x, samples->r, S, L);
}

} // namespace gpu
