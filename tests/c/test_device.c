/* The CPU device: its results against plain sums in double, its draws against their densities, the
 * same bits for any number of threads, and no allocation after the first step. */
#include <dlfcn.h>

#include "core/progress.h"
#include "core/threads.h"
#include "device/device.h"
#include "kernels/kernels.h"
#include "numbers.h"

FREED_BY(fopo_device_close, fopo_device)

static fopo_device *d;

static int open_device(void **state) {
  (void)state;
  return fopo_device_open(&d, "cpu");
}

static int close_device(void **state) {
  (void)state;
  fopo_device_close(d);
  d = NULL;
  return 0;
}

static void assert_near(double got, double wanted, double tolerance) {
  if (!(fabs(got - wanted) <= tolerance)) {
    fail_msg("%.9g instead of %.9g (tolerance %.3g)", got, wanted, tolerance);
  }
}

/* A batch: everything that a step reads. */
typedef struct {
  size_t B, S, P, L, ld;
  fopo_objective_kind objective;
  float *items, *Q, *logq, *r;
  fopo_rows beta; /* items */
  uint32_t *ids, *rows;
} batch;

static batch batch_new(size_t B, size_t S, size_t P, size_t L, double scale) {
  batch x = {.B = B, .S = S, .P = P, .L = L, .ld = L + 3};
  x.items = normals(P * x.ld, 1, 1);
  x.beta = fopo_rows_float32(x.items, x.ld);
  x.Q = normals(B * L, scale / sqrt((double)L), 2);
  x.logq = room(B * S, sizeof(float));
  x.r = room(B * S, sizeof(float));
  x.ids = room(B * S, sizeof(uint32_t));
  x.rows = room(B, sizeof(uint32_t));
  for (size_t b = 0; b < B; b++) x.rows[b] = (uint32_t)(3 * b + 1);
  fopo_draw_key key = {7, 1};
  ok(d->ops->draw_uniform(
      d, &(fopo_samples){x.ids, x.logq, NULL},
      &(fopo_device_batch){.B = B, .S = S, .P = P, .rows = x.rows, .key = key}));
  for (size_t i = 0; i < B * S; i++) {
    x.logq[i] = (float)(-3 + 2 * sin((double)x.ids[i]));
    x.r[i] = x.ids[i] % 5 == 0 ? 1.0f : 0.0f;
  }
  return x;
}

static void batch_free(batch *x) {
  free(x->items);
  free(x->Q);
  free(x->logq);
  free(x->r);
  free(x->ids);
  free(x->rows);
}

/* The batch as the operations take it. */
static fopo_device_batch shape_of(const batch *x) {
  return (fopo_device_batch){
      .B = x->B, .S = x->S, .P = x->P, .L = x->L, .rows = x->rows, .Q = x->Q};
}

static fopo_matrix items_of(const batch *x) { return (fopo_matrix){x->items, x->P, x->L, x->ld}; }

static int run_snis(float *V, float *c, float *stats, const batch *x, float floor) {
  fopo_estimate e = {.objective = x->objective, .V = V, .c = c, .stats = stats};
  fopo_samples samples = {x->ids, x->logq, x->r};
  fopo_device_batch shape = shape_of(x);
  return d->ops->snis(d, &e, &samples, &x->beta, floor, &shape);
}

static int run_reinforce(float *V, float *c, float *stats, const batch *x, const float *mean) {
  fopo_estimate e = {.V = V, .c = c, .stats = stats};
  fopo_samples samples = {x->ids, NULL, x->r};
  fopo_device_batch shape = shape_of(x);
  return d->ops->reinforce(d, &e, &samples, mean, items_of(x), &shape);
}

static int run_policy(const batch *x, float *mean, float *log_z, fopo_draw_key key) {
  fopo_samples samples = {.ids = x->ids};
  fopo_policy_sums sums = {mean, log_z, 0, NULL, 0};
  fopo_device_batch shape = shape_of(x);
  shape.key = key;
  return d->ops->draw_policy(d, &samples, &sums, items_of(x), &shape);
}

static double score(const batch *x, size_t b, uint32_t id) {
  double sum = 0;
  for (size_t i = 0; i < x->L; i++) {
    sum += (double)x->items[id * x->ld + i] * (double)x->Q[b * x->L + i];
  }
  return sum;
}

/* ---- opening, memory ---- */

TEST(test_open) {
  FREED(fopo_device_close) fopo_device *other = NULL;
  refused(fopo_device_open(&other, "tpu"), FOPO_ERR_ARGUMENT, "tpu");
  assert_null(other);
  ok(fopo_device_open(&other, "auto"));
  assert_true(strlen(other->note) > 0);
  assert_string_equal(d->ops->kind, "cpu");
  assert_non_null(strstr(d->name, fopo_kernels_get()->name));
  fopo_device_close(NULL);
}

/* Without a driver nothing of CUDA is loaded: its libraries would take more memory than a small
 * session. */
TEST(test_no_driver) {
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != NULL) {
    dlclose(driver);
    skip();
  }
  const char *named = getenv("FOPO_CUDA");
  char saved[4096] = "", line[4096];
  if (named != NULL) snprintf(saved, sizeof saved, "%s", named);
  unsetenv("FOPO_CUDA");
  fopo_device *other = NULL;
  refused(fopo_device_open(&other, "cuda"), FOPO_ERR_UNAVAILABLE, "or use device = \"cpu\"");
  assert_null(other);
  if (named != NULL) setenv("FOPO_CUDA", saved, 1);
  FILE *maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  while (fgets(line, sizeof line, maps) != NULL) {
    assert_null(strstr(line, "fopo_cuda"));
    assert_null(strstr(line, "libcublas"));
  }
  fclose(maps);
}

TEST(test_memory) {
  fopo_memory_use before = fopo_memory_in_use();
  fopo_device *own;
  ok(fopo_device_open(&own, "cpu"));
  void *blocks[40], *shared;
  char host[100] = "there and back", back[100] = "";
  for (size_t i = 0; i < 40; i++) ok(own->ops->alloc(own, &blocks[i], 100));
  ok(own->ops->put(own, blocks[3], host, sizeof host));
  ok(own->ops->get(own, back, blocks[3], sizeof back));
  assert_string_equal(back, "there and back");
  ok(own->ops->share(own, &shared, host, sizeof host));
  assert_ptr_equal(shared, host);
  own->ops->release(own, shared);
  own->ops->release(own, NULL);
  for (size_t i = 0; i < 20; i++) own->ops->release(own, blocks[i]);
  fopo_device_close(own);
  assert_int_equal(fopo_memory_in_use().blocks, before.blocks);
}

