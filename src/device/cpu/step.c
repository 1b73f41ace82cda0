/* What a step does beside its estimate: sets of candidates that are kept by context, and the
 * statistics of a batch. */
#include <string.h>

#include "core/status.h"
#include "device/cpu/cpu.h"

int fopo_cpu_store_sets(fopo_device *d, const fopo_candidate_sets *cache,
                        const fopo_candidate_sets *sets, const uint32_t *rows, size_t B) {
  (void)d;
  size_t k = sets->k;
  for (size_t b = 0; b < B; b++) {
    memcpy(cache->ids + rows[b] * k, sets->ids + b * k, k * sizeof *sets->ids);
    cache->counts[rows[b]] = sets->counts[b];
  }
  return FOPO_OK;
}

int fopo_cpu_load_sets(fopo_device *d, const fopo_candidate_sets *sets,
                       const fopo_candidate_sets *cache, const uint32_t *rows, size_t B) {
  (void)d;
  size_t k = sets->k;
  for (size_t b = 0; b < B; b++) {
    memcpy(sets->ids + b * k, cache->ids + rows[b] * k, k * sizeof *sets->ids);
    sets->counts[b] = cache->counts[rows[b]];
  }
  return FOPO_OK;
}

int fopo_cpu_add_stats(fopo_device *d, fopo_statistics *sums, const float *stats,
                       const fopo_candidate_sets *sets, int start, const fopo_device_batch *batch) {
  (void)d;
  if (start) *sums = (fopo_statistics){0};
  for (size_t b = 0; b < batch->B; b++) {
    int with_candidates = b < batch->with_candidates;
    uint32_t all = (uint32_t)sets->k, found = with_candidates ? all : 0;
    if (with_candidates && sets->counts != NULL) found = sets->counts[b];
    fopo_statistics_add_context(sums, stats + b * FOPO_STATS, with_candidates, found, sets->k);
  }
  return FOPO_OK;
}
