/* Three layouts: a line; a few lines or columns (the most important fields, one small curve); and
 * from 8 lines of 40 columns the whole: head, curves, fields, time by phase, what was said, foot.
 * */
#include "term/view/panes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const fopo_view_number_names[FOPO_VIEW_NUMBERS] = {
    "step",    "steps",      "seconds",       "eta",        "reward", "valid",   "valid_index",
    "best",    "best_step",  "contexts_rate", "steps_rate", "ess",    "samples", "max_weight",
    "epsilon", "k",          "head_mass",     "norm",       "lr",     "memory",  "memory_free",
    "gpu_use", "gpu_memory", "cost",          "short_rows"};

static const char *const phase_names[FOPO_VIEW_PHASES] = {"search", "propose", "reward", "gradient",
                                                          "update"};
static const fopo_ink phase_inks[FOPO_VIEW_PHASES] = {FOPO_INK_TRAIN, FOPO_INK_VALID,
                                                      FOPO_INK_INDEX, FOPO_INK_RATE, FOPO_INK_WARN};

void fopo_view_model_init(fopo_view_model *m) {
  memset(m, 0, sizeof *m);
  for (int i = 0; i < FOPO_VIEW_NUMBERS; i++) m->number[i] = (double)NAN;
  m->cursor = -1;
  m->glyphs = FOPO_GLYPHS_BRAILLE;
  m->overlays = 1;
}

void fopo_view_model_done(fopo_view_model *m) {
  for (int i = 0; i < FOPO_VIEW_TRACES; i++) fopo_trace_done(&m->trace[i]);
  for (int i = 0; i < FOPO_VIEW_OVERLAYS; i++) fopo_trace_done(&m->overlay[i].trace);
  m->n_overlays = 0;
}

/* ---- what was said ---- */

/* The line that is being written; one that ends begins the next. */
static char *line_at(fopo_view_model *m, size_t i) { return m->line[i % FOPO_VIEW_LINES]; }

void fopo_view_say(fopo_view_model *m, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char *line = line_at(m, m->n_lines);
    size_t length = strlen(line);
    if (text[i] == '\n') {
      line_at(m, ++m->n_lines)[0] = '\0';
    } else if (text[i] == '\r') {
      line[0] = '\0'; /* a bar that redraws itself */
    } else if (text[i] == '\033') {
      while (i + 1 < n && !(text[i + 1] >= 'A' && text[i + 1] <= 'z' && text[i + 1] != '[')) i++;
      i++;
    } else if (((unsigned char)text[i] >= 32 || text[i] == '\t') && length + 1 < FOPO_VIEW_LINE) {
      line[length] = text[i] == '\t' ? ' ' : text[i];
      line[length + 1] = '\0';
    }
  }
}

/* ---- numbers as words ---- */

enum { WORD = 40 };

static int known(double v) { return isfinite(v); }

/* 1234567 -> "1,234,567" */
static void count_word(char out[WORD], double v) {
  char digits[WORD];
  int n = snprintf(digits, sizeof digits, "%.0f", v), at = 0;
  if (n > 24) n = 24;
  for (int i = 0; i < n; i++) {
    out[at++] = digits[i];
    if (digits[i] != '-' && i + 1 < n && (n - i - 1) % 3 == 0) out[at++] = ',';
  }
  out[at] = '\0';
}

/* 12345678 -> "12.35M" */
static void short_word(char out[WORD], double v) {
  if (v < 1e4)
    snprintf(out, WORD, "%.0f", v);
  else if (v < 1e6)
    snprintf(out, WORD, "%.4gk", v / 1e3);
  else
    snprintf(out, WORD, "%.4gM", v / 1e6);
}

