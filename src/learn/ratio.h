/* The objective snips, the one that is no mean over contexts: of a batch it is
 *
 *     rho = sum w_i r_i / sum w_i,    grad rho = sum (r_i - rho) grad w_i / sum w_i,
 *
 * w_i = pi(a_i | x_i) / max(tau, p_i). A context's estimate is of R_i = w_i (r_i - shift), with a
 * shift that leaves no event 0, so R_i gives w_i, and V_i is that of w_i times r_i - shift. Once
 * the V of a batch are there, each is multiplied by the rest (the operation take_ratio). In one
 * process. */
#ifndef FOPO_LEARN_RATIO_H
#define FOPO_LEARN_RATIO_H

#include "learn/reward.h"
#include "plan/binding.h"

/* The shift of a log's rewards, one below the least. */
float fopo_ratio_shift(const fopo_reward *r);

/* FOPO_OK, or why a gradient over this data cannot be of the ratio. */
int fopo_ratio_check(const fopo_binding *data, const fopo_reward *r);

#endif
