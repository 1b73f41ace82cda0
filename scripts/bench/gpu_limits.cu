/* What a card can do at best, for the table of make bench-gpu: the bytes a second of a copy from
 * its memory to its memory, reading and writing counted, and the seconds of the two products that a
 * step over all items, or over a head, needs: F = Q items^T and W = F items, in float32 or of 2 B
 * rows in bfloat16.
 *
 *   gpu_limits     first "ready,<card>", or "absent,<why>"; then a line for each line of input:
 *                  "copy" -> "copy,<bytes a second>", "products B P L" or "halves B P L" ->
 *                  "products,<seconds>" */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <vector>

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
    cudaEventRecord(begin);
    f();
    cudaEventRecord(end);
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
  must(cudaMemset(x, 0, n * sizeof(float)) == cudaSuccess, "cudaMemset");
  return static_cast<float *>(x);
}

static double copy_rate() {
  size_t n = (size_t)256 << 20; /* 1 GiB each */
  float *a = array(n), *b = array(n);
  double s = seconds([=] { cudaMemcpyAsync(b, a, n * 4, cudaMemcpyDeviceToDevice, 0); });
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
  float *half = array(wide / 2), *W = array((size_t)m * ld); /* Q in bfloat16 fills half of it */
  float one = 1, none = 0;
  double s = seconds([=] {
    cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, P, m, ld, &one, items, CUDA_R_16BF, ld, Q,
                 CUDA_R_16BF, ld, &none, F, CUDA_R_32F, stride, CUBLAS_COMPUTE_32F,
                 CUBLAS_GEMM_DEFAULT);
    cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, L, m, P, &one, items, CUDA_R_16BF, ld, half,
                 CUDA_R_16BF, stride, &none, W, CUDA_R_32F, ld, CUBLAS_COMPUTE_32F,
                 CUBLAS_GEMM_DEFAULT);
  });
  float *const all[] = {Q, items, F, half, W};
  for (float *x : all) cudaFree(x);
  return s;
}

int main() {
  cudaDeviceProp about;
  cudaError_t error = cudaGetDeviceProperties(&about, 0);
  if (error != cudaSuccess) {
    printf("absent,%s\n", cudaGetErrorString(error));
    return 0;
  }
  cublasHandle_t blas;
  must(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
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
