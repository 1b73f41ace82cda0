/* What the covariance estimators share: c_s = wbar_s (r_s - rbar) with w_s = exp(f_s) / q_s (the
 * paper, Algorithm 1; the term in the mean of beta is 0 because the c_s sum to 0). */
#ifndef FOPO_LEARN_ESTIMATORS_COVARIANCE_H
#define FOPO_LEARN_ESTIMATORS_COVARIANCE_H

#include "learn/batch.h"

/* `items` are read for the scores f; a draw whose logq is above `floor` counts as a candidate. */
static inline int fopo_combine_covariance(fopo_batch *b, const fopo_rows *items, float floor) {
  fopo_device *d = b->data->device;
  fopo_estimate estimate = fopo_batch_estimate(b);
  return d->ops->snis(d, &estimate, &b->draws.samples, items, floor, &b->piece.device);
}

#endif
