/* The lowest layer: sentences, counted memory and its faults, progress and
 * interruption, threads, matrices against naive references in double, and sparse rows. */
#include <math.h>
#include <pthread.h>

#include "checks.h"
#include "comm/comm.h"
#include "core/clock.h"
#include "core/csr.h"
#include "core/matrix.h"
#include "core/progress.h"
#include "core/qr.h"
#include "core/rng.h"
#include "core/sort.h"
#include "core/svd.h"
#include "core/threads.h"
#include "sound.h"

/* ---- status ---- */

static void *fail_elsewhere(void *payload) {
  (void)payload;
  assert_string_equal(fopo_error_sentence(), "");
  fopo_fail(FOPO_ERR_FILE, "another thread's");
  return NULL;
}

TEST(sentences_are_kept) {
  assert_int_equal(fopo_fail(FOPO_ERR_ARGUMENT, "k is %d", 7), FOPO_ERR_ARGUMENT);
  assert_string_equal(fopo_error_sentence(), "k is 7");
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
  pthread_join(thread, NULL);
  assert_string_equal(fopo_error_sentence(), "k is 7");
  fopo_fail(FOPO_ERR_FILE, "in a.csv: %s", fopo_error_sentence());
  assert_string_equal(fopo_error_sentence(), "in a.csv: k is 7");
  fopo_fail(FOPO_ERR_FILE, "%2000d", 1);
  assert_int_equal(strlen(fopo_error_sentence()), 1023);
}

/* ---- memory ---- */

static void assert_zero(const unsigned char *bytes, size_t n) {
  unsigned char any = 0;
  for (size_t i = 0; i < n; i++) any |= bytes[i];
  assert_int_equal(any, 0);
}

TEST(blocks_are_zeroed_and_counted) {
  fopo_memory_use before = fopo_memory_in_use();
  static const size_t sizes[] = {0, 1, 63, 64, 65, 100000, (4u << 20) - 1, 4u << 20, 9000001};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    FREED(fopo_free) unsigned char *block = fopo_alloc(sizes[i], 1);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 64, 0);
    assert_zero(block, sizes[i]);
    memset(block, 0xff, sizes[i]);
    fopo_memory_use use = fopo_memory_in_use();
    assert_int_equal(use.blocks, before.blocks + 1);
    assert_int_equal(use.bytes, before.bytes + sizes[i]);
    assert_true(use.peak >= use.bytes);
  }
  fopo_free(NULL);
  assert_int_equal(fopo_memory_in_use().blocks, before.blocks);
  assert_int_equal(fopo_memory_in_use().bytes, before.bytes);
}

/* Its bytes are the file's, and are not counted. */
TEST(a_file_is_a_block) {
  fopo_memory_use before = fopo_memory_in_use();
  char bytes[70000];
  FILE *file = tmpfile();
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i % 251);
  assert_int_equal(fwrite(bytes, 1, sizeof bytes, file), sizeof bytes);
  assert_int_equal(fflush(file), 0);
  char *block = fopo_map_file(fileno(file), sizeof bytes);
  fclose(file);
  assert_non_null(block);
  assert_int_equal((uintptr_t)block % 64, 0);
  assert_memory_equal(block, bytes, sizeof bytes);
  assert_int_equal(fopo_memory_in_use().bytes, before.bytes);
  fopo_free(block);
  assert_int_equal(fopo_memory_in_use().blocks, before.blocks);
  assert_null(fopo_map_file(-1, 1));
  assert_int_equal(fopo_memory_in_use().blocks, before.blocks);
}

static long pages_of_files(void) { /* kB */
  FILE *file = fopen("/proc/self/status", "re");
  char line[256];
  long kilobytes = -1;
  while (kilobytes < 0 && fgets(line, sizeof line, file) != NULL) {
    sscanf(line, "RssFile: %ld", &kilobytes);
  }
  fclose(file);
  return kilobytes;
}

/* An idle file gives its pages back, and has its bytes when it is read again; others keep theirs.
 */
TEST(idle_files_leave) {
  enum { BYTES = 32 << 20 };
  FREED(fopo_free) unsigned char *bytes = fopo_alloc(BYTES, 1);
  memset(bytes, 7, BYTES);
  FILE *file = tmpfile();
  assert_int_equal(fwrite(bytes, 1, BYTES, file), BYTES);
  assert_int_equal(fflush(file), 0);
  FREED(fopo_free) unsigned char *block = fopo_map_file(fileno(file), BYTES);
  fclose(file);
  long without = pages_of_files();
  assert_memory_equal(block, bytes, BYTES);
  assert_true(pages_of_files() - without > BYTES / 1024 / 2);
  fopo_map_idle(block);
  fopo_map_idle(bytes);
  fopo_map_idle(NULL);
  assert_true(pages_of_files() - without < BYTES / 1024 / 4);
  assert_memory_equal(block, bytes, BYTES);
  assert_int_equal(bytes[BYTES - 1], 7);
}

