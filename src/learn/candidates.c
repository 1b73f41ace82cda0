#include "learn/candidates.h"

#include <string.h>

#include "core/status.h"

/* A part that the host searches in a graph is cut into at most MOST_PIECES, each with LEAST_PIECE
 * queries to search: fewer would leave threads without one, and a device with little to do. */
enum { MOST_PIECES = 4, LEAST_PIECE = 32 };

void fopo_candidates_init(fopo_candidates *c, const fopo_planner *planner) {
  *c = (fopo_candidates){.data = planner->data, .planner = planner, .plan = &planner->plan};
}

void fopo_candidates_begin(fopo_candidates *c, size_t B, int in_place) {
  c->n = c->plan->n < B ? c->plan->n : B;
  c->in_place = in_place;
  c->fetched = SIZE_MAX;
}

/* Pieces serve a device that works while the host searches. Items that are learnt see whole parts.
 */
size_t fopo_candidates_pieces(const fopo_candidates *c, const uint32_t *rows, size_t B,
                              size_t part) {
  const fopo_binding *data = c->data;
  size_t n = c->plan->n < B ? c->plan->n : B;
  if (n == 0 || !c->plan->by_graph || !data->device->ops->asynchronous || data->learns_items) {
    return 1;
  }
  size_t pieces = fopo_plan_searches(c->planner, rows, n) * part / B / LEAST_PIECE;
  return pieces < 1 ? 1 : pieces < MOST_PIECES ? pieces : MOST_PIECES;
}

/* ---- finding ---- */

