/* What a text table is: its separator, its header, and which of its columns are the user, the item,
 * the value and the conditions. Options say it, or the names of the columns, or their places. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "data/read/pairs.h"

enum {
  SAMPLE = 100, /* rows looked at before a column without name is taken for something */
  COLUMNS_MOST = 65536
};

/* Simplified names that mean a user, an item or a value; earlier ones win. */
static const char *const user_names[] = {"userid",     "user",      "uid",        "username",
                                         "visitorid",  "visitor",   "customerid", "customer",
                                         "reviewerid", "memberid",  "member",     "playerid",
                                         "accountid",  "sessionid", "session",    NULL};
static const char *const item_names[] = {
    "itemid",    "item",       "iid",    "movieid",    "movie",     "bookid",   "isbn",
    "productid", "product",    "asin",   "parentasin", "streamer",  "artistid", "artist",
    "trackid",   "songid",     "gameid", "videoid",    "articleid", "newsid",   "animeid",
    "recipeid",  "businessid", "repoid", "adid",       NULL};
static const char *const value_names[] = {"rating",    "bookrating", "value",       "weight",
                                          "score",     "stars",      "overall",     "count",
                                          "playcount", "plays",      "listencount", NULL};

/* Lower case, without quotes, blanks, '_' and '-'. */
static void simplify(char out[FOPO_COLUMN_NAME], fopo_field f) {
  size_t n = 0;
  for (size_t i = 0; i < f.n && n + 1 < FOPO_COLUMN_NAME; i++)
    if (strchr("_- \t\"'", f.at[i]) == NULL) out[n++] = (char)tolower((unsigned char)f.at[i]);
  out[n] = '\0';
}

/* The column whose name is one of the list, the first of the list that there is. */
static int recognise(const fopo_table *r, const char *const *list) {
  for (; *list != NULL; list++)
    for (size_t c = 0; c < r->columns; c++)
      if (strcmp(r->names[c], *list) == 0) return (int)c;
  return FOPO_NO_COLUMN;
}

static void list_columns(const fopo_table *r, char *out, size_t size) {
  size_t used = (size_t)snprintf(out, size, "it has %zu columns", r->columns);
  for (size_t c = 0; r->names != NULL && c < r->columns && used + FOPO_COLUMN_NAME + 8 < size; c++)
    used += (size_t)snprintf(out + used, size - used, "%s %s", c == 0 ? ":" : ",",
                             r->names[c][0] != '\0' ? r->names[c] : "(unnamed)");
}

