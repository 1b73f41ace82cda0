/* The order of sums: the tables of AVX2 and AVX-512 give the same bits, for rows of every length.
 * Each kernel that rounds is called with both, on the same numbers; tests/c/test_kernels.c compares
 * them with sums in double. */
#include "kernels/kernels.h"
#include "kernels/rows.h"
#include "numbers.h"

enum { LONGEST = 1100, ROWS = 61, SAMPLES = 300 };

static const fopo_kernels *narrow, *wide;

/* 1 .. 130 without a gap, then some with a tail. */
static const size_t lengths[] = {131, 143, 144, 160, 191, 192, 200, 255, 256, 257, 1000, 1023};
enum { LENGTHS = 130 + sizeof lengths / sizeof *lengths };

static size_t length(size_t i) { return i < 130 ? i + 1 : lengths[i - 130]; }

static void assert_equal(const void *a, const void *b, size_t n, size_t size, const char *kernel,
                         size_t at) {
  if (memcmp(a, b, n * size) != 0) {
    fail_msg("%s: %s and %s differ at length %zu", kernel, narrow->name, wide->name, at);
  }
}

/* The two tables, or a skip with its reason. */
static void begin(void) {
  narrow = fopo_kernels_named("avx2");
  wide = fopo_kernels_named("avx512");
  if (narrow != NULL && wide != NULL) return;
  print_message("skipped: this CPU lacks %s\n", narrow == NULL ? "AVX2" : "AVX-512");
  skip();
}

/* ---- rows ---- */

static float rows[ROWS * LONGEST], q[LONGEST], weight[SAMPLES];
static uint16_t half[ROWS * LONGEST];
static uint32_t ids[SAMPLES];

static void fill_rows(size_t dim, size_t ld, uint32_t seed, fopo_float type) {
  fill(rows, ROWS * ld, 1, seed);
  fill(q, dim, 3, seed + 1);
  fill(weight, SAMPLES, 1, seed + 2);
  for (size_t s = 0; s < SAMPLES; s++) {
    ids[s] = fopo_random(seed, FOPO_STREAM_WORLD, 1, 0, (uint32_t)s).v[0] % ROWS;
    if (s % 5 == seed % 5) weight[s] = 0;
  }
  for (size_t i = 0; i < ROWS * ld; i++) {
    half[i] = i % ld >= dim          ? 0
              : type == FOPO_FLOAT16 ? fopo_to_float16(rows[i])
                                     : fopo_to_bfloat16(rows[i]);
  }
}

static void dot_of(const fopo_kernels *k, float *f, size_t dim, size_t ld, size_t count,
                   fopo_float type) {
  switch (type) {
  case FOPO_FLOAT32: k->gather_dot(f, rows, ld, ids, count, q, dim); break;
  case FOPO_FLOAT16: k->gather_dot_float16(f, half, ld, ids, count, q, dim); break;
  case FOPO_BFLOAT16: k->gather_dot_bfloat16(f, half, ld, ids, count, q, dim); break;
  }
}

static void axpy_of(const fopo_kernels *k, float *v, size_t dim, size_t ld, size_t count,
                    fopo_float type) {
  size_t next = SAMPLES - count;
  memcpy(v, q, dim * sizeof *v);
  switch (type) {
  case FOPO_FLOAT32: k->gather_axpy(v, rows, ld, ids, weight, count, next, dim); break;
  case FOPO_FLOAT16: k->gather_axpy_float16(v, half, ld, ids, weight, count, next, dim); break;
  case FOPO_BFLOAT16: k->gather_axpy_bfloat16(v, half, ld, ids, weight, count, next, dim); break;
  }
}

static void check_rows(size_t dim, size_t count, fopo_float type) {
  float f[2][SAMPLES], v[2][LONGEST];
  size_t ld = type == FOPO_FLOAT32 ? dim + 3 : fopo_rows_ld(dim);
  fill_rows(dim, ld, (uint32_t)(dim + count), type);
  dot_of(narrow, f[0], dim, ld, count, type), dot_of(wide, f[1], dim, ld, count, type);
  assert_equal(f[0], f[1], count, sizeof(float), "gather_dot", dim);
  axpy_of(narrow, v[0], dim, ld, count, type), axpy_of(wide, v[1], dim, ld, count, type);
  assert_equal(v[0], v[1], dim, sizeof(float), "gather_axpy", dim);
}

