/* The target items of an objective: what they add to an estimate. */
#include <string.h>

#include "core/status.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"
#include "device/cpu/sparse.h"
#include "kernels/kernels.h"

enum { TILE = 64 }; /* targets that are looked at together */

/* Writes the targets among n ids that are not masked to `kept`, their values to `weight`, and
 * returns their number; *score += their weighted f. */
static size_t take_targets(uint32_t *kept, float *weight, double *score, const uint32_t *ids,
                           size_t n, const float *value, const float *q, size_t L,
                           const fopo_score_row *sparse, const fopo_rows *items) {
  float f[TILE];
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    float s = fopo_score_of(sparse, ids[i]);
    kept[found] = ids[i];
    weight[found] = fopo_hit_value(value, ids[i]);
    if (s == -INFINITY) continue;
    *score += (double)weight[found] * (double)s;
    found++;
  }
  fopo_cpu_gather_dot(f, items, kept, found, q, L);
  for (size_t i = 0; i < found; i++) *score += (double)weight[i] * (double)f[i];
  return found;
}

int fopo_cpu_add_targets(fopo_device *d, const fopo_estimate *e, const fopo_csr *Y,
                         const float *value, const uint32_t *rows, const fopo_rows *items,
                         double log_n, const fopo_device_batch *batch) {
  size_t L = batch->L;
  int status = fopo_cpu_reserve(d, L * sizeof(float));
  if (status != FOPO_OK) return status;
  fopo_sparse_scores sparse = fopo_batch_scores(batch);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    const uint32_t *ids = fopo_csr_row(Y, rows[b]);
    float *V = e->V + b * L, *stats = e->stats + b * FOPO_STATS, *sum = fopo_cpu_scratch(d);
    fopo_score_row row = fopo_score_row_of(&sparse, b);
    size_t count = fopo_csr_count(Y, rows[b]);
    double score = 0, total = 0; /* sums over T of value f, and of value */
    memset(sum, 0, L * sizeof *sum);
    for (size_t i = 0; i < count; i += TILE) {
      uint32_t kept[TILE];
      float weight[TILE];
      size_t n = count - i < TILE ? count - i : TILE;
      n = take_targets(kept, weight, &score, ids + i, n, value, batch->Q + b * L, L, &row, items);
      fopo_cpu_gather_axpy(sum, items, kept, weight, n, 0, L);
      for (size_t j = 0; j < n; j++) total += (double)weight[j];
    }
    if (total == 0 || stats[FOPO_STAT_ESS] == 0.0f) {
      memset(V, 0, L * sizeof *V);
      if (e->c != NULL) memset(e->c + b * batch->S, 0, batch->S * sizeof *e->c);
      stats[FOPO_STAT_REWARD] = 0;
      continue;
    }
    float share = (float)(1 / total);
    for (size_t i = 0; i < L; i++) V[i] += share * sum[i];
    stats[FOPO_STAT_REWARD] = (float)(score / total - ((double)stats[FOPO_STAT_REWARD] - log_n));
  }
  return FOPO_OK;
}
