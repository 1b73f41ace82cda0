/* The synthetic world: its distributions, its best policy by other means, determinism, refusals. */
#include <math.h>

#include "checks.h"
#include "core/threads.h"
#include "data/world/synthetic.h"
#include "sound.h"

FREED_BY(fopo_dataset_free, fopo_dataset)
FREED_BY(fopo_world_free, fopo_world)

static const fopo_world_options small = {.users = 4000,
                                         .items = 2000,
                                         .clusters = 20,
                                         .tastes = 3,
                                         .mean_items = 40,
                                         .noise = 0.05,
                                         .seed = 11};

static void make(fopo_world **w, fopo_dataset **d, const fopo_world_options *o) {
  ok(fopo_world_new(w, d, o));
}

/* p_u(a) from the fields of the world. */
static double chance(const fopo_world *w, uint32_t user, uint32_t item) {
  double p = w->noise / (double)w->items;
  for (size_t k = 0; k < w->tastes; k++) {
    if (w->liked[user * w->tastes + k] == w->cluster[item]) {
      p += (1 - w->noise) * (double)w->taste[user * w->tastes + k] * (double)w->popularity[item];
    }
  }
  return p;
}

TEST(the_catalogue_is_zipf) {
  FREED(fopo_world_free) fopo_world *w = NULL;
  FREED(fopo_dataset_free) fopo_dataset *d = NULL;
  make(&w, &d, &small);
  FREED(fopo_free) uint8_t *seen = fopo_alloc(w->items, 1);
  for (size_t c = 0; c < w->clusters; c++) {
    size_t start = (size_t)w->cluster_start[c], end = (size_t)w->cluster_start[c + 1];
    double sum = 0, top = (double)w->popularity[w->by_cluster[start]];
    assert_int_equal(end - start, w->items / w->clusters);
    for (size_t k = start; k < end; k++) {
      uint32_t item = w->by_cluster[k];
      assert_int_equal(w->cluster[item], c);
      seen[item]++;
      sum += (double)w->popularity[item];
      double rank = (double)(k - start + 1);
      assert_true(fabs((double)w->popularity[item] * rank / top - 1) < 1e-5);
    }
    assert_true(fabs(sum - 1) < 1e-4);
  }
  for (size_t a = 0; a < w->items; a++) assert_int_equal(seen[a], 1);
}

TEST(users_are_as_told) {
  FREED(fopo_world_free) fopo_world *w = NULL;
  FREED(fopo_dataset_free) fopo_dataset *d = NULL;
  make(&w, &d, &small);
  const fopo_csr *m = &d->matrix;
  assert_true(is_sound(m, fopo_csr_nnz(m)));
  assert_string_equal(d->format, "synthetic");
  assert_int_equal(d->users.n, small.users);
  assert_int_equal(d->items.n, small.items);
  double rate = 0, logs = 0, squares = 0, met = 0, liked = 0;
  for (uint32_t u = 0; u < w->users; u++) {
    double sum = 0;
    for (size_t k = 0; k < w->tastes; k++) {
      uint32_t c = w->liked[u * w->tastes + k];
      sum += (double)w->taste[u * w->tastes + k];
      for (size_t l = 0; l < k; l++) assert_true(w->liked[u * w->tastes + l] != c);
    }
    assert_true(fabs(sum - 1) < 1e-5);
    rate += (double)w->rate[u];
    logs += log((double)w->rate[u]);
    squares += pow(log((double)w->rate[u]), 2);
    assert_true(fopo_csr_count(m, u) >= 2);
    for (uint64_t k = m->indptr[u]; k < m->indptr[u + 1]; k++) {
      met += (double)m->values[k];
      liked += (double)m->values[k] * (chance(w, u, m->ids[k]) > 2 * w->noise / (double)w->items);
    }
  }
  double n = (double)w->users;
  /* Mean 40, deviation 32 over users: standard error 0.5. */
  assert_true(fabs(rate / n - 40) < 2);
  /* The default: log rates deviate by 0.7, with standard error 0.008. */
  assert_true(fabs(sqrt(squares / n - logs / n * (logs / n)) - 0.7) < 0.03);
  assert_true(fabs(met / n - rate / n) < 0.5);
  assert_int_equal((size_t)met, d->rows_read);
  assert_int_equal(d->rows_read - fopo_csr_nnz(m), d->repeats);
  /* Noise falls into liked clusters in 3 of 20 cases. */
  assert_true(fabs(liked / met - (1 - w->noise * 17 / 20)) < 0.01);
}

