/* Draws from the policy itself, the softmax over all P items, for REINFORCE.
 *
 * The catalogue is read once per block of contexts, in tiles of items: scores by GEMM, then weights
 * exp(f - shift) relative to the largest score of the chunk so far and, if E_pi beta is wanted,
 * their product with the same tile. A chunk is a fixed run of tiles and the work of one thread.
 * The weights are summed by small groups, whose cumulative sum is short enough to be searched for
 * each sample; a scan then finds the item inside its group.
 *
 * Slates over a head and a tail are drawn of the same law without reading the catalogue, by
 * rejection (von Neumann 1951): no score of the tail is above |q| times its largest norm, so each
 * of its M items is given that weight, one of them is drawn uniformly, and is kept with the share
 * of it that is its own. Only log Z and E_pi beta are estimates: of the head, and of draws of the
 * tail for M / U items each, which lie behind the head as further rows of the same products. */
#include <math.h>
#include <string.h>

#include "core/norm.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"
#include "device/cpu/sparse.h"
#include "kernels/kernels.h"
#include "kernels/product.h"

enum {
  TILE = 1024, /* items: 32 contexts' scores fill 128 KiB, a part of L2 */
  GROUP = 64,  /* items summed together; TILE is a multiple */
  CHUNKS = 64  /* shared by the threads; fixed, so that sums have one order */
};
#define ROUNDING     1e-5  /* of the scores that a bound is compared with */
#define NOTHING      1e-12 /* of the mass: what rounding leaves where no item is left */
#define WEIGHT_BYTES ((size_t)256 << 20) /* of one block; a single context may take more */

/* What is read in the place of the catalogue. */
typedef struct {
  const fopo_shared_head *head;
  fopo_matrix catalogue; /* [P, L] */
  size_t pad, U, M;      /* rows of the head, full tiles of them; draws of a tail of M items */
  const uint32_t *ids;   /* [U] of the draws */
  double most;           /* the largest norm of the tail */
} beside;

/* Proposals that a context may reject before it reads the catalogue after all: fewer by far than
 * that costs. The item that is kept does not depend on how many were rejected before it. */
static size_t most_rejected(size_t P) { return 1000 + P / 32; }

/* One block of contexts. Pointers into the device's shared scratch. */
typedef struct {
  size_t B, S, P, L;
  size_t distinct; /* items of a slate; 0: draws are independent */
  const beside
      *own; /* NULL: items are the catalogue; else the head's, up to own->pad, and U more */
  fopo_matrix items; /* [P, L] */
  const fopo_sparse_scores *sparse;
  const uint32_t *rows; /* [B] the contexts' ids */
  size_t tiles;         /* of the catalogue */
  size_t per_chunk;     /* tiles */
  float *weights;       /* [tiles, B, TILE] exp(f - shift[tile, b]) */
  double *cumulative;   /* [B, tiles, TILE / GROUP] sums of groups, then running sums */
  float *shift;         /* [tiles, B] */
  float *chunk_shift;   /* [CHUNKS, B] */
  float *chunk_beta;    /* [CHUNKS, B, L] sum of weight times beta, relative to chunk_shift */
} block;

static size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }
static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t block_contexts(size_t B, size_t P) {
  size_t fit = WEIGHT_BYTES / (ceil_div(P, TILE) * TILE * sizeof(float));
  return fit < 1 ? 1 : least(B, fit);
}

static size_t block_bytes(const block *k) {
  size_t doubles = k->B * k->tiles * (TILE / GROUP);
  size_t floats = k->B * (k->tiles * TILE + k->tiles + CHUNKS + CHUNKS * k->L);
  return doubles * sizeof(double) + floats * sizeof(float);
}

static void place(block *k, char *memory) {
  k->cumulative = (double *)(void *)memory;
  k->weights = (float *)(void *)(k->cumulative + k->B * k->tiles * (TILE / GROUP));
  k->shift = k->weights + k->B * k->tiles * TILE;
  k->chunk_shift = k->shift + k->B * k->tiles;
  k->chunk_beta = k->chunk_shift + k->B * CHUNKS;
}

