/* The life of a group: the order of items is scored block after block, in rounds of growing length,
 * for the queries still active. A block is scored in one of three ways,
 *
 *   score_panels  float32, panels of up to 32 queries against tiles of 128 items (kernel `scores`)
 *   score_single  float32, query by query (gather_dot), for the last two active queries
 *   prefilter     bfloat16, panels against tiles of 256 items, scores below the floors never stored
 *
 * then select_block pushes the scores that reach their query's floor into its selection
 * (mips/topk.h), and at the end of a round tests which queries are done. Never more than one block
 * of scores exists, [group, slice]. The prefilter (kernels/prefilter.h) is used if the kernels have
 * one, for all but the items of largest norm; its scores have a wider error bound, and the few
 * items left at the end are scored by dot as always, so the answer is the same.
 *
 * With a prefilter the floors of the first round are estimated from a sample of it, so that even
 * its first block is filtered. The estimate is proven at the end of the round, by k scores above
 * it; for queries with too high an estimate the round is repeated without one.
 *
 * Functions that hold an `omp for` are called by all threads of the group's team. */
#include "mips/scan_group.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/clock.h"
#include "core/progress.h"

enum {
  HALF = FOPO_SCAN_HALF,
  TILE = FOPO_SCAN_TILE,
  TILE_PREFILTER = FOPO_SCAN_TILE_PREFILTER,
  GROUP = FOPO_PREFILTER_GROUP, /* items that the prefilter packs together */
  CHUNK = 64,                   /* items selected before the floors are read again */
  ROUND_FIRST = 128,            /* for k = 1 the answer is nearly always among these */
  ROUND_ESTIMATED = 2048,       /* a first round long enough to sample */
  ROUND_MAX = 4096,             /* bounds the items scored after a query could have stopped */
  ESTIMATE_MIN_K = 16,          /* below, the floor rises fast without an estimate */
  SAMPLE_GROUPS = 32,           /* groups sampled for the first floors, or, in a block of float32 */
  SAMPLE_ROWS = 128,            /* scores, items */
  FEW = 2                       /* queries for which single dots are cheaper than half a panel */
};

#define ALONE_MAX (256.0 * 1024.0) /* multiplications that one thread does faster than a team */
#define ROUND_UP  (1.0 + 0x1p-20)  /* covers the roundings in computing a bound */
#define TICK      0.05             /* seconds between pauses */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* ---- error bounds ---- */

/* The relative rounding error of an inner product of length L, in any order of summation: twice
 * gamma_L = L u / (1 - L u), u = 2^-24, and a little more for the roundings around it. */
static double rounding_bound(size_t L) { return (double)(L + 16) * 0x1p-23; }

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
  return (error_bound){1.25 * rounding_bound(scan->items.cols) * norm, 0.0, (double)FLT_MIN};
}

/* Of the prefilter: the three parts of the bound in kernels/prefilter.h. The first is sharper here,
 *
 *     |q'b' - qb| <= |q| |b - b'| + |q - q'| |b'|
 *
 * because the rounding errors of the queries and of packed rows are known. */
static error_bound prefilter_error(const fopo_scan *scan, size_t at) {
  double norm = max_norm_from(scan, at);
  double L = (double)scan->items.cols, tiny = (double)FLT_MIN;
  double error = at < scan->bf16_rows ? scan->bf16_error : 0x1p-8;
  return (error_bound){(error + 1.5 * rounding_bound(scan->items.cols)) * norm * ROUND_UP +
                           tiny * sqrt(L),
                       (1.0 + error) * norm * ROUND_UP, tiny * (sqrt(L) * norm + 2.0 * L + 1.0)};
}

/* No item from place `next` of the order on can score above this (Cauchy-Schwarz). */
static float best_from(const fopo_scan *scan, double q_norm, size_t next) {
  double most = q_norm * (double)scan->norms[next];
  return fopo_scan_up(most * (1.0 + rounding_bound(scan->items.cols)) + (double)FLT_MIN);
}

