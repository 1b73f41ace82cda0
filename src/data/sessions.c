/* The parts of a split, as a pure function of (dataset, options, plan): every interaction gets its
 * sides, from which the sessions of each part are made.
 *
 * Of a range of the users each process knows the order of all users, 4 bytes each while it works,
 * and makes the sessions of its own; fopo_split_others then moves each to where its place is.
 *
 * Randomness: FOPO_STREAM_SPLIT, step 0 for the order of the users, step 1 + n for the sides of
 * user n of the dataset. So these depend on the seed and that number alone, not on the shares, the
 * other users and the process that has the user. Each row is written by one thread, so the bits do
 * not depend on the number of threads. */
#include "data/sessions.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/sort.h"
#include "core/status.h"
#include "core/threads.h"

typedef struct {
  fopo_split *split;
  const fopo_dataset *d; /* not owned, as are the next three */
  const fopo_split_options *options;
  const fopo_split_plan *plan;
  const fopo_split_others *others;
  uint32_t *users;     /* [n] rows with enough items, in their order */
  uint32_t *order;     /* [n] the same in the order of the parts */
  uint32_t *positions; /* [n] their places among the users of all processes, ascending */
  size_t n;
  uint8_t *sides;  /* [nnz] */
  uint32_t *ranks; /* [nnz] by time: which item of the training window it is; or NULL */
} job;

static int check_shares(const fopo_split_options *o, const fopo_split_plan *p) {
  int by_share = p->kind == FOPO_SPLIT_USERS || p->kind == FOPO_SPLIT_TIME;
  if (o->valid >= 0 && o->test >= 0 && (!by_share || o->valid + o->test < 1)) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the shares valid = %g and test = %g leave nothing to train on; both must be "
                   ">= 0 and their sum < 1",
                   o->valid, o->test);
}

static int check_times(const fopo_dataset *d, const fopo_split_plan *p) {
  int is_needed = p->kind == FOPO_SPLIT_TIME || p->by_time;
  if (!is_needed || d->times.first != NULL) return FOPO_OK;
  if (*d->no_times != '\0') {
    return fopo_fail(FOPO_ERR_ARGUMENT, "the dataset has no times: %s", d->no_times);
  }
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the dataset has no times; read it with time = \"COLUMN\", or "
                   "split at random");
}

static int check_options(const fopo_dataset *d, const fopo_split_options *o,
                         const fopo_split_plan *p) {
  if (o->min_items < 2) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "min_items is %zu; a session needs 2 items or more, one to observe and one "
                     "to find",
                     o->min_items);
  }
  if (p->observed != 0 && !(p->observed > 0 && p->observed < 1)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "observed = %g is no share of a session; it must be more than 0 and less than "
                     "1",
                     p->observed);
  }
  if (fopo_dataset_users(d) >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu users are too many to split; the limit is %u",
                     fopo_dataset_users(d), UINT32_MAX - 1);
  }
  int status = check_shares(o, p);
  return status == FOPO_OK ? check_times(d, p) : status;
}

/* ---- users ---- */

/* users [rows]: the rows with enough items, in their order; counts them. */
static fopo_split_users find_users(uint32_t *users, const fopo_csr *m,
                                   const fopo_split_options *o) {
  fopo_split_users found = {0};
  for (size_t row = 0; row < m->rows; row++) {
    size_t n = fopo_csr_count(m, row);
    if (n > found.longest) found.longest = n;
    if (n < o->min_items) {
      found.dropped++;
    } else {
      users[found.kept++] = (uint32_t)row;
    }
  }
  return found;
}

