/* Scores in two parts, f = q . beta + s, and the objectives: every operation that takes scores, on
 * the CPU with every instruction set and on the CUDA device, against plain sums in double. Rows of
 * s are masks or values; among the contexts are rows that are empty, rows that mask all items, and
 * rows that leave one. */

#include "core/csr.h"
#include "cuda_case.h"
#include "kernels/kernels.h"

#define MASKED (-(double)INFINITY)

enum { B = 37, P = 700, MOST_L = 1030, PLAIN = 0, ALL = 1, ALL_BUT_ONE = 2 };

static fopo_device *d; /* the device at hand */

/* ---- arrays on the device at hand ---- */

static void *kept[256];
static size_t n_kept;

static void *on(const void *host, size_t bytes) {
  void *x = NULL;
  ok(d->ops->alloc(d, &x, bytes > 0 ? bytes : 1));
  if (host != NULL) ok(d->ops->put(d, x, host, bytes));
  assert_true(n_kept < sizeof kept / sizeof *kept);
  return kept[n_kept++] = x;
}

static void get(void *host, const void *x, size_t bytes) { ok(d->ops->get(d, host, x, bytes)); }

static void release_all(void) {
  while (n_kept > 0) d->ops->release(d, kept[--n_kept]);
}

/* ---- a small world ---- */

typedef struct {
  size_t L;
  int valued; /* s has values; else it is a mask */
  float *items, *Q;
  uint32_t rows[B];       /* ids of the contexts */
  uint64_t indptr[B + 1]; /* of s: row b is that of context b */
  uint32_t *ids, own[B];
  float *values;
  double *f; /* [B, P] */
  uint64_t y_indptr[3 * B + 1];
  uint32_t *y;
  float *worth; /* [P] of hits; NULL: 1 */
} world;

/* A number in 0 .. n - 1. */
static uint32_t some(uint64_t *state, uint32_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((*state >> 33) % n);
}

static float rounded_to_bfloat16(float x) { return fopo_from_bfloat16(fopo_to_bfloat16(x)); }

static double s_of(const world *w, size_t b, uint32_t a) {
  for (uint64_t i = w->indptr[b]; i < w->indptr[b + 1]; i++) {
    if (w->ids[i] == a) return w->values != NULL ? (double)w->values[i] : MASKED;
  }
  return 0.0;
}

static int is_hit(const world *w, size_t b, uint32_t a) {
  uint32_t n = w->rows[b];
  for (uint64_t i = w->y_indptr[n]; i < w->y_indptr[n + 1]; i++) {
    if (w->y[i] == a) return 1;
  }
  return 0;
}

/* What showing item a in context b earns. */
static float earned(const world *w, size_t b, uint32_t a) {
  return is_hit(w, b, a) ? fopo_hit_value(w->worth, a) : 0.0f;
}

static float *worth_of(const world *w) {
  return w->worth == NULL ? NULL : on(w->worth, P * sizeof *w->worth);
}

/* Whether row b of s has item a: of context ALL every one, of ALL_BUT_ONE all but item 5, of every
 * fifth none, else about 3 %, those of small norm order included. */
static int listed(size_t b, uint32_t a, uint64_t *state) {
  if (b == ALL) return 1;
  if (b == ALL_BUT_ONE) return a != 5;
  return b % 5 != 3 && some(state, 32) == 0;
}

static world world_new(size_t L, int valued) {
  world w = {.L = L, .valued = valued};
  uint64_t state = 5, n = 0;
  w.items = normals(P * L, 1, 1);
  w.Q = normals(B * L, 1.5 / sqrt((double)L), 2);
  for (size_t i = 0; i < P * L; i++) w.items[i] = rounded_to_bfloat16(w.items[i]);
  w.ids = room((size_t)B * P, sizeof *w.ids);
  w.f = room((size_t)B * P, sizeof *w.f);
  if (valued) {
    w.values = normals((size_t)B * P, 1.5, 3);
  } else {
    w.worth = room(P, sizeof *w.worth); /* of every third item 0 */
    for (uint32_t a = 0; a < P; a++) w.worth[a] = a % 3 == 0 ? 0.0f : 0.25f + (float)(a % 5);
  }
  for (size_t b = 0; b < B; b++) {
    w.rows[b] = (uint32_t)(3 * ((7 * b) % B) + 1);
    w.own[b] = (uint32_t)b;
    w.indptr[b] = n;
    for (uint32_t a = 0; a < P; a++) {
      if (!listed(b, a, &state)) continue;
      if (valued && (b == ALL || b == ALL_BUT_ONE || some(&state, 3) == 0)) w.values[n] = -INFINITY;
      w.ids[n++] = a;
    }
  }
  w.indptr[B] = n;
  w.y = room((size_t)3 * B * 12, sizeof *w.y);
  for (n = 0; n < 3 * B; n++) {
    w.y_indptr[n + 1] = w.y_indptr[n];
    for (uint32_t a = 0; a < P && n % 4 != 2; a++) {
      if (some(&state, 100) == 0 && w.y_indptr[n + 1] - w.y_indptr[n] < 12) {
        w.y[w.y_indptr[n + 1]++] = a;
      }
    }
  }
  for (size_t b = 0; b < B; b++) {
    for (uint32_t a = 0; a < P; a++) {
      double f = s_of(&w, b, a);
      for (size_t i = 0; i < L; i++) f += (double)w.items[a * L + i] * (double)w.Q[b * L + i];
      w.f[b * P + a] = f;
    }
  }
  return w;
}

