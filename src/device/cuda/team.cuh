/* The sums of samples whose rows are read once, by a team of threads and by a block of teams. */
#ifndef FOPO_DEVICE_CUDA_TEAM_CUH
#define FOPO_DEVICE_CUDA_TEAM_CUH

#include "device/cuda/rows.cuh"

namespace gpu {

/* A team's sums so far; u and v are this lane's part of sum w beta and sum w d beta. */
template <int PER> struct running { float shift, w, ww, wd, head, u[PER], v[PER]; };

template <int PER>
__device__ inline void add_sample(running<PER> &t, const float *x, float z, float d, bool head) {
  if (z == -INFINITY) return; /* masked */
  if (z > t.shift) {          /* scale every sum to the larger shift */
    float factor = expf(t.shift - z);
    t.w *= factor;
    t.ww *= factor * factor;
    t.wd *= factor;
    t.head *= factor;
#pragma unroll
    for (int e = 0; e < PER; e++) t.u[e] *= factor, t.v[e] *= factor;
    t.shift = z;
  }
  float w = expf(z - t.shift), c = w * d;
  t.w += w;
  t.ww += w * w;
  t.wd += c;
  t.head += head ? w : 0.0f;
#pragma unroll
  for (int e = 0; e < PER; e++) {
    t.u[e] += w * x[e];
    t.v[e] += c * x[e];
  }
}

/* Adds one of the two vectors over the warps of a block, each of which has added it over its teams:
 * tile [WARPS, LANES * PER] is shared memory, out [L]. */
template <class T, int BYTES, int LANES, int PER>
__device__ inline void add_warps(float *out, float *tile, float *own, size_t L) {
  constexpr int WIDTH = LANES * PER;
  unsigned lane = threadIdx.x % LANES, warp = threadIdx.x / WARP;
#pragma unroll
  for (int e = 0; e < PER; e++) {
#pragma unroll
    for (int o = LANES; o < (int)WARP; o <<= 1) own[e] += __shfl_xor_sync(0xffffffffu, own[e], o);
  }
  __syncthreads(); /* every thread has read the tile's earlier contents */
  if (threadIdx.x % WARP < LANES) {
#pragma unroll
    for (int e = 0; e < PER; e++) {
      tile[warp * WIDTH + place_in_row<BYTES, T>(e, lane, LANES)] = own[e];
    }
  }
  __syncthreads();
  for (size_t i = threadIdx.x; i < L; i += THREADS) {
    double sum = 0;
    for (unsigned w = 0; w < THREADS / WARP; w++) sum += (double)tile[w * WIDTH + i];
    out[i] = (float)sum;
  }
}

} // namespace gpu

#endif
