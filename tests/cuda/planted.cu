/* Kernels with one fault each, and sound ones beside them, by which the emulation's own checks are
 * checked (tests/test_cuda_races.sh). `planted` lists the cases, with what must be said of each;
 * `planted NAME` runs one. */
#include <cstdio>
#include <cstring>

#include "device/cuda/rows.cuh"
#include "device/cuda/tensor.cuh"

namespace gpu {

constexpr size_t N = 4 * THREADS;

/* What a case may use: arrays of N numbers, and the runtime. */
struct bench {
  cudaStream_t stream, other;
  float *x, *y;
  uint32_t *n;
};

template <class... P>
static void go(const bench &b, size_t blocks, unsigned threads, size_t shared, void (*kernel)(P...),
               std::type_identity_t<P>... arguments) {
  start(kernel, blocks, threads, shared, b.stream, arguments...);
  cudaStreamSynchronize(b.stream);
}

/* ---- barriers ---- */

/* Each thread reads its neighbour's number. */
template <bool SYNC> __global__ void neighbour_kernel(float *y, const float *x) {
  __shared__ float part[THREADS];
  part[threadIdx.x] = x[threadIdx.x];
  if (SYNC) __syncthreads();
  y[threadIdx.x] = part[(threadIdx.x + 1) % THREADS];
}
static void no_barrier(const bench &b) { go(b, 1, THREADS, 0, neighbour_kernel<false>, b.y, b.x); }
static void barrier(const bench &b) { go(b, 1, THREADS, 0, neighbour_kernel<true>, b.y, b.x); }

/* The array is written again while others may still read it. */
template <bool SYNC> __global__ void twice_kernel(float *y, const float *x) {
  __shared__ float part[THREADS];
  float sum = 0;
  for (int i = 0; i < 2; i++) {
    if (SYNC) __syncthreads();
    part[threadIdx.x] = x[threadIdx.x + i];
    __syncthreads();
    sum += part[THREADS - 1 - threadIdx.x];
  }
  y[threadIdx.x] = sum;
}
static void no_second_barrier(const bench &b) {
  go(b, 1, THREADS, 0, twice_kernel<false>, b.y, b.x);
}
static void second_barrier(const bench &b) { go(b, 1, THREADS, 0, twice_kernel<true>, b.y, b.x); }

__global__ void divergent_kernel(float *y) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
    y[threadIdx.x] = 1;
  } else {
    __syncthreads();
  }
}
static void divergent_barrier(const bench &b) { go(b, 1, THREADS, 0, divergent_kernel, b.y); }

__global__ void stuck_kernel(float *y) {
  if (threadIdx.x == 0) __shfl_xor_sync(0xffffffffu, 1, 1);
  __syncthreads();
  y[threadIdx.x] = 1;
}
static void stuck(const bench &b) { go(b, 1, THREADS, 0, stuck_kernel, b.y); }

/* ---- warps ---- */

/* A lane's number by way of shared memory: a warp's lanes need not run together. */
template <bool SYNC> __global__ void lanes_kernel(float *y) {
  __shared__ float part[THREADS];
  part[threadIdx.x] = (float)threadIdx.x;
  if (SYNC) __syncwarp();
  y[threadIdx.x] = part[threadIdx.x ^ 1];
}
static void no_syncwarp(const bench &b) { go(b, 1, THREADS, 0, lanes_kernel<false>, b.y); }
static void syncwarp(const bench &b) { go(b, 1, THREADS, 0, lanes_kernel<true>, b.y); }

/* An exchange orders no memory. */
__global__ void exchange_kernel(float *y) {
  __shared__ float part[THREADS];
  part[threadIdx.x] = 1;
  float z = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
  y[threadIdx.x] = part[threadIdx.x ^ 1] + z;
}
static void exchange_for_barrier(const bench &b) { go(b, 1, THREADS, 0, exchange_kernel, b.y); }

