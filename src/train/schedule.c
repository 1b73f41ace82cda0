#include "train/schedule.h"

#include <math.h>

#include "core/status.h"

int fopo_schedule_check(const fopo_schedule *s) {
  unsigned long long steps = s->steps, warmup = s->warmup;
  if (fopo_schedule_ends(s) && steps <= warmup) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the schedule is of %llu steps and its warm-up of %llu; the warm-up must be "
                     "the shorter one",
                     steps, warmup);
  }
  if (fopo_schedule_ends(s) && !(s->final >= 0.0 && s->final <= 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the schedule's final share is %g; use 0 to 1", s->final);
  }
  if (s->kind == FOPO_SCHEDULE_STEP && s->every == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the schedule's `every` is 0; use at least 1 update");
  }
  if (s->kind == FOPO_SCHEDULE_STEP && !(s->factor > 0.0 && s->factor <= 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the schedule's factor is %g; use more than 0, at most 1",
                     s->factor);
  }
  return FOPO_OK;
}

double fopo_schedule_factor(const fopo_schedule *s, uint64_t t) {
  static const double pi = 3.14159265358979323846;
  if (t < s->warmup) return (double)(t + 1) / (double)s->warmup;
  uint64_t after = t - s->warmup;
  switch (s->kind) {
  case FOPO_SCHEDULE_CONSTANT: break;
  case FOPO_SCHEDULE_COSINE:
  case FOPO_SCHEDULE_LINEAR: {
    uint64_t all = s->steps - s->warmup;
    if (after >= all) return s->final;
    double line = 1.0 - (double)after / (double)all;
    double wave = 0.5 * (1.0 + cos(pi * (double)after / (double)all));
    return s->final + (1.0 - s->final) * (s->kind == FOPO_SCHEDULE_LINEAR ? line : wave);
  }
  case FOPO_SCHEDULE_STEP: return pow(s->factor, (double)(after / s->every));
  }
  return 1.0;
}
