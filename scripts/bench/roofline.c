/* What the memory allows: a step's rows are gathered and nothing is computed.
 *
 *   roofline P L B S threads N seed
 *
 * P rows of L floats lie packed in huge pages, as the items of a policy do. A step reads B x S
 * rows, those that uniform SNIS draws in the first steps of a trainer over N contexts with this
 * seed: the same ids in the same order, made beforehand. It reads one word of every cache line. How
 * far ahead to prefetch and into which cache is tried out at the start and the fastest kept.
 * Each line of standard input is a number of steps; the answer is "seconds a step,check sum". */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "core/rng.h"

enum {
  LINE = 64,
  HUGE_PAGE = 2 << 20,
  BATCHES = 64, /* different ones, so that no batch is still in a cache when its turn comes again */
  TRIALS = 5,   /* of each way; the least counts, for other work on the machine only adds */
  TRIAL = 4     /* steps of a trial */
};

typedef struct {
  const char *items; /* [P] rows */
  size_t row;        /* bytes of a row */
  uint32_t *ids;     /* [BATCHES, B S] */
  size_t P, n;       /* n = B S */
  int threads;
} table;

typedef uint32_t gatherer(const table *t, const uint32_t *ids, size_t n, size_t ahead);

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t word_at(const char *p) { return *(const uint32_t *)(const void *)p; }

/* One word of every line of row i, while the lines of row i + ahead are on their way. */
#define GATHER(name, locality)                                                                     \
  static uint32_t name(const table *t, const uint32_t *ids, size_t n, size_t ahead) {              \
    uint32_t sum = 0;                                                                              \
    size_t row = t->row;                                                                           \
    for (size_t i = 0; i < n; i++) {                                                               \
      const char *p = t->items + ids[i] * row, *end = p + row - sizeof(uint32_t);                  \
      const char *next = t->items + ids[i + ahead < n ? i + ahead : n - 1] * row;                  \
      size_t lines = ((uintptr_t)end / LINE) - ((uintptr_t)p / LINE);                              \
      __builtin_prefetch(next + row - 1, 0, locality);                                             \
      for (size_t j = 0; j < lines; j++) {                                                         \
        __builtin_prefetch(next + j * LINE, 0, locality);                                          \
        sum += word_at(p + j * LINE);                                                              \
      }                                                                                            \
      sum += word_at(end);                                                                         \
    }                                                                                              \
    return sum;                                                                                    \
  }

GATHER(gather_l1, 3)
GATHER(gather_l2, 2)
GATHER(gather_once, 0)

static uint32_t plain(const table *t, const uint32_t *ids, size_t n, size_t ahead) {
  (void)ahead;
  uint32_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    const char *p = t->items + ids[i] * t->row, *end = p + t->row - sizeof(uint32_t);
    for (; (uintptr_t)p / LINE < (uintptr_t)end / LINE; p += LINE) sum += word_at(p);
    sum += word_at(end);
  }
  return sum;
}

static const struct {
  const char *name;
  gatherer *gather;
} ways[] = {{"no prefetch", plain}, {"L1", gather_l1}, {"L2", gather_l2}, {"NTA", gather_once}};

/* Seconds a step. */
static double run(const table *t, gatherer *gather, size_t ahead, size_t steps, uint32_t *sum) {
  static size_t batch; /* goes on where the last run ended */
  double start = now();
  for (size_t step = 0; step < steps; step++) {
    const uint32_t *ids = t->ids + (batch++ % BATCHES) * t->n;
    uint32_t total = 0;
#pragma omp parallel num_threads(t->threads) reduction(+ : total)
    {
      size_t k = (size_t)omp_get_thread_num(), of = (size_t)omp_get_num_threads();
      size_t from = t->n * k / of, to = t->n * (k + 1) / of;
      total += gather(t, ids + from, to - from, ahead);
    }
    *sum += total;
  }
  return (now() - start) / (double)steps;
}

static double least_run(const table *t, gatherer *gather, size_t ahead, uint32_t *sum) {
  double least = 1e30;
  for (int i = 0; i < TRIALS; i++) {
    double seconds = run(t, gather, ahead, TRIAL, sum);
    if (seconds < least) least = seconds;
  }
  return least;
}

static void *huge(size_t bytes) {
  size_t length = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  void *p = aligned_alloc(HUGE_PAGE, length);
  if (p == NULL) {
    fprintf(stderr, "roofline: no memory for %zu bytes\n", bytes);
    exit(1);
  }
  madvise(p, length, MADV_HUGEPAGE);
  return p;
}

static void fill(table *t, uint32_t *items) {
  size_t words = t->P * t->row / sizeof(uint32_t);
#pragma omp parallel for num_threads(t->threads)
  for (size_t i = 0; i < words; i++) items[i] = (uint32_t)i;
}

/* The trainer's batches of steps 0, 1, .. and the draws of their contexts. */
static void draw(table *t, size_t B, size_t S, uint32_t N, uint64_t seed) {
  size_t per_epoch = (N + B - 1) / B;
  uint32_t *order = huge(N * sizeof *order);
  for (size_t step = 0, batch = 0; batch < BATCHES; step++) {
    size_t first = step % per_epoch * B;
    if (first == 0) {
      fopo_shuffle(order, N, seed, FOPO_STREAM_SHUFFLE, (uint32_t)(step / per_epoch));
    }
    if (N - first < B) continue; /* the short batch at an epoch's end */
    uint32_t *ids = t->ids + batch++ * t->n;
    for (size_t i = 0; i < t->n; i++) {
      uint32_t row = order[first + i / S], s = (uint32_t)(i % S);
      fopo_words w = fopo_random(seed, FOPO_STREAM_SAMPLE, (uint32_t)step, row, s >> 2);
      ids[i] = fopo_below((uint32_t)t->P, w.v[s & 3], seed, (uint32_t)step, row, s);
    }
  }
  free(order);
}

int main(int argc, char **argv) {
  if (argc != 8) {
    fputs("usage: roofline P L B S threads N seed\n", stderr);
    return 2;
  }
  size_t arg[7];
  for (int i = 0; i < 7; i++) arg[i] = strtoull(argv[i + 1], NULL, 10);
  table t = {.P = arg[0], .row = arg[1] * sizeof(float), .n = arg[2] * arg[3]};
  t.threads = (int)arg[4];
  uint32_t *items = huge(t.P * t.row);
  t.items = (const char *)items;
  t.ids = huge(BATCHES * t.n * sizeof(uint32_t));
  if (arg[5] < arg[2]) {
    fputs("roofline: N contexts are fewer than a batch\n", stderr);
    return 2;
  }
  fill(&t, items);
  draw(&t, arg[2], arg[3], (uint32_t)arg[5], arg[6]);

  uint32_t sum = 0;
  size_t way = 0, ahead = 0;
  double least = 1e30;
  for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
    for (size_t a = 1; a <= (w == 0 ? 1 : 128); a *= 2) {
      double seconds = least_run(&t, ways[w].gather, a, &sum);
      if (seconds < least) least = seconds, way = w, ahead = a;
    }
  }
  printf("ready,%s,%zu rows ahead\n", ways[way].name, ahead);
  fflush(stdout);

  unsigned long steps;
  while (scanf("%lu", &steps) == 1) {
    double seconds = run(&t, ways[way].gather, ahead, steps > 0 ? steps : 1, &sum);
    printf("%.9g,%u\n", seconds, sum);
    fflush(stdout);
  }
  return 0;
}
