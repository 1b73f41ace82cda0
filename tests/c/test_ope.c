/* Off-policy evaluation: catalogues of several tiles against sums in double, memory, threads,
 * refusals. Its estimates and intervals: tests/judged.py. */
#include "core/progress.h"
#include "judge/ope.h"
#include "small_world.h"

FREED_BY(fopo_ope_free, fopo_ope)

/* A log over the contexts of a small world, its model r_M(a, x_i) = cos(a + i). */
typedef struct {
  small_world w;
  fopo_logs logs;
} logged_world;

#define near(a, b, tolerance) assert_true(fabs((double)(a) - (double)(b)) <= (tolerance))

static const fopo_reward outside = {.kind = &fopo_reward_custom};

static double model(size_t a, size_t i) { return cos((double)a + (double)i); }

static void logged_init(logged_world *g, size_t P, size_t n, size_t L, double peak) {
  *g = (logged_world){0};
  small_world_init(&g->w, P, n, L, 0.0, peak, 11);
  g->logs = (fopo_logs){.n = n, .n_actions = P, .contexts = g->w.contexts, .contexts_borrowed = 1};
  g->logs.actions = fopo_alloc(n, sizeof *g->logs.actions);
  g->logs.rewards = fopo_alloc(n, sizeof *g->logs.rewards);
  g->logs.propensities = fopo_alloc(n, sizeof *g->logs.propensities);
  for (uint32_t i = 0; i < n; i++) {
    fopo_words words = fopo_random(5, FOPO_STREAM_WORLD, 1, i, 0);
    g->logs.actions[i] = words.v[0] % (uint32_t)P;
    g->logs.rewards[i] = words.v[1] % 3 == 0;
    g->logs.propensities[i] = (float)(1.0 / (double)P);
  }
}

static void logged_done(logged_world *g) {
  fopo_free(g->logs.actions);
  fopo_free(g->logs.rewards);
  fopo_free(g->logs.propensities);
  small_world_done(&g->w);
}

static int run(fopo_ope *o) {
  fopo_drawn d;
  int status;
  while ((status = fopo_ope_run(o, &d)) == FOPO_DRAWN) {
    for (size_t k = 0; k < d.B * d.S; k++) {
      d.reward[k] = (float)model(d.ids[k], d.rows[k / d.S]);
    }
  }
  return status;
}

/* pi(. | x_i) in double, with the sparse scores s; zeros if all items are masked. */
static void softmax_with(double *p, const small_world *w, size_t i, const fopo_sparse_scores *s) {
  fopo_score_row row = fopo_score_row_of(s, i);
  double largest = -INFINITY, sum = 0.0;
  FREED(free) double *Q = calloc(w->L, sizeof *Q);
  const float *x = fopo_matrix_row(w->contexts, i);
  for (size_t j = 0; j < w->L; j++) {
    for (size_t k = 0; k < w->L; k++) {
      Q[j] += (double)x[k] * (double)fopo_matrix_row(w->pi.theta, k)[j] / (double)w->pi.temperature;
    }
  }
  for (size_t a = 0; a < w->P; a++) {
    p[a] = 0.0;
    for (size_t j = 0; j < w->L; j++) p[a] += Q[j] * (double)fopo_matrix_row(w->items, a)[j];
    p[a] += (double)fopo_score_of(&row, (uint32_t)a);
    largest = fmax(largest, p[a]);
  }
  if (isinf(largest)) largest = 0.0;
  for (size_t a = 0; a < w->P; a++) sum += p[a] = exp(p[a] - largest);
  for (size_t a = 0; a < w->P && sum > 0.0; a++) p[a] /= sum;
}

static void softmax(double *p, const small_world *w, size_t i) { softmax_with(p, w, i, NULL); }

/* ---- the pass ---- */

TEST(test_normal_point) {
  near(fopo_ope_normal_point(0.95), 1.959963984540054, 1e-12);
  near(fopo_ope_normal_point(0.5), 0.674489750196082, 1e-12);
  near(fopo_ope_normal_point(0.999), 3.290526731491926, 1e-11);
}

