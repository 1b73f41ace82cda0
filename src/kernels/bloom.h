/* A Bloom filter of ids with a single hash function: it may report an id that was not added, never
 * miss one that was. It is small enough for L1, so that most ids outside a set are rejected by one
 * load before its hash table is searched. */
#ifndef FOPO_KERNELS_BLOOM_H
#define FOPO_KERNELS_BLOOM_H

#include <stddef.h>
#include <stdint.h>

#define FOPO_HASH_FACTOR 2654435769u /* 2^32 / golden ratio */

/* Fibonacci hashing: the upper `bits` bits, 1 to 32, of the product. */
static inline uint32_t fopo_hash(uint32_t id, unsigned bits) {
  return (id * FOPO_HASH_FACTOR) >> (32 - bits);
}

/* Words of a filter of 2^bits bits, bits >= 5. */
static inline size_t fopo_bloom_words(unsigned bits) { return (size_t)1 << (bits - 5); }

static inline void fopo_bloom_add(uint32_t *bloom, unsigned bits, uint32_t id) {
  uint32_t hash = fopo_hash(id, bits);
  bloom[hash >> 5] |= 1u << (hash & 31);
}

static inline int fopo_bloom_may_hold(const uint32_t *bloom, unsigned bits, uint32_t id) {
  uint32_t hash = fopo_hash(id, bits);
  return (int)(bloom[hash >> 5] >> (hash & 31) & 1u);
}

#endif
