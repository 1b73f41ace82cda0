/* The plan of a text table: its separator, its header, and which columns are the user, the item,
 * the value, the time and the conditions. Options decide, then the names of the columns; the format
 * chooses what is left open. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "data/read/table.h"

/* ---- the separator ---- */

/* Judged by the first lines. Every row is checked later: a file that turns out otherwise is refused
 * with the place. */

enum { LINES = 100 };

/* Number of fields of a line; separators inside quotes do not count. */
static size_t fields(const char *at, const char *end, char separator) {
  size_t n = 1;
  int quoted = 0, quotes = strchr(",;\t|", separator) != NULL;
  for (const char *p = at; p < end; p++) {
    if (*p == '"' && quotes) quoted = !quoted;
    if (quoted) continue;
    if (separator == 'D') {
      if (p + 1 < end && p[0] == ':' && p[1] == ':') {
        n++;
        p++;
      }
    } else if (*p == separator && !(separator == ' ' && p > at && p[-1] == ' ')) {
      n++;
    }
  }
  return n;
}

/* How many of the first lines have as many fields as the first line; 0 if that has only one. */
static size_t agreement(const char *p, const char *stop, char separator) {
  const char *at, *end;
  size_t first = 0, agree = 0;
  for (int i = 0; i < LINES && fopo_text_peek(&p, stop, &at, &end);) {
    if (at == end) continue;
    size_t n = fields(at, end, separator);
    if (first == 0) first = n;
    agree += n == first;
    i++;
  }
  return first >= 2 ? agree : 0;
}

/* What separates the fields of these lines: one of ",;\t :|", or 'D' for "::"; 0: nothing does. */
static char find_separator(const char *at, const char *stop) {
  /* On a tie the earlier candidate wins: they are ordered from the byte that is rarest inside
   * fields to the most frequent. */
  static const char candidates[] = {'D', '\t', ';', ',', '|', ' ', ':'};
  char best = 0;
  size_t most = 0;
  for (size_t i = 0; i < sizeof candidates; i++) {
    size_t agree = agreement(at, stop, candidates[i]);
    if (agree > most) {
      most = agree;
      best = candidates[i];
    }
  }
  return best;
}

enum {
  COLUMNS_MOST = 65536,
  SAMPLE = 100 /* rows by which a column is judged */
};

/* Simplified names that mean a user, an item, a value or a time; earlier ones win. */
static const char *const user_names[] = {
    "userid",     "user",      "uid",        "username",   "visitorid", "visitor",
    "customerid", "customer",  "reviewerid", "memberid",   "member",    "playerid",
    "accountid",  "sessionid", "session",    "customerno", "buyer",     NULL};
static const char *const item_names[] = {
    "itemid",    "item",       "iid",    "movieid",    "movie",     "bookid",   "isbn",
    "productid", "product",    "asin",   "parentasin", "streamer",  "artistid", "artist",
    "trackid",   "songid",     "gameid", "videoid",    "articleid", "newsid",   "animeid",
    "recipeid",  "businessid", "repoid", "adid",       "sku",       NULL};
static const char *const value_names[] = {"rating",    "bookrating", "value",       "weight",
                                          "score",     "stars",      "overall",     "count",
                                          "playcount", "plays",      "listencount", NULL};

static const char *const time_names[] = {
    "timestamp", "unixtimestamp", "unixtime",  "unixreviewtime", "time",      "datetime",
    "ts",        "eventtime",     "createdat", "date",           "eventdate", "starttime",
    "start",     "reviewtime",    NULL};

/* Lower case, without quotes, blanks, '_' and '-', and without the type that RecBole's atomic files
 * write behind the name: user_id:token. */
static void simplify(char out[FOPO_COLUMN_NAME], fopo_field f) {
  static const char *const types[] = {":token", ":float"};
  size_t n = 0;
  for (size_t i = 0; i < 2; i++) {
    size_t suffix = strlen(types[i]);
    if (f.n > suffix && memcmp(f.at + f.n - suffix, types[i], suffix) == 0) f.n -= suffix;
  }
  for (size_t i = 0; i < f.n && n + 1 < FOPO_COLUMN_NAME; i++) {
    if (strchr("_- \t\"'", f.at[i]) == NULL) out[n++] = (char)tolower((unsigned char)f.at[i]);
  }
  out[n] = '\0';
}

