/* The search by blocks that scan.h describes. The phases of a call:
 *
 *   plan      A large batch of queries is cut into groups, each searched by one thread; a small
 *             batch is one group, whose blocks all threads share. The selection is exact
 *             (mips/topk.h), so both return the same bits.
 *   start     The queries of a group are transposed into panels of 32 columns, and rounded for the
 *             prefilter (kernels/prefilter.h). A query of norm 0 is answered at once.
 *   estimate  With a prefilter the floors of the first round are estimated from a sample of its
 *             items, so that even its first block is filtered.
 *   score     A block of items is multiplied by the panels: in float32, or rounded by the
 * prefilter, which lists only the scores that reach their query's floor. select    The scores that
 * reach the floor are pushed into the query's selection, whose floor rises. test      At the end of
 * a round a query is done if no item left can enter its k best. The first round is repeated for
 * queries whose estimated floor was too high. finish    The few items that are left are scored by
 * the kernels' dot, and sorted.
 *
 * All threads of a group's team call the functions of estimate, score and select, and share their
 * loops (`omp for`); one thread goes from block to block (`omp single`). */
#include "mips/scan.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/norm.h"
#include "core/progress.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "kernels/prefilter.h"
#include "mips/topk.h"

enum {
  PANEL = FOPO_PANEL,
  HALF = PANEL / 2,             /* queries of half a panel: the unit of selection */
  GROUP = FOPO_PREFILTER_GROUP, /* items that the prefilter packs together */
  TILE = 128,                   /* items of one call of `scores`: their rows stay in L1 and L2 */
  TILE_PREFILTER = 256,         /* items of one call of the prefilter, for the same reason */
  SLICE_SHARED = 4096,    /* items of a block that threads share: several tiles for each thread */
  MAX_GROUP = 256,        /* queries that share a tile: their panels stay in L2 */
  FEW = 2,                /* queries for which single dots are cheaper than half a panel */
  FEW_COLUMNS = 32,       /* up to here selecting costs more than the products */
  CHUNK = 64,             /* items selected before the floors are read again */
  ROUND_FIRST = 128,      /* for k = 1 the answer is nearly always among these */
  ROUND_ESTIMATED = 2048, /* a first round long enough to sample */
  SMALL_K = 16,           /* below it floors are good after fewer items, */
  ROUND_SMALL = 256,      /* and a query that ends early does so among few */
  ROUND_MAX = 4096,       /* bounds the items scored after a query could have stopped */
  ESTIMATE_MIN_K = 8,     /* for smaller k floors rise fast without an estimate */
  SAMPLE_GROUPS = 32,     /* groups of items sampled for the first floors, at most */
  LEAST_SAMPLE_GROUPS = 4,
  SAMPLE_ROWS = 128, /* items of a block of float32 scores that floors are estimated from */
  MOST_ARRAYS = 9    /* of a worker */
};

#define MAX_KEYS  ((size_t)1 << 23) /* of one worker: 64 MiB */
#define ALONE_MAX (256.0 * 1024.0)  /* multiplications that one thread does faster than a team */
#define ROUND_UP  (1.0 + 0x1p-20)   /* covers the roundings in computing a bound */
#define TICK      0.05              /* seconds between pauses */
#define COARSE                                                                                     \
  0x1p-8 /* of a rounding: above it the first round is scored in float32, because most             \
          * of the answer has large norms, and so large errors, that dots must decide */

/* One call of fopo_scan_search. The first part is fixed while it runs. */
typedef struct {
  const fopo_scan *scan;
  const fopo_kernels *kernels;
  const fopo_prefilter *prefilter; /* NULL: all blocks are scored in float32 */
  size_t prefix_rows; /* items at the front of the order that the index packed for this prefilter */
  fopo_matrix Q;      /* [B, L] */
  fopo_without without;
  size_t k, L;
  size_t capacity;      /* keys of a query */
  size_t group, groups; /* queries of a group; number of groups */
  size_t slice;         /* items of a block at most */
  size_t workers;       /* threads that search groups */
  int team;             /* threads that share a group */
  uint32_t *ids, *counts;
  float *scores;

  size_t done;   /* queries answered */
  size_t scored; /* items, summed over the queries */
  int reported;  /* 1: a line of progress is open */
  int status;
} search;

/* A query that is not answered yet. */
typedef struct {
  fopo_topk *top; /* its selection */
  float norm;     /* |q|, rounded up */
  float rounding; /* |q - q as the prefilter rounds it|, rounded up */
  float estimate; /* the floor estimated for the first round; -INFINITY: none */
  uint8_t failed; /* 1: that was too high */
  uint8_t done;   /* 1: no item left can enter the k best */
} query;

/* The items at .. at + n - 1 of the order, scored at once. */
typedef struct {
  size_t at, n;
  int prefiltered; /* 1: by the prefilter */
} block;

/* The scratch of one worker, kept between calls, and the state of the group that it searches.
 * padded(n) is n queries rounded up to whole panels; row_bytes and query_bytes are the
 * prefilter's. */
struct fopo_scan_worker {
  /* What the arrays have room for. */
  size_t group, capacity, places; /* places: padded(group) times the slice of some search */
  int team;
  const fopo_prefilter *reserved; /* whose arrays are there: a search without it keeps them */
  void *arrays[MOST_ARRAYS];
  size_t n_arrays, bytes;

