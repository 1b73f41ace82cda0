/* The CUDA device: opening and closing, memory, and the table of operations. One card, the current
 * one (CUDA_VISIBLE_DEVICES chooses), and one stream. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device/cuda/cuda.cuh"

namespace gpu {

/* ---- memory ---- */

int refuse_while_recording(fopo_device *d, const char *what) {
  int status = alive();
  if (status != FOPO_OK || !of(d)->recording) return status;
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "%s cannot be part of a CUDA graph", what);
}

int reserve(fopo_device *d, size_t bytes, const char *what) {
  state *s = of(d);
  int status = alive();
  begin_gaps(s->scratch, s->stream);
  if (status != FOPO_OK || bytes <= s->scratch_bytes) return status;
  status = refuse_while_recording(d, what);
  if (status != FOPO_OK) return status;
  drop_graph(d); /* its kernels may use the old scratch */
  void *fresh = nullptr;
  status = check(cudaFree(s->scratch), what); /* waits for the kernels that still use it */
  s->scratch = nullptr;
  s->scratch_bytes = 0;
  if (status == FOPO_OK) status = check(cudaMalloc(&fresh, bytes), what);
  if (status != FOPO_OK) return status;
  s->scratch = static_cast<char *>(fresh);
  s->scratch_bytes = bytes;
  return FOPO_OK;
}

/* Blocks count up to a number and 0 follows, so the counters are cleared once. */
int reserve_arrivals(fopo_device *d, size_t n) {
  state *s = of(d);
  int status = alive();
  if (status != FOPO_OK || n <= s->n_arrivals) return status;
  status = refuse_while_recording(d, "counters");
  if (status != FOPO_OK) return status;
  drop_graph(d);
  void *fresh = nullptr;
  status = check(cudaFree(s->arrivals), "counters");
  s->arrivals = nullptr;
  s->n_arrivals = 0;
  if (status == FOPO_OK) status = check(cudaMalloc(&fresh, n * sizeof *s->arrivals), "counters");
  if (status != FOPO_OK) return status;
  s->arrivals = static_cast<unsigned *>(fresh);
  status = check(cudaMemsetAsync(fresh, 0, n * sizeof *s->arrivals, s->stream), "counters");
  if (status == FOPO_OK) s->n_arrivals = n;
  return status;
}

/* Allocates a block and adds it to the list, not zeroed. An empty block has an address too. */
static int new_block(fopo_device *d, void **device, size_t bytes) {
  state *s = of(d);
  *device = nullptr;
  int status = refuse_while_recording(d, "an array");
  if (status != FOPO_OK) return status;
  if (s->n_blocks == s->capacity) {
    size_t capacity = s->capacity == 0 ? 64 : 2 * s->capacity;
    void *blocks = fopo_realloc(s->blocks, capacity, sizeof *s->blocks);
    if (blocks == nullptr) return FOPO_ERR_MEMORY;
    s->blocks = static_cast<void **>(blocks);
    s->capacity = capacity;
  }
  char what[64];
  snprintf(what, sizeof what, "another %.3f GB", (double)bytes / 1e9);
  status = check(cudaMalloc(device, bytes > 0 ? bytes : 1), what);
  if (status != FOPO_OK) {
    *device = nullptr;
  } else {
    s->blocks[s->n_blocks++] = *device;
  }
  return status;
}

int release(fopo_device *d, void *device) {
  state *s = of(d);
  for (size_t i = s->n_blocks; device != nullptr && i-- > 0;) {
    if (s->blocks[i] != device) continue;
    drop_graph(d);    /* its kernels may use the block */
    cudaFree(device); /* a failure belongs to earlier work, and the next call reports it */
    s->blocks[i] = s->blocks[--s->n_blocks];
    break;
  }
  return FOPO_OK;
}

static int synchronise(fopo_device *d) {
  int status = check(cudaStreamSynchronize(of(d)->stream), "the work of a step");
  if (status == FOPO_OK) of(d)->ring_used = 0;
  return status;
}

/* CUDA need not have read pageable memory when the call of a copy returns, and it may make the host
 * wait for the stream (NVIDIA's "CUDA Runtime API", API synchronization behavior). Small data is
 * therefore copied to the pinned ring first, whose bytes are reused only after the host has waited;
 * for other data the host waits here. So the caller may change or release it in either case. */
int put(fopo_device *d, void *device, const void *host, size_t bytes) {
  state *s = of(d);
  int status = refuse_while_recording(d, "a copy to the GPU");
  bool small = bytes <= RING / 8;
  if (status != FOPO_OK || bytes == 0) return status;
  if (small) {
    if (s->ring_used + bytes > RING) status = synchronise(d);
    if (status != FOPO_OK) return status;
    host = memcpy(s->ring + s->ring_used, host, bytes);
    s->ring_used += (bytes + 63) / 64 * 64;
  }
  timed_work timed(d, "copies to the GPU");
  status = check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, s->stream),
                 "a copy to the GPU");
  return status == FOPO_OK && !small ? synchronise(d) : status;
}

