#include "learn/candidate_cache.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

/* Above it a search costs more than the few draws it would place better. */
static const double near_one = 0.95;

/* Eight searches every fifty batches are a two-hundredth of what a batch of 32 would ask. Once the
 * candidates serve, mass hardly leaves them, and a probe is a batch of costlier draws: seldom. */
enum { PROBE_EVERY = 50, PROBE_ROWS = 8, PROBE_SELDOM = 500 };

/* Of a probe's draws. Those of the floor alone would see hardly any of the tail. */
static const double probe_epsilon = 0.5;

/* ---- candidates that are kept ---- */

/* What lies on the device alone. */
static void release_sets(fopo_candidate_cache *v) {
  if (v->sets != NULL) v->device->ops->release(v->device, v->sets);
  if (v->set_counts != NULL) v->device->ops->release(v->device, v->set_counts);
  v->sets = v->set_counts = NULL;
}

static void release(fopo_candidate_cache *v) {
  release_sets(v);
  fopo_free(v->ids);
  fopo_free(v->counts);
  fopo_free(v->served);
  v->ids = v->counts = v->served = NULL;
  v->N = v->K = 0;
}

/* The device's copies of ids and counts. */
static int share_sets(fopo_candidate_cache *v, fopo_device *device) {
  void *sets = NULL, *counts = NULL;
  v->device = device;
  v->sets = v->set_counts = NULL;
  int status = device->ops->share(device, &sets, v->ids, v->N * v->K * sizeof *v->ids);
  v->sets = sets;
  if (status == FOPO_OK)
    status = device->ops->share(device, &counts, v->counts, v->N * sizeof *v->counts);
  v->set_counts = counts;
  if (status != FOPO_OK) release_sets(v);
  return status;
}

void fopo_candidate_cache_done(fopo_candidate_cache *v) {
  release(v);
  *v = (fopo_candidate_cache){0};
}

uint64_t fopo_candidate_cache_bytes(size_t N, size_t K) {
  return (uint64_t)N * ((uint64_t)K + 2) * sizeof(uint32_t);
}

int fopo_candidate_cache_reserve(fopo_candidate_cache *v, fopo_device *device, size_t N, size_t K) {
  if (v->N == N && v->K == K && v->device == device) return FOPO_OK;
  char what[96];
  release(v);
  snprintf(what, sizeof what, "keeping %zu candidates of each of %zu contexts", K, N);
  int status = fopo_memory_suffices(fopo_candidate_cache_bytes(N, K), what,
                                    "use a smaller k, or refresh = 1");
  if (status != FOPO_OK) return status;
  v->ids = fopo_alloc(N, K * sizeof *v->ids);
  v->counts = fopo_alloc(N, sizeof *v->counts);
  v->served = fopo_alloc(N, sizeof *v->served);
  v->N = N;
  v->K = K;
  status = v->ids && v->counts && v->served ? share_sets(v, device) : FOPO_ERR_MEMORY;
  if (status != FOPO_OK) release(v);
  return status;
}

int fopo_candidate_cache_expired(const fopo_candidate_cache *v, uint32_t row, size_t refresh) {
  return v->served[row] == 0 || v->served[row] >= refresh;
}

/* The sets of all contexts, on the device. */
static fopo_candidate_sets all_sets(const fopo_candidate_cache *v) {
  return (fopo_candidate_sets){v->K, v->sets, NULL, v->set_counts};
}

int fopo_candidate_cache_store(fopo_candidate_cache *v, const fopo_candidate_sets *sets,
                               const uint32_t *rows, size_t B) {
  fopo_candidate_sets cache = all_sets(v);
  return v->device->ops->store_sets(v->device, &cache, sets, rows, B);
}

int fopo_candidate_cache_load(const fopo_candidate_sets *sets, const fopo_candidate_cache *v,
                              const uint32_t *rows, size_t B) {
  fopo_candidate_sets cache = all_sets(v);
  return v->device->ops->load_sets(v->device, sets, &cache, rows, B);
}

int fopo_candidate_cache_fetch(fopo_candidate_cache *v) {
  if (v->N == 0) return FOPO_OK;
  fopo_device *d = v->device;
  int status = d->ops->get(d, v->ids, v->sets, v->N * v->K * sizeof *v->ids);
  return status == FOPO_OK ? d->ops->get(d, v->counts, v->set_counts, v->N * sizeof *v->counts)
                           : status;
}

