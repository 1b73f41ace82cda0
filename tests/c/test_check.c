/* What the checks rest on: the reference in double against another one, and the planted faults,
 * each of which must be the mistake that its name says and no other. */
#include "core/progress.h"
#include "judge/reference.h"
#include "small_world.h"

enum { P = 700, N = 3, DIM = 4, ENTRIES = DIM * DIM }; /* more items than a tile holds */

static void make(small_world *w) { small_world_init(w, P, N, DIM, 0.1, 0.7, 3); }

/* Rewards of all items in context n. */
static float *rewards(const small_world *w, size_t n) {
  float *r = fopo_alloc(w->P, sizeof *r);
  for (size_t a = 0; a < w->P; a++) r[a] = fopo_csr_contains(&w->Y, n, (uint32_t)a) ? 1.0f : 0.0f;
  return r;
}

TEST(test_value) {
  DONE(small_world_done) small_world w;
  make(&w);
  double *theta = small_world_theta(&w), *pi = fopo_alloc(P, sizeof *pi), value, log_z;
  for (size_t n = 0; n < N; n++) {
    double wanted = 0.0, f = 0.0;
    FREED(fopo_free) float *r = rewards(&w, n);
    fopo_reference_context one = {.x = fopo_matrix_row(w.contexts, n), .r = r};
    ok(fopo_reference_reward(&value, &log_z, &w.pi, theta, 1, &one));
    small_world_policy(pi, &w, theta, n);
    for (size_t a = 0; a < P; a++) wanted += pi[a] * (double)r[a];
    assert_true(fabs(value - wanted) < 1e-12);
    /* pi_0 = exp(f_0) / Z */
    for (size_t i = 0; i < DIM; i++) {
      for (size_t j = 0; j < DIM; j++) {
        f += (double)fopo_matrix_row(w.contexts, n)[i] * theta[i * DIM + j] * (double)w.items.x[j] /
             (double)w.pi.temperature;
      }
    }
    assert_true(fabs(f - log_z - log(pi[0])) < 1e-10);
  }
  fopo_free(theta);
  fopo_free(pi);
}

/* One vector at a time or several, 1 thread or 3: the same bits. */
TEST(test_together) {
  enum { M = 5 };
  DONE(small_world_done) small_world w;
  int kept = fopo_threads();
  make(&w);
  float theta32[M * ENTRIES], *r = rewards(&w, 0);
  double theta[M * ENTRIES], value[M], log_z[M];
  fopo_fill_normal(theta32, M * ENTRIES, 1.0, 5, FOPO_STREAM_INIT);
  for (size_t i = 0; i < M * ENTRIES; i++) theta[i] = (double)theta32[i];
  fopo_reference_context one = {.x = w.contexts.x, .r = r};
  ok(fopo_threads_set(3));
  ok(fopo_reference_reward(value, log_z, &w.pi, theta, M, &one));
  ok(fopo_threads_set(1));
  for (size_t m = 0; m < M; m++) {
    double v, z;
    ok(fopo_reference_reward(&v, &z, &w.pi, theta + m * ENTRIES, 1, &one));
    assert_true(v == value[m] && z == log_z[m]);
  }
  ok(fopo_threads_set(kept));
  fopo_free(r);
}

/* Slopes are those of the float gradient, of a linear policy and of a network. */
static void check_slopes(small_world *w, size_t n_theta, double h) {
  enum { DIRECTIONS = 3 };
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_options o = {.estimator = &fopo_estimator_exact};
  fopo_gradient_stats stats;
  FREED(fopo_free) float *G = fopo_alloc(n_theta, sizeof *G);
  FREED(fopo_free) float *u = fopo_alloc(DIRECTIONS * n_theta, sizeof *u);
  FREED(fopo_free) float *r = rewards(w, 1);
  double slope[DIRECTIONS], value, log_z;
  fopo_reference_context one = {.x = fopo_matrix_row(w->contexts, 1), .r = r};
  fopo_fill_normal(u, DIRECTIONS * n_theta, 1.0, 9, FOPO_STREAM_INIT);
  ok(fopo_gradient_new(&g, &o));
  ok(fopo_gradient_bind(g, w->device, &w->pi, fopo_contexts_of(w->contexts), &w->reward));
  ok(compute_gradient(g, fopo_matrix_view(G, w->pi.theta.rows, w->pi.theta.cols), &stats,
                      w->rows + 1, 1, (fopo_draw_key){5, 0}));
  ok(fopo_reference_slopes(slope, &value, &log_z, &w->pi, &one,
                           fopo_matrix_view(u, DIRECTIONS, n_theta), h));
  assert_true(fabs(value - stats.mean.reward) < 1e-5 * value);
  for (size_t k = 0; k < DIRECTIONS; k++) {
    double along = 0.0;
    for (size_t i = 0; i < n_theta; i++) along += (double)G[i] * (double)u[k * n_theta + i];
    assert_true(fabs(along - slope[k]) < 1e-4 * (fabs(slope[k]) + stats.mean.norm));
  }
}

