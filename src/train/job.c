/* The thread makes slices of about a twentieth of a second and obeys its orders between them. The
 * lock guards the fields that both threads use: orders, status, records, the theta that is shown.
 * All others belong to the thread while it works, and to the caller while it rests or has ended. */
#include "train/job.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "comm/comm.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/threads.h"
#include "train/state.h"

static const double slice_seconds = 0.05; /* how long an order may wait, steps being short */
static const double tick = 0.05;          /* how long a caller waits before it looks for Ctrl-C */

struct fopo_job {
  fopo_trainer *home; /* not owned */
  int at_home;        /* 1: the state is with `home` */
  int joined;
  int validates; /* 1: every record is validated */

  /* The thread's own copies. */
  fopo_device *device;
  fopo_policy policy;
  fopo_gradient *gradient;
  fopo_optim optim;
  fopo_trainer *trainer;
  fopo_run *run;

  pthread_t thread;
  atomic_int stop;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* Under the lock. */
  int rest, wanted; /* orders: to rest, to show theta */
  fopo_job_status status;
  float *shown; /* [n_theta], and what is added to weights */
  int fresh;    /* 1: nobody has looked at it yet */
  fopo_run_record *records;
  size_t capacity, taken, n; /* records taken .. n - 1 wait */
};

static atomic_int running;

int fopo_jobs_running(void) { return atomic_load(&running); }

/* ---- the thread: events ---- */

static int stopping(void *payload) {
  fopo_job *j = payload;
  return atomic_load_explicit(&j->stop, memory_order_relaxed);
}

/* True if a Ctrl-C that was meant for the program's other work stopped this work, which must then
 * be done again; waits a moment for the Ctrl-C to be over. */
static int interrupted_by_others(fopo_job *j, int status) {
  if (status != FOPO_ERR_INTERRUPTED || stopping(j)) return 0;
  nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  return 1;
}

/* Ends the job with a status and a reason; "": it has made all its steps or seconds. */
static void end_early(fopo_job *j, int status, const char *why) {
  pthread_mutex_lock(&j->lock);
  j->status.status = status;
  snprintf(j->status.sentence, sizeof j->status.sentence, "%s", why);
  pthread_mutex_unlock(&j->lock);
  atomic_store(&j->stop, 1);
}

static int push(fopo_job *j, const fopo_run_record *r) {
  int status = FOPO_OK;
  pthread_mutex_lock(&j->lock);
  if (j->taken > 0) {
    memmove(j->records, j->records + j->taken, (j->n - j->taken) * sizeof *j->records);
    j->n -= j->taken;
    j->taken = 0;
  }
  if (j->n == j->capacity) {
    size_t capacity = j->capacity > 0 ? 2 * j->capacity : 32;
    status = fopo_resize(&j->records, capacity, sizeof *j->records);
    if (status == FOPO_OK) j->capacity = capacity;
  }
  if (status == FOPO_OK) j->records[j->n++] = *r;
  pthread_mutex_unlock(&j->lock);
  return status;
}

/* Copies theta and what is added to weights to `shown`, or back. */
static void copy_shown(float *shown, fopo_policy *pi, int back) {
  fopo_matrix parts[] = {pi->theta, pi->delta};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    size_t n = parts[i].rows * parts[i].cols;
    if (n == 0) continue;
    memcpy(back ? parts[i].x : shown, back ? shown : parts[i].x, n * sizeof *shown);
    shown += n;
  }
}

/* Gives out the status after an event, and theta if it was asked for. */
static void publish(fopo_job *j, const fopo_run_event *e) {
  pthread_mutex_lock(&j->lock);
  j->status.step = fopo_trainer_step(j->trainer);
  j->status.seconds = e->seconds;
  j->status.validates = e->record_due && j->validates;
  if (e->slice.steps > 0) j->status.slice = e->slice;
  if (j->wanted) {
    copy_shown(j->shown, &j->policy, 0);
    j->wanted = 0;
    j->fresh = 1;
  }
  pthread_mutex_unlock(&j->lock);
}

/* ---- the thread ---- */

/* Rests while that is the order. */
static void obey(fopo_job *j) {
  pthread_mutex_lock(&j->lock);
  while (j->rest && !stopping(j)) {
    if (j->status.state != FOPO_JOB_RESTS) {
      j->status.state = FOPO_JOB_RESTS;
      pthread_cond_broadcast(&j->changed);
    }
    pthread_cond_wait(&j->changed, &j->lock);
  }
  j->status.state = FOPO_JOB_TRAINS;
  pthread_mutex_unlock(&j->lock);
}

/* Makes a slice or a record. No order is obeyed between the last slice of a record and its end, for
 * validation must see the theta of that slice. *done becomes 1 if the run is over. */
static int advance(fopo_job *j, int *done) {
  fopo_run_event e;
  int status = fopo_run_advance(&e, j->run, slice_seconds, UINT64_MAX);
  publish(j, &e);
  *done = e.kind == FOPO_RUN_DONE;
  if (interrupted_by_others(j, status)) return FOPO_OK;
  if (status == FOPO_OK && e.kind == FOPO_RUN_RECORD) status = push(j, &e.record);
  if (status == FOPO_OK && !e.record_due && !*done) obey(j);
  return status;
}

