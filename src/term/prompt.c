/* An entry is compiled as an expression ("return " in front), then as statements. If both fail
 * because the text ends too early (Lua's message ends with <eof>), another line is read. Each
 * entry, with its reading and printing, is a protected call of its own, so running out of memory
 * costs the entry and not the session. */
#include "term/prompt.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/progress.h"
#include "term/chunk.h"
#include "term/editor.h"
#include "term/interrupt.h"
#include "term/progress.h"

static const char first_prompt[] = "fopo> ", next_prompt[] = "   .. ";
static int terminal;
static int entries; /* complete entries so far */

typedef enum { READY, INCOMPLETE, WRONG } parsed;

/* ---- reading ---- */

/* True if the message at the index says that the text ends too early. A string literal ends with
 * its line, unless the line ends in a backslash. */
static int at_end(lua_State *L, int index, const char *text, size_t length) {
  size_t n;
  const char *message = lua_tolstring(L, index, &n);
  if (n < 5 || strcmp(message + n - 5, "<eof>") != 0) return 0;
  return strstr(message, "unfinished string") == NULL || text[length - 1] == '\\';
}

/* True if the message is about the first word of the text, as for an expression that was compiled
 * as a statement. */
static int of_first_word(const char *message, const char *text) {
  const char *near = strstr(message, "near '");
  if (near == NULL) return 0;
  near += 6;
  text += strspn(text, " \t\n");
  size_t n = strcspn(near, "'");
  return n > 0 && strncmp(near, text, n) == 0;
}

/* Prints the help on the name in upvalue 1. */
static int print_help(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "fopo.help");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "ask");
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, 1, 0);
  return 0;
}

/* If the text is "?name", "? name" or "name?", pushes the function that prints the help and returns
 * 1. */
static int question(lua_State *L, const char *text) {
  static const char names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:";
  text += strspn(text, " \t\n");
  size_t n = strspn(text, names), blank = strspn(text + n, "? \t\n");
  int before = *text == '?';
  if (!before && (n == 0 || text[n] != '?' || text[n + blank] != '\0')) return 0;
  lua_pushlstring(L, text + before, before ? strlen(text + 1) : n);
  lua_pushcclosure(L, print_help, 1);
  return 1;
}

/* Compiles the text at index 1: pushes the function, or the error message. */
static parsed parse(lua_State *L) {
  char name[32];
  size_t n;
  const char *text = lua_tolstring(L, 1, &n);
  if (question(L, text)) return READY;
  snprintf(name, sizeof name, "=" FOPO_PROMPT_CHUNK "%d", entries + 1);
  const char *whole = lua_pushfstring(L, "return %s", text);
  if (luaL_loadbufferx(L, whole, strlen(whole), name, "t") == LUA_OK) return READY;
  if (luaL_loadbufferx(L, text, n, name, "t") == LUA_OK) return READY;
  if (at_end(L, -1, text, n) || at_end(L, -2, text, n)) return INCOMPLETE;
  if (of_first_word(lua_tostring(L, -1), text)) lua_pop(L, 1);
  return WRONG;
}

/* The line without the prompts that were copied with it. */
static const char *without_prompt(const char *line) {
  static const char *const copied[] = {first_prompt, next_prompt};
  for (size_t i = 0; i < 2; i++) {
    size_t n = strlen(copied[i]);
    if (strncmp(line, copied[i], n) == 0) line += n;
  }
  return line;
}

/* Appends n bytes to the text at index 1, as a line of their own. */
static void append(lua_State *L, const char *line, size_t n) {
  lua_settop(L, 1);
  int more = lua_isstring(L, 1);
  if (more) {
    lua_pushliteral(L, "\n");
  } else {
    lua_settop(L, 0);
  }
  lua_pushlstring(L, line, n);
  if (more) lua_concat(L, 3);
}

/* A pasted block that does not compile as a whole is read line by line, as if it was typed. It is
 * kept in the registry; pasted_at is 1 + the offset of its next line, 0 if no block is being read.
 */
static const char pasted_key;
static size_t pasted_at;

static void paste(lua_State *L) {
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &pasted_key);
  lua_settop(L, 0);
  pasted_at = 1;
}

static void next_pasted(lua_State *L) {
  lua_settop(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &pasted_key);
  const char *block = lua_tostring(L, -1);
  const char *line = without_prompt(block + pasted_at - 1);
  size_t n = strcspn(line, "\n");
  pasted_at = line[n] == '\n' ? (size_t)(line + n - block) + 2 : 0;
  printf("%s%.*s\n", lua_isstring(L, 1) ? next_prompt : first_prompt, (int)n, line);
  append(L, line, n);
}

/* Reads one more line to the end of the text at index 1. */
static fopo_line read_line(lua_State *L, const char *prompt) {
  char *line;
  if (pasted_at > 0) {
    next_pasted(L);
    return FOPO_LINE;
  }
  fopo_line got = fopo_editor_read(&line, prompt);
  if (got != FOPO_LINE) return got;
  const char *text = without_prompt(line);
  append(L, text, strlen(text));
  free(line);
  return FOPO_LINE;
}

