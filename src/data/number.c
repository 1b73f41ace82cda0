/* A mantissa below 2^53 and a power of ten up to 10^22 are exact in double, so their quotient is
 * correctly rounded (Clinger: "How to read floating point numbers accurately", PLDI 1990).
 * Everything else goes to strtod, without its point, which locales write in two ways. Nothing is
 * allocated. */
#include "data/number.h"

#include <ctype.h>
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

/* ---- any decimal ---- */

/* A number halfway between two doubles has at most 767 digits. So behind more of them only one
 * thing matters, whether all are 0. */
enum { DIGITS_MOST = 800, EXPONENT_MOST = 99999 };

/* Appends the digits of [p, end) to the n at `to`, without zeros in front and at most DIGITS_MOST;
 * returns how many there are. Others are counted in *dropped, and make the last digit odd if they
 * are not 0: that keeps the number on its side of what is halfway. */
static size_t add_digits(char *to, size_t n, const char *p, const char *end, int64_t *dropped) {
  for (; p < end; p++) {
    if (n == 0 && *p == '0') continue;
    if (n < DIGITS_MOST) {
      to[n++] = *p;
    } else {
      ++*dropped;
      if (*p != '0') to[DIGITS_MOST - 1] |= 1;
    }
  }
  return n;
}

/* e [+-] digits, or nothing: the exponent, or one beyond all that a double and a text have. */
static int64_t read_exponent(const char *p, const char *end) {
  int64_t e = 0;
  if (p == end) return 0;
  int negative = p[1] == '-';
  for (p += 1 + (negative || p[1] == '+'); p < end; p++) {
    if (e < INT64_C(1000000000000000)) e = e * 10 + (*p - '0');
  }
  return negative ? -e : e;
}

static void write_exponent(char *to, int64_t e) {
  if (e > EXPONENT_MOST) e = EXPONENT_MOST;
  if (e < -EXPONENT_MOST) e = -EXPONENT_MOST;
  *to++ = 'e';
  *to++ = e < 0 ? '-' : '+';
  if (e < 0) e = -e;
  for (int64_t unit = 10000; unit > 0; unit /= 10) *to++ = (char)('0' + e / unit % 10);
  *to = '\0';
}

/* Any decimal, by strtod on an integer and an exponent: without a point it is the same number in
 * every locale. */
static fopo_number_kind parse_general(double *value, const char *text, size_t n) {
  const char *p = text, *end = text + n;
  char copy[1 + DIGITS_MOST + 16] = "+";
  if (*p == '-' || *p == '+') *copy = *p++;
  size_t whole = digits(p, end), fraction = 0, kept;
  int64_t dropped = 0;
  kept = add_digits(copy + 1, 0, p, p + whole, &dropped);
  p += whole;
  if (p < end && *p == '.') {
    p++;
    fraction = digits(p, end);
    kept = add_digits(copy + 1, kept, p, p + fraction, &dropped);
    p += fraction;
  }
  if (kept == 0) copy[1 + kept++] = '0';
  write_exponent(copy + 1 + kept, read_exponent(p, end) - (int64_t)fraction + dropped);
  *value = strtod(copy, NULL);
  return isfinite(*value) ? FOPO_IS_NUMBER : FOPO_NOT_FINITE;
}

fopo_number_kind fopo_parse_real(double *value, const char *text, size_t n) {
  if (parse_short(value, text, n)) return FOPO_IS_NUMBER;
  if (is_not_finite(text, n)) return FOPO_NOT_FINITE;
  return is_decimal(text, n) ? parse_general(value, text, n) : FOPO_NO_NUMBER;
}
