#include "plan/head.h"

#include "core/memory.h"
#include "core/status.h"
#include "device/arrays.h"
#include "kernels/rows.h"
#include "mips/index.h"

void fopo_head_unbind(fopo_head *head, fopo_device *d) {
  void *const blocks[] = {head->order, head->place, head->rows};
  fopo_release_all(d, blocks, sizeof blocks / sizeof *blocks);
  *head = (fopo_head){0};
}

void fopo_head_forget(fopo_head *head) { head->items = (fopo_shared_head){0}; }

/* order and place [P] to the device. */
static int put_order(fopo_head *head, const fopo_binding *data, const uint32_t *order) {
  fopo_device *d = data->device;
  size_t P = data->items.rows;
  uint32_t *place = fopo_alloc(P, sizeof *place);
  if (place == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < P; i++) place[order[i]] = (uint32_t)i;
  if (head->order == NULL) head->order = fopo_renew_on_device(d, NULL, P, sizeof *order);
  if (head->place == NULL) head->place = fopo_renew_on_device(d, NULL, P, sizeof *place);
  int status = head->order && head->place ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = d->ops->put(d, head->order, order, P * sizeof *order);
  if (status == FOPO_OK) status = d->ops->put(d, head->place, place, P * sizeof *place);
  fopo_free(place);
  if (status == FOPO_OK) head->items.order = head->order, head->items.place = head->place;
  return status;
}

/* Packs the H items of largest norm, of which a part of the catalogue has its share. */
static int pack(fopo_head *head, const fopo_binding *data, size_t H) {
  fopo_device *d = data->device;
  size_t ld = fopo_rows_ld(data->L);
  head->all = H;
  if (data->parts->part != NULL) H = fopo_part_places(data->parts->part, H);
  if (H > head->capacity) {
    head->capacity = 0;
    head->rows = fopo_renew_on_device(d, head->rows, H * ld, sizeof *head->rows);
    if (head->rows == NULL) return FOPO_ERR_MEMORY;
    head->capacity = H;
  }
  head->items.H = H;
  head->items.rows.x = head->rows;
  return d->ops->pack_head(d, &head->items, &data->beta, data->L, head->products);
}

int fopo_head_set(fopo_head *head, const fopo_binding *data, const uint32_t *order, size_t H,
                  fopo_products products) {
  int status = head->items.order == NULL ? put_order(head, data, order) : FOPO_OK;
  if (status != FOPO_OK) return status;
  if (head->items.H > 0 && head->all == H && head->products == products) return FOPO_OK;
  head->items.H = 0;
  head->products = products;
  status = pack(head, data, H);
  if (status != FOPO_OK) head->items.H = 0;
  return status;
}
