/* A gradient is its options, the data that it is bound to (plan/binding.h), the plan of its batches
 * (plan/plan.h) and the course of a batch (learn/batch.h). */
#include "learn/gradient.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/status.h"
#include "learn/batch.h"
#include "learn/ratio.h"
#include "policy/neighbours.h"

struct fopo_gradient {
  fopo_gradient_options options;
  fopo_binding data;
  fopo_planner planner;
  fopo_batch batch;
  int checked;    /* the options fit the data */
  int sparse;     /* the rewards of the batches are sparse */
  double planned; /* seconds of plans since the last batch began */
};

/* ---- life and options ---- */

/* Between begin and finish a batch stays as it was begun, whatever a reward's function does. */
static int check_idle(const fopo_gradient *g) {
  if (g->batch.stage == FOPO_STAGE_IDLE) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the gradient is in the middle of a batch; use it, or change it, after that");
}

static int check_options(const fopo_gradient_options *o) {
  const fopo_estimator *e = o->estimator;
  if (e->least == 0 || (o->samples >= e->least && o->samples < UINT32_MAX)) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "%zu draws a context are given to %s; it needs %zu to %u",
                   o->samples, e->title, e->least, UINT32_MAX - 1);
}

/* What the estimator asks of plans. */
static void ask(fopo_gradient *g) {
  fopo_gradient_options *o = &g->options;
  int shares = (o->estimator->needs & FOPO_SHARES_HEAD) != 0;
  fopo_plan_request r = {.proposal = fopo_options_proposal(o) != NULL ? &o->proposal : NULL,
                         .tail = shares ? o->samples : 0,
                         .head = o->head,
                         .searches_itself = (o->estimator->needs & FOPO_SEARCHES_ITSELF) != 0,
                         .limit = o->limit,
                         .products = (fopo_products)o->products,
                         /* listed, unless their rewards are sparse and they do not move */
                         .lists_head = g->data.learns_items || !g->sparse};
  fopo_planner_ask(&g->planner, &r);
  g->checked = 0;
}

int fopo_gradient_new(fopo_gradient **g, const fopo_gradient_options *options) {
  *g = NULL;
  int status = check_options(options);
  if (status != FOPO_OK) return status;
  fopo_gradient *x = fopo_alloc(1, sizeof *x);
  if (x == NULL) return FOPO_ERR_MEMORY;
  fopo_planner_init(&x->planner, &x->data);
  fopo_batch_init(&x->batch, &x->options, &x->planner);
  x->options = *options;
  ask(x);
  *g = x;
  return FOPO_OK;
}

void fopo_gradient_unbind(fopo_gradient *g) {
  if (g->data.device == NULL) return;
  fopo_batch_unbind(&g->batch);
  fopo_planner_unbind(&g->planner);
  fopo_binding_done(&g->data);
}

void fopo_gradient_free(fopo_gradient *g) {
  if (g == NULL) return;
  fopo_gradient_unbind(g);
  fopo_gradient_lend(g, NULL);
  fopo_free(g);
}

void fopo_gradient_lend(fopo_gradient *g, fopo_index *ix) { fopo_planner_lend(&g->planner, ix); }

int fopo_gradient_set(fopo_gradient *g, const fopo_gradient_options *options) {
  int status = check_idle(g);
  if (status == FOPO_OK) status = check_options(options);
  if (status != FOPO_OK) return status;
  g->options = *options;
  ask(g);
  g->batch.draws.enumerated = 0; /* another estimator may have used the rows meanwhile */
  return FOPO_OK;
}

const fopo_gradient_options *fopo_gradient_get(const fopo_gradient *g) { return &g->options; }

const fopo_proposal *fopo_gradient_proposal(const fopo_gradient *g) {
  return g->planner.request.proposal;
}

fopo_index *fopo_gradient_index(const fopo_gradient *g) {
  const fopo_proposal *q = g->planner.request.proposal;
  if (q == NULL || q->kind != FOPO_PROPOSAL_MIXTURE) return NULL;
  return q->index != NULL ? q->index : g->planner.automatic.index;
}

int fopo_gradient_orders_items(const fopo_gradient *g) {
  return fopo_gradient_index(g) != NULL || fopo_gradient_owns_order(g);
}

