#include "plan/candidate_cache.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

/* If more than this share of pi lies outside the candidates, searching is not worth its cost. */
static const double near_one = 0.95;

/* A probe of 8 contexts every 50 batches is a two-hundredth of the searches that batches of 32
 * would make. Once the candidates are used, mass hardly leaves them, and a probe is a batch of
 * costlier draws: it is made every 500 batches, and more often at first, as the start may look at
 * the wrong items, which the probe of 8 contexts cannot say. */
enum { PROBE_EVERY = 50, PROBE_ROWS = 8, PROBE_SELDOM = 500, PROBE_EARLY = 200 };

/* Probes in a row that must find a policy that was lost better than chance: some do by luck, where
 * few users take what it looks at. */
enum { DOUBTS = 8 };

/* The epsilon of a probe's draws. With the floor alone hardly any draw would be uniform. */
static const double probe_epsilon = 0.5;

/* ---- candidates ---- */

/* Gives back the device's copies. */
static void release_sets(fopo_candidate_cache *cache) {
  if (cache->sets != NULL) cache->device->ops->release(cache->device, cache->sets);
  if (cache->set_counts != NULL) cache->device->ops->release(cache->device, cache->set_counts);
  cache->sets = cache->set_counts = NULL;
}

static void free_candidates(fopo_candidate_cache *cache) {
  release_sets(cache);
  fopo_free(cache->ids);
  fopo_free(cache->counts);
  fopo_free(cache->served);
  cache->ids = cache->counts = cache->served = NULL;
  cache->N = cache->K = 0;
}

/* Makes ids and counts resident on the device. */
static int share_sets(fopo_candidate_cache *cache, fopo_device *device) {
  void *sets = NULL, *counts = NULL;
  cache->device = device;
  cache->sets = cache->set_counts = NULL;
  int status =
      device->ops->share(device, &sets, cache->ids, cache->N * cache->K * sizeof *cache->ids);
  cache->sets = sets;
  if (status == FOPO_OK) {
    status = device->ops->share(device, &counts, cache->counts, cache->N * sizeof *cache->counts);
  }
  cache->set_counts = counts;
  if (status != FOPO_OK) release_sets(cache);
  return status;
}

void fopo_candidate_cache_done(fopo_candidate_cache *cache) {
  free_candidates(cache);
  *cache = (fopo_candidate_cache){0};
}

uint64_t fopo_candidate_cache_bytes(size_t N, size_t K) {
  return (uint64_t)N * ((uint64_t)K + 2) * sizeof(uint32_t);
}

int fopo_candidate_cache_reserve(fopo_candidate_cache *cache, fopo_device *device, size_t N,
                                 size_t K) {
  if (cache->N == N && cache->K == K && cache->device == device) return FOPO_OK;
  char what[96];
  free_candidates(cache);
  snprintf(what, sizeof what, "keeping %zu candidates of each of %zu contexts", K, N);
  int status = fopo_memory_suffices(fopo_candidate_cache_bytes(N, K), what,
                                    "use a smaller k, or refresh = 1");
  if (status != FOPO_OK) return status;
  cache->ids = fopo_alloc(N, K * sizeof *cache->ids);
  cache->counts = fopo_alloc(N, sizeof *cache->counts);
  cache->served = fopo_alloc(N, sizeof *cache->served);
  cache->N = N;
  cache->K = K;
  status =
      cache->ids && cache->counts && cache->served ? share_sets(cache, device) : FOPO_ERR_MEMORY;
  if (status != FOPO_OK) free_candidates(cache);
  return status;
}

int fopo_candidate_cache_expired(const fopo_candidate_cache *cache, uint32_t row, size_t refresh) {
  return cache->served[row] == 0 || cache->served[row] >= refresh;
}

void fopo_candidate_cache_expire(fopo_candidate_cache *cache) {
  if (cache->N > 0) memset(cache->served, 0, cache->N * sizeof *cache->served);
}

fopo_candidate_sets fopo_candidate_cache_sets(const fopo_candidate_cache *cache) {
  return (fopo_candidate_sets){cache->K, cache->sets, NULL, cache->set_counts};
}

int fopo_candidate_cache_store(fopo_candidate_cache *cache, const fopo_candidate_sets *sets,
                               const uint32_t *rows, size_t B) {
  fopo_candidate_sets all = fopo_candidate_cache_sets(cache);
  return cache->device->ops->store_sets(cache->device, &all, sets, rows, B);
}

int fopo_candidate_cache_load(const fopo_candidate_sets *sets, const fopo_candidate_cache *cache,
                              const uint32_t *rows, size_t B) {
  fopo_candidate_sets all = fopo_candidate_cache_sets(cache);
  return cache->device->ops->load_sets(cache->device, sets, &all, rows, B);
}

