/* Finding the candidates of a piece of a batch that candidates.c has planned: by the device's
 * search or the index's, or in the cache, whose expired sets are searched anew. */
#include <string.h>

#include "comm/comm.h"
#include "core/status.h"
#include "kernels/kernels.h"
#include "learn/candidates.h"
#include "learn/exchange.h"

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
