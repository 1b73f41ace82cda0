/* The expected reward of a policy on sessions that it has not seen: the mean over the contexts of
 * E_pi 1[a in Y] = sum over Y of pi(a | x), exactly. It is what training maximises; fopo_evaluate
 * gives the reward of the policy's best item alone. The same pass gives the log-likelihood of Y,
 * and the value of every objective. Of sessions with values, a hit on item a counts value_a in the
 * reward, and log pi(a | x) weighs value_a of their sum over Y in the likelihood. */
#ifndef FOPO_JUDGE_EXPECTED_H
#define FOPO_JUDGE_EXPECTED_H

#include "data/sessions.h"
#include "policy/policy.h"
#include "policy/score.h"

/* A standard error is INFINITY for one context, which says nothing about the spread. */
typedef struct {
  size_t contexts;   /* those that were summed */
  size_t unanswered; /* of these, contexts in which all items are masked: they earn 0 */
  double reward, se; /* the mean and its standard error */
  double effective;  /* the median over the contexts with an item left of 1 / sum_a pi(a | x)^2, the
                      * number of items that the policy chooses from in effect: 1 .. P; 0: there is
                      * no such context */

  /* The mean over contexts of the mean over Y of log pi(a | x), and its standard error. Masked
   * items of Y are not counted, nor contexts without others, or whose others are worth nothing;
   * NAN: there are no others. */
  double likelihood, likelihood_se;

  /* Of each objective the mean over contexts of its value (device/objective.h), as the rule makes
   * it of the context's expected reward and log Z, and its standard error. Not of baselines. */
  double value[FOPO_OBJECTIVE_ROWS], value_se[FOPO_OBJECTIVE_ROWS];
} fopo_expected;

/* x [N, L] contexts of the sessions; row n of the sparse scores s is that of context n (NULL: there
 * are none): of the policy that never shows an item of X, fopo_mask_of(&sessions->X). At most
 * `most` contexts are summed, evenly spread; 0: all. A context costs a product with every item. */
int fopo_evaluate_expected(fopo_expected *e, const fopo_policy *pi, fopo_matrix x,
                           const fopo_sessions *sessions, const fopo_sparse_scores *s, size_t most);

/* The same; each [contexts that are summed]: the value of the objective in each of them. */
int fopo_evaluate_expected_each(fopo_expected *e, float *each, fopo_objective_kind objective,
                                const fopo_policy *pi, fopo_matrix x, const fopo_sessions *sessions,
                                const fopo_sparse_scores *s, size_t most);

#endif
