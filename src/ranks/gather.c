#include "ranks/gather.h"

#include <string.h>

#include "comm/pieces.h"
#include "core/memory.h"
#include "core/status.h"

/* ---- rows ---- */

typedef struct {
  size_t rows, nnz;
} shape;

/* indptr of `all` from the number of entries of each row. */
static int gather_counts(fopo_csr *all, const fopo_csr *mine, const shape *shapes, int status) {
  size_t bytes[FOPO_COMM_RANKS];
  uint32_t *own = fopo_alloc(mine->rows, sizeof *own);
  uint32_t *counts = own != NULL ? fopo_alloc(all->rows, sizeof *counts) : NULL;
  if (status == FOPO_OK && counts == NULL) status = FOPO_ERR_MEMORY;
  for (size_t i = 0; i < mine->rows && status == FOPO_OK; i++) {
    own[i] = (uint32_t)fopo_csr_count(mine, i);
  }
  for (size_t r = 0; r < fopo_comm_ranks(); r++) bytes[r] = shapes[r].rows * sizeof *own;
  status = fopo_pieces_gather(counts, own, bytes, FOPO_PIECE, status);
  for (size_t i = 0; i < all->rows && status == FOPO_OK; i++) {
    all->indptr[i + 1] = all->indptr[i] + counts[i];
  }
  fopo_free(own);
  fopo_free(counts);
  return status;
}

int fopo_csr_gather(fopo_csr *all, const fopo_csr *mine, const char *what, int status) {
  shape here = {.rows = mine->rows}, shapes[FOPO_COMM_RANKS], sum = {0};
  size_t bytes[FOPO_COMM_RANKS];
  const uint32_t *ids = mine->rows > 0 ? mine->ids + mine->indptr[0] : NULL;
  if (mine->rows > 0) here.nnz = (size_t)(mine->indptr[mine->rows] - mine->indptr[0]);
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_gather(shapes, &here, sizeof here);
  if (status != FOPO_OK) return status;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    sum.rows += shapes[r].rows;
    sum.nnz += shapes[r].nnz;
    bytes[r] = shapes[r].nnz * sizeof *ids;
  }
  status = fopo_memory_suffices((uint64_t)sum.nnz * 4 + (uint64_t)sum.rows * 12, what,
                                "gather fewer of them");
  if (status == FOPO_OK) status = fopo_csr_init(all, sum.rows, mine->cols, sum.nnz, 0);
  status = gather_counts(all, mine, shapes, status);
  status = fopo_pieces_gather(all->ids, ids != NULL ? ids : all->ids, bytes, FOPO_PIECE, status);
  if (status != FOPO_OK) fopo_csr_done(all);
  return status;
}

/* ---- contexts ---- */

/* rows [result]: those of the n evenly spread contexts that this rank has. */
static size_t list_rows(uint32_t *rows, const fopo_sessions *s, size_t n) {
  size_t here = 0, all = fopo_sessions_count(s);
  for (size_t i = 0; i < n; i++) {
    size_t row = fopo_spread_context(i, n, all) - s->first; /* wraps around below the range */
    if (row < s->X.rows) rows[here++] = (uint32_t)row;
  }
  return here;
}

static int take(fopo_sessions *some, const fopo_sessions *s, const uint32_t *rows, size_t n) {
  int status = fopo_csr_take(&some->X, &s->X, rows, n);
  if (status == FOPO_OK) status = fopo_csr_take(&some->Y, &s->Y, rows, n);
  if (status != FOPO_OK) return status;
  some->users = fopo_alloc(n, sizeof *some->users);
  if (some->users == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) some->users[i] = s->users[rows[i]];
  return FOPO_OK;
}

static int gather_users(fopo_sessions *all, const fopo_sessions *mine, int status) {
  size_t bytes[FOPO_COMM_RANKS], own = mine->X.rows * sizeof *mine->users;
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_gather(bytes, &own, sizeof own);
  if (status != FOPO_OK) return status;
  all->users = fopo_alloc(all->X.rows, sizeof *all->users);
  if (all->users == NULL) status = FOPO_ERR_MEMORY;
  return fopo_pieces_gather(all->users, mine->users, bytes, FOPO_PIECE, status);
}

int fopo_sessions_gather(fopo_sessions *some, const fopo_sessions *s, size_t n) {
  fopo_sessions mine = {0};
  size_t all = fopo_sessions_count(s);
  if (n > all) n = all;
  *some = (fopo_sessions){0};
  uint32_t *rows = fopo_alloc(n < s->X.rows ? n : s->X.rows, sizeof *rows);
  int status = rows != NULL ? take(&mine, s, rows, list_rows(rows, s, n)) : FOPO_ERR_MEMORY;
  fopo_free(rows);
  if (s->all == 0) {
    *some = mine;
    if (status != FOPO_OK) fopo_sessions_done(some);
    return status;
  }
  fopo_comm_begin();
  status = fopo_csr_gather(&some->X, &mine.X, "gathering contexts", status);
  if (status == FOPO_OK) status = fopo_csr_gather(&some->Y, &mine.Y, "gathering contexts", status);
  if (status == FOPO_OK) status = gather_users(some, &mine, status);
  status = fopo_comm_end(status);
  fopo_sessions_done(&mine);
  if (status != FOPO_OK) fopo_sessions_done(some);
  return status;
}
