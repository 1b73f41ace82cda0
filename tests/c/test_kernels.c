/* Every kernel of every instruction set that this CPU has, against sums in double and against the
 * portable table: all lengths with their tails, small and large rows, extreme values. Inputs end at
 * a page that may not be touched. */
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/bloom.h"
#include "kernels/kernels.h"
#include "numbers.h"

enum { LONGEST = 130, ROWS = 61 };

static const size_t dims[] = {1,  2,  3,   4,   5,   6,   7,   8,   9,   10,  11, 12, 13,
                              14, 15, 16,  17,  18,  19,  20,  21,  22,  23,  24, 25, 26,
                              27, 28, 29,  30,  31,  32,  33,  47,  48,  63,  64, 65, 80,
                              95, 96, 100, 111, 112, 127, 128, 129, 200, 1000};

/* got is a float sum of n products whose absolute values sum to `size`. */
static void assert_sum(double got, double expected, double size, size_t n) {
  double tolerance = (double)(n + 2) * 6e-8 * size + 1e-45 * (double)(n + 2);
  if (!(fabs(got - expected) <= tolerance)) {
    fail_msg("%.9g instead of %.9g (tolerance %.3g)", got, expected, tolerance);
  }
}

static void each_table(void (*test)(const fopo_kernels *k)) {
  const char *name;
  for (size_t i = 0; (name = fopo_kernels_name(i)) != NULL; i++) {
    const fopo_kernels *k = fopo_kernels_named(name);
    if (k == NULL) {
      print_message("%s: skipped, this CPU lacks it\n", name);
      continue;
    }
    assert_string_equal(k->name, name);
    test(k);
  }
}

/* ---- the choice ---- */

/* 1 if a new process with FOPO_ISA=isa uses `expected`, and has a note if and only if `noted`. It
 * must be called before this process makes its own choice. */
static int chooses(const char *isa, const char *expected, int noted) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setenv("FOPO_ISA", isa, 1);
    int ok = strcmp(fopo_kernels_get()->name, expected) == 0;
    ok = ok && (fopo_kernels_note()[0] != '\0') == noted;
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(test_choice) {
  const char *best = "portable", *name;
  assert_string_equal(fopo_kernels_name(0), best);
  for (size_t i = 0; (name = fopo_kernels_name(i)) != NULL; i++) {
    assert_non_null(strstr(fopo_kernels_names(), name));
    if (fopo_kernels_named(name) != NULL) best = name;
  }
  for (size_t i = 0; (name = fopo_kernels_name(i)) != NULL; i++) {
    int lacks = fopo_kernels_named(name) == NULL;
    assert_true(chooses(name, lacks ? best : name, lacks));
    if (!lacks) continue;
    refused(fopo_kernels_force(name), FOPO_ERR_UNAVAILABLE, "this CPU has no");
    says(best);
  }
  assert_true(chooses("", best, 0));
  assert_true(chooses("mmx", best, 1));
  assert_null(fopo_kernels_named("mmx"));
  refused(fopo_kernels_force("mmx"), FOPO_ERR_UNAVAILABLE,
          "no kernels are named mmx; use one of portable");
  ok(fopo_kernels_force("portable"));
  assert_string_equal(fopo_kernels_get()->name, "portable");
  ok(fopo_kernels_force(best));
}

/* ---- sums ---- */

static void check_dot(const fopo_kernels *k, size_t n, double scale_a, double scale_b) {
  DONE(release) guarded ga, gb;
  float *a = guard(&ga, n), *b = guard(&gb, n);
  fill(a, n, scale_a, 1);
  fill(b, n, scale_b, 2);
  double sum = 0, size = 0;
  for (size_t i = 0; i < n; i++) {
    sum += (double)a[i] * (double)b[i];
    size += fabs((double)a[i] * (double)b[i]);
  }
  assert_sum((double)k->dot(a, b, n), sum, size, n);
}

static void dot_of(const fopo_kernels *k) {
  for (size_t n = 0; n <= LONGEST; n++) check_dot(k, n, 1, 1);
  check_dot(k, 1000, 1, 1);
  check_dot(k, 100, 1e30, 1e-30);
  check_dot(k, 100, 1e-40, 1);
}

static void check_axpy(const fopo_kernels *k, size_t n, float a) {
  DONE(release) guarded gx, gy;
  float *x = guard(&gx, n), *y = guard(&gy, n), old[1000];
  fill(x, n, 1, 3);
  fill(y, n, 1, 4);
  memcpy(old, y, n * sizeof *y);
  k->axpy(y, a, x, n);
  for (size_t i = 0; i < n; i++) {
    double product = (double)a * (double)x[i];
    assert_sum((double)y[i], (double)old[i] + product, fabs(product) + 1, 1);
  }
}

