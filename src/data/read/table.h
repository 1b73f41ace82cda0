/* Text tables: rows of fields under one separator, with or without a header, read as interactions.
 * The formats pairs, movielens, twitch and goodreads are tables; each only chooses the columns.
 *
 * The first lines make a plan (table_plan.c): separator, header, and which columns are user, item,
 * value and conditions. Then rows are cut into fields and checked against it (table.c): every row
 * must have as many fields as the first, and the used columns must hold what they should. Columns
 * that are not used are not looked at. Rows may also be JSON objects, one a line, whose keys are
 * the columns (table_json.c). table_chunks.c reads most rows, many at once and on several threads,
 * and leaves the others to table.c; both ways give the same result. table_read.c turns ids into
 * indices and makes the dataset. */
#ifndef FOPO_DATA_READ_TABLE_H
#define FOPO_DATA_READ_TABLE_H

#include <string.h>

#include "data/ids.h"
#include "data/number.h"
#include "data/pairs.h"
#include "data/read/json.h"
#include "data/read/readers.h"
#include "data/text.h"

enum {
  FOPO_COLUMN_NAME = 48, /* bytes of a simplified column name, with its '\0'; longer ones are cut */
  FOPO_NO_COLUMN = -1
};

/* A field of a row, as it lies in the block. */
typedef struct {
  const char *at;
  size_t n;
  int doubled; /* "" inside stands for one quote */
} fopo_field;

typedef enum {
  FOPO_EQUAL,
  FOPO_UNEQUAL,
  FOPO_LESS, /* this and the following compare numbers */
  FOPO_LESS_EQUAL,
  FOPO_GREATER,
  FOPO_GREATER_EQUAL
} fopo_comparison;

typedef struct {
  int column;
  fopo_comparison op;
  int is_number;
  double number;
  char text[256];
} fopo_condition;

/* One side of the pairs: users or items. */
typedef struct {
  int as_numbers; /* 1: so far the pairs hold the ids themselves, integers of 32 bits;
                     0: indices into ids */
  fopo_ids ids;
} fopo_side;

/* An id as it stands in a row. */
typedef struct {
  fopo_field name;
  int64_t number;
  int is_plain; /* 1: `number` is set, 0: `name` is */
} fopo_key;

/* What a row says. */
typedef struct {
  fopo_key user, item;
  float value;
  double time;
} fopo_row;

/* What becomes of a row that was read: FOPO_OK, one of the codes below, or a failure. */
typedef int fopo_take_row(struct fopo_table *r, const fopo_row *row);

typedef struct fopo_table {
  fopo_text *t;    /* not owned */
  fopo_dataset *d; /* not owned */
  const fopo_read_options *options;
  /* the plan */
  char separator; /* the byte itself; ':' also for "::" */
  int wide, runs; /* 1: "::" separates; 1: runs of blanks separate like one */
  char **keys;    /* [columns] rows are JSON objects with these keys; NULL: they have separators */
  uint8_t ends[256]; /* 1 for bytes at which a field may end: separator, line end, quote */
  size_t columns;    /* fields of every row */
  int is_planned;    /* 1: the columns below are chosen */
  char (*names)[FOPO_COLUMN_NAME]; /* [columns] of the header, simplified; NULL: no header */
  char (
      *titles)[FOPO_COLUMN_NAME]; /* [columns] the same as they stand in the file, for sentences */
  int user, item, value, time;    /* columns, or FOPO_NO_COLUMN */
  int time_is_asked;              /* 1: an option names the column; 0: it was recognised */
  int time_is_date;               /* 1: dates, 0: numbers */
  fopo_condition conditions[2];
  size_t n_conditions;
  /* the rows */
  fopo_field *fields; /* [columns] of the current one */
  fopo_json *json;    /* with keys: the parser that holds its texts */
  char *scratch;      /* [scratch_capacity] an id whose doubled quotes are made single */
  size_t scratch_capacity;
  fopo_side users, items;
  fopo_pairs pairs;
  size_t errors;
  int tries; /* 1: a thread's copy, which counts nothing of rows that the serial reader refuses */
  fopo_take_row *take; /* NULL: rows become pairs, with indices for ids */
  void *taker;         /* for `take`; not owned */
} fopo_table;

/* The format's part of a plan: sets r->user, r->item, r->value and r->time where they are
 * FOPO_NO_COLUMN because no option names them, and may add one condition. r->names has the header,
 * and fopo_table_peek the first rows. FOPO_OK, or a failure that says which option helps. */
typedef int fopo_table_roles(fopo_table *r);

/* The `read` of a format that is a table: table_read.c. */
int fopo_table_read(fopo_dataset *d, fopo_text *t, const fopo_read_options *options,
                    fopo_table_roles *roles);

/* The `sniff` of such a format: plans the columns, asks is_one (1 or 0), and puts t back. */
int fopo_table_sniff(fopo_text *t, const fopo_read_options *options, int (*is_one)(fopo_table *r));

void fopo_table_done(fopo_table *r); /* accepts {0} */

/* ---- table_plan.c ---- */

/* Reads the first lines into the plan; consumes the header. */
int fopo_table_plan(fopo_table *r, fopo_table_roles *roles);

/* The roles by the names of a header. */
int fopo_table_roles_by_name(fopo_table *r);

