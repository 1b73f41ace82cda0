/* What all contexts share: the items of a head, and draws of the others, the tail. Two dense
 * products over packed rows, and what each context has for itself: the items that earn something.
 *
 * A unit of work is a panel of up to 32 contexts times a chunk of the shared rows: its scores,
 * their exponentials, and the sums of w and w beta, each relative to the largest score of the unit.
 * Meanwhile the rows of the panel's own items come from memory. A context's own items and its units
 * are then joined, these in the order of the chunks. How the rows are cut follows from the sizes
 * alone, so the bits are the same for any number of threads. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"
#include "device/cpu/running.h"
#include "kernels/bloom.h"
#include "kernels/kernels.h"

enum {
  TILE = 128, /* rows of one product, which stay in L1 and L2 */

  /* Rows of a chunk: a unit must be worth more than joining it, but its scores stay in L2. Between
   * the two, 16 chunks give work to as many threads. */
  LEAST_CHUNK = 128,
  MOST_CHUNK = 512,
  CHUNKS = 16,

  GROUP = 8,  /* contexts that are listed, and joined, together; a panel has whole groups */
  STEP = 8,   /* rows whose scores are made between two prefetches */
  BLOCK = 64, /* own items of the head that are looked at together */
  AHEAD = 16, /* rows of the tail that are on their way while one is packed */
  LINE = 64   /* bytes that a prefetch brings */
};

/* ---- packing ---- */

static const char *row_of(const fopo_rows *items, size_t a) {
  return (const char *)items->x + a * items->ld * fopo_float_bytes(items->type);
}

/* to [L] = row a, in float32 */
static void widen_row(float *to, const fopo_rows *items, size_t a, size_t L) {
  const void *row = row_of(items, a);
  const uint16_t *half = row;
  switch (items->type) {
  case FOPO_FLOAT32: memcpy(to, row, L * sizeof *to); break;
  case FOPO_FLOAT16:
    for (size_t i = 0; i < L; i++) to[i] = fopo_from_float16(half[i]);
    break;
  case FOPO_BFLOAT16:
    for (size_t i = 0; i < L; i++) to[i] = fopo_from_bfloat16(half[i]);
    break;
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
    float *row = x + h * L;
    widen_row(row, items, order[h], L);
    if (products != FOPO_PRODUCTS_BFLOAT16) continue;
    for (size_t i = 0; i < L; i++) row[i] = fopo_from_bfloat16(fopo_to_bfloat16(row[i]));
  }
  return FOPO_OK;
}

/* ---- the shape of the work ---- */

/* A number that is added to a score of a unit: s, or -infinity. */
typedef struct {
  uint32_t chunk, at; /* `at` among the scores of the unit */
  float value;
} correction;

/* Items of the contexts' own, those of a group without gaps. */
typedef struct {
  uint32_t *at; /* their ids; of items in the head, their places */
  float *less;  /* minus the sparse part of the score, which running sums take as log q */
  float *r;
  size_t *first, *n; /* [B] where those of a context begin, and how many they are */
} own_items;

/* Of contexts: items that may earn something, and corrections that there may be. */
typedef struct {
  size_t own, corrections;
} counts;

typedef struct {
  const fopo_shared_head *head;
  const fopo_rows *items;
  const fopo_sparse_reward *reward;
  const fopo_device_batch *batch;
  size_t B, H, U, L;      /* U: draws that are held here */
  size_t places;          /* items that are held here */
  size_t width;           /* of a panel */
  size_t panels, groups;  /* of contexts; of a panel */
  size_t chunk;           /* rows */
  size_t of_head, chunks; /* those of the head, and all: those of the tail come behind */
  size_t unit;            /* floats of the sums of a unit */
  float density;          /* the log q of a draw */
  uint32_t *drawn, *ids;  /* [U] places in the norm order, ascending, and which items they are */
  float *rows;            /* [U, L] */
  uint32_t *bloom;        /* of the items of the head and the draws */
  unsigned bits;          /* of its hash */
  float *queries;         /* [panels, L, width] */
  float *sums; /* [panels, chunks, unit]: shift, sum w, sum w^2 [width], sum w beta [L, width] */
  own_items inside, outside; /* the head */
  counts *begin;             /* [groups] where those of a group begin, in them and in `found` */
  correction *found;
  size_t *n_found;     /* [groups] */
  atomic_size_t *left; /* [panels] units that are not made */
} work;

static size_t divided(size_t n, size_t by) { return (n + by - 1) / by; }