/* The steps since the last record become one, also if the run was stopped or has failed. */
static int push_rest(fopo_job *j) {
  fopo_run_record record;
  return fopo_run_cut_record(&record, j->run) ? push(j, &record) : FOPO_OK;
}

static void finish(fopo_job *j) {
  fopo_run_best best = fopo_run_finish(j->run);
  pthread_mutex_lock(&j->lock);
  j->status.best = best;
  pthread_mutex_unlock(&j->lock);
  end_early(j, FOPO_OK, fopo_run_why(j->run));
}

static void *work(void *payload) {
  fopo_job *j = payload;
  int status = FOPO_OK, done = 0;
  fopo_interrupt_by(stopping, j);
  while (status == FOPO_OK && !done && !stopping(j)) status = advance(j, &done);
  if (done) {
    finish(j);
  }
  if (status != FOPO_OK && status != FOPO_ERR_INTERRUPTED) {
    end_early(j, status, fopo_error_sentence());
  }
  if (push_rest(j) != FOPO_OK && status == FOPO_OK) {
    end_early(j, FOPO_ERR_MEMORY, fopo_error_sentence());
  }
  pthread_mutex_lock(&j->lock);
  j->status.state = FOPO_JOB_ENDED;
  pthread_cond_broadcast(&j->changed);
  pthread_mutex_unlock(&j->lock);
  return NULL;
}

/* ---- starting ---- */

static int check(const fopo_trainer *t, const fopo_run_plan *plan) {
  int asks = fopo_options_ask(fopo_gradient_get(t->o.gradient));
  int own = t->o.policy->options.custom != NULL;
  int rule = fopo_gradient_get(t->o.gradient)->rule != NULL;
  if (asks || own || rule || fopo_reward_from_caller(t->o.reward)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a job cannot call the Lua function of a custom %s; use t:run for it",
                     own    ? "policy"
                     : rule ? "objective"
                     : asks ? "gradient or proposal"
                            : "reward");
  }
  if (t->o.policy->learns[FOPO_BLOCK_ITEMS]) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a job shares the items with whoever looks at them, so it "
                     "cannot learn them; use t:run, or a policy that does not learn items");
  }
  if (fopo_comm_ranks() > 1) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a job trains on one process and there are %zu; use t:run",
                     fopo_comm_ranks());
  }
  if (plan->ask) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "a job cannot ask its caller to validate; use t:run");
  }
  return FOPO_OK;
}

/* Makes the thread's copies of the trainer and its parts, and its run. */
static int copy_parts(fopo_job *j, const fopo_run_plan *plan) {
  fopo_trainer_options o = j->home->o;
  int status = fopo_device_open(&j->device, o.device->ops->kind);
  if (status == FOPO_OK) status = fopo_policy_copy(&j->policy, o.policy);
  if (status == FOPO_OK) status = fopo_optim_init(&j->optim, &o.optim->options);
  if (status == FOPO_OK) status = fopo_gradient_new(&j->gradient, fopo_gradient_get(o.gradient));
  if (status != FOPO_OK) return status;
  o.policy = &j->policy;
  o.gradient = j->gradient;
  o.optim = &j->optim;
  o.device = j->device;
  status = fopo_trainer_new(&j->trainer, &o);
  if (status == FOPO_OK) status = fopo_trainer_move_state(j->trainer, j->home);
  if (status != FOPO_OK) return status;
  j->at_home = 0;
  status = fopo_run_new(&j->run, j->trainer, plan);
  if (status != FOPO_OK) return status;
  j->shown = fopo_alloc(j->home->n_theta + j->policy.delta.rows, sizeof *j->shown);
  return j->shown != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* Signals are the program's: the thread, and the ones that it makes, get none but those of their
 * own crashes, after which the terminal is put right. */
static int start_thread(fopo_job *j) {
  int status = fopo_threads_more(fopo_threads()); /* its own, and those of its parallel loops */
  if (status != FOPO_OK) return status;
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  sigset_t all, before;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&all, own[i]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&j->thread, NULL, work, j);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failed) return FOPO_OK;
  return fopo_fail(FOPO_ERR_MEMORY, "no thread could be made for the job: %s; use t:run",
                   strerror(failed));
}

