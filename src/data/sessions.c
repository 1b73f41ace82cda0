/* The parts of a split, as a pure function of (dataset, options, plan).
 *
 * First every interaction gets its sides (data/sides.h). Then a part is made by reading each user's
 * row from left to right, which keeps the ids in ascending order: what has a side of `x` goes to X,
 * what has one of `y` to Y.
 *
 * Randomness: FOPO_STREAM_SPLIT, step 0 for the order of the users; sides.c says the rest. */
#include "data/sessions.h"

#include <math.h>
#include <stdio.h>

#include "core/memory.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"
#include "data/sides.h"

/* The sides that make X and Y of a part. */
typedef struct {
  uint8_t x, y;
  int keep; /* 1: an item may be in both */
} rule;

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
  return fopo_fail(
      FOPO_ERR_ARGUMENT,
      "the dataset has no times%s%s; read it with time = \"COLUMN\", or split at random",
      *d->no_times != '\0' ? ": " : "", d->no_times);
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
  if (d->matrix.rows >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu users are too many to split; the limit is %u",
                     d->matrix.rows, UINT32_MAX - 1);
  }
  int status = check_shares(o, p);
  return status == FOPO_OK ? check_times(d, p) : status;
}

/* ---- users ---- */

/* users [rows]: the rows with enough items, in their order; split->kept of them. */
static void keep_users(uint32_t *users, fopo_split *split, const fopo_csr *m,
                       const fopo_split_options *o) {
  size_t limit = o->max_users > 0 ? o->max_users : m->rows;
  for (size_t row = 0; row < m->rows; row++) {
    if (fopo_csr_count(m, row) < o->min_items) {
      split->dropped++;
    } else if (split->kept < limit) {
      users[split->kept++] = (uint32_t)row;
    }
  }
}

static size_t longest_row(const fopo_csr *m) {
  size_t longest = 0;
  for (size_t row = 0; row < m->rows; row++) {
    size_t n = fopo_csr_count(m, row);
    if (n > longest) longest = n;
  }
  return longest;
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

/* The users with enough items [kept]: users in their order, shuffled in that of the parts. */
static int choose_users(uint32_t *users, uint32_t *shuffled, fopo_split *split, const fopo_csr *m,
                        const fopo_split_options *o) {
  keep_users(users, split, m, o);
  if (split->kept > 0) {
    fopo_shuffle(shuffled, (uint32_t)split->kept, o->seed, FOPO_STREAM_SPLIT, 0);
    for (size_t i = 0; i < split->kept; i++) shuffled[i] = users[shuffled[i]];
    return FOPO_OK;
  }
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "none of the %zu users has %zu items or more (the longest session has %zu); "
                   "lower min_items",
                   m->rows, o->min_items, longest_row(m));
}

/* ---- one part ---- */

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

/* ---- all parts ---- */

/* Every user is in one part. */
static int share_parts(fopo_split *split, const fopo_csr *m, const uint8_t *sides,
                       const uint32_t *users, const fopo_split_options *o) {
  static const rule halves = {FOPO_TRAIN_X, FOPO_TRAIN_Y, 1};
  fopo_sessions *parts[3] = {&split->train, &split->valid, &split->test};
  size_t count[3], done = 0;
  int status = share_users(count, split->kept, o);
  for (int p = 0; p < 3 && status == FOPO_OK; p++) {
    status = make_part(parts[p], m, sides, halves, users + done, count[p]);
    done += count[p];
  }
  return status;
}

