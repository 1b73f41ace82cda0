/* Twins: rows of the same entries, as items that the same users took. What a linear model says of
 * one of them it says of all, so that on sparse catalogues, where most items have one user or two,
 * few are to be computed. */
#ifndef FOPO_CORE_TWINS_H
#define FOPO_CORE_TWINS_H

#include "core/csr.h"

typedef struct {
  uint32_t *first; /* [P] the smallest twin of each item, which may be itself */
  uint32_t *next;  /* [P] the next larger one; 0: none */
} fopo_twins;

/* users [P, N]: those of each item, ascending. */
int fopo_twins_find(fopo_twins *t, const fopo_csr *users);
void fopo_twins_done(fopo_twins *t);

#endif
