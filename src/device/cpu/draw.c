/* Draws from the uniform proposal, from the paper's mixture q_{K,eps} (section 4.2), and from the
 * tail outside the candidates, each with its log q.
 *
 * In the mixture, sample s has two random words: the first chooses the part (uniform or
 * candidates), the second the item. logq is the mixture's density at the item, so a uniform draw
 * that happens to be a candidate has the candidate's density; a Bloom filter and a small hash table
 * of the candidates find such draws. A tile of samples passes through straight loops: all random
 * words, then all uniform draws, then all draws of candidates. */
#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"
#include "device/cpu/sparse.h"
#include "kernels/bloom.h"
#include "kernels/kernels.h"

enum {
  TILE = 256, /* samples of the mixture that pass through the loops together; even */
  FEW = 1024, /* draws outside a head: not worth waking the threads for */
  DRAW = 32   /* multiply-adds in the time of a draw */
};

static void uniform_row(uint32_t *ids, float *logq, uint32_t row, fopo_draw_key key, size_t S,
                        size_t P) {
  float density = (float)-log((double)P);
  fopo_kernels_get()->draw_uniform(ids, (uint32_t)P, S, key.seed, key.step, row);
#pragma omp simd
  for (size_t s = 0; s < S; s++) logq[s] = density;
}

int fopo_cpu_draw_uniform(fopo_device *d, const fopo_samples *samples,
                          const fopo_device_batch *batch) {
  (void)d;
  size_t S = batch->S;
  int threads = fopo_threads_for(DRAW * batch->B * S);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    uniform_row(samples->ids + b * S, samples->logq + b * S, batch->rows[b], batch->key, S,
                batch->P);
  }
  return FOPO_OK;
}

/* ---- the mixture ---- */

/* The candidates of one context, ready to be drawn and looked up. Pointers into scratch. */
typedef struct {
  const uint32_t *ids; /* [n] */
  size_t n;
  double *cumulative; /* [n] running sums of exp(score - max) */
  float *weight;      /* [n] exp(score - max) */
  float *logq;        /* [n] log(eps / P + (1 - eps) kappa) */
  float logq_other;   /* log(eps / P), of every other item */
  uint32_t *guide;    /* [1 << guide_bits] the candidate at which a search begins, by first bits */
  uint32_t *bloom;    /* Bloom filter of the ids, of 1 << bloom_bits bits */
  uint32_t *slots;    /* [1 << slot_bits] hash table: index of a candidate plus 1, or 0 */
  unsigned guide_bits, bloom_bits, slot_bits;
} candidates;

/* The logarithm of the smallest power of two >= n, and at least 5. */
static unsigned bits_of(size_t n) {
  unsigned bits = 5;
  while (((size_t)1 << bits) < n) bits++;
  return bits;
}

/* Bloom filter: 64 bits per candidate; hash table: load factor 1/8. Above 1,024 candidates 16 bits
 * and 1/4, so that both stay in the cache. */
static unsigned bloom_bits(size_t k) { return k <= 1024 ? bits_of(64 * k) : bits_of(16 * k); }
static unsigned slot_bits(size_t k) { return k <= 1024 ? bits_of(8 * k) : bits_of(4 * k); }

/* Two guide entries per candidate: most searches then take one comparison or two. */
static unsigned guide_bits(size_t k) { return bits_of(2 * k); }

static size_t mixture_bytes(size_t k) {
  size_t words = ((size_t)1 << slot_bits(k)) + ((size_t)1 << guide_bits(k));
  words += fopo_bloom_words(bloom_bits(k));
  return k * (sizeof(double) + 2 * sizeof(float)) + words * sizeof(uint32_t);
}

static candidates place(void *scratch, size_t k) {
  candidates c = {.cumulative = scratch,
                  .guide_bits = guide_bits(k),
                  .bloom_bits = bloom_bits(k),
                  .slot_bits = slot_bits(k)};
  c.weight = (float *)(void *)(c.cumulative + k);
  c.logq = c.weight + k;
  c.guide = (uint32_t *)(void *)(c.logq + k);
  c.bloom = c.guide + ((size_t)1 << c.guide_bits);
  c.slots = c.bloom + fopo_bloom_words(c.bloom_bits);
  return c;
}

