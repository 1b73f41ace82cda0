/* Objectives: what a step goes up. An estimator decides which items are drawn, with which weights;
 * the objective decides the coefficients of the draws and what the statistic REWARD is. The rows
 * are in device/objectives/objectives.def. */
#ifndef FOPO_DEVICE_OBJECTIVE_H
#define FOPO_DEVICE_OBJECTIVE_H

#include "device/objectives/custom.h"
#include "device/objectives/likelihood.h"
#include "device/objectives/log_reward.h"
#include "device/objectives/objectives.def"
#include "device/objectives/reward.h"
#include "device/objectives/rule.h"
#include "device/objectives/smoothed.h"
#include "device/objectives/snips.h"

/* FOPO_OBJECTIVE_REWARD = 0 ...: the rows in their order. */
typedef enum {
#define FOPO_ROW(ID, name, title, larger, targets, text) FOPO_OBJECTIVE_##ID,
  FOPO_OBJECTIVES(FOPO_ROW)
#undef FOPO_ROW
      FOPO_OBJECTIVE_ROWS
} fopo_objective_kind;

typedef struct {
  const char *name, *title, *text;
  int larger;  /* a larger value is better */
  int targets; /* needs the items of Y */
} fopo_objective;

extern const fopo_objective fopo_objective_rows[FOPO_OBJECTIVE_ROWS];

/* FOPO_OBJECTIVE_CUSTOM: value [n] of contexts by their expected rewards R [n], and its slope by R;
 * slope NULL: it is not wanted. Called by the thread that called C. */
typedef struct {
  int (*rule)(void *caller, double *value, double *slope, const double *R, size_t n);
  void *caller;
  const char *title; /* of the value */
} fopo_own_objective;

/* The rule of an objective for the sums of a context. */
FOPO_ON_BOTH static inline fopo_objective_rule
fopo_objective_rule_of(fopo_objective_kind kind, double reward, double shift, double w) {
  fopo_objective_sums sums = {reward, shift, w};
  switch (kind) {
#define FOPO_ROW(ID, name, title, larger, targets, text)                                           \
  case FOPO_OBJECTIVE_##ID: return fopo_objective_##name(&sums);
    FOPO_OBJECTIVES(FOPO_ROW)
#undef FOPO_ROW
  case FOPO_OBJECTIVE_ROWS: break;
  }
  fopo_objective_rule none = {0.0, 0.0, 0.0};
  return none;
}

#endif
