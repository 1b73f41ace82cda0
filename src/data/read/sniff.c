/* What a text file looks like, judged by its first block. Whatever is decided here is checked row
 * by row later: a file that turns out otherwise is refused with the place, never read askew. */
#include <ctype.h>
#include <string.h>

#include "data/read/internal.h"

enum { LINES = 100 };

/* The next line of [*p, stop) without its end and trailing blanks; 0 where there is none. */
static int next_line(const char **p, const char *stop, const char **at, const char **end) {
  if (*p >= stop) return 0;
  const char *newline = memchr(*p, '\n', (size_t)(stop - *p));
  *at = *p;
  *end = newline;
  while (*end > *at && strchr(" \t\r", (*end)[-1]) != NULL) (*end)--;
  *p = newline + 1;
  return 1;
}

/* Fields of a line under one separator; those inside quotes do not count. */
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

/* How many of the first lines have as many fields as the first one has, if it has two. */
static size_t agreement(const char *p, const char *stop, char separator) {
  const char *at, *end;
  size_t first = 0, agree = 0;
  for (int i = 0; i < LINES && next_line(&p, stop, &at, &end);) {
    if (at == end) continue;
    size_t n = fields(at, end, separator);
    if (first == 0) first = n;
    agree += n == first;
    i++;
  }
  return first >= 2 ? agree : 0;
}

char fopo_sniff_separator(const char *at, const char *stop) {
  /* The rarer a byte is inside of fields, the earlier it stands: it wins where both agree. */
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

/* Numbers of a line and the first of them; 0 where something else stands in it. */
static int integers(const char *p, const char *end, size_t *n, uint64_t *first) {
  for (*n = 0; p < end;) {
    if (*p == ' ' || *p == '\t') {
      p++;
      continue;
    }
    uint64_t value = 0;
    const char *start = p;
    for (; p < end && isdigit((unsigned char)*p); p++) value = value * 10 + (uint64_t)(*p - '0');
    if (p == start || (p < end && *p != ' ' && *p != '\t')) return 0;
    if ((*n)++ == 0) *first = value;
  }
  return 1;
}

/* Nothing but integers, and lines of many lengths or of more fields than pairs have. A few short or
 * long lines among equal ones are malformed pairs; they are left to that reader to refuse. */
const char *fopo_sniff_lists(const char *p, const char *stop) {
  enum { PAIR_FIELDS = 5 };
  const char *at, *end;
  size_t lines = 0, longest = 0, counted = 0, of_length[PAIR_FIELDS + 1] = {0};
  while (next_line(&p, stop, &at, &end)) {
    size_t n;
    uint64_t first = 0;
    if (!integers(at, end, &n, &first)) return "pairs";
    if (n == 0) continue;
    lines++;
    counted += first == n - 1;
    if (n > longest) longest = n;
    if (n <= PAIR_FIELDS) of_length[n]++;
  }
  size_t usual = 0;
  for (size_t n = 2; n <= PAIR_FIELDS; n++)
    if (of_length[n] > usual) usual = of_length[n];
  if (longest < 3 || usual * 10 > lines * 9) return "pairs";
  return counted == lines && lines >= 3 ? "counted" : "lists";
}
