/* One chunk of a table's text, which begins and ends with whole lines, and the arrays of its rows:
 * between chunk.c, which reads them, and table_chunks.c, which puts them together. */
#ifndef FOPO_DATA_READ_CHUNK_H
#define FOPO_DATA_READ_CHUNK_H

#include "data/read/table.h"

enum { FOPO_FAST_COLUMNS = 64 }; /* tables with more columns are cut by fopo_table_cut alone */

typedef struct {
  const char *from, *stop;   /* its text */
  const char *reached;       /* the rows before it have been read */
  int64_t *user, *item;      /* [n] an integer id, or the offset of a text from `from` */
  uint32_t *user_n, *item_n; /* [n] bytes of a text; 0: an integer */
  char *texts;               /* of JSON, instead of the text from `from` on; room for two copies */
  size_t texts_n;            /* bytes of them */
  float *value;              /* [n], or NULL */
  double *time;              /* [n], or NULL */
  size_t capacity, n;        /* rows */
  size_t lines, left_out;
  int user_is_wide, item_is_wide; /* 1: an id has more than 32 bits, or a sign, or is text */
  size_t first;                   /* index of its first pair among all pairs */
} fopo_chunk;

/* What the threads that read chunks share. */
typedef struct {
  fopo_table *r;                    /* not owned */
  fopo_field *fields;               /* [threads, columns] the row that each thread cuts */
  fopo_json **parsers;              /* [threads] where rows are JSON objects, else NULL */
  int is_fast;                      /* 1: rows are first tried eight bytes at a time */
  uint8_t roles[FOPO_FAST_COLUMNS]; /* what such a row's columns are */
  uint64_t ends[3]; /* separator, line end and quote, each byte repeated eight times */
} fopo_chunk_reader;

int fopo_chunk_reader_init(fopo_chunk_reader *k, fopo_table *r);
void fopo_chunk_reader_done(fopo_chunk_reader *k); /* also after a failed init */

/* The column of times is skipped once the serial reader has given them up. */
void fopo_chunk_skip_times(fopo_chunk_reader *k);

/* Capacity for as many rows as the text of c can hold. */
int fopo_chunk_reserve(fopo_chunk *c, const fopo_chunk_reader *k);
void fopo_chunk_done(fopo_chunk *c); /* its arrays; c can be reserved again */

/* Reads the rows of c up to the first one that is not easy: one with a quote, or with anything to
 * be refused. Called by the threads of a parallel region. */
void fopo_chunk_read(fopo_chunk *c, const fopo_chunk_reader *k);

#endif
