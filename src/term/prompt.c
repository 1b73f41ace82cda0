/* Lines are read until they make an entry (term/entry.h), which is run and its values printed. Each
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
#include "core/status.h"
#include "term/chunk.h"
#include "term/editor.h"
#include "term/endings.h"
#include "term/entry.h"
#include "term/interrupt.h"
#include "term/progress.h"

static int terminal;
static int entries; /* complete entries so far */
static int running; /* 1 while an entry runs */
static int lost;    /* 1 if the input could not be read to its end */

/* ---- reading ---- */

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

/* A pasted block that does not compile as a whole, or was copied with its prompts, is read line by
 * line, as if it was typed. The text is kept in the registry. */
static const char pasted_key;
static struct {
  size_t at;   /* 1 + the offset of the next line; 0: no block is being read */
  int session; /* copied with prompts: lines without one are output */
  int output;  /* lines that were left out as output */
} pasted;
static int copied; /* the entry that is being read began with a copied prompt */

static void paste(lua_State *L) {
  lua_settop(L, 1);
  pasted.session = fopo_entry_is_session(lua_tostring(L, 1));
  pasted.at = 1;
  pasted.output = 0;
  lua_rawsetp(L, LUA_REGISTRYINDEX, &pasted_key);
  lua_settop(L, 0);
}

/* True for a line of a copied session that is output: it has no prompt, and is not what is left of
 * a first line that was copied in part. */
static int is_output(lua_State *L, const char *line, size_t n, int first) {
  if (fopo_entry_of_shell(line)) return 1;
  if (!first) return 1;
  lua_pushlstring(L, line, n);
  fopo_entry got = fopo_entry_parse(L, entries + 1);
  lua_settop(L, 0);
  return got == FOPO_ENTRY_WRONG;
}

/* Appends the next line of the block to the entry at index 1. Returns 0 if it is output. */
static int next_pasted(lua_State *L) {
  lua_settop(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &pasted_key);
  const char *block = lua_tostring(L, -1);
  const char *begin = block + pasted.at - 1, *line = begin;
  int first = pasted.at == 1, more = lua_isstring(L, 1), prompted = 0;
  if (more && copied) line = fopo_entry_without_mark(line);
  if (line == begin) line = fopo_entry_without_prompt(line, &prompted);
  size_t n = strcspn(line, "\n");
  pasted.at = line[n] == '\n' ? (size_t)(line + n - block) + 2 : 0;
  if (!more) {
    if (pasted.session && !prompted && is_output(L, line, n, first)) {
      pasted.output += n > 0 && !fopo_entry_of_shell(line);
      return 0;
    }
    copied = prompted;
  }
  printf("%s%.*s\n", more ? fopo_next_prompt : fopo_first_prompt, (int)n, line);
  append(L, line, n);
  return 1;
}

/* Reads on in the block. Returns 0 at its end. */
static int read_pasted(lua_State *L) {
  while (pasted.at > 0) {
    if (next_pasted(L)) return 1;
  }
  if (pasted.output > 0) {
    printf("(%d line%s without a prompt left out, as output)\n", pasted.output,
           pasted.output == 1 ? "" : "s");
    pasted.output = 0;
  }
  return 0;
}

/* Reads one more line to the end of the text at index 1. A block of lines stays as it is. */
static fopo_line read_line(lua_State *L, const char *prompt) {
  static char *line; /* freed before the next one, as append() raises where there is no memory */
  if (read_pasted(L)) return FOPO_LINE;
  free(line);
  line = NULL;
  fopo_line got = fopo_editor_read(&line, prompt);
  if (got != FOPO_LINE) return got;
  const char *text = line;
  if (!lua_isstring(L, 1)) {
    copied = 0;
    if (!fopo_entry_is_session(line)) text = fopo_entry_without_prompt(line, &copied);
  } else if (copied) {
    text = fopo_entry_without_mark(line);
  }
  append(L, text, strlen(text));
  return FOPO_LINE;
}

static fopo_entry parse(lua_State *L) { return fopo_entry_parse(L, entries + 1); }

