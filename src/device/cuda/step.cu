/* What a step does beside its estimate, on the GPU: sets of candidates that are kept by context,
 * the statistics of a batch, and the clock. */
#include "device/cuda/stats.cuh"

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

/* One block for the batch. */
__global__ void stats_kernel(batch_stats about, const float *stats) { add_up_batch(about, stats); }

int add_stats(fopo_device *d, fopo_statistics *sums, const float *stats,
              const fopo_candidate_sets *sets, int start, const fopo_device_batch *batch) {
  batch_stats about = {sums,    sets->counts, nullptr, batch->with_candidates,
                       sets->k, batch->B,     start};
  return launch(d, "adding up statistics", 1, THREADS, 0, stats_kernel, about, stats);
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