int fopo_scan_is_exact(const fopo_scan *scan, double q_norm, float kth) {
  if (scan->limit >= scan->items.rows) return 1;
  return kth > best_from(scan, (double)fopo_scan_up(q_norm), scan->limit);
}

/* ---- scores of a block ---- */

/* Columns of the panel of active queries first .. first + 31: half a panel if that holds them. */
static size_t panel_width(const fopo_scan_worker *w, size_t first) {
  return w->n_active - first > HALF ? FOPO_PANEL : HALF;
}

/* Transposes the active queries into panels [L, width], missing queries 0. */
static void fill_panels(fopo_scan_worker *w, size_t L) {
  for (size_t first = 0; first < w->n_active; first += FOPO_PANEL) {
    size_t width = panel_width(w, first);
    float *panel = w->panels + first * L;
    for (size_t j = 0; j < width; j++) {
      const float *q = first + j < w->n_active ? w->top[w->active[first + j]].q : NULL;
      for (size_t l = 0; l < L; l++) panel[l * width + j] = q != NULL ? q[l] : 0.0f;
    }
    if (w->prefilter == NULL) continue;
    w->prefilter->pack_queries(w->packed_panels + first * fopo_prefilter_row(L), panel, L, width);
  }
}

/* For each panel, scores [step, width]: a job is a tile of items by a panel. Items of the packed
 * prefix lie in a row; others are gathered by id. */
static void score_panels(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t L = scan->items.cols, n = w->step, tiles = (n + TILE - 1) / TILE;
  size_t panels = fopo_scan_padded(w->n_active) / FOPO_PANEL;
  int is_packed = w->at < scan->packed.rows;
  const float *rows = is_packed ? fopo_matrix_row(scan->packed, w->at) : scan->items.x;
  size_t ld = is_packed ? scan->packed.ld : scan->items.ld;
#pragma omp for schedule(dynamic, 1)
  for (size_t job = 0; job < tiles * panels; job++) {
    size_t start = job / panels * TILE, count = smaller(n - start, TILE);
    size_t first = job % panels * FOPO_PANEL, width = panel_width(w, first);
    float *out = w->scores + first * w->slice + start * width;
    w->kernels->scores(out, is_packed ? rows + start * ld : rows, ld,
                       is_packed ? NULL : scan->order + w->at + start, count, w->panels + first * L,
                       L, width);
  }
}

/* For each of the FEW active queries, scores [step]. */
static void score_single(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t L = scan->items.cols, n = w->step, tiles = (n + TILE - 1) / TILE;
#pragma omp for schedule(dynamic, 1)
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t start = tile * TILE, count = smaller(n - start, TILE);
    for (size_t i = 0; i < w->n_active; i++) {
      float *s = w->scores + i * w->slice + start;
      const float *q = w->top[w->active[i]].q;
      if (w->at >= scan->packed.rows) {
        w->kernels->gather_dot(s, scan->items.x, scan->items.ld, scan->order + w->at + start, count,
                               q, L);
      } else {
        for (size_t j = 0; j < count; j++) {
          s[j] = w->kernels->dot(fopo_matrix_row(scan->packed, w->at + start + j), q, L);
        }
      }
    }
  }
}

/* The items start .. start + count - 1 of the block in bf16: from the index, if it packed them,
 * else packed now into the thread's own scratch. */
static const uint16_t *packed_items(const fopo_scan *scan, const fopo_scan_worker *w, size_t start,
                                    size_t count) {
  size_t L = scan->items.cols, row = fopo_prefilter_row(L), at = w->at + start;
  if (at < scan->bf16_rows) return scan->bf16 + at * row;
  uint16_t *out = w->packed + (size_t)omp_get_thread_num() * TILE_PREFILTER * row;
  int in_place = scan->order == NULL;
  w->prefilter->pack(out, in_place ? fopo_matrix_row(scan->items, at) : scan->items.x,
                     scan->items.ld, in_place ? NULL : scan->order + at, count, L);
  return out;
}

/* Where the prefilter lists the items of a panel that passed, of `count` items from `start` on: the
 * first half of the queries [16, count], then the second. */
