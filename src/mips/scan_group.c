/* The life of a group: the order of items is scored block after block (scan_score.c) and selected
 * from (scan_select.c), in rounds of growing length, for the queries still active.
 *
 * With a prefilter the floors of the first round are estimated from a sample of it, so that even
 * its first block is filtered. The estimate is proven at the end of the round, by k scores above
 * it; for queries with too high an estimate the round is repeated without one. */
#include "mips/scan_group.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/progress.h"

enum {
  ESTIMATE_MIN_K = FOPO_SCAN_ESTIMATE_MIN_K,
  ROUND_FIRST = 128,      /* for k = 1 the answer is nearly always among these */
  ROUND_ESTIMATED = 2048, /* a first round long enough to sample */
  ROUND_MAX = 4096        /* bounds the items scored after a query could have stopped */
};

#define ALONE_MAX (256.0 * 1024.0) /* multiplications that one thread does faster than a team */
#define ROUND_UP  (1.0 + 0x1p-20)  /* covers the roundings in computing a bound */
#define TICK      0.05             /* seconds between pauses */
#define COARSE                                                                                     \
  0x1p-8 /* of a rounding: above it the first round is scored in float32, because most             \
          * of the answer has large norms, and so large errors, that dots must decide */

/* ---- error bounds ---- */

/* |score - dot| <= norm |q| + rounding |q - rounded q| + constant for all items from `at` on. */
typedef struct {
  double norm, rounding, constant;
} error_bound;

static double max_norm_from(const fopo_scan *scan, size_t at) {
  return (double)(scan->norms != NULL ? scan->norms[at] : scan->max_norm);
}

/* Of float32 scores: 2 gamma_L |q| |beta|, plus what underflow may lose. */
static error_bound float32_error(const fopo_scan *scan, size_t at) {
  double norm = max_norm_from(scan, at);
  return (error_bound){1.25 * fopo_scan_rounding(scan->items.cols) * norm, 0.0, (double)FLT_MIN};
}

/* Of the prefilter: the bound of kernels/prefilter.h, with the measured roundings of the queries
 * and of the rows that the index packed. */
static error_bound prefilter_error(const fopo_scan *scan, const fopo_scan_worker *w, size_t at) {
  double norm = max_norm_from(scan, at);
  double L = (double)scan->items.cols, tiny = (double)FLT_MIN;
  double error =
      at < w->prefix_rows ? scan->prefix.rounding : w->prefilter->most_rounding(scan->items.cols);
  return (error_bound){(error + 1.5 * fopo_scan_rounding(scan->items.cols)) * norm * ROUND_UP +
                           tiny * sqrt(L),
                       (1.0 + error) * norm * ROUND_UP, tiny * (sqrt(L) * norm + 2.0 * L + 1.0)};
}

/* ---- from block to block ---- */

/* Where the block that begins at w->at must end: no boundary at which the way of scoring or the
 * state changes may lie inside it. */
static size_t block_end(const fopo_scan *scan, const fopo_scan_worker *w) {
  const size_t boundaries[] = {scan->packed.rows, w->prefix_rows, w->full_until, w->first_end};
  size_t end = fopo_scan_min(w->round_end, w->at + w->slice);
  for (size_t b = 0; b < sizeof boundaries / sizeof *boundaries; b++) {
    if (w->at < boundaries[b]) end = fopo_scan_min(end, boundaries[b]);
  }
  return end;
}

/* Chooses the next block and how it is scored, and tells the selections how large errors are. */
static void next_block(const fopo_scan *scan, fopo_scan_worker *w) {
  if (w->at == w->round_end) { /* a new round: as many items as were scored so far */
    size_t size = scan->norms != NULL ? fopo_scan_min(w->at, ROUND_MAX) : scan->limit;
    w->round_end = w->at + fopo_scan_min(scan->limit - w->at, size);
  }
  w->step = block_end(scan, w) - w->at;
  w->prefiltered = w->at >= w->full_until && fopo_scan_is_filtered(w, w->at, w->n_active);
  error_bound e = w->prefiltered ? prefilter_error(scan, w, w->at) : float32_error(scan, w->at);
  for (size_t i = 0; i < w->n_active; i++) {
    double error = e.norm * (double)w->norm[i] + e.rounding * (double)w->rounding[i] + e.constant;
    fopo_topk_set_error(&w->top[w->active[i]], fopo_scan_up(error));
  }
}

