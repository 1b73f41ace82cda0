/* Baselines when memory fails or somebody presses Ctrl-C, what they learn from, and the inverse
 * that ease needs. Their numbers are compared with NumPy's by tests/test_baselines.py. */

#include "core/progress.h"
#include "core/solve.h"
#include "data/histories.h"
#include "judge/baseline.h"
#include "judge/baseline_search.h"
#include "small_world.h"
#include "sound.h"

FREED_BY(fopo_baseline_free, fopo_baseline)

enum { MOST = 90, K = 4 };

/* Fewer users than items, and more: ease has a way for each. */
static const size_t sizes[2][2] = {{60, 90}, {90, 60}};

/* X has the items with a hash below 0.1, Y those above 0.9, and each some of both. */
static void make_sessions(fopo_sessions *s, size_t N, size_t P) {
  uint32_t row[2][MOST * MOST], col[2][MOST * MOST];
  size_t n[2] = {0, 0}, repeats;
  *s = (fopo_sessions){0};
  for (uint32_t i = 0; i < N; i++) {
    for (uint32_t a = 0; a < P; a++) {
      double u = fopo_unit(fopo_random(5, FOPO_STREAM_WORLD, 3, i, a).v[0]);
      int in[2] = {u<0.1, u> 0.9 || u < 0.02};
      for (int side = 0; side < 2; side++) {
        row[side][n[side]] = i;
        col[side][n[side]] = a;
        n[side] += (size_t)in[side];
      }
    }
  }
  ok(fopo_csr_from_pairs(&s->X, row[0], col[0], NULL, n[0], N, P, &repeats));
  ok(fopo_csr_from_pairs(&s->Y, row[1], col[1], NULL, n[1], N, P, &repeats));
}

static fopo_baseline_options options_of(const fopo_baseline_kind *kind, size_t top) {
  return (fopo_baseline_options){.kind = kind,
                                 .neighbours = 5,
                                 .m = 5,
                                 .top = top,
                                 .dim = 4,
                                 .iterations = 2,
                                 .l2 = 3.0,
                                 .alpha = 2.0,
                                 .seed = 1};
}

TEST(test_interactions) {
  DONE(fopo_sessions_done) fopo_sessions s;
  DONE(fopo_csr_done) fopo_csr both;
  size_t N = sizes[0][0], P = sizes[0][1];
  make_sessions(&s, N, P);
  ok(fopo_interactions(&both, &s));
  assert_true(is_sound(&both, fopo_csr_nnz(&both)));
  size_t overlap = fopo_csr_nnz(&s.X) + fopo_csr_nnz(&s.Y) - fopo_csr_nnz(&both);
  assert_in_range(overlap, 20, 300); /* 2 % of N P */
  for (uint32_t i = 0; i < N; i++) {
    for (uint32_t a = 0; a < P; a++) {
      assert_int_equal(fopo_csr_contains(&both, i, a),
                       fopo_csr_contains(&s.X, i, a) || fopo_csr_contains(&s.Y, i, a));
    }
  }
}

static const fopo_baseline_kind *kind_of(const char *name) {
  for (int i = 0; fopo_baseline_kinds[i] != NULL; i++) {
    if (strcmp(fopo_baseline_kinds[i]->name, name) == 0) return fopo_baseline_kinds[i];
  }
  fail_msg("no kind %s", name);
  return NULL;
}

/* Whether there is an i-th kind that learns; the last one, custom, does not. */
static int learns(int i) {
  return fopo_baseline_kinds[i] != NULL && fopo_baseline_kinds[i]->fit != NULL;
}

static int learn_and_recommend(const fopo_baseline_kind *kind, const fopo_sessions *s, size_t top) {
  fopo_baseline *b = NULL;
  fopo_baseline_options o = options_of(kind, top);
  uint32_t ids[MOST * K], counts[MOST];
  float scores[MOST * K];
  int status = fopo_baseline_new(&b, s, &o);
  if (status == FOPO_OK) status = fopo_baseline_best(ids, scores, counts, b, s, K, 1, 0);
  for (size_t i = 0; status == FOPO_OK && i < s->X.rows * K; i++) {
    if (i % K < counts[i / K]) assert_in_range(ids[i], 0, s->X.cols - 1);
  }
  fopo_baseline_free(b);
  return status;
}