/* Every pair of sizes: old bytes stay, added ones are zero. */
TEST(blocks_grow_and_shrink) {
  static const size_t sizes[] = {0, 10, 5000, 5000000, 4194304, 12000000, 6000001, 6000000, 20};
  enum { N = sizeof sizes / sizeof *sizes };
  size_t live = fopo_memory_in_use().blocks;
  for (int from = 0; from < N; from++) {
    for (int to = 0; to < N; to++) {
      FREED(fopo_free) unsigned char *block = fopo_realloc(NULL, sizes[from], 1);
      assert_non_null(block);
      memset(block, 7, sizes[from]);
      block = fopo_realloc(block, sizes[to], 1);
      assert_non_null(block);
      assert_int_equal((uintptr_t)block % 64, 0);
      size_t kept = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
      for (size_t i = 0; i < kept; i += 501) assert_int_equal(block[i], 7);
      if (sizes[to] > kept) assert_zero(block + kept, sizes[to] - kept);
      block = fopo_realloc(block, sizes[from], 1);
      if (sizes[from] > kept) assert_zero(block + kept, sizes[from] - kept);
    }
  }
  assert_int_equal(fopo_memory_in_use().blocks, live);
}

TEST(memory_is_refused) {
  assert_null(fopo_alloc(SIZE_MAX / 2, 3));
  says("no memory");
  assert_null(fopo_alloc(SIZE_MAX - 10, 1));
  assert_null(fopo_alloc((size_t)1 << 55, 1));
  FREED(fopo_free) int *block = fopo_alloc(4, sizeof *block);
  block[3] = 5;
  assert_null(fopo_realloc(block, SIZE_MAX / 2, 4));
  assert_int_equal(block[3], 5);
  assert_null(fopo_realloc(block, (size_t)1 << 52, 4));
  assert_int_equal(block[3], 5);
}

TEST(faults_are_injected) {
  fopo_memory_fail_after(1, 0);
  FREED(fopo_free) void *a = fopo_alloc(1, 1);
  assert_non_null(a);
  assert_null(fopo_alloc(1, 1));
  FREED(fopo_free) void *b = fopo_alloc(1, 1);
  assert_non_null(b);
  fopo_memory_fail_after(0, 1);
  assert_null(fopo_alloc(1, 1));
  assert_null(fopo_realloc(a, 100, 1));
  assert_null(fopo_alloc(1, 1));
  fopo_memory_fail_after(-1, 0);
  a = fopo_realloc(a, 100, 1);
  assert_non_null(a);
}

TEST(memory_is_estimated) {
  uint64_t left = fopo_memory_available();
  assert_true(left > 1000000);
  ok(fopo_memory_suffices(left / 2, "a crumb", "eat less"));
  if (left == UINT64_MAX) skip();
  refused(fopo_memory_suffices(left + left / 2, "this", "use less"), FOPO_ERR_MEMORY, "this needs");
  refused(fopo_memory_suffices((uint64_t)1 << 58, "the index", "try M = 8"), FOPO_ERR_MEMORY,
          "the index needs ");
  says(" GB are free; try M = 8");
}

/* ---- progress, clock, threads, comm ---- */

static struct {
  int calls, closed;
  double done;
} seen;

static void watch(void *payload, const char *what, double done, double total, int closed) {
  assert_ptr_equal(payload, &seen);
  assert_string_equal(what, "counting");
  assert_true(total >= 0);
  seen.calls++;
  seen.closed = closed;
  seen.done = done;
}

static int wanted_by(void *payload) { return *(int *)payload; }

/* A thread in the background is stopped by its own wish alone, not by Ctrl-C. */
TEST(interruption_of_a_background_thread) {
  int wish = 0;
  fopo_interrupt_request();
  fopo_interrupt_by(wanted_by, &wish);
  assert_false(fopo_interrupted());
  ok(fopo_progress("counting", 1, 2));
  wish = 1;
  assert_true(fopo_interrupted());
  fopo_interrupt_by(NULL, NULL);
  assert_true(fopo_interrupted());
  fopo_interrupt_clear();
  assert_false(fopo_interrupted());
}

