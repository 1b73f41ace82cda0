/* A made-up world whose best policy is known.
 *
 * Items belong to clusters and are Zipf-popular inside their own. A user likes a few clusters, with
 * weights from a flat Dirichlet distribution. Interactions arrive as a Poisson process whose
 * expected number lambda_u is log-normal over users:
 *
 *   p_u(a) = noise / P + (1 - noise) sum_c taste_uc popularity_c(a)
 *   number of interactions of u with a ~ Poisson(lambda_u p_u(a)), independent over items
 *
 * The session is the set of items; repeats only change the value (the count) in the dataset. So
 * items are in the session independently of each other, with probability
 * 1 - exp(-lambda_u p_u(a)), which makes the best policy computable: see fopo_world_best. */
#ifndef FOPO_DATA_WORLD_SYNTHETIC_H
#define FOPO_DATA_WORLD_SYNTHETIC_H

#include "data/sessions.h"

/* A size or exponent of 0 takes the default beside it. With these, P = 100,000 and 64 singular
 * vectors, learning shows within 300 steps of 32 contexts, and proposals differ: few tastes per
 * user and many clusters leave little to gain from recommending the same to everybody. */
typedef struct {
  size_t users;       /* 20,000 */
  size_t items;       /* P: 100,000 */
  size_t clusters;    /* 300 */
  size_t tastes;      /* clusters that a user likes: 2 */
  double mean_items;  /* mean of lambda_u over users: 40 interactions, repeats included */
  double zipf;        /* popularity of rank r inside a cluster ~ 1 / r^zipf: 1.0 */
  double noise;       /* share of interactions that are uniform over the items, 0 <= noise < 1 */
  double appeal;      /* a user likes the cluster of rank c with a chance ~ 1 / c^appeal; 0: all
                         clusters alike */
  double spread;      /* standard deviation of log lambda: 0.7 */
  size_t least_items; /* distinct items of a session: 2. From 3 on, a user with fewer is replaced by
                         one with another lambda */
  int ones;           /* 1: every value of the matrix is 1, repeats are not counted */
  uint64_t seed;
} fopo_world_options;

/* Fills in the defaults; FOPO_ERR_ARGUMENT with a sentence for options that no world can have. */
int fopo_world_options_complete(fopo_world_options *o);

/* The options, seed aside, of a world of the size and the known statistics of a set of the paper
 * after the authors' preparation: "twitch" or "goodreads". Users and items are scaled by fraction,
 * 0 < fraction <= 1, clusters by its root; sessions keep their lengths. */
int fopo_world_twin(fopo_world_options *o, const char *name, double fraction);
const char *fopo_world_twin_name(size_t i); /* NULL after the last */

/* The truth, which a learner does not see. */
typedef struct {
  size_t users, items, clusters, tastes;
  double noise;
  uint32_t *cluster;       /* [items] of each item */
  float *popularity;       /* [items] share of the item inside its cluster; sums to 1 per cluster */
  uint32_t *by_cluster;    /* [items] item ids, most popular first inside each cluster */
  uint64_t *cluster_start; /* [clusters + 1] into by_cluster */
  uint32_t *liked;         /* [users, tastes] clusters, all different in a row */
  float *taste;            /* [users, tastes] weights, rows sum to 1 */
  float *rate;             /* [users] lambda_u */
} fopo_world;

/* The world and its interactions, a function of the options alone. A session of fewer than
 * least_items items is drawn again, up to 16 times. Rows and columns have no names: ids are the
 * indices. */
int fopo_world_new(fopo_world **world, fopo_dataset **d, const fopo_world_options *options);
void fopo_world_free(fopo_world *world); /* accepts NULL */

/* The policy that knows a user's tastes, lambda_u, X and |Y|, and recommends the item most likely
 * to be in Y. No policy has a larger expected reward.
 * expected: the mean over the sessions of P(that item in Y | X, |Y|), exact up to rounding.
 * achieved: its share of hits on these sessions, which scatters around `expected`.
 * On few sessions another policy may exceed `expected` by chance: shares of hits have a standard
 * error of at most 0.5 / sqrt(N).
 * The sessions must come from this world's dataset. Either output may be NULL. */
int fopo_world_best(double *expected, double *achieved, const fopo_world *world,
                    const fopo_sessions *sessions);

#endif
