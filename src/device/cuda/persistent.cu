/* Many small steps by one kernel, whose blocks stay: an experiment, off until a card has measured
 * it. FOPO_GPU_PERSISTENT=1 or 2 switches it on and is how many rows a team has on their way; unset
 * or 0, steps are launched as a graph (graph.cu).
 *
 * Each block holds theta in shared memory, and each of the first ones Adam's moments of a tile of
 * theta. A step is
 *
 *   its part of the samples  queries from theta; sums over its samples; the last block of a context
 *                            to arrive writes the context's V
 *   a barrier of all blocks  while a block waits, it makes the draws of the next step, which depend
 *                            on no theta, and asks for their rows to be brought into the L2 cache
 *   gradient and update      the tiles of G = scale X^T V, their squares, and theta moved by them;
 *                            the last block, which mostly has no tile, adds up the statistics
 *   a barrier                and another in front of the update if the gradient may be clipped
 *   the new theta            with its norm, by which each block knows whether it is finite
 *
 * A step is what the operations of a recorded step have noted: start_batch with queries, an
 * estimate of uniform draws or of a shared head and its tail, outer_totals and adam, and nothing
 * else. A head is listed among the samples, with logq = 0. Sums have the order of the graph's
 * kernels, and so the same bits if as many blocks share a context; of a head they are other sums.
 * What does not fit the card, or is not such a step, is left to the graph. */
#include <cmath>
#include <cstdlib>

#include "device/cuda/small_step.cuh"
#include "device/cuda/snis_block.cuh"

