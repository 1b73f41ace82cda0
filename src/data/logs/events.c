/* Growing arrays of events, and the checks that every format makes. */
#include "data/logs/events.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "data/number.h"

enum { FIRST_CAPACITY = 1024 };

/* *array is a pointer to a block of any type. */
static int resize(void *array, size_t n, size_t size) {
  void *block;
  memcpy(&block, array, sizeof block);
  block = fopo_realloc(block, n, size);
  if (block == NULL) return FOPO_ERR_MEMORY;
  memcpy(array, &block, sizeof block);
  return FOPO_OK;
}

int fopo_events_reserve(fopo_events *e) {
  fopo_logs *logs = e->logs;
  if (logs->n < e->capacity) return FOPO_OK;
  if (logs->n >= UINT32_MAX / 2) return fopo_fail(FOPO_ERR_FORMAT, "more than 2^31 events");
  size_t n = e->capacity == 0 ? FIRST_CAPACITY : 2 * e->capacity;
  int status = fopo_memory_suffices((uint64_t)n * (12 + 4 * (uint64_t)e->D),
                                    "the events read so far", "use fewer hash_bits or events");
  if (status == FOPO_OK) status = resize(&logs->actions, n, sizeof *logs->actions);
  if (status == FOPO_OK) status = resize(&logs->rewards, n, sizeof *logs->rewards);
  if (status == FOPO_OK) status = resize(&logs->propensities, n, sizeof *logs->propensities);
  if (status == FOPO_OK && e->D > 0) status = resize(&logs->contexts.x, n, e->D * sizeof(float));
  if (status == FOPO_OK) e->capacity = n;
  return status;
}

int fopo_events_add(fopo_events *e, const float *row, uint32_t action, double reward,
                    double propensity) {
  int status = fopo_events_reserve(e);
  if (status != FOPO_OK) return status;
  fopo_logs *logs = e->logs;
  if (e->D > 0) memcpy(logs->contexts.x + logs->n * e->D, row, e->D * sizeof *row);
  logs->actions[logs->n] = action;
  logs->rewards[logs->n] = (float)reward;
  logs->propensities[logs->n] = (float)propensity;
  logs->n++;
  return FOPO_OK;
}

int fopo_events_number(double *x, const char *text, size_t n) {
  /* fopo_parse_real sets no value for nan and the infinities. */
  int is_nan = memchr(text, 'a', n) != NULL || memchr(text, 'A', n) != NULL;
  *x = is_nan ? (double)NAN : (double)INFINITY;
  return fopo_parse_real(x, text, n) != FOPO_NO_NUMBER;
}

const char *fopo_events_refuse_propensity(double p) {
  if (isnan(p)) return "is not a propensity: it is NaN";
  if (p > 1.0) return "is not a propensity: it is above 1";
  if ((float)p <= 0.0f) {
    return "is not a propensity: an action that was shown had a probability above 0";
  }
  return NULL;
}

const char *fopo_events_refuse_reward(double r) {
  return fabs(r) <= (double)FLT_MAX ? NULL : "is not a finite reward";
}

int fopo_events_reject(fopo_logs *logs, size_t *errors, const fopo_logs_options *o,
                       const fopo_text *t, size_t line, size_t column, const char *text, size_t n,
                       const char *why) {
  char more[512];
  if (o->skip_errors && *errors < o->max_errors) {
    ++*errors;
    logs->skipped++;
    return 1;
  }
  snprintf(more, sizeof more, "%s", why);
  if (o->skip_errors) {
    int one = *errors == 0;
    snprintf(more, sizeof more, "%s; with it there %s %zu malformed event%s, max_errors is %zu",
             why, one ? "is" : "are", *errors + 1, one ? "" : "s", o->max_errors);
  }
  return fopo_text_refuse(t, line, column, text, n, more);
}
