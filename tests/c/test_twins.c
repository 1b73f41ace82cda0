/* The twins of the paper's sets against the figures that are published of these sets. Where the
 * figures come from, and what is assumed, stands in src/data/world/synthetic.c:
 *
 *   sizes       the paper, Table 1
 *   sessions    20 items or more: the authors' code. Twitch: rows of the 41-row users in the public
 *               count of its 100,000-user subset, divided by 2.03 rows a pair. GoodReads: read off
 *               the curve of rated books a user in its authors' distributions.ipynb
 *   repeats     Twitch: 3,051,733 rows / 1,505,158 pairs of that subset. GoodReads: none
 *   shares      Twitch: viewers of the most watched streamers of that subset. GoodReads: read off
 *               the curve of ratings a book in distributions.ipynb
 *
 * Users are independent, so 4,000 of them on the full catalogue stand for all. */
#include <math.h>

#include "checks.h"
#include "core/threads.h"
#include "data/world/synthetic.h"

FREED_BY(fopo_dataset_free, fopo_dataset)
FREED_BY(fopo_world_free, fopo_world)

enum { USERS = 4000, SOME = 1000, SHARES = 6 };

typedef struct {
  const char *name;
  size_t users, items, least;
  double mean, median, p90;          /* items of a session */
  double rows_per_pair;              /* 1: values are all 1 */
  double top[SHARES], share[SHARES]; /* the `top` most popular items have `share` of the pairs */
} figures;

static const figures published[] = {{"twitch",
                                     500000,
                                     790000,
                                     20,
                                     39.5,
                                     34,
                                     65,
                                     2.03,
                                     {16, 163, 1626, 8131, 16262, 32525},
                                     {0.074, 0.232, 0.525, 0.737, 0.811, 0.875}},
                                    {"goodreads",
                                     300000,
                                     2330000,
                                     20,
                                     171,
                                     81,
                                     360,
                                     1,
                                     {56700, 85000, 226700, 438000, 697000, 1293000},
                                     {0.635, 0.713, 0.845, 0.910, 0.947, 0.983}}};

static fopo_world_options options_of(const char *name, double fraction) {
  fopo_world_options o;
  ok(fopo_world_twin(&o, name, fraction));
  o.seed = 3;
  return o;
}

static int descending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

static int ascending(const void *a, const void *b) { return descending(b, a); }

static void near_by(double value, double target, double tolerance) {
  if (!(fabs(value - target) <= tolerance)) print_error("%g, not %g\n", value, target);
  assert_true(fabs(value - target) <= tolerance);
}

/* Of 4,000 users the quantiles have standard errors below 2 %; the rest is the fit's. */
static void lengths_are_as_published(const fopo_dataset *d, const figures *f) {
  double n[USERS];
  for (size_t u = 0; u < USERS; u++) n[u] = (double)fopo_csr_count(&d->matrix, u);
  qsort(n, USERS, sizeof *n, ascending);
  assert_true(n[0] >= (double)f->least);
  near_by((double)fopo_csr_nnz(&d->matrix) / USERS, f->mean, 0.08 * f->mean);
  near_by(n[USERS / 2], f->median, 0.14 * f->median);
  near_by(n[USERS * 9 / 10], f->p90, 0.14 * f->p90);
}

static void repeats_are_as_published(const fopo_dataset *d, const figures *f) {
  if (f->rows_per_pair > 1) {
    near_by((double)d->rows_read / (double)fopo_csr_nnz(&d->matrix), f->rows_per_pair, 0.1);
  } else {
    assert_null(d->matrix.values);
  }
}

/* expected [items]: in how many sessions of the first SOME users an item is to be expected. */
static void expect(double *expected, const fopo_world *w) {
  double uniform = 0;
  for (size_t u = 0; u < SOME; u++) {
    double rate = (double)w->rate[u], other = -expm1(-rate * w->noise / (double)w->items);
    uniform += other;
    for (size_t k = 0; k < w->tastes; k++) {
      uint32_t c = w->liked[u * w->tastes + k];
      double often = rate * (1 - w->noise) * (double)w->taste[u * w->tastes + k];
      for (uint64_t at = w->cluster_start[c]; at < w->cluster_start[c + 1]; at++) {
        uint32_t a = w->by_cluster[at];
        expected[a] += -expm1(-often * (double)w->popularity[a]) * (1 - other);
      }
    }
  }
  for (size_t a = 0; a < w->items; a++) expected[a] += uniform;
}

static void shares_are_as_published(const fopo_world *w, const figures *f) {
  double *expected = fopo_alloc(w->items, sizeof *expected), sum = 0, total = 0;
  expect(expected, w);
  for (size_t a = 0; a < w->items; a++) total += expected[a];
  qsort(expected, w->items, sizeof *expected, descending);
  size_t a = 0;
  for (size_t i = 0; i < SHARES; i++) {
    for (; a < (size_t)f->top[i]; a++) sum += expected[a];
    near_by(sum / total, f->share[i], 0.04);
  }
  fopo_free(expected);
}

