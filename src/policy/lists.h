/* Policies that score the list of a context: with X the items that a user took, f(a, X) is a number
 * for a few candidates a, which follow from X, and 0 for all other items. The items of X are always
 * masked. So the softmax over all P items costs as much as the candidates alone:
 *
 *     Z = sum over candidates of exp f_a  +  (P - |X| - candidates) exp 0.
 *
 * With FOPO_SCORED_ALL the others have scores too, which cost the more. They stand behind the
 * candidates in the row: all of them, or those that are asked for, of which draws stand for more.
 *
 * A kind of policy does so if it has the function score_list (policy/policy.h). Its scores depend
 * on few numbers of theta, the scalars, and it gives their slopes with the scores. Wherever the
 * other kinds are given a mask, these kinds are given X by it. */
#ifndef FOPO_POLICY_LISTS_H
#define FOPO_POLICY_LISTS_H

#include <math.h>

#include "policy/policy.h"

enum { FOPO_LIST_SCALARS = 5 }; /* scalars of theta, at most */

/* In fopo_list_row.place, of an item of X. */
#define FOPO_LIST_MASKED UINT32_MAX

/* The candidates of one context, of one thread. */
struct fopo_list_row {
  size_t P, n;     /* items; those in the row */
  size_t head;     /* candidates, which come first */
  size_t others;   /* items that are neither masked nor in the row: of the score 0 */
  uint32_t *place; /* [P] 0: f = 0; FOPO_LIST_MASKED: in X; else 1 + the item's place in ids */
  uint32_t *ids;   /* [P] in the order in which they were found */
  float *f;        /* [P] */
  float *slopes;   /* [P, FOPO_LIST_SCALARS] of f by each scalar; NULL: not wanted */
  float *sums;     /* [P, 2] scratch of the kind */
  float *c;        /* [P] what the gradient weighs the slopes of f by; NULL without slopes */
  float *values; /* [2 P] scratch of the kind, of which the first `used` are rows of this context */
  size_t used;
  float *w; /* [P] exp(f - top), by fopo_list_normalise */
};

/* *rows, which is freed (NULL: there are none), becomes [fopo_threads()] of them, to be freed by
 * fopo_free. */
int fopo_list_rows_renew(fopo_list_row **rows, size_t P, int slopes);

/* After score_list: place [P] is 0 again. */
void fopo_list_clear(fopo_list_row *row, const fopo_list_context *context);

/* The softmax of a row. Sums are relative to exp(top), the largest score. */
typedef struct {
  double top, w,
      ww;      /* sum of exp(f - top), and of its square, over all items that are not masked */
  double rest; /* exp(0 - top): the weight of an item that is no candidate */
  double candidates; /* the part of w that is theirs */
} fopo_list_sums;

/* row->w too. w = 0: all items are masked. */
fopo_list_sums fopo_list_normalise(fopo_list_row *row);

/* The weight of an item, of the sums' w; 0 if it is masked. */
static inline double fopo_list_weight(const fopo_list_row *row, const fopo_list_sums *s,
                                      uint32_t id) {
  uint32_t place = row->place[id];
  if (place == FOPO_LIST_MASKED) return 0.0;
  return place == 0 ? s->rest : (double)row->w[place - 1];
}

/* The same of its score. */
static inline float fopo_list_score(const fopo_list_row *row, uint32_t id) {
  uint32_t place = row->place[id];
  if (place == FOPO_LIST_MASKED) return -INFINITY;
  return place == 0 ? 0.0f : row->f[place - 1];
}

#endif
