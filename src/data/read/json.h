/* Lines of JSON objects, as rows of a text table (read/table.h): the keys are the columns. Of a key
 * that stands twice the last counts. */
#ifndef FOPO_DATA_READ_JSON_H
#define FOPO_DATA_READ_JSON_H

#include <stddef.h>

/* A value, as the text that a table of columns would hold: of true 1, of false 0, of null, and of a
 * key that is absent, nothing; a number as it is written. */
typedef enum {
  FOPO_JSON_ABSENT,
  FOPO_JSON_NULL,
  FOPO_JSON_BOOLEAN,
  FOPO_JSON_NUMBER,
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

/* A parser that looks at these columns, up to the first that is NULL; `keys` is not owned and must
 * outlive it. More keys may follow later. */
int fopo_json_new(fopo_json **j, char *const *keys, size_t columns);
void fopo_json_free(fopo_json *j); /* accepts NULL */

/* Parses the line [at, end). NULL, or what is wrong with it, from *wrong on. */
const char *fopo_json_line(fopo_json *j, const char *at, const char *end, const char **wrong);

/* 1 if a line could not be parsed for want of memory; the sentence is set then. */
int fopo_json_failed(const fopo_json *j);

/* The value of a column in that line; valid until the next line. */
fopo_json_value fopo_json_get(const fopo_json *j, size_t column);

/* The keys of that line in their order: calls take(data, key, n) for each until it returns other
 * than 0, which is returned. */
int fopo_json_each_key(fopo_json *j, int (*take)(void *data, const char *key, size_t n),
                       void *data);

#endif