TEST(progress_and_interruption) {
  ok(fopo_progress("counting", 1, 2));
  fopo_progress_to(watch, &seen);
  ok(fopo_progress("counting", 1, 2));
  assert_int_equal(seen.calls, 1);
  assert_int_equal(seen.closed, 0);
  ok(fopo_progress("counting", 2, 2));
  assert_int_equal(seen.closed, 1);
  ok(fopo_progress("counting", 5, 0));
  assert_int_equal(seen.closed, 0);
  fopo_interrupt_request();
  assert_true(fopo_interrupted());
  assert_int_equal(fopo_progress("counting", 1, 2), FOPO_ERR_INTERRUPTED);
  assert_string_equal(fopo_error_sentence(), "interrupted while counting");
  assert_int_equal(seen.closed, 1);
  fopo_interrupt_clear();
  fopo_progress_to(NULL, NULL);
  assert_false(fopo_interrupted());
}

TEST(clock_and_threads) {
  double start = fopo_clock();
  assert_true(start > 0 && fopo_clock() >= start);
  assert_true(fopo_threads() >= 1);
  assert_int_equal(fopo_threads_set(0), FOPO_ERR_ARGUMENT);
  ok(fopo_threads_set(3));
  assert_int_equal(fopo_threads(), 3);
}

TEST(alone_is_rank_zero) {
  float x = 2;
  double y = 3, all = 0;
  ok(fopo_comm_open(NULL, NULL));
  assert_int_equal(fopo_comm_own_rank(), 0);
  assert_int_equal(fopo_comm_ranks(), 1);
  ok(fopo_comm_sum(&x, 1));
  ok(fopo_comm_gather(&all, &y, sizeof y));
  ok(fopo_comm_broadcast(&x, sizeof x, 0));
  assert_true(x == 2.0f && all == 3.0);
  fopo_comm_close();
}

/* ---- matrices ---- */

/* Normals, in a view with ld = cols + pad. */
static fopo_matrix random_matrix(size_t rows, size_t cols, size_t pad, uint64_t seed) {
  fopo_matrix m;
  ok(fopo_matrix_init(&m, rows, cols + pad));
  fopo_fill_normal(m.x, rows * (cols + pad), 1.0, seed, FOPO_STREAM_INIT);
  m.cols = cols;
  return m;
}

static double at(fopo_matrix m, size_t i, size_t j) { return (double)m.x[i * m.ld + j]; }

static void assert_product(size_t m, size_t n, size_t k, int ta, int tb, float alpha, float beta) {
  DONE(fopo_matrix_done) fopo_matrix A = ta ? random_matrix(k, m, 3, 1) : random_matrix(m, k, 3, 1);
  DONE(fopo_matrix_done) fopo_matrix B = tb ? random_matrix(n, k, 0, 2) : random_matrix(k, n, 0, 2);
  DONE(fopo_matrix_done) fopo_matrix C = random_matrix(m, n, 5, 3), old = random_matrix(m, n, 5, 3);
  if (beta == 0.0f && m * n > 0) C.x[0] = NAN; /* must be overwritten */
  ok(fopo_gemm(C, alpha, A, ta, B, tb, beta));
  double tolerance = 1e-6 * sqrt((double)k + 1) * 8;
  size_t rows_on = m > 40 ? 37 : 1, cols_on = n > 40 ? 31 : 1;
  for (size_t i = 0; i < m; i += rows_on) {
    for (size_t j = 0; j < n; j += cols_on) {
      double sum = 0;
      for (size_t l = 0; l < k; l++) {
        sum += (ta ? at(A, l, i) : at(A, i, l)) * (tb ? at(B, j, l) : at(B, l, j));
      }
      double expected = (double)alpha * sum + (beta == 0.0f ? 0 : (double)beta * at(old, i, j));
      if (!(fabs(at(C, i, j) - expected) <= tolerance)) {
        fail_msg("[%zu, %zu] of %zu x %zu x %zu: %g, not %g", i, j, m, n, k, at(C, i, j), expected);
      }
    }
    for (size_t j = n; j < n + 5; j++) assert_true(C.x[i * C.ld + j] == old.x[i * C.ld + j]);
  }
}

