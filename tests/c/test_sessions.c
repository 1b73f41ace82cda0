/* Sessions: X and Y, the shares of the authors' split, determinism, refusals. */

#include "checks.h"
#include "core/threads.h"
#include "data/histories.h"
#include "data/names.h"
#include "data/sessions.h"
#include "sound.h"

enum { USERS = 500, ITEMS = 3000 };

/* User u has 2 + u % 40 items: u, u + 7, u + 14, ... */
static void make_dataset(fopo_dataset *d) {
  *d = (fopo_dataset){0};
  size_t nnz = 0;
  for (size_t u = 0; u < USERS; u++) nnz += 2 + u % 40;
  ok(fopo_csr_init(&d->matrix, USERS, ITEMS, nnz, 0));
  size_t at = 0;
  for (size_t u = 0; u < USERS; u++) {
    for (size_t k = 0; k < 2 + u % 40; k++) d->matrix.ids[at++] = (uint32_t)(u + 7 * k);
    d->matrix.indptr[u + 1] = at;
  }
}

static const fopo_split_options usual = {20, 0, 0.1, 0.2, 3};

/* Every session is the user's row cut in two: floor(n / 2) in X, the rest in Y, ascending. */
static void assert_halves(const fopo_sessions *s, const fopo_dataset *d) {
  size_t nnz_x = fopo_csr_nnz(&s->X), nnz_y = fopo_csr_nnz(&s->Y);
  assert_true(is_sound(&s->X, nnz_x));
  assert_true(is_sound(&s->Y, nnz_y));
  assert_null(s->X.values);
  assert_null(s->Y.values);
  for (size_t i = 0; i < s->X.rows; i++) {
    size_t n = fopo_csr_count(&d->matrix, s->users[i]);
    const uint32_t *ids = fopo_csr_row(&d->matrix, s->users[i]);
    assert_int_equal(fopo_csr_count(&s->X, i), n / 2);
    assert_int_equal(fopo_csr_count(&s->Y, i), n - n / 2);
    for (size_t k = 0; k < n; k++) {
      int in_x = fopo_csr_contains(&s->X, i, ids[k]), in_y = fopo_csr_contains(&s->Y, i, ids[k]);
      assert_int_equal(in_x + in_y, 1);
    }
  }
}

TEST(halves_and_shares) {
  fopo_dataset d;
  fopo_split split;
  uint8_t seen[USERS] = {0};
  make_dataset(&d);
  ok(fopo_split_by(&split, &d, &usual, &(fopo_split_plan){0}));

  size_t enough = 0;
  for (size_t u = 0; u < USERS; u++) enough += 2 + u % 40 >= 20;
  assert_int_equal(split.kept, enough);
  assert_int_equal(split.dropped, USERS - enough);
  assert_int_equal(split.valid.X.rows, (enough + 5) / 10);
  assert_int_equal(split.test.X.rows, (enough + 2) / 5);
  const fopo_sessions *parts[3] = {&split.train, &split.valid, &split.test};
  size_t total = 0;
  for (int p = 0; p < 3; p++) {
    assert_halves(parts[p], &d);
    total += parts[p]->X.rows;
    for (size_t i = 0; i < parts[p]->X.rows; i++) seen[parts[p]->users[i]]++;
  }
  assert_int_equal(total, enough);
  for (size_t u = 0; u < USERS; u++) assert_int_equal(seen[u], 2 + u % 40 >= 20);
  fopo_split_done(&split);
  fopo_csr_done(&d.matrix);
}

/* Over seeds, each position of a row is in X about half of the time. */
TEST(halves_are_random) {
  fopo_dataset d;
  fopo_split_options o = usual;
  make_dataset(&d);
  size_t first = 0, last = 0, rows = 0;
  for (o.seed = 0; o.seed < 20; o.seed++) {
    DONE(fopo_split_done) fopo_split split;
    ok(fopo_split_by(&split, &d, &o, &(fopo_split_plan){0}));
    for (size_t i = 0; i < split.train.X.rows; i++) {
      uint32_t user = split.train.users[i];
      const uint32_t *ids = fopo_csr_row(&d.matrix, user);
      size_t n = fopo_csr_count(&d.matrix, user);
      if (n % 2 != 0) continue;
      rows++;
      first += (size_t)fopo_csr_contains(&split.train.X, i, ids[0]);
      last += (size_t)fopo_csr_contains(&split.train.X, i, ids[n - 1]);
    }
  }
  /* About 1,800 fair coins: five standard deviations are 0.06. */
  assert_true(rows > 1500);
  assert_true((double)first > 0.44 * (double)rows && (double)first < 0.56 * (double)rows);
  assert_true((double)last > 0.44 * (double)rows && (double)last < 0.56 * (double)rows);
  fopo_csr_done(&d.matrix);
}

