#include "term/pattern.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "term/interrupt.h"

enum { POLL = 10000 };
enum { TEXT, SET, REPEATED, BALANCED, FRONTIER, OPEN, CLOSE, POSITION, END, NEVER, BROKEN };
enum { NO_SET_END, NO_ESCAPED, NO_BALANCED, NO_FRONTIER, NO_CAPTURE, MANY_CAPTURES, BAD_INDEX };

static const char *const errors[] = {[NO_SET_END] = "malformed pattern (missing ']')",
                                     [NO_ESCAPED] = "malformed pattern (ends with '%')",
                                     [NO_BALANCED] =
                                         "malformed pattern (missing arguments to '%b')",
                                     [NO_FRONTIER] = "missing '[' after '%f' in pattern",
                                     [NO_CAPTURE] = "invalid pattern capture",
                                     [MANY_CAPTURES] = "too many captures",
                                     [BAD_INDEX] = "invalid capture index %"};

/* ---- sets of characters ---- */

static int has(const uint64_t set[4], int c) { return (int)(set[c >> 6] >> (c & 63) & 1); }
static void add(uint64_t set[4], int c) { set[c >> 6] |= (uint64_t)1 << (c & 63); }

static void complement(uint64_t set[4]) {
  for (int i = 0; i < 4; i++) set[i] = ~set[i];
}

static int is_nul(int c) { return c == '\0'; }

/* The characters of the class with this small letter; NULL: there is none. They are found once, as
 * the program's locale stays. */
static const uint64_t *class_set(int letter) {
  static struct {
    char letter;
    int (*has)(int c);
    uint64_t set[4]; /* empty until it is first asked for */
  } classes[] = {{'a', isalpha, {0}},  {'c', iscntrl, {0}}, {'d', isdigit, {0}},
                 {'g', isgraph, {0}},  {'l', islower, {0}}, {'p', ispunct, {0}},
                 {'s', isspace, {0}},  {'u', isupper, {0}}, {'w', isalnum, {0}},
                 {'x', isxdigit, {0}}, {'z', is_nul, {0}}};
  static const uint64_t empty[4];
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    if (classes[i].letter != letter) continue;
    if (memcmp(classes[i].set, empty, sizeof empty) != 0) return classes[i].set;
    for (int c = 0; c < 256; c++) {
      if (classes[i].has(c)) add(classes[i].set, c);
    }
    return classes[i].set;
  }
  return NULL;
}

/* Adds what %c stands for: a class, its complement if c is a capital, or c itself. */
static void add_escaped(uint64_t set[4], int c) {
  const uint64_t *class = class_set(tolower(c));
  uint64_t inverted = isupper(c) ? ~UINT64_C(0) : 0;
  for (int i = 0; i < 4 && class != NULL; i++) set[i] |= class[i] ^ inverted;
  if (class == NULL) add(set, c);
}

/* The ] that ends the set whose first character is at p; NULL: there is none. The first character
 * and one behind % do not end it. */
static const char *set_end(const char *p, const char *end) {
  if (p < end && *p == '^') p++;
  for (const char *first = p; p < end; p += *p == '%' ? 2 : 1) {
    if (*p == ']' && p != first) return p;
  }
  return NULL;
}

/* The set between [ and ], [p, last). */
static void read_set(uint64_t set[4], const char *p, const char *last) {
  int negated = *p == '^';
  for (p += negated; p < last;) {
    const unsigned char *c = (const unsigned char *)p;
    if (*c == '%') {
      add_escaped(set, c[1]);
      p += 2;
    } else if (p + 2 < last && c[1] == '-') {
      for (int k = c[0]; k <= c[2]; k++) add(set, k);
      p += 3;
    } else {
      add(set, *c);
      p++;
    }
  }
  if (negated) complement(set);
}

/* ---- compiling ---- */

static fopo_pattern_item *append(fopo_pattern *p, int kind) {
  fopo_pattern_item *item = &p->items[p->n++];
  *item = (fopo_pattern_item){.kind = kind};
  return item;
}

/* What is malformed ends the row. */
static const char *broken(fopo_pattern *p, int error, const char *end) {
  append(p, BROKEN)->index = error;
  return end;
}

