/* The randomised SVD of matrices whose singular values and vectors are known beforehand. */
#include <math.h>

#include "checks.h"
#include "core/csr.h"
#include "core/progress.h"
#include "core/qr.h"
#include "core/rng.h"
#include "core/svd.h"
#include "core/threads.h"

static double at(fopo_matrix m, size_t i, size_t j) { return (double)m.x[i * m.ld + j]; }

static fopo_matrix orthonormal(size_t rows, size_t cols, uint64_t seed) {
  fopo_matrix m;
  ok(fopo_matrix_init(&m, rows, cols));
  fopo_fill_normal(m.x, rows * cols, 1.0, seed, FOPO_STREAM_INIT);
  ok(fopo_qr(m, (fopo_matrix){0}));
  return m;
}

/* Every entry of A as a sparse matrix, zeros left out. */
static fopo_csr sparse_of(fopo_matrix A) {
  size_t n = A.rows * A.cols, count = 0, repeats;
  uint32_t *row = fopo_alloc(n, sizeof *row), *col = fopo_alloc(n, sizeof *col);
  float *value = fopo_alloc(n, sizeof *value);
  for (size_t i = 0; i < n; i++) {
    float x = fopo_matrix_row(A, i / A.cols)[i % A.cols];
    if (x == 0.0f) continue;
    row[count] = (uint32_t)(i / A.cols);
    col[count] = (uint32_t)(i % A.cols);
    value[count++] = x;
  }
  fopo_csr m;
  ok(fopo_csr_from_pairs(&m, row, col, value, count, A.rows, A.cols, &repeats));
  fopo_free(row);
  fopo_free(col);
  fopo_free(value);
  return m;
}

static int take(fopo_csr *block, void *of, size_t first, size_t n) {
  *block = fopo_csr_rows(of, first, n);
  return FOPO_OK;
}

static int svd(fopo_matrix V, float *s, fopo_csr *m, const fopo_svd_options *options) {
  fopo_svd_rows rows = {m->rows, m->cols, fopo_csr_nnz(m), m->values != NULL, take, m};
  return fopo_svd_sparse(V, s, &rows, options);
}

/* M = U diag(s) V^T of the given rank. */
static fopo_csr constructed(fopo_matrix U, const float *s, fopo_matrix V) {
  fopo_matrix M, scaled;
  ok(fopo_matrix_init(&M, U.rows, V.rows));
  ok(fopo_matrix_init(&scaled, U.rows, U.cols));
  for (size_t i = 0; i < U.rows; i++) {
    for (size_t j = 0; j < U.cols; j++) scaled.x[i * U.cols + j] = U.x[i * U.ld + j] * s[j];
  }
  ok(fopo_gemm(M, 1, scaled, 0, V, 1, 0));
  fopo_csr m = sparse_of(M);
  fopo_matrix_done(&M);
  fopo_matrix_done(&scaled);
  return m;
}

static void assert_orthonormal(fopo_matrix V) {
  for (size_t a = 0; a < V.cols; a++) {
    for (size_t b = a; b < V.cols; b++) {
      double sum = 0;
      for (size_t i = 0; i < V.rows; i++) sum += at(V, i, a) * at(V, i, b);
      assert_true(fabs(sum - (a == b)) < 1e-5);
    }
  }
}

static void assert_signs(fopo_matrix V) {
  for (size_t j = 0; j < V.cols; j++) {
    double largest = 0;
    for (size_t i = 0; i < V.rows; i++) {
      if (fabs(at(V, i, j)) > fabs(largest)) largest = at(V, i, j);
    }
    assert_true(largest > 0);
  }
}

/* Rank `rank` from 100 down to 100 * least; asked for `dim`. Both m < n and m > n. */
static void assert_recovers(size_t m, size_t n, size_t dim, size_t rank, float least) {
  float s[40], found[40];
  for (size_t j = 0; j < rank; j++) s[j] = 100.0f * powf(least, (float)j / (float)(rank - 1));
  DONE(fopo_matrix_done) fopo_matrix U = orthonormal(m, rank, 1), V = orthonormal(n, rank, 2), W;
  DONE(fopo_csr_done) fopo_csr M = constructed(U, s, V);
  ok(fopo_matrix_init(&W, n, dim));
  fopo_svd_options options = {.dim = dim, .power_iterations = 2, .seed = 5};
  ok(svd(W, found, &M, &options));
  assert_orthonormal(W);
  assert_signs(W);
  for (size_t j = 0; j < dim; j++) {
    double expected = j < rank ? (double)s[j] : 0.0, dot = 0;
    assert_true(fabs((double)found[j] - expected) < 1e-4 * (1 + expected));
    assert_true(j == 0 || found[j] <= found[j - 1]);
    if (j >= rank) continue;
    for (size_t i = 0; i < n; i++) dot += at(W, i, j) * at(V, i, j);
    assert_true(fabs(dot) > 1 - 1e-4);
  }
}

