/* The items by descending norm: the order of a norm index, or of the items themselves. Probes go
 * through it, and a shared head is its beginning.
 *
 * A device that searches takes it over: the order and the norms, 8 bytes an item, and a copy of the
 * items in that order: of all in bfloat16, 2 bytes a number, if the device has a first pass over
 * them; else of the first quarter in float32, 1 byte a number. The others are then gathered from
 * their one copy, each row once. */
#ifndef FOPO_PLAN_NORM_ORDER_H
#define FOPO_PLAN_NORM_ORDER_H

#include "mips/index.h"
#include "plan/binding.h"

enum { FOPO_NORM_ARRAYS = 5 };

/* To be read; changed by the functions below alone. {0}: not known. */
typedef struct {
  uint64_t version; /* of the index that it was taken from; 0: none */
  int made;         /* 1: it was made of the items themselves */
  uint32_t *ids;    /* [P]; owned, as norms */
  float *norms;     /* [P] in that order, rounded up */

  /* On the device; zeros: not there. Owned. */
  uint64_t on_device;           /* the version of the index */
  uint32_t *device_ids;         /* [P] */
  float *device_norms, *packed; /* [P], [packed_rows, L] */
  size_t packed_rows;
  fopo_rows half; /* [P, ld] */
  size_t room[FOPO_NORM_ARRAYS];
} fopo_norm_order;

/* The order of an index over P items that has one; costs nothing if it is that already. P is the
 * same until done. */
int fopo_norm_order_take(fopo_norm_order *o, const fopo_index *ix, size_t P);

/* The order of the items [P, L]. */
int fopo_norm_order_make(fopo_norm_order *o, fopo_matrix items);

/* What the device needs to search in the order of the index, over the bound items: *c gets it.
 * Taken anew after the index has changed. */
int fopo_norm_order_share(fopo_catalogue *c, fopo_norm_order *o, const fopo_binding *data,
                          const fopo_index *ix);

void fopo_norm_order_done(fopo_norm_order *o, fopo_device *d); /* accepts {0}, and leaves it */

#endif
