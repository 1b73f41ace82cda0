/* The instruction sets that kernels.c chooses from, and the code that their files share. */
#ifndef FOPO_KERNELS_KERNELS_TABLES_H
#define FOPO_KERNELS_KERNELS_TABLES_H

#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "core/sort.h"
#include "kernels/bloom.h"
#include "kernels/kernels.h"

#define X(name, base, cpu_has_it) int fopo_kernels_fill_##name(fopo_kernels *table);
#include "kernels/instruction_sets.def"
#undef X

/* Begins that function. */
#define FOPO_KERNELS_FILL(name, table) int fopo_kernels_fill_##name(fopo_kernels *(table))

/* The kernels over item rows, as kernels_rows_NAME.c defines them. AVX-512 leaves rows shorter than
 * its vectors to AVX2. */
typedef void fopo_gather_dot(float *f, const float *rows, size_t ld, const uint32_t *ids,
                             size_t count, const float *q, size_t dim);
typedef void fopo_gather_axpy(float *v, const float *rows, size_t ld, const uint32_t *ids,
                              const float *c, size_t count, size_t n_next, size_t dim);
typedef void fopo_gather_dot_half(float *f, const uint16_t *rows, size_t ld, const uint32_t *ids,
                                  size_t count, const float *q, size_t dim);
typedef void fopo_gather_axpy_half(float *v, const uint16_t *rows, size_t ld, const uint32_t *ids,
                                   const float *c, size_t count, size_t n_next, size_t dim);
typedef float fopo_dot(const float *a, const float *b, size_t n);
typedef void fopo_product_kernel(const fopo_product_task *o);
#define X(name, base, cpu_has_it)                                                                  \
  fopo_product_kernel fopo_product_##name;                                                         \
  void fopo_fill_rows_##name(fopo_kernels *table);                                                 \
  fopo_dot fopo_dot_##name;                                                                        \
  fopo_gather_dot fopo_gather_dot_##name;                                                          \
  fopo_gather_axpy fopo_gather_axpy_##name;                                                        \
  fopo_gather_dot_half fopo_gather_dot_float16_##name, fopo_gather_dot_bfloat16_##name;            \
  fopo_gather_axpy_half fopo_gather_axpy_float16_##name, fopo_gather_axpy_bfloat16_##name;
#include "kernels/instruction_sets.def"
#undef X

/* The kernels of AVX2 over keys, words and ids (kernels_keys_avx2.c). */
uint64_t fopo_kth_avx2(const uint64_t *keys, size_t n, size_t k);
void fopo_sort_avx2(uint64_t *keys, size_t n);
size_t fopo_partition_at_least_avx2(uint64_t *keys, size_t n, uint64_t least);
size_t fopo_select_at_least_avx2(uint32_t *list, const uint32_t *words, size_t n, uint64_t least);
size_t fopo_select_in_bloom_avx2(uint32_t *list, const uint32_t *ids, size_t n,
                                 const uint32_t *bloom, unsigned bits);

/* Inlined into every caller, so that sizes which are constants there are constants here too. */
#define INLINE static inline __attribute__((always_inline))

/* Row s of the kernels that take rows by id or, if ids is NULL, in place. */
INLINE const float *row_of(const float *rows, size_t ld, const uint32_t *ids, size_t s) {
  return rows + (ids != NULL ? ids[s] : s) * ld;
}

/* dim > 0. Both ends, because a row need not start at a cache line. */
INLINE void prefetch_row(const float *row, size_t dim) {
  for (size_t i = 0; i < dim; i += 16) __builtin_prefetch(row + i);
  __builtin_prefetch(row + dim - 1);
}

/* The kernel `approximate_kth` by bisection: the range between a column's smallest and largest
 * value is halved 12 times. Each table compiles it for vectors of its own width. */
#if defined(__AVX512F__)
enum { FOPO_LANES = 16 };
#elif defined(__AVX2__)
enum { FOPO_LANES = 8 };
#else
enum { FOPO_LANES = 4 };
#endif
typedef float fopo_floats __attribute__((vector_size(FOPO_LANES * sizeof(float))));
typedef int32_t fopo_ints __attribute__((vector_size(FOPO_LANES * sizeof(int32_t))));

/* a where the mask is all ones, b where it is 0. */
static inline fopo_floats fopo_choose(fopo_ints mask, fopo_floats a, fopo_floats b) {
  return (fopo_floats)((mask & (fopo_ints)a) | (~mask & (fopo_ints)b));
}

