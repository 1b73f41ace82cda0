/* Scores come item after item, those of a panel of queries side by side, so that one comparison
 * with the queries' floors passes over all that is not good enough. Never more than a group of
 * queries times w->slice of them exist at a time. No row is copied.
 *
 * Where the kernels can prefilter (kernels/prefilter.h), they do so for all but the largest items:
 * scores are then in bfloat16, those below the floors are never stored, and the selection is told
 * of the wider slack. What remains in the end is scored by dot as ever, so the answer is the same.
 *
 * The first floors are guesses from a sample of the first round. They are proven right at its end,
 * by k scores above them, or the round is scored again for the queries that guessed too high.
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
  TILE_SCREENED = FOPO_SCAN_TILE_SCREENED,
  CHUNK = 64,           /* items selected before the floors are looked at again */
  ROUND_FIRST = 128,    /* for k = 1 the answer is nearly always among these */
  ROUND_GUESSED = 2048, /* enough for a sample */
  ROUND_MOST = 4096,    /* bounds what is scored past the point where a query could have stopped */
  GUESS_LEAST = 16,     /* k */
  SAMPLE_GROUPS = 32,   /* of FOPO_PREFILTER_GROUP items, that a guess is made from, */
  SAMPLE_ROWS = 128,    /* or as many items where scores are not screened */
  FEW = 2               /* queries for which half a panel costs more than single dots */
};

#define ALONE_MOST (256.0 * 1024.0) /* multiplications that are not worth sharing */
#define ROUND_UP   (1.0 + 0x1p-20)  /* to spare for roundings of the bounds themselves */
#define TICK       0.05             /* seconds until it is time to look up */

/* Relative bound of what rounding does to an inner product of length L in any order of summation,
 * twice gamma_L = L u / (1 - L u) and some to spare for the roundings around it. */
static double rounding(size_t L) { return (double)(L + 16) * 0x1p-23; }

/* |score - dot| <= share |q| + rest |q - rounded q| + least for all items from place `at` on. */
typedef struct {
  double share, rest, least;
} slack;

/* 2 gamma_L |q| |beta|, plus what underflow may lose. */
static slack full_slack(const fopo_scan *scan, size_t at) {
  double most = scan->norms != NULL ? scan->norms[at] : scan->max_norm;
  return (slack){1.25 * rounding(scan->items.cols) * most, 0.0, (double)FLT_MIN};
}

/* The three parts of kernels/prefilter.h, of which the first is known better than there,
 *
 *     |q'b' - qb| <= |q| |b - b'| + |q - q'| |b'|
 *
 * and the rounding of the dot. */
static slack screened_slack(const fopo_scan *scan, size_t at) {
  double most = scan->norms != NULL ? scan->norms[at] : scan->max_norm;
  double L = (double)scan->items.cols, tiny = (double)FLT_MIN;
  double error = at < scan->packed_rows ? scan->packed_error : 0x1p-8;
  return (slack){(error + 1.5 * rounding(scan->items.cols)) * most * ROUND_UP + tiny * sqrt(L),
                 (1.0 + error) * most * ROUND_UP, tiny * (sqrt(L) * most + 2.0 * L + 1.0)};
}

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
    if (w->prefilter == NULL) continue;
    w->prefilter->pack_queries(w->packed_panels + first * fopo_prefilter_row(L), panel, L, columns);
  }
}

/* Scores of each panel [step, width], a tile of items at a time; rows beyond the head in place. */
static void score_many(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t L = scan->items.cols, n = w->step, tiles = (n + TILE - 1) / TILE;
  size_t panels = fopo_scan_whole(w->n_active) / FOPO_PANEL;
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
        w->kernels->gather_dot(s, scan->items.x, scan->items.ld, scan->order + w->at + first, count,
                               q, L);
      } else {
        for (size_t j = 0; j < count; j++) {
          s[j] = w->kernels->dot(fopo_matrix_row(scan->head, w->at + first + j), q, L);
        }
      }
    }
  }
}

/* Items start .. start + count - 1 of the block as the prefilter takes them: of the head, or packed
 * here and now. */
