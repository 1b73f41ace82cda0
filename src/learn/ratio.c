#include "learn/ratio.h"

#include <math.h>

#include "core/status.h"

float fopo_ratio_shift(const fopo_reward *r) {
  float least = r->credit.gain[0];
  for (size_t i = 1; i < r->contexts; i++) least = fminf(least, r->credit.gain[i]);
  return least - 1.0f;
}

int fopo_ratio_check(const fopo_binding *data, const fopo_reward *r) {
  unsigned of_log = FOPO_REWARD_OF_LOGS | FOPO_REWARD_IS_SPARSE;
  const char *title = fopo_objective_rows[FOPO_OBJECTIVE_SNIPS].title;
  if ((r->kind->needs & of_log) != of_log) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the %s is of the rewards of a log by their propensities, and this reward is "
                     "%s; use fopo.reward.ips",
                     title, r->kind->title);
  }
  if (fopo_parts_is_alone(data->parts) && !data->learns_items) return FOPO_OK;
  return fopo_fail(
      FOPO_ERR_UNAVAILABLE,
      "the %s is a ratio over the batch, in one process, with items that are not "
      "learnt; use these, or fopo.reward.ips{translate = ...} with the expected reward",
      title);
}
