/* scipy.sparse's .npz (CSR, CSC, COO), and this program's own cache (fopo_dataset_save), which is a
 * CSR file with more members. The arrays of a CSR file whose rows are sorted become the matrix
 * without a copy; everything else is sorted as pairs. */
#include "core/npz.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "data/pairs.h"
#include "data/read/readers.h"

enum { PARALLEL_FROM = 1 << 20 }; /* entries; fewer are checked by one thread */

typedef struct {
  const char *path; /* not owned */
  fopo_archive archive;
  size_t rows, cols;
  int use_values, use_times;
} reader;

static int need(fopo_array **a, reader *r, const char *name, fopo_dtype type, int ndim) {
  return fopo_archive_need(a, &r->archive, r->path, name, type, ndim);
}

static int read_shape(reader *r) {
  fopo_array *shape;
  int status = need(&shape, r, "shape", FOPO_U64, 1);
  if (status != FOPO_OK) return status;
  const uint64_t *n = shape->data;
  if (shape->shape[0] != 2 || n[0] >= UINT32_MAX || n[1] >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: its shape is not that of a matrix of at most %u rows "
                     "and columns",
                     r->path, UINT32_MAX - 1);
  }
  r->rows = (size_t)n[0];
  r->cols = (size_t)n[1];
  return fopo_memory_suffices(8 * (r->rows + r->cols), r->path, "it claims too many rows");
}

/* The values [n]; NULL if they are not used. */
static int read_values(reader *r, size_t n, fopo_array **values) {
  *values = NULL;
  if (!r->use_values) return FOPO_OK;
  int status = need(values, r, "data", FOPO_F32, 1);
  if (status != FOPO_OK || (*values)->shape[0] == n) return status;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: %zu values for %zu entries", r->path, (*values)->shape[0],
                   n);
}

/* One member of times [n], all finite; NULL if there is none. */
static int read_times(reader *r, const char *name, size_t n, fopo_array **times) {
  *times = NULL;
  if (!r->use_times || fopo_archive_find(&r->archive, name) == NULL) return FOPO_OK;
  fopo_array *a;
  int status = need(&a, r, name, FOPO_F64, 1);
  if (status != FOPO_OK) return status;
  if (a->shape[0] != n) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: %zu %s for %zu entries", r->path, a->shape[0], name, n);
  }
  const double *t = a->data;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(t[i])) {
      return fopo_fail(FOPO_ERR_NUMERIC, "%s: element %zu of '%s' is %g", r->path, i + 1, name,
                       t[i]);
    }
  }
  *times = a;
  return FOPO_OK;
}

/* The times of a matrix whose entries stay as they are. */
static int take_times(reader *r, fopo_dataset *d, size_t n) {
  fopo_array *first, *last;
  int status = read_times(r, "times", n, &first);
  if (status == FOPO_OK) status = read_times(r, "last_times", n, &last);
  if (status != FOPO_OK || first == NULL) return status;
  d->times.first = fopo_array_release(first);
  if (last == NULL) return FOPO_OK;
  d->times.last = fopo_array_release(last);
  for (size_t i = 0; i < n; i++) {
    if (d->times.last[i] >= d->times.first[i]) continue;
    return fopo_fail(FOPO_ERR_FORMAT, "%s: element %zu of 'last_times' is earlier than its time",
                     r->path, i + 1);
  }
  return FOPO_OK;
}

/* indptr must have rows + 1 elements, start at 0, ascend and end at n. */
static int check_starts(const reader *r, const fopo_array *indptr, size_t rows, size_t n) {
  const uint64_t *start = indptr->data;
  int wrong = indptr->shape[0] != rows + 1 || start[0] != 0 || start[rows] != n;
  for (size_t i = 0; i < rows && !wrong; i++) wrong = start[i] > start[i + 1];
  if (!wrong) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: indptr does not fit %zu rows and %zu entries", r->path,
                   rows, n);
}

/* 1 if every row ascends strictly and its last id is < cols; then all ids are. */
static int sorted_rows(const uint64_t *start, const uint32_t *ids, size_t rows, size_t cols) {
  int wrong = 0, threads = start[rows] > PARALLEL_FROM ? fopo_threads() : 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4096) reduction(| : wrong)
  for (size_t i = 0; i < rows; i++) {
    uint64_t end = start[i + 1];
    if (end == start[i]) continue;
    for (uint64_t e = start[i] + 1; e < end; e++) wrong |= ids[e - 1] >= ids[e];
    wrong |= ids[end - 1] >= cols;
  }
  return !wrong;
}

