/* Hash values. */
#ifndef FOPO_CORE_HASH_H
#define FOPO_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The finaliser of splitmix64: every bit of x reaches every bit of the result. */
static inline uint64_t fopo_hash_mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* FNV-1a, mixed. */
static inline uint64_t fopo_hash_text(const char *text, size_t n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
  return fopo_hash_mix(h);
}

#endif
