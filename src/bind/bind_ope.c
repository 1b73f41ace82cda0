/* Off-policy evaluation: one call. Its pass over the catalogue is an object, so that it is freed if
 * a model's Lua function raises. */
#include <math.h>

#include "bind/families.h"
#include "judge/ope.h"

enum { PI, LOGS, INDEX, PROPOSAL, MODEL, GROUPS, SHOWN }; /* slots */

typedef struct {
  bind_object object; /* keeps: the policy, the log, the index, the proposal, the model, the groups,
                         the log that shows */
  fopo_ope *pass;
} bind_ope;

static void done(bind_object *o) { fopo_ope_free(((bind_ope *)o)->pass); }

/* ---- the pass ---- */

/* Puts the object at `index` into a slot and returns it; NULL if there is none. */
static void *keep(lua_State *L, bind_ope *o, int slot, int index, const bind_type *type) {
  if (lua_isnoneornil(L, index)) return NULL;
  bind_object *kept = bind_get(L, index, type);
  bind_keep(&o->object, slot, kept);
  return kept;
}

/* The data of an array of n numbers, or ids. */
static void *check_length(lua_State *L, int index, int ids, size_t n, const char *what,
                          const char *of) {
  bind_array *a = ids ? bind_array_ids(L, index, what) : bind_array_numbers(L, index, what);
  if (a->rows * a->cols != n) {
    bind_refuse(L, "%s is %zu x %zu; give one number for each %s of the log, %zu", what, a->rows,
                a->cols, of, n);
  }
  return a->data;
}

/* Pushes the pass for the arguments of native.ope. */
static bind_ope *open(lua_State *L, size_t samples, uint64_t seed) {
  int index_at = bind_option(L, 3, "index"), proposal_at = bind_option(L, 3, "proposal");
  int groups_at = bind_option(L, 3, "groups"), shown_at = bind_option(L, 3, "shown");
  bind_ope *o = bind_new(L, &bind_ope_type, 0);
  bind_policy *pi = keep(L, o, PI, 1, &bind_policy_type);
  bind_logs *logs = keep(L, o, LOGS, 2, &bind_logs_type);
  bind_index *ix = keep(L, o, INDEX, index_at, &bind_index_type);
  bind_proposal *q = keep(L, o, PROPOSAL, proposal_at, &bind_proposal_type);
  bind_reward *model = keep(L, o, MODEL, 4, &bind_reward_type);
  bind_array *groups = keep(L, o, GROUPS, groups_at, &bind_array_type);
  bind_logs *shown = keep(L, o, SHOWN, shown_at, &bind_logs_type);
  if (groups != NULL) check_length(L, groups_at, 1, logs->logs->n_actions, "groups", "action");
  fopo_ope_options options = {.pi = &pi->policy,
                              .logs = logs->logs,
                              .index = ix ? ix->index : NULL,
                              .model = model ? &model->reward : NULL,
                              .samples = samples,
                              .seed = seed,
                              .shown = shown ? shown->logs : NULL,
                              .groups = groups ? (const uint32_t *)groups->data : NULL};
  if (q != NULL) options.proposal = q->proposal;
  bind_check(L, fopo_ope_new(&o->pass, &options));
  return o;
}

/* `function`: stack index of the function of a custom model. */
static void run(lua_State *L, bind_ope *o, int function) {
  fopo_drawn drawn;
  int status;
  while ((status = fopo_ope_run(o->pass, &drawn)) == FOPO_DRAWN) {
    if (bind_reward_call(L, function, &drawn) == LUA_OK) continue;
    fopo_ope_abandon(o->pass);
    lua_error(L);
  }
  bind_check(L, status);
}

/* ---- the answer ---- */

/* t[name] = {low =, high =}; nothing if the interval is NaN. */
static void set_interval(lua_State *L, const char *name, const double interval[2]) {
  if (isnan(interval[0])) return;
  lua_createtable(L, 0, 2);
  bind_set_number(L, "low", interval[0]);
  bind_set_number(L, "high", interval[1]);
  lua_setfield(L, -2, name);
}

static void set_estimate(lua_State *L, const char *name, const fopo_ope_estimate *e) {
  lua_createtable(L, 0, 8);
  bind_set_number(L, "value", e->value);
  bind_set_number(L, "se", e->se);
  set_interval(L, "normal", e->normal);
  set_interval(L, "bootstrap", e->bootstrap);
  set_interval(L, "bernstein", e->bernstein);
  set_interval(L, "range", e->range);
  if (!isnan(e->parameter)) bind_set_number(L, "parameter", e->parameter);
  if (!isnan(e->bound)) bind_set_number(L, "bound", e->bound);
  lua_setfield(L, -2, name);
}

