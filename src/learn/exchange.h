/* What the ranks of a run tell one another about a part of a batch. Every rank has the whole batch
 * and the same theta, and comes to the same gradient; what they share is the work of the estimator:
 *
 *   whole catalogue  each rank estimates v of its share of the contexts
 *   a part of it     each rank has a part of the items (ranks/shard.h), and sums over those draws of
 *                    every context that its part holds; the rank whose share a context is in joins
 *                    the sums, in the order of the ranks, into v
 *
 * Before that they agree that all have done their share, and every message of the second exchange
 * carries its rank's status, so what follows is done by all or by none.
 *
 * Then all ranks get every v, with its statistics: L + 5 numbers a context, and 2 L + 10 more if
 * sums were joined. The gradient X^T V is computed by every rank, over the whole batch as one
 * process does, so with whole catalogues it has the same bits for any number of ranks. */
#ifndef FOPO_LEARN_EXCHANGE_H
#define FOPO_LEARN_EXCHANGE_H

#include "learn/binding.h"
#include "learn/span.h"

/* {0} is empty. Owned. */
typedef struct {
  float *sums;       /* device [part, fopo_sums_width(L)]; NULL: the catalogue is whole */
  uint32_t *counts;  /* device [part] draws of this rank's part of the catalogue */
  float *mine, *all; /* host, what is sent and what comes */
  size_t capacity;   /* contexts of a part */
} fopo_exchange;

int fopo_exchange_reserve(fopo_exchange *x, const fopo_binding *data, size_t part);
void fopo_exchange_unbind(fopo_exchange *x, fopo_device *d);

/* Every rank's share of x [n, width], which it has in its place, goes to all ranks. */
int fopo_exchange_gather(uint32_t *x, size_t n, size_t width);

/* After `status` of the estimator's work for the part: joins sums if there are any, then fills V,
 * stats and counts (device [part.n], of candidates found; NULL: all ranks know them) of every
 * context. Collective; fails on all ranks if any has failed. */
int fopo_exchange_join(fopo_exchange *x, const fopo_binding *data, const fopo_span *part,
                       uint32_t *counts, int status);

#endif
