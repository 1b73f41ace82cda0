/* Two ways to be parallel. A large batch is cut into groups of queries, one thread to a group. A
 * small one is one group whose blocks all threads share. Both run the same lines below, and as the
 * selection is exact (mips/topk.h) both give the same bits.
 *
 * Scores come item after item, those of a panel of queries side by side, so that one comparison
 * with the queries' floors passes over all that is not good enough. Never more than a group of
 * queries times SLICE_SHARED of them exist at a time. No row is copied. */
#include "mips/scan.h"
#include "core/clock.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "mips/topk.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

enum {
  TILE = 128,         /* items of one call of `scores`: they and what comes of them stay in L1/L2 */
  CHUNK = 64,         /* items selected before the floors are looked at again */
  HALF = FOPO_PANEL / 2,
  SLICE_SHARED = 4096, /* items of a block that threads share: some tiles for each of them */
  ROUND_FIRST = 128,  /* for k = 1 the answer is nearly always among these */
  ROUND_MOST = 4096,  /* bounds what is scored past the point where a query could have stopped */
  GROUP_MOST = 256,   /* queries that share a tile: their panels stay in L2 */
  GROUP_LEAST = FOPO_PANEL, /* below it panels are not full, so threads share blocks instead */
  LANES = 8,          /* of the sum of a norm */
  FEW = 2             /* queries for which half a panel costs more than single dots */
};

#define KEYS_MOST ((size_t)1 << 23)        /* candidates held per worker: 64 MiB */
#define ALONE_MOST (4.0 * 1024.0 * 1024.0) /* multiplications that are not worth sharing */
#define TICK 0.05                          /* seconds between calls of fopo_progress */

struct fopo_scan_worker {
  size_t group, room, slice, dim; /* what the arrays below have room for */
  fopo_topk *top;                 /* [group] */
  uint64_t *keys;                 /* [group, room] */
  float *panels;                  /* [whole(group), dim] the active queries, panel after panel */
  float *norm;                    /* [group] their norms, rounded up */
  uint32_t *active;               /* [group] their places in top */
  uint8_t *stop;                  /* [group] 1: nothing better can follow */
  float *scores;                  /* [whole(group), slice] */

  /* The state of one group's search. */
  const fopo_kernels *kernels;
  size_t n_active;
  size_t at, step;   /* the block is at .. at + step - 1 of the order */
  size_t round_end;  /* where stopping is tested next */
  size_t scored;
  double until;      /* clock at which to come up for air */
  int pause;
};

/* In LANES partial sums, then in pairs: the same order whatever instructions do it, and a product of
 * two floats is exact in double, so fused or not the bits are the same. */
double fopo_scan_norm(const float *x, size_t n) {
  double sum[LANES] = {0};
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (size_t l = 0; l < LANES; l++) sum[l] += (double)x[i + l] * (double)x[i + l];
  }
  for (size_t l = 0; i + l < n; l++) sum[l] += (double)x[i + l] * (double)x[i + l];
  for (size_t l = 0; l < LANES / 2; l++) sum[l] += sum[l + LANES / 2];
  return sqrt((sum[0] + sum[2]) + (sum[1] + sum[3]));
}

/* Relative bound of what rounding does to an inner product of length L in any order of summation,
 * twice gamma_L = L u / (1 - L u) and some to spare for the roundings around it. */
static double rounding(size_t L) { return (double)(L + 16) * 0x1p-23; }

/* |score - dot| <= 2 gamma_L |q| |beta|, plus what underflow may lose. */
static float slack(const fopo_scan *scan, double norm, size_t at) {
  double most = scan->norms != NULL ? scan->norms[at] : scan->max_norm;
  return fopo_scan_up(1.25 * rounding(scan->items.cols) * norm * most + (double)FLT_MIN);
}

/* ---- a group of queries; the functions that take a team are called by all its threads ---- */

/* Queries rounded up to whole panels. */
static size_t whole(size_t n) { return (n + FOPO_PANEL - 1) / FOPO_PANEL * FOPO_PANEL; }

/* Of the panel that starts with active query `first`: half a panel where that is enough. */
static size_t width(const fopo_scan_worker *w, size_t first) {
  return w->n_active - first > HALF ? FOPO_PANEL : HALF;
}

