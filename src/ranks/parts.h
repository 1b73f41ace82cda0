/* How the processes of a run (ranks) share the work of a batch. This is all that a training step
 * sees of ranks: a table of functions, of which one process alone has an empty version.
 *
 * Every rank has the same batch and the same theta, and comes to the same gradient. What the ranks
 * share is the work of the estimator:
 *
 *   split   the catalogue is whole on every rank: each estimates v of its share of the contexts
 *   dealt   each rank holds a part of the items (ranks/shard.h), and of every context it sums over
 *           the draws that its part holds; the rank whose share a context is in joins the sums, in
 *           the order of the ranks, into v
 *
 * Before they join, the ranks agree that all have done their share, and every message of the second
 * exchange carries its rank's status, so what follows is done by all or by none. Then all ranks get
 * every v, with its statistics: L + 5 numbers a context, and 2 L + 10 more if sums were joined. The
 * gradient X^T V is computed by every rank, over the whole batch as one process does: with whole
 * catalogues it has the same bits for any number of ranks.
 *
 * The contexts too may be shared out (ranks/shared.h); they are then fetched batch by batch. */
#ifndef FOPO_RANKS_PARTS_H
#define FOPO_RANKS_PARTS_H

#include "device/span.h"
#include "ranks/shared.h"

typedef struct fopo_parts fopo_parts;

enum { FOPO_PARTS_ARRAYS = 4 };

typedef struct {
  /* Around the work that all ranks begin together. end: the status of all, from each one's own. */
  void (*begin)(void);
  int (*end)(int status);

  /* The contexts that this rank draws for, of a part of n: *first, and how many. */
  size_t (*share)(size_t *first, size_t n);

  /* X [n, D] (device) = the contexts rows [n] (device), which are shared out. Their hits are
   * p->fetched.Y, row i those of rows[i]. */
  int (*fetch)(fopo_parts *p, fopo_device *d, fopo_matrix X, const uint32_t *rows);

  /* Of draws [B, S] those that are held here; batch->counts says how many, if not all are. */
  int (*keep_draws)(fopo_parts *p, fopo_device *d, const fopo_samples *samples,
                    fopo_device_batch *batch);

  /* The scores [n, k] of candidates at the queries of the batch, for all ranks; host: scratch. */
  int (*score)(fopo_parts *p, fopo_device *d, const fopo_candidate_sets *sets,
               const fopo_candidate_sets *host, const fopo_rows *items,
               const fopo_device_batch *batch);

  /* The contexts of a list of `count` that this rank searches, and the sets of all ranks after
   * that; `status` is that of the search. */
  size_t (*share_searches)(size_t *first, size_t count);
  int (*gather_sets)(fopo_device *d, const fopo_candidate_sets *sets,
                     const fopo_candidate_sets *host, size_t count, int status);

  /* After `status` of the work for the part: V, stats and counts (device [part->n], of candidates
   * found; NULL: all ranks know them) of every context. */
  int (*join)(fopo_parts *p, fopo_device *d, const fopo_span *part, uint32_t *counts, int status);
} fopo_parts_ops;

/* To be read; changed by the functions below alone. */
struct fopo_parts {
  const fopo_parts_ops *ops;
  fopo_shard *shard;         /* the catalogue is dealt out; NULL: it is whole. Not owned */
  const fopo_part *part;     /* that of the shard, or NULL */
  const fopo_shared *shared; /* the contexts are shared out; NULL: they are whole. Not owned */
  fopo_fetched fetched;      /* of shared contexts: those of the last queries */

  /* For the exchange, grown as needed. Owned. */
  float *sums;                    /* device [part, fopo_sums_width(L)]; NULL: no sums are joined */
  uint32_t *counts;               /* device [part] draws that are held here */
  float *mine, *all;              /* what is sent and what comes */
  size_t room[FOPO_PARTS_ARRAYS]; /* bytes of each */
};

extern const fopo_parts_ops fopo_parts_alone;

/* Of a catalogue and of contexts that may be dealt and shared out; NULL: they are whole. */
void fopo_parts_init(fopo_parts *p, fopo_shard *shard, const fopo_shared *shared);
void fopo_parts_done(fopo_parts *p, fopo_device *d); /* accepts {0} */

/* on: from now on all ranks make the same batches. Over a part of the catalogue, or of contexts
 * that are shared out, they always do. */
void fopo_parts_collective(fopo_parts *p, int on);

static inline int fopo_parts_is_alone(const fopo_parts *p) { return p->ops == &fopo_parts_alone; }

/* Whether every rank has all items and all contexts. */
static inline int fopo_parts_is_whole(const fopo_parts *p) {
  return p->part == NULL && p->shared == NULL;
}

/* Room for a part of that many contexts, of vectors of L numbers. */
int fopo_parts_reserve(fopo_parts *p, fopo_device *d, size_t part, size_t L);

#endif
