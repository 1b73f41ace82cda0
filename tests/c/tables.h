/* Tables with every feature of a file, and datasets that are compared bit by bit. */
#ifndef FOPO_TESTS_TABLES_H
#define FOPO_TESTS_TABLES_H

#include <stdio.h>
#include <string.h>

#include "data/read/readers.h"

static inline int same_names(const fopo_names *a, const fopo_names *b) {
  char x[64], y[64];
  if (a->n != b->n || (a->numbers == NULL) != (b->numbers == NULL) ||
      (a->text == NULL) != (b->text == NULL)) {
    return 0;
  }
  for (size_t i = 0; i < a->n; i++) {
    if (strcmp(fopo_names_get(a, i, x, sizeof x), fopo_names_get(b, i, y, sizeof y)) != 0) return 0;
  }
  return 1;
}

static inline int same_times(const double *a, const double *b, size_t n) {
  return (a == NULL) == (b == NULL) && (a == NULL || memcmp(a, b, n * sizeof *a) == 0);
}

static inline int same_dataset(const fopo_dataset *a, const fopo_dataset *b) {
  const fopo_csr *m = &a->matrix, *n = &b->matrix;
  size_t nnz = fopo_csr_nnz(m);
  return m->rows == n->rows && m->cols == n->cols && nnz == fopo_csr_nnz(n) &&
         memcmp(m->indptr, n->indptr, (m->rows + 1) * sizeof *m->indptr) == 0 &&
         memcmp(m->ids, n->ids, nnz * sizeof *m->ids) == 0 &&
         (m->values == NULL) == (n->values == NULL) &&
         (m->values == NULL || memcmp(m->values, n->values, nnz * sizeof *m->values) == 0) &&
         same_names(&a->users, &b->users) && same_names(&a->items, &b->items) &&
         a->rows_read == b->rows_read && a->repeats == b->repeats && a->skipped == b->skipped &&
         a->malformed == b->malformed && a->items_seen == b->items_seen &&
         a->users_seen == b->users_seen && same_times(a->times.first, b->times.first, nnz) &&
         same_times(a->times.last, b->times.last, nnz) &&
         (*a->no_times == '\0') == (*b->no_times == '\0');
}

enum { /* features of a file */
       HAS_VALUES = 1,
       HAS_CRLF = 2,
       HAS_BLANKS = 4,
       HAS_QUOTES = 8,
       HAS_TEXT = 16,
       HAS_WIDE = 32,
       HAS_BAD = 64,
       HAS_LONG = 128,
       HAS_COLONS = 256,
       HAS_NO_END = 512,
       KINDS = 1024
};

/* 300 rows; the special ones are at positions that differ from kind to kind. */
static inline size_t many_rows(char *text, int kinds) {
  const char *end = kinds & HAS_CRLF ? "\r\n" : "\n", *s = kinds & HAS_COLONS ? "::" : ",";
  size_t n = 0;
  if (!(kinds & HAS_COLONS)) n += (size_t)sprintf(text, "user,note,item,rating%s", end);
  for (int i = 0; i < 300; i++) {
    const char *note = "x";
    char user[32], item[32], rating[32] = "7";
    snprintf(user, sizeof user, "%d", i * 37 % 101);
    snprintf(item, sizeof item, "%d", i * i % 997);
    if (kinds & HAS_VALUES) snprintf(rating, sizeof rating, "%d.%d", i % 5, i % 10);
    if (kinds & HAS_QUOTES && !(kinds & HAS_COLONS)) {
      if (i % 60 == 11) {
        note = kinds & HAS_CRLF ? "\"two\r\nlines, \"\"x\"\"\"" : "\"9,9,9,9\n1,1,1,1\n\"";
      }
      if (i % 90 == 12) snprintf(user, sizeof user, "\"%d\"", i);
    }
    if (kinds & HAS_TEXT && i % 10 == 7) {
      snprintf(item, sizeof item, i % 20 == 7 ? "name %d" : "name_%d", i % 9);
    }
    if (kinds & HAS_WIDE && i % 50 == 49) snprintf(user, sizeof user, "%d00000000000", i);
    if (kinds & HAS_WIDE && i % 70 == 41) snprintf(item, sizeof item, "-%d", i);
    if (kinds & HAS_BAD && i == 207) snprintf(rating, sizeof rating, "bad");
    if (kinds & HAS_BAD && i == 211) snprintf(user, sizeof user, "%s", "");
    n += (size_t)sprintf(text + n, "%s%s%s", user, s, note);
    if (kinds & HAS_LONG && i % 130 == 100) {
      memset(text + n, 'y', 3000);
      n += 3000;
    }
    n += (size_t)sprintf(text + n, "%s%s%s%s%s", s, item, s, rating, end);
    if (kinds & HAS_BAD && i == 215) n += (size_t)sprintf(text + n, "1%s2%s", s, end);
    if (kinds & HAS_BLANKS && i % 40 == 3) n += (size_t)sprintf(text + n, "%s  %s", end, end);
  }
  return kinds & HAS_NO_END ? n - strlen(end) : n;
}

/* By which they are read; in some kinds malformed rows are counted. */
static inline fopo_read_options options_of_many(int kinds) {
  return (fopo_read_options){.user = "1",
                             .item = "3",
                             .value = "4",
                             .header = kinds & HAS_COLONS ? -1 : 1,
                             .skip_errors = kinds % 5 == 4,
                             .max_errors = 9};
}

#endif