/* ---- dense operations ---- */

TEST(test_gather_rows) {
  float *contexts = normals(20 * 7, 1, 3), X[3 * 5];
  const uint32_t rows[3] = {19, 0, 4};
  ok(d->ops->gather_rows(d, fopo_matrix_view(X, 3, 5), (fopo_matrix){contexts, 20, 5, 7}, rows));
  for (size_t b = 0; b < 3; b++) assert_memory_equal(X + b * 5, contexts + rows[b] * 7, 20);
  free(contexts);
}

TEST(test_products) {
  enum { B = 6, D = 20, L = 33 };
  FREED(free) float *X = normals(B * D, 1, 4);
  FREED(free) float *theta = normals(D * L, 1, 5);
  FREED(free) float *V = normals(B * L, 1, 6);
  float Q[B * L], G[D * L];
  ok(d->ops->queries(d, fopo_matrix_view(Q, B, L), fopo_matrix_view(X, B, D), theta, 0.5f));
  for (size_t b = 0; b < B; b++) {
    for (size_t j = 0; j < L; j++) {
      double sum = 0;
      for (size_t i = 0; i < D; i++) sum += (double)X[b * D + i] * (double)theta[i * L + j];
      assert_near((double)Q[b * L + j], 0.5 * sum, 1e-5);
    }
  }
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    ok(d->ops->outer(d, G, fopo_matrix_view(X, B, D), fopo_matrix_view(V, B, L), 0.25f,
                     accumulate));
    for (size_t i = 0; i < D; i++) {
      for (size_t j = 0; j < L; j++) {
        double sum = 0;
        for (size_t b = 0; b < B; b++) sum += (double)X[b * D + i] * (double)V[b * L + j];
        assert_near((double)G[i * L + j], 0.25 * (accumulate + 1) * sum, 1e-5);
      }
    }
  }
}

TEST(test_scores) {
  DONE(batch_free) batch x = batch_new(4, 50, 200, 19, 1);
  float f[4 * 50];
  uint32_t counts[4] = {50, 0, 7, 60};
  for (int counted = 0; counted < 2; counted++) {
    fopo_candidate_sets sets = {50, x.ids, f, counted ? counts : NULL};
    fopo_device_batch shape = shape_of(&x);
    ok(d->ops->scores(d, &sets, &x.beta, &shape));
    for (size_t b = 0; b < 4; b++) {
      for (size_t s = 0; s < 50; s++) {
        float got = f[b * 50 + s];
        if (counted && s >= counts[b]) {
          assert_true(isinf(got) && got < 0);
        } else {
          assert_near((double)got, score(&x, b, x.ids[b * 50 + s]), 1e-5);
        }
      }
    }
  }
}

/* ---- estimators ---- */

/* The definition, in double, of the expected reward, or of the log of Z that the likelihood has
 * less. size = sum |c beta|, to which errors are relative. */
static void snis_reference(double *V, double *size, double stats[FOPO_STATS], const batch *x,
                           size_t b, float floor) {
  const float *logq = x->logq + b * x->S, *r = x->r + b * x->S;
  const uint32_t *ids = x->ids + b * x->S;
  double *w = room(x->S, sizeof *w), top = -INFINITY, W = 0, squares = 0, most = 0, rbar = 0;
  int of_z = x->objective == FOPO_OBJECTIVE_LIKELIHOOD;
  for (size_t s = 0; s < x->S; s++) {
    w[s] = score(x, b, ids[s]) - (double)logq[s];
    top = fmax(top, w[s]);
  }
  for (size_t s = 0; s < x->S; s++) W += w[s] = exp(w[s] - top);
  stats[FOPO_STAT_HEAD_MASS] = 0;
  for (size_t s = 0; s < x->S; s++) {
    w[s] /= W;
    rbar += w[s] * (double)r[s];
    squares += w[s] * w[s];
    most = fmax(most, w[s]);
    if (logq[s] > floor) stats[FOPO_STAT_HEAD_MASS] += w[s];
  }
  stats[FOPO_STAT_REWARD] = of_z ? top + log(W) : rbar;
  stats[FOPO_STAT_ESS] = 1 / squares;
  stats[FOPO_STAT_MAX_WEIGHT] = most;
  for (size_t i = 0; i < x->L; i++) {
    V[i] = size[i] = 0;
    for (size_t s = 0; s < x->S; s++) {
      double beta = (double)x->items[ids[s] * x->ld + i];
      V[i] += w[s] * (of_z ? -1 : (double)r[s] - rbar) * beta;
      size[i] += w[s] * (of_z ? 1 : fabs((double)r[s]) + fabs(rbar)) * fabs(beta);
    }
  }
  free(w);
}

/* The relative tolerance must grow with the scores, whose rounding changes the weights. */
static void check_snis(const batch *x, float floor, double tolerance) {
  FREED(free) float *V = room(x->B * x->L, sizeof *V);
  FREED(free) float *stats = room(x->B * FOPO_STATS, sizeof *stats);
  FREED(free) double *wanted = room(x->L, sizeof *wanted), *size = room(x->L, sizeof *size);
  FREED(free) float *c = room(x->B * x->S, sizeof *c);
  double figures[FOPO_STATS];
  int status = run_snis(V, c, stats, x, floor);
  assert_int_equal(status, FOPO_OK);
  for (size_t b = 0; b < x->B; b++) {
    snis_reference(wanted, size, figures, x, b, floor);
    for (size_t i = 0; i < x->L; i++) {
      assert_near((double)V[b * x->L + i], wanted[i], tolerance * (size[i] + 1e-30));
      double given = 0; /* V from the coefficients */
      for (size_t s = b * x->S; s < (b + 1) * x->S; s++) {
        given += (double)c[s] * (double)x->items[x->ids[s] * x->ld + i];
      }
      assert_near(given, wanted[i], tolerance * (size[i] + 1e-30));
    }
    for (size_t i = 0; i < FOPO_STATS; i++) {
      double scale = fabs(figures[i]) + 1e-6;
      assert_near((double)stats[b * FOPO_STATS + i], figures[i], tolerance * scale);
    }
  }
}