/* A liked cluster is the c-th with probability in proportion to c^-appeal. */
TEST(clusters_appeal) {
  FREED(fopo_world_free) fopo_world *w = NULL;
  FREED(fopo_dataset_free) fopo_dataset *d = NULL;
  fopo_world_options o = {.users = 4000,
                          .items = 40,
                          .clusters = 5,
                          .tastes = 1,
                          .mean_items = 5,
                          .appeal = 1.5,
                          .seed = 12};
  double sum = 0;
  make(&w, &d, &o);
  for (size_t c = 0; c < o.clusters; c++) sum += pow((double)(c + 1), -o.appeal);
  for (size_t c = 0; c < o.clusters; c++) {
    double wanted = pow((double)(c + 1), -o.appeal) / sum, liked = 0;
    for (size_t u = 0; u < o.users; u++) liked += w->liked[u] == c;
    double error = sqrt(wanted * (1 - wanted) / (double)o.users);
    assert_true(fabs(liked / (double)o.users - wanted) < 5 * error);
  }
}

/* How often items are in sessions, against 1 - exp(-lambda p), by chi-square over the items.
 * Sessions are so long that drawing short ones again has no visible effect. */
TEST(items_are_met_independently) {
  FREED(fopo_world_free) fopo_world *w = NULL;
  FREED(fopo_dataset_free) fopo_dataset *d = NULL;
  make(&w, &d, &small);
  FREED(fopo_free) double *expected = fopo_alloc(w->items, sizeof *expected);
  FREED(fopo_free) double *variance = fopo_alloc(w->items, sizeof *variance);
  double *count = fopo_alloc(w->items, sizeof *count), chi2 = 0;
  for (uint32_t u = 0; u < w->users; u++) {
    for (uint32_t a = 0; a < w->items; a++) {
      double p = -expm1(-(double)w->rate[u] * chance(w, u, a));
      expected[a] += p;
      variance[a] += p * (1 - p);
    }
  }
  for (size_t k = 0; k < fopo_csr_nnz(&d->matrix); k++) count[d->matrix.ids[k]]++;
  for (size_t a = 0; a < w->items; a++) {
    chi2 += (count[a] - expected[a]) * (count[a] - expected[a]) / variance[a];
  }
  double n = (double)w->items;
  assert_true(fabs(chi2 - n) < 5 * sqrt(2 * n));
  fopo_free(count);
}

/* ---- the best policy --------------------------------------------------------------------------*/

/* A world of 8 items in 2 clusters: all 2^8 sessions are weighted one by one. */
static double by_enumeration(const fopo_world *w, uint32_t user, uint32_t x_mask, int m) {
  double odds[8], total = 0, in[8] = {0}, best = 0;
  for (uint32_t a = 0; a < 8; a++) odds[a] = expm1((double)w->rate[user] * chance(w, user, a));
  for (uint32_t y = 0; y < 256; y++) {
    if ((y & x_mask) != 0 || __builtin_popcount(y) != m) continue;
    double weight = 1;
    for (int a = 0; a < 8; a++) weight *= y >> a & 1 ? odds[a] : 1;
    total += weight;
    for (int a = 0; a < 8; a++) in[a] += y >> a & 1 ? weight : 0;
  }
  for (int a = 0; a < 8; a++) best = fmax(best, in[a] / total);
  return best;
}

