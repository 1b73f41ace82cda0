/* The two searches for the k best items. */
#ifndef FOPO_DEVICE_CUDA_SEARCH_CUH
#define FOPO_DEVICE_CUDA_SEARCH_CUH

#include "device/cuda/topk.cuh"

namespace gpu {

/* norm_search.cu: of a catalogue with order, norms and a bfloat16 copy, without a wait. */
int search_by_norm(fopo_device *d, const answer &to, const fopo_catalogue *c,
                   const fopo_device_batch *batch);

} // namespace gpu

#endif