  fopo_topk *top;      /* [group] the selection of each query of the group */
  uint64_t *keys;      /* [group, capacity] the keys of top */
  query *queries;      /* [group] the active ones first */
  float *panels;       /* [padded(group), L] the active queries, each panel transposed */
  float *scores;       /* [places] of a block: [padded(group), slice] */
  char *packed_panels; /* [padded(group), query_bytes] the panels, rounded */
  char *packed;        /* [team, TILE_PREFILTER, row_bytes] items that the index did not pack */
  uint32_t *list;      /* [places] the items that passed; their scores at the same place */
  size_t *found;       /* [padded(group) / PANEL, tiles, 2] how many passed */

  size_t n_active;
  size_t n_waiting;  /* queries behind the active ones while the first round is repeated */
  size_t full_until; /* the items before it are scored in float32: the prefilter's errors of the
                      * largest norms are too large to be of use */
  size_t first_end;  /* the end of the first round */
  size_t round_end;  /* where the stopping test comes next */
  int estimate_due;  /* 1: the floors are to be estimated before the first block */
  size_t n_sampled;  /* items from whose scores they are, */
  uint32_t sampled[SAMPLE_GROUPS * GROUP]; /* and their ids, ascending */
  int repeating; /* 1: the first round is repeated for the queries that failed */
  block block;
  size_t scored;   /* items scored, summed over the queries */
  double pause_at; /* the clock at which the caller must get control back */
  int pause;       /* 1: that time has come, or the search was interrupted */
};

static inline size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static inline size_t padded(size_t n) { return (n + PANEL - 1) / PANEL * PANEL; }

static inline uint32_t id_at(const fopo_scan *scan, size_t at) {
  return scan->order != NULL ? scan->order[at] : (uint32_t)at;
}

/* Columns of the panel of active queries first .. first + 31: half a panel if that holds them. */
static inline size_t panel_width(const fopo_scan_worker *w, size_t first) {
  return w->n_active - first > HALF ? PANEL : HALF;
}

/* ---- error bounds ---- */

/* |score - dot| <= norm |q| + rounding |q - rounded q| + constant for all items from `at` on. */
typedef struct {
  double norm, rounding, constant;
} error_bound;

/* The relative rounding error of an inner product of length L, in any order of summation: twice
 * gamma_L = L u / (1 - L u), u = 2^-24, and a little more for the roundings around it. */
static double dot_rounding(size_t L) { return (double)(L + 16) * 0x1p-23; }

static double max_norm_from(const fopo_scan *scan, size_t at) {
  return (double)(scan->norms != NULL ? scan->norms[at] : scan->max_norm);
}

/* Of float32 scores: 2 gamma_L |q| |beta|, plus what underflow may lose. */
static error_bound float32_error(const search *s, size_t at) {
  double norm = max_norm_from(s->scan, at);
  return (error_bound){1.25 * dot_rounding(s->L) * norm, 0.0, (double)FLT_MIN};
}

/* Of the prefilter: the bound of kernels/prefilter.h, with the measured roundings of the queries
 * and of the rows that the index packed. */
static error_bound prefilter_error(const search *s, size_t at) {
  double norm = max_norm_from(s->scan, at), L = (double)s->L, tiny = (double)FLT_MIN;
  double error = at < s->prefix_rows ? s->scan->prefix.rounding : s->prefilter->most_rounding(s->L);
  return (error_bound){(error + 1.5 * dot_rounding(s->L)) * norm * ROUND_UP + tiny * sqrt(L),
                       (1.0 + error) * norm * ROUND_UP, tiny * (sqrt(L) * norm + 2.0 * L + 1.0)};
}

/* No item from place `next` of the order on can score above this (Cauchy-Schwarz). */
static float best_from(const fopo_scan *scan, double q_norm, size_t next) {
  double most = q_norm * (double)scan->norms[next];
  return fopo_norm_up(most * (1.0 + dot_rounding(scan->items.cols)) + (double)FLT_MIN);
}

int fopo_scan_is_exact(const fopo_scan *scan, double q_norm, float kth) {
  if (scan->limit >= scan->items.rows) return 1;
  return kth > best_from(scan, (double)fopo_norm_up(q_norm), scan->limit);
}

/* ---- score ---- */

/* Transposes the active queries into panels [L, width], missing queries 0, and packs these for the
 * prefilter. Called by one thread, after each change of the active queries. */
static void fill_panels(const search *s, fopo_scan_worker *w) {
  size_t L = s->L;
  for (size_t first = 0; first < w->n_active; first += PANEL) {
    size_t width = panel_width(w, first);
    float *panel = w->panels + first * L;
    for (size_t j = 0; j < width; j++) {
      const float *q = first + j < w->n_active ? w->queries[first + j].top->q : NULL;
      for (size_t l = 0; l < L; l++) panel[l * width + j] = q != NULL ? q[l] : 0.0f;
    }
    if (s->prefilter == NULL) continue;
    s->prefilter->pack_queries(w->packed_panels + first * s->prefilter->query_bytes(L), panel, L,
                               width);
  }
}

/* w->scores = for each panel [n, width]. A job is a tile of items by a panel. Items of the packed
 * prefix lie in a row; others are gathered by id. */
