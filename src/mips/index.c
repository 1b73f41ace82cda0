/* What all kinds of index share: the checks of arguments, the lock, and the header of their files.
 *
 * Inner products must not overflow: |q . beta| and every partial sum of it is at most |q| |beta|,
 * so both norms are checked here and the kernels need not test for it. */
#include "mips/index.h"

#include <float.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <zlib.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/norm.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "mips/index_internal.h"

/* hnswlib counts items in int. */
#define MAX_ITEMS ((size_t)INT32_MAX - 1)
#define MAX_NORM  1e18 /* |beta|^2 is far from FLT_MAX: a graph takes inner products of items */

enum { VERSION = 1 };

static _Atomic uint64_t structures; /* made so far in this process: gives their versions */

/* *max_norm = the largest norm of the rows; norms [rows], unless NULL, each of them rounded up. One
 * pass if all is well; FOPO_ERR_NUMERIC names the first value that is not finite or the first row
 * with a norm above `bound`. */
static int bounded_norm(double *max_norm, float *norms, fopo_matrix m, double bound,
                        const char *what) {
  /* The norm of a row is finite if and only if its values are, so one test covers both. */
  int within = 1;
  double largest = 0.0;
// clang-format off
#pragma omp parallel for num_threads(fopo_threads()) if (m.rows > 4096) \
    reduction(max : largest) reduction(&& : within)
  // clang-format on
  for (size_t i = 0; i < m.rows; i++) {
    double length = fopo_norm(fopo_matrix_row(m, i), m.cols);
    if (norms != NULL) norms[i] = fopo_norm_up(length);
    within = within && length <= bound;
    if (length > largest) largest = length;
  }
  *max_norm = largest;
  if (within) return FOPO_OK;
  int status = fopo_matrix_finite(m, what);
  if (status != FOPO_OK) return status;
  size_t row = 0;
  while (fopo_norm(fopo_matrix_row(m, row), m.cols) <= bound) row++;
  return fopo_fail(FOPO_ERR_NUMERIC,
                   "row %zu of %s has norm %.3g: its scores may overflow float32; scale it to at "
                   "most %.3g",
                   row + 1, what, fopo_norm(fopo_matrix_row(m, row), m.cols), bound);
}

/* Fills the fresh index, and *norms unless norms is NULL. */
static int fill(fopo_index *fresh, fopo_matrix items, float **norms) {
  double max_norm;
  if (norms != NULL && (*norms = fopo_alloc(items.rows, sizeof **norms)) == NULL) {
    return FOPO_ERR_MEMORY;
  }
  int status = bounded_norm(&max_norm, norms != NULL ? *norms : NULL, items, MAX_NORM, "items");
  if (status != FOPO_OK) return status;
  fresh->items = items;
  fresh->max_norm = fopo_norm_up(max_norm);
  fresh->version = atomic_fetch_add(&structures, 1) + 1;
  pthread_mutex_init(&fresh->lock, NULL);
  return FOPO_OK;
}

int fopo_index_begin(fopo_index **ix, const fopo_index_kind *kind, fopo_matrix items,
                     float **norms) {
  *ix = NULL;
  if (norms != NULL) *norms = NULL;
  if (items.rows == 0 || items.cols == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "an index needs items, but the matrix is %zu x %zu; give at least one row "
                     "and one column",
                     items.rows, items.cols);
  }
  if (items.rows > MAX_ITEMS) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "an index holds at most %zu items, not %zu; split them",
                     MAX_ITEMS, items.rows);
  }
  fopo_index *fresh = fopo_alloc(1, sizeof *fresh);
  if (fresh == NULL) return FOPO_ERR_MEMORY;
  int status = fill(fresh, items, norms);
  if (status != FOPO_OK) {
    if (norms != NULL) fopo_free(*norms);
    if (norms != NULL) *norms = NULL;
    fopo_free(fresh);
    return status;
  }
  fresh->kind = kind;
  *ix = fresh;
  return FOPO_OK;
}

int fopo_index_end(fopo_index **ix, int status) {
  if (status == FOPO_OK) return FOPO_OK;
  fopo_index_free(*ix);
  *ix = NULL;
  return status;
}

fopo_index *fopo_index_share(fopo_index *ix) {
  pthread_mutex_lock(&ix->lock);
  ix->shared++;
  pthread_mutex_unlock(&ix->lock);
  return ix;
}

void fopo_index_free(fopo_index *ix) {
  if (ix == NULL) return;
  pthread_mutex_lock(&ix->lock);
  int is_last = ix->shared == 0;
  if (!is_last) ix->shared--;
  pthread_mutex_unlock(&ix->lock);
  if (!is_last) return;
  ix->kind->free(ix);
  pthread_mutex_destroy(&ix->lock);
  fopo_free(ix);
}