static void world_free(world *w) {
  free(w->items), free(w->Q), free(w->ids), free(w->values), free(w->f), free(w->y);
  free(w->worth);
}

/* The batch on the device at hand. by_id: rows of s by the contexts' ids, else given. */
static fopo_device_batch batch_of(const world *w, size_t S, int by_id) {
  fopo_device_batch x = {.B = B, .S = S, .P = P, .L = w->L, .key = {7, 3}};
  uint64_t all[3 * B + 1] = {0};
  uint64_t n = w->indptr[B];
  x.rows = on(w->rows, sizeof w->rows);
  x.Q = on(w->Q, B * w->L * sizeof(float));
  if (!by_id) {
    x.sparse.indptr = on(w->indptr, sizeof w->indptr);
    x.sparse.ids = on(w->ids, n * sizeof *w->ids);
    x.sparse.values = w->values == NULL ? NULL : on(w->values, n * sizeof *w->values);
    x.sparse.rows = on(w->own, sizeof w->own);
    return x;
  }
  uint32_t *ids = room(n, sizeof *ids);
  float *values = room(n, sizeof *values);
  for (size_t row = 0; row < 3 * B; row++) {
    all[row + 1] = all[row];
    for (size_t b = 0; b < B; b++) {
      for (uint64_t i = w->indptr[b]; w->rows[b] == row && i < w->indptr[b + 1]; i++) {
        if (w->values != NULL) values[all[row + 1]] = w->values[i];
        ids[all[row + 1]++] = w->ids[i];
      }
    }
  }
  x.sparse.indptr = on(all, sizeof all);
  x.sparse.ids = on(ids, n * sizeof *ids);
  x.sparse.values = w->values == NULL ? NULL : on(values, n * sizeof *values);
  free(ids), free(values);
  return x;
}

static fopo_rows items_of(const world *w, fopo_float type) {
  size_t ld = type == FOPO_FLOAT32 ? w->L : fopo_rows_ld(w->L);
  size_t bytes = P * ld * fopo_float_bytes(type);
  if (type == FOPO_FLOAT32) return (fopo_rows){on(w->items, bytes), ld, type};
  uint16_t *half = aligned_alloc(64, (bytes + 63) / 64 * 64);
  ok(fopo_rows_halve(half, fopo_matrix_view(w->items, P, w->L), type));
  fopo_rows rows = {on(half, bytes), ld, type};
  free(half);
  return rows;
}

static fopo_csr Y_of(const world *w) {
  fopo_csr Y = {.rows = 3 * B, .cols = P};
  Y.indptr = on(w->y_indptr, sizeof w->y_indptr);
  Y.ids = on(w->y, w->y_indptr[3 * B] * sizeof *w->y);
  return Y;
}

/* Runs `test` on the CPU with every instruction set, and on the card. */
static void everywhere(void (*test)(void)) {
  const char *best = fopo_kernels_get()->name;
  d = cpu;
  for (size_t i = 0; fopo_kernels_name(i) != NULL; i++) {
    if (fopo_kernels_force(fopo_kernels_name(i)) == FOPO_OK) test();
  }
  ok(fopo_kernels_force(best));
  d = gpu;
  if (emulation_processors == NULL) {
    test();
    return;
  }
  for (int processors = 1; processors < 80; processors += 69) {
    fopo_device_close(gpu);
    emulation_processors(processors);
    ok(fopo_device_open(&gpu, "cuda"));
    d = gpu;
    test();
  }
}

static void near(double got, double wanted, double tolerance, const char *what, size_t b) {
  int same = isinf(wanted) ? got == wanted : fabs(got - wanted) <= tolerance * (1 + fabs(wanted));
  if (!same) fail_msg("%s, %s of context %zu: %.9g, not %.9g", d->ops->kind, what, b, got, wanted);
}

/* ---- self-normalised importance sampling ---- */

/* What a context's estimate must be. */
typedef struct {
  double V[MOST_L], stats[FOPO_STATS], log_z, gamma, alpha, rbar, W, shift;
} estimate;

