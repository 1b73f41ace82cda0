/* The parameters while a slice runs: their truth is on the device, and the host has copies. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "train/state.h"

int fopo_trainer_check_theta(fopo_trainer *t) {
  char where[160];
  double bound = fopo_reach_of(t->o.policy->theta.x, t->n_theta);
  t->reach[FOPO_BLOCK_THETA].bound = bound;
  int status = isinf(bound) ? fopo_matrix_finite(t->o.policy->theta, "theta") : FOPO_OK;
  if (status != FOPO_ERR_NUMERIC) return status;
  snprintf(where, sizeof where, "%s", fopo_error_sentence());
  return fopo_fail(
      status, "%s; load a checkpoint from before that, or set theta anew, and lower lr", where);
}

int fopo_trainer_prepare_optim(fopo_trainer *t) {
  fopo_block_shape shapes[FOPO_BLOCKS];
  int status = fopo_optim_fit(t->o.optim, t->o.policy);
  if (status != FOPO_OK) return status;
  for (int i = 0; i < FOPO_BLOCKS; i++) {
    shapes[i] = fopo_policy_shape(t->o.policy, (fopo_block)i);
  }
  return fopo_optim_prepare(t->o.optim, t->o.device, shapes);
}

/* The values of a block on the device. */
static float *values_of(fopo_trainer *t, fopo_block block) {
  return block == FOPO_BLOCK_THETA ? t->theta : fopo_gradient_values(t->o.gradient, block);
}

int fopo_trainer_move(fopo_trainer *t, fopo_optim_norm norm) {
  fopo_policy *pi = t->o.policy;
  int status = FOPO_OK;
  for (int i = 0; i < FOPO_BLOCKS && status == FOPO_OK; i++) {
    fopo_block block = (fopo_block)i;
    if (!pi->learns[i]) continue;
    fopo_item_gradient G = fopo_gradient_of(t->o.gradient, block);
    status = block == FOPO_BLOCK_THETA
                 ? fopo_optim_step_theta(t->o.optim, t->theta, &G, norm)
                 : fopo_optim_step(t->o.optim, block, values_of(t, block), &G, norm);
    if (block == FOPO_BLOCK_ITEMS) pi->version++;
  }
  if (status == FOPO_OK) t->o.optim->t++;
  return status;
}

/* *to: the block on the host, which is brought up to date if it learns. */
static int fetch(fopo_trainer *t, fopo_block block, fopo_matrix *to) {
  *to = fopo_policy_values(t->o.policy, block);
  if (!t->o.policy->learns[block]) return FOPO_OK;
  size_t bytes = to->rows * to->cols * sizeof *to->x;
  return t->o.device->ops->get(t->o.device, to->x, values_of(t, block), bytes);
}

int fopo_trainer_fetch(fopo_trainer *t) {
  fopo_matrix x;
  int status = FOPO_OK;
  for (int i = 0; i < FOPO_BLOCKS && status == FOPO_OK; i++) status = fetch(t, (fopo_block)i, &x);
  return status;
}

/* ---- the order of items that are learnt ---- */

static void swap(float *a, float *b, size_t n) {
  for (size_t i = 0; i < n; i++) {
    float x = a[i];
    a[i] = b[i];
    b[i] = x;
  }
}

static int refresh(fopo_trainer *t) {
  int status = fopo_gradient_refresh(t->o.gradient);
  t->ordering = status == FOPO_OK ? fopo_gradient_ordering(t->o.gradient) : UINT64_MAX;
  return status;
}

int fopo_trainer_prepare_order(fopo_trainer *t) {
  fopo_matrix items = t->o.policy->items;
  size_t n = items.rows * items.cols;
  if (t->ordered == NULL || t->ordering == fopo_gradient_ordering(t->o.gradient)) return FOPO_OK;
  if (t->ordering == 0) {
    memcpy(t->ordered, items.x, n * sizeof *items.x);
    t->ordering = fopo_gradient_ordering(t->o.gradient);
    return fopo_gradient_owns_order(t->o.gradient) ? refresh(t) : FOPO_OK;
  }
  swap(items.x, t->ordered, n);
  int status = refresh(t);
  swap(items.x, t->ordered, n);
  return status;
}

int fopo_trainer_refresh(fopo_trainer *t) {
  fopo_matrix items;
  int status = fetch(t, FOPO_BLOCK_ITEMS, &items);
  if (status != FOPO_OK) return status;
  memcpy(t->ordered, items.x, items.rows * items.cols * sizeof *items.x);
  return refresh(t);
}

/* What is too far is looked at once more, at the parameters themselves. */
static int check_reach(fopo_trainer *t, fopo_block block, double norm) {
  fopo_reach *r = &t->reach[block];
  double lr = fopo_optim_lr(t->o.optim, block);
  double after = fopo_reach_after(r, t->o.optim, lr, norm);
  if (after > FOPO_REACH_MOST) {
    fopo_matrix x;
    int status = fetch(t, block, &x);
    if (status != FOPO_OK) return status;
    r->bound = fopo_reach_of(x.x, x.rows * x.cols);
    after = fopo_reach_after(r, t->o.optim, lr, norm);
  }
  if (after > FOPO_REACH_MOST) {
    return fopo_fail(FOPO_ERR_NUMERIC,
                     "step %llu could move %s beyond %g, from %g by a learning rate of %g; it "
                     "stays as after step %llu; lower lr",
                     (unsigned long long)t->step + 1,
                     block == FOPO_BLOCK_ITEMS     ? "an item"
                     : block == FOPO_BLOCK_WEIGHTS ? "a weight"
                                                   : fopo_block_names[block],
                     FOPO_REACH_MOST, r->bound, lr, (unsigned long long)t->step);
  }
  r->bound = after;
  return FOPO_OK;
}

int fopo_trainer_check_reach(fopo_trainer *t, double norm) {
  int status = FOPO_OK;
  for (int i = 0; i < FOPO_BLOCKS && status == FOPO_OK; i++) {
    if (t->o.policy->learns[i]) status = check_reach(t, (fopo_block)i, norm);
  }
  return status;
}
