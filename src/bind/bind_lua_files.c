/* The sources of Lua code: files inside the program, and text on disk. Precompiled code is refused
 * everywhere, because damaged bytecode crashes the interpreter. The program's files see copies of
 * the standard globals: whatever the user assigns to type or table, weights can be saved. */
#include <string.h>

#include "bind/bind.h"
#include "term/chunk.h"

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
  if (lua_getfield(L, LUA_REGISTRYINDEX, FOPO_ENVIRONMENT) == LUA_TTABLE) {
    lua_setupvalue(L, -2, 1);
  } else {
    lua_pop(L, 1);
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

/* The function that was loaded, with the value at index `env` as its environment if that is not
 * 0; or nil and the message. */
static int loaded(lua_State *L, int status, int env) {
  if (status != LUA_OK) {
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  if (env > 0) {
    lua_pushvalue(L, env);
    if (lua_setupvalue(L, -2, 1) == NULL) lua_pop(L, 1);
  }
  return 1;
}

/* "t", or a mode that is always refused if text is not wanted. */
static const char *text_mode(lua_State *L, int index) {
  return strchr(luaL_optstring(L, index, "t"), 't') ? "t" : "";
}

enum { PIECE = 5 }; /* behind the arguments of load */

/* The next piece of a chunk, from the function at index 1; it is kept at index PIECE while it is
 * read. */
static const char *next_piece(lua_State *L, void *unused, size_t *n) {
  (void)unused;
  luaL_checkstack(L, 2, "too many nested functions");
  lua_pushvalue(L, 1);
  lua_call(L, 0, 1);
  if (!lua_isnil(L, -1) && !lua_isstring(L, -1)) {
    luaL_error(L, "the function that load reads from must return strings");
  }
  lua_replace(L, PIECE);
  return lua_tolstring(L, PIECE, n);
}

/* load(chunk, name, mode, env), text only. */
static int load(lua_State *L) {
  const char *mode = text_mode(L, 3);
  int status, given = !lua_isnone(L, 4);
  lua_settop(L, PIECE);
  if (lua_isstring(L, 1)) {
    size_t n;
    const char *text = lua_tolstring(L, 1, &n);
    status = luaL_loadbufferx(L, text, n, luaL_optstring(L, 2, text), mode);
  } else {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    status = lua_load(L, next_piece, NULL, luaL_optstring(L, 2, "=(load)"), mode);
  }
  return loaded(L, status, given ? 4 : 0);
}

/* loadfile(name, mode, env), text only. */
static int loadfile(lua_State *L) {
  const char *name = luaL_optstring(L, 1, NULL), *mode = text_mode(L, 2);
  int given = !lua_isnone(L, 3);
  lua_settop(L, 3);
  int status = luaL_loadfilex(L, name, mode);
  return loaded(L, status, given ? 3 : 0);
}

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

/* ---- the environment of the program's own files ---- */

/* Calls what the user has put into field upvalue 3 of table upvalue 2, so that output can be
 * captured; the stock function, upvalue 1, if that is no function or raises. */
static int call_users(lua_State *L) {
  int n = lua_gettop(L);
  luaL_checkstack(L, n + 2, "too many values to write");
  lua_pushvalue(L, lua_upvalueindex(3));
  if (lua_rawget(L, lua_upvalueindex(2)) == LUA_TFUNCTION &&
      !lua_rawequal(L, -1, lua_upvalueindex(1))) {
    for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
    if (lua_pcall(L, n, LUA_MULTRET, 0) == LUA_OK) return lua_gettop(L) - n;
  }
  lua_settop(L, n);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, n, LUA_MULTRET);
  return lua_gettop(L);
}

/* In the copy on the top of the table below it: field `name` calls what the user puts there. */
static void forward(lua_State *L, const char *name) {
  lua_getfield(L, -1, name);
  lua_pushvalue(L, -3);
  lua_pushstring(L, name);
  lua_pushcclosure(L, call_users, 3);
  lua_setfield(L, -2, name);
}

/* Pushes a copy of the table on the top. */
static void push_copy(lua_State *L) {
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, -3) != 0) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
}

void fopo_lua_seal(lua_State *L) {
  static const char *const libraries[] = {"string", "table", "math",      "io", "os",
                                          "utf8",   "debug", "coroutine", NULL};
  lua_pushglobaltable(L);
  push_copy(L); /* its _G is the user's */
  forward(L, "print");
  for (int i = 0; libraries[i]; i++) {
    lua_getfield(L, -1, libraries[i]);
    push_copy(L);
    if (strcmp(libraries[i], "io") == 0) forward(L, "write");
    lua_setfield(L, -3, libraries[i]);
    lua_pop(L, 1);
  }
  lua_setfield(L, LUA_REGISTRYINDEX, FOPO_ENVIRONMENT);
  lua_pop(L, 1);
}

/* _G[name] = f. */
static void replace(lua_State *L, const char *name, lua_CFunction f) {
  lua_pushcfunction(L, f);
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
