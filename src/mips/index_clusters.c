/* The index kind "clusters": the items are divided by k-means into C = 4 sqrt(P) clusters, and a
 * search begins with those whose centres have the largest inner products with the query. It serves
 * where norms tell nothing, as among items of unit norm. Approximate.
 *
 * The k best of a query are found among `ef` items (4 k if that is not given), which the clusters
 * keep transposed, 16 together, so that one query is multiplied with 16 at once. A set of
 * candidates (fopo_index_search_within) is k items of the best clusters as they are: they hold
 * nearly as much of the mass, and cost C rows and no search among them.
 *
 * Lloyd's algorithm, from items at equal distances in the catalogue, on a part of them; one more
 * pass assigns all. An item goes to the centre of the smallest distance, that is, of the largest
 * b . c - |c|^2 / 2: one inner product of [b, 1] with [c, -|c|^2 / 2]. Sums have one order, so the
 * clusters are the same for any number of threads. Items without a norm score 0 in every context;
 * they are a cluster of their own, the last one, whose centre is 0. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "mips/index_internal.h"

enum {
  ROUNDS = 2,       /* of Lloyd's algorithm: more hardly change what a search finds */
  LEARNT_FROM = 12, /* items for each cluster */
  BREADTH = 4,      /* ef = 4 k: what makes clusters found by their centres nearly exact */
  TILE = 64,        /* centres of one product */
  PANEL = FOPO_PANEL,
  GROUP = FOPO_PANEL / 2, /* items that are transposed together */
  STRETCH = 256 * PANEL   /* items between two looks at Ctrl-C */
};

typedef struct {
  size_t C, ef;    /* ef as given; 0: 4 k */
  size_t zeros;    /* items without a norm */
  float *centres;  /* [C, L + 1] each centre c, then -|c|^2 / 2 */
  uint32_t *start; /* [C + 1] of each cluster in `order` */
  uint32_t *order; /* [P] the items of cluster after cluster, ascending in each */
  size_t largest;  /* cluster of items with a norm */
  float *groups;   /* [groups, L, GROUP] the items in that order, transposed */

  /* Memory of a search: the scores of the centres, and for each query the keys of clusters and of
   * the items that are looked at. */
  size_t queries, looked;
  float *panels;   /* [panels, L, PANEL] the queries, transposed */
  float *found;    /* [panels, C, PANEL] scores of the centres */
  uint32_t *above; /* [2 panels, C, GROUP] places of scores that are large, of half a panel */
  size_t *chosen;  /* [queries] how many clusters are chosen, whose keys come first */
  uint64_t *keys;  /* [queries, C + looked] */
} clusters;

static size_t divided(size_t n, size_t by) { return (n + by - 1) / by; }

static size_t size_of(const clusters *k, size_t c) { return k->start[c + 1] - k->start[c]; }

/* ---- k-means ---- */

/* panel [L + 1, PANEL] = up to PANEL items, transposed, and ones. */
static void fill_panel(float *panel, fopo_matrix items, const uint32_t *ids, size_t n) {
  for (size_t j = 0; j < PANEL; j++) {
    const float *x = fopo_matrix_row(items, ids[j < n ? j : 0]);
    for (size_t l = 0; l < items.cols; l++) panel[l * PANEL + j] = x[l];
    panel[items.cols * PANEL + j] = 1.0f;
  }
}

/* The first of the n rows of a column of f [n, PANEL] that is `most`. */
static size_t place_of(const float *column, size_t n, float most) {
  size_t s = 0;
  while (s + 1 < n && column[s * PANEL] < most) s++;
  return s;
}