static int push_report(lua_State *L, const fopo_ope_report *r, size_t unanswered) {
  lua_createtable(L, 0, 24);
  bind_set_count(L, "n", r->n);
  bind_set_count(L, "overlap", r->overlap);
  bind_set_count(L, "unanswered", unanswered);
  bind_set_count(L, "degenerate", r->degenerate);
  bind_set_number(L, "reward", r->reward);
  bind_set_number(L, "ess", r->ess);
  bind_set_number(L, "max_weight", r->max_weight);
  bind_set_number(L, "max_share", r->max_share);
  bind_set_number(L, "mean_weight", r->mean_weight);
  bind_set_number(L, "mean_weight_se", r->mean_weight_se);
  bind_set_number(L, "weight_bound", r->weight_bound);
  bind_set_number(L, "unshown", r->unshown);
  bind_set_number(L, "z_error", r->z_error);
  bind_set_number(L, "z_worst", r->z_worst);
  bind_set_number(L, "z_bias", r->z_bias);
  if (r->chosen >= 0) bind_set_string(L, "chosen", fopo_ope_about_kind(r->chosen).name);
  for (int kind = 0; kind < FOPO_OPE_KINDS; kind++) {
    if (r->has[kind]) set_estimate(L, fopo_ope_about_kind(kind).name, &r->by[kind]);
  }
  return 1;
}

/* {clipped_ips = a number, "slope" or "bound"}: the parameters; 0 where there is none. {ips =
 * true}: the kinds that are wanted; all if there is no such table. */
static void read_kinds(lua_State *L, fopo_ope_settings *s) {
  static const char *const choices[] = {"", "slope", "bound", NULL};
  int parameters = bind_option(L, 3, "parameters"), wanted = bind_option(L, 3, "wanted");
  for (int kind = 0; kind < FOPO_OPE_KINDS; kind++) {
    const char *name = fopo_ope_about_kind(kind).name;
    if (!lua_isnil(L, wanted) && bind_option_boolean(L, wanted, name)) s->wanted |= 1u << kind;
    if (lua_isnil(L, parameters)) continue;
    int at = bind_option(L, parameters, name);
    if (lua_type(L, at) == LUA_TSTRING) {
      s->choice[kind] = (fopo_ope_choice)bind_choice(L, at, name, choices);
    } else if (!lua_isnil(L, at)) {
      s->parameter[kind] = bind_number(L, at, name);
    }
    lua_pop(L, 1);
  }
}

/* What the statistics need, of the table at 3; the probabilities of logging, [n], are at *logging.
 */
static fopo_ope_settings settings_of(lua_State *L, int *logging) {
  bind_table(L, 3, "the options");
  fopo_ope_settings s = {.level = bind_option_number_or(L, 3, "level", 0.95),
                         .bootstrap = bind_option_count_or(L, 3, "bootstrap", 0, SIZE_MAX, 0),
                         .seed = bind_option_seed(L, 3),
                         .reward_low = bind_option_number_or(L, 3, "reward_low", 0.0),
                         .reward_high = bind_option_number_or(L, 3, "reward_high", 0.0),
                         .least_propensity = bind_option_number_or(L, 3, "least_propensity", 0.0)};
  read_kinds(L, &s);
  *logging = bind_option(L, 3, "logging");
  return s;
}

/* Pushes the answer. */
static void answer(lua_State *L, const fopo_ope_terms *terms, const fopo_logs *logs,
                   fopo_ope_settings *s, int logging) {
  fopo_ope_report report;
  if (!lua_isnil(L, logging)) s->logging = check_length(L, logging, 0, logs->n, "logging", "event");
  bind_check(L, fopo_ope_estimate_all(&report, terms, logs, s));
  push_report(L, &report, terms->unanswered);
}

/* native.ope(pi, logs, {index, samples, proposal, groups, logging, wanted, parameters, level,
 * bootstrap, seed, reward_low, reward_high, least_propensity}, model): index makes the policy its
 * argmax; the model is a reward over the events of the log, or nil. A table of counts and weights,
 * with a table {value, se, normal, bootstrap, bernstein, range, parameter, bound} under the name of
 * every estimator. */
