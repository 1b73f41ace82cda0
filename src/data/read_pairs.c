/* One interaction a line: CSV and its relatives.
 *
 * A plan is made from the first lines (read_plan.c), then rows are cut into fields and checked
 * against it: every row must have as many fields as the first, and the used columns must hold what
 * they should. Columns that are not used are not looked at.
 *
 * Rows without a quote are cut by one loop over their bytes; a quote sends the row to a slower cut
 * that knows doubled quotes and line ends inside of quotes (RFC 4180). Ids become indices as they
 * are met (read_ids.c), and nothing is allocated per row. */
#include "data/read_pairs.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

enum {
  QUOTED_MOST = 1 << 20,     /* bytes of one quoted field: beyond it, a quote was not closed */
  LEFT_OUT = 1, REJECTED = 2 /* what became of a row, beside FOPO_OK and failures */
};

static void close_table(fopo_table *r) {
  fopo_free(r->names);
  fopo_free(r->fields);
  fopo_free(r->scratch);
  fopo_ids_done(&r->users);
  fopo_ids_done(&r->items);
  fopo_pairs_done(&r->pairs);
}

/* ---- cutting rows ---- */

/* Cuts the row at p into r->fields; returns where the next row begins, or NULL at a quote. */
static const char *cut_plain(fopo_table *r, const char *p, size_t *count) {
  const uint8_t *ends = r->ends;
  const int wide = r->wide, runs = r->runs;
  size_t n = 0;
  while (runs && *p == ' ') p++;
  for (;;) {
    const char *start = p;
    while (!ends[(unsigned char)*p] || (wide && *p == ':' && p[1] != ':')) p++;
    if (*p == '"') return NULL;
    if (n < r->columns) r->fields[n] = (fopo_field){start, (size_t)(p - start), 0};
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
static quoting cut_quoted(fopo_table *r, const char *p, size_t *count, const char **next,
                          size_t *lines) {
  const char *stop = r->t->stop;
  size_t n = 0;
  *lines = 0;
  for (;; n++) {
    fopo_field f = {p, 0, 0};
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

int fopo_table_peek(fopo_table *r, const char **p, size_t *count) {
  if (*p >= r->t->stop) return 0;
  const char *next = cut_plain(r, *p, count);
  size_t lines;
  if (next == NULL && cut_quoted(r, *p, count, &next, &lines) != WHOLE) return 0;
  *p = next;
  return 1;
}

/* ---- what is refused ---- */

/* Fails with the place, or counts the row where the options allow it. column is 0-based. */
static int reject(fopo_table *r, int column, const char *text, size_t n, const char *why) {
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

static int reject_field(fopo_table *r, int column, const char *why) {
  return reject(r, column, r->fields[column].at, r->fields[column].n, why);
}

static int reject_count(fopo_table *r, const char *line, size_t count) {
  char why[200];
  snprintf(why, sizeof why, "has %zu field%s where the first row has %zu%s", count,
           count == 1 ? "" : "s", r->columns,
           r->separator == ' ' || r->separator == '\t'
               ? "; if each line is a user and its items, say format = \"lists\"" : "");
  return reject(r, FOPO_NO_COLUMN, line, (size_t)(fopo_line_end(line) - line), why);
}

/* ---- rows ---- */

static int compare_real(double a, fopo_comparison op, double b) {
  switch (op) {
    case FOPO_EQUAL: return a == b;
    case FOPO_UNEQUAL: return a != b;
    case FOPO_LESS: return a < b;
    case FOPO_LESS_EQUAL: return a <= b;
    case FOPO_GREATER: return a > b;
    case FOPO_GREATER_EQUAL: return a >= b;
  }
  return 0;
}

static int holds(fopo_table *r, const fopo_condition *c) {
  fopo_field f = fopo_field_trim(r->fields[c->column]);
  double x;
  if (c->is_number && fopo_read_real(&x, f.at, f.n) == FOPO_IS_NUMBER)
    return compare_real(x, c->op, c->number) ? FOPO_OK : LEFT_OUT;
  if (c->op >= FOPO_LESS)
    return reject_field(r, c->column, "is not a number, and `where` compares it");
  int equal = !c->is_number && f.n == strlen(c->text) && memcmp(f.at, c->text, f.n) == 0;
  return equal == (c->op == FOPO_EQUAL) ? FOPO_OK : LEFT_OUT;
}

static int read_value(fopo_table *r, float *value) {
  fopo_field f = r->fields[r->value];
  double x;
  fopo_is is = fopo_read_real(&x, f.at, f.n);
  if (is == FOPO_NO_NUMBER) {
    f = fopo_field_trim(f);
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
static int is_missing(fopo_field f) {
  static const char *const words[] = {"NA", "NaN", "NULL", "\\N"};
  for (size_t i = 0; i < 4; i++)
    if (f.n == strlen(words[i]) && memcmp(f.at, words[i], f.n) == 0) return 1;
  return f.n == 0;
}

static int undouble(fopo_table *r, fopo_field *f) {
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
  *f = (fopo_field){r->scratch, n, 0};
  return FOPO_OK;
}

static int has_control(fopo_field f) {
  for (size_t i = 0; i < f.n; i++)
    if ((unsigned char)f.at[i] < 32 && f.at[i] != '\t') return 1;
  return 0;
}

/* An id as it stands in its row. */
typedef struct {
  fopo_field name;
  int64_t number;
  int is_plain;
} key;

static int read_key(fopo_table *r, key *k, int column) {
  const fopo_field *f = &r->fields[column];
  k->is_plain = fopo_read_plain(&k->number, f->at, f->n);
  if (k->is_plain) return FOPO_OK; /* nearly always */
  k->name = fopo_field_trim(*f);
  k->is_plain = fopo_read_plain(&k->number, k->name.at, k->name.n);
  if (k->is_plain) return FOPO_OK;
  if (is_missing(k->name)) return reject_field(r, column, "is no id: it is missing");
  if (has_control(k->name)) return reject_field(r, column, "holds a control character");
  return FOPO_OK;
}

static int add_key(fopo_table *r, uint32_t *index, fopo_ids *ids, key *k) {
  if (k->is_plain) return fopo_ids_number(ids, index, k->number);
  int status = k->name.doubled ? undouble(r, &k->name) : FOPO_OK;
  return status == FOPO_OK ? fopo_ids_add(ids, index, k->name.at, k->name.n) : status;
}

/* The row in r->fields becomes a pair. FOPO_OK, LEFT_OUT, REJECTED or a failure. */
static int take_row(fopo_table *r) {
  for (size_t i = 0; i < r->n_conditions; i++) {
    int held = holds(r, &r->conditions[i]);
    if (held != FOPO_OK) return held;
  }
  /* Neither id is given an index before the whole row is known to be good. */
  key user, item;
  float value = 1.0f;
  int status = read_key(r, &user, r->user);
  if (status == FOPO_OK) status = read_key(r, &item, r->item);
  if (status == FOPO_OK && r->value != FOPO_NO_COLUMN) status = read_value(r, &value);
  if (status != FOPO_OK) return status;
  uint32_t u = 0, i = 0;
  status = add_key(r, &u, &r->users, &user);
  if (status == FOPO_OK) status = add_key(r, &i, &r->items, &item);
  return status == FOPO_OK ? fopo_pairs_add(&r->pairs, u, i, value) : status;
}

/* Cuts the row at t->at. *next NULL: it goes on beyond the block. */
static int cut_row(fopo_table *r, size_t *count, const char **next, size_t *lines) {
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
  const char *end = fopo_line_end(t->at);
  *next = end + 1 + (*end == '\r');
  *lines = 1;
  return reject(r, FOPO_NO_COLUMN, t->at, (size_t)(end - t->at),
                q == OPEN_QUOTE ? "has a quote that is not closed"
                                : "has text behind a closing quote");
}

/* All whole rows of the block. */
static int read_block(fopo_table *r) {
  fopo_text *t = r->t;
  while (t->at < t->stop) {
    const char *next;
    size_t count = 0, lines;
    int status = cut_row(r, &count, &next, &lines);
    if (status == FOPO_OK && next == NULL) return FOPO_OK;
    if (status == FOPO_OK && count == r->columns) {
      status = take_row(r);
    } else if (status == FOPO_OK && !(count == 1 && fopo_field_trim(r->fields[0]).n == 0)) {
      status = reject_count(r, t->at, count); /* and a blank line is no row */
    }
    if (status < 0) return status;
    if (status > 0) r->d->skipped++;
    t->line += lines;
    t->at = next;
  }
  return FOPO_OK;
}

static int read_rows(fopo_table *r) {
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

/* Rows of the whole file, from those of the first block; text is packed about 4 to 1. */
static double expected_rows(const fopo_table *r) {
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

static int finish(fopo_table *r) {
  fopo_pairs *p = &r->pairs;
  size_t users = r->users.n, items = r->items.n;
  int status = finish_side(&r->d->users, &r->users, p->user, p->n);
  if (status == FOPO_OK) status = finish_side(&r->d->items, &r->items, p->item, p->n);
  return status == FOPO_OK ? fopo_pairs_build(r->d, p, users, items, r->t->path) : status;
}

int fopo_read_pairs(fopo_dataset *d, fopo_text *t, const fopo_read_options *options,
                    const char *format) {
  fopo_table r = {.t = t, .d = d, .options = options};
  int status = fopo_table_plan(&r, format);
  r.pairs.with_values = r.value != FOPO_NO_COLUMN;
  if (status == FOPO_OK)
    status = fopo_pairs_suffice(t->path, expected_rows(&r), r.pairs.with_values);
  if (status == FOPO_OK) status = read_rows(&r);
  if (status == FOPO_OK) status = finish(&r);
  close_table(&r);
  return status;
}
