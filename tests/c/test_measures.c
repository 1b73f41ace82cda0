/* Lists without items that were seen before, by sorting all scores; what is refused. Measures of
 * lists: tests/judged.py. */

#include "core/progress.h"
#include "judge/evaluate.h"
#include "judge/expected.h"
#include "judge/measures.h"
#include "kernels/kernels.h"
#include "policy/recommend.h"
#include "small_world.h"

static void csr(fopo_csr *m, const uint32_t (*pairs)[2], size_t n, size_t rows, size_t cols) {
  uint32_t row[32], col[32];
  size_t repeats;
  assert_true(n <= 32);
  for (size_t i = 0; i < n; i++) {
    row[i] = pairs[i][0];
    col[i] = pairs[i][1];
  }
  ok(fopo_csr_from_pairs(m, row, col, NULL, n, rows, cols, &repeats));
}

/* Four contexts over ten items: two lists with hits, an empty one, and a context without Y. */
static const uint32_t in_x[][2] = {{0, 8}, {1, 5}, {1, 6}, {2, 0}, {3, 9}};
static const uint32_t in_y[][2] = {{0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 4}};
static const uint32_t listed[4][3] = {
    {1, 8, 2}, {5, 0, 6}, {FOPO_NO_ITEM, FOPO_NO_ITEM, FOPO_NO_ITEM}, {9, 3, FOPO_NO_ITEM}};

static void hand_sessions(fopo_sessions *s) {
  *s = (fopo_sessions){0};
  csr(&s->X, in_x, sizeof in_x / sizeof *in_x, 4, 10);
  csr(&s->Y, in_y, sizeof in_y / sizeof *in_y, 4, 10);
}

/* One context says nothing about the spread. */
TEST(test_one_context) {
  DONE(fopo_sessions_done) fopo_sessions s = {0};
  fopo_measures m = {.k = 3};
  csr(&s.X, in_x, 1, 1, 10);
  csr(&s.Y, in_y, 2, 1, 10);
  ok(fopo_measure_lists(&m, 1, listed[0], 3, &s));
  assert_true(m.ndcg.low == 0.0 && m.ndcg.high == 1.0);
  /* Nor is anything known of contexts that earned no number. */
  float none[] = {NAN, NAN};
  double mean, se;
  fopo_mean_of_pairs(&mean, &se, none, NULL, 2);
  assert_true(mean == 0.0 && isinf(se));
}

TEST(test_refusals) {
  DONE(fopo_sessions_done) fopo_sessions s;
  hand_sessions(&s);
  uint32_t ids[4] = {1, 2, 3, 10};
  refused(fopo_measure_lists(&(fopo_measures){.k = 4}, 1, listed[0], 3, &s), FOPO_ERR_ARGUMENT,
          "k is 4 but the lists have 3 items");
  refused(fopo_measure_lists(&(fopo_measures){.k = 0}, 1, listed[0], 3, &s), FOPO_ERR_ARGUMENT,
          "k is 0");
  refused(fopo_measure_lists(&(fopo_measures){.k = 1}, 1, ids, 1, &s), FOPO_ERR_ARGUMENT,
          "list 4 has item 11 but the sessions have 10 items");
}

/* ---- what was seen is left out ---- */

enum { P = 700, N = 300, L = 6, K = 5 };

/* Sessions over a small world: Y is the world's, X of context n the items a with a hash below a
 * density that is small but for context 7, which has seen all but 3 of them, and context 8, all. */
static void seen(fopo_csr *X, fopo_csr *Y) {
  size_t n = 0, y = 0, repeats;
  FREED(fopo_free) uint32_t *row = fopo_alloc(2 * N * P, sizeof *row);
  FREED(fopo_free) uint32_t *col = fopo_alloc(2 * N * P, sizeof *col);
  uint32_t *yrow = row + N * P, *ycol = col + N * P;
  for (uint32_t i = 0; i < N; i++) {
    for (uint32_t a = 0; a < P; a++) {
      double u = fopo_unit(fopo_random(5, FOPO_STREAM_WORLD, 3, i, a).v[0]);
      if (i == 8 || (i == 7 ? a % 300 != 50 : u < 0.1 * (i % 10))) {
        row[n] = i;
        col[n++] = a;
      }
      if (u > 0.97 || u < 0.01) {
        yrow[y] = i;
        ycol[y++] = a;
      }
    }
  }
  ok(fopo_csr_from_pairs(X, row, col, NULL, n, N, P, &repeats));
  ok(fopo_csr_from_pairs(Y, yrow, ycol, NULL, y, N, P, &repeats));
}

/* The k best of context n by picking the largest score again and again. */
static size_t picked(uint32_t *best, const fopo_csr *X, size_t n, fopo_matrix Q,
                     fopo_matrix items) {
  static uint8_t taken[P];
  for (uint32_t a = 0; a < P; a++) taken[a] = (uint8_t)fopo_csr_contains(X, n, a);
  for (size_t j = 0; j < K; j++) best[j] = FOPO_NO_ITEM;
  for (size_t j = 0; j < K; j++) {
    float top = -INFINITY;
    for (uint32_t a = 0; a < P; a++) {
      float f = fopo_kernels_get()->dot(fopo_matrix_row(Q, n), fopo_matrix_row(items, a), L);
      if (taken[a] || !(f > top)) continue;
      top = f;
      best[j] = a;
    }
    if (best[j] == FOPO_NO_ITEM) return j;
    taken[best[j]] = 1;
  }
  return K;
}

