/* See walk.h; the search of one query is in graph.c. */
#include "mips/walk.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/progress.h"
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
  EF_DEFAULT = 256
};

#define TICK 0.05 /* seconds between calls of fopo_progress */

/* Scratch of one thread. */
struct fopo_walk_worker {
  fopo_graph_walker walker;
  uint32_t *ids;   /* [capacity] found by the graph */
  uint64_t *keys;  /* [capacity] of those and of the answers that the row holds */
  size_t capacity; /* ef + k */
};

/* ---- search ---- */

static void worker_done(fopo_walk_worker *w) {
  fopo_graph_walker_done(&w->walker);
  fopo_free(w->ids);
  fopo_free(w->keys);
  *w = (fopo_walk_worker){0};
}

static int worker_reserve(fopo_walk_worker *w, const fopo_graph *g, size_t ef, size_t k) {
  int status = fopo_graph_walker_reserve(&w->walker, g, ef);
  size_t capacity = ef + k;
  if (status != FOPO_OK || w->capacity >= capacity) return status;
  fopo_free(w->ids);
  fopo_free(w->keys);
  w->capacity = 0;
  w->ids = fopo_alloc(capacity, sizeof *w->ids);
  w->keys = fopo_alloc(capacity, sizeof *w->keys);
  if (w->ids == NULL || w->keys == NULL) return FOPO_ERR_MEMORY;
  w->capacity = capacity;
  return FOPO_OK;
}