/* The active queries, each panel [dim, width], missing queries 0. */
static void fill_panels(fopo_scan_worker *w, size_t L) {
  for (size_t first = 0; first < w->n_active; first += FOPO_PANEL) {
    size_t columns = width(w, first);
    float *panel = w->panels + first * L;
    for (size_t j = 0; j < columns; j++) {
      const float *q = first + j < w->n_active ? w->top[w->active[first + j]].q : NULL;
      for (size_t l = 0; l < L; l++) panel[l * columns + j] = q != NULL ? q[l] : 0.0f;
    }
  }
}

/* Scores of each panel [step, width], a tile of items at a time; rows beyond the head in place. */
static void score_many(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t L = scan->items.cols, n = w->step, tiles = (n + TILE - 1) / TILE;
  size_t panels = whole(w->n_active) / FOPO_PANEL;
  int in_head = w->at < scan->head.rows;
  const float *rows = in_head ? fopo_matrix_row(scan->head, w->at) : scan->items.x;
  size_t ld = in_head ? scan->head.ld : scan->items.ld;
#pragma omp for schedule(dynamic, 1)
  for (size_t job = 0; job < tiles * panels; job++) {
    size_t start = job / panels * TILE, count = n - start < TILE ? n - start : TILE;
    size_t first = job % panels * FOPO_PANEL, columns = width(w, first);
    float *out = w->scores + first * w->slice + start * columns;
    w->kernels->scores(out, in_head ? rows + start * ld : rows, ld,
                       in_head ? NULL : scan->order + w->at + start, count, w->panels + first * L,
                       L, columns);
  }
}

static void score_few(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t L = scan->items.cols, n = w->step, tiles = (n + TILE - 1) / TILE;
#pragma omp for schedule(dynamic, 1)
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t first = tile * TILE, count = n - first < TILE ? n - first : TILE;
    for (size_t i = 0; i < w->n_active; i++) {
      float *s = w->scores + i * w->slice + first;
      const float *q = w->top[w->active[i]].q;
      if (w->at >= scan->head.rows) {
        w->kernels->gather_dot(s, scan->items.x, scan->items.ld, scan->order + w->at + first,
                               count, q, L);
      } else {
        for (size_t j = 0; j < count; j++) {
          s[j] = w->kernels->dot(fopo_matrix_row(scan->head, w->at + first + j), q, L);
        }
      }
    }
  }
}

/* No item from place `next` of the order on can score above this. */
static float bound(const fopo_scan *scan, double norm, size_t next) {
  double most = norm * (double)scan->norms[next];
  return fopo_scan_up(most * (1.0 + rounding(scan->items.cols)) + (double)FLT_MIN);
}

int fopo_scan_settled(const fopo_scan *scan, double norm, float kth) {
  if (scan->limit >= scan->items.rows) return 1;
  return kth > bound(scan, (double)fopo_scan_up(norm), scan->limit);
}

/* Offers the block's scores of active queries i .. i + n - 1, which share half a panel. */
static void offer_many(const fopo_scan *scan, const fopo_scan_worker *w, size_t i, size_t n) {
  size_t first = i / FOPO_PANEL * FOPO_PANEL, columns = width(w, first), j = i % HALF;
  const float *s = w->scores + first * w->slice + (i - first) / HALF * HALF;
  uint32_t list[CHUNK * HALF];
  float floor[HALF];
  for (size_t c = 0; c < HALF; c++) floor[c] = INFINITY;
  for (size_t start = 0; start < w->step; start += CHUNK) {
    size_t count = w->step - start < CHUNK ? w->step - start : CHUNK;
    for (size_t c = 0; c < n; c++) floor[j + c] = w->top[w->active[i + c]].floor;
    size_t found = w->kernels->above(list, s + start * columns, columns, count, floor);
    for (size_t f = 0; f < found; f++) {
      size_t at = start + list[f] / HALF, c = list[f] % HALF;
      uint32_t id = scan->order != NULL ? scan->order[w->at + at] : (uint32_t)(w->at + at);
      fopo_topk_push(&w->top[w->active[i + c - j]], w->kernels, scan->items, s[at * columns + c],
                     id);
    }
  }
}