/* By the definition, from n draws. */
static estimate expected(const world *w, size_t b, fopo_objective_kind objective,
                         const uint32_t *ids, const float *logq, const float *r, size_t n) {
  estimate e = {.shift = MASKED};
  double ww = 0, wr = 0;
  for (size_t s = 0; s < n; s++) {
    e.shift = fmax(e.shift, w->f[b * P + ids[s]] - (double)logq[s]);
  }
  if (e.shift == MASKED) return e;
  for (size_t s = 0; s < n; s++) {
    double x = exp(w->f[b * P + ids[s]] - (double)logq[s] - e.shift);
    e.W += x, ww += x * x, wr += x * (double)r[s];
  }
  e.rbar = wr / e.W;
  e.log_z = e.shift + log(e.W);
  double gamma = 1, alpha = 0, value = e.rbar; /* of own ones and of ratios: those of the reward */
  switch (objective) {
  case FOPO_OBJECTIVE_LIKELIHOOD: gamma = 0, alpha = -1, value = e.log_z; break;
  case FOPO_OBJECTIVE_SMOOTHED: gamma = 1 / (1 + e.rbar), value = log(1 + e.rbar); break;
  case FOPO_OBJECTIVE_LOG_REWARD:
    gamma = e.rbar > 0 ? 1 / e.rbar : 0, value = log(fmax(e.rbar, 1e-6));
    break;
  default: break;
  }
  e.gamma = gamma, e.alpha = alpha;
  for (size_t s = 0; s < n; s++) {
    double x = exp(w->f[b * P + ids[s]] - (double)logq[s] - e.shift) / e.W;
    for (size_t i = 0; i < w->L; i++) {
      e.V[i] +=
          x * (e.gamma * ((double)r[s] - e.rbar) + e.alpha) * (double)w->items[ids[s] * w->L + i];
    }
  }
  e.stats[FOPO_STAT_REWARD] = value;
  e.stats[FOPO_STAT_ESS] = e.W * e.W / ww;
  e.stats[FOPO_STAT_MAX_WEIGHT] = 1 / e.W;
  return e;
}

/* V and stats of the device; c [B, S] if not NULL. */
static void compare(const world *w, size_t b, const estimate *e, const float *V,
                    const float *stats) {
  double size = 1e-5 * (1 + fabs(e->gamma));
  for (size_t i = 0; i < w->L; i++) near((double)V[b * w->L + i], e->V[i], size, "V", b);
  for (size_t i = 0; i < FOPO_STAT_HEAD_MASS; i++) {
    near((double)stats[b * FOPO_STATS + i], e->stats[i], 5e-5, "a statistic", b);
  }
  assert_true(stats[b * FOPO_STATS + FOPO_STAT_HEAD_MASS] >= 0);
}

/* S draws a context, uniform but for the density, which varies; of context 4 all are masked. */
static void draw(const world *w, uint32_t *ids, float *logq, float *r, size_t S) {
  uint64_t state = 11;
  for (size_t b = 0; b < B; b++) {
    for (size_t s = 0; s < S; s++) {
      uint32_t a = some(&state, P);
      while (b == 4 && s_of(w, b, a) != MASKED) a = some(&state, P);
      ids[b * S + s] = a;
      logq[b * S + s] = (float)(-3 + 2 * sin((double)a));
      r[b * S + s] = is_hit(w, b, a) ? earned(w, b, a) : (float)(s % 3 == 0) * 0.25f;
    }
  }
}

static void check_snis(const world *w, size_t S, fopo_float type, int by_id) {
  size_t L = w->L;
  FREED(free) uint32_t *ids = room(B * S, 4);
  FREED(free) float *logq = room(B * S, 4);
  FREED(free) float *r = room(B * S, 4);
  FREED(free) float *V = room(B * L, 4);
  FREED(free) float *c = room(B * S, 4);
  float stats[B * FOPO_STATS];
  draw(w, ids, logq, r, S);
  fopo_device_batch batch = batch_of(w, S, by_id);
  fopo_rows items = items_of(w, type);
  fopo_samples samples = {on(ids, B * S * 4), on(logq, B * S * 4), on(r, B * S * 4)};
  fopo_estimate e = {.V = on(NULL, B * L * 4), .stats = on(NULL, sizeof stats)};
  for (int o = 0; o < FOPO_OBJECTIVE_ROWS; o++) {
    e.objective = (fopo_objective_kind)o;
    e.c = o % 2 == 0 ? on(NULL, B * S * 4) : NULL;
    ok(d->ops->snis(d, &e, &samples, &items, -3.0f, &batch));
    get(V, e.V, B * L * 4), get(stats, e.stats, sizeof stats);
    if (e.c != NULL) get(c, e.c, B * S * 4);
    for (size_t b = 0; b < B; b++) {
      size_t at = b * S;
      estimate x = expected(w, b, e.objective, ids + at, logq + at, r + at, S);
      compare(w, b, &x, V, stats);
      for (size_t s = 0; s < S && e.c != NULL; s++) {
        double f = w->f[b * P + ids[at + s]] - (double)logq[at + s] - x.shift;
        double wbar = x.W == 0 ? 0 : exp(f) / x.W;
        near((double)c[at + s], wbar * (x.gamma * ((double)r[at + s] - x.rbar) + x.alpha),
             1e-5 * (1 + x.gamma), "c", b);
      }
    }
  }
  release_all();
}

