/* Maximum inner product search: for each query the k items of largest q . beta, best first.
 *
 *   exact   scores every item, in blocks for a whole batch; the reference
 *   norm    scores items in descending norm and stops when |q| |beta| cannot beat the k-th best
 *           (Cauchy-Schwarz): the exact answer, without a build
 *   hnsw    the graph of Malkov and Yashunin (2020) on inner products, built by hnswlib
 *   hybrid  the items of largest norm as norm does, a graph over the others
 *   clusters  those of the clusters (k-means) whose centres score best
 *
 * Returned scores are computed by the kernels' dot and ties are broken by the smaller id, so two
 * kinds that find the same items return the same bits. An index does not own the items: they must
 * outlive it and stay unchanged (or see fopo_index_refresh). An index runs one search at a time (it
 * holds a lock), in parallel over the queries; scratch is kept between calls, so repeated searches
 * of one shape allocate nothing. */
#ifndef FOPO_MIPS_INDEX_H
#define FOPO_MIPS_INDEX_H

#include "core/matrix.h"
#include "mips/topk.h" /* FOPO_NO_ITEM, fopo_without */

typedef struct fopo_index fopo_index;

/* For all kinds: items must be finite (FOPO_ERR_NUMERIC names the row) and not empty; *ix is
 * NULL on failure. */
int fopo_index_exact(fopo_index **ix, fopo_matrix items);

/* budget: a search scores at most so many items, those of largest norm; 0: all, exact.
 * FOPO_BUDGET_AUTO: all, too, but a gradient that takes candidates from the index limits its own
 * searches by the policy's mass (plan/mass.h). */
#define FOPO_BUDGET_AUTO SIZE_MAX
int fopo_index_norm(fopo_index **ix, fopo_matrix items, size_t budget);

typedef struct {
  size_t M;               /* links per item and layer, 2 .. 128; 0: 16 */
  size_t ef_construction; /* >= M; 0: 200 */
  size_t ef;              /* breadth of a search, at least k; 0: 256 */
  uint64_t seed;          /* of the levels */
  int deterministic;      /* 1: one inserting thread, the same graph every time */
} fopo_hnsw_options;

int fopo_index_hnsw(fopo_index **ix, fopo_matrix items, const fopo_hnsw_options *options);

/* share: of the items, those of largest norm, that are searched exactly, 0 < share < 1; 0: 0.05.
 * At least 2 items. */
int fopo_index_hybrid(fopo_index **ix, fopo_matrix items, double share,
                      const fopo_hnsw_options *options);

/* C: clusters; 0: 4 sqrt(P). ef: items that a search scores at least; 0: 4 k. */
int fopo_index_clusters(fopo_index **ix, fopo_matrix items, size_t C, size_t ef);
size_t fopo_index_clusters_of(size_t P); /* C of P items */

/* groups [P] = the cluster of each item; FOPO_ERR_ARGUMENT for other kinds. */
int fopo_index_groups(uint32_t *groups, const fopo_index *ix);

/* Set options of a search, not of the structure: the breadth of hnsw, hybrid and clusters (>= 1;
 * more than the number of items means all), the budget of norm (0: none). FOPO_ERR_ARGUMENT for
 * other kinds.
 */
int fopo_index_set_ef(fopo_index *ix, size_t ef);
int fopo_index_set_budget(fopo_index *ix, size_t budget);

/* 1 if the index was made over exactly this view of items. */
int fopo_index_over(const fopo_index *ix, fopo_matrix items);

/* After the items were changed in place: rebuilds the structure with the same options. Until then
 * searches use the old structure (order, packed copy, links), and the scores of norm and hybrid may
 * be those of the old items. On failure the old structure is kept. */
int fopo_index_refresh(fopo_index *ix);

/* FOPO_ERR_ARGUMENT unless 1 <= k <= the number of items: for callers that allocate k answers. */
int fopo_index_check_k(const fopo_index *ix, size_t k);

/* ids, scores [Q.rows, k]; counts [Q.rows] how many were found (<= k). k > number of items is
 * FOPO_ERR_ARGUMENT; a query that is not finite is FOPO_ERR_NUMERIC with its row. */
int fopo_index_search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                      size_t k);

/* The same (set 0), or the same items in ascending order of id without scores, for which exact and
 * norm compute fewer dots (set 1: scores [Q.rows, k] is scratch), among the `limit` items of
 * largest norm alone, whatever the budget is; 0: by the budget. Only a norm index can be limited:
 * others search as always. A set of clusters is k items of those that fit best. */
int fopo_index_search_within(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix,
                             fopo_matrix Q, size_t k, size_t limit, int set);

/* The same with scores, best first, but for the items that a query leaves out: the k best of the
 * others. exact and norm pass over them as they go; other kinds are searched for more items than
 * k until enough are left. */
int fopo_index_search_without(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix,
                              fopo_matrix Q, size_t k, size_t limit, fopo_without without);

/* One more owner of the index, who frees it in the end; returns it. */
fopo_index *fopo_index_share(fopo_index *ix);
void fopo_index_free(fopo_index *ix); /* by each owner; accepts NULL */

typedef struct {
  const char *kind;
  size_t n_items, dim;
  size_t bytes; /* of memory, without the items */
  double build_seconds;
  size_t reachable; /* items that a search can ever return */
  size_t scored;    /* items scored by all searches so far */
  size_t queries;   /* answered so far */
  uint64_t version; /* of the structure: unique in this process */

  /* What the kind can do. exhaustive: a search is exact over the first `reachable` items of an
   * order, so that whoever has the items and that order can answer it too. by_norm: that order is
   * fopo_index_order's; otherwise it is by id. */
  int exhaustive, by_norm;

  /* Options, 0 if the kind has no such option. */
  size_t M, ef_construction, ef, budget;
  size_t prefix; /* items of largest norm that a hybrid searches exactly */
  size_t clusters;
} fopo_index_facts;

fopo_index_facts fopo_index_about(const fopo_index *ix);

/* Copies the order of an index that has facts.by_norm: order [items] the ids by descending norm,
 * norms [items] those norms, rounded up; *version is the version of the structure they belong to.
 * FOPO_ERR_ARGUMENT for other kinds. */
int fopo_index_order(uint32_t *order, float *norms, uint64_t *version, const fopo_index *ix);

/* An index compared with exact search. */
typedef struct {
  double recall; /* the share of the exact top k that was returned, a mean over the queries */
  double mass;   /* the sum of exp(score) of what was returned over that of the exact top k, at most
                  * 1, a mean over the queries */
  double recall_at_1;
  size_t short_rows; /* queries that got fewer than k */
  size_t reachable;
  double scored; /* the share of the items that was scored, a mean over the queries */
  double ms_per_query, exact_ms_per_query;
} fopo_recall;

int fopo_index_recall(fopo_recall *r, fopo_index *ix, fopo_matrix Q, size_t k);

/* The same with a known exact answer: truth [Q.rows, k] holds its scores. The queries are searched
 * `batch` at a time (0: all at once), because the time of a query depends on it.
 * exact_ms_per_query stays 0. */
int fopo_index_measure(fopo_recall *r, fopo_index *ix, fopo_matrix Q, size_t k, const float *truth,
                       size_t batch);

/* An .npz with the kind, its options, its structure and a fingerprint of the items. Loading checks
 * every id and link, and refuses items that differ from those that the index was built on. */
int fopo_index_save(const fopo_index *ix, const char *path);
int fopo_index_load(fopo_index **ix, const char *path, fopo_matrix items);

#endif
