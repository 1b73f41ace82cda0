/* What the ranks hold in ranges, on every rank. */
#ifndef FOPO_RANKS_GATHER_H
#define FOPO_RANKS_GATHER_H

#include "data/sessions.h"

/* *all becomes the rows that each rank gives, in the order of the ranks; values NULL. `what` names
 * them if they do not fit. Collective (comm/comm.h), after `status` of the work before. */
int fopo_csr_gather(fopo_csr *all, const fopo_csr *mine, const char *what, int status);

/* *some becomes n of the contexts, evenly spread (fopo_spread_context), on every rank; all of
 * them if there are no more. Collective if the sessions are shared out. */
int fopo_sessions_gather(fopo_sessions *some, const fopo_sessions *s, size_t n);

#endif
