#include "ranks/dataset.h"

#include <string.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/status.h"

/* ---- shares ---- */

/* *to becomes a copy of from [begin .. begin + n - 1], if there is `from`. */
static int copy_times(double **to, const double *from, size_t begin, size_t n) {
  if (from == NULL) return FOPO_OK;
  *to = fopo_alloc(n, sizeof **to);
  if (*to == NULL) return FOPO_ERR_MEMORY;
  memcpy(*to, from + begin, n * sizeof **to);
  return FOPO_OK;
}

/* Users first .. first + n - 1 of the matrix, and their times. */
static int copy_users(fopo_dataset *to, const fopo_dataset *d, size_t first, size_t n) {
  const fopo_csr some = fopo_csr_rows(&d->matrix, first, n);
  size_t begin = (size_t)some.indptr[0], nnz = (size_t)some.indptr[n] - begin;
  int status = fopo_csr_copy(&to->matrix, &some);
  if (status == FOPO_OK) status = copy_times(&to->times.first, d->times.first, begin, nnz);
  return status == FOPO_OK ? copy_times(&to->times.last, d->times.last, begin, nnz) : status;
}

int fopo_dataset_share(fopo_dataset **share, const fopo_dataset *d) {
  if (d->all_users > 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the dataset is shared out to the ranks already");
  }
  fopo_dataset *to = fopo_alloc(1, sizeof *to);
  if (to == NULL) return FOPO_ERR_MEMORY;
  *to = *d; /* the counts; what it owns follows */
  to->matrix = (fopo_csr){0};
  to->times = (fopo_csr_times){0};
  to->users = to->items = (fopo_names){0};
  to->all_users = d->matrix.rows;
  to->all_nnz = fopo_csr_nnz(&d->matrix);
  fopo_dataset_period(&to->period[0], &to->period[1], d);
  size_t n = fopo_comm_own_share(&to->first_user, to->all_users);
  int status = copy_users(to, d, to->first_user, n);
  if (status == FOPO_OK) status = fopo_names_copy(&to->users, &d->users);
  if (status == FOPO_OK) status = fopo_names_copy(&to->items, &d->items);
  if (status == FOPO_OK) {
    *share = to;
  } else {
    fopo_dataset_free(to);
  }
  return status;
}

/* ---- one row on every rank ---- */

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
  size_t r = fopo_comm_owner(user, d->all_users);
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
