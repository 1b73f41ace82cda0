/* Draws from the uniform proposal, from the paper's mixture q_{K,eps} (section 4.2), and from the
 * tail outside the candidates, with log q.
 *
 * In the mixture sample s owns two words of random numbers: the first chooses the part, the second
 * the item. Its density is known for every item, so a uniform draw that happens to be a candidate
 * gets the candidate's density; a small hash table of the candidates says so. */
#include "device/device_cpu.h"

#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"
#include "device/kernels.h"

#include <math.h>
#include <string.h>

static void uniform_row(uint32_t *ids, float *logq, uint32_t row, fopo_draw_key key, size_t S,
                        size_t P) {
  float density = (float)-log((double)P);
  fopo_kernels_get()->draw_uniform(ids, (uint32_t)P, S, key.seed, key.step, row);
#pragma omp simd
  for (size_t s = 0; s < S; s++) logq[s] = density;
}

int fopo_cpu_draw_uniform(fopo_device *d, uint32_t *ids, float *logq, const uint32_t *rows,
                          fopo_draw_key key, size_t B, size_t S, size_t P) {
  (void)d;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < B; b++) uniform_row(ids + b * S, logq + b * S, rows[b], key, S, P);
  return FOPO_OK;
}

/* ---- the mixture ---- */

/* The candidates of one context, ready to be drawn and looked up. Pointers into scratch. */
typedef struct {
  const uint32_t *ids; /* [n] */
  size_t n;
  float *weight;       /* [n] exp(score - max) */
  double *cumulative;  /* [n] running sums of weight */
  float *logq;         /* [n] log(eps / P + (1 - eps) kappa) */
  float logq_other;    /* log(eps / P): of every other item */
  uint32_t *slots;     /* [1 << bits] number of a candidate plus 1, or 0 */
  unsigned bits;
} candidates;

/* Slots for k candidates: at most a quarter is full. */
static unsigned slot_bits(size_t k) {
  unsigned bits = 2;
  while (((size_t)1 << bits) < 4 * k) bits++;
  return bits;
}

static size_t mixture_bytes(size_t k) {
  return k * (sizeof(double) + 2 * sizeof(float)) + (sizeof(uint32_t) << slot_bits(k));
}

static candidates place(void *scratch, size_t k) {
  candidates c = {.cumulative = scratch, .bits = slot_bits(k)};
  c.weight = (float *)(void *)(c.cumulative + k);
  c.logq = c.weight + k;
  c.slots = (uint32_t *)(void *)(c.logq + k);
  return c;
}

/* Fibonacci hashing: the high bits of a product with 2^32 / golden ratio. */
static size_t slot_of(const candidates *c, uint32_t id) {
  return (size_t)((id * 2654435769u) >> (32 - c->bits));
}

static void insert(candidates *c, size_t i) {
  size_t mask = ((size_t)1 << c->bits) - 1, slot = slot_of(c, c->ids[i]);
  while (c->slots[slot] != 0) slot = (slot + 1) & mask;
  c->slots[slot] = (uint32_t)(i + 1);
}

/* log q of any item. */
static float density(const candidates *c, uint32_t id) {
  size_t mask = ((size_t)1 << c->bits) - 1, slot = slot_of(c, id);
  for (; c->slots[slot] != 0; slot = (slot + 1) & mask) {
    size_t i = c->slots[slot] - 1;
    if (c->ids[i] == id) return c->logq[i];
  }
  return c->logq_other;
}

static void prepare(candidates *c, const uint32_t *ids, const float *score, size_t n,
                    double epsilon, size_t P) {
  const fopo_kernels *k = fopo_kernels_get();
  c->ids = ids;
  c->n = n;
  double total = k->exp_sum(c->weight, score, k->max(score, n), n), sum = 0;
  memset(c->slots, 0, sizeof(uint32_t) << c->bits);
  for (size_t i = 0; i < n; i++) {
    sum += (double)c->weight[i];
    c->cumulative[i] = sum;
    /* q = eps / P + (1 - eps) kappa */
    double kappa = (double)c->weight[i] / total;
    c->logq[i] = (float)log(epsilon / (double)P + (1 - epsilon) * kappa);
    insert(c, i);
  }
  c->logq_other = (float)log(epsilon / (double)P);
}

