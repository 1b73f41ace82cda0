/* The contexts of a training whose sessions are divided anew in each epoch (data/resplit.h): copies
 * of X and Y, and the dense rows that are encoded of X. They lie where they lie from the beginning,
 * so that what is bound to them stays bound, and only their values change. All ranks have all of
 * them. */
#ifndef FOPO_RANKS_RESPLIT_H
#define FOPO_RANKS_RESPLIT_H

#include "contexts/contexts.h"
#include "data/sessions.h"
#include "ranks/shard.h"

/* What contexts are made of. Nothing is owned. */
typedef struct {
  const fopo_sessions
      *sessions;     /* at random or in order; NULL: every epoch takes them as they are */
  fopo_encoding how; /* x is made */
  fopo_matrix items; /* [P, L] that x is made of */
  fopo_shard *shard; /* the items are dealt out; NULL: they are all here */
} fopo_resplit_source;

/* To be read. {0}: nothing is divided anew. */
typedef struct {
  fopo_resplit_source from;
  fopo_matrix given; /* [N, D] the contexts of the sessions as they are; not owned */
  fopo_csr X, Y;     /* [N, P] values NULL; owned */
  size_t room;       /* entries that either may come to have; 0: those they have */
  fopo_matrix x;     /* [N, D] owned */
  uint64_t epoch;    /* whose they are; UINT64_MAX: of none, the work was interrupted */
} fopo_resplit;

/* Those of epoch 0, which are the sessions as they are given, with the contexts `given`. Refuses
 * sessions without an order that were not divided at random, or whose contexts were not made by the
 * encoder (by their shape), and what memory does not hold: 4 (N D + the items of all sessions) + 16
 * N bytes; of those with an order twice the items. */
int fopo_resplit_init(fopo_resplit *r, const fopo_resplit_source *from, fopo_matrix given);
void fopo_resplit_done(fopo_resplit *r); /* accepts {0} */

/* Divides the sessions as (seed, epoch) says, and encodes X. Reports progress, can be interrupted;
 * collective if the items are dealt out. */
int fopo_resplit_make(fopo_resplit *r, uint64_t seed, uint32_t epoch);

#endif
