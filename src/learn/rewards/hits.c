/* The hit of a session: rhat(a, x) = value_a 1[a in Y]   (the paper, Experimental Results, where
 * all values are 1). */
#include "learn/reward.h"

static int make(fopo_reward *r, const fopo_reward_source *source) {
  r->Y = source->Y;
  r->shared = source->shared;
  r->contexts = r->shared != NULL ? r->shared->N : source->Y->rows;
  return fopo_reward_take_values(r, source);
}

static double value(const fopo_reward *r, size_t n, uint32_t a) {
  return fopo_csr_contains(r->Y, n, a) ? (double)fopo_hit_value(r->value, a) : 0.0;
}

static int look_up(fopo_device *d, const fopo_samples *samples, const fopo_reward_arrays *arrays,
                   const fopo_device_batch *x) {
  return d->ops->reward_hits(d, samples, &arrays->Y, arrays->value, x);
}

const fopo_reward_kind fopo_reward_hits = {
    .name = "hits",
    .title = "hits",
    .needs = FOPO_REWARD_OF_SESSIONS | FOPO_REWARD_OF_ANY_ITEM | FOPO_REWARD_IS_SPARSE,
    .make = make,
    .value = value,
    .look_up = look_up,
    // clang-format off
    .text = "value_a if the item a is in Y of the context, else 0; without values 1: session completion.\n"
          "With values a policy is trained towards what is worth most where it is taken: expected reward is the\n"
          "mean value of an item drawn from the policy. The log-likelihood weighs the items of Y by their\n"
          "values, over the sum of the values of Y; contexts whose Y is worth nothing do not count.\n"
          "fopo.evaluate takes the same reward, and baselines take value =.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "rw = fopo.reward.hits(s.train)\n"
             "price = {}\n"
             "for a = 1, s.train.n_items do price[a] = 1 + a % 10 end\n"
             "by_value = fopo.reward.hits(s.train, {value = price})\n"
             "assert(by_value.valued and not rw.valued)",
    // clang-format on
};
