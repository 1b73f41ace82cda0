/* The estimators: what each draws, and how it turns rewards into one vector v a context. A new one
 * is its draw, its combine and a row of the table at the end. */
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/status.h"
#include "learn/gradient_internal.h"

/* -- snis ------------------------------------------------------------------------------------- */

/* dev.candidates [n, K], their scores and now.counts, for the queries Q [n, L] on the device. */
static int topk(fopo_gradient *g, const float *Q, size_t n) {
  fopo_candidate_sets sets = fopo_gradient_sets(g);
  fopo_device_batch batch = fopo_gradient_batch(g, n);
  batch.Q = Q;
  return g->device->ops->topk(g->device, &sets, &g->catalogue, &batch);
}

/* host.Q of the part, which its first search fetches: the pieces after it need not wait for the
 * device. */
static int fetch_queries(fopo_gradient *g) {
  if (g->fetched) return FOPO_OK;
  size_t n = fopo_gradient_with_candidates(g, g->first, g->length);
  int status = g->device->ops->get(g->device, g->host.Q, g->dev.Q, n * g->L * sizeof *g->host.Q);
  g->fetched = status == FOPO_OK;
  return status;
}

/* The same by the index, which searches on the host, for those queries of the piece that stand at
 * places [found]; NULL: for all. Their scores stay on the host; head and tail takes the candidates
 * as a set and needs none. */
static int search(fopo_gradient *g, const uint32_t *places, size_t found) {
  const fopo_gradient_on_host *h = &g->host;
  const fopo_gradient_on_device *m = &g->dev;
  const fopo_device_ops *ops = g->device->ops;
  float *Q = g->now.host_Q;
  int status = fetch_queries(g);
  for (size_t i = 0; i < found && places != NULL; i++) {
    size_t b = places[i];
    if (b > i) memcpy(Q + i * g->L, Q + b * g->L, g->L * sizeof *Q);
  }
  if (status == FOPO_OK) {
    int set = g->options.kind == FOPO_GRADIENT_HEAD_TAIL;
    status = (set ? fopo_index_search_set
                  : fopo_index_search)(h->candidates, h->candidate_scores, h->counts, g->q.index,
                                       fopo_matrix_view(Q, found, g->L), g->q.k);
  }
  if (status == FOPO_OK) {
    status =
        ops->put(g->device, m->candidates, h->candidates, found * g->q.k * sizeof *h->candidates);
  }
  return status == FOPO_OK
             ? ops->put(g->device, g->now.counts, h->counts, found * sizeof *h->counts)
             : status;
}

/* host.due: which of n contexts have a set that has served its visits: their places in the batch,
 * then their rows; how many. */
static size_t list_due(fopo_gradient *g, size_t n) {
  const uint32_t *rows = g->rows + g->done;
  uint32_t *due = g->host.due;
  size_t count = 0;
  for (uint32_t b = 0; b < n; b++) {
    if (fopo_candidate_cache_expired(g->cache, rows[b], g->q.refresh)) due[count++] = b;
  }
  for (size_t i = 0; i < count; i++) due[count + i] = rows[due[i]];
  return count;
}

/* dev.candidates [n, K] and now.counts [n] by what is kept, after those that are due were searched;
 * V has room for their queries. */
static int kept_candidates(fopo_gradient *g, size_t n) {
  fopo_device *d = g->device;
  const fopo_gradient_on_device *m = &g->dev;
  size_t due = list_due(g, n);
  int status = FOPO_OK;
  if (due > 0) {
    status = d->ops->put(d, m->due, g->host.due, 2 * due * sizeof *m->due);
    if (status == FOPO_OK && g->on_device) {
      status = d->ops->gather_rows(d, fopo_matrix_view(g->now.V, due, g->L),
                                   fopo_matrix_view(g->now.Q, n, g->L), m->due);
      if (status == FOPO_OK) status = topk(g, g->now.V, due);
    } else if (status == FOPO_OK) {
      status = search(g, g->host.due, due);
    }
    if (status == FOPO_OK) {
      fopo_candidate_sets sets = fopo_gradient_sets(g);
      status = fopo_candidate_cache_store(g->cache, &sets, m->due + due, due);
    }
  }
  if (status != FOPO_OK) return status;
  fopo_candidate_sets sets = fopo_gradient_sets(g);
  return fopo_candidate_cache_load(&sets, g->cache, m->rows + g->done, n);
}

