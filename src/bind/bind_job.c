/* Jobs: training in the background. The objects that a job trains with refuse changes while it
 * runs; they can be changed while it rests. */
#include <math.h>

#include "bind/families.h"
#include "train/job.h"

enum { TRAINER, VALID, VALID_CONTEXTS, EXACT, INDEX }; /* slots */
enum { ATTACHED = 6 };

typedef struct {
  bind_object object; /* keeps: the slots above */
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
  bind_object *t = j->object.keeps[TRAINER], *g = t->keeps[BIND_GRADIENT];
  bind_object *proposal = g->keeps[PROPOSAL];
  attach(j, t);
  attach(j, t->keeps[BIND_POLICY]);
  attach(j, t->keeps[BIND_OPTIM]);
  attach(j, g);
  if (proposal != NULL) attach(j, proposal->keeps[PROPOSAL_INDEX]);
  attach(j, j->object.keeps[INDEX]);
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
  bind_object **parts = j->object.keeps[TRAINER]->keeps;
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

static void check_parts(lua_State *L, const bind_trainer *t) {
  if (t->busy) {
    bind_refuse(L, "this trainer is in the middle of a step; use it after that");
  }
  bind_check_free(L, &t->object);
  bind_check_free(L, t->object.keeps[BIND_POLICY]);
  bind_check_free(L, t->object.keeps[BIND_GRADIENT]);
  bind_check_free(L, t->object.keeps[BIND_OPTIM]);
}

/* ---- making ---- */

static const bind_type *const kept_types[] = {&bind_trainer_type, &bind_sessions_type,
                                              &bind_array_type, &bind_index_type, &bind_index_type};
static const char *const kept_names[] = {NULL, "valid", "valid_contexts", "exact", "index"};

static int start(bind_job *j, fopo_job_plan plan) {
  bind_object **k = j->object.keeps;
  if (k[VALID] != NULL) {
    plan.valid = &((bind_sessions *)k[VALID])->sessions;
    plan.valid_contexts = bind_matrix((bind_array *)k[VALID_CONTEXTS]);
    plan.exact = ((bind_index *)k[EXACT])->index;
    plan.index = k[INDEX] != NULL ? ((bind_index *)k[INDEX])->index : NULL;
  }
  return fopo_job_start(&j->job, ((bind_trainer *)k[TRAINER])->trainer, &plan);
}

/* native.job(t, {steps, seconds, every, trained, patience, keep_best, valid, valid_contexts, exact,
 * index}): starts a job. An option that is left out sets no limit. Validation needs the last four
 * options; index may be left out. */
static int job(lua_State *L) {
  int at[INDEX + 1] = {1};
  bind_table(L, 2, "the options");
  luaL_checkstack(L, 40, NULL);
  size_t steps = bind_option_count_or(L, 2, "steps", 0, SIZE_MAX, 0);
  fopo_job_plan plan = {.steps = steps > 0 ? steps : UINT64_MAX,
                        .seconds = bind_option_number_or(L, 2, "seconds", (double)INFINITY),
                        .trained = bind_option_number_or(L, 2, "trained", 0.0),
                        .every = bind_option_count_or(L, 2, "every", 0, SIZE_MAX, 0),
                        .patience = bind_option_count_or(L, 2, "patience", 0, SIZE_MAX, 0),
                        .keep_best = bind_option_boolean(L, 2, "keep_best")};
  int validates = bind_has(L, 2, "valid");
  for (int i = VALID; i <= INDEX; i++) {
    at[i] = validates && bind_has(L, 2, kept_names[i]) ? bind_option(L, 2, kept_names[i]) : 0;
  }
  if (validates) bind_array_numbers(L, at[VALID_CONTEXTS], "valid_contexts");
  plan.keep_best = plan.keep_best && validates;

  bind_job *j = bind_new(L, &bind_job_type, 0);
  for (int i = TRAINER; i <= INDEX; i++) {
    if (at[i] > 0) bind_get(L, at[i], kept_types[i]);
  }
  check_parts(L, bind_get(L, 1, &bind_trainer_type));
  for (int i = TRAINER; i <= INDEX; i++) {
    if (at[i] > 0) bind_keep(&j->object, i, bind_get(L, at[i], kept_types[i]));
  }
  bind_check(L, start(j, plan));
  attach_all(j);
  return 1;
}

/* ---- methods ---- */

/* j:look(): {state = "trains" | "rests" | "ended", validates, step, first, last, seconds, records,
 * best_step, failed, sentence, and the last slice's steps_per_second, reward, ess, ...}; the
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
  if (s.best_step > 0) bind_set_count(L, "best_step", s.best_step);
  bind_set_boolean(L, "failed", s.status != FOPO_OK);
  bind_set_string(L, "sentence", s.sentence);
  if (s.slice.steps == 0) return 1;
  bind_set_count(L, "steps", s.slice.steps);
  bind_set_number(L, "slice_seconds", s.slice.seconds);
  bind_set_statistics(L, &s.slice.mean, s.slice.phases, "time");
  return 1;
}

/* j:take(): removes the oldest record and returns it, {step, seconds, steps_per_second, reward,
 * ess, ..., lr, epsilon, valid, valid_index, time}, NaN for a missing value; nil if there is no
 * record. */
static int take(lua_State *L) {
  fopo_job_record r;
  lua_createtable(L, 0, 20);
  if (!fopo_job_take(&r, get_job(L, 1)->job)) return 0;
  bind_set_count(L, "step", r.step);
  bind_set_number(L, "seconds", r.seconds);
  bind_set_number(L, "steps_per_second", r.steps_per_second);
  bind_set_number(L, "lr", r.lr);
  bind_set_number(L, "epsilon", r.epsilon);
  bind_set_number(L, "valid", r.valid);
  bind_set_number(L, "valid_index", r.valid_index);
  bind_set_statistics(L, &r.mean, r.phases, "time");
  return 1;
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
  check_parts(L, (bind_trainer *)j->object.keeps[TRAINER]);
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