static void insert_all(candidates *c) {
  size_t mask = ((size_t)1 << c->slot_bits) - 1;
  memset(c->bloom, 0, fopo_bloom_words(c->bloom_bits) * sizeof *c->bloom);
  memset(c->slots, 0, (mask + 1) * sizeof *c->slots);
  for (size_t i = 0; i < c->n; i++) {
    size_t slot = fopo_hash(c->ids[i], c->slot_bits);
    while (c->slots[slot] != 0) slot = (slot + 1) & mask;
    c->slots[slot] = (uint32_t)(i + 1);
    fopo_bloom_add(c->bloom, c->bloom_bits, c->ids[i]);
  }
}

/* log q of any item. */
static float density(const candidates *c, uint32_t id) {
  size_t mask = ((size_t)1 << c->slot_bits) - 1, slot = fopo_hash(id, c->slot_bits);
  for (; c->slots[slot] != 0; slot = (slot + 1) & mask) {
    size_t i = c->slots[slot] - 1;
    if (c->ids[i] == id) return c->logq[i];
  }
  return c->logq_other;
}

/* A word w selects the first candidate whose cumulative sum exceeds u total, u = (w + 1/2) / 2^32.
 * guide[g] is a candidate at or before the one that the smallest word with the first bits g selects
 * (Chen and Asau, "On generating random variates from an empirical distribution", AIIE Transactions
 * 6, 1974), so a search from there ends where a search from the start would. */
static void make_guide(candidates *c) {
  size_t entries = (size_t)1 << c->guide_bits, last = c->n - 1;
  double total = c->cumulative[last], scale = (double)entries / total;
  uint32_t begin = isfinite(total) ? 0 : (uint32_t)last; /* NaN selects the last */
  memset(c->guide, 0, entries * sizeof *c->guide);
  for (size_t i = 0; i < last && begin == 0; i++) {
    /* candidate i ends within entry `end`; by rounding perhaps in the entry before it */
    size_t end = (size_t)(c->cumulative[i] * scale + 1e-6);
    if (end + 1 < entries) c->guide[end + 1] = (uint32_t)(i + 1);
  }
  for (size_t g = 0; g < entries; g++) {
    begin = c->guide[g] > begin ? c->guide[g] : begin;
    c->guide[g] = begin;
  }
}

static size_t invert(const candidates *c, uint32_t word) {
  double target = fopo_unit(word) * c->cumulative[c->n - 1];
  size_t i = c->guide[word >> (32 - c->guide_bits)];
  i += c->cumulative[i] <= target; /* false for the last candidate, as u < 1 */
  while (c->cumulative[i] <= target) i++;
  return i;
}

/* Fills c for the n >= 1 candidates of one context. */
static void prepare(candidates *c, const uint32_t *ids, const float *score, size_t n,
                    double epsilon, size_t P) {
  const fopo_kernels *k = fopo_kernels_get();
  c->ids = ids;
  c->n = n;
  double total = k->exp_sum(c->weight, score, k->max(score, n), n), sum = 0;
  for (size_t i = 0; i < n; i++) c->cumulative[i] = sum += (double)c->weight[i];
  /* q = eps / P + (1 - eps) kappa */
  double share = epsilon / (double)P;
  k->log_mixture(c->logq, c->weight, share, 1 - epsilon, total, n);
  c->logq_other = (float)log(share);
  insert_all(c);
  make_guide(c);
}

/* Draws samples first .. first + n - 1 uniformly, from one word each. */
static void draw_anywhere(uint32_t *ids, float *logq, const candidates *c, const uint32_t *word,
                          uint32_t row, fopo_draw_key key, size_t first, size_t n, size_t P) {
  uint32_t bound = (uint32_t)P, close = 0;
#pragma omp simd reduction(| : close)
  for (size_t i = 0; i < n; i++) {
    uint64_t product = (uint64_t)word[i] * bound;
    ids[i] = (uint32_t)(product >> 32);
    logq[i] = c->logq_other;
    close |= (uint32_t)product < bound;
  }
  /* if the low half of a product is below P, Lemire's method may reject it: fopo_below decides */
  for (size_t i = 0; close != 0 && i < n; i++) {
    ids[i] = fopo_below(bound, word[i], key.seed, key.step, row, (uint32_t)(first + i));
  }
  uint32_t maybe[TILE];
  size_t found = fopo_kernels_get()->select_in_bloom(maybe, ids, n, c->bloom, c->bloom_bits);
  for (size_t j = 0; j < found; j++) logq[maybe[j]] = density(c, ids[maybe[j]]);
}

