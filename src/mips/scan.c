/* Two ways to be parallel: a large batch is cut into groups of queries, each searched by one
 * thread; a small batch is a single group, whose blocks all threads share. Both run the same code
 * (scan_group.c), and because the selection is exact (mips/topk.h) both return the same bits. */
#include "mips/scan.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/norm.h"
#include "mips/scan_group.h"

enum {
  HALF = FOPO_SCAN_HALF,
  TILE = FOPO_SCAN_TILE,
  TILE_PREFILTER = FOPO_SCAN_TILE_PREFILTER,
  SLICE_SHARED = 4096, /* items of a block that threads share: several tiles for each thread */
  MAX_GROUP = 256,     /* queries that share a tile: their panels stay in L2 */
  FEW_COLUMNS = 32     /* up to here selecting costs more than the products */
};

#define MAX_KEYS ((size_t)1 << 23) /* of one worker: 64 MiB */

double fopo_scan_norm(const float *x, size_t n) { return fopo_norm(x, n); }

/* One call of fopo_scan_search. */
typedef struct {
  uint32_t *ids, *counts;
  float *scores;
  fopo_matrix Q;
  size_t k, group, groups; /* queries of a group; number of groups */
  int threads;             /* that share a group */
  size_t done;             /* queries answered */
  size_t scored;
  int reported; /* 1: a line of progress is open */
  int status;
} batch;

/* Shows the progress: queries answered, and `part` of the current group. For the thread that called
 * the search. */
static int report(batch *b, double part) {
  size_t done;
#pragma omp atomic read
  done = b->done;
  b->reported = 1;
  double total = (double)b->Q.rows, now = (double)done + part;
  return fopo_progress("searching", now < 0.99 * total ? now : 0.99 * total, total);
}

/* Searches group g and writes its answers. is_main: this thread called the search. */
static int run_group(batch *b, const fopo_scan *scan, fopo_scan_worker *w, size_t g, int is_main) {
  size_t first = g * b->group, left = b->Q.rows - first, k = b->k;
  fopo_matrix Q = fopo_matrix_rows(b->Q, first, left < b->group ? left : b->group);
  fopo_scan_group_start(scan, w, Q, k);
  while (fopo_scan_group_run(scan, w, b->threads)) {
    double part = (double)Q.rows * (double)w->at / (double)scan->limit;
    if (is_main ? report(b, part) != FOPO_OK : fopo_interrupted()) return FOPO_ERR_INTERRUPTED;
  }
  /* The rescoring and sorting of the answers is shared too, if it is more than a few. */
#pragma omp parallel for num_threads(b->threads) if (Q.rows * k > 256)
  for (size_t i = 0; i < Q.rows; i++) {
    fopo_topk *t = &w->top[i];
    uint32_t *ids = b->ids + (first + i) * k;
    b->counts[first + i] = b->scores == NULL ? fopo_topk_finish_set(t, ids, w->kernels, scan->items)
                                             : fopo_topk_finish(t, ids, b->scores + (first + i) * k,
                                                                w->kernels, scan->items);
  }
#pragma omp atomic
  b->done += Q.rows;
#pragma omp atomic
  b->scored += w->scored;
  return FOPO_OK;
}

/* Searches group g, unless a group has failed already. */
static void run_next(batch *b, const fopo_scan *scan, size_t g, int me) {
  int status;
#pragma omp atomic read
  status = b->status;
  if (status != FOPO_OK) return;
  status = run_group(b, scan, &scan->workers[me], g, me == 0);
  if (status == FOPO_OK) return;
#pragma omp atomic write
  b->status = status;
}

/* One worker: no parallel region here, because each group opens its own, and OpenMP starts new
 * threads for every nested region. */
static void run_batch(batch *b, const fopo_scan *scan, int workers) {
  if (workers == 1) {
    for (size_t g = 0; g < b->groups; g++) run_next(b, scan, g, 0);
    return;
  }
#pragma omp parallel for num_threads(workers) schedule(dynamic, 1)
  for (size_t g = 0; g < b->groups; g++) run_next(b, scan, g, omp_get_thread_num());
}

/* ---- scratch ---- */

