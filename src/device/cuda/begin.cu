/* The beginning of a batch on the GPU: the contexts of a step, their rows, and their queries. A
 * small batch takes one kernel for all three; a large one multiplies by cuBLAS. */
#include <climits>

#include "device/cuda/rows.cuh"
#include "device/cuda/small_step.cuh"

namespace gpu {

/* ---- rows that are copied ---- */

__device__ inline uint32_t row_at(const row_source &x, size_t b) {
  if (x.order == nullptr) return x.rows[b];
  size_t first = x.steps != nullptr ? x.steps->of[x.steps->at].first : x.first;
  return x.order[first + x.skipped + b];
}

/* words: of a row; ld and n are in words too. In 32 bits, for a 64-bit division takes several times
 * as long. */
template <class word>
__global__ void gather_kernel(word *X, const word *contexts, size_t ld, row_source from, unsigned n,
                              unsigned words) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t row = row_at(from, i / words);
  if (from.order != nullptr && i % words == 0) from.rows[i / words] = row;
  X[i] = __ldg(&contexts[row * ld + i % words]);
}

template <class word>
static int gather_as(fopo_device *d, float *X, const float *contexts, size_t ld, row_source from,
                     size_t B, size_t D) {
  constexpr size_t N = sizeof(word) / sizeof(float);
  size_t words = D / N, most = ((size_t)1 << 31) / words; /* rows a launch: 32 bits count words */
  int status = FOPO_OK;
  for (size_t b = 0; b < B && status == FOPO_OK; b += most) {
    size_t n = least(most, B - b) * words;
    status = launch(d, "gathering rows", ceil_div(n, THREADS), THREADS, 0, gather_kernel<word>,
                    reinterpret_cast<word *>(X + b * D), reinterpret_cast<const word *>(contexts),
                    ld / N, from, (unsigned)n, (unsigned)words);
    from.rows += least(most, B - b);
    from.skipped += most;
  }
  return status;
}

static int gather(fopo_device *d, float *X, const float *contexts, size_t ld, row_source from,
                  size_t B, size_t D) {
  int bytes = load_bytes<float>(contexts, ld, D), out = load_bytes<float>(X, D, D);
  switch (bytes < out ? bytes : out) {
  case 16: return gather_as<uint4>(d, X, contexts, ld, from, B, D);
  case 8: return gather_as<uint2>(d, X, contexts, ld, from, B, D);
  default: return gather_as<float>(d, X, contexts, ld, from, B, D);
  }
}

int gather_words(fopo_device *d, float *X, const float *contexts, size_t ld, const uint32_t *rows,
                 size_t B, size_t D) {
  row_source given = {const_cast<uint32_t *>(rows), nullptr, 0, 0, nullptr}; /* they are read */
  return gather(d, X, contexts, ld, given, B, D);
}

int gather_rows(fopo_device *d, fopo_matrix X, fopo_matrix from, const uint32_t *rows) {
  return gather_words(d, X.x, from.x, from.ld, rows, X.rows, X.cols);
}

/* ---- a small batch: rows, contexts and queries in one kernel ---- */

constexpr unsigned TALL = 8, WIDE = 32, DEEP = 128;
static_assert(TALL * WIDE == THREADS, "a thread a query's number");

/* A block takes TALL contexts and WIDE numbers of their queries, in steps of DEEP features. */
__global__ void queries_kernel(float *Q, float *X, const float *contexts, size_t ld,
                               row_source from, const float *theta, float scale, size_t B, size_t D,
                               size_t L, unsigned across) {
  __shared__ float part[DEEP][WIDE], x[TALL][DEEP];
  __shared__ uint32_t rows[TALL];
  await_inputs();
  size_t b = blockIdx.x / across * TALL, column = blockIdx.x % across * WIDE;
  unsigned r = threadIdx.x / WIDE, c = threadIdx.x % WIDE;
  if (threadIdx.x < TALL && b + threadIdx.x < B) {
    rows[threadIdx.x] = row_at(from, b + threadIdx.x);
    if (from.order != nullptr && column == 0) from.rows[b + threadIdx.x] = rows[threadIdx.x];
  }
  float sum = 0.0f;
  for (size_t first = 0; first < D; first += DEEP) {
    unsigned n = (unsigned)least(DEEP, D - first);
    __syncthreads(); /* the rows are there, and every thread has used the tile before */
    for (unsigned i = r; i < n; i += TALL) {
      part[i][c] = column + c < L ? theta[(first + i) * L + column + c] : 0.0f;
    }
    for (unsigned i = c; i < n && b + r < B; i += WIDE) {
      x[r][i] = contexts[rows[r] * ld + first + i];
      if (column == 0) X[(b + r) * D + first + i] = x[r][i];
    }
    __syncthreads();
    for (unsigned i = 0; i < n && b + r < B; i++) sum += x[r][i] * part[i][c];
  }
  if (b + r < B && column + c < L) Q[(b + r) * L + column + c] = scale * sum;
}

int start_batch(fopo_device *d, const fopo_batch_start *s) {
  size_t B = s->X.rows, D = s->X.cols, L = s->Q.cols;
  row_source from = {s->rows, s->order, s->first, s->skipped, steps_on_device(d)};
  bool wanted = s->Q.x != nullptr;
  if (wanted && B <= SMALL_BATCH) {
    size_t across = ceil_div(L, WIDE), before = of(d)->launched;
    int status = launch_early(d, "contexts and queries", ceil_div(B, TALL) * across, THREADS, 0,
                              queries_kernel, s->Q.x, s->X.x, (const float *)s->contexts.x,
                              s->contexts.ld, from, s->theta, s->scale, B, D, L, (unsigned)across);
    note(d, before, *s);
    return status;
  }
  int status = gather(d, s->X.x, s->contexts.x, s->contexts.ld, from, B, D);
  return status == FOPO_OK && wanted ? queries(d, s->Q, s->X, s->theta, s->scale) : status;
}

} // namespace gpu