static void run_out_of_memory(const fopo_sessions *s, size_t top) {
  for (int i = 0; learns(i); i++) {
    size_t blocks = fopo_memory_in_use().blocks;
    ok(learn_and_recommend(fopo_baseline_kinds[i], s, top));
    for (long fault = 0, failed = 1; failed; fault++) {
      fopo_memory_fail_after(fault, 0);
      failed = learn_and_recommend(fopo_baseline_kinds[i], s, top) != FOPO_OK;
      fopo_memory_fail_after(-1, 0);
      assert_int_equal(fopo_memory_in_use().blocks, blocks);
      assert_in_range(fault, 0, 100);
    }
  }
}

TEST(test_memory) {
  for (size_t i = 0; i < 2; i++) {
    DONE(fopo_sessions_done) fopo_sessions s;
    make_sessions(&s, sizes[i][0], sizes[i][1]);
    run_out_of_memory(&s, 0);
    run_out_of_memory(&s, 3);
  }
}

/* Learning and recommending both end soon, and leave nothing behind. */
static void interrupt_all(size_t N, size_t P, size_t top) {
  fopo_sessions s;
  uint32_t ids[MOST * K], counts[MOST];
  float scores[MOST * K];
  make_sessions(&s, N, P);
  for (int i = 0; learns(i); i++) {
    FREED(fopo_baseline_free) fopo_baseline *b = NULL;
    fopo_baseline_options o = options_of(fopo_baseline_kinds[i], top);
    int has_loop = strcmp(o.kind->name, "random") != 0 && strcmp(o.kind->name, "popular") != 0;
    fopo_interrupt_request();
    int status = fopo_baseline_new(&b, &s, &o);
    fopo_interrupt_clear();
    assert_int_equal(status, has_loop ? FOPO_ERR_INTERRUPTED : FOPO_OK);
    fopo_baseline_free(b);
    ok(fopo_baseline_new(&b, &s, &o));
    fopo_interrupt_request();
    refused(fopo_baseline_best(ids, scores, counts, b, &s, K, 0, 0), FOPO_ERR_INTERRUPTED,
            "interrupted while");
    fopo_interrupt_clear();
    ok(fopo_baseline_best(ids, scores, counts, b, &s, K, 0, 0));
  }
  fopo_sessions_done(&s);
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

TEST(test_interruption) {
  for (size_t i = 0; i < 2; i++) {
    interrupt_all(sizes[i][0], sizes[i][1], 0);
    interrupt_all(sizes[i][0], sizes[i][1], 3);
  }
}

/* An item that is all that its users took has nothing that explains it. */
TEST(test_ease_needs_l2) {
  DONE(fopo_sessions_done) fopo_sessions s = {0};
  uint32_t row[60], col[60];
  size_t repeats;
  for (uint32_t i = 0; i < 60; i++) row[i] = i, col[i] = 7;
  ok(fopo_csr_from_pairs(&s.X, row, col, NULL, 60, 60, 90, &repeats));
  ok(fopo_csr_from_pairs(&s.Y, row, col, NULL, 60, 60, 90, &repeats));
  fopo_baseline *b;
  fopo_baseline_options o = options_of(kind_of("ease"), 0);
  ok(fopo_baseline_new(&b, &s, &o));
  fopo_baseline_free(b);
  o.l2 = 1e-3;
  refused(fopo_baseline_new(&b, &s, &o), FOPO_ERR_NUMERIC, "of item 8 with l2 = 0.001");
}

/* The scores of a session are the sums of the rows of its items: in double, from W alone. */
static void sum_of_rows(const char *name, const fopo_sessions *s, size_t top) {
  FREED(fopo_baseline_free) fopo_baseline *b = NULL;
  fopo_baseline_options o = options_of(kind_of(name), top);
  const fopo_csr *W;
  size_t N = s->X.rows, P = s->X.cols;
  static uint32_t ids[MOST * MOST], counts[MOST];
  static float scores[MOST * MOST];
  ok(fopo_baseline_new(&b, s, &o));
  ok(fopo_baseline_item_weights(&W, b));
  assert_true(is_sound(W, fopo_csr_nnz(W)) && W->rows == P && W->values != NULL);
  ok(fopo_baseline_best(ids, scores, counts, b, s, P, 0, 0));
  for (size_t n = 0; n < N; n++) {
    double sum[MOST] = {0};
    for (size_t x = 0; x < fopo_csr_count(&s->X, n); x++) {
      uint32_t from = fopo_csr_row(&s->X, n)[x];
      for (uint64_t i = W->indptr[from]; i < W->indptr[from + 1]; i++) {
        sum[W->ids[i]] += (double)W->values[i];
      }
    }
    for (size_t i = 0; i < counts[n]; i++) {
      assert_true(fabs(sum[ids[n * P + i]] - (double)scores[n * P + i]) < 1e-5);
      sum[ids[n * P + i]] = 0.0;
    }
    for (size_t a = 0; a < P; a++) assert_true(counts[n] == P || sum[a] == 0.0);
  }
}

TEST(test_item_weights) {
  for (size_t i = 0; i < 2; i++) {
    DONE(fopo_sessions_done) fopo_sessions s;
    make_sessions(&s, sizes[i][0], sizes[i][1]);
    sum_of_rows("slim", &s, 0);
    sum_of_rows("item_knn", &s, 0);
    sum_of_rows("ease", &s, 3);
    const struct {
      const char *name, *says;
    } none[] = {{"ease", "make it with top = 100"}, {"als", "use slim, item_knn"}};
    for (size_t k = 0; k < 2; k++) {
      FREED(fopo_baseline_free) fopo_baseline *b = NULL;
      fopo_baseline_options o = options_of(kind_of(none[k].name), 0);
      const fopo_csr *W;
      ok(fopo_baseline_new(&b, &s, &o));
      refused(fopo_baseline_item_weights(&W, b), FOPO_ERR_UNAVAILABLE, none[k].says);
    }
  }
}

/* ---- items of the same users ---- */

/* 12 users, one or two for most of 90 items, so that there are few distinct lists of them. */
static void make_twins(fopo_sessions *s) {
  uint32_t row[2 * MOST], col[2 * MOST];
  size_t n = 0, repeats;
  *s = (fopo_sessions){0};
  for (uint32_t a = 0; a < MOST; a++) {
    for (uint32_t k = 0; k < 2; k++) {
      double u = fopo_unit(fopo_random(5, FOPO_STREAM_WORLD, 4, a, k).v[0]);
      if (a % 9 == 0 && k == 1) continue;
      row[n] = (uint32_t)(u * u * 12);
      col[n++] = a;
    }
  }
  ok(fopo_csr_from_pairs(&s->X, row, col, NULL, n, 12, MOST, &repeats));
  ok(fopo_csr_from_pairs(&s->Y, row, col, NULL, n, 12, MOST, &repeats));
}

/* G [MOST, MOST] = R^T R. */
static void count_pairs(double *G, const fopo_sessions *s) {
  memset(G, 0, sizeof *G * MOST * MOST);
  for (size_t i = 0; i < s->X.rows; i++) {
    const uint32_t *x = fopo_csr_row(&s->X, i);
    for (size_t j = 0; j < fopo_csr_count(&s->X, i); j++) {
      for (size_t k = 0; k < fopo_csr_count(&s->X, i); k++) G[x[j] * MOST + x[k]] += 1.0;
    }
  }
}

/* w [n] = (G_SS + l2 I)^-1 G_Sa. */
static void regress(double *w, const double *G, const size_t *S, size_t n, size_t a, double l2) {
  double A[MOST * MOST];
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < n; k++) A[i * n + k] = G[S[i] * MOST + S[k]] + (i == k ? l2 : 0.0);
  }
  ok(fopo_invert_spd(A, n));
  for (size_t i = 0; i < n; i++) {
    w[i] = 0.0;
    for (size_t k = 0; k < n; k++) w[i] += A[i < k ? i * n + k : k * n + i] * G[S[k] * MOST + a];
  }
}

