/* The candidates of a batch: which of its contexts get some, where they are searched, and what is
 * kept for later visits.
 *
 * They are searched by the device itself, or by the index on the host. A device with a search of
 * its own answers exactly over a prefix of an order, which is what the exact and the norm index do.
 * It has the items already; of a norm index it also takes the order and the norms, 8 bytes an item,
 * and makes a copy of the items in that order: of all in bfloat16, 2 bytes a number, if the device
 * has a first pass over them; else of the first quarter in float32, 1 byte a number. The others
 * are then gathered from their one copy, each row once. All of it is taken anew after the index has
 * changed.
 *
 * A graph is searched on the host, each query by itself. If the device works meanwhile, a part of
 * the batch is drawn and combined in pieces: while the device works on one piece, the host searches
 * for the next. */
#ifndef FOPO_LEARN_CANDIDATES_H
#define FOPO_LEARN_CANDIDATES_H

#include "learn/automatic.h"
#include "learn/binding.h"
#include "learn/candidate_cache.h"
#include "learn/span.h"

/* A norm index's order on the device; zeros: there is none. */
typedef struct {
  uint64_t version;      /* of the index */
  uint32_t *ids;         /* [P] */
  float *norms, *packed; /* [P], [packed_rows, L] */
  size_t packed_rows;
  fopo_rows half; /* [P, ld] */
} fopo_device_order;

/* To be read; changed by the functions below alone. */
typedef struct {
  const fopo_binding *data;    /* not owned */
  fopo_proposal q;             /* the options' with the epsilon of this batch's draws, and the
                                * automatic index if the options have none */
  size_t limit;                /* norms that its searches look at; 0: as the index allows */
  size_t n;                    /* the first n contexts of the batch get candidates */
  fopo_candidate_cache own;    /* what is remembered if nobody attaches a cache */
  fopo_candidate_cache *cache; /* &own, or an attached one */

  fopo_automatic automatic;

  int in_place;        /* 1: kept candidates are read where they are kept, and scored there */
  int together;        /* 1: all ranks find the candidates of a part together */
  int device_searches; /* 1: the device searches in `catalogue`; 0: the index on the host */
  int by_graph;        /* the index searches each query for itself */
  fopo_catalogue catalogue;
  fopo_device_order order;

  fopo_candidate_sets device, host;        /* ids, scores [part, K], counts [part]; owned */
  uint32_t *device_expired, *host_expired; /* [2, part] contexts to search: places in the piece,
                                            * then ids */
  float *host_Q;                           /* [part, L] */
  size_t fetched; /* host_Q holds the queries of the part at this place of the batch; SIZE_MAX: of
                   * none */
  size_t capacity_part, capacity; /* contexts; candidates */
} fopo_candidates;

void fopo_candidates_init(fopo_candidates *c, const fopo_binding *data);

/* Gives back what lies on the device, and forgets what was remembered in the own cache. */
void fopo_candidates_unbind(fopo_candidates *c);
void fopo_candidates_done(fopo_candidates *c); /* after unbind: what lies on the host */

/* Sets the epsilon of an adaptive proposal to that of the next batch. */
void fopo_candidates_adapt(const fopo_candidates *c, fopo_proposal *q);

/* From now on `cache` remembers for q, with room for the bound contexts; NULL: the own cache. */
int fopo_candidates_attach(fopo_candidates *c, fopo_proposal *q, fopo_candidate_cache *cache);

/* Plans a batch of rows [B] with q (NULL: none gets candidates): which contexts get candidates, the
 * epsilon of the draws, who searches, and among how many norms, for which the mass may be measured
 * at theta (NULL: the policy's). If the contexts can share a head (tail > 0: the draws beside it)
 * it may be that none gets candidates, and automatic.shared items are the head. Makes room in the
 * cache for what is kept. */
int fopo_candidates_plan(fopo_candidates *c, fopo_proposal *q, size_t tail, const float *theta,
                         const uint32_t *rows, size_t B);

/* The three of fopo_gradient_commit, must_sync and rollback. S: draws of a context; tail as for
 * plan. */
void fopo_candidates_commit(fopo_candidates *c, const fopo_proposal *q, size_t tail,
                            const uint32_t *rows, size_t B, size_t S, double mass,
                            size_t n_with_candidates);
int fopo_candidates_must_sync(const fopo_candidates *c, const fopo_proposal *q, size_t tail,
                              const uint32_t *rows, size_t B);
void fopo_candidates_rollback(fopo_candidates *c, const fopo_proposal *q, size_t tail,
                              const uint32_t *rows, size_t B, size_t S);

/* Into how many pieces each part of `part` contexts is cut; rows [B] is the batch. */
size_t fopo_candidates_pieces(const fopo_candidates *c, const uint32_t *rows, size_t B,
                              size_t part);

/* Makes room for the candidates of a part. */
int fopo_candidates_reserve(fopo_candidates *c, size_t part);

/* How many of these contexts get candidates: the first ones. */
static inline size_t fopo_candidates_of(const fopo_candidates *c, const fopo_span *x) {
  return c->n <= x->first ? 0 : c->n - x->first < x->n ? c->n - x->first : x->n;
}

/* Whether find is due: for a piece with candidates, and for any piece if all ranks search together.
 */
static inline int fopo_candidates_due(const fopo_candidates *c, const fopo_span *part,
                                      const fopo_span *piece) {
  return fopo_candidates_of(c, c->together ? part : piece) > 0;
}

/* Finds the candidates of a piece of the part at the current theta, with `scored` their scores too;
 * contexts that get none have a count of 0. `set`: their order does not matter. */
int fopo_candidates_find(fopo_candidates *c, const fopo_span *part, const fopo_span *piece,
                         int scored, int set);

/* Whether the candidates of the batch stay where they are kept: those of all its contexts. */
static inline int fopo_candidates_stay(const fopo_candidates *c) {
  return c->in_place && fopo_proposal_keeps(&c->q);
}

/* What find has found for this piece of the part, for draws that are used where they are made. */
fopo_drawing fopo_candidates_drawing(const fopo_candidates *c, const fopo_span *part,
                                     const fopo_span *piece, fopo_draw_kind kind);

/* What find has found for this piece of the part; not if the candidates stay. */
static inline fopo_candidate_sets
fopo_candidates_sets(const fopo_candidates *c, const fopo_span *part, const fopo_span *piece) {
  fopo_candidate_sets sets = c->device;
  sets.k = c->q.k;
  sets.counts += piece->first - part->first;
  return sets;
}

#endif