int get(fopo_device *d, void *host, const void *device, size_t bytes) {
  int status = refuse_while_recording(d, "a copy from the GPU");
  if (status != FOPO_OK || bytes == 0) return status;
  status = check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, of(d)->stream),
                 "a copy from the GPU");
  return status != FOPO_OK ? status : synchronise(d);
}

int memory(fopo_device *d, uint64_t *free_bytes, uint64_t *all_bytes) {
  size_t left = 0, all = 0;
  int status = refuse_while_recording(d, "a question about memory");
  if (status == FOPO_OK) status = check(cudaMemGetInfo(&left, &all), "a question about memory");
  *free_bytes = left, *all_bytes = all;
  return status;
}

int alloc(fopo_device *d, void **device, size_t bytes) {
  int status = new_block(d, device, bytes);
  if (status != FOPO_OK || bytes == 0) return status;
  status = check(cudaMemsetAsync(*device, 0, bytes, of(d)->stream), "clearing an array");
  if (status != FOPO_OK) {
    release(d, *device);
    *device = nullptr;
  }
  return status;
}

int share(fopo_device *d, void **device, const void *host, size_t bytes) {
  int status = new_block(d, device, bytes);
  if (status == FOPO_OK) status = put(d, *device, host, bytes);
  if (status != FOPO_OK && *device != nullptr) {
    release(d, *device);
    *device = nullptr;
  }
  return status;
}

/* ---- the device ---- */

#define ENTRY_EVERY(name) .name = name,
#define ENTRY_CPU(name)   .name = nullptr,
#define ENTRY_CUDA(name)  .name = name,

static const fopo_device_ops table = {
    .kind = "cuda",
    .asynchronous = 1,
#define FOPO_OP(name, who, ...) ENTRY_##who(name)
#include "device/ops.def"
#undef FOPO_OP
};

static void close(fopo_device *d) {
  if (d == nullptr) return;
  state *s = of(d);
  if (s != nullptr) {
    end_profile(d);
    for (size_t i = 0; i < s->n_blocks; i++) cudaFree(s->blocks[i]);
    drop_graph(d);
    fopo_free(s->persistent);
    cudaFree(s->scratch);
    cudaFree(s->arrivals);
    cudaFree(s->workspace);
    if (s->ring != nullptr) cudaFreeHost(s->ring);
    if (s->blas != nullptr) cublasDestroy(s->blas);
    if (s->began != nullptr) cudaEventDestroy(s->began);
    if (s->ended != nullptr) cudaEventDestroy(s->ended);
    if (s->stream != nullptr) cudaStreamDestroy(s->stream);
    cudaGetLastError();
    fopo_free(s->blocks);
  }
  fopo_free(s);
  fopo_free(d);
}

/* Says why there is no card, and what to do. CUDA writes version v.w as 1000 v + 10 w. */
static int fail_absent(cudaError_t error) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  cudaGetLastError();
  if (driver == 0) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, FOPO_CUDA_NO_DRIVER);
  }
  if (error == cudaErrorInsufficientDriver || driver < runtime / 1000 * 1000) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "the NVIDIA driver supports CUDA %d.%d but this build needs %d.0; update the "
                     "driver, or use device = \"cpu\"",
                     driver / 1000, driver % 1000 / 10, runtime / 1000);
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "there is no NVIDIA GPU that this process may use "
                     "(nvidia-smi and CUDA_VISIBLE_DEVICES tell); use device = \"cpu\"");
  }
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "CUDA does not start: %s (error %d); look at nvidia-smi, "
                   "or use device = \"cpu\"",
                   cudaGetErrorString(error), (int)error);
}

static int check_abi(uint32_t abi) {
  if (abi == FOPO_DEVICE_ABI && abi != 0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "fopo_cuda.so belongs to another build of fopo; run make, "
                                         "or use device = \"cpu\"");
}

static int find_card(int *count) {
  *count = 0;
  cudaError_t error = cudaGetDeviceCount(count);
  return error != cudaSuccess || *count == 0 ? fail_absent(error) : FOPO_OK;
}

/* Gives the right answer only if the object has code for this card. */
__global__ void probe_kernel(uint32_t *x) { x[threadIdx.x] = threadIdx.x ^ 0x5a5a5a5au; }

