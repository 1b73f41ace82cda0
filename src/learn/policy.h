/* The softmax policy over a catalogue: pi(a | x) = exp f(a, x) / Z(x), with
 * f(a, x) = h(x)^T beta_a / temperature and h(x) = theta^T x (the paper, "Parametrizing the
 * Policy"). */
#ifndef FOPO_LEARN_POLICY_H
#define FOPO_LEARN_POLICY_H

#include "core/matrix.h"
#include "mips/index.h"

typedef enum { FOPO_THETA_IDENTITY, FOPO_THETA_RANDOM } fopo_theta_start;

typedef struct {
  fopo_matrix items;  /* beta [P, L]; not owned, fixed during training */
  fopo_matrix theta;  /* [D, L], D features of a context; owned */
  float temperature;  /* > 0; divides every score */
} fopo_policy;

/* random: 0.005 times standard normal, as the authors start. identity needs D == L. */
int fopo_policy_init_linear(fopo_policy *pi, fopo_matrix items, size_t D, fopo_theta_start start,
                            float temperature, uint64_t seed);

/* Contexts made of the items' own embeddings: D = L. */
int fopo_policy_init(fopo_policy *pi, fopo_matrix items, fopo_theta_start start,
                     float temperature, uint64_t seed);
void fopo_policy_done(fopo_policy *pi); /* accepts {0} */

/* D: the features of a context. */
static inline size_t fopo_policy_context_dim(const fopo_policy *pi) { return pi->theta.rows; }

/* Q [N, L] = h(x) / temperature, so that f(a, x_n) = Q_n . beta_a. x is [N, D]. */
int fopo_policy_queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x);

/* ids, scores [N, k], counts [N]: the k best items of each context through ix. Works in blocks. */
int fopo_policy_best(uint32_t *ids, float *scores, uint32_t *counts, const fopo_policy *pi,
                     fopo_matrix x, fopo_index *ix, size_t k);

/* Whether x can be this policy's contexts: 1 row or more, D columns. */
int fopo_policy_check_contexts(const fopo_policy *pi, fopo_matrix x);

#endif
