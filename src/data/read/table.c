/* The meaning of a row: conditions, ids, value, time, and what is refused; one row after the other.
 *
 * As long as the ids of a side are integers of 32 bits, the pairs hold the ids themselves, and
 * table_read.c makes indices of them at the end. The first other id turns those of its side into
 * indices (data/ids.h), and from then on ids become indices as they are met. Nothing is allocated
 * per row. */
#include "data/read/table.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

void fopo_table_done(fopo_table *r) {
  fopo_json_free(r->json);
  for (size_t c = 0; r->keys != NULL && c < r->columns; c++) fopo_free(r->keys[c]);
  fopo_free(r->keys);
  fopo_free(r->names);
  fopo_free(r->titles);
  fopo_free(r->fields);
  fopo_free(r->scratch);
  fopo_ids_done(&r->users.ids);
  fopo_ids_done(&r->items.ids);
  fopo_pairs_done(&r->pairs);
}

/* ---- what is refused ---- */

/* Counts the row as malformed if the options allow it, else fails with the place. column is
 * 0-based. */
static int reject(fopo_table *r, int column, const char *text, size_t n, const char *why) {
  const fopo_read_options *o = r->options;
  char more[FOPO_MALFORMED];
  if (r->tries) return FOPO_ROW_REJECTED;
  int out = fopo_text_leave_out(more, &r->errors, o->skip_errors, o->max_errors, "row", why);
  if (out && r->d->malformed++ >= FOPO_EXAMPLES) return FOPO_ROW_REJECTED;
  const char *title = column != FOPO_NO_COLUMN && r->titles != NULL ? r->titles[column] : NULL;
  size_t place = r->keys != NULL ? 0 : (size_t)(column + 1); /* keys have no order */
  int refused = fopo_text_refuse_in(r->t, r->t->line + 1, place, title, text, n, out ? why : more);
  if (!out) return refused;
  char *example = r->d->examples[r->d->malformed - 1];
  snprintf(example, sizeof r->d->examples[0], "%s", fopo_error_sentence());
  return FOPO_ROW_REJECTED;
}

static int reject_field(fopo_table *r, int column, const char *why) {
  return reject(r, column, r->fields[column].at, r->fields[column].n, why);
}

static int reject_count(fopo_table *r, const char *line, size_t count) {
  char why[200];
  snprintf(why, sizeof why, "has %zu field%s where the first row has %zu%s", count,
           count == 1 ? "" : "s", r->columns,
           r->separator == ' ' || r->separator == '\t'
               ? "; if each line is a user and its items, say format = \"lists\""
               : "");
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
  default: return a >= b; /* FOPO_GREATER_EQUAL */
  }
}

/* Does the row meet the condition? FOPO_OK, FOPO_ROW_LEFT_OUT, or a rejection. */
static int holds(fopo_table *r, const fopo_condition *c) {
  fopo_field f = fopo_field_trim(r->fields[c->column]);
  double x;
  if (c->is_number && fopo_parse_real(&x, f.at, f.n) == FOPO_IS_NUMBER) {
    return compare_real(x, c->op, c->number) ? FOPO_OK : FOPO_ROW_LEFT_OUT;
  }
  if (c->op >= FOPO_LESS) {
    return reject_field(r, c->column, "is not a number, and `where` compares it");
  }
  int equal = !c->is_number && f.n == strlen(c->text) && memcmp(f.at, c->text, f.n) == 0;
  return equal == (c->op == FOPO_EQUAL) ? FOPO_OK : FOPO_ROW_LEFT_OUT;
}

static int read_value(fopo_table *r, float *value) {
  fopo_field f = r->fields[r->value];
  double x;
  fopo_number_kind kind = fopo_parse_real(&x, f.at, f.n);
  if (kind == FOPO_NO_NUMBER) {
    f = fopo_field_trim(f);
    kind = fopo_parse_real(&x, f.at, f.n);
  }
  if (kind == FOPO_IS_NUMBER && fabs(x) <= (double)FLT_MAX) {
    *value = (float)x;
    return FOPO_OK;
  }
  return reject_field(r, r->value,
                      f.n == 0 ? "is empty where a value is needed (value = \"\" uses none)"
                      : kind == FOPO_NO_NUMBER ? "is not a number (value = \"\" uses none)"
                                               : "is not a finite number of float32");
}

static int read_time(fopo_table *r, double *time) {
  if (fopo_field_time(time, fopo_field_trim(r->fields[r->time]), r->time_is_date)) return FOPO_OK;
  if (!r->time_is_asked) return FOPO_ROW_UNTIMED;
  return reject_field(
      r, r->time,
      r->time_is_date ? "is not a date such as 2016-05-09T10:51:09Z (time = \"\" reads no times)"
                      : "is not a time, a number (time = \"\" reads no times)");
}

