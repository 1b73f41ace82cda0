#include "plan/norm_order.h"

#include "core/memory.h"
#include "core/norm.h"
#include "core/status.h"
#include "core/threads.h"
#include "device/arrays.h"
#include "mips/order.h"

/* The packed copy takes a quarter of the items' bytes, or this many rows. */
enum { PACKED_SHARE = 4, PACKED_LEAST = 4096 };

/* ---- on the host ---- */

static int reserve(fopo_norm_order *o, size_t P) {
  if (o->ids == NULL) o->ids = fopo_alloc(P, sizeof *o->ids);
  if (o->norms == NULL) o->norms = fopo_alloc(P, sizeof *o->norms);
  return o->ids && o->norms ? FOPO_OK : FOPO_ERR_MEMORY;
}

int fopo_norm_order_take(fopo_norm_order *o, const fopo_index *ix, size_t P) {
  int status = reserve(o, P);
  if (status != FOPO_OK || o->version == fopo_index_about(ix).version) return status;
  o->made = 0;
  return fopo_index_order(o->ids, o->norms, &o->version, ix);
}

int fopo_norm_order_make(fopo_norm_order *o, fopo_matrix items) {
  int status = reserve(o, items.rows);
  if (status == FOPO_OK) status = fopo_matrix_finite(items, "items");
  if (status != FOPO_OK) return status;
  o->version = 0;
  o->made = 0;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (items.rows > 4096)
  for (size_t a = 0; a < items.rows; a++) {
    o->norms[a] = fopo_norm_up(fopo_norm(fopo_matrix_row(items, a), items.cols));
  }
  status = fopo_order_descending(o->ids, o->norms, items.rows);
  o->made = status == FOPO_OK;
  return status;
}

/* ---- on the device ---- */

static void drop(fopo_norm_order *o, fopo_device *d) {
  void *const blocks[] = {o->device_ids, o->device_norms, o->packed, (void *)o->half.x};
  fopo_release_all(d, blocks, sizeof blocks / sizeof *blocks);
  *o = (fopo_norm_order){.version = o->version, .ids = o->ids, .norms = o->norms};
}

/* Order, norms, and a copy of the items in that order, from the items on the device: in bfloat16,
 * or packed. */
static int upload(fopo_norm_order *o, const fopo_binding *data) {
  fopo_device *d = data->device;
  size_t P = data->P, rows = P / PACKED_SHARE > PACKED_LEAST ? P / PACKED_SHARE : PACKED_LEAST;
  drop(o, d);
  o->device_ids = fopo_renew_on_device(d, NULL, P, sizeof *o->ids);
  o->device_norms = fopo_renew_on_device(d, NULL, P, sizeof *o->norms);
  int status = o->device_ids && o->device_norms ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = d->ops->put(d, o->device_ids, o->ids, P * sizeof *o->ids);
  if (status == FOPO_OK) status = d->ops->put(d, o->device_norms, o->norms, P * sizeof *o->norms);
  if (status == FOPO_OK) {
    status = d->ops->round_items(d, &o->half, data->device_items, o->device_ids);
  }
  if (status != FOPO_OK || o->half.x != NULL) return status;
  o->packed_rows = rows < P ? rows : P;
  o->packed = fopo_renew_on_device(d, NULL, o->packed_rows * data->L, sizeof *o->packed);
  if (o->packed == NULL) return FOPO_ERR_MEMORY;
  fopo_matrix packed = {o->packed, o->packed_rows, data->L, data->L};
  return d->ops->gather_rows(d, packed, data->device_items, o->device_ids);
}

int fopo_norm_order_share(fopo_catalogue *c, fopo_norm_order *o, const fopo_binding *data,
                          const fopo_index *ix) {
  int status = fopo_norm_order_take(o, ix, data->P);
  if (status == FOPO_OK && o->on_device != o->version) {
    status = upload(o, data);
    if (status == FOPO_OK) o->on_device = o->version;
  }
  if (status != FOPO_OK) return status;
  c->order = o->device_ids;
  c->norms = o->device_norms;
  c->packed = o->packed;
  c->packed_rows = o->packed_rows;
  c->half = o->half;
  return FOPO_OK;
}

void fopo_norm_order_done(fopo_norm_order *o, fopo_device *d) {
  drop(o, d);
  fopo_free(o->ids);
  fopo_free(o->norms);
  *o = (fopo_norm_order){0};
}
