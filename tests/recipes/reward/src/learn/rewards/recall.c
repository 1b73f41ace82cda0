/* The share of a session that one item finds, as an example of a reward:
 * rhat(a, x) = 1[a in Y] / |Y|. Its sum over the recommended items is their recall. */
#include "learn/reward.h"

static int make(fopo_reward *r, const fopo_reward_source *source) {
  r->Y = source->Y;
  r->contexts = source->Y->rows;
  return 0;
}

static double value(const fopo_reward *r, size_t n, uint32_t a) {
  return fopo_csr_contains(r->Y, n, a) ? 1.0 / (double)(r->Y->indptr[n + 1] - r->Y->indptr[n])
                                       : 0.0;
}

const fopo_reward_kind fopo_reward_recall = {
    .name = "recall",
    .title = "recall",
    .needs = FOPO_REWARD_OF_SESSIONS | FOPO_REWARD_OF_ANY_ITEM,
    .make = make,
    .value = value,
    .text = "1 / |Y| if the item is in Y of the context, else 0: its share of the recall.",
    .example = "s = fopo.data.synthetic{users = 300, items = 400}:sessions{min_items = 10}\n"
               "rw = fopo.reward.recall(s.train)",
};
