/* Optimisers. The objective is a reward: theta moves up the gradient. */
#ifndef FOPO_TRAIN_OPTIM_H
#define FOPO_TRAIN_OPTIM_H

#include "learn/gradient.h"
#include "train/schedule.h"

typedef enum { FOPO_OPTIM_ADAM, FOPO_OPTIM_SGD } fopo_optim_kind;

typedef struct {
  fopo_optim_kind kind;
  double lr;                /* > 0 */
  double beta1, beta2, eps; /* adam; 0.9, 0.999, 1e-8 (Kingma and Ba 2014) */
  double momentum;          /* sgd, 0 <= momentum < 1 */
  double items_lr;          /* >= 0: of items that are learnt; 0: lr */
  double weight_decay;      /* >= 0: L2, added to the gradient as in the authors' code */
  int decoupled;            /* 1: weights decay apart from the gradient instead, by lr
                             * weight_decay theta (Loshchilov and Hutter 2019) */
  double clip;              /* >= 0: the largest norm of a gradient, theta's and the items'
                             * together; 0: any */
  fopo_schedule schedule;   /* of lr and items_lr */
} fopo_optim_options;

typedef struct {
  fopo_optim_options options; /* may be changed between steps, the kind apart */
  uint64_t t;                 /* updates so far */
  size_t n;                   /* parameters; 0 before the first step */
  float *m, *v;               /* device [n]; sgd keeps its velocity in m */
  fopo_device *device;        /* of m and v; not owned */

  size_t P, L;              /* items that are learnt; 0 before their first step */
  float *items_m, *items_v; /* device [P, L]; as m and v */
  uint32_t *items_t;        /* device [P]: the updates that each item had */
} fopo_optim;

int fopo_optim_init(fopo_optim *o, const fopo_optim_options *options);
void fopo_optim_done(fopo_optim *o); /* accepts {0} */

/* The norm of a gradient, by which it is clipped. */
typedef struct {
  double norm;               /* of all parameters that move in this update */
  const fopo_totals *totals; /* device; if not NULL it knows the norm instead, and nothing moves if
                              * it is broken */
} fopo_optim_norm;

/* theta [n] and G [n] are device pointers. Allocates m and v at the first step only; another n or
 * device than before is FOPO_ERR_ARGUMENT. */
int fopo_optim_step(fopo_optim *o, fopo_device *device, float *theta, const float *G, size_t n,
                    fopo_optim_norm norm);

/* What the next step takes: of adam, or of sgd as far as a replay needs it. */
fopo_adam fopo_optim_adam(const fopo_optim *o);

/* The learning rate of theta at the last update: lr times the schedule's factor; before the first
 * update, that of the first. */
double fopo_optim_rate(const fopo_optim *o);

/* Allocates the state of theta [n] and of items [P, L] if there is none yet, so that the steps that
 * follow cannot fail for memory; refuses other sizes than before. P == 0: no items. */
int fopo_optim_prepare(fopo_optim *o, fopo_device *device, size_t n, size_t P, size_t L);

/* The items' part of the update that fopo_optim_step has begun, of items [P, L] on the device.
 * Lazy: an item without a gradient stays as it is, moments and decay included, and Adam's
 * corrections for the start count each item's own updates. */
int fopo_optim_step_items(fopo_optim *o, fopo_device *device, float *items, size_t P, size_t L,
                          const fopo_item_gradient *G, double norm);

/* The state of the items on the host: m, v [P, L], t [P]. */
typedef struct {
  float *m, *v;
  uint32_t *t;
  size_t P, L;
} fopo_optim_items;

/* For checkpoints. read: m, v [n] and the items' state go to the host; they are left as they are
 * if there is no such state (v of sgd, all before the first step). restore: the state after t
 * updates from host arrays, items NULL if they are fixed; on failure the old one stands. */
int fopo_optim_read(float *m, float *v, const fopo_optim *o);
int fopo_optim_read_items(const fopo_optim_items *items, const fopo_optim *o);
int fopo_optim_restore(fopo_optim *o, fopo_device *device, const float *m, const float *v, size_t n,
                       uint64_t t, const fopo_optim_items *items);

#endif
