#include "plan/head.h"

#include "device/arrays.h"
#include "kernels/rows.h"

/* The arrays of a head that has H items here. */
static void list(fopo_buffer to[FOPO_HEAD_ARRAYS], fopo_head *head, const fopo_binding *data,
                 size_t H) {
  size_t P = data->items.rows;
  const fopo_buffer all[FOPO_HEAD_ARRAYS] = {FOPO_HOST_BUFFER(head->host_place, P),
                                             FOPO_BUFFER(head->rows, H * fopo_rows_ld(data->L))};
  memcpy(to, all, sizeof all);
}

void fopo_head_unbind(fopo_head *head, const fopo_binding *data) {
  fopo_buffer all[FOPO_HEAD_ARRAYS];
  void *const shared[] = {head->order, head->place};
  list(all, head, data, 0);
  fopo_release_all(data->device, shared, 2);
  fopo_give_back(data->device, all, head->room, FOPO_HEAD_ARRAYS);
  *head = (fopo_head){0};
}

void fopo_head_forget(fopo_head *head) { head->items = (fopo_shared_head){0}; }

/* Sends what the host has; the first time *copy becomes the device's. */
static int send(fopo_device *d, uint32_t **copy, const uint32_t *host, size_t n) {
  void *block = *copy;
  int status = block != NULL ? d->ops->put(d, block, host, n * sizeof *host)
                             : d->ops->share(d, &block, host, n * sizeof *host);
  *copy = block;
  return status;
}

/* Packs the first `own` items of the order, which this part of the catalogue has of the head. Order
 * and place [P] go to the device, unless they are there. */
static int pack(fopo_head *head, const fopo_binding *data, const uint32_t *order, size_t own) {
  fopo_device *d = data->device;
  size_t P = data->items.rows;
  fopo_buffer all[FOPO_HEAD_ARRAYS];
  list(all, head, data, own);
  int status = fopo_reserve(d, all, head->room, FOPO_HEAD_ARRAYS);
  if (status == FOPO_OK && head->items.order == NULL) {
    for (size_t i = 0; i < P; i++) head->host_place[order[i]] = (uint32_t)i;
    status = send(d, &head->order, order, P);
    if (status == FOPO_OK) status = send(d, &head->place, head->host_place, P);
  }
  if (status != FOPO_OK) return status;
  head->items = (fopo_shared_head){own, head->order, head->place, head->items.rows};
  head->items.rows.x = head->rows;
  return d->ops->pack_head(d, &head->items, &data->beta, data->L, head->products);
}

int fopo_head_set(fopo_head *head, const fopo_binding *data, fopo_norm_order *norms,
                  const fopo_index *ix, size_t H, fopo_products products) {
  const fopo_part *part = data->parts->part;
  int status = FOPO_OK;
  if (head->items.H > 0 && head->all == H && head->products == products) return FOPO_OK;
  if (head->items.order == NULL) {
    status = ix != NULL    ? fopo_norm_order_take(norms, ix, data->items.rows)
             : norms->made ? FOPO_OK
                           : fopo_norm_order_make(norms, data->items);
  }
  head->items.H = 0;
  head->all = H;
  head->products = products;
  if (status == FOPO_OK) {
    status = pack(head, data, norms->ids, part != NULL ? fopo_part_places(part, H) : H);
  }
  if (status != FOPO_OK) head->items.H = 0;
  return status;
}