int fopo_gradient_owns_order(const fopo_gradient *g) {
  const fopo_proposal *q = g->planner.request.proposal;
  return g->options.head > 0 || (q != NULL && fopo_proposal_is_automatic(q));
}

uint64_t fopo_gradient_ordering(const fopo_gradient *g) { return g->planner.ordering; }

int fopo_gradient_refresh(fopo_gradient *g) { return fopo_planner_refresh(&g->planner); }

const fopo_mass *fopo_gradient_norms(const fopo_gradient *g) { return &g->planner.cache->norms; }

fopo_norms_use fopo_gradient_use(const fopo_gradient *g, const fopo_policy *pi,
                                 const fopo_device *device, uint64_t head) {
  const fopo_plan_request *r = &g->planner.request;
  const fopo_proposal *q = r->proposal;
  fopo_mass m = {.head = head};
  if (q == NULL) return (fopo_norms_use){0};
  return (fopo_norms_use){.shared = fopo_mass_shared(&m, q, fopo_policy_n_items(pi), r->tail),
                          .by_index = q->index != NULL,
                          .clusters = fopo_mass_clusters(&m, q, pi, device)};
}

double fopo_gradient_epsilon(const fopo_gradient *g) {
  const fopo_gradient_options *o = &g->options;
  return o->estimator->needs & FOPO_NEEDS_PROPOSAL ? o->proposal.epsilon : (double)NAN;
}

int fopo_gradient_plant(fopo_gradient *g, fopo_fault fault) {
  const fopo_estimator *e = g->options.estimator;
  if (fault != FOPO_FAULT_NONE && !(e->needs & FOPO_TAKES_FAULTS)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "no fault can be planted in a gradient %s; use snis",
                     e->title);
  }
  int status = check_idle(g);
  if (status != FOPO_OK) return status;
  g->batch.fault = fault;
  fopo_planner_forget(&g->planner); /* a fault is planted in draws that are listed */
  return FOPO_OK;
}

fopo_fault fopo_gradient_planted(const fopo_gradient *g) { return g->batch.fault; }

/* ---- data ---- */

/* Whether pi, contexts and reward fit one another. */
static int check_data(const fopo_policy *pi, const fopo_contexts *contexts,
                      const fopo_reward *reward) {
  fopo_matrix all = {contexts->x.x, contexts->n, contexts->x.cols, contexts->x.ld};
  int status = fopo_policy_check_contexts(pi, all);
  if (status != FOPO_OK) return status;
  if (reward->shared != contexts->shared) {
    return contexts->shared != NULL
               ? fopo_fail(FOPO_ERR_ARGUMENT, "sessions that are shared out are trained on for "
                                              "their own hits; give fopo.reward.hits of them, or "
                                              "leave out reward")
               : fopo_fail(FOPO_ERR_UNAVAILABLE,
                           "these rewards are of sessions that are shared out to the ranks; use "
                           "them with a trainer whose data are those sessions");
  }
  status = fopo_policy_check_lists(pi, contexts);
  if (status != FOPO_OK) return status;
  return fopo_reward_check(reward, contexts->n, fopo_policy_n_items(pi));
}

static int check_shared(const fopo_device *device) {
  if (device->ops->join_sums != NULL) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "sessions that are shared out are trained on by the CPU; use device = \"cpu\"");
}

/* Whether a device with memory of its own searches the candidates in the order of their norms. */
static int is_searched_by_norm(const fopo_proposal *q, const fopo_policy *pi) {
  return q->index != NULL && strcmp(fopo_index_about(q->index).kind, "norm") == 0 &&
         q->k <= FOPO_TOPK_MOST && !pi->learns[FOPO_BLOCK_ITEMS] &&
         fopo_index_over(q->index, pi->items);
}

/* What the device must hold at least: the data, and the order of the items by norm with the copy
 * that searches read, or that of a head. Draws and scratch come to it, which bend to the memory. */
static uint64_t bytes_on_device(const fopo_gradient *g, const fopo_binding_source *from) {
  const fopo_policy *pi = from->policy;
  const fopo_proposal *q = g->planner.request.proposal;
  uint64_t P = pi->items.rows, L = pi->items.cols, order = P * (sizeof(uint32_t) + sizeof(float));
  uint64_t bytes = fopo_binding_bytes(from);
  if (g->options.head > 0) {
    bytes += order + g->options.head * fopo_rows_ld(L) * sizeof(float);
  } else if (q != NULL && is_searched_by_norm(q, pi)) {
    bytes += order + P * L; /* or 2 P L */
  }
  return bytes;
}

