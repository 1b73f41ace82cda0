/* One interaction a line: CSV and its relatives.
 *
 * A plan is made from the first lines (separator, header, which column is what), then rows are cut
 * into fields and checked against it: every row must have as many fields as the first, and the used
 * columns must hold what they should. Columns that are not used are not looked at.
 *
 * Rows without a quote are cut by one loop over their bytes; a quote sends the row to a slower cut
 * that knows doubled quotes and line ends inside of quotes (RFC 4180). Ids become indices as they
 * are met (read_ids.c), and nothing is allocated per row. */
#include "data/read_internal.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

enum {
  SAMPLE = 100,           /* rows looked at before the plan is made */
  COLUMNS_MOST = 65536,
  NAME = 48,              /* bytes of a column's name that are compared */
  QUOTED_MOST = 1 << 20,  /* bytes of one quoted field: beyond it, a quote was not closed */
  NONE = -1,
  LEFT_OUT = 1, REJECTED = 2 /* what became of a row, beside FOPO_OK and failures */
};

typedef struct {
  const char *at;
  size_t n;
  int doubled; /* "" inside stands for one quote */
} field;

typedef enum { EQUAL, UNEQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL } comparison;

typedef struct {
  int column;
  comparison op;
  int is_number;
  double number;
  char text[256];
} condition;

typedef struct {
  fopo_text *t;        /* not owned */
  fopo_dataset *d;     /* not owned */
  const fopo_read_options *options;
  char separator;      /* the byte itself; ':' with wide for "::" */
  int wide, runs, quotes;
  size_t columns;      /* fields of every row */
  char (*names)[NAME]; /* [columns] of the header, simplified; NULL: no header */
  int user, item, value;
  condition conditions[2];
  size_t n_conditions;
  uint8_t ends[256];   /* bytes at which a field may end */
  field *fields;       /* [columns] of the current row */
  char *scratch;       /* an id whose doubled quotes are made single */
  size_t scratch_room;
  fopo_ids users, items;
  fopo_pairs pairs;
  size_t errors;
} reader;

/* Simplified names that mean a user, an item or a value; earlier ones win. */
static const char *const user_names[] = {
    "userid", "user", "uid", "username", "visitorid", "visitor", "customerid", "customer",
    "reviewerid", "memberid", "member", "playerid", "accountid", "sessionid", "session", NULL};
static const char *const item_names[] = {
    "itemid", "item", "iid", "movieid", "movie", "bookid", "isbn", "productid", "product", "asin",
    "parentasin", "streamer", "artistid", "artist", "trackid", "songid", "gameid", "videoid",
    "articleid", "newsid", "animeid", "recipeid", "businessid", "repoid", "adid", NULL};
static const char *const value_names[] = {
    "rating", "bookrating", "value", "weight", "score", "stars", "overall", "count", "playcount",
    "plays", "listencount", NULL};

static void close_reader(reader *r) {
  fopo_free(r->names);
  fopo_free(r->fields);
  fopo_free(r->scratch);
  fopo_ids_done(&r->users);
  fopo_ids_done(&r->items);
  fopo_pairs_done(&r->pairs);
}

/* ---- cutting rows ---- */

/* Cuts the row at p into r->fields; returns where the next row begins, or NULL at a quote. */
static const char *cut_plain(reader *r, const char *p, size_t *count) {
  const uint8_t *ends = r->ends;
  const int wide = r->wide, runs = r->runs;
  size_t n = 0;
  while (runs && *p == ' ') p++;
  for (;;) {
    const char *start = p;
    while (!ends[(unsigned char)*p] || (wide && *p == ':' && p[1] != ':')) p++;
    if (*p == '"') return NULL;
    if (n < r->columns) r->fields[n] = (field){start, (size_t)(p - start), 0};
    n++;
    if (*p != '\n') {
      p += 1 + wide;
      while (runs && *p == ' ') p++;
      if (!runs || (*p != '\n' && !(*p == '\r' && p[1] == '\n'))) continue;
      p += *p == '\r';
    } else if (p > start && p[-1] == '\r' && n <= r->columns) {
      r->fields[n - 1].n--;
    }
    *count = n;
    return p + 1;
  }
}