/* "34.5 s", "3:20", "1:05:00", "2 d 03:10" */
static void time_word(char out[WORD], double seconds) {
  double s = floor(seconds < 0 ? 0 : seconds > 1e9 ? 1e9 : seconds);
  long t = (long)s;
  if (seconds < 60)
    snprintf(out, WORD, "%.1f s", seconds < 0 ? 0 : seconds);
  else if (t < 3600)
    snprintf(out, WORD, "%ld:%02ld", t / 60, t % 60);
  else if (t < 86400)
    snprintf(out, WORD, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
  else
    snprintf(out, WORD, "%ld d %02ld:%02ld", t / 86400, t / 3600 % 24, t / 60 % 60);
}

static void bytes_word(char out[WORD], double v) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  int i = 0;
  while (v >= 1000 && i < 4) v /= 1000, i++;
  snprintf(out, WORD, v < 100 && i > 0 ? "%.1f %s" : "%.0f %s", v, units[i]);
}

/* Four digits of what is near one, else powers of ten. */
static void real_word(char out[WORD], double v) {
  double size = fabs(v);
  if (size >= 1e-3 && size < 1)
    snprintf(out, WORD, "%.4f", v);
  else
    snprintf(out, WORD, "%.4g", v);
}

static void rate_word(char out[WORD], double v) {
  if (v < 100)
    snprintf(out, WORD, "%.3g", v);
  else
    count_word(out, v);
}

/* ---- fields ---- */

enum { FIELDS = 24 };

typedef struct {
  const char *label;
  char value[2 * WORD];
  fopo_ink ink;
} field;

typedef struct {
  field list[FIELDS];
  int n;
} fields;

static field *add(fields *f, const char *label, fopo_ink ink) {
  field *one = &f->list[f->n < FIELDS - 1 ? f->n++ : f->n];
  one->label = label;
  one->ink = ink;
  one->value[0] = '\0';
  return one;
}

static void add_real(fields *f, const char *label, double v, fopo_ink ink) {
  char word[WORD];
  if (!known(v)) return;
  real_word(word, v);
  snprintf(add(f, label, ink)->value, 2 * WORD, "%s", word);
}

static void add_rewards(fields *f, const double *x) {
  char step[WORD];
  add_real(f, "reward", x[FOPO_VIEW_REWARD], FOPO_INK_TRAIN);
  add_real(f, "valid", x[FOPO_VIEW_VALID], FOPO_INK_VALID);
  add_real(f, "via index", x[FOPO_VIEW_VALID_INDEX], FOPO_INK_INDEX);
  if (known(x[FOPO_VIEW_BEST])) {
    short_word(step, x[FOPO_VIEW_BEST_STEP]);
    snprintf(add(f, "best", FOPO_INK_VALID)->value, 2 * WORD, "%.4f @%s", x[FOPO_VIEW_BEST], step);
  }
}

static void add_rates(fields *f, const double *x) {
  char word[WORD];
  if (known(x[FOPO_VIEW_CONTEXTS_RATE])) {
    rate_word(word, x[FOPO_VIEW_CONTEXTS_RATE]);
    snprintf(add(f, "contexts", FOPO_INK_RATE)->value, 2 * WORD, "%s /s", word);
  }
  if (known(x[FOPO_VIEW_STEPS_RATE])) {
    rate_word(word, x[FOPO_VIEW_STEPS_RATE]);
    snprintf(add(f, "steps", FOPO_INK_PLAIN)->value, 2 * WORD, "%s /s", word);
  }
}

static void add_weights(fields *f, const double *x) {
  double ess = x[FOPO_VIEW_ESS], samples = x[FOPO_VIEW_SAMPLES];
  if (known(ess)) { /* below a tenth of the samples the weights no longer say much */
    int low = known(samples) && ess < samples / 10;
    field *one = add(f, "ESS", low ? FOPO_INK_WARN : FOPO_INK_PLAIN);
    if (known(samples))
      snprintf(one->value, 2 * WORD, "%.1f of %.0f", ess, samples);
    else
      snprintf(one->value, 2 * WORD, "%.1f", ess);
  }
  add_real(f, "largest w", x[FOPO_VIEW_MAX_WEIGHT], FOPO_INK_PLAIN);
  add_real(f, "eps", x[FOPO_VIEW_EPSILON], FOPO_INK_PLAIN);
  if (known(x[FOPO_VIEW_K])) {
    snprintf(add(f, "K", FOPO_INK_PLAIN)->value, 2 * WORD, "%.0f", x[FOPO_VIEW_K]);
  }
  if (known(x[FOPO_VIEW_HEAD_MASS])) {
    snprintf(add(f, "in the K", FOPO_INK_PLAIN)->value, 2 * WORD, "%.1f %%",
             100 * x[FOPO_VIEW_HEAD_MASS]);
  }
  if (known(x[FOPO_VIEW_SHORT_ROWS]) && x[FOPO_VIEW_SHORT_ROWS] > 0) {
    snprintf(add(f, "short rows", FOPO_INK_WARN)->value, 2 * WORD, "%.0f", x[FOPO_VIEW_SHORT_ROWS]);
  }
  add_real(f, "|gradient|", x[FOPO_VIEW_NORM], FOPO_INK_PLAIN);
  add_real(f, "lr", x[FOPO_VIEW_LR], FOPO_INK_PLAIN);
}