/* S: the m items that are most similar to a. Returns how many there are. */
static size_t nearest(size_t *S, const double *G, size_t a, size_t m) {
  size_t n = 0;
  int taken[MOST] = {0};
  for (; n < m; n++) {
    size_t best = MOST;
    float most = 0.0f;
    for (size_t b = 0; b < MOST; b++) {
      float cosine = (float)(G[a * MOST + b] / sqrt(G[a * MOST + a] * G[b * MOST + b]));
      if (b == a || taken[b] || !(cosine > most)) continue;
      best = b;
      most = cosine;
    }
    if (best == MOST) break;
    taken[best] = 1;
    S[n] = best;
  }
  return n;
}

static double weight_at(const fopo_csr *W, size_t from, size_t to) {
  for (uint64_t i = W->indptr[from]; i < W->indptr[from + 1]; i++) {
    if (W->ids[i] == to) return (double)W->values[i];
  }
  return 0.0;
}

/* The weights of slim are those of each item's own regression; by several l2 at once, too. */
TEST(test_slim_of_twins) {
  DONE(fopo_sessions_done) fopo_sessions s;
  static double G[MOST * MOST];
  make_twins(&s);
  count_pairs(G, &s);
  for (size_t m = 5; m <= 60; m += 55) {
    fopo_baseline_options o = options_of(kind_of("slim"), 0);
    const double l2[] = {1.0, 3.0, 9.0};
    fopo_baseline *each[3];
    o.m = m;
    ok(fopo_baseline_new_each(each, &s, &o, l2, 3));
    for (size_t l = 0; l < 3; l++) {
      const fopo_csr *W;
      size_t S[MOST], all = 0;
      double w[MOST];
      ok(fopo_baseline_item_weights(&W, each[l]));
      assert_true(is_sound(W, fopo_csr_nnz(W)));
      for (size_t a = 0; a < MOST; a++) {
        size_t n = nearest(S, G, a, m);
        regress(w, G, S, n, a, l2[l]);
        for (size_t i = 0; i < n; i++) {
          assert_true(fabs(weight_at(W, S[i], a) - w[i]) < (l == 1 ? 1e-6 : 2e-3));
        }
        all += n;
      }
      assert_int_equal(fopo_csr_nnz(W), all);
      fopo_baseline_free(each[l]);
    }
  }
}