static void snis_here(void) {
  for (int valued = 0; valued < 2; valued++) {
    DONE(world_free) world w = world_new(13, valued), wide = world_new(1030, valued);
    check_snis(&w, 300, FOPO_FLOAT32, 0);
    check_snis(&w, 17, valued ? FOPO_BFLOAT16 : FOPO_FLOAT16, 1);
    check_snis(&wide, 60, FOPO_FLOAT32, 1);
  }
}

TEST(test_snis) { everywhere(snis_here); }

/* Rows that are all empty change no bit. */
static void empty_here(void) {
  enum { S = 200, L = 13 };
  DONE(world_free) world w = world_new(L, 0);
  uint32_t ids[B * S];
  float logq[B * S], r[B * S], V[2][B * L], stats[2][B * FOPO_STATS];
  static const uint64_t none[3 * B + 1];
  draw(&w, ids, logq, r, S);
  for (int given = 0; given < 2; given++) {
    fopo_device_batch batch = batch_of(&w, S, 1);
    fopo_rows items = items_of(&w, FOPO_FLOAT32);
    batch.sparse.indptr = given ? on(none, sizeof none) : NULL;
    fopo_samples samples = {on(ids, sizeof ids), on(logq, sizeof logq), on(r, sizeof r)};
    fopo_estimate e = {.V = on(NULL, sizeof V[0]), .stats = on(NULL, sizeof stats[0])};
    ok(d->ops->snis(d, &e, &samples, &items, -3.0f, &batch));
    get(V[given], e.V, sizeof V[0]), get(stats[given], e.stats, sizeof stats[0]);
    release_all();
  }
  assert_memory_equal(V[0], V[1], sizeof V[0]);
  assert_memory_equal(stats[0], stats[1], sizeof stats[0]);
}

TEST(test_empty) { everywhere(empty_here); }

/* ---- candidates ---- */

static void candidates_here(void) {
  enum { K = 30, S = 64, L = 13 };
  for (int valued = 0; valued < 2; valued++) {
    DONE(world_free) world w = world_new(L, valued);
    uint32_t ids[B * K], counts[B], drawn[B * S];
    float f[B * K], logq[B * S];
    for (size_t b = 0; b < B; b++) {
      counts[b] = b == 6 ? 0 : K - (uint32_t)b % 3;
      for (uint32_t i = 0; i < K; i++) ids[b * K + i] = (uint32_t)((23 * i + b) % P);
    }
    fopo_device_batch batch = batch_of(&w, S, valued);
    fopo_rows items = items_of(&w, FOPO_FLOAT32);
    fopo_candidate_sets sets = {K, on(ids, sizeof ids), on(NULL, sizeof f),
                                on(counts, sizeof counts)};
    ok(d->ops->scores(d, &sets, &items, &batch));
    get(f, sets.scores, sizeof f);
    for (size_t i = 0; i < B * K; i++) {
      double wanted = i % K < counts[i / K] ? w.f[i / K * P + ids[i]] : MASKED;
      near((double)f[i], wanted, 1e-5, "a score", i / K);
    }
    if (d->ops->scores_kept != NULL) {
      float *again = on(NULL, sizeof f);
      ok(d->ops->scores_kept(
          d, again, &sets, batch.sparse.rows != NULL ? batch.sparse.rows : on(w.own, sizeof w.own),
          &items, &batch));
      float g[B * K];
      get(g, again, sizeof g);
      assert_memory_equal(f, g, sizeof f);
    }

    /* a masked candidate has the density of any other item, and none is drawn but uniformly */
    fopo_samples samples = {.ids = on(NULL, sizeof drawn), .logq = on(NULL, sizeof logq)};
    fopo_mixture mixture = {.sets = sets, .epsilon = 0.25, .stratified = 1};
    ok(d->ops->draw_mixture(d, &samples, &mixture, &batch));
    get(drawn, samples.ids, sizeof drawn), get(logq, samples.logq, sizeof logq);
    for (size_t b = 0; b < B; b++) {
      double total = 0;
      for (size_t i = 0; i < counts[b]; i++) total += exp((double)f[b * K + i]);
      for (size_t s = 0; s < S; s++) {
        double kappa = 0;
        uint32_t a = drawn[b * S + s];
        assert_true(a < P);
        for (size_t i = 0; i < counts[b] && total > 0; i++) {
          if (ids[b * K + i] == a) kappa = exp((double)f[b * K + i]) / total;
        }
        near((double)logq[b * S + s], total > 0 ? log(0.25 / P + 0.75 * kappa) : -log((double)P),
             1e-5, "log q", b);
        if (total > 0 && s >= S / 4) assert_true(kappa > 0);
      }
    }
    release_all();
  }
}

TEST(test_candidates) { everywhere(candidates_here); }

