/* What a policy is worth on sessions that it does not learn from, once for each record of a run. */
#ifndef FOPO_TRAIN_VALIDATION_H
#define FOPO_TRAIN_VALIDATION_H

#include "judge/evaluate.h"
#include "judge/expected.h"

/* Nothing is owned. */
typedef struct {
  const fopo_sessions *sessions;
  fopo_matrix contexts;       /* [N, D] */
  fopo_index *exact;          /* gives the true argmax */
  fopo_index *index;          /* the reward through it too; NULL: not wanted */
  size_t most, expected_most; /* contexts of the reward and of the expected reward, evenly spread;
                               * most 0: all; expected_most 0: it is not computed */
  int unseen;                 /* 1: the items of X are neither recommended nor drawn */
  fopo_objective_kind objective; /* what `expected` below is */
  const float *value;            /* [P] of the reward that is trained for, by which both rewards are
                                  * measured; NULL: 1 */
} fopo_validation_options;

typedef struct {
  fopo_validation_options o;
  fopo_matrix some;      /* [most, D]; {0}: all contexts are judged */
  fopo_sessions some_of; /* their Y, and their X if o.unseen */
  uint64_t version;      /* of the policy whose items o.exact knows */
} fopo_validation;

/* NaN where it was not computed. */
typedef struct {
  double reward;        /* greedy: the mean of 1[best item in Y], times its value */
  double reward_se;     /* its standard error */
  double index;         /* the same through o.index */
  double expected, se;  /* the objective: by default the mean of sum over Y of pi; and its standard
                         * error */
  size_t contexts;      /* of the reward */
  size_t distinct, top; /* different best items; contexts with the most frequent of them */
} fopo_worth;

int fopo_validation_init(fopo_validation *v, const fopo_validation_options *options,
                         uint64_t version);
void fopo_validation_done(fopo_validation *v); /* accepts {0} */

/* pi with its theta on the host. The exact index follows items that are learnt; the other one is
 * asked as it is. */
int fopo_validation_run(fopo_worth *w, fopo_validation *v, const fopo_policy *pi);

fopo_worth fopo_worth_unknown(void);

#endif
