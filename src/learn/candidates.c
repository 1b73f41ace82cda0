/* Where the candidates of a batch are searched: by the device itself, or by the index on the host.
 *
 * A device with a search of its own answers exactly over a prefix of an order, which is what the
 * exact and the norm index do. It has the items already; of a norm index it further takes the order
 * and the norms, 8 bytes an item, and makes itself a packed copy of the first quarter of the items,
 * where most searches end: read side by side these cost their bytes and no more. The rest is
 * gathered from the one copy of the items: each row is read once, but written and read again in the
 * cache, and of a short one more than its bytes is read. All of it is taken anew after the index
 * was. */
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "learn/gradient_internal.h"

/* The packed head takes a quarter of the items' bytes, or this many rows. */
enum { HEAD_SHARE = 4, HEAD_LEAST = 4096 };

void fopo_gradient_forget_order(fopo_gradient *g) {
  fopo_gradient_on_device *m = &g->dev;
  void *blocks[] = {m->order, m->norms, m->packed};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
    if (blocks[i] != NULL) g->device->ops->release(g->device, blocks[i]);
  }
  m->order = NULL;
  m->norms = m->packed = NULL;
  g->order_version = 0;
}

/* order, norms [P] on the host to the device, and its head from the items there. */
static int put_order(fopo_gradient *g, const uint32_t *order, const float *norms) {
  fopo_device *d = g->device;
  fopo_gradient_on_device *m = &g->dev;
  size_t P = g->P, rows = P / HEAD_SHARE > HEAD_LEAST ? P / HEAD_SHARE : HEAD_LEAST;
  g->packed_rows = rows < P ? rows : P;
  m->order = fopo_gradient_reserve(g, NULL, P, sizeof *order);
  if (m->order == NULL) return FOPO_ERR_MEMORY;
  m->norms = fopo_gradient_reserve(g, NULL, P, sizeof *norms);
  if (m->norms == NULL) return FOPO_ERR_MEMORY;
  m->packed = fopo_gradient_reserve(g, NULL, g->packed_rows * g->L, sizeof *m->packed);
  if (m->packed == NULL) return FOPO_ERR_MEMORY;
  int status = d->ops->put(d, m->order, order, P * sizeof *order);
  if (status == FOPO_OK) status = d->ops->put(d, m->norms, norms, P * sizeof *norms);
  if (status != FOPO_OK) return status;
  return d->ops->gather_rows(d, fopo_matrix_view(m->packed, g->packed_rows, g->L),
                             fopo_gradient_device_matrix(g), m->order);
}

static int take_order(fopo_gradient *g) {
  uint64_t version = 0;
  uint32_t *order = fopo_alloc(g->P, sizeof *order);
  float *norms = fopo_alloc(g->P, sizeof *norms);
  int status =
      order && norms ? fopo_index_order(order, norms, &version, g->q.index) : FOPO_ERR_MEMORY;
  fopo_gradient_forget_order(g);
  if (status == FOPO_OK) status = put_order(g, order, norms);
  if (status == FOPO_OK)
    g->order_version = version;
  else
    fopo_gradient_forget_order(g);
  fopo_free(order);
  fopo_free(norms);
  return status;
}

int fopo_gradient_choose_search(fopo_gradient *g) {
  g->on_device = g->by_graph = 0;
  if (g->n_with_candidates == 0 || g->device->ops->topk == NULL) return FOPO_OK;
  fopo_index_facts facts = fopo_index_about(g->q.index);
  int norm = facts.by_norm;
  g->by_graph = !facts.exhaustive;
  if (g->by_graph || g->train_items || g->q.k > FOPO_TOPK_MOST ||
      !fopo_index_over(g->q.index, g->items)) {
    return FOPO_OK;
  }
  int status = norm && facts.version != g->order_version ? take_order(g) : FOPO_OK;
  if (status != FOPO_OK) return status;
  g->catalogue = (fopo_catalogue){
      .items = g->dev.items, .P = g->P, .ld = g->items.ld, .limit = norm ? facts.reachable : g->P};
  if (norm) {
    g->catalogue.order = g->dev.order;
    g->catalogue.norms = g->dev.norms;
    g->catalogue.packed = g->dev.packed;
    g->catalogue.packed_rows = g->packed_rows;
    if (g->beta.type == FOPO_BFLOAT16) g->catalogue.half = g->beta;
  }
  g->on_device = 1;
  return FOPO_OK;
}
