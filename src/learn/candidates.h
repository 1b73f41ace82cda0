/* The candidates of a batch's contexts: searched as the plan says (plan/plan.h), or loaded from the
 * cache, whose expired sets are searched anew.
 *
 * A graph is searched on the host, each query by itself. If the device works meanwhile, a part of
 * the batch is drawn and combined in pieces: while the device works on one piece, the host searches
 * for the next. */
#ifndef FOPO_LEARN_CANDIDATES_H
#define FOPO_LEARN_CANDIDATES_H

#include "plan/plan.h"

/* To be read; changed by the functions below alone. */
typedef struct {
  const fopo_binding *data; /* not owned, as the planner */
  const fopo_planner *planner;
  const fopo_plan *plan; /* the planner's */
  size_t n;              /* the first n contexts of the batch get candidates */
  int in_place;          /* 1: kept candidates are read where they are kept, and scored there */

  /* Reserved in batch_memory.c. */
  fopo_candidate_sets device, host;        /* ids, scores [part, K], counts [part] */
  uint32_t *device_expired, *host_expired; /* [2, part] contexts to search: places in the piece,
                                            * then ids */
  float *host_Q;                           /* [part, L] */
  size_t fetched; /* host_Q holds the queries of the part at this place of the batch; SIZE_MAX: of
                   * none */
} fopo_candidates;

void fopo_candidates_init(fopo_candidates *c, const fopo_planner *planner);

/* Starts a batch of B contexts. */
void fopo_candidates_begin(fopo_candidates *c, size_t B, int in_place);

/* Into how many pieces each part of `part` contexts is cut; rows [B] is the batch. */
size_t fopo_candidates_pieces(const fopo_candidates *c, const uint32_t *rows, size_t B,
                              size_t part);

/* How many of these contexts get candidates: the first ones. */
static inline size_t fopo_candidates_of(const fopo_candidates *c, const fopo_span *x) {
  return c->n <= x->first ? 0 : c->n - x->first < x->n ? c->n - x->first : x->n;
}

/* Whether find is due: for a piece with candidates, and for any piece if all ranks search together.
 */
static inline int fopo_candidates_due(const fopo_candidates *c, const fopo_span *part,
                                      const fopo_span *piece) {
  int alone = fopo_parts_is_alone(c->data->parts);
  return fopo_candidates_of(c, alone ? piece : part) > 0;
}

/* Finds the candidates of a piece of the part at the current theta, with `scored` their scores too;
 * contexts that get none have a count of 0. `set`: their order does not matter. */
int fopo_candidates_find(fopo_candidates *c, const fopo_span *part, const fopo_span *piece,
                         int scored, int set);

/* Whether the candidates of the batch stay where they are kept: those of all its contexts. */
static inline int fopo_candidates_stay(const fopo_candidates *c) {
  return c->in_place && fopo_proposal_keeps(&c->plan->q);
}

/* What find has found for this piece of the part, for draws that are used where they are made. */
fopo_drawing fopo_candidates_drawing(const fopo_candidates *c, const fopo_span *part,
                                     const fopo_span *piece, fopo_draw_kind kind);

/* What find has found for this piece of the part; not if the candidates stay. */
static inline fopo_candidate_sets
fopo_candidates_sets(const fopo_candidates *c, const fopo_span *part, const fopo_span *piece) {
  fopo_candidate_sets sets = c->device;
  sets.k = c->plan->q.k;
  sets.counts += piece->first - part->first;
  return sets;
}

#endif
