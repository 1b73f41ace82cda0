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

static const double powers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

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

/* ---- dates ---- */

typedef struct {
  const char *at, *end;
} cursor;

static int digit_of(char c) {
  unsigned digit = (unsigned)(unsigned char)c - '0';
  return digit <= 9 ? (int)digit : -1;
}

/* Takes exactly n digits. */
static int take_digits(cursor *c, int *number, int n) {
  int x = 0;
  if (c->end - c->at < n) return 0;
  for (int i = 0; i < n; i++) {
    int digit = digit_of(c->at[i]);
    if (digit < 0) return 0;
    x = 10 * x + digit;
  }
  *number = x;
  c->at += n;
  return 1;
}

/* Takes the byte if it is next. */
static int take(cursor *c, char byte) {
  if (c->at == c->end || *c->at != byte) return 0;
  c->at++;
  return 1;
}

static int is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

/* Days from 1970-01-01 to January 1 of the year, in the Gregorian calendar. */
static long days_before(int year) {
  long y = year - 1;
  return 365 * y + y / 4 - y / 100 + y / 400 - 719162;
}

static int take_day(cursor *c, long *days) {
  static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
  int year, month, day;
  int is_date = take_digits(c, &year, 4) && take(c, '-') && take_digits(c, &month, 2) &&
                take(c, '-') && take_digits(c, &day, 2);
  if (!is_date || year < 1 || month < 1 || month > 12) return 0;
  int leap = is_leap(year), length = before[month] - before[month - 1] + (month == 2 && leap);
  if (day < 1 || day > length) return 0;
  *days = days_before(year) + before[month - 1] + (month > 2 && leap) + day - 1;
  return 1;
}

/* .d or .ddd ...; *fraction stays if there is none. */
static int take_fraction(cursor *c, double *fraction) {
  if (!take(c, '.')) return 1;
  double number = 0, unit = 1;
  int n = 0;
  for (; c->at < c->end && digit_of(*c->at) >= 0; c->at++, n++) {
    if (n >= 15) continue; /* beyond the precision of a double */
    number = 10 * number + digit_of(*c->at);
    unit *= 10;
  }
  *fraction = number / unit;
  return n > 0;
}

/* hh:mm, hh:mm:ss or hh:mm:ss.fff, in seconds. A leap second is the next minute's first. */
static int take_clock(cursor *c, double *seconds) {
  int hour, minute, second = 0;
  double fraction = 0;
  if (!take_digits(c, &hour, 2) || !take(c, ':') || !take_digits(c, &minute, 2)) return 0;
  if (take(c, ':') && (!take_digits(c, &second, 2) || !take_fraction(c, &fraction))) return 0;
  if (hour > 23 || minute > 59 || second > 60) return 0;
  *seconds = 3600 * hour + 60 * minute + second + fraction;
  return 1;
}

/* Z, +hh:mm, +hhmm or +hh, in seconds east of UTC. */
static int take_zone(cursor *c, double *seconds) {
  int hours, minutes = 0;
  *seconds = 0;
  if (c->at == c->end || take(c, 'Z') || take(c, 'z')) return 1;
  int sign = take(c, '+') ? 1 : take(c, '-') ? -1 : 0;
  if (sign == 0 || !take_digits(c, &hours, 2)) return 0;
  if ((take(c, ':') || c->at < c->end) && !take_digits(c, &minutes, 2)) return 0;
  if (hours > 23 || minutes > 59) return 0;
  *seconds = sign * (3600 * hours + 60 * minutes);
  return 1;
}

int fopo_parse_date(double *seconds, const char *text, size_t n) {
  cursor c = {text, text + n};
  long days;
  double clock = 0, zone = 0;
  if (!take_day(&c, &days)) return 0;
  if (c.at < c.end) {
    if (!take(&c, 'T') && !take(&c, 't') && !take(&c, ' ')) return 0;
    if (!take_clock(&c, &clock) || !take_zone(&c, &zone)) return 0;
  }
  *seconds = 86400 * (double)days - zone + clock;
  return c.at == c.end;
}
