/* What the readers of logs share: growing arrays of events, tables of text, hashed features. */
#ifndef FOPO_DATA_LOGS_INTERNAL_H
#define FOPO_DATA_LOGS_INTERNAL_H

#include "data/logs/logs.h"
#include "data/read/internal.h"

/* ---- events: logs.c ---- */

typedef struct {
  fopo_logs *logs;
  size_t D;    /* columns of contexts; 0: contexts are made later */
  size_t room; /* events there is room for */
} fopo_events;

/* Room for one more event; its contexts are zero. */
int fopo_events_grow(fopo_events *e);

/* 1 and the number, NaN and the infinities included, or 0. */
int fopo_events_number(double *x, const char *text, size_t n);

/* Why p is no propensity or r no reward, or NULL. */
const char *fopo_events_refuse_propensity(double p);
const char *fopo_events_refuse_reward(double r);

/* Names 0 .. n - 1. */
int fopo_names_count(fopo_names *names, size_t n);

/* The names of ids, which stay in their order and are taken. */
int fopo_names_of_ids(fopo_names *names, fopo_ids *ids);

int fopo_names_copy(fopo_names *to, const fopo_names *from);

/* The text becomes the next name. */
int fopo_names_append(fopo_names *names, size_t *room, const char *text, size_t n);

/* ---- hashed features: logs_vw.c ---- */

/* Adds value * sign to the column of a feature of 2^bits; the name is hashed with its namespace. */
void fopo_feature_add(float *row, size_t bits, const char *space, size_t space_n, const char *name,
                      size_t name_n, double value);

/* Counts a malformed event where the options allow it (1), or fails with the place. */
int fopo_logs_reject(fopo_logs *logs, size_t *errors, const fopo_logs_options *o,
                     const fopo_text *t, size_t line, const char *text, size_t n, const char *why);

/* ---- the forms ---- */

int fopo_logs_load(fopo_logs *logs, const char *path); /* what fopo_logs_save wrote */
int fopo_logs_read_table(fopo_logs *logs, const char *path, const fopo_logs_options *o, int obd);
int fopo_logs_read_vw(fopo_logs *logs, fopo_text *t, const fopo_logs_options *o);
int fopo_logs_read_dsjson(fopo_logs *logs, fopo_text *t, const fopo_logs_options *o);

#endif
