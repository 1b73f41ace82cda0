/* The file has a line with the time before each entry, so entries may have several lines. */
#include "term/history.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <readline/history.h>
#include <readline/readline.h>

enum { KEEP = 10000 }; /* entries; loading them takes about a millisecond */

static char path[4096]; /* "": no file */
static int next = -1;   /* the entry behind the one that was recalled last; -1: none */

/* ---- the file ---- */

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
      if (i < next) next--;
      return 1;
    }
  }
  return 0;
}

/* Reads the file and keeps the last of equal entries. */
static void load(void) {
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

static void append_to_file(void) {
  if (path[0] == '\0' || append_history(1, path) == 0) return;
  make_folders(); /* the first entry ever: append_history needs the file to exist */
  FILE *file = fopen(path, "a");
  if (file != NULL) {
    fclose(file);
    append_history(1, path);
  }
}

void fopo_history_add(const char *entry) {
  forget(entry, history_length);
  int before = history_length;
  add_history(entry);
  if (history_length == before) next--; /* the first entry was dropped */
  if (next >= history_length - 1) next = -1;
  append_to_file();
}

void fopo_history_read(void) { next = where_history() < history_length ? where_history() + 1 : -1; }

/* ---- Up and Down ---- */

static char *prefix; /* that recalled entries begin with */

static int up(int count, int key);
static int down(int count, int key);

/* Settles what is searched for when Up or Down comes after another key: what is typed before the
 * cursor, and nothing in an entry that was recalled and not changed. */
static void settle_prefix(void) {
  if (rl_last_func == up || rl_last_func == down) return;
  const HIST_ENTRY *here = where_history() < history_length ? current_history() : NULL;
  int recalled = here != NULL && strcmp(here->line, rl_line_buffer) == 0;
  free(prefix);
  prefix = strndup(rl_line_buffer, recalled ? 0 : (size_t)rl_point);
}

/* The nearest entry before or behind the current one (by: -1, 1) that begins with the prefix and is
 * not what the line shows; -1: none. */
static int find(int by) {
  HIST_ENTRY **list = history_list();
  size_t n = prefix != NULL ? strlen(prefix) : 0;
  for (int i = where_history() + by; i >= 0 && i < history_length; i += by) {
    int same = n > 0 && strcmp(list[i]->line, rl_line_buffer) == 0;
    if (!same && (n == 0 || strncmp(list[i]->line, prefix, n) == 0)) return i;
  }
  return -1;
}

static int up(int count, int key) {
  settle_prefix();
  for (; count > 0; count--) {
    int i = find(-1);
    if (i < 0) return rl_ding();
    rl_get_previous_history(where_history() - i, key);
  }
  return 0;
}

/* Behind the last entry the line comes back that was typed before Up. */
static int down(int count, int key) {
  settle_prefix();
  if (where_history() == history_length && rl_end == 0 && next >= 0) {
    rl_get_previous_history(history_length - next, key);
    count--;
  }
  for (; count > 0; count--) {
    int i = find(1);
    rl_get_next_history((i >= 0 ? i : history_length) - where_history(), key);
  }
  return 0;
}

/* Binds the key unless the user's inputrc does. */
static void bind_key(const char *sequence, rl_command_func_t *usual, rl_command_func_t *own) {
  int type = ISFUNC;
  rl_command_func_t *bound = rl_function_of_keyseq(sequence, NULL, &type);
  if (bound == NULL || (type == ISFUNC && bound == usual)) rl_bind_keyseq(sequence, own);
}

void fopo_history_open(void) {
  load();
  bind_key("\033[A", rl_get_previous_history, up);
  bind_key("\033OA", rl_get_previous_history, up);
  bind_key("\033[B", rl_get_next_history, down);
  bind_key("\033OB", rl_get_next_history, down);
}
