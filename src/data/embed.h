/* Item embeddings. */
#ifndef FOPO_DATA_EMBED_H
#define FOPO_DATA_EMBED_H

#include "core/svd.h"
#include "data/sessions.h"

/* The factor of the columns of V, the right singular vectors (s_j: singular values).
 *
 * Scores are f(a, x) = x^T theta beta_a with x a mean of rows of beta, so they grow with the square
 * of the scale. The rows of V have a mean squared norm of L / P: with NONE all scores are near 0,
 * the policy starts near uniform, and Adam needs very many steps to leave that. With SIGMA, beta is
 * the projection of the interactions themselves: x^T beta_a is roughly a co-occurrence count, of
 * any size. SQRT damps that count by the root, and fixes its size for any P, L and number of users.
 */
typedef enum {
  FOPO_SCALE_NONE, /* V: raw right singular vectors, the paper's choice */
  FOPO_SCALE_SQRT, /* c V diag(sqrt(s)), c^2 = items seen / sum_j s_j: the mean squared norm over
                    * the items that occur is 1 */
  FOPO_SCALE_SIGMA /* V diag(s) */
} fopo_scale;

/* items [P, L] = scaled right singular vectors of X and Y together, as 0/1 entries, L =
 * options->dim. singular [L] may be NULL. Reports progress, can be interrupted (items is then
 * unspecified). */
int fopo_embed_svd(fopo_matrix items, float *singular, const fopo_sessions *sessions,
                   fopo_scale scale, const fopo_svd_options *options);

/* factor [dim]: what column j of V is multiplied by, where `seen` items occur; and that product. */
void fopo_embed_factors(float *factor, const float *s, size_t dim, size_t seen, fopo_scale scale);
void fopo_embed_scale(fopo_matrix items, const float *factor);

#endif
