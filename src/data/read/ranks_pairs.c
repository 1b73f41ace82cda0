/* Interactions go to the ranks that have their users, column by column, and keep their order: those
 * of rank 0 first, which read the first part of the files. */
#include <string.h>

#include "comm/comm.h"
#include "comm/pieces.h"
#include "core/memory.h"
#include "data/read/ranks.h"

typedef struct {
  size_t n;                                            /* own pairs before */
  size_t all;                                          /* and after */
  uint16_t *to;                                        /* [n] the rank that has the user */
  size_t sent[FOPO_COMM_RANKS], come[FOPO_COMM_RANKS]; /* pairs to and from each rank */
} moving;

/* ---- to the ranks that have the users ---- */

/* Whom each pair goes to, and from whom how many come. */
static int address(moving *m, const uint32_t *user, size_t users) {
  size_t end[FOPO_COMM_RANKS], first;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    end[r] = fopo_comm_share(&first, users, r, fopo_comm_ranks());
    end[r] += first;
  }
  m->to = fopo_alloc(m->n, sizeof *m->to);
  for (size_t i = 0; i < m->n && m->to != NULL; i++) {
    size_t r = (size_t)((uint64_t)user[i] * fopo_comm_ranks() / users); /* or next to it */
    while (r > 0 && user[i] < end[r - 1]) r--;
    while (user[i] >= end[r]) r++;
    m->to[i] = (uint16_t)r;
    m->sent[r]++;
  }
  int status = fopo_pieces_sizes(m->come, m->sent, m->to != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) m->all += m->come[r];
  return status;
}

/* sorted = the n elements of one column by receiver, in their order. */
static void sort_column(char *sorted, const char *column, const moving *m, size_t width) {
  size_t next[FOPO_COMM_RANKS], sum = 0;
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    next[r] = sum;
    sum += m->sent[r];
  }
  for (size_t i = 0; i < m->n; i++) {
    memcpy(sorted + next[m->to[i]]++ * width, column + i * width, width);
  }
}

/* *column [n] becomes [all]: what has come from all ranks, in their order. */
static int move_column(void *column, const moving *m, size_t width) {
  size_t sent[FOPO_COMM_RANKS], come[FOPO_COMM_RANKS];
  void *before, *after = NULL;
  char *sorted = fopo_alloc(m->n, width);
  if (sorted == NULL) return FOPO_ERR_MEMORY;
  memcpy(&before, column, sizeof before);
  sort_column(sorted, before, m, width);
  fopo_free(before);
  after = fopo_alloc(m->all, width);
  memcpy(column, &after, sizeof after);
  for (size_t r = 0; r < fopo_comm_ranks(); r++) {
    sent[r] = m->sent[r] * width;
    come[r] = m->come[r] * width;
  }
  int status = after != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  status = fopo_pieces_exchange(after, come, sorted, sent, FOPO_PIECE, status);
  fopo_free(sorted);
  return status;
}

int fopo_ranks_pairs(fopo_pairs *p, size_t users, const char *title) {
  moving m = {.n = p->n};
  fopo_pairs like = {.with_values = p->with_values, .with_times = p->with_times};
  int status = address(&m, p->user, users);
  if (status == FOPO_OK) status = fopo_pairs_check_more(title, (double)m.all, &like);
  if (status == FOPO_OK) status = move_column(&p->item, &m, sizeof *p->item);
  if (status == FOPO_OK && p->with_values) status = move_column(&p->value, &m, sizeof *p->value);
  if (status == FOPO_OK && p->with_times) status = move_column(&p->time, &m, sizeof *p->time);
  if (status == FOPO_OK) status = move_column(&p->user, &m, sizeof *p->user);
  p->n = p->capacity = m.all;
  fopo_free(m.to);
  return status;
}

/* ---- the dataset of the own users ---- */

/* What each rank says of its matrix. */
typedef struct {
  size_t nnz, users_seen;
  int ones, repeated; /* 1: every value is 1; some pair has two times */
  double first, last; /* of all times, if nnz > 0 */
} summary;

static summary summarise(const fopo_dataset *d) {
  const fopo_csr *m = &d->matrix;
  summary s = {.nnz = fopo_csr_nnz(m), .repeated = d->times.last != NULL};
  s.ones = m->values == NULL || fopo_values_are_ones(m->values, s.nnz);
  for (size_t u = 0; u < m->rows; u++) s.users_seen += fopo_csr_count(m, u) > 0;
  fopo_dataset_period(&s.first, &s.last, d);
  return s;
}