/* The number of users of each part; refuses an empty part unless its share is 0. */
static int share_users(size_t count[3], size_t n, const fopo_split_options *o) {
  count[1] = (size_t)(o->valid * (double)n + 0.5);
  count[2] = (size_t)(o->test * (double)n + 0.5);
  if ((o->valid > 0 && count[1] == 0) || (o->test > 0 && count[2] == 0) ||
      count[1] + count[2] >= n) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "%zu users with %zu items or more cannot be split with valid = %g and "
                     "test = %g: %s would be empty; lower min_items or change the shares",
                     n, o->min_items, o->valid, o->test,
                     o->valid > 0 && count[1] == 0  ? "valid"
                     : o->test > 0 && count[2] == 0 ? "test"
                                                    : "train");
  }
  count[0] = n - count[1] - count[2];
  return FOPO_OK;
}

/* order: the own users in that of the parts, which is a shuffle of the users of all processes;
 * `before` of them belong to earlier processes. */
static int order_users(job *j, size_t before) {
  size_t kept = j->split->kept, n = 0;
  j->order = fopo_alloc(kept, sizeof *j->order);
  j->positions = fopo_alloc(j->n, sizeof *j->positions);
  if (j->order == NULL || j->positions == NULL) return FOPO_ERR_MEMORY;
  fopo_shuffle(j->order, (uint32_t)kept, j->options->seed, FOPO_STREAM_SPLIT, 0);
  for (size_t i = 0; i < kept; i++) {
    size_t own = j->order[i] - before; /* wraps around for users of earlier processes */
    if (own >= j->n) continue;
    j->order[n] = j->users[own];
    j->positions[n++] = (uint32_t)i;
  }
  return FOPO_OK;
}

/* Users with enough items, at most max_users of all processes: the first ones. */
static int choose_users(job *j, int status) {
  fopo_split_users own = {0}, all;
  size_t before = 0, limit = j->options->max_users;
  j->users = fopo_alloc(j->d->matrix.rows, sizeof *j->users);
  if (status == FOPO_OK && j->users == NULL) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK) own = find_users(j->users, &j->d->matrix, j->options);
  status = j->others->count_users(&all, &before, &own, status);
  if (status != FOPO_OK) return status;
  if (all.kept == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "none of the %zu users has %zu items or more (the longest session has %zu); "
                     "lower min_items",
                     fopo_dataset_users(j->d), j->options->min_items, all.longest);
  }
  j->split->kept = limit > 0 && limit < all.kept ? limit : all.kept;
  j->split->dropped = all.dropped;
  size_t rest = j->split->kept > before ? j->split->kept - before : 0;
  j->n = own.kept < rest ? own.kept : rest;
  return order_users(j, before);
}

/* ---- where the windows of a split by time begin ---- */

/* Selection by digits: doubles in their order are integers in theirs, and the k-th smallest is
 * found from the top, 16 bits a round, by counting how many have each digit. Counts add up over
 * processes, so none needs the times of another, and no copy of them is made. */

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

/* from [2]: where the windows of valid and test begin, as the plan says, else by the shares of the
 * interactions. Then floor(test * nnz) of them are at or after from[1], and floor(valid * nnz) more
 * at or after from[0]; still more if several have the same time. nnz and times are those of all
 * processes. */
static int find_cuts(double *from, const fopo_dataset *d, const fopo_split_options *options,
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

/* ---- sides ---- */

/* On which side of a split each interaction falls: in which windows, and in the training window in
 * X or in Y. The events of a user stand in their order, and each says something about its item.
 *
 * An event is an interaction. With keep_seen a pair that repeats is two events, its first and its
 * last time, since the dataset keeps no other. Their order is that of time, or a shuffle; equal
 * times are in the order of the shuffle, so that no order of ids decides. */

/* Bits of an interaction, after FOPO_IN_TRAIN, FOPO_IN_VALID and FOPO_IN_TEST. */
enum { TRAIN_X = 8, TRAIN_Y = 16 };

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
  uint32_t *ranks; /* [nnz] or NULL */
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
    sides[events[k].position] |= k < in_x ? TRAIN_X : TRAIN_Y;
  }
}