static work shape(const fopo_shared_head *head, size_t U, const fopo_device_batch *batch) {
  work k = {.head = head, .batch = batch, .B = batch->B, .H = head->H, .U = U, .L = batch->L};
  k.width = k.B > FOPO_PANEL / 2 ? FOPO_PANEL : FOPO_PANEL / 2;
  k.panels = divided(k.B, k.width);
  k.groups = k.width / GROUP;
  k.chunk = divided(divided(k.H, CHUNKS), LEAST_CHUNK) * LEAST_CHUNK;
  if (k.chunk > MOST_CHUNK) k.chunk = MOST_CHUNK;
  if (k.chunk == 0) k.chunk = LEAST_CHUNK; /* a part of a catalogue may have none of the head */
  k.of_head = divided(k.H, k.chunk);
  k.chunks = k.of_head + divided(k.U, k.chunk);
  k.unit = (3 + k.L) * k.width;
  for (k.bits = 5; (size_t)1 << k.bits < 32 * (k.H + k.U);) k.bits++;
  return k;
}

/* *n += those of context b. An item is drawn twice at most, in two strips that meet at it. */
static void count(counts *n, const work *k, size_t b) {
  fopo_sparse_scores sparse = fopo_batch_scores(k->batch);
  const fopo_sparse_reward *reward = k->reward;
  size_t own = reward->credit.action != NULL;
  if (reward->Y.indptr != NULL) own += fopo_csr_count(&reward->Y, k->batch->rows[b]);
  n->own += own;
  n->corrections += 2 * (own + fopo_score_row_of(&sparse, b).n);
}

/* The next n bytes of the memory; NULL while it is only measured. */
static void *take(char *memory, size_t *used, size_t n) {
  size_t at = *used;
  *used += (n + 63) / 64 * 64;
  return memory == NULL ? NULL : memory + at;
}

static size_t lay_out(work *k, char *memory) {
  counts most = {0, 0};
  size_t used = 0, panel = k->L * k->width * sizeof(float), all = k->panels * k->width;
  k->begin = take(memory, &used, all / GROUP * sizeof *k->begin);
  for (size_t b = 0; b < all; b++) {
    if (memory != NULL && b % GROUP == 0) k->begin[b / GROUP] = most;
    if (b < k->B) count(&most, k, b);
  }
  k->drawn = take(memory, &used, k->batch->S * sizeof *k->drawn);
  k->ids = take(memory, &used, k->batch->S * sizeof *k->ids);
  k->bloom = take(memory, &used, fopo_bloom_words(k->bits) * sizeof *k->bloom);
  k->rows = take(memory, &used, k->U * k->L * sizeof *k->rows);
  k->queries = take(memory, &used, k->panels * panel);
  k->sums = take(memory, &used, k->panels * k->chunks * k->unit * sizeof *k->sums);
  for (own_items *x = &k->inside; x <= &k->outside; x++) {
    x->at = take(memory, &used, most.own * sizeof *x->at);
    x->less = take(memory, &used, most.own * sizeof *x->less);
    x->r = take(memory, &used, most.own * sizeof *x->r);
    x->first = take(memory, &used, k->B * sizeof *x->first);
    x->n = take(memory, &used, k->B * sizeof *x->n);
  }
  k->found = take(memory, &used, most.corrections * sizeof *k->found);
  k->left = take(memory, &used, k->panels * sizeof *k->left);
  k->n_found = take(memory, &used, all / GROUP * sizeof *k->n_found);
  return used;
}

static int reserve(work *k, fopo_device *d) {
  int status = fopo_cpu_reserve_shared(d, lay_out(k, NULL), "the sums of a shared head");
  size_t unit = k->chunk * k->width * sizeof(float),
         own = GROUP * (fopo_running_bytes(k->L) + k->L * sizeof(float));
  if (status == FOPO_OK) status = fopo_cpu_reserve(d, unit > own ? unit : own);
  if (status == FOPO_OK) lay_out(k, ((fopo_cpu *)d->state)->shared);
  return status;
}

/* ---- the draws ---- */

/* Fills drawn, ids and the filter. Of a catalogue that is dealt out those of its part, whose rows
 * are places. */