/* What stops a row with quotes. */
typedef enum { WHOLE, OPEN_QUOTE, AFTER_QUOTE } quoting;

/* The same for a row with quotes, which may go on over line ends; *lines counts them. */
static quoting cut_quoted(reader *r, const char *p, size_t *count, const char **next,
                          size_t *lines) {
  const char *stop = r->t->stop;
  size_t n = 0;
  *lines = 0;
  for (;; n++) {
    field f = {p, 0, 0};
    if (*p == '"') {
      f.at = ++p;
      for (;; p++) {
        if (p >= stop || p - f.at > QUOTED_MOST) return OPEN_QUOTE;
        *lines += *p == '\n';
        if (*p != '"') continue;
        if (p[1] != '"') break;
        f.doubled = 1;
        p++;
      }
      f.n = (size_t)(p++ - f.at);
      while (*p == ' ' || (*p == '\r' && p[1] == '\n')) p++;
      if (*p != r->separator && *p != '\n') return AFTER_QUOTE;
    } else {
      while (*p != r->separator && *p != '\n') p++;
      f.n = (size_t)(p - f.at);
      if (*p == '\n' && f.n > 0 && p[-1] == '\r') f.n--;
    }
    if (n < r->columns) r->fields[n] = f;
    if (*p++ == '\n') break;
  }
  *lines += 1;
  *count = n + 1;
  *next = p;
  return WHOLE;
}

/* The end of the line at p, without its line end. */
static const char *line_end(const char *p) {
  const char *end = rawmemchr(p, '\n');
  return end > p && end[-1] == '\r' ? end - 1 : end;
}

static field trimmed(field f) {
  while (f.n > 0 && (*f.at == ' ' || *f.at == '\t')) {
    f.at++;
    f.n--;
  }
  while (f.n > 0 && (f.at[f.n - 1] == ' ' || f.at[f.n - 1] == '\t')) f.n--;
  return f;
}

/* Rows of the first block, one after the other, without consuming them: 1 and the fields, or 0. */
static int peek(reader *r, const char **p, size_t *count) {
  if (*p >= r->t->stop) return 0;
  const char *next = cut_plain(r, *p, count);
  size_t lines;
  if (next == NULL && cut_quoted(r, *p, count, &next, &lines) != WHOLE) return 0;
  *p = next;
  return 1;
}

/* ---- what is refused ---- */

/* Fails with the place, or counts the row where the options allow it. column is 0-based. */
static int reject(reader *r, int column, const char *text, size_t n, const char *why) {
  const fopo_read_options *o = r->options;
  if (o->skip_errors && r->errors < o->max_errors) {
    r->errors++;
    return REJECTED;
  }
  char more[512];
  snprintf(more, sizeof more, "%s", why);
  if (o->skip_errors)
    snprintf(more, sizeof more, "%s; with it there are %zu malformed rows, max_errors is %zu", why,
             r->errors + 1, o->max_errors);
  return fopo_text_refuse(r->t, r->t->line + 1, (size_t)(column + 1), text, n, more);
}

static int reject_field(reader *r, int column, const char *why) {
  return reject(r, column, r->fields[column].at, r->fields[column].n, why);
}

static int reject_count(reader *r, const char *line, size_t count) {
  char why[200];
  snprintf(why, sizeof why, "has %zu field%s where the first row has %zu%s", count,
           count == 1 ? "" : "s", r->columns,
           r->separator == ' ' || r->separator == '\t'
               ? "; if each line is a user and its items, say format = \"lists\"" : "");
  return reject(r, NONE, line, (size_t)(line_end(line) - line), why);
}

/* ---- rows ---- */

static int compare_real(double a, comparison op, double b) {
  switch (op) {
    case EQUAL: return a == b;
    case UNEQUAL: return a != b;
    case LESS: return a < b;
    case LESS_EQUAL: return a <= b;
    case GREATER: return a > b;
    case GREATER_EQUAL: return a >= b;
  }
  return 0;
}

