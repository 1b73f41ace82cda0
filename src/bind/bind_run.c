/* Runs: which slices a trainer makes, what is recorded and when it is over (train/run.h). */
#include <math.h>

#include "bind/families.h"

static void done(bind_object *o) { fopo_run_free(((bind_run *)o)->run); }

static bind_run *get_run(lua_State *L, int index) { return bind_get(L, index, &bind_run_type); }

/* ---- making ---- */

static const bind_type *const kept_types[] = {&bind_trainer_type, &bind_sessions_type,
                                              &bind_array_type, &bind_index_type, &bind_index_type};
static const char *const kept_names[] = {NULL, "valid", "valid_contexts", "exact", "index"};

static const char *const ways[] = {"greedy", "expected", "measure", NULL}; /* of fopo_by */

fopo_trainer *bind_run_plan(lua_State *L, fopo_run_plan *plan, bind_object *o) {
  int at[BIND_RUN_INDEX + 1] = {1};
  bind_table(L, 2, "the options");
  luaL_checkstack(L, 40, NULL);
  *plan = (fopo_run_plan){.steps = bind_option_count_or(L, 2, "steps", 0, SIZE_MAX, SIZE_MAX),
                          .seconds = bind_option_number_or(L, 2, "seconds", (double)INFINITY),
                          .trained = bind_option_number_or(L, 2, "trained", 0.0),
                          .every = bind_option_count_or(L, 2, "every", 0, SIZE_MAX, 0),
                          .patience = bind_option_count_or(L, 2, "patience", 0, SIZE_MAX, 0),
                          .keep_best = bind_option_boolean(L, 2, "keep_best"),
                          .sure = bind_option_boolean(L, 2, "sure"),
                          .by = bind_has(L, 2, "by") ? bind_option_choice(L, 2, "by", ways) : 0,
                          .ask = bind_option_boolean(L, 2, "ask")};
  plan->valid.most = bind_option_count_or(L, 2, "valid_most", 0, SIZE_MAX, 0);
  plan->valid.expected_most = bind_option_count_or(L, 2, "expected_most", 0, SIZE_MAX, 0);
  plan->valid.sampled = bind_option_count_or(L, 2, "valid_sampled", 0, SIZE_MAX, 0);
  plan->valid.k = bind_option_count_or(L, 2, "k", 1, SIZE_MAX, 0);
  if (plan->valid.k > 0) {
    plan->valid.measure =
        (fopo_measure_kind)bind_option_choice(L, 2, "measure", fopo_measure_names);
  }
  plan->valid.unseen = bind_option_boolean(L, 2, "unseen");
  int validates = bind_has(L, 2, "valid");
  for (int i = BIND_RUN_VALID; i <= BIND_RUN_INDEX; i++) {
    int takes = validates || i == BIND_RUN_EXACT;
    at[i] = takes && bind_has(L, 2, kept_names[i]) ? bind_option(L, 2, kept_names[i]) : 0;
  }
  if (validates) bind_array_numbers(L, at[BIND_RUN_CONTEXTS], "valid_contexts");
  for (int i = 0; i <= BIND_RUN_INDEX; i++) {
    if (at[i] > 0) bind_get(L, at[i], kept_types[i]);
  }
  if (at[BIND_RUN_VALID] > 0) bind_get_sessions(L, at[BIND_RUN_VALID]); /* whole */
  bind_trainer *t = bind_get(L, 1, &bind_trainer_type);
  bind_trainer_check(L, t);
  for (int i = 0; i <= BIND_RUN_INDEX; i++) {
    if (at[i] > 0) bind_keep(o, i, bind_get(L, at[i], kept_types[i]));
  }
  bind_object **k = o->keeps;
  fopo_validation_options *v = &plan->valid;
  v->exact = k[BIND_RUN_EXACT] != NULL ? ((bind_index *)k[BIND_RUN_EXACT])->index : NULL;
  if (validates) {
    v->sessions = &((bind_sessions *)k[BIND_RUN_VALID])->sessions;
    v->contexts = bind_matrix((bind_array *)k[BIND_RUN_CONTEXTS]);
    v->index = k[BIND_RUN_INDEX] != NULL ? ((bind_index *)k[BIND_RUN_INDEX])->index : NULL;
  }
  return t->trainer;
}

