/* A search is algorithms 2 and 5 of the paper, and one thread makes it. Instead of two heaps it
 * keeps one sorted pool of ef keys: an item that falls out of it is worse than ef others and would
 * never be expanded. All neighbours of an item are scored in one call of gather_dot, which
 * prefetches their rows. So it is 1.7 to 1.9 times as fast as hnswlib's own search of copied
 * vectors, and 2.4 to 3.2 times as fast as that of rows that are not copied, at equal recall
 * (200,000 x 100, k 10 and 256: scripts/bench/run.lua graph). A file is checked before it is
 * searched, and needs no copy of the items. */
#include "mips/graph.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"
#include "mips/index_internal.h"
#include "mips/topk.h"

enum {
  M_DEFAULT = 16,
  M_MIN = 2,
  M_MAX = 128,
  EF_CONSTRUCTION_DEFAULT = 200,
  EF_CONSTRUCTION_MAX = 65535,
  EF_DEFAULT = 256,
  MAX_LEVEL = 64
};

/* Ids have 31 bits, so the highest bit of the complemented id in a key is free: 1 until the item is
 * expanded. */
#define UNEXPANDED ((uint64_t)1 << 31)

#define TICK 0.05 /* seconds between calls of fopo_progress */

/* Scratch of one thread. */
struct fopo_graph_worker {
  size_t ef, k;    /* what the arrays have room for */
  uint16_t *seen;  /* [n] == mark: visited in this search */
  uint16_t mark;   /* the number of this search */
  uint64_t *pool;  /* [ef] the best so far as keys (mips/topk.h), descending */
  uint32_t *fresh; /* [2 M] the neighbours of an item that were not visited before */
  float *scores;   /* [2 M] of fresh */
  uint64_t *keys;  /* [2 k] found by the graph, and those that the row holds */
  size_t scored;   /* inner products computed in this call */
};

static const uint32_t *links_of(const fopo_graph *g, uint32_t id, uint32_t layer) {
  size_t M = g->options.M;
  if (layer == 0) return g->links + (size_t)id * (1 + 2 * M);
  return g->upper + ((size_t)g->first[id] + layer - 1) * (1 + M);
}

/* ---- scratch ---- */

static void worker_done(fopo_graph_worker *w) {
  fopo_free(w->seen);
  fopo_free(w->pool);
  fopo_free(w->fresh);
  fopo_free(w->scores);
  fopo_free(w->keys);
  *w = (fopo_graph_worker){0};
}

static int worker_reserve(fopo_graph_worker *w, const fopo_graph *g, size_t ef, size_t k) {
  size_t M = g->options.M;
  if (w->ef >= ef && w->k >= k) return FOPO_OK;
  if (ef < w->ef) ef = w->ef;
  if (k < w->k) k = w->k;
  worker_done(w);
  if ((w->seen = fopo_alloc(g->n, sizeof *w->seen)) == NULL ||
      (w->pool = fopo_alloc(ef, sizeof *w->pool)) == NULL ||
      (w->fresh = fopo_alloc(2 * M, sizeof *w->fresh)) == NULL ||
      (w->scores = fopo_alloc(2 * M, sizeof *w->scores)) == NULL ||
      (w->keys = fopo_alloc(2 * k, sizeof *w->keys)) == NULL) {
    worker_done(w);
    return FOPO_ERR_MEMORY;
  }
  w->ef = ef, w->k = k;
  return FOPO_OK;
}

