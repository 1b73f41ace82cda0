/* readline installs its own signal handlers while it reads; they restore the terminal and then call
 * ours. readline's hooks, called ten times a second while it waits and after a signal, see the flag
 * of the interruption and leave by siglongjmp. The jump crosses no Lua frame, because no completion
 * is running then.
 *
 * The history file has a line with the time before each entry, so entries may have several lines.
 */
#include "term/editor.h"

#include <errno.h>
#include <lauxlib.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "core/progress.h"
#include "term/interrupt.h"
#include "train/job.h"

enum { KEEP = 10000 }; /* entries of history; loading them takes about a millisecond */

static int terminal;
static char path[4096]; /* of the history; "": none */
static lua_State *completer;
static sigjmp_buf dropped;

/* ---- history ---- */

static void find_path(void) {
  const char *given = getenv("FOPO_HISTORY");
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  int n = 0;
  if (given != NULL) {
    n = snprintf(path, sizeof path, "%s", given);
  } else if (state != NULL && *state == '/') {
    n = snprintf(path, sizeof path, "%s/fopo/history", state);
  } else if (home != NULL) {
    n = snprintf(path, sizeof path, "%s/.local/state/fopo/history", home);
  }
  if (n < 0 || (size_t)n >= sizeof path || strcmp(path, "/dev/null") == 0) path[0] = '\0';
}

/* The folders above the file, for the user alone. */
static void make_folders(void) {
  for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(path, 0700) != 0 && errno != EEXIST) errno = 0; /* append_history then fails too */
    *slash = '/';
  }
}

/* Removes the entry equal to `text` among the first n; returns 1 if there was one. */
static int forget(const char *text, int n) {
  HIST_ENTRY **list = history_list();
  for (int i = n - 1; i >= 0; i--) {
    if (strcmp(list[i]->line, text) == 0) {
      free_history_entry(remove_history(i));
      return 1;
    }
  }
  return 0;
}

/* Reads the file and keeps the last of equal entries. */
static void load_history(void) {
  int repeats = 0;
  find_path();
  using_history();
  history_comment_char = '#';
  history_write_timestamps = 1;
  if (path[0] == '\0' || read_history(path) != 0) return;
  for (int i = history_length - 1; i > 0; i--) {
    while (forget(history_list()[i]->line, i)) repeats++, i--;
  }
  stifle_history(KEEP);
  if (repeats > 0) write_history(path);
}

void fopo_editor_remember(const char *entry) {
  size_t n = strlen(entry);
  if (!terminal || strspn(entry, " \t\n") == n) return;
  forget(entry, history_length);
  add_history(entry);
  if (path[0] == '\0') return;
  if (append_history(1, path) == 0) return;
  make_folders(); /* the first entry ever: append_history needs the file to exist */
  FILE *file = fopen(path, "a");
  if (file != NULL) {
    fclose(file);
    append_history(1, path);
  }
}

/* ---- completion ---- */

/* Pushes the list of completions of the word at the cursor. */
static int find_words(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "fopo.prompt.complete");
  lua_call(L, 1, 1);
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

/* readline calls this until it returns NULL; state counts the calls for one word. */
static char *next_word(const char *text, int state) {
  static lua_Integer at;
  (void)text;
  if (state == 0) at = 0;
  lua_rawgeti(completer, -1, ++at);
  const char *word = lua_type(completer, -1) == LUA_TSTRING ? lua_tostring(completer, -1) : NULL;
  char *copy = word != NULL ? strdup(word) : NULL;
  lua_pop(completer, 1);
  return copy;
}

/* Completes file names inside a string, elsewhere names of Lua. */
static char **complete(const char *text, int start, int end) {
  char **words = NULL;
  (void)end;
  if (rl_completion_quote_character != 0) return NULL;
  rl_attempted_completion_over = 1;
  rl_completion_suppress_append = 1;
  if (!lua_checkstack(completer, 8)) return NULL;
  lua_pushcfunction(completer, find_words);
  lua_pushstring(completer, text);
  lua_pushlstring(completer, rl_line_buffer, (size_t)start);
  if (lua_pcall(completer, 2, 1, 0) == LUA_OK && lua_istable(completer, -1)) {
    words = rl_completion_matches(text, next_word);
  }
  lua_pop(completer, 1);
  return words;
}

/* ---- jobs in the background ---- */

/* Pushes the lines that the jobs want to print, or nil. */
static int ask_jobs(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "fopo.run.job");
  lua_getfield(L, -1, "idle");
  lua_call(L, 0, 1);
  return 1;
}

/* Prints lines above the line that is being typed. */
static void print_above(const char *lines) {
  int typing = terminal && RL_ISSTATE(RL_STATE_READCMD);
  if (typing) rl_clear_visible_line();
  puts(lines);
  fflush(stdout);
  if (!typing) return;
  rl_on_new_line();
  rl_redisplay();
}

void fopo_editor_idle(void) {
  lua_State *L = completer;
  if (fopo_jobs_running() == 0 || fopo_interrupted() || !lua_checkstack(L, 8)) return;
  lua_pushcfunction(L, ask_jobs);
  lua_pcall(L, 0, 1, 0);
  if (lua_type(L, -1) == LUA_TSTRING) print_above(lua_tostring(L, -1));
  lua_pop(L, 1);
}

/* ---- lines ---- */

/* Called while readline waits: prints messages of jobs; after Ctrl-C discards the line. */
static int while_waiting(void) {
  fopo_editor_idle();
  if (fopo_interrupted()) {
    rl_cleanup_after_signal();
    siglongjmp(dropped, 1);
  }
  return 0;
}

/* Called after a signal; after one that is not Ctrl-C (continued after Ctrl-Z, a new window size)
 * the line is drawn again. */
static int after_signal(void) {
  while_waiting();
  rl_forced_update_display();
  return 0;
}

int fopo_editor_open(lua_State *L) {
  terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  completer = L;
  if (!terminal) return 0;
  rl_readline_name = "fopo";
  rl_event_hook = while_waiting;
  rl_signal_event_hook = after_signal;
  rl_attempted_completion_function = complete;
  /* without / and ~, which readline would skip at the start of a file name */
  rl_completer_word_break_characters = " \t\n\"'`@$><=;|&{}()[]+-*%^#,?!\\";
  rl_completer_quote_characters = "\"'";
  rl_initialize();
  load_history();
  return 1;
}

static fopo_line read_edited(char **line, const char *prompt) {
  volatile unsigned long state = rl_readline_state;
  if (sigsetjmp(dropped, 1) != 0) {
    rl_readline_state = state;
    putchar('\n');
    fopo_interrupt_done();
    return FOPO_LINE_DROPPED;
  }
  *line = readline(prompt);
  return *line != NULL ? FOPO_LINE : FOPO_LINE_END;
}

static fopo_line read_plain(char **line) {
  size_t capacity = 0;
  errno = 0;
  *line = NULL;
  ssize_t n = getline(line, &capacity, stdin);
  if (n < 0) {
    free(*line);
    *line = NULL;
    if (errno != EINTR) return FOPO_LINE_END;
    clearerr(stdin);
    fopo_interrupt_done();
    return FOPO_LINE_DROPPED;
  }
  if ((*line)[n - 1] == '\n') (*line)[n - 1] = '\0';
  return FOPO_LINE;
}

fopo_line fopo_editor_read(char **line, const char *prompt) {
  return terminal ? read_edited(line, prompt) : read_plain(line);
}
