#include "train/reach.h"

#include <float.h>
#include <math.h>

double fopo_reach_after(fopo_reach *r, const fopo_optim *o, double lr, double norm) {
  const fopo_optim_options *p = &o->options;
  double rate = lr * fopo_schedule_factor(&p->schedule, o->t);
  if (isinf(r->bound)) return r->bound;
  if (p->clip > 0.0) norm = fmin(norm, p->clip);
  if (!isinf(norm)) r->norm = norm = fmax(r->norm, norm);
  double most = p->kind->reach(p, norm, r->bound);
  if (isinf(most)) return r->bound;
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