/* A column by its name or 1-based number. */
static int find_column(fopo_table *r, int *column, const char *wanted, const char *option) {
  char name[FOPO_COLUMN_NAME], list[400], *end;
  simplify(name, (fopo_field){wanted, strlen(wanted), 0});
  for (size_t c = 0; r->names != NULL && c < r->columns; c++)
    if (strcmp(r->names[c], name) == 0) {
      *column = (int)c;
      return FOPO_OK;
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
  return fopo_read_real(&x, f.at, f.n) == FOPO_IS_NUMBER;
}

static int is_plain(fopo_field f, int64_t *value) {
  f = fopo_field_trim(f);
  return fopo_read_plain(value, f.at, f.n);
}

/* Options that name a column by something else than a number need a header. */
static int is_name(const char *option) {
  return option != NULL && *option != '\0' && !isdigit((unsigned char)*option);
}

/* Whether the first row, in r->fields and simplified in r->names, is a header. */
static int looks_like_header(fopo_table *r, const char *next) {
  const fopo_read_options *o = r->options;
  if (o->header != 0) return o->header > 0;
  if (is_name(o->user) || is_name(o->item) || is_name(o->value)) return 1;
  if (recognise(r, user_names) != FOPO_NO_COLUMN) return 1;
  if (recognise(r, item_names) != FOPO_NO_COLUMN) return 1;
  for (size_t c = 0; c < r->columns; c++)
    if (is_real(r->fields[c])) return 0;
  size_t count, numbers = 0;
  if (!fopo_table_peek(r, &next, &count) || count != r->columns) return 0;
  for (size_t c = 0; c < r->columns; c++) numbers += (size_t)is_real(r->fields[c]);
  return numbers > 0;
}

/* Blank lines and comments before the first row. */
static void skip_preface(fopo_text *t) {
  while (t->at < t->stop && strchr("#%\r\n", *t->at) != NULL) {
    t->at = (const char *)memchr(t->at, '\n', (size_t)(t->stop - t->at)) + 1;
    t->line++;
  }
}

/* Separator, number of columns, names. The header, where there is one, is consumed. */
static int plan_columns(fopo_table *r) {
  fopo_text *t = r->t;
  skip_preface(t);
  if (t->at == t->stop) return fopo_fail(FOPO_ERR_FORMAT, "%s is empty", t->path);
  char s = r->options->separator;
  if (s == 0) s = fopo_sniff_separator(t->at, t->stop);
  if (s == 0)
    return fopo_text_refuse(t, t->line + 1, 0, t->at, (size_t)(fopo_line_end(t->at) - t->at),
                            "holds one field; fields are separated by , ; TAB blank : :: or |");
  r->wide = s == 'D';
  r->separator = r->wide ? ':' : s;
  r->runs = s == ' ';
  r->ends[(unsigned char)r->separator] = r->ends['\n'] = 1;
  r->ends['"'] = strchr(",;\t|", s) != NULL; /* elsewhere a quote is a byte like any other */

  /* First r->columns is 0, and fields are counted; then there is room for them. */
  const char *next = t->at;
  if (!fopo_table_peek(r, &next, &r->columns))
    return fopo_text_refuse(t, t->line + 1, 0, t->at, (size_t)(fopo_line_end(t->at) - t->at),
                            "has a quote that is not closed");
  if (r->columns < 2 || r->columns > COLUMNS_MOST)
    return fopo_fail(FOPO_ERR_FORMAT, "%s, line %zu: %zu columns; 2 to %d are read", t->path,
                     t->line + 1, r->columns, COLUMNS_MOST);
  r->fields = fopo_alloc(r->columns, sizeof *r->fields);
  r->names = fopo_alloc(r->columns, sizeof *r->names);
  if (r->fields == NULL || r->names == NULL) return FOPO_ERR_MEMORY;
  next = t->at;
  size_t count;
  fopo_table_peek(r, &next, &count);
  for (size_t c = 0; c < r->columns; c++) simplify(r->names[c], r->fields[c]);
  if (looks_like_header(r, next)) {
    for (const char *p = t->at; p < next; p++) t->line += *p == '\n';
    t->at = next;
  } else {
    fopo_free(r->names);
    r->names = NULL;
  }
  return FOPO_OK;
}

/* JRappaz's Twitch files: user, stream, streamer, start <= stop, without a header. */
static int is_twitch(fopo_table *r) {
  const char *p = r->t->at;
  size_t count, rows = 0, named = 0;
  int64_t user, stream, streamer, start, stop;
  if (r->names != NULL || r->separator != ',' || r->columns != 5) return 0;
  for (; rows < SAMPLE && fopo_table_peek(r, &p, &count); rows++) {
    fopo_field *f = r->fields;
    if (count != 5 || !is_plain(f[0], &user) || !is_plain(f[1], &stream) ||
        !is_plain(f[3], &start) || !is_plain(f[4], &stop) || start > stop)
      return 0;
    named += !is_plain(f[2], &streamer);
  }
  return rows > 0 && named > 0;
}

/* In a file without header: the third column holds values when it holds small numbers, not times
 * (1e8 seconds after 1970 is 1973). */
static int third_is_value(fopo_table *r) {
  const char *p = r->t->at;
  size_t count, rows = 0;
  for (; rows < SAMPLE && fopo_table_peek(r, &p, &count); rows++) {
    double x;
    if (count < 3) continue;
    fopo_field f = fopo_field_trim(r->fields[2]);
    if (fopo_read_real(&x, f.at, f.n) != FOPO_IS_NUMBER || fabs(x) >= 1e8) return 0;
  }
  return rows > 0;
}

/* 2014-04-07T10:51:09 and the like, which is no item. */
static int second_is_time(fopo_table *r) {
  const char *p = r->t->at;
  size_t count;
  if (!fopo_table_peek(r, &p, &count) || count < 2) return 0;
  fopo_field f = fopo_field_trim(r->fields[1]);
  size_t digits = 0, bloom = 0;
  for (size_t i = 0; i < f.n; i++) {
    digits += isdigit((unsigned char)f.at[i]) != 0;
    bloom += strchr("-:/", f.at[i]) != NULL;
  }
  return digits >= 6 && bloom >= 2 && isdigit((unsigned char)*f.at);
}

static int missing_role(fopo_table *r, const char *role) {
  static const char *const propensity[] = {"propensityscore", "propensity", NULL};
  char list[400];
  if (recognise(r, propensity) != FOPO_NO_COLUMN)
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s is a log of actions with propensities; read it with "
                     "fopo.data.logs",
                     r->t->path);
  list_columns(r, list, sizeof list);
  return fopo_fail(FOPO_ERR_FORMAT,
                   "%s: no column is known as the %s; %s; say which with %s = \"...\"", r->t->path,
                   role, list, role);
}

/* Columns that no option names, in a file with header. */
static int roles_by_name(fopo_table *r) {
  if (r->user == FOPO_NO_COLUMN) r->user = recognise(r, user_names);
  if (r->item == FOPO_NO_COLUMN) r->item = recognise(r, item_names);
  if (r->user == FOPO_NO_COLUMN) return missing_role(r, "user");
  if (r->item == FOPO_NO_COLUMN) return missing_role(r, "item");
  if (r->options->value == NULL) r->value = recognise(r, value_names);
  return FOPO_OK;
}

