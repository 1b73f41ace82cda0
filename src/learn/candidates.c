/* Planning the candidates of a batch: which of its contexts get some, and who searches for them.
 * candidates_find.c finds them. */
#include "learn/candidates.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "learn/arrays.h"

/* The packed copy takes a quarter of the items' bytes, or this many rows. */
enum { PACKED_SHARE = 4, PACKED_LEAST = 4096 };

/* A part that the host searches in a graph is cut into at most MOST_PIECES, each with LEAST_PIECE
 * queries to search: fewer would leave threads without one, and a device with little to do. */
enum { MOST_PIECES = 4, LEAST_PIECE = 32 };

void fopo_candidates_init(fopo_candidates *c, const fopo_binding *data) {
  *c = (fopo_candidates){.data = data};
  c->cache = &c->own;
}

/* ---- the order of a norm index ---- */

static void drop_order(fopo_candidates *c) {
  void *const blocks[] = {c->order.ids, c->order.norms, c->order.packed, (void *)c->order.half.x};
  fopo_release_all(c->data->device, blocks, sizeof blocks / sizeof *blocks);
  c->order = (fopo_device_order){0};
}

/* The copy of the items in their order, from the items on the device: in bfloat16, or packed. */
static int copy_items(fopo_candidates *c) {
  const fopo_binding *data = c->data;
  fopo_device *d = data->device;
  fopo_device_order *o = &c->order;
  size_t P = data->P, rows = P / PACKED_SHARE > PACKED_LEAST ? P / PACKED_SHARE : PACKED_LEAST;
  int status = d->ops->round_items(d, &o->half, data->device_items, o->ids);
  if (status != FOPO_OK || o->half.x != NULL) return status;
  o->packed_rows = rows < P ? rows : P;
  o->packed = fopo_renew_on_device(d, NULL, o->packed_rows * data->L, sizeof *o->packed);
  if (o->packed == NULL) return FOPO_ERR_MEMORY;
  fopo_matrix packed = {o->packed, o->packed_rows, data->L, data->L};
  return d->ops->gather_rows(d, packed, data->device_items, o->ids);
}

/* ids, norms [P] to the device, and the copy of the items. */
static int upload_order(fopo_candidates *c, const uint32_t *ids, const float *norms) {
  const fopo_binding *data = c->data;
  fopo_device *d = data->device;
  fopo_device_order *o = &c->order;
  size_t P = data->P;
  o->ids = fopo_renew_on_device(d, NULL, P, sizeof *ids);
  if (o->ids == NULL) return FOPO_ERR_MEMORY;
  o->norms = fopo_renew_on_device(d, NULL, P, sizeof *norms);
  if (o->norms == NULL) return FOPO_ERR_MEMORY;
  int status = d->ops->put(d, o->ids, ids, P * sizeof *ids);
  if (status == FOPO_OK) status = d->ops->put(d, o->norms, norms, P * sizeof *norms);
  return status == FOPO_OK ? copy_items(c) : status;
}

static int renew_order(fopo_candidates *c) {
  uint64_t version = 0;
  size_t P = c->data->P;
  uint32_t *ids = fopo_alloc(P, sizeof *ids);
  float *norms = fopo_alloc(P, sizeof *norms);
  int status = ids && norms ? fopo_index_order(ids, norms, &version, c->q.index) : FOPO_ERR_MEMORY;
  drop_order(c);
  if (status == FOPO_OK) status = upload_order(c, ids, norms);
  if (status == FOPO_OK) {
    c->order.version = version;
  } else {
    drop_order(c);
  }
  fopo_free(ids);
  fopo_free(norms);
  return status;
}

/* ---- planning a batch ---- */

void fopo_candidates_adapt(const fopo_candidates *c, fopo_proposal *q) {
  if (q->adaptive) q->epsilon = fopo_candidate_cache_epsilon(c->cache, q);
}

/* Room in the cache for the bound contexts, if q keeps candidates. */
static int reserve_cache(fopo_candidates *c, const fopo_proposal *q) {
  if (!fopo_proposal_keeps(q)) return FOPO_OK;
  return fopo_candidate_cache_reserve(c->cache, c->data->device, c->data->N, q->k);
}

int fopo_candidates_attach(fopo_candidates *c, fopo_proposal *q, fopo_candidate_cache *cache) {
  c->cache = cache != NULL ? cache : &c->own;
  if (cache == NULL || q == NULL) return FOPO_OK;
  fopo_candidates_adapt(c, q);
  return reserve_cache(c, q);
}

