/* Training sessions that are shared out to the ranks: each keeps a range of the contexts, and of
 * the items to be found in them, and no rank needs to have all. A batch takes contexts of any rank,
 * so those that have them send them to all: what every rank then computes is what one process does.
 *
 * All functions but done are collective (comm/comm.h), and fail on all ranks if one fails. */
#ifndef FOPO_RANKS_SHARED_H
#define FOPO_RANKS_SHARED_H

#include "contexts/contexts.h"
#include "ranks/shard.h"

typedef struct fopo_shared {
  size_t N;      /* contexts of all ranks; fopo_comm_share says whose they are */
  size_t first;  /* the first one of this rank */
  fopo_matrix x; /* [n, D] the contexts of this rank; owned, as Y */
  fopo_csr Y;    /* [n, P] their hits */
  fopo_csr seen; /* [n, P] their X, for a policy that masks it; indptr NULL: not kept */
  size_t most;   /* items of Y, and of X if it is kept, of one context of any rank; at least 1 */
} fopo_shared;

/* Keeps this rank's range of the sessions, which are the same on every rank or shared out, with
 * contexts as fopo_encode makes them from items, or fopo_shard_contexts from those of `shard`
 * (NULL: every rank has all items); with X of them if keep_seen. */
int fopo_shared_init(fopo_shared *s, const fopo_sessions *sessions, fopo_matrix items,
                     fopo_shard *shard, fopo_encoding how, int keep_seen);
void fopo_shared_done(fopo_shared *s); /* accepts {0} */

/* The contexts that were fetched last. {0} is empty; grown as needed, then nothing is allocated. */
typedef struct {
  fopo_csr Y;        /* [n, P] their hits; of a shard [n, part.rows] those that it holds, as rows */
  fopo_csr seen;     /* [n, P] their X, if it is kept */
  fopo_csr own_seen; /* of a shard [n, part.rows] those that it holds, as rows */
  uint32_t *places;  /* [n] 0 .. n - 1 */
  uint32_t *rows;    /* [n] for callers, whose list of contexts is elsewhere */
  float *X;          /* [n, D] */
  float *mine, *all;
  uint32_t *own_ids, *all_ids;
  size_t capacity; /* contexts */
} fopo_fetched;

int fopo_fetched_reserve(fopo_fetched *f, const fopo_shared *s, size_t n); /* not collective */

/* f->X and f->Y of the contexts rows [n], after `status` of the work before. */
int fopo_fetch(fopo_fetched *f, const fopo_shared *s, const fopo_shard *shard, const uint32_t *rows,
               size_t n, int status);
void fopo_fetched_done(fopo_fetched *f);

/* ---- what the ranks hold in ranges, on every rank ---- */

/* *all becomes the rows that each rank gives, in the order of the ranks; values NULL. `what` names
 * them if they do not fit. Collective (comm/comm.h), after `status` of the work before. */
int fopo_csr_gather(fopo_csr *all, const fopo_csr *mine, const char *what, int status);

/* *some becomes n of the contexts, evenly spread (fopo_spread_context), on every rank; all of
 * them if there are no more. Collective if the sessions are shared out. */
int fopo_sessions_gather(fopo_sessions *some, const fopo_sessions *s, size_t n);

#endif
