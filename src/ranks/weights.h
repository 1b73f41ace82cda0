/* The weights of items in contexts: a function of how many training users took each. */
#ifndef FOPO_RANKS_WEIGHTS_H
#define FOPO_RANKS_WEIGHTS_H

#include "contexts/contexts.h"
#include "data/sessions.h"

/* w [P] for an encoder that has `weight`: encoder->weight(max(n_a, 1), N), where n_a of the N
 * sessions have item a in X or in Y. Collective (comm/comm.h) if the sessions are shared out; every
 * rank gets the weights of all items. */
int fopo_item_weights(float *w, const fopo_encoder *encoder, const fopo_sessions *sessions);

#endif