TEST(test_slopes) {
  DONE(small_world_done) small_world w;
  make(&w);
  check_slopes(&w, ENTRIES, 1e-5);
  const fopo_network tanh_net = {3, {DIM, 6, 5, DIM}, FOPO_TANH};
  const fopo_network relu_net = {2, {DIM, 7, DIM}, FOPO_RELU};
  const fopo_network *nets[] = {&tanh_net, &relu_net};
  for (int i = 0; i < 2; i++) {
    fopo_policy_done(&w.pi);
    ok(init_network(&w.pi, w.items, nets[i], 0.8f, 4));
    size_t n = fopo_network_params(nets[i]);
    fopo_fill_normal(w.pi.theta.x, n, 0.5, 6, FOPO_STREAM_INIT);
    check_slopes(&w, n, 1e-6);
  }
}

TEST(test_refused) {
  DONE(small_world_done) small_world w;
  make(&w);
  FREED(fopo_free) float *u = fopo_alloc(40 * ENTRIES, sizeof *u), *r = rewards(&w, 0);
  double slope[40], value, log_z, *theta = small_world_theta(&w);
  const fopo_policy *pi = &w.pi;
  fopo_reference_context one = {.x = w.contexts.x, .r = r};
  refused(
      fopo_reference_slopes(slope, &value, &log_z, pi, &one, fopo_matrix_view(u, 40, ENTRIES), 1.0),
      FOPO_ERR_ARGUMENT, "the directions are 40 x 16; at most 16 of 16 parameters");
  refused(
      fopo_reference_slopes(slope, &value, &log_z, pi, &one, fopo_matrix_view(u, 1, ENTRIES), 0.0),
      FOPO_ERR_ARGUMENT, "use h > 0");
  refused(fopo_reference_reward(&value, &log_z, pi, theta, 0, &one), FOPO_ERR_ARGUMENT,
          "0 parameter vectors at once");
  fopo_interrupt_request();
  refused(fopo_reference_reward(&value, &log_z, pi, theta, 1, &one), FOPO_ERR_INTERRUPTED,
          "summing over the catalogue");
  fopo_interrupt_clear();
  for (long n = 0; n < 3; n++) {
    fopo_memory_fail_after(n, 0);
    assert_int_equal(fopo_reference_reward(&value, &log_z, pi, theta, 1, &one), FOPO_ERR_MEMORY);
  }
  fopo_memory_fail_after(-1, 0);
  fopo_free(theta);
}

/* ---- faults */

enum { S = 600, DRAWS = N * S };

typedef struct {
  uint32_t ids[DRAWS];
  float V[DIM * DIM];
} estimate;

static fopo_proposal mixture(fopo_index *ix) {
  return (fopo_proposal){.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 20, .epsilon = 0.4};
}

