/* Maximum inner product search: for each query the k items of largest q . beta, best first.
 *
 *   exact   blocked GEMM over all items and a running selection; the oracle
 *   norm    items in descending norm, scored in blocks for a whole batch, stopped when
 *           |q| |beta| cannot beat the k-th best (Cauchy-Schwarz): the exact answer, no build time
 *   hnsw    graph of Malkov and Yashunin (2020) on inner products, by hnswlib
 *   hybrid  the items of largest norm as by norm, a graph over the others
 *
 * Scores of answers are computed by the kernels' dot, whatever the kind, and ties are broken by the
 * smaller id: two kinds that find the same items return the same bits. An index does not own the
 * items, which must outlive it unchanged (or see fopo_index_refresh). One search runs at a time per
 * index (a lock inside), in parallel over its queries; scratch is kept between calls, so repeated
 * searches of one shape allocate nothing. */
#ifndef FOPO_MIPS_INDEX_H
#define FOPO_MIPS_INDEX_H

#include "core/matrix.h"

typedef struct fopo_index fopo_index;

#define FOPO_NO_ITEM UINT32_MAX /* fills the places of a short row; its score is -inf */

/* All four: items must be finite (FOPO_ERR_NUMERIC with the row) and not empty; *ix is NULL on
 * failure. */
int fopo_index_exact(fopo_index **ix, fopo_matrix items);

/* budget: the largest prefix of the norm order that a search may score; 0: all items, exact. */
int fopo_index_norm(fopo_index **ix, fopo_matrix items, size_t budget);

typedef struct {
  size_t M;               /* links per item and layer, 2 .. 128; 0: 16 */
  size_t ef_construction; /* >= M; 0: 200 */
  size_t ef;              /* breadth of a search, raised to k where smaller; 0: 256 */
  uint64_t seed;          /* of the levels */
  int deterministic;      /* 1: one inserting thread, the same graph every time */
} fopo_hnsw_options;

int fopo_index_hnsw(fopo_index **ix, fopo_matrix items, const fopo_hnsw_options *options);

/* head: the share of the items, those of largest norm, that is searched exactly, 0 < head < 1;
 * 0: 0.05. At least 2 items. */
int fopo_index_hybrid(fopo_index **ix, fopo_matrix items, double head,
                      const fopo_hnsw_options *options);

/* Change a search, not the structure: the breadth of hnsw and hybrid (>= 1, at most the items), the
 * budget of norm (0: none). A kind that has no such thing is FOPO_ERR_ARGUMENT. */
int fopo_index_set_ef(fopo_index *ix, size_t ef);
int fopo_index_set_budget(fopo_index *ix, size_t budget);

/* Whether the index was made over exactly this view of items. */
int fopo_index_over(const fopo_index *ix, fopo_matrix items);

/* After the items were changed in place: builds the structure anew with the same options. Until
 * then searches use the old structure (order, packed head, links), and the scores of norm and
 * hybrid may be those of the old items. On failure the old structure stands. */
int fopo_index_refresh(fopo_index *ix);

/* ids, scores [Q.rows, k]; counts [Q.rows] how many were found (<= k). k > number of items is
 * FOPO_ERR_ARGUMENT; a query that is not finite is FOPO_ERR_NUMERIC with its row. */
int fopo_index_search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                      size_t k);

/* The same items by rising id, for those who need no scores: exact and norm then compute fewer.
 * scratch [Q.rows, k] */
int fopo_index_search_set(uint32_t *ids, float *scratch, uint32_t *counts, fopo_index *ix,
                          fopo_matrix Q, size_t k);

void fopo_index_free(fopo_index *ix); /* accepts NULL */

typedef struct {
  const char *kind;
  size_t n_items, dim;
  size_t bytes; /* taken beside the items */
  double build_seconds;
  size_t reachable; /* items that a search can ever return */
  size_t scored;    /* items scored by all searches so far, for the cost of a query */
  size_t queries;   /* answered so far */
  size_t M, ef_construction, ef, budget; /* 0 where the kind has none */
  size_t head;                           /* items of a hybrid that are searched exactly, else 0 */
  uint64_t version; /* of the structure: no other one in this process has the number */
} fopo_index_facts;

fopo_index_facts fopo_index_about(const fopo_index *ix);

/* The order of a norm index: the items' ids by descending norm and those norms, rounded up, into
 * order and norms [items]; *version is that of the structure they are of. Other kinds have none,
 * which is FOPO_ERR_ARGUMENT. */
int fopo_index_order(uint32_t *order, float *norms, uint64_t *version, const fopo_index *ix);

/* Against exact search on Q. */
typedef struct {
  double recall; /* mean share of the exact top k that was returned */
  double recall_at_1;
  size_t short_rows; /* queries that got fewer than k */
  size_t reachable;
  double scored; /* mean share of the items that was scored for a query */
  double ms_per_query, exact_ms_per_query;
} fopo_recall;

int fopo_index_recall(fopo_recall *r, fopo_index *ix, fopo_matrix Q, size_t k);

/* The same where the exact answer is known: truth [Q.rows, k] its scores. The queries are searched
 * `batch` at a time (0: all at once), which is what their time depends on. exact_ms_per_query is
 * left 0. */
int fopo_index_measure(fopo_recall *r, fopo_index *ix, fopo_matrix Q, size_t k, const float *truth,
                       size_t batch);

/* .npz with the kind, its options, its structure and a fingerprint of the items; every id and link
 * is checked on loading, and items that differ from those it was built on are refused. */
int fopo_index_save(const fopo_index *ix, const char *path);
int fopo_index_load(fopo_index **ix, const char *path, fopo_matrix items);

#endif
