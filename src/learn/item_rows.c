#include "learn/item_rows.h"

#include "device/arrays.h"

static int renew(fopo_item_rows *r, const fopo_binding *data, size_t n) {
  int status =
      fopo_memory_suffices((uint64_t)n * data->L * sizeof(float), "the gradient of the items",
                           "use fewer samples or items, or do not learn the items");
  if (status != FOPO_OK) return status;
  r->capacity = 0;
  r->rows = fopo_renew_on_device(data->device, r->rows, n * data->L, sizeof *r->rows);
  r->ids = fopo_renew_on_device(data->device, r->ids, n, sizeof *r->ids);
  if (!r->rows || !r->ids) return FOPO_ERR_MEMORY;
  r->capacity = n;
  return FOPO_OK;
}

int fopo_item_rows_reserve(fopo_item_rows *r, const fopo_binding *data, int dense, size_t draws) {
  size_t n = dense || draws > data->P ? data->P : draws;
  int status = n > r->capacity ? renew(r, data, n) : FOPO_OK;
  r->sum = (fopo_item_gradient){0};
  if (status != FOPO_OK) return status;
  r->sum.rows = r->rows;
  r->sum.ids = dense ? NULL : r->ids;
  r->sum.n = dense ? data->P : 0;
  return FOPO_OK;
}

void fopo_item_rows_done(fopo_item_rows *r, fopo_device *d) {
  void *const blocks[] = {r->rows, r->ids};
  fopo_release_all(d, blocks, sizeof blocks / sizeof *blocks);
  *r = (fopo_item_rows){0};
}

int fopo_item_rows_add(fopo_item_rows *r, fopo_device *d, const float *c,
                       const fopo_samples *samples, float scale, int start,
                       const fopo_device_batch *x) {
  int clear = start && r->sum.ids == NULL;
  int status = clear ? d->ops->clear(d, r->sum.rows, x->P * x->L) : FOPO_OK;
  return status == FOPO_OK ? d->ops->items_gradient(d, &r->sum, c, samples, scale, x) : status;
}
