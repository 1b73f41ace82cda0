/* The parser of JSON: what is valid, where and why other text is not, what strings mean, and what
 * is UTF-8. */
#include <math.h>

#include "checks.h"
#include "data/json_walk.h"

/* The members of every object and list, and the sum of their numbers. */
typedef struct {
  int members;
  double sum;
} tally;

static int count(fopo_walk *w, fopo_chars key, void *data, int depth) {
  tally *s = data;
  double x;
  (void)key;
  s->members++;
  switch (fopo_walk_peek(w)) {
  case FOPO_WALK_OBJECT:
  case FOPO_WALK_ARRAY: return fopo_walk_each(w, count, data, depth);
  case FOPO_WALK_NUMBER:
    if (!fopo_walk_number(w, &x)) return 0;
    s->sum += x;
    return 1;
  default: return fopo_walk_skip(w, depth);
  }
}

static int skip_one(fopo_walk *w, fopo_chars key, void *data, int depth) {
  (void)key, (void)data;
  return fopo_walk_skip(w, depth);
}

/* Walks over a copy of the text at the end of a block, so that the sanitizer sees a read behind it;
 * again without looking at numbers, which must come to the same. *place: where it is wrong. */
static const char *walk(const char *text, size_t n, tally *s, size_t *place) {
  char *copy = malloc(n + 1);
  memcpy(copy + 1, text, n);
  fopo_walk w = {.at = copy + 1, .end = copy + 1 + n}, again = w;
  int passed = fopo_walk_object(&w, count, s);
  assert_int_equal(fopo_walk_object(&again, skip_one, NULL), passed);
  assert_true(again.at == w.at && again.why == w.why);
  assert_int_equal(passed, w.why == NULL);
  *place = (size_t)(w.at - copy - 1);
  free(copy);
  return w.why;
}

TEST(valid) {
  static const struct {
    const char *text;
    int members;
    double sum;
  } cases[] = {{"{}", 0, 0},
               {" \t\r{ } \r\t", 0, 0},
               {"{\"a\":1}", 1, 1},
               {"{\"a\" : [ ] , \"b\":[1,2,[-3.5e1 , 0.5E-1,0e+1]]}", 8, -31.95},
               {"{\"a\":null,\"b\":true,\"c\":false,\"d\":\"x\",\"e\":{\"f\":7}}", 6, 7},
               {"{\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD834\":-0}", 1, 0},
               {"{\"a\":Infinity}", 1, NAN},
               {"{\"a\":NaN,\"b\":-Infinity}", 2, NAN},
               {"{\"a\":1e400}", 1, INFINITY}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tally s = {0};
    size_t place, n = strlen(cases[i].text);
    const char *why = walk(cases[i].text, n, &s, &place);
    if (why != NULL || place != n) fail_msg("%s: %s at %zu", cases[i].text, why, place);
    assert_int_equal(s.members, cases[i].members);
    if (isfinite(cases[i].sum)) {
      assert_true(fabs(s.sum - cases[i].sum) < 1e-12);
    } else {
      assert_true(isnan(cases[i].sum) ? isnan(s.sum) : s.sum == cases[i].sum);
    }
  }
}

TEST(not_valid) {
#define ANY    "a number or another value is expected"
#define END    "a comma or a bracket is expected"
#define ESCAPE "an unknown escape"
#define HEX    "\\u needs four hexadecimal digits"
  static const struct {
    const char *text, *why;
    size_t place;
  } cases[] = {{"", "an object is expected", 0},
               {"  ", "an object is expected", 2},
               {"[1]", "an object is expected", 0},
               {"{} x", "something follows the object", 3},
               {"{}}", "something follows the object", 2},
               {"{", "a string is expected", 1},
               {"{a:1}", "a string is expected", 1},
               {"{\"a", "a string is not closed", 3},
               {"{\"a\x01\":1}", "a control byte inside a string", 3},
               {"{\"a\\", ESCAPE, 4},
               {"{\"a\\q\":1}", ESCAPE, 4},
               {"{\"\\u12", HEX, 3},
               {"{\"\\u12g4\":1}", HEX, 3},
               {"{\"a\"", "a colon is expected", 4},
               {"{\"a\" 1}", "a colon is expected", 5},
               {"{\"a\":", "it is cut short", 5},
               {"{\"a\":}", ANY, 5},
               {"{\"a\":1,}", "a string is expected", 7},
               {"{\"a\":[1,]}", ANY, 8},
               {"{\"a\":[1", END, 7},
               {"{\"a\":[1}", END, 7},
               {"{\"a\":1]", END, 6},
               {"{\"a\":1 2}", END, 7},
               {"{\"a\":-", ANY, 5},
               {"{\"a\":-x}", ANY, 5},
               {"{\"a\":01}", ANY, 5},
               {"{\"a\":1.", ANY, 5},
               {"{\"a\":1.x}", ANY, 5},
               {"{\"a\":1.e1}", ANY, 5},
               {"{\"a\":1e", ANY, 5},
               {"{\"a\":1e+}", ANY, 5},
               {"{\"a\":.5}", ANY, 5},
               {"{\"a\":+1}", ANY, 5},
               {"{\"a\":nul}", ANY, 5},
               {"{\"a\":tru", ANY, 5},
               {"{\"a\":fals}", ANY, 5},
               {"{\"a\":Inf}", ANY, 5},
               {"{\"a\":\"x}", "a string is not closed", 8}};
  char wanted[128];
  tally s = {0};
  size_t place;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *why = walk(cases[i].text, strlen(cases[i].text), &s, &place);
    snprintf(wanted, sizeof wanted, "is not valid JSON: %s", cases[i].why);
    if (why == NULL) fail_msg("%s is passed", cases[i].text);
    assert_string_equal(why, wanted);
    if (place != cases[i].place) fail_msg("%s: wrong at %zu", cases[i].text, place);
  }
  assert_string_equal(walk("{\"a\\\0\":1}", 9, &s, &place), "is not valid JSON: " ESCAPE);
}

