/* The statistics' names and means (device/statistics.def). */
#include "device/statistics.h"

#include <string.h>

const fopo_statistic fopo_statistic_rows[FOPO_STATISTIC_ROWS] = {
#define FOPO_ROW(ID, name, kind, label, tag, text) {#name, label, tag, text},
    FOPO_STATISTICS(FOPO_ROW)
#undef FOPO_ROW
};

const fopo_phase fopo_phase_rows[FOPO_PHASES] = {
#define FOPO_ROW(ID, name, column) {name, column},
    FOPO_PHASE_TABLE(FOPO_ROW)
#undef FOPO_ROW
};

#define FOPO_ROW(ID, name, kind, label, tag, text)                                                 \
  _Static_assert((FOPO_STAT_##ID < FOPO_STATS) == (FOPO_##kind <= FOPO_MEAN_OF_LARGEST),           \
                 "rows with a value per context come first");
FOPO_STATISTICS(FOPO_ROW)
#undef FOPO_ROW

double fopo_statistics_get(const fopo_statistics *s, size_t i) {
  double values[FOPO_STATISTIC_ROWS];
  _Static_assert(sizeof values == sizeof *s, "a row is one double");
  memcpy(values, s, sizeof values);
  return values[i];
}

void fopo_phases_add(double seconds[FOPO_PHASES], const double more[FOPO_PHASES]) {
  for (int i = 0; i < FOPO_PHASES; i++) seconds[i] += more[i];
}

/* What the sum of a kind is divided by. */
static double divisor(fopo_statistic_kind kind, const fopo_statistics *sums) {
  switch (kind) {
  case FOPO_MEAN: return sums->contexts;
  case FOPO_MEAN_WITH_CANDIDATES: return sums->n_with_candidates;
  case FOPO_MEAN_OF_LARGEST:
  case FOPO_MEAN_OF_STEPS: return sums->steps;
  case FOPO_COUNT: break;
  }
  return 1.0;
}

static double over(double sum, double n) { return n > 0.0 ? sum / n : 0.0; }

fopo_statistics fopo_statistics_means(const fopo_statistics *sums) {
  return (fopo_statistics){
#define FOPO_ROW(ID, name, kind, label, tag, text)                                                 \
  .name = over(sums->name, divisor(FOPO_##kind, sums)),
      FOPO_STATISTICS(FOPO_ROW)
#undef FOPO_ROW
  };
}
