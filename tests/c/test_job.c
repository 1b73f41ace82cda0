/* Jobs: the bits of a run in the foreground however they are looked at, rested, changed,
 * interrupted and stopped; two at once over the same index; what they refuse; how they fail and
 * end. A build with -fsanitize=thread and FOPO_THREADS=1 finds no race here. */
#include <dirent.h>
#include <signal.h>

#include "core/clock.h"
#include "core/progress.h"
#include "small_world.h"
#include "train/job.h"

FREED_BY(fopo_job_free, fopo_job)

enum { P = 120, N = 23, L = 5, BATCH = 4 };

/* A trainer with all that it borrows; items, contexts, hits and index may be another's. */
typedef struct {
  small_world *w;
  fopo_policy pi;
  fopo_gradient *g;
  fopo_optim optim;
  fopo_trainer *t;
} setting;

static fopo_gradient_options snis(fopo_index *ix) {
  fopo_gradient_options o = {.estimator = &fopo_estimator_snis, .samples = 30};
  o.proposal = (fopo_proposal){.kind = FOPO_PROPOSAL_MIXTURE, .index = ix, .k = 12, .epsilon = 0.5};
  return o;
}

static void set_up_with(setting *s, small_world *w, fopo_gradient_options o,
                        const fopo_reward *reward, double lr) {
  fopo_optim_options adam = adam_of(lr);
  memset(s, 0, sizeof *s);
  s->w = w;
  ok(fopo_policy_copy(&s->pi, &w->pi));
  ok(fopo_gradient_new(&s->g, &o));
  ok(fopo_optim_init(&s->optim, &adam));
  fopo_trainer_options t = trainer_over(w, s->g, &s->optim, BATCH);
  t.policy = &s->pi;
  t.reward = reward;
  ok(fopo_trainer_new(&s->t, &t));
}

static void set_up(setting *s, small_world *w, fopo_gradient_options o) {
  set_up_with(s, w, o, &w->reward, 0.01);
}

static void tear_down(setting *s) {
  fopo_trainer_free(s->t);
  fopo_optim_done(&s->optim);
  fopo_gradient_free(s->g);
  fopo_policy_done(&s->pi);
}

/* The world that all tests share. */
static small_world world;
static fopo_index *ix, *exact;
static fopo_sessions sessions;

static int begin(void **unused) {
  (void)unused;
  small_world_init(&world, P, N, L, 0.1, 0.1, 3);
  ok(fopo_index_norm(&ix, world.items, 0));
  ok(fopo_index_exact(&exact, world.items));
  sessions = (fopo_sessions){.X = world.Y, .Y = world.Y, .users = world.rows};
  return 0;
}

static int end(void **unused) {
  (void)unused;
  fopo_index_free(ix);
  fopo_index_free(exact);
  small_world_done(&world);
  return 0;
}

static fopo_run_plan steps(uint64_t n) { return (fopo_run_plan){.steps = n, .seconds = INFINITY}; }

static void foreground(setting *s, size_t n) {
  fopo_slice slice;
  ok(fopo_trainer_advance(s->t, n, &slice));
  assert_int_equal(slice.steps, n);
}

static void same(const setting *a, const setting *b) {
  assert_int_equal(fopo_trainer_step(a->t), fopo_trainer_step(b->t));
  assert_memory_equal(a->pi.theta.x, b->pi.theta.x, L * L * sizeof(float));
}

static fopo_job_status look(fopo_job *job) {
  fopo_job_status status;
  fopo_job_look(&status, job, 1);
  return status;
}

/* Waits until the job has made so many steps, or has ended. */
static fopo_job_status until(fopo_job *job, uint64_t step) {
  double begun = fopo_clock();
  fopo_job_status status = look(job);
  while (status.step < step && status.state == FOPO_JOB_TRAINS && fopo_clock() - begun < 60.0) {
    ok(fopo_job_wait(job, 0.001));
    status = look(job);
  }
  return status;
}

