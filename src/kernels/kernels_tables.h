/* The tables that kernels.c chooses from, and the code that they share. */
#ifndef FOPO_KERNELS_KERNELS_TABLES_H
#define FOPO_KERNELS_KERNELS_TABLES_H

#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "core/sort.h"
#include "kernels/bloom.h"
#include "kernels/kernels.h"

/* NULL where the build is not for x86-64. Whether the CPU can run it is asked in kernels.c. */
const fopo_kernels *fopo_kernels_portable(void);
const fopo_kernels *fopo_kernels_avx2(void);
const fopo_kernels *fopo_kernels_avx512(void);

/* kernels_rows_avx2.c, kernels_rows_avx512.c */
typedef void fopo_gather_dot(float *f, const float *rows, size_t ld, const uint32_t *ids,
                             size_t count, const float *q, size_t dim);
typedef void fopo_gather_axpy(float *v, const float *rows, size_t ld, const uint32_t *ids,
                              const float *c, size_t count, size_t after, size_t dim);
typedef void fopo_gather_dot_half(float *f, const uint16_t *rows, size_t ld, const uint32_t *ids,
                                  size_t count, const float *q, size_t dim);
typedef void fopo_gather_axpy_half(float *v, const uint16_t *rows, size_t ld, const uint32_t *ids,
                                   const float *c, size_t count, size_t after, size_t dim);
typedef float fopo_dot(const float *a, const float *b, size_t n);
fopo_dot fopo_dot_avx2, fopo_dot_avx512;
fopo_gather_dot fopo_gather_dot_avx2, fopo_gather_dot_avx512;
fopo_gather_axpy fopo_gather_axpy_avx2, fopo_gather_axpy_avx512;
fopo_gather_dot_half fopo_gather_dot_float16_avx2, fopo_gather_dot_bfloat16_avx2;
fopo_gather_dot_half fopo_gather_dot_float16_avx512, fopo_gather_dot_bfloat16_avx512;
fopo_gather_axpy_half fopo_gather_axpy_float16_avx2, fopo_gather_axpy_bfloat16_avx2;
fopo_gather_axpy_half fopo_gather_axpy_float16_avx512, fopo_gather_axpy_bfloat16_avx512;

/* The kernel `level`: the range between a column's least and largest value is halved 12 times. Each
 * table compiles it for its own vectors. */
#if defined(__AVX512F__)
enum { FOPO_LANES = 16 };
#elif defined(__AVX2__)
enum { FOPO_LANES = 8 };
#else
enum { FOPO_LANES = 4 };
#endif
typedef float fopo_floats __attribute__((vector_size(FOPO_LANES * sizeof(float))));
typedef int32_t fopo_ints __attribute__((vector_size(FOPO_LANES * sizeof(int32_t))));

static inline fopo_floats fopo_choose(fopo_ints yes, fopo_floats a, fopo_floats b) {
  return (fopo_floats)((yes & (fopo_ints)a) | (~yes & (fopo_ints)b));
}

static inline void fopo_approximate_kth_lanes(float *level, const float *x, size_t ld, size_t count,
                                              size_t rank) {
  fopo_floats low, high, row;
  memcpy(&low, x, sizeof low);
  high = low;
  for (size_t s = 1; s < count; s++) {
    memcpy(&row, x + s * ld, sizeof row);
    low = fopo_choose(row < low, row, low);
    high = fopo_choose(row > high, row, high);
  }
  for (int halving = 0; halving < 12; halving++) {
    fopo_floats middle = 0.5f * low + 0.5f * high;
    fopo_ints lacking = (fopo_ints){0} + (int32_t)rank;
    for (size_t s = 0; s < count; s++) {
      memcpy(&row, x + s * ld, sizeof row);
      lacking += row >= middle; /* true is -1 */
    }
    low = fopo_choose(lacking <= 0, middle, low);
    high = fopo_choose(lacking <= 0, high, middle);
  }
  memcpy(level, &low, sizeof low);
}

static inline void fopo_approximate_kth(float *level, const float *x, size_t ld, size_t count,
                                        size_t rank) {
  for (size_t j = 0; j < 16; j += FOPO_LANES) {
    fopo_approximate_kth_lanes(level + j, x + j, ld, count, rank);
  }
}

/* The kernel `adam`, as each table compiles it. No operation is fused or approximate. */
static inline void fopo_adam_all(float *theta, float *m, float *v, const float *G,
                                 const fopo_adam_step *o, size_t n) {
  fopo_adam_step s = *o;
#pragma omp simd
  for (size_t i = 0; i < n; i++) {
    float g = G[i] - s.decay * theta[i];
    m[i] = s.beta1 * m[i] + s.rest1 * g;
    v[i] = s.beta2 * v[i] + s.rest2 * g * g;
    /* theta += lr mhat / (sqrt(vhat) + eps) */
    theta[i] += s.lr * m[i] / (sqrtf(v[i] * s.unbias) + s.eps);
  }
}

