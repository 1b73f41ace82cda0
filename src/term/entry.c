/* An entry is compiled as an expression ("return " in front), then as statements with an expression
 * at their end, then as statements. If all fail because the text ends too early (Lua's message ends
 * with <eof>), the entry is incomplete. */
#include "term/entry.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "term/chunk.h"

const char fopo_first_prompt[] = "fopo> ", fopo_next_prompt[] = "   .. ";

static const char blanks[] = " \t\n";
static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

/* ---- what was copied with a line ---- */

/* The length of the prompt at the beginning of the line; an empty line has it without its blank. */
static size_t length_of(const char *line, const char *prompt) {
  size_t n = strlen(prompt);
  if (strncmp(line, prompt, n) == 0) return n;
  int bare = strncmp(line, prompt, n - 1) == 0 && (line[n - 1] == '\0' || line[n - 1] == '\n');
  return bare ? n - 1 : 0;
}

const char *fopo_entry_without_prompt(const char *line, int *copied) {
  size_t n = length_of(line, fopo_first_prompt);
  if (n == 0) n = length_of(line, "> ");
  if (n > 0) *copied = 1;
  return line + n;
}

const char *fopo_entry_without_mark(const char *line) {
  static const char *const marks[] = {fopo_next_prompt, ">> ", "... "};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    size_t n = length_of(line, marks[i]);
    if (n > 0) return line + n;
  }
  return line;
}

int fopo_entry_of_shell(const char *line) { return strncmp(line, "$ ", 2) == 0; }

int fopo_entry_is_session(const char *text) {
  int copied = 0;
  if (strchr(text, '\n') == NULL) return 0;
  while (text != NULL && !copied) {
    fopo_entry_without_prompt(text, &copied);
    text = strchr(text, '\n');
    if (text != NULL) text++;
  }
  return copied;
}

/* ---- what is not Lua ---- */

/* Calls the function of a module with a text: upvalues 1 (module), 2 (function) and 3. */
static int call(lua_State *L) {
  fopo_chunk_require(L, lua_tostring(L, lua_upvalueindex(1)));
  lua_getfield(L, -1, lua_tostring(L, lua_upvalueindex(2)));
  lua_pushvalue(L, lua_upvalueindex(3));
  lua_call(L, 1, 0);
  return 0;
}

static int push_call(lua_State *L, const char *module, const char *function, const char *text,
                     size_t n) {
  lua_pushstring(L, module);
  lua_pushstring(L, function);
  lua_pushlstring(L, text, n);
  lua_pushcclosure(L, call, 3);
  return 1;
}

static int push_help(lua_State *L, const char *function, const char *text, size_t n) {
  return push_call(L, "fopo.help", function, text, n);
}

/* If the text is "!command" or ":word ...", as ":save session.lua", pushes the function that does
 * it and returns 1. */
static int command(lua_State *L, const char *text) {
  text += strspn(text, blanks);
  const char *rest = text + 1;
  if (*text == '!') return push_call(L, "fopo.prompt.session", "shell", rest, strlen(rest));
  if (*text != ':' || text[1] == ':' || text[1] == '\0') return 0; /* "::" begins a label */
  return push_call(L, "fopo.prompt.session", "command", rest, strlen(rest));
}

/* If the text is "?name", "? name" or "name?", pushes the function that prints the help and returns
 * 1. */
static int question(lua_State *L, const char *text) {
  static const char names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:";
  text += strspn(text, blanks);
  size_t n = strspn(text, names), blank = strspn(text + n, "? \t\n");
  if (*text == '?') return push_help(L, "ask", text + 1, strlen(text + 1));
  if (n == 0 || text[n] != '?' || text[n + blank] != '\0') return 0;
  return push_help(L, "ask", text, n);
}

/* If the text is "a.b:name" and no more, pushes the function that says what that is and returns 1.
 */
static int uncalled_method(lua_State *L, const char *text) {
  text += strspn(text, blanks);
  size_t owner = strcspn(text, ":"
                               "\n"),
         i;
  for (i = 0; i < owner; i++) {
    if (text[i] != '.' && strchr(letters, text[i]) == NULL) return 0;
  }
  if (owner == 0 || text[owner] != ':') return 0;
  size_t name = strspn(text + owner + 1, letters), n = owner + 1 + name;
  if (name == 0 || text[n + strspn(text + n, blanks)] != '\0') return 0;
  return push_help(L, "of_method", text, n);
}

