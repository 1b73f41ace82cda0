/* The index kind "hybrid": the items of largest norm exactly, a graph over the others.
 *
 * Embeddings by SVD have heavy-tailed norms, and a graph by inner product fails on them where it
 * matters: nearly all answers are among the largest norms, whose items are far apart in the graph
 * or not reachable at all. So a prefix of the norm order is scanned as by the kind norm
 * (mips/scan.h), and the graph (mips/walk.h) holds the other items, whose norms differ little. If
 * no item beyond the prefix can beat the k-th best in it, by the bound of norms, the answer is
 * exact already and the graph is not searched.
 *
 * The prefix is a norm index with a budget. Its items are absent from the graph, so no item is
 * found twice. Both use the ids of the items: nothing is copied but the packed rows of the norm
 * index. */
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/norm.h"
#include "core/status.h"
#include "mips/index_internal.h"
#include "mips/scan.h"
#include "mips/walk.h"

#define DEFAULT_SHARE 0.05

typedef struct {
  fopo_index *prefix; /* of kind norm, its budget is n_prefix */
  size_t n_prefix;    /* items searched exactly */
  fopo_walk walk;
  uint8_t *exact; /* [capacity] 1: the query's answer from the prefix is exact */
  size_t capacity;
} hybrid_index;

/* exact[b] = row b holds k answers and no item beyond the prefix can enter it. */
static int find_exact(hybrid_index *impl, const float *scores, const uint32_t *counts,
                      fopo_matrix Q, size_t k) {
  if (Q.rows > impl->capacity) {
    fopo_free(impl->exact);
    impl->capacity = 0;
    impl->exact = fopo_alloc(Q.rows, sizeof *impl->exact);
    if (impl->exact == NULL) return FOPO_ERR_MEMORY;
    impl->capacity = Q.rows;
  }
  const fopo_scan *scan = fopo_index_norm_scan(impl->prefix);
  for (size_t b = 0; b < Q.rows; b++) {
    const float *q = fopo_matrix_row(Q, b);
    impl->exact[b] =
        counts[b] == k && fopo_scan_is_exact(scan, fopo_norm(q, Q.cols), scores[b * k + k - 1]);
  }
  return FOPO_OK;
}

static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t k) {
  hybrid_index *impl = ix->impl;
  size_t before = impl->prefix->scored;
  int status = impl->prefix->kind->search(ids, scores, counts, impl->prefix, Q, k);
  ix->scored += impl->prefix->scored - before;
  if (status == FOPO_OK) status = find_exact(impl, scores, counts, Q, k);
  if (status != FOPO_OK) return status;
  return fopo_walk_search(ids, scores, counts, &ix->scored, &impl->walk, ix->items, Q, k,
                          impl->exact);
}

static void free_impl(fopo_index *ix) {
  hybrid_index *impl = ix->impl;
  if (impl == NULL) return;
  fopo_index_free(impl->prefix);
  fopo_walk_done(&impl->walk);
  fopo_free(impl->exact);
  fopo_free(impl);
}

static void about(fopo_index_facts *facts, const fopo_index *ix) {
  const hybrid_index *impl = ix->impl;
  facts->bytes = sizeof *impl + impl->capacity + fopo_index_about(impl->prefix).bytes +
                 fopo_walk_bytes(&impl->walk);
  facts->reachable = impl->n_prefix + impl->walk.reachable;
  facts->M = impl->walk.options.M;
  facts->ef_construction = impl->walk.options.ef_construction;
  facts->ef = impl->walk.options.ef;
  facts->prefix = impl->n_prefix;
}

static int save(const fopo_index *ix, const char *path) {
  const hybrid_index *impl = ix->impl;
  uint64_t n_prefix = impl->n_prefix;
  fopo_index_header header;
  fopo_walk_numbers numbers;
  fopo_array arrays[FOPO_INDEX_MEMBERS + FOPO_WALK_MEMBERS + 1];
  fopo_index_members(arrays, &header, ix);
  fopo_walk_members(arrays + FOPO_INDEX_MEMBERS, &numbers, &impl->walk);
  arrays[FOPO_INDEX_MEMBERS + FOPO_WALK_MEMBERS] =
      fopo_array_of("head", FOPO_U64, &n_prefix, 0, 1, 1);
  return fopo_npz_save(path, arrays, FOPO_INDEX_MEMBERS + FOPO_WALK_MEMBERS + 1, 0);
}

