/* Selection by digits: doubles in their order are integers in theirs, and the k-th smallest is
 * found from the top, 16 bits a round, by counting how many have each digit. Counts add up over
 * processes, so none needs the times of another, and no copy of them is made. */
#include "data/cuts.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/threads.h"

enum { BITS = 16, DIGITS = 1 << BITS };

typedef struct {
  const double *times; /* [n] of this process */
  size_t n, all;       /* all: times of all processes */
  const fopo_split_others *others;
  double *counts; /* [threads, DIGITS] */
} selection;

/* Ascends as x does; -0 is 0. */
static uint64_t key_of(double x) {
  uint64_t bits;
  x += 0.0;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static double time_of(uint64_t key) {
  uint64_t bits = key >> 63 ? key & ~((uint64_t)1 << 63) : ~key;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* counts [DIGITS]: of the times whose key has the bits of `known` above the digit at `shift`, how
 * many have each digit. Of all processes. */
static int count_digits(selection *s, uint64_t known, int shift) {
  size_t threads = (size_t)fopo_threads();
  memset(s->counts, 0, threads * DIGITS * sizeof *s->counts);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (size_t t = 0; t < threads; t++) {
    double *counts = s->counts + t * DIGITS;
    for (size_t e = s->n * t / threads; e < s->n * (t + 1) / threads; e++) {
      uint64_t key = key_of(s->times[e]), upper = shift + BITS < 64 ? key >> (shift + BITS) : 0;
      if (upper == known) counts[key >> shift & (DIGITS - 1)] += 1.0;
    }
  }
  for (size_t t = 1; t < threads; t++) {
    for (size_t i = 0; i < DIGITS; i++) s->counts[i] += s->counts[t * DIGITS + i];
  }
  return s->others->sum(s->counts, DIGITS, FOPO_OK);
}

/* *x = the k-th smallest of the times, counted from 0. */
static int select_kth(double *x, selection *s, size_t k) {
  uint64_t known = 0;
  for (int shift = 64 - BITS; shift >= 0; shift -= BITS) {
    size_t digit = 0;
    int status = count_digits(s, known, shift);
    if (status != FOPO_OK) return status;
    for (; digit + 1 < DIGITS && k >= (size_t)s->counts[digit]; digit++) {
      k -= (size_t)s->counts[digit];
    }
    known = known << BITS | digit;
  }
  *x = time_of(known);
  return FOPO_OK;
}

/* *n: the times at or after `from`. */
static int count_from(size_t *n, const selection *s, double from) {
  double count = 0.0;
  for (size_t e = 0; e < s->n; e++) count += s->times[e] >= from;
  int status = s->others->sum(&count, 1, FOPO_OK);
  *n = (size_t)count;
  return status;
}

static int cut(double *from, selection *s, const fopo_split_options *options,
               const fopo_split_plan *plan) {
  size_t n = s->all, in_test = (size_t)(options->test * (double)n);
  int status = FOPO_OK;
  from[1] = (double)INFINITY;
  if (plan->from[1] != NULL) {
    from[1] = *plan->from[1];
    status = count_from(&in_test, s, from[1]);
  } else if (in_test > 0) {
    status = select_kth(&from[1], s, n - in_test);
  }
  size_t later = in_test + (size_t)(options->valid * (double)n);
  from[0] = from[1];
  if (status == FOPO_OK && later != in_test) {
    status = select_kth(&from[0], s, later < n ? n - later : 0);
  }
  if (from[0] > from[1]) from[0] = from[1]; /* everything is at or after a given from[1] */
  if (plan->from[0] != NULL) from[0] = *plan->from[0];
  return status;
}

int fopo_cuts(double *from, const fopo_dataset *d, const fopo_split_options *options,
              const fopo_split_plan *plan, const fopo_split_others *others, int status) {
  selection s = {.times = d->times.first,
                 .n = fopo_csr_nnz(&d->matrix),
                 .all = fopo_dataset_nnz(d),
                 .others = others};
  s.counts = fopo_alloc((size_t)fopo_threads() * DIGITS, sizeof *s.counts);
  if (status == FOPO_OK && s.counts == NULL) status = FOPO_ERR_MEMORY;
  status = others->sum(NULL, 0, status);
  if (status == FOPO_OK) status = cut(from, &s, options, plan);
  fopo_free(s.counts);
  return status;
}
