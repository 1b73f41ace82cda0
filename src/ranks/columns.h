/* The interactions by columns: each rank has those of its range of the items, fopo_comm_share of
 * them, and all users in blocks: block b are the users whose sessions rank b makes, or has. No rank
 * holds all interactions, and what it holds takes memory by its own entries alone, not by users. */
#ifndef FOPO_RANKS_COLUMNS_H
#define FOPO_RANKS_COLUMNS_H

#include "comm/comm.h"
#include "data/sessions.h"

typedef struct {
  size_t N, P;     /* users and items of all ranks */
  size_t first, n; /* the items of this rank */
  fopo_csr M;      /* [rows, n] X + Y of the users that took one of these items; owned, as Mt and
                      users */
  uint32_t *users; /* [rows] their places, ascending */
  fopo_csr Mt;     /* [n, N], the transpose; its ids are places of users */
  uint64_t *next;  /* [n] entries of Mt that by_items has used; owned */
} fopo_columns;

/* Of sessions that are shared out, or whole on every rank. Collective (comm/comm.h), after `status`
 * of the work before. */
int fopo_columns_init(fopo_columns *c, const fopo_sessions *sessions, int status);
void fopo_columns_done(fopo_columns *c); /* accepts {0} */

/* The users of block b: from *first on, as many as are returned. */
static inline size_t fopo_columns_block(size_t *first, const fopo_columns *c, size_t b) {
  return fopo_comm_share(first, c->N, b, fopo_comm_ranks());
}

/* Y [users, l] = M W for the users from place `first` on, W [n, l]. */
void fopo_columns_by_users(fopo_matrix Y, const fopo_columns *c, size_t first, fopo_matrix W);

/* Of the items cut into `parts` of about as many entries each: part p, from *first on. */
size_t fopo_columns_part(size_t *first, const fopo_columns *c, size_t p, size_t parts);

/* The rows of `items` from place `at` on of W += M_b^T Y, items [.., l]; to be called for all
 * blocks in their order, each with all items; for the first block W = M_b^T Y. Y [users of the
 * block, l]. */
void fopo_columns_by_items(fopo_matrix items, size_t at, fopo_columns *c, size_t b, fopo_matrix Y);

#endif
