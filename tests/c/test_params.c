/* What a policy learns beside a square theta: contexts of other features than the items', networks,
 * and the items themselves, against the expected reward in double and its central differences. */
#include <unistd.h>

#include "small_world.h"

typedef small_world world; /* whose contexts have D features */

static void world_init(world *w, size_t P, size_t N, size_t D, size_t L, uint64_t seed) {
  small_world_data(w, P, N, D, L, 0.2, seed);
}

static size_t n_theta(const world *w) { return w->pi.theta.rows * w->pi.theta.cols; }

/* The same through a network. */
static void network_in_double(double *Q, const world *w, const double *theta, const float *x) {
  const fopo_network *net = &w->net;
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
  if (w->net.layers > 0) {
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

/* Central differences of the expected reward: with respect to theta, or to the items. To be freed.
 */
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
  ok(fopo_gradient_bind(g, w->device, &w->pi, fopo_contexts_of(w->contexts), &w->reward));
  ok(compute_gradient(g, fopo_matrix_view(G, w->pi.theta.rows, w->pi.theta.cols), &stats, w->rows,
                      w->N, (fopo_draw_key){5, step}));
  fopo_gradient_free(g);
  return G;
}

/* -- contexts of D features ------------------------------------------------------------------- */

TEST(test_rectangular) {
  const size_t shapes[][2] = {{3, 7}, {9, 4}, {1, 5}, {6, 1}};
  for (size_t i = 0; i < 4; i++) {
    DONE(small_world_done) world w;
    world_init(&w, 40, 6, shapes[i][0], shapes[i][1], i + 1);
    ok(init_linear(&w.pi, w.items, w.D, FOPO_THETA_RANDOM, 0.7f, 1));
    for (size_t k = 0; k < n_theta(&w); k++) w.pi.theta.x[k] *= 60.0f;
    FREED(fopo_free) double *D = differences(&w, 0);
    FREED(fopo_free)
    float *G = gradient_of(&w, (fopo_gradient_options){.estimator = &fopo_estimator_exact}, 0);
    double error = relative(G, D, n_theta(&w));
    print_message("D = %zu, L = %zu: exact against differences %.1e\n", w.D, w.L, error);
    assert_true(error < 1e-5);
  }
}

TEST(test_rectangular_refused) {
  DONE(small_world_done) world w;
  world_init(&w, 20, 4, 3, 5, 1);
  refused(init_linear(&w.pi, w.items, 3, FOPO_THETA_IDENTITY, 1.0f, 1), FOPO_ERR_ARGUMENT,
          "theta is 3 x 5");
  refused(init_linear(&w.pi, w.items, 0, FOPO_THETA_RANDOM, 1.0f, 1), FOPO_ERR_ARGUMENT,
          "0 features");
  ok(init_linear(&w.pi, w.items, 3, FOPO_THETA_RANDOM, 1.0f, 1));
  fopo_gradient_options o = {.estimator = &fopo_estimator_exact};
  fopo_gradient *g = NULL;
  ok(fopo_gradient_new(&g, &o));
  refused(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(fopo_matrix_rows(w.items, 0, 4)),
                             &w.reward),
          FOPO_ERR_ARGUMENT, "contexts are 4 x 5 but the policy takes 3 features");
  fopo_gradient_free(g);
  float q[5];
  refused(fopo_policy_queries(fopo_matrix_view(q, 1, 5), &w.pi, fopo_matrix_rows(w.items, 0, 1)),
          FOPO_ERR_ARGUMENT, "contexts need 3 columns");
}

/* -- networks --------------------------------------------------------------------------------- */

static const fopo_network networks[] = {
    {2, {5, 7, 3}, FOPO_TANH},    {2, {5, 7, 3}, FOPO_RELU}, {3, {4, 9, 5, 6}, FOPO_TANH},
    {3, {4, 9, 5, 6}, FOPO_RELU}, {2, {1, 1, 1}, FOPO_TANH},
};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* A world for the network whose last layer and biases are far from 0. */
static void network_world(world *w, const fopo_network *net, size_t P, size_t N, uint64_t seed) {
  world_init(w, P, N, net->width[0], net->width[net->layers], seed);
  w->net = *net;
  ok(init_network(&w->pi, w->items, net, 0.7f, seed));
  fopo_fill_normal(w->pi.theta.x, n_theta(w), 0.5, seed, FOPO_STREAM_WORLD);
}