static void add_machine(fields *f, const fopo_view_model *m) {
  const double *x = m->number;
  char word[WORD];
  if (known(x[FOPO_VIEW_SECONDS])) {
    time_word(word, x[FOPO_VIEW_SECONDS]);
    snprintf(add(f, "trained", FOPO_INK_PLAIN)->value, 2 * WORD, "%s", word);
  }
  if (known(x[FOPO_VIEW_MEMORY])) {
    bytes_word(word, x[FOPO_VIEW_MEMORY]);
    snprintf(add(f, "memory", FOPO_INK_PLAIN)->value, 2 * WORD, "%s", word);
  }
  if (known(x[FOPO_VIEW_MEMORY_FREE])) {
    bytes_word(word, x[FOPO_VIEW_MEMORY_FREE]);
    snprintf(add(f, "free", FOPO_INK_PLAIN)->value, 2 * WORD, "%s", word);
  }
  if (known(x[FOPO_VIEW_GPU_USE])) {
    snprintf(add(f, "GPU", FOPO_INK_PLAIN)->value, 2 * WORD, "%.0f %%", 100 * x[FOPO_VIEW_GPU_USE]);
  }
  if (known(x[FOPO_VIEW_GPU_MEMORY])) {
    bytes_word(word, x[FOPO_VIEW_GPU_MEMORY]);
    snprintf(add(f, "GPU mem", FOPO_INK_PLAIN)->value, 2 * WORD, "%s", word);
  }
  if (known(x[FOPO_VIEW_COST])) {
    snprintf(add(f, "view costs", FOPO_INK_DIM)->value, 2 * WORD, "%.2f %%",
             100 * x[FOPO_VIEW_COST]);
  }
  if (m->device[0] == '\0') return;
  snprintf(add(f, "on", FOPO_INK_DIM)->value, 2 * WORD, "%.60s", m->device);
}

static void all_fields(fields *f, const fopo_view_model *m) {
  f->n = 0;
  add_rewards(f, m->number);
  add_rates(f, m->number);
  add_weights(f, m->number);
  add_machine(f, m);
}

/* "label     value" in `width` columns; what is too long is cut. */
static void draw_field(fopo_screen *s, int row, int col, int width, const field *one) {
  fopo_screen_put(s, row, col, width, FOPO_INK_DIM, one->label);
  if (width > 11) fopo_screen_put(s, row, col + 11, width - 11, one->ink, one->value);
}

/* ---- lines ---- */

static void progress_words(char out[3 * WORD], const fopo_view_model *m) {
  char step[WORD], steps[WORD];
  count_word(step, known(m->number[FOPO_VIEW_STEP]) ? m->number[FOPO_VIEW_STEP] : 0);
  if (known(m->number[FOPO_VIEW_STEPS])) {
    count_word(steps, m->number[FOPO_VIEW_STEPS]);
    snprintf(out, 3 * WORD, "step %s/%s", step, steps);
  } else {
    snprintf(out, 3 * WORD, "step %s", step);
  }
}

/* Appends a piece to a line that has `width` columns, where it fits; its first one always. */
static void append(char *line, size_t size, int width, const char *piece) {
  size_t n = strlen(line);
  if (n > 0 && (int)(n + 2 + strlen(piece)) > width) return;
  snprintf(line + n, size - n, "%s%s", n > 0 ? "  " : "", piece);
}