namespace gpu {

/* ---- the kernel's arguments ---- */

/* Where a block's arrays begin in its shared memory, in bytes. */
struct block_places {
  size_t theta;         /* [D, L] */
  size_t X[2], rows[2]; /* [B, D], [B]: of this step and the next, by turns */
  size_t V;             /* [B, SIDE] of a tile's columns */
  size_t m, v;          /* [EACH_OF_TILE, THREADS] of a tile */
  size_t q;             /* [L] of the context at hand */
  size_t samples;       /* [own, chunk] ids, log q and rewards of all its parts */
  size_t work;          /* add_chunk's and finish_context's */
  size_t bytes;
};

struct persistent_arguments {
  fopo_batch_start start;
  snis_arguments estimate;
  outer_arguments outer;
  adam_arguments adam;
  block_places at;
  float *theta; /* [D, L] moved, of which each block takes a copy */
  unsigned tiles;
  step_table *steps;
  size_t n;
};

template <class T> __device__ inline T *shared_at(size_t offset) {
  return reinterpret_cast<T *>(dynamic_shared<char>() + offset);
}

/* ---- the parts of a step ---- */

/* The part of the samples that a block takes as its j-th, which is part `at` of B * splits. */
__device__ inline chunk_place part_of(const snis_arguments &e, size_t at, const uint32_t *rows) {
  size_t b = at / e.splits, begin = at % e.splits * e.chunk;
  return {at, b, begin, least(e.chunk, e.S - begin), rows[b], least_reward(e.from.reward, rows[b])};
}

/* Contexts and draws of a step, by all threads. Nothing of them depends on theta. */
template <class T>
__device__ inline void prepare_step(const persistent_arguments &a, const step_numbers &now,
                                    unsigned turn) {
  const snis_arguments &e = a.estimate;
  const fopo_batch_start &s = a.start;
  size_t B = s.X.rows, D = s.X.cols;
  uint32_t *rows = shared_at<uint32_t>(a.at.rows[turn]);
  float *X = shared_at<float>(a.at.X[turn]);
  for (size_t b = threadIdx.x; b < B; b += blockDim.x) rows[b] = s.order[now.first + b];
  __syncthreads();
  for (size_t i = threadIdx.x; i < B * D; i += blockDim.x) {
    X[i] = s.contexts.x[rows[i / D] * s.contexts.ld + i % D];
  }
  char *samples = shared_at<char>(a.at.samples);
  for (size_t at = blockIdx.x; at < B * e.splits; at += gridDim.x, samples += e.chunk * 12) {
    chunk_place k = part_of(e, at, rows);
    draw_samples(e.from, {e.from.key.key.seed, now.step}, k.row, samples, e.chunk, k.b, e.S,
                 k.begin, k.begin + k.n);
    const uint32_t *ids = drawn_at(samples, e.chunk).ids;
    for (size_t i = threadIdx.x; i < k.n; i += blockDim.x) {
      prefetch_row(static_cast<const T *>(e.items) + ids[i] * e.ld,
                   (unsigned)(e.L * sizeof(T) + 15) / 16 * 16);
    }
  }
}

/* The estimates of the contexts that have parts in this block. */
template <class T, int BYTES, int LANES, int PER, int FLIGHT>
__device__ inline void estimate_step(const persistent_arguments &a, unsigned turn) {
  const snis_arguments &e = a.estimate;
  size_t B = a.start.X.rows, D = a.start.X.cols, L = e.L;
  const uint32_t *rows = shared_at<uint32_t>(a.at.rows[turn]);
  const float *theta = shared_at<float>(a.at.theta), *X = shared_at<float>(a.at.X[turn]);
  float *q = shared_at<float>(a.at.q), *work = shared_at<float>(a.at.work);
  char *samples = shared_at<char>(a.at.samples);
  for (size_t at = blockIdx.x; at < B * e.splits; at += gridDim.x, samples += e.chunk * 12) {
    chunk_place k = part_of(e, at, rows);
    __syncthreads(); /* theta and X are there, and the query of the part before is used */
    for (size_t c = threadIdx.x; c < L; c += blockDim.x) {
      float sum = 0.0f;
      for (size_t i = 0; i < D; i++) sum += X[k.b * D + i] * theta[i * L + c];
      q[c] = a.start.scale * sum;
    }
    __syncthreads();
    add_chunk<T, BYTES, LANES, PER, FLIGHT, true>(e, k, q, drawn_at(samples, e.chunk), work);
    if (arrives_last(e.arrivals + k.b, e.splits)) {
      finish_context(e, e.V, e.stats, k.b, reinterpret_cast<double *>(work));
    }
  }
}

/* A thread's numbers of the block's tile of theta: where the first is, their gradient, and their
 * moments once they are moved. */
struct tile {
  size_t row, column;
  float g[EACH_OF_TILE], m[EACH_OF_TILE], v[EACH_OF_TILE];
};

/* The block's tile of the gradient, by all threads, and the sum of its squares. */
__device__ inline void add_tile(const persistent_arguments &a, tile &own, unsigned turn) {
  size_t B = a.start.X.rows, D = a.start.X.cols, L = a.estimate.L;
  float *V = shared_at<float>(a.at.V);
  unsigned at[EACH_OF_TILE]; /* beyond the last it is the last, which is not used */
#pragma unroll
  for (unsigned k = 0; k < EACH_OF_TILE; k++) {
    at[k] = (unsigned)least(own.row + k * (THREADS / SIDE), D - 1);
    own.g[k] = 0.0f;
  }
  for (size_t b = threadIdx.x / SIDE; b < B; b += THREADS / SIDE) {
    V[b * SIDE + threadIdx.x % SIDE] = own.column < L ? a.estimate.V[b * L + own.column] : 0.0f;
  }
  __syncthreads();
  add_outer(own.g, shared_at<float>(a.at.X[turn]), D, at, V + threadIdx.x % SIDE, SIDE,
            (unsigned)B);
  double squares = 0;
  each_of_tile(own.row, own.column, D, L, [&](unsigned k, size_t) {
    own.g[k] *= a.outer.scale;
    squares += (double)own.g[k] * (double)own.g[k];
  });
  squares = block_sum(squares);
  if (threadIdx.x == 0) a.outer.pieces[blockIdx.x] = squares;
}

/* The norm of the gradient from the squares of all tiles, in each thread. */
__device__ inline double norm_of_tiles(const persistent_arguments &a) {
  double squares = 0;
  for (size_t i = threadIdx.x; i < a.tiles; i += blockDim.x) squares += a.outer.pieces[i];
  return sqrt(block_sum(squares));
}

/* ---- the kernel ---- */

template <class T, int BYTES, int LANES, int PER, int FLIGHT>
__global__ void __launch_bounds__(THREADS, 1)
    persistent_kernel(const __grid_constant__ persistent_arguments a) {
  size_t n = a.adam.n, D = a.start.X.cols, L = a.estimate.L;
  float *theta = shared_at<float>(a.at.theta);
  bool has_tile = blockIdx.x < a.tiles, is_last = blockIdx.x == gridDim.x - 1;
  uint32_t arrivals = 0;
  if (halted(a.outer.t)) return;
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) theta[i] = a.adam.theta[i];
  float *m = shared_at<float>(a.at.m) + threadIdx.x, *v = shared_at<float>(a.at.v) + threadIdx.x;
  tile own = {blockIdx.x / a.outer.across * SIDE + threadIdx.x / SIDE,
              blockIdx.x % a.outer.across * SIDE + threadIdx.x % SIDE,
              {},
              {},
              {}};
  if (has_tile) {
    each_of_tile(own.row, own.column, D, L, [&](unsigned k, size_t i) {
      m[k * THREADS] = a.adam.m[i], v[k * THREADS] = a.adam.v[i];
    });
  }
  prepare_step<T>(a, a.steps->of[0], 0);
  for (size_t step = 0; step < a.n; step++) {
    unsigned turn = step % 2;
    const step_numbers &now = a.steps->of[step];
    estimate_step<T, BYTES, LANES, PER, FLIGHT>(a, turn);
    arrive(&a.steps->arrived);
    if (step + 1 < a.n) prepare_step<T>(a, a.steps->of[step + 1], 1 - turn);
    wait_for(&a.steps->arrived, arrivals += gridDim.x);

    /* the gradient, and the theta that follows if it is finite */
    update o = a.adam.o;
    o.lr = now.lr, o.keep = now.keep, o.scale = 1.0f;
    if (has_tile) add_tile(a, own, turn);
    if (is_last) add_up_batch(a.estimate.batch, a.estimate.stats);
    if (o.u.clip > 0.0) {
      arrive(&a.steps->arrived);
      wait_for(&a.steps->arrived, arrivals += gridDim.x);
      o.scale = fopo_update_scale(&o.u, norm_of_tiles(a));
    }
    if (has_tile) {
      each_of_tile(own.row, own.column, D, L, [&](unsigned k, size_t i) {
        float x = theta[i];
        own.m[k] = m[k * THREADS], own.v[k] = v[k * THREADS];
        move_by_adam(&x, own.m + k, own.v + k, own.g[k], a.adam, o, now.unbias);
        a.theta[i] = x;
      });
    }
    arrive(&a.steps->arrived);
    wait_for(&a.steps->arrived, arrivals += gridDim.x);
    double norm = norm_of_tiles(a);
    if (is_last && threadIdx.x == 0) add_step(a.outer.t, a.outer.sums, norm);
    if (!isfinite(norm)) break;
    if (has_tile) {
      each_of_tile(own.row, own.column, D, L, [&](unsigned k, size_t) {
        m[k * THREADS] = own.m[k], v[k * THREADS] = own.v[k];
      });
    }
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) theta[i] = a.theta[i];
  }
  if (!has_tile) return;
  __syncthreads();
  each_of_tile(own.row, own.column, D, L, [&](unsigned k, size_t i) {
    a.adam.theta[i] = theta[i], a.adam.m[i] = m[k * THREADS], a.adam.v[i] = v[k * THREADS];
  });
}

