/* What a policy learns beside a square theta: contexts of other features than the items' and
 * networks, against the expected reward in double and its central differences. */
#include "small_world.h"

#include "learn/optim.h"

/* A world whose contexts have D features. */
typedef struct {
  size_t P, N, D, L;
  fopo_matrix items, contexts; /* [P, L], [N, D] */
  fopo_csr Y;
  fopo_reward reward;
  fopo_policy pi;              /* to be made by the test */
  fopo_device *device;
  uint32_t *rows;              /* [N] 0 .. N-1 */
} world;

static void world_init(world *w, size_t P, size_t N, size_t D, size_t L, uint64_t seed) {
  *w = (world){.P = P, .N = N, .D = D, .L = L};
  size_t n = 0, repeats;
  uint32_t *row = fopo_alloc(N * P, sizeof *row), *col = fopo_alloc(N * P, sizeof *col);
  w->rows = fopo_alloc(N, sizeof *w->rows);
  ok(fopo_matrix_init(&w->items, P, L));
  ok(fopo_matrix_init(&w->contexts, N, D));
  fopo_fill_normal(w->items.x, P * L, 1.0, seed, FOPO_STREAM_WORLD);
  fopo_fill_normal(w->contexts.x, N * D, 1.0, seed + 1, FOPO_STREAM_WORLD);
  for (uint32_t i = 0; i < N; i++) {
    w->rows[i] = i;
    for (uint32_t a = 0; a < P; a++) {
      row[n] = i;
      col[n] = a;
      n += fopo_unit(fopo_random(seed, FOPO_STREAM_WORLD, 7, i, a).v[0]) < 0.2;
    }
  }
  ok(fopo_csr_from_pairs(&w->Y, row, col, NULL, n, N, P, &repeats));
  w->reward = (fopo_reward){.kind = FOPO_REWARD_HITS, .Y = &w->Y, .contexts = N};
  ok(fopo_device_cpu_open(&w->device));
  fopo_free(row);
  fopo_free(col);
}

static void world_done(world *w) {
  fopo_device_close(w->device);
  fopo_policy_done(&w->pi);
  fopo_csr_done(&w->Y);
  fopo_matrix_done(&w->items);
  fopo_matrix_done(&w->contexts);
  fopo_free(w->rows);
}

static size_t n_theta(const world *w) { return w->pi.theta.rows * w->pi.theta.cols; }

/* The same through a network. */
static void network_in_double(double *Q, const world *w, const double *theta, const float *x) {
  const fopo_network *net = &w->pi.net;
  double in[64], out[64];
  for (size_t i = 0; i < w->D; i++) in[i] = (double)x[i];
  for (size_t layer = 0; layer < net->layers; layer++) {
    size_t rows = net->width[layer], cols = net->width[layer + 1];
    for (size_t j = 0; j < cols; j++) {
      out[j] = theta[rows * cols + j];
      for (size_t i = 0; i < rows; i++) out[j] += in[i] * theta[i * cols + j];
      if (layer + 1 == net->layers) continue;
      out[j] = net->activation == FOPO_TANH ? tanh(out[j]) : fmax(out[j], 0.0);
    }
    memcpy(in, out, cols * sizeof *in);
    theta += (rows + 1) * cols;
  }
  for (size_t j = 0; j < w->L; j++) Q[j] = out[j] / (double)w->pi.temperature;
}

/* Q [L] = h(x) / T in double. */
static void query_in_double(double *Q, const world *w, const double *theta, const float *x) {
  if (w->pi.net.layers > 0) {
    network_in_double(Q, w, theta, x);
    return;
  }
  for (size_t j = 0; j < w->L; j++) {
    Q[j] = 0.0;
    for (size_t i = 0; i < w->D; i++) Q[j] += (double)x[i] * theta[i * w->L + j];
    Q[j] /= (double)w->pi.temperature;
  }
}

