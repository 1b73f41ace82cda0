/* The norm order against an insertion that is too slow to be wrong. */
#include <float.h>
#include <math.h>

#include "checks.h"
#include "core/rng.h"
#include "core/threads.h"
#include "mips/order.h"

typedef struct {
  float norm;
  uint32_t id;
} pair;

static int before(const void *a, const void *b) {
  const pair *x = a, *y = b;
  if (x->norm != y->norm) return x->norm > y->norm ? -1 : 1;
  return x->id < y->id ? -1 : 1;
}

/* Norms of many sizes; every third of them one of a few, so that there are ties. narrow: nearly all
 * between 1 and 1.1, and few far away, so that most have the same first digit. */
static float norm_at(size_t i, int narrow) {
  static const float few[] = {0.0f, FLT_MIN, 1e-45f, 1.0f, 1e18f, FLT_MAX};
  uint32_t w = fopo_random(7, FOPO_STREAM_WORLD, 0, (uint32_t)i, 0).v[0];
  if (narrow && w % 1000 > 0) return 1.0f + (float)(w % 4096) * 0x1p-16f;
  if (w % 3 == 0) return few[w / 3 % 6];
  return ldexpf((float)(w >> 8) * 0x1p-24f, (int)(w % 60) - 40);
}

static void check(size_t n, int threads, int narrow) {
  FREED(free) pair *expected = calloc(n, sizeof *expected);
  FREED(free) float *norms = calloc(n, sizeof *norms);
  FREED(free) uint32_t *order = calloc(n, sizeof *order);
  for (size_t i = 0; i < n; i++) expected[i] = (pair){norms[i] = norm_at(i, narrow), (uint32_t)i};
  qsort(expected, n, sizeof *expected, before);
  ok(fopo_threads_set(threads));
  ok(fopo_order_descending(order, norms, n));
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(order[i], expected[i].id);
    assert_true(norms[i] == expected[i].norm);
  }
}

TEST(descending_and_stable) {
  size_t sizes[] = {1, 2, 3, 100, 40000, 100003};
  for (size_t i = 0; i < 6; i++) {
    for (int threads = 1; threads <= 4; threads++) check(sizes[i], threads, threads % 2);
    check(sizes[i], 4, 1);
    check(sizes[i], 1, 0);
  }
}

TEST(memory_faults_are_said) {
  float norms[3] = {1.0f, 3.0f, 2.0f};
  uint32_t order[3];
  for (long n = 0; n < 3; n++) {
    fopo_memory_fail_after(n, 0);
    assert_int_equal(fopo_order_descending(order, norms, 3), FOPO_ERR_MEMORY);
  }
  fopo_memory_fail_after(-1, 0);
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

int main(void) { return run_all(NULL, NULL); }
