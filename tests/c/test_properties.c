/* Properties that other tests see by luck alone, each stated by itself: what belongs to the
 * fingerprint of a checkpoint; draws that are new in every step and orders in every epoch; a
 * permutation for each user; the number of uniform draws; the ends of a bootstrap interval; SWITCH
 * at its threshold; the bound of a search on catalogues that are made to deceive it. */
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "data/sessions.h"
#include "judge/ope.h"
#include "kernels/kernels.h"
#include "mips/index.h"
#include "small_trainer.h"

enum { P = 120, N = 23, L = 5 };

/* ---- the trainer ---- */

static void set_up(setting *s, size_t batch, int custom, const fopo_reward *reward) {
  fopo_optim_options o = {.kind = &fopo_optimiser_sgd, .lr = 1e-20}; /* theta stays */
  memset(s, 0, sizeof *s);
  small_world_init(&s->w, P, N, L, 0.1, 0.1, 3);
  ok(fopo_index_norm(&s->ix, s->w.items, 0));
  if (reward != NULL) s->w.reward = *reward;
  make_trainer(s, (fopo_gradient_options){.estimator = &fopo_estimator_snis, .samples = 30}, &o,
               batch, custom);
}

/* The draws of a context, by its row, in one step of all contexts. */
static void draws_of_step(uint32_t ids[N][30], setting *s) {
  fopo_slice slice;
  assert_int_equal(fopo_trainer_advance(s->t, 1, &slice), FOPO_DRAWN);
  const fopo_drawn *d = fopo_trainer_drawn(s->t);
  assert_true(d->B == N && d->S == 30);
  for (size_t b = 0; b < N; b++) memcpy(ids[d->rows[b]], d->ids + b * 30, sizeof *ids);
  fill(s);
  ok(fopo_trainer_advance(s->t, 1, &slice));
}

/* How many of 30 draws are equal, place by place. */
static int equal_draws(const uint32_t *a, const uint32_t *b) {
  int equal = 0;
  for (int i = 0; i < 30; i++) equal += a[i] == b[i];
  return equal;
}

/* Two steps at the same theta draw anew in every context, and so do two contexts of a step. Of
 * uniform draws of 120 items, 0.25 of 30 are equal by chance. */
TEST(draws_are_new) {
  enum { STEPS = 6 };
  static uint32_t ids[STEPS][N][30];
  DONE(tear_down) setting s;
  set_up(&s, N, 1, NULL);
  for (int t = 0; t < STEPS; t++) draws_of_step(ids[t], &s);
  for (int t = 0; t < STEPS; t++) {
    for (int row = 0; row < N; row++) {
      for (int u = 0; u < t; u++) assert_true(equal_draws(ids[t][row], ids[u][row]) <= 5);
      for (int other = 0; other < row; other++) {
        assert_true(equal_draws(ids[t][row], ids[t][other]) <= 5);
      }
    }
  }
}

/* Each epoch visits every context once, and in an order of its own. */
TEST(orders_are_new) {
  enum { EPOCHS = 5 };
  uint32_t rows[EPOCHS][N];
  DONE(tear_down) setting s;
  fopo_slice slice;
  set_up(&s, 4, 1, NULL);
  for (size_t at = 0; at < EPOCHS * N;) {
    assert_int_equal(fopo_trainer_advance(s.t, 1, &slice), FOPO_DRAWN);
    const fopo_drawn *d = fopo_trainer_drawn(s.t);
    for (size_t b = 0; b < d->B; b++, at++) rows[at / N][at % N] = d->rows[b];
    fill(&s);
    ok(fopo_trainer_advance(s.t, 1, &slice));
  }
  for (int e = 0; e < EPOCHS; e++) {
    uint8_t seen[N] = {0};
    for (int i = 0; i < N; i++) assert_int_equal(seen[rows[e][i]]++, 0);
    for (int f = 0; f < e; f++) {
      int equal = 0;
      for (int i = 0; i < N; i++) equal += rows[e][i] == rows[f][i];
      assert_true(equal < 10); /* 1 by chance */
    }
  }
}