int fopo_job_start(fopo_job **job, fopo_trainer *t, const fopo_run_plan *plan) {
  *job = NULL;
  int status = check(t, plan);
  if (status != FOPO_OK) return status;
  fopo_job *j = fopo_alloc(1, sizeof *j);
  if (j == NULL) return FOPO_ERR_MEMORY;
  j->home = t;
  j->at_home = j->joined = 1;
  j->validates = plan->valid.sessions != NULL;
  pthread_mutex_init(&j->lock, NULL);
  pthread_cond_init(&j->changed, NULL);
  status = copy_parts(j, plan);
  if (status == FOPO_OK) {
    uint64_t first = fopo_trainer_step(t);
    j->status = (fopo_job_status){
        .step = first, .first = first, .last = fopo_run_last(j->run), .seconds = plan->trained};
    status = start_thread(j);
  }
  if (status != FOPO_OK) {
    if (!j->at_home) {
      fopo_trainer_move_state(t, j->trainer); /* what is remembered from visit to visit */
    }
    fopo_job_free(j);
    return status;
  }
  j->joined = 0;
  atomic_fetch_add(&running, 1);
  *job = j;
  return FOPO_OK;
}

/* ---- the caller's side ---- */

void fopo_job_look(fopo_job_status *status, fopo_job *job, int theta) {
  pthread_mutex_lock(&job->lock);
  *status = job->status;
  status->records = job->n - job->taken;
  if (theta && !job->at_home && job->fresh) {
    copy_shown(job->shown, job->home->o.policy, 1);
    job->fresh = 0;
  }
  if (theta) job->wanted = 1;
  pthread_mutex_unlock(&job->lock);
}

int fopo_job_take(fopo_run_record *record, fopo_job *job) {
  pthread_mutex_lock(&job->lock);
  int waits = job->taken < job->n;
  if (waits) *record = job->records[job->taken++];
  pthread_mutex_unlock(&job->lock);
  return waits;
}

/* Waits for a change, at most `seconds` < 1; the caller holds the lock. */
static void wait_change(fopo_job *j, double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += (long)(seconds * 1e9);
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
  }
  pthread_cond_timedwait(&j->changed, &j->lock, &until);
}

static fopo_job_state state_of(fopo_job *j) {
  pthread_mutex_lock(&j->lock);
  fopo_job_state state = j->status.state;
  pthread_mutex_unlock(&j->lock);
  return state;
}

static void join(fopo_job *j) {
  pthread_join(j->thread, NULL);
  j->joined = 1;
  atomic_fetch_sub(&running, 1);
}

/* Joins the thread if it has ended, and moves the state to the trainer. */
static int bring_home(fopo_job *j) {
  if (state_of(j) == FOPO_JOB_ENDED && !j->joined) join(j);
  if (j->at_home) return FOPO_OK;
  int status = fopo_trainer_move_state(j->home, j->trainer);
  j->at_home = status == FOPO_OK;
  return status;
}

static int waited_in_vain(void) {
  return fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while waiting for the job; it goes on");
}

int fopo_job_rest(fopo_job *job) {
  int given_up = 0;
  pthread_mutex_lock(&job->lock);
  job->rest = 1;
  while (job->status.state == FOPO_JOB_TRAINS && !given_up) {
    wait_change(job, tick);
    given_up = fopo_interrupted() && job->status.state == FOPO_JOB_TRAINS;
  }
  if (given_up) job->rest = 0;
  pthread_mutex_unlock(&job->lock);
  return given_up ? waited_in_vain() : bring_home(job);
}

int fopo_job_go(fopo_job *job) {
  if (state_of(job) != FOPO_JOB_RESTS) return FOPO_OK;
  int status = fopo_trainer_move_state(job->trainer, job->home);
  if (status != FOPO_OK) return status;
  job->at_home = 0;
  pthread_mutex_lock(&job->lock);
  job->rest = job->fresh = 0;
  job->status.state = FOPO_JOB_TRAINS;
  pthread_cond_broadcast(&job->changed);
  pthread_mutex_unlock(&job->lock);
  return FOPO_OK;
}

static void end_thread(fopo_job *j) {
  atomic_store(&j->stop, 1);
  pthread_mutex_lock(&j->lock);
  pthread_cond_broadcast(&j->changed);
  while (j->status.state != FOPO_JOB_ENDED) wait_change(j, tick);
  pthread_mutex_unlock(&j->lock);
}

int fopo_job_stop(fopo_job *job) {
  end_thread(job);
  return bring_home(job);
}

int fopo_job_wait(fopo_job *job, double seconds) {
  int status = FOPO_OK;
  pthread_mutex_lock(&job->lock);
  for (double left = seconds; left > 0.0 && job->status.state != FOPO_JOB_ENDED; left -= tick) {
    wait_change(job, fmin(left, tick));
    if (!fopo_interrupted()) continue;
    status = waited_in_vain();
    break;
  }
  pthread_mutex_unlock(&job->lock);
  return status;
}

void fopo_job_free(fopo_job *job) {
  if (job == NULL) return;
  if (!job->joined) {
    end_thread(job);
    join(job);
  }
  fopo_run_free(job->run);
  fopo_trainer_free(job->trainer);
  fopo_gradient_free(job->gradient);
  fopo_optim_done(&job->optim);
  fopo_policy_done(&job->policy);
  fopo_device_close(job->device);
  fopo_free(job->shown);
  fopo_free(job->records);
  pthread_cond_destroy(&job->changed);
  pthread_mutex_destroy(&job->lock);
  fopo_free(job);
}
