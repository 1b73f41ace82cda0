/* The draws of estimators that have a proposal. */
#ifndef FOPO_LEARN_ESTIMATORS_DRAWN_H
#define FOPO_LEARN_ESTIMATORS_DRAWN_H

#include "learn/batch.h"

/* S draws of the proposal for b->piece, whose candidates are found where they are due; nothing but
 * that if the batch is fused. */
int fopo_draw_from_proposal(fopo_batch *b);

#endif