/* ---- what a checkpoint belongs to ---- */

static const char *file_name(void) {
  static char name[64];
  snprintf(name, sizeof name, "/tmp/fopo_test_properties_%ld.npz", (long)getpid());
  return name;
}

/* Saves a run, and resumes it over data of which one bit is flipped: it is refused, and taken when
 * the bit is back. */
static void belongs(setting *s, void *at, size_t place, const char *what) {
  char *byte = (char *)at + place;
  fopo_trainer *first = s->t, *second;
  ok(fopo_trainer_save(first, file_name(), NULL, 0));
  fopo_trainer_options o = trainer_over(&s->w, s->g, &s->optim, 4);
  for (int flipped = 1; flipped >= 0; flipped--) {
    *byte ^= (char)flipped;
    ok(fopo_trainer_new(&second, &o));
    int status = fopo_trainer_resume(second, file_name(), NULL);
    *byte ^= (char)flipped;
    if (flipped && status != FOPO_ERR_ARGUMENT) {
      fail_msg("a checkpoint over other %s is taken", what);
    }
    if (flipped) says("data");
    if (!flipped) ok(status);
    fopo_trainer_free(second);
  }
  unlink(file_name());
}

TEST(checkpoints_of_sessions) {
  DONE(tear_down) setting s;
  set_up(&s, 4, 0, NULL);
  run(&s, 3);
  belongs(&s, s.w.items.x, (P * L - 1) * sizeof(float), "items");
  belongs(&s, s.w.contexts.x, 0, "contexts");
  belongs(&s, s.w.contexts.x, (N * L - 1) * sizeof(float), "contexts");
  belongs(&s, s.w.Y.ids, (fopo_csr_nnz(&s.w.Y) - 1) * sizeof(uint32_t), "sessions");
}

TEST(checkpoints_of_logs) {
  uint32_t actions[N];
  float rewards[N], propensities[N], users[2 * N], items[2 * P];
  for (uint32_t i = 0; i < N; i++) {
    actions[i] = 5 * i;
    rewards[i] = (float)(i % 2);
    propensities[i] = 0.25f;
  }
  for (int i = 0; i < 2 * N; i++) users[i] = 0.1f * (float)i;
  for (int i = 0; i < 2 * P; i++) items[i] = 0.01f * (float)i;
  fopo_logs logs = {
      .n = N, .n_actions = P, .actions = actions, .rewards = rewards, .propensities = propensities};
  fopo_low_rank model = {.users = users, .items = items, .rank = 2};
  DONE(fopo_reward_done) fopo_reward reward;
  ok(fopo_reward_init(&reward, &fopo_reward_doubly_robust,
                      &(fopo_reward_source){.logs = &logs, .model = &model}));
  DONE(tear_down) setting s;
  set_up(&s, 4, 0, &reward);
  run(&s, 3);
  belongs(&s, actions, (N - 1) * sizeof(uint32_t), "actions");
  belongs(&s, reward.owned, (N - 1) * sizeof(float), "weights");
  belongs(&s, reward.owned, (2 * N - 1) * sizeof(float), "rewards");
  belongs(&s, users, (2 * N - 1) * sizeof(float), "models");
  belongs(&s, items, (2 * P - 1) * sizeof(float), "models");
}

/* ---- splits ---- */

enum { USERS = 150, ITEMS = 40 };

/* Every user has all items, at one time. */
static void full_dataset(fopo_dataset *d) {
  *d = (fopo_dataset){0};
  ok(fopo_csr_init(&d->matrix, USERS, ITEMS, USERS * ITEMS, 0));
  d->times.first = fopo_alloc(USERS * ITEMS, sizeof(double));
  for (size_t e = 0; e < USERS * ITEMS; e++) d->matrix.ids[e] = (uint32_t)(e % ITEMS);
  for (size_t u = 0; u <= USERS; u++) d->matrix.indptr[u] = u * ITEMS;
}

