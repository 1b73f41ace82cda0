/* The index kinds of graphs (mips/graph.h): "hnsw", one graph over all items, and "hybrid", the
 * items of largest norm exactly and a graph over the others.
 *
 * Embeddings by SVD have heavy-tailed norms, and a graph by inner product fails on them where it
 * matters: nearly all answers are among the largest norms, whose items are far apart in the graph
 * or not reachable at all. So a hybrid scans a prefix of the norm order as the kind norm does
 * (mips/scan.h), and its graph holds the other items, whose norms differ little. If no item beyond
 * the prefix can beat the k-th best in it, by the bound of norms, the answer is exact already and
 * the graph is not searched.
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
#include "mips/graph.h"
#include "mips/index_internal.h"

#define DEFAULT_SHARE 0.05

typedef struct {
  fopo_graph graph;
  size_t n_prefix;    /* items searched exactly; hnsw: 0 */
  fopo_index *prefix; /* of kind norm, its budget is n_prefix; hnsw: NULL */
  uint8_t *exact;     /* [capacity] 1: the query's answer from the prefix is exact */
  size_t capacity;
} graph_index;

/* ---- search ---- */

/* exact[b] = row b holds k answers and no item beyond the prefix can enter it. */
static int find_exact(graph_index *impl, const float *scores, const uint32_t *counts, fopo_matrix Q,
                      size_t k) {
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

static int search_prefix(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix,
                         fopo_matrix Q, size_t k) {
  graph_index *impl = ix->impl;
  size_t before = impl->prefix->scored;
  int status = impl->prefix->kind->search(ids, scores, counts, impl->prefix, Q, k);
  ix->scored += impl->prefix->scored - before;
  return status == FOPO_OK ? find_exact(impl, scores, counts, Q, k) : status;
}

static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t k) {
  graph_index *impl = ix->impl;
  int status = FOPO_OK;
  if (impl->prefix == NULL) {
    memset(counts, 0, Q.rows * sizeof *counts); /* no answers to merge with */
  } else {
    status = search_prefix(ids, scores, counts, ix, Q, k);
  }
  if (status != FOPO_OK) return status;
  return fopo_graph_search(ids, scores, counts, &ix->scored, &impl->graph, ix->items, Q, k,
                           impl->prefix != NULL ? impl->exact : NULL);
}

static int set_ef(fopo_index *ix, size_t ef) {
  ((graph_index *)ix->impl)->graph.options.ef = ef;
  return FOPO_OK;
}

/* ---- life ---- */

static void free_impl(fopo_index *ix) {
  graph_index *impl = ix->impl;
  if (impl == NULL) return;
  fopo_index_free(impl->prefix);
  fopo_graph_done(&impl->graph);
  fopo_free(impl->exact);
  fopo_free(impl);
}

static void about(fopo_index_facts *facts, const fopo_index *ix) {
  const graph_index *impl = ix->impl;
  const fopo_graph *g = &impl->graph;
  facts->bytes = sizeof *impl + impl->capacity + fopo_graph_bytes(g);
  if (impl->prefix != NULL) facts->bytes += fopo_index_about(impl->prefix).bytes;
  facts->reachable = impl->n_prefix + g->reachable;
  facts->M = g->options.M;
  facts->ef_construction = g->options.ef_construction;
  facts->ef = g->options.ef;
  facts->prefix = impl->n_prefix;
}

/* Makes the index with its prefix but without a graph. *absent [P] = 1 for the items of the prefix;
 * the caller frees it; NULL: there is no prefix. */
static int begin(fopo_index **ix, uint8_t **absent, const fopo_index_kind *kind, fopo_matrix items,
                 size_t n_prefix) {
  *absent = NULL;
  int status = fopo_index_begin(ix, kind, items, NULL);
  if (status != FOPO_OK) return status;
  graph_index *impl = (*ix)->impl = fopo_alloc(1, sizeof *impl);
  if (impl == NULL) return FOPO_ERR_MEMORY;
  if (n_prefix == 0) return FOPO_OK;
  impl->n_prefix = n_prefix;
  status = fopo_index_norm(&impl->prefix, items, n_prefix);
  if (status != FOPO_OK) return status;
  *absent = fopo_alloc(items.rows, sizeof **absent);
  if (*absent == NULL) return FOPO_ERR_MEMORY;
  const uint32_t *order = fopo_index_norm_scan(impl->prefix)->order;
  for (size_t i = 0; i < n_prefix; i++) (*absent)[order[i]] = 1;
  return FOPO_OK;
}

