/* From pairs to the matrix of a dataset. */
#include "data/read_internal.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"

void fopo_pairs_done(fopo_pairs *p) {
  fopo_free(p->user);
  fopo_free(p->item);
  fopo_free(p->value);
  *p = (fopo_pairs){0};
}

int fopo_pairs_grow(fopo_pairs *p) {
  size_t room = p->room == 0 ? 4096 : 2 * p->room;
  uint32_t *user = fopo_realloc(p->user, room, sizeof *user);
  if (user == NULL) return FOPO_ERR_MEMORY;
  p->user = user;
  uint32_t *item = fopo_realloc(p->item, room, sizeof *item);
  if (item == NULL) return FOPO_ERR_MEMORY;
  p->item = item;
  if (p->with_values) {
    float *value = fopo_realloc(p->value, room, sizeof *value);
    if (value == NULL) return FOPO_ERR_MEMORY;
    p->value = value;
  }
  p->room = room;
  return FOPO_OK;
}

int fopo_pairs_suffice(const char *path, double rows, int with_values) {
  /* While reading, the arrays are up to twice as long as needed; while sorting, the pairs, the
   * matrix and its transpose stand side by side. 12 or 8 bytes each, three times. */
  double bytes = rows * 3 * (with_values ? 12 : 8);
  return fopo_memory_suffices((uint64_t)bytes, path,
                              "read a part of the file, or on a machine with more memory");
}

static int finite_values(const fopo_csr *m, const char *path) {
  for (size_t r = 0; r < m->rows; r++)
    for (uint64_t e = m->indptr[r]; e < m->indptr[r + 1]; e++)
      if (!isfinite(m->values[e]))
        return fopo_fail(FOPO_ERR_NUMERIC, "%s: the value of user %zu, item %u is %g", path, r + 1,
                         m->ids[e] + 1, (double)m->values[e]);
  return FOPO_OK;
}

static int all_ones(const float *values, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (values[i] != 1.0f) return 0;
  return 1;
}

static int count_seen(fopo_dataset *d) {
  const fopo_csr *m = &d->matrix;
  uint8_t *seen = fopo_alloc(m->cols, 1);
  if (seen == NULL) return FOPO_ERR_MEMORY;
  size_t nnz = fopo_csr_nnz(m);
  for (size_t i = 0; i < nnz; i++) seen[m->ids[i]] = 1;
  d->items_seen = d->users_seen = 0;
  for (size_t c = 0; c < m->cols; c++) d->items_seen += seen[c];
  for (size_t r = 0; r < m->rows; r++) d->users_seen += fopo_csr_count(m, r) > 0;
  fopo_free(seen);
  return FOPO_OK;
}

int fopo_dataset_settle(fopo_dataset *d, const char *path) {
  fopo_csr *m = &d->matrix;
  if (m->values != NULL) {
    int status = finite_values(m, path);
    if (status != FOPO_OK) return status;
    if (all_ones(m->values, fopo_csr_nnz(m))) {
      fopo_free(m->values);
      m->values = NULL;
    }
  }
  return count_seen(d);
}

/* Pairs that count 1 each become counts where some stand more than once. */
static int build_counts(fopo_dataset *d, fopo_pairs *p, size_t users, size_t items) {
  fopo_free(p->value);
  p->value = NULL;
  int status = fopo_csr_from_pairs(&d->matrix, p->user, p->item, NULL, p->n, users, items,
                                   &d->repeats);
  if (status != FOPO_OK || d->repeats == 0) return status;
  fopo_csr_done(&d->matrix);
  p->value = fopo_alloc(p->n, sizeof *p->value);
  if (p->value == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < p->n; i++) p->value[i] = 1.0f;
  return fopo_csr_from_pairs(&d->matrix, p->user, p->item, p->value, p->n, users, items,
                             &d->repeats);
}

int fopo_pairs_build(fopo_dataset *d, fopo_pairs *p, size_t users, size_t items,
                     const char *path) {
  if (p->n == 0)
    return fopo_fail(FOPO_ERR_FORMAT, "%s holds no interaction%s", path,
                     d->skipped > 0 ? ": every row was left out" : "");
  d->rows_read = p->n;
  int ones = !p->with_values || all_ones(p->value, p->n);
  int status = ones ? build_counts(d, p, users, items)
                    : fopo_csr_from_pairs(&d->matrix, p->user, p->item, p->value, p->n, users,
                                          items, &d->repeats);
  fopo_pairs_done(p);
  return status == FOPO_OK ? fopo_dataset_settle(d, path) : status;
}