/* True if the text at index 1, just read, is to be read line by line. */
static int is_pasted(lua_State *L) {
  const char *text = lua_tostring(L, 1);
  if (pasted.at > 0 || strchr(text, '\n') == NULL) return 0;
  return fopo_entry_is_session(text) || parse(L) != FOPO_ENTRY_READY;
}

/* Leaves the text at index 1 and the value that parse() pushed on the top. */
static fopo_line read_entry(lua_State *L, fopo_entry *state) {
  fopo_line got = read_line(L, fopo_first_prompt);
  if (got == FOPO_LINE && is_pasted(L)) {
    paste(L);
    got = read_line(L, fopo_first_prompt);
  }
  while (got == FOPO_LINE && (*state = parse(L)) == FOPO_ENTRY_INCOMPLETE) {
    got = read_line(L, fopo_next_prompt);
    if (got == FOPO_LINE_END) { /* the input ends inside the entry */
      *state = FOPO_ENTRY_WRONG;
      got = FOPO_LINE;
      break;
    }
  }
  if (got == FOPO_LINE && *state == FOPO_ENTRY_LEAVE) got = FOPO_LINE_END;
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

/* _ is the value at the index, _1 and _2 those of the entries before. */
static void keep_value(lua_State *L, int index) {
  static const char *const names[] = {"_2", "_1", "_"};
  lua_pushglobaltable(L);
  for (int i = 0; i < 3; i++) {
    lua_pushstring(L, names[i]);
    if (i < 2) {
      lua_pushstring(L, names[i + 1]);
      lua_rawget(L, -3);
    } else {
      lua_pushvalue(L, index);
    }
    lua_rawset(L, -3);
  }
  lua_pop(L, 1);
}

/* Runs the function on the top, the entry of that name, and prints its values; its text is at index
 * 1. */
static void run_entry(lua_State *L, const char *name) {
  int first = lua_gettop(L);
  double begun = fopo_clock();
  running = 1;
  int status = fopo_chunk_call(L, 0, LUA_MULTRET);
  running = 0;
  double seconds = fopo_clock() - begun;
  fopo_progress_bar_erase();
  if (status != LUA_OK) {
    pasted.at = 0; /* the rest of a pasted block depends on this entry */
    fopo_chunk_report(L, fopo_interrupted());
  } else {
    fopo_chunk_worked(L, name);
    if (lua_gettop(L) >= first) {
      keep_value(L, first);
      if (!ends_with_semicolon(lua_tostring(L, 1))) print_values(L, first);
    }
  }
  if (terminal && seconds > 0.1) printf("(%.*f s)\n", seconds < 10 ? 2 : 1, seconds);
  warn_of_local(lua_tostring(L, 1));
}

/* Reads and runs one entry; returns whether there may be another. */
static int step(lua_State *L) {
  fopo_entry state = FOPO_ENTRY_WRONG;
  fopo_editor_idle();
  fopo_line got = read_entry(L, &state);
  if (got == FOPO_LINE) {
    char name[32];
    fopo_editor_remember(lua_tostring(L, 1));
    snprintf(name, sizeof name, FOPO_PROMPT_CHUNK "%d", ++entries);
    fopo_chunk_remember(L, name, lua_tostring(L, 1));
    if (state == FOPO_ENTRY_READY) {
      run_entry(L, name);
    } else {
      pasted.at = 0;
      fopo_chunk_explain(L);
      fopo_chunk_report(L, 0);
    }
  }
  lost = got == FOPO_LINE_LOST;
  lua_pushboolean(L, !lost && (got != FOPO_LINE_END || !fopo_editor_leaves()));
  return 1;
}

int fopo_prompt_waits(void) { return terminal && running; }

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

int fopo_prompt_run(lua_State *L, int init, const char *greeting) {
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
    if (fopo_ending()) break;
    fopo_interrupt_done();
    fflush(stdout);
    if (terminal) clearerr(stdout); /* a write that Ctrl-C cut short does not fail the session */
  }
  if (terminal) putchar('\n');
  return lost ? FOPO_ERR_FILE : FOPO_OK;
}
