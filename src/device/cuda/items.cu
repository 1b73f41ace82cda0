/* Training the items on the GPU: their gradient from the coefficients of draws, which are sorted by
 * item by CUB's radix sort. It is stable, so draws of one item keep their order; one block sums
 * each row in that order: the same bits every time. */
#include "device/cuda/cuda.cuh"

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#endif

#include <climits>

namespace gpu {

/* ---- the draws, by item ---- */

__global__ void number_kernel(uint32_t *place, size_t n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) place[i] = (uint32_t)i;
}

/* 1 at the first draw of each item, else 0. */
__global__ void boundary_kernel(uint32_t *boundary, const uint32_t *id, size_t n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) boundary[i] = i == 0 || id[i] != id[i - 1];
}

/* first[g] = the index of the first draw of the g-th distinct item; first[groups] = n. group [n] is
 * the running sum of the boundaries. */
__global__ void first_kernel(uint32_t *first, const uint32_t *id, const uint32_t *group, size_t n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (i == 0 || id[i] != id[i - 1]) first[group[i] - 1] = (uint32_t)i;
  if (i == n - 1) first[group[i]] = (uint32_t)n;
}

struct sorted_draws {
  uint32_t *id, *place, *sorted_id, *sorted_place; /* [n] */
  uint32_t *group, *first;                         /* [n], [n + 1] */
  void *temporary;
  size_t temporary_bytes;
};

static int bits_of(size_t P) {
  int bits = 1;
  while (bits < 32 && (P - 1) >> bits > 0) bits++;
  return bits;
}

static int sort(fopo_device *d, const sorted_draws &x, size_t n, size_t P, size_t *temporary) {
  size_t bytes = temporary != nullptr ? 0 : x.temporary_bytes;
  cudaError_t error = cub::DeviceRadixSort::SortPairs(
      temporary != nullptr ? nullptr : x.temporary, bytes, x.id, x.sorted_id, x.place,
      x.sorted_place, (int)n, 0, bits_of(P), of(d)->stream);
  if (temporary != nullptr) *temporary = bytes;
  return check(error, "sorting the draws by item");
}

static int add_up(fopo_device *d, const sorted_draws &x, size_t n, size_t *temporary) {
  size_t bytes = temporary != nullptr ? 0 : x.temporary_bytes;
  cudaError_t error = cub::DeviceScan::InclusiveSum(temporary != nullptr ? nullptr : x.temporary,
                                                    bytes, x.place, x.group, (int)n, of(d)->stream);
  if (temporary != nullptr) *temporary = bytes;
  return check(error, "counting the items drawn");
}

/* Places the arrays for n draws, and CUB's, in scratch. */
static int reserve_draws(fopo_device *d, sorted_draws *x, size_t n, size_t P) {
  size_t for_sort = 0, for_sum = 0;
  *x = {};
  int status = alive();
  if (status == FOPO_OK) status = sort(d, *x, n, P, &for_sort);
  if (status == FOPO_OK) status = add_up(d, *x, n, &for_sum);
  if (status != FOPO_OK) return status;
  x->temporary_bytes = for_sort > for_sum ? for_sort : for_sum;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    x->id = memory.array<uint32_t>(n);
    x->place = memory.array<uint32_t>(n);
    x->sorted_id = memory.array<uint32_t>(n);
    x->sorted_place = memory.array<uint32_t>(n);
    x->group = memory.array<uint32_t>(n);
    x->first = memory.array<uint32_t>(n + 1);
    x->temporary = memory.array<char>(x->temporary_bytes + 1);
    status = placed ? FOPO_OK : reserve(d, memory.used, "sorting the draws by item");
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* A block for each distinct item. */
__global__ void gradient_kernel(float *rows, uint32_t *touched, const sorted_draws x,
                                const float *c, const float *Q, float scale, size_t S, size_t L) {
  size_t g = blockIdx.x;
  uint32_t first = x.first[g], end = x.first[g + 1], id = x.sorted_id[first];
  float *row = rows + (touched != nullptr ? g : id) * L;
  if (touched != nullptr && threadIdx.x == 0) touched[g] = id;
  for (size_t j = threadIdx.x; j < L; j += blockDim.x) {
    float sum = touched != nullptr ? 0.0f : row[j];
    for (uint32_t i = first; i < end; i++) {
      size_t place = x.sorted_place[i];
      sum += scale * c[place] * Q[place / S * L + j];
    }
    row[j] = sum;
  }
}

int items_gradient(fopo_device *d, fopo_item_gradient *g, const float *c,
                   const fopo_samples *samples, float scale, const fopo_device_batch *batch) {
  size_t S = batch->S, L = batch->L, n = batch->B * S, blocks = ceil_div(n, THREADS);
  sorted_draws x;
  if (n >= INT_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%zu draws at once are too many to learn items from; use "
                     "a smaller batch or fewer samples",
                     n);
  }
  int status = reserve_draws(d, &x, n, batch->P);
  if (status == FOPO_OK) {
    status = check(cudaMemcpyAsync(x.id, samples->ids, n * sizeof *x.id, cudaMemcpyDeviceToDevice,
                                   of(d)->stream),
                   "sorting the draws by item");
  }
  if (status == FOPO_OK) {
    status = launch(d, "numbering the draws", blocks, THREADS, 0, number_kernel, x.place, n);
  }
  if (status == FOPO_OK) status = sort(d, x, n, batch->P, nullptr);
  if (status == FOPO_OK) { /* from here on place holds the boundaries */
    status = launch(d, "counting the items drawn", blocks, THREADS, 0, boundary_kernel, x.place,
                    (const uint32_t *)x.sorted_id, n);
  }
  if (status == FOPO_OK) status = add_up(d, x, n, nullptr);
  if (status == FOPO_OK) {
    status = launch(d, "counting the items drawn", blocks, THREADS, 0, first_kernel, x.first,
                    (const uint32_t *)x.sorted_id, (const uint32_t *)x.group, n);
  }
  uint32_t groups = 0;
  if (status == FOPO_OK) status = get(d, &groups, x.group + n - 1, sizeof groups);
  if (status != FOPO_OK) return status;
  if (g->ids != nullptr) g->n = groups;
  unsigned threads = (unsigned)least(ceil_div(L, WARP) * WARP, THREADS);
  return launch(d, "the gradient of the items", groups, threads, 0, gradient_kernel, g->rows,
                g->ids, x, c, batch->Q, scale, S, L);
}

} // namespace gpu
