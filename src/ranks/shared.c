#include "ranks/shared.h"

#include <string.h>

#include "comm/comm.h"
#include "comm/pieces.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

/* ---- what the ranks hold in ranges, on every rank ---- */

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
  int status =
      rows != NULL ? fopo_sessions_take(&mine, s, rows, list_rows(rows, s, n)) : FOPO_ERR_MEMORY;
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
  some->at_random = s->at_random;
  some->keeps_seen = s->keeps_seen;
  if (status != FOPO_OK) fopo_sessions_done(some);
  return status;
}

void fopo_shared_done(fopo_shared *s) {
  fopo_matrix_done(&s->x);
  fopo_csr_done(&s->Y);
  fopo_csr_done(&s->seen);
  *s = (fopo_shared){0};
}

/* ---- sharing out ---- */

/* The rows of X or Y whose contexts are this rank's; not owned. */
static fopo_csr own_rows(const fopo_shared *s, const fopo_sessions *sessions, const fopo_csr *m) {
  return sessions->all > 0 ? *m : fopo_csr_rows(m, s->first, s->x.rows);
}

/* X of the contexts first .. first + n - 1 of all; *owned becomes what it lies in, if it has come
 * from those that have them. */
static int take_block(fopo_csr *X, fopo_csr *owned, const fopo_sessions *sessions, size_t first,
                      size_t n) {
  if (sessions->all == 0) {
    *X = fopo_csr_rows(&sessions->X, first, n);
    return FOPO_OK;
  }
  size_t begin = sessions->first, end = begin + sessions->X.rows;
  size_t from = first > begin ? first : begin, to = first + n < end ? first + n : end;
  fopo_csr mine = {.cols = sessions->X.cols};
  if (from < to) mine = fopo_csr_rows(&sessions->X, from - begin, to - from);
  int status = fopo_csr_gather(owned, &mine, "a block of contexts", FOPO_OK);
  *X = *owned;
  return status;
}

/* Contexts of items that are dealt out: the ranks make all of them together, a block at a time, and
 * each keeps its own. */
static int make_dealt(fopo_shared *s, const fopo_sessions *sessions, fopo_shard *shard,
                      fopo_encoding how) {
  enum { BLOCK = 4096 };
  fopo_matrix some = {0};
  int status = fopo_comm_agree(fopo_matrix_init(&some, BLOCK, s->x.cols));
  for (size_t first = 0; first < s->N && status == FOPO_OK; first += BLOCK) {
    size_t n = s->N - first < BLOCK ? s->N - first : BLOCK;
    fopo_csr owned = {0};
    fopo_sessions block = {0};
    status = take_block(&block.X, &owned, sessions, first, n);
    if (status == FOPO_OK) {
      status = fopo_shard_contexts(fopo_matrix_rows(some, 0, n), &block, shard, how);
    }
    fopo_csr_done(&owned);
    for (size_t i = 0; i < n && status == FOPO_OK; i++) {
      size_t own = first + i - s->first; /* wraps around below the range */
      if (own >= s->x.rows) continue;
      memcpy(fopo_matrix_row(s->x, own), fopo_matrix_row(some, i), s->x.cols * sizeof *s->x.x);
    }
  }
  fopo_matrix_done(&some);
  return status;
}

static int check_sessions(const fopo_sessions *sessions, size_t P) {
  if (fopo_sessions_count(sessions) < fopo_comm_ranks()) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu contexts cannot be shared out to %zu ranks",
                     fopo_sessions_count(sessions), fopo_comm_ranks());
  }
  if (sessions->X.cols == P) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "the sessions are over %zu items, and %zu items are given",
                   sessions->X.cols, P);
}

/* x and Y of this rank's range; x only if every rank has all items. */
static int make_own(fopo_shared *s, const fopo_sessions *sessions, fopo_matrix items, int is_dealt,
                    fopo_encoding how) {
  size_t n = s->x.rows;
  fopo_csr Y = own_rows(s, sessions, &sessions->Y);
  uint64_t hits = Y.indptr[n] - Y.indptr[0];
  uint64_t bytes = (uint64_t)n * (items.cols * sizeof(float) + sizeof(uint64_t)) + hits * 4;
  int status =
      fopo_memory_suffices(bytes, "this rank's share of the contexts", "use more machines");
  if (status == FOPO_OK) status = fopo_matrix_init(&s->x, n, items.cols);
  if (status == FOPO_OK) status = fopo_csr_copy(&s->Y, &Y);
  if (status != FOPO_OK || is_dealt) return status;
  fopo_csr X = own_rows(s, sessions, &sessions->X);
  return fopo_encode(s->x, how, &X, items);
}

