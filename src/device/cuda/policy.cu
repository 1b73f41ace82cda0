/* Draws from the policy itself, the softmax over all P items, on the GPU, for REINFORCE.
 *
 * For a block of contexts all scores are computed by GEMM, tile after tile of the catalogue. Groups
 * of GROUP items are summed relative to their own largest score. The sums of a context's groups,
 * scaled to one shift, make a cumulative sum that is short enough to be searched for each sample,
 * and a warp finds the item inside its group. If E_pi beta is wanted, the scores become
 * probabilities, which are multiplied by the items in one batch of products, a piece of the
 * catalogue each, so that a small batch too fills the card; the products are added in double.
 *
 * Random words equal the CPU's to the bit; scores and sums do not. If a draw falls within rounding
 * of the border between two items, the id may be the neighbour's. */
#include <cmath>

#include "device/cuda/cuda.cuh"

namespace gpu {

constexpr size_t GROUP = 256;     /* items summed together: eight a thread of a warp */
constexpr size_t TILE = 1 << 16;  /* items of one product; an interruption is noticed between two */
constexpr size_t PIECE = 1 << 12; /* items of one of the products for E_pi beta */
constexpr size_t SCORE_BYTES = (size_t)512 << 20; /* of one block; a single context may take more */

/* One block of contexts; pointers into scratch. */
struct policy_block {
  size_t B, P, groups, pieces;
  float *f;           /* [B, P] scores, later probabilities */
  float *shift;       /* [B, groups] the group's largest score */
  double *cumulative; /* [B, groups] sums of exp(f - shift), then running sums relative to top */
  float *top;         /* [B] the largest score */
  double *total;      /* [B] */
  float *products;    /* [pieces, B, L] if E_pi beta is wanted */
};

static size_t place(policy_block *k, char *base, size_t B, size_t P, size_t L, bool mean) {
  scratch_layout memory = {base, 0};
  k->B = B;
  k->P = P;
  k->groups = ceil_div(P, GROUP);
  k->pieces = mean ? ceil_div(P, PIECE) : 0;
  k->f = memory.array<float>(B * P);
  k->cumulative = memory.array<double>(B * k->groups);
  k->total = memory.array<double>(B);
  k->shift = memory.array<float>(B * k->groups);
  k->top = memory.array<float>(B);
  k->products = memory.array<float>(k->pieces * B * L);
  return memory.used;
}

/* A block a context: adds the sparse part to its scores. */
__global__ void policy_sparse_kernel(policy_block k, fopo_sparse_scores sparse) {
  size_t b = blockIdx.x;
  fopo_score_row row = fopo_score_row_of(&sparse, b);
  for (size_t i = threadIdx.x; i < row.n; i += blockDim.x) {
    float *f = k.f + b * k.P + row.ids[i];
    *f = fopo_score_sum(*f, fopo_score_entry(&row, i));
  }
}

/* exp(f - shift); of a masked item 0, also where all are masked and the shift is -infinity. */
__device__ inline float weight_of(float f, float shift) {
  return f == -INFINITY ? 0.0f : expf(f - shift);
}

/* A warp a group of a context: its largest score, and the sum of exp(f - largest). */
__global__ void group_kernel(policy_block k) {
  size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
  unsigned lane = threadIdx.x % WARP;
  if (i >= k.B * k.groups) return; /* the whole warp */
  size_t b = i / k.groups, first = i % k.groups * GROUP;
  size_t end = first + GROUP < k.P ? first + GROUP : k.P;
  const float *f = k.f + b * k.P;
  float most = -INFINITY;
  for (size_t a = first + lane; a < end; a += WARP) most = larger(most, f[a]);
  for (int o = WARP / 2; o > 0; o >>= 1) {
    most = larger(most, __shfl_xor_sync(0xffffffffu, most, o));
  }
  double sum = 0;
  for (size_t a = first + lane; a < end; a += WARP) sum += (double)weight_of(f[a], most);
  sum = warp_sum(sum);
  if (lane != 0) return;
  k.shift[i] = most;
  k.cumulative[i] = sum;
}

/* A block a context: running sums over its groups, relative to the largest score of all. Each
 * thread sums a run of groups; a scan over the block gives the sum before its run. */
__global__ void accumulate_kernel(policy_block k, float *log_z) {
  size_t b = blockIdx.x;
  const float *shift = k.shift + b * k.groups;
  double *cumulative = k.cumulative + b * k.groups;
  float top = -INFINITY;
  for (size_t g = threadIdx.x; g < k.groups; g += blockDim.x) top = larger(top, shift[g]);
  top = block_max(top);
  size_t run = (k.groups + blockDim.x - 1) / blockDim.x, first = threadIdx.x * run;
  size_t end = first + run < k.groups ? first + run : k.groups;
  double sum_of_run = 0, total;
  for (size_t g = first; g < end; g++) {
    double scale = shift[g] == -INFINITY ? 0.0 : exp((double)shift[g] - (double)top);
    sum_of_run += cumulative[g] *= scale;
  }
  double sum = block_scan(sum_of_run, &total);
  for (size_t g = first; g < end; g++) {
    sum += cumulative[g];
    cumulative[g] = sum;
  }
  if (threadIdx.x != 0) return;
  k.top[b] = top;
  k.total[b] = total;
  if (log_z != nullptr) log_z[b] = (float)((double)top + log(total));
}

/* A warp a sample: finds the group, and in it the first item whose running sum exceeds the rest of
 * the target; if rounding leaves none, the last item that has weight. */
__global__ void pick_kernel(uint32_t *ids, policy_block k, const uint32_t *rows, draw_key recorded,
                            size_t S) {
  fopo_draw_key key = current(recorded);
  size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
  unsigned lane = threadIdx.x % WARP;
  if (i >= k.B * S) return; /* the whole warp */
  size_t b = i / S, s = i % S;
  const double *cumulative = k.cumulative + b * k.groups;
  fopo_words words =
      fopo_random(key.seed, FOPO_STREAM_POLICY, key.step, rows[b], (uint32_t)(s >> 2));
  /* an index that is computed would put the words into memory */
  uint32_t word = s & 2 ? (s & 1 ? words.v[3] : words.v[2]) : (s & 1 ? words.v[1] : words.v[0]);
  double target = fopo_unit(word) * cumulative[k.groups - 1];
  size_t g = fopo_invert(cumulative, k.groups, target);
  g = g < k.groups ? g : k.groups - 1; /* past the end only with NaN */
  float shift = k.shift[b * k.groups + g];
  double rest = (target - (g > 0 ? cumulative[g - 1] : 0)) / exp((double)shift - (double)k.top[b]);

  constexpr unsigned EACH = GROUP / WARP;
  size_t start = g * GROUP + lane * EACH;
  float w[EACH];
  double own = 0;
  for (unsigned j = 0; j < EACH; j++) {
    w[j] = start + j < k.P ? weight_of(k.f[b * k.P + start + j], shift) : 0.0f;
    own += (double)w[j];
  }
  double before = own; /* the sum of the lanes before this one */
  for (unsigned o = 1; o < WARP; o <<= 1) {
    double other = __shfl_up_sync(0xffffffffu, before, o);
    if (lane >= o) before += other;
  }
  before -= own;
  /* the first item whose running sum exceeds the rest; 1 + the last item that has weight */
  uint32_t first = UINT32_MAX, last = 0;
  for (unsigned j = 0; j < EACH; j++) {
    before += (double)w[j];
    if (w[j] > 0.0f) last = lane * EACH + j + 1;
    if (first == UINT32_MAX && w[j] > 0.0f && before > rest) first = lane * EACH + j;
  }
  for (int o = WARP / 2; o > 0; o >>= 1) {
    uint32_t f = __shfl_xor_sync(0xffffffffu, first, o), l = __shfl_xor_sync(0xffffffffu, last, o);
    first = f < first ? f : first;
    last = l > last ? l : last;
  }
  if (lane != 0) return;
  uint32_t chosen = first != UINT32_MAX ? first : last > 0 ? last - 1 : 0;
  ids[i] = k.total[b] == 0 ? 0 : (uint32_t)(g * GROUP + chosen); /* total 0: all are masked */
}

/* Turns the scores f into pi. */
__global__ void probability_kernel(policy_block k, size_t n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  size_t b = i / k.P;
  float w = weight_of(k.f[i], k.top[b]);
  k.f[i] = w == 0.0f ? 0.0f : w * (float)(1 / k.total[b]);
}

__global__ void mean_kernel(float *mean, const float *products, size_t pieces, size_t n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double sum = 0;
  for (size_t p = 0; p < pieces; p++) sum += (double)products[p * n + i];
  mean[i] = (float)sum;
}

static int interrupted(const char *what) {
  if (!fopo_interrupted()) return FOPO_OK;
  return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while %s", what);
}

/* E_pi beta = sum_a pi_a beta_a */
static int compute_mean(fopo_device *d, float *mean, const policy_block &k, const float *items,
                        size_t ld, size_t L) {
  size_t n = k.B * k.P;
  int status =
      launch(d, "probabilities", ceil_div(n, THREADS), THREADS, 0, probability_kernel, k, n);
  if (status == FOPO_OK) status = interrupted("drawing from the policy");
  if (status == FOPO_OK) {
    status = gemm_chunks(d, k.products, L, k.f, k.P, items, ld, k.B, L, k.P, PIECE);
  }
  if (status != FOPO_OK) return status;
  return launch(d, "the mean of the policy", ceil_div(k.B * L, THREADS), THREADS, 0, mean_kernel,
                mean, (const float *)k.products, k.pieces, k.B * L);
}

/* The k.B contexts of the batch from the first on. */
static int draw_block(fopo_device *d, const fopo_samples *samples, const fopo_policy_sums *sums,
                      const policy_block &k, fopo_matrix matrix, size_t b,
                      const fopo_device_batch *batch) {
  size_t S = batch->S, L = batch->L, ld = matrix.ld;
  const float *Q = batch->Q + b * L, *items = matrix.x;
  float *mean = sums->mean == nullptr ? nullptr : sums->mean + b * L;
  float *log_z = sums->log_z == nullptr ? nullptr : sums->log_z + b;
  int status = FOPO_OK;
  for (size_t first = 0; first < k.P && status == FOPO_OK; first += TILE) {
    status = interrupted("drawing from the policy");
    if (status == FOPO_OK) {
      status = gemm(d, k.f + first, k.P, 1.0f, Q, L, 0, items + first * ld, ld, 1, 0.0f, k.B,
                    least(TILE, k.P - first), L);
    }
  }
  constexpr size_t WARPS = THREADS / WARP;
  fopo_sparse_scores sparse = fopo_batch_scores(batch);
  sparse.rows += b;
  if (status == FOPO_OK && sparse.indptr != nullptr) {
    status = launch(d, "the sparse scores", k.B, THREADS, 0, policy_sparse_kernel, k, sparse);
  }
  if (status == FOPO_OK) {
    status = launch(d, "the weights of the items", ceil_div(k.B * k.groups, WARPS), THREADS, 0,
                    group_kernel, k);
  }
  if (status == FOPO_OK) {
    status = launch(d, "the sums of the policy", k.B, THREADS, 0, accumulate_kernel, k, log_z);
  }
  if (status == FOPO_OK) {
    status = launch(d, "draws from the policy", ceil_div(k.B * S, WARPS), THREADS, 0, pick_kernel,
                    samples->ids + b * S, k, batch->rows + b, key_of(d, batch->key), S);
  }
  return status == FOPO_OK && mean != nullptr ? compute_mean(d, mean, k, items, ld, L) : status;
}

/* Reserves scratch for a block of *most contexts: as many as SCORE_BYTES allow, or half as many
 * again and again if the card has not enough memory. */
static int reserve_block(fopo_device *d, size_t *most, size_t B, size_t P, size_t L, bool mean) {
  policy_block k;
  size_t fit = SCORE_BYTES / (P * sizeof(float));
  *most = fit < 1 ? 1 : least(B, fit);
  for (;;) {
    size_t bytes = place(&k, nullptr, *most, P, L, mean);
    int status = reserve(d, bytes, "the scores of all items");
    if (status != FOPO_ERR_MEMORY || *most == 1) return status;
    *most = *most / 2;
  }
}

int draw_policy(fopo_device *d, const fopo_samples *samples, const fopo_policy_sums *sums,
                fopo_matrix items, const fopo_device_batch *batch) {
  size_t B = batch->B, P = items.rows, L = items.cols, most;
  bool mean = sums->mean != nullptr;
  int status = reserve_block(d, &most, B, P, L, mean);
  for (size_t b = 0; b < B && status == FOPO_OK; b += most) {
    policy_block k;
    place(&k, of(d)->scratch, least(most, B - b), P, L, mean);
    status = draw_block(d, samples, sums, k, items, b, batch);
  }
  return status;
}

/* ---- the expectation of the items' gradient ---- */

/* w [B, cols] = weight_b exp(f_ab - log Z_b) for the items a = first .. first + cols - 1; on entry
 * w holds f without its sparse part. log Z_b = -infinity: all items are masked. */
__global__ void expect_kernel(float *w, const float *log_z, const float *weight,
                              fopo_sparse_scores sparse, size_t first, size_t cols, size_t n) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  size_t b = i / cols;
  float f = w[i];
  if (sparse.indptr != nullptr)
    f = fopo_score_sum(f, sparse_score(sparse, b, (uint32_t)(first + i % cols)));
  w[i] = log_z[b] == -INFINITY ? 0.0f : expf(f - log_z[b]) * weight[b];
}

