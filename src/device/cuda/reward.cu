/* Scores of chosen items, and rewards of the samples, on the GPU. A team of eight threads computes
 * one score. */
#include <cmath>

#include "device/cuda/reward.cuh"
#include "device/cuda/rows.cuh"

namespace gpu {

constexpr unsigned LANES = 8, TEAMS = THREADS / LANES;

/* The left factors of the dot products: row b of q for context b or, if rows is not NULL, row
 * rows[b]. */
struct factors {
  const float *q;
  const uint32_t *rows;
};

/* The items that are scored: row b of ids [B, S], or row rows[b]; f = -inf from counts on. */
struct listed {
  const uint32_t *ids, *counts; /* counts NULL: S of each */
  const uint32_t *rows;         /* NULL: row b */
  fopo_sparse_scores sparse;    /* what is added */
};

enum link { PLAIN, LOGISTIC };

template <class T>
__global__ void scores_kernel(float *f, factors left, const T *items, size_t ld, int bytes,
                              listed x, int link, size_t n, size_t S, size_t L) {
  unsigned lane = threadIdx.x % LANES;
  size_t i = (size_t)blockIdx.x * TEAMS + threadIdx.x / LANES;
  bool active = i < n;
  size_t b = active ? i / S : 0, row = active && x.rows != nullptr ? x.rows[b] : b;
  if (active && x.counts != nullptr && i % S >= x.counts[row]) {
    if (lane == 0) f[i] = -INFINITY;
    active = false;
  }
  const float *q = left.q + (left.rows != nullptr ? left.rows[b] : b) * L;
  float sum =
      active ? dot_part(items + x.ids[row * S + i % S] * ld, q, L, lane, LANES, bytes) : 0.0f;
  sum = team_sum<LANES>(sum);
  if (!active || lane != 0) return;
  if (x.sparse.indptr != nullptr)
    sum = fopo_score_sum(sum, sparse_score(x.sparse, b, x.ids[row * S + i % S]));
  f[i] = link == LOGISTIC ? 1.0f / (1.0f + expf(sum > -80.0f ? -sum : 80.0f)) : sum;
}

template <class T>
static int score_rows(fopo_device *d, float *f, factors left, const void *items, size_t ld,
                      listed x, int link, size_t B, size_t S, size_t L) {
  return launch(d, "scores", ceil_div(B * S, TEAMS), THREADS, 0, scores_kernel<T>, f, left,
                static_cast<const T *>(items), ld, load_bytes<T>(items, ld, L), x, link, B * S, S,
                L);
}

static int score_listed(fopo_device *d, float *f, const fopo_rows *items, listed x, size_t S,
                        const fopo_device_batch *batch) {
  factors left = {batch->Q, nullptr};
  size_t B = batch->B, L = batch->L;
  x.sparse = fopo_batch_scores(batch);
  return by_type(items->type, [&]<class T>() {
    return score_rows<T>(d, f, left, items->x, items->ld, x, PLAIN, B, S, L);
  });
}

int score_ids(fopo_device *d, float *f, const fopo_rows *items, const uint32_t *ids,
              const uint32_t *counts, size_t S, const fopo_device_batch *batch) {
  return score_listed(d, f, items, {ids, counts, nullptr, {}}, S, batch);
}

int scores_kept(fopo_device *d, float *scores, const fopo_candidate_sets *cache,
                const uint32_t *rows, const fopo_rows *items, const fopo_device_batch *batch) {
  return score_listed(d, scores, items, {cache->ids, cache->counts, rows, {}}, cache->k, batch);
}

int scores(fopo_device *d, const fopo_candidate_sets *sets, const fopo_rows *items,
           const fopo_device_batch *batch) {
  return score_ids(d, sets->scores, items, sets->ids, sets->counts, sets->k, batch);
}

int reward_model(fopo_device *d, const fopo_samples *samples, const fopo_low_rank *model,
                 const fopo_device_batch *batch) {
  factors left = {model->users, batch->rows};
  return score_rows<float>(d, samples->r, left, model->items, model->rank,
                           {samples->ids, nullptr, nullptr, {}}, model->logistic ? LOGISTIC : PLAIN,
                           batch->B, batch->S, model->rank);
}

/* ---- rewards that are looked up: a thread a sample ---- */

__global__ void hits_kernel(float *r, const uint32_t *ids, const uint32_t *rows,
                            const uint64_t *indptr, const uint32_t *y, const float *value, size_t n,
                            size_t S) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t row = rows[i / S];
  bool hit = contains(y, indptr[row], indptr[row + 1], ids[i]);
  r[i] = hit ? fopo_hit_value(value, ids[i]) : 0.0f;
}

int reward_hits(fopo_device *d, const fopo_samples *samples, const fopo_csr *Y, const float *value,
                const fopo_device_batch *batch) {
  size_t n = batch->B * batch->S;
  return launch(d, "hits", ceil_div(n, THREADS), THREADS, 0, hits_kernel, samples->r, samples->ids,
                batch->rows, Y->indptr, Y->ids, value, n, batch->S);
}

__global__ void credit_kernel(float *r, const uint32_t *ids, const uint32_t *rows, fopo_credit c,
                              int add, size_t n, size_t S) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t row = rows[i / S];
  float credit = ids[i] == c.action[row] ? credit_of(c, row) : 0.0f;
  r[i] = (add ? r[i] : 0.0f) + credit;
}

int reward_credit(fopo_device *d, const fopo_samples *samples, const fopo_credit *credit, int add,
                  const fopo_device_batch *batch) {
  size_t n = batch->B * batch->S;
  return launch(d, "logged rewards", ceil_div(n, THREADS), THREADS, 0, credit_kernel, samples->r,
                samples->ids, batch->rows, *credit, add, n, batch->S);
}

} // namespace gpu