static size_t list_place(const fopo_scan_worker *w, size_t first, size_t start) {
  return first * w->slice + start * FOPO_PANEL;
}

/* Multiplies the block's items by the active queries in bf16, and lists the scores that reach their
 * query's floor: one pair of lists for each tile of items and panel of queries. */
static void prefilter_block(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t L = scan->items.cols, n = w->step, tiles = (n + TILE_PREFILTER - 1) / TILE_PREFILTER;
#pragma omp for schedule(dynamic, 1)
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t start = tile * TILE_PREFILTER, count = smaller(n - start, TILE_PREFILTER);
    const uint16_t *items = packed_items(scan, w, start, count);
    for (size_t first = 0; first < w->n_active; first += FOPO_PANEL) {
      size_t place = list_place(w, first, start);
      float floor[FOPO_PANEL];
      for (size_t j = 0; j < FOPO_PANEL; j++) {
        floor[j] = first + j < w->n_active ? w->top[w->active[first + j]].floor : INFINITY;
      }
      w->prefilter->score_and_select(w->list + place, w->scores + place,
                                     w->found + (first / FOPO_PANEL * tiles + tile) * 2, items,
                                     count, w->packed_panels + first * fopo_prefilter_row(L), L,
                                     panel_width(w, first), floor);
    }
  }
}

/* ---- estimated floors ---- */

/* The rank, among n scores sampled from those of `step` items, of a score that at least k of the
 * items reach, almost certainly: the expected rank, 1/16 of it for the error of the scores, and 2.5
 * standard deviations of the count in a sample (Poisson). */
static size_t safe_rank(size_t k, size_t n, size_t step) {
  double expected = (double)k * (double)n / (double)step;
  return (size_t)(expected * 1.0625 + 2.5 * sqrt(expected)) + 1;
}

/* Groups of 16 items of the first round that are sampled. */
static size_t sampled_groups(const fopo_scan_worker *w) {
  return smaller(w->first_end / GROUP, SAMPLE_GROUPS);
}

/* Prefilter scores of the sampled groups, evenly spread over the first round: w->scores holds, for
 * each half panel, [groups * 16, HALF]. */
static void score_sample(const fopo_scan *scan, const fopo_scan_worker *w) {
  enum { PART = GROUP * HALF }; /* scores of a group with half a panel */
  size_t L = scan->items.cols, groups = sampled_groups(w);
  size_t stride = w->first_end / GROUP / groups;
  float all[FOPO_PANEL]; /* floors that every score reaches, so that the lists are in order */
  for (size_t j = 0; j < FOPO_PANEL; j++) all[j] = -INFINITY;
#pragma omp for schedule(dynamic, 4)
  for (size_t g = 0; g < groups; g++) {
    size_t at = (g * stride + stride / 2) * GROUP;
    const uint16_t *items = packed_items(scan, w, at, GROUP);
    for (size_t first = 0; first < w->n_active; first += FOPO_PANEL) {
      uint32_t list[2 * PART];
      float s[2 * PART];
      size_t found[2], width = panel_width(w, first);
      w->prefilter->score_and_select(list, s, found, items, GROUP,
                                     w->packed_panels + first * fopo_prefilter_row(L), L, width,
                                     all);
      for (size_t half = 0; half < width / HALF; half++) {
        float *out = w->scores + first * w->slice + (half * groups + g) * PART;
        memcpy(out, s + half * PART, PART * sizeof *s);
        if (found[half] < PART) out[0] = NAN; /* a sum overflowed: no estimate from this sample */
      }
    }
  }
}

