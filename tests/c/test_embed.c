/* Embeddings and contexts: scales, contexts against sums in double, determinism, refusals. */
#include <math.h>

#include "checks.h"
#include "contexts/contexts.h"
#include "core/progress.h"
#include "core/sort.h"
#include "core/threads.h"
#include "data/embed.h"
#include "data/world/synthetic.h"

static const fopo_encoding by_mean = {&fopo_encoder_mean, NULL};
static const fopo_encoding by_unit = {&fopo_encoder_unit, NULL};

enum { P = 600, L = 6 };

static fopo_split split;
static const fopo_embed_options svd = {{L, 0, 4, 1}, {0, 0}, 0};

static int make_split(void **state) {
  (void)state;
  fopo_world_options o = {.users = 400, .items = P, .clusters = 6, .mean_items = 30, .seed = 4};
  fopo_world *w;
  fopo_dataset *d;
  int status = fopo_world_new(&w, &d, &o);
  if (status == FOPO_OK) {
    status =
        fopo_split_by(&split, d, &(fopo_split_options){4, 0, 0.1, 0.1, 2}, &(fopo_split_plan){0});
  }
  fopo_world_free(w);
  fopo_dataset_free(d);
  return status;
}

static int drop_split(void **state) {
  (void)state;
  fopo_split_done(&split);
  return 0;
}

static fopo_matrix embed(int scale, float *s) {
  fopo_embed_options o = {svd.svd, fopo_scales[scale], 0};
  fopo_matrix items;
  ok(fopo_matrix_init(&items, P, L));
  ok(fopo_embed_svd(items, s, &split.train, &o));
  return items;
}

static size_t items_seen(void) {
  uint8_t seen[P] = {0};
  size_t n = 0;
  const fopo_csr *halves[2] = {&split.train.X, &split.train.Y};
  for (int h = 0; h < 2; h++) {
    for (size_t k = 0; k < fopo_csr_nnz(halves[h]); k++) seen[halves[h]->ids[k]] = 1;
  }
  for (size_t a = 0; a < P; a++) n += seen[a];
  return n;
}

/* M V = U S: the columns of M V are orthogonal with norms s, M being X + Y. */
TEST(columns_are_singular_vectors) {
  float s[L];
  DONE(fopo_matrix_done) fopo_matrix V = embed(FOPO_SCALE_NONE, s);
  double gram[L][L] = {{0}}, product[L][L] = {{0}};
  for (size_t a = 0; a < P; a++) {
    for (size_t i = 0; i < L; i++) {
      for (size_t j = 0; j < L; j++) gram[i][j] += (double)V.x[a * L + i] * (double)V.x[a * L + j];
    }
  }
  for (size_t row = 0; row < split.train.X.rows; row++) {
    double u[L] = {0};
    const fopo_csr *halves[2] = {&split.train.X, &split.train.Y};
    for (int h = 0; h < 2; h++) {
      for (size_t k = 0; k < fopo_csr_count(halves[h], row); k++) {
        const float *v = fopo_matrix_row(V, fopo_csr_row(halves[h], row)[k]);
        for (size_t j = 0; j < L; j++) u[j] += (double)v[j];
      }
    }
    for (size_t i = 0; i < L; i++) {
      for (size_t j = 0; j < L; j++) product[i][j] += u[i] * u[j];
    }
  }
  for (size_t i = 0; i < L; i++) {
    for (size_t j = 0; j < L; j++) {
      double square = i == j ? (double)s[i] * (double)s[i] : 0;
      assert_true(fabs(gram[i][j] - (i == j)) < 1e-4);
      assert_true(fabs(product[i][j] - square) < 2e-3 * (double)s[0] * (double)s[0]);
    }
  }
}

TEST(scales_are_as_told) {
  float s[L];
  DONE(fopo_matrix_done) fopo_matrix V = embed(FOPO_SCALE_NONE, s);
  DONE(fopo_matrix_done) fopo_matrix root = embed(FOPO_SCALE_SQRT, NULL);
  DONE(fopo_matrix_done) fopo_matrix sigma = embed(FOPO_SCALE_SIGMA, NULL);
  double sum = 0, seen = (double)items_seen();
  for (size_t j = 0; j < L; j++) sum += (double)s[j];
  for (size_t a = 0; a < P; a++) {
    for (size_t j = 0; j < L; j++) {
      double v = (double)V.x[a * L + j], c = sqrt((double)s[j] * seen / sum);
      assert_true(fabs((double)root.x[a * L + j] - c * v) < 1e-5);
      assert_true(fabs((double)sigma.x[a * L + j] - (double)s[j] * v) < 1e-4);
    }
  }
  assert_true(fabs(fopo_matrix_norm2(root) / seen - 1) < 1e-3);
  /* Singular values below 1 are scaled to the same norms. */
  const float small[] = {0.5f, 0.25f};
  float factor[2];
  fopo_embed_factors(factor, small, NULL, 2, 7, (fopo_scale){1, 1});
  assert_true(fabsf(factor[0] * factor[0] + factor[1] * factor[1] - 7.0f) < 1e-5f);
  assert_true(fabsf(factor[0] - 2.0f * factor[1]) < 1e-5f);
}

