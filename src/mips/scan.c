/* Two ways to be parallel. A large batch is cut into groups of queries, one thread to a group. A
 * small one is one group whose blocks all threads share. Both run the same lines below, and as the
 * selection is exact (mips/topk.h) both give the same bits.
 *
 * Never more than a group of queries times SLICE_SHARED scores exist at a time. Rows beyond the
 * packed head are gathered once per block for the whole group; for one or two queries they are
 * used in place. */
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
  TILE = 512,         /* items of one GEMM: 256 queries x TILE scores stay in the L2 cache */
  SLICE_SHARED = 4096, /* items of a block that threads share: some tiles for each of them */
  ROUND_FIRST = 128,  /* for k = 1 the answer is nearly always among these */
  ROUND_MOST = 4096,  /* bounds what is scored past the point where a query could have stopped */
  GROUP_MOST = 256,   /* queries that share a tile: beyond it GEMM is no faster */
  GROUP_LEAST = 32,   /* below it GEMM is slower, so threads share blocks instead */
  FEW = 2,            /* queries for which a gathered GEMM costs more than single dots */
  AHEAD = 16          /* rows fetched ahead of the one that is copied */
};

#define KEYS_MOST ((size_t)1 << 23)        /* candidates held per worker: 64 MiB */
#define ALONE_MOST (4.0 * 1024.0 * 1024.0) /* multiplications that are not worth sharing */
#define TICK 0.05                          /* seconds between calls of fopo_progress */

struct fopo_scan_worker {
  size_t group, room, slice, dim; /* what the arrays below have room for */
  fopo_topk *top;                 /* [group] */
  uint64_t *keys;                 /* [group, room] */
  float *Q;                       /* [group, dim] the active queries, packed */
  float *norm;                    /* [group] their norms, rounded up */
  uint32_t *active;               /* [group] their places in top */
  uint8_t *stop;                  /* [group] 1: nothing better can follow */
  float *scores;                  /* [group, slice] */
  float *rows;                    /* [slice, dim] gathered items */

  /* The state of one group's search. */
  const fopo_kernels *kernels;
  size_t n_active;
  size_t at, step;   /* the block is at .. at + step - 1 of the order */
  size_t round_end;  /* where stopping is tested next */
  size_t scored;
  double until;      /* clock at which to come up for air */
  int pause;
};

double fopo_scan_norm(const float *x, size_t n) {
  double sum = 0.0;
  for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

float fopo_scan_up(double x) {
  float near = (float)x;
  return (double)near < x ? nextafterf(near, INFINITY) : near;
}

/* Relative bound of what rounding does to an inner product of length L in any order of summation,
 * twice gamma_L = L u / (1 - L u) and some to spare for the roundings around it. */
static double rounding(size_t L) { return (double)(L + 16) * 0x1p-23; }

/* |GEMM - dot| <= 2 gamma_L |q| |beta|, plus what underflow may lose. */
static float slack(const fopo_scan *scan, double norm, size_t at) {
  double most = scan->norms != NULL ? scan->norms[at] : scan->max_norm;
  return fopo_scan_up(1.25 * rounding(scan->items.cols) * norm * most + (double)FLT_MIN);
}

/* ---- a group of queries; the functions that take a team are called by all its threads ---- */

/* Rows at .. at + n - 1 of the order, packed: in the head as they are, else copied by the team. */
static fopo_matrix block_rows(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t L = scan->items.cols, n = w->step;
  if (w->at < scan->head.rows) return fopo_matrix_rows(scan->head, w->at, n);
  const uint32_t *ids = scan->order + w->at;
#pragma omp for schedule(static)
  for (size_t i = 0; i < n; i++) {
    if (i + AHEAD < n) __builtin_prefetch(fopo_matrix_row(scan->items, ids[i + AHEAD]));
    memcpy(w->rows + i * L, fopo_matrix_row(scan->items, ids[i]), L * sizeof(float));
  }
  return fopo_matrix_view(w->rows, n, L);
}

/* scores [n_active, step] = Q rows^T, a tile of items at a time. */
static void score_many(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t L = scan->items.cols, n = w->step, tiles = (n + TILE - 1) / TILE;
  fopo_matrix Q = fopo_matrix_view(w->Q, w->n_active, L);
  fopo_matrix rows = block_rows(scan, w);
#pragma omp for schedule(dynamic, 1)
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t first = tile * TILE, count = n - first < TILE ? n - first : TILE;
    fopo_matrix C = {w->scores + first, w->n_active, count, w->slice};
    fopo_gemm_tile(C, 1.0f, Q, 0, fopo_matrix_rows(rows, first, count), 1, 0.0f);
  }
}

