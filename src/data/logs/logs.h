/* Bandit logs: what a logging policy showed, how probable that was, and what came of it. */
#ifndef FOPO_DATA_LOGS_LOGS_H
#define FOPO_DATA_LOGS_LOGS_H

#include "data/dataset.h"

typedef struct {
  size_t n;             /* events */
  size_t n_actions;     /* P */
  fopo_matrix contexts; /* [n, D] features of each event; owned */
  uint32_t *actions;    /* [n] shown, < P; owned */
  float *rewards;       /* [n]; owned */
  float *propensities;  /* [n] probability that the logging policy showed that action, 0 < p <= 1 */
  fopo_matrix items;    /* [P, L] features of the actions, or {0} */
  fopo_names names;     /* of the actions; n == 0: they are called 1 .. n_actions */
  fopo_names features;  /* of the columns of contexts; n == 0: hashed, without names */
  float *scales;        /* [2, D] what was taken from each column of contexts, and by what it was
                         * then divided; NULL: they are as they were read. Owned */
  char format[32];      /* name of the reader, or "synthetic" */
  size_t skipped;       /* malformed rows that were counted, and events without an action */
  int contexts_borrowed; /* 1: contexts.x is not owned; its owner outlives the log */
  int items_borrowed;    /* 1: nor is items.x */
} fopo_logs;

void fopo_logs_free(fopo_logs *logs); /* accepts NULL */

/* Gives a log the columns and actions of `like`, matched by name, and its items, which are
 * borrowed: like must outlive the log. Columns that like has standardised are standardised by the
 * same numbers. A text of a category that does not occur here is a column of
 * zeros. Actions and columns that like lacks are refused with `path`, and so are its columns that
 * the log lacks; after a failure the log can only be freed. */
int fopo_logs_match(fopo_logs *logs, const fopo_logs *like, const char *path);

/* Makes columns with a value beyond -10 .. 10, of which some differ, have the mean 0 and the
 * standard deviation 1, and says which in a notice; `path` is named in it. A policy's scores are
 * linear in the contexts, so a column of ages would decide the softmax alone. */
int fopo_logs_standardise(fopo_logs *logs, const char *path);

/* The events rows [count] as a new log. It borrows the items: the original must outlive it. */
int fopo_logs_take(fopo_logs **part, const fopo_logs *logs, const uint32_t *rows, size_t count);

/* The same for events first .. first + count - 1. */
int fopo_logs_part(fopo_logs **part, const fopo_logs *logs, size_t first, size_t count);

/* n random events and the others, both in the order of the log; 1 <= n < logs->n. */
int fopo_logs_split(fopo_logs **train, fopo_logs **test, const fopo_logs *logs, size_t n,
                    uint64_t seed);

/* .npz with contexts, actions (0-based), rewards, propensities, items and the names. */
int fopo_logs_save(const fopo_logs *logs, const char *path);

#endif
