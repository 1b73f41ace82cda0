/* Arguments, options, results and errors. An error is a sentence as the core's, after the place in
 * the user's own file. */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bind/bind.h"
#include "mips/index.h"

/* Pushes "script.lua:12: ", the nearest place outside fopo's own Lua files, or "". */
static void push_place(lua_State *L) {
  lua_Debug place;
  for (int level = 1; lua_getstack(L, level, &place); level++) {
    lua_getinfo(L, "Sl", &place);
    if (place.currentline > 0 && strncmp(place.source, "@fopo/", 6) != 0) {
      lua_pushfstring(L, "%s:%d: ", place.short_src, place.currentline);
      return;
    }
  }
  lua_pushliteral(L, "");
}

int bind_fail(lua_State *L, int status) {
  luaL_checkstack(L, 4, NULL);
  /* The sentence is copied first: finding the place may run finalisers that fail and replace it. */
  lua_pushstring(L, fopo_error_sentence());
  if (status != FOPO_ERR_INTERRUPTED) {
    push_place(L);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  lua_error(L);
  __builtin_unreachable(); /* Lua does not declare that */
}

int bind_refuse(lua_State *L, const char *format, ...) {
  char sentence[1024]; /* as long as the core keeps */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  bind_fail(L, fopo_fail(FOPO_ERR_ARGUMENT, "%s", sentence));
}

void bind_check(lua_State *L, int status) {
  if (status != FOPO_OK) bind_fail(L, status);
}

int bind_return_outcome(lua_State *L, int status) {
  if (status == FOPO_OK) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, fopo_error_sentence());
  return 2;
}

const char *bind_found(lua_State *L, int index) {
  luaL_checkstack(L, 4, NULL);
  switch (lua_type(L, index)) {
  case LUA_TNONE:
  case LUA_TNIL: lua_pushliteral(L, "nil"); break;
  case LUA_TNUMBER: lua_pushvalue(L, index); break;
  case LUA_TBOOLEAN: lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false"); break;
  case LUA_TUSERDATA:
    if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING) break;
    /* fall through */
  default: lua_pushfstring(L, "a %s", luaL_typename(L, index)); break;
  }
  return lua_tostring(L, -1);
}

static int wrong(lua_State *L, int index, const char *what, const char *wanted) {
  const char *found = bind_found(L, index);
  return bind_refuse(L, "%s must be %s, not %.80s", what, wanted, found);
}

static lua_Integer integer(lua_State *L, int index, const char *what) {
  int exact = 0;
  lua_Integer value = 0;
  if (lua_type(L, index) == LUA_TNUMBER) value = lua_tointegerx(L, index, &exact);
  if (!exact) wrong(L, index, what, "a whole number");
  return value;
}

uint64_t bind_seed(lua_State *L, int index) { return (uint64_t)integer(L, index, "seed"); }

size_t bind_count(lua_State *L, int index, const char *what, size_t least, size_t most) {
  lua_Integer value = integer(L, index, what);
  if (value < 0 || (size_t)value < least || (size_t)value > most) {
    if (most == SIZE_MAX) {
      bind_refuse(L, "%s is %lld; use %zu or more", what, (long long)value, least);
    }
    bind_refuse(L, "%s is %lld; use %zu to %zu", what, (long long)value, least, most);
  }
  return (size_t)value;
}

uint32_t bind_step(lua_State *L, int index) {
  return lua_isnoneornil(L, index) ? 0 : (uint32_t)bind_count(L, index, "step", 0, UINT32_MAX);
}

double bind_number(lua_State *L, int index, const char *what) {
  if (lua_type(L, index) != LUA_TNUMBER) wrong(L, index, what, "a number");
  return lua_tonumber(L, index);
}

float bind_float(lua_State *L, int index, const char *what) {
  double value = bind_number(L, index, what);
  if (isfinite(value) && fabs(value) > (double)FLT_MAX) {
    bind_refuse(L, "%s is %g, which no float32 holds", what, value);
  }
  return (float)value;
}

uint32_t bind_id(lua_State *L, int index, const char *what, size_t n) {
  lua_Integer value = integer(L, index, what);
  if (value < 1 || (uint64_t)value > n) {
    if (n == 0) bind_refuse(L, "%s %lld does not exist: there are none", what, (long long)value);
    bind_refuse(L, "%s %lld does not exist; use 1 to %zu", what, (long long)value, n);
  }
  return (uint32_t)(value - 1);
}

int bind_boolean(lua_State *L, int index, const char *what) {
  if (lua_isnoneornil(L, index)) return 0;
  if (!lua_isboolean(L, index)) wrong(L, index, what, "true or false");
  return lua_toboolean(L, index);
}

const char *bind_string(lua_State *L, int index, const char *what) {
  if (lua_type(L, index) != LUA_TSTRING) wrong(L, index, what, "a string");
  return lua_tostring(L, index);
}

