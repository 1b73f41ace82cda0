/* A graph as the index kinds hnsw and hybrid use it: its options, building it, searches in parallel
 * over the queries, and its members of a saved index. Private to mips/. The fields may be read;
 * only fopo_walk_* write them, except options.ef. */
#ifndef FOPO_MIPS_WALK_H
#define FOPO_MIPS_WALK_H

#include "core/npz.h"
#include "mips/graph.h"
#include "mips/index.h"

typedef struct fopo_walk_worker fopo_walk_worker;

typedef struct {
  fopo_graph graph;
  fopo_hnsw_options options; /* as filled by fopo_walk_options */
  size_t reachable;          /* members that a search can reach */
  fopo_walk_worker *workers; /* [n_workers] scratch kept between searches; private */
  size_t n_workers;
} fopo_walk;

/* *filled = the requested options (NULL: none) for n items, with defaults in place of zeros.
 * FOPO_ERR_ARGUMENT names an option that is out of range. */
int fopo_walk_options(fopo_hnsw_options *filled, const fopo_hnsw_options *requested, size_t n);

/* absent [items.rows] as in fopo_graph_init; NULL: all items are members. After a failure only
 * fopo_walk_done is allowed. */
int fopo_walk_build(fopo_walk *w, fopo_matrix items, const fopo_hnsw_options *filled,
                    const uint8_t *absent);

/* Searches the graph and merges: row b of ids, scores [Q.rows, k] holds counts[b] answers already,
 * none of them a member of the graph. Rows with skip[b] != 0 are left alone (skip [Q.rows]; NULL:
 * none). *scored grows by the items scored. */
int fopo_walk_search(uint32_t *ids, float *scores, uint32_t *counts, size_t *scored, fopo_walk *w,
                     fopo_matrix items, fopo_matrix Q, size_t k, const uint8_t *skip);

size_t fopo_walk_bytes(const fopo_walk *w);
void fopo_walk_done(fopo_walk *w); /* accepts {0} and half-built ones */

/* The members of a saved index for its graph. Their values are in `numbers`, which must outlive
 * `arrays`. */
enum { FOPO_WALK_MEMBERS = 10 };
typedef struct {
  uint64_t M, ef_construction, ef, seed, deterministic, entry, reachable;
} fopo_walk_numbers;
void fopo_walk_members(fopo_array arrays[FOPO_WALK_MEMBERS], fopo_walk_numbers *numbers,
                       const fopo_walk *w);

/* Reads and checks them; the items that are not in the graph must be those of absent [n]. */
int fopo_walk_load(fopo_walk *w, fopo_archive *archive, const char *path, size_t n,
                   const uint8_t *absent);

#endif