/* of [n] = the cluster of each of up to PANEL items. panel and f [TILE, PANEL] are scratch. */
static void assign(uint32_t *of, const clusters *k, fopo_matrix items, const uint32_t *ids,
                   size_t n, float *panel, float *f) {
  const fopo_kernels *kernels = fopo_kernels_get();
  size_t L = items.cols;
  float best[PANEL], most[PANEL];
  fill_panel(panel, items, ids, n);
  for (size_t j = 0; j < n; j++) best[j] = -INFINITY, of[j] = 0;
  for (size_t c = 0; c < k->C; c += TILE) {
    size_t count = k->C - c < TILE ? k->C - c : TILE;
    kernels->scores(f, k->centres + c * (L + 1), L + 1, NULL, count, panel, L + 1, PANEL);
    kernels->max_columns(most, f, count, PANEL);
    for (size_t j = 0; j < n; j++) {
      if (!(most[j] > best[j])) continue;
      best[j] = most[j];
      of[j] = (uint32_t)(c + place_of(f + j, count, most[j]));
    }
  }
}

static int assign_all(uint32_t *of, const clusters *k, fopo_matrix items, const uint32_t *ids,
                      size_t n) {
  size_t each = (items.cols + 1 + TILE) * PANEL; /* of a panel and its scores, of a thread */
  int threads = fopo_threads(), status = FOPO_OK;
  float *scratch = fopo_alloc((size_t)threads * each, sizeof *scratch);
  if (scratch == NULL) return FOPO_ERR_MEMORY;
  for (size_t first = 0; first < n && status == FOPO_OK; first += STRETCH) {
    size_t end = n - first < STRETCH ? n : first + STRETCH;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = first; i < end; i += PANEL) {
      float *panel = scratch + (size_t)omp_get_thread_num() * each;
      assign(of + i, k, items, ids + i, end - i < PANEL ? end - i : PANEL, panel,
             panel + (items.cols + 1) * PANEL);
    }
    status = fopo_progress("clustering the items", (double)end, (double)n);
  }
  fopo_free(scratch);
  return status;
}

/* start and order of the n items whose clusters are `of`: a counting sort. */
static void sort_by_cluster(clusters *k, const uint32_t *of, const uint32_t *ids, size_t n) {
  memset(k->start, 0, (k->C + 1) * sizeof *k->start);
  for (size_t i = 0; i < n; i++) k->start[of[i] + 1]++;
  for (size_t c = 0; c < k->C; c++) k->start[c + 1] += k->start[c];
  for (size_t i = 0; i < n; i++) k->order[k->start[of[i]]++] = ids[i];
  memmove(k->start + 1, k->start, k->C * sizeof *k->start);
  k->start[0] = 0;
}

static void finish_centre(float *centre, size_t L) {
  double square = 0.0;
  for (size_t l = 0; l < L; l++) square += (double)centre[l] * (double)centre[l];
  centre[L] = (float)(-0.5 * square);
}

/* Each centre becomes the mean of its items; one without any stays. */
static void move_centres(clusters *k, fopo_matrix items) {
  size_t L = items.cols;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t c = 0; c < k->C; c++) {
    size_t first = k->start[c], n = k->start[c + 1] - first;
    float *centre = k->centres + c * (L + 1);
    for (size_t l = 0; l < L && n > 0; l++) {
      double sum = 0.0;
      for (size_t i = first; i < first + n; i++) {
        sum += (double)fopo_matrix_row(items, k->order[i])[l];
      }
      centre[l] = (float)(sum / (double)n);
    }
    finish_centre(centre, L);
  }
}

/* Clusters of the n items of `with`, which have a norm. ids [P] and of [P] are scratch. */
static int learn(clusters *k, fopo_matrix items, const uint32_t *with, size_t n, uint32_t *ids,
                 uint32_t *of) {
  size_t L = items.cols, some = k->C * LEARNT_FROM < n ? k->C * LEARNT_FROM : n;
  int status = FOPO_OK;
  for (size_t c = 0; c < k->C; c++) {
    const float *item = fopo_matrix_row(items, with[c * n / k->C]);
    memcpy(k->centres + c * (L + 1), item, L * sizeof *item);
    finish_centre(k->centres + c * (L + 1), L);
  }
  for (size_t i = 0; i < some; i++) ids[i] = with[i * n / some];
  for (int round = 0; round < ROUNDS && status == FOPO_OK; round++) {
    status = assign_all(of, k, items, ids, some);
    if (status != FOPO_OK) return status;
    sort_by_cluster(k, of, ids, some);
    move_centres(k, items);
  }
  return status == FOPO_OK ? assign_all(of, k, items, with, n) : status;
}

