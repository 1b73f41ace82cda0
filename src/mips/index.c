/* What all kinds of index share: the checks at the border, the lock, and the head of their files.
 *
 * Inside, inner products must not overflow: |q . beta| and every partial sum of it is at most
 * |q| |beta|, so both norms are checked here and the kernels need not look. */
#include "mips/index.h"

#include <float.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"
#include "mips/index_internal.h"
#include "mips/scan.h"

/* Ids need 32 bits with one value to spare, and hnswlib counts items in int. */
#define ITEMS_MOST ((size_t)INT32_MAX - 1)
#define NORM_MOST  1e18 /* |beta|^2 is far from FLT_MAX: items meet each other in a graph */

enum { VERSION = 1 };

static _Atomic uint64_t structures; /* made so far */

/* The largest norm, and each of them rounded up in norms [rows] unless that is NULL; one pass.
 * FOPO_ERR_NUMERIC names the first value that is not finite or the first row that may overflow. */
static int bounded_norm(double *most, float *norms, fopo_matrix m, double bound, const char *what) {
  double largest = 0.0;
  int within = 1; /* a sum of squares in double is not finite where a value is not */
#pragma omp parallel for num_threads(fopo_threads()) reduction(max : largest) reduction(&& : within) \
    if (m.rows > 4096)
  for (size_t i = 0; i < m.rows; i++) {
    double length = fopo_scan_norm(fopo_matrix_row(m, i), m.cols);
    if (norms != NULL) norms[i] = fopo_scan_up(length);
    within = within && length <= bound;
    if (length > largest) largest = length;
  }
  *most = largest;
  if (within) return FOPO_OK;
  int status = fopo_matrix_finite(m, what);
  if (status != FOPO_OK) return status;
  size_t row = 0;
  while (fopo_scan_norm(fopo_matrix_row(m, row), m.cols) <= bound) row++;
  return fopo_fail(FOPO_ERR_NUMERIC,
                   "row %zu of %s has norm %.3g: its scores may overflow float32; scale it to at "
                   "most %.3g",
                   row + 1, what, fopo_scan_norm(fopo_matrix_row(m, row), m.cols), bound);
}

/* The fresh index, its norms in *norms unless that is NULL. */
static int make(fopo_index *fresh, fopo_matrix items, float **norms) {
  double most;
  if (norms != NULL && (*norms = fopo_alloc(items.rows, sizeof **norms)) == NULL) {
    return FOPO_ERR_MEMORY;
  }
  int status = bounded_norm(&most, norms != NULL ? *norms : NULL, items, NORM_MOST, "items");
  if (status != FOPO_OK) return status;
  fresh->items = items;
  fresh->max_norm = fopo_scan_up(most);
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
  if (items.rows > ITEMS_MOST) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "an index holds at most %zu items, not %zu; split them",
                     ITEMS_MOST, items.rows);
  }
  fopo_index *fresh = fopo_alloc(1, sizeof *fresh);
  if (fresh == NULL) return FOPO_ERR_MEMORY;
  int status = make(fresh, items, norms);
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

void fopo_index_free(fopo_index *ix) {
  if (ix == NULL) return;
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
  void *own = ix->own;
  pthread_mutex_lock(&ix->lock);
  ix->own = fresh->own;
  ix->max_norm = fresh->max_norm;
  ix->build_seconds = fresh->build_seconds;
  ix->version = fresh->version;
  pthread_mutex_unlock(&ix->lock);
  fresh->own = own;
  fopo_index_free(fresh);
  return FOPO_OK;
}

static int check_search(const fopo_index *ix, fopo_matrix Q, size_t k) {
  size_t P = ix->items.rows, L = ix->items.cols;
  if (k == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "k is 0; ask for 1 to %zu items", P);
  }
  if (k > P) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "k is %zu but the index holds %zu items; use k <= %zu", k,
                     P, P);
  }
  if (Q.cols != L && Q.rows > 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the queries are %zu x %zu but the items have dimension %zu; use queries of "
                     "%zu columns",
                     Q.rows, Q.cols, L, L);
  }
  double most, bound = ix->max_norm > 1.0f ? (double)FLT_MAX / (2.0 * (double)ix->max_norm)
                                           : (double)FLT_MAX / 2.0;
  return bounded_norm(&most, NULL, Q, bound, "queries");
}

static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t k) {
  pthread_mutex_lock(&ix->lock);
  int status = ix->kind->search(ids, scores, counts, ix, Q, k);
  if (status == FOPO_OK) ix->queries += Q.rows;
  pthread_mutex_unlock(&ix->lock);
  return status;
}

int fopo_index_search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                      size_t k) {
  int status = check_search(ix, Q, k);
  if (status != FOPO_OK || Q.rows == 0) return status;
  return search(ids, scores, counts, ix, Q, k);
}

