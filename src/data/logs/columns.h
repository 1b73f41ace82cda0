/* Tables of text with a header, and features from their columns: what the tabular logs are read
 * with. A table is read in two passes (logs_table.c says why).
 *
 * A column becomes one feature of numbers, or, where any of its cells is no number, one feature for
 * each text in it, in alphabetical order, 1 where the text stands and 0 elsewhere. */
#ifndef FOPO_DATA_LOGS_COLUMNS_H
#define FOPO_DATA_LOGS_COLUMNS_H

#include "data/logs/internal.h"

typedef struct {
  const char *at;
  size_t n;
} fopo_log_cell;

typedef struct {
  fopo_text t;
  char separator;
  char *header;         /* copy of the first line, what the names point into; owned */
  fopo_log_cell *names; /* [columns] */
  fopo_log_cell *cells; /* [columns] of the current row */
  size_t columns;
} fopo_log_table;

/* Reads the header. Close it in any case. */
int fopo_log_table_open(fopo_log_table *r, const char *path);
void fopo_log_table_close(fopo_log_table *r); /* accepts {0} */

/* The column that an option names, or else the first of the usual names that there is; `option` is
 * what the sentence tells to use. */
int fopo_log_role(const fopo_log_table *r, int *column, const char *wanted,
                  const char *const *usual, const char *option);

/* ---- passes ---- */

/* What becomes of a row: FOPO_OK, FOPO_ROW_LEFT_OUT, or a failure. */
enum { FOPO_ROW_LEFT_OUT = 1 };

typedef struct fopo_log_pass fopo_log_pass;
typedef int fopo_log_row(fopo_log_pass *p);

/* One pass over a table, and what the reader of rows needs. */
struct fopo_log_pass {
  fopo_log_table r;
  fopo_log_row *take; /* for each row, in r.cells */
  fopo_logs *logs;    /* not owned; its `skipped` counts */
  const fopo_logs_options *options;
  size_t *errors;
  int counts; /* 1: malformed rows count in this pass, 0: they did in the one before */
  void *data;
};

int fopo_log_pass_run(fopo_log_pass *p, const char *path);

/* Counts the row as malformed where the options allow it, else fails with the place. Columns are
 * 0-based. */
int fopo_log_reject_cell(fopo_log_pass *p, int column, const char *why);

/* ---- features ---- */

typedef struct {
  int column;
  int is_text;
  fopo_ids levels; /* texts, in order of appearance */
  uint32_t *place; /* [levels.n] their alphabetical ranks */
  size_t first;    /* where it begins among the columns of the features */
} fopo_feature;

typedef struct {
  fopo_feature *list; /* [n] */
  size_t n;
  uint32_t *raw; /* [room, n] the bits of a number, or the index of a text */
  size_t rows, room;
  size_t width; /* columns that they become */
} fopo_features;

int fopo_features_init(fopo_features *f, const fopo_log_table *r); /* none yet */
void fopo_features_done(fopo_features *f);                         /* accepts {0} */

/* One column more (nothing where it is there already), or those that "x1, user_, age" names. */
void fopo_features_add(fopo_features *f, int column, int is_text);
int fopo_features_named(fopo_features *f, const fopo_log_table *r, const char *words);

/* First pass: finds which columns hold text. Second pass: takes the row; a status as of a row. */
void fopo_features_look(fopo_features *f, const fopo_log_table *r);
int fopo_features_take(fopo_features *f, fopo_log_pass *p);

/* Afterwards: widths and the names of all columns, then rows as they are to be. */
int fopo_features_arrange(fopo_features *f, fopo_names *names, const fopo_log_table *header);
void fopo_features_spread(float *to, const fopo_features *f, size_t row);
int fopo_features_matrix(fopo_matrix *contexts, const fopo_features *f, const char *path);

#endif
