/* What is remembered from visit to visit: candidates that are kept, and an epsilon that adapts.
 * When the index is asked and when not, and that a run is the same bits in slices, resumed from a
 * file, interrupted, and by any number of threads. */
#include <unistd.h>

#include "core/progress.h"
#include "small_trainer.h"
#include "train/state.h"

enum { P = 150, N = 23, L = 5, BATCH = 4, K = 12, PER_EPOCH = 6 };

static fopo_gradient_options kept(const fopo_estimator *kind, size_t refresh) {
  return (fopo_gradient_options){.estimator = kind,
                                 .samples = 30,
                                 .proposal = {.kind = FOPO_PROPOSAL_MIXTURE,
                                              .k = K,
                                              .refresh = refresh,
                                              .epsilon = kind == &fopo_estimator_snis ? 0.5 : 0.0}};
}

static fopo_gradient_options adaptive(double floor, double smoothing) {
  return (fopo_gradient_options){.estimator = &fopo_estimator_snis,
                                 .samples = 200,
                                 .proposal = {.kind = FOPO_PROPOSAL_MIXTURE,
                                              .k = K,
                                              .adaptive = 1,
                                              .epsilon = 1.0,
                                              .floor = floor,
                                              .smoothing = smoothing}};
}

/* peak: how far the policy is from uniform at the start. */
static void set_up(setting *s, fopo_gradient_options o, double peak, double lr, int custom) {
  memset(s, 0, sizeof *s);
  small_world_init(&s->w, P, N, L, 0.1, peak, 3);
  ok(fopo_index_exact(&s->ix, s->w.items));
  fopo_optim_options adam = adam_of(lr);
  make_trainer(s, o, &adam, BATCH, custom);
}

static size_t queries(const setting *s) { return fopo_index_about(s->ix).queries; }
static double epsilon(const setting *s) { return fopo_gradient_get(s->g)->proposal.epsilon; }
static float *theta(const setting *s) { return s->w.pi.theta.x; }
static const size_t bytes = L * L * sizeof(float);

static char path[64];

/* ---- the memory itself ---- */

TEST_WITH(test_due, no_leak) {
  FREED(fopo_device_close) fopo_device *d = NULL;
  DONE(fopo_candidate_cache_done) fopo_candidate_cache v = {0};
  fopo_proposal q = {.kind = FOPO_PROPOSAL_MIXTURE, .k = 3, .refresh = 3, .epsilon = 0.5};
  uint32_t ids[6] = {7, 8, 9, 4, 5, 6}, counts[2] = {2, 3}, got[6], count[2], rows[] = {1, 1, 4};
  ok(fopo_device_open(&d, "cpu"));
  ok(fopo_candidate_cache_reserve(&v, d, 5, 3));
  assert_int_equal(fopo_candidate_cache_bytes(5, 3), 100);
  assert_true(fopo_candidate_cache_expired(&v, 1, 3));
  ok(fopo_candidate_cache_store(&v, &(fopo_candidate_sets){3, ids, NULL, counts}, rows + 1, 2));
  assert_true(fopo_candidate_cache_expired(&v, 1, 3)); /* not yet counted */
  fopo_candidate_cache_commit(&v, &q, rows, 3, 0.0, 0, 3);
  assert_false(fopo_candidate_cache_expired(&v, 1, 3));
  assert_true(fopo_candidate_cache_expired(&v, 1, 2)); /* twice in one batch: two visits */
  fopo_candidate_cache_commit(&v, &q, rows, 1, 0.0, 0, 1);
  assert_true(fopo_candidate_cache_expired(&v, 1, 3));
  assert_false(fopo_candidate_cache_expired(&v, 1, FOPO_REFRESH_ONCE));
  assert_false(fopo_candidate_cache_expired(&v, 4, 3));
  assert_true(fopo_candidate_cache_expired(&v, 0, FOPO_REFRESH_ONCE));
  ok(fopo_candidate_cache_load(&(fopo_candidate_sets){3, got, NULL, count}, &v, rows + 1, 2));
  assert_memory_equal(got, ids, sizeof ids);
  assert_memory_equal(count, counts, sizeof count);
  ok(fopo_candidate_cache_fetch(&v));
  assert_memory_equal(v.ids + 3, ids, 3 * sizeof *ids);
  ok(fopo_candidate_cache_reserve(&v, d, 5, 3));
  assert_false(fopo_candidate_cache_expired(&v, 4, 3));
  ok(fopo_candidate_cache_reserve(&v, d, 5, 2)); /* other sets: none is known */
  assert_true(fopo_candidate_cache_expired(&v, 4, 3));
  refused(fopo_candidate_cache_reserve(&v, d, (size_t)1 << 40, 256), FOPO_ERR_MEMORY,
          "keeping 256 candidates of each of 1099511627776 contexts");
}