static int reserve(fopo_graph *g, size_t threads, size_t ef, size_t k) {
  if (threads > g->n_workers) {
    if (fopo_resize(&g->workers, threads, sizeof *g->workers) != FOPO_OK) return FOPO_ERR_MEMORY;
    g->n_workers = threads;
  }
  for (size_t i = 0; i < threads; i++) {
    int status = worker_reserve(&g->workers[i], g, ef, k);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

size_t fopo_graph_bytes(const fopo_graph *g) {
  size_t M = g->options.M;
  size_t bytes = g->n * (sizeof *g->levels + sizeof *g->first) +
                 (g->n * (1 + 2 * M) + g->n_upper * (1 + M)) * sizeof(uint32_t);
  for (size_t i = 0; i < g->n_workers; i++) {
    const fopo_graph_worker *w = &g->workers[i];
    bytes += sizeof *w;
    if (w->seen == NULL) continue;
    bytes += g->n * sizeof *w->seen + w->ef * sizeof *w->pool + 2 * w->k * sizeof *w->keys +
             2 * M * (sizeof *w->fresh + sizeof *w->scores);
  }
  return bytes;
}

void fopo_graph_done(fopo_graph *g) {
  for (size_t i = 0; i < g->n_workers; i++) worker_done(&g->workers[i]);
  fopo_free(g->workers);
  fopo_free(g->levels);
  fopo_free(g->links);
  fopo_free(g->first);
  fopo_free(g->upper);
  *g = (fopo_graph){0};
}

/* ---- search ---- */

/* Begins a search: no item is visited. The marks are cleared once in 65,535 searches. */
static void next_mark(fopo_graph_worker *w, size_t n) {
  if (++w->mark != 0) return;
  memset(w->seen, 0, n * sizeof *w->seen);
  w->mark = 1;
}

/* Greedy search from the entry down to layer 1; returns the item where the search of layer 0
 * begins. */
static uint32_t descend(float *score, fopo_graph_worker *w, const fopo_graph *g, fopo_matrix items,
                        const float *q, const fopo_kernels *kernels) {
  uint32_t at = g->entry;
  float best = kernels->dot(fopo_matrix_row(items, at), q, items.cols);
  w->scored++;
  for (uint32_t layer = g->max_level; layer > 0; layer--) {
    uint32_t from;
    do {
      const uint32_t *list = links_of(g, at, layer);
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
static size_t expand(fopo_graph_worker *w, const fopo_graph *g, fopo_matrix items, uint32_t id,
                     const float *q, const fopo_kernels *kernels) {
  const uint32_t *list = links_of(g, id, 0);
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

/* Searches with breadth ef: w->pool = the best items found for q. Returns how many. */
static size_t walk(fopo_graph_worker *w, const fopo_graph *g, fopo_matrix items, const float *q,
                   size_t ef, const fopo_kernels *kernels) {
  float score;
  uint32_t start = descend(&score, w, g, items, q, kernels);
  next_mark(w, g->n);
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
  return n;
}

/* One query: the k best of the n_row answers that the row holds and of those that the graph finds,
 * whose scores by gather_dot have the bits of dot. Returns how many there are. */
static uint32_t answer(uint32_t *ids, float *scores, uint32_t n_row, fopo_graph_worker *w,
                       const fopo_graph *g, fopo_matrix items, const float *q, size_t k,
                       size_t ef) {
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t found = walk(w, g, items, q, ef, kernels);
  if (found > k) found = k;
  for (size_t i = 0; i < found; i++) w->keys[i] = w->pool[i] | UNEXPANDED;
  for (size_t i = 0; i < n_row; i++) w->keys[found + i] = fopo_topk_key(scores[i], ids[i]);
  return fopo_topk_give(ids, scores, w->keys, found + n_row, k, kernels);
}

/* What the threads of a search share. */
typedef struct {
  size_t queries, done;
  double report_at; /* the clock of the next report; used by thread 0 alone */
  int stopped;      /* 1: interrupted */
  int reported;     /* 1: a line of progress is open */
} progress;

/* 1 if the search was interrupted, which p->stopped remembers for `finish`. */
static int is_stopped(progress *p) {
  if (!fopo_interrupted()) return 0;
#pragma omp atomic write
  p->stopped = 1;
  return 1;
}

/* Counts a query that is done; thread 0, which called the search, reports. */
static void count_query(progress *p, int me) {
  size_t done;
#pragma omp atomic capture
  done = ++p->done;
  if (me != 0 || fopo_clock() < p->report_at || done >= p->queries) return;
  p->report_at = fopo_clock() + TICK;
  p->reported = 1;
  /* Its status is not needed: is_stopped reads the flag. */
  (void)fopo_progress("searching", (double)done, (double)p->queries);
}

static int finish(const progress *p) {
  if (p->stopped) {
    fopo_progress("searching", 0.0, 0.0); /* closes the line of progress */
    return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while searching");
  }
  if (!p->reported) return FOPO_OK;
  return fopo_progress("searching", (double)p->queries, (double)p->queries);
}

int fopo_graph_search(uint32_t *ids, float *scores, uint32_t *counts, size_t *scored, fopo_graph *g,
                      fopo_matrix items, fopo_matrix Q, size_t k, const uint8_t *skip) {
  size_t ef = g->options.ef > k ? g->options.ef : k;
  if (ef > g->members) ef = g->members;
  int threads = fopo_threads();
  int status = reserve(g, (size_t)threads, ef, k);
  if (status != FOPO_OK) return status;
  for (int i = 0; i < threads; i++) g->workers[i].scored = 0;
  progress p = {.queries = Q.rows, .report_at = fopo_clock() + TICK};
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4) if (Q.rows > 1)
  for (size_t b = 0; b < Q.rows; b++) {
    int me = omp_get_thread_num();
    if (is_stopped(&p)) continue;
    if (skip == NULL || !skip[b]) {
      counts[b] = answer(ids + b * k, scores + b * k, counts[b], &g->workers[me], g, items,
                         fopo_matrix_row(Q, b), k, ef);
    }
    count_query(&p, me);
  }
  for (int i = 0; i < threads; i++) *scored += g->workers[i].scored;
  return finish(&p);
}

/* ---- build ---- */

int fopo_graph_options(fopo_hnsw_options *filled, const fopo_hnsw_options *requested, size_t n) {
  fopo_hnsw_options *o = filled;
  *o = requested != NULL ? *requested : (fopo_hnsw_options){0};
  if (o->M == 0) o->M = M_DEFAULT;
  if (o->ef_construction == 0) {
    o->ef_construction = o->M > EF_CONSTRUCTION_DEFAULT ? o->M : EF_CONSTRUCTION_DEFAULT;
  }
  if (o->ef == 0) o->ef = EF_DEFAULT;
  if (o->M < M_MIN || o->M > M_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "M is %zu; a graph has %d to %d links per item", o->M,
                     M_MIN, M_MAX);
  }
  if (o->ef_construction < o->M || o->ef_construction > EF_CONSTRUCTION_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "ef_construction is %zu; use %zu (M) to %d",
                     o->ef_construction, o->M, EF_CONSTRUCTION_MAX);
  }
  if (o->ef > n) o->ef = n;
  return FOPO_OK;
}

/* Makes a graph of given levels [n], which it owns from here on: sets members, max_level, n_upper
 * and first; the links follow. FOPO_ERR_FORMAT if a level is too high. */
static int adopt_levels(fopo_graph *g, size_t n, uint8_t *levels) {
  g->n = n;
  g->levels = levels;
  g->first = fopo_alloc(n, sizeof *g->first);
  if (g->first == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    g->first[i] = (uint32_t)g->n_upper;
    if (levels[i] == FOPO_GRAPH_ABSENT) continue;
    g->members++;
    if (levels[i] > MAX_LEVEL) {
      return fopo_fail(FOPO_ERR_FORMAT, "item %zu has level %d, more than %d; build it again",
                       i + 1, levels[i], MAX_LEVEL);
    }
    if (g->n_upper + levels[i] > UINT32_MAX) {
      return fopo_fail(FOPO_ERR_FORMAT, "the upper layers have too many items; build it again");
    }
    g->n_upper += levels[i];
    if (levels[i] > g->max_level) g->max_level = levels[i];
  }
  return FOPO_OK;
}

static int draw_levels(fopo_graph *g, size_t n, const uint8_t *absent) {
  uint8_t *levels = fopo_alloc(n, sizeof *levels);
  if (levels == NULL) return FOPO_ERR_MEMORY;
  double scale = 1.0 / log((double)g->options.M);
  for (size_t i = 0; i < n; i++) {
    double u = fopo_unit(fopo_random(g->options.seed, FOPO_STREAM_LEVEL, 0, (uint32_t)i, 0).v[0]);
    levels[i] = (uint8_t)(-log(u) * scale); /* u >= 2^-33 and M >= 2: at most 33 */
    if (absent != NULL && absent[i]) levels[i] = FOPO_GRAPH_ABSENT;
  }
  return adopt_levels(g, n, levels);
}

/* An estimate of the peak of memory while building n items with so many threads, in bytes. hnswlib
 * takes per item: links, a pointer and a label; a mutex, the level, a pointer to the upper lists,
 * an entry of the label map; two bytes of each thread's visited list. */
static uint64_t estimate(size_t n, size_t links, int threads) {
  double M = (double)links;
  double inside =
      (8.0 * M + 4 + 8 + 8) + 40 + 4 + 8 + 40 + 2.0 * threads + (4.0 * M + 17) / (M - 1.0);
  double kept = 4.0 * (1.0 + 2.0 * M) + 1 + 4 + 4.0 * (M + 1) / (M - 1.0);
  return (uint64_t)((double)n * (inside + kept)) + 65536 * 40;
}

/* Breadth-first search, a layer at a time from the top: items reached on a layer are the starting
 * points of the layer below. */
static int find_reachable(fopo_graph *g) {
  uint32_t *queue = fopo_alloc(g->n, sizeof *queue);
  uint8_t *seen = fopo_alloc(g->n, sizeof *seen);
  int status = queue != NULL && seen != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  size_t count = 0;
  if (status == FOPO_OK) {
    queue[count++] = g->entry;
    seen[g->entry] = 1;
    for (uint32_t layer = g->max_level + 1; layer-- > 0;) {
      for (size_t at = 0; at < count; at++) {
        const uint32_t *list = links_of(g, queue[at], layer);
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
  g->reachable = count;
  return status;
}

int fopo_graph_build(fopo_graph *g, fopo_matrix items, const fopo_hnsw_options *filled,
                     const uint8_t *absent) {
  int threads = filled->deterministic ? 1 : fopo_threads();
  *g = (fopo_graph){.options = *filled};
  int status = fopo_memory_suffices(estimate(items.rows, filled->M, threads), "building the graph",
                                    "use a smaller M, or the norm index, which takes little");
  if (status == FOPO_OK) status = draw_levels(g, items.rows, absent);
  if (status == FOPO_OK) status = fopo_graph_insert(g, items, threads);
  if (status == FOPO_OK) status = find_reachable(g);
  return status;
}

/* ---- files: everything that is read is checked ---- */

static const char *const number_names[FOPO_GRAPH_NUMBERS] = {
    "M", "ef_construction", "ef", "seed", "deterministic", "entry", "reachable"};

void fopo_graph_members(fopo_array a[FOPO_GRAPH_MEMBERS], uint64_t numbers[FOPO_GRAPH_NUMBERS],
                        const fopo_graph *g) {
  const fopo_hnsw_options *o = &g->options;
  const uint64_t values[] = {o->M,     o->ef_construction, o->ef, o->seed, o->deterministic != 0,
                             g->entry, g->reachable};
  for (size_t i = 0; i < FOPO_GRAPH_NUMBERS; i++) {
    numbers[i] = values[i];
    a[i] = fopo_array_of(number_names[i], FOPO_U64, &numbers[i], 0, 1, 1);
  }
  a += FOPO_GRAPH_NUMBERS;
  a[0] = fopo_array_of("levels", FOPO_U8, g->levels, 1, g->n, 1);
  a[1] = fopo_array_of("links", FOPO_U32, g->links, 2, g->n, 1 + 2 * o->M);
  a[2] = fopo_array_of("upper", FOPO_U32, g->upper, 2, g->n_upper, 1 + o->M);
}

/* An array whose shape must be the one that follows from the options and the items. */
static int need_shape(fopo_array **a, fopo_archive *archive, const char *path, const char *name,
                      fopo_dtype type, int ndim, size_t rows, size_t cols) {
  int status = fopo_archive_need(a, archive, path, name, type, ndim);
  if (status != FOPO_OK || ((*a)->shape[0] == rows && (*a)->shape[1] == cols)) return status;
  return fopo_fail(
      FOPO_ERR_FORMAT,
      "%s: %s is %zu x %zu, but the items and M require %zu x %zu; the index is damaged, "
      "build it again",
      path, name, (*a)->shape[0], (*a)->shape[1], rows, cols);
}

static int load_numbers(fopo_graph *g, fopo_archive *archive, const char *path, size_t n) {
  const uint64_t most[] = {M_MAX, EF_CONSTRUCTION_MAX, n, UINT64_MAX, 1, n - 1, n};
  uint64_t v[FOPO_GRAPH_NUMBERS];
  for (size_t i = 0; i < FOPO_GRAPH_NUMBERS; i++) {
    int status = fopo_index_number(&v[i], archive, path, number_names[i], most[i]);
    if (status != FOPO_OK) return status;
  }
  fopo_hnsw_options stored = {v[0], v[1], v[2], v[3], (int)v[4]};
  g->entry = (uint32_t)v[5];
  g->reachable = (size_t)v[6];
  if (stored.M == 0 || stored.ef_construction == 0 || stored.ef == 0 ||
      fopo_graph_options(&g->options, &stored, n) != FOPO_OK) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: M = %zu, ef_construction = %zu, ef = %zu are no options of a graph; the "
                     "index is damaged, build it again",
                     path, stored.M, stored.ef_construction, stored.ef);
  }
  return FOPO_OK;
}

/* The index kind decides which items are in the graph, not the file. */
static int check_absent(const fopo_graph *g, const uint8_t *absent, const char *path) {
  for (size_t i = 0; i < g->n; i++) {
    int is_absent = absent != NULL && absent[i];
    if ((g->levels[i] == FOPO_GRAPH_ABSENT) == is_absent) continue;
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: item %zu is %s the graph; the index is damaged, build it again", path,
                     i + 1, is_absent ? "searched exactly, and also in" : "missing from");
  }
  return FOPO_OK;
}

static int has_layer(const fopo_graph *g, uint32_t id, uint32_t layer) {
  return g->levels[id] >= layer && g->levels[id] != FOPO_GRAPH_ABSENT;
}

static int check_list(const fopo_graph *g, size_t i, uint32_t layer, const char *path) {
  const uint32_t *list = links_of(g, (uint32_t)i, layer);
  size_t M = g->options.M;
  size_t most = !has_layer(g, (uint32_t)i, layer) ? 0 : layer == 0 ? 2 * M : M;
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

/* Counts and ids are in bounds, no item is its own neighbour, no link leads to a layer that the
 * other item does not have, none from or to an absent item. */
static int check_links(const fopo_graph *g, const char *path) {
  if (g->levels[g->entry] != g->max_level) {
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

int fopo_graph_load(fopo_graph *g, fopo_archive *archive, const char *path, size_t n,
                    const uint8_t *absent) {
  *g = (fopo_graph){0};
  int status = load_numbers(g, archive, path, n);
  size_t M = g->options.M, stored = g->reachable;
  fopo_array *levels, *links, *upper;
  if (status == FOPO_OK) status = need_shape(&levels, archive, path, "levels", FOPO_U8, 1, n, 1);
  if (status == FOPO_OK) status = adopt_levels(g, n, fopo_array_release(levels));
  if (status == FOPO_OK) status = check_absent(g, absent, path);
  if (status == FOPO_OK) {
    status = need_shape(&links, archive, path, "links", FOPO_U32, 2, n, 1 + 2 * M);
  }
  if (status != FOPO_OK) return status;
  g->links = fopo_array_release(links);
  status = need_shape(&upper, archive, path, "upper", FOPO_U32, 2, g->n_upper, 1 + M);
  if (status != FOPO_OK) return status;
  g->upper = fopo_array_release(upper);
  status = check_links(g, path);
  if (status == FOPO_OK) status = find_reachable(g);
  if (status != FOPO_OK || g->reachable == stored) return status;
  return fopo_fail(FOPO_ERR_FORMAT,
                   "%s: %zu items can be reached, but %zu could when it was saved; the index is "
                   "damaged, build it again",
                   path, g->reachable, stored);
}
