/* The list of rewards. */
#include <string.h>

#include "learn/reward.h"

#define X(name) &fopo_reward_##name,
const fopo_reward_kind *const fopo_rewards[] = {
#include "learn/rewards/rewards.def"
    NULL};
#undef X

const fopo_reward_kind *fopo_reward_named(const char *name) {
  for (size_t i = 0; fopo_rewards[i] != NULL; i++) {
    if (strcmp(fopo_rewards[i]->name, name) == 0) return fopo_rewards[i];
  }
  return NULL;
}

size_t fopo_reward_number(const fopo_reward_kind *kind) {
  size_t i = 0;
  while (fopo_rewards[i] != NULL && fopo_rewards[i] != kind) i++;
  return i;
}
