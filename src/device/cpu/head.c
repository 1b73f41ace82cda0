/* A head that all contexts share: two dense products over packed rows, and the tail.
 *
 * A unit of work is a panel of up to 32 contexts times a chunk of the head: its scores, their
 * exponentials, and the sums of w and w beta, each relative to the largest score of the unit. The
 * tail of a context, and the items of the head that earn something, are a unit too. A context's
 * units are then joined in the order of the chunks. How the head is cut follows from its size
 * alone, so the bits are the same for any number of threads. */
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"
#include "device/cpu/running.h"
#include "kernels/kernels.h"

enum {
  TILE = 128, /* rows of one product, which stay in L1 and L2 */

  /* Rows of a chunk: a unit must be worth more than joining it, but its scores stay in L2. Between
   * the two, 16 chunks give work to as many threads. */
  LEAST_CHUNK = 128,
  MOST_CHUNK = 512,
  CHUNKS = 16,

  TAILS = 8,    /* contexts whose tails are a unit of work */
  REWARDED = 64 /* items that earn something, looked at together */
};

/* ---- packing ---- */

static float item_number(const fopo_rows *items, size_t a, size_t i) {
  size_t at = a * items->ld + i;
  switch (items->type) {
  case FOPO_FLOAT16: return fopo_from_float16(((const uint16_t *)items->x)[at]);
  case FOPO_BFLOAT16: return fopo_from_bfloat16(((const uint16_t *)items->x)[at]);
  default: return ((const float *)items->x)[at];
  }
}

/* The rows are stored in float32 whatever the items' type: the products, not the reading of rows,
 * take the time. If bfloat16 is asked for, they are rounded to it, so that the CPU multiplies the
 * same numbers as a GPU. */
int fopo_cpu_pack_head(fopo_device *d, fopo_shared_head *head, const fopo_rows *items, size_t L,
                       fopo_products products) {
  (void)d;
  const uint32_t *order = head->order;
  float *x = NULL;
  memcpy(&x, &head->rows.x, sizeof x); /* the caller's memory, which other operations only read */
  head->rows.type = FOPO_FLOAT32;
  head->rows.ld = L;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t h = 0; h < head->H; h++) {
    for (size_t i = 0; i < L; i++) {
      float number = item_number(items, order[h], i);
      if (products == FOPO_PRODUCTS_BFLOAT16) {
        number = fopo_from_bfloat16(fopo_to_bfloat16(number));
      }
      x[h * L + i] = number;
    }
  }
  return FOPO_OK;
}

/* ---- the shape of the work ---- */

/* An id of a sparse row that is in the head. */
typedef struct {
  uint32_t at; /* of its score among those of its unit */
  float value; /* s */
} listed;

typedef struct {
  size_t B, H, L;
  size_t width;  /* of a panel */
  size_t panels; /* of contexts */
  size_t chunk;  /* rows */
  size_t chunks;
  size_t unit;    /* floats of the sums of a unit */
  float *queries; /* [panels, L, width] */
  float *sums;    /* [panels, chunks, unit]: shift, sum w, sum w^2 [width], sum w beta [L, width] */
  float *totals;  /* [panels, L, width] of all units */
  char *tails;    /* [B] the memory of a running sum */
  fopo_running *tail; /* [B] */

  /* The sparse part of the scores; NULL: there is none. */
  listed *list; /* all that are in the head, by panel and by chunk, each context's in order */
  size_t *
      list_at; /* [panels, chunks + 2] where each panel's chunks begin in list; the last: scratch */
} work;

static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

static size_t divided(size_t n, size_t by) { return (n + by - 1) / by; }

static work shape(size_t B, size_t H, size_t L) {
  work k = {.B = B, .H = H, .L = L, .width = B > FOPO_PANEL / 2 ? FOPO_PANEL : FOPO_PANEL / 2};
  k.panels = divided(B, k.width);
  k.chunk = divided(divided(H, CHUNKS), LEAST_CHUNK) * LEAST_CHUNK;
  if (k.chunk > MOST_CHUNK) k.chunk = MOST_CHUNK;
  if (k.chunk == 0) k.chunk = LEAST_CHUNK; /* a part of a catalogue may have none of the head */
  k.chunks = divided(H, k.chunk);
  k.unit = (3 + L) * k.width;
  return k;
}

