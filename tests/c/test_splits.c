/* Splits: ties and repeats, given files, what leaks nowhere, refusals. Whole splits against their
 * definitions: tests/judged.py. */
#include <math.h>

#include "checks.h"
#include "core/rng.h"
#include "core/threads.h"
#include "data/embed.h"
#include "data/merge.h"
#include "sound.h"

enum { USERS = 120, ITEMS = 80, SPLIT_SEED = 3 };

/* User u has about 2 + u % 30 different items; times are drawn from 0 .. 199, so that many are
 * equal, and some pairs repeat later. */
static void make_dataset(fopo_dataset *d, int with_repeats) {
  uint32_t x = 99;
  *d = (fopo_dataset){0};
  ok(fopo_csr_init(&d->matrix, USERS, ITEMS, USERS * ITEMS, 0));
  d->times.first = fopo_alloc(USERS * ITEMS, sizeof(double));
  d->times.last = with_repeats ? fopo_alloc(USERS * ITEMS, sizeof(double)) : NULL;
  size_t at = 0;
  for (size_t u = 0; u < USERS; u++) {
    for (uint32_t a = 0; a < ITEMS; a++) {
      x = x * 1664525u + 1013904223u;
      if ((x >> 16) % ITEMS >= 2 + u % 30) continue;
      d->matrix.ids[at] = a;
      d->times.first[at] = (double)((x >> 3) % 200);
      double later = x & 4 ? (double)(x >> 5 & 63) : 0;
      if (with_repeats) d->times.last[at] = d->times.first[at] + later;
      at++;
    }
    d->matrix.indptr[u + 1] = at;
  }
}

static void dataset_done(fopo_dataset *d) {
  fopo_csr_done(&d->matrix);
  fopo_free(d->times.first);
  fopo_free(d->times.last);
}

static double time_of(const fopo_dataset *d, uint32_t user, uint32_t item, int last) {
  for (uint64_t e = d->matrix.indptr[user]; e < d->matrix.indptr[user + 1]; e++) {
    if (d->matrix.ids[e] == item) return last ? d->times.last[e] : d->times.first[e];
  }
  fail_msg("user %u has not taken item %u", user, item);
  return 0;
}

static size_t count_in(const fopo_csr *m, size_t row) { return fopo_csr_count(m, row); }

/* The session of a user in a part, or -1. */
static long session_of(const fopo_sessions *s, uint32_t user) {
  for (size_t i = 0; i < s->X.rows; i++) {
    if (s->users[i] == user) return (long)i;
  }
  return -1;
}

static void check_form(const fopo_sessions *s) {
  assert_true(is_sound(&s->X, fopo_csr_nnz(&s->X)));
  assert_true(is_sound(&s->Y, fopo_csr_nnz(&s->Y)));
  for (size_t i = 0; i < s->X.rows; i++) {
    assert_true(count_in(&s->X, i) > 0 && count_in(&s->Y, i) > 0);
  }
}

static void shares_nothing(const fopo_sessions *s) {
  for (size_t i = 0; i < s->X.rows; i++) {
    for (size_t k = 0; k < count_in(&s->Y, i); k++) {
      assert_false(fopo_csr_contains(&s->X, i, fopo_csr_row(&s->Y, i)[k]));
    }
  }
}

/* Without an order a repeat inside the training window is no second side of it. */
TEST_WITH(seen_again, no_leak) {
  DONE(dataset_done) fopo_dataset d;
  DONE(fopo_split_done) fopo_split split;
  double valid = 100, test = 150;
  make_dataset(&d, 1);
  fopo_split_plan random = {.kind = FOPO_SPLIT_TIME, .keep_seen = 1, .from = {&valid, &test}};
  ok(fopo_split_by(&split, &d, &(fopo_split_options){2, 0, 0.1, 0.1, SPLIT_SEED}, &random));
  check_form(&split.train);
  shares_nothing(&split.train);
}

