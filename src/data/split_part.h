/* The sessions of one part of a split, of interactions whose sides are known (data/sides.h). */
#ifndef FOPO_DATA_SPLIT_PART_H
#define FOPO_DATA_SPLIT_PART_H

#include "data/sessions.h"

/* The sides that make X and Y of a part. */
typedef struct {
  uint8_t x, y;
  int keep; /* 1: an item may be in both */
} fopo_rule;

/* The sessions of the users [n], rows of m, in this order; a user with nothing in X or in Y has
 * none. Without any, *s stays {0}. sides [nnz]. */
int fopo_split_part(fopo_sessions *s, const fopo_csr *m, const uint8_t *sides, fopo_rule r,
                    const uint32_t *users, size_t n);

#endif