/* How many ids the contexts before b have in their sparse rows. */
static size_t count_listed(const fopo_device_batch *batch, size_t b) {
  fopo_sparse_scores sparse = fopo_batch_scores(batch);
  size_t n = 0;
  for (size_t i = 0; i < b; i++) n += fopo_score_row_of(&sparse, i).n;
  return n;
}

static int reserve(work *k, fopo_device *d, const fopo_device_batch *batch) {
  size_t queries = rounded(k->panels * k->L * k->width * sizeof(float)), totals = queries;
  size_t sums = rounded(k->panels * k->chunks * k->unit * sizeof(float));
  size_t tails = k->B * rounded(fopo_running_bytes(k->L));
  size_t running = rounded(k->B * sizeof(fopo_running)), starts = 0, list = 0;
  if (batch->sparse.indptr != NULL) {
    starts = rounded(k->panels * (k->chunks + 2) * sizeof *k->list_at);
    list = rounded((count_listed(batch, k->B) + 1) * sizeof *k->list);
  }
  size_t bytes = queries + totals + sums + tails + running + starts + list;
  int status = fopo_cpu_reserve_shared(d, bytes, "the sums of a shared head");
  if (status == FOPO_OK) status = fopo_cpu_reserve(d, k->chunk * k->width * sizeof(float));
  if (status != FOPO_OK) return status;
  char *at = ((fopo_cpu *)d->state)->shared;
  k->queries = (float *)(void *)at;
  k->totals = (float *)(void *)(at + queries);
  k->sums = (float *)(void *)(at + queries + totals);
  k->tails = at + queries + totals + sums;
  k->tail = (fopo_running *)(void *)(k->tails + tails);
  if (starts == 0) return FOPO_OK;
  k->list_at = (size_t *)(void *)(k->tails + tails + running);
  k->list = (listed *)(void *)(k->tails + tails + running + starts);
  return FOPO_OK;
}

/* The queries of panel p, transposed; missing ones are 0. */
static void fill_panel(const work *k, const float *Q, size_t p) {
  float *panel = k->queries + p * k->L * k->width;
  for (size_t j = 0; j < k->width; j++) {
    size_t b = p * k->width + j;
    for (size_t i = 0; i < k->L; i++) panel[i * k->width + j] = b < k->B ? Q[b * k->L + i] : 0.0f;
  }
}

/* Lists the ids of the panel's sparse rows that are in the head, by the chunk that they are in: one
 * pass counts those of each chunk, a second one puts them there. */
static void list_panel(const work *k, const fopo_shared_head *head, const fopo_device_batch *batch,
                       size_t p) {
  size_t first = p * k->width, end = first + k->width < k->B ? first + k->width : k->B;
  size_t *at = k->list_at + p * (k->chunks + 2), *next = at + 1; /* next [chunks + 1] */
  size_t begin = count_listed(batch, first);
  fopo_sparse_scores sparse = fopo_batch_scores(batch);
  memset(at, 0, (k->chunks + 2) * sizeof *at);
  for (int put = 0; put < 2; put++) {
    for (size_t b = first; b < end; b++) {
      fopo_score_row row = fopo_score_row_of(&sparse, b);
      for (size_t i = 0; i < row.n; i++) {
        size_t place = head->place[row.ids[i]], chunk = place / k->chunk;
        if (place >= k->H) continue;
        size_t in_unit = place % k->chunk * k->width + (b - first);
        if (put) k->list[next[chunk]] = (listed){(uint32_t)in_unit, fopo_score_entry(&row, i)};
        next[chunk + !put]++;
      }
    }
    if (put) break;
    /* next[c] = where chunk c begins; when all are put, where it ends, which is at[c + 1] */
    next[0] = begin;
    for (size_t c = 0; c < k->chunks; c++) next[c + 1] += next[c];
    at[0] = begin;
  }
}