static int are_twins(const double *G, size_t a, size_t b) {
  return G[a * MOST + b] == G[a * MOST + a] && G[a * MOST + b] == G[b * MOST + b];
}

/* Rows of ease are the largest weights of the inverse, of equal ones those of the smaller ids. */
TEST(test_ease_of_twins) {
  DONE(fopo_sessions_done) fopo_sessions s;
  static double A[MOST * MOST], G[MOST * MOST];
  make_twins(&s);
  count_pairs(A, &s);
  count_pairs(G, &s);
  for (size_t a = 0; a < MOST; a++) A[a * MOST + a] += 3.0;
  ok(fopo_invert_spd(A, MOST));
  for (size_t top = 3; top <= MOST; top = top < 40 ? 40 : top + 50) {
    FREED(fopo_baseline_free) fopo_baseline *b = NULL;
    fopo_baseline_options o = options_of(kind_of("ease"), top);
    const fopo_csr *W;
    ok(fopo_baseline_new(&b, &s, &o));
    ok(fopo_baseline_item_weights(&W, b));
    assert_true(is_sound(W, fopo_csr_nnz(W)));
    for (size_t a = 0; a < MOST; a++) {
      size_t n = W->indptr[a + 1] - W->indptr[a], positive = 0;
      double least = INFINITY, w[MOST];
      for (size_t i = 0; i < MOST; i++) {
        w[i] = -A[a < i ? a * MOST + i : i * MOST + a] / A[i * MOST + i];
        positive += i != a && w[i] > 1e-6;
      }
      for (uint64_t i = W->indptr[a]; i < W->indptr[a + 1]; i++) {
        assert_true(W->ids[i] != a && fabs((double)W->values[i] - w[W->ids[i]]) < 1e-5);
        least = fmin(least, w[W->ids[i]]);
        w[W->ids[i]] = 0.0;
      }
      assert_int_equal(n, top == MOST ? MOST - 1 : positive < top ? positive : top);
      for (size_t i = 0; i < MOST && n == top; i++) {
        if (i == a || w[i] == 0.0) continue; /* listed */
        assert_true(w[i] < least + 1e-5);
        for (size_t k = i + 1; k < MOST; k++) {
          assert_true(k == a || w[k] != 0.0 || !are_twins(G, i, k));
        }
      }
    }
  }
}

