/* Grows by doubling. */
#include "term/text.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"

void fopo_text_put_bytes(fopo_text *b, const char *s, size_t n) {
  if (b->status != FOPO_OK) return;
  if (b->n + n + 1 > b->room) {
    size_t room = 2 * (b->n + n) + 256;
    char *grown = fopo_realloc(b->s, room, 1);
    if (grown == NULL) {
      b->status = FOPO_ERR_MEMORY;
      return;
    }
    b->s = grown;
    b->room = room;
  }
  memcpy(b->s + b->n, s, n);
  b->n += n;
  b->s[b->n] = '\0';
}

void fopo_text_put(fopo_text *b, const char *s) { fopo_text_put_bytes(b, s, strlen(s)); }