/* ---- a unit of the head ---- */

/* Adds s to the scores f [chunk, width] of a unit. */
static void add_listed(const work *k, float *f, size_t panel, size_t chunk) {
  const size_t *at = k->list_at + panel * (k->chunks + 2) + chunk;
  for (size_t i = at[0]; i < at[1]; i++) {
    f[k->list[i].at] = fopo_score_sum(f[k->list[i].at], k->list[i].value);
  }
}

/* The exponentials of f [n, width], relative to the largest score of each column, and their sums;
 * the shift of a column of masked items alone is -infinity, and its sums are 0. */
static void weigh_unit(float *f, float *w, float *shift, size_t n, size_t width) {
  const fopo_kernels *kernels = fopo_kernels_get();
  float finite[FOPO_PANEL];
  kernels->max_columns(shift, f, n, width);
  for (size_t j = 0; j < width; j++) finite[j] = shift[j] == -INFINITY ? 0.0f : shift[j];
  kernels->exp_columns(f, w, w + width, finite, n, width);
}

/* f [chunk, width] is scratch. */
static void sum_unit(const work *k, float *f, const fopo_shared_head *head, size_t panel,
                     size_t chunk) {
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t width = k->width, L = k->L, first = chunk * k->chunk;
  size_t n = k->H - first < k->chunk ? k->H - first : k->chunk;
  const float *queries = k->queries + panel * L * width;
  const float *rows = (const float *)head->rows.x + first * L;
  float *shift = k->sums + (panel * k->chunks + chunk) * k->unit, *w = shift + width;
  kernels->scores(f, rows, L, NULL, n, queries, L, width);
  if (k->list != NULL) add_listed(k, f, panel, chunk);
  weigh_unit(f, w, shift, n, width);
  memset(w + 2 * width, 0, L * width * sizeof *w);
  for (size_t s = 0; s < n; s += TILE) {
    kernels->add_products(w + 2 * width, rows + s * L, L, f + s * width,
                          n - s < TILE ? n - s : TILE, L, width);
  }
}

/* ---- the tail of a context, and its items that earn something ---- */

/* Items of the head that earn something in one context. */
typedef struct {
  const fopo_shared_head *head;
  const float *q;
  size_t L, n;
  uint32_t ids[REWARDED], places[REWARDED];
  float r[REWARDED];
} rewarded;

/* Adds them to the sums of w r and w r beta alone: that of w has them from the units. */
static void add_rewarded(fopo_running *sums, rewarded *x, const fopo_cpu_sparse *sparse) {
  const fopo_kernels *k = fopo_kernels_get();
  size_t n = x->n, L = x->L;
  float c[REWARDED];
  x->n = 0;
  if (n == 0) return;
  fopo_cpu_gather_dot(c, &x->head->rows, x->places, n, x->q, L);
  fopo_cpu_sparse_add(c, sparse, x->ids, n);
  float largest = k->max(c, n);
  if (largest > sums->shift) fopo_running_raise(sums, largest, L);
  if (sums->shift == -INFINITY && fopo_cpu_all_masked(c, n)) return;
  k->exp_sum(c, c, sums->shift, n);
  for (size_t i = 0; i < n; i++) {
    c[i] *= x->r[i];
    sums->wd += (double)c[i];
  }
  fopo_cpu_gather_axpy(sums->wd_beta, &x->head->rows, x->places, c, n, 0, L);
}

/* Takes an item into x, if it is in the head. */
static void take_rewarded(rewarded *x, uint32_t id, float r) {
  x->ids[x->n] = id;
  x->places[x->n] = x->head->place[id];
  x->r[x->n] = r;
  x->n += x->places[x->n] < x->head->H;
}

static void add_hits(fopo_running *sums, rewarded *x, const fopo_sparse_reward *reward,
                     uint32_t row, const fopo_cpu_sparse *sparse) {
  const uint32_t *hits = fopo_csr_row(&reward->Y, row);
  for (size_t i = 0; i < fopo_csr_count(&reward->Y, row); i++) {
    take_rewarded(x, hits[i], fopo_hit_value(reward->value, hits[i]));
    if (x->n == REWARDED) add_rewarded(sums, x, sparse);
  }
  add_rewarded(sums, x, sparse);
}