/* ---- the host's side ---- */

struct persistent {
  int flight;     /* rows on their way */
  size_t covered; /* launches that the notes stand for */
  size_t before;  /* launches when they began */
  int n_notes;
  fopo_batch_start start;
  noted_estimate estimate;
  outer_arguments outer;
  adam_arguments adam;

  void (*kernel)(persistent_arguments); /* NULL: the graph is launched */
  persistent_arguments arguments;
  size_t blocks;
  void *memory; /* device, owned */
};

static persistent *of_notes(fopo_device *d) {
  return of(d)->recording ? of(d)->persistent : nullptr;
}

template <class N> static void add_note(fopo_device *d, size_t before, N persistent::*to, N what) {
  persistent *p = of_notes(d);
  if (p == nullptr) return;
  p->*to = what;
  p->covered += of(d)->launched - before;
  p->n_notes++;
}

void note(fopo_device *d, size_t before, const fopo_batch_start &start) {
  add_note(d, before, &persistent::start, start);
}
void note(fopo_device *d, size_t before, const noted_estimate &estimate) {
  add_note(d, before, &persistent::estimate, estimate);
}
void note(fopo_device *d, size_t before, const outer_arguments &outer) {
  add_note(d, before, &persistent::outer, outer);
}
void note(fopo_device *d, size_t before, const adam_arguments &adam) {
  add_note(d, before, &persistent::adam, adam);
}

