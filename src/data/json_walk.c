/* Recursive descent, to a depth of 64. */
#include "data/json_walk.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "core/plain.h"
#include "data/number.h"

enum { DEPTH_MOST = 64 };

int fopo_walk_wrong(fopo_walk *w, const char *why) {
  if (w->why == NULL) w->why = why;
  return 0;
}

static void skip_blanks(fopo_walk *w) {
  while (w->at < w->end && (*w->at == ' ' || *w->at == '\t' || *w->at == '\r')) w->at++;
}

/* Passes the byte and returns 1, or returns 0. */
static int take(fopo_walk *w, char c) {
  skip_blanks(w);
  if (w->at >= w->end || *w->at != c) return 0;
  w->at++;
  return 1;
}

static int starts_with(const fopo_walk *w, const char *word) {
  size_t n = strlen(word);
  return (size_t)(w->end - w->at) >= n && memcmp(w->at, word, n) == 0;
}

/* ---- strings ---- */

/* The byte at w->at is a backslash; passes all of the escape but its last byte. */
static int pass_escape(fopo_walk *w) {
  w->at++;
  if (w->at >= w->end || *w->at == '\0' || strchr("\"\\/bfnrtu", *w->at) == NULL) {
    return fopo_walk_wrong(w, "is not valid JSON: an unknown escape");
  }
  if (*w->at != 'u') return 1;
  for (int i = 1; i <= 4; i++) {
    if (w->end - w->at <= i || !isxdigit((unsigned char)w->at[i])) {
      return fopo_walk_wrong(w, "is not valid JSON: \\u needs four hexadecimal digits");
    }
  }
  w->at += 4;
  return 1;
}

int fopo_walk_string(fopo_walk *w, fopo_chars *s) {
  if (!take(w, '"')) return fopo_walk_wrong(w, "is not valid JSON: a string is expected");
  const char *start = w->at;
  for (; w->at < w->end && *w->at != '"'; w->at++) {
    if ((unsigned char)*w->at < 32) {
      return fopo_walk_wrong(w, "is not valid JSON: a control byte inside a string");
    }
    if (*w->at == '\\' && !pass_escape(w)) return 0;
  }
  *s = (fopo_chars){start, (size_t)(w->at - start)};
  return take(w, '"') || fopo_walk_wrong(w, "is not valid JSON: a string is not closed");
}