static void score_panels(const search *s, const fopo_scan_worker *w) {
  const fopo_scan *scan = s->scan;
  size_t L = s->L, n = w->block.n, at = w->block.at;
  size_t tiles = (n + TILE - 1) / TILE, panels = padded(w->n_active) / PANEL;
  int is_packed = at < scan->packed.rows;
  const float *rows = is_packed ? fopo_matrix_row(scan->packed, at) : scan->items.x;
  size_t ld = is_packed ? scan->packed.ld : scan->items.ld;
#pragma omp for schedule(dynamic, 1)
  for (size_t job = 0; job < tiles * panels; job++) {
    size_t start = job / panels * TILE, first = job % panels * PANEL;
    size_t width = panel_width(w, first);
    s->kernels->scores(w->scores + first * s->slice + start * width,
                       is_packed ? rows + start * ld : rows, ld,
                       is_packed ? NULL : scan->order + at + start, smaller(n - start, TILE),
                       w->panels + first * L, L, width);
  }
}

/* w->scores = for each of the FEW active queries [n]. */
static void score_single(const search *s, const fopo_scan_worker *w) {
  const fopo_scan *scan = s->scan;
  size_t n = w->block.n, at = w->block.at, tiles = (n + TILE - 1) / TILE;
#pragma omp for schedule(dynamic, 1)
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t start = tile * TILE, count = smaller(n - start, TILE);
    for (size_t i = 0; i < w->n_active; i++) {
      float *out = w->scores + i * s->slice + start;
      const float *q = w->queries[i].top->q;
      if (at >= scan->packed.rows) {
        s->kernels->gather_dot(out, scan->items.x, scan->items.ld, scan->order + at + start, count,
                               q, s->L);
      } else {
        for (size_t j = 0; j < count; j++) {
          out[j] = s->kernels->dot(fopo_matrix_row(scan->packed, at + start + j), q, s->L);
        }
      }
    }
  }
}

/* The items at .. at + count - 1 as the prefilter rounds them: from the index, if it packed them,
 * else packed now into the thread's own scratch. */
static const char *packed_items(const search *s, const fopo_scan_worker *w, size_t at,
                                size_t count) {
  const fopo_scan *scan = s->scan;
  size_t row = s->prefilter->row_bytes(s->L);
  if (at < s->prefix_rows) return scan->prefix.x + at * row;
  char *out = w->packed + (size_t)omp_get_thread_num() * TILE_PREFILTER * row;
  int in_place = scan->order == NULL;
  s->prefilter->pack(out, in_place ? fopo_matrix_row(scan->items, at) : scan->items.x,
                     scan->items.ld, in_place ? NULL : scan->order + at, count, s->L);
  return out;
}

/* Where the prefilter lists the items of a panel that passed, of `count` items from `start` on: the
 * first half of the queries [16, count], then the second. */
static size_t list_place(const search *s, size_t first, size_t start) {
  return first * s->slice + start * PANEL;
}

/* Multiplies the block's items by the active queries, both rounded, and lists the scores that reach
 * their query's floor: a pair of lists for each tile of items and panel of queries. */
static void score_rounded(const search *s, const fopo_scan_worker *w) {
  size_t n = w->block.n, tiles = (n + TILE_PREFILTER - 1) / TILE_PREFILTER;
#pragma omp for schedule(dynamic, 1)
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t start = tile * TILE_PREFILTER, count = smaller(n - start, TILE_PREFILTER);
    const char *items = packed_items(s, w, w->block.at + start, count);
    for (size_t first = 0; first < w->n_active; first += PANEL) {
      size_t place = list_place(s, first, start), here = smaller(w->n_active - first, PANEL);
      float floor[PANEL];
      for (size_t j = 0; j < PANEL; j++) {
        floor[j] = j < here ? w->queries[first + j].top->floor : INFINITY;
      }
      s->prefilter->score_and_select(
          w->list + place, w->scores + place, w->found + (first / PANEL * tiles + tile) * 2, items,
          count, w->packed_panels + first * s->prefilter->query_bytes(s->L), s->L, here, floor);
    }
  }
}

/* ---- estimate ---- */

/* The rank, among n scores sampled from those of `items` items, of a score that at least k of the
 * items reach, almost certainly: the expected rank, 1/16 of it for the error of the scores, and 2.5
 * standard deviations of the count in a sample (Poisson). */
static size_t safe_rank(size_t k, size_t n, size_t items) {
  double expected = (double)k * (double)n / (double)items;
  return (size_t)(expected * 1.0625 + 2.5 * sqrt(expected)) + 1;
}

/* The groups of 16 items that are sampled, evenly spread over the first round: an eighth of it. */
static size_t sampled_groups(const fopo_scan_worker *w) {
  size_t all = w->first_end / GROUP;
  return smaller(smaller(larger(all / 8, LEAST_SAMPLE_GROUPS), SAMPLE_GROUPS), all);
}

static size_t sampled_at(const fopo_scan_worker *w, size_t g) {
  size_t stride = w->first_end / GROUP / sampled_groups(w);
  return (g * stride + stride / 2) * GROUP;
}

static void list_sample(const search *s, fopo_scan_worker *w) {
  uint32_t scratch[SAMPLE_GROUPS * GROUP];
  size_t n = w->n_sampled = sampled_groups(w) * GROUP;
  for (size_t i = 0; i < n; i++) {
    w->sampled[i] = id_at(s->scan, sampled_at(w, i / GROUP) + i % GROUP);
  }
  fopo_sort_ids(w->sampled, scratch, n, s->scan->items.rows);
}