static void axpy_of(const fopo_kernels *k) {
  for (size_t n = 0; n <= LONGEST; n++) check_axpy(k, n, 0.7f);
  check_axpy(k, 1000, -1e30f);
  check_axpy(k, 100, 1e-40f);
}

/* The same row's score comes out alike wherever it stands, and alike from dot. */
static void check_gather_dot(const fopo_kernels *k, size_t dim, size_t ld, size_t count) {
  DONE(release) guarded gr, gq;
  float *rows = guard(&gr, (ROWS - 1) * ld + dim), *q = guard(&gq, dim), f[LONGEST + 1];
  uint32_t ids[LONGEST];
  fill(rows, (ROWS - 1) * ld + dim, 1, 5);
  fill(q, dim, 1, 6);
  for (size_t s = 0; s < count; s++) ids[s] = (uint32_t)((s * 37 + 60) % ROWS);
  f[count] = 123.0f;
  k->gather_dot(f, rows, ld, ids, count, q, dim);
  for (size_t s = 0; s < count; s++) {
    assert_true(f[s] == k->dot(rows + ids[s] * ld, q, dim));
  }
  assert_true(f[count] == 123.0f);
}

static void gather_dot_of(const fopo_kernels *k) {
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
    for (size_t count = 0; count < 10; count++) check_gather_dot(k, dims[i], dims[i], count);
    check_gather_dot(k, dims[i], dims[i] + 3, LONGEST);
  }
  for (size_t count = 0; count <= LONGEST; count++) check_gather_dot(k, 10, 10, count);
}

/* Every row against every query of a panel; alike wherever the row stands, by id or in place. */
static void check_scores(const fopo_kernels *k, size_t dim, size_t ld, size_t count, size_t width) {
  DONE(release) guarded gr, gp, go;
  float *rows = guard(&gr, (ROWS - 1) * ld + dim), *panel = guard(&gp, dim * width);
  float *out = guard(&go, count * width), one[FOPO_PANEL];
  uint32_t ids[ROWS];
  fill(rows, (ROWS - 1) * ld + dim, 1, 12);
  fill(panel, dim * width, 1, 13);
  for (size_t s = 0; s < count; s++) ids[s] = (uint32_t)((s * 37 + 60) % ROWS);
  k->scores(out, rows, ld, ids, count, panel, dim, width);
  for (size_t s = 0; s < count; s++) {
    const float *row = rows + ids[s] * ld;
    k->scores(one, row, ld, NULL, 1, panel, dim, width);
    assert_memory_equal(out + s * width, one, width * sizeof *one);
    for (size_t j = 0; j < width; j++) {
      double sum = 0, size = 0;
      for (size_t i = 0; i < dim; i++) {
        double product = (double)row[i] * (double)panel[i * width + j];
        sum += product;
        size += fabs(product);
      }
      assert_sum((double)one[j], sum, size, dim);
    }
  }
  k->scores(out, rows, ld, NULL, count, panel, dim, width);
  for (size_t s = 0; s < count; s++) {
    k->scores(one, rows + s * ld, ld, NULL, 1, panel, dim, width);
    assert_memory_equal(out + s * width, one, width * sizeof *one);
  }
}

static void scores_of(const fopo_kernels *k) {
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
    for (size_t width = FOPO_PANEL / 2; width <= FOPO_PANEL; width *= 2) {
      check_scores(k, dims[i], dims[i], 9, width);
      check_scores(k, dims[i], dims[i] + 3, 30, width);
    }
  }
  for (size_t count = 0; count <= ROWS; count++) check_scores(k, 10, 10, count, FOPO_PANEL);
  check_scores(k, 0, 0, 9, FOPO_PANEL);
}

static void check_columns(const fopo_kernels *k, size_t count, size_t ld, float level) {
  DONE(release) guarded gx, gf;
  float *x = guard(&gx, count == 0 ? 0 : (count - 1) * ld + 16), *floor = guard(&gf, 16);
  uint32_t list[LONGEST * 16 + 1];
  size_t n = 0;
  fill(x, count == 0 ? 0 : (count - 1) * ld + 16, 1, 14);
  for (size_t j = 0; j < 16; j++) floor[j] = level;
  floor[3] = INFINITY;
  floor[5] = -INFINITY;
  if (count > 0) floor[7] = x[7]; /* equal passes */
  size_t found = k->select_columns_at_least(list, x, ld, count, floor);
  for (size_t s = 0; s < count; s++) {
    for (size_t j = 0; j < 16; j++) {
      if (x[s * ld + j] >= floor[j]) assert_int_equal(list[n++], s * 16 + j);
    }
  }
  assert_int_equal(found, n);
}

