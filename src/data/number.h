/* Numbers in text files, the same in every locale. */
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

#endif