/* The authors' split needs no events: the first items of a shuffle are X. */
static void halve(uint8_t *sides, const work *w, uint32_t row, size_t n, uint32_t *order) {
  size_t in_x = count_x(w, n);
  fopo_shuffle(order, (uint32_t)n, w->options->seed, FOPO_STREAM_SPLIT, step_of(w, row));
  memset(sides, FOPO_IN_TRAIN | TRAIN_Y, n);
  for (size_t k = 0; k < in_x; k++) sides[order[k]] = FOPO_IN_TRAIN | TRAIN_X;
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
  for (size_t k = 0; w->ranks != NULL && k < count; k++) {
    w->ranks[m->indptr[row] + events[k].position] = (uint32_t)k;
  }
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

/* The sides of every interaction of the own users, and their ranks; those of other users are not
 * written. A user with one item in the training window has it in neither X nor Y. Reports progress.
 */
static int find_sides(job *j) {
  const fopo_dataset *d = j->d;
  const fopo_split_plan *plan = j->plan;
  const uint32_t *users = j->users;
  size_t n = j->n;
  work w = {.d = d, .options = j->options, .plan = plan, .from = j->split->from, .ranks = j->ranks};
  size_t threads = (size_t)fopo_threads();
  w.observed = plan->observed > 0 ? plan->observed : 0.5;
  for (size_t i = 0; i < n; i++) {
    size_t count = fopo_csr_count(&d->matrix, users[i]);
    if (count > w.longest) w.longest = count;
  }
  w.order = fopo_alloc(threads * w.longest, sizeof *w.order);
  w.events = fopo_alloc(threads * 2 * w.longest, sizeof *w.events);
  int status = w.order != NULL && w.events != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = set_all(j->sides, &w, users, n);
  fopo_free(w.order);
  fopo_free(w.events);
  return status;
}

/* ---- the sessions of a part ---- */

/* The sides that make X and Y of a part. */
typedef struct {
  uint8_t x, y;
  int keep; /* 1: an item may be in both */
} rule;

static int in_x(uint8_t sides, rule r) { return (sides & r.x) != 0; }
static int in_y(uint8_t sides, rule r) { return (sides & r.y) != 0 && (r.keep || !in_x(sides, r)); }

/* Users of a part are in no order, so the processor cannot foresee which rows are read: what row
 * i + 8 needs is prefetched, in two steps, since its place must be known first. */
static void prefetch(const fopo_csr *m, const uint8_t *sides, const uint32_t *users, size_t i,
                     size_t n) {
  if (i + 16 < n) __builtin_prefetch(&m->indptr[users[i + 16]]);
  if (i + 8 >= n) return;
  uint64_t e = m->indptr[users[i + 8]];
  __builtin_prefetch(&sides[e]);
  __builtin_prefetch(&m->ids[e]);
  __builtin_prefetch(&m->ids[e] + 16);
}

/* x, y [n]: the items of each user in X and in Y; both 0 if one of them is. */
static void count_items(uint64_t *x, uint64_t *y, const fopo_csr *m, const uint8_t *sides, rule r,
                        const uint32_t *users, size_t n) {
#pragma omp parallel for num_threads(n > 4096 ? fopo_threads() : 1) schedule(dynamic, 1024)
  for (size_t i = 0; i < n; i++) {
    uint32_t here = 0, there = 0;
    prefetch(m, sides, users, i, n);
    for (uint64_t e = m->indptr[users[i]]; e < m->indptr[users[i] + 1]; e++) {
      here += (uint32_t)in_x(sides[e], r);
      there += (uint32_t)in_y(sides[e], r);
    }
    x[i] = here > 0 && there > 0 ? here : 0;
    y[i] = here > 0 && there > 0 ? there : 0;
  }
}

/* Allocates the sessions of those users that have one. */
static int init_sessions(fopo_sessions *s, size_t cols, const uint64_t *x, const uint64_t *y,
                         const uint32_t *users, size_t n) {
  size_t rows = 0, nnz_x = 0, nnz_y = 0;
  for (size_t i = 0; i < n; i++) {
    rows += x[i] > 0;
    nnz_x += x[i];
    nnz_y += y[i];
  }
  if (rows == 0) return FOPO_OK;
  int status = fopo_memory_suffices((uint64_t)(nnz_x + nnz_y) * sizeof(uint32_t),
                                    "splitting the sessions", "lower max_users");
  if (status == FOPO_OK) status = fopo_csr_init(&s->X, rows, cols, nnz_x, 0);
  if (status == FOPO_OK) status = fopo_csr_init(&s->Y, rows, cols, nnz_y, 0);
  if (status != FOPO_OK) return status;
  s->users = fopo_alloc(rows, sizeof *s->users);
  if (s->users == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0, row = 0; i < n; i++) {
    if (x[i] == 0) continue;
    s->users[row] = users[i];
    s->X.indptr[row + 1] = s->X.indptr[row] + x[i];
    s->Y.indptr[row + 1] = s->Y.indptr[row] + y[i];
    row++;
  }
  return FOPO_OK;
}

static void fill_sessions(fopo_sessions *s, const fopo_csr *m, const uint8_t *sides, rule r) {
#pragma omp parallel for num_threads(s->X.rows > 4096 ? fopo_threads() : 1) schedule(dynamic, 1024)
  for (size_t i = 0; i < s->X.rows; i++) {
    uint32_t *x = s->X.ids + s->X.indptr[i], *y = s->Y.ids + s->Y.indptr[i];
    prefetch(m, sides, s->users, i, s->X.rows);
    for (uint64_t e = m->indptr[s->users[i]]; e < m->indptr[s->users[i] + 1]; e++) {
      if (in_x(sides[e], r)) *x++ = m->ids[e];
      if (in_y(sides[e], r)) *y++ = m->ids[e];
    }
  }
}

static int fill_order(fopo_sessions *s, const fopo_csr *m, const uint8_t *sides, rule r,
                      const uint32_t *ranks) {
  s->order = fopo_alloc(fopo_csr_nnz(&s->X) + fopo_csr_nnz(&s->Y), sizeof *s->order);
  if (s->order == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < s->X.rows; i++) {
    uint32_t *order = s->order + s->X.indptr[i] + s->Y.indptr[i];
    for (uint64_t e = m->indptr[s->users[i]]; e < m->indptr[s->users[i] + 1]; e++) {
      if (in_x(sides[e], r) || in_y(sides[e], r)) order[ranks[e]] = m->ids[e];
    }
  }
  return FOPO_OK;
}

/* The sessions of the users [n], rows of m, in this order; a user with nothing in X or in Y has
 * none. Without any, *s stays {0}. sides [nnz]. A row is read from left to right, which keeps the
 * ids ascending: an entry whose sides have a bit of r.x goes to X, one with a bit of r.y to Y. */
static int make_part(fopo_sessions *s, const fopo_csr *m, const uint8_t *sides, rule r,
                     const uint32_t *users, size_t n) {
  uint64_t *x = fopo_alloc(n, sizeof *x), *y = fopo_alloc(n, sizeof *y);
  int status = x != NULL && y != NULL ? FOPO_OK : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) {
    count_items(x, y, m, sides, r, users, n);
    status = init_sessions(s, m->cols, x, y, users, n);
  }
  if (status == FOPO_OK && s->users != NULL) fill_sessions(s, m, sides, r);
  fopo_free(x);
  fopo_free(y);
  return status;
}

