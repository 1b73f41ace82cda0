/* A result is made in blocks of at most BLOCK numbers: some whole rows, or a part of one. Where an
 * operand lacks rows or columns, what the block needs of it is written out, so that every operation
 * is one loop over numbers that lie together. Threads take blocks, rows or strips of columns, and
 * none of them adds what another has added. */
#include "kernels/arrays.h"

#include <math.h>
#include <string.h>

#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "kernels/kernels.h"

enum {
  BLOCK = 2048,   /* numbers of an operand: 8 KB, so that three and the result are in L1 */
  LANES = 32,     /* sums of a row side by side: their chains hide the latency of additions */
  TILE = 32,      /* rows and columns of a tile that is transposed */
  SEARCHED = 512, /* numbers of a row of which the largest is found, then its place */
  HARD = 8,       /* multiply-adds that an operation counts as, for the number of threads */
  POLL = 1 << 20  /* numbers of a row between two polls of the interrupt flag */
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

typedef struct {
  void *y;
  const fopo_matrix *x;
  size_t rows, cols; /* of y, or of a block of it */
  int what;          /* a fopo_op or a fopo_reduction */
} task;

/* part(t, i) for i < n, of n parts that together have `work` numbers. To open a parallel region
 * takes longer than a small array. */
static int each(size_t n, size_t work, void part(const task *t, size_t i), const task *t) {
  int threads = fopo_threads_for(work * HARD);
  if (threads == 1) {
    for (size_t i = 0; i < n && !fopo_interrupted(); i++) part(t, i);
  } else {
#pragma omp parallel for num_threads(threads)
    for (size_t i = 0; i < n; i++) {
      if (!fopo_interrupted()) part(t, i);
    }
  }
  return fopo_interrupted() ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while computing") : 0;
}

/* ---- element by element ---- */

typedef void operation(float *restrict y, const float *A, const float *B, const float *C, size_t n);

#define OP(name, operands, value)                                                                  \
  static void name##_of(float *restrict y, const float *A, const float *B, const float *C,         \
                        size_t n) {                                                                \
    _Pragma("omp simd") for (size_t i = 0; i < n; i++) {                                           \
      float a = A[i], b = B[i], c = C[i];                                                          \
      (void)b, (void)c;                                                                            \
      y[i] = (float)(value);                                                                       \
    }                                                                                              \
  }
#include "kernels/arrays.def"

static void exp_by_kernel(float *restrict y, const float *A, const float *B, const float *C,
                          size_t n) {
  (void)B, (void)C;
  fopo_kernels_get()->exp_sum(y, A, 0.0f, n);
}

/* The kernel is log(share + rest (w / total)) of numbers that are not negative. */
static void log_by_kernel(float *restrict y, const float *A, const float *B, const float *C,
                          size_t n) {
  (void)B, (void)C;
  fopo_kernels_get()->log_mixture(y, A, 0.0, 1.0, 1.0, n);
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] = A[i] < 0 ? NAN : y[i];
}

static const struct {
  size_t operands;
  operation *of;
} operations[] = {
#define OP(name, operands, value) {operands, name##_of},
#include "kernels/arrays.def"
};

size_t fopo_op_operands(fopo_op op) { return operations[op].operands; }

static int fit(size_t a, size_t b) { return a == b || a == 1 || b == 1; }

int fopo_broadcast(size_t *rows, size_t *cols, const fopo_matrix *x, size_t n) {
  *rows = *cols = 1;
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < i; k++) {
      if (fit(x[k].rows, x[i].rows) && fit(x[k].cols, x[i].cols)) continue;
      return fopo_fail(FOPO_ERR_ARGUMENT,
                       "%c is %zu x %zu and %c is %zu x %zu: rows must be as many, or 1 for all, "
                       "and so must columns",
                       "abc"[k], x[k].rows, x[k].cols, "abc"[i], x[i].rows, x[i].cols);
    }
    if (x[i].rows != 1) *rows = x[i].rows;
    if (x[i].cols != 1) *cols = x[i].cols;
  }
  return FOPO_OK;
}

/* Rows i .. i + rows - 1 and columns j .. j + cols - 1 of an operand of a result [R, C]: in place,
 * or written to room [rows * cols]. */
static const float *block_of(float *room, fopo_matrix m, size_t R, size_t C, size_t i, size_t rows,
                             size_t j, size_t cols) {
  if (m.cols == C && m.rows == R && (rows == 1 || m.ld == C)) return m.x + i * m.ld + j;
  for (size_t r = 0; r < rows; r++) {
    const float *row = m.x + (m.rows == 1 ? 0 : i + r) * m.ld;
    float *to = room + r * cols;
    if (m.cols == C) {
      memcpy(to, row + j, cols * sizeof *to);
    } else {
      float value = *row;
#pragma omp simd
      for (size_t k = 0; k < cols; k++) to[k] = value;
    }
  }
  return room;
}

