/* Rewards that are looked up: the values of the hits of a context, or the credit of its logged
 * action. */
#ifndef FOPO_DEVICE_CUDA_REWARD_CUH
#define FOPO_DEVICE_CUDA_REWARD_CUH

#include "device/cuda/cuda.cuh"

namespace gpu {

/* Whether id is in y [first, end), which ascends. */
__device__ inline bool contains(const uint32_t *y, uint64_t first, uint64_t end, uint32_t id) {
  uint64_t most = end;
  while (first < end) { /* binary search for the first entry >= id */
    uint64_t half = (first + end) / 2;
    if (y[half] < id) {
      first = half + 1;
    } else {
      end = half;
    }
  }
  return first < most && y[first] == id;
}

__device__ inline float credit_of(const fopo_credit &c, uint32_t row) {
  return c.weight[row] * (c.gain[row] - c.shift);
}

/* Of fopo_sparse_reward; a part that it has not is NULL. */
struct sparse_reward {
  const uint64_t *indptr; /* of Y */
  const uint32_t *y;
  const float *value; /* [P]; NULL: every hit earns 1 */
  fopo_credit credit;
};

inline sparse_reward sparse_of(const fopo_sparse_reward &r) {
  return {r.Y.indptr, r.Y.ids, r.value, r.credit};
}

__device__ inline float reward_of(const sparse_reward &r, uint32_t row, uint32_t id) {
  bool hit = r.indptr != nullptr && contains(r.y, r.indptr[row], r.indptr[row + 1], id);
  bool logged = r.credit.action != nullptr && r.credit.action[row] == id;
  return (hit ? fopo_hit_value(r.value, id) : 0.0f) + (logged ? credit_of(r.credit, row) : 0.0f);
}

/* No item of the context earns less, but one that is hit and logged. */
__device__ inline float least_reward(const sparse_reward &r, uint32_t row) {
  return r.credit.action != nullptr ? fminf(credit_of(r.credit, row), 0.0f) : 0.0f;
}

} // namespace gpu

#endif