static void draw(work *k, const fopo_shared_tail *tail) {
  const fopo_part *part = tail->part;
  size_t U = k->batch->S, M = k->batch->P - tail->H, n = 0;
  fopo_cpu_draw_ranks(k->drawn, FOPO_ROW_OF_BATCH, k->batch->key, U, M);
  for (size_t u = 0; u < U; u++) {
    size_t place = tail->H + k->drawn[u], row = part != NULL ? place / part->size : place;
    k->drawn[n] = (uint32_t)row;
    n += part == NULL || place % part->size == part->rank;
  }
  for (size_t u = 0; u < n; u++) k->ids[u] = k->head->order[k->drawn[u]];
  memset(k->bloom, 0, fopo_bloom_words(k->bits) * sizeof *k->bloom);
  for (size_t h = 0; h < k->H; h++) fopo_bloom_add(k->bloom, k->bits, k->head->order[h]);
  for (size_t u = 0; u < n; u++) fopo_bloom_add(k->bloom, k->bits, k->ids[u]);
  k->density = fopo_cpu_tail_density(U, M);
  k->U = n;
  k->chunks = k->of_head + divided(n, k->chunk);
}

/* Inlined, for gcc takes away the calls of a function that does nothing but prefetch. */
static inline __attribute__((always_inline)) void prefetch_row(const work *k, size_t a) {
  const char *row = row_of(k->items, a);
  size_t bytes = k->L * fopo_float_bytes(k->items->type);
  for (size_t i = 0; i < bytes; i += LINE) __builtin_prefetch(row + i);
}

/* Row u of the tail. */
static void pack_drawn(const work *k, size_t u) {
  if (u + AHEAD < k->U) prefetch_row(k, k->ids[u + AHEAD]);
  widen_row(k->rows + u * k->L, k->items, k->ids[u], k->L);
}

/* ---- what is known of contexts ---- */

/* The queries of a group, transposed, to their panel; missing ones are 0. */
static void fill_queries(const work *k, size_t first) {
  float *to = k->queries + first / k->width * k->L * k->width + first % k->width;
  const float *Q = k->batch->Q;
  for (size_t j = 0; j < GROUP; j++) {
    size_t b = first + j;
    for (size_t i = 0; i < k->L; i++) to[i * k->width + j] = b < k->B ? Q[b * k->L + i] : 0.0f;
  }
}

/* The place of an item that may be among the shared rows; of most others UINT32_MAX, for places lie
 * far apart in memory. */
static uint32_t place_of(const work *k, uint32_t id) {
  return fopo_bloom_may_hold(k->bloom, k->bits, id) ? k->head->place[id] : UINT32_MAX;
}

/* Adds `value` to the scores of context j of a panel wherever the item at `place` is among the
 * shared rows. The draws are spread evenly over the places behind the head. */
static void correct(const work *k, size_t *n, uint32_t place, size_t j, float value) {
  if (place < k->H) {
    k->found[(*n)++] = (correction){(uint32_t)(place / k->chunk),
                                    (uint32_t)(place % k->chunk * k->width + j), value};
    return;
  }
  if (place == UINT32_MAX) return;
  size_t behind = k->places - k->H;
  size_t u = (size_t)((double)(place - k->H) / (double)behind * (double)k->U);
  while (u > 0 && k->drawn[u - 1] >= place) u--;
  while (u < k->U && k->drawn[u] < place) u++;
  for (; u < k->U && k->drawn[u] == place; u++) {
    k->found[(*n)++] = (correction){(uint32_t)(k->of_head + u / k->chunk),
                                    (uint32_t)(u % k->chunk * k->width + j), value};
  }
}

static void add_own(own_items *x, size_t b, uint32_t at, float s, float r) {
  size_t i = x->first[b] + x->n[b]++;
  x->at[i] = at, x->less[i] = -s, x->r[i] = r;
}

/* An item that earns r in context b is one of its own. Outside the head it stands for itself, and
 * its draws for nothing. */
static void add_rewarded(work *k, size_t *n, size_t b, uint32_t id, float r) {
  fopo_sparse_scores sparse = fopo_batch_scores(k->batch);
  fopo_score_row row = fopo_score_row_of(&sparse, b);
  uint32_t place = place_of(k, id);
  float s = fopo_score_of(&row, id);
  if (place < k->H) {
    add_own(&k->inside, b, place, s, r);
  } else {
    add_own(&k->outside, b, id, s, r);
    correct(k, n, place, b % k->width, -INFINITY);
  }
}

