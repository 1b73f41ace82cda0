/* What the threads of a block do together: sums, scans and sorting; and how the last of several
 * blocks learns that it is the last. To be included by cuda.cuh. */
#ifndef FOPO_DEVICE_CUDA_BLOCK_CUH
#define FOPO_DEVICE_CUDA_BLOCK_CUH

namespace gpu {

/* ---- sums over the threads of a block, always in the same order ---- */

template <class T> __device__ inline T warp_sum(T x) {
  for (int o = WARP / 2; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
  return x;
}

__device__ inline float larger(float a, float b) { return b > a ? b : a; }

/* The sum over all threads of the block, in each thread. blockDim.x must be a multiple of WARP, and
 * at most 1024. */
__device__ inline double block_sum(double x) {
  __shared__ double of_warp[WARP];
  x = warp_sum(x);
  __syncthreads(); /* every thread has read an earlier sum */
  if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = x;
  __syncthreads();
  double sum = 0;
  for (unsigned w = 0; w < blockDim.x / WARP; w++) sum += of_warp[w];
  return sum;
}

/* The same of N numbers at once. */
template <int N> __device__ inline void block_sums(double (&x)[N]) {
  __shared__ double of_warp[N][WARP];
  for (int i = 0; i < N; i++) x[i] = warp_sum(x[i]);
  __syncthreads(); /* every thread has read earlier sums */
  for (int i = 0; i < N; i++) {
    if (threadIdx.x % WARP == 0) of_warp[i][threadIdx.x / WARP] = x[i];
  }
  __syncthreads();
  for (int i = 0; i < N; i++) {
    x[i] = 0;
    for (unsigned w = 0; w < blockDim.x / WARP; w++) x[i] += of_warp[i][w];
  }
}

/* The largest x of the block, in each thread; NaN counts as -infinity. */
__device__ inline float block_max(float x) {
  __shared__ float of_warp[WARP];
  for (int o = WARP / 2; o > 0; o >>= 1) {
    x = larger(x, __shfl_xor_sync(0xffffffffu, x, o));
  }
  __syncthreads();
  if (threadIdx.x % WARP == 0) of_warp[threadIdx.x / WARP] = x;
  __syncthreads();
  float most = of_warp[0];
  for (unsigned w = 1; w < blockDim.x / WARP; w++) most = larger(most, of_warp[w]);
  return most;
}

/* The sum over the threads before this one; *total: over all threads of the block. The caller must
 * synchronise the threads between two scans. */
__device__ inline double block_scan(double x, double *total) {
  __shared__ double of_warp[WARP];
  unsigned lane = threadIdx.x % WARP;
  double sum = x;
  for (unsigned o = 1; o < WARP; o <<= 1) {
    double before = __shfl_up_sync(0xffffffffu, sum, o);
    if (lane >= o) sum += before;
  }
  if (lane == WARP - 1) of_warp[threadIdx.x / WARP] = sum;
  __syncthreads();
  double before = 0, all = 0;
  for (unsigned w = 0; w < blockDim.x / WARP; w++) {
    if (w == threadIdx.x / WARP) before = all;
    all += of_warp[w];
  }
  *total = all;
  double lanes_before = __shfl_up_sync(0xffffffffu, sum, 1);
  return before + (lane > 0 ? lanes_before : 0.0);
}

/* ---- sorting by the threads of a block, by Batcher's bitonic network ---- */

template <class key> __device__ inline void put_in_order(key &a, key &b, bool rising) {
  if (rising ? a > b : a < b) {
    key c = a;
    a = b;
    b = c;
  }
}

/* A lane's key `at` after it has met the key at ^ gap, gap < WARP, which another lane of the warp
 * holds. */
template <class key>
__device__ inline key after_exchange(key own, size_t at, unsigned gap, bool rising) {
  key other = __shfl_xor_sync(0xffffffffu, own, (int)gap);
  bool takes_less = ((at & gap) == 0) == rising;
  return (other < own) == takes_less ? other : own;
}

/* The stages of the runs `first` .. `last` whose gaps are at most WARP, on the 2 WARP keys from
 * `base` on: each lane holds two of them in registers, so no barrier is needed. */
template <class key>
__device__ inline void sort_segment(key *keys, size_t base, size_t n, size_t first, size_t last,
                                    bool ascending) {
  size_t i = base + threadIdx.x % WARP, j = i + WARP;
  /* lanes past n hold a dummy, which is exchanged with other dummies alone */
  key a = i < n ? keys[i] : key{}, b = j < n ? keys[j] : key{};
  for (size_t run = first; run <= last; run *= 2) {
    bool a_rises = ((i & run) == 0) == ascending, b_rises = ((j & run) == 0) == ascending;
    if (run > WARP) put_in_order(a, b, a_rises);
    for (unsigned gap = (unsigned)least(run, WARP) / 2; gap > 0; gap /= 2) {
      a = after_exchange(a, i, gap, a_rises);
      b = after_exchange(b, j, gap, b_rises);
    }
  }
  if (i < n) keys[i] = a;
  if (j < n) keys[j] = b;
}

template <class key>
__device__ inline void sort_segments(key *keys, size_t n, size_t first, size_t last,
                                     bool ascending) {
  __syncthreads();
  for (size_t base = threadIdx.x / WARP * 2 * WARP; base < n;
       base += blockDim.x / WARP * 2 * WARP) {
    sort_segment(keys, base, n, first, last, ascending);
  }
}

/* Sorts keys [n], n a power of two. Stages of gaps up to WARP are made by each warp for itself, so
 * the 66 stages of 2048 keys have 21 barriers. The caller must synchronise the threads before they
 * read the result. */
template <class key> __device__ inline void sort_keys(key *keys, size_t n, bool ascending) {
  sort_segments(keys, n, 2, least(n, 2 * WARP), ascending);
  for (size_t run = 4 * WARP; run <= n; run *= 2) {
    for (size_t gap = run / 2; gap > WARP; gap /= 2) {
      __syncthreads();
      for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        size_t j = i ^ gap;
        if (j > i) put_in_order(keys[i], keys[j], ((i & run) == 0) == ascending);
      }
    }
    sort_segments(keys, n, run, run, ascending);
  }
}

/* ---- blocks that wait for each other ---- */

/* Each block adds 1 to a counter when its piece of work is finished, and what it wrote before is
 * seen by the blocks that have waited for the counter. Both are called by all threads. */
__device__ inline void arrive(uint32_t *counter) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(counter, 1u);
}

__device__ inline void wait_for(uint32_t *counter, uint32_t wanted) {
  if (threadIdx.x == 0) {
    while (atomicAdd(counter, 0u) < wanted) __nanosleep(100);
    __threadfence();
  }
  __syncthreads();
}

/* ---- the last block ---- */

/* True in every thread of the last of n blocks to come here; it sees what all of them have written
 * before. *counter is 0 before the first and 0 again behind the last. */
__device__ inline bool arrives_last(unsigned *counter, unsigned n) {
  __shared__ bool last;
  if (n > 1) __threadfence();
  __syncthreads();
  if (n == 1) return true;
  if (threadIdx.x == 0) last = atomicInc(counter, n - 1) == n - 1;
  __syncthreads();
  if (last) __threadfence();
  return last;
}

} // namespace gpu

#endif