TEST(probabilities_are_exact) {
  double noises[3] = {0, 0.2, 0.9};
  for (int i = 0; i < 3; i++) {
    fopo_world_options o = {.users = 300,
                            .items = 8,
                            .clusters = 2,
                            .tastes = 1,
                            .mean_items = 6,
                            .noise = noises[i],
                            .seed = 5};
    FREED(fopo_world_free) fopo_world *w = NULL;
    FREED(fopo_dataset_free) fopo_dataset *d = NULL;
    DONE(fopo_split_done) fopo_split split;
    make(&w, &d, &o);
    ok(fopo_split_by(&split, d, &(fopo_split_options){2, 0, 0, 0, 1}, &(fopo_split_plan){0}));
    double sum = 0, expected;
    for (size_t row = 0; row < split.train.X.rows; row++) {
      uint32_t mask = 0;
      for (size_t k = 0; k < fopo_csr_count(&split.train.X, row); k++) {
        mask |= 1u << fopo_csr_row(&split.train.X, row)[k];
      }
      int m = (int)fopo_csr_count(&split.train.Y, row);
      sum += by_enumeration(w, split.train.users[row], mask, m);
    }
    ok(fopo_world_best(&expected, NULL, w, &split.train));
    assert_true(fabs(expected - sum / (double)split.train.X.rows) < 1e-9);
  }
}

/* Hits of a policy that recommends the item of largest p_u outside X (kind 0), the same but also
 * inside X (1), the most popular unseen item of the cluster that fills most of X (2). */
static double hits_of(int kind, const fopo_world *w, const fopo_sessions *s) {
  size_t hits = 0;
  for (size_t row = 0; row < s->X.rows; row++) {
    uint32_t user = s->users[row], best = 0, count[20] = {0};
    for (size_t k = 0; k < fopo_csr_count(&s->X, row); k++) {
      count[w->cluster[fopo_csr_row(&s->X, row)[k]]]++;
    }
    double top = -1;
    for (uint32_t a = 0; a < w->items; a++) {
      if (kind != 1 && fopo_csr_contains(&s->X, row, a)) continue;
      double value =
          kind == 2 ? count[w->cluster[a]] + (double)w->popularity[a] : chance(w, user, a);
      if (value > top) {
        top = value;
        best = a;
      }
    }
    hits += (size_t)fopo_csr_contains(&s->Y, row, best);
  }
  return (double)hits / (double)s->X.rows;
}

TEST(nothing_beats_the_bound) {
  FREED(fopo_world_free) fopo_world *w = NULL;
  FREED(fopo_dataset_free) fopo_dataset *d = NULL;
  DONE(fopo_split_done) fopo_split split;
  double expected, achieved;
  make(&w, &d, &small);
  ok(fopo_split_by(&split, d, &(fopo_split_options){10, 0, 0, 0, 1}, &(fopo_split_plan){0}));
  const fopo_sessions *s = &split.train;
  ok(fopo_world_best(&expected, &achieved, w, s));
  double error = 0.5 / sqrt((double)s->X.rows);
  assert_true(expected > 0.5 && expected < 0.95);
  assert_true(fabs(achieved - expected) < 4 * error);
  assert_true(fabs(hits_of(0, w, s) - achieved) < 1e-3);
  assert_true(hits_of(1, w, s) < expected - 4 * error);
  assert_true(hits_of(2, w, s) < expected - 4 * error);
}

/* Very long sessions and certain items: the tilt keeps the table from underflow. */
TEST(long_sessions_are_finite) {
  fopo_world_options o = {.users = 30,
                          .items = 3000,
                          .clusters = 3,
                          .tastes = 2,
                          .mean_items = 6000,
                          .zipf = 1.5,
                          .noise = 0.3,
                          .seed = 2};
  FREED(fopo_world_free) fopo_world *w = NULL;
  FREED(fopo_dataset_free) fopo_dataset *d = NULL;
  DONE(fopo_split_done) fopo_split split;
  double expected, achieved;
  make(&w, &d, &o);
  ok(fopo_split_by(&split, d, &(fopo_split_options){2, 0, 0, 0, 1}, &(fopo_split_plan){0}));
  ok(fopo_world_best(&expected, &achieved, w, &split.train));
  assert_true(expected > 0.9 && expected <= 1);
  assert_true(achieved > 0.8);
}