/* Context b: corrections of its sparse scores, and its own items. */
static void list_context(work *k, size_t *n, size_t b) {
  const fopo_sparse_reward *reward = k->reward;
  fopo_sparse_scores sparse = fopo_batch_scores(k->batch);
  fopo_score_row row = fopo_score_row_of(&sparse, b);
  uint32_t context = k->batch->rows[b], action = UINT32_MAX; /* of another part of the catalogue */
  float given = 0.0f;
  for (size_t i = 0; i < row.n; i++) {
    correct(k, n, place_of(k, row.ids[i]), b % k->width, fopo_score_entry(&row, i));
  }
  if (reward->credit.action != NULL) {
    const fopo_credit *c = &reward->credit;
    action = c->action[context];
    if (action != UINT32_MAX) given = c->weight[context] * (c->gain[context] - c->shift);
  }
  size_t hits = reward->Y.indptr != NULL ? fopo_csr_count(&reward->Y, context) : 0;
  for (size_t i = 0; i < hits; i++) {
    uint32_t id = fopo_csr_row(&reward->Y, context)[i];
    float r = fopo_hit_value(reward->value, id);
    add_rewarded(k, n, b, id, id == action ? r + given : r);
    if (id == action) action = UINT32_MAX;
  }
  if (action != UINT32_MAX) add_rewarded(k, n, b, action, given);
}

/* Brings the ids of context b. */
static inline __attribute__((always_inline)) void prefetch_ids(const work *k, size_t b) {
  fopo_sparse_scores sparse = fopo_batch_scores(k->batch);
  fopo_score_row row = fopo_score_row_of(&sparse, b);
  const fopo_csr *Y = &k->reward->Y;
  uint32_t context = k->batch->rows[b];
  for (size_t i = 0; i < row.n; i += LINE / sizeof *row.ids) __builtin_prefetch(row.ids + i);
  if (Y->indptr == NULL) return;
  for (size_t i = 0; i < fopo_csr_count(Y, context); i += LINE / sizeof *Y->ids) {
    __builtin_prefetch(fopo_csr_row(Y, context) + i);
  }
}

/* The contexts of group g: their queries, corrections and own items. */
static void list_group(work *k, size_t g) {
  size_t first = g * GROUP, end = first + GROUP < k->B ? first + GROUP : k->B;
  counts begin = k->begin[g];
  size_t n = begin.corrections, inside = begin.own, outside = inside;
  for (size_t b = first; b < end; b++) prefetch_ids(k, b);
  fill_queries(k, first);
  for (size_t b = first; b < end; b++) {
    k->inside.first[b] = inside, k->outside.first[b] = outside;
    k->inside.n[b] = k->outside.n[b] = 0;
    list_context(k, &n, b);
    inside += k->inside.n[b], outside += k->outside.n[b];
  }
  k->n_found[g] = n - begin.corrections;
}

/* ---- a unit of the shared rows ---- */

