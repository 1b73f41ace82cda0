/* Optimisers. The objective is a reward: theta moves up the gradient. */
#ifndef FOPO_LEARN_OPTIM_H
#define FOPO_LEARN_OPTIM_H

#include "device/device.h"

typedef enum { FOPO_OPTIM_ADAM, FOPO_OPTIM_SGD } fopo_optim_kind;

typedef struct {
  fopo_optim_kind kind;
  double lr;                  /* > 0 */
  double beta1, beta2, eps;   /* adam; 0.9, 0.999, 1e-8 (Kingma and Ba 2014) */
  double momentum;            /* sgd, 0 <= momentum < 1 */
  double weight_decay;        /* >= 0: L2, added to the gradient as in the authors' code */
} fopo_optim_options;

typedef struct {
  fopo_optim_options options; /* may be changed between steps, the kind apart */
  uint64_t t;                 /* updates so far */
  size_t n;                   /* parameters; 0 before the first step */
  float *m, *v;               /* device [n]; sgd keeps its velocity in m */
  fopo_device *device;        /* where they live; not owned */
} fopo_optim;

int fopo_optim_init(fopo_optim *o, const fopo_optim_options *options);
void fopo_optim_done(fopo_optim *o); /* accepts {0} */

/* theta [n] and G [n] are device pointers. Allocates m and v at the first step only; another n or
 * device than before is FOPO_ERR_ARGUMENT. */
int fopo_optim_step(fopo_optim *o, fopo_device *device, float *theta, const float *G, size_t n);

/* For checkpoints. read: m, v [n] on the host; left as they are where there is no such state (v of
 * sgd, both before the first step). restore: the state after t updates from host arrays; on failure
 * the old one stands. */
int fopo_optim_read(float *m, float *v, const fopo_optim *o);
int fopo_optim_restore(fopo_optim *o, fopo_device *device, const float *m, const float *v,
                       size_t n, uint64_t t);

#endif
