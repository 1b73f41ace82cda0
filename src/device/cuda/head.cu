/* A head that all contexts share, on the GPU: two products by cuBLAS with the exponentials between
 * them, and the draws of the other items row by row.
 *
 * A context's head is cut into chunks. A block takes the scores of one chunk, writes their
 * exponentials, relative to the chunk's largest score, over them, and keeps the sums. The product
 * back is made for each chunk by itself, so that even a small batch has work for the whole card;
 * the last kernel scales chunks and tail to one shift and adds them in their order. So a step is
 * two products and three or four kernels, and no score is read from memory twice.
 *
 * Rows in bfloat16 stay so where the card multiplies them, with sums in float32. The other operand,
 * queries and weights, is split into two bfloat16 parts, x = high + low, which stand below each
 * other as 2 B rows of one product. Rounding to one part would change x by up to 2^-8 of itself,
 * and so a score of size 100 by up to 0.4 and a weight by as much; two parts leave 2^-16, less than
 * 1/100 of what the rounding of the rows has changed already. The weights are defined by their two
 * parts, in every sum, so that what is rounded off a weight is nowhere counted. */
#include <cmath>

#include "device/cuda/small_step.cuh"
#include "device/cuda/snis.cuh"

namespace gpu {

/* ---- the shape of the work, and its arrays ---- */

constexpr size_t EACH = 16;         /* scores that a thread holds */
constexpr size_t CHUNK_LEAST = 256; /* scores of a block */
constexpr size_t CHUNK_STEP = 64;   /* which tensor cores take at a time */
constexpr size_t PACK = 4;          /* scores of one load */

/* Sums over a chunk, relative to exp(shift), its largest score. */
struct chunk_sums {
  float shift;
  double w, ww;
};

/* Weights and their products have B rows in float32, and 2 B rows in bfloat16: the high parts, then
 * the low ones. */
struct head_work {
  size_t B, H, L;
  size_t chunk, chunks; /* items of a chunk; chunks of a context */
  size_t stride;        /* of a row of scores and of weights: H, rounded up */
  size_t ld;            /* of a row of the head, and of what is multiplied with it */
  size_t parts;         /* 1, or 2 in bfloat16 */
  uint16_t *q;          /* [2 B, ld] in bfloat16 */
  float *f;             /* [parts B, stride] scores; in float32 also the weights */
  uint16_t *w;          /* [2 B, stride] the weights in bfloat16 */
  chunk_sums *sums;     /* [B, chunks] */
  float *means;         /* [chunks, parts B, ld] sum w beta over a chunk */
  sample_sums tail;
};

static head_work shape(fopo_device *d, const fopo_shared_head *head,
                       const fopo_device_batch *batch) {
  head_work k = {};
  k.B = batch->B;
  k.H = head->H;
  k.L = batch->L;
  k.ld = head->rows.ld;
  k.parts = head->rows.type == FOPO_BFLOAT16 ? 2 : 1;
  k.stride = rounded_up(k.H, FOPO_ROWS_PAD);
  size_t wanted = splits_of(of(d), k.B, k.H, CHUNK_LEAST);
  k.chunk = least(rounded_up(ceil_div(k.H, wanted), CHUNK_STEP), EACH * THREADS);
  k.chunks = ceil_div(k.H, k.chunk);
  return k;
}

static int place(fopo_device *d, head_work *k, const fopo_rows *items, size_t S) {
  bool halves = k->parts == 2;
  for (int placed = 0; placed < 2; placed++) {
    scratch_layout memory = {placed ? of(d)->scratch : nullptr, 0};
    k->q = memory.array<uint16_t>(halves ? 2 * k->B * k->ld : 0);
    k->f = memory.array<float>(k->parts * k->B * k->stride);
    k->w = memory.array<uint16_t>(halves ? 2 * k->B * k->stride : 0);
    k->sums = memory.array<chunk_sums>(k->B * k->chunks);
    k->means = memory.array<float>(k->chunks * k->parts * k->B * k->ld);
    place_sums(d, &k->tail, &memory, items, k->B, S, k->L);
    int status = placed ? FOPO_OK : reserve(d, memory.used, "the sums of a shared head");
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* ---- numbers in two parts ---- */

struct two {
  uint16_t high, low; /* bfloat16 */
};

__device__ inline two split(float x) {
  two t = {to_bf16(x), 0};
  t.low = to_bf16(x - to_float(bf16{t.high})); /* the difference is exact */
  return t;
}

/* Exact, of the parts of a split. */
__device__ inline float joined(two t) { return to_float(bf16{t.high}) + to_float(bf16{t.low}); }

/* q [2 B, ld] = the parts of Q [B, L], with zeros behind; n = B ld. */
__global__ void split_kernel(uint16_t *q, const float *Q, size_t L, size_t ld, size_t n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  two t = split(i % ld < L ? Q[i / ld * L + i % ld] : 0.0f);
  q[i] = t.high;
  q[n + i] = t.low;
}

/* ---- weights ---- */

struct four {
  float x[PACK];
};

__device__ inline four load_four(const float *p) {
  float4 x = *reinterpret_cast<const float4 *>(p);
  return {{x.x, x.y, x.z, x.w}};
}

/* Writes four weights, and makes them what was written. */
template <int PARTS> __device__ inline void store_four(const head_work &k, size_t at, four &w) {
  if constexpr (PARTS == 1) {
    *reinterpret_cast<float4 *>(k.f + at) = {w.x[0], w.x[1], w.x[2], w.x[3]};
  } else {
    two t[PACK];
#pragma unroll
    for (size_t j = 0; j < PACK; j++) {
      t[j] = split(w.x[j]);
      w.x[j] = joined(t[j]);
    }
    uint2 high = {t[0].high | (uint32_t)t[1].high << 16, t[2].high | (uint32_t)t[3].high << 16};
    uint2 low = {t[0].low | (uint32_t)t[1].low << 16, t[2].low | (uint32_t)t[3].low << 16};
    *reinterpret_cast<uint2 *>(k.w + at) = high;
    *reinterpret_cast<uint2 *>(k.w + k.B * k.stride + at) = low;
  }
}

/* A block a context: adds the sparse part to its scores of the head, in bfloat16 to their high
 * parts. */
__global__ void head_sparse_kernel(head_work k, fopo_sparse_scores sparse, const uint32_t *place) {
  size_t b = blockIdx.x;
  fopo_score_row row = fopo_score_row_of(&sparse, b);
  for (size_t i = threadIdx.x; i < row.n; i += blockDim.x) {
    size_t at = place[row.ids[i]];
    if (at >= k.H) continue;
    float *f = k.f + b * k.stride + at;
    *f = fopo_score_sum(*f, fopo_score_entry(&row, i));
  }
}

/* A block a chunk of a context: reads its scores once, writes their weights. Rows begin at 16 bytes
 * and end, rounded up, behind their last item, so four are always there. */
template <int PARTS> __global__ void chunk_kernel(head_work k) {
  size_t c = blockIdx.x % k.chunks, first = c * k.chunk, n = least(k.chunk, k.H - first);
  size_t row = blockIdx.x / k.chunks * k.stride + first;
  four x[EACH / PACK];
  float most = -INFINITY;
  /* the chunk's scores, EACH a thread, and the largest of them */
#pragma unroll
  for (size_t e = 0; e < EACH / PACK; e++) {
    size_t at = (e * blockDim.x + threadIdx.x) * PACK;
    if (at >= n) continue;
    x[e] = load_four(k.f + row + at);
    four low = PARTS == 2 ? load_four(k.f + k.B * k.stride + row + at) : four{};
#pragma unroll
    for (size_t j = 0; j < PACK; j++) {
      x[e].x[j] = at + j < n ? x[e].x[j] + low.x[j] : -INFINITY;
      most = larger(most, x[e].x[j]);
    }
  }
  float shift = block_max(most), base = shift == -INFINITY ? 0.0f : shift; /* all masked: w = 0 */
  double w = 0, ww = 0;
  /* their exponentials, which go where the scores were, and the sums of those */
#pragma unroll
  for (size_t e = 0; e < EACH / PACK; e++) {
    size_t at = (e * blockDim.x + threadIdx.x) * PACK;
    if (at >= n) continue;
#pragma unroll
    for (size_t j = 0; j < PACK; j++) x[e].x[j] = expf(x[e].x[j] - base); /* behind the end: 0 */
    store_four<PARTS>(k, row + at, x[e]);
#pragma unroll
    for (size_t j = 0; j < PACK; j++) {
      w += (double)x[e].x[j];
      ww += (double)x[e].x[j] * (double)x[e].x[j];
    }
  }
  double both[] = {w, ww};
  block_sums(both);
  if (threadIdx.x == 0) k.sums[blockIdx.x] = {shift, both[0], both[1]};
}

static int weigh(fopo_device *d, const head_work &k, const fopo_shared_head *head,
                 const fopo_device_batch *batch) {
  unsigned threads = (unsigned)least(rounded_up(k.chunk / PACK, WARP), THREADS);
  if (batch->sparse.indptr != nullptr) {
    int status = launch(d, "the sparse scores", k.B, THREADS, 0, head_sparse_kernel, k,
                        fopo_batch_scores(batch), head->place);
    if (status != FOPO_OK) return status;
  }
  return launch(d, "the weights of a head", k.B * k.chunks, threads, 0,
                k.parts == 2 ? chunk_kernel<2> : chunk_kernel<1>, k);
}

/* ---- the estimate ---- */

/* What the last kernel knows of the rewards. */
struct sparse {
  sparse_reward of;
  const uint32_t *place; /* [P] */
  const uint32_t *rows;  /* [B] */
};

struct rewarded {
  uint32_t place;
  float reward;
};

/* How many items of a context may earn something, inside the head or not. */
__device__ inline size_t count_rewarded(const sparse_reward &s, uint32_t row) {
  size_t hits = s.indptr != nullptr ? s.indptr[row + 1] - s.indptr[row] : 0;
  return hits + (s.credit.action != nullptr ? 1 : 0);
}

/* The j-th of them: first the hits, then the action of the log. */
__device__ inline rewarded find_rewarded(const sparse &x, uint32_t row, size_t j) {
  const sparse_reward &s = x.of;
  size_t first = s.indptr != nullptr ? s.indptr[row] : 0;
  if (s.indptr != nullptr && j < s.indptr[row + 1] - first) {
    uint32_t id = s.y[first + j];
    return {x.place[id], fopo_hit_value(s.value, id)};
  }
  return {x.place[s.credit.action[row]], credit_of(s.credit, row)};
}

__device__ inline float weight_at(const head_work &k, size_t b, size_t place) {
  size_t at = b * k.stride + place;
  return k.parts == 1 ? k.f[at] : joined({k.w[at], k.w[k.B * k.stride + at]});
}

/* The scalars of a context, relative to exp(shift). */
struct context_sums {
  float shift;
  double head, tail, ww, earned; /* sum w of either; sum w^2; sum w r of the tail */
};

/* factor [chunks + splits] = what scales each chunk, then each split of the tail, to one shift. */
__device__ inline context_sums join(float *factor, const head_work &k, size_t b) {
  const chunk_sums *head = k.sums + b * k.chunks;
  const sums *tail = k.tail.partial + b * k.tail.splits;
  float most = -INFINITY;
  for (size_t i = threadIdx.x; i < k.chunks; i += blockDim.x) most = larger(most, head[i].shift);
  for (size_t i = threadIdx.x; i < k.tail.splits; i += blockDim.x) {
    most = larger(most, tail[i].shift);
  }
  float shift = block_max(most);
  context_sums t = {};
  for (size_t i = threadIdx.x; i < k.chunks; i += blockDim.x) {
    double scale = (double)(factor[i] = shift_factor(head[i].shift, shift));
    t.head += scale * head[i].w;
    t.ww += scale * scale * head[i].ww;
  }
  for (size_t i = threadIdx.x; i < k.tail.splits; i += blockDim.x) {
    double scale = (double)(factor[k.chunks + i] = shift_factor(tail[i].shift, shift));
    t.tail += scale * tail[i].w;
    t.ww += scale * scale * tail[i].ww;
    t.earned += scale * (tail[i].wd + (double)tail[i].low * tail[i].w);
  }
  double x4[] = {t.head, t.tail, t.ww, t.earned};
  block_sums(x4);
  return {shift, x4[0], x4[1], x4[2], x4[3]};
}

/* How the work of the last kernel is shared out. Each context has `pieces` blocks, which share the
 * L numbers of a row: `width` threads, a power of two, take a number each, and such groups share
 * the chunks, splits and rewarded items. */
struct sharing {
  unsigned width, pieces;
};

struct finish_arguments {
  fopo_estimate e;
  head_work k;
  sparse rewards;
  sharing by;
  unsigned *arrivals;
  batch_stats about;
};

/* The statistics of a context, from its sums and their total W. */
__device__ inline void write_head_stats(float *stats, const context_sums &t,
                                        const fopo_objective_rule &rule) {
  double W = t.head + t.tail;
  stats[FOPO_STAT_REWARD] = W == 0 ? 0.0f : (float)rule.value;
  stats[FOPO_STAT_ESS] = W == 0 ? 0.0f : (float)(W * W / t.ww);
  stats[FOPO_STAT_MAX_WEIGHT] = W == 0 ? 0.0f : (float)(1 / W);
  stats[FOPO_STAT_HEAD_MASS] = W == 0 ? 0.0f : (float)(t.head / W);
}

/* V = gamma (sum w r beta - rbar sum w beta) / W + alpha sum w beta / W; head [H, ld] are the rows
 * of the head. The last block of all adds up the statistics. */
template <class T>
__global__ void head_finish_kernel(const __grid_constant__ finish_arguments a, const T *head) {
  __shared__ uint32_t places[THREADS]; /* of the rewarded items at hand, and their w r */
  __shared__ float c[THREADS];
  __shared__ double of_w[THREADS], of_wr[THREADS];
  float *factor = dynamic_shared<float>(); /* [chunks + splits] */
  const head_work &k = a.k;
  unsigned width = a.by.width, pieces = a.by.pieces;
  size_t b = blockIdx.x / pieces, i = blockIdx.x % pieces * width + threadIdx.x % width;
  unsigned group = threadIdx.x / width, groups = THREADS / width;
  bool active = i < k.L;

  /* the scalars of the context, and what scales each chunk and split to one shift */
  context_sums t = join(factor, k, b);
  double w = 0, wr = 0, earned = 0; /* of number i: sum w beta, sum w r beta; of all: sum w r */

  /* number i of the head's sum w beta: the group's share of means [chunks, parts B, ld] */
  for (size_t j = group; active && j < k.chunks; j += groups) {
    const float *mean = k.means + (j * k.parts * k.B + b) * k.ld + i;
    float sum = mean[0] + (k.parts == 2 ? mean[k.B * k.ld] : 0.0f);
    w += (double)factor[j] * (double)sum;
  }

  /* number i of the tail's two sums: the group's share of u, v [B, splits, L] */
  for (size_t j = group; active && j < k.tail.splits; j += groups) {
    size_t at = b * k.tail.splits + j;
    double scale = (double)factor[k.chunks + j], u = (double)k.tail.u[at * k.L + i];
    w += scale * u;
    wr += scale * ((double)k.tail.v[at * k.L + i] + (double)k.tail.partial[at].low * u);
  }

  /* the rewarded items of the head, THREADS at a time: the block lists them in shared memory, then
   * each group adds w r beta of its share */
  uint32_t row = a.rewards.rows[b];
  size_t count = count_rewarded(a.rewards.of, row);
  for (size_t first = 0; first < count; first += THREADS) {
    size_t j = first + threadIdx.x;
    rewarded item = j < count ? find_rewarded(a.rewards, row, j) : rewarded{UINT32_MAX, 0.0f};
    bool inside = item.place < k.H;
    double listed;
    size_t at = (size_t)block_scan(inside ? 1.0 : 0.0, &listed); /* all have read the last list */
    if (inside) {
      places[at] = item.place;
      c[at] = factor[item.place / k.chunk] * weight_at(k, b, item.place) * item.reward;
      earned += (double)c[at];
    }
    __syncthreads();
    for (size_t n = group; active && n < (size_t)listed; n += groups) {
      wr += (double)c[n] * (double)to_float(head[places[n] * k.ld + i]);
    }
  }

  /* the groups' sums of number i, joined by the first group, which writes V */
  double W = t.head + t.tail, rbar = (t.earned + block_sum(earned)) / W;
  fopo_objective_rule rule = fopo_objective_rule_of(a.e.objective, rbar, (double)t.shift, W);
  of_w[threadIdx.x] = w;
  of_wr[threadIdx.x] = wr;
  __syncthreads();
  if (group == 0 && active) {
    for (unsigned g = 1; g < groups; g++) {
      w += of_w[g * width + threadIdx.x];
      wr += of_wr[g * width + threadIdx.x];
    }
    double direction = fopo_objective_direction(&rule, wr, rbar, w, W);
    a.e.V[b * k.L + i] = W == 0 ? 0.0f : (float)direction;
  }
  if (threadIdx.x == 0 && blockIdx.x % pieces == 0) {
    write_head_stats(a.e.stats + b * FOPO_STATS, t, rule);
  }
  if (a.about.sums == nullptr || !arrives_last(a.arrivals, gridDim.x)) return;
  add_up_batch(a.about, a.e.stats);
}

template <class T>
static int finish(fopo_device *d, const fopo_estimate *e, const head_work &k,
                  const fopo_shared_head *head, const sparse &rewards, const batch_stats &about) {
  sharing by = {1, 0};
  while (by.width < k.L && by.width < THREADS) by.width *= 2;
  by.pieces = (unsigned)ceil_div(k.L, by.width);
  size_t factors = (k.chunks + k.tail.splits) * sizeof(float);
  finish_arguments a = {*e, k, rewards, by, of(d)->arrivals, about};
  return launch(d, "the sums of a head", k.B * by.pieces, THREADS, factors, head_finish_kernel<T>,
                a, static_cast<const T *>(head->rows.x));
}

/* ---- the two products ---- */

/* Scores, weights, and the sums of each chunk. */
static int sum_head(fopo_device *d, const head_work &k, const fopo_shared_head *head,
                    const fopo_device_batch *batch) {
  const float *rows = static_cast<const float *>(head->rows.x);
  int status = gemm(d, k.f, k.stride, 1.0f, batch->Q, k.L, 0, rows, k.ld, 1, 0.0f, k.B, k.H, k.L);
  if (status == FOPO_OK) status = weigh(d, k, head, batch);
  if (status != FOPO_OK) return status;
  return gemm_chunks(d, k.means, k.ld, k.f, k.stride, rows, k.ld, k.B, k.L, k.H, k.chunk);
}

static int sum_head_bf16(fopo_device *d, const head_work &k, const fopo_shared_head *head,
                         const fopo_device_batch *batch) {
  const uint16_t *rows = static_cast<const uint16_t *>(head->rows.x);
  size_t n = k.B * k.ld;
  int status = launch(d, "queries in two parts", ceil_div(n, THREADS), THREADS, 0, split_kernel,
                      k.q, batch->Q, k.L, k.ld, n);
  if (status == FOPO_OK) {
    status = gemm_bf16(d, k.f, k.stride, k.q, rows, 2 * k.B, k.H, k.ld);
  }
  if (status == FOPO_OK) status = weigh(d, k, head, batch);
  if (status != FOPO_OK) return status;
  return gemm_chunks(d, k.means, k.ld, k.w, k.stride, rows, k.ld, 2 * k.B, k.L, k.H, k.chunk);
}

int snis_head(fopo_device *d, const fopo_estimate *e, const fopo_shared_head *head,
              const fopo_sparse_reward *reward, const fopo_samples *tail, const fopo_rows *items,
              const fopo_device_batch *batch) {
  sparse rewards = {sparse_of(*reward), head->place, batch->rows};
  head_work k = shape(d, head, batch);
  drawing others = tail != nullptr ? given_samples(tail) : other_draws(d, head, reward, batch);
  batch_stats about = {e->batch, nullptr, nullptr, k.B, k.H, k.B, 1};
  size_t before = of(d)->launched;
  int status = reserve_arrivals(d, 1);
  if (status == FOPO_OK) status = place(d, &k, items, batch->S);
  if (status == FOPO_OK) status = add_samples(d, k.tail, others, items, batch);
  bool halves = head->rows.type == FOPO_BFLOAT16;
  if (status == FOPO_OK) status = (halves ? sum_head_bf16 : sum_head)(d, k, head, batch);
  if (status != FOPO_OK) return status;
  status = halves ? finish<bf16>(d, e, k, head, rewards, about)
                  : finish<float>(d, e, k, head, rewards, about);
  fopo_device_batch both = *batch;
  both.S += head->H;
  others.listed = head->H;
  note(d, before, {*e, others, about, *items, FOPO_TAIL_LEAST, both, halves});
  return status;
}

} // namespace gpu
