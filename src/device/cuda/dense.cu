/* The dense operations on the GPU: products by cuBLAS, the network, the optimisers, and
 * norms. */
#include <climits>
#include <cmath>

#include "device/cuda/rows.cuh"
#include "device/cuda/small_step.cuh"

namespace gpu {

/* ---- products: cuBLAS is column-major, and the row-major C = op(A) op(B) is its
 * C^T = op(B)^T op(A)^T ---- */

static int check_size(size_t m, size_t n, size_t k, size_t lda, size_t ldb, size_t ldc) {
  int status = alive();
  if (status != FOPO_OK) return status;
  if (m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && lda <= INT_MAX && ldb <= INT_MAX &&
      ldc <= INT_MAX) {
    return FOPO_OK;
  }
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "a product of %zu x %zu x %zu is too large for cuBLAS; use "
                   "a smaller batch",
                   m, n, k);
}

int gemm(fopo_device *d, float *C, size_t ldc, float alpha, const float *A, size_t lda,
         int transpose_a, const float *B, size_t ldb, int transpose_b, float beta, size_t m,
         size_t n, size_t k) {
  int status = check_size(m, n, k, lda, ldb, ldc);
  if (status != FOPO_OK || m == 0 || n == 0) return status;
  timed_work timed(d, "products of float32");
  return check(cublasSgemm(of(d)->blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                           transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)n, (int)m, (int)k, &alpha,
                           B, (int)ldb, A, (int)lda, &beta, C, (int)ldc),
               "a matrix product");
}

int gemm_bf16(fopo_device *d, float *C, size_t ldc, const uint16_t *A, const uint16_t *B, size_t m,
              size_t n, size_t k) {
  int status = check_size(m, n, k, k, k, ldc);
  if (status != FOPO_OK || m == 0 || n == 0) return status;
  float one = 1.0f, none = 0.0f;
  timed_work timed(d, "products of bfloat16");
  return check(cublasGemmEx(of(d)->blas, CUBLAS_OP_T, CUBLAS_OP_N, (int)n, (int)m, (int)k, &one, B,
                            CUDA_R_16BF, (int)k, A, CUDA_R_16BF, (int)k, &none, C, CUDA_R_32F,
                            (int)ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
               "a matrix product");
}

/* `count` chunks of k rows of B each. */
template <class T>
static int gemm_batch(fopo_device *d, float *C, size_t ldc, const T *A, size_t lda, const T *B,
                      size_t ldb, size_t m, size_t n, size_t k, size_t count) {
  int status = check_size(m, n, k, lda, ldb, ldc);
  if (status == FOPO_OK) status = check_size(count, 0, 0, 0, 0, 0);
  if (status != FOPO_OK || m == 0 || n == 0 || count == 0) return status;
  cudaDataType_t type = sizeof(T) == 2 ? CUDA_R_16BF : CUDA_R_32F;
  float one = 1.0f, none = 0.0f;
  timed_work timed(d, "products of chunks");
  return check(cublasGemmStridedBatchedEx(of(d)->blas, CUBLAS_OP_N, CUBLAS_OP_N, (int)n, (int)m,
                                          (int)k, &one, B, type, (int)ldb, (long long)(k * ldb), A,
                                          type, (int)lda, (long long)k, &none, C, CUDA_R_32F,
                                          (int)ldc, (long long)(m * ldc), (int)count,
                                          CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
               "products of chunks");
}

template <class T>
int gemm_chunks(fopo_device *d, float *C, size_t ldc, const T *A, size_t lda, const T *B,
                size_t ldb, size_t m, size_t n, size_t k, size_t chunk) {
  size_t whole = k / chunk, done = whole * chunk;
  int status = gemm_batch(d, C, ldc, A, lda, B, ldb, m, n, chunk, whole);
  if (status != FOPO_OK || done == k) return status;
  return gemm_batch(d, C + whole * m * ldc, ldc, A + done, lda, B + done * ldb, ldb, m, n, k - done,
                    1);
}

template int gemm_chunks(fopo_device *, float *, size_t, const float *, size_t, const float *,
                         size_t, size_t, size_t, size_t, size_t);
template int gemm_chunks(fopo_device *, float *, size_t, const uint16_t *, size_t, const uint16_t *,
                         size_t, size_t, size_t, size_t, size_t);

/* ---- contexts to queries, and back ---- */

int queries(fopo_device *d, fopo_matrix Q, fopo_matrix X, const float *theta, float scale) {
  return gemm(d, Q.x, Q.ld, scale, X.x, X.ld, 0, theta, Q.cols, 0, 0.0f, Q.rows, Q.cols, X.cols);
}

int outer(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V, float scale, int accumulate) {
  return gemm(d, G, V.cols, scale, X.x, X.ld, 1, V.x, V.ld, 0, accumulate ? 1.0f : 0.0f, X.cols,
              V.cols, X.rows);
}

/* ---- the network, as in device/network.c ---- */

__global__ void bias_kernel(float *Y, const float *b, float scale, size_t n, size_t cols) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) Y[i] = scale * b[i % cols];
}