/* Counts the users that are in no part as dropped, and those that each part lacks. */
static int count_users(fopo_split *split, size_t rows, const int wanted[3]) {
  const fopo_sessions *parts[3] = {&split->train, &split->valid, &split->test};
  size_t enough = split->kept;
  uint8_t *seen = fopo_alloc(rows, sizeof *seen);
  if (seen == NULL) return FOPO_ERR_MEMORY;
  split->kept = 0;
  for (int p = 0; p < 3; p++) {
    for (size_t i = 0; i < parts[p]->X.rows; i++) {
      split->kept += !seen[parts[p]->users[i]];
      seen[parts[p]->users[i]] = 1;
    }
  }
  for (int p = 0; p < 3; p++) split->without[p] = wanted[p] ? split->kept - parts[p]->X.rows : 0;
  split->dropped += enough - split->kept;
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

/* Every user may be in each part. */
static int window_parts(fopo_split *split, const fopo_csr *m, const uint8_t *sides,
                        const uint32_t *users, const fopo_split_options *o,
                        const fopo_split_plan *plan) {
  const rule rules[3] = {{FOPO_TRAIN_X, FOPO_TRAIN_Y, 1},
                         {FOPO_IN_TRAIN, FOPO_IN_VALID, plan->keep_seen},
                         {FOPO_IN_TRAIN | FOPO_IN_VALID, FOPO_IN_TEST, plan->keep_seen}};
  const int wanted[3] = {1, o->valid > 0, o->test > 0};
  fopo_sessions *parts[3] = {&split->train, &split->valid, &split->test};
  for (int p = 0; p < 3; p++) {
    if (!wanted[p]) continue;
    int status = make_part(parts[p], m, sides, rules[p], users, split->kept);
    if (status == FOPO_OK && parts[p]->users == NULL) status = refuse_empty(split, p, o, plan);
    if (status != FOPO_OK) return status;
  }
  return count_users(split, m->rows, wanted);
}

/* Where the windows of a split by time begin. */
static int set_cuts(fopo_split *split, const fopo_dataset *d, const fopo_split_options *o,
                    const fopo_split_plan *p) {
  if (p->kind != FOPO_SPLIT_TIME) return FOPO_OK;
  int status = fopo_sides_cuts(split->from, d, o, p);
  if (status != FOPO_OK) return status;
  if (split->from[0] <= split->from[1]) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT,
                   "the window of valid begins at %.14g, later than that of test, at %.14g; give "
                   "both, in this order",
                   split->from[0], split->from[1]);
}

int fopo_split_by(fopo_split *split, const fopo_dataset *d, const fopo_split_options *options,
                  const fopo_split_plan *plan) {
  const fopo_csr *m = &d->matrix;
  *split = (fopo_split){0};
  int status = check_options(d, options, plan);
  if (status != FOPO_OK) return status;
  uint64_t cuts = plan->kind == FOPO_SPLIT_TIME ? sizeof(double) : 0;
  status = fopo_memory_suffices((uint64_t)fopo_csr_nnz(m) * (sizeof(uint32_t) + 1 + cuts) +
                                    m->rows * 32 + (uint64_t)fopo_threads() * longest_row(m) * 36,
                                "splitting the sessions", "lower max_users");
  if (status != FOPO_OK) return status;

  uint32_t *users = fopo_alloc(m->rows, sizeof *users);
  uint32_t *shuffled = users != NULL ? fopo_alloc(m->rows, sizeof *shuffled) : NULL;
  uint8_t *sides = shuffled != NULL ? fopo_alloc(fopo_csr_nnz(m), sizeof *sides) : NULL;
  status = sides != NULL ? choose_users(users, shuffled, split, m, options) : FOPO_ERR_MEMORY;
  if (status == FOPO_OK) status = set_cuts(split, d, options, plan);
  if (status == FOPO_OK) {
    status = fopo_sides(sides, d, users, split->kept, options, plan, split->from);
  }
  if (status == FOPO_OK) {
    status = plan->kind == FOPO_SPLIT_USERS
                 ? share_parts(split, m, sides, shuffled, options)
                 : window_parts(split, m, sides, shuffled, options, plan);
  }
  fopo_free(users);
  fopo_free(shuffled);
  fopo_free(sides);
  if (status != FOPO_OK) fopo_split_done(split);
  return status;
}

int fopo_split_new(fopo_split *split, const fopo_dataset *d, const fopo_split_options *options) {
  return fopo_split_by(split, d, options, &(fopo_split_plan){0});
}

void fopo_sessions_done(fopo_sessions *s) {
  fopo_csr_done(&s->X);
  fopo_csr_done(&s->Y);
  fopo_free(s->users);
  s->users = NULL;
}

void fopo_split_done(fopo_split *split) {
  fopo_sessions_done(&split->train);
  fopo_sessions_done(&split->valid);
  fopo_sessions_done(&split->test);
  *split = (fopo_split){0};
}