static int in_range(const reader *r, const uint32_t *ids, size_t n, size_t limit) {
  uint32_t largest = 0;
  for (size_t i = 0; i < n; i++) {
    if (ids[i] > largest) largest = ids[i];
  }
  if (n == 0 || largest < limit) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: an index is %u in a matrix of %zu rows and %zu columns",
                   r->path, largest, r->rows, r->cols);
}

/* Adds the times [n] of a matrix that is sorted as pairs. */
static int add_times(reader *r, fopo_pairs *p, size_t n) {
  fopo_array *times;
  int status = read_times(r, "times", n, &times);
  if (status != FOPO_OK || times == NULL) return status;
  p->with_times = 1;
  p->time = fopo_array_release(times);
  return FOPO_OK;
}

/* The dataset of the pairs, which are freed in any case. */
static int build(reader *r, fopo_dataset *d, fopo_pairs *p) {
  int status = add_times(r, p, p->n);
  if (status == FOPO_OK) status = fopo_pairs_build(d, p, r->rows, r->cols, r->path);
  fopo_pairs_done(p);
  return status;
}

/* [start[rows]]: the row of each entry of compressed rows; NULL: no memory. */
static uint32_t *expand(const uint64_t *start, size_t rows) {
  uint32_t *row = fopo_alloc((size_t)start[rows], sizeof *row);
  for (size_t i = 0; i < rows && row != NULL; i++) {
    for (uint64_t e = start[i]; e < start[i + 1]; e++) row[e] = (uint32_t)i;
  }
  return row;
}

static int read_compressed(reader *r, fopo_dataset *d, int by_columns) {
  fopo_array *indices, *indptr, *values;
  int status = need(&indices, r, "indices", FOPO_U32, 1);
  if (status == FOPO_OK) status = need(&indptr, r, "indptr", FOPO_U64, 1);
  if (status != FOPO_OK) return status;
  /* "major" is the compressed side: rows of CSR, columns of CSC. */
  size_t n = indices->shape[0], major = by_columns ? r->cols : r->rows;
  status = read_values(r, n, &values);
  if (status == FOPO_OK) status = check_starts(r, indptr, major, n);
  if (status != FOPO_OK) return status;
  /* Sorted CSR: its arrays become the matrix. */
  if (n > 0 && !by_columns && sorted_rows(indptr->data, indices->data, r->rows, r->cols)) {
    status = fopo_pairs_check_shape(r->path, r->rows, r->cols, n);
    if (status != FOPO_OK) return status;
    d->rows_read = n;
    d->matrix =
        (fopo_csr){r->rows, r->cols, fopo_array_release(indptr), fopo_array_release(indices),
                   values != NULL ? fopo_array_release(values) : NULL};
    status = take_times(r, d, n);
    return status == FOPO_OK ? fopo_dataset_finish(d, r->path) : status;
  }
  /* Anything else: as pairs, indptr expanded to one row (column) per entry. */
  status = in_range(r, indices->data, n, by_columns ? r->rows : r->cols);
  if (status != FOPO_OK) return status;
  uint32_t *expanded = expand(indptr->data, major);
  if (expanded == NULL) return FOPO_ERR_MEMORY;
  uint32_t *other = fopo_array_release(indices);
  fopo_pairs p = {.user = by_columns ? other : expanded,
                  .item = by_columns ? expanded : other,
                  .value = values != NULL ? fopo_array_release(values) : NULL,
                  .n = n,
                  .capacity = n,
                  .with_values = values != NULL};
  return build(r, d, &p);
}

static int read_coordinates(reader *r, fopo_dataset *d) {
  fopo_array *row, *col, *values;
  int status = need(&row, r, "row", FOPO_U32, 1);
  if (status == FOPO_OK) status = need(&col, r, "col", FOPO_U32, 1);
  if (status != FOPO_OK) return status;
  size_t n = row->shape[0];
  if (col->shape[0] != n) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: %zu rows and %zu columns of entries", r->path, n,
                     col->shape[0]);
  }
  status = read_values(r, n, &values);
  if (status == FOPO_OK) status = in_range(r, row->data, n, r->rows);
  if (status == FOPO_OK) status = in_range(r, col->data, n, r->cols);
  if (status != FOPO_OK) return status;
  fopo_pairs p = {.user = fopo_array_release(row),
                  .item = fopo_array_release(col),
                  .value = values != NULL ? fopo_array_release(values) : NULL,
                  .n = n,
                  .capacity = n,
                  .with_values = values != NULL};
  return build(r, d, &p);
}

