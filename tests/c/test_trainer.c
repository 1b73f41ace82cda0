/* The trainer: slices, files, threads, rewards from outside, interruption, and steps that must not
 * be made. The same run is always the same bits. */
#include <unistd.h>

#include "core/progress.h"
#include "small_trainer.h"

enum { P = 120, N = 23, L = 5, BATCH = 4 };

static fopo_optim_options adam(double lr) {
  fopo_optim_options o = adam_of(lr);
  o.weight_decay = 1e-6;
  return o;
}

static fopo_optim_options sgd(double lr) {
  return (fopo_optim_options){.kind = &fopo_optimiser_sgd, .lr = lr, .momentum = 0.5};
}

static fopo_optim_options adagrad(double lr) {
  return (fopo_optim_options){.kind = &fopo_optimiser_adagrad, .lr = lr, .eps = 1e-10};
}

/* All that depends on the number of updates or on the gradient's norm. */
static fopo_optim_options scheduled(fopo_optim_options o) {
  o.clip = 0.01;
  o.weight_decay = 0.1;
  o.decoupled = 1;
  o.schedule =
      (fopo_schedule){.kind = FOPO_SCHEDULE_COSINE, .warmup = 4, .steps = 18, .final = 0.1};
  return o;
}

static void set_up(setting *s, const fopo_estimator *kind, fopo_optim_options optim, int custom) {
  memset(s, 0, sizeof *s);
  small_world_init(&s->w, P, N, L, 0.1, 0.1, 3);
  ok(fopo_index_norm(&s->ix, s->w.items, 0));
  fopo_gradient_options o = {.estimator = kind, .samples = 30};
  o.proposal = (fopo_proposal){.kind = FOPO_PROPOSAL_MIXTURE, .k = 12, .epsilon = 0.5};
  make_trainer(s, o, &optim, BATCH, custom);
}

static void keep(float *theta, const setting *s) {
  memcpy(theta, s->w.pi.theta.x, L * L * sizeof *theta);
}

static void same(const float *theta, const setting *s) {
  assert_memory_equal(theta, s->w.pi.theta.x, L * L * sizeof *theta);
}

/* theta after 20 steps in one slice. */
static void twenty(float *theta, const fopo_estimator *kind, fopo_optim_options optim) {
  DONE(tear_down) setting s;
  set_up(&s, kind, optim, 0);
  run(&s, 20);
  keep(theta, &s);
}

static const fopo_estimator *const kinds[] = {&fopo_estimator_exact, &fopo_estimator_reinforce,
                                              &fopo_estimator_snis, &fopo_estimator_head_tail};
enum { KINDS = sizeof kinds / sizeof *kinds };

TEST_WITH(test_slices, no_leak) {
  for (int i = 0; i < KINDS; i++) {
    float whole[L * L];
    DONE(tear_down) setting s;
    twenty(whole, kinds[i], adam(0.01));
    set_up(&s, kinds[i], adam(0.01), 0);
    assert_int_equal(fopo_trainer_steps_per_epoch(s.t), 6); /* 5 batches of 4 and one of 3 */
    run(&s, 1);
    run(&s, 12);
    run(&s, 0);
    fopo_slice slice = run(&s, 7);
    assert_int_equal(slice.step, 20);
    double phases = 0.0; /* they do not overlap */
    for (int p = 0; p < FOPO_PHASES; p++) phases += slice.phases[p];
    assert_true(slice.phases[FOPO_PHASE_GRADIENT] > 0.0 && phases < slice.seconds + 1e-9);
    assert_true(kinds[i]->needs & FOPO_READS_ALL_ITEMS || slice.phases[FOPO_PHASE_SEARCH] > 0.0);
    assert_true(slice.mean.reward > 0.0 && slice.mean.ess >= 1.0 && slice.mean.norm > 0.0);
    same(whole, &s);
  }
}

static const char *file_name(void) {
  static char name[64];
  snprintf(name, sizeof name, "/tmp/fopo_test_trainer_%ld.npz", (long)getpid());
  return name;
}

