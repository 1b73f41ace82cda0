#include "ranks/split.h"

#include <string.h>

#include "comm/pieces.h"
#include "core/memory.h"
#include "core/status.h"

static int count_users(fopo_split_users *all, size_t *before, const fopo_split_users *own,
                       int status) {
  fopo_split_users every[FOPO_COMM_RANKS];
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = fopo_comm_gather(every, own, sizeof *own);
  *all = (fopo_split_users){0};
  *before = 0;
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    if (r < fopo_comm_own_rank()) *before += every[r].kept;
    all->kept += every[r].kept;
    all->dropped += every[r].dropped;
    all->longest = every[r].longest > all->longest ? every[r].longest : all->longest;
  }
  return status;
}

static int sum(double *x, size_t n, int status) {
  status = fopo_comm_agree(status);
  return status == FOPO_OK && n > 0 ? fopo_comm_sum_doubles(x, n) : status;
}

/* ---- places ---- */

/* places [rows]: those of the own sessions among all of the part, of the positions [rows] of their
 * users in it. A user without a session takes no place. Of every position the ranks add up whether
 * there is a session, a block at a time. */
static int find_places(uint32_t *places, const uint32_t *positions, size_t rows, size_t all,
                       int status) {
  enum { BLOCK = 1 << 18 };
  float *marks = fopo_alloc(BLOCK, sizeof *marks);
  if (status == FOPO_OK && marks == NULL) status = FOPO_ERR_MEMORY;
  status = fopo_comm_agree(status);
  uint32_t place = 0;
  size_t i = 0;
  for (size_t first = 0; first < all && status == FOPO_OK; first += BLOCK) {
    size_t n = all - first < BLOCK ? all - first : BLOCK, from = i;
    memset(marks, 0, n * sizeof *marks);
    for (; i < rows && positions[i] < first + n; i++) marks[positions[i] - first] = 1.0f;
    status = fopo_comm_sum(marks, n);
    for (size_t k = 0; k < n && status == FOPO_OK; k++) {
      if (from < i && positions[from] == first + k) places[from++] = place;
      place += marks[k] > 0.0f;
    }
  }
  fopo_free(marks);
  return status;
}

/* positions [rows] of the sessions in the part: of their users, which are some of the segment's, in
 * its order. */
static void find_positions(uint32_t *positions, const fopo_sessions *s,
                           const fopo_split_segment *users) {
  for (size_t i = 0, row = 0; i < users->n && row < s->X.rows; i++) {
    if (s->users[row] != users->rows[i]) continue;
    positions[row++] = (uint32_t)(users->positions[i] - users->first);
  }
}

/* ---- sending ---- */

/* What goes before the items of a session. */
typedef struct {
  uint32_t place, user, x, y; /* items in X and in Y */
} head;

typedef struct {
  uint32_t *places; /* [rows] of the sessions that are sent, ascending */
  head *sent, *heads;
  size_t rows, n;                 /* sessions that are sent, and that have come */
  size_t at[FOPO_COMM_RANKS + 1]; /* the sessions for rank r are at[r] .. at[r + 1] - 1 */
} deal;

static void done(deal *d) {
  fopo_free(d->places);
  fopo_free(d->sent);
  fopo_free(d->heads);
}

static void write_heads(deal *d, const fopo_sessions *s, size_t first_user, size_t total) {
  size_t row = 0, first;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    size_t n = fopo_comm_share(&first, total, r, fopo_comm_ranks());
    d->at[r] = row;
    for (; row < d->rows && d->places[row] < first + n; row++) {
      d->sent[row] = (head){.place = d->places[row],
                            .user = (uint32_t)(first_user + s->users[row]),
                            .x = (uint32_t)fopo_csr_count(&s->X, row),
                            .y = (uint32_t)fopo_csr_count(&s->Y, row)};
    }
  }
  d->at[fopo_comm_ranks()] = row;
}

static int send_heads(deal *d, int status) {
  size_t sent[FOPO_COMM_RANKS], coming[FOPO_COMM_RANKS];
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    sent[r] = (d->at[r + 1] - d->at[r]) * sizeof(head);
  }
  status = fopo_pieces_sizes(coming, sent, status);
  if (status != FOPO_OK) return status;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) d->n += coming[r] / sizeof(head);
  d->heads = fopo_alloc(d->n, sizeof *d->heads);
  status = d->heads != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  return fopo_pieces_exchange(d->heads, coming, d->sent, sent, FOPO_PIECE, status);
}

