/* A request is the fopo_picture, its labels, then each series and its numbers; the answer is a head
 * and what gnuplot left. Both ends are the same program, so the bytes are those of its memory; but
 * the one that draws believes none of them. */
#include "term/drawer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/border.h"
#include "core/memory.h"
#include "core/platform.h"
#include "core/replace.h"
#include "core/status.h"

enum { MOST_POINTS = 1 << 24, MOST_PIXELS = 1 << 14, MOST_OUTPUT = 1 << 30 };

typedef struct {
  int status; /* of fopo_picture_draw */
  char sentence[512];
  int code;
  size_t out_bytes, errors_bytes;
} answer;

static int drawer = -1; /* the descriptor of the process that draws, or of the one that asks */

/* Reads all n bytes; 0: they do not come. */
static int get(void *bytes, size_t n) {
  for (char *at = bytes; n > 0;) {
    ssize_t got = read(drawer, at, n);
    if (got == 0 || (got < 0 && errno != EINTR)) return 0;
    if (got < 0) continue;
    at += got;
    n -= (size_t)got;
  }
  return 1;
}

static int put(const void *bytes, size_t n) { return fopo_write_all(drawer, bytes, n) == 0; }

/* ---- the process that draws ---- */

/* A handler and not SIG_IGN, which gnuplot would inherit: Ctrl-C ends gnuplot alone. */
static void nothing(int number) { (void)number; }

int fopo_drawer_fork(int *is_drawer) {
  int ends[2];
  pid_t parent = getpid();
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "no process can draw pictures: %s", strerror(errno));
  }
  pid_t child = fork();
  if (child < 0) {
    return fopo_fail(FOPO_ERR_UNAVAILABLE, "no process can draw pictures: %s", strerror(errno));
  }
  *is_drawer = child == 0;
  drawer = ends[*is_drawer];
  close(ends[!*is_drawer]);
  if (child > 0) return FOPO_OK;
  fopo_platform_follow(parent);
  signal(SIGINT, nothing);
  signal(SIGQUIT, nothing);
  signal(SIGPIPE, nothing);
  return FOPO_OK;
}

/* What gnuplot and the libraries that draw letters need; without Landlock nothing is done. */
static void confine(void) {
  char gnuplot[4096], home[4][1024];
  static const char *const fonts[] = {".fonts", ".local/share/fonts", ".config/fontconfig",
                                      ".cache/fontconfig"};
  fopo_border_rule rules[24] = {{"/usr", FOPO_BORDER_READ},
                                {"/lib", FOPO_BORDER_READ},
                                {"/lib64", FOPO_BORDER_READ},
                                {"/lib64/ld-linux-x86-64.so.2", FOPO_BORDER_RUN},
                                {"/lib/ld-linux-aarch64.so.1", FOPO_BORDER_RUN},
                                {"/etc/ld.so.cache", FOPO_BORDER_READ},
                                {"/etc/fonts", FOPO_BORDER_READ},
                                {"/etc/localtime", FOPO_BORDER_READ},
                                {"/var/cache/fontconfig", FOPO_BORDER_READ},
                                {"/dev/null", FOPO_BORDER_READ | FOPO_BORDER_WRITE}};
  size_t n = 10;
  if (fopo_border_lacks() != NULL) return;
  for (size_t i = 0; i < 4; i++) {
    snprintf(home[i], sizeof home[i], "%.900s/%s", getenv("HOME") ? getenv("HOME") : "", fonts[i]);
    rules[n++] = (fopo_border_rule){home[i], FOPO_BORDER_READ};
  }
  if (fopo_program_find(gnuplot, sizeof gnuplot, "gnuplot")) {
    rules[n++] = (fopo_border_rule){gnuplot, FOPO_BORDER_RUN};
  }
  if (fopo_border_files(rules, n) != FOPO_OK) _exit(1);
}

static int is_word(const char *word) { return memchr(word, 0, FOPO_PICTURE_WORD) != NULL; }

static int is_picture(const fopo_picture *p) {
  return p->kind <= FOPO_PICTURE_PNG && p->width > 0 && p->width <= MOST_PIXELS && p->height > 0 &&
         p->height <= MOST_PIXELS && p->intervals <= FOPO_PICTURE_ERRORS && is_word(p->title) &&
         is_word(p->xlabel) && is_word(p->ylabel) && p->n_labels <= FOPO_PICTURE_LABELS &&
         p->n_series <= FOPO_PICTURE_SERIES;
}

