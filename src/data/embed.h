/* Item embeddings. */
#ifndef FOPO_DATA_EMBED_H
#define FOPO_DATA_EMBED_H

#include <math.h>

#include "core/svd.h"
#include "data/sessions.h"

/* How the columns of V, the right singular vectors, are scaled: c V diag(s^power), s_j the singular
 * values.
 *
 * Scores are f(a, x) = x^T theta beta_a with x a mean of rows of beta, so they grow with the square
 * of the scale. The rows of V have a mean squared norm of L / P: with NONE all scores are near 0,
 * the policy starts near uniform, and Adam needs very many steps to leave that. With SIGMA, beta is
 * the projection of the interactions themselves: x^T beta_a is roughly a co-occurrence count, of
 * any size. SQRT damps that count by the root, and fixes its size for any P, L and number of users.
 */
typedef struct {
  double power; /* 0 or more */
  int is_sized; /* 1: c makes the mean squared norm over the items that occur 1; 0: c = 1 */
} fopo_scale;

enum {
  FOPO_SCALE_NONE, /* V: raw right singular vectors, the paper's choice */
  FOPO_SCALE_SQRT, /* c V diag(sqrt(s)) */
  FOPO_SCALE_SIGMA /* V diag(s) */
};
extern const fopo_scale fopo_scales[];
extern const char *const fopo_scale_names[]; /* ended by NULL */

typedef struct {
  fopo_svd_options svd;
  fopo_scale scale;
  int by_degree; /* 0: of R, the interactions as 0/1 entries [users, P]. 1: of D_u^-1/2 R D_i^-1/2 =
                  * U diag(s) V^T, D_u and D_i the interactions of each user and item; beta_a is
                  * then n_a^1/2 c V_a diag(s^power): of a sum of beta_b / n_b the score of item a
                  * is that of the normalised matrix, R D_i^-1/2 V diag(s^2 power) V^T D_i^1/2 */
} fopo_embed_options;

/* items [P, L] = scaled right singular vectors of X and Y together, L = options->svd.dim. singular
 * [L] may be NULL. Reports progress, can be interrupted (items is then unspecified). */
int fopo_embed_svd(fopo_matrix items, float *singular, const fopo_sessions *sessions,
                   const fopo_embed_options *options);

/* ---- for embeddings that are computed elsewhere ---- */

/* An entry of the normalised matrix: of a user of n_u items and an item of n_a users. */
static inline float fopo_embed_entry(double n_u, double n_a) {
  return (float)(1 / sqrt(n_u * n_a));
}

/* squares [cols]: the sum of squares of each column. */
void fopo_embed_squares(double *squares, fopo_matrix items);

/* factor [dim]: what column j is multiplied by, where `seen` items occur; squares [dim] as above,
 * NULL: all are 1, as those of V. */
void fopo_embed_factors(float *factor, const float *s, const double *squares, size_t dim,
                        size_t seen, fopo_scale scale);

/* items [n, dim] become the products with diag(factor). */
void fopo_embed_scale(fopo_matrix items, const float *factor);

#endif
