/* The index kind "hybrid": the items of largest norm exactly, a graph over the rest.
 *
 * Embeddings by SVD have heavy-tailed norms, and on them a graph by inner product goes wrong where
 * it hurts: nearly all answers are among the largest norms, whose items are far apart in the graph
 * or not reachable at all. So the first share of the norm order is scanned as by the kind norm
 * (mips/scan.h), and the graph (mips/walk.h) holds the others, whose norms differ little. A query
 * whose k-th best in the head cannot be beaten by the norm of any item beyond is not walked: it has
 * the exact answer already.
 *
 * The head is a norm index with a budget. Items of the head are absent from the graph, so no item
 * is found twice. Ids of both are those of the items: nothing is copied but the packed head. */
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/status.h"
#include "mips/index_internal.h"
#include "mips/scan.h"
#include "mips/walk.h"

#define HEAD_DEFAULT 0.05

typedef struct {
  fopo_index *head; /* kind norm, its budget the number of items searched exactly */
  size_t n_head;
  fopo_walk walk;
  uint8_t *settled; /* [room] 1: the head's answer is exact */
  size_t room;
} hybrid_index;

/* Row b is settled when it is full and nothing beyond the head can enter it. */
static int settle(hybrid_index *own, const float *scores, const uint32_t *counts, fopo_matrix Q,
                  size_t k) {
  if (Q.rows > own->room) {
    fopo_free(own->settled);
    own->room = 0;
    own->settled = fopo_alloc(Q.rows, sizeof *own->settled);
    if (own->settled == NULL) return FOPO_ERR_MEMORY;
    own->room = Q.rows;
  }
  const fopo_scan *scan = fopo_index_norm_scan(own->head);
  for (size_t b = 0; b < Q.rows; b++) {
    const float *q = fopo_matrix_row(Q, b);
    own->settled[b] =
        counts[b] == k && fopo_scan_settled(scan, fopo_scan_norm(q, Q.cols), scores[b * k + k - 1]);
  }
  return FOPO_OK;
}

static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t k) {
  hybrid_index *own = ix->own;
  size_t before = own->head->scored;
  int status = own->head->kind->search(ids, scores, counts, own->head, Q, k);
  ix->scored += own->head->scored - before;
  if (status == FOPO_OK) status = settle(own, scores, counts, Q, k);
  if (status != FOPO_OK) return status;
  return fopo_walk_search(ids, scores, counts, &ix->scored, &own->walk, ix->items, Q, k,
                          own->settled);
}

static void free_own(fopo_index *ix) {
  hybrid_index *own = ix->own;
  if (own == NULL) return;
  fopo_index_free(own->head);
  fopo_walk_done(&own->walk);
  fopo_free(own->settled);
  fopo_free(own);
}

static void about(fopo_index_facts *facts, const fopo_index *ix) {
  const hybrid_index *own = ix->own;
  facts->bytes =
      sizeof *own + own->room + fopo_index_about(own->head).bytes + fopo_walk_bytes(&own->walk);
  facts->reachable = own->n_head + own->walk.reachable;
  facts->M = own->walk.options.M;
  facts->ef_construction = own->walk.options.ef_construction;
  facts->ef = own->walk.options.ef;
  facts->head = own->n_head;
}

static int save(const fopo_index *ix, const char *path) {
  const hybrid_index *own = ix->own;
  uint64_t n_head = own->n_head;
  fopo_index_head head;
  fopo_walk_numbers numbers;
  fopo_array arrays[FOPO_INDEX_MEMBERS + FOPO_WALK_MEMBERS + 1];
  fopo_index_members(arrays, &head, ix);
  fopo_walk_members(arrays + FOPO_INDEX_MEMBERS, &numbers, &own->walk);
  arrays[FOPO_INDEX_MEMBERS + FOPO_WALK_MEMBERS] =
      fopo_array_of("head", FOPO_U64, &n_head, 0, 1, 1);
  return fopo_npz_save(path, arrays, FOPO_INDEX_MEMBERS + FOPO_WALK_MEMBERS + 1, 0);
}