/* Floors of the first round: for each query the score of the safe rank in the sample. */
static void estimate_floors(const fopo_scan *scan, fopo_scan_worker *w) {
  size_t rows = sampled_groups(w) * GROUP;
  score_sample(scan, w);
#pragma omp for schedule(dynamic, 1)
  for (size_t i = 0; i < w->n_active; i += HALF) {
    float kth[HALF];
    size_t panel = i / FOPO_PANEL * FOPO_PANEL, n = smaller(w->n_active - i, HALF);
    const float *s = w->scores + panel * w->slice + (i - panel) * rows;
    w->kernels->approximate_kth(kth, s, HALF, rows, safe_rank(w->top->k, rows, w->first_end));
    for (size_t j = 0; j < n; j++) {
      uint32_t place = w->active[i + j];
      w->estimate[place] = isfinite(kth[j]) ? kth[j] : -INFINITY;
      fopo_topk_raise(&w->top[place], w->estimate[place]);
    }
  }
#pragma omp single
  w->floors = FLOORS_ESTIMATED;
}

/* ---- selection from a block ---- */

static inline uint32_t id_at(const uint32_t *order, size_t at) {
  return order != NULL ? order[at] : (uint32_t)at;
}

/* A floor for each query of a half panel that has no keys yet, estimated from a sample of the
 * block's own scores s [step, width]: -INFINITY if there are keys or the sample is too small.
 * Columns j .. j + n - 1 of estimate [HALF] and top [HALF]. */
static void estimate_from_block(const fopo_scan_worker *w, float *estimate, fopo_topk *const *top,
                                size_t j, size_t n, const float *s, size_t width) {
  size_t stride = (w->step + SAMPLE_ROWS - 1) / SAMPLE_ROWS;
  size_t rows = (w->step + stride - 1) / stride, k = top[j]->k;
  size_t rank = safe_rank(k, rows, w->step);
  int enough = k >= ESTIMATE_MIN_K && w->step >= 4 * k && rank <= rows;
  if (enough) w->kernels->approximate_kth(estimate, s, width * stride, rows, rank);
  for (size_t c = j; c < j + n; c++) {
    if (!enough || top[c]->n > 0 || !isfinite(estimate[c])) estimate[c] = -INFINITY;
  }
}

/* Starts a query's selection again with all scores of the block, s [step] at distance width. */
static void push_all_again(const fopo_scan *scan, const fopo_scan_worker *w, fopo_topk *t,
                           const float *s, size_t width) {
  t->n = 0;
  for (size_t at = 0; at < w->step; at++) {
    fopo_topk_push(t, w->kernels, scan->items, s[at * width], id_at(scan->order, w->at + at));
  }
}

/* Pushes the block's float32 scores of active queries i .. i + n - 1, all in one half panel. */
static void push_half_panel(const fopo_scan *scan, const fopo_scan_worker *w, size_t i, size_t n) {
  size_t first = i / FOPO_PANEL * FOPO_PANEL, width = panel_width(w, first), j = i % HALF;
  const float *s = w->scores + first * w->slice + (i - first) / HALF * HALF;
  uint32_t list[CHUNK * HALF];
  float floor[HALF], estimate[HALF];
  fopo_topk *top[HALF]; /* columns j .. j + n - 1; the others belong to other threads */
  const uint32_t *order = scan->order;
  for (size_t c = 0; c < HALF; c++) floor[c] = INFINITY;
  for (size_t c = j; c < j + n; c++) top[c] = &w->top[w->active[i + c - j]];
  estimate_from_block(w, estimate, top, j, n, s, width);

  /* One comparison of 16 scores with 16 floors rejects nearly all; floors rise with each chunk. */
  for (size_t start = 0; start < w->step; start += CHUNK) {
    size_t count = smaller(w->step - start, CHUNK);
    const float *chunk = s + start * width;
    for (size_t c = j; c < j + n; c++) {
      floor[c] = fmaxf(top[c]->floor, estimate[c] - 2.0f * top[c]->block_error);
    }
    size_t found = w->kernels->select_columns_at_least(list, chunk, width, count, floor);
    for (size_t f = 0; f < found; f++) {
      size_t at = list[f] / HALF, c = list[f] % HALF;
      fopo_topk_push(top[c], w->kernels, scan->items, chunk[at * width + c],
                     id_at(order, w->at + start + at));
    }
  }

  /* An estimate is right if k dots are above it; otherwise the block is pushed without it. */
  for (size_t c = j; c < j + n; c++) {
    if (estimate[c] == -INFINITY) continue;
    if (fopo_topk_has_k_above(top[c], estimate[c])) {
      fopo_topk_raise(top[c], estimate[c]);
    } else {
      push_all_again(scan, w, top[c], s + c, width);
    }
  }
}