/* Two blocks of contexts, three tiles of items, scores far apart. */
TEST(test_exact) {
  DONE(logged_done) logged_world g;
  logged_init(&g, 9000, 300, 5, 1.5);
  FREED(fopo_ope_free) fopo_ope *o = NULL;
  ok(fopo_ope_new(&o, &(fopo_ope_options){.pi = &g.w.pi, .logs = &g.logs, .model = &outside}));
  ok(run(o));
  fopo_ope_terms t = fopo_ope_result(o);
  FREED(free) double *p = calloc(g.w.P, sizeof *p);
  for (size_t i = 0; i < g.w.N; i += 7) {
    softmax(p, &g.w, i);
    double expected = 0.0, chance = p[g.logs.actions[i]];
    for (size_t a = 0; a < g.w.P; a++) expected += p[a] * model(a, i);
    near(t.chance[i], chance, 1e-4 * chance);
    near(t.expected[i], expected, 2e-5);
    near(t.logged[i], model(g.logs.actions[i], i), 1e-6);
  }
}

/* A model of low rank: the same by the pass itself and handed out draw by draw. */
TEST(test_low_rank) {
  enum { RANK = 3, PEAK = 4 };
  DONE(logged_done) logged_world g;
  logged_init(&g, 6000, 270, 4, 0.7);
  FREED(fopo_free) float *users = fopo_alloc(270 * RANK, sizeof *users);
  FREED(fopo_free) float *items = fopo_alloc(6000 * RANK, sizeof *items);
  fopo_fill_normal(users, 270 * RANK, PEAK, 3, FOPO_STREAM_WORLD);
  fopo_fill_normal(items, 6000 * RANK, PEAK, 4, FOPO_STREAM_WORLD);
  FREED(fopo_index_free) fopo_index *ix = NULL;
  ok(fopo_index_norm(&ix, g.w.items, 0));
  for (int kind = 0; kind < 6; kind++) {
    fopo_low_rank m = {.users = users, .items = items, .rank = RANK, .logistic = kind % 2};
    fopo_ope_options options = {.pi = &g.w.pi,
                                .logs = &g.logs,
                                .samples = kind / 2 == 1 ? 100 : 0,
                                .index = kind / 2 == 2 ? ix : NULL};
    DONE(fopo_reward_done) fopo_reward direct;
    FREED(fopo_ope_free) fopo_ope *inside = NULL, *n_with_candidates = NULL;
    fopo_drawn d;
    int status;
    ok(fopo_reward_init(&direct, &fopo_reward_direct,
                        &(fopo_reward_source){.logs = &g.logs, .model = &m}));
    options.model = &direct;
    ok(fopo_ope_new(&inside, &options));
    ok(fopo_ope_run(inside, &d));
    options.model = &outside;
    ok(fopo_ope_new(&n_with_candidates, &options));
    while ((status = fopo_ope_run(n_with_candidates, &d)) == FOPO_DRAWN) {
      ok(fopo_reward_fill(d.reward, &direct, d.ids, d.rows, d.B, d.S));
    }
    ok(status);
    fopo_ope_terms a = fopo_ope_result(inside), b = fopo_ope_result(n_with_candidates);
    for (size_t i = 0; i < a.n; i++) {
      near(a.expected[i], b.expected[i], 1e-5 * (1.0 + fabs(b.expected[i])));
      near(a.logged[i], b.logged[i], 1e-12);
    }
  }
  DONE(fopo_reward_done) fopo_reward ips;
  ok(fopo_reward_init(&ips, &fopo_reward_ips, &(fopo_reward_source){.logs = &g.logs, .clip = 0.0}));
  fopo_ope *o;
  fopo_ope_options options = {.pi = &g.w.pi, .logs = &g.logs, .model = &ips};
  refused(fopo_ope_new(&o, &options), FOPO_ERR_ARGUMENT, "no model of other actions");
}