/* With seen = keep the last interaction counts, which may be of an item that was seen. */
TEST_WITH(the_last_again, no_leak) {
  DONE(dataset_done) fopo_dataset d;
  DONE(fopo_split_done) fopo_split split;
  fopo_split_options o = {5, 0, 0, 0.1, SPLIT_SEED};
  fopo_split_plan plan = {.kind = FOPO_SPLIT_LAST, .by_time = 1, .keep_seen = 1};
  make_dataset(&d, 1);
  ok(fopo_split_by(&split, &d, &o, &plan));
  size_t again = 0;
  for (size_t i = 0; i < split.test.X.rows; i++) {
    uint32_t u = split.test.users[i], y = *fopo_csr_row(&split.test.Y, i);
    double latest = -1;
    for (uint64_t e = d.matrix.indptr[u]; e < d.matrix.indptr[u + 1]; e++) {
      latest = fmax(latest, d.times.last[e]);
    }
    assert_true(time_of(&d, u, y, 1) == latest);
    again += (size_t)fopo_csr_contains(&split.test.X, i, y);
  }
  assert_true(again > 5 && again < split.test.X.rows);
}

/* The seed, the stream and the user alone decide what is seen: in every version it is the same. */
static void seen_by_user(const fopo_sessions *s, const fopo_dataset *d) {
  uint32_t order[ITEMS];
  for (size_t i = 0; i < s->X.rows; i++) {
    uint32_t u = s->users[i];
    fopo_shuffle(order, (uint32_t)fopo_csr_count(&d->matrix, u), SPLIT_SEED, FOPO_STREAM_SPLIT,
                 u + 1);
    for (size_t k = 0; k < count_in(&s->X, i); k++) {
      assert_true(fopo_csr_contains(&s->X, i, fopo_csr_row(&d->matrix, u)[order[k]]));
    }
  }
}

/* A half is the authors' split to the bit; an order is not. */
TEST_WITH(users_by_order, no_leak) {
  DONE(dataset_done) fopo_dataset d;
  DONE(fopo_split_done) fopo_split old;
  fopo_split_options o = {10, 0, 0.1, 0.1, SPLIT_SEED};
  make_dataset(&d, 1);
  ok(fopo_split_by(&old, &d, &o, &(fopo_split_plan){0}));
  seen_by_user(&old.train, &d);
  for (int timed = 0; timed < 2; timed++) {
    DONE(fopo_split_done) fopo_split split;
    ok(fopo_split_by(&split, &d, &o, &(fopo_split_plan){.observed = 0.5, .by_time = timed}));
    size_t nnz = fopo_csr_nnz(&old.train.X);
    assert_int_equal(split.train.X.rows, old.train.X.rows);
    assert_memory_equal(split.train.users, old.train.users, old.train.X.rows * sizeof(uint32_t));
    assert_int_equal(fopo_csr_nnz(&split.train.X), nnz);
    int same = memcmp(split.train.X.ids, old.train.X.ids, nnz * sizeof(uint32_t)) == 0;
    assert_int_equal(same, !timed);
  }
}

/* Equal times are cut at random: over seeds no place in the row is favoured. */
TEST_WITH(ties_are_random, no_leak) {
  DONE(dataset_done) fopo_dataset d = {0};
  fopo_split split;
  size_t first = 0, rows = 0;
  ok(fopo_csr_init(&d.matrix, 40, 40, 400, 0));
  d.times.first = fopo_alloc(400, sizeof(double));
  for (size_t e = 0; e < 400; e++) d.matrix.ids[e] = (uint32_t)(e % 10 * 4);
  for (size_t u = 0; u <= 40; u++) d.matrix.indptr[u] = 10 * u;
  for (uint64_t seed = 0; seed < 50; seed++) {
    fopo_split_plan plan = {.kind = FOPO_SPLIT_LAST, .by_time = 1};
    ok(fopo_split_by(&split, &d, &(fopo_split_options){2, 0, 0, 0.1, seed}, &plan));
    rows += split.test.X.rows;
    for (size_t i = 0; i < split.test.X.rows; i++) first += *fopo_csr_row(&split.test.Y, i) == 0;
    fopo_split_done(&split);
  }
  assert_int_equal(rows, 2000);
  assert_true(first > 130 && first < 270); /* 200, five standard deviations of 13.4 */
}

