/* The sources of Lua code: files inside the program, and text on disk. Precompiled code is refused
 * everywhere, because damaged bytecode crashes the interpreter. */
#include <string.h>

#include "bind/bind.h"

/* Made by scripts/tools/embed_lua.sh; ended by {0}. */
extern const struct {
  const char *name; /* "fopo/help.lua" */
  const unsigned char *text;
  size_t bytes;
} fopo_lua_files[];

/* ---- the program's own files ---- */

/* The index of the file in the list, or -1. */
static int find_file(const char *name) {
  for (int i = 0; fopo_lua_files[i].name; i++) {
    if (strcmp(fopo_lua_files[i].name, name) == 0) return i;
  }
  return -1;
}

/* Searcher: "fopo.help" is fopo/help.lua or fopo/help/init.lua. */
static int search_inside(lua_State *L) {
  const char *module = luaL_checkstring(L, 1);
  const char *stem = luaL_gsub(L, module, ".", "/");
  const char *name = lua_pushfstring(L, "%s.lua", stem);
  int i = find_file(name);
  if (i < 0) {
    name = lua_pushfstring(L, "%s/init.lua", stem);
    i = find_file(name);
  }
  if (i < 0) {
    lua_pushfstring(L, "no file '%s.lua' inside the program", stem);
    return 1;
  }
  const char *chunk = lua_pushfstring(L, "@%s", name);
  if (luaL_loadbufferx(L, (const char *)fopo_lua_files[i].text, fopo_lua_files[i].bytes, chunk,
                       "t") != LUA_OK) {
    return luaL_error(L, "error loading module '%s':\n\t%s", module, lua_tostring(L, -1));
  }
  lua_pushstring(L, chunk);
  return 2;
}

/* Searcher: package.path, text only. */
static int search_disk(lua_State *L) {
  const char *module = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_getfield(L, lua_upvalueindex(1), "searchpath");
  lua_pushvalue(L, 1);
  if (lua_getfield(L, lua_upvalueindex(1), "path") != LUA_TSTRING) {
    return luaL_error(L, "'package.path' must be a string");
  }
  lua_call(L, 2, 2);
  if (lua_isnil(L, -2)) return 1;
  lua_pop(L, 1);
  const char *file = lua_tostring(L, -1);
  if (luaL_loadfilex(L, file, "t") != LUA_OK) {
    return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", module, file,
                      lua_tostring(L, -1));
  }
  lua_pushstring(L, file);
  return 2;
}

/* ---- load, loadfile, dofile ---- */

/* The mode without precompiled code: "t", or "" if text is not wanted either. */
static const char *text_mode(lua_State *L, int index) {
  const char *mode = luaL_optstring(L, index, "t");
  return strchr(mode, 't') ? "t" : "";
}

/* Calls the stock function (upvalue 1) with its mode (argument `at`) restricted to text. */
static int call_stock(lua_State *L, int at) {
  const char *mode = text_mode(L, at);
  if (lua_gettop(L) < at) lua_settop(L, at);
  lua_pushstring(L, mode);
  lua_replace(L, at);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* load(chunk, name, mode, env), text only. */
static int load(lua_State *L) { return call_stock(L, 3); }

/* loadfile(name, mode, env), text only. */
static int loadfile(lua_State *L) { return call_stock(L, 2); }

static int after_dofile(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L) - 1;
}

/* dofile(name), text only; may yield. */
static int dofile(lua_State *L) {
  const char *name = luaL_optstring(L, 1, NULL);
  lua_settop(L, 1);
  if (luaL_loadfilex(L, name, "t") != LUA_OK) return lua_error(L);
  lua_callk(L, 0, LUA_MULTRET, 0, after_dofile);
  return after_dofile(L, 0, 0);
}

/* _G[name] = f with the stock function as its upvalue. */
static void replace(lua_State *L, const char *name, lua_CFunction f) {
  lua_getglobal(L, name);
  lua_pushcclosure(L, f, 1);
  lua_setglobal(L, name);
}

int fopo_lua_open(lua_State *L) {
  replace(L, "load", load);
  replace(L, "loadfile", loadfile);
  replace(L, "dofile", dofile);

  /* package.searchers: preload, the program's files, disk, then the stock C searchers. */
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchers");
  for (lua_Integer i = (lua_Integer)lua_rawlen(L, -1); i >= 3; i--) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, search_inside);
  lua_rawseti(L, -2, 2);
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, search_disk, 1);
  lua_rawseti(L, -2, 3);

  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_fopo_native);
  lua_setfield(L, -2, "fopo.native");
  lua_pushcfunction(L, luaopen_fopo_term);
  lua_setfield(L, -2, "fopo.term");
  lua_pop(L, 3);
  return 0;
}
