#include "learn/candidates.h"

#include <string.h>

#include "comm/comm.h"
#include "kernels/kernels.h"
#include "learn/arrays.h"
#include "learn/exchange.h"

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

/* ---- finding the candidates of a piece ---- */

/* The device's search of n queries Q [n, L], with scores. */
static int search_on_device(fopo_candidates *c, const fopo_candidate_sets *sets, const float *Q,
                            size_t n) {
  fopo_device *d = c->data->device;
  fopo_device_batch batch = {.B = n, .P = c->data->P, .L = c->data->L, .Q = Q};
  return d->ops->topk(d, sets, &c->catalogue, &batch);
}

/* The part's queries, which its first search copies to the host: the pieces after it need not wait
 * for the device. */
static int fetch_queries(fopo_candidates *c, const fopo_span *part) {
  fopo_device *d = c->data->device;
  if (c->fetched == part->first) return FOPO_OK;
  size_t n = fopo_candidates_of(c, part) * c->data->L;
  int status = d->ops->get(d, c->host_Q, part->Q.x, n * sizeof *c->host_Q);
  c->fetched = status == FOPO_OK ? part->first : SIZE_MAX;
  return status;
}

/* host.ids, scores and counts of the queries. If the index holds a part of the catalogue, the best
 * of all parts, with their scores. */
static int search_index(fopo_candidates *c, fopo_matrix Q, int set) {
  const fopo_candidate_sets *h = &c->host;
  fopo_shard *s = c->data->policy->shard;
  size_t k = c->q.k, limit = c->limit;
  if (s == NULL) {
    return fopo_index_search_within(h->ids, h->scores, h->counts, c->q.index, Q, k, limit, set);
  }
  size_t found = fopo_shard_found(s, k);
  if (found > s->part.rows) found = s->part.rows;
  if (limit > 0) limit = fopo_part_places(&s->part, limit);
  int status =
      fopo_index_search_within(h->ids, h->scores, h->counts, c->q.index, Q, found, limit, 0);
  return fopo_shard_merge(h->ids, h->scores, h->counts, s, Q.rows, k, status);
}

/* The index's search on the host, for the n queries of the piece at `places` (NULL: its first n).
 * Their scores stay in host.scores. */
static int search_on_host(fopo_candidates *c, const fopo_candidate_sets *sets,
                          const fopo_span *part, const fopo_span *piece, const uint32_t *places,
                          size_t n, int set) {
  fopo_device *d = c->data->device;
  const fopo_candidate_sets *h = &c->host;
  size_t L = c->data->L, k = c->q.k;
  int status = fetch_queries(c, part);
  if (status != FOPO_OK) return status;
  float *Q = c->host_Q + (piece->first - part->first) * L;
  for (size_t i = 0; i < n && places != NULL; i++) { /* the places ascend: nothing is lost */
    if (places[i] > i) memcpy(Q + i * L, Q + places[i] * L, L * sizeof *Q);
  }
  status = search_index(c, (fopo_matrix){Q, n, L, L}, set);
  if (status == FOPO_OK) status = d->ops->put(d, sets->ids, h->ids, n * k * sizeof *h->ids);
  return status == FOPO_OK ? d->ops->put(d, sets->counts, h->counts, n * sizeof *h->counts)
                           : status;
}

/* Lists which of the first n contexts of the piece have no cached candidates, or expired ones:
 * host_expired = [places in the piece, context ids]. Returns how many. */
static size_t list_expired(fopo_candidates *c, const fopo_span *piece, size_t n) {
  uint32_t *expired = c->host_expired;
  size_t count = 0;
  for (uint32_t b = 0; b < n; b++) {
    if (fopo_candidate_cache_expired(c->cache, piece->rows[b], c->q.refresh)) expired[count++] = b;
  }
  for (size_t i = 0; i < count; i++) expired[count + i] = piece->rows[expired[i]];
  return count;
}