/* topk finds by q . beta, and returns f. */
TEST(test_topk) {
  enum { K = 20, L = 13 };
  DONE(world_free) world w = world_new(L, 0);
  uint32_t ids[B * K];
  float f[B * K];
  d = gpu;
  fopo_device_batch batch = batch_of(&w, K, 0);
  fopo_candidate_sets sets = {K, on(NULL, sizeof ids), on(NULL, sizeof f), on(NULL, B * 4)};
  fopo_catalogue all = {.items = items_of(&w, FOPO_FLOAT32).x, .P = P, .ld = L, .limit = P};
  ok(d->ops->topk(d, &sets, &all, &batch));
  get(ids, sets.ids, sizeof ids), get(f, sets.scores, sizeof f);
  for (size_t i = 0; i < B * K; i++) {
    near((double)f[i], w.f[i / K * P + ids[i]], 1e-5, "a score", i / K);
  }
  release_all();
}

/* ---- a shared head ---- */

/* A head and draws of the others, in samples or, on the CPU, made for all contexts. */
static int sum_shared(const fopo_estimate *e, const fopo_shared_head *head,
                      const fopo_sparse_reward *reward, const fopo_samples *tail,
                      const fopo_rows *items, const fopo_device_batch *batch) {
  fopo_shared_tail others = {.H = head->H};
  if (d->ops->snis_shared != NULL) {
    return d->ops->snis_shared(d, e, head, &others, reward, items, batch);
  }
  return d->ops->snis_head(d, e, head, reward, tail, items, batch);
}

/* With a tail in full the estimate is exact: that of all items. Of every second objective. */
static void check_head(const world *w, size_t H, fopo_products products, int drawn, int first) {
  size_t L = w->L, U = P - H;
  uint32_t order[P], place[P], all[P], tail_ids[B * P];
  float zeros[P] = {0}, r[P], *V = room(B * L, 4), *logq = room(B * P, 4), *tail_r = room(B * P, 4);
  float stats[B * FOPO_STATS], weight[3 * B], gain[3 * B];
  uint32_t action[3 * B];
  for (size_t i = 0; i < P; i++) {
    order[i] = (uint32_t)((i * 37 + 11) % P), place[order[i]] = (uint32_t)i;
  }
  for (size_t n = 0; n < 3 * B; n++) {
    action[n] = (uint32_t)((n * 61 + 5) % P);
    weight[n] = 0.5f, gain[n] = 2.0f + (float)(n % 3);
  }
  for (size_t b = 0; b < B; b++) {
    for (size_t u = 0; u < U; u++) {
      uint32_t a = order[H + u];
      tail_ids[b * U + u] = a;
      logq[b * U + u] = FOPO_TAIL_LEAST;
      tail_r[b * U + u] = earned(w, b, a) + (action[w->rows[b]] == a ? 0.5f * gain[w->rows[b]] : 0);
    }
  }
  fopo_device_batch batch = batch_of(w, U, products == FOPO_PRODUCTS_BFLOAT16);
  fopo_rows items = items_of(w, FOPO_FLOAT32);
  fopo_shared_head head = {
      .H = H, .order = on(order, sizeof order), .place = on(place, sizeof place)};
  head.rows.x = on(NULL, H * fopo_rows_ld(L) * 4);
  ok(d->ops->pack_head(d, &head, &items, L, products));
  fopo_sparse_reward reward = {
      .Y = Y_of(w),
      .value = worth_of(w),
      .credit = {on(action, sizeof action), on(weight, sizeof weight), on(gain, sizeof gain), 0}};
  fopo_samples tail = {on(tail_ids, B * U * 4), on(logq, B * U * 4), on(tail_r, B * U * 4)};
  fopo_estimate e = {.V = on(NULL, B * L * 4), .stats = on(NULL, sizeof stats)};
  for (uint32_t a = 0; a < P; a++) all[a] = a;
  for (int o = first; o < FOPO_OBJECTIVE_ROWS; o += 2) {
    e.objective = (fopo_objective_kind)o;
    ok(sum_shared(&e, &head, &reward, drawn ? NULL : &tail, &items, &batch));
    get(V, e.V, B * L * 4), get(stats, e.stats, sizeof stats);
    for (size_t b = 0; b < B; b++) {
      for (uint32_t a = 0; a < P; a++) {
        r[a] = earned(w, b, a) + (action[w->rows[b]] == a ? 0.5f * gain[w->rows[b]] : 0);
      }
      estimate x = expected(w, b, e.objective, all, zeros, r, P);
      compare(w, b, &x, V, stats);
    }
  }
  release_all();
  free(V), free(logq), free(tail_r);
}

static void head_here(void) {
  static const size_t heads[] = {1, 130, 600, P - 1};
  for (int i = 0; i < 4; i++) {
    DONE(world_free) world w = world_new(13, i % 2 == 0);
    check_head(&w, heads[i], FOPO_PRODUCTS_FLOAT32, 0, i / 2);
    check_head(&w, heads[i], FOPO_PRODUCTS_BFLOAT16, d == gpu, 1 - i / 2);
  }
}

