/* A mantissa below 2^53 and a power of ten up to 10^22 are exact in double, so their quotient is
 * correctly rounded (Clinger: "How to read floating point numbers accurately", PLDI 1990).
 * Everything else goes to strtod in the C locale. */
#include "data/number.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static size_t digits(const char *p, const char *end) {
  const char *start = p;
  while (p < end && isdigit((unsigned char)*p)) p++;
  return (size_t)(p - start);
}

/* nan, inf, infinity with an optional sign, in any case. */
static int is_not_finite(const char *p, size_t n) {
  if (n > 0 && (*p == '-' || *p == '+')) {
    p++;
    n--;
  }
  return (n == 3 && (strncasecmp(p, "nan", 3) == 0 || strncasecmp(p, "inf", 3) == 0)) ||
         (n == 8 && strncasecmp(p, "infinity", 8) == 0);
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before or after the point. */
static int is_decimal(const char *p, size_t n) {
  const char *end = p + n;
  if (p < end && (*p == '-' || *p == '+')) p++;
  size_t whole = digits(p, end), fraction = 0;
  p += whole;
  if (p < end && *p == '.') {
    p++;
    fraction = digits(p, end);
    p += fraction;
  }
  if (whole + fraction == 0) return 0;
  if (p < end && (*p == 'e' || *p == 'E')) {
    p++;
    if (p < end && (*p == '-' || *p == '+')) p++;
    size_t exponent = digits(p, end);
    if (exponent == 0) return 0;
    p += exponent;
  }
  return p == end;
}

/* The exact case: up to 15 digits and a point, or 16 digits, whose conversion alone rounds. 0 if
 * text is something else. */
static int parse_short(double *value, const char *p, size_t n) {
  const char *end = p + n, *point = NULL;
  int negative = n > 0 && *p == '-';
  p += negative;
  if (p == end || end - p > 16) return 0;
  uint64_t mantissa = 0;
  size_t seen = 0;
  for (; p < end; p++) {
    if (*p == '.' && point == NULL) {
      point = p;
      continue;
    }
    unsigned digit = (unsigned)(unsigned char)*p - '0';
    if (digit > 9) return 0;
    mantissa = mantissa * 10 + digit;
    seen++;
  }
  if (seen == 0) return 0;
  double x = (double)mantissa;
  if (point != NULL) x /= powers[end - point - 1];
  *value = negative ? -x : x;
  return 1;
}

/* Any decimal, by strtod on a copy that ends in '\0'. */
static fopo_number_kind parse_general(double *value, const char *text, size_t n) {
  char small[64], *copy = small, *end;
  if (n >= sizeof small && (copy = strndup(text, n)) == NULL) return FOPO_NO_NUMBER;
  if (copy == small) {
    memcpy(small, text, n);
    small[n] = '\0';
  }
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  *value = strtod_l(copy, &end, plain);
  freelocale(plain);
  if (copy != small) free(copy);
  return isfinite(*value) ? FOPO_IS_NUMBER : FOPO_NOT_FINITE;
}

fopo_number_kind fopo_parse_real(double *value, const char *text, size_t n) {
  if (parse_short(value, text, n)) return FOPO_IS_NUMBER;
  if (is_not_finite(text, n)) return FOPO_NOT_FINITE;
  return is_decimal(text, n) ? parse_general(value, text, n) : FOPO_NO_NUMBER;
}