/* native.run(t, {steps, seconds, every, trained, patience, keep_best, by, measure, k, ask, valid,
 * valid_contexts, valid_most, expected_most, valid_sampled, unseen, exact, index}): an absent
 * number sets no limit, but without expected_most there is no expected reward, and without k no
 * measure of lists, as "ndcg"; by is greedy, the default, expected or measure. Sessions to validate
 * on need their contexts and the exact index, which the gradient may share; with ask = true the
 * caller validates. */
static int run(lua_State *L) {
  fopo_run_plan plan;
  lua_settop(L, 2);
  bind_run *r = bind_new(L, &bind_run_type, 3);
  for (int i = 1; i <= 3; i++) { /* the functions of what is custom */
    lua_getiuservalue(L, 1, i);
    lua_setiuservalue(L, 3, i);
  }
  fopo_trainer *t = bind_run_plan(L, &plan, &r->object);
  bind_check(L, fopo_run_new(&r->run, t, &plan));
  lua_pushvalue(L, 3);
  return 1;
}

/* ---- events ---- */

/* t[name] = {reward, reward_se, index, expected, se, measure, contexts, distinct, top}, for the
 * table on the top; a policy that was not judged has none. */
static void set_worth(lua_State *L, const char *name, const fopo_worth *w) {
  if (isnan(w->reward)) return;
  luaL_checkstack(L, 4, NULL);
  lua_createtable(L, 0, 7);
  bind_set_number(L, "reward", w->reward);
  bind_set_number(L, "reward_se", w->reward_se);
  bind_set_number(L, "index", w->index);
  bind_set_number(L, "expected", w->expected);
  bind_set_number(L, "se", w->se);
  bind_set_number(L, "measure", w->measure);
  bind_set_count(L, "contexts", w->contexts);
  bind_set_count(L, "distinct", w->distinct);
  bind_set_count(L, "top", w->top);
  lua_setfield(L, -2, name);
}

void bind_run_set_best(lua_State *L, const fopo_run_best *best) {
  if (!best->known) return;
  luaL_checkstack(L, 6, NULL);
  lua_createtable(L, 0, 6);
  bind_set_count(L, "step", best->step);
  bind_set_boolean(L, "at_start", best->at_start);
  bind_set_boolean(L, "restored", best->restored);
  bind_set_number(L, "loss", best->loss);
  bind_set_number(L, "low", best->low);
  bind_set_number(L, "high", best->high);
  set_worth(L, "worth", &best->worth);
  lua_setfield(L, -2, "best");
}

int bind_run_push_record(lua_State *L, const fopo_run_record *record) {
  lua_createtable(L, 0, 30);
  bind_set_count(L, "step", record->step);
  bind_set_number(L, "seconds", record->seconds);
  bind_set_number(L, "steps_per_second", record->steps_per_second);
  bind_set_number(L, "lr", record->lr);
  bind_set_number(L, "epsilon", record->epsilon);
  bind_set_number(L, "head", record->head);
  bind_set_number(L, "held", record->held);
  bind_set_number(L, "valid", record->valid.reward);
  bind_set_number(L, "valid_expected", record->valid.expected);
  bind_set_number(L, "valid_index", record->valid.index);
  bind_set_number(L, "valid_measure", record->valid.measure);
  bind_set_boolean(L, "cut", record->cut);
  set_worth(L, "worth", &record->valid);
  set_worth(L, "start", &record->start);
  bind_set_statistics(L, &record->mean, NULL, NULL);
  for (int i = 0; i < FOPO_PHASES; i++) {
    bind_set_number(L, fopo_phase_rows[i].column, record->phases[i]);
  }
  return 1;
}

static int push_event(lua_State *L, const fopo_run_event *e, int interrupted) {
  static const char *const kinds[] = {"slice", "drawn", "validate", "record", "done"};
  if (e->kind == FOPO_RUN_RECORD) {
    bind_run_push_record(L, &e->record);
  } else if (e->kind == FOPO_RUN_SLICE) {
    bind_push_slice(L, &e->slice, interrupted);
  } else {
    lua_createtable(L, 0, 4);
  }
  bind_set_string(L, "kind", kinds[e->kind]);
  bind_set_number(L, "trained", e->seconds);
  bind_set_boolean(L, "record_due", e->record_due);
  return 1;
}

/* Advances to an event that is not a call for what the Lua functions from `functions` on give;
 * Lua's status, with the error on the top. */
