/* One pass over the items by descending norm, in blocks that end at the steps of the ladder. Of
 * each context it keeps
 *
 *   sum exp(f) of each step of the ladder, as (m, z): z exp(m), m the largest f of the step,
 *   the keys of the K best scores so far.
 *
 * The sparse scores of a context are added as the pass comes to their places in the order. Of the
 * items that the pass leaves out, some stand for all: they tell the share of the whole mass.
 *
 * A context is settled when the items left cannot matter to its top K: no score left exceeds |q|
 * |beta|, |beta| the norm of the first item left (Cauchy-Schwarz).
 *
 * A block is scored tile by tile and then summed context by context, each by one thread in a fixed
 * order: the same bits for any number of threads. */
#include "plan/mass_probe.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/norm.h"
#include "core/progress.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "mips/topk.h"

enum {
  CONTEXTS = FOPO_MASS_CONTEXTS,
  BLOCK = 8192, /* items of a block, at most; its scores take 512 KB */
  TILE = 256,   /* items of one call of `scores` */
  REST = 512,   /* items that stand for those that are not scored, at most */
  STEPS = 80    /* of the ladder, at most: 4 up to 1,024, then 2 for each doubling; the last one of
                 * these is that of the rest */
};

/* What a settled top K may still miss, of its mass; and if all it could come to is held. */
static const double trifle = 1.0 / 2000.0, loose = 0.05;

typedef struct {
  double norm;    /* |q| */
  float m[STEPS]; /* of each step of the ladder */
  double z[STEPS];
  uint64_t *keys;    /* [k + BLOCK] */
  size_t n;          /* of keys: all that were seen, or k */
  float floor;       /* the k-th best score; -inf while there are fewer */
  double T;          /* the mass of the keys, relative to exp(top) */
  float top;         /* the largest score */
  uint64_t *entries; /* [n_entries] of the sparse scores, not yet added: place in the norm order
                      * here, then the bits of s; the first place last */
  size_t n_entries;
  float most; /* the largest s of all parts, at least 0 */
} context;

struct fopo_mass_probe {
  size_t L, capacity; /* that of k */
  uint64_t P;         /* items of all parts of the catalogue */
  float beyond;       /* the norm of the first item that was not scored, of parts */
  const fopo_mass_order *order;
  size_t n, k;       /* contexts; candidates */
  float *panel;      /* [L, CONTEXTS] the queries, transposed */
  float *scores;     /* [CONTEXTS, BLOCK] of the block */
  float *scratch;    /* [CONTEXTS, k] */
  uint64_t *wanted;  /* [most_words] bits: 1 for an item that has an entry */
  uint64_t *places;  /* [n_places] of these items: the item, then its place in the norm order;
                      * descending */
  uint64_t *entries; /* [most_entries] those of all contexts */
  size_t most_words, most_entries, n_places;
  context of[CONTEXTS];
  uint64_t ends[STEPS]; /* the steps of the ladder */
  size_t steps;         /* how many of them were begun */
};

typedef fopo_mass_probe probe;

/* ---- the sparse scores ---- */

static uint64_t entry_of(uint32_t place, float s) {
  uint32_t bits;
  memcpy(&bits, &s, sizeof bits);
  return (uint64_t)place << 32 | bits;
}

static float entry_score(uint64_t entry) {
  uint32_t bits = (uint32_t)entry;
  float s;
  memcpy(&s, &bits, sizeof s);
  return s;
}

