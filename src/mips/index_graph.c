/* The index kind "hnsw": options, searches over many queries, files. The graph is mips/graph.h. */
#include "core/clock.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "mips/graph.h"
#include "mips/index_internal.h"
#include "mips/topk.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <string.h>

enum {
  M_DEFAULT = 16, M_LEAST = 2, M_MOST = 128,
  EF_CONSTRUCTION_DEFAULT = 200, EF_CONSTRUCTION_MOST = 65535,
  EF_DEFAULT = 256
};

#define TICK 0.05 /* seconds between calls of fopo_progress */

/* Scratch of one thread. */
typedef struct {
  fopo_graph_walker walker;
  uint32_t *ids;  /* [room] */
  uint64_t *keys; /* [room] */
  size_t room;
} worker;

typedef struct {
  fopo_graph graph;
  fopo_hnsw_options options; /* no zeros left */
  size_t reachable;
  worker *workers; /* [n_workers] */
  size_t n_workers;
} hnsw_index;

/* ---- search ---- */

static void worker_done(worker *w) {
  fopo_graph_walker_done(&w->walker);
  fopo_free(w->ids);
  fopo_free(w->keys);
  *w = (worker){0};
}

static int worker_reserve(worker *w, const fopo_graph *g, size_t ef) {
  int status = fopo_graph_walker_reserve(&w->walker, g, ef);
  if (status != FOPO_OK || w->room >= ef) return status;
  fopo_free(w->ids);
  fopo_free(w->keys);
  w->room = 0;
  w->ids = fopo_alloc(ef, sizeof *w->ids);
  w->keys = fopo_alloc(ef, sizeof *w->keys);
  if (w->ids == NULL || w->keys == NULL) return FOPO_ERR_MEMORY;
  w->room = ef;
  return FOPO_OK;
}

static int reserve(hnsw_index *own, size_t threads, size_t ef) {
  if (threads > own->n_workers) {
    worker *more = fopo_realloc(own->workers, threads, sizeof *more);
    if (more == NULL) return FOPO_ERR_MEMORY;
    own->workers = more;
    own->n_workers = threads;
  }
  for (size_t i = 0; i < threads; i++) {
    int status = worker_reserve(&own->workers[i], &own->graph, ef);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* One query: the k best of what the graph finds, scored by the kernels' dot. */
static uint32_t answer(uint32_t *ids, float *scores, worker *w, const fopo_index *ix,
                       const float *q, size_t k, size_t ef) {
  const hnsw_index *own = ix->own;
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t found = fopo_graph_search(w->ids, &w->walker, &own->graph, ix->items, q, ef, kernels);
  if (found > k) found = k;
  for (size_t i = 0; i < found; i++) {
    const float *row = fopo_matrix_row(ix->items, w->ids[i]);
    w->keys[i] = fopo_topk_key(kernels->dot(row, q, ix->items.cols), w->ids[i]);
  }
  fopo_topk_sort(w->keys, found);
  for (size_t i = 0; i < k; i++) {
    ids[i] = i < found ? fopo_topk_id(w->keys[i]) : FOPO_NO_ITEM;
    scores[i] = i < found ? fopo_topk_score(w->keys[i]) : -INFINITY;
  }
  return (uint32_t)found;
}

static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t k) {
  hnsw_index *own = ix->own;
  size_t ef = own->options.ef > k ? own->options.ef : k, done = 0;
  if (ef > ix->items.rows) ef = ix->items.rows;
  int threads = fopo_threads(), stop = 0, reported = 0;
  int status = reserve(own, (size_t)threads, ef);
  if (status != FOPO_OK) return status;
  for (int i = 0; i < threads; i++) own->workers[i].walker.scored = 0;
  double until = fopo_clock() + TICK;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4) if (Q.rows > 1)
  for (size_t b = 0; b < Q.rows; b++) {
    int me = omp_get_thread_num();
    if (fopo_interrupted()) {
#pragma omp atomic write
      stop = 1;
      continue;
    }
    counts[b] = answer(ids + b * k, scores + b * k, &own->workers[me], ix, fopo_matrix_row(Q, b),
                       k, ef);
    size_t now;
#pragma omp atomic capture
    now = ++done;
    if (me != 0 || fopo_clock() < until || now >= Q.rows) continue;
    until = fopo_clock() + TICK;
    reported = 1;
    (void)fopo_progress("searching", (double)now, (double)Q.rows); /* the flag is polled above */
  }
  for (int i = 0; i < threads; i++) ix->scored += own->workers[i].walker.scored;
  if (stop) return fopo_progress("searching", 0.0, 0.0);
  if (reported) return fopo_progress("searching", (double)Q.rows, (double)Q.rows);
  return FOPO_OK;
}