TEST(test_network) {
  for (size_t i = 0; i < NETWORKS; i++) {
    DONE(small_world_done) world w;
    network_world(&w, &networks[i], 40, 6, i + 1);
    double *D = differences(&w, 0), *theta = in_double(w.pi.theta.x, n_theta(&w)), wanted[8];
    float *G = gradient_of(&w, (fopo_gradient_options){.estimator = &fopo_estimator_exact}, 0),
          q[6 * 8];
    double error = relative(G, D, n_theta(&w));
    print_message("network %zu, %zu parameters: exact against differences %.1e\n", i, n_theta(&w),
                  error);
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
  }
}

/* 1,500 contexts x 3,000 items: the exact gradient comes in parts, which must add up. */
TEST(test_network_parts) {
  DONE(small_world_done) world w;
  const fopo_network net = {2, {4, 5, 3}, FOPO_TANH};
  network_world(&w, &net, 3000, 1500, 3);
  fopo_gradient_options o = {.estimator = &fopo_estimator_exact};
  FREED(fopo_free) float *whole = gradient_of(&w, o, 0), *G = fopo_alloc(n_theta(&w), sizeof *G);
  FREED(fopo_free) double *sum = fopo_alloc(n_theta(&w), sizeof *sum);
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_stats stats;
  ok(fopo_gradient_new(&g, &o));
  ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
  for (size_t b = 0; b < 1500; b += 500) {
    ok(compute_gradient(g, fopo_matrix_view(G, 1, n_theta(&w)), &stats, w.rows + b, 500,
                        (fopo_draw_key){5, 0}));
    for (size_t i = 0; i < n_theta(&w); i++) sum[i] += (double)G[i] / 3.0;
  }
  assert_true(relative(whole, sum, n_theta(&w)) < 1e-5);
}

/* Every estimator, 1 thread or 3: the same bits. */
TEST(test_network_threads) {
  DONE(small_world_done) world w;
  const fopo_network net = {3, {8, 16, 12, 6}, FOPO_RELU};
  FREED(fopo_index_free) fopo_index *ix = NULL;
  int kept = fopo_threads();
  network_world(&w, &net, 300, 40, 4);
  ok(fopo_index_norm(&ix, w.items, 0));
  fopo_proposal mixture = {.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 16, .epsilon = 0.4};
  fopo_gradient_options all[] = {
      {.estimator = &fopo_estimator_exact},
      {.estimator = &fopo_estimator_reinforce, .samples = 50},
      {.estimator = &fopo_estimator_reinforce, .samples = 50, .baseline = 1},
      {.estimator = &fopo_estimator_snis, .samples = 50, .proposal = mixture}};
  for (size_t i = 0; i < 4; i++) {
    ok(fopo_threads_set(1));
    FREED(fopo_free) float *one = gradient_of(&w, all[i], 3);
    ok(fopo_threads_set(3));
    FREED(fopo_free) float *three = gradient_of(&w, all[i], 3);
    assert_memory_equal(one, three, n_theta(&w) * sizeof *one);
  }
  ok(fopo_threads_set(kept));
}

TEST(test_network_refused) {
  DONE(small_world_done) world w;
  world_init(&w, 20, 4, 5, 3, 1);
  fopo_network net = {1, {5, 3}, FOPO_TANH};
  refused(init_network(&w.pi, w.items, &net, 1.0f, 1), FOPO_ERR_ARGUMENT,
          "1 or 2 hidden layers, not 0");
  net = (fopo_network){2, {5, 0, 3}, FOPO_TANH};
  refused(init_network(&w.pi, w.items, &net, 1.0f, 1), FOPO_ERR_ARGUMENT,
          "layer 1 of the network has 0 units");
}

/* -- items ------------------------------------------------------------------------------------ */

/* Makes the policy learn its items, and far from uniform. */
static void learn_items(world *w, float peak) {
  ok(init_linear(&w->pi, w->items, w->D, FOPO_THETA_RANDOM, 0.7f, 1));
  for (size_t i = 0; i < n_theta(w); i++) w->pi.theta.x[i] *= peak / 0.005f;
  w->pi.learns[FOPO_BLOCK_ITEMS] = 1;
}

