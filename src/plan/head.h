/* A head that all contexts share: the H items of largest norm in full, and draws of the others. Its
 * rows lie together on the device, so that their scores and their part of the gradient are two
 * dense products: no search, no selection, no gather. */
#ifndef FOPO_PLAN_HEAD_H
#define FOPO_PLAN_HEAD_H

#include "plan/binding.h"

/* To be read; changed by the functions below alone. {0}: nothing is known of any items. */
typedef struct {
  fopo_shared_head items; /* on the device; H items are packed, 0: none */
  uint32_t *order;        /* device [P]; owned, as the next two */
  uint32_t *place;        /* device [P] */
  float *rows;            /* device, room for `capacity` rows */
  size_t capacity;
  size_t all; /* items of the head of all parts of the catalogue */
  fopo_products products;
} fopo_head;

/* Makes the head the H items of largest norm of the bound data, 1 <= H < P, packed for `products`.
 * Costs nothing if it is that already. order [P] on the host: all items by falling norm
 * (plan/norm_order.h); not read if the head has one. */
int fopo_head_set(fopo_head *head, const fopo_binding *data, const uint32_t *order, size_t H,
                  fopo_products products);

/* Forgets the order, after items were moved: the next fopo_head_set takes another. */
void fopo_head_forget(fopo_head *head);

/* Gives back what lies on the device. */
void fopo_head_unbind(fopo_head *head, fopo_device *d);

#endif
