/* cuBLAS by the CPU's BLAS, CUB's two algorithms, and the conversion of float16. */
#include <cblas.h>

#include "machine.h"

using namespace emulation;

/* ---- handles ---- */

struct emulated_blas {
  cudaStream_t stream = nullptr;
  void *workspace = nullptr; /* nullptr: cuBLAS would allocate its own */
  size_t bytes = 0;
};

static cublasStatus_t as_status(cudaError_t error) {
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  return error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
                                            : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasCreate(cublasHandle_t *handle) {
  held here(lock);
  cudaError_t error = call();
  *handle = nullptr;
  if (error == cudaSuccess) error = outside_capture();
  if (error != cudaSuccess) return as_status(error);
  *handle = new emulated_blas();
  others++;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  held here(lock);
  if (outside_capture() != cudaSuccess) give_up("cuBLAS is closed while a stream is captured");
  catch_up_all();
  delete handle;
  others--;
  return as_status(call());
}

/* As cuBLAS does, it takes the workspace away. */
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  held here(lock);
  handle->stream = stream;
  handle->workspace = nullptr;
  return as_status(call());
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes) {
  held here(lock);
  check_range(workspace, bytes, "cuBLAS's workspace");
  if ((uintptr_t)workspace % 256 != 0) give_up("cuBLAS's workspace is not aligned to 256 bytes");
  handle->workspace = workspace;
  handle->bytes = bytes;
  return as_status(call());
}

/* ---- products ---- */

/* A matrix of a product: columns of `height` numbers, ld apart. */
struct operand {
  const void *x;
  cudaDataType_t type;
  int height, width, ld;
};

static size_t numbers(const operand &o) {
  return (size_t)o.ld * (size_t)(o.width - 1) + (size_t)o.height;
}

static size_t size_of(cudaDataType_t type) { return type == CUDA_R_16BF ? 2 : 4; }

static std::vector<float> widened(const operand &o) {
  std::vector<float> wide(numbers(o));
  for (size_t i = 0; i < wide.size(); i++) {
    wide[i] = o.type == CUDA_R_32F ? ((const float *)o.x)[i]
                                   : __uint_as_float((unsigned)((const uint16_t *)o.x)[i] << 16);
  }
  return wide;
}

/* A product of `count` pairs of matrices, `step` apart. */
struct product {
  cublasOperation_t a, b;
  int m, n, k, count;
  operand left, right, out; /* the first of each */
  long long step_a, step_b, step_c;
  float alpha, beta;
};

static operand at(const operand &o, long long step, int i) {
  operand moved = o;
  moved.x = (const char *)o.x + (size_t)i * (size_t)step * size_of(o.type);
  return moved;
}

static void check_operand(const operand &o, long long step, int count, const char *what) {
  if (o.ld < o.height || o.ld < 1) give_up("%s has rows that overlap", what);
  if ((uintptr_t)o.x % size_of(o.type) != 0) give_up("%s is not aligned", what);
  for (int i = 0; i < count; i++) {
    check_range(at(o, step, i).x, numbers(o) * size_of(o.type), what);
  }
}

static void multiply(const product &p) {
  on_device open;
  for (int i = 0; i < p.count; i++) {
    operand left = at(p.left, p.step_a, i), right = at(p.right, p.step_b, i);
    std::vector<float> wide_a, wide_b;
    if (left.type != CUDA_R_32F) wide_a = widened(left), wide_b = widened(right);
    cblas_sgemm(CblasColMajor, p.a == CUBLAS_OP_T ? CblasTrans : CblasNoTrans,
                p.b == CUBLAS_OP_T ? CblasTrans : CblasNoTrans, p.m, p.n, p.k, p.alpha,
                wide_a.empty() ? (const float *)left.x : wide_a.data(), p.left.ld,
                wide_b.empty() ? (const float *)right.x : wide_b.data(), p.right.ld, p.beta,
                (float *)at(p.out, p.step_c, i).x, p.out.ld);
  }
}