TEST_WITH(same_for_any_threads, no_leak) {
  DONE(dataset_done) fopo_dataset d;
  DONE(fopo_split_done) fopo_split a, b;
  int before = fopo_threads();
  make_dataset(&d, 1);
  fopo_split_options o = {5, 0, 0.1, 0.1, SPLIT_SEED};
  fopo_split_plan plan = {.kind = FOPO_SPLIT_TIME, .by_time = 1, .keep_seen = 1};
  fopo_threads_set(1);
  ok(fopo_split_by(&a, &d, &o, &plan));
  fopo_threads_set(3);
  ok(fopo_split_by(&b, &d, &o, &plan));
  const fopo_sessions *left[3] = {&a.train, &a.valid, &a.test};
  const fopo_sessions *right[3] = {&b.train, &b.valid, &b.test};
  for (int p = 0; p < 3; p++) {
    assert_int_equal(left[p]->X.rows, right[p]->X.rows);
    assert_memory_equal(left[p]->users, right[p]->users, left[p]->X.rows * sizeof(uint32_t));
    assert_memory_equal(left[p]->X.ids, right[p]->X.ids,
                        fopo_csr_nnz(&left[p]->X) * sizeof(uint32_t));
    assert_memory_equal(left[p]->Y.ids, right[p]->Y.ids,
                        fopo_csr_nnz(&left[p]->Y) * sizeof(uint32_t));
  }
  fopo_threads_set(before);
}

TEST_WITH(refusals, no_leak) {
  DONE(dataset_done) fopo_dataset d;
  fopo_split split;
  double early = -5, late = 1000, nan = strtod("nan", NULL);
  fopo_split_options o = {5, 0, 0.1, 0.1, 1};
  make_dataset(&d, 0);
  fopo_split_plan p = {.kind = FOPO_SPLIT_TIME, .by_time = 1, .from = {NULL, &late}};
  refused(fopo_split_by(&split, &d, &o, &p), FOPO_ERR_ARGUMENT, "test would be empty: none of the");
  says("test at 1000");
  o.test = 0;
  p = (fopo_split_plan){.kind = FOPO_SPLIT_TIME, .by_time = 1, .from = {&late, NULL}};
  refused(fopo_split_by(&split, &d, &o, &p), FOPO_ERR_ARGUMENT, "(valid begins at 1000);");
  o.test = 0.1;
  p.from[0] = NULL;
  p.from[1] = &early;
  refused(fopo_split_by(&split, &d, &o, &p), FOPO_ERR_ARGUMENT, "train would be empty");
  p.from[0] = &late;
  refused(fopo_split_by(&split, &d, &o, &p), FOPO_ERR_ARGUMENT, "later than that of test");
  refused(fopo_split_by(&split, &d, &o, &(fopo_split_plan){.observed = 1}), FOPO_ERR_ARGUMENT,
          "observed = 1 is no share");
  refused(fopo_split_by(&split, &d, &o, &(fopo_split_plan){.observed = nan}), FOPO_ERR_ARGUMENT,
          "no share");
  o.min_items = 2;
  o.max_users = 1;
  fopo_free(d.times.first);
  d.times.first = NULL;
  strcpy(d.no_times, "line 3 is bad");
  refused(fopo_split_by(&split, &d, &o, &(fopo_split_plan){.by_time = 1}), FOPO_ERR_ARGUMENT,
          "the dataset has no times: line 3 is bad");
  refused(fopo_split_by(&split, &d, &o, &(fopo_split_plan){.kind = FOPO_SPLIT_TIME}),
          FOPO_ERR_ARGUMENT, "has no times");
}

/* ---- given files ---- */

/* A dataset of these pairs, with names as given (NULL: none). */
static void make_part(fopo_dataset *d, const uint32_t *users, const uint32_t *items, size_t n,
                      size_t rows, size_t cols, const char *const *names, const double *times) {
  size_t repeats, capacity = 0;
  *d = (fopo_dataset){.users.n = rows, .items.n = cols};
  if (times == NULL) {
    ok(fopo_csr_from_pairs(&d->matrix, users, items, NULL, n, rows, cols, &repeats));
  } else {
    ok(fopo_csr_from_timed_pairs(&d->matrix, &d->times, users, items, NULL, times, n, rows, cols,
                                 &repeats, NULL, NULL));
  }
  for (size_t i = 0; i < cols && names != NULL; i++) {
    if (i == 0) d->items = (fopo_names){0};
    ok(fopo_names_append(&d->items, &capacity, names[i], strlen(names[i])));
  }
}

static void part_done(fopo_dataset *d) {
  dataset_done(d);
  fopo_names_done(&d->users);
  fopo_names_done(&d->items);
}

