/* The log-likelihood of the target items T of a context, its mean over them, which is weighted by
 * their values where a reward gives values:
 *
 *     mean over T of log pi_a = mean over T of f_a - log Z,
 *
 * with the gradient mean over T of beta_a - E_pi beta. The rule gives the second terms; the
 * operation add_targets gives the first ones, and turns the value, log sum w, into the whole. */
#ifndef FOPO_DEVICE_OBJECTIVES_LIKELIHOOD_H
#define FOPO_DEVICE_OBJECTIVES_LIKELIHOOD_H

#include "device/objectives/rule.h"

FOPO_ON_BOTH static inline fopo_objective_rule
fopo_objective_likelihood(const fopo_objective_sums *x) {
  fopo_objective_rule rule = {0.0, -1.0, fopo_objective_log_z(x)};
  return rule;
}

#endif