static uint32_t items_of(const head *h, int in_y) { return in_y ? h->y : h->x; }

/* m [n, cols], by place, of the items that have come, in the order of their heads. */
static int place_items(fopo_csr *m, const deal *d, const uint32_t *ids, size_t nnz, size_t cols,
                       size_t first, int in_y) {
  size_t at = 0;
  int status = fopo_csr_init(m, d->n, cols, nnz, 0);
  if (status != FOPO_OK) return status;
  for (size_t i = 0; i < d->n; i++) {
    m->indptr[d->heads[i].place - first + 1] = items_of(&d->heads[i], in_y);
  }
  for (size_t i = 0; i < d->n; i++) m->indptr[i + 1] += m->indptr[i];
  for (size_t i = 0; i < d->n; i++) {
    size_t place = d->heads[i].place - first, n = fopo_csr_count(m, place);
    memcpy(m->ids + m->indptr[place], ids + at, n * sizeof *ids);
    at += n;
  }
  return FOPO_OK;
}

/* X or Y: m, the sessions that are sent, becomes those that have come. */
static int send_items(fopo_csr *m, const deal *d, size_t cols, size_t first, int in_y, int status) {
  size_t sent[FOPO_COMM_RANKS], coming[FOPO_COMM_RANKS], nnz = 0, ranks = fopo_comm_ranks();
  for (size_t r = 0; r < ranks && status == FOPO_OK; r++) {
    sent[r] = d->rows > 0 ? m->indptr[d->at[r + 1]] - m->indptr[d->at[r]] : 0;
    sent[r] *= sizeof *m->ids;
  }
  status = fopo_pieces_sizes(coming, sent, status);
  for (size_t r = 0; r < ranks && status == FOPO_OK; r++) nnz += coming[r] / sizeof *m->ids;
  uint32_t *ids = fopo_alloc(nnz, sizeof *ids);
  if (status == FOPO_OK && ids == NULL) status = FOPO_ERR_MEMORY;
  const uint32_t *out = d->rows > 0 ? m->ids : ids;
  status = fopo_pieces_exchange(ids, coming, out, sent, FOPO_PIECE, status);
  fopo_csr_done(m);
  if (status == FOPO_OK) status = place_items(m, d, ids, nnz, cols, first, in_y);
  fopo_free(ids);
  return status;
}

/* The sessions that have come. */
static int receive(fopo_sessions *s, deal *d, size_t cols, size_t total, int status) {
  fopo_comm_own_share(&s->first, total);
  s->all = total;
  status = send_heads(d, status);
  status = send_items(&s->X, d, cols, s->first, 0, status);
  status = send_items(&s->Y, d, cols, s->first, 1, status);
  fopo_free(s->order); /* sessions that are shared out are not cut anew */
  s->order = NULL;
  fopo_free(s->users);
  s->users = fopo_alloc(d->n, sizeof *s->users);
  if (status == FOPO_OK && s->users == NULL) status = FOPO_ERR_MEMORY;
  for (size_t i = 0; i < d->n && status == FOPO_OK; i++) {
    s->users[d->heads[i].place - s->first] = d->heads[i].user;
  }
  return fopo_comm_agree(status);
}

static int deal_sessions(fopo_sessions *s, const fopo_split_segment *users, size_t cols,
                         size_t total, int status) {
  deal d = {.rows = s->X.rows};
  uint32_t *positions = fopo_alloc(d.rows, sizeof *positions);
  d.places = fopo_alloc(d.rows, sizeof *d.places);
  d.sent = fopo_alloc(d.rows, sizeof *d.sent);
  if (status == FOPO_OK && !(positions && d.places && d.sent)) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK) find_positions(positions, s, users);
  if (total == users->all) { /* every user has a session */
    if (status == FOPO_OK) memcpy(d.places, positions, d.rows * sizeof *positions);
  } else {
    status = find_places(d.places, positions, d.rows, users->all, status);
  }
  fopo_free(positions);
  if (status == FOPO_OK) write_heads(&d, s, users->first_user, total);
  status = receive(s, &d, cols, total, status);
  done(&d);
  return status;
}

int fopo_ranks_split(fopo_split *split, const fopo_dataset *d, const fopo_split_options *options,
                     const fopo_split_plan *plan) {
  static const fopo_split_others others = {count_users, sum, deal_sessions};
  if (d->all_users == 0) return fopo_split_by(split, d, options, plan);
  fopo_comm_begin();
  return fopo_comm_end(fopo_split_among(split, d, options, plan, &others));
}
