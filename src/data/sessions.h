/* Sessions split in two: X is observed, Y is to be predicted (the paper, "Experimental Results").
 *
 * As in the authors' code: repeats count once (0/1); users with at least min_items are kept, at
 * most the first max_users of them; each user's items are shuffled, the first floor(n/2) are X and
 * the rest Y; users are shuffled and split into train, valid and test. */
#ifndef FOPO_DATA_SESSIONS_H
#define FOPO_DATA_SESSIONS_H

#include "data/dataset.h"

typedef struct {
  size_t min_items; /* >= 2; 20 in the paper */
  size_t max_users; /* 0: all */
  double valid;     /* share of users, 0 <= valid + test < 1 */
  double test;
  uint64_t seed;
} fopo_split_options;

/* N contexts: the observed items and those to be predicted. Rows of X, Y and users correspond. */
typedef struct {
  fopo_csr X;      /* [N, P], values NULL */
  fopo_csr Y;      /* [N, P], values NULL */
  uint32_t *users; /* [N] rows of the dataset */
} fopo_sessions;

typedef struct {
  fopo_sessions train, valid, test;
  size_t kept, dropped; /* users with and without enough items */
} fopo_split;

/* An empty train split, or an empty valid / test split of a share > 0, is FOPO_ERR_ARGUMENT with
 * the counts and the remedy. */
int fopo_split_new(fopo_split *split, const fopo_dataset *d, const fopo_split_options *options);
void fopo_split_done(fopo_split *split); /* accepts {0} */
void fopo_sessions_done(fopo_sessions *s);

#endif
