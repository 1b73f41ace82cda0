/* Weights between items, by which fopo_policy_neighbours scores: what item b of a session says for
 * item a. Where they come from is the caller's: similarities, or the weights of EASE or of SLIM. */
#ifndef FOPO_POLICY_NEIGHBOURS_H
#define FOPO_POLICY_NEIGHBOURS_H

#include "contexts/contexts.h"
#include "policy/policy.h"

typedef struct fopo_neighbours {
  fopo_csr weights; /* [P, P] w_ba in row b, column a; no b = a */
  float *log_m;     /* [P] log of m_a = (users of item a + 1) / (their mean + 1) */
  float *log_v;     /* [P] log of v_a = value of item a / the mean of those above 0; NULL: all are
                     * worth the same */

  /* Weights that were learnt from all users know each of them, and so their own sessions look
   * better than those of others. Training contexts are scored by weights that were learnt without
   * them (cross-fitting): those of their part. */
  fopo_csr *held; /* [n_held] weights, each learnt without the users of a part; indptr and ids NULL:
                   * those of `weights`, and a value that is 0 is no weight */
  size_t n_held;
  uint32_t *part; /* [n_contexts] of each training context */

  /* Or, of similarities, by those of all other users, which follow from the weights and from what
   * the user took. */
  fopo_csr taken; /* [n_contexts, P] of the user of each training context; indptr NULL: not so */
  float *users;   /* [P] of each item; of the cosine its root */
  int jaccard;    /* 0: cosine */
  float shrink;
  size_t longest; /* weights of an item, at most: rows of as many were cut to them */

  /* Or, of a linear model in closed form whose weights are all kept, by those of all other users:
   * w_ba becomes (w_ba - g_b t_a) / (1 + g_a t_a), t_a = g_a over_a / d. Rows that were cut to
   * their largest weights would still know the user by which items are in them. */
  fopo_matrix g; /* [n_contexts, P]; x NULL: not so */
  float *d;      /* [n_contexts] */
  float *over;   /* [P] */

  /* The items of a dense part know every user, too: of training contexts its scores are those of
   * items that were made without their users. */
  fopo_matrix *dense;   /* [n_dense] of [P, L] */
  size_t n_dense;       /* 0: training contexts have the policy's own items, as all others */
  uint32_t *dense_part; /* [n_contexts] */
  fopo_encoding how;    /* contexts are made of them; its weights are dense_weights */
  float *dense_weights; /* [P]; NULL: every item weighs 1 */

  size_t n_contexts; /* 0: training contexts are scored by `weights`, as all others */
} fopo_neighbours;

/* A row of weights. */
typedef struct {
  const uint32_t *ids; /* [n] ascending */
  const float *w;      /* [n] */
  size_t n;
} fopo_weights_row;

/* *weights becomes the n largest of each row of W (0: all), without b = a. Ties go to the smaller
 * id. */
int fopo_neighbours_take(fopo_csr *weights, const fopo_csr *W, size_t n);

/* log_m [P] of the interactions M [users, P] of the training users. */
int fopo_neighbours_count(float **log_m, const fopo_csr *M);

/* log_v [P] of what each item is worth, value [P], finite and 0 or more. */
int fopo_neighbours_value(float **log_v, const float *value, size_t P);

/* pi scores by the weights of x, which must outlive it. If it learns them, there are also the
 * numbers that are added, and held weights are kept in the rows of `weights`. */
int fopo_neighbours_attach(fopo_policy *pi, fopo_neighbours *x);

/* pi, whose weights x were learnt again from the same sessions, becomes as a saved one, whose
 * weights are `from`: learnt ones differ from those of the start by what is added. */
int fopo_neighbours_resume(fopo_policy *pi, fopo_neighbours *x, const fopo_neighbours *from);

/* The weights are similarities (fopo_similarity of judge/baselines/together.h) of the training
 * contexts' interactions M [n_contexts, P], which become the weights' own. */
int fopo_neighbours_leave_out(fopo_neighbours *x, fopo_csr *M, int jaccard, double shrink);

/* The query and *items of the dense part of a context; made of lists, if need be, in scratch [L].
 */
const float *fopo_neighbours_dense(fopo_matrix *items, float *scratch, const fopo_policy *pi,
                                   const fopo_list_context *context);

/* The weights of item b of X, of which those that are 0 do not count, by which context number
 * `context` is scored (SIZE_MAX: not one of the training contexts). They may lie in row->values,
 * until the next call at least. The caller asks for all b of X in one order, with row->used 0
 * before, and perhaps once more (again). */
fopo_weights_row fopo_neighbours_row(const fopo_policy *pi, fopo_list_row *row, size_t b,
                                     size_t context, int again);

/* sums [P] of voice [n] times the rows of X [n], of all weights: no row leaves an item out but its
 * own. */
void fopo_neighbours_sum_whole(float *sums, const fopo_neighbours *x, const float *voice,
                               const fopo_list_context *context);

/* One of them in double; 0: there is no weight. */
double fopo_neighbours_weight(const fopo_policy *pi, size_t b, uint32_t a, size_t context);

/* votes [n]: what each item of X adds to the score of item a, not counting a dense part. */
void fopo_neighbours_votes(double *votes, const fopo_policy *pi, const uint32_t *X, size_t n,
                           uint32_t a);

void fopo_neighbours_done(fopo_neighbours *x); /* accepts {0} */

#endif