/* Sampled normalisers scatter around the exact ones as their standard errors say. */
TEST(test_sampled) {
  DONE(logged_done) logged_world g;
  logged_init(&g, 500, 400, 4, 0.5);
  FREED(fopo_index_free) fopo_index *ix = NULL;
  ok(fopo_index_norm(&ix, g.w.items, 0));
  const fopo_proposal proposals[] = {
      {.kind = FOPO_PROPOSAL_UNIFORM, .epsilon = 1.0},
      {.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 50, .epsilon = 0.3}};
  fopo_ope *exact, *o;
  ok(fopo_ope_new(&exact, &(fopo_ope_options){.pi = &g.w.pi, .logs = &g.logs, .model = &outside}));
  ok(run(exact));
  fopo_ope_terms truth = fopo_ope_result(exact);
  for (int q = 0; q < 2; q++) {
    ok(fopo_ope_new(&o, &(fopo_ope_options){.pi = &g.w.pi,
                                            .logs = &g.logs,
                                            .model = &outside,
                                            .samples = 2000,
                                            .proposal = proposals[q],
                                            .seed = 3}));
    ok(run(o));
    fopo_ope_terms t = fopo_ope_result(o);
    double squares = 0.0, off = 0.0;
    for (size_t i = 0; i < t.n; i++) {
      double z = (truth.chance[i] / t.chance[i] - 1.0) / t.z_error[i]; /* (Zhat - Z) / se */
      squares += z * z / (double)t.n;
      off += (t.expected[i] - truth.expected[i]) / (double)t.n;
      assert_true(t.chance[i] > 0.0 && t.chance[i] <= 1.0);
    }
    assert_true(squares > 0.7 && squares < 1.5);
    assert_true(fabs(off) < 0.01);
    fopo_ope_free(o);
  }
  fopo_ope_free(exact);
}

/* ---- sparse scores ---- */

/* Rows by turns: empty, the logged action and a few others, a third of the items, all but the
 * first, all. */
static void make_sparse(fopo_csr *X, const logged_world *g) {
  size_t P = g->w.P, n = 0;
  ok(fopo_csr_init(X, g->w.N, P, g->w.N * P, 1));
  for (size_t i = 0; i < g->w.N; i++) {
    for (size_t a = 0; a < P; a++) {
      int is_entry[] = {0, a % 1000 == 7 || a == g->logs.actions[i], a % 3 == 1, a > 0, 1};
      if (is_entry[i % 5]) X->ids[n++] = (uint32_t)a;
    }
    X->indptr[i + 1] = n;
  }
  fopo_fill_normal(X->values, n, 2.0, 8, FOPO_STREAM_WORLD);
}

/* The terms of all contexts against sums in double; sampled: with their errors. */
static void check_sparse(const logged_world *g, const fopo_policy *pi, const fopo_sparse_scores *s,
                         size_t samples) {
  FREED(fopo_ope_free) fopo_ope *o = NULL;
  ok(fopo_ope_new(&o,
                  &(fopo_ope_options){.pi = pi,
                                      .logs = &g->logs,
                                      .sparse = s,
                                      .model = &outside,
                                      .samples = samples,
                                      .proposal = {.kind = FOPO_PROPOSAL_UNIFORM, .epsilon = 1.0},
                                      .seed = 3}));
  ok(run(o));
  fopo_ope_terms t = fopo_ope_result(o);
  FREED(free) double *p = calloc(g->w.P, sizeof *p);
  double squares = 0.0, off = 0.0;
  size_t unanswered = 0, counted = 0;
  for (size_t i = 0; i < g->w.N; i++) {
    double expected = 0.0, chance;
    softmax_with(p, &g->w, i, s);
    chance = p[g->logs.actions[i]];
    for (size_t a = 0; a < g->w.P; a++) expected += p[a] * model(a, i);
    unanswered += s->values == NULL && i % 5 == 4;
    if (samples == 0) {
      near(t.chance[i], chance, 1e-4 * chance);
      near(t.expected[i], expected, 3e-5);
    } else if (chance == 0.0 || i % 5 == 3) {
      assert_true(t.chance[i] == 0.0 || chance > 0.0);
    } else {
      double z = (chance / t.chance[i] - 1.0) / t.z_error[i];
      squares += z * z;
      off += t.expected[i] - expected;
      counted++;
    }
    assert_true(isfinite(t.chance[i]) && isfinite(t.expected[i]));
  }
  assert_true(samples > 0 || t.unanswered == unanswered);
  if (samples > 0) {
    assert_true(squares > 0.5 * (double)counted && squares < 2.0 * (double)counted);
    assert_true(fabs(off / (double)counted) < 0.03);
  }
}

TEST(test_sparse) {
  DONE(logged_done) logged_world g;
  DONE(fopo_csr_done) fopo_csr X = {0};
  DONE(fopo_shard_done) fopo_shard shard = {0};
  logged_init(&g, 4500, 270, 4, 0.5); /* two blocks of contexts, two tiles of items */
  make_sparse(&X, &g);
  ok(fopo_shard_deal(&shard, g.w.items));
  fopo_policy dealt = g.w.pi;
  dealt.shard = &shard;
  dealt.items = shard.items;
  fopo_sparse_scores mask = fopo_mask_of(&X), values = mask;
  values.values = X.values;
  for (int i = 0; i < 2; i++) {
    const fopo_policy *pi = i == 0 ? &g.w.pi : &dealt;
    check_sparse(&g, pi, &mask, 0);
    check_sparse(&g, pi, &values, 0);
    check_sparse(&g, pi, &mask, 2000);
  }
  check_sparse(&g, &g.w.pi, &values, 2000);
}

