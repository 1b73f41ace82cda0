/* Arrays of numbers that tests of kernels and devices work on. */
#ifndef FOPO_TESTS_NUMBERS_H
#define FOPO_TESTS_NUMBERS_H

#include <math.h>
#include <sys/mman.h>

#include "checks.h"
#include "core/rng.h"

/* n elements of 0, to be freed. */
static inline void *room(size_t n, size_t size) {
  void *block = calloc(n > 0 ? n : 1, size);
  assert_non_null(block);
  return block;
}

/* Normal numbers, to be freed. */
static inline float *normals(size_t n, double scale, uint64_t seed) {
  float *x = room(n, sizeof *x);
  fopo_fill_normal(x, n, scale, seed, FOPO_STREAM_WORLD);
  return x;
}

/* Numbers in (-1, 1) times `scale`. */
static inline void fill(float *x, size_t n, double scale, uint32_t seed) {
  for (size_t i = 0; i < n; i++) {
    double u = fopo_unit(fopo_random(seed, FOPO_STREAM_WORLD, 0, 0, (uint32_t)i).v[0]);
    x[i] = (float)(scale * (2 * u - 1));
  }
}

/* Memory that ends where a page begins that may not be touched (of 64 KiB, a multiple of every
 * page): DONE(release) guarded g. */
typedef struct {
  char *base;
  size_t bytes;
} guarded;

static inline void *guard_bytes(guarded *g, size_t bytes) {
  enum { PAGE = 65536 };
  size_t pages = (bytes + PAGE - 1) / PAGE + 1;
  g->bytes = (pages + 1) * PAGE;
  g->base = mmap(NULL, g->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g->base != MAP_FAILED);
  assert_int_equal(mprotect(g->base + pages * PAGE, PAGE, PROT_NONE), 0);
  return g->base + pages * PAGE - bytes;
}

static inline float *guard(guarded *g, size_t n) { return guard_bytes(g, n * sizeof(float)); }

static inline void release(guarded *g) { munmap(g->base, g->bytes); }

#endif