/* Draws the samples at the n positions `at` of a tile from the candidates. */
static void draw_candidates(uint32_t *ids, float *logq, const candidates *c, const uint32_t *word,
                            const uint32_t *at, size_t n) {
  for (size_t j = 0; j < n; j++) {
    size_t i = invert(c, word[at[j]]);
    ids[at[j]] = c->ids[i];
    logq[at[j]] = c->logq[i];
  }
}

/* Lists in `at` the samples of a tile that draw a candidate and returns their number: the samples
 * from `rest` on if the mixture is stratified, else the samples whose word `which` is at least
 * eps 2^32. */
static size_t choose(uint32_t *at, const uint32_t *which, size_t n, const fopo_mixture *m,
                     size_t rest) {
  if (!m->stratified) {
    return fopo_kernels_get()->select_at_least(at, which, n,
                                               (uint64_t)ceil(m->epsilon * 4294967296.0));
  }
  for (size_t i = rest; i < n; i++) at[i - rest] = (uint32_t)i;
  return n - rest;
}

static void mixture_row(uint32_t *ids, float *logq, const candidates *c, const fopo_mixture *m,
                        uint32_t row, fopo_draw_key key, size_t S, size_t P) {
  const fopo_kernels *k = fopo_kernels_get();
  size_t n_uniform = (size_t)llround(m->epsilon * (double)S);
  uint32_t which[TILE], item[TILE], at[TILE];
  for (size_t s = 0; s < S; s += TILE) {
    size_t n = S - s < TILE ? S - s : TILE;
    size_t rest = n_uniform <= s ? 0 : n_uniform - s < n ? n_uniform - s : n;
    k->draw_pairs(which, item, s, n, key.seed, key.step, row);
    size_t chosen = choose(at, which, n, m, rest);
    /* if both parts occur, draw all uniformly first: that is a small share of the work */
    size_t anywhere = m->stratified ? rest : chosen < n ? n : 0;
    draw_anywhere(ids + s, logq + s, c, item, row, key, s, anywhere, P);
    draw_candidates(ids + s, logq + s, c, item, at, chosen);
  }
}

int fopo_cpu_draw_mixture(fopo_device *d, const fopo_samples *samples, const fopo_mixture *mixture,
                          const fopo_device_batch *batch) {
  const fopo_candidate_sets *sets = &mixture->sets;
  size_t k = sets->k, S = batch->S, P = batch->P;
  int status = fopo_cpu_reserve(d, mixture_bytes(k));
  if (status != FOPO_OK) return status;
  int threads = fopo_threads_for(DRAW * batch->B * (S + k));
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    size_t n = sets->counts[b] < k ? sets->counts[b] : k;
    uint32_t *ids = samples->ids + b * S;
    float *logq = samples->logq + b * S;
    if (n == 0 || fopo_cpu_all_masked(sets->scores + b * k, n)) {
      uniform_row(ids, logq, batch->rows[b], batch->key, S, P);
      continue;
    }
    candidates c = place(fopo_cpu_scratch(d), k);
    prepare(&c, sets->ids + b * k, sets->scores + b * k, n, mixture->epsilon, P);
    mixture_row(ids, logq, &c, mixture, batch->rows[b], batch->key, S, P);
  }
  return FOPO_OK;
}

/* ---- head and tail ---- */

void fopo_cpu_draw_ranks(uint32_t *ranks, uint32_t row, fopo_draw_key key, size_t U, size_t M) {
  size_t strip = M / U, more = M % U, first = 0, rest = 0;
  fopo_kernels_get()->draw_uniform(ranks, (uint32_t)M, U, key.seed, key.step, row);
  for (size_t u = 0; u < U; u++) {
    /* rank (u M + x) / U with u M = first U + rest; far below 2^53, so the integer part is exact */
    ranks[u] = (uint32_t)(first + (size_t)(int64_t)((double)(int64_t)(rest + ranks[u]) /
                                                    (double)(int64_t)U));
    first += strip + (rest + more >= U);
    rest += rest + more >= U ? more - U : more;
  }
}

