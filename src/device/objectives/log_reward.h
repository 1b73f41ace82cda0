/* The log of the expected reward, log R with R = sum_a pi_a r_a: the gradient of R divided by R, so
 * that contexts that earn little count as much as those that earn much. Where R <= 0 the gradient
 * is 0, and values below log(1e-6) are given as log(1e-6). */
#ifndef FOPO_DEVICE_OBJECTIVES_LOG_REWARD_H
#define FOPO_DEVICE_OBJECTIVES_LOG_REWARD_H

#include "device/objectives/rule.h"

FOPO_ON_BOTH static inline fopo_objective_rule
fopo_objective_log_reward(const fopo_objective_sums *x) {
  double least = 1e-6; /* one hit in a million recommendations */
  fopo_objective_rule rule = {x->reward <= 0.0 ? 0.0 : 1.0 / x->reward, 0.0,
                              log(x->reward < least ? least : x->reward)};
  return rule;
}

#endif