TEST(test_rows) {
  begin();
  static const size_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 31, 128, 133, SAMPLES};
  for (size_t i = 0; i < LENGTHS; i++) {
    for (size_t j = 0; j < sizeof counts / sizeof *counts; j++) {
      for (int type = FOPO_FLOAT32; type <= FOPO_BFLOAT16; type++) {
        check_rows(length(i), counts[j], (fopo_float)type);
      }
    }
  }
}

TEST(test_dot) {
  begin();
  for (size_t i = 0; i < LENGTHS; i++) {
    size_t n = length(i);
    fill(rows, n, 1, (uint32_t)n), fill(q, n, 1, (uint32_t)n + 1);
    float a = narrow->dot(rows, q, n), b = wide->dot(rows, q, n);
    assert_equal(&a, &b, 1, sizeof a, "dot", n);
    float y[2][LONGEST];
    memcpy(y[0], q, n * sizeof *q), memcpy(y[1], q, n * sizeof *q);
    narrow->axpy(y[0], 0.3f, rows, n), wide->axpy(y[1], 0.3f, rows, n);
    assert_equal(y[0], y[1], n, sizeof(float), "axpy", n);
  }
}

/* ---- panels ---- */

static void check_panel(size_t dim, size_t count, size_t width) {
  static float panel[LONGEST * FOPO_PANEL], x[2][ROWS * FOPO_PANEL], v[2][LONGEST * FOPO_PANEL];
  float most[2][FOPO_PANEL], sum[2][FOPO_PANEL], squares[2][FOPO_PANEL];
  fill(rows, count * dim, 2, (uint32_t)dim);
  fill(panel, dim * width, 2, (uint32_t)count);
  for (int t = 0; t < 2; t++) {
    const fopo_kernels *k = t == 0 ? narrow : wide;
    k->scores(x[t], rows, dim, NULL, count, panel, dim, width);
    k->max_columns(most[t], x[t], count, width);
  }
  assert_equal(x[0], x[1], count * width, sizeof(float), "scores", dim);
  assert_equal(most[0], most[1], width, sizeof(float), "max_columns", count);
  for (int t = 0; t < 2; t++) {
    const fopo_kernels *k = t == 0 ? narrow : wide;
    k->exp_columns(x[t], sum[t], squares[t], most[t], count, width);
    memcpy(v[t], panel, dim * width * sizeof(float));
    k->add_products(v[t], rows, dim, x[t], count, dim, width);
  }
  assert_equal(x[0], x[1], count * width, sizeof(float), "exp_columns", count);
  assert_equal(sum[0], sum[1], width, sizeof(float), "exp_columns' sums", count);
  assert_equal(squares[0], squares[1], width, sizeof(float), "exp_columns' squares", count);
  assert_equal(v[0], v[1], dim * width, sizeof(float), "add_products", dim);
}

TEST(test_panels) {
  begin();
  for (size_t i = 0; i < LENGTHS; i++) {
    for (size_t count = 1; count <= ROWS; count += 1 + count / 2) {
      check_panel(length(i), count, FOPO_PANEL);
      check_panel(length(i), count, FOPO_PANEL / 2);
    }
  }
}

/* ---- products ---- */

/* Both tables, and one of them row by row and column by column: the same bits. */
static void check_product(fopo_product_task o) {
  static float a[200 * 400], b[200 * 400], c[3][200 * 200];
  o.lda = o.transpose_a ? o.m : o.k, o.ldb = o.transpose_b ? o.k : o.n, o.ldc = o.n;
  fill(a, o.m * o.k, 1, (uint32_t)o.m), fill(b, o.n * o.k, 1, (uint32_t)o.n);
  for (int t = 0; t < 3; t++) fill(c[t], o.m * o.n, 1, (uint32_t)o.k);
  o.a = a, o.b = b;
  o.c = c[0], narrow->product(&o);
  o.c = c[1], wide->product(&o);
  assert_equal(c[0], c[1], o.m * o.n, sizeof(float), "product", o.n);
  for (size_t i = 0; i < o.m * o.n; i++) {
    fopo_product_task one = o;
    size_t row = i / o.n, column = i % o.n;
    one.m = one.n = 1;
    one.a += o.transpose_a ? row : row * o.lda;
    one.b += o.transpose_b ? column * o.ldb : column;
    one.c = c[2] + i;
    wide->product(&one);
  }
  assert_equal(c[1], c[2], o.m * o.n, sizeof(float), "product, cut", o.n);
}

