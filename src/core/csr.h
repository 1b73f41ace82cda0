/* Sparse matrices in compressed rows. Column ids inside a row are sorted and unique: duplicates
 * are summed when the matrix is built. */
#ifndef FOPO_CORE_CSR_H
#define FOPO_CORE_CSR_H

#include "core/matrix.h"

typedef struct {
  size_t rows;
  size_t cols;      /* <= 2^32 - 1 */
  uint64_t *indptr; /* [rows + 1] */
  uint32_t *ids;    /* [indptr[rows]], 0-based, ascending inside a row */
  float *values;    /* [indptr[rows]], or NULL: every value is 1 */
} fopo_csr;

static inline size_t fopo_csr_nnz(const fopo_csr *m) { return (size_t)m->indptr[m->rows]; }
static inline size_t fopo_csr_count(const fopo_csr *m, size_t row) {
  return (size_t)(m->indptr[row + 1] - m->indptr[row]);
}
static inline const uint32_t *fopo_csr_row(const fopo_csr *m, size_t row) {
  return m->ids + m->indptr[row];
}

/* The most entries of a row. */
static inline size_t fopo_csr_longest(const fopo_csr *m) {
  size_t longest = 0;
  for (size_t row = 0; row < m->rows; row++) {
    size_t n = fopo_csr_count(m, row);
    if (n > longest) longest = n;
  }
  return longest;
}

/* Rows first .. first + n - 1 of m; not owned. Its indptr need not begin at 0. */
static inline fopo_csr fopo_csr_rows(const fopo_csr *m, size_t first, size_t n) {
  return (fopo_csr){n, m->cols, m->indptr + first, m->ids, m->values};
}

/* Allocates nnz entries, zeroed; values only if with_values. */
int fopo_csr_init(fopo_csr *m, size_t rows, size_t cols, size_t nnz, int with_values);
void fopo_csr_done(fopo_csr *m); /* accepts {0} */

/* *to becomes a copy of `from`, perhaps some rows of a matrix (fopo_csr_rows). */
int fopo_csr_copy(fopo_csr *to, const fopo_csr *from);

/* *some becomes the rows [n] of m in this order, without values. */
int fopo_csr_take(fopo_csr *some, const fopo_csr *m, const uint32_t *rows, size_t n);

/* From n pairs in any order; values may be NULL. Values of repeated pairs are summed in the order
 * of the pairs; without values, repeats are dropped. *repeats counts them. Ids outside rows x cols
 * are FOPO_ERR_ARGUMENT. Linear time, threaded, can be interrupted. */
int fopo_csr_from_pairs(fopo_csr *m, const uint32_t *row, const uint32_t *col, const float *values,
                        size_t n, size_t rows, size_t cols, size_t *repeats);

/* Times of the entries of a matrix, in its order. */
typedef struct {
  double *first; /* [nnz] the earliest of a pair; NULL: no times */
  double *last;  /* [nnz] the latest; NULL: no pair repeats, so it is the first */
} fopo_csr_times;

/* The same with a time for each pair; times NULL: without. values NULL: the number of repeats of
 * each pair is its value, and values stays NULL if none repeats. *entry is the caller's. used(of),
 * unless it is NULL, is called when the pairs are not needed any more, and the matrix is not there
 * yet. */
int fopo_csr_from_timed_pairs(fopo_csr *m, fopo_csr_times *entry, const uint32_t *row,
                              const uint32_t *col, const float *values, const double *times,
                              size_t n, size_t rows, size_t cols, size_t *repeats,
                              void (*used)(void *), void *of);

/* *t becomes a fresh transpose; m, perhaps some rows of a matrix, has fewer than 2^32 of them. */
int fopo_csr_transpose(fopo_csr *t, const fopo_csr *m);

/* 1 if the row holds the id (binary search). */
int fopo_csr_contains(const fopo_csr *m, size_t row, uint32_t id);

/* *n: columns with at least one entry. */
int fopo_csr_columns_used(size_t *n, const fopo_csr *m);

/* c [B.cols] += the rows ids[i] - first of B, each times values[i], for i = 0 .. n - 1 in this
 * order; values NULL: all are 1. more: ids behind these that are used next. */
void fopo_csr_add_rows(float *c, const uint32_t *ids, const float *values, size_t n, size_t more,
                       size_t first, fopo_matrix B);

/* C [rows, L] = M B or, if it adds, C += M B, B [cols, L]; parallel over rows. */
int fopo_csr_times_dense(fopo_matrix C, const fopo_csr *m, fopo_matrix B, int adds);

#endif