static int reserve_entries(probe *p, size_t words, size_t entries) {
  if (words > p->most_words) {
    fopo_free(p->wanted);
    p->wanted = fopo_alloc(words, sizeof *p->wanted);
    p->most_words = p->wanted != NULL ? words : 0;
  }
  if (entries > p->most_entries) {
    fopo_free(p->places);
    fopo_free(p->entries);
    p->places = fopo_alloc(entries, sizeof *p->places);
    p->entries = fopo_alloc(entries, sizeof *p->entries);
    p->most_entries = p->places != NULL && p->entries != NULL ? entries : 0;
  }
  return p->most_words >= words && p->most_entries >= entries ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* The row of an item here; UINT32_MAX: another part has it. */
static uint32_t row_here(const probe *p, uint32_t item) {
  const fopo_shard *shard = p->order->shard;
  return shard != NULL ? fopo_part_row(&shard->part, item) : item;
}

/* Lists the places of all items that have an entry: a pass over the order and few bits, where the
 * places of all items would be as many writes anywhere in memory. */
static void list_places(probe *p) {
  const fopo_mass_order *o = p->order;
  for (size_t b = 0; b < p->n; b++) {
    fopo_score_row row = fopo_score_row_of(o->sparse, b);
    for (size_t i = 0; i < row.n; i++) {
      uint32_t here = row_here(p, row.ids[i]);
      if (here != UINT32_MAX) p->wanted[here / 64] |= (uint64_t)1 << here % 64;
    }
  }
  p->n_places = 0;
  for (size_t i = 0; i < o->items.rows; i++) {
    uint32_t a = o->order[i];
    if (p->wanted[a / 64] >> a % 64 & 1) p->places[p->n_places++] = (uint64_t)a << 32 | i;
  }
  fopo_sort_keys(p->places, p->n_places);
}

/* Of an item that is listed. */
static uint32_t place_in_order(const probe *p, uint32_t here) {
  size_t low = 0, high = p->n_places - 1;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (p->places[middle] >> 32 > here) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return (uint32_t)p->places[low];
}

/* The entries of a context whose items are here, at `to`. */
static void find_entries(context *c, const probe *p, uint64_t *to, const fopo_score_row *row) {
  c->entries = to;
  for (size_t i = 0; i < row->n; i++) {
    uint32_t here = row_here(p, row->ids[i]);
    float s = fopo_score_entry(row, i);
    c->most = fmaxf(c->most, s);
    if (here != UINT32_MAX) to[c->n_entries++] = entry_of(place_in_order(p, here), s);
  }
  fopo_sort_keys(to, c->n_entries);
}

/* Sorts the sparse scores of all contexts into the norm order. */
static int begin_sparse(probe *p) {
  const fopo_mass_order *o = p->order;
  size_t total = 0, first = 0, words = o->items.rows / 64 + 1;
  for (size_t b = 0; b < p->n; b++) total += fopo_score_row_of(o->sparse, b).n;
  if (total == 0) return FOPO_OK;
  int status = reserve_entries(p, words, total);
  if (status != FOPO_OK) return status;
  memset(p->wanted, 0, words * sizeof *p->wanted);
  list_places(p);
  for (size_t b = 0; b < p->n; b++) {
    fopo_score_row row = fopo_score_row_of(o->sparse, b);
    find_entries(&p->of[b], p, p->entries + first, &row);
    first += row.n;
  }
  return FOPO_OK;
}

/* Adds s to the scores f [n] of the ranks from `first` on; those before have been added. */
static void add_sparse(context *c, float *f, uint64_t first, size_t n) {
  for (; c->n_entries > 0; c->n_entries--) {
    uint64_t entry = c->entries[c->n_entries - 1], at = (entry >> 32) - first;
    if (at >= n) return;
    f[at] = fopo_score_sum(f[at], entry_score(entry));
  }
}

/* ---- a block ---- */

/* scores [CONTEXTS, BLOCK] = the items ids [n]. */
static void score_block(probe *p, const uint32_t *ids, size_t n) {
  const fopo_kernels *kernels = fopo_kernels_get();
  fopo_matrix items = p->order->items;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (n > TILE)
  for (size_t start = 0; start < n; start += TILE) {
    float tile[TILE * CONTEXTS];
    size_t count = n - start < TILE ? n - start : TILE;
    kernels->scores(tile, items.x, items.ld, ids + start, count, p->panel, items.cols, CONTEXTS);
    for (size_t b = 0; b < p->n; b++) {
      float *f = p->scores + b * BLOCK + start;
      for (size_t s = 0; s < count; s++) f[s] = tile[s * CONTEXTS + b];
    }
  }
}

/* Keeps the k best of the keys. */
static void keep_best(context *c, size_t k) {
  const fopo_kernels *kernels = fopo_kernels_get();
  if (c->n < k) return;
  uint64_t kth = kernels->kth(c->keys, c->n, k);
  c->n = kernels->partition_at_least(c->keys, c->n, kth);
  c->floor = fopo_topk_score(kth);
}

/* Keeps the k best of the keys and of the scores f [n] of the ranks from `first` on. */
static void select_best(context *c, const float *f, uint64_t first, size_t n, size_t k) {
  for (size_t s = 0; s < n; s++) {
    if (f[s] > c->floor) c->keys[c->n++] = fopo_topk_key(f[s], (uint32_t)(first + s));
  }
  keep_best(c, k);
}

/* T = sum over the keys of exp(f - top). scratch [k]. */
static void weigh_best(context *c, float *scratch) {
  size_t n = c->n;
  for (size_t i = 0; i < n; i++) scratch[i] = fopo_topk_score(c->keys[i]);
  c->T = fopo_kernels_get()->exp_sum(scratch, scratch, c->top, n);
}

/* Adds f [n] to the sum of the last step of the ladder; f is overwritten. */
static void add_mass(context *c, size_t step, float *f, size_t n) {
  const fopo_kernels *kernels = fopo_kernels_get();
  float largest = kernels->max(f, n);
  if (largest == -INFINITY) return; /* all masked */
  if (largest > c->m[step]) {
    c->z[step] *= exp((double)c->m[step] - (double)largest);
    c->m[step] = largest;
  }
  if (largest > c->top) c->top = largest;
  c->z[step] += kernels->exp_sum(f, f, c->m[step], n);
}

static void add_block(probe *p, uint64_t first, size_t n) {
  score_block(p, p->order->order + first, n);
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < p->n; b++) {
    float *f = p->scores + b * BLOCK;
    add_sparse(&p->of[b], f, first, n);
    select_best(&p->of[b], f, first, n, p->k);
    add_mass(&p->of[b], p->steps - 1, f, n);
    weigh_best(&p->of[b], p->scratch + b * p->k);
  }
}

