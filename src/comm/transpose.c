#include "comm/transpose.h"

#include <string.h>

#include "comm/pieces.h"
#include "core/memory.h"
#include "core/status.h"

/* The entries of a rank's rows by columns: how many of each, and their rows. */
typedef struct {
  uint32_t *counts, *ids;
  size_t entries[FOPO_COMM_RANKS]; /* to each rank, or of it */
} by_columns;

/* *go: those of `mine`, for the ranks that have the columns; own [cols, rows] holds its ids. */
static int pack_columns(by_columns *go, fopo_csr *own, const fopo_csr *mine, size_t first_row) {
  size_t begin;
  int status = fopo_csr_transpose(own, mine);
  if (status != FOPO_OK) return status;
  go->ids = own->ids;
  go->counts = fopo_alloc(own->rows, sizeof *go->counts);
  if (go->counts == NULL) return FOPO_ERR_MEMORY;
  for (size_t a = 0; a < own->rows; a++) go->counts[a] = (uint32_t)fopo_csr_count(own, a);
  for (size_t e = 0; e < fopo_csr_nnz(own); e++) go->ids[e] += (uint32_t)first_row;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    size_t n = fopo_comm_share(&begin, own->rows, r, fopo_comm_ranks());
    go->entries[r] = (size_t)(own->indptr[begin + n] - own->indptr[begin]);
  }
  return FOPO_OK;
}

/* What comes of the columns of this rank, n of `cols`. */
static int send_columns(by_columns *come, const by_columns *go, size_t cols, size_t n, int status) {
  size_t to[FOPO_COMM_RANKS], from[FOPO_COMM_RANKS], begin, all = 0;
  status = fopo_pieces_sizes(come->entries, go->entries, status);
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    to[r] = fopo_comm_share(&begin, cols, r, fopo_comm_ranks()) * sizeof *go->counts;
    from[r] = n * sizeof *go->counts;
    if (status == FOPO_OK) all += come->entries[r];
  }
  if (status == FOPO_OK) {
    come->counts = fopo_alloc(fopo_comm_ranks() * n, sizeof *come->counts);
    come->ids = fopo_alloc(all, sizeof *come->ids);
    if (come->counts == NULL || come->ids == NULL) status = FOPO_ERR_MEMORY;
  }
  status = fopo_pieces_exchange(come->counts, from, go->counts, to, FOPO_PIECE, status);
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    to[r] = go->entries[r] * sizeof *go->ids;
    from[r] = come->entries[r] * sizeof *go->ids;
  }
  return fopo_pieces_exchange(come->ids, from, go->ids, to, FOPO_PIECE, status);
}

/* turned [n, ..] of what has come: rows ascend in a column, since those of rank r do, and lie
 * before those of rank r + 1. */
static int unpack_columns(fopo_csr *turned, const by_columns *come, size_t n, size_t rows) {
  size_t ranks = fopo_comm_ranks(), all = 0;
  for (size_t r = 0; r < ranks; r++) all += come->entries[r];
  int status = fopo_csr_init(turned, n, rows, all, 0);
  uint64_t *next = fopo_alloc(n, sizeof *next);
  if (status == FOPO_OK && next == NULL) status = FOPO_ERR_MEMORY;
  for (size_t a = 0; a < n && status == FOPO_OK; a++) {
    next[a] = turned->indptr[a + 1] = turned->indptr[a];
    for (size_t r = 0; r < ranks; r++) turned->indptr[a + 1] += come->counts[r * n + a];
  }
  const uint32_t *ids = come->ids;
  for (size_t i = 0; i < ranks * n && status == FOPO_OK; i++) {
    memcpy(turned->ids + next[i % n], ids, come->counts[i] * sizeof *ids);
    next[i % n] += come->counts[i];
    ids += come->counts[i];
  }
  fopo_free(next);
  return status;
}

int fopo_csr_transpose_shares(fopo_csr *turned, const fopo_csr *mine, size_t rows, int status) {
  fopo_csr own = {0};
  by_columns go = {0}, come = {0};
  size_t first, n = fopo_comm_own_share(&first, mine->cols);
  fopo_comm_own_share(&first, rows);
  if (status == FOPO_OK) status = pack_columns(&go, &own, mine, first);
  status = send_columns(&come, &go, mine->cols, n, status);
  fopo_csr_done(&own);
  fopo_free(go.counts);
  if (status == FOPO_OK) status = unpack_columns(turned, &come, n, rows);
  fopo_free(come.counts);
  fopo_free(come.ids);
  return status;
}
