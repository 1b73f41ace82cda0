/* The split of the authors' code, as a pure function of (dataset, options).
 *
 * Randomness: FOPO_STREAM_SPLIT, step 0 for the order of the users, step 1 + row for the items of
 * the user in that row of the dataset. So X and Y of a user depend on the seed and the row alone,
 * not on the shares and the other users.
 *
 * Each row is written by one thread, so the bits do not depend on the number of threads. */
#include "data/sessions.h"

#include <omp.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/threads.h"

/* Rows between two reports of progress: a few milliseconds of work for sessions of 100 items. */
enum { BLOCK = 4096 };

/* Scratch of the threads, each of which splits one session at a time. */
typedef struct {
  size_t longest;  /* items of the longest session */
  uint32_t *order; /* [threads, longest] a permutation of the positions in the row */
  uint8_t *in_x;   /* [threads, longest] 1: the item at that position belongs to X */
} scratch;

static int check_options(const fopo_split_options *o) {
  if (o->min_items < 2) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "min_items is %zu; a session needs 2 items or more, one to observe and one "
                     "to find",
                     o->min_items);
  }
  if (!(o->valid >= 0) || !(o->test >= 0) || !(o->valid + o->test < 1)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the shares valid = %g and test = %g leave nothing to train on; both must be "
                     ">= 0 and their sum < 1",
                     o->valid, o->test);
  }
  return FOPO_OK;
}

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

/* Allocates n sessions of these users and fills in indptr of X and Y. */
static int sessions_init(fopo_sessions *s, const fopo_csr *m, const uint32_t *users, size_t n) {
  size_t in_x = 0, in_y = 0;
  for (size_t i = 0; i < n; i++) {
    size_t count = fopo_csr_count(m, users[i]);
    in_x += count / 2;
    in_y += count - count / 2;
  }
  int status = fopo_csr_init(&s->X, n, m->cols, in_x, 0);
  if (status == FOPO_OK) status = fopo_csr_init(&s->Y, n, m->cols, in_y, 0);
  if (status != FOPO_OK) return status;
  s->users = fopo_alloc(n, sizeof *s->users);
  if (s->users == NULL) return FOPO_ERR_MEMORY;

  for (size_t i = 0; i < n; i++) {
    size_t count = fopo_csr_count(m, users[i]);
    s->users[i] = users[i];
    s->X.indptr[i + 1] = s->X.indptr[i] + count / 2;
    s->Y.indptr[i + 1] = s->Y.indptr[i] + (count - count / 2);
  }
  return FOPO_OK;
}

/* The first floor(n / 2) positions of a shuffle go to X, the others to Y. Both are in ascending
 * order of the ids because the row is read from left to right. */
static void split_row(fopo_sessions *s, size_t i, const fopo_csr *m, uint64_t seed, uint32_t *order,
                      uint8_t *in_x) {
  uint32_t user = s->users[i];
  const uint32_t *ids = fopo_csr_row(m, user);
  size_t n = fopo_csr_count(m, user);
  uint32_t *x = s->X.ids + s->X.indptr[i], *y = s->Y.ids + s->Y.indptr[i];

  fopo_shuffle(order, (uint32_t)n, seed, FOPO_STREAM_SPLIT, user + 1);
  for (size_t k = 0; k < n; k++) in_x[order[k]] = k < n / 2;
  for (size_t k = 0; k < n; k++) {
    if (in_x[k]) {
      *x++ = ids[k];
    } else {
      *y++ = ids[k];
    }
  }
}

static int split_rows(fopo_sessions *s, const fopo_csr *m, uint64_t seed, const scratch *each,
                      size_t done, size_t total) {
  size_t n = s->X.rows;
  for (size_t first = 0; first < n; first += BLOCK) {
    size_t last = first + BLOCK < n ? first + BLOCK : n;
#pragma omp parallel for num_threads(fopo_threads()) schedule(dynamic, 64)
    for (size_t i = first; i < last; i++) {
      size_t mine = (size_t)omp_get_thread_num() * each->longest;
      split_row(s, i, m, seed, each->order + mine, each->in_x + mine);
    }
    int status = fopo_progress("splitting sessions", (double)(done + last), (double)total);
    if (status != FOPO_OK) return status;
  }
  return FOPO_OK;
}

/* The number of users of each part; refuses an empty part unless its share is 0. */
static int share_users(size_t count[3], const fopo_split *split, const fopo_csr *m,
                       const fopo_split_options *o) {
  if (split->kept == 0) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "none of the %zu users has %zu items or more (the longest session has %zu); "
                     "lower min_items",
                     m->rows, o->min_items, longest_row(m));
  }
  size_t n = split->kept;
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

/* Makes the three parts of the users [kept], in their order. */
static int make_parts(fopo_split *split, const fopo_csr *m, const uint32_t *users,
                      const size_t count[3], uint64_t seed, const scratch *each) {
  fopo_sessions *parts[3] = {&split->train, &split->valid, &split->test};
  size_t done = 0;
  for (int p = 0; p < 3; p++) {
    int status = sessions_init(parts[p], m, users + done, count[p]);
    if (status == FOPO_OK) status = split_rows(parts[p], m, seed, each, done, split->kept);
    if (status != FOPO_OK) return status;
    done += count[p];
  }
  return FOPO_OK;
}

int fopo_split_new(fopo_split *split, const fopo_dataset *d, const fopo_split_options *options) {
  const fopo_csr *m = &d->matrix;
  uint32_t *users = NULL, *order = NULL;
  scratch each = {longest_row(m), NULL, NULL};
  size_t count[3] = {0, 0, 0}, threads = (size_t)fopo_threads();
  *split = (fopo_split){0};
  int status = check_options(options);
  if (status != FOPO_OK) return status;
  if (m->rows >= UINT32_MAX) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "%zu users are too many to split; the limit is %u", m->rows,
                     UINT32_MAX - 1);
  }
  status = fopo_memory_suffices((uint64_t)fopo_csr_nnz(m) * sizeof(uint32_t) + m->rows * 32 +
                                    threads * each.longest * 5,
                                "splitting the sessions", "lower max_users");
  if (status != FOPO_OK) return status;

  status = FOPO_ERR_MEMORY;
  users = fopo_alloc(m->rows, sizeof *users);
  order = fopo_alloc(m->rows, sizeof *order);
  each.order = fopo_alloc(threads * each.longest, sizeof *each.order);
  each.in_x = fopo_alloc(threads * each.longest, sizeof *each.in_x);
  if (users == NULL || order == NULL || each.order == NULL || each.in_x == NULL) goto out;

  keep_users(users, split, m, options);
  status = share_users(count, split, m, options);
  if (status != FOPO_OK) goto out;
  fopo_shuffle(order, (uint32_t)split->kept, options->seed, FOPO_STREAM_SPLIT, 0);
  for (size_t i = 0; i < split->kept; i++) order[i] = users[order[i]];
  status = make_parts(split, m, order, count, options->seed, &each);
out:
  fopo_free(users);
  fopo_free(order);
  fopo_free(each.order);
  fopo_free(each.in_x);
  if (status != FOPO_OK) fopo_split_done(split);
  return status;
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
