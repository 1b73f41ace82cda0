/* Rows that are JSON objects. The keys of the first block are the columns, in order of appearance;
 * an object need not have all of them, and what a key holds matters only if the plan uses it. */
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "data/read/table.h"

enum { KEYS_MOST = 4096, ROWS_MOST = 10000 /* rows of the block whose keys are looked for */ };

int fopo_table_is_json(const fopo_text *t) {
  const char *p = t->at + strspn(t->at, " \t\r\n");
  return p < t->stop && *p == '{';
}

/* ---- the plan ---- */

static int add_key(void *data, const char *key, size_t n) {
  fopo_table *r = data;
  for (size_t c = 0; c < r->columns; c++) {
    if (strncmp(r->keys[c], key, n) == 0 && r->keys[c][n] == '\0') return FOPO_OK;
  }
  if (r->columns == KEYS_MOST) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s: the objects have more than %d different keys",
                     r->t->path, KEYS_MOST);
  }
  if ((r->keys[r->columns] = fopo_alloc(n + 1, 1)) == NULL) return FOPO_ERR_MEMORY;
  memcpy(r->keys[r->columns++], key, n);
  return FOPO_OK;
}

static int not_json(const fopo_table *r, size_t line, const char *from, const char *end,
                    const char *why) {
  char more[300];
  snprintf(more, sizeof more, "%s; JSON lines have one whole object a line, as jq -c . writes them",
           why);
  return fopo_text_refuse(r->t, line, 0, from, (size_t)(end - from), more);
}

/* Collects the keys. A malformed row after the first is left to the reading. */
static int collect(fopo_table *r) {
  const fopo_text *t = r->t;
  int status = FOPO_OK;
  size_t line = t->line, rows = 0;
  for (const char *p = t->at, *end; p < t->stop && rows < ROWS_MOST && status == FOPO_OK;) {
    end = strchr(p, '\n');
    const char *wrong, *from = p + strspn(p, " \t\r");
    line++;
    p = end + 1;
    if (from >= end) continue;
    const char *why = fopo_json_line(r->json, from, end, &wrong);
    if (fopo_json_failed(r->json)) return FOPO_ERR_MEMORY;
    if (why == NULL) status = fopo_json_each_key(r->json, add_key, r);
    if (why != NULL && rows == 0) return not_json(r, line, wrong < end ? wrong : from, end, why);
    rows++;
  }
  return status;
}

int fopo_table_json_plan(fopo_table *r) {
  r->keys = fopo_alloc(KEYS_MOST, sizeof *r->keys);
  if (r->keys == NULL) return FOPO_ERR_MEMORY;
  int status = fopo_json_new(&r->json, r->keys, KEYS_MOST);
  if (status == FOPO_OK) status = collect(r);
  if (status == FOPO_OK && r->columns < 2) {
    status = fopo_fail(FOPO_ERR_FORMAT,
                       "%s: its objects have %zu key%s, and a user and an item are "
                       "needed",
                       r->t->path, r->columns, r->columns == 1 ? "" : "s");
  }
  if (status != FOPO_OK) return status;
  r->fields = fopo_alloc(r->columns, sizeof *r->fields);
  return r->fields != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
}

/* ---- a row ---- */

static const char *unfit(fopo_json_kind kind, int is_id) {
  switch (kind) {
  case FOPO_JSON_OBJECT:
    return "is an object here; take what it holds out of it, as jq -c '. + .KEY' does";
  case FOPO_JSON_LIST: return "is a list here, and one text or number is needed";
  case FOPO_JSON_BOOLEAN: return is_id ? "is true or false here, which is no id" : NULL;
  case FOPO_JSON_ABSENT:
  case FOPO_JSON_NULL:
  case FOPO_JSON_NUMBER:
  case FOPO_JSON_TEXT: return NULL;
  }
  return NULL;
}

/* Fetches a column that the plan uses; 0 and the fault if it cannot be used. */
static int fetch(fopo_table *r, int column, int is_id, fopo_row_fault *fault) {
  if (column == FOPO_NO_COLUMN) return 1;
  fopo_json_value v = fopo_json_get(r->json, (size_t)column);
  r->fields[column] = (fopo_field){v.at, v.n, 0};
  const char *why = unfit(v.kind, is_id);
  if (why == NULL) return 1;
  *fault = (fopo_row_fault){column, NULL, 0, why};
  return 0;
}

static int fetch_planned(fopo_table *r, fopo_row_fault *fault) {
  for (size_t i = 0; i < r->n_conditions; i++) {
    if (!fetch(r, r->conditions[i].column, 0, fault)) return 0;
  }
  return fetch(r, r->value, 0, fault) && fetch(r, r->time, 0, fault) &&
         fetch(r, r->user, 1, fault) && fetch(r, r->item, 1, fault);
}

const char *fopo_table_json_cut(fopo_table *r, const char *p, size_t *count,
                                fopo_row_fault *fault) {
  const char *end = strchr(p, '\n'), *wrong;
  const char *from = p + strspn(p, " \t\r");
  if (from >= end) {
    r->fields[0] = (fopo_field){from, 0, 0};
    *count = 1; /* a blank line */
    return end + 1;
  }
  const char *why = fopo_json_line(r->json, from, end, &wrong);
  if (why != NULL) {
    if (wrong >= end) wrong = from;
    *fault = (fopo_row_fault){FOPO_NO_COLUMN, wrong, (size_t)(end - wrong), why};
    return NULL;
  }
  *count = r->columns;
  if (r->is_planned) return fetch_planned(r, fault) ? end + 1 : NULL;
  for (size_t c = 0; c < r->columns; c++) {
    fopo_json_value v = fopo_json_get(r->json, c);
    r->fields[c] = (fopo_field){v.at, v.n, 0};
  }
  return end + 1;
}
