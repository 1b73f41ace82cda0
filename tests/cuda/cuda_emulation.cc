/* The emulation: device memory, calls that can be made to fail, and blocks of coroutines. */
#undef _FORTIFY_SOURCE /* its longjmp refuses to go from one coroutine's stack to another's */
#include "cuda_emulation.h"

#include <cblas.h>
#include <mutex>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(x, n)   ((void)(x), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(x, n) ((void)(x), (void)(n))
#endif

struct emulated_stream {
  int unused;
};
struct emulated_blas {
  int unused;
};

static void give_up(const char *what) {
  fprintf(stderr, "emulated GPU: %s\n", what);
  abort();
}

/* ---- calls, and calls that must fail ---- */

static std::recursive_mutex lock;
static long calls, waits, replays, countdown = -1;
static int fail_code, fail_for_ever, last_error, driver_version = 13000, processors = 4;
static size_t others, sent; /* streams and handles; bytes from the host */

extern "C" void emulation_fail_at(long n, int code, int for_ever) {
  countdown = n;
  fail_code = code;
  fail_for_ever = for_ever;
  if (n < 0) last_error = 0;
}
extern "C" long emulation_calls(void) { return calls; }
extern "C" size_t emulation_sent(void) { return sent; }
extern "C" long emulation_waits(void) { return waits; }
extern "C" long emulation_replays(void) { return replays; }
extern "C" void emulation_processors(int n) { processors = n; }
extern "C" void emulation_driver(int version) { driver_version = version; }

static cudaError_t call() {
  calls++;
  if (countdown < 0) return cudaSuccess;
  if (countdown > 0) return countdown--, cudaSuccess;
  if (!fail_for_ever) countdown = -1;
  last_error = fail_code;
  return (cudaError_t)fail_code;
}

bool emulation::enter_launch() {
  std::lock_guard<std::recursive_mutex> held(lock);
  return call() == cudaSuccess;
}

/* ---- the stream: work that the host has not waited for ---- */

typedef std::vector<std::function<void()>> job;
struct emulated_graph {
  job nodes;
};
struct emulated_exec {
  job nodes;
};
static job work;
static emulated_graph *captured; /* deferred work goes here; nullptr: to the stream */
static bool spoiled;

void emulation::put_off(std::function<void()> x) {
  std::lock_guard<std::recursive_mutex> held(lock);
  (captured != nullptr ? captured->nodes : work).push_back(std::move(x));
}

/* A call that is forbidden during a capture: fails with error 900 then. */
static cudaError_t outside_capture() {
  if (captured == nullptr) return cudaSuccess;
  spoiled = true;
  last_error = cudaErrorStreamCaptureUnsupported;
  return cudaErrorStreamCaptureUnsupported;
}

static void catch_up() {
  std::lock_guard<std::recursive_mutex> held(lock);
  job now = std::move(work);
  work.clear();
  for (auto &x : now) x();
}

/* ---- device memory: pages that the host cannot touch while no kernel runs ---- */

static const size_t ARENA = (size_t)64 << 30, PAGE = 4096, MARKED = 1 << 20;
static char *arena;
static size_t top, in_use, limit = (size_t)2 << 30;
struct block {
  char *x;
  size_t bytes;
};
static std::vector<block> blocks;

extern "C" void emulation_memory(size_t bytes) { limit = bytes; }
extern "C" size_t emulation_live(void) { return blocks.size() + others; }

static void open_memory(bool open) {
  if (top > 0 && mprotect(arena, top, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
    give_up("its memory cannot be opened or closed");
  }
}

struct on_device { /* while one lives, device memory is open */
  std::lock_guard<std::recursive_mutex> held{lock};
  static int depth;
  on_device() {
    if (depth++ == 0) open_memory(true);
  }
  ~on_device() {
    if (--depth == 0) open_memory(false);
  }
};
int on_device::depth;

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE + PAGE; }

static std::vector<block>::iterator find(const void *x) {
  return std::find_if(blocks.begin(), blocks.end(), [x](const block &b) {
    return (const char *)x >= b.x && (const char *)x < b.x + (b.bytes > 0 ? b.bytes : 1);
  });
}

static void check_range(const void *x, size_t bytes) {
  auto b = find(x);
  if (b == blocks.end() || (const char *)x + bytes > b->x + b->bytes) {
    give_up("a copy goes beyond a block of device memory");
  }
}

void emulation::check_pointer(const void *x) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (x != nullptr && find(x) == blocks.end()) {
    auto end = find((const char *)x - 1); /* a pointer one past the end is allowed */
    if (end == blocks.end()) give_up("a kernel was given a pointer that is not device memory");
  }
}