/* The whole in one line: the most important first. */
static void summary(char *line, size_t size, int width, const fopo_view_model *m) {
  const double *x = m->number;
  char piece[3 * WORD], word[WORD];
  line[0] = '\0';
  if (m->cursor >= 0) {
    snprintf(line, size, ":%s", m->command);
    return;
  }
  if (m->message[0] != '\0' && width < 60) {
    snprintf(line, size, "%s", m->message);
    return;
  }
  progress_words(piece, m);
  if ((int)strlen(piece) > width) {
    count_word(word, known(x[FOPO_VIEW_STEP]) ? x[FOPO_VIEW_STEP] : 0);
    snprintf(piece, sizeof piece, "%s", word);
  }
  append(line, size, width, piece);
  if (strcmp(m->state, "running") != 0) append(line, size, width, m->state);
  if (known(x[FOPO_VIEW_REWARD])) {
    snprintf(piece, sizeof piece, width < 30 ? "r %.4f" : "reward %.4f", x[FOPO_VIEW_REWARD]);
    append(line, size, width, piece);
  }
  if (known(x[FOPO_VIEW_VALID])) {
    snprintf(piece, sizeof piece, "valid %.4f", x[FOPO_VIEW_VALID]);
    append(line, size, width, piece);
  }
  if (known(x[FOPO_VIEW_CONTEXTS_RATE])) {
    rate_word(word, x[FOPO_VIEW_CONTEXTS_RATE]);
    snprintf(piece, sizeof piece, "%s ctx/s", word);
    append(line, size, width, piece);
  }
  if (known(x[FOPO_VIEW_ETA])) {
    time_word(word, x[FOPO_VIEW_ETA]);
    snprintf(piece, sizeof piece, "ETA %s", word);
    append(line, size, width, piece);
  }
  if (known(x[FOPO_VIEW_ESS])) {
    snprintf(piece, sizeof piece, "ess %.1f", x[FOPO_VIEW_ESS]);
    append(line, size, width, piece);
  }
  if (m->message[0] != '\0') append(line, size, width, m->message);
}

static void draw_bar(fopo_screen *s, int row, const char *text) {
  for (int col = 0; col < s->cols; col++) fopo_screen_set(s, row, col, ' ', FOPO_INK_BAR);
  fopo_screen_put(s, row, 0, s->cols, FOPO_INK_BAR, text);
}

static void draw_head(fopo_screen *s, const fopo_view_model *m) {
  char left[320], right[4 * WORD], word[WORD], progress[3 * WORD];
  progress_words(progress, m);
  snprintf(right, sizeof right, "%s", m->state);
  if (known(m->number[FOPO_VIEW_ETA])) {
    time_word(word, m->number[FOPO_VIEW_ETA]);
    snprintf(right, sizeof right, "ETA %s  %s", word, m->state);
  }
  snprintf(left, sizeof left, " fopo  %s  %s", progress, m->title);
  draw_bar(s, 0, left);
  int n = fopo_screen_width(right);
  if (n + 30 < s->cols) {
    for (int i = n + 3; i > 0; i--) fopo_screen_set(s, 0, s->cols - i, ' ', FOPO_INK_BAR);
    fopo_screen_put(s, 0, s->cols - n - 1, n, FOPO_INK_BAR, right);
  }
}

/* The line that is typed, with its cursor in plain ink on the bar; its end is what is seen. */
static void draw_command(fopo_screen *s, int row, const fopo_view_model *m) {
  const char *text = m->command;
  int skip = m->cursor + 3 - s->cols;
  draw_bar(s, row, "");
  for (int i = 0; i < skip && *text != '\0'; i++) {
    do text++;
    while ((*text & 0xC0) == 0x80);
  }
  fopo_screen_put(s, row, 0, 1, FOPO_INK_BAR, ":");
  fopo_screen_put(s, row, 1, s->cols - 1, FOPO_INK_BAR, text);
  int at = 1 + m->cursor - (skip > 0 ? skip : 0);
  if (at < s->cols) {
    fopo_cell *cell = &s->cells[(size_t)row * (size_t)s->cols + (size_t)at];
    fopo_screen_set(s, row, at, cell->code == ' ' ? '_' : cell->code, FOPO_INK_BOLD);
  }
}