TEST_WITH(files_by_name, no_leak) {
  static const char *const first[] = {"apple", "pear", "7"}, *const second[] = {"fig", "apple"};
  static const double times[] = {5, 6, 7, 8, 1, 2, 3};
  DONE(part_done) fopo_dataset train, test;
  DONE(fopo_joined_done) fopo_joined j;
  fopo_split split;
  char name[32];
  make_part(&train, (uint32_t[]){0, 0, 1, 1}, (uint32_t[]){0, 1, 1, 2}, 4, 2, 3, first, times);
  make_part(&test, (uint32_t[]){0, 0, 2}, (uint32_t[]){0, 1, 0}, 3, 3, 2, second, times + 4);
  const fopo_dataset *parts[3] = {&train, NULL, &test};
  ok(fopo_dataset_join(&j, parts));
  const fopo_csr *m = &j.dataset->matrix;
  assert_true(m->rows == 3 && m->cols == 4 && fopo_csr_nnz(m) == 6);
  assert_string_equal(fopo_names_get(&j.dataset->items, 3, name, sizeof name), "fig");
  assert_int_equal(fopo_names_find(&j.dataset->items, "7"), 2);
  assert_true(j.new_items[2] == 1 && j.new_users[2] == 1 && j.new_items[1] == 0);
  /* user 0: apple in both, pear, fig; the earliest time of a pair */
  assert_memory_equal(j.windows, ((uint8_t[]){5, 1, 4, 1, 1, 4}), 6);
  assert_true(j.dataset->times.first[0] == 2 && j.dataset->times.first[1] == 6);
  for (int keep = 0; keep < 2; keep++) {
    fopo_split_plan plan = {.kind = FOPO_SPLIT_FILES, .keep_seen = keep, .windows = j.windows};
    ok(fopo_split_by(&split, j.dataset, &(fopo_split_options){2, 0, 0, 1, 1}, &plan));
    assert_true(split.train.X.rows == 2 && split.test.X.rows == 1 && split.dropped == 1);
    assert_int_equal(count_in(&split.test.X, 0), 2);
    assert_int_equal(count_in(&split.test.Y, 0), 1 + keep);
    assert_int_equal(fopo_csr_row(&split.test.Y, 0)[keep], 3);
    fopo_split_done(&split);
  }
}

/* A pair of train that test has again, later: no second interaction of train, where it would be
 * known from test alone. */
TEST_WITH(files_keep_train_apart, no_leak) {
  static const double times[] = {1, 2, 3, 9};
  DONE(part_done) fopo_dataset train, test;
  DONE(fopo_joined_done) fopo_joined j;
  DONE(fopo_split_done) fopo_split split;
  make_part(&train, (uint32_t[]){0, 0, 0}, (uint32_t[]){0, 1, 2}, 3, 1, 3, NULL, times);
  make_part(&test, (uint32_t[]){0}, (uint32_t[]){0}, 1, 1, 3, NULL, times + 3);
  const fopo_dataset *parts[3] = {&train, NULL, &test};
  ok(fopo_dataset_join(&j, parts));
  fopo_split_plan plan = {
      .kind = FOPO_SPLIT_FILES, .by_time = 1, .keep_seen = 1, .windows = j.windows};
  ok(fopo_split_by(&split, j.dataset, &(fopo_split_options){2, 0, 0, 1, 1}, &plan));
  assert_true(count_in(&split.train.X, 0) == 1 && count_in(&split.train.Y, 0) == 2);
  assert_int_equal(*fopo_csr_row(&split.train.X, 0), 0);
  shares_nothing(&split.train);
  assert_true(count_in(&split.test.X, 0) == 3 && count_in(&split.test.Y, 0) == 1);
  assert_int_equal(*fopo_csr_row(&split.test.Y, 0), 0);
}

