#include "train/reach.h"

#include <float.h>
#include <math.h>

/* Adam moves a parameter by lr times the quotient of its moments. By the Cauchy-Schwarz inequality
 * the quotient is at most (1 - beta1) / sqrt((1 - beta2) (1 - beta1^2 / beta2)) before the
 * corrections for the start, which change it by less than a factor of 10 at the betas in use. */
static double most_of_adam(const fopo_optim_options *p) {
  if (p->beta1 * p->beta1 >= p->beta2) return FOPO_NORM_MOST / p->eps;
  double ratio = p->beta1 * p->beta1 / p->beta2;
  return 10.0 * (1.0 + (1.0 - p->beta1) / sqrt((1.0 - p->beta2) * (1.0 - ratio)));
}

/* The norm of sgd's velocity, a sum of earlier gradients. */
static double most_of_sgd(fopo_reach *r, const fopo_optim_options *p, double norm) {
  if (p->clip > 0.0) norm = fmin(norm, p->clip);
  r->norm = fmax(r->norm, norm);
  return (r->norm + p->weight_decay * r->bound) / (1.0 - p->momentum);
}

double fopo_reach_after(fopo_reach *r, const fopo_optim *o, double lr, double norm) {
  const fopo_optim_options *p = &o->options;
  int adam = p->kind == FOPO_OPTIM_ADAM;
  if (!adam && isinf(norm) && p->clip <= 0.0) return r->bound;
  double rate = lr * fopo_schedule_factor(&p->schedule, o->t);
  double most = adam ? most_of_adam(p) : most_of_sgd(r, p, norm);
  double decay = p->decoupled ? rate * p->weight_decay * r->bound : 0.0;
  return r->bound + rate * most + decay;
}

double fopo_reach_of(const float *x, size_t n) {
  double most = 0.0;
  for (size_t i = 0; i < n; i++) {
    double size = fabs((double)x[i]);
    if (!(size <= (double)FLT_MAX)) return (double)INFINITY; /* a NaN, too */
    if (size > most) most = size;
  }
  return most;
}
