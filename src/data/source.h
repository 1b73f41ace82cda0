/* Where the bytes of a text come from: a regular file, or a stream, which is read once and from its
 * begin on: standard input, a named pipe, the output of a command of the shell, or columnar files,
 * Parquet and Arrow, as text: pyarrow writes their columns as CSV (columnar.py), in a Python
 * program whose output is read; row i is line i + 1 of it, below the header. */
#ifndef FOPO_DATA_SOURCE_H
#define FOPO_DATA_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include "core/program.h"

/* A path is that of a file or a named pipe, or "-" for standard input, or begins with one of these
 * bytes, and a command, columnar files, or what was kept of a stream (fopo_text_keep) stand behind
 * it. No path of a user begins so: Lua's layer refuses it. */
enum { FOPO_SOURCE_COMMAND = '\1', FOPO_SOURCE_COLUMNAR = '\2', FOPO_SOURCE_KEPT = '\3' };

enum { FOPO_SOURCE_FIRST = 16 };

typedef struct {
  char name[256]; /* for sentences: the path, "standard input", "the command '...'" */
  char what[272]; /* "reading NAME", for progress */
  int fd;
  int is_stream;
  uint64_t size;                          /* bytes of a file; 0 of a stream */
  fopo_pipe program;                      /* program.out < 0: there is none */
  unsigned char first[FOPO_SOURCE_FIRST]; /* [n_first] the first bytes, and zeros */
  size_t n_first, n_given;                /* those of a stream that were read already */
} fopo_source;

/* 1 if the path is that of a stream, which cannot be looked into before it is read. */
int fopo_source_is_stream(const char *path);

/* The kind of a columnar file, a constant; NULL: it is none. */
const char *fopo_columnar_kind(const char *path);

/* 1 if all n >= 1 files are columnar and of one kind. */
int fopo_columnar_are(const char *const *paths, size_t n);

/* *source: fresh, the path for fopo_source_open of n >= 1 files of one kind, which are one table,
 * to be freed. `wanted`: the names of the columns that matter, without case, blanks, - and _,
 * between commas; "": all. Of the bytes of all files, the row groups in from .. to - 1 are read:
 * 0 and UINT64_MAX, all (columnar.py). */
int fopo_columnar_source(char **source, const char *const *paths, size_t n, const char *wanted,
                         uint64_t from, uint64_t to);

/* The name of the source at `path`, for sentences. */
const char *fopo_source_name(char *name, size_t size, const char *path);

/* Opens the source and reads its first bytes. On failure *s is closed. */
int fopo_source_open(fopo_source *s, const char *path);

/* The next n bytes of a stream; *got < n only at its end. A command that fails fails here. */
int fopo_source_next(fopo_source *s, void *bytes, size_t n, size_t *got);

void fopo_source_close(fopo_source *s); /* accepts {0} */

#endif
