/* What the kernels over item rows of AVX2, AVX-512 and NEON are made of; kernels_rows_drivers.h has
 * the kernels. */
#ifndef FOPO_KERNELS_KERNELS_ROWS_H
#define FOPO_KERNELS_KERNELS_ROWS_H

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/kernels_tables.h"
#include "kernels/rows.h"

enum {
  LINE = 64,
  AHEAD = 32, /* the prefetch distance in rows */
  PICK = 128, /* samples with c != 0 compacted at a time: their rows stay in L2 for all columns */
  PICK_SPARE = 16 /* AVX-512 stores whole vectors */
};

/* The address of row `id`; ld in elements of `type`. */
INLINE const char *row_at(const void *rows, size_t ld, uint32_t id, const fopo_float type) {
  return (const char *)rows + id * ld * fopo_float_bytes(type);
}

/* A row need not start at a cache line, so both ends are prefetched. Long rows go to L2: more loads
 * can be outstanding there than to L1. A row of one or two lines goes to L1. */
INLINE void prefetch_bytes(const char *row, size_t bytes) {
  if (bytes <= LINE) {
    __builtin_prefetch(row, 0, 3);
    __builtin_prefetch(row + bytes - 1, 0, 3);
    return;
  }
  for (size_t i = 0; i < bytes; i += LINE) __builtin_prefetch(row + i, 0, 2);
  __builtin_prefetch(row + bytes - 1, 0, 2);
}

#if defined(__x86_64__)
typedef __m128 four;

/* (a0 + a2) + (a1 + a3) */
INLINE float sum4(four a) {
  __m128 pair = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

/* f [4] = the same of four vectors. */
INLINE void store4(float *f, const four *sum) {
  __m128 a = sum[0], b = sum[1], c = sum[2], d = sum[3];
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(f, _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d)));
}
#endif

/* Samples to add, and the rows that the caller reads next, to prefetch. */
typedef struct {
  const char *rows;
  size_t ld;
  const uint32_t *id; /* [n] */
  const float *w;     /* [n] */
  size_t n;
  const uint32_t *next; /* [n_next] */
  size_t n_next;
} batch;

/* For sets that need no other for short rows: those without a number. */
#if !defined(__AVX512F__)
enum { LEAST_DIM = 1, SPREAD = 0 };
INLINE float short_one(const float *a, const float *b, size_t n) {
  (void)a, (void)b, (void)n;
  return 0.0f;
}
INLINE void short_dot(float *f, const void *rows, size_t ld, const uint32_t *ids, size_t count,
                      const float *q, size_t dim, const fopo_float type) {
  (void)rows, (void)ld, (void)ids, (void)q, (void)dim, (void)type;
  for (size_t s = 0; s < count; s++) f[s] = 0.0f;
}
INLINE void short_axpy(float *v, const void *rows, size_t ld, const uint32_t *ids, const float *c,
                       size_t count, size_t n_next, size_t dim, const fopo_float type) {
  (void)v, (void)rows, (void)ld, (void)ids, (void)c, (void)count, (void)n_next, (void)dim;
  (void)type;
}
#endif

#endif
