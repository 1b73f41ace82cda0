/* What an objective's rule takes and gives. The rules are one header each in this folder. */
#ifndef FOPO_DEVICE_OBJECTIVES_RULE_H
#define FOPO_DEVICE_OBJECTIVES_RULE_H

#include <math.h>

#include "device/statistics.h"

/* The sums of a context over its draws, w_s = exp(f_s - log q_s). */
typedef struct {
  double reward; /* rbar = sum w r / sum w */
  double shift;  /* the largest f - log q */
  double w;      /* sum w, relative to exp(shift); > 0 */
} fopo_objective_sums;

/* c_s = wbar_s (gamma (r_s - rbar) + alpha) and V = sum c_s beta; value is the statistic REWARD. */
typedef struct {
  double gamma, alpha, value;
} fopo_objective_rule;

/* log sum w: of draws from a density the log of Z and of their number, of a head and its tail the
 * log of Z. */
FOPO_ON_BOTH static inline double fopo_objective_log_z(const fopo_objective_sums *x) {
  return x->shift + log(x->w);
}

/* A number of V from those of the two sums that it needs; `excess` = sum w (r - least) beta,
 * dbar = rbar - least. With gamma 1 and alpha 0 the bits are those of the covariance alone. */
FOPO_ON_BOTH static inline double fopo_objective_direction(const fopo_objective_rule *rule,
                                                           double excess, double dbar,
                                                           double w_beta, double w) {
  double v = rule->gamma * ((excess - dbar * w_beta) / w);
  return rule->alpha == 0.0 ? v : v + rule->alpha * (w_beta / w);
}

/* gamma (r - rbar) + alpha: the coefficient of a draw by its weight wbar; r_less = r - rbar. */
FOPO_ON_BOTH static inline float fopo_objective_excess(const fopo_objective_rule *rule,
                                                       float r_less) {
  float excess = (float)rule->gamma * r_less;
  return rule->alpha == 0.0 ? excess : excess + (float)rule->alpha;
}

#endif