/* Turns the scores w of one context in one tile into weights exp(w - shift), and sums them by
 * groups. Returns the new shift: at least the given one, to which beta is scaled. */
static float weigh(float *w, double *sums, float *beta, float shift, size_t n, size_t L) {
  const fopo_kernels *kernels = fopo_kernels_get();
  float largest = kernels->max(w, n);
  if (shift == -INFINITY && largest == -INFINITY && fopo_cpu_all_masked(w, n)) {
    memset(w, 0, n * sizeof *w);
    memset(sums, 0, TILE / GROUP * sizeof *sums);
    return shift;
  }
  if (largest > shift) {
    float factor = (float)exp((double)shift - (double)largest);
    for (size_t i = 0; beta != NULL && i < L; i++) beta[i] *= factor;
    shift = largest;
  }
  for (size_t g = 0; g < TILE / GROUP; g++) {
    size_t first = least(g * GROUP, n), count = least(GROUP, n - first);
    sums[g] = kernels->exp_sum(w + first, w + first, shift, count);
  }
  return shift;
}

/* Adds s(., x) to the scores w [n] of rows from `first` on, of a head and a tail. Rows of padding
 * are no items; those of the tail stand for M / U each. */
static void add_beside(float *w, const beside *x, const fopo_score_row *row, size_t first,
                       size_t n) {
  size_t H = x->head->H;
  float more = -fopo_cpu_tail_density(x->U, x->M);
  for (size_t i = 0; i < row->n && first < x->pad; i++) {
    size_t at = x->head->place[row->ids[i]];
    if (at < H && at >= first && at < first + n) {
      w[at - first] = fopo_score_sum(w[at - first], fopo_score_entry(row, i));
    }
  }
  for (size_t i = 0; i < n; i++) {
    size_t at = first + i;
    if (at >= x->pad) {
      w[i] = fopo_score_sum(w[i] + more, fopo_score_of(row, x->ids[at - x->pad]));
    } else if (at >= H) {
      w[i] = -INFINITY;
    }
  }
}

/* Scores and weighs the tiles of a chunk, in order; 0 if interrupted. */
static int weigh_chunk(const block *k, size_t chunk, fopo_matrix Q, int want_mean) {
  float *shift = k->chunk_shift + chunk * k->B;
  fopo_matrix beta = fopo_matrix_view(k->chunk_beta + chunk * k->B * k->L, k->B, k->L);
  memset(beta.x, 0, k->B * k->L * sizeof(float));
  for (size_t b = 0; b < k->B; b++) shift[b] = -INFINITY;
  size_t end = least((chunk + 1) * k->per_chunk, k->tiles);
  for (size_t t = chunk * k->per_chunk; t < end; t++) {
    if (fopo_interrupted()) return 0;
    size_t n = least(TILE, k->P - t * TILE);
    fopo_matrix items = fopo_matrix_rows(k->items, t * TILE, n);
    fopo_matrix W = {k->weights + t * k->B * TILE, k->B, n, TILE};
    fopo_product_tile(W, 1.0f, Q, 0, items, 1, 0.0f);
    for (size_t b = 0; b < k->B; b++) {
      double *sums = k->cumulative + (b * k->tiles + t) * (TILE / GROUP);
      float *sum_beta = want_mean ? fopo_matrix_row(beta, b) : NULL;
      fopo_score_row sparse = fopo_score_row_of(k->sparse, b);
      if (k->own != NULL) {
        add_beside(fopo_matrix_row(W, b), k->own, &sparse, t * TILE, n);
      } else {
        fopo_cpu_sparse_add_run(fopo_matrix_row(W, b), &sparse, t * TILE, n);
      }
      shift[b] = weigh(fopo_matrix_row(W, b), sums, sum_beta, shift[b], n, k->L);
      k->shift[t * k->B + b] = shift[b];
    }
    if (want_mean) fopo_product_tile(beta, 1.0f, W, 0, items, 0, 1.0f);
  }
  return 1;
}

/* The largest score of context b, to which all its sums are finally relative. */
static float top_of(const block *k, size_t b) {
  float top = -INFINITY;
  for (size_t t = 0; t < k->tiles; t++) top = fmaxf(top, k->shift[t * k->B + b]);
  return top;
}