static size_t height_of(size_t cols) { return cols < BLOCK ? BLOCK / cols : 1; }
static size_t pieces(size_t n, size_t size) { return (n + size - 1) / size; }

static void make_block(const task *t, size_t b) {
  float room[FOPO_OPERANDS][BLOCK];
  const float *block[FOPO_OPERANDS];
  size_t across = pieces(t->cols, BLOCK), high = height_of(t->cols);
  size_t i = b / across * high, j = b % across * BLOCK;
  size_t rows = least(high, t->rows - i), cols = least(BLOCK, t->cols - j);
  size_t operands = operations[t->what].operands;
  for (size_t k = 0; k < FOPO_OPERANDS; k++) {
    block[k] =
        k < operands ? block_of(room[k], t->x[k], t->rows, t->cols, i, rows, j, cols) : block[0];
  }
  operation *of = t->what == FOPO_OP_exp   ? exp_by_kernel
                  : t->what == FOPO_OP_log ? log_by_kernel
                                           : operations[t->what].of;
  of((float *)t->y + i * t->cols + j, block[0], block[1], block[2], rows * cols);
}

int fopo_elementwise(float *y, size_t rows, size_t cols, fopo_op op, const fopo_matrix *x) {
  if (rows == 0 || cols == 0) return FOPO_OK;
  task t = {y, x, rows, cols, op};
  fopo_matrix squared[] = {x[0], x[0]};
  if (op == FOPO_OP_pow && x[1].rows == 1 && x[1].cols == 1 && *x[1].x == 2.0f) {
    t.what = FOPO_OP_mul;
    t.x = squared;
  }
  size_t blocks = pieces(rows, height_of(cols)) * pieces(cols, BLOCK);
  return each(blocks, rows * cols, make_block, &t);
}

/* ---- reductions ---- */

/* NAME_add: s[j] takes in x[j]. NAME_row: n numbers in LANES chains, which are added in order. */
#define REDUCTION(name, type, start, term, sum, result)                                            \
  static inline void name##_add(type *restrict acc, const float *restrict from, size_t n) {        \
    _Pragma("omp simd") for (size_t j = 0; j < n; j++) {                                           \
      type x = (type)from[j], s = acc[j], v = term;                                                \
      acc[j] = sum;                                                                                \
    }                                                                                              \
  }                                                                                                \
  static double name##_row(const float *x, size_t n) {                                             \
    type lane[LANES], s = start;                                                                   \
    size_t i = 0, lanes = least(n, LANES);                                                         \
    for (size_t l = 0; l < lanes; l++) lane[l] = start;                                            \
    for (; i + LANES <= n; i += LANES) {                                                           \
      name##_add(lane, x + i, LANES);                                                              \
      if (i % POLL == 0 && fopo_interrupted()) return 0;                                           \
    }                                                                                              \
    name##_add(lane, x + i, n - i);                                                                \
    for (size_t l = 0; l < lanes; l++) {                                                           \
      type v = lane[l];                                                                            \
      s = sum;                                                                                     \
    }                                                                                              \
    return (double)(result);                                                                       \
  }                                                                                                \
  static void name##_columns(float *y, fopo_matrix m) {                                            \
    type acc[BLOCK];                                                                               \
    size_t n = m.rows;                                                                             \
    (void)n;                                                                                       \
    for (size_t j = 0; j < m.cols; j++) acc[j] = start;                                            \
    for (size_t i = 0; i < m.rows && !fopo_interrupted(); i++) {                                   \
      name##_add(acc, fopo_matrix_row(m, i), m.cols);                                              \
    }                                                                                              \
    for (size_t j = 0; j < m.cols; j++) {                                                          \
      type s = acc[j];                                                                             \
      y[j] = (float)(result);                                                                      \
    }                                                                                              \
  }
#include "kernels/arrays.def"

/* max + log sum exp(x - max), which is max if that is not finite. */
static double logsumexp_row(const float *x, size_t n) {
  float w[BLOCK], largest = (float)max_row(x, n);
  double sum = 0;
  if (!isfinite(largest)) return (double)largest;
  for (size_t i = 0; i < n && !fopo_interrupted(); i += BLOCK) {
    sum += fopo_kernels_get()->exp_sum(w, x + i, largest, least(BLOCK, n - i));
  }
  return (double)largest + log(sum);
}

