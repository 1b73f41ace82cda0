/* Events of a log as they are read, and what is refused of them. */
#ifndef FOPO_DATA_LOGS_EVENTS_H
#define FOPO_DATA_LOGS_EVENTS_H

#include "data/logs/readers.h"

/* Start from {.logs = logs, .D = columns}. */
typedef struct {
  fopo_logs *logs; /* not owned; logs->n events so far */
  size_t D;        /* columns of contexts; 0: contexts are made later */
  size_t capacity; /* events */
} fopo_events;

/* Capacity for one more event; its contexts are zero. */
int fopo_events_reserve(fopo_events *e);

/* Appends an event with the context row [D]. */
int fopo_events_add(fopo_events *e, const float *row, uint32_t action, double reward,
                    double propensity);

/* 1 and the number, NaN and the infinities included, or 0. */
int fopo_events_number(double *x, const char *text, size_t n);

/* Why p is no propensity or r no reward, or NULL. */
const char *fopo_events_refuse_propensity(double p);
const char *fopo_events_refuse_reward(double r);

/* Counts a malformed event if the options allow it (1), or fails with the place; column 0: the
 * whole line. *errors: those counted so far. */
int fopo_events_reject(fopo_logs *logs, size_t *errors, const fopo_logs_options *o,
                       const fopo_text *t, size_t line, size_t column, const char *text, size_t n,
                       const char *why);

#endif
