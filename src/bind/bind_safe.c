/* fopo --safe, the part of Lua: what scripts must not do is taken from the standard libraries, as
 * they see them, and the modules in C are the program's own files' alone (FOPO_ENVIRONMENT). The
 * border is term/safe.h, and holds where this does not; this says in a sentence what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind/bind.h"
#include "core/memory.h"
#include "term/chunk.h"

/* What scripts keep of a library; everything else in it is refused, with the remedy. */
typedef struct {
  const char *library;
  const char *kept; /* names, each between two spaces */
  const char *remedy;
} rule;

static const rule rules[] = {
    {"io", " write flush stdout stderr type ",
     "data.read and fopo.array.load read files, and an object's save writes one below the current "
     "folder"},
    {"os", " clock date difftime exit getenv setlocale time ",
     "run programs, and move or remove files, outside of fopo"},
    {"package", " config loaded path preload searchers searchpath ",
     "libraries in C can do anything; require takes files in Lua"},
    {"debug", " traceback ", "error messages have a traceback without it"},
};

/* Raises; upvalue 1: the name, 2: the remedy. */
static int refused(lua_State *L) {
  return luaL_error(L, "%s is refused by --safe: %s", lua_tostring(L, lua_upvalueindex(1)),
                    lua_tostring(L, lua_upvalueindex(2)));
}

static int is_kept(const rule *r, const char *name) {
  char wanted[64];
  return snprintf(wanted, sizeof wanted, " %s ", name) < (int)sizeof wanted &&
         strstr(r->kept, wanted) != NULL;
}

/* Replaces the functions of the library on the top that are not kept, and removes other values. */
static void restrict_library(lua_State *L, const rule *r) {
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    int is_function = lua_isfunction(L, -1);
    const char *name = lua_tostring(L, -2);
    lua_pop(L, 1);
    if (is_kept(r, name)) continue;
    lua_pushvalue(L, -1);
    if (is_function) {
      lua_pushfstring(L, "%s.%s", r->library, name);
      lua_pushstring(L, r->remedy);
      lua_pushcclosure(L, refused, 2);
    } else {
      lua_pushnil(L);
    }
    lua_rawset(L, -4); /* an assignment to a field that exists: lua_next allows it */
  }
}

/* package.searchers without the two that load C, package.cpath without a folder. */
static void remove_c_searchers(lua_State *L) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchers");
  for (lua_Integer i = (lua_Integer)lua_rawlen(L, -1); i > 3; i--) {
    lua_pushnil(L);
    lua_rawseti(L, -2, i);
  }
  lua_pushliteral(L, "");
  lua_setfield(L, -3, "cpath");
  lua_pop(L, 2);
}

/* require of the program's own files: a module in C from the table in upvalue 1, else the stock
 * function, upvalue 2. */
static int own_require(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  if (lua_getfield(L, lua_upvalueindex(1), name) != LUA_TNIL) return 1;
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

/* Moves the modules in C to where scripts do not reach: neither by require nor by package. */
static void hide_modules(lua_State *L) {
  static const luaL_Reg modules[] = {
      {"fopo.native", luaopen_fopo_native}, {"fopo.term", luaopen_fopo_term}, {NULL, NULL}};
  lua_getfield(L, LUA_REGISTRYINDEX, FOPO_ENVIRONMENT);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_newtable(L);
  for (const luaL_Reg *m = modules; m->name != NULL; m++) {
    lua_pushcfunction(L, m->func);
    lua_call(L, 0, 1);
    lua_setfield(L, -2, m->name);
    lua_pushnil(L);
    lua_setfield(L, -3, m->name);
  }
  lua_getfield(L, -3, "require");
  lua_pushcclosure(L, own_require, 2);
  lua_setfield(L, -3, "require");
  lua_pop(L, 2);
}

void fopo_lua_safe(lua_State *L) {
  hide_modules(L);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    lua_getglobal(L, rules[i].library);
    restrict_library(L, &rules[i]);
    lua_pop(L, 1);
  }
  remove_c_searchers(L);
}

/* Lua's allocator under fopo_memory_limit. `before` is a type where there is no block yet. */
static void *allocate(void *unused, void *block, size_t before, size_t after) {
  (void)unused;
  if (block == NULL) before = 0;
  if (!fopo_memory_charge(before, after)) return NULL;
  if (after == 0) {
    free(block);
    return NULL;
  }
  void *changed = realloc(block, after);
  if (changed == NULL) fopo_memory_charge(after, before);
  return changed;
}

void fopo_lua_limit(lua_State *L, uint64_t bytes) {
  fopo_memory_limit(bytes);
  fopo_memory_charge(0, (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB));
  lua_setallocf(L, allocate, NULL);
}