static void draw_foot(fopo_screen *s, int row, const fopo_view_model *m) {
  static const char *const keys[] = {" ? help",  "q leave",      "space pause", "n step", "+ - lr",
                                     "[ ] eps",  "k K cands",    "e evaluate",  "s save", "y log",
                                     "w window", "S screenshot", ": Lua"};
  char line[320] = "";
  if (m->cursor >= 0) {
    draw_command(s, row, m);
    return;
  }
  if (m->message[0] != '\0') {
    snprintf(line, sizeof line, " %s", m->message);
  } else {
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
      append(line, sizeof line, s->cols, keys[i]);
    }
  }
  draw_bar(s, row, line);
}

/* ---- panes ---- */

static void draw_rewards(fopo_screen *s, int row, int col, int rows, int cols,
                         const fopo_view_model *m) {
  fopo_curve curves[FOPO_VIEW_OVERLAYS + 3];
  char title[80];
  size_t n = 0;
  for (int i = 0; m->overlays && i < m->n_overlays; i++) {
    curves[n++] = (fopo_curve){m->overlay[i].name, &m->overlay[i].trace, FOPO_INK_DIM, ':', 0, 0};
  }
  const fopo_trace *t = m->trace;
  curves[n++] = (fopo_curve){"train", &t[FOPO_VIEW_TRACE_REWARD], FOPO_INK_TRAIN, '*', 0, 1};
  curves[n++] = (fopo_curve){"via index", &t[FOPO_VIEW_TRACE_INDEX], FOPO_INK_INDEX, 'x', 1, 0};
  curves[n++] = (fopo_curve){"valid", &t[FOPO_VIEW_TRACE_VALID], FOPO_INK_VALID, 'o', 1, 0};
  int at = snprintf(title, sizeof title, "reward");
  if (m->logy) at += snprintf(title + at, sizeof title - (size_t)at, ", log");
  if (m->window > 0) {
    snprintf(title + at, sizeof title - (size_t)at, m->axis ? ", last %g s" : ", last %g steps",
             m->window);
  }
  fopo_curves_draw(s, row, col, rows, cols,
                   &(fopo_curves){.title = title,
                                  .curves = curves,
                                  .n = n,
                                  .glyphs = m->glyphs,
                                  .axis = m->axis,
                                  .window = m->window,
                                  .logy = m->logy,
                                  .smoothing = m->smoothing,
                                  .mono = m->mono});
}

static void draw_throughput(fopo_screen *s, int row, int col, int rows, int cols,
                            const fopo_view_model *m) {
  fopo_curve curve = {NULL, &m->trace[FOPO_VIEW_TRACE_RATE], FOPO_INK_RATE, '#', 0, 1};
  fopo_curves_draw(
      s, row, col, rows, cols,
      &(fopo_curves){.title = m->axis ? "contexts/s by seconds" : "contexts/s by steps",
                     .curves = &curve,
                     .n = 1,
                     .glyphs = m->glyphs,
                     .axis = m->axis,
                     .window = m->window,
                     .logy = m->logy,
                     .smoothing = m->smoothing,
                     .mono = m->mono});
}

/* What a phase is drawn with: its first letter where there are no blocks. */
static uint32_t phase_mark(const fopo_view_model *m, int phase, uint32_t code) {
  return m->glyphs == FOPO_GLYPHS_ASCII ? (unsigned char)phase_names[phase][0] : code;
}