TEST(test_snis) {
  const size_t shapes[][2] = {{1, 2},    {7, 3},    {10, 64},   {10, 1000}, {16, 65},
                              {17, 999}, {33, 100}, {100, 700}, {1000, 200}}; /* L, S */
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    DONE(batch_free) batch x = batch_new(3, shapes[i][1], 400, shapes[i][0], 1);
    check_snis(&x, -3.0f, 2e-5);
    x.objective = FOPO_OBJECTIVE_LIKELIHOOD;
    check_snis(&x, -3.0f, 2e-5);
  }
}

TEST(test_snis_extremes) {
  DONE(batch_free) batch x = batch_new(3, 1000, 400, 100, 1);
  for (size_t i = 0; i < x.B * x.L; i++) x.Q[i] *= 3000.0f; /* scores of about +-1e4 */
  check_snis(&x, -3.0f, 2e-2);
  batch_free(&x);
  x = batch_new(3, 1000, 400, 10, 1);
  for (size_t i = 0; i < x.B * x.S; i++) x.r[i] = 100.0f + (float)(i % 7); /* a custom reward */
  check_snis(&x, INFINITY, 2e-5);
  for (size_t i = 0; i < x.B * x.S; i++) x.logq[i] = 90.0f; /* only differences count */
  check_snis(&x, -INFINITY, 2e-5);
}

/* If all rewards are equal, the gradient is exactly 0. */
TEST(test_snis_equal_rewards) {
  DONE(batch_free) batch x = batch_new(2, 300, 400, 100, 1);
  float V[200], stats[2 * FOPO_STATS];
  const float values[] = {0.0f, 1.0f, -0.3f, 1e6f};
  for (size_t v = 0; v < 4; v++) {
    for (size_t i = 0; i < x.B * x.S; i++) x.r[i] = values[v];
    ok(run_snis(V, NULL, stats, &x, INFINITY));
    for (size_t i = 0; i < 200; i++) assert_true(V[i] == 0);
    assert_true(stats[FOPO_STAT_REWARD] == values[v]);
    assert_true(stats[FOPO_STAT_HEAD_MASS] == 0);
  }
}

/* A NaN among the scores must make the result NaN. */
TEST(test_snis_nan) {
  DONE(batch_free) batch x = batch_new(1, 100, 400, 10, 1);
  float V[10], stats[FOPO_STATS];
  x.Q[3] = NAN;
  ok(run_snis(V, NULL, stats, &x, INFINITY));
  for (size_t i = 0; i < 10; i++) assert_true(isnan(V[i]));
  assert_true(isnan(stats[FOPO_STAT_REWARD]));
}

/* Coefficients that are given: the sum over the draws, and the statistics of snis. */
TEST(test_weigh) {
  DONE(batch_free) batch x = batch_new(3, 250, 400, 21, 1);
  float f[3 * 250], c[3 * 250], V[3 * 21], stats[3 * FOPO_STATS], of_snis[3 * FOPO_STATS];
  fopo_samples samples = {x.ids, x.logq, x.r};
  fopo_candidate_sets drawn = {.k = 250, .ids = x.ids, .scores = f};
  fopo_device_batch shape = shape_of(&x);
  ok(run_snis(V, NULL, of_snis, &x, -3.0f));
  ok(d->ops->scores(d, &drawn, &x.beta, &shape));
  for (size_t i = 0; i < 3 * 250; i++) c[i] = (float)(i % 11) / 7.0f - 0.4f;
  fopo_estimate e = {.V = V, .c = c, .stats = stats};
  ok(d->ops->weigh(d, &e, &samples, f, &x.beta, -3.0f, &shape));
  for (size_t i = 0; i < 3 * FOPO_STATS; i++) {
    assert_near((double)stats[i], (double)of_snis[i], 2e-5 * (1 + fabs((double)of_snis[i])));
  }
  for (size_t b = 0; b < 3; b++) {
    for (size_t i = 0; i < 21; i++) {
      double sum = 0;
      for (size_t s = b * 250; s < (b + 1) * 250; s++) {
        sum += (double)c[s] * (double)x.items[x.ids[s] * x.ld + i];
      }
      assert_near((double)V[b * 21 + i], sum, 1e-4);
    }
  }
  for (size_t i = 0; i < 250; i++) f[i] = -INFINITY; /* all masked */
  ok(d->ops->weigh(d, &e, &samples, f, &x.beta, -3.0f, &shape));
  for (size_t i = 0; i < FOPO_STATS; i++) assert_true(stats[i] == 0);
}

TEST(test_reinforce) {
  DONE(batch_free) batch x = batch_new(3, 250, 400, 21, 1);
  float *mean = normals(3 * 21, 1, 8), V[3 * 21], given[3 * 250], stats[3 * FOPO_STATS];
  for (int baseline = 0; baseline < 2; baseline++) {
    ok(run_reinforce(V, given, stats, &x, baseline ? NULL : mean));
    for (size_t b = 0; b < 3; b++) {
      double rbar = 0;
      for (size_t s = 0; s < 250; s++) rbar += (double)x.r[b * 250 + s] / 250;
      for (size_t s = b * 250; s < (b + 1) * 250; s++) {
        double r = (double)x.r[s];
        assert_near((double)given[s], baseline ? (r - rbar) / 249 : r / 250, 1e-8);
      }
      for (size_t i = 0; i < 21; i++) {
        double sum = baseline ? 0 : -rbar * (double)mean[b * 21 + i];
        for (size_t s = 0; s < 250; s++) {
          double r = (double)x.r[b * 250 + s];
          double c = baseline ? (r - rbar) / 249 : r / 250;
          sum += c * (double)x.items[x.ids[b * 250 + s] * x.ld + i];
        }
        assert_near((double)V[b * 21 + i], sum, 1e-5);
      }
      assert_near((double)stats[b * FOPO_STATS + FOPO_STAT_REWARD], rbar, 1e-7);
      assert_near((double)stats[b * FOPO_STATS + FOPO_STAT_ESS], 250, 0);
      assert_near((double)stats[b * FOPO_STATS + FOPO_STAT_MAX_WEIGHT], 0.004, 1e-9);
      assert_true(stats[b * FOPO_STATS + FOPO_STAT_HEAD_MASS] == 0);
    }
  }
  free(mean);
}