TEST_WITH(test_epsilon, no_leak) {
  fopo_candidate_cache v = {0};
  fopo_proposal q = {.kind = FOPO_PROPOSAL_MIXTURE,
                     .k = 3,
                     .adaptive = 1,
                     .epsilon = 1.0,
                     .floor = 0.1,
                     .smoothing = 0.5};
  uint32_t rows[BATCH] = {0};
  assert_true(fopo_candidate_cache_epsilon(&v, &q) >= 1.0);
  assert_int_equal(fopo_candidate_cache_n_with_candidates(&v, &q, 32),
                   8); /* the first batch is a probe */
  assert_true(fabs(fopo_candidate_cache_draw_epsilon(&v, &q) - 0.5) < 1e-12);
  assert_int_equal(fopo_candidate_cache_n_with_candidates(&v, &q, 5), 5);
  fopo_candidate_cache_commit(&v, &q, rows, BATCH, 0.02, 0, 8);
  assert_true(fopo_candidate_cache_epsilon(&v, &q) >= 1.0);
  for (int i = 1; i < 50; i++) {
    assert_int_equal(fopo_candidate_cache_n_with_candidates(&v, &q, 32), 0);
    fopo_candidate_cache_commit(&v, &q, rows, BATCH, 0.0, 0, 0);
  }
  assert_int_equal(fopo_candidate_cache_n_with_candidates(&v, &q, 32), 8);
  fopo_candidate_cache_commit(&v, &q, rows, BATCH, 0.1, 0, 8);
  assert_true(fabs(v.mass - 0.06) < 1e-12); /* 0.5 of 0.02 and of 0.1 */
  for (int i = 51; i < 500; i++) { /* often a probe at first; what is none measures nothing */
    int probe = i <= 200 && i % 50 == 0;
    assert_int_equal(fopo_candidate_cache_n_with_candidates(&v, &q, 32), 32);
    assert_true(fabs(fopo_candidate_cache_epsilon(&v, &q) - 0.1) < 1e-12);
    assert_true(fabs(fopo_candidate_cache_draw_epsilon(&v, &q) - (probe ? 0.5 : 0.1)) < 1e-12);
    fopo_candidate_cache_commit(&v, &q, rows, BATCH, probe ? 0.06 : 0.9, 0, 32);
  }
  assert_true(fabs(v.mass - 0.06) < 1e-12);
  assert_int_equal(fopo_candidate_cache_n_with_candidates(&v, &q, 32), 32);
  assert_true(fabs(fopo_candidate_cache_draw_epsilon(&v, &q) - 0.5) < 1e-12);
  q.floor = 0.7;
  assert_true(fabs(fopo_candidate_cache_draw_epsilon(&v, &q) - 0.7) < 1e-12);
  q.floor = 1.0;
  assert_int_equal(fopo_candidate_cache_n_with_candidates(&v, &q, 32), 8);
  q.floor = 0.1;
  fopo_candidate_cache other = v;
  fopo_candidate_cache_commit(&other, &q, rows, BATCH, 0.9, 1, 32); /* lost */
  for (int probe = 1; probe <= 10; probe++) {
    for (int i = 1; i < 50; i++) {
      assert_int_equal(fopo_candidate_cache_n_with_candidates(&other, &q, 32), 32);
      assert_true(fabs(fopo_candidate_cache_epsilon(&other, &q) - 0.5) < 1e-12);
      assert_false(fopo_candidate_cache_must_sync(&other, &q, rows, BATCH));
      fopo_candidate_cache_commit(&other, &q, rows, BATCH, 0.1, 1, 32); /* no probe */
    }
    assert_true(fopo_candidate_cache_must_sync(&other, &q, rows, BATCH));
    fopo_candidate_cache_commit(&other, &q, rows, BATCH, 0.9, probe == 2, 32);
  }
  assert_true(fabs(fopo_candidate_cache_epsilon(&other, &q) - 0.1) < 1e-12); /* 8 in a row */
  fopo_candidate_cache_commit(&v, &q, rows, BATCH, 0.02, 0, 32);
  assert_true(fopo_candidate_cache_epsilon(&v, &q) >= 1.0); /* the mass has left the candidates */
  assert_int_equal(fopo_candidate_cache_n_with_candidates(&v, &q, 32), 0);
}

