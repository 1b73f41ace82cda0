/* One user's row of a dataset that is shared out, on every rank. */
#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/status.h"
#include "data/dataset.h"

static size_t owner_of(const fopo_dataset *d, size_t user) {
  size_t size = fopo_comm_ranks(), r = 0, first;
  while (r + 1 < size && user >= fopo_comm_share(&first, d->all_users, r, size) + first) r++;
  return r;
}

/* A matrix of one row of n entries, with the arrays that d has. */
static int reserve(fopo_dataset *row, const fopo_dataset *d, size_t n) {
  int status = fopo_csr_init(&row->matrix, 1, d->matrix.cols, n, d->matrix.values != NULL);
  if (status != FOPO_OK) return status;
  row->matrix.indptr[1] = n;
  if (d->times.first != NULL) row->times.first = fopo_alloc(n, sizeof *row->times.first);
  if (d->times.last != NULL) row->times.last = fopo_alloc(n, sizeof *row->times.last);
  int missing = (d->times.first != NULL && row->times.first == NULL) ||
                (d->times.last != NULL && row->times.last == NULL);
  return missing ? FOPO_ERR_MEMORY : FOPO_OK;
}

/* to [n] = from[at ..] of rank r, on every rank; to NULL: there is no such array. */
static int send(void *to, const void *from, size_t at, size_t n, size_t width, size_t r) {
  if (to == NULL) return FOPO_OK;
  if (fopo_comm_own_rank() == r) memcpy(to, (const char *)from + at * width, n * width);
  return fopo_comm_broadcast(to, n * width, r);
}

static int fetch(fopo_dataset *row, const fopo_dataset *d, size_t user) {
  const fopo_csr *m = &d->matrix, *to = &row->matrix;
  size_t r = owner_of(d, user);
  int mine = fopo_comm_own_rank() == r;
  size_t n = mine ? fopo_csr_count(m, user - d->first_user) : 0;
  size_t at = mine ? (size_t)m->indptr[user - d->first_user] : 0;
  int status = fopo_comm_broadcast(&n, sizeof n, r);
  if (status == FOPO_OK) status = fopo_comm_agree(reserve(row, d, n));
  if (status == FOPO_OK) status = send(to->ids, m->ids, at, n, sizeof *m->ids, r);
  if (status == FOPO_OK) status = send(to->values, m->values, at, n, sizeof *m->values, r);
  if (status == FOPO_OK) status = send(row->times.first, d->times.first, at, n, sizeof(double), r);
  return status == FOPO_OK ? send(row->times.last, d->times.last, at, n, sizeof(double), r)
                           : status;
}

int fopo_dataset_fetch(fopo_dataset **row, const fopo_dataset *d, size_t user) {
  fopo_dataset *fresh = fopo_alloc(1, sizeof *fresh);
  int status = fopo_comm_agree(fresh != NULL ? FOPO_OK : FOPO_ERR_MEMORY);
  if (status == FOPO_OK) status = fetch(fresh, d, user);
  if (status != FOPO_OK) fopo_dataset_free(fresh);
  *row = status == FOPO_OK ? fresh : NULL;
  return status;
}