static int reserve(fopo_walk *w, size_t threads, size_t ef, size_t k) {
  if (threads > w->n_workers) {
    fopo_walk_worker *more = fopo_realloc(w->workers, threads, sizeof *more);
    if (more == NULL) return FOPO_ERR_MEMORY;
    w->workers = more;
    w->n_workers = threads;
  }
  for (size_t i = 0; i < threads; i++) {
    int status = worker_reserve(&w->workers[i], &w->graph, ef, k);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* One query: the k best of the n_row answers that the row holds and of those that the graph finds,
 * by the kernels' dot. Returns how many there are. */
static uint32_t answer(uint32_t *ids, float *scores, uint32_t n_row, fopo_walk_worker *me,
                       const fopo_walk *w, fopo_matrix items, const float *q, size_t k, size_t ef) {
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t found = fopo_graph_search(me->ids, &me->walker, &w->graph, items, q, ef, kernels);
  if (found > k) found = k;
  for (size_t i = 0; i < found; i++) {
    const float *row = fopo_matrix_row(items, me->ids[i]);
    me->keys[i] = fopo_topk_key(kernels->dot(row, q, items.cols), me->ids[i]);
  }
  for (size_t i = 0; i < n_row; i++) me->keys[found + i] = fopo_topk_key(scores[i], ids[i]);
  found += n_row;
  kernels->sort(me->keys, found);
  if (found > k) found = k;
  for (size_t i = 0; i < k; i++) {
    ids[i] = i < found ? fopo_topk_id(me->keys[i]) : FOPO_NO_ITEM;
    scores[i] = i < found ? fopo_topk_score(me->keys[i]) : -INFINITY;
  }
  return (uint32_t)found;
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

int fopo_walk_search(uint32_t *ids, float *scores, uint32_t *counts, size_t *scored, fopo_walk *w,
                     fopo_matrix items, fopo_matrix Q, size_t k, const uint8_t *skip) {
  size_t ef = w->options.ef > k ? w->options.ef : k;
  if (ef > w->graph.members) ef = w->graph.members;
  int threads = fopo_threads();
  int status = reserve(w, (size_t)threads, ef, k);
  if (status != FOPO_OK) return status;
  for (int i = 0; i < threads; i++) w->workers[i].walker.scored = 0;
  progress p = {.queries = Q.rows, .report_at = fopo_clock() + TICK};
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4) if (Q.rows > 1)
  for (size_t b = 0; b < Q.rows; b++) {
    int me = omp_get_thread_num();
    if (is_stopped(&p)) continue;
    if (skip == NULL || !skip[b]) {
      counts[b] = answer(ids + b * k, scores + b * k, counts[b], &w->workers[me], w, items,
                         fopo_matrix_row(Q, b), k, ef);
    }
    count_query(&p, me);
  }
  for (int i = 0; i < threads; i++) *scored += w->workers[i].walker.scored;
  return finish(&p);
}

/* ---- life ---- */

void fopo_walk_done(fopo_walk *w) {
  for (size_t i = 0; i < w->n_workers; i++) worker_done(&w->workers[i]);
  fopo_free(w->workers);
  fopo_graph_done(&w->graph);
  *w = (fopo_walk){0};
}

size_t fopo_walk_bytes(const fopo_walk *w) {
  size_t bytes = fopo_graph_bytes(&w->graph);
  for (size_t i = 0; i < w->n_workers; i++) {
    const fopo_walk_worker *one = &w->workers[i];
    bytes += sizeof *one + fopo_graph_walker_bytes(&one->walker) +
             one->capacity * (sizeof *one->ids + sizeof *one->keys);
  }
  return bytes;
}

int fopo_walk_options(fopo_hnsw_options *filled, const fopo_hnsw_options *requested, size_t n) {
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

int fopo_walk_build(fopo_walk *w, fopo_matrix items, const fopo_hnsw_options *filled,
                    const uint8_t *absent) {
  size_t n = items.rows;
  int threads = filled->deterministic ? 1 : fopo_threads();
  w->options = *filled;
  uint64_t bytes = fopo_graph_estimate(n, filled->M, threads);
  int status = fopo_memory_suffices(bytes, "building the graph",
                                    "use a smaller M, or the norm index, which takes little");
  if (status == FOPO_OK) status = fopo_graph_init(&w->graph, n, filled->M, filled->seed, absent);
  if (status == FOPO_OK) {
    status = fopo_graph_insert(&w->graph, items, filled->ef_construction, threads);
  }
  if (status == FOPO_OK) status = fopo_graph_reachable(&w->reachable, &w->graph);
  return status;
}

/* ---- files: everything that is read is checked ---- */

void fopo_walk_members(fopo_array a[FOPO_WALK_MEMBERS], fopo_walk_numbers *numbers,
                       const fopo_walk *w) {
  const fopo_graph *g = &w->graph;
  *numbers = (fopo_walk_numbers){.M = g->M,
                                 .ef_construction = w->options.ef_construction,
                                 .ef = w->options.ef,
                                 .seed = w->options.seed,
                                 .deterministic = w->options.deterministic != 0,
                                 .entry = g->entry,
                                 .reachable = w->reachable};
  a[0] = fopo_array_of("M", FOPO_U64, &numbers->M, 0, 1, 1);
  a[1] = fopo_array_of("ef_construction", FOPO_U64, &numbers->ef_construction, 0, 1, 1);
  a[2] = fopo_array_of("ef", FOPO_U64, &numbers->ef, 0, 1, 1);
  a[3] = fopo_array_of("seed", FOPO_U64, &numbers->seed, 0, 1, 1);
  a[4] = fopo_array_of("deterministic", FOPO_U64, &numbers->deterministic, 0, 1, 1);
  a[5] = fopo_array_of("entry", FOPO_U64, &numbers->entry, 0, 1, 1);
  a[6] = fopo_array_of("reachable", FOPO_U64, &numbers->reachable, 0, 1, 1);
  a[7] = fopo_array_of("levels", FOPO_U8, g->levels, 1, g->n, 1);
  a[8] = fopo_array_of("links", FOPO_U32, g->links, 2, g->n, 1 + 2 * g->M);
  a[9] = fopo_array_of("upper", FOPO_U32, g->upper, 2, g->n_upper, 1 + g->M);
}

/* Moves an array out of the archive; its shape must be the one that follows from the options and
 * the items. NULL if it is not. */
static void *move_array(fopo_archive *archive, const char *path, const char *name, fopo_dtype type,
                        int ndim, size_t rows, size_t cols) {
  fopo_array *a = fopo_archive_need(archive, path, name, type, ndim);
  if (a == NULL) return NULL;
  if (a->shape[0] != rows || a->shape[1] != cols) {
    fopo_fail(FOPO_ERR_FORMAT,
              "%s: %s is %zu x %zu, but the items and M require %zu x %zu; the index is damaged, "
              "build it again",
              path, name, a->shape[0], a->shape[1], rows, cols);
    return NULL;
  }
  void *data = a->data;
  a->data = NULL;
  return data;
}

static int load_options(fopo_hnsw_options *o, fopo_archive *archive, const char *path, size_t n) {
  struct {
    const char *name;
    uint64_t most, value;
  } numbers[] = {{"M", M_MAX, 0},
                 {"ef_construction", EF_CONSTRUCTION_MAX, 0},
                 {"ef", n, 0},
                 {"seed", UINT64_MAX, 0},
                 {"deterministic", 1, 0}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    int status =
        fopo_index_number(&numbers[i].value, archive, path, numbers[i].name, numbers[i].most);
    if (status != FOPO_OK) return status;
  }
  fopo_hnsw_options stored = {numbers[0].value, numbers[1].value, numbers[2].value,
                              numbers[3].value, (int)numbers[4].value};
  if (stored.M == 0 || stored.ef_construction == 0 || stored.ef == 0 ||
      fopo_walk_options(o, &stored, n) != FOPO_OK) {
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

int fopo_walk_load(fopo_walk *w, fopo_archive *archive, const char *path, size_t n,
                   const uint8_t *absent) {
  fopo_graph *g = &w->graph;
  int status = load_options(&w->options, archive, path, n);
  if (status != FOPO_OK) return status;
  size_t M = w->options.M;
  uint64_t entry, reachable;
  uint8_t *levels = move_array(archive, path, "levels", FOPO_U8, 1, n, 1);
  if (levels == NULL) return FOPO_ERR_FORMAT;
  status = fopo_graph_adopt(g, n, M, levels);
  if (status == FOPO_OK) status = check_absent(g, absent, path);
  if (status == FOPO_OK) status = fopo_index_number(&entry, archive, path, "entry", n - 1);
  if (status == FOPO_OK) status = fopo_index_number(&reachable, archive, path, "reachable", n);
  if (status != FOPO_OK) return status;
  g->entry = (uint32_t)entry;
  g->links = move_array(archive, path, "links", FOPO_U32, 2, n, 1 + 2 * M);
  if (g->links == NULL) return FOPO_ERR_FORMAT;
  g->upper = move_array(archive, path, "upper", FOPO_U32, 2, g->n_upper, 1 + M);
  if (g->upper == NULL) return FOPO_ERR_FORMAT;
  status = fopo_graph_check(g, path);
  if (status == FOPO_OK) status = fopo_graph_reachable(&w->reachable, g);
  if (status != FOPO_OK) return status;
  if (w->reachable != reachable) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: %zu items can be reached, but %" PRIu64
                     " could when it was saved; the index is damaged, build it again",
                     path, w->reachable, reachable);
  }
  return FOPO_OK;
}
