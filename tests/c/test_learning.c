/* Learning in a small world (P = 2,000) from its sessions to a test reward: SNIS with the mixture
 * proposal gets where the exact gradient gets, from the same start, and both far from there. */
#include "core/clock.h"
#include "data/embed.h"
#include "data/world/synthetic.h"
#include "judge/evaluate.h"
#include "small_world.h"

static const fopo_encoding by_mean = {&fopo_encoder_mean, NULL};

enum { ITEMS = 2000, DIM = 24, BATCH = 32 };

typedef struct {
  fopo_dataset *d;
  fopo_world *world;
  fopo_split split;
  fopo_matrix items, train, test; /* embeddings, contexts */
  fopo_index *ix;
  fopo_device *device;
  fopo_reward reward;
} scene;

static void set_up(scene *s) {
  memset(s, 0, sizeof *s);
  fopo_world_options world = {
      .users = 4000, .items = ITEMS, .clusters = 20, .mean_items = 40, .noise = 0.05, .seed = 5};
  fopo_split_options split = {.min_items = 10, .test = 0.5, .seed = 5};
  fopo_embed_options svd = {{.dim = DIM, .power_iterations = 3, .seed = 5}, {0.5, 1}, 0};
  ok(fopo_world_new(&s->world, &s->d, &world));
  ok(fopo_split_by(&s->split, s->d, &split, &(fopo_split_plan){0}));
  ok(fopo_matrix_init(&s->items, ITEMS, DIM));
  ok(fopo_embed_svd(s->items, NULL, &s->split.train, &svd));
  ok(fopo_matrix_init(&s->train, s->split.train.X.rows, DIM));
  ok(fopo_matrix_init(&s->test, s->split.test.X.rows, DIM));
  ok(fopo_encode(s->train, by_mean, &s->split.train.X, s->items));
  ok(fopo_encode(s->test, by_mean, &s->split.test.X, s->items));
  ok(fopo_index_norm(&s->ix, s->items, 0));
  ok(fopo_device_cpu_open(&s->device));
  s->reward = (fopo_reward){
      .kind = &fopo_reward_hits, .Y = &s->split.train.Y, .contexts = s->split.train.Y.rows};
}

static void tear_down(scene *s) {
  fopo_device_close(s->device);
  fopo_index_free(s->ix);
  fopo_matrix_done(&s->items);
  fopo_matrix_done(&s->train);
  fopo_matrix_done(&s->test);
  fopo_split_done(&s->split);
  fopo_dataset_free(s->d);
  fopo_world_free(s->world);
}

static double test_reward(scene *s, const fopo_policy *pi) {
  fopo_evaluation e;
  ok(fopo_evaluate(&e, pi, s->test, &s->split.test, s->ix, NULL));
  assert_int_equal(e.unanswered, 0);
  assert_true(e.low <= e.reward && e.reward <= e.high && e.distinct >= 1);
  return e.reward;
}

/* The test reward after `steps` of this estimator. */
static double learn(scene *s, const char *name, fopo_gradient_options o, size_t steps) {
  fopo_policy pi = {0};
  fopo_gradient *g = NULL;
  fopo_optim optim;
  fopo_trainer *t = NULL;
  fopo_slice slice;
  fopo_optim_options adam = adam_of(0.01);
  double started = fopo_clock(), quarter[4];
  ok(init_linear(&pi, s->items, s->items.cols, FOPO_THETA_RANDOM, 1.0f, 1));
  ok(fopo_gradient_new(&g, &o));
  ok(fopo_optim_init(&optim, &adam));
  ok(fopo_trainer_new(&t, &(fopo_trainer_options){.policy = &pi,
                                                  .contexts = fopo_contexts_of(s->train),
                                                  .reward = &s->reward,
                                                  .gradient = g,
                                                  .optim = &optim,
                                                  .device = s->device,
                                                  .batch = BATCH,
                                                  .seed = 2}));
  for (int i = 0; i < 4; i++) {
    ok(fopo_trainer_advance(t, steps / 4, &slice));
    quarter[i] = test_reward(s, &pi);
  }
  print_message("%-10s %.3f %.3f %.3f %.3f  (ess %.0f, %.2f s)\n", name, quarter[0], quarter[1],
                quarter[2], quarter[3], slice.mean.ess, fopo_clock() - started);
  fopo_trainer_free(t);
  fopo_optim_done(&optim);
  fopo_gradient_free(g);
  fopo_policy_done(&pi);
  return quarter[3];
}

