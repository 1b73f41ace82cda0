/* Dense products cut into tiles.
 *
 * Every tile is one call of single-threaded BLAS, and its shape depends on the sizes alone, so
 * neither the number of threads nor their order changes a bit. If C is small and the inner
 * dimension long, the inner dimension is cut into slices instead, whose partial results are added
 * in order. */
#include "core/matrix.h"

#include <assert.h>
#include <cblas.h>
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"

enum {
  TILE = 256,   /* rows and columns of a tile of C: two panels fit the L2 cache */
  SLICE = 4096, /* least length of a slice of the inner dimension */
  SLICES = 32   /* most slices */
};
#define SMALL   (1.0 * 1024 * 1024)        /* multiply-adds; up to so many, one thread is faster */
#define LONG    (2.0 * 1024 * 1024 * 1024) /* multiply-adds; longer products can be interrupted */
#define PARTIAL ((size_t)64 << 20)         /* bytes that partial results may take */

int fopo_matrix_init(fopo_matrix *m, size_t rows, size_t cols) {
  *m = (fopo_matrix){0};
  size_t count;
  if (__builtin_mul_overflow(rows, cols, &count)) count = SIZE_MAX;
  float *x = fopo_alloc(count, sizeof *x);
  if (x == NULL) return FOPO_ERR_MEMORY;
  *m = fopo_matrix_view(x, rows, cols);
  return FOPO_OK;
}

void fopo_matrix_done(fopo_matrix *m) {
  fopo_free(m->x);
  *m = (fopo_matrix){0};
}

const char *fopo_matrix_processor(void) {
  const char *(*name)(void) = NULL;
  void *found = dlsym(RTLD_DEFAULT, "openblas_get_corename");
  memcpy(&name, &found, sizeof found);
  return name != NULL ? name() : "";
}

/* ---- products ---- */

static fopo_matrix block(fopo_matrix m, size_t i, size_t j, size_t rows, size_t cols) {
  return (fopo_matrix){m.x + i * m.ld + j, rows, cols, m.ld};
}

/* Rows first .. first + count - 1 of op(m). */
static fopo_matrix op_rows(fopo_matrix m, int transposed, size_t first, size_t count) {
  return transposed ? block(m, 0, first, m.rows, count) : block(m, first, 0, count, m.cols);
}

static fopo_matrix op_cols(fopo_matrix m, int transposed, size_t first, size_t count) {
  return op_rows(m, !transposed, first, count);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }
static size_t pieces(size_t n, size_t size) { return (n + size - 1) / size; }

static int stride(fopo_matrix m) { return (int)most(m.ld, 1); }

void fopo_gemm_tile(fopo_matrix C, float alpha, fopo_matrix A, int transpose_a, fopo_matrix B,
                    int transpose_b, float beta) {
  fopo_threads(); /* limits BLAS to one thread */
  size_t inner = transpose_a ? A.rows : A.cols;
  assert(C.rows <= INT_MAX && C.cols <= INT_MAX && inner <= INT_MAX);
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
              transpose_b ? CblasTrans : CblasNoTrans, (int)C.rows, (int)C.cols, (int)inner, alpha,
              A.x, stride(A), B.x, stride(B), beta, C.x, stride(C));
}

static int check_product(fopo_matrix C, fopo_matrix A, int ta, fopo_matrix B, int tb) {
  size_t m = ta ? A.cols : A.rows, ka = ta ? A.rows : A.cols;
  size_t n = tb ? B.rows : B.cols, kb = tb ? B.cols : B.rows;
  if (ka != kb) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a [%zu, %zu] matrix cannot multiply a [%zu, %zu] one: "
                     "%zu columns meet %zu rows",
                     m, ka, kb, n, ka, kb);
  }
  if (C.rows != m || C.cols != n) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the product of [%zu, %zu] and [%zu, %zu] does not fit in [%zu, %zu]", m, ka,
                     kb, n, C.rows, C.cols);
  }
  size_t widest = most(most(A.ld, B.ld), most(C.ld, ka));
  if (widest > INT_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a row of %zu numbers is too long for BLAS; use at most %d",
                     widest, INT_MAX);
  }
  return FOPO_OK;
}

/* C in tiles, each with the whole inner dimension. */
static int product_by_tiles(fopo_gemm_tile_of *tile, fopo_matrix C, float alpha, fopo_matrix A,
                            int ta, fopo_matrix B, int tb, float beta, int interruptible) {
  size_t across = pieces(C.cols, TILE), tiles = pieces(C.rows, TILE) * across;
  int stopped = 0;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic) reduction(| : stopped)
  for (size_t t = 0; t < tiles; t++) {
    if (interruptible && fopo_interrupted()) {
      stopped = 1;
      continue;
    }
    size_t i = t / across * TILE, j = t % across * TILE;
    size_t rows = least(TILE, C.rows - i), cols = least(TILE, C.cols - j);
    tile(block(C, i, j, rows, cols), alpha, op_rows(A, ta, i, rows), ta, op_cols(B, tb, j, cols),
         tb, beta);
  }
  return stopped ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while multiplying") : FOPO_OK;
}