float fopo_cpu_tail_density(size_t U, size_t M) {
  return fminf((float)log((double)U / (double)M), FOPO_TAIL_LEAST);
}

/* Draws U of the M = P - n items that are not among the n sorted ids. */
static void tail_row(uint32_t *ids, const uint32_t *sorted, size_t n, uint32_t row,
                     fopo_draw_key key, size_t U, size_t P) {
  size_t below = 0;
  fopo_cpu_draw_ranks(ids, row, key, U, P - n);
  /* the ranks ascend, so one walk along the candidates turns them into ids */
  for (size_t u = 0; u < U; u++) {
    while (below < n && sorted[below] <= ids[u] + below) below++;
    ids[u] += (uint32_t)below;
  }
}

static int is_ascending(const uint32_t *ids, size_t n) {
  uint32_t falls = 0;
#pragma omp simd reduction(| : falls)
  for (size_t i = 1; i < n; i++) falls |= (uint32_t)(ids[i - 1] > ids[i]);
  return falls == 0;
}

int fopo_cpu_draw_tail(fopo_device *d, const fopo_samples *samples, const fopo_candidate_sets *head,
                       const fopo_device_batch *batch) {
  size_t k = head->k, S = batch->S, P = batch->P;
  int status = fopo_cpu_reserve(d, k * sizeof *head->ids);
  if (status != FOPO_OK) return status;
  int threads = fopo_threads_for(DRAW * batch->B * (S + k));
#pragma omp parallel for num_threads(threads) schedule(dynamic)
  for (size_t b = 0; b < batch->B; b++) {
    size_t n = head->counts[b] < k ? head->counts[b] : k, U = S - n;
    /* by id, so that sums do not depend on the order in which the head was found */
    uint32_t *sorted = samples->ids + b * S;
    float *logq = samples->logq + b * S;
    memcpy(sorted, head->ids + b * k, n * sizeof *sorted);
    if (!is_ascending(sorted, n)) fopo_sort_ids(sorted, fopo_cpu_scratch(d), n, P);
    tail_row(sorted + n, sorted, n, batch->rows[b], batch->key, U, P);
    float density = fopo_cpu_tail_density(U, P - n);
    memset(logq, 0, n * sizeof *logq);
    for (size_t s = n; s < S; s++) logq[s] = density;
  }
  return FOPO_OK;
}

int fopo_cpu_draw_others(fopo_device *d, const fopo_samples *samples, const fopo_shared_head *head,
                         size_t listed, const fopo_device_batch *batch) {
  (void)d;
  size_t S = batch->S, U = S - listed, M = batch->P - head->H;
  const uint32_t *others = head->order + head->H;
  float density = fopo_cpu_tail_density(U, M);
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (batch->B * S > FEW)
  for (size_t b = 0; b < batch->B; b++) {
    uint32_t *ids = samples->ids + b * S;
    float *logq = samples->logq + b * S;
    memcpy(ids, head->order, listed * sizeof *ids);
    memset(logq, 0, listed * sizeof *logq);
    fopo_cpu_draw_ranks(ids + listed, batch->rows[b], batch->key, U, M);
    for (size_t s = listed; s < S; s++) {
      ids[s] = others[ids[s]];
      logq[s] = density;
    }
  }
  return FOPO_OK;
}

/* ---- the draws of a part of the catalogue ---- */

int fopo_cpu_keep_part(fopo_device *d, const fopo_samples *samples, uint32_t *counts,
                       const fopo_part *part, const fopo_device_batch *batch) {
  (void)d;
  size_t S = batch->S;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (batch->B * S > FEW)
  for (size_t b = 0; b < batch->B; b++) {
    uint32_t *ids = samples->ids + b * S, n = 0;
    float *logq = samples->logq + b * S;
    for (size_t s = 0; s < S; s++) {
      uint32_t row = fopo_part_row(part, ids[s]);
      float density = logq[s];
      if (row == UINT32_MAX) continue;
      ids[n] = row;
      logq[n++] = density;
    }
    counts[b] = n;
  }
  return FOPO_OK;
}