/* The device's search of the first n contexts of a batch, with scores. */
static int search_on_device(fopo_candidates *c, const fopo_candidate_sets *sets,
                            const fopo_device_batch *of, size_t n) {
  fopo_device *d = c->data->device;
  fopo_device_batch batch = *of;
  batch.B = n;
  return d->ops->topk(d, sets, &c->plan->catalogue, &batch);
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

/* The index's search on the host, for the n queries of the piece at `places` (NULL: its first n).
 * Their scores stay in host.scores. */
static int search_on_host(fopo_candidates *c, const fopo_candidate_sets *sets,
                          const fopo_span *part, const fopo_span *piece, const uint32_t *places,
                          size_t n, int set) {
  fopo_device *d = c->data->device;
  const fopo_candidate_sets *h = &c->host;
  size_t L = c->data->L, k = c->plan->q.k;
  int status = fetch_queries(c, part);
  if (status != FOPO_OK) return status;
  float *Q = c->host_Q + (piece->first - part->first) * L;
  for (size_t i = 0; i < n && places != NULL; i++) { /* the places ascend: nothing is lost */
    if (places[i] > i) memcpy(Q + i * L, Q + places[i] * L, L * sizeof *Q);
  }
  status = fopo_shard_search(h->ids, h->scores, h->counts, c->data->parts->shard, c->plan->q.index,
                             (fopo_matrix){Q, n, L, L}, k, c->plan->limit, set);
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
    if (fopo_candidate_cache_expired(c->planner->cache, piece->rows[b], c->plan->q.refresh)) {
      expired[count++] = b;
    }
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
  if (!c->plan->device_searches) {
    return search_on_host(c, sets, part, piece, c->host_expired + first, n, set);
  }
  fopo_matrix queries = {piece->V.x, n, L, L};
  int status = d->ops->gather_rows(d, queries, piece->Q, c->device_expired + first);
  fopo_device_batch batch = {.P = c->data->P, .L = L, .Q = queries.x}; /* scored when loaded */
  return status == FOPO_OK ? search_on_device(c, sets, &batch, n) : status;
}

/* Searches the `count` contexts listed in host_expired and stores their candidates in the cache. */
static int renew_expired(fopo_candidates *c, const fopo_candidate_sets *sets, const fopo_span *part,
                         const fopo_span *piece, size_t count, int set) {
  fopo_device *d = c->data->device;
  const fopo_parts_ops *parts = c->data->parts->ops;
  size_t first, n = parts->share_searches(&first, count);
  uint32_t *places = c->device_expired;
  int status = d->ops->put(d, places, c->host_expired, 2 * count * sizeof *places);
  if (status == FOPO_OK) status = search_expired(c, sets, part, piece, first, n, set);
  status = parts->gather_sets(d, sets, &c->host, count, status);
  if (status != FOPO_OK) return status;
  return fopo_candidate_cache_store(c->planner->cache, sets, places + count, count);
}

/* The cached candidates of the first n contexts of the piece, after the expired ones are renewed:
 * those of the whole part if all ranks search them together. */
static int find_cached(fopo_candidates *c, const fopo_candidate_sets *sets, const fopo_span *part,
                       const fopo_span *piece, size_t n, int set) {
  const fopo_span *over = fopo_parts_is_alone(c->data->parts) ? piece : part;
  fopo_candidate_sets found = fopo_candidates_sets(c, part, over);
  size_t count = list_expired(c, over, fopo_candidates_of(c, over));
  int status = count > 0 ? renew_expired(c, &found, part, over, count, set) : FOPO_OK;
  if (status != FOPO_OK || fopo_candidates_stay(c)) return status;
  return fopo_candidate_cache_load(sets, c->planner->cache, piece->device.rows, n);
}

fopo_drawing fopo_candidates_drawing(const fopo_candidates *c, const fopo_span *part,
                                     const fopo_span *piece, fopo_draw_kind kind) {
  fopo_drawing x = {.kind = kind, .mixture = {.sets = fopo_candidates_sets(c, part, piece)}};
  if (!fopo_candidates_stay(c)) return x;
  fopo_candidate_sets kept = fopo_candidate_cache_sets(c->planner->cache);
  x.mixture.sets.ids = kept.ids;
  x.mixture.sets.counts = kept.counts;
  x.kept = piece->device.rows;
  return x;
}

/* Adds the sparse part to host.scores [n, k], of the candidates of the piece's first n contexts in
 * host.ids. */
static void add_sparse(fopo_candidates *c, const fopo_span *part, const fopo_span *piece,
                       size_t n) {
  const fopo_candidate_sets *h = &c->host;
  size_t k = c->plan->q.k;
  fopo_sparse_scores sparse =
      fopo_binding_sparse_host(c->data, piece->rows, piece->first - part->first);
  for (size_t b = 0; b < n && sparse.indptr != NULL; b++) {
    fopo_score_row row = fopo_score_row_of(&sparse, b);
    for (size_t i = b * k; i < b * k + h->counts[b]; i++) {
      h->scores[i] = fopo_score_sum(h->scores[i], fopo_score_of(&row, h->ids[i]));
    }
  }
}

/* The scores of the first n contexts' candidates at the current theta: those of the index's search,
 * or computed again if the candidates are cached, or the index may be older than the items. */
static int put_scores(fopo_candidates *c, const fopo_candidate_sets *sets, const fopo_span *part,
                      const fopo_span *piece, size_t n) {
  const fopo_binding *data = c->data;
  fopo_device *d = data->device;
  if (!fopo_proposal_keeps(&c->plan->q) && !data->learns_items) {
    add_sparse(c, part, piece, n);
    return d->ops->put(d, sets->scores, c->host.scores, n * sets->k * sizeof *sets->scores);
  }
  fopo_device_batch batch = piece->device;
  batch.B = n;
  if (fopo_candidates_stay(c)) {
    fopo_candidate_sets kept = fopo_candidate_cache_sets(c->planner->cache);
    return d->ops->scores_kept(d, sets->scores, &kept, batch.rows, &data->beta, &batch);
  }
  return data->parts->ops->score(data->parts, d, sets, &c->host, &data->beta, &batch);
}

int fopo_candidates_find(fopo_candidates *c, const fopo_span *part, const fopo_span *piece,
                         int scored, int set) {
  fopo_device *d = c->data->device;
  size_t n = fopo_candidates_of(c, piece), others = piece->n - n;
  fopo_candidate_sets sets = fopo_candidates_sets(c, part, piece);
  int cached = fopo_proposal_keeps(&c->plan->q), searched = !cached && c->plan->device_searches;
  int status = cached     ? find_cached(c, &sets, part, piece, n, set)
               : searched ? search_on_device(c, &sets, &piece->device, n) /* with their scores */
                          : search_on_host(c, &sets, part, piece, NULL, n, set);
  if (status == FOPO_OK && others > 0) {
    uint32_t *none = c->host.counts + n; /* those before are of the search, and read below */
    memset(none, 0, others * sizeof *none);
    status = d->ops->put(d, sets.counts + n, none, others * sizeof *none);
  }
  return status == FOPO_OK && scored && !searched ? put_scores(c, &sets, part, piece, n) : status;
}