static int holds(reader *r, const condition *c) {
  field f = trimmed(r->fields[c->column]);
  double x;
  if (c->is_number && fopo_read_real(&x, f.at, f.n) == FOPO_IS_NUMBER)
    return compare_real(x, c->op, c->number) ? FOPO_OK : LEFT_OUT;
  if (c->op > UNEQUAL) return reject_field(r, c->column, "is not a number, and `where` compares it");
  int equal = !c->is_number && f.n == strlen(c->text) && memcmp(f.at, c->text, f.n) == 0;
  return equal == (c->op == EQUAL) ? FOPO_OK : LEFT_OUT;
}

static int read_value(reader *r, float *value) {
  field f = r->fields[r->value];
  double x;
  fopo_is is = fopo_read_real(&x, f.at, f.n);
  if (is == FOPO_NO_NUMBER) {
    f = trimmed(f);
    is = fopo_read_real(&x, f.at, f.n);
  }
  if (is == FOPO_IS_NUMBER && fabs(x) <= (double)FLT_MAX) {
    *value = (float)x;
    return FOPO_OK;
  }
  return reject_field(r, r->value,
                      f.n == 0 ? "is empty where a value is needed (value = \"\" uses none)"
                      : is == FOPO_NO_NUMBER ? "is not a number (value = \"\" uses none)"
                                             : "is not a finite number of float32");
}

/* What R, SQL and pandas write for a missing value. In small letters they may be names. */
static int is_missing(field f) {
  static const char *const words[] = {"NA", "NaN", "NULL", "\\N"};
  for (size_t i = 0; i < 4; i++)
    if (f.n == strlen(words[i]) && memcmp(f.at, words[i], f.n) == 0) return 1;
  return f.n == 0;
}

static int undouble(reader *r, field *f) {
  if (f->n > r->scratch_room) {
    char *scratch = fopo_realloc(r->scratch, 2 * f->n, 1);
    if (scratch == NULL) return FOPO_ERR_MEMORY;
    r->scratch = scratch;
    r->scratch_room = 2 * f->n;
  }
  size_t n = 0;
  for (size_t i = 0; i < f->n; i++) {
    r->scratch[n++] = f->at[i];
    i += f->at[i] == '"';
  }
  *f = (field){r->scratch, n, 0};
  return FOPO_OK;
}

static int has_control(field f) {
  for (size_t i = 0; i < f.n; i++)
    if ((unsigned char)f.at[i] < 32 && f.at[i] != '\t') return 1;
  return 0;
}

/* An id as it stands in its row. */
typedef struct {
  field name;
  int64_t number;
  int is_plain;
} key;

static int read_key(reader *r, key *k, int column) {
  const field *f = &r->fields[column];
  k->is_plain = fopo_read_plain(&k->number, f->at, f->n);
  if (k->is_plain) return FOPO_OK; /* nearly always */
  k->name = trimmed(*f);
  k->is_plain = fopo_read_plain(&k->number, k->name.at, k->name.n);
  if (k->is_plain) return FOPO_OK;
  if (is_missing(k->name)) return reject_field(r, column, "is no id: it is missing");
  if (has_control(k->name)) return reject_field(r, column, "holds a control character");
  return FOPO_OK;
}

static int add_key(reader *r, uint32_t *index, fopo_ids *ids, key *k) {
  if (k->is_plain) return fopo_ids_number(ids, index, k->number);
  int status = k->name.doubled ? undouble(r, &k->name) : FOPO_OK;
  return status == FOPO_OK ? fopo_ids_add(ids, index, k->name.at, k->name.n) : status;
}

/* The row in r->fields becomes a pair. FOPO_OK, LEFT_OUT, REJECTED or a failure. */
static int take_row(reader *r) {
  for (size_t i = 0; i < r->n_conditions; i++) {
    int held = holds(r, &r->conditions[i]);
    if (held != FOPO_OK) return held;
  }
  /* Neither id is given an index before the whole row is known to be good. */
  key user, item;
  float value = 1.0f;
  int status = read_key(r, &user, r->user);
  if (status == FOPO_OK) status = read_key(r, &item, r->item);
  if (status == FOPO_OK && r->value != NONE) status = read_value(r, &value);
  if (status != FOPO_OK) return status;
  uint32_t u = 0, i = 0;
  status = add_key(r, &u, &r->users, &user);
  if (status == FOPO_OK) status = add_key(r, &i, &r->items, &item);
  return status == FOPO_OK ? fopo_pairs_add(&r->pairs, u, i, value) : status;
}

