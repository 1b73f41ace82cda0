/* The softmax policy over a catalogue: pi(a | x) = exp f(a, x) / Z(x), with
 * f(a, x) = h(x)^T beta_a / temperature (the paper, "Parametrizing the Policy"). h is linear,
 * h(x) = theta^T x, or a network of one or two hidden layers (device/network.h). */
#ifndef FOPO_POLICY_POLICY_H
#define FOPO_POLICY_POLICY_H

#include "core/matrix.h"
#include "device/network.h"
#include "kernels/rows.h"
#include "mips/index.h"
#include "policy/blocks.h"
#include "ranks/shard.h"

typedef enum { FOPO_THETA_IDENTITY, FOPO_THETA_RANDOM } fopo_theta_start;

typedef struct {
  fopo_matrix items; /* beta [P, L]; not owned */
  fopo_shard *shard; /* items are this rank's part of the catalogue, and calls that look for items
                      * are collective; NULL: they are all of it. Not owned */
  fopo_rows rows;    /* beta as draws and scores read it: the items themselves, or `half`; the
                      * exact gradient and reinforce read the items */
  uint16_t *half;    /* [P, rows.ld] a copy in half the bytes; owned; NULL: none */
  int learns[FOPO_BLOCKS]; /* 1: trainers write to the block, whose rows lie one behind another */
  uint64_t
      version; /* incremented whenever items change: what was derived from them is then stale */
  fopo_matrix theta; /* linear: [D, L], D features of a context; network: [1, params]. Owned */
  fopo_network net;  /* layers == 0: linear */
  size_t units;      /* hidden units of the network; 0: linear */
  float temperature; /* > 0; divides every score */
} fopo_policy;

/* random: 0.005 times standard normal, as the authors start. identity needs D == L. */
int fopo_policy_init_linear(fopo_policy *pi, fopo_matrix items, size_t D, fopo_theta_start start,
                            float temperature, uint64_t seed);

/* A network of net->layers 2 or 3 whose last width is that of the items. Weights of hidden layers
 * start as normal numbers of variance 2 / (in + out) (tanh; Glorot and Bengio 2010) or 2 / in
 * (relu; He et al. 2015), those of the last one as 0.005 times standard normal, biases as 0: the
 * policy starts near uniform, as a linear one does. */
int fopo_policy_init_network(fopo_policy *pi, fopo_matrix items, const fopo_network *net,
                             float temperature, uint64_t seed);

/* From now on steps read a copy of the items in float16 or bfloat16, which takes half their bytes
 * in addition. Refused for items that are learnt, and for items out of the type's range
 * (kernels/rows.h); then, and for FOPO_FLOAT32, steps read the items themselves. */
int fopo_policy_halve(fopo_policy *pi, fopo_float type);

/* A policy over the same items with a theta of its own. A copy in half the bytes is borrowed from
 * `from`, which must outlive it. */
int fopo_policy_copy(fopo_policy *to, const fopo_policy *from);
void fopo_policy_done(fopo_policy *pi); /* accepts {0} */

/* P, the items of the catalogue. */
static inline size_t fopo_policy_n_items(const fopo_policy *pi) {
  return pi->shard != NULL ? pi->shard->part.P : pi->items.rows;
}

/* The values of a block, on the host. */
static inline fopo_matrix fopo_policy_values(const fopo_policy *pi, fopo_block block) {
  return block == FOPO_BLOCK_ITEMS ? pi->items : pi->theta;
}

/* The shape of a block; zeros if it is not learnt. */
static inline fopo_block_shape fopo_policy_shape(const fopo_policy *pi, fopo_block block) {
  fopo_matrix x = fopo_policy_values(pi, block);
  if (!pi->learns[block]) return (fopo_block_shape){0};
  return (fopo_block_shape){x.rows, x.cols, block == FOPO_BLOCK_ITEMS};
}

/* FOPO_ERR_UNAVAILABLE if the catalogue is dealt out: for `what`, which needs all items here. */
int fopo_policy_check_whole(const fopo_policy *pi, const char *what);

/* D: the features of a context. */
static inline size_t fopo_policy_context_dim(const fopo_policy *pi) {
  return pi->net.layers > 0 ? pi->net.width[0] : pi->theta.rows;
}

/* Q [N, L] = h(x) / temperature, so that f(a, x_n) = Q_n . beta_a. x is [N, D]. */
int fopo_policy_queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x);

/* ids, scores [N, k], counts [N]: the k best items of each context through ix, which holds the
 * policy's items. Works in blocks. */
int fopo_policy_best(uint32_t *ids, float *scores, uint32_t *counts, const fopo_policy *pi,
                     fopo_matrix x, fopo_index *ix, size_t k);

/* Whether x can be this policy's contexts: 1 row or more, D columns. */
int fopo_policy_check_contexts(const fopo_policy *pi, fopo_matrix x);

/* Whether the index holds as many items, of the same dimension, as a policy over items [P, L]. */
int fopo_policy_check_index(const fopo_index *ix, size_t P, size_t L);

#endif