/* The items' gradient of contexts 0 .. B-1 as a dense [P, L], added to G. Returns how many items it
 * has. */
static size_t add_items_gradient(float *G, world *w, fopo_gradient *g, size_t B, uint32_t step) {
  fopo_gradient_stats stats;
  ok(fopo_gradient_bind(g, w->device, &w->pi, fopo_contexts_of(w->contexts), &w->reward));
  ok(compute_gradient(g, (fopo_matrix){0}, &stats, w->rows, B, (fopo_draw_key){5, step}));
  fopo_item_gradient items = fopo_gradient_of(g, FOPO_BLOCK_ITEMS);
  assert_non_null(items.rows);
  for (size_t i = 0; i < items.n; i++) {
    size_t a = items.ids != NULL ? items.ids[i] : i;
    assert_true(a < w->P && (i == 0 || items.ids == NULL || items.ids[i] > items.ids[i - 1]));
    for (size_t j = 0; j < w->L; j++) G[a * w->L + j] += items.rows[i * w->L + j];
  }
  return items.n;
}

static float *items_gradient_of(world *w, fopo_gradient_options o, size_t *n) {
  float *G = fopo_alloc(w->P * w->L, sizeof *G);
  fopo_gradient *g = NULL;
  ok(fopo_gradient_new(&g, &o));
  *n = add_items_gradient(G, w, g, w->N, 0);
  fopo_gradient_free(g);
  return G;
}

TEST(test_items_exact) {
  for (int network = 0; network < 2; network++) {
    DONE(small_world_done) world w;
    size_t n;
    if (network) {
      network_world(&w, &networks[0], 40, 6, 2);
      w.pi.learns[FOPO_BLOCK_ITEMS] = 1;
    } else {
      world_init(&w, 40, 6, 4, 5, 1);
      learn_items(&w, 0.3f);
    }
    FREED(fopo_free) double *D = differences(&w, 1);
    FREED(fopo_free)
    float *G =
        items_gradient_of(&w, (fopo_gradient_options){.estimator = &fopo_estimator_exact}, &n);
    double error = relative(G, D, w.P * w.L);
    print_message("items, exact against differences %.1e\n", error);
    assert_true(error < 1e-5 && n == w.P);
  }
}

/* The norm of a step is that of both gradients, theta's and the items'. */
TEST(test_norm_of_both) {
  DONE(small_world_done) world w;
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  fopo_gradient_stats stats;
  world_init(&w, 40, 6, 4, 5, 1);
  learn_items(&w, 0.3f);
  FREED(fopo_free) float *G = fopo_alloc(n_theta(&w), sizeof *G);
  ok(fopo_gradient_new(&g, &(fopo_gradient_options){.estimator = &fopo_estimator_exact}));
  ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
  ok(compute_gradient(g, fopo_matrix_view(G, w.pi.theta.rows, w.pi.theta.cols), &stats, w.rows, w.N,
                      (fopo_draw_key){5, 0}));
  fopo_item_gradient items = fopo_gradient_of(g, FOPO_BLOCK_ITEMS);
  double of_theta = 0.0, of_items = 0.0;
  for (size_t i = 0; i < n_theta(&w); i++) of_theta += (double)G[i] * (double)G[i];
  for (size_t i = 0; i < items.n * w.L; i++) {
    of_items += (double)items.rows[i] * (double)items.rows[i];
  }
  assert_true(of_theta > 0.0 && of_items > 1e-3 * of_theta);
  assert_true(fabs(stats.sum.norm / sqrt(of_theta + of_items) - 1.0) < 1e-6);
}