/* The kernel `kth`: cuts the range of the keys until k of them lie in its upper part, in turn where
 * the k-th would be if they lay evenly, and in the middle. Each instruction set has its own passes
 * over the keys. */
typedef struct {
  size_t (*count)(const uint64_t *keys, size_t n, uint64_t least);   /* of those >= least */
  uint64_t (*least)(const uint64_t *keys, size_t n, uint64_t least); /* of those >= least */
  uint64_t (*most)(const uint64_t *keys, size_t n);
} fopo_key_passes;

static inline __attribute__((always_inline)) uint64_t fopo_kth(const uint64_t *keys, size_t n,
                                                               size_t k, fopo_key_passes pass) {
  uint64_t low = pass.least(keys, n, 0), high = pass.most(keys, n);
  if (k == 1) return high;
  size_t reach = n, beyond = 0; /* keys that are >= low, reach >= k; and > high, beyond < k */
  for (int even = 1; reach != k && low < high; even = !even) { /* equal keys end it too */
    double range = (double)(high - low) + 1;
    double part = even ? ((double)(reach - k) + 0.5) / (double)(reach - beyond) : 0.5;
    uint64_t middle = low + (uint64_t)(part * range);
    if (middle == low) middle++;
    if (middle > high) middle = high;
    size_t count = pass.count(keys, n, middle);
    if (count < k) {
      high = middle - 1;
      beyond = count;
    } else {
      low = middle;
      reach = count;
    }
  }
  return pass.least(keys, n, low);
}

/* kernels_portable.c; AVX2 compares no unsigned keys and packs no lanes. */
uint64_t fopo_kth_portable(const uint64_t *keys, size_t n, size_t k);
size_t fopo_keep_portable(uint64_t *keys, size_t n, uint64_t least);
size_t fopo_select_at_least_portable(uint32_t *list, const uint32_t *words, size_t n,
                                     uint64_t least);
size_t fopo_marked_portable(uint32_t *list, const uint32_t *ids, size_t n, const uint32_t *bloom,
                            unsigned bits);

/* Those kernels of one instruction set, from its own dot_row, gather_dot and gather_axpy, which
 * take the type of the rows as a constant. */
#define FOPO_GATHERS(name, row, type)                                                              \
  void fopo_gather_dot_##name(float *f, const row *rows, size_t ld, const uint32_t *ids,           \
                              size_t count, const float *q, size_t dim) {                          \
    gather_dot(f, rows, ld, ids, count, q, dim, type);                                             \
  }                                                                                                \
  void fopo_gather_axpy_##name(float *v, const row *rows, size_t ld, const uint32_t *ids,          \
                               const float *c, size_t count, size_t after, size_t dim) {           \
    gather_axpy(v, rows, ld, ids, c, count, after, dim, type);                                     \
  }
#define FOPO_ROW_KERNELS(isa)                                                                      \
  float fopo_dot_##isa(const float *a, const float *b, size_t n) {                                 \
    return dot_row((const char *)a, b, n, FOPO_FLOAT32);                                           \
  }                                                                                                \
  FOPO_GATHERS(isa, float, FOPO_FLOAT32)                                                           \
  FOPO_GATHERS(float16_##isa, uint16_t, FOPO_FLOAT16)                                              \
  FOPO_GATHERS(bfloat16_##isa, uint16_t, FOPO_BFLOAT16)

/* Samples first .. count - 1 of draw_uniform, one by one: the definition, and the vector tables'
 * tail and rare case. */
static inline void draw_uniform_from(uint32_t *ids, size_t first, uint32_t n, size_t count,
                                     uint64_t seed, uint32_t step, uint32_t row) {
  fopo_words words = {{0, 0, 0, 0}};
  for (size_t s = first; s < count; s++) {
    if (s == first || (s & 3) == 0) {
      words = fopo_random(seed, FOPO_STREAM_SAMPLE, step, row, (uint32_t)(s >> 2));
    }
    ids[s] = fopo_below(n, words.v[s & 3], seed, step, row, (uint32_t)s);
  }
}

/* Samples first + done .. first + count - 1 of draw_pairs, done even: its definition. */
static inline void draw_pairs_from(uint32_t *a, uint32_t *b, size_t done, size_t first,
                                   size_t count, uint64_t seed, uint32_t step, uint32_t row) {
  fopo_words words = {{0, 0, 0, 0}};
  for (size_t i = done; i < count; i++) {
    size_t s = first + i;
    if ((s & 1) == 0) {
      words = fopo_random(seed, FOPO_STREAM_SAMPLE, step, row, (uint32_t)(s >> 1));
    }
    a[i] = words.v[2 * (s & 1)];
    b[i] = words.v[2 * (s & 1) + 1];
  }
}

/* log x is e log 2 + log m, m in sqrt(1/2) .. sqrt(2), and with t = (m - 1) / (m + 1), z = t^2
 *   log m = 2 t (1 + z / 3 + z^2 / 5 + ..), cut where its error is 3e-14 of it. */
#define FOPO_LOG_TERMS                                                                             \
  { 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3, 2.0 }

#endif
