/* A backtracking matcher. An item is a character, a class, a set or a dot, with its quantifier;
 * captures are undone when the rest does not match. What can follow an item without a choice is a
 * loop, so that the depth of calls is bounded by the number of choices. */
#include "term/pattern.h"

#include <ctype.h>
#include <lauxlib.h>
#include <string.h>

#include "term/interrupt.h"

enum { CAPTURES = 32, DEPTH = 200, POLL = 10000 /* items between two looks at the flag */ };
enum { OPEN = -1, POSITION = -2 };

static const char specials[] = "^$*+?.([%-";

typedef struct {
  lua_State *L;
  const char *text, *text_end, *pattern_end;
  int depth, left; /* calls left; items left before the flag is read */
  int n;           /* captures, finished or not */
  struct {
    const char *at;
    ptrdiff_t n; /* or OPEN, POSITION */
  } capture[CAPTURES];
} matcher;

static const char *match(matcher *m, const char *s, const char *p);

static void poll(matcher *m) {
  if (--m->left > 0) return;
  m->left = POLL;
  if (fopo_interrupt_pending()) luaL_error(m->L, "interrupted");
}

/* ---- single characters ---- */

/* Behind the single-character item at p: x, %x, or a set. */
static const char *item_end(const matcher *m, const char *p) {
  char c = *p++;
  if (c == '%') {
    if (p == m->pattern_end) luaL_error(m->L, "malformed pattern (ends with '%%')");
    return p + 1;
  }
  if (c != '[') return p;
  if (*p == '^') p++;
  do { /* the first ] of a set stands for itself */
    if (p == m->pattern_end) luaL_error(m->L, "malformed pattern (missing ']')");
    c = *p++;
    if (c == '%') {
      if (p == m->pattern_end) luaL_error(m->L, "malformed pattern (missing ']')");
      p++;
    }
  } while (p == m->pattern_end || *p != ']');
  return p + 1;
}

static int in_class(int c, int class) {
  int in;
  switch (tolower(class)) {
  case 'a': in = isalpha(c); break;
  case 'c': in = iscntrl(c); break;
  case 'd': in = isdigit(c); break;
  case 'g': in = isgraph(c); break;
  case 'l': in = islower(c); break;
  case 'p': in = ispunct(c); break;
  case 's': in = isspace(c); break;
  case 'u': in = isupper(c); break;
  case 'w': in = isalnum(c); break;
  case 'x': in = isxdigit(c); break;
  case 'z': in = c == 0; break; /* of Lua 5.1 */
  default: return class == c;
  }
  return isupper(class) ? !in : in != 0;
}

/* p: behind the [; last: the ] of the set. */
static int in_set(int c, const char *p, const char *last) {
  int in = 1;
  if (*p == '^') {
    in = 0;
    p++;
  }
  for (; p < last; p++) {
    unsigned char low = (unsigned char)*p;
    if (low == '%') {
      p++;
      if (in_class(c, (unsigned char)*p)) return in;
    } else if (p[1] == '-' && p + 2 < last) {
      p += 2;
      if (low <= c && c <= (unsigned char)*p) return in;
    } else if (low == c) {
      return in;
    }
  }
  return !in;
}

/* Does the item [p, end) take the character at s? */
static int takes(const matcher *m, const char *s, const char *p, const char *end) {
  if (s >= m->text_end) return 0;
  int c = (unsigned char)*s;
  switch (*p) {
  case '.': return 1;
  case '%': return in_class(c, (unsigned char)p[1]);
  case '[': return in_set(c, p + 1, end - 1);
  default: return (unsigned char)*p == c;
  }
}

/* ---- quantifiers ---- */

/* As many as there are, and fewer until the rest matches. */
static const char *most(matcher *m, const char *s, const char *p, const char *end) {
  ptrdiff_t n = 0;
  while (takes(m, s + n, p, end)) {
    poll(m);
    n++;
  }
  for (; n >= 0; n--) {
    const char *found = match(m, s + n, end + 1);
    if (found != NULL) return found;
  }
  return NULL;
}

/* As few as the rest allows. */
static const char *least(matcher *m, const char *s, const char *p, const char *end) {
  for (;; s++) {
    const char *found = match(m, s, end + 1);
    if (found != NULL) return found;
    if (!takes(m, s, p, end)) return NULL;
  }
}