/* Shares of the time as one bar, and what its parts are: the largest that leave the bar room. */
static void draw_phases(fopo_screen *s, int row, const fopo_view_model *m) {
  double sum = 0, upto = 0;
  int from = 11, at = from, bar = s->cols - from - 1, named = 0;
  char piece[FOPO_VIEW_PHASES][32];
  for (int i = 0; i < FOPO_VIEW_PHASES; i++) sum += m->phase[i] > 0 ? m->phase[i] : 0;
  fopo_screen_put(s, row, 1, from, FOPO_INK_DIM, "time");
  if (!(sum > 0)) return;

  for (int pass = 0; pass < FOPO_VIEW_PHASES; pass++) { /* the next largest each time */
    int best = -1;
    for (int i = 0; i < FOPO_VIEW_PHASES; i++) {
      if (!(named >> i & 1) && (best < 0 || m->phase[i] > m->phase[best])) best = i;
    }
    int n = snprintf(piece[best], sizeof piece[best], "%s %.0f %%", phase_names[best],
                     100 * m->phase[best] / sum) +
            4;
    if (bar - n < 12) break;
    named |= 1 << best;
    bar -= n;
  }
  for (int i = 0; i < FOPO_VIEW_PHASES; i++) {
    upto += m->phase[i] > 0 ? m->phase[i] : 0;
    int end = from + (int)lround(bar * upto / sum);
    for (; at < end; at++) fopo_screen_set(s, row, at, phase_mark(m, i, 0x2588), phase_inks[i]);
  }
  for (int i = 0; i < FOPO_VIEW_PHASES; i++) {
    if (!(named >> i & 1)) continue;
    at += 2;
    fopo_screen_set(s, row, at, phase_mark(m, i, 0x25A0), phase_inks[i]);
    at += 2 + fopo_screen_put(s, row, at + 2, s->cols - at - 2, FOPO_INK_DIM, piece[i]);
  }
}

/* The last lines of what was said. */
static void draw_said(fopo_screen *s, int row, int col, int rows, int cols,
                      const fopo_view_model *m) {
  const char *open = m->line[m->n_lines % FOPO_VIEW_LINES];
  size_t lines = m->n_lines + (open[0] != '\0'), room = rows > 1 ? (size_t)rows - 1 : 0;
  uint32_t rule = m->glyphs == FOPO_GLYPHS_ASCII ? '-' : 0x2500;
  for (int i = 0; i < cols; i++) fopo_screen_set(s, row, col + i, rule, FOPO_INK_DIM);
  fopo_screen_put(s, row, col + 2, cols - 2, FOPO_INK_DIM, " output ");
  if (room > FOPO_VIEW_LINES - 1) room = FOPO_VIEW_LINES - 1;
  size_t first = lines > room ? lines - room : 0;
  for (size_t i = first; i < lines; i++) {
    fopo_screen_put(s, row + 1 + (int)(i - first), col, cols, FOPO_INK_PLAIN,
                    m->line[i % FOPO_VIEW_LINES]);
  }
}

static void draw_help(fopo_screen *s, const fopo_view_model *m) {
  static const char *const lines[] = {
      "?  this page, and away with it",
      "q  back to the prompt; t:run goes on from there",
      "space  pause, and on    n  one step (or one slice)",
      "+ -  learning rate up, down by a quarter",
      "[ ]  eps down, up by 0.05    k K  half, twice the candidates",
      "e  evaluate now    s  checkpoint now",
      "y  log scale    x  steps or seconds    m  smoothing",
      "w  window: all, then the last part    o  earlier runs",
      "g  braille, blocks or ASCII",
      "S  screenshot: text, ANSI and SVG",
      ":  a line of Lua; t is the trainer    Esc  drop it",
      "Ctrl-L  draw all anew    Ctrl-C  stop the run",
  };
  int n = (int)(sizeof lines / sizeof *lines), width = 0;
  for (int i = 0; i < n; i++) {
    int w = fopo_screen_width(lines[i]);
    if (w > width) width = w;
  }
  int row = (s->rows - n) / 2, col = (s->cols - width) / 2;
  if (row < 0) row = 0;
  if (col < 2) col = 2;
  for (int r = row - 1; r <= row + n; r++) {
    for (int c = col - 2; c < col + width + 2; c++) {
      int edge = r == row - 1 || r == row + n;
      fopo_screen_set(s, r, c, edge ? (m->glyphs == FOPO_GLYPHS_ASCII ? '-' : 0x2500) : ' ',
                      FOPO_INK_DIM);
    }
  }
  for (int i = 0; i < n; i++) {
    fopo_screen_put(s, row + i, col, s->cols - col, FOPO_INK_PLAIN, lines[i]);
  }
}