static void offer_few(const fopo_scan *scan, const fopo_scan_worker *w, size_t i) {
  const uint32_t *ids = scan->order != NULL ? scan->order + w->at : NULL;
  fopo_topk_offer(&w->top[w->active[i]], w->kernels, scan->items, w->scores + i * w->slice, ids,
                  (uint32_t)w->at, w->step);
}

/* Queries that one thread selects for: half a panel, or less where there are more threads. */
static size_t share(const fopo_scan_worker *w) {
  size_t n = HALF, threads = (size_t)omp_get_num_threads();
  if (w->n_active <= FEW) return 1;
  while (n > 4 && w->n_active < n * threads) n /= 2;
  return n;
}

/* Offers the block's scores; at the end of a round, marks the queries that are done. */
static void select_block(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t next = w->at + w->step, n = share(w);
  int test = next == w->round_end && next < scan->limit && scan->norms != NULL;
#pragma omp for schedule(dynamic, 1)
  for (size_t first = 0; first < w->n_active; first += n) {
    size_t end = w->n_active - first < n ? w->n_active : first + n;
    for (size_t i = first; i < end; i++) {
      fopo_topk_expect(&w->top[w->active[i]], slack(scan, (double)w->norm[i], w->at));
    }
    if (w->n_active > FEW) {
      offer_many(scan, w, first, end - first);
    } else {
      offer_few(scan, w, first);
    }
    for (size_t i = first; i < end; i++) {
      const fopo_topk *t = &w->top[w->active[i]];
      w->stop[i] = test && fopo_topk_beats(t, bound(scan, (double)w->norm[i], next));
    }
  }
}

/* The next block: as far as the round, the worker's room and the packed head reach. */
static void next_block(const fopo_scan *scan, fopo_scan_worker *w) {
  if (w->at == w->round_end) {
    size_t size = w->at < ROUND_MOST ? w->at : ROUND_MOST; /* doubles what is scored */
    if (scan->norms == NULL) size = scan->limit;
    w->round_end = scan->limit - w->at < size ? scan->limit : w->at + size;
  }
  size_t end = w->round_end, head = scan->head.rows;
  if (w->at < head && head < end) end = head;
  w->step = end - w->at < w->slice ? end - w->at : w->slice;
}

static void drop_done(const fopo_scan *scan, fopo_scan_worker *w) {
  size_t kept = 0;
  for (size_t i = 0; i < w->n_active; i++) {
    if (w->stop[i]) continue;
    w->norm[kept] = w->norm[i];
    w->active[kept++] = w->active[i];
  }
  if (kept == w->n_active) return;
  w->n_active = kept;
  fill_panels(w, scan->items.cols);
}

static void advance(const fopo_scan *scan, fopo_scan_worker *w) {
  w->scored += w->step * w->n_active;
  w->at += w->step;
  drop_done(scan, w);
  if (w->at < scan->limit) next_block(scan, w);
  w->pause = fopo_interrupted() || fopo_clock() > w->until;
}

static int unfinished(const fopo_scan *scan, const fopo_scan_worker *w) {
  return w->n_active > 0 && w->at < scan->limit;
}

/* Blocks until all queries are done, `stop` items are scored or it is time for a pause. All threads
 * see the same condition: it changes in `single` alone, between two barriers. */
static void run_blocks(const fopo_scan *scan, fopo_scan_worker *w, size_t stop, int threads) {
#pragma omp parallel num_threads(threads)
  while (unfinished(scan, w) && w->at < stop && !w->pause) {
    if (w->n_active > FEW) {
      score_many(scan, w);
    } else {
      score_few(scan, w);
    }
    select_block(scan, w);
#pragma omp single
    advance(scan, w);
  }
}

/* A zero query (a context without items) scores 0 everywhere: the k smallest ids, without a look. */
static void answer_zero(fopo_topk *t) {
  for (size_t i = 0; i < t->k; i++) t->keys[i] = fopo_topk_key(0.0f, (uint32_t)i);
  t->n = t->k;
}

