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
  fopo_matrix items;    /* [P, L] features of the actions; {0} where the log has none */
  fopo_names names;     /* of the actions; n == 0: they are called 1 .. n_actions */
  fopo_names features;  /* of the columns of contexts; n == 0: hashed, without names */
  char format[32];
  size_t skipped;    /* rows left out by on_error, and events without an action */
  int contexts_lent; /* 1: contexts.x belongs to somebody else, who outlives the log */
  int items_lent;    /* 1: and so does items.x */
} fopo_logs;

void fopo_logs_free(fopo_logs *logs); /* accepts NULL */

/* Zero-initialised options mean: recognise everything, refuse malformed rows. */
typedef struct {
  const char *format; /* NULL or "auto", "obd", "vw", "dsjson", "csv", "npz" */
  const char *action, *reward, *propensity; /* csv: column names; NULL: the usual ones */
  const char *features; /* csv: column names or prefixes, separated by commas; NULL: the rest */
  const char *items;    /* obd: path of item_context.csv; NULL: none */
  size_t position;      /* obd: 1 .. 3 keeps that one; 0: an action is (item, position) */
  size_t hash_bits;     /* vw, dsjson: features are hashed into 2^bits columns; 0: 8 */
  size_t n_actions;     /* csv, vw: actions are 1 .. n_actions; 0: those that occur */
  int skip_errors;
  size_t max_errors;
} fopo_logs_options;

/* One reader for
 *
 *   obd     Open Bandit Dataset (Saito et al. 2021): contexts are the user features one-hot (levels
 *           in alphabetical order) and the user-item affinities, items those of item_context.csv,
 *           numeric and one-hot. Its propensity is that of the item at its position; with
 *           position = 0 an action is the pair and its propensity is p / 3, each of the three
 *           positions of a view being one event
 *   vw      Vowpal Wabbit's text: "action:cost:prob | features", with the leading action of
 *           --cb_eval, or in ADF form ("shared | ..." and one line an action, "0:cost:prob" on the
 *           chosen one). An ADF action is known by its features, and all events must offer the same
 *           ones: a policy here chooses from one fixed catalogue
 *   dsjson  one JSON object a line with _label_cost, _label_probability, _label_Action, c and
 *           c._multi; the same holds for its actions
 *   csv     a header and named columns; columns that hold text become one-hot
 *   npz     what fopo_logs_save wrote
 *
 * all but npz gzipped too. A cost becomes reward = -cost. Hashed features: column = hash mod 2^bits
 * with a sign from the hash (Weinberger et al. 2009), and one more column that is always 1.
 *
 * A propensity that is 0, above 1 or NaN, a reward that is not finite, an unknown action are
 * FOPO_ERR_FORMAT with file, line, column and text. */
int fopo_logs_read(fopo_logs **logs, const char *path, const fopo_logs_options *options);

/* Gives a log the columns and actions of `like`, which it meets by name, and lends it like's items:
 * like must outlive it. A text of a category that does not occur here is a column of zeros. What
 * like does not know is refused with `path`, as are columns that it has and the log lacks; after a
 * failure the log can only be freed. */
int fopo_logs_match(fopo_logs *logs, const fopo_logs *like, const char *path);

/* The events rows [count] as a log of their own. Its items are lent: the original must outlive
 * it. */
int fopo_logs_take(fopo_logs **part, const fopo_logs *logs, const uint32_t *rows, size_t count);

/* Events first .. first + count - 1, likewise. */
int fopo_logs_part(fopo_logs **part, const fopo_logs *logs, size_t first, size_t count);

/* n random events and the others, both in their former order; 1 <= n < logs->n. */
int fopo_logs_split(fopo_logs **train, fopo_logs **test, const fopo_logs *logs, size_t n,
                    uint64_t seed);

/* .npz with contexts, actions (0-based), rewards, propensities, items and the names. */
int fopo_logs_save(const fopo_logs *logs, const char *path);

#endif
