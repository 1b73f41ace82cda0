/* An axis of a plot: its range, linear or logarithmic, and round ticks with short labels. */
#ifndef FOPO_TERM_AXIS_H
#define FOPO_TERM_AXIS_H

enum { FOPO_TICKS = 16, FOPO_TICK_LABEL = 24 };

typedef struct {
  double lo, hi; /* range shown; > 0 if log */
  int log;
  int n_ticks;
  double tick[FOPO_TICKS];
  char label[FOPO_TICKS][FOPO_TICK_LABEL];
} fopo_axis;

/* True if v can be shown on the axis: it is finite, far from the limits of double, and positive on
 * a logarithmic axis. */
int fopo_axis_shows(const fopo_axis *a, double v);

/* Sets the range to lo .. hi; widens it if the two are equal but for rounding. */
void fopo_axis_range(fopo_axis *a, double lo, double hi);

/* Sets about `wanted` ticks. */
void fopo_axis_ticks(fopo_axis *a, int wanted);

/* The position of v in the range, 0 to 1. */
double fopo_axis_share(const fopo_axis *a, double v);

/* Columns of the widest label. */
int fopo_axis_widest(const fopo_axis *a);

#endif
