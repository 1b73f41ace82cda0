#include "ranks/columns.h"

#include <string.h>

#include "comm/pieces.h"
#include "core/memory.h"
#include "core/sorted.h"
#include "core/status.h"
#include "core/threads.h"
#include "ranks/gather.h"
#include "data/interactions.h"

void fopo_columns_done(fopo_columns *c) {
  fopo_csr_done(&c->M);
  fopo_csr_done(&c->Mt);
  fopo_free(c->users);
  fopo_free(c->next);
  *c = (fopo_columns){0};
}

/* ---- sending ---- */

/* A user before the user's items. */
typedef struct {
  uint32_t place, count;
} head;

/* What each rank gets: heads and items, in the order of the ranks. */
typedef struct {
  head *heads;
  uint32_t *ids;
  size_t users[FOPO_COMM_RANKS], entries[FOPO_COMM_RANKS];
} parcel;

static void parcel_done(parcel *p) {
  fopo_free(p->heads);
  fopo_free(p->ids);
}

static size_t sum_of(const size_t *x) {
  size_t sum = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) sum += x[r];
  return sum;
}

static int parcel_init(parcel *p) {
  p->heads = fopo_alloc(sum_of(p->users), sizeof *p->heads);
  p->ids = fopo_alloc(sum_of(p->entries), sizeof *p->ids);
  return p->heads != NULL && p->ids != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* Counts what goes to each rank of the rows of m, the users from place `first` on; or, if p has
 * room, writes it. at [rows]: scratch. */
static void pack(parcel *p, const fopo_csr *m, size_t first, uint32_t *at) {
  size_t user = 0, entry = 0, begin;
  memset(at, 0, m->rows * sizeof *at);
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    size_t end = fopo_comm_share(&begin, m->cols, r, fopo_comm_ranks()) + begin;
    p->users[r] = p->entries[r] = 0;
    for (size_t row = 0; row < m->rows; row++) { /* ids ascend: at[row] is the first one of r */
      const uint32_t *ids = fopo_csr_row(m, row);
      size_t from = at[row], to = from, count = fopo_csr_count(m, row);
      while (to < count && ids[to] < end) to++;
      at[row] = (uint32_t)to;
      if (to == from) continue;
      p->users[r]++;
      p->entries[r] += to - from;
      if (p->heads == NULL) continue;
      p->heads[user++] = (head){(uint32_t)(first + row), (uint32_t)(to - from)};
      for (size_t i = from; i < to; i++) p->ids[entry++] = ids[i] - (uint32_t)begin;
    }
  }
}

/* The parcel for each rank of the interactions here. */
static int make_parcel(parcel *p, const fopo_csr *m, size_t first) {
  uint32_t *at = fopo_alloc(m->rows, sizeof *at);
  int status = at != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) pack(p, m, first, at);
  if (status == FOPO_OK) status = parcel_init(p);
  if (status == FOPO_OK) pack(p, m, first, at);
  fopo_free(at);
  return status;
}

static int send(parcel *come, const parcel *go, int status) {
  size_t to[FOPO_COMM_RANKS], from[FOPO_COMM_RANKS];
  status = fopo_pieces_sizes(come->users, go->users, status);
  status = fopo_pieces_sizes(come->entries, go->entries, status);
  if (status == FOPO_OK) status = parcel_init(come);
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    to[r] = go->users[r] * sizeof(head);
    from[r] = come->users[r] * sizeof(head);
  }
  status = fopo_pieces_exchange(come->heads, from, go->heads, to, FOPO_PIECE, status);
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    to[r] = go->entries[r] * sizeof *go->ids;
    from[r] = come->entries[r] * sizeof *come->ids;
  }
  return fopo_pieces_exchange(come->ids, from, go->ids, to, FOPO_PIECE, status);
}

/* X + Y of the users of this rank's block. */
static int own_interactions(fopo_csr *m, const fopo_sessions *s) {
  size_t first, n = fopo_comm_own_share(&first, fopo_sessions_count(s));
  fopo_sessions own = *s;
  if (s->all == 0) {
    own.X = fopo_csr_rows(&s->X, first, n);
    own.Y = fopo_csr_rows(&s->Y, first, n);
  }
  return fopo_interactions(m, &own);
}

/* ---- what has come ---- */

