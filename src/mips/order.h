/* The norm order: items by descending norm, those of equal norm by ascending id. */
#ifndef FOPO_MIPS_ORDER_H
#define FOPO_MIPS_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* Sorts norms [n] (>= 0, not NaN) into that order; order [n] = the id of each. Allocates 12 n bytes
 * of scratch. */
int fopo_order_descending(uint32_t *order, float *norms, size_t n);

#endif
