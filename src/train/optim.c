/* The state of an optimiser, which is on the device of the parameters. The arithmetic is the
 * device's, and what it is called for stands in the optimiser's row. */
#include "train/optim.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "device/arrays.h"

const fopo_optimiser *const fopo_optimisers[] = {
#define X(name) &fopo_optimiser_##name,
#include "train/optimisers.def"
#undef X
    NULL};

static int check(const fopo_optim_options *o) {
  if (!(o->lr > 0.0) || !isfinite(o->lr)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the learning rate is %g; use > 0", o->lr);
  }
  for (int i = 0; i < FOPO_BLOCKS; i++) {
    if (o->block_lr[i] >= 0.0 && isfinite(o->block_lr[i])) continue;
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the %s' learning rate is %g; use >= 0, 0 for that of theta",
                     fopo_block_names[i], o->block_lr[i]);
  }
  for (size_t i = 0; i < o->n_lr_of; i++) {
    if (o->lr_of[i].lr > 0.0 && isfinite(o->lr_of[i].lr)) continue;
    return fopo_fail(FOPO_ERR_ARGUMENT, "the learning rate of %s is %g; use > 0", o->lr_of[i].name,
                     o->lr_of[i].lr);
  }
  if (!(o->weight_decay >= 0.0) || !isfinite(o->weight_decay)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "weight_decay is %g; use >= 0", o->weight_decay);
  }
  if (!(o->clip >= 0.0) || !isfinite(o->clip)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "clip is %g; use > 0, or 0 to clip nothing", o->clip);
  }
  int status = fopo_schedule_check(&o->schedule);
  for (const fopo_option *row = o->kind->options; row->name != NULL && status == FOPO_OK; row++) {
    status = fopo_option_check(row, o);
  }
  return status;
}

static void release(fopo_device *d, fopo_moments *x) {
  void *const blocks[] = {x->m, x->v, x->updates};
  if (d != NULL) fopo_release_all(d, blocks, sizeof blocks / sizeof *blocks);
  *x = (fopo_moments){0};
}

int fopo_optim_init(fopo_optim *o, const fopo_optim_options *options) {
  *o = (fopo_optim){.options = *options};
  return check(options);
}

void fopo_optim_done(fopo_optim *o) {
  for (int i = 0; i < FOPO_BLOCKS; i++) release(o->device, &o->of[i]);
  *o = (fopo_optim){0};
}

/* ---- the state ---- */

/* A device array of n elements: zeros, or a copy of `from` if it is not NULL. NULL on failure. */
static void *make(fopo_device *d, const void *from, size_t n, size_t size) {
  void *x = NULL;
  if (d->ops->alloc(d, &x, n * size) != FOPO_OK) return NULL;
  if (from == NULL || d->ops->put(d, x, from, n * size) == FOPO_OK) return x;
  d->ops->release(d, x);
  return NULL;
}

static int has_all(const fopo_optimiser *kind, const fopo_moments *x, int counts) {
  return (x->m || !kind->has_m) && (x->v || !kind->has_v) && (x->updates || !counts);
}

/* The state of a block, zeros or a copy of what `from` has. It replaces the old one only when all
 * of it is allocated. */
static int renew(fopo_optim *o, fopo_device *d, fopo_block block, fopo_block_shape shape,
                 const fopo_moments *from) {
  fopo_moments fresh = {.rows = shape.rows, .cols = shape.cols};
  const fopo_optimiser *kind = o->options.kind;
  int status = FOPO_OK, counts = shape.by_rows && kind->has_updates;
  size_t n = shape.rows * shape.cols;
  if (shape.by_rows) {
    size_t moments = (size_t)(kind->has_m + kind->has_v);
    uint64_t bytes = (uint64_t)n * moments * sizeof(float);
    if (counts) bytes += shape.rows * sizeof(uint32_t);
    status = block == FOPO_BLOCK_ITEMS
                 ? fopo_memory_suffices(bytes, "the optimiser's state of the items",
                                        "use fewer items or dimensions, or do not learn the items")
                 : fopo_memory_suffices(bytes, "the optimiser's state of the weights",
                                        "use fopo.optim.adagrad or fewer weights, or do not learn "
                                        "the weights");
  }
  if (status != FOPO_OK) return status;
  if (kind->has_m) fresh.m = make(d, from->m, n, sizeof *fresh.m);
  if (kind->has_v) fresh.v = make(d, from->v, n, sizeof *fresh.v);
  if (counts) fresh.updates = make(d, from->updates, shape.rows, sizeof *fresh.updates);
  if (!has_all(kind, &fresh, counts)) {
    release(d, &fresh);
    return FOPO_ERR_MEMORY;
  }
  release(o->device, &o->of[block]);
  o->of[block] = fresh;
  o->device = d;
  return FOPO_OK;
}