static void name_column(fopo_table *r, size_t c, fopo_field f) {
  simplify(r->names[c], f);
  snprintf(r->titles[c], sizeof r->titles[c], "%.*s", (int)f.n, f.at);
}

int fopo_table_column(const fopo_table *r, const char *const *list) {
  for (; r->names != NULL && *list != NULL; list++) {
    for (size_t c = 0; c < r->columns; c++) {
      if (strcmp(r->names[c], *list) == 0) return (int)c;
    }
  }
  return FOPO_NO_COLUMN;
}

void fopo_table_wanted(char wanted[FOPO_WANTED], const fopo_read_options *o) {
  const char *const *const lists[] = {user_names, item_names, value_names, time_names};
  const char *const options[] = {o->user, o->item, o->value, o->time, o->where};
  size_t n = 0;
  *wanted = '\0';
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    char name[FOPO_COLUMN_NAME];
    if (options[i] == NULL || *options[i] == '\0') continue;
    if (isdigit((unsigned char)*options[i])) {
      *wanted = '\0';
      return;
    }
    simplify(name, (fopo_field){options[i], strcspn(options[i], "!<>="), 0});
    n += (size_t)snprintf(wanted + n, FOPO_WANTED - n, "%s,", name);
  }
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    if (options[i] != NULL) continue; /* what is chosen is not recognised */
    for (const char *const *name = lists[i]; *name != NULL; name++) {
      n += (size_t)snprintf(wanted + n, FOPO_WANTED - n, "%s,", *name);
    }
  }
  if (o->time == NULL) snprintf(wanted + n, FOPO_WANTED - n, "?time");
}

static void list_columns(const fopo_table *r, char *out, size_t size) {
  size_t used = (size_t)snprintf(out, size, "it has %zu columns", r->columns);
  for (size_t c = 0; r->names != NULL && c < r->columns && used + FOPO_COLUMN_NAME + 8 < size;
       c++) {
    used += (size_t)snprintf(out + used, size - used, "%s %s", c == 0 ? ":" : ",",
                             r->titles[c][0] != '\0' ? r->titles[c] : "(unnamed)");
  }
}

/* The column of an option: `wanted` is a name or a 1-based number. */
static int find_column(fopo_table *r, int *column, const char *wanted, const char *option) {
  char name[FOPO_COLUMN_NAME], list[400], *end;
  simplify(name, (fopo_field){wanted, strlen(wanted), 0});
  for (size_t c = 0; r->names != NULL && c < r->columns; c++) {
    if (strcmp(r->names[c], name) == 0) {
      *column = (int)c;
      return FOPO_OK;
    }
  }
  unsigned long number = strtoul(wanted, &end, 10);
  if (isdigit((unsigned char)*wanted) && *end == '\0' && number >= 1 && number <= r->columns) {
    *column = (int)number - 1;
    return FOPO_OK;
  }
  list_columns(r, list, sizeof list);
  return fopo_fail(FOPO_ERR_ARGUMENT, "%s = \"%s\": %s has no such column; %s", option, wanted,
                   r->t->path, list);
}

static int is_real(fopo_field f) {
  double x;
  f = fopo_field_trim(f);
  return fopo_parse_real(&x, f.at, f.n) == FOPO_IS_NUMBER;
}

/* 1 if the option names a column, not by its number: then there must be a header. */
static int is_name(const char *option) {
  return option != NULL && *option != '\0' && !isdigit((unsigned char)*option);
}

/* 1 if the first row is a header. It is in r->fields, and simplified in r->names; the second row is
 * at `next`. Without a known name it is one if it holds no number and the second row does. */
