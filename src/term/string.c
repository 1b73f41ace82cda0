/* The buffer at least doubles when it is full, so n appends copy O(n) bytes. */
#include "term/string.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"

void fopo_string_put_bytes(fopo_string *b, const char *s, size_t n) {
  if (b->status != FOPO_OK) return;
  if (b->n + n + 1 > b->capacity) {
    size_t capacity = 2 * (b->n + n) + 256;
    b->status = fopo_resize(&b->s, capacity, 1);
    if (b->status != FOPO_OK) return;
    b->capacity = capacity;
  }
  memcpy(b->s + b->n, s, n);
  b->n += n;
  b->s[b->n] = '\0';
}

void fopo_string_put(fopo_string *b, const char *s) { fopo_string_put_bytes(b, s, strlen(s)); }
