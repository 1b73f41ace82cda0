/* Cuts the rows of a text table into fields.
 *
 * Rows without a quote are cut by one loop over their bytes; a quote sends the row to a slower cut
 * that handles doubled quotes and line ends inside quotes (RFC 4180). */
#include "data/read/table.h"

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