/* The mean over all contexts of E_pi r, in double. */
static double reward_in_double(const world *w, const double *theta, const double *items) {
  double total = 0.0, *f = fopo_alloc(w->P, sizeof *f), *Q = fopo_alloc(w->L, sizeof *Q);
  for (size_t n = 0; n < w->N; n++) {
    double top = -INFINITY, Z = 0.0, sum = 0.0;
    query_in_double(Q, w, theta, fopo_matrix_row(w->contexts, n));
    for (size_t a = 0; a < w->P; a++) {
      f[a] = 0.0;
      for (size_t j = 0; j < w->L; j++) f[a] += Q[j] * items[a * w->L + j];
      top = fmax(top, f[a]);
    }
    for (size_t a = 0; a < w->P; a++) {
      double e = exp(f[a] - top);
      Z += e;
      sum += e * fopo_csr_contains(&w->Y, n, (uint32_t)a);
    }
    total += sum / Z;
  }
  fopo_free(f);
  fopo_free(Q);
  return total / (double)w->N;
}

static double *in_double(const float *x, size_t n) {
  double *y = fopo_alloc(n, sizeof *y);
  for (size_t i = 0; i < n; i++) y[i] = (double)x[i];
  return y;
}

/* Central differences of the expected reward: with respect to theta, or to the items. To be freed. */
static double *differences(const world *w, int of_items) {
  size_t n = of_items ? w->P * w->L : n_theta(w);
  double *theta = in_double(w->pi.theta.x, n_theta(w));
  double *items = in_double(w->pi.items.x, w->P * w->L);
  double *x = of_items ? items : theta, *D = fopo_alloc(n, sizeof *D), h = 1e-5;
  for (size_t i = 0; i < n; i++) {
    double kept = x[i];
    x[i] = kept + h;
    double up = reward_in_double(w, theta, items);
    x[i] = kept - h;
    D[i] = (up - reward_in_double(w, theta, items)) / (2.0 * h);
    x[i] = kept;
  }
  fopo_free(theta);
  fopo_free(items);
  return D;
}

/* |G - D| / |D| */
static double relative(const float *G, const double *D, size_t n) {
  double error = 0.0, size = 0.0;
  for (size_t i = 0; i < n; i++) {
    error += ((double)G[i] - D[i]) * ((double)G[i] - D[i]);
    size += D[i] * D[i];
  }
  return sqrt(error / size);
}

/* The gradient of all contexts, to be freed. */
static float *gradient_of(world *w, fopo_gradient_options options, uint32_t step) {
  fopo_gradient *g = NULL;
  fopo_gradient_stats stats;
  float *G = fopo_alloc(n_theta(w), sizeof *G);
  ok(fopo_gradient_new(&g, &options));
  ok(fopo_gradient_bind(g, w->device, &w->pi, w->contexts, &w->reward));
  ok(fopo_gradient_compute(g, fopo_matrix_view(G, w->pi.theta.rows, w->pi.theta.cols), &stats,
                           NULL, w->rows, w->N, (fopo_draw_key){5, step}));
  fopo_gradient_free(g);
  return G;
}

/* -- contexts of D features ------------------------------------------------------------------- */

static void test_rectangular(void **unused) {
  (void)unused;
  const size_t shapes[][2] = {{3, 7}, {9, 4}, {1, 5}, {6, 1}};
  for (size_t i = 0; i < 4; i++) {
    world w;
    world_init(&w, 40, 6, shapes[i][0], shapes[i][1], i + 1);
    ok(fopo_policy_init_linear(&w.pi, w.items, w.D, FOPO_THETA_RANDOM, 0.7f, 1));
    for (size_t k = 0; k < n_theta(&w); k++) w.pi.theta.x[k] *= 60.0f;
    double *D = differences(&w, 0);
    float *G = gradient_of(&w, (fopo_gradient_options){FOPO_GRADIENT_EXACT}, 0);
    double error = relative(G, D, n_theta(&w));
    print_message("D = %zu, L = %zu: exact against differences %.1e\n", w.D, w.L, error);
    assert_true(error < 1e-5);
    fopo_free(D);
    fopo_free(G);
    world_done(&w);
  }
}

