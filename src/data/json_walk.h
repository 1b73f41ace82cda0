/* A strict parser of JSON (RFC 8259) for one piece of text, such as a line. It builds no tree and
 * takes no memory: it walks over the text once and calls a function for each member of an object or
 * list. Beyond the standard it takes NaN, Infinity and -Infinity, which Python writes.
 *
 * It is our own because it must be known if memory runs out in the middle of a text. json-c says so
 * from 0.18 on (2024; 0.17 in part). In 0.16, of Debian 12, json_tokener.c uses the name of a
 * member without a look at what strdup returned, and goes on if the buffer of a text could not
 * grow: the process ends, or a text is cut off and nothing tells. */
#ifndef FOPO_DATA_JSON_WALK_H
#define FOPO_DATA_JSON_WALK_H

#include "data/text.h"

typedef enum {
  FOPO_WALK_NULL,
  FOPO_WALK_FALSE,
  FOPO_WALK_TRUE,
  FOPO_WALK_NUMBER,
  FOPO_WALK_STRING,
  FOPO_WALK_OBJECT,
  FOPO_WALK_ARRAY
} fopo_walk_kind;

/* Start from {.at = text, .end = its end}. */
typedef struct {
  const char *at, *end; /* not owned */
  const char *why;      /* what is wrong with the text, from `at` on; NULL: nothing so far */
  void *owner;          /* for the callbacks; not owned */
} fopo_walk;

/* The functions below return 1, or 0 if something is wrong. */

/* Keeps the first thing that is wrong. Returns 0. */
int fopo_walk_wrong(fopo_walk *w, const char *why);

/* The kind of the value that comes next, which is not passed; -1: there is none. */
int fopo_walk_peek(fopo_walk *w);

/* Passes a value of any kind; depth: objects and lists around it. */
int fopo_walk_skip(fopo_walk *w, int depth);

/* Passes a string: what is between the quotes, as it is written. */
int fopo_walk_string(fopo_walk *w, fopo_chars *s);

/* Passes a number; `value` may be NULL. */
int fopo_walk_number(fopo_walk *w, double *value);

/* Called with w->at at the value of a key, or at an element of a list (key.at is NULL), which it
 * must pass. depth: objects and lists around it. */
typedef int fopo_walk_member(fopo_walk *w, fopo_chars key, void *data, int depth);

/* Passes the object or list at w->at, member by member. */
int fopo_walk_each(fopo_walk *w, fopo_walk_member *member, void *data, int depth);

/* The same where the whole text must be one object. */
int fopo_walk_object(fopo_walk *w, fopo_walk_member *member, void *data);

/* Writes the text that a string means, at most s.n bytes, to `to`; returns their number. A
 * surrogate without its other half becomes U+FFFD. */
size_t fopo_walk_decode(char *to, fopo_chars s);

/* Where text [at, end) ceases to be UTF-8; `end` if it does not. */
const char *fopo_walk_not_utf8(const char *at, const char *end);

#endif
