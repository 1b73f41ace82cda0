/* The expected reward R = sum_a pi_a r_a (the paper, Algorithm 1): its gradient is the covariance
 * of the rewards and the items' vectors. */
#ifndef FOPO_DEVICE_OBJECTIVES_REWARD_H
#define FOPO_DEVICE_OBJECTIVES_REWARD_H

#include "device/objectives/rule.h"

FOPO_ON_BOTH static inline fopo_objective_rule fopo_objective_reward(const fopo_objective_sums *x) {
  fopo_objective_rule rule = {1.0, 0.0, x->reward};
  return rule;
}

#endif
