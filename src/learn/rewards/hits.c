/* The hit of a session: rhat(a, x) = 1[a in Y]   (the paper, Experimental Results). */
#include "learn/reward.h"

static int make(fopo_reward *r, const fopo_reward_source *source) {
  r->Y = source->Y;
  r->shared = source->shared;
  r->contexts = r->shared != NULL ? r->shared->N : source->Y->rows;
  return 0;
}

static double value(const fopo_reward *r, size_t n, uint32_t a) {
  return fopo_csr_contains(r->Y, n, a) ? 1.0 : 0.0;
}

static int look_up(fopo_device *d, const fopo_samples *samples, const fopo_reward_arrays *arrays,
                   const fopo_device_batch *x) {
  return d->ops->reward_hits(d, samples, &arrays->Y, x);
}

const fopo_reward_kind fopo_reward_hits = {
    .name = "hits",
    .title = "hits",
    .needs = FOPO_REWARD_OF_SESSIONS | FOPO_REWARD_OF_ANY_ITEM | FOPO_REWARD_IS_SPARSE,
    .make = make,
    .value = value,
    .look_up = look_up,
    // clang-format off
    .text = "1 if the item is in Y of the context, else 0: session completion.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}\n"
             "rw = fopo.reward.hits(s.train)",
    // clang-format on
};