static void swap_queries(fopo_scan_worker *w, size_t i, size_t j) {
  float norm = w->norm[i], rounding = w->rounding[i];
  uint32_t active = w->active[i];
  uint8_t failed = w->failed[i];
  w->norm[i] = w->norm[j], w->rounding[i] = w->rounding[j];
  w->active[i] = w->active[j], w->failed[i] = w->failed[j];
  w->norm[j] = norm, w->rounding[j] = rounding;
  w->active[j] = active, w->failed[j] = failed;
}

static void drop_done(const fopo_scan *scan, fopo_scan_worker *w) {
  size_t kept = 0;
  for (size_t i = 0; i < w->n_active; i++) {
    if (w->done[i]) continue;
    if (kept < i) swap_queries(w, kept, i);
    kept++;
  }
  if (kept == w->n_active) return;
  w->n_active = kept;
  fopo_scan_fill_panels(w, scan->items.cols);
}

/* Begins the first round again for the queries with too high an estimate; the others wait behind.
 */
static void repeat_first_round(const fopo_scan *scan, fopo_scan_worker *w) {
  size_t failed = 0;
  for (size_t i = 0; i < w->n_active; i++) {
    if (w->failed[i]) swap_queries(w, failed++, i);
  }
  w->floors = FLOORS_PROVEN;
  if (failed == 0) return;
  w->floors = FLOORS_FAILED;
  w->n_waiting = w->n_active - failed;
  w->n_active = failed;
  w->at = 0;
  w->round_end = w->first_end;
  for (size_t i = 0; i < failed; i++) {
    fopo_topk *t = &w->top[w->active[i]];
    fopo_topk_init(t, t->keys, t->capacity, t->k, t->q);
  }
  fopo_scan_fill_panels(w, scan->items.cols);
}

/* The repeated round is over: the queries that waited are active again. */
static void resume_waiting(const fopo_scan *scan, fopo_scan_worker *w) {
  memset(w->done + w->n_active, 0, w->n_waiting * sizeof *w->done);
  w->n_active += w->n_waiting;
  w->n_waiting = 0;
  w->floors = FLOORS_PROVEN;
  fopo_scan_fill_panels(w, scan->items.cols);
}

static void advance(const fopo_scan *scan, fopo_scan_worker *w) {
  /* A repeated round is counted once. */
  if (w->floors != FLOORS_FAILED) w->scored += w->step * w->n_active;
  w->at += w->step;
  if (w->at == w->first_end && w->floors == FLOORS_FAILED) resume_waiting(scan, w);
  if (w->at == w->round_end) drop_done(scan, w);
  if (w->at == w->first_end && w->floors == FLOORS_ESTIMATED) repeat_first_round(scan, w);
  if (w->at < scan->limit) next_block(scan, w);
  w->pause = fopo_interrupted() || fopo_clock() > w->pause_at;
}

static int is_unfinished(const fopo_scan *scan, const fopo_scan_worker *w) {
  return w->n_active > 0 && w->at < scan->limit;
}

/* Blocks until all queries are done, `stop` items are scored, or it is time for a pause. All
 * threads see the same condition: it changes only in `single`, between two barriers. */
static void run_blocks(const fopo_scan *scan, fopo_scan_worker *w, size_t stop, int threads) {
#pragma omp parallel num_threads(threads)
  while (is_unfinished(scan, w) && w->at < stop && !w->pause) {
    if (w->floors == FLOORS_DUE) fopo_scan_estimate_floors(scan, w);
    fopo_scan_score_block(scan, w);
    fopo_scan_select_block(scan, w);
#pragma omp single
    advance(scan, w);
  }
}