static void test_rectangular_refused(void **unused) {
  (void)unused;
  world w;
  world_init(&w, 20, 4, 3, 5, 1);
  refused(fopo_policy_init_linear(&w.pi, w.items, 3, FOPO_THETA_IDENTITY, 1.0f, 1),
          FOPO_ERR_ARGUMENT, "theta is 3 x 5");
  refused(fopo_policy_init_linear(&w.pi, w.items, 0, FOPO_THETA_RANDOM, 1.0f, 1),
          FOPO_ERR_ARGUMENT, "0 features");
  ok(fopo_policy_init_linear(&w.pi, w.items, 3, FOPO_THETA_RANDOM, 1.0f, 1));
  fopo_gradient_options o = {FOPO_GRADIENT_EXACT};
  fopo_gradient *g = NULL;
  ok(fopo_gradient_new(&g, &o));
  refused(fopo_gradient_bind(g, w.device, &w.pi, fopo_matrix_rows(w.items, 0, 4), &w.reward),
          FOPO_ERR_ARGUMENT, "contexts are 4 x 5 but the policy takes 3 features");
  fopo_gradient_free(g);
  float q[5];
  refused(fopo_policy_queries(fopo_matrix_view(q, 1, 5), &w.pi, fopo_matrix_rows(w.items, 0, 1)),
          FOPO_ERR_ARGUMENT, "contexts need 3 columns");
  world_done(&w);
}

/* -- networks --------------------------------------------------------------------------------- */

static const fopo_network networks[] = {
    {2, {5, 7, 3}, FOPO_TANH},     {2, {5, 7, 3}, FOPO_RELU},    {3, {4, 9, 5, 6}, FOPO_TANH},
    {3, {4, 9, 5, 6}, FOPO_RELU},  {2, {1, 1, 1}, FOPO_TANH},
};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* A world for the network whose last layer and biases are far from 0. */
static void network_world(world *w, const fopo_network *net, size_t P, size_t N, uint64_t seed) {
  world_init(w, P, N, net->width[0], net->width[net->layers], seed);
  ok(fopo_policy_init_network(&w->pi, w->items, net, 0.7f, seed));
  fopo_fill_normal(w->pi.theta.x, n_theta(w), 0.5, seed, FOPO_STREAM_WORLD);
}

static void test_network(void **unused) {
  (void)unused;
  for (size_t i = 0; i < NETWORKS; i++) {
    world w;
    network_world(&w, &networks[i], 40, 6, i + 1);
    double *D = differences(&w, 0), *theta = in_double(w.pi.theta.x, n_theta(&w)), wanted[8];
    float *G = gradient_of(&w, (fopo_gradient_options){FOPO_GRADIENT_EXACT}, 0), q[6 * 8];
    double error = relative(G, D, n_theta(&w));
    print_message("network %zu, %zu parameters: exact against differences %.1e\n", i,
                  n_theta(&w), error);
    assert_true(error < 1e-5);
    /* queries on the host are the device's */
    ok(fopo_policy_queries(fopo_matrix_view(q, 6, w.L), &w.pi, w.contexts));
    for (size_t n = 0; n < 6; n++) {
      query_in_double(wanted, &w, theta, fopo_matrix_row(w.contexts, n));
      for (size_t j = 0; j < w.L; j++) {
        assert_true(fabs((double)q[n * w.L + j] - wanted[j]) < 1e-5 * (1.0 + fabs(wanted[j])));
      }
    }
    fopo_free(D);
    fopo_free(theta);
    fopo_free(G);
    world_done(&w);
  }
}

