/* Readers of interaction files: one table of formats, and one call that chooses among them.
 *
 * A format is a row, a fopo_reader, at the end of the file that reads it. To add one:
 *
 *   1. write src/data/read/NAME.c: a function that fills a fopo_dataset from a fopo_text
 * (data/text.h has its loop, data/ids.h and data/pairs.h the way from ids to a matrix), and its row
 *          const fopo_reader fopo_reader_NAME = {.name = "NAME", .what = "...", .read = read};
 *   2. add X(NAME) to FOPO_READERS below.
 *
 * The build finds the file; format = "NAME", its place in help(), the refusal of unknown formats
 * and the option check follow from the row. A format that is CSV with fixed columns needs only a
 * function that chooses them: see twitch.c and read/table.h. */
#ifndef FOPO_DATA_READ_READERS_H
#define FOPO_DATA_READ_READERS_H

#include "data/dataset.h"
#include "data/text.h"

struct fopo_several;

/* Zero-initialised options mean: recognise everything, refuse malformed rows. */
typedef struct {
  const char *format; /* NULL or "auto", or the name of a row */
  const char *user;   /* column name, or its 1-based number as text; NULL: recognise */
  const char *item;
  const char *value; /* "": none, every interaction counts 1 */
  const char *time;  /* "": none */
  const char *where; /* "is_read=1", "rating>=4", "event=view": rows that fail it are left out;
                        one of = != < <= > >=; NULL: none */
  char separator;    /* 0: recognise; 'D' stands for "::" */
  int header;        /* 1: there is one, -1: there is none, 0: recognise */
  int skip_errors;   /* 1: malformed rows are counted in `skipped`, up to max_errors */
  size_t max_errors;
  struct fopo_several *several; /* of read/several.h, which sets it: the file is one of several, and
                                   a table adds its rows there and makes no matrix */
} fopo_read_options;

struct fopo_table;

typedef struct {
  const char *name; /* format = "NAME" in Lua, and the dataset's `format` */
  const char *what; /* one line for help() */
  int has_columns;  /* 1: user, item, value, time, where, header and separator have a meaning.
                       Otherwise they are refused; value = "" and time = "" (use none) never are */

  int users_are_lines; /* 1: line i is user i, so several files cannot be one */

  /* How format = "auto" recognises it; both NULL: never, it is only read by name. */
  const char *magic; /* a binary file: its first bytes */
  /* A text file: 1 if it looks like this format, 0 if not, or a failure. t holds the first block,
   * and at least ten lines if the file has them; t->at must stay. What a sniff decides is only a
   * choice: `read` checks every row and refuses a file that turns out otherwise. */
  int (*sniff)(fopo_text *t, const fopo_read_options *options);

  /* Exactly one of the two; d is {0} but for its format, and is freed after a failure. */
  int (*read)(fopo_dataset *d, fopo_text *t, const fopo_read_options *options);
  int (*read_file)(fopo_dataset *d, const char *path, const fopo_read_options *options);

  /* A format that is a table: fopo_table_roles of read/table.h, for readers of some rows at a time.
   * Its rows are independent, so a stretch of the file can be read without the others. */
  int (*roles)(struct fopo_table *r);
} fopo_reader;

/* All formats. format = "auto" takes the first that recognises the file, so those that recognise
 * more stand later: pairs accepts any text. */
#define FOPO_READERS(X)                                                                            \
  X(npz) X(mtx) X(lists) X(counted) X(baskets) X(goodreads) X(json) X(twitch) X(movielens) X(pairs)

#define FOPO_READER_ROW(name) extern const fopo_reader fopo_reader_##name;
FOPO_READERS(FOPO_READER_ROW)
#undef FOPO_READER_ROW

/* Row i of the table; NULL behind the last. */
const fopo_reader *fopo_reader_at(size_t i);

/* Reads a file, gzipped or not (.npz has its own compression). What holds for all formats:
 *
 * Ids are integers if all of a side are plain integers (data/number.h), else texts. An empty id,
 * and NA, NaN, NULL or \N in its place, is a malformed row. Values are finite float32;
 * interactions that stand more than once are summed. Errors name file, line, column and text.
 *
 * Times are kept if a column is known to hold them: finite numbers, or dates (data/date.h). A time
 * that is neither is a malformed row if the option `time` names the column. If the column was only
 * recognised, the times are given up and d->no_times says why: nobody asked for them. */
int fopo_dataset_read(fopo_dataset **d, const char *path, const fopo_read_options *options);

/* The reader for a file, by format or by recognition, and, unless it reads by path, the file's
 * text, opened; on failure *t is closed. */
int fopo_reader_open(const fopo_reader **reader, fopo_text *t, const char *path,
                     const fopo_read_options *options);

/* 1 if an option is set that only makes sense for one interaction a line. */
int fopo_read_has_columns(const fopo_read_options *options);

#endif