/* ---- parts ---- */

/* The users of one part. */
static fopo_split_segment segment_of(const job *j, size_t first, size_t count) {
  size_t begin = fopo_sorted_place(j->positions, j->n, (uint32_t)first);
  return (fopo_split_segment){
      .rows = j->order + begin,
      .positions = j->positions + begin,
      .n = fopo_sorted_place(j->positions, j->n, (uint32_t)(first + count)) - begin,
      .first = first,
      .all = count,
      .first_user = j->d->first_user};
}

static fopo_sessions *part_of(fopo_split *split, int p) {
  return p == 0 ? &split->train : p == 1 ? &split->valid : &split->test;
}

/* users [3]: whose sessions each part may have; all 0 for a part that is not wanted. */
static int share_parts(fopo_split_segment *users, const job *j) {
  const fopo_split_options *o = j->options;
  const int wanted[3] = {1, o->valid > 0, o->test > 0};
  size_t count[3] = {0}, done = 0, kept = j->split->kept;
  if (j->plan->kind == FOPO_SPLIT_USERS) { /* every user is in one part */
    int status = share_users(count, kept, o);
    if (status != FOPO_OK) return status;
    for (int p = 0; p < 3; p++) {
      users[p] = segment_of(j, done, count[p]);
      done += count[p];
    }
    return FOPO_OK;
  }
  for (int p = 0; p < 3; p++) {
    users[p] = wanted[p] ? segment_of(j, 0, kept) : (fopo_split_segment){0};
  }
  return FOPO_OK;
}