static void start_group(const fopo_scan *scan, fopo_scan_worker *w, fopo_matrix Q, size_t k) {
  size_t L = Q.cols, room = fopo_topk_room(k, scan->limit), n = 0;
  for (size_t i = 0; i < Q.rows; i++) {
    const float *q = fopo_matrix_row(Q, i);
    fopo_topk_init(&w->top[i], w->keys + i * room, room, k, q);
    w->norm[n] = fopo_scan_up(fopo_scan_norm(q, L));
    if (w->norm[n] == 0.0f && scan->limit == scan->items.rows) {
      answer_zero(&w->top[i]);
      continue;
    }
    w->active[n++] = (uint32_t)i;
  }
  size_t first = 2 * k > ROUND_FIRST ? 2 * k : ROUND_FIRST; /* k items must be seen to stop */
  w->n_active = n;
  fill_panels(w, L);
  w->at = w->scored = 0;
  w->round_end = scan->norms == NULL || first > scan->limit ? scan->limit : first;
  w->until = fopo_clock() + TICK;
  next_block(scan, w);
}

/* One call of fopo_scan_search. */
typedef struct {
  uint32_t *ids, *counts;
  float *scores;
  fopo_matrix Q;
  size_t k, group, groups;
  int threads;      /* of a group's own team */
  size_t done;      /* queries answered */
  size_t scored;
  int reported;     /* 1: a progress line is open */
  int status;
} batch;

/* The thread that called the search tells how far it is. */
static int report(batch *b, double part) {
  size_t done;
#pragma omp atomic read
  done = b->done;
  b->reported = 1;
  double total = (double)b->Q.rows, now = (double)done + part;
  return fopo_progress("searching", now < 0.99 * total ? now : 0.99 * total, total);
}

/* Group number g from start to end. */
static int run_group(batch *b, const fopo_scan *scan, fopo_scan_worker *w, size_t g, int main) {
  size_t first = g * b->group, left = b->Q.rows - first, k = b->k;
  fopo_matrix Q = fopo_matrix_rows(b->Q, first, left < b->group ? left : b->group);
  size_t alone = (size_t)(ALONE_MOST / (double)(Q.rows * Q.cols)) + 1;
  start_group(scan, w, Q, k);
  while (unfinished(scan, w)) {
    run_blocks(scan, w, alone, 1);
    run_blocks(scan, w, scan->limit, b->threads);
    if (!w->pause) continue;
    w->pause = 0;
    w->until = fopo_clock() + TICK;
    double part = (double)Q.rows * (double)w->at / (double)scan->limit;
    if (main ? report(b, part) != FOPO_OK : fopo_interrupted()) return FOPO_ERR_INTERRUPTED;
  }
#pragma omp parallel for num_threads(b->threads) if (Q.rows * k > 256)
  for (size_t i = 0; i < Q.rows; i++) {
    size_t at = first + i;
    b->counts[at] = fopo_topk_finish(&w->top[i], b->ids + at * k, b->scores + at * k, w->kernels,
                                     scan->items);
  }
#pragma omp atomic
  b->done += Q.rows;
#pragma omp atomic
  b->scored += w->scored;
  return FOPO_OK;
}

static void run_batch(batch *b, const fopo_scan *scan, int workers) {
#pragma omp parallel for num_threads(workers) schedule(dynamic, 1)
  for (size_t g = 0; g < b->groups; g++) {
    int status, me = omp_get_thread_num();
#pragma omp atomic read
    status = b->status;
    if (status != FOPO_OK) continue;
    status = run_group(b, scan, &scan->workers[me], g, me == 0);
    if (status == FOPO_OK) continue;
#pragma omp atomic write
    b->status = status;
  }
}

/* ---- scratch ---- */

