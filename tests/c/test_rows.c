/* Rows of 16 bits: the conversions against what the formats say, the kernels of every table against
 * sums in double, and what the copy refuses. Inputs end at a page that may not be touched. */
#include "core/threads.h"
#include "device/device.h"
#include "kernels/kernels.h"
#include "numbers.h"

FREED_BY(fopo_device_close, fopo_device)

enum { ROWS = 61, COUNT = 130 };

static const size_t dims[] = {1,  2,  7,  8,  9,  10, 15, 16,  17,  24,  31,  32,  33,  47,
                              48, 63, 64, 65, 80, 96, 97, 100, 111, 127, 128, 129, 200, 1000};

/* ---- one number ---- */

/* Sign, 2^(exponent - 15) and ten bits behind the point, as IEEE 754 defines it. */
static double value16(uint16_t x) {
  int exponent = x >> 10 & 31;
  double fraction = (x & 1023) / 1024.0, sign = x >> 15 ? -1.0 : 1.0;
  if (exponent == 31) return fraction == 0.0 ? sign * (double)INFINITY : (double)NAN;
  return sign * (exponent == 0 ? ldexp(fraction, -14) : ldexp(1.0 + fraction, exponent - 15));
}

TEST(test_float16) {
  for (uint32_t i = 0; i < 0x10000u; i++) {
    uint16_t x = (uint16_t)i;
    double expected = value16(x);
    float got = fopo_from_float16(x);
    if (isnan(expected)) {
      assert_true(isnan(got) && isnan(fopo_from_float16(fopo_to_float16(got))));
      continue;
    }
    assert_true((double)got == expected);
    assert_int_equal(fopo_to_float16(got), x); /* both zeros keep their sign */
  }
  /* between two neighbours: half way goes to the even one, all else to the nearer one */
  for (uint32_t x = 0; x < 0x7bffu; x++) {
    float low = fopo_from_float16((uint16_t)x), high = fopo_from_float16((uint16_t)(x + 1));
    float half = low + (high - low) / 2.0f;
    uint16_t even = (uint16_t)(x % 2 == 0 ? x : x + 1);
    assert_int_equal(fopo_to_float16(half), even);
    assert_int_equal(fopo_to_float16(-half), even | 0x8000);
    assert_int_equal(fopo_to_float16(nextafterf(half, INFINITY)), x + 1);
    assert_int_equal(fopo_to_float16(nextafterf(half, 0.0f)), x);
  }
  assert_int_equal(fopo_to_float16(65504.0f), 0x7bff);
  assert_int_equal(fopo_to_float16(nextafterf(65520.0f, 0.0f)), 0x7bff);
  assert_int_equal(fopo_to_float16(65520.0f), 0x7c00);
  assert_int_equal(fopo_to_float16(-INFINITY), 0xfc00);
}

TEST(test_bfloat16) {
  for (uint32_t x = 0; x < 0x7f80u; x++) { /* the finite numbers from 0 on */
    float low = fopo_from_bfloat16((uint16_t)x);
    assert_int_equal(fopo_float_bits(low), x << 16);
    assert_int_equal(fopo_to_bfloat16(low), x);
    assert_int_equal(fopo_to_bfloat16(-low), x | 0x8000);
    float half = fopo_bits_float(x << 16 | 0x8000u);
    assert_int_equal(fopo_to_bfloat16(half), x % 2 == 0 ? x : x + 1);
    assert_int_equal(fopo_to_bfloat16(fopo_bits_float(x << 16 | 0x8001u)), x + 1);
    assert_int_equal(fopo_to_bfloat16(fopo_bits_float(x << 16 | 0x7fffu)), x);
  }
  assert_int_equal(fopo_to_bfloat16(INFINITY), 0x7f80);
  assert_true(isnan(fopo_from_bfloat16(fopo_to_bfloat16(fopo_bits_float(0x7f800001u)))));
}

/* ---- the copy ---- */

TEST(test_halve) {
  enum { P = 50, L = 11, LD = 13 };
  float x[P * LD];
  uint16_t half[P * 16];
  fopo_matrix items = {x, P, L, LD};
  fill(x, P * LD, 3, 1);
  assert_int_equal(fopo_rows_ld(L), 16);
  for (fopo_float type = FOPO_FLOAT16; type <= FOPO_BFLOAT16; type++) {
    memset(half, 0xff, sizeof half);
    ok(fopo_rows_halve(half, items, type));
    for (size_t i = 0; i < (size_t)P * 16; i++) {
      uint16_t expected = 0;
      if (i % 16 < L) {
        float value = x[i / 16 * LD + i % 16];
        expected = type == FOPO_FLOAT16 ? fopo_to_float16(value) : fopo_to_bfloat16(value);
      }
      assert_int_equal(half[i], expected);
    }
  }
}