const char *bind_path(lua_State *L, int index) {
  const char *path = bind_string(L, index, "path");
  if (*path == '\0' || strlen(path) != lua_rawlen(L, index)) {
    bind_refuse(L, "the path is empty or has a zero byte in it");
  }
  return path;
}

const char **bind_paths(lua_State *L, int index, size_t *n) {
  int is_list = lua_istable(L, index);
  *n = is_list ? lua_rawlen(L, index) : 1;
  if (*n == 0) bind_refuse(L, "the list of files is empty");
  const char **paths = bind_scratch(L, *n, sizeof *paths);
  luaL_checkstack(L, 4, NULL);
  for (size_t i = 0; i < *n; i++) {
    if (is_list) {
      lua_rawgeti(L, index, (lua_Integer)i + 1);
    } else {
      lua_pushvalue(L, index);
    }
    paths[i] = bind_path(L, lua_gettop(L));
    lua_pop(L, 1); /* the list keeps the string */
  }
  return paths;
}

void bind_table(lua_State *L, int index, const char *what) {
  luaL_checkstack(L, 8, NULL);
  if (!lua_istable(L, index)) wrong(L, index, what, "a table");
}

int bind_option(lua_State *L, int index, const char *name) {
  bind_table(L, index, "the options");
  lua_pushstring(L, name);
  lua_rawget(L, index);
  return lua_gettop(L);
}

int bind_has(lua_State *L, int index, const char *name) {
  int present = !lua_isnil(L, bind_option(L, index, name));
  lua_pop(L, 1);
  return present;
}

int bind_choice(lua_State *L, int index, const char *what, const char *const *choices) {
  const char *choice = bind_string(L, index, what);
  for (int i = 0; choices[i]; i++) {
    if (strcmp(choice, choices[i]) == 0) return i;
  }
  lua_pushliteral(L, "");
  for (int i = 0; choices[i]; i++) {
    lua_pushfstring(L, i ? ", %s" : "%s", choices[i]);
    lua_concat(L, 2);
  }
  return bind_refuse(L, "%s must be one of %s, not \"%.80s\"", what, lua_tostring(L, -1), choice);
}

/* ---- options ---- */

/* Each pops the field that it has read. */
size_t bind_option_count(lua_State *L, int index, const char *name, size_t least, size_t most) {
  size_t value = bind_count(L, bind_option(L, index, name), name, least, most);
  lua_pop(L, 1);
  return value;
}

size_t bind_option_count_or(lua_State *L, int index, const char *name, size_t least, size_t most,
                            size_t fallback) {
  return bind_has(L, index, name) ? bind_option_count(L, index, name, least, most) : fallback;
}

double bind_option_number(lua_State *L, int index, const char *name) {
  double value = bind_number(L, bind_option(L, index, name), name);
  lua_pop(L, 1);
  return value;
}

double bind_option_number_or(lua_State *L, int index, const char *name, double fallback) {
  return bind_has(L, index, name) ? bind_option_number(L, index, name) : fallback;
}

int bind_option_boolean(lua_State *L, int index, const char *name) {
  int value = bind_boolean(L, bind_option(L, index, name), name);
  lua_pop(L, 1);
  return value;
}

const char *bind_option_string(lua_State *L, int index, const char *name) {
  int at = bind_option(L, index, name);
  return lua_isnil(L, at) ? NULL : bind_string(L, at, name);
}

int bind_option_choice(lua_State *L, int index, const char *name, const char *const *choices) {
  int value = bind_choice(L, bind_option(L, index, name), name, choices);
  lua_pop(L, 1);
  return value;
}

uint64_t bind_option_seed(lua_State *L, int index) {
  uint64_t seed = bind_seed(L, bind_option(L, index, "seed"));
  lua_pop(L, 1);
  return seed;
}

/* ---- results ---- */

void bind_set_number(lua_State *L, const char *name, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, name);
}

void bind_set_count(lua_State *L, const char *name, uint64_t value) {
  lua_pushinteger(L, (lua_Integer)value);
  lua_setfield(L, -2, name);
}

void bind_set_boolean(lua_State *L, const char *name, int value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, name);
}

void bind_set_string(lua_State *L, const char *name, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, name);
}

void *bind_scratch(lua_State *L, size_t n, size_t size) {
  luaL_checkstack(L, 4, NULL);
  if (n > SIZE_MAX / 2 / size) {
    bind_fail(L, fopo_fail(FOPO_ERR_MEMORY, "%zu values do not fit into memory", n));
  }
  return lua_newuserdatauv(L, n * size, 0);
}

void bind_push_id(lua_State *L, uint32_t id) {
  if (id == FOPO_NO_ITEM) {
    lua_pushnil(L);
  } else {
    lua_pushinteger(L, (lua_Integer)id + 1);
  }
}

void bind_push_list(lua_State *L, const double *x, size_t n) {
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushnumber(L, x[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

void bind_push_floats(lua_State *L, const float *x, size_t n) {
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushnumber(L, (double)x[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

void bind_push_counts(lua_State *L, const size_t *x, size_t n) {
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushinteger(L, (lua_Integer)x[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}