/* The scores of the candidates at the current theta: the index's, or, where the set or the index
 * may be older than the items, taken anew. */
static int put_scores(fopo_gradient *g, size_t n, int keeps) {
  const fopo_gradient_on_device *m = &g->dev;
  const fopo_device_ops *ops = g->device->ops;
  size_t k = g->q.k;
  if (!keeps && !g->train_items) {
    return ops->put(g->device, m->candidate_scores, g->host.candidate_scores,
                    n * k * sizeof *m->candidate_scores);
  }
  fopo_candidate_sets sets = fopo_gradient_sets(g);
  fopo_device_batch batch = fopo_gradient_batch(g, n);
  return ops->scores(g->device, &sets, &g->beta, &batch);
}

/* The candidates of the first g->with_candidates of n contexts at the current theta, and none for
 * the others; with their scores where those are wanted. */
static int find_candidates(fopo_gradient *g, size_t n, int scored) {
  fopo_device *d = g->device;
  uint32_t *counts = g->now.counts;
  size_t with_candidates = g->with_candidates;
  int keeps = fopo_proposal_keeps(&g->q), there = !keeps && g->on_device;
  double start = fopo_clock();
  int status = keeps   ? kept_candidates(g, with_candidates)
               : there ? topk(g, g->now.Q, with_candidates) /* with their scores */
                       : search(g, NULL, with_candidates);
  if (status == FOPO_OK && with_candidates < n) { /* the others' counts are 0 */
    memset(g->host.counts, 0, (n - with_candidates) * sizeof *counts);
    status = d->ops->put(d, counts + with_candidates, g->host.counts,
                         (n - with_candidates) * sizeof *counts);
  }
  if (status == FOPO_OK && scored && !there) status = put_scores(g, with_candidates, keeps);
  g->seconds[FOPO_PHASE_SEARCH] += fopo_clock() - start;
  return status;
}

