/* One interaction a line: CSV and its relatives. Separators are `,` `;` TAB space `::` `:` `|`.
 *
 * With a header, columns are found by name (userId, user_id, user, visitorid, ...; movieId,
 * item_id, book_id, streamer, ...; rating, value, weight; timestamp, time, date; case, `_`, `-`,
 * blanks and quotes do not matter). Without one, user, item and a number are the first three
 * columns, and times are recognised by what they are.
 *
 * Only ids that occur become rows and columns, in ascending order of integers or in order of first
 * appearance of texts. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "data/read/table.h"

enum { SAMPLE = 100 }; /* rows that must agree before a column without a name is used */

/* Without a header, the third column holds values if it holds small numbers; larger ones are times
 * (1e8 seconds after 1970 is in 1973). */
static int third_is_value(fopo_table *r) {
  const char *p = r->t->at;
  size_t count, rows = 0;
  for (; rows < SAMPLE && fopo_table_peek(r, &p, &count); rows++) {
    double x;
    if (count < 3) continue;
    fopo_field f = fopo_field_trim(r->fields[2]);
    if (fopo_parse_real(&x, f.at, f.n) != FOPO_IS_NUMBER || fabs(x) >= 1e8) return 0;
  }
  return rows > 0;
}

/* 1 if the second field is a time such as 2014-04-07T10:51:09, which is no item. */
static int second_is_time(fopo_table *r) {
  const char *p = r->t->at;
  size_t count;
  if (!fopo_table_peek(r, &p, &count) || count < 2) return 0;
  fopo_field f = fopo_field_trim(r->fields[1]);
  size_t digits = 0, signs = 0;
  for (size_t i = 0; i < f.n; i++) {
    digits += isdigit((unsigned char)f.at[i]) != 0;
    signs += strchr("-:/", f.at[i]) != NULL;
  }
  return digits >= 6 && signs >= 2 && isdigit((unsigned char)*f.at);
}

/* Without a header: the first column of dates, or numbers that look like times in the last of three
 * or four columns (user, item, perhaps a rating, time). */
static int time_column(fopo_table *r) {
  for (size_t c = 0; c < r->columns; c++) {
    int column = (int)c, is_date;
    if (column == r->user || column == r->item || column == r->value) continue;
    int may_be_number = r->columns <= 4 && c >= 2 && c + 1 == r->columns;
    if (fopo_table_holds_times(r, c, &is_date) && (is_date || may_be_number)) return column;
  }
  return FOPO_NO_COLUMN;
}

/* Without a header: user, item and value are the first three columns. */
static int roles_by_place(fopo_table *r) {
  int chosen = r->user != FOPO_NO_COLUMN || r->item != FOPO_NO_COLUMN;
  if (r->user == FOPO_NO_COLUMN) r->user = 0;
  if (r->item == FOPO_NO_COLUMN) {
    if (second_is_time(r)) {
      return fopo_fail(FOPO_ERR_FORMAT,
                       "%s has no header and its second column holds times; say which column is "
                       "the item, such as item = \"3\"",
                       r->t->path);
    }
    r->item = 1;
  }
  if (r->options->value == NULL && !chosen && r->columns >= 3 && third_is_value(r)) r->value = 2;
  if (r->options->time == NULL) r->time = time_column(r);
  return FOPO_OK;
}

static int roles(fopo_table *r) {
  return r->names != NULL ? fopo_table_roles_by_name(r) : roles_by_place(r);
}

/* Any text may be pairs. */
static int sniff(fopo_text *t, const fopo_read_options *o) {
  (void)t, (void)o;
  return 1;
}

static int read_pairs(fopo_dataset *d, fopo_text *t, const fopo_read_options *o) {
  return fopo_table_read(d, t, o, roles);
}

const fopo_reader fopo_reader_pairs = {
    .name = "pairs",
    .what = "one interaction a line: csv and its like, with or without a header",
    .has_columns = 1,
    .sniff = sniff,
    .read = read_pairs,
    .roles = roles};

/* MovieLens files, csv or with "::", need no rule of their own: recognised, they are pairs. */
const fopo_reader fopo_reader_movielens = {
    .name = "movielens",
    .what = "the ratings of MovieLens, csv or with ::; read as pairs",
    .has_columns = 1,
    .read = read_pairs,
    .roles = roles};
