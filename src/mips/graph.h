/* A hierarchical navigable small world: the structure of Malkov and Yashunin ("Efficient and
 * robust approximate nearest neighbor search using hierarchical navigable small world graphs",
 * PAMI 2020) on inner products, as plain arrays that are searched in place and saved as they are.
 *
 * hnswlib inserts (index_hnsw.cc); everything else is done here. The items are not copied: the
 * graph holds ids alone. Public fields, but only fopo_graph_* write them. */
#ifndef FOPO_MIPS_GRAPH_H
#define FOPO_MIPS_GRAPH_H

#include "core/matrix.h"
#include "kernels/kernels.h"

enum {
  FOPO_GRAPH_LEVELS_MOST = 64,
  FOPO_GRAPH_ABSENT = 255 /* the level of an item that the graph leaves out */
};

typedef struct {
  size_t n, M;    /* items; links per item on an upper layer, 2 M on layer 0 */
  size_t members; /* items that are not absent */
  uint32_t entry; /* where every search begins: an item of the highest level */
  uint32_t max_level;
  uint8_t *levels; /* [n] the highest layer of each item */
  uint32_t *links; /* [n, 1 + 2 M] layer 0: how many, then ids */
  size_t n_upper;  /* the sum of levels */
  uint32_t *first; /* [n] an item's layer 1 in upper, its layers 2, 3 .. behind it */
  uint32_t *upper; /* [n_upper, 1 + M] how many, then ids */
} fopo_graph;

static inline const uint32_t *fopo_graph_links(const fopo_graph *g, uint32_t id, uint32_t layer) {
  if (layer == 0) return g->links + (size_t)id * (1 + 2 * g->M);
  return g->upper + ((size_t)g->first[id] + layer - 1) * (1 + g->M);
}

/* Levels of n items, each floor(-log u / log M) with u a function of (seed, id) alone. The graph
 * leaves out the items i with absent[i] != 0 (absent [n]; NULL: none; not all). */
int fopo_graph_init(fopo_graph *g, size_t n, size_t M, uint64_t seed, const uint8_t *absent);

/* Takes levels over and derives members, max_level, n_upper and first; levels that are too high are
 * refused (FOPO_ERR_FORMAT). Links are the caller's to set. */
int fopo_graph_adopt(fopo_graph *g, size_t n, size_t M, uint8_t *levels);

void fopo_graph_done(fopo_graph *g); /* accepts {0} */

/* Inserts all members; g has its levels and no links. Progress is reported and the build can be
 * interrupted; after a failure only fopo_graph_done is allowed. threads == 1: the same graph every
 * time. In index_hnsw.cc; no exception leaves it. */
int fopo_graph_insert(fopo_graph *g, fopo_matrix items, size_t ef_construction, int threads);

/* Bytes that building takes at its peak, scratch of `threads` included. */
uint64_t fopo_graph_estimate(size_t n, size_t M, int threads);

size_t fopo_graph_bytes(const fopo_graph *g);

/* Every count and every id in bounds, no item its own neighbour, no link to a layer that the other
 * end does not have, none from or to an absent item; FOPO_ERR_FORMAT names the place. `path` is for
 * the sentence. */
int fopo_graph_check(const fopo_graph *g, const char *path);

/* How many items can be met by following links down from the entry. */
int fopo_graph_reachable(size_t *reachable, const fopo_graph *g);

/* Scratch of one searching thread. */
typedef struct {
  size_t n, M, ef;
  uint16_t *seen; /* [n] == mark: met in this search */
  uint16_t mark;
  uint64_t *pool;  /* [ef] the best so far as keys (mips/topk.h), descending */
  uint32_t *fresh; /* [2 M] neighbours not met before */
  float *scores;   /* [2 M] */
  size_t scored;   /* inner products of all searches */
} fopo_graph_walker;

int fopo_graph_walker_reserve(fopo_graph_walker *w, const fopo_graph *g, size_t ef);
size_t fopo_graph_walker_bytes(const fopo_graph_walker *w);
void fopo_graph_walker_done(fopo_graph_walker *w); /* accepts {0} */

/* The best items found for q with breadth ef: their ids, best first, in ids [ef]; returns how many.
 * The order is by scores of gather_dot. */
size_t fopo_graph_search(uint32_t *ids, fopo_graph_walker *w, const fopo_graph *g,
                         fopo_matrix items, const float *q, size_t ef, const fopo_kernels *kernels);

#endif
