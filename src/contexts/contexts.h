/* Contexts: what a policy is asked about. A context is a list X of items, those that a session has
 * seen, or a dense row x of numbers, or both. An encoder makes the dense row of the list: x is a
 * function of the sum of w_b beta_b over the items b in X, beta their embeddings and w the weights
 * of all items, 1 for most encoders. */
#ifndef FOPO_CONTEXTS_CONTEXTS_H
#define FOPO_CONTEXTS_CONTEXTS_H

#include "core/csr.h"

/* A row of contexts/encoders.def. */
typedef struct {
  const char *name; /* of pi.contexts, of the option scale of s:contexts, and in files */
  const char *text; /* for Lua's help: "the mean of the embeddings" */

  /* w of an item that n of N training users took; of one that none took, that of n = 1. NULL: every
   * item weighs 1. */
  double (*weight)(double n, double N);

  /* x [L], the weighted sum of the embeddings of n items, becomes the context; of no item it is
   * zero. */
  void (*finish)(float *x, size_t L, size_t n);
} fopo_encoder;

/* How contexts are made of lists: what a policy keeps. */
typedef struct {
  const fopo_encoder *encoder;
  const float *weights; /* [P] of an encoder that has `weight` (ranks/weights.h); else NULL. Not
                         * owned */
} fopo_encoding;

/* Every encoder, ended by NULL, and their names. The first one is the default. */
extern const fopo_encoder *const fopo_encoders[];
extern const char *const fopo_encoder_names[];

#define X(name) extern const fopo_encoder fopo_encoder_##name;
#include "contexts/encoders.def"
#undef X

struct fopo_shared; /* ranks/shared.h */

/* N contexts. Nothing is owned. */
typedef struct {
  size_t n;      /* N; of sessions that are shared out to ranks, those of all ranks */
  fopo_matrix x; /* [N, D] the dense rows; of shared contexts [n, D] those of this rank */
  fopo_csr X;    /* [N, P] the lists, of item ids, with weights if it has values; indptr NULL: they
                  * are not known, or come with the shared contexts */
  size_t room;   /* entries that X, and Y of the reward, may come to have; 0: those they have */
  const struct fopo_shared *shared; /* the sessions that are shared out; NULL: all are here */
} fopo_contexts;

/* Contexts that are dense rows alone. */
static inline fopo_contexts fopo_contexts_of(fopo_matrix x) {
  return (fopo_contexts){.n = x.rows, .x = x};
}

/* x [N, L] of the lists X [N, P], from items [P, L]. Reports progress, can be interrupted. */
int fopo_encode(fopo_matrix x, fopo_encoding how, const fopo_csr *X, fopo_matrix items);

/* x [L] of one list of n ids; what is refused above must be so. */
void fopo_encode_list(float *x, fopo_encoding how, const uint32_t *ids, size_t n,
                      fopo_matrix items);

/* For encoders: x [L] at length 1; one of zeros stays. */
void fopo_unit_length(float *x, size_t L);

#endif