/* Lists the items whose rows are zeros, or those whose are not; returns how many. */
static size_t list_items(uint32_t *ids, fopo_matrix items, int zeros) {
  size_t n = 0;
  for (size_t i = 0; i < items.rows; i++) {
    const float *row = fopo_matrix_row(items, i);
    size_t l = 0;
    while (l < items.cols && !(fabsf(row[l]) > 0.0f)) l++;
    if ((l == items.cols) == zeros) ids[n++] = (uint32_t)i;
  }
  return n;
}

static void fill_groups(clusters *k, fopo_matrix items) {
  size_t P = items.rows, L = items.cols;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t g = 0; g < divided(P, GROUP); g++) {
    for (size_t j = 0; j < GROUP && g * GROUP + j < P; j++) {
      const float *x = fopo_matrix_row(items, k->order[g * GROUP + j]);
      for (size_t l = 0; l < L; l++) k->groups[(g * L + l) * GROUP + j] = x[l];
    }
  }
}

size_t fopo_index_clusters_of(size_t P) { return (size_t)(4.0 * sqrt((double)P)); }

static int build_of(fopo_index *ix, size_t C, uint32_t *listed, uint32_t *ids, uint32_t *of) {
  size_t P = ix->items.rows, L = ix->items.cols;
  clusters *k = ix->impl;
  size_t n = list_items(listed, ix->items, 0), zeros = list_items(listed + n, ix->items, 1);
  size_t last = zeros > 0; /* clusters */
  C = C == 0 ? fopo_index_clusters_of(n) : C > last ? C - last : 1;
  k->C = C < n ? C : n;
  k->zeros = zeros;
  k->centres = fopo_alloc((k->C + last) * (L + 1), sizeof *k->centres);
  k->start = fopo_alloc(k->C + last + 1, sizeof *k->start);
  k->order = fopo_alloc(P, sizeof *k->order);
  k->groups = fopo_alloc(divided(P, GROUP) * GROUP * L, sizeof *k->groups);
  if (!(k->centres && k->start && k->order && k->groups)) return FOPO_ERR_MEMORY;
  int status = learn(k, ix->items, listed, n, ids, of);
  if (status != FOPO_OK) return status;
  for (size_t i = n; i < P; i++) of[i] = (uint32_t)k->C;
  k->C += last;
  sort_by_cluster(k, of, listed, P);
  move_centres(k, ix->items); /* of all their items: the clusters stay, and are found better */
  for (size_t c = 0; c + last < k->C; c++) {
    k->largest = size_of(k, c) > k->largest ? size_of(k, c) : k->largest;
  }
  fill_groups(k, ix->items);
  return FOPO_OK;
}

static int build(fopo_index *ix, size_t C, size_t ef) {
  size_t P = ix->items.rows;
  clusters *k = ix->impl = fopo_alloc(1, sizeof *k);
  uint32_t *ids = fopo_alloc(3 * P, sizeof *ids);
  int status = k != NULL && ids != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) {
    k->ef = ef;
    status = build_of(ix, C, ids, ids + P, ids + 2 * P);
  }
  fopo_free(ids);
  return status;
}

/* ---- search ---- */

static size_t breadth(const clusters *k, size_t P, size_t answers) {
  size_t ef = k->ef > 0 ? k->ef : BREADTH * answers;
  if (ef < answers) ef = answers;
  return ef < P ? ef : P;
}