/* 1,500 contexts x 3,000 items: the exact gradient comes in parts, which must add up. */
static void test_network_parts(void **unused) {
  (void)unused;
  world w;
  const fopo_network net = {2, {4, 5, 3}, FOPO_TANH};
  network_world(&w, &net, 3000, 1500, 3);
  fopo_gradient_options o = {FOPO_GRADIENT_EXACT};
  float *whole = gradient_of(&w, o, 0), *G = fopo_alloc(n_theta(&w), sizeof *G);
  double *sum = fopo_alloc(n_theta(&w), sizeof *sum);
  fopo_gradient *g = NULL;
  fopo_gradient_stats stats;
  ok(fopo_gradient_new(&g, &o));
  ok(fopo_gradient_bind(g, w.device, &w.pi, w.contexts, &w.reward));
  for (size_t b = 0; b < 1500; b += 500) {
    ok(fopo_gradient_compute(g, fopo_matrix_view(G, 1, n_theta(&w)), &stats, NULL, w.rows + b, 500,
                             (fopo_draw_key){5, 0}));
    for (size_t i = 0; i < n_theta(&w); i++) sum[i] += (double)G[i] / 3.0;
  }
  assert_true(relative(whole, sum, n_theta(&w)) < 1e-5);
  fopo_gradient_free(g);
  fopo_free(whole);
  fopo_free(G);
  fopo_free(sum);
  world_done(&w);
}

/* Every estimator, 1 thread or 3: the same bits. */
static void test_network_threads(void **unused) {
  (void)unused;
  world w;
  const fopo_network net = {3, {8, 16, 12, 6}, FOPO_RELU};
  fopo_index *ix = NULL;
  int kept = fopo_threads();
  network_world(&w, &net, 300, 40, 4);
  ok(fopo_index_norm(&ix, w.items, 0));
  fopo_proposal mixture = {.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 16, .epsilon = 0.4};
  fopo_gradient_options all[] = {{FOPO_GRADIENT_EXACT, 0, 0, {0}},
                                 {FOPO_GRADIENT_REINFORCE, 50, 0, {0}},
                                 {FOPO_GRADIENT_REINFORCE, 50, 1, {0}},
                                 {FOPO_GRADIENT_SNIS, 50, 0, mixture}};
  for (size_t i = 0; i < 4; i++) {
    ok(fopo_threads_set(1));
    float *one = gradient_of(&w, all[i], 3);
    ok(fopo_threads_set(3));
    float *three = gradient_of(&w, all[i], 3);
    assert_memory_equal(one, three, n_theta(&w) * sizeof *one);
    fopo_free(one);
    fopo_free(three);
  }
  ok(fopo_threads_set(kept));
  fopo_index_free(ix);
  world_done(&w);
}

static void test_network_refused(void **unused) {
  (void)unused;
  world w;
  world_init(&w, 20, 4, 5, 3, 1);
  fopo_network net = {2, {5, 7, 4}, FOPO_TANH};
  refused(fopo_policy_init_network(&w.pi, w.items, &net, 1.0f, 1), FOPO_ERR_ARGUMENT,
          "ends in 4 units but the items have dimension 3");
  net = (fopo_network){1, {5, 3}, FOPO_TANH};
  refused(fopo_policy_init_network(&w.pi, w.items, &net, 1.0f, 1), FOPO_ERR_ARGUMENT,
          "1 or 2 hidden layers, not 0");
  net = (fopo_network){2, {5, 0, 3}, FOPO_TANH};
  refused(fopo_policy_init_network(&w.pi, w.items, &net, 1.0f, 1), FOPO_ERR_ARGUMENT,
          "layer 1 of the network has 0 units");
  world_done(&w);
}

int main(void) {
  fopo_threads_set(2);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rectangular),
      cmocka_unit_test(test_rectangular_refused),
      cmocka_unit_test(test_network),
      cmocka_unit_test(test_network_parts),
      cmocka_unit_test(test_network_threads),
      cmocka_unit_test(test_network_refused),
  };
  return cmocka_run_group_tests_name("params", tests, NULL, NULL);
}