__global__ void activate_kernel(float *x, size_t n, int tanh_) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  x[i] = tanh_ ? tanhf(x[i]) : x[i] > 0.0f || isnan(x[i]) ? x[i] : 0.0f;
}

/* delta *= act'(z), from h = act(z): 1 - h^2 for tanh, 1[h > 0] for relu */
__global__ void back_kernel(float *delta, const float *h, size_t n, int tanh_) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  delta[i] = tanh_ ? delta[i] * (1.0f - h[i] * h[i]) : h[i] > 0.0f ? delta[i] : 0.0f;
}

/* g_j = scale sum_b delta_bj, or +=; a thread adds a column in the order of the batch. */
__global__ void column_kernel(float *g, const float *delta, float scale, int accumulate,
                              size_t rows, size_t cols) {
  size_t j = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= cols) return;
  double sum = 0.0;
  for (size_t b = 0; b < rows; b++) sum += (double)delta[b * cols + j];
  g[j] = (accumulate ? g[j] : 0.0f) + (float)((double)scale * sum);
}

/* Y = scale (X W + b) */
static int affine(fopo_device *d, float *Y, const float *X, const float *theta,
                  const fopo_network *net, size_t layer, float scale, size_t B) {
  size_t in = net->width[layer], out = net->width[layer + 1];
  const float *W = theta + fopo_network_offset(net, layer), *b = W + in * out;
  int status = launch(d, "a bias", ceil_div(B * out, THREADS), THREADS, 0, bias_kernel, Y, b, scale,
                      B * out, out);
  return status != FOPO_OK ? status : gemm(d, Y, out, scale, X, in, 0, W, out, 0, 1.0f, B, out, in);
}

int network_forward(fopo_device *d, fopo_matrix Q, fopo_matrix X, const fopo_network_pass *pass) {
  const fopo_network *net = pass->net;
  size_t last = net->layers - 1, B = X.rows;
  const float *in = X.x;
  int status = FOPO_OK;
  for (size_t i = 0; i < last && status == FOPO_OK; i++) {
    float *H = pass->hidden + B * fopo_network_units_before(net, i);
    size_t n = B * net->width[i + 1];
    status = affine(d, H, in, pass->theta, net, i, 1.0f, B);
    if (status == FOPO_OK) {
      status = launch(d, "an activation", ceil_div(n, THREADS), THREADS, 0, activate_kernel, H, n,
                      net->activation == FOPO_TANH);
    }
    in = H;
  }
  return status == FOPO_OK ? affine(d, Q.x, in, pass->theta, net, last, pass->scale, B) : status;
}

/* dW = scale in^T out, db = scale sum out */
static int layer_gradient(fopo_device *d, float *G, const float *in, const float *out,
                          const fopo_network *net, size_t layer, float scale, int accumulate,
                          size_t B) {
  size_t rows = net->width[layer], cols = net->width[layer + 1];
  float *W = G + fopo_network_offset(net, layer);
  int status =
      gemm(d, W, cols, scale, in, rows, 1, out, cols, 0, accumulate ? 1.0f : 0.0f, rows, cols, B);
  if (status != FOPO_OK) return status;
  return launch(d, "a bias' gradient", ceil_div(cols, THREADS), THREADS, 0, column_kernel,
                W + rows * cols, out, scale, accumulate, B, cols);
}