/* 7 steps, a file, and 13 steps of another trainer from that file. */
TEST_WITH(test_resume, no_leak) {
  fopo_optim_options optims[] = {adam(0.01),          sgd(0.1),
                                 adagrad(0.1),        scheduled(adam(0.01)),
                                 scheduled(sgd(0.1)), scheduled(adagrad(0.1))};
  float whole[L * L];
  for (size_t i = 0; i < sizeof optims / sizeof *optims; i++) {
    for (int threads = 1; threads <= 4; threads *= 2) {
      setting s;
      int kept = fopo_threads();
      double rewards[] = {0.25, 0.5};
      fopo_array history = fopo_array_of("history", FOPO_F64, rewards, 1, 2, 1);
      fopo_archive file = {0};
      twenty(whole, &fopo_estimator_snis, optims[i]);
      ok(fopo_threads_set(threads));
      set_up(&s, &fopo_estimator_snis, optims[i], 0);
      run(&s, 7);
      ok(fopo_trainer_save(s.t, file_name(), &history, 1));
      tear_down(&s);

      set_up(&s, &fopo_estimator_snis, optims[i], 0);
      run(&s, 3); /* it need not be fresh */
      ok(fopo_trainer_resume(s.t, file_name(), &file));
      assert_int_equal(fopo_trainer_step(s.t), 7);
      fopo_array *back;
      ok(fopo_archive_need(&back, &file, file_name(), "history", FOPO_F64, 1));
      assert_memory_equal(back->data, rewards, sizeof rewards);
      fopo_archive_done(&file);
      run(&s, 13);
      same(whole, &s);
      tear_down(&s);
      ok(fopo_threads_set(kept));
    }
  }
  unlink(file_name());
}

