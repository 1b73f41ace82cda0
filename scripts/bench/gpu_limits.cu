/* What a card can do at best, for the table of make bench-gpu: the bytes a second of a copy from
 * its memory to its memory, reading and writing counted, and the seconds of the two products that a
 * step over all items, or over a head, needs: F = Q items^T and W = F items, in float32 or of 2 B
 * rows in bfloat16. And the constants of gpu_model.lua, by probes of some milliseconds each.
 *
 *   gpu_limits     first "ready,<card>", or "absent,<why>"; then a line for each line of input:
 *                  "copy" -> "copy,<bytes a second>", "products B P L" or "halves B P L" ->
 *                  "products,<seconds>"
 *   gpu_limits constants FILE
 *                  writes the constants to FILE, a table of Lua, and says each as it is measured;
 *                  exits with 77 where there is no card
 *
 * The tests compile it for the emulation of a card, where nothing that it measures means anything.
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "device/cuda/cuda.cuh"

#ifdef __CUDACC__
constexpr bool CARD = true;
__device__ static long long ticks() { return clock64(); }
#else
constexpr bool CARD = false;
static long long ticks() { return 0; }
#endif

static cudaStream_t stream;

static void must(bool right, const char *what) {
  if (right) return;
  printf("failed,%s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
  exit(1);
}

/* The median of seven runs of f, by events of the card, after one that does not count. */
template <class F> static double seconds(F f) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<float> ms;
  for (int i = 0; i < 8; i++) {
    float one = 0;
    cudaEventRecord(begin, stream);
    f();
    cudaEventRecord(end, stream);
    must(cudaEventSynchronize(end) == cudaSuccess, "a measurement");
    cudaEventElapsedTime(&one, begin, end);
    if (i > 0) ms.push_back(one);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2] * 1e-3;
}

static float *array(size_t n) {
  void *x = nullptr;
  must(cudaMalloc(&x, n * sizeof(float)) == cudaSuccess, "cudaMalloc");
  must(cudaMemsetAsync(x, 0, n * sizeof(float), stream) == cudaSuccess, "cudaMemsetAsync");
  return static_cast<float *>(x);
}

static double copy_rate() {
  size_t n = CARD ? (size_t)256 << 20 : 1 << 10; /* 1 GiB each */
  float *a = array(n), *b = array(n);
  double s = seconds([=] { cudaMemcpyAsync(b, a, n * 4, cudaMemcpyDeviceToDevice, stream); });
  cudaFree(a);
  cudaFree(b);
  return 8.0 * (double)n / s;
}

static double products(cublasHandle_t blas, int B, int P, int L) {
  float *Q = array((size_t)B * L), *items = array((size_t)P * L), *F = array((size_t)B * P);
  float one = 1, none = 0;
  double s = seconds([=] {
    cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, P, B, L, &one, items, L, Q, L, &none, F, P);
    cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, L, B, P, &one, items, L, F, P, &none, Q, L);
  });
  cudaFree(Q);
  cudaFree(items);
  cudaFree(F);
  return s;
}

static double halves(cublasHandle_t blas, int B, int P, int L) {
  int m = 2 * B, ld = (L + 7) / 8 * 8, stride = (P + 7) / 8 * 8; /* 16 bytes from row to row */
  size_t wide = (size_t)m * stride;
  float *Q = array((size_t)m * ld), *items = array((size_t)P * ld / 2), *F = array(wide);
  float *narrow = array(wide / 2), *W = array((size_t)m * ld); /* Q in bfloat16 fills half of it */
  float one = 1, none = 0;
  double s = seconds([=] {
    cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, P, m, ld, &one, items, CUDA_R_16BF, ld, Q,
                 CUDA_R_16BF, ld, &none, F, CUDA_R_32F, stride, CUBLAS_COMPUTE_32F,
                 CUBLAS_GEMM_DEFAULT);
    cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, L, m, P, &one, items, CUDA_R_16BF, ld, narrow,
                 CUDA_R_16BF, stride, &none, W, CUDA_R_32F, ld, CUBLAS_COMPUTE_32F,
                 CUBLAS_GEMM_DEFAULT);
  });
  float *const all[] = {Q, items, F, narrow, W};
  for (float *x : all) cudaFree(x);
  return s;
}

/* ---- the constants of the model ---- */

constexpr int ROW = 100, LANES = 8; /* floats of a row, and the threads that share it */

__device__ static unsigned scattered(unsigned x) { /* the finaliser of MurmurHash3 */
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}

/* The lanes' sum over row `id`, by loads of 16 bytes. */
__device__ static float row_sum(const float *items, unsigned id) {
  float sum = 0;
#pragma unroll
  for (int e = 0; e < 4; e++) {
    unsigned at = 4 * (threadIdx.x % LANES + (unsigned)(e * LANES));
    if (at < (unsigned)ROW) {
      float4 x = *reinterpret_cast<const float4 *>(items + (size_t)id * ROW + at);
      sum += x.x + x.y + x.z + x.w;
    }
  }
  return sum;
}

