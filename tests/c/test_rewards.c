/* Rewards of logs: values by hand, the device against the plain form, models against what they must
 * satisfy, and gradients: IPS and doubly robust agree in mean with the truth, and differ in
 * variance. */
#include "data/world/synthetic_logs.h"
#include "judge/reward_model.h"
#include "small_world.h"

FREED_BY(fopo_log_world_free, fopo_log_world)
FREED_BY(fopo_logs_free, fopo_logs)
FREED_BY(fopo_model_free, fopo_model)

static void close_to(double a, double b, double tolerance) {
  if (!(fabs(a - b) <= tolerance)) fail_msg("%.9g is not %.9g", a, b);
}

/* ---- by hand ---- */

static uint32_t actions[] = {2, 0, 3};
static float rewards[] = {1.0f, -2.0f, 0.5f}, propensities[] = {0.5f, 0.02f, 1.0f};

static fopo_logs by_hand(void) {
  return (fopo_logs){
      .n = 3, .n_actions = 4, .actions = actions, .rewards = rewards, .propensities = propensities};
}

/* r_M(a, n) = users[n] . items[a] = (n + 1) + 0.1 a (n = 0 .. 2) */
static const float users[] = {1, 1, 2, 1, 3, 1}, items[] = {1, 0, 1, 0.1f, 1, 0.2f, 1, 0.3f};
static const fopo_low_rank model = {.users = users, .items = items, .rank = 2};

enum { N = 3, P = 4 };

/* All P items of all N contexts: the plain form, and the device's. */
static void values(double out[N][P], const fopo_reward *reward) {
  uint32_t ids[N * P], rows[N] = {0, 1, 2};
  float r[N * P], again[N * P];
  fopo_samples samples = {.ids = ids, .r = again};
  fopo_device_batch batch = {.B = N, .S = P, .P = P, .rows = rows};
  fopo_device *d;
  for (uint32_t i = 0; i < N * P; i++) ids[i] = i % P;
  ok(fopo_reward_fill(r, reward, ids, rows, N, P));
  ok(fopo_device_open(&d, "cpu"));
  int modelled = reward->model.users != NULL;
  if (modelled) ok(d->ops->reward_model(d, &samples, &reward->model, &batch));
  if (reward->credit.action != NULL) {
    ok(d->ops->reward_credit(d, &samples, &reward->credit, modelled, &batch));
  }
  fopo_device_close(d);
  for (int i = 0; i < N * P; i++) {
    close_to((double)again[i], (double)r[i], 1e-5 * (1 + fabs((double)r[i])));
    out[i / P][i % P] = (double)r[i];
  }
}

TEST(test_ips) {
  fopo_logs logs = by_hand();
  DONE(fopo_reward_done) fopo_reward reward;
  double v[N][P];
  ok(fopo_reward_init(&reward, &fopo_reward_ips,
                      &(fopo_reward_source){.logs = &logs, .clip = 0.0}));
  values(v, &reward);
  const double expected[N][P] = {{0, 0, 2, 0}, {-100, 0, 0, 0}, {0, 0, 0, 0.5}};
  for (int n = 0; n < N; n++) {
    for (int a = 0; a < P; a++) close_to(v[n][a], expected[n][a], 1e-4);
  }
  reward.credit.shift = 0.25f;
  values(v, &reward);
  close_to(v[0][2], 1.5, 1e-6);
  close_to(v[1][0], -112.5, 1e-4);
  close_to(v[1][1], 0.0, 0.0);
  fopo_reward_done(&reward);
  ok(fopo_reward_init(&reward, &fopo_reward_ips,
                      &(fopo_reward_source){.logs = &logs, .clip = 0.1})); /* r / max(tau, p) */
  values(v, &reward);
  close_to(v[0][2], 2.0, 1e-6);
  close_to(v[1][0], -20.0, 1e-5);
}