/* Scores them by the prefilter: w->scores = for each half panel [n_sampled, HALF]. */
static void score_sample(const search *s, const fopo_scan_worker *w) {
  enum { PART = GROUP * HALF }; /* scores of a group with half a panel */
  size_t groups = sampled_groups(w);
#pragma omp for schedule(dynamic, 4)
  for (size_t g = 0; g < groups; g++) {
    const char *items = packed_items(s, w, sampled_at(w, g), GROUP);
    for (size_t first = 0; first < w->n_active; first += PANEL) {
      uint32_t list[2 * PART];
      float score[2 * PART], all[PANEL]; /* floors that every score reaches */
      size_t found[2], n = smaller(w->n_active - first, PANEL);
      for (size_t j = 0; j < PANEL; j++) all[j] = j < n ? -INFINITY : INFINITY;
      s->prefilter->score_and_select(list, score, found, items, GROUP,
                                     w->packed_panels + first * s->prefilter->query_bytes(s->L),
                                     s->L, n, all);
      for (size_t half = 0; half * HALF < n; half++) {
        float *out = w->scores + first * s->slice + (half * groups + g) * PART;
        /* What is not listed, a sum that overflowed, is no number: there is no estimate then. */
        for (size_t i = 0; i < PART; i++) out[i] = NAN;
        for (size_t f = half * PART; f < half * PART + found[half]; f++) out[list[f]] = score[f];
      }
    }
  }
}

/* The items of the sample that queries i .. i + n - 1 leave out, of the one that leaves out most.
 */
static size_t most_left_out(const fopo_scan_worker *w, size_t i, size_t n) {
  const uint32_t *last = NULL;
  size_t most = 0;
  for (size_t j = i; j < i + n; j++) {
    fopo_left_out out = w->queries[j].top->out;
    if (out.ids == last) continue;
    size_t found = 0;
    for (size_t e = 0; e < out.n; e++) {
      found += (size_t)fopo_sorted_holds(w->sampled, w->n_sampled, out.ids[e]);
    }
    most = larger(most, found);
    last = out.ids;
  }
  return most;
}

/* Floors of the first round: for each query the score of a safe rank in the sample. */
static void estimate_floors(const search *s, fopo_scan_worker *w) {
#pragma omp single
  list_sample(s, w);
  score_sample(s, w);
  size_t rows = w->n_sampled, rank = safe_rank(s->k, rows, w->first_end);
#pragma omp for schedule(dynamic, 1)
  for (size_t i = 0; i < w->n_active; i += HALF) {
    float kth[HALF];
    size_t first = i / PANEL * PANEL, n = smaller(w->n_active - i, HALF);
    const float *sample = w->scores + first * s->slice + (i - first) * rows;
    size_t safe = smaller(rank + most_left_out(w, i, n), rows);
    s->kernels->approximate_kth(kth, sample, HALF, rows, safe);
    for (size_t j = 0; j < n; j++) {
      query *q = &w->queries[i + j];
      q->estimate = isfinite(kth[j]) ? kth[j] : -INFINITY;
      fopo_topk_raise(q->top, q->estimate);
    }
  }
#pragma omp single
  w->estimate_due = 0;
}

/* A floor for each query of a half panel that has no keys yet, estimated from a sample of the
 * block's own float32 scores x [n, width]: -INFINITY if there are keys or the sample is too small.
 * Columns j .. j + count - 1 of estimate [HALF] and top [HALF]. */
static void estimate_from_block(const search *s, const fopo_scan_worker *w, float *estimate,
                                fopo_topk *const *top, size_t j, size_t count, const float *x,
                                size_t width) {
  size_t n = w->block.n, stride = (n + SAMPLE_ROWS - 1) / SAMPLE_ROWS;
  size_t rows = (n + stride - 1) / stride, rank = safe_rank(s->k, rows, n);
  int enough = s->k >= ESTIMATE_MIN_K && n >= 4 * s->k && rank <= rows;
  if (enough) s->kernels->approximate_kth(estimate, x, width * stride, rows, rank);
  for (size_t c = j; c < j + count; c++) {
    if (!enough || top[c]->n > 0 || !isfinite(estimate[c])) estimate[c] = -INFINITY;
  }
}

/* ---- select ---- */

static void push(const search *s, fopo_topk *t, float score, size_t at) {
  fopo_topk_push(t, s->kernels, s->scan->items, score, id_at(s->scan, at));
}

/* Pushes the block's float32 scores of active queries i .. i + n - 1, all in one half panel. */
static void push_half_panel(const search *s, const fopo_scan_worker *w, size_t i, size_t n) {
  size_t first = i / PANEL * PANEL, width = panel_width(w, first), j = i % HALF, at = w->block.at;
  const float *x = w->scores + first * s->slice + (i - first) / HALF * HALF; /* [block.n, width] */
  uint32_t list[CHUNK * HALF];
  float floor[HALF], estimate[HALF];
  fopo_topk *top[HALF] = {NULL}; /* columns j .. j + n - 1; the others belong to other threads */
  for (size_t c = 0; c < HALF; c++) floor[c] = INFINITY;
  for (size_t c = j; c < j + n; c++) top[c] = w->queries[i + c - j].top;
  estimate_from_block(s, w, estimate, top, j, n, x, width);

  /* One comparison of 16 scores with 16 floors rejects nearly all; floors rise with each chunk. */
  for (size_t start = 0; start < w->block.n; start += CHUNK) {
    size_t count = smaller(w->block.n - start, CHUNK);
    const float *chunk = x + start * width;
    for (size_t c = j; c < j + n; c++) {
      floor[c] = fmaxf(top[c]->floor, estimate[c] - 2.0f * top[c]->block_error);
    }
    size_t found = s->kernels->select_columns_at_least(list, chunk, width, count, floor);
    for (size_t f = 0; f < found; f++) {
      size_t row = list[f] / HALF, c = list[f] % HALF;
      push(s, top[c], chunk[row * width + c], at + start + row);
    }
  }

  /* An estimate is right if k dots are above it; otherwise the selection starts again with all
   * scores of the block. */
  for (size_t c = j; c < j + n; c++) {
    if (estimate[c] == -INFINITY) continue;
    if (fopo_topk_has_k_above(top[c], estimate[c], s->kernels, s->scan->items)) {
      fopo_topk_raise(top[c], estimate[c]);
      continue;
    }
    top[c]->n = top[c]->settled = 0;
    for (size_t row = 0; row < w->block.n; row++) push(s, top[c], x[row * width + c], at + row);
  }
}