/* FOPO_LANES columns. Invariant: at least `rank` values of a column are >= low, fewer are >= high,
 * unless high is the largest. */
static inline void fopo_approximate_kth_lanes(float *kth, const float *x, size_t ld, size_t count,
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
    fopo_ints missing = (fopo_ints){0} + (int32_t)rank;
    for (size_t s = 0; s < count; s++) {
      memcpy(&row, x + s * ld, sizeof row);
      missing += row >= middle; /* true is -1 */
    }
    low = fopo_choose(missing <= 0, middle, low);
    high = fopo_choose(missing <= 0, high, middle);
  }
  memcpy(kth, &low, sizeof low);
}

static inline void fopo_approximate_kth(float *kth, const float *x, size_t ld, size_t count,
                                        size_t rank) {
  for (size_t j = 0; j < 16; j += FOPO_LANES) {
    fopo_approximate_kth_lanes(kth + j, x + j, ld, count, rank);
  }
}

/* The kernels `adam` and `adagrad`. Each table compiles them for its own vectors; no operation is
 * fused or approximate, so the bits are the same. */
static inline void fopo_adam_all(float *theta, float *m, float *v, const float *G,
                                 const fopo_adam_step *o, size_t n) {
  fopo_adam_step s = *o;
#pragma omp simd
  for (size_t i = 0; i < n; i++) {
    float g = s.scale * G[i] - s.decay * theta[i];
    m[i] = s.beta1 * m[i] + s.rest1 * g;
    v[i] = s.beta2 * v[i] + s.rest2 * g * g;
    /* theta = keep theta + lr mhat / (sqrt(vhat) + eps) */
    theta[i] = s.keep * theta[i] + s.lr * m[i] / (sqrtf(v[i] * s.unbias) + s.eps);
  }
}

static inline void fopo_adagrad_all(float *theta, float *v, const float *G,
                                    const fopo_adagrad_step *o, size_t n) {
  fopo_adagrad_step s = *o;
#pragma omp simd
  for (size_t i = 0; i < n; i++) {
    float g = s.scale * G[i] - s.decay * theta[i];
    v[i] += g * g;
    theta[i] = s.keep * theta[i] + s.lr * g / (sqrtf(v[i]) + s.eps);
  }
}

/* The kernel `kth`: narrows the range [low, high] that holds the k-th largest key. It is cut
 * alternately where the k-th would be if the keys were uniform in the range (interpolation search:
 * a few passes on most data) and in the middle (bisection: at most 64 more on any data). Each
 * instruction set has its own three passes over the keys. */
typedef struct {
  size_t (*count)(const uint64_t *keys, size_t n, uint64_t least); /* how many are >= least */
  uint64_t (*min)(const uint64_t *keys, size_t n, uint64_t least); /* the smallest >= least */
  uint64_t (*max)(const uint64_t *keys, size_t n);                 /* the largest */
} fopo_key_passes;

INLINE uint64_t fopo_kth(const uint64_t *keys, size_t n, size_t k, fopo_key_passes pass) {
  uint64_t low = pass.min(keys, n, 0), high = pass.max(keys, n);
  if (k == 1) return high;
  /* Invariant: n_from >= k keys are >= low and n_beyond < k keys are > high. */
  size_t n_from = n, n_beyond = 0;
  /* Done when exactly k keys are >= low, or when the range is one value (equal keys). */
  for (int interpolate = 1; n_from != k && low < high; interpolate = !interpolate) {
    double range = (double)(high - low) + 1;
    double part = interpolate ? ((double)(n_from - k) + 0.5) / (double)(n_from - n_beyond) : 0.5;
    uint64_t middle = low + (uint64_t)(part * range);
    if (middle == low) middle++;
    if (middle > high) middle = high;
    size_t count = pass.count(keys, n, middle);
    if (count < k) {
      high = middle - 1;
      n_beyond = count;
    } else {
      low = middle;
      n_from = count;
    }
  }
  return pass.min(keys, n, low);
}

/* Samples first .. count - 1 of draw_uniform, one by one: the definition, and what the vector code
 * calls for its tail and for a block in which fopo_below must reject a word. */
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

/* Samples first + done .. first + count - 1 of draw_pairs, done even, one by one: the definition,
 * and the tail of the vector code. */
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
