/* Items by descending norm, so that a search may stop early (mips/scan.h). There is nothing to
 * build but a sort, and nothing to tune but the budget.
 *
 * The items exist once. Beside them an index holds the order, the norms and a packed copy of the
 * head, the largest tenth, where most queries of small k end; further rows are gathered as they are
 * needed. The order is by norm, then id, a total one: the same on every machine. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "kernels/prefilter.h"
#include "mips/index_internal.h"
#include "mips/order.h"
#include "mips/scan.h"

/* The head takes a tenth of the items' bytes, in bfloat16 for a fifth of the items. */
enum { HEAD_SHARE = 10, SCREENED_SHARE = 5, HEAD_LEAST = 4096, AHEAD = 16 /* rows on their way */ };

typedef struct {
  fopo_scan scan;
  uint32_t *order;  /* [P] */
  float *norms;     /* [P] in that order */
  float *head;      /* [scan.head.rows, L], or */
  uint16_t *packed; /* [scan.packed_rows, row] where the kernels can prefilter */
  size_t budget;    /* as asked for; 0: none */
} norm_index;

static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t k) {
  norm_index *own = ix->own;
  return fopo_scan_search(ids, scores, counts, &ix->scored, &own->scan, Q, k);
}

static void free_own(fopo_index *ix) {
  norm_index *own = ix->own;
  if (own == NULL) return;
  fopo_scan_done(&own->scan);
  fopo_free(own->order);
  fopo_free(own->norms);
  fopo_free(own->head);
  fopo_free(own->packed);
  fopo_free(own);
}

static void about(fopo_index_facts *facts, const fopo_index *ix) {
  const norm_index *own = ix->own;
  facts->bytes = sizeof *own + ix->items.rows * (sizeof *own->order + sizeof *own->norms) +
                 own->scan.head.rows * ix->items.cols * sizeof(float) +
                 own->scan.packed_rows * fopo_prefilter_row(ix->items.cols) * sizeof(uint16_t) +
                 fopo_scan_bytes(&own->scan);
  facts->reachable = own->scan.limit;
  facts->budget = own->budget;
}

static int save(const fopo_index *ix, const char *path) {
  const norm_index *own = ix->own;
  uint64_t budget = own->budget;
  fopo_index_head head;
  fopo_array arrays[FOPO_INDEX_MEMBERS + 2];
  fopo_index_members(arrays, &head, ix);
  arrays[FOPO_INDEX_MEMBERS] = fopo_array_of("budget", FOPO_U64, &budget, 0, 1, 1);
  arrays[FOPO_INDEX_MEMBERS + 1] =
      fopo_array_of("order", FOPO_U32, own->order, 1, ix->items.rows, 1);
  return fopo_npz_save(path, arrays, FOPO_INDEX_MEMBERS + 2, 0);
}

static void set_limit(norm_index *own, size_t budget) {
  size_t P = own->scan.items.rows;
  own->budget = budget;
  own->scan.limit = budget > 0 && budget < P ? budget : P;
}

static int set_budget(fopo_index *ix, size_t budget) {
  set_limit(ix->own, budget);
  return FOPO_OK;
}

static int rebuild(fopo_index **fresh, const fopo_index *ix) {
  return fopo_index_norm(fresh, ix->items, ((const norm_index *)ix->own)->budget);
}

static const fopo_index_kind norm = {.kind = "norm",
                                     .search = search,
                                     .finds_sets = 1,
                                     .free = free_own,
                                     .about = about,
                                     .save = save,
                                     .rebuild = rebuild,
                                     .set_budget = set_budget};

const fopo_scan *fopo_index_norm_scan(const fopo_index *ix) {
  const norm_index *own = ix->own;
  return &own->scan;
}

int fopo_index_order(uint32_t *order, float *norms, uint64_t *version, const fopo_index *ix) {
  if (ix->kind != &norm) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "only a norm index keeps an order of the norms, not one of kind %s",
                     ix->kind->kind);
  }
  pthread_mutex_t *lock = (pthread_mutex_t *)&ix->lock; /* a refresh may take the order's place */
  pthread_mutex_lock(lock);
  const norm_index *own = ix->own;
  memcpy(order, own->order, ix->items.rows * sizeof *order);
  memcpy(norms, own->norms, ix->items.rows * sizeof *norms);
  *version = ix->version;
  pthread_mutex_unlock(lock);
  return FOPO_OK;
}

static void fetch(const float *row, size_t L) {
  for (size_t l = 0; l < L; l += 16) __builtin_prefetch(row + l);
}

/* The first `rows` items of the order, as they are. */
static int copy_head(norm_index *own, fopo_matrix items, size_t rows) {
  size_t L = items.cols;
  own->head = fopo_alloc(rows * L, sizeof *own->head);
  if (own->head == NULL) return FOPO_ERR_MEMORY;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (rows > HEAD_LEAST)
  for (size_t i = 0; i < rows; i++) {
    if (i + AHEAD < rows) fetch(fopo_matrix_row(items, own->order[i + AHEAD]), L);
    memcpy(own->head + i * L, fopo_matrix_row(items, own->order[i]), L * sizeof(float));
  }
  own->scan.head = fopo_matrix_view(own->head, rows, L);
  return FOPO_OK;
}

