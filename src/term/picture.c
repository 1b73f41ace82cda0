#include "term/picture.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "term/string.h"

/* Colours that can be told apart with any colour vision (Okabe and Ito). */
static const char *const palette[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                      "#E69F00", "#56B4E9", "#000000"};
enum { COLOURS = sizeof palette / sizeof *palette };
enum { FEW = 4 }; /* series whose bands can be told apart, with names that leave room for curves */

__attribute__((format(printf, 2, 3))) static void add(fopo_string *s, const char *format, ...) {
  char line[512]; /* a line without a word is shorter */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  fopo_string_put(s, line);
}

/* A string in gnuplot's double quotes. Control characters become spaces, but a line end. A digit is
 * \ooo too, as gnuplot would take it for a fourth one of the byte before it. */
static void add_quoted(fopo_string *s, const char *word) {
  fopo_string_put(s, "\"");
  for (const unsigned char *c = (const unsigned char *)word; *c != '\0'; c++) {
    int letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
    if (*c == '\n') {
      fopo_string_put(s, "\\n");
    } else if (*c <= ' ' || *c == 0x7f) {
      fopo_string_put(s, " ");
    } else {
      add(s, letter ? "%c" : "\\%03o", *c);
    }
  }
  fopo_string_put(s, "\"");
}

/* set WHAT "word", without sub- and superscripts; nothing if there is no word. */
static void set(fopo_string *s, const char *what, const char *word) {
  if (*word == '\0') return;
  add(s, "set %s ", what);
  add_quoted(s, word);
  fopo_string_put(s, " noenhanced\n");
}

/* Bars of several series stand beside each other: `places` of them share 0.8 of the least distance
 * between two x. With a logarithmic x they keep their own widths. */
typedef struct {
  size_t places;
  double width; /* of a bar; 0: gnuplot's */
} bar_layout;

static bar_layout layout_of(const fopo_picture *p) {
  bar_layout layout = {0, 0};
  double least = INFINITY;
  for (size_t k = 0; k < p->n_series; k++) {
    const fopo_picture_series *of = &p->series[k];
    if (of->style != FOPO_PICTURE_BARS) continue;
    layout.places++;
    for (size_t i = 1; i < of->n; i++) {
      double step = fabs(of->x[i] - of->x[i - 1]);
      if (isfinite(step) && step > 0 && step < least) least = step;
    }
  }
  if (p->n_labels > 0 || !isfinite(least)) least = 1;
  if (layout.places > 0 && !p->logx) layout.width = 0.8 * least / (double)layout.places;
  return layout;
}

/* The block $sN of a series: x, y, low, high. shift: of x. */
static void add_points(fopo_string *s, const fopo_picture_series *of, size_t number, double shift) {
  add(s, "$s%zu << EOD\n", number);
  for (size_t i = 0; i < of->n; i++) {
    double x = of->x[i] + shift, y = of->y[i];
    if (isfinite(x) && isfinite(y)) {
      int has = of->low != NULL && isfinite(of->low[i]) && isfinite(of->high[i]);
      add(s, "%.9g %.9g %.9g %.9g\n", x, y, has ? of->low[i] : y, has ? of->high[i] : y);
    } else if (of->style == FOPO_PICTURE_LINES) {
      fopo_string_put(s, "\n"); /* a gap in the line */
    }
  }
  fopo_string_put(s, "EOD\n");
}

/* Begins an element of the plot: series `number` in its colour. */
static void begin(fopo_string *s, int *elements, size_t number, const char *what) {
  fopo_string_put(s, (*elements)++ == 0 ? "plot " : ", \\\n  ");
  add(s, "$s%zu using %s lc rgb '%s' ", number, what, palette[(number - 1) % COLOURS]);
}

static void add_intervals(fopo_string *s, int *elements, size_t number, int as_band) {
  if (as_band) {
    begin(s, elements, number, "1:3:4 with filledcurves");
    fopo_string_put(s, "fs transparent solid 0.18 notitle");
  } else {
    begin(s, elements, number, "1:2:3:4 with yerrorbars");
    fopo_string_put(s, "pt 7 ps 0.4 notitle");
  }
}

/* Series beyond the palette are dashed. width: of bars; 0: gnuplot's. */
static void add_series(fopo_string *s, int *elements, const fopo_picture_series *of, size_t number,
                       double width) {
  static const char *const with[] = {"1:2 with lines", "1:2 with points", "1:2 with boxes"};
  static const char *const look[] = {"lw 2", "pt 7 ps 0.6", "fs solid 0.6"};
  char boxes[64];
  int fixed = of->style == FOPO_PICTURE_BARS && width > 0;
  if (fixed) snprintf(boxes, sizeof boxes, "1:2:(%.9g) with boxes", width);
  begin(s, elements, number, fixed ? boxes : with[of->style]);
  int dashed = of->style == FOPO_PICTURE_LINES && number > COLOURS;
  add(s, "%s%s ", look[of->style], dashed ? " dt 2" : "");
  if (*of->name == '\0') {
    fopo_string_put(s, "notitle");
    return;
  }
  fopo_string_put(s, "title ");
  add_quoted(s, of->name);
  fopo_string_put(s, " noenhanced");
}