TEST(test_without) {
  small_world w;
  fopo_index *ix = NULL;
  fopo_matrix Q;
  fopo_csr X = {0}, Y = {0};
  uint32_t *ids = fopo_alloc(N * K, sizeof *ids), counts[N], best[K];
  float *scores = fopo_alloc(N * K, sizeof *scores);
  small_world_init(&w, P, N, L, 0.02, 0.5, 3);
  for (size_t a = 0; a < P; a++) { /* norms that differ: a narrow search scores few items */
    for (size_t l = 0; l < L; l++) fopo_matrix_row(w.items, a)[l] *= 1.0f / (1.0f + (float)a / 20);
  }
  seen(&X, &Y);
  assert_int_equal(fopo_csr_count(&X, 7), P - 3);
  assert_int_equal(fopo_csr_count(&X, 8), P);
  ok(fopo_matrix_init(&Q, N, L));
  ok(fopo_policy_queries(Q, &w.pi, w.contexts));
  ok(fopo_index_norm(&ix, w.items, 0));
  fopo_sparse_scores mask = fopo_mask_of(&X);
  fopo_recommend_plan plan = {
      .policy = &w.pi, .index = ix, .x = w.contexts, .mask = &mask, .may_be_short = 1};
  ok(fopo_recommend(ids, scores, counts, NULL, &plan, K));
  for (size_t n = 0; n < N; n++) {
    assert_int_equal(counts[n], picked(best, &X, n, Q, w.items));
    assert_memory_equal(ids + n * K, best, sizeof best);
    assert_true(n != 8 ? scores[n * K] > -INFINITY : isinf(scores[n * K]));
  }
  assert_int_equal(counts[7], 3);
  assert_int_equal(counts[8], 0);
  /* One user who has seen nearly all does not make the searches of the others wide. */
  assert_true(fopo_index_about(ix).scored < N * P * 2 / 3);

  /* A context that nothing is found for is counted among all, and is no hit of any item. */
  fopo_evaluation e;
  fopo_sessions sessions = {.X = X, .Y = Y};
  uint32_t times[P] = {0};
  size_t hits = 0, distinct = 0, top = 0;
  for (size_t n = 0; n < N; n++) {
    if (counts[n] == 0) continue;
    uint32_t first = ids[n * K];
    hits += fopo_csr_contains(&Y, n, first) != 0;
    distinct += ++times[first] == 1;
    if (times[first] > top) top = times[first];
  }
  ok(fopo_evaluate(&e, &w.pi, w.contexts, &sessions, ix, &mask));
  assert_true(e.unanswered == 1 && e.contexts == N && e.hits == hits);
  assert_true(e.distinct == distinct && e.top == top);

  /* Of an index with a budget no more than that is looked at. */
  uint64_t whole[2] = {0, P};
  fopo_csr all = {.rows = 1, .cols = P, .indptr = whole, .ids = X.ids + X.indptr[8]};
  fopo_sparse_scores whole_row = fopo_mask_of(&all);
  fopo_recommend_plan one = plan;
  one.x = fopo_matrix_rows(w.contexts, 8, 1);
  one.mask = &whole_row;
  ok(fopo_index_set_budget(ix, 40));
  size_t before = fopo_index_about(ix).scored;
  ok(fopo_recommend(ids, scores, counts, NULL, &one, K));
  assert_int_equal(counts[0], 0);
  assert_int_equal(fopo_index_about(ix).scored - before, 40);

  refused(fopo_recommend(ids, scores, counts, NULL, &plan, P + 1), FOPO_ERR_ARGUMENT,
          "701 items are asked for");
  plan.may_be_short = 0;
  refused(fopo_recommend(ids, scores, counts, NULL, &plan, K), FOPO_ERR_ARGUMENT,
          "697 are left out in context 8; ask for at most 3");
  plan.may_be_short = 1;
  fopo_sparse_scores values = mask;
  values.values = scores;
  one = plan;
  one.mask = &values;
  refused(fopo_recommend(ids, scores, counts, NULL, &one, K), FOPO_ERR_UNAVAILABLE,
          "recommending knows masks alone");
  refused(fopo_mask_check(&X, N, P - 1), FOPO_ERR_ARGUMENT, "over 699 items");
  fopo_interrupt_request();
  refused(fopo_recommend(ids, scores, counts, NULL, &plan, K), FOPO_ERR_INTERRUPTED, "interrupted");
  fopo_interrupt_clear();
  fopo_index_free(ix);
  fopo_matrix_done(&Q);
  fopo_csr_done(&X);
  fopo_csr_done(&Y);
  fopo_free(ids);
  fopo_free(scores);
  small_world_done(&w);
  assert_int_equal(fopo_memory_in_use().blocks, 0);
}

int main(void) { return run_all(NULL, NULL); }
