/* The exact gradient against central differences in double, the course of a computation (parts,
 * rewards from outside, threads, no allocation), and what is refused. */
#include "core/progress.h"
#include "small_world.h"

static double norm_of(const double *x, size_t n) {
  double sum = 0.0;
  for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
  return sqrt(sum);
}

/* |G - reference| / |reference|, Frobenius */
static double relative(const float *G, const double *reference, size_t n) {
  double sum = 0.0;
  for (size_t i = 0; i < n; i++) {
    sum += ((double)G[i] - reference[i]) * ((double)G[i] - reference[i]);
  }
  return sqrt(sum) / norm_of(reference, n);
}

/* The gradient of contexts 0 .. B-1 into G [L, L]. */
static fopo_gradient_stats compute(float *G, small_world *w, fopo_gradient_options options,
                                   size_t B, uint32_t step) {
  fopo_gradient *g = NULL;
  fopo_gradient_stats stats;
  ok(fopo_gradient_new(&g, &options));
  ok(fopo_gradient_bind(g, w->device, &w->pi, fopo_contexts_of(w->contexts), &w->reward));
  ok(compute_gradient(g, fopo_matrix_view(G, w->L, w->L), &stats, w->rows, B,
                      (fopo_draw_key){5, step}));
  fopo_gradient_free(g);
  return stats;
}

/* The reference itself: differences of the expected reward, all in double. */
TEST_WITH(test_reference, no_leak) {
  DONE(small_world_done) small_world w;
  small_world_init(&w, 40, 6, 5, 0.2, 0.3, 1);
  size_t n = w.L * w.L;
  double *theta = small_world_theta(&w), G[25], D[25], h = 1e-5;
  small_world_reward(G, &w, theta, w.N);
  for (size_t i = 0; i < n; i++) {
    double kept = theta[i];
    theta[i] = kept + h;
    double up = small_world_reward(NULL, &w, theta, w.N);
    theta[i] = kept - h;
    double down = small_world_reward(NULL, &w, theta, w.N);
    theta[i] = kept;
    D[i] = (up - down) / (2.0 * h) - G[i];
  }
  double error = norm_of(D, n) / norm_of(G, n);
  print_message("reference against central differences: %.1e\n", error);
  assert_true(error < 1e-6);
  fopo_free(theta);
}

static double exact_error(size_t P, size_t N, size_t L, double peak, uint64_t seed) {
  small_world w;
  small_world_init(&w, P, N, L, 0.2, peak, seed);
  double *theta = small_world_theta(&w), *reference = fopo_alloc(L * L, sizeof *reference);
  float *G = fopo_alloc(L * L, sizeof *G);
  double reward = small_world_reward(reference, &w, theta, N);
  fopo_gradient_stats stats =
      compute(G, &w, (fopo_gradient_options){.estimator = &fopo_estimator_exact}, N, 0);
  double error = relative(G, reference, L * L);
  print_message("exact, P = %zu, B = %zu, L = %zu: relative error %.1e, reward %.6f (%.6f)\n", P, N,
                L, error, stats.mean.reward, reward);
  assert_true(fabs(stats.mean.reward - reward) < 1e-5 * reward);
  assert_true(fabs(stats.mean.norm - norm_of(reference, L * L)) < 1e-5 * stats.mean.norm);
  fopo_free(theta);
  fopo_free(reference);
  fopo_free(G);
  small_world_done(&w);
  return error;
}

TEST_WITH(test_exact, no_leak) {
  assert_true(exact_error(40, 6, 5, 0.3, 1) < 1e-6);
  assert_true(exact_error(64, 3, 4, 0.5, 2) < 1e-6);
  assert_true(exact_error(700, 16, 24, 0.1, 3) < 1e-5);
}

/* 1,500 contexts x 3,000 items are more draws than are held at once. */
TEST_WITH(test_parts, no_leak) { assert_true(exact_error(3000, 1500, 4, 0.3, 4) < 1e-5); }

