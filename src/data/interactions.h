/* All that the users of sessions took: X and Y together, what is learnt from. */
#ifndef FOPO_DATA_INTERACTIONS_H
#define FOPO_DATA_INTERACTIONS_H

#include "data/sessions.h"

/* *m [N, P] becomes X + Y of each session, values NULL; an item that is in both stands once. */
int fopo_interactions(fopo_csr *m, const fopo_sessions *s);

#endif
