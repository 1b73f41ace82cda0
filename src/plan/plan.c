#include "plan/plan.h"

#include <string.h>

#include "core/status.h"

void fopo_planner_init(fopo_planner *p, const fopo_binding *data) {
  *p = (fopo_planner){.data = data, .ordering = 1};
  p->cache = &p->own;
}

/* ---- making a plan ---- */

/* The epsilon of an adaptive proposal becomes that of the next batch. */
static void adapt(fopo_planner *p) {
  fopo_proposal *q = p->request.proposal;
  if (q != NULL && q->adaptive) q->epsilon = fopo_candidate_cache_epsilon(p->cache, q);
}

void fopo_planner_forget(fopo_planner *p) {
  p->plan = (fopo_plan){0};
  p->fresh = 0;
}

void fopo_planner_ask(fopo_planner *p, const fopo_plan_request *request) {
  p->request = *request;
  fopo_planner_forget(p);
}

void fopo_planner_attach(fopo_planner *p, fopo_candidate_cache *cache) {
  fopo_planner_forget(p);
  p->cache = cache != NULL ? cache : &p->own;
  if (cache != NULL) adapt(p);
}

void fopo_planner_lend(fopo_planner *p, fopo_index *ix) {
  fopo_index_facts facts = ix != NULL ? fopo_index_about(ix) : (fopo_index_facts){0};
  fopo_index_free(p->automatic.lent);
  p->automatic.lent =
      facts.by_norm && facts.reachable == facts.n_items ? fopo_index_share(ix) : NULL;
}

int fopo_planner_refresh(fopo_planner *p) {
  const fopo_proposal *q = p->request.proposal;
  fopo_index *own = p->automatic.index;
  fopo_index *ix = q != NULL && q->kind == FOPO_PROPOSAL_MIXTURE ? q->index : NULL;
  fopo_planner_forget(p);
  fopo_head_forget(&p->head);
  p->ordering++;
  int status = ix != NULL ? fopo_index_refresh(ix) : FOPO_OK;
  if (status == FOPO_OK && q != NULL && fopo_proposal_is_automatic(q)) {
    return own != NULL ? fopo_index_refresh(own)
                       : fopo_index_norm(&p->automatic.index, p->data->items, FOPO_BUDGET_AUTO);
  }
  return status == FOPO_OK && p->request.head > 0 ? fopo_norm_order_make(&p->norms, p->data->items)
                                                  : status;
}

/* Does the device search by itself, and in what? */
static int choose_search(fopo_planner *p, fopo_plan *plan) {
  const fopo_binding *data = p->data;
  const fopo_index *ix = plan->q.index;
  if (plan->n == 0 || data->device->ops->topk == NULL) return FOPO_OK;
  fopo_index_facts facts = fopo_index_about(ix);
  int norm = strcmp(facts.kind, "norm") == 0, exact = strcmp(facts.kind, "exact") == 0;
  plan->by_graph = !norm && !exact;
  if (plan->by_graph || data->learns_items || plan->q.k > FOPO_TOPK_MOST ||
      !fopo_index_over(ix, data->items)) {
    return FOPO_OK;
  }
  plan->catalogue = (fopo_catalogue){.items = data->device_items.x,
                                     .P = data->P,
                                     .ld = data->items.ld,
                                     .limit = plan->limit > 0 ? plan->limit
                                              : norm          ? facts.reachable
                                                              : data->P};
  int status = norm ? fopo_norm_order_share(&plan->catalogue, &p->norms, data, ix) : FOPO_OK;
  if (status != FOPO_OK) return status;
  plan->device_searches = 1;
  return FOPO_OK;
}

/* Whether the mass of candidates decides among how many norms they are searched. */
static int is_by_mass(const fopo_planner *p) {
  return !p->request.searches_itself && fopo_mass_serves(p->request.proposal);
}