/* Cuts the row at t->at. *next NULL: it goes on beyond the block. */
static int cut_row(reader *r, size_t *count, const char **next, size_t *lines) {
  fopo_text *t = r->t;
  *lines = 1;
  *next = cut_plain(r, t->at, count);
  if (*next != NULL) return FOPO_OK;
  quoting q = cut_quoted(r, t->at, count, next, lines);
  if (q == WHOLE) return FOPO_OK;
  if (q == OPEN_QUOTE && !t->ended && t->stop - t->at <= 2 * QUOTED_MOST) {
    *next = NULL;
    return FOPO_OK;
  }
  const char *end = line_end(t->at);
  *next = end + 1 + (*end == '\r');
  *lines = 1;
  return reject(r, NONE, t->at, (size_t)(end - t->at),
                q == OPEN_QUOTE ? "has a quote that is not closed"
                                : "has text behind a closing quote");
}

/* All whole rows of the block. */
static int read_block(reader *r) {
  fopo_text *t = r->t;
  while (t->at < t->stop) {
    const char *next;
    size_t count = 0, lines;
    int status = cut_row(r, &count, &next, &lines);
    if (status == FOPO_OK && next == NULL) return FOPO_OK;
    if (status == FOPO_OK && count == r->columns) {
      status = take_row(r);
    } else if (status == FOPO_OK && !(count == 1 && trimmed(r->fields[0]).n == 0)) {
      status = reject_count(r, t->at, count); /* and a blank line is no row */
    }
    if (status < 0) return status;
    if (status > 0) r->d->skipped++;
    t->line += lines;
    t->at = next;
  }
  return FOPO_OK;
}

static int read_rows(reader *r) {
  fopo_text *t = r->t;
  for (;;) {
    size_t left = (size_t)(t->stop - t->at);
    int status = read_block(r);
    if (status != FOPO_OK) return status;
    if (left == (size_t)(t->stop - t->at) && t->ended) return FOPO_OK;
    status = fopo_text_more(t);
    if (status != FOPO_OK) return status;
  }
}

/* ---- the plan ---- */

/* Lower case, without quotes, blanks, '_' and '-'. */
static void simplify(char out[NAME], field f) {
  size_t n = 0;
  for (size_t i = 0; i < f.n && n + 1 < NAME; i++)
    if (strchr("_- \t\"'", f.at[i]) == NULL) out[n++] = (char)tolower((unsigned char)f.at[i]);
  out[n] = '\0';
}

/* The column whose name is one of the list, the first of the list that there is. */
static int recognise(const reader *r, const char *const *list) {
  for (; *list != NULL; list++)
    for (size_t c = 0; c < r->columns; c++)
      if (strcmp(r->names[c], *list) == 0) return (int)c;
  return NONE;
}

static void list_columns(const reader *r, char *out, size_t size) {
  size_t used = (size_t)snprintf(out, size, "it has %zu columns", r->columns);
  for (size_t c = 0; r->names != NULL && c < r->columns && used + NAME + 8 < size; c++)
    used += (size_t)snprintf(out + used, size - used, "%s %s", c == 0 ? ":" : ",",
                             r->names[c][0] != '\0' ? r->names[c] : "(unnamed)");
}

