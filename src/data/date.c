/* The parts of a date from left to right, and the number of its day. */
#include "data/date.h"

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
