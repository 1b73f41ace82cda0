/* Judging a policy on sessions it has not seen: the mean of 1[best item in Y] (the paper's
 * R_test), by true argmax or through an index. Of sessions with values, the mean of value_a
 * 1[best item a in Y]. */
#ifndef FOPO_JUDGE_EVALUATE_H
#define FOPO_JUDGE_EVALUATE_H

#include "data/sessions.h"
#include "policy/policy.h"

typedef struct {
  size_t contexts; /* N */
  size_t hits;
  size_t unanswered; /* contexts for which the index found nothing */
  double reward;     /* hits / N, or by value */
  double se;         /* its standard error; INFINITY: of one context, by value */
  double low, high;  /* 95 %: Wilson's interval; by value the normal one, 0 or more */
  double seconds;    /* search and look-up */
  size_t distinct;   /* different items recommended: coverage */
  size_t top;        /* contexts that were recommended the most frequent item */
} fopo_evaluation;

/* x [N, L] contexts of the sessions. An exact or norm index gives the true argmax. mask:
 * row n has the items that are left out in context n (NULL: none), as fopo_mask_of(&sessions->X)
 * for a server that leaves out what was taken. */
int fopo_evaluate(fopo_evaluation *e, const fopo_policy *pi, fopo_matrix x,
                  const fopo_sessions *sessions, fopo_index *ix, const fopo_sparse_scores *mask);

/* The same; earned [N]: what the best item is worth in each context, 0 where it is not in Y. */
int fopo_evaluate_each(fopo_evaluation *e, float *earned, const fopo_policy *pi, fopo_matrix x,
                       const fopo_sessions *sessions, fopo_index *ix,
                       const fopo_sparse_scores *mask);

/* ids, scores [N, k], counts [N]: the k best items of each context, of those that are not masked.
 */
int fopo_evaluate_lists(uint32_t *ids, float *scores, uint32_t *counts, const fopo_policy *pi,
                        fopo_matrix x, fopo_index *ix, const fopo_sparse_scores *mask, size_t k);

/* What an index costs: the reward by true argmax and through ix on the same contexts. */
typedef struct {
  fopo_evaluation exact, index;
  size_t only_exact, only_index; /* contexts that earn more by one of the two */
  double lost;                   /* exact.reward - index.reward */
  double low, high;              /* its 95 % interval, of pairs: by Agresti and Min (2005), by value
                                  * the normal one of the differences */
} fopo_evaluation_lost;

/* As fopo_evaluate, with `exact` an index that gives the true argmax. */
int fopo_evaluate_lost(fopo_evaluation_lost *e, const fopo_policy *pi, fopo_matrix x,
                       const fopo_sessions *sessions, fopo_index *exact, fopo_index *ix,
                       const fopo_sparse_scores *mask);

/* The normal's 97.5 % point, of 95 % intervals. */
#define FOPO_Z95 1.959963984540054

/* 95 % interval of the difference (b - c) / n of two paired proportions: b of n pairs have a hit of
 * the first alone, c of the second alone (Agresti and Min 2005). */
void fopo_paired(double *low, double *high, size_t b, size_t c, size_t n);

/* The mean of x [n] - y [n] (y NULL: of x) over the pairs without a NaN, and its standard error,
 * INFINITY if there is but one. */
void fopo_mean_of_pairs(double *mean, double *se, const float *x, const float *y, size_t n);

/* 95 % Wilson score interval of k hits in n trials. */
void fopo_wilson(double *low, double *high, size_t k, size_t n);

#endif