/* ---- kept candidates ---- */

/* refresh = 1 is a search at every visit, and the bits of a proposal that knows of no refresh. */
TEST_WITH(test_refresh_one, no_leak) {
  DONE(tear_down) setting a, b;
  set_up(&a, kept(&fopo_estimator_snis, 0), 0.2, 0.02, 0);
  set_up(&b, kept(&fopo_estimator_snis, 1), 0.2, 0.02, 0);
  run(&a, 20);
  run(&b, 20);
  assert_memory_equal(theta(&a), theta(&b), bytes);
  assert_int_equal(queries(&a), queries(&b));
  assert_int_equal(queries(&b), 3 * N + 2 * BATCH);
}

/* Each context is searched at visits 1, n + 1, 2 n + 1 ... */
TEST_WITH(test_searches, no_leak) {
  static const size_t refresh[] = {2, 3, FOPO_REFRESH_ONCE};
  static const size_t wanted[][5] = {{1, 1, 2, 2, 3}, {1, 1, 1, 2, 2}, {1, 1, 1, 1, 1}};
  static const fopo_estimator *const kinds[] = {&fopo_estimator_snis, &fopo_estimator_head_tail};
  for (size_t i = 0; i < 6; i++) {
    DONE(tear_down) setting s;
    set_up(&s, kept(kinds[i % 2], refresh[i / 2]), 0.2, 0.02, 0);
    assert_int_equal(fopo_gradient_kept_bytes(s.g), 4 * N * (K + 2));
    for (int epoch = 0; epoch < 5; epoch++) {
      run(&s, PER_EPOCH);
      assert_int_equal(queries(&s), wanted[i / 2][epoch] * N);
    }
  }
}

/* As long as theta stays, old candidates are the candidates: a first visit and a second one draw
 * the same, and as near as rounding goes what a search would give. */
TEST_WITH(test_same_candidates, no_leak) {
  DONE(tear_down) setting s;
  float first[L * L], second[L * L], fresh[L * L];
  fopo_gradient_stats stats;
  fopo_draw_key key = {4, 2};
  fopo_matrix none = {0};
  set_up(&s, kept(&fopo_estimator_snis, 5), 0.2, 0.02, 0);
  fopo_gradient_options o = *fopo_gradient_get(s.g);
  ok(compute_gradient(s.g, fopo_matrix_view(first, L, L), &stats, s.w.rows, N, key));
  ok(compute_gradient(s.g, fopo_matrix_view(second, L, L), &stats, s.w.rows, N, key));
  assert_int_equal(queries(&s), N);
  assert_memory_equal(first, second, bytes);
  o.proposal.refresh = 1;
  ok(fopo_gradient_set(s.g, &o));
  ok(compute_gradient(s.g, fopo_matrix_view(fresh, L, L), &stats, s.w.rows, N, key));
  assert_int_equal(queries(&s), 2 * N);
  for (int i = 0; i < L * L; i++) assert_true(fabs((double)(first[i] - fresh[i])) < 1e-5);

  /* now theta moves: the candidates stay, and the weights are right all the same */
  o.proposal.refresh = 5;
  ok(fopo_gradient_set(s.g, &o));
  for (int i = 0; i < L * L; i++) theta(&s)[i] += i % 3 ? 0.1f : -0.1f;
  double *t = small_world_theta(&s.w), G[L * L], mean = 0.0;
  double reward = small_world_reward(G, &s.w, t, N);
  for (uint32_t step = 0; step < 400; step++) {
    fopo_draw_key at = {4, step};
    o.proposal.refresh = FOPO_REFRESH_ONCE;
    ok(fopo_gradient_set(s.g, &o));
    ok(compute_gradient(s.g, none, &stats, s.w.rows, N, at));
    mean += stats.mean.reward / 400.0;
  }
  assert_int_equal(queries(&s), 2 * N);
  print_message("old candidates: reward %.5f, exact %.5f\n", mean, reward);
  assert_true(fabs(mean - reward) < 0.02 * reward);
  fopo_free(t);
}

/* A batch in which some sets are there and others are searched: each context has its own, as if all
 * were searched. Bit b of `known`: context b was visited before. */