/* Read each time, as FOPO_RECORD is. */
int begin_notes(fopo_device *d) {
  const char *wanted = getenv("FOPO_GPU_PERSISTENT");
  int flight = wanted != nullptr ? atoi(wanted) : 0;
  state *s = of(d);
  if ((flight == 1 || flight == 2) && s->together && s->persistent == nullptr) {
    s->persistent = static_cast<persistent *>(fopo_alloc(1, sizeof *s->persistent));
    if (s->persistent == nullptr) return FOPO_ERR_MEMORY;
  }
  if (s->persistent == nullptr) return FOPO_OK;
  *s->persistent = {};
  s->persistent->flight = flight;
  s->persistent->before = s->launched;
  return FOPO_OK;
}

/* Whether the notes are those of one step that the kernel can do: each operation once, with what
 * the one before has left, and nothing else launched. */
static bool is_whole(const fopo_device *d, const persistent *p) {
  const noted_estimate &e = p->estimate;
  const fopo_batch_start &s = p->start;
  const uint32_t *rows = e.from.rows, *sparse = e.batch.sparse.rows;
  const state *about = static_cast<const state *>(d->state);
  return p->n_notes == 4 && p->covered == about->launched - p->before &&
         (e.from.kind == UNIFORM || (e.from.kind == OTHERS && about->has_bf16)) &&
         s.order != nullptr && s.skipped == 0 && s.rows == rows && s.Q.x == e.batch.Q &&
         (sparse == nullptr || sparse == rows) && p->outer.X.x == s.X.x && p->outer.V.x == e.e.V &&
         p->outer.sums == e.e.batch && e.about.sums == e.e.batch && p->outer.G == p->adam.G &&
         p->adam.theta == s.theta && p->adam.n == s.X.cols * e.batch.L &&
         p->adam.o.u.totals == p->outer.t;
}

/* NULL: there is none. Rows of 33 to 128 numbers, in float32 or bfloat16, that are read 16 bytes
 * at a time, are those of large catalogues; each more kind is one more kernel to compile. */
static auto kernel_of(const fopo_rows *items, size_t L, int flight, size_t *teams, size_t *width) {
  return by_rows(items, L, [=]<class T, int BYTES, int LANES, int PER>() {
    void (*kernel)(persistent_arguments) = nullptr;
    *teams = THREADS / LANES, *width = LANES * PER;
    if constexpr (LANES == 8 && BYTES == 16 && !std::is_same_v<T, fp16>) {
      kernel = flight == 2 ? persistent_kernel<T, BYTES, LANES, PER, 2>
                           : persistent_kernel<T, BYTES, LANES, PER, 1>;
    }
    return kernel;
  });
}

static size_t place_in_block(size_t *used, size_t bytes) {
  size_t at = *used;
  *used += rounded_up(bytes, 16);
  return at;
}

static block_places places_of(const snis_arguments &e, size_t B, size_t D, size_t own,
                              size_t width) {
  block_places x = {};
  size_t *used = &x.bytes;
  size_t work = THREADS / WARP * width * sizeof(float), factors = e.splits * sizeof(double);
  x.theta = place_in_block(used, D * e.L * sizeof(float));
  for (int turn = 0; turn < 2; turn++) {
    x.X[turn] = place_in_block(used, B * D * sizeof(float));
    x.rows[turn] = place_in_block(used, B * sizeof(uint32_t));
  }
  x.V = place_in_block(used, B * SIDE * sizeof(float));
  x.m = place_in_block(used, SIDE * SIDE * sizeof(float));
  x.v = place_in_block(used, SIDE * SIDE * sizeof(float));
  x.q = place_in_block(used, e.L * sizeof(float));
  x.samples = place_in_block(used, own * e.chunk * 12);
  x.work = place_in_block(used, work > factors ? work : factors);
  return x;
}

