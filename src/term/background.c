/* An answer is ESC ] 11 ; rgb : RRRR / GGGG / BBBB, ended by BEL or ESC \. Its bytes come together,
 * so a pause inside means that an escape key was pressed: then the bytes are keys. */
#include "term/background.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "term/theme.h"

enum { ESC = 27, BEL = 7, END = 4, KEPT = 256, ANSWER = 64, PAUSE = 50 /* ms inside an answer */ };

static const double patience = 0.3; /* seconds that the first line is held back for the answer */

static enum { UNASKED, WAITING, SETTLED } state;
static double asked_at;
static unsigned char kept[KEPT]; /* keys that were read while looking for an answer */
static size_t kept_n;

/* ---- the question ---- */

static int understands(const char *term) {
  static const char *const names[] = {"xterm", "tmux", "screen", "rxvt",    "alacritty", "kitty",
                                      "foot",  "vte",  "gnome",  "konsole", "wezterm",   "st-"};
  for (size_t i = 0; term != NULL && i < sizeof names / sizeof *names; i++) {
    if (strncmp(term, names[i], strlen(names[i])) == 0) return 1;
  }
  return 0;
}

void fopo_background_ask(void) {
  static const char question[] = "\033]11;?\033\\";
  const char *plain = getenv("NO_COLOR");
  if (state != UNASKED) return;
  state = SETTLED;
  if (fopo_theme_is_named() || !understands(getenv("TERM")) || (plain != NULL && *plain != '\0') ||
      !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
    return;
  }
  fflush(stdout);
  if (write(STDOUT_FILENO, question, sizeof question - 1) != (ssize_t)sizeof question - 1) return;
  state = WAITING;
  asked_at = fopo_clock();
}

/* ---- the answer ---- */

/* "rgb:ffff/ffff/dddd", of one to four digits each, to a theme; anything else says nothing. */
static void take(const char *answer) {
  static const double weights[] = {0.2126, 0.7152, 0.0722};
  const char *p = strchr(answer, ':');
  double light = 0;
  if (strncmp(answer, "rgb", 3) != 0 || p == NULL) return;
  for (int i = 0; i < 3; i++) {
    const char *start = ++p;
    char *end;
    unsigned long part = strtoul(start, &end, 16);
    if (end == start || end - start > 4) return;
    light += weights[i] * (double)part / (double)((1ul << 4 * (end - start)) - 1);
    p = end;
  }
  fopo_theme_suggest(light > 0.5 ? FOPO_THEME_LIGHT : FOPO_THEME_DARK);
}

/* A byte within `ms`; -1: none. */
static int soon(int fd, int ms) {
  struct pollfd keys = {.fd = fd, .events = POLLIN};
  unsigned char c;
  return poll(&keys, 1, ms) == 1 && read(fd, &c, 1) == 1 ? c : -1;
}

static void keep(const char *bytes, size_t n) {
  for (size_t i = 0; i < n && kept_n < KEPT; i++) kept[kept_n++] = (unsigned char)bytes[i];
}

/* After an ESC: 1 if an answer followed, which is taken. Else what was read is kept, to be typed.
 */
static int answered(int fd) {
  static const char begin[] = "]11;";
  char text[ANSWER];
  size_t n = 0;
  while (n + 1 < sizeof text) {
    int c = soon(fd, PAUSE);
    if (c < 0) break;
    text[n++] = (char)c;
    if (n <= 4 && c != begin[n - 1]) break;
    if (n <= 4 || (c != BEL && !(c == '\\' && text[n - 2] == ESC))) continue;
    text[n - (c == BEL ? 1 : 2)] = '\0';
    take(text + 4);
    return 1;
  }
  keep(text, n);
  return 0;
}

/* Waits until the first line has been held back long enough for the answer; keys are kept. */
static void hold(int fd) {
  while (state == WAITING) {
    int left = (int)(1000 * (asked_at + patience - fopo_clock()));
    int c = left > 0 && kept_n < KEPT ? soon(fd, left) : -1;
    if (c < 0) return;
    size_t before = kept_n;
    keep(&(char){(char)c}, 1);
    if (c != ESC || !answered(fd)) continue;
    kept_n = before;
    state = SETTLED;
  }
}

int fopo_background_key(int (*read_key)(void *data), void *data, int fd) {
  if (kept_n > 0) {
    int c = kept[0];
    memmove(kept, kept + 1, --kept_n);
    return c;
  }
  int c = read_key(data);
  if (state != WAITING) return c;
  if (c == ESC && answered(fd)) {
    state = SETTLED;
    return fopo_background_key(read_key, data, fd);
  }
  /* The line, or the session, ends: an answer that comes later would be echoed. */
  if (c == '\r' || c == '\n' || c == END) hold(fd);
  return c;
}