/* Each team of LANES threads reads `rounds` rows at random, none of which waits for another. */
__global__ static void rows_kernel(float *out, const float *items, unsigned P, unsigned rounds) {
  unsigned team = (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  float sum = 0;
#pragma unroll 4
  for (unsigned i = 0; i < rounds; i++) sum += row_sum(items, scattered(team * rounds + i) % P);
  if (sum == 1) *out = sum;
}

/* The same, but each round waits for the sum of the one before, as selections and sums do. */
__global__ static void rounds_kernel(float *out, const float *items, unsigned P, unsigned rounds) {
  unsigned id = threadIdx.x / LANES;
  float sum = 0;
  for (unsigned i = 0; i < rounds; i++) {
    float one = row_sum(items, scattered(id) % P);
    for (int by = LANES / 2; by > 0; by /= 2) one += __shfl_xor_sync(0xffffffffu, one, by);
    id = scattered(id + i + (one > 1e30f));
    sum += one;
  }
  if (sum == 1) *out = sum;
}

/* One word of next [n] after another. */
__global__ static void chase_kernel(unsigned *out, const unsigned *next, unsigned steps) {
  unsigned at = 0;
  if (threadIdx.x == 0) {
    for (unsigned i = 0; i < steps; i++) at = next[at];
    *out = at;
  }
}

/* A kernel that does next to nothing, but waits for the one before it. */
__global__ static void node_kernel(float *x) {
  if (threadIdx.x == 0) *x += 1;
}

/* All blocks wait for each other, `times` times; they must fit the card together. */
__global__ static void barrier_kernel(unsigned *arrived, unsigned times) {
  for (unsigned i = 1; i <= times; i++) {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(arrived, 1u);
      while (atomicAdd(arrived, 0u) < i * gridDim.x) {}
      __threadfence();
    }
    __syncthreads();
  }
}

/* The clock's ticks of a kernel that is busy for some milliseconds. */
__global__ static void clock_kernel(long long *took, unsigned rounds) {
  long long start = ticks();
  unsigned x = (unsigned)start;
  for (unsigned i = 0; i < rounds; i++) x = scattered(x);
  if (blockIdx.x == 0 && threadIdx.x == 0) *took = x == 1 ? 0 : ticks() - start;
}

/* Numbers from 0.5 to 1 at random, both as float32 and as two bfloat16: on zeros a card multiplies
 * faster. */
__global__ static void fill_kernel(uint32_t *x, size_t n) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    x[i] = (scattered((unsigned)i) & 0x007f007fu) | 0x3f003f00u;
  }
}

template <class... P>
static void go(size_t blocks, void (*kernel)(P...), std::type_identity_t<P>... arguments) {
  gpu::start(kernel, blocks, 256, 0, stream, arguments...);
}

static size_t processors() {
  cudaDeviceProp about;
  must(cudaGetDeviceProperties(&about, 0) == cudaSuccess, "the card's properties");
  return (size_t)about.multiProcessorCount;
}

/* Bytes a second of random rows out of P, in whole sectors of 32 bytes. */
static double rows_rate(unsigned P) {
  unsigned rounds = CARD ? 256 : 8;
  size_t blocks = (CARD ? 16 : 1) * processors();
  float *items = array((size_t)P * ROW), *out = array(1);
  double s = seconds([=] { go(blocks, rows_kernel, out, items, P, rounds); });
  cudaFree(items);
  cudaFree(out);
  return (double)blocks * (256 / LANES) * rounds * 416 / s; /* 13 or 14 sectors of 400 bytes */
}

static double round_time(unsigned P) {
  unsigned rounds = CARD ? 2000 : 8;
  float *items = array((size_t)P * ROW), *out = array(1);
  double s = seconds([=] { go(1, rounds_kernel, out, items, P, rounds); });
  cudaFree(items);
  cudaFree(out);
  return s / rounds;
}

static double chase_time(size_t n) {
  unsigned steps = CARD ? 20000 : 8;
  std::vector<unsigned> next(n);
  for (size_t i = 0; i < n; i++) next[i] = (unsigned)((i + 40503 * 128 + 1) % n);
  float *there = array(n), *out = array(1);
  cudaMemcpyAsync(there, next.data(), n * 4, cudaMemcpyHostToDevice, stream);
  must(cudaStreamSynchronize(stream) == cudaSuccess, "a copy");
  double s = seconds([=] {
    go(1, chase_kernel, reinterpret_cast<unsigned *>(out), reinterpret_cast<unsigned *>(there),
       steps);
  });
  cudaFree(there);
  cudaFree(out);
  return s / steps;
}

/* From the end of a small kernel of a graph to the end of the next. */
static double node_time() {
  const size_t nodes = CARD ? 256 : 4;
  float *x = array(1);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess, "a graph");
  for (size_t i = 0; i < nodes; i++) go(1, node_kernel, x);
  must(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "a graph");
  must(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess, "a graph");
  double s = seconds([=] { cudaGraphLaunch(ready, stream); });
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  cudaFree(x);
  return s / (double)nodes;
}

