/* What all rewards share: making one from its row, the checks that it covers its data, and its
 * values on the host. */
#include "learn/reward.h"

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "core/values.h"

int fopo_reward_init(fopo_reward *r, const fopo_reward_kind *kind,
                     const fopo_reward_source *source) {
  *r = (fopo_reward){.kind = kind};
  return kind->make(r, source);
}

void fopo_reward_done(fopo_reward *r) {
  fopo_free(r->owned);
  *r = (fopo_reward){0};
}

int fopo_reward_take_values(fopo_reward *r, const fopo_reward_source *source) {
  if (source->value == NULL) return FOPO_OK;
  int status = fopo_values_copy(&r->owned, source->value, source->n_values, source->Y->cols);
  r->value = r->owned;
  return status;
}

fopo_reward_arrays fopo_reward_arrays_of(const fopo_reward *r) {
  static const fopo_csr none = {0};
  return (fopo_reward_arrays){
      .Y = r->Y != NULL ? *r->Y : none, .value = r->value, .credit = r->credit, .model = r->model};
}

int fopo_reward_check(const fopo_reward *r, size_t N, size_t P) {
  size_t actions = r->Y != NULL ? r->Y->cols : r->actions;
  if ((r->contexts == 0 || r->contexts == N) && (actions == 0 || actions == P)) return FOPO_OK;
  if (actions == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the reward covers %zu contexts but there are %zu; make both from the same "
                     "sessions",
                     r->contexts, N);
  }
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the reward covers %zu contexts x %zu items but the policy meets %zu x %zu; "
                   "make contexts, items and reward from the same %s",
                   r->contexts, actions, N, P, r->Y != NULL ? "sessions" : "log");
}

int fopo_reward_fill(float *values, const fopo_reward *r, const uint32_t *ids, const uint32_t *rows,
                     size_t B, size_t S) {
  if (fopo_reward_from_caller(r)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a custom reward is filled by its own function, draw by draw; the others can "
                     "be looked up here");
  }
  if (r->shared != NULL) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "these rewards are of sessions that are shared out to the ranks, for training "
                     "alone; use fopo.reward.hits of the whole sessions");
  }
  for (size_t i = 0; i < B * S && r->actions > 0; i++) {
    if (ids[i] >= r->actions) {
      return fopo_fail(FOPO_ERR_ARGUMENT, "draw %zu of context %zu is item %llu of %zu", i % S + 1,
                       i / S + 1, (unsigned long long)ids[i] + 1, r->actions);
    }
  }
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < B; b++) {
    for (size_t s = 0; s < S; s++) {
      values[b * S + s] = (float)r->kind->value(r, rows[b], ids[b * S + s]);
    }
  }
  return FOPO_OK;
}