/* The same from the lists of the prefilter. */
static void push_listed(const search *s, const fopo_scan_worker *w, size_t i, size_t n) {
  size_t panel = i / PANEL, j = i % HALF, half = i % PANEL / HALF;
  size_t tiles = (w->block.n + TILE_PREFILTER - 1) / TILE_PREFILTER;
  const query *queries = w->queries + (i - j); /* of the half panel */
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t start = tile * TILE_PREFILTER, count = smaller(w->block.n - start, TILE_PREFILTER);
    size_t place = list_place(s, panel * PANEL, start) + half * HALF * count;
    size_t found = w->found[(panel * tiles + tile) * 2 + half];
    for (size_t f = place; f < place + found; f++) {
      size_t row = w->list[f] / HALF, c = w->list[f] % HALF;
      if (c - j >= n) continue; /* c < j or c >= j + n: another thread's query */
      push(s, queries[c].top, w->scores[f], w->block.at + start + row);
    }
  }
}

/* The same for one query after score_single. */
static void push_single(const search *s, const fopo_scan_worker *w, size_t i) {
  size_t at = w->block.at;
  const uint32_t *ids = s->scan->order != NULL ? s->scan->order + at : NULL;
  fopo_topk_push_all(w->queries[i].top, s->kernels, s->scan->items, w->scores + i * s->slice, ids,
                     (uint32_t)at, w->block.n);
}

/* At the end of a round, after the last block was pushed: is the query's estimated floor proven,
 * and can an item from place `next` on still enter its k best? */
static void test_query(const search *s, const fopo_scan_worker *w, query *q, size_t next) {
  const fopo_scan *scan = s->scan;
  int ends_first = next == w->first_end, ends_scan = next == scan->limit;
  int test_bound = next == w->round_end && !ends_scan && scan->norms != NULL;
  q->failed = ends_first && q->estimate > -INFINITY &&
              !fopo_topk_has_k_above(q->top, q->estimate, s->kernels, scan->items);
  /* The prefilter gains by the best floor it can have. */
  if (ends_first && !ends_scan && s->prefilter != NULL) {
    fopo_topk_prune(q->top, s->kernels, scan->items);
  }
  q->done = test_bound && !q->failed &&
            fopo_topk_has_k_above(q->top, best_from(scan, (double)q->norm, next), s->kernels,
                                  scan->items);
}

/* Queries that one thread selects for: half a panel, or less if there are more threads than that.
 */
static size_t queries_per_job(const fopo_scan_worker *w) {
  size_t n = HALF, threads = (size_t)omp_get_num_threads();
  if (w->n_active <= FEW) return 1;
  while (n > 4 && w->n_active < n * threads) n /= 2;
  return n;
}

/* Pushes the block's scores into the selections; at the end of a round tests the queries. */
static void select_block(const search *s, const fopo_scan_worker *w) {
  size_t n = queries_per_job(w), next = w->block.at + w->block.n;
  int ends_round = next == w->first_end || next == w->round_end;
#pragma omp for schedule(dynamic, 1)
  for (size_t first = 0; first < w->n_active; first += n) {
    size_t count = smaller(w->n_active - first, n);
    if (w->block.prefiltered) {
      push_listed(s, w, first, count);
    } else if (w->n_active > FEW) {
      push_half_panel(s, w, first, count);
    } else {
      push_single(s, w, first);
    }
    if (!ends_round) continue;
    for (size_t i = first; i < first + count; i++) test_query(s, w, &w->queries[i], next);
  }
}

/* ---- from block to block ---- */

/* 1 if the prefilter scores the items from place `at` on, for n queries: if the index packed them,
 * or if packing them now pays. */
static int is_filtered(const search *s, size_t at, size_t n) {
  return s->prefilter != NULL && (at < s->prefix_rows || n >= s->prefilter->pays_from);
}

/* Chooses the block that begins at block.at and how it is scored, and tells the selections how
 * large errors are. */
static void next_block(const search *s, fopo_scan_worker *w) {
  const fopo_scan *scan = s->scan;
  size_t at = w->block.at;
  if (at == w->round_end) { /* a new round: as many items as were scored so far */
    size_t size = scan->norms != NULL ? smaller(at, ROUND_MAX) : scan->limit;
    w->round_end = at + smaller(scan->limit - at, size);
  }
  /* No place at which the way of scoring or the state changes may lie inside the block. */
  const size_t boundaries[] = {scan->packed.rows, s->prefix_rows, w->full_until, w->first_end};
  size_t end = smaller(w->round_end, at + s->slice);
  for (size_t b = 0; b < sizeof boundaries / sizeof *boundaries; b++) {
    if (at < boundaries[b]) end = smaller(end, boundaries[b]);
  }
  w->block.n = end - at;
  w->block.prefiltered = at >= w->full_until && is_filtered(s, at, w->n_active);
  error_bound e = w->block.prefiltered ? prefilter_error(s, at) : float32_error(s, at);
  for (size_t i = 0; i < w->n_active; i++) {
    const query *q = &w->queries[i];
    double error = e.norm * (double)q->norm + e.rounding * (double)q->rounding + e.constant;
    fopo_topk_set_error(q->top, fopo_norm_up(error));
  }
}