TEST(test_head) { everywhere(head_here); }

/* ---- the policy ---- */

static void policy_here(void) {
  enum { S = 50, L = 13 };
  for (int valued = 0; valued < 2; valued++) {
    DONE(world_free) world w = world_new(L, valued);
    uint32_t ids[B * S];
    float mean[B * L], log_z[B], weight[B], *rows = room(P * L, 4);
    fopo_device_batch batch = batch_of(&w, S, valued);
    fopo_matrix items = fopo_matrix_view(on(w.items, P * L * 4), P, L);
    fopo_samples samples = {.ids = on(NULL, sizeof ids)};
    fopo_policy_sums sums = {on(NULL, sizeof mean), on(NULL, sizeof log_z), 0, NULL, 0};
    ok(d->ops->draw_policy(d, &samples, &sums, items, &batch));
    get(ids, samples.ids, sizeof ids), get(mean, sums.mean, sizeof mean);
    get(log_z, sums.log_z, sizeof log_z);
    for (size_t b = 0; b < B; b++) weight[b] = (float)(b % 4) - 1;
    float *rows_ = on(rows, P * L * 4);
    ok(d->ops->items_expectation(d, rows_, items, sums.log_z, on(weight, sizeof weight), &batch));
    get(rows, rows_, P * L * 4);
    FREED(free) double *wanted = room(P * L, sizeof *wanted);
    for (size_t b = 0; b < B; b++) {
      double z = 0, m[L] = {0};
      for (size_t a = 0; a < P; a++) z += exp(w.f[b * P + a]);
      for (size_t a = 0; a < P && z > 0; a++) {
        double pi = exp(w.f[b * P + a]) / z;
        for (size_t i = 0; i < L; i++) {
          m[i] += pi * (double)w.items[a * L + i];
          wanted[a * L + i] += (double)weight[b] * pi * (double)w.Q[b * L + i];
        }
      }
      near((double)log_z[b], log(z), 1e-5, "log Z", b);
      for (size_t i = 0; i < L; i++) near((double)mean[b * L + i], m[i], 1e-5, "the mean", b);
      for (size_t s = 0; s < S; s++) {
        assert_true(b == ALL ? ids[b * S + s] == 0 : w.f[b * P + ids[b * S + s]] > MASKED);
      }
    }
    for (size_t i = 0; i < P * L; i++) near((double)rows[i], wanted[i], 1e-5, "a row", i / L);
    release_all();
    free(rows);
  }
}

TEST(test_policy) { everywhere(policy_here); }

/* ---- parts of a catalogue ---- */

/* Sums of two halves of the draws, joined; the first draws of context 4 are all masked, and all of
 * the first half of context ALL_BUT_ONE. */
static void join_here(void) {
  enum { S = 200, L = 13 };
  DONE(world_free) world w = world_new(L, 0);
  uint32_t ids[B * S];
  float logq[B * S], r[B * S], V[B * L], stats[B * FOPO_STATS];
  size_t width = fopo_sums_width(L);
  if (d->ops->join_sums == NULL) return;
  draw(&w, ids, logq, r, S);
  ids[ALL_BUT_ONE * S + S - 1] = 5;
  FREED(free) float *sums = room(2 * B * width, sizeof *sums);
  uint32_t counts[B];
  fopo_device_batch batch = batch_of(&w, S, 0);
  fopo_rows items = items_of(&w, FOPO_FLOAT32);
  for (size_t half = 0; half < 2; half++) {
    uint32_t own_ids[B * S];
    float own_logq[B * S], own_r[B * S];
    for (size_t b = 0; b < B; b++) {
      counts[b] = S / 2;
      for (size_t s = 0; s < S / 2; s++) {
        size_t from = b * S + half * S / 2 + s;
        own_ids[b * S + s] = ids[from], own_logq[b * S + s] = logq[from];
        own_r[b * S + s] = r[from];
      }
    }
    fopo_samples samples = {own_ids, own_logq, own_r};
    batch.counts = counts;
    ok(d->ops->snis(d, &(fopo_estimate){.sums = sums + half * B * width}, &samples, &items,
                    INFINITY, &batch));
  }
  for (int o = 0; o < FOPO_OBJECTIVE_ROWS; o++) {
    fopo_estimate e = {.objective = (fopo_objective_kind)o, .V = V, .stats = stats};
    ok(d->ops->join_sums(d, &e, sums, 2, &batch));
    for (size_t b = 0; b < B; b++) {
      estimate x = expected(&w, b, e.objective, ids + b * S, logq + b * S, r + b * S, S);
      compare(&w, b, &x, V, stats);
    }
  }
  release_all();
}

TEST(test_join) { everywhere(join_here); }

/* ---- objectives ---- */

