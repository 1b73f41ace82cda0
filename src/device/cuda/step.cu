/* What a step does beside its estimate, on the GPU: sets of candidates that are kept by context,
 * the statistics of a batch, and the clock. */
#include "device/cuda/stats.cuh"

namespace gpu {

/* ---- kept candidates ---- */

/* A block copies the set of context b: from row of[b], or to row into[b]; NULL: row b. */
__global__ void copy_kernel(fopo_candidate_sets to, const uint32_t *into, fopo_candidate_sets from,
                            const uint32_t *of) {
  size_t b = blockIdx.x, K = to.k;
  size_t at = into != nullptr ? into[b] : b, n = of != nullptr ? of[b] : b;
  for (size_t i = threadIdx.x; i < K; i += blockDim.x) to.ids[at * K + i] = from.ids[n * K + i];
  if (threadIdx.x == 0) to.counts[at] = from.counts[n];
}

int store_sets(fopo_device *d, const fopo_candidate_sets *cache, const fopo_candidate_sets *sets,
               const uint32_t *rows, size_t B) {
  return launch(d, "keeping candidates", B, THREADS, 0, copy_kernel, *cache, rows, *sets, nullptr);
}

int load_sets(fopo_device *d, const fopo_candidate_sets *sets, const fopo_candidate_sets *cache,
              const uint32_t *rows, size_t B) {
  return launch(d, "loading kept candidates", B, THREADS, 0, copy_kernel, *sets, nullptr, *cache,
                rows);
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