/* exp(shift - top); 0 if there is nothing but masked items so far. */
static double scale_to(float shift, float top) {
  return shift == -INFINITY ? 0.0 : exp((double)shift - (double)top);
}

static double tile_scale(const block *k, size_t t, size_t b, float top) {
  return scale_to(k->shift[t * k->B + b], top);
}

/* Turns the sums of context b's groups into running sums; returns their total. */
static double accumulate(const block *k, size_t b, float top) {
  double total = 0;
  for (size_t t = 0; t < k->tiles; t++) {
    double *sums = k->cumulative + (b * k->tiles + t) * (TILE / GROUP);
    double scale = tile_scale(k, t, b, top);
    for (size_t g = 0; g < TILE / GROUP; g++) {
      total += scale * sums[g];
      sums[g] = total;
    }
  }
  return total;
}

/* The item of context b at which the cumulative weight exceeds `target`. */
static uint32_t invert(const block *k, size_t b, float top, double target) {
  size_t groups = k->tiles * (TILE / GROUP);
  const double *cumulative = k->cumulative + b * groups;
  size_t first = fopo_invert(cumulative, groups, target);
  if (first == groups) first = ceil_div(k->P, GROUP) - 1; /* only with NaN */
  size_t t = first / (TILE / GROUP), start = first % (TILE / GROUP) * GROUP;
  size_t end = least(start + GROUP, k->P - t * TILE), chosen = start;
  const float *w = k->weights + (t * k->B + b) * TILE;
  double rest = (target - (first > 0 ? cumulative[first - 1] : 0)) / tile_scale(k, t, b, top);
  for (size_t i = start; i < end && rest >= 0; i++) {
    if (w[i] > 0) chosen = i; /* never ends on an item without weight, by rounding */
    rest -= (double)w[i];
  }
  return (uint32_t)(t * TILE + chosen);
}

static void mean_row(float *mean, const block *k, size_t b, float top, double total) {
  size_t chunks = ceil_div(k->tiles, k->per_chunk);
  for (size_t i = 0; i < k->L; i++) {
    double sum = 0;
    for (size_t c = 0; c < chunks; c++) {
      double scale = scale_to(k->chunk_shift[c * k->B + b], top);
      sum += scale * (double)k->chunk_beta[(c * k->B + b) * k->L + i];
    }
    mean[i] = total == 0.0 ? 0.0f : (float)(sum / total);
  }
}

/* ---- slates: without the items that were drawn before ---- */

/* Where an item lies in the running sums of weights. */
typedef struct {
  double start, weight;
  uint32_t id;
} interval;

static interval interval_of(const block *k, size_t b, float top, uint32_t id) {
  size_t t = id / TILE, i = id % TILE, g = i / GROUP;
  const double *cumulative = k->cumulative + b * k->tiles * (TILE / GROUP);
  const float *w = k->weights + (t * k->B + b) * TILE;
  double scale = tile_scale(k, t, b, top), before = 0.0;
  size_t group = t * (TILE / GROUP) + g;
  for (size_t j = g * GROUP; j < i; j++) before += (double)w[j];
  return (interval){(group > 0 ? cumulative[group - 1] : 0.0) + scale * before,
                    scale * (double)w[i], id};
}

/* Puts an item among the n that are out, by rising id; 0 if it is there already, by rounding. */
static int take_out(interval *out, size_t n, interval x) {
  size_t i = n;
  while (i > 0 && out[i - 1].id > x.id) i--;
  if (i > 0 && out[i - 1].id == x.id) return 0;
  memmove(out + i + 1, out + i, (n - i) * sizeof *out);
  out[i] = x;
  return 1;
}

/* Place `at` of a slate: a target in what is left of the sums, passed over the n items that are
 * out. Returns 0 if nothing is left. */
static int draw_next(uint32_t *id, interval *out, size_t n, const block *k, size_t b, float top,
                     double total, double unit) {
  double left = total;
  for (size_t i = 0; i < n; i++) left -= out[i].weight;
  if (!(left > NOTHING * total)) return 0;
  double target = unit * left;
  for (size_t i = 0; i < n && target >= out[i].start; i++) target += out[i].weight;
  *id = invert(k, b, top, target);
  return take_out(out, n, interval_of(k, b, top, *id));
}