static void add_credit(fopo_running *sums, rewarded *x, const fopo_credit *credit, uint32_t row,
                       const fopo_cpu_sparse *sparse) {
  uint32_t action = credit->action[row];
  if (action == UINT32_MAX) return; /* of another part of the catalogue */
  take_rewarded(x, action, credit->weight[row] * (credit->gain[row] - credit->shift));
  add_rewarded(sums, x, sparse);
}

static void sum_tail(const work *k, size_t b, size_t n_next, const fopo_shared_head *head,
                     const fopo_sparse_reward *reward, const fopo_samples *tail,
                     const fopo_rows *items, const fopo_device_batch *batch) {
  size_t L = k->L;
  fopo_running *sums = &k->tail[b];
  fopo_cpu_sparse sparse;
  fopo_cpu_sparse_take(&sparse, batch, b);
  *sums = fopo_running_at(k->tails + b * rounded(fopo_running_bytes(L)), L);
  fopo_draws_of_context draws = fopo_cpu_draws(tail, items, &sparse, batch, b);
  draws.n_next = draws.n < batch->S ? 0 : n_next;
  fopo_running_add(sums, &draws);
  rewarded x;
  x.head = head, x.q = draws.q, x.L = L, x.n = 0;
  if (reward->Y.indptr != NULL) add_hits(sums, &x, reward, batch->rows[b], &sparse);
  if (reward->credit.action != NULL) {
    add_credit(sums, &x, &reward->credit, batch->rows[b], &sparse);
  }
}

/* The tails of TAILS contexts, each while rows of the next are on their way. */
static void sum_tails(const work *k, size_t first, const fopo_shared_head *head,
                      const fopo_sparse_reward *reward, const fopo_samples *tail,
                      const fopo_rows *items, const fopo_device_batch *batch) {
  size_t end = first + TAILS < k->B ? first + TAILS : k->B;
  for (size_t b = first; b < end; b++) {
    sum_tail(k, b, b + 1 < end ? batch->S : 0, head, reward, tail, items, batch);
  }
}

/* ---- joining ---- */

/* total [L, width] += factor[j] x [L, width], by columns. */
static void add_scaled(float *total, const float *x, const float *factor, size_t L, size_t width) {
  enum { HALF = FOPO_PANEL / 2 };
  for (size_t i = 0; i < L * width; i += HALF) {
    const float *scale = factor + i % width;
#pragma omp simd
    for (size_t j = 0; j < HALF; j++) total[i + j] += scale[j] * x[i + j];
  }
}

/* The sums of a tail and of the units, which are w, ww and column total [L, width]. */
static void put_joined(float *to, fopo_running *tail, double w, double ww, const float *total,
                       size_t L, size_t width) {
  tail->w += w;
  tail->ww += ww;
  tail->head = w;
  for (size_t i = 0; i < L; i++) tail->w_beta[i] += total[i * width];
  fopo_cpu_put_sums(to, tail, L);
}

/* V and the statistics of a context from the sums of its tail, and w, ww and column total [L,
 * width] of its units. As in estimate.c; only the rewarded items have a part in sum w r beta. */
static void put_estimate(const fopo_estimate *e, size_t b, const fopo_running *tail, double w,
                         double ww, const float *total, size_t L, size_t width) {
  double W = tail->w + w, rbar = tail->wd / W, W2 = tail->ww + ww;
  float *V = e->V + b * L, *stats = e->stats + b * FOPO_STATS;
  if (W == 0.0) { /* all that was looked at is masked */
    memset(V, 0, L * sizeof *V);
    memset(stats, 0, FOPO_STATS * sizeof *stats);
    return;
  }
  fopo_objective_rule rule = fopo_objective_rule_of(e->objective, rbar, (double)tail->shift, W);
  for (size_t i = 0; i < L; i++) {
    double w_beta = (double)tail->w_beta[i] + (double)total[i * width];
    V[i] = (float)fopo_objective_direction(&rule, (double)tail->wd_beta[i], rbar, w_beta, W);
  }
  stats[FOPO_STAT_REWARD] = (float)rule.value;
  stats[FOPO_STAT_ESS] = (float)(W * W / W2);
  stats[FOPO_STAT_MAX_WEIGHT] = (float)(1 / W);
  stats[FOPO_STAT_HEAD_MASS] = (float)(w / W);
}

