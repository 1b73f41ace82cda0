/* The expected reward of a policy on sessions that it has not seen: the mean over the contexts of
 * E_pi 1[a in Y] = sum over Y of pi(a | x), exactly. It is what training maximises; fopo_evaluate
 * gives the reward of the policy's best item alone. */
#ifndef FOPO_JUDGE_EXPECTED_H
#define FOPO_JUDGE_EXPECTED_H

#include "data/sessions.h"
#include "policy/policy.h"

typedef struct {
  size_t contexts;   /* those that were summed */
  double reward, se; /* the mean and its standard error; se is 0 for one context */
  double effective;  /* the median over the contexts of 1 / sum_a pi(a | x)^2, the number of items
                      * that the policy chooses from in effect: 1 .. P */
} fopo_expected;

/* x [N, L] contexts of the sessions. At most `most` of them are summed, evenly spread; 0: all. A
 * context costs a product with every item. unseen: of the policy that never shows an item that the
 * user has already taken, whose chances are pi(a | x) / (1 - sum over X of pi(. | x)), and 0 for
 * the items of X; `effective` stays that of pi. */
int fopo_evaluate_expected(fopo_expected *e, const fopo_policy *pi, fopo_matrix x,
                           const fopo_sessions *sessions, size_t most, int unseen);

#endif