/* Whether the device can hold and use the data. */
static int check_source(const fopo_gradient *g, const fopo_binding_source *from) {
  const fopo_policy *pi = from->policy;
  if (pi->learns[FOPO_BLOCK_ITEMS] && pi->items.ld != pi->items.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "items that are trained must lie row behind row");
  }
  int status = from->contexts.shared != NULL ? check_shared(from->device) : FOPO_OK;
  if (status == FOPO_OK) status = fopo_matrix_finite(from->contexts.x, "contexts");
  if (status != FOPO_OK || from->device->ops->memory == NULL) return status;
  return fopo_device_suffices(from->device, bytes_on_device(g, from), "the training",
                              "use fewer items or contexts, or device = \"cpu\"");
}

int fopo_gradient_bind(fopo_gradient *g, fopo_device *device, const fopo_policy *pi,
                       fopo_contexts contexts, const fopo_reward *reward) {
  fopo_binding_source from = {device, pi, contexts, fopo_reward_arrays_of(reward)};
  int status = check_idle(g);
  if (status == FOPO_OK) status = check_data(pi, &contexts, reward);
  if (status != FOPO_OK) return status;
  g->sparse = fopo_reward_is_sparse(reward);
  if (g->data.device != NULL && fopo_binding_holds(&g->data, &from)) {
    g->batch.reward = reward;
    ask(g);
    return fopo_binding_renew(&g->data, pi);
  }
  fopo_planner_forget(&g->planner);
  g->checked = 0;
  status = check_source(g, &from);
  if (status != FOPO_OK) return status;
  fopo_gradient_unbind(g);
  g->batch.reward = reward;
  status = fopo_binding_init(&g->data, &from);
  if (status != FOPO_OK) fopo_gradient_unbind(g);
  ask(g);
  return status;
}

int fopo_gradient_is_bound(const fopo_gradient *g, fopo_device *device, const fopo_policy *pi,
                           fopo_contexts contexts, const fopo_reward *reward) {
  fopo_binding_source from = {device, pi, contexts, fopo_reward_arrays_of(reward)};
  return g->data.device != NULL && g->data.policy == pi && g->batch.reward == reward &&
         fopo_binding_holds(&g->data, &from);
}

const fopo_binding *fopo_gradient_binding(const fopo_gradient *g) { return &g->data; }

int fopo_gradient_renew_contexts(fopo_gradient *g) {
  int status = check_idle(g);
  if (status == FOPO_OK) status = fopo_binding_renew_contexts(&g->data);
  if (status == FOPO_OK) fopo_candidate_cache_expire(g->planner.cache);
  return status;
}

/* ---- a batch ---- */

static int check_rows(const fopo_gradient *g, const uint32_t *rows, size_t B) {
  if (g->data.device == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the gradient is bound to no data yet");
  }
  if (B == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "the batch is empty; give it 1 row or more");
  for (size_t b = 0; b < B; b++) {
    if (rows[b] >= g->data.N) {
      return fopo_fail(FOPO_ERR_ARGUMENT, "row %zu of the batch is context %llu of %zu contexts",
                       b + 1, (unsigned long long)rows[b] + 1, g->data.N);
    }
  }
  return FOPO_OK;
}

/* What holds of a part of the catalogue alone. */
static int check_part(const fopo_gradient *g) {
  const fopo_gradient_options *o = &g->options;
  size_t ranks = g->data.parts->part->size;
  const char *why = NULL;
  if (!(o->estimator->needs & FOPO_TAKES_PARTS)) {
    why = "it draws from all items in one order; use head_tail, snis or exact";
  } else if (!fopo_reward_is_sparse(g->batch.reward)) {
    why = "the reward may be earned by any item; use hits or ips";
  } else if (g->data.device->ops->join_sums == NULL) {
    why = "this device cannot join sums; use device = \"cpu\"";
  } else if (g->batch.fault != FOPO_FAULT_NONE) {
    why = "a fault can be planted in a whole catalogue alone";
  }
  if (why == NULL) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "%s over items that are dealt out to %zu rank%s: %s",
                   o->estimator->title, ranks, ranks == 1 ? "" : "s", why);
}