TEST(test_argmax_masked) {
  DONE(logged_done) logged_world g;
  DONE(fopo_csr_done) fopo_csr X = {0};
  FREED(fopo_index_free) fopo_index *ix = NULL;
  logged_init(&g, 40, 300, 4, 1.0);
  make_sparse(&X, &g);
  ok(fopo_index_norm(&ix, g.w.items, 0));
  fopo_sparse_scores mask = fopo_mask_of(&X);
  fopo_ope_options options = {
      .pi = &g.w.pi, .logs = &g.logs, .index = ix, .model = &outside, .sparse = &mask};
  FREED(fopo_ope_free) fopo_ope *o = NULL;
  ok(fopo_ope_new(&o, &options));
  ok(run(o));
  fopo_ope_terms t = fopo_ope_result(o);
  double p[40];
  for (size_t i = 0; i < t.n; i++) {
    size_t best = 0;
    softmax_with(p, &g.w, i, &mask);
    for (size_t a = 1; a < 40; a++) best = p[a] > p[best] ? a : best;
    int shown = p[best] > 0.0;
    near(t.chance[i], shown && g.logs.actions[i] == best, 0.0);
    near(t.expected[i], shown ? model(best, i) : 0.0, 1e-6);
  }
  assert_int_equal(t.unanswered, 60);
  mask.values = X.values;
  fopo_ope *none;
  refused(fopo_ope_new(&none, &options), FOPO_ERR_UNAVAILABLE,
          "an argmax policy knows masks alone");
}

/* 200,000 actions: an n x P matrix would take 240 MB. */
TEST(test_memory) {
  DONE(logged_done) logged_world g;
  logged_init(&g, 200000, 300, 4, 0.3);
  size_t before = fopo_memory_in_use().bytes;
  FREED(fopo_ope_free) fopo_ope *o = NULL;
  ok(fopo_ope_new(&o, &(fopo_ope_options){.pi = &g.w.pi, .logs = &g.logs, .model = &outside}));
  size_t held = fopo_memory_in_use().bytes - before;
  fopo_drawn d;
  int status;
  size_t handed = 0;
  while ((status = fopo_ope_run(o, &d)) == FOPO_DRAWN) {
    for (size_t k = 0; k < d.B * d.S; k++) d.reward[k] = 0.25f;
    handed += d.B * d.S;
  }
  ok(status);
  assert_int_equal(handed, 300 * 200001);
  assert_true(held < (size_t)16 << 20);
  assert_true(fopo_memory_in_use().bytes - before == held);
  fopo_ope_terms t = fopo_ope_result(o);
  for (size_t i = 0; i < t.n; i++) near(t.expected[i], 0.25, 1e-6);
}

/* ---- intervals ---- */

/* No overlap at all: a log whose actions the policy never takes. */
TEST(test_no_overlap) {
  float r[] = {1, 1, 0}, p[] = {0.5f, 0.5f, 0.5f};
  const double chance[] = {0, 0, 0};
  fopo_logs logs = {.n = 3, .n_actions = 2, .rewards = r, .propensities = p};
  fopo_ope_terms t = {.n = 3, .chance = chance};
  fopo_ope_report a;
  fopo_ope_settings s = {.level = 0.95, .bootstrap = 50, .reward_low = 0, .reward_high = 1};
  ok(fopo_ope_estimate_all(&a, &t, &logs, &s));
  near(a.by[FOPO_OPE_IPS].value, 0.0, 0.0);
  assert_true(isnan(a.by[FOPO_OPE_SNIPS].value) && isnan(a.by[FOPO_OPE_SNIPS].bootstrap[0]));
  assert_int_equal(a.degenerate, 50);
  assert_int_equal(a.overlap, 0);
  near(a.ess, 0.0, 0.0);
  assert_true(a.by[FOPO_OPE_IPS].bernstein[1] > 1.0);
  assert_false(a.has[FOPO_OPE_DM]);
}