/* The elements of all series: bars before their intervals, lines and points upon them. */
static void add_elements(fopo_string *s, const fopo_picture *p, int bands) {
  int elements = 0;
  double width = layout_of(p).width;
  for (size_t i = 0; i < p->n_series; i++) {
    const fopo_picture_series *of = &p->series[i];
    int bars = of->style == FOPO_PICTURE_BARS;
    int as_band = bands && of->style == FOPO_PICTURE_LINES;
    if (bars) add_series(s, &elements, of, i + 1, width);
    if (of->low != NULL) add_intervals(s, &elements, i + 1, as_band);
    if (!bars) add_series(s, &elements, of, i + 1, width);
  }
  fopo_string_put(s, "\n");
}

static void add_setting(fopo_string *s, const fopo_picture *p) {
  static const char *const terminals[] = {
      "svg size %d,%d dynamic enhanced background rgb 'white' font 'sans,13'\n",
      "pngcairo size %d,%d font 'sans,11'\n"};
  char terminal[128];
  snprintf(terminal, sizeof terminal, terminals[p->kind], p->width, p->height);
  fopo_string_put(s, "set encoding utf8\nset terminal ");
  fopo_string_put(s, terminal);
  fopo_string_put(s, "set grid lc rgb '#dddddd'\nset border 3\nset tics nomirror\n"
                     "set boxwidth 0.8 relative\n");
  add(s, "set key %s Left reverse noenhanced\n",
      p->n_series > 1 ? "outside right top" : "top left");
  set(s, "title", p->title);
  set(s, "xlabel", p->xlabel);
  set(s, "ylabel", p->ylabel);
  if (p->logx) fopo_string_put(s, "set logscale x\n");
  if (p->logy) fopo_string_put(s, "set logscale y\n");
}

/* A label of an axis, which gnuplot takes for a format: % is doubled. */
static void add_label(fopo_string *s, const char *label) {
  char format[2 * FOPO_PICTURE_WORD], *at = format;
  for (const char *c = label; *c != '\0'; c++) {
    if (*c == '%') *at++ = '%';
    *at++ = *c;
  }
  *at = '\0';
  add_quoted(s, format);
}

/* The labels below the bars; upright where they would run into each other. */
static void add_labels(fopo_string *s, const fopo_picture *p) {
  enum { LETTER = 8 }; /* pixels */
  size_t longest = 0;
  if (p->n_labels == 0) return;
  for (size_t i = 0; i < p->n_labels; i++) {
    size_t length = strlen(p->labels[i]);
    if (length > longest) longest = length;
  }
  int upright = longest * LETTER * p->n_labels > 0.8 * p->width;
  add(s, "set xrange [0.5:%zu.5]\nset xtics %s noenhanced (", p->n_labels,
      upright ? "rotate by 90 right" : "norotate");
  for (size_t i = 0; i < p->n_labels; i++) {
    fopo_string_put(s, i > 0 ? ", " : "");
    add_label(s, p->labels[i]);
    add(s, " %zu", i + 1);
  }
  fopo_string_put(s, ")\n");
}

static void add_commands(fopo_string *s, const fopo_picture *p) {
  int bands = p->intervals == FOPO_PICTURE_BANDS ||
              (p->intervals == FOPO_PICTURE_FEW && p->n_series <= FEW);
  const char *drawn = NULL; /* how the last series with intervals has them */
  bar_layout layout = layout_of(p);
  size_t place = 0;
  add_setting(s, p);
  add_labels(s, p);
  for (size_t i = 0; i < p->n_series; i++) {
    const fopo_picture_series *of = &p->series[i];
    int bars = of->style == FOPO_PICTURE_BARS;
    if (bars && !p->logy) fopo_string_put(s, "set yrange [*<0:0<*]\n");
    double middle = 0.5 * ((double)layout.places - 1);
    add_points(s, of, i + 1, bars ? layout.width * ((double)place++ - middle) : 0);
    if (of->low != NULL) {
      drawn = bands && of->style == FOPO_PICTURE_LINES ? "bands: 95 % intervals"
              : bars                                   ? "whiskers: 95 % intervals"
                                                       : "bars: 95 % intervals";
    }
  }
  if (drawn) set(s, "label 1 at graph 1,1.02 right font ',9'", drawn);
  add_elements(s, p, bands);
}

int fopo_picture_draw(fopo_output *output, const fopo_picture *picture) {
  char *argv[] = {"gnuplot", "--default-settings", NULL};
  fopo_string commands = {0};
  add_commands(&commands, picture);
  int status = commands.status;
  if (status == FOPO_OK) {
    status = fopo_program_run(output, argv[0], argv, commands.s, commands.n);
  } else {
    fopo_fail(status, "there is not enough memory for the picture");
  }
  fopo_free(commands.s);
  return status;
}