/* Whether the estimator and the data can serve the objective. */
static int check_objective(const fopo_gradient *g) {
  const fopo_gradient_options *o = &g->options;
  const fopo_objective *row = &fopo_objective_rows[o->objective];
  if (o->objective == FOPO_OBJECTIVE_REWARD) return FOPO_OK;
  if (!(o->estimator->needs & FOPO_TAKES_OBJECTIVES)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%s estimates the gradient of the expected reward alone, not of the %s; use "
                     "exact, snis or head_tail",
                     o->estimator->title, row->title);
  }
  if (o->objective == FOPO_OBJECTIVE_SNIPS) return fopo_ratio_check(&g->data, g->batch.reward);
  int own = o->objective == FOPO_OBJECTIVE_CUSTOM;
  if (own && o->estimator->needs & FOPO_SCORES_LISTS) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "gradient %s cannot raise an objective of fopo.objective.custom; use another "
                     "policy, or an objective in C, as smoothed",
                     o->estimator->name);
  }
  if (!row->targets && !own) return FOPO_OK;
  if (row->targets && g->batch.reward->Y == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the %s is of the items that users took, which this reward does not name; use "
                     "fopo.reward.hits",
                     row->title);
  }
  if (g->data.learns_items) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE,
                     "the %s cannot move items; do not learn them, or use the expected reward",
                     row->title);
  }
  if (g->data.parts->part == NULL) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "the %s needs all items here, and they are dealt out to %d ranks; use the "
                   "expected reward",
                   row->title, (int)g->data.parts->part->size);
}

/* Policies that score lists and the estimators for them go together, on the CPU, with whole
 * catalogues and contexts. */
static int check_lists(const fopo_gradient *g) {
  const fopo_policy *pi = g->data.policy;
  const fopo_estimator *e = g->options.estimator;
  int scored = pi->kind->score_list != NULL, takes = (e->needs & FOPO_SCORES_LISTS) != 0;
  if (!scored && !takes) return FOPO_OK;
  if (!scored) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "gradient %s is that of policies that score lists, as fopo.policy.neighbours; "
                     "use exact, snis or head_tail for policy %s",
                     e->name, pi->kind->name);
  }
  if (!takes) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "gradient %s draws by dense scores, which policy %s has not; use "
                     "fopo.gradient.sparse{}",
                     e->name, pi->kind->name);
  }
  if (g->data.device->ops->join_sums == NULL || !fopo_parts_is_whole(g->data.parts)) {
    return fopo_fail(
        FOPO_ERR_UNAVAILABLE,
        "gradient %s reads rows of a sparse matrix, on the CPU, of items and sessions that are not "
        "dealt out; "
        "use device = \"cpu\" and s.train itself",
        e->name);
  }
  const fopo_neighbours *x = pi->neighbours;
  if (x->n_contexts == 0 || x->n_contexts == g->data.N) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "there are %zu contexts, but the weights are %s for the %zu of the sessions "
                   "pi:training(); train on these",
                   g->data.N, x->n_held > 0 ? "cross-fitted" : "those of all other users",
                   x->n_contexts);
}

int fopo_options_ask(const fopo_gradient_options *o) {
  const fopo_proposal *q = fopo_options_proposal(o);
  int proposes = q != NULL && q->kind == FOPO_PROPOSAL_CUSTOM;
  return proposes || fopo_estimator_asks(o->estimator);
}

/* A caller who makes queries or draws, or gives coefficients, sees all of them, on the host. */
static int check_caller(const fopo_gradient *g) {
  const fopo_parts *parts = g->data.parts;
  int possible = g->data.device->ops->weigh != NULL && fopo_parts_is_alone(parts);
  int asks = fopo_options_ask(&g->options) || g->data.policy->options.custom != NULL ||
             g->options.rule != NULL;
  if (!asks || (possible && parts->shared == NULL)) return FOPO_OK;
  return fopo_fail(
      FOPO_ERR_UNAVAILABLE,
      "a custom policy, gradient, objective or proposal calls a Lua function, on the CPU and in "
      "one "
      "process; use device = \"cpu\" and no other ranks, or one in C, as linear, snis and mixture");
}

