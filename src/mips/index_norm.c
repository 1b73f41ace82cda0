/* The index kind "norm": items by descending norm, so that a search can stop early (mips/scan.h).
 * The only structure is a sort and the only option is the budget.
 *
 * The items are not copied. The index holds the order, the norms and a packed copy of the first
 * rows of the order, a tenth or less, among which most queries of small k end; rows beyond are
 * gathered when they are needed. The order is by norm, then by id: total, so the same on every
 * machine. */
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

enum {
  PACKED_DIVISOR = 10,  /* the packed copy takes a tenth of the items' bytes at most, */
  ROWS_DIVISOR = 5,     /* and holds a fifth of them: hardly any search reads more, */
  MAX_PACKED = 1 << 19, /* nor more than so many, which make it slow to begin; */
  MIN_PACKED = 4096,
  AHEAD = 16 /* the prefetch distance in rows */
};

#define FINE 0x1p-10 /* of a relative rounding: a quarter of what bfloat16 may lose */

typedef struct {
  fopo_scan scan;
  uint32_t *order; /* [P] */
  float *norms;    /* [P] in that order */
  float *packed;   /* [scan.packed.rows, L], or */
  char *prefix;    /* [scan.prefix.rows, row_bytes] if the kernels have a prefilter */
  size_t budget;   /* as given; 0: none */
} norm_index;

static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t k) {
  norm_index *impl = ix->impl;
  return fopo_scan_search(ids, scores, counts, &ix->scored, &impl->scan, Q, k, ix->without);
}

static void free_impl(fopo_index *ix) {
  norm_index *impl = ix->impl;
  if (impl == NULL) return;
  fopo_scan_done(&impl->scan);
  fopo_free(impl->order);
  fopo_free(impl->norms);
  fopo_free(impl->packed);
  fopo_free(impl->prefix);
  fopo_free(impl);
}

static size_t prefix_bytes(const norm_index *impl) {
  const fopo_scan *scan = &impl->scan;
  return scan->prefix.rows > 0 ? scan->prefix.rows * scan->prefix.by->row_bytes(scan->items.cols)
                               : 0;
}

static void about(fopo_index_facts *facts, const fopo_index *ix) {
  const norm_index *impl = ix->impl;
  facts->bytes = sizeof *impl + ix->items.rows * (sizeof *impl->order + sizeof *impl->norms) +
                 impl->scan.packed.rows * ix->items.cols * sizeof(float) + prefix_bytes(impl) +
                 fopo_scan_bytes(&impl->scan);
  facts->reachable = impl->scan.limit;
  facts->budget = impl->budget;
}

static int save(const fopo_index *ix, const char *path) {
  const norm_index *impl = ix->impl;
  uint64_t budget = impl->budget;
  fopo_index_header header;
  fopo_array arrays[FOPO_INDEX_MEMBERS + 2];
  fopo_index_members(arrays, &header, ix);
  arrays[FOPO_INDEX_MEMBERS] = fopo_array_of("budget", FOPO_U64, &budget, 0, 1, 1);
  arrays[FOPO_INDEX_MEMBERS + 1] =
      fopo_array_of("order", FOPO_U32, impl->order, 1, ix->items.rows, 1);
  return fopo_npz_save(path, arrays, FOPO_INDEX_MEMBERS + 2, 0);
}

static void set_limit(norm_index *impl, size_t budget) {
  size_t P = impl->scan.items.rows;
  impl->budget = budget;
  impl->scan.limit = budget > 0 && budget < P ? budget : P;
}

static int set_budget(fopo_index *ix, size_t budget) {
  set_limit(ix->impl, budget);
  return FOPO_OK;
}

static void copy_order(uint32_t *order, float *norms, const fopo_index *ix) {
  const norm_index *impl = ix->impl;
  memcpy(order, impl->order, ix->items.rows * sizeof *order);
  memcpy(norms, impl->norms, ix->items.rows * sizeof *norms);
}

static int rebuild(fopo_index **fresh, const fopo_index *ix) {
  return fopo_index_norm(fresh, ix->items, ((const norm_index *)ix->impl)->budget);
}

const fopo_scan *fopo_index_norm_scan(const fopo_index *ix) {
  const norm_index *impl = ix->impl;
  return &impl->scan;
}

static void prefetch(const float *row, size_t L) {
  for (size_t l = 0; l < L; l += 16) __builtin_prefetch(row + l);
}

/* Copies the first `rows` items of the order in float32. */
static int pack_float32(norm_index *impl, fopo_matrix items, size_t rows) {
  size_t L = items.cols;
  impl->packed = fopo_alloc(rows * L, sizeof *impl->packed);
  if (impl->packed == NULL) return FOPO_ERR_MEMORY;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (rows > MIN_PACKED)
  for (size_t i = 0; i < rows; i++) {
    if (i + AHEAD < rows) prefetch(fopo_matrix_row(items, impl->order[i + AHEAD]), L);
    memcpy(impl->packed + i * L, fopo_matrix_row(items, impl->order[i]), L * sizeof(float));
  }
  impl->scan.packed = fopo_matrix_view(impl->packed, rows, L);
  return FOPO_OK;
}

/* The largest relative rounding of count <= 16 items from place `first` of the order on. */
static double group_rounding(const norm_index *impl, fopo_matrix items, size_t first, size_t count,
                             const fopo_prefilter *prefilter) {
  double most = 0.0;
  for (size_t i = first; i < first + count && impl->norms[i] > 0.0f; i++) {
    const float *beta = fopo_matrix_row(items, impl->order[i]);
    most = fmax(most, prefilter->rounding(beta, items.cols) / (double)impl->norms[i]);
  }
  return most * (1.0 + 0x1p-20); /* norms are rounded up */
}