TEST(test_learning) {
  enum { STEPS = 1600 };
  scene s;
  fopo_policy start = {0};
  set_up(&s);
  ok(init_linear(&start, s.items, s.items.cols, FOPO_THETA_RANDOM, 1.0f, 1));
  double before = test_reward(&s, &start), expected, achieved;
  ok(fopo_world_best(&expected, &achieved, s.world, &s.split.test));
  print_message("start %.3f, best possible %.3f, %zu contexts to learn from\n", before, expected,
                s.train.rows);
  fopo_gradient_options snis = {.estimator = &fopo_estimator_snis, .samples = 200};
  snis.proposal =
      (fopo_proposal){.kind = FOPO_PROPOSAL_MIXTURE, .index = s.ix, .k = 50, .epsilon = 0.5};
  double exact =
      learn(&s, "exact", (fopo_gradient_options){.estimator = &fopo_estimator_exact}, STEPS);
  double mixture = learn(&s, "mixture", snis, STEPS);
  assert_true(exact > 3.0 * before && mixture > 3.0 * before);
  assert_true(mixture >= 0.95 * exact);
  fopo_policy_done(&start);
  tear_down(&s);
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

/* What an evaluation counts, on sessions whose answer is known. */
TEST(test_evaluate) {
  /* theta = identity, items and contexts are axes: context n is recommended item n mod 3 */
  float beta[] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, x[8 * 3] = {0};
  uint32_t row[8], col[8];
  size_t repeats;
  fopo_sessions sessions = {0};
  fopo_policy pi = {0};
  fopo_index *ix = NULL, *small = NULL;
  fopo_evaluation e;
  for (uint32_t n = 0; n < 8; n++) {
    x[n * 3 + n % 3] = 1;
    row[n] = n;
    col[n] = n < 5 ? n % 3 : (n + 1) % 3; /* five hits, three misses */
  }
  fopo_matrix items = fopo_matrix_view(beta, 3, 3), contexts = fopo_matrix_view(x, 8, 3);
  ok(fopo_csr_from_pairs(&sessions.Y, row, col, NULL, 8, 8, 3, &repeats));
  ok(init_linear(&pi, items, items.cols, FOPO_THETA_IDENTITY, 2.0f, 0));
  ok(fopo_index_exact(&ix, items));
  ok(fopo_index_exact(&small, fopo_matrix_rows(items, 0, 2)));
  ok(fopo_evaluate(&e, &pi, contexts, &sessions, ix, NULL));
  assert_int_equal(e.contexts, 8);
  assert_int_equal(e.hits, 5);
  assert_int_equal(e.distinct, 3);
  assert_true(fabs(e.reward - 0.625) < 1e-12);
  /* Wilson's interval of 5 in 8, from its formula worked out by hand */
  assert_true(fabs(e.low - 0.3057) < 1e-4 && fabs(e.high - 0.8632) < 1e-4);
  /* X holds the best item of the contexts 0 .. 4: another one is judged, and is no hit */
  uint32_t taken[5] = {0, 1, 2, 0, 1};
  ok(fopo_csr_from_pairs(&sessions.X, row, taken, NULL, 5, 8, 3, &repeats));
  fopo_sparse_scores seen = fopo_mask_of(&sessions.X);
  ok(fopo_evaluate(&e, &pi, contexts, &sessions, ix, &seen));
  assert_int_equal(e.hits, 0);
  ok(fopo_evaluate(&e, &pi, contexts, &sessions, ix, NULL));
  assert_int_equal(e.hits, 5);
  refused(fopo_evaluate(&e, &pi, contexts, &sessions, NULL, NULL), FOPO_ERR_ARGUMENT, "index");
  refused(fopo_evaluate(&e, &pi, contexts, &sessions, small, NULL), FOPO_ERR_ARGUMENT, "2 items");
  refused(fopo_evaluate(&e, &pi, fopo_matrix_rows(contexts, 0, 7), &sessions, ix, NULL),
          FOPO_ERR_ARGUMENT, "7 contexts");
  refused(fopo_policy_queries(contexts, &pi, fopo_matrix_view(x, 12, 2)), FOPO_ERR_ARGUMENT,
          "12 x 2");
  double low, high;
  fopo_wilson(&low, &high, 0, 10);
  assert_true(low <= 0.0 && fabs(high - 0.2775) < 1e-4);
  fopo_wilson(&low, &high, 10, 10);
  assert_true(high >= 1.0 && fabs(low - 0.7225) < 1e-4);
  fopo_wilson(&low, &high, 0, 0);
  assert_true(!(low > 0.0) && !(low < 0.0) && !(high > 1.0) && !(high < 1.0));
  fopo_index_free(ix);
  fopo_index_free(small);
  fopo_policy_done(&pi);
  fopo_sessions_done(&sessions);
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

int main(void) {
  fopo_threads_set(1); /* steps of a millisecond: on a busy machine threads would wait longer */
  return run_all(NULL, NULL);
}