/* The same for screening, in half the bytes. */
static int screen_head(norm_index *own, fopo_matrix items, size_t rows,
                       const fopo_prefilter *prefilter) {
  size_t row = fopo_prefilter_row(items.cols),
         groups = fopo_prefilter_rows(rows) / FOPO_PREFILTER_GROUP;
  own->packed = fopo_alloc(groups * FOPO_PREFILTER_GROUP * row, sizeof *own->packed);
  if (own->packed == NULL) return FOPO_ERR_MEMORY;
  double error = 0.0;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)                              \
    reduction(max                                                                                  \
              : error) if (rows > HEAD_LEAST)
  for (size_t g = 0; g < groups; g++) {
    size_t first = g * FOPO_PREFILTER_GROUP, left = rows - first;
    size_t count = left < FOPO_PREFILTER_GROUP ? left : FOPO_PREFILTER_GROUP;
    prefilter->pack(own->packed + first * row, items.x, items.ld, own->order + first, count,
                    items.cols);
    for (size_t i = first; i < first + count && own->norms[i] > 0.0f; i++) {
      const float *beta = fopo_matrix_row(items, own->order[i]);
      error = fmax(error, fopo_prefilter_error(beta, items.cols) / (double)own->norms[i]);
    }
  }
  own->scan.packed_error = error * (1.0 + 0x1p-20); /* norms are rounded up */
  own->scan.packed = own->packed;
  own->scan.packed_rows = rows;
  return FOPO_OK;
}

static int pack_head(norm_index *own, fopo_matrix items) {
  const fopo_prefilter *prefilter = fopo_kernels_get()->prefilter;
  size_t P = items.rows, rows = P / (prefilter != NULL ? SCREENED_SHARE : HEAD_SHARE);
  if (rows < HEAD_LEAST) rows = HEAD_LEAST;
  rows = fopo_prefilter_rows(rows);
  if (rows > own->scan.limit) rows = own->scan.limit;
  return prefilter != NULL ? screen_head(own, items, rows, prefilter) : copy_head(own, items, rows);
}

/* Takes norms [P] over, in any case. */
static int build(fopo_index *ix, float *norms, size_t budget) {
  size_t P = ix->items.rows;
  norm_index *own = ix->own = fopo_alloc(1, sizeof *own);
  if (own == NULL) {
    fopo_free(norms);
    return FOPO_ERR_MEMORY;
  }
  own->norms = norms;
  own->order = fopo_alloc(P, sizeof *own->order);
  if (own->order == NULL) return FOPO_ERR_MEMORY;
  int status = fopo_order_descending(own->order, own->norms, P);
  if (status != FOPO_OK) return status;
  own->scan.items = ix->items;
  own->scan.order = own->order;
  own->scan.norms = own->norms;
  own->scan.max_norm = ix->max_norm;
  set_limit(own, budget);
  return pack_head(own, ix->items);
}

int fopo_index_norm(fopo_index **ix, fopo_matrix items, size_t budget) {
  double start = fopo_clock();
  float *norms;
  int status = fopo_index_begin(ix, &norm, items, &norms);
  if (status != FOPO_OK) return status;
  status = build(*ix, norms, budget);
  if (status != FOPO_OK) {
    fopo_index_free(*ix);
    *ix = NULL;
    return status;
  }
  (*ix)->build_seconds = fopo_clock() - start;
  return FOPO_OK;
}

/* The order follows from the items alone, so it is built again, at the cost of a sort, and the
 * stored one must be the same. */
int fopo_index_norm_load(fopo_index **ix, fopo_archive *archive, const char *path,
                         fopo_matrix items) {
  uint64_t budget;
  *ix = NULL;
  int status = fopo_index_number(&budget, archive, path, "budget", SIZE_MAX);
  if (status != FOPO_OK) return status;
  fopo_array *order = fopo_archive_need(archive, path, "order", FOPO_U32, 1);
  if (order == NULL) return FOPO_ERR_FORMAT;
  if (order->shape[0] != items.rows) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: order has %zu entries for %zu items; build it again",
                     path, order->shape[0], items.rows);
  }
  status = fopo_index_norm(ix, items, (size_t)budget);
  if (status != FOPO_OK) return status;
  const norm_index *own = (*ix)->own;
  const uint32_t *stored = order->data;
  for (size_t i = 0; i < items.rows; i++) {
    if (stored[i] == own->order[i]) continue;
    fopo_index_free(*ix);
    *ix = NULL;
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: entry %zu of order is item %" PRIu32
                     ", which is not the next by norm; build it again",
                     path, i + 1, stored[i]);
  }
  return FOPO_OK;
}