int network_backward(fopo_device *d, float *G, fopo_matrix X, fopo_matrix V,
                     const fopo_network_pass *pass, int accumulate) {
  const fopo_network *net = pass->net;
  size_t B = X.rows;
  const float *out = V.x; /* the gradient with respect to the layer's output, before act */
  for (size_t i = net->layers; i-- > 0;) {
    size_t at = i > 0 ? B * fopo_network_units_before(net, i - 1) : 0, n = B * net->width[i];
    const float *in = i > 0 ? pass->hidden + at : X.x;
    int status = layer_gradient(d, G, in, out, net, i, pass->scale, accumulate, B);
    if (status != FOPO_OK || i == 0) return status;

    /* the gradient with respect to the layer below: out W^T times act' */
    size_t rows = net->width[i], cols = net->width[i + 1];
    float *below = pass->delta + at;
    const float *W = pass->theta + fopo_network_offset(net, i);
    status = gemm(d, below, rows, 1.0f, out, cols, 0, W, cols, 1, 0.0f, B, rows, cols);
    if (status == FOPO_OK) {
      status = launch(d, "an activation's gradient", ceil_div(n, THREADS), THREADS, 0, back_kernel,
                      below, in, n, net->activation == FOPO_TANH);
    }
    if (status != FOPO_OK) return status;
    out = below;
  }
  return FOPO_OK;
}

/* ---- optimisers ---- */

static update update_of(const fopo_update &u) {
  return {(float)u.lr, fopo_update_scale(&u, u.norm), fopo_update_decay(&u), fopo_update_keep(&u),
          u};
}

/* The gradient's scale, from the norm that is on the card if the host does not wait for it. */
__device__ inline float scale_of(const update &o) {
  return o.u.totals != nullptr ? fopo_update_scale(&o.u, o.u.totals->norm) : o.scale;
}

/* The same for the step at hand. */
__device__ inline update current(update o, const step_table *steps) {
  if (steps != nullptr) {
    const step_numbers &now = steps->of[steps->at - 1];
    o.lr = now.lr, o.keep = now.keep;
  }
  o.scale = scale_of(o);
  return o;
}

/* The place in theta of number k of G, whose rows of L numbers are the rows `touched`; NULL: k. */
__device__ inline size_t place_of(size_t k, const uint32_t *touched, size_t L) {
  return touched != nullptr ? touched[k / L] * L + k % L : k;
}

__global__ void adam_kernel(const __grid_constant__ adam_arguments a) {
  await_inputs();
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  const step_table *steps = a.steps;
  if (i >= a.n || halted(a.o.u.totals)) return;
  float unbias = steps != nullptr ? steps->of[steps->at - 1].unbias : a.unbias;
  move_by_adam(a.theta + i, a.m + i, a.v + i, a.G[i], a, current(a.o, steps), unbias);
}

static adam_arguments adam_of(fopo_device *d, const fopo_parameters *x, const float *G, size_t n,
                              const fopo_adam *o) {
  return {x->theta,
          x->m,
          x->v,
          G,
          update_of(o->u),
          (float)o->beta1,
          (float)(1 - o->beta1),
          (float)o->beta2,
          (float)(1 - o->beta2),
          1.0f,
          (float)o->eps,
          steps_on_device(d),
          n};
}

int adam(fopo_device *d, const fopo_parameters *x, const float *G, const fopo_adam *o) {
  step_numbers now = step_numbers_of(o);
  adam_arguments a = adam_of(d, x, G, x->n, o);
  a.o.lr = now.lr, a.unbias = now.unbias;
  size_t before = of(d)->launched;
  int status = launch_early(d, "adam", ceil_div(x->n, THREADS), THREADS, 0, adam_kernel, a);
  note(d, before, a);
  return status;
}

/* A block a row. One thread counts the item's updates and computes Adam's bias corrections. */
__global__ void adam_rows_kernel(const __grid_constant__ adam_arguments a, fopo_adam o,
                                 uint32_t *updates, const uint32_t *touched, size_t L) {
  __shared__ float lr, unbias;
  size_t i = blockIdx.x, row = touched != nullptr ? touched[i] : i;
  if (threadIdx.x == 0) {
    double t = (double)++updates[row];
    lr = (float)(o.u.lr / (1 - pow(o.beta1, t)));
    unbias = (float)(1 / (1 - pow(o.beta2, t)));
  }
  __syncthreads();
  update moved = a.o;
  moved.lr = lr;
  for (size_t j = threadIdx.x; j < L; j += blockDim.x) {
    size_t at = row * L + j;
    move_by_adam(a.theta + at, a.m + at, a.v + at, a.G[i * L + j], a, moved, unbias);
  }
}

int adam_rows(fopo_device *d, const fopo_parameters *x, const fopo_item_gradient *g,
              const fopo_adam *o, size_t L) {
  unsigned threads = (unsigned)least(rounded_up(L, WARP), THREADS);
  return launch(d, "adam on items", g->n, threads, 0, adam_rows_kernel,
                adam_of(d, x, g->rows, g->n * L, o), *o, x->updates, g->ids, L);
}

