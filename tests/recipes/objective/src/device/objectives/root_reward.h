/* The square root of the expected reward: between R and log R. Its gradient is that of R over
 * 2 sqrt R; where R <= 0 it is 0. */
#ifndef FOPO_DEVICE_OBJECTIVES_ROOT_REWARD_H
#define FOPO_DEVICE_OBJECTIVES_ROOT_REWARD_H

#include "device/objectives/rule.h"

FOPO_ON_BOTH static inline fopo_objective_rule
fopo_objective_root_reward(const fopo_objective_sums *x) {
  fopo_objective_rule rule = {0.0, 0.0, 0.0};
  if (x->reward <= 0.0) return rule;
  rule.value = sqrt(x->reward);
  rule.gamma = 0.5 / rule.value;
  return rule;
}

#endif