TEST(test_products) {
  begin();
  static const size_t depths[] = {0, 1, 32, 100, 255, 257, 400};
  for (size_t n = 1; n <= 130; n++) {
    for (int flags = 0; flags < 4; flags++) {
      fopo_product_task o = {.m = 1 + n * 11 % 50, .n = n, .k = depths[n % 7], .alpha = 0.3f};
      o.transpose_a = flags & 1, o.transpose_b = flags >> 1;
      o.beta = n % 2 == 0 ? 0.0f : 0.9f;
      check_product(o);
    }
  }
  check_product((fopo_product_task){.m = 200, .n = 199, .k = 300, .transpose_b = 1, .alpha = 1});
}

/* ---- lists of numbers ---- */

static void check_list(size_t n, double scale) {
  float x[LONGEST], y[LONGEST], w[2][LONGEST], logq[2][LONGEST];
  double sum[2], moments[2][3];
  fill(x, n, scale, (uint32_t)n), fill(y, n, 1, (uint32_t)n + 1);
  for (int t = 0; t < 2; t++) {
    const fopo_kernels *k = t == 0 ? narrow : wide;
    float largest = k->max(x, n);
    sum[t] = k->exp_sum(w[t], x, largest, n);
    k->moments(moments[t], x, y, n);
    k->log_mixture(logq[t], w[t], n % 3 == 0 ? 0 : 1e-6, 0.9, sum[t], n);
  }
  assert_equal(w[0], w[1], n, sizeof(float), "exp_sum's weights", n);
  assert_equal(&sum[0], &sum[1], 1, sizeof(double), "exp_sum", n);
  assert_equal(moments[0], moments[1], 3, sizeof(double), "moments", n);
  assert_equal(logq[0], logq[1], n, sizeof(float), "log_mixture", n);
}

TEST(test_lists) {
  begin();
  for (size_t i = 0; i < LENGTHS; i++) {
    check_list(length(i), 1);
    check_list(length(i), 60); /* the smallest weights are 0 */
  }
}

/* Every float32 in steps of 2^12 of its bits, infinity and NaN's place included. */
TEST(test_exponential) {
  begin();
  float x[64], w[2][64];
  for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 64u << 8) {
    for (uint32_t i = 0; i < 64; i++) x[i] = fopo_bits_float((uint32_t)bits + (i << 8));
    for (size_t i = 0; i < 64; i++) x[i] = isnan(x[i]) ? 0.0f : x[i];
    double a = narrow->exp_sum(w[0], x, 0, 64), b = wide->exp_sum(w[1], x, 0, 64);
    assert_equal(w[0], w[1], 64, sizeof(float), "exp", (size_t)bits);
    assert_true(a == b);
  }
}

/* Logarithms of what is 0, subnormal, normal or infinite. */
TEST(test_logarithm) {
  begin();
  float w[64], logq[2][64];
  for (int power = -1074; power < 1024; power++) {
    fill(w, 64, 1, (uint32_t)(power + 1074));
    for (size_t i = 0; i < 64; i++) w[i] = i % 7 == 0 ? 0 : fabsf(w[i]);
    for (int t = 0; t < 2; t++) {
      const fopo_kernels *k = t == 0 ? narrow : wide;
      k->log_mixture(logq[t], w, 0, ldexp(1, power), 1, 63);
      logq[t][63] = 0;
    }
    assert_equal(logq[0], logq[1], 64, sizeof(float), "log", (size_t)(power + 1074));
  }
}

int main(void) { return run_all(NULL, NULL); }
