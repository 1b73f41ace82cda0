/* Numbers and dates in text files, the same in every locale. */
#ifndef FOPO_DATA_NUMBER_H
#define FOPO_DATA_NUMBER_H

#include <stddef.h>
#include <stdint.h>

typedef enum { FOPO_IS_NUMBER, FOPO_NO_NUMBER, FOPO_NOT_FINITE } fopo_number_kind;

/* Parses all of text as a decimal real: sign, digits, point, exponent; no hexadecimal, no blanks.
 * Correctly rounded. FOPO_NOT_FINITE for nan, inf, infinity (any case, optional sign), and for an
 * overflow such as 1e400. */
fopo_number_kind fopo_parse_real(double *value, const char *text, size_t n);

/* 1 if text is an integer that prints back as it is written: no plus, no leading zeros, no "-0",
 * at most 18 digits. */
static inline int fopo_parse_plain(int64_t *value, const char *text, size_t n) {
  const char *end = text + n;
  int negative = n > 1 && *text == '-';
  text += negative;
  if (text == end || end - text > 18 || (*text == '0' && (end - text > 1 || negative))) return 0;
  int64_t v = 0;
  for (; text < end; text++) {
    unsigned digit = (unsigned)(unsigned char)*text - '0';
    if (digit > 9) return 0;
    v = v * 10 + (int64_t)digit;
  }
  *value = negative ? -v : v;
  return 1;
}

/* ---- dates: ISO 8601, as 2016-05-09, 2014-04-07T10:51:09.277Z and 2019-11-24 00:03:13.44+00:00
 * ---- */

/* Parses all of text; *seconds since 1970-01-01 UTC. The time of day (hours and minutes at least)
 * follows `T` or a blank and may be left out, as may the zone: then it is UTC. 0 if text is no such
 * date, or a day that does not exist. */
int fopo_parse_date(double *seconds, const char *text, size_t n);

#endif