int fopo_index_search_set(uint32_t *ids, float *scratch, uint32_t *counts, fopo_index *ix,
                          fopo_matrix Q, size_t k) {
  int status = check_search(ix, Q, k);
  if (status != FOPO_OK || Q.rows == 0) return status;
  if (ix->kind->finds_sets) return search(ids, NULL, counts, ix, Q, k);
  status = search(ids, scratch, counts, ix, Q, k);
  if (status != FOPO_OK) return status;
  for (size_t b = 0; b < Q.rows; b++) {
    fopo_sort_ids(ids + b * k, (uint32_t *)(void *)(scratch + b * k), counts[b], ix->items.rows);
  }
  return FOPO_OK;
}

fopo_index_facts fopo_index_about(const fopo_index *ix) {
  fopo_index_facts facts = {0};
  pthread_mutex_t *lock = (pthread_mutex_t *)&ix->lock; /* guards counters, not the structure */
  pthread_mutex_lock(lock);
  facts.kind = ix->kind->kind;
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
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a %s index has no ef; it is the breadth of a graph's search (hnsw, hybrid)",
                     ix->kind->kind);
  }
  if (ef == 0) return fopo_fail(FOPO_ERR_ARGUMENT, "ef is 0; a search looks at 1 item or more");
  pthread_mutex_lock(&ix->lock);
  int status = ix->kind->set_ef(ix, ef < ix->items.rows ? ef : ix->items.rows);
  pthread_mutex_unlock(&ix->lock);
  return status;
}

int fopo_index_set_budget(fopo_index *ix, size_t budget) {
  if (ix->kind->set_budget == NULL) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a %s index has no budget; only a norm index scans a prefix of the norms",
                     ix->kind->kind);
  }
  pthread_mutex_lock(&ix->lock);
  int status = ix->kind->set_budget(ix, budget);
  pthread_mutex_unlock(&ix->lock);
  return status;
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

void fopo_index_members(fopo_array arrays[FOPO_INDEX_MEMBERS], fopo_index_head *head,
                        const fopo_index *ix) {
  *head = (fopo_index_head){VERSION, fingerprint_of(ix->items), {ix->items.rows, ix->items.cols}};
  arrays[0] = fopo_array_text("kind", ix->kind->kind);
  arrays[1] = fopo_array_of("version", FOPO_U64, &head->version, 0, 1, 1);
  arrays[2] = fopo_array_of("items", FOPO_U64, head->items, 1, 2, 1);
  arrays[3] = fopo_array_of("fingerprint", FOPO_U64, &head->fingerprint, 0, 1, 1);
}

int fopo_index_number(uint64_t *value, fopo_archive *archive, const char *path, const char *name,
                      uint64_t most) {
  *value = 0;
  fopo_array *a = fopo_archive_need(archive, path, name, FOPO_U64, 0);
  if (a == NULL) return FOPO_ERR_FORMAT;
  memcpy(value, a->data, sizeof *value);
  if (*value > most) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: %s is %" PRIu64 ", more than %" PRIu64
                     "; the index is damaged, build it again",
                     path, name, *value, most);
  }
  return FOPO_OK;
}

int fopo_index_save(const fopo_index *ix, const char *path) { return ix->kind->save(ix, path); }

/* Version, sizes and fingerprint against the items at hand. */
static int check_items(fopo_archive *archive, const char *path, fopo_matrix items) {
  uint64_t version, fingerprint;
  int status = fopo_index_number(&version, archive, path, "version", UINT64_MAX);
  if (status != FOPO_OK) return status;
  if (version != VERSION) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s is an index of version %" PRIu64 ", this program reads %d; build it again",
                     path, version, VERSION);
  }
  const fopo_array *sizes = fopo_archive_need(archive, path, "items", FOPO_U64, 1);
  if (sizes == NULL) return FOPO_ERR_FORMAT;
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

static int exact_load(fopo_index **ix, fopo_archive *archive, const char *path, fopo_matrix items) {
  (void)archive;
  (void)path;
  return fopo_index_exact(ix, items);
}

static const struct {
  const char *kind;
  int (*load)(fopo_index **ix, fopo_archive *archive, const char *path, fopo_matrix items);
} loaders[] = {
    {"exact", exact_load},
    {"norm", fopo_index_norm_load},
    {"hnsw", fopo_index_hnsw_load},
    {"hybrid", fopo_index_hybrid_load},
};

static int load_kind(fopo_index **ix, fopo_archive *archive, const char *path, fopo_matrix items) {
  const fopo_array *kind = fopo_archive_need(archive, path, "kind", FOPO_BYTES, 0);
  if (kind == NULL) return FOPO_ERR_FORMAT;
  char text[16] = "";
  if (kind->itemsize < sizeof text) memcpy(text, kind->data, kind->itemsize);
  for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++) {
    if (strcmp(text, loaders[i].kind) != 0) continue;
    int status = check_items(archive, path, items);
    return status == FOPO_OK ? loaders[i].load(ix, archive, path, items) : status;
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
  status = load_kind(ix, &archive, path, items);
  fopo_archive_done(&archive);
  if (status == FOPO_OK) (*ix)->build_seconds = fopo_clock() - start;
  return status;
}