static unsigned hexadecimal(const char *four) {
  unsigned code = 0;
  for (int i = 0; i < 4; i++) {
    unsigned c = (unsigned char)four[i];
    code = code << 4 | (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  }
  return code;
}

/* The code point of the escape \uXXXX at p, both halves of a pair of surrogates; *next: after it.
 */
static unsigned code_point(const char *p, const char *end, const char **next) {
  unsigned code = hexadecimal(p + 2);
  *next = p + 6;
  if (code >= 0xd800 && code < 0xdc00 && end - p >= 12 && p[6] == '\\' && p[7] == 'u') {
    unsigned low = hexadecimal(p + 8);
    if (low >= 0xdc00 && low < 0xe000) {
      *next = p + 12;
      return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
  }
  return code >= 0xd800 && code < 0xe000 ? 0xfffd : code;
}

size_t fopo_walk_decode(char *to, fopo_chars s) {
  static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
  const char *p = s.at, *end = p + s.n;
  char *q = to;
  while (p < end) {
    if (*p != '\\') {
      *q++ = *p++;
    } else if (p[1] == 'u') {
      q += fopo_utf8(q, code_point(p, end, &p));
    } else {
      const char *letter = strchr(letters, p[1]);
      *q++ = letter != NULL ? meant[letter - letters] : p[1];
      p += 2;
    }
  }
  return (size_t)(q - to);
}

/* Bytes of the character at p, whose first byte is not ASCII; 0: it is none. */
static int utf8_length(const unsigned char *p, const unsigned char *end) {
  int n = *p >= 0xc2 && *p < 0xe0   ? 2
          : *p >= 0xe0 && *p < 0xf0 ? 3
          : *p >= 0xf0 && *p < 0xf5 ? 4
                                    : 0;
  if (n == 0 || end - p < n) return 0;
  for (int i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
  }
  int is_long = (*p == 0xe0 && p[1] < 0xa0) || (*p == 0xf0 && p[1] < 0x90); /* shorter ones exist */
  int is_none = (*p == 0xed && p[1] >= 0xa0) || (*p == 0xf4 && p[1] >= 0x90); /* no code point */
  return is_long || is_none ? 0 : n;
}

const char *fopo_walk_not_utf8(const char *at, const char *end) {
  const unsigned char *p = (const unsigned char *)at, *last = (const unsigned char *)end;
  while (p < last) {
    uint64_t eight;
    if (last - p >= 8 && (memcpy(&eight, p, 8), (eight & 0x8080808080808080u) == 0)) {
      p += 8;
      continue;
    }
    int n = *p < 0x80 ? 1 : utf8_length(p, last);
    if (n == 0) break;
    p += n;
  }
  return (const char *)p;
}

/* ---- numbers ---- */

static const char *digits(const char *p, const char *end) {
  while (p < end && isdigit((unsigned char)*p)) p++;
  return p;
}

/* Where the number at p ends: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?; NULL: it is
 * none. */
static const char *number_end(const char *p, const char *end) {
  p += p < end && *p == '-';
  const char *whole = p;
  p = digits(p, end);
  if (p == whole || (*whole == '0' && p - whole > 1)) return NULL;
  if (p < end && *p == '.') {
    const char *fraction = p + 1;
    if ((p = digits(fraction, end)) == fraction) return NULL;
  }
  if (p < end && (*p == 'e' || *p == 'E')) {
    p++;
    p += p < end && (*p == '-' || *p == '+');
    const char *exponent = p;
    if ((p = digits(exponent, end)) == exponent) return NULL;
  }
  return p;
}

int fopo_walk_number(fopo_walk *w, double *value) {
  static const char *const others[] = {"NaN", "Infinity", "-Infinity"};
  const char *start = w->at, *stop = number_end(start, w->end);
  double x = NAN;
  for (size_t i = 0; stop == NULL && i < 3; i++) {
    if (starts_with(w, others[i])) stop = start + strlen(others[i]);
  }
  if (stop == NULL) {
    return fopo_walk_wrong(w, "is not valid JSON: a number or another value is expected");
  }
  w->at = stop;
  if (value == NULL) return 1;
  /* Another is no number to fopo_parse_real, and stays NAN; a JSON number is always one. */
  if (isdigit((unsigned char)stop[-1])) fopo_parse_real(&x, start, (size_t)(stop - start));
  *value = x;
  return 1;
}

/* ---- values ---- */

int fopo_walk_peek(fopo_walk *w) {
  skip_blanks(w);
  if (w->at >= w->end) return fopo_walk_wrong(w, "is not valid JSON: it is cut short"), -1;
  switch (*w->at) {
  case '"': return FOPO_WALK_STRING;
  case '{': return FOPO_WALK_OBJECT;
  case '[': return FOPO_WALK_ARRAY;
  case 'n': return starts_with(w, "null") ? FOPO_WALK_NULL : FOPO_WALK_NUMBER;
  case 'f': return starts_with(w, "false") ? FOPO_WALK_FALSE : FOPO_WALK_NUMBER;
  case 't': return starts_with(w, "true") ? FOPO_WALK_TRUE : FOPO_WALK_NUMBER;
  default: return FOPO_WALK_NUMBER; /* which says so if it is none */
  }
}

int fopo_walk_each(fopo_walk *w, fopo_walk_member *member, void *data, int depth) {
  if (depth > DEPTH_MOST) return fopo_walk_wrong(w, "is nested more than 64 deep");
  int object = *w->at == '{';
  w->at++;
  if (take(w, object ? '}' : ']')) return 1;
  do {
    fopo_chars key = {NULL, 0};
    if (object && !fopo_walk_string(w, &key)) return 0;
    if (object && !take(w, ':')) {
      return fopo_walk_wrong(w, "is not valid JSON: a colon is expected");
    }
    if (!member(w, key, data, depth + 1)) return 0;
  } while (take(w, ','));
  return take(w, object ? '}' : ']') ||
         fopo_walk_wrong(w, "is not valid JSON: a comma or a bracket is expected");
}

static int skip_member(fopo_walk *w, fopo_chars key, void *data, int depth) {
  (void)key, (void)data;
  return fopo_walk_skip(w, depth);
}

int fopo_walk_skip(fopo_walk *w, int depth) {
  fopo_chars s;
  switch (fopo_walk_peek(w)) {
  case FOPO_WALK_NULL:
  case FOPO_WALK_TRUE: w->at += 4; return 1;
  case FOPO_WALK_FALSE: w->at += 5; return 1;
  case FOPO_WALK_NUMBER: return fopo_walk_number(w, NULL);
  case FOPO_WALK_STRING: return fopo_walk_string(w, &s);
  case FOPO_WALK_OBJECT:
  case FOPO_WALK_ARRAY: return fopo_walk_each(w, skip_member, NULL, depth);
  default: return 0;
  }
}

int fopo_walk_object(fopo_walk *w, fopo_walk_member *member, void *data) {
  skip_blanks(w);
  if (w->at >= w->end || *w->at != '{') {
    return fopo_walk_wrong(w, "is not valid JSON: an object is expected");
  }
  if (!fopo_walk_each(w, member, data, 0)) return 0;
  skip_blanks(w);
  return w->at == w->end || fopo_walk_wrong(w, "is not valid JSON: something follows the object");
}
