/* Many queries through one graph: what the kinds hnsw and hybrid share. Options, building, searches
 * in parallel over the queries, and the graph's part of a saved index. Private to mips/. Public
 * fields, but only fopo_walk_* write them, options.ef apart. */
#ifndef FOPO_MIPS_WALK_H
#define FOPO_MIPS_WALK_H

#include "core/npz.h"
#include "mips/graph.h"
#include "mips/index.h"

typedef struct fopo_walk_worker fopo_walk_worker;

typedef struct {
  fopo_graph graph;
  fopo_hnsw_options options; /* no zeros left */
  size_t reachable;          /* members that a search can meet */
  fopo_walk_worker *workers; /* [n_workers] scratch kept between searches; private */
  size_t n_workers;
} fopo_walk;

/* Options for n items with the defaults in place of zeros; FOPO_ERR_ARGUMENT names what is odd. */
int fopo_walk_options(fopo_hnsw_options *filled, const fopo_hnsw_options *n_with_candidates,
                      size_t n);

/* absent [items.rows] as in fopo_graph_init; NULL: all items are members. After a failure only
 * fopo_walk_done is allowed. */
int fopo_walk_build(fopo_walk *w, fopo_matrix items, const fopo_hnsw_options *filled,
                    const uint8_t *absent);

/* Row b of ids, scores [Q.rows, k] holds counts[b] answers already, none of them a member of the
 * graph; what the graph finds for row b is merged with them. Rows with skip[b] != 0 stay as they
 * are (skip [Q.rows]; NULL: none). *scored grows by the items scored. */
int fopo_walk_search(uint32_t *ids, float *scores, uint32_t *counts, size_t *scored, fopo_walk *w,
                     fopo_matrix items, fopo_matrix Q, size_t k, const uint8_t *skip);

size_t fopo_walk_bytes(const fopo_walk *w);
void fopo_walk_done(fopo_walk *w); /* accepts {0} and half-built ones */

/* What a saved index holds of the graph. The values lie in `numbers`, which must outlive `arrays`.
 */
enum { FOPO_WALK_MEMBERS = 10 };
typedef struct {
  uint64_t M, ef_construction, ef, seed, deterministic, entry, reachable;
} fopo_walk_numbers;
void fopo_walk_members(fopo_array arrays[FOPO_WALK_MEMBERS], fopo_walk_numbers *numbers,
                       const fopo_walk *w);

/* Takes them out of an archive, everything checked; the absent items must be those of absent [n].
 */
int fopo_walk_load(fopo_walk *w, fopo_archive *archive, const char *path, size_t n,
                   const uint8_t *absent);

#endif