/* Bernstein's intervals of ips, and of dr by a model whose rewards all lie beyond the log's. */
TEST(test_model_far_off) {
  float r[] = {0, 1, 0, 1}, p[] = {0.5f, 0.5f, 0.5f, 0.5f};
  const double chance[] = {0.5, 0.5, 0.5, 0.5};
  fopo_logs logs = {.n = 4, .n_actions = 2, .rewards = r, .propensities = p};
  fopo_ope_settings s = {.level = 0.95, .reward_low = 0, .reward_high = 3};
  for (double m = -5; m < 6; m += 10) {
    const double model[] = {m, m, m, m};
    fopo_ope_terms t = {.n = 4, .chance = chance, .expected = model, .logged = model};
    fopo_ope_report a;
    ok(fopo_ope_estimate_all(&a, &t, &logs, &s));
    /* a term is m + w (r - m), w 0 to 2: -5 to 11 or -5 to 5; of ips 0 to 6 */
    double l = log(4 / 0.05), half = sqrt(2.0 / 3 * l / 4) + 7 * (m < 0 ? 16.0 : 10.0) * l / 9;
    near(a.by[FOPO_OPE_IPS].bernstein[1], 0.5 + sqrt(2.0 / 3 * l / 4) + 7 * 6 * l / 9, 1e-9);
    near(a.by[FOPO_OPE_DR].value, 0.5, 1e-12);
    near(a.by[FOPO_OPE_DR].bernstein[0], 0.5 - half, 1e-9);
    near(a.by[FOPO_OPE_DR].bernstein[1], 0.5 + half, 1e-9);
  }
}

/* ---- threads, refusals, memory that fails ---- */

TEST(test_threads) {
  DONE(logged_done) logged_world g;
  logged_init(&g, 5000, 280, 6, 1.0);
  int kept = fopo_threads();
  fopo_ope *o[2];
  fopo_ope_terms t[2];
  fopo_ope_report r[2];
  fopo_ope_settings s = {.parameter[FOPO_OPE_CLIPPED_DR] = 0.05,
                         .choice[FOPO_OPE_DROS] = FOPO_OPE_SLOPE,
                         .level = 0.9,
                         .bootstrap = 500,
                         .seed = 8};
  for (int i = 0; i < 2; i++) {
    ok(fopo_threads_set(1 + 2 * i));
    ok(fopo_ope_new(&o[i], &(fopo_ope_options){.pi = &g.w.pi, .logs = &g.logs, .model = &outside}));
    ok(run(o[i]));
    t[i] = fopo_ope_result(o[i]);
    ok(fopo_ope_estimate_all(&r[i], &t[i], &g.logs, &s));
  }
  ok(fopo_threads_set(kept));
  assert_memory_equal(t[0].chance, t[1].chance, t[0].n * sizeof *t[0].chance);
  assert_memory_equal(t[0].expected, t[1].expected, t[0].n * sizeof *t[0].expected);
  for (int k = 0; k < FOPO_OPE_KINDS; k++) {
    assert_memory_equal(r[0].by[k].bootstrap, r[1].by[k].bootstrap, sizeof r[0].by[k].bootstrap);
  }
  fopo_ope_free(o[0]);
  fopo_ope_free(o[1]);
}