/* The value of an objective for context b if its query is moved by h along number i. */
static double value_at(const world *w, size_t b, fopo_objective_kind objective, size_t i,
                       double h) {
  double z = 0, wr = 0, score = 0, worth = 0;
  for (uint32_t a = 0; a < P; a++) {
    double f = w->f[b * P + a] + h * (double)w->items[a * w->L + i];
    if (f == MASKED) continue;
    z += exp(f);
    if (!is_hit(w, b, a)) continue;
    double value = (double)earned(w, b, a);
    wr += value * exp(f), score += value * f, worth += value;
  }
  switch (objective) {
  case FOPO_OBJECTIVE_REWARD:
  case FOPO_OBJECTIVE_SNIPS:
  case FOPO_OBJECTIVE_CUSTOM: return z > 0 ? wr / z : 0; /* of a context */
  case FOPO_OBJECTIVE_LIKELIHOOD: return worth > 0 ? score / worth - log(z) : 0;
  case FOPO_OBJECTIVE_SMOOTHED: return z == 0 ? 0 : log(1 + wr / z);
  default: return z == 0 ? 0 : log(fmax(wr / z, 1e-6));
  }
}

/* V is the derivative of the value by the query: exact estimates, over all items listed and over a
 * head with its tail in full, against differences in double. */
static void objectives_here(void) {
  enum { L = 7, H = 300, U = P - H };
  for (int valued = 0; valued < 2; valued++) {
    DONE(world_free) world w = world_new(L, valued);
    FREED(free) uint32_t *ids = room(B * P, 4);
    float *logq = room(B * P, 4), *c = room(B * P, 4), V[B * L], stats[B * FOPO_STATS];
    uint32_t order[P];
    for (size_t i = 0; i < B * P; i++) {
      ids[i] = (uint32_t)(i % P), logq[i] = (float)-log((double)P),
      order[i % P] = (uint32_t)(i % P);
    }
    fopo_csr Y = Y_of(&w);
    const float *worth = worth_of(&w);
    fopo_rows items = items_of(&w, FOPO_FLOAT32);
    fopo_device_batch batch = batch_of(&w, P, valued), of_tail = batch;
    of_tail.S = U;
    fopo_samples samples = {on(ids, B * P * 4), on(logq, B * P * 4), on(NULL, B * P * 4)};
    ok(d->ops->reward_hits(d, &samples, &Y, worth, &batch));
    fopo_shared_head head = {
        .H = H, .order = on(order, sizeof order), .place = on(order, sizeof order)};
    head.rows.x = on(NULL, H * fopo_rows_ld(L) * 4);
    ok(d->ops->pack_head(d, &head, &items, L, FOPO_PRODUCTS_FLOAT32));
    fopo_samples tail = {on(NULL, B * U * 4), on(NULL, B * U * 4), on(NULL, B * U * 4)};
    ok(d->ops->draw_others(d, &tail, &head, 0, &of_tail));
    ok(d->ops->reward_hits(d, &tail, &Y, worth, &of_tail));
    fopo_sparse_reward reward = {.Y = Y, .value = worth};
    fopo_estimate e = {.V = on(NULL, sizeof V), .stats = on(NULL, sizeof stats)};
    for (int o = 0; o < FOPO_OBJECTIVE_ROWS; o++) {
      for (int by_head = 0; by_head < 2; by_head++) {
        e.objective = (fopo_objective_kind)o;
        e.c = by_head ? NULL : on(NULL, B * P * 4);
        if (by_head) {
          ok(sum_shared(&e, &head, &reward, &tail, &items, &of_tail));
        } else {
          ok(d->ops->snis(d, &e, &samples, &items, INFINITY, &batch));
        }
        if (fopo_objective_rows[o].targets) {
          ok(d->ops->add_targets(d, &e, &Y, worth, batch.rows, &items, by_head ? 0 : log((double)P),
                                 &batch));
        }
        get(V, e.V, sizeof V), get(stats, e.stats, sizeof stats);
        if (e.c != NULL) get(c, e.c, B * P * 4);
        for (size_t b = 0; b < B; b++) {
          double value = value_at(&w, b, e.objective, 0, 0), sum = 0;
          near((double)stats[b * FOPO_STATS], value, 1e-5, fopo_objective_rows[o].title, b);
          for (size_t i = 0; i < L; i++) {
            const double h = 1e-5;
            double more = value_at(&w, b, e.objective, i, h);
            double slope = (more - value_at(&w, b, e.objective, i, -h)) / (2 * h);
            near((double)V[b * L + i], slope, 3e-5, fopo_objective_rows[o].name, b);
          }
          for (size_t s = 0; s < P && e.c != NULL; s++) sum += (double)c[b * P + s];
          int counts = o == FOPO_OBJECTIVE_LIKELIHOOD && value != 0;
          if (e.c != NULL) near(sum, counts ? -1 : 0, 2e-5, "the sum of c", b);
        }
      }
    }
    release_all();
    free(logq), free(c);
  }
}

TEST(test_objectives) { everywhere(objectives_here); }

