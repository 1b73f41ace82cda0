/* The events of a user in their order, and what each of them says about its item.
 *
 * An event is an interaction. With keep_seen a pair that repeats is two events, its first and its
 * last time, since the dataset keeps no other. Their order is that of time, or a shuffle; equal
 * times are in the order of the shuffle, so that no order of ids decides.
 *
 * Randomness: FOPO_STREAM_SPLIT, step 1 + n for user n of the dataset. So the sides of a user
 * depend on the seed and that number alone, not on the shares, the other users and the process that
 * has the user. Each row is written by one thread, so the bits do not depend on the number of
 * threads. */
#include "data/sides.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"

/* Rows between two reports of progress: a few milliseconds of work for sessions of 100 items. */
enum { BLOCK = 4096 };

typedef struct {
  double time;
  uint32_t place;    /* in the shuffle; from the number of items on: a repeat */
  uint32_t position; /* of the item in the row */
} event;

/* What all rows share, and the scratch of each thread. */
typedef struct {
  const fopo_dataset *d; /* not owned, as are the next three */
  const fopo_split_options *options;
  const fopo_split_plan *plan;
  const double *from; /* [2] */
  double observed;
  size_t longest;  /* items of the longest session */
  uint32_t *order; /* [threads, longest] */
  event *events;   /* [threads, 2 longest] */
} work;

static int compare(const void *left, const void *right) {
  const event *a = left, *b = right;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  return a->place < b->place ? -1 : a->place > b->place;
}

/* The step that the draws of a row are made with. */
static uint32_t step_of(const work *w, uint32_t row) {
  return (uint32_t)w->d->first_user + row + 1;
}

/* events: those of a row, in their order; returns how many there are. */
static size_t list_events(event *events, const work *w, uint32_t row, uint32_t *order) {
  const fopo_csr *m = &w->d->matrix;
  size_t n = fopo_csr_count(m, row), count = n, at = (size_t)m->indptr[row];
  const double *first = w->d->times.first, *last = w->d->times.last;
  fopo_shuffle(order, (uint32_t)n, w->options->seed, FOPO_STREAM_SPLIT, step_of(w, row));
  for (size_t k = 0; k < n; k++) {
    events[k] = (event){first != NULL ? first[at + order[k]] : 0, (uint32_t)k, order[k]};
  }
  /* of given files the last time may be that of a later file, which says nothing about train */
  int repeats = w->plan->keep_seen && last != NULL && w->plan->kind != FOPO_SPLIT_FILES;
  for (size_t k = 0; k < n && repeats; k++) {
    size_t e = at + order[k];
    if (last[e] > first[e]) events[count++] = (event){last[e], (uint32_t)(n + k), order[k]};
  }
  if (w->plan->by_time) qsort(events, count, sizeof *events, compare);
  return count;
}

/* The window of event k of n. */
static uint8_t window_of(const work *w, const event *e, size_t k, size_t n) {
  const fopo_split_options *o = w->options;
  if (w->plan->kind == FOPO_SPLIT_TIME) {
    return e->time < w->from[0]   ? FOPO_IN_TRAIN
           : e->time < w->from[1] ? FOPO_IN_VALID
                                  : FOPO_IN_TEST;
  }
  if (w->plan->kind == FOPO_SPLIT_LAST) {
    size_t from_test = n - (o->test > 0), from_valid = from_test - (o->valid > 0);
    return k < from_valid ? FOPO_IN_TRAIN : k < from_test ? FOPO_IN_VALID : FOPO_IN_TEST;
  }
  return FOPO_IN_TRAIN;
}

/* Writes the windows; then events [result] are those of the training window. Without by_time an
 * item is in it once, since a repeat has no place among items at random. */
static size_t set_windows(uint8_t *sides, const work *w, event *events, size_t n, size_t items) {
  size_t in_train = 0;
  int given = w->plan->kind == FOPO_SPLIT_FILES;
  for (size_t k = 0; k < n; k++) {
    event e = events[k];
    uint8_t window = given ? sides[e.position] & FOPO_IN_TRAIN : window_of(w, &e, k, n);
    sides[e.position] |= window;
    int is_counted = w->plan->by_time || e.place < items;
    if (window == FOPO_IN_TRAIN && is_counted) events[in_train++] = e;
  }
  return in_train;
}

/* The items of X among n: a share, at least one. */
static size_t count_x(const work *w, size_t n) {
  size_t in_x = (size_t)(w->observed * (double)n);
  return in_x > 0 ? in_x : 1;
}

/* X is the first share of the events. The share is less than 1, so Y is not empty. */
static void divide(uint8_t *sides, const work *w, const event *events, size_t n) {
  if (n < 2) return;
  size_t in_x = count_x(w, n);
  for (size_t k = 0; k < n; k++) {
    sides[events[k].position] |= k < in_x ? FOPO_TRAIN_X : FOPO_TRAIN_Y;
  }
}

/* The authors' split needs no events: the first items of a shuffle are X. */
static void halve(uint8_t *sides, const work *w, uint32_t row, size_t n, uint32_t *order) {
  size_t in_x = count_x(w, n);
  fopo_shuffle(order, (uint32_t)n, w->options->seed, FOPO_STREAM_SPLIT, step_of(w, row));
  memset(sides, FOPO_IN_TRAIN | FOPO_TRAIN_Y, n);
  for (size_t k = 0; k < in_x; k++) sides[order[k]] = FOPO_IN_TRAIN | FOPO_TRAIN_X;
}

static void set_sides(uint8_t *all, const work *w, uint32_t row) {
  const fopo_csr *m = &w->d->matrix;
  size_t n = fopo_csr_count(m, row), thread = (size_t)omp_get_thread_num();
  uint32_t *order = w->order + thread * w->longest;
  if (w->plan->kind == FOPO_SPLIT_USERS && !w->plan->by_time) {
    halve(all + m->indptr[row], w, row, n, order);
    return;
  }
  event *events = w->events + thread * 2 * w->longest;
  uint8_t *sides = all + m->indptr[row];
  if (w->plan->kind == FOPO_SPLIT_FILES) {
    memcpy(sides, w->plan->windows + m->indptr[row], n);
  } else {
    memset(sides, 0, n);
  }
  size_t count = list_events(events, w, row, order);
  count = set_windows(sides, w, events, count, n);
  divide(sides, w, events, count);
}

static int set_all(uint8_t *sides, const work *w, const uint32_t *users, size_t n) {
  for (size_t first = 0; first < n; first += BLOCK) {
    size_t last = first + BLOCK < n ? first + BLOCK : n;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 64)
    for (size_t i = first; i < last; i++) set_sides(sides, w, users[i]);
    int status = fopo_progress("splitting sessions", (double)last, (double)n);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

int fopo_sides(uint8_t *sides, const fopo_dataset *d, const uint32_t *users, size_t n,
               const fopo_split_options *options, const fopo_split_plan *plan, const double *from) {
  work w = {.d = d, .options = options, .plan = plan, .from = from};
  size_t threads = (size_t)fopo_threads();
  w.observed = plan->observed > 0 ? plan->observed : 0.5;
  for (size_t i = 0; i < n; i++) {
    size_t count = fopo_csr_count(&d->matrix, users[i]);
    if (count > w.longest) w.longest = count;
  }
  w.order = fopo_alloc(threads * w.longest, sizeof *w.order);
  w.events = fopo_alloc(threads * 2 * w.longest, sizeof *w.events);
  int status = w.order != NULL && w.events != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = set_all(sides, &w, users, n);
  fopo_free(w.order);
  fopo_free(w.events);
  return status;
}