TEST(twins_are_as_published) {
  for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
    const figures *f = &published[i];
    fopo_world_options o = options_of(f->name, 1);
    assert_string_equal(fopo_world_twin_name(i), f->name);
    assert_int_equal(o.users, f->users);
    assert_int_equal(o.items, f->items);
    o.users = USERS;
    FREED(fopo_world_free) fopo_world *w = NULL;
    FREED(fopo_dataset_free) fopo_dataset *d = NULL;
    ok(fopo_world_new(&w, &d, &o));
    lengths_are_as_published(d, f);
    repeats_are_as_published(d, f);
    shares_are_as_published(w, f);
  }
  assert_null(fopo_world_twin_name(sizeof published / sizeof *published));
}

/* A small twin has sessions of the same lengths, for any number of threads the same. */
TEST(fractions_scale_sizes) {
  int before = fopo_threads();
  fopo_world_options o = options_of("twitch", 0.01);
  assert_int_equal(o.users, 5000);
  assert_int_equal(o.items, 7900);
  assert_int_equal(o.clusters, 40);
  FREED(fopo_world_free) fopo_world *w = NULL, *v = NULL;
  FREED(fopo_dataset_free) fopo_dataset *d = NULL, *e = NULL;
  fopo_threads_set(1);
  ok(fopo_world_new(&w, &d, &o));
  near_by((double)fopo_csr_nnz(&d->matrix) / 5000, 39.5, 4);
  fopo_threads_set(3);
  ok(fopo_world_new(&v, &e, &o));
  size_t nnz = fopo_csr_nnz(&d->matrix);
  assert_int_equal(fopo_csr_nnz(&e->matrix), nnz);
  assert_memory_equal(d->matrix.ids, e->matrix.ids, nnz * sizeof *d->matrix.ids);
  assert_memory_equal(d->matrix.values, e->matrix.values, nnz * sizeof *d->matrix.values);
  assert_memory_equal(w->rate, v->rate, w->users * sizeof *w->rate);
  fopo_threads_set(before);
}

/* Replacing users with few items leaves the bound what it is: what the best policy achieves
 * scatters around what is expected of it. */
TEST(the_bound_holds) {
  fopo_world_options o = options_of("twitch", 0.01);
  FREED(fopo_world_free) fopo_world *w = NULL;
  FREED(fopo_dataset_free) fopo_dataset *d = NULL;
  DONE(fopo_split_done) fopo_split split;
  double expected, achieved;
  ok(fopo_world_new(&w, &d, &o));
  ok(fopo_split_by(&split, d, &(fopo_split_options){20, 0, 0, 0, 1}, &(fopo_split_plan){0}));
  assert_int_equal(split.train.X.rows, 5000);
  ok(fopo_world_best(&expected, &achieved, w, &split.train));
  near_by(achieved, expected, 4 * 0.5 / sqrt(5000));
}

/* Clusters of which hardly anybody likes the last: all are liked all the same, in finite time. */
TEST(all_clusters_can_be_liked) {
  fopo_world_options o = {.users = 20, .items = 100, .clusters = 10, .tastes = 10, .appeal = 10};
  FREED(fopo_world_free) fopo_world *w = NULL;
  FREED(fopo_dataset_free) fopo_dataset *d = NULL;
  ok(fopo_world_new(&w, &d, &o));
  for (size_t u = 0; u < w->users; u++) {
    uint32_t seen = 0;
    for (size_t k = 0; k < 10; k++) seen |= 1u << w->liked[u * 10 + k];
    assert_int_equal(seen, 1023);
  }
}

TEST(refusals) {
  fopo_world_options o;
  refused(fopo_world_twin(&o, "netflix", 1), FOPO_ERR_ARGUMENT, "no twin of \"netflix\"");
  refused(fopo_world_twin(&o, "twitch", 0), FOPO_ERR_ARGUMENT, "fraction is 0");
  fopo_world *w;
  fopo_dataset *d;
  refused(fopo_world_new(&w, &d, &(fopo_world_options){.appeal = -1}), FOPO_ERR_ARGUMENT,
          "appeal is -1");
  refused(fopo_world_new(&w, &d, &(fopo_world_options){.spread = 4}), FOPO_ERR_ARGUMENT,
          "spread is 4");
  fopo_world_options many = {.items = 10, .clusters = 2, .least_items = 11};
  refused(fopo_world_new(&w, &d, &many), FOPO_ERR_ARGUMENT, "cannot have 11 of 10 items");
}

int main(void) { return run_all(NULL, NULL); }
