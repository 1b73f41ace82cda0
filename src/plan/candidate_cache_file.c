/* The candidate cache in a checkpoint. */
#include <stddef.h>
#include <string.h>

#include "core/status.h"
#include "plan/candidate_cache.h"

static const char sets_name[] = "candidates", counts_name[] = "candidate_counts",
                  served_name[] = "candidate_visits", batches_name[] = "head_batches",
                  mass_name[] = "head_share", norms_name[] = "norms", held_name[] = "norms_held",
                  doubts_name[] = "head_doubts";

/* The counts of a fopo_mass, as its first members. */
enum { NORMS = 7 };
_Static_assert(offsetof(fopo_mass, held) == NORMS * sizeof(uint64_t), "counts, then the share");

size_t fopo_candidate_cache_describe(fopo_array *a, const fopo_candidate_cache *cache) {
  size_t n = 0;
  if (cache->N > 0) {
    a[n++] = fopo_array_of(sets_name, FOPO_U32, cache->ids, 2, cache->N, cache->K);
    a[n++] = fopo_array_of(counts_name, FOPO_U32, cache->counts, 1, cache->N, 1);
    a[n++] = fopo_array_of(served_name, FOPO_U32, cache->served, 1, cache->N, 1);
  }
  if (cache->batches > 0) {
    a[n++] = fopo_array_of(batches_name, FOPO_U64, &cache->batches, 0, 1, 1);
    a[n++] = fopo_array_of(mass_name, FOPO_F64, &cache->mass, 0, 1, 1);
    a[n++] = fopo_array_of(doubts_name, FOPO_U64, &cache->doubts, 0, 1, 1);
  }
  if (cache->norms.head > 0) {
    a[n++] = fopo_array_of(norms_name, FOPO_U64, &cache->norms.head, 1, NORMS, 1);
    a[n++] = fopo_array_of(held_name, FOPO_F64, &cache->norms.held, 0, 1, 1);
  }
  return n;
}

/* All candidates that may be used must be among the P items. */
static int check_sets(const fopo_array *sets, const fopo_array *counts, const fopo_array *served,
                      const char *path, size_t P) {
  const uint32_t *ids = sets->data, *count = counts->data, *visits = served->data;
  size_t K = sets->shape[1];
  for (size_t i = 0; i < sets->shape[0]; i++) {
    int wrong = count[i] > K;
    for (size_t j = 0; !wrong && visits[i] > 0 && j < count[i]; j++) wrong = ids[i * K + j] >= P;
    if (wrong) {
      return fopo_fail(FOPO_ERR_FORMAT,
                       "%s: the candidates of context %zu are not %zu of %zu items", path, i + 1, K,
                       P);
    }
  }
  return FOPO_OK;
}

static int check_candidates(fopo_candidate_cache *cache, fopo_device *device, fopo_archive *archive,
                            const char *path, const fopo_proposal *q, size_t N, size_t P) {
  int status = fopo_candidate_cache_reserve(cache, device, N, q->k);
  if (status != FOPO_OK || fopo_archive_find(archive, sets_name) == NULL) return status;
  fopo_array *sets, *counts, *served;
  status = fopo_archive_need(&sets, archive, path, sets_name, FOPO_U32, 2);
  if (status == FOPO_OK) {
    status = fopo_archive_need(&counts, archive, path, counts_name, FOPO_U32, 1);
  }
  if (status == FOPO_OK) {
    status = fopo_archive_need(&served, archive, path, served_name, FOPO_U32, 1);
  }
  if (status != FOPO_OK) return status;
  if (sets->shape[0] != N || counts->shape[0] != N || served->shape[0] != N) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: it has candidates of %zu contexts, not of %zu", path,
                     sets->shape[0], N);
  }
  if (sets->shape[1] != q->k) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%s: it keeps %zu candidates of a context but k is %zu here; use the same k",
                     path, sets->shape[1], q->k);
  }
  return check_sets(sets, counts, served, path, P);
}