/* The candidate at u times the total weight. */
static size_t invert(const candidates *c, double u) {
  size_t i = fopo_cpu_invert(c->cumulative, c->n, u * c->cumulative[c->n - 1]);
  return i < c->n ? i : c->n - 1; /* past the end only by NaN */
}

static void mixture_row(uint32_t *ids, float *logq, const candidates *c, const fopo_mixture *m,
                        uint32_t row, fopo_draw_key key, size_t S, size_t P) {
  double below = m->epsilon * 4294967296.0;
  size_t n_uniform = (size_t)llround(m->epsilon * (double)S);
  fopo_words words = {{0, 0, 0, 0}};
  for (size_t s = 0; s < S; s++) {
    if ((s & 1) == 0) {
      words = fopo_random(key.seed, FOPO_STREAM_SAMPLE, key.step, row, (uint32_t)(s >> 1));
    }
    uint32_t which = words.v[2 * (s & 1)], item = words.v[2 * (s & 1) + 1];
    if (m->stratified ? s < n_uniform : (double)which < below) {
      ids[s] = fopo_below((uint32_t)P, item, key.seed, key.step, row, (uint32_t)s);
      logq[s] = density(c, ids[s]);
    } else {
      size_t i = invert(c, fopo_unit(item));
      ids[s] = c->ids[i];
      logq[s] = c->logq[i];
    }
  }
}

int fopo_cpu_draw_mixture(fopo_device *d, uint32_t *ids, float *logq, const fopo_mixture *m,
                          const uint32_t *rows, fopo_draw_key key, size_t B, size_t S, size_t P) {
  int status = fopo_cpu_reserve(d, mixture_bytes(m->k));
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < B; b++) {
    size_t n = m->counts[b] < m->k ? m->counts[b] : m->k;
    if (n == 0) {
      uniform_row(ids + b * S, logq + b * S, rows[b], key, S, P);
      continue;
    }
    candidates c = place(fopo_cpu_scratch(d), m->k);
    prepare(&c, m->ids + b * m->k, m->scores + b * m->k, n, m->epsilon, P);
    mixture_row(ids + b * S, logq + b * S, &c, m, rows[b], key, S, P);
  }
  return FOPO_OK;
}

/* ---- head and tail ---- */

/* Shell's method with Ciura's gaps: short, and quick for a few hundred ids. */
static void sort_ids(uint32_t *ids, size_t n) {
  static const size_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
  for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++) {
    for (size_t i = gaps[g]; i < n; i++) {
      uint32_t id = ids[i];
      size_t j = i;
      for (; j >= gaps[g] && ids[j - gaps[g]] > id; j -= gaps[g]) ids[j] = ids[j - gaps[g]];
      ids[j] = id;
    }
  }
}

/* U draws of the P - n items that are not among the n sorted ids. */
static void tail_row(uint32_t *ids, const uint32_t *sorted, size_t n, uint32_t row,
                     fopo_draw_key key, size_t U, size_t P) {
  uint64_t M = P - n;
  fopo_kernels_get()->draw_uniform(ids, (uint32_t)M, U, key.seed, key.step, row);
  /* ranks never fall, so one walk along the candidates turns them into ids */
  size_t below = 0;
  for (size_t u = 0; u < U; u++) {
    uint64_t rank = (u * M + ids[u]) / U;
    while (below < n && sorted[below] <= rank + below) below++;
    ids[u] = (uint32_t)(rank + below);
  }
}

int fopo_cpu_draw_tail(fopo_device *d, uint32_t *ids, float *logq, const uint32_t *head,
                       const uint32_t *counts, size_t k, const uint32_t *rows, fopo_draw_key key,
                       size_t B, size_t S, size_t P) {
  int status = fopo_cpu_reserve(d, k * sizeof *head);
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic)
  for (size_t b = 0; b < B; b++) {
    size_t n = counts[b] < k ? counts[b] : k, U = S - n;
    uint32_t *sorted = fopo_cpu_scratch(d);
    memcpy(ids + b * S, head + b * k, n * sizeof *ids);
    memcpy(sorted, head + b * k, n * sizeof *sorted);
    sort_ids(sorted, n);
    tail_row(ids + b * S + n, sorted, n, rows[b], key, U, P);
    /* q = U / M: a draw stands for M / U items */
    float density = fminf((float)log((double)U / (double)(P - n)), FOPO_TAIL_LEAST);
    for (size_t s = 0; s < S; s++) logq[b * S + s] = s < n ? 0.0f : density;
  }
  return FOPO_OK;
}
