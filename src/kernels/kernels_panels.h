/* The kernels over panels of queries (`scores`, and those of a shared head), for the instruction
 * set of the including file: each defines `scores`, `max_columns`, `exp_columns` and `add_products`
 * of kernels/kernels.h, and on x86-64 `axpy`. Columns of a panel [.., width] are cut into blocks of
 * WIDE vectors, whose sums stay in registers; every number is one chain of operations, so cuts
 * change no bit. */
#ifndef FOPO_KERNELS_KERNELS_PANELS_H
#define FOPO_KERNELS_KERNELS_PANELS_H

#include "kernels/kernels_vectors.h"

enum {
  WIDE = LANES == 4 ? 4 : 2, /* vectors of a block */
  BLOCK = WIDE * LANES,
  WIDE_EXP = LANES == 8 ? 1 : 2, /* the same of exp, whose constants need registers too */
  BLOCK_EXP = WIDE_EXP * LANES,
  SCORE_ROWS = LANES == 16 ? 8 : 4, /* rows that share a block of queries */
  DIMS = LANES == 16  ? 12          /* numbers of every row that share a block of weights */
         : LANES == 8 ? 6
                      : 4,
  DIMS_REST = LANES == 16 ? 4 : 1 /* the same, where fewer than DIMS are left */
};

#if defined(__x86_64__)
static void axpy(float *y, float a, const float *x, size_t n) {
  floats scale = v_all(a);
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    v_store(y + i, v_fma(scale, v_load(x + i), v_load(y + i)));
  }
  if (i < n) {
    floats sum = v_fma(scale, v_load_first(x + i, n - i), v_load_first(y + i, n - i));
    v_store_first(y + i, sum, n - i);
  }
}
#endif

/* n_rows <= SCORE_ROWS rows times `vectors` vectors of queries of a panel [dim, width]: one number
 * of each row at a time is multiplied with all of them. out [n_rows, width] */
INLINE void score_block(float *out, const float *const *row, const float *panel, size_t dim,
                        size_t width, const int n_rows, const int vectors) {
  floats sum[16];
#pragma GCC unroll 16
  for (int k = 0; k < n_rows * vectors; k++) sum[k] = v_zero();
#pragma GCC unroll 1
  for (size_t i = 0; i < dim; i++, panel += width) {
    floats q[WIDE];
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++) q[k] = v_load(panel + LANES * k);
#pragma GCC unroll 8
    for (int l = 0; l < n_rows; l++) {
      floats x = v_all(row[l][i]);
#pragma GCC unroll 4
      for (int k = 0; k < vectors; k++) sum[l * vectors + k] = v_fma(x, q[k], sum[l * vectors + k]);
    }
  }
#pragma GCC unroll 8
  for (int l = 0; l < n_rows; l++) {
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++) {
      v_store(out + (size_t)l * width + (size_t)(LANES * k), sum[l * vectors + k]);
    }
  }
}

/* All columns. Only half a panel by AVX-512 is narrower than a block. */
INLINE void score_rows(float *out, const float *const *row, const float *panel, size_t dim,
                       size_t width, const int n_rows) {
  if (width < BLOCK) {
    score_block(out, row, panel, dim, width, n_rows, 1);
    return;
  }
  for (size_t j = 0; j < width; j += BLOCK) {
    score_block(out + j, row, panel + j, dim, width, n_rows, WIDE);
  }
}

static void scores(float *out, const float *rows, size_t ld, const uint32_t *ids, size_t count,
                   const float *panel, size_t dim, size_t width) {
  enum { AHEAD_SCORES = 16 }; /* rows */
  size_t s = 0;
  for (; dim > 0 && s < AHEAD_SCORES && s < count; s++) prefetch_row(row_of(rows, ld, ids, s), dim);
  for (s = 0; s + SCORE_ROWS <= count; s += SCORE_ROWS) {
    const float *row[SCORE_ROWS];
    size_t soon = s + AHEAD_SCORES;
#pragma GCC unroll 8
    for (size_t l = 0; l < SCORE_ROWS; l++) row[l] = row_of(rows, ld, ids, s + l);
    for (size_t l = 0; dim > 0 && l < SCORE_ROWS && soon + l < count; l++) {
      prefetch_row(row_of(rows, ld, ids, soon + l), dim);
    }
    score_rows(out + s * width, row, panel, dim, width, SCORE_ROWS);
  }
  for (; s < count; s++) {
    const float *row = row_of(rows, ld, ids, s);
    score_rows(out + s * width, &row, panel, dim, width, 1);
  }
}

