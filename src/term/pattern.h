/* Lua's patterns (section 6.4.1 of its manual), matched so that a match can be interrupted.
 *
 * A pattern has no alternatives, so it is compiled into a row of items: pieces of text, sets of
 * characters with a quantifier, captures, %b and %f. A match goes along the row and back to the
 * last item that can take another number of characters. All that it has to remember stands in the
 * items: neither long texts nor hard patterns need the stack, and none is too complex. */
#ifndef FOPO_TERM_PATTERN_H
#define FOPO_TERM_PATTERN_H

#include <stddef.h>
#include <stdint.h>

enum { FOPO_PATTERN_CAPTURES = 32 };

typedef struct {
  int kind;
  const char *text; /* TEXT: n bytes of the pattern; BALANCED: its two characters */
  size_t n;
  int index;       /* of a capture, or an error */
  uint64_t set[4]; /* SET, FRONTIER: bit c is set if character c belongs to it */
  size_t least, most;
  int lazy;         /* takes as few as it can */
  const char *from; /* the characters that a SET has taken in the match at hand */
  size_t taken;
} fopo_pattern_item;

typedef struct {
  enum { FOPO_CAPTURE_TEXT, FOPO_CAPTURE_POSITION, FOPO_CAPTURE_OPEN } kind; /* OPEN: no ) */
  const char *at;
  size_t n; /* bytes of a TEXT */
} fopo_capture;

typedef struct {
  fopo_pattern_item *items; /* [n]; not owned */
  size_t n;
  fopo_capture captures[FOPO_PATTERN_CAPTURES]; /* [captures_n]; filled by a match */
  int captures_n;
  int left;       /* items and characters until the interrupt flag is read again */
  char error[64]; /* why a match has failed */
} fopo_pattern;

/* Compiles n bytes of text, which must stay until the last match. items: room for n of them. What
 * is malformed is an error of the match that comes to it. */
void fopo_pattern_compile(fopo_pattern *p, fopo_pattern_item *items, const char *text, size_t n);

/* Matches at s, within the subject [text, text_end). 1: *end is where the match ends, and the
 * captures are filled; 0: there is none; -1: p->error says what is malformed, or "interrupted". */
int fopo_pattern_match(fopo_pattern *p, const char *text, const char *text_end, const char *s,
                       const char **end);

#endif