/* Rows of 0, 1, 10 and many items; ids in and out of them. */
TEST(test_reward_hits) {
  enum { P = 30000, S = 3000 };
  const size_t sizes[4] = {0, 1, 10, 6000};
  uint64_t indptr[5] = {0};
  FREED(free) uint32_t *y = room(P, sizeof *y), *ids = room(4 * S, sizeof *ids);
  FREED(free) float *r = room(4 * S, sizeof *r);
  for (size_t row = 0; row < 4; row++) {
    for (size_t i = 0; i < sizes[row]; i++) {
      y[indptr[row] + i] = (uint32_t)(5 * i + row);
    }
    indptr[row + 1] = indptr[row] + sizes[row];
  }
  fopo_csr Y = {4, P, indptr, y, NULL};
  const uint32_t rows[4] = {2, 0, 3, 1};
  for (size_t i = 0; i < 4 * S; i++) {
    ids[i] = i % 3 == 0 ? (uint32_t)(i / 3 % 60) : (uint32_t)(i * 7919 % P);
  }
  FREED(free) float *value = room(P, sizeof *value);
  for (size_t a = 0; a < P; a++) value[a] = (float)(a % 7) * 0.25f;
  for (size_t k = 0; k < 8; k++) { /* without values, and with them */
    size_t b = k % 4;
    const float *worth = k < 4 ? NULL : value;
    if (b == 0) {
      ok(d->ops->reward_hits(d, &(fopo_samples){ids, NULL, r}, &Y, worth,
                             &(fopo_device_batch){.B = 4, .S = S, .rows = rows}));
    }
    size_t hits = 0;
    for (size_t s = 0; s < S; s++) {
      uint32_t id = ids[b * S + s];
      int in = id % 5 == rows[b] && id / 5 < sizes[rows[b]];
      assert_true(r[b * S + s] == (in ? worth != NULL ? value[id] : 1.0f : 0.0f));
      hits += (size_t)in;
    }
    assert_true((hits > 0) == (sizes[rows[b]] > 0));
  }
}

/* ---- draws ---- */

/* Counts against probabilities: chi-square is below its mean plus 5 standard deviations, and an
 * item of probability 0 is never drawn. */
static void assert_frequencies(const double *count, const double *q, size_t n) {
  double total = 0, chi = 0;
  size_t cells = 0;
  for (size_t i = 0; i < n; i++) total += count[i];
  for (size_t i = 0; i < n; i++) {
    double expected = q[i] * total;
    if (expected == 0) {
      assert_true(count[i] == 0);
      continue;
    }
    assert_true(expected > 5);
    chi += (count[i] - expected) * (count[i] - expected) / expected;
    cells++;
  }
  double freedom = (double)cells - 1;
  if (chi > freedom + 5 * sqrt(2 * freedom)) {
    fail_msg("chi-square %.1f with %.0f degrees of freedom", chi, freedom);
  }
}

TEST(test_draw_uniform) {
  enum { B = 3, S = 1001 };
  uint32_t ids[B * S], wanted[S];
  float logq[B * S];
  const uint32_t rows[B] = {5, 1000000, 0};
  fopo_draw_key key = {99, 12};
  ok(d->ops->draw_uniform(
      d, &(fopo_samples){ids, logq, NULL},
      &(fopo_device_batch){.B = B, .S = S, .P = 790000, .rows = rows, .key = key}));
  for (size_t b = 0; b < B; b++) {
    fopo_kernels_named("portable")->draw_uniform(wanted, 790000, S, 99, 12, rows[b]);
    assert_memory_equal(ids + b * S, wanted, sizeof wanted);
  }
  for (size_t i = 0; i < B * S; i++) assert_true(logq[i] == (float)-log(790000.0));
}

enum { MIX_P = 50, MIX_K = 8, MIX_B = 3, MIX_S = 1000, MIX_STEPS = 60 };

typedef struct {
  uint32_t ids[MIX_B * MIX_K], counts[MIX_B];
  float scores[MIX_B * MIX_K];
  double q[MIX_B][MIX_P]; /* the density, by definition */
} mixture_case;

/* Three contexts, with 8, 3 and 0 of 8 candidates. */
static mixture_case mixture_of(double epsilon) {
  mixture_case c = {.counts = {8, 3, 0}};
  for (size_t b = 0; b < MIX_B; b++) {
    double kappa[MIX_K], total = 0;
    for (size_t i = 0; i < MIX_K; i++) {
      c.ids[b * MIX_K + i] = (uint32_t)((11 * i + 7 * b + 3) % MIX_P);
      c.scores[b * MIX_K + i] = (float)(1000 + 2 * sin((double)(i + b)));
      kappa[i] = i < c.counts[b] ? exp((double)c.scores[b * MIX_K + i] - 1000) : 0;
      total += kappa[i];
    }
    double rest = c.counts[b] == 0 ? 1 : epsilon;
    for (size_t a = 0; a < MIX_P; a++) c.q[b][a] = rest / MIX_P;
    for (size_t i = 0; i < c.counts[b]; i++) {
      c.q[b][c.ids[b * MIX_K + i]] += (1 - epsilon) * kappa[i] / total;
    }
    double sum = 0;
    for (size_t a = 0; a < MIX_P; a++) sum += c.q[b][a];
    assert_near(sum, 1, 1e-12);
  }
  return c;
}

static int run_mixture(uint32_t *ids, float *logq, const fopo_mixture *m, const uint32_t *rows,
                       fopo_draw_key key, size_t S) {
  fopo_samples samples = {ids, logq, NULL};
  fopo_device_batch shape = {.B = MIX_B, .S = S, .P = MIX_P, .rows = rows, .key = key};
  return d->ops->draw_mixture(d, &samples, m, &shape);
}

static void check_mixture(double epsilon, int stratified) {
  mixture_case c = mixture_of(epsilon);
  fopo_mixture m = {{MIX_K, c.ids, c.scores, c.counts}, epsilon, stratified};
  const uint32_t rows[MIX_B] = {4, 9, 2};
  FREED(free) uint32_t *ids = room(MIX_B * MIX_S, sizeof *ids);
  FREED(free) float *logq = room(MIX_B * MIX_S, sizeof *logq);
  double count[MIX_B][MIX_P] = {{0}};
  for (uint32_t step = 0; step < MIX_STEPS; step++) {
    fopo_draw_key key = {1234, step};
    int status = run_mixture(ids, logq, &m, rows, key, MIX_S);
    assert_int_equal(status, FOPO_OK);
    for (size_t i = 0; i < MIX_B * MIX_S; i++) {
      assert_in_range(ids[i], 0, MIX_P - 1);
      count[i / MIX_S][ids[i]] += 1;
      /* also right for a uniform draw that happens to be a candidate */
      assert_near((double)logq[i], log(c.q[i / MIX_S][ids[i]]), 1e-6);
    }
  }
  for (size_t b = 0; b < MIX_B; b++) assert_frequencies(count[b], c.q[b], MIX_P);
}