/* The sessions of the own users. */
static int make_parts(job *j, const fopo_split_segment *users) {
  const int keep = j->plan->keep_seen, is_users = j->plan->kind == FOPO_SPLIT_USERS;
  const rule halves = {TRAIN_X, TRAIN_Y, 1};
  const rule windows[3] = {halves,
                           {FOPO_IN_TRAIN, FOPO_IN_VALID, keep},
                           {FOPO_IN_TRAIN | FOPO_IN_VALID, FOPO_IN_TEST, keep}};
  int status = FOPO_OK;
  for (int p = 0; p < 3 && status == FOPO_OK; p++) {
    status = make_part(part_of(j->split, p), &j->d->matrix, j->sides,
                       is_users ? halves : windows[p], users[p].rows, users[p].n);
  }
  fopo_sessions *train = &j->split->train;
  if (status == FOPO_OK && j->ranks != NULL && train->users != NULL) {
    status = fill_order(train, &j->d->matrix, j->sides, halves, j->ranks);
  }
  return status;
}

/* Own users with a session in some part. */
static int count_seen(double *n, const job *j) {
  uint8_t *seen = fopo_alloc(j->d->matrix.rows, sizeof *seen);
  if (seen == NULL) return FOPO_ERR_MEMORY;
  for (int p = 0; p < 3; p++) {
    const fopo_sessions *s = part_of(j->split, p);
    for (size_t i = 0; i < s->X.rows; i++) {
      *n += !seen[s->users[i]];
      seen[s->users[i]] = 1;
    }
  }
  fopo_free(seen);
  return FOPO_OK;
}

static int refuse_empty(const fopo_split *split, int part, const fopo_split_options *o,
                        const fopo_split_plan *plan) {
  static const char *const names[] = {"train", "valid", "test"};
  char where[96] = "";
  if (plan->kind == FOPO_SPLIT_TIME && isfinite(split->from[1])) {
    snprintf(where, sizeof where, " (valid begins at %.14g, test at %.14g)", split->from[0],
             split->from[1]);
  } else if (plan->kind == FOPO_SPLIT_TIME && isfinite(split->from[0])) {
    snprintf(where, sizeof where, " (valid begins at %.14g)", split->from[0]);
  }
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "%s would be empty: none of the %zu users with %zu items or more has %s%s; "
                   "lower min_items%s",
                   names[part], split->kept, o->min_items,
                   part == 0   ? "two items to train on"
                   : part == 1 ? "items both before and in the window of valid"
                               : "items both before and in the window of test",
                   where,
                   plan->kind == FOPO_SPLIT_FILES  ? ", or check that the files have the same users"
                   : plan->kind == FOPO_SPLIT_TIME ? ", or move the cuts"
                                                   : "");
}