/* ---- captures ---- */

static const char *open_capture(matcher *m, const char *s, const char *p, ptrdiff_t what) {
  if (m->n >= CAPTURES) luaL_error(m->L, "too many captures");
  m->capture[m->n].at = s;
  m->capture[m->n].n = what;
  m->n++;
  const char *found = match(m, s, p);
  if (found == NULL) m->n--;
  return found;
}

static const char *close_capture(matcher *m, const char *s, const char *p) {
  int i = m->n - 1;
  while (i >= 0 && m->capture[i].n != OPEN) i--;
  if (i < 0) luaL_error(m->L, "invalid pattern capture");
  m->capture[i].n = s - m->capture[i].at;
  const char *found = match(m, s, p);
  if (found == NULL) m->capture[i].n = OPEN;
  return found;
}

/* Behind the text of capture %1 .. %9, if it stands at s. */
static const char *repeated(const matcher *m, const char *s, char digit) {
  int i = digit - '1';
  if (i < 0 || i >= m->n || m->capture[i].n == OPEN) {
    luaL_error(m->L, "invalid capture index %%%d", i + 1);
  }
  size_t n = (size_t)m->capture[i].n; /* of a position this is more than any text */
  if ((size_t)(m->text_end - s) < n || memcmp(m->capture[i].at, s, n) != 0) return NULL;
  return s + n;
}

/* ---- %b and %f ---- */

static const char *balanced(matcher *m, const char *s, const char *p) {
  if (p >= m->pattern_end - 1) {
    luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
  }
  if (s >= m->text_end || *s != *p) return NULL;
  int open = 1;
  for (const char *at = s + 1; at < m->text_end; at++) {
    poll(m);
    if (*at == p[1]) {
      if (--open == 0) return at + 1;
    } else if (*at == p[0]) {
      open++;
    }
  }
  return NULL;
}

/* The set at p; is there a frontier before s? *end: behind the set. */
static int at_frontier(const matcher *m, const char *s, const char *p, const char **end) {
  if (*p != '[') luaL_error(m->L, "missing '[' after '%%f' in pattern");
  *end = item_end(m, p);
  int before = s == m->text ? 0 : (unsigned char)s[-1];
  int here = s < m->text_end ? (unsigned char)*s : 0;
  return !in_set(before, p + 1, *end - 1) && in_set(here, p + 1, *end - 1);
}

/* ---- a pattern ---- */

/* One step of an item with or without a quantifier. 1: go on at *s, *p; 0: *s is the result. */
static int step(matcher *m, const char **s, const char **p) {
  const char *end = item_end(m, *p);
  char quantifier = end < m->pattern_end ? *end : '\0';
  int fits = takes(m, *s, *p, end);
  const char *found = NULL;
  if (!fits && quantifier != '\0' && strchr("*-?", quantifier) != NULL) { /* none will do */
    *p = end + 1;
    return 1;
  }
  switch (quantifier) {
  case '*': *s = most(m, *s, *p, end); return 0;
  case '-': *s = least(m, *s, *p, end); return 0;
  case '+': *s = fits ? most(m, *s + 1, *p, end) : NULL; return 0;
  case '?':
    found = match(m, *s + 1, end + 1);
    if (found != NULL) *s = found;
    *p = end + 1;
    return found == NULL;
  default:
    *s = fits ? *s + 1 : NULL;
    *p = end;
    return fits;
  }
}

/* One step of an item that begins with %. The same. */
static int step_escape(matcher *m, const char **s, const char **p) {
  char c = *p + 1 < m->pattern_end ? (*p)[1] : '\0';
  if (c == 'b') {
    *s = balanced(m, *s, *p + 2);
    *p += 4;
  } else if (c == 'f') {
    if (!at_frontier(m, *s, *p + 2, p)) *s = NULL;
  } else if (isdigit((unsigned char)c)) {
    *s = repeated(m, *s, c);
    *p += 2;
  } else {
    return step(m, s, p);
  }
  return *s != NULL;
}

