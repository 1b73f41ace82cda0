/* One job at a time: a new label begins a new job. Called from one thread. */
#include "term/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/plain.h"
#include "core/progress.h"

enum { LINE = 256, LABEL = 96, CELLS = 20 };

static struct {
  char what[LABEL]; /* "" between jobs */
  double begun;
  double next; /* time of the next drawing */
  int drawn;   /* columns of the bar on the line */
} bar;

static int columns(void) {
  struct winsize size;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

/* "1.4 s" up to a minute, then "3:20", then "1:05:00". */
static void duration(char text[24], double seconds) {
  if (!(seconds < 359999)) seconds = 359999;
  long s = (long)seconds;
  if (seconds < 60) {
    snprintf(text, 24, "%.1f s", seconds);
  } else if (s < 3600) {
    snprintf(text, 24, "%ld:%02ld", s / 60, s % 60);
  } else {
    snprintf(text, 24, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  }
}

void fopo_progress_bar_text(char *line, int size, const char *what, double done, double total,
                            double seconds, int width) {
  char spent[24], left[24], cells[CELLS + 1];
  if (width >= size) width = size - 1;
  duration(spent, seconds);
  if (!(total > 0)) {
    snprintf(line, (size_t)width + 1, "%s  %s", what, spent);
    return;
  }
  double share = done < 0 ? 0 : done > total ? 1 : done / total;
  int filled = (int)(share * CELLS);
  memset(cells, '#', (size_t)filled);
  memset(cells + filled, '.', (size_t)(CELLS - filled));
  cells[CELLS] = '\0';
  duration(left, share > 0 ? seconds * (1 - share) / share : 1e9);
  int percent = (int)(100 * share);
  if (width < 2 * CELLS + 20) {
    snprintf(line, (size_t)width + 1, "%3d %%  %s", percent, what);
  } else {
    int label = width - CELLS - 40; /* the label is cut, never the figures */
    if (label < 12) label = 12;
    snprintf(line, (size_t)width + 1, "%.*s  [%s] %3d %%  %s%s%s%s", label, what, cells, percent,
             spent, share > 0 ? ", " : "", share > 0 ? left : "", share > 0 ? " left" : "");
  }
}

void fopo_progress_bar_erase(void) {
  if (bar.drawn > 0) fprintf(stderr, "\r%*s\r", bar.drawn, "");
  fflush(stderr);
  bar.drawn = 0;
}

static void sink(void *payload, const char *what, double done, double total, int closed) {
  static int terminal = -1;
  char line[LINE];
  double now = fopo_clock();
  (void)payload;
  if (terminal < 0) terminal = isatty(STDERR_FILENO);
  if (strncmp(bar.what, what, LABEL - 1) != 0) {
    fopo_progress_bar_erase();
    snprintf(bar.what, sizeof bar.what, "%s", what);
    bar.begun = now;
    bar.next = now + (terminal ? 0.5 : 5.0);
  }
  if (closed) {
    fopo_progress_bar_erase();
    bar.what[0] = '\0';
    return;
  }
  if (now < bar.next) return;
  bar.next = now + (terminal ? 0.1 : 30.0);
  char plain[LABEL];
  fopo_plain(plain, sizeof plain, what, strlen(what));
  fopo_progress_bar_text(line, sizeof line, plain, done, total, now - bar.begun,
                         terminal ? columns() - 1 : LINE - 1);
  if (terminal) {
    int length = (int)strlen(line);
    fprintf(stderr, "\r%s%*s", line, bar.drawn > length ? bar.drawn - length : 0, "");
    bar.drawn = length;
  } else {
    fprintf(stderr, "%s\n", line);
  }
  fflush(stderr);
}

void fopo_progress_bar(int on) {
  fopo_progress_bar_erase();
  bar.what[0] = '\0';
  fopo_progress_to(on ? sink : NULL, NULL);
}
