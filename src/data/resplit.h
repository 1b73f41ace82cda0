/* X and Y of sessions, divided anew: in each epoch a session's items are dealt out again, so that a
 * policy learns to find each of them from the others, and not the one Y that was drawn first. */
#ifndef FOPO_DATA_RESPLIT_H
#define FOPO_DATA_RESPLIT_H

#include "data/sessions.h"

/* X->ids and Y->ids become the items of s->X and s->Y together, of each session as many in X as
 * s->X has, every choice of them equally likely; ids ascend. X and Y share no id in s, and have the
 * indptr of s. A function of (seed, epoch, context). */
void fopo_resplit_draw(fopo_csr *X, fopo_csr *Y, const fopo_sessions *s, uint64_t seed,
                       uint32_t epoch);

#endif
