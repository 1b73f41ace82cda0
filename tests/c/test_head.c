/* A head that all contexts share: with a whole tail it is the exact gradient; its dense products
 * agree with the same estimate summed by hand; the bits do not depend on the threads; it follows
 * items that move. */
#include "small_world.h"

enum { P = 700, N = 45, L = 13 };

/* The gradient [L, L] of the first B contexts. */
static fopo_gradient_stats compute_by(float *G, const small_world *w, size_t H, size_t U, size_t B,
                                      fopo_products products) {
  fopo_gradient_options o = {
      .estimator = &fopo_estimator_head_tail, .samples = U, .head = H, .products = (int)products};
  fopo_gradient *g;
  fopo_gradient_stats stats;
  ok(fopo_gradient_new(&g, &o));
  ok(fopo_gradient_bind(g, w->device, &w->pi, fopo_contexts_of(w->contexts), &w->reward));
  ok(compute_gradient(g, fopo_matrix_view(G, L, L), &stats, w->rows, B, (fopo_draw_key){7, 3}));
  fopo_gradient_free(g);
  return stats;
}

static fopo_gradient_stats compute(float *G, const small_world *w, size_t H, size_t U, size_t B) {
  return compute_by(G, w, H, U, B, FOPO_PRODUCTS_AUTO);
}

static double relative(const float *a, const float *b) {
  double apart = 0.0, size = 0.0;
  for (size_t i = 0; i < (size_t)L * L; i++) {
    apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    size += (double)b[i] * (double)b[i];
  }
  return sqrt(apart / size);
}

static void set_up(small_world *w) { small_world_init(w, P, N, L, 0.03, 0.25, 5); }

/* One row and whole chunks and one more, half a panel of contexts, a whole one and one more. */
TEST(test_whole_tail) {
  static const size_t heads[] = {1, 127, 128, 129, 600, P - 1}, batches[] = {1, 16, 17, 32, 33, N};
  DONE(small_world_done) small_world w;
  set_up(&w);
  double *theta = small_world_theta(&w), exact[L * L];
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    float G[L * L], truth[L * L];
    size_t H = heads[i], B = batches[i];
    double reward = small_world_reward(exact, &w, theta, B);
    for (size_t k = 0; k < (size_t)L * L; k++) truth[k] = (float)exact[k];
    fopo_gradient_stats stats = compute(G, &w, H, P - H, B);
    print_message("head %zu, %zu contexts: relative error %.1e, head mass %.4f\n", H, B,
                  relative(G, truth), stats.mean.head_mass);
    assert_true(relative(G, truth) < 1e-5);
    assert_true(fabs(stats.mean.reward - reward) < 1e-5 * reward);
    assert_true(stats.mean.head_mass > 0.0 && stats.mean.head_mass < 1.0);
    assert_true(stats.sum.n_with_candidates == (double)B && stats.sum.short_rows == 0.0);
  }
  fopo_free(theta);
}

/* Rounds the H items of largest norm to bfloat16. */
static void round_head(small_world *w, size_t H) {
  double norm2[P];
  size_t larger[P] = {0};
  for (size_t a = 0; a < P; a++) {
    norm2[a] = 0.0;
    for (size_t i = 0; i < L; i++) {
      double x = (double)fopo_matrix_row(w->items, a)[i];
      norm2[a] += x * x;
    }
  }
  for (size_t a = 0; a < P; a++) {
    for (size_t b = 0; b < P; b++) larger[a] += norm2[b] > norm2[a];
  }
  for (size_t a = 0; a < P; a++) {
    float *row = fopo_matrix_row(w->items, a);
    for (size_t i = 0; i < L && larger[a] < H; i++) {
      row[i] = fopo_from_bfloat16(fopo_to_bfloat16(row[i]));
    }
  }
}

/* With products in bfloat16 and a whole tail it is the exact gradient of a policy whose head is
 * rounded, which is near that of the policy. */
TEST(test_rounded) {
  static const size_t heads[] = {1, 129, P - 1};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    DONE(small_world_done) small_world w;
    set_up(&w);
    double *theta = small_world_theta(&w), exact[L * L];
    float G[L * L], plain[L * L], truth[L * L];
    size_t H = heads[i];
    compute_by(plain, &w, H, P - H, N, FOPO_PRODUCTS_FLOAT32);
    fopo_gradient_stats stats = compute_by(G, &w, H, P - H, N, FOPO_PRODUCTS_BFLOAT16);
    round_head(&w, H);
    double reward = small_world_reward(exact, &w, theta, N);
    for (size_t k = 0; k < (size_t)L * L; k++) truth[k] = (float)exact[k];
    print_message("head %zu: relative error %.1e, moved by %.1e\n", H, relative(G, truth),
                  relative(G, plain));
    assert_true(relative(G, truth) < 1e-5);
    assert_true(relative(G, plain) > (i == 0 ? 0.0 : 1e-4) && relative(G, plain) < 0x1p-7);
    assert_true(fabs(stats.mean.reward - reward) < 1e-5 * reward);
    fopo_free(theta);
  }
}

