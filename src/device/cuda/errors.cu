/* The sentences for errors of CUDA.
 *
 * There are three kinds of errors (NVIDIA's "CUDA Runtime API", error handling): of a machine
 * without a usable card, at which opening fails; errors that change nothing, such as too little
 * memory; and sticky errors, after which nothing on the card works in this process again. A sticky
 * error is remembered, so that every later call fails at once with the same advice; the host still
 * has the parameters as they were at the end of the last slice. */
#include <atomic>

#include "device/cuda/cuda.cuh"

namespace gpu {

static std::atomic<int> broken{0}; /* the sticky error of this process; 0: none */

static bool sticky(cudaError_t error) {
  switch (error) {
  case cudaErrorECCUncorrectable:
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchTimeout:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorLaunchFailure:
  case cudaErrorContextIsDestroyed:
  case cudaErrorUnknown: return true;
  default: return false;
  }
}

static int fail_broken(cudaError_t error, const char *what) {
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "the GPU failed in %s (%s); it cannot be used again until fopo is restarted: go "
                   "on from the last checkpoint with resume, or with device = \"cpu\"",
                   what, cudaGetErrorString(error));
}

static int fail_memory(const char *what) {
  size_t left = 0, all = 0;
  if (cudaMemGetInfo(&left, &all) != cudaSuccess) left = all = 0;
  cudaGetLastError();
  return fopo_fail(FOPO_ERR_MEMORY,
                   "the GPU has too little memory for %s (%.2f of its %.2f GB are free); use a "
                   "smaller batch or fewer samples, free other objects, or use device = \"cpu\"",
                   what, (double)left / 1e9, (double)all / 1e9);
}

int alive() {
  int error = broken.load();
  return error == 0 ? FOPO_OK : fail_broken((cudaError_t)error, "an earlier step");
}

int check(cudaError_t error, const char *what) {
  if (error == cudaSuccess) return FOPO_OK;
  cudaGetLastError(); /* clears an error that is not sticky */
  if (error == cudaErrorMemoryAllocation) return fail_memory(what);
  if (sticky(error)) {
    broken.store((int)error);
    return fail_broken(error, what);
  }
  if (error == cudaErrorNoKernelImageForDevice) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "fopo_cuda.so has no code for this GPU; build it here "
                                           "with make CUDA_ARCH=native, or use device = \"cpu\"");
  }
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "the GPU refused %s: %s (CUDA error %d); use "
                   "device = \"cpu\"",
                   what, cudaGetErrorString(error), (int)error);
}

int check(cublasStatus_t status, const char *what) {
  if (status == CUBLAS_STATUS_SUCCESS) return FOPO_OK;
  int runtime = check(cudaGetLastError(), what); /* says more than the status of cuBLAS */
  if (runtime != FOPO_OK) return runtime;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) return fail_memory(what);
  if (status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_INTERNAL_ERROR) {
    broken.store((int)cudaErrorUnknown);
    return fail_broken(cudaErrorUnknown, what);
  }
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "cuBLAS refused %s (status %d); use device = \"cpu\"",
                   what, (int)status);
}

} // namespace gpu