int fopo_shared_init(fopo_shared *s, const fopo_sessions *sessions, fopo_matrix items,
                     fopo_shard *shard, fopo_encoding how, int keep_seen) {
  size_t all[FOPO_COMM_RANKS], most = 1;
  *s = (fopo_shared){.N = fopo_sessions_count(sessions)};
  s->x.rows = fopo_comm_own_share(&s->first, s->N);
  int status = check_sessions(sessions, shard != NULL ? shard->part.P : items.rows);
  if (status == FOPO_OK) status = make_own(s, sessions, items, shard != NULL, how);
  if (status == FOPO_OK && keep_seen) {
    fopo_csr X = own_rows(s, sessions, &sessions->X);
    status = fopo_csr_copy(&s->seen, &X);
  }
  status = fopo_comm_agree(status);
  if (status == FOPO_OK && shard != NULL) status = make_dealt(s, sessions, shard, how);
  for (size_t i = 0; i < s->x.rows && status == FOPO_OK; i++) {
    size_t n = fopo_csr_count(&s->Y, i) + (keep_seen ? fopo_csr_count(&s->seen, i) : 0);
    most = n > most ? n : most;
  }
  if (status == FOPO_OK) status = fopo_comm_gather(all, &most, sizeof most);
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    s->most = all[r] > s->most ? all[r] : s->most;
  }
  if (status != FOPO_OK) fopo_shared_done(s);
  return status;
}

/* ---- fetching ---- */

void fopo_fetched_done(fopo_fetched *f) {
  fopo_csr_done(&f->Y);
  fopo_csr_done(&f->seen);
  fopo_csr_done(&f->own_seen);
  fopo_free(f->places);
  fopo_free(f->rows);
  fopo_free(f->X);
  fopo_free(f->mine);
  fopo_free(f->all);
  fopo_free(f->own_ids);
  fopo_free(f->all_ids);
  *f = (fopo_fetched){0};
}

/* Numbers of a context in a message: x, and how many hits and seen items follow. */
static size_t width_of(const fopo_shared *s) { return s->x.cols + 1 + (s->seen.indptr != NULL); }

int fopo_fetched_reserve(fopo_fetched *f, const fopo_shared *s, size_t n) {
  size_t D = s->x.cols, width = width_of(s);
  if (n <= f->capacity) return FOPO_OK;
  fopo_fetched_done(f);
  f->places = fopo_alloc(n, sizeof *f->places);
  f->rows = fopo_alloc(n, sizeof *f->rows);
  f->X = fopo_alloc(n, D * sizeof *f->X);
  f->mine = fopo_alloc(n, width * sizeof *f->mine);
  f->all = fopo_alloc(n, width * sizeof *f->all);
  f->own_ids = fopo_alloc(n * s->most, sizeof *f->own_ids);
  f->all_ids = fopo_alloc(n * s->most, sizeof *f->all_ids);
  int status = fopo_csr_init(&f->Y, n, s->Y.cols, n * s->most, 0);
  if (status == FOPO_OK && s->seen.indptr != NULL) {
    status = fopo_csr_init(&f->seen, n, s->Y.cols, n * s->most, 0);
    if (status == FOPO_OK) status = fopo_csr_init(&f->own_seen, n, s->Y.cols, n * s->most, 0);
  }
  if (status == FOPO_OK &&
      !(f->places && f->rows && f->X && f->mine && f->all && f->own_ids && f->all_ids)) {
    status = FOPO_ERR_MEMORY;
  }
  if (status != FOPO_OK) {
    fopo_fetched_done(f);
    return status;
  }
  for (size_t i = 0; i < n; i++) f->places[i] = (uint32_t)i;
  f->capacity = n;
  return FOPO_OK;
}

/* The contexts of this rank, with the numbers of their hits and of what they have seen behind each;
 * and these items. bytes [ranks]: of contexts that each rank sends. */
