/* The statistics of a batch, by a block. */
#ifndef FOPO_DEVICE_CUDA_STATS_CUH
#define FOPO_DEVICE_CUDA_STATS_CUH

#include "device/cuda/cuda.cuh"

namespace gpu {

/* As the operation add_stats takes them. */
struct batch_stats {
  fopo_statistics *sums;  /* NULL: not wanted */
  const uint32_t *counts; /* NULL: k of all */
  const uint32_t *kept;   /* context b has counts[kept[b]]; NULL: counts[b] */
  size_t with_candidates, k, B;
  int start;
};

/* Each thread adds up every blockDim.x-th context of stats [B, FOPO_STATS], then the threads' sums
 * are joined row by row. */
__device__ inline void add_up_batch(const batch_stats &x, const float *stats) {
  fopo_statistics own = {}, all = {};
  for (size_t b = threadIdx.x; b < x.B; b += blockDim.x) {
    size_t place = x.kept != nullptr ? x.kept[b] : b;
    fopo_statistics_add_context(&own, stats + b * FOPO_STATS, b < x.with_candidates,
                                b >= x.with_candidates ? 0
                                : x.counts != nullptr  ? x.counts[place]
                                                       : x.k,
                                x.k);
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
  if (!x.start) fopo_statistics_join(&all, x.sums);
  *x.sums = all;
}

} // namespace gpu

#endif