static int set_ef(fopo_index *ix, size_t ef) {
  hybrid_index *impl = ix->impl;
  impl->walk.options.ef = ef;
  return FOPO_OK;
}

/* Makes the index with its prefix but without a graph. absent[i] = item i is in the prefix: *absent
 * [P], the caller frees it. */
static int begin(fopo_index **ix, uint8_t **absent, fopo_matrix items, size_t n_prefix) {
  *absent = NULL;
  int status = fopo_index_begin(ix, &fopo_index_kind_hybrid, items, NULL);
  if (status != FOPO_OK) return status;
  hybrid_index *impl = (*ix)->impl = fopo_alloc(1, sizeof *impl);
  if (impl == NULL) return FOPO_ERR_MEMORY;
  impl->n_prefix = n_prefix;
  status = fopo_index_norm(&impl->prefix, items, n_prefix);
  if (status != FOPO_OK) return status;
  *absent = fopo_alloc(items.rows, sizeof **absent);
  if (*absent == NULL) return FOPO_ERR_MEMORY;
  const uint32_t *order = fopo_index_norm_scan(impl->prefix)->order;
  for (size_t i = 0; i < n_prefix; i++) (*absent)[order[i]] = 1;
  return FOPO_OK;
}

static int build(fopo_index **ix, fopo_matrix items, size_t n_prefix,
                 const fopo_hnsw_options *options) {
  double start = fopo_clock();
  uint8_t *absent;
  int status = begin(ix, &absent, items, n_prefix);
  if (status == FOPO_OK) {
    hybrid_index *impl = (*ix)->impl;
    status = fopo_walk_build(&impl->walk, items, options, absent);
  }
  if (status == FOPO_OK) (*ix)->build_seconds = fopo_clock() - start;
  fopo_free(absent);
  return fopo_index_end(ix, status);
}

static int rebuild(fopo_index **fresh, const fopo_index *ix) {
  const hybrid_index *impl = ix->impl;
  return build(fresh, ix->items, impl->n_prefix, &impl->walk.options);
}

/* The prefix follows from the items and its size: it is rebuilt, at the cost of a sort. */
static int load(fopo_index **ix, fopo_archive *archive, const char *path, fopo_matrix items) {
  uint64_t n_prefix;
  uint8_t *absent;
  *ix = NULL;
  int status = fopo_index_number(&n_prefix, archive, path, "head", items.rows - 1);
  if (status != FOPO_OK) return status;
  if (n_prefix == 0) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: head is 0; the index is damaged, build it again", path);
  }
  status = begin(ix, &absent, items, (size_t)n_prefix);
  if (status == FOPO_OK) {
    hybrid_index *impl = (*ix)->impl;
    status = fopo_walk_load(&impl->walk, archive, path, items.rows, absent);
  }
  fopo_free(absent);
  return fopo_index_end(ix, status);
}

const fopo_index_kind fopo_index_kind_hybrid = {.name = "hybrid",
                                                .search = search,
                                                .free = free_impl,
                                                .about = about,
                                                .save = save,
                                                .load = load,
                                                .rebuild = rebuild,
                                                .set_ef = set_ef};

/* At least one item goes to the prefix and one to the graph. */
static int prefix_size(size_t *n_prefix, double share, size_t P) {
  if (P < 2) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a hybrid index needs at least 2 items, not %zu; use the norm index", P);
  }
  if (share == 0.0) share = DEFAULT_SHARE;
  if (!(share > 0.0 && share < 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "head is %g; it is the share of the items searched exactly, more than 0 and "
                     "less than 1",
                     share);
  }
  size_t n = (size_t)ceil(share * (double)P);
  *n_prefix = n < P ? n : P - 1;
  return FOPO_OK;
}

int fopo_index_hybrid(fopo_index **ix, fopo_matrix items, double share,
                      const fopo_hnsw_options *options) {
  fopo_hnsw_options filled;
  size_t n_prefix = 0;
  *ix = NULL;
  int status = prefix_size(&n_prefix, share, items.rows);
  if (status == FOPO_OK) status = fopo_walk_options(&filled, options, items.rows);
  return status == FOPO_OK ? build(ix, items, n_prefix, &filled) : status;
}
