/* What items are worth: margins, prices, minutes. */
#ifndef FOPO_CORE_VALUES_H
#define FOPO_CORE_VALUES_H

#include <stddef.h>

/* *copy (to be freed) becomes value [n], if there is one for each of P items, all of them finite
 * and 0 or more. */
int fopo_values_copy(float **copy, const float *value, size_t n, size_t P);

#endif
