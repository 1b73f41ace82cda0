/* The calls of the CUDA runtime, of cuBLAS and of CUB that src/device/cuda makes. To be included by
 * cuda_emulation.h. */
#ifndef CUDA_EMULATION_CALLS_H
#define CUDA_EMULATION_CALLS_H

#include <stddef.h>
#include <stdint.h>

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
  cudaErrorCooperativeLaunchTooLarge = 720,
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
typedef struct emulated_event *cudaEvent_t;
/* Of a kernel whose dynamic shared memory may exceed 48 KiB. */
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int multiProcessorCount, l2CacheSize, major, minor, cooperativeLaunch;
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
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaMemGetInfo(size_t *left, size_t *all);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *about, int device);
template <class kernel> /* as many as the register file of a card holds of middling kernels */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, kernel, int, size_t) {
  *blocks = 2;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetLastError();
const char *cudaGetErrorString(cudaError_t error);

/* While a stream is captured its work goes to a graph. A call that a card forbids during a capture
 * invalidates it. */
typedef struct emulated_graph *cudaGraph_t;
typedef struct emulated_exec *cudaGraphExec_t;
typedef struct emulated_node *cudaGraphNode_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags);
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                       const cudaGraphNode_t *after, size_t n, cudaGraph_t child);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

/* An event takes the time when the stream reaches it. */
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
constexpr size_t CUB_BYTES = 64; /* of temporary memory that the algorithms want */
cudaError_t sort_pairs(void *temporary, size_t bytes, const uint32_t *key, uint32_t *key_out,
                       const uint32_t *value, uint32_t *value_out, int n, int end_bit,
                       cudaStream_t stream);
cudaError_t inclusive_sum(void *temporary, size_t bytes, const uint32_t *x, uint32_t *sum, int n,
                          cudaStream_t stream);
} // namespace emulation

namespace cub {
struct DeviceRadixSort {
  static cudaError_t SortPairs(void *temporary, size_t &bytes, const uint32_t *key,
                               uint32_t *key_out, const uint32_t *value, uint32_t *value_out, int n,
                               int, int end_bit, cudaStream_t stream) {
    if (temporary == nullptr) return bytes = emulation::CUB_BYTES, cudaSuccess;
    return emulation::sort_pairs(temporary, bytes, key, key_out, value, value_out, n, end_bit,
                                 stream);
  }
};
struct DeviceScan {
  static cudaError_t InclusiveSum(void *temporary, size_t &bytes, const uint32_t *x, uint32_t *sum,
                                  int n, cudaStream_t stream) {
    if (temporary == nullptr) return bytes = emulation::CUB_BYTES, cudaSuccess;
    return emulation::inclusive_sum(temporary, bytes, x, sum, n, stream);
  }
};
} // namespace cub

#endif