/* A gradient that is set to other products packs its head anew. */
TEST(test_products_set) {
  DONE(small_world_done) small_world w;
  set_up(&w);
  float G[2][L * L], wanted[L * L];
  fopo_gradient_options o = {.estimator = &fopo_estimator_head_tail, .samples = 40, .head = 300};
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_stats stats;
  ok(fopo_gradient_new(&g, &o));
  ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
  for (int i = 0; i < 2; i++) {
    o.products = i == 0 ? FOPO_PRODUCTS_AUTO : FOPO_PRODUCTS_BFLOAT16;
    ok(fopo_gradient_set(g, &o));
    ok(compute_gradient(g, fopo_matrix_view(G[i], L, L), &stats, w.rows, N, (fopo_draw_key){7, 3}));
    compute_by(wanted, &w, 300, 40, N, (fopo_products)o.products);
    assert_memory_equal(G[i], wanted, sizeof wanted);
  }
  assert_true(relative(G[1], G[0]) > 0.0);
}

static void assert_close(double a, double b) {
  if (!(fabs(a - b) <= 1e-4 * fabs(b))) fail_msg("%.9g is not near %.9g", a, b);
}

/* The items by falling norm. */
static void order_items(uint32_t *order, uint32_t *place, const small_world *w) {
  double norm2[P] = {0};
  for (size_t a = 0; a < P; a++) {
    for (size_t i = 0; i < L; i++) norm2[a] += pow((double)fopo_matrix_row(w->items, a)[i], 2);
  }
  for (uint32_t a = 0; a < P; a++) {
    place[a] = 0;
    for (size_t b = 0; b < P; b++) place[a] += norm2[b] > norm2[a];
    order[place[a]] = a;
  }
}

/* The estimate in double, by its definition: r [N, P], NAN where an item can earn nothing. */
static fopo_statistics by_hand(double *G, const small_world *w, size_t H, size_t U,
                               const float *r) {
  static uint32_t order[P], place[P], drawn[P];
  static float logq[P];
  static double pi[P];
  size_t S = 4 * U < P - H ? 4 * U : P - H;
  uint32_t row = UINT32_MAX;
  double *theta = small_world_theta(w), T = (double)w->pi.temperature;
  fopo_statistics mean = {0};
  order_items(order, place, w);
  fopo_device_batch batch = {.B = 1, .S = S, .P = P, .L = L, .rows = &row, .key = {7, 3}};
  fopo_shared_head head = {.H = H, .order = order, .place = place};
  ok(w->device->ops->draw_others(w->device, &(fopo_samples){drawn, logq, NULL}, &head, 0, &batch));
  memset(G, 0, L * L * sizeof *G);
  for (size_t n = 0; n < N; n++) {
    double W = 0, WW = 0, R = 0, in_head = 0, most = 0, b[L] = {0}, rb[L] = {0};
    small_world_policy(pi, w, theta, n);
    for (size_t a = 0; a < P; a++) {
      int own = !isnan(r[n * P + a]), is_head = place[a] < H;
      double times = is_head || own ? 1 : 0,
             each = is_head || own ? 1 : (double)(P - H) / (double)S;
      for (size_t s = 0; s < S && !is_head && !own; s++) times += drawn[s] == a;
      W += times * each * pi[a], WW += times * pow(each * pi[a], 2);
      in_head += is_head ? pi[a] : 0;
      most = times > 0 && each * pi[a] > most ? each * pi[a] : most;
      if (own) R += pi[a] * (double)r[n * P + a];
      for (size_t i = 0; i < L; i++) {
        double beta = (double)fopo_matrix_row(w->items, a)[i];
        b[i] += times * each * pi[a] * beta;
        rb[i] += own ? pi[a] * (double)r[n * P + a] * beta : 0;
      }
    }
    for (size_t i = 0; i < (size_t)L * L; i++) {
      double v = rb[i % L] / W - R / W * b[i % L] / W;
      G[i] += (double)fopo_matrix_row(w->contexts, n)[i / L] * v / ((double)N * T);
    }
    mean.reward += R / W / N, mean.ess += W * W / WW / N, mean.head_mass += in_head / W / N;
    mean.max_weight = fmax(mean.max_weight, most / W);
  }
  fopo_free(theta);
  return mean;
}

