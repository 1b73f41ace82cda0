/* Sorting of ids and of keys. */
#ifndef FOPO_CORE_SORT_H
#define FOPO_CORE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Sorts n ids < P, ascending, by radix. other [n] is scratch. */
void fopo_sort_ids(uint32_t *ids, uint32_t *other, size_t n, size_t P);

/* Sorts n keys, no two of them equal, descending: the definition of the kernel `sort`
 * (kernels/kernels.h). */
void fopo_sort_keys(uint64_t *keys, size_t n);

#endif
