/* Jobs: training in the background. The objects that a job trains with refuse changes while it
 * runs; they can be changed while it rests. */
#include "bind/families.h"
#include "train/job.h"

enum { ATTACHED = 6 };

typedef struct {
  bind_object object; /* keeps: as a run does */
  fopo_job *job;
  bind_object *attached[ATTACHED]; /* objects attached to the running job: they refuse changes */
  size_t n_attached;               /* 0: the job rests or has ended */
} bind_job;

static bind_job *get_job(lua_State *L, int index) { return bind_get(L, index, &bind_job_type); }

/* ---- attached objects ---- */

static void attach(bind_job *j, bind_object *o) {
  if (o == NULL) return;
  o->refs++;
  o->attached++;
  j->attached[j->n_attached++] = o;
}

static void attach_all(bind_job *j) {
  enum { PROPOSAL, PROPOSAL_INDEX = 0 }; /* slots of a gradient and of its proposal */
  bind_object *t = j->object.keeps[BIND_RUN_TRAINER], *g = t->keeps[BIND_GRADIENT];
  bind_object *proposal = g->keeps[PROPOSAL];
  attach(j, t);
  attach(j, t->keeps[BIND_POLICY]);
  attach(j, t->keeps[BIND_OPTIM]);
  attach(j, g);
  if (proposal != NULL) attach(j, proposal->keeps[PROPOSAL_INDEX]);
  attach(j, j->object.keeps[BIND_RUN_INDEX]);
}

static void detach_all(bind_job *j) {
  while (j->n_attached > 0) {
    bind_object *o = j->attached[--j->n_attached];
    o->attached--;
    bind_release(o);
  }
}

/* The state is back in the trainer: the optimiser's is on the trainer's device, and the gradient's
 * proposal has the present epsilon. */
static void take_back(bind_job *j) {
  bind_object **parts = j->object.keeps[BIND_RUN_TRAINER]->keeps;
  bind_gradient *g = (bind_gradient *)parts[BIND_GRADIENT];
  bind_keep(parts[BIND_OPTIM], 0, parts[BIND_DEVICE]);
  if (g->object.keeps[0] != NULL) {
    ((bind_proposal *)g->object.keeps[0])->proposal = fopo_gradient_get(g->gradient)->proposal;
  }
  detach_all(j);
}

static void done(bind_object *o) {
  bind_job *j = (bind_job *)o;
  fopo_job_free(j->job);
  detach_all(j);
}

/* native.job(t, options): starts a job; the options are those of native.run, without ask. */
static int job(lua_State *L) {
  fopo_run_plan plan;
  lua_settop(L, 2);
  bind_job *j = bind_new(L, &bind_job_type, 0);
  fopo_trainer *t = bind_run_plan(L, &plan, &j->object);
  bind_check(L, fopo_job_start(&j->job, t, &plan));
  attach_all(j);
  lua_pushvalue(L, 3);
  return 1;
}

/* ---- methods ---- */

/* j:look(): {state = "trains" | "rests" | "ended", validates, step, first, last, seconds, records,
 * best, failed, sentence, and the last slice's steps_per_second, reward, ess, ...}; the
 * policy's theta becomes the latest of the job. */
static int look(lua_State *L) {
  static const char *const states[] = {"trains", "rests", "ended"};
  fopo_job_status s;
  lua_createtable(L, 0, 20);
  fopo_job_look(&s, get_job(L, 1)->job, 1);
  bind_set_string(L, "state", states[s.state]);
  bind_set_boolean(L, "validates", s.validates);
  bind_set_count(L, "step", s.step);
  bind_set_count(L, "first", s.first);
  if (s.last < UINT64_MAX) bind_set_count(L, "last", s.last);
  bind_set_number(L, "seconds", s.seconds);
  bind_set_count(L, "records", s.records);
  bind_run_set_best(L, &s.best);
  bind_set_boolean(L, "failed", s.status != FOPO_OK);
  bind_set_string(L, "sentence", s.sentence);
  if (s.slice.steps == 0) return 1;
  bind_set_count(L, "steps", s.slice.steps);
  bind_set_number(L, "slice_seconds", s.slice.seconds);
  bind_set_statistics(L, &s.slice.mean, s.slice.phases, "time");
  return 1;
}

/* j:take(): removes the oldest record and returns it as a row of the history; nil if there is none.
 */
static int take(lua_State *L) {
  fopo_run_record r;
  if (!fopo_job_take(&r, get_job(L, 1)->job)) return 0;
  return bind_run_push_record(L, &r);
}

/* j:rest(): finishes the present slice and rests; its objects can then be changed. */
static int rest(lua_State *L) {
  bind_job *j = get_job(L, 1);
  bind_check(L, fopo_job_rest(j->job));
  take_back(j);
  return 0;
}

/* j:go(): continues, with the changes made while it rested. */
static int go(lua_State *L) {
  bind_job *j = get_job(L, 1);
  if (j->n_attached > 0) return 0;
  bind_trainer_check(L, (bind_trainer *)j->object.keeps[BIND_RUN_TRAINER]);
  bind_check(L, fopo_job_go(j->job));
  fopo_job_status s;
  fopo_job_look(&s, j->job, 0);
  if (s.state != FOPO_JOB_ENDED) attach_all(j);
  return 0;
}

/* j:stop(): ends the job after the present step. */
static int stop(lua_State *L) {
  bind_job *j = get_job(L, 1);
  bind_check(L, fopo_job_stop(j->job));
  take_back(j);
  return 0;
}

/* j:wait(seconds): waits until the job ends, for at most so many seconds. */
static int wait(lua_State *L) {
  double seconds = bind_number(L, 2, "seconds");
  bind_check(L, fopo_job_wait(get_job(L, 1)->job, seconds));
  return 0;
}

const luaL_Reg bind_job_functions[] = {{"job", job}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"look", look}, {"take", take}, {"rest", rest}, {"go", go},
                                   {"stop", stop}, {"wait", wait}, {NULL, NULL}};

const bind_type bind_job_type = {
    .name = "fopo.job", .size = sizeof(bind_job), .done = done, .methods = methods};
