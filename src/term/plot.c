/* A plot is made in three steps: the axes (range and round ticks), the canvas of cells on which the
 * series are drawn as joined lines, and the text around it. A cell is 2 x 4 dots in braille, 2 x 2
 * in blocks, and one character otherwise. If two series share a cell, the later one is on top. */
#include "term/plot.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/plain.h"
#include "core/status.h"
#include "term/axis.h"
#include "term/dots.h"
#include "term/string.h"
#include "term/theme.h"

enum { MARKS = 6, LEAST_WIDTH = 24, LEAST_HEIGHT = 3, MOST = 2000 };

static const char marks[MARKS + 1] = "*o+x#@";

typedef struct {
  int cols, rows;   /* in characters */
  int across, down; /* dots in a character: 2 x 4, or 1 x 1 */
  uint8_t *dots;    /* [rows, cols] bits of braille, or 1; 0: empty */
  uint8_t *owner;   /* [rows, cols] the series on top, modulo MARKS */
  uint8_t series;   /* the one being drawn, modulo MARKS */
} canvas;

/* ---- text ---- */

static void put_times(fopo_string *b, const char *s, int times) {
  for (int i = 0; i < times; i++) fopo_string_put(b, s);
}

/* A user's text: control characters, which could move the cursor, become '?'. */
static void put_label(fopo_string *b, const char *s) {
  for (; *s != '\0'; s++) {
    char c = (unsigned char)*s < 32 || *s == 127 ? '?' : *s;
    fopo_string_put_bytes(b, &c, 1);
  }
}

/* Ends a line and removes the blanks at its end. */
static void end_line(fopo_string *b) {
  while (b->n > 0 && b->s[b->n - 1] == ' ') b->n--;
  fopo_string_put(b, "\n");
}