/* A batch in several parts: the items' gradients of its thirds, averaged. */
TEST(test_items_parts) {
  DONE(small_world_done) world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  world_init(&w, 3000, 1500, 4, 3, 3);
  learn_items(&w, 0.3f);
  ok(fopo_index_norm(&ix, w.items, 0));
  fopo_proposal uniform = {.kind = FOPO_PROPOSAL_UNIFORM};
  fopo_proposal mixture = {.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 12, .epsilon = 0.4};
  fopo_gradient_options all[] = {
      {.estimator = &fopo_estimator_exact, .proposal = uniform},
      {.estimator = &fopo_estimator_snis, .samples = 3000, .proposal = uniform},
      {.estimator = &fopo_estimator_snis, .samples = 3000, .proposal = mixture}};
  for (int i = 0; i < 3; i++) {
    FREED(fopo_gradient_free) fopo_gradient *g = NULL;
    fopo_gradient_stats stats;
    size_t n = w.P * w.L;
    FREED(fopo_free) float *whole = fopo_alloc(n, sizeof *whole), *sum = fopo_alloc(n, sizeof *sum);
    ok(fopo_gradient_new(&g, &all[i]));
    assert_int_equal(add_items_gradient(whole, &w, g, 1500, 0), w.P);
    for (size_t b = 0; b < 1500; b += 500) {
      ok(compute_gradient(g, (fopo_matrix){0}, &stats, w.rows + b, 500, (fopo_draw_key){5, 0}));
      fopo_item_gradient items = fopo_gradient_of(g, FOPO_BLOCK_ITEMS);
      for (size_t k = 0; k < items.n; k++) {
        size_t a = items.ids != NULL ? items.ids[k] : k;
        for (size_t j = 0; j < w.L; j++) sum[a * w.L + j] += items.rows[k * w.L + j] / 3.0f;
      }
    }
    double *wanted = in_double(sum, n), error = relative(whole, wanted, n);
    print_message("items, parts, estimator %d: %.1e\n", i, error);
    assert_true(error < (i < 2 ? 1e-4 : 1e-3)); /* rounding may change the last candidate */
    fopo_free(wanted);
  }
}

/* The mean over many draws against the exact gradient, along random directions, in standard
 * errors. */
static double worst_deviation(world *w, fopo_gradient_options o, const double *exact,
                              uint32_t steps, const char *name) {
  enum { DIRECTIONS = 4 };
  size_t n = w->P * w->L;
  float *u = fopo_alloc(DIRECTIONS * n, sizeof *u), *G = fopo_alloc(n, sizeof *G);
  double sum[DIRECTIONS] = {0}, squares[DIRECTIONS] = {0}, most = 0.0;
  fopo_gradient *g = NULL;
  fopo_fill_normal(u, DIRECTIONS * n, 1.0, 77, FOPO_STREAM_INIT);
  ok(fopo_gradient_new(&g, &o));
  for (uint32_t step = 0; step < steps; step++) {
    memset(G, 0, n * sizeof *G);
    add_items_gradient(G, w, g, w->N, step);
    for (size_t k = 0; k < DIRECTIONS; k++) {
      double x = 0.0;
      for (size_t i = 0; i < n; i++) x += (double)u[k * n + i] * ((double)G[i] - exact[i]);
      sum[k] += x;
      squares[k] += x * x;
    }
  }
  for (size_t k = 0; k < DIRECTIONS; k++) {
    double m = sum[k] / steps, error = sqrt((squares[k] / steps - m * m) / (steps - 1.0));
    most = fmax(most, fabs(m) / error);
  }
  print_message("items, %-32s %4u draws of the batch: worst %.1f standard errors\n", name, steps,
                most);
  fopo_gradient_free(g);
  fopo_free(u);
  fopo_free(G);
  return most;
}

