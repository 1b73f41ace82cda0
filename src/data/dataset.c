/* Freeing and saving a dataset. */
#include "data/dataset.h"

#include <zlib.h>

#include "core/memory.h"
#include "core/npz.h"
#include "core/status.h"

void fopo_dataset_free(fopo_dataset *d) {
  if (d == NULL) return;
  fopo_csr_done(&d->matrix);
  fopo_free(d->times.first);
  fopo_free(d->times.last);
  fopo_names_done(&d->users);
  fopo_names_done(&d->items);
  fopo_free(d);
}

void fopo_dataset_idle(const fopo_dataset *d) {
  fopo_map_idle(d->matrix.ids);
  fopo_map_idle(d->matrix.values);
  fopo_map_idle(d->times.first);
  fopo_map_idle(d->times.last);
}

int fopo_dataset_period(double *first, double *last, const fopo_dataset *d) {
  size_t nnz = fopo_csr_nnz(&d->matrix);
  const double *early = d->times.first, *late = d->times.last != NULL ? d->times.last : early;
  if (early == NULL || fopo_dataset_nnz(d) == 0) return 0;
  if (d->all_users > 0) {
    *first = d->period[0];
    *last = d->period[1];
    return 1;
  }
  *first = early[0];
  *last = late[0];
  for (size_t e = 1; e < nnz; e++) {
    if (early[e] < *first) *first = early[e];
    if (late[e] > *last) *last = late[e];
  }
  return 1;
}

/* scipy needs signed indices. Up to 2^31 columns these are the same bits; wider matrices need a
 * copy, *fresh. */
static int signed_ids(fopo_array *out, int64_t **fresh, const fopo_csr *m) {
  size_t nnz = fopo_csr_nnz(m);
  *out = fopo_array_of("indices", FOPO_I32, m->ids, 1, nnz, 1);
  if (m->cols <= (size_t)INT32_MAX + 1) return FOPO_OK;
  *fresh = fopo_alloc(nnz, sizeof **fresh);
  if (*fresh == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < nnz; i++) (*fresh)[i] = m->ids[i];
  *out = fopo_array_of("indices", FOPO_I64, *fresh, 1, nnz, 1);
  return FOPO_OK;
}

/* The values, or a fresh array of ones, since scipy needs values; NULL: no memory. */
static const float *values_or_ones(float **fresh, const fopo_csr *m) {
  if (m->values != NULL) return m->values;
  size_t nnz = fopo_csr_nnz(m);
  *fresh = fopo_alloc(nnz, sizeof **fresh);
  for (size_t i = 0; i < nnz && *fresh != NULL; i++) (*fresh)[i] = 1.0f;
  return *fresh;
}

/* Describes the members times and last_times, if there are any; returns how many. */
static size_t time_members(fopo_array *out, const fopo_dataset *d) {
  size_t n = 0, nnz = fopo_csr_nnz(&d->matrix);
  if (d->times.first != NULL) {
    out[n++] = fopo_array_of("times", FOPO_F64, d->times.first, 1, nnz, 1);
  }
  if (d->times.last != NULL) {
    out[n++] = fopo_array_of("last_times", FOPO_F64, d->times.last, 1, nnz, 1);
  }
  return n;
}

uint32_t fopo_dataset_crc(const fopo_dataset *d) {
  const fopo_csr *m = &d->matrix;
  size_t nnz = fopo_csr_nnz(m);
  uLong crc = crc32_z(0, (const Bytef *)m->indptr, (m->rows + 1) * sizeof *m->indptr);
  crc = crc32_z(crc, (const Bytef *)m->ids, nnz * sizeof *m->ids);
  if (m->values != NULL) crc = crc32_z(crc, (const Bytef *)m->values, nnz * sizeof *m->values);
  return (uint32_t)crc;
}

int fopo_dataset_save(const fopo_dataset *d, const char *path) {
  const fopo_csr *m = &d->matrix;
  int64_t shape[2] = {(int64_t)m->rows, (int64_t)m->cols}, *wide = NULL;
  uint64_t counts[7] = {d->rows_read,  d->repeats,        d->skipped,  d->items_seen,
                        d->users_seen, m->values == NULL, d->malformed};
  float *ones = NULL;
  fopo_array a[12];
  int status = fopo_memory_suffices(m->values == NULL ? 4 * (uint64_t)fopo_csr_nnz(m) : 0, path,
                                    "free objects first");
  if (status == FOPO_OK) status = signed_ids(&a[0], &wide, m);
  const float *values = status == FOPO_OK ? values_or_ones(&ones, m) : NULL;
  if (values != NULL) {
    a[1] = fopo_array_of("indptr", FOPO_I64, m->indptr, 1, m->rows + 1, 1);
    a[2] = fopo_array_text("format", "csr");
    a[3] = fopo_array_of("shape", FOPO_I64, shape, 1, 2, 1);
    a[4] = fopo_array_of("data", FOPO_F32, values, 1, fopo_csr_nnz(m), 1);
    a[5] = fopo_array_of("counts", FOPO_U64, counts, 1, 7, 1);
    size_t n = 6 + fopo_names_members(a + 6, &d->users, "users");
    n += fopo_names_members(a + n, &d->items, "items");
    n += time_members(a + n, d);
    status = fopo_npz_save(path, a, n, 0);
  } else if (status == FOPO_OK) {
    status = FOPO_ERR_MEMORY;
  }
  fopo_free(wide);
  fopo_free(ones);
  return status;
}
