/* A column of dots covers many buckets of a trace. It becomes a stroke from their least to their
 * greatest value, joined to the stroke before. With smoothing the strokes are dim and the moving
 * average is drawn over them. */
#include "term/curves.h"

#include <math.h>
#include <string.h>

#include "term/axis.h"
#include "term/dots.h"

/* The rectangle of the screen that dots are drawn on. */
typedef struct {
  fopo_screen *s;
  int row, col, rows, cols; /* cells */
  int across, down;         /* dots in a cell */
  fopo_glyphs glyphs;
  fopo_axis x, y;
  fopo_ink ink; /* of the curve being drawn */
  char mark;
} canvas;

static uint32_t quarter_bits(uint32_t code) {
  for (uint32_t bits = 1; bits < 16; bits++) {
    if (fopo_dots_quarters[bits] == code) return bits;
  }
  return 0;
}

static void dot(void *of, int x, int y) {
  canvas *c = of;
  if (x < 0 || y < 0 || x >= c->cols * c->across || y >= c->rows * c->down) return;
  int row = c->row + y / c->down, col = c->col + x / c->across;
  uint32_t old = c->s->cells[(size_t)row * (size_t)c->s->cols + (size_t)col].code;
  uint32_t code = (unsigned char)c->mark;
  if (c->glyphs == FOPO_GLYPHS_BRAILLE) {
    code = 0x2800u | fopo_dots_braille(x, y);
    if (old >= 0x2800 && old <= 0x28FF) code |= old;
  } else if (c->glyphs == FOPO_GLYPHS_BLOCK) {
    code = fopo_dots_quarters[1u << (2 * (y % 2) + x % 2) | quarter_bits(old)];
  }
  fopo_screen_set(c->s, row, col, code, c->ink);
}

static int x_dot(const canvas *c, double v) {
  return (int)lround(fopo_axis_share(&c->x, v) * (c->cols * c->across - 1));
}

static int y_dot(const canvas *c, double v) {
  double share = fopo_axis_share(&c->y, v);
  share = share < 0 ? 0 : share > 1 ? 1 : share;
  return (int)lround((1 - share) * (c->rows * c->down - 1));
}

/* ---- ranges ---- */

/* The least x of the window, which ends at the last value of any curve that is not an earlier run.
 */
static double window_start(const fopo_curves *c) {
  const double none = -(double)INFINITY;
  double last = none;
  for (size_t i = 0; i < c->n; i++) {
    fopo_bucket b = fopo_trace_last(c->curves[i].trace);
    if (b.n > 0 && c->curves[i].ink != FOPO_INK_DIM) last = fmax(last, b.x[c->axis]);
  }
  return c->window > 0 && last > none ? last - c->window : none;
}

/* The first bucket in the window from *i on; *i becomes its index. NULL: there is none. Used as
 * for (i = 0; (b = bucket(..., &i)) != NULL; i++). */
static const fopo_bucket *bucket(const fopo_curves *c, const fopo_curve *one, int level,
                                 double from, size_t *i) {
  const fopo_bucket *b;
  while ((b = fopo_trace_get(one->trace, level, *i)) != NULL && b->x[c->axis] < from) ++*i;
  return b;
}

/* Sets the ranges of both axes over all curves in the window; 0 if there is nothing to show. */
static int set_ranges(canvas *k, const fopo_curves *c, double from) {
  double lo[2] = {INFINITY, INFINITY}, hi[2] = {-INFINITY, -INFINITY};
  const fopo_bucket *b;
  k->x = (fopo_axis){0}, k->y = (fopo_axis){.log = c->logy};
  for (size_t n = 0; n < c->n; n++) {
    const fopo_curve *one = &c->curves[n];
    int level = fopo_trace_level(one->trace, c->axis, from);
    for (size_t i = 0; (b = bucket(c, one, level, from, &i)) != NULL; i++) {
      if (!fopo_axis_shows(&k->y, b->high)) continue;
      double low = fopo_axis_shows(&k->y, b->low) ? b->low : b->high;
      lo[0] = fmin(lo[0], b->x[c->axis]), hi[0] = fmax(hi[0], b->x[c->axis]);
      lo[1] = fmin(lo[1], low), hi[1] = fmax(hi[1], b->high);
    }
  }
  if (!(hi[0] >= lo[0])) return 0;
  if (c->window <= 0 && lo[0] >= 0) lo[0] = fmin(lo[0], 0);
  fopo_axis_range(&k->x, lo[0], hi[0]);
  fopo_axis_range(&k->y, lo[1], hi[1]);
  return 1;
}