/* ---- without one user ---- */

/* scores [P] of the items of X of session n, by a fit to all other sessions. */
static void fit_without(float *scores, const fopo_sessions *s, size_t n) {
  DONE(fopo_sessions_done) fopo_sessions others = {0}, one = {0};
  FREED(fopo_baseline_free) fopo_baseline *b = NULL;
  fopo_baseline_options o = options_of(kind_of("ease"), 0);
  uint32_t rows[MOST], ids[MOST], count, at = (uint32_t)n;
  float sorted[MOST];
  size_t found = 0, P = s->X.cols;
  for (uint32_t i = 0; i < s->X.rows; i++) {
    if (i != n) rows[found++] = i;
  }
  ok(fopo_sessions_take(&others, s, rows, found));
  ok(fopo_sessions_take(&one, s, &at, 1));
  ok(fopo_baseline_new(&b, &others, &o));
  ok(fopo_baseline_best(ids, sorted, &count, b, &one, P, 0, 0));
  assert_int_equal(count, P);
  for (size_t i = 0; i < P; i++) scores[ids[i]] = sorted[i];
}

TEST(test_left_out) {
  for (size_t w = 0; w < 2; w++) {
    DONE(fopo_sessions_done) fopo_sessions s;
    FREED(fopo_baseline_free) fopo_baseline *b = NULL;
    fopo_baseline_options o = options_of(kind_of("ease"), 0);
    static uint32_t ids[MOST * MOST], counts[MOST];
    static float scores[MOST * MOST];
    make_sessions(&s, sizes[w][0], sizes[w][1]);
    s.users = fopo_alloc(s.X.rows, sizeof *s.users);
    size_t P = s.X.cols;
    ok(fopo_baseline_new(&b, &s, &o));
    ok(fopo_baseline_best(ids, scores, counts, b, &s, P, 0, 1));
    double largest = 0.0, moved = 0.0;
    for (size_t n = 0; n < s.X.rows; n += 7) {
      float wanted[MOST], whole[MOST];
      uint32_t at[MOST * MOST], found[MOST];
      static float with[MOST * MOST];
      fit_without(wanted, &s, n);
      ok(fopo_baseline_best(at, with, found, b, &s, P, 0, 0));
      for (size_t i = 0; i < P; i++) whole[at[n * P + i]] = with[n * P + i];
      for (size_t i = 0; i < P; i++) {
        uint32_t a = ids[n * P + i];
        largest = fmax(largest, fabs((double)(scores[n * P + i] - wanted[a])));
        moved = fmax(moved, fabs((double)(whole[a] - wanted[a])));
      }
    }
    assert_true(largest < 2e-5);
    assert_true(moved > 0.05); /* so it matters who is left out */
  }
}