INLINE void max_block(float *most, const float *x, size_t count, size_t width, const int vectors) {
  floats m[WIDE];
#pragma GCC unroll 4
  for (int k = 0; k < vectors; k++) m[k] = v_load(x + LANES * k);
  for (size_t s = 1; s < count; s++) {
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++) m[k] = v_larger(m[k], v_load(x + s * width + LANES * k));
  }
#pragma GCC unroll 4
  for (int k = 0; k < vectors; k++) v_store(most + LANES * k, m[k]);
}

static void max_columns(float *most, const float *x, size_t count, size_t width) {
  if (width < BLOCK) {
    max_block(most, x, count, width, 1);
    return;
  }
  for (size_t j = 0; j < width; j += BLOCK) max_block(most + j, x + j, count, width, WIDE);
}

INLINE void exp_block(float *x, float *sum, float *squares, const float *shift, size_t count,
                      size_t width, const int vectors) {
  floats least[WIDE_EXP], sums[WIDE_EXP], squared[WIDE_EXP];
#pragma GCC unroll 2
  for (int k = 0; k < vectors; k++) {
    least[k] = v_load(shift + LANES * k);
    sums[k] = squared[k] = v_zero();
  }
  for (size_t s = 0; s < count; s++) {
#pragma GCC unroll 2
    for (int k = 0; k < vectors; k++) {
      float *at = x + s * width + LANES * k;
      floats w = v_exp(v_sub(v_load(at), least[k]));
      v_store(at, w);
      sums[k] = v_add(sums[k], w);
      squared[k] = v_fma(w, w, squared[k]);
    }
  }
#pragma GCC unroll 2
  for (int k = 0; k < vectors; k++) {
    v_store(sum + LANES * k, sums[k]);
    v_store(squares + LANES * k, squared[k]);
  }
}

static void exp_columns(float *x, float *sum, float *squares, const float *shift, size_t count,
                        size_t width) {
  if (width < BLOCK_EXP) {
    exp_block(x, sum, squares, shift, count, width, 1);
    return;
  }
  for (size_t j = 0; j < width; j += BLOCK_EXP) {
    exp_block(x + j, sum + j, squares + j, shift + j, count, width, WIDE_EXP);
  }
}

/* `dims` numbers of every row times `vectors` vectors of weights w [count, width]. v [dims, width]
 */
INLINE void add_block(float *v, const float *rows, size_t ld, const float *w, size_t count,
                      size_t width, const int dims, const int vectors) {
  floats sum[DIMS * WIDE];
#pragma GCC unroll 24
  for (int k = 0; k < dims * vectors; k++) {
    sum[k] = v_load(v + (size_t)(k / vectors) * width + (size_t)(LANES * (k % vectors)));
  }
#pragma GCC unroll 1
  for (size_t s = 0; s < count; s++, rows += ld, w += width) {
    floats weight[WIDE];
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++) weight[k] = v_load(w + LANES * k);
#pragma GCC unroll 12
    for (int i = 0; i < dims; i++) {
      floats x = v_all(rows[i]);
#pragma GCC unroll 4
      for (int k = 0; k < vectors; k++) {
        sum[i * vectors + k] = v_fma(x, weight[k], sum[i * vectors + k]);
      }
    }
  }
#pragma GCC unroll 24
  for (int k = 0; k < dims * vectors; k++) {
    v_store(v + (size_t)(k / vectors) * width + (size_t)(LANES * (k % vectors)), sum[k]);
  }
}

INLINE void add_dims(float *v, const float *rows, size_t ld, const float *w, size_t count,
                     size_t width, const int dims) {
  if (width < BLOCK) {
    add_block(v, rows, ld, w, count, width, dims, 1);
    return;
  }
  for (size_t j = 0; j < width; j += BLOCK) {
    add_block(v + j, rows, ld, w + j, count, width, dims, WIDE);
  }
}

static void add_products(float *v, const float *rows, size_t ld, const float *w, size_t count,
                         size_t dim, size_t width) {
  size_t i = 0;
  for (; i + DIMS <= dim; i += DIMS) add_dims(v + i * width, rows + i, ld, w, count, width, DIMS);
  for (; i + DIMS_REST <= dim; i += DIMS_REST) {
    add_dims(v + i * width, rows + i, ld, w, count, width, DIMS_REST);
  }
  for (; i < dim; i++) add_dims(v + i * width, rows + i, ld, w, count, width, 1);
}

#endif
