/* What a step does beside its estimate, on the GPU: candidates that are kept by context, the
 * statistics of a batch, the totals by which the host need not wait for each step, and the clock.
 */
#include <cmath>

#include "device/cuda/cuda.cuh"

namespace gpu {

/* ---- candidates that are kept ---- */

__global__ void store_kernel(uint32_t *sets, uint32_t *set_counts, const uint32_t *ids,
                             const uint32_t *counts, const uint32_t *rows, size_t K) {
  size_t b = blockIdx.x, n = rows[b];
  for (size_t i = threadIdx.x; i < K; i += blockDim.x) sets[n * K + i] = ids[b * K + i];
  if (threadIdx.x == 0) set_counts[n] = counts[b];
}

int store_sets(fopo_device *d, const fopo_candidate_sets *cache, const fopo_candidate_sets *sets,
               const uint32_t *rows, size_t B) {
  return launch(d, "keeping candidates", B, THREADS, 0, store_kernel, cache->ids, cache->counts,
                sets->ids, sets->counts, rows, sets->k);
}

__global__ void load_kernel(uint32_t *ids, uint32_t *counts, const uint32_t *sets,
                            const uint32_t *set_counts, const uint32_t *rows, size_t K) {
  size_t b = blockIdx.x, n = rows[b];
  for (size_t i = threadIdx.x; i < K; i += blockDim.x) ids[b * K + i] = sets[n * K + i];
  if (threadIdx.x == 0) counts[b] = set_counts[n];
}

int load_sets(fopo_device *d, const fopo_candidate_sets *sets, const fopo_candidate_sets *cache,
              const uint32_t *rows, size_t B) {
  return launch(d, "taking kept candidates", B, THREADS, 0, load_kernel, sets->ids, sets->counts,
                cache->ids, cache->counts, rows, sets->k);
}

/* ---- statistics ---- */

/* One block for the batch. */
__global__ void stats_kernel(fopo_sums *sums, const float *stats, const uint32_t *counts,
                             size_t with_candidates, size_t k, int start, size_t B) {
  fopo_sums own = {};
  for (size_t b = threadIdx.x; b < B; b += blockDim.x) {
    const float *s = stats + b * FOPO_STATS;
    own.reward += (double)s[FOPO_STAT_REWARD];
    own.ess += (double)s[FOPO_STAT_ESS];
    own.max_weight = fmax(own.max_weight, (double)s[FOPO_STAT_MAX_WEIGHT]);
    if (b >= with_candidates) continue;
    if (counts[b] > 0) own.head_mass += (double)s[FOPO_STAT_HEAD_MASS];
    own.short_rows += counts[b] < k;
  }
  float most = block_max((float)own.max_weight);
  fopo_sums all = {block_sum(own.reward),    block_sum(own.ess),      (double)most,
                   block_sum(own.head_mass), (double)with_candidates, block_sum(own.short_rows)};
  if (threadIdx.x != 0) return;
  if (!start) {
    all.reward += sums->reward;
    all.ess += sums->ess;
    all.max_weight = fmax(all.max_weight, sums->max_weight);
    all.head_mass += sums->head_mass;
    all.n_with_candidates += sums->n_with_candidates;
    all.short_rows += sums->short_rows;
  }
  *sums = all;
}

int add_stats(fopo_device *d, fopo_sums *sums, const float *stats, const uint32_t *counts,
              size_t with_candidates, size_t k, int start, size_t B) {
  return launch(d, "adding up statistics", 1, THREADS, 0, stats_kernel, sums, stats, counts,
                with_candidates, k, start, B);
}

/* One block; pieces [n]: sums of squares of the gradient. */
__global__ void totals_kernel(fopo_totals *t, const fopo_sums *sums, const double *pieces, size_t n,
                              double B) {
  double own = 0;
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) own += pieces[i];
  double norm = sqrt(block_sum(own));
  if (threadIdx.x != 0 || t->broken) return;
  if (!isfinite(norm)) {
    t->broken = 1;
    return;
  }
  t->steps++;
  t->norm += norm;
  t->sums.reward += sums->reward / B;
  t->sums.ess += sums->ess / B;
  t->sums.max_weight += sums->max_weight;
  t->sums.head_mass += sums->head_mass;
  t->sums.n_with_candidates += sums->n_with_candidates;
  t->sums.short_rows += sums->short_rows;
}

int totals(fopo_device *d, fopo_totals *t, const fopo_sums *sums, const float *G, size_t n,
           size_t B) {
  const double *pieces = nullptr;
  size_t count = 0;
  int status = norm2_pieces(d, &pieces, &count, G, n);
  if (status != FOPO_OK) return status;
  return launch(d, "the sums of a step", 1, THREADS, 0, totals_kernel, t, sums, pieces, count,
                (double)B);
}

/* ---- the clock ---- */

int start_clock(fopo_device *d) {
  int status = alive();
  if (status != FOPO_OK) return status;
  return check(cudaEventRecord(of(d)->began, of(d)->stream), "the clock");
}

int stop_clock(fopo_device *d, double *seconds) {
  state *s = of(d);
  float milliseconds = 0;
  int status = alive();
  if (status == FOPO_OK) status = check(cudaEventRecord(s->ended, s->stream), "the clock");
  if (status == FOPO_OK) status = check(cudaEventSynchronize(s->ended), "the work of a step");
  if (status == FOPO_OK) {
    status = check(cudaEventElapsedTime(&milliseconds, s->began, s->ended), "the clock");
  }
  *seconds = (double)milliseconds / 1e3;
  return status;
}

} // namespace gpu
