/* ncurses runs through newterm on a descriptor of its own, so that descriptors 1 and 2 can be
 * redirected into a file in memory. The handler of a fatal signal writes a string prepared before
 * (leave the alternate screen, show the cursor, normal attributes) and restores the terminal mode:
 * write() and tcsetattr() are safe in a handler, ncurses is not. The size is read before each
 * drawing, so many resizes in a row cost nothing and no handler calls ncurses. */
#include "term/view/terminal.h"

#define NCURSES_WIDECHAR 1 /* asked for by _GNU_SOURCE with glibc alone */
#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "core/platform.h"
#include "core/status.h"
#include "term/endings.h"
#include "term/parent.h"
#include "term/theme.h"

static struct {
  volatile sig_atomic_t open;
  SCREEN *screen;
  FILE *out, *in;
  int tty;      /* our descriptor of the terminal */
  int saved[2]; /* copies of descriptors 1 and 2; -1: not redirected */
  int memory;   /* the file that 1 and 2 are redirected to; -1: none */
  off_t read;   /* bytes of it that were fetched */
  struct termios before;
  char restore[256]; /* the prepared string */
  size_t restore_length;
  struct sigaction former_stop, former_continue, former_window;
  fopo_restore *former_restore;
  int colours;       /* 0, 8 or 256 */
  fopo_screen shown; /* what the terminal shows */
} view = {.tty = -1, .saved = {-1, -1}, .memory = -1};

static volatile sig_atomic_t stop_wanted, continued, resized;

/* ---- endings ---- */

/* Restores the terminal and descriptors 1 and 2 with calls that are safe in a signal handler. */
static void restore_quickly(void) {
  if (!view.open) return;
  view.open = 0;
  fopo_parent_restores(NULL, 0);
  ssize_t ignored = write(view.tty, view.restore, view.restore_length);
  (void)ignored;
  tcsetattr(view.tty, TCSANOW, &view.before);
  for (int i = 0; i < 2; i++) {
    if (view.saved[i] >= 0) dup2(view.saved[i], i + 1);
  }
}

static void on_stop(int number) {
  (void)number;
  stop_wanted = 1;
}

static void on_continue(int number) {
  (void)number;
  continued = 1;
}

/* Between two drawings a window may become smaller and as large as before again: its size says
 * nothing then, but what it showed is cut off. */
static void on_resize(int number) {
  (void)number;
  resized = 1;
}

static void set_handlers(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigfillset(&action.sa_mask);
  view.former_restore = fopo_endings_restore(restore_quickly);
  action.sa_handler = on_stop;
  sigaction(SIGTSTP, &action, &view.former_stop);
  action.sa_handler = on_continue;
  sigaction(SIGCONT, &action, &view.former_continue);
  action.sa_handler = on_resize;
  sigaction(SIGWINCH, &action, &view.former_window);
  stop_wanted = continued = resized = 0;
}

static void reset_handlers(void) {
  fopo_endings_restore(view.former_restore);
  sigaction(SIGTSTP, &view.former_stop, NULL);
  sigaction(SIGCONT, &view.former_continue, NULL);
  sigaction(SIGWINCH, &view.former_window, NULL);
}

/* Appends a capability of the terminal, without its padding ("$<5>"), to the prepared string. */
static void prepare(const char *capability) {
  char *s = tigetstr((char *)capability);
  if (s == NULL || s == (char *)-1) return;
  while (*s != '\0' && view.restore_length + 1 < sizeof view.restore) {
    if (s[0] == '$' && s[1] == '<' && strchr(s, '>') != NULL) {
      s = strchr(s, '>') + 1;
    } else {
      view.restore[view.restore_length++] = *s++;
    }
  }
}

/* ---- opening ---- */

/* True if the terminal can move its cursor; *known: terminfo has an entry for it. The terminal that
 * readline has set up stays current. */
static int can_move(int *known) {
  TERMINAL *before = cur_term;
  int why;
  *known = setupterm(NULL, STDOUT_FILENO, &why) == OK;
  if (!*known) return 0;
  const char *cup = tigetstr((char *)"cup");
  int can = cup != NULL && cup != (char *)-1;
  TERMINAL *mine = set_curterm(before);
  if (mine != before) del_curterm(mine);
  return can;
}

int fopo_terminal_possible(void) {
  const char *term = getenv("TERM");
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "the live view needs a terminal; standard %s is none",
                     isatty(STDIN_FILENO) ? "output" : "input");
  }
  int known = 0;
  if (term != NULL && *term != '\0' && can_move(&known)) return FOPO_OK;
  return fopo_fail(FOPO_ERR_UNAVAILABLE,
                   "the live view needs a terminal that can move its cursor; "
                   "TERM is %s%s",
                   term == NULL || *term == '\0' ? "not set" : term,
                   known || term == NULL || *term == '\0' ? "" : ", which terminfo does not know");
}

/* Redirects descriptors 1 and 2, if they are terminals, to a file in memory. A file, unlike a pipe,
 * never blocks its writer, which may be this same thread. */