static int same_sessions(const fopo_sessions *a, const fopo_sessions *b) {
  size_t n = a->X.rows, x = fopo_csr_nnz(&a->X), y = fopo_csr_nnz(&a->Y);
  return n == b->X.rows && x == fopo_csr_nnz(&b->X) && y == fopo_csr_nnz(&b->Y) &&
         memcmp(a->users, b->users, n * sizeof *a->users) == 0 &&
         memcmp(a->X.ids, b->X.ids, x * sizeof *a->X.ids) == 0 &&
         memcmp(a->Y.ids, b->Y.ids, y * sizeof *a->Y.ids) == 0;
}

TEST(same_for_any_threads) {
  fopo_dataset d;
  fopo_split reference, split;
  int before = fopo_threads();
  make_dataset(&d);
  fopo_threads_set(1);
  ok(fopo_split_by(&reference, &d, &usual, &(fopo_split_plan){0}));
  for (int threads = 2; threads <= 4; threads++) {
    fopo_threads_set(threads);
    ok(fopo_split_by(&split, &d, &usual, &(fopo_split_plan){0}));
    assert_true(same_sessions(&reference.train, &split.train));
    assert_true(same_sessions(&reference.valid, &split.valid));
    assert_true(same_sessions(&reference.test, &split.test));
    fopo_split_done(&split);
  }
  fopo_threads_set(before);
  fopo_split_options other = usual;
  other.seed++;
  ok(fopo_split_by(&split, &d, &other, &(fopo_split_plan){0}));
  assert_false(same_sessions(&reference.train, &split.train));
  fopo_split_done(&split);
  fopo_split_done(&reference);
  fopo_csr_done(&d.matrix);
}

/* The first users with enough items are taken, not the first users. */
TEST(first_users_are_kept) {
  fopo_dataset d;
  fopo_split split;
  fopo_split_options o = {20, 30, 0, 0, 1};
  make_dataset(&d);
  ok(fopo_split_by(&split, &d, &o, &(fopo_split_plan){0}));
  assert_int_equal(split.kept, 30);
  assert_int_equal(split.train.X.rows, 30);
  assert_int_equal(split.valid.X.rows, 0);
  assert_int_equal(split.test.X.rows, 0);
  for (size_t i = 0; i < 30; i++) {
    /* Users 18 .. 39 and 58 .. 65 are the first 30 with at least 20 items. */
    uint32_t user = split.train.users[i];
    assert_true((user >= 18 && user < 40) || (user >= 58 && user < 66));
  }
  fopo_split_done(&split);
  fopo_csr_done(&d.matrix);
}

static void assert_refused(const fopo_dataset *d, fopo_split_options o, const char *part) {
  fopo_split split;
  refused(fopo_split_by(&split, d, &o, &(fopo_split_plan){0}), FOPO_ERR_ARGUMENT, part);
  assert_null(split.train.users);
}

/* Some rows, in any order, without the item that the policy does not know. */
TEST_WITH(histories_of_rows, no_leak) {
  uint64_t indptr[] = {0, 2, 4};
  uint32_t ids[] = {0, 1, 1, 2}, rows[] = {1, 0}, place[] = {2, FOPO_NO_NAME, 0};
  fopo_csr m = {.rows = 2, .cols = 3, .indptr = indptr, .ids = ids};
  DONE(fopo_sessions_done) fopo_sessions s;
  size_t unknown;
  ok(fopo_histories_of(&s, &unknown, &m, rows, 2, place, 3));
  assert_true(unknown == 2 && fopo_csr_nnz(&s.X) == 2 && fopo_csr_nnz(&s.Y) == 0);
  assert_true(*fopo_csr_row(&s.X, 0) == 0 && *fopo_csr_row(&s.X, 1) == 2);
  assert_memory_equal(s.users, rows, sizeof rows);
}

TEST(refusals) {
  fopo_dataset d;
  make_dataset(&d);
  double nan = strtod("nan", NULL);
  assert_refused(&d, (fopo_split_options){1, 0, 0.1, 0.1, 1}, "min_items is 1");
  assert_refused(&d, (fopo_split_options){20, 0, 0.5, 0.5, 1}, "leave nothing to train on");
  assert_refused(&d, (fopo_split_options){20, 0, -0.1, 0.1, 1}, "valid = -0.1");
  assert_refused(&d, (fopo_split_options){20, 0, 0.1, nan, 1}, "test = ");
  assert_refused(&d, (fopo_split_options){42, 0, 0.1, 0.1, 1}, "the longest session has 41");
  assert_refused(&d, (fopo_split_options){20, 4, 0.1, 0.3, 1}, "valid would be empty");
  assert_refused(&d, (fopo_split_options){20, 4, 0.3, 0.1, 1}, "test would be empty");
  assert_refused(&d, (fopo_split_options){20, 2, 0.49, 0.5, 1}, "train would be empty");
  fopo_csr_done(&d.matrix);
}

int main(void) { return run_all(NULL, NULL); }