/* ---- life ---- */

static void free_own(fopo_index *ix) {
  hnsw_index *own = ix->own;
  if (own == NULL) return;
  for (size_t i = 0; i < own->n_workers; i++) worker_done(&own->workers[i]);
  fopo_free(own->workers);
  fopo_graph_done(&own->graph);
  fopo_free(own);
}

static void about(fopo_index_facts *facts, const fopo_index *ix) {
  const hnsw_index *own = ix->own;
  facts->bytes = sizeof *own + fopo_graph_bytes(&own->graph);
  for (size_t i = 0; i < own->n_workers; i++) {
    const worker *w = &own->workers[i];
    facts->bytes += sizeof *w + fopo_graph_walker_bytes(&w->walker) +
                    w->room * (sizeof *w->ids + sizeof *w->keys);
  }
  facts->reachable = own->reachable;
  facts->M = own->options.M;
  facts->ef_construction = own->options.ef_construction;
  facts->ef = own->options.ef;
}

enum { MEMBERS = 10 };

static int save(const fopo_index *ix, const char *path) {
  const hnsw_index *own = ix->own;
  const fopo_graph *g = &own->graph;
  uint64_t M = g->M, ef_construction = own->options.ef_construction, ef = own->options.ef;
  uint64_t seed = own->options.seed, entry = g->entry, reachable = own->reachable;
  uint64_t deterministic = own->options.deterministic != 0;
  fopo_index_head head;
  fopo_array arrays[FOPO_INDEX_MEMBERS + MEMBERS], *a = arrays + FOPO_INDEX_MEMBERS;
  fopo_index_members(arrays, &head, ix);
  a[0] = fopo_array_of("M", FOPO_U64, &M, 0, 1, 1);
  a[1] = fopo_array_of("ef_construction", FOPO_U64, &ef_construction, 0, 1, 1);
  a[2] = fopo_array_of("ef", FOPO_U64, &ef, 0, 1, 1);
  a[3] = fopo_array_of("seed", FOPO_U64, &seed, 0, 1, 1);
  a[4] = fopo_array_of("deterministic", FOPO_U64, &deterministic, 0, 1, 1);
  a[5] = fopo_array_of("entry", FOPO_U64, &entry, 0, 1, 1);
  a[6] = fopo_array_of("reachable", FOPO_U64, &reachable, 0, 1, 1);
  a[7] = fopo_array_of("levels", FOPO_U8, g->levels, 1, g->n, 1);
  a[8] = fopo_array_of("links", FOPO_U32, g->links, 2, g->n, 1 + 2 * g->M);
  a[9] = fopo_array_of("upper", FOPO_U32, g->upper, 2, g->n_upper, 1 + g->M);
  return fopo_npz_save(path, arrays, FOPO_INDEX_MEMBERS + MEMBERS, 0);
}

static const fopo_index_kind hnsw = {"hnsw", search, free_own, about, save};

static int fill_options(fopo_hnsw_options *o, const fopo_hnsw_options *asked, size_t n) {
  *o = asked != NULL ? *asked : (fopo_hnsw_options){0};
  if (o->M == 0) o->M = M_DEFAULT;
  if (o->ef_construction == 0) {
    o->ef_construction = o->M > EF_CONSTRUCTION_DEFAULT ? o->M : EF_CONSTRUCTION_DEFAULT;
  }
  if (o->ef == 0) o->ef = EF_DEFAULT;
  if (o->M < M_LEAST || o->M > M_MOST) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "M is %zu; a graph has %d to %d links per item", o->M,
                     M_LEAST, M_MOST);
  }
  if (o->ef_construction < o->M || o->ef_construction > EF_CONSTRUCTION_MOST) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "ef_construction is %zu; use %zu (M) to %d",
                     o->ef_construction, o->M, EF_CONSTRUCTION_MOST);
  }
  if (o->ef > n) o->ef = n; /* all items: more cannot be looked at */
  return FOPO_OK;
}

static int build(fopo_index *ix, const fopo_hnsw_options *options) {
  size_t n = ix->items.rows;
  hnsw_index *own = ix->own = fopo_alloc(1, sizeof *own);
  if (own == NULL) return FOPO_ERR_MEMORY;
  own->options = *options;
  int threads = options->deterministic ? 1 : fopo_threads();
  uint64_t bytes = fopo_graph_estimate(n, options->M, threads);
  int status = fopo_memory_suffices(bytes, "building the graph",
                                    "use a smaller M, or the norm index, which takes little");
  if (status == FOPO_OK) status = fopo_graph_init(&own->graph, n, options->M, options->seed);
  if (status == FOPO_OK) {
    status = fopo_graph_insert(&own->graph, ix->items, options->ef_construction, threads);
  }
  if (status == FOPO_OK) status = fopo_graph_reachable(&own->reachable, &own->graph);
  return status;
}

