/* All four look for matches in the same way: next_match goes from one to the next. */
#include "term/pattern_lua.h"

#include <ctype.h>
#include <lauxlib.h>
#include <string.h>

#include "term/pattern.h"

enum { FEW = 16 }; /* items of a pattern that need no allocation */

typedef struct {
  const char *text, *end;     /* the subject */
  const char *at, *last;      /* where the next match is looked for; where the one before ended */
  const char *first, *behind; /* the match at hand */
  int anchored;               /* ^: only at the start */
  fopo_pattern pattern;
} search;

/* ---- one match after another ---- */

/* Arguments 1 and 2 are the subject and the pattern, 3 says where to begin if `from`. 0: that is
 * behind the subject. */
static int begin(search *m, lua_State *L, int from) {
  size_t n;
  m->text = m->at = luaL_checklstring(L, 1, &n);
  m->end = m->text + n;
  m->last = NULL;
  luaL_checkstring(L, 2);
  lua_Integer start = from ? luaL_optinteger(L, 3, 1) : 1;
  if (start < 0) { /* counted from the end */
    start = start < -(lua_Integer)n ? 1 : start + (lua_Integer)n + 1;
  } else if (start == 0) {
    start = 1;
  }
  if ((size_t)start - 1 > n) return 0;
  m->at += start - 1;
  return 1;
}

/* Compiles the pattern. With `anchors` a ^ at its start is no character. Pushes the room of a long
 * one. */
static void compile(search *m, lua_State *L, fopo_pattern_item few[FEW], int anchors) {
  size_t n;
  const char *p = lua_tolstring(L, 2, &n);
  m->anchored = anchors && n > 0 && *p == '^';
  if (n > FEW) few = lua_newuserdatauv(L, n * sizeof *few, 0);
  fopo_pattern_compile(&m->pattern, few, p + m->anchored, n - (size_t)m->anchored);
}

/* Finds [first, behind), which does not end where the match before it ended. */
static int next_match(search *m, lua_State *L) {
  for (m->first = m->at; m->first <= m->end; m->first++) {
    int found = fopo_pattern_match(&m->pattern, m->text, m->end, m->first, &m->behind);
    if (found < 0) luaL_error(L, "%s", m->pattern.error);
    if (found && m->behind != m->last) {
      m->at = m->last = m->behind;
      return 1;
    }
    if (m->anchored) return 0;
  }
  return 0;
}

/* ---- captures ---- */

/* Without captures the first is the whole match. */
static void push_capture(search *m, lua_State *L, int i) {
  if (i == 0 && m->pattern.captures_n == 0) {
    lua_pushlstring(L, m->first, (size_t)(m->behind - m->first));
    return;
  }
  if (i >= m->pattern.captures_n) luaL_error(L, "invalid capture index %%%d", i + 1);
  const fopo_capture *c = &m->pattern.captures[i];
  switch (c->kind) {
  case FOPO_CAPTURE_POSITION: lua_pushinteger(L, c->at - m->text + 1); break;
  case FOPO_CAPTURE_TEXT: lua_pushlstring(L, c->at, c->n); break;
  default: luaL_error(L, "unfinished capture");
  }
}

static int push_captures(search *m, lua_State *L) {
  int n = m->pattern.captures_n;
  luaL_checkstack(L, n + 1, "too many captures");
  for (int i = 0; i < n; i++) push_capture(m, L, i);
  return n;
}

static int push_captures_or_match(search *m, lua_State *L) {
  if (m->pattern.captures_n > 0) return push_captures(m, L);
  push_capture(m, L, 0);
  return 1;
}

/* ---- find and match ---- */

static int push_range(lua_State *L, const search *m, const char *first, size_t n) {
  lua_pushinteger(L, first - m->text + 1);
  lua_pushinteger(L, first - m->text + (lua_Integer)n);
  return 2;
}

/* The text in argument 2, as it stands. */
static int find_plain(search *m, lua_State *L) {
  size_t n;
  const char *text = lua_tolstring(L, 2, &n);
  const char *found = memmem(m->at, (size_t)(m->end - m->at), text, n);
  if (found != NULL) return push_range(L, m, found, n);
  luaL_pushfail(L);
  return 1;
}

static int is_plain(lua_State *L) {
  size_t n;
  const char *p = lua_tolstring(L, 2, &n);
  for (size_t i = 0; i < n; i++) {
    if (p[i] != '\0' && strchr("^$*+?.([%-", p[i]) != NULL) return 0;
  }
  return 1;
}