/* Packs them for the prefilter. How much it rounds them is measured, unless it never is much. */
static int pack_rounded(norm_index *impl, fopo_matrix items, size_t rows,
                        const fopo_prefilter *prefilter) {
  size_t row = prefilter->row_bytes(items.cols);
  size_t groups = fopo_prefilter_rows(rows) / FOPO_PREFILTER_GROUP;
  double rounding = prefilter->most_rounding(items.cols);
  int measured = rounding > FINE;
  impl->prefix = fopo_alloc(groups * FOPO_PREFILTER_GROUP, row);
  if (impl->prefix == NULL) return FOPO_ERR_MEMORY;
  if (measured) rounding = 0.0;
// clang-format off
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (rows > MIN_PACKED) \
    reduction(max : rounding)
  // clang-format on
  for (size_t g = 0; g < groups; g++) {
    size_t first = g * FOPO_PREFILTER_GROUP, left = rows - first;
    size_t count = left < FOPO_PREFILTER_GROUP ? left : FOPO_PREFILTER_GROUP;
    prefilter->pack(impl->prefix + first * row, items.x, items.ld, impl->order + first, count,
                    items.cols);
    if (!measured) continue;
    rounding = fmax(rounding, group_rounding(impl, items, first, count, prefilter));
  }
  impl->scan.prefix.by = prefilter;
  impl->scan.prefix.x = impl->prefix;
  impl->scan.prefix.rows = rows;
  impl->scan.prefix.rounding = rounding;
  return FOPO_OK;
}

static int pack_prefix(norm_index *impl, fopo_matrix items) {
  const fopo_prefilter *prefilter = fopo_kernels_get()->prefilter;
  if (prefilter != NULL && items.cols > prefilter->max_dim) prefilter = NULL;
  size_t row = items.cols * sizeof(float);
  size_t packed_row = prefilter != NULL ? prefilter->row_bytes(items.cols) : row;
  size_t rows = items.rows * row / packed_row / PACKED_DIVISOR;
  if (rows > items.rows / ROWS_DIVISOR) rows = items.rows / ROWS_DIVISOR;
  if (rows > MAX_PACKED) rows = MAX_PACKED;
  if (rows < MIN_PACKED) rows = MIN_PACKED;
  rows = fopo_prefilter_rows(rows);
  if (rows > impl->scan.limit) rows = impl->scan.limit;
  return prefilter != NULL ? pack_rounded(impl, items, rows, prefilter)
                           : pack_float32(impl, items, rows);
}

/* norms [P] belongs to the index from here on, also after a failure. */
static int build(fopo_index *ix, float *norms, size_t budget) {
  size_t P = ix->items.rows;
  norm_index *impl = ix->impl = fopo_alloc(1, sizeof *impl);
  if (impl == NULL) {
    fopo_free(norms);
    return FOPO_ERR_MEMORY;
  }
  impl->norms = norms;
  impl->order = fopo_alloc(P, sizeof *impl->order);
  if (impl->order == NULL) return FOPO_ERR_MEMORY;
  int status = fopo_order_descending(impl->order, impl->norms, P);
  if (status != FOPO_OK) return status;
  impl->scan.items = ix->items;
  impl->scan.order = impl->order;
  impl->scan.norms = impl->norms;
  impl->scan.max_norm = ix->max_norm;
  set_limit(impl, budget);
  return pack_prefix(impl, ix->items);
}

/* The order follows from the items alone: it is built again, at the cost of a sort, and must equal
 * the stored one. */
static int load(fopo_index **ix, fopo_archive *archive, const char *path, fopo_matrix items) {
  uint64_t budget;
  *ix = NULL;
  int status = fopo_index_number(&budget, archive, path, "budget", SIZE_MAX);
  fopo_array *order;
  if (status == FOPO_OK) status = fopo_archive_need(&order, archive, path, "order", FOPO_U32, 1);
  if (status != FOPO_OK) return status;
  if (order->shape[0] != items.rows) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: order has %zu entries for %zu items; build it again",
                     path, order->shape[0], items.rows);
  }
  status = fopo_index_norm(ix, items, (size_t)budget);
  if (status != FOPO_OK) return status;
  const norm_index *impl = (*ix)->impl;
  const uint32_t *stored = order->data;
  for (size_t i = 0; i < items.rows; i++) {
    if (stored[i] == impl->order[i]) continue;
    fopo_index_free(*ix);
    *ix = NULL;
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: entry %zu of order is item %" PRIu32
                     ", which is not the next by norm; build it again",
                     path, i + 1, stored[i]);
  }
  return FOPO_OK;
}

const fopo_index_kind fopo_index_kind_norm = {.name = "norm",
                                              .exhaustive = 1,
                                              .finds_sets = 1,
                                              .leaves_out = 1,
                                              .search = search,
                                              .free = free_impl,
                                              .about = about,
                                              .save = save,
                                              .load = load,
                                              .rebuild = rebuild,
                                              .set_budget = set_budget,
                                              .order = copy_order};

int fopo_index_norm(fopo_index **ix, fopo_matrix items, size_t budget) {
  double start = fopo_clock();
  float *norms;
  int status = fopo_index_begin(ix, &fopo_index_kind_norm, items, &norms);
  if (status != FOPO_OK) return status;
  status = build(*ix, norms, budget);
  if (status == FOPO_OK) (*ix)->build_seconds = fopo_clock() - start;
  return fopo_index_end(ix, status);
}
