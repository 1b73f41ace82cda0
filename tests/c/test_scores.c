/* The exact sums of the softmax, the temperature chosen from them and the expected reward, with the
 * sparse part of the scores: against plain loops in double that add s to each score. The rows of s
 * are empty, short, long, and leave one item or none. */
#include "core/progress.h"
#include "judge/expected.h"
#include "judge/reference.h"
#include "mips/index.h"
#include "policy/recommend.h"
#include "policy/softmax.h"
#include "small_world.h"

enum { P = 9000, N = 6, DIM = 4, RANKS = 3 }; /* more items than two tiles hold */
enum { EMPTY, FEW, MANY, ALL_BUT_ONE, ALL, ENDS };

typedef struct {
  small_world w;
  fopo_matrix Q;
  fopo_csr X; /* [N, P] with values */
} world;

/* Whether item a is an entry of the row. */
static int is_entry(size_t row, size_t a) {
  switch (row) {
  case FEW: return a == 3 || a == 4095 || a == 4096 || a == 8191;
  case MANY: return a % 3 == 1;
  case ALL_BUT_ONE: return a != 5000;
  case ALL: return 1;
  case ENDS: return a == 0 || a == P - 1;
  default: return 0;
  }
}

static void world_init(world *x) {
  *x = (world){0};
  small_world_init(&x->w, P, N, DIM, 0.01, 0.7, 3);
  ok(fopo_matrix_init(&x->Q, N, DIM));
  ok(fopo_policy_queries(x->Q, &x->w.pi, x->w.contexts));
  size_t n = 0;
  ok(fopo_csr_init(&x->X, N, P, N * P, 1));
  for (size_t row = 0; row < N; row++) {
    for (size_t a = 0; a < P; a++) {
      if (is_entry(row, a)) x->X.ids[n++] = (uint32_t)a;
    }
    x->X.indptr[row + 1] = n;
  }
  fopo_fill_normal(x->X.values, n, 3.0, 8, FOPO_STREAM_WORLD);
}

