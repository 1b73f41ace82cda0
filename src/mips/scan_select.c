/* Selection from one block of scores: what reaches its query's floor is pushed (mips/topk.h), and
 * at the end of a round the queries that are done are found. All threads of the group's team call
 * these functions; a job is half a panel of queries or less. */
#include <float.h>
#include <math.h>
#include <omp.h>

#include "mips/scan_group.h"

enum {
  HALF = FOPO_SCAN_HALF,
  TILE_PREFILTER = FOPO_SCAN_TILE_PREFILTER,
  CHUNK = 64,       /* items selected before the floors are read again */
  SAMPLE_ROWS = 128 /* items of a block of float32 scores that floors are estimated from */
};

/* No item from place `next` of the order on can score above this (Cauchy-Schwarz). */
static float best_from(const fopo_scan *scan, double q_norm, size_t next) {
  double most = q_norm * (double)scan->norms[next];
  return fopo_scan_up(most * (1.0 + fopo_scan_rounding(scan->items.cols)) + (double)FLT_MIN);
}

int fopo_scan_is_exact(const fopo_scan *scan, double q_norm, float kth) {
  if (scan->limit >= scan->items.rows) return 1;
  return kth > best_from(scan, (double)fopo_scan_up(q_norm), scan->limit);
}

/* ---- estimated floors ---- */

/* The rank, among n scores sampled from those of `step` items, of a score that at least k of the
 * items reach, almost certainly: the expected rank, 1/16 of it for the error of the scores, and 2.5
 * standard deviations of the count in a sample (Poisson). */
static size_t safe_rank(size_t k, size_t n, size_t step) {
  double expected = (double)k * (double)n / (double)step;
  return (size_t)(expected * 1.0625 + 2.5 * sqrt(expected)) + 1;
}

void fopo_scan_estimate_floors(const fopo_scan *scan, fopo_scan_worker *w) {
  size_t rows = fopo_scan_sampled_groups(w) * FOPO_PREFILTER_GROUP;
  fopo_scan_score_sample(scan, w);
#pragma omp for schedule(dynamic, 1)
  for (size_t i = 0; i < w->n_active; i += HALF) {
    float kth[HALF];
    size_t panel = i / FOPO_PANEL * FOPO_PANEL, n = fopo_scan_min(w->n_active - i, HALF);
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
  int enough = k >= FOPO_SCAN_ESTIMATE_MIN_K && w->step >= 4 * k && rank <= rows;
  if (enough) w->kernels->approximate_kth(estimate, s, width * stride, rows, rank);
  for (size_t c = j; c < j + n; c++) {
    if (!enough || top[c]->n > 0 || !isfinite(estimate[c])) estimate[c] = -INFINITY;
  }
}

/* Starts a query's selection again with all scores of the block, s [step] at distance width. */
static void push_all_again(const fopo_scan *scan, const fopo_scan_worker *w, fopo_topk *t,
                           const float *s, size_t width) {
  t->n = t->settled = 0;
  for (size_t at = 0; at < w->step; at++) {
    fopo_topk_push(t, w->kernels, scan->items, s[at * width], id_at(scan->order, w->at + at));
  }
}

/* Pushes the block's float32 scores of active queries i .. i + n - 1, all in one half panel. */
static void push_half_panel(const fopo_scan *scan, const fopo_scan_worker *w, size_t i, size_t n) {
  size_t first = i / FOPO_PANEL * FOPO_PANEL, width = fopo_scan_panel_width(w, first), j = i % HALF;
  const float *s = w->scores + first * w->slice + (i - first) / HALF * HALF;
  uint32_t list[CHUNK * HALF];
  float floor[HALF], estimate[HALF];
  fopo_topk *top[HALF] = {NULL}; /* columns j .. j + n - 1; the others belong to other threads */
  const uint32_t *order = scan->order;
  for (size_t c = 0; c < HALF; c++) floor[c] = INFINITY;
  for (size_t c = j; c < j + n; c++) top[c] = &w->top[w->active[i + c - j]];
  estimate_from_block(w, estimate, top, j, n, s, width);

  /* One comparison of 16 scores with 16 floors rejects nearly all; floors rise with each chunk. */
  for (size_t start = 0; start < w->step; start += CHUNK) {
    size_t count = fopo_scan_min(w->step - start, CHUNK);
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
    if (fopo_topk_has_k_above(top[c], estimate[c], w->kernels, scan->items)) {
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
    size_t start = tile * TILE_PREFILTER, count = fopo_scan_min(w->step - start, TILE_PREFILTER);
    size_t place = fopo_scan_list_place(w, panel * FOPO_PANEL, start) + half * HALF * count;
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
  if (w->n_active <= FOPO_SCAN_FEW) return 1;
  while (n > 4 && w->n_active < n * threads) n /= 2;
  return n;
}

/* At the end of a round, after the last block was pushed for active query i: is its estimated floor
 * proven, and can an item from `next` on still enter its k best? */
static void test_query(const fopo_scan *scan, const fopo_scan_worker *w, size_t i, size_t next) {
  fopo_topk *t = &w->top[w->active[i]];
  float estimate = w->estimate[w->active[i]];
  int ends_first = next == w->first_end, ends_scan = next == scan->limit;
  int test_estimate = ends_first && w->floors == FLOORS_ESTIMATED && estimate > -INFINITY;
  int test_bound = next == w->round_end && !ends_scan && scan->norms != NULL;
  w->failed[i] = test_estimate && !fopo_topk_has_k_above(t, estimate, w->kernels, scan->items);
  /* The prefilter gains by the best floor it can have. */
  if (ends_first && !ends_scan && w->prefilter != NULL) {
    fopo_topk_prune(t, w->kernels, scan->items);
  }
  w->done[i] =
      test_bound && !w->failed[i] &&
      fopo_topk_has_k_above(t, best_from(scan, (double)w->norm[i], next), w->kernels, scan->items);
}

void fopo_scan_select_block(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t n = queries_per_job(w), next = w->at + w->step;
  int ends_round = next == w->first_end || next == w->round_end;
#pragma omp for schedule(dynamic, 1)
  for (size_t first = 0; first < w->n_active; first += n) {
    size_t count = fopo_scan_min(w->n_active - first, n);
    if (w->prefiltered) {
      push_prefiltered(scan, w, first, count);
    } else if (w->n_active > FOPO_SCAN_FEW) {
      push_half_panel(scan, w, first, count);
    } else {
      push_single(scan, w, first);
    }
    if (!ends_round) continue;
    for (size_t i = first; i < first + count; i++) test_query(scan, w, i, next);
  }
}