static void dataset_done(fopo_dataset *d) {
  fopo_free(d->times.first);
  fopo_csr_done(&d->matrix);
}

/* No two of the users have the same items in X: of 1.4e11 sets, 150 are all different. */
static void assert_own_sets(const fopo_sessions *s) {
  assert_true(s->X.rows > USERS / 2);
  for (size_t i = 0; i < s->X.rows; i++) {
    size_t n = fopo_csr_count(&s->X, i);
    for (size_t j = 0; j < i; j++) {
      if (memcmp(fopo_csr_row(&s->X, i), fopo_csr_row(&s->X, j), n * sizeof(uint32_t)) == 0) {
        fail_msg("users %u and %u have one permutation", s->users[i] + 1, s->users[j] + 1);
      }
    }
  }
}

TEST(permutations_of_users) {
  DONE(dataset_done) fopo_dataset d;
  DONE(fopo_split_done) fopo_split split;
  full_dataset(&d);
  ok(fopo_split_by(&split, &d, &(fopo_split_options){2, 0, 0.1, 0.1, 3}, &(fopo_split_plan){0}));
  assert_own_sets(&split.train);
  fopo_split_done(&split);
  fopo_split_plan plan = {.kind = FOPO_SPLIT_USERS, .by_time = 1}; /* all times are equal */
  ok(fopo_split_by(&split, &d, &(fopo_split_options){2, 0, 0.1, 0.1, 3}, &plan));
  assert_own_sets(&split.train);
}

/* Which users are in a part depends on the seed, not on their places in the file. */
TEST(users_are_shuffled) {
  enum { SEEDS = 60 };
  int in_test[USERS] = {0};
  DONE(dataset_done) fopo_dataset d;
  full_dataset(&d);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    DONE(fopo_split_done) fopo_split split;
    size_t ascending = 0;
    ok(fopo_split_by(&split, &d, &(fopo_split_options){2, 0, 0.1, 0.2, seed},
                     &(fopo_split_plan){0}));
    for (size_t i = 0; i < split.test.X.rows; i++) in_test[split.test.users[i]]++;
    for (size_t i = 1; i < split.train.X.rows; i++) {
      ascending += split.train.users[i] > split.train.users[i - 1];
    }
    /* 104 neighbours, of which half ascend: five standard deviations of sqrt(105 / 12) */
    assert_true(fabs((double)ascending - 52.0) < 15.0);
  }
  /* 60 draws of probability 0.2: 12 -+ 3.1 */
  for (int u = 0; u < USERS; u++) assert_true(in_test[u] > 0 && in_test[u] < 28);
}

/* ---- stratified draws ---- */

/* round(epsilon S) draws are uniform, which 0.58 x 10 tells from rounding down, and their density
 * is that share over P. Of 5,000 items 3 are candidates. */