static void world_done(world *x) {
  small_world_done(&x->w);
  fopo_matrix_done(&x->Q);
  fopo_csr_done(&x->X);
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

static fopo_sparse_scores values_of(const fopo_csr *X) {
  fopo_sparse_scores s = fopo_mask_of(X);
  s.values = X->values;
  return s;
}

/* f(a, x_b) in double with s of a row; masked: all entries are -infinity. */
static double plain_score(const world *x, size_t b, size_t row, size_t a, int masked) {
  double f = 0.0;
  for (size_t j = 0; j < DIM; j++) {
    f += (double)fopo_matrix_row(x->Q, b)[j] * (double)fopo_matrix_row(x->w.items, a)[j];
  }
  if (!is_entry(row, a)) return f;
  if (masked) return -(double)INFINITY;
  uint64_t i = x->X.indptr[row];
  size_t n = fopo_csr_count(&x->X, row);
  return f + (double)x->X.values[i + fopo_sorted_place(x->X.ids + i, n, (uint32_t)a)];
}

/* log_z, squares over the items whose place modulo `ranks` is `rank`. */
static void plain_sums(double *log_z, double *squares, const world *x, size_t b, size_t row,
                       int masked, const uint32_t *place, uint32_t rank, uint32_t ranks) {
  static double f[P];
  double top = -(double)INFINITY, z = 0.0, zz = 0.0;
  for (size_t a = 0; a < P; a++) {
    int is_here = place == NULL || place[a] % ranks == rank;
    f[a] = is_here ? plain_score(x, b, row, a, masked) : -(double)INFINITY;
    top = fmax(top, f[a]);
  }
  *log_z = top;
  *squares = 0.0;
  if (isinf(top)) return;
  for (size_t a = 0; a < P; a++) {
    double w = exp(f[a] - top);
    z += w;
    zz += w * w;
  }
  *log_z = top + log(z);
  *squares = zz / (z * z);
}

static void same_sums(const double *log_z, const double *squares, const double *plain,
                      const double *plain_squares, size_t n) {
  for (size_t b = 0; b < n; b++) {
    if (isinf(plain[b])) {
      assert_true(log_z[b] == plain[b] && squares[b] == 0.0);
      continue;
    }
    assert_true(fabs(log_z[b] - plain[b]) < 1e-5);
    assert_true(fabs(squares[b] / plain_squares[b] - 1.0) < 1e-4);
  }
}

TEST(test_lookup) {
  DONE(world_done) world x;
  world_init(&x);
  fopo_sparse_scores mask = fopo_mask_of(&x.X), s = values_of(&x.X);
  uint32_t rows[] = {ALL, FEW, EMPTY};
  fopo_score_row row = fopo_score_row_of(&s, FEW);
  assert_true(row.n == 4 && fopo_score_of(&row, 4096) == x.X.values[2]);
  assert_true(fopo_score_of(&row, 4097) == 0.0f && fopo_score_of(&row, P - 1) == 0.0f);
  mask.rows = rows;
  row = fopo_score_row_of(&mask, 1);
  assert_true(row.n == 4 && isinf(fopo_score_of(&row, 3)) && fopo_score_of(&row, 0) == 0.0f);
  fopo_sparse_scores rest = fopo_score_from(&mask, 1);
  assert_int_equal(fopo_score_row_of(&rest, 0).n, 4);
  assert_int_equal(fopo_score_row_of(&rest, 1).n, 0);
  rest = fopo_score_from(&s, ALL);
  assert_int_equal(fopo_score_row_of(&rest, 0).n, P);
  rest = fopo_score_from(NULL, 7);
  row = fopo_score_row_of(&rest, 3);
  assert_true(row.n == 0 && fopo_score_of(&row, 2) == 0.0f);
  row = fopo_score_row_of(NULL, 3);
  assert_int_equal(row.n, 0);
  /* A mask replaces a score that has overflowed. */
  assert_true(fopo_score_sum(INFINITY, -INFINITY) == -INFINITY);
  assert_true(fopo_score_sum(2.0f, -3.0f) == -1.0f);
  ok(fopo_score_check_mask(&mask, "this"));
  ok(fopo_score_check_mask(NULL, "this"));
  refused(fopo_score_check_mask(&s, "this"), FOPO_ERR_UNAVAILABLE, "this knows masks alone");
}

/* Masks and values, in the rows' order and in another. */
TEST(test_sums) {
  DONE(world_done) world x;
  world_init(&x);
  static uint32_t rows[N] = {ALL_BUT_ONE, EMPTY, ENDS, ALL, FEW, MANY};
  double log_z[N], squares[N], plain[N], plain_squares[N], alone[N];
  for (int i = 0; i < 4; i++) {
    int masked = i % 2, reordered = i / 2;
    fopo_sparse_scores s = masked ? fopo_mask_of(&x.X) : values_of(&x.X);
    if (reordered) s.rows = rows;
    fopo_scores scores = {.Q = x.Q, .items = x.w.items, .sparse = &s};
    ok(fopo_softmax_sums(log_z, squares, &scores, 0, N));
    for (size_t b = 0; b < N; b++) {
      plain_sums(&plain[b], &plain_squares[b], &x, b, reordered ? rows[b] : b, masked, NULL, 0, 1);
    }
    same_sums(log_z, squares, plain, plain_squares, N);
  }
  /* Of the one item that is left the chance is 1; an empty row changes no bit. */
  fopo_sparse_scores s = fopo_mask_of(&x.X);
  fopo_scores scores = {.Q = x.Q, .items = x.w.items, .sparse = &s};
  ok(fopo_softmax_sums(log_z, squares, &scores, 0, N));
  assert_true(squares[ALL_BUT_ONE] == 1.0);
  scores.sparse = NULL;
  ok(fopo_softmax_sums(alone, NULL, &scores, 0, N));
  assert_true(alone[EMPTY] == log_z[EMPTY] && alone[FEW] != log_z[FEW]);
  int kept = fopo_threads();
  ok(fopo_threads_set(3));
  ok(fopo_softmax_sums(plain, NULL, &scores, 0, N));
  assert_memory_equal(plain, alone, sizeof plain);
  ok(fopo_threads_set(kept));
  /* Scores that are no numbers are refused all the same, and none is taken for a mask. */
  x.Q.x[ALL * DIM] = NAN;
  scores.sparse = &s;
  ok(fopo_softmax_sums(log_z, squares, &scores, 0, N));
  x.Q.x[FEW * DIM] = NAN;
  refused(fopo_softmax_sums(log_z, squares, &scores, 0, N), FOPO_ERR_NUMERIC, "context 2");
  refused(fopo_softmax_sums(log_z, NULL, &scores, 256, 256 + N), FOPO_ERR_NUMERIC, "context 258");
  /* So are scores that are all below what a float holds. */
  float far[2 * DIM], below[DIM];
  for (size_t j = 0; j < 2 * DIM; j++) far[j] = FLT_MAX;
  for (size_t j = 0; j < DIM; j++) below[j] = -FLT_MAX;
  fopo_scores least = {.Q = fopo_matrix_view(below, 1, DIM),
                       .items = fopo_matrix_view(far, 2, DIM)};
  refused(fopo_softmax_sums(log_z, NULL, &least, 0, 1), FOPO_ERR_NUMERIC, "too large for a float");
  scores.Q.rows = 1;
  fopo_interrupt_request();
  assert_int_equal(fopo_softmax_sums(log_z, NULL, &scores, 0, N), FOPO_ERR_INTERRUPTED);
  fopo_interrupt_clear();
}

/* ---- parts of a catalogue ---- */

typedef struct {
  fopo_part part;
  fopo_matrix items;
  uint32_t id[P], sorted[P], guide[P / 4 + 3];
} part_of;

/* The part of rank r of RANKS, if item a is at place[a] of the norm order. */
static void part_init(part_of *to, const world *x, const uint32_t *place, uint32_t r) {
  size_t n = 0, rows = (P + RANKS - 1 - r) / RANKS;
  to->part = (fopo_part){.P = P,
                         .rows = rows,
                         .rank = r,
                         .size = RANKS,
                         .id = to->id,
                         .sorted = to->sorted,
                         .guide = to->guide,
                         .shift = 2};
  ok(fopo_matrix_init(&to->items, rows, DIM));
  for (size_t a = 0; a <= P + 3; a++) {
    if (a % 4 == 0) to->guide[a / 4] = (uint32_t)n;
    if (a >= P || place[a] % RANKS != r) continue;
    uint32_t row = place[a] / RANKS;
    to->sorted[n++] = row;
    to->id[row] = (uint32_t)a;
    memcpy(fopo_matrix_row(to->items, row), fopo_matrix_row(x->w.items, a), DIM * sizeof(float));
  }
  assert_int_equal(n, rows);
}

TEST(test_parts) {
  static part_of part;
  static uint32_t place[P];
  DONE(world_done) world x;
  world_init(&x);
  double log_z[N], squares[N], plain[N], plain_squares[N];
  for (size_t a = 0; a < P; a++) place[a] = (uint32_t)(a * 1237 % P);
  for (int masked = 0; masked < 2; masked++) {
    fopo_sparse_scores s = masked ? fopo_mask_of(&x.X) : values_of(&x.X);
    for (uint32_t r = 0; r < RANKS; r++) {
      part_init(&part, &x, place, r);
      fopo_scores scores = {.Q = x.Q, .items = part.items, .part = &part.part, .sparse = &s};
      ok(fopo_softmax_sums(log_z, squares, &scores, 0, N));
      for (size_t b = 0; b < N; b++) {
        plain_sums(&plain[b], &plain_squares[b], &x, b, b, masked, place, r, RANKS);
      }
      same_sums(log_z, squares, plain, plain_squares, N);
      fopo_matrix_done(&part.items);
    }
  }
}

/* ---- the temperature ---- */

/* Any number of threads chooses the same bits, for dimensions that BLAS sums in different ways. */
TEST(test_temperature_by_threads) {
  static const size_t dims[] = {7, 16, 33, 100};
  int kept = fopo_threads();
  for (size_t i = 0; i < 8; i++) {
    DONE(small_world_done) small_world w;
    double T[3];
    small_world_init(&w, i < 4 ? 5000 : 20000, 18, dims[i % 4], 0.001, 0.7, 3);
    for (int threads = 1; threads <= 3; threads++) {
      ok(fopo_threads_set(threads));
      fopo_scores scores = {.Q = w.contexts, .items = w.items};
      ok(fopo_softmax_temperature(&T[threads - 1], &scores, 30.0));
    }
    assert_memory_equal(&T[0], &T[1], sizeof *T);
    assert_memory_equal(&T[0], &T[2], sizeof *T);
  }
  ok(fopo_threads_set(kept));
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

/* At the temperature that is chosen a context has as many items in effect as were asked for. */
TEST(test_temperature) {
  static const double wanted[] = {1.5, 4000.0, 40.0};
  static float zeros[2 * DIM];
  DONE(world_done) world x;
  world_init(&x);
  fopo_sparse_scores s = fopo_mask_of(&x.X), values = values_of(&x.X);
  double T, found, log_z, squares;
  size_t counted[] = {EMPTY, FEW, MANY, ENDS};
  double of[4];
  for (size_t at = 0; at < 12; at++) {
    size_t i = at % 4;
    fopo_sparse_scores row = fopo_score_from(&s, counted[i]);
    float scaled[DIM];
    fopo_scores one = {
        .Q = fopo_matrix_rows(x.Q, counted[i], 1), .items = x.w.items, .sparse = &row};
    ok(fopo_softmax_temperature(&of[i], &one, wanted[at / 4]));
    for (size_t j = 0; j < DIM; j++) scaled[j] = (float)((double)one.Q.x[j] / of[i]);
    one.Q = fopo_matrix_view(scaled, 1, DIM);
    ok(fopo_softmax_sums(&log_z, &squares, &one, 0, 1));
    assert_true(fabs(1.0 / squares / wanted[at / 4] - 1.0) < 1e-4);
  }
  fopo_scores three = {.Q = fopo_matrix_rows(x.Q, 0, 3), .items = x.w.items, .sparse = &s};
  ok(fopo_softmax_temperature(&found, &three, 40.0));
  fopo_sort_f64(of, 3);
  assert_true(found == of[1]);
  /* The contexts with one item left and with none are not counted. */
  fopo_scores all = {.Q = x.Q, .items = x.w.items, .sparse = &s};
  ok(fopo_softmax_temperature(&found, &all, 40.0));
  fopo_sort_f64(of, 4);
  assert_true(found == 0.5 * (of[1] + of[2]));
  fopo_sparse_scores few = fopo_score_from(&s, ALL_BUT_ONE);
  fopo_scores two = {.Q = fopo_matrix_rows(x.Q, 0, 2), .items = x.w.items, .sparse = &few};
  refused(fopo_softmax_temperature(&T, &two, 40.0), FOPO_ERR_ARGUMENT,
          "none of 2 contexts scores one item above another and leaves enough of them unmasked");
  two = (fopo_scores){.Q = fopo_matrix_view(zeros, 2, DIM), .items = x.w.items};
  refused(fopo_softmax_temperature(&T, &two, 40.0), FOPO_ERR_ARGUMENT, "none of 2 contexts");
  all.sparse = NULL;
  refused(fopo_softmax_temperature(&T, &all, P), FOPO_ERR_ARGUMENT, "fewer than 9000");
  all.sparse = &values;
  refused(fopo_softmax_temperature(&T, &all, 40.0), FOPO_ERR_UNAVAILABLE, "masks alone");
}

/* The same of a catalogue so large that its scores are counted: of scores that are spread evenly,
 * of few that are far above all others, and so far that bins have to be made narrower; with the
 * best items masked, too. */
TEST(test_temperature_of_many_items) {
  static const double wanted[] = {1.5, 30.0, 300.0, 19000.0};
  uint64_t indptr[] = {0, 40};
  uint32_t ids[40];
  for (uint32_t i = 0; i < 40; i++) ids[i] = i;
  fopo_sparse_scores mask = {.indptr = indptr, .ids = ids};
  for (int peaked = 0; peaked < 4; peaked++) {
    DONE(small_world_done) small_world w;
    small_world_init(&w, 20000, 1, DIM, 0.001, 0.7, 3);
    float far = peaked == 1 ? 1.0f : 1e5f;
    for (size_t a = 0; a < (size_t)(peaked ? 3 : 0); a++) {
      for (size_t j = 0; j < DIM; j++) {
        fopo_matrix_row(w.items, a)[j] = far * (float)(90 - a) * w.contexts.x[j];
      }
    }
    for (size_t i = 0; i < 4; i++) {
      double T, log_z, squares;
      float scaled[DIM];
      fopo_scores one = {.Q = w.contexts, .items = w.items, .sparse = peaked == 3 ? &mask : NULL};
      ok(fopo_softmax_temperature(&T, &one, wanted[i]));
      for (size_t j = 0; j < DIM; j++) scaled[j] = (float)((double)one.Q.x[j] / T);
      one.Q = fopo_matrix_view(scaled, 1, DIM);
      ok(fopo_softmax_sums(&log_z, &squares, &one, 0, 1));
      assert_true(fabs(1.0 / squares / wanted[i] - 1.0) < 1e-4);
    }
  }
}

/* ---- the expected reward and the log-likelihood ---- */

/* Y of the world, with the one item that ALL_BUT_ONE leaves, and empty in the last context. */
static void make_y(fopo_csr *Y, const world *x) {
  size_t n = 0;
  ok(fopo_csr_init(Y, N, P, fopo_csr_nnz(&x->w.Y) + N, 0));
  for (size_t row = 0; row < N; row++) {
    for (uint32_t a = 0; a < P && row != ENDS; a++) {
      if (a == 5000 || fopo_csr_contains(&x->w.Y, row, a)) Y->ids[n++] = a;
    }
    Y->indptr[row + 1] = n;
  }
}

/* reward and likelihood of context b, the latter NAN if Y has no item that is not masked; and the
 * sum of squares, 0 if none is left. */
static void plain_expected(double *reward, double *likelihood, double *squares, const world *x,
                           const fopo_csr *Y, size_t b, size_t row, int masked) {
  double log_z, n = 0.0;
  plain_sums(&log_z, squares, x, b, row, masked, NULL, 0, 1);
  *reward = *likelihood = 0.0;
  for (uint32_t a = 0; a < P; a++) {
    double f = plain_score(x, b, row, a, masked);
    if (!fopo_csr_contains(Y, b, a) || isinf(f)) continue;
    *reward += exp(f - log_z);
    *likelihood += f - log_z;
    n += 1.0;
  }
  *likelihood /= n;
}

static int expected_of(fopo_expected *e, const fopo_policy *pi, fopo_matrix x,
                       const fopo_sessions *sessions, const fopo_sparse_scores *s, size_t most) {
  float each[N];
  return fopo_evaluate_expected(e, each, FOPO_OBJECTIVE_REWARD, NULL, pi, x, sessions, s, most,
                                NULL);
}

static void same_expected(const world *x, const fopo_policy *pi, const fopo_csr *Y,
                          const fopo_sparse_scores *s, const uint32_t *rows, int masked) {
  fopo_sessions sessions = {.Y = *Y};
  fopo_expected e;
  double sum = 0.0, both = 0.0, logs = 0.0, squares = 0.0, counted = 0.0, effective[N];
  size_t left = 0;
  for (size_t b = 0; b < N; b++) {
    double reward, likelihood, of;
    plain_expected(&reward, &likelihood, &of, x, Y, b, rows != NULL ? rows[b] : b, masked);
    sum += reward;
    both += reward * reward;
    if (of > 0.0) effective[left++] = 1.0 / of;
    if (isnan(likelihood)) continue;
    logs += likelihood;
    squares += likelihood * likelihood;
    counted += 1.0;
  }
  double variance = (squares - logs * logs / counted) / (counted - 1.0);
  ok(expected_of(&e, pi, x->w.contexts, &sessions, s, 0));
  assert_true(e.contexts == N && e.unanswered == (masked ? 1 : 0));
  assert_true(fabs(e.reward - sum / N) < 1e-6);
  assert_true(fabs(e.se - sqrt((both - sum * sum / N) / (N - 1) / N)) < 1e-6);
  fopo_sort_f64(effective, left);
  double middle = 0.5 * (effective[(left - 1) / 2] + effective[left / 2]);
  assert_true(fabs(e.effective / middle - 1.0) < 1e-4);
  assert_true(fabs(e.likelihood / (logs / counted) - 1.0) < 1e-6);
  assert_true(fabs(e.likelihood_se / sqrt(variance / counted) - 1.0) < 1e-5);
}

TEST(test_expected) {
  static uint32_t rows[N] = {ALL_BUT_ONE, EMPTY, ENDS, ALL, FEW, MANY};
  DONE(world_done) world x;
  DONE(fopo_csr_done) fopo_csr Y = {0};
  DONE(fopo_shard_done) fopo_shard shard = {0};
  world_init(&x);
  make_y(&Y, &x);
  fopo_sparse_scores mask = fopo_mask_of(&x.X), values = values_of(&x.X);
  ok(fopo_shard_deal(&shard, x.w.items));
  fopo_policy dealt = x.w.pi;
  dealt.shard = &shard;
  dealt.items = shard.items;
  for (int i = 0; i < 2; i++) { /* in the order of ids; in that of a part, by norm */
    const fopo_policy *pi = i == 0 ? &x.w.pi : &dealt;
    mask.rows = values.rows = NULL;
    same_expected(&x, pi, &Y, &mask, NULL, 1);
    same_expected(&x, pi, &Y, &values, NULL, 0);
    mask.rows = values.rows = rows;
    same_expected(&x, pi, &Y, &mask, rows, 1);
    same_expected(&x, pi, &Y, &values, rows, 0);
  }
  /* Contexts 0 and 3 of 6 are those of two evenly spread. */
  fopo_expected e;
  fopo_sessions sessions = {.Y = Y};
  double reward[2], likelihood, squares;
  for (size_t b = 0; b < 2; b++) {
    plain_expected(&reward[b], &likelihood, &squares, &x, &Y, 3 * b, EMPTY, 0);
  }
  ok(expected_of(&e, &x.w.pi, x.w.contexts, &sessions, NULL, 2));
  assert_int_equal(e.contexts, 2);
  assert_true(fabs(e.reward - (reward[0] + reward[1]) / 2.0) < 1e-6);
  ok(expected_of(&e, &x.w.pi, x.w.contexts, &sessions, NULL, N + 1));
  assert_int_equal(e.contexts, N);
  refused(expected_of(&e, &x.w.pi, fopo_matrix_rows(x.w.contexts, 0, 2), &sessions, NULL, 0),
          FOPO_ERR_ARGUMENT, "2 contexts");
  /* The median is over the contexts with an item left: of one item in effect, and of many. */
  fopo_sparse_scores last = fopo_score_from(&mask, 0);
  uint32_t few[] = {ALL, ALL_BUT_ONE, ALL_BUT_ONE, ALL, ALL, MANY};
  last.rows = few;
  ok(expected_of(&e, &x.w.pi, x.w.contexts, &sessions, &last, 0));
  assert_true(e.effective == 1.0 && e.unanswered == 3);
  /* Of one context the error is unknown, and without an item of Y so is the likelihood. */
  ok(expected_of(&e, &x.w.pi, x.w.contexts, &sessions, &last, 1));
  assert_true(e.contexts == 1 && isinf(e.se) && e.reward == 0.0 && e.effective == 0.0);
  assert_true(isnan(e.likelihood) && isinf(e.likelihood_se));
  for (long fault = 0, failed = 1; failed; fault++) {
    fopo_memory_fail_after(fault, 0);
    failed = expected_of(&e, &x.w.pi, x.w.contexts, &sessions, &last, 0) != FOPO_OK;
    fopo_memory_fail_after(-1, 0);
    assert_true(fault < 100);
  }
}

/* The same contexts again and again, more than are summed at once, come to the same. */
static void check_repeated(const world *x, const fopo_csr *Y, const fopo_few_items *few,
                           const float each[N]) {
  enum { AGAIN = 50 };
  DONE(fopo_csr_done) fopo_csr all_x = {0};
  DONE(fopo_csr_done) fopo_csr all_y = {0};
  DONE(fopo_matrix_done) fopo_matrix contexts = {0};
  uint32_t rows[AGAIN];
  float all[AGAIN];
  fopo_expected e;
  ok(fopo_matrix_init(&contexts, AGAIN, x->w.contexts.cols));
  for (uint32_t i = 0; i < AGAIN; i++) {
    rows[i] = i % N;
    memcpy(fopo_matrix_row(contexts, i), fopo_matrix_row(x->w.contexts, i % N),
           contexts.cols * sizeof(float));
  }
  ok(fopo_csr_take(&all_x, &x->X, rows, AGAIN));
  ok(fopo_csr_take(&all_y, Y, rows, AGAIN));
  fopo_sparse_scores mask = fopo_mask_of(&all_x);
  ok(fopo_evaluate_expected(&e, all, FOPO_OBJECTIVE_REWARD, NULL, &x->w.pi, contexts,
                            &(fopo_sessions){.Y = all_y}, &mask, 0, few));
  for (size_t i = 0; i < AGAIN; i++) {
    assert_true(fabsf(all[i] - each[i % N]) <= 1e-5f * each[i % N]);
  }
}

/* Few items that stand for all: over their draws the mean of Z is that of all items, masked items
 * and those of Y included, and the error that is stated is about that which is made. */
TEST(test_expected_by_few_items) {
  enum { SEEDS = 40 };
  static uint32_t order[P];
  static float norms[P];
  DONE(world_done) world x;
  DONE(fopo_csr_done) fopo_csr Y = {0};
  world_init(&x);
  make_y(&Y, &x);
  fopo_sessions sessions = {.Y = Y};
  fopo_sparse_scores mask = fopo_mask_of(&x.X);
  fopo_index *ix;
  uint64_t version;
  ok(fopo_index_norm(&ix, x.w.items, 0));
  ok(fopo_index_order(order, norms, &version, ix));
  fopo_index_free(ix);
  double exact[N], mean = 0.0, z[N] = {0}, zz[N] = {0}, off = 0.0, stated = 0.0;
  for (size_t b = 0; b < N; b++) {
    double likelihood, squares;
    plain_expected(&exact[b], &likelihood, &squares, &x, &Y, b, b, 1);
    mean += exact[b] / N;
  }
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    fopo_few_items few;
    fopo_expected e;
    float each[N];
    ok(fopo_few_items_take(&few, x.w.items, order, seed));
    for (size_t i = 0; i < few.head + few.tail; i++) {
      size_t item = few.places[i] >> 32, row = few.places[i] & UINT32_MAX;
      assert_memory_equal(fopo_matrix_row(few.rows, row), fopo_matrix_row(x.w.items, item),
                          few.rows.cols * sizeof(float));
      assert_true(row >= few.head || item == order[row]);
    }
    ok(fopo_evaluate_expected(&e, each, FOPO_OBJECTIVE_REWARD, NULL, &x.w.pi, x.w.contexts,
                              &sessions, &mask, 0, &few));
    if (seed == 1) check_repeated(&x, &Y, &few, each);
    fopo_few_items_done(&few);
    for (size_t b = 0; b < N; b++) {
      double share = exact[b] > 0.0 ? exact[b] / (double)each[b] : 1.0;
      assert_true((exact[b] > 0.0) == (each[b] > 0.0f));
      z[b] += share / SEEDS;
      zz[b] += share * share / SEEDS;
    }
    off += (e.reward - mean) * (e.reward - mean) / SEEDS;
    stated += e.error * e.error / SEEDS;
    assert_true(e.error > 0.0 && e.error < 0.2 * mean && e.se > e.error);
  }
  for (size_t b = 0; b < N; b++) {
    double se = sqrt(fmax(zz[b] - z[b] * z[b], 0.0) / (SEEDS - 1));
    assert_true(fabs(z[b] - 1.0) <= 4.0 * se + 1e-5);
  }
  assert_true(sqrt(off) < 1.3 * sqrt(stated) && sqrt(off) > 0.1 * sqrt(stated));
}

/* ---- recommendations ---- */

/* log Z is over all items if a server leaves some out, and over those left if the policy does.
 */
TEST(test_recommend) {
  enum { K = 3 };
  DONE(world_done) world x;
  FREED(fopo_index_free) fopo_index *ix = NULL;
  world_init(&x);
  ok(fopo_index_norm(&ix, x.w.items, 0));
  fopo_sparse_scores mask = fopo_mask_of(&x.X);
  fopo_recommend_plan plan = {
      .policy = &x.w.pi, .index = ix, .x = x.w.contexts, .mask = &mask, .may_be_short = 1};
  uint32_t ids[N * K], again[N * K], counts[N];
  float scores[N * K];
  double of_all[N], of_rest[N], plain, squares;
  ok(fopo_recommend(ids, scores, counts, of_all, &plan, K));
  plan.masked = 1;
  ok(fopo_recommend(again, scores, counts, of_rest, &plan, K));
  assert_memory_equal(ids, again, sizeof ids);
  assert_true(counts[EMPTY] == K && counts[ALL_BUT_ONE] == 1 && counts[ALL] == 0);
  assert_int_equal(ids[ALL_BUT_ONE * K], 5000);
  for (size_t n = 0; n < N; n++) {
    for (size_t i = 0; i < counts[n]; i++) assert_false(is_entry(n, ids[n * K + i]));
    plain_sums(&plain, &squares, &x, n, EMPTY, 1, NULL, 0, 1);
    assert_true(fabs(of_all[n] - plain) < 1e-5);
    plain_sums(&plain, &squares, &x, n, n, 1, NULL, 0, 1);
    assert_true(of_rest[n] == plain || fabs(of_rest[n] - plain) < 1e-5);
  }
}

/* ---- the reference in double ---- */

/* E_pi r and its slope along U [DIM, DIM]: sum_a pi_a (r_a - E r) x^T U beta_a / T, pi the softmax
 * of x^T theta beta_a / T + s(a). */
static void plain_slope(double *value, double *slope, double *log_z, const world *x, size_t row,
                        int masked, const float *r, const float *U) {
  static double f[P], along[P];
  const float *context = fopo_matrix_row(x->w.contexts, row);
  double top = -(double)INFINITY, Z = 0.0, R = 0.0;
  for (size_t a = 0; a < P; a++) {
    const float *beta = fopo_matrix_row(x->w.items, a);
    f[a] = along[a] = 0.0;
    for (size_t i = 0; i < DIM * DIM; i++) {
      double product = (double)context[i / DIM] * (double)beta[i % DIM];
      f[a] += product * (double)x->w.pi.theta.x[i] / (double)x->w.pi.temperature;
      along[a] += product * (double)U[i] / (double)x->w.pi.temperature;
    }
    fopo_sparse_scores s = masked ? fopo_mask_of(&x->X) : values_of(&x->X);
    fopo_score_row entries = fopo_score_row_of(&s, row);
    f[a] += (double)fopo_score_of(&entries, (uint32_t)a);
    top = fmax(top, f[a]);
  }
  *value = *slope = 0.0;
  *log_z = top;
  if (isinf(top)) return;
  for (size_t a = 0; a < P; a++) Z += f[a] = exp(f[a] - top);
  for (size_t a = 0; a < P; a++) R += f[a] / Z * (double)r[a];
  for (size_t a = 0; a < P; a++) *slope += f[a] / Z * ((double)r[a] - R) * along[a];
  *value = R;
  *log_z = top + log(Z);
}

TEST(test_reference) {
  DONE(world_done) world x;
  world_init(&x);
  float *r = fopo_alloc(P, sizeof *r), U[DIM * DIM];
  fopo_fill_normal(r, P, 1.0, 4, FOPO_STREAM_WORLD);
  fopo_fill_normal(U, DIM * DIM, 1.0, 5, FOPO_STREAM_WORLD);
  for (size_t row = 0; row < N; row++) {
    for (int masked = 0; masked < 2; masked++) {
      fopo_sparse_scores all = masked ? fopo_mask_of(&x.X) : values_of(&x.X);
      fopo_sparse_scores s = fopo_score_from(&all, row);
      fopo_reference_context one = {.x = fopo_matrix_row(x.w.contexts, row), .r = r, .sparse = &s};
      double value, slope, log_z, found, found_slope, found_log_z;
      plain_slope(&value, &slope, &log_z, &x, row, masked, r, U);
      ok(fopo_reference_slopes(&found_slope, &found, &found_log_z, &x.w.pi, &one,
                               fopo_matrix_view(U, 1, DIM * DIM), 1e-5));
      assert_true(fabs(found - value) < 1e-12 && fabs(found_slope - slope) < 1e-8);
      assert_true(found_log_z == log_z || fabs(found_log_z - log_z) < 1e-12);
    }
  }
  fopo_free(r);
}

int main(void) { return run_all(NULL, NULL); }