/* The same from the lists of the prefilter. */
static void push_prefiltered(const fopo_scan *scan, const fopo_scan_worker *w, size_t i, size_t n) {
  size_t panel = i / FOPO_PANEL, first = i / HALF * HALF, j = i % HALF;
  size_t tiles = (w->step + TILE_PREFILTER - 1) / TILE_PREFILTER, half = i % FOPO_PANEL / HALF;
  fopo_topk *top[HALF];
  const uint32_t *order = scan->order;
  for (size_t c = j; c < j + n; c++) top[c] = &w->top[w->active[first + c]];
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t start = tile * TILE_PREFILTER, count = smaller(w->step - start, TILE_PREFILTER);
    size_t place = list_place(w, panel * FOPO_PANEL, start) + half * HALF * count;
    size_t found = w->found[(panel * tiles + tile) * 2 + half];
    const uint32_t *list = w->list + place;
    const float *s = w->scores + place;
    for (size_t f = 0; f < found; f++) {
      size_t at = w->at + start + list[f] / HALF, c = list[f] % HALF;
      if (c - j >= n) continue; /* c < j or c >= j + n: another thread's query */
      fopo_topk_push(top[c], w->kernels, scan->items, s[f], id_at(order, at));
    }
  }
}

/* The same for one query after score_single. */
static void push_single(const fopo_scan *scan, const fopo_scan_worker *w, size_t i) {
  const uint32_t *ids = scan->order != NULL ? scan->order + w->at : NULL;
  fopo_topk_push_all(&w->top[w->active[i]], w->kernels, scan->items, w->scores + i * w->slice, ids,
                     (uint32_t)w->at, w->step);
}

/* Queries that one thread selects for: half a panel, or less if there are more threads than that.
 */
static size_t queries_per_job(const fopo_scan_worker *w) {
  size_t n = HALF, threads = (size_t)omp_get_num_threads();
  if (w->n_active <= FEW) return 1;
  while (n > 4 && w->n_active < n * threads) n /= 2;
  return n;
}

/* After the block was pushed for active query i: is its estimated floor proven, and, at the end of
 * a round, can an item from `next` on still enter its k best? */
static void test_query(const fopo_scan *scan, const fopo_scan_worker *w, size_t i, size_t next) {
  fopo_topk *t = &w->top[w->active[i]];
  float estimate = w->estimate[w->active[i]];
  int ends_first = next == w->first_end, ends_scan = next == scan->limit;
  int test_estimate = ends_first && w->floors == FLOORS_ESTIMATED && estimate > -INFINITY;
  int test_bound = next == w->round_end && !ends_scan && scan->norms != NULL;
  w->failed[i] = test_estimate && !fopo_topk_has_k_above(t, estimate);
  if (ends_first && !ends_scan && w->prefilter != NULL) {
    fopo_topk_prune(t, w->kernels,
                    scan->items); /* the prefilter gains by the best floor it can have */
  }
  w->done[i] = test_bound && !w->failed[i] &&
               fopo_topk_has_k_above(t, best_from(scan, (double)w->norm[i], next));
}

/* Pushes the block's scores and tests the queries: a job is half a panel of queries or less. */
static void select_block(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t n = queries_per_job(w);
#pragma omp for schedule(dynamic, 1)
  for (size_t first = 0; first < w->n_active; first += n) {
    size_t count = smaller(w->n_active - first, n);
    if (w->prefiltered) {
      push_prefiltered(scan, w, first, count);
    } else if (w->n_active > FEW) {
      push_half_panel(scan, w, first, count);
    } else {
      push_single(scan, w, first);
    }
    for (size_t i = first; i < first + count; i++) test_query(scan, w, i, w->at + w->step);
  }
}

/* ---- from block to block ---- */

