/* Sparse rows: building by counting, transposing, and the product with a dense matrix.
 *
 * Counting sort in two passes: entries go to their columns first, then, column by column, to their
 * rows; so the columns of a row arrive in order, and pairs that repeat arrive side by side in the
 * order in which they were given. */
#include "core/csr.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"

#include <math.h>
#include <string.h>

enum {
  POLL = 1 << 20,      /* entries between two looks at the interrupt flag: a few milliseconds */
  TILE_WORK = 1 << 18, /* multiply-adds that a thread takes at a time */
  AHEAD = 8            /* entries between the request for a row of B and its use */
};
#define SORTING "sorting a sparse matrix"
#define MOST_COLS ((size_t)UINT32_MAX)
#define LONG (256.0 * 1024 * 1024) /* multiply-adds from which a product looks for Ctrl-C */

int fopo_csr_init(fopo_csr *m, size_t rows, size_t cols, size_t nnz, int with_values) {
  *m = (fopo_csr){0};
  if (cols > MOST_COLS || rows >= SIZE_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a sparse matrix of %zu columns is too wide; use at most %zu", cols,
                     MOST_COLS);
  }
  m->rows = rows;
  m->cols = cols;
  m->indptr = fopo_alloc(rows + 1, sizeof *m->indptr);
  m->ids = m->indptr == NULL ? NULL : fopo_alloc(nnz, sizeof *m->ids);
  if (m->ids != NULL && with_values) m->values = fopo_alloc(nnz, sizeof *m->values);
  if (m->ids == NULL || (with_values && m->values == NULL)) {
    fopo_csr_done(m);
    return FOPO_ERR_MEMORY;
  }
  return FOPO_OK;
}

void fopo_csr_done(fopo_csr *m) {
  fopo_free(m->indptr);
  fopo_free(m->ids);
  fopo_free(m->values);
  *m = (fopo_csr){0};
}

/* ---- building ---- */

/* Counts in start[1 ..] become positions: start[i] is where i begins. */
static void positions(uint64_t *start, size_t n) {
  for (size_t i = 0; i < n; i++) start[i + 1] += start[i];
}

/* Every start has been moved to the end of its run: moves all one place on. */
static void starts_again(uint64_t *start, size_t n) {
  memmove(start + 1, start, n * sizeof *start);
  start[0] = 0;
}

/* Looks for Ctrl-C now and then. */
static int poll(size_t i) {
  if (i % POLL != 0 || !fopo_interrupted()) return FOPO_OK;
  return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while " SORTING);
}

static int check_pairs(const uint32_t *row, const uint32_t *col, size_t n, size_t rows,
                       size_t cols) {
  for (size_t i = 0; i < n; i++) {
    if (row[i] >= rows || col[i] >= cols) {
      return fopo_fail(FOPO_ERR_ARGUMENT,
                       "pair %zu is (%u, %u), outside a matrix of %zu rows and %zu columns", i + 1,
                       row[i], col[i], rows, cols);
    }
    if (poll(i) != FOPO_OK) return FOPO_ERR_INTERRUPTED;
  }
  return FOPO_OK;
}

/* Into counts[1 ..]: how often each id occurs. */
static int count_ids(uint64_t *counts, const uint32_t *ids, size_t n) {
  for (size_t i = 0; i < n; i++) {
    counts[ids[i] + (size_t)1]++;
    if (poll(i) != FOPO_OK) return FOPO_ERR_INTERRUPTED;
  }
  return FOPO_OK;
}

/* The first pass: pairs into the rows of *by_col, a row per column. */
static int bucket(fopo_csr *by_col, const uint32_t *row, const uint32_t *col, const float *values,
                  size_t n) {
  if (count_ids(by_col->indptr, col, n) != FOPO_OK) return FOPO_ERR_INTERRUPTED;
  positions(by_col->indptr, by_col->rows);
  for (size_t i = 0; i < n; i++) {
    uint64_t to = by_col->indptr[col[i]]++;
    by_col->ids[to] = row[i];
    if (values != NULL) by_col->values[to] = values[i];
    if (poll(i) != FOPO_OK) return FOPO_ERR_INTERRUPTED;
  }
  starts_again(by_col->indptr, by_col->rows);
  return FOPO_OK;
}

/* Moves the entries of `by_col` (a row per column) into the rows of *m, columns ascending.
 * m->indptr holds counts in [1 ..] when called. On return indptr[r] is where row r begins. */
