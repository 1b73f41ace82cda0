/* A policy that masks X. The exact gradient against central differences in double, and what the
 * masked items earn and weigh; the other estimators are compared with it by fopo.check
 * (tests/lua/test_mask.lua), devices with each other in test_cuda_runs.c, ranks in
 * tests/test_ranks.py. */
#include "judge/reference.h"
#include "small_world.h"

enum { P = 40, N = 12, DIM = 3, ENTRIES = DIM * DIM };

/* X of each context: its first hit, and every fifth item from its number on. */
static void lists(fopo_csr *X, const small_world *w) {
  size_t n = 0, repeats;
  uint32_t row[N * P], col[N * P];
  for (uint32_t i = 0; i < N; i++) {
    for (uint32_t a = 0; a < P; a++) {
      int first = fopo_csr_count(&w->Y, i) > 0 && fopo_csr_row(&w->Y, i)[0] == a;
      if (!first && (a + i) % 5 > 0) continue;
      row[n] = i, col[n++] = a;
    }
  }
  ok(fopo_csr_from_pairs(X, row, col, NULL, n, N, P, &repeats));
}

TEST(exact_gradient_is_that_of_the_masked_reward) {
  DONE(small_world_done) small_world w;
  DONE(fopo_csr_done) fopo_csr X = {0};
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_options o = {.estimator = &fopo_estimator_exact};
  small_world_init(&w, P, N, DIM, 0.25, 0.5, 3);
  lists(&X, &w);
  w.pi.masks_seen = 1;
  fopo_contexts contexts = fopo_contexts_of(w.contexts);
  ok(fopo_gradient_new(&g, &o));
  refused(fopo_gradient_bind(g, w.device, &w.pi, contexts, &w.reward), FOPO_ERR_ARGUMENT,
          "give the sessions");
  contexts.X = X;
  ok(fopo_gradient_bind(g, w.device, &w.pi, contexts, &w.reward));
  float u[2 * ENTRIES], r[P], G[ENTRIES];
  fopo_fill_normal(u, 2 * ENTRIES, 1.0, 9, FOPO_STREAM_INIT);
  for (size_t n = 0; n < N; n++) {
    double slope[2], value, log_z, earned = 0;
    fopo_gradient_stats stats;
    fopo_sparse_scores seen =
        fopo_score_from(&(fopo_sparse_scores){X.indptr, X.ids, NULL, NULL}, n);
    fopo_reference_context one = {.x = fopo_matrix_row(w.contexts, n), .r = r, .sparse = &seen};
    for (uint32_t a = 0; a < P; a++) r[a] = (float)fopo_csr_contains(&w.Y, n, a);
    ok(compute_gradient(g, fopo_matrix_view(G, DIM, DIM), &stats, w.rows + n, 1,
                        (fopo_draw_key){5, 0}));
    ok(fopo_reference_slopes(slope, &value, &log_z, &w.pi, &one, fopo_matrix_view(u, 2, ENTRIES),
                             1e-5));
    assert_true(fabs(value - stats.mean.reward) < 1e-5);
    for (size_t k = 0; k < 2; k++) {
      double along = 0;
      for (size_t i = 0; i < ENTRIES; i++) along += (double)G[i] * (double)u[k * ENTRIES + i];
      assert_true(fabs(along - slope[k]) < 1e-4 * (fabs(slope[k]) + stats.mean.norm));
    }
    /* hits in X earn nothing, so rewards of them alone have no value */
    for (uint32_t a = 0; a < P; a++) r[a] = (float)fopo_csr_contains(&X, n, a);
    ok(fopo_reference_slopes(slope, &earned, &log_z, &w.pi, &one, fopo_matrix_view(u, 2, ENTRIES),
                             1e-5));
    assert_true(earned == 0);
  }
}

/* A trainer's policy with its mask taken off is bound anew; the lists of other contexts too. */
TEST(binding_knows_the_mask) {
  DONE(small_world_done) small_world w;
  DONE(fopo_csr_done) fopo_csr X = {0};
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_options o = {.estimator = &fopo_estimator_exact};
  float G[3][ENTRIES];
  fopo_gradient_stats stats;
  small_world_init(&w, P, N, DIM, 0.25, 0.5, 3);
  lists(&X, &w);
  fopo_contexts contexts = fopo_contexts_of(w.contexts);
  contexts.X = X;
  ok(fopo_gradient_new(&g, &o));
  for (int i = 0; i < 3; i++) {
    w.pi.masks_seen = i == 1;
    ok(fopo_gradient_bind(g, w.device, &w.pi, contexts, &w.reward));
    ok(compute_gradient(g, fopo_matrix_view(G[i], DIM, DIM), &stats, w.rows, N,
                        (fopo_draw_key){5, 0}));
  }
  assert_memory_equal(G[0], G[2], sizeof G[0]);
  assert_memory_not_equal(G[0], G[1], sizeof G[0]);
  fopo_csr other = {.rows = N - 1, .cols = P, .indptr = X.indptr, .ids = X.ids};
  contexts.X = other;
  w.pi.masks_seen = 1;
  refused(fopo_gradient_bind(g, w.device, &w.pi, contexts, &w.reward), FOPO_ERR_ARGUMENT,
          "what is seen is 11 x 40 but there are 12 contexts over 40 items");
}

/* A context whose items are all masked has no gradient, and its statistics are numbers. */
TEST(nothing_left) {
  DONE(small_world_done) small_world w;
  DONE(fopo_csr_done) fopo_csr X = {0};
  const fopo_gradient_options some[] = {
      {.estimator = &fopo_estimator_exact},
      {.estimator = &fopo_estimator_snis, .samples = 20},
      {.estimator = &fopo_estimator_head_tail, .samples = 10, .head = 12},
      {.estimator = &fopo_estimator_reinforce, .samples = 20},
      {.estimator = &fopo_estimator_reinforce, .samples = 20, .baseline = 1}};
  small_world_init(&w, P, N, DIM, 0.25, 0.5, 3);
  ok(fopo_csr_init(&X, N, P, N * P, 0));
  for (size_t i = 0; i < N * P; i++) X.ids[i] = (uint32_t)(i % P);
  for (size_t n = 0; n < N; n++) X.indptr[n + 1] = (n + 1) * P;
  w.pi.masks_seen = 1;
  fopo_contexts contexts = fopo_contexts_of(w.contexts);
  contexts.X = X;
  for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
    FREED(fopo_gradient_free) fopo_gradient *g = NULL;
    float G[ENTRIES];
    fopo_gradient_stats stats;
    ok(fopo_gradient_new(&g, &some[k]));
    ok(fopo_gradient_bind(g, w.device, &w.pi, contexts, &w.reward));
    ok(compute_gradient(g, fopo_matrix_view(G, DIM, DIM), &stats, w.rows, N,
                        (fopo_draw_key){5, 0}));
    for (size_t i = 0; i < ENTRIES; i++) assert_true(G[i] == 0);
    assert_true(stats.mean.reward == 0);
  }
}

int main(void) {
  fopo_threads_set(2);
  return run_all(NULL, NULL);
}
