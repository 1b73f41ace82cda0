/* What the kernels over item rows of AVX2, AVX-512 and NEON have in common. */
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
  PICK = 128  /* samples with c != 0 compacted at a time: their rows stay in L2 for all columns */
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
/* (a0 + a2) + (a1 + a3) */
INLINE float sum4(__m128 a) {
  __m128 pair = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

/* The same of four vectors at once. */
INLINE __m128 sum4_each(__m128 a, __m128 b, __m128 c, __m128 d) {
  _MM_TRANSPOSE4_PS(a, b, c, d);
  return _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d));
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

#endif
