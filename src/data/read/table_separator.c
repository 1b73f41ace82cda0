/* What separates the fields of a text table, judged by its first lines. Every row is checked later:
 * a file that turns out otherwise is refused with the place. */
#include <string.h>

#include "data/read/table.h"

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

char fopo_table_separator(const char *at, const char *stop) {
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
