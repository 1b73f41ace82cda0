/* Training the items on the GPU: their gradient from the coefficients of draws, and the updates of
 * rows. The draws are sorted by item by CUB's radix sort, which is stable, so draws of one item
 * keep their order; one block sums each row in that order: the same bits every time. */
#include "device/cuda/cuda.cuh"

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#endif

#include <climits>
#include <cmath>

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

/* ---- updates ---- */

/* A block a row. One thread counts the item's updates and computes Adam's bias corrections. */
__global__ void adam_rows_kernel(float *items, float *m, float *v, uint32_t *updates,
                                 const float *rows, const uint32_t *touched, fopo_adam o,
                                 float scale, float decay, float keep, size_t L) {
  __shared__ float lr, unbias;
  size_t i = blockIdx.x, a = touched != nullptr ? touched[i] : i;
  if (threadIdx.x == 0) {
    double t = (double)++updates[a];
    lr = (float)(o.u.lr / (1 - pow(o.beta1, t)));
    unbias = (float)(1 / (1 - pow(o.beta2, t)));
  }
  __syncthreads();
  float beta1 = (float)o.beta1, rest1 = (float)(1 - o.beta1);
  float beta2 = (float)o.beta2, rest2 = (float)(1 - o.beta2);
  float eps = (float)o.eps;
  for (size_t j = threadIdx.x; j < L; j += blockDim.x) {
    size_t at = a * L + j;
    float g = scale * rows[i * L + j] - decay * items[at];
    m[at] = beta1 * m[at] + rest1 * g;
    v[at] = beta2 * v[at] + rest2 * g * g;
    items[at] = keep * items[at] + lr * m[at] / (sqrtf(v[at] * unbias) + eps);
  }
}

int adam_rows(fopo_device *d, const fopo_parameters *x, const fopo_item_gradient *g,
              const fopo_adam *o, size_t L) {
  unsigned threads = (unsigned)least(ceil_div(L, WARP) * WARP, THREADS);
  return launch(d, "adam on items", g->n, threads, 0, adam_rows_kernel, x->theta, x->m, x->v,
                x->updates, g->rows, g->ids, *o, fopo_update_scale(&o->u, o->u.norm),
                fopo_update_decay(&o->u), fopo_update_keep(&o->u), L);
}

__global__ void sgd_rows_kernel(float *items, float *velocity, const float *rows,
                                const uint32_t *touched, float lr, float momentum, float scale,
                                float decay, float keep, size_t n, size_t L) {
  size_t k = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= n) return;
  size_t i = k / L, a = touched != nullptr ? touched[i] : i, at = a * L + k % L;
  velocity[at] = momentum * velocity[at] + (scale * rows[k] - decay * items[at]);
  items[at] = keep * items[at] + lr * velocity[at];
}

int sgd_rows(fopo_device *d, const fopo_parameters *x, const fopo_item_gradient *g,
             const fopo_sgd *o, size_t L) {
  return launch(d, "sgd on items", ceil_div(g->n * L, THREADS), THREADS, 0, sgd_rows_kernel,
                x->theta, x->m, g->rows, g->ids, (float)o->u.lr, (float)o->momentum,
                fopo_update_scale(&o->u, o->u.norm), fopo_update_decay(&o->u),
                fopo_update_keep(&o->u), g->n * L, L);
}

__global__ void adagrad_rows_kernel(float *items, float *v, const float *rows,
                                    const uint32_t *touched, float lr, float eps, float scale,
                                    float decay, float keep, size_t n, size_t L) {
  size_t k = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= n) return;
  size_t i = k / L, a = touched != nullptr ? touched[i] : i, at = a * L + k % L;
  float g = scale * rows[k] - decay * items[at];
  v[at] += g * g;
  items[at] = keep * items[at] + lr * g / (sqrtf(v[at]) + eps);
}

int adagrad_rows(fopo_device *d, const fopo_parameters *x, const fopo_item_gradient *g,
                 const fopo_adagrad *o, size_t L) {
  return launch(d, "adagrad on items", ceil_div(g->n * L, THREADS), THREADS, 0, adagrad_rows_kernel,
                x->theta, x->v, g->rows, g->ids, (float)o->u.lr, (float)o->eps,
                fopo_update_scale(&o->u, o->u.norm), fopo_update_decay(&o->u),
                fopo_update_keep(&o->u), g->n * L, L);
}

} // namespace gpu
