/* Scores of chosen items; rewards of the samples: hits, a low-rank model, and what was logged. */
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"
#include "device/cpu/sparse.h"
#include "kernels/bloom.h"
#include "kernels/kernels.h"

int fopo_cpu_scores(fopo_device *d, const fopo_candidate_sets *sets, const fopo_rows *items,
                    const fopo_device_batch *batch) {
  (void)d;
  size_t k = sets->k, L = batch->L;
  const uint32_t *counts = sets->counts;
  int threads = fopo_threads_for(batch->B * k * L);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    size_t count = counts == NULL || counts[b] > k ? k : counts[b];
    const uint32_t *ids = sets->ids + b * k;
    float *f = sets->scores + b * k;
    fopo_cpu_sparse sparse;
    fopo_cpu_sparse_take(&sparse, batch, b);
    fopo_cpu_gather_dot(f, items, ids, count, batch->Q + b * L, L);
    fopo_cpu_sparse_add(f, &sparse, ids, count);
    for (size_t i = count; i < k; i++) f[i] = -INFINITY;
  }
  return FOPO_OK;
}

enum {
  REWARD_BITS = 13,  /* of the Bloom filter, 1 KiB: a context's items set few of its bits */
  REWARD_TILE = 256, /* samples that are filtered at once */
  DRAW = 8           /* multiply-adds in the time of one of them */
};

int fopo_cpu_reward_hits(fopo_device *d, const fopo_samples *samples, const fopo_csr *Y,
                         const float *value, const fopo_device_batch *batch) {
  (void)d;
  const fopo_kernels *k = fopo_kernels_get();
  size_t S = batch->S;
  int threads = fopo_threads_for(DRAW * batch->B * S);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    uint32_t bloom[(1 << REWARD_BITS) / 32] = {0}, maybe[REWARD_TILE], row = batch->rows[b];
    const uint32_t *hits = fopo_csr_row(Y, row), *id = samples->ids + b * S;
    float *r = samples->r + b * S;
    for (size_t i = 0; i < fopo_csr_count(Y, row); i++) {
      fopo_bloom_add(bloom, REWARD_BITS, hits[i]);
    }
    size_t all = batch->counts == NULL ? S : batch->counts[b];
    memset(r, 0, all * sizeof *r);
    for (size_t s = 0; s < all; s += REWARD_TILE) {
      size_t n = all - s < REWARD_TILE ? all - s : REWARD_TILE;
      size_t found = k->select_in_bloom(maybe, id + s, n, bloom, REWARD_BITS);
      for (size_t i = 0; i < found; i++) {
        size_t at = s + maybe[i];
        if (fopo_csr_contains(Y, row, id[at])) r[at] = fopo_hit_value(value, id[at]);
      }
    }
  }
  return FOPO_OK;
}

int fopo_cpu_reward_model(fopo_device *d, const fopo_samples *samples, const fopo_low_rank *model,
                          const fopo_device_batch *batch) {
  (void)d;
  const fopo_kernels *k = fopo_kernels_get();
  size_t S = batch->S, rank = model->rank;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    float *out = samples->r + b * S;
    const float *user = model->users + batch->rows[b] * rank;
    k->gather_dot(out, model->items, rank, samples->ids + b * S, S, user, rank);
    if (!model->logistic) continue;
    /* 1 / (1 + exp(-t)), with -t cut to a range in which exp is finite */
    for (size_t s = 0; s < S; s++) out[s] = -out[s] < 80.0f ? -out[s] : 80.0f;
    k->exp_sum(out, out, 0.0f, S);
    for (size_t s = 0; s < S; s++) out[s] = 1.0f / (1.0f + out[s]);
  }
  return FOPO_OK;
}

int fopo_cpu_reward_credit(fopo_device *d, const fopo_samples *samples, const fopo_credit *credit,
                           int add, const fopo_device_batch *batch) {
  (void)d;
  size_t S = batch->S;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < batch->B; b++) {
    uint32_t n = batch->rows[b], action = credit->action[n];
    const uint32_t *ids = samples->ids + b * S;
    float given = credit->weight[n] * (credit->gain[n] - credit->shift);
    float *out = samples->r + b * S;
    size_t all = batch->counts == NULL ? S : batch->counts[b];
    if (!add) memset(out, 0, all * sizeof *out);
    for (size_t s = 0; s < all; s++) out[s] += ids[s] == action ? given : 0.0f;
  }
  return FOPO_OK;
}