/* 64 objects and lists in each other are passed, 65 are not. */
TEST(depth) {
  for (int deep = 64; deep <= 65; deep++) {
    char text[300] = "{\"a\":";
    size_t n = strlen(text), place;
    tally s = {0};
    memset(text + n, '[', (size_t)deep);
    memset(text + n + deep, ']', (size_t)deep);
    text[n + 2 * (size_t)deep] = '}';
    const char *why = walk(text, n + 2 * (size_t)deep + 1, &s, &place);
    if (deep == 64) assert_null(why);
    if (deep == 65) assert_string_equal(why, "is nested more than 64 deep");
  }
}

/* The first thing that is wrong is kept. */
TEST(first_reason) {
  fopo_walk w = {0};
  assert_int_equal(fopo_walk_wrong(&w, "first"), 0);
  assert_int_equal(fopo_walk_wrong(&w, "second"), 0);
  assert_string_equal(w.why, "first");
}

TEST(decoded) {
  static const struct {
    const char *written, *meant;
  } cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t"},
      {"\\u0041\\u007f", "A\x7f"},
      {"\\u0080\\u07ff", "\xc2\x80\xdf\xbf"},
      {"\\u0800\\uffff", "\xe0\xa0\x80\xef\xbf\xbf"},
      {"\\ud7ff\\uE000", "\xed\x9f\xbf\xee\x80\x80"},
      {"\\ud800\\udc00", "\xf0\x90\x80\x80"},
      {"\\uDBFF\\uDFFF", "\xf4\x8f\xbf\xbf"},
      /* halves alone: at the end, before other characters and escapes, two of the same kind */
      {"\\ud800", "\xef\xbf\xbd"},
      {"\\udc00x", "\xef\xbf\xbdx"},
      {"\\ud800abcdef", "\xef\xbf\xbd"
                        "abcdef"},
      {"\\ud800\\nabcd", "\xef\xbf\xbd\nabcd"},
      {"\\ud800\\u0041", "\xef\xbf\xbd"
                         "A"},
      {"\\ud800\\ue000", "\xef\xbf\xbd\xee\x80\x80"},
      {"\\ud800\\ud800\\udc00", "\xef\xbf\xbd\xf0\x90\x80\x80"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char to[64] = "";
    size_t n = strlen(cases[i].written);
    size_t m = fopo_walk_decode(to, (fopo_chars){cases[i].written, n});
    assert_int_equal(m, strlen(cases[i].meant));
    assert_memory_equal(to, cases[i].meant, m);
    assert_true(m <= n);
  }
}

/* By the bounds of RFC 3629: the first and the last of each length, and what lies beyond. */
TEST(utf8) {
  static const char *const good[] = {"",
                                     "a",
                                     "\x7f",
                                     "\xc2\x80",
                                     "\xdf\xbf",
                                     "\xe0\xa0\x80",
                                     "\xed\x9f\xbf",
                                     "\xee\x80\x80",
                                     "\xef\xbf\xbf",
                                     "\xf0\x90\x80\x80",
                                     "\xf4\x8f\xbf\xbf",
                                     "\xe1\x80\x80",
                                     "\xf1\x80\x80\x80"};
  static const char *const bad[] = {"\x80",
                                    "\xbf",
                                    "\xc0\x80",
                                    "\xc1\xbf",
                                    "\xc2",
                                    "\xc2\x7f",
                                    "\xc2\xc0",
                                    "\xe0\x9f\xbf",
                                    "\xe0\xa0",
                                    "\xed\xa0\x80",
                                    "\xed\xbf\xbf",
                                    "\xe1\x80\x7f",
                                    "\xf0\x8f\xbf\xbf",
                                    "\xf0\x90\x80",
                                    "\xf4\x90\x80\x80",
                                    "\xf5\x80\x80\x80",
                                    "\xf1\x80\x80\xc0",
                                    "\xff"};
  char text[64];
  for (size_t before = 0; before < 18; before++) { /* eight bytes are looked at at once */
    memset(text, 'x', before);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
      size_t n = before + strlen(strcpy(text + before, good[i]));
      assert_ptr_equal(fopo_walk_not_utf8(text, text + n), text + n);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      size_t n = before + strlen(strcpy(text + before, bad[i]));
      memset(text + n, 'y', 9);
      assert_ptr_equal(fopo_walk_not_utf8(text, text + n), text + before);
      assert_ptr_equal(fopo_walk_not_utf8(text, text + n + 9), text + before);
    }
  }
}

int main(void) { return run_all(NULL, NULL); }