/* Whether the state is of that shape, on that device. */
static int fits(const fopo_optim *o, const fopo_device *d, const fopo_moments *x,
                fopo_block_shape shape) {
  return x->rows == shape.rows && x->cols == shape.cols && o->device == d;
}

static int refuse(const fopo_optim *o, const fopo_device *d, const fopo_moments *x,
                  fopo_block_shape shape) {
  if (shape.by_rows) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "this optimiser has the state of %zu items of dimension %zu, but %zu of %zu "
                     "are to be moved; make a new optimiser for them",
                     x->rows, x->cols, shape.rows, shape.cols);
  }
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "this optimiser has the state of %zu parameters on %s, but %zu on %s are to "
                   "be moved; make a new optimiser for them",
                   x->rows * x->cols, o->device->ops->kind, shape.rows * shape.cols, d->ops->kind);
}

int fopo_optim_prepare(fopo_optim *o, fopo_device *device,
                       const fopo_block_shape shapes[FOPO_BLOCKS]) {
  static const fopo_moments none = {0};
  int status = check(&o->options);
  for (int i = 0; i < FOPO_BLOCKS && status == FOPO_OK; i++) {
    fopo_moments *x = &o->of[i];
    if (shapes[i].rows == 0) continue;
    if (x->rows == 0) status = renew(o, device, (fopo_block)i, shapes[i], &none);
    if (status == FOPO_OK && !fits(o, device, x, shapes[i])) {
      status = refuse(o, device, x, shapes[i]);
    }
  }
  return status;
}

/* ---- a step ---- */

static double block_lr(const fopo_optim *o, fopo_block block) {
  double own = o->options.block_lr[block];
  return own > 0.0 ? own : o->options.lr;
}

static double segment_lr(const fopo_optim *o, size_t i) {
  int own = o->own_lr[i];
  return own >= 0 ? o->options.lr_of[own].lr : block_lr(o, FOPO_BLOCK_THETA);
}

double fopo_optim_lr(const fopo_optim *o, fopo_block block) {
  double most = 0.0;
  if (block != FOPO_BLOCK_THETA) return block_lr(o, block);
  for (size_t i = 0; i < o->n_learnt; i++) most = fmax(most, segment_lr(o, i));
  return most;
}

int fopo_optim_is_one(const fopo_optim *o, const fopo_policy *pi) {
  return pi->fixed == 0 && o->options.n_lr_of == 0;
}

int fopo_optim_fit(fopo_optim *o, const fopo_policy *pi) {
  char known[FOPO_POLICY_NAMES];
  int own[FOPO_POLICY_PARAMETERS];
  const fopo_optim_options *p = &o->options;
  for (size_t i = 0; i < FOPO_POLICY_PARAMETERS; i++) own[i] = -1;
  for (size_t i = 0; i < p->n_lr_of; i++) {
    int at = fopo_policy_parameter(pi, p->lr_of[i].name);
    if (at >= 0) {
      own[at] = (int)i;
      continue;
    }
    fopo_policy_block_names(known, pi, 0);
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "lr_of has a learning rate of \"%s\", which this policy does not have; use "
                     "some of %s",
                     p->lr_of[i].name, known);
  }
  o->n_learnt = fopo_policy_segments(o->learnt, pi, own);
  for (size_t i = 0; i < o->n_learnt; i++) o->own_lr[i] = own[o->learnt[i].parameter];
  return FOPO_OK;
}