/* Refuses an empty part; counts the users that are in no part as dropped, and those that each part
 * lacks. rows [3]: sessions of each part, seen: users in some part. */
static int count_users(job *j, const fopo_split_segment *users, const size_t *rows, size_t seen) {
  fopo_split *split = j->split;
  if (j->plan->kind == FOPO_SPLIT_USERS) return FOPO_OK;
  for (int p = 0; p < 3; p++) {
    if (users[p].all > 0 && rows[p] == 0) return refuse_empty(split, p, j->options, j->plan);
  }
  for (int p = 0; p < 3; p++) split->without[p] = users[p].all > 0 ? seen - rows[p] : 0;
  split->dropped += split->kept - seen;
  split->kept = seen;
  return FOPO_OK;
}

/* Each session moves to the process that has its place in its part. */
static int deal_parts(job *j, const fopo_split_segment *users, const size_t *rows, int status) {
  for (int p = 0; p < 3 && status == FOPO_OK; p++) {
    if (rows[p] == 0) continue;
    status = j->others->deal(part_of(j->split, p), &users[p], j->d->matrix.cols, rows[p], status);
  }
  return status;
}

static int all_parts(job *j, int status) {
  fopo_split_segment users[3];
  size_t rows[3];
  double counts[4] = {0}; /* sessions of each part, users with one */
  if (status == FOPO_OK) status = share_parts(users, j);
  if (status == FOPO_OK) status = make_parts(j, users);
  for (int p = 0; p < 3; p++) counts[p] = (double)part_of(j->split, p)->X.rows;
  if (status == FOPO_OK) status = count_seen(&counts[3], j);
  status = j->others->sum(counts, 4, status);
  for (int p = 0; p < 3; p++) rows[p] = (size_t)counts[p];
  if (status == FOPO_OK) status = count_users(j, users, rows, (size_t)counts[3]);
  if (status == FOPO_OK) status = deal_parts(j, users, rows, status);
  for (int p = 0; p < 3; p++) { /* in windows train alone is divided */
    fopo_sessions *s = part_of(j->split, p);
    s->at_random = !j->plan->by_time && (p == 0 || j->plan->kind == FOPO_SPLIT_USERS);
    s->keeps_seen = j->plan->keep_seen;
  }
  return status;
}

/* Where the windows of a split by time begin. */
static int set_cuts(job *j, int status) {
  fopo_split *split = j->split;
  if (j->plan->kind != FOPO_SPLIT_TIME) return status;
  status = find_cuts(split->from, j->d, j->options, j->plan, j->others, status);
  if (status != FOPO_OK) return status;
  if (split->from[0] <= split->from[1]) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the window of valid begins at %.14g, later than that of test, at %.14g; give "
                   "both, in this order",
                   split->from[0], split->from[1]);
}

/* Sessions whose items may be taken twice keep no order. */
static int keeps_order(const fopo_split_plan *plan) { return plan->by_time && !plan->keep_seen; }

static int check_memory(const fopo_dataset *d, const fopo_split_plan *plan) {
  const fopo_csr *m = &d->matrix;
  size_t entry = sizeof(uint32_t) + 1 + (keeps_order(plan) ? 2 * sizeof(uint32_t) : 0);
  return fopo_memory_suffices((uint64_t)fopo_csr_nnz(m) * entry + m->rows * 32 +
                                  fopo_dataset_users(d) * 4 +
                                  (uint64_t)fopo_threads() * fopo_csr_longest(m) * 36,
                              "splitting the sessions", "lower max_users");
}