/* True for exit, exit(), quit and quit(), unless the user has a variable of that name. */
static int leaves(lua_State *L, const char *text) {
  static const char *const words[] = {"exit", "quit"};
  text += strspn(text, blanks);
  for (int i = 0; i < 2; i++) {
    if (strncmp(text, words[i], 4) != 0) continue;
    const char *rest = text + 4;
    rest += strspn(rest, blanks);
    if (strncmp(rest, "()", 2) == 0) rest += 2;
    if (rest[strspn(rest, " \t\n;")] != '\0') return 0;
    lua_pushglobaltable(L);
    lua_pushstring(L, words[i]);
    int unused = lua_rawget(L, -2) == LUA_TNIL;
    lua_pop(L, 2);
    return unused;
  }
  return 0;
}

/* ---- Lua ---- */

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
  text += strspn(text, blanks);
  size_t n = strcspn(near, "'");
  return n > 0 && strncmp(near, text, n) == 0;
}

/* As luaL_loadbufferx of text; a lack of memory, which says nothing of the text, is raised. */
static int load_text(lua_State *L, const char *text, size_t n, const char *name) {
  int status = luaL_loadbufferx(L, text, n, name, "t");
  return status != LUA_ERRMEM ? status : lua_error(L);
}

/* True if n bytes compile as a chunk with `before` in front of them. Pushes nothing. */
static int compiles(lua_State *L, const char *before, const char *text, size_t n) {
  lua_pushstring(L, before);
  lua_pushlstring(L, text, n);
  lua_concat(L, 2);
  const char *whole = lua_tolstring(L, -1, &n);
  int status = load_text(L, whole, n, "=");
  lua_pop(L, 2);
  return status == LUA_OK;
}

/* If the text ends with an expression behind a ; or at the beginning of a line, and what is before
 * it compiles by itself, pushes the function that returns its value and returns 1. Only a word at
 * the beginning of a line is known not to continue the line before it. */
static int last_value(lua_State *L, const char *text, size_t n, const char *name) {
  for (size_t i = n; i-- > 0;) {
    if (text[i] != ';' && text[i] != '\n') continue;
    const char *tail = text + i + 1, *word = tail + strspn(tail, blanks);
    if (*word == '\0' || (text[i] == '\n' && strchr(letters, *word) == NULL)) continue;
    if (!compiles(L, "return ", tail, strlen(tail)) || !compiles(L, "", text, i + 1)) continue;
    lua_pushlstring(L, text, i + 1);
    lua_pushfstring(L, "return %s", tail);
    lua_concat(L, 2);
    size_t length;
    const char *whole = lua_tolstring(L, -1, &length);
    int status = load_text(L, whole, length, name);
    lua_remove(L, -2);
    if (status == LUA_OK) return 1;
    lua_pop(L, 1);
  }
  return 0;
}

fopo_entry fopo_entry_parse(lua_State *L, int number) {
  char name[32];
  size_t n;
  const char *text = lua_tolstring(L, 1, &n);
  if (leaves(L, text)) return FOPO_ENTRY_LEAVE;
  if (question(L, text) || uncalled_method(L, text) || command(L, text)) return FOPO_ENTRY_READY;
  snprintf(name, sizeof name, "=" FOPO_PROMPT_CHUNK "%d", number);
  const char *whole = lua_pushfstring(L, "return %s", text);
  if (load_text(L, whole, strlen(whole), name) == LUA_OK) return FOPO_ENTRY_READY;
  if (last_value(L, text, n, name)) return FOPO_ENTRY_READY;
  if (load_text(L, text, n, name) == LUA_OK) return FOPO_ENTRY_READY;
  if (at_end(L, -1, text, n) || at_end(L, -2, text, n)) return FOPO_ENTRY_INCOMPLETE;
  if (of_first_word(lua_tostring(L, -1), text)) lua_pop(L, 1);
  return FOPO_ENTRY_WRONG;
}
