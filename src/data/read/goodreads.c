/* GoodReads: a header with user_id, book_id and is_read. Rows with is_read = 1 are the
 * interactions. A rating of 0 means "not rated" there, so ratings are used only if an option names
 * them. */
#include "data/read/table.h"

/* The column is_read of a header that has book_id too, or FOPO_NO_COLUMN. */
static int read_column(const fopo_table *r) {
  static const char *const is_read[] = {"isread", NULL}, *const book_id[] = {"bookid", NULL};
  int known = r->names != NULL && fopo_table_column(r, book_id) != FOPO_NO_COLUMN;
  return known ? fopo_table_column(r, is_read) : FOPO_NO_COLUMN;
}

static int is_goodreads(fopo_table *r) { return read_column(r) != FOPO_NO_COLUMN; }

static int sniff(fopo_text *t, const fopo_read_options *o) {
  return fopo_table_sniff(t, o, is_goodreads);
}

static int roles(fopo_table *r) {
  int is_read = read_column(r);
  if (is_read == FOPO_NO_COLUMN) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s is not in the form of GoodReads: a header with user_id, "
                     "book_id and is_read is missing",
                     r->t->path);
  }
  int status = fopo_table_roles_by_name(r);
  if (r->options->value == NULL) r->value = FOPO_NO_COLUMN;
  r->conditions[r->n_conditions++] =
      (fopo_condition){.column = is_read, .op = FOPO_EQUAL, .is_number = 1, .number = 1.0};
  return status;
}

static int read_goodreads(fopo_dataset *d, fopo_text *t, const fopo_read_options *o) {
  return fopo_table_read(d, t, o, roles);
}

const fopo_reader fopo_reader_goodreads = {
    .name = "goodreads",
    .what = "a header with user_id, book_id, is_read: rows with is_read = 1 only",
    .has_columns = 1,
    .sniff = sniff,
    .read = read_goodreads,
    .roles = roles};
