/* Learning-rate schedules: what the learning rate is multiplied by at each update. A schedule is
 * only values, and its factor a function of how many updates were made before: a run in slices,
 * in a job, or resumed from a file uses the same rates as one that never stopped. */
#ifndef FOPO_TRAIN_SCHEDULE_H
#define FOPO_TRAIN_SCHEDULE_H

#include <stdint.h>

typedef enum {
  FOPO_SCHEDULE_CONSTANT, /* 1 */
  FOPO_SCHEDULE_COSINE,   /* half a cosine from 1 to `final` (Loshchilov and Hutter 2017) */
  FOPO_SCHEDULE_LINEAR,   /* a straight line from 1 to `final` */
  FOPO_SCHEDULE_STEP      /* times `factor` after every `every` updates */
} fopo_schedule_kind;

typedef struct {
  fopo_schedule_kind kind; /* {0} is constant, without a warm-up */
  uint64_t warmup;         /* first updates, over which the factor rises linearly to 1 */
  uint64_t steps;          /* cosine, linear: updates in all, warm-up included, > warmup */
  double final;            /* cosine, linear: the factor from update `steps` on, 0 .. 1 */
  uint64_t every;          /* step: >= 1, counted from the end of the warm-up */
  double factor;           /* step: > 0, at most 1 */
} fopo_schedule;

/* Whether the schedule ends: it has `steps` and `final`. */
static inline int fopo_schedule_ends(const fopo_schedule *s) {
  return s->kind == FOPO_SCHEDULE_COSINE || s->kind == FOPO_SCHEDULE_LINEAR;
}

int fopo_schedule_check(const fopo_schedule *s);

/* The factor of the next update after t updates. During the warm-up it is (t + 1) / warmup. */
double fopo_schedule_factor(const fopo_schedule *s, uint64_t t);

#endif