TEST(test_mixture) {
  const double epsilons[] = {0, 0.25, 0.8, 1};
  for (size_t i = 0; i < 4; i++) {
    check_mixture(epsilons[i], 0);
    check_mixture(epsilons[i], 1);
  }
}

/* The mixture by its definition, sample for sample: two words, the first for the part, the second
 * for the item; kappa inverted by walking along its cumulative sum. */
static void textbook_mixture(uint32_t *ids, float *logq, const fopo_mixture *m, size_t b,
                             uint32_t row, fopo_draw_key key, size_t S, size_t P) {
  const fopo_candidate_sets *sets = &m->sets;
  const uint32_t *own = sets->ids + b * sets->k;
  const float *score = sets->scores + b * sets->k;
  size_t n = sets->counts[b];

  float *weight = room(n, sizeof *weight), top = -INFINITY;
  double sum = 0, total = 0;
  for (size_t i = 0; i < n; i++) top = fmaxf(top, score[i]);
  total = fopo_kernels_get()->exp_sum(weight, score, top, n);
  for (size_t i = 0; i < n; i++) sum += (double)weight[i];
  for (uint32_t s = 0; s < S; s++) {
    fopo_words w = fopo_random(key.seed, FOPO_STREAM_SAMPLE, key.step, row, s / 2);
    uint32_t which = w.v[2 * (s % 2)], item = w.v[2 * (s % 2) + 1];
    double kappa = 0, up_to = 0;
    size_t i = 0;
    if (m->stratified ? s < llround(m->epsilon * (double)S) : which < m->epsilon * 4294967296.0) {
      ids[s] = fopo_below((uint32_t)P, item, key.seed, key.step, row, s);
    } else {
      while (i + 1 < n && !((up_to += (double)weight[i]) > fopo_unit(item) * sum)) i++;
      ids[s] = own[i];
    }
    for (i = 0; i < n; i++) {
      if (own[i] == ids[s]) kappa = (double)weight[i] / total;
    }
    logq[s] = (float)log(m->epsilon / (double)P + (1 - m->epsilon) * kappa);
  }
  free(weight);
}

/* k candidates of P items, some short, with scores from equal to one that has all the mass. */
static void check_textbook(size_t k, size_t P, double epsilon, int stratified, double spread,
                           uint32_t seed) {
  enum { B = 3, S = 700 };
  uint32_t *own = room(B * k, sizeof *own), counts[B] = {(uint32_t)k, (uint32_t)(k + 1) / 2, 1};
  uint32_t *ids = room(B * S, sizeof *ids), *wanted = room(S, sizeof *wanted);
  float *scores = normals(B * k, spread, seed), *logq = room(B * S, sizeof *logq), density[S];
  const uint32_t rows[B] = {seed, 9, 4000000000u};
  for (size_t i = 0; i < B * k; i++) own[i] = (uint32_t)((i * (P / k) + seed) % P);
  fopo_mixture m = {
      {k, own, scores, counts}, stratified ? round(epsilon * S) / S : epsilon, stratified};
  fopo_draw_key key = {seed * 0x9e3779b97f4a7c15u, seed};
  ok(d->ops->draw_mixture(d, &(fopo_samples){ids, logq, NULL}, &m,
                          &(fopo_device_batch){.B = B, .S = S, .P = P, .rows = rows, .key = key}));
  for (size_t b = 0; b < B; b++) {
    textbook_mixture(wanted, density, &m, b, rows[b], key, S, P);
    assert_memory_equal(ids + b * S, wanted, S * sizeof *ids);
    for (size_t s = 0; s < S; s++) {
      assert_near((double)logq[b * S + s], (double)density[s], 1e-6 * fabs((double)density[s]));
    }
  }
  free(own), free(ids), free(wanted), free(scores), free(logq);
}

TEST(test_mixture_textbook) {
  const size_t k[] = {1, 2, 3, 31, 256, 1000, 1500}, P[] = {1500, 65536, 1000000, 3000000000u};
  const double epsilons[] = {0, 0.01, 0.5, 0.8, 1}, spreads[] = {0, 0.1, 1, 10, 60};
  uint32_t seed = 1;
  for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
    for (size_t e = 0; e < 5; e++, seed++) {
      check_textbook(k[i], P[seed % 4], epsilons[e], seed % 2, spreads[seed / 3 % 5], seed);
      check_textbook(k[i], P[seed / 2 % 4], epsilons[e], !(seed % 2), spreads[seed % 5], seed);
    }
  }
}

/* With NaN and infinite scores the ids are still items of the catalogue. */
TEST(test_mixture_nan) {
  mixture_case c = mixture_of(0.5);
  fopo_mixture m = {{MIX_K, c.ids, c.scores, c.counts}, 0.5, 0};
  const uint32_t rows[MIX_B] = {0, 1, 2};
  uint32_t ids[MIX_B * 100];
  float logq[MIX_B * 100];
  fopo_draw_key key = {5, 0};
  c.scores[2] = NAN;
  c.scores[MIX_K + 1] = INFINITY;
  ok(run_mixture(ids, logq, &m, rows, key, 100));
  for (size_t i = 0; i < MIX_B * 100; i++) assert_in_range(ids[i], 0, MIX_P - 1);
}

/* Stratified: the first round(eps S) draws are uniform, the others are candidates. The density of
 * an item outside the candidates equals the `floor` that SNIS is given, to the bit. */