__global__ void sgd_kernel(float *theta, float *velocity, const float *G, const uint32_t *touched,
                           update of, float momentum, const step_table *steps, size_t n, size_t L) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || halted(of.u.totals)) return;
  update o = current(of, steps);
  size_t at = place_of(i, touched, L);
  velocity[at] = momentum * velocity[at] + (o.scale * G[i] - o.decay * theta[at]);
  theta[at] = o.keep * theta[at] + o.lr * velocity[at];
}

static int move_by_sgd(fopo_device *d, const fopo_parameters *x, const float *G,
                       const uint32_t *touched, const fopo_sgd *o, size_t n, size_t L) {
  return launch(d, "sgd", ceil_div(n, THREADS), THREADS, 0, sgd_kernel, x->theta, x->m, G, touched,
                update_of(o->u), (float)o->momentum, steps_on_device(d), n, L);
}

int sgd(fopo_device *d, const fopo_parameters *x, const float *G, const fopo_sgd *o) {
  return move_by_sgd(d, x, G, nullptr, o, x->n, 1);
}

int sgd_rows(fopo_device *d, const fopo_parameters *x, const fopo_item_gradient *g,
             const fopo_sgd *o, size_t L) {
  return move_by_sgd(d, x, g->rows, g->ids, o, g->n * L, L);
}

__global__ void adagrad_kernel(float *theta, float *v, const float *G, const uint32_t *touched,
                               update of, float eps, const step_table *steps, size_t n, size_t L) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || halted(of.u.totals)) return;
  update o = current(of, steps);
  size_t at = place_of(i, touched, L);
  float g = o.scale * G[i] - o.decay * theta[at];
  v[at] += g * g;
  theta[at] = o.keep * theta[at] + o.lr * g / (sqrtf(v[at]) + eps);
}

static int move_by_adagrad(fopo_device *d, const fopo_parameters *x, const float *G,
                           const uint32_t *touched, const fopo_adagrad *o, size_t n, size_t L) {
  return launch(d, "adagrad", ceil_div(n, THREADS), THREADS, 0, adagrad_kernel, x->theta, x->v, G,
                touched, update_of(o->u), (float)o->eps, steps_on_device(d), n, L);
}

int adagrad(fopo_device *d, const fopo_parameters *x, const float *G, const fopo_adagrad *o) {
  return move_by_adagrad(d, x, G, nullptr, o, x->n, 1);
}

int adagrad_rows(fopo_device *d, const fopo_parameters *x, const fopo_item_gradient *g,
                 const fopo_adagrad *o, size_t L) {
  return move_by_adagrad(d, x, g->rows, g->ids, o, g->n * L, L);
}

/* ---- whole arrays ---- */

int clear(fopo_device *d, float *x, size_t n) {
  int status = alive();
  if (status != FOPO_OK || n == 0) return status;
  return check(cudaMemsetAsync(x, 0, n * sizeof *x, of(d)->stream), "clearing an array");
}

constexpr size_t PIECE = 1 << 14; /* numbers that one block adds up */

__global__ void norm2_kernel(double *sums, const float *x, size_t n) {
  size_t first = (size_t)blockIdx.x * PIECE, end = first + PIECE < n ? first + PIECE : n;
  double sum = 0;
  for (size_t i = first + threadIdx.x; i < end; i += blockDim.x) sum += (double)x[i] * (double)x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void add_kernel(double *total, const double *sums, size_t n) {
  double sum = 0;
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) sum += sums[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}

int norm2_pieces(fopo_device *d, const double **sums, size_t *pieces, const float *x, size_t n) {
  *pieces = ceil_div(n, PIECE);
  int status = reserve(d, (*pieces + 1) * sizeof(double), "a norm");
  if (status != FOPO_OK) return status;
  double *pieces_of_x = reinterpret_cast<double *>(of(d)->scratch) + 1; /* [0]: the total */
  *sums = pieces_of_x;
  return launch(d, "a norm", *pieces, THREADS, 0, norm2_kernel, pieces_of_x, x, n);
}

int norm2(fopo_device *d, double *norm2, const float *x, size_t n) {
  const double *sums = nullptr;
  size_t pieces = 0;
  int status = norm2_pieces(d, &sums, &pieces, x, n);
  if (status != FOPO_OK) return status;
  double *total = reinterpret_cast<double *>(of(d)->scratch);
  status = launch(d, "a norm", 1, THREADS, 0, add_kernel, total, sums, pieces);
  return status == FOPO_OK ? get(d, norm2, total, sizeof *total) : status;
}

} // namespace gpu