static int reserve(clusters *k, size_t B, size_t L, size_t looked) {
  if (B <= k->queries && looked <= k->looked) return FOPO_OK;
  if (B < k->queries) B = k->queries;
  if (looked < k->looked) looked = k->looked;
  size_t panels = divided(B, PANEL);
  fopo_free(k->panels);
  fopo_free(k->found);
  fopo_free(k->above);
  fopo_free(k->chosen);
  fopo_free(k->keys);
  k->queries = k->looked = 0;
  k->panels = fopo_alloc(panels * L * PANEL, sizeof *k->panels);
  k->found = fopo_alloc(panels * k->C * PANEL, sizeof *k->found);
  k->above = fopo_alloc(panels * k->C * PANEL, sizeof *k->above);
  k->chosen = fopo_alloc(B, sizeof *k->chosen);
  k->keys = fopo_alloc(B * (k->C + looked), sizeof *k->keys);
  if (!(k->panels && k->found && k->above && k->chosen && k->keys)) return FOPO_ERR_MEMORY;
  k->queries = B;
  k->looked = looked;
  return FOPO_OK;
}

static void fill_queries(float *panel, fopo_matrix Q, size_t first) {
  for (size_t j = 0; j < PANEL; j++) {
    const float *q = first + j < Q.rows ? fopo_matrix_row(Q, first + j) : NULL;
    for (size_t l = 0; l < Q.cols; l++) panel[l * PANEL + j] = q != NULL ? q[l] : 0.0f;
  }
}

/* keys [..] = those of the items of cluster c; returns how many. Of items without a norm, which all
 * score 0, not more than `wanted`. */
static size_t score_cluster(uint64_t *keys, const clusters *k, uint32_t c, const float *q, size_t L,
                            size_t wanted) {
  size_t first = k->start[c], end = k->start[c + 1], n = 0;
  if (k->zeros > wanted && c + 1 == k->C) end = first + wanted;
  for (size_t g = first / GROUP; g * GROUP < end; g++) {
    float f[GROUP];
    fopo_kernels_get()->scores(f, q, L, NULL, 1, k->groups + g * L * GROUP, L, GROUP);
    size_t from = g * GROUP < first ? first % GROUP : 0;
    size_t to = end - g * GROUP < GROUP ? end - g * GROUP : GROUP;
    for (size_t j = from; j < to; j++) keys[n++] = fopo_topk_key(f[j], k->order[g * GROUP + j]);
  }
  return n;
}

/* So many clusters nearly always have `least` items. */
static size_t enough(const clusters *k, size_t least) {
  size_t n = 2 * least * k->C / (k->start[k->C] - k->zeros + 1) + 8;
  return n < k->C ? n : k->C;
}

/* The keys of the clusters whose centres score best, and a few more, of the GROUP queries of half a
 * panel at once. */
static void choose_clusters(clusters *k, size_t half, size_t B, size_t least) {
  const fopo_kernels *kernels = fopo_kernels_get();
  const float *f = k->found + half / 2 * k->C * PANEL + half % 2 * GROUP;
  uint32_t *above = k->above + half * k->C * GROUP;
  size_t first = half * GROUP, each = k->C + k->looked;
  float floor[GROUP];
  kernels->approximate_kth(floor, f, PANEL, k->C, enough(k, least));
  for (size_t j = 0; j < GROUP; j++) {
    if (first + j < B) {
      k->chosen[first + j] = 0;
    } else {
      floor[j] = INFINITY;
    }
  }
  size_t n = kernels->select_columns_at_least(above, f, PANEL, k->C, floor);
  for (size_t i = 0; i < n; i++) {
    size_t c = above[i] / GROUP, j = above[i] % GROUP, b = first + j;
    k->keys[b * each + k->chosen[b]++] = fopo_topk_key(f[c * PANEL + j], (uint32_t)c);
  }
}

/* of [C] = the keys of clusters, those whose centres score best in front and in order: so many that
 * they have `least` items. The first ones were chosen; are these too few, all are looked at. */
