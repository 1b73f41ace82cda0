/* Lines of JSON objects, as rows of a text table (read/table.h): the keys are the columns.
 *
 * json-c parses a line into a tree, which lives until the next line: memory is bounded by the
 * longest line. Its strict mode still takes strings in single quotes, and of a key that stands
 * twice the last. */
#ifndef FOPO_DATA_READ_JSON_H
#define FOPO_DATA_READ_JSON_H

#include <stddef.h>

/* A value, as the text that a table of columns would hold: of true 1, of false 0, of null, and of a
 * key that is absent, nothing. */
typedef enum {
  FOPO_JSON_ABSENT,
  FOPO_JSON_NULL,
  FOPO_JSON_BOOLEAN,
  FOPO_JSON_NUMBER,
  FOPO_JSON_WIDE, /* an integer of more than 64 bits, which json-c does not keep */
  FOPO_JSON_TEXT,
  FOPO_JSON_LIST,
  FOPO_JSON_OBJECT
} fopo_json_kind;

typedef struct {
  fopo_json_kind kind;
  const char *at;
  size_t n;
} fopo_json_value;

typedef struct fopo_json fopo_json; /* for one thread */

/* A parser that looks at these columns; `keys` is not owned and must outlive it. */
int fopo_json_new(fopo_json **j, char *const *keys, size_t columns);
void fopo_json_free(fopo_json *j); /* accepts NULL */

/* Parses the line [at, end). NULL, or what is wrong with it, from *wrong on. */
const char *fopo_json_line(fopo_json *j, const char *at, const char *end, const char **wrong);

/* The value of a column in that line; valid until the next line. */
fopo_json_value fopo_json_get(fopo_json *j, size_t column);

/* The keys of that line in their order: calls take(data, key, n) for each until it returns other
 * than 0, which is returned. */
int fopo_json_each_key(const fopo_json *j, int (*take)(void *data, const char *key, size_t n),
                       void *data);

#endif