int fopo_candidate_cache_attach(fopo_candidate_cache *to, fopo_candidate_cache *v,
                                fopo_device *device) {
  int status = fopo_candidate_cache_fetch(v);
  *to = (fopo_candidate_cache){0};
  if (status != FOPO_OK) return status;
  *to = *v;
  status = v->N > 0 ? share_sets(to, device) : FOPO_OK;
  if (status != FOPO_OK) *to = (fopo_candidate_cache){0};
  return status;
}

void fopo_candidate_cache_detach(fopo_candidate_cache *v) {
  release_sets(v);
  *v = (fopo_candidate_cache){0};
}

static void commit_visits(fopo_candidate_cache *v, const uint32_t *rows, size_t B, size_t refresh) {
  for (size_t b = 0; b < B; b++) {
    uint32_t *served = &v->served[rows[b]];
    if (fopo_candidate_cache_expired(v, rows[b], refresh)) {
      *served = 1;
    } else if (*served < UINT32_MAX) {
      ++*served;
    }
  }
}

/* ---- an adaptive epsilon ---- */

double fopo_candidate_cache_epsilon(const fopo_candidate_cache *v, const fopo_proposal *q) {
  return v->batches == 0 || 1.0 - v->head > near_one ? 1.0 : q->floor;
}

/* Whether the next batch measures the share. */
static int probes(const fopo_candidate_cache *v, const fopo_proposal *q) {
  return v->batches % (fopo_candidate_cache_epsilon(v, q) < 1.0 ? PROBE_SELDOM : PROBE_EVERY) == 0;
}

double fopo_candidate_cache_draw_epsilon(const fopo_candidate_cache *v, const fopo_proposal *q) {
  double epsilon = q->adaptive ? fopo_candidate_cache_epsilon(v, q) : q->epsilon;
  if (!q->adaptive || !probes(v, q)) return epsilon;
  return fmax(q->floor, probe_epsilon);
}

size_t fopo_candidate_cache_n_with_candidates(const fopo_candidate_cache *v, const fopo_proposal *q,
                                              size_t B) {
  if (!q->adaptive) return fopo_proposal_uses_index(q) ? B : 0;
  if (fopo_candidate_cache_epsilon(v, q) < 1.0) return B;
  if (!probes(v, q)) return 0;
  return B < PROBE_ROWS ? B : PROBE_ROWS;
}

/* The first share has nothing to be smoothed with. */
static void count_head(fopo_candidate_cache *v, const fopo_proposal *q, double mass,
                       size_t n_with_candidates) {
  if (n_with_candidates > 0 && probes(v, q)) {
    double s = v->batches == 0 ? 0.0 : q->smoothing;
    v->head = s * v->head + (1.0 - s) * mass;
  }
  v->batches++;
}

/* ---- both ---- */

void fopo_candidate_cache_commit(fopo_candidate_cache *v, const fopo_proposal *q,
                                 const uint32_t *rows, size_t B, double head_mass,
                                 size_t n_with_candidates) {
  if (q->adaptive) count_head(v, q, head_mass, n_with_candidates);
  if (fopo_proposal_keeps(q) && fopo_proposal_uses_index(q)) commit_visits(v, rows, B, q->refresh);
}

int fopo_candidate_cache_must_sync(const fopo_candidate_cache *v, const fopo_proposal *q,
                                   const uint32_t *rows, size_t B) {
  if (q->adaptive && probes(v, q)) return 1;
  if (!fopo_proposal_keeps(q) || fopo_candidate_cache_n_with_candidates(v, q, B) == 0) return 0;
  for (size_t b = 0; b < B; b++) {
    if (v->N == 0 || fopo_candidate_cache_expired(v, rows[b], q->refresh)) return 1;
  }
  return 0;
}

void fopo_candidate_cache_rollback(fopo_candidate_cache *v, const fopo_proposal *q,
                                   const uint32_t *rows, size_t B) {
  if (q->adaptive) v->batches--;
  if (!fopo_proposal_keeps(q) || fopo_candidate_cache_n_with_candidates(v, q, B) == 0) return;
  for (size_t b = 0; b < B; b++) v->served[rows[b]]--;
}

/* ---- files ---- */

