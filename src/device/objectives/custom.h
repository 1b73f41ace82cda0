/* An objective of the user's, a function of the expected reward R of each context. The rule here is
 * that of R; the caller's function (fopo_own_objective) then gives the value, and the slope by
 * which V is multiplied. */
#ifndef FOPO_DEVICE_OBJECTIVES_CUSTOM_H
#define FOPO_DEVICE_OBJECTIVES_CUSTOM_H

#include "device/objectives/reward.h"

FOPO_ON_BOTH static inline fopo_objective_rule fopo_objective_custom(const fopo_objective_sums *x) {
  return fopo_objective_reward(x);
}

#endif