/* What the items from rank `at` on can add to T_b: at most K items, each of at most exp(|q| |beta|
 * + s), s the context's largest, in the place of the smallest keys. scratch holds the weights of
 * the keys. */
static double gain_of(const probe *p, size_t b, uint64_t at) {
  const context *c = &p->of[b];
  const float *w = p->scratch + b * p->k;
  if (at == p->P) return 0.0;
  double norm = (double)(p->order->shard != NULL ? p->beyond : p->order->norms[at]);
  double most = c->norm * norm + (double)c->most;
  if (c->n == p->k && most <= (double)c->floor) return 0.0;
  double weight = exp(most - (double)c->top), gain = (double)(p->k - c->n) * weight;
  for (size_t i = 0; i < c->n; i++) gain += fmax(0.0, weight - (double)w[i]);
  return gain;
}

/* The mass of a step of the ladder, relative to exp(top). */
static double mass_of_step(const context *c, size_t step) {
  return c->z[step] > 0.0 ? c->z[step] * exp((double)c->m[step] - (double)c->top) : 0.0;
}

/* The mass of all items scored. */
static double mass_of(const context *c, size_t steps) {
  double mass = 0.0;
  for (size_t i = 0; i < steps; i++) mass += mass_of_step(c, i);
  return mass;
}

/* True if no item from rank `at` on matters to any top K. */
static int is_settled(const probe *p, uint64_t at) {
  for (size_t b = 0; b < p->n; b++) {
    const context *c = &p->of[b];
    double gain = gain_of(p, b, at);
    int held = gain <= loose * c->T && mass_of(c, p->steps) >= c->T + gain;
    if (gain > trifle * c->T && !held) return 0;
  }
  return 1;
}

/* ---- the pass ---- */

static void begin_step(probe *p) {
  uint64_t before = p->steps > 0 ? p->ends[p->steps - 1] : 0;
  p->ends[p->steps] = fopo_mass_next(before, p->P);
  for (size_t b = 0; b < p->n; b++) {
    p->of[b].m[p->steps] = -INFINITY;
    p->of[b].z[p->steps] = 0.0;
  }
  p->steps++;
}