TEST(test_doubly_robust) {
  fopo_logs logs = by_hand();
  DONE(fopo_reward_done) fopo_reward reward;
  double v[N][P];
  ok(fopo_reward_init(&reward, &fopo_reward_direct,
                      &(fopo_reward_source){.logs = &logs, .model = &model}));
  values(v, &reward);
  for (int n = 0; n < N; n++) {
    for (int a = 0; a < P; a++) close_to(v[n][a], n + 1 + 0.1 * a, 1e-6);
  }
  fopo_reward_done(&reward);
  ok(fopo_reward_init(&reward, &fopo_reward_doubly_robust,
                      &(fopo_reward_source){.logs = &logs, .model = &model, .clip = 0.1}));
  values(v, &reward);
  close_to(v[0][2], 1.2 + (1.0 - 1.2) / 0.5, 1e-5);
  close_to(v[1][0], 2.0 + (-2.0 - 2.0) / 0.1, 1e-4);
  close_to(v[2][3], 3.3 + (0.5 - 3.3), 1e-5);
  close_to(v[1][3], 2.3, 1e-6);
  fopo_reward_done(&reward);
  ok(fopo_reward_init(&reward, &fopo_reward_switch,
                      &(fopo_reward_source){.logs = &logs,
                                            .model = &model,
                                            .threshold = 10.0})); /* 1 / 0.02 is too much */
  values(v, &reward);
  close_to(v[0][2], 1.2 + (1.0 - 1.2) / 0.5, 1e-5);
  close_to(v[1][0], 2.0, 1e-6);
}

TEST(test_logistic_link) {
  fopo_logs logs = by_hand();
  fopo_low_rank m = model;
  m.logistic = 1;
  DONE(fopo_reward_done) fopo_reward reward;
  double v[N][P];
  ok(fopo_reward_init(&reward, &fopo_reward_direct,
                      &(fopo_reward_source){.logs = &logs, .model = &m}));
  values(v, &reward);
  close_to(v[1][3], 1 / (1 + exp(-2.3)), 1e-6);
}

TEST(test_refused) {
  fopo_logs logs = by_hand();
  DONE(fopo_reward_done) fopo_reward reward;
  refused(fopo_reward_init(&reward, &fopo_reward_ips,
                           &(fopo_reward_source){.logs = &logs, .clip = 1.05}),
          FOPO_ERR_ARGUMENT, "clip is 1.05");
  refused(fopo_reward_init(&reward, &fopo_reward_switch,
                           &(fopo_reward_source){.logs = &logs, .model = &model, .threshold = 0.5}),
          FOPO_ERR_ARGUMENT, "threshold is 0.5");
  float bad[] = {0.5f, 0.0f, 1.0f};
  logs.propensities = bad;
  refused(fopo_reward_init(&reward, &fopo_reward_ips,
                           &(fopo_reward_source){.logs = &logs, .clip = 0.0}),
          FOPO_ERR_ARGUMENT, "event 2 has the propensity 0");
  bad[1] = NAN;
  refused(fopo_reward_init(&reward, &fopo_reward_ips,
                           &(fopo_reward_source){.logs = &logs, .clip = 0.0}),
          FOPO_ERR_ARGUMENT, "event 2 has the propensity");
  logs = by_hand();
  ok(fopo_reward_init(&reward, &fopo_reward_ips,
                      &(fopo_reward_source){.logs = &logs, .clip = 0.0}));
  refused(fopo_reward_check(&reward, 3, 5), FOPO_ERR_ARGUMENT, "from the same log");
  ok(fopo_reward_check(&reward, 3, 4));
  uint32_t ids[] = {0, 1, 3, 2, 4, 0}, rows[] = {0, 1};
  float r[6];
  refused(fopo_reward_fill(r, &reward, ids, rows, 2, 3), FOPO_ERR_ARGUMENT,
          "draw 2 of context 2 is item 5 of 4");
}

/* ---- models ---- */

static const fopo_log_world_options world = {.n = 3000,
                                             .actions = 40,
                                             .dim = 3,
                                             .k = 5,
                                             .epsilon = 0.4,
                                             .skill = 0.5,
                                             .sharpness = 1.0,
                                             .bias = -0.5,
                                             .slope = 1.0,
                                             .spread = 0.2,
                                             .seed = 11};

