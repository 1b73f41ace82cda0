/* A search is algorithms 2 and 5 of the paper. Instead of two heaps it keeps one sorted pool of ef
 * keys: an item that falls out of it is worse than ef others and would never be expanded. All
 * neighbours of an item are scored in one call of gather_dot, which prefetches their rows. */
#include "mips/graph.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/rng.h"
#include "core/status.h"
#include "mips/topk.h"

/* Ids have 31 bits, so the highest bit of the complemented id in a key is free: 1 until the item is
 * expanded. */
#define UNEXPANDED ((uint64_t)1 << 31)

int fopo_graph_adopt(fopo_graph *g, size_t n, size_t M, uint8_t *levels) {
  *g = (fopo_graph){.n = n, .M = M, .levels = levels};
  g->first = fopo_alloc(n, sizeof *g->first);
  if (g->first == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    g->first[i] = (uint32_t)g->n_upper;
    if (levels[i] == FOPO_GRAPH_ABSENT) continue;
    g->members++;
    if (levels[i] > FOPO_GRAPH_MAX_LEVEL) {
      return fopo_fail(FOPO_ERR_FORMAT, "item %zu has level %d, more than %d; build it again",
                       i + 1, levels[i], FOPO_GRAPH_MAX_LEVEL);
    }
    if (g->n_upper + levels[i] > UINT32_MAX) {
      return fopo_fail(FOPO_ERR_FORMAT, "the upper layers have too many items; build it again");
    }
    g->n_upper += levels[i];
    if (levels[i] > g->max_level) g->max_level = levels[i];
  }
  return FOPO_OK;
}

int fopo_graph_init(fopo_graph *g, size_t n, size_t M, uint64_t seed, const uint8_t *absent) {
  *g = (fopo_graph){0};
  uint8_t *levels = fopo_alloc(n, sizeof *levels);
  if (levels == NULL) return FOPO_ERR_MEMORY;
  double scale = 1.0 / log((double)M);
  for (size_t i = 0; i < n; i++) {
    double u = fopo_unit(fopo_random(seed, FOPO_STREAM_LEVEL, 0, (uint32_t)i, 0).v[0]);
    levels[i] = (uint8_t)(-log(u) * scale); /* u >= 2^-33 and M >= 2: at most 33 */
    if (absent != NULL && absent[i]) levels[i] = FOPO_GRAPH_ABSENT;
  }
  return fopo_graph_adopt(g, n, M, levels);
}

void fopo_graph_done(fopo_graph *g) {
  fopo_free(g->levels);
  fopo_free(g->links);
  fopo_free(g->first);
  fopo_free(g->upper);
  *g = (fopo_graph){0};
}

size_t fopo_graph_bytes(const fopo_graph *g) {
  return g->n * (sizeof *g->levels + sizeof *g->first) +
         (g->n * (1 + 2 * g->M) + g->n_upper * (1 + g->M)) * sizeof(uint32_t);
}

uint64_t fopo_graph_estimate(size_t n, size_t M, int threads) {
  /* hnswlib takes per item: links, a pointer and a label; a mutex, the level, a pointer to the
   * upper lists, an entry of the label map; two bytes of each thread's visited list. */
  double inside = (8.0 * (double)M + 4 + 8 + 8) + 40 + 4 + 8 + 40 + 2.0 * threads +
                  (4.0 * (double)M + 17) / ((double)M - 1.0);
  double kept = 4.0 * (1.0 + 2.0 * (double)M) + 1 + 4 + 4.0 * ((double)M + 1) / ((double)M - 1.0);
  return (uint64_t)((double)n * (inside + kept)) + 65536 * 40;
}

/* ---- checks ---- */

static int has_layer(const fopo_graph *g, uint32_t id, uint32_t layer) {
  return g->levels[id] >= layer && g->levels[id] != FOPO_GRAPH_ABSENT;
}