/* Behind the match of the pattern from p on at s, or NULL. */
static const char *match(matcher *m, const char *s, const char *p) {
  if (m->depth-- == 0) luaL_error(m->L, "pattern too complex");
  for (int more = 1; more && p != m->pattern_end;) {
    poll(m);
    if (*p == '(') {
      int position = p + 1 < m->pattern_end && p[1] == ')';
      s = position ? open_capture(m, s, p + 2, POSITION) : open_capture(m, s, p + 1, OPEN);
      more = 0;
    } else if (*p == ')') {
      s = close_capture(m, s, p + 1);
      more = 0;
    } else if (*p == '$' && p + 1 == m->pattern_end) {
      if (s != m->text_end) s = NULL;
      more = 0;
    } else {
      more = *p == '%' ? step_escape(m, &s, &p) : step(m, &s, &p);
    }
  }
  m->depth++;
  return s;
}

static void prepare(matcher *m, lua_State *L, const char *text, size_t n, const char *pattern,
                    size_t pattern_n) {
  m->L = L;
  m->text = text;
  m->text_end = text + n;
  m->pattern_end = pattern + pattern_n;
  m->left = POLL;
}

/* Behind the match at s, with its captures. */
static const char *match_at(matcher *m, const char *s, const char *p) {
  m->depth = DEPTH;
  m->n = 0;
  poll(m);
  return match(m, s, p);
}

/* ---- what is found ---- */

/* Pushes capture i; without captures, i = 0 is the whole match [s, e). */
static void push_capture(matcher *m, int i, const char *s, const char *e) {
  if (i >= m->n) {
    if (i > 0) luaL_error(m->L, "invalid capture index %%%d", i + 1);
    lua_pushlstring(m->L, s, (size_t)(e - s));
  } else if (m->capture[i].n == POSITION) {
    lua_pushinteger(m->L, m->capture[i].at - m->text + 1);
  } else {
    if (m->capture[i].n == OPEN) luaL_error(m->L, "unfinished capture");
    lua_pushlstring(m->L, m->capture[i].at, (size_t)m->capture[i].n);
  }
}

/* Pushes all captures, or the whole match, if s is given, where there are none. */
static int push_captures(matcher *m, const char *s, const char *e) {
  int n = m->n == 0 && s != NULL ? 1 : m->n;
  luaL_checkstack(m->L, n, "too many captures");
  for (int i = 0; i < n; i++) push_capture(m, i, s, e);
  return n;
}

/* Where a search begins: the offset of argument i, which counts from the end if it is negative. */
static size_t start_of(lua_State *L, int i, size_t n) {
  lua_Integer at = luaL_optinteger(L, i, 1);
  if (at > 0) return (size_t)at - 1;
  if (at == 0 || at < -(lua_Integer)n) return 0;
  return n - (size_t)-at;
}

static int has_specials(const char *pattern, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (pattern[i] != '\0' && strchr(specials, pattern[i]) != NULL) return 1;
  }
  return 0;
}

static int search(lua_State *L, int finds) {
  matcher m;
  size_t n, pattern_n;
  const char *text = luaL_checklstring(L, 1, &n), *p = luaL_checklstring(L, 2, &pattern_n);
  size_t start = start_of(L, 3, n);
  if (start > n) {
    luaL_pushfail(L);
    return 1;
  }
  if (finds && (lua_toboolean(L, 4) || !has_specials(p, pattern_n))) {
    const char *found = memmem(text + start, n - start, p, pattern_n);
    if (found == NULL) {
      luaL_pushfail(L);
      return 1;
    }
    lua_pushinteger(L, found - text + 1);
    lua_pushinteger(L, found - text + (lua_Integer)pattern_n);
    return 2;
  }
  int anchored = pattern_n > 0 && *p == '^';
  prepare(&m, L, text, n, p, pattern_n);
  const char *s = text + start, *e;
  do {
    if ((e = match_at(&m, s, p + anchored)) == NULL) continue;
    if (!finds) return push_captures(&m, s, e);
    lua_pushinteger(L, s - text + 1);
    lua_pushinteger(L, e - text);
    return push_captures(&m, NULL, NULL) + 2;
  } while (s++ < m.text_end && !anchored);
  luaL_pushfail(L);
  return 1;
}

static int find(lua_State *L) { return search(L, 1); }
static int match_string(lua_State *L) { return search(L, 0); }

/* ---- gmatch ---- */

typedef struct {
  const char *text, *pattern, *at, *last; /* the strings are upvalues of next_match */
  size_t n, pattern_n;
} walk;

