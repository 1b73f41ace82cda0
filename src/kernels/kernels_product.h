/* The kernel `product`, compiled by each instruction set of x86-64 for its own vectors. A file
 * defines first:
 *
 *   ROWS   rows of a block of c: 2 ROWS vectors of sums, two of b and one number of a fit in
 *          registers
 *
 * Every number of c is one chain of fused multiply-adds over p = 0 .. k - 1, whatever the shape and
 * the place: so its bits are the same for all sets, and for all ways to cut a product. */
#ifndef FOPO_KERNELS_KERNELS_PRODUCT_H
#define FOPO_KERNELS_KERNELS_PRODUCT_H

#include "kernels/kernels_vectors.h"

enum {
  WIDTH = 2 * LANES, /* columns of a block */
  DEPTH = 256,       /* columns of b that are transposed at once: 32 KiB at most */
  HEIGHT = 8 * ROWS  /* rows of c that they serve */
};

/* A part of a product: c = alpha (from + a b) + beta c, or to = from + a b if `to` is not NULL. */
typedef struct {
  const fopo_product_task *o; /* alpha, beta, ldc */
  float *c;
  const float *a; /* number p of row i is a[i a_row + p a_step] */
  size_t a_row, a_step;
  const float *b;
  size_t ldb, k;
  const float *from; /* [.., WIDTH], the chains so far; NULL: 0 */
  float *to;         /* [.., WIDTH] */
} part;

/* One vector of c, or its first n numbers if `some`. */
INLINE void finish(float *c, floats sum, const fopo_product_task *o, size_t n, const int some) {
  floats y = v_fma(v_all(o->alpha), sum, v_zero());
  if (o->beta != 0) y = v_fma(v_all(o->beta), some ? v_load_first(c, n) : v_load(c), y);
  if (some) {
    v_store_first(c, y, n);
  } else {
    v_store(c, y);
  }
}

/* The first `rows` rows and `vectors` vectors of columns, of the last one n numbers if `some`.
 * Three rows of a are addressed from one pointer. */
INLINE void block(const part *x, const int rows, const int vectors, const int some, size_t n) {
  floats sum[2 * ROWS], y[2];
#pragma GCC unroll 24
  for (int i = 0; i < rows * vectors; i++) {
    size_t at = (size_t)(i / vectors) * WIDTH + (size_t)(i % vectors) * LANES;
    sum[i] = x->from == NULL ? v_zero() : v_load(x->from + at);
  }
  const float *a[(ROWS + 2) / 3], *b = x->b;
  size_t a_row = x->a_row, a_step = x->a_step, ldb = x->ldb;
#pragma GCC unroll 4
  for (int g = 0; 3 * g < rows; g++) a[g] = x->a + (size_t)(3 * g) * a_row;
#pragma GCC unroll 1
  for (size_t p = 0; p < x->k; p++, b += ldb) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      y[v] = some && v + 1 == vectors ? v_load_first(b + v * LANES, n) : v_load(b + v * LANES);
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
      floats number = v_all(a[r / 3][(size_t)(r % 3) * a_row]);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) {
        sum[r * vectors + v] = v_fma(number, y[v], sum[r * vectors + v]);
      }
    }
#pragma GCC unroll 4
    for (int g = 0; 3 * g < rows; g++) a[g] += a_step;
  }
#pragma GCC unroll 24
  for (int i = 0; i < rows * vectors; i++) {
    size_t row = (size_t)(i / vectors), at = (size_t)(i % vectors) * LANES;
    if (x->to != NULL) {
      v_store(x->to + row * WIDTH + at, sum[i]);
    } else {
      finish(x->c + row * x->o->ldc + at, sum[i], x->o, n, some && i % vectors + 1 == vectors);
    }
  }
}

/* The same of n <= WIDTH columns. */
INLINE void block_of(const part *x, const int rows, size_t n) {
  if (n == WIDTH) {
    block(x, rows, 2, 0, LANES);
  } else if (n > LANES) {
    block(x, rows, 2, 1, n - LANES);
  } else {
    block(x, rows, 1, 1, n);
  }
}

/* Rows of the next block if m are left: eight are two blocks of four rather than six and two. */
INLINE size_t rows_of(size_t m) {
  if (m >= ROWS && !(ROWS == 6 && m == 8)) return ROWS;
  return m >= 8 && ROWS > 8 ? 8 : m >= 4 ? 4 : m >= 2 ? 2 : 1;
}