/* What was drawn, as a reward from outside sees it, and the gradient. */
static void run(estimate *e, small_world *w, fopo_index *ix, fopo_fault fault) {
  fopo_gradient_options o = {
      .estimator = &fopo_estimator_snis, .samples = S, .proposal = mixture(ix)};
  const fopo_reward custom = {.kind = &fopo_reward_custom};
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_stats stats;
  fopo_drawn drawn;
  ok(fopo_gradient_new(&g, &o));
  ok(fopo_gradient_plant(g, fault));
  ok(fopo_gradient_set(g, &o)); /* which changes nothing of that */
  assert_int_equal(fopo_gradient_planted(g), fault);
  ok(fopo_gradient_bind(g, w->device, &w->pi, fopo_contexts_of(w->contexts), &custom));
  ok(begin_batch(g, w->rows, N, (fopo_draw_key){8, 2}));
  refused(fopo_gradient_plant(g, FOPO_FAULT_NONE), FOPO_ERR_ARGUMENT, "the middle of a batch");
  assert_int_equal(fopo_gradient_estimate(g, &drawn), FOPO_DRAWN);
  memcpy(e->ids, drawn.ids, sizeof e->ids);
  ok(fopo_reward_fill(drawn.reward, &w->reward, drawn.ids, drawn.rows, drawn.B, drawn.S));
  ok(fopo_gradient_estimate(g, &drawn));
  ok(fopo_gradient_finish(g, fopo_matrix_view(e->V, DIM, DIM), &stats));
}

/* The gradient by hand, with weights exp(f + sign log q). */
static void by_hand(double *G, small_world *w, const uint32_t *ids, const float *logq,
                    double sign) {
  double *theta = small_world_theta(w), *pi = fopo_alloc(P, sizeof *pi);
  memset(G, 0, ENTRIES * sizeof *G);
  for (size_t b = 0; b < N; b++) {
    double total = 0.0, mean = 0.0, c[S];
    small_world_policy(pi, w, theta, b);
    for (size_t s = 0; s < S; s++) {
      uint32_t a = ids[b * S + s];
      c[s] = pi[a] * exp(sign * (double)logq[b * S + s]);
      total += c[s];
      mean += c[s] * fopo_csr_contains(&w->Y, b, a);
    }
    for (size_t s = 0; s < S; s++) {
      uint32_t a = ids[b * S + s];
      double cs = c[s] / total * (fopo_csr_contains(&w->Y, b, a) - mean / total);
      for (size_t i = 0; i < ENTRIES; i++) {
        G[i] += cs * (double)fopo_matrix_row(w->contexts, b)[i / DIM] *
                (double)fopo_matrix_row(w->items, a)[i % DIM] / (N * (double)w->pi.temperature);
      }
    }
  }
  fopo_free(theta);
  fopo_free(pi);
}

TEST(test_faults) {
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  make(&w);
  ok(fopo_index_norm(&ix, w.items, 0));
  fopo_proposal q = mixture(ix);
  static uint32_t ids[DRAWS];
  static float logq[DRAWS];
  static estimate e[FOPO_FAULTS];
  DONE(fopo_matrix_done) fopo_matrix Q;
  ok(fopo_matrix_init(&Q, N, DIM));
  ok(fopo_policy_queries(Q, &w.pi, w.contexts));
  ok(fopo_proposal_sample(ids, logq, &q, &w.pi, Q, NULL, w.rows, S, (fopo_draw_key){8, 2}));
  for (int f = 0; f < FOPO_FAULTS; f++) {
    double G[ENTRIES], sign = f == FOPO_FAULT_NO_Q ? 0.0 : f == FOPO_FAULT_ADDED_Q ? 1.0 : -1.0;
    run(&e[f], &w, ix, (fopo_fault)f);
    for (size_t i = 0; i < DRAWS; i++) {
      assert_int_equal(e[f].ids[i], f == FOPO_FAULT_OFF_BY_ONE ? (ids[i] + 1) % P : ids[i]);
    }
    by_hand(G, &w, e[f].ids, logq, sign);
    for (size_t i = 0; i < ENTRIES; i++) {
      assert_true(fabs((double)e[f].V[i] - G[i]) < 1e-5);
      if (f > 0 && i == 0) assert_true(fabs((double)(e[f].V[i] - e[0].V[i])) > 1e-3);
    }
  }
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_options o = {.estimator = &fopo_estimator_reinforce, .samples = 5};
  ok(fopo_gradient_new(&g, &o));
  refused(fopo_gradient_plant(g, FOPO_FAULT_NO_Q), FOPO_ERR_ARGUMENT,
          "no fault can be planted in a gradient reinforce");
}

int main(void) {
  fopo_threads_set(2);
  return run_all(NULL, NULL);
}
