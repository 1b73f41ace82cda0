/* The functions of fopo.policy.custom and fopo.objective.custom: Lua that C calls from inside its
 * loops, wherever it needs queries (policy/custom.h), or the value of an objective
 * (device/objective.h). The objects that C then works on must stay as they are, so the functions
 * may use arrays alone, and nothing is closed before they return (bind_object.c). */
#include <stdio.h>
#include <string.h>

#include "bind/families.h"
#include "core/memory.h"
#include "core/progress.h"
#include "policy/custom.h"
#include "term/interrupt.h"

typedef struct {
  bind_object object; /* without a handle: policies keep it */
  fopo_custom custom;
  lua_State *L;          /* the main state */
  int queries, backward; /* references in its registry */
} bind_custom;

/* One call, on its way through lua_pcall. */
typedef struct {
  const bind_custom *functions;
  const float *theta;
  fopo_matrix x, V, Q;
  float *G, scale;
  int accumulate;
} request;

static void done(bind_object *o) {
  const bind_custom *c = (const bind_custom *)o;
  luaL_unref(c->L, LUA_REGISTRYINDEX, c->queries);
  luaL_unref(c->L, LUA_REGISTRYINDEX, c->backward);
}

static const bind_type custom_type = {
    .name = "fopo.custom", .size = sizeof(bind_custom), .done = done};

/* ---- calls ---- */

static void push_matrix(lua_State *L, fopo_matrix m) {
  bind_array *a = bind_array_unset(L, 0, m.rows, m.cols);
  for (size_t i = 0; i < m.rows; i++) {
    memcpy((float *)a->data + i * m.cols, fopo_matrix_row(m, i), m.cols * sizeof *m.x);
  }
}

static void push_parameters(lua_State *L, const request *r) {
  const fopo_custom *c = &r->functions->custom;
  float *at = (float *)r->theta;
  lua_createtable(L, 0, (int)c->n);
  for (size_t i = 0; i < c->n; i++) {
    const fopo_custom_parameter *p = &c->parameter[i];
    push_matrix(L, fopo_matrix_view(at, p->rows, p->cols));
    lua_setfield(L, -2, p->name);
    at += p->rows * p->cols;
  }
}

/* Protected: 1 the request. */
static int call_queries(lua_State *L) {
  const request *r = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, r->functions->queries);
  push_matrix(L, r->x);
  push_parameters(L, r);
  lua_call(L, 2, 1);
  bind_take_answer(
      L, &(bind_answer){"queries of policy.custom", "the query", r->Q.x, r->Q.rows, r->Q.cols});
  return 0;
}

static int call_backward(lua_State *L) {
  const request *r = lua_touserdata(L, 1);
  const fopo_custom *c = &r->functions->custom;
  float *G = r->G;
  lua_rawgeti(L, LUA_REGISTRYINDEX, r->functions->backward);
  push_matrix(L, r->x);
  push_matrix(L, r->V);
  push_parameters(L, r);
  lua_call(L, 3, 1);
  if (!lua_istable(L, -1)) {
    return bind_refuse(L,
                       "backward of policy.custom gave %s; a table of arrays, one for each of "
                       "%s, is needed",
                       bind_found(L, -1), c->names);
  }
  for (size_t i = 0; i < c->n; i++) {
    const fopo_custom_parameter *p = &c->parameter[i];
    char whose[80];
    size_t n = p->rows * p->cols;
    float *own = bind_scratch(L, n, sizeof *own);
    snprintf(whose, sizeof whose, "backward of policy.custom, for %s,", p->name);
    lua_getfield(L, -2, p->name);
    bind_take_answer(L, &(bind_answer){whose, "the gradient", own, p->rows, p->cols});
    for (size_t k = 0; k < n; k++) G[k] = (r->accumulate ? G[k] : 0.0f) + r->scale * own[k];
    lua_pop(L, 2);
    G += n;
  }
  return 0;
}

