#include "plan/norm_order.h"

#include "core/memory.h"
#include "core/norm.h"
#include "core/status.h"
#include "core/threads.h"
#include "mips/order.h"

static int renew(fopo_norm_order *o, size_t P) {
  fopo_norm_order_done(o);
  o->ids = fopo_alloc(P, sizeof *o->ids);
  o->norms = fopo_alloc(P, sizeof *o->norms);
  return o->ids && o->norms ? FOPO_OK : FOPO_ERR_MEMORY;
}

int fopo_norm_order_take(fopo_norm_order *o, const fopo_index *ix, size_t P) {
  if (o->version == fopo_index_about(ix).version) return FOPO_OK;
  int status = renew(o, P);
  return status == FOPO_OK ? fopo_index_order(o->ids, o->norms, &o->version, ix) : status;
}

int fopo_norm_order_make(fopo_norm_order *o, fopo_matrix items) {
  int status = fopo_matrix_finite(items, "items");
  if (status == FOPO_OK) status = renew(o, items.rows);
  if (status != FOPO_OK) return status;
#pragma omp parallel for num_threads(fopo_threads()) schedule(static) if (items.rows > 4096)
  for (size_t a = 0; a < items.rows; a++) {
    o->norms[a] = fopo_norm_up(fopo_norm(fopo_matrix_row(items, a), items.cols));
  }
  return fopo_order_descending(o->ids, o->norms, items.rows);
}

void fopo_norm_order_done(fopo_norm_order *o) {
  fopo_free(o->ids);
  fopo_free(o->norms);
  *o = (fopo_norm_order){0};
}
