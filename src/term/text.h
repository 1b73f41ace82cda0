/* Text that grows. The first failure is kept in status, and what comes after it is left out. */
#ifndef FOPO_TERM_TEXT_H
#define FOPO_TERM_TEXT_H

#include <stddef.h>

typedef struct {
  char *s; /* n bytes and a zero; to be freed with fopo_free */
  size_t n, room;
  int status;
} fopo_text;

void fopo_text_put_bytes(fopo_text *b, const char *s, size_t n);
void fopo_text_put(fopo_text *b, const char *s);

#endif