TEST(products_are_right) {
  static const size_t shapes[][3] = {{1, 1, 1},     {3, 5, 0},      {0, 4, 3},     {7, 300, 2},
                                     {257, 511, 9}, {20, 30, 9001}, {600, 3, 700}, {90, 70, 20000}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (int flags = 0; flags < 4; flags++) {
      assert_product(shapes[s][0], shapes[s][1], shapes[s][2], flags & 1, flags >> 1, 1.0f, 0.0f);
      assert_product(shapes[s][0], shapes[s][1], shapes[s][2], flags & 1, flags >> 1, -0.5f, 2.0f);
    }
  }
}

TEST(products_check_shapes) {
  float x[64] = {0};
  fopo_matrix A = fopo_matrix_view(x, 2, 3), B = fopo_matrix_view(x, 4, 5);
  refused(fopo_gemm(A, 1, A, 0, B, 0, 0), FOPO_ERR_ARGUMENT, "[2, 3]");
  says("[4, 5]");
  B = fopo_matrix_view(x, 3, 5);
  refused(fopo_gemm(fopo_matrix_view(x, 5, 2), 1, A, 0, B, 0, 0), FOPO_ERR_ARGUMENT,
          "does not fit in [5, 2]");
}

/* Tiles, and slices of the inner dimension. */
TEST(products_do_not_depend_on_threads) {
  static const size_t shapes[][3] = {{300, 900, 70}, {60, 50, 30011}, {30011, 20, 30}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    size_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
    DONE(fopo_matrix_done) fopo_matrix A = random_matrix(m, k, 0, 4), B = random_matrix(k, n, 0, 5);
    DONE(fopo_matrix_done) fopo_matrix one = random_matrix(m, n, 0, 6);
    fopo_threads_set(1);
    ok(fopo_gemm(one, 1, A, 0, B, 0, 0.5f));
    for (int threads = 2; threads <= 4; threads += 2) {
      DONE(fopo_matrix_done) fopo_matrix other = random_matrix(m, n, 0, 6);
      fopo_threads_set(threads);
      ok(fopo_gemm(other, 1, A, 0, B, 0, 0.5f));
      assert_memory_equal(one.x, other.x, m * n * sizeof(float));
    }
  }
}

TEST(not_finite_is_found) {
  fopo_matrix m = random_matrix(2000, 600, 1, 1);
  ok(fopo_matrix_finite(m, "x"));
  m.x[77 * m.ld + 600] = NAN; /* outside the view */
  ok(fopo_matrix_finite(m, "x"));
  m.x[1999 * m.ld + 3] = INFINITY;
  m.x[1500 * m.ld + 599] = -NAN;
  m.x[1500 * m.ld + 598] = -INFINITY;
  assert_int_equal(fopo_matrix_finite(m, "items"), FOPO_ERR_NUMERIC);
  assert_string_equal(fopo_error_sentence(), "items has -inf at row 1501, column 599");
  fopo_matrix_done(&m);
  float x[2] = {3, 4};
  assert_true(fopo_matrix_norm2(fopo_matrix_view(x, 1, 2)) == 25.0);
}

/* |Q^T Q - 1| and |A - Q R|, largest entries. */
static void assert_qr(fopo_matrix A, double tolerance) {
  size_t m = A.rows, n = A.cols;
  double scale = sqrt(fopo_matrix_norm2(A)) + 1e-30;
  DONE(fopo_matrix_done) fopo_matrix Q = random_matrix(m, n, 2, 9), R = random_matrix(n, n, 0, 9);
  DONE(fopo_matrix_done) fopo_matrix G = random_matrix(n, n, 0, 9);
  for (size_t i = 0; i < m; i++) {
    memcpy(fopo_matrix_row(Q, i), fopo_matrix_row(A, i), n * sizeof(float));
  }
  ok(fopo_qr(Q, R));
  ok(fopo_gemm(G, 1, Q, 1, Q, 0, 0));
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < n; j++) {
      assert_true(fabs(at(G, i, j) - (i == j)) < tolerance);
      if (j < i) assert_true(at(R, i, j) == 0.0);
    }
  }
  ok(fopo_gemm(A, -1, Q, 0, R, 0, 1));
  assert_true(sqrt(fopo_matrix_norm2(A)) < tolerance * scale);
}