static fopo_job_status ended(fopo_job *job) {
  double begun = fopo_clock();
  while (look(job).state != FOPO_JOB_ENDED && fopo_clock() - begun < 60.0) {
    ok(fopo_job_wait(job, 1.0));
  }
  ok(fopo_job_rest(job));
  assert_int_equal(look(job).state, FOPO_JOB_ENDED);
  return look(job);
}

static void finish(fopo_job *job) { assert_string_equal(ended(job).sentence, ""); }

TEST(test_the_same_bits) {
  fopo_gradient_options kinds[6];
  for (int i = 0; i < 6; i++) kinds[i] = snis(ix);
  kinds[1].estimator = &fopo_estimator_exact;
  kinds[2].estimator = &fopo_estimator_reinforce;
  kinds[3].estimator = &fopo_estimator_head_tail;
  kinds[3].proposal.epsilon = 0.0;
  kinds[4].proposal.refresh = 3;
  kinds[5].proposal.kind = FOPO_PROPOSAL_UNIFORM;
  for (int i = 0; i < 6; i++) {
    DONE(tear_down) setting front, back;
    FREED(fopo_job_free) fopo_job *job = NULL;
    set_up(&front, &world, kinds[i]);
    set_up(&back, &world, kinds[i]);
    foreground(&front, 7);
    foreground(&back, 7);
    fopo_trainer_end_record(back.t);
    foreground(&front, 300);
    ok(fopo_job_start(&job, back.t,
                      &(fopo_run_plan){.steps = 300, .seconds = INFINITY, .every = 40}));
    assert_true(fopo_jobs_running() == 1);
    for (uint64_t at = 60; at < 300; at += 60) {
      until(job, 7 + at);
      ok(fopo_job_rest(job));
      ok(fopo_job_rest(job)); /* again is no mistake */
      if (at == 120) foreground(&back, 0);
      ok(fopo_job_go(job));
    }
    finish(job);
    same(&front, &back);
    assert_int_equal(fopo_jobs_running(), 0);
    foreground(&front, 9);
    foreground(&back, 9);
    same(&front, &back);

    uint64_t made = 7;
    fopo_run_record r;
    while (fopo_job_take(&r, job)) {
      made = made + 40 < 307 ? made + 40 : 307;
      assert_int_equal(r.step, made);
      assert_true(isfinite(r.mean.reward) && r.mean.norm > 0.0 && r.steps_per_second > 0.0);
      assert_true(r.lr > 0.0 && isnan(r.valid.reward) && isnan(r.start.reward));
      assert_int_equal(isnan(r.epsilon) == 0, kinds[i].estimator == &fopo_estimator_snis);
    }
    assert_int_equal(made, 307);
  }
}

/* What is done while it rests is what it goes on from: another lr and eps, steps in the foreground.
 */
TEST(test_changed_at_rest) {
  DONE(tear_down) setting front, back;
  FREED(fopo_job_free) fopo_job *job = NULL;
  set_up(&front, &world, snis(ix));
  set_up(&back, &world, snis(ix));
  ok(fopo_job_start(&job, back.t, &(fopo_run_plan){.steps = 400, .seconds = INFINITY}));
  until(job, 50);
  ok(fopo_job_rest(job));
  uint64_t rested = fopo_trainer_step(back.t);
  fopo_gradient_options o = *fopo_gradient_get(back.g);
  o.proposal.epsilon = 0.9;
  back.optim.options.lr = 0.002;
  ok(fopo_gradient_set(back.g, &o));
  foreground(&back, 5);
  ok(fopo_job_go(job));
  finish(job);
  assert_int_equal(fopo_trainer_step(back.t), 400 > rested + 5 ? 400 : rested + 5);

  foreground(&front, rested);
  front.optim.options.lr = 0.002;
  ok(fopo_gradient_set(front.g, &o));
  foreground(&front, fopo_trainer_step(back.t) - rested);
  same(&front, &back);
}

