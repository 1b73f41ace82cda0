/* A parallel radix sort, least significant digit first, in three passes (Zagha and Blelloch, "Radix
 * sort for vector multiprocessors", 1991). Each thread counts the digits of its part of the keys; a
 * prefix sum over digits, and within a digit over threads, turns the counts into places; then each
 * thread moves its keys there. The sort is stable, so items of equal norm stay in the order of
 * their ids, and the result is the same for any number of threads. */
#include "mips/order.h"

#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"

enum {
  BITS = 11, /* of a digit: three digits hold the 31 bits of a key */
  DIGITS = 1 << BITS,
  PASSES = 3,
  MIN_SHARED = 1 << 15 /* keys from which a team of threads is faster */
};

typedef struct {
  uint32_t key; /* ascending where norms descend */
  uint32_t id;
} entry;

/* What the threads share. Pass 0 reads norms and writes a, pass 1 reads a and writes b, pass 2
 * reads b and writes order and norms. */
typedef struct {
  uint32_t *order;
  float *norms;
  entry *a, *b;
  size_t n;
  size_t *places; /* [threads, DIGITS] */
} sorting;

/* Floats >= 0 order like their bits. */
static uint32_t key_of(float norm) {
  uint32_t bits;
  norm += 0.0f; /* -0 becomes +0 */
  memcpy(&bits, &norm, sizeof bits);
  return 0x7fffffffu - bits;
}

static float norm_of(uint32_t key) {
  uint32_t bits = 0x7fffffffu - key;
  float norm;
  memcpy(&norm, &bits, sizeof norm);
  return norm;
}

/* The code of the three passes is written once; `pass` is a constant of each inlined copy. */
#define INLINE static inline __attribute__((always_inline))

INLINE entry entry_at(const sorting *s, const int pass, size_t i) {
  if (pass == 0) return (entry){key_of(s->norms[i]), (uint32_t)i};
  return pass == 1 ? s->a[i] : s->b[i];
}

INLINE size_t digit(entry e, const int pass) { return e.key >> (pass * BITS) & (DIGITS - 1); }

INLINE void count(const sorting *s, const int pass, size_t *places, size_t first, size_t end) {
  memset(places, 0, DIGITS * sizeof *places);
  for (size_t i = first; i < end; i++) places[digit(entry_at(s, pass, i), pass)]++;
}

/* The prefix sum. */
static void counts_to_places(const sorting *s, size_t threads) {
  size_t next = 0;
  for (size_t d = 0; d < DIGITS; d++) {
    for (size_t t = 0; t < threads; t++) {
      size_t *place = &s->places[t * DIGITS + d], count = *place;
      *place = next;
      next += count;
    }
  }
}

INLINE void move(const sorting *s, const int pass, size_t *places, size_t first, size_t end) {
  for (size_t i = first; i < end; i++) {
    entry e = entry_at(s, pass, i);
    size_t to = places[digit(e, pass)]++;
    if (pass == PASSES - 1) {
      s->order[to] = e.id;
      s->norms[to] = norm_of(e.key);
    } else {
      (pass == 0 ? s->a : s->b)[to] = e;
    }
  }
}

/* One pass; called by all threads of a team. */
INLINE void sort_by_digit(const sorting *s, const int pass) {
  size_t me = (size_t)omp_get_thread_num(), threads = (size_t)omp_get_num_threads();
  size_t first = s->n * me / threads, end = s->n * (me + 1) / threads;
  count(s, pass, s->places + me * DIGITS, first, end);
#pragma omp barrier
#pragma omp single
  counts_to_places(s, threads);
  move(s, pass, s->places + me * DIGITS, first, end);
#pragma omp barrier
}

static void sort(const sorting *s, int threads) {
#pragma omp parallel num_threads(threads)
  {
    sort_by_digit(s, 0);
    sort_by_digit(s, 1);
    sort_by_digit(s, 2);
  }
}

int fopo_order_descending(uint32_t *order, float *norms, size_t n) {
  int threads = n < MIN_SHARED ? 1 : fopo_threads();
  sorting s = {.order = order, .norms = norms, .n = n};
  s.a = fopo_alloc(n, sizeof *s.a);
  s.b = fopo_alloc(n, sizeof *s.b);
  s.places = fopo_alloc((size_t)threads * DIGITS, sizeof *s.places);
  int status = s.a != NULL && s.b != NULL && s.places != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) sort(&s, threads);
  fopo_free(s.a);
  fopo_free(s.b);
  fopo_free(s.places);
  return status;
}
