/* The norm order: items by descending norm, those of equal norm by ascending id. */
#ifndef FOPO_MIPS_ORDER_H
#define FOPO_MIPS_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* norms [n], none negative and none NaN, come to lie in that order, and order [n] says whose they
 * are. Takes 16 n bytes meanwhile. */
int fopo_order_descending(uint32_t *order, float *norms, size_t n);

#endif