/* ---- drawing ---- */

/* The buckets of one column of dots, merged: a trace has many more buckets than a screen columns.
 */
typedef struct {
  double low, high, sum, n; /* n == 0: no bucket */
  double average;           /* the moving average after the last bucket of the column */
} column;

enum { COLUMNS = 2 * FOPO_SCREEN_MOST };

static int column_of(const canvas *k, double x) {
  double at = (x - k->x.lo) / (k->x.hi - k->x.lo) * (k->cols * k->across - 1) + 0.5;
  return !(at > 0) ? 0 : at >= k->cols * k->across ? k->cols * k->across - 1 : (int)at;
}

/* Merges the buckets in the window into columns[]; returns the number of buckets. */
static size_t gather(column *columns, const canvas *k, const fopo_curves *c, const fopo_curve *one,
                     double from) {
  int level = fopo_trace_level(one->trace, c->axis, from);
  double average = 0, weight = 0; /* average / weight corrects the bias of the start, as in Adam */
  size_t count = 0;
  const fopo_bucket *b;
  memset(columns, 0, (size_t)(k->cols * k->across) * sizeof *columns);
  for (size_t i = 0; (b = bucket(c, one, level, from, &i)) != NULL; i++, count++) {
    double mean = b->sum / b->n;
    average = c->smoothing * average + (1 - c->smoothing) * mean;
    weight = c->smoothing * weight + (1 - c->smoothing);
    if (!fopo_axis_shows(&k->y, b->high)) continue;
    double low = fopo_axis_shows(&k->y, b->low) ? b->low : b->high;
    column *at = &columns[column_of(k, b->x[c->axis])];
    at->low = at->n > 0 ? fmin(at->low, low) : low;
    at->high = at->n > 0 ? fmax(at->high, b->high) : b->high;
    at->sum += b->sum;
    at->n += b->n;
    at->average = average / weight;
  }
  return count;
}

/* Draws each column as a stroke from its least to its greatest value; strokes are joined at their
 * means. */
static void draw_raw(canvas *k, const column *columns) {
  int joined = 0, px = 0, py = 0;
  for (int x = 0; x < k->cols * k->across; x++) {
    const column *at = &columns[x];
    if (at->n <= 0 || !fopo_axis_shows(&k->y, at->sum / at->n)) continue;
    int y = y_dot(k, at->sum / at->n);
    fopo_dots_line(dot, k, x, y_dot(k, at->low), x, y_dot(k, at->high));
    if (joined) fopo_dots_line(dot, k, px, py, x, y);
    joined = 1, px = x, py = y;
  }
}

static void draw_smooth(canvas *k, const column *columns) {
  int joined = 0, px = 0, py = 0;
  for (int x = 0; x < k->cols * k->across; x++) {
    if (columns[x].n <= 0 || !fopo_axis_shows(&k->y, columns[x].average)) continue;
    int y = y_dot(k, columns[x].average);
    fopo_dots_line(dot, k, joined ? px : x, joined ? py : y, x, y);
    joined = 1, px = x, py = y;
  }
}

/* Draws each value as its mark, which can be told apart without colour. */
static void draw_points(canvas *k, const column *columns) {
  for (int x = 0; x < k->cols * k->across; x++) {
    double mean = columns[x].sum / columns[x].n;
    if (columns[x].n <= 0 || !fopo_axis_shows(&k->y, mean)) continue;
    fopo_screen_set(k->s, k->row + y_dot(k, mean) / k->down, k->col + x / k->across,
                    (unsigned char)k->mark, k->ink);
  }
}

static void draw_curve(canvas *k, const fopo_curves *c, const fopo_curve *one, double from) {
  column columns[COLUMNS];
  size_t count = gather(columns, k, c, one, from);
  k->ink = one->ink, k->mark = one->mark;
  if (one->points && count <= (size_t)k->cols / 2) {
    draw_points(k, columns);
  } else if (c->smoothing > 0 && one->smooth) {
    k->ink = FOPO_INK_DIM;
    if (!c->mono) draw_raw(k, columns);
    k->ink = one->ink;
    draw_smooth(k, columns);
  } else {
    draw_raw(k, columns);
  }
}

