/* Ids that are all integers of 32 bits become indices in ascending order.
 *
 * A bit set says which integers occur. The index of one is its rank: the number of bits set before
 * its own. A running count is kept beside every 32 bits, so one cache line answers a lookup. For a
 * million ids the set fits the L2 cache, which a table of indices would not. Bits are only ever
 * set, so threads may do it in any order. */
#include <stdatomic.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/threads.h"
#include "data/read/table.h"

enum {
  TASK = 1 << 16,    /* pairs that a thread takes at a time: about 0.2 ms */
  ALWAYS = 1 << 20,  /* the set may always span so many integers, */
  SPAN_PER_PAIR = 32 /* and so many more for each pair: 8 bytes */
};
#define ORDERING "ordering ids"

/* 32 integers of the set. */
typedef struct {
  _Atomic uint32_t bits; /* which of them occur */
  uint32_t before;       /* how many smaller integers occur */
} word;

static uint32_t count_bits(uint32_t x) {
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

static uint32_t bits_of(word *w) { return atomic_load_explicit(&w->bits, memory_order_relaxed); }

static uint32_t largest_of(const uint32_t *numbers, size_t n) {
  uint32_t largest = 0;
#pragma omp parallel for simd num_threads(n > TASK ? fopo_threads() : 1) reduction(max : largest)
  for (size_t i = 0; i < n; i++) largest = numbers[i] > largest ? numbers[i] : largest;
  return largest;
}

/* Calls `task` for all numbers, TASK of them at a time, on several threads. */
static int each_task(void (*task)(uint32_t *numbers, word *words, size_t n), uint32_t *numbers,
                     word *words, size_t n) {
  int stopped = 0, threads = n > TASK ? fopo_threads() : 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(| : stopped)
  for (size_t from = 0; from < n; from += TASK) {
    stopped |= fopo_interrupted();
    if (!stopped) task(numbers + from, words, n - from < TASK ? n - from : TASK);
  }
  return stopped ? fopo_fail(FOPO_ERR_INTERRUPTED, "interrupted while " ORDERING) : FOPO_OK;
}

/* Sets the bit of every number. */
static void mark(uint32_t *numbers, word *words, size_t n) {
  for (size_t i = 0; i < n; i++) {
    word *w = &words[numbers[i] / 32];
    uint32_t bit = (uint32_t)1 << numbers[i] % 32;
    /* Most are set already; testing first keeps the cache line shared among the threads. */
    if ((bits_of(w) & bit) == 0) atomic_fetch_or_explicit(&w->bits, bit, memory_order_relaxed);
  }
}

/* The running counts, and the names; none if the integers are 0 .. n - 1. */
static int name(fopo_names *names, word *words, size_t n_words) {
  uint32_t found = 0;
  size_t last = 0;
  for (size_t w = 0; w < n_words; w++) {
    words[w].before = found;
    found += count_bits(bits_of(&words[w]));
    if (bits_of(&words[w]) != 0) last = w;
  }
  *names = (fopo_names){.n = found};
  if (found == 0 || 32 * last + 32 - (size_t)__builtin_clz(bits_of(&words[last])) == found) {
    return FOPO_OK;
  }
  names->numbers = fopo_alloc(found, sizeof *names->numbers);
  if (names->numbers == NULL) return FOPO_ERR_MEMORY;
  for (size_t w = 0, at = 0; w < n_words; w++) {
    for (uint32_t bits = bits_of(&words[w]); bits != 0; bits &= bits - 1) {
      names->numbers[at++] = (int64_t)(32 * w + (size_t)__builtin_ctz(bits));
    }
  }
  return FOPO_OK;
}

/* Replaces the numbers by their ranks. */
static void rank(uint32_t *numbers, word *words, size_t n) {
  for (size_t i = 0; i < n; i++) {
    word *w = &words[numbers[i] / 32];
    uint32_t below = ((uint32_t)1 << numbers[i] % 32) - 1;
    numbers[i] = w->before + count_bits(bits_of(w) & below);
  }
}

int fopo_numbers_finish(fopo_names *names, uint32_t *numbers, size_t n, int *done) {
  uint32_t largest = largest_of(numbers, n);
  *done = largest < ALWAYS + (uint64_t)SPAN_PER_PAIR * n;
  if (!*done) return FOPO_OK;
  size_t n_words = (size_t)largest / 32 + 1;
  word *words = fopo_alloc(n_words, sizeof *words);
  if (words == NULL) return FOPO_ERR_MEMORY;
  int status = each_task(mark, numbers, words, n);
  if (status == FOPO_OK) status = fopo_progress(ORDERING, 1, 2);
  if (status == FOPO_OK) status = name(names, words, n_words);
  if (status == FOPO_OK && names->numbers != NULL) status = each_task(rank, numbers, words, n);
  if (status == FOPO_OK) status = fopo_progress(ORDERING, 2, 2);
  fopo_free(words);
  return status;
}