int fopo_split_among(fopo_split *split, const fopo_dataset *d, const fopo_split_options *options,
                     const fopo_split_plan *plan, const fopo_split_others *others) {
  job j = {.split = split, .d = d, .options = options, .plan = plan, .others = others};
  *split = (fopo_split){0};
  int status = check_options(d, options, plan);
  if (status != FOPO_OK) return status; /* in all processes */
  status = choose_users(&j, check_memory(d, plan));
  if (status == FOPO_OK) status = set_cuts(&j, status);
  if (status == FOPO_OK) j.sides = fopo_alloc(fopo_csr_nnz(&d->matrix), sizeof *j.sides);
  if (status == FOPO_OK && j.sides == NULL) status = FOPO_ERR_MEMORY;
  if (status == FOPO_OK && keeps_order(plan)) {
    j.ranks = fopo_alloc(fopo_csr_nnz(&d->matrix), sizeof *j.ranks);
    if (j.ranks == NULL) status = FOPO_ERR_MEMORY;
  }
  if (status == FOPO_OK) status = find_sides(&j);
  if (status == FOPO_OK) status = all_parts(&j, status);
  fopo_free(j.users);
  fopo_free(j.order);
  fopo_free(j.positions);
  fopo_free(j.sides);
  fopo_free(j.ranks);
  fopo_dataset_idle(d);
  if (status != FOPO_OK) fopo_split_done(split);
  return status;
}

/* ---- one process has all users ---- */

static int count_alone(fopo_split_users *all, size_t *before, const fopo_split_users *own,
                       int status) {
  *all = *own;
  *before = 0;
  return status;
}

static int sum_alone(double *x, size_t n, int status) {
  (void)x, (void)n;
  return status;
}

static int deal_alone(fopo_sessions *s, const fopo_split_segment *users, size_t cols, size_t total,
                      int status) {
  (void)s, (void)users, (void)cols, (void)total;
  return status;
}

int fopo_split_by(fopo_split *split, const fopo_dataset *d, const fopo_split_options *options,
                  const fopo_split_plan *plan) {
  static const fopo_split_others none = {count_alone, sum_alone, deal_alone};
  return fopo_split_among(split, d, options, plan, &none);
}

int fopo_sessions_check(const fopo_sessions *s, size_t contexts, size_t items) {
  if (contexts > 0 && contexts == s->Y.rows && items == s->Y.cols) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "%zu contexts and %zu items do not fit sessions of %zu contexts x %zu items; "
                   "make contexts and items from the same sessions",
                   contexts, items, s->Y.rows, s->Y.cols);
}

int fopo_sessions_take(fopo_sessions *some, const fopo_sessions *s, const uint32_t *rows,
                       size_t n) {
  some->at_random = s->at_random;
  some->keeps_seen = s->keeps_seen;
  int status = fopo_csr_take(&some->X, &s->X, rows, n);
  if (status == FOPO_OK) status = fopo_csr_take(&some->Y, &s->Y, rows, n);
  if (status != FOPO_OK) return status;
  some->users = fopo_alloc(n, sizeof *some->users);
  if (some->users == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) some->users[i] = s->users[rows[i]];
  if (s->order == NULL) return FOPO_OK;
  some->order = fopo_alloc(fopo_csr_nnz(&some->X) + fopo_csr_nnz(&some->Y), sizeof *some->order);
  if (some->order == NULL) return FOPO_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    size_t count = fopo_csr_count(&some->X, i) + fopo_csr_count(&some->Y, i);
    memcpy(some->order + some->X.indptr[i] + some->Y.indptr[i],
           s->order + s->X.indptr[rows[i]] + s->Y.indptr[rows[i]], count * sizeof *s->order);
  }
  return FOPO_OK;
}

void fopo_sessions_done(fopo_sessions *s) {
  fopo_csr_done(&s->X);
  fopo_csr_done(&s->Y);
  fopo_free(s->users);
  fopo_free(s->order);
  *s = (fopo_sessions){0};
}

void fopo_split_done(fopo_split *split) {
  fopo_sessions_done(&split->train);
  fopo_sessions_done(&split->valid);
  fopo_sessions_done(&split->test);
  *split = (fopo_split){0};
}