static void rank_clusters(uint64_t *of, const clusters *k, size_t b, size_t least) {
  const fopo_kernels *kernels = fopo_kernels_get();
  const float *f = k->found + b / PANEL * k->C * PANEL + b % PANEL;
  size_t best = enough(k, least), n = k->chosen[b];
  for (;;) {
    size_t items = 0;
    for (size_t i = 0; i < n; i++) items += size_of(k, fopo_topk_id(of[i]));
    if (items >= least) break;
    best = 4 * best < k->C ? 4 * best : k->C;
    for (size_t c = 0; c < k->C; c++) of[c] = fopo_topk_key(f[c * PANEL], (uint32_t)c);
    n = kernels->partition_at_least(of, k->C, kernels->kth(of, k->C, best));
  }
  kernels->sort(of, n);
}

/* ids [n_answers] = items of the best clusters as they are, ascending. */
static void take_set(uint32_t *ids, const clusters *k, size_t b, size_t n_answers) {
  uint64_t *of = k->keys + b * (k->C + k->looked);
  rank_clusters(of, k, b, n_answers);
  for (size_t n = 0, i = 0; n < n_answers; i++) {
    uint32_t c = fopo_topk_id(of[i]);
    size_t size = size_of(k, c), count = n_answers - n < size ? n_answers - n : size;
    memcpy(ids + n, k->order + k->start[c], count * sizeof *ids);
    n += count;
  }
  fopo_sort_ids(ids, (uint32_t *)(void *)(of + k->C), n_answers, k->start[k->C]);
}

/* The best of the items of the best clusters, and their scores; returns how many were looked at. */
static size_t take_best(uint32_t *ids, float *scores, const clusters *k, fopo_matrix items,
                        size_t b, const float *q, size_t n_answers, size_t least) {
  const fopo_kernels *kernels = fopo_kernels_get();
  uint64_t *of = k->keys + b * (k->C + k->looked), *keys = of + k->C;
  size_t n = 0;
  rank_clusters(of, k, b, least);
  for (size_t i = 0; n < least; i++) {
    n += score_cluster(keys + n, k, fopo_topk_id(of[i]), q, items.cols, least - n);
  }
  kernels->partition_at_least(keys, n, kernels->kth(keys, n, n_answers));
  for (size_t i = 0; i < n_answers; i++) {
    uint32_t id = fopo_topk_id(keys[i]);
    keys[i] = fopo_topk_key(kernels->dot(fopo_matrix_row(items, id), q, items.cols), id);
  }
  fopo_topk_give(ids, scores, keys, n_answers, n_answers, kernels);
  return n;
}

static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t n_answers) {
  clusters *k = ix->impl;
  size_t P = ix->items.rows, L = Q.cols, least = breadth(k, P, n_answers), scored = 0;
  size_t tiles = divided(k->C, TILE), panels = divided(Q.rows, PANEL);
  int status = reserve(k, Q.rows, L, least + k->largest);
  if (status != FOPO_OK) return status;
#pragma omp parallel num_threads(fopo_threads())
  {
#pragma omp for schedule(static)
    for (size_t p = 0; p < panels; p++) fill_queries(k->panels + p * L * PANEL, Q, p * PANEL);
#pragma omp for schedule(static)
    for (size_t i = 0; i < panels * tiles; i++) {
      size_t p = i / tiles, c = i % tiles * TILE, count = k->C - c < TILE ? k->C - c : TILE;
      fopo_kernels_get()->scores(k->found + (p * k->C + c) * PANEL, k->centres + c * (L + 1), L + 1,
                                 NULL, count, k->panels + p * L * PANEL, L, PANEL);
    }
#pragma omp for schedule(static)
    for (size_t h = 0; h < divided(Q.rows, GROUP); h++) choose_clusters(k, h, Q.rows, least);
#pragma omp for schedule(static) reduction(+ : scored)
    for (size_t b = 0; b < Q.rows; b++) {
      uint32_t *to = ids + b * n_answers;
      if (scores == NULL) {
        take_set(to, k, b, n_answers);
      } else {
        scored += take_best(to, scores + b * n_answers, k, ix->items, b, fopo_matrix_row(Q, b),
                            n_answers, least);
      }
      counts[b] = (uint32_t)n_answers;
    }
  }
  ix->scored += scored;
  return FOPO_OK;
}

