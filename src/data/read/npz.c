/* scipy.sparse's .npz (CSR, CSC, COO), and this program's own cache, which is a CSR file with more
 * members. A CSR file whose rows are sorted is used as it lies in memory; everything else goes
 * through the sorting of pairs. */
#include "core/npz.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"
#include "data/read/internal.h"

enum { SHARED = 1 << 20 }; /* entries from which several threads look at them */

typedef struct {
  const char *path; /* not owned */
  fopo_archive archive;
  size_t rows, cols;
  int use_values;
} reader;

static fopo_array *need(reader *r, const char *name, fopo_dtype type, int ndim) {
  return fopo_archive_need(&r->archive, r->path, name, type, ndim);
}

/* The array's block becomes the caller's. */
static void *steal(fopo_array *a) {
  void *data = a->data;
  a->data = NULL;
  return data;
}

static int read_shape(reader *r) {
  fopo_array *shape = need(r, "shape", FOPO_U64, 1);
  if (shape == NULL) return FOPO_ERR_FORMAT;
  const uint64_t *n = shape->data;
  if (shape->shape[0] != 2 || n[0] >= UINT32_MAX || n[1] >= UINT32_MAX)
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s: its shape is not that of a matrix of at most %u rows "
                     "and columns",
                     r->path, UINT32_MAX - 1);
  r->rows = (size_t)n[0];
  r->cols = (size_t)n[1];
  return fopo_memory_suffices(8 * (r->rows + r->cols), r->path, "it claims too many rows");
}

/* The values, [n], or *values NULL where they are not wanted. */
static int read_values(reader *r, size_t n, fopo_array **values) {
  *values = NULL;
  if (!r->use_values) return FOPO_OK;
  *values = need(r, "data", FOPO_F32, 1);
  if (*values == NULL) return FOPO_ERR_FORMAT;
  if ((*values)->shape[0] == n) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: %zu values for %zu entries", r->path, (*values)->shape[0],
                   n);
}

/* indptr starts at 0, ascends and ends at n, for `rows` rows. */
static int check_starts(const reader *r, const fopo_array *indptr, size_t rows, size_t n) {
  const uint64_t *start = indptr->data;
  int wrong = indptr->shape[0] != rows + 1 || start[0] != 0 || start[rows] != n;
  for (size_t i = 0; i < rows && !wrong; i++) wrong = start[i] > start[i + 1];
  if (!wrong) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: indptr does not fit %zu rows and %zu entries", r->path,
                   rows, n);
}

/* Every row ascends and ends below cols; so all of it is in range. */
static int sorted_rows(const uint64_t *start, const uint32_t *ids, size_t rows, size_t cols) {
  int wrong = 0, threads = start[rows] > SHARED ? fopo_threads() : 1;
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
  for (size_t i = 0; i < n; i++)
    if (ids[i] > largest) largest = ids[i];
  if (n == 0 || largest < limit) return FOPO_OK;
  return fopo_fail(FOPO_ERR_FORMAT, "%s: an index is %u in a matrix of %zu rows and %zu columns",
                   r->path, largest, r->rows, r->cols);
}

static int build(reader *r, fopo_dataset *d, fopo_pairs *p) {
  int status = fopo_pairs_build(d, p, r->rows, r->cols, r->path);
  fopo_pairs_done(p);
  return status;
}

/* Row i of each entry of compressed rows. */
static uint32_t *expand(const uint64_t *start, size_t rows) {
  uint32_t *row = fopo_alloc((size_t)start[rows], sizeof *row);
  for (size_t i = 0; i < rows && row != NULL; i++)
    for (uint64_t e = start[i]; e < start[i + 1]; e++) row[e] = (uint32_t)i;
  return row;
}