/* ---- further members of the cache ---- */

/* The counts of a cache; 0 if there are none. check_counts sees them beside the matrix. */
static int read_counts(reader *r, fopo_dataset *d, const fopo_archive *counts) {
  fopo_array *a = fopo_archive_find(counts, "counts");
  if (a == NULL || a->type != FOPO_U64 || a->shape[0] < 6 || a->shape[0] > 7) return 0;
  const uint64_t *c = a->data;
  d->rows_read = (size_t)c[0];
  d->repeats = (size_t)c[1];
  d->skipped = (size_t)c[2];
  d->items_seen = (size_t)c[3];
  d->users_seen = (size_t)c[4];
  if (c[5] == 1) r->use_values = 0; /* all values are 1 */
  if (a->shape[0] == 7) d->malformed = (size_t)c[6];
  return 1;
}

static int check_counts(const reader *r, const fopo_dataset *d) {
  int fits = d->items_seen <= r->cols && d->users_seen <= r->rows && d->repeats <= d->rows_read &&
             d->rows_read - d->repeats == fopo_csr_nnz(&d->matrix);
  if (fits) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: its counts do not fit its matrix", r->path);
}

static int read_extras(reader *r, fopo_dataset *d) {
  int status = fopo_names_load(&d->users, &r->archive, r->path, "users", r->rows);
  if (status == FOPO_OK) {
    status = fopo_names_load(&d->items, &r->archive, r->path, "items", r->cols);
  }
  d->users.n = r->rows; /* without names in the file, too */
  d->items.n = r->cols;
  return status;
}

static int read_matrix(reader *r, fopo_dataset *d) {
  if (fopo_archive_find(&r->archive, "format") == NULL) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s is not a sparse matrix: scipy.sparse.save_npz writes one",
                     r->path);
  }
  fopo_array *format;
  int status = need(&format, r, "format", FOPO_BYTES, 0);
  if (status != FOPO_OK) return status;
  char name[8] = "";
  memcpy(name, format->data, format->itemsize < sizeof name ? format->itemsize : sizeof name - 1);
  status = read_shape(r);
  if (status != FOPO_OK) return status;
  if (strcmp(name, "csr") == 0) return read_compressed(r, d, 0);
  if (strcmp(name, "csc") == 0) return read_compressed(r, d, 1);
  if (strcmp(name, "coo") == 0) return read_coordinates(r, d);
  return fopo_fail(FOPO_ERR_FORMAT,
                   "%s holds a matrix in form '%s'; csr, csc and coo are read: "
                   "save its tocsr()",
                   r->path, name);
}

static int read_npz(fopo_dataset *d, const char *path, const fopo_read_options *o) {
  reader r = {.path = path, .use_values = o->value == NULL, .use_times = o->time == NULL};
  /* A cache without values stores ones for scipy; not reading them saves half the time. */
  static const char *const first[] = {"counts", NULL};
  static const char *const all_but_values[] = {
      "indices",    "indptr",        "row",        "col",           "format",
      "shape",      "users_numbers", "users_text", "users_offsets", "items_numbers",
      "items_text", "items_offsets", "times",      "last_times",    NULL};
  fopo_archive counts;
  int status = fopo_npz_load_some(&counts, path, first);
  if (status != FOPO_OK) return status;
  int is_cache = read_counts(&r, d, &counts);
  fopo_archive_done(&counts);
  size_t rows_read = d->rows_read, repeats = d->repeats;
  status = fopo_npz_load_some(&r.archive, path, r.use_values ? NULL : all_but_values);
  if (status == FOPO_OK) status = fopo_archive_check(&r.archive, path, "dataset");
  if (status == FOPO_OK) status = read_matrix(&r, d);
  if (is_cache) {
    d->rows_read = rows_read;
    d->repeats = repeats;
  }
  if (status == FOPO_OK) status = check_counts(&r, d);
  if (status == FOPO_OK) status = read_extras(&r, d);
  fopo_archive_done(&r.archive);
  return status;
}

const fopo_reader fopo_reader_npz = {.name = "npz",
                                     .what =
                                         "scipy's sparse CSR, CSC and COO, and what d:save wrote",
                                     .magic = "PK",
                                     .read_file = read_npz};