static int snis_draw(fopo_gradient *g, size_t n) {
  fopo_device *d = g->device;
  const fopo_proposal *q = &g->q;
  int status = g->with_candidates > 0 ? find_candidates(g, n, 1) : FOPO_OK;
  if (status != FOPO_OK) return status;

  double start = fopo_clock();
  fopo_samples samples = fopo_gradient_samples(g);
  fopo_device_batch batch = fopo_gradient_batch(g, n);
  if (g->with_candidates > 0) {
    fopo_mixture m = {.sets = fopo_gradient_sets(g),
                      .epsilon = fopo_proposal_share(q, g->S),
                      .stratified = q->stratified};
    status = d->ops->draw_mixture(d, &samples, &m, &batch);
  } else {
    status = d->ops->draw_uniform(d, &samples, &batch);
  }
  if (status == FOPO_OK) status = fopo_gradient_inject_fault(g, n);
  g->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

/* c_s = wbar_s (r_s - rbar)   (the paper, Algorithm 1; the term in the mean of beta is 0 because
 * the c_s sum to 0) */
static int covariance(fopo_gradient *g, const fopo_rows *items, float floor, size_t n) {
  fopo_estimate e = fopo_gradient_estimate(g);
  fopo_samples samples = fopo_gradient_samples(g);
  fopo_device_batch batch = fopo_gradient_batch(g, n);
  return g->device->ops->snis(g->device, &e, &samples, items, floor, &batch);
}

static int snis_combine(fopo_gradient *g, size_t n) {
  return covariance(g, &g->beta, fopo_proposal_floor(&g->q, g->P, g->S), n);
}

/* -- head and tail ---------------------------------------------------------------------------- */

static int head_tail_draw(fopo_gradient *g, size_t n) {
  int status = find_candidates(g, n, 0);
  if (status != FOPO_OK) return status;
  double start = fopo_clock();
  fopo_samples samples = fopo_gradient_samples(g);
  fopo_candidate_sets head = fopo_gradient_sets(g);
  fopo_device_batch batch = fopo_gradient_batch(g, n);
  status = g->device->ops->draw_tail(g->device, &samples, &head, &batch);
  g->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

/* c_s = wbar_s (r_s - rbar), where w = exp(f) in the head and (P - K) / U exp(f) in the tail */
static int head_tail_combine(fopo_gradient *g, size_t n) {
  return covariance(g, &g->beta, FOPO_TAIL_LEAST, n);
}

/* -- exact: SNIS over an enumeration ---------------------------------------------------------- */

/* Rows [n, P] of the items 0 .. P-1, each of the uniform density, so that w_a = exp(f_a) up to a
 * factor. They stay as they are from batch to batch. */
static int exact_draw(fopo_gradient *g, size_t n) {
  fopo_device *d = g->device;
  if (g->enumerated >= n) return FOPO_OK;
  double start = fopo_clock();
  uint32_t *ids = fopo_alloc(g->P, sizeof *ids);
  float *logq = fopo_alloc(g->P, sizeof *logq);
  int status = ids && logq ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) {
    for (size_t a = 0; a < g->P; a++) {
      ids[a] = (uint32_t)a;
      logq[a] = (float)-log((double)g->P);
    }
  }
  for (size_t b = 0; b < g->part && status == FOPO_OK; b++) {
    status = d->ops->put(d, g->dev.ids + b * g->P, ids, g->P * sizeof *ids);
    if (status == FOPO_OK)
      status = d->ops->put(d, g->dev.logq + b * g->P, logq, g->P * sizeof *logq);
  }
  if (status == FOPO_OK) g->enumerated = g->part;
  fopo_free(ids);
  fopo_free(logq);
  g->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

/* c_a = pi_a (r_a - E_pi r), of the items themselves: the truth has no rounding of theirs */
static int exact_combine(fopo_gradient *g, size_t n) {
  fopo_rows items = fopo_rows_float32(g->dev.items, g->items.ld);
  return covariance(g, &items, INFINITY, n);
}

/* -- reinforce -------------------------------------------------------------------------------- */

/* E_pi beta is wanted where no baseline makes the c_s sum to 0. */
static float *wanted_mean(fopo_gradient *g) { return g->options.baseline ? NULL : g->dev.mean; }

static int reinforce_draw(fopo_gradient *g, size_t n) {
  double start = fopo_clock();
  fopo_samples samples = fopo_gradient_samples(g);
  fopo_policy_sums sums = {wanted_mean(g), g->dev.log_z};
  fopo_device_batch batch = fopo_gradient_batch(g, n);
  int status = g->device->ops->draw_policy(g->device, &samples, &sums,
                                           fopo_gradient_device_matrix(g), &batch);
  g->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

static int reinforce_combine(fopo_gradient *g, size_t n) {
  fopo_estimate e = fopo_gradient_estimate(g);
  fopo_samples samples = fopo_gradient_samples(g);
  fopo_device_batch batch = fopo_gradient_batch(g, n);
  return g->device->ops->reinforce(g->device, &e, &samples, wanted_mean(g),
                                   fopo_gradient_device_matrix(g), &batch);
}

const fopo_estimator fopo_estimators[] = {
    {"exact", exact_draw, exact_combine},
    {"reinforce", reinforce_draw, reinforce_combine},
    {"snis", snis_draw, snis_combine},
    {"head_tail", head_tail_draw, head_tail_combine},
};