/* Calls on the state that has called C. What the function raises becomes a status. */
static int call(lua_CFunction protected, void *r) {
  lua_State *L = fopo_interrupt_running();
  if (L == NULL) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "a custom policy or objective calls Lua functions, on "
                                           "the main thread alone; use t:run");
  }
  if (!lua_checkstack(L, 8)) return fopo_fail(FOPO_ERR_MEMORY, "Lua's stack is full");
  lua_pushcfunction(L, protected);
  lua_pushlightuserdata(L, r);
  int before = bind_arrays_alone(1), lua = lua_pcall(L, 1, 0, 0), status = FOPO_OK;
  bind_arrays_alone(before);
  if (lua == LUA_OK) return FOPO_OK;
  if (lua == LUA_ERRMEM) status = FOPO_ERR_MEMORY;
  if (lua == LUA_ERRRUN) status = fopo_interrupted() ? FOPO_ERR_INTERRUPTED : FOPO_ERR_ARGUMENT;
  const char *why = luaL_tolstring(L, -1, NULL);
  status = fopo_fail(status, "%s", why);
  lua_pop(L, 2);
  return status;
}

static int queries(void *caller, fopo_matrix Q, const float *theta, fopo_matrix x) {
  request r = {.functions = caller, .theta = theta, .x = x, .Q = Q};
  return call(call_queries, &r);
}

static int backward(void *caller, float *G, const float *theta, fopo_matrix x, fopo_matrix V,
                    float scale, int accumulate) {
  request r = {.functions = caller,
               .theta = theta,
               .x = x,
               .V = V,
               .G = G,
               .scale = scale,
               .accumulate = accumulate};
  return call(call_backward, &r);
}

/* ---- making ---- */

/* A reference on option `name`, a function. */
static int refer(lua_State *L, const char *name) {
  luaL_checktype(L, bind_option(L, 1, name), LUA_TFUNCTION);
  return luaL_ref(L, LUA_REGISTRYINDEX);
}

/* The parameters in the order of the names at 1, which are a list. */
static void read_parameters(lua_State *L, fopo_custom *c) {
  int names = bind_option(L, 1, "names"), arrays = bind_option(L, 1, "parameters");
  size_t n = lua_rawlen(L, names);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, names, (lua_Integer)i + 1);
    const char *name = bind_string(L, -1, "the name of a parameter");
    const bind_array *a = bind_array_numbers(L, bind_option(L, arrays, name), name);
    bind_check(L, fopo_custom_add(c, name, a->rows, a->cols));
    lua_pop(L, 2);
  }
  lua_pop(L, 2);
}

/* Pushes their first values [1, n]. */
static bind_array *push_first(lua_State *L, const fopo_custom *c) {
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++) n += c->parameter[i].rows * c->parameter[i].cols;
  bind_array *theta = bind_array_unset(L, 0, 1, n);
  float *to = theta->data;
  int arrays = bind_option(L, 1, "parameters");
  for (size_t i = 0; i < c->n; i++) {
    const fopo_custom_parameter *p = &c->parameter[i];
    const bind_array *a = bind_array_numbers(L, bind_option(L, arrays, p->name), p->name);
    memcpy(to, a->data, p->rows * p->cols * sizeof *to);
    to += p->rows * p->cols;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return theta;
}

void bind_custom_attach(lua_State *L, bind_object *pi, int slot, fopo_policy_options *o) {
  fopo_custom custom = {.queries = queries, .backward = backward};
  read_parameters(L, &custom);
  o->given = bind_matrix(push_first(L, &custom));
  lua_insert(L, -2);
  int refs[] = {refer(L, "queries"), refer(L, "backward")};
  bind_custom *fresh = fopo_alloc(1, sizeof *fresh);
  if (fresh == NULL) {
    luaL_unref(L, LUA_REGISTRYINDEX, refs[0]);
    luaL_unref(L, LUA_REGISTRYINDEX, refs[1]);
    bind_fail(L, FOPO_ERR_MEMORY);
  }
  fresh->object = (bind_object){.type = &custom_type, .refs = 1};
  fresh->custom = custom;
  fresh->custom.caller = fresh;
  fresh->queries = refs[0];
  fresh->backward = refs[1];
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  fresh->L = lua_tothread(L, -1);
  lua_pop(L, 1);
  bind_keep(pi, slot, &fresh->object);
  bind_release(&fresh->object);
  o->custom = &fresh->custom;
}

