/* The best items of contexts, without those that must not be shown. */
#ifndef FOPO_POLICY_RECOMMEND_H
#define FOPO_POLICY_RECOMMEND_H

#include "policy/policy.h"
#include "policy/score.h"

typedef struct {
  const fopo_policy *policy;
  fopo_index *index;
  fopo_matrix x;                  /* [N, D] contexts */
  const fopo_sparse_scores *mask; /* the items of row n are not recommended in context n; NULL: all
                                   * may be. Sparse scores with values are refused */
  int masked;            /* 1: the mask is the policy's own, and its items have no probability */
  const uint32_t *never; /* [n_never] ascending, recommended in no context */
  size_t n_never;
  const uint32_t *training; /* [N] which of a policy's training contexts each is, whose users its
                             * weights do not know then (policy/lists.h); NULL: none */
  int may_be_short;         /* 1: a context for which fewer than k items are left has a short row */
} fopo_recommend_plan;

/* ids, scores [N, k], counts [N]: the k items of largest score that are not left out, best first. A
 * graph that finds too few gives a short row, with FOPO_NO_ITEM at its end. log_z [N] (NULL: not
 * wanted): the probability of an item is exp(score - log_z), under the softmax over all P items, or
 * over those that the policy's own mask leaves.
 * A context for which fewer than k items are left is FOPO_ERR_ARGUMENT unless rows may be short. */
int fopo_recommend(uint32_t *ids, float *scores, uint32_t *counts, double *log_z,
                   const fopo_recommend_plan *plan, size_t k);

#endif