TEST(qr_is_right) {
  fopo_threads_set(2);
  static const size_t shapes[][2] = {{1, 1}, {40, 40}, {100, 7}, {3000, 20}, {20000, 40}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (int kind = 0; kind < 8; kind++) {
      DONE(fopo_matrix_done)
      fopo_matrix A = random_matrix(shapes[s][0], shapes[s][1], kind == 0, 8);
      for (size_t i = 0; i < A.rows; i++) {
        float *a = fopo_matrix_row(A, i);
        for (size_t j = 1; j < A.cols; j++) {
          if (kind == 1) a[j] = a[0] + 1e-3f * a[j]; /* ill-conditioned */
          if (kind == 2) a[j] = j % 2 ? a[0] : a[j]; /* half of the rank */
          if (kind == 3) a[j] = 0;                   /* rank one */
          /* columns that almost depend, from 1e-5 to less than the rounding of the rest */
          if (kind > 3) a[j] = a[0] + powf(10.0f, (float)-kind - 1.0f) * a[j];
        }
      }
      assert_qr(A, 1e-5);
    }
  }
  DONE(fopo_matrix_done) fopo_matrix wide = random_matrix(3, 4, 0, 1);
  assert_int_equal(fopo_qr(wide, (fopo_matrix){0}), FOPO_ERR_ARGUMENT);
  wide.rows = 3, wide.cols = 2, wide.x[1] = NAN;
  assert_int_equal(fopo_qr(wide, (fopo_matrix){0}), FOPO_ERR_NUMERIC);
}

TEST(qr_does_not_depend_on_threads) {
  for (int deficient = 0; deficient < 2; deficient++) {
    DONE(fopo_matrix_done) fopo_matrix one = random_matrix(20000, 30, 0, 8);
    for (size_t i = 0; deficient && i < one.rows; i++) one.x[i * 30 + 7] = one.x[i * 30 + 3];
    DONE(fopo_matrix_done) fopo_matrix other = random_matrix(20000, 30, 0, 8);
    memcpy(other.x, one.x, 20000 * 30 * sizeof(float));
    fopo_threads_set(1);
    ok(fopo_qr(one, (fopo_matrix){0}));
    fopo_threads_set(4);
    ok(fopo_qr(other, (fopo_matrix){0}));
    assert_memory_equal(one.x, other.x, 20000 * 30 * sizeof(float));
  }
}

TEST(dense_svd_is_right) {
  static const size_t shapes[][2] = {{1, 1}, {30, 12}, {12, 30}, {25, 25}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    size_t m = shapes[s][0], n = shapes[s][1], r = m < n ? m : n;
    DONE(fopo_matrix_done) fopo_matrix A = random_matrix(m, n, 2, 1);
    DONE(fopo_matrix_done) fopo_matrix old = random_matrix(m, n, 2, 1);
    DONE(fopo_matrix_done) fopo_matrix U = random_matrix(m, r, 1, 2);
    DONE(fopo_matrix_done) fopo_matrix Vt = random_matrix(r, n, 3, 2);
    float values[30], again[30];
    ok(fopo_svd_dense(U, values, Vt, A));
    for (size_t i = 0; i < m; i++) {
      for (size_t j = 0; j < n; j++) {
        double sum = 0;
        for (size_t k = 0; k < r; k++) sum += at(U, i, k) * (double)values[k] * at(Vt, k, j);
        assert_true(fabs(sum - at(old, i, j)) < 2e-5);
      }
    }
    for (size_t k = 1; k < r; k++) assert_true(values[k] <= values[k - 1]);
    ok(fopo_svd_dense((fopo_matrix){0}, again, (fopo_matrix){0}, old));
    for (size_t k = 0; k < r; k++) assert_true(fabsf(values[k] - again[k]) < 1e-5f);
  }
}

/* ---- sparse rows ---- */

enum { ROWS = 50, COLS = 70, PAIRS = 1500 };

static struct {
  uint32_t row[PAIRS], col[PAIRS];
  float value[PAIRS];
  double dense[ROWS][COLS];
  size_t distinct;
} world;

/* Pairs that repeat, and rows and columns that stay empty. */
static void make_world(void) {
  memset(&world, 0, sizeof world);
  for (uint32_t i = 0; i < PAIRS; i++) {
    fopo_words w = fopo_random(3, FOPO_STREAM_WORLD, 0, 0, i);
    world.row[i] = fopo_below(ROWS - 5, w.v[0], 3, 0, 0, i);
    world.col[i] = fopo_below(COLS - 9, w.v[1], 3, 0, 1, i);
    world.value[i] = (float)(1 + w.v[2] % 5);
    double *cell = &world.dense[world.row[i]][world.col[i]];
    world.distinct += *cell == 0;
    *cell += (double)world.value[i];
  }
}

