#include "plan/plan.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "device/arrays.h"

/* The packed copy takes a quarter of the items' bytes, or this many rows. */
enum { PACKED_SHARE = 4, PACKED_LEAST = 4096 };

void fopo_planner_init(fopo_planner *p, const fopo_binding *data) {
  *p = (fopo_planner){.data = data};
  p->cache = &p->own;
}

/* ---- the order of a norm index ---- */

static void drop_order(fopo_planner *p) {
  void *const blocks[] = {p->order.ids, p->order.norms, p->order.packed, (void *)p->order.half.x};
  fopo_release_all(p->data->device, blocks, sizeof blocks / sizeof *blocks);
  p->order = (fopo_device_order){0};
}

/* The copy of the items in their order, from the items on the device: in bfloat16, or packed. */
static int copy_items(fopo_planner *p) {
  const fopo_binding *data = p->data;
  fopo_device *d = data->device;
  fopo_device_order *o = &p->order;
  size_t P = data->P, rows = P / PACKED_SHARE > PACKED_LEAST ? P / PACKED_SHARE : PACKED_LEAST;
  int status = d->ops->round_items(d, &o->half, data->device_items, o->ids);
  if (status != FOPO_OK || o->half.x != NULL) return status;
  o->packed_rows = rows < P ? rows : P;
  o->packed = fopo_renew_on_device(d, NULL, o->packed_rows * data->L, sizeof *o->packed);
  if (o->packed == NULL) return FOPO_ERR_MEMORY;
  fopo_matrix packed = {o->packed, o->packed_rows, data->L, data->L};
  return d->ops->gather_rows(d, packed, data->device_items, o->ids);
}

/* The order of norms to the device, and the copy of the items. */
static int upload_order(fopo_planner *p) {
  fopo_device *d = p->data->device;
  fopo_device_order *o = &p->order;
  size_t P = p->data->P;
  o->ids = fopo_renew_on_device(d, NULL, P, sizeof *o->ids);
  o->norms = fopo_renew_on_device(d, NULL, P, sizeof *o->norms);
  int status = o->ids && o->norms ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = d->ops->put(d, o->ids, p->norms.ids, P * sizeof *o->ids);
  if (status == FOPO_OK) status = d->ops->put(d, o->norms, p->norms.norms, P * sizeof *o->norms);
  return status == FOPO_OK ? copy_items(p) : status;
}

static int renew_order(fopo_planner *p, const fopo_index *ix) {
  int status = fopo_norm_order_take(&p->norms, ix, p->data->P);
  drop_order(p);
  if (status == FOPO_OK) status = upload_order(p);
  if (status != FOPO_OK) {
    drop_order(p);
    return status;
  }
  p->order.version = p->norms.version;
  return FOPO_OK;
}

/* ---- making a plan ---- */

void fopo_planner_adapt(const fopo_planner *p, fopo_proposal *q) {
  if (q->adaptive) q->epsilon = fopo_candidate_cache_epsilon(p->cache, q);
}

/* Room in the cache for the bound contexts, if q keeps candidates. */
static int reserve_cache(fopo_planner *p, const fopo_proposal *q) {
  if (!fopo_proposal_keeps(q)) return FOPO_OK;
  return fopo_candidate_cache_reserve(p->cache, p->data->device, p->data->N, q->k);
}

int fopo_planner_attach(fopo_planner *p, fopo_proposal *q, fopo_candidate_cache *cache) {
  fopo_planner_forget(p);
  p->cache = cache != NULL ? cache : &p->own;
  if (cache == NULL || q == NULL) return FOPO_OK;
  fopo_planner_adapt(p, q);
  return reserve_cache(p, q);
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
  int status = norm && facts.version != p->order.version ? renew_order(p, ix) : FOPO_OK;
  if (status != FOPO_OK) return status;
  plan->catalogue = (fopo_catalogue){.items = data->device_items.x,
                                     .P = data->P,
                                     .ld = data->items.ld,
                                     .limit = plan->limit > 0 ? plan->limit
                                              : norm          ? facts.reachable
                                                              : data->P};
  if (norm) {
    plan->catalogue.order = p->order.ids;
    plan->catalogue.norms = p->order.norms;
    plan->catalogue.packed = p->order.packed;
    plan->catalogue.packed_rows = p->order.packed_rows;
    plan->catalogue.half = p->order.half;
  }
  plan->device_searches = 1;
  return FOPO_OK;
}

/* The contexts that get candidates, the index, and among how many norms it is searched. *shared: H
 * by mass, of a head that takes the candidates' place; 0: there is none. */
static int plan_candidates(fopo_planner *p, fopo_plan *plan, size_t *shared,
                           const fopo_plan_request *r, const float *theta, const uint32_t *rows,
                           size_t n_rows) {
  fopo_proposal *q = r->proposal;
  fopo_automatic *a = &p->automatic;
  if (q == NULL) return FOPO_OK;
  int status = reserve_cache(p, q);
  if (status != FOPO_OK) return status;
  fopo_planner_adapt(p, q);
  plan->q = *q;
  plan->n = fopo_candidate_cache_n_with_candidates(p->cache, q, plan->B);
  if (plan->n > 0) {
    if (!fopo_proposal_uses_index(q)) plan->q.refresh = 1; /* a probe keeps no candidates */
    plan->q.epsilon = fopo_candidate_cache_draw_epsilon(p->cache, q);
  }
  plan->by_mass = plan->n > 0 && fopo_automatic_serves(q);
  plan->mass = p->cache->norms;
  if (plan->by_mass) {
    size_t n = plan->n < n_rows ? plan->n : n_rows;
    status = fopo_automatic_measure(a, &plan->mass, &p->norms, p->data, q, theta, rows, n);
    if (status != FOPO_OK) return status;
    *shared = fopo_automatic_shared(q, &plan->mass, p->data->P, r->tail);
  }
  if (*shared > 0) {
    plan->n = 0;
    return FOPO_OK;
  }
  if (plan->by_mass) {
    plan->q.index = fopo_automatic_index(a, &plan->mass, p->data->P, q);
    plan->limit = fopo_automatic_limit(&plan->mass, p->data->P, q->k);
  }
  return choose_search(p, plan);
}