/* M and users of the parcels, whose users ascend since those of rank b do, and lie before those of
 * rank b + 1. */
static int unpack(fopo_columns *c, parcel *p) {
  size_t rows = sum_of(p->users);
  c->users = fopo_alloc(rows, sizeof *c->users);
  int status = c->users != NULL ? fopo_csr_init(&c->M, rows, c->n, 0, 0) : FOPO_ERR_MEMORY;
  if (status != FOPO_OK) return status;
  for (size_t i = 0; i < rows; i++) {
    c->users[i] = p->heads[i].place;
    c->M.indptr[i + 1] = c->M.indptr[i] + p->heads[i].count;
  }
  fopo_free(c->M.ids);
  c->M.ids = p->ids; /* of the same size */
  p->ids = NULL;
  return FOPO_OK;
}

static int transpose(fopo_columns *c) {
  int status = fopo_csr_transpose(&c->Mt, &c->M);
  if (status != FOPO_OK) return status;
  for (size_t e = 0; e < fopo_csr_nnz(&c->Mt); e++) c->Mt.ids[e] = c->users[c->Mt.ids[e]];
  c->Mt.cols = c->N;
  c->next = fopo_alloc(c->n, sizeof *c->next);
  return c->next != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

int fopo_columns_init(fopo_columns *c, const fopo_sessions *s, int status) {
  fopo_csr own = {0};
  parcel go = {0}, come = {0};
  size_t first;
  *c = (fopo_columns){.N = fopo_sessions_count(s), .P = s->X.cols};
  fopo_comm_own_share(&first, c->N);
  c->n = fopo_comm_own_share(&c->first, c->P);
  if (status == FOPO_OK) status = own_interactions(&own, s);
  if (status == FOPO_OK) status = make_parcel(&go, &own, first);
  fopo_csr_done(&own);
  status = send(&come, &go, status);
  parcel_done(&go);
  if (status == FOPO_OK) status = unpack(c, &come);
  parcel_done(&come);
  if (status == FOPO_OK) status = transpose(c);
  return fopo_comm_agree(status);
}

/* ---- products ---- */

void fopo_columns_by_users(fopo_matrix Y, const fopo_columns *c, size_t first, fopo_matrix W) {
  size_t begin = fopo_sorted_place(c->users, c->M.rows, (uint32_t)first);
  size_t end = fopo_sorted_place(c->users, c->M.rows, (uint32_t)(first + Y.rows));
#pragma omp parallel for num_threads(fopo_threads()) schedule(static)
  for (size_t i = 0; i < Y.rows; i++) memset(fopo_matrix_row(Y, i), 0, Y.cols * sizeof *Y.x);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 256)
  for (size_t i = begin; i < end; i++) {
    fopo_csr_add_rows(fopo_matrix_row(Y, c->users[i] - first), fopo_csr_row(&c->M, i), NULL,
                      fopo_csr_count(&c->M, i), 0, 0, W);
  }
}

/* The first item before which there are at least p / parts of the entries. */
static size_t find_item(const fopo_columns *c, size_t p, size_t parts) {
  size_t low = 0, high = c->n;
  if (p == parts) return high;
  uint64_t entries = fopo_csr_nnz(&c->Mt) / parts * p;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (c->Mt.indptr[middle] < entries) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

size_t fopo_columns_part(size_t *first, const fopo_columns *c, size_t p, size_t parts) {
  *first = find_item(c, p, parts);
  return find_item(c, p + 1, parts) - *first;
}

void fopo_columns_by_items(fopo_matrix items, size_t at, fopo_columns *c, size_t b, fopo_matrix Y) {
  size_t first, n = fopo_columns_block(&first, c, b);
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 16)
  for (size_t i = 0; i < items.rows; i++) {
    size_t a = at + i;
    float *w = fopo_matrix_row(items, i);
    if (b == 0) memset(w, 0, items.cols * sizeof *w);
    uint64_t begin = b == 0 ? c->Mt.indptr[a] : c->next[a], end = begin;
    while (end < c->Mt.indptr[a + 1] && c->Mt.ids[end] < first + n) end++;
    fopo_csr_add_rows(w, c->Mt.ids + begin, NULL, (size_t)(end - begin), 0, first, Y);
    c->next[a] = end;
  }
}