/* Leaves the text at index 1 and the value that parse() pushed on the top. */
static fopo_line read_entry(lua_State *L, parsed *state) {
  fopo_line got = read_line(L, first_prompt);
  if (got == FOPO_LINE && parse(L) != READY && strchr(lua_tostring(L, 1), '\n') != NULL) {
    paste(L);
    got = read_line(L, first_prompt);
  }
  while (got == FOPO_LINE && (*state = parse(L)) == INCOMPLETE) {
    got = read_line(L, next_prompt);
    if (got == FOPO_LINE_END) { /* the input ends inside the entry */
      *state = WRONG;
      got = FOPO_LINE;
      break;
    }
  }
  return got;
}

/* ---- printing ---- */

/* The text of the value at index, by fopo.show if that is loaded. */
static const char *shown(lua_State *L, int index) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "fopo.show") == LUA_TNIL) return luaL_tolstring(L, index, NULL);
  lua_pushvalue(L, index);
  lua_call(L, 1, 1);
  return luaL_tolstring(L, -1, NULL);
}

/* Prints the values from index `first` on: on one line if each is one line, else below each other.
 */
static void print_values(lua_State *L, int first) {
  int last = lua_gettop(L), lines = 0;
  luaL_checkstack(L, 6 * (last - first + 2), "too many values to print");
  lua_createtable(L, last - first + 1, 0);
  int texts = lua_gettop(L);
  for (int i = first; i <= last; i++) {
    lines |= strchr(shown(L, i), '\n') != NULL;
    lua_rawseti(L, texts, i - first + 1);
    lua_settop(L, texts);
  }
  for (int i = first; i <= last; i++) {
    lua_rawgeti(L, texts, i - first + 1);
    size_t n;
    const char *text = lua_tolstring(L, -1, &n);
    fwrite(text, 1, n, stdout);
    fputs(i == last || lines ? "\n" : "\t", stdout);
    lua_pop(L, 1);
  }
}

static int ends_with_semicolon(const char *text) {
  size_t n = strlen(text);
  while (n > 0 && strchr(" \t\n", text[n - 1]) != NULL) n--;
  return n > 0 && text[n - 1] == ';';
}

/* Said once: newcomers wonder where the value of a local has gone. */
static void warn_of_local(const char *text) {
  static int warned;
  if (warned || !terminal || strncmp(text, "local ", 6) != 0 || strchr(text, '\n') != NULL) return;
  warned = 1;
  puts("(a local variable ends with its entry; at the prompt, leave out the word local)");
}

/* ---- running ---- */

/* Runs the function on the top and prints its values; the text of the entry is at index 1. */
static void run_entry(lua_State *L) {
  int first = lua_gettop(L);
  double begun = fopo_clock();
  int status = fopo_chunk_call(L, 0, LUA_MULTRET);
  double seconds = fopo_clock() - begun;
  fopo_progress_bar_erase();
  if (status != LUA_OK) {
    pasted_at = 0; /* the rest of a pasted block depends on this entry */
    fopo_chunk_report(L, fopo_interrupted());
  } else if (lua_gettop(L) >= first) {
    lua_pushvalue(L, first);
    lua_setglobal(L, "_");
    if (!ends_with_semicolon(lua_tostring(L, 1))) print_values(L, first);
  }
  if (terminal && seconds > 0.1) printf("(%.*f s)\n", seconds < 10 ? 2 : 1, seconds);
  warn_of_local(lua_tostring(L, 1));
}

/* Reads and runs one entry; returns whether there may be another. */
static int step(lua_State *L) {
  parsed state = WRONG;
  fopo_editor_idle();
  fopo_line got = read_entry(L, &state);
  if (got == FOPO_LINE) {
    char name[32];
    fopo_editor_remember(lua_tostring(L, 1));
    snprintf(name, sizeof name, FOPO_PROMPT_CHUNK "%d", ++entries);
    fopo_chunk_remember(L, name, lua_tostring(L, 1));
    if (state == READY) {
      run_entry(L);
    } else {
      pasted_at = 0;
      fopo_chunk_explain(L);
      fopo_chunk_report(L, 0);
    }
  }
  lua_pushboolean(L, got != FOPO_LINE_END);
  return 1;
}

static void run_init(lua_State *L) {
  char path[4096];
  const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
  if (config != NULL && *config == '/') {
    snprintf(path, sizeof path, "%s/fopo/init.lua", config);
  } else {
    snprintf(path, sizeof path, "%s/.config/fopo/init.lua", home != NULL ? home : "");
  }
  if (access(path, R_OK) != 0) return;
  if (luaL_loadfilex(L, path, "t") != LUA_OK || fopo_chunk_call(L, 0, 0) != LUA_OK) {
    fopo_chunk_report(L, 0);
  }
  fopo_interrupt_done();
}

void fopo_prompt_run(lua_State *L, int init, const char *greeting) {
  terminal = fopo_editor_open(L);
  if (terminal) puts(greeting);
  if (init) run_init(L);
  for (int more = 1; more;) {
    lua_pushcfunction(L, step);
    if (fopo_chunk_call(L, 0, 1) != LUA_OK) { /* an error while printing a value, or no memory */
      fopo_chunk_report(L, fopo_interrupted());
    } else {
      more = lua_toboolean(L, -1);
      lua_pop(L, 1);
    }
    fopo_interrupt_done();
    fflush(stdout);
  }
  if (terminal) putchar('\n');
}