int fopo_index_over(const fopo_index *ix, fopo_matrix items) {
  return ix->items.x == items.x && ix->items.rows == items.rows && ix->items.cols == items.cols &&
         ix->items.ld == items.ld;
}

int fopo_index_refresh(fopo_index *ix) {
  fopo_index *fresh;
  int status = ix->kind->rebuild(&fresh, ix);
  if (status != FOPO_OK) return status;
  void *old = ix->impl;
  pthread_mutex_lock(&ix->lock);
  ix->impl = fresh->impl;
  ix->max_norm = fresh->max_norm;
  ix->build_seconds = fresh->build_seconds;
  ix->version = fresh->version;
  pthread_mutex_unlock(&ix->lock);
  fresh->impl = old;
  fopo_index_free(fresh);
  return FOPO_OK;
}

int fopo_index_check_k(const fopo_index *ix, size_t k) {
  size_t P = ix->items.rows;
  if (k == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "k is 0; ask for 1 to %zu items", P);
  if (k <= P) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "k is %zu but the index holds %zu items; use k <= %zu", k, P,
                   P);
}

static int check_search(const fopo_index *ix, fopo_matrix Q, size_t k) {
  size_t L = ix->items.cols;
  int status = fopo_index_check_k(ix, k);
  if (status != FOPO_OK) return status;
  if (Q.cols != L && Q.rows > 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the queries are %zu x %zu but the items have dimension %zu; use queries of "
                     "%zu columns",
                     Q.rows, Q.cols, L, L);
  }
  double max_norm, bound = ix->max_norm > 1.0f ? (double)FLT_MAX / (2.0 * (double)ix->max_norm)
                                               : (double)FLT_MAX / 2.0;
  return bounded_norm(&max_norm, NULL, Q, bound, "queries");
}

/* ---- without some items, for kinds that cannot leave items out ---- */

/* Items beyond k of a first search, of which few are left out as a rule, and what follows for the
 * queries that are left with less than k. So one that leaves out 10,000 items does not slow the
 * others. */
enum { MORE = 32, FACTOR = 4 };

typedef struct {
  fopo_matrix Q;   /* [queries, L] those without an answer, */
  uint32_t *which; /* [queries] and which they are */
  uint32_t *ids;   /* [queries, take] what was found for each of them */
  float *scores;
  uint32_t *counts; /* [queries] */
} found;

static void found_done(found *f) {
  fopo_matrix_done(&f->Q);
  fopo_free(f->which);
  fopo_free(f->ids);
  fopo_free(f->scores);
  fopo_free(f->counts);
}

static int found_init(found *f, fopo_matrix Q) {
  *f = (found){.which = fopo_alloc(Q.rows, sizeof *f->which),
               .counts = fopo_alloc(Q.rows, sizeof *f->counts)};
  for (size_t q = 0; q < Q.rows && f->which != NULL; q++) f->which[q] = (uint32_t)q;
  return f->which && f->counts ? fopo_matrix_init(&f->Q, Q.rows, Q.cols) : FOPO_ERR_MEMORY;
}

/* Copies the first k items of an answer [n] that are not left out; returns how many there are. */
static uint32_t pick(uint32_t *ids, float *scores, const uint32_t *found_ids,
                     const float *found_scores, size_t n, size_t k, const fopo_left_out *out) {
  uint32_t count = 0;
  for (size_t i = 0; i < n && count < k; i++) {
    if (fopo_is_left_out(out, found_ids[i])) continue;
    ids[count] = found_ids[i];
    scores[count++] = found_scores[i];
  }
  for (size_t i = count; i < k; i++) {
    ids[i] = FOPO_NO_ITEM;
    scores[i] = -INFINITY;
  }
  return count;
}

/* Queries are searched for more than k items, and those that are left with less again, up to k and
 * all that they leave out, or until the index has no more. */
static int search_wider(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix,
                        fopo_matrix Q, size_t k, fopo_without without) {
  size_t P = ix->items.rows, open = Q.rows;
  found f;
  int status = found_init(&f, Q);
  for (size_t take = k + MORE; open > 0 && status == FOPO_OK; take *= FACTOR) {
    if (take > P) take = P;
    for (size_t i = 0; i < open; i++) {
      memcpy(fopo_matrix_row(f.Q, i), fopo_matrix_row(Q, f.which[i]), Q.cols * sizeof(float));
    }
    status = fopo_resize(&f.ids, open * take, sizeof *f.ids);
    if (status == FOPO_OK) status = fopo_resize(&f.scores, open * take, sizeof *f.scores);
    if (status == FOPO_OK) {
      status =
          ix->kind->search(f.ids, f.scores, f.counts, ix, fopo_matrix_rows(f.Q, 0, open), take);
    }
    size_t still = 0;
    for (size_t i = 0; i < open && status == FOPO_OK; i++) {
      size_t q = f.which[i];
      const fopo_left_out *out = &without.rows[q / without.each];
      counts[q] = pick(ids + q * k, scores + q * k, f.ids + i * take, f.scores + i * take,
                       f.counts[i], k, out);
      int ended = f.counts[i] < take || take == P || take >= k + out->n;
      if (counts[q] < k && !ended) f.which[still++] = (uint32_t)q;
    }
    open = still;
  }
  found_done(&f);
  return status;
}