int fopo_gradient_check_fit(fopo_gradient *g) {
  const fopo_gradient_options *o = &g->options;
  const fopo_proposal *q = g->planner.request.proposal;
  if (g->checked) return FOPO_OK;
  int status = q != NULL ? fopo_proposal_check_for(q, g->data.policy) : FOPO_OK;
  if (status == FOPO_OK && g->data.parts->part != NULL) status = check_part(g);
  if (status == FOPO_OK) status = check_lists(g);
  if (status == FOPO_OK) status = check_caller(g);
  if (status == FOPO_OK) status = check_objective(g);
  if (status == FOPO_OK && o->estimator->check != NULL) {
    fopo_estimator_use use = {g->data.P, g->data.policy, g->batch.reward, g->data.device};
    status = o->estimator->check(o, &use);
  }
  g->checked = status == FOPO_OK;
  return status;
}

static int check_batch(const fopo_gradient *g, const uint32_t *rows, size_t B) {
  int status = check_idle(g);
  return status == FOPO_OK ? check_rows(g, rows, B) : status;
}

int fopo_gradient_plan_is_due(const fopo_gradient *g, size_t B) {
  return fopo_plan_is_due(&g->planner, B);
}

static int plan(fopo_gradient *g, const float *theta, const uint32_t *rows, size_t n, size_t B) {
  double start = fopo_clock();
  int status = check_batch(g, rows, n);
  if (status == FOPO_OK) status = fopo_gradient_check_fit(g);
  if (status != FOPO_OK) return status;
  status = fopo_plan_make(&g->planner, theta, rows, n, B);
  if (status == FOPO_OK) status = fopo_batch_prepare(&g->batch);
  if (status != FOPO_OK) fopo_planner_forget(&g->planner);
  g->planned += fopo_clock() - start;
  return status;
}

int fopo_gradient_plan(fopo_gradient *g, const float *theta, const uint32_t *rows, size_t n,
                       size_t B) {
  if (g->data.device == NULL) return plan(g, theta, rows, n, B);
  const fopo_parts_ops *parts = g->data.parts->ops;
  parts->begin();
  return parts->end(plan(g, theta, rows, n, B));
}

int fopo_gradient_begin(fopo_gradient *g, const float *theta, const uint32_t *rows, size_t B,
                        fopo_draw_key key) {
  int status = check_batch(g, rows, B);
  if (g->data.device == NULL) return status;
  assert(g->planner.plan.B >= B); /* the caller has planned */
  const fopo_parts_ops *parts = g->data.parts->ops;
  parts->begin();
  if (status == FOPO_OK) status = fopo_batch_begin(&g->batch, theta, rows, B, key);
  g->batch.seconds[FOPO_PHASE_SEARCH] += g->planned;
  g->planned = 0.0;
  return parts->end(status);
}

void fopo_gradient_order(fopo_gradient *g, fopo_row_order order) { g->batch.order = order; }

int fopo_gradient_estimate(fopo_gradient *g, fopo_drawn *drawn) {
  return fopo_batch_run(&g->batch, drawn);
}

void fopo_gradient_abandon(fopo_gradient *g) {
  g->batch.stage = FOPO_STAGE_IDLE;
  g->data.parts->ops->end(FOPO_ERR_ARGUMENT); /* other ranks wait for its share */
}

int fopo_gradient_finish(fopo_gradient *g, fopo_matrix G, fopo_gradient_stats *stats) {
  return fopo_batch_finish(&g->batch, G, stats);
}

int fopo_gradient_finish_async(fopo_gradient *g, fopo_totals *totals, double seconds[FOPO_PHASES]) {
  return fopo_batch_finish_async(&g->batch, totals, seconds);
}

fopo_work fopo_gradient_work(const fopo_gradient *g) {
  const fopo_candidates *c = &g->batch.candidates;
  const fopo_plan *plan = &g->planner.plan;
  return (fopo_work){.B = g->batch.B,
                     .n_with_candidates = c->n,
                     .refresh = c->n > 0 ? plan->q.refresh : 0,
                     .head = plan->H,
                     .limit = plan->limit,
                     .epsilon = c->n > 0 ? plan->q.epsilon : 1.0};
}