static fopo_gradient_options options_of(int which, fopo_index *ix) {
  fopo_proposal uniform = {.kind = FOPO_PROPOSAL_UNIFORM};
  fopo_proposal mixture = {.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 16, .epsilon = 0.4};
  fopo_proposal head = {.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 16};
  fopo_proposal stratified = mixture;
  stratified.stratified = 1;
  fopo_gradient_options all[] = {
      {.estimator = &fopo_estimator_exact, .proposal = uniform},
      {.estimator = &fopo_estimator_reinforce, .samples = 50, .proposal = uniform},
      {.estimator = &fopo_estimator_reinforce, .samples = 50, .baseline = 1, .proposal = uniform},
      {.estimator = &fopo_estimator_snis, .samples = 50, .proposal = uniform},
      {.estimator = &fopo_estimator_snis, .samples = 50, .proposal = mixture},
      {.estimator = &fopo_estimator_snis, .samples = 50, .proposal = stratified},
      {.estimator = &fopo_estimator_head_tail, .samples = 30, .proposal = head},
  };
  return all[which];
}

enum { ESTIMATORS = 7 };

/* Head and tail over all items is the exact gradient, whatever the candidates are. */
TEST_WITH(test_whole_tail, no_leak) {
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  small_world_init(&w, 300, 20, 6, 0.1, 0.3, 5);
  ok(fopo_index_norm(&ix, w.items, 0));
  double *theta = small_world_theta(&w), exact[36];
  double reward = small_world_reward(exact, &w, theta, w.N);
  for (size_t k = 1; k < 300; k += 149) {
    float G[36];
    fopo_gradient_options o = {.estimator = &fopo_estimator_head_tail,
                               .samples = 300 - k,
                               .proposal = {.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = k}};
    fopo_gradient_stats stats = compute(G, &w, o, w.N, 3);
    double error = relative(G, exact, 36);
    print_message("head %zu, tail %zu: relative error %.1e, head mass %.4f\n", k, 300 - k, error,
                  stats.mean.head_mass);
    assert_true(error < 1e-5);
    assert_true(fabs(stats.mean.reward - reward) < 1e-5 * reward);
    assert_true(stats.mean.head_mass > 0.0 && stats.mean.head_mass < 1.0);
  }
  fopo_free(theta);
}

TEST_WITH(test_threads, no_leak) {
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  float G[3][36];
  int kept = fopo_threads(), threads[] = {1, 2, 4};
  small_world_init(&w, 300, 20, 6, 0.1, 0.3, 5);
  ok(fopo_index_norm(&ix, w.items, 0));
  for (int which = 0; which < ESTIMATORS; which++) {
    for (int i = 0; i < 3; i++) {
      ok(fopo_threads_set(threads[i]));
      compute(G[i], &w, options_of(which, ix), w.N, 3);
    }
    assert_memory_equal(G[0], G[1], sizeof G[0]);
    assert_memory_equal(G[0], G[2], sizeof G[0]);
  }
  ok(fopo_threads_set(kept));
}

/* Rewards filled by the caller, from the draws it was handed, give the same bits. */
TEST_WITH(test_outside_reward, no_leak) {
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  float inside[36], outside[36];
  small_world_init(&w, 300, 20, 6, 0.1, 0.3, 6);
  ok(fopo_index_norm(&ix, w.items, 0));
  for (int which = 0; which < ESTIMATORS; which++) {
    fopo_gradient_options options = options_of(which, ix);
    fopo_reward custom = {.kind = &fopo_reward_custom};
    FREED(fopo_gradient_free) fopo_gradient *g = NULL;
    fopo_gradient_stats stats;
    fopo_drawn drawn;
    int status;
    compute(inside, &w, options, w.N, 3);
    ok(fopo_gradient_new(&g, &options));
    ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &custom));
    ok(begin_batch(g, w.rows, w.N, (fopo_draw_key){5, 3}));
    while ((status = fopo_gradient_estimate(g, &drawn)) == FOPO_DRAWN) {
      ok(fopo_reward_fill(drawn.reward, &w.reward, drawn.ids, drawn.rows, drawn.B, drawn.S));
    }
    ok(status);
    ok(fopo_gradient_finish(g, fopo_matrix_view(outside, 6, 6), &stats));
    assert_memory_equal(inside, outside, sizeof inside);
  }
}