/* ---- layouts ---- */

/* Fields in as many columns as fit; returns the rows taken. */
static int draw_grid(fopo_screen *s, int row, int rows, const fields *f) {
  int across = s->cols / 26, down;
  if (across > f->n) across = f->n;
  if (across < 1) across = 1;
  down = (f->n + across - 1) / across;
  if (down > rows) down = rows;
  int width = s->cols / across;
  for (int i = 0; i < f->n && i < across * down; i++) {
    draw_field(s, row + i % down, 1 + i / down * width, width - 2, &f->list[i]);
  }
  return down;
}

/* Curves above each other on the left, fields on the right. */
static void draw_wide(fopo_screen *s, const fopo_view_model *m, const fields *f, int top, int end) {
  int right = s->cols >= 140 ? 44 : 34, cols = s->cols - right - 2, rows = end - top;
  int upper = rows * 3 / 5;
  draw_rewards(s, top, 1, upper, cols - 1, m);
  draw_throughput(s, top + upper, 1, rows - upper, cols - 1, m);
  for (int i = 0; i < f->n && i < rows; i++) {
    draw_field(s, top + i, s->cols - right, right - 1, &f->list[i]);
  }
}

/* Curves beside each other, fields below. */
static void draw_narrow(fopo_screen *s, const fopo_view_model *m, const fields *f, int top,
                        int end) {
  int across = s->cols / 26, rows = end - top;
  int grid = (f->n + across - 1) / across;
  if (grid > rows - 4) grid = rows > 6 ? rows - 4 : 2;
  int plots = rows - grid;
  if (s->cols >= 70) {
    int left = s->cols * 5 / 8;
    draw_rewards(s, top, 1, plots, left - 2, m);
    draw_throughput(s, top, left, plots, s->cols - left - 1, m);
  } else {
    draw_rewards(s, top, 1, plots, s->cols - 2, m);
  }
  draw_grid(s, top + plots, grid, f);
}

static void draw_whole(fopo_screen *s, const fopo_view_model *m) {
  fields f;
  int end = s->rows - 1;
  all_fields(&f, m);
  draw_head(s, m);
  draw_foot(s, end, m);
  if (s->rows >= 16) {
    int said = s->rows >= 30 ? s->rows / 6 : 4;
    end -= said;
    draw_said(s, end, 0, said, s->cols, m);
  }
  if (s->rows >= 12) draw_phases(s, --end, m);
  if (s->cols >= 110 && end - 1 >= f.n)
    draw_wide(s, m, &f, 1, end);
  else
    draw_narrow(s, m, &f, 1, end);
}

/* A few lines: the summary, a curve where there is room for it, the first fields. */
static void draw_few(fopo_screen *s, const fopo_view_model *m) {
  char line[320];
  fields f;
  int row = 1, foot = s->rows >= 3 && (m->cursor >= 0 || m->message[0] != '\0');
  int end = s->rows - foot;
  all_fields(&f, m);
  summary(line, sizeof line, s->cols, m);
  draw_bar(s, 0, line);
  if (foot) draw_foot(s, s->rows - 1, m);
  if (end - row >= 4 && s->cols >= 12) {
    int rows = (end - row) / 2 + 1;
    draw_rewards(s, row, 0, rows, s->cols, m);
    row += rows;
  }
  if (row < end) draw_grid(s, row, end - row, &f);
}

void fopo_view_draw(fopo_screen *s, const fopo_view_model *m) {
  char line[320];
  fopo_screen_clear(s);
  if (s->rows == 1) {
    summary(line, sizeof line, s->cols, m);
    fopo_screen_put(s, 0, 0, s->cols, FOPO_INK_PLAIN, line);
    if (m->cursor >= 0) draw_command(s, 0, m);
  } else if (s->rows < 8 || s->cols < 40) {
    draw_few(s, m);
  } else {
    draw_whole(s, m);
  }
  if (m->help) draw_help(s, m);
}