static void columns_of(const fopo_kernels *k) {
  for (size_t count = 0; count <= LONGEST; count++) {
    check_columns(k, count, 16, 0.9f);
    check_columns(k, count, FOPO_PANEL, -2.0f);
  }
}

/* At least `rank` values are >= the result, and fewer than `rank` are more than two bisection steps
 * (2^-12 of the range each) above it. */
static void check_approximate_kth(const fopo_kernels *k, size_t count, size_t ld, size_t rank) {
  DONE(release) guarded gx;
  float *x = guard(&gx, (count - 1) * ld + 16), level[16], plain[16];
  fill(x, (count - 1) * ld + 16, 1, 15);
  if (count > 2) x[2] = x[ld + 2] = x[2 * ld + 2]; /* equal values count each */
  k->approximate_kth(level, x, ld, count, rank);
  fopo_kernels_named("portable")->approximate_kth(plain, x, ld, count, rank);
  for (size_t j = 0; j < 16; j++) {
    size_t reach = 0, beyond = 0;
    float low = x[j], high = x[j];
    for (size_t s = 0; s < count; s++) {
      low = fminf(low, x[s * ld + j]), high = fmaxf(high, x[s * ld + j]);
    }
    float step = (high - low) / 2048.0f;
    for (size_t s = 0; s < count; s++) {
      reach += x[s * ld + j] >= level[j];
      beyond += x[s * ld + j] > level[j] + step;
    }
    assert_true(reach >= rank);
    assert_true(beyond < rank || step == 0);
  }
  assert_memory_equal(level, plain, sizeof level);
}

static void approximate_kth_of(const fopo_kernels *k) {
  for (size_t count = 1; count <= LONGEST; count++) {
    check_approximate_kth(k, count, 16, 1);
    check_approximate_kth(k, count, 48, (count + 1) / 2);
    check_approximate_kth(k, count, FOPO_PANEL, count);
  }
}

/* The definition in double, and the same bits as the portable table's. */
static void adam_of(const fopo_kernels *k) {
  const fopo_adam_step o = {0.9f, 0.1f, 0.999f, 0.001f, 0.02f, 3.0f, 1e-8f, 0.7f, 0.01f, 0.99f};
  float G[LONGEST], x[3][LONGEST], plain[3][LONGEST], before[3][LONGEST];
  for (size_t n = 0; n <= LONGEST; n++) {
    fill(G, n, 1, 17);
    for (int a = 0; a < 3; a++) fill(before[a], n, 1, 18 + (uint32_t)a);
    for (size_t i = 0; i < n; i++) before[2][i] *= before[2][i]; /* v >= 0 */
    memcpy(x, before, sizeof x), memcpy(plain, before, sizeof plain);
    k->adam(x[0], x[1], x[2], G, &o, n);
    fopo_kernels_named("portable")->adam(plain[0], plain[1], plain[2], G, &o, n);
    for (size_t i = 0; i < n; i++) {
      double g = 0.7 * (double)G[i] - 0.01 * (double)before[0][i];
      double m = 0.9 * (double)before[1][i] + 0.1 * g;
      double v = 0.999 * (double)before[2][i] + 0.001 * g * g;
      double expected = 0.99 * (double)before[0][i] + 0.02 * m / (sqrt(v * 3) + 1e-8);
      assert_true(fabs((double)x[0][i] - expected) <= 1e-6 * (1 + fabs(expected)));
      assert_true(fabs((double)x[1][i] - m) <= 1e-6 && fabs((double)x[2][i] - v) <= 1e-6);
    }
    for (int a = 0; a < 3; a++) assert_memory_equal(x[a], plain[a], n * sizeof **x);
  }
}

