/* Readers of interaction files: one table of formats, and one call that chooses among them.
 *
 * A format is a fopo_reader at the end of the file that reads it. To add one:
 *
 *   1. write src/data/read/NAME.c: a function that fills a fopo_dataset from a fopo_text
 * (data/text.h has its loop, data/ids.h and data/pairs.h the way from ids to a matrix), and
 *          const fopo_reader fopo_reader_NAME = {.name = "NAME", .what = "...", .read = read};
 *   2. add the row X(NAME) to src/data/read/readers.def.
 *
 * The build finds the file; format = "NAME", its place in help(), the refusal of unknown formats
 * and the option check follow from the row. A format that is CSV with fixed columns needs only a
 * function that chooses them: see twitch.c and read/table.h. */
#ifndef FOPO_DATA_READ_READERS_H
#define FOPO_DATA_READ_READERS_H

#include "data/dataset.h"
#include "data/ids.h"
#include "data/pairs.h"
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
  size_t parts; /* fopo_dataset_read_all keeps the rows on disk and sorts them in so many parts
                   (data/spill.h), at most FOPO_SPILL_PARTS; 0: they stay in memory */
  struct fopo_several *several; /* set by fopo_several_add: the file is one of several, and a table
                                   adds its rows there and makes no matrix */
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

#define X(name) extern const fopo_reader fopo_reader_##name;
#include "data/read/readers.def"
#undef X

/* Row i of readers.def; NULL behind the last. */
const fopo_reader *fopo_reader_at(size_t i);

/* Reads a file, gzipped or not (.npz has its own compression). What holds for all formats:
 *
 * Ids are integers if all of a side are plain integers (data/number.h), else texts. An empty id,
 * and NA, NaN, NULL or \N in its place, is a malformed row. Values are finite float32;
 * interactions that stand more than once are summed. Errors name file, line, column and text.
 *
 * Times are kept if a column is known to hold them: finite numbers, or dates (data/number.h). A
 * time that is neither is a malformed row if the option `time` names the column. If the column was
 * only recognised, the times are given up and d->no_times says why: nobody asked for them. */
int fopo_dataset_read(fopo_dataset **d, const char *path, const fopo_read_options *options);

/* The reader for a file, by format or by recognition, and, unless it reads by path, the file's
 * text, opened; on failure *t is closed. */
int fopo_reader_open(const fopo_reader **reader, fopo_text *t, const char *path,
                     const fopo_read_options *options);

/* 1 if an option is set that only makes sense for one interaction a line. */
int fopo_read_has_columns(const fopo_read_options *options);

/* ---- several files ---- */

/* Several files that are read as one, as if they stood one after the other, each with a header of
 * its own or none: users and items of the same name are the same, indices are in order of first
 * appearance, or ascending if all names of a side are integers, and pairs that repeat are summed in
 * the order of the files. Formats whose ids are indices agree by these. Times are kept if every
 * file has them. So files that a table was cut into are that table.
 *
 * Tables (read/table.h) add their rows as they read them, perhaps of a stretch of the file alone;
 * what other formats make is added afterwards. */

/* Start from {0}. */
typedef struct fopo_several {
  int many;                          /* 1: there are several files, so that lines cannot be users */
  fopo_ids users, items;             /* in order of appearance */
  fopo_pairs pairs;                  /* in the order of the files, with indices of these */
  size_t files;                      /* so far */
  size_t rows_read, skipped, errors; /* errors: malformed rows, a part of skipped */
  int timed;                         /* 1: some file has times, or seems to */
  char examples[FOPO_EXAMPLES][240]; /* what is wrong with the first malformed rows */
  char format[32];                   /* of the first file; "mixed" if another one differs */
  char no_times[240];                /* which file lost the times first, and why; or "" */
  /* the stretch of the file that is being read: the rows that begin in bytes from .. to - 1 */
  uint64_t from, to;
  uint64_t begin, end; /* where they do: the first byte, and that behind the last row */
} fopo_several;

void fopo_several_done(fopo_several *s); /* accepts {0} */

/* Adds the rows of a file that begin in bytes from .. to - 1: 0 and UINT64_MAX, unless it is a
 * table that is not gzipped; of a columnar file its row groups there (columnar.py). A row begins
 * where the reader of the stretch before has ended, or, if that is not known, at the first line
 * that begins at `from` or behind it; s->begin and s->end say where this was. */
int fopo_several_add(fopo_several *s, const char *path, uint64_t from, uint64_t to,
                     const fopo_read_options *options);

/* For the reader of a table, before its rows: notes whether the file has times and values. */
int fopo_several_expect(fopo_several *s, const char *path, int times, int values);

/* Notes which file has no times, and why, unless an earlier one lost them. */
void fopo_several_lose_times(fopo_several *s, const char *path, const char *why);

/* The dataset of the files so far, which *s is empty of afterwards. `what` names them. */
int fopo_several_build(fopo_dataset **d, fopo_several *s, const char *what);

/* sizes [n]: bytes of the files, none of which may be empty; 0 of a stream, which has none yet. */
int fopo_several_sizes(uint64_t *sizes, const char *const *paths, size_t n);

/* "one.csv and 3 more files", for sentences. */
enum { FOPO_SEVERAL_TITLE = 256 };
const char *fopo_several_title(char title[FOPO_SEVERAL_TITLE], const char *const *paths, size_t n);

/* Reads n >= 1 files as one dataset. */
int fopo_dataset_read_all(fopo_dataset **d, const char *const *paths, size_t n,
                          const fopo_read_options *options);

#endif
