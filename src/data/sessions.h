/* Sessions split in two: X is observed, Y is to be predicted (the paper, "Experimental Results").
 *
 * As in the authors' code, if nothing else is said: repeats count once (0/1); users with at least
 * min_items are kept, at most the first max_users of them; each user's items are shuffled, the
 * first floor(n/2) are X and the rest Y; users are shuffled and split into train, valid and test.
 *
 * The other splits cut the interactions instead of the users. Each falls into one of three windows,
 * train, valid and test, in this order, and a user may have a session in every part:
 *
 *   part     X                                      Y
 *   train    the training window is divided in two
 *   valid    the training window                    the valid window
 *   test     the training and the valid window      the test window
 *
 * So what train is made of, and all that is computed from it, knows nothing of the later windows.
 */
#ifndef FOPO_DATA_SESSIONS_H
#define FOPO_DATA_SESSIONS_H

#include "data/dataset.h"

typedef struct {
  size_t min_items; /* >= 2; 20 in the paper */
  size_t max_users; /* 0: all */
  double valid;     /* share of users, 0 <= valid + test < 1 */
  double test;
  uint64_t seed;
} fopo_split_options;

typedef enum {
  FOPO_SPLIT_USERS, /* the authors': every user is in one part */
  FOPO_SPLIT_TIME,  /* windows end at two times; valid and test are shares of the interactions */
  FOPO_SPLIT_LAST,  /* the last item of each user is test, the one before it valid; a share of 0
                       leaves the part out */
  FOPO_SPLIT_FILES  /* windows are given, as fopo_dataset_join makes them; shares as for LAST */
} fopo_split_kind;

/* {0} is the authors' split. */
typedef struct {
  fopo_split_kind kind;
  int by_time;   /* 1: X is what came first, Y what came later, equal times at random; 0: X and Y,
                    and with LAST the last items, are chosen at random */
  int keep_seen; /* 1: an item of X that is taken again later is in Y too; 0: Y has no item of X */
  double observed;        /* share of a session's items in X, 0 < observed < 1; 0: a half */
  const double *from[2];  /* TIME: where the windows of valid and test begin; NULL: by the shares */
  const uint8_t *windows; /* FILES: [nnz] bits FOPO_IN_TRAIN, FOPO_IN_VALID, FOPO_IN_TEST */
} fopo_split_plan;

enum { FOPO_IN_TRAIN = 1, FOPO_IN_VALID = 2, FOPO_IN_TEST = 4 };

/* N contexts: the observed items and those to be predicted. Rows of X, Y and users correspond.
 *
 * Sessions may be shared out to several processes: then the rows are the contexts first ..
 * first + X.rows - 1 of `all`. */
typedef struct {
  fopo_csr X;         /* [N, P], values NULL */
  fopo_csr Y;         /* [N, P], values NULL; shares no id with X, unless keep_seen */
  uint32_t *users;    /* [N] users of the dataset, counted over all processes */
  size_t first, all;  /* of sessions that are shared out; all 0: they are not */
  const float *value; /* [P] what each item of Y is worth to who judges by these sessions, none
                       * below 0; NULL: 1. Not owned */
  int keeps_seen;     /* 1: Y may have items of X, and to recommend them is right */
  int at_random;      /* 1: X is a random choice of a session's items, and Y the others; 0: there
                       * is an order, or it is not known */
  uint32_t *order;    /* [items of X and Y] the items of each session as they came, those of session
                       * n from X.indptr[n] + Y.indptr[n] on; NULL: not known. Of train by time */
} fopo_sessions;

static inline float fopo_sessions_value(const fopo_sessions *s, uint32_t item) {
  return s->value != NULL ? s->value[item] : 1.0f;
}

static inline size_t fopo_sessions_count(const fopo_sessions *s) {
  return s->all > 0 ? s->all : s->X.rows;
}

/* The i-th of n contexts that are evenly spread over N >= n. */
static inline size_t fopo_spread_context(size_t i, size_t n, size_t N) {
  return (size_t)((uint64_t)i * N / n);
}

typedef struct {
  fopo_sessions train, valid, test;
  size_t kept, dropped; /* users in some part, and in none: with too few items (or, in windows, with
                           nothing on both sides) */
  size_t without[3];    /* of those kept, users without a session in train, valid, test; 0 with
                           USERS */
  double from[2];       /* TIME: where the windows of valid and test begin */
} fopo_split;

/* Splits a dataset that has all users. An empty train split, or an empty valid / test split of a
 * share > 0, is FOPO_ERR_ARGUMENT with the counts and the remedy, as is a plan by time for a
 * dataset without times. */
int fopo_split_by(fopo_split *split, const fopo_dataset *d, const fopo_split_options *options,
                  const fopo_split_plan *plan);
void fopo_split_done(fopo_split *split); /* accepts {0} */
void fopo_sessions_done(fopo_sessions *s);

/* Whether so many contexts and items can be those of s. */
int fopo_sessions_check(const fopo_sessions *s, size_t contexts, size_t items);

/* *some, {0} on entry, becomes the contexts rows [n] of s, in this order, without values. */
int fopo_sessions_take(fopo_sessions *some, const fopo_sessions *s, const uint32_t *rows, size_t n);

/* ---- splits of datasets whose users are shared out to several processes ---- */

/* Users that have enough items, users that have not, and the items of the longest session. */
typedef struct {
  size_t kept, dropped, longest;
} fopo_split_users;

/* Of the users of a part, those of this process. */
typedef struct {
  const uint32_t *rows;      /* [n] of the matrix; not owned */
  const uint32_t *positions; /* [n] in the order of the users, ascending; not owned */
  size_t n;
  size_t first, all; /* the part has the positions first .. first + all - 1 */
  size_t first_user; /* row 0 of the matrix is this user of the dataset */
} fopo_split_segment;

/* How the processes work together, each of which has a range of the users. Every function is called
 * by all of them, after `status` of the work before, and fails in all if it fails in one. */
typedef struct {
  /* *all: the users of all processes, of which *before are kept by those before this one. */
  int (*count_users)(fopo_split_users *all, size_t *before, const fopo_split_users *own,
                     int status);
  /* x [n] becomes its sum over the processes. */
  int (*sum)(double *x, size_t n, int status);
  /* s: the sessions of these users, {0} if there are none. They become this process's share of the
   * `total` sessions of the part, in the order of the positions, with the users of the dataset. */
  int (*deal)(fopo_sessions *s, const fopo_split_segment *users, size_t cols, size_t total,
              int status);
} fopo_split_others;

/* As fopo_split_by, of the range of the users that d has. */
int fopo_split_among(fopo_split *split, const fopo_dataset *d, const fopo_split_options *options,
                     const fopo_split_plan *plan, const fopo_split_others *others);

#endif