static int looks_like_header(fopo_table *r, const char *next) {
  const fopo_read_options *o = r->options;
  if (o->header != 0) return o->header > 0;
  if (is_name(o->user) || is_name(o->item) || is_name(o->value) || is_name(o->time)) return 1;
  if (fopo_table_column(r, user_names) != FOPO_NO_COLUMN) return 1;
  if (fopo_table_column(r, item_names) != FOPO_NO_COLUMN) return 1;
  for (size_t c = 0; c < r->columns; c++) {
    if (is_real(r->fields[c])) return 0;
  }
  size_t count, numbers = 0;
  if (!fopo_table_peek(r, &next, &count) || count != r->columns) return 0;
  for (size_t c = 0; c < r->columns; c++) numbers += (size_t)is_real(r->fields[c]);
  return numbers > 0;
}

static int is_preface(const char *line) {
  return *line == '#' || *line == '%' || *line == '\n' || (*line == '\r' && line[1] == '\n');
}

/* Blank lines and comments before the first row. */
static void skip_preface(fopo_text *t) {
  while (t->at < t->stop && is_preface(t->at)) {
    t->at = (const char *)memchr(t->at, '\n', (size_t)(t->stop - t->at)) + 1;
    t->line++;
  }
}

/* The keys of JSON objects, as the names of a header. */
static int plan_keys(fopo_table *r) {
  int status = fopo_table_json_plan(r);
  if (status != FOPO_OK) return status;
  r->names = fopo_alloc(r->columns, sizeof *r->names);
  r->titles = fopo_alloc(r->columns, sizeof *r->titles);
  if (r->names == NULL || r->titles == NULL) return FOPO_ERR_MEMORY;
  for (size_t c = 0; c < r->columns; c++) {
    name_column(r, c, (fopo_field){r->keys[c], strlen(r->keys[c]), 0});
  }
  return FOPO_OK;
}

/* Separator, number of columns, names. A header is consumed. */
static int plan_columns(fopo_table *r) {
  fopo_text *t = r->t;
  skip_preface(t);
  if (t->at == t->stop) return fopo_fail(FOPO_ERR_FORMAT, "%s is empty", t->path);
  if (r->options->separator == 0 && fopo_table_is_json(t)) return plan_keys(r);
  char s = r->options->separator;
  if (s == 0) s = find_separator(t->at, t->stop);
  if (s == 0) {
    return fopo_text_refuse(t, t->line + 1, 0, t->at, (size_t)(fopo_line_end(t->at) - t->at),
                            "holds one field; fields are separated by , ; TAB blank : :: or |");
  }
  r->wide = s == 'D';
  r->separator = r->wide ? ':' : s;
  r->runs = s == ' ';
  r->ends[(unsigned char)r->separator] = r->ends['\n'] = 1;
  r->ends['"'] = strchr(",;\t|", s) != NULL; /* with other separators a quote is an ordinary byte */

  /* The first cut only counts: r->columns is 0, so no field is stored. The second one, below,
   * stores the fields. */
  const char *next = t->at;
  if (!fopo_table_peek(r, &next, &r->columns)) {
    return fopo_text_refuse(t, t->line + 1, 0, t->at, (size_t)(fopo_line_end(t->at) - t->at),
                            "has a quote that is not closed");
  }
  if (r->columns < 2 || r->columns > COLUMNS_MOST) {
    return fopo_fail(FOPO_ERR_FORMAT, "%s, line %zu: %zu columns; 2 to %d are read", t->path,
                     t->line + 1, r->columns, COLUMNS_MOST);
  }
  r->fields = fopo_alloc(r->columns, sizeof *r->fields);
  r->names = fopo_alloc(r->columns, sizeof *r->names);
  r->titles = fopo_alloc(r->columns, sizeof *r->titles);
  if (r->fields == NULL || r->names == NULL || r->titles == NULL) return FOPO_ERR_MEMORY;
  next = t->at;
  size_t count;
  fopo_table_peek(r, &next, &count);
  for (size_t c = 0; c < r->columns; c++) name_column(r, c, fopo_field_trim(r->fields[c]));
  if (looks_like_header(r, next)) {
    for (const char *p = t->at; p < next; p++) t->line += *p == '\n';
    t->at = next;
  } else {
    fopo_free(r->names);
    r->names = NULL;
  }
  return FOPO_OK;
}

