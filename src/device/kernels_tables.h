/* The tables that kernels.c chooses from, and the one piece of code that they share. */
#ifndef FOPO_DEVICE_KERNELS_TABLES_H
#define FOPO_DEVICE_KERNELS_TABLES_H

#include "device/kernels.h"

#include "core/rng.h"

/* NULL where the build is not for x86-64. Whether the CPU can run it is asked in kernels.c. */
const fopo_kernels *fopo_kernels_portable(void);
const fopo_kernels *fopo_kernels_avx2(void);
const fopo_kernels *fopo_kernels_avx512(void);

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

#endif
