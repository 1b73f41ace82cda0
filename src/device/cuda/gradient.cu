/* The end of an estimate on the GPU: the gradient of a batch, its norm, and the totals by which the
 * host need not wait for each step. A small batch takes one kernel for all; the gradient of a large
 * one is cuBLAS's. */
#include <cmath>

#include "device/cuda/small_step.cuh"

namespace gpu {

/* Adds a step to *t, by a block: `squares` is this thread's part of its gradient's. The step of a
 * graph is over with that, but for its update. */
__device__ inline void end_step(fopo_totals *t, const fopo_statistics *sums, double squares,
                                step_table *steps) {
  double norm = sqrt(block_sum(squares));
  if (threadIdx.x != 0) return;
  if (steps != nullptr) steps->at++;
  add_step(t, sums, norm);
}

/* ---- the totals alone ---- */

constexpr size_t ALONE = 1 << 14; /* numbers of a gradient that one block adds up by itself */
constexpr unsigned MOST = 1024;   /* its threads */

/* One block. The squares of the gradient G [n] or, if it is NULL, pieces [n] of their sum. */
__global__ void __launch_bounds__(MOST)
    totals_kernel(fopo_totals *t, const fopo_statistics *sums, const float *G, const double *pieces,
                  size_t n, step_table *steps) {
  double sum = 0;
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
    sum += G != nullptr ? (double)G[i] * (double)G[i] : pieces[i];
  }
  end_step(t, sums, sum, steps);
}

int totals(fopo_device *d, fopo_totals *t, const fopo_statistics *sums, const float *G, size_t n) {
  const double *pieces = nullptr;
  size_t count = n;
  int status = n <= ALONE ? FOPO_OK : norm2_pieces(d, &pieces, &count, G, n);
  if (status != FOPO_OK) return status;
  return launch(d, "the sums of a step", 1, n <= ALONE ? MOST : THREADS, 0, totals_kernel, t, sums,
                n <= ALONE ? G : nullptr, pieces, count, steps_on_device(d));
}

/* ---- with the product of a small batch ---- */

constexpr unsigned DEEP = 64;

/* A block takes a tile of SIDE x SIDE numbers of G, in steps of DEEP contexts; a thread some of a
 * column. The last block adds the squares of all. */
__global__ void outer_kernel(const __grid_constant__ outer_arguments a) {
  __shared__ float x[DEEP][SIDE], v[DEEP][SIDE];
  await_inputs();
  size_t row = blockIdx.x / a.across * SIDE, column = blockIdx.x % a.across * SIDE;
  size_t B = a.X.rows, D = a.X.cols, L = a.V.cols;
  unsigned r = threadIdx.x / SIDE, c = threadIdx.x % SIDE;
  float sum[EACH_OF_TILE] = {};
  unsigned at[EACH_OF_TILE];
#pragma unroll
  for (unsigned k = 0; k < EACH_OF_TILE; k++) at[k] = r + k * (THREADS / SIDE);
  for (size_t first = 0; first < B; first += DEEP) {
    unsigned n = (unsigned)least(DEEP, B - first);
    __syncthreads(); /* every thread has used the tiles before */
    for (unsigned b = r; b < n; b += THREADS / SIDE) {
      x[b][c] = row + c < D ? a.X.x[(first + b) * a.X.ld + row + c] : 0.0f;
      v[b][c] = column + c < L ? a.V.x[(first + b) * a.V.ld + column + c] : 0.0f;
    }
    __syncthreads();
    add_outer(sum, x[0], SIDE, at, &v[0][c], SIDE, n);
  }
  double squares = 0;
  each_of_tile(row + r, column + c, D, L, [&](unsigned k, size_t i) {
    float g = a.scale * sum[k];
    a.G[i] = g;
    squares += (double)g * (double)g;
  });
  squares = block_sum(squares);
  if (threadIdx.x == 0) a.pieces[blockIdx.x] = squares;
  if (!arrives_last(a.arrivals, gridDim.x)) return;
  squares = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) squares += a.pieces[i];
  end_step(a.t, a.sums, squares, a.steps);
}

int outer_totals(fopo_device *d, fopo_totals *t, const fopo_statistics *sums, float *G,
                 fopo_matrix X, fopo_matrix V, float scale) {
  size_t D = X.cols, L = V.cols;
  if (X.rows > SMALL_BATCH) {
    int status = outer(d, G, X, V, scale, 0);
    return status == FOPO_OK ? totals(d, t, sums, G, D * L) : status;
  }
  size_t across = ceil_div(L, SIDE), blocks = ceil_div(D, SIDE) * across;
  int status = reserve_arrivals(d, 1);
  if (status == FOPO_OK) status = reserve(d, blocks * sizeof(double), "a gradient");
  if (status != FOPO_OK) return status;
  double *pieces = reinterpret_cast<double *>(of(d)->scratch);
  outer_arguments a = {
      G, X, V, scale, (unsigned)across, pieces, of(d)->arrivals, t, sums, steps_on_device(d)};
  size_t before = of(d)->launched;
  status = launch_early(d, "the gradient and its norm", blocks, THREADS, 0, outer_kernel, a);
  note(d, before, a);
  return status;
}

} // namespace gpu
