/* Splits of a dataset that is shared out to the ranks (data/dataset.h): each makes the sessions of
 * its own users, which then go to the rank that has their place in the part. No rank has them all.
 *
 * All functions are collective (comm/comm.h), after `status` of the work before, and fail on all
 * ranks if one fails. */
#ifndef FOPO_DATA_SPLIT_RANKS_H
#define FOPO_DATA_SPLIT_RANKS_H

#include "data/sessions.h"

/* Users that have enough items, users that have not, and the items of the longest session. */
typedef struct {
  size_t kept, dropped, longest;
} fopo_split_users;

/* *all: those of all ranks, of which *before are kept by ranks before this one. */
int fopo_split_count_users(fopo_split_users *all, size_t *before, const fopo_split_users *here,
                           int status);

/* x [n], n <= 4, become their sums over the ranks. */
int fopo_split_sum(size_t *x, size_t n, int status);

/* Of the users of a part, those that are here. */
typedef struct {
  const uint32_t *rows;      /* [n] of the matrix; not owned */
  const uint32_t *positions; /* [n] in the order of the users, ascending; not owned */
  size_t n;
  size_t first, all; /* the part has the positions first .. first + all - 1 */
  size_t first_user; /* row 0 of the matrix here is this user of the dataset */
} fopo_split_segment;

/* s: the sessions that fopo_split_part made of these users, {0} if there are none. They become this
 * rank's share of the `total` sessions of all ranks, in the order of the positions, their users
 * counted over all ranks. */
int fopo_split_deal(fopo_sessions *s, const fopo_split_segment *users, size_t cols, size_t total,
                    int status);

#endif