void emulation::misaligned() { give_up("a load is not aligned to its size"); }

cudaError_t cudaMalloc(void **device, size_t bytes) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (error == cudaSuccess) error = outside_capture();
  if (error != cudaSuccess) return error;
  if (in_use + bytes > limit) return last_error = 2, cudaErrorMemoryAllocation;
  if (arena == nullptr) {
    arena =
        (char *)mmap(nullptr, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == (char *)MAP_FAILED) give_up("no address space for its memory");
  }
  if (top + pages(bytes) > ARENA) give_up("its address space is used up");
  block b = {arena + top, bytes};
  top += pages(bytes);
  on_device open;
  ASAN_UNPOISON_MEMORY_REGION(b.x, bytes);
  memset(b.x, 0xff, bytes < MARKED ? bytes : MARKED); /* NaN, and ids beyond any catalogue */
  ASAN_POISON_MEMORY_REGION(b.x + bytes, pages(bytes) - bytes);
  blocks.push_back(b);
  in_use += bytes;
  *device = b.x;
  return cudaSuccess;
}

cudaError_t cudaFree(void *device) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call(); /* freed in any case: the error belongs to earlier work */
  if (device == nullptr) return error;
  if (outside_capture() != cudaSuccess) give_up("memory is freed while a stream is captured");
  catch_up();
  auto b = find(device);
  if (b == blocks.end() || b->x != device)
    give_up("a pointer is freed that is no block of device memory");
  madvise(b->x, pages(b->bytes), MADV_DONTNEED);
  ASAN_POISON_MEMORY_REGION(b->x, b->bytes);
  in_use -= b->bytes;
  blocks.erase(b);
  if (blocks.empty()) top = 0;
  return error;
}

static std::vector<block> pinned; /* on the host */

cudaError_t cudaMallocHost(void **host, size_t bytes) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  *host = nullptr;
  if (error != cudaSuccess) return error;
  *host = malloc(bytes);
  pinned.push_back({(char *)*host, bytes});
  others++;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void *host) {
  std::lock_guard<std::recursive_mutex> held(lock);
  catch_up();
  auto b = std::find_if(pinned.begin(), pinned.end(), [=](const block &x) { return x.x == host; });
  if (b == pinned.end()) give_up("a pointer is freed that is no pinned memory");
  pinned.erase(b);
  free(host);
  others--;
  return call();
}

static bool is_pinned(const void *x) {
  return std::any_of(pinned.begin(), pinned.end(), [=](const block &b) {
    return (const char *)x >= b.x && (const char *)x < b.x + b.bytes;
  });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  if (kind != cudaMemcpyDeviceToHost) check_range(to, bytes);
  if (kind != cudaMemcpyHostToDevice) check_range(from, bytes);
  if (kind == cudaMemcpyHostToDevice) sent += bytes;
  if (kind != cudaMemcpyDeviceToDevice) { /* the program would copy an old place at each replay */
    error = outside_capture();
    if (error != cudaSuccess) return error;
  }
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from)) { /* copied at once */
    std::vector<char> copy((const char *)from, (const char *)from + bytes);
    emulation::put_off([=] {
      on_device open;
      memcpy(to, copy.data(), bytes);
    });
    return cudaSuccess;
  }
  emulation::put_off([=] {
    on_device open;
    memcpy(to, from, bytes);
  });
  if (kind == cudaMemcpyDeviceToHost) catch_up();
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *device, int value, size_t bytes, cudaStream_t) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  check_range(device, bytes);
  emulation::put_off([=] {
    on_device open;
    memset(device, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
  std::lock_guard<std::recursive_mutex> held(lock);
  *all = limit;
  *left = limit > in_use ? limit - in_use : 0;
  return call();
}

/* ---- the rest of the runtime ---- */

/* Objects of the runtime, counted so that tests find leaks. */
template <typename thing> static cudaError_t create(thing **made) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  *made = nullptr;
  if (error != cudaSuccess) return error;
  *made = new thing();
  others++;
  return cudaSuccess;
}

template <typename thing> static cudaError_t destroy(thing *made) {
  std::lock_guard<std::recursive_mutex> held(lock);
  delete made;
  others--;
  return call();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) { return create(stream); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::lock_guard<std::recursive_mutex> held(lock);
  catch_up();
  return destroy(stream);
}

cudaError_t cudaStreamSynchronize(cudaStream_t) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = outside_capture();
  if (error != cudaSuccess) return error;
  waits++;
  catch_up();
  return call();
}

