/* The list of rewards. */
#include "learn/reward.h"

#define X(name) &fopo_reward_##name,
const fopo_reward_kind *const fopo_rewards[] = {
#include "learn/rewards/rewards.def"
    NULL};
#undef X

size_t fopo_reward_number(const fopo_reward_kind *kind) {
  size_t i = 0;
  while (fopo_rewards[i] != NULL && fopo_rewards[i] != kind) i++;
  return i;
}