/* What is shown of a job while it trains is theta after one of its steps, all of it. */
TEST(test_shown_whole) {
  enum { STEPS = 3000, N_THETA = L * L };
  static float made[STEPS + 1][N_THETA];
  DONE(tear_down) setting front, back;
  FREED(fopo_job_free) fopo_job *job = NULL;
  set_up(&front, &world, snis(ix));
  set_up(&back, &world, snis(ix));
  for (size_t step = 0; step <= STEPS; step++) {
    if (step > 0) foreground(&front, 1);
    memcpy(made[step], front.pi.theta.x, sizeof made[step]);
  }
  fopo_run_plan plan = steps(STEPS);
  ok(fopo_job_start(&job, back.t, &plan));
  size_t before = 0, different = 0;
  while (look(job).state == FOPO_JOB_TRAINS) {
    size_t step = before;
    while (step <= STEPS && memcmp(made[step], back.pi.theta.x, sizeof made[step]) != 0) step++;
    if (step > STEPS) fail_msg("what is shown after step %zu is theta of no step", before);
    different += step > before;
    before = step;
    ok(fopo_job_wait(job, 0.001));
  }
  assert_true(different > 0);
  finish(job);
  same(&front, &back);
}

/* The ids of this process's threads that block SIGINT and SIGTERM; SIGSEGV may not be blocked. */
static size_t threads_without_signals(void) {
  size_t n = 0;
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
    char path[300], line[200];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    FILE *f = task->d_name[0] != '.' ? fopen(path, "r") : NULL;
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
      unsigned long long blocked;
      if (sscanf(line, "SigBlk: %llx", &blocked) != 1) continue;
      n += (blocked >> (SIGINT - 1) & 1) && (blocked >> (SIGTERM - 1) & 1) &&
           !(blocked >> (SIGSEGV - 1) & 1);
    }
    if (f != NULL) fclose(f);
  }
  closedir(tasks);
  return n;
}

/* Signals are the program's: no thread of a job takes one. */
TEST(test_signals) {
  DONE(tear_down) setting s;
  FREED(fopo_job_free) fopo_job *job = NULL;
  set_up(&s, &world, snis(ix));
  size_t before = threads_without_signals();
  fopo_run_plan plan = steps(1000000);
  ok(fopo_job_start(&job, s.t, &plan));
  until(job, 1);
  assert_true(threads_without_signals() > before);
  ok(fopo_job_stop(job));
}

/* Ctrl-C at the prompt is not for it, however often; waits in vain end with it and the job goes on.
 */
TEST(test_interruptions_pass_by) {
  DONE(tear_down) setting front, back;
  FREED(fopo_job_free) fopo_job *job = NULL;
  set_up(&front, &world, snis(ix));
  set_up(&back, &world, snis(ix));
  foreground(&front, 2000);
  fopo_run_plan plan = {
      .steps = 2000,
      .seconds = INFINITY,
      .every = 100,
      .valid = {.sessions = &sessions, .contexts = world.contexts, .exact = exact, .index = ix}};
  ok(fopo_job_start(&job, back.t, &plan));
  int waits = 0;
  while (look(job).state == FOPO_JOB_TRAINS) {
    fopo_interrupt_request();
    waits += fopo_job_wait(job, 0.01) == FOPO_ERR_INTERRUPTED;
    fopo_interrupt_clear();
    ok(fopo_job_wait(job, 0.002));
  }
  finish(job);
  same(&front, &back);
  int records = 0;
  fopo_run_record r;
  while (fopo_job_take(&r, job)) {
    records++;
    assert_true(r.valid.reward >= 0.0 && r.valid.reward == r.valid.index);
  }
  assert_int_equal(records, 20);
}

/* Two jobs and the program itself share the items, the contexts, the rewards and the index. */
TEST(test_two_at_once) {
  DONE(tear_down) setting one, two, three;
  FREED(fopo_job_free) fopo_job *a = NULL, *b = NULL;
  uint32_t ids[N], counts[N], first[N];
  float scores[N];
  set_up(&one, &world, snis(ix));
  set_up(&two, &world, snis(ix));
  set_up(&three, &world, snis(ix));
  ok(fopo_policy_best(first, scores, counts, &world.pi, world.contexts, ix, 1));
  fopo_run_plan plan = steps(1500);
  ok(fopo_job_start(&a, one.t, &plan));
  ok(fopo_job_start(&b, two.t, &plan));
  assert_int_equal(fopo_jobs_running(), 2);
  for (int i = 0; i < 30; i++) {
    fopo_evaluation e;
    foreground(&three, 50);
    ok(fopo_policy_best(ids, scores, counts, &world.pi, world.contexts, ix, 1));
    assert_memory_equal(ids, first, sizeof ids);
    look(a);
    look(b);
    ok(fopo_evaluate(&e, &one.pi, world.contexts, &sessions, ix,
                     NULL)); /* theta as it was looked at */
    assert_true(e.reward >= 0.0 && e.reward <= 1.0);
  }
  finish(a);
  finish(b);
  same(&one, &two);
  same(&one, &three);
}

