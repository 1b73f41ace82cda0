/* What a policy is worth on sessions that it does not learn from, once for each record of a run. */
#ifndef FOPO_TRAIN_VALIDATION_H
#define FOPO_TRAIN_VALIDATION_H

#include "judge/evaluate.h"
#include "judge/expected.h"
#include "judge/measures.h"

/* Ways to tell which of two validations is the better one. */
typedef enum {
  FOPO_BY_REWARD,   /* greedy */
  FOPO_BY_EXPECTED, /* the objective */
  FOPO_BY_MEASURE,  /* a measure of lists */
  FOPO_BYS
} fopo_by;

/* Nothing is owned. */
typedef struct {
  const fopo_sessions *sessions;
  fopo_matrix contexts;       /* [N, D] */
  fopo_index *exact;          /* gives the true argmax; the gradient may share it */
  fopo_index *index;          /* the reward through it too; NULL: not wanted */
  size_t most, expected_most; /* contexts of the reward and of the expected reward, evenly spread;
                               * most 0: all; expected_most 0: it is not computed */
  size_t sampled;             /* of these contexts, how many are judged where not all are: drawn by
                               * the seed, always the same; 0: all */
  uint64_t seed;              /* of them, and of the items that stand for a large catalogue */
  int unseen;                 /* 1: the items of X are neither recommended nor drawn */
  fopo_objective_kind objective;  /* what `expected` below is */
  const fopo_own_objective *rule; /* of an objective of the caller's; NULL: another */
  fopo_measure_kind measure;      /* of the first k items of each list */
  size_t k;                       /* 0: no such measure is wanted */
  const float *value; /* [P] of the reward that is trained for, by which both rewards are
                       * measured; NULL: 1 */
} fopo_validation_options;

/* What each context came to in each of the ways, so that two validations can be paired: the first
 * contexts of both. */
typedef struct {
  float *of[FOPO_BYS]; /* [n]; owned */
  size_t n[FOPO_BYS];  /* 0: not computed */
} fopo_worth_each;

typedef struct {
  fopo_validation_options o;
  fopo_matrix some;      /* [most, D], the sample first; {0}: all contexts are judged */
  fopo_sessions some_of; /* their Y, and their X */
  fopo_few_items few;    /* that stand for a large catalogue; {0}: all items are summed */
  uint64_t version;      /* of the policy whose items o.exact knows */
  fopo_worth_each each;  /* of the last run */

  uint32_t *ids, *counts; /* [n, k], [n] the lists of o.measure; NULL: there is none */
  float *scores;          /* [n, k] */
} fopo_validation;

/* NaN where it was not computed. */
typedef struct {
  double reward;        /* greedy: the mean of 1[best item in Y], times its value */
  double reward_se;     /* its standard error */
  double index;         /* the same through o.index */
  double expected, se;  /* the objective: by default the mean of sum over Y of pi; and its standard
                         * error */
  double measure;       /* the mean of o.measure */
  size_t contexts;      /* of the reward */
  size_t distinct, top; /* different best items; contexts with the most frequent of them */
} fopo_worth;

int fopo_validation_init(fopo_validation *v, const fopo_validation_options *options,
                         uint64_t version);
void fopo_validation_done(fopo_validation *v); /* accepts {0} */

/* pi with its theta on the host; by the sample, or by all contexts. The exact index follows items
 * that are learnt; the other one is asked as it is. */
int fopo_validation_run(fopo_worth *w, fopo_validation *v, const fopo_policy *pi, int all);

/* 1 if there is a sample. */
int fopo_validation_samples(const fopo_validation *v);

fopo_worth fopo_worth_unknown(void);

/* A worth as numbers, and back. */
enum { FOPO_WORTH_NUMBERS = 9 };
void fopo_worth_put(double x[FOPO_WORTH_NUMBERS], const fopo_worth *w);
fopo_worth fopo_worth_take(const double x[FOPO_WORTH_NUMBERS]);

int fopo_worth_each_copy(fopo_worth_each *to, const fopo_worth_each *from); /* reuses its memory */
void fopo_worth_each_done(fopo_worth_each *e);                              /* accepts {0} */

/* What the contexts of both came to more in `a` than in `b`, in the mean, with its 95 % interval:
 * that of pairs where each has a hit or none (judge/evaluate.h), else the normal one of the
 * differences. Contexts without a value in one of them are left out. 0: one of them has none. */
int fopo_worth_difference(double *mean, double *low, double *high, const fopo_worth_each *a,
                          const fopo_worth_each *b, fopo_by by, int by_value);

#endif