/* The index of an estimator that searches for itself, the largest norm beyond the limit, and who
 * searches. */
static int plan_own_searches(fopo_planner *p, fopo_plan *plan) {
  size_t P = p->data->P, limit = p->request.limit;
  if (plan->q.index == NULL) {
    int status = fopo_mass_index_make(&p->automatic, p->data);
    if (status != FOPO_OK) return status;
    plan->q.index = p->automatic.index;
  }
  if (limit == 0 || limit >= P) return choose_search(p, plan);
  plan->limit = limit;
  int status = fopo_norm_order_take(&p->norms, plan->q.index, P);
  if (status != FOPO_OK) return status;
  plan->beyond = p->norms.norms[limit];
  return choose_search(p, plan);
}

/* The contexts that get candidates, the index, and among how many norms it is searched; or H by
 * mass, of a head that takes the candidates' place. */
static int plan_candidates(fopo_planner *p, fopo_plan *plan, const float *theta,
                           const uint32_t *rows, size_t n_rows) {
  fopo_proposal *q = p->request.proposal;
  const fopo_binding *data = p->data;
  adapt(p);
  plan->q = *q;
  int status = fopo_proposal_keeps(q)
                   ? fopo_candidate_cache_reserve(p->cache, data->device, data->N, q->k)
                   : FOPO_OK;
  if (status != FOPO_OK) return status;
  plan->n = fopo_candidate_cache_n_with_candidates(p->cache, q, plan->B);
  if (plan->n > 0) {
    if (!fopo_proposal_uses_index(q)) plan->q.refresh = 1; /* a probe keeps no candidates */
    plan->q.epsilon = fopo_candidate_cache_draw_epsilon(p->cache, q);
  }
  if (p->request.searches_itself) return plan_own_searches(p, plan);
  plan->mass = p->cache->norms;
  plan->by_mass = plan->n > 0 && fopo_mass_serves(q);
  if (plan->by_mass) {
    size_t n = plan->n < n_rows ? plan->n : n_rows;
    status = fopo_mass_find(&p->automatic, &plan->mass, &p->norms, data, q, theta, rows, n);
    if (status != FOPO_OK) return status;
    plan->H = fopo_mass_shared(&plan->mass, q, data->P, p->request.tail);
    if (plan->H > 0) {
      plan->n = 0;
      return FOPO_OK;
    }
    plan->q.index = fopo_mass_searched(&p->automatic, &plan->mass, q, data);
    plan->limit = fopo_mass_limit(&plan->mass, data->P, q->k);
  }
  return choose_search(p, plan);
}

int fopo_plan_make(fopo_planner *p, const float *theta, const uint32_t *rows, size_t n, size_t B) {
  const fopo_plan_request *r = &p->request;
  fopo_plan plan = {.B = B, .H = r->head};
  const fopo_index *ordered = NULL; /* whose order a shared head takes; NULL: that of the items */
  int status = FOPO_OK;
  fopo_planner_forget(p);
  if (r->proposal != NULL) {
    status = plan_candidates(p, &plan, theta, rows, n);
    ordered = p->automatic.index;
  }
  if (status == FOPO_OK && plan.H > 0) {
    status = fopo_head_set(&p->head, p->data, &p->norms, ordered, plan.H, r->products);
    plan.head = p->head.items;
    plan.listed = r->lists_head ? plan.H : 0;
  }
  if (status != FOPO_OK) return status;
  p->plan = plan;
  p->fresh = plan.by_mass;
  return FOPO_OK;
}

