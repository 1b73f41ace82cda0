/* Baselines when memory fails or somebody presses Ctrl-C, what they learn from, and the inverse
 * that ease needs. Their numbers are compared with NumPy's by tests/test_baselines.py. */

#include "core/progress.h"
#include "core/solve.h"
#include "data/histories.h"
#include "judge/baseline.h"
#include "small_world.h"
#include "sound.h"

FREED_BY(fopo_baseline_free, fopo_baseline)

enum { N = 60, P = 90, K = 4 };

/* X has the items with a hash below 0.1, Y those above 0.9, and each some of both. */
static void make_sessions(fopo_sessions *s) {
  uint32_t row[2][N * P], col[2][N * P];
  size_t n[2] = {0, 0}, repeats;
  *s = (fopo_sessions){0};
  for (uint32_t i = 0; i < N; i++) {
    for (uint32_t a = 0; a < P; a++) {
      double u = fopo_unit(fopo_random(5, FOPO_STREAM_WORLD, 3, i, a).v[0]);
      int in[2] = {u<0.1, u> 0.9 || u < 0.02};
      for (int side = 0; side < 2; side++) {
        row[side][n[side]] = i;
        col[side][n[side]] = a;
        n[side] += (size_t)in[side];
      }
    }
  }
  ok(fopo_csr_from_pairs(&s->X, row[0], col[0], NULL, n[0], N, P, &repeats));
  ok(fopo_csr_from_pairs(&s->Y, row[1], col[1], NULL, n[1], N, P, &repeats));
}

static fopo_baseline_options options_of(const fopo_baseline_kind *kind) {
  return (fopo_baseline_options){
      .kind = kind, .neighbours = 5, .dim = 4, .iterations = 2, .l2 = 3.0, .alpha = 2.0, .seed = 1};
}

TEST(test_interactions) {
  DONE(fopo_sessions_done) fopo_sessions s;
  DONE(fopo_csr_done) fopo_csr both;
  make_sessions(&s);
  ok(fopo_interactions(&both, &s));
  assert_true(is_sound(&both, fopo_csr_nnz(&both)));
  size_t overlap = fopo_csr_nnz(&s.X) + fopo_csr_nnz(&s.Y) - fopo_csr_nnz(&both);
  assert_in_range(overlap, 20, 300); /* 2 % of N P */
  for (uint32_t i = 0; i < N; i++) {
    for (uint32_t a = 0; a < P; a++) {
      assert_int_equal(fopo_csr_contains(&both, i, a),
                       fopo_csr_contains(&s.X, i, a) || fopo_csr_contains(&s.Y, i, a));
    }
  }
}

static int learn_and_recommend(const fopo_baseline_kind *kind, const fopo_sessions *s) {
  fopo_baseline *b = NULL;
  fopo_baseline_options o = options_of(kind);
  uint32_t ids[N * K], counts[N];
  float scores[N * K];
  int status = fopo_baseline_new(&b, s, &o);
  if (status == FOPO_OK) status = fopo_baseline_best(ids, scores, counts, b, s, K, 1);
  for (size_t i = 0; status == FOPO_OK && i < N * K; i++) {
    if (i % K < counts[i / K]) assert_in_range(ids[i], 0, P - 1);
  }
  fopo_baseline_free(b);
  return status;
}

TEST(test_memory) {
  DONE(fopo_sessions_done) fopo_sessions s;
  make_sessions(&s);
  for (int i = 0; fopo_baseline_kinds[i] != NULL; i++) {
    size_t blocks = fopo_memory_in_use().blocks;
    ok(learn_and_recommend(fopo_baseline_kinds[i], &s));
    for (long fault = 0, failed = 1; failed; fault++) {
      fopo_memory_fail_after(fault, 0);
      failed = learn_and_recommend(fopo_baseline_kinds[i], &s) != FOPO_OK;
      fopo_memory_fail_after(-1, 0);
      assert_int_equal(fopo_memory_in_use().blocks, blocks);
      assert_in_range(fault, 0, 100);
    }
  }
}

/* Learning and recommending both end soon, and leave nothing behind. */
TEST(test_interruption) {
  fopo_sessions s;
  uint32_t ids[N * K], counts[N];
  float scores[N * K];
  make_sessions(&s);
  for (int i = 0; fopo_baseline_kinds[i] != NULL; i++) {
    FREED(fopo_baseline_free) fopo_baseline *b = NULL;
    fopo_baseline_options o = options_of(fopo_baseline_kinds[i]);
    int has_loop = strcmp(o.kind->name, "random") != 0 && strcmp(o.kind->name, "popular") != 0;
    fopo_interrupt_request();
    int status = fopo_baseline_new(&b, &s, &o);
    fopo_interrupt_clear();
    assert_int_equal(status, has_loop ? FOPO_ERR_INTERRUPTED : FOPO_OK);
    fopo_baseline_free(b);
    ok(fopo_baseline_new(&b, &s, &o));
    fopo_interrupt_request();
    refused(fopo_baseline_best(ids, scores, counts, b, &s, K, 0), FOPO_ERR_INTERRUPTED,
            "interrupted while");
    fopo_interrupt_clear();
    ok(fopo_baseline_best(ids, scores, counts, b, &s, K, 0));
  }
  fopo_sessions_done(&s);
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

TEST(test_inverse) {
  double A[] = {4, 1, 0, 0, 3, 1, 0, 0, 2}, bad[] = {1, 2, 0, 1};
  ok(fopo_invert_spd(A, 3));
  /* {{4, 1, 0}, {1, 3, 1}, {0, 1, 2}} has determinant 18 and the inverse below */
  const double inverse[] = {5, -2, 1, 0, 8, -4, 0, 0, 11};
  for (int i = 0; i < 3; i++) {
    for (int j = i; j < 3; j++) {
      assert_true(fabs(A[i * 3 + j] - inverse[i * 3 + j] / 18.0) < 1e-14);
    }
  }
  refused(fopo_invert_spd(bad, 2), FOPO_ERR_NUMERIC, "not positive definite");
}

int main(void) { return run_all(NULL, NULL); }
