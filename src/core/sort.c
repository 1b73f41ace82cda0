#include "core/sort.h"

#include <string.h>

enum { DIGIT_BITS = 8 };

static unsigned bits_of(size_t P) {
  unsigned bits = 1;
  while ((P - 1) >> bits) bits++;
  return bits;
}

/* Least significant digit first; of equal width, as few as there can be. */
void fopo_sort_ids(uint32_t *ids, uint32_t *other, size_t n, size_t P) {
  unsigned bits = bits_of(P), passes = (bits + DIGIT_BITS - 1) / DIGIT_BITS;
  unsigned width = (bits + passes - 1) / passes;
  uint32_t mask = (1u << width) - 1u, place[1 << DIGIT_BITS], *from = ids, *to = other;
  for (unsigned shift = 0; shift < bits; shift += width) {
    memset(place, 0, (mask + 1) * sizeof *place);
    for (size_t i = 0; i < n; i++) place[from[i] >> shift & mask]++;
    for (uint32_t j = 0, sum = 0; j <= mask; j++) {
      uint32_t count = place[j];
      place[j] = sum;
      sum += count;
    }
    for (size_t i = 0; i < n; i++) to[place[from[i] >> shift & mask]++] = from[i];
    uint32_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != ids) memcpy(ids, from, n * sizeof *ids);
}