static void exchange(query *a, query *b) {
  query q = *a;
  *a = *b;
  *b = q;
}

static void drop_done(const search *s, fopo_scan_worker *w) {
  size_t kept = 0;
  for (size_t i = 0; i < w->n_active; i++) {
    if (!w->queries[i].done) exchange(&w->queries[kept++], &w->queries[i]);
  }
  if (kept == w->n_active) return;
  w->n_active = kept;
  fill_panels(s, w);
}

/* Begins the first round again for the queries with too high an estimate, if there are any; the
 * others wait behind. */
static void repeat_first_round(const search *s, fopo_scan_worker *w) {
  size_t failed = 0;
  for (size_t i = 0; i < w->n_active; i++) {
    if (w->queries[i].failed) exchange(&w->queries[failed++], &w->queries[i]);
  }
  if (failed == 0) return;
  w->repeating = 1;
  w->n_waiting = w->n_active - failed;
  w->n_active = failed;
  w->block.at = 0;
  w->round_end = w->first_end;
  for (size_t i = 0; i < failed; i++) {
    fopo_topk *t = w->queries[i].top;
    fopo_topk_init(t, t->keys, t->capacity, t->k, t->q, t->out);
    w->queries[i].estimate = -INFINITY;
  }
  fill_panels(s, w);
}

/* The repeated round is over: the queries that waited are active again. */
static void resume_waiting(const search *s, fopo_scan_worker *w) {
  w->repeating = 0;
  w->n_active += w->n_waiting;
  w->n_waiting = 0;
  fill_panels(s, w);
}

static void advance(const search *s, fopo_scan_worker *w) {
  if (!w->repeating) w->scored += w->block.n * w->n_active; /* a repeated round is counted once */
  w->block.at += w->block.n;
  int first_ends = w->block.at == w->first_end;
  if (first_ends && w->repeating) resume_waiting(s, w);
  if (w->block.at == w->round_end) drop_done(s, w);
  if (first_ends) repeat_first_round(s, w);
  if (w->block.at < s->scan->limit) next_block(s, w);
  w->pause = fopo_interrupted() || fopo_clock() > w->pause_at;
}

static int is_unfinished(const search *s, const fopo_scan_worker *w) {
  return w->n_active > 0 && w->block.at < s->scan->limit;
}

/* Blocks until all queries are done, `stop` items are scored, or it is time for a pause. All
 * threads see the same condition: it changes only in `single`, between two barriers. */
static void run_blocks(const search *s, fopo_scan_worker *w, size_t stop, int threads) {
#pragma omp parallel num_threads(threads)
  while (is_unfinished(s, w) && w->block.at < stop && !w->pause) {
    if (w->estimate_due) estimate_floors(s, w);
    if (w->block.prefiltered) {
      score_rounded(s, w);
    } else if (w->n_active > FEW) {
      score_panels(s, w);
    } else {
      score_single(s, w);
    }
    select_block(s, w);
#pragma omp single
    advance(s, w);
  }
}

/* ---- a group ---- */

/* A zero query (a context without items) scores 0 everywhere: its answer is the k smallest ids. */
static void answer_zero(fopo_topk *t, size_t P) {
  for (size_t i = 0; i < P && t->n < t->k; i++) {
    if (fopo_is_left_out(&t->out, (uint32_t)i)) continue;
    t->keys[t->n++] = fopo_topk_key(0.0f, (uint32_t)i);
  }
}

/* The length of the first round. No query can stop before k items are scored; with a prefilter the
 * round is long enough to estimate good floors from, and if most of the order would belong to it
 * and no query can stop early, it is the only one. It ends with a whole group of packed rows. */
static size_t first_round(const search *s) {
  const fopo_scan *scan = s->scan;
  size_t first = larger(2 * s->k, ROUND_FIRST);
  int can_stop = scan->norms != NULL && scan->limit == scan->items.rows;
  if (s->prefilter != NULL && s->k >= ESTIMATE_MIN_K) {
    first = larger(16 * s->k, s->k < SMALL_K ? ROUND_SMALL : ROUND_ESTIMATED);
    if (2 * first >= scan->limit) first = can_stop ? 8 * s->k : scan->limit;
  }
  return smaller(fopo_prefilter_rows(first), scan->limit);
}

/* Makes `rows` rows of Q from `first` on the queries of the group; the answers will be in w->top.
 */