/* ---- around the canvas ---- */

/* The title and as much of the legend as fits; the earlier runs, in dim ink, come last. */
static void draw_title(fopo_screen *s, int row, int col, int cols, const fopo_curves *c) {
  int at = fopo_screen_put(s, row, col, cols, FOPO_INK_BOLD, c->title);
  for (size_t i = 0; i < 2 * c->n; i++) {
    const fopo_curve *one = &c->curves[i % c->n];
    if (one->name == NULL || fopo_trace_last(one->trace).n <= 0) continue;
    if ((one->ink == FOPO_INK_DIM) != (i >= c->n)) continue;
    int width = fopo_screen_width(one->name) + 4;
    if (at + width > cols) break;
    char mark[2] = {one->mark, '\0'};
    at += fopo_screen_put(s, row, col + at, cols - at, FOPO_INK_PLAIN, "  ");
    at += fopo_screen_put(s, row, col + at, cols - at, one->ink, mark);
    at += fopo_screen_put(s, row, col + at, cols - at, FOPO_INK_PLAIN, " ");
    at += fopo_screen_put(s, row, col + at, cols - at, one->ink, one->name);
  }
}

/* Both axes: a rule and ticks on the left; below, the labels that fit without touching each other.
 */
static void draw_axes(const canvas *k, int margin) {
  uint32_t rule = k->glyphs == FOPO_GLYPHS_ASCII ? '|' : 0x2502, tick = rule == '|' ? '+' : 0x2524;
  for (int row = 0; row < k->rows; row++) {
    fopo_screen_set(k->s, k->row + row, k->col - 1, rule, FOPO_INK_DIM);
  }
  for (int i = 0; i < k->y.n_ticks; i++) {
    int row = k->row + y_dot(k, k->y.tick[i]) / k->down, n = (int)strlen(k->y.label[i]);
    fopo_screen_put(k->s, row, k->col - 2 - n, n, FOPO_INK_DIM, k->y.label[i]);
    fopo_screen_set(k->s, row, k->col - 1, tick, FOPO_INK_DIM);
  }
  int at = k->col - 1 - margin,
      edge = k->col + k->cols; /* the next free column; one past the last */
  for (int i = 0; i < k->x.n_ticks; i++) {
    int n = (int)strlen(k->x.label[i]), from = k->col + x_dot(k, k->x.tick[i]) / k->across - n / 2;
    if (from + n > edge) from = edge - n;
    if (from < at) continue;
    fopo_screen_put(k->s, k->row + k->rows, from, n, FOPO_INK_DIM, k->x.label[i]);
    at = from + n + 1;
  }
}

void fopo_curves_draw(fopo_screen *s, int row, int col, int rows, int cols, const fopo_curves *c) {
  static const int across[] = {1, 2, 2}, down[] = {1, 2, 4}; /* dots in a cell, by fopo_glyphs */
  double from = window_start(c);
  canvas k = {.s = s,
              .row = row + 1,
              .rows = rows - 1,
              .glyphs = c->glyphs,
              .across = across[c->glyphs],
              .down = down[c->glyphs]};
  draw_title(s, row, col, cols, c);
  if (rows < 2 || cols < 4) return;
  if (!set_ranges(&k, c, from)) {
    fopo_screen_put(s, row + rows / 2, col + 2, cols - 2, FOPO_INK_DIM,
                    c->logy ? "nothing positive to show yet" : "nothing to show yet");
    return;
  }
  int margin = 0, axes = rows >= 4 && cols >= 24;
  if (axes) {
    k.rows--; /* the row of the labels */
    fopo_axis_ticks(&k.y, k.rows / 2 > 5 ? 5 : k.rows / 2);
    margin = fopo_axis_widest(&k.y);
  }
  k.col = col + (axes ? margin + 2 : 0);
  k.cols = cols - (k.col - col);
  fopo_axis_ticks(&k.x, k.cols / 12);
  if (axes) draw_axes(&k, margin);
  for (size_t i = 0; i < c->n; i++) draw_curve(&k, c, &c->curves[i], from);
}