TEST(test_mixture_stratified) {
  mixture_case c = mixture_of(0.8);
  fopo_mixture m = {{MIX_K, c.ids, c.scores, c.counts}, 0.8, 1};
  const uint32_t rows[MIX_B] = {0, 1, 2};
  uint32_t ids[MIX_B * 101];
  float logq[MIX_B * 101], floor = (float)log(0.8 / MIX_P);
  fopo_draw_key key = {5, 0};
  ok(run_mixture(ids, logq, &m, rows, key, 101));
  for (size_t b = 0; b < 2; b++) {
    size_t outside = 0;
    for (size_t s = 0; s < 101; s++) {
      int candidate = 0;
      for (size_t i = 0; i < c.counts[b]; i++) {
        candidate |= c.ids[b * MIX_K + i] == ids[b * 101 + s];
      }
      if (!candidate) assert_true(logq[b * 101 + s] == floor);
      if (s >= 81) assert_true(candidate && logq[b * 101 + s] > floor);
      outside += !candidate;
    }
    assert_true(outside > 40);
  }
}

/* Head and tail: the candidates stand first, once each; a tail draw is never a candidate, all other
 * items are drawn equally often, and logq says how many a draw stands for. */
static void check_tail(size_t S) {
  enum { TAIL_STEPS = 1000 };
  mixture_case c = mixture_of(0.5);
  const uint32_t rows[MIX_B] = {4, 9, 2};
  uint32_t ids[MIX_B * MIX_P];
  float logq[MIX_B * MIX_P];
  double count[MIX_B][MIX_P] = {{0}}, q[MIX_P];
  for (uint32_t step = 0; step < TAIL_STEPS; step++) {
    fopo_draw_key key = {77, step};
    int status = d->ops->draw_tail(
        d, &(fopo_samples){ids, logq, NULL}, &(fopo_candidate_sets){MIX_K, c.ids, NULL, c.counts},
        &(fopo_device_batch){.B = MIX_B, .S = S, .P = MIX_P, .rows = rows, .key = key});
    assert_int_equal(status, FOPO_OK);
    for (size_t b = 0; b < MIX_B; b++) {
      size_t n = c.counts[b];
      for (size_t i = 0; i < n; i++) { /* sorted by id */
        int held = 0;
        for (size_t j = 0; j < n; j++) held |= c.ids[b * MIX_K + j] == ids[b * S + i];
        assert_true(held && (i == 0 || ids[b * S + i - 1] < ids[b * S + i]));
      }
      for (size_t s = 0; s < S; s++) {
        double wanted = s < n ? 0 : log((double)(S - n) / (double)(MIX_P - n));
        assert_near((double)logq[b * S + s], wanted, 1e-6);
        assert_true(s < n ? logq[b * S + s] > FOPO_TAIL_LEAST : logq[b * S + s] <= FOPO_TAIL_LEAST);
        assert_in_range(ids[b * S + s], 0, MIX_P - 1);
        if (s >= n) count[b][ids[b * S + s]] += 1;
        if (s > n) assert_true(ids[b * S + s] >= ids[b * S + s - 1]);
      }
    }
  }
  for (size_t b = 0; b < MIX_B; b++) {
    size_t n = c.counts[b];
    for (size_t a = 0; a < MIX_P; a++) q[a] = 1 / (double)(MIX_P - n);
    for (size_t i = 0; i < n; i++) q[c.ids[b * MIX_K + i]] = 0;
    assert_frequencies(count[b], q, MIX_P);
    if (S < MIX_P) continue;
    for (size_t a = 0; a < MIX_P; a++) assert_true(count[b][a] == (q[a] > 0 ? TAIL_STEPS : 0));
  }
}

TEST(test_tail) {
  check_tail(9);
  check_tail(20);
  check_tail(MIX_P - 1);
  check_tail(MIX_P); /* every item, once */
}

/* Tail draws against counting the items one by one, with candidates at both ends and in runs. */
static void check_ranks(size_t P, size_t K, size_t U, uint32_t seed) {
  size_t S = K + U;
  FREED(free) uint32_t *head = room(K, sizeof *head);
  FREED(free) uint32_t *ids = room(S, sizeof *ids);
  FREED(free) uint32_t *x = room(U, sizeof *x);
  FREED(free) float *logq = room(S, sizeof *logq);
  FREED(free) char *taken = room(P, 1);
  uint32_t row = seed, count = (uint32_t)K;
  for (size_t i = 0; i < K; i++) {
    size_t id = i < K / 7 ? P - 1 - i : i < 2 * K / 7 ? i - K / 7 : P / K * i;
    while (taken[id]) id = (id + 1) % P;
    head[i] = (uint32_t)id;
    taken[id] = 1;
  }
  for (size_t i = K; i-- > 1;) { /* shuffle: an index returns them in any order */
    size_t j = fopo_random(seed, FOPO_STREAM_WORLD, 0, 0, (uint32_t)i).v[0] % (i + 1);
    uint32_t swap = head[i];
    head[i] = head[j], head[j] = swap;
  }
  fopo_draw_key key = {8, seed};
  ok(d->ops->draw_tail(d, &(fopo_samples){ids, logq, NULL},
                       &(fopo_candidate_sets){K, head, NULL, &count},
                       &(fopo_device_batch){.B = 1, .S = S, .P = P, .rows = &row, .key = key}));
  fopo_kernels_named("portable")->draw_uniform(x, (uint32_t)(P - K), U, 8, seed, row);
  uint32_t a = 0;
  uint64_t left = 0; /* items before a that are no candidates */
  for (uint64_t u = 0; u < U; u++) {
    uint64_t rank = (u * (P - K) + x[u]) / U;
    while (taken[a] || left < rank) left += !taken[a++];
    assert_int_equal(ids[K + u], a);
  }
}

TEST(test_tail_ranks) {
  const size_t P[] = {2, 3, 4, 5, 255, 256, 257, 3000, 65536, 65537, 1000000, 20000000};
  for (uint32_t i = 0; i < sizeof P / sizeof *P; i++) {
    for (uint32_t seed = 1; seed <= 4; seed++) {
      size_t K = seed == 1 ? 1 : seed == 2 ? P[i] / 2 : P[i] / 4 + 1;
      if (K > 700) K = 700 - seed;
      size_t U = seed == 3 || P[i] - K < 300 ? P[i] - K : 300;
      if (U > 300) U = 299;
      check_ranks(P[i], K, U, seed + 10 * i);
    }
  }
}

/* pi [P], E_pi beta [L] and log Z. */
static double policy_reference(double *pi, double *mean, const batch *x, size_t b) {
  double top = -INFINITY, total = 0;
  for (size_t a = 0; a < x->P; a++) top = fmax(top, pi[a] = score(x, b, (uint32_t)a));
  for (size_t a = 0; a < x->P; a++) total += pi[a] = exp(pi[a] - top);
  memset(mean, 0, x->L * sizeof *mean);
  for (size_t a = 0; a < x->P; a++) {
    pi[a] /= total;
    for (size_t i = 0; i < x->L; i++) mean[i] += pi[a] * (double)x->items[a * x->ld + i];
  }
  return top + log(total);
}