static void pack(fopo_fetched *f, size_t *bytes, const fopo_shared *s, const uint32_t *rows,
                 size_t n) {
  size_t D = s->x.cols, width = width_of(s), used = 0, at = 0;
  memset(bytes, 0, fopo_comm_ranks() * sizeof *bytes);
  for (size_t i = 0; i < n; i++) {
    size_t r = fopo_comm_owner(rows[i], s->N), own = rows[i] - s->first;
    bytes[r] += width * sizeof(float);
    if (r != fopo_comm_own_rank()) continue;
    const fopo_csr *const lists[] = {&s->Y, &s->seen};
    float *to = f->mine + at++ * width;
    memcpy(to, fopo_matrix_row(s->x, own), D * sizeof *to);
    for (size_t k = 0; k < width - D; k++) {
      uint32_t count = (uint32_t)fopo_csr_count(lists[k], own);
      memcpy(to + D + k, &count, sizeof count);
      memcpy(f->own_ids + used, fopo_csr_row(lists[k], own), count * sizeof count);
      used += count;
    }
  }
}

/* at [ranks]: where the bytes of each begin, in units of `unit`. */
static void places_of(size_t *at, const size_t *bytes, size_t unit) {
  size_t sum = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    at[r] = sum / unit;
    sum += bytes[r];
  }
}

/* X, the number of hits of each context as places[i], and where in f->seen its items will be; bytes
 * [ranks] become those of the items. */
static void unpack(fopo_fetched *f, size_t *bytes, const fopo_shared *s, const uint32_t *rows,
                   size_t n) {
  size_t D = s->x.cols, width = width_of(s), at[FOPO_COMM_RANKS];
  places_of(at, bytes, width * sizeof(float));
  memset(bytes, 0, fopo_comm_ranks() * sizeof *bytes);
  for (size_t i = 0; i < n; i++) {
    size_t r = fopo_comm_owner(rows[i], s->N);
    const float *from = f->all + at[r]++ * width;
    uint32_t seen = 0;
    memcpy(f->X + i * D, from, D * sizeof *from);
    memcpy(&f->places[i], from + D, sizeof f->places[i]);
    if (width > D + 1) {
      memcpy(&seen, from + D + 1, sizeof seen);
      f->seen.indptr[i + 1] = f->seen.indptr[i] + seen;
    }
    bytes[r] += (f->places[i] + seen) * sizeof *f->all_ids;
  }
}

/* Y, and what is seen, of the items that have come. */
static void unpack_items(fopo_fetched *f, const size_t *bytes, const fopo_shared *s,
                         const fopo_shard *shard, const uint32_t *rows, size_t n) {
  size_t at[FOPO_COMM_RANKS];
  places_of(at, bytes, sizeof *f->all_ids);
  f->Y.rows = n;
  f->Y.cols = shard != NULL ? shard->part.rows : s->Y.cols;
  for (size_t i = 0; i < n; i++) {
    size_t r = fopo_comm_owner(rows[i], s->N), count = f->places[i];
    uint32_t *to = f->Y.ids + f->Y.indptr[i];
    if (shard != NULL) {
      f->Y.indptr[i + 1] = f->Y.indptr[i] + fopo_shard_ids(to, shard, f->all_ids + at[r], count);
    } else {
      memcpy(to, f->all_ids + at[r], count * sizeof *to);
      f->Y.indptr[i + 1] = f->Y.indptr[i] + count;
    }
    at[r] += count;
    f->places[i] = (uint32_t)i;
    if (s->seen.indptr == NULL) continue;
    size_t n_seen = fopo_csr_count(&f->seen, i);
    memcpy(f->seen.ids + f->seen.indptr[i], f->all_ids + at[r], n_seen * sizeof *f->all_ids);
    if (shard != NULL) {
      uint64_t own = f->own_seen.indptr[i];
      own += fopo_shard_ids(f->own_seen.ids + own, shard, f->all_ids + at[r], n_seen);
      f->own_seen.indptr[i + 1] = own;
    }
    at[r] += n_seen;
  }
}

int fopo_fetch(fopo_fetched *f, const fopo_shared *s, const fopo_shard *shard, const uint32_t *rows,
               size_t n, int status) {
  size_t bytes[FOPO_COMM_RANKS];
  if (status == FOPO_OK) status = fopo_fetched_reserve(f, s, n);
  status = fopo_comm_agree(status);
  if (status != FOPO_OK) return status;
  pack(f, bytes, s, rows, n);
  status = fopo_comm_gather_parts(f->all, f->mine, bytes);
  if (status != FOPO_OK) return status;
  unpack(f, bytes, s, rows, n);
  status = fopo_comm_gather_parts(f->all_ids, f->own_ids, bytes);
  if (status == FOPO_OK) unpack_items(f, bytes, s, shard, rows, n);
  return status;
}