static const struct {
  double (*row)(const float *x, size_t n);
  void (*columns)(float *y, fopo_matrix x); /* of at most BLOCK columns */
} reductions[] = {
#define REDUCTION(name, type, start, term, sum, result) {name##_row, name##_columns},
#include "kernels/arrays.def"
    {logsumexp_row, NULL}};

static void reduce_row(const task *t, size_t i) {
  ((float *)t->y)[i] = (float)reductions[t->what].row(fopo_matrix_row(*t->x, i), t->x->cols);
}

static void reduce_strip(const task *t, size_t k) {
  fopo_matrix m = *t->x;
  size_t j = k * BLOCK;
  m.x += j;
  m.cols = least(BLOCK, m.cols - j);
  reductions[t->what].columns((float *)t->y + j, m);
}

int fopo_reduce_rows(float *y, fopo_reduction op, fopo_matrix x) {
  task t = {.y = y, .x = &x, .what = op};
  return each(x.rows, x.rows * x.cols, reduce_row, &t);
}

int fopo_reduce_columns(float *y, fopo_reduction op, fopo_matrix x) {
  task t = {.y = y, .x = &x, .what = op};
  return each(pieces(x.cols, BLOCK), x.rows * x.cols, reduce_strip, &t);
}

int fopo_reduce_all(double *y, fopo_reduction op, fopo_matrix x) {
  *y = reductions[op].row(x.x, x.rows * x.cols);
  return each(0, 0, NULL, NULL);
}

/* ---- along rows ---- */

/* max_row, faster: the kernel passes NaN over. */
static float largest_of(const float *x, size_t n) {
  uint32_t odd = 0;
#pragma omp simd reduction(| : odd)
  for (size_t j = 0; j < n; j++) odd |= x[j] != x[j];
  return odd ? NAN : fopo_kernels_get()->max(x, n);
}

/* The first block with the largest number, then that number's place in it. */
static void largest_place(const task *t, size_t row) {
  const float *x = fopo_matrix_row(*t->x, row);
  size_t at = 0, n = t->x->cols;
  float most = -INFINITY;
  for (size_t i = 0; i < n && most == most; i += SEARCHED) {
    float m = largest_of(x + i, least(SEARCHED, n - i));
    if (!(m > most || m != m)) continue;
    most = m;
    at = i;
  }
  if (most == most) {
    while (at + 1 < n && x[at] != most) at++;
  } else {
    while (x[at] == x[at]) at++;
  }
  ((uint32_t *)t->y)[row] = (uint32_t)at;
}

static void softmax_row(const task *t, size_t i) {
  const float *x = fopo_matrix_row(*t->x, i);
  size_t n = t->x->cols;
  float *y = (float *)t->y + i * n;
  float scale = (float)(1.0 / fopo_kernels_get()->exp_sum(y, x, largest_of(x, n), n));
#pragma omp simd
  for (size_t j = 0; j < n; j++) y[j] *= scale;
}

static void cumsum_row(const task *t, size_t i) {
  const float *x = fopo_matrix_row(*t->x, i);
  float *y = (float *)t->y + i * t->x->cols;
  double sum = 0;
  for (size_t j = 0; j < t->x->cols; j++) y[j] = (float)(sum += (double)x[j]);
}

static int along_rows(void *y, fopo_matrix x, void row(const task *t, size_t i)) {
  task t = {.y = y, .x = &x};
  return each(x.rows, x.rows * x.cols, row, &t);
}

int fopo_largest_places(uint32_t *y, fopo_matrix x) { return along_rows(y, x, largest_place); }
int fopo_softmax_rows(float *y, fopo_matrix x) { return along_rows(y, x, softmax_row); }
int fopo_cumsum_rows(float *y, fopo_matrix x) { return along_rows(y, x, cumsum_row); }

/* A strip of TILE columns of x, which are rows of y. */
static void transpose_strip(const task *t, size_t k) {
  size_t rows = t->x->rows, cols = t->x->cols, left = k * TILE, right = least(left + TILE, cols);
  for (size_t first = 0; first < rows; first += TILE) {
    for (size_t j = left; j < right; j++) {
      for (size_t i = first; i < least(first + TILE, rows); i++) {
        memcpy((float *)t->y + j * rows + i, t->x->x + i * cols + j, sizeof(float));
      }
    }
  }
}

int fopo_transpose(void *y, const void *x, size_t rows, size_t cols) {
  fopo_matrix m = fopo_matrix_const_view(x, rows, cols);
  task t = {.y = y, .x = &m};
  return each(pieces(cols, TILE), rows * cols, transpose_strip, &t);
}
