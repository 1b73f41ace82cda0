/* Ticks stand at 1, 2 or 5 times a power of ten. Labels carry as many decimals as the step needs.
 * */
#include "term/axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double scaled(const fopo_axis *a, double v) { return a->log ? log10(v) : v; }

double fopo_axis_share(const fopo_axis *a, double v) {
  double lo = scaled(a, a->lo), hi = scaled(a, a->hi);
  return (scaled(a, v) - lo) / (hi - lo);
}

/* Away from the limits of double, so that neither a range nor a step overflows. */
int fopo_axis_shows(const fopo_axis *a, double v) {
  return fabs(v) < 1e300 && (!a->log || v > 1e-300); /* false for NaN */
}

/* "0.25", "120000", "1e6", "2e-5": short, and with the same decimals on all ticks of an axis. */
static void tick_label(char text[FOPO_TICK_LABEL], double v, double step) {
  if (fabs(v) < step / 2) v = 0; /* 0 but for rounding */
  double size = fmax(fabs(v), step);
  int decimals = (int)fmax(0, ceil(-log10(step) - 1e-9));
  if (size < 1e6 && decimals <= 5) {
    snprintf(text, FOPO_TICK_LABEL, "%.*f", decimals, v);
    return;
  }
  if (!(fabs(v) > 0)) {
    snprintf(text, FOPO_TICK_LABEL, "0");
    return;
  }
  /* enough digits to tell neighbours apart; "1.50e-05" becomes "1.5e-5" */
  int digits = (int)fmin(9, fmax(0, ceil(log10(size) - log10(step) - 1e-9)));
  snprintf(text, FOPO_TICK_LABEL, "%.*e", digits, v);
  char *e = strchr(text, 'e'), *from = e + 1, *to = e + 1;
  if (*from == '-') to++;
  from++;
  while (*from == '0' && from[1] != '\0') from++;
  memmove(to, from, strlen(from) + 1);
  char *zero = e;
  if (memchr(text, '.', (size_t)(e - text)) != NULL) {
    while (zero[-1] == '0') zero--;
    if (zero[-1] == '.') zero--;
  }
  memmove(zero, e, strlen(e) + 1);
}

static void add_tick(fopo_axis *a, double v, double step) {
  if (a->n_ticks == FOPO_TICKS) return;
  a->tick[a->n_ticks] = v;
  tick_label(a->label[a->n_ticks++], v, step);
}

/* The least of 1, 2, 5 times a power of ten that is >= v. */
static double round_step(double v) {
  double power = pow(10, floor(log10(v)));
  double m = v / power;
  return power * (m <= 1.0000001 ? 1 : m <= 2.0000001 ? 2 : m <= 5.0000001 ? 5 : 10);
}

static void linear_ticks(fopo_axis *a, int wanted) {
  double step = round_step((a->hi - a->lo) / wanted);
  double slack = 1e-9 * step;
  for (double i = ceil((a->lo - slack) / step); i * step <= a->hi + slack; i++) {
    add_tick(a, i * step, step);
    if (a->n_ticks == FOPO_TICKS) break;
  }
}

/* Powers of ten, every n-th if there are too many; also 2 and 5 times a power if fewer than two
 * powers lie in the range. */
static void log_ticks(fopo_axis *a, int wanted) {
  int first = (int)floor(log10(a->lo)), last = (int)ceil(log10(a->hi));
  int within = (int)(floor(log10(a->hi) + 1e-9) - ceil(log10(a->lo) - 1e-9)) + 1;
  int every = within > wanted ? (within + wanted - 1) / wanted : 1;
  for (int k = first; k <= last; k += within < 2 ? 1 : every) {
    for (int m = 1; m <= (within < 2 ? 5 : 1); m = m == 1 ? 2 : 5 + (m == 5)) {
      double v = m * pow(10, k);
      if (v >= a->lo * (1 - 1e-9) && v <= a->hi * (1 + 1e-9)) add_tick(a, v, pow(10, k));
    }
  }
  if (a->n_ticks < 2) {
    a->n_ticks = 0;
    linear_ticks(a, wanted);
  }
}

void fopo_axis_range(fopo_axis *a, double lo, double hi) {
  double size = fmax(fabs(lo), fabs(hi));
  if (hi - lo <= 1e-12 * size || (!a->log && hi - lo < 1e-290)) {
    double pad = size < 1e-289 ? 1 : size / 10;
    lo = a->log ? lo / 2 : lo - pad;
    hi = a->log ? hi * 2 : hi + pad;
  }
  a->lo = lo;
  a->hi = hi;
}

void fopo_axis_ticks(fopo_axis *a, int wanted) {
  if (wanted < 2) wanted = 2;
  if (wanted > FOPO_TICKS / 2) wanted = FOPO_TICKS / 2;
  if (a->log) {
    log_ticks(a, wanted);
  } else {
    linear_ticks(a, wanted);
  }
}

int fopo_axis_widest(const fopo_axis *a) {
  int w = 0;
  for (int i = 0; i < a->n_ticks; i++) {
    int n = (int)strlen(a->label[i]);
    if (n > w) w = n;
  }
  return w;
}
