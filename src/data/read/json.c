/* One walk over a line (data/json_walk.h) finds its keys among the columns and notes where their
 * values are. A text with escapes is decoded to `room`, at its place in the line: it is no longer
 * than it is written, so no two meet. */
#include "data/read/json.h"

#include <stdint.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "data/json_walk.h"

typedef struct {
  uint64_t line; /* in which the key was seen last */
  fopo_json_value value;
} column;

struct fopo_json {
  char *const *keys;      /* [n_columns] not owned; NULL from the first unknown one on */
  column *columns;        /* [n_columns] */
  size_t n_columns, next; /* the column that the next key is likely to have */
  uint64_t line;          /* from 1 */
  const char *at, *end;   /* of the line, not owned */
  char *room;             /* [capacity] */
  size_t capacity;
  int failed;
};

int fopo_json_new(fopo_json **json, char *const *keys, size_t columns) {
  *json = NULL;
  fopo_json *j = fopo_alloc(1, sizeof *j);
  if (j == NULL) return FOPO_ERR_MEMORY;
  j->keys = keys;
  j->n_columns = columns;
  j->columns = fopo_alloc(columns, sizeof *j->columns);
  if (j->columns == NULL) {
    fopo_json_free(j);
    return FOPO_ERR_MEMORY;
  }
  *json = j;
  return FOPO_OK;
}

void fopo_json_free(fopo_json *j) {
  if (j == NULL) return;
  fopo_free(j->columns);
  fopo_free(j->room);
  fopo_free(j);
}

int fopo_json_failed(const fopo_json *j) { return j->failed; }

/* ---- texts ---- */

/* Room for the texts of the line, if it has escapes. */
static int reserve(fopo_json *j) {
  size_t n = (size_t)(j->end - j->at);
  if (n <= j->capacity || memchr(j->at, '\\', n) == NULL) return FOPO_OK;
  if (fopo_resize(&j->room, 2 * n, 1) != FOPO_OK) return FOPO_ERR_MEMORY;
  j->capacity = 2 * n;
  return FOPO_OK;
}

/* What the text means; valid until the next line. */
static fopo_chars meaning(const fopo_json *j, fopo_chars s) {
  if (memchr(s.at, '\\', s.n) == NULL) return s;
  char *to = j->room + (s.at - j->at);
  return (fopo_chars){to, fopo_walk_decode(to, s)};
}

/* ---- a line ---- */

static int is_column(const fopo_json *j, size_t c, fopo_chars key) {
  const char *name = j->keys[c];
  return name != NULL && strncmp(name, key.at, key.n) == 0 && name[key.n] == '\0';
}

/* The column of a key; n_columns: none. Most lines have the same keys in the same order. */
static size_t find(fopo_json *j, fopo_chars key) {
  size_t c = j->next < j->n_columns && is_column(j, j->next, key) ? j->next : 0;
  while (c < j->n_columns && j->keys[c] != NULL && !is_column(j, c, key)) c++;
  if (c == j->n_columns || j->keys[c] == NULL) return j->n_columns;
  j->next = c + 1;
  return c;
}

static fopo_json_value number(const char *at, const char *end) {
  size_t n = (size_t)(end - at);
  int is_minus_zero = n == 2 && memcmp(at, "-0", 2) == 0;
  return (fopo_json_value){FOPO_JSON_NUMBER, at + is_minus_zero, n - (size_t)is_minus_zero};
}

/* Passes a value and says what it is; a text as it is written. */
static int take_value(fopo_walk *w, fopo_json_value *v, int depth) {
  int kind = fopo_walk_peek(w);
  const char *at = w->at;
  if (kind == FOPO_WALK_STRING) {
    fopo_chars s = {NULL, 0};
    int taken = fopo_walk_string(w, &s);
    *v = (fopo_json_value){FOPO_JSON_TEXT, s.at, s.n};
    return taken;
  }
  if (kind < 0 || !fopo_walk_skip(w, depth)) return 0;
  switch (kind) {
  case FOPO_WALK_FALSE: *v = (fopo_json_value){FOPO_JSON_BOOLEAN, "0", 1}; break;
  case FOPO_WALK_TRUE: *v = (fopo_json_value){FOPO_JSON_BOOLEAN, "1", 1}; break;
  case FOPO_WALK_NUMBER: *v = number(at, w->at); break;
  case FOPO_WALK_OBJECT: *v = (fopo_json_value){FOPO_JSON_OBJECT, "", 0}; break;
  case FOPO_WALK_ARRAY: *v = (fopo_json_value){FOPO_JSON_LIST, "", 0}; break;
  default: *v = (fopo_json_value){FOPO_JSON_NULL, "", 0}; break;
  }
  return 1;
}

static int take_member(fopo_walk *w, fopo_chars key, void *data, int depth) {
  fopo_json *j = data;
  fopo_json_value value = {FOPO_JSON_ABSENT, "", 0};
  key = meaning(j, key);
  if (memchr(key.at, '\0', key.n) != NULL) return fopo_walk_wrong(w, "has a key with \\u0000");
  size_t c = find(j, key);
  if (!take_value(w, &value, depth)) return 0;
  if (c == j->n_columns) return 1;
  if (value.kind == FOPO_JSON_TEXT) {
    fopo_chars text = meaning(j, (fopo_chars){value.at, value.n});
    value.at = text.at;
    value.n = text.n;
  }
  j->columns[c] = (column){j->line, value};
  return 1;
}

const char *fopo_json_line(fopo_json *j, const char *at, const char *end, const char **wrong) {
  j->at = *wrong = at;
  j->end = end;
  j->line++;
  j->next = 0;
  if (reserve(j) != FOPO_OK) {
    j->failed = 1;
    return "there is no memory for its texts";
  }
  const char *bad = fopo_walk_not_utf8(at, end);
  if (bad < end) {
    *wrong = bad;
    return "is not valid JSON: it is not utf-8";
  }
  fopo_walk w = {.at = at, .end = end};
  fopo_walk_object(&w, take_member, j);
  *wrong = w.at;
  return w.why;
}

fopo_json_value fopo_json_get(const fopo_json *j, size_t c) {
  return j->columns[c].line == j->line ? j->columns[c].value
                                       : (fopo_json_value){FOPO_JSON_ABSENT, "", 0};
}

/* ---- keys ---- */

typedef struct {
  fopo_json *j;
  int (*take)(void *data, const char *key, size_t n);
  void *data;
  int status;
} listing;

static int list_key(fopo_walk *w, fopo_chars key, void *data, int depth) {
  listing *l = data;
  key = meaning(l->j, key);
  l->status = l->take(l->data, key.at, key.n);
  return l->status == 0 && fopo_walk_skip(w, depth);
}

int fopo_json_each_key(fopo_json *j, int (*take)(void *data, const char *key, size_t n),
                       void *data) {
  listing l = {j, take, data, 0};
  fopo_walk w = {.at = j->at, .end = j->end};
  fopo_walk_object(&w, list_key, &l);
  return l.status;
}