static int redirect(void) {
  fflush(stdout);
  fflush(stderr);
  view.read = 0;
  view.memory = fopo_platform_file();
  if (view.memory < 0 || fcntl(view.memory, F_SETFL, O_APPEND) != 0) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "the live view cannot redirect the output: %s",
                     strerror(errno));
  }
  for (int fd = 1; fd <= 2; fd++) {
    if (!isatty(fd)) continue;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0 || dup2(view.memory, fd) < 0) {
      if (copy >= 0) close(copy);
      return fopo_fail(FOPO_ERR_UNAVAILABLE, "the live view cannot redirect the output: %s",
                       strerror(errno));
    }
    view.saved[fd - 1] = copy;
  }
  return FOPO_OK;
}

static void redirect_back(void) {
  fflush(stdout);
  fflush(stderr);
  for (int i = 0; i < 2; i++) {
    if (view.saved[i] < 0) continue;
    dup2(view.saved[i], i + 1);
    close(view.saved[i]);
    view.saved[i] = -1;
  }
}

static void start_colours(int colour) {
  view.colours = 0;
  if (!colour || !has_colors() || start_color() != OK || use_default_colors() != OK) return;
  view.colours = COLORS >= 256 ? 256 : 8;
  for (int ink = 1; ink < FOPO_INKS; ink++) {
    const fopo_colour *look = fopo_theme_ink(fopo_theme_get(), (fopo_ink)ink);
    init_pair((short)ink, view.colours == 256 ? look->rich : look->poor, -1);
  }
}

static attr_t attributes(uint32_t ink) {
  if (ink == FOPO_INK_BAR) return A_REVERSE;
  if (ink == FOPO_INK_BOLD || ink == FOPO_INK_WARN) return A_BOLD;
  return ink == FOPO_INK_DIM && view.colours < 256 ? A_DIM : A_NORMAL;
}

int fopo_terminal_open(int colour) {
  static int once;
  int status = fopo_terminal_possible();
  if (status != FOPO_OK) return status;
  if (view.open) return fopo_fail(FOPO_ERR_UNAVAILABLE, "the live view is open already");
  view.tty = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (view.tty < 0 || tcgetattr(view.tty, &view.before) != 0 ||
      (view.out = fdopen(view.tty, "w")) == NULL) {
    status = fopo_fail(FOPO_ERR_UNAVAILABLE, "the terminal cannot be used: %s", strerror(errno));
    if (view.tty >= 0) close(view.tty);
    return status;
  }
  fopo_parent_watch();
  set_handlers(); /* before newterm, which installs handlers of signals that have none */
  view.screen = newterm(NULL, view.out, stdin);
  if (view.screen == NULL) {
    fopo_parent_unwatch();
    reset_handlers();
    fclose(view.out);
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "the terminal %s cannot be used for the live view",
                     getenv("TERM"));
  }
  if (!once && atexit(restore_quickly) == 0) once = 1;
  view.restore_length = 0;
  prepare("rmkx"), prepare("sgr0"), prepare("cnorm"), prepare("rmcup");
  fopo_parent_restores(view.restore, view.restore_length);
  view.open = 1;
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(25);
  curs_set(0);
  start_colours(colour);
  status = redirect();
  if (status != FOPO_OK) fopo_terminal_close();
  return status;
}

void fopo_terminal_close(void) {
  if (view.screen == NULL) return;
  if (view.open) endwin();
  view.open = 0;
  fopo_parent_restores(NULL, 0);
  fopo_parent_unwatch();
  tcsetattr(view.tty, TCSADRAIN, &view.before);
  delscreen(view.screen);
  view.screen = NULL;
  fclose(view.out);
  redirect_back();
  reset_handlers();
  fopo_screen_done(&view.shown);
  if (view.memory >= 0) close(view.memory);
  view.memory = view.tty = -1;
}

/* ---- showing ---- */

