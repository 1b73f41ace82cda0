/* A string that grows. The first failure is kept in status; later appends do nothing. */
#ifndef FOPO_TERM_STRING_H
#define FOPO_TERM_STRING_H

#include <stddef.h>

typedef struct {
  char *s;            /* n bytes and '\0'; free it with fopo_free; NULL until the first append */
  size_t n, capacity; /* bytes; capacity counts the '\0' */
  int status;         /* FOPO_OK or FOPO_ERR_MEMORY */
} fopo_string;

/* Start from {0}. */
void fopo_string_put(fopo_string *b, const char *s);
void fopo_string_put_bytes(fopo_string *b, const char *s, size_t n);

#endif
