/* The index kind "exact": all items, by rising id; the reference of the other kinds. */
#include "core/memory.h"
#include "core/status.h"
#include "mips/index_internal.h"
#include "mips/scan.h"

static int search(uint32_t *ids, float *scores, uint32_t *counts, fopo_index *ix, fopo_matrix Q,
                  size_t k) {
  return fopo_scan_search(ids, scores, counts, &ix->scored, ix->impl, Q, k, ix->without);
}

static void free_impl(fopo_index *ix) {
  if (ix->impl == NULL) return;
  fopo_scan_done(ix->impl);
  fopo_free(ix->impl);
}

static void about(fopo_index_facts *facts, const fopo_index *ix) {
  facts->bytes = sizeof(fopo_scan) + fopo_scan_bytes(ix->impl);
  facts->reachable = ix->items.rows;
}

static int save(const fopo_index *ix, const char *path) {
  fopo_index_header header;
  fopo_array arrays[FOPO_INDEX_MEMBERS];
  fopo_index_members(arrays, &header, ix);
  return fopo_npz_save(path, arrays, FOPO_INDEX_MEMBERS, 0);
}

static int rebuild(fopo_index **fresh, const fopo_index *ix) {
  return fopo_index_exact(fresh, ix->items);
}

static int load(fopo_index **ix, fopo_archive *archive, const char *path, fopo_matrix items) {
  (void)archive;
  (void)path;
  return fopo_index_exact(ix, items);
}

const fopo_index_kind fopo_index_kind_exact = {.name = "exact",
                                               .exhaustive = 1,
                                               .finds_sets = 1,
                                               .leaves_out = 1,
                                               .search = search,
                                               .free = free_impl,
                                               .about = about,
                                               .save = save,
                                               .load = load,
                                               .rebuild = rebuild};

int fopo_index_exact(fopo_index **ix, fopo_matrix items) {
  int status = fopo_index_begin(ix, &fopo_index_kind_exact, items, NULL);
  if (status != FOPO_OK) return status;
  fopo_scan *scan = (*ix)->impl = fopo_alloc(1, sizeof *scan);
  if (scan == NULL) return fopo_index_end(ix, FOPO_ERR_MEMORY);
  scan->items = scan->packed = items;
  scan->max_norm = (*ix)->max_norm;
  scan->limit = items.rows;
  return FOPO_OK;
}