static int check_list(const fopo_graph *g, size_t i, uint32_t layer, const char *path) {
  const uint32_t *list = fopo_graph_links(g, (uint32_t)i, layer);
  size_t most = !has_layer(g, (uint32_t)i, layer) ? 0 : layer == 0 ? 2 * g->M : g->M;
  if (list[0] > most) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: item %zu has %" PRIu32 " links on layer %" PRIu32
                     ", more than %zu; the index is damaged, build it again",
                     path, i + 1, list[0], layer, most);
  }
  for (uint32_t j = 1; j <= list[0]; j++) {
    uint32_t to = list[j];
    if (to < g->n && to != i && has_layer(g, to, layer)) continue;
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: link %" PRIu32 " of item %zu on layer %" PRIu32 " leads to %" PRIu32
                     ", which is no other item of that layer; the index is damaged, build it again",
                     path, j, i + 1, layer, to);
  }
  return FOPO_OK;
}

int fopo_graph_check(const fopo_graph *g, const char *path) {
  if (g->entry >= g->n || g->levels[g->entry] != g->max_level) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: the entry %" PRIu32 " is not an item of the highest level %" PRIu32
                     "; the index is damaged, build it again",
                     path, g->entry, g->max_level);
  }
  for (size_t i = 0; i < g->n; i++) {
    uint32_t top = g->levels[i] == FOPO_GRAPH_ABSENT ? 0 : g->levels[i];
    for (uint32_t layer = 0; layer <= top; layer++) {
      int status = check_list(g, i, layer, path);
      if (status != FOPO_OK) return status;
    }
  }
  return FOPO_OK;
}

/* Breadth-first search, a layer at a time from the top: items reached on a layer are the starting
 * points of the layer below. */
int fopo_graph_reachable(size_t *reachable, const fopo_graph *g) {
  uint32_t *queue = fopo_alloc(g->n, sizeof *queue);
  uint8_t *seen = fopo_alloc(g->n, sizeof *seen);
  int status = queue != NULL && seen != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  size_t count = 0;
  if (status == FOPO_OK) {
    queue[count++] = g->entry;
    seen[g->entry] = 1;
    for (uint32_t layer = g->max_level + 1; layer-- > 0;) {
      for (size_t at = 0; at < count; at++) {
        const uint32_t *list = fopo_graph_links(g, queue[at], layer);
        for (uint32_t j = 1; j <= list[0]; j++) {
          if (seen[list[j]]) continue;
          seen[list[j]] = 1;
          queue[count++] = list[j];
        }
      }
    }
  }
  fopo_free(queue);
  fopo_free(seen);
  *reachable = count;
  return status;
}

/* ---- search ---- */

void fopo_graph_walker_done(fopo_graph_walker *w) {
  fopo_free(w->seen);
  fopo_free(w->pool);
  fopo_free(w->fresh);
  fopo_free(w->scores);
  *w = (fopo_graph_walker){0};
}

int fopo_graph_walker_reserve(fopo_graph_walker *w, const fopo_graph *g, size_t ef) {
  if (w->n == g->n && w->M == g->M && w->ef >= ef) return FOPO_OK;
  fopo_graph_walker_done(w);
  if ((w->seen = fopo_alloc(g->n, sizeof *w->seen)) == NULL ||
      (w->pool = fopo_alloc(ef, sizeof *w->pool)) == NULL ||
      (w->fresh = fopo_alloc(2 * g->M, sizeof *w->fresh)) == NULL ||
      (w->scores = fopo_alloc(2 * g->M, sizeof *w->scores)) == NULL) {
    fopo_graph_walker_done(w);
    return FOPO_ERR_MEMORY;
  }
  w->n = g->n, w->M = g->M, w->ef = ef;
  return FOPO_OK;
}

size_t fopo_graph_walker_bytes(const fopo_graph_walker *w) {
  return w->n * sizeof *w->seen + w->ef * sizeof *w->pool +
         2 * w->M * (sizeof *w->fresh + sizeof *w->scores);
}