static void worker_done(fopo_scan_worker *w) {
  fopo_free(w->top);
  fopo_free(w->keys);
  fopo_free(w->panels);
  fopo_free(w->norm);
  fopo_free(w->rounding);
  fopo_free(w->active);
  fopo_free(w->done);
  fopo_free(w->failed);
  fopo_free(w->estimate);
  fopo_free(w->scores);
  fopo_free(w->packed_panels);
  fopo_free(w->packed);
  fopo_free(w->list);
  fopo_free(w->found);
  *w = (fopo_scan_worker){0};
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static int reserve_prefilter(fopo_scan_worker *w) {
  size_t queries = fopo_scan_padded(w->group);
  size_t lists = w->places / HALF / TILE_PREFILTER + queries / HALF;
  if (w->reserved == NULL) return FOPO_OK;
  w->packed_panels = fopo_alloc(queries, w->reserved->query_bytes(w->dim));
  w->packed = fopo_alloc(w->team * TILE_PREFILTER, w->reserved->row_bytes(w->dim));
  w->list = fopo_alloc(w->places, sizeof *w->list);
  w->found = fopo_alloc(lists, sizeof *w->found);
  int enough = w->packed_panels != NULL && w->packed != NULL && w->list != NULL && w->found != NULL;
  return enough ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* Allocates arrays for at least these sizes, unless they are large enough. */
static int worker_reserve(fopo_scan_worker *w, size_t group, size_t capacity, size_t slice,
                          size_t dim, size_t team, const fopo_prefilter *prefilter) {
  const fopo_prefilter *reserved = prefilter != NULL ? prefilter : w->reserved;
  int enough = w->reserved == reserved && w->team >= team;
  size_t places = fopo_scan_padded(group) * slice;
  w->kernels = fopo_kernels_get(), w->prefilter = prefilter;
  w->slice = slice;
  enough = enough && w->group >= group && w->capacity >= capacity && w->places >= places;
  if (enough) return FOPO_OK;
  group = larger(group, w->group), capacity = larger(capacity, w->capacity);
  places = larger(places, w->places), team = larger(team, w->team);
  worker_done(w);
  w->kernels = fopo_kernels_get(), w->prefilter = prefilter, w->reserved = reserved;
  w->group = group, w->capacity = capacity, w->places = places, w->dim = dim, w->team = team;
  w->slice = slice;
  if ((w->top = fopo_alloc(group, sizeof *w->top)) == NULL ||
      (w->keys = fopo_alloc(group * capacity, sizeof *w->keys)) == NULL ||
      (w->panels = fopo_alloc(fopo_scan_padded(group) * dim, sizeof *w->panels)) == NULL ||
      (w->norm = fopo_alloc(group, sizeof *w->norm)) == NULL ||
      (w->rounding = fopo_alloc(group, sizeof *w->rounding)) == NULL ||
      (w->active = fopo_alloc(group, sizeof *w->active)) == NULL ||
      (w->done = fopo_alloc(group, sizeof *w->done)) == NULL ||
      (w->failed = fopo_alloc(group, sizeof *w->failed)) == NULL ||
      (w->estimate = fopo_alloc(group, sizeof *w->estimate)) == NULL ||
      (w->scores = fopo_alloc(places, sizeof *w->scores)) == NULL ||
      reserve_prefilter(w) != FOPO_OK) {
    worker_done(w);
    return FOPO_ERR_MEMORY;
  }
  return FOPO_OK;
}

static int reserve(fopo_scan *scan, size_t n, const batch *b, size_t slice,
                   const fopo_prefilter *prefilter) {
  size_t capacity = fopo_topk_capacity(b->k, scan->limit);
  if (n > scan->n_workers) {
    fopo_scan_worker *more = fopo_realloc(scan->workers, n, sizeof *more);
    if (more == NULL) return FOPO_ERR_MEMORY;
    scan->workers = more;
    scan->n_workers = n;
  }
  for (size_t i = 0; i < n; i++) {
    int status = worker_reserve(&scan->workers[i], b->group, capacity, slice, scan->items.cols,
                                (size_t)b->threads, prefilter);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

size_t fopo_scan_bytes(const fopo_scan *scan) {
  size_t bytes = scan->n_workers * sizeof *scan->workers;
  for (size_t i = 0; i < scan->n_workers; i++) {
    const fopo_scan_worker *w = &scan->workers[i];
    size_t query = sizeof *w->top + w->capacity * sizeof *w->keys + 3 * sizeof *w->norm +
                   sizeof *w->active + 2 * sizeof *w->done;
    size_t column = w->dim * sizeof *w->panels;
    bytes += w->places * sizeof *w->scores;
    if (w->reserved != NULL) {
      column += w->reserved->query_bytes(w->dim);
      bytes += w->places * sizeof *w->list;
      bytes += w->team * TILE_PREFILTER * w->reserved->row_bytes(w->dim);
    }
    bytes += w->group * query + fopo_scan_padded(w->group) * column;
  }
  return bytes;
}

void fopo_scan_done(fopo_scan *scan) {
  for (size_t i = 0; i < scan->n_workers; i++) worker_done(&scan->workers[i]);
  fopo_free(scan->workers);
  scan->workers = NULL;
  scan->n_workers = 0;
}

/* Items of a block that one thread scores for a group. A prefilter stores only the scores that
 * pass, so its blocks can be long; but the floors are fixed for a whole block: longer blocks let
 * more items pass, shorter ones cost more calls. */
static size_t slice_of(size_t group, const fopo_prefilter *prefilter) {
  if (prefilter == NULL) return TILE;
  size_t slice = (size_t)SLICE_SHARED * FOPO_PANEL / fopo_scan_padded(group);
  return slice / TILE_PREFILTER * TILE_PREFILTER;
}

/* 1 if each thread gets groups of its own, and so never waits for another: if it has a panel of
 * queries, or half a panel if the products take less time than the selection. */
static int is_grouped(const fopo_scan *scan, size_t queries, size_t threads) {
  int cheap =
      fopo_scan_prefilter(scan, queries / threads) != NULL || scan->items.cols <= FEW_COLUMNS;
  return queries >= threads * (cheap ? HALF : FOPO_PANEL);
}

/* Queries of a group: whole panels, two groups a thread; or less than a panel, one group a thread.
 */
static size_t group_of(size_t queries, size_t threads) {
  size_t share = (queries + threads - 1) / threads;
  if (share < FOPO_PANEL) return share;
  size_t group = fopo_scan_padded((queries + 2 * threads - 1) / (2 * threads));
  return group < MAX_GROUP ? group : MAX_GROUP;
}

int fopo_scan_search(uint32_t *ids, float *scores, uint32_t *counts, size_t *scored,
                     fopo_scan *scan, fopo_matrix Q, size_t k) {
  if (Q.rows == 0) return FOPO_OK;
  size_t threads = (size_t)fopo_threads(), capacity = fopo_topk_capacity(k, scan->limit);
  int grouped = is_grouped(scan, Q.rows, threads);
  size_t group = grouped ? group_of(Q.rows, threads) : Q.rows;
  if (group > MAX_KEYS / capacity) group = MAX_KEYS / capacity > 0 ? MAX_KEYS / capacity : 1;
  if (group > Q.rows) group = Q.rows;
  batch b = {.ids = ids,
             .counts = counts,
             .scores = scores,
             .Q = Q,
             .k = k,
             .group = group,
             .groups = (Q.rows + group - 1) / group,
             .threads = grouped ? 1 : (int)threads};
  int workers = grouped ? (int)threads : 1;
  const fopo_prefilter *prefilter = fopo_scan_prefilter(scan, group);
  size_t slice = grouped ? slice_of(group, prefilter) : SLICE_SHARED;
  int status = reserve(scan, (size_t)workers, &b, slice, prefilter);
  if (status != FOPO_OK) return status;
  run_batch(&b, scan, workers);
  *scored += b.scored;
  if (b.status == FOPO_ERR_INTERRUPTED) {
    fopo_progress("searching", 0.0, 0.0); /* closes the line of progress */
    return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while searching");
  }
  if (b.reported) return fopo_progress("searching", (double)Q.rows, (double)Q.rows);
  return FOPO_OK;
}
