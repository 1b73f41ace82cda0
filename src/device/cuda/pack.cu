/* The rows of a shared head on the GPU, side by side. */
#include "device/cuda/rows.cuh"

namespace gpu {

template <class U, class T> __device__ inline U converted(T x) {
  if constexpr (std::is_same_v<U, T>) {
    return x;
  } else {
    return to_float(x);
  }
}

/* A block a row; behind its L numbers zeros up to ld. */
template <class U, class T>
__global__ void pack_kernel(U *out, size_t ld, const T *items, size_t items_ld,
                            const uint32_t *order, size_t L) {
  const T *row = items + order[blockIdx.x] * items_ld;
  for (size_t i = threadIdx.x; i < ld; i += blockDim.x) {
    out[blockIdx.x * ld + i] = i < L ? converted<U>(row[i]) : U{};
  }
}

template <class U, class T>
static int pack_as(fopo_device *d, fopo_shared_head *head, const fopo_rows *items, size_t L) {
  U *out = static_cast<U *>(const_cast<void *>(head->rows.x)); /* the caller's memory */
  head->rows.type = sizeof(U) == 2 ? FOPO_BFLOAT16 : FOPO_FLOAT32;
  head->rows.ld = fopo_rows_ld(L);
  unsigned threads = (unsigned)least(rounded_up(head->rows.ld, WARP), THREADS);
  return launch(d, "packing a head", head->H, threads, 0, pack_kernel<U, T>, out, head->rows.ld,
                static_cast<const T *>(items->x), items->ld, head->order, L);
}

/* float16 is widened: it would have to be scaled to hold the small parts of queries and weights. */
int pack_head(fopo_device *d, fopo_shared_head *head, const fopo_rows *items, size_t L) {
  switch (items->type) {
  case FOPO_FLOAT16: return pack_as<float, fp16>(d, head, items, L);
  case FOPO_BFLOAT16:
    return of(d)->has_bf16 ? pack_as<bf16, bf16>(d, head, items, L)
                           : pack_as<float, bf16>(d, head, items, L);
  default: return pack_as<float, float>(d, head, items, L);
  }
}

} // namespace gpu
