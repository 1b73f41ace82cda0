/* The parts of the CUDA runtime, cuBLAS and CUB that src/device/cuda uses, emulated on the CPU: the
 * kernels are compiled by g++, and the threads of a block run as coroutines, which are switched
 * when they wait for each other. It tests the arithmetic and indexing of the kernels and the host's
 * side of every call. It says nothing about the hardware: there is no memory model, no timing, no
 * occupancy, and threads run in one order, so a race between barriers can stay hidden.
 *
 * It is stricter than a card if that is cheap. Work is deferred until the host waits for it, as on
 * a card that is far behind, and pinned host memory is read only then. The host cannot touch device
 * memory between kernels; device memory starts as NaN and ends at a guard (to the byte under
 * AddressSanitizer). Loads by __ldg must be aligned. A kernel's pointers must be device memory. All
 * lanes of a warp must take part in its exchanges. A deadlock of threads ends the program with a
 * sentence. And any call can be made to fail. */
#ifndef CUDA_EMULATION_H
#define CUDA_EMULATION_H

#include <stddef.h>

#define EMULATION_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The n-th call from now on (0: the next) gives `code`; with for_ever so do all that follow.
 * n < 0 switches it off. Kernel launches count as calls. */
EMULATION_API void emulation_fail_at(long n, int code, int for_ever);
EMULATION_API long emulation_calls(void);          /* made so far */
EMULATION_API size_t emulation_sent(void);         /* bytes copied from the host so far */
EMULATION_API long emulation_replays(void);        /* launches of graphs so far */
EMULATION_API long emulation_waits(void);          /* of the host for the stream so far */
EMULATION_API size_t emulation_live(void);         /* blocks, streams and handles not given back */
EMULATION_API void emulation_memory(size_t bytes); /* of the card; 2 GiB at first */
EMULATION_API void emulation_processors(int n);    /* of the card; 4 at first */
EMULATION_API void emulation_driver(int version);  /* 0: no driver; 13000 at first */

#ifdef __cplusplus
}

#include <algorithm>
#include <functional>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include <vector>

/* ---- the language ---- */

#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local

struct uint3 {
  unsigned x, y, z;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
extern thread_local uint3 threadIdx, blockIdx, blockDim;

namespace emulation {
void sync_block();
/* Every lane's value is put down; after all have, lane `from` of the same warp is read. */
void exchange(void *value, size_t bytes, unsigned from);
void *shared_memory();
bool enter_launch();                      /* counts the call; false: it must fail */
void put_off(std::function<void()> work); /* until the host waits */
void run(size_t blocks, unsigned threads, size_t shared, const std::function<void()> &kernel);
void check_pointer(const void *pointer);
void misaligned(); /* ends the program */

template <class T> void check_argument(const T &x) {
  if constexpr (std::is_pointer_v<T>) check_pointer((const void *)x);
}
} // namespace emulation

static inline void __syncthreads() { emulation::sync_block(); }

template <class T> T __shfl_xor_sync(unsigned, T x, int mask) {
  emulation::exchange(&x, sizeof x, (threadIdx.x % 32) ^ (unsigned)mask);
  return x;
}
template <class T> T __shfl_up_sync(unsigned, T x, unsigned by) {
  unsigned lane = threadIdx.x % 32;
  emulation::exchange(&x, sizeof x, lane >= by ? lane - by : lane);
  return x;
}
static inline void __threadfence() {}
static inline uint32_t atomicCAS(uint32_t *x, uint32_t expected, uint32_t wanted) {
  uint32_t old = *x;
  if (old == expected) *x = wanted;
  return old;
}
static inline uint32_t atomicAdd(uint32_t *x, uint32_t by) {
  uint32_t old = *x;
  *x += by;
  return old;
}
template <class T> T __ldg(const T *x) {
  T copy;
  if ((uintptr_t)x % alignof(T) != 0) emulation::misaligned();
  memcpy(&copy, (const void *)x, sizeof copy);
  return copy;
}

template <class T> T __ldcg(const T *x) { return __ldg(x); }

static inline unsigned __float_as_uint(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
struct __half {
  uint16_t bits;
};
static inline __half __ushort_as_half(uint16_t bits) { return {bits}; }
static inline float __uint_as_float(unsigned bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
float __half2float(__half x);

/* ---- the runtime ---- */

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInsufficientDriver = 35,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorECCUncorrectable = 214,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorContextIsDestroyed = 709,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorUnknown = 999
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum { cudaStreamNonBlocking = 1 };
typedef struct emulated_stream *cudaStream_t;
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int multiProcessorCount, l2CacheSize, major, minor;
};

cudaError_t cudaMalloc(void **device, size_t bytes);
cudaError_t cudaFree(void *device);
cudaError_t cudaMallocHost(void **host, size_t bytes);
cudaError_t cudaFreeHost(void *host);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *device, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaMemGetInfo(size_t *left, size_t *all);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *about, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetLastError();
const char *cudaGetErrorString(cudaError_t error);

/* While a stream is captured its work goes to a graph. A call that a card forbids during a capture
 * invalidates it. */
typedef struct emulated_graph *cudaGraph_t;
typedef struct emulated_exec *cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

/* An event takes the time when the stream reaches it. */
typedef struct emulated_event *cudaEvent_t;
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t began, cudaEvent_t ended);

/* ---- cuBLAS, by the CPU's BLAS ---- */

typedef struct emulated_blas *cublasHandle_t;
enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
cublasStatus_t cublasCreate(cublasHandle_t *handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes);
cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t a, cublasOperation_t b, int m,
                           int n, int k, const float *alpha, const float *A, int lda,
                           const float *B, int ldb, const float *beta, float *C, int ldc);

enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
/* Of float, or of bfloat16 into float. */
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t a,
                                          cublasOperation_t b, int m, int n, int k,
                                          const void *alpha, const void *A, cudaDataType_t type_a,
                                          int lda, long long step_a, const void *B,
                                          cudaDataType_t type_b, int ldb, long long step_b,
                                          const void *beta, void *C, cudaDataType_t type_c, int ldc,
                                          long long step_c, int count, cublasComputeType_t compute,
                                          cublasGemmAlgo_t algorithm);
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a, cublasOperation_t b, int m,
                            int n, int k, const void *alpha, const void *A, cudaDataType_t type_a,
                            int lda, const void *B, cudaDataType_t type_b, int ldb,
                            const void *beta, void *C, cudaDataType_t type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm);

/* ---- CUB ---- */

namespace emulation {
cudaError_t sort_pairs(const uint32_t *key, uint32_t *key_out, const uint32_t *value,
                       uint32_t *value_out, int n, int end_bit);
cudaError_t inclusive_sum(const uint32_t *x, uint32_t *sum, int n);
} // namespace emulation

namespace cub {
struct DeviceRadixSort {
  static cudaError_t SortPairs(void *temporary, size_t &bytes, const uint32_t *key,
                               uint32_t *key_out, const uint32_t *value, uint32_t *value_out, int n,
                               int, int end_bit, cudaStream_t) {
    if (temporary == nullptr) return bytes = 64, cudaSuccess;
    return emulation::sort_pairs(key, key_out, value, value_out, n, end_bit);
  }
};
struct DeviceScan {
  static cudaError_t InclusiveSum(void *temporary, size_t &bytes, const uint32_t *x, uint32_t *sum,
                                  int n, cudaStream_t) {
    if (temporary == nullptr) return bytes = 64, cudaSuccess;
    return emulation::inclusive_sum(x, sum, n);
  }
};
} // namespace cub

/* ---- launches, in the place of cuda.cuh's ---- */

namespace gpu {
template <class... P>
void start(void (*kernel)(P...), size_t blocks, unsigned threads, size_t shared, cudaStream_t,
           std::type_identity_t<P>... arguments) {
  if (!emulation::enter_launch()) return;
  (emulation::check_argument(arguments), ...);
  emulation::put_off(
      [=] { emulation::run(blocks, threads, shared, [&] { kernel(arguments...); }); });
}

template <class T> T *dynamic_shared() { return (T *)emulation::shared_memory(); }
} // namespace gpu

#endif
#endif