/* Files of other runs and broken ones are refused, and nothing changes. */
TEST_WITH(test_resume_refused, no_leak) {
  setting s, other;
  float before[L * L];
  fopo_archive file = {0};
  set_up(&s, &fopo_estimator_snis, adam(0.01), 0);
  run(&s, 5);
  ok(fopo_trainer_save(s.t, file_name(), NULL, 0));
  keep(before, &s);

  set_up(&other, &fopo_estimator_snis, sgd(0.1), 0);
  refused(fopo_trainer_resume(other.t, file_name(), NULL), FOPO_ERR_ARGUMENT, "\"adam\"");
  tear_down(&other);
  set_up(&other, &fopo_estimator_exact, adam(0.01), 0);
  refused(fopo_trainer_resume(other.t, file_name(), NULL), FOPO_ERR_ARGUMENT, "\"snis\"");
  tear_down(&other);
  set_up(&other, &fopo_estimator_snis, adam(0.01), 1);
  refused(fopo_trainer_resume(other.t, file_name(), NULL), FOPO_ERR_ARGUMENT, "reward");
  tear_down(&other);

  set_up(&other, &fopo_estimator_snis, adam(0.01), 0);
  fopo_trainer_free(other.t);
  fopo_trainer_options seed_10 = trainer_over(&other.w, other.g, &other.optim, 4);
  seed_10.seed = 10;
  ok(fopo_trainer_new(&other.t, &seed_10));
  refused(fopo_trainer_resume(other.t, file_name(), NULL), FOPO_ERR_ARGUMENT,
          "its seed is 9, here it is 10");
  tear_down(&other);

  /* the same file with one thing wrong at a time */
  struct {
    const char *name;
    int at;
    float value;
    const char *says;
  } wrong[] = {
      {"theta", 3, NAN, "theta is nan"},
      {"optim_m", 0, INFINITY, "optim_m is inf"},
      {"optim_v", 7, -1.0f, "optim_v"},
      {"temperature", 0, 2.0f, "temperature"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ok(fopo_npz_load(&file, file_name()));
    fopo_array *a = fopo_archive_find(&file, wrong[i].name);
    assert_non_null(a);
    memcpy((char *)a->data + (size_t)wrong[i].at * sizeof(float), &wrong[i].value, sizeof(float));
    char broken[80];
    snprintf(broken, sizeof broken, "%s.broken", file_name());
    ok(fopo_npz_save(broken, file.items, file.n, 0));
    fopo_archive_done(&file);
    int status = fopo_trainer_resume(s.t, broken, &file);
    refused(status, status < 0 ? status : 1, wrong[i].says);
    unlink(broken);
    assert_int_equal(fopo_trainer_step(s.t), 5);
    same(before, &s);
  }
  /* counts of steps that no run has made, and the largest that one may have */
  static const char *const counts[] = {"step", "optim_t"};
  for (size_t i = 0; i < 4; i++) {
    uint64_t most = (uint64_t)1 << 53, count = i < 2 ? most + 1 : UINT64_MAX;
    char broken[80], part[40];
    snprintf(broken, sizeof broken, "%s.broken", file_name());
    snprintf(part, sizeof part, "its %s is %llu", counts[i % 2], (unsigned long long)count);
    ok(fopo_npz_load(&file, file_name()));
    memcpy(fopo_archive_find(&file, counts[i % 2])->data, &count, sizeof count);
    ok(fopo_npz_save(broken, file.items, file.n, 0));
    refused(fopo_trainer_resume(s.t, broken, NULL), FOPO_ERR_FORMAT, part);
    same(before, &s);
    memcpy(fopo_archive_find(&file, counts[i % 2])->data, &most, sizeof most);
    ok(fopo_npz_save(broken, file.items, file.n, 0));
    fopo_archive_done(&file);
    ok(fopo_trainer_resume(s.t, broken, NULL));
    unlink(broken);
  }
  ok(fopo_trainer_resume(s.t, file_name(), NULL));
  refused(fopo_trainer_resume(s.t, "/nowhere/x.npz", NULL), FOPO_ERR_FILE, "/nowhere");
  refused(fopo_trainer_save(s.t, "/nowhere/x.npz", NULL, 0), FOPO_ERR_FILE, "/nowhere");
  same(before, &s);
  ok(fopo_trainer_resume(s.t, file_name(), NULL));
  tear_down(&s);
  unlink(file_name());
}

/* A learning rate of the trainer at hand is honoured after resuming. */
TEST_WITH(test_resume_rate, no_leak) {
  setting s;
  float before[L * L];
  set_up(&s, &fopo_estimator_snis, adam(0.01), 0);
  run(&s, 5);
  ok(fopo_trainer_save(s.t, file_name(), NULL, 0));
  keep(before, &s);
  s.optim.options.lr = 1e-30;
  ok(fopo_trainer_resume(s.t, file_name(), NULL));
  run(&s, 5);
  same(before, &s);
  tear_down(&s);
  unlink(file_name());
}

TEST_WITH(test_custom, no_leak) {
  for (int i = 0; i < KINDS; i++) {
    float whole[L * L];
    DONE(tear_down) setting s;
    twenty(whole, kinds[i], adam(0.01));
    set_up(&s, kinds[i], adam(0.01), 1);
    assert_null(fopo_trainer_drawn(s.t));
    run(&s, 8);
    run(&s, 12);
    same(whole, &s);
  }
}

/* A reward function that fails: the step is drawn again, and the run is the same. */
TEST_WITH(test_abandon, no_leak) {
  float whole[L * L], before[L * L];
  setting s;
  fopo_slice slice;
  twenty(whole, &fopo_estimator_snis, adam(0.01));
  set_up(&s, &fopo_estimator_snis, adam(0.01), 1);
  run(&s, 4);
  keep(before, &s);
  assert_int_equal(fopo_trainer_advance(s.t, 16, &slice), FOPO_DRAWN);
  refused(fopo_trainer_resume(s.t, file_name(), NULL), FOPO_ERR_ARGUMENT, "waits");
  ok(fopo_trainer_save(s.t, file_name(), NULL, 0)); /* the state after step 4 */
  fopo_trainer_abandon(s.t);
  assert_int_equal(fopo_trainer_step(s.t), 4);
  same(before, &s);

  /* nobody filled the rewards */
  assert_int_equal(fopo_trainer_advance(s.t, 16, &slice), FOPO_DRAWN);
  refused(fopo_trainer_advance(s.t, 16, &slice), FOPO_ERR_NUMERIC, "is nan");
  assert_int_equal(slice.steps, 0);
  same(before, &s);
  /* somebody filled all but the last: it is not that of an earlier step */
  assert_int_equal(fopo_trainer_advance(s.t, 16, &slice), FOPO_DRAWN);
  const fopo_drawn *drawn = fopo_trainer_drawn(s.t);
  size_t last = drawn->B * drawn->S - 1;
  float kept = drawn->reward[last];
  assert_true(drawn->B > 1);
  fill(&s);
  drawn->reward[last] = kept;
  refused(fopo_trainer_advance(s.t, 16, &slice), FOPO_ERR_NUMERIC, "is nan");
  same(before, &s);
  run(&s, 3);
  ok(fopo_trainer_resume(s.t, file_name(), NULL));
  run(&s, 16);
  same(whole, &s);
  tear_down(&s);
  unlink(file_name());
}

/* Ctrl-C between two steps: the state after the last whole one, and the run goes on from there. */
TEST_WITH(test_interrupted, no_leak) {
  float whole[L * L];
  DONE(tear_down) setting s;
  fopo_slice slice;
  twenty(whole, &fopo_estimator_snis, adam(0.01));
  set_up(&s, &fopo_estimator_snis, adam(0.01), 1);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(fopo_trainer_advance(s.t, 20, &slice), FOPO_DRAWN);
    fill(&s);
  }
  fopo_interrupt_request();
  refused(fopo_trainer_advance(s.t, 20, &slice), FOPO_ERR_INTERRUPTED, "interrupted");
  fopo_interrupt_clear();
  assert_int_equal(slice.steps, 6);
  assert_int_equal(fopo_trainer_step(s.t), 6);
  run(&s, 14);
  same(whole, &s);
}