static const char *open_capture(fopo_pattern *p, const char *at, const char *end) {
  int position = at + 1 < end && at[1] == ')';
  if (p->captures_n == FOPO_PATTERN_CAPTURES) return broken(p, MANY_CAPTURES, end);
  p->captures[p->captures_n].kind = position ? FOPO_CAPTURE_POSITION : FOPO_CAPTURE_OPEN;
  append(p, position ? POSITION : OPEN)->index = p->captures_n++;
  return at + 1 + position;
}

/* ) closes the innermost capture that is open. */
static const char *close_capture(fopo_pattern *p, const char *at, const char *end) {
  int i = p->captures_n - 1;
  while (i >= 0 && p->captures[i].kind != FOPO_CAPTURE_OPEN) i--;
  if (i < 0) return broken(p, NO_CAPTURE, end);
  p->captures[i].kind = FOPO_CAPTURE_TEXT;
  append(p, CLOSE)->index = i;
  return at + 1;
}

/* %0 to %9: the text of a capture once more. That of a position is found nowhere. */
static const char *repeat_capture(fopo_pattern *p, const char *at, const char *end) {
  int i = at[1] - '1';
  if (i < 0 || i >= p->captures_n || p->captures[i].kind == FOPO_CAPTURE_OPEN) {
    fopo_pattern_item *item = append(p, BROKEN);
    item->index = BAD_INDEX;
    item->text = at + 1;
    item->n = 1;
    return end;
  }
  append(p, p->captures[i].kind == FOPO_CAPTURE_POSITION ? NEVER : REPEATED)->index = i;
  return at + 2;
}

static const char *read_balanced(fopo_pattern *p, const char *at, const char *end) {
  if (end - at < 4) return broken(p, NO_BALANCED, end);
  append(p, BALANCED)->text = at + 2;
  return at + 4;
}

static const char *read_frontier(fopo_pattern *p, const char *at, const char *end) {
  if (end - at < 3 || at[2] != '[') return broken(p, NO_FRONTIER, end);
  const char *last = set_end(at + 3, end);
  if (last == NULL) return broken(p, NO_SET_END, end);
  read_set(append(p, FRONTIER)->set, at + 3, last);
  return last + 1;
}

static void quantify(fopo_pattern_item *item, char quantifier) {
  item->least = quantifier == '+';
  item->most = quantifier == '?' ? 1 : SIZE_MAX;
  item->lazy = quantifier == '-';
}

/* A character x, %x, a dot or a set, with its quantifier. Characters without one are joined. */
static const char *read_single(fopo_pattern *p, const char *at, const char *end) {
  const char *behind = at + 1, *text = at;
  uint64_t set[4] = {0};
  int is_text = 0;
  if (*at == '%') {
    if (behind == end) return broken(p, NO_ESCAPED, end);
    text = behind++;
    is_text = !isalpha((unsigned char)*text);
    add_escaped(set, (unsigned char)*text);
  } else if (*at == '[') {
    const char *last = set_end(behind, end);
    if (last == NULL) return broken(p, NO_SET_END, end);
    read_set(set, behind, last);
    behind = last + 1;
  } else if (*at == '.') {
    complement(set);
  } else {
    is_text = 1;
    add(set, (unsigned char)*at);
  }
  int quantified = behind < end && *behind != '\0' && strchr("*+-?", *behind) != NULL;
  fopo_pattern_item *before = p->n > 0 ? &p->items[p->n - 1] : NULL;
  if (is_text && !quantified && before != NULL && before->kind == TEXT &&
      before->text + before->n == text) {
    before->n++;
    return behind;
  }
  fopo_pattern_item *item = append(p, is_text && !quantified ? TEXT : SET);
  item->text = text;
  item->n = item->least = item->most = 1;
  memcpy(item->set, set, sizeof set);
  if (quantified) quantify(item, *behind);
  return behind + quantified;
}

static const char *read_item(fopo_pattern *p, const char *at, const char *end) {
  if (*at == '(') return open_capture(p, at, end);
  if (*at == ')') return close_capture(p, at, end);
  if (*at == '$' && at + 1 == end) {
    append(p, END);
    return end;
  }
  int escaped = *at == '%' && at + 1 < end ? (unsigned char)at[1] : 0;
  if (escaped == 'b') return read_balanced(p, at, end);
  if (escaped == 'f') return read_frontier(p, at, end);
  if (isdigit(escaped)) return repeat_capture(p, at, end);
  return read_single(p, at, end);
}