/* The sum of all. */
static int add_up(fopo_dataset *d, summary *sum) {
  summary mine = summarise(d), *all = fopo_alloc(fopo_comm_ranks(), sizeof *all);
  int status = fopo_comm_agree(all != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  if (status == FOPO_OK) status = fopo_comm_gather(all, &mine, sizeof mine);
  *sum = (summary){.ones = 1};
  for (size_t r = 0; r < fopo_comm_ranks() && status == FOPO_OK; r++) {
    const summary *one = &all[r];
    if (one->nnz > 0) {
      int is_first = sum->nnz == 0;
      if (is_first || one->first < sum->first) sum->first = one->first;
      if (is_first || one->last > sum->last) sum->last = one->last;
    }
    sum->nnz += one->nnz;
    sum->users_seen += one->users_seen;
    sum->ones &= one->ones;
    sum->repeated |= one->repeated;
  }
  fopo_free(all);
  return status;
}

/* Values and later times are there on all ranks or on none. */
static int complete(fopo_dataset *d, const summary *sum) {
  fopo_csr *m = &d->matrix;
  size_t nnz = fopo_csr_nnz(m);
  if (sum->ones) {
    fopo_free(m->values);
    m->values = NULL;
  } else if (m->values == NULL) {
    m->values = fopo_alloc(nnz, sizeof *m->values);
    if (m->values == NULL) return FOPO_ERR_MEMORY;
    for (size_t e = 0; e < nnz; e++) m->values[e] = 1.0f;
  }
  if (!sum->repeated || d->times.last != NULL) return FOPO_OK;
  d->times.last = fopo_alloc(nnz, sizeof *d->times.last);
  if (d->times.last == NULL) return FOPO_ERR_MEMORY;
  memcpy(d->times.last, d->times.first, nnz * sizeof *d->times.last);
  return FOPO_OK;
}

/* d->items_seen: columns with an entry on any rank. Bits of a block of columns of all ranks at a
 * time. */
static int count_items(fopo_dataset *d) {
  enum { BLOCK = 1 << 15 }; /* bytes of a block */
  const fopo_csr *m = &d->matrix;
  size_t bytes = m->cols / 8 + 1;
  uint8_t *seen = fopo_alloc(bytes, 1), *all = fopo_alloc(fopo_comm_ranks(), BLOCK);
  int status = fopo_comm_agree(seen != NULL && all != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  for (size_t e = 0; e < fopo_csr_nnz(m) && status == FOPO_OK; e++) {
    seen[m->ids[e] / 8] |= (uint8_t)(1 << m->ids[e] % 8);
  }
  d->items_seen = 0;
  for (size_t at = 0; at < bytes && status == FOPO_OK; at += BLOCK) {
    size_t n = bytes - at < BLOCK ? bytes - at : BLOCK;
    status = fopo_comm_gather(all, seen + at, n);
    for (size_t i = 0; i < n && status == FOPO_OK; i++) {
      unsigned any = 0;
      for (size_t r = 0; r < fopo_comm_ranks(); r++) any |= all[r * n + i];
      d->items_seen += (size_t)__builtin_popcount(any);
    }
  }
  fopo_free(seen);
  fopo_free(all);
  return status;
}

int fopo_ranks_build(fopo_dataset *d, fopo_pairs *p, const char *title) {
  size_t users = d->users.n, n = fopo_comm_own_share(&d->first_user, users);
  summary sum;
  int status = fopo_pairs_check_shape(title, users, d->items.n, d->rows_read);
  for (size_t i = 0; i < p->n; i++) p->user[i] -= (uint32_t)d->first_user;
  if (status == FOPO_OK) status = fopo_pairs_sort(d, p, n, d->items.n);
  if (status == FOPO_OK) status = fopo_dataset_check_values(d, title);
  status = fopo_comm_agree(status);
  if (status == FOPO_OK) status = add_up(d, &sum);
  if (status == FOPO_OK) status = fopo_comm_agree(complete(d, &sum));
  if (status == FOPO_OK) status = count_items(d);
  if (status != FOPO_OK) return status;
  d->users_seen = sum.users_seen;
  d->repeats = d->rows_read - sum.nnz;
  if (fopo_comm_ranks() == 1) return FOPO_OK; /* a whole one */
  d->all_users = users;
  d->all_nnz = sum.nnz;
  d->period[0] = sum.first;
  d->period[1] = sum.last;
  return FOPO_OK;
}