TEST(test_halve_refuses) {
  enum { P = 300, L = 8 };
  float x[P * L];
  uint16_t half[P * L];
  fopo_matrix items = {x, P, L, L};
  fill(x, P * L, 1, 1);
  x[249 * L + 3] = -70000.0f;
  x[280 * L] = 1e30f;
  refused(fopo_rows_halve(half, items, FOPO_FLOAT16), FOPO_ERR_NUMERIC,
          "item 250 has an entry of size 70000");
  says("bfloat16");
  ok(fopo_rows_halve(half, items, FOPO_BFLOAT16));
  x[0] = 3.4e38f;
  refused(fopo_rows_halve(half, items, FOPO_BFLOAT16), FOPO_ERR_NUMERIC, "use float32");

  fill(x, P * L, 1e-6, 1);
  refused(fopo_rows_halve(half, items, FOPO_FLOAT16), FOPO_ERR_NUMERIC, "too small");
  ok(fopo_rows_halve(half, items, FOPO_BFLOAT16));
  x[5] = 1.0f; /* the small ones hardly count then */
  ok(fopo_rows_halve(half, items, FOPO_FLOAT16));
}

/* ---- the kernels ---- */

typedef struct {
  void (*dot)(float *f, const uint16_t *rows, size_t ld, const uint32_t *ids, size_t count,
              const float *q, size_t dim);
  void (*axpy)(float *v, const uint16_t *rows, size_t ld, const uint32_t *ids, const float *c,
               size_t count, size_t after, size_t dim);
  float (*value)(uint16_t x);
} half_kernels;

static half_kernels of_type(const fopo_kernels *k, fopo_float type) {
  if (type == FOPO_FLOAT16) {
    return (half_kernels){k->gather_dot_float16, k->gather_axpy_float16, fopo_from_float16};
  }
  return (half_kernels){k->gather_dot_bfloat16, k->gather_axpy_bfloat16, fopo_from_bfloat16};
}

static void assert_sum(double got, double expected, double size, size_t n) {
  double tolerance = (double)(n + 2) * 6e-8 * size;
  if (!(fabs(got - expected) <= tolerance)) {
    fail_msg("%.9g instead of %.9g (tolerance %.3g)", got, expected, tolerance);
  }
}

static void check_sums(const half_kernels *k, fopo_float type, size_t dim, size_t count) {
  size_t ld = fopo_rows_ld(dim);
  DONE(release) guarded gr, gq, gv;
  uint16_t *rows = guard_bytes(&gr, ROWS * ld * sizeof *rows);
  float *q = guard(&gq, dim), *v = guard(&gv, dim);
  float f[COUNT + 1], c[COUNT], *x = calloc(ROWS * dim, sizeof *x);
  double expected[1000], size[1000];
  uint32_t ids[COUNT];
  assert_non_null(x);
  fill(x, ROWS * dim, 1, 5);
  fill(q, dim, 1, 6);
  fill(v, dim, 1, 8);
  fill(c, count, 1, 9);
  ok(fopo_rows_halve(rows, fopo_matrix_view(x, ROWS, dim), type));
  for (size_t i = 0; i < dim; i++) expected[i] = (double)v[i], size[i] = fabs((double)v[i]);
  for (size_t s = 0; s < count; s++) {
    ids[s] = (uint32_t)((s * 37 + 60) % ROWS);
    if (s % 5 == 2) c[s] = 0;
  }
  f[count] = 123.0f;
  k->dot(f, rows, ld, ids, count, q, dim);
  assert_true(f[count] == 123.0f);
  for (size_t s = 0; s < count; s++) {
    double sum = 0, absolute = 0;
    for (size_t i = 0; i < dim; i++) {
      double value = (double)k->value(rows[ids[s] * ld + i]), product = value * (double)q[i];
      sum += product;
      absolute += fabs(product);
      expected[i] += (double)c[s] * value;
      size[i] += fabs((double)c[s] * value);
    }
    assert_sum((double)f[s], sum, absolute, dim);
  }
  k->axpy(v, rows, ld, ids, c, count, 0, dim);
  for (size_t i = 0; i < dim; i++) assert_sum((double)v[i], expected[i], size[i], count + 1);
  free(x);
}

