/* Rewards: hits of sessions, estimates from logs, or a Lua function. */
#include <string.h>

#include "bind/families.h"

enum { DATA, MODEL, ITEMS }; /* slots */

static bind_reward *get_reward(lua_State *L, int index) {
  return bind_get(L, index, &bind_reward_type);
}

static void done(bind_object *o) {
  bind_reward *r = (bind_reward *)o;
  fopo_reward_done(&r->reward);
  fopo_model_free(r->model);
  fopo_matrix_done(&r->users);
}

/* ---- of logs ---- */

static bind_logs *get_logs(lua_State *L, int index) { return bind_get(L, index, &bind_logs_type); }

/* Pushes an empty reward that keeps the log at 1. */
static bind_reward *new_of_log(lua_State *L) {
  get_logs(L, 1);
  bind_reward *r = bind_new(L, &bind_reward_type, 1);
  bind_keep(&r->object, DATA, &get_logs(L, 1)->object);
  return r;
}

static const fopo_logs *log_of(const bind_reward *r) {
  return ((bind_logs *)r->object.keeps[DATA])->logs;
}

/* The model of a reward; raises if it has none. */
static fopo_low_rank model_of(lua_State *L, int index) {
  const bind_reward *r = get_reward(L, index);
  if (r->reward.model.users == NULL) {
    bind_refuse(L, "the reward %s has no model; make one with fopo.reward.direct",
                r->reward.kind->title);
  }
  return r->reward.model;
}

/* The direct reward of a model of the log's contexts and actions. */
static void init_direct(lua_State *L, bind_reward *r, const fopo_low_rank *model) {
  fopo_reward_source source = {.logs = log_of(r), .model = model};
  bind_check(L, fopo_reward_init(&r->reward, &fopo_reward_direct, &source));
}

/* native.reward_fit(logs, {logistic, lambda, dim, folds, seed, items}): the direct reward of a
 * model fitted to the log; items: an array [P, L], or nil for the log's own. */
static int reward_fit(lua_State *L) {
  luaL_checkstack(L, 20, NULL);
  fopo_model_options o = {.logistic = bind_option_boolean(L, 2, "logistic"),
                          .lambda = bind_option_number(L, 2, "lambda"),
                          .dim = bind_option_count(L, 2, "dim", 0, SIZE_MAX),
                          .folds = bind_option_count(L, 2, "folds", 0, SIZE_MAX),
                          .seed = bind_option_seed(L, 2)};
  int at = bind_option(L, 2, "items");
  if (!lua_isnil(L, at)) bind_array_numbers(L, at, "items");
  bind_reward *r = new_of_log(L);
  const fopo_logs *logs = log_of(r);
  fopo_matrix items = logs->items;
  if (!lua_isnil(L, at)) items = bind_matrix(bind_array_numbers(L, at, "items"));
  bind_check(L, fopo_model_fit(&r->model, logs, items, &o));
  fopo_low_rank m = fopo_model_low_rank(r->model);
  init_direct(L, r, &m);
  bind_pressure(L, (r->model->users.rows + r->model->items.rows) * m.rank * sizeof(float));
  return 1;
}

/* native.reward_given(logs, queries, items, logistic): direct, from arrays [n, d] and [P, d]. */
static int reward_given(lua_State *L) {
  int logistic = bind_boolean(L, 4, "logistic");
  bind_array_numbers(L, 2, "queries");
  bind_array_numbers(L, 3, "items");
  bind_reward *r = new_of_log(L);
  const fopo_logs *logs = log_of(r);
  bind_array *queries = bind_array_numbers(L, 2, "queries");
  bind_array *items = bind_array_numbers(L, 3, "items");
  if (queries->rows != logs->n || items->rows != logs->n_actions || queries->cols != items->cols) {
    return bind_refuse(L,
                       "the model has queries %zu x %zu and items %zu x %zu but the log "
                       "has %zu events and %zu actions",
                       queries->rows, queries->cols, items->rows, items->cols, logs->n,
                       logs->n_actions);
  }
  bind_check(L, fopo_matrix_finite(bind_matrix(queries), "the model's queries"));
  bind_check(L, fopo_matrix_finite(bind_matrix(items), "the model's items"));
  bind_keep(&r->object, MODEL, &queries->object);
  bind_keep(&r->object, ITEMS, &items->object);
  fopo_low_rank m = {
      .users = queries->data, .items = items->data, .rank = items->cols, .logistic = logistic};
  init_direct(L, r, &m);
  return 1;
}

