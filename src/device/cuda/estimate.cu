/* Sums of rows whose weights are known, on the GPU, and the estimator that needs no more:
 * REINFORCE. */
#include <cmath>

#include "device/cuda/rows.cuh"

namespace gpu {

/* ---- sums of rows whose weights are known ---- */

constexpr size_t CHUNK = 64; /* samples of one block */
constexpr int FLIGHT = 8;    /* rows that a thread waits for at a time */

/* out [L] = sum c beta over n samples, in their order. Rows are loaded FLIGHT at a time before the
 * first is used: otherwise each would wait for the one before. Samples of weight 0, as most rewards
 * are, load nothing. */
template <int BYTES, class T>
__device__ inline void add_rows(float *out, const T *items, size_t ld, const uint32_t *ids,
                                const float *c, size_t n, size_t L) {
  constexpr int N = BYTES / sizeof(T);
  for (size_t i = (size_t)threadIdx.x * N; i < L; i += (size_t)blockDim.x * N) {
    float sum[N] = {};
    for (size_t s = 0; s < n; s += FLIGHT) {
      float x[FLIGHT][N], w[FLIGHT];
#pragma unroll
      for (int k = 0; k < FLIGHT; k++) {
        w[k] = s + k < n ? c[s + k] : 0.0f;
        if (w[k] != 0.0f) load<BYTES>(x[k], items + ids[s + k] * ld + i);
      }
#pragma unroll
      for (int k = 0; k < FLIGHT; k++) {
        if (w[k] == 0.0f) continue;
#pragma unroll
        for (int j = 0; j < N; j++) sum[j] += w[k] * x[k][j];
      }
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

/* V = sum c beta for each context, less rbar mean if mean is not NULL, rbar being in stats. */
struct row_sums {
  float *V;            /* [B, L] */
  float *partial;      /* [B, ceil(S / CHUNK), L] scratch */
  const uint32_t *ids; /* [B, S] */
  const float *c;      /* [B, S] */
  const float *mean;   /* [B, L] or NULL */
  const float *stats;  /* [B, FOPO_STATS]; read with mean alone */
  size_t B, S, L;
};

template <class T>
static int sum_rows_as(fopo_device *d, const row_sums &x, const void *items, size_t ld) {
  size_t B = x.B, S = x.S, L = x.L, chunks = ceil_div(S, CHUNK);
  int bytes = load_bytes<T>(items, ld, L);
  size_t wanted = ceil_div(L, (size_t)bytes / sizeof(T)); /* threads that have something to add */
  unsigned threads = (unsigned)least(rounded_up(wanted, WARP), THREADS);
  int status = launch(d, "the sums of rows", B * chunks, threads, 0, rows_kernel<T>, x.partial,
                      static_cast<const T *>(items), ld, bytes, x.ids, x.c, S, L, (unsigned)chunks);
  if (status != FOPO_OK) return status;
  return launch(d, "the sums of rows", B, THREADS, 0, rows_finish_kernel, x.V,
                (const float *)x.partial, x.mean, x.stats, L, (unsigned)chunks);
}

size_t sum_rows_scratch(size_t B, size_t S, size_t L) { return B * ceil_div(S, CHUNK) * L; }

int reserve_sums(fopo_device *d, float **scratch, float **c, const fopo_estimate *e,
                 const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    *scratch = memory.array<float>(sum_rows_scratch(B, S, batch->L));
    *c = e->c != nullptr ? e->c : memory.array<float>(B * S);
    int status = placed ? FOPO_OK : reserve(d, memory.used, "the sums of a batch");
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

int sum_rows(fopo_device *d, float *V, float *scratch, const fopo_rows *items, const uint32_t *ids,
             const float *c, size_t B, size_t S, size_t L) {
  row_sums x = {V, scratch, ids, c, nullptr, nullptr, B, S, L};
  return by_type(items->type, [&]<class T>() { return sum_rows_as<T>(d, x, items->x, items->ld); });
}

/* ---- REINFORCE ---- */

/* A block a context. With the baseline c = (r - rbar) / (S - 1); without it c = r / S. A masked
 * item is drawn only if there is no other: it earns nothing. */
__global__ void reinforce_kernel(float *c, float *stats, fopo_samples x, fopo_sparse_scores sparse,
                                 int baseline, size_t S) {
  size_t b = blockIdx.x;
  bool left = sparse.indptr == nullptr || sparse_score(sparse, b, x.ids[b * S]) > -INFINITY;
  double sum = 0;
  for (size_t s = threadIdx.x; s < S && left; s += blockDim.x) sum += (double)x.r[b * S + s];
  double rbar = block_sum(sum) / (double)S, taken = baseline ? rbar : 0;
  double share = 1 / (double)(baseline && S > 1 ? S - 1 : S);
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) {
    c[b * S + s] = left ? (float)(((double)x.r[b * S + s] - taken) * share) : 0.0f;
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
  float *partial, *c;
  int status = reserve_sums(d, &partial, &c, e, batch);
  if (status != FOPO_OK) return status;
  status = launch(d, "rewards less their mean", B, THREADS, 0, reinforce_kernel, c, e->stats,
                  *samples, fopo_batch_scores(batch), mean == nullptr, S);
  if (status != FOPO_OK) return status;
  row_sums x = {e->V, partial, samples->ids, c, mean, e->stats, B, S, L};
  return sum_rows_as<float>(d, x, items.x, items.ld);
}

} // namespace gpu
