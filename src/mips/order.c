/* A parallel radix sort, most significant digit first. Each thread counts the digits of its part of
 * the keys; a prefix sum over digits, and within a digit over threads, turns the counts into
 * places; then each thread moves its keys there (Zagha and Blelloch, "Radix sort for vector
 * multiprocessors", 1991). The keys of a digit lie together then, few enough for the cache, and are
 * sorted by their other bits, least significant digit first. The sort is stable, so items of equal
 * norm stay in the order of their ids, and the result is the same for any number of threads. */
#include "mips/order.h"

#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"

enum {
  BITS = 11, /* of the first digit, among those in which keys differ: 31 at most; */
  DIGITS = 1 << BITS,
  LOW_BITS = 10, /* and of the two others, at most */
  LOW_DIGITS = 1 << LOW_BITS,
  FEW = 32,            /* keys that are sorted by insertion */
  MIN_SHARED = 1 << 15 /* keys from which a team of threads is faster */
};

typedef struct {
  uint32_t key; /* ascending where norms descend */
  uint32_t id;
} entry;

/* What the threads share. Pages that are new cost more than the sort: scratch is touched as little
 * as may be. */
typedef struct {
  uint32_t *order;
  float *norms;
  float *moved;   /* [n] norms by the first digit, as the ids in order are */
  entry *scratch; /* [n] of which a digit touches as much as it has keys */
  size_t n;
  uint32_t least;      /* of the keys */
  uint32_t shift, low; /* bits behind the first digit, and of them those of the last one */
  size_t *places;      /* [threads, DIGITS], after all keys were moved where the digits end */
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

static size_t digit(const sorting *s, uint32_t key) { return (key - s->least) >> s->shift; }

static void find_range(sorting *s, int threads) {
  uint32_t least = UINT32_MAX, most = 0;
// clang-format off
#pragma omp parallel for num_threads(threads) schedule(static) reduction(min : least) \
    reduction(max : most)
  // clang-format on
  for (size_t i = 0; i < s->n; i++) {
    uint32_t key = key_of(s->norms[i]);
    least = key < least ? key : least;
    most = key > most ? key : most;
  }
  s->least = least;
  while (s->shift < 32 && (most - least) >> s->shift >= DIGITS) s->shift++;
  s->low = (s->shift + 1) / 2;
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

/* All threads of a team: the keys of each digit come together. */
static void sort_by_digit(const sorting *s) {
  size_t me = (size_t)omp_get_thread_num(), threads = (size_t)omp_get_num_threads();
  size_t first = s->n * me / threads, end = s->n * (me + 1) / threads;
  size_t *places = s->places + me * DIGITS;
  for (size_t i = first; i < end; i++) places[digit(s, key_of(s->norms[i]))]++;
#pragma omp barrier
#pragma omp single
  counts_to_places(s, threads);
  for (size_t i = first; i < end; i++) {
    size_t to = places[digit(s, key_of(s->norms[i]))]++;
    s->order[to] = (uint32_t)i;
    s->moved[to] = s->norms[i];
  }
#pragma omp barrier
}

static void to_places(uint32_t counts[LOW_DIGITS]) {
  for (size_t d = 0, next = 0; d < LOW_DIGITS; d++) {
    size_t count = counts[d];
    counts[d] = (uint32_t)next;
    next += count;
  }
}

/* Sorts the n keys of a first digit by the two others; scratch [n]. */
static void sort_rest(const sorting *s, size_t first, size_t n, entry *scratch) {
  uint32_t last[LOW_DIGITS] = {0}, middle[LOW_DIGITS] = {0}, mask = ((uint32_t)1 << s->low) - 1;
  uint32_t *order = s->order + first;
  float *norms = s->norms + first;
  const float *moved = s->moved + first;
  for (size_t i = 0; i < n; i++) {
    uint32_t key = key_of(moved[i]) - s->least;
    last[key & mask]++;
    middle[key >> s->low & mask]++;
  }
  to_places(last);
  to_places(middle);
  for (size_t i = 0; i < n; i++) {
    uint32_t key = key_of(moved[i]) - s->least;
    scratch[last[key & mask]++] = (entry){key, order[i]};
  }
  for (size_t i = 0; i < n; i++) {
    size_t to = middle[scratch[i].key >> s->low & mask]++;
    order[to] = scratch[i].id;
    norms[to] = norm_of(scratch[i].key + s->least);
  }
}

static void sort_few(const sorting *s, size_t first, size_t end) {
  for (size_t i = first; i < end; i++) {
    uint32_t id = s->order[i];
    float norm = s->moved[i];
    size_t j = i;
    for (; j > first && s->norms[j - 1] < norm; j--) {
      s->norms[j] = s->norms[j - 1];
      s->order[j] = s->order[j - 1];
    }
    s->norms[j] = norm;
    s->order[j] = id;
  }
}

/* The keys of all first digits: those of one that has more than its share of the scratch one after
 * another, the others by all threads. */
static void sort_digits(const sorting *s) {
  size_t me = (size_t)omp_get_thread_num(), threads = (size_t)omp_get_num_threads();
  size_t share = s->n / threads;
  const size_t *ends = s->places + (threads - 1) * DIGITS;
#pragma omp single
  for (size_t d = 0; d < DIGITS; d++) {
    size_t first = d > 0 ? ends[d - 1] : 0, n = ends[d] - first;
    if (n > share) sort_rest(s, first, n, s->scratch);
  }
#pragma omp for schedule(dynamic, 8)
  for (size_t d = 0; d < DIGITS; d++) {
    size_t first = d > 0 ? ends[d - 1] : 0, n = ends[d] - first;
    if (n > share) continue;
    if (n <= FEW) {
      sort_few(s, first, ends[d]);
    } else {
      sort_rest(s, first, n, s->scratch + me * share);
    }
  }
}

static void sort(sorting *s, int threads) {
  find_range(s, threads);
#pragma omp parallel num_threads(threads)
  {
    sort_by_digit(s);
    sort_digits(s);
  }
}

int fopo_order_descending(uint32_t *order, float *norms, size_t n) {
  int threads = n < MIN_SHARED ? 1 : fopo_threads();
  sorting s = {.order = order, .norms = norms, .n = n};
  s.moved = fopo_alloc_unset(n, sizeof *s.moved);
  s.scratch = fopo_alloc_unset(n, sizeof *s.scratch);
  s.places = fopo_alloc((size_t)threads * DIGITS, sizeof *s.places);
  int status = s.moved != NULL && s.scratch != NULL && s.places != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) sort(&s, threads);
  fopo_free(s.moved);
  fopo_free(s.scratch);
  fopo_free(s.places);
  return status;
}
