#include "learn/estimators/slates.h"

const char *const fopo_slate_measures[] = {"hit", "sum", "dcg", "ndcg", NULL};
const char *const fopo_slate_baselines[] = {"leave-one-out", "none", NULL};

size_t fopo_slate_draws(const fopo_batch *b) {
  return b->options->samples * b->options->proposal.k;
}

int fopo_slate_has_baseline(const fopo_gradient_options *o) {
  return o->own[FOPO_SLATE_BASELINE].choice == 0;
}

int fopo_slate_check(const fopo_gradient_options *o, const fopo_estimator_use *use) {
  const char *name = o->estimator->name;
  const fopo_reward *r = use->reward;
  if (use->policy->learns[FOPO_BLOCK_ITEMS]) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "gradient %s cannot move items; make the policy without train_items", name);
  }
  if (o->proposal.k > use->P) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a slate of %zu items is asked for but there are %zu",
                     o->proposal.k, use->P);
  }
  if (o->own[FOPO_SLATE_MEASURE].choice == FOPO_SLATE_NDCG && (r->Y == NULL || r->value != NULL)) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "ndcg is of hits that are worth 1 each; use fopo.reward.hits without value, or "
        "measure = \"dcg\"");
  }
  return FOPO_OK;
}

fopo_slates fopo_slates_of(const fopo_batch *b) {
  const fopo_gradient_options *o = b->options;
  fopo_slates x = {.S = o->samples,
                   .k = o->proposal.k,
                   .measure = o->own[FOPO_SLATE_MEASURE].choice,
                   .discount = o->own[FOPO_SLATE_DISCOUNT].number,
                   .baseline = fopo_slate_has_baseline(o),
                   .Y = b->data->credited.Y,
                   .rows = b->piece.device.rows};
  fopo_batch_fetched(b, &x.Y, &x.rows);
  return x;
}