/* Searches n contexts listed in host_expired and device_expired, from place `first` of the lists
 * on. piece->V holds their queries meanwhile. */
static int search_expired(fopo_candidates *c, const fopo_candidate_sets *sets,
                          const fopo_span *part, const fopo_span *piece, size_t first, size_t n,
                          int set) {
  fopo_device *d = c->data->device;
  size_t L = c->data->L;
  if (n == 0) return FOPO_OK;
  if (!c->device_searches) {
    return search_on_host(c, sets, part, piece, c->host_expired + first, n, set);
  }
  fopo_matrix queries = {piece->V.x, n, L, L};
  int status = d->ops->gather_rows(d, queries, piece->Q, c->device_expired + first);
  return status == FOPO_OK ? search_on_device(c, sets, queries.x, n) : status;
}

/* Each rank has searched its share of `count` contexts; all sets go to all ranks, whose caches stay
 * the same. `status`: that of the search. */
static int gather_sets(fopo_candidates *c, const fopo_candidate_sets *sets, size_t first, size_t n,
                       size_t count, int status) {
  fopo_device *d = c->data->device;
  const fopo_candidate_sets *h = &c->host;
  size_t k = c->q.k;
  if (status == FOPO_OK) status = d->ops->get(d, h->ids + first * k, sets->ids, n * k * 4);
  if (status == FOPO_OK) status = d->ops->get(d, h->counts + first, sets->counts, n * 4);
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_exchange_gather(h->ids, count, k);
  if (status == FOPO_OK) status = fopo_exchange_gather(h->counts, count, 1);
  if (status == FOPO_OK) status = d->ops->put(d, sets->ids, h->ids, count * k * 4);
  return status == FOPO_OK ? d->ops->put(d, sets->counts, h->counts, count * 4) : status;
}

/* Searches the `count` contexts listed in host_expired and stores their candidates in the cache. */
static int renew_expired(fopo_candidates *c, const fopo_candidate_sets *sets, const fopo_span *part,
                         const fopo_span *piece, size_t count, int set) {
  fopo_device *d = c->data->device;
  int shared = c->together && c->data->part == NULL; /* else all ranks find the same */
  size_t first = 0, n = shared ? fopo_comm_own_share(&first, count) : count;
  uint32_t *places = c->device_expired;
  int status = d->ops->put(d, places, c->host_expired, 2 * count * sizeof *places);
  if (status == FOPO_OK) status = search_expired(c, sets, part, piece, first, n, set);
  if (shared) status = gather_sets(c, sets, first, n, count, status);
  if (status != FOPO_OK) return status;
  return fopo_candidate_cache_store(c->cache, sets, places + count, count);
}

/* The cached candidates of the first n contexts of the piece, after the expired ones are renewed:
 * those of the whole part if all ranks search them together. */
static int find_cached(fopo_candidates *c, const fopo_candidate_sets *sets, const fopo_span *part,
                       const fopo_span *piece, size_t n, int set) {
  const fopo_span *over = c->together ? part : piece;
  fopo_candidate_sets found = fopo_candidates_sets(c, part, over);
  size_t count = list_expired(c, over, fopo_candidates_of(c, over));
  int status = count > 0 ? renew_expired(c, &found, part, over, count, set) : FOPO_OK;
  if (status != FOPO_OK || fopo_candidates_stay(c)) return status;
  return fopo_candidate_cache_load(sets, c->cache, piece->device.rows, n);
}

fopo_drawing fopo_candidates_drawing(const fopo_candidates *c, const fopo_span *part,
                                     const fopo_span *piece, fopo_draw_kind kind) {
  fopo_drawing x = {.kind = kind, .mixture = {.sets = fopo_candidates_sets(c, part, piece)}};
  if (!fopo_candidates_stay(c)) return x;
  fopo_candidate_sets kept = fopo_candidate_cache_sets(c->cache);
  x.mixture.sets.ids = kept.ids;
  x.mixture.sets.counts = kept.counts;
  x.kept = piece->device.rows;
  return x;
}

