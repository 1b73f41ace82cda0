/* Candidates without an index that a user chose: a norm index over the policy's items, of which
 * searches use the first H norms, H by the policy's mass (plan/mass.h). A user's norm index of
 * budget "auto" is limited in the same way. If the estimator can share one head among all contexts,
 * the H items are that head, as long as they are few enough. */
#ifndef FOPO_PLAN_AUTOMATIC_H
#define FOPO_PLAN_AUTOMATIC_H

#include "plan/binding.h"
#include "plan/mass.h"
#include "plan/norm_order.h"
#include "plan/proposal.h"

enum { FOPO_AUTOMATIC_ARRAYS = 5 };

/* To be read; changed by the functions below alone. {0} is empty. */
typedef struct {
  fopo_index *index; /* over the bound items; NULL: not made yet; owned */

  /* Contexts of a probe: on the device, and their queries on the host; owned. */
  uint32_t *rows;    /* [FOPO_MASS_CONTEXTS] */
  float *X, *hidden; /* [.., D], [.., units] */
  fopo_mass_probe *memory;
  float *Q, *host_Q; /* [.., L] */
  size_t room[FOPO_AUTOMATIC_ARRAYS];
} fopo_automatic;

/* True if searches with q are limited by mass. */
int fopo_automatic_serves(const fopo_proposal *q);

/* The probe that is due before a batch in which n contexts get candidates. */
fopo_mass_kind fopo_automatic_due(const fopo_proposal *q, const fopo_mass *state, size_t n,
                                  size_t P);

/* Makes the automatic index, if q has none and it is not there yet, and the probe that is due
 * before a batch whose first contexts rows [n] get candidates; *state becomes what it has found. So
 * a batch that fails, or is abandoned, changes nothing that is remembered and can be repeated.
 * theta: device; NULL: the policy's. *o becomes the order that was probed. */
int fopo_automatic_measure(fopo_automatic *a, fopo_mass *state, fopo_norm_order *o,
                           const fopo_binding *data, const fopo_proposal *q, const float *theta,
                           const uint32_t *rows, size_t n);

/* The index in which batches of that state are searched. */
fopo_index *fopo_automatic_index(const fopo_automatic *a, const fopo_mass *state, size_t P,
                                 const fopo_proposal *q);

/* The items that the contexts of a batch share as their head; 0: none. tail: the draws beside it;
 * 0: the estimator cannot share one. */
size_t fopo_automatic_shared(const fopo_proposal *q, const fopo_mass *state, size_t P, size_t tail);

/* How many norms searches of k items look at; 0: as many as the index allows. */
size_t fopo_automatic_limit(const fopo_mass *state, size_t P, size_t k);

/* The rows that a step with candidates computes: `draws` of all its contexts, and `searches`. */
uint64_t fopo_automatic_rows(const fopo_mass *state, size_t P, uint64_t draws, uint64_t searches);

/* Gives back the index, and what lies on the device and on the host. */
void fopo_automatic_unbind(fopo_automatic *a, fopo_device *d);

#endif