/* native.reward_apply(logs, direct): the model that `direct` was fitted with, for another log. */
static int reward_apply(lua_State *L) {
  model_of(L, 2);
  if (get_reward(L, 2)->model == NULL) {
    return bind_refuse(L, "this reward has no fitted model; use the reward that fopo.reward.direct "
                          "has fitted, or give queries and items for this log");
  }
  bind_reward *r = new_of_log(L), *fitted = get_reward(L, 2);
  const fopo_logs *logs = log_of(r);
  fopo_low_rank m = model_of(L, 2);
  if (fitted->model->P != logs->n_actions) {
    return bind_refuse(L, "the model has %zu actions but the log has %zu", fitted->model->P,
                       logs->n_actions);
  }
  bind_keep(&r->object, MODEL, &fitted->object);
  bind_check(L, fopo_model_users(&r->users, fitted->model, logs->contexts));
  m.users = r->users.x;
  init_direct(L, r, &m);
  return 1;
}

/* native.reward_over(logs, rw): whether the reward has a model of the events of this log. */
static int reward_over(lua_State *L) {
  bind_logs *logs = get_logs(L, 1);
  bind_reward *r = get_reward(L, 2);
  return bind_return_boolean(L, r->reward.model.users != NULL &&
                                    r->object.keeps[DATA] == &logs->object);
}

/* The reward at 2 must be direct and over the log at 1, whose events its model knows. */
static fopo_low_rank model_for_log(lua_State *L) {
  fopo_low_rank m = model_of(L, 2);
  if (get_reward(L, 2)->object.keeps[DATA] != &get_logs(L, 1)->object) {
    bind_refuse(L, "the model was made for another log; make it with "
                   "fopo.reward.direct{logs = this log, model = ...}");
  }
  return m;
}

/* ---- one constructor a row ---- */

/* The same of sessions that are shared out. */
static void keep_shared(lua_State *L, bind_reward *r, fopo_reward_source *source) {
  bind_shared *s = bind_get(L, 1, &bind_shared_type);
  bind_keep(&r->object, DATA, &s->object);
  source->Y = &s->shared.Y;
  source->shared = &s->shared;
}

static void keep_sessions(lua_State *L, bind_reward *r, fopo_reward_source *source) {
  bind_sessions *s = bind_get(L, 1, &bind_sessions_type);
  bind_keep(&r->object, DATA, &s->object);
  source->Y = &s->sessions.Y;
}

/* (sessions, value): rewards of Y. value: what items are worth (bind_values); nil: all are 1. */
static int make_of_sessions(lua_State *L, const fopo_reward_kind *kind) {
  fopo_reward_source source = {0};
  int shared = bind_is(L, 1, &bind_shared_type);
  lua_settop(L, 2);
  if (!shared) bind_get_sessions(L, 1);
  if (!lua_isnil(L, 2)) bind_values(L, &source.n_values, 2);
  bind_reward *r = bind_new(L, &bind_reward_type, 1);
  if (!lua_isnil(L, 2)) source.value = bind_values(L, &source.n_values, 2);
  (shared ? keep_shared : keep_sessions)(L, r, &source);
  bind_check(L, fopo_reward_init(&r->reward, kind, &source));
  return 1;
}

/* (f, n): f(ids [B, S], rows [1, B]) gives the rewards [B, S] as an array or a table of rows. n:
 * the number of contexts it covers; any if left out. */
