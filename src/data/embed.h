/* Item embeddings and contexts. */
#ifndef FOPO_DATA_EMBED_H
#define FOPO_DATA_EMBED_H

#include "core/svd.h"
#include "data/sessions.h"

typedef enum {
  FOPO_SCALE_NONE,  /* V: raw right singular vectors, the paper's choice */
  FOPO_SCALE_SQRT,  /* V sqrt(s / s_1) sqrt(P / L) ... see embed.c for the exact factor and why */
  FOPO_SCALE_SIGMA  /* V s */
} fopo_scale;

/* items [P, L] = scaled right singular vectors of X + Y of the sessions (0/1 entries).
 * singular [L] may be NULL. */
int fopo_embed_svd(fopo_matrix items, float *singular, const fopo_sessions *sessions,
                   fopo_scale scale, const fopo_svd_options *options);

/* x [N, L]: the mean of the embeddings of the items in X (the paper's x^emb); a context with no
 * item is zero. */
int fopo_contexts(fopo_matrix x, const fopo_sessions *sessions, fopo_matrix items);

#endif
