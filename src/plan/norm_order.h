/* The items by descending norm, on the host: the order of a norm index, or of the items themselves.
 * Probes go through it, a shared head is its beginning, and a device that searches takes it over.
 */
#ifndef FOPO_PLAN_NORM_ORDER_H
#define FOPO_PLAN_NORM_ORDER_H

#include "mips/index.h"

/* To be read; changed by the functions below alone. {0}: not known. */
typedef struct {
  uint64_t version; /* of the index that it was taken from; 0: none */
  uint32_t *ids;    /* [P]; owned, as norms */
  float *norms;     /* [P] in that order, rounded up */
} fopo_norm_order;

/* The order of an index over P items that has one; costs nothing if it is that already. */
int fopo_norm_order_take(fopo_norm_order *o, const fopo_index *ix, size_t P);

/* The order of the items [P, L]. */
int fopo_norm_order_make(fopo_norm_order *o, fopo_matrix items);

void fopo_norm_order_done(fopo_norm_order *o); /* accepts {0}, and leaves it */

#endif