static void adagrad_of(const fopo_kernels *k) {
  const fopo_adagrad_step o = {0.02f, 1e-10f, 0.7f, 0.01f, 0.99f};
  float G[LONGEST], x[2][LONGEST], plain[2][LONGEST], before[2][LONGEST];
  for (size_t n = 0; n <= LONGEST; n++) {
    fill(G, n, 1, 17);
    for (int a = 0; a < 2; a++) fill(before[a], n, 1, 18 + (uint32_t)a);
    for (size_t i = 0; i < n; i++) before[1][i] *= before[1][i]; /* v >= 0 */
    memcpy(x, before, sizeof x), memcpy(plain, before, sizeof plain);
    k->adagrad(x[0], x[1], G, &o, n);
    fopo_kernels_named("portable")->adagrad(plain[0], plain[1], G, &o, n);
    for (size_t i = 0; i < n; i++) {
      double g = 0.7 * (double)G[i] - 0.01 * (double)before[0][i];
      double v = (double)before[1][i] + g * g;
      double expected = 0.99 * (double)before[0][i] + 0.02 * g / (sqrt(v) + 1e-10);
      assert_true(fabs((double)x[0][i] - expected) <= 1e-6 * (1 + fabs(expected)));
      assert_true(fabs((double)x[1][i] - v) <= 1e-6 * (1 + v));
    }
    for (int a = 0; a < 2; a++) assert_memory_equal(x[a], plain[a], n * sizeof **x);
  }
}

static int falling(const void *a, const void *b) {
  uint64_t i = *(const uint64_t *)a, j = *(const uint64_t *)b;
  return (i < j) - (i > j);
}

/* Keys over all the range, near one another, or with one far from the others. */
static void check_keys(const fopo_kernels *k, size_t n, int spread) {
  uint64_t keys[600], sorted[600], kept[600];
  for (size_t i = 0; i < n; i++) {
    uint64_t word = fopo_random(16, FOPO_STREAM_WORLD, 0, 0, (uint32_t)i).v[0];
    keys[i] = spread == 0 ? word << 32 | i : ((uint64_t)1 << 63) + word % 64 * 1000 + i;
  }
  if (spread == 2) keys[n / 2] = n % 2 ? UINT64_MAX : 0;
  if (spread == 3) {
    for (size_t i = 0; i < n; i++) keys[i] = keys[i % 3]; /* equal ones */
  }
  memcpy(sorted, keys, n * sizeof *keys);
  qsort(sorted, n, sizeof *keys, falling);
  memcpy(kept, keys, n * sizeof *keys);
  if (spread < 3) { /* no two are equal */
    k->sort(kept, n);
    assert_memory_equal(kept, sorted, n * sizeof *keys);
  }
  for (size_t rank = 1; rank <= n; rank += 1 + rank / 3) {
    assert_true(k->kth(keys, n, rank) == sorted[rank - 1]);
    memcpy(kept, keys, n * sizeof *keys);
    size_t reach = 0;
    for (size_t i = 0; i < n; i++) reach += keys[i] >= sorted[rank - 1];
    assert_int_equal(k->partition_at_least(kept, n, sorted[rank - 1]), reach);
    for (size_t i = 0, at = 0; i < n; i++) {
      if (keys[i] >= sorted[rank - 1]) assert_true(kept[at++] == keys[i]);
    }
  }
}

static void keys_of(const fopo_kernels *k) {
  for (size_t n = 1; n <= 600; n += 1 + n / 9) {
    for (int spread = 0; spread < 4; spread++) check_keys(k, n, spread);
  }
}

/* Against loops over the definitions; nothing behind the last place is written. */
static void check_lists(const fopo_kernels *k, size_t n, unsigned bits) {
  enum { MOST = 300, GUARD = 77 };
  uint32_t words[MOST], list[MOST + 1], bloom[1 << 11] = {0};
  for (size_t i = 0; i < n; i++) words[i] = fopo_random(23, 1, 0, 0, (uint32_t)i).v[0];
  uint64_t bounds[] = {0,        1,          words[0],         (uint64_t)words[n - 1] + 1,
                       1u << 31, UINT32_MAX, (uint64_t)1 << 32};
  for (size_t j = 0; j < sizeof bounds / sizeof *bounds; j++) {
    size_t expected = 0;
    for (size_t i = 0; i <= n; i++) list[i] = GUARD;
    size_t found = k->select_at_least(list, words, n, bounds[j]);
    for (size_t i = 0; i < n; i++) {
      if (words[i] >= bounds[j]) assert_int_equal(list[expected++], i);
    }
    assert_int_equal(found, expected);
    assert_int_equal(list[n], GUARD);
  }
  for (size_t i = 0; i < n; i += 3) fopo_bloom_add(bloom, bits, words[i]);
  size_t found = k->select_in_bloom(list, words, n, bloom, bits), expected = 0;
  for (size_t i = 0; i < n; i++) {
    int may = fopo_bloom_may_hold(bloom, bits, words[i]);
    assert_true(may || i % 3 != 0);
    if (may) assert_int_equal(list[expected++], i);
  }
  assert_int_equal(found, expected);
  assert_int_equal(list[n], GUARD);
}

