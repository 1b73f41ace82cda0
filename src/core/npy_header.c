/* The Python dict in the header of a .npy, read by a parser that accepts its three keys and nothing
 * else. Object arrays are pickles, that is, programs, and are refused. */
#include <ctype.h>
#include <string.h>

#include "core/npy.h"
#include "core/status.h"

typedef struct {
  const char *at, *end, *label;
} scanner;

static int malformed(const scanner *s, const char *why) {
  return fopo_fail(FOPO_ERR_FORMAT, "%s: the .npy header is malformed: %s", s->label, why);
}

static void spaces(scanner *s) {
  while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t')) s->at++;
}

static int accept(scanner *s, char c) {
  spaces(s);
  if (s->at == s->end || *s->at != c) return 0;
  s->at++;
  return 1;
}

/* A quoted word without escapes. */
static int word(scanner *s, char *text, size_t size) {
  spaces(s);
  if (s->at == s->end || (*s->at != '\'' && *s->at != '"')) {
    return malformed(s, "a quote is missing");
  }
  char quote = *s->at++;
  size_t n = 0;
  while (s->at < s->end && *s->at != quote) {
    if (n + 1 >= size) return malformed(s, "a word is too long");
    text[n++] = *s->at++;
  }
  text[n] = '\0';
  return accept(s, quote) ? FOPO_OK : malformed(s, "a quote is not closed");
}

static int boolean(scanner *s, int *value) {
  spaces(s);
  size_t left = (size_t)(s->end - s->at);
  *value = left >= 4 && memcmp(s->at, "True", 4) == 0;
  if (!*value && !(left >= 5 && memcmp(s->at, "False", 5) == 0)) {
    return malformed(s, "fortran_order is neither True nor False");
  }
  s->at += *value ? 4 : 5;
  return FOPO_OK;
}

/* A dimension; Python 2 printed long ones as 10L. */
static int dimension(scanner *s, size_t *value) {
  spaces(s);
  if (s->at == s->end || !isdigit((unsigned char)*s->at)) {
    return malformed(s, "a dimension is not a number");
  }
  size_t n = 0;
  for (; s->at < s->end && isdigit((unsigned char)*s->at); s->at++) {
    if (n > (INT64_MAX - 9) / 10) return malformed(s, "a dimension is too large");
    n = 10 * n + (size_t)(*s->at - '0');
  }
  if (s->at < s->end && *s->at == 'L') s->at++;
  *value = n;
  return FOPO_OK;
}

static int shape(scanner *s, fopo_npy_claim *c) {
  if (!accept(s, '(')) return malformed(s, "the shape is not a tuple");
  c->shape[0] = c->shape[1] = 1;
  for (c->ndim = 0; !accept(s, ')'); c->ndim++) {
    if (c->ndim == 2) {
      return fopo_fail(FOPO_ERR_FORMAT, "%s has more than two dimensions; reshape it first",
                       s->label);
    }
    int status = dimension(s, &c->shape[c->ndim]);
    if (status != FOPO_OK) return status;
    if (!accept(s, ',') && !(s->at < s->end && *s->at == ')')) {
      return malformed(s, "the shape is not closed");
    }
  }
  return FOPO_OK;
}

static int descr(scanner *s, fopo_npy_claim *c) {
  char text[32];
  spaces(s);
  if (s->at < s->end && *s->at == '[') {
    return fopo_fail(FOPO_ERR_FORMAT, "%s has named fields; save each field as an array of its own",
                     s->label);
  }
  int status = word(s, text, sizeof text);
  if (status != FOPO_OK) return status;
  c->order = text[0];
  c->kind = c->order != '\0' ? text[1] : '\0';
  if (c->kind == 'O') {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s holds Python objects (a pickle), which are never loaded; "
                     "save numbers instead",
                     s->label);
  }
  scanner digits = {text + 2, text + strlen(text), s->label};
  if (c->kind == '\0' || strchr("<>|=", c->order) == NULL ||
      dimension(&digits, &c->size) != FOPO_OK || digits.at != digits.end) {
    return malformed(s, "the type is not understood");
  }
  size_t n = c->size;
  int known = (c->kind == 'f' && (n == 2 || n == 4 || n == 8)) ||
              ((c->kind == 'i' || c->kind == 'u') && (n == 1 || n == 2 || n == 4 || n == 8)) ||
              (c->kind == 'b' && n == 1) || c->kind == 'S' || c->kind == 'U';
  if (!known) {
    return fopo_fail(FOPO_ERR_FORMAT,
                     "%s has type '%s'; float, int and bool arrays and text are read", s->label,
                     text);
  }
  if (c->kind == 'U' && __builtin_mul_overflow(c->size, (size_t)4, &c->size)) {
    return malformed(s, "the type is too large");
  }
  return FOPO_OK;
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } with each key once, in any order. */
int fopo_npy_parse(fopo_npy_claim *c, const char *text, size_t length, const char *label) {
  scanner scan = {text, text + length, label}, *s = &scan;
  unsigned seen = 0;
  if (!accept(s, '{')) return malformed(s, "it is not a dict");
  while (!accept(s, '}')) {
    char key[32];
    int status = word(s, key, sizeof key);
    if (status != FOPO_OK) return status;
    if (!accept(s, ':')) return malformed(s, "a colon is missing");
    unsigned bit = strcmp(key, "descr") == 0           ? 1
                   : strcmp(key, "fortran_order") == 0 ? 2
                   : strcmp(key, "shape") == 0         ? 4
                                                       : 0;
    if (bit == 0 || (seen & bit) != 0) return malformed(s, "a key is unknown or occurs twice");
    seen |= bit;
    status = bit == 1 ? descr(s, c) : bit == 2 ? boolean(s, &c->fortran) : shape(s, c);
    if (status != FOPO_OK) return status;
    if (!accept(s, ',') && !(s->at < s->end && *s->at == '}')) {
      return malformed(s, "a comma is missing");
    }
  }
  spaces(s);
  if (seen != 7) return malformed(s, "descr, fortran_order or shape is missing");
  return s->at == s->end ? FOPO_OK : malformed(s, "something follows the dict");
}