TEST_WITH(test_own_candidates, no_leak) {
  enum { B = 4 };
  fopo_gradient_stats stats;
  fopo_draw_key key = {4, 2};
  float fresh[L * L], G[L * L];
  setting s;
  set_up(&s, kept(&fopo_estimator_snis, 1), 0.2, 0.02, 0);
  ok(compute_gradient(s.g, fopo_matrix_view(fresh, L, L), &stats, s.w.rows, B, key));
  tear_down(&s);
  for (uint32_t known = 0; known < 1 << B; known++) {
    set_up(&s, kept(&fopo_estimator_snis, FOPO_REFRESH_ONCE), 0.2, 0.02, 0);
    for (uint32_t b = 0; b < B; b++) {
      if (known >> b & 1) ok(compute_gradient(s.g, (fopo_matrix){0}, &stats, &b, 1, key));
    }
    ok(compute_gradient(s.g, fopo_matrix_view(G, L, L), &stats, s.w.rows, B, key));
    assert_int_equal(queries(&s), B);
    for (int i = 0; i < L * L; i++) {
      if (!(fabs((double)(G[i] - fresh[i])) < 1e-5)) fail_msg("known contexts: %x", known);
    }
    tear_down(&s);
  }
}

/* In a probe, 8 contexts have candidates; the others draw uniformly: of 120 draws of 150
 * items, none is there 15 times, as half the draws would be if they were of candidates. */
TEST_WITH(test_probe_of_a_few, no_leak) {
  DONE(tear_down) setting s;
  fopo_slice slice;
  fopo_gradient_options o = adaptive(0.05, 0.9);
  o.samples = 120;
  memset(&s, 0, sizeof s);
  small_world_init(&s.w, P, N, L, 0.1, 2.0, 3);
  ok(fopo_index_exact(&s.ix, s.w.items));
  make_trainer(&s, o, &(fopo_optim_options){.kind = &fopo_optimiser_sgd, .lr = 1e-9}, 20, 1);
  assert_int_equal(fopo_trainer_advance(s.t, 1, &slice), FOPO_DRAWN);
  const fopo_drawn *d = fopo_trainer_drawn(s.t);
  assert_true(d->B == 20 && d->S == 120);
  for (size_t b = 0; b < d->B; b++) {
    int times[P] = {0}, most = 0;
    for (size_t i = 0; i < d->S; i++) times[d->ids[b * d->S + i]]++;
    for (int a = 0; a < P; a++) most = times[a] > most ? times[a] : most;
    if (b < 8) assert_true(most >= 15);
    if (b >= 8 && most >= 15) fail_msg("context %zu of a probe draws an item %d times", b, most);
  }
  fopo_trainer_abandon(s.t);
}

/* ---- runs that are the same ---- */

static fopo_gradient_options which(int i) {
  if (i == 0) return kept(&fopo_estimator_snis, 3);
  if (i == 1) return kept(&fopo_estimator_head_tail, FOPO_REFRESH_ONCE);
  fopo_gradient_options o = adaptive(0.05, 0.9);
  if (i == 3) o.proposal.refresh = 4;
  return o;
}

enum { WHICH = 4, STEPS = 63 };

static void whole(float *wanted, int i) {
  DONE(tear_down) setting s;
  set_up(&s, which(i), 0.2, 0.02, 0);
  run(&s, STEPS);
  memcpy(wanted, theta(&s), bytes);
}

/* In slices, with the gradient used for something else between them. */
TEST_WITH(test_slices, no_leak) {
  for (int i = 0; i < WHICH; i++) {
    float wanted[L * L];
    fopo_gradient_stats stats;
    DONE(tear_down) setting s;
    whole(wanted, i);
    set_up(&s, which(i), 0.2, 0.02, 0);
    for (int left = STEPS; left > 0; left -= 7) {
      run(&s, 7);
      ok(compute_gradient(s.g, (fopo_matrix){0}, &stats, s.w.rows, 5, (fopo_draw_key){1, 1}));
    }
    assert_memory_equal(theta(&s), wanted, bytes);
  }
}

TEST_WITH(test_threads, no_leak) {
  int before = fopo_threads();
  for (int i = 0; i < WHICH; i++) {
    float one[L * L], many[L * L];
    ok(fopo_threads_set(1));
    whole(one, i);
    ok(fopo_threads_set(3));
    whole(many, i);
    assert_memory_equal(one, many, bytes);
  }
  ok(fopo_threads_set(before));
}