/* Those of its places whose logq is not NaN are drawn already. */
static void draw_slate(uint32_t *ids, float *logq, size_t size, interval *out, const block *k,
                       size_t b, float top, double total, const double *unit) {
  size_t n = 0;
  for (; n < size && !isnan(logq[n]); n++) {
    take_out(out, n, interval_of(k, b, top, ids[n]));
  }
  while (n < size && draw_next(&ids[n], out, n, k, b, top, total, unit[n])) logq[n++] = 0.0f;
  for (size_t j = n; j < size; j++) {
    ids[j] = n > 0 ? ids[0] : 0;
    logq[j] = -INFINITY;
  }
}

/* scratch: size intervals and numbers of the thread. */
static void draw_slates(uint32_t *ids, float *logq, size_t size, void *scratch, const block *k,
                        size_t b, float top, double total, uint32_t row, fopo_draw_key key) {
  interval *out = scratch;
  double *unit = (double *)(void *)(out + size);
  for (size_t s = 0; s < k->S; s += size) {
    if (!isnan(logq[s + size - 1])) continue;
    for (size_t j = 0; j < size; j++) {
      uint32_t at = (uint32_t)(s + j);
      fopo_words words = fopo_random(key.seed, FOPO_STREAM_POLICY, key.step, row, at >> 2);
      unit[j] = fopo_unit(words.v[at & 3]);
    }
    draw_slate(ids + s, logq + s, size, out, k, b, top, total, unit);
  }
}

/* ---- slates over a head and a tail; places are those of the order of norms ---- */

/* A context that draws. Weights are relative to exp(top). */
typedef struct {
  const block *k;
  size_t b;
  float top;
  const float *q;
  fopo_score_row sparse;
  double head, bound; /* the weight of the head, and of an item of the tail at most */
  fopo_draw_key key;
  uint32_t row;
} drawer;

static double tail_weight(const drawer *x, size_t at) {
  const beside *own = x->k->own;
  uint32_t id = own->head->order[at];
  float f = fopo_kernels_get()->dot(fopo_matrix_row(own->catalogue, id), x->q, x->k->L);
  float score = fopo_score_sum(f, fopo_score_of(&x->sparse, id));
  return score > -INFINITY ? exp((double)score - (double)x->top) : 0.0;
}

/* The weight of the head without the items that are out. */
static double left_of(const drawer *x, const interval *out, size_t n) {
  double left = x->head;
  for (size_t i = 0; i < n; i++) left -= out[i].weight;
  return left > NOTHING * x->head ? left : 0.0;
}

/* The place in the head at a target below what is left of it. */
static int take_head(interval *out, size_t n, const drawer *x, double target) {
  for (size_t i = 0; i < n && target >= out[i].start; i++) target += out[i].weight;
  uint32_t at = invert(x->k, x->b, x->top, target);
  if (at >= x->k->own->head->H) return -1; /* by rounding */
  return take_out(out, n, interval_of(x->k, x->b, x->top, at)) ? (int)at : -1;
}

/* An item of the tail has no interval: nothing is passed over. */
static int take_tail(interval *out, size_t n, size_t at) {
  return take_out(out, n, (interval){INFINITY, 0.0, (uint32_t)at}) ? (int)at : -1;
}

/* A proposal by three words: its place if it is kept, else -1. */
static int propose(interval *out, size_t n, const drawer *x, fopo_words w, uint32_t draw) {
  const beside *own = x->k->own;
  double left = left_of(x, out, n), tail = (double)own->M * x->bound;
  double target = fopo_unit(w.v[0]) * (left + tail);
  if (target < left) return take_head(out, n, x, target);
  size_t at =
      own->head->H + fopo_below((uint32_t)own->M, w.v[1], x->key.seed, x->key.step, x->row, draw);
  if (!(fopo_unit(w.v[2]) * x->bound < tail_weight(x, at))) return -1;
  return take_tail(out, n, at);
}

