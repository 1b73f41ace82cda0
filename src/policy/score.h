/* The sparse part of the scores on the host: f(a, x) = q(x) . beta_a + s(a, x).
 *
 * fopo_sparse_scores of device/score.h, with host pointers, holds s; NULL, or zeros, stands for s =
 * 0 everywhere. Context b of the sparse scores is query b of a call. A mask is s = -infinity:
 * masked scores are set to it before any maximum or exponential is taken, so that the weight of a
 * masked item is 0 exactly. */
#ifndef FOPO_POLICY_SCORE_H
#define FOPO_POLICY_SCORE_H

#include <math.h>

#include "core/sort.h"
#include "device/ops.h"

/* The scores of B contexts over a catalogue. Nothing is owned. */
typedef struct {
  fopo_matrix Q;                    /* [B, L] queries */
  fopo_matrix items;                /* beta [P, L], or the rows of this rank's part */
  const fopo_part *part;            /* NULL: the items are the whole catalogue */
  const fopo_sparse_scores *sparse; /* of item ids, whether there are parts or not; NULL: none */
} fopo_scores;

/* True if all n scores are masked, and none of them is NaN. */
static inline int fopo_score_all_masked(const float *f, size_t n) {
  size_t a = 0;
  while (a < n && f[a] == -INFINITY) a++;
  return a == n;
}

/* The sparse scores of the contexts from `first` on. */
static inline fopo_sparse_scores fopo_score_from(const fopo_sparse_scores *s, size_t first) {
  fopo_sparse_scores rest = s != NULL ? *s : (fopo_sparse_scores){0};
  if (rest.rows != NULL) {
    rest.rows += first;
  } else if (rest.indptr != NULL) {
    rest.indptr += first;
  }
  return rest;
}

/* The mask that leaves out the items of row n in context n. */
static inline fopo_sparse_scores fopo_mask_of(const fopo_csr *X) {
  return (fopo_sparse_scores){.indptr = X->indptr, .ids = X->ids};
}

/* Adds s to the scores f [n] of the items first .. first + n - 1; of the rows first .. of a part if
 * it is not NULL. Only entries of the row are written. */
void fopo_score_add(float *f, const fopo_score_row *row, const fopo_part *part, size_t first,
                    size_t n);

/* FOPO_ERR_ARGUMENT unless X, what is seen, can be the mask of so many contexts over P items. */
int fopo_mask_check(const fopo_csr *X, size_t contexts, size_t P);

/* FOPO_ERR_UNAVAILABLE if s has values: for `what`, which knows masks alone. */
int fopo_score_check_mask(const fopo_sparse_scores *s, const char *what);

#endif
