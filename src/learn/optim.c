/* Adam (Kingma and Ba 2014) and stochastic gradient ascent with momentum. The arithmetic is the
 * device's; what is here is the state, which lives beside theta and is made at the first step. */
#include "learn/optim.h"

#include <math.h>

#include "core/status.h"

static int in_unit(double x) { return x >= 0.0 && x < 1.0; }

static int check(const fopo_optim_options *o) {
  if (!(o->lr > 0.0) || !isfinite(o->lr)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the learning rate is %g; use > 0", o->lr);
  }
  if (!(o->weight_decay >= 0.0) || !isfinite(o->weight_decay)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "weight_decay is %g; use >= 0", o->weight_decay);
  }
  if (o->kind == FOPO_OPTIM_SGD) {
    if (in_unit(o->momentum)) return FOPO_OK;
    return fopo_fail(FOPO_ERR_ARGUMENT, "momentum is %g; use 0 <= momentum < 1", o->momentum);
  }
  if (!in_unit(o->beta1) || !in_unit(o->beta2)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "beta1 is %g and beta2 is %g; both need 0 <= beta < 1",
                     o->beta1, o->beta2);
  }
  if (!(o->eps > 0.0) || !isfinite(o->eps)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "eps is %g; it keeps a division finite, use > 0", o->eps);
  }
  return FOPO_OK;
}

/* A zeroed device array of n floats. */
static int zeros(float **x, fopo_device *device, size_t n) {
  void *block = NULL;
  int rc = device->ops->alloc(device, &block, n * sizeof(float));
  *x = block;
  return rc;
}

static void release(fopo_optim *o) {
  if (o->device == NULL) return;
  if (o->m != NULL) o->device->ops->release(o->device, o->m);
  if (o->v != NULL) o->device->ops->release(o->device, o->v);
}

int fopo_optim_init(fopo_optim *o, const fopo_optim_options *options) {
  *o = (fopo_optim){.options = *options};
  return check(options);
}

void fopo_optim_done(fopo_optim *o) {
  release(o);
  *o = (fopo_optim){0};
}

/* m and v of n zeros on the device, in fresh memory that replaces the old only when all is there.
 * sgd has no v. */
static int renew(fopo_optim *o, fopo_device *device, size_t n, const float *m, const float *v) {
  fopo_optim fresh = {.options = o->options, .t = o->t, .n = n, .device = device};
  int rc = zeros(&fresh.m, device, n);
  if (rc == FOPO_OK && m != NULL) {
    rc = device->ops->put(device, fresh.m, m, n * sizeof *m);
  }
  if (rc == FOPO_OK && o->options.kind == FOPO_OPTIM_ADAM) {
    rc = zeros(&fresh.v, device, n);
    if (rc == FOPO_OK && v != NULL) {
      rc = device->ops->put(device, fresh.v, v, n * sizeof *v);
    }
  }
  if (rc != FOPO_OK) {
    release(&fresh);
    return rc;
  }
  release(o);
  *o = fresh;
  return FOPO_OK;
}

int fopo_optim_step(fopo_optim *o, fopo_device *device, float *theta, const float *G, size_t n) {
  const fopo_optim_options *p = &o->options;
  int rc = check(p);
  if (rc == FOPO_OK && o->n == 0) rc = renew(o, device, n, NULL, NULL);
  if (rc != FOPO_OK) return rc;
  if (o->n != n || o->device != device || (p->kind == FOPO_OPTIM_ADAM && o->v == NULL)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "this optimiser has the state of %zu parameters on %s, but %zu on %s are to "
                     "be moved; make a new optimiser for them",
                     o->n, o->device->ops->kind, n, device->ops->kind);
  }

  if (p->kind == FOPO_OPTIM_ADAM) {
    fopo_adam adam = {.lr = p->lr, .beta1 = p->beta1, .beta2 = p->beta2, .eps = p->eps,
                      .weight_decay = p->weight_decay, .t = o->t + 1};
    rc = device->ops->adam(device, theta, o->m, o->v, G, &adam, n);
  } else {
    fopo_sgd sgd = {.lr = p->lr, .momentum = p->momentum, .weight_decay = p->weight_decay};
    rc = device->ops->sgd(device, theta, o->m, G, &sgd, n);
  }
  if (rc == FOPO_OK) o->t++;
  return rc;
}

int fopo_optim_read(float *m, float *v, const fopo_optim *o) {
  if (o->n == 0) return FOPO_OK;
  int rc = o->device->ops->get(o->device, m, o->m, o->n * sizeof *m);
  if (rc == FOPO_OK && o->v != NULL) {
    rc = o->device->ops->get(o->device, v, o->v, o->n * sizeof *v);
  }
  return rc;
}

int fopo_optim_restore(fopo_optim *o, fopo_device *device, const float *m, const float *v,
                       size_t n, uint64_t t) {
  int rc = renew(o, device, n, m, v);
  if (rc == FOPO_OK) o->t = t;
  return rc;
}