static void worker_done(fopo_scan_worker *w) {
  fopo_free(w->top);
  fopo_free(w->keys);
  fopo_free(w->panels);
  fopo_free(w->norm);
  fopo_free(w->active);
  fopo_free(w->stop);
  fopo_free(w->scores);
  *w = (fopo_scan_worker){0};
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Room for at least these sizes; what is large enough stays. */
static int worker_reserve(fopo_scan_worker *w, size_t group, size_t room, size_t slice,
                          size_t dim) {
  w->kernels = fopo_kernels_get();
  if (w->group >= group && w->room >= room && w->slice >= slice) return FOPO_OK;
  group = larger(group, w->group), room = larger(room, w->room), slice = larger(slice, w->slice);
  worker_done(w);
  w->kernels = fopo_kernels_get();
  if ((w->top = fopo_alloc(group, sizeof *w->top)) == NULL ||
      (w->keys = fopo_alloc(group * room, sizeof *w->keys)) == NULL ||
      (w->panels = fopo_alloc(whole(group) * dim, sizeof *w->panels)) == NULL ||
      (w->norm = fopo_alloc(group, sizeof *w->norm)) == NULL ||
      (w->active = fopo_alloc(group, sizeof *w->active)) == NULL ||
      (w->stop = fopo_alloc(group, sizeof *w->stop)) == NULL ||
      (w->scores = fopo_alloc(whole(group) * slice, sizeof *w->scores)) == NULL) {
    worker_done(w);
    return FOPO_ERR_MEMORY;
  }
  w->group = group, w->room = room, w->slice = slice, w->dim = dim;
  return FOPO_OK;
}

static int reserve(fopo_scan *scan, size_t n, const batch *b, size_t slice) {
  size_t room = fopo_topk_room(b->k, scan->limit);
  if (n > scan->n_workers) {
    fopo_scan_worker *more = fopo_realloc(scan->workers, n, sizeof *more);
    if (more == NULL) return FOPO_ERR_MEMORY;
    scan->workers = more;
    scan->n_workers = n;
  }
  for (size_t i = 0; i < n; i++) {
    int status = worker_reserve(&scan->workers[i], b->group, room, slice, scan->items.cols);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

size_t fopo_scan_bytes(const fopo_scan *scan) {
  size_t bytes = scan->n_workers * sizeof *scan->workers;
  for (size_t i = 0; i < scan->n_workers; i++) {
    const fopo_scan_worker *w = &scan->workers[i];
    size_t query = sizeof *w->top + w->room * sizeof *w->keys + sizeof *w->norm +
                   sizeof *w->active + sizeof *w->stop;
    size_t column = w->dim * sizeof *w->panels + w->slice * sizeof *w->scores;
    bytes += w->group * query + whole(w->group) * column;
  }
  return bytes;
}

void fopo_scan_done(fopo_scan *scan) {
  for (size_t i = 0; i < scan->n_workers; i++) worker_done(&scan->workers[i]);
  fopo_free(scan->workers);
  scan->workers = NULL;
  scan->n_workers = 0;
}

int fopo_scan_search(uint32_t *ids, float *scores, uint32_t *counts, size_t *scored,
                     fopo_scan *scan, fopo_matrix Q, size_t k) {
  if (Q.rows == 0) return FOPO_OK;
  size_t threads = (size_t)fopo_threads(), room = fopo_topk_room(k, scan->limit);
  int grouped = Q.rows >= threads * GROUP_LEAST;
  size_t group = grouped ? (Q.rows + 2 * threads - 1) / (2 * threads) : Q.rows;
  group = whole(group);
  if (group > GROUP_MOST) group = GROUP_MOST;
  if (group > KEYS_MOST / room) group = KEYS_MOST / room > 0 ? KEYS_MOST / room : 1;
  if (group > Q.rows) group = Q.rows;
  batch b = {.ids = ids, .counts = counts, .scores = scores, .Q = Q, .k = k, .group = group,
             .groups = (Q.rows + group - 1) / group, .threads = grouped ? 1 : (int)threads};
  int workers = grouped ? (int)threads : 1;
  int status = reserve(scan, (size_t)workers, &b, grouped ? TILE : SLICE_SHARED);
  if (status != FOPO_OK) return status;
  run_batch(&b, scan, workers);
  *scored += b.scored;
  if (b.status == FOPO_ERR_INTERRUPTED) {
    fopo_progress("searching", 0.0, 0.0); /* closes the line; this thread may see another flag */
    return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while searching");
  }
  if (b.reported) return fopo_progress("searching", (double)Q.rows, (double)Q.rows);
  return FOPO_OK;
}
