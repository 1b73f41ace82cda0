/* Randomness: the published answers of Philox, uniformity of bounded draws, moments of normals,
 * permutations, and independence of threads. */
#include <math.h>

#include "checks.h"
#include "core/rng.h"
#include "core/threads.h"

static void assert_words(fopo_words w, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  uint32_t expected[4] = {a, b, c, d};
  assert_memory_equal(w.v, expected, sizeof expected);
}

/* fopo_random's counter is (index, row, step, stream), its key the two halves of the seed. */
TEST(known_answers) {
  assert_words(fopo_random(0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  assert_words(fopo_random(UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX), 0x408f276d,
               0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
  assert_words(fopo_random(0x299f31d0a4093822u, 0x03707344, 0x13198a2e, 0x85a308d3, 0x243f6a88),
               0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(unit_is_open) {
  assert_true(fopo_unit(0) > 0.0);
  assert_true(fopo_unit(UINT32_MAX) < 1.0);
  assert_true(fabs(fopo_unit(1u << 31) - 0.5) < 1e-9);
}

/* Draws per residue class, chi-square against equal shares: below mean + 5 standard deviations. */
static void assert_uniform(uint32_t n, uint32_t bins, uint32_t draws) {
  uint32_t count[64] = {0};
  for (uint32_t i = 0; i < draws; i++) {
    fopo_words w = fopo_random(7, FOPO_STREAM_SAMPLE, 1, n, i);
    uint32_t x = fopo_below(n, w.v[0], 7, 1, n, i);
    assert_true(x < n);
    count[(uint64_t)x * bins / n]++;
  }
  double chi2 = 0;
  for (uint32_t b = 0; b < bins; b++) {
    /* Bin b holds the x with x * bins / n == b. */
    uint64_t first = ((uint64_t)b * n + bins - 1) / bins;
    uint64_t next = ((uint64_t)(b + 1) * n + bins - 1) / bins;
    double expected = (double)draws * (double)(next - first) / (double)n;
    chi2 += (count[b] - expected) * (count[b] - expected) / expected;
  }
  double freedom = bins - 1;
  assert_true(chi2 < freedom + 5 * sqrt(2 * freedom));
}

TEST(below_is_uniform) {
  assert_uniform(2, 2, 100000);
  assert_uniform(7, 7, 100000);
  assert_uniform(1000003, 64, 200000);
  /* Here multiply-shift alone would give every third id twice the share of the others. */
  assert_uniform(3221225472u, 64, 200000);
  assert_uniform(3000000001u, 64, 200000);
  assert_uniform(UINT32_MAX, 64, 200000);
  for (uint32_t i = 0; i < 100; i++) {
    assert_int_equal(fopo_below(1, i * 0x9e3779b9u, 1, 1, 1, i), 0);
  }
}

/* With n = 3 * 2^30 four words share three ids: without the redraw the ids divisible by 3 would
 * come up half of the time, with it a third. */
TEST(below_redraws) {
  uint32_t n = 3221225472u, draws = 200000, count[3] = {0}, changed = 0;
  for (uint32_t i = 0; i < draws; i++) {
    fopo_words w = fopo_random(11, FOPO_STREAM_SAMPLE, 0, 0, i);
    uint32_t x = fopo_below(n, w.v[0], 11, 0, 0, i);
    count[x % 3]++;
    changed += x != (uint32_t)(((uint64_t)w.v[0] * n) >> 32);
  }
  double sd = sqrt((double)draws * (1.0 / 3) * (2.0 / 3));
  for (int c = 0; c < 3; c++) assert_true(fabs(count[c] - draws / 3.0) < 4.5 * sd);
  assert_true(fabs(changed - draws / 4.0) < 4.5 * sqrt((double)draws * 0.25 * 0.75));
}

TEST(normals_have_moments) {
  enum { N = 400001 };
  FREED(fopo_free) float *x = fopo_alloc(N, sizeof *x);
  fopo_fill_normal(x, N, 2.0, 5, FOPO_STREAM_INIT);
  double mean = 0, square = 0, cube = 0, fourth = 0, product = 0;
  for (int i = 0; i < N; i++) {
    double z = (double)x[i] / 2.0;
    assert_true(fabs(z) < 7.0);
    mean += z / N;
    square += z * z / N;
    cube += z * z * z / N;
    fourth += z * z * z * z / N;
    if (i > 0) product += z * (double)x[i - 1] / 2.0 / N;
  }
  double unit = 5.0 / sqrt(N); /* five standard errors of a mean with variance 1 */
  assert_true(fabs(mean) < unit);
  assert_true(fabs(square - 1.0) < sqrt(2.0) * unit);
  assert_true(fabs(cube) < sqrt(15.0) * unit);
  assert_true(fabs(fourth - 3.0) < sqrt(96.0) * unit);
  assert_true(fabs(product) < unit);
}

TEST(normals_do_not_depend) {
  enum { N = 10003 };
  static float one[N], other[N];
  fopo_threads_set(1);
  fopo_fill_normal(one, N, 1.0, 9, FOPO_STREAM_SKETCH);
  for (int threads = 2; threads <= 4; threads += 2) {
    fopo_threads_set(threads);
    memset(other, 0, sizeof other);
    fopo_fill_normal(other, N, 1.0, 9, FOPO_STREAM_SKETCH);
    assert_memory_equal(one, other, sizeof one);
  }
  /* Element i depends on i alone, not on how many are asked for. */
  memset(other, 0, sizeof other);
  fopo_fill_normal(other, 5, 1.0, 9, FOPO_STREAM_SKETCH);
  assert_memory_equal(one, other, 5 * sizeof *one);
  assert_true(other[5] == 0.0f);
  fopo_fill_normal(other, 5, 1.0, 9, FOPO_STREAM_INIT);
  assert_memory_not_equal(one, other, 5 * sizeof *one);
}

TEST(shuffle_permutes) {
  enum { N = 1000 };
  uint32_t order[N], again[N];
  unsigned char seen[N] = {0};
  fopo_shuffle(order, N, 3, FOPO_STREAM_SHUFFLE, 0);
  fopo_shuffle(again, N, 3, FOPO_STREAM_SHUFFLE, 0);
  assert_memory_equal(order, again, sizeof order);
  for (int i = 0; i < N; i++) {
    assert_true(order[i] < N);
    assert_false(seen[order[i]]);
    seen[order[i]] = 1;
  }
  fopo_shuffle(again, N, 3, FOPO_STREAM_SHUFFLE, 1);
  assert_memory_not_equal(order, again, sizeof order);
  fopo_shuffle(again, 1, 3, FOPO_STREAM_SHUFFLE, 1);
  assert_int_equal(again[0], 0);
  fopo_shuffle(again, 0, 3, FOPO_STREAM_SHUFFLE, 1);
}

/* The four normals of a block of random words are independent of each other. */
TEST(normals_are_independent) {
  enum { BLOCKS = 20000 };
  static float x[4 * BLOCKS];
  fopo_fill_normal(x, 4 * BLOCKS, 1.0, 5, FOPO_STREAM_INIT);
  for (int i = 0; i < 4; i++) {
    for (int j = 0; j < i; j++) {
      double products = 0, squares = 0;
      for (int b = 0; b < BLOCKS; b++) {
        double u = (double)x[4 * b + i], v = (double)x[4 * b + j];
        products += u * v / BLOCKS;
        squares += (u * u - 1) * (v * v - 1) / 2 / BLOCKS;
      }
      assert_true(fabs(products) < 5 / sqrt(BLOCKS) && fabs(squares) < 5 / sqrt(BLOCKS));
    }
  }
}

/* All 24 orders of four ids, 48,000 shuffles. */
TEST(shuffle_is_fair) {
  enum { ROUNDS = 48000 };
  uint32_t count[256] = {0};
  for (uint32_t step = 0; step < ROUNDS; step++) {
    uint32_t o[4];
    fopo_shuffle(o, 4, 17, FOPO_STREAM_SHUFFLE, step);
    count[o[0] | o[1] << 2 | o[2] << 4 | o[3] << 6]++;
  }
  double expected = ROUNDS / 24.0, chi2 = 0;
  int orders = 0;
  for (int i = 0; i < 256; i++) {
    if (count[i] == 0) continue;
    orders++;
    chi2 += (count[i] - expected) * (count[i] - expected) / expected;
  }
  assert_int_equal(orders, 24);
  assert_true(chi2 < 23 + 5 * sqrt(46.0));
}

int main(void) { return run_all(NULL, NULL); }
