/* Randomness as a pure function: four 32-bit words from (seed, stream, step, row, index) by
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
 * 2011; Random123's header, the same for gcc, g++ and nvcc). There is no state, so the samples do
 * not depend on threads, ranks or the device.
 *
 * `stream` separates the uses of one seed; `step` is the training step, `row` the context's id in
 * its dataset (not its place in the batch), `index` the sample's block. */
#ifndef FOPO_CORE_RNG_H
#define FOPO_CORE_RNG_H

/* Philox needs none of the CPU's vector types, and the compiler takes longer to read their
 * declarations than most files of fopo. */
#define R123_USE_SSE 0
#include <Random123/philox.h>
#include <stddef.h>
#include <stdint.h>

/* The GPU draws with the three functions below, compiled by nvcc. */
#ifdef __CUDACC__
#define FOPO_ON_DEVICE __device__
#else
#define FOPO_ON_DEVICE
#endif

enum {
  FOPO_STREAM_SAMPLE = 1,    /* proposal draws */
  FOPO_STREAM_REDRAW = 2,    /* the rare second try of an unbiased bounded draw */
  FOPO_STREAM_SHUFFLE = 3,   /* order of contexts in an epoch */
  FOPO_STREAM_INIT = 4,      /* theta, array.randn */
  FOPO_STREAM_SPLIT = 5,     /* sessions: X / Y and train / valid / test */
  FOPO_STREAM_WORLD = 6,     /* synthetic data */
  FOPO_STREAM_SKETCH = 7,    /* randomised SVD */
  FOPO_STREAM_LEVEL = 8,     /* levels of the HNSW graph */
  FOPO_STREAM_BOOTSTRAP = 9, /* intervals */
  FOPO_STREAM_POLICY = 10,   /* REINFORCE's draws from the policy */
  FOPO_STREAM_LOGS = 11,     /* synthetic logs */
  FOPO_STREAM_RANKING = 12,  /* the random baseline */
  FOPO_STREAM_HELD = 13,     /* users whose sessions are held out */
  FOPO_STREAM_RESPLIT = 14,  /* X / Y of sessions, anew in each epoch */
  FOPO_STREAM_JUDGED = 15,   /* contexts and items that validation samples */
  FOPO_STREAM_ARRAY = 16,    /* array.uniform, a:draw */
  FOPO_STREAM_SLATE = 17     /* perturbed queries, whose best items are slates */
};

/* The `row` of draws that all contexts of a batch share. */
#define FOPO_ROW_OF_BATCH UINT32_MAX

typedef struct {
  uint32_t v[4];
} fopo_words;

FOPO_ON_DEVICE static inline fopo_words fopo_random(uint64_t seed, uint32_t stream, uint32_t step,
                                                    uint32_t row, uint32_t index) {
  philox4x32_ctr_t ctr = {{index, row, step, stream}};
  philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
  philox4x32_ctr_t out = philox4x32(ctr, key);
  fopo_words w = {{out.v[0], out.v[1], out.v[2], out.v[3]}};
  return w;
}

/* Uniform in (0, 1): (w + 0.5) / 2^32 in double, never 0 or 1. */
FOPO_ON_DEVICE static inline double fopo_unit(uint32_t w) {
  return ((double)w + 0.5) * (1.0 / 4294967296.0);
}

/* The first i < n whose cumulative[i] exceeds the target; n if none does, or for NaN. */
FOPO_ON_DEVICE static inline size_t fopo_invert(const double *cumulative, size_t n, double target) {
  size_t first = 0;
  while (n > 0) {
    size_t half = n / 2;
    int beyond = !(cumulative[first + half] > target);
    first = beyond ? first + half + 1 : first;
    n = beyond ? n - half - 1 : half;
  }
  return first;
}

/* Exactly uniform in 0 .. n - 1 (n >= 1) from one word: multiply-shift, and in the rare case that
 * would favour an id (probability < n / 2^32) a re-draw from FOPO_STREAM_REDRAW, itself a pure
 * function of the same coordinates; `index` there is the sample's own number. (Lemire: "Fast random
 * integer generation in an interval", TOMACS 2019.) */
FOPO_ON_DEVICE static inline uint32_t fopo_below(uint32_t n, uint32_t w, uint64_t seed,
                                                 uint32_t step, uint32_t row, uint32_t sample) {
  uint64_t m = (uint64_t)w * n;
  uint32_t low = (uint32_t)m;
  if (low < n) {
    uint32_t threshold = (0u - n) % n;
    for (uint32_t retry = 0; low < threshold; retry++) {
      fopo_words again = fopo_random(seed, FOPO_STREAM_REDRAW + (retry << 8), step, row, sample);
      m = (uint64_t)again.v[0] * n;
      low = (uint32_t)m;
    }
  }
  return (uint32_t)(m >> 32);
}

/* A pair of standard normals from two words (Box and Muller), in double. */
void fopo_normal_pair(double *a, double *b, uint32_t w0, uint32_t w1);

/* x[0 .. n-1] = scale * standard normal, or uniform in (0, 1) in steps of 2^-23; element i is a
 * function of (seed, stream, step, i) alone. */
void fopo_fill_normals(float *x, uint64_t n, double scale, uint64_t seed, uint32_t stream,
                       uint32_t step);
void fopo_fill_uniform(float *x, uint64_t n, uint64_t seed, uint32_t stream, uint32_t step);

static inline void fopo_fill_normal(float *x, uint64_t n, double scale, uint64_t seed,
                                    uint32_t stream) {
  fopo_fill_normals(x, n, scale, seed, stream, 0);
}

/* order becomes a permutation of 0 .. n-1, a function of (seed, stream, step) alone
 * (Fisher and Yates). */
void fopo_shuffle(uint32_t *order, uint32_t n, uint64_t seed, uint32_t stream, uint32_t step);

#endif