TEST(test_items_mean) {
  int kept = fopo_threads();
  ok(fopo_threads_set(1)); /* thousands of tiny batches: the bits are the same */
  DONE(small_world_done) world w;
  fopo_index *ix = NULL;
  size_t n;
  world_init(&w, 30, 8, 3, 3, 5);
  learn_items(&w, 0.5f);
  ok(fopo_index_norm(&ix, w.items, 0));
  fopo_proposal uniform = {.kind = FOPO_PROPOSAL_UNIFORM};
  fopo_proposal mixture = {.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 6, .epsilon = 0.3};
  float *G = items_gradient_of(&w, (fopo_gradient_options){.estimator = &fopo_estimator_exact}, &n);
  double *exact = in_double(G, w.P * w.L);
  fopo_gradient_options none = {
      .estimator = &fopo_estimator_reinforce, .samples = 5, .proposal = uniform};
  fopo_gradient_options mean = {
      .estimator = &fopo_estimator_reinforce, .samples = 5, .baseline = 1, .proposal = uniform};
  fopo_gradient_options snis = {
      .estimator = &fopo_estimator_snis, .samples = 4000, .proposal = uniform};
  fopo_gradient_options mixed = {
      .estimator = &fopo_estimator_snis, .samples = 4000, .proposal = mixture};
  assert_true(worst_deviation(&w, none, exact, 3000, "reinforce, none, S = 5") < 3.5);
  assert_true(worst_deviation(&w, mean, exact, 3000, "reinforce, mean, S = 5") < 3.5);
  assert_true(worst_deviation(&w, snis, exact, 60, "snis, uniform, S = 4000") < 3.5);
  assert_true(worst_deviation(&w, mixed, exact, 60, "snis, mixture, S = 4000") < 3.5);

  /* the tail in full: the exact gradient */
  fopo_gradient_options whole = {
      .estimator = &fopo_estimator_head_tail, .samples = 24, .proposal = mixture};
  fopo_free(G);
  G = items_gradient_of(&w, whole, &n);
  assert_true(relative(G, exact, w.P * w.L) < 1e-5 && n == w.P);

  /* the index is of other items by now: the estimate stays right, because kappa is of now */
  fopo_fill_normal(w.items.x, w.P * w.L, 1.0, 99, FOPO_STREAM_WORLD);
  fopo_free(G);
  fopo_free(exact);
  G = items_gradient_of(&w, (fopo_gradient_options){.estimator = &fopo_estimator_exact}, &n);
  exact = in_double(G, w.P * w.L);
  assert_true(worst_deviation(&w, mixed, exact, 60, "snis, mixture of an old index") < 3.5);
  fopo_free(G);
  fopo_free(exact);
  fopo_index_free(ix);
  ok(fopo_threads_set(kept));
}

/* -- runs with items -------------------------------------------------------------------------- */

/* The whole of a run with items: theta and items after 12 steps. */
typedef struct {
  float theta[12], items[300 * 4];
} outcome;

static fopo_trainer *trainer_of(world *w, fopo_gradient *g, fopo_optim *o, size_t refresh) {
  fopo_trainer *t = NULL;
  fopo_trainer_options options = trainer_over(w, g, o, 16);
  options.index_refresh = refresh;
  ok(fopo_trainer_new(&t, &options));
  return t;
}

/* The index is built anew before the steps 5, 9, 13 if it is to serve 4. */
TEST(test_index_served) {
  DONE(small_world_done) world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  DONE(fopo_optim_done) fopo_optim o;
  fopo_slice slice;
  world_init(&w, 300, 40, 3, 4, 8);
  learn_items(&w, 0.3f);
  ok(fopo_index_norm(&ix, w.items, 0));
  fopo_proposal q = {.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 12, .epsilon = 0.4};
  ok(fopo_gradient_new(&g, &(fopo_gradient_options){
                               .estimator = &fopo_estimator_snis, .samples = 60, .proposal = q}));
  ok(fopo_optim_init(&o, &(fopo_optim_options){.kind = &fopo_optimiser_sgd, .lr = 0.01}));
  FREED(fopo_trainer_free) fopo_trainer *t = trainer_of(&w, g, &o, 4);
  uint64_t version = fopo_index_about(ix).version;
  for (int step = 1; step <= 14; step++) {
    ok(fopo_trainer_advance(t, 1, &slice));
    int renewed = fopo_index_about(ix).version != version;
    assert_int_equal(renewed, step == 5 || step == 9 || step == 13);
    version = fopo_index_about(ix).version;
  }
}