static const uint16_t *packed_items(const fopo_scan *scan, const fopo_scan_worker *w, size_t start,
                                    size_t count) {
  size_t L = scan->items.cols, row = fopo_prefilter_row(L), at = w->at + start;
  if (at < scan->packed_rows) return scan->packed + at * row;
  uint16_t *out = w->packed + (size_t)omp_get_thread_num() * TILE_SCREENED * row;
  int in_place = scan->order == NULL;
  w->prefilter->pack(out, in_place ? fopo_matrix_row(scan->items, at) : scan->items.x,
                     scan->items.ld, in_place ? NULL : scan->order + at, count, L);
  return out;
}

/* Lists of what passed the floors, one for each tile of items and panel of queries. */
static void screen_block(const fopo_scan *scan, const fopo_scan_worker *w) {
  size_t L = scan->items.cols, n = w->step, tiles = (n + TILE_SCREENED - 1) / TILE_SCREENED;
#pragma omp for schedule(dynamic, 1)
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t start = tile * TILE_SCREENED, count = n - start;
    if (count > TILE_SCREENED) count = TILE_SCREENED;
    const uint16_t *items = packed_items(scan, w, start, count);
    for (size_t first = 0; first < w->n_active; first += FOPO_PANEL) {
      size_t columns = width(w, first), place = first * w->slice + start * FOPO_PANEL;
      float floor[FOPO_PANEL];
      for (size_t j = 0; j < FOPO_PANEL; j++) {
        floor[j] = first + j < w->n_active ? w->top[w->active[first + j]].floor : INFINITY;
      }
      w->prefilter->score_and_select(w->list + place, w->scores + place,
                          w->found + (first / FOPO_PANEL * tiles + tile) * 2, items, count,
                          w->packed_panels + first * fopo_prefilter_row(L), L, columns, floor);
    }
  }
}

/* Of n sampled scores the place of one that k of `step` items reach, nearly surely: 2.5 standard
 * deviations of the sample's own count, and some for the error of the scores. */
static size_t safe_rank(size_t k, size_t n, size_t step) {
  double expected = (double)k * (double)n / (double)step;
  return (size_t)(expected * 1.0625 + 2.5 * sqrt(expected)) + 1;
}

/* Groups of the first round that are sampled. */
static size_t sampled_groups(const fopo_scan_worker *w) {
  size_t groups = w->first / FOPO_PREFILTER_GROUP;
  return groups < SAMPLE_GROUPS ? groups : SAMPLE_GROUPS;
}

/* Screened scores of sampled groups: for each half panel [rows, HALF], in the place of scores. */
static void score_sample(const fopo_scan *scan, const fopo_scan_worker *w) {
  enum { PART = FOPO_PREFILTER_GROUP * HALF };
  size_t L = scan->items.cols, groups = sampled_groups(w);
  size_t stride = w->first / FOPO_PREFILTER_GROUP / groups;
  float all[FOPO_PANEL];
  for (size_t j = 0; j < FOPO_PANEL; j++) all[j] = -INFINITY;
#pragma omp for schedule(dynamic, 4)
  for (size_t g = 0; g < groups; g++) {
    size_t at = (g * stride + stride / 2) * FOPO_PREFILTER_GROUP;
    const uint16_t *items = packed_items(scan, w, at, FOPO_PREFILTER_GROUP);
    for (size_t first = 0; first < w->n_active; first += FOPO_PANEL) {
      uint32_t list[2 * PART];
      float s[2 * PART];
      size_t found[2], columns = width(w, first);
      w->prefilter->score_and_select(list, s, found, items, FOPO_PREFILTER_GROUP,
                          w->packed_panels + first * fopo_prefilter_row(L), L, columns, all);
      for (size_t half = 0; half < columns / HALF; half++) {
        float *out = w->scores + first * w->slice + (half * groups + g) * PART;
        memcpy(out, s + half * PART, PART * sizeof *s);
        if (found[half] < PART) out[0] = NAN; /* sums overflowed: no guess is to be made of it */
      }
    }
  }
}