/* ---- objectives ---- */

typedef struct {
  bind_own_objective *objective;
  double *value, *slope; /* slope NULL: it is not wanted */
  const double *R;
  size_t n;
} rule_request;

static void done_objective(bind_object *o) {
  const bind_own_objective *own = (const bind_own_objective *)o;
  luaL_unref(own->L, LUA_REGISTRYINDEX, own->function);
}

static void take_numbers(lua_State *L, double *to, const char *whose, size_t n) {
  float *own = bind_scratch(L, n, sizeof *own);
  lua_insert(L, -2);
  bind_take_answer(L, &(bind_answer){whose, "the number", own, n, 1});
  for (size_t i = 0; i < n; i++) to[i] = (double)own[i];
  lua_pop(L, 2);
}

/* Protected: 1 the request. */
static int call_rule(lua_State *L) {
  const rule_request *r = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, r->objective->function);
  bind_array *R = bind_array_unset(L, 0, r->n, 1);
  for (size_t i = 0; i < r->n; i++) ((float *)R->data)[i] = (float)r->R[i];
  lua_call(L, 1, 2);
  if (r->slope == NULL) {
    lua_pop(L, 1);
  } else {
    take_numbers(L, r->slope, "objective.custom, second, the slope", r->n);
  }
  take_numbers(L, r->value, "objective.custom", r->n);
  return 0;
}

static int rule(void *caller, double *value, double *slope, const double *R, size_t n) {
  rule_request r = {caller, value, slope, R, n};
  return call(call_rule, &r);
}

/* native.objective_custom(f, title) */
static int objective_custom(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  const char *title = bind_string(L, 2, "title");
  bind_own_objective *o = bind_new(L, &bind_objective_type, 0);
  snprintf(o->title, sizeof o->title, "%s", title);
  o->rule = (fopo_own_objective){rule, o, o->title};
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  o->L = lua_tothread(L, -1);
  lua_pushvalue(L, 1);
  o->function = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pop(L, 1);
  return 1;
}

/* o:values(R): the values of contexts by their expected rewards R [n, 1], and their slopes. */
static int values(lua_State *L) {
  size_t n = bind_array_count(bind_array_numbers(L, 2, "R"));
  double *R = bind_scratch(L, n, sizeof *R), *value = bind_scratch(L, n, sizeof *value);
  double *slope = bind_scratch(L, n, sizeof *slope);
  bind_array *both[] = {bind_array_new(L, 0, n, 1), bind_array_new(L, 0, n, 1)};
  const bind_array *given = bind_array_numbers(L, 2, "R");
  bind_push_again(L, 1, &bind_objective_type);
  bind_own_objective *o = bind_get(L, 1, &bind_objective_type);
  for (size_t i = 0; i < n; i++) R[i] = (double)((const float *)given->data)[i];
  bind_check(L, rule(o, value, slope, R, n));
  for (size_t i = 0; i < n; i++) {
    ((float *)both[0]->data)[i] = (float)value[i];
    ((float *)both[1]->data)[i] = (float)slope[i];
  }
  lua_pop(L, 1);
  return 2;
}

static int field_title(lua_State *L, bind_object *o) {
  return bind_return_string(L, ((const bind_own_objective *)o)->title);
}

const luaL_Reg bind_custom_functions[] = {{"objective_custom", objective_custom}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"values", values}, {NULL, NULL}};

static const bind_field fields[] = {{"title", field_title, NULL}, {NULL, NULL, NULL}};

const bind_type bind_objective_type = {.name = "fopo.objective",
                                       .size = sizeof(bind_own_objective),
                                       .done = done_objective,
                                       .methods = methods,
                                       .fields = fields};