/* A reward that was not filled, or is no number, is refused with its place; then all goes on. */
TEST_WITH(test_reward_refused, no_leak) {
  DONE(small_world_done) small_world w;
  small_world_init(&w, 30, 4, 3, 0.2, 0.3, 7);
  fopo_gradient_options options = {.estimator = &fopo_estimator_snis, .samples = 5};
  fopo_reward custom = {.kind = &fopo_reward_custom};
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_stats stats;
  fopo_drawn drawn;
  fopo_draw_key key = {1, 1};
  ok(fopo_gradient_new(&g, &options));
  ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &custom));
  ok(begin_batch(g, w.rows, 4, key));
  assert_int_equal(fopo_gradient_estimate(g, &drawn), FOPO_DRAWN);
  for (size_t i = 0; i < 20; i++) drawn.reward[i] = i == 7 ? INFINITY : 1.0f;
  refused(fopo_gradient_estimate(g, &drawn), FOPO_ERR_NUMERIC, "for context 2 is inf");

  ok(begin_batch(g, w.rows, 4, key));
  assert_int_equal(fopo_gradient_estimate(g, &drawn), FOPO_DRAWN);
  for (size_t i = 1; i < 20; i++) drawn.reward[i] = 1.0f;
  refused(fopo_gradient_estimate(g, &drawn), FOPO_ERR_NUMERIC, "for context 1 is nan");
  refused(compute_gradient(g, (fopo_matrix){0}, &stats, w.rows, 4, key), FOPO_ERR_ARGUMENT,
          "custom");

  /* in the middle of a batch the gradient stays as it is */
  ok(begin_batch(g, w.rows, 4, key));
  assert_int_equal(fopo_gradient_estimate(g, &drawn), FOPO_DRAWN);
  refused(fopo_gradient_set(g, &options), FOPO_ERR_ARGUMENT, "middle");
  refused(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward),
          FOPO_ERR_ARGUMENT, "middle");
  fopo_gradient_abandon(g);
  ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
  ok(compute_gradient(g, (fopo_matrix){0}, &stats, w.rows, 4, key));
}

TEST_WITH(test_options_refused, no_leak) {
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL, *other = NULL;
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_stats stats;
  fopo_matrix none = {0};
  fopo_draw_key key = {1, 1};
  small_world_init(&w, 30, 4, 3, 0.2, 0.3, 8);
  ok(fopo_index_exact(&ix, w.items));
  ok(fopo_index_exact(&other, fopo_matrix_rows(w.items, 0, 20)));
  fopo_gradient_options o = {.estimator = &fopo_estimator_snis, .samples = 1};
  refused(fopo_gradient_new(&g, &o), FOPO_ERR_ARGUMENT, "1 draws a context are given to snis");
  assert_null(g);

  o.samples = 10;
  o.proposal = (fopo_proposal){.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 5, .epsilon = 0.5};
  ok(fopo_gradient_new(&g, &o));
  refused(compute_gradient(g, none, &stats, w.rows, 4, key), FOPO_ERR_ARGUMENT, "no data");
  refused(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.items), &w.reward),
          FOPO_ERR_ARGUMENT, "covers 4 contexts");
  w.contexts.x[4] = NAN;
  refused(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward),
          FOPO_ERR_NUMERIC, "contexts");
  w.contexts.x[4] = 0.5f;
  ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
  ok(compute_gradient(g, none, &stats, w.rows, 4, key));
  refused(compute_gradient(g, none, &stats, w.rows, 0, key), FOPO_ERR_ARGUMENT, "empty");
  uint32_t beyond = 4;
  refused(compute_gradient(g, none, &stats, &beyond, 1, key), FOPO_ERR_ARGUMENT, "context 5 of 4");

  o.proposal.k = 31;
  ok(fopo_gradient_set(g, &o));
  refused(compute_gradient(g, none, &stats, w.rows, 4, key), FOPO_ERR_ARGUMENT, "k is 31");
  o.proposal = (fopo_proposal){.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 5, .epsilon = 1.5};
  ok(fopo_gradient_set(g, &o));
  refused(compute_gradient(g, none, &stats, w.rows, 4, key), FOPO_ERR_ARGUMENT, "epsilon is 1.5");
  o.proposal =
      (fopo_proposal){.kind = FOPO_PROPOSAL_MIXTURE, .k = 5, .epsilon = 0.5, .index = other};
  ok(fopo_gradient_set(g, &o));
  refused(compute_gradient(g, none, &stats, w.rows, 4, key), FOPO_ERR_ARGUMENT, "20 items");
  o.proposal.epsilon = 1.0; /* the index is not asked: whatever it is, it does not matter */
  ok(fopo_gradient_set(g, &o));
  ok(compute_gradient(g, none, &stats, w.rows, 4, key));

  o.estimator = &fopo_estimator_head_tail;
  o.proposal = (fopo_proposal){.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 5, .epsilon = 0.0};
  o.samples = 26;
  ok(fopo_gradient_set(g, &o));
  refused(compute_gradient(g, none, &stats, w.rows, 4, key), FOPO_ERR_ARGUMENT,
          "a tail of 26 draws is more than the 25 of 30 items");
  o.samples = 0;
  refused(fopo_gradient_set(g, &o), FOPO_ERR_ARGUMENT,
          "0 draws a context are given to head and tail");
  o.samples = 25;
  ok(fopo_gradient_set(g, &o));
  ok(compute_gradient(g, none, &stats, w.rows, 4, key));
}