struct emulated_event {
  double when;
};

cudaError_t cudaEventCreate(cudaEvent_t *event) { return create(event); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::lock_guard<std::recursive_mutex> held(lock);
  catch_up();
  return destroy(event);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  emulation::put_off([=] {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->when = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  });
  return error;
}

cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return cudaStreamSynchronize(nullptr); /* later work is done too */
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t began, cudaEvent_t ended) {
  std::lock_guard<std::recursive_mutex> held(lock);
  *milliseconds = (float)(1e3 * (ended->when - began->when));
  return call();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  if (captured != nullptr) give_up("a stream is captured twice");
  captured = new emulated_graph();
  others++;
  spoiled = false;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (captured == nullptr) give_up("a capture ends that never began");
  *graph = captured;
  captured = nullptr;
  if (error == cudaSuccess && spoiled) error = cudaErrorStreamCaptureInvalidated;
  if (error == cudaSuccess) return error;
  last_error = error;
  delete *graph;
  *graph = nullptr;
  others--;
  return error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error; /* *exec is left as it was */
  *exec = new emulated_exec{graph->nodes};
  others++;
  return error;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  replays++;
  work.insert(work.end(), exec->nodes.begin(), exec->nodes.end());
  return error;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy(graph); }

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return destroy(exec); }

cudaError_t cudaGetDevice(int *device) {
  std::lock_guard<std::recursive_mutex> held(lock);
  *device = 0;
  return call();
}

cudaError_t cudaGetDeviceCount(int *count) {
  std::lock_guard<std::recursive_mutex> held(lock);
  *count = 0;
  if (driver_version < 13000) return call(), cudaErrorInsufficientDriver;
  cudaError_t error = call();
  if (error == cudaSuccess) *count = 1;
  return error;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *about, int) {
  std::lock_guard<std::recursive_mutex> held(lock);
  memset(about, 0, sizeof *about);
  snprintf(about->name, sizeof about->name, "emulated GPU");
  about->totalGlobalMem = limit;
  about->multiProcessorCount = processors;
  about->l2CacheSize = 64 << 10; /* small: a little catalogue has several tiles */
  about->major = 8;
  return call();
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  std::lock_guard<std::recursive_mutex> held(lock);
  int error = last_error;
  if (!(fail_for_ever && countdown == 0)) last_error = 0;
  return (cudaError_t)error;
}

const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "an emulated error";
}

/* ---- cuBLAS and CUB ---- */

static cublasStatus_t as_status(cudaError_t error) {
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  return error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
                                            : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasCreate(cublasHandle_t *handle) { return as_status(create(handle)); }

cublasStatus_t cublasDestroy(cublasHandle_t handle) { return as_status(destroy(handle)); }

cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t) {
  std::lock_guard<std::recursive_mutex> held(lock);
  return as_status(call());
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *workspace, size_t bytes) {
  std::lock_guard<std::recursive_mutex> held(lock);
  check_range(workspace, bytes);
  return as_status(call());
}