/* Does the device search by itself, and in what? */
static int choose_search(fopo_candidates *c) {
  const fopo_binding *data = c->data;
  c->device_searches = c->by_graph = 0;
  if (c->n == 0 || data->device->ops->topk == NULL) return FOPO_OK;
  fopo_index_facts facts = fopo_index_about(c->q.index);
  int norm = strcmp(facts.kind, "norm") == 0, exact = strcmp(facts.kind, "exact") == 0;
  c->by_graph = !norm && !exact;
  if (c->by_graph || data->train_items || c->q.k > FOPO_TOPK_MOST ||
      !fopo_index_over(c->q.index, data->items)) {
    return FOPO_OK;
  }
  int status = norm && facts.version != c->order.version ? renew_order(c) : FOPO_OK;
  if (status != FOPO_OK) return status;
  c->catalogue = (fopo_catalogue){.items = data->device_items.x,
                                  .P = data->P,
                                  .ld = data->items.ld,
                                  .limit = c->limit > 0 ? c->limit
                                           : norm       ? facts.reachable
                                                        : data->P};
  if (norm) {
    c->catalogue.order = c->order.ids;
    c->catalogue.norms = c->order.norms;
    c->catalogue.packed = c->order.packed;
    c->catalogue.packed_rows = c->order.packed_rows;
    c->catalogue.half = c->order.half;
  }
  c->device_searches = 1;
  return FOPO_OK;
}

int fopo_candidates_plan(fopo_candidates *c, fopo_proposal *q, size_t tail, const float *theta,
                         const uint32_t *rows, size_t B) {
  fopo_automatic *a = &c->automatic;
  c->n = c->limit = a->shared = 0;
  c->fetched = SIZE_MAX;
  if (q == NULL) return FOPO_OK;
  int status = reserve_cache(c, q);
  if (status != FOPO_OK) return status;
  fopo_candidates_adapt(c, q);
  c->q = *q;
  c->n = fopo_candidate_cache_n_with_candidates(c->cache, q, B);
  if (c->n > 0) {
    if (!fopo_proposal_uses_index(q)) c->q.refresh = 1; /* a probe keeps no candidates */
    c->q.epsilon = fopo_candidate_cache_draw_epsilon(c->cache, q);
  }
  status = fopo_automatic_plan(a, c->data, q, &c->cache->norms, tail, theta, rows, c->n);
  if (status != FOPO_OK) return status;
  if (a->shared > 0) c->n = 0;
  c->q.index = fopo_automatic_index(a, c->data, q);
  c->limit = a->shared > 0 ? 0 : fopo_automatic_limit(a, c->data, c->q.k);
  return choose_search(c);
}

/* How many contexts of the batch will be searched. */
static size_t count_searches(const fopo_candidates *c, const uint32_t *rows) {
  size_t expired = 0;
  if (!fopo_proposal_keeps(&c->q)) return c->n;
  for (size_t b = 0; b < c->n; b++) {
    if (fopo_candidate_cache_expired(c->cache, rows[b], c->q.refresh)) expired++;
  }
  return expired;
}

/* A step that renews no candidates computes as many rows before its commit as after it, so that a
 * rollback takes away what the commit has added. A shared head leaves the cached candidates as they
 * are. */
void fopo_candidates_commit(fopo_candidates *c, const fopo_proposal *q, size_t tail,
                            const uint32_t *rows, size_t B, size_t S, double mass,
                            size_t n_with_candidates) {
  fopo_mass *norms = &c->cache->norms;
  const fopo_automatic *a = &c->automatic;
  if (B > 0 && a->in_use) {
    uint64_t searches = count_searches(c, rows);
    *norms = a->next;
    norms->rows += a->shared > 0 ? (uint64_t)B * (a->shared + tail)
                                 : fopo_automatic_rows(norms, c->data->P, B * S, searches);
    if (a->shared > 0) return;
  }
  fopo_candidate_cache_commit(c->cache, q, rows, B, mass, n_with_candidates);
}

int fopo_candidates_must_sync(const fopo_candidates *c, const fopo_proposal *q, size_t tail,
                              const uint32_t *rows, size_t B) {
  const fopo_mass *norms = &c->cache->norms;
  size_t n = fopo_candidate_cache_n_with_candidates(c->cache, q, B);
  if (fopo_automatic_due(q, norms, n, c->data->P) != FOPO_MASS_NONE) return 1;
  if (fopo_automatic_shared(q, norms, c->data->P, tail) > 0) return 0;
  return fopo_candidate_cache_must_sync(c->cache, q, rows, B);
}