/* The shared head, if the options ask for one or the mass does. */
static int plan_head(fopo_planner *p, fopo_plan *plan, size_t by_mass, const fopo_plan_request *r) {
  fopo_norm_order *o = &p->norms;
  int status = FOPO_OK;
  plan->H = by_mass > 0 ? by_mass : r->head;
  plan->listed = r->lists_head ? plan->H : 0;
  if (plan->H == 0) return FOPO_OK;
  if (p->head.items.order == NULL) {
    status = by_mass > 0 ? fopo_norm_order_take(o, p->automatic.index, p->data->items.rows)
                         : fopo_norm_order_make(o, p->data->items);
  }
  if (status == FOPO_OK) status = fopo_head_set(&p->head, p->data, o->ids, plan->H, r->products);
  plan->head = p->head.items;
  return status;
}

int fopo_plan_make(fopo_planner *p, const fopo_plan_request *r, const float *theta,
                   const uint32_t *rows, size_t n, size_t B) {
  fopo_plan plan = {.B = B};
  size_t shared = 0;
  fopo_planner_forget(p);
  int status = plan_candidates(p, &plan, &shared, r, theta, rows, n);
  if (status == FOPO_OK) status = plan_head(p, &plan, shared, r);
  if (status != FOPO_OK) return status;
  p->plan = plan;
  p->fresh = plan.by_mass;
  return FOPO_OK;
}

void fopo_planner_forget(fopo_planner *p) {
  p->plan = (fopo_plan){0};
  p->fresh = 0;
}

int fopo_plan_is_due(const fopo_planner *p, const fopo_plan_request *r, size_t B) {
  const fopo_plan *plan = &p->plan;
  const fopo_proposal *q = r->proposal;
  if (plan->B < B || plan->B == 0) return 1;
  if (q == NULL) return 0;
  size_t now = fopo_candidate_cache_n_with_candidates(p->cache, q, B);
  if (fopo_automatic_due(q, &p->cache->norms, now, p->data->P) != FOPO_MASS_NONE) return 1;
  if (plan->H > 0) return 0;
  size_t n = fopo_candidate_cache_n_with_candidates(p->cache, q, plan->B);
  double epsilon = n > 0 ? fopo_candidate_cache_draw_epsilon(p->cache, q) : plan->q.epsilon;
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
void fopo_planner_commit(fopo_planner *p, const fopo_plan_request *r, const uint32_t *rows,
                         size_t B, size_t S, double mass, size_t n_with_candidates) {
  const fopo_plan *plan = &p->plan;
  fopo_mass *norms = &p->cache->norms;
  if (plan->by_mass) {
    size_t n = plan->n < B ? plan->n : B;
    if (p->fresh) *norms = plan->mass;
    p->fresh = 0;
    norms->rows +=
        plan->H > 0 ? (uint64_t)B * (plan->H + r->tail)
                    : fopo_automatic_rows(norms, p->data->P, B * S, fopo_plan_searches(p, rows, n));
  }
  if (plan->H == 0) {
    fopo_candidate_cache_commit(p->cache, r->proposal, rows, B, mass, n_with_candidates);
  }
  fopo_planner_adapt(p, r->proposal);
}

int fopo_planner_must_sync(const fopo_planner *p, const fopo_plan_request *r, const uint32_t *rows,
                           size_t B) {
  const fopo_mass *norms = &p->cache->norms;
  const fopo_proposal *q = r->proposal;
  size_t n = fopo_candidate_cache_n_with_candidates(p->cache, q, B);
  if (fopo_automatic_due(q, norms, n, p->data->P) != FOPO_MASS_NONE) return 1;
  if (fopo_automatic_shared(q, norms, p->data->P, r->tail) > 0) return 0;
  return fopo_candidate_cache_must_sync(p->cache, q, rows, B);
}

void fopo_planner_rollback(fopo_planner *p, const fopo_plan_request *r, const uint32_t *rows,
                           size_t B, size_t S) {
  const fopo_proposal *q = r->proposal;
  fopo_mass *norms = &p->cache->norms;
  size_t P = p->data->P, shared = fopo_automatic_shared(q, norms, P, r->tail);
  if (shared > 0) {
    norms->rows -= (uint64_t)B * (shared + r->tail);
  } else {
    fopo_candidate_cache_rollback(p->cache, q, rows, B);
    uint64_t n = fopo_candidate_cache_n_with_candidates(p->cache, q, B);
    uint64_t searches = fopo_proposal_keeps(q) ? 0 : n;
    if (n > 0 && fopo_automatic_serves(q)) {
      norms->rows -= fopo_automatic_rows(norms, P, B * S, searches);
    }
  }
  fopo_planner_adapt(p, r->proposal);
}

void fopo_planner_unbind(fopo_planner *p) {
  fopo_device *d = p->data->device;
  fopo_planner_forget(p);
  drop_order(p);
  fopo_head_unbind(&p->head, d);
  fopo_automatic_unbind(&p->automatic, d);
  fopo_norm_order_done(&p->norms);
  fopo_candidate_cache_done(&p->own);
}