static void start_group(const search *s, fopo_scan_worker *w, size_t first, size_t rows) {
  const fopo_scan *scan = s->scan;
  size_t n = 0;
  for (size_t i = 0; i < rows; i++) {
    const float *x = fopo_matrix_row(s->Q, first + i);
    fopo_topk *t = &w->top[i];
    fopo_left_out out = {0};
    if (s->without.rows != NULL) out = s->without.rows[(first + i) / s->without.each];
    fopo_topk_init(t, w->keys + i * s->capacity, s->capacity, s->k, x, out);
    query q = {.top = t, .norm = fopo_norm_up(fopo_norm(x, s->L)), .estimate = -INFINITY};
    if (q.norm == 0.0f && scan->limit == scan->items.rows) {
      answer_zero(t, scan->limit);
      continue;
    }
    if (s->prefilter != NULL) q.rounding = fopo_norm_up(s->prefilter->rounding(x, s->L));
    w->queries[n++] = q;
  }
  w->n_active = n;
  w->n_waiting = w->scored = 0;
  w->repeating = 0;
  w->first_end = first_round(s);
  int estimate = s->prefilter != NULL && s->k >= ESTIMATE_MIN_K && w->first_end >= 4 * s->k &&
                 (s->prefix_rows == 0 || scan->prefix.rounding <= COARSE);
  w->full_until = estimate               ? fopo_prefilter_rows(2 * s->k)
                  : s->prefilter != NULL ? w->first_end
                                         : 0;
  w->estimate_due = estimate && is_filtered(s, w->first_end - 1, n);
  w->round_end = scan->norms == NULL ? scan->limit : w->first_end;
  w->block.at = 0;
  fill_panels(s, w);
  next_block(s, w);
}

/* Continues the search of the group. Returns 0 when all queries are answered, and 1 if it was
 * paused to report progress and look for interrupts: call it again. */
static int continue_group(const search *s, fopo_scan_worker *w) {
  if (!is_unfinished(s, w)) return 0;
  double dots = (double)w->n_active * (double)s->L; /* multiplications of one item */
  w->pause = 0;
  w->pause_at = fopo_clock() + TICK;
  run_blocks(s, w, (size_t)(ALONE_MAX / dots) + 1, 1);
  run_blocks(s, w, s->scan->limit, s->team);
  return is_unfinished(s, w);
}

/* Shows the progress: queries answered, and `part` of the current group. For the thread that called
 * the search. */
static int report(search *s, double part) {
  size_t done;
#pragma omp atomic read
  done = s->done;
  s->reported = 1;
  double total = (double)s->Q.rows, now = (double)done + part;
  return fopo_progress("searching", now < 0.99 * total ? now : 0.99 * total, total);
}

/* Searches group g and writes its answers. is_main: this thread called the search. */
static int search_group(search *s, fopo_scan_worker *w, size_t g, int is_main) {
  size_t first = g * s->group, k = s->k, rows = smaller(s->Q.rows - first, s->group);
  start_group(s, w, first, rows);
  while (continue_group(s, w)) {
    double part = (double)rows * (double)w->block.at / (double)s->scan->limit;
    if (is_main ? report(s, part) != FOPO_OK : fopo_interrupted()) return FOPO_ERR_INTERRUPTED;
  }
  /* The rescoring and sorting of the answers is shared too, if it is more than a few. */
#pragma omp parallel for num_threads(s->team) if (rows * k > 256)
  for (size_t i = 0; i < rows; i++) {
    uint32_t *ids = s->ids + (first + i) * k;
    s->counts[first + i] = s->scores == NULL
                               ? fopo_topk_finish_set(&w->top[i], ids, s->kernels, s->scan->items)
                               : fopo_topk_finish(&w->top[i], ids, s->scores + (first + i) * k,
                                                  s->kernels, s->scan->items);
  }
#pragma omp atomic
  s->done += rows;
#pragma omp atomic
  s->scored += w->scored;
  return FOPO_OK;
}

/* Searches group g, unless a group has failed already. */
static void run_group(search *s, size_t g, size_t me) {
  int status;
#pragma omp atomic read
  status = s->status;
  if (status != FOPO_OK) return;
  status = search_group(s, &s->scan->workers[me], g, me == 0);
  if (status == FOPO_OK) return;
#pragma omp atomic write
  s->status = status;
}

/* One worker: no parallel region here, because each group opens its own, and OpenMP starts new
 * threads for every nested region. */
static void run_groups(search *s) {
  if (s->workers == 1) {
    for (size_t g = 0; g < s->groups; g++) run_group(s, g, 0);
    return;
  }
#pragma omp parallel for num_threads((int)s->workers) schedule(dynamic, 1)
  for (size_t g = 0; g < s->groups; g++) run_group(s, g, (size_t)omp_get_thread_num());
}

/* ---- scratch ---- */

static void worker_done(fopo_scan_worker *w) {
  for (size_t i = 0; i < w->n_arrays; i++) fopo_free(w->arrays[i]);
  *w = (fopo_scan_worker){0};
}

/* An array of the worker, or NULL. */
static void *take(fopo_scan_worker *w, size_t n, size_t size) {
  void *array = fopo_alloc(n, size);
  if (array == NULL) return NULL;
  w->arrays[w->n_arrays++] = array;
  w->bytes += n * size;
  return array;
}

/* Allocates the arrays for at least the sizes of this call, unless they are large enough. */
static int worker_reserve(fopo_scan_worker *w, const search *s) {
  const fopo_prefilter *f = s->prefilter != NULL ? s->prefilter : w->reserved;
  size_t group = larger(s->group, w->group), capacity = larger(s->capacity, w->capacity);
  size_t places = larger(padded(s->group) * s->slice, w->places);
  int team = s->team > w->team ? s->team : w->team;
  if (w->reserved == f && w->team == team && w->group == group && w->capacity == capacity &&
      w->places == places) {
    return FOPO_OK;
  }
  worker_done(w);
  size_t columns = padded(group);
  int enough = (w->top = take(w, group, sizeof *w->top)) != NULL &&
               (w->keys = take(w, group * capacity, sizeof *w->keys)) != NULL &&
               (w->queries = take(w, group, sizeof *w->queries)) != NULL &&
               (w->panels = take(w, columns * s->L, sizeof *w->panels)) != NULL &&
               (w->scores = take(w, places, sizeof *w->scores)) != NULL;
  if (enough && f != NULL) {
    size_t lists = places / HALF / TILE_PREFILTER + columns / HALF;
    enough = (w->packed_panels = take(w, columns, f->query_bytes(s->L))) != NULL &&
             (w->packed = take(w, (size_t)team * TILE_PREFILTER, f->row_bytes(s->L))) != NULL &&
             (w->list = take(w, places, sizeof *w->list)) != NULL &&
             (w->found = take(w, lists, sizeof *w->found)) != NULL;
  }
  if (!enough) {
    worker_done(w);
    return FOPO_ERR_MEMORY;
  }
  w->group = group, w->capacity = capacity, w->places = places;
  w->team = team, w->reserved = f;
  return FOPO_OK;
}