/* What R, SQL and pandas write for a missing value. In lower case they may be names. */
static int is_missing(fopo_field f) {
  static const char *const words[] = {"NA", "NaN", "NULL", "\\N"};
  for (size_t i = 0; i < 4; i++) {
    if (f.n == strlen(words[i]) && memcmp(f.at, words[i], f.n) == 0) return 1;
  }
  return f.n == 0;
}

/* Copies the field to r->scratch with each "" as one quote. */
static int undouble(fopo_table *r, fopo_field *f) {
  if (f->n > r->scratch_capacity) {
    if (fopo_resize(&r->scratch, 2 * f->n, 1) != FOPO_OK) return FOPO_ERR_MEMORY;
    r->scratch_capacity = 2 * f->n;
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
  for (size_t i = 0; i < f.n; i++) {
    if ((unsigned char)f.at[i] < 32 && f.at[i] != '\t') return 1;
  }
  return 0;
}

static int read_key(fopo_table *r, fopo_key *k, int column) {
  const fopo_field *f = &r->fields[column];
  k->is_plain = fopo_parse_plain(&k->number, f->at, f->n);
  if (k->is_plain) return FOPO_OK; /* the usual case */
  k->name = fopo_field_trim(*f);
  k->is_plain = fopo_parse_plain(&k->number, k->name.at, k->name.n);
  if (k->is_plain) return FOPO_OK;
  if (is_missing(k->name)) return reject_field(r, column, "is not an id: it is missing");
  if (has_control(k->name)) return reject_field(r, column, "holds a control character");
  return FOPO_OK;
}

int fopo_table_keys(fopo_table *r, fopo_row *row) {
  for (size_t i = 0; i < r->n_conditions; i++) {
    int held = holds(r, &r->conditions[i]);
    if (held != FOPO_OK) return held;
  }
  row->value = 1.0f;
  int status = read_key(r, &row->user, r->user);
  if (status == FOPO_OK) status = read_key(r, &row->item, r->item);
  if (status == FOPO_OK && r->value != FOPO_NO_COLUMN) status = read_value(r, &row->value);
  if (status == FOPO_OK && r->time != FOPO_NO_COLUMN) status = read_time(r, &row->time);
  return status;
}

int fopo_side_index(fopo_side *side, uint32_t *pairs, size_t n) {
  enum { POLL = 1 << 16 }; /* ids between two polls: about 5 ms if most are new */
  if (!side->as_numbers) return FOPO_OK;
  side->as_numbers = 0;
  for (size_t i = 0; i < n; i++) {
    int status = i % POLL == 0 ? fopo_progress("numbering ids", (double)i, (double)n) : FOPO_OK;
    if (status == FOPO_OK) status = fopo_ids_number(&side->ids, &pairs[i], (int64_t)pairs[i]);
    if (status != FOPO_OK) return status;
  }
  return n > 0 ? fopo_progress("numbering ids", 1, 1) : FOPO_OK;
}

/* *index: what the pair holds for the key, the integer itself or its index. pairs: this side of the
 * rows before. */
static int add_key(fopo_table *r, uint32_t *index, fopo_side *side, uint32_t *pairs, fopo_key *k) {
  if (side->as_numbers && k->is_plain && (uint64_t)k->number <= UINT32_MAX) {
    *index = (uint32_t)k->number;
    return FOPO_OK;
  }
  int status = fopo_side_index(side, pairs, r->pairs.n);
  if (status != FOPO_OK) return status;
  if (k->is_plain) return fopo_ids_number(&side->ids, index, k->number);
  if (k->name.doubled) status = undouble(r, &k->name);
  return status == FOPO_OK ? fopo_ids_add(&side->ids, index, k->name.at, k->name.n) : status;
}

/* From here on, and for the rows before, there are no times: the one in this row is malformed. */
static void give_up_times(fopo_table *r) {
  fopo_field f = r->fields[r->time];
  char number[16], place[FOPO_COLUMN_NAME + 32];
  snprintf(number, sizeof number, "%d", r->time + 1);
  const char *name = r->titles != NULL ? r->titles[r->time] : number;
  if (r->keys != NULL) {
    snprintf(place, sizeof place, "%s", name);
  } else {
    snprintf(place, sizeof place, r->titles != NULL ? "column %s (%s)" : "column %s", number, name);
  }
  snprintf(r->d->no_times, sizeof r->d->no_times,
           "line %zu, %s: '%.*s' is not a %s; time = \"%s\" makes that an error",
           fopo_text_line(r->t), place, (int)(f.n < 40 ? f.n : 40), f.at,
           r->time_is_date ? "date" : "number", name);
  fopo_pairs_drop_times(&r->pairs);
  r->time = FOPO_NO_COLUMN;
}

/* The row in r->fields becomes a pair, or is given to r->take. */
static int add_row(fopo_table *r) {
  /* The whole row is checked before either id gets an index: a rejected row leaves no name. */
  fopo_row row;
  int status = fopo_table_keys(r, &row);
  if (status == FOPO_ROW_UNTIMED) {
    give_up_times(r);
    status = fopo_table_keys(r, &row);
  }
  if (status != FOPO_OK) return status;
  if (r->take != NULL) return r->take(r, &row);
  uint32_t u = 0, i = 0;
  status = add_key(r, &u, &r->users, r->pairs.user, &row.user);
  if (status == FOPO_OK) status = add_key(r, &i, &r->items, r->pairs.item, &row.item);
  if (status == FOPO_OK) status = fopo_pairs_add(&r->pairs, u, i, row.value);
  if (status == FOPO_OK && r->pairs.with_times) r->pairs.time[r->pairs.n - 1] = row.time;
  return status;
}

/* The same for a JSON object; it never continues. */
static int cut_object(fopo_table *r, size_t *count, const char **next) {
  fopo_row_fault fault;
  *next = fopo_table_json_cut(r, r->t->at, count, &fault);
  if (*next != NULL) return FOPO_OK;
  if (fopo_json_failed(r->json)) return FOPO_ERR_MEMORY;
  *next = strchr(r->t->at, '\n') + 1;
  if (fault.column != FOPO_NO_COLUMN) return reject(r, fault.column, NULL, 0, fault.why);
  return reject(r, FOPO_NO_COLUMN, fault.at, fault.n, fault.why);
}

/* Cuts the row at t->at. *next = NULL: it continues beyond the block. */
static int cut_row(fopo_table *r, size_t *count, const char **next, size_t *lines) {
  fopo_text *t = r->t;
  *lines = 1;
  if (r->keys != NULL) return cut_object(r, count, next);
  *next = fopo_table_cut(r, t->at, count);
  if (*next != NULL) return FOPO_OK;
  fopo_quoting q = fopo_table_cut_quoted(r, t->at, count, next, lines);
  if (q == FOPO_WHOLE) return FOPO_OK;
  if (q == FOPO_OPEN_QUOTE && !t->ended && t->stop - t->at <= 2 * FOPO_QUOTED_MOST) {
    *next = NULL;
    return FOPO_OK;
  }
  const char *end = fopo_line_end(t->at);
  *next = end + 1 + (*end == '\r');
  *lines = 1;
  return reject(r, FOPO_NO_COLUMN, t->at, (size_t)(end - t->at),
                q == FOPO_OPEN_QUOTE ? "has a quote that is not closed"
                                     : "has text behind a closing quote");
}

int fopo_table_rows(fopo_table *r, const char *stop) {
  fopo_text *t = r->t;
  while (t->at < stop) {
    const char *next;
    size_t count = 0, lines;
    int status = cut_row(r, &count, &next, &lines);
    if (status == FOPO_OK && next == NULL) return FOPO_OK;
    if (status == FOPO_OK && count == r->columns) {
      status = add_row(r);
    } else if (status == FOPO_OK && !fopo_row_is_blank(r->fields, count)) {
      status = reject_count(r, t->at, count);
    }
    if (status < 0 || status == FOPO_ROW_NOT_NOW) return status;
    if (status > 0) r->d->skipped++;
    t->line += lines;
    t->at = next;
  }
  return FOPO_OK;
}

/* ---- rows into fields ---- */

/* Rows without a quote are cut by one loop over their bytes; a quote sends the row to a slower cut
 * that handles doubled quotes and line ends inside quotes (RFC 4180). */

const char *fopo_table_cut(fopo_table *r, const char *p, size_t *count) {
  fopo_row_fault fault;
  if (r->keys != NULL) return fopo_table_json_cut(r, p, count, &fault);
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

fopo_quoting fopo_table_cut_quoted(fopo_table *r, const char *p, size_t *count, const char **next,
                                   size_t *lines) {
  const char *stop = r->t->stop;
  size_t n = 0;
  *lines = 0;
  for (;; n++) {
    fopo_field f = {p, 0, 0};
    if (*p == '"') {
      f.at = ++p;
      for (;; p++) {
        if (p >= stop || p - f.at > FOPO_QUOTED_MOST) return FOPO_OPEN_QUOTE;
        *lines += *p == '\n';
        if (*p != '"') continue;
        if (p[1] != '"') break;
        f.doubled = 1;
        p++;
      }
      f.n = (size_t)(p++ - f.at);
      while (*p == ' ' || (*p == '\r' && p[1] == '\n')) p++;
      if (*p != r->separator && *p != '\n') return FOPO_AFTER_QUOTE;
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
  return FOPO_WHOLE;
}

int fopo_table_peek(fopo_table *r, const char **p, size_t *count) {
  if (*p >= r->t->stop) return 0;
  const char *next = fopo_table_cut(r, *p, count);
  size_t lines;
  if (next == NULL && r->keys != NULL) return 0;
  if (next == NULL && fopo_table_cut_quoted(r, *p, count, &next, &lines) != FOPO_WHOLE) return 0;
  *p = next;
  return 1;
}
