/* Sorting of ids. */
#ifndef FOPO_CORE_SORT_H
#define FOPO_CORE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Sorts n ids < P, ascending, by radix. other [n] is scratch. */
void fopo_sort_ids(uint32_t *ids, uint32_t *other, size_t n, size_t P);

#endif