template <unsigned MASK, unsigned LANES, int BY> __global__ void masked_kernel(float *y) {
  if (threadIdx.x % WARP >= LANES) return;
  y[threadIdx.x] = __shfl_xor_sync(MASK, 1.0f, BY);
}
static void ended_lane(const bench &b) {
  go(b, 1, WARP, 0, masked_kernel<0xffffffffu, 16, 1>, b.y);
}
static void unnamed_lane(const bench &b) { go(b, 1, WARP, 0, masked_kernel<0xffu, 16, 1>, b.y); }
static void unnamed_source(const bench &b) { go(b, 1, WARP, 0, masked_kernel<0xffu, 8, 8>, b.y); }
static void half_warp(const bench &b) { go(b, 1, WARP, 0, masked_kernel<0xffffu, 16, 1>, b.y); }

__global__ void masks_kernel(float *y) {
  y[threadIdx.x] = __shfl_xor_sync(threadIdx.x < 16 ? 0xffffffffu : 0xffff0000u, 1.0f, 1);
}
static void different_masks(const bench &b) { go(b, 1, WARP, 0, masks_kernel, b.y); }

/* ---- blocks ---- */

/* Blocks write a number each; the last one adds them up. */
template <bool BEFORE, bool AFTER> __global__ void last_kernel(float *x, float *y, uint32_t *n) {
  __shared__ bool last;
  x[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  if (BEFORE) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(n, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  if (AFTER) __threadfence();
  float sum = 0;
  for (unsigned i = 0; i < gridDim.x; i++) sum += x[i * blockDim.x + (threadIdx.x ^ 1)];
  y[threadIdx.x] = sum;
}
static void last_block(const bench &b) {
  go(b, 4, THREADS, 0, last_kernel<true, true>, b.x, b.y, b.n);
}
static void no_fence(const bench &b) {
  go(b, 4, THREADS, 0, last_kernel<false, true>, b.x, b.y, b.n);
}
static void no_fence_after(const bench &b) {
  go(b, 4, THREADS, 0, last_kernel<true, false>, b.x, b.y, b.n);
}

/* Each block reads what the next one has written. */
template <bool WAITS> __global__ void meeting_kernel(float *x, float *y, uint32_t *n) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  arrive(n);
  if (WAITS) wait_for(n, gridDim.x);
  y[blockIdx.x * blockDim.x + threadIdx.x] =
      x[(blockIdx.x + 1) % gridDim.x * blockDim.x + (threadIdx.x ^ 1)];
}
template <bool WAITS> static void meet(const bench &b, size_t blocks) {
  start_together(meeting_kernel<WAITS>, blocks, THREADS, 0, b.stream, b.x, b.y, b.n);
  cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) fprintf(stderr, "error %d\n", (int)error), abort();
  cudaStreamSynchronize(b.stream);
}
static void grid_barrier(const bench &b) { meet<true>(b, 4); }
static void no_grid_barrier(const bench &b) { meet<false>(b, 4); }
static void too_many_to_meet(const bench &b) { meet<true>(b, 5); }

__global__ void overlap_kernel(float *x) { x[blockIdx.x * (WARP - 1) + threadIdx.x] = 1; }
static void overlapping_blocks(const bench &b) { go(b, 2, WARP, 0, overlap_kernel, b.x); }

__global__ void count_kernel(uint32_t *n) { *n = *n + 1; }
static void no_atomic(const bench &b) { go(b, 2, WARP, 0, count_kernel, b.n); }

/* ---- memory ---- */

__global__ void reach_kernel(float *y, const float *x, size_t at) {
  y[threadIdx.x] = x[at + threadIdx.x];
}
static void beyond_end(const bench &b) { go(b, 1, WARP, 0, reach_kernel, b.y, b.x, N - WARP + 1); }
static void up_to_end(const bench &b) { go(b, 1, WARP, 0, reach_kernel, b.y, b.x, N - WARP); }