TEST(known_vectors_come_back) {
  assert_recovers(300, 120, 10, 12, 0.005f);
  assert_recovers(120, 300, 10, 12, 0.005f);
  assert_recovers(300, 120, 12, 12, 0.005f);
}

/* The sketch has 32 columns and spans everything. Spectra range from those for which Gram matrices
 * are trusted to those for which they are not. */
TEST(well_and_ill_conditioned) {
  static const float least[] = {0.9f, 0.3f, 0.1f, 0.05f, 0.03f, 0.01f, 0.003f};
  for (size_t i = 0; i < sizeof least / sizeof *least; i++) {
    assert_recovers(300, 120, 22, 32, least[i]);
    assert_recovers(120, 300, 22, 32, least[i]);
  }
}

TEST(more_than_the_rank) {
  assert_recovers(300, 120, 30, 12, 0.005f);
  assert_recovers(120, 300, 30, 12, 0.005f);
  assert_recovers(30, 45, 30, 12, 0.005f);
  assert_recovers(45, 30, 30, 12, 0.005f);
}

/* dim = min(rows, cols) is the whole SVD: the same as LAPACK's. */
TEST(full_dimension) {
  for (int wide = 0; wide < 2; wide++) {
    size_t m = wide ? 20 : 33, n = wide ? 33 : 20;
    DONE(fopo_matrix_done) fopo_matrix A, V;
    float s[20], expected[20];
    ok(fopo_matrix_init(&A, m, n));
    ok(fopo_matrix_init(&V, n, 20));
    fopo_fill_normal(A.x, m * n, 1.0, 3, FOPO_STREAM_INIT);
    DONE(fopo_csr_done) fopo_csr M = sparse_of(A);
    fopo_svd_options options = {.dim = 20, .power_iterations = 1, .seed = 1};
    ok(svd(V, s, &M, &options));
    ok(fopo_svd_dense((fopo_matrix){0}, expected, (fopo_matrix){0}, A));
    for (int j = 0; j < 20; j++) assert_true(fabsf(s[j] - expected[j]) < 1e-4f);
    assert_orthonormal(V);
  }
}

TEST(zeros_and_single_entries) {
  float zeros[12] = {0}, one[1] = {-3}, s[3], v[9];
  DONE(fopo_csr_done) fopo_csr M = sparse_of(fopo_matrix_view(zeros, 4, 3));
  fopo_svd_options options = {.dim = 3, .power_iterations = 2};
  ok(svd(fopo_matrix_view(v, 3, 3), s, &M, &options));
  for (int j = 0; j < 3; j++) assert_true(s[j] == 0.0f);
  assert_orthonormal(fopo_matrix_view(v, 3, 3));
  fopo_csr_done(&M);
  M = sparse_of(fopo_matrix_view(one, 1, 1));
  options.dim = 1;
  ok(svd(fopo_matrix_view(v, 1, 1), s, &M, &options));
  assert_true(fabsf(s[0] - 3) < 1e-6f && fabsf(v[0] - 1) < 1e-6f);
}

/* Ones at random places; large enough for tiles, slices and Cholesky QR. */
static fopo_csr drawn(size_t rows, size_t cols, size_t n) {
  uint32_t *row = fopo_alloc(n, sizeof *row), *col = fopo_alloc(n, sizeof *col);
  for (uint32_t i = 0; i < n; i++) {
    fopo_words w = fopo_random(3, FOPO_STREAM_WORLD, 0, 0, i);
    double u = fopo_unit(w.v[1]);
    row[i] = (uint32_t)(w.v[0] % rows);
    col[i] = (uint32_t)((double)cols * u * u * u); /* some are far more popular than others */
  }
  fopo_csr m;
  size_t repeats;
  ok(fopo_csr_from_pairs(&m, row, col, NULL, n, rows, cols, &repeats));
  fopo_free(row);
  fopo_free(col);
  return m;
}