/* Columns of UTF-8 text: the bytes that begin a character. */
static int width_of(const char *s) {
  int n = 0;
  for (; *s != '\0'; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
  return n;
}

static void put_centred(fopo_string *b, const char *s, int margin, int width) {
  int space = (width - width_of(s)) / 2;
  put_times(b, " ", margin + (space > 0 ? space : 0));
  put_label(b, s);
  end_line(b);
}

/* ---- axes ---- */

/* Sets the ranges over all series. Returns how many points cannot be shown; *shown: how many can.
 */
static size_t ranges(fopo_axis *x, fopo_axis *y, const fopo_plot *plot, size_t *shown) {
  double lo[2] = {INFINITY, INFINITY}, hi[2] = {-INFINITY, -INFINITY};
  size_t left_out = 0;
  *shown = 0;
  for (size_t s = 0; s < plot->n_series; s++) {
    const fopo_series *one = &plot->series[s];
    for (size_t i = 0; i < one->n; i++) {
      if (!fopo_axis_shows(x, one->x[i]) || !fopo_axis_shows(y, one->y[i])) {
        left_out++;
        continue;
      }
      lo[0] = fmin(lo[0], one->x[i]), hi[0] = fmax(hi[0], one->x[i]);
      lo[1] = fmin(lo[1], one->y[i]), hi[1] = fmax(hi[1], one->y[i]);
      ++*shown;
    }
  }
  if (*shown > 0) {
    fopo_axis_range(x, lo[0], hi[0]);
    fopo_axis_range(y, lo[1], hi[1]);
  }
  return left_out;
}

/* ---- canvas ---- */

static void dot(void *of, int x, int y) {
  canvas *c = of;
  size_t cell = (size_t)(y / c->down) * (size_t)c->cols + (size_t)(x / c->across);
  c->dots[cell] |= c->down == 4     ? fopo_dots_braille(x, y)
                   : c->across == 2 ? (uint8_t)(1u << (2 * (y % 2) + x % 2))
                                    : 1;
  c->owner[cell] = c->series;
}

static void draw(canvas *c, const fopo_axis *x, const fopo_axis *y, const fopo_series *s,
                 int join) {
  int joined = 0, px = 0, py = 0;
  for (size_t i = 0; i < s->n; i++) {
    if (!fopo_axis_shows(x, s->x[i]) || !fopo_axis_shows(y, s->y[i])) {
      joined = 0;
      continue;
    }
    int nx = (int)lround(fopo_axis_share(x, s->x[i]) * (c->cols * c->across - 1));
    int ny = (int)lround((1 - fopo_axis_share(y, s->y[i])) * (c->rows * c->down - 1));
    if (joined) {
      fopo_dots_line(dot, c, px, py, nx, ny);
    } else {
      dot(c, nx, ny);
    }
    joined = join, px = nx, py = ny;
  }
}

/* ---- the whole ---- */

static void colour_on(fopo_string *b, const fopo_plot *plot, size_t series) {
  char code[24];
  if (!plot->colour) return;
  snprintf(code, sizeof code, "\033[%sm", fopo_theme_curve(fopo_theme_get(), series));
  fopo_string_put(b, code);
}

static void colour_off(fopo_string *b, const fopo_plot *plot) {
  if (plot->colour) fopo_string_put(b, "\033[0m");
}

static void put_cell(fopo_string *b, const canvas *c, size_t cell) {
  if (c->across == 2) {
    unsigned code = c->down == 4 ? 0x2800u + c->dots[cell] : fopo_dots_quarters[c->dots[cell]];
    char bytes[4];
    fopo_string_put_bytes(b, bytes, fopo_utf8(bytes, code));
  } else {
    fopo_string_put_bytes(b, &marks[c->owner[cell]], 1);
  }
}

/* One line of cells, with a colour code at each change of series. */
static void put_row(fopo_string *b, const canvas *c, const fopo_plot *plot, int row) {
  int last = -1;
  for (int col = 0; col < c->cols; col++) {
    size_t cell = (size_t)row * (size_t)c->cols + (size_t)col;
    int now = c->dots[cell] ? c->owner[cell] : -1;
    if (now != last) {
      if (last >= 0) colour_off(b, plot);
      if (now >= 0) colour_on(b, plot, (size_t)now);
      last = now;
    }
    if (now >= 0) {
      put_cell(b, c, cell);
    } else {
      fopo_string_put(b, " ");
    }
  }
  if (last >= 0) colour_off(b, plot);
  end_line(b);
}

static int tick_row(const fopo_axis *y, int i, const canvas *c) {
  return (int)lround((1 - fopo_axis_share(y, y->tick[i])) * (c->rows * c->down - 1)) / c->down;
}

static int tick_col(const fopo_axis *x, int i, const canvas *c) {
  return (int)lround(fopo_axis_share(x, x->tick[i]) * (c->cols * c->across - 1)) / c->across;
}

static void put_canvas(fopo_string *b, const canvas *c, const fopo_axis *y, const fopo_plot *plot,
                       int margin) {
  for (int row = 0; row < c->rows; row++) {
    const char *label = NULL;
    for (int i = 0; i < y->n_ticks; i++) {
      if (tick_row(y, i, c) == row) label = y->label[i];
    }
    int length = label != NULL ? (int)strlen(label) : 0;
    put_times(b, " ", margin - length);
    if (label != NULL) fopo_string_put(b, label);
    fopo_string_put(b, label != NULL ? (plot->utf8 ? " ┤" : " +") : (plot->utf8 ? " │" : " |"));
    put_row(b, c, plot, row);
  }
}

/* The lower axis and, below it, the labels that fit without touching each other. */
static void put_x_axis(fopo_string *b, const canvas *c, const fopo_axis *x, const fopo_plot *plot,
                       int margin) {
  put_times(b, " ", margin + 1);
  fopo_string_put(b, plot->utf8 ? "└" : "+");
  for (int col = 0; col < c->cols; col++) {
    int tick = 0;
    for (int i = 0; i < x->n_ticks; i++) tick |= tick_col(x, i, c) == col;
    fopo_string_put(b, tick ? (plot->utf8 ? "┬" : "+") : (plot->utf8 ? "─" : "-"));
  }
  end_line(b);
  int at = 0, edge = margin + 2 + c->cols; /* columns written so far; one past the last */
  for (int i = 0; i < x->n_ticks; i++) {
    int length = (int)strlen(x->label[i]);
    int from = margin + 2 + tick_col(x, i, c) - length / 2;
    if (from + length > edge) from = edge - length;
    if (from < at + (at > 0)) continue;
    put_times(b, " ", from - at);
    fopo_string_put(b, x->label[i]);
    at = from + length;
  }
  end_line(b);
}

static void put_legend(fopo_string *b, const canvas *c, const fopo_plot *plot, int margin) {
  int at = 0;
  for (size_t s = 0; s < plot->n_series; s++) {
    const char *name = plot->series[s].name;
    if (name == NULL) continue;
    int width = width_of(name) + 5;
    if (at == 0 || at + width > margin + 2 + c->cols) {
      if (at > 0) end_line(b);
      put_times(b, " ", margin + 2);
      at = margin + 2;
    }
    colour_on(b, plot, s);
    if (c->across == 2) {
      fopo_string_put(b, "──");
    } else {
      fopo_string_put_bytes(b, &marks[s % MARKS], 1);
    }
    colour_off(b, plot);
    fopo_string_put(b, " ");
    put_label(b, name);
    fopo_string_put(b, "   ");
    at += width;
  }
  if (at > 0) end_line(b);
}

static void put_left_out(fopo_string *b, const fopo_plot *plot, size_t left_out, int margin) {
  char text[96];
  if (left_out == 0) return;
  snprintf(text, sizeof text, "(%zu point%s not shown: not finite%s)", left_out,
           left_out == 1 ? "" : "s", plot->logx || plot->logy ? ", or not positive" : "");
  put_times(b, " ", margin + 2);
  fopo_string_put(b, text);
  end_line(b);
}

int fopo_plot_text(char **text, const fopo_plot *plot) {
  int width = plot->width == 0 ? 80 : plot->width, height = plot->height == 0 ? 16 : plot->height;
  fopo_axis x = {.log = plot->logx}, y = {.log = plot->logy};
  canvas c = {.rows = height};
  fopo_string b = {0};
  size_t shown;
  *text = NULL;
  if (width < LEAST_WIDTH || height < LEAST_HEIGHT || width > MOST || height > MOST) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "a plot of %d columns and %d lines cannot be drawn; "
                     "use %d to %d columns and %d to %d lines",
                     width, height, LEAST_WIDTH, MOST, LEAST_HEIGHT, MOST);
  }
  size_t left_out = ranges(&x, &y, plot, &shown);
  if (shown == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "there is nothing to plot: of %zu point%s none is finite%s",
                     left_out, left_out == 1 ? "" : "s",
                     plot->logx || plot->logy ? " and positive, as log scales need" : "");
  }

  fopo_axis_ticks(&y, height / 3);
  int margin = fopo_axis_widest(&y);
  c.cols = width - margin - 2;
  fopo_axis_ticks(&x, c.cols / 12);
  int fine = plot->utf8 && (plot->n_series == 1 || plot->colour);
  c.across = fine ? 2 : 1;
  c.down = !fine ? 1 : plot->blocks ? 2 : 4;
  size_t cells = (size_t)c.rows * (size_t)c.cols;
  c.dots = fopo_alloc(cells, 1);
  c.owner = fopo_alloc(cells, 1);
  if (c.dots == NULL || c.owner == NULL) {
    b.status = FOPO_ERR_MEMORY;
    goto done;
  }
  for (size_t s = 0; s < plot->n_series; s++) {
    int join = s >= 64 || !(plot->points >> s & 1);
    c.series = (uint8_t)(s % MARKS);
    draw(&c, &x, &y, &plot->series[s], join);
  }

  if (plot->title != NULL) put_centred(&b, plot->title, margin + 2, c.cols);
  if (plot->ylabel != NULL) put_label(&b, plot->ylabel), end_line(&b);
  put_canvas(&b, &c, &y, plot, margin);
  put_x_axis(&b, &c, &x, plot, margin);
  if (plot->xlabel != NULL) put_centred(&b, plot->xlabel, margin + 2, c.cols);
  put_legend(&b, &c, plot, margin);
  put_left_out(&b, plot, left_out, margin);

done:
  fopo_free(c.dots);
  fopo_free(c.owner);
  if (b.status != FOPO_OK) {
    fopo_free(b.s);
  } else {
    *text = b.s;
  }
  return b.status;
}