/* Few draws, and as many as there are others. */
static void compare_with_hand(small_world *w, const float *r) {
  for (size_t U = 40; U <= 400; U += 360) {
    float got[L * L], wanted[L * L];
    double G[L * L];
    fopo_gradient_stats a = compute(got, w, 300, U, N);
    fopo_statistics b = by_hand(G, w, 300, U, r);
    for (size_t i = 0; i < (size_t)L * L; i++) wanted[i] = (float)G[i];
    print_message("tail %zu, against a sum by hand: %.1e\n", U, relative(got, wanted));
    assert_true(relative(got, wanted) < 1e-5);
    assert_close(a.mean.reward, b.reward);
    assert_close(a.mean.ess, b.ess);
    assert_close(a.mean.max_weight, b.max_weight);
    assert_close(a.mean.head_mass, b.head_mass);
  }
}

TEST(test_hits) {
  DONE(small_world_done) small_world w;
  static float r[N * P];
  set_up(&w);
  for (size_t i = 0; i < (size_t)N * P; i++) {
    r[i] = fopo_csr_contains(&w.Y, i / P, (uint32_t)(i % P)) ? 1.0f : NAN;
  }
  compare_with_hand(&w, r);
}

/* The credit of a log: one item of a context earns something, in the head or outside, and the
 * reward may be negative. */
TEST(test_credit) {
  DONE(small_world_done) small_world w;
  static float r[N * P];
  uint32_t actions[N];
  float rewards[N], propensities[N];
  set_up(&w);
  for (size_t i = 0; i < (size_t)N * P; i++) r[i] = NAN;
  for (uint32_t i = 0; i < N; i++) {
    actions[i] = i * 131 % P;
    rewards[i] = (float)(i % 5) - 1.5f;
    propensities[i] = 0.1f + 0.01f * (float)i;
    r[i * P + actions[i]] = (rewards[i] - 0.25f) / propensities[i];
  }
  fopo_logs logs = {
      .n = N, .n_actions = P, .actions = actions, .rewards = rewards, .propensities = propensities};
  fopo_reward_source source = {.logs = &logs, .translate = 0.25};
  ok(fopo_reward_init(&w.reward, &fopo_reward_ips, &source));
  compare_with_hand(&w, r);
  fopo_reward_done(&w.reward);
}

TEST(test_threads) {
  DONE(small_world_done) small_world w;
  float one[L * L], more[L * L];
  int before = fopo_threads();
  set_up(&w);
  fopo_threads_set(1);
  compute(one, &w, 500, 40, N);
  for (int threads = 2; threads < 6; threads++) {
    fopo_threads_set(threads);
    compute(more, &w, 500, 40, N);
    assert_memory_equal(one, more, sizeof one);
  }
  fopo_threads_set(before);
}

/* The head is the order by norm of now, after a refresh. */
TEST(test_refresh) {
  DONE(small_world_done) small_world w;
  set_up(&w);
  fopo_gradient_options o = {.estimator = &fopo_estimator_head_tail, .samples = 5, .head = 1};
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_stats small, large;
  ok(fopo_gradient_new(&g, &o));
  assert_true(fopo_gradient_orders_items(g));
  ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
  ok(compute_gradient(g, (fopo_matrix){0}, &small, w.rows, N, (fopo_draw_key){1, 1}));
  memset(fopo_matrix_row(w.items, 9), 0, L * sizeof(float));
  for (size_t i = 0; i < L; i++) fopo_matrix_row(w.items, 9)[i] = 40.0f;
  ok(fopo_gradient_refresh(g));
  ok(compute_gradient(g, (fopo_matrix){0}, &large, w.rows, N, (fopo_draw_key){1, 1}));
  print_message("mass of a head of one: %.3f, then %.3f\n", small.mean.head_mass,
                large.mean.head_mass);
  assert_true(large.mean.head_mass > small.mean.head_mass + 0.2);
}

TEST(test_too_large) {
  DONE(small_world_done) small_world w;
  set_up(&w);
  fopo_gradient_options o = {.estimator = &fopo_estimator_head_tail, .samples = 301, .head = 400};
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  ok(fopo_gradient_new(&g, &o));
  ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
  refused(begin_batch(g, w.rows, N, (fopo_draw_key){1, 1}), FOPO_ERR_ARGUMENT,
          "a head of 400 items and a tail of 301 draws are more than the 700 items");
  o.samples = 300;
  ok(fopo_gradient_set(g, &o));
  ok(begin_batch(g, w.rows, N, (fopo_draw_key){1, 1}));
}

int main(void) { return run_all(NULL, NULL); }
