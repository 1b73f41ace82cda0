/* The traceback is Lua's, without the lines that are not of the user's code. */
#include "term/chunk.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/plain.h"
#include "core/progress.h"
#include "term/progress.h"

static int begins(const char *s, size_t n, const char *with) {
  size_t m = strlen(with);
  return n >= m && memcmp(s, with, m) == 0;
}

static int ends(const char *s, size_t n, const char *with) {
  size_t m = strlen(with);
  return n >= m && memcmp(s + n - m, with, m) == 0;
}

static int is(const char *s, size_t n, const char *text) {
  return n == strlen(text) && memcmp(s, text, n) == 0;
}

/* True for a frame of the program itself; the "return" that the prompt puts in front of an
 * expression is a tail call. */
static int is_host_frame(const char *line, size_t n) {
  return begins(line, n, "\tfopo/") || is(line, n, "\t[C]: in ?") ||
         is(line, n, "\t(...tail calls...)") || is(line, n, "\t[C]: in function 'error'");
}

/* True for a frame that says no more than the message does. */
static int is_plain_frame(const char *line, size_t n) {
  return begins(line, n, "\t[C]:") ||
         (begins(line, n, "\t" FOPO_PROMPT_CHUNK) && ends(line, n, "in main chunk"));
}

/* Appends the user's frames of the traceback to the message on the top, unless they are all plain.
 */
static void add_frames(lua_State *L, const char *traceback) {
  luaL_Buffer frames;
  int telling = 0;
  luaL_buffinit(L, &frames);
  const char *line = strchr(traceback, '\n'); /* after "stack traceback:" */
  while (line != NULL) {
    line++;
    const char *end = strchr(line, '\n');
    size_t n = end != NULL ? (size_t)(end - line) : strlen(line);
    if (!is_host_frame(line, n)) {
      telling |= !is_plain_frame(line, n);
      luaL_addchar(&frames, '\n');
      luaL_addlstring(&frames, line, n);
    }
    line = end;
  }
  luaL_pushresult(&frames);
  if (telling) {
    lua_pushliteral(L, "\nstack traceback:");
    lua_insert(L, -2);
    lua_concat(L, 3);
  } else {
    lua_pop(L, 1);
  }
}

void fopo_chunk_require(lua_State *L, const char *module) {
  lua_getfield(L, LUA_REGISTRYINDEX, FOPO_ENVIRONMENT);
  lua_getfield(L, -1, "require");
  lua_remove(L, -2);
  lua_pushstring(L, module);
  lua_call(L, 1, 1);
}

/* Calls a function of fopo.prompt.explain: its name, then its arguments. Called protected, because
 * this happens while an error is handled, and the error may be a lack of memory. */