/* Reads the numbers of a series into memory that *numbers owns; 0: they do not come. */
static int get_series(fopo_picture_series *s, double **numbers) {
  if (!get(s, sizeof *s)) return 0;
  if (!is_word(s->name) || s->style > FOPO_PICTURE_BARS || s->n > MOST_POINTS) return 0;
  size_t lists = s->low != NULL ? 4 : 2;
  double *x = *numbers = fopo_alloc(lists * s->n + 1, sizeof *x);
  if (x == NULL || !get(x, lists * s->n * sizeof *x)) return 0;
  s->x = x;
  s->y = x + s->n;
  s->low = lists == 4 ? x + 2 * s->n : NULL;
  s->high = lists == 4 ? x + 3 * s->n : NULL;
  return 1;
}

static int answer_with(int status, fopo_output *output) {
  answer a = {.status = status};
  if (status == FOPO_OK) {
    a.code = output->code;
    a.out_bytes = output->out_bytes;
    a.errors_bytes = output->errors_bytes;
  } else {
    snprintf(a.sentence, sizeof a.sentence, "%s", fopo_error_sentence());
  }
  int done =
      put(&a, sizeof a) &&
      (status != FOPO_OK || (put(output->out, a.out_bytes) && put(output->errors, a.errors_bytes)));
  if (status == FOPO_OK) fopo_output_done(output);
  return done;
}

/* Serves one request; 0: there is none any more, or it is damaged. */
static int serve_one(void) {
  static fopo_picture_series series[FOPO_PICTURE_SERIES];
  static fopo_picture_word labels[FOPO_PICTURE_LABELS];
  double *numbers[FOPO_PICTURE_SERIES] = {NULL};
  fopo_picture p;
  fopo_output output;
  if (!get(&p, sizeof p) || !is_picture(&p)) return 0;
  int whole = get(labels, p.n_labels * sizeof *labels);
  for (size_t i = 0; i < p.n_labels && whole; i++) whole = is_word(labels[i]);
  p.labels = labels;
  for (size_t i = 0; i < p.n_series && whole; i++) whole = get_series(&series[i], &numbers[i]);
  p.series = series;
  if (whole) whole = answer_with(fopo_picture_draw(&output, &p), &output);
  for (size_t i = 0; i < FOPO_PICTURE_SERIES; i++) fopo_free(numbers[i]);
  return whole;
}

void fopo_drawer_serve(void) {
  confine();
  while (serve_one()) continue;
}

/* ---- the process that asks ---- */

static int put_series(const fopo_picture_series *s) {
  size_t bytes = s->n * sizeof *s->x;
  return put(s, sizeof *s) && put(s->x, bytes) && put(s->y, bytes) &&
         (s->low == NULL || (put(s->low, bytes) && put(s->high, bytes)));
}

static int ask(const fopo_picture *picture) {
  int done = put(picture, sizeof *picture) &&
             put(picture->labels, picture->n_labels * sizeof *picture->labels);
  for (size_t i = 0; i < picture->n_series && done; i++) done = put_series(&picture->series[i]);
  return done;
}

/* *text becomes n bytes and a zero byte. */
static int get_text(char **text, size_t *n, size_t bytes) {
  *text = bytes < MOST_OUTPUT ? fopo_alloc(bytes + 1, 1) : NULL;
  *n = bytes;
  if (*text == NULL || !get(*text, bytes)) return 0;
  (*text)[bytes] = '\0';
  return 1;
}

int fopo_drawer_draw(fopo_output *output, const fopo_picture *picture) {
  answer a;
  if (drawer < 0) return fopo_picture_draw(output, picture);
  memset(output, 0, sizeof *output);
  for (size_t i = 0; i < picture->n_series; i++) {
    if (picture->series[i].n <= MOST_POINTS) continue;
    return fopo_fail(FOPO_ERR_ARGUMENT, "a series of %zu points is more than --safe draws (%d)",
                     picture->series[i].n, MOST_POINTS);
  }
  if (ask(picture) && get(&a, sizeof a)) {
    if (a.status != FOPO_OK) return fopo_fail(a.status, "%.511s", a.sentence);
    output->code = a.code;
    if (get_text(&output->out, &output->out_bytes, a.out_bytes) &&
        get_text(&output->errors, &output->errors_bytes, a.errors_bytes)) {
      return FOPO_OK;
    }
    fopo_output_done(output);
  }
  return fopo_fail(FOPO_ERR_UNAVAILABLE, "the process that draws has ended; begin anew");
}