/* m rows and n <= WIDTH columns. */
static void strip(part x, size_t m, size_t n) {
  while (m > 0) {
    size_t rows = rows_of(m);
    switch (rows) {
    case ROWS: block_of(&x, ROWS, n); break;
    case 8: block_of(&x, 8 < ROWS ? 8 : 1, n); break;
    case 4: block_of(&x, 4, n); break;
    case 2: block_of(&x, 2, n); break;
    default: block_of(&x, 1, n); break;
    }
    m -= rows;
    x.c += rows * x.o->ldc;
    x.a += rows * x.a_row;
    if (x.from != NULL) x.from += rows * WIDTH;
    if (x.to != NULL) x.to += rows * WIDTH;
  }
}

/* to [8, WIDTH] = from [8, ld] transposed */
INLINE void transpose(float *to, const float *from, size_t ld) {
  __m256 row[8], pair[8], four[8];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; i++) { /* columns 0 .. 3 of rows i and i + 4, then columns 4 .. 7 */
    const float *x = from + i * ld, *y = x + 4 * ld;
    row[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x)), _mm_loadu_ps(y), 1);
    row[i + 4] =
        _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x + 4)), _mm_loadu_ps(y + 4), 1);
  }
#pragma GCC unroll 2
  for (size_t i = 0; i < 8; i += 4) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    pair[i + 2] = _mm256_unpacklo_ps(row[i + 2], row[i + 3]);
    pair[i + 3] = _mm256_unpackhi_ps(row[i + 2], row[i + 3]);
    four[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    four[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
    four[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    four[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; i++) _mm256_storeu_ps(to + i * WIDTH, four[i]);
}

/* to [k, WIDTH] = from [n, k] transposed, of which 8 x 8 numbers at once. */
INLINE void turn(float *to, const float *from, size_t ld, size_t n, size_t k) {
  size_t whole_n = n - n % 8, whole_k = k - k % 8;
  for (size_t j = 0; j < whole_n; j += 8) {
    for (size_t p = 0; p < whole_k; p += 8) transpose(to + p * WIDTH + j, from + j * ld + p, ld);
  }
  for (size_t j = 0; j < n; j++) {
    for (size_t p = j < whole_n ? whole_k : 0; p < k; p++) to[p * WIDTH + j] = from[j * ld + p];
  }
}

/* n <= WIDTH columns of c, b transposed: the chains are cut into pieces of DEPTH, each of which
 * goes on from the sums so far. */
static void turned_strip(part x, size_t n) {
  float turned[DEPTH * WIDTH], sums[HEIGHT * WIDTH];
  const fopo_product_task *o = x.o;
  for (size_t i = 0; i < o->m; i += HEIGHT) {
    size_t m = o->m - i < HEIGHT ? o->m - i : HEIGHT, p = 0;
    do {
      size_t k = o->k - p < DEPTH ? o->k - p : DEPTH;
      part y = {.o = o, .c = x.c + i * o->ldc, .a_row = x.a_row, .a_step = x.a_step, .b = turned};
      y.a = x.a + i * x.a_row + p * x.a_step;
      y.ldb = WIDTH, y.k = k;
      y.from = p > 0 ? sums : NULL;
      y.to = p + k < o->k ? sums : NULL;
      if (i == 0 || o->k > DEPTH) turn(turned, x.b + p, x.ldb, n, k);
      strip(y, m, n);
      p += k;
    } while (p < o->k);
  }
}

static void product(const fopo_product_task *o) {
  part x = {.o = o, .a = o->a, .ldb = o->ldb, .k = o->k};
  x.a_row = o->transpose_a ? 1 : o->lda;
  x.a_step = o->transpose_a ? o->lda : 1;
  for (size_t j = 0; j < o->n; j += WIDTH) {
    size_t n = o->n - j < WIDTH ? o->n - j : WIDTH;
    x.c = o->c + j;
    x.b = o->transpose_b ? o->b + j * o->ldb : o->b + j;
    if (o->transpose_b) {
      turned_strip(x, n);
    } else {
      strip(x, o->m, n);
    }
  }
}

#endif