static int scatter(fopo_csr *m, const fopo_csr *by_col) {
  uint64_t total = by_col->indptr[by_col->rows], next = POLL;
  int status = FOPO_OK;
  positions(m->indptr, m->rows);
  for (size_t c = 0; c < by_col->rows && status == FOPO_OK; c++) {
    uint64_t end = by_col->indptr[c + 1];
    for (uint64_t e = by_col->indptr[c]; e < end; e++) {
      uint64_t to = m->indptr[by_col->ids[e]]++;
      m->ids[to] = (uint32_t)c;
      if (m->values != NULL) m->values[to] = by_col->values[e];
    }
    if (end < next) continue;
    next = end + POLL;
    status = fopo_progress(SORTING, (double)end, (double)total + 1);
  }
  starts_again(m->indptr, m->rows);
  return status == FOPO_OK && total >= POLL ? fopo_progress(SORTING, 1, 1) : status;
}

/* Sums or drops entries that repeat; returns how many there were. */
static size_t merge_repeats(fopo_csr *m) {
  uint64_t to = 0, first = 0;
  size_t nnz = fopo_csr_nnz(m);
  for (size_t r = 0; r < m->rows; r++) {
    uint64_t end = m->indptr[r + 1], begin = to;
    for (uint64_t e = first; e < end; e++) {
      if (to > begin && m->ids[to - 1] == m->ids[e]) {
        if (m->values != NULL) m->values[to - 1] += m->values[e];
        continue;
      }
      m->ids[to] = m->ids[e];
      if (m->values != NULL) m->values[to] = m->values[e];
      to++;
    }
    first = end;
    m->indptr[r + 1] = to;
  }
  return nnz - (size_t)to;
}

static int shrink(fopo_csr *m) {
  size_t nnz = fopo_csr_nnz(m);
  uint32_t *ids = fopo_realloc(m->ids, nnz, sizeof *ids);
  if (ids == NULL) return FOPO_ERR_MEMORY;
  m->ids = ids;
  if (m->values == NULL) return FOPO_OK;
  float *values = fopo_realloc(m->values, nnz, sizeof *values);
  if (values == NULL) return FOPO_ERR_MEMORY;
  m->values = values;
  return FOPO_OK;
}

int fopo_csr_from_pairs(fopo_csr *m, const uint32_t *row, const uint32_t *col, const float *values,
                        size_t n, size_t rows, size_t cols, size_t *repeats) {
  *m = (fopo_csr){0};
  fopo_csr by_col = {0};
  int status = check_pairs(row, col, n, rows, cols);
  if (status != FOPO_OK) return status;
  uint64_t entry = sizeof(uint32_t) + (values == NULL ? 0 : sizeof(float));
  uint64_t bytes = 2 * n * entry + (rows + cols) * sizeof(uint64_t);
  status = fopo_memory_suffices(bytes, "building a sparse matrix", "use fewer users or items");
  if (status == FOPO_OK) status = fopo_csr_init(&by_col, cols, rows, n, values != NULL);
  if (status == FOPO_OK) status = fopo_csr_init(m, rows, cols, n, values != NULL);
  if (status != FOPO_OK) goto out;

  status = bucket(&by_col, row, col, values, n);
  if (status == FOPO_OK) status = count_ids(m->indptr, row, n);
  if (status == FOPO_OK) status = scatter(m, &by_col);
  if (status != FOPO_OK) goto out;
  fopo_csr_done(&by_col);
  *repeats = merge_repeats(m);
  if (*repeats > 0) status = shrink(m);
out:
  fopo_csr_done(&by_col);
  if (status != FOPO_OK) fopo_csr_done(m);
  return status;
}

int fopo_csr_transpose(fopo_csr *t, const fopo_csr *m) {
  size_t nnz = fopo_csr_nnz(m);
  int status = fopo_csr_init(t, m->cols, m->rows, nnz, m->values != NULL);
  if (status != FOPO_OK) return status;
  status = count_ids(t->indptr, m->ids, nnz);
  if (status == FOPO_OK) status = scatter(t, m);
  if (status != FOPO_OK) fopo_csr_done(t);
  return status;
}