/* Floors of the first round, for each half panel of queries. */
static void guess_floors(const fopo_scan *scan, fopo_scan_worker *w) {
  size_t rows = sampled_groups(w) * FOPO_PREFILTER_GROUP;
  score_sample(scan, w);
#pragma omp for schedule(dynamic, 1)
  for (size_t i = 0; i < w->n_active; i += HALF) {
    float level[HALF];
    size_t panel = i / FOPO_PANEL * FOPO_PANEL, left = w->n_active - i;
    const float *s = w->scores + panel * w->slice + (i - panel) * rows;
    w->kernels->approximate_kth(level, s, HALF, rows, safe_rank(w->top->k, rows, w->first));
    for (size_t j = 0; j < (left < HALF ? left : HALF); j++) {
      uint32_t place = w->active[i + j];
      w->guess[place] = isfinite(level[j]) ? level[j] : -INFINITY;
      fopo_topk_raise(&w->top[place], w->guess[place]);
    }
  }
#pragma omp single
  w->guessing = GUESSED;
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

static inline uint32_t id_at(const uint32_t *order, size_t at) {
  return order != NULL ? order[at] : (uint32_t)at;
}

/* guessed [HALF]: for each query that half a panel of scores s is of, one that k of the block's are
 * likely to reach: what is well below it is not looked at. -inf where the query holds keys already,
 * or where a sample says too little. */
static void guess_many(const fopo_scan_worker *w, float *guessed, fopo_topk *const *top, size_t j,
                       size_t n, const float *s, size_t columns) {
  size_t stride = (w->step + SAMPLE_ROWS - 1) / SAMPLE_ROWS;
  size_t rows = (w->step + stride - 1) / stride, k = top[j]->k;
  size_t rank = safe_rank(k, rows, w->step);
  int worth = k >= GUESS_LEAST && w->step >= 4 * k && rank <= rows;
  if (worth) w->kernels->approximate_kth(guessed, s, columns * stride, rows, rank);
  for (size_t c = j; c < j + n; c++) {
    if (!worth || top[c]->n > 0 || !isfinite(guessed[c])) guessed[c] = -INFINITY;
  }
}

/* The guess was too high: the block again, all of it. */
static void offer_again(const fopo_scan *scan, const fopo_scan_worker *w, fopo_topk *t,
                        const float *s, size_t columns) {
  t->n = 0;
  for (size_t at = 0; at < w->step; at++) {
    fopo_topk_push(t, w->kernels, scan->items, s[at * columns], id_at(scan->order, w->at + at));
  }
}

/* Offers the block's scores of active queries i .. i + n - 1, which share half a panel. */
static void offer_many(const fopo_scan *scan, const fopo_scan_worker *w, size_t i, size_t n) {
  size_t first = i / FOPO_PANEL * FOPO_PANEL, columns = width(w, first), j = i % HALF;
  const float *s = w->scores + first * w->slice + (i - first) / HALF * HALF;
  uint32_t list[CHUNK * HALF];
  float floor[HALF], guessed[HALF];
  fopo_topk *top[HALF];
  const uint32_t *order = scan->order;
  for (size_t c = 0; c < HALF; c++) floor[c] = INFINITY;
  for (size_t c = j; c < j + n; c++) top[c] = &w->top[w->active[i + c - j]];
  guess_many(w, guessed, top, j, n, s, columns);
  for (size_t start = 0; start < w->step; start += CHUNK) {
    size_t count = w->step - start < CHUNK ? w->step - start : CHUNK;
    const float *chunk = s + start * columns;
    for (size_t c = j; c < j + n; c++) {
      floor[c] = fmaxf(top[c]->floor, guessed[c] - 2.0f * top[c]->coming);
    }
    size_t found = w->kernels->select_columns_at_least(list, chunk, columns, count, floor);
    for (size_t f = 0; f < found; f++) {
      size_t at = list[f] / HALF, c = list[f] % HALF;
      fopo_topk_push(top[c], w->kernels, scan->items, chunk[at * columns + c],
                     id_at(order, w->at + start + at));
    }
  }
  for (size_t c = j; c < j + n; c++) {
    if (guessed[c] == -INFINITY) continue;
    if (fopo_topk_beats(top[c], guessed[c])) {
      fopo_topk_raise(top[c], guessed[c]);
    } else {
      offer_again(scan, w, top[c], s + c, columns);
    }
  }
}

/* The same of a block that was screened. */
static void offer_screened(const fopo_scan *scan, const fopo_scan_worker *w, size_t i, size_t n) {
  size_t panel = i / FOPO_PANEL, first = i / HALF * HALF, from = i % HALF;
  size_t tiles = (w->step + TILE_SCREENED - 1) / TILE_SCREENED, half = i % FOPO_PANEL / HALF;
  fopo_topk *top[HALF];
  const uint32_t *order = scan->order;
  for (size_t c = from; c < from + n; c++) top[c] = &w->top[w->active[first + c]];
  for (size_t tile = 0; tile < tiles; tile++) {
    size_t start = tile * TILE_SCREENED, count = w->step - start;
    if (count > TILE_SCREENED) count = TILE_SCREENED;
    size_t place = panel * FOPO_PANEL * w->slice + start * FOPO_PANEL + half * HALF * count;
    size_t found = w->found[(panel * tiles + tile) * 2 + half];
    const uint32_t *list = w->list + place;
    const float *s = w->scores + place;
    for (size_t f = 0; f < found; f++) {
      size_t at = w->at + start + list[f] / HALF, c = list[f] % HALF;
      if (c - from >= n) continue; /* another's, on either side */
      fopo_topk_push(top[c], w->kernels, scan->items, s[f], id_at(order, at));
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
  int proof = next == w->first && w->guessing == GUESSED;
#pragma omp for schedule(dynamic, 1)
  for (size_t first = 0; first < w->n_active; first += n) {
    size_t end = w->n_active - first < n ? w->n_active : first + n;
    if (w->screened) {
      offer_screened(scan, w, first, end - first);
    } else if (w->n_active > FEW) {
      offer_many(scan, w, first, end - first);
    } else {
      offer_few(scan, w, first);
    }
    for (size_t i = first; i < end; i++) {
      fopo_topk *t = &w->top[w->active[i]];
      float guess = w->guess[w->active[i]];
      w->failed[i] = proof && guess > -INFINITY && !fopo_topk_beats(t, guess);
      if (next == w->first && next < scan->limit && w->prefilter != NULL) {
        fopo_topk_settle(t, w->kernels, scan->items);
      }
      w->stop[i] =
          test && !w->failed[i] && fopo_topk_beats(t, bound(scan, (double)w->norm[i], next));
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
  if (w->at < scan->packed_rows && scan->packed_rows < end) end = scan->packed_rows;
  if (w->at < w->unscreened && w->unscreened < end) end = w->unscreened;
  if (w->at < w->first && w->first < end) end = w->first;
  w->step = end - w->at < w->slice ? end - w->at : w->slice;
  w->screened = w->prefilter != NULL && w->at >= w->unscreened &&
                (w->n_active > FEW || w->at < scan->packed_rows);
  slack s = w->screened ? screened_slack(scan, w->at) : full_slack(scan, w->at);
  for (size_t i = 0; i < w->n_active; i++) {
    double bound = s.share * (double)w->norm[i] + s.rest * (double)w->rest[i] + s.least;
    fopo_topk_expect(&w->top[w->active[i]], fopo_scan_up(bound));
  }
}

static void swap(fopo_scan_worker *w, size_t i, size_t j) {
  float norm = w->norm[i], rest = w->rest[i];
  uint32_t active = w->active[i];
  uint8_t failed = w->failed[i];
  w->norm[i] = w->norm[j], w->rest[i] = w->rest[j];
  w->active[i] = w->active[j], w->failed[i] = w->failed[j];
  w->norm[j] = norm, w->rest[j] = rest;
  w->active[j] = active, w->failed[j] = failed;
}

static void drop_done(const fopo_scan *scan, fopo_scan_worker *w) {
  size_t kept = 0;
  for (size_t i = 0; i < w->n_active; i++) {
    if (!w->stop[i]) swap(w, kept++, i);
  }
  if (kept == w->n_active) return;
  w->n_active = kept;
  fill_panels(w, scan->items.cols);
}

/* The first round begins anew for the queries that guessed too high, while the others wait. */
static void repeat_round(const fopo_scan *scan, fopo_scan_worker *w) {
  size_t failed = 0;
  for (size_t i = 0; i < w->n_active; i++) {
    if (w->failed[i]) swap(w, failed++, i);
  }
  w->guessing = NOT_GUESSING;
  if (failed == 0) return;
  w->guessing = GUESSED_WRONG;
  w->waiting = w->n_active - failed;
  w->n_active = failed;
  w->at = 0;
  w->round_end = w->first;
  for (size_t i = 0; i < failed; i++) {
    fopo_topk *t = &w->top[w->active[i]];
    fopo_topk_init(t, t->keys, t->room, t->k, t->q);
  }
  fill_panels(w, scan->items.cols);
}

/* Those that waited go on with the others. */
static void resume(const fopo_scan *scan, fopo_scan_worker *w) {
  memset(w->stop + w->n_active, 0, w->waiting * sizeof *w->stop);
  w->n_active += w->waiting;
  w->waiting = 0;
  w->guessing = NOT_GUESSING;
  fill_panels(w, scan->items.cols);
}

static void advance(const fopo_scan *scan, fopo_scan_worker *w) {
  if (w->guessing != GUESSED_WRONG) w->scored += w->step * w->n_active; /* each item once */
  w->at += w->step;
  if (w->at == w->first && w->guessing == GUESSED_WRONG) resume(scan, w);
  drop_done(scan, w);
  if (w->at == w->first && w->guessing == GUESSED) repeat_round(scan, w);
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
    if (w->guessing == TO_GUESS) guess_floors(scan, w);
    if (w->screened) {
      screen_block(scan, w);
    } else if (w->n_active > FEW) {
      score_many(scan, w);
    } else {
      score_few(scan, w);
    }
    select_block(scan, w);
#pragma omp single
    advance(scan, w);
  }
}

/* A zero query (a context without items) scores 0 everywhere: the k smallest ids, without a look.
 */
static void answer_zero(fopo_topk *t) {
  for (size_t i = 0; i < t->k; i++) t->keys[i] = fopo_topk_key(0.0f, (uint32_t)i);
  t->n = t->k;
}

/* k items must be seen to stop; where scores are screened, enough of them to guess good floors
 * from. What cannot be stopped is not worth a second round. Blocks of a packed head begin with a
 * group. */
static size_t first_round(const fopo_scan *scan, const fopo_scan_worker *w, size_t k) {
  size_t first = 2 * k > ROUND_FIRST ? 2 * k : ROUND_FIRST;
  int stops = scan->norms != NULL && scan->limit == scan->items.rows;
  if (w->prefilter != NULL && k >= GUESS_LEAST) {
    first = 16 * k > ROUND_GUESSED ? 16 * k : ROUND_GUESSED;
    if (2 * first >= scan->limit) first = stops ? 8 * k : scan->limit;
  }
  first = fopo_prefilter_rows(first);
  return first < scan->limit ? first : scan->limit;
}

void fopo_scan_group_start(const fopo_scan *scan, fopo_scan_worker *w, fopo_matrix Q, size_t k) {
  size_t L = Q.cols, room = fopo_topk_room(k, scan->limit), n = 0;
  for (size_t i = 0; i < Q.rows; i++) {
    const float *q = fopo_matrix_row(Q, i);
    fopo_topk_init(&w->top[i], w->keys + i * room, room, k, q);
    w->norm[n] = fopo_scan_up(fopo_scan_norm(q, L));
    if (w->norm[n] == 0.0f && scan->limit == scan->items.rows) {
      answer_zero(&w->top[i]);
      continue;
    }
    if (w->prefilter != NULL) w->rest[n] = fopo_scan_up(fopo_prefilter_error(q, L));
    w->active[n++] = (uint32_t)i;
  }
  w->first = first_round(scan, w, k);
  int guess = w->prefilter != NULL && k >= GUESS_LEAST && w->first >= 4 * k;
  w->unscreened = guess ? fopo_prefilter_rows(2 * k) : w->prefilter != NULL ? w->first : 0;
  w->guessing = guess && (n > FEW || scan->packed_rows > 0) ? TO_GUESS : NOT_GUESSING;
  w->waiting = 0;
  w->n_active = n;
  fill_panels(w, L);
  w->at = w->scored = 0;
  w->round_end = scan->norms == NULL ? scan->limit : w->first;
  next_block(scan, w);
}

int fopo_scan_group_run(const fopo_scan *scan, fopo_scan_worker *w, int threads) {
  if (!unfinished(scan, w)) return 0;
  double dots = (double)w->n_active * (double)scan->items.cols;
  w->pause = 0;
  w->until = fopo_clock() + TICK;
  run_blocks(scan, w, (size_t)(ALONE_MOST / dots) + 1, 1);
  run_blocks(scan, w, scan->limit, threads);
  return unfinished(scan, w);
}