/* ---- life ---- */

static void free_impl(fopo_index *ix) {
  clusters *k = ix->impl;
  if (k == NULL) return;
  void *const blocks[] = {k->centres, k->start, k->order,  k->groups, k->panels,
                          k->found,   k->above, k->chosen, k->keys};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) fopo_free(blocks[i]);
  fopo_free(k);
}

static void about(fopo_index_facts *facts, const fopo_index *ix) {
  const clusters *k = ix->impl;
  size_t P = ix->items.rows, L = ix->items.cols, panels = divided(k->queries, PANEL);
  facts->bytes = sizeof *k + k->C * (L + 1) * sizeof(float) + (k->C + 1 + P) * sizeof(uint32_t) +
                 panels * (L + 2 * k->C) * PANEL * sizeof(float) +
                 k->queries * (1 + k->C + k->looked) * sizeof(uint64_t) +
                 divided(P, GROUP) * GROUP * L * sizeof(float);
  facts->reachable = P;
  facts->clusters = k->C;
  facts->ef = k->ef;
}

static int set_ef(fopo_index *ix, size_t ef) {
  ((clusters *)ix->impl)->ef = ef;
  return FOPO_OK;
}

static int rebuild(fopo_index **fresh, const fopo_index *ix) {
  const clusters *k = ix->impl;
  return fopo_index_clusters(fresh, ix->items, k->C, k->ef);
}

static int save(const fopo_index *ix, const char *path) {
  const clusters *k = ix->impl;
  uint64_t C = k->C, ef = k->ef;
  fopo_index_header header;
  fopo_array arrays[FOPO_INDEX_MEMBERS + 2];
  fopo_index_members(arrays, &header, ix);
  arrays[FOPO_INDEX_MEMBERS] = fopo_array_of("clusters", FOPO_U64, &C, 0, 1, 1);
  arrays[FOPO_INDEX_MEMBERS + 1] = fopo_array_of("ef", FOPO_U64, &ef, 0, 1, 1);
  return fopo_npz_save(path, arrays, FOPO_INDEX_MEMBERS + 2, 0);
}

/* The clusters follow from the items, and are built again. */
static int load(fopo_index **ix, fopo_archive *archive, const char *path, fopo_matrix items) {
  uint64_t C, ef;
  *ix = NULL;
  int status = fopo_index_number(&C, archive, path, "clusters", items.rows);
  if (status == FOPO_OK) status = fopo_index_number(&ef, archive, path, "ef", items.rows);
  return status == FOPO_OK ? fopo_index_clusters(ix, items, (size_t)C, (size_t)ef) : status;
}

const fopo_index_kind fopo_index_kind_clusters = {.name = "clusters",
                                                  .finds_sets = 1,
                                                  .search = search,
                                                  .free = free_impl,
                                                  .about = about,
                                                  .save = save,
                                                  .load = load,
                                                  .rebuild = rebuild,
                                                  .set_ef = set_ef};

int fopo_index_clusters(fopo_index **ix, fopo_matrix items, size_t C, size_t ef) {
  double begin = fopo_clock();
  int status = fopo_index_begin(ix, &fopo_index_kind_clusters, items, NULL);
  if (status != FOPO_OK) return status;
  status = build(*ix, C, ef);
  if (status == FOPO_OK) (*ix)->build_seconds = fopo_clock() - begin;
  return fopo_index_end(ix, status);
}

int fopo_index_groups(uint32_t *groups, const fopo_index *ix) {
  if (ix->kind != &fopo_index_kind_clusters) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "an index of kind %s has no groups; use clusters",
                     ix->kind->name);
  }
  const clusters *k = ix->impl;
  for (size_t c = 0; c < k->C; c++) {
    for (size_t i = k->start[c]; i < k->start[c + 1]; i++) groups[k->order[i]] = (uint32_t)c;
  }
  return FOPO_OK;
}
