/* A hierarchical navigable small world graph on inner products (Malkov and Yashunin, "Efficient and
 * robust approximate nearest neighbor search using hierarchical navigable small world graphs", PAMI
 * 2020), as plain arrays that are searched in place and saved as they are. Private to mips/.
 *
 * hnswlib inserts the items (index_hnsw.cc); everything else is in graph.c. The items are not
 * copied: the graph holds ids. The fields may be read; only fopo_graph_* write them, except
 * options.ef. */
#ifndef FOPO_MIPS_GRAPH_H
#define FOPO_MIPS_GRAPH_H

#include "core/npz.h"
#include "mips/index.h"

enum { FOPO_GRAPH_ABSENT = 255 /* the level of an item that is not in the graph */ };

typedef struct fopo_graph_worker fopo_graph_worker;

typedef struct {
  fopo_hnsw_options options; /* as filled by fopo_graph_options; M links of an item on an upper
                              * layer, 2 M on layer 0 */
  size_t n, members;         /* items, and those that are in the graph */
  size_t reachable;          /* members that a search can reach */
  uint32_t entry;            /* where every search begins: an item of the highest level */
  uint32_t max_level;
  uint8_t *levels; /* [n] the highest layer of each item */
  uint32_t *links; /* [n, 1 + 2 M] of layer 0: a count, then ids */
  size_t n_upper;  /* the sum of levels */
  uint32_t *first; /* [n] the row of upper for an item's layer 1; layers 2, 3 .. follow it */
  uint32_t *upper; /* [n_upper, 1 + M] links of the upper layers: a count, then ids */

  fopo_graph_worker *workers; /* [n_workers] scratch kept between searches; private */
  size_t n_workers;
} fopo_graph;

/* *filled = the requested options (NULL: none) for n items, with defaults in place of zeros.
 * FOPO_ERR_ARGUMENT names an option that is out of range. */
int fopo_graph_options(fopo_hnsw_options *filled, const fopo_hnsw_options *requested, size_t n);

/* Items i with absent[i] != 0 are left out (absent [items.rows]; NULL: none; not all). The level of
 * a member is floor(-log u / log M) with u a function of (seed, id) alone. After a failure only
 * fopo_graph_done is allowed. */
int fopo_graph_build(fopo_graph *g, fopo_matrix items, const fopo_hnsw_options *filled,
                     const uint8_t *absent);

/* Inserts all members into a graph without links. It reports progress and can be interrupted; after
 * a failure only fopo_graph_done is allowed. With threads == 1 the graph is the same every time. It
 * is defined in index_hnsw.cc; no exception leaves it. */
int fopo_graph_insert(fopo_graph *g, fopo_matrix items, int threads);

/* Searches and merges: row b of ids, scores [Q.rows, k] holds counts[b] answers already, none of
 * them a member of the graph. Rows with skip[b] != 0 are left alone (skip [Q.rows]; NULL: none).
 * *scored grows by the items scored. */
int fopo_graph_search(uint32_t *ids, float *scores, uint32_t *counts, size_t *scored, fopo_graph *g,
                      fopo_matrix items, fopo_matrix Q, size_t k, const uint8_t *skip);

size_t fopo_graph_bytes(const fopo_graph *g);
void fopo_graph_done(fopo_graph *g); /* accepts {0} and half-built ones */

/* The members of a saved index for its graph; numbers must outlive arrays. */
enum { FOPO_GRAPH_NUMBERS = 7, FOPO_GRAPH_MEMBERS = FOPO_GRAPH_NUMBERS + 3 };
void fopo_graph_members(fopo_array arrays[FOPO_GRAPH_MEMBERS], uint64_t numbers[FOPO_GRAPH_NUMBERS],
                        const fopo_graph *g);

/* Reads and checks them; the items that are not in the graph must be those of absent [n]. */
int fopo_graph_load(fopo_graph *g, fopo_archive *archive, const char *path, size_t n,
                    const uint8_t *absent);

#endif
