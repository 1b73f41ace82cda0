/* Self-normalised IPS, sum w r / sum w over a batch, w = pi(a_i) / p_i (Swaminathan and Joachims,
 * NeurIPS 2015). It is a ratio of sums over contexts: the rule of a context is that of the expected
 * reward, and learn/ratio.h makes the gradient and the value of the ratio from those of all. */
#ifndef FOPO_DEVICE_OBJECTIVES_SNIPS_H
#define FOPO_DEVICE_OBJECTIVES_SNIPS_H

#include "device/objectives/reward.h"

FOPO_ON_BOTH static inline fopo_objective_rule fopo_objective_snips(const fopo_objective_sums *x) {
  return fopo_objective_reward(x);
}

#endif
