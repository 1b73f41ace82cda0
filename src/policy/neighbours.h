/* Weights between items, by which fopo_policy_neighbours scores: what item b of a session says for
 * item a. Where they come from is the caller's: similarities, or the weights of EASE or of SLIM. */
#ifndef FOPO_POLICY_NEIGHBOURS_H
#define FOPO_POLICY_NEIGHBOURS_H

#include "policy/policy.h"

typedef struct fopo_neighbours {
  fopo_csr weights; /* [P, P] w_ba in row b, column a; no b = a */
  float *log_m;     /* [P] log of m_a = (users of item a + 1) / (their mean + 1) */

  /* Weights that were learnt from all users know each of them, and so their own sessions look
   * better than those of others. Training contexts are scored by weights that were learnt without
   * them (cross-fitting): those of their part. */
  fopo_csr *held; /* [n_held] weights, each learnt without the users of a part */
  size_t n_held;  /* 0: training contexts are scored by `weights` too */
  uint32_t *part; /* [n_contexts] of each training context */
  size_t n_contexts;
} fopo_neighbours;

/* *weights becomes the n largest of each row of W (0: all), without b = a. Ties go to the smaller
 * id. */
int fopo_neighbours_take(fopo_csr *weights, const fopo_csr *W, size_t n);

/* log_m [P] of the interactions M [users, P] of the training users. */
int fopo_neighbours_count(float **log_m, const fopo_csr *M);

/* votes [n]: what each item of X adds to the score of item a, not counting a dense part. */
void fopo_neighbours_votes(double *votes, const fopo_policy *pi, const uint32_t *X, size_t n,
                           uint32_t a);

void fopo_neighbours_done(fopo_neighbours *x); /* accepts {0} */

#endif