/* Refuses a table in which no column is known as the user or the item. */
static int missing_role(fopo_table *r) {
  int both = r->user == r->item; /* FOPO_NO_COLUMN */
  const char *role = r->user == FOPO_NO_COLUMN ? "user" : "item";
  static const char *const propensity[] = {"propensityscore", "propensity", NULL};
  char list[400];
  if (fopo_table_column(r, propensity) != FOPO_NO_COLUMN) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s is a log of actions with propensities; read it with "
                     "fopo.data.logs",
                     r->t->path);
  }
  list_columns(r, list, sizeof list);
  return fopo_fail(FOPO_ERR_FORMAT,
                   "%s: no column is known as the %s%s; %s; say which with %s = \"...\"%s",
                   r->t->path, role, both ? ", and none as the item" : "", list, role,
                   both ? ", item = \"...\"" : "");
}

int fopo_table_roles_by_name(fopo_table *r) {
  if (r->user == FOPO_NO_COLUMN) r->user = fopo_table_column(r, user_names);
  if (r->item == FOPO_NO_COLUMN) r->item = fopo_table_column(r, item_names);
  if (r->user == FOPO_NO_COLUMN || r->item == FOPO_NO_COLUMN) return missing_role(r);
  if (r->options->value == NULL) r->value = fopo_table_column(r, value_names);
  if (r->options->value == NULL && (r->value == r->user || r->value == r->item)) {
    r->value = FOPO_NO_COLUMN;
  }
  if (r->options->time == NULL) r->time = fopo_table_column(r, time_names);
  return FOPO_OK;
}

/* A boolean of JSON is read as 1 or 0. */
static void compare_boolean(fopo_condition *c) {
  int is_true = strcmp(c->text, "true") == 0;
  if (!is_true && strcmp(c->text, "false") != 0) return;
  c->is_number = 1;
  c->number = is_true;
}

/* Parses the option `where`, such as "rating>=4", into a condition. */
static int plan_where(fopo_table *r) {
  const char *where = r->options->where;
  if (where == NULL) return FOPO_OK;
  static const struct {
    const char *sign;
    fopo_comparison op;
  } signs[] = {{"!=", FOPO_UNEQUAL}, {"<=", FOPO_LESS_EQUAL}, {">=", FOPO_GREATER_EQUAL},
               {"==", FOPO_EQUAL},   {"=", FOPO_EQUAL},       {"<", FOPO_LESS},
               {">", FOPO_GREATER}};
  size_t at = strcspn(where, "!<>="), s = 0;
  while (s < 7 && strncmp(where + at, signs[s].sign, strlen(signs[s].sign)) != 0) s++;
  char name[FOPO_COLUMN_NAME];
  fopo_field left = fopo_field_trim((fopo_field){where, at, 0});
  if (s == 7 || left.n == 0 || left.n >= sizeof name) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "where = \"%s\" is not a column, one of = != < <= > >=, "
                     "and a value, such as \"rating>=4\"",
                     where);
  }
  memcpy(name, left.at, left.n);
  name[left.n] = '\0';
  const char *rest = where + at + strlen(signs[s].sign);
  fopo_field right = fopo_field_trim((fopo_field){rest, strlen(rest), 0});
  fopo_condition c = {.op = signs[s].op};
  c.is_number = fopo_parse_real(&c.number, right.at, right.n) == FOPO_IS_NUMBER;
  if (right.n >= sizeof c.text || (!c.is_number && c.op >= FOPO_LESS)) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "where = \"%s\": order is defined between numbers", where);
  }
  memcpy(c.text, right.at, right.n);
  if (r->keys != NULL) compare_boolean(&c);
  int status = find_column(r, &c.column, name, "where");
  if (status == FOPO_OK) r->conditions[r->n_conditions++] = c;
  return status;
}