/* How many of the first `places` of the norm order are scored by this process. */
static size_t here(const probe *p, uint64_t places) {
  const fopo_shard *s = p->order->shard;
  return s == NULL ? (size_t)places : fopo_part_places(&s->part, (size_t)places);
}

/* Scores at least `least` ranks, and until the top K are settled or `horizon` is reached; returns
 * how many. */
static int run(uint64_t *scored, probe *p, uint64_t least, uint64_t horizon) {
  uint64_t at = 0;
  while (at < horizon && (at < least || !is_settled(p, at))) {
    if (p->steps == 0 || at == p->ends[p->steps - 1]) begin_step(p);
    uint64_t end = p->ends[p->steps - 1] < horizon ? p->ends[p->steps - 1] : horizon;
    size_t n = end - at < BLOCK ? (size_t)(end - at) : BLOCK;
    size_t first = here(p, at), last = here(p, at + n);
    if (last > first) add_block(p, first, last - first);
    at += n;
    int status = fopo_interrupted() ? fopo_progress("probing the norms", 0.0, 0.0) : FOPO_OK;
    if (status != FOPO_OK) return status;
  }
  *scored = at;
  return FOPO_OK;
}

/* ---- what was not scored ---- */

/* Places of the norm order, at equal distances among those from `first` on; returns how many. */
static size_t choose_rest(uint32_t *places, size_t first, size_t end) {
  size_t left = end - first, n = left < REST ? left : REST;
  for (size_t i = 0; i < n; i++) places[i] = (uint32_t)(first + (2 * i + 1) * left / (2 * n));
  return n;
}

/* Adds s to the scores f [n] of these places; of the entries those before are left out. */
static void add_sparse_at(context *c, float *f, const uint32_t *places, size_t n) {
  for (size_t i = 0; i < n; i++) {
    while (c->n_entries > 0 && c->entries[c->n_entries - 1] >> 32 < places[i]) c->n_entries--;
    if (c->n_entries == 0) return;
    uint64_t entry = c->entries[c->n_entries - 1];
    if (entry >> 32 == places[i]) f[i] = fopo_score_sum(f[i], entry_score(entry));
  }
}

/* The sum of exp(f) over what this process has from rank `scored` on, by items that stand for
 * equally many each: the step after the last one. */
static void add_rest(probe *p, uint64_t scored) {
  const uint32_t *order = p->order->order;
  uint32_t places[REST], ids[REST];
  size_t first = here(p, scored), end = p->order->items.rows, n = choose_rest(places, first, end);
  for (size_t i = 0; i < n; i++) ids[i] = order[places[i]];
  score_block(p, ids, n);
  for (size_t b = 0; b < p->n; b++) {
    context *c = &p->of[b];
    float *f = p->scores + b * BLOCK;
    c->m[p->steps] = -INFINITY;
    c->z[p->steps] = 0.0;
    if (n == 0) continue;
    add_sparse_at(c, f, places, n);
    add_mass(c, p->steps, f, n);
    c->z[p->steps] *= (double)(end - first) / (double)n;
    weigh_best(c, p->scratch + b * p->k);
  }
}

/* ---- the shares ---- */

/* held [steps]: the mean share, of each context's whole mass or of that of its own top K, that the
 * items up to the end of each step hold, over the contexts with an item that is not masked; 1 if
 * there is none. The last step may have been scored in part only; its share is then a lower bound.
 */
static void find_shares(double *held, const probe *p, int of_top) {
  size_t n = 0;
  for (size_t b = 0; b < p->n; b++) n += p->of[b].T > 0.0;
  for (size_t i = 0; i < p->steps; i++) held[i] = n > 0 ? 0.0 : 1.0;
  for (size_t b = 0; b < p->n; b++) {
    const context *c = &p->of[b];
    double cumulated = 0.0, all = of_top ? c->T : mass_of(c, p->steps + 1);
    for (size_t i = 0; i < p->steps && c->T > 0.0; i++) {
      cumulated += mass_of_step(c, i);
      held[i] += fmin(1.0, cumulated / all);
    }
  }
  for (size_t i = 0; i < p->steps && n > 0; i++) held[i] /= (double)n; /* at most 1: n was exact */
}