TEST(uniform_draws_are_rounded) {
  enum { MANY = 5000, K = 3, B = 40 };
  static const struct {
    double epsilon;
    size_t S, uniform;
  } cases[] = {{0.58, 10, 6}, {0.52, 10, 5},   {0.149, 20, 3}, {0.5, 7, 4},
               {0.999, 9, 9}, {0.592, 49, 29}, {0.02, 49, 1}}; /* 1 / 49 * 49 is less than 1 */
  DONE(small_world_done) small_world w;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  uint32_t ids[B * 49], best[B * K], counts[B];
  float logq[B * 49], scores[B * K];
  small_world_init(&w, MANY, B, L, 0.0, 0.5, 4);
  ok(fopo_index_norm(&ix, w.items, 0));
  DONE(fopo_matrix_done) fopo_matrix Q;
  ok(fopo_matrix_init(&Q, B, L));
  ok(fopo_policy_queries(Q, &w.pi, w.contexts));
  ok(fopo_index_search(best, scores, counts, ix, Q, K));
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    size_t S = cases[c].S, others = 0;
    fopo_proposal q = {.kind = FOPO_PROPOSAL_MIXTURE,
                       .index = ix,
                       .k = K,
                       .epsilon = cases[c].epsilon,
                       .stratified = 1};
    ok(fopo_proposal_sample(ids, logq, &q, &w.pi, Q, NULL, w.rows, S, (fopo_draw_key){1, 2}));
    double density = log((double)cases[c].uniform / (double)S / MANY);
    for (size_t i = 0; i < B * S; i++) {
      const uint32_t *set = best + i / S * K;
      if (ids[i] == set[0] || ids[i] == set[1] || ids[i] == set[2]) continue;
      others++;
      if (!(fabs((double)logq[i] - density) < 1e-5)) {
        fail_msg("epsilon = %g, S = %zu: the density is exp(%g), not exp(%g)", cases[c].epsilon, S,
                 (double)logq[i], density);
      }
    }
    /* a uniform draw is a candidate with probability 6e-4 */
    assert_true(others <= B * cases[c].uniform && others + 2 >= B * cases[c].uniform);
  }
}

/* ---- intervals ---- */

static void interval(double ends[2], const fopo_ope_terms *t, const fopo_logs *logs, size_t B,
                     double level) {
  fopo_ope_report r;
  fopo_ope_settings s = {.level = level, .bootstrap = B, .seed = 8};
  ok(fopo_ope_estimate_all(&r, t, logs, &s));
  memcpy(ends, r.by[FOPO_OPE_IPS].bootstrap, sizeof r.by[FOPO_OPE_IPS].bootstrap);
}

/* Of 5 replicates, the ends are order statistics: the least and the largest at a level near 1, the
 * second and the fourth at 0.5, the median at 0; and halfway between two at 0.25. */
TEST(quantiles_of_replicates) {
  enum { EVENTS = 64 };
  uint32_t actions[EVENTS] = {0};
  float rewards[EVENTS], propensities[EVENTS];
  double chance[EVENTS], all[2], half[2], none[2], quarter[2], one[2];
  for (int i = 0; i < EVENTS; i++) {
    chance[i] = 1.0;
    propensities[i] = 1.0f;
    rewards[i] = (float)(i * i);
  }
  fopo_logs logs = {.n = EVENTS,
                    .n_actions = 1,
                    .actions = actions,
                    .rewards = rewards,
                    .propensities = propensities};
  fopo_ope_terms t = {.n = EVENTS, .chance = chance};
  interval(all, &t, &logs, 5, 1.0 - 1e-12);
  interval(half, &t, &logs, 5, 0.5);
  interval(none, &t, &logs, 5, 1e-12);
  interval(quarter, &t, &logs, 5, 0.25);
  assert_true(all[0] < half[0] && half[0] < none[0]);
  assert_true(fabs(none[1] - none[0]) < 1e-6 * none[0]);
  assert_true(none[1] < half[1] && half[1] < all[1]);
  assert_true(fabs(quarter[0] - (half[0] + none[0]) / 2) < 1e-6 * none[0]);
  assert_true(fabs(quarter[1] - (half[1] + none[1]) / 2) < 1e-6 * none[0]);
  interval(one, &t, &logs, 1, 0.9);
  assert_true(one[0] == one[1] && one[0] >= all[0] - 1e-6 && one[0] <= all[1] + 1e-6);
  /* means of 64 of i^2 lie near the mean, 1,333 -+ 5 x 150 */
  assert_true(all[0] > 580 && all[1] < 2090);
}

/* ---- SWITCH ---- */