/* Columns that options name. */
static int plan_named(fopo_table *r) {
  const fopo_read_options *o = r->options;
  int status = FOPO_OK;
  r->user = r->item = r->value = r->time = FOPO_NO_COLUMN;
  if (o->user != NULL) status = find_column(r, &r->user, o->user, "user");
  if (status == FOPO_OK && o->item != NULL) status = find_column(r, &r->item, o->item, "item");
  if (status == FOPO_OK && o->value != NULL && *o->value != '\0') {
    status = find_column(r, &r->value, o->value, "value");
  }
  if (status == FOPO_OK && o->time != NULL && *o->time != '\0') {
    r->time_is_asked = 1;
    status = find_column(r, &r->time, o->time, "time");
  }
  return status;
}

/* 1 if the number looks like a time: seconds or milliseconds from 1973 to 2105. */
static int is_recent(double x) { return (x >= 1e8 && x < 4.3e9) || (x >= 1e11 && x < 4.3e12); }

int fopo_table_holds_times(fopo_table *r, size_t column, int *is_date) {
  const char *p = r->t->at;
  size_t count, seen = 0;
  for (int rows = 0; rows < SAMPLE && fopo_table_peek(r, &p, &count); rows++) {
    double x;
    if (count <= column) continue;
    fopo_field f = fopo_field_trim(r->fields[column]);
    int date = fopo_parse_date(&x, f.at, f.n);
    if (seen++ == 0) *is_date = date;
    if (date != *is_date) return 0;
    if (!date && (!fopo_field_time(&x, f, 0) || !is_recent(x))) return 0;
  }
  return seen > 0;
}

/* Times in a column of another name are not read, because they may be a fact about the items, but
 * the dataset says so. */
static void note_unread_times(fopo_table *r) {
  if (r->options->time != NULL || r->names == NULL || r->d == NULL) return;
  for (size_t c = 0; c < r->columns; c++) {
    int is_date, role = (int)c;
    if (role == r->user || role == r->item || role == r->value) continue;
    if (!fopo_table_holds_times(r, c, &is_date)) continue;
    snprintf(r->d->no_times, sizeof r->d->no_times,
             "column %s seems to hold them; time = \"%s\" reads it", r->titles[c], r->titles[c]);
    return;
  }
}

/* The kind of times: dates if the first one that can be read is a date. A column that options use
 * for something else is not recognised as times. */
static void plan_time(fopo_table *r) {
  int is_taken = r->time == r->user || r->time == r->item || r->time == r->value;
  if (is_taken && !r->time_is_asked) r->time = FOPO_NO_COLUMN;
  if (r->time == FOPO_NO_COLUMN) {
    note_unread_times(r);
    return;
  }
  const char *p = r->t->at;
  size_t count;
  for (int rows = 0; rows < SAMPLE && fopo_table_peek(r, &p, &count); rows++) {
    double x;
    if (count <= (size_t)r->time) continue;
    fopo_field f = fopo_field_trim(r->fields[r->time]);
    r->time_is_date = fopo_parse_date(&x, f.at, f.n);
    if (r->time_is_date || fopo_field_time(&x, f, 0)) return;
  }
}

/* 1 if a row was not seen because there was no memory for it. */
static int is_short_sighted(const fopo_table *r) {
  return r->json != NULL && fopo_json_failed(r->json);
}

int fopo_table_plan(fopo_table *r, fopo_table_roles *roles) {
  int status = plan_columns(r);
  if (status == FOPO_OK) status = plan_named(r);
  if (status == FOPO_OK) status = roles(r);
  if (status == FOPO_OK) plan_time(r);
  if (status == FOPO_OK) status = plan_where(r);
  if (is_short_sighted(r)) status = FOPO_ERR_MEMORY;
  r->is_planned = status == FOPO_OK;
  return status;
}

int fopo_table_sniff(fopo_text *t, const fopo_read_options *o, int (*is_one)(fopo_table *r)) {
  fopo_table r = {.t = t, .options = o};
  const char *at = t->at;
  size_t line = t->line;
  int status = plan_columns(&r), found = status == FOPO_OK ? is_one(&r) : 0;
  if (is_short_sighted(&r)) status = FOPO_ERR_MEMORY;
  fopo_table_done(&r);
  t->at = at;
  t->line = line;
  return status == FOPO_ERR_MEMORY ? status : found;
}