TEST(test_longest_row) {
  uint64_t indptr[] = {0, 3, 4, 6};
  fopo_csr m = {.rows = 3, .indptr = indptr}, some = fopo_csr_rows(&m, 1, 2);
  assert_int_equal(fopo_csr_longest(&m), 3);
  assert_int_equal(fopo_csr_longest(&some), 2);
  m.rows = 0;
  assert_int_equal(fopo_csr_longest(&m), 0);
}

static void assert_is_world(const fopo_csr *m, int with_values, int transposed) {
  size_t used, columns = 0;
  assert_int_equal(m->rows, transposed ? COLS : ROWS);
  assert_int_equal(m->cols, transposed ? ROWS : COLS);
  assert_int_equal(fopo_csr_nnz(m), world.distinct);
  assert_true(is_sound(m, world.distinct));
  for (size_t r = 0; r < m->rows; r++) {
    for (size_t e = 0; e < fopo_csr_count(m, r); e++) {
      uint32_t c = fopo_csr_row(m, r)[e];
      double expected = transposed ? world.dense[c][r] : world.dense[r][c];
      assert_true(expected > 0);
      if (with_values) assert_true((double)m->values[m->indptr[r] + e] == expected);
    }
    for (size_t c = 0; c < m->cols; c++) {
      double expected = transposed ? world.dense[c][r] : world.dense[r][c];
      assert_int_equal(fopo_csr_contains(m, r, (uint32_t)c), expected > 0);
    }
  }
  for (size_t c = 0; c < m->cols; c++) {
    size_t r = 0;
    while (r < m->rows && !fopo_csr_contains(m, r, (uint32_t)c)) r++;
    columns += r < m->rows;
  }
  ok(fopo_csr_columns_used(&used, m));
  assert_int_equal(used, columns);
}

static int rising(const void *a, const void *b) {
  uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
  return (i > j) - (i < j);
}

TEST(ids_are_sorted) {
  uint32_t ids[500], wanted[500], other[500];
  const size_t sizes[] = {1, 2, 255, 256, 257, 65536, 790000, UINT32_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (size_t n = 0; n <= 500; n += 1 + n) {
      for (size_t j = 0; j < n; j++) {
        ids[j] = (uint32_t)(fopo_random(3, FOPO_STREAM_WORLD, 0, 0, (uint32_t)j).v[0] % sizes[i]);
      }
      memcpy(wanted, ids, sizeof ids);
      qsort(wanted, n, sizeof *wanted, rising);
      fopo_sort_ids(ids, other, n, sizes[i]);
      assert_memory_equal(ids, wanted, n * sizeof *ids);
    }
  }
}

TEST(pairs_become_rows) {
  make_world();
  for (int with_values = 0; with_values < 2; with_values++) {
    DONE(fopo_csr_done) fopo_csr m, t;
    size_t repeats;
    const float *values = with_values ? world.value : NULL;
    ok(fopo_csr_from_pairs(&m, world.row, world.col, values, PAIRS, ROWS, COLS, &repeats));
    assert_int_equal(repeats, PAIRS - world.distinct);
    assert_is_world(&m, with_values, 0);
    ok(fopo_csr_transpose(&t, &m));
    assert_is_world(&t, with_values, 1);
  }
}

TEST(odd_sparse_matrices) {
  fopo_csr m, t;
  size_t repeats;
  ok(fopo_csr_from_pairs(&m, NULL, NULL, NULL, 0, 0, 0, &repeats));
  ok(fopo_csr_transpose(&t, &m));
  fopo_csr_done(&m);
  fopo_csr_done(&t);
  uint32_t row[] = {1, 0}, col[] = {4, 2};
  refused(fopo_csr_from_pairs(&m, row, col, NULL, 2, 2, 4, &repeats), FOPO_ERR_ARGUMENT,
          "pair 1 is (1, 4)");
  assert_int_equal(fopo_csr_from_pairs(&m, row, col, NULL, 2, 1, 5, &repeats), FOPO_ERR_ARGUMENT);
  assert_int_equal(fopo_csr_init(&m, 1, (size_t)UINT32_MAX + 1, 0, 0), FOPO_ERR_ARGUMENT);
  fopo_interrupt_request();
  assert_int_equal(fopo_csr_from_pairs(&m, row, col, NULL, 2, 2, 5, &repeats),
                   FOPO_ERR_INTERRUPTED);
  assert_null(m.indptr);
  fopo_interrupt_clear();
}

static void count_use(void *n) { ++*(int *)n; }

