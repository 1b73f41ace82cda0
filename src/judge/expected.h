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
  double error;      /* the part of se that few items make (below); 0: all items were summed */
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

/* Items that stand for a large catalogue in log Z: a head, those of largest norm, each for itself,
 * and a tail, draws of the M others, one from each of `tail` equal strips of the norm order, each
 * for M / tail items; the items of Y stand for themselves. To be read; {0}: all items are summed.
 *
 * E Z is that of all items. The standard error of log Z, by the spread of the tail's weights, is in
 * those of the values, as if it were the same error in every context: the draws are. */
typedef struct {
  size_t head, tail, others;
  fopo_matrix rows; /* [head + tail, L] the items; owned */
  uint64_t *bits;   /* [FOPO_FEW_BITS / 64] bit id % FOPO_FEW_BITS of each: most others are told
                     * from them by it; owned */
  uint64_t *places; /* [head + tail] item << 32 | row, descending; owned */
} fopo_few_items;

enum { FOPO_FEW_BITS = 1 << 16 };
enum { FOPO_FEW_ITEMS = 8192 }; /* up to so many items of a catalogue, all are summed */

/* order [items.rows] by descending norm; more than FOPO_FEW_ITEMS items. */
int fopo_few_items_take(fopo_few_items *few, fopo_matrix items, const uint32_t *order,
                        uint64_t seed);
void fopo_few_items_done(fopo_few_items *few); /* accepts {0} */

/* x [N, L] contexts of the sessions; row n of the sparse scores s is that of context n (NULL: there
 * are none): of the policy that never shows an item of X, fopo_mask_of(&sessions->X). At most
 * `most` contexts are summed, evenly spread; 0: all. A context costs a product with every item.
 * each [contexts that are summed]: the value of the objective in each of them. rule: of
 * FOPO_OBJECTIVE_CUSTOM, or NULL, and that value is the expected reward. few: NULL, or items of the
 * policy, which has a whole catalogue and does not score lists. */
int fopo_evaluate_expected(fopo_expected *e, float *each, fopo_objective_kind objective,
                           const fopo_own_objective *rule, const fopo_policy *pi, fopo_matrix x,
                           const fopo_sessions *sessions, const fopo_sparse_scores *s, size_t most,
                           const fopo_few_items *few);

#endif