/* Two arrays of a warp's numbers in what stands for scratch: the first `n` threads write. */
__global__ void fill_kernel(float *x, unsigned n) {
  if (threadIdx.x < n) x[threadIdx.x] = 1;
}
static void fill_array(const bench &b, unsigned n) {
  begin_gaps(reinterpret_cast<char *>(b.x), b.stream);
  scratch_layout memory = {reinterpret_cast<char *>(b.x), 0};
  float *first = memory.array<float>(WARP), *second = memory.array<float>(WARP);
  go(b, 1, WARP, 0, fill_kernel, second, WARP);
  go(b, 1, 2 * WARP, 0, fill_kernel, first, n);
}
static void up_to_gap(const bench &b) { fill_array(b, WARP); }
static void into_gap(const bench &b) { fill_array(b, WARP + 1); }

struct inside {
  const float *x;
};
__global__ void struct_kernel(float *y, inside s) { y[threadIdx.x] = s.x[threadIdx.x]; }
static void host_memory(const bench &b) {
  static float x[WARP];
  float *own = new float[WARP]();
  go(b, 1, WARP, 0, struct_kernel, b.y, inside{own});
  go(b, 1, WARP, 0, struct_kernel, b.y, inside{x});
}
static void released(const bench &b) {
  void *x = nullptr;
  cudaMalloc(&x, 4 * N);
  cudaFree(x);
  go(b, 1, WARP, 0, struct_kernel, b.y, inside{(float *)x});
}

__global__ void unwritten_kernel(float *y) {
  __shared__ float part[WARP];
  if (threadIdx.x > 0) part[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = part[threadIdx.x ^ 1];
}
static void unwritten_shared(const bench &b) { go(b, 1, WARP, 0, unwritten_kernel, b.y); }

__global__ void dynamic_kernel(float *y, size_t n) {
  float *part = dynamic_shared<float>();
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) part[i] = 0;
  __syncthreads();
  y[threadIdx.x] = part[threadIdx.x];
}
static void beyond_shared(const bench &b) { go(b, 1, WARP, 4 * 100, dynamic_kernel, b.y, 101); }
static void large_shared(const bench &b) { go(b, 1, WARP, 49 << 10, dynamic_kernel, b.y, 64); }
static void large_shared_opted(const bench &b) {
  cudaFuncSetAttribute((const void *)dynamic_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       49 << 10);
  go(b, 1, WARP, 49 << 10, dynamic_kernel, b.y, 49 << 8);
}

__global__ void wide_kernel(float *y, const float *x) {
  float part[4];
  load<16>(part, x + 4 * threadIdx.x);
  y[threadIdx.x] = part[0] + part[3];
}
static void aligned(const bench &b) { go(b, 1, WARP, 0, wide_kernel, b.y, b.x + 4); }
static void misaligned(const bench &b) { go(b, 1, WARP, 0, wide_kernel, b.y, b.x + 2); }

__global__ void quad_kernel(float4 *y) { y[threadIdx.x] = {1, 2, 3, 4}; }
static void misaligned_write(const bench &b) {
  go(b, 1, WARP, 0, quad_kernel, (float4 *)(void *)(b.y + 2));
}

/* ---- copies that a thread waits for later ---- */

enum { WAITS = 1, MEETS = 2 };

/* Each thread copies four numbers and reads its neighbour's. */
template <int DOES> __global__ void copy_kernel(float *y, const float *x) {
  __shared__ uint4 part[WARP];
  copy_async(part + threadIdx.x, x + 4 * threadIdx.x);
  close_copies();
  if ((DOES & WAITS) != 0) wait_copies<0>();
  if ((DOES & MEETS) != 0) __syncthreads();
  y[threadIdx.x] = __uint_as_float(part[(threadIdx.x + 1) % WARP].x);
}
static void copies(const bench &b) { go(b, 1, WARP, 0, copy_kernel<WAITS | MEETS>, b.y, b.x); }
static void copies_no_wait(const bench &b) { go(b, 1, WARP, 0, copy_kernel<MEETS>, b.y, b.x); }
static void copies_no_barrier(const bench &b) { go(b, 1, WARP, 0, copy_kernel<WAITS>, b.y, b.x); }

/* ---- the runtime ---- */

static void legacy_stream(const bench &) { cudaStreamSynchronize(nullptr); }

