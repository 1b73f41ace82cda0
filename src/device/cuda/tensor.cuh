/* Instructions of compute 8.0 and later: copies to shared memory that the thread does not wait for,
 * and products of small matrices by the tensor cores. Kernels that use them are launched only on
 * cards that have them (state.has_bf16). */
#ifndef FOPO_DEVICE_CUDA_TENSOR_CUH
#define FOPO_DEVICE_CUDA_TENSOR_CUH

#include "device/cuda/cuda.cuh"

namespace gpu {

/* Starts a copy of 16 bytes to shared memory; of zeros if from is NULL. Both are aligned to 16. The
 * bytes are there after wait_copies by the same thread, and for other threads after a barrier that
 * follows it. */
__device__ inline void copy_async(void *to, const void *from) {
#ifndef __CUDACC__
  emulated_copy_async(to, from);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned place = (unsigned)__cvta_generic_to_shared(to);
  unsigned bytes = from == nullptr ? 0 : 16; /* what is not read is filled with zeros */
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(place), "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
#else
  (void)to, (void)from;
#endif
}

/* Ends a group of copies, which may be empty. */
__device__ inline void close_copies() {
#ifndef __CUDACC__
  emulation::close_copies();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

/* Waits for this thread's copies but those of its OPEN latest groups. */
template <int OPEN> __device__ inline void wait_copies() {
#ifndef __CUDACC__
  emulated_wait_copies(OPEN);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" : : "n"(OPEN) : "memory");
#endif
}

/* sums += A B by a warp: A [16, 16] and B [16, 8] in bfloat16, two numbers a register. With lane =
 * 4 g + t, a holds {A[g][2t], A[g + 8][2t], A[g][2t + 8], A[g + 8][2t + 8]} and b {B[2t][g],
 * B[2t + 8][g]}, each with its right or lower neighbour; sums hold {[g][2t], [g][2t + 1],
 * [g + 8][2t], [g + 8][2t + 1]} (NVIDIA's "PTX ISA", mma.m16n8k16). */
__device__ inline void multiply_bf16(float (&sums)[4], const uint32_t (&a)[4],
                                     const uint32_t (&b)[2]) {
#ifndef __CUDACC__
  emulation::multiply_bf16(sums, a, b, {__FILE__, __LINE__});
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  (void)sums, (void)a, (void)b;
#endif
}

} // namespace gpu

#endif