/* Rewards whose gradient overflows: the step is refused before it touches theta. */
TEST_WITH(test_not_finite, no_leak) {
  DONE(tear_down) setting s;
  fopo_slice slice;
  float before[L * L];
  set_up(&s, &fopo_estimator_snis, adam(0.01), 1);
  run(&s, 2);
  keep(before, &s);
  assert_int_equal(fopo_trainer_advance(s.t, 1, &slice), FOPO_DRAWN);
  const fopo_drawn *d = fopo_trainer_drawn(s.t);
  for (size_t i = 0; i < d->B * d->S; i++) d->reward[i] = i % 2 ? 3e38f : -3e38f;
  refused(fopo_trainer_advance(s.t, 1, &slice), FOPO_ERR_NUMERIC, "step 3");
  says("learning rate 0.01, contexts");
  assert_int_equal(fopo_trainer_step(s.t), 2);
  assert_int_equal(s.optim.t, 2);
  same(before, &s);
  run(&s, 3);

  s.w.pi.theta.x[2] = NAN;
  refused(fopo_trainer_advance(s.t, 1, &slice), FOPO_ERR_NUMERIC, "theta");
  refused(fopo_trainer_save(s.t, file_name(), NULL, 0), FOPO_ERR_NUMERIC, "theta");
  assert_int_not_equal(access(file_name(), F_OK), 0);
}

TEST_WITH(test_options_refused, no_leak) {
  DONE(tear_down) setting s;
  set_up(&s, &fopo_estimator_exact, adam(0.01), 0);
  fopo_trainer *t = NULL;
  fopo_trainer_options o = trainer_over(&s.w, s.g, &s.optim, N + 1);
  refused(fopo_trainer_new(&t, &o), FOPO_ERR_ARGUMENT, "batch is 24");
  o.batch = 0;
  refused(fopo_trainer_new(&t, &o), FOPO_ERR_ARGUMENT, "batch is 0");
  o.batch = N;
  o.contexts.n--;
  o.batch--;
  refused(fopo_trainer_new(&t, &o), FOPO_ERR_ARGUMENT, "covers 23 contexts");
  assert_null(t);

  fopo_optim bad;
  struct {
    fopo_optim_options o;
    const char *says;
  } wrong[] = {
      {adam(0.0), "learning rate"}, {adam(NAN), "learning rate"}, {adam(-1.0), "learning rate"},
      {sgd(0.1), "momentum"},       {adam(0.1), "beta"},          {adam(0.1), "eps"},
      {sgd(0.1), "weight_decay"},   {adagrad(0.1), "eps is 0"},
  };
  wrong[3].o.momentum = 1.0;
  wrong[4].o.beta2 = 1.0;
  wrong[5].o.eps = 0.0;
  wrong[6].o.weight_decay = -1.0;
  wrong[7].o.eps = 0.0;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    refused(fopo_optim_init(&bad, &wrong[i].o), FOPO_ERR_ARGUMENT, wrong[i].says);
  }
}

/* After its first step a trainer works while every allocation fails. */
TEST_WITH(test_allocates_nothing, no_leak) {
  DONE(tear_down) setting s;
  fopo_slice slice;
  set_up(&s, &fopo_estimator_snis, adam(0.01), 0);
  run(&s, 1);
  fopo_memory_fail_after(0, 1);
  int status = fopo_trainer_advance(s.t, 19, &slice);
  fopo_memory_fail_after(-1, 0);
  ok(status);
}

/* Learning goes uphill, with every optimiser. */
TEST_WITH(test_uphill, no_leak) {
  fopo_optim_options optims[] = {adam(0.02), sgd(0.5), adagrad(0.2)};
  for (int i = 0; i < 3; i++) {
    DONE(tear_down) setting s;
    set_up(&s, &fopo_estimator_snis, optims[i], 0);
    FREED(fopo_free) double *start = small_world_theta(&s.w);
    double before = small_world_reward(NULL, &s.w, start, N);
    run(&s, 300);
    double *end = small_world_theta(&s.w), after = small_world_reward(NULL, &s.w, end, N);
    print_message("expected reward %.3f -> %.3f\n", before, after);
    assert_true(after > 2.0 * before);
    fopo_free(end);
  }
}

int main(void) {
  fopo_threads_set(1); /* batches are tiny; the tests that are about threads say so */
  return run_all(NULL, NULL);
}