/* One stream reads what another writes. */
static void other_stream(const bench &b, bool waits) {
  float one = 1, seen = 0;
  cudaEvent_t written = nullptr;
  cudaEventCreate(&written);
  for (int i = 0; i < 40 && seen == (float)i; i++, one++) {
    cudaMemcpyAsync(b.x, &one, sizeof one, cudaMemcpyHostToDevice, b.stream);
    cudaEventRecord(written, b.stream);
    if (waits) cudaStreamWaitEvent(b.other, written, 0);
    cudaMemcpyAsync(&seen, b.x, sizeof seen, cudaMemcpyDeviceToHost, b.other);
    cudaStreamSynchronize(b.other);
  }
  if (seen != 40) fprintf(stderr, "stale: %g\n", (double)seen), abort();
}
static void unordered_streams(const bench &b) { other_stream(b, false); }
static void ordered_streams(const bench &b) { other_stream(b, true); }

static void capture(const bench &b) {
  cudaStreamBeginCapture(b.stream, cudaStreamCaptureModeThreadLocal);
}
static void must_refuse(cudaError_t error, const char *what) {
  if (error == cudaErrorStreamCaptureUnsupported) return;
  fprintf(stderr, "%s was not refused\n", what);
  abort();
}

/* A card refuses these, and the capture is lost. */
static void refused_in_capture(const bench &b) {
  cudaGraph_t graph = nullptr;
  void *x = nullptr;
  float one = 1;
  for (int i = 0; i < 5; i++) {
    capture(b);
    if (i == 0) must_refuse(cudaMalloc(&x, 4), "an allocation");
    if (i == 1) must_refuse(cudaMallocHost(&x, 4), "pinned memory");
    if (i == 2) must_refuse(cudaStreamSynchronize(b.stream), "a wait");
    if (i == 3) {
      must_refuse(cudaMemcpyAsync(b.x, &one, 4, cudaMemcpyHostToDevice, b.stream), "a copy");
    }
    if (i == 4) must_refuse(cudaStreamSynchronize(b.other), "a wait for another stream");
    if (cudaStreamEndCapture(b.stream, &graph) == cudaErrorStreamCaptureInvalidated) continue;
    fprintf(stderr, "case %d did not spoil the capture\n", i);
    abort();
  }
}

static void free_in_capture(const bench &b) {
  capture(b);
  cudaFree(b.y);
}

static void product_in_capture(const bench &b, bool with_workspace) {
  cublasHandle_t blas = nullptr;
  cudaGraph_t graph = nullptr;
  float one = 1, none = 0;
  void *workspace = nullptr;
  cudaMalloc(&workspace, 4096);
  cublasCreate(&blas);
  cublasSetWorkspace(blas, workspace, 4096);
  cublasSetStream(blas, b.stream); /* which takes the workspace away */
  if (with_workspace) cublasSetWorkspace(blas, workspace, 4096);
  capture(b);
  cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, b.x, 2, b.x + 4, 2, &none, b.y, 2);
  cudaStreamEndCapture(b.stream, &graph);
}
static void no_workspace(const bench &b) { product_in_capture(b, false); }
static void with_workspace(const bench &b) { product_in_capture(b, true); }

/* A graph is launched after one of its arrays was released, and perhaps given again. */
static void replay_of(const bench &b, bool release) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  void *x = nullptr, *again = nullptr;
  cudaMalloc(&x, 4 * N);
  capture(b);
  start(reach_kernel, 1, WARP, 0, b.stream, b.y, (const float *)x, (size_t)0);
  cudaStreamEndCapture(b.stream, &graph);
  cudaGraphInstantiate(&ready, graph, 0);
  if (release) cudaFree(x), cudaMalloc(&again, 4 * N);
  cudaGraphLaunch(ready, b.stream);
  cudaStreamSynchronize(b.stream);
}
static void stale_replay(const bench &b) { replay_of(b, true); }
static void replay(const bench &b) { replay_of(b, false); }

static void empty_grid(const bench &b) { go(b, 0, WARP, 0, quad_kernel, (float4 *)(void *)b.y); }
static void large_block(const bench &b) { go(b, 1, 2048, 0, quad_kernel, (float4 *)(void *)b.y); }

/* ---- the cases: what must be said, "" if nothing is wrong ---- */

