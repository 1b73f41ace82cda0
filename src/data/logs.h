/* Bandit logs: what a logging policy showed, how probable that was, and what came of it. */
#ifndef FOPO_DATA_LOGS_H
#define FOPO_DATA_LOGS_H

#include "data/dataset.h"

typedef struct {
  size_t n;             /* events */
  size_t n_actions;     /* P */
  fopo_matrix contexts; /* [n, D] features of each event; owned */
  uint32_t *actions;    /* [n] shown, < P */
  float *rewards;       /* [n] */
  float *propensities;  /* [n] probability that the logging policy showed that action, 0 < p <= 1 */
  fopo_matrix items;    /* [P, L] features of the actions; owned; {0} where the log has none */
  fopo_names names;     /* of the actions */
  fopo_names features;  /* of the columns of contexts */
  char format[32];
  size_t skipped;       /* rows left out by on_error */
} fopo_logs;

void fopo_logs_free(fopo_logs *logs); /* accepts NULL */

typedef struct {
  const char *format;     /* NULL or "auto", "obd", "vw", "dsjson", "csv" */
  const char *action, *reward, *propensity; /* csv: column names; NULL: the usual ones */
  const char *features;   /* csv: column names or prefixes, separated by commas; NULL: the rest */
  const char *items;      /* obd: path of item_context.csv; NULL: none */
  size_t position;        /* obd: 1 .. 3 keeps that position only; 0: an action is (item, position) */
  size_t hash_bits;       /* vw, dsjson: features are hashed into 2^bits columns; 0: 8 */
  int skip_errors;
  size_t max_errors;
} fopo_logs_options;

/* A propensity that is 0, above 1 or NaN, a reward that is not finite, an unknown action are
 * FOPO_ERR_FORMAT with file, line, column and text. VW's cost becomes reward = -cost. */
int fopo_logs_read(fopo_logs **logs, const char *path, const fopo_logs_options *options);

/* Events first .. first + count - 1 as a log of their own (a copy; items are copied too). */
int fopo_logs_part(fopo_logs **part, const fopo_logs *logs, size_t first, size_t count);

#endif
