/* How far an update can move the parameters. A learning rate that is too high must not replace
 * theta by infinities: the step before that is refused, and theta stays as it is.
 *
 * No parameter is read for it in most steps: a bound of the largest parameter grows with every step
 * by the most that the optimiser can move one. Only if the bound passes FOPO_REACH_MOST are the
 * parameters looked at, and the bound is taken anew. */
#ifndef FOPO_TRAIN_REACH_H
#define FOPO_TRAIN_REACH_H

#include "train/optim.h"

#define FOPO_REACH_MOST 1e12 /* no parameter that is larger means anything in float32 */
#define FOPO_NORM_MOST  1e18 /* of a gradient: its square must be a float32 for Adam */

typedef struct {
  double bound; /* no parameter is larger; INFINITY: not known */
  double norm;  /* the largest norm of a gradient so far, which sgd's velocity remembers */
} fopo_reach;

/* The bound after one more update of parameters whose learning rate is lr (before its schedule), by
 * a gradient of that norm; the same bound if the norm is not known (INFINITY) and counts. */
double fopo_reach_after(fopo_reach *r, const fopo_optim *o, double lr, double norm);

/* The largest of |x[i]|; INFINITY if one is not finite. */
double fopo_reach_of(const float *x, size_t n);

#endif
