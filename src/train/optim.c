/* Adam (Kingma and Ba 2014) and stochastic gradient ascent with momentum. The arithmetic is the
 * device's. Here is the state, which is on the device of theta and is allocated at the first step.
 */
#include "train/optim.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"

static int in_unit(double x) { return x >= 0.0 && x < 1.0; }

static int check(const fopo_optim_options *o) {
  if (!(o->lr > 0.0) || !isfinite(o->lr)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the learning rate is %g; use > 0", o->lr);
  }
  if (!(o->items_lr >= 0.0) || !isfinite(o->items_lr)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the items' learning rate is %g; use >= 0, 0 for that of "
                     "theta",
                     o->items_lr);
  }
  if (!(o->weight_decay >= 0.0) || !isfinite(o->weight_decay)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "weight_decay is %g; use >= 0", o->weight_decay);
  }
  if (!(o->clip >= 0.0) || !isfinite(o->clip)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "clip is %g; use > 0, or 0 to clip nothing", o->clip);
  }
  int status = fopo_schedule_check(&o->schedule);
  if (status != FOPO_OK) return status;
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
  int status = device->ops->alloc(device, &block, n * sizeof(float));
  *x = block;
  return status;
}

static void release_items(fopo_optim *o) {
  if (o->device == NULL) return;
  if (o->items_m != NULL) o->device->ops->release(o->device, o->items_m);
  if (o->items_v != NULL) o->device->ops->release(o->device, o->items_v);
  if (o->items_t != NULL) o->device->ops->release(o->device, o->items_t);
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
  release_items(o);
  *o = (fopo_optim){0};
}

/* m and v of n zeros, or copies of the host's m and v, in fresh memory of the device. It replaces
 * the old memory only when all of it is allocated. sgd has no v. */
static int renew(fopo_optim *o, fopo_device *device, size_t n, const float *m, const float *v) {
  fopo_optim fresh = {.options = o->options, .t = o->t, .n = n, .device = device};
  int status = zeros(&fresh.m, device, n);
  if (status == FOPO_OK && m != NULL) {
    status = device->ops->put(device, fresh.m, m, n * sizeof *m);
  }
  if (status == FOPO_OK && o->options.kind == FOPO_OPTIM_ADAM) {
    status = zeros(&fresh.v, device, n);
    if (status == FOPO_OK && v != NULL) {
      status = device->ops->put(device, fresh.v, v, n * sizeof *v);
    }
  }
  if (status != FOPO_OK) {
    release(&fresh);
    return status;
  }
  release(o);
  o->n = n;
  o->m = fresh.m;
  o->v = fresh.v;
  o->device = device;
  return FOPO_OK;
}

/* The same for the state of the items; a copy of `from` if it is not NULL. */
static int renew_items(fopo_optim *o, fopo_device *device, size_t P, size_t L,
                       const fopo_optim_items *from) {
  fopo_optim fresh = {.P = P, .L = L, .device = device};
  int adam = o->options.kind == FOPO_OPTIM_ADAM;
  size_t n = P * L;
  uint64_t bytes = (uint64_t)n * (adam ? 2 : 1) * sizeof(float) + P * sizeof(uint32_t);
  int status = fopo_memory_suffices(bytes, "the optimiser's state of the items",
                                    "use fewer items or dimensions, or train_items = false");
  void *updates = NULL;
  if (status == FOPO_OK) status = zeros(&fresh.items_m, device, n);
  if (status == FOPO_OK && adam) status = zeros(&fresh.items_v, device, n);
  if (status == FOPO_OK) status = device->ops->alloc(device, &updates, P * sizeof *fresh.items_t);
  fresh.items_t = updates;
  if (status == FOPO_OK && from != NULL) {
    status = device->ops->put(device, fresh.items_m, from->m, n * sizeof *from->m);
    if (status == FOPO_OK && adam) {
      status = device->ops->put(device, fresh.items_v, from->v, n * sizeof *from->v);
    }
    if (status == FOPO_OK) {
      status = device->ops->put(device, fresh.items_t, from->t, P * sizeof *from->t);
    }
  }
  if (status != FOPO_OK) {
    release_items(&fresh);
    return status;
  }
  release_items(o);
  o->P = P;
  o->L = L;
  o->items_m = fresh.items_m;
  o->items_v = fresh.items_v;
  o->items_t = fresh.items_t;
  o->device = device;
  return FOPO_OK;
}

int fopo_optim_prepare(fopo_optim *o, fopo_device *device, size_t n, size_t P, size_t L) {
  int status = check(&o->options);
  if (status == FOPO_OK && o->n == 0) status = renew(o, device, n, NULL, NULL);
  if (status == FOPO_OK && P > 0 && o->P == 0) status = renew_items(o, device, P, L, NULL);
  if (status != FOPO_OK) return status;
  if (o->n != n || o->device != device || (o->options.kind == FOPO_OPTIM_ADAM && o->v == NULL)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "this optimiser has the state of %zu parameters on %s, but %zu on %s are to "
                     "be moved; make a new optimiser for them",
                     o->n, o->device->ops->kind, n, device->ops->kind);
  }
  if (P > 0 && (o->P != P || o->L != L)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "this optimiser has the state of %zu items of dimension %zu, but %zu of %zu "
                     "are to be moved; make a new optimiser for them",
                     o->P, o->L, P, L);
  }
  return FOPO_OK;
}

