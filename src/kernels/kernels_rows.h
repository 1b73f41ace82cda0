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

/* Each file defines these for its vectors. pick compacts the samples with c != 0 and returns how
 * many; it may write PICK_SPARE more. add_rows adds the samples of b to v. */
INLINE size_t pick(uint32_t *id, float *w, const uint32_t *ids, const float *c, size_t count);
INLINE void add_rows(float *v, const batch *b, size_t dim, const fopo_float type);

/* gather_axpy of kernels/kernels.h, for rows of any type. */
INLINE void add_picked(float *v, const void *rows, size_t ld, const uint32_t *ids, const float *c,
                       size_t count, size_t n_next, size_t dim, const fopo_float type) {
  uint32_t id[PICK + PICK_SPARE];
  float w[PICK + PICK_SPARE];
  for (size_t s = 0; s < count; s += PICK) {
    size_t n = pick(id, w, ids + s, c + s, count - s < PICK ? count - s : PICK);
    size_t prefetched = s / 4 < n_next ? s / 4 : n_next; /* one for every fourth sample so far */
    batch b = {rows, ld, id, w, n, ids + count + prefetched, n_next - prefetched};
    if (n > 0) add_rows(v, &b, dim, type);
  }
}

#endif