static int call_explain(lua_State *L) {
  const char *name = lua_tostring(L, 1);
  fopo_chunk_require(L, "fopo.prompt.explain");
  lua_getfield(L, -1, name);
  lua_replace(L, 1);
  lua_pop(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

void fopo_chunk_remember(lua_State *L, const char *name, const char *text) {
  lua_pushcfunction(L, call_explain);
  lua_pushliteral(L, "remember");
  lua_pushstring(L, name);
  lua_pushstring(L, text);
  if (lua_pcall(L, 3, 0, 0) != LUA_OK) lua_pop(L, 1);
}

void fopo_chunk_worked(lua_State *L, const char *name) {
  lua_pushcfunction(L, call_explain);
  lua_pushliteral(L, "worked");
  lua_pushstring(L, name);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
}

void fopo_chunk_explain(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  int hopeless = message == NULL || strstr(message, "stack overflow") != NULL;
  if (hopeless || fopo_interrupted() || !lua_checkstack(L, 8)) return;
  lua_pushcfunction(L, call_explain);
  lua_pushliteral(L, "message");
  lua_pushvalue(L, -3);
  if (lua_pcall(L, 2, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING) {
    lua_remove(L, -2);
  } else {
    lua_pop(L, 1);
  }
}

/* The message handler: turns any error value into text and adds the traceback. */
static int explain(lua_State *L) {
  lua_settop(L, 1);
  if (lua_isstring(L, 1) || luaL_getmetafield(L, 1, "__tostring") != LUA_TNIL) {
    luaL_tolstring(L, 1, NULL);
  } else {
    lua_pushfstring(L, "an error without a text: a %s value", luaL_typename(L, 1));
  }
  lua_replace(L, 1);
  lua_settop(L, 1);
  fopo_chunk_explain(L);
  luaL_traceback(L, L, NULL, 1);
  lua_insert(L, 1);
  add_frames(L, lua_tostring(L, 1));
  return 1;
}

int fopo_chunk_call(lua_State *L, int arguments, int results) {
  int function = lua_gettop(L) - arguments;
  lua_pushcfunction(L, explain);
  lua_insert(L, function);
  int status = lua_pcall(L, arguments, results, function);
  lua_remove(L, function);
  if (status == LUA_ERRMEM && fopo_memory_limited() > 0) {
    lua_pop(L, 1); /* what ran is garbage now: there is memory for a sentence */
    lua_gc(L, LUA_GCCOLLECT);
    lua_pushfstring(L,
                    "not enough memory: Lua and fopo's objects may hold %f GB together "
                    "(--max-memory)",
                    (double)fopo_memory_limited() / 1e9);
  }
  return status;
}

/* Writes text to stderr, its control characters escaped. */
static void put_plain(const char *text, size_t n) {
  char piece[1024];
  enum { AT_ONCE = sizeof piece / 4 - 1 }; /* a byte becomes at most four */
  for (size_t done = 0, part; done < n; done += part) {
    part = n - done < AT_ONCE ? n - done : AT_ONCE;
    if (part > 1 && text[done + part - 1] == '\xc2') part--; /* the first byte of two */
    fwrite(piece, 1, fopo_plain(piece, sizeof piece, text + done, part), stderr);
  }
}

/* Writes a message to stderr without the numbers of entries: "prompt#3:1:" becomes "prompt:1:". */
static void print(const char *text, size_t n) {
  static const char mark[] = FOPO_PROMPT_CHUNK;
  const char *end = text + n;
  while (text < end) {
    const char *found = memmem(text, (size_t)(end - text), mark, sizeof mark - 1);
    const char *stop = found != NULL ? found + sizeof mark - 2 : end;
    put_plain(text, (size_t)(stop - text));
    text = found != NULL ? stop + 1 + strspn(stop + 1, "0123456789") : end;
  }
  fputc('\n', stderr);
}

/* Breaks lines at words where a terminal of `width` columns would break them inside one. Indented
 * lines are source and tracebacks, and stay. */
static void fold(char *text, size_t width) {
  char *blank = NULL, *line = text;
  size_t column = 0;
  for (char *p = text; *p != '\0'; p++) {
    if (*p == '\n') {
      line = p + 1;
      blank = NULL;
      column = 0;
      continue;
    }
    if (*p == ' ') blank = p;
    column += (*p & 0xc0) != 0x80; /* a character, not a later byte of one */
    if (column <= width || blank == NULL || *line == ' ' || *line == '\t') continue;
    *blank = '\n';
    p = blank; /* the rest of the line begins behind it */
    line = p + 1;
    blank = NULL;
    column = 0;
  }
}

void fopo_chunk_report(lua_State *L, int brief) {
  const char *text = lua_tostring(L, -1);
  if (text == NULL) text = "an error without a text";
  fopo_progress_bar_erase();
  fflush(stdout);
  size_t n = brief ? strcspn(text, "\n") : strlen(text);
  struct winsize size;
  int known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  char *folded = known ? strndup(text, n) : NULL;
  if (folded != NULL) fold(folded, size.ws_col);
  print(folded != NULL ? folded : text, n);
  free(folded);
  lua_pop(L, 1);
}
