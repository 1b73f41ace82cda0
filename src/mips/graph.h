/* A hierarchical navigable small world graph: the structure of Malkov and Yashunin ("Efficient and
 * robust approximate nearest neighbor search using hierarchical navigable small world graphs",
 * PAMI 2020) on inner products, as plain arrays that are searched in place and saved as they are.
 *
 * hnswlib inserts the items (index_hnsw.cc); everything else is done here. The items are not
 * copied: the graph holds ids. The fields may be read; only fopo_graph_* write them. */
#ifndef FOPO_MIPS_GRAPH_H
#define FOPO_MIPS_GRAPH_H

#include "core/matrix.h"
#include "kernels/kernels.h"

enum {
  FOPO_GRAPH_MAX_LEVEL = 64,
  FOPO_GRAPH_ABSENT = 255 /* the level of an item that is not in the graph */
};

typedef struct {
  size_t n, M;    /* items; links of an item on an upper layer, 2 M on layer 0 */
  size_t members; /* items that are in the graph */
  uint32_t entry; /* where every search begins: an item of the highest level */
  uint32_t max_level;
  uint8_t *levels; /* [n] the highest layer of each item */
  uint32_t *links; /* [n, 1 + 2 M] of layer 0: a count, then ids */
  size_t n_upper;  /* the sum of levels */
  uint32_t *first; /* [n] the row of upper for an item's layer 1; layers 2, 3 .. follow it */
  uint32_t *upper; /* [n_upper, 1 + M] links of the upper layers: a count, then ids */
} fopo_graph;

static inline const uint32_t *fopo_graph_links(const fopo_graph *g, uint32_t id, uint32_t layer) {
  if (layer == 0) return g->links + (size_t)id * (1 + 2 * g->M);
  return g->upper + ((size_t)g->first[id] + layer - 1) * (1 + g->M);
}

/* Makes a graph of n items without links. Their levels are floor(-log u / log M) with u a function
 * of (seed, id) alone. Items i with absent[i] != 0 are left out (absent [n]; NULL: none; not all).
 */
int fopo_graph_init(fopo_graph *g, size_t n, size_t M, uint64_t seed, const uint8_t *absent);

/* Makes a graph of given levels [n], which it owns from here on: sets members, max_level, n_upper
 * and first; the caller sets the links. FOPO_ERR_FORMAT if a level is too high. */
int fopo_graph_adopt(fopo_graph *g, size_t n, size_t M, uint8_t *levels);

void fopo_graph_done(fopo_graph *g); /* accepts {0} */

/* Inserts all members into a graph without links. It reports progress and can be interrupted; after
 * a failure only fopo_graph_done is allowed. With threads == 1 the graph is the same every time. It
 * is defined in index_hnsw.cc; no exception leaves it. */
int fopo_graph_insert(fopo_graph *g, fopo_matrix items, size_t ef_construction, int threads);

/* An estimate of the peak of memory while building with so many threads, in bytes. */
uint64_t fopo_graph_estimate(size_t n, size_t M, int threads);

size_t fopo_graph_bytes(const fopo_graph *g);

/* Checks a graph from a file: counts and ids are in bounds, no item is its own neighbour, no link
 * leads to a layer that the other item does not have, none from or to an absent item.
 * FOPO_ERR_FORMAT names the place, and `path` in its sentence. */
int fopo_graph_check(const fopo_graph *g, const char *path);

/* *reachable = how many items can be reached by following links down from the entry. */
int fopo_graph_reachable(size_t *reachable, const fopo_graph *g);

/* Scratch of one searching thread. */
typedef struct {
  size_t n, M, ef;
  uint16_t *seen;  /* [n] == mark: visited in this search */
  uint16_t mark;   /* the number of this search */
  uint64_t *pool;  /* [ef] the best so far as keys (mips/topk.h), descending */
  uint32_t *fresh; /* [2 M] the neighbours of an item that were not visited before */
  float *scores;   /* [2 M] of fresh */
  size_t scored;   /* inner products computed by all searches */
} fopo_graph_walker;

int fopo_graph_walker_reserve(fopo_graph_walker *w, const fopo_graph *g, size_t ef);
size_t fopo_graph_walker_bytes(const fopo_graph_walker *w);
void fopo_graph_walker_done(fopo_graph_walker *w); /* accepts {0} */

/* Searches with breadth ef: ids [ef] = the best items found for q, best first by the scores of
 * gather_dot. Returns how many. */
size_t fopo_graph_search(uint32_t *ids, fopo_graph_walker *w, const fopo_graph *g,
                         fopo_matrix items, const float *q, size_t ef, const fopo_kernels *kernels);

#endif