/* ---- determinism and refusals -----------------------------------------------------------------*/

TEST(same_for_any_threads) {
  fopo_world *w, *v;
  fopo_dataset *d, *e;
  DONE(fopo_split_done) fopo_split split;
  double best[2], again[2];
  int before = fopo_threads();
  fopo_split_options o = {10, 0, 0.1, 0.1, 1};
  fopo_threads_set(1);
  make(&w, &d, &small);
  ok(fopo_split_by(&split, d, &o, &(fopo_split_plan){0}));
  ok(fopo_world_best(&best[0], &best[1], w, &split.test));
  size_t nnz = fopo_csr_nnz(&d->matrix);
  for (int threads = 2; threads <= 4; threads += 2) {
    fopo_threads_set(threads);
    make(&v, &e, &small);
    assert_int_equal(fopo_csr_nnz(&e->matrix), nnz);
    assert_memory_equal(d->matrix.ids, e->matrix.ids, nnz * sizeof *d->matrix.ids);
    assert_memory_equal(d->matrix.values, e->matrix.values, nnz * sizeof *d->matrix.values);
    assert_memory_equal(w->rate, v->rate, w->users * sizeof *w->rate);
    ok(fopo_world_best(&again[0], &again[1], v, &split.test));
    assert_memory_equal(best, again, sizeof best);
    fopo_world_free(v);
    fopo_dataset_free(e);
  }
  fopo_threads_set(before);
  fopo_world_free(w);
  fopo_dataset_free(d);
}

static void assert_refused(fopo_world_options o, const char *part) {
  fopo_world *w;
  fopo_dataset *d;
  refused(fopo_world_new(&w, &d, &o), FOPO_ERR_ARGUMENT, part);
  assert_null(w);
  assert_null(d);
}

TEST(refusals) {
  double nan = strtod("nan", NULL);
  assert_refused((fopo_world_options){.items = 1}, "nothing to choose");
  assert_refused((fopo_world_options){.items = 10, .clusters = 11}, "11 clusters do not fit 10");
  assert_refused((fopo_world_options){.clusters = 2, .tastes = 3}, "cannot like 3 of 2");
  assert_refused((fopo_world_options){.noise = 1}, "noise is 1");
  assert_refused((fopo_world_options){.noise = nan}, "noise is");
  assert_refused((fopo_world_options){.mean_items = nan}, "mean_items is");
  assert_refused((fopo_world_options){.mean_items = 1}, "mean_items is 1");
  assert_refused((fopo_world_options){.zipf = -1}, "zipf is -1");
  assert_refused((fopo_world_options){.users = (size_t)1 << 33}, "too large");

  FREED(fopo_world_free) fopo_world *w = NULL;
  FREED(fopo_dataset_free) fopo_dataset *d = NULL, *e = NULL;
  DONE(fopo_split_done) fopo_split split;
  fopo_world_options other = small;
  other.items = 1999;
  make(&w, &d, &small);
  fopo_world_free(w);
  make(&w, &e, &other);
  ok(fopo_split_by(&split, d, &(fopo_split_options){2, 0, 0, 0, 1}, &(fopo_split_plan){0}));
  assert_int_equal(fopo_world_best(NULL, NULL, w, &split.train), FOPO_ERR_ARGUMENT);
  assert_int_equal(fopo_world_best(NULL, NULL, w, &split.test), FOPO_ERR_ARGUMENT);
}

int main(void) { return run_all(NULL, NULL); }
