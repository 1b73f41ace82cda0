/* The gradient of items that are learnt, from the coefficients c that the estimators give out: with
 * Q_b = h(x_b) / T,
 *
 *     dR/d beta_a = sum over the draws (b, s) of item a of c_bs Q_b / B.
 *
 * If the c of every context sum to 0, only the items drawn have a gradient: their rows are kept
 * packed, in ascending order of the items. Other estimators move all P, and a batch in several
 * parts may: their rows are [P, L], which is called dense. */
#ifndef FOPO_LEARN_ITEM_ROWS_H
#define FOPO_LEARN_ITEM_ROWS_H

#include "plan/binding.h"

typedef struct {
  fopo_item_gradient sum; /* device rows [capacity, L]; ids NULL and n = P if it is dense */
  float *rows;            /* device [capacity, L]; owned */
  uint32_t *ids;          /* device [capacity] the items drawn; owned */
  size_t capacity;        /* rows */
} fopo_item_rows;

/* Room for a batch of that many draws a part. */
int fopo_item_rows_reserve(fopo_item_rows *r, const fopo_binding *data, int dense, size_t draws);
void fopo_item_rows_done(fopo_item_rows *r, fopo_device *d);

/* Adds the sums over the draws of x, c [B, S] on the device, times scale; `start`: to nothing. */
int fopo_item_rows_add(fopo_item_rows *r, fopo_device *d, const float *c,
                       const fopo_samples *samples, float scale, int start,
                       const fopo_device_batch *x);

#endif