static const char sets_name[] = "candidates", counts_name[] = "candidate_counts",
                  served_name[] = "candidate_visits", batches_name[] = "head_batches",
                  head_name[] = "head_share";

size_t fopo_candidate_cache_describe(fopo_array *a, const fopo_candidate_cache *v) {
  size_t n = 0;
  if (v->N > 0) {
    a[n++] = fopo_array_of(sets_name, FOPO_U32, v->ids, 2, v->N, v->K);
    a[n++] = fopo_array_of(counts_name, FOPO_U32, v->counts, 1, v->N, 1);
    a[n++] = fopo_array_of(served_name, FOPO_U32, v->served, 1, v->N, 1);
  }
  if (v->batches > 0) {
    a[n++] = fopo_array_of(batches_name, FOPO_U64, &v->batches, 0, 1, 1);
    a[n++] = fopo_array_of(head_name, FOPO_F64, &v->head, 0, 1, 1);
  }
  return n;
}

/* Every id of a set that may be used is one of the P items. */
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

static int check_kept(fopo_candidate_cache *v, fopo_device *device, fopo_archive *archive,
                      const char *path, const fopo_proposal *q, size_t N, size_t P) {
  int status = fopo_candidate_cache_reserve(v, device, N, q->k);
  if (status != FOPO_OK || fopo_archive_find(archive, sets_name) == NULL) return status;
  const fopo_array *sets = fopo_archive_need(archive, path, sets_name, FOPO_U32, 2);
  const fopo_array *counts =
      sets ? fopo_archive_need(archive, path, counts_name, FOPO_U32, 1) : NULL;
  const fopo_array *served =
      counts ? fopo_archive_need(archive, path, served_name, FOPO_U32, 1) : NULL;
  if (served == NULL) return FOPO_ERR_FORMAT;
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

static int check_share(fopo_archive *archive, const char *path) {
  if (fopo_archive_find(archive, batches_name) == NULL) return FOPO_OK;
  const fopo_array *batches = fopo_archive_need(archive, path, batches_name, FOPO_U64, 0);
  const fopo_array *head =
      batches ? fopo_archive_need(archive, path, head_name, FOPO_F64, 0) : NULL;
  if (head == NULL) return FOPO_ERR_FORMAT;
  double share;
  memcpy(&share, head->data, sizeof share);
  if (share >= 0.0 && share <= 1.0) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: %s is %g; a share is 0 to 1", path, head_name, share);
}

int fopo_candidate_cache_check(fopo_candidate_cache *v, fopo_device *device, fopo_archive *archive,
                               const char *path, const fopo_proposal *q, size_t N, size_t P) {
  int status = fopo_proposal_keeps(q) ? check_kept(v, device, archive, path, q, N, P) : FOPO_OK;
  return status == FOPO_OK && q->adaptive ? check_share(archive, path) : status;
}

static void take_share(fopo_candidate_cache *v, const fopo_archive *archive) {
  const fopo_array *batches = fopo_archive_find(archive, batches_name);
  v->batches = 0;
  if (batches == NULL) return;
  memcpy(&v->batches, batches->data, sizeof v->batches);
  memcpy(&v->head, fopo_archive_find(archive, head_name)->data, sizeof v->head);
}

int fopo_candidate_cache_restore(fopo_candidate_cache *v, const fopo_archive *archive,
                                 const fopo_proposal *q) {
  if (q->adaptive) take_share(v, archive);
  if (!fopo_proposal_keeps(q)) return FOPO_OK;
  memset(v->served, 0, v->N * sizeof *v->served);
  const fopo_array *sets = fopo_archive_find(archive, sets_name);
  if (sets == NULL) return FOPO_OK;
  size_t bytes = v->N * sizeof *v->counts;
  memcpy(v->ids, sets->data, v->K * bytes);
  memcpy(v->counts, fopo_archive_find(archive, counts_name)->data, bytes);
  const fopo_device_ops *ops = v->device->ops;
  int status = ops->put(v->device, v->sets, v->ids, v->K * bytes);
  if (status == FOPO_OK) status = ops->put(v->device, v->set_counts, v->counts, bytes);
  if (status != FOPO_OK) return status;
  memcpy(v->served, fopo_archive_find(archive, served_name)->data, bytes);
  return FOPO_OK;
}