static fopo_update update_of(const fopo_optim *o, double lr, fopo_optim_norm norm) {
  const fopo_optim_options *p = &o->options;
  return (fopo_update){.lr = lr * fopo_schedule_factor(&p->schedule, o->t),
                       .weight_decay = p->weight_decay,
                       .decoupled = p->decoupled,
                       .clip = p->clip,
                       .norm = norm.norm,
                       .totals = norm.totals};
}

fopo_adam fopo_optim_adam(const fopo_optim *o) {
  const fopo_optim_options *p = &o->options;
  fopo_update u = update_of(o, block_lr(o, FOPO_BLOCK_THETA), (fopo_optim_norm){0});
  return (fopo_adam){.u = u, .beta1 = p->beta1, .beta2 = p->beta2, .eps = p->eps, .t = o->t + 1};
}

double fopo_optim_rate(const fopo_optim *o) {
  uint64_t before = o->t > 0 ? o->t - 1 : 0;
  return o->options.lr * fopo_schedule_factor(&o->options.schedule, before);
}

int fopo_optim_step(fopo_optim *o, fopo_block block, float *values, const fopo_item_gradient *G,
                    fopo_optim_norm norm) {
  const fopo_moments *m = &o->of[block];
  fopo_parameters x = {
      .theta = values, .m = m->m, .v = m->v, .updates = m->updates, .n = m->rows * m->cols};
  fopo_update u = update_of(o, block_lr(o, block), norm);
  return o->options.kind->update(o, &x, G, block == FOPO_BLOCK_THETA ? 0 : m->cols, &u);
}

int fopo_optim_step_theta(fopo_optim *o, float *theta, const fopo_item_gradient *G,
                          fopo_optim_norm norm) {
  const fopo_moments *m = &o->of[FOPO_BLOCK_THETA];
  int status = FOPO_OK;
  for (size_t i = 0; i < o->n_learnt && status == FOPO_OK; i++) {
    size_t first = o->learnt[i].first;
    fopo_parameters x = {.theta = theta + first,
                         .m = m->m != NULL ? m->m + first : NULL,
                         .v = m->v != NULL ? m->v + first : NULL,
                         .n = o->learnt[i].n};
    fopo_item_gradient part = {.rows = G->rows + first};
    fopo_update u = update_of(o, segment_lr(o, i), norm);
    status = o->options.kind->update(o, &x, &part, 0, &u);
  }
  return status;
}

/* ---- files ---- */

int fopo_optim_read(const fopo_moments *to, const fopo_optim *o, fopo_block block) {
  const fopo_moments *x = &o->of[block];
  fopo_device *d = o->device;
  size_t bytes = x->rows * x->cols * sizeof(float);
  if (x->rows == 0) return FOPO_OK;
  int status = x->m != NULL ? d->ops->get(d, to->m, x->m, bytes) : FOPO_OK;
  if (status == FOPO_OK && x->v != NULL) status = d->ops->get(d, to->v, x->v, bytes);
  if (status != FOPO_OK || x->updates == NULL) return status;
  return d->ops->get(d, to->updates, x->updates, x->rows * sizeof *x->updates);
}

int fopo_optim_restore(fopo_optim *o, fopo_device *device, const fopo_moments from[FOPO_BLOCKS],
                       uint64_t t) {
  fopo_optim fresh = {.options = o->options, .t = t};
  int status = FOPO_OK;
  for (int i = 0; i < FOPO_BLOCKS && status == FOPO_OK; i++) {
    fopo_block_shape shape = {from[i].rows, from[i].cols, i != FOPO_BLOCK_THETA};
    if (shape.rows > 0) status = renew(&fresh, device, (fopo_block)i, shape, &from[i]);
  }
  if (status != FOPO_OK) {
    fopo_optim_done(&fresh);
    return status;
  }
  fopo_optim_done(o);
  *o = fresh;
  return FOPO_OK;
}
