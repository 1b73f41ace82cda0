/* Readers of bandit logs: one table of formats, and one call that chooses among them.
 *
 * A format is a fopo_log_reader at the end of the file that reads it. To add one:
 *
 *   1. write src/data/logs/NAME.c: a function that fills a fopo_logs (readers.h appends and
 *      checks events, columns.h reads tables, hashed.h hashes features), and
 *          const fopo_log_reader fopo_log_reader_NAME = {.name = "NAME", .what = "...", ...};
 *   2. add the row X(NAME) to src/data/logs/readers.def.
 *
 * The build finds the file; format = "NAME", its place in help() and the refusal of unknown formats
 * follow from the row. */
#ifndef FOPO_DATA_LOGS_READERS_H
#define FOPO_DATA_LOGS_READERS_H

#include "data/logs/logs.h"
#include "data/text.h"

/* Zero-initialised options mean: recognise everything, refuse malformed rows. */
typedef struct {
  const char *format;                       /* NULL or "auto", or the name of a row */
  const char *action, *reward, *propensity; /* csv: column names; NULL: the usual ones */
  const char *features;   /* csv: column names or prefixes, separated by commas; NULL: the rest */
  const char *categories; /* csv: columns of features that are texts, named likewise; NULL: those
                           * that hold more texts than numbers */
  const char *items;      /* obd: path of item_context.csv; NULL: none */
  size_t position;        /* obd: 1 .. 3 keeps that one; 0: an action is (item, position) */
  size_t hash_bits;       /* vw, dsjson: features are hashed into 2^bits columns; 0: 8 */
  size_t n_actions;       /* csv, vw: actions are 1 .. n_actions; 0: those that occur */
  int skip_errors;
  size_t max_errors;
  int standardise; /* columns with names, of text files: fopo_logs_standardise */
} fopo_logs_options;

typedef struct {
  const char *name; /* format = "NAME" in Lua, and the log's `format` */
  const char *what; /* one line for help() */

  /* How format = "auto" recognises it: a binary file by its first bytes, a text file by its first
   * block (1 or 0; t is not changed). Both NULL: never. */
  const char *magic;
  int (*sniff)(const fopo_text *t);

  /* Exactly one of the two, and read_file where the file is read more than once; logs is {0} but
   * for its format, and is freed after a failure. A log without an event is refused afterwards. */
  int (*read)(fopo_logs *logs, fopo_text *t, const fopo_logs_options *options);
  int (*read_file)(fopo_logs *logs, const char *path, const fopo_logs_options *options);
} fopo_log_reader;

#define X(name) extern const fopo_log_reader fopo_log_reader_##name;
#include "data/logs/readers.def"
#undef X

/* Row i of readers.def; NULL behind the last. */
const fopo_log_reader *fopo_log_reader_at(size_t i);

/* Reads a log: a source (data/source.h), packed or not (.npz has its own compression, and is a
 * file); or n columnar files of one kind, which are one table. A cost becomes reward = -cost. A
 * propensity that is 0, above 1 or NaN, a reward that is not finite, and an unknown action are
 * FOPO_ERR_FORMAT with file, line, column and text. */
int fopo_logs_read(fopo_logs **logs, const char *const *paths, size_t n,
                   const fopo_logs_options *options);

/* ---- for readers: events as they are read, and what is refused of them ---- */

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
