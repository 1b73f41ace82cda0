/* What a step does beside its estimate, on the GPU: sets of candidates that are kept by context,
 * the statistics of a batch, the totals by which the host need not wait for each step, and the
 * clock. */
#include <cmath>

#include "device/cuda/cuda.cuh"

namespace gpu {

/* ---- kept candidates: a block copies the set of a context ---- */

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
  return launch(d, "loading kept candidates", B, THREADS, 0, load_kernel, sets->ids, sets->counts,
                cache->ids, cache->counts, rows, sets->k);
}

/* ---- statistics ---- */

/* One block for the batch: each thread adds up every blockDim.x-th context, then the threads' sums
 * are joined row by row. */
__global__ void stats_kernel(fopo_statistics *sums, const float *stats, const uint32_t *counts,
                             size_t with_candidates, size_t k, int start, size_t B) {
  fopo_statistics own = {}, all = {};
  for (size_t b = threadIdx.x; b < B; b += blockDim.x) {
    fopo_statistics_add_context(&own, stats + b * FOPO_STATS, b < with_candidates,
                                b >= with_candidates ? 0
                                : counts != nullptr  ? counts[b]
                                                     : k,
                                k);
  }
#define FOPO_ROW(ID, name, kind, label, tag, text)                                                 \
  if (FOPO_##kind == FOPO_MEAN_OF_LARGEST) {                                                       \
    all.name = (double)block_max((float)own.name); /* of floats: exact */                          \
  } else if (FOPO_##kind != FOPO_MEAN_OF_STEPS) {                                                  \
    all.name = block_sum(own.name);                                                                \
  }
  FOPO_STATISTICS(FOPO_ROW)
#undef FOPO_ROW
  if (threadIdx.x != 0) return;
  if (!start) fopo_statistics_join(&all, sums);
  *sums = all;
}

int add_stats(fopo_device *d, fopo_statistics *sums, const float *stats,
              const fopo_candidate_sets *sets, int start, const fopo_device_batch *batch) {
  return launch(d, "adding up statistics", 1, THREADS, 0, stats_kernel, sums, stats,
                (const uint32_t *)sets->counts, batch->with_candidates, sets->k, start, batch->B);
}

constexpr size_t ALONE = 1 << 14; /* numbers of a gradient that one block adds up by itself */
constexpr unsigned MOST = 1024;   /* its threads */

/* One block. The squares of the gradient G [n] or, if it is NULL, pieces [n] of their sum. */
__global__ void __launch_bounds__(MOST)
    totals_kernel(fopo_totals *t, const fopo_statistics *sums, const float *G, const double *pieces,
                  size_t n) {
  double sum = 0;
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
    sum += G != nullptr ? (double)G[i] * (double)G[i] : pieces[i];
  }
  double norm = sqrt(block_sum(sum));
  if (threadIdx.x != 0 || t->broken) return;
  if (!isfinite(norm)) {
    t->broken = 1;
    return;
  }
  fopo_statistics step = *sums;
  step.norm = t->norm = norm;
  step.steps = 1;
  fopo_statistics_add(&t->slice, &step);
  fopo_statistics_add(&t->record, &step);
}

int totals(fopo_device *d, fopo_totals *t, const fopo_statistics *sums, const float *G, size_t n) {
  const double *pieces = nullptr;
  size_t count = n;
  int status = n <= ALONE ? FOPO_OK : norm2_pieces(d, &pieces, &count, G, n);
  if (status != FOPO_OK) return status;
  return launch(d, "the sums of a step", 1, n <= ALONE ? MOST : THREADS, 0, totals_kernel, t, sums,
                n <= ALONE ? G : nullptr, pieces, count);
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