int fopo_candidate_cache_fetch(fopo_candidate_cache *cache) {
  if (cache->N == 0) return FOPO_OK;
  fopo_device *d = cache->device;
  int status = d->ops->get(d, cache->ids, cache->sets, cache->N * cache->K * sizeof *cache->ids);
  return status == FOPO_OK
             ? d->ops->get(d, cache->counts, cache->set_counts, cache->N * sizeof *cache->counts)
             : status;
}

int fopo_candidate_cache_attach(fopo_candidate_cache *to, fopo_candidate_cache *cache,
                                fopo_device *device) {
  int status = fopo_candidate_cache_fetch(cache);
  *to = (fopo_candidate_cache){0};
  if (status != FOPO_OK) return status;
  *to = *cache;
  status = cache->N > 0 ? share_sets(to, device) : FOPO_OK;
  if (status != FOPO_OK) *to = (fopo_candidate_cache){0};
  return status;
}

void fopo_candidate_cache_detach(fopo_candidate_cache *cache) {
  release_sets(cache);
  *cache = (fopo_candidate_cache){0};
}

static void commit_visits(fopo_candidate_cache *cache, const uint32_t *rows, size_t B,
                          size_t refresh) {
  for (size_t b = 0; b < B; b++) {
    uint32_t *served = &cache->served[rows[b]];
    if (fopo_candidate_cache_expired(cache, rows[b], refresh)) {
      *served = 1;
    } else if (*served < UINT32_MAX) {
      ++*served;
    }
  }
}

/* ---- an adaptive epsilon ---- */

double fopo_candidate_cache_epsilon(const fopo_candidate_cache *cache, const fopo_proposal *q) {
  if (cache->batches == 0 || 1.0 - cache->mass > near_one) return 1.0;
  return cache->doubts > 0 ? fmax(q->floor, probe_epsilon) : q->floor;
}

/* True if the next batch is a probe. */
static int is_probe(const fopo_candidate_cache *cache, const fopo_proposal *q) {
  int often = cache->batches <= PROBE_EARLY || cache->doubts > 0 ||
              fopo_candidate_cache_epsilon(cache, q) >= 1.0;
  return cache->batches % (often ? PROBE_EVERY : PROBE_SELDOM) == 0;
}

double fopo_candidate_cache_draw_epsilon(const fopo_candidate_cache *cache,
                                         const fopo_proposal *q) {
  double epsilon = q->adaptive ? fopo_candidate_cache_epsilon(cache, q) : q->epsilon;
  if (!q->adaptive || !is_probe(cache, q)) return epsilon;
  return fmax(q->floor, probe_epsilon);
}

size_t fopo_candidate_cache_n_with_candidates(const fopo_candidate_cache *cache,
                                              const fopo_proposal *q, size_t B) {
  if (!q->adaptive) return fopo_proposal_uses_index(q) ? B : 0;
  if (fopo_candidate_cache_epsilon(cache, q) < 1.0) return B;
  if (!is_probe(cache, q)) return 0;
  return B < PROBE_ROWS ? B : PROBE_ROWS;
}

/* The first measured mass is not smoothed. */
static void commit_mass(fopo_candidate_cache *cache, const fopo_proposal *q, double mass, int lost,
                        size_t n_with_candidates) {
  if (n_with_candidates > 0 && is_probe(cache, q)) {
    double s = cache->batches == 0 ? 0.0 : q->smoothing;
    if (fopo_candidate_cache_epsilon(cache, q) < 1.0) {
      cache->doubts = lost ? DOUBTS : cache->doubts > 0 ? cache->doubts - 1 : 0;
    }
    cache->mass = s * cache->mass + (1.0 - s) * mass;
  }
  cache->batches++;
}

/* ---- batches ---- */

void fopo_candidate_cache_commit(fopo_candidate_cache *cache, const fopo_proposal *q,
                                 const uint32_t *rows, size_t B, double mass, int lost,
                                 size_t n_with_candidates) {
  if (q->adaptive) commit_mass(cache, q, mass, lost, n_with_candidates);
  if (fopo_proposal_keeps(q) && fopo_proposal_uses_index(q)) {
    commit_visits(cache, rows, B, q->refresh);
  }
}

int fopo_candidate_cache_must_sync(const fopo_candidate_cache *cache, const fopo_proposal *q,
                                   const uint32_t *rows, size_t B) {
  if (q->adaptive && is_probe(cache, q)) return 1;
  if (!fopo_proposal_keeps(q) || fopo_candidate_cache_n_with_candidates(cache, q, B) == 0) return 0;
  for (size_t b = 0; b < B; b++) {
    if (cache->N == 0 || fopo_candidate_cache_expired(cache, rows[b], q->refresh)) return 1;
  }
  return 0;
}

void fopo_candidate_cache_rollback(fopo_candidate_cache *cache, const fopo_proposal *q,
                                   const uint32_t *rows, size_t B) {
  if (q->adaptive) cache->batches--;
  if (!fopo_proposal_keeps(q) || fopo_candidate_cache_n_with_candidates(cache, q, B) == 0) return;
  for (size_t b = 0; b < B; b++) cache->served[rows[b]]--;
}