static void score_few(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t L = scan->items.cols, n = w->step, tiles = (n + TILE - 1) / TILE;
#pragma omp for schedule(dynamic, 1)
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t first = tile * TILE, count = n - first < TILE ? n - first : TILE;
    for (size_t i = 0; i < w->n_active; i++) {
      float *s = w->scores + i * w->slice + first;
      const float *q = w->Q + i * L;
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

/* Offers the block's scores; at the end of a round, marks the queries that are done. */
static void select_block(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t next = w->at + w->step;
  int test = next == w->round_end && next < scan->limit && scan->norms != NULL;
  const uint32_t *ids = scan->order != NULL ? scan->order + w->at : NULL;
#pragma omp for schedule(static)
  for (size_t i = 0; i < w->n_active; i++) {
    fopo_topk *t = &w->top[w->active[i]];
    fopo_topk_offer(t, w->kernels, scan->items, w->scores + i * w->slice, ids, (uint32_t)w->at,
                    w->step, slack(scan, (double)w->norm[i], w->at));
    w->stop[i] = 0;
    if (!test) continue;
    w->stop[i] = (uint8_t)fopo_topk_beats(t, bound(scan, (double)w->norm[i], next));
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
  size_t kept = 0, L = scan->items.cols;
  for (size_t i = 0; i < w->n_active; i++) {
    if (w->stop[i]) continue;
    if (kept < i) {
      memcpy(w->Q + kept * L, w->Q + i * L, L * sizeof(float));
      w->norm[kept] = w->norm[i];
      w->active[kept] = w->active[i];
    }
    kept++;
  }
  w->n_active = kept;
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
    memcpy(w->Q + n * L, q, L * sizeof(float));
    w->active[n++] = (uint32_t)i;
  }
  size_t first = 2 * k > ROUND_FIRST ? 2 * k : ROUND_FIRST; /* k items must be seen to stop */
  w->n_active = n;
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
  fopo_free(w->Q);
  fopo_free(w->norm);
  fopo_free(w->active);
  fopo_free(w->stop);
  fopo_free(w->scores);
  fopo_free(w->rows);
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
      (w->Q = fopo_alloc(group * dim, sizeof *w->Q)) == NULL ||
      (w->norm = fopo_alloc(group, sizeof *w->norm)) == NULL ||
      (w->active = fopo_alloc(group, sizeof *w->active)) == NULL ||
      (w->stop = fopo_alloc(group, sizeof *w->stop)) == NULL ||
      (w->scores = fopo_alloc(group * slice, sizeof *w->scores)) == NULL ||
      (w->rows = fopo_alloc(slice * dim, sizeof *w->rows)) == NULL) {
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
    size_t query = sizeof *w->top + w->room * sizeof *w->keys + w->dim * sizeof *w->Q +
                   sizeof *w->norm + sizeof *w->active + sizeof *w->stop +
                   w->slice * sizeof *w->scores;
    bytes += w->group * query + w->slice * w->dim * sizeof *w->rows;
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
  if (group < GROUP_LEAST) group = GROUP_LEAST;
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
  if (b.status == FOPO_ERR_INTERRUPTED) return fopo_progress("searching", 0.0, 0.0);
  if (b.reported) return fopo_progress("searching", (double)Q.rows, (double)Q.rows);
  return FOPO_OK;
}