/* P spans several tiles and a remainder. Counts are by 50 classes, for single items are too rare.
 */
static void check_policy(size_t P, size_t L, double scale) {
  enum { B = 3, S = 4000, STEPS = 5, CLASSES = 50 };
  DONE(batch_free) batch x = batch_new(B, S, P, L, scale);
  float *mean = room(B * L, sizeof *mean), log_z[B];
  double count[B][CLASSES] = {{0}}, *pi = room(P, sizeof *pi), *wanted = room(L, sizeof *wanted);
  for (uint32_t step = 0; step < STEPS; step++) {
    fopo_draw_key key = {77, step};
    int status = run_policy(&x, step == 0 ? mean : NULL, log_z, key);
    assert_int_equal(status, FOPO_OK);
    for (size_t i = 0; i < B * S; i++) {
      assert_true(x.ids[i] < P);
      count[i / S][x.ids[i] % CLASSES] += 1;
    }
  }
  for (size_t b = 0; b < B; b++) {
    double q[CLASSES] = {0};
    assert_near((double)log_z[b], policy_reference(pi, wanted, &x, b), 1e-5);
    for (size_t a = 0; a < P; a++) q[a % CLASSES] += pi[a];
    assert_frequencies(count[b], q, P < CLASSES ? P : CLASSES);
    for (size_t i = 0; i < L; i++) assert_near((double)mean[b * L + i], wanted[i], 1e-5);
  }
  free(mean);
  free(pi);
  free(wanted);
}

TEST(test_policy) {
  check_policy(1, 3, 1);
  check_policy(40, 1, 0.5);
  check_policy(3000, 17, 1);
  check_policy(70001, 4, 1); /* more tiles than chunks */
}

/* A peaked policy draws its best item at any position, also with scores of +-1e4. */
TEST(test_policy_peaked) {
  enum { P = 5000, S = 100 };
  float *items = room(P, sizeof *items), mean;
  uint32_t ids[S], row = 3;
  float q = 1e4f;
  const uint32_t places[] = {0, 63, 64, 1023, 1024, 4095, 4999};
  fopo_draw_key key = {3, 3};
  for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
    for (size_t a = 0; a < P; a++) items[a] = -1.0f;
    items[places[k]] = 1.0f;
    int status = run_policy(&(batch){.B = 1,
                                     .S = S,
                                     .P = P,
                                     .L = 1,
                                     .ld = 1,
                                     .items = items,
                                     .Q = &q,
                                     .ids = ids,
                                     .rows = &row},
                            &mean, NULL, key);
    assert_int_equal(status, FOPO_OK);
    for (size_t s = 0; s < S; s++) assert_int_equal(ids[s], places[k]);
    assert_true(mean == 1.0f);
  }
  free(items);
}

/* More contexts than one block holds: each gets the draws that it gets alone. With L = 1 a score is
 * one product, so its bits do not depend on the other contexts. */
TEST(test_policy_blocks) {
  enum { P = 1 << 20, B = 66, S = 20 };
  float *items = normals(P, 1, 11), *Q = normals(B, 1, 12), mean[B], alone_mean;
  uint32_t *ids = room(B * S, sizeof *ids), rows[B], alone[S];
  for (uint32_t b = 0; b < B; b++) rows[b] = b;
  fopo_draw_key key = {8, 8};
  ok(run_policy(&(batch){.B = B,
                         .S = S,
                         .P = P,
                         .L = 1,
                         .ld = 1,
                         .items = items,
                         .Q = Q,
                         .ids = ids,
                         .rows = rows},
                mean, NULL, key));
  for (size_t b = 0; b < B; b += 13) {
    ok(run_policy(&(batch){.B = 1,
                           .S = S,
                           .P = P,
                           .L = 1,
                           .ld = 1,
                           .items = items,
                           .Q = Q + b,
                           .ids = alone,
                           .rows = rows + b},
                  &alone_mean, NULL, key));
    assert_memory_equal(alone, ids + b * S, sizeof alone);
    assert_near((double)mean[b], (double)alone_mean, 1e-5);
  }
  free(items);
  free(Q);
  free(ids);
}

TEST(test_policy_interrupted) {
  DONE(batch_free) batch x = batch_new(2, 10, 3000, 5, 1);
  fopo_draw_key key = {1, 1};
  fopo_interrupt_request();
  assert_int_equal(run_policy(&x, NULL, NULL, key), FOPO_ERR_INTERRUPTED);
  fopo_interrupt_clear();
  ok(run_policy(&x, NULL, NULL, key));
}

/* ---- all operations ---- */

/* All results of a step in one block, to be compared as bytes. */
typedef struct {
  uint32_t tail[9 * 300], uniform[9 * 300], mixed[9 * 300], policy[9 * 300];
  float logq[9 * 300], logq_tail[9 * 300], r[9 * 300], f[9 * 300], c[9 * 300], log_z[9];
  float Q[9 * 40], V[9 * 40], mean[9 * 40], stats[9 * FOPO_STATS], G[1600];
  float theta[40000], m[40000], v[40000], velocity[40000], squares[40000];
} step_result;

