/* Blocks of parameters: what a policy may learn, each with a gradient, a learning rate and an
 * optimiser's state of its own.
 *
 * theta is what makes queries of contexts: a dense gradient. Policy kinds name its parts (W1, b1,
 * ..), and each part is learnt or fixed, and may have a learning rate of its own.
 *
 * items is beta: only the rows that were drawn have a gradient, unless an estimator moves all.
 *
 * weights is what is added to the weights between items of a policy that scores lists, one number a
 * row: only those of the items of X have a gradient. */
#ifndef FOPO_POLICY_BLOCKS_H
#define FOPO_POLICY_BLOCKS_H

#include <stddef.h>

typedef enum { FOPO_BLOCK_THETA, FOPO_BLOCK_ITEMS, FOPO_BLOCK_WEIGHTS, FOPO_BLOCKS } fopo_block;

enum { FOPO_PARAMETER_NAME = 16 }; /* bytes of the name of a part of theta, with its end */

extern const char *const fopo_block_names[FOPO_BLOCKS + 1]; /* "theta", "items", "weights"; ended
                                                             * by NULL */

/* rows 0: the block is not learnt. */
typedef struct {
  size_t rows, cols;
  int by_rows; /* 1: a step moves the rows that have a gradient, and no others */
} fopo_block_shape;

#endif
