/* Normals and permutations, pure functions of their coordinates. Normals by Box and Muller ("A note
 * on the generation of random normal deviates", 1958). */
#include "core/rng.h"

#include <math.h>

#include "core/threads.h"

#define TWO_PI 6.283185307179586476925286766559

void fopo_normal_pair(double *a, double *b, uint32_t w0, uint32_t w1) {
  /* a, b = sqrt(-2 log u) (cos, sin)(2 pi v) */
  double radius = sqrt(-2.0 * log(fopo_unit(w0)));
  double angle = TWO_PI * fopo_unit(w1);
  *a = radius * cos(angle);
  *b = radius * sin(angle);
}

/* The words of elements 4 block .. 4 block + 3. The upper 32 bits of the block's number stand in
 * the place of the step, which has the row's. */
static fopo_words words_of(uint64_t block, uint64_t seed, uint32_t stream, uint32_t step) {
  return fopo_random(seed, stream, (uint32_t)(block >> 32), step, (uint32_t)block);
}

void fopo_fill_normals(float *x, uint64_t n, double scale, uint64_t seed, uint32_t stream,
                       uint32_t step) {
  uint64_t blocks = n / 4 + (n % 4 != 0);
#pragma omp parallel for num_threads(fopo_threads()) if (n > 4096)
  for (uint64_t block = 0; block < blocks; block++) {
    fopo_words w = words_of(block, seed, stream, step);
    double z[4];
    fopo_normal_pair(&z[0], &z[1], w.v[0], w.v[1]);
    fopo_normal_pair(&z[2], &z[3], w.v[2], w.v[3]);
    for (uint64_t j = 0; j < 4 && 4 * block + j < n; j++) {
      x[4 * block + j] = (float)(scale * z[j]);
    }
  }
}

void fopo_fill_uniform(float *x, uint64_t n, uint64_t seed, uint32_t stream, uint32_t step) {
  uint64_t blocks = n / 4 + (n % 4 != 0);
#pragma omp parallel for num_threads(fopo_threads()) if (n > 4096)
  for (uint64_t block = 0; block < blocks; block++) {
    fopo_words w = words_of(block, seed, stream, step);
    for (uint64_t j = 0; j < 4 && 4 * block + j < n; j++) {
      x[4 * block + j] = ((float)(w.v[j] >> 9) + 0.5f) * 0x1p-23f;
    }
  }
}

void fopo_shuffle(uint32_t *order, uint32_t n, uint64_t seed, uint32_t stream, uint32_t step) {
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  fopo_words w = {{0, 0, 0, 0}};
  for (uint32_t i = 0; i + 1 < n; i++) {
    if (i % 4 == 0) w = fopo_random(seed, stream, step, 0, i / 4);
    /* The stream takes the place of the row, so that redraws of two streams differ. */
    uint32_t j = i + fopo_below(n - i, w.v[i % 4], seed, step, stream, i);
    uint32_t swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
}