int fopo_plan_is_due(const fopo_planner *p, size_t B) {
  const fopo_plan *plan = &p->plan;
  const fopo_proposal *q = p->request.proposal;
  if (plan->B < B || plan->B == 0) return 1;
  if (q == NULL) return 0;
  size_t now = fopo_candidate_cache_n_with_candidates(p->cache, q, B);
  size_t n = fopo_candidate_cache_n_with_candidates(p->cache, q, plan->B);
  double epsilon = n > 0 ? fopo_candidate_cache_draw_epsilon(p->cache, q) : plan->q.epsilon;
  if (plan->by_mass && fopo_mass_due(&p->cache->norms, now, p->data->P) != FOPO_MASS_NONE) return 1;
  if (plan->H > 0) return 0;
  return n != plan->n || epsilon < plan->q.epsilon || epsilon > plan->q.epsilon;
}

/* ---- what is remembered ---- */

size_t fopo_plan_searches(const fopo_planner *p, const uint32_t *rows, size_t n) {
  size_t expired = 0;
  if (!fopo_proposal_keeps(&p->plan.q)) return n;
  for (size_t b = 0; b < n; b++) {
    if (fopo_candidate_cache_expired(p->cache, rows[b], p->plan.q.refresh)) expired++;
  }
  return expired;
}

/* A step that renews no candidates computes as many rows before its commit as after it, so that a
 * rollback takes away what the commit has added. A shared head leaves the cached candidates as they
 * are. */
void fopo_planner_commit(fopo_planner *p, const uint32_t *rows, size_t B, size_t S, double mass,
                         int lost, size_t n_with_candidates) {
  const fopo_plan *plan = &p->plan;
  fopo_mass *norms = &p->cache->norms;
  if (p->request.proposal == NULL) return;
  if (plan->by_mass) {
    size_t n = plan->n < B ? plan->n : B;
    if (p->fresh) *norms = plan->mass;
    p->fresh = 0;
    norms->rows += plan->H > 0 ? (uint64_t)B * (plan->H + p->request.tail)
                               : fopo_mass_rows(norms, p->request.proposal, p->data, B * S,
                                                fopo_plan_searches(p, rows, n));
  }
  if (plan->H == 0) {
    fopo_candidate_cache_commit(p->cache, p->request.proposal, rows, B, mass, lost,
                                n_with_candidates);
  }
  adapt(p);
}

int fopo_planner_must_sync(const fopo_planner *p, const uint32_t *rows, size_t B) {
  const fopo_proposal *q = p->request.proposal;
  const fopo_mass *norms = &p->cache->norms;
  if (q == NULL) return 0;
  size_t n = fopo_candidate_cache_n_with_candidates(p->cache, q, B), P = p->data->P;
  if (n > 0 && is_by_mass(p) && fopo_mass_due(norms, n, P) != FOPO_MASS_NONE) return 1;
  if (fopo_mass_shared(norms, q, P, p->request.tail) > 0) return 0;
  return fopo_candidate_cache_must_sync(p->cache, q, rows, B);
}

void fopo_planner_rollback(fopo_planner *p, const uint32_t *rows, size_t B, size_t S) {
  const fopo_proposal *q = p->request.proposal;
  fopo_mass *norms = &p->cache->norms;
  if (q == NULL) return;
  size_t P = p->data->P, tail = p->request.tail, shared = fopo_mass_shared(norms, q, P, tail);
  if (shared > 0) {
    norms->rows -= (uint64_t)B * (shared + tail);
  } else {
    fopo_candidate_cache_rollback(p->cache, q, rows, B);
    uint64_t n = fopo_candidate_cache_n_with_candidates(p->cache, q, B);
    uint64_t searches = fopo_proposal_keeps(q) ? 0 : n;
    if (n > 0 && is_by_mass(p)) {
      norms->rows -= fopo_mass_rows(norms, q, p->data, B * S, searches);
    }
  }
  adapt(p);
}

void fopo_planner_unbind(fopo_planner *p) {
  fopo_planner_forget(p);
  p->ordering++;
  fopo_head_unbind(&p->head, p->data);
  fopo_mass_unbind(&p->automatic, p->data->device);
  fopo_norm_order_done(&p->norms, p->data->device);
  fopo_candidate_cache_done(&p->own);
}