static void whole_step(step_result *out, const batch *x, const mixture_case *mix) {
  const fopo_device_ops *ops = d->ops;
  fopo_draw_key key = {21, 6};
  uint64_t indptr[31];
  uint32_t y[30 * 9];
  for (uint32_t i = 0; i <= 30; i++) indptr[i] = 9 * i;
  for (uint32_t i = 0; i < 270; i++) y[i] = i % 9 * 500 + i / 9;
  fopo_csr Y = {30, x->P, indptr, y, NULL};
  uint32_t ids[9 * MIX_K], counts[9];
  float scores[9 * MIX_K];
  for (size_t b = 0; b < 9; b++) {
    counts[b] = mix->counts[b % MIX_B];
    memcpy(ids + b * MIX_K, mix->ids + b % MIX_B * MIX_K, MIX_K * sizeof *ids);
    memcpy(scores + b * MIX_K, mix->scores + b % MIX_B * MIX_K, MIX_K * sizeof *scores);
  }
  fopo_mixture m = {{MIX_K, ids, scores, counts}, 0.5, 0};
  fopo_device_batch shape = shape_of(x);
  shape.key = key;
  fopo_matrix Q = fopo_matrix_view(x->Q, 9, 40), items = items_of(x);
  fopo_matrix V = fopo_matrix_view(out->V, 9, 40);
  fopo_samples uniform = {out->uniform, out->logq, NULL}, mixed = {out->mixed, out->logq, out->r};
  fopo_samples tail = {out->tail, out->logq_tail, NULL}, policy = {out->policy, NULL, x->r};
  fopo_samples rewarded = {out->mixed, out->logq, x->r};
  fopo_candidate_sets all = {300, out->uniform, out->f, NULL};
  fopo_policy_sums sums = {out->mean, out->log_z, 0, NULL, 0};
  fopo_estimate e = {.V = out->V, .c = out->c, .stats = out->stats};
  fopo_parameters by_adam = {out->theta, out->m, out->v, NULL, 40000};
  fopo_parameters by_sgd = {out->theta, out->velocity, NULL, NULL, 40000};
  fopo_parameters by_adagrad = {out->theta, NULL, out->squares, NULL, 40000};
  fopo_adagrad adagrad = {{.lr = 1e-2}, 1e-10};
  fopo_adam adam = {{.lr = 1e-2, .weight_decay = 0.1}, 0.9, 0.999, 1e-8, 1};
  fopo_sgd sgd = {{.lr = 1e-2, .weight_decay = 0.1}, 0.9};
  int s = 0;
  s |= ops->queries(d, fopo_matrix_view(out->Q, 9, 40), Q, x->items, 0.3f);
  s |= ops->draw_uniform(d, &uniform, &shape);
  s |= ops->draw_mixture(d, &mixed, &m, &shape);
  s |= ops->draw_tail(d, &tail, &m.sets, &shape);
  s |= ops->draw_policy(d, &policy, &sums, items, &shape);
  s |= ops->scores(d, &all, &x->beta, &shape);
  s |= ops->reward_hits(d, &mixed, &Y, NULL, &shape);
  s |= ops->snis(d, &e, &rewarded, &x->beta, INFINITY, &shape);
  s |= ops->outer(d, out->G, Q, V, 1.0f, 0);
  s |= ops->reinforce(d, &e, &policy, out->mean, items, &shape);
  s |= ops->outer(d, out->G, Q, V, 1.0f, 1);
  memcpy(out->theta, x->items, sizeof out->theta);
  s |= ops->adam(d, &by_adam, x->items + 1, &adam);
  s |= ops->sgd(d, &by_sgd, x->items + 2, &sgd);
  s |= ops->adagrad(d, &by_adagrad, x->items + 3, &adagrad);
  assert_int_equal(s, FOPO_OK);
}

TEST(test_threads) {
  int before = fopo_threads();
  DONE(batch_free) batch x = batch_new(9, 300, 5000, 40, 2);
  mixture_case mix = mixture_of(0.5);
  FREED(free) step_result *one = room(1, sizeof *one), *many = room(1, sizeof *many);
  ok(fopo_threads_set(1));
  whole_step(one, &x, &mix);
  for (int threads = 2; threads <= 4; threads += 2) {
    memset(many, 0, sizeof *many);
    ok(fopo_threads_set(threads));
    whole_step(many, &x, &mix);
    assert_memory_equal(many, one, sizeof *one);
  }
  fopo_threads_set(before);
}

/* Only the first step allocates; an allocation that fails leaves the device usable. */
TEST(test_step_allocates_once) {
  DONE(batch_free) batch x = batch_new(9, 300, 5000, 40, 2);
  mixture_case mix = mixture_of(0.5);
  FREED(free) step_result *result = room(1, sizeof *result);
  fopo_device *saved = d;
  ok(fopo_device_open(&d, "cpu"));
  float V[9 * 40], stats[9 * FOPO_STATS];
  fopo_memory_fail_after(0, 0);
  assert_int_equal(run_snis(V, NULL, stats, &x, INFINITY), FOPO_ERR_MEMORY);
  fopo_memory_fail_after(0, 0);
  assert_int_equal(run_policy(&x, NULL, NULL, (fopo_draw_key){1, 1}), FOPO_ERR_MEMORY);
  whole_step(result, &x, &mix);
  fopo_memory_fail_after(0, 1); /* from here on every allocation fails */
  whole_step(result, &x, &mix);
  fopo_memory_fail_after(-1, 0);
  fopo_device_close(d);
  d = saved;
}

/* Of 4 contexts 2 were given candidates, one of them fewer than 3. The others count as contexts,
 * and whatever their counts are, not among those with candidates. */
TEST(test_contexts_with_candidates) {
  enum { B = 4 };
  uint32_t counts[B] = {3, 1, 3, 2};
  float stats[B * FOPO_STATS];
  for (int i = 0; i < B * FOPO_STATS; i++) stats[i] = 1.0f;
  fopo_candidate_sets sets = {.k = 3, .counts = counts};
  fopo_device_batch shape = {.B = B, .with_candidates = 2};
  fopo_statistics sums = {0};
  ok(d->ops->add_stats(d, &sums, stats, &sets, 1, &shape));
  assert_true(sums.contexts == 4 && sums.n_with_candidates == 2 && sums.short_rows == 1);
  assert_true(sums.reward == 4 && sums.head_mass == 2);
}

/* The draws of an item are summed in their order, whatever sorts them: 2^24 + 1 is rounded to 2^24
 * before 2^24 is taken off. */
TEST(test_order_of_draws) {
  const float c[] = {16777216.0f, 2.0f, 1.0f, -16777216.0f, 3.0f}, Q[] = {1.0f};
  uint32_t ids[] = {1, 0, 1, 1, 0}, touched[5] = {0};
  float rows[5] = {0};
  fopo_item_gradient g = {rows, touched, 0};
  fopo_samples samples = {.ids = ids};
  fopo_device_batch shape = {.B = 1, .S = 5, .P = 3, .L = 1, .Q = Q};
  ok(d->ops->items_gradient(d, &g, c, &samples, 1.0f, &shape));
  assert_true(g.n == 2 && touched[0] == 0 && touched[1] == 1);
  assert_true(rows[0] == 5.0f && rows[1] == 0.0f);
}

int main(void) { return run_all(open_device, close_device); }