TEST(test_left_out_refusals) {
  DONE(fopo_sessions_done) fopo_sessions s, few;
  uint32_t ids[MOST], counts[MOST];
  float scores[MOST];
  make_sessions(&s, 60, 90);
  make_sessions(&few, 40, 90);
  for (int i = 0; learns(i); i++) {
    FREED(fopo_baseline_free) fopo_baseline *b = NULL;
    int is_ease = strcmp(fopo_baseline_kinds[i]->name, "ease") == 0;
    fopo_baseline_options o = options_of(fopo_baseline_kinds[i], is_ease ? 3 : 0);
    ok(fopo_baseline_new(&b, &s, &o));
    refused(fopo_baseline_best(ids, scores, counts, b, &s, 1, 1, 1), FOPO_ERR_UNAVAILABLE,
            "cannot leave a session out");
    refused(fopo_baseline_best(ids, scores, counts, b, &few, 1, 1, 1), FOPO_ERR_ARGUMENT,
            "learnt from 60 sessions, and these are 40");
  }
}

/* ---- options by validation ---- */

/* A kind whose best l2 is known: every session takes item 0 next, which has more items before it
 * the further l2 is from the target. */
static struct {
  double target, none_below;
  size_t fits, users, items;
} probe;

static int probe_fit(void **model, const fopo_csr *M, const fopo_baseline_options *o) {
  double *l2 = *model = fopo_alloc(1, sizeof *l2);
  if (l2 == NULL) return FOPO_ERR_MEMORY;
  *l2 = o->l2;
  probe.fits++;
  if (o->l2 < probe.none_below) return fopo_fail(FOPO_ERR_NUMERIC, "no solution");
  if (o->wanted == NULL) return FOPO_OK;
  probe.users = M->rows;
  probe.items = 0;
  for (size_t a = 0; a < M->cols; a++) probe.items += o->wanted[a];
  assert_true(o->wanted[0]);
  return FOPO_OK;
}

static int probe_score(float *scores, const void *model, const fopo_baseline_options *o,
                       const fopo_csr *X, size_t first, size_t n, void *scratch) {
  (void)first, (void)scratch, (void)o;
  for (size_t i = 0; i < n * X->cols; i++) scores[i] = -(float)(i % X->cols);
  for (size_t i = 0; i < n; i++) {
    scores[i * X->cols] = -0.5f - 6.0f * (float)fabs(log10(*(const double *)model / probe.target));
  }
  return 1;
}

static void probe_enough(size_t *users, size_t *items) {
  *users = 40;
  *items = 30;
}

static void probe_free(void *model) { fopo_free(model); }

static fopo_baseline_search learn_probe(const fopo_sessions *s, int cut, double target) {
  static const fopo_option rows[] = {{.name = "l2",
                                      .type = FOPO_OPTION_NUMBER,
                                      .flags = FOPO_OPTION_AUTO,
                                      .member = offsetof(fopo_baseline_options, l2),
                                      .low = 1,
                                      .high = 1e4},
                                     {0}};
  const fopo_baseline_kind kind = {.name = "probe",
                                   .fit = probe_fit,
                                   .free = probe_free,
                                   .score = probe_score,
                                   .enough = cut ? probe_enough : NULL,
                                   .options = rows};
  FREED(fopo_baseline_free) fopo_baseline *b = NULL;
  fopo_baseline_search search;
  fopo_baseline_options o = {.kind = &kind};
  probe.target = target;
  probe.fits = 0;
  ok(fopo_baseline_learn(&b, &search, s, &o));
  assert_true(fabs(fopo_baseline_get(b)->l2 / search.best - 1.0) < 1e-12);
  assert_null(fopo_baseline_get(b)->wanted);
  assert_int_equal(probe.fits, search.n + 1);
  for (size_t i = 1; i < search.n; i++) assert_true(search.value[i] > search.value[i - 1]);
  return search;
}

/* N sessions over 60 items that take item 0 next. */
static void make_followers(fopo_sessions *s, size_t N) {
  uint32_t row[400], col[400], next[400] = {0};
  size_t repeats;
  *s = (fopo_sessions){.users = fopo_alloc(N, sizeof *s->users)};
  for (uint32_t i = 0; i < N; i++) {
    row[i] = s->users[i] = i;
    col[i] = 40 + i % 20;
  }
  ok(fopo_csr_from_pairs(&s->X, row, col, NULL, N, N, 60, &repeats));
  ok(fopo_csr_from_pairs(&s->Y, row, next, NULL, N, N, 60, &repeats));
}