static int build(fopo_index **ix, const fopo_index_kind *kind, fopo_matrix items, size_t n_prefix,
                 const fopo_hnsw_options *options) {
  double start = fopo_clock();
  uint8_t *absent;
  int status = begin(ix, &absent, kind, items, n_prefix);
  if (status == FOPO_OK) {
    graph_index *impl = (*ix)->impl;
    status = fopo_graph_build(&impl->graph, items, options, absent);
  }
  if (status == FOPO_OK) (*ix)->build_seconds = fopo_clock() - start;
  fopo_free(absent);
  return fopo_index_end(ix, status);
}

static int rebuild(fopo_index **fresh, const fopo_index *ix) {
  const graph_index *impl = ix->impl;
  return build(fresh, ix->kind, ix->items, impl->n_prefix, &impl->graph.options);
}

/* ---- files ---- */

static int save(const fopo_index *ix, const char *path) {
  const graph_index *impl = ix->impl;
  uint64_t n_prefix = impl->n_prefix, numbers[FOPO_GRAPH_NUMBERS];
  fopo_index_header header;
  size_t n = FOPO_INDEX_MEMBERS + FOPO_GRAPH_MEMBERS;
  fopo_array arrays[FOPO_INDEX_MEMBERS + FOPO_GRAPH_MEMBERS + 1];
  fopo_index_members(arrays, &header, ix);
  fopo_graph_members(arrays + FOPO_INDEX_MEMBERS, numbers, &impl->graph);
  if (impl->prefix != NULL) arrays[n++] = fopo_array_of("head", FOPO_U64, &n_prefix, 0, 1, 1);
  return fopo_npz_save(path, arrays, n, 0);
}

/* The prefix follows from the items and its size: it is rebuilt, at the cost of a sort. */
static int load_parts(fopo_index **ix, const fopo_index_kind *kind, fopo_archive *archive,
                      const char *path, fopo_matrix items, size_t n_prefix) {
  uint8_t *absent;
  int status = begin(ix, &absent, kind, items, n_prefix);
  if (status == FOPO_OK) {
    graph_index *impl = (*ix)->impl;
    status = fopo_graph_load(&impl->graph, archive, path, items.rows, absent);
  }
  fopo_free(absent);
  return fopo_index_end(ix, status);
}

static int load_hnsw(fopo_index **ix, fopo_archive *archive, const char *path, fopo_matrix items) {
  return load_parts(ix, &fopo_index_kind_hnsw, archive, path, items, 0);
}

static int load_hybrid(fopo_index **ix, fopo_archive *archive, const char *path,
                       fopo_matrix items) {
  uint64_t n_prefix;
  *ix = NULL;
  int status = fopo_index_number(&n_prefix, archive, path, "head", items.rows - 1);
  if (status != FOPO_OK) return status;
  if (n_prefix == 0) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: head is 0; the index is damaged, build it again", path);
  }
  return load_parts(ix, &fopo_index_kind_hybrid, archive, path, items, (size_t)n_prefix);
}

/* ---- the kinds ---- */

const fopo_index_kind fopo_index_kind_hnsw = {.name = "hnsw",
                                              .search = search,
                                              .free = free_impl,
                                              .about = about,
                                              .save = save,
                                              .load = load_hnsw,
                                              .rebuild = rebuild,
                                              .set_ef = set_ef};

const fopo_index_kind fopo_index_kind_hybrid = {.name = "hybrid",
                                                .search = search,
                                                .free = free_impl,
                                                .about = about,
                                                .save = save,
                                                .load = load_hybrid,
                                                .rebuild = rebuild,
                                                .set_ef = set_ef};

int fopo_index_hnsw(fopo_index **ix, fopo_matrix items, const fopo_hnsw_options *options) {
  fopo_hnsw_options filled;
  *ix = NULL;
  int status = fopo_graph_options(&filled, options, items.rows);
  return status == FOPO_OK ? build(ix, &fopo_index_kind_hnsw, items, 0, &filled) : status;
}

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
  if (status == FOPO_OK) status = fopo_graph_options(&filled, options, items.rows);
  return status == FOPO_OK ? build(ix, &fopo_index_kind_hybrid, items, n_prefix, &filled) : status;
}