static void make_world(fopo_log_world **w, fopo_logs **logs, size_t n, uint64_t seed) {
  fopo_log_world_options o = world;
  o.n = n;
  o.seed = seed;
  ok(fopo_log_world_new(w, logs, &o));
}

static double predicted(const fopo_model *m, const fopo_logs *logs, size_t n) {
  fopo_low_rank low = fopo_model_low_rank(m);
  fopo_reward reward;
  float r;
  uint32_t row = (uint32_t)n;
  ok(fopo_reward_init(&reward, &fopo_reward_direct,
                      &(fopo_reward_source){.logs = logs, .model = &low}));
  ok(fopo_reward_fill(&r, &reward, &logs->actions[n], &row, 1, 1));
  return (double)r;
}

/* Rewards that are the model's own form are found again. */
TEST(test_ridge) {
  FREED(fopo_log_world_free) fopo_log_world *w = NULL;
  FREED(fopo_logs_free) fopo_logs *logs = NULL;
  FREED(fopo_model_free) fopo_model *m = NULL;
  make_world(&w, &logs, 1500, 1);
  fopo_model_options o = {.lambda = 1e-6, .dim = 8, .folds = 1, .seed = 1};
  for (size_t i = 0; i < logs->n; i++) {
    const float *x = fopo_matrix_row(logs->contexts, i);
    const float *b = fopo_matrix_row(logs->items, logs->actions[i]);
    logs->rewards[i] = 0.5f + x[0] * b[1] - 2.0f * x[2] * b[0] + x[1] - 0.25f * b[2];
  }
  ok(fopo_model_fit(&m, logs, logs->items, &o));
  assert_int_equal(m->parameters, 16);
  assert_true(m->loss < 1e-9 && m->constant_loss > 0.1);
  close_to(predicted(m, logs, 17), (double)logs->rewards[17], 1e-4);
  fopo_matrix again;
  ok(fopo_model_users(&again, m, fopo_matrix_rows(logs->contexts, 100, 10)));
  for (size_t i = 0; i < 10 * again.cols; i++) {
    close_to((double)again.x[i], (double)m->users.x[100 * again.cols + i], 1e-5);
  }
  fopo_matrix_done(&again);
  fopo_model_free(m);

  /* without item features: one number an action */
  for (size_t i = 0; i < logs->n; i++) {
    logs->rewards[i] = (float)(logs->actions[i] % 7) - fopo_matrix_row(logs->contexts, i)[1];
  }
  o.folds = 3;
  ok(fopo_model_fit(&m, logs, (fopo_matrix){0}, &o));
  assert_int_equal(m->parameters, 3 + 40 + 1);
  assert_true(m->loss < 1e-4);
}

/* The slope of the likelihood along the free constant vanishes: predictions are right in the mean;
 * and they are the rewards' own probabilities, nearly. */
TEST(test_logistic) {
  FREED(fopo_log_world_free) fopo_log_world *w = NULL;
  FREED(fopo_logs_free) fopo_logs *logs = NULL;
  fopo_model *m;
  make_world(&w, &logs, 3000, 2);
  fopo_model_options o = {.logistic = 1, .lambda = 0.1, .dim = 8, .folds = 1, .seed = 1};
  ok(fopo_model_fit(&m, logs, logs->items, &o));
  double error = 0, square = 0;
  for (size_t i = 0; i < logs->n; i++) {
    double p = predicted(m, logs, i), truth;
    float rho;
    uint32_t row = (uint32_t)i;
    ok(fopo_log_world_rewards(&rho, w, logs->contexts, &logs->actions[i], &row, 1, 1));
    truth = (double)rho;
    error += ((double)logs->rewards[i] - p) / 3000;
    square += (truth - p) * (truth - p) / 3000;
  }
  close_to(error, 0.0, 1e-5);
  assert_true(sqrt(square) < 0.05);
  assert_true(m->loss < m->constant_loss);
  fopo_model_free(m);

  o.lambda = 0;
  refused(fopo_model_fit(&m, logs, logs->items, &o), FOPO_ERR_ARGUMENT, "lambda is 0");
  o.lambda = 1;
  logs->rewards[4] = 2.0f;
  refused(fopo_model_fit(&m, logs, logs->items, &o), FOPO_ERR_ARGUMENT, "event 5 has the reward 2");
}