/* Saved after any number of steps and resumed by another trainer. */
TEST_WITH(test_resume, no_leak) {
  for (int i = 0; i < WHICH; i++) {
    float wanted[L * L];
    whole(wanted, i);
    for (size_t first = 1; first < STEPS; first += 13) {
      DONE(tear_down) setting a, b;
      set_up(&a, which(i), 0.2, 0.02, 0);
      run(&a, first);
      ok(fopo_trainer_save(a.t, path, NULL, 0));
      set_up(&b, which(i), 0.2, 0.02, 0);
      run(&b, 2); /* what it remembers of these is forgotten */
      ok(fopo_trainer_resume(b.t, path, NULL));
      assert_true(!(epsilon(&a) < epsilon(&b)) && !(epsilon(&a) > epsilon(&b)));
      size_t n_with_candidates = queries(&a), before = queries(&b);
      run(&a, STEPS - first);
      run(&b, STEPS - first);
      assert_memory_equal(theta(&a), wanted, bytes);
      assert_memory_equal(theta(&b), wanted, bytes);
      assert_int_equal(queries(&a) - n_with_candidates, queries(&b) - before);
    }
    unlink(path);
  }
}

/* That a policy is lost is kept, and so is that it is not. */
TEST_WITH(test_doubts_are_kept, no_leak) {
  DONE(tear_down) setting a, b;
  set_up(&a, adaptive(0.05, 0.9), 0.2, 0.02, 0);
  set_up(&b, adaptive(0.05, 0.9), 0.2, 0.02, 0);
  for (uint64_t doubts = 3; doubts < 4; doubts -= 3) {
    run(&a, 3);
    a.t->cache.doubts = doubts;
    ok(fopo_trainer_save(a.t, path, NULL, 0));
    ok(fopo_trainer_resume(b.t, path, NULL));
    assert_int_equal(b.t->cache.doubts, doubts);
  }
  unlink(path);
}

/* A step that was given up, and one that was interrupted, leave no trace. */
TEST_WITH(test_given_up, no_leak) {
  for (int i = 0; i < WHICH; i++) {
    float wanted[L * L];
    fopo_slice slice;
    DONE(tear_down) setting s;
    whole(wanted, i);
    set_up(&s, which(i), 0.2, 0.02, 1);
    for (int done = 0; done < STEPS; done += 7) {
      assert_int_equal(fopo_trainer_advance(s.t, 3, &slice), FOPO_DRAWN);
      fopo_trainer_abandon(s.t);
      fopo_interrupt_request();
      assert_int_equal(fopo_trainer_advance(s.t, 3, &slice), FOPO_ERR_INTERRUPTED);
      fopo_interrupt_clear();
      run(&s, 7);
    }
    assert_memory_equal(theta(&s), wanted, bytes);
  }
}

/* ---- the adaptive epsilon in a run ---- */

/* Near a uniform policy the index is asked by probes alone; where candidates have mass epsilon is
 * its floor, and the share is measured. */
TEST_WITH(test_adapts, no_leak) {
  DONE(tear_down) setting s;
  fopo_gradient_options few = adaptive(0.05, 0.9);
  few.proposal.k = 3;
  set_up(&s, few, 0.0, 1e-9, 0);
  fopo_slice slice = run(&s, 101);
  assert_int_equal(queries(&s), 3 * BATCH); /* steps 1, 51 and 101 */
  assert_true(epsilon(&s) >= 1.0);
  assert_true(fabs(slice.mean.head_mass - 3.0 / P) < 0.01);
  fopo_statistics whole = fopo_trainer_record(s.t)->sum;
  assert_true(fopo_statistics_means(&whole).head_mass == slice.mean.head_mass);
  tear_down(&s);

  /* a record is over the contexts that had candidates, wherever its slices end */
  set_up(&s, few, 0.0, 1e-9, 0);
  for (int i = 0; i < 101; i++) run(&s, 1);
  assert_memory_equal(&fopo_trainer_record(s.t)->sum, &whole, sizeof whole);
  tear_down(&s);

  fopo_gradient_options by_likelihood =
      adaptive(0.05, 0.9); /* by rewards the policy is lost here */
  by_likelihood.objective = FOPO_OBJECTIVE_LIKELIHOOD;
  set_up(&s, by_likelihood, 0.3, 1e-9, 0);
  double pi[P], mass = 0.0, *t = small_world_theta(&s.w);
  for (size_t n = 0; n < N; n++) {
    float q[L], scores[K];
    uint32_t ids[K], count;
    small_world_policy(pi, &s.w, t, n);
    fopo_matrix Q = fopo_matrix_view(q, 1, L);
    ok(fopo_policy_queries(Q, &s.w.pi, fopo_matrix_rows(s.w.contexts, n, 1)));
    ok(fopo_index_search(ids, scores, &count, s.ix, Q, K));
    for (int i = 0; i < K; i++) mass += pi[ids[i]] / N;
  }
  run(&s, 12001); /* 25 probes */
  double measured = s.t->cache.mass;
  print_message("inside the candidates %.4f, measured %.4f\n", mass, measured);
  assert_true(mass > 0.1 && mass < 0.95 && fabs(mass - measured) < 0.05);
  assert_true(fabs(epsilon(&s) - 0.05) < 1e-12);
  fopo_free(t);
  tear_down(&s);

  set_up(&s, adaptive(0.4, 0.5), 3.0, 1e-9, 0);
  for (int i = 0; i < 30; i++) {
    run(&s, 1);
    assert_true(fabs(epsilon(&s) - 0.4) < 1e-12);
  }
}

