/* The functions of patterns against those of the Lua library: the same results and the same errors
 * for a hundred thousand texts and patterns made of the pieces that patterns have. */
#include <lauxlib.h>
#include <lualib.h>

#include "checks.h"
#include "core/progress.h"
#include "term/pattern_lua.h"

static uint64_t state = 0x9e3779b97f4a7c15u;

static size_t below(size_t n) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (size_t)(state * 0x2545f4914f6cdd1du >> 33) % n;
}

static const char *const pieces[] = {
    "a",     "b",   "x",    ".",    "%a",     "%d",     "%s", "%w",   "%p",     "%S",   "%%",
    "%.",    "*",   "+",    "-",    "?",      "(",      ")",  "()",   "[ab]",   "[^a]", "[a-c]",
    "[%d_]", "[]]", "%b()", "%bxy", "%f[%w]", "%f[%W]", "%1", "%2",   "%0",     "^",    "$",
    "[",     "%",   "]",    "-",    ".-",     "(.-)",   "%z", "[a-]", "[%a-z]", "%f",   "%b"};
static const char letters[] = "aabbcxy01 ().%_-";

static size_t make_pattern(char *p) {
  size_t n = 0;
  for (size_t i = 1 + below(7); i > 0; i--) {
    const char *piece = pieces[below(sizeof pieces / sizeof *pieces)];
    memcpy(p + n, piece, strlen(piece));
    n += strlen(piece);
  }
  return n;
}

static size_t make_text(char *s) {
  size_t n = below(14);
  for (size_t i = 0; i < n; i++) s[i] = below(40) == 0 ? '\0' : letters[below(sizeof letters - 1)];
  return n;
}

static lua_State *new_state(int own) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (own) fopo_pattern_install(L);
  static const char code[] =
      "local f, s, p, i, r = ...\n"
      "local out = {}\n"
      "local function keep(...)\n"
      "  for k = 1, select('#', ...) do out[#out + 1] = tostring((select(k, ...))) end\n"
      "end\n"
      "local ok, why = pcall(function()\n"
      "  if f == 'find' then keep(string.find(s, p, i))\n"
      "  elseif f == 'plain' then keep(string.find(s, p, i, true))\n"
      "  elseif f == 'match' then keep(string.match(s, p, i))\n"
      "  elseif f == 'gmatch' then for a, b, c in string.gmatch(s, p, i) do keep(a, b, c) end\n"
      "  elseif f == 'text' then keep(string.gsub(s, p, r, i))\n"
      "  elseif f == 'table' then keep(string.gsub(s, p, {a = 'A', b = 1, x = false, [1] = '!'}))\n"
      "  else keep(string.gsub(s, p, function(a, b) return b or a == 'a' and 7 end)) end\n"
      "end)\n"
      "if not ok then out[#out + 1] = why:gsub('^.-:%d+: ', '') end\n"
      "return table.concat(out, '|')\n";
  assert_int_equal(luaL_loadstring(L, code), LUA_OK);
  return L;
}

typedef struct {
  const char *function;
  char text[32], pattern[128];
  size_t text_n, pattern_n;
  lua_Integer from;
  const char *replacement;
} sample;

static const char *result_of(lua_State *L, const sample *c) {
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  lua_pushstring(L, c->function);
  lua_pushlstring(L, c->text, c->text_n);
  lua_pushlstring(L, c->pattern, c->pattern_n);
  lua_pushinteger(L, c->from);
  lua_pushstring(L, c->replacement);
  if (lua_pcall(L, 5, 1, 0) != LUA_OK) fail_msg("%s", lua_tostring(L, -1));
  return lua_tostring(L, -1);
}

static void same_as_the_library(void **unused) {
  (void)unused;
  static const char *const functions[] = {"find", "plain", "match",   "gmatch",
                                          "text", "table", "function"};
  static const char *const replacements[] = {"", "<%0>", "%1%1", "%2", "%%", "%", "%x", "r"};
  lua_State *library = new_state(0), *own = new_state(1);
  size_t found = 0;
  for (int i = 0; i < 100000; i++) {
    sample c = {.function = functions[below(7)],
                .from = (lua_Integer)below(12) - 4,
                .replacement = replacements[below(8)]};
    c.text_n = make_text(c.text);
    c.pattern_n = make_pattern(c.pattern);
    const char *want = result_of(library, &c), *got = result_of(own, &c);
    found += strcmp(want, "nil") != 0;
    if (strcmp(want, got) != 0) {
      fail_msg("%s(\"%s\", \"%.*s\", %lld, \"%s\") gives \"%s\", not \"%s\"", c.function, c.text,
               (int)c.pattern_n, c.pattern, (long long)c.from, c.replacement, got, want);
    }
  }
  assert_true(found > 50000);
  lua_close(library);
  lua_close(own);
}

/* Patterns with many choices end in an error, in a stop, or in what the library finds. */
static void bounds(void **unused) {
  (void)unused;
  static const char code[] =
      "local s = ('a'):rep(30)\n"
      "assert(select(2, s:rep(10):find(('a?'):rep(250))) == 250)\n"
      "assert(not pcall(string.find, s, ('('):rep(40)))\n"
      "assert(#s:rep(1000):match('.*') == 30000 and s:gsub('', '-') == ('-a'):rep(30) .. '-')\n"
      "assert(not s:rep(3):find(('.-'):rep(3) .. 'b'))\n";
  lua_State *L = new_state(1);
  assert_int_equal(luaL_loadstring(L, code), LUA_OK);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) fail_msg("%s", lua_tostring(L, -1));
  fopo_interrupt_request(); /* as Ctrl-C meanwhile */
  assert_int_equal(
      luaL_loadstring(L, "return pcall(string.find, ('a'):rep(50), ('.-'):rep(40) .. 'b')"),
      LUA_OK);
  assert_int_equal(lua_pcall(L, 0, 2, 0), LUA_OK);
  assert_false(lua_toboolean(L, -2));
  assert_non_null(strstr(lua_tostring(L, -1), "interrupted"));
  fopo_interrupt_clear();
  lua_close(L);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_the_library),
                                     cmocka_unit_test(bounds)};
  return cmocka_run_group_tests_name("patterns", tests, NULL, NULL);
}