/* A column by its name or 1-based number. */
static int find_column(reader *r, int *column, const char *wanted, const char *option) {
  char name[NAME], list[400], *end;
  simplify(name, (field){wanted, strlen(wanted), 0});
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

static int is_real(field f) {
  double x;
  f = trimmed(f);
  return fopo_read_real(&x, f.at, f.n) == FOPO_IS_NUMBER;
}

static int is_plain(field f, int64_t *value) {
  f = trimmed(f);
  return fopo_read_plain(value, f.at, f.n);
}

/* Options that name a column by something else than a number need a header. */
static int is_name(const char *option) {
  return option != NULL && *option != '\0' && !isdigit((unsigned char)*option);
}

/* Whether the first row, in r->fields and simplified in r->names, is a header. */
static int looks_like_header(reader *r, const char *next) {
  const fopo_read_options *o = r->options;
  if (o->header != 0) return o->header > 0;
  if (is_name(o->user) || is_name(o->item) || is_name(o->value)) return 1;
  if (recognise(r, user_names) != NONE || recognise(r, item_names) != NONE) return 1;
  for (size_t c = 0; c < r->columns; c++)
    if (is_real(r->fields[c])) return 0;
  size_t count, numbers = 0;
  if (!peek(r, &next, &count) || count != r->columns) return 0;
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
static int plan_columns(reader *r) {
  fopo_text *t = r->t;
  skip_preface(t);
  if (t->at == t->stop)
    return fopo_fail(FOPO_ERR_FORMAT, "%s is empty", t->path);
  char s = r->options->separator;
  if (s == 0) s = fopo_sniff_separator(t->at, t->stop);
  if (s == 0)
    return fopo_text_refuse(t, t->line + 1, 0, t->at, (size_t)(line_end(t->at) - t->at),
                            "holds one field; fields are separated by , ; TAB blank : :: or |");
  r->wide = s == 'D';
  r->separator = r->wide ? ':' : s;
  r->runs = s == ' ';
  r->quotes = strchr(",;\t|", s) != NULL;
  r->ends[(unsigned char)r->separator] = r->ends['\n'] = 1;
  if (r->quotes) r->ends['"'] = 1;

  const char *next = t->at;
  if (!peek(r, &next, &r->columns)) /* r->columns is 0 here: fields are counted, not kept */
    return fopo_text_refuse(t, t->line + 1, 0, t->at, (size_t)(line_end(t->at) - t->at),
                            "has a quote that is not closed");
  if (r->columns < 2 || r->columns > COLUMNS_MOST)
    return fopo_fail(FOPO_ERR_FORMAT, "%s, line %zu: %zu columns; 2 to %d are read", t->path,
                     t->line + 1, r->columns, COLUMNS_MOST);
  r->fields = fopo_alloc(r->columns, sizeof *r->fields);
  r->names = fopo_alloc(r->columns, sizeof *r->names);
  if (r->fields == NULL || r->names == NULL) return FOPO_ERR_MEMORY;
  next = t->at;
  size_t count;
  peek(r, &next, &count);
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
static int is_twitch(reader *r) {
  const char *p = r->t->at;
  size_t count, rows = 0, named = 0;
  int64_t user, stream, streamer, start, stop;
  if (r->names != NULL || r->separator != ',' || r->columns != 5) return 0;
  for (; rows < SAMPLE && peek(r, &p, &count); rows++) {
    field *f = r->fields;
    if (count != 5 || !is_plain(f[0], &user) || !is_plain(f[1], &stream) ||
        !is_plain(f[3], &start) || !is_plain(f[4], &stop) || start > stop)
      return 0;
    named += !is_plain(f[2], &streamer);
  }
  return rows > 0 && named > 0;
}

/* In a file without header: the third column holds values when it holds small numbers, not times
 * (1e8 seconds after 1970 is 1973). */
static int third_is_value(reader *r) {
  const char *p = r->t->at;
  size_t count, rows = 0;
  for (; rows < SAMPLE && peek(r, &p, &count); rows++) {
    double x;
    if (count < 3) continue;
    field f = trimmed(r->fields[2]);
    if (fopo_read_real(&x, f.at, f.n) != FOPO_IS_NUMBER || fabs(x) >= 1e8) return 0;
  }
  return rows > 0;
}

/* 2014-04-07T10:51:09 and the like, which is no item. */
static int second_is_time(reader *r) {
  const char *p = r->t->at;
  size_t count;
  if (!peek(r, &p, &count) || count < 2) return 0;
  field f = trimmed(r->fields[1]);
  size_t digits = 0, marks = 0;
  for (size_t i = 0; i < f.n; i++) {
    digits += isdigit((unsigned char)f.at[i]) != 0;
    marks += strchr("-:/", f.at[i]) != NULL;
  }
  return digits >= 6 && marks >= 2 && isdigit((unsigned char)*f.at);
}

static int missing_role(reader *r, const char *role) {
  static const char *const propensity[] = {"propensityscore", "propensity", NULL};
  char list[400];
  if (recognise(r, propensity) != NONE)
    return fopo_fail(FOPO_ERR_FORMAT, "%s is a log of actions with propensities; read it with "
                     "fopo.data.logs", r->t->path);
  list_columns(r, list, sizeof list);
  return fopo_fail(FOPO_ERR_FORMAT,
                   "%s: no column is known as the %s; %s; say which with %s = \"...\"", r->t->path,
                   role, list, role);
}

/* Columns that no option names, in a file with header. */
static int roles_by_name(reader *r) {
  if (r->user == NONE) r->user = recognise(r, user_names);
  if (r->item == NONE) r->item = recognise(r, item_names);
  if (r->user == NONE) return missing_role(r, "user");
  if (r->item == NONE) return missing_role(r, "item");
  if (r->options->value == NULL) r->value = recognise(r, value_names);
  return FOPO_OK;
}

/* The same by position. */
static int roles_by_place(reader *r) {
  int chosen = r->user != NONE || r->item != NONE;
  if (r->user == NONE) r->user = 0;
  if (r->item == NONE) {
    if (second_is_time(r))
      return fopo_fail(FOPO_ERR_FORMAT,
                       "%s has no header and its second column holds times; say which column is "
                       "the item, such as item = \"3\"", r->t->path);
    r->item = 1;
  }
  if (r->options->value == NULL && !chosen && r->columns >= 3 && third_is_value(r)) r->value = 2;
  return FOPO_OK;
}

static int plan_roles(reader *r, const char *format) {
  const fopo_read_options *o = r->options;
  int status = FOPO_OK;
  r->user = r->item = r->value = NONE;
  if (o->user != NULL) status = find_column(r, &r->user, o->user, "user");
  if (status == FOPO_OK && o->item != NULL) status = find_column(r, &r->item, o->item, "item");
  if (status == FOPO_OK && o->value != NULL && *o->value != '\0')
    status = find_column(r, &r->value, o->value, "value");
  if (status != FOPO_OK) return status;

  static const char *const is_read[] = {"isread", NULL}, *const book_id[] = {"bookid", NULL};
  int read_column = r->names != NULL && recognise(r, book_id) != NONE ? recognise(r, is_read) : NONE;
  if (strcmp(format, "goodreads") == 0 && read_column == NONE)
    return fopo_fail(FOPO_ERR_FORMAT, "%s is not in the form of GoodReads: a header with user_id, "
                     "book_id and is_read is missing", r->t->path);
  int automatic = strcmp(format, "auto") == 0;
  if (strcmp(format, "twitch") == 0 || (automatic && is_twitch(r))) {
    snprintf(r->d->format, sizeof r->d->format, "twitch");
    if (r->columns < 3)
      return fopo_fail(FOPO_ERR_FORMAT, "%s has %zu columns; Twitch's files have user, stream, "
                       "streamer, start, stop", r->t->path, r->columns);
    if (r->user == NONE) r->user = 0;
    if (r->item == NONE) r->item = 2;
    return FOPO_OK;
  }
  status = r->names != NULL ? roles_by_name(r) : roles_by_place(r);
  if (status != FOPO_OK || read_column == NONE ||
      !(automatic || strcmp(format, "goodreads") == 0))
    return status;
  /* A rating of 0 there means "not rated", so ratings are used only where they are asked for. */
  snprintf(r->d->format, sizeof r->d->format, "goodreads");
  if (o->value == NULL) r->value = NONE;
  r->conditions[r->n_conditions++] =
      (condition){.column = read_column, .op = EQUAL, .is_number = 1, .number = 1.0};
  return FOPO_OK;
}

/* "rating>=4" */
static int plan_where(reader *r) {
  const char *where = r->options->where;
  if (where == NULL) return FOPO_OK;
  static const struct { const char *sign; comparison op; } signs[] = {
      {"!=", UNEQUAL}, {"<=", LESS_EQUAL}, {">=", GREATER_EQUAL}, {"==", EQUAL},
      {"=", EQUAL},    {"<", LESS},        {">", GREATER}};
  size_t at = strcspn(where, "!<>="), s = 0;
  while (s < 7 && strncmp(where + at, signs[s].sign, strlen(signs[s].sign)) != 0) s++;
  char name[NAME];
  field left = trimmed((field){where, at, 0});
  if (s == 7 || left.n == 0 || left.n >= sizeof name)
    return fopo_fail(FOPO_ERR_ARGUMENT, "where = \"%s\" is not a column, one of = != < <= > >=, "
                     "and a value, such as \"rating>=4\"", where);
  memcpy(name, left.at, left.n);
  name[left.n] = '\0';
  const char *rest = where + at + strlen(signs[s].sign);
  field right = trimmed((field){rest, strlen(rest), 0});
  condition c = {.op = signs[s].op};
  c.is_number = fopo_read_real(&c.number, right.at, right.n) == FOPO_IS_NUMBER;
  if (right.n >= sizeof c.text || (!c.is_number && c.op > UNEQUAL))
    return fopo_fail(FOPO_ERR_ARGUMENT, "where = \"%s\": order is defined between numbers", where);
  memcpy(c.text, right.at, right.n);
  int status = find_column(r, &c.column, name, "where");
  if (status == FOPO_OK) r->conditions[r->n_conditions++] = c;
  return status;
}

/* Rows of the whole file, from those of the first block; text is packed about 4 to 1. */
static double expected_rows(const reader *r) {
  const fopo_text *t = r->t;
  double lines = 0, bytes = (double)(t->stop - t->at);
  for (const char *p = t->at; p < t->stop && (p = memchr(p, '\n', (size_t)(t->stop - p))); p++)
    lines++;
  double all = (double)t->size * (t->inflater != NULL ? 4 : 1);
  return bytes > 0 ? lines * all / bytes : 0;
}

/* Where numbers were put into ascending order, the pairs follow. */
static int follow(uint32_t *ids, const uint32_t *place, size_t n) {
  enum { POLL = 1 << 20 }; /* about 2 ms */
  for (size_t from = 0; place != NULL && from < n; from += POLL) {
    size_t to = n - from < POLL ? n : from + POLL;
    for (size_t i = from; i < to; i++) ids[i] = place[ids[i]];
    int status = fopo_progress("ordering ids", (double)to, (double)n);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

static int finish_side(fopo_names *names, fopo_ids *ids, uint32_t *pairs, size_t n) {
  uint32_t *place = NULL;
  int status = fopo_ids_finish(names, &place, ids);
  if (status == FOPO_OK) status = follow(pairs, place, n);
  fopo_free(place);
  return status;
}

static int finish(reader *r) {
  fopo_pairs *p = &r->pairs;
  size_t users = r->users.n, items = r->items.n;
  int status = finish_side(&r->d->users, &r->users, p->user, p->n);
  if (status == FOPO_OK) status = finish_side(&r->d->items, &r->items, p->item, p->n);
  return status == FOPO_OK ? fopo_pairs_build(r->d, p, users, items, r->t->path) : status;
}

int fopo_read_pairs(fopo_dataset *d, fopo_text *t, const fopo_read_options *options,
                    const char *format) {
  reader r = {.t = t, .d = d, .options = options};
  snprintf(d->format, sizeof d->format, "pairs");
  int status = plan_columns(&r);
  if (status == FOPO_OK) status = plan_roles(&r, format);
  if (status == FOPO_OK) status = plan_where(&r);
  r.pairs.with_values = r.value != NONE;
  if (status == FOPO_OK)
    status = fopo_pairs_suffice(t->path, expected_rows(&r), r.pairs.with_values);
  if (status == FOPO_OK) status = read_rows(&r);
  if (status == FOPO_OK) status = finish(&r);
  close_reader(&r);
  return status;
}