/* Joins all units of panel p and its tails. */
static void join(const work *k, const fopo_estimate *e, size_t p) {
  size_t width = k->width, L = k->L, n = k->B - p * width < width ? k->B - p * width : width;
  float *units = k->sums + p * k->chunks * k->unit, *total = k->totals + p * L * width;
  float shift[FOPO_PANEL], finite[FOPO_PANEL], factor[FOPO_PANEL], sum[FOPO_PANEL];
  const fopo_kernels *kernels = fopo_kernels_get();
  double w[FOPO_PANEL] = {0}, ww[FOPO_PANEL] = {0};
  memset(total, 0, L * width * sizeof *total);

  /* the shift of each context: the largest of its units and of its tail */
  for (size_t j = 0; j < width; j++) {
    shift[j] = j < n ? k->tail[p * width + j].shift : units[j];
    for (size_t c = 0; c < k->chunks; c++) shift[j] = fmaxf(shift[j], units[c * k->unit + j]);
    finite[j] = shift[j] == -INFINITY ? 0.0f : shift[j]; /* all is masked: the sums are 0 */
  }

  /* w, ww [width] and total [L, width] = the sums of all units, scaled to these shifts */
  for (size_t c = 0; c < k->chunks; c++) {
    const float *unit = units + c * k->unit;
    float factor2[FOPO_PANEL];
    memcpy(factor, unit, width * sizeof *factor);
    kernels->exp_columns(factor, sum, factor2, finite, 1, width);
    for (size_t j = 0; j < width; j++) {
      w[j] += (double)factor[j] * (double)unit[width + j];
      ww[j] += (double)factor2[j] * (double)unit[2 * width + j];
    }
    add_scaled(total, unit + 3 * width, factor, L, width);
  }

  /* each context's units and its tail */
  for (size_t j = 0; j < n; j++) {
    size_t b = p * width + j;
    fopo_running *tail = &k->tail[b];
    if (shift[j] > tail->shift) fopo_running_raise(tail, shift[j], L);
    if (e->sums != NULL) {
      put_joined(e->sums + b * fopo_sums_width(L), tail, w[j], ww[j], total + j, L, width);
    } else {
      put_estimate(e, b, tail, w[j], ww[j], total + j, L, width);
    }
  }
}

int fopo_cpu_snis_head(fopo_device *d, const fopo_estimate *e, const fopo_shared_head *head,
                       const fopo_sparse_reward *reward, const fopo_samples *tail,
                       const fopo_rows *items, const fopo_device_batch *batch) {
  work k = shape(batch->B, head->H, batch->L);
  int status = reserve(&k, d, batch);
  if (status != FOPO_OK) return status;
  size_t units = k.panels * k.chunks;
#pragma omp parallel num_threads(fopo_threads())
  {
#pragma omp for schedule(static)
    for (size_t p = 0; p < k.panels; p++) {
      fill_panel(&k, batch->Q, p);
      if (k.list != NULL) list_panel(&k, head, batch, p);
    }
    /* the large units first, so that the threads end together */
#pragma omp for schedule(dynamic)
    for (size_t u = 0; u < units + divided(k.B, TAILS); u++) {
      if (u < units) {
        sum_unit(&k, fopo_cpu_scratch(d), head, u / k.chunks, u % k.chunks);
      } else {
        sum_tails(&k, (u - units) * TAILS, head, reward, tail, items, batch);
      }
    }
#pragma omp for schedule(dynamic)
    for (size_t p = 0; p < k.panels; p++) join(&k, e, p);
  }
  return FOPO_OK;
}