static int next_match(lua_State *L) {
  walk *w = lua_touserdata(L, lua_upvalueindex(3));
  matcher m;
  prepare(&m, L, w->text, w->n, w->pattern, w->pattern_n);
  for (const char *s = w->at; s <= m.text_end; s++) {
    const char *e = match_at(&m, s, w->pattern);
    if (e == NULL || e == w->last) continue;
    w->at = w->last = e;
    return push_captures(&m, s, e);
  }
  return 0;
}

static int gmatch(lua_State *L) {
  size_t n, pattern_n;
  const char *text = luaL_checklstring(L, 1, &n), *p = luaL_checklstring(L, 2, &pattern_n);
  size_t start = start_of(L, 3, n);
  lua_settop(L, 2);
  walk *w = lua_newuserdatauv(L, sizeof *w, 0);
  if (start > n) start = n + 1; /* nothing is found */
  *w = (walk){text, p, text + start, NULL, n, pattern_n};
  lua_pushcclosure(L, next_match, 3);
  return 1;
}

/* ---- gsub ---- */

/* Adds the replacement string at index 3, with what its %0 .. %9 stand for. */
static void add_text(matcher *m, luaL_Buffer *out, const char *s, const char *e) {
  size_t n;
  const char *r = lua_tolstring(m->L, 3, &n), *end = r + n;
  for (const char *p; (p = memchr(r, '%', (size_t)(end - r))) != NULL; r = p + 2) {
    luaL_addlstring(out, r, (size_t)(p - r));
    char c = p + 1 < end ? p[1] : '\0';
    if (c == '%') {
      luaL_addchar(out, '%');
    } else if (c == '0') {
      luaL_addlstring(out, s, (size_t)(e - s));
    } else if (isdigit((unsigned char)c)) {
      push_capture(m, c - '1', s, e);
      luaL_addvalue(out);
    } else {
      luaL_error(m->L, "invalid use of '%%' in replacement string");
    }
  }
  luaL_addlstring(out, r, (size_t)(end - r));
}

/* Adds what stands for the match; 1 if that is another text. */
static int add_replacement(matcher *m, luaL_Buffer *out, const char *s, const char *e) {
  lua_State *L = m->L;
  switch (lua_type(L, 3)) {
  case LUA_TFUNCTION:
    lua_pushvalue(L, 3);
    lua_call(L, push_captures(m, s, e), 1);
    break;
  case LUA_TTABLE:
    push_capture(m, 0, s, e);
    lua_gettable(L, 3);
    break;
  default: add_text(m, out, s, e); return 1;
  }
  if (!lua_toboolean(L, -1)) {
    lua_pop(L, 1);
    luaL_addlstring(out, s, (size_t)(e - s));
    return 0;
  }
  if (!lua_isstring(L, -1)) {
    luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  }
  luaL_addvalue(out);
  return 1;
}

static int gsub(lua_State *L) {
  matcher m;
  luaL_Buffer out;
  size_t n, pattern_n;
  const char *s = luaL_checklstring(L, 1, &n), *p = luaL_checklstring(L, 2, &pattern_n);
  const char *last = NULL;
  int type = lua_type(L, 3);
  lua_Integer limit = luaL_optinteger(L, 4, (lua_Integer)n + 1), made = 0;
  int anchored = pattern_n > 0 && *p == '^', changed = 0;
  luaL_argexpected(
      L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE,
      3, "string/function/table");
  luaL_buffinit(L, &out);
  prepare(&m, L, s, n, p, pattern_n);
  while (made < limit) {
    const char *e = match_at(&m, s, p + anchored);
    if (e != NULL && e != last) {
      made++;
      changed |= add_replacement(&m, &out, s, e);
      s = last = e;
    } else if (s < m.text_end) {
      luaL_addchar(&out, *s++);
    } else {
      break;
    }
    if (anchored) break;
  }
  if (changed) {
    luaL_addlstring(&out, s, (size_t)(m.text_end - s));
    luaL_pushresult(&out);
  } else {
    lua_pushvalue(L, 1);
  }
  lua_pushinteger(L, made);
  return 2;
}

void fopo_pattern_install(lua_State *L) {
  static const luaL_Reg own[] = {
      {"find", find}, {"match", match_string}, {"gmatch", gmatch}, {"gsub", gsub}, {NULL, NULL}};
  lua_getglobal(L, "string");
  luaL_setfuncs(L, own, 0);
  lua_pop(L, 1);
}