/* Without a barrier a thread reads too early or writes too late, as the schedule has it: a read of
 * what is not written yet, or a race. */

#define RACE "a race in "
static const struct {
  const char *name;
  void (*run)(const bench &b);
  const char *said;
} cases[] = {
    {"barrier", barrier, ""},
    {"no_barrier", no_barrier, "shared memory"},
    {"second_barrier", second_barrier, ""},
    {"no_second_barrier", no_second_barrier, RACE "shared"},
    {"divergent_barrier", divergent_barrier, "wait at different barriers"},
    {"stuck", stuck, "never come to"},
    {"syncwarp", syncwarp, ""},
    {"no_syncwarp", no_syncwarp, "shared memory"},
    {"exchange_for_barrier", exchange_for_barrier, "shared memory"},
    {"half_warp", half_warp, ""},
    {"ended_lane", ended_lane, "that the mask ffffffff names"},
    {"unnamed_lane", unnamed_lane, "is not in the mask 000000ff"},
    {"unnamed_source", unnamed_source, "which its mask does not name"},
    {"different_masks", different_masks, "with mask"},
    {"last_block", last_block, ""},
    {"no_fence", no_fence, RACE "device"},
    {"no_fence_after", no_fence_after, RACE "device"},
    {"grid_barrier", grid_barrier, ""},
    {"no_grid_barrier", no_grid_barrier, RACE "device"},
    {"too_many_to_meet", too_many_to_meet, "error 720"},
    {"overlapping_blocks", overlapping_blocks, RACE "device"},
    {"no_atomic", no_atomic, RACE "device"},
    {"up_to_end", up_to_end, ""},
    {"beyond_end", beyond_end, "beyond a block of device memory"},
    {"up_to_gap", up_to_gap, ""},
    {"into_gap", into_gap, "beyond an array in scratch memory"},
    {"host_memory", host_memory, "touches memory of the host"},
    {"released", released, "was released or never given"},
    {"unwritten_shared", unwritten_shared, "no thread of its block has written"},
    {"copies", copies, ""},
    {"copies_no_wait", copies_no_wait, "no thread of its block has written"},
    {"copies_no_barrier", copies_no_barrier, "shared"},
    {"beyond_shared", beyond_shared, "beyond its dynamic shared memory"},
    {"large_shared", large_shared, "of shared memory, more than its kernel may"},
    {"large_shared_opted", large_shared_opted, ""},
    {"aligned", aligned, ""},
    {"misaligned", misaligned, "not aligned"},
    {"misaligned_write", misaligned_write, "not aligned"},
    {"legacy_stream", legacy_stream, "the legacy default stream"},
    {"ordered_streams", ordered_streams, ""},
    {"unordered_streams", unordered_streams, "stale"},
    {"refused_in_capture", refused_in_capture, ""},
    {"free_in_capture", free_in_capture, "freed while a stream is captured"},
    {"with_workspace", with_workspace, ""},
    {"no_workspace", no_workspace, "cuBLAS has no workspace"},
    {"replay", replay, ""},
    {"stale_replay", stale_replay, "not device memory"},
    {"empty_grid", empty_grid, "a grid of 0 blocks"},
    {"large_block", large_block, "32 to 1024 threads"},
};

static int run(const char *name) {
  bench b = {};
  void *arrays[3];
  for (void *&x : arrays) cudaMalloc(&x, 4 * N);
  b.x = (float *)arrays[0], b.y = (float *)arrays[1], b.n = (uint32_t *)arrays[2];
  cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b.other, cudaStreamNonBlocking);
  for (void *x : arrays) cudaMemsetAsync(x, 0, 4 * N, b.stream);
  cudaStreamSynchronize(b.stream);
  for (const auto &c : cases) {
    if (strcmp(c.name, name) != 0) continue;
    c.run(b);
    return 0;
  }
  return 2;
}

} // namespace gpu

int main(int n, char **words) {
  for (const auto &c : gpu::cases) {
    if (n < 2) printf("%s\t%s\n", c.name, c.said);
  }
  return n < 2 ? 0 : gpu::run(words[1]);
}
