/* Policies as most tests make them. */
#ifndef FOPO_TESTS_POLICIES_H
#define FOPO_TESTS_POLICIES_H

#include "policy/policy.h"

static inline int init_linear(fopo_policy *pi, fopo_matrix items, size_t D, fopo_theta_start start,
                              float temperature, uint64_t seed) {
  fopo_policy_options o = {
      .context_dim = D, .temperature = temperature, .seed = seed, .start = start};
  return fopo_policy_init(pi, &fopo_policy_linear, items, &o);
}

/* Of the layers of *net, the last of which is as wide as the items. */
static inline int init_network(fopo_policy *pi, fopo_matrix items, const fopo_network *net,
                               float temperature, uint64_t seed) {
  fopo_policy_options o = {.context_dim = net->width[0],
                           .temperature = temperature,
                           .seed = seed,
                           .hidden = {.n = net->layers - 1},
                           .activation = (int)net->activation};
  for (size_t i = 1; i < net->layers; i++) o.hidden.at[i - 1] = net->width[i];
  return fopo_policy_init(pi, &fopo_policy_mlp, items, &o);
}

#endif
