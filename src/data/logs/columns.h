/* Text tables with a header, and features made of their columns, for the logs that are tables. A
 * table is read in two passes (table.c says why).
 *
 * A column of numbers becomes one feature. A column of texts becomes one feature for each of its
 * different texts, in alphabetical order: 1 in the rows with that text, 0 in the others. A column
 * with more numbers than texts is one of numbers, and its other cells, empty ones too, are
 * malformed. */
#ifndef FOPO_DATA_LOGS_COLUMNS_H
#define FOPO_DATA_LOGS_COLUMNS_H

#include "data/ids.h"
#include "data/logs/readers.h"
#include "data/text.h"

typedef struct {
  fopo_text t;
  char separator;
  char *header;      /* copy of the first line, into which the names point; owned */
  fopo_chars *names; /* [columns] */
  fopo_chars *cells; /* [columns] of the current row */
  size_t columns;
} fopo_log_table;

/* Opens the file and reads the header. To be closed even after a failure. */
int fopo_log_table_open(fopo_log_table *r, const char *path);
void fopo_log_table_close(fopo_log_table *r); /* accepts {0} */

/* The column named `wanted`, or, if that is NULL, the first of the usual names (ended by NULL) that
 * the header has. The sentence of a failure advises `option` = "...". */
int fopo_log_role(const fopo_log_table *r, int *column, const char *wanted,
                  const char *const *usual, const char *option);

/* ---- passes ---- */

/* What became of a row, besides FOPO_OK and failures. */
enum { FOPO_ROW_LEFT_OUT = 1 };

typedef struct fopo_log_pass fopo_log_pass;
typedef int fopo_log_row(fopo_log_pass *p);

/* One pass over a table. */
struct fopo_log_pass {
  fopo_log_table r;
  fopo_log_row *take; /* called for each row, which is in r.cells */
  fopo_logs *logs;    /* not owned; its `skipped` counts */
  const fopo_logs_options *options;
  size_t *errors; /* malformed rows so far */
  int counts;     /* 1: this pass counts or refuses malformed rows; 0: the one before did */
  void *data;     /* of `take` */
};

int fopo_log_pass_run(fopo_log_pass *p, const char *path);

/* Counts the row as malformed if the options allow it (FOPO_ROW_LEFT_OUT), else fails with the
 * place. Columns are 0-based. */
int fopo_log_reject_cell(fopo_log_pass *p, int column, const char *why);

/* ---- features ---- */

typedef struct {
  int column;
  int is_text;           /* known from the start, or decided after the first pass */
  size_t numbers, texts; /* cells of each kind that the first pass found; empty ones are neither */
  fopo_ids levels;       /* the different texts, in order of appearance */
  uint32_t *place;       /* [levels.n] their places in alphabetical order */
  size_t first;          /* its first column of the contexts */
} fopo_feature;

typedef struct {
  fopo_feature *list; /* [n] */
  size_t n;
  uint32_t *raw; /* [capacity, n] the bits of a float, or the index of a text */
  size_t rows, capacity;
  size_t width; /* columns of the contexts */
} fopo_features;

int fopo_features_init(fopo_features *f, const fopo_log_table *r); /* with no feature yet */
void fopo_features_done(fopo_features *f);                         /* accepts {0} */

/* Adds a column unless it is among the features, or all columns that "x1, user_, age" names: each
 * word is the name of one, or the prefix of some. */
void fopo_features_add(fopo_features *f, int column, int is_text);
int fopo_features_named(fopo_features *f, const fopo_log_table *r, const char *words);

/* The columns that "country, user_" names are texts, whatever their cells are. NULL: none. */
int fopo_features_categories(fopo_features *f, const fopo_log_table *r, const char *words);

/* First pass: counts numbers and texts. Between the passes: decides which columns hold text. Second
 * pass: stores the row; returns what a fopo_log_row does. */
void fopo_features_look(fopo_features *f, const fopo_log_table *r);
void fopo_features_decide(fopo_features *f);
int fopo_features_take(fopo_features *f, fopo_log_pass *p);

/* After the second pass: _arrange finds the columns and their names, _spread writes a row of
 * contexts (which must be zero), _matrix makes all of them. */
int fopo_features_arrange(fopo_features *f, fopo_names *names, const fopo_log_table *header);
void fopo_features_spread(float *to, const fopo_features *f, size_t row);
int fopo_features_matrix(fopo_matrix *contexts, const fopo_features *f, const char *path);

#endif