static int check_mass(fopo_archive *archive, const char *path) {
  if (fopo_archive_find(archive, batches_name) == NULL) return FOPO_OK;
  uint64_t batches;
  double share = 0.0;
  int status = fopo_archive_number(&batches, archive, path, batches_name, FOPO_U64);
  if (status == FOPO_OK) status = fopo_archive_number(&share, archive, path, mass_name, FOPO_F64);
  uint64_t doubts; /* none in older files */
  if (status == FOPO_OK && fopo_archive_find(archive, doubts_name) != NULL) {
    status = fopo_archive_number(&doubts, archive, path, doubts_name, FOPO_U64);
  }
  if (status != FOPO_OK || (share >= 0.0 && share <= 1.0)) return status;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: %s is %g; a share is 0 to 1", path, mass_name, share);
}

static int check_norms(fopo_archive *archive, const char *path, size_t P) {
  fopo_mass m = {0};
  if (fopo_archive_find(archive, norms_name) == NULL) return FOPO_OK;
  fopo_array *counts;
  int status = fopo_archive_need(&counts, archive, path, norms_name, FOPO_U64, 1);
  if (status == FOPO_OK) status = fopo_archive_number(&m.held, archive, path, held_name, FOPO_F64);
  if (status != FOPO_OK) return status;
  if (counts->shape[0] != NORMS) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: %s has %zu numbers, not %d", path, norms_name,
                     counts->shape[0], NORMS);
  }
  memcpy(&m.head, counts->data, NORMS * sizeof m.head);
  if (m.head > 0 && m.head <= P && m.held >= 0.0 && m.held <= 1.0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT,
                   "%s: %llu norms of %zu items hold %g of the mass; use 1 to %zu "
                   "norms, and a share of 0 to 1",
                   path, (unsigned long long)m.head, P, m.held, P);
}

int fopo_candidate_cache_check(fopo_candidate_cache *cache, fopo_device *device,
                               fopo_archive *archive, const char *path, const fopo_proposal *q,
                               size_t N, size_t P) {
  int status =
      fopo_proposal_keeps(q) ? check_candidates(cache, device, archive, path, q, N, P) : FOPO_OK;
  if (status == FOPO_OK && q->adaptive) status = check_mass(archive, path);
  return status == FOPO_OK ? check_norms(archive, path, P) : status;
}

static void restore_mass(fopo_candidate_cache *cache, const fopo_archive *archive) {
  const fopo_array *batches = fopo_archive_find(archive, batches_name);
  const fopo_array *doubts = fopo_archive_find(archive, doubts_name);
  cache->batches = cache->doubts = 0;
  if (batches == NULL) return;
  if (doubts != NULL) memcpy(&cache->doubts, doubts->data, sizeof cache->doubts);
  memcpy(&cache->batches, batches->data, sizeof cache->batches);
  memcpy(&cache->mass, fopo_archive_find(archive, mass_name)->data, sizeof cache->mass);
}

/* A file may come from a run that took its number of norms from the mass and this one may not. */
static void restore_norms(fopo_candidate_cache *cache, const fopo_archive *archive,
                          const fopo_proposal *q) {
  const fopo_array *counts = fopo_archive_find(archive, norms_name);
  cache->norms = (fopo_mass){0};
  if (counts == NULL || !fopo_mass_serves(q)) return;
  memcpy(&cache->norms.head, counts->data, NORMS * sizeof cache->norms.head);
  memcpy(&cache->norms.held, fopo_archive_find(archive, held_name)->data, sizeof(double));
}

int fopo_candidate_cache_restore(fopo_candidate_cache *cache, const fopo_archive *archive,
                                 const fopo_proposal *q) {
  restore_norms(cache, archive, q);
  if (q->adaptive) restore_mass(cache, archive);
  if (!fopo_proposal_keeps(q)) return FOPO_OK;
  memset(cache->served, 0, cache->N * sizeof *cache->served);
  const fopo_array *sets = fopo_archive_find(archive, sets_name);
  if (sets == NULL) return FOPO_OK;
  size_t bytes = cache->N * sizeof *cache->counts;
  memcpy(cache->ids, sets->data, cache->K * bytes);
  memcpy(cache->counts, fopo_archive_find(archive, counts_name)->data, bytes);
  const fopo_device_ops *ops = cache->device->ops;
  int status = ops->put(cache->device, cache->sets, cache->ids, cache->K * bytes);
  if (status == FOPO_OK) status = ops->put(cache->device, cache->set_counts, cache->counts, bytes);
  if (status != FOPO_OK) return status;
  memcpy(cache->served, fopo_archive_find(archive, served_name)->data, bytes);
  return FOPO_OK;
}