static int ope(lua_State *L) {
  lua_settop(L, 4);
  luaL_checkstack(L, 48, NULL);
  int logging;
  fopo_ope_settings s = settings_of(L, &logging);
  size_t samples = bind_option_count_or(L, 3, "samples", 0, SIZE_MAX, 0);
  bind_get(L, 1, &bind_policy_type);
  bind_get(L, 2, &bind_logs_type);
  if (lua_isnil(L, 4) || bind_get(L, 4, &bind_reward_type) == NULL) {
    lua_pushnil(L);
  } else {
    lua_getiuservalue(L, 4, 1);
  }
  int function = lua_gettop(L);
  bind_ope *o = open(L, samples, s.seed);
  int pass = lua_gettop(L);
  run(L, o, function);

  fopo_ope_terms terms = fopo_ope_result(o->pass);
  answer(L, &terms, ((bind_logs *)o->object.keeps[LOGS])->logs, &s, logging);
  lua_getfield(L, pass, "close");
  lua_pushvalue(L, pass);
  lua_call(L, 1, 0);
  return 1;
}

/* native.ope_groups(pi, logs, {groups}): [1, n], pi(c(a_i) | x_i) of the softmax. Then the mean
 * share of pi(. | x_i) on the actions that the log in {shown}, or this one, shows in some event. */
static int ope_groups(lua_State *L) {
  lua_settop(L, 3);
  bind_table(L, 3, "the options");
  bind_get(L, 1, &bind_policy_type);
  bind_get(L, 2, &bind_logs_type);
  lua_pushnil(L);
  bind_ope *o = open(L, 0, 0);
  run(L, o, 4);
  fopo_ope_terms terms = fopo_ope_result(o->pass);
  float *out = bind_array_new(L, 0, 1, terms.n)->data;
  double shown = 0.0;
  for (size_t i = 0; i < terms.n; i++) {
    out[i] = terms.group != NULL ? (float)terms.group[i] : 0.0f;
    shown += terms.shown[i] / (double)terms.n;
  }
  lua_pushnumber(L, shown);
  return 2;
}

/* native.ope_check(logs, model): raises what fopo_ope_check_log refuses. */
static int ope_check(lua_State *L) {
  const bind_logs *logs = bind_get(L, 1, &bind_logs_type);
  const bind_reward *model = lua_isnoneornil(L, 2) ? NULL : bind_get(L, 2, &bind_reward_type);
  bind_check(L, fopo_ope_check_log(logs->logs, model ? &model->reward : NULL));
  return 0;
}

/* The list of n numbers terms[name] of the table at 2; NULL if there is none. */
static const double *read_terms(lua_State *L, const char *name, size_t n) {
  if (!bind_has(L, 2, name)) return NULL;
  int at = bind_option(L, 2, name);
  bind_table(L, at, name);
  double *x = bind_scratch(L, n, sizeof *x);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, at, (lua_Integer)i + 1);
    x[i] = bind_number(L, -1, name);
    lua_pop(L, 1);
  }
  return x;
}

/* native.ope_given(logs, {chance, shown, group, logged, expected}, {..}): the same answer from
 * lists of what each event contributes (fopo_ope_terms); no group without groups, and the last two
 * with a model alone. */
static int ope_given(lua_State *L) {
  int logging;
  lua_settop(L, 3);
  luaL_checkstack(L, 48, NULL);
  fopo_ope_settings s = settings_of(L, &logging);
  bind_table(L, 2, "the terms");
  size_t n = ((bind_logs *)bind_get(L, 1, &bind_logs_type))->logs->n;
  fopo_ope_terms terms = {.n = n,
                          .chance = read_terms(L, "chance", n),
                          .shown = read_terms(L, "shown", n),
                          .group = read_terms(L, "group", n),
                          .logged = read_terms(L, "logged", n),
                          .expected = read_terms(L, "expected", n)};
  answer(L, &terms, ((bind_logs *)bind_get(L, 1, &bind_logs_type))->logs, &s, logging);
  return 1;
}

const luaL_Reg bind_ope_functions[] = {{"ope", ope},
                                       {"ope_check", ope_check},
                                       {"ope_given", ope_given},
                                       {"ope_groups", ope_groups},
                                       {NULL, NULL}};

const bind_type bind_ope_type = {.name = "fopo.ope_pass", .size = sizeof(bind_ope), .done = done};