/* logq [S] of what is not drawn stays NaN. */
static void draw_slates_beside(uint32_t *ids, float *logq, interval *out, const drawer *x) {
  size_t k = x->k->distinct, rejected = 0, most = most_rejected(x->k->own->catalogue.rows);
  for (size_t s = 0; s < x->k->S; s += k) {
    for (size_t n = 0; n < k; n++) {
      uint32_t draw = (uint32_t)(s + n);
      int at = -1;
      for (uint32_t tries = 0; at < 0; tries++) {
        uint32_t stream = FOPO_STREAM_POLICY + (tries << 8);
        fopo_words w = fopo_random(x->key.seed, stream, x->key.step, x->row, draw);
        at = propose(out, n, x, w, draw);
        if (at < 0 && ++rejected > most) return;
      }
      ids[draw] = x->k->own->head->order[at];
      logq[draw] = 0.0f;
    }
  }
}

/* The rows that are read, and the largest norm of the others. */
static void pack_beside(beside *x, float *rows, uint32_t *ids, fopo_draw_key key) {
  const fopo_shared_head *head = x->head;
  size_t L = x->catalogue.cols, H = head->H;
  fopo_cpu_draw_ranks(ids, FOPO_ROW_OF_BATCH, key, x->U, x->M);
  for (size_t i = 0; i < x->U; i++) ids[i] = head->order[H + ids[i]];
  for (size_t i = 0; i < x->pad + x->U; i++) {
    uint32_t id = i < x->pad ? head->order[i < H ? i : 0] : ids[i - x->pad];
    memcpy(rows + i * L, fopo_matrix_row(x->catalogue, id), L * sizeof *rows);
  }
  x->ids = ids;
  x->most = fopo_norm(fopo_matrix_row(x->catalogue, head->order[H]), L);
}

static size_t beside_bytes(const beside *x, size_t L) {
  return (x->pad + x->U) * L * sizeof(float) + x->U * sizeof(uint32_t);
}

static size_t slate_bytes(size_t size) { return size * (sizeof(interval) + sizeof(double)); }

/* ---- a block ---- */

static void draw_alone(uint32_t *ids, const block *k, size_t b, float top, double total,
                       uint32_t row, fopo_draw_key key) {
  fopo_words words = {{0, 0, 0, 0}};
  for (size_t s = 0; s < k->S; s++) { /* total 0: all items are masked */
    if ((s & 3) == 0) {
      words = fopo_random(key.seed, FOPO_STREAM_POLICY, key.step, row, (uint32_t)(s >> 2));
    }
    ids[s] = total == 0.0 ? 0 : invert(k, b, top, fopo_unit(words.v[s & 3]) * total);
  }
}

static void draw_row(const fopo_device *d, uint32_t *ids, float *logq, float *mean, float *log_z,
                     const block *k, size_t b, const float *q, fopo_draw_key key) {
  float top = top_of(k, b);
  double total = accumulate(k, b, top);
  uint32_t row = k->rows[b];
  if (k->own != NULL) {
    const double *cumulative = k->cumulative + b * k->tiles * (TILE / GROUP);
    double most = fopo_norm(q, k->L) * k->own->most * (1.0 + ROUNDING);
    drawer x = {.k = k, .b = b, .top = top, .q = q, .key = key, .row = row};
    x.sparse = fopo_score_row_of(k->sparse, b);
    x.head = cumulative[k->own->pad / GROUP - 1];
    x.bound = exp(most - (double)top);
    if (total > 0.0) draw_slates_beside(ids, logq, fopo_cpu_scratch(d), &x);
  } else if (k->distinct > 0) {
    draw_slates(ids, logq, k->distinct, fopo_cpu_scratch(d), k, b, top, total, row, key);
  } else {
    draw_alone(ids, k, b, top, total, row, key);
  }
  if (mean != NULL) mean_row(mean, k, b, top, total);
  if (log_z != NULL) *log_z = (float)((double)top + log(total)); /* all masked: -inf */
}

