/* A head that all contexts share: the H items of largest norm in full, and draws of the others. Its
 * rows lie together on the device, so that their scores and their part of the gradient are two
 * dense products: no search, no selection, no gather. */
#ifndef FOPO_PLAN_HEAD_H
#define FOPO_PLAN_HEAD_H

#include "plan/norm_order.h"

enum { FOPO_HEAD_ARRAYS = 2 };

/* To be read; changed by the functions below alone. {0}: nothing is known of any items. */
typedef struct {
  fopo_shared_head items; /* on the device; H items are packed, 0: none */
  uint32_t *order;        /* device [P] of the norm order that it was set by; on a CPU its ids */
  uint32_t *place;        /* device [P]; on a CPU host_place */
  uint32_t *host_place;   /* [P]; owned, as rows */
  float *rows;            /* device [H, fopo_rows_ld(L)], of this part of the catalogue */
  size_t room[FOPO_HEAD_ARRAYS];
  size_t all; /* items of the head of all parts of the catalogue */
  fopo_products products;
} fopo_head;

/* Makes the head the H items of largest norm of the bound data, 1 <= H < P, packed for `products`.
 * Costs nothing if it is that already. The order of norms is kept; if there is none, *norms becomes
 * that of the index (NULL: of the items themselves, unless it is one), and is taken. */
int fopo_head_set(fopo_head *head, const fopo_binding *data, fopo_norm_order *norms,
                  const fopo_index *ix, size_t H, fopo_products products);

/* Forgets the order, after items were moved: the next fopo_head_set takes another. */
void fopo_head_forget(fopo_head *head);

/* Gives back what lies on the device. */
void fopo_head_unbind(fopo_head *head, const fopo_binding *data);

#endif