int fopo_index_hnsw(fopo_index **ix, fopo_matrix items, const fopo_hnsw_options *options) {
  double start = fopo_clock();
  fopo_hnsw_options filled;
  *ix = NULL;
  int status = fill_options(&filled, options, items.rows);
  if (status == FOPO_OK) status = fopo_index_begin(ix, &hnsw, items);
  if (status != FOPO_OK) return status;
  status = build(*ix, &filled);
  if (status != FOPO_OK) {
    fopo_index_free(*ix);
    *ix = NULL;
    return status;
  }
  (*ix)->build_seconds = fopo_clock() - start;
  return FOPO_OK;
}

/* ---- loading: the file is believed in nothing ---- */

/* An array of the shape that follows from the options and the items, taken out of the archive. */
static void *take(fopo_archive *archive, const char *path, const char *name, fopo_dtype type,
                  int ndim, size_t rows, size_t cols) {
  fopo_array *a = fopo_archive_need(archive, path, name, type, ndim);
  if (a == NULL) return NULL;
  if (a->shape[0] != rows || a->shape[1] != cols) {
    fopo_fail(FOPO_ERR_FORMAT,
              "%s: %s is %zu x %zu where the items and M ask for %zu x %zu; the index is damaged, "
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
  } numbers[] = {{"M", M_MOST, 0},          {"ef_construction", EF_CONSTRUCTION_MOST, 0},
                 {"ef", n, 0},              {"seed", UINT64_MAX, 0},
                 {"deterministic", 1, 0}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    int status =
        fopo_index_number(&numbers[i].value, archive, path, numbers[i].name, numbers[i].most);
    if (status != FOPO_OK) return status;
  }
  fopo_hnsw_options stored = {numbers[0].value, numbers[1].value, numbers[2].value,
                              numbers[3].value, (int)numbers[4].value};
  if (stored.M == 0 || stored.ef_construction == 0 || stored.ef == 0 ||
      fill_options(o, &stored, n) != FOPO_OK) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: M = %zu, ef_construction = %zu, ef = %zu are no options of a graph; the "
                     "index is damaged, build it again",
                     path, stored.M, stored.ef_construction, stored.ef);
  }
  return FOPO_OK;
}

static int load_graph(hnsw_index *own, fopo_archive *archive, const char *path, size_t n) {
  fopo_graph *g = &own->graph;
  size_t M = own->options.M;
  uint64_t entry, reachable;
  uint8_t *levels = take(archive, path, "levels", FOPO_U8, 1, n, 1);
  if (levels == NULL) return FOPO_ERR_FORMAT;
  int status = fopo_graph_adopt(g, n, M, levels);
  if (status == FOPO_OK) status = fopo_index_number(&entry, archive, path, "entry", n - 1);
  if (status == FOPO_OK) status = fopo_index_number(&reachable, archive, path, "reachable", n);
  if (status != FOPO_OK) return status;
  g->entry = (uint32_t)entry;
  g->links = take(archive, path, "links", FOPO_U32, 2, n, 1 + 2 * M);
  if (g->links == NULL) return FOPO_ERR_FORMAT;
  g->upper = take(archive, path, "upper", FOPO_U32, 2, g->n_upper, 1 + M);
  if (g->upper == NULL) return FOPO_ERR_FORMAT;
  status = fopo_graph_check(g, path);
  if (status == FOPO_OK) status = fopo_graph_reachable(&own->reachable, g);
  if (status != FOPO_OK) return status;
  if (own->reachable != reachable) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: %zu items can be reached where %" PRIu64
                     " could when it was saved; the index is damaged, build it again",
                     path, own->reachable, reachable);
  }
  return FOPO_OK;
}

int fopo_index_hnsw_load(fopo_index **ix, fopo_archive *archive, const char *path,
                         fopo_matrix items) {
  *ix = NULL;
  fopo_hnsw_options options;
  int status = load_options(&options, archive, path, items.rows);
  if (status == FOPO_OK) status = fopo_index_begin(ix, &hnsw, items);
  if (status != FOPO_OK) return status;
  hnsw_index *own = (*ix)->own = fopo_alloc(1, sizeof *own);
  status = FOPO_ERR_MEMORY;
  if (own != NULL) {
    own->options = options;
    status = load_graph(own, archive, path, items.rows);
  }
  if (status != FOPO_OK) {
    fopo_index_free(*ix);
    *ix = NULL;
  }
  return status;
}