static int draw_block(const fopo_device *d, uint32_t *ids, float *logq, float *mean, float *log_z,
                      const block *k, fopo_matrix Q, fopo_draw_key key) {
  int stopped = 0;
  size_t chunks = ceil_div(k->tiles, k->per_chunk);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic) reduction(| : stopped)
  for (size_t c = 0; c < chunks; c++) {
    stopped |= !weigh_chunk(k, c, Q, mean != NULL);
  }
  if (stopped) return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while drawing from the policy");
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < k->B; b++) {
    draw_row(d, ids + b * k->S, logq + b * k->S, mean == NULL ? NULL : mean + b * k->L,
             log_z == NULL ? NULL : log_z + b, k, b, fopo_matrix_row(Q, b), key);
  }
  return FOPO_OK;
}

static int draw_all(fopo_device *d, const fopo_samples *samples, const fopo_policy_sums *sums,
                    fopo_matrix items, const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S, P = items.rows, L = items.cols, packed = 0;
  beside own = {.head = sums->head, .catalogue = items};
  if (own.head != NULL) {
    own.pad = ceil_div(own.head->H, TILE) * TILE, own.U = sums->tail, own.M = P - own.head->H;
    P = own.pad + own.U;
    packed = beside_bytes(&own, L);
  }
  size_t most = block_contexts(B, P), tiles = ceil_div(P, TILE);
  block k = {.B = most, .S = S, .P = P, .L = L, .items = items, .tiles = tiles};
  k.per_chunk = ceil_div(tiles, CHUNKS);
  k.distinct = sums->distinct;
  int status = fopo_cpu_reserve(d, slate_bytes(k.distinct));
  if (status != FOPO_OK) return status;
  status = fopo_cpu_reserve_shared(d, block_bytes(&k) + packed, "drawing from the policy");
  if (status == FOPO_OK && own.head != NULL) {
    char *memory = (char *)((fopo_cpu *)d->state)->shared + block_bytes(&k);
    k.items = fopo_matrix_view((float *)(void *)memory, P, L);
    pack_beside(&own, k.items.x, (uint32_t *)(void *)(k.items.x + P * L), batch->key);
    k.own = &own;
  }
  for (size_t b = 0; b < B && status == FOPO_OK; b += most) {
    fopo_sparse_scores sparse = fopo_batch_scores(batch);
    sparse.rows += b;
    k.sparse = &sparse;
    k.rows = batch->rows + b;
    k.B = least(most, B - b);
    place(&k, ((fopo_cpu *)d->state)->shared);
    status = draw_block(d, samples->ids + b * S, samples->logq + b * S,
                        sums->mean == NULL ? NULL : sums->mean + b * L,
                        sums->log_z == NULL ? NULL : sums->log_z + b, &k,
                        fopo_matrix_const_view(batch->Q + b * L, k.B, L), batch->key);
  }
  return status;
}

/* Contexts b .. end of what draw_all is given, over the whole catalogue. */
static int draw_rest(fopo_device *d, const fopo_samples *samples, const fopo_policy_sums *sums,
                     fopo_matrix items, const fopo_device_batch *batch, size_t b, size_t end) {
  size_t S = batch->S, L = items.cols;
  fopo_samples draws = {.ids = samples->ids + b * S, .logq = samples->logq + b * S};
  fopo_policy_sums all = {.mean = sums->mean == NULL ? NULL : sums->mean + b * L,
                          .log_z = sums->log_z == NULL ? NULL : sums->log_z + b,
                          .distinct = sums->distinct};
  fopo_device_batch some = *batch;
  some.B = end - b, some.rows += b, some.Q += b * L;
  if (some.sparse.rows != NULL) some.sparse.rows += b;
  return draw_all(d, &draws, &all, items, &some);
}

int fopo_cpu_draw_policy(fopo_device *d, const fopo_samples *samples, const fopo_policy_sums *sums,
                         fopo_matrix items, const fopo_device_batch *batch) {
  size_t B = batch->B, S = batch->S;
  for (size_t i = 0; sums->distinct > 0 && i < B * S; i++) samples->logq[i] = NAN;
  int status = draw_all(d, samples, sums, items, batch);
  for (size_t b = 0, end; sums->head != NULL && b < B && status == FOPO_OK; b = end + 1) {
    for (end = b; end < B && isnan(samples->logq[end * S + S - 1]);) end++;
    if (end > b) status = draw_rest(d, samples, sums, items, batch, b, end);
  }
  return status;
}