/* c = beta c + the sum of the slices' x, in their order. */
static void add_partials(fopo_matrix C, const float *partial, size_t slices, float beta) {
  size_t count = C.rows * C.cols;
#pragma omp parallel for num_threads(fopo_threads()) if (count * slices > (1u << 16))
  for (size_t i = 0; i < C.rows; i++) {
    float *c = fopo_matrix_row(C, i);
    for (size_t j = 0; j < C.cols; j++) {
      double sum = beta == 0.0f ? 0.0 : (double)beta * (double)c[j];
      for (size_t s = 0; s < slices; s++) sum += (double)partial[s * count + i * C.cols + j];
      c[j] = (float)sum;
    }
  }
}

/* The inner dimension in slices, each with a private [rows, cols] result. */
static int product_by_slices(fopo_gemm_tile_of *tile, fopo_matrix C, float alpha, fopo_matrix A,
                             int ta, fopo_matrix B, int tb, float beta, size_t slices,
                             int interruptible) {
  size_t inner = ta ? A.rows : A.cols, count = C.rows * C.cols;
  float *partial = fopo_alloc(slices * count, sizeof *partial);
  if (partial == NULL) return FOPO_ERR_MEMORY;
  int stopped = 0;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic) reduction(| : stopped)
  for (size_t s = 0; s < slices; s++) {
    size_t first = inner / slices * s + least(s, inner % slices);
    size_t length = inner / slices + (s < inner % slices);
    fopo_matrix part = fopo_matrix_view(partial + s * count, C.rows, C.cols);
    for (size_t at = 0; at < length && !stopped; at += SLICE) {
      size_t step = least(SLICE, length - at);
      tile(part, alpha, op_cols(A, ta, first + at, step), ta, op_rows(B, tb, first + at, step), tb,
           at == 0 ? 0.0f : 1.0f);
      stopped = interruptible && fopo_interrupted();
    }
  }
  if (!stopped) add_partials(C, partial, slices, beta);
  fopo_free(partial);
  return stopped ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while multiplying") : FOPO_OK;
}

int fopo_gemm_by(fopo_gemm_tile_of *tile, fopo_matrix C, float alpha, fopo_matrix A,
                 int transpose_a, fopo_matrix B, int transpose_b, float beta) {
  int status = check_product(C, A, transpose_a, B, transpose_b);
  if (status != FOPO_OK || C.rows == 0 || C.cols == 0) return status;
  size_t inner = transpose_a ? A.rows : A.cols;
  double work = (double)C.rows * (double)C.cols * (double)inner;
  if (work <= SMALL && most(C.rows, C.cols) <= INT_MAX) {
    tile(C, alpha, A, transpose_a, B, transpose_b, beta);
    return FOPO_OK;
  }
  size_t tiles = pieces(C.rows, TILE) * pieces(C.cols, TILE);
  size_t fit = PARTIAL / sizeof(float) / (C.rows * C.cols);
  size_t slices = least(least(inner / SLICE, SLICES), fit);
  if (tiles < 8 && slices >= 2 && slices > tiles) {
    return product_by_slices(tile, C, alpha, A, transpose_a, B, transpose_b, beta, slices,
                             work > LONG);
  }
  return product_by_tiles(tile, C, alpha, A, transpose_a, B, transpose_b, beta, work > LONG);
}

int fopo_gemm(fopo_matrix C, float alpha, fopo_matrix A, int transpose_a, fopo_matrix B,
              int transpose_b, float beta) {
  return fopo_gemm_by(fopo_gemm_tile, C, alpha, A, transpose_a, B, transpose_b, beta);
}

/* ---- checks ---- */

/* 1 if a value of the row is not finite: all bits of its exponent are set. */
static int row_is_bad(const float *x, size_t n) {
  uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
  for (size_t j = 0; j < n; j++) {
    uint32_t bits;
    memcpy(&bits, x + j, sizeof bits);
    bad |= (bits & 0x7f800000u) == 0x7f800000u;
  }
  return bad != 0;
}

int fopo_matrix_finite(fopo_matrix m, const char *what) {
  size_t first = SIZE_MAX;
  int threads = m.rows * m.cols > 1u << 20 ? fopo_threads() : 1;
#pragma omp parallel for num_threads(threads) reduction(min : first)
  for (size_t i = 0; i < m.rows; i++) {
    if (i < first && row_is_bad(fopo_matrix_row(m, i), m.cols)) first = i;
  }
  if (first == SIZE_MAX) return FOPO_OK;
  const float *row = fopo_matrix_row(m, first);
  size_t j = 0;
  while (isfinite(row[j])) j++;
  return fopo_fail(FOPO_ERR_NUMERIC, "%s has %g at row %zu, column %zu", what, (double)row[j],
                   first + 1, j + 1);
}

double fopo_matrix_norm2(fopo_matrix m) {
  double sum = 0;
  for (size_t i = 0; i < m.rows; i++) {
    const float *row = fopo_matrix_row(m, i);
    for (size_t j = 0; j < m.cols; j++) sum += (double)row[j] * (double)row[j];
  }
  return sum;
}