void fopo_candidates_rollback(fopo_candidates *c, const fopo_proposal *q, size_t tail,
                              const uint32_t *rows, size_t B, size_t S) {
  fopo_mass *norms = &c->cache->norms;
  size_t P = c->data->P, shared = fopo_automatic_shared(q, norms, P, tail);
  if (shared > 0) {
    norms->rows -= (uint64_t)B * (shared + tail);
    return;
  }
  fopo_candidate_cache_rollback(c->cache, q, rows, B);
  uint64_t n = fopo_candidate_cache_n_with_candidates(c->cache, q, B);
  uint64_t searches = fopo_proposal_keeps(q) ? 0 : n;
  if (n == 0 || !fopo_automatic_serves(q)) return;
  norms->rows -= fopo_automatic_rows(norms, P, B * S, searches);
}

/* Pieces serve a device that works while the host searches. Items that are learnt and a caller who
 * fills the rewards see whole parts. */
size_t fopo_candidates_pieces(const fopo_candidates *c, const uint32_t *rows, size_t B,
                              size_t part) {
  const fopo_binding *data = c->data;
  if (c->n == 0 || !c->by_graph || !data->device->ops->asynchronous || data->train_items) return 1;
  if (fopo_reward_from_caller(data->reward)) return 1;
  size_t pieces = count_searches(c, rows) * part / B / LEAST_PIECE;
  return pieces < 1 ? 1 : pieces < MOST_PIECES ? pieces : MOST_PIECES;
}

/* ---- memory ---- */

/* Counts and queries of a part, which are there without candidates too. */
static int renew_part(fopo_candidates *c, size_t part) {
  fopo_device *d = c->data->device;
  fopo_candidate_sets *m = &c->device, *h = &c->host;
  c->capacity_part = 0;
  m->counts = fopo_renew_on_device(d, m->counts, part, sizeof *m->counts);
  c->device_expired = fopo_renew_on_device(d, c->device_expired, 2 * part, sizeof(uint32_t));
  h->counts = fopo_renew_on_host(h->counts, part, sizeof *h->counts);
  c->host_expired = fopo_renew_on_host(c->host_expired, 2 * part, sizeof(uint32_t));
  c->host_Q = fopo_renew_on_host(c->host_Q, part * c->data->L, sizeof *c->host_Q);
  if (!m->counts || !c->device_expired || !h->counts) return FOPO_ERR_MEMORY;
  if (!c->host_expired || !c->host_Q) return FOPO_ERR_MEMORY;
  c->capacity_part = part;
  return FOPO_OK;
}

static int renew_candidates(fopo_candidates *c, size_t n) {
  fopo_device *d = c->data->device;
  fopo_candidate_sets *m = &c->device, *h = &c->host;
  c->capacity = 0;
  m->ids = fopo_renew_on_device(d, m->ids, n, sizeof *m->ids);
  m->scores = fopo_renew_on_device(d, m->scores, n, sizeof *m->scores);
  h->ids = fopo_renew_on_host(h->ids, n, sizeof *h->ids);
  h->scores = fopo_renew_on_host(h->scores, n, sizeof *h->scores);
  if (!m->ids || !m->scores || !h->ids || !h->scores) return FOPO_ERR_MEMORY;
  c->capacity = n;
  return FOPO_OK;
}

int fopo_candidates_reserve(fopo_candidates *c, size_t part) {
  int status = part > c->capacity_part ? renew_part(c, part) : FOPO_OK;
  size_t n = c->n > 0 ? part * c->q.k : 0;
  return status == FOPO_OK && n > c->capacity ? renew_candidates(c, n) : status;
}

void fopo_candidates_unbind(fopo_candidates *c) {
  fopo_candidate_sets *m = &c->device;
  void *const blocks[] = {m->ids, m->counts, m->scores, c->device_expired};
  fopo_release_all(c->data->device, blocks, sizeof blocks / sizeof *blocks);
  drop_order(c);
  fopo_automatic_unbind(&c->automatic, c->data->device);
  *m = (fopo_candidate_sets){0};
  c->device_expired = NULL;
  c->capacity_part = c->capacity = 0;
  fopo_candidate_cache_done(&c->own);
}

void fopo_candidates_done(fopo_candidates *c) {
  fopo_free(c->host_Q);
  fopo_free(c->host.ids);
  fopo_free(c->host.counts);
  fopo_free(c->host.scores);
  fopo_free(c->host_expired);
}
