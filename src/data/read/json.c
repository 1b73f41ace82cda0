/* A thin layer over json-c. */
#include "data/read/json.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

enum { DEPTH_MOST = 64, DIGITS = 24 };

struct fopo_json {
  struct json_tokener *tokener;
  json_object *row;       /* of the line, or NULL */
  char *const *keys;      /* [columns] not owned */
  char (*digits)[DIGITS]; /* [columns] the text of an integer */
};

int fopo_json_new(fopo_json **json, char *const *keys, size_t columns) {
  *json = NULL;
  fopo_json *j = fopo_alloc(1, sizeof *j);
  if (j == NULL) return FOPO_ERR_MEMORY;
  j->keys = keys;
  j->digits = fopo_alloc(columns, sizeof *j->digits);
  j->tokener = j->digits != NULL ? json_tokener_new_ex(DEPTH_MOST) : NULL;
  if (j->tokener == NULL) {
    fopo_json_free(j);
    return fopo_fail(FOPO_ERR_MEMORY, "no memory to read JSON");
  }
  json_tokener_set_flags(j->tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
  *json = j;
  return FOPO_OK;
}

void fopo_json_free(fopo_json *j) {
  if (j == NULL) return;
  json_object_put(j->row);
  if (j->tokener != NULL) json_tokener_free(j->tokener);
  fopo_free(j->digits);
  fopo_free(j);
}

const char *fopo_json_line(fopo_json *j, const char *at, const char *end, const char **wrong) {
  json_object_put(j->row);
  json_tokener_reset(j->tokener);
  while (end > at && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t')) end--;
  size_t n = (size_t)(end - at); /* at most INT_MAX: data/text.h refuses such a line */
  j->row = json_tokener_parse_ex(j->tokener, at, (int)n);
  enum json_tokener_error error = json_tokener_get_error(j->tokener);
  size_t parsed = json_tokener_get_parse_end(j->tokener);
  *wrong = at + parsed;
  if (error == json_tokener_continue) return "the object does not end on its line";
  if (error != json_tokener_success) return json_tokener_error_desc(error);
  if (parsed < n) return "something follows the object";
  return json_object_is_type(j->row, json_type_object) ? NULL : "it is no object";
}

static fopo_json_value integer(char digits[DIGITS], json_object *v) {
  int64_t i = json_object_get_int64(v);
  uint64_t u = i > 0 ? json_object_get_uint64(v) : 0;
  if (i == INT64_MIN || u == UINT64_MAX) return (fopo_json_value){FOPO_JSON_WIDE, "", 0};
  int n = u > INT64_MAX ? snprintf(digits, DIGITS, "%" PRIu64, u)
                        : snprintf(digits, DIGITS, "%" PRId64, i);
  return (fopo_json_value){FOPO_JSON_NUMBER, digits, (size_t)n};
}

static fopo_json_value real(json_object *v) {
  size_t n = 0; /* json-c keeps a number with a fraction as it is written */
  const char *text = json_object_to_json_string_length(v, JSON_C_TO_STRING_PLAIN, &n);
  return text != NULL ? (fopo_json_value){FOPO_JSON_NUMBER, text, n}
                      : (fopo_json_value){FOPO_JSON_NULL, "", 0};
}

fopo_json_value fopo_json_get(fopo_json *j, size_t column) {
  json_object *v = NULL;
  if (!json_object_object_get_ex(j->row, j->keys[column], &v)) {
    return (fopo_json_value){FOPO_JSON_ABSENT, "", 0};
  }
  switch (json_object_get_type(v)) {
  case json_type_boolean:
    return (fopo_json_value){FOPO_JSON_BOOLEAN, json_object_get_boolean(v) ? "1" : "0", 1};
  case json_type_int: return integer(j->digits[column], v);
  case json_type_double: return real(v);
  case json_type_string:
    return (fopo_json_value){FOPO_JSON_TEXT, json_object_get_string(v),
                             (size_t)json_object_get_string_len(v)};
  case json_type_array: return (fopo_json_value){FOPO_JSON_LIST, "", 0};
  case json_type_object: return (fopo_json_value){FOPO_JSON_OBJECT, "", 0};
  case json_type_null:
  default: return (fopo_json_value){FOPO_JSON_NULL, "", 0};
  }
}

int fopo_json_each_key(const fopo_json *j, int (*take)(void *data, const char *key, size_t n),
                       void *data) {
  struct json_object_iterator at = json_object_iter_begin(j->row);
  struct json_object_iterator end = json_object_iter_end(j->row);
  int status = 0;
  for (; status == 0 && !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
    const char *key = json_object_iter_peek_name(&at);
    status = take(data, key, strlen(key));
  }
  return status;
}
