/* Inside the CUDA device: its state, checked calls, launches, and the prototypes of its operations,
 * which are described in device/ops.def.
 *
 * All work of one device runs in one stream, in order; `get` waits for it. A step may be recorded
 * as a CUDA graph and launched by one call (graph.cu). Sums have one order for one card, one batch
 * and one catalogue: there are no atomic adds of floats, and cuBLAS runs in its default modes,
 * which repeat their bits. So the same seed gives the same bits on the same card.
 *
 * The sources see the CUDA runtime through this header alone, and start kernels through
 * gpu::launch, so that the tests can compile them with g++ against an emulation (tests/cuda). */
#ifndef FOPO_DEVICE_CUDA_CUDA_CUH
#define FOPO_DEVICE_CUDA_CUDA_CUH

#ifdef __CUDACC__
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#include <cuda_emulation.h>
#endif

#define R123_USE_SSE 0 /* as in core/rng.h, which must not be first, for it is C */
#include <Random123/philox.h>
#include <cstddef>
#include <cstdint>
#include <type_traits>

extern "C" {
#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/status.h"
#include "device/cuda/cuda.h"
#include "device/ops.h"
}

namespace gpu {

constexpr unsigned WARP = 32, THREADS = 256;
constexpr size_t SHARED_MOST = 48 << 10; /* bytes of shared memory that every card gives a block */
constexpr size_t SMALL_BATCH = 128;      /* contexts: products of fewer are made without cuBLAS */
constexpr size_t RING = 8 << 20;         /* holds the row ids of hundreds of steps */

/* What differs from step to step of a graph. */
struct step_numbers {
  size_t first;     /* place of the batch in the order of contexts */
  uint32_t step;    /* of the draws' key */
  float lr, unbias; /* adam's, corrected for t updates; of others lr */
  float keep;       /* fopo_update_keep */
};

/* Of the steps that one call of replay launches. The last kernel before an update counts it. */
struct step_table {
  uint32_t at;      /* the step at hand; in an update, the one behind it */
  uint32_t arrived; /* blocks at the barriers of the one kernel (persistent.cu) */
  step_numbers of[FOPO_REPLAYS];
};

/* Scratch only grows, so no step after the first allocates. */
struct state {
  cudaStream_t stream;
  cublasHandle_t blas;
  void **blocks; /* [n_blocks] given by alloc or share and not yet released, owned */
  size_t n_blocks;
  size_t capacity; /* of `blocks` */
  char *scratch;   /* device [scratch_bytes], owned */
  size_t scratch_bytes;
  char *ring;         /* [RING] pinned host memory, owned: data on its way to the card */
  size_t ring_used;   /* bytes since the host last waited for the stream */
  char *workspace;    /* device, owned: cuBLAS's, so that it allocates none, and `steps` */
  step_table *steps;  /* device: read by the kernels of the graph */
  unsigned *arrivals; /* device [n_arrivals] zeros between two kernels, owned */
  size_t n_arrivals;
  cudaGraphExec_t graph;      /* of a step, owned; NULL: there is none */
  cudaGraphExec_t many_steps; /* of STEPS_A_GRAPH, owned; NULL: there is none */
  bool recording;
  struct persistent *persistent; /* owned; NULL: it is not wanted (persistent.cu) */
  size_t launched;               /* kernels so far */
  cudaEvent_t began, ended;      /* owned: the clock's */
  size_t processors;             /* streaming multiprocessors */
  size_t cache;                  /* bytes of the L2 cache */
  bool has_bf16;                 /* it multiplies bfloat16 (compute 8.0 and later) */
  bool early;                    /* kernels that await_inputs are launched before they are there */
  bool together;                 /* it launches kernels whose blocks wait for each other */
  struct profile *timed;         /* owned; NULL: no profile is wanted (profile.cu) */
};

inline state *of(fopo_device *d) { return static_cast<state *>(d->state); }

/* FOPO_OK, or the failure with a sentence; `what` names the work. After an error that CUDA calls
 * sticky, alive() and every further check fail with the same remedy. */
int check(cudaError_t error, const char *what);
int check(cublasStatus_t status, const char *what);
int alive(void);

/* profile.cu. Work between construction and destruction is timed under its name, a text that lives
 * as long as the program; nothing happens if no profile is wanted. */
class timed_work {
  struct state *state_;
  bool mine_;

public:
  timed_work(fopo_device *d, const char *what);
  ~timed_work();
  timed_work(const timed_work &) = delete;
  timed_work &operator=(const timed_work &) = delete;
};

bool profiles(const fopo_device *d);
int start_profile(fopo_device *d);
void end_profile(fopo_device *d);

/* Fails while a graph is recorded: for work that waits, copies or allocates. */
int refuse_while_recording(fopo_device *d, const char *what);

/* Where the kernels of a graph read what differs from launch to launch; NULL outside a recording:
 * their arguments say it. */
inline step_table *steps_on_device(fopo_device *d) {
  return of(d)->recording ? of(d)->steps : nullptr;
}

/* A key of draws as an argument of kernels, which read it by current(). */
struct draw_key {
  fopo_draw_key key;
  const step_table *steps;
};

inline draw_key key_of(fopo_device *d, fopo_draw_key key) { return {key, steps_on_device(d)}; }

__device__ inline fopo_draw_key current(draw_key k) {
  if (k.steps != nullptr) k.key.step = k.steps->of[k.steps->at].step;
  return k.key;
}

/* Makes scratch at least `bytes`. Contents are lost when it grows. */
int reserve(fopo_device *d, size_t bytes, const char *what);

/* Makes n counters that kernels count arriving blocks by: `arrivals` of the state. */
int reserve_arrivals(fopo_device *d, size_t n);

/* The emulation keeps a gap behind each array in scratch and watches it; a card has none. */
#ifdef __CUDACC__
constexpr size_t GAP = 0;
inline void begin_gaps(char *, cudaStream_t) {}
inline void add_gap(char *, size_t) {}
#endif

/* Lays out arrays in scratch. Callers go through their arrays twice: with base NULL to count the
 * bytes, then with the reserved scratch to place them. */
struct scratch_layout {
  char *base;
  size_t used;
  template <class T> T *array(size_t n) {
    char *start = base == nullptr ? nullptr : base + used;
    size_t end = used + n * sizeof(T);
    if (base != nullptr && used == 0) begin_gaps(base, nullptr);
    used += (n * sizeof(T) + 255) / 256 * 256 + GAP;
    if (base != nullptr) add_gap(base + end, used - end);
    return reinterpret_cast<T *>(start);
  }
};

inline size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }
inline size_t rounded_up(size_t n, size_t to) { return ceil_div(n, to) * to; }
__host__ __device__ inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* How many blocks share the samples of one context, so that even a small batch fills the card:
 * about four blocks a processor, but none with fewer than `fewest` samples. */