TEST(test_refused) {
  DONE(logged_done) logged_world g;
  logged_init(&g, 20, 6, 3, 0.5);
  fopo_ope_options options = {.pi = &g.w.pi, .logs = &g.logs};
  fopo_ope *o;
  float p = g.logs.propensities[4], r = g.logs.rewards[4];
  const float wrong[] = {0.0f, 1.5f, NAN, -0.1f};
  for (int i = 0; i < 4; i++) {
    g.logs.propensities[4] = wrong[i];
    refused(fopo_ope_new(&o, &options), FOPO_ERR_NUMERIC, "the propensity of event 5");
    assert_null(o);
  }
  g.logs.propensities[4] = p;
  g.logs.rewards[4] = INFINITY;
  refused(fopo_ope_new(&o, &options), FOPO_ERR_NUMERIC, "the reward of event 5");
  g.logs.rewards[4] = r;
  g.logs.n_actions = 19;
  refused(fopo_ope_new(&o, &options), FOPO_ERR_ARGUMENT, "19 actions");
  g.logs.n_actions = 20;
  g.logs.contexts.cols = 2;
  refused(fopo_ope_new(&o, &options), FOPO_ERR_ARGUMENT, "contexts are 6 x 2");
  g.logs.contexts.cols = 3;
  options.samples = 1;
  refused(fopo_ope_new(&o, &options), FOPO_ERR_ARGUMENT, "samples is 1");
  options.samples = 0;

  options.model = &outside; /* and nobody fills the rewards */
  fopo_drawn d;
  ok(fopo_ope_new(&o, &options));
  assert_int_equal(fopo_ope_run(o, &d), FOPO_DRAWN);
  refused(fopo_ope_run(o, &d), FOPO_ERR_NUMERIC, "in event 1 is nan");
  fopo_ope_free(o);

  const double chance[] = {1, 1, 1, 1, 1, 1};
  fopo_ope_terms t = {.n = 6, .chance = chance};
  fopo_ope_report report;
  fopo_ope_settings s = {.level = 0.95};
  ok(fopo_ope_estimate_all(&report, &t, &g.logs, &s));
  t.n = 1;
  refused(fopo_ope_estimate_all(&report, &t, &g.logs, &s), FOPO_ERR_ARGUMENT, "1 events");
  t.n = 6;
  s.level = 1.0;
  refused(fopo_ope_estimate_all(&report, &t, &g.logs, &s), FOPO_ERR_ARGUMENT, "level is 1");
  s.level = 0.95;
  s.parameter[FOPO_OPE_CLIPPED_DR] = 1.5;
  refused(fopo_ope_estimate_all(&report, &t, &g.logs, &s), FOPO_ERR_ARGUMENT, "clip is 1.5");
  s.parameter[FOPO_OPE_CLIPPED_DR] = 0.0;
  s.choice[FOPO_OPE_DR] = FOPO_OPE_BOUND;
  refused(fopo_ope_estimate_all(&report, &t, &g.logs, &s), FOPO_ERR_ARGUMENT, "dr has no lower");
  s.choice[FOPO_OPE_DR] = FOPO_OPE_GIVEN;
  s.parameter[FOPO_OPE_LS] = -1.0;
  refused(fopo_ope_estimate_all(&report, &t, &g.logs, &s), FOPO_ERR_ARGUMENT, "lambda of ls is -1");
  s.parameter[FOPO_OPE_LS] = 0.0;
  s.least_propensity = 0.2;
  refused(fopo_ope_estimate_all(&report, &t, &g.logs, &s), FOPO_ERR_ARGUMENT, "less than the 0.2");
  s.least_propensity = 0.05001; /* the log's least is 0.05 in float: 0.0500000007 */
  refused(fopo_ope_estimate_all(&report, &t, &g.logs, &s), FOPO_ERR_ARGUMENT, "less than the 0.05");
  s.least_propensity = 0.05;
  s.reward_low = 0.5;
  s.reward_high = 1;
  refused(fopo_ope_estimate_all(&report, &t, &g.logs, &s), FOPO_ERR_ARGUMENT, "beyond the given");
}

static int whole(const logged_world *g) {
  fopo_ope *o = NULL;
  fopo_ope_report report;
  fopo_ope_settings s = {.level = 0.95, .bootstrap = 20};
  fopo_ope_options options = {.pi = &g->w.pi, .logs = &g->logs, .model = &outside};
  int status = fopo_ope_new(&o, &options);
  if (status == FOPO_OK) status = run(o);
  if (status == FOPO_OK) {
    fopo_ope_terms t = fopo_ope_result(o);
    status = fopo_ope_estimate_all(&report, &t, &g->logs, &s);
  }
  fopo_ope_free(o);
  return status;
}

TEST(test_out_of_memory) {
  DONE(logged_done) logged_world g;
  logged_init(&g, 20, 6, 3, 0.5);
  size_t blocks = fopo_memory_in_use().blocks;
  int status = FOPO_ERR_MEMORY;
  for (long n = 0; status != FOPO_OK && n < 100; n++) {
    fopo_memory_fail_after(n, 0);
    status = whole(&g);
    fopo_memory_fail_after(-1, 0);
    assert_true(status == FOPO_OK || status == FOPO_ERR_MEMORY);
    assert_int_equal(fopo_memory_in_use().blocks, blocks);
  }
  ok(status);
}

TEST(test_interrupted) {
  DONE(logged_done) logged_world g;
  logged_init(&g, 20, 6, 3, 0.5);
  fopo_interrupt_request();
  assert_int_equal(whole(&g), FOPO_ERR_INTERRUPTED);
  fopo_interrupt_clear();
  ok(whole(&g));
}

int main(void) {
  fopo_threads_set(2);
  return run_all(NULL, NULL);
}
