/* An axis of a plot: its range, linear or logarithmic, and round ticks with short labels. */
#ifndef FOPO_TERM_AXIS_H
#define FOPO_TERM_AXIS_H

enum { FOPO_TICKS = 16, FOPO_TICK_LABEL = 24 };

typedef struct {
  double lo, hi; /* range shown; > 0 where log */
  int log;
  int n_ticks;
  double tick[FOPO_TICKS];
  char label[FOPO_TICKS][FOPO_TICK_LABEL];
} fopo_axis;

/* Whether v has a place on the axis: finite, far from the ends of double, positive where log. */
int fopo_axis_shows(const fopo_axis *a, double v);

/* The range of the values shown, widened where there is but one value, rounding aside. */
void fopo_axis_range(fopo_axis *a, double lo, double hi);

/* About `wanted` ticks. */
void fopo_axis_ticks(fopo_axis *a, int wanted);

/* The place of v in the range, 0 to 1. */
double fopo_axis_share(const fopo_axis *a, double v);

/* Columns of the widest label. */
int fopo_axis_widest(const fopo_axis *a);

#endif