TEST(contexts_are_means) {
  DONE(fopo_matrix_done) fopo_matrix items = embed(FOPO_SCALE_SQRT, NULL), x;
  const fopo_csr *X = &split.train.X;
  ok(fopo_matrix_init(&x, X->rows, L));
  ok(fopo_encode(x, by_mean, &split.train.X, items));
  for (size_t row = 0; row < X->rows; row++) {
    for (size_t j = 0; j < L; j++) {
      double sum = 0, n = (double)fopo_csr_count(X, row);
      for (size_t k = 0; k < fopo_csr_count(X, row); k++) {
        sum += (double)fopo_matrix_row(items, fopo_csr_row(X, row)[k])[j];
      }
      assert_true(fabs((double)x.x[row * L + j] - sum / n) < 1e-4);
    }
  }
  /* the same direction, of length 1 */
  DONE(fopo_matrix_done) fopo_matrix unit;
  ok(fopo_matrix_init(&unit, X->rows, L));
  ok(fopo_encode(unit, by_unit, &split.train.X, items));
  for (size_t row = 0; row < X->rows; row++) {
    const float *a = fopo_matrix_row(x, row), *b = fopo_matrix_row(unit, row);
    double aa = 0, ab = 0, bb = 0;
    for (size_t j = 0; j < L; j++) {
      aa += (double)a[j] * (double)a[j];
      ab += (double)a[j] * (double)b[j];
      bb += (double)b[j] * (double)b[j];
    }
    assert_true(fabs(bb - 1) < 1e-5 && fabs(ab / sqrt(aa) - 1) < 1e-5);
  }
}

TEST(empty_context_is_zero) {
  DONE(fopo_sessions_done) fopo_sessions s = {0};
  DONE(fopo_matrix_done) fopo_matrix items = embed(FOPO_SCALE_NONE, NULL), x;
  ok(fopo_csr_init(&s.X, 2, P, 1, 0));
  s.X.indptr[2] = 1;
  s.X.ids[0] = 5;
  ok(fopo_matrix_init(&x, 2, L));
  for (size_t k = 0; k < 2 * L; k++) x.x[k] = 9;
  ok(fopo_encode(x, by_mean, &s.X, items));
  for (size_t j = 0; j < L; j++) assert_true(x.x[j] == 0);
  assert_memory_equal(x.x + L, items.x + 5 * L, L * sizeof *x.x);
}

TEST(same_for_any_threads) {
  int before = fopo_threads();
  size_t n = split.train.X.rows;
  fopo_threads_set(1);
  DONE(fopo_matrix_done) fopo_matrix items = embed(FOPO_SCALE_SQRT, NULL), x, y;
  ok(fopo_matrix_init(&x, n, L));
  ok(fopo_matrix_init(&y, n, L));
  ok(fopo_encode(x, by_mean, &split.train.X, items));
  for (int threads = 2; threads <= 4; threads += 2) {
    fopo_threads_set(threads);
    DONE(fopo_matrix_done) fopo_matrix again = embed(FOPO_SCALE_SQRT, NULL);
    assert_memory_equal(items.x, again.x, (size_t)P * L * sizeof *items.x);
    ok(fopo_encode(y, by_mean, &split.train.X, again));
    assert_memory_equal(x.x, y.x, n * L * sizeof *x.x);
  }
  fopo_threads_set(before);
}

/* Items that are in X and in Y stand once in what a block takes, and weigh once by degree. */
TEST(same_for_any_blocks) {
  DONE(fopo_matrix_done) fopo_matrix one, other;
  DONE(fopo_sessions_done) fopo_sessions s = {0};
  ok(fopo_csr_copy(&s.X, &split.train.X));
  ok(fopo_csr_copy(&s.Y, &split.train.Y));
  for (size_t row = 0; row < s.X.rows; row++) {
    if (row % 3 == 0) s.Y.ids[s.Y.indptr[row]] = s.X.ids[s.X.indptr[row]];
    fopo_sort_u32(s.Y.ids + s.Y.indptr[row], fopo_csr_count(&s.Y, row));
  }
  ok(fopo_matrix_init(&one, P, L));
  ok(fopo_matrix_init(&other, P, L));
  for (int by_degree = 0; by_degree < 2; by_degree++) {
    fopo_embed_options o = {svd.svd, {0.5, 1}, by_degree};
    ok(fopo_embed_svd(one, NULL, &s, &o));
    for (size_t entries = 1000; entries < 9000; entries *= 2) {
      fopo_svd_block(entries);
      ok(fopo_embed_svd(other, NULL, &s, &o));
      assert_memory_equal(one.x, other.x, (size_t)P * L * sizeof *one.x);
    }
    fopo_svd_block(0);
  }
}

TEST(refusals) {
  DONE(fopo_matrix_done) fopo_matrix items = embed(FOPO_SCALE_NONE, NULL), x;
  fopo_matrix fewer = fopo_matrix_rows(items, 0, P - 1);
  fopo_sessions none = {.X = {.cols = P}};
  ok(fopo_matrix_init(&x, split.train.X.rows, L));
  refused(fopo_embed_svd(fewer, NULL, &split.train, &svd), FOPO_ERR_ARGUMENT, "599 x 6");
  assert_int_equal(fopo_embed_svd(items, NULL, &none, &svd), FOPO_ERR_ARGUMENT);
  refused(fopo_encode(x, by_mean, &split.train.X, fewer), FOPO_ERR_ARGUMENT, "599 items");
  assert_int_equal(fopo_encode(x, by_mean, &split.test.X, items), FOPO_ERR_ARGUMENT);

  fopo_interrupt_request();
  assert_int_equal(fopo_encode(x, by_mean, &split.train.X, items), FOPO_ERR_INTERRUPTED);
  assert_int_equal(fopo_embed_svd(items, NULL, &split.train, &svd), FOPO_ERR_INTERRUPTED);
  fopo_interrupt_clear();
  ok(fopo_encode(x, by_mean, &split.train.X, items));
}

int main(void) { return run_all(make_split, drop_split); }