static int about(double a, double b) { return fabs(a / b - 1.0) < 1e-12; }

TEST(test_search) {
  DONE(fopo_sessions_done) fopo_sessions s;
  make_followers(&s, 400);
  const struct {
    double target, best;
    size_t n;
  } cases[] = {{100, 100, 3}, {1000, 1000, 5}, {3, sqrt(10.0), 6}, {1e5, 1e4, 6}, {0.3, 1, 6}};
  for (size_t i = 0; i < 5; i++) {
    fopo_baseline_search found = learn_probe(&s, 0, cases[i].target);
    assert_true(about(found.best, cases[i].best));
    assert_int_equal(found.n, cases[i].n);
    assert_int_equal(found.held, 100);
    assert_int_equal(found.users, 300);
    assert_int_equal(found.items, 60);
  }
  fopo_baseline_search found = learn_probe(&s, 1, 1000);
  assert_true(found.best > 300.0); /* 316 and 1000 may look the same by half of the items */
  assert_int_equal(probe.users, 40);
  assert_int_equal(found.users, 40);
  assert_in_range(probe.items, 18, 42); /* 30 on average */
  probe.none_below = 200;
  found = learn_probe(&s, 0, 50);
  probe.none_below = 0;
  assert_true(about(found.best, sqrt(1e5)) && found.ndcg[0] < 0.0);
}

TEST(test_search_of_few) {
  for (size_t N = 1; N <= 3; N++) {
    DONE(fopo_sessions_done) fopo_sessions s;
    make_followers(&s, N);
    fopo_baseline_search found = learn_probe(&s, 1, 1000);
    assert_int_equal(found.held, N > 1);
    assert_true(N > 1 ? found.best > 300.0 : about(found.best, 100));
  }
}

static int learn_auto(const char *name, const fopo_sessions *s) {
  FREED(fopo_baseline_free) fopo_baseline *b = NULL;
  fopo_baseline_search search;
  fopo_baseline_options o = options_of(kind_of(name), 0);
  o.l2 = 0.0;
  return fopo_baseline_learn(&b, &search, s, &o);
}

TEST(test_search_fails_whole) {
  DONE(fopo_sessions_done) fopo_sessions s;
  make_sessions(&s, 60, 90);
  s.users = fopo_alloc(60, sizeof *s.users);
  for (int i = 0; i < 2; i++) {
    const char *name = i == 0 ? "ease" : "slim";
    size_t blocks = fopo_memory_in_use().blocks;
    ok(learn_auto(name, &s));
    fopo_interrupt_request();
    refused(learn_auto(name, &s), FOPO_ERR_INTERRUPTED, "interrupted while");
    fopo_interrupt_clear();
    for (long fault = 0, failed = 1; failed; fault += 7) {
      fopo_memory_fail_after(fault, 0);
      failed = learn_auto(name, &s) != FOPO_OK;
      fopo_memory_fail_after(-1, 0);
      assert_int_equal(fopo_memory_in_use().blocks, blocks);
      assert_in_range(fault, 0, 1000);
    }
  }
}

TEST(test_inverse) {
  double A[] = {4, 1, 0, 0, 3, 1, 0, 0, 2}, bad[] = {1, 2, 0, 1};
  ok(fopo_invert_spd(A, 3));
  /* {{4, 1, 0}, {1, 3, 1}, {0, 1, 2}} has determinant 18 and the inverse below */
  const double inverse[] = {5, -2, 1, 0, 8, -4, 0, 0, 11};
  for (int i = 0; i < 3; i++) {
    for (int j = i; j < 3; j++) {
      assert_true(fabs(A[i * 3 + j] - inverse[i * 3 + j] / 18.0) < 1e-14);
    }
  }
  refused(fopo_invert_spd(bad, 2), FOPO_ERR_NUMERIC, "not positive definite");
}

int main(void) { return run_all(NULL, NULL); }