/* which: the estimator. stop > 0: saved after so many steps and taken up by another trainer. */
static outcome run_with_items(int which, int threads, size_t stop) {
  outcome out;
  world w;
  fopo_index *ix = NULL;
  fopo_gradient *g = NULL;
  fopo_optim o;
  fopo_slice slice;
  char path[64];
  snprintf(path, sizeof path, "/tmp/fopo_test_params_%d.npz", (int)getpid());
  ok(fopo_threads_set(threads));
  world_init(&w, 300, 40, 3, 4, 8);
  learn_items(&w, 0.3f);
  ok(fopo_index_norm(&ix, w.items, 0));
  fopo_proposal uniform = {.kind = FOPO_PROPOSAL_UNIFORM};
  fopo_proposal mixture = {.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 12, .epsilon = 0.4};
  fopo_gradient_options all[] = {
      {.estimator = &fopo_estimator_exact, .proposal = uniform},
      {.estimator = &fopo_estimator_reinforce, .samples = 60, .proposal = uniform},
      {.estimator = &fopo_estimator_reinforce, .samples = 60, .baseline = 1, .proposal = uniform},
      {.estimator = &fopo_estimator_snis, .samples = 60, .proposal = mixture}};
  fopo_optim_options adam = adam_of(0.05);
  size_t refresh = which == 3 ? 5 : 0;
  ok(fopo_gradient_new(&g, &all[which]));
  ok(fopo_optim_init(&o, &adam));
  fopo_trainer *t = trainer_of(&w, g, &o, refresh);
  ok(fopo_trainer_advance(t, stop > 0 ? stop : 7, &slice));
  if (stop > 0) ok(fopo_trainer_save(t, path, NULL, 0));
  if (stop > 0) {
    /* a new start: other items and theta, a fresh optimiser; the file brings all back */
    fopo_trainer_free(t);
    fopo_optim_done(&o);
    ok(fopo_optim_init(&o, &adam));
    memset(w.items.x, 0, w.P * w.L * sizeof *w.items.x);
    memset(w.pi.theta.x, 0, n_theta(&w) * sizeof *w.pi.theta.x);
    t = trainer_of(&w, g, &o, refresh);
    ok(fopo_trainer_resume(t, path, NULL));
  }
  ok(fopo_trainer_advance(t, 12 - (stop > 0 ? stop : 7), &slice));
  assert_true(slice.step == 12);
  memcpy(out.theta, w.pi.theta.x, sizeof out.theta);
  memcpy(out.items, w.items.x, sizeof out.items);
  remove(path);
  fopo_trainer_free(t);
  fopo_optim_done(&o);
  fopo_gradient_free(g);
  fopo_index_free(ix);
  small_world_done(&w);
  return out;
}

TEST(test_items_training) {
  int kept = fopo_threads();
  for (int which = 0; which < 4; which++) {
    outcome one = run_with_items(which, 1, 0), three = run_with_items(which, 3, 0);
    outcome resumed = run_with_items(which, 2, 7);
    assert_memory_equal(&one, &three, sizeof one);
    assert_memory_equal(&one, &resumed, sizeof one);
  }
  ok(fopo_threads_set(kept));
}

TEST(test_items_refused) {
  DONE(small_world_done) world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  FREED(fopo_gradient_free) fopo_gradient *g = NULL;
  DONE(fopo_optim_done) fopo_optim o;
  FREED(fopo_trainer_free) fopo_trainer *t = NULL;
  world_init(&w, 20, 4, 3, 3, 1);
  ok(init_linear(&w.pi, w.items, 3, FOPO_THETA_RANDOM, 1.0f, 1));
  FREED(fopo_free) float *copy = fopo_alloc(60, sizeof *copy);
  memcpy(copy, w.items.x, 60 * sizeof *copy);
  ok(fopo_index_norm(&ix, fopo_matrix_view(copy, 20, 3), 0));
  fopo_gradient_options snis = {.estimator = &fopo_estimator_snis, .samples = 10};
  snis.proposal =
      (fopo_proposal){.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 5, .epsilon = 0.5};
  fopo_optim_options sgd = {.kind = &fopo_optimiser_sgd, .lr = 0.1};
  ok(fopo_gradient_new(&g, &snis));
  ok(fopo_optim_init(&o, &sgd));
  fopo_trainer_options options = trainer_over(&w, g, &o, 2);
  options.index_refresh = 4;
  refused(fopo_trainer_new(&t, &options), FOPO_ERR_ARGUMENT, "items are fixed");
  w.pi.learns[FOPO_BLOCK_ITEMS] = 1;
  refused(fopo_trainer_new(&t, &options), FOPO_ERR_ARGUMENT, "over other items");
  options.index_refresh = 0;
  ok(fopo_trainer_new(&t, &options));
  fopo_slice slice;
  ok(fopo_trainer_advance(t, 3, &slice)); /* sgd moves items too */
  assert_memory_not_equal(copy, w.items.x, 60 * sizeof *copy);
}

