/* Text, plain or packed by gzip or zstd, read in large blocks of whole lines.
 *
 * The loop of a reader:
 *
 *     status = fopo_text_open(&t, path);
 *     while (status == FOPO_OK && t.at < t.stop) {
 *       ... parse lines of [t.at, t.stop), moving t.at forward and counting t.line ...
 *       status = fopo_text_more(&t);
 *     }
 *     fopo_text_close(&t);
 *
 * The text is that of a source: a file, standard input, a named pipe or a command's output.
 *
 * UTF-16, a NUL byte, damaged packing, a line above 256 MiB and an empty file are refused with path
 * and line; so are files of known kinds that hold no text (Parquet, HDF5, zip, ...), with what to
 * do instead. A UTF-8 byte order mark is skipped. */
#ifndef FOPO_DATA_TEXT_H
#define FOPO_DATA_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "data/source.h"

/* n bytes of a text; not owned, and no NUL behind them. */
typedef struct {
  const char *at;
  size_t n;
} fopo_chars;

/* [at, stop) holds whole lines, each ended by '\n': one is added if the file's last line has none,
 * and line ends of a lone CR become '\n'. Readers move `at` and count `line`; the other fields are
 * read-only for them. Bytes behind `stop` are not text, but reading up to 16 of them is safe. */
typedef struct {
  fopo_source source;
  struct fopo_unpacker *unpacker; /* of a packed text, or NULL */
  const char *path;               /* for sentences: of a file the path, which is not owned */
  char *buffer;                   /* [capacity + 16] */
  size_t capacity, filled;        /* bytes; the first `filled` are text */
  size_t step;                    /* bytes of one read: 1 MiB; readers with many threads set more */
  const char *at, *stop;          /* the lines not yet consumed */
  uint64_t taken, size;           /* bytes of the source read so far, and all; 0: not known */
  uint64_t origin;                /* where in the file the buffer begins; packed: of no use */
  uint64_t mark;                  /* bytes of a byte order mark: they are of the first line */
  uint64_t begin;                 /* `line` counts from this byte on; 0 but after fopo_text_seek */
  uint64_t limit; /* lines from here on are another reader's; UINT64_MAX: none are */
  size_t line;    /* lines before `at` */
  int ended;      /* the file has no more bytes */
  int lone_cr;    /* lines end in a lone CR */
} fopo_text;

/* Opens the file and reads the first block. On failure *t is closed. */
int fopo_text_open(fopo_text *t, const char *path);
void fopo_text_close(fopo_text *t); /* accepts {0} */

/* Reads on, keeping what lies between at and stop; at == stop afterwards means the end of the file.
 * If lines are unread, at least one more is added unless the file has ended: a reader can look
 * further ahead. Pointers into the text are invalid afterwards. Reports progress. */
int fopo_text_more(fopo_text *t);

/* 1 if every place of the text can be gone to: it is a file, and not packed. */
static inline int fopo_text_can_seek(const fopo_text *t) {
  return t->unpacker == NULL && !t->source.is_stream;
}

/* Goes to the first line that begins at byte `from` >= 1 or behind it; only if it can seek. `line`
 * then counts from there, and sentences count the lines before, too. */
int fopo_text_seek(fopo_text *t, uint64_t from);

/* The byte of the file at which the line at `at` begins; only if it can seek. */
uint64_t fopo_text_place(const fopo_text *t);

/* Where the lines that begin before t->limit end in the text at hand; at most t->stop. */
const char *fopo_text_limit(const fopo_text *t);

/* The number of the line at `at` in its file, from 1: reads the file up to t->begin. */
size_t fopo_text_line(const fopo_text *t);

/* Calls `take` for each line [at, end) of the rest of the file; *end is its '\n', and t->line
 * counts the line already. Stops at the first negative status and returns it; any other means: go
 * on. */
typedef int fopo_take_line(void *data, const char *at, const char *end);
int fopo_text_each_line(fopo_text *t, fopo_take_line *take, void *data);

/* Keeps the rest of the text, which can be read once, in memory: `path` [FOPO_KEPT] can be opened
 * as often as one likes, while *file is open, which the caller closes. On failure *file is -1. */
enum { FOPO_KEPT = 288 };
int fopo_text_keep(char *path, int *file, fopo_text *t);

/* For a look ahead, which consumes nothing: the line at *p as [*at, *end) without its line end and
 * trailing blanks; *p moves behind it. 0 if *p is `stop`. */
int fopo_text_peek(const char **p, const char *stop, const char **at, const char **end);

/* Fails with "PATH, line 7, column 2: 'text' why". `line` counts from 1 as t->line does. Column 0
 * and text NULL are left out; of the text at most 80 characters are shown, unprintable ones as
 * \xNN. */
int fopo_text_refuse(const fopo_text *t, size_t line, size_t column, const char *text, size_t n,
                     const char *why);

/* The same with the column's name, or NULL: "PATH, line 7, column 2 (Rating): 'text' why", and for
 * column 0 "PATH, line 7, Rating: 'text' why". */
int fopo_text_refuse_in(const fopo_text *t, size_t line, size_t column, const char *name,
                        const char *text, size_t n, const char *why);

/* Whether a malformed row or event (`noun`) is left out, by the options skip_errors and max_errors:
 * then it is counted in *errors. Else `more` is `why` with what the options can do about it. */
enum { FOPO_MALFORMED = 512 };
int fopo_text_leave_out(char more[FOPO_MALFORMED], size_t *errors, int skip_errors,
                        size_t max_errors, const char *noun, const char *why);

#endif