inline size_t splits_of(const state *s, size_t B, size_t samples, size_t fewest) {
  size_t wanted = ceil_div(4 * s->processors, B), most = samples / fewest;
  size_t splits = least(wanted, most);
  return splits < 1 ? 1 : splits;
}

#ifdef __CUDACC__
template <class... P>
void start(void (*kernel)(P...), size_t blocks, unsigned threads, size_t shared,
           cudaStream_t stream, std::type_identity_t<P>... arguments) {
  kernel<<<static_cast<unsigned>(blocks), threads, shared, stream>>>(arguments...);
}

template <class... P>
void start_with(cudaLaunchAttribute attribute, void (*kernel)(P...), size_t blocks,
                unsigned threads, size_t shared, cudaStream_t stream,
                std::type_identity_t<P>... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

/* The kernel may begin before the one in front of it has ended: its first call is await_inputs. */
template <class... P>
void start_early(void (*kernel)(P...), size_t blocks, unsigned threads, size_t shared,
                 cudaStream_t stream, std::type_identity_t<P>... arguments) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  start_with(early, kernel, blocks, threads, shared, stream, arguments...);
}

/* All blocks run at the same time, and may wait for each other. */
template <class... P>
void start_together(void (*kernel)(P...), size_t blocks, unsigned threads, size_t shared,
                    cudaStream_t stream, std::type_identity_t<P>... arguments) {
  cudaLaunchAttribute together = {};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  start_with(together, kernel, blocks, threads, shared, stream, arguments...);
}

/* Lets the next kernel begin, and waits until the one before has ended, whose writes are there
 * then. */
__device__ inline void await_inputs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}

/* The shared memory whose size is an argument of the launch. */
template <class T> __device__ T *dynamic_shared() {
  extern __shared__ __align__(16) unsigned char fopo_dynamic_shared[];
  return reinterpret_cast<T *>(fopo_dynamic_shared);
}
#endif

/* Blocks of a kernel that the card holds at a time; `shared` bytes of each, by its launch. */
template <class... P>
size_t blocks_held(fopo_device *d, void (*kernel)(P...), unsigned threads, size_t shared = 0) {
  int each = 0;
  cudaError_t error =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, (int)threads, shared);
  if (error != cudaSuccess) cudaGetLastError();
  return of(d)->processors * (error == cudaSuccess && each > 0 ? (size_t)each : 1);
}

