/* Hash values. */
#ifndef FOPO_CORE_HASH_H
#define FOPO_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The finaliser of splitmix64: every bit of x reaches every bit of the result. */
static inline uint64_t fopo_hash_mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* A text of n bytes, eight at a time. */
static inline uint64_t fopo_hash_text(const char *text, size_t n) {
  uint64_t h = n;
  for (; n >= 8; n -= 8, text += 8) {
    uint64_t word;
    memcpy(&word, text, 8);
    h = fopo_hash_mix(h ^ word);
  }
  uint64_t rest = 0;
  memcpy(&rest, text, n);
  return fopo_hash_mix(h ^ rest);
}

#endif