/* ---- searches ---- */

/* limit: see fopo_index_search_within. */
static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t k, size_t limit, fopo_without without) {
  fopo_index_facts facts = {0};
  int wider = without.rows != NULL && !ix->kind->leaves_out;
  pthread_mutex_lock(&ix->lock);
  if (limit > 0) {
    ix->kind->about(&facts, ix);
    ix->kind->set_budget(ix, limit);
  }
  ix->without = without;
  int status = wider ? search_wider(ids, scores, counts, ix, Q, k, without)
                     : ix->kind->search(ids, scores, counts, ix, Q, k);
  ix->without = (fopo_without){0};
  if (limit > 0) ix->kind->set_budget(ix, facts.budget);
  if (status == FOPO_OK) ix->queries += Q.rows;
  pthread_mutex_unlock(&ix->lock);
  return status;
}

int fopo_index_search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                      size_t k) {
  return fopo_index_search_within(ids, scores, counts, ix, Q, k, 0, 0);
}

int fopo_index_search_within(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix,
                             fopo_matrix Q, size_t k, size_t limit, int set) {
  int status = check_search(ix, Q, k);
  if (status != FOPO_OK || Q.rows == 0) return status;
  const fopo_without nothing = {0};
  if (ix->kind->set_budget == NULL) limit = 0;
  if (set && ix->kind->finds_sets) return search(ids, NULL, counts, ix, Q, k, limit, nothing);
  status = search(ids, scores, counts, ix, Q, k, limit, nothing);
  for (size_t b = 0; set && status == FOPO_OK && b < Q.rows; b++) {
    uint32_t *scratch = (uint32_t *)(void *)(scores + b * k);
    fopo_sort_ids(ids + b * k, scratch, counts[b], ix->items.rows);
  }
  return status;
}

int fopo_index_search_without(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix,
                              fopo_matrix Q, size_t k, size_t limit, fopo_without without) {
  int status = check_search(ix, Q, k);
  if (status != FOPO_OK || Q.rows == 0) return status;
  return search(ids, scores, counts, ix, Q, k, ix->kind->set_budget != NULL ? limit : 0, without);
}

fopo_index_facts fopo_index_about(const fopo_index *ix) {
  fopo_index_facts facts = {0};
  pthread_mutex_t *lock = (pthread_mutex_t *)&ix->lock; /* reading takes the lock, too */
  pthread_mutex_lock(lock);
  facts.kind = ix->kind->name;
  facts.exhaustive = ix->kind->exhaustive;
  facts.by_norm = ix->kind->order != NULL;
  facts.n_items = ix->items.rows;
  facts.dim = ix->items.cols;
  facts.build_seconds = ix->build_seconds;
  facts.scored = ix->scored;
  facts.queries = ix->queries;
  facts.version = ix->version;
  ix->kind->about(&facts, ix);
  pthread_mutex_unlock(lock);
  return facts;
}

int fopo_index_set_ef(fopo_index *ix, size_t ef) {
  if (ix->kind->set_ef == NULL) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "an index of kind %s has no ef, the breadth of a search in a graph (hnsw, hybrid)",
        ix->kind->name);
  }
  if (ef == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "ef is 0; use 1 or more");
  pthread_mutex_lock(&ix->lock);
  int status = ix->kind->set_ef(ix, ef < ix->items.rows ? ef : ix->items.rows);
  pthread_mutex_unlock(&ix->lock);
  return status;
}

int fopo_index_set_budget(fopo_index *ix, size_t budget) {
  if (ix->kind->set_budget == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "an index of kind %s has no budget; only norm scans a prefix of the norms",
                     ix->kind->name);
  }
  pthread_mutex_lock(&ix->lock);
  int status = ix->kind->set_budget(ix, budget);
  pthread_mutex_unlock(&ix->lock);
  return status;
}

int fopo_index_order(uint32_t *order, float *norms, uint64_t *version, const fopo_index *ix) {
  if (ix->kind->order == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "an index of kind %s keeps no order of its items by norm; use a norm index",
                     ix->kind->name);
  }
  pthread_mutex_t *lock = (pthread_mutex_t *)&ix->lock; /* a refresh may replace the order */
  pthread_mutex_lock(lock);
  ix->kind->order(order, norms, ix);
  *version = ix->version;
  pthread_mutex_unlock(lock);
  return FOPO_OK;
}

