/* A head that all contexts share, on the GPU: two products by cuBLAS with the exponentials between
 * them, and the draws of the other items row by row. The head is packed in float32. */
#include <cmath>

#include "device/cuda/rows.cuh"

namespace gpu {

/* ---- packing ---- */

/* A block a row. */
template <class T>
__global__ void pack_kernel(float *out, const T *items, size_t ld, const uint32_t *order,
                            size_t L) {
  const T *row = items + order[blockIdx.x] * ld;
  for (size_t i = threadIdx.x; i < L; i += blockDim.x) out[blockIdx.x * L + i] = to_float(row[i]);
}

template <class T>
static int pack_as(fopo_device *d, fopo_shared_head *head, const fopo_rows *items, size_t L) {
  float *out = static_cast<float *>(const_cast<void *>(head->rows.x)); /* the caller's memory */
  head->rows.type = FOPO_FLOAT32;
  head->rows.ld = L;
  return launch(d, "packing a head", head->H, THREADS, 0, pack_kernel<T>, out,
                static_cast<const T *>(items->x), items->ld, head->order, L);
}

int pack_head(fopo_device *d, fopo_shared_head *head, const fopo_rows *items, size_t L) {
  switch (items->type) {
  case FOPO_FLOAT16: return pack_as<fp16>(d, head, items, L);
  case FOPO_BFLOAT16: return pack_as<bf16>(d, head, items, L);
  default: return pack_as<float>(d, head, items, L);
  }
}

/* ---- weights ---- */

/* What the kernels know of the rewards. */
struct sparse {
  const uint64_t *indptr; /* of Y; NULL: there is none */
  const uint32_t *y;
  fopo_credit credit;    /* action NULL: there is none */
  const uint32_t *place; /* [P] */
  size_t H;
};

/* Calls f(place, reward) for the items of the head that earn something in the context `row`, shared
 * by the threads from `first` on, every step-th. */
template <class F>
__device__ inline void each_rewarded(const sparse &s, uint32_t row, size_t first, size_t step,
                                     F f) {
  if (s.indptr != nullptr) {
    for (uint64_t i = s.indptr[row] + first; i < s.indptr[row + 1]; i += step) {
      uint32_t place = s.place[s.y[i]];
      if (place < s.H) f(place, 1.0f);
    }
  }
  if (s.credit.action != nullptr && first == 0) {
    uint32_t place = s.place[s.credit.action[row]];
    if (place < s.H) {
      f(place, s.credit.weight[row] * (s.credit.gain[row] - s.credit.shift));
    }
  }
}

/* A block a context. On entry w [B, H] and c [B, S] hold the scores of the head and of the tail;
 * then w holds wbar, and c holds wbar (r - rbar) of the tail. */
__global__ void head_weights_kernel(float *w, float *c, float *stats, const float *logq,
                                    const float *r, const uint32_t *rows, sparse rewards,
                                    size_t S) {
  size_t b = blockIdx.x, H = rewards.H;
  w += b * H;
  c += b * S;
  logq += b * S;
  r += b * S;
  float most = -INFINITY;
  for (size_t h = threadIdx.x; h < H; h += blockDim.x) most = larger(most, w[h]);
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) most = larger(most, c[s] -= logq[s]);
  float shift = block_max(most);
  double in_head = 0, in_tail = 0, squares = 0, earned = 0;
  for (size_t h = threadIdx.x; h < H; h += blockDim.x) {
    w[h] = expf(w[h] - shift);
    in_head += (double)w[h];
    squares += (double)w[h] * (double)w[h];
  }
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) {
    c[s] = expf(c[s] - shift);
    in_tail += (double)c[s];
    squares += (double)c[s] * (double)c[s];
    earned += (double)c[s] * (double)r[s];
  }
  __syncthreads(); /* all of w is there */
  each_rewarded(rewards, rows[b], threadIdx.x, blockDim.x,
                [&](uint32_t place, float reward) { earned += (double)w[place] * (double)reward; });
  in_head = block_sum(in_head);
  double W = in_head + block_sum(in_tail), rbar = block_sum(earned) / W;
  squares = block_sum(squares);
  float share = (float)(1 / W);
  for (size_t h = threadIdx.x; h < H; h += blockDim.x) w[h] *= share;
  for (size_t s = threadIdx.x; s < S; s += blockDim.x) c[s] *= share * (r[s] - (float)rbar);
  if (threadIdx.x != 0) return;
  stats += b * FOPO_STATS;
  stats[FOPO_STAT_REWARD] = (float)rbar;
  stats[FOPO_STAT_ESS] = (float)(W * W / squares);
  stats[FOPO_STAT_MAX_WEIGHT] = (float)(1 / W);
  stats[FOPO_STAT_HEAD_MASS] = (float)(in_head / W);
}

/* ---- V ---- */

/* A block a context; V [B, L] holds the sums over the tail. V += sum wbar r beta over the head's
 * rewarded items - rbar sum wbar beta over the head, the latter in mean [B, L]. */
__global__ void head_finish_kernel(float *V, const float *mean, const float *w, const float *head,
                                   const float *stats, const uint32_t *rows, sparse rewards,
                                   size_t L) {
  size_t b = blockIdx.x;
  w += b * rewards.H;
  double rbar = (double)stats[b * FOPO_STATS + FOPO_STAT_REWARD];
  for (size_t i = threadIdx.x; i < L; i += blockDim.x) {
    double sum = (double)V[b * L + i] - rbar * (double)mean[b * L + i];
    each_rewarded(rewards, rows[b], 0, 1, [&](uint32_t place, float reward) {
      sum += (double)w[place] * (double)reward * (double)head[place * L + i];
    });
    V[b * L + i] = (float)sum;
  }
}

int snis_head(fopo_device *d, const fopo_estimate *e, const fopo_shared_head *head,
              const fopo_sparse_reward *reward, const fopo_samples *tail, const fopo_rows *items,
              const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S, L = batch->L, H = head->H;
  const float *rows = static_cast<const float *>(head->rows.x);
  sparse rewards = {reward->Y.indptr, reward->Y.ids, reward->credit, head->place, H};
  float *w = nullptr, *c = nullptr, *mean = nullptr, *partial = nullptr;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    w = memory.array<float>(B * H);
    c = memory.array<float>(B * S);
    mean = memory.array<float>(B * L);
    partial = memory.array<float>(sum_rows_scratch(B, S, L));
    int status = placed ? FOPO_OK : reserve(d, memory.used, "the sums of a shared head");
    if (status != FOPO_OK) return status;
  }
  int status = gemm(d, w, H, 1.0f, batch->Q, L, 0, rows, L, 1, 0.0f, B, H, L);
  if (status == FOPO_OK) {
    status = score_ids(d, c, batch->Q, items, tail->ids, nullptr, B, S, L);
  }
  if (status == FOPO_OK) {
    status = launch(d, "the weights of a head", B, THREADS, 0, head_weights_kernel, w, c, e->stats,
                    tail->logq, tail->r, batch->rows, rewards, S);
  }
  if (status == FOPO_OK) status = gemm(d, mean, L, 1.0f, w, H, 0, rows, L, 0, 0.0f, B, L, H);
  if (status == FOPO_OK) status = sum_rows(d, e->V, partial, items, tail->ids, c, B, S, L);
  if (status != FOPO_OK) return status;
  return launch(d, "the sums of a head", B, THREADS, 0, head_finish_kernel, e->V, mean, w, rows,
                e->stats, batch->rows, rewards, L);
}

} // namespace gpu