/* The smallest step of k items or more that keeps enough; the last one holds all of the mass. */
static void decide(fopo_mass_found *found, const probe *p, double keep, uint64_t head) {
  double kept[STEPS], held[STEPS];
  find_shares(kept, p, 1);
  find_shares(held, p, 0);
  size_t i = 0, last = p->steps - 1;
  while (i < last && (p->ends[i] < p->k || kept[i] < keep)) i++;
  found->wanted = p->ends[i];
  found->kept = kept[i];
  found->held = found->held_at_head = found->wanted < p->P ? held[i] : 1.0;
  for (size_t j = 0; j <= last; j++) {
    if (p->ends[j] <= head) found->held_at_head = held[j];
  }
  if (head == p->P) found->held_at_head = 1.0;
}

/* ---- one probe ---- */

/* 0 if a score may not be finite. */
static int begin(probe *p, const fopo_mass_order *order, fopo_matrix Q, size_t k) {
  double most = (double)(order->shard != NULL ? order->shard->top_norm : order->norms[0]);
  p->order = order;
  p->P = order->shard == NULL ? order->items.rows : order->shard->part.P;
  p->n = Q.rows;
  p->k = k;
  p->steps = 0;
  for (size_t b = 0; b < p->n; b++) {
    context *c = &p->of[b];
    const float *q = fopo_matrix_row(Q, b);
    *c = (context){.norm = fopo_norm(q, p->L), .keys = c->keys};
    c->floor = c->top = -INFINITY;
    for (size_t l = 0; l < p->L; l++) p->panel[l * CONTEXTS + b] = q[l];
    if (!(c->norm * fmax(1.0, most) < (double)FLT_MAX / 4.0)) return 0;
  }
  return 1;
}

/* ---- the parts of a catalogue ---- */

/* What a part has found for a context; `scores` [k] follow in memory. */
typedef struct {
  double m[STEPS], z[STEPS];
  double beyond; /* the norm of the part's first item that was not scored */
} found_part;

/* The i-th context's findings of a part, `bytes` each. */
static void *place_of(void *block, size_t bytes, size_t i) { return (char *)block + i * bytes; }

static void put_part(found_part *to, const probe *p, size_t b, uint64_t horizon) {
  const context *c = &p->of[b];
  const fopo_shard *s = p->order->shard;
  float *scores = (float *)(void *)(to + 1);
  size_t next = here(p, horizon);
  to->beyond = next < s->part.rows ? (double)p->order->norms[next] : 0.0;
  for (size_t i = 0; i < STEPS; i++) {
    to->m[i] = i <= p->steps ? (double)c->m[i] : -(double)INFINITY;
    to->z[i] = i <= p->steps ? c->z[i] : 0.0;
  }
  for (size_t i = 0; i < p->k; i++) {
    scores[i] = i < c->n ? fopo_topk_score(c->keys[i]) : -INFINITY;
  }
}

/* Adds what rank r has found to context b, which is empty at first. */
static void take_part(probe *p, size_t b, const found_part *from, uint32_t r) {
  context *c = &p->of[b];
  const float *scores = (const float *)(const void *)(from + 1);
  uint32_t R = p->order->shard->part.size;
  p->beyond = fmaxf(p->beyond, (float)from->beyond);
  for (size_t i = 0; i <= p->steps; i++) {
    if (from->m[i] > (double)c->m[i]) {
      c->z[i] *= exp((double)c->m[i] - from->m[i]);
      c->m[i] = (float)from->m[i];
    }
    if (from->z[i] > 0.0) c->z[i] += from->z[i] * exp(from->m[i] - (double)c->m[i]);
    if (c->m[i] > c->top) c->top = c->m[i];
  }
  for (size_t i = 0; i < p->k && scores[i] > -INFINITY; i++) {
    c->keys[c->n++] = fopo_topk_key(scores[i], (uint32_t)i * R + r); /* distinct, as keys must be */
  }
  keep_best(c, p->k);
}

