/* Numbers of text files: rounded once, of any length, in every locale, with no memory. */
#include <float.h>
#include <locale.h>
#include <math.h>

#include "checks.h"
#include "core/rng.h"
#include "data/number.h"

static double real_of(const char *text) {
  double value = 0;
  if (fopo_parse_real(&value, text, strlen(text)) != FOPO_IS_NUMBER) {
    fail_msg("%.60s is none", text);
  }
  return value;
}

/* Decimals of 1 to 22 digits, with a point at any place, are rounded as strtod rounds them; so are
 * those of 30 digits and more, with an exponent. */
TEST(rounded_once) {
  for (uint32_t i = 0; i < 40000; i++) {
    fopo_words w = fopo_random(1, FOPO_STREAM_WORLD, 0, 0, i);
    char text[80];
    size_t most = i % 4 == 0 ? 50 : 22, digits = 1 + w.v[0] % most, point = w.v[1] % (digits + 1);
    size_t n = 0;
    if (w.v[2] & 1) text[n++] = '-';
    for (size_t k = 0; k < digits; k++) {
      if (k == point && w.v[2] & 2) text[n++] = '.';
      text[n++] = (char)('0' + fopo_random(2, FOPO_STREAM_WORLD, 0, i, (uint32_t)k).v[0] % 10);
    }
    text[n] = '\0';
    if (i % 4 == 0) sprintf(text + n, w.v[3] & 1 ? "e%d" : "E%+03d", (int)(w.v[3] % 700) - 350);
    double value, wanted = strtod(text, NULL);
    fopo_number_kind kind = fopo_parse_real(&value, text, strlen(text));
    assert_int_equal(kind, isfinite(wanted) ? FOPO_IS_NUMBER : FOPO_NOT_FINITE);
    if (isfinite(wanted) && value != wanted) fail_msg("%s: %.17g, not %.17g", text, value, wanted);
  }
}

TEST(what_is_none) {
  static const char *const none[] = {"",     "-",   "+",        ".",    "-.",   "e5", "1e",   "1e+",
                                     "1e-",  "1.e", "1..2",     "1e5x", "0x10", " 1", "1 ",   "1,5",
                                     "nano", "in",  "infinite", "--1",  "+-1",  "1-", "1e1.5"};
  static const char *const infinite[] = {"nan",   "-NaN",     "inf",
                                         "+Inf",  "Infinity", "-INFINITY",
                                         "1e400", "-1e309",   "1e99999999999999999999999"};
  double value;
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    if (fopo_parse_real(&value, none[i], strlen(none[i])) != FOPO_NO_NUMBER) {
      fail_msg("%s", none[i]);
    }
  }
  for (size_t i = 0; i < sizeof infinite / sizeof *infinite; i++) {
    fopo_number_kind kind = fopo_parse_real(&value, infinite[i], strlen(infinite[i]));
    if (kind != FOPO_NOT_FINITE) fail_msg("%s", infinite[i]);
  }
}

/* Signs, points at either end, exponents of any size and with zeros in front. */
TEST(forms) {
  static const struct {
    const char *text;
    double value;
  } cases[] = {{"+1.5", 1.5},
               {"1.", 1},
               {".5", 0.5},
               {"-.5e1", -5},
               {"+5.e-1", 0.5},
               {"00012", 12},
               {"1e0000000000000000000000000003", 1000},
               {"1e-99999999999999999999999", 0},
               {"0e99999999999999999999999", 0},
               {"0.000000000000000000000000000001e30", 1},
               {"123456789012345678", 123456789012345678.0},
               {"4.9e-324", 0x1p-1074},
               {"1.7976931348623157e308", DBL_MAX},
               {"+0.0000000000000000000000", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double value = real_of(cases[i].text);
    if (value != cases[i].value) fail_msg("%s is read as %.17g", cases[i].text, value);
  }
  assert_true(signbit(real_of("-0.00000000000000000000")) && signbit(real_of("-0")));
}

/* Of thousands of digits every one counts: what is halfway between two doubles goes to the even
 * one, and one digit far behind decides. */
TEST(long_numbers) {
  enum { ZEROS = 5000 };
  static char text[2 * ZEROS], halfway[1200];
  fopo_memory_fail_after(0, 1); /* no memory is needed */
  /* 2^53 + 1 and zeros, then 0 or 1 */
  for (int last = 0; last < 2; last++) {
    int n = sprintf(text, "9007199254740993.%0*d", ZEROS, last);
    assert_int_equal(n, 17 + ZEROS);
    assert_true(real_of(text) == (last ? 9007199254740994.0 : 9007199254740992.0));
    /* the same with the digits in front of the point, and with zeros before them */
    n = sprintf(text, "%0*d9007199254740993%0*d", ZEROS / 2, 0, ZEROS, last);
    sprintf(text + n, "e-%d", ZEROS);
    assert_true(real_of(text) == (last ? 9007199254740994.0 : 9007199254740992.0));
  }
  sprintf(text, "0.%0*de%d", ZEROS, 7, ZEROS);
  assert_true(real_of(text) == 7);
  sprintf(text, "3%0*de-%d", ZEROS, 0, ZEROS);
  assert_true(real_of(text) == 3);
  /* half of the least double has 751 digits, three halves of it 752: their ends decide */
  for (int odd = 1; odd <= 3; odd += 2) {
    double below = ldexp((odd - 1) / 2, -1074), above = ldexp((odd + 1) / 2, -1074);
    size_t n = (size_t)snprintf(halfway, sizeof halfway, "%.1075Lf", ldexpl(odd, -1075));
    assert_true(n == 1077);
    assert_true(real_of(halfway) == (odd == 1 ? below : above)); /* the even one */
    for (int far = 0; far < ZEROS; far += ZEROS - 1) {
      sprintf(text, "%s%0*d", halfway, far + 1, 1);
      assert_true(real_of(text) == above);
    }
    halfway[n - 1]--; /* a 5 becomes a 4 */
    sprintf(text, "%s%0*d", halfway, ZEROS, 9);
    assert_true(real_of(text) == below);
  }
  fopo_memory_fail_after(-1, 0);
}

/* A locale that writes a comma for the point changes nothing; skipped where there is none. */
TEST(in_every_locale) {
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
  const char *found = NULL;
  for (size_t i = 0; i < 4 && found == NULL; i++) found = setlocale(LC_NUMERIC, names[i]);
  if (found == NULL) {
    print_message("skip  this machine has no locale with a decimal comma\n");
    skip();
  }
  double value = real_of("1.25e-1"), other;
  fopo_number_kind comma = fopo_parse_real(&other, "1,25e-1", 7);
  setlocale(LC_NUMERIC, "C");
  assert_true(value == 0.125 && comma == FOPO_NO_NUMBER);
}

int main(void) { return run_all(NULL, NULL); }