/* Every number there is, alone in a row. */
static void check_values(const half_kernels *k) {
  enum { ALL = 1 << 16 };
  FREED(free) uint16_t *rows = calloc(ALL, FOPO_ROWS_PAD * sizeof *rows);
  FREED(free) uint32_t *ids = calloc(ALL, sizeof *ids);
  float *f = calloc(ALL, sizeof *f), one = 1.0f;
  assert_true(rows && ids && f);
  for (uint32_t i = 0; i < ALL; i++) {
    ids[i] = i;
    rows[i * FOPO_ROWS_PAD] = (uint16_t)i;
  }
  k->dot(f, rows, FOPO_ROWS_PAD, ids, ALL, &one, 1);
  for (uint32_t i = 0; i < ALL; i++) {
    float expected = k->value((uint16_t)i), sum = 0;
    assert_true(isnan(expected) ? isnan(f[i]) : f[i] == expected);
    k->axpy(&sum, rows, FOPO_ROWS_PAD, ids + i, &one, 1, 0, 1);
    assert_true(isnan(expected) ? isnan(sum) : sum == expected);
  }
  free(f);
}

TEST(test_kernels) {
  const char *name;
  for (size_t t = 0; (name = fopo_kernels_name(t)) != NULL; t++) {
    const fopo_kernels *table = fopo_kernels_named(name);
    if (table == NULL) {
      print_message("%s: skipped, this CPU lacks it\n", name);
      continue;
    }
    for (fopo_float type = FOPO_FLOAT16; type <= FOPO_BFLOAT16; type++) {
      half_kernels k = of_type(table, type);
      for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        for (size_t count = 0; count < 9; count++) check_sums(&k, type, dims[i], count);
        check_sums(&k, type, dims[i], COUNT);
      }
      check_values(&k);
    }
  }
}

/* ---- the device's operations ---- */

/* scores and snis over halves are scores and snis over the numbers that the halves stand for. */
TEST(test_device) {
  enum { B = 5, S = 90, P = 200, L = 37 };
  FREED(fopo_device_close) fopo_device *d = NULL;
  ok(fopo_device_cpu_open(&d));
  static float x[P * L], back[P * L], Q[B * L], logq[B * S], r[B * S], f[2][B * S];
  static float V[3][B * L], c[2][B * S], stats[3][B * FOPO_STATS];
  static uint16_t half[P * 40];
  uint32_t ids[B * S];
  fopo_samples samples = {ids, logq, r};
  fopo_device_batch batch = {.B = B, .S = S, .P = P, .L = L, .Q = Q};
  fill(x, P * L, 1, 1);
  fill(Q, B * L, 0.7, 2);
  fill(logq, B * S, 1, 3);
  for (size_t i = 0; i < (size_t)B * S; i++) {
    ids[i] = (uint32_t)(i * 53 % P);
    r[i] = ids[i] % 5 == 0 ? 1.0f : 0.0f;
  }
  for (fopo_float type = FOPO_FLOAT16; type <= FOPO_BFLOAT16; type++) {
    ok(fopo_rows_halve(half, fopo_matrix_view(x, P, L), type));
    fopo_rows rows = {half, 40, type};
    fopo_rows_widen(fopo_matrix_view(back, P, L), &rows);
    fopo_rows floats = fopo_rows_float32(back, L);
    for (int way = 0; way < 2; way++) {
      const fopo_rows *items = way == 0 ? &rows : &floats;
      ok(d->ops->scores(d, &(fopo_candidate_sets){S, ids, f[way], NULL}, items, &batch));
      ok(d->ops->snis(d, &(fopo_estimate){.V = V[way], .c = c[way], .stats = stats[way]}, &samples,
                      items, INFINITY, &batch));
    }
    for (size_t i = 0; i < (size_t)B * S; i++) {
      assert_true(fabsf(f[0][i] - f[1][i]) <= 1e-5f);
      assert_true(fabsf(c[0][i] - c[1][i]) <= 1e-5f);
    }
    for (size_t i = 0; i < (size_t)B * L; i++) assert_true(fabsf(V[0][i] - V[1][i]) <= 1e-5f);
    for (size_t i = 0; i < (size_t)B * FOPO_STATS; i++) {
      assert_true(fabsf(stats[0][i] - stats[1][i]) <= 1e-4f * fabsf(stats[1][i]));
    }
    int threads = fopo_threads();
    fopo_threads_set(threads == 1 ? 3 : 1);
    ok(d->ops->snis(d, &(fopo_estimate){.V = V[2], .stats = stats[2]}, &samples, &rows, INFINITY,
                    &batch));
    fopo_threads_set(threads);
    assert_memory_equal(V[2], V[0], sizeof V[0]);
    assert_memory_equal(stats[2], stats[0], sizeof stats[0]);
  }
}

int main(void) { return run_all(NULL, NULL); }
