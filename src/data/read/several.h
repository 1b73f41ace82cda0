/* Several files that are read as one, as if they stood one after the other, each with a header of
 * its own or none: users and items of the same name are the same, indices are in order of first
 * appearance, or ascending if all names of a side are integers, and pairs that repeat are summed in
 * the order of the files. Formats whose ids are indices agree by these. Times are kept if every
 * file has them. So files that a table was cut into are that table.
 *
 * Tables (read/table.h) add their rows as they read them, perhaps of a stretch of the file alone;
 * what other formats make is added afterwards. */
#ifndef FOPO_DATA_READ_SEVERAL_H
#define FOPO_DATA_READ_SEVERAL_H

#include "data/ids.h"
#include "data/pairs.h"
#include "data/read/readers.h"

/* Start from {0}. */
typedef struct fopo_several {
  int many;                          /* 1: there are several files, so that lines cannot be users */
  fopo_ids users, items;             /* in order of appearance */
  fopo_pairs pairs;                  /* in the order of the files, with indices of these */
  size_t files;                      /* so far */
  size_t rows_read, skipped, errors; /* errors: malformed rows, a part of skipped */
  int timed;                         /* 1: some file has times */
  char format[32];                   /* of the first file; "mixed" if another one differs */
  char no_times[240];                /* which file lost the times first, and why; or "" */
  /* the stretch of the file that is being read: the rows that begin in bytes from .. to - 1 */
  uint64_t from, to;
  uint64_t begin, end; /* where they do: the first byte, and that behind the last row */
} fopo_several;

void fopo_several_done(fopo_several *s); /* accepts {0} */

/* Adds the rows of a file that begin in bytes from .. to - 1: 0 and UINT64_MAX, unless it is a
 * table that is not gzipped. A row begins where the reader of the stretch before has ended, or, if
 * that is not known, at the first line that begins at `from` or behind it; s->begin and s->end say
 * where this was. */
int fopo_several_add(fopo_several *s, const char *path, uint64_t from, uint64_t to,
                     const fopo_read_options *options);

/* For the reader of a table, before its rows: notes whether the file has times and values. */
int fopo_several_expect(fopo_several *s, const char *path, int times, int values);

/* Notes which file has no times, and why, unless an earlier one lost them. */
void fopo_several_lose_times(fopo_several *s, const char *path, const char *why);

/* The dataset of the files so far, which *s is empty of afterwards. `what` names them. */
int fopo_several_build(fopo_dataset **d, fopo_several *s, const char *what);

/* sizes [n]: bytes of the files, none of which may be empty. */
int fopo_several_sizes(uint64_t *sizes, const char *const *paths, size_t n);

/* "one.csv and 3 more files", for sentences. */
enum { FOPO_SEVERAL_TITLE = 256 };
const char *fopo_several_title(char title[FOPO_SEVERAL_TITLE], const char *const *paths, size_t n);

/* Reads n >= 1 files as one dataset. */
int fopo_dataset_read_all(fopo_dataset **d, const char *const *paths, size_t n,
                          const fopo_read_options *options);

#endif