static void check_refreshed(fopo_index *ix, world *w) {
  uint32_t ids[3 * 5], truth[3 * 5], counts[3];
  float scores[3 * 5], Q[3 * 4];
  FREED(fopo_index_free) fopo_index *exact = NULL;
  fopo_fill_normal(Q, 12, 1.0, 4, FOPO_STREAM_INIT);
  fopo_matrix queries = fopo_matrix_view(Q, 3, 4);
  fopo_fill_normal(w->items.x, w->P * w->L, 1.0, 50, FOPO_STREAM_WORLD);
  ok(fopo_index_refresh(ix));
  ok(fopo_index_exact(&exact, w->items));
  ok(fopo_index_search(ids, scores, counts, ix, queries, 5));
  ok(fopo_index_search(truth, scores, counts, exact, queries, 5));
  size_t found = 0;
  for (size_t b = 0; b < 3; b++) {
    for (size_t i = 0; i < 5; i++) found += ids[5 * b + i] == truth[5 * b + i];
  }
  assert_true(found >= 13);
}

/* After a refresh every kind answers for the items as they are. */
TEST(test_refresh) {
  for (int kind = 0; kind < 4; kind++) {
    DONE(small_world_done) world w;
    FREED(fopo_index_free) fopo_index *ix = NULL;
    fopo_hnsw_options hnsw = {.M = 8, .ef_construction = 100, .ef = 200, .deterministic = 1};
    world_init(&w, 500, 4, 4, 4, 6);
    if (kind == 0) ok(fopo_index_exact(&ix, w.items));
    if (kind == 1) ok(fopo_index_norm(&ix, w.items, 0));
    if (kind == 2) ok(fopo_index_hnsw(&ix, w.items, &hnsw));
    if (kind == 3) ok(fopo_index_hybrid(&ix, w.items, 0.1, &hnsw));
    check_refreshed(ix, &w);
    w.items.x[7] = NAN;
    refused(fopo_index_refresh(ix), FOPO_ERR_NUMERIC, "items");
  }
}

TEST(test_temperatures) {
  float beta[4] = {1, 2, 3, 4}, wrong[] = {0.0f, -1.0f, INFINITY, NAN};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    DONE(fopo_policy_done) fopo_policy pi = {0};
    fopo_policy_options o = {.context_dim = 2, .temperature = wrong[i]};
    refused(fopo_policy_init(&pi, &fopo_policy_linear, fopo_matrix_view(beta, 2, 2), &o),
            FOPO_ERR_ARGUMENT, "it divides scores, use > 0");
  }
}

/* The segments of theta that are learnt: one for all at one rate. */
TEST(test_segments) {
  DONE(fopo_policy_done) fopo_policy pi = {0};
  float beta[4 * 2] = {1, 2, 3, 4, 5, 6, 7, 8};
  fopo_policy_options o = {.context_dim = 3, .temperature = 1.0F, .hidden = {1, {5}}};
  fopo_segment s[FOPO_POLICY_PARAMETERS];
  int group[FOPO_POLICY_PARAMETERS] = {1, 1, 2, 1}; /* W1 [3, 5], b1 [5], W2 [5, 2], b2 [2] */
  ok(fopo_policy_init(&pi, &fopo_policy_mlp, fopo_matrix_view(beta, 4, 2), &o));
  assert_int_equal(fopo_policy_segments(s, &pi, NULL), 1);
  assert_true(s[0].first == 0 && s[0].n == 32);
  assert_int_equal(fopo_policy_segments(s, &pi, group), 3);
  assert_true(s[0].n == 20 && s[1].first == 20 && s[1].n == 10 && s[2].first == 30 && s[2].n == 2);
  assert_true(s[0].parameter == 0 && s[1].parameter == 2 && s[2].parameter == 3);
  ok(fopo_policy_learn(&pi, (const char *[]){"b2", "b1"}, 2));
  assert_int_equal(fopo_policy_segments(s, &pi, NULL), 2);
  assert_true(s[0].first == 15 && s[0].n == 5 && s[1].first == 30 && s[1].n == 2);
  ok(fopo_policy_learn(&pi, (const char *[]){"items"}, 1));
  assert_int_equal(fopo_policy_segments(s, &pi, NULL), 0);
  assert_true(!pi.learns[FOPO_BLOCK_THETA] && pi.learns[FOPO_BLOCK_ITEMS]);
}

int main(void) {
  fopo_threads_set(2);
  return run_all(NULL, NULL);
}