/* Begins a search: no item is visited. The marks are cleared once in 65,535 searches. */
static void next_mark(fopo_graph_walker *w) {
  if (++w->mark != 0) return;
  memset(w->seen, 0, w->n * sizeof *w->seen);
  w->mark = 1;
}

/* Greedy search from the entry down to layer 1; returns the item where the search of layer 0
 * begins. */
static uint32_t descend(float *score, fopo_graph_walker *w, const fopo_graph *g, fopo_matrix items,
                        const float *q, const fopo_kernels *kernels) {
  uint32_t at = g->entry;
  float best = kernels->dot(fopo_matrix_row(items, at), q, items.cols);
  w->scored++;
  for (uint32_t layer = g->max_level; layer > 0; layer--) {
    uint32_t from;
    do {
      const uint32_t *list = fopo_graph_links(g, at, layer);
      from = at;
      kernels->gather_dot(w->scores, items.x, items.ld, list + 1, list[0], q, items.cols);
      w->scored += list[0];
      for (uint32_t j = 0; j < list[0]; j++) {
        if (!(w->scores[j] > best)) continue;
        best = w->scores[j];
        at = list[1 + j];
      }
    } while (at != from);
  }
  *score = best;
  return at;
}

/* Inserts the key into the pool of n <= ef descending keys; returns its place, or ef if the pool is
 * full and the key is not better than its last. A key of equal score is not better: otherwise a
 * query for which all scores are equal would visit all items. */
static size_t insert(uint64_t *pool, size_t *n, size_t ef, uint64_t key) {
  if (*n == ef && key >> 32 <= pool[ef - 1] >> 32) return ef;
  size_t low = 0, high = *n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (pool[middle] > key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (*n < ef) ++*n;
  memmove(pool + low + 1, pool + low, (*n - 1 - low) * sizeof *pool);
  pool[low] = key;
  return low;
}

/* Scores the neighbours of id that were not visited before: fresh, scores; returns how many. */
static size_t expand(fopo_graph_walker *w, const fopo_graph *g, fopo_matrix items, uint32_t id,
                     const float *q, const fopo_kernels *kernels) {
  const uint32_t *list = fopo_graph_links(g, id, 0);
  size_t count = 0;
  for (uint32_t j = 1; j <= list[0]; j++) {
    uint32_t to = list[j];
    w->fresh[count] = to;
    count += w->seen[to] != w->mark;
    w->seen[to] = w->mark;
  }
  kernels->gather_dot(w->scores, items.x, items.ld, w->fresh, count, q, items.cols);
  w->scored += count;
  return count;
}

size_t fopo_graph_search(uint32_t *ids, fopo_graph_walker *w, const fopo_graph *g,
                         fopo_matrix items, const float *q, size_t ef,
                         const fopo_kernels *kernels) {
  float score;
  uint32_t start = descend(&score, w, g, items, q, kernels);
  next_mark(w);
  w->seen[start] = w->mark;
  w->pool[0] = fopo_topk_key(score, start);
  size_t n = 1;
  /* Expand the best item that is not expanded; all before `at` are. A new item may come before it.
   */
  for (size_t at = 0; at < n;) {
    if (!(w->pool[at] & UNEXPANDED)) {
      at++;
      continue;
    }
    uint32_t id = fopo_topk_id(w->pool[at]);
    w->pool[at++] &= ~UNEXPANDED;
    size_t count = expand(w, g, items, id, q, kernels);
    for (size_t j = 0; j < count; j++) {
      size_t place = insert(w->pool, &n, ef, fopo_topk_key(w->scores[j], w->fresh[j]));
      if (place < at) at = place;
    }
  }
  for (size_t i = 0; i < n; i++) ids[i] = fopo_topk_id(w->pool[i] | UNEXPANDED);
  return n;
}
