/* The expected reward in double, by streaming over the whole catalogue: the oracle of the float
 * code. It shares nothing with the devices and their kernels but the data, and what an objective
 * calls its value. The same bits for any number of threads. */
#ifndef FOPO_JUDGE_REFERENCE_H
#define FOPO_JUDGE_REFERENCE_H

#include "policy/policy.h"

/* The most parameter vectors of one pass, and the most directions of slopes. */
enum { FOPO_REFERENCE_MOST = 33, FOPO_REFERENCE_DIRECTIONS = (FOPO_REFERENCE_MOST - 1) / 2 };

/* One context. */
typedef struct {
  const float *x;                   /* [D] */
  const float *r;                   /* [P] the rewards of all items */
  size_t row;                       /* of the training contexts, as fopo_list_context has it */
  const fopo_sparse_scores *sparse; /* context 0 of them; NULL: none */
  fopo_objective_kind objective;    /* what slopes are of; one without target items */
} fopo_reference_context;

/* value [M] = E_pi r = sum_a pi_a r_a and log_z [M] = log sum_a exp f_a, for each of the parameter
 * vectors theta [M, n], n being pi's number of parameters; pi's own theta is not used. If all
 * items are masked, value is 0 and log_z -INFINITY. One pass over the items for all vectors; M <=
 * FOPO_REFERENCE_MOST. */
int fopo_reference_reward(double *value, double *log_z, const fopo_policy *pi, const double *theta,
                          size_t M, const fopo_reference_context *context);

/* Central differences along the directions U [count, n]:
 *   slope = (value(theta + h u) - value(theta - h u)) / 2h,   at pi's own theta,
 * and value, that of the objective, and log_z there. count <= FOPO_REFERENCE_DIRECTIONS, h > 0. */
int fopo_reference_slopes(double *slope, double *value, double *log_z, const fopo_policy *pi,
                          const fopo_reference_context *context, fopo_matrix U, double h);

#endif