cublasStatus_t cublasSgemm(cublasHandle_t, cublasOperation_t a, cublasOperation_t b, int m, int n,
                           int k, const float *alpha, const float *A, int lda, const float *B,
                           int ldb, const float *beta, float *C, int ldc) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return as_status(error);
  check_range(A, 4 * ((size_t)lda * (size_t)((a == CUBLAS_OP_T ? m : k) - 1) +
                      (size_t)(a == CUBLAS_OP_T ? k : m)));
  check_range(B, 4 * ((size_t)ldb * (size_t)((b == CUBLAS_OP_T ? k : n) - 1) +
                      (size_t)(b == CUBLAS_OP_T ? n : k)));
  check_range(C, 4 * ((size_t)ldc * (size_t)(n - 1) + (size_t)m));
  emulation::put_off([=, alpha = *alpha, beta = *beta] {
    on_device open;
    cblas_sgemm(CblasColMajor, a == CUBLAS_OP_T ? CblasTrans : CblasNoTrans,
                b == CUBLAS_OP_T ? CblasTrans : CblasNoTrans, m, n, k, alpha, A, lda, B, ldb, beta,
                C, ldc);
  });
  return CUBLAS_STATUS_SUCCESS;
}

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

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t, cublasOperation_t a, cublasOperation_t b,
                                          int m, int n, int k, const void *alpha, const void *A,
                                          cudaDataType_t type_a, int lda, long long step_a,
                                          const void *B, cudaDataType_t type_b, int ldb,
                                          long long step_b, const void *beta, void *C,
                                          cudaDataType_t type_c, int ldc, long long step_c,
                                          int count, cublasComputeType_t, cublasGemmAlgo_t) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return as_status(error);
  if (type_a != type_b || type_c != CUDA_R_32F || step_c < (long long)ldc * n) {
    give_up("a product is emulated for one type of operands, into float, and C without overlaps");
  }
  auto left = [=](size_t i) {
    const char *x = (const char *)A + i * (size_t)step_a * size_of(type_a);
    return operand{x, type_a, a == CUBLAS_OP_T ? k : m, a == CUBLAS_OP_T ? m : k, lda};
  };
  auto right = [=](size_t i) {
    const char *x = (const char *)B + i * (size_t)step_b * size_of(type_b);
    return operand{x, type_b, b == CUBLAS_OP_T ? n : k, b == CUBLAS_OP_T ? k : n, ldb};
  };
  for (size_t i = 0; i < (size_t)count; i++) {
    check_range(left(i).x, numbers(left(i)) * size_of(type_a));
    check_range(right(i).x, numbers(right(i)) * size_of(type_b));
    check_range((float *)C + i * (size_t)step_c, 4 * ((size_t)ldc * (size_t)(n - 1) + (size_t)m));
  }
  emulation::put_off([=, alpha = *(const float *)alpha, beta = *(const float *)beta] {
    on_device open;
    for (size_t i = 0; i < (size_t)count; i++) {
      std::vector<float> wide_a = widened(left(i)), wide_b = widened(right(i));
      cblas_sgemm(CblasColMajor, a == CUBLAS_OP_T ? CblasTrans : CblasNoTrans,
                  b == CUBLAS_OP_T ? CblasTrans : CblasNoTrans, m, n, k, alpha, wide_a.data(), lda,
                  wide_b.data(), ldb, beta, (float *)C + i * (size_t)step_c, ldc);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
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

cudaError_t emulation::sort_pairs(const uint32_t *key, uint32_t *key_out, const uint32_t *value,
                                  uint32_t *value_out, int n, int end_bit) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  put_off([=] {
    on_device open;
    uint32_t mask = end_bit < 32 ? (1u << end_bit) - 1 : ~0u;
    std::vector<int> order((size_t)n);
    for (int i = 0; i < n; i++) order[(size_t)i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [=](int i, int j) { return (key[i] & mask) < (key[j] & mask); });
    for (int i = 0; i < n; i++) {
      key_out[i] = key[order[(size_t)i]];
      value_out[i] = value[order[(size_t)i]];
    }
  });
  return cudaSuccess;
}

cudaError_t emulation::inclusive_sum(const uint32_t *x, uint32_t *sum, int n) {
  std::lock_guard<std::recursive_mutex> held(lock);
  cudaError_t error = call();
  if (error != cudaSuccess) return error;
  put_off([=] {
    on_device open;
    uint32_t total = 0;
    for (int i = 0; i < n; i++) sum[i] = total += x[i];
  });
  return cudaSuccess;
}

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

/* ---- blocks: each thread is a coroutine that runs until it must wait ---- */

enum { MOST_THREADS = 1024, STACK = 64 << 10 };

thread_local uint3 threadIdx, blockIdx, blockDim;

struct barrier {
  unsigned waiting, generation;
};

struct fiber {
  ucontext_t context;
  jmp_buf here;
  char *stack;
  bool begun, done;
  const unsigned *gate; /* it waits while *gate is `closed` */
  unsigned closed, exchanges;
};

static thread_local fiber fibers[MOST_THREADS];
static thread_local jmp_buf scheduler;
static thread_local const std::function<void()> *body;
static thread_local unsigned running, alive;
static thread_local barrier block_barrier, warp_barrier[MOST_THREADS / 32];
static thread_local unsigned warp_left[MOST_THREADS / 32]; /* lanes that have ended */
static thread_local uint64_t slots[2][MOST_THREADS];
static thread_local char *dynamic;

#if defined(__SANITIZE_ADDRESS__)
static thread_local void *scheduler_fake;
static thread_local const void *scheduler_stack;
static thread_local size_t scheduler_size;
static thread_local void *fiber_fake[MOST_THREADS];
static void leave_scheduler(unsigned t) {
  __sanitizer_start_switch_fiber(&scheduler_fake, fibers[t].stack, STACK);
}
static void back_in_scheduler() {
  __sanitizer_finish_switch_fiber(scheduler_fake, nullptr, nullptr);
}
static void enter_fiber(bool first) {
  __sanitizer_finish_switch_fiber(first ? nullptr : fiber_fake[running], &scheduler_stack,
                                  &scheduler_size);
}
static void leave_fiber() {
  __sanitizer_start_switch_fiber(&fiber_fake[running], scheduler_stack, scheduler_size);
}
#else
static void leave_scheduler(unsigned) {}
static void back_in_scheduler() {}
static void enter_fiber(bool) {}
static void leave_fiber() {}
#endif

/* Back to the scheduler; returns when this thread's turn comes again. */
static void yield() {
  unsigned me = running;
  leave_fiber();
  if (_setjmp(fibers[me].here) == 0) _longjmp(scheduler, 1);
  enter_fiber(false);
}

static void wait(barrier *b, unsigned expected) {
  unsigned now = b->generation;
  if (++b->waiting == expected) {
    b->waiting = 0;
    b->generation++;
    return;
  }
  fibers[running].gate = &b->generation;
  fibers[running].closed = now;
  yield();
}

void emulation::sync_block() { wait(&block_barrier, alive); }

void emulation::exchange(void *value, size_t bytes, unsigned from) {
  unsigned me = running, warp = me / 32, turn = fibers[me].exchanges++ % 2;
  if (warp_left[warp] > 0) give_up("a lane has ended while its warp exchanges values");
  if (bytes > sizeof slots[0][0]) give_up("an exchanged value has more than 8 bytes");
  memcpy(&slots[turn][me], value, bytes);
  wait(&warp_barrier[warp], 32);
  memcpy(value, &slots[turn][warp * 32 + from], bytes);
}

void *emulation::shared_memory() { return dynamic; }

static void live() {
  enter_fiber(true);
  for (;;) {
    (*body)();
    unsigned me = running;
    fibers[me].done = true;
    alive--;
    if (warp_barrier[me / 32].waiting > 0) give_up("a lane ends while its warp waits for it");
    warp_left[me / 32]++;
    if (block_barrier.waiting > 0 && block_barrier.waiting == alive) {
      block_barrier.waiting = 0;
      block_barrier.generation++;
    }
    yield();
  }
}

static void resume(unsigned t) {
  fiber &f = fibers[t];
  running = t;
  threadIdx.x = t;
  leave_scheduler(t);
  if (_setjmp(scheduler) == 0) {
    if (f.begun) _longjmp(f.here, 1);
    f.begun = true;
    if (f.stack == nullptr) give_up("a thread has no stack");
    setcontext(&f.context);
  }
  back_in_scheduler();
}

static void make_fiber(unsigned t) {
  fiber &f = fibers[t];
  if (f.stack != nullptr) return;
  f.stack =
      (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (f.stack == (char *)MAP_FAILED) give_up("no memory for a thread's stack");
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack;
  f.context.uc_stack.ss_size = STACK;
  f.context.uc_link = nullptr;
  makecontext(&f.context, live, 0);
}

static void run_block(unsigned threads) {
  alive = threads;
  block_barrier = {0, 0};
  for (unsigned w = 0; w < threads / 32; w++) warp_barrier[w] = {0, 0}, warp_left[w] = 0;
  for (unsigned t = 0; t < threads; t++) {
    fibers[t].done = false;
    fibers[t].gate = nullptr;
    fibers[t].exchanges = 0;
  }
  while (alive > 0) {
    bool moved = false;
    for (unsigned t = 0; t < threads; t++) {
      fiber &f = fibers[t];
      if (f.done || (f.gate != nullptr && *f.gate == f.closed)) continue;
      f.gate = nullptr;
      moved = true;
      resume(t);
    }
    if (!moved) give_up("threads of a block wait at different barriers");
  }
}

void emulation::run(size_t n, unsigned threads, size_t shared,
                    const std::function<void()> &kernel) {
  if (threads == 0 || threads > MOST_THREADS || threads % 32 != 0) {
    give_up("a block has 32 to 1024 threads here, a multiple of 32");
  }
  if (shared > (48 << 10)) give_up("a block asks for more than 48 KiB of shared memory");
  on_device open;
  std::vector<char> memory(shared + 64);
  for (unsigned t = 0; t < threads; t++) make_fiber(t);
  body = &kernel;
  blockDim = {threads, 1, 1};
  for (size_t b = 0; b < n; b++) {
    std::fill(memory.begin(), memory.end(), (char)0xff);
    dynamic = memory.data();
    blockIdx = {(unsigned)b, 0, 0};
    run_block(threads);
  }
}