static int set_ef(fopo_index *ix, size_t ef) {
  hybrid_index *own = ix->own;
  own->walk.options.ef = ef;
  return FOPO_OK;
}

static int build(fopo_index **ix, fopo_matrix items, size_t n_head,
                 const fopo_hnsw_options *filled);

static int rebuild(fopo_index **fresh, const fopo_index *ix) {
  const hybrid_index *own = ix->own;
  return build(fresh, ix->items, own->n_head, &own->walk.options);
}

static const fopo_index_kind hybrid = {.kind = "hybrid",
                                       .search = search,
                                       .free = free_own,
                                       .about = about,
                                       .save = save,
                                       .rebuild = rebuild,
                                       .set_ef = set_ef};

/* The common part, the head, and which items it takes: *absent [P], the caller's to free. */
static int begin(fopo_index **ix, uint8_t **absent, fopo_matrix items, size_t n_head) {
  *absent = NULL;
  int status = fopo_index_begin(ix, &hybrid, items, NULL);
  if (status != FOPO_OK) return status;
  hybrid_index *own = (*ix)->own = fopo_alloc(1, sizeof *own);
  if (own == NULL) return FOPO_ERR_MEMORY;
  own->n_head = n_head;
  status = fopo_index_norm(&own->head, items, n_head);
  if (status != FOPO_OK) return status;
  *absent = fopo_alloc(items.rows, sizeof **absent);
  if (*absent == NULL) return FOPO_ERR_MEMORY;
  const uint32_t *order = fopo_index_norm_scan(own->head)->order;
  for (size_t i = 0; i < n_head; i++) (*absent)[order[i]] = 1;
  return FOPO_OK;
}

static int end(fopo_index **ix, uint8_t *absent, int status) {
  fopo_free(absent);
  if (status == FOPO_OK) return FOPO_OK;
  fopo_index_free(*ix);
  *ix = NULL;
  return status;
}

static int build(fopo_index **ix, fopo_matrix items, size_t n_head,
                 const fopo_hnsw_options *filled) {
  double start = fopo_clock();
  uint8_t *absent;
  int status = begin(ix, &absent, items, n_head);
  if (status == FOPO_OK) {
    hybrid_index *own = (*ix)->own;
    status = fopo_walk_build(&own->walk, items, filled, absent);
  }
  if (status == FOPO_OK) (*ix)->build_seconds = fopo_clock() - start;
  return end(ix, absent, status);
}

/* At least one item in the head, and one in the graph. */
static int head_size(size_t *n_head, double share, size_t P) {
  if (P < 2) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a hybrid index needs at least 2 items, not %zu; use the norm index", P);
  }
  if (share == 0.0) share = HEAD_DEFAULT;
  if (!(share > 0.0 && share < 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "head is %g; it is the share of the items searched exactly, more than 0 and "
                     "less than 1",
                     share);
  }
  size_t n = (size_t)ceil(share * (double)P);
  *n_head = n < P ? n : P - 1;
  return FOPO_OK;
}

int fopo_index_hybrid(fopo_index **ix, fopo_matrix items, double head,
                      const fopo_hnsw_options *options) {
  fopo_hnsw_options filled;
  size_t n_head = 0;
  *ix = NULL;
  int status = head_size(&n_head, head, items.rows);
  if (status == FOPO_OK) status = fopo_walk_options(&filled, options, items.rows);
  return status == FOPO_OK ? build(ix, items, n_head, &filled) : status;
}

/* The head follows from the items and its size, so it is made again at the cost of a sort. */
int fopo_index_hybrid_load(fopo_index **ix, fopo_archive *archive, const char *path,
                           fopo_matrix items) {
  uint64_t n_head;
  uint8_t *absent;
  *ix = NULL;
  int status = fopo_index_number(&n_head, archive, path, "head", items.rows - 1);
  if (status != FOPO_OK) return status;
  if (n_head == 0) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: head is 0; the index is damaged, build it again", path);
  }
  status = begin(ix, &absent, items, (size_t)n_head);
  if (status == FOPO_OK) {
    hybrid_index *own = (*ix)->own;
    status = fopo_walk_load(&own->walk, archive, path, items.rows, absent);
  }
  return end(ix, absent, status);
}