/* An event's own reward says nothing to the model that is asked about it; threads change no bit. */
TEST(test_folds) {
  FREED(fopo_log_world_free) fopo_log_world *w = NULL;
  FREED(fopo_logs_free) fopo_logs *logs = NULL;
  FREED(fopo_model_free) fopo_model *a = NULL, *b = NULL;
  make_world(&w, &logs, 600, 3);
  fopo_model_options o = {.lambda = 1.0, .dim = 8, .folds = 4, .seed = 1};
  int threads = fopo_threads();
  ok(fopo_threads_set(1));
  ok(fopo_model_fit(&a, logs, logs->items, &o));
  logs->rewards[7] += 100.0f;
  ok(fopo_threads_set(3));
  ok(fopo_model_fit(&b, logs, logs->items, &o));
  ok(fopo_threads_set(threads));
  size_t rank = a->users.cols, changed = 0;
  assert_memory_equal(fopo_matrix_row(a->users, 7), fopo_matrix_row(b->users, 7),
                      rank * sizeof(float));
  for (size_t i = 0; i < logs->n; i++) {
    changed += memcmp(fopo_matrix_row(a->users, i), fopo_matrix_row(b->users, i),
                      rank * sizeof(float)) != 0;
  }
  assert_true(changed > 300 && changed < 600);
}

/* ---- gradients ---- */

enum { BATCH = 100, BATCHES = 40, ENTRIES = 9 };

/* Means and variances over batches of the exact gradient under a reward. */
static void spread_of(double mean[ENTRIES], double *variance, const fopo_reward *reward,
                      const fopo_logs *logs, const fopo_policy *pi, fopo_device *d) {
  fopo_gradient *g;
  fopo_gradient_options o = {.estimator = &fopo_estimator_exact};
  float G[ENTRIES];
  uint32_t rows[BATCH];
  double square[ENTRIES] = {0};
  memset(mean, 0, ENTRIES * sizeof *mean);
  ok(fopo_gradient_new(&g, &o));
  ok(fopo_gradient_bind(g, d, pi, fopo_contexts_of(logs->contexts), reward));
  for (uint32_t b = 0; b < BATCHES; b++) {
    fopo_gradient_stats stats;
    for (uint32_t i = 0; i < BATCH; i++) rows[i] = b * BATCH + i;
    ok(compute_gradient(g, fopo_matrix_view(G, 3, 3), &stats, rows, BATCH, (fopo_draw_key){1, b}));
    for (int i = 0; i < ENTRIES; i++) {
      mean[i] += (double)G[i] / BATCHES;
      square[i] += (double)G[i] * (double)G[i] / BATCHES;
    }
  }
  *variance = 0;
  for (int i = 0; i < ENTRIES; i++) *variance += square[i] - mean[i] * mean[i];
  fopo_gradient_free(g);
}

/* 4,000 events over 40 actions, propensities from 0.01 on: both are right in the mean, within four
 * standard errors of the gradient under the true reward, and the doubly robust one, cross-fitted,
 * varies less. */
