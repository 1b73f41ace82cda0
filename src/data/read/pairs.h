/* What the parts of the reader of pairs share: read_plan.c (what the columns of a table are),
 * read_cut.c (rows into fields), read_pairs.c (fields into pairs), read_chunks.c (many rows at
 * once) and read_numbers.c (pairs of numbers into pairs of indices). */
#ifndef FOPO_DATA_READ_PAIRS_H
#define FOPO_DATA_READ_PAIRS_H

#include <string.h>

#include "data/read/internal.h"

enum {
  FOPO_COLUMN_NAME = 48, /* bytes of a column's name that are compared */
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
  FOPO_LESS, /* this one and those below it need numbers */
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

/* Users or items. */
typedef struct {
  int as_numbers; /* the pairs hold the ids themselves, numbers of 32 bits; else indices into ids */
  fopo_ids ids;
} fopo_side;

/* An id as it stands in its row. */
typedef struct {
  fopo_field name;
  int64_t number;
  int is_plain; /* a number, and `name` is not set */
} fopo_key;

typedef struct {
  fopo_text *t;    /* not owned */
  fopo_dataset *d; /* not owned */
  const fopo_read_options *options;
  /* the plan */
  char separator;    /* the byte itself; ':' with wide for "::" */
  int wide, runs;    /* "::"; blanks, of which several separate as one does */
  uint8_t ends[256]; /* 1 for bytes at which a field may end: separator, line end, quote */
  size_t columns;    /* fields of every row */
  char (*names)[FOPO_COLUMN_NAME]; /* [columns] of the header, simplified; NULL: no header */
  int user, item, value;           /* columns, or FOPO_NO_COLUMN */
  fopo_condition conditions[2];
  size_t n_conditions;
  /* the rows */
  fopo_field *fields; /* [columns] of the current one */
  char *scratch;      /* an id whose doubled quotes are made single */
  size_t scratch_room;
  fopo_side users, items;
  fopo_pairs pairs;
  size_t errors;
} fopo_table;

/* What became of a row, beside FOPO_OK and failures. */
enum { FOPO_ROW_LEFT_OUT = 1, FOPO_ROW_REJECTED = 2 };

/* Reads what the first lines say into the plan; consumes the header. d->format is set. */
int fopo_table_plan(fopo_table *r, const char *format);

/* ---- read_cut.c ---- */

/* Cuts the row at *p, which moves behind it: 1 and the fields, or 0 where no whole row is. Nothing
 * is consumed. `count` may differ from r->columns; fields beyond it are counted, not kept. */
int fopo_table_peek(fopo_table *r, const char **p, size_t *count);

/* Cuts the row at p into r->fields; returns where the next row begins, or NULL at a quote. */
const char *fopo_table_cut(fopo_table *r, const char *p, size_t *count);

/* What stops a row with quotes. */
typedef enum { FOPO_WHOLE, FOPO_OPEN_QUOTE, FOPO_AFTER_QUOTE } fopo_quoting;

enum { FOPO_QUOTED_MOST = 1 << 20 }; /* bytes of one quoted field: beyond it, it was not closed */

/* The same for a row with quotes, which may go on over line ends; *lines counts them. */
fopo_quoting fopo_table_cut_quoted(fopo_table *r, const char *p, size_t *count, const char **next,
                                   size_t *lines);

/* ---- read_pairs.c ---- */

/* The row in r->fields, without its ids getting indices: FOPO_OK, FOPO_ROW_LEFT_OUT,
 * FOPO_ROW_REJECTED or a failure. */
int fopo_table_keys(fopo_table *r, fopo_key *user, fopo_key *item, float *value);

/* The rows from t->at to `stop`, one after the other; stops early at a row that goes on beyond the
 * block. */
int fopo_table_rows(fopo_table *r, const char *stop);

/* From now on the pairs hold indices on this side, given in the order of appearance. */
int fopo_side_index(fopo_side *side, uint32_t *pairs, size_t n);

/* ---- read_chunks.c ---- */

typedef struct fopo_chunks fopo_chunks;

int fopo_chunks_new(fopo_chunks **chunks, fopo_table *r);
void fopo_chunks_free(fopo_chunks *chunks); /* accepts NULL */

/* All whole rows of the block, as fopo_table_rows would take them. */
int fopo_chunks_block(fopo_chunks *chunks);

/* For tests: bytes of a chunk; 0: as usual. */
void fopo_chunks_size(size_t bytes);

/* ---- read_numbers.c ---- */

/* The names of a side from its numbers, which become places among them, ascending. *done = 0 where
 * the numbers are too far apart for that, and nothing has changed. */
int fopo_numbers_finish(fopo_names *names, uint32_t *numbers, size_t n, int *done);

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
  const char *end = rawmemchr(p, '\n');
  return end > p && end[-1] == '\r' ? end - 1 : end;
}

#endif