static cublasStatus_t put_off_product(cublasHandle_t handle, const product &p) {
  held here(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return as_status(error);
  if (capturing() && handle->workspace == nullptr) {
    give_up("cuBLAS has no workspace, and would allocate one while a stream is captured");
  }
  void *workspace = handle->workspace;
  size_t bytes = workspace != nullptr ? handle->bytes : 0;
  put_off(handle->stream, {[=] { multiply(p); },
                           [=] {
                             check_operand(p.left, p.step_a, p.count, "a product's first matrix");
                             check_operand(p.right, p.step_b, p.count, "a product's second matrix");
                             check_operand(p.out, p.step_c, p.count, "a product's result");
                             check_range(workspace, bytes, "cuBLAS's workspace");
                           },
                           true});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t a,
                                          cublasOperation_t b, int m, int n, int k,
                                          const void *alpha, const void *A, cudaDataType_t type_a,
                                          int lda, long long step_a, const void *B,
                                          cudaDataType_t type_b, int ldb, long long step_b,
                                          const void *beta, void *C, cudaDataType_t type_c, int ldc,
                                          long long step_c, int count, cublasComputeType_t,
                                          cublasGemmAlgo_t) {
  if (type_a != type_b || type_c != CUDA_R_32F || step_c < (long long)ldc * n) {
    give_up("a product is emulated for one type of operands, into float, and C without overlaps");
  }
  bool turned_a = a == CUBLAS_OP_T, turned_b = b == CUBLAS_OP_T;
  product p = {a,
               b,
               m,
               n,
               k,
               count,
               {A, type_a, turned_a ? k : m, turned_a ? m : k, lda},
               {B, type_b, turned_b ? n : k, turned_b ? k : n, ldb},
               {C, type_c, m, n, ldc},
               step_a,
               step_b,
               step_c,
               *(const float *)alpha,
               *(const float *)beta};
  return put_off_product(handle, p);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a, cublasOperation_t b, int m,
                            int n, int k, const void *alpha, const void *A, cudaDataType_t type_a,
                            int lda, const void *B, cudaDataType_t type_b, int ldb,
                            const void *beta, void *C, cudaDataType_t type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(handle, a, b, m, n, k, alpha, A, type_a, lda, 0, B, type_b, ldb,
                                    0, beta, C, type_c, ldc, (long long)ldc * n, 1, compute,
                                    algorithm);
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t a, cublasOperation_t b, int m,
                           int n, int k, const float *alpha, const float *A, int lda,
                           const float *B, int ldb, const float *beta, float *C, int ldc) {
  return cublasGemmEx(handle, a, b, m, n, k, alpha, A, CUDA_R_32F, lda, B, CUDA_R_32F, ldb, beta, C,
                      CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

/* ---- CUB ---- */

static void check_words(const uint32_t *x, int n, const char *what) {
  check_range(x, 4 * (size_t)n, what);
}

cudaError_t emulation::sort_pairs(void *temporary, size_t bytes, const uint32_t *key,
                                  uint32_t *key_out, const uint32_t *value, uint32_t *value_out,
                                  int n, int end_bit, cudaStream_t stream) {
  held here(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  if (bytes < CUB_BYTES) give_up("a sort has too little temporary memory");
  put_off(stream, {[=] {
                     on_device open;
                     uint32_t mask = end_bit < 32 ? (1u << end_bit) - 1 : ~0u;
                     std::vector<int> order((size_t)n);
                     for (int i = 0; i < n; i++) order[(size_t)i] = i;
                     std::stable_sort(order.begin(), order.end(), [=](int i, int j) {
                       return (key[i] & mask) < (key[j] & mask);
                     });
                     for (int i = 0; i < n; i++) {
                       key_out[i] = key[order[(size_t)i]];
                       value_out[i] = value[order[(size_t)i]];
                     }
                     memset(temporary, 0xff, bytes);
                   },
                   [=] {
                     check_words(key, n, "a sort"), check_words(key_out, n, "a sort");
                     check_words(value, n, "a sort"), check_words(value_out, n, "a sort");
                     check_range(temporary, bytes, "a sort");
                   }});
  return cudaSuccess;
}

cudaError_t emulation::inclusive_sum(void *temporary, size_t bytes, const uint32_t *x,
                                     uint32_t *sum, int n, cudaStream_t stream) {
  held here(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  if (bytes < CUB_BYTES) give_up("a scan has too little temporary memory");
  put_off(stream, {[=] {
                     on_device open;
                     uint32_t total = 0;
                     for (int i = 0; i < n; i++) sum[i] = total += x[i];
                     memset(temporary, 0xff, bytes);
                   },
                   [=] {
                     check_words(x, n, "a scan"), check_words(sum, n, "a scan");
                     check_range(temporary, bytes, "a scan");
                   }});
  return cudaSuccess;
}

/* ---- float16 ---- */

/* IEEE 754 binary16 to binary32: the exponent is moved by a product that is exact, also for
 * subnormal numbers; infinities and NaN keep the largest exponent. */
float __half2float(__half x) {
  uint32_t sign = (uint32_t)(x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
  uint32_t bits = rest << 13;
  float value =
      rest >= 0x7c00u ? __uint_as_float(bits | 0x7f800000u) : __uint_as_float(bits) * 0x1p112f;
  uint32_t out;
  memcpy(&out, &value, sizeof out);
  return __uint_as_float(out | sign);
}
