/* The index kind "hnsw": one graph over all items (mips/walk.h). */
#include <string.h>

#include "core/clock.h"
#include "core/memory.h"
#include "core/status.h"
#include "mips/index_internal.h"
#include "mips/walk.h"

static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t k) {
  memset(counts, 0, Q.rows * sizeof *counts); /* no answers to merge with */
  return fopo_walk_search(ids, scores, counts, &ix->scored, ix->impl, ix->items, Q, k, NULL);
}

static void free_impl(fopo_index *ix) {
  if (ix->impl == NULL) return;
  fopo_walk_done(ix->impl);
  fopo_free(ix->impl);
}

static void about(fopo_index_facts *facts, const fopo_index *ix) {
  const fopo_walk *walk = ix->impl;
  facts->bytes = sizeof *walk + fopo_walk_bytes(walk);
  facts->reachable = walk->reachable;
  facts->M = walk->options.M;
  facts->ef_construction = walk->options.ef_construction;
  facts->ef = walk->options.ef;
}

static int save(const fopo_index *ix, const char *path) {
  fopo_index_header header;
  fopo_walk_numbers numbers;
  fopo_array arrays[FOPO_INDEX_MEMBERS + FOPO_WALK_MEMBERS];
  fopo_index_members(arrays, &header, ix);
  fopo_walk_members(arrays + FOPO_INDEX_MEMBERS, &numbers, ix->impl);
  return fopo_npz_save(path, arrays, FOPO_INDEX_MEMBERS + FOPO_WALK_MEMBERS, 0);
}

static int set_ef(fopo_index *ix, size_t ef) {
  fopo_walk *walk = ix->impl;
  walk->options.ef = ef;
  return FOPO_OK;
}

static int rebuild(fopo_index **fresh, const fopo_index *ix) {
  return fopo_index_hnsw(fresh, ix->items, &((const fopo_walk *)ix->impl)->options);
}

static int load(fopo_index **ix, fopo_archive *archive, const char *path, fopo_matrix items) {
  int status = fopo_index_begin(ix, &fopo_index_kind_hnsw, items, NULL);
  if (status != FOPO_OK) return status;
  fopo_walk *walk = (*ix)->impl = fopo_alloc(1, sizeof *walk);
  status = walk != NULL ? fopo_walk_load(walk, archive, path, items.rows, NULL) : FOPO_ERR_MEMORY;
  return fopo_index_end(ix, status);
}

const fopo_index_kind fopo_index_kind_hnsw = {.name = "hnsw",
                                              .search = search,
                                              .free = free_impl,
                                              .about = about,
                                              .save = save,
                                              .load = load,
                                              .rebuild = rebuild,
                                              .set_ef = set_ef};

int fopo_index_hnsw(fopo_index **ix, fopo_matrix items, const fopo_hnsw_options *options) {
  double start = fopo_clock();
  fopo_hnsw_options filled;
  *ix = NULL;
  int status = fopo_walk_options(&filled, options, items.rows);
  if (status == FOPO_OK) status = fopo_index_begin(ix, &fopo_index_kind_hnsw, items, NULL);
  if (status != FOPO_OK) return status;
  fopo_walk *walk = (*ix)->impl = fopo_alloc(1, sizeof *walk);
  status = walk != NULL ? fopo_walk_build(walk, items, &filled, NULL) : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) (*ix)->build_seconds = fopo_clock() - start;
  return fopo_index_end(ix, status);
}