/* Every rank gets what all have found up to the horizon. status: that of this rank. */
static int join_parts(probe *p, uint64_t horizon, int status) {
  size_t ranks = fopo_comm_ranks(), n = p->n;
  size_t one = (sizeof(found_part) + p->k * sizeof(float) + 7) / 8 * 8;
  char *mine = fopo_alloc(n, one), *all = fopo_alloc(n * ranks, one);
  if (status == FOPO_OK && (mine == NULL || all == NULL)) status = FOPO_ERR_MEMORY;
  status = fopo_comm_agree(status);
  for (size_t b = 0; b < n && status == FOPO_OK; b++) {
    put_part(place_of(mine, one, b), p, b, horizon);
  }
  if (status == FOPO_OK) status = fopo_comm_gather(all, mine, n * one);
  p->beyond = 0.0f;
  for (size_t b = 0; b < n && status == FOPO_OK; b++) {
    context *c = &p->of[b];
    c->n = 0;
    c->floor = c->top = -INFINITY;
    for (size_t i = 0; i <= p->steps; i++) {
      c->m[i] = -INFINITY;
      c->z[i] = 0.0;
    }
    for (size_t r = 0; r < ranks; r++) take_part(p, b, place_of(all, one, r * n + b), (uint32_t)r);
    weigh_best(c, p->scratch + b * p->k);
  }
  fopo_free(mine);
  fopo_free(all);
  return status;
}

/* ---- a measurement ---- */

int fopo_mass_measure(fopo_mass_found *found, fopo_mass_probe *p, const fopo_mass_order *order,
                      fopo_matrix Q, size_t k, double keep, uint64_t head, uint64_t horizon) {
  *found = (fopo_mass_found){0};
  if (!begin(p, order, Q, k)) return FOPO_OK;
  uint64_t P = p->P, scored = 0, least = head < P ? head : 0;
  if (order->shard != NULL) least = horizon;
  int status = begin_sparse(p);
  if (status == FOPO_OK) status = run(&scored, p, least > k ? least : k, horizon);
  if (status == FOPO_OK) add_rest(p, scored);
  if (order->shard != NULL) status = join_parts(p, horizon, status);
  if (status != FOPO_OK) return status;
  uint64_t rest = P - scored < REST ? P - scored : REST;
  *found = (fopo_mass_found){.rows = (scored + rest) * p->n, .complete = is_settled(p, scored)};
  for (size_t b = 0; b < p->n && found->complete; b++) p->of[b].T += gain_of(p, b, scored);
  decide(found, p, keep, head);
  return FOPO_OK;
}

/* ---- memory ---- */

void fopo_mass_probe_free(fopo_mass_probe *p) {
  if (p == NULL) return;
  fopo_free(p->panel);
  fopo_free(p->scores);
  fopo_free(p->scratch);
  fopo_free(p->wanted);
  fopo_free(p->places);
  fopo_free(p->entries);
  for (size_t b = 0; b < CONTEXTS; b++) fopo_free(p->of[b].keys);
  fopo_free(p);
}

static int reserve(probe *p) {
  size_t k = p->capacity;
  p->panel = fopo_alloc(p->L * CONTEXTS, sizeof *p->panel);
  p->scores = fopo_alloc((size_t)CONTEXTS * BLOCK, sizeof *p->scores);
  p->scratch = fopo_alloc(CONTEXTS * k, sizeof *p->scratch);
  if (p->panel == NULL || p->scores == NULL || p->scratch == NULL) return FOPO_ERR_MEMORY;
  for (size_t b = 0; b < CONTEXTS; b++) {
    p->of[b].keys = fopo_alloc(k + BLOCK, sizeof *p->of[b].keys);
    if (p->of[b].keys == NULL) return FOPO_ERR_MEMORY;
  }
  return FOPO_OK;
}

int fopo_mass_probe_reserve(fopo_mass_probe **p, size_t L, size_t k) {
  if (*p != NULL && (*p)->L == L && (*p)->capacity >= k) return FOPO_OK;
  fopo_mass_probe_free(*p);
  *p = NULL;
  probe *fresh = fopo_alloc(1, sizeof *fresh);
  if (fresh == NULL) return FOPO_ERR_MEMORY;
  fresh->L = L;
  fresh->capacity = k;
  int status = reserve(fresh);
  if (status != FOPO_OK) {
    fopo_mass_probe_free(fresh);
    return status;
  }
  *p = fresh;
  return FOPO_OK;
}