/* A zero query (a context without items) scores 0 everywhere: its answer is the k smallest ids. */
static void answer_zero(fopo_topk *t) {
  for (size_t i = 0; i < t->k; i++) t->keys[i] = fopo_topk_key(0.0f, (uint32_t)i);
  t->n = t->k;
}

/* The length of the first round. No query can stop before k items are scored; with a prefilter the
 * round is long enough to estimate good floors from, and if most of the order would belong to it
 * and no query can stop early, it is the only one. It ends with a whole group of packed rows. */
static size_t first_round(const fopo_scan *scan, const fopo_scan_worker *w, size_t k) {
  size_t first = 2 * k > ROUND_FIRST ? 2 * k : ROUND_FIRST;
  int can_stop = scan->norms != NULL && scan->limit == scan->items.rows;
  if (w->prefilter != NULL && k >= ESTIMATE_MIN_K) {
    first = 16 * k > ROUND_ESTIMATED ? 16 * k : ROUND_ESTIMATED;
    if (2 * first >= scan->limit) first = can_stop ? 8 * k : scan->limit;
  }
  return fopo_scan_min(fopo_prefilter_rows(first), scan->limit);
}

const fopo_prefilter *fopo_scan_prefilter(const fopo_scan *scan, size_t n) {
  const fopo_prefilter *prefilter = fopo_kernels_get()->prefilter;
  if (prefilter == NULL || scan->items.cols > prefilter->max_dim) return NULL;
  int is_packed = scan->prefix.by == prefilter && scan->prefix.rows > 0;
  return is_packed || n >= prefilter->pays_from ? prefilter : NULL;
}

void fopo_scan_group_start(const fopo_scan *scan, fopo_scan_worker *w, fopo_matrix Q, size_t k) {
  size_t L = Q.cols, capacity = fopo_topk_capacity(k, scan->limit), n = 0;
  w->prefix_rows = w->prefilter != NULL && scan->prefix.by == w->prefilter ? scan->prefix.rows : 0;
  for (size_t i = 0; i < Q.rows; i++) {
    const float *q = fopo_matrix_row(Q, i);
    fopo_topk_init(&w->top[i], w->keys + i * capacity, capacity, k, q);
    w->norm[n] = fopo_scan_up(fopo_scan_norm(q, L));
    if (w->norm[n] == 0.0f && scan->limit == scan->items.rows) {
      answer_zero(&w->top[i]);
      continue;
    }
    if (w->prefilter != NULL) w->rounding[n] = fopo_scan_up(w->prefilter->rounding(q, L));
    w->active[n++] = (uint32_t)i;
  }
  w->n_active = n;
  w->n_waiting = 0;
  w->first_end = first_round(scan, w, k);
  int estimate = w->prefilter != NULL && k >= ESTIMATE_MIN_K && w->first_end >= 4 * k &&
                 (w->prefix_rows == 0 || scan->prefix.rounding <= COARSE);
  w->full_until = estimate ? fopo_prefilter_rows(2 * k) : w->prefilter != NULL ? w->first_end : 0;
  w->floors =
      estimate && fopo_scan_is_filtered(w, w->first_end - 1, n) ? FLOORS_DUE : FLOORS_PROVEN;
  fopo_scan_fill_panels(w, L);
  w->at = w->scored = 0;
  w->round_end = scan->norms == NULL ? scan->limit : w->first_end;
  next_block(scan, w);
}

int fopo_scan_group_run(const fopo_scan *scan, fopo_scan_worker *w, int threads) {
  if (!is_unfinished(scan, w)) return 0;
  double dots = (double)w->n_active * (double)scan->items.cols; /* multiplications of one item */
  w->pause = 0;
  w->pause_at = fopo_clock() + TICK;
  run_blocks(scan, w, (size_t)(ALONE_MAX / dots) + 1, 1);
  run_blocks(scan, w, scan->limit, threads);
  return is_unfinished(scan, w);
}
