#include "learn/weight_rows.h"

#include <string.h>

#include "core/memory.h"
#include "core/sort.h"
#include "core/status.h"
#include "policy/neighbours.h"

static const uint32_t none = UINT32_MAX; /* the item is not in the batch */

static int reserve_items(fopo_weight_rows *r, size_t P) {
  if (r->first != NULL) return FOPO_OK;
  r->first = fopo_alloc(P, sizeof *r->first);
  r->items = fopo_alloc(P, sizeof *r->items);
  if (r->first == NULL || r->items == NULL) return FOPO_ERR_MEMORY;
  for (size_t b = 0; b < P; b++) r->first[b] = none;
  return FOPO_OK;
}

static int reserve(fopo_weight_rows *r, size_t n) {
  fopo_item_gradient *G = &r->sum;
  if (n <= r->capacity) return FOPO_OK;
  size_t room = n + n / 4; /* batches differ a little */
  int status = fopo_memory_suffices((uint64_t)room * 8, "the gradient of the weights",
                                    "use a smaller batch");
  if (status != FOPO_OK) return status;
  fopo_free(G->rows);
  fopo_free(G->ids);
  r->capacity = 0;
  G->rows = fopo_alloc(room, sizeof *G->rows);
  G->ids = fopo_alloc(room, sizeof *G->ids);
  if (G->rows == NULL || G->ids == NULL) return FOPO_ERR_MEMORY;
  r->capacity = room;
  return FOPO_OK;
}

int fopo_weight_rows_begin(fopo_weight_rows *r, const fopo_binding *data, const uint32_t *rows,
                           size_t B) {
  const fopo_csr *W = &data->policy->neighbours->weights;
  size_t n = 0;
  int status = reserve_items(r, data->P);
  if (status != FOPO_OK) return status;
  for (size_t i = 0; i < r->n_items; i++) r->first[r->items[i]] = none;
  r->n_items = 0;
  for (size_t i = 0; i < B; i++) {
    const uint32_t *X = fopo_csr_row(&data->X, rows[i]);
    for (size_t k = 0; k < fopo_csr_count(&data->X, rows[i]); k++) {
      if (r->first[X[k]] != none) continue;
      r->first[X[k]] = 0;
      r->items[r->n_items++] = X[k];
      n += fopo_csr_count(W, X[k]);
    }
  }
  fopo_sort_u32(r->items, r->n_items);
  status = reserve(r, n > 0 ? n : 1);
  if (status != FOPO_OK) return status;
  r->sum.n = n;
  n = 0;
  for (size_t i = 0; i < r->n_items; i++) {
    uint32_t b = r->items[i];
    r->first[b] = (uint32_t)n;
    for (uint64_t k = W->indptr[b]; k < W->indptr[b + 1]; k++) r->sum.ids[n++] = (uint32_t)k;
  }
  memset(r->sum.rows, 0, n * sizeof *r->sum.rows);
  return FOPO_OK;
}

void fopo_weight_rows_done(fopo_weight_rows *r) {
  fopo_free(r->sum.rows);
  fopo_free(r->sum.ids);
  fopo_free(r->first);
  fopo_free(r->items);
  *r = (fopo_weight_rows){0};
}