static void lists_of(const fopo_kernels *k) {
  for (size_t n = 1; n <= 300; n += 1 + n / 5) {
    for (unsigned bits = 5; bits <= 16; bits++) check_lists(k, n, bits);
  }
}

static void check_gather_axpy(const fopo_kernels *k, size_t dim, size_t ld, size_t count,
                              int zeros) {
  DONE(release) guarded gr, gv;
  float *rows = guard(&gr, (ROWS - 1) * ld + dim), *v = guard(&gv, dim), c[LONGEST];
  double expected[1000], size[1000];
  uint32_t ids[LONGEST];
  fill(rows, (ROWS - 1) * ld + dim, 1, 7);
  fill(v, dim, 1, 8);
  fill(c, count, 1, 9);
  rows[0] = INFINITY; /* row 0 only ever comes with c = 0 */
  for (size_t s = 0; s < LONGEST; s++) ids[s] = (uint32_t)((s * 37 + 60) % ROWS);
  for (size_t s = 0; s < count; s++) {
    if (ids[s] == 0 || (int)(s % 7) < zeros) c[s] = 0;
  }
  for (size_t i = 0; i < dim; i++) {
    expected[i] = (double)v[i];
    size[i] = fabs((double)v[i]);
    for (size_t s = 0; s < count; s++) {
      if (c[s] == 0) continue;
      double product = (double)c[s] * (double)rows[ids[s] * ld + i];
      expected[i] += product;
      size[i] += fabs(product);
    }
  }
  k->gather_axpy(v, rows, ld, ids, c, count, LONGEST - count, dim);
  for (size_t i = 0; i < dim; i++) assert_sum((double)v[i], expected[i], size[i], count + 1);
}

static void gather_axpy_of(const fopo_kernels *k) {
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
    for (size_t count = 0; count < 10; count++) check_gather_axpy(k, dims[i], dims[i], count, 0);
    check_gather_axpy(k, dims[i], dims[i] + 3, LONGEST, 3);
    check_gather_axpy(k, dims[i], dims[i], LONGEST, 6);
  }
  for (size_t count = 0; count <= LONGEST; count++) check_gather_axpy(k, 10, 10, count, 2);
}

/* A panel of w columns: its largest values, exponentials and products with rows. */
static void check_panel(const fopo_kernels *k, size_t dim, size_t ld, size_t count, size_t width) {
  DONE(release) guarded gr, gx, gv;
  float *rows = guard(&gr, (count - 1) * ld + dim), *x = guard(&gx, count * width);
  float *v = guard(&gv, dim * width), before[FOPO_PANEL], start[LONGEST * FOPO_PANEL];
  float most[FOPO_PANEL], sum[FOPO_PANEL], squares[FOPO_PANEL];
  fill(rows, (count - 1) * ld + dim, 1, 14);
  fill(x, count * width, 50, 15);
  fill(v, dim * width, 1, 16);
  memcpy(start, x, count * width * sizeof *x);
  k->max_columns(most, x, count, width);
  for (size_t j = 0; j < width; j++) {
    float expected = x[j];
    for (size_t s = 0; s < count; s++) expected = fmaxf(expected, x[s * width + j]);
    assert_true(most[j] == expected);
    before[j] = v[j];
  }
  k->exp_columns(x, sum, squares, most, count, width);
  for (size_t j = 0; j < width; j++) {
    double total = 0, squared = 0;
    for (size_t s = 0; s < count; s++) {
      float z = start[s * width + j] - most[j];
      double w = z < -87.0f ? 0.0 : exp((double)z);
      assert_true(fabs((double)x[s * width + j] - w) <= 2e-7 * w);
      total += (double)x[s * width + j];
      squared += (double)x[s * width + j] * (double)x[s * width + j];
    }
    assert_sum((double)sum[j], total, total, count);
    assert_sum((double)squares[j], squared, squared, count);
  }
  k->add_products(v, rows, ld, x, count, dim, width);
  for (size_t j = 0; j < width; j++) { /* the first number of the rows, and the last one below */
    double expected = (double)before[j], size = fabs(expected);
    for (size_t s = 0; s < count; s++) {
      expected += (double)rows[s * ld] * (double)x[s * width + j];
      size += fabs((double)rows[s * ld] * (double)x[s * width + j]);
    }
    assert_sum((double)v[j], expected, size, count + 1);
  }
  fill(v, dim * width, 1, 16);
  float last = v[dim * width - 1];
  double expected = (double)last, size = fabs(expected);
  k->add_products(v, rows, ld, x, count, dim, width);
  for (size_t s = 0; s < count; s++) {
    double product = (double)rows[s * ld + dim - 1] * (double)x[s * width + width - 1];
    expected += product;
    size += fabs(product);
  }
  assert_sum((double)v[dim * width - 1], expected, size, count + 1);
}

