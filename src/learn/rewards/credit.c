#include "learn/rewards/credit.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"

static int check_clip(double clip) {
  if (clip >= 0.0 && clip <= 1.0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "clip is %g; it is the least propensity that is divided by, 0 to 1", clip);
}

/* What a log must hold before anything is divided by its propensities. */
static int check_logs(const fopo_logs *logs) {
  for (size_t i = 0; i < logs->n; i++) {
    double p = (double)logs->propensities[i], r = (double)logs->rewards[i];
    if (!(p > 0.0 && p <= 1.0)) {
      return fopo_fail(FOPO_ERR_ARGUMENT,
                       "event %zu has the propensity %g; what was shown had a probability above 0 "
                       "and at most 1",
                       i + 1, p);
    }
    if (!isfinite(r)) {
      return fopo_fail(FOPO_ERR_ARGUMENT, "event %zu has the reward %g; rewards must be finite",
                       i + 1, r);
    }
    if (logs->actions[i] >= logs->n_actions) {
      return fopo_fail(FOPO_ERR_ARGUMENT, "event %zu has the action %llu of %zu", i + 1,
                       (unsigned long long)logs->actions[i] + 1, logs->n_actions);
    }
  }
  return FOPO_OK;
}

int fopo_credit_init(fopo_reward *r, const fopo_reward_source *source) {
  const fopo_logs *logs = source->logs;
  r->contexts = logs->n;
  r->actions = logs->n_actions;
  int status = check_clip(source->clip);
  if (status == FOPO_OK) status = check_logs(logs);
  if (status != FOPO_OK) return status;
  r->owned = fopo_alloc(2 * logs->n, sizeof *r->owned);
  if (r->owned == NULL) return FOPO_ERR_MEMORY;
  double scale = source->smoothing > 0.0 ? source->smoothing : 1.0;
  float *weight = r->owned, *gain = r->owned + logs->n;
  for (size_t i = 0; i < logs->n; i++) {
    weight[i] = (float)(scale / fmax(source->clip, (double)logs->propensities[i]));
    gain[i] = logs->rewards[i];
  }
  r->credit = (fopo_credit){
      .action = logs->actions, .weight = weight, .gain = gain, .shift = (float)source->translate};
  return FOPO_OK;
}

void fopo_credit_correct(fopo_reward *r, const fopo_reward_source *source) {
  const fopo_logs *logs = source->logs;
  r->model = *source->model;
  float *gain = r->owned + logs->n;
  for (size_t i = 0; i < logs->n; i++) { /* gain = r - r_M(a_i, x_i) */
    gain[i] = (float)((double)logs->rewards[i] - fopo_model_value(r, i, logs->actions[i]));
  }
}

static double sigmoid(double t) { return 1.0 / (1.0 + exp(-t)); }

/* link(users[n] . items[a]) */
double fopo_model_value(const fopo_reward *r, size_t n, uint32_t a) {
  const fopo_low_rank *m = &r->model;
  double sum = 0.0;
  for (size_t i = 0; i < m->rank; i++) {
    sum += (double)m->users[n * m->rank + i] * (double)m->items[a * m->rank + i];
  }
  return m->logistic ? sigmoid(sum) : sum;
}

double fopo_credit_value(const fopo_reward *r, size_t n, uint32_t a) {
  const fopo_credit *c = &r->credit;
  double value = r->model.users != NULL ? fopo_model_value(r, n, a) : 0.0;
  if (c->action[n] != a) return value;
  return value + (double)c->weight[n] * ((double)c->gain[n] - (double)c->shift);
}

int fopo_model_look_up(fopo_device *d, const fopo_samples *samples,
                       const fopo_reward_arrays *arrays, const fopo_device_batch *x) {
  return d->ops->reward_model(d, samples, &arrays->model, x);
}

int fopo_credit_look_up(fopo_device *d, const fopo_samples *samples,
                        const fopo_reward_arrays *arrays, const fopo_device_batch *x) {
  int modelled = arrays->model.users != NULL;
  int status = modelled ? fopo_model_look_up(d, samples, arrays, x) : FOPO_OK;
  if (status != FOPO_OK) return status;
  return d->ops->reward_credit(d, samples, &arrays->credit, modelled, x);
}