/* scores [k] of the candidates ids that the part holds, and 0 for those of other parts. */
static void score_own(float *scores, const fopo_shard *s, const uint32_t *ids, size_t found,
                      size_t k, const float *q) {
  const fopo_kernels *kernels = fopo_kernels_get();
  memset(scores, 0, k * sizeof *scores);
  for (size_t i = 0; i < found; i++) {
    uint32_t row = fopo_part_row(&s->part, ids[i]);
    if (row == UINT32_MAX) continue;
    scores[i] = kernels->dot(fopo_matrix_row(s->items, row), q, s->items.cols);
  }
}

/* The same where the catalogue is dealt out: every candidate is in one part, so the sum over the
 * ranks is exact. */
static int put_scores_of_parts(fopo_candidates *c, const fopo_candidate_sets *sets,
                               const fopo_span *piece, size_t n) {
  fopo_device *d = c->data->device;
  const fopo_candidate_sets *h = &c->host;
  const fopo_shard *s = c->data->policy->shard;
  size_t k = sets->k, L = c->data->L;
  int status = d->ops->get(d, h->ids, sets->ids, n * k * sizeof *h->ids);
  if (status == FOPO_OK) status = d->ops->get(d, h->counts, sets->counts, n * sizeof *h->counts);
  if (status == FOPO_OK) status = d->ops->get(d, c->host_Q, piece->Q.x, n * L * sizeof *c->host_Q);
  c->fetched = SIZE_MAX;
  for (size_t b = 0; b < n && status == FOPO_OK; b++) {
    score_own(h->scores + b * k, s, h->ids + b * k, h->counts[b], k, c->host_Q + b * L);
  }
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_sum(h->scores, n * k);
  return status == FOPO_OK ? d->ops->put(d, sets->scores, h->scores, n * k * sizeof *h->scores)
                           : status;
}

/* The scores of the first n contexts' candidates at the current theta: those of the index's search,
 * or computed again if the candidates are cached, or the index may be older than the items. */
static int put_scores(fopo_candidates *c, const fopo_candidate_sets *sets, const fopo_span *piece,
                      size_t n) {
  const fopo_binding *data = c->data;
  fopo_device *d = data->device;
  if (!fopo_proposal_keeps(&c->q) && !data->train_items) {
    return d->ops->put(d, sets->scores, c->host.scores, n * sets->k * sizeof *sets->scores);
  }
  if (data->part != NULL) return put_scores_of_parts(c, sets, piece, n);
  fopo_device_batch batch = piece->device;
  batch.B = n;
  if (fopo_candidates_stay(c)) {
    fopo_candidate_sets kept = fopo_candidate_cache_sets(c->cache);
    return d->ops->scores_kept(d, sets->scores, &kept, batch.rows, &data->beta, &batch);
  }
  return d->ops->scores(d, sets, &data->beta, &batch);
}

int fopo_candidates_find(fopo_candidates *c, const fopo_span *part, const fopo_span *piece,
                         int scored, int set) {
  fopo_device *d = c->data->device;
  size_t n = fopo_candidates_of(c, piece), others = piece->n - n;
  fopo_candidate_sets sets = fopo_candidates_sets(c, part, piece);
  int cached = fopo_proposal_keeps(&c->q), searched = !cached && c->device_searches;
  int status = cached     ? find_cached(c, &sets, part, piece, n, set)
               : searched ? search_on_device(c, &sets, piece->Q.x, n) /* with their scores */
                          : search_on_host(c, &sets, part, piece, NULL, n, set);
  if (status == FOPO_OK && others > 0) {
    memset(c->host.counts, 0, others * sizeof *sets.counts);
    status = d->ops->put(d, sets.counts + n, c->host.counts, others * sizeof *sets.counts);
  }
  return status == FOPO_OK && scored && !searched ? put_scores(c, &sets, piece, n) : status;
}
