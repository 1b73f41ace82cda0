/* readline installs its own signal handlers while it reads; they set a flag, and rl_check_signals
 * then restores the terminal and calls ours. readline takes its keys from next_key, which sees the
 * flag of the interruption before it takes what was typed after Ctrl-C, and leaves by siglongjmp.
 * The jump crosses no Lua frame, because no completion is running then.
 */
#include "term/editor.h"

#include <errno.h>
#include <lauxlib.h>
#include <poll.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <readline/readline.h>

#include "core/notice.h"
#include "core/progress.h"
#include "term/background.h"
#include "term/chunk.h"
#include "term/endings.h"
#include "term/history.h"
#include "term/interrupt.h"
#include "term/parent.h"
#include "train/job.h"

static int terminal;
static lua_State *completer;
static sigjmp_buf dropped;
static int gone;  /* the terminal cannot be read any more */
static int cause; /* errno of it, or 0: its input has ended */

/* ---- completion ---- */

/* Pushes the list of completions of the word at the cursor. */
static int find_words(lua_State *L) {
  fopo_chunk_require(L, "fopo.prompt.complete");
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

/* Completes names of Lua; inside a string what an option may be or what help knows, elsewhere in
 * strings file names. */
static char **complete(const char *text, int start, int end) {
  char **words = NULL;
  (void)end;
  int quoted = rl_completion_quote_character != 0;
  rl_attempted_completion_over = !quoted;
  rl_completion_suppress_append = !quoted;
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

static int asked; /* Ctrl-D was pressed while jobs train, and nothing was entered since */

int fopo_editor_leaves(void) {
  fopo_editor_idle();
  int n = fopo_jobs_running();
  if (!terminal || n == 0 || asked) return 1;
  asked = 1;
  printf("\n%d job%s not ended: Ctrl-D again stops %s and leaves; jobs() shows %s\n", n,
         n == 1 ? " has" : "s have", n == 1 ? "it" : "them", n == 1 ? "it" : "them");
  return 0;
}

/* ---- endings ---- */

static struct termios outside; /* the terminal's state before readline */
static int dumb;

/* Safe in a signal handler. */
static void restore_terminal(void) {
  static const char paste_off[] = "\033[?2004l"; /* readline has asked for marks around pastes */
  if (!dumb && write(STDOUT_FILENO, paste_off, sizeof paste_off - 1) < 0) return;
  tcsetattr(STDIN_FILENO, TCSANOW, &outside);
}

/* ---- lines ---- */

/* After Ctrl-C: discards the line. */
static void drop_if_interrupted(void) {
  rl_check_signals();
  if (!fopo_interrupted()) return;
  rl_cleanup_after_signal();
  siglongjmp(dropped, 1);
}

/* The next byte from the terminal. While it waits it prints messages of jobs; after a signal that
 * is not Ctrl-C (continued after Ctrl-Z, a new window size) it draws the line again. */
static int next_byte(void *file) {
  FILE *in = file;
  struct pollfd keys = {.fd = fileno(in), .events = POLLIN};
  unsigned char c;
  for (;;) {
    fopo_editor_idle();
    int ready = poll(&keys, 1, 100), why = errno;
    drop_if_interrupted();
    if (ready > 0) {
      ssize_t n = read(keys.fd, &c, 1);
      if (n == 1) return c;
      cause = n < 0 ? errno : 0;
      gone = cause != EINTR;
    } else if (ready < 0) {
      cause = why;
      gone = cause != EINTR;
      if (!gone) rl_forced_update_display();
    }
    if (gone) return EOF;
  }
}

/* The next byte that is typed. */
static int next_key(FILE *in) { return fopo_background_key(next_byte, in, fileno(in)); }

/* Called by readline when the prompt stands and the terminal does not echo. */
static int ask_background(void) {
  if (!dumb) fopo_background_ask();
  return 0;
}

void fopo_editor_remember(const char *entry) {
  asked = 0;
  if (terminal && strspn(entry, " \t\n") < strlen(entry)) fopo_history_add(entry);
}

int fopo_editor_open(lua_State *L) {
  terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  completer = L;
  if (!terminal) return 0;
  const char *term = getenv("TERM");
  dumb = term == NULL || *term == '\0' || strcmp(term, "dumb") == 0;
  if (tcgetattr(STDIN_FILENO, &outside) == 0) fopo_endings_restore(restore_terminal);
  fopo_parent_watch();
  rl_readline_name = "fopo";
  rl_getc_function = next_key;
  rl_pre_input_hook = ask_background;
  rl_attempted_completion_function = complete;
  /* without / and ~, which readline would skip at the start of a file name */
  rl_completer_word_break_characters = " \t\n\"'`@$><=;|&{}()[]+-*%^#,?!\\";
  rl_completer_quote_characters = "\"'";
  rl_initialize();
  fopo_history_open();
  return 1;
}

static fopo_line read_edited(char **line, const char *prompt) {
  volatile unsigned long state = rl_readline_state;
  if (sigsetjmp(dropped, 1) != 0) {
    rl_readline_state = state;
    putchar('\n');
    if (fopo_ending()) return FOPO_LINE_END;
    fopo_interrupt_done();
    return FOPO_LINE_DROPPED;
  }
  *line = readline(prompt);
  if (gone) { /* readline takes the part of a line that was typed for the whole */
    free(*line);
    *line = NULL;
    if (cause != 0 && !fopo_ending()) {
      fopo_notice("the terminal could not be read: %s", strerror(cause));
      return FOPO_LINE_LOST;
    }
  }
  fopo_history_read();
  return *line != NULL ? FOPO_LINE : FOPO_LINE_END;
}

/* Says why a line could not be read. If only memory was short, what is left of it is skipped and
 * the next one is read; else the input ends. */
static fopo_line give_up_line(int why) {
  fopo_notice("a line of the input could not be read: %s", strerror(why));
  if (why != ENOMEM || ferror(stdin)) return FOPO_LINE_LOST;
  int c = 0;
  while (c != '\n' && c != EOF) c = getc(stdin);
  return FOPO_LINE_DROPPED;
}

static fopo_line read_plain(char **line) {
  size_t capacity = 0;
  errno = 0;
  *line = NULL;
  ssize_t n = getline(line, &capacity, stdin);
  if (n < 0) {
    int why = errno;
    free(*line);
    *line = NULL;
    if (feof(stdin) || why == 0) return FOPO_LINE_END;
    if (why != EINTR) return give_up_line(why);
    clearerr(stdin);
    if (fopo_ending()) return FOPO_LINE_END;
    fopo_interrupt_done();
    return FOPO_LINE_DROPPED;
  }
  if ((*line)[n - 1] == '\n') (*line)[n - 1] = '\0';
  return FOPO_LINE;
}

fopo_line fopo_editor_read(char **line, const char *prompt) {
  return terminal ? read_edited(line, prompt) : read_plain(line);
}
