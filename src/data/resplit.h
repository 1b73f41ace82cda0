/* X and Y of sessions, divided anew: in each epoch a session's items are dealt out again, so that a
 * policy learns to find each of them from the others, and not the one Y that was drawn first. Of
 * sessions that have an order X is a prefix, another one in each epoch, and Y what came after it.
 */
#ifndef FOPO_DATA_RESPLIT_H
#define FOPO_DATA_RESPLIT_H

#include "data/sessions.h"

static inline int fopo_resplit_can(const fopo_sessions *s) {
  return s->at_random || s->order != NULL;
}

/* X and Y, whose ids have room for all items of their sessions if these have an order, become the
 * items of s->X and s->Y together, ids ascending. At random: of each session as many in X as s->X
 * has, every choice of them equally likely; indptr is that of s. In order: the first c of n, c from
 * as many as s->X has to n - 1, each equally likely; indptr says so. X and Y share no id in s. A
 * function of (seed, epoch, context). */
void fopo_resplit_draw(fopo_csr *X, fopo_csr *Y, const fopo_sessions *s, uint64_t seed,
                       uint32_t epoch);

#endif