static int read_compressed(reader *r, fopo_dataset *d, int by_columns) {
  fopo_array *indices = need(r, "indices", FOPO_U32, 1), *values;
  fopo_array *indptr = indices != NULL ? need(r, "indptr", FOPO_U64, 1) : NULL;
  if (indptr == NULL) return FOPO_ERR_FORMAT;
  size_t n = indices->shape[0], major = by_columns ? r->cols : r->rows;
  int status = read_values(r, n, &values);
  if (status == FOPO_OK) status = check_starts(r, indptr, major, n);
  if (status != FOPO_OK) return status;
  if (n > 0 && !by_columns && sorted_rows(indptr->data, indices->data, r->rows, r->cols)) {
    status = fopo_read_plausible(r->path, r->rows, r->cols, n);
    if (status != FOPO_OK) return status;
    d->rows_read = n;
    d->matrix = (fopo_csr){r->rows, r->cols, steal(indptr), steal(indices),
                           values != NULL ? steal(values) : NULL};
    return fopo_dataset_settle(d, r->path);
  }
  status = in_range(r, indices->data, n, by_columns ? r->rows : r->cols);
  if (status != FOPO_OK) return status;
  uint32_t *expanded = expand(indptr->data, major);
  if (expanded == NULL) return FOPO_ERR_MEMORY;
  uint32_t *other = steal(indices);
  fopo_pairs p = {.user = by_columns ? other : expanded,
                  .item = by_columns ? expanded : other,
                  .value = values != NULL ? steal(values) : NULL,
                  .n = n,
                  .room = n,
                  .with_values = values != NULL};
  return build(r, d, &p);
}

static int read_coordinates(reader *r, fopo_dataset *d) {
  fopo_array *row = need(r, "row", FOPO_U32, 1), *values;
  fopo_array *col = row != NULL ? need(r, "col", FOPO_U32, 1) : NULL;
  if (col == NULL) return FOPO_ERR_FORMAT;
  size_t n = row->shape[0];
  if (col->shape[0] != n)
    return fopo_fail(FOPO_ERR_FORMAT, "%s: %zu rows and %zu columns of entries", r->path, n,
                     col->shape[0]);
  int status = read_values(r, n, &values);
  if (status == FOPO_OK) status = in_range(r, row->data, n, r->rows);
  if (status == FOPO_OK) status = in_range(r, col->data, n, r->cols);
  if (status != FOPO_OK) return status;
  fopo_pairs p = {.user = steal(row),
                  .item = steal(col),
                  .value = values != NULL ? steal(values) : NULL,
                  .n = n,
                  .room = n,
                  .with_values = values != NULL};
  return build(r, d, &p);
}

/* ---- what the cache has beside the matrix ---- */

static int bad_names(const reader *r, const char *side) {
  return fopo_fail(FOPO_ERR_FORMAT, "%s: the names of its %s do not fit", r->path, side);
}

/* "users" or "items": SIDE_numbers, or SIDE_text with SIDE_offsets, or neither. */
static int read_names(reader *r, fopo_names *names, const char *side, size_t n) {
  char member[3][32];
  static const char *const ends[] = {"numbers", "text", "offsets"};
  for (int i = 0; i < 3; i++) snprintf(member[i], sizeof member[i], "%s_%s", side, ends[i]);
  names->n = n;
  if (fopo_archive_find(&r->archive, member[0]) != NULL) {
    fopo_array *numbers = need(r, member[0], FOPO_I64, 1);
    if (numbers == NULL) return FOPO_ERR_FORMAT;
    if (numbers->shape[0] != n) return bad_names(r, side);
    names->numbers = steal(numbers);
    return FOPO_OK;
  }
  if (fopo_archive_find(&r->archive, member[1]) == NULL) return FOPO_OK;
  fopo_array *text = need(r, member[1], FOPO_U8, 1);
  fopo_array *offsets = text != NULL ? need(r, member[2], FOPO_U64, 1) : NULL;
  if (offsets == NULL) return FOPO_ERR_FORMAT;
  const uint64_t *at = offsets->data;
  const char *bytes = text->data;
  if (offsets->shape[0] != n + 1 || at[0] != 0 || at[n] != text->shape[0])
    return bad_names(r, side);
  for (size_t i = 0; i < n; i++) /* each name is one C string */
    if (at[i] >= at[i + 1] || at[i + 1] > text->shape[0] ||
        strnlen(bytes + at[i], (size_t)(at[i + 1] - at[i])) + 1 != at[i + 1] - at[i])
      return bad_names(r, side);
  names->text = steal(text);
  names->offsets = steal(offsets);
  return FOPO_OK;
}