int items_expectation(fopo_device *d, float *rows, fopo_matrix items, const float *log_z,
                      const float *weight, const fopo_device_batch *batch) {
  size_t B = batch->B, P = items.rows, L = items.cols;
  const float *Q = batch->Q;
  size_t tile = SCORE_BYTES / (B * sizeof(float));
  tile = least(tile < 1 ? 1 : tile, least(TILE, P));
  int status = reserve(d, B * tile * sizeof(float), "the policy of a batch");
  float *w = reinterpret_cast<float *>(of(d)->scratch);
  for (size_t first = 0; first < P && status == FOPO_OK; first += tile) {
    size_t n = least(tile, P - first);
    status = interrupted("summing over the policy");
    if (status == FOPO_OK) {
      status = gemm(d, w, n, 1.0f, Q, L, 0, items.x + first * items.ld, items.ld, 1, 0.0f, B, n, L);
    }
    if (status == FOPO_OK) {
      status = launch(d, "the policy of a batch", ceil_div(B * n, THREADS), THREADS, 0,
                      expect_kernel, w, log_z, weight, fopo_batch_scores(batch), first, n, B * n);
    }
    if (status == FOPO_OK) {
      status = gemm(d, rows + first * L, L, 1.0f, w, n, 1, Q, L, 0, 1.0f, n, L, B);
    }
  }
  return status;
}

} // namespace gpu
