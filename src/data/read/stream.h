/* The users of a file, some at a time: for files that are larger than the memory. The file is a
 * table (read/table.h) whose rows stand together for each user. */
#ifndef FOPO_DATA_READ_STREAM_H
#define FOPO_DATA_READ_STREAM_H

#include "data/read/readers.h"
#include "data/sessions.h"

typedef struct fopo_stream fopo_stream;

/* Opens the file and reads its head. items: the names of the catalogue of P items; NULL: an item of
 * the file is a number from 1 to P. They must outlive the stream. *stream is NULL, with FOPO_OK,
 * if the format is no table. */
int fopo_stream_open(fopo_stream **stream, const char *path, const fopo_read_options *options,
                     const fopo_names *items, size_t P);
void fopo_stream_close(fopo_stream *s); /* accepts NULL */

/* The next users, at most `most`: their known items as X, and their names. out->X.rows == 0 at the
 * end of the file. FOPO_ERR_FORMAT if the rows of a user do not stand together. After a failure the
 * users of the call are lost, and the stream is only to be closed. */
int fopo_stream_next(fopo_sessions *out, fopo_names *users, fopo_stream *s, size_t most);

typedef struct {
  size_t users;         /* so far */
  size_t rows, unknown; /* interactions, and those of them with items that are not known */
  size_t skipped;       /* rows left out by a condition, or malformed and counted */
  uint64_t taken, size; /* bytes of the file so far, and all */
  char example[64];     /* one of the items that are not known, or "" */
  int is_grouped;       /* 0: the last failure was that rows of a user do not stand together */
} fopo_stream_facts;

fopo_stream_facts fopo_stream_about(const fopo_stream *s);

#endif
