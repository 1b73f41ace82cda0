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
  fopo_matrix theta;  /* [L, L]; owned */
  float temperature;  /* > 0; divides every score */
} fopo_policy;

/* random: 0.005 times standard normal, as the authors start. */
int fopo_policy_init(fopo_policy *pi, fopo_matrix items, fopo_theta_start start,
                     float temperature, uint64_t seed);
void fopo_policy_done(fopo_policy *pi); /* accepts {0} */

/* Q [N, L] = x theta / temperature, so that f(a, x_n) = Q_n . beta_a. x is [N, L]. */
int fopo_policy_queries(fopo_matrix Q, const fopo_policy *pi, fopo_matrix x);

/* ids, scores [N, k], counts [N]: the k best items of each context through ix. Works in blocks. */
int fopo_policy_best(uint32_t *ids, float *scores, uint32_t *counts, const fopo_policy *pi,
                     fopo_matrix x, fopo_index *ix, size_t k);

#endif