TEST(test_variance) {
  FREED(fopo_log_world_free) fopo_log_world *w = NULL;
  FREED(fopo_logs_free) fopo_logs *logs = NULL;
  FREED(fopo_device_close) fopo_device *d = NULL;
  DONE(fopo_policy_done) fopo_policy pi;
  FREED(fopo_model_free) fopo_model *m = NULL;
  make_world(&w, &logs, BATCH * BATCHES, 5);
  ok(fopo_device_open(&d, "cpu"));
  ok(init_linear(&pi, logs->items, logs->items.cols, FOPO_THETA_IDENTITY, 1.0f, 1));
  fopo_model_options o = {.logistic = 1, .lambda = 1.0, .dim = 8, .folds = 2, .seed = 1};
  ok(fopo_model_fit(&m, logs, logs->items, &o));
  fopo_low_rank low = fopo_model_low_rank(m), truth = {.rank = 4, .logistic = 1};
  fopo_reward ips, dr, exact;
  ok(fopo_reward_init(&ips, &fopo_reward_ips, &(fopo_reward_source){.logs = logs, .clip = 0.0}));
  ok(fopo_reward_init(&dr, &fopo_reward_doubly_robust,
                      &(fopo_reward_source){.logs = logs, .model = &low, .clip = 0.0}));

  /* the true reward as a model: sigmoid(x . beta - 0.5) */
  DONE(fopo_matrix_done) fopo_matrix X, B;
  ok(fopo_matrix_init(&X, logs->n, 4));
  ok(fopo_matrix_init(&B, 40, 4));
  for (size_t n = 0; n < logs->n; n++) {
    memcpy(fopo_matrix_row(X, n), fopo_matrix_row(logs->contexts, n), 3 * sizeof(float));
    fopo_matrix_row(X, n)[3] = -0.5f;
  }
  for (size_t a = 0; a < 40; a++) {
    memcpy(fopo_matrix_row(B, a), fopo_matrix_row(logs->items, a), 3 * sizeof(float));
    fopo_matrix_row(B, a)[3] = 1.0f;
  }
  truth.users = X.x;
  truth.items = B.x;
  ok(fopo_reward_init(&exact, &fopo_reward_direct,
                      &(fopo_reward_source){.logs = logs, .model = &truth}));

  double mean[3][ENTRIES], variance[3];
  spread_of(mean[0], &variance[0], &exact, logs, &pi, d);
  spread_of(mean[1], &variance[1], &ips, logs, &pi, d);
  spread_of(mean[2], &variance[2], &dr, logs, &pi, d);
  for (int k = 1; k < 3; k++) {
    double distance = 0;
    for (int i = 0; i < ENTRIES; i++) {
      distance += (mean[k][i] - mean[0][i]) * (mean[k][i] - mean[0][i]);
    }
    if (!(sqrt(distance) < 4 * sqrt(variance[k] / BATCHES))) {
      fail_msg("kind %d: %.3g off, standard error %.3g", k, sqrt(distance),
               sqrt(variance[k] / BATCHES));
    }
  }
  if (!(variance[2] < 0.6 * variance[1])) {
    fail_msg("variance of ips %.3g, doubly robust %.3g", variance[1], variance[2]);
  }
  fopo_reward_done(&ips);
  fopo_reward_done(&dr);
}

TEST(test_memory) {
  FREED(fopo_log_world_free) fopo_log_world *w = NULL;
  FREED(fopo_logs_free) fopo_logs *logs = NULL;
  make_world(&w, &logs, 64, 6);
  fopo_model_options o = {.logistic = 1, .lambda = 1.0, .dim = 8, .folds = 2, .seed = 1};
  size_t before = fopo_memory_in_use().blocks;
  for (int with_items = 0; with_items < 2; with_items++) {
    fopo_model *m = NULL;
    int status = FOPO_ERR_MEMORY;
    for (long n = 0; status != FOPO_OK && n < 500; n++) {
      fopo_memory_fail_after(n, 0);
      status = fopo_model_fit(&m, logs, with_items ? logs->items : (fopo_matrix){0}, &o);
      fopo_memory_fail_after(-1, 0);
      if (status != FOPO_OK) assert_int_equal(fopo_memory_in_use().blocks, before);
    }
    ok(status);
    fopo_model_free(m);
    assert_int_equal(fopo_memory_in_use().blocks, before);
  }
}

int main(void) {
  if (fopo_threads_set(1) != FOPO_OK) return 1; /* so small that threads would only wait */
  return run_all(NULL, NULL);
}