TEST(test_validation) {
  DONE(tear_down) setting s, t;
  FREED(fopo_job_free) fopo_job *job = NULL;
  set_up_with(&s, &world, snis(ix), &world.reward, 0.3);
  set_up_with(&t, &world, snis(ix), &world.reward, 0.3);
  fopo_run_plan plan = {
      .steps = 3000,
      .seconds = INFINITY,
      .every = 10,
      .valid = {.sessions = &sessions, .contexts = world.contexts, .exact = exact},
      .patience = 5,
      .keep_best = 1};
  ok(fopo_job_start(&job, s.t, &plan));
  fopo_job_status status = ended(job);
  assert_int_equal(status.status, FOPO_OK);
  assert_string_equal(status.sentence, "no better validation in 5 records");

  /* The last best is five records before the end. Theta is that one's if the last ones are worth
   * less by more than chance, else that of the end. */
  double best = -1.0;
  uint64_t at = 0, last = 0;
  fopo_run_record r;
  while (fopo_job_take(&r, job)) {
    if (r.valid.reward > best) {
      best = r.valid.reward;
      at = r.step;
    }
    last = r.step;
  }
  assert_int_equal(status.best.step, at);
  assert_int_equal(last, at + 50);
  assert_int_equal(fopo_trainer_step(s.t), last);
  foreground(&t, status.best.restored ? at : last);
  assert_memory_equal(s.pi.theta.x, t.pi.theta.x, L * L * sizeof(float));
  fopo_evaluation e;
  ok(fopo_evaluate(&e, &s.pi, world.contexts, &sessions, exact, NULL));
  assert_true(status.best.restored ? e.reward == best : status.best.low <= 0.0);
}

/* A job that cannot go on says why, and the trainer is as after its last whole step. */
TEST(test_failure) {
  DONE(tear_down) setting s;
  FREED(fopo_job_free) fopo_job *job = NULL;
  set_up_with(&s, &world, snis(ix), &world.reward, 1e38);
  fopo_run_plan plan = steps(100000);
  ok(fopo_job_start(&job, s.t, &plan));
  fopo_job_status status = ended(job);
  assert_int_equal(status.status, FOPO_ERR_NUMERIC);
  assert_non_null(strstr(status.sentence, "could move theta beyond"));
  assert_true(status.step < 100000);
  ok(fopo_job_stop(job));
  assert_int_equal(fopo_trainer_step(s.t), status.step);
  assert_int_equal(fopo_jobs_running(), 0);
}

TEST(test_refusals) {
  DONE(tear_down) setting s;
  fopo_job *job = (fopo_job *)1;
  fopo_run_plan plan = steps(10);
  fopo_reward custom = {.kind = &fopo_reward_custom};
  set_up_with(&s, &world, snis(ix), &custom, 0.01);
  refused(fopo_job_start(&job, s.t, &plan), FOPO_ERR_ARGUMENT, "use t:run");
  assert_null(job);
  tear_down(&s);
  set_up(&s, &world, snis(ix));
  s.pi.learns[FOPO_BLOCK_ITEMS] = 1;
  refused(fopo_job_start(&job, s.t, &plan), FOPO_ERR_ARGUMENT, "does not learn items");
  s.pi.learns[FOPO_BLOCK_ITEMS] = 0;
  plan.valid.sessions = &sessions;
  refused(fopo_job_start(&job, s.t, &plan), FOPO_ERR_ARGUMENT, "true argmax");
}

/* Memory that runs out at any allocation of the start leaves the trainer as it was; at one of the
 * thread's, as after the last whole step. */
