/* A made-up world whose best policy is known: users have tastes (weights over clusters of items),
 * items are Zipf-popular inside their cluster, sessions have log-normal lengths, and a few per cent
 * of the interactions are noise (uniform over the catalogue). */
#ifndef FOPO_DATA_SYNTHETIC_H
#define FOPO_DATA_SYNTHETIC_H

#include "data/sessions.h"

typedef struct {
  size_t users, items, clusters;
  double mean_items;   /* mean session length; lengths are log-normal, at least 2 */
  double zipf;         /* exponent of popularity inside a cluster; 0: 1.0 */
  double noise;        /* share of uniform interactions, 0 <= noise < 1 */
  size_t tastes;       /* clusters that a user likes; 0: 3 */
  uint64_t seed;
} fopo_world_options;

/* What the world knows and a learner does not. */
typedef struct {
  uint32_t *cluster;   /* [items] of each item */
  float *taste;        /* [users, tastes] weights, rows sum to 1 */
  uint32_t *liked;     /* [users, tastes] clusters */
  size_t tastes, clusters;
  float *popularity;   /* [items] share of the item inside its cluster; sums to 1 per cluster */
  uint32_t *by_cluster;      /* [items] item ids, most popular first inside each cluster */
  uint64_t *cluster_start;   /* [clusters + 1] into by_cluster */
  double noise;
} fopo_world;

int fopo_world_new(fopo_world **world, fopo_dataset **d, const fopo_world_options *options);
void fopo_world_free(fopo_world *world); /* accepts NULL */

/* The mean reward over the sessions of the policy that knows every user's tastes and X, and
 * recommends the item most likely to stand in Y: an upper bound on the expected reward of any
 * policy. (For one item a not in X: P(a in Y) given the session's length; see synthetic.c.)
 * expected: the mean of those probabilities; achieved: the hits it really has on these sessions. */
int fopo_world_best(double *expected, double *achieved, const fopo_world *world,
                    const fopo_sessions *sessions);

#endif
