/* The rows of a shared head on the GPU, side by side. */
#include "device/cuda/rows.cuh"

namespace gpu {

/* A block a row; behind its L numbers zeros up to ld. In float32 numbers are as they are, or
 * rounded to bfloat16. */
template <class U, class T>
__global__ void pack_kernel(U *out, size_t ld, const T *items, size_t items_ld,
                            const uint32_t *order, size_t L, bool rounded) {
  const T *row = items + order[blockIdx.x] * items_ld;
  for (size_t i = threadIdx.x; i < ld; i += blockDim.x) {
    float x = i < L ? to_float(row[i]) : 0.0f;
    U *to = out + blockIdx.x * ld + i;
    if constexpr (sizeof(U) == 2) {
      *to = U{to_bf16(x)};
    } else {
      *to = rounded ? to_float(bf16{to_bf16(x)}) : x;
    }
  }
}

template <class U, class T>
static int pack_as(fopo_device *d, fopo_shared_head *head, const fopo_rows *items, size_t L,
                   bool rounded) {
  U *out = static_cast<U *>(const_cast<void *>(head->rows.x)); /* the caller's memory */
  head->rows.type = sizeof(U) == 2 ? FOPO_BFLOAT16 : FOPO_FLOAT32;
  head->rows.ld = fopo_rows_ld(L);
  unsigned threads = (unsigned)least(rounded_up(head->rows.ld, WARP), THREADS);
  return launch(d, "packing a head", head->H, threads, 0, pack_kernel<U, T>, out, head->rows.ld,
                static_cast<const T *>(items->x), items->ld, head->order, L, rounded);
}

/* A card without products of bfloat16 has the rounded rows in float32. */
template <class T>
static int pack(fopo_device *d, fopo_shared_head *head, const fopo_rows *items, size_t L,
                bool rounded) {
  return rounded && of(d)->has_bf16 ? pack_as<bf16, T>(d, head, items, L, rounded)
                                    : pack_as<float, T>(d, head, items, L, rounded);
}

int pack_head(fopo_device *d, fopo_shared_head *head, const fopo_rows *items, size_t L,
              fopo_products products) {
  bool chosen = of(d)->has_bf16 && items->type != FOPO_FLOAT16;
  bool rounded = products == FOPO_PRODUCTS_AUTO ? chosen : products == FOPO_PRODUCTS_BFLOAT16;
  return by_type(items->type, [&]<class T>() { return pack<T>(d, head, items, L, rounded); });
}

} // namespace gpu
