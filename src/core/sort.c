/* Radix sort of ids; bucket sort and quicksort of keys; the C library sorts plain numbers. */
#include "core/sort.h"

#include <stdlib.h>
#include <string.h>

enum {
  DIGIT_BITS = 8,
  FEW = 48,       /* keys; up to so many, buckets cost more than they save */
  AT_ONCE = 2048, /* keys that fit the bucket sort's array on the stack */
  BUCKET_BITS = 8,
  BUCKETS = 1 << BUCKET_BITS
};

/* ---- ids ---- */

static unsigned bits_of(size_t P) {
  unsigned bits = 1;
  while ((P - 1) >> bits) bits++;
  return bits;
}

/* Least significant digit first, in as few digits of equal width as DIGIT_BITS allows. */
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

/* ---- keys ---- */

/* Splits keys[low .. high], high - low >= 2, around the median of three: returns a j with
 * low <= j < high, such that all keys up to j are larger than all keys behind it. Without a branch
 * on the comparison, which could not be predicted. */
static size_t split(uint64_t *keys, size_t low, size_t high) {
  uint64_t a = keys[low], b = keys[low + (high - low) / 2], c = keys[high];
  uint64_t most = a > b ? a : b, least = a > b ? b : a;
  uint64_t pivot = c > most ? most : c > least ? c : least;
  size_t j = low;
  for (size_t i = low; i <= high; i++) {
    uint64_t key = keys[i];
    keys[i] = keys[j];
    keys[j] = key;
    j += key > pivot;
  }
  return j - 1; /* one of the three is larger than the pivot, and the pivot is not */
}

static void insertion_sort(uint64_t *keys, size_t n) {
  for (size_t i = 1; i < n; i++) {
    uint64_t key = keys[i];
    size_t j = i;
    for (; j > 0 && keys[j - 1] < key; j--) keys[j] = keys[j - 1];
    keys[j] = key;
  }
}

static void quick_sort(uint64_t *keys, size_t n) {
  while (n > 24) {
    size_t left = split(keys, 0, n - 1) + 1;
    if (left < n - left) {
      quick_sort(keys, left);
      keys += left;
      n -= left;
    } else {
      quick_sort(keys + left, n - left);
      n = left;
    }
  }
  insertion_sort(keys, n);
}

/* Buckets of equal width, the largest keys in bucket 0: one pass instead of log n. The bits of a
 * score grow like its logarithm, so a few large scores do not leave most buckets empty. */
typedef struct {
  uint64_t most;
  int shift;
  uint32_t count[BUCKETS];
} buckets;

static size_t bucket(const buckets *b, uint64_t key) { return (b->most - key) >> b->shift; }

static void count_buckets(buckets *b, const uint64_t *keys, size_t n) {
  uint64_t most = keys[0], least = keys[0];
  for (size_t i = 1; i < n; i++) {
    most = keys[i] > most ? keys[i] : most;
    least = keys[i] < least ? keys[i] : least;
  }
  int bits = most > least ? 64 - __builtin_clzll(most - least) : 0;
  *b = (buckets){.most = most, .shift = bits > BUCKET_BITS ? bits - BUCKET_BITS : 0};
  for (size_t i = 0; i < n; i++) b->count[bucket(b, keys[i])]++;
}

/* n <= AT_ONCE */
static void bucket_sort(uint64_t *keys, size_t n) {
  uint64_t sorted[AT_ONCE];
  uint32_t end[BUCKETS], next = 0;
  buckets b;
  count_buckets(&b, keys, n);
  for (size_t i = 0; i < BUCKETS; i++) end[i] = next, next += b.count[i];
  for (size_t i = 0; i < n; i++) sorted[end[bucket(&b, keys[i])]++] = keys[i];
  for (size_t i = 0; i < BUCKETS; i++) {
    if (b.count[i] > 1) quick_sort(sorted + end[i] - b.count[i], b.count[i]);
  }
  memcpy(keys, sorted, n * sizeof *keys);
}

void fopo_sort_keys(uint64_t *keys, size_t n) {
  if (n > FEW && n <= AT_ONCE) {
    bucket_sort(keys, n);
  } else {
    quick_sort(keys, n);
  }
}

/* ---- plain numbers ---- */

static int by_f64(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int by_u32(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

void fopo_sort_f64(double *x, size_t n) { qsort(x, n, sizeof *x, by_f64); }

void fopo_sort_u32(uint32_t *x, size_t n) { qsort(x, n, sizeof *x, by_u32); }