/* ---- what is refused ---- */

TEST_WITH(test_refused, no_leak) {
  setting a, b;
  set_up(&a, kept(&fopo_estimator_snis, 3), 0.2, 0.02, 0);
  run(&a, 9);
  ok(fopo_trainer_save(a.t, path, NULL, 0));

  /* other candidates than these are not taken over */
  fopo_gradient_options o = kept(&fopo_estimator_snis, 3);
  o.proposal.k = K - 1;
  set_up(&b, o, 0.2, 0.02, 0);
  refused(fopo_trainer_resume(b.t, path, NULL), FOPO_ERR_ARGUMENT, "use the same k");
  tear_down(&b);

  /* a file without any is right: all are searched again */
  set_up(&b, kept(&fopo_estimator_snis, 1), 0.2, 0.02, 0);
  ok(fopo_trainer_resume(b.t, path, NULL));
  ok(fopo_trainer_save(b.t, path, NULL, 0));
  tear_down(&b);
  ok(fopo_trainer_resume(a.t, path, NULL));
  size_t before = queries(&a);
  run(&a, 3 + PER_EPOCH); /* the rest of this pass and the whole of the next */
  assert_int_equal(queries(&a) - before, N);

  /* an id beyond the catalogue */
  ok(fopo_trainer_save(a.t, path, NULL, 0));
  fopo_archive file = {0};
  ok(fopo_npz_load(&file, path));
  ((uint32_t *)fopo_archive_find(&file, "candidates")->data)[3 * K] = P;
  ok(fopo_npz_save(path, file.items, file.n, 0));
  fopo_archive_done(&file);
  refused(fopo_trainer_resume(a.t, path, NULL), FOPO_ERR_FORMAT,
          "the candidates of context 4 are not 12 of 150 items");
  unlink(path);
  tear_down(&a);

  fopo_proposal q = {
      .kind = FOPO_PROPOSAL_MIXTURE, .k = 3, .adaptive = 1, .epsilon = 1.0, .floor = 1.5};
  refused(fopo_proposal_check(&q, P), FOPO_ERR_ARGUMENT, "floor is 1.5");
  q.floor = 0.1;
  q.smoothing = 1.0;
  refused(fopo_proposal_check(&q, P), FOPO_ERR_ARGUMENT, "smoothing is 1");
}

/* After the first pass a step takes no memory. */
TEST_WITH(test_allocates_nothing, no_leak) {
  for (int i = 0; i < WHICH; i++) {
    DONE(tear_down) setting s;
    fopo_slice slice;
    set_up(&s, which(i), 0.2, 0.02, 0);
    run(&s, PER_EPOCH);
    fopo_memory_fail_after(0, 1);
    int status = fopo_trainer_advance(s.t, 3 * PER_EPOCH, &slice);
    fopo_memory_fail_after(-1, 0);
    ok(status);
  }
}

int main(void) {
  fopo_threads_set(1); /* thousands of tiny batches: the bits are the same */
  snprintf(path, sizeof path, "/tmp/fopo_test_visits_%d.npz", (int)getpid());
  return run_all(NULL, NULL);
}
