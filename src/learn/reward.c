/* Rewards on the host: how those of logs are made, the plain form of what the device computes
 * during training, and the checks that a reward covers its data. */
#include "learn/reward.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"

const char *const fopo_reward_names[FOPO_REWARD_KINDS] = {"hits",   "custom",        "ips",
                                                          "direct", "doubly robust", "switch"};

/* ---- from logs ---- */

static int check_clip(double clip) {
  if (clip >= 0.0 && clip <= 1.0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "clip is %g; it is the least propensity that is divided by, 0 to 1", clip);
}

/* What a log must hold before anything is divided by its propensities. */
static int check_logs(const fopo_logs *logs) {
  for (size_t i = 0; i < logs->n; i++) {
    double p = (double)logs->propensities[i], r = (double)logs->rewards[i];
    if (!(p > 0.0 && p <= 1.0))
      return fopo_fail(FOPO_ERR_ARGUMENT,
                       "event %zu has the propensity %g; what was shown had a probability above 0 "
                       "and at most 1",
                       i + 1, p);
    if (!isfinite(r))
      return fopo_fail(FOPO_ERR_ARGUMENT, "event %zu has the reward %g; rewards must be finite",
                       i + 1, r);
    if (logs->actions[i] >= logs->n_actions)
      return fopo_fail(FOPO_ERR_ARGUMENT, "event %zu has the action %llu of %zu", i + 1,
                       (unsigned long long)logs->actions[i] + 1, logs->n_actions);
  }
  return FOPO_OK;
}

static double sigmoid(double t) { return 1.0 / (1.0 + exp(-t)); }

static double predict(const fopo_low_rank *m, size_t n, size_t a) {
  double sum = 0.0;
  for (size_t i = 0; i < m->rank; i++)
    sum += (double)m->users[n * m->rank + i] * (double)m->items[a * m->rank + i];
  return m->logistic ? sigmoid(sum) : sum;
}

/* Room for weights and gains; what was asked of the log has been checked. */
static int begin(fopo_reward *reward, fopo_reward_kind kind, const fopo_logs *logs) {
  *reward = (fopo_reward){.kind = kind, .contexts = logs->n, .actions = logs->n_actions};
  int status = check_logs(logs);
  if (status != FOPO_OK) return status;
  reward->owned = fopo_alloc(2 * logs->n, sizeof *reward->owned);
  if (reward->owned == NULL) return FOPO_ERR_MEMORY;
  reward->credit = (fopo_credit){
      .action = logs->actions, .weight = reward->owned, .gain = reward->owned + logs->n};
  return FOPO_OK;
}

int fopo_reward_ips(fopo_reward *reward, const fopo_logs *logs, double clip) {
  *reward = (fopo_reward){0};
  int status = check_clip(clip);
  if (status == FOPO_OK) status = begin(reward, FOPO_REWARD_IPS, logs);
  float *weight = reward->owned, *gain = weight != NULL ? weight + logs->n : NULL;
  for (size_t i = 0; i < logs->n && status == FOPO_OK; i++) {
    /* w = 1 / max(tau, p), gain = r */
    weight[i] = (float)(1.0 / fmax(clip, (double)logs->propensities[i]));
    gain[i] = logs->rewards[i];
  }
  return status;
}

int fopo_reward_direct(fopo_reward *reward, const fopo_logs *logs, const fopo_low_rank *model) {
  *reward = (fopo_reward){
      .kind = FOPO_REWARD_DIRECT, .contexts = logs->n, .actions = logs->n_actions, .model = *model};
  return FOPO_OK;
}

int fopo_reward_doubly_robust(fopo_reward *reward, const fopo_logs *logs,
                              const fopo_low_rank *model, double clip) {
  int status = fopo_reward_ips(reward, logs, clip);
  reward->kind = FOPO_REWARD_DOUBLY_ROBUST;
  reward->model = *model;
  for (size_t i = 0; i < logs->n && status == FOPO_OK; i++) /* gain = r - r_M(a_i, x_i) */
    reward->owned[logs->n + i] =
        (float)((double)logs->rewards[i] - predict(model, i, logs->actions[i]));
  return status;
}

int fopo_reward_switch(fopo_reward *reward, const fopo_logs *logs, const fopo_low_rank *model,
                       double threshold) {
  *reward = (fopo_reward){0};
  if (!(threshold >= 1.0))
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "threshold is %g; it is the largest weight 1 / p that is used, 1 or more",
                     threshold);
  int status = fopo_reward_doubly_robust(reward, logs, model, 0.0);
  reward->kind = FOPO_REWARD_SWITCH;
  for (size_t i = 0; i < logs->n && status == FOPO_OK; i++)
    if ((double)reward->owned[i] > threshold) reward->owned[i] = 0.0f;
  return status;
}

void fopo_reward_done(fopo_reward *reward) {
  fopo_free(reward->owned);
  *reward = (fopo_reward){0};
}

/* ---- use ---- */

int fopo_reward_check(const fopo_reward *reward, size_t N, size_t P) {
  if (reward->kind == FOPO_REWARD_CUSTOM) {
    if (reward->contexts == 0 || reward->contexts == N) return FOPO_OK;
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the reward covers %zu contexts but there are %zu; make both from the same "
                     "sessions",
                     reward->contexts, N);
  }
  size_t actions = reward->Y != NULL ? reward->Y->cols : reward->actions;
  if (reward->contexts == N && actions == P) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the reward covers %zu contexts x %zu items but the policy meets %zu x %zu; "
                   "make contexts, items and reward from the same %s",
                   reward->contexts, actions, N, P, reward->Y != NULL ? "sessions" : "log");
}

/* One reward of a kind that is not custom. */
static double one(const fopo_reward *reward, size_t n, uint32_t a) {
  if (reward->Y != NULL) return fopo_csr_contains(reward->Y, n, a) ? 1.0 : 0.0; /* 1[a in Y] */
  double r = reward->model.users != NULL ? predict(&reward->model, n, a) : 0.0;
  const fopo_credit *c = &reward->credit;
  if (c->action != NULL && c->action[n] == a)
    r += (double)c->weight[n] * ((double)c->gain[n] - (double)c->shift);
  return r;
}

int fopo_reward_fill(float *r, const fopo_reward *reward, const uint32_t *ids, const uint32_t *rows,
                     size_t B, size_t S) {
  if (reward->kind == FOPO_REWARD_CUSTOM) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a custom reward is filled by its own function, draw by draw; the others can "
                     "be looked up here");
  }
  for (size_t i = 0; i < B * S && reward->Y == NULL; i++)
    if (ids[i] >= reward->actions)
      return fopo_fail(FOPO_ERR_ARGUMENT, "draw %zu of context %zu is item %llu of %zu", i % S + 1,
                       i / S + 1, (unsigned long long)ids[i] + 1, reward->actions);
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < B; b++) {
    for (size_t s = 0; s < S; s++) r[b * S + s] = (float)one(reward, rows[b], ids[b * S + s]);
  }
  return FOPO_OK;
}