/* Lists have no names: indices agree, and the catalogue is as wide as the widest. */
TEST_WITH(files_by_index, no_leak) {
  DONE(part_done) fopo_dataset train, valid, test;
  DONE(fopo_joined_done) fopo_joined j;
  DONE(fopo_split_done) fopo_split split;
  make_part(&train, (uint32_t[]){0, 0, 2, 2, 2}, (uint32_t[]){4, 1, 0, 2, 3}, 5, 3, 5, NULL, NULL);
  make_part(&valid, (uint32_t[]){2}, (uint32_t[]){4}, 1, 3, 5, NULL, NULL);
  make_part(&test, (uint32_t[]){0, 2, 3}, (uint32_t[]){6, 1, 0}, 3, 4, 7, NULL, NULL);
  const fopo_dataset *parts[3] = {&train, &valid, &test};
  ok(fopo_dataset_join(&j, parts));
  assert_true(j.dataset->matrix.rows == 4 && j.dataset->matrix.cols == 7);
  assert_null(j.dataset->items.numbers);
  fopo_split_plan plan = {.kind = FOPO_SPLIT_FILES, .windows = j.windows};
  ok(fopo_split_by(&split, j.dataset, &(fopo_split_options){2, 0, 1, 1, 1}, &plan));
  long u = session_of(&split.test, 2), v = session_of(&split.valid, 2);
  assert_memory_equal(fopo_csr_row(&split.test.X, (size_t)u), ((uint32_t[]){0, 2, 3, 4}), 16);
  assert_memory_equal(fopo_csr_row(&split.valid.X, (size_t)v), ((uint32_t[]){0, 2, 3}), 12);
  assert_int_equal(*fopo_csr_row(&split.test.Y, (size_t)u), 1);
  assert_int_equal(*fopo_csr_row(&split.valid.Y, (size_t)v), 4);
  assert_true(j.new_items[2] == 1 && j.new_users[2] == 1); /* item 6, user 3; item 1 is in train */
}

/* An item in X and in Y is one interaction of the embedding. */
TEST_WITH(embedding_of_both, no_leak) {
  float values[2][12];
  for (int again = 0; again < 2; again++) {
    uint64_t starts[5] = {0, 1, 2, 3, 4}, ends[5] = {0, 1 + (uint64_t)again, 2 + (uint64_t)again,
                                                     3 + (uint64_t)again, 4 + (uint64_t)again};
    uint32_t x[4] = {0, 1, 2, 0}, y[5] = {1, 2, 0, 1}, both[5] = {0, 1, 2, 0, 1};
    fopo_sessions s = {.X = {4, 3, starts, x, NULL}, .Y = {4, 3, ends, again ? both : y, NULL}};
    float space[12] = {0};
    fopo_matrix items = {space, 3, 2, 2};
    ok(fopo_embed_svd(
        items, NULL, &s,
        &(fopo_embed_options){.svd = {.dim = 2, .oversample = 1, .power_iterations = 4},
                              .scale = fopo_scales[FOPO_SCALE_SIGMA]}));
    memcpy(values[again], space, sizeof space);
  }
  assert_memory_equal(values[0], values[1], 6 * sizeof(float));
}

/* Each allocation failing in turn: a sentence, nothing left behind. */
TEST_WITH(survives_lack_of_memory, no_leak) {
  DONE(part_done) fopo_dataset train, test;
  make_part(&train, (uint32_t[]){0, 0, 1, 1}, (uint32_t[]){0, 1, 1, 2}, 4, 2, 3, NULL, NULL);
  make_part(&test, (uint32_t[]){0}, (uint32_t[]){2}, 1, 2, 3, NULL, NULL);
  const fopo_dataset *parts[3] = {&train, NULL, &test};
  size_t blocks = fopo_memory_in_use().blocks;
  int status = FOPO_ERR_MEMORY;
  for (long n = 0; status != FOPO_OK; n++) {
    fopo_joined j = {0};
    fopo_split split = {0};
    fopo_memory_fail_after(n, 0);
    status = fopo_dataset_join(&j, parts);
    if (status == FOPO_OK) {
      fopo_split_plan plan = {.kind = FOPO_SPLIT_FILES, .windows = j.windows};
      status = fopo_split_by(&split, j.dataset, &(fopo_split_options){2, 0, 0, 1, 1}, &plan);
    }
    fopo_memory_fail_after(-1, 0);
    assert_true(status == FOPO_OK || status == FOPO_ERR_MEMORY);
    fopo_split_done(&split);
    fopo_joined_done(&j);
    assert_int_equal(fopo_memory_in_use().blocks, blocks);
    assert_true(n < 300);
  }
}

int main(void) { return run_all(NULL, NULL); }
