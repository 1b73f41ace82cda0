/* Candidates without an index that a user chose: a norm index over the policy's items, of which
 * searches use the first H norms, H by the policy's mass (learn/mass.h). A user's norm index of
 * budget "auto" is limited in the same way. If the estimator can share one head among all contexts,
 * the H items are that head, as long as they are few enough.
 *
 * The state of H lies in the candidate cache. A probe before a batch leaves what it found in
 * `next`, which the batch uses and its commit makes the state: a batch that fails, or is abandoned,
 * changes nothing and can be repeated. */
#ifndef FOPO_LEARN_AUTOMATIC_H
#define FOPO_LEARN_AUTOMATIC_H

#include "learn/binding.h"
#include "learn/mass.h"
#include "learn/proposal.h"

/* To be read; changed by the functions below alone. {0} is empty. */
typedef struct {
  fopo_index *index; /* over the bound items; NULL: not made yet; owned */
  int in_use;        /* 1: the batch that was planned limits its searches by mass */
  size_t shared;     /* items that all its contexts share as their head; 0: candidates are found */
  fopo_mass next;    /* the state that the batch uses */

  /* A copy of the order of the index in use; owned. */
  uint64_t version; /* of the index; 0: there is none */
  uint32_t *order;  /* [P] */
  float *norms;     /* [P] */

  /* Contexts of a probe: on the device, and their queries on the host; owned. */
  uint32_t *rows;    /* [FOPO_MASS_CONTEXTS] */
  float *X, *hidden; /* [.., D], [.., units] */
  fopo_mass_probe *memory;
  float *Q, *host_Q; /* [.., L] */
} fopo_automatic;

/* True if searches with q are limited by mass. */
int fopo_automatic_serves(const fopo_proposal *q);

/* Plans a batch in which the first n of its rows get candidates: makes the automatic index at the
 * first call, and the probe that is due. theta as for fopo_gradient_begin; `state`: that of the
 * cache; tail: the draws beside a shared head, 0 if the estimator cannot share one. */
int fopo_automatic_plan(fopo_automatic *a, const fopo_binding *data, const fopo_proposal *q,
                        const fopo_mass *state, size_t tail, const float *theta,
                        const uint32_t *rows, size_t n);

/* The index in which the batch is searched. */
fopo_index *fopo_automatic_index(const fopo_automatic *a, const fopo_binding *data,
                                 const fopo_proposal *q);

/* The items of the bound data by descending norm, for a shared head. */
int fopo_automatic_order(const uint32_t **order, fopo_automatic *a, const fopo_binding *data);

/* The probe that is due before a batch in which n contexts get candidates. */
fopo_mass_kind fopo_automatic_due(const fopo_proposal *q, const fopo_mass *state, size_t n,
                                  size_t P);

/* The items that the contexts of a batch share as their head if its state is m; 0: none. */
size_t fopo_automatic_shared(const fopo_proposal *q, const fopo_mass *m, size_t P, size_t tail);

/* How many norms the batch searches; 0: as many as the index allows. */
size_t fopo_automatic_limit(const fopo_automatic *a, const fopo_binding *data, size_t k);

/* The rows that a step with candidates computes: `draws` of all its contexts, and `searches`. */
uint64_t fopo_automatic_rows(const fopo_mass *m, size_t P, uint64_t draws, uint64_t searches);

/* Gives back the index and what lies on the device; then what lies on the host. */
void fopo_automatic_unbind(fopo_automatic *a, fopo_device *d);

#endif