/* Enough pairs for many buckets and slices, spread evenly and unevenly, over few and over most
 * columns that are possible. Sums of small integers are exact, so each must be equal. */
TEST(many_pairs) {
  enum { N = 300000, R = 1000, C = 300 };
  static const struct {
    size_t rows, cols;
    uint32_t far;
    int heavy;
  } cases[] = {{R, C, 1, 0},
               {R, C, 1, 1},
               {1, C, 1, 0},
               {R, 1, 1, 0},
               {R, UINT32_MAX, 14000000, 0},
               {(size_t)R << 10, C, 1, 0}};
  FREED(fopo_free) uint32_t *row = fopo_alloc(N, sizeof *row), *col = fopo_alloc(N, sizeof *col);
  FREED(fopo_free) float *value = fopo_alloc(N, sizeof *value);
  FREED(fopo_free) float *sum = fopo_alloc((size_t)R * C, sizeof *sum);
  int before = fopo_threads();
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    uint32_t wide = cases[k].rows > R ? 1u << 10 : 1;
    memset(sum, 0, (size_t)R * C * sizeof *sum);
    size_t distinct = 0;
    for (uint32_t i = 0; i < N; i++) {
      fopo_words w = fopo_random(4, FOPO_STREAM_WORLD, 0, 0, i);
      uint32_t r = cases[k].rows == 1 || (cases[k].heavy && i % 4 != 0) ? 0 : w.v[0] % R;
      uint32_t c = cases[k].cols == 1 ? 0 : w.v[1] % C;
      row[i] = r * wide;
      col[i] = c * cases[k].far;
      value[i] = (float)(1 + i % 3);
      distinct += sum[(size_t)r * C + c] == 0;
      sum[(size_t)r * C + c] += value[i];
    }
    for (int threads = 1; threads <= 5; threads += 2) {
      DONE(fopo_csr_done) fopo_csr m;
      size_t repeats;
      fopo_threads_set(threads);
      ok(fopo_csr_from_pairs(&m, row, col, value, N, cases[k].rows, cases[k].cols, &repeats));
      assert_int_equal(repeats, N - distinct);
      assert_true(is_sound(&m, distinct));
      for (size_t r = 0; r < m.rows; r += wide) {
        for (uint64_t e = m.indptr[r]; e < m.indptr[r + 1]; e++) {
          assert_true(m.values[e] == sum[r / wide * C + m.ids[e] / cases[k].far]);
        }
      }
      DONE(fopo_csr_done) fopo_csr counts;
      fopo_csr_times no_times;
      int used = 0;
      ok(fopo_csr_from_timed_pairs(&counts, &no_times, row, col, NULL, NULL, N, cases[k].rows,
                                   cases[k].cols, &repeats, count_use, &used));
      assert_true(used == 1 && no_times.first == NULL && no_times.last == NULL);
      assert_true(repeats == N - distinct && (counts.values != NULL) == (repeats > 0));
      assert_memory_equal(counts.ids, m.ids, distinct * sizeof *m.ids);
      double total = 0;
      for (size_t e = 0; e < distinct; e++) total += (double)counts.values[e];
      assert_true(total == N);
    }
  }
  row[N - 1] = (uint32_t)R << 10;
  row[7] = UINT32_MAX;
  fopo_csr m;
  size_t repeats;
  assert_int_equal(fopo_csr_from_pairs(&m, row, col, NULL, N, (size_t)R << 10, C, &repeats),
                   FOPO_ERR_ARGUMENT);
  says("pair 8 is (4294967295, ");
  fopo_threads_set(before);
}

TEST(sparse_product_is_right) {
  make_world();
  DONE(fopo_csr_done) fopo_csr m;
  size_t repeats;
  ok(fopo_csr_from_pairs(&m, world.row, world.col, world.value, PAIRS, ROWS, COLS, &repeats));
  for (size_t cols = 1; cols < 20; cols += 3) {
    DONE(fopo_matrix_done) fopo_matrix B = random_matrix(COLS, cols, 2, 1);
    DONE(fopo_matrix_done) fopo_matrix C = random_matrix(ROWS, cols, 1, 2);
    ok(fopo_csr_times_dense(C, &m, B, 0));
    for (size_t i = 0; i < ROWS; i++) {
      for (size_t j = 0; j < cols; j++) {
        double sum = 0;
        for (size_t k = 0; k < COLS; k++) sum += world.dense[i][k] * at(B, k, j);
        assert_true(fabs(sum - at(C, i, j)) < 1e-4);
      }
    }
    C.rows--;
    assert_int_equal(fopo_csr_times_dense(C, &m, B, 0), FOPO_ERR_ARGUMENT);
  }
}

