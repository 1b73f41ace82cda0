/* Scores of one block of items for the active queries, and of the sample that the first floors are
 * estimated from. All threads of the group's team call these functions and share the work. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "mips/scan_group.h"

enum {
  HALF = FOPO_SCAN_HALF,
  TILE = FOPO_SCAN_TILE,
  TILE_PREFILTER = FOPO_SCAN_TILE_PREFILTER,
  GROUP = FOPO_PREFILTER_GROUP, /* items that the prefilter packs together */
  SAMPLE_GROUPS = 32            /* groups sampled for the first floors */
};

void fopo_scan_fill_panels(fopo_scan_worker *w, size_t L) {
  for (size_t first = 0; first < w->n_active; first += FOPO_PANEL) {
    size_t width = fopo_scan_panel_width(w, first);
    float *panel = w->panels + first * L;
    for (size_t j = 0; j < width; j++) {
      const float *q = first + j < w->n_active ? w->top[w->active[first + j]].q : NULL;
      for (size_t l = 0; l < L; l++) panel[l * width + j] = q != NULL ? q[l] : 0.0f;
    }
    if (w->prefilter == NULL) continue;
    w->prefilter->pack_queries(w->packed_panels + first * w->prefilter->query_bytes(L), panel, L,
                               width);
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
    size_t start = job / panels * TILE, count = fopo_scan_min(n - start, TILE);
    size_t first = job % panels * FOPO_PANEL, width = fopo_scan_panel_width(w, first);
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
    size_t start = tile * TILE, count = fopo_scan_min(n - start, TILE);
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

/* The items start .. start + count - 1 of the block as the prefilter rounds them: from the index,
 * if it packed them, else packed now into the thread's own scratch. */
static const char *packed_items(const fopo_scan *scan, const fopo_scan_worker *w, size_t start,
                                size_t count) {
  size_t L = scan->items.cols, row = w->prefilter->row_bytes(L), at = w->at + start;
  if (at < w->prefix_rows) return scan->prefix.x + at * row;
  char *out = w->packed + (size_t)omp_get_thread_num() * TILE_PREFILTER * row;
  int in_place = scan->order == NULL;
  w->prefilter->pack(out, in_place ? fopo_matrix_row(scan->items, at) : scan->items.x,
                     scan->items.ld, in_place ? NULL : scan->order + at, count, L);
  return out;
}

/* Multiplies the block's items by the active queries, rounded, and lists the scores that reach
 * their query's floor: one pair of lists for each tile of items and panel of queries. */
static void prefilter_block(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t L = scan->items.cols, query_bytes = w->prefilter->query_bytes(L);
  size_t n = w->step, tiles = (n + TILE_PREFILTER - 1) / TILE_PREFILTER;
#pragma omp for schedule(dynamic, 1)
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t start = tile * TILE_PREFILTER, count = fopo_scan_min(n - start, TILE_PREFILTER);
    const char *items = packed_items(scan, w, start, count);
    for (size_t first = 0; first < w->n_active; first += FOPO_PANEL) {
      size_t place = fopo_scan_list_place(w, first, start);
      float floor[FOPO_PANEL];
      for (size_t j = 0; j < FOPO_PANEL; j++) {
        floor[j] = first + j < w->n_active ? w->top[w->active[first + j]].floor : INFINITY;
      }
      w->prefilter->score_and_select(w->list + place, w->scores + place,
                                     w->found + (first / FOPO_PANEL * tiles + tile) * 2, items,
                                     count, w->packed_panels + first * query_bytes, L,
                                     fopo_scan_min(w->n_active - first, FOPO_PANEL), floor);
    }
  }
}

void fopo_scan_score_block(const fopo_scan *scan, const fopo_scan_worker *w) {
  if (w->prefiltered) {
    prefilter_block(scan, w);
  } else if (w->n_active > FOPO_SCAN_FEW) {
    score_panels(scan, w);
  } else {
    score_single(scan, w);
  }
}

size_t fopo_scan_sampled_groups(const fopo_scan_worker *w) {
  return fopo_scan_min(w->first_end / GROUP, SAMPLE_GROUPS);
}

void fopo_scan_score_sample(const fopo_scan *scan, const fopo_scan_worker *w) {
  enum { PART = GROUP * HALF }; /* scores of a group with half a panel */
  size_t L = scan->items.cols, groups = fopo_scan_sampled_groups(w);
  size_t query_bytes = w->prefilter->query_bytes(L);
  size_t stride = w->first_end / GROUP / groups;
#pragma omp for schedule(dynamic, 4)
  for (size_t g = 0; g < groups; g++) {
    size_t at = (g * stride + stride / 2) * GROUP;
    const char *items = packed_items(scan, w, at, GROUP);
    for (size_t first = 0; first < w->n_active; first += FOPO_PANEL) {
      uint32_t list[2 * PART];
      float s[2 * PART], all[FOPO_PANEL]; /* floors that every score reaches */
      size_t found[2], n = fopo_scan_min(w->n_active - first, FOPO_PANEL);
      for (size_t j = 0; j < FOPO_PANEL; j++) all[j] = j < n ? -INFINITY : INFINITY;
      w->prefilter->score_and_select(list, s, found, items, GROUP,
                                     w->packed_panels + first * query_bytes, L, n, all);
      for (size_t half = 0; half * HALF < n; half++) {
        float *out = w->scores + first * w->slice + (half * groups + g) * PART;
        /* What is not listed, a sum that overflowed, is no number: there is no estimate then. */
        for (size_t i = 0; i < PART; i++) out[i] = NAN;
        for (size_t f = half * PART; f < half * PART + found[half]; f++) out[list[f]] = s[f];
      }
    }
  }
}
