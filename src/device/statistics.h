/* Statistics as sums: of a batch, of a step, of many steps. Nothing is divided before
 * fopo_statistics_means, which a record calls once, so a record is the same to the bit however its
 * steps were cut into slices. The functions below are all that knows the kinds of the rows of
 * device/statistics.def; the GPU compiles them too. */
#ifndef FOPO_DEVICE_STATISTICS_H
#define FOPO_DEVICE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

#include "device/statistics.def"

#ifdef __CUDACC__
#define FOPO_ON_BOTH __host__ __device__
#else
#define FOPO_ON_BOTH
#endif

typedef enum {
  FOPO_MEAN,                 /* a value per context; mean over the contexts */
  FOPO_MEAN_WITH_CANDIDATES, /* the same, over the contexts that were given candidates */
  FOPO_MEAN_OF_LARGEST,      /* the largest value of a batch; mean of these over the steps */
  FOPO_MEAN_OF_STEPS,        /* a value per step; mean over the steps */
  FOPO_COUNT                 /* summed, never divided */
} fopo_statistic_kind;

/* FOPO_STAT_REWARD ...: the rows in their order; FOPO_STATISTIC_ROWS how many. The first FOPO_STATS
 * have a value per context: an estimator writes them into a row of stats [B, FOPO_STATS]. */
enum {
#define FOPO_ROW(ID, name, kind, label, tag, text) FOPO_STAT_##ID,
  FOPO_STATISTICS(FOPO_ROW)
#undef FOPO_ROW
      FOPO_STATISTIC_ROWS,
#define FOPO_ROW(ID, name, kind, label, tag, text) +(FOPO_##kind <= FOPO_MEAN_OF_LARGEST)
  FOPO_STATS = 0 FOPO_STATISTICS(FOPO_ROW)
#undef FOPO_ROW
};

enum {
#define FOPO_ROW(ID, name, column) FOPO_PHASE_##ID,
  FOPO_PHASE_TABLE(FOPO_ROW)
#undef FOPO_ROW
      FOPO_PHASES
};

/* A number for each row: sums, or the means of such sums. {0} is the sum of nothing. */
typedef struct {
#define FOPO_ROW(ID, name, kind, label, tag, text) double name;
  FOPO_STATISTICS(FOPO_ROW)
#undef FOPO_ROW
} fopo_statistics;

typedef struct {
  const char *name, *label, *tag, *text;
} fopo_statistic;

typedef struct {
  const char *name, *column;
} fopo_phase;

extern const fopo_statistic fopo_statistic_rows[FOPO_STATISTIC_ROWS];
extern const fopo_phase fopo_phase_rows[FOPO_PHASES];

/* Adds to the seconds of each phase. */
void fopo_phases_add(double seconds[FOPO_PHASES], const double more[FOPO_PHASES]);

/* The number of row i < FOPO_STATISTIC_ROWS. */
double fopo_statistics_get(const fopo_statistics *s, size_t i);

/* The means of sums; 0 if there is nothing to divide by. */
fopo_statistics fopo_statistics_means(const fopo_statistics *sums);

/* ---- sums ---- */

/* The sum of a batch with one more context's value. */
FOPO_ON_BOTH static inline double fopo_statistic_with(fopo_statistic_kind kind, double sum,
                                                      double value, int has_candidates) {
  switch (kind) {
  case FOPO_MEAN: return sum + value;
  case FOPO_MEAN_WITH_CANDIDATES: return has_candidates ? sum + value : sum;
  case FOPO_MEAN_OF_LARGEST: return value > sum ? value : sum;
  case FOPO_MEAN_OF_STEPS:
  case FOPO_COUNT: break;
  }
  return sum;
}

/* Adds a context to the sums of its batch: stats [FOPO_STATS] as its estimator wrote them. A
 * context that was given candidates has `found` of the k asked for; without any, no part of the
 * policy is inside the candidates. */
FOPO_ON_BOTH static inline void fopo_statistics_add_context(fopo_statistics *sum,
                                                            const float *stats, int with_candidates,
                                                            uint32_t found, size_t k) {
  int has_candidates = with_candidates && found > 0;
#define FOPO_ROW(ID, name, kind, label, tag, text)                                                 \
  if (FOPO_STAT_##ID < FOPO_STATS) {                                                               \
    sum->name = fopo_statistic_with(FOPO_##kind, sum->name, (double)stats[FOPO_STAT_##ID],         \
                                    has_candidates);                                               \
  }
  FOPO_STATISTICS(FOPO_ROW)
#undef FOPO_ROW
  sum->short_rows += with_candidates && found < k;
  sum->n_with_candidates += with_candidates != 0;
  sum->contexts += 1;
}

/* Adds the sums of another part of the same batch: of another rank's contexts. */
FOPO_ON_BOTH static inline void fopo_statistics_join(fopo_statistics *sum,
                                                     const fopo_statistics *part) {
#define FOPO_ROW(ID, name, kind, label, tag, text)                                                 \
  if (FOPO_##kind != FOPO_MEAN_OF_LARGEST) {                                                       \
    sum->name += part->name;                                                                       \
  } else if (part->name > sum->name) {                                                             \
    sum->name = part->name;                                                                        \
  }
  FOPO_STATISTICS(FOPO_ROW)
#undef FOPO_ROW
}

/* Adds a whole step to the sums of many. */
FOPO_ON_BOTH static inline void fopo_statistics_add(fopo_statistics *sum,
                                                    const fopo_statistics *step) {
#define FOPO_ROW(ID, name, kind, label, tag, text) sum->name += step->name;
  FOPO_STATISTICS(FOPO_ROW)
#undef FOPO_ROW
}

#endif