/* The counts of a cache, taken as they are where they can be true. 0: there are none. */
static int read_counts(reader *r, fopo_dataset *d, const fopo_archive *counts) {
  fopo_array *a = fopo_archive_find(counts, "counts");
  if (a == NULL || a->type != FOPO_U64 || a->shape[0] != 6) return 0;
  const uint64_t *c = a->data;
  d->rows_read = (size_t)c[0];
  d->repeats = (size_t)c[1];
  d->skipped = (size_t)c[2];
  d->items_seen = (size_t)c[3];
  d->users_seen = (size_t)c[4];
  if (c[5] == 1) r->use_values = 0; /* all values are 1 */
  return 1;
}

static int read_extras(reader *r, fopo_dataset *d) {
  d->users.n = r->rows;
  d->items.n = r->cols;
  snprintf(d->format, sizeof d->format, "npz");
  if (d->items_seen > r->cols || d->users_seen > r->rows)
    return fopo_fail(FOPO_ERR_FORMAT, "%s: its counts do not fit its matrix", r->path);
  int status = read_names(r, &d->users, "users", r->rows);
  return status == FOPO_OK ? read_names(r, &d->items, "items", r->cols) : status;
}

static int read_matrix(reader *r, fopo_dataset *d) {
  fopo_array *format = need(r, "format", FOPO_BYTES, 0);
  if (format == NULL) {
    if (fopo_archive_find(&r->archive, "format") != NULL) return FOPO_ERR_FORMAT;
    return fopo_fail(FOPO_ERR_FORMAT, "%s is no sparse matrix: scipy.sparse.save_npz writes one",
                     r->path);
  }
  char name[8] = "";
  memcpy(name, format->data, format->itemsize < sizeof name ? format->itemsize : sizeof name - 1);
  int status = read_shape(r);
  if (status != FOPO_OK) return status;
  if (strcmp(name, "csr") == 0) return read_compressed(r, d, 0);
  if (strcmp(name, "csc") == 0) return read_compressed(r, d, 1);
  if (strcmp(name, "coo") == 0) return read_coordinates(r, d);
  return fopo_fail(FOPO_ERR_FORMAT,
                   "%s holds a matrix in form '%s'; csr, csc and coo are read: "
                   "save its tocsr()",
                   r->path, name);
}

int fopo_read_npz(fopo_dataset *d, const char *path, const fopo_read_options *o) {
  if (o->user != NULL || o->item != NULL || o->where != NULL || o->header != 0 ||
      o->separator != 0 || (o->value != NULL && *o->value != '\0'))
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%s is .npz: of the options on columns it has only "
                     "value = \"\" (use no values)",
                     path);
  reader r = {.path = path, .use_values = o->value == NULL};
  /* Values that a cache declares to be 1 are there for scipy; leaving them saves half the time. */
  static const char *const first[] = {"counts", NULL};
  static const char *const all_but_values[] = {
      "indices",    "indptr",        "row",        "col",           "format",
      "shape",      "users_numbers", "users_text", "users_offsets", "items_numbers",
      "items_text", "items_offsets", NULL};
  fopo_archive counts;
  int status = fopo_npz_load_some(&counts, path, first);
  if (status != FOPO_OK) return status;
  int is_cache = read_counts(&r, d, &counts);
  fopo_archive_done(&counts);
  size_t rows_read = d->rows_read, repeats = d->repeats;
  status = fopo_npz_load_some(&r.archive, path, r.use_values ? NULL : all_but_values);
  if (status == FOPO_OK) status = read_matrix(&r, d);
  if (status == FOPO_OK) status = read_extras(&r, d);
  if (is_cache) {
    d->rows_read = rows_read;
    d->repeats = repeats;
  }
  fopo_archive_done(&r.archive);
  return status;
}