/* After the first batch of a size, every allocation may fail: none is made. */
TEST_WITH(test_allocates_nothing, no_leak) {
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  small_world_init(&w, 300, 20, 6, 0.1, 0.3, 9);
  ok(fopo_index_norm(&ix, w.items, 0));
  for (int which = 0; which < ESTIMATORS; which++) {
    fopo_gradient_options options = options_of(which, ix);
    FREED(fopo_gradient_free) fopo_gradient *g = NULL;
    fopo_gradient_stats stats;
    ok(fopo_gradient_new(&g, &options));
    ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
    for (uint32_t step = 0; step < 4; step++) {
      int status = compute_gradient(g, (fopo_matrix){0}, &stats, w.rows, w.N - step,
                                    (fopo_draw_key){1, step});
      fopo_memory_fail_after(0, 1);
      if (status != FOPO_OK) break;
      ok(status);
    }
    fopo_memory_fail_after(-1, 0);
  }
}

/* Each allocation of a first computation fails in turn: a sentence, no leak, usable afterwards. */
TEST_WITH(test_memory_refused, no_leak) {
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  fopo_gradient_stats stats;
  small_world_init(&w, 60, 4, 3, 0.1, 0.3, 10);
  ok(fopo_index_norm(&ix, w.items, 0));
  fopo_gradient_options options = options_of(4, ix);
  size_t failures = 0;
  for (long n = 0, status = FOPO_ERR_MEMORY; status != FOPO_OK; n++) {
    size_t before = fopo_memory_in_use().blocks;
    fopo_gradient *g = NULL;
    fopo_memory_fail_after(n, 0);
    status = fopo_gradient_new(&g, &options);
    if (status == FOPO_OK) {
      status = fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward);
    }
    for (int i = 0; i < 2 && status == FOPO_OK; i++) {
      status = compute_gradient(g, (fopo_matrix){0}, &stats, w.rows, 4, (fopo_draw_key){1, 1});
    }
    fopo_memory_fail_after(-1, 0);
    if (status != FOPO_OK) assert_int_equal(status, FOPO_ERR_MEMORY);
    failures += status != FOPO_OK;
    if (g != NULL && status != FOPO_OK) {
      ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
      ok(compute_gradient(g, (fopo_matrix){0}, &stats, w.rows, 4, (fopo_draw_key){1, 1}));
    }
    fopo_gradient_free(g);
    /* once, the device and the index take scratch that they keep */
    if (n > 1) assert_int_equal(fopo_memory_in_use().blocks, before);
  }
  assert_true(failures > 5);
}

TEST_WITH(test_interrupted, no_leak) {
  DONE(small_world_done) small_world w;
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_stats stats;
  small_world_init(&w, 30, 4, 3, 0.2, 0.3, 11);
  fopo_gradient_options options = {.estimator = &fopo_estimator_exact};
  ok(fopo_gradient_new(&g, &options));
  ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
  fopo_interrupt_request();
  refused(compute_gradient(g, (fopo_matrix){0}, &stats, w.rows, 4, (fopo_draw_key){1, 1}),
          FOPO_ERR_INTERRUPTED, "interrupted");
  fopo_interrupt_clear();
  ok(compute_gradient(g, (fopo_matrix){0}, &stats, w.rows, 4, (fopo_draw_key){1, 1}));
}

int main(void) { return run_all(NULL, NULL); }