static void panel_of(const fopo_kernels *k) {
  for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
    for (size_t width = FOPO_PANEL / 2; width <= FOPO_PANEL; width *= 2) {
      for (size_t count = 1; count < 6; count++) check_panel(k, dims[i], dims[i], count, width);
      check_panel(k, dims[i], dims[i] + 3, LONGEST, width);
    }
  }
}

/* c [m, n] with a stride of n + 5: no number beside it changes, or is read beyond the last. */
static void check_product(const fopo_kernels *k, fopo_product_task o) {
  DONE(release) guarded ga, gb, gc;
  size_t a_rows = o.transpose_a ? o.k : o.m, b_rows = o.transpose_b ? o.n : o.k;
  size_t a_cols = o.transpose_a ? o.m : o.k, b_cols = o.transpose_b ? o.k : o.n;
  o.lda = a_cols + 3, o.ldb = b_cols + 1, o.ldc = o.n + 5;
  size_t na = a_rows == 0 ? 0 : (a_rows - 1) * o.lda + a_cols;
  size_t nb = b_rows == 0 ? 0 : (b_rows - 1) * o.ldb + b_cols, nc = (o.m - 1) * o.ldc + o.n;
  float *a = guard(&ga, na), *b = guard(&gb, nb), *c = guard(&gc, nc),
        *old = malloc(nc * sizeof *c);
  fill(a, na, 1, 24), fill(b, nb, 1, 25), fill(c, nc, 1, 26);
  for (size_t i = 0; o.beta == 0 && i < nc; i++) c[i] = NAN; /* is not read */
  memcpy(old, c, nc * sizeof *c);
  o.a = a, o.b = b, o.c = c;
  k->product(&o);
  for (size_t i = 0; i < nc; i++) {
    size_t row = i / o.ldc, column = i % o.ldc;
    if (column >= o.n) {
      assert_memory_equal(c + i, old + i, sizeof *c);
      continue;
    }
    double sum = 0, size = 0;
    for (size_t p = 0; p < o.k; p++) {
      double x = (double)a[o.transpose_a ? p * o.lda + row : row * o.lda + p];
      double y = (double)b[o.transpose_b ? column * o.ldb + p : p * o.ldb + column];
      sum += x * y, size += fabs(x * y);
    }
    double before = o.beta == 0 ? 0 : (double)o.beta * (double)old[i];
    sum = (double)o.alpha * sum + before;
    assert_sum((double)c[i], sum, fabs((double)o.alpha) * size + fabs(before), o.k + 2);
  }
  free(old);
}

static void product_of(const fopo_kernels *k) {
  if (k->product == NULL) {
    print_message("%s: skipped, BLAS makes its products\n", k->name);
    return;
  }
  static const size_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 17, 31, 32, 33, 49, 100};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  for (size_t i = 0; i < (size_t)SIZES * SIZES * 4; i++) {
    fopo_product_task o = {.m = sizes[i % SIZES], .n = sizes[i / SIZES % SIZES]};
    o.k = i % 7 == 0 ? 0 : 1 + i * 37 % 60;
    o.transpose_a = i / SIZES / SIZES & 1, o.transpose_b = i / SIZES / SIZES >> 1 & 1;
    o.alpha = i % 3 == 0 ? 1.0f : -0.7f, o.beta = i % 5 < 2 ? 0.0f : 0.5f;
    check_product(k, o);
  }
  for (int flags = 0; flags < 4;
       flags++) { /* more rows and a longer k than are transposed at once */
    fopo_product_task o = {.m = 101, .n = 41, .k = 600, .alpha = 2, .beta = 1};
    o.transpose_a = flags & 1, o.transpose_b = flags >> 1;
    check_product(k, o);
  }
}

static void check_moments(const fopo_kernels *k, size_t n, double scale) {
  DONE(release) guarded gx, gy;
  float *x = guard(&gx, n), *y = guard(&gy, n);
  fill(x, n, scale, 10);
  fill(y, n, scale, 11);
  double sum[3] = {0, 0, 0}, got[3], size = 0;
  for (size_t i = 0; i < n; i++) {
    double a = (double)x[i], b = (double)y[i];
    sum[0] += a;
    sum[1] += a * a;
    sum[2] += a * b;
    size += fabs(a);
  }
  k->moments(got, x, y, n);
  assert_true(fabs(got[0] - sum[0]) <= 1e-14 * size);
  assert_true(fabs(got[1] - sum[1]) <= 1e-14 * size * scale);
  assert_true(fabs(got[2] - sum[2]) <= 1e-14 * size * scale);
}