/* The update after t updates, of parameters whose learning rate is lr. */
static fopo_update update_of(const fopo_optim *o, double lr, uint64_t t, fopo_optim_norm norm) {
  const fopo_optim_options *p = &o->options;
  return (fopo_update){.lr = lr * fopo_schedule_factor(&p->schedule, t),
                       .weight_decay = p->weight_decay,
                       .decoupled = p->decoupled,
                       .clip = p->clip,
                       .norm = norm.norm,
                       .totals = norm.totals};
}

static fopo_adam adam_of(const fopo_optim *o, fopo_update u) {
  const fopo_optim_options *p = &o->options;
  return (fopo_adam){.u = u, .beta1 = p->beta1, .beta2 = p->beta2, .eps = p->eps, .t = o->t + 1};
}

double fopo_optim_rate(const fopo_optim *o) {
  uint64_t before = o->t > 0 ? o->t - 1 : 0;
  return o->options.lr * fopo_schedule_factor(&o->options.schedule, before);
}

int fopo_optim_step_items(fopo_optim *o, fopo_device *device, float *items, size_t P, size_t L,
                          const fopo_item_gradient *G, double norm) {
  const fopo_optim_options *p = &o->options;
  int status = o->P == 0 ? renew_items(o, device, P, L, NULL) : FOPO_OK;
  if (status != FOPO_OK) return status;
  double lr = p->items_lr > 0.0 ? p->items_lr : p->lr;
  fopo_update u = update_of(o, lr, o->t > 0 ? o->t - 1 : 0, (fopo_optim_norm){.norm = norm});
  fopo_parameters x = {
      .theta = items, .m = o->items_m, .v = o->items_v, .updates = o->items_t, .n = P * L};
  if (p->kind == FOPO_OPTIM_ADAM) {
    fopo_adam adam = adam_of(o, u);
    return device->ops->adam_rows(device, &x, G, &adam, L);
  }
  fopo_sgd sgd = {.u = u, .momentum = p->momentum};
  return device->ops->sgd_rows(device, &x, G, &sgd, L);
}

fopo_adam fopo_optim_adam(const fopo_optim *o) {
  return adam_of(o, update_of(o, o->options.lr, o->t, (fopo_optim_norm){0}));
}

int fopo_optim_step(fopo_optim *o, fopo_device *device, float *theta, const float *G, size_t n,
                    fopo_optim_norm norm) {
  const fopo_optim_options *p = &o->options;
  int status = fopo_optim_prepare(o, device, n, 0, 0);
  if (status != FOPO_OK) return status;

  fopo_parameters x = {.theta = theta, .m = o->m, .v = o->v, .n = n};
  fopo_update u = update_of(o, p->lr, o->t, norm);
  if (p->kind == FOPO_OPTIM_ADAM) {
    fopo_adam adam = adam_of(o, u);
    status = device->ops->adam(device, &x, G, &adam);
  } else {
    fopo_sgd sgd = {.u = u, .momentum = p->momentum};
    status = device->ops->sgd(device, &x, G, &sgd);
  }
  if (status == FOPO_OK) o->t++;
  return status;
}

int fopo_optim_read(float *m, float *v, const fopo_optim *o) {
  if (o->n == 0) return FOPO_OK;
  int status = o->device->ops->get(o->device, m, o->m, o->n * sizeof *m);
  if (status == FOPO_OK && o->v != NULL) {
    status = o->device->ops->get(o->device, v, o->v, o->n * sizeof *v);
  }
  return status;
}

int fopo_optim_read_items(const fopo_optim_items *items, const fopo_optim *o) {
  if (o->P == 0) return FOPO_OK;
  size_t n = o->P * o->L;
  int status = o->device->ops->get(o->device, items->m, o->items_m, n * sizeof *items->m);
  if (status == FOPO_OK && o->items_v != NULL) {
    status = o->device->ops->get(o->device, items->v, o->items_v, n * sizeof *items->v);
  }
  if (status != FOPO_OK) return status;
  return o->device->ops->get(o->device, items->t, o->items_t, o->P * sizeof *items->t);
}

int fopo_optim_restore(fopo_optim *o, fopo_device *device, const float *m, const float *v, size_t n,
                       uint64_t t, const fopo_optim_items *items) {
  fopo_optim fresh = {.options = o->options, .t = t};
  int status = renew(&fresh, device, n, m, v);
  if (status == FOPO_OK && items != NULL) {
    status = renew_items(&fresh, device, items->P, items->L, items);
  }
  if (status != FOPO_OK) {
    fopo_optim_done(&fresh);
    return status;
  }
  fopo_optim_done(o);
  *o = fresh;
  return FOPO_OK;
}