/* A weight 1 / p equal to the threshold is used; the next float above it is not. */
TEST(switch_at_its_threshold) {
  uint32_t actions[] = {0, 1};
  float rewards[] = {1, 1}, propensities[] = {0.125f, nextafterf(0.125f, 0.0f)};
  const float users[] = {0.5f, 0.5f}, items[] = {1, 1, 1};
  fopo_logs logs = {
      .n = 2, .n_actions = 3, .actions = actions, .rewards = rewards, .propensities = propensities};
  fopo_low_rank model = {.users = users, .items = items, .rank = 1};
  DONE(fopo_reward_done) fopo_reward r;
  ok(fopo_reward_init(&r, &fopo_reward_switch,
                      &(fopo_reward_source){.logs = &logs, .model = &model, .threshold = 8.0}));
  uint32_t rows[] = {0, 1};
  float value[2];
  ok(fopo_reward_fill(value, &r, actions, rows, 2, 1));
  assert_true(fabsf(value[0] - (0.5f + 8.0f * 0.5f)) < 1e-5f);
  assert_true(fabsf(value[1] - 0.5f) < 1e-6f);
}

/* ---- searches ---- */

/* The k best of a query by sums in double; no two scores are equal. */
static void assert_best(fopo_index *ix, fopo_matrix items, fopo_matrix Q, size_t k,
                        const char *what) {
  uint32_t *ids = calloc(Q.rows * k, sizeof *ids), *counts = calloc(Q.rows, sizeof *counts);
  float *scores = calloc(Q.rows * k, sizeof *scores);
  ok(fopo_index_search(ids, scores, counts, ix, Q, k));
  for (size_t b = 0; b < Q.rows; b++) {
    const float *q = fopo_matrix_row(Q, b);
    double kth = INFINITY;
    size_t better = 0;
    assert_int_equal(counts[b], k);
    for (size_t i = 0; i < k; i++) {
      const float *row = fopo_matrix_row(items, ids[b * k + i]);
      double s = 0;
      for (size_t l = 0; l < Q.cols; l++) s += (double)row[l] * (double)q[l];
      kth = fmin(kth, s);
    }
    for (size_t a = 0; a < items.rows; a++) {
      double s = 0;
      for (size_t l = 0; l < Q.cols; l++) {
        s += (double)fopo_matrix_row(items, a)[l] * (double)q[l];
      }
      better += s > kth * (1.0 + 1e-6);
    }
    if (better >= k) fail_msg("%s, k = %zu: %zu items are better than the k-th", what, k, better);
  }
  free(ids);
  free(counts);
  free(scores);
}

/* Items of norm 2 whose scores are 1 at most; then items of norm 1.009 down to 1.001, across the
 * queries, but for some among the last, which point their way: their scores are 0.1 % above those
 * of the k found first, and within 1 % of the bound wherever a round ends. */
static void deceive_by_little(void) {
  enum { FRONT = 3000, ALL = 6000, WIDE = 24 };
  static const size_t dims[] = {2, 8, 64}, ks[] = {1, 10, 100}, batches[] = {1, WIDE};
  for (size_t d = 0; d < 3; d++) {
    size_t dim = dims[d];
    DONE(fopo_matrix_done) fopo_matrix items, Q;
    ok(fopo_matrix_init(&items, ALL, dim));
    ok(fopo_matrix_init(&Q, WIDE, dim));
    for (size_t b = 0; b < WIDE; b++) fopo_matrix_row(Q, b)[0] = 1.0f + 0.125f * (float)b;
    for (size_t i = 0; i < ALL; i++) {
      float *row = fopo_matrix_row(items, i * 17 % ALL); /* ids are not in the order of norms */
      double share = (double)(i % FRONT) / FRONT, norm = i < FRONT ? 2.0 : 1.009 - 0.008 * share;
      double along = i < FRONT                     ? 1.0 - 0.01 * share
                     : i > ALL - 500 && i % 3 == 0 ? norm
                                                   : 0.1 * share;
      row[0] = (float)along;
      row[1 + i % (dim - 1)] = (float)sqrt(fmax(0.0, norm * norm - along * along));
    }
    FREED(fopo_index_free) fopo_index *ix = NULL;
    ok(fopo_index_norm(&ix, items, 0));
    for (size_t k = 0; k < 3; k++) {
      for (size_t n = 0; n < 2; n++) {
        assert_best(ix, items, fopo_matrix_rows(Q, 0, batches[n]), ks[k],
                    "within 1 % of the bound");
      }
    }
  }
}