/* Where the block that begins at w->at must end: no boundary at which the way of scoring or the
 * state changes may lie inside it. */
static size_t block_end(const fopo_scan *scan, const fopo_scan_worker *w) {
  const size_t boundaries[] = {scan->packed.rows, scan->bf16_rows, w->full_until, w->first_end};
  size_t end = smaller(w->round_end, w->at + w->slice);
  for (size_t b = 0; b < sizeof boundaries / sizeof *boundaries; b++) {
    if (w->at < boundaries[b]) end = smaller(end, boundaries[b]);
  }
  return end;
}

/* Chooses the next block and how it is scored, and tells the selections how large errors are. */
static void next_block(const fopo_scan *scan, fopo_scan_worker *w) {
  if (w->at == w->round_end) { /* a new round: as many items as were scored so far */
    size_t size = scan->norms != NULL ? smaller(w->at, ROUND_MAX) : scan->limit;
    w->round_end = w->at + smaller(scan->limit - w->at, size);
  }
  w->step = block_end(scan, w) - w->at;
  w->prefiltered = w->prefilter != NULL && w->at >= w->full_until &&
                   (w->n_active > FEW || w->at < scan->bf16_rows);
  error_bound e = w->prefiltered ? prefilter_error(scan, w->at) : float32_error(scan, w->at);
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
    if (!w->done[i]) swap_queries(w, kept++, i);
  }
  if (kept == w->n_active) return;
  w->n_active = kept;
  fill_panels(w, scan->items.cols);
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
  fill_panels(w, scan->items.cols);
}

/* The repeated round is over: the queries that waited are active again. */
static void resume_waiting(const fopo_scan *scan, fopo_scan_worker *w) {
  memset(w->done + w->n_active, 0, w->n_waiting * sizeof *w->done);
  w->n_active += w->n_waiting;
  w->n_waiting = 0;
  w->floors = FLOORS_PROVEN;
  fill_panels(w, scan->items.cols);
}

static void advance(const fopo_scan *scan, fopo_scan_worker *w) {
  if (w->floors != FLOORS_FAILED)
    w->scored += w->step * w->n_active; /* a repeated round counts once */
  w->at += w->step;
  if (w->at == w->first_end && w->floors == FLOORS_FAILED) resume_waiting(scan, w);
  drop_done(scan, w);
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
    if (w->floors == FLOORS_DUE) estimate_floors(scan, w);
    if (w->prefiltered) {
      prefilter_block(scan, w);
    } else if (w->n_active > FEW) {
      score_panels(scan, w);
    } else {
      score_single(scan, w);
    }
    select_block(scan, w);
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
  return smaller(fopo_prefilter_rows(first), scan->limit);
}

void fopo_scan_group_start(const fopo_scan *scan, fopo_scan_worker *w, fopo_matrix Q, size_t k) {
  size_t L = Q.cols, capacity = fopo_topk_capacity(k, scan->limit), n = 0;
  for (size_t i = 0; i < Q.rows; i++) {
    const float *q = fopo_matrix_row(Q, i);
    fopo_topk_init(&w->top[i], w->keys + i * capacity, capacity, k, q);
    w->norm[n] = fopo_scan_up(fopo_scan_norm(q, L));
    if (w->norm[n] == 0.0f && scan->limit == scan->items.rows) {
      answer_zero(&w->top[i]);
      continue;
    }
    if (w->prefilter != NULL) w->rounding[n] = fopo_scan_up(fopo_prefilter_error(q, L));
    w->active[n++] = (uint32_t)i;
  }
  w->n_active = n;
  w->n_waiting = 0;
  w->first_end = first_round(scan, w, k);
  int estimate = w->prefilter != NULL && k >= ESTIMATE_MIN_K && w->first_end >= 4 * k;
  w->full_until = estimate ? fopo_prefilter_rows(2 * k) : w->prefilter != NULL ? w->first_end : 0;
  w->floors = estimate && (n > FEW || scan->bf16_rows > 0) ? FLOORS_DUE : FLOORS_PROVEN;
  fill_panels(w, L);
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
