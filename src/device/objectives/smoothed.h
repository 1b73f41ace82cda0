/* The smoothed reward, log(1 + R) with R = sum_a pi_a r_a: of rewards lambda r_i / p_i of a log it
 * is lambda times the logarithmic smoothing of Sakhi, Aouali, Alquier and Chopin (NeurIPS 2024), so
 * that an event counts for less the more it already weighs. Where 1 + R < 1e-6, which rewards of 0
 * and more never reach, the gradient is 0. */
#ifndef FOPO_DEVICE_OBJECTIVES_SMOOTHED_H
#define FOPO_DEVICE_OBJECTIVES_SMOOTHED_H

#include "device/objectives/rule.h"

FOPO_ON_BOTH static inline fopo_objective_rule
fopo_objective_smoothed(const fopo_objective_sums *x) {
  double least = 1e-6, argument = 1.0 + x->reward;
  fopo_objective_rule rule = {argument < least ? 0.0 : 1.0 / argument, 0.0,
                              argument < least ? log(least) : log1p(x->reward)};
  return rule;
}

#endif