/* Runs a kernel and a product whose answers are known. */
static int probe(fopo_device *d) {
  uint32_t seen[WARP];
  float X[4] = {1, 2, 3, 4}, Q[4];
  int status = reserve(d, 4096, "the first work");
  if (status != FOPO_OK) return status;
  uint32_t *x = reinterpret_cast<uint32_t *>(of(d)->scratch);
  float *a = reinterpret_cast<float *>(of(d)->scratch + 1024), *q = a + 256;
  status = launch(d, "a first kernel", 1, WARP, 0, probe_kernel, x);
  if (status == FOPO_OK) status = get(d, seen, x, sizeof seen);
  if (status == FOPO_OK) status = put(d, a, X, sizeof X);
  if (status == FOPO_OK) status = gemm(d, q, 2, 1.0f, a, 2, 0, a, 2, 1, 0.0f, 2, 2, 2);
  if (status == FOPO_OK) status = get(d, Q, q, sizeof Q);
  if (status != FOPO_OK) return status;
  bool right = Q[0] == 5.0f && Q[1] == 11.0f && Q[2] == 11.0f && Q[3] == 25.0f;
  for (uint32_t i = 0; i < WARP; i++) right = right && seen[i] == (i ^ 0x5a5a5a5au);
  if (right) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "the GPU computes wrong results; look at nvidia-smi -q, or "
                   "use device = \"cpu\"");
}

/* The workspace that NVIDIA recommends for cuBLAS, from Hopper on and before. Without one, cuBLAS
 * would allocate its own in the middle of a step that is being recorded. */
static size_t workspace_of(const cudaDeviceProp &about) {
  return (size_t)(about.major >= 9 ? 32 : 4) << 20;
}

static int begin(fopo_device *d) {
  state *s = of(d);
  int card = 0;
  cudaDeviceProp about;
  int status = check(cudaGetDevice(&card), "the choice of a card");
  if (status == FOPO_OK) {
    status = check(cudaGetDeviceProperties(&about, card), "a question about the card");
  }
  if (status == FOPO_OK) {
    status = check(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "a stream");
  }
  if (status == FOPO_OK) status = check(cudaEventCreate(&s->began), "a clock");
  if (status == FOPO_OK) status = check(cudaEventCreate(&s->ended), "a clock");
  void *ring = nullptr;
  if (status == FOPO_OK) status = check(cudaMallocHost(&ring, RING), "memory for copies");
  s->ring = static_cast<char *>(ring);
  if (status == FOPO_OK) status = check(cublasCreate(&s->blas), "cuBLAS");
  if (status == FOPO_OK) status = check(cublasSetStream(s->blas, s->stream), "cuBLAS");
  void *workspace = nullptr;
  size_t bytes = workspace_of(about);
  if (status == FOPO_OK) {
    status = check(cudaMalloc(&workspace, bytes + sizeof *s->steps), "cuBLAS's workspace");
  }
  if (status == FOPO_OK) {
    s->workspace = static_cast<char *>(workspace);
    s->steps = reinterpret_cast<step_table *>(s->workspace + bytes);
    status = check(cublasSetWorkspace(s->blas, workspace, bytes), "cuBLAS's workspace");
  }
  if (status != FOPO_OK) return status;
  s->processors = (size_t)about.multiProcessorCount;
  s->cache = (size_t)about.l2CacheSize;
  s->has_bf16 = about.major >= 8;
  const char *early = getenv("FOPO_GPU_EARLY");
  s->together = about.cooperativeLaunch != 0;
  s->early = about.major >= 9 && early != nullptr && strcmp(early, "1") == 0;
  snprintf(d->name, sizeof d->name, "%.80s, %.0f GB", about.name,
           (double)about.totalGlobalMem / 1e9);
  status = start_profile(d);
  return status == FOPO_OK ? probe(d) : status;
}

} // namespace gpu

extern "C" __attribute__((visibility("default"))) int
fopo_cuda_open(fopo_device **d, void (**close)(fopo_device *d), uint32_t abi) {
  *d = nullptr;
  *close = gpu::close;
  int count, status = gpu::check_abi(abi);
  if (status == FOPO_OK) status = gpu::alive();
  if (status == FOPO_OK) status = gpu::find_card(&count);
  if (status != FOPO_OK) return status;
  fopo_device *fresh = static_cast<fopo_device *>(fopo_alloc(1, sizeof *fresh));
  if (fresh == nullptr) return FOPO_ERR_MEMORY;
  fresh->ops = &gpu::table;
  fresh->state = fopo_alloc(1, sizeof(gpu::state));
  status = fresh->state == nullptr ? FOPO_ERR_MEMORY : gpu::begin(fresh);
  if (status != FOPO_OK) {
    gpu::close(fresh);
    return status;
  }
  *d = fresh;
  return FOPO_OK;
}

extern "C" __attribute__((visibility("default"))) int fopo_cuda_list(char *text, size_t size,
                                                                     uint32_t abi) {
  text[0] = '\0';
  int count = 0, status = gpu::check_abi(abi);
  if (status == FOPO_OK) status = gpu::find_card(&count);
  size_t used = 0;
  for (int i = 0; i < count && status == FOPO_OK; i++) {
    cudaDeviceProp about;
    status = gpu::check(cudaGetDeviceProperties(&about, i), "a question about the card");
    if (status != FOPO_OK) return status;
    int n = snprintf(text + used, size - used, "%.80s, %.0f GB, compute %d.%d\n", about.name,
                     (double)about.totalGlobalMem / 1e9, about.major, about.minor);
    if (n < 0 || (size_t)n >= size - used) break;
    used += (size_t)n;
  }
  return status;
}
