/* Between read_plan.c (what the columns of a text table are) and read_pairs.c (its rows). */
#ifndef FOPO_DATA_READ_PAIRS_H
#define FOPO_DATA_READ_PAIRS_H

#include <string.h>

#include "data/read_internal.h"

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

typedef struct {
  fopo_text *t;        /* not owned */
  fopo_dataset *d;     /* not owned */
  const fopo_read_options *options;
  /* the plan */
  char separator;      /* the byte itself; ':' with wide for "::" */
  int wide, runs;      /* "::"; blanks, of which several separate as one does */
  uint8_t ends[256];   /* 1 for bytes at which a field may end: separator, line end, quote */
  size_t columns;      /* fields of every row */
  char (*names)[FOPO_COLUMN_NAME]; /* [columns] of the header, simplified; NULL: no header */
  int user, item, value; /* columns, or FOPO_NO_COLUMN */
  fopo_condition conditions[2];
  size_t n_conditions;
  /* the rows */
  fopo_field *fields;  /* [columns] of the current one */
  char *scratch;       /* an id whose doubled quotes are made single */
  size_t scratch_room;
  fopo_ids users, items;
  fopo_pairs pairs;
  size_t errors;
} fopo_table;

/* Reads what the first lines say into the plan; consumes the header. d->format is set. */
int fopo_table_plan(fopo_table *r, const char *format);

/* Cuts the row at *p, which moves behind it: 1 and the fields, or 0 where no whole row is. Nothing
 * is consumed. `count` may differ from r->columns; fields beyond it are counted, not kept. */
int fopo_table_peek(fopo_table *r, const char **p, size_t *count);

/* Without blanks at either end. */
static inline fopo_field fopo_field_trim(fopo_field f) {
  while (f.n > 0 && (*f.at == ' ' || *f.at == '\t')) {
    f.at++;
    f.n--;
  }
  while (f.n > 0 && (f.at[f.n - 1] == ' ' || f.at[f.n - 1] == '\t')) f.n--;
  return f;
}

/* The end of the line at p, without its line end. */
static inline const char *fopo_line_end(const char *p) {
  const char *end = rawmemchr(p, '\n');
  return end > p && end[-1] == '\r' ? end - 1 : end;
}

#endif