TEST(same_bits_for_any_threads) {
  enum { DIM = 30 };
  for (int wide = 0; wide < 2; wide++) {
    size_t rows = wide ? 12000 : 20000, cols = wide ? 20000 : 12000;
    DONE(fopo_csr_done) fopo_csr M = drawn(rows, cols, 200000);
    fopo_svd_options options = {.dim = DIM, .power_iterations = 1, .seed = 9};
    DONE(fopo_matrix_done) fopo_matrix one, other;
    float s_one[DIM], s_other[DIM];
    ok(fopo_matrix_init(&one, cols, DIM));
    ok(fopo_matrix_init(&other, cols, DIM));
    fopo_threads_set(1);
    ok(svd(one, s_one, &M, &options));
    for (int threads = 2; threads <= 4; threads += 2) {
      fopo_threads_set(threads);
      ok(svd(other, s_other, &M, &options));
      assert_memory_equal(one.x, other.x, cols * DIM * sizeof(float));
      assert_memory_equal(s_one, s_other, sizeof s_one);
    }
    options.seed = 10;
    ok(svd(other, s_other, &M, &options));
    assert_memory_not_equal(one.x, other.x, cols * DIM * sizeof(float));
  }
}

/* Of one block M^T Y is summed at once; of others every sum goes on where it was. */
TEST(same_bits_for_any_blocks) {
  enum { DIM = 12 };
  static const size_t entries[] = {1, 700, 11000, 19999};
  for (int wide = 0; wide < 2; wide++) {
    for (int with_values = 0; with_values < 2; with_values++) {
      size_t rows = wide ? 700 : 1100, cols = wide ? 1100 : 700;
      DONE(fopo_csr_done) fopo_csr M = drawn(rows, cols, 20000);
      if (with_values) {
        M.values = fopo_alloc(fopo_csr_nnz(&M), sizeof *M.values);
        fopo_fill_normal(M.values, fopo_csr_nnz(&M), 1.0, 4, FOPO_STREAM_INIT);
      }
      fopo_svd_options options = {.dim = DIM, .power_iterations = 2, .seed = 9};
      DONE(fopo_matrix_done) fopo_matrix one, other;
      float s_one[DIM], s_other[DIM];
      ok(fopo_matrix_init(&one, cols, DIM));
      ok(fopo_matrix_init(&other, cols, DIM));
      ok(svd(one, s_one, &M, &options));
      for (size_t k = 0; k < sizeof entries / sizeof *entries; k++) {
        fopo_svd_block(entries[k]);
        ok(svd(other, s_other, &M, &options));
        assert_memory_equal(one.x, other.x, cols * DIM * sizeof(float));
        assert_memory_equal(s_one, s_other, sizeof s_one);
      }
      fopo_svd_block(0);
    }
  }
}

TEST(refusals) {
  float x[6] = {1, 2, 3, 4, 5, 6}, v[9], s[3];
  DONE(fopo_csr_done) fopo_csr M = sparse_of(fopo_matrix_view(x, 2, 3));
  fopo_svd_options options = {.dim = 3};
  refused(svd(fopo_matrix_view(v, 3, 3), s, &M, &options), FOPO_ERR_ARGUMENT, "use 1 <= dim <= 2");
  options.dim = 0;
  assert_int_equal(svd(fopo_matrix_view(v, 3, 0), s, &M, &options), FOPO_ERR_ARGUMENT);
  options.dim = 2;
  assert_int_equal(svd(fopo_matrix_view(v, 3, 3), s, &M, &options), FOPO_ERR_ARGUMENT);
}

/* Progress ends at its total, and asks for the interruption after `stop` calls. */
static struct {
  int calls, stop, closed;
  double last, total;
} seen;

static void watch(void *payload, const char *what, double done, double total, int closed) {
  (void)payload;
  if (strstr(what, "singular") == NULL) return;
  assert_true(done >= seen.last && done <= total * (1 + 1e-9));
  seen.last = done;
  seen.total = total;
  seen.closed += closed;
  if (++seen.calls == seen.stop) fopo_interrupt_request();
}

TEST(progress_and_interruption) {
  size_t live = fopo_memory_in_use().blocks;
  for (int wide = 0; wide < 2; wide++) {
    DONE(fopo_csr_done) fopo_csr M = drawn(wide ? 300 : 900, wide ? 900 : 300, 5000);
    DONE(fopo_matrix_done) fopo_matrix V;
    float s[5];
    ok(fopo_matrix_init(&V, M.cols, 5));
    for (size_t q = 0; q < 3; q++) {
      fopo_svd_options options = {.dim = 5, .power_iterations = q};
      memset(&seen, 0, sizeof seen);
      fopo_progress_to(watch, NULL);
      ok(svd(V, s, &M, &options));
      assert_int_equal(seen.closed, 1);
      int calls = seen.calls;
      for (int stop = 1; stop < calls; stop++) {
        memset(&seen, 0, sizeof seen);
        seen.stop = stop;
        assert_int_equal(svd(V, s, &M, &options), FOPO_ERR_INTERRUPTED);
        fopo_interrupt_clear();
      }
      fopo_progress_to(NULL, NULL);
    }
  }
  assert_int_equal(fopo_memory_in_use().blocks, live);
}

int main(void) { return run_all(NULL, NULL); }
