/* All items, in their own order: the oracle of the other kinds. */
#include "core/memory.h"
#include "core/status.h"
#include "mips/index_internal.h"
#include "mips/scan.h"

static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t k) {
  return fopo_scan_search(ids, scores, counts, &ix->scored, ix->own, Q, k);
}

static void free_own(fopo_index *ix) {
  if (ix->own == NULL) return;
  fopo_scan_done(ix->own);
  fopo_free(ix->own);
}

static void about(fopo_index_facts *facts, const fopo_index *ix) {
  facts->bytes = sizeof(fopo_scan) + fopo_scan_bytes(ix->own);
  facts->reachable = ix->items.rows;
}

static int save(const fopo_index *ix, const char *path) {
  fopo_index_head head;
  fopo_array arrays[FOPO_INDEX_MEMBERS];
  fopo_index_members(arrays, &head, ix);
  return fopo_npz_save(path, arrays, FOPO_INDEX_MEMBERS, 0);
}

static int rebuild(fopo_index **fresh, const fopo_index *ix) {
  return fopo_index_exact(fresh, ix->items);
}

static const fopo_index_kind exact = {.kind = "exact",
                                      .search = search,
                                      .finds_sets = 1,
                                      .free = free_own,
                                      .about = about,
                                      .save = save,
                                      .rebuild = rebuild};

int fopo_index_exact(fopo_index **ix, fopo_matrix items) {
  int status = fopo_index_begin(ix, &exact, items, NULL);
  if (status != FOPO_OK) return status;
  fopo_scan *scan = (*ix)->own = fopo_alloc(1, sizeof *scan);
  if (scan == NULL) {
    fopo_index_free(*ix);
    *ix = NULL;
    return FOPO_ERR_MEMORY;
  }
  scan->items = scan->head = items;
  scan->max_norm = (*ix)->max_norm;
  scan->limit = items.rows;
  return FOPO_OK;
}