TEST(test_no_memory) {
  DONE(tear_down) setting s, t;
  FREED(fopo_job_free) fopo_job *job = NULL;
  fopo_gradient_options o = snis(ix);
  o.proposal.refresh = 3;
  set_up(&s, &world, o);
  set_up(&t, &world, o);
  fopo_run_plan plan = steps(40);
  foreground(&s, 11);
  foreground(&t, 11);
  int status = FOPO_ERR_MEMORY;
  size_t blocks = fopo_memory_in_use().blocks;
  for (long n = 0; status != FOPO_OK; n++) {
    fopo_memory_fail_after(n, 0);
    status = fopo_job_start(&job, t.t, &plan);
    fopo_memory_fail_after(-1, 0);
    if (status == FOPO_OK) break; /* the thread may have met the failure */
    assert_int_equal(status, FOPO_ERR_MEMORY);
    assert_null(job);
    assert_int_equal(fopo_memory_in_use().blocks, blocks);
    assert_int_equal(fopo_jobs_running(), 0);
    assert_true(n < 1000);
  }
  ended(job);
  foreground(&s, 40);
  foreground(&t, 51 - fopo_trainer_step(t.t));
  same(&s, &t);
}

/* Stopped, or let go without a word: at work, at rest, before the first step. */
TEST(test_endings) {
  for (int how = 0; how < 6; how++) {
    DONE(tear_down) setting s, front;
    fopo_job *job;
    set_up(&s, &world, snis(ix));
    set_up(&front, &world, snis(ix));
    fopo_run_plan plan = steps(UINT64_MAX);
    ok(fopo_job_start(&job, s.t, &plan));
    if (how % 3 > 0) assert_int_equal(until(job, 100).state, FOPO_JOB_TRAINS);
    if (how % 3 == 2) ok(fopo_job_rest(job));
    if (how < 3) {
      ok(fopo_job_stop(job));
      ok(fopo_job_stop(job));
      assert_string_equal(look(job).sentence, "");
      assert_int_equal(look(job).state, FOPO_JOB_ENDED);
      ok(fopo_job_go(job)); /* nothing to go on with */
      foreground(&front, fopo_trainer_step(s.t));
      same(&s, &front);
      /* records are in order, and the last is of the steps that the stop has cut off */
      fopo_run_record record;
      uint64_t told = 0;
      while (fopo_job_take(&record, job)) {
        assert_true(record.step > told);
        told = record.step;
      }
      assert_int_equal(told, fopo_trainer_step(s.t));
    }
    fopo_job_free(job);
    assert_int_equal(fopo_jobs_running(), 0);
    fopo_job_free(NULL);
  }
  DONE(tear_down) setting s;
  FREED(fopo_job_free) fopo_job *job = NULL;
  set_up(&s, &world, snis(ix));
  ok(fopo_job_start(&job, s.t, &(fopo_run_plan){.steps = UINT64_MAX, .seconds = 0.1}));
  finish(job);
  assert_true(look(job).seconds >= 0.1);
}

/* A trainer put back while its job rests does not make the job believe that it is at its end. */
TEST(test_set_back_at_rest) {
  DONE(tear_down) setting s, start;
  FREED(fopo_job_free) fopo_job *job = NULL;
  set_up(&s, &world, snis(ix));
  set_up(&start, &world, snis(ix));
  foreground(&s, 20);
  fopo_run_plan plan = steps(3000);
  ok(fopo_job_start(&job, s.t, &plan));
  until(job, 22);
  ok(fopo_job_rest(job));
  if (look(job).state == FOPO_JOB_ENDED) print_message("skip: the job was sooner done\n");
  ok(fopo_trainer_move_state(s.t, start.t));
  assert_int_equal(fopo_trainer_step(s.t), 0);
  ok(fopo_job_go(job));
  finish(job);
  if (fopo_trainer_step(s.t) > 0) assert_int_equal(fopo_trainer_step(s.t), 3020);
  foreground(&start, fopo_trainer_step(s.t));
  same(&s, &start);
}

int main(void) { return run_all(begin, end); }