/* The same by position. */
static int roles_by_place(fopo_table *r) {
  int chosen = r->user != FOPO_NO_COLUMN || r->item != FOPO_NO_COLUMN;
  if (r->user == FOPO_NO_COLUMN) r->user = 0;
  if (r->item == FOPO_NO_COLUMN) {
    if (second_is_time(r))
      return fopo_fail(FOPO_ERR_FORMAT,
                       "%s has no header and its second column holds times; say which column is "
                       "the item, such as item = \"3\"",
                       r->t->path);
    r->item = 1;
  }
  if (r->options->value == NULL && !chosen && r->columns >= 3 && third_is_value(r)) r->value = 2;
  return FOPO_OK;
}

static int twitch_roles(fopo_table *r) {
  snprintf(r->d->format, sizeof r->d->format, "twitch");
  if (r->columns < 3)
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s has %zu columns; Twitch's files have user, stream, "
                     "streamer, start, stop",
                     r->t->path, r->columns);
  if (r->user == FOPO_NO_COLUMN) r->user = 0;
  if (r->item == FOPO_NO_COLUMN) r->item = 2;
  return FOPO_OK;
}

/* Only books that were read. A rating of 0 there means "not rated", so ratings are used only where
 * they are asked for. */
static int goodreads_roles(fopo_table *r, int is_read) {
  snprintf(r->d->format, sizeof r->d->format, "goodreads");
  int status = roles_by_name(r);
  if (r->options->value == NULL) r->value = FOPO_NO_COLUMN;
  r->conditions[r->n_conditions++] =
      (fopo_condition){.column = is_read, .op = FOPO_EQUAL, .is_number = 1, .number = 1.0};
  return status;
}

/* The column is_read of a header that has book_id too. */
static int goodreads_column(const fopo_table *r) {
  static const char *const is_read[] = {"isread", NULL}, *const book_id[] = {"bookid", NULL};
  int known = r->names != NULL && recognise(r, book_id) != FOPO_NO_COLUMN;
  return known ? recognise(r, is_read) : FOPO_NO_COLUMN;
}

static int plan_roles(fopo_table *r, const char *format) {
  const fopo_read_options *o = r->options;
  int status = FOPO_OK;
  r->user = r->item = r->value = FOPO_NO_COLUMN;
  if (o->user != NULL) status = find_column(r, &r->user, o->user, "user");
  if (status == FOPO_OK && o->item != NULL) status = find_column(r, &r->item, o->item, "item");
  if (status == FOPO_OK && o->value != NULL && *o->value != '\0')
    status = find_column(r, &r->value, o->value, "value");
  if (status != FOPO_OK) return status;

  int automatic = strcmp(format, "auto") == 0, goodreads = strcmp(format, "goodreads") == 0;
  int is_read = automatic || goodreads ? goodreads_column(r) : FOPO_NO_COLUMN;
  if (is_read != FOPO_NO_COLUMN) return goodreads_roles(r, is_read);
  if (goodreads)
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s is not in the form of GoodReads: a header with user_id, "
                     "book_id and is_read is missing",
                     r->t->path);
  if (strcmp(format, "twitch") == 0 || (automatic && is_twitch(r))) return twitch_roles(r);
  return r->names != NULL ? roles_by_name(r) : roles_by_place(r);
}

/* "rating>=4" */
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
  if (s == 7 || left.n == 0 || left.n >= sizeof name)
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "where = \"%s\" is not a column, one of = != < <= > >=, "
                     "and a value, such as \"rating>=4\"",
                     where);
  memcpy(name, left.at, left.n);
  name[left.n] = '\0';
  const char *rest = where + at + strlen(signs[s].sign);
  fopo_field right = fopo_field_trim((fopo_field){rest, strlen(rest), 0});
  fopo_condition c = {.op = signs[s].op};
  c.is_number = fopo_read_real(&c.number, right.at, right.n) == FOPO_IS_NUMBER;
  if (right.n >= sizeof c.text || (!c.is_number && c.op >= FOPO_LESS))
    return fopo_fail(FOPO_ERR_ARGUMENT, "where = \"%s\": order is defined between numbers", where);
  memcpy(c.text, right.at, right.n);
  int status = find_column(r, &c.column, name, "where");
  if (status == FOPO_OK) r->conditions[r->n_conditions++] = c;
  return status;
}

int fopo_table_plan(fopo_table *r, const char *format) {
  snprintf(r->d->format, sizeof r->d->format, "pairs");
  int status = plan_columns(r);
  if (status == FOPO_OK) status = plan_roles(r, format);
  return status == FOPO_OK ? plan_where(r) : status;
}