static int advance_with(lua_State *L, int *status, fopo_run_event *e, const bind_run *r,
                        bind_trainer *t, int functions, double seconds, uint64_t most) {
  int lua = LUA_OK;
  t->busy = 1;
  do {
    *status = fopo_run_advance(e, r->run, seconds, most);
    if (*status != FOPO_OK || e->kind != FOPO_RUN_DRAWN) break;
    lua = bind_fill(L, functions, fopo_trainer_drawn(t->trainer));
  } while (lua == LUA_OK);
  if (lua != LUA_OK) fopo_trainer_abandon(t->trainer);
  t->busy = 0;
  return lua;
}

static double seconds_at(lua_State *L, int index) {
  return lua_isnoneornil(L, index) ? (double)INFINITY : bind_number(L, index, "seconds");
}

static uint64_t steps_at(lua_State *L, int index) {
  return lua_isnoneornil(L, index) ? UINT64_MAX
                                   : bind_count(L, index, "the number of steps", 1, SIZE_MAX);
}

/* r:advance(seconds, most): an event, a table with kind and trained, the seconds of training in
 * all. "slice": as of t:advance, with record_due, and interrupted = true if Ctrl-C ended it early;
 * "record": a row of the history; "validate": r:judged(value) is wanted; "done". */
static int advance(lua_State *L) {
  enum { RUN = 4, FUNCTIONS };
  fopo_run_event e;
  int status;
  double seconds = seconds_at(L, 2);
  uint64_t most = steps_at(L, 3);
  lua_settop(L, 3);
  luaL_checkstack(L, 24, NULL);
  get_run(L, 1);
  bind_push_again(L, 1, &bind_run_type); /* a function may close the other handle */
  for (int i = 1; i <= 3; i++) lua_getiuservalue(L, 1, i);
  bind_run *r = get_run(L, RUN);
  bind_trainer *t = (bind_trainer *)r->object.keeps[BIND_RUN_TRAINER];
  bind_trainer_prepare(L, t);
  if (advance_with(L, &status, &e, r, t, FUNCTIONS, seconds, most) != LUA_OK) return lua_error(L);
  int interrupted = status == FOPO_ERR_INTERRUPTED && e.kind == FOPO_RUN_SLICE;
  if (!interrupted) bind_check(L, status);
  return push_event(L, &e, interrupted);
}

/* r:steps(seconds, most): how many steps r:advance would make; 0: a record is due, or the run over.
 */
static int steps(lua_State *L) {
  double seconds = seconds_at(L, 2);
  uint64_t most = steps_at(L, 3);
  return bind_return_count(L, fopo_run_steps(get_run(L, 1)->run, seconds, most));
}

/* r:judged(value): the answer to "validate"; before the first r:advance, the worth of the start. */
static int judged(lua_State *L) {
  fopo_run_judged(get_run(L, 1)->run, luaL_checknumber(L, 2));
  return 0;
}

/* r:record_now(): the next r:advance ends the record in hand; false if it has no steps. */
static int record_now(lua_State *L) {
  return bind_return_boolean(L, fopo_run_record_now(get_run(L, 1)->run));
}

/* r:cut_record(): the record in hand as a row with cut = true, not validated; nil if it has no
 * steps. It stays in hand. */
static int cut_record(lua_State *L) {
  fopo_run_record record;
  if (!fopo_run_cut_record(&record, get_run(L, 1)->run)) return 0;
  return bind_run_push_record(L, &record);
}

/* r:finish(): restores the best parameters if they are kept. Returns {best = {step, restored,
 * worth}}, or an empty table if none were kept. */
static int finish(lua_State *L) {
  bind_run *r = get_run(L, 1);
  bind_trainer_check(L, (bind_trainer *)r->object.keeps[BIND_RUN_TRAINER]);
  fopo_run_best best = fopo_run_finish(r->run);
  lua_createtable(L, 0, 1);
  bind_run_set_best(L, &best);
  return 1;
}

BIND_FIELD(field_done, boolean, fopo_run_is_done(((bind_run *)o)->run))
BIND_FIELD(field_goes_on, boolean, fopo_run_goes_on(((bind_run *)o)->run))

const luaL_Reg bind_run_functions[] = {{"run", run}, {NULL, NULL}};

static const luaL_Reg methods[] = {
    {"advance", advance},       {"steps", steps},   {"judged", judged}, {"record_now", record_now},
    {"cut_record", cut_record}, {"finish", finish}, {NULL, NULL}};

static const bind_field fields[] = {
    {"done", field_done, NULL}, {"goes_on", field_goes_on, NULL}, {NULL, NULL, NULL}};

const bind_type bind_run_type = {.name = "fopo.run",
                                 .size = sizeof(bind_run),
                                 .done = done,
                                 .methods = methods,
                                 .fields = fields};
