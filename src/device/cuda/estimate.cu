/* The two sampled estimators on the GPU: self-normalised importance sampling, and REINFORCE.
 *
 * SNIS reads rows of at most 1024 numbers once: a team of 4, 8 or 32 threads loads a row into
 * registers, computes its score, and adds the row to sums that are relative to the largest
 * f - log q so far (an online softmax). The sums of a block's teams are then scaled to one shift
 * and added, and a second kernel adds the blocks of a context. Longer rows are read twice: for
 * their scores, and again for the sums when the weights are known. The weights of REINFORCE need no
 * scores, so it makes only the sums. */
#include <cmath>

#include "device/cuda/rows.cuh"

namespace gpu {

/* ---- sums of a context ---- */

/* Sums over some samples of a context, relative to exp(shift); d = r - low. */
struct sums {
  float shift, low;       /* largest f - log q; the context's least reward */
  double w, ww, wd, head; /* sum w, sum w^2, sum w d, sum w over the draws of candidates */
};

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
 * the block's partial sums and vectors [2, L]. */
template <class T, int LANES, int PER>
__global__ void snis_kernel(sums *partial, float *vectors, float *z, const float *Q, const T *items,
                            size_t ld, int bytes, const uint32_t *ids, const float *logq,
                            const float *r, float floor, size_t S, size_t L, unsigned splits) {
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
  vectors += (size_t)blockIdx.x * 2 * L;
  add_teams<LANES, PER>(vectors, tile, t.u, factor, N, L);
  add_teams<LANES, PER>(vectors + L, tile, t.v, factor, N, L);
}

/* A block a context: adds its partial sums into V and stats, and computes c; on entry c holds z. */
__global__ void snis_finish_kernel(float *V, float *c, float *stats, const sums *partial,
                                   const float *vectors, const float *r, size_t S, size_t L,
                                   unsigned splits) {
  size_t b = blockIdx.x;
  partial += b * splits;
  vectors += b * splits * 2 * L;
  /* add the scalars of all blocks, scaled to one shift */
  sums t = {partial[0].shift, partial[0].low, 0, 0, 0, 0};
  for (unsigned k = 1; k < splits; k++) t.shift = larger(t.shift, partial[k].shift);
  for (unsigned k = 0; k < splits; k++) {
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
    for (unsigned k = 0; k < splits; k++) {
      double factor = exp((double)partial[k].shift - (double)t.shift);
      u += factor * (double)vectors[k * 2 * L + i];
      v += factor * (double)vectors[k * 2 * L + L + i];
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
  const fopo_estimate *e;
  const fopo_samples *samples;
  const fopo_rows *items;
  float floor;
  const fopo_device_batch *batch;
};

template <class T, int LANES, int PER> static int snis_as(fopo_device *d, const snis_call &a) {
  size_t B = a.batch->B, S = a.batch->S, L = a.batch->L;
  size_t splits = splits_of(of(d), B, S, 4 * THREADS / LANES);
  sums *partial = nullptr;
  float *vectors = nullptr;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    partial = memory.array<sums>(B * splits);
    vectors = memory.array<float>(B * splits * 2 * L);
    int status = placed ? FOPO_OK : reserve(d, memory.used, "the sums of a batch");
    if (status != FOPO_OK) return status;
  }
  const T *items = static_cast<const T *>(a.items->x);
  const fopo_samples &x = *a.samples;
  int status = launch(d, "the weights of the samples", B * splits, THREADS, 0,
                      snis_kernel<T, LANES, PER>, partial, vectors, a.e->c, a.batch->Q, items,
                      a.items->ld, load_bytes<T>(items, a.items->ld, L), x.ids, x.logq, x.r,
                      a.floor, S, L, (unsigned)splits);
  if (status != FOPO_OK) return status;
  return launch(d, "the sums of a batch", B, THREADS, 0, snis_finish_kernel, a.e->V, a.e->c,
                a.e->stats, (const sums *)partial, (const float *)vectors, x.r, S, L,
                (unsigned)splits);
}

/* ---- sums of rows whose weights are known ---- */

constexpr size_t CHUNK = 64; /* samples of one block */

template <int BYTES, class T>
__device__ inline void add_rows(float *out, const T *items, size_t ld, const uint32_t *ids,
                                const float *c, size_t n, size_t L) {
  constexpr int N = BYTES / sizeof(T);
  for (size_t i = (size_t)threadIdx.x * N; i < L; i += (size_t)blockDim.x * N) {
    float sum[N] = {}, x[N];
    for (size_t s = 0; s < n; s++) {
      if (c[s] == 0.0f) continue; /* most rewards are 0 */
      load<BYTES>(x, items + ids[s] * ld + i);
#pragma unroll
      for (int j = 0; j < N; j++) sum[j] += c[s] * x[j];
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
      if (sizeof(T) == 4 || i + j < L) out[i + j] = sum[j];
    }
  }
}

/* A block a chunk of samples: partial [B, chunks, L] = sum of c beta over the chunk. */
template <class T>
__global__ void rows_kernel(float *partial, const T *items, size_t ld, int bytes,
                            const uint32_t *ids, const float *c, size_t S, size_t L,
                            unsigned chunks) {
  size_t b = blockIdx.x / chunks, first = (size_t)(blockIdx.x % chunks) * CHUNK;
  size_t n = S - first < CHUNK ? S - first : CHUNK;
  ids += b * S + first;
  c += b * S + first;
  partial += blockIdx.x * L;
  if (bytes == 16) {
    add_rows<16>(partial, items, ld, ids, c, n, L);
  } else if (bytes == 8) {
    add_rows<8>(partial, items, ld, ids, c, n, L);
  } else {
    add_rows<sizeof(T)>(partial, items, ld, ids, c, n, L);
  }
}

/* V = the sum over the chunks, less rbar mean if mean is not NULL. */
__global__ void rows_finish_kernel(float *V, const float *partial, const float *mean,
                                   const float *stats, size_t L, unsigned chunks) {
  size_t b = blockIdx.x;
  for (size_t i = threadIdx.x; i < L; i += blockDim.x) {
    double sum = 0;
    for (unsigned k = 0; k < chunks; k++) sum += (double)partial[(b * chunks + k) * L + i];
    if (mean != nullptr) {
      sum -= (double)stats[b * FOPO_STATS + FOPO_STAT_REWARD] * (double)mean[b * L + i];
    }
    V[b * L + i] = (float)sum;
  }
}

/* V [B, L] from c [B, S]; partial [B, ceil(S / CHUNK), L] is scratch. */
template <class T>
static int sum_rows_as(fopo_device *d, float *V, float *partial, const void *items, size_t ld,
                       const uint32_t *ids, const float *c, const float *mean, const float *stats,
                       size_t B, size_t S, size_t L) {
  size_t chunks = ceil_div(S, CHUNK);
  int bytes = load_bytes<T>(items, ld, L);
  size_t wanted = ceil_div(L, (size_t)bytes / sizeof(T)); /* threads that have something to add */
  unsigned threads = (unsigned)least(ceil_div(wanted, WARP) * WARP, THREADS);
  int status = launch(d, "the sums of rows", B * chunks, threads, 0, rows_kernel<T>, partial,
                      static_cast<const T *>(items), ld, bytes, ids, c, S, L, (unsigned)chunks);
  if (status != FOPO_OK) return status;
  return launch(d, "the sums of rows", B, THREADS, 0, rows_finish_kernel, V, (const float *)partial,
                mean, stats, L, (unsigned)chunks);
}

size_t sum_rows_scratch(size_t B, size_t S, size_t L) { return B * ceil_div(S, CHUNK) * L; }

int sum_rows(fopo_device *d, float *V, float *scratch, const fopo_rows *items, const uint32_t *ids,
             const float *c, size_t B, size_t S, size_t L) {
  switch (items->type) {
  case FOPO_FLOAT16:
    return sum_rows_as<fp16>(d, V, scratch, items->x, items->ld, ids, c, nullptr, nullptr, B, S, L);
  case FOPO_BFLOAT16:
    return sum_rows_as<bf16>(d, V, scratch, items->x, items->ld, ids, c, nullptr, nullptr, B, S, L);
  default:
    return sum_rows_as<float>(d, V, scratch, items->x, items->ld, ids, c, nullptr, nullptr, B, S,
                              L);
  }
}

/* ---- SNIS, reading rows twice ---- */

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

template <class T> static int snis_twice(fopo_device *d, const snis_call &a) {
  size_t B = a.batch->B, S = a.batch->S, L = a.batch->L;
  float *partial = nullptr, *c = nullptr;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    partial = memory.array<float>(sum_rows_scratch(B, S, L));
    c = a.e->c != nullptr ? a.e->c : memory.array<float>(B * S);
    int status = placed ? FOPO_OK : reserve(d, memory.used, "the sums of a batch");
    if (status != FOPO_OK) return status;
  }
  const fopo_samples &x = *a.samples;
  int status = score_ids(d, c, a.batch->Q, a.items, x.ids, nullptr, B, S, L);
  if (status == FOPO_OK) {
    status = launch(d, "the weights of the samples", B, THREADS, 0, weights_kernel, c, a.e->stats,
                    x.logq, x.r, a.floor, S);
  }
  if (status != FOPO_OK) return status;
  return sum_rows_as<T>(d, a.e->V, partial, a.items->x, a.items->ld, x.ids, c, nullptr, nullptr, B,
                        S, L);
}

template <class T> static int snis_of(fopo_device *d, const snis_call &a) {
  if (a.batch->L <= 32) return snis_as<T, 4, 8>(d, a);
  if (a.batch->L <= 128) return snis_as<T, 8, 16>(d, a);
  if (a.batch->L <= 512) return snis_as<T, 32, 16>(d, a);
  if (a.batch->L <= 1024) return snis_as<T, 32, 32>(d, a);
  return snis_twice<T>(d, a);
}

int snis(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
         const fopo_rows *items, float floor, const fopo_device_batch *batch) {
  snis_call a = {e, samples, items, floor, batch};
  switch (items->type) {
  case FOPO_FLOAT16: return snis_of<fp16>(d, a);
  case FOPO_BFLOAT16: return snis_of<bf16>(d, a);
  default: return snis_of<float>(d, a);
  }
}

/* ---- REINFORCE ---- */

/* A block a context. With the baseline c = (r - rbar) / (S - 1); without it c = r / S. */
__global__ void reinforce_kernel(float *c, float *stats, const float *r, int baseline, size_t S) {
  size_t b = blockIdx.x;
  double sum = 0;
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) sum += (double)r[b * S + s];
  double rbar = block_sum(sum) / (double)S, taken = baseline ? rbar : 0;
  double share = 1 / (double)(baseline && S > 1 ? S - 1 : S);
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) {
    c[b * S + s] = (float)(((double)r[b * S + s] - taken) * share);
  }
  if (threadIdx.x != 0) return;
  stats[b * FOPO_STATS + FOPO_STAT_REWARD] = (float)rbar;
  stats[b * FOPO_STATS + FOPO_STAT_ESS] = (float)S;
  stats[b * FOPO_STATS + FOPO_STAT_MAX_WEIGHT] = (float)(1 / (double)S);
  stats[b * FOPO_STATS + FOPO_STAT_HEAD_MASS] = 0;
}

int reinforce(fopo_device *d, const fopo_estimate *e, const fopo_samples *samples,
              const float *mean, fopo_matrix items, const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S, L = batch->L;
  float *partial = nullptr, *c = nullptr;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    partial = memory.array<float>(sum_rows_scratch(B, S, L));
    c = e->c != nullptr ? e->c : memory.array<float>(B * S);
    int status = placed ? FOPO_OK : reserve(d, memory.used, "the sums of a batch");
    if (status != FOPO_OK) return status;
  }
  int status = launch(d, "rewards less their mean", B, THREADS, 0, reinforce_kernel, c, e->stats,
                      samples->r, mean == nullptr, S);
  if (status != FOPO_OK) return status;
  return sum_rows_as<float>(d, e->V, partial, items.x, items.ld, samples->ids, c, mean, e->stats, B,
                            S, L);
}

} // namespace gpu
