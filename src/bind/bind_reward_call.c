/* Calling the function of a custom reward: the draws as arrays, and what it gives as rewards. */
#include <string.h>

#include "bind/families.h"

/* Reads S numbers of the table at `at`, the rewards of row b, into r. */
static void take_row(lua_State *L, float *r, int at, size_t first, size_t S, size_t b) {
  char what[80];
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
  return bind_refuse(L,
                     "the reward's function gave %s; an array [%zu, %zu] or a table of "
                     "%zu rows with %zu numbers is needed",
                     found, d->B, d->S, d->B, d->S);
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