/* Whether the card holds the kernel's blocks, one a processor, all at a time. */
static bool fits(persistent *p) {
  int each = 0;
  const size_t bytes = p->arguments.at.bytes;
  cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void *>(p->kernel),
                                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           (int)(bytes > SHARED_MOST ? bytes : SHARED_MOST));
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, p->kernel, (int)THREADS, bytes);
  }
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess && each > 0;
}

/* Places the arrays of the kernel in device memory. */
static int reserve_arrays(fopo_device *d, persistent *p) {
  persistent_arguments &a = p->arguments;
  snis_arguments &e = a.estimate;
  size_t B = a.start.X.rows, L = e.L, parts = B * e.splits;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {static_cast<char *>(p->memory), 0};
    e.arrivals = memory.array<unsigned>(B);
    e.partial = memory.array<sums>(parts);
    e.u = memory.array<float>(parts * L);
    e.v = memory.array<float>(parts * L);
    a.theta = memory.array<float>(a.adam.n);
    a.outer.pieces = memory.array<double>(a.tiles);
    int status = placed ? FOPO_OK : check(cudaMalloc(&p->memory, memory.used), "the sums of steps");
    if (status != FOPO_OK) return status;
  }
  return check(cudaMemsetAsync(e.arrivals, 0, B * sizeof *e.arrivals, of(d)->stream),
               "the sums of steps");
}

int make_persistent(fopo_device *d) {
  persistent *p = of(d)->persistent;
  if (p == nullptr || p->flight == 0 || !is_whole(d, p)) return FOPO_OK;
  const noted_estimate &noted = p->estimate;
  size_t B = p->start.X.rows, S = noted.batch.S, L = noted.batch.L, teams, width;
  p->kernel = kernel_of(&noted.items, L, p->flight, &teams, &width);
  if (p->kernel == nullptr) return FOPO_OK;
  persistent_arguments &a = p->arguments;
  snis_arguments &e = a.estimate;
  a.start = p->start, a.outer = p->outer, a.adam = p->adam, a.steps = of(d)->steps;
  e.chunk = chunk_of(S, splits_in_waves(of(d)->processors, B, S, teams));
  e.splits = (unsigned)ceil_div(S, e.chunk);
  e.V = noted.e.V, e.stats = noted.e.stats;
  e.objective = noted.e.objective, e.sparse = fopo_batch_scores(&noted.batch);
  e.items = noted.items.x, e.ld = noted.items.ld, e.floor = noted.floor;
  e.S = S, e.L = L, e.from = noted.from, e.batch = noted.about, e.rounded = noted.rounded;
  p->blocks = least(of(d)->processors, B * e.splits);
  a.tiles = (unsigned)ceil_div(p->start.X.cols, SIDE) * a.outer.across;
  a.at = places_of(e, B, p->start.X.cols, ceil_div(B * e.splits, p->blocks), width);
  int status = a.tiles <= p->blocks && fits(p) ? reserve_arrays(d, p) : FOPO_OK;
  if (p->memory == nullptr) p->kernel = nullptr;
  return status;
}

bool is_persistent(const fopo_device *d) {
  const persistent *p = static_cast<const state *>(d->state)->persistent;
  return p != nullptr && p->kernel != nullptr;
}

void drop_persistent(fopo_device *d) {
  persistent *p = of(d)->persistent;
  if (p == nullptr) return;
  cudaFree(p->memory); /* waits for the kernel */
  p->memory = nullptr;
  p->kernel = nullptr;
}

int run_persistent(fopo_device *d, size_t n) {
  persistent *p = of(d)->persistent;
  p->arguments.n = n;
  return launch_by(start_together<persistent_arguments>, d, "steps of one kernel", p->blocks,
                   THREADS, p->arguments.at.bytes, p->kernel, p->arguments);
}

} // namespace gpu