void fopo_terminal_size(int *rows, int *cols) {
  struct winsize size;
  *rows = LINES, *cols = COLS;
  if (ioctl(view.tty, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return;
  *rows = size.ws_row < FOPO_SCREEN_MOST ? size.ws_row : FOPO_SCREEN_MOST;
  *cols = size.ws_col < FOPO_SCREEN_MOST ? size.ws_col : FOPO_SCREEN_MOST;
  if (*rows != LINES || *cols != COLS) resizeterm(*rows, *cols);
}

/* Sends the cells [from, to) of a row, all of one ink. */
static void send(const fopo_screen *s, int row, int from, int to) {
  wchar_t text[FOPO_SCREEN_MOST];
  const fopo_cell *cells = s->cells + (size_t)row * (size_t)s->cols;
  for (int i = from; i < to; i++) text[i - from] = (wchar_t)cells[i].code;
  attr_set(attributes(cells[from].ink), view.colours > 0 ? (short)cells[from].ink : 0, NULL);
  mvaddnwstr(row, from, text, to - from);
}

static int same(const fopo_cell *a, const fopo_cell *b) {
  return a->code == b->code && a->ink == b->ink;
}

void fopo_terminal_show(const fopo_screen *s, int anew) {
  int rows, cols;
  if (!view.open) return;
  if (resized) {
    resized = 0;
    anew = 1;
  }
  fopo_terminal_size(&rows, &cols);
  if (continued) {
    continued = 0;
    reset_prog_mode();
    anew = 1;
  }
  if (anew || view.shown.rows != s->rows || view.shown.cols != s->cols) {
    if (fopo_screen_resize(&view.shown, s->rows, s->cols) != FOPO_OK) return;
    erase();
    clearok(curscr, TRUE);
  }
  for (int row = 0; row < s->rows && row < rows; row++) {
    const fopo_cell *now = s->cells + (size_t)row * (size_t)s->cols;
    fopo_cell *old = view.shown.cells + (size_t)row * (size_t)s->cols;
    int edge = s->cols < cols ? s->cols : cols;
    for (int from = 0, to; from < edge; from = to) {
      to = from + 1;
      if (same(&now[from], &old[from])) continue;
      while (to < edge && now[to].ink == now[from].ink && !same(&now[to], &old[to])) to++;
      send(s, row, from, to);
    }
    memcpy(old, now, (size_t)s->cols * sizeof *old);
  }
  refresh();
}

/* ---- keys ---- */

/* Ctrl-Z: restores the terminal, stops the process, and takes the terminal again. */
static void stop(void) {
  stop_wanted = 0;
  def_prog_mode();
  endwin();
  fopo_parent_restores(NULL, 0);
  tcsetattr(view.tty, TCSADRAIN, &view.before);
  raise(SIGSTOP);
  fopo_parent_restores(view.restore, view.restore_length);
  continued = 1;
  refresh();
}

static int key_of(wint_t code, int kind) {
  if (kind != KEY_CODE_YES) return code == 127 || code == 8 ? FOPO_KEY_BACKSPACE : (int)code;
  switch (code) {
  case KEY_LEFT: return FOPO_KEY_LEFT;
  case KEY_RIGHT: return FOPO_KEY_RIGHT;
  case KEY_UP: return FOPO_KEY_UP;
  case KEY_DOWN: return FOPO_KEY_DOWN;
  case KEY_HOME: return FOPO_KEY_HOME;
  case KEY_END: return FOPO_KEY_END;
  case KEY_BACKSPACE: return FOPO_KEY_BACKSPACE;
  case KEY_DC: return FOPO_KEY_DELETE;
  case KEY_ENTER: return '\r';
  case KEY_RESIZE: return FOPO_KEY_RESIZE;
  default: return FOPO_KEY_NONE;
  }
}

/* The key after an Esc: an escape sequence that ncurses does not know, or Esc itself. Without this
 * the letters of the sequence would be read as keys. */
static int after_escape(void) {
  static const char finals[] = "DCHFAB";
  static const int names[] = {FOPO_KEY_LEFT, FOPO_KEY_RIGHT, FOPO_KEY_HOME,
                              FOPO_KEY_END,  FOPO_KEY_UP,    FOPO_KEY_DOWN};
  wint_t code;
  int kind = get_wch(&code), n = 0;
  if (kind == ERR) return 27;
  if (kind != OK || (code != '[' && code != 'O')) {
    unget_wch((wchar_t)code);
    return 27;
  }
  while ((kind = get_wch(&code)) == OK && n < 32 && (code < 0x40 || code > 0x7E)) n++;
  const char *at = kind == OK && n == 0 && code != 0 ? strchr(finals, (int)code) : NULL;
  return at != NULL ? names[at - finals] : FOPO_KEY_NONE;
}

static int key_now(int *key) {
  wint_t code;
  int kind = get_wch(&code);
  if (kind == ERR) return 0;
  *key = kind == OK && code == 27 ? after_escape() : key_of(code, kind);
  return 1;
}

int fopo_terminal_key(double seconds) {
  int key;
  if (!view.open) return FOPO_KEY_NONE;
  if (stop_wanted) stop();
  if (key_now(&key)) return key;
  struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
  int ready = poll(&wait, 1, seconds > 0 ? (int)(seconds * 1000 + 0.5) : 0);
  if (stop_wanted) stop();
  if (ready <= 0) return FOPO_KEY_NONE;
  if (key_now(&key)) return key;
  return wait.revents & (POLLHUP | POLLERR | POLLNVAL) ? FOPO_KEY_GONE : FOPO_KEY_NONE;
}

/* ---- redirected output ---- */

size_t fopo_terminal_said(char *text, size_t size) {
  if (view.memory < 0) return 0;
  fflush(stdout);
  fflush(stderr);
  ssize_t n = pread(view.memory, text, size, view.read);
  if (n <= 0) {
    if (view.read > 0 && ftruncate(view.memory, 0) == 0) view.read = 0;
    return 0;
  }
  view.read += n;
  return (size_t)n;
}