static int find(lua_State *L) {
  search m;
  fopo_pattern_item few[FEW];
  if (!begin(&m, L, 1)) {
    luaL_pushfail(L);
    return 1;
  }
  if (lua_toboolean(L, 4) || is_plain(L)) return find_plain(&m, L);
  compile(&m, L, few, 1);
  if (next_match(&m, L)) {
    push_range(L, &m, m.first, (size_t)(m.behind - m.first));
    return 2 + push_captures(&m, L);
  }
  luaL_pushfail(L);
  return 1;
}

static int match(lua_State *L) {
  search m;
  fopo_pattern_item few[FEW];
  if (begin(&m, L, 1)) {
    compile(&m, L, few, 1);
    if (next_match(&m, L)) return push_captures_or_match(&m, L);
  }
  luaL_pushfail(L);
  return 1;
}

/* ---- gmatch ---- */

typedef struct {
  search search; /* the subject and the pattern are upvalues, which keep them */
  fopo_pattern_item items[];
} walk;

static int next_of_walk(lua_State *L) {
  search *m = &((walk *)lua_touserdata(L, lua_upvalueindex(3)))->search;
  return next_match(m, L) ? push_captures_or_match(m, L) : 0;
}

static int gmatch(lua_State *L) {
  search m;
  size_t n;
  int inside = begin(&m, L, 1);
  const char *p = lua_tolstring(L, 2, &n);
  lua_settop(L, 2);
  walk *w = lua_newuserdatauv(L, sizeof *w + n * sizeof *w->items, 0);
  w->search = m;
  w->search.anchored = 0;
  if (!inside) w->search.at = m.end + 1; /* nothing is found */
  fopo_pattern_compile(&w->search.pattern, w->items, p, n);
  lua_pushcclosure(L, next_of_walk, 3);
  return 1;
}

/* ---- gsub ---- */

/* Adds argument 3, in which %0 is the match, %1 to %9 are captures, and %% is a %. */
static void add_text(search *m, lua_State *L, luaL_Buffer *out) {
  size_t n;
  const char *r = lua_tolstring(L, 3, &n), *end = r + n;
  for (; r < end; r++) {
    if (*r != '%') {
      luaL_addchar(out, *r);
      continue;
    }
    r++;
    if (r < end && *r == '%') {
      luaL_addchar(out, '%');
    } else if (r < end && *r == '0') {
      luaL_addlstring(out, m->first, (size_t)(m->behind - m->first));
    } else if (r < end && isdigit((unsigned char)*r)) {
      push_capture(m, L, *r - '1');
      luaL_addvalue(out);
    } else {
      luaL_error(L, "invalid use of '%%' in replacement string");
    }
  }
}

/* Pushes what a function or a table puts in the place of the match; 0: the match stays. */
static int push_replacement(search *m, lua_State *L) {
  if (lua_isfunction(L, 3)) {
    lua_pushvalue(L, 3);
    lua_call(L, push_captures_or_match(m, L), 1);
  } else {
    push_capture(m, L, 0);
    lua_gettable(L, 3);
  }
  if (lua_toboolean(L, -1) && !lua_isstring(L, -1)) {
    luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  }
  return lua_toboolean(L, -1);
}

static int gsub(lua_State *L) {
  search m;
  luaL_Buffer out;
  fopo_pattern_item few[FEW];
  begin(&m, L, 0);
  luaL_argexpected(L, lua_isstring(L, 3) || lua_isfunction(L, 3) || lua_istable(L, 3), 3,
                   "string/function/table");
  lua_Integer most = luaL_optinteger(L, 4, LUA_MAXINTEGER), made = 0;
  const char *rest = m.text; /* what is not yet in the result */
  compile(&m, L, few, 1);
  luaL_buffinit(L, &out);
  while (made < most && next_match(&m, L)) {
    made++;
    luaL_addlstring(&out, rest, (size_t)(m.first - rest));
    rest = m.behind;
    if (lua_isstring(L, 3)) {
      add_text(&m, L, &out);
    } else if (push_replacement(&m, L)) {
      luaL_addvalue(&out);
    } else {
      lua_pop(L, 1);
      luaL_addlstring(&out, m.first, (size_t)(m.behind - m.first));
    }
    if (m.anchored) break;
  }
  luaL_addlstring(&out, rest, (size_t)(m.end - rest));
  luaL_pushresult(&out);
  lua_pushinteger(L, made);
  return 2;
}

void fopo_pattern_install(lua_State *L) {
  static const luaL_Reg own[] = {
      {"find", find}, {"match", match}, {"gmatch", gmatch}, {"gsub", gsub}, {NULL, NULL}};
  lua_getglobal(L, "string");
  luaL_setfuncs(L, own, 0);
  lua_pop(L, 1);
}