/* The column of the first simplified name (lower case, no `_`, `-`, blanks and quotes) of the list,
 * ended by NULL, that the header has; or FOPO_NO_COLUMN. */
int fopo_table_column(const fopo_table *r, const char *const *list);

/* The names of the columns that the options name or that have a role by their names, simplified,
 * between commas; "" if an option gives the number of a column, which counts all of them. */
enum { FOPO_WANTED = 4096 };
void fopo_table_wanted(char wanted[FOPO_WANTED], const fopo_read_options *options);

/* Times among the first rows: 1 if each of them has one in this column, of which *is_date says the
 * kind; numbers must lie in the seconds or milliseconds of 1973 to 2105. */
int fopo_table_holds_times(fopo_table *r, size_t column, int *is_date);

/* ---- table_json.c ---- */

/* 1 if the text is JSON: its first row begins with a brace. */
int fopo_table_is_json(const fopo_text *t);

/* The columns: all keys of the block at hand. */
int fopo_table_json_plan(fopo_table *r);

/* What is wrong with a row. */
typedef struct {
  int column; /* or FOPO_NO_COLUMN */
  const char *at;
  size_t n;
  const char *why;
} fopo_row_fault;

/* Cuts the object at p into r->fields; returns where the next row begins, or NULL and the fault.
 * Once the plan is made, used columns must hold texts or numbers; before it, all columns are read.
 */
const char *fopo_table_json_cut(fopo_table *r, const char *p, size_t *count, fopo_row_fault *fault);

/* ---- table.c: fields ---- */

/* Cuts the row at *p into r->fields, and *p moves behind it; 0 if there is no complete row. Nothing
 * is consumed. *count may differ from r->columns; fields beyond it are counted, not stored. */
int fopo_table_peek(fopo_table *r, const char **p, size_t *count);

/* Cuts the row at p into r->fields; returns where the next row begins, or NULL at a quote or a
 * malformed object. */
const char *fopo_table_cut(fopo_table *r, const char *p, size_t *count);

/* How a row with quotes ends. */
typedef enum { FOPO_WHOLE, FOPO_OPEN_QUOTE, FOPO_AFTER_QUOTE } fopo_quoting;

enum {
  FOPO_QUOTED_MOST = 1 << 20
}; /* bytes of a quoted field; a longer one counts as not closed */

/* The same for a row with quotes, inside which it may span lines; *lines counts its line ends. */
fopo_quoting fopo_table_cut_quoted(fopo_table *r, const char *p, size_t *count, const char **next,
                                   size_t *lines);

/* ---- table.c: the meaning of a row ---- */

/* What became of a row, besides FOPO_OK and failures. */
enum { FOPO_ROW_LEFT_OUT = 1, FOPO_ROW_REJECTED = 2, FOPO_ROW_UNTIMED = 3, FOPO_ROW_NOT_NOW = 4 };

/* Ids, value and time of the row in r->fields; no index is given. FOPO_OK, FOPO_ROW_LEFT_OUT,
 * FOPO_ROW_REJECTED, FOPO_ROW_UNTIMED (only its time is malformed, and that was not asked for), or
 * a failure. */
int fopo_table_keys(fopo_table *r, fopo_row *row);

/* Reads the rows from t->at to `stop`, one after the other; stops early at a row whose quotes reach
 * beyond the block, and, with FOPO_ROW_NOT_NOW, before a row for which r->take returns that. */
int fopo_table_rows(fopo_table *r, const char *stop);

/* Replaces the ids in pairs [n] by indices in order of appearance, unless it has been done: from
 * now on the pairs of this side hold indices. */
int fopo_side_index(fopo_side *side, uint32_t *pairs, size_t n);

/* ---- table_chunks.c ---- */

typedef struct fopo_chunks fopo_chunks;

int fopo_chunks_new(fopo_chunks **chunks, fopo_table *r);
void fopo_chunks_free(fopo_chunks *k); /* accepts NULL */

/* Reads all complete rows of the block, with the result of fopo_table_rows. */
int fopo_chunks_block(fopo_chunks *k);

/* For tests: bytes of a chunk; 0: the default. */
void fopo_chunks_size(size_t bytes);

/* ---- fields ---- */

/* 1 if the field is a time of the kind: a finite number, or a date. */
static inline int fopo_field_time(double *time, fopo_field f, int is_date) {
  return is_date ? fopo_parse_date(time, f.at, f.n)
                 : fopo_parse_real(time, f.at, f.n) == FOPO_IS_NUMBER;
}

/* Without blanks at either end. */
static inline fopo_field fopo_field_trim(fopo_field f) {
  while (f.n > 0 && (*f.at == ' ' || *f.at == '\t')) {
    f.at++;
    f.n--;
  }
  while (f.n > 0 && (f.at[f.n - 1] == ' ' || f.at[f.n - 1] == '\t')) f.n--;
  return f;
}

/* A blank line is no row. */
static inline int fopo_row_is_blank(const fopo_field *fields, size_t count) {
  return count == 1 && fopo_field_trim(fields[0]).n == 0;
}

/* The end of the line at p, without its line end. */
static inline const char *fopo_line_end(const char *p) {
  const char *end = strchr(p, '\n');
  return end > p && end[-1] == '\r' ? end - 1 : end;
}

#endif
