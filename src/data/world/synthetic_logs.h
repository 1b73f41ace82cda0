/* A made-up world of logged decisions in which the true value of any policy can be computed, for
 * any size of catalogue.
 *
 *   x ~ N(0, I / D),  beta_a = s_a h_a with h_a ~ N(0, I) and log s_a ~ N(0, spread^2)
 *   rho(a, x) = P(r = 1 | a, x) = sigmoid(bias + slope x . beta_a)
 *   mu(a | x) = epsilon / P + (1 - epsilon) kappa(a) on the K best of f0, epsilon / P elsewhere
 *   f0(a, x)  = sharpness y . beta_a,  y = skill x + sqrt(1 - skill^2) R x
 *
 * The logging policy mu is the paper's mixture proposal: kappa is the softmax of f0 over its K best
 * items, so every propensity is known exactly. R shifts the coordinates of x by one and changes
 * every second sign, which makes R x nearly orthogonal to x: with skill 1 the logging policy ranks
 * items as the rewards do, with 0 it has no information about them. */
#ifndef FOPO_DATA_WORLD_SYNTHETIC_LOGS_H
#define FOPO_DATA_WORLD_SYNTHETIC_LOGS_H

#include "data/logs/logs.h"
#include "mips/index.h"

typedef struct {
  size_t n;       /* events */
  size_t actions; /* P */
  size_t dim;     /* D, of contexts and items alike */
  size_t k;       /* K, 1 .. P */
  double epsilon; /* 0 < epsilon <= 1 */
  double skill;   /* -1 .. 1 */
  double sharpness;
  double bias; /* log-odds of a reward at x . beta = 0 */
  double slope;
  double spread; /* standard deviation of log s_a */
  uint64_t seed;
} fopo_log_world_options;

typedef struct {
  fopo_log_world_options options;
  fopo_matrix contexts; /* [n, D] of the log; not owned */
  fopo_matrix items;    /* [P, D] not owned */
  fopo_index *index;    /* on the items */
} fopo_log_world;

/* The log owns contexts and items, and must outlive the world. A function of the options alone. */
int fopo_log_world_new(fopo_log_world **world, fopo_logs **logs,
                       const fopo_log_world_options *options);
void fopo_log_world_free(fopo_log_world *world); /* accepts NULL */

/* X [m, D]: contexts of the same distribution; seed 0 begins with those of the log. */
int fopo_log_world_contexts(fopo_matrix X, const fopo_log_world *world, uint64_t seed);

/* The true value, mean over the rows of X [m, D], of the policy with scores f = Q . items:
 * greedy 1: (1/m) sum rho(argmax_a f, x); 0: (1/m) sum_x sum_a pi(a | x) rho(a, x), both over all P
 * items, in blocks: memory does not grow with P. items [P, L], Q [m, L]. */
int fopo_log_world_value(double *value, const fopo_log_world *world, fopo_matrix X, fopo_matrix Q,
                         fopo_matrix items, int greedy);

/* The same for the best policy, argmax rho, and for the logging policy. */
int fopo_log_world_best(double *value, const fopo_log_world *world, fopo_matrix X);
int fopo_log_world_logging(double *value, const fopo_log_world *world, fopo_matrix X);

/* r [B, S] = rho(ids[b, s], X[rows[b]]); FOPO_ERR_ARGUMENT for ids or rows out of range. */
int fopo_log_world_rewards(float *r, const fopo_log_world *world, fopo_matrix X,
                           const uint32_t *ids, const uint32_t *rows, size_t B, size_t S);

/* p [m] = mu(c(actions[i]) | X[i]), the probability that the logging policy shows an action of that
 * group; groups [P], actions [m]. */
int fopo_log_world_groups(float *p, const fopo_log_world *world, fopo_matrix X,
                          const uint32_t *groups, const uint32_t *actions);

#endif