void fopo_pattern_compile(fopo_pattern *p, fopo_pattern_item *items, const char *text, size_t n) {
  p->items = items;
  p->n = 0;
  p->captures_n = 0;
  p->left = POLL;
  for (const char *at = text, *end = text + n; at < end;) at = read_item(p, at, end);
}

/* ---- matching ---- */

typedef struct {
  fopo_pattern *p;
  const char *text, *end;
} subject;

/* n items or characters have been looked at; -1: the user has interrupted. */
static int poll(fopo_pattern *p, size_t n) {
  p->left = n < (size_t)p->left ? p->left - (int)n : 0;
  if (p->left > 0) return 0;
  p->left = POLL;
  if (!fopo_interrupt_pending()) return 0;
  snprintf(p->error, sizeof p->error, "interrupted");
  return -1;
}

/* Moves s behind the brackets that open there and balance. 1; 0: they do not; -1: an error. */
static int skip_balanced(const subject *t, const char **s, const char *pair) {
  size_t open = 0;
  for (const char *at = *s; at < t->end; at++) {
    if (*at == pair[1] && open > 0) {
      open--;
    } else if (*at == pair[0]) {
      open++;
    }
    if (open == 0) {
      int found = at > *s;
      if (found) *s = at + 1;
      return found;
    }
    if (poll(t->p, 1) != 0) return -1;
  }
  return 0;
}

static int at_frontier(const subject *t, const uint64_t set[4], const char *s) {
  int before = s > t->text ? (unsigned char)s[-1] : '\0';
  int here = s < t->end ? (unsigned char)*s : '\0';
  return !has(set, before) && has(set, here);
}

/* n bytes at s equal text; moves s behind them. */
static int passes(const subject *t, const char **s, const char *text, size_t n) {
  if ((size_t)(t->end - *s) < n || memcmp(*s, text, n) != 0) return 0;
  *s += n;
  return 1;
}

/* The item takes what it wants at first. 1: it matches, *s is behind it; 0; -1: an error. */
static int first_try(const subject *t, fopo_pattern_item *item, const char **s) {
  fopo_pattern *p = t->p;
  fopo_capture *capture = &p->captures[item->index];
  switch (item->kind) {
  case TEXT: return passes(t, s, item->text, item->n);
  case REPEATED: return passes(t, s, capture->at, capture->n);
  case END: return *s == t->end;
  case FRONTIER: return at_frontier(t, item->set, *s);
  case OPEN:
  case POSITION: capture->at = *s; return 1;
  case CLOSE: capture->n = (size_t)(*s - capture->at); return 1;
  case BALANCED: return skip_balanced(t, s, item->text);
  case SET: {
    size_t left = (size_t)(t->end - *s), n = 0, most = item->lazy ? item->least : item->most;
    if (most > left) most = left;
    while (n < most && has(item->set, (unsigned char)(*s)[n])) n++;
    item->from = *s;
    item->taken = n;
    *s += n;
    return poll(p, n) != 0 ? -1 : n >= item->least;
  }
  case BROKEN:
    snprintf(p->error, sizeof p->error, "%s%.*s", errors[item->index], (int)item->n, item->text);
    return -1;
  default: return 0;
  }
}

/* What stands behind the item does not match: it takes another number of characters. The same. */
static int next_try(const subject *t, fopo_pattern_item *item, const char **s) {
  if (item->kind != SET) return 0;
  if (item->lazy) {
    const char *next = item->from + item->taken;
    if (next == t->end || !has(item->set, (unsigned char)*next)) return 0;
    item->taken++;
  } else {
    if (item->taken == item->least) return 0;
    item->taken--;
  }
  *s = item->from + item->taken;
  return 1;
}

int fopo_pattern_match(fopo_pattern *p, const char *text, const char *text_end, const char *s,
                       const char **end) {
  const subject t = {p, text, text_end};
  for (size_t i = 0; i < p->n; i++) {
    int status = poll(p, 1) != 0 ? -1 : first_try(&t, &p->items[i], &s);
    while (status == 0) {
      if (i == 0) return 0;
      i--;
      status = poll(p, 1) != 0 ? -1 : next_try(&t, &p->items[i], &s);
    }
    if (status < 0) return -1;
  }
  *end = s;
  return 1;
}