static int make_of_function(lua_State *L, const fopo_reward_kind *kind) {
  fopo_reward_source source = {
      .contexts = lua_isnoneornil(L, 2) ? 0 : bind_count(L, 2, "n", 1, UINT32_MAX)};
  if (!lua_isfunction(L, 1)) {
    const char *found = bind_found(L, 1);
    return bind_refuse(L, "a custom reward needs a function, not %.80s", found);
  }
  bind_reward *r = bind_new(L, &bind_reward_type, 1);
  bind_check(L, fopo_reward_init(&r->reward, kind, &source));
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

/* (logs, {...}) or, with a model, (logs, direct, {...}): the options of the row. */
static int make_of_logs(lua_State *L, const fopo_reward_kind *kind) {
  int modelled = (kind->needs & FOPO_REWARD_OF_MODEL) != 0, table = modelled ? 3 : 2;
  fopo_reward_source source = {0};
  fopo_low_rank model = {0};
  if (lua_isnoneornil(L, table)) table = 0;
  for (const fopo_option *row = kind->options; row != NULL && row->name != NULL; row++) {
    bind_read_row(L, table, row, &source);
  }
  if (modelled) model_for_log(L);
  bind_reward *r = new_of_log(L);
  if (modelled) {
    model = model_for_log(L);
    bind_keep(&r->object, MODEL, &get_reward(L, 2)->object);
  }
  source.logs = log_of(r);
  source.model = &model;
  bind_check(L, fopo_reward_init(&r->reward, kind, &source));
  return 1;
}

/* native.reward_NAME(...) */
static int make(lua_State *L, const fopo_reward_kind *kind) {
  if (kind->needs & FOPO_REWARD_OF_LOGS) return make_of_logs(L, kind);
  if (kind->needs & FOPO_REWARD_OF_SESSIONS) return make_of_sessions(L, kind);
  return make_of_function(L, kind);
}

/* ---- methods ---- */

/* rw:value(ids, rows): the rewards [B, S] of items ids [B, S] in the contexts rows. */
static int value(lua_State *L) {
  size_t n, B = bind_array_ids(L, 2, "ids")->rows, S = bind_array_ids(L, 2, "ids")->cols;
  bind_reward *r = get_reward(L, 1);
  size_t covered = r->reward.contexts ? r->reward.contexts : UINT32_MAX;
  lua_settop(L, 3);
  uint32_t *rows = bind_rows(L, 3, covered, B < covered ? B : covered, &n);
  if (n != B) {
    return bind_refuse(
        L, "ids has %zu rows but %zu contexts are given; give one context for each row", B, n);
  }
  uint32_t *ids = bind_scratch(L, B * S, sizeof *ids);
  bind_array *out = bind_array_new(L, 0, B, S);
  int top = lua_gettop(L);
  luaL_checkstack(L, 8, NULL);
  lua_getiuservalue(L, 1, 1);
  memcpy(ids, bind_array_ids(L, 2, "ids")->data, B * S * sizeof *ids);
  r = get_reward(L, 1);
  if (fopo_reward_from_caller(&r->reward)) {
    fopo_drawn drawn = {.ids = ids, .rows = rows, .reward = out->data, .B = B, .S = S};
    if (bind_reward_call(L, top + 1, &drawn) != LUA_OK) return lua_error(L);
  } else {
    bind_check(L, fopo_reward_fill(out->data, &r->reward, ids, rows, B, S));
  }
  lua_settop(L, top);
  return 1;
}

/* ---- fields ---- */

static const fopo_reward *reward_of(const bind_object *o) {
  return &((const bind_reward *)o)->reward;
}

static const fopo_model *fitted_of(const bind_object *o) { return ((const bind_reward *)o)->model; }

static int translates(const fopo_reward *r) {
  return (r->kind->needs & FOPO_REWARD_TRANSLATES) != 0;
}

BIND_FIELD(field_kind, string, reward_of(o)->kind->title)
BIND_FIELD(field_n, positive, reward_of(o)->contexts)
BIND_FIELD(field_valued, boolean, reward_of(o)->value != NULL)
BIND_FIELD(field_translate, known,
           translates(reward_of(o)) ? (double)reward_of(o)->credit.shift : (double)NAN)
BIND_FIELD(field_parameters, positive, fitted_of(o) ? fitted_of(o)->parameters : 0)
BIND_FIELD(field_loss, known, fitted_of(o) ? fitted_of(o)->loss : (double)NAN)
BIND_FIELD(field_constant_loss, known, fitted_of(o) ? fitted_of(o)->constant_loss : (double)NAN)

/* rw.translate = lambda: from the next step on. */
static int set_translate(lua_State *L, bind_object *o) {
  fopo_reward *r = &((bind_reward *)o)->reward;
  if (!translates(r)) return 0;
  double shift = bind_number(L, 3, "translate");
  if (!(shift >= -1e30 && shift <= 1e30)) {
    bind_refuse(L, "translate is %g; it must be finite", shift);
  }
  r->credit.shift = (float)shift;
  return 1;
}

/* native.rewards(): the rewards, as the declarations of fopo.reward need them. */
static int rewards(lua_State *L) {
  static const struct {
    unsigned flag;
    const char *name;
  } needs[] = {{FOPO_REWARD_OF_SESSIONS, "sessions"},
               {FOPO_REWARD_OF_LOGS, "logs"},
               {FOPO_REWARD_OF_MODEL, "model"},
               {FOPO_REWARD_FROM_CALLER, "fills"},
               {FOPO_REWARD_IS_MODEL, "is_model"}};
  lua_newtable(L);
  for (int i = 0; fopo_rewards[i] != NULL; i++) {
    const fopo_reward_kind *kind = fopo_rewards[i];
    bind_push_entry(L, kind->name, kind->title, kind->text, kind->example, kind->options);
    for (size_t k = 0; k < sizeof needs / sizeof *needs; k++) {
      bind_set_boolean(L, needs[k].name, (kind->needs & needs[k].flag) != 0);
    }
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

#define X(name)                                                                                    \
  static int new_##name(lua_State *L) { return make(L, &fopo_reward_##name); }
#include "learn/rewards/rewards.def"
#undef X

/* ---- the functions of what is custom ---- */

/* Reads S numbers of the table at `at`, those of row b, from its place `first` on. */
static void take_row(lua_State *L, const bind_answer *x, int at, size_t first, size_t b) {
  char what[80];
  for (size_t s = 0; s < x->S; s++) {
    if (lua_rawgeti(L, at, (lua_Integer)(first + s + 1)) != LUA_TNUMBER) {
      snprintf(what, sizeof what, "%s of draw %zu of context %zu", x->of, s + 1, b + 1);
      bind_number(L, -1, what);
    }
    x->to[b * x->S + s] = (float)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
}

static int misfit(lua_State *L, const bind_answer *x, const char *found) {
  return bind_refuse(L,
                     "%s gave %s; an array [%zu, %zu] or a table of "
                     "%zu rows with %zu numbers is needed",
                     x->whose, found, x->B, x->S, x->B, x->S);
}

static void take_table(lua_State *L, const bind_answer *x, int at) {
  char found[80];
  size_t n = lua_rawlen(L, at);
  int flat = lua_rawgeti(L, at, 1) == LUA_TNUMBER;
  lua_pop(L, 1);
  if (n != (flat ? x->B * x->S : x->B)) {
    snprintf(found, sizeof found, "a table of %zu %s", n, flat ? "numbers" : "rows");
    misfit(L, x, found);
  }
  for (size_t b = 0; b < x->B; b++) {
    if (flat) {
      take_row(L, x, at, b * x->S, b);
      continue;
    }
    int type = lua_rawgeti(L, at, (lua_Integer)b + 1);
    if (type != LUA_TTABLE || lua_rawlen(L, -1) != x->S) {
      snprintf(found, sizeof found, "a row %zu of %zu numbers", b + 1,
               type == LUA_TTABLE ? (size_t)lua_rawlen(L, -1) : 0);
      misfit(L, x, found);
    }
    take_row(L, x, lua_gettop(L), 0, b);
    lua_pop(L, 1);
  }
}

void bind_take_answer(lua_State *L, const bind_answer *x) {
  char found[80];
  int at = lua_gettop(L);
  if (lua_istable(L, at)) {
    take_table(L, x, at);
    return;
  }
  if (!bind_is(L, at, &bind_array_type)) misfit(L, x, bind_found(L, at));
  snprintf(found, sizeof found, "what %s gave", x->whose);
  bind_array *values = bind_array_numbers(L, at, found);
  if (values->rows != x->B || values->cols != x->S) {
    snprintf(found, sizeof found, "an array [%zu, %zu]", values->rows, values->cols);
    misfit(L, x, found);
  }
  memcpy(x->to, values->data, x->B * x->S * sizeof *x->to);
}

/* Pushes an array [B, S] with a copy of the data: of ids, or of numbers. */
static void push_copy(lua_State *L, int is_ids, const void *data, size_t B, size_t S) {
  bind_array *a = bind_array_new(L, is_ids, B, S);
  memcpy(a->data, data, B * S * sizeof(float)); /* an id has the same size */
}

/* Protected: 1 the function, 2 the draws. */
static int call_reward(lua_State *L) {
  const fopo_drawn *d = lua_touserdata(L, 2);
  lua_pushvalue(L, 1);
  push_copy(L, 1, d->ids, d->B, d->S);
  push_copy(L, 1, d->rows, 1, d->B);
  lua_call(L, 2, 1);
  bind_take_answer(L, &(bind_answer){"the reward's function", "the reward", d->reward, d->B, d->S});
  return 0;
}

static int call_coefficients(lua_State *L) {
  const fopo_drawn *d = lua_touserdata(L, 2);
  lua_pushvalue(L, 1);
  push_copy(L, 1, d->ids, d->B, d->S);
  push_copy(L, 0, d->f, d->B, d->S);
  push_copy(L, 0, d->logq, d->B, d->S);
  push_copy(L, 0, d->reward, d->B, d->S);
  lua_call(L, 4, 2);
  if (d->value != NULL) {
    bind_take_answer(L, &(bind_answer){"coefficients of gradient.custom, second, the value",
                                       "the value", d->value, d->B, 1});
  }
  lua_pop(L, 1);
  bind_take_answer(
      L, &(bind_answer){"coefficients of gradient.custom", "the coefficient", d->c, d->B, d->S});
  return 0;
}

/* f(Q, rows, S, seed, step) gives ids and log q. */
static int call_draws(lua_State *L) {
  const fopo_drawn *d = lua_touserdata(L, 2);
  lua_pushvalue(L, 1);
  push_copy(L, 0, d->Q.x, d->B, d->Q.cols);
  push_copy(L, 1, d->rows, 1, d->B);
  lua_pushinteger(L, (lua_Integer)d->S);
  lua_pushinteger(L, (lua_Integer)d->key.seed);
  lua_pushinteger(L, (lua_Integer)d->key.step);
  lua_call(L, 5, 2);
  bind_take_answer(L,
                   &(bind_answer){"the log q of proposal.custom", "log q", d->density, d->B, d->S});
  lua_pop(L, 1);
  const bind_array *ids = bind_array_ids(L, -1, "the ids of proposal.custom");
  if (ids->rows != d->B || ids->cols != d->S) {
    return bind_refuse(L, "the ids of proposal.custom are [%zu, %zu]; [%zu, %zu] are needed",
                       ids->rows, ids->cols, d->B, d->S);
  }
  memcpy(d->draws, ids->data, d->B * d->S * sizeof *d->draws);
  return 0;
}

static int protect(lua_State *L, lua_CFunction call, int function, const fopo_drawn *drawn) {
  lua_pushcfunction(L, call);
  lua_pushvalue(L, function);
  lua_pushlightuserdata(L, (void *)drawn);
  return lua_pcall(L, 2, 0, 0);
}

int bind_reward_call(lua_State *L, int function, const fopo_drawn *drawn) {
  return protect(L, call_reward, function, drawn);
}

int bind_fill(lua_State *L, int functions, const fopo_drawn *drawn) {
  int lua = LUA_OK;
  if (drawn->draws != NULL) return protect(L, call_draws, functions + 2, drawn);
  if (!lua_isnil(L, functions)) lua = protect(L, call_reward, functions, drawn);
  if (lua != LUA_OK || drawn->c == NULL) return lua;
  return protect(L, call_coefficients, functions + 1, drawn);
}

/* ---- for those who judge and rank by values ---- */

const float *bind_values(lua_State *L, size_t *n, int index) {
  if (bind_is(L, index, &bind_reward_type)) {
    const fopo_reward *r = &get_reward(L, index)->reward;
    *n = r->value != NULL ? r->Y->cols : 0;
    return r->value;
  }
  const bind_array *a = bind_array_numbers(L, index, "value");
  *n = a->rows * a->cols;
  return a->data;
}

fopo_sessions bind_judged(lua_State *L, int index, int reward) {
  fopo_sessions s = *bind_get_sessions(L, index);
  if (lua_isnoneornil(L, reward)) return s;
  const fopo_reward *r = &get_reward(L, reward)->reward;
  if (r->kind != &fopo_reward_hits) {
    bind_refuse(L,
                "the reward is %s, which says nothing of other sessions; judge by "
                "fopo.reward.hits, or leave out reward",
                r->kind->title);
  }
  if (r->Y->cols != s.Y.cols) {
    bind_refuse(L,
                "the reward is over %zu items but the sessions are over %zu; make both of the "
                "same split",
                r->Y->cols, s.Y.cols);
  }
  s.value = r->value;
  return s;
}

/* native.reward_is_of(reward, sessions): whether it is looked up in Y of these. */
static int reward_is_of(lua_State *L) {
  const bind_reward *r = bind_get(L, 1, &bind_reward_type);
  return bind_return_boolean(L, r->reward.Y == &bind_any_sessions(L, 2)->Y);
}

const luaL_Reg bind_reward_functions[] = {{"rewards", rewards},
                                          {"reward_is_of", reward_is_of},
                                          {"reward_fit", reward_fit},
                                          {"reward_given", reward_given},
                                          {"reward_apply", reward_apply},
                                          {"reward_over", reward_over},
#define X(name) {"reward_" #name, new_##name},
#include "learn/rewards/rewards.def"
#undef X
                                          {NULL, NULL}};

static const luaL_Reg methods[] = {{"value", value}, {NULL, NULL}};

static const bind_field fields[] = {{"kind", field_kind, NULL},
                                    {"n", field_n, NULL},
                                    {"valued", field_valued, NULL},
                                    {"translate", field_translate, set_translate},
                                    {"parameters", field_parameters, NULL},
                                    {"loss", field_loss, NULL},
                                    {"constant_loss", field_constant_loss, NULL},
                                    {NULL, NULL, NULL}};

const bind_type bind_reward_type = {.name = "fopo.reward",
                                    .size = sizeof(bind_reward),
                                    .done = done,
                                    .methods = methods,
                                    .fields = fields};
