/* The plan of batches: which of their contexts get candidates, who searches for them and among how
 * many norms, and which items all contexts share as their head. It is made at the start of a slice
 * of steps, and again only where something is due: a probe of the mass, another epsilon, a longer
 * batch. A step reads it and changes nothing in it.
 *
 * Candidates are searched by the device itself, or by the index on the host. A device with a search
 * of its own answers exactly over a prefix of an order, which is what the exact and the norm index
 * do: it takes over the order of a norm index (plan/norm_order.h). A graph is searched on the host,
 * each query by itself. */
#ifndef FOPO_PLAN_PLAN_H
#define FOPO_PLAN_PLAN_H

#include "plan/candidate_cache.h"
#include "plan/head.h"
#include "plan/mass.h"

/* What an estimator asks for. */
typedef struct {
  fopo_proposal *proposal; /* where candidates come from, whose epsilon is set if it is adaptive;
                            * NULL: no context gets any. Not owned */
  size_t tail;             /* draws beside a head that all contexts share; 0: it cannot share one */
  size_t head;             /* H, items of such a head; 0: none, or as many as the mass asks for */
  fopo_products products;  /* of such a head */
  int lists_head;          /* 1: its items are listed in front of the draws */
  int searches_itself;     /* 1: for queries that are not the policy's, whose mass tells nothing, */
  size_t limit;            /* among so many norms; 0: as the index allows */
} fopo_plan_request;

/* To be read. {0}: there is no plan. */
typedef struct {
  size_t B;            /* contexts of a batch, at most */
  fopo_proposal q;     /* the proposal with the epsilon of the draws, and the index in use */
  size_t n;            /* the first n contexts of a batch get candidates */
  size_t limit;        /* norms that searches look at; 0: as the index allows */
  float beyond;        /* of searches_itself: the largest norm that they leave out; 0: none */
  int device_searches; /* 1: the device searches in `catalogue`; 0: the index on the host */
  int by_graph;        /* 1: the index searches each query for itself */
  fopo_catalogue catalogue;
  size_t H, listed;      /* items of the shared head, 0: there is none; how many of them are listed
                          * in front of the draws: 0 or H */
  fopo_shared_head head; /* on the device; of a catalogue that is dealt out, this rank's part */
  int by_mass;           /* 1: the searches, or H, are limited by mass */
  fopo_mass mass;        /* then the state that the batches use */
} fopo_plan;

/* Makes plans, and owns what they point to. To be read; changed by the functions below alone. */
typedef struct {
  const fopo_binding *data; /* not owned */
  fopo_plan_request request;
  fopo_candidate_cache own;    /* what is remembered if nobody attaches a cache */
  fopo_candidate_cache *cache; /* &own, or an attached one */
  fopo_mass_index automatic;
  fopo_norm_order norms; /* of the index in use, or of the head */
  fopo_head head;
  fopo_plan plan;    /* the one in force */
  int fresh;         /* 1: no batch was committed since a probe found plan.mass */
  uint64_t ordering; /* of the items: another number when it was made anew, or given back */
} fopo_planner;

void fopo_planner_init(fopo_planner *p, const fopo_binding *data);

/* Gives back what lies on the device, and forgets what was remembered in the own cache. */
void fopo_planner_unbind(fopo_planner *p);

/* There is no plan: something has changed. */
void fopo_planner_forget(fopo_planner *p);

/* From now on plans are made for this estimator. */
void fopo_planner_ask(fopo_planner *p, const fopo_plan_request *request);

/* From now on `cache` remembers, which is not owned; NULL: the own cache. */
void fopo_planner_attach(fopo_planner *p, fopo_candidate_cache *cache);

/* A norm index of all its items that may become the automatic one, so that none is built twice;
 * NULL or an index of another kind: there is none. */
void fopo_planner_lend(fopo_planner *p, fopo_index *ix);

/* Items were moved, on the host too: refreshes the indices and the order of a head, or makes them.
 */
int fopo_planner_refresh(fopo_planner *p);

/* Whether a batch of B contexts needs another plan. */
int fopo_plan_is_due(const fopo_planner *p, size_t B);

/* Makes the plan of batches of up to B contexts. Measures the mass, if that is due, at theta (NULL:
 * the policy's) in the contexts rows [n] of the next batch; makes the automatic index if it serves
 * and is not there yet; packs a shared head; makes room in the cache for candidates that are kept.
 */
int fopo_plan_make(fopo_planner *p, const float *theta, const uint32_t *rows, size_t n, size_t B);

/* What is remembered from batch to batch. A batch counts once it is committed: rows [B], S draws a
 * context, the mean share of pi in the candidates of its n_with_candidates contexts, and whether it
 * earned less than chance. must_sync: it cannot be rolled back. Without a proposal nothing is
 * remembered. */
void fopo_planner_commit(fopo_planner *p, const uint32_t *rows, size_t B, size_t S, double mass,
                         int lost, size_t n_with_candidates);
int fopo_planner_must_sync(const fopo_planner *p, const uint32_t *rows, size_t B);
void fopo_planner_rollback(fopo_planner *p, const uint32_t *rows, size_t B, size_t S);

/* How many of the first n contexts of a batch will be searched. */
size_t fopo_plan_searches(const fopo_planner *p, const uint32_t *rows, size_t n);

#endif