/* The best item is the last before norms fall: it must be scored wherever the fall is, so the bound
 * must be the norm of the next item and of no later one. */
static void deceive_by_a_fall(void) {
  enum { ALL = 2200 };
  DONE(fopo_matrix_done) fopo_matrix items, Q;
  ok(fopo_matrix_init(&items, ALL, 2));
  ok(fopo_matrix_init(&Q, 1, 2));
  Q.x[0] = 1.0f;
  for (size_t n = 3; n < 3 * ALL / 64; n++) { /* before, at and after each multiple of 64 */
    size_t place = n / 3 * 64 + n % 3 - 1;
    for (size_t i = 0; i < ALL; i++) {
      float *row = fopo_matrix_row(items, i);
      row[0] = i == place ? 1.5f : i < place ? 1.0f : 0.25f;
      row[1] = i < place ? 1.25f : 0.0f;
    }
    FREED(fopo_index_free) fopo_index *ix = NULL;
    ok(fopo_index_norm(&ix, items, 0));
    uint32_t id, count;
    float score;
    ok(fopo_index_search(&id, &score, &count, ix, Q, 1));
    if (id != place) fail_msg("the best item, %zu by norm, is not found", place + 1);
  }
}

/* Calls `deceive` with every set of kernels that this CPU has: with a prefilter and without. */
static void with_all_kernels(void (*deceive)(void)) {
  const fopo_kernels *before = fopo_kernels_get();
  for (size_t i = 0; fopo_kernels_name(i) != NULL; i++) {
    const fopo_kernels *table = fopo_kernels_named(fopo_kernels_name(i));
    if (table == NULL) continue;
    fopo_kernels_use(table);
    deceive();
  }
  fopo_kernels_use(before);
}

TEST(bounds_are_not_too_small) { with_all_kernels(deceive_by_little); }

TEST(bounds_are_of_the_next) { with_all_kernels(deceive_by_a_fall); }

/* A saved index belongs to all of its items, the first and the last too. */
TEST(indexes_belong) {
  DONE(fopo_matrix_done) fopo_matrix items;
  fopo_index *ix, *again;
  ok(fopo_matrix_init(&items, 300, 4));
  fopo_fill_normal(items.x, 1200, 1.0, 3, FOPO_STREAM_INIT);
  ok(fopo_index_exact(&ix, items));
  ok(fopo_index_save(ix, file_name()));
  for (size_t place = 0; place < 1200; place += 109) { /* 0 .. 1199 */
    float before = items.x[place];
    items.x[place] += 0.5f;
    refused(fopo_index_load(&again, file_name(), items), FOPO_ERR_FORMAT, "other items");
    items.x[place] = before;
  }
  unlink(file_name());
  fopo_index_free(ix);
}

/* ---- small things ---- */

/* A target on a boundary belongs to the place behind it, so that a place of weight 0 is never
 * drawn. */
TEST(boundaries_of_inversion) {
  const double cumulative[] = {0, 1, 1, 2, 4};
  assert_int_equal(fopo_invert(cumulative, 5, 0.0), 1);
  assert_int_equal(fopo_invert(cumulative, 5, 0.5), 1);
  assert_int_equal(fopo_invert(cumulative, 5, 1.0), 3);
  assert_int_equal(fopo_invert(cumulative, 5, 2.0), 4);
  assert_int_equal(fopo_invert(cumulative, 5, 3.99), 4);
}

/* The clock counts parts of a second. */
TEST(clock_has_parts) {
  double start = fopo_clock();
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  assert_true(fopo_clock() - start >= 0.02 - 1e-6);
  assert_true(fopo_clock() != floor(fopo_clock()));
}

int main(void) { return run_all(NULL, NULL); }
