/* How good lists of recommendations are, measured by the items Y that the users took next. For the
 * first k items of a list, with hits = how many of them are in Y:
 *
 *   hit        1[hits > 0]
 *   precision  hits / k
 *   recall     hits / |Y|
 *   ndcg       sum over the hits of 1 / log2(1 + rank), divided by the same sum of a list that
 *              begins with min(k, |Y|) hits                       (Jarvelin and Kekalainen 2002)
 *   seen       the share of the list that the user has already taken: that is in X
 *   value      the sum of the values of the hits (1 each where sessions have none)
 *
 * each a mean over the contexts. A context without Y counts as 0, and so does an empty list. At
 * k = 1 hit and precision are the reward of fopo_evaluate (judge/evaluate.h), and value is that of
 * sessions with values. There the sums of ndcg have a hit's value for 1, and the best list begins
 * with the items of Y of largest value. */
#ifndef FOPO_JUDGE_MEASURES_H
#define FOPO_JUDGE_MEASURES_H

#include "data/sessions.h"

/* A mean over contexts with its 95 % interval: Wilson's for the share of contexts with a hit, the
 * normal one, mean -+ 1.96 standard errors within 0 .. 1 (value: 0 or more), for the others. */
typedef struct {
  double value, low, high;
} fopo_measure;

typedef struct {
  size_t k;          /* set by the caller, >= 1 */
  size_t hits;       /* contexts with a hit */
  size_t unanswered; /* contexts with an empty list */
  fopo_measure hit, precision, recall, ndcg, seen, value;
  size_t distinct; /* different items in all lists */
  double coverage; /* their share of the catalogue */
  double gini;     /* of how often each of the P items is in a list: 0 all equally often, near 1 one
                    * item for everybody; 0 if all lists are empty */
} fopo_measures;

/* A mean over contexts of those above, by name ("ndcg"). */
typedef enum {
  FOPO_MEASURE_HIT,
  FOPO_MEASURE_PRECISION,
  FOPO_MEASURE_RECALL,
  FOPO_MEASURE_NDCG,
  FOPO_MEASURE_SEEN,
  FOPO_MEASURE_VALUE,
  FOPO_MEASURES
} fopo_measure_kind;

extern const char *const fopo_measure_names[FOPO_MEASURES + 1]; /* ended by NULL */

/* each [N]: the measure of the first k items of each list, of lists as below. */
int fopo_measure_each(float *each, fopo_measure_kind kind, size_t k, const uint32_t *ids,
                      size_t width, const fopo_sessions *sessions);

/* Fills m[0 .. n-1], each for its k, from ids [N, width], a list for each context, the best item
 * first, with FOPO_NO_ITEM behind the last; items of a list differ. k <= width. */
int fopo_measure_lists(fopo_measures *m, size_t n, const uint32_t *ids, size_t width,
                       const fopo_sessions *sessions);

#endif