/* Corrects the scores f [chunk, width] of a unit. */
static void correct_unit(const work *k, float *f, size_t panel, size_t chunk) {
  for (size_t g = panel * k->groups; g < (panel + 1) * k->groups; g++) {
    const correction *x = k->found + k->begin[g].corrections;
    for (size_t i = 0; i < k->n_found[g]; i++) {
      if (x[i].chunk == chunk) f[x[i].at] = fopo_score_sum(f[x[i].at], x[i].value);
    }
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

/* Ids of own items whose rows a unit brings: those of one group of the panel, as far as there are
 * units enough. */
static const uint32_t *to_bring(const work *k, size_t *n, size_t panel, size_t chunk) {
  size_t g = panel * k->groups + chunk, end = (g + 1) * GROUP < k->B ? (g + 1) * GROUP : k->B;
  if (chunk >= k->groups || g * GROUP >= k->B) return NULL;
  size_t first = k->outside.first[g * GROUP];
  *n = k->outside.first[end - 1] + k->outside.n[end - 1] - first;
  return k->outside.at + first;
}

/* f [chunk, width] is scratch. The weights of draws are exp(f - density), all relative to a shift
 * that has the density in it. */
static void sum_unit(const work *k, float *f, size_t panel, size_t chunk) {
  const fopo_kernels *kernels = fopo_kernels_get();
  int is_head = chunk < k->of_head;
  size_t width = k->width, L = k->L, first = (is_head ? chunk : chunk - k->of_head) * k->chunk;
  size_t all = is_head ? k->H : k->U, n = all - first < k->chunk ? all - first : k->chunk;
  const float *queries = k->queries + panel * L * width;
  const float *rows = (is_head ? (const float *)k->head->rows.x : k->rows) + first * L;
  float *shift = k->sums + (panel * k->chunks + chunk) * k->unit, *w = shift + width;
  size_t n_own = 0, brought = 0;
  const uint32_t *own = to_bring(k, &n_own, panel, chunk);
  for (size_t s = 0; s < n; s += STEP) {
    size_t m = n - s < STEP ? n - s : STEP;
    for (; brought * n < n_own * (s + m); brought++) prefetch_row(k, own[brought]);
    kernels->scores(f + s * width, rows + s * L, L, NULL, m, queries, L, width);
  }
  correct_unit(k, f, panel, chunk);
  weigh_unit(f, w, shift, n, width);
  for (size_t j = 0; j < width && !is_head; j++) shift[j] -= k->density;
  memset(w + 2 * width, 0, L * width * sizeof *w);
  for (size_t s = 0; s < n; s += TILE) {
    kernels->add_products(w + 2 * width, rows + s * L, L, f + s * width,
                          n - s < TILE ? n - s : TILE, L, width);
  }
}

/* ---- the own items of a context ---- */

/* Adds those in the head to the sums of w r and w r beta alone: that of w has them from the units.
 */
static void add_inside(fopo_running *sums, const work *k, size_t b) {
  const fopo_kernels *kernels = fopo_kernels_get();
  const fopo_rows *rows = &k->head->rows;
  size_t L = k->L, first = k->inside.first[b], end = first + k->inside.n[b];
  for (size_t i = first; i < end; i += BLOCK) {
    size_t n = end - i < BLOCK ? end - i : BLOCK;
    const uint32_t *at = k->inside.at + i;
    float c[BLOCK];
    fopo_cpu_gather_dot(c, rows, at, n, k->batch->Q + b * L, L);
    for (size_t j = 0; j < n; j++) c[j] = fopo_score_sum(c[j], -k->inside.less[i + j]);
    float largest = kernels->max(c, n);
    if (largest > sums->shift) fopo_running_raise(sums, largest, L);
    if (sums->shift == -INFINITY && fopo_cpu_all_masked(c, n)) continue;
    kernels->exp_sum(c, c, sums->shift, n);
    for (size_t j = 0; j < n; j++) {
      c[j] *= k->inside.r[i + j];
      sums->wd += (double)c[j];
    }
    fopo_cpu_gather_axpy(sums->wd_beta, rows, at, c, n, 0, L);
  }
}

/* The sums over the own items of context b. */
static fopo_running sum_own(const work *k, size_t b, void *memory) {
  static const fopo_cpu_sparse none;
  const own_items *x = &k->outside;
  size_t at = x->first[b], L = k->L;
  fopo_draws_of_context own = {.q = k->batch->Q + b * L,
                               .L = L,
                               .sparse = &none,
                               .items = k->items,
                               .ids = x->at + at,
                               .logq = x->less + at,
                               .r = x->r + at,
                               .n = x->n[b],
                               .floor = INFINITY};
  fopo_running sums = fopo_running_at(memory, L);
  fopo_running_add(&sums, &own);
  add_inside(&sums, k, b);
  return sums;
}

/* ---- joining ---- */

/* V and the statistics of a context, from its sums. As in estimate.c; only its own items have a
 * part in sum w r beta. */
static void put_estimate(const fopo_estimate *e, size_t b, const fopo_running *all, size_t L) {
  double W = all->w, rbar = all->wd / W;
  float *V = e->V + b * L, *stats = e->stats + b * FOPO_STATS;
  if (W == 0.0) { /* all that was looked at is masked */
    memset(V, 0, L * sizeof *V);
    memset(stats, 0, FOPO_STATS * sizeof *stats);
    return;
  }
  fopo_objective_rule rule = fopo_objective_rule_of(e->objective, rbar, (double)all->shift, W);
  double of_wd = rule.gamma / W, of_w = (rule.alpha - rule.gamma * rbar) / W;
#pragma omp simd
  for (size_t i = 0; i < L; i++) {
    V[i] = (float)(of_wd * (double)all->wd_beta[i] + of_w * (double)all->w_beta[i]);
  }
  stats[FOPO_STAT_REWARD] = (float)rule.value;
  stats[FOPO_STAT_ESS] = (float)(W * W / all->ww);
  stats[FOPO_STAT_MAX_WEIGHT] = (float)(1 / W);
  stats[FOPO_STAT_HEAD_MASS] = (float)(all->head / W);
}

/* Joins the units and the own items of the contexts of group g; memory: scratch. */
static void join(const work *k, const fopo_estimate *e, size_t g, char *memory) {
  enum { HALF = FOPO_PANEL / 2 }; /* columns that exp_columns takes */
  size_t first = g * GROUP, L = k->L, n = k->B - first < GROUP ? k->B - first : GROUP;
  const float *units = k->sums + g / k->groups * k->chunks * k->unit + first % k->width;
  float *total = (float *)(void *)(memory + GROUP * fopo_running_bytes(L)); /* [L, GROUP] */
  float shift[GROUP], finite[HALF] = {0}, factor[HALF] = {0}, factor2[HALF], sum[HALF];
  double w[GROUP] = {0}, ww[GROUP] = {0}, in_head[GROUP] = {0};
  fopo_running own[GROUP];
  const fopo_kernels *kernels = fopo_kernels_get();
  memset(total, 0, L * GROUP * sizeof *total);

  /* the shift of each context: the largest of its units and of its own items */
  for (size_t j = 0; j < GROUP; j++) {
    if (j < n) own[j] = sum_own(k, first + j, memory + j * fopo_running_bytes(L));
    shift[j] = j < n ? own[j].shift : -INFINITY;
    for (size_t c = 0; c < k->chunks; c++) shift[j] = fmaxf(shift[j], units[c * k->unit + j]);
    finite[j] = shift[j] == -INFINITY ? 0.0f : shift[j]; /* all is masked: the sums are 0 */
  }

  /* w, ww and total = the sums of all units, scaled to these shifts */
  for (size_t c = 0; c < k->chunks; c++) {
    const float *unit = units + c * k->unit, *x = unit + 3 * k->width;
    memcpy(factor, unit, GROUP * sizeof *factor);
    kernels->exp_columns(factor, sum, factor2, finite, 1, HALF);
    for (size_t j = 0; j < GROUP; j++) {
      w[j] += (double)factor[j] * (double)unit[k->width + j];
      ww[j] += (double)factor2[j] * (double)unit[2 * k->width + j];
      if (c < k->of_head) in_head[j] = w[j];
    }
    for (size_t i = 0; i < L; i++) {
#pragma omp simd
      for (size_t j = 0; j < GROUP; j++) total[i * GROUP + j] += factor[j] * x[i * k->width + j];
    }
  }

  /* each context's units and its own items */
  for (size_t j = 0; j < n; j++) {
    fopo_running *all = &own[j];
    if (shift[j] > all->shift) fopo_running_raise(all, shift[j], L);
    all->w += w[j], all->ww += ww[j], all->head = in_head[j];
    for (size_t i = 0; i < L; i++) all->w_beta[i] += total[i * GROUP + j];
    if (e->sums != NULL) {
      fopo_cpu_put_sums(e->sums + (first + j) * fopo_sums_width(L), all, L);
    } else {
      put_estimate(e, first + j, all, L);
    }
  }
}

static void join_panel(const work *k, const fopo_estimate *e, size_t p, char *memory) {
  size_t end = (p + 1) * k->groups, all = divided(k->B, GROUP);
  for (size_t g = p * k->groups; g < end && g < all; g++) join(k, e, g, memory);
}

int fopo_cpu_snis_shared(fopo_device *d, const fopo_estimate *e, const fopo_shared_head *head,
                         const fopo_shared_tail *tail, const fopo_sparse_reward *reward,
                         const fopo_rows *items, const fopo_device_batch *batch) {
  work k = shape(head, batch->S, batch);
  k.items = items, k.reward = reward;
  k.places = tail->part != NULL ? tail->part->rows : batch->P;
  int status = reserve(&k, d);
  if (status != FOPO_OK) return status;
  draw(&k, tail);
  size_t units = k.chunks > 0 ? k.chunks : 1; /* of a panel; a part may have no shared row */
  for (size_t p = 0; p < k.panels; p++) atomic_init(&k.left[p], units);
  int threads = fopo_threads_for(2 * k.B * (k.H + k.U) * k.L);
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(static) nowait
    for (size_t u = 0; u < k.U; u++) pack_drawn(&k, u);
#pragma omp for schedule(dynamic)
    for (size_t g = 0; g < k.panels * k.groups; g++) list_group(&k, g);
#pragma omp for schedule(dynamic)
    for (size_t u = 0; u < k.panels * units; u++) {
      size_t panel = u / units;
      if (k.chunks > 0) sum_unit(&k, fopo_cpu_scratch(d), panel, u % units);
      /* the last unit of a panel: its own items are in the cache */
      if (atomic_fetch_sub(&k.left[panel], 1) == 1) join_panel(&k, e, panel, fopo_cpu_scratch(d));
    }
  }
  return FOPO_OK;
}