int fopo_csr_contains(const fopo_csr *m, size_t row, uint32_t id) {
  const uint32_t *ids = fopo_csr_row(m, row);
  size_t low = 0, high = fopo_csr_count(m, row);
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (ids[middle] < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < fopo_csr_count(m, row) && ids[low] == id;
}

/* ---- the product ---- */

/* c += the four rows of B, weighted; always summed in the order of the entries. */
static void add_four(float *restrict c, const float *b0, const float *b1, const float *b2,
                     const float *b3, const float *w, size_t n) {
  float w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
#pragma omp simd
  for (size_t j = 0; j < n; j++) c[j] = c[j] + w0 * b0[j] + w1 * b1[j] + w2 * b2[j] + w3 * b3[j];
}

static void add_one(float *restrict c, const float *b, float w, size_t n) {
#pragma omp simd
  for (size_t j = 0; j < n; j++) c[j] = c[j] + w * b[j];
}

/* Asks for a row of B before it is needed: rows are scattered, and the processor cannot guess. */
static void prefetch(const float *b, size_t n) {
  for (size_t j = 0; j < n; j += 16) __builtin_prefetch(b + j);
}

/* One row of C: c = sum over entries of value * B[id]. `last` entries are in the whole matrix. */
static void row_times_dense(float *c, const fopo_csr *m, size_t row, fopo_matrix B, uint64_t last) {
  static const float ones[4] = {1, 1, 1, 1};
  uint64_t e = m->indptr[row], end = m->indptr[row + 1];
  memset(c, 0, B.cols * sizeof *c);
  for (uint64_t step; e < end; e += step) {
    step = end - e >= 4 ? 4 : 1;
    for (uint64_t ahead = e + AHEAD; ahead < e + AHEAD + step && ahead < last; ahead++) {
      prefetch(fopo_matrix_row(B, m->ids[ahead]), B.cols);
    }
    const uint32_t *ids = m->ids + e;
    const float *values = m->values == NULL ? ones : m->values + e;
    if (step == 4) {
      add_four(c, fopo_matrix_row(B, ids[0]), fopo_matrix_row(B, ids[1]),
               fopo_matrix_row(B, ids[2]), fopo_matrix_row(B, ids[3]), values, B.cols);
    } else {
      add_one(c, fopo_matrix_row(B, ids[0]), values[0], B.cols);
    }
  }
}

int fopo_csr_times_dense(fopo_matrix C, const fopo_csr *m, fopo_matrix B) {
  if (B.rows != m->cols || C.rows != m->rows || C.cols != B.cols) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a sparse [%zu, %zu] times [%zu, %zu] does not fit in [%zu, %zu]", m->rows,
                     m->cols, B.rows, B.cols, C.rows, C.cols);
  }
  if (m->rows == 0) return FOPO_OK;
  double work = (double)(m->indptr[m->rows] - m->indptr[0] + m->rows) * (double)B.cols;
  size_t tiles = (size_t)(work / TILE_WORK) + 1;
  if (tiles > m->rows) tiles = m->rows;
  size_t size = (m->rows + tiles - 1) / tiles;
  int stopped = 0, interruptible = work > LONG;
  int threads = tiles > 1 ? fopo_threads() : 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(| : stopped)
  for (size_t t = 0; t < tiles; t++) {
    size_t end = (t + 1) * size < m->rows ? (t + 1) * size : m->rows;
    for (size_t r = t * size; r < end && !stopped; r++) {
      row_times_dense(fopo_matrix_row(C, r), m, r, B, m->indptr[m->rows]);
    }
    if (interruptible) stopped |= fopo_interrupted();
  }
  return stopped ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while multiplying") : FOPO_OK;
}

/* ---- checks ---- */

static int check_row(const fopo_csr *m, size_t row, const char *what) {
  const uint32_t *ids = fopo_csr_row(m, row);
  size_t count = fopo_csr_count(m, row);
  for (size_t e = 0; e < count; e++) {
    if (ids[e] >= m->cols) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s: row %zu has column %u of %zu", what, row + 1,
                       ids[e] + 1, m->cols);
    }
    if (e > 0 && ids[e] <= ids[e - 1]) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s: the columns of row %zu do not ascend (%u after %u)",
                       what, row + 1, ids[e] + 1, ids[e - 1] + 1);
    }
    if (m->values != NULL && !isfinite(m->values[m->indptr[row] + e])) {
      return fopo_fail(FOPO_ERR_NUMERIC, "%s: the value at row %zu, column %u is %g", what, row + 1,
                       ids[e] + 1, (double)m->values[m->indptr[row] + e]);
    }
  }
  return FOPO_OK;
}

int fopo_csr_check(const fopo_csr *m, size_t nnz, const char *what) {
  if (m->indptr[0] != 0 || m->indptr[m->rows] != nnz) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: rows run from %llu to %llu, not from 0 to %zu", what,
                     (unsigned long long)m->indptr[0], (unsigned long long)m->indptr[m->rows], nnz);
  }
  for (size_t r = 0; r < m->rows; r++) {
    if (m->indptr[r + 1] < m->indptr[r] || m->indptr[r + 1] > nnz) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s: row %zu ends at entry %llu but begins at %llu of %zu",
                       what, r + 1, (unsigned long long)m->indptr[r + 1],
                       (unsigned long long)m->indptr[r], nnz);
    }
    int status = check_row(m, r, what);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}
