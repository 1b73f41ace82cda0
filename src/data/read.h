/* Readers of interaction files. One call that recognises what it is given:
 *
 *   pairs     one interaction a line: separators `,` `;` TAB space `::` `:` `|`, with or without a
 *             header; columns are found by name where there is a header (userId, user_id, user,
 *             visitorid, ...; movieId, item_id, book_id, streamer, ...; rating, value, weight)
 *   lists     "user item item ..." a line (a user may have none; lines of any length); ids are kept
 *             as they stand, so the catalogue is 1 + the largest id
 *   twitch    user,stream,streamer,start,stop without header: columns 0 and 2
 *   goodreads a header with user_id, book_id, is_read: rows with is_read = 1 only
 *   npz       scipy's sparse CSR / CSC / COO, and fopo's own cache
 *   mtx       MatrixMarket: coordinate and array, general and symmetric kinds
 *
 * Any of them may be gzipped. Ids are numbers where all of them are plain integers without leading
 * zeros that would be lost, else text. In pairs only ids that occur become rows and columns, in
 * ascending order of number or in order of first appearance for text.
 *
 * Errors name file, line, column and the offending text (at most 80 escaped characters). */
#ifndef FOPO_DATA_READ_H
#define FOPO_DATA_READ_H

#include "data/dataset.h"

/* Zero-initialised options mean: recognise everything, refuse malformed rows. */
typedef struct {
  const char *format;    /* NULL or "auto"; or a name of the list above, or "movielens" (= pairs) */
  const char *user;      /* column name, or its 1-based number as text; NULL: recognise */
  const char *item;
  const char *value;     /* "" : none, every interaction counts 1 */
  const char *where;     /* "is_read=1", "rating>=4": rows that fail it are left out; NULL: none */
  char separator;        /* 0: recognise; 'D' stands for "::" */
  int header;            /* 1: there is one, -1: there is none, 0: recognise */
  int skip_errors;       /* 1: malformed rows are counted in `skipped`, up to max_errors */
  size_t max_errors;
} fopo_read_options;

int fopo_dataset_read(fopo_dataset **d, const char *path, const fopo_read_options *options);

#endif
