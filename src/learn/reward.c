/* Rewards on the host, and the checks that a reward covers its data. During training hits are
 * looked up by the device (reward_hits); what is here is their plain form. */
#include "learn/reward.h"

#include "core/status.h"
#include "core/threads.h"

int fopo_reward_check(const fopo_reward *reward, size_t N, size_t P) {
  if (reward->kind == FOPO_REWARD_CUSTOM) {
    if (reward->contexts == 0 || reward->contexts == N) return FOPO_OK;
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the reward covers %zu contexts but there are %zu; make both from the same "
                     "sessions", reward->contexts, N);
  }
  if (reward->Y->rows == N && reward->Y->cols == P) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the reward covers %zu contexts x %zu items but the policy meets %zu x %zu; "
                   "make contexts, items and reward from the same sessions",
                   reward->Y->rows, reward->Y->cols, N, P);
}

int fopo_reward_fill(float *r, const fopo_reward *reward, const uint32_t *ids,
                     const uint32_t *rows, size_t B, size_t S) {
  if (reward->kind == FOPO_REWARD_CUSTOM) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a custom reward is filled by its own function, draw by draw; only hits can "
                     "be looked up here");
  }
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t b = 0; b < B; b++) {
    for (size_t s = 0; s < S; s++) {
      /* r = 1[a in Y] */
      r[b * S + s] = fopo_csr_contains(reward->Y, rows[b], ids[b * S + s]) ? 1.0f : 0.0f;
    }
  }
  return FOPO_OK;
}
