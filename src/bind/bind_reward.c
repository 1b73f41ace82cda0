/* Rewards: hits of sessions, or a Lua function. */
#include "bind/bind.h"

#include <string.h>

static bind_reward *get_reward(lua_State *L, int index) {
  return bind_get(L, index, &bind_reward_type);
}

/* native.reward_hits(sessions): 1 where the item stands in Y of the context. */
static int reward_hits(lua_State *L) {
  bind_get(L, 1, &bind_sessions_type);
  bind_reward *r = bind_new(L, &bind_reward_type, 1);
  bind_sessions *s = bind_get(L, 1, &bind_sessions_type);
  bind_keep(&r->head, 0, &s->head);
  r->reward = (fopo_reward){
      .kind = FOPO_REWARD_HITS, .Y = &s->sessions.Y, .contexts = s->sessions.Y.rows};
  return 1;
}

/* native.reward_custom(f, n): f(ids [B, S], rows [1, B]) gives the rewards [B, S] as an array or a
 * table of rows. n: the number of contexts it covers; any where left out. */
static int reward_custom(lua_State *L) {
  size_t n = lua_isnoneornil(L, 2) ? 0 : bind_count(L, 2, "n", 1, UINT32_MAX);
  if (!lua_isfunction(L, 1)) {
    const char *found = bind_found(L, 1);
    return bind_fail(L, fopo_fail(FOPO_ERR_ARGUMENT, "a custom reward needs a function, not %.80s",
                                  found));
  }
  bind_reward *r = bind_new(L, &bind_reward_type, 1);
  r->reward = (fopo_reward){.kind = FOPO_REWARD_CUSTOM, .contexts = n};
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

/* ---- the function's answer ---- */

/* S numbers of the table at `at` into r; they are those of row b. */
static void take_row(lua_State *L, float *r, int at, size_t first, size_t S, size_t b) {
  char what[64];
  for (size_t s = 0; s < S; s++) {
    if (lua_rawgeti(L, at, (lua_Integer)(first + s + 1)) != LUA_TNUMBER) {
      snprintf(what, sizeof what, "the reward of draw %zu of context %zu", s + 1, b + 1);
      bind_number(L, -1, what);
    }
    r[s] = (float)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
}

static int misfit(lua_State *L, const fopo_drawn *d, const char *found) {
  return bind_fail(L, fopo_fail(FOPO_ERR_ARGUMENT, "the reward's function gave %s; an array "
                                "[%zu, %zu] or a table of %zu rows with %zu numbers is needed",
                                found, d->B, d->S, d->B, d->S));
}

static void take_table(lua_State *L, const fopo_drawn *d, int at) {
  char found[80];
  size_t n = lua_rawlen(L, at);
  int flat = lua_rawgeti(L, at, 1) == LUA_TNUMBER;
  lua_pop(L, 1);
  if (n != (flat ? d->B * d->S : d->B)) {
    snprintf(found, sizeof found, "a table of %zu %s", n, flat ? "numbers" : "rows");
    misfit(L, d, found);
  }
  for (size_t b = 0; b < d->B; b++) {
    if (flat) {
      take_row(L, d->reward + b * d->S, at, b * d->S, d->S, b);
      continue;
    }
    int type = lua_rawgeti(L, at, (lua_Integer)b + 1);
    if (type != LUA_TTABLE || lua_rawlen(L, -1) != d->S) {
      snprintf(found, sizeof found, "a row %zu of %zu numbers", b + 1,
               type == LUA_TTABLE ? (size_t)lua_rawlen(L, -1) : 0);
      misfit(L, d, found);
    }
    take_row(L, d->reward + b * d->S, lua_gettop(L), 0, d->S, b);
    lua_pop(L, 1);
  }
}

static void take_values(lua_State *L, const fopo_drawn *d, int at) {
  char found[80];
  if (lua_istable(L, at)) {
    take_table(L, d, at);
    return;
  }
  if (!bind_is(L, at, &bind_array_type)) misfit(L, d, bind_found(L, at));
  bind_array *values = bind_array_numbers(L, at, "what the reward's function gave");
  if (values->rows != d->B || values->cols != d->S) {
    snprintf(found, sizeof found, "an array [%zu, %zu]", values->rows, values->cols);
    misfit(L, d, found);
  }
  memcpy(d->reward, values->data, d->B * d->S * sizeof *d->reward);
}

/* Protected: 1 the function, 2 the draws. */
static int call(lua_State *L) {
  const fopo_drawn *d = lua_touserdata(L, 2);
  lua_pushvalue(L, 1);
  bind_array *ids = bind_array_new(L, 1, d->B, d->S);
  memcpy(ids->data, d->ids, d->B * d->S * sizeof *d->ids);
  bind_array *rows = bind_array_new(L, 1, 1, d->B);
  memcpy(rows->data, d->rows, d->B * sizeof *d->rows);
  lua_call(L, 2, 1);
  take_values(L, d, lua_gettop(L));
  return 0;
}

int bind_reward_call(lua_State *L, int function, const fopo_drawn *drawn) {
  lua_pushcfunction(L, call);
  lua_pushvalue(L, function);
  lua_pushlightuserdata(L, (void *)drawn);
  return lua_pcall(L, 2, 0, 0);
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
    return bind_fail(L, fopo_fail(FOPO_ERR_ARGUMENT, "ids has %zu rows but %zu contexts are given; "
                                  "give one for each", B, n));
  }
  uint32_t *ids = bind_scratch(L, B * S, sizeof *ids);
  bind_array *out = bind_array_new(L, 0, B, S);
  int top = lua_gettop(L);
  luaL_checkstack(L, 8, NULL);
  lua_getiuservalue(L, 1, 1);
  memcpy(ids, bind_array_ids(L, 2, "ids")->data, B * S * sizeof *ids);
  r = get_reward(L, 1);
  if (r->reward.kind == FOPO_REWARD_CUSTOM) {
    fopo_drawn drawn = {.ids = ids, .rows = rows, .reward = out->data, .B = B, .S = S};
    if (bind_reward_call(L, top + 1, &drawn) != LUA_OK) return lua_error(L);
  } else {
    bind_check(L, fopo_reward_fill(out->data, &r->reward, ids, rows, B, S));
  }
  lua_settop(L, top);
  return 1;
}

static int field(lua_State *L, bind_object *o, const char *name) {
  const fopo_reward *r = &((bind_reward *)o)->reward;
  if (strcmp(name, "kind") == 0) {
    lua_pushstring(L, r->kind == FOPO_REWARD_HITS ? "hits" : "custom");
  } else if (strcmp(name, "n") == 0) {
    r->contexts ? lua_pushinteger(L, (lua_Integer)r->contexts) : lua_pushnil(L);
  } else {
    return 0;
  }
  return 1;
}

const luaL_Reg bind_reward_functions[] = {
    {"reward_hits", reward_hits}, {"reward_custom", reward_custom}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"value", value}, {NULL, NULL}};

const bind_type bind_reward_type = {.name = "fopo.reward",
                                    .size = sizeof(bind_reward),
                                    .methods = methods,
                                    .fields = "kind n",
                                    .get = field};
