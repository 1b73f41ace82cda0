#include "core/plain.h"

#include <stdio.h>
#include <string.h>

/* How many bytes at `at` are a control character; 0: none. U+0080 to U+009F take two in UTF-8. */
static size_t control(const unsigned char *at, const unsigned char *end) {
  if (*at == '\n' || *at == '\t') return 0;
  if (*at < 32 || *at == 127) return 1;
  return *at == 0xc2 && at + 1 < end && at[1] >= 0x80 && at[1] < 0xa0 ? 2 : 0;
}

size_t fopo_plain(char *to, size_t size, const char *text, size_t n) {
  const unsigned char *at = (const unsigned char *)text, *end = at + n;
  size_t used = 0;
  while (at < end) {
    size_t length = control(at, end);
    char piece[8];
    int put = length > 0 ? snprintf(piece, sizeof piece, "\\x%02x", at[length - 1])
                         : snprintf(piece, sizeof piece, "%c", *at);
    if (used + (size_t)put >= size) break;
    memcpy(to + used, piece, (size_t)put);
    used += (size_t)put;
    at += length > 0 ? length : 1;
  }
  to[used] = '\0';
  return used;
}

size_t fopo_utf8(char *to, uint32_t code) {
  if (code < 0x80) {
    to[0] = (char)code;
    return 1;
  }
  size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = n - 1; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
  to[0] = (char)((0xf00 >> n & 0xff) | code);
  return n;
}
