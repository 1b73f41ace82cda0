/* The exact sums of the softmax, the temperature chosen from them, and the expected reward, against
 * the definition in double. */
#include "core/progress.h"
#include "judge/expected.h"
#include "policy/softmax.h"
#include "small_world.h"

enum { P = 9000, N = 5, DIM = 4 }; /* more items than two tiles hold */

static void make(small_world *w) { small_world_init(w, P, N, DIM, 0.01, 0.7, 3); }

/* pi(. | x_n) [P] in double; the caller frees it. */
static double *policy_of(const small_world *w, size_t n) {
  double *theta = small_world_theta(w), *pi = fopo_alloc(P, sizeof *pi);
  small_world_policy(pi, w, theta, n);
  fopo_free(theta);
  return pi;
}

static double sum_of_squares(const double *pi) {
  double sum = 0.0;
  for (size_t a = 0; a < P; a++) sum += pi[a] * pi[a];
  return sum;
}

static double expected_of(const small_world *w, const double *pi, size_t n) {
  double sum = 0.0;
  for (size_t a = 0; a < P; a++) {
    if (fopo_csr_contains(&w->Y, n, (uint32_t)a)) sum += pi[a];
  }
  return sum;
}

TEST(test_sums) {
  small_world w;
  make(&w);
  fopo_matrix Q = {0};
  double log_z[N], squares[N], again[N];
  int kept = fopo_threads();
  ok(fopo_matrix_init(&Q, N, DIM));
  ok(fopo_policy_queries(Q, &w.pi, w.contexts));
  fopo_scores scores = {.Q = Q, .items = w.items};
  ok(fopo_softmax_sums(log_z, squares, &scores, 0, N));
  for (size_t n = 0; n < N; n++) {
    double *pi = policy_of(&w, n), f = 0.0;
    for (size_t j = 0; j < DIM; j++) f += (double)fopo_matrix_row(Q, n)[j] * (double)w.items.x[j];
    assert_true(fabs(f - log_z[n] - log(pi[0])) < 1e-5);
    assert_true(fabs(squares[n] / sum_of_squares(pi) - 1.0) < 1e-5);
    fopo_free(pi);
  }
  ok(fopo_threads_set(3));
  ok(fopo_softmax_sums(again, NULL, &scores, 0, N));
  assert_memory_equal(again, log_z, sizeof log_z);
  ok(fopo_threads_set(kept));
  Q.x[DIM] = INFINITY;
  refused(fopo_softmax_sums(log_z, NULL, &scores, 0, N), FOPO_ERR_NUMERIC, "context 2");
  refused(fopo_softmax_sums(log_z, NULL, &scores, 256, 256 + N), FOPO_ERR_NUMERIC, "context 258");
  fopo_interrupt_request();
  scores.Q.rows = 1;
  assert_int_equal(fopo_softmax_sums(log_z, NULL, &scores, 0, N), FOPO_ERR_INTERRUPTED);
  fopo_interrupt_clear();
  fopo_matrix_done(&Q);
  small_world_done(&w);
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

/* Any number of threads chooses the same bits, for dimensions that BLAS sums in different ways. */
TEST(test_temperature_by_threads) {
  static const size_t dims[] = {7, 16, 33, 100};
  int kept = fopo_threads();
  for (size_t i = 0; i < 4; i++) {
    DONE(small_world_done) small_world w;
    double T[3];
    small_world_init(&w, 5000, 16, dims[i], 0.001, 0.7, 3);
    for (int threads = 1; threads <= 3; threads++) {
      ok(fopo_threads_set(threads));
      fopo_scores scores = {.Q = w.contexts, .items = w.items};
      ok(fopo_softmax_temperature(&T[threads - 1], &scores, 30.0));
    }
    assert_memory_equal(&T[0], &T[1], sizeof *T);
    assert_memory_equal(&T[0], &T[2], sizeof *T);
  }
  ok(fopo_threads_set(kept));
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

/* At the temperature that is chosen a context has as many items in effect as were asked for. */
TEST(test_temperature) {
  static const double wanted[] = {1.5, 30.0, 4000.0};
  small_world w;
  make(&w);
  fopo_matrix Q = {0}, zeros = {0};
  double T[N], middle, log_z, squares;
  ok(fopo_matrix_init(&Q, N, DIM));
  ok(fopo_matrix_init(&zeros, 2, DIM));
  ok(fopo_policy_queries(Q, &w.pi, w.contexts));
  fopo_scores scores = {.Q = Q, .items = w.items}, equal = {.Q = zeros, .items = w.items};
  for (size_t i = 0; i < 3; i++) {
    for (size_t n = 0; n < N; n++) {
      fopo_scores one = {.Q = fopo_matrix_rows(Q, n, 1), .items = w.items};
      float scaled[DIM];
      ok(fopo_softmax_temperature(&T[n], &one, wanted[i]));
      for (size_t j = 0; j < DIM; j++) scaled[j] = (float)((double)one.Q.x[j] / T[n]);
      one.Q = fopo_matrix_view(scaled, 1, DIM);
      ok(fopo_softmax_sums(&log_z, &squares, &one, 0, 1));
      assert_true(fabs(1.0 / squares / wanted[i] - 1.0) < 1e-4);
    }
    ok(fopo_softmax_temperature(&middle, &scores, wanted[i]));
    size_t below = 0, above = 0;
    for (size_t n = 0; n < N; n++) {
      below += T[n] < middle;
      above += T[n] > middle;
    }
    assert_int_equal(below, N / 2);
    assert_int_equal(above, N / 2);
  }
  refused(fopo_softmax_temperature(&middle, &equal, 30.0), FOPO_ERR_ARGUMENT, "none of 2 contexts");
  refused(fopo_softmax_temperature(&middle, &scores, P), FOPO_ERR_ARGUMENT, "fewer than 9000");
  fopo_matrix_done(&Q);
  fopo_matrix_done(&zeros);
  small_world_done(&w);
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

TEST(test_expected) {
  small_world w;
  make(&w);
  fopo_sessions sessions = {.Y = w.Y};
  fopo_expected e;
  double reward[N], sum = 0.0, deviations = 0.0, middle = 0.0;
  for (size_t n = 0; n < N; n++) {
    FREED(fopo_free) double *pi = policy_of(&w, n);
    reward[n] = expected_of(&w, pi, n);
    sum += reward[n];
  }
  for (size_t n = 0; n < N; n++) deviations += (reward[n] - sum / N) * (reward[n] - sum / N);
  ok(fopo_evaluate_expected(&e, &w.pi, w.contexts, &sessions, NULL, 0));
  assert_int_equal(e.contexts, N);
  assert_true(fabs(e.reward - sum / N) < 1e-6);
  assert_true(fabs(e.se - sqrt(deviations / (N - 1) / N)) < 1e-6);
  for (size_t n = 0; n < N; n++) { /* the median: two others are below and two above it */
    double *pi = policy_of(&w, n), effective = 1.0 / sum_of_squares(pi);
    if (fabs(effective / e.effective - 1.0) < 1e-4) middle += 1.0;
    fopo_free(pi);
  }
  assert_true(middle > 0.5);
  /* Contexts 0 and 2 of 5 are those of two evenly spread. */
  ok(fopo_evaluate_expected(&e, &w.pi, w.contexts, &sessions, NULL, 2));
  assert_int_equal(e.contexts, 2);
  assert_true(fabs(e.reward - (reward[0] + reward[2]) / 2.0) < 1e-6);
  ok(fopo_evaluate_expected(&e, &w.pi, fopo_matrix_rows(w.contexts, 0, N), &sessions, NULL, N + 1));
  assert_int_equal(e.contexts, N);
  refused(fopo_evaluate_expected(&e, &w.pi, fopo_matrix_rows(w.contexts, 0, 2), &sessions, NULL, 0),
          FOPO_ERR_ARGUMENT, "2 contexts");
  small_world_done(&w);
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

int main(void) { return run_all(NULL, NULL); }