/* Launches `blocks` blocks of `threads` threads by `how`; 0 blocks launch nothing. */
template <class F, class... P>
int launch_by(F how, fopo_device *d, const char *what, size_t blocks, unsigned threads,
              size_t shared, void (*kernel)(P...), std::type_identity_t<P>... arguments) {
  int status = alive();
  if (status != FOPO_OK || blocks == 0) return status;
  if (blocks > 0x7fffffff) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%s needs %zu blocks of the GPU but %u is the limit; use a smaller batch",
                     what, blocks, 0x7fffffffu);
  }
  timed_work timed(d, what);
  of(d)->launched++;
  how(kernel, blocks, threads, shared, of(d)->stream, arguments...);
  return check(cudaGetLastError(), what);
}
template <class... P>
int launch(fopo_device *d, const char *what, size_t blocks, unsigned threads, size_t shared,
           void (*kernel)(P...), std::type_identity_t<P>... arguments) {
  return launch_by(start<P...>, d, what, blocks, threads, shared, kernel, arguments...);
}
/* Of a kernel whose first call is await_inputs. */
template <class... P>
int launch_early(fopo_device *d, const char *what, size_t blocks, unsigned threads, size_t shared,
                 void (*kernel)(P...), std::type_identity_t<P>... arguments) {
  auto how = of(d)->early ? start_early<P...> : start<P...>;
  return launch_by(how, d, what, blocks, threads, shared, kernel, arguments...);
}

/* C [m, n] = alpha op(A) op(B) + beta C, row-major, op(A) [m, k]. */
int gemm(fopo_device *d, float *C, size_t ldc, float alpha, const float *A, size_t lda,
         int transpose_a, const float *B, size_t ldb, int transpose_b, float beta, size_t m,
         size_t n, size_t k);

/* C [m, n] = A B^T in bfloat16 with sums in float32; A [m, k], B [n, k], both without gaps. */
int gemm_bf16(fopo_device *d, float *C, size_t ldc, const uint16_t *A, const uint16_t *B, size_t m,
              size_t n, size_t k);

/* C[j] [m, n] = A[:, chunk j] B[chunk j, :] for the chunks of the k columns of A and rows of B, the
 * last of which may be shorter; C [chunks, m, ldc]. T: float, or uint16_t, which is bfloat16; sums
 * are in float32. */
template <class T>
int gemm_chunks(fopo_device *d, float *C, size_t ldc, const T *A, size_t lda, const T *B,
                size_t ldb, size_t m, size_t n, size_t k, size_t chunk);

/* ---- the operations of device/ops.def ---- */

#define FOPO_OP(name, who, ...) fopo_##name##_op name;
#include "device/ops.def"
#undef FOPO_OP

/* begin.cu. X [B, D] = from[rows[b]], from [N, ld], of any words of 4 bytes. */
int gather_words(fopo_device *d, float *X, const float *from, size_t ld, const uint32_t *rows,
                 size_t B, size_t D);
/* sums [pieces], in scratch: the sums of squares of the pieces of x. */
int norm2_pieces(fopo_device *d, const double **sums, size_t *pieces, const float *x, size_t n);

/* s of item `id` in context b. */
__device__ inline float sparse_score(const fopo_sparse_scores &s, size_t b, uint32_t id) {
  fopo_score_row row = fopo_score_row_of(&s, b);
  return fopo_score_of(&row, id);
}

/* reward.cu: f [B, S] = the scores of ids [B, S]; -inf from counts[b] on (NULL: none). */
int score_ids(fopo_device *d, float *f, const fopo_rows *items, const uint32_t *ids,
              const uint32_t *counts, size_t S, const fopo_device_batch *batch);

/* estimate.cu: V [B, L] = sum c[b, s] items[ids[b, s]]; scratch holds sum_rows_scratch floats. */
size_t sum_rows_scratch(size_t B, size_t S, size_t L);
/* That scratch, and c [B, S]: e->c, or scratch too if the caller does not want it. */
int reserve_sums(fopo_device *d, float **scratch, float **c, const fopo_estimate *e,
                 const fopo_device_batch *batch);
int sum_rows(fopo_device *d, float *V, float *scratch, const fopo_rows *items, const uint32_t *ids,
             const float *c, size_t B, size_t S, size_t L);

/* graph.cu */
constexpr size_t STEPS_A_GRAPH = 8;
step_numbers step_numbers_of(const fopo_adam *o);
void drop_graph(fopo_device *d);

/* persistent.cu: one kernel for many steps, in the place of a graph. begin_notes before a step is
 * recorded; make_persistent after it, which may find that the kernel cannot do this step. */
int begin_notes(fopo_device *d);
int make_persistent(fopo_device *d);
bool is_persistent(const fopo_device *d);
void drop_persistent(fopo_device *d);
int run_persistent(fopo_device *d, size_t n); /* n steps of the table */

} // namespace gpu

#include "device/cuda/block.cuh"

#endif
