/* The gradient of the weights of a policy that scores lists (FOPO_BLOCK_WEIGHTS), of a batch: the
 * rows of the items of X of its contexts, packed in ascending order. On the host. */
#ifndef FOPO_LEARN_WEIGHT_ROWS_H
#define FOPO_LEARN_WEIGHT_ROWS_H

#include "plan/binding.h"

typedef struct {
  fopo_item_gradient sum; /* rows [n, 1], ids the numbers of weights; rows NULL: they are fixed */
  uint32_t *first;        /* [P] where in it the row of an item begins; owned */
  uint32_t *items;        /* [P] those of the batch, ascending; owned */
  size_t n_items, capacity;
} fopo_weight_rows;

/* Zeros for the contexts rows [B]. What is allocated stays for the next batches. */
int fopo_weight_rows_begin(fopo_weight_rows *r, const fopo_binding *data, const uint32_t *rows,
                           size_t B);
void fopo_weight_rows_done(fopo_weight_rows *r); /* accepts {0} */

#endif