/* Targets in half precision too. */
static void targets_here(void) {
  static const fopo_float types[] = {FOPO_FLOAT32, FOPO_FLOAT16, FOPO_BFLOAT16};
  enum { L = 33 };
  for (size_t t = 0; t < 6; t++) {
    DONE(world_free) world w = world_new(L, t < 3);
    float V[B * L], stats[B * FOPO_STATS];
    fopo_csr Y = Y_of(&w);
    fopo_rows items = items_of(&w, types[t % 3]);
    fopo_device_batch batch = batch_of(&w, 1, 0);
    for (size_t i = 0; i < B * L; i++) V[i] = 1;
    for (size_t i = 0; i < B * FOPO_STATS; i++) stats[i] = 2;
    stats[8 * FOPO_STATS + FOPO_STAT_ESS] = 0; /* all draws were masked */
    fopo_estimate e = {.V = on(V, sizeof V), .stats = on(stats, sizeof stats)};
    ok(d->ops->add_targets(d, &e, &Y, worth_of(&w), batch.rows, &items, 0.5, &batch));
    get(V, e.V, sizeof V), get(stats, e.stats, sizeof stats);
    for (size_t b = 0; b < B; b++) {
      double n = 0, score = 0, mean[L] = {0};
      for (uint32_t a = 0; a < P; a++) {
        if (!is_hit(&w, b, a) || w.f[b * P + a] == MASKED) continue;
        double value = (double)earned(&w, b, a);
        n += value, score += value * w.f[b * P + a];
        for (size_t i = 0; i < L; i++) mean[i] += value * (double)w.items[a * L + i];
      }
      int none = n == 0 || b == 8;
      near((double)stats[b * FOPO_STATS], none ? 0 : score / n - 1.5, 1e-5, "the value", b);
      for (size_t i = 0; i < L; i++) {
        near((double)V[b * L + i], none ? 0 : 1 + mean[i] / n, 1e-5, "V", b);
      }
    }
    release_all();
  }
}

TEST(test_targets) { everywhere(targets_here); }

/* ---- draws that are used where they are made ---- */

static void check_drawn(const world *w, fopo_draw_kind kind) {
  enum { K = 40, S = 150 };
  size_t L = w->L;
  uint32_t ids[B * K], counts[B];
  float *V = room(B * L, 4), stats[B * FOPO_STATS];
  for (size_t b = 0; b < B; b++) {
    counts[b] = K - (uint32_t)b % 2;
    for (uint32_t i = 0; i < K; i++) ids[b * K + i] = (uint32_t)((17 * i + b) % P);
  }
  fopo_device_batch batch = batch_of(w, S, 0);
  fopo_rows items = items_of(w, FOPO_FLOAT32);
  fopo_csr Y = Y_of(w);
  const float *worth = worth_of(w);
  fopo_candidate_sets sets = {K, on(ids, sizeof ids), on(NULL, B * K * 4),
                              on(counts, sizeof counts)};
  ok(d->ops->scores(d, &sets, &items, &batch));
  fopo_mixture mixture = {.sets = sets, .epsilon = 0.5};
  fopo_drawing draws = {kind, mixture, NULL};
  fopo_samples samples = {on(NULL, B * S * 4), on(NULL, B * S * 4), on(NULL, B * S * 4)};
  switch (kind) {
  case FOPO_DRAW_UNIFORM: ok(d->ops->draw_uniform(d, &samples, &batch)); break;
  case FOPO_DRAW_MIXTURE: ok(d->ops->draw_mixture(d, &samples, &mixture, &batch)); break;
  case FOPO_DRAW_TAIL: ok(d->ops->draw_tail(d, &samples, &sets, &batch)); break;
  }
  ok(d->ops->reward_hits(d, &samples, &Y, worth, &batch));
  uint32_t drawn[B * S];
  float logq[B * S], r[B * S];
  get(drawn, samples.ids, sizeof drawn), get(logq, samples.logq, sizeof logq);
  get(r, samples.r, sizeof r);
  fopo_sparse_reward reward = {.Y = Y, .value = worth};
  fopo_estimate e = {.V = on(NULL, B * L * 4), .stats = on(NULL, sizeof stats)};
  for (int o = 0; o < FOPO_OBJECTIVE_ROWS; o++) {
    e.objective = (fopo_objective_kind)o;
    ok(d->ops->snis_drawn(d, &e, &draws, &reward, &items, INFINITY, &batch));
    get(V, e.V, B * L * 4), get(stats, e.stats, sizeof stats);
    for (size_t b = 0; b < B; b++) {
      estimate x = expected(w, b, e.objective, drawn + b * S, logq + b * S, r + b * S, S);
      compare(w, b, &x, V, stats);
    }
  }
  release_all();
  free(V);
}

TEST(test_drawn) {
  d = gpu;
  for (int kind = 0; kind < 3; kind++) {
    DONE(world_free) world w = world_new(13, kind % 2);
    check_drawn(&w, (fopo_draw_kind)kind);
  }
}

int main(int argc, char **argv) {
  if (!open_both()) return 0;
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  int failed = run_all(NULL, NULL);
  close_both();
  return failed;
}
