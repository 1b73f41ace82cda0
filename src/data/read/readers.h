/* Readers of interaction files. One call that recognises what it is given:
 *
 *   pairs     one interaction a line: separators `,` `;` TAB space `::` `:` `|`, with or without a
 *             header; columns are found by name where there is a header (userId, user_id, user,
 *             visitorid, ...; movieId, item_id, book_id, streamer, ...; rating, value, weight;
 *             case, `_`, `-`, blanks and quotes do not count), else user, item and a number are the
 *             first three. Every row must have as many fields as the first; the columns in use
 *             must hold what they should; the others are not looked at
 *   lists     "user item item ..." a line (a user may have none; lines of any length); ids are kept
 *             as they stand, so the catalogue is 1 + the largest id; a user has one line
 *   counted   "count item item ..." a line: line i is user i (citeulike)
 *   baskets   "item item ..." a line: line i is user i (FIMI); never recognised, only named
 *   twitch    user,stream,streamer,start,stop without header: columns 1 and 3
 *   goodreads a header with user_id, book_id, is_read: rows with is_read = 1 only, no values unless
 *             they are named (a rating of 0 there means "not rated")
 *   npz       scipy's sparse CSR / CSC / COO, and fopo's own cache
 *   mtx       MatrixMarket: coordinate and array, general and symmetric kinds; not complex
 *
 * All but npz may be gzipped. Ids are numbers where all of them are plain integers (no plus, no
 * leading zeros that would be lost, at most 18 digits), else text. In pairs only ids that occur
 * become rows and columns, in ascending order of number or in order of first appearance for text.
 * An empty id, and NA, NaN, NULL or \N in its place, is a malformed row. Values are finite float32;
 * interactions that stand more than once are summed.
 *
 * Errors name file, line, column and the offending text (at most 80 escaped characters). */
#ifndef FOPO_DATA_READ_READERS_H
#define FOPO_DATA_READ_READERS_H

#include "data/dataset.h"

/* Zero-initialised options mean: recognise everything, refuse malformed rows. */
typedef struct {
  const char *format; /* NULL or "auto"; or a name of the list above, or "movielens" (= pairs) */
                      /* all but format and value = "" are for pairs alone */
  const char *user;   /* column name, or its 1-based number as text; NULL: recognise */
  const char *item;
  const char *value; /* "" : none, every interaction counts 1 */
  const char *where; /* "is_read=1", "rating>=4", "event=view": rows that fail it are left out;
                        one of = != < <= > >=; NULL: none */
  char separator;    /* 0: recognise; 'D' stands for "::" */
  int header;        /* 1: there is one, -1: there is none, 0: recognise */
  int skip_errors;   /* 1: malformed rows are counted in `skipped`, up to max_errors */
  size_t max_errors;
} fopo_read_options;

int fopo_dataset_read(fopo_dataset **d, const char *path, const fopo_read_options *options);

#endif