static int reserve(fopo_scan *scan, const search *s) {
  if (s->workers > scan->n_workers) {
    int status = fopo_resize(&scan->workers, s->workers, sizeof *scan->workers);
    if (status != FOPO_OK) return status;
    scan->n_workers = s->workers;
  }
  for (size_t i = 0; i < s->workers; i++) {
    int status = worker_reserve(&scan->workers[i], s);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

size_t fopo_scan_bytes(const fopo_scan *scan) {
  size_t bytes = scan->n_workers * sizeof *scan->workers;
  for (size_t i = 0; i < scan->n_workers; i++) bytes += scan->workers[i].bytes;
  return bytes;
}

void fopo_scan_done(fopo_scan *scan) {
  for (size_t i = 0; i < scan->n_workers; i++) worker_done(&scan->workers[i]);
  fopo_free(scan->workers);
  scan->workers = NULL;
  scan->n_workers = 0;
}

/* ---- plan ---- */

/* The prefilter for a search of n queries at a time; NULL: none. */
static const fopo_prefilter *prefilter_for(const fopo_scan *scan, size_t n) {
  const fopo_prefilter *prefilter = fopo_kernels_get()->prefilter;
  if (prefilter == NULL || scan->items.cols > prefilter->max_dim) return NULL;
  int is_packed = scan->prefix.by == prefilter && scan->prefix.rows > 0;
  return is_packed || n >= prefilter->pays_from ? prefilter : NULL;
}

/* Items of a block that one thread scores for a group. A prefilter stores only the scores that
 * pass, so its blocks can be long; but the floors are fixed for a whole block: longer blocks let
 * more items pass, shorter ones cost more calls. */
static size_t slice_of(size_t group, const fopo_prefilter *prefilter) {
  if (prefilter == NULL) return TILE;
  size_t slice = (size_t)SLICE_SHARED * PANEL / padded(group);
  return slice / TILE_PREFILTER * TILE_PREFILTER;
}

/* 1 if each thread gets groups of its own, and so never waits for another: if it has a panel of
 * queries, or half a panel if the products take less time than the selection. */
static int is_grouped(const fopo_scan *scan, size_t queries, size_t threads) {
  int cheap = prefilter_for(scan, queries / threads) != NULL || scan->items.cols <= FEW_COLUMNS;
  return queries >= threads * (cheap ? HALF : PANEL);
}

/* Queries of a group: whole panels, two groups a thread; or less than a panel, one group a thread.
 */
static size_t group_of(size_t queries, size_t threads) {
  size_t share = (queries + threads - 1) / threads;
  if (share < PANEL) return share;
  return smaller(padded((queries + 2 * threads - 1) / (2 * threads)), MAX_GROUP);
}

static search plan(const fopo_scan *scan, fopo_matrix Q, size_t k, fopo_without without) {
  size_t threads = (size_t)fopo_threads(), capacity = fopo_topk_capacity(k, scan->limit);
  int grouped = is_grouped(scan, Q.rows, threads);
  size_t group = grouped ? group_of(Q.rows, threads) : Q.rows;
  group = smaller(smaller(group, larger(MAX_KEYS / capacity, 1)), Q.rows);
  const fopo_prefilter *prefilter = prefilter_for(scan, group);
  int is_packed = prefilter != NULL && scan->prefix.by == prefilter;
  return (search){.scan = scan,
                  .kernels = fopo_kernels_get(),
                  .prefilter = prefilter,
                  .prefix_rows = is_packed ? scan->prefix.rows : 0,
                  .Q = Q,
                  .without = without,
                  .k = k,
                  .L = scan->items.cols,
                  .capacity = capacity,
                  .group = group,
                  .groups = (Q.rows + group - 1) / group,
                  .slice = grouped ? slice_of(group, prefilter) : SLICE_SHARED,
                  .workers = grouped ? threads : 1,
                  .team = grouped ? 1 : (int)threads};
}

int fopo_scan_search(uint32_t *ids, float *scores, uint32_t *counts, size_t *scored,
                     fopo_scan *scan, fopo_matrix Q, size_t k, fopo_without without) {
  if (Q.rows == 0) return FOPO_OK;
  search s = plan(scan, Q, k, without);
  s.ids = ids, s.scores = scores, s.counts = counts;
  int status = reserve(scan, &s);
  if (status != FOPO_OK) return status;
  run_groups(&s);
  *scored += s.scored;
  if (s.status == FOPO_ERR_INTERRUPTED) {
    fopo_progress("searching", 0.0, 0.0); /* closes the line of progress */
    return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while searching");
  }
  if (s.reported) return fopo_progress("searching", (double)Q.rows, (double)Q.rows);
  return FOPO_OK;
}
