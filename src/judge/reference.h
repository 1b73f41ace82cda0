/* The expected reward in double, by streaming over the whole catalogue: the oracle of the float
 * code. It shares nothing with the devices and their kernels but the data.
 *
 * r [P] are the rewards of all items in the one context x [D]. The same bits for any number of
 * threads. */
#ifndef FOPO_JUDGE_REFERENCE_H
#define FOPO_JUDGE_REFERENCE_H

#include "policy/policy.h"

/* The most parameter vectors of one pass, and the most directions of slopes. */
enum { FOPO_REFERENCE_MOST = 33, FOPO_REFERENCE_DIRECTIONS = (FOPO_REFERENCE_MOST - 1) / 2 };

/* value [M] = E_pi r = sum_a pi_a r_a and log_z [M] = log sum_a exp f_a, for each of the parameter
 * vectors theta [M, n], n being pi's number of parameters; pi's own theta is not used. One pass
 * over the items for all of them; M <= FOPO_REFERENCE_MOST. */
int fopo_reference_reward(double *value, double *log_z, const fopo_policy *pi, const double *theta,
                          size_t M, const float *x, const float *r);

/* Central differences along the directions U [count, n]:
 *   slope = (E(theta + h u) - E(theta - h u)) / 2h,   at pi's own theta,
 * and value and log_z there. count <= FOPO_REFERENCE_DIRECTIONS, h > 0. */
int fopo_reference_slopes(double *slope, double *value, double *log_z, const fopo_policy *pi,
                          const float *x, const float *r, fopo_matrix U, double h);

#endif
