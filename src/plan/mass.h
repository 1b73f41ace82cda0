/* H by mass: how many of the items, those of largest norm, serve all contexts as candidates.
 *
 * For context b let T_b be the sum of exp(f) over its own top K, and cum_b(H) that over the H items
 * of largest norm. A probe of 16 contexts of a batch measures how much they keep,
 *
 *     kept(H) = mean over b of min(1, cum_b(H) / T_b),
 *
 * and H is the smallest step of a ladder that keeps `keep` of it: 256, 512, 768, 1,024, and from
 * there 1.5 x and 1.33 x by turns, up to half the catalogue; P items, all, stand for more. H grows
 * at once; it shrinks if three probes in a row want less, to the largest that they want.
 *
 * The H items keep as much as each context's own candidates would; both may be little of the whole
 * mass Z_b, and are where a policy is near uniform. So a probe also says what H holds of it,
 *
 *     held(H) = mean over b of cum_b(H) / Z_b;
 *
 * 512 of the items that it leaves out, at equal distances in the norm order, stand for all.
 *
 * A full probe scores the norm order until no item left matters: none can add more than 1 / 2,000
 * to the mass of a top K, or the norms scored hold all that a top K could come to, which is hardly
 * more than it is (as in a policy that is near uniform). It ends early, incomplete, if it would
 * cost more than steps have paid for. A near one scores the first 4 H norms alone: it takes T_b
 * among these, so it can ask for more, proves that less is enough only if no item after them
 * matters, and is cheap enough to come often.
 *
 * When probes come follows from rows: the products of an item with a context that steps and probes
 * compute. Full probes stay within 1 %, near ones within 2 % of those of the steps; the first
 * probe, which is full, is paid back before the second full one. So H is a function of the data and
 * the steps alone, never of a clock or of the number of threads. */
#ifndef FOPO_PLAN_MASS_H
#define FOPO_PLAN_MASS_H

#include "plan/mass_probe.h"
#include "plan/norm_order.h"
#include "plan/proposal.h"

#define FOPO_MASS_KEEP 0.995 /* the share that is kept unless a user asks for another */

enum {
  FOPO_MASS_SHARED = 8192 /* items that all contexts share as a head, at most: above, it is cheaper
                           * to find K candidates among them */
};

/* The state between two batches: what a checkpoint keeps. {0}: no probe was made. */
typedef struct {
  uint64_t head;         /* H; P: all items */
  uint64_t rows;         /* of the steps */
  uint64_t near, full;   /* of the probes of each kind */
  uint64_t full_cost;    /* that a full probe is expected to cost: as the last one, or twice that
                          * if it was not complete */
  uint64_t fewer, least; /* probes in a row that want less, and the largest that they want */
  double held;           /* held(H), the share of the policy's mass, by the last probe */
} fopo_mass;

typedef enum { FOPO_MASS_NONE, FOPO_MASS_NEAR, FOPO_MASS_FULL } fopo_mass_kind;

/* ---- the decisions ---- */

/* The probe that is due before a batch in which n contexts get candidates. */
fopo_mass_kind fopo_mass_due(const fopo_mass *m, size_t n, size_t P);

/* The ranks that a probe of this kind and of n contexts scores at most. */
uint64_t fopo_mass_horizon(const fopo_mass *m, fopo_mass_kind kind, size_t n, size_t P);

/* *m after a probe. */
void fopo_mass_take(fopo_mass *m, fopo_mass_kind kind, const fopo_mass_found *found);

/* True if searches with q are limited by mass: in the automatic index, a norm index over the
 * policy's items that is made where the user chose none, or in a user's norm index of budget
 * "auto". */
int fopo_mass_serves(const fopo_proposal *q);

/* What follows from H: the items that the contexts of a batch share as their head beside a tail of
 * `tail` draws (0: the estimator cannot share one), with fewer than `tail` items left all of these
 * being the tail; 0: none, because H is too large. How many norms searches of k items look at; 0:
 * as many as the index allows. Whether candidates are searched in clusters (mips/index_clusters.c):
 * where norms tell little, as among items of nearly unit norm, and the device does not search by
 * itself.
 * The rows that a step with candidates computes: `draws` of all its contexts, and `searches`. */
size_t fopo_mass_shared(const fopo_mass *m, const fopo_proposal *q, size_t P, size_t tail);
size_t fopo_mass_limit(const fopo_mass *m, size_t P, size_t k);
int fopo_mass_clusters(const fopo_mass *m, const fopo_proposal *q, const fopo_policy *pi,
                       const fopo_device *device);
uint64_t fopo_mass_rows(const fopo_mass *m, const fopo_proposal *q, const fopo_binding *data,
                        uint64_t draws, uint64_t searches);

/* ---- the automatic index, and probes of the bound data ---- */

enum { FOPO_MASS_ARRAYS = 5 };

/* To be read; changed by the functions below alone. {0} is empty. */
typedef struct {
  fopo_index *lent;     /* a norm index of the caller's, which serves where it is over the bound
                         * items and these are fixed; NULL: none; owned by both */
  fopo_index *index;    /* over the bound items; NULL: not made yet; owned */
  fopo_index *clusters; /* the same, of their clusters */

  /* Contexts of a probe: on the device, and their queries on the host; owned. */
  uint32_t *rows;    /* [FOPO_MASS_CONTEXTS] */
  float *X, *hidden; /* [.., D], [.., units] */
  float *Q, *host_Q; /* [.., L] */
  size_t room[FOPO_MASS_ARRAYS];
  fopo_mass_probe *memory;
} fopo_mass_index;

/* Takes or makes the automatic index over the bound items, unless it is there. */
int fopo_mass_index_make(fopo_mass_index *a, const fopo_binding *data);

/* Makes the automatic index, if q has none and it is not there yet, and the probe that is due
 * before a batch whose first contexts rows [n] get candidates; *m becomes what it has found. So a
 * batch that fails, or is abandoned, changes nothing that is remembered and can be repeated. theta:
 * device; NULL: the policy's. *o becomes the order that was probed. */
int fopo_mass_find(fopo_mass_index *a, fopo_mass *m, fopo_norm_order *o, const fopo_binding *data,
                   const fopo_proposal *q, const float *theta, const uint32_t *rows, size_t n);

/* The index in which batches of that state are searched. */
fopo_index *fopo_mass_searched(const fopo_mass_index *a, const fopo_mass *m, const fopo_proposal *q,
                               const fopo_binding *data);

/* Gives back the index, but for the lent one, and what lies on the device and on the host. */
void fopo_mass_unbind(fopo_mass_index *a, fopo_device *d);

#endif
