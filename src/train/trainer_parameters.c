/* The parameters while a slice runs: their truth is on the device, and the host has copies. */
#include <math.h>
#include <stdio.h>

#include "core/status.h"
#include "train/trainer_internal.h"

int fopo_trainer_check_theta(const fopo_trainer *t) {
  char where[160];
  int status = fopo_matrix_finite(t->o.policy->theta, "theta");
  if (status != FOPO_ERR_NUMERIC) return status;
  snprintf(where, sizeof where, "%s", fopo_error_sentence());
  return fopo_fail(
      status, "%s; load a checkpoint from before that, or set theta anew, and lower lr", where);
}

/* Copies items that are learnt to the host, where indexes read them. */
static int fetch_items(fopo_trainer *t) {
  fopo_matrix items = t->o.policy->items;
  if (!t->o.policy->train_items) return FOPO_OK;
  return t->o.device->ops->get(t->o.device, items.x, fopo_gradient_device_items(t->o.gradient),
                               items.rows * items.cols * sizeof *items.x);
}

int fopo_trainer_fetch(fopo_trainer *t) {
  int status = t->o.device->ops->get(t->o.device, t->o.policy->theta.x, t->theta,
                                     t->n_theta * sizeof *t->theta);
  return status == FOPO_OK ? fetch_items(t) : status;
}

int fopo_trainer_refresh(fopo_trainer *t) {
  int own = t->o.policy->train_items && fopo_gradient_owns_order(t->o.gradient);
  if (t->o.index_refresh == 0 && !own) return FOPO_OK;
  int status = t->running ? fetch_items(t) : FOPO_OK;
  return status == FOPO_OK ? fopo_gradient_refresh(t->o.gradient) : status;
}

/* What is too far is looked at once more, at the parameters themselves. */
static int check_one_reach(fopo_trainer *t, fopo_reach *r, double lr, double norm, int of_items) {
  const fopo_policy *pi = t->o.policy;
  double after = fopo_reach_after(r, t->o.optim, lr, norm);
  if (after > FOPO_REACH_MOST) {
    int status = fopo_trainer_fetch(t);
    if (status != FOPO_OK) return status;
    r->bound = of_items ? fopo_reach_of(pi->items.x, pi->items.rows * pi->items.cols)
                        : fopo_reach_of(pi->theta.x, t->n_theta);
    after = fopo_reach_after(r, t->o.optim, lr, norm);
  }
  if (after > FOPO_REACH_MOST) {
    return fopo_fail(FOPO_ERR_NUMERIC,
                     "step %llu could move %s beyond %g, from %g by a learning rate of %g; it "
                     "stays as after step %llu; lower lr",
                     (unsigned long long)t->step + 1, of_items ? "an item" : "theta",
                     FOPO_REACH_MOST, r->bound, lr, (unsigned long long)t->step);
  }
  r->bound = after;
  return FOPO_OK;
}

int fopo_trainer_check_reach(fopo_trainer *t, double norm) {
  const fopo_optim_options *p = &t->o.optim->options;
  int status = check_one_reach(t, &t->reach, p->lr, norm, 0);
  if (status != FOPO_OK || !t->o.policy->train_items) return status;
  return check_one_reach(t, &t->items_reach, p->items_lr > 0.0 ? p->items_lr : p->lr, norm, 1);
}