static double barrier_time() {
  unsigned times = CARD ? 1000 : 4;
  size_t blocks = CARD ? processors() : 1;
  float *arrived = array(1);
  double s = seconds([=] {
    cudaMemsetAsync(arrived, 0, 4, stream);
    go(blocks, barrier_kernel, reinterpret_cast<unsigned *>(arrived), times);
  });
  cudaFree(arrived);
  return s / times;
}

static double clock_rate() {
  float *there = array(2);
  long long took = 0;
  double s = seconds([=] {
    go(processors(), clock_kernel, reinterpret_cast<long long *>(there), CARD ? 1 << 18 : 4);
  });
  cudaMemcpyAsync(&took, there, sizeof took, cudaMemcpyDeviceToHost, stream);
  must(cudaStreamSynchronize(stream) == cudaSuccess, "a copy");
  cudaFree(there);
  return (double)took / s;
}

/* Operations a second of a product of square matrices of order n, in float32 or bfloat16. */
static double product_rate(cublasHandle_t blas, cudaDataType_t type, int n) {
  float *A = array((size_t)n * n), *B = array((size_t)n * n), *C = array((size_t)n * n);
  for (float *x : {A, B}) {
    go(64, fill_kernel, reinterpret_cast<uint32_t *>(x), (size_t)n * n);
  }
  float one = 1, none = 0;
  double s = seconds([=] {
    cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, A, type, n, B, type, n, &none, C,
                 CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  });
  float *const all[] = {A, B, C};
  for (float *x : all) cudaFree(x);
  return 2.0 * n * n * n / s;
}

static int constants(cublasHandle_t blas, const cudaDeviceProp &about, const char *path) {
  FILE *file = fopen(path, "w");
  must(file != nullptr, path);
  fprintf(file, "return {\n  card = \"%s\",\n  processors = %d,\n  cached = %d,\n", about.name,
          about.multiProcessorCount, about.l2CacheSize);
  auto say = [=](const char *name, double value, const char *what) {
    printf("%-10s %12.4g  %s\n", name, value, what);
    fflush(stdout);
    fprintf(file, "  %s = %.6g, -- %s\n", name, value, what);
  };
  unsigned P = CARD ? 790000 : 300;
  say("clock", clock_rate() / 1e6, "MHz of a busy processor");
  say("memory", copy_rate(), "bytes a second of a copy");
  say("rows", rows_rate(P), "and of random rows of 400 bytes out of 316 MB");
  say("cache", rows_rate(CARD ? 40000 : 300), "and out of 16 MB, which the L2 cache holds");
  say("node", 1e6 * node_time(), "us from kernel to kernel of a graph");
  say("latency", 1e6 * round_time(P), "us of a round of loads, from the id to the row's sum");
  say("cached_round", 1e6 * round_time(CARD ? 40000 : 300), "us of one in the L2 cache");
  say("chase", 1e9 * chase_time(CARD ? 1 << 28 : 1 << 10), "ns of a load from 1 GiB");
  say("barrier", 1e6 * barrier_time(), "us of a barrier of one block a processor");
  say("float32", product_rate(blas, CUDA_R_32F, CARD ? 8192 : 16), "operations a second");
  say("bfloat16", product_rate(blas, CUDA_R_16BF, CARD ? 8192 : 16), "operations a second");
  fprintf(file, "}\n");
  return fclose(file) == 0 ? 0 : 1;
}

int main(int n, char **words) {
  bool alone = n == 3 && strcmp(words[1], "constants") == 0;
  cudaDeviceProp about;
  cudaError_t error = cudaGetDeviceProperties(&about, 0);
  if (error != cudaSuccess) {
    printf("%s%s\n", alone ? "skip: " : "absent,", cudaGetErrorString(error));
    return alone ? 77 : 0;
  }
  cublasHandle_t blas;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "a stream");
  must(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
  must(cublasSetStream(blas, stream) == CUBLAS_STATUS_SUCCESS, "cublasSetStream");
  if (alone) return constants(blas, about, words[2]);
  printf("ready,%s\n", about.name);
  fflush(stdout);
  char line[128];
  int B, P, L;
  while (fgets(line, sizeof line, stdin) != nullptr) {
    if (strncmp(line, "copy", 4) == 0)
      printf("copy,%.9g\n", copy_rate());
    else if (sscanf(line, "products %d %d %d", &B, &P, &L) == 3)
      printf("products,%.9g\n", products(blas, B, P, L));
    else if (sscanf(line, "halves %d %d %d", &B, &P, &L) == 3)
      printf("products,%.9g\n", halves(blas, B, P, L));
    else
      printf("failed,not understood\n");
    fflush(stdout);
  }
  cublasDestroy(blas);
  return 0;
}