/* A sparse [20000, 3000] with n entries, drawn. */
static fopo_csr drawn(size_t n) {
  uint32_t *row = fopo_alloc(n, sizeof *row), *col = fopo_alloc(n, sizeof *col);
  for (uint32_t i = 0; i < n; i++) {
    fopo_words w = fopo_random(3, FOPO_STREAM_WORLD, 0, 0, i);
    row[i] = w.v[0] % 20000;
    col[i] = w.v[1] % 3000;
  }
  fopo_csr m;
  size_t repeats;
  ok(fopo_csr_from_pairs(&m, row, col, NULL, n, 20000, 3000, &repeats));
  fopo_free(row);
  fopo_free(col);
  return m;
}

TEST(sparse_product_does_not_depend_on_threads) {
  DONE(fopo_csr_done) fopo_csr m = drawn(200000);
  DONE(fopo_matrix_done) fopo_matrix B = random_matrix(3000, 40, 0, 1);
  DONE(fopo_matrix_done) fopo_matrix one = random_matrix(20000, 40, 0, 2);
  fopo_threads_set(1);
  ok(fopo_csr_times_dense(one, &m, B, 0));
  for (int threads = 2; threads <= 4; threads += 2) {
    DONE(fopo_matrix_done) fopo_matrix other = random_matrix(20000, 40, 0, 3);
    fopo_threads_set(threads);
    ok(fopo_csr_times_dense(other, &m, B, 0));
    assert_memory_equal(one.x, other.x, 20000 * 40 * sizeof(float));
  }
}

/* Long work can be interrupted, short work finishes. */
TEST(long_work_is_interrupted) {
  size_t live = fopo_memory_in_use().blocks;
  fopo_matrix A = random_matrix(1300, 1300, 0, 1), C = random_matrix(1300, 1300, 0, 1);
  fopo_matrix tall = random_matrix(20000, 40, 0, 1), few = fopo_matrix_rows(A, 0, 3);
  fopo_interrupt_request();
  assert_int_equal(fopo_gemm(C, 1, A, 0, A, 0, 0), FOPO_ERR_INTERRUPTED);
  ok(fopo_gemm(fopo_matrix_rows(C, 0, 3), 1, few, 0, A, 0, 0));
  assert_int_equal(fopo_qr(tall, (fopo_matrix){0}), FOPO_ERR_INTERRUPTED);
  for (size_t i = 0; i < tall.rows; i++) tall.x[i * 40 + 1] = tall.x[i * 40];
  assert_int_equal(fopo_qr(tall, (fopo_matrix){0}), FOPO_ERR_INTERRUPTED);
  fopo_interrupt_clear();
  ok(fopo_qr(tall, (fopo_matrix){0}));
  fopo_matrix_done(&A);
  fopo_matrix_done(&C);
  fopo_matrix_done(&tall);
  assert_int_equal(fopo_memory_in_use().blocks, live);
}

/* Every allocation in turn is refused: a status, no leak. */
TEST(faults_leave_nothing) {
  make_world();
  size_t live = fopo_memory_in_use().blocks;
  int status = FOPO_ERR_MEMORY;
  for (long n = 0; status != FOPO_OK; n++) {
    assert_true(n < 100);
    fopo_csr m = {0}, t = {0};
    fopo_matrix A = {0};
    size_t repeats;
    fopo_memory_fail_after(n, 0);
    status =
        fopo_csr_from_pairs(&m, world.row, world.col, world.value, PAIRS, ROWS, COLS, &repeats);
    if (status == FOPO_OK) status = fopo_csr_transpose(&t, &m);
    if (status == FOPO_OK) status = fopo_matrix_init(&A, 20000, 40);
    if (status == FOPO_OK) status = fopo_qr(A, (fopo_matrix){0});
    if (status == FOPO_OK) {
      status = fopo_svd_dense((fopo_matrix){0}, NULL, (fopo_matrix){0}, fopo_matrix_rows(A, 0, 50));
    }
    fopo_memory_fail_after(-1, 0);
    assert_true(status == FOPO_OK || status == FOPO_ERR_MEMORY);
    fopo_csr_done(&m);
    fopo_csr_done(&t);
    fopo_matrix_done(&A);
    assert_int_equal(fopo_memory_in_use().blocks, live);
  }
}

int main(void) { return run_all(NULL, NULL); }
