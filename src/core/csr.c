/* Sparse rows: allocation, search, the product with a dense matrix, checks. csr_pairs.c builds them
 * from pairs. */
#include "core/csr.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/sorted.h"
#include "core/status.h"
#include "core/threads.h"

enum {
  TILE_WORK = 1 << 18, /* multiply-adds that a thread takes at a time */
  AHEAD = 8            /* entries between the prefetch of a row of B and its use */
};
#define MOST_COLS ((size_t)UINT32_MAX)
#define LONG      (256.0 * 1024 * 1024) /* multiply-adds; longer products can be interrupted */

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

int fopo_csr_contains(const fopo_csr *m, size_t row, uint32_t id) {
  return fopo_sorted_holds(fopo_csr_row(m, row), fopo_csr_count(m, row), id);
}

/* ---- the product ---- */

/* c [n] += w0 b0 + w1 b1 + w2 b2 + w3 b3, summed in this order. */
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

/* Rows of B are used in no order that the processor could predict. */
static void prefetch(const float *b, size_t n) {
  for (size_t j = 0; j < n; j += 16) __builtin_prefetch(b + j);
}

void fopo_csr_add_rows(float *c, const uint32_t *ids, const float *values, size_t n, size_t more,
                       size_t first, fopo_matrix B) {
  static const float ones[4] = {1, 1, 1, 1};
  for (size_t e = 0, step; e < n; e += step) {
    step = n - e >= 4 ? 4 : 1;
    for (size_t ahead = e + AHEAD; ahead < e + AHEAD + step && ahead < n + more; ahead++) {
      prefetch(fopo_matrix_row(B, ids[ahead] - first), B.cols);
    }
    const uint32_t *id = ids + e;
    const float *w = values == NULL ? ones : values + e;
    if (step == 4) {
      add_four(c, fopo_matrix_row(B, id[0] - first), fopo_matrix_row(B, id[1] - first),
               fopo_matrix_row(B, id[2] - first), fopo_matrix_row(B, id[3] - first), w, B.cols);
    } else {
      add_one(c, fopo_matrix_row(B, id[0] - first), w[0], B.cols);
    }
  }
}

/* One row of C: c = sum over its entries of value * B[id]. last: entries of the whole matrix. */
static void row_times_dense(float *c, const fopo_csr *m, size_t row, fopo_matrix B, uint64_t last) {
  uint64_t begin = m->indptr[row], end = m->indptr[row + 1];
  memset(c, 0, B.cols * sizeof *c);
  fopo_csr_add_rows(c, m->ids + begin, m->values == NULL ? NULL : m->values + begin,
                    (size_t)(end - begin), (size_t)(last - end), 0, B);
}

int fopo_csr_columns_used(size_t *n, const fopo_csr *m) {
  uint8_t *used = fopo_alloc(m->cols, sizeof *used);
  if (used == NULL) return FOPO_ERR_MEMORY;
  for (size_t k = 0; k < fopo_csr_nnz(m); k++) used[m->ids[k]] = 1;
  *n = 0;
  for (size_t c = 0; c < m->cols; c++) *n += used[c];
  fopo_free(used);
  return FOPO_OK;
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