static void moments_of(const fopo_kernels *k) {
  for (size_t n = 0; n <= LONGEST; n++) check_moments(k, n, 1);
  check_moments(k, 1000, 1e30);
  check_moments(k, 1000, 1e-40);
}

/* ---- max and exp ---- */

static void max_of(const fopo_kernels *k) {
  for (size_t n = 0; n <= LONGEST; n++) {
    DONE(release) guarded g;
    float *x = guard(&g, n), expected = -INFINITY;
    fill(x, n, 1, (uint32_t)n);
    for (size_t i = 0; i < n; i++) expected = fmaxf(expected, x[i]);
    assert_true(k->max(x, n) == expected);
    for (size_t i = 0; i < n; i++) { /* every place can hold it, below zero too */
      for (size_t j = 0; j < n; j++) x[j] = -1e30f;
      x[i] = -2.0f;
      assert_true(k->max(x, n) == -2.0f);
    }
  }
}

static void check_exp(const fopo_kernels *k, float z, float got) {
  if (z < -87.0f) {
    assert_true(got == 0);
    return;
  }
  double expected = exp((double)z);
  if (expected > 3.4028234e38) {
    assert_true(isinf(got) && got > 0);
    return;
  }
  double error = fabs((double)got - expected) / expected;
  if (!(error < 2e-7)) {
    fail_msg("%s: exp(%.9g) = %.9g, relative error %.3g", k->name, (double)z, (double)got, error);
  }
}

static void exp_of(const fopo_kernels *k) {
  for (size_t n = 0; n <= LONGEST; n++) {
    DONE(release) guarded g;
    float *x = guard(&g, n), w[LONGEST + 1];
    fill(x, n, 50, (uint32_t)n);
    w[n] = 123.0f;
    double sum = k->exp_sum(w, x, 10.0f, n), expected = 0;
    assert_true(w[n] == 123.0f);
    for (size_t i = 0; i < n; i++) {
      check_exp(k, x[i] - 10.0f, w[i]);
      expected += (double)w[i];
    }
    assert_true(fabs(sum - expected) <= 1e-14 * expected);
    assert_true(k->exp_sum(x, x, 10.0f, n) == sum); /* in place */
    assert_memory_equal(x, w, n * sizeof *x);
  }
  float x[64], w[64];
  for (int block = -5700; block < 5700; block++) { /* -89 to 89 in steps of 2^-12 */
    for (int i = 0; i < 64; i++) x[i] = (float)(block * 64 + i) / 4096.0f;
    k->exp_sum(w, x, 0, 64);
    for (int i = 0; i < 64; i++) check_exp(k, x[i], w[i]);
  }
  const float extreme[] = {-INFINITY, -1e30f, -87.000008f, -87.0f,   -1e-40f, 0.0f, 1e-40f,
                           88.72283f, 88.73f, 1e4f,        INFINITY, 88.5f,   -0.0f};
  size_t n = sizeof extreme / sizeof *extreme;
  k->exp_sum(w, extreme, 0, n);
  for (size_t i = 0; i < n; i++) check_exp(k, extreme[i], w[i]);
  for (size_t i = 0; i < 20; i++) { /* NaN shows, in its place and in the sum */
    for (size_t j = 0; j < 20; j++) x[j] = 0;
    x[i] = NAN;
    assert_true(isnan(k->exp_sum(w, x, 0, 20)));
    for (size_t j = 0; j < 20; j++) assert_true(isnan(w[j]) == (i == j));
  }
}

/* ---- integers: the same bits ---- */

static void check_draws(const fopo_kernels *k, uint32_t n, size_t count, uint64_t seed) {
  const fopo_kernels *portable = fopo_kernels_named("portable");
  uint32_t expected[5000], got[5000 + 1];
  got[count] = 77;
  portable->draw_uniform(expected, n, count, seed, 3, 0xfffffff0u);
  k->draw_uniform(got, n, count, seed, 3, 0xfffffff0u);
  assert_memory_equal(got, expected, count * sizeof *got);
  assert_int_equal(got[count], 77);
  for (size_t s = 0; s < count; s++) assert_true(got[s] < n);
}