/* ---- files ---- */

/* CRC-32 of the items' sizes and bytes: a saved index belongs to one matrix. */
static uint32_t fingerprint_of(fopo_matrix items) {
  uint64_t sizes[2] = {items.rows, items.cols};
  uLong crc = crc32_z(0, (const Bytef *)sizes, sizeof sizes);
  for (size_t i = 0; i < items.rows; i++) {
    crc = crc32_z(crc, (const Bytef *)fopo_matrix_row(items, i), items.cols * sizeof(float));
  }
  return (uint32_t)crc;
}

void fopo_index_members(fopo_array arrays[FOPO_INDEX_MEMBERS], fopo_index_header *header,
                        const fopo_index *ix) {
  *header =
      (fopo_index_header){VERSION, fingerprint_of(ix->items), {ix->items.rows, ix->items.cols}};
  arrays[0] = fopo_array_text("kind", ix->kind->name);
  arrays[1] = fopo_array_of("version", FOPO_U64, &header->version, 0, 1, 1);
  arrays[2] = fopo_array_of("items", FOPO_U64, header->items, 1, 2, 1);
  arrays[3] = fopo_array_of("fingerprint", FOPO_U64, &header->fingerprint, 0, 1, 1);
}

int fopo_index_number(uint64_t *value, fopo_archive *archive, const char *path, const char *name,
                      uint64_t max) {
  *value = 0;
  int status = fopo_archive_number(value, archive, path, name, FOPO_U64);
  if (status == FOPO_OK && *value > max) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: %s is %" PRIu64 ", more than %" PRIu64
                     "; the index is damaged, build it again",
                     path, name, *value, max);
  }
  return status;
}

int fopo_index_save(const fopo_index *ix, const char *path) { return ix->kind->save(ix, path); }

/* Compares version, sizes and fingerprint of the file with the items at hand. */
static int check_items(fopo_archive *archive, const char *path, fopo_matrix items) {
  uint64_t version, fingerprint;
  int status = fopo_index_number(&version, archive, path, "version", UINT64_MAX);
  if (status != FOPO_OK) return status;
  if (version != VERSION) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s is an index of version %" PRIu64 ", this program reads %d; build it again",
                     path, version, VERSION);
  }
  fopo_array *sizes;
  status = fopo_archive_need(&sizes, archive, path, "items", FOPO_U64, 1);
  if (status != FOPO_OK) return status;
  if (sizes->shape[0] != 2) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: items has %zu numbers, not 2; build the index again",
                     path, sizes->shape[0]);
  }
  const uint64_t *shape = sizes->data;
  if (shape[0] != items.rows || shape[1] != items.cols) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s was built on %" PRIu64 " x %" PRIu64
                     " items, these are %zu x %zu; load the items it belongs to or build it again",
                     path, shape[0], shape[1], items.rows, items.cols);
  }
  status = fopo_index_number(&fingerprint, archive, path, "fingerprint", UINT32_MAX);
  if (status != FOPO_OK) return status;
  if (fingerprint != fingerprint_of(items)) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s was built on other items of the same size; load the items it belongs to "
                     "or build it again",
                     path);
  }
  return FOPO_OK;
}

static const fopo_index_kind *const kinds[] = {
#define ROW(name) &fopo_index_kind_##name,
    FOPO_INDEX_KINDS(ROW)};

static int load_kind(fopo_index **ix, fopo_archive *archive, const char *path, fopo_matrix items) {
  char name[16];
  if (fopo_archive_find(archive, "kind") == NULL) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s holds no index: it was not written by index:save(path)",
                     path);
  }
  int status = fopo_archive_text(name, sizeof name, archive, path, "kind");
  if (status != FOPO_OK) return status;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(name, kinds[i]->name) != 0) continue;
    status = check_items(archive, path, items);
    return status == FOPO_OK ? kinds[i]->load(ix, archive, path, items) : status;
  }
  return fopo_fail(FOPO_ERR_FORMAT,
                   "%s holds an index of a kind that this program does not know; build it again",
                   path);
}

int fopo_index_load(fopo_index **ix, const char *path, fopo_matrix items) {
  double start = fopo_clock();
  fopo_archive archive;
  *ix = NULL;
  int status = fopo_npz_load(&archive, path);
  if (status != FOPO_OK) return status;
  status = fopo_archive_check(&archive, path, "index");
  if (status == FOPO_OK) status = load_kind(ix, &archive, path, items);
  fopo_archive_done(&archive);
  if (status == FOPO_OK) (*ix)->build_seconds = fopo_clock() - start;
  return status;
}