int fopo_work_equal(const fopo_work *a, const fopo_work *b) {
  return a->B == b->B && a->n_with_candidates == b->n_with_candidates && a->refresh == b->refresh &&
         a->head == b->head && a->limit == b->limit && !(a->epsilon < b->epsilon) &&
         !(a->epsilon > b->epsilon);
}

/* ---- what is remembered ---- */

/* True if hits are worth 1 and the batch says that the policy looks at the wrong items: it earns
 * less than items drawn at random do in the same contexts, of which one may have very many items.
 */
static int is_lost(const fopo_gradient *g, const uint32_t *rows, size_t B,
                   const fopo_gradient_stats *stats) {
  const fopo_csr *Y = &g->data.rewarded.Y;
  if (Y->indptr == NULL || Y->rows != g->data.N || g->data.rewarded.value != NULL ||
      g->options.objective != FOPO_OBJECTIVE_REWARD) {
    return 0;
  }
  double n = 0.0;
  for (size_t b = 0; b < B; b++) n += (double)(Y->indptr[rows[b] + 1] - Y->indptr[rows[b]]);
  return stats->mean.reward < n / ((double)B * (double)g->data.P);
}

void fopo_gradient_commit(fopo_gradient *g, const uint32_t *rows, size_t B,
                          const fopo_gradient_stats *stats) {
  size_t n_with_candidates = (size_t)stats->sum.n_with_candidates;
  int lost = is_lost(g, rows, B, stats);
  fopo_planner_commit(&g->planner, rows, B, g->batch.S, stats->mean.head_mass, lost,
                      n_with_candidates);
}

double fopo_gradient_by_log_sigma(const fopo_gradient *g) { return g->batch.by_log_sigma; }

void fopo_gradient_set_sigma(fopo_gradient *g, double sigma, double squares) {
  g->options.sigma = sigma;
  g->options.sigma_squares = squares;
}

void fopo_gradient_move_sigma(fopo_gradient *g) {
  fopo_gradient_options *o = &g->options;
  double slope = g->batch.by_log_sigma;
  if (!(o->sigma_lr > 0.0) || slope == 0.0) return;
  double squares = o->sigma_squares + slope * slope;
  fopo_gradient_set_sigma(g, o->sigma * exp(o->sigma_lr * slope / sqrt(squares)), squares);
}

int fopo_gradient_must_sync(fopo_gradient *g, const uint32_t *rows, size_t B) {
  return fopo_planner_must_sync(&g->planner, rows, B);
}

int fopo_gradient_means(fopo_gradient *g, fopo_gradient_stats *stats) {
  return fopo_batch_means(&g->batch, stats);
}

void fopo_gradient_rollback(fopo_gradient *g, const uint32_t *rows, size_t B) {
  fopo_planner_rollback(&g->planner, rows, B, g->batch.S);
}

void fopo_gradient_open(fopo_gradient *g, fopo_candidate_cache *cache) {
  fopo_planner_attach(&g->planner, cache);
  if (g->data.parts != NULL) fopo_parts_collective(g->data.parts, 1);
}

void fopo_gradient_close(fopo_gradient *g) {
  fopo_planner_attach(&g->planner, NULL);
  if (g->data.parts != NULL) fopo_parts_collective(g->data.parts, 0);
}

uint64_t fopo_gradient_kept_bytes(const fopo_gradient *g) {
  const fopo_proposal *q = g->planner.request.proposal;
  return q != NULL && fopo_proposal_keeps(q) ? fopo_candidate_cache_bytes(g->data.N, q->k) : 0;
}

/* ---- blocks of parameters ---- */

fopo_item_gradient fopo_gradient_of(const fopo_gradient *g, fopo_block block) {
  if (block == FOPO_BLOCK_ITEMS) return g->batch.items.sum;
  if (block == FOPO_BLOCK_WEIGHTS) return g->batch.weights.sum;
  return (fopo_item_gradient){.rows = g->batch.arrays.G};
}

float *fopo_gradient_values(fopo_gradient *g, fopo_block block) {
  if (block == FOPO_BLOCK_WEIGHTS) return g->data.policy->delta.x; /* of the CPU */
  return block == FOPO_BLOCK_ITEMS ? g->data.device_items.x : (float *)g->batch.theta;
}