static void draws_of(const fopo_kernels *k) {
  for (size_t count = 0; count <= LONGEST; count++) check_draws(k, 790000, count, 42);
  const uint32_t sizes[] = {1,           2,           3,           5,           1000,
                            65536,       1u << 20,    999983,      0x7fffffffu, 0x80000000u,
                            0x80000001u, 3000000000u, 0xfffffffeu, 0xffffffffu};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    check_draws(k, sizes[i], 5000, 0x0123456789abcdefu);
  }
}

/* Word s & 3 of block s >> 2, through fopo_below. */
TEST(test_draws_defined) {
  uint32_t ids[1000], n = 3000000000u;
  fopo_kernels_named("portable")->draw_uniform(ids, n, 1000, 9, 8, 7);
  for (uint32_t s = 0; s < 1000; s++) {
    fopo_words w = fopo_random(9, FOPO_STREAM_SAMPLE, 8, 7, s >> 2);
    assert_int_equal(ids[s], fopo_below(n, w.v[s & 3], 9, 8, 7, s));
  }
}

static void check_pairs(const fopo_kernels *k, size_t first, size_t count) {
  uint32_t a[LONGEST + 1], b[LONGEST + 1];
  a[count] = b[count] = 77;
  k->draw_pairs(a, b, first, count, 0x0123456789abcdefu, 3, 0xfffffff0u);
  for (size_t i = 0; i < count; i++) {
    size_t s = first + i;
    fopo_words w =
        fopo_random(0x0123456789abcdefu, FOPO_STREAM_SAMPLE, 3, 0xfffffff0u, (uint32_t)(s >> 1));
    assert_int_equal(a[i], w.v[2 * (s & 1)]);
    assert_int_equal(b[i], w.v[2 * (s & 1) + 1]);
  }
  assert_true(a[count] == 77 && b[count] == 77);
}

static void pairs_of(const fopo_kernels *k) {
  for (size_t count = 0; count <= LONGEST; count++) check_pairs(k, 2 * count, count);
}

/* Rounded as libm's: one unit of the float apart at most, and hardly ever that. */
static void log_mixture_of(const fopo_kernels *k) {
  const double shares[] = {0, 1e-300, 1e-12, 1e-6, 0.01, 0.5, 1};
  float w[LONGEST], logq[LONGEST + 1];
  size_t apart = 0;
  for (size_t count = 0; count <= LONGEST; count++) {
    double share = shares[count % 7], rest = 1 - share, total = 1 + (double)count;
    fill(w, count, 1, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
      w[i] = i % 9 == 8 ? 0.0f : powf(fabsf(w[i]), (float)(1 + i % 30));
    }
    logq[count] = 77;
    k->log_mixture(logq, w, share, rest, total, count);
    assert_true(logq[count] == 77);
    for (size_t i = 0; i < count; i++) {
      float expected = (float)log(share + rest * ((double)w[i] / total));
      apart += logq[i] != expected;
      if (logq[i] == expected) continue;
      assert_true(fabsf(logq[i] - expected) <= 1.2e-7f * fabsf(expected));
    }
  }
  assert_in_range(apart, 0, 2);
  for (size_t i = 0; i < 20; i++) {
    for (size_t j = 0; j < 20; j++) w[j] = 1;
    w[i] = NAN;
    k->log_mixture(logq, w, 0.1, 0.9, 20, 20);
    for (size_t j = 0; j < 20; j++) assert_true(isnan(logq[j]) == (i == j));
  }
}

TEST(test_dot) { each_table(dot_of); }
TEST(test_axpy) { each_table(axpy_of); }
TEST(test_gather_dot) { each_table(gather_dot_of); }
TEST(test_scores) { each_table(scores_of); }
TEST(test_panel) { each_table(panel_of); }
TEST(test_columns) { each_table(columns_of); }
TEST(test_approximate_kth) { each_table(approximate_kth_of); }
TEST(test_adam) { each_table(adam_of); }
TEST(test_adagrad) { each_table(adagrad_of); }
TEST(test_keys) { each_table(keys_of); }
TEST(test_lists) { each_table(lists_of); }
TEST(test_gather_axpy) { each_table(gather_axpy_of); }
TEST(test_product) { each_table(product_of); }
TEST(test_moments) { each_table(moments_of); }
TEST(test_max) { each_table(max_of); }
TEST(test_exp) { each_table(exp_of); }
TEST(test_draws) { each_table(draws_of); }
TEST(test_pairs) { each_table(pairs_of); }
TEST(test_log_mixture) { each_table(log_mixture_of); }

int main(void) { return run_all(NULL, NULL); }
