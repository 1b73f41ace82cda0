/* Indexes compared with the plainest possible search, on easy and on hard data; damaged files;
 * allocations that fail. */
#include <math.h>
#include <unistd.h>

#include "checks.h"
#include "core/npz.h"
#include "core/progress.h"
#include "core/rng.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "mips/index.h"
#include "mips/topk.h"

FREED_BY(fopo_index_free, fopo_index)

/* ---- worlds ---- */

typedef enum { GAUSSIAN, HEAVY, SPARSE } shape;

static fopo_matrix normal(size_t rows, size_t cols, uint64_t seed) {
  fopo_matrix m;
  ok(fopo_matrix_init(&m, rows, cols));
  fopo_fill_normal(m.x, rows * cols, 1.0, seed, FOPO_STREAM_INIT);
  return m;
}

/* HEAVY: norms follow a power law, as those of embeddings by SVD do. SPARSE: every third row is
 * zero, every fifth a copy of row 1: many equal scores. */
static fopo_matrix world(size_t rows, size_t cols, shape s, uint64_t seed) {
  fopo_matrix m = normal(rows, cols, seed);
  for (size_t i = 0; i < rows; i++) {
    float *row = fopo_matrix_row(m, i);
    uint32_t w = fopo_random(seed, FOPO_STREAM_WORLD, 0, (uint32_t)i, 0).v[0];
    float scale = s == HEAVY ? (float)pow(1.0 + (double)(w % rows), -0.8) : 1.0f;
    if (s == SPARSE && i % 3 == 0) scale = 0.0f;
    for (size_t j = 0; j < cols; j++) row[j] *= scale;
    if (s == SPARSE && i % 5 == 0) memcpy(row, fopo_matrix_row(m, 1), cols * sizeof(float));
  }
  return m;
}

/* ---- answers ---- */

typedef struct {
  size_t B, k;
  uint32_t *ids, *counts;
  float *scores;
} answer;

static answer answer_new(size_t B, size_t k) {
  answer a = {B, k, calloc(B * k + 1, 4), calloc(B + 1, 4), calloc(B * k + 1, 4)};
  assert_true(a.ids != NULL && a.counts != NULL && a.scores != NULL);
  return a;
}

static void answer_done(answer *a) { free(a->ids), free(a->counts), free(a->scores); }

static answer ask(fopo_index *ix, fopo_matrix Q, size_t k) {
  answer a = answer_new(Q.rows, k);
  ok(fopo_index_search(a.ids, a.scores, a.counts, ix, Q, k));
  return a;
}

static fopo_index *hnsw_of(fopo_matrix items, size_t M, size_t ef, int deterministic) {
  fopo_hnsw_options o = {
      .M = M, .ef_construction = 80, .ef = ef, .seed = 5, .deterministic = deterministic};
  fopo_index *ix;
  ok(fopo_index_hnsw(&ix, items, &o));
  return ix;
}

static const float *sorting; /* the scores by which qsort's callback compares */

static int by_score(const void *a, const void *b) {
  uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
  if (sorting[i] != sorting[j]) return sorting[i] > sorting[j] ? -1 : 1;
  return i < j ? -1 : 1;
}

/* Computes every score and sorts them all. */
static answer plain(fopo_matrix items, fopo_matrix Q, size_t k) {
  answer a = answer_new(Q.rows, k);
  float *scores = calloc(items.rows, sizeof *scores);
  uint32_t *order = calloc(items.rows, sizeof *order);
  for (size_t b = 0; b < Q.rows; b++) {
    for (size_t i = 0; i < items.rows; i++) {
      order[i] = (uint32_t)i;
      scores[i] = fopo_kernels_get()->dot(fopo_matrix_row(items, i), fopo_matrix_row(Q, b), Q.cols);
    }
    sorting = scores;
    qsort(order, items.rows, sizeof *order, by_score);
    for (size_t i = 0; i < k; i++) {
      a.ids[b * k + i] = order[i];
      a.scores[b * k + i] = scores[order[i]];
    }
    a.counts[b] = (uint32_t)k;
  }
  free(scores);
  free(order);
  return a;
}

static void assert_same(answer a, answer b) {
  assert_int_equal(a.B, b.B);
  assert_int_equal(a.k, b.k);
  assert_memory_equal(a.counts, b.counts, a.B * sizeof *a.counts);
  for (size_t i = 0; i < a.B * a.k; i++) {
    assert_int_equal(a.ids[i], b.ids[i]);
    assert_true(a.scores[i] == b.scores[i]);
  }
}

/* Scores descend and are the dots of their items, no id occurs twice, and places behind the count
 * are filled. */
static void assert_sound(answer a, fopo_matrix items, fopo_matrix Q) {
  for (size_t b = 0; b < a.B; b++) {
    const uint32_t *ids = a.ids + b * a.k;
    const float *s = a.scores + b * a.k;
    for (size_t i = 0; i < a.k; i++) {
      if (i >= a.counts[b]) {
        assert_int_equal(ids[i], FOPO_NO_ITEM);
        assert_true(s[i] == -INFINITY);
        continue;
      }
      assert_true(ids[i] < items.rows);
      const float *row = fopo_matrix_row(items, ids[i]);
      assert_true(s[i] == fopo_kernels_get()->dot(row, fopo_matrix_row(Q, b), Q.cols));
      if (i > 0) assert_true(s[i] < s[i - 1] || (s[i] == s[i - 1] && ids[i] > ids[i - 1]));
    }
  }
}

/* ---- exact and norm ---- */

TEST(exact_kinds_agree_with_plain_search) {
  size_t P = 6000, ks[] = {1, 7, 256, 6000};
  for (int s = GAUSSIAN; s <= SPARSE; s++) {
    DONE(fopo_matrix_done) fopo_matrix items = world(P, 19, (shape)s, 11), Q = normal(37, 19, 12);
    for (size_t j = 0; j < 19; j++) Q.x[5 * 19 + j] = 0.0f; /* all scores equal */
    FREED(fopo_index_free) fopo_index *exact = NULL, *norm = NULL;
    ok(fopo_index_exact(&exact, items));
    ok(fopo_index_norm(&norm, items, 0));
    for (size_t i = 0; i < 4; i++) {
      DONE(answer_done) answer truth = plain(items, Q, ks[i]);
      DONE(answer_done) answer a = ask(exact, Q, ks[i]), b = ask(norm, Q, ks[i]);
      assert_same(truth, a);
      assert_same(truth, b);
    }
  }
}

/* Views with a stride, one item, one dimension, and every batch size around a panel. */
TEST(sizes_at_the_edges) {
  DONE(fopo_matrix_done) fopo_matrix wide = normal(1100, 24, 21), queries = normal(300, 24, 22);
  size_t Ps[] = {1, 2, 511, 512, 513, 1100}, Bs[] = {1, 2, 3, 31, 65, 300}, Ls[] = {1, 3, 16, 24};
  for (size_t i = 0; i < 6; i++) {
    for (size_t l = 0; l < 4; l++) {
      fopo_matrix items = wide, Q = queries;
      items.rows = Ps[i], items.cols = Ls[l];
      Q.rows = Bs[(i + l) % 6], Q.cols = Ls[l];
      size_t k = Ps[i] < 5 ? Ps[i] : 5;
      FREED(fopo_index_free) fopo_index *norm = NULL;
      ok(fopo_index_norm(&norm, items, 0));
      DONE(answer_done) answer truth = plain(items, Q, k), a = ask(norm, Q, k);
      assert_same(truth, a);
    }
  }
}

/* Scores that differ by less than the rounding of a sum: the answer must not depend on how blocks
 * are summed. */
TEST(nearly_equal_scores_are_ordered_by_their_dots) {
  DONE(fopo_matrix_done) fopo_matrix items = normal(5000, 33, 31), Q = normal(40, 33, 32);
  for (size_t i = 1; i < items.rows; i++) {
    float *row = fopo_matrix_row(items, i);
    memcpy(row, items.x, items.cols * sizeof(float));
    row[i % 33] = nextafterf(row[i % 33], i % 2 ? INFINITY : -INFINITY);
  }
  FREED(fopo_index_free) fopo_index *exact = NULL, *norm = NULL;
  ok(fopo_index_exact(&exact, items));
  ok(fopo_index_norm(&norm, items, 0));
  DONE(answer_done) answer truth = plain(items, Q, 50), a = ask(exact, Q, 50), b = ask(norm, Q, 50);
  assert_same(truth, a);
  assert_same(truth, b);
}

static double norm_of(fopo_matrix m, size_t i) {
  double sum = 0.0;
  for (size_t j = 0; j < m.cols; j++) {
    sum += (double)m.x[i * m.ld + j] * (double)m.x[i * m.ld + j];
  }
  return sum;
}

TEST(budget_keeps_to_the_largest_norms) {
  size_t P = 9000, budget = 700, k = 100;
  DONE(fopo_matrix_done) fopo_matrix items = world(P, 16, GAUSSIAN, 41), Q = normal(20, 16, 42);
  FREED(fopo_index_free) fopo_index *ix = NULL;
  ok(fopo_index_norm(&ix, items, budget));
  answer a = ask(ix, Q, k);
  assert_sound(a, items, Q);
  for (size_t i = 0; i < Q.rows * k; i++) {
    size_t larger = 0;
    for (size_t j = 0; j < P && i % 97 == 0; j++) {
      larger += norm_of(items, j) > norm_of(items, a.ids[i]);
    }
    assert_true(larger < budget);
  }
  answer_done(&a);
  fopo_index_facts facts = fopo_index_about(ix);
  assert_string_equal(facts.kind, "norm");
  assert_int_equal(facts.reachable, budget);
  assert_int_equal(facts.budget, budget);
  assert_int_equal(facts.queries, Q.rows);
  assert_int_equal(facts.scored, Q.rows * budget);
  /* k above the budget: the row is short, and says so. */
  a = ask(ix, Q, 1000);
  assert_int_equal(a.counts[3], budget);
  assert_sound(a, items, Q);
  answer_done(&a);
  fopo_recall r;
  ok(fopo_index_recall(&r, ix, Q, 1000));
  assert_int_equal(r.short_rows, Q.rows);
  assert_int_equal(r.reachable, budget);
  assert_true(r.recall > 0.0 && r.recall <= 0.7);
}

static int by_id(const void *a, const void *b) {
  uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
  return i < j ? -1 : i > j;
}

/* The first k items of `truth` [B, P] that a query does not leave out. */
static answer filtered(answer truth, fopo_without without, size_t k) {
  answer a = answer_new(truth.B, k);
  for (size_t b = 0; b < truth.B; b++) {
    fopo_left_out out = without.rows[b / without.each];
    for (size_t i = 0; i < truth.k; i++) {
      uint32_t id = truth.ids[b * truth.k + i];
      int is_out = 0;
      for (size_t j = 0; j < out.n; j++) is_out |= out.ids[j] == id;
      if (is_out || a.counts[b] == k) continue;
      a.scores[b * k + a.counts[b]] = truth.scores[b * truth.k + i];
      a.ids[b * k + a.counts[b]++] = id;
    }
    for (size_t i = a.counts[b]; i < k; i++) {
      a.ids[b * k + i] = FOPO_NO_ITEM;
      a.scores[b * k + i] = -INFINITY;
    }
  }
  return a;
}

/* Every fourth group of queries leaves out nothing, the others what is best for one of them: few
 * items, many, all. Where answers are few their floors are sampled. */
TEST(what_is_left_out_is_passed_over) {
  enum { P = 3000, GROUPS = 12, EACH = 25, B = GROUPS * EACH };
  size_t ks[] = {1, 10, 60, 2500};
  DONE(fopo_matrix_done) fopo_matrix items = world(P, 19, HEAVY, 81), Q = normal(B, 19, 82);
  for (size_t i = 0; i < B * 19; i++) Q.x[i] += 3.0f * Q.x[i / (EACH * 19) * EACH * 19 + i % 19];
  DONE(answer_done) answer truth = plain(items, Q, P);
  fopo_left_out rows[GROUPS];
  for (size_t g = 0; g < GROUPS; g++) {
    size_t n = g % 4 == 0 ? 0 : g == 11 ? P : 5 * g * g;
    uint32_t *ids = truth.ids + (g * EACH + 1) * P, *own = calloc(n + 1, sizeof *own);
    memcpy(own, ids, n * sizeof *own);
    qsort(own, n, sizeof *own, by_id);
    rows[g] = fopo_left_out_of(own, n);
  }
  fopo_without without = {rows, EACH};
  FREED(fopo_index_free) fopo_index *exact = NULL, *norm = NULL, *clusters = NULL;
  ok(fopo_index_exact(&exact, items));
  ok(fopo_index_norm(&norm, items, 0));
  ok(fopo_index_clusters(&clusters, items, 20, P));
  fopo_index *all[] = {exact, norm, clusters};
  for (size_t i = 0; i < 4; i++) {
    DONE(answer_done) answer want = filtered(truth, without, ks[i]);
    for (size_t kind = 0; kind < 3; kind++) {
      DONE(answer_done) answer a = answer_new(B, ks[i]);
      ok(fopo_index_search_without(a.ids, a.scores, a.counts, all[kind], Q, ks[i], 0, without));
      assert_same(want, a);
    }
  }
  /* Of the 400 largest norms, and the index is as it was. */
  DONE(answer_done) answer few = answer_new(B, 400);
  ok(fopo_index_search_within(few.ids, few.scores, few.counts, norm, Q, 400, 400, 0));
  DONE(answer_done) answer want = filtered(few, without, 10), a = answer_new(B, 10);
  ok(fopo_index_search_without(a.ids, a.scores, a.counts, norm, Q, 10, 400, without));
  assert_same(want, a);
  DONE(answer_done) answer again = ask(norm, Q, P);
  assert_same(truth, again);
  for (size_t g = 0; g < GROUPS; g++) free((void *)(uintptr_t)rows[g].ids);
}

/* With heavy-tailed norms a search scores a small part of the items. */
TEST(heavy_tails_stop_early) {
  DONE(fopo_matrix_done) fopo_matrix items = world(50000, 16, HEAVY, 51), Q = normal(64, 16, 52);
  FREED(fopo_index_free) fopo_index *ix = NULL;
  ok(fopo_index_norm(&ix, items, 0));
  DONE(answer_done) answer first = ask(ix, Q, 1);
  fopo_index_facts facts = fopo_index_about(ix);
  assert_true(facts.scored < Q.rows * items.rows / 50);
  fopo_recall r;
  ok(fopo_index_recall(&r, ix, Q, 10));
  assert_true(r.recall == 1.0 && r.mass == 1.0 && r.recall_at_1 == 1.0);
  assert_int_equal(r.short_rows, 0);
}

TEST(same_bits_for_any_number_of_threads) {
  int before = fopo_threads(), counts[] = {1, 2, 4};
  size_t Bs[] = {1, 9, 150};
  DONE(fopo_matrix_done) fopo_matrix items = world(20000, 16, HEAVY, 61);
  DONE(fopo_matrix_done) fopo_matrix queries = normal(150, 16, 62);
  for (size_t b = 0; b < 3; b++) {
    fopo_matrix Q = fopo_matrix_rows(queries, 0, Bs[b]);
    DONE(answer_done) answer first = {0};
    size_t scored = 0;
    for (size_t i = 0; i < 3; i++) {
      ok(fopo_threads_set(counts[i]));
      FREED(fopo_index_free) fopo_index *ix = NULL;
      ok(fopo_index_norm(&ix, items, 0));
      answer a = ask(ix, Q, 300);
      if (i == 0) {
        first = a;
        scored = fopo_index_about(ix).scored;
      } else {
        assert_same(first, a);
        assert_int_equal(scored, fopo_index_about(ix).scored);
        answer_done(&a);
      }
    }
  }
  fopo_threads_set(before);
}

/* The second search of one shape allocates no memory. */
TEST(repeated_searches_allocate_nothing) {
  DONE(fopo_matrix_done) fopo_matrix items = world(3000, 16, HEAVY, 71), Q = normal(80, 16, 72);
  fopo_index *kinds[3];
  ok(fopo_index_exact(&kinds[0], items));
  ok(fopo_index_norm(&kinds[1], items, 0));
  kinds[2] = hnsw_of(items, 6, 40, 0);
  for (size_t i = 0; i < 3; i++) {
    DONE(answer_done) answer once = ask(kinds[i], Q, 20);
    size_t held = fopo_memory_in_use().bytes;
    fopo_memory_fail_after(0, 1);
    DONE(answer_done) answer again = ask(kinds[i], Q, 20);
    fopo_memory_fail_after(-1, 0);
    assert_int_equal(fopo_memory_in_use().bytes, held);
    fopo_index_free(kinds[i]);
  }
}

/* ---- refusals ---- */

TEST(wrong_requests_are_named) {
  DONE(fopo_matrix_done) fopo_matrix items = normal(100, 8, 81);
  DONE(fopo_matrix_done) fopo_matrix Q = normal(4, 8, 82);
  DONE(fopo_matrix_done) fopo_matrix thin = normal(4, 7, 83);
  fopo_index *ix, *none;
  ok(fopo_index_norm(&ix, items, 0));
  DONE(answer_done) answer a = answer_new(4, 200);
  refused(fopo_index_search(a.ids, a.scores, a.counts, ix, Q, 101), FOPO_ERR_ARGUMENT,
          "k is 101 but the index holds 100 items");
  assert_int_equal(fopo_index_search(a.ids, a.scores, a.counts, ix, Q, 0), FOPO_ERR_ARGUMENT);
  refused(fopo_index_search(a.ids, a.scores, a.counts, ix, thin, 5), FOPO_ERR_ARGUMENT, "4 x 7");
  Q.x[2 * 8 + 3] = NAN;
  refused(fopo_index_search(a.ids, a.scores, a.counts, ix, Q, 5), FOPO_ERR_NUMERIC, "3");
  Q.x[2 * 8 + 3] = 3e38f;
  refused(fopo_index_search(a.ids, a.scores, a.counts, ix, Q, 5), FOPO_ERR_NUMERIC, "overflow");
  fopo_matrix nothing = {items.x, 0, 8, 8};
  ok(fopo_index_search(a.ids, a.scores, a.counts, ix, nothing, 5));
  assert_int_equal(fopo_index_exact(&none, nothing), FOPO_ERR_ARGUMENT);
  assert_null(none);
  items.x[7 * 8 + 2] = INFINITY;
  assert_int_equal(fopo_index_exact(&none, items), FOPO_ERR_NUMERIC);
  assert_null(none);
  assert_int_equal(fopo_index_norm(&none, items, 0), FOPO_ERR_NUMERIC);
  items.x[7 * 8 + 2] = 1e19f;
  refused(fopo_index_norm(&none, items, 0), FOPO_ERR_NUMERIC, "row 8");
  fopo_index_free(ix);
  fopo_index_free(NULL);
}

TEST(interruption_leaves_the_index_usable) {
  DONE(fopo_matrix_done) fopo_matrix items = world(20000, 16, GAUSSIAN, 91);
  DONE(fopo_matrix_done) fopo_matrix Q = normal(300, 16, 92);
  FREED(fopo_index_free) fopo_index *ix = NULL;
  ok(fopo_index_exact(&ix, items));
  DONE(answer_done) answer a = answer_new(Q.rows, 3);
  fopo_interrupt_request();
  int status = fopo_index_search(a.ids, a.scores, a.counts, ix, Q, 3);
  assert_int_equal(status, FOPO_ERR_INTERRUPTED);
  says("interrupted");
  fopo_interrupt_clear();
  fopo_matrix few = fopo_matrix_rows(Q, 0, 2);
  DONE(answer_done) answer truth = plain(items, few, 3), b = ask(ix, few, 3);
  assert_same(truth, b);
}

/* ---- hnsw ---- */

TEST(hnsw_keeps_its_recall) {
  struct {
    shape s;
    double least10, least100;
  } floors[] = {{GAUSSIAN, 0.97, 0.9}, {HEAVY, 0.97, 0.85}};
  for (size_t i = 0; i < 2; i++) {
    DONE(fopo_matrix_done) fopo_matrix items = world(2000, 16, floors[i].s, 111);
    DONE(fopo_matrix_done) fopo_matrix Q = normal(100, 16, 112);
    FREED(fopo_index_free) fopo_index *ix = hnsw_of(items, 16, 150, 0);
    fopo_recall r;
    ok(fopo_index_recall(&r, ix, Q, 10));
    if (r.recall < floors[i].least10) fail_msg("recall at 10 is %.3f", r.recall);
    ok(fopo_index_recall(&r, ix, Q, 100));
    if (r.recall < floors[i].least100) fail_msg("recall at 100 is %.3f", r.recall);
    assert_int_equal(r.short_rows, 0);
    answer a = ask(ix, Q, 30);
    assert_sound(a, items, Q);
    answer_done(&a);
    fopo_index_facts facts = fopo_index_about(ix);
    assert_true(facts.reachable > 0 && facts.reachable <= items.rows);
    assert_int_equal(facts.M, 16);
    assert_int_equal(facts.ef, 150);
    assert_int_equal(facts.queries, 300);
    assert_true(facts.scored > 300 && facts.scored < 300 * items.rows);
  }
}

/* With many equal rows some items cannot be reached: rows are short and say so. */
TEST(hnsw_says_when_it_found_too_few) {
  DONE(fopo_matrix_done) fopo_matrix items = world(900, 8, SPARSE, 121), Q = normal(20, 8, 122);
  FREED(fopo_index_free) fopo_index *ix = hnsw_of(items, 4, 900, 1);
  DONE(answer_done) answer a = ask(ix, Q, 900);
  assert_sound(a, items, Q);
  size_t reachable = fopo_index_about(ix).reachable;
  assert_true(reachable < 900);
  for (size_t b = 0; b < Q.rows; b++) {
    assert_true(a.counts[b] > 0);
    assert_true(a.counts[b] <= reachable);
  }
  fopo_recall r;
  ok(fopo_index_recall(&r, ix, Q, 900));
  assert_int_equal(r.short_rows, Q.rows);
  assert_int_equal(r.reachable, reachable);
}

TEST(hnsw_takes_odd_sizes) {
  DONE(fopo_matrix_done) fopo_matrix items = normal(40, 3, 131), Q = normal(5, 3, 132);
  for (size_t n = 1; n <= 40; n += n < 4 ? 1 : 9) {
    items.rows = n;
    FREED(fopo_index_free) fopo_index *ix = hnsw_of(items, 2, 0, 0);
    DONE(answer_done) answer a = ask(ix, Q, n);
    assert_sound(a, items, Q);
  }
  items.rows = 40;
}

/* The same answers by an index that is built anew with 1, 2 and 4 threads. */
static void same_every_time(fopo_index *(*built)(fopo_matrix items), uint64_t seed) {
  int before = fopo_threads(), counts[] = {1, 2, 4};
  DONE(fopo_matrix_done) fopo_matrix items = world(1500, 12, HEAVY, seed);
  DONE(fopo_matrix_done) fopo_matrix Q = normal(50, 12, seed + 1);
  answer answers[3];
  for (size_t i = 0; i < 3; i++) {
    ok(fopo_threads_set(counts[i]));
    FREED(fopo_index_free) fopo_index *ix = built(items);
    answers[i] = ask(ix, Q, 40);
    assert_same(answers[0], answers[i]);
  }
  for (size_t i = 0; i < 3; i++) answer_done(&answers[i]);
  fopo_threads_set(before);
}

static fopo_index *some_graph(fopo_matrix items) { return hnsw_of(items, 8, 60, 1); }

TEST(hnsw_is_the_same_every_time) { same_every_time(some_graph, 141); }

TEST(hnsw_refuses_odd_options) {
  DONE(fopo_matrix_done) fopo_matrix items = normal(50, 4, 151);
  struct {
    fopo_hnsw_options o;
    const char *says;
  } wrong[] = {{{.M = 1}, "M is 1"},
               {{.M = 129}, "M is 129"},
               {{.M = 16, .ef_construction = 15}, "ef_construction is 15"},
               {{.ef_construction = 65536}, "ef_construction is 65536"}};
  fopo_index *ix;
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(fopo_index_hnsw(&ix, items, &wrong[i].o), FOPO_ERR_ARGUMENT);
    assert_null(ix);
    says(wrong[i].says);
  }
  items.x[9] = NAN;
  assert_int_equal(fopo_index_hnsw(&ix, items, NULL), FOPO_ERR_NUMERIC);
  assert_null(ix);
}

TEST(an_interrupted_build_leaves_nothing) {
  DONE(fopo_matrix_done) fopo_matrix items = normal(1000, 8, 161);
  size_t blocks = fopo_memory_in_use().blocks;
  fopo_index *ix;
  fopo_interrupt_request();
  assert_int_equal(fopo_index_hnsw(&ix, items, NULL), FOPO_ERR_INTERRUPTED);
  fopo_interrupt_clear();
  assert_null(ix);
  assert_int_equal(fopo_memory_in_use().blocks, blocks);
}

/* ---- hybrid ---- */

static fopo_index *hybrid_of(fopo_matrix items, double head, size_t ef, int deterministic) {
  fopo_hnsw_options o = {
      .M = 8, .ef_construction = 80, .ef = ef, .seed = 5, .deterministic = deterministic};
  fopo_index *ix;
  ok(fopo_index_hybrid(&ix, items, head, &o));
  return ix;
}

/* On heavy-tailed norms a hybrid is no worse than the graph alone, and nearly exact. */
TEST(hybrid_beats_the_graph_on_heavy_tails) {
  DONE(fopo_matrix_done) fopo_matrix items = world(4000, 16, HEAVY, 311), Q = normal(100, 16, 312);
  FREED(fopo_index_free) fopo_index *graph = hnsw_of(items, 8, 150, 1);
  FREED(fopo_index_free) fopo_index *ix = hybrid_of(items, 0.05, 150, 1);
  size_t ks[] = {1, 10, 100};
  for (size_t i = 0; i < 3; i++) {
    fopo_recall alone, both;
    ok(fopo_index_recall(&alone, graph, Q, ks[i]));
    ok(fopo_index_recall(&both, ix, Q, ks[i]));
    if (both.recall < 0.99 || both.recall < alone.recall) {
      fail_msg("recall at %zu is %.4f, the graph's %.4f", ks[i], both.recall, alone.recall);
    }
    assert_int_equal(both.short_rows, 0);
    assert_true(both.scored > 0.0 && both.scored < 1.0);
  }
  answer a = ask(ix, Q, 250);
  assert_sound(a, items, Q);
  answer_done(&a);
  fopo_index_facts facts = fopo_index_about(ix);
  assert_string_equal(facts.kind, "hybrid");
  assert_int_equal(facts.prefix, 200);
  assert_int_equal(facts.M, 8);
  assert_true(facts.reachable > 200 && facts.reachable <= 4000);
  assert_true(facts.reachable >= fopo_index_about(graph).reachable);
}

/* If the answer from the prefix is exact by the bound of norms, the graph is not searched. */
TEST(an_exact_prefix_needs_no_graph) {
  DONE(fopo_matrix_done) fopo_matrix items = normal(3000, 8, 321), Q = normal(60, 8, 322);
  for (size_t i = 0; i < items.rows; i++) {
    float scale = i % 10 == 3 ? 100.0f : 0.001f; /* 300 of large norm */
    for (size_t j = 0; j < items.cols; j++) fopo_matrix_row(items, i)[j] *= scale;
  }
  FREED(fopo_index_free) fopo_index *ix = hybrid_of(items, 0.1, 10, 1);
  DONE(answer_done) answer truth = plain(items, Q, 20), a = ask(ix, Q, 20);
  assert_same(truth, a);
  assert_true(fopo_index_about(ix).scored <= 300 * Q.rows);
}

/* Every size of prefix, down to one item in it or one in the graph; k up to all items. */
TEST(hybrid_takes_odd_sizes) {
  DONE(fopo_matrix_done) fopo_matrix items = world(41, 3, SPARSE, 331), Q = normal(5, 3, 332);
  for (size_t j = 0; j < 3; j++) Q.x[2 * 3 + j] = 0.0f;
  double heads[] = {0.0, 1e-9, 0.5, 0.999999};
  for (size_t n = 2; n <= 41; n += n < 4 ? 1 : 9) {
    items.rows = n;
    for (size_t h = 0; h < 4; h++) {
      FREED(fopo_index_free) fopo_index *ix = hybrid_of(items, heads[h], 0, 0);
      size_t head = fopo_index_about(ix).prefix;
      assert_true(head >= 1 && head < n);
      for (size_t k = 1; k <= n; k += n - 1) {
        DONE(answer_done) answer a = ask(ix, Q, k);
        assert_sound(a, items, Q);
        for (size_t b = 0; b < Q.rows; b++) {
          assert_true(a.counts[b] >= (head + 1 < k ? head + 1 : k));
          assert_true(a.counts[b] <= fopo_index_about(ix).reachable);
        }
      }
    }
  }
  items.rows = 41;
}

static fopo_index *some_hybrid(fopo_matrix items) { return hybrid_of(items, 0.02, 60, 1); }

TEST(hybrid_is_the_same_every_time) { same_every_time(some_hybrid, 341); }

TEST(hybrid_refuses_odd_options) {
  DONE(fopo_matrix_done) fopo_matrix items = normal(50, 4, 351);
  fopo_hnsw_options wrong = {.M = 1};
  double heads[] = {-0.1, 1.0, (double)NAN};
  fopo_index *ix;
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(fopo_index_hybrid(&ix, items, heads[i], NULL), FOPO_ERR_ARGUMENT);
    assert_null(ix);
    says("head is ");
  }
  refused(fopo_index_hybrid(&ix, items, 0.1, &wrong), FOPO_ERR_ARGUMENT, "M is 1");
  items.rows = 1;
  refused(fopo_index_hybrid(&ix, items, 0.1, NULL), FOPO_ERR_ARGUMENT, "at least 2 items");
  items.rows = 50;
  fopo_interrupt_request();
  assert_int_equal(fopo_index_hybrid(&ix, items, 0.1, NULL), FOPO_ERR_INTERRUPTED);
  fopo_interrupt_clear();
  assert_null(ix);
}

/* ---- options set between searches ---- */

TEST(breadth_and_budget_change_in_place) {
  DONE(fopo_matrix_done) fopo_matrix items = world(2000, 16, HEAVY, 361), Q = normal(40, 16, 362);
  FREED(fopo_index_free) fopo_index *norm = NULL, *small = NULL, *graph = hnsw_of(items, 8, 10, 1);
  ok(fopo_index_norm(&norm, items, 0));
  ok(fopo_index_norm(&small, items, 90));
  DONE(answer_done) answer all = ask(norm, Q, 30), few = ask(small, Q, 30);
  ok(fopo_index_set_budget(norm, 90));
  ok(fopo_index_set_budget(small, 0));
  assert_int_equal(fopo_index_about(norm).reachable, 90);
  assert_int_equal(fopo_index_about(small).reachable, 2000);
  DONE(answer_done) answer few_again = ask(norm, Q, 30), all_again = ask(small, Q, 30);
  assert_same(all, all_again);
  assert_same(few, few_again);

  fopo_recall narrow, wide;
  ok(fopo_index_recall(&narrow, graph, Q, 5));
  ok(fopo_index_set_ef(graph, 400));
  assert_int_equal(fopo_index_about(graph).ef, 400);
  ok(fopo_index_recall(&wide, graph, Q, 5));
  assert_true(wide.recall >= narrow.recall && wide.scored > narrow.scored);
  ok(fopo_index_set_ef(graph, 1 << 20));
  assert_int_equal(fopo_index_about(graph).ef, 2000);

  refused(fopo_index_set_ef(graph, 0), FOPO_ERR_ARGUMENT, "ef is 0");
  refused(fopo_index_set_ef(norm, 5), FOPO_ERR_ARGUMENT, "of kind norm has no ef");
  refused(fopo_index_set_budget(graph, 5), FOPO_ERR_ARGUMENT, "of kind hnsw has no budget");
}

/* The recall of a budget is the share of the true answers that are among its largest norms, for any
 * number of queries searched at a time. */
TEST(a_budget_has_the_recall_of_its_prefix) {
  DONE(fopo_matrix_done) fopo_matrix items = world(1000, 8, HEAVY, 371), Q = normal(50, 8, 372);
  size_t k = 20, budgets[] = {1, 19, 20, 100, 400, 999, 1000, 5000};
  fopo_index *norm;
  DONE(answer_done) answer truth = plain(items, Q, k);
  double before = -1.0;
  for (size_t i = 0; i < 8; i++) {
    ok(fopo_index_norm(&norm, items, budgets[i]));
    size_t reachable = budgets[i] < 1000 ? budgets[i] : 1000;
    assert_int_equal(fopo_index_about(norm).reachable, reachable);
    /* The items of the prefix: all that a search for k = budget returns. */
    uint8_t within[1000] = {0};
    DONE(answer_done) answer held = ask(norm, Q, 1000);
    for (size_t j = 0; j < held.counts[0]; j++) within[held.ids[j]] = 1;
    size_t hits = 0;
    for (size_t j = 0; j < Q.rows * k; j++) hits += within[truth.ids[j]];
    for (size_t batch = 0; batch <= 64; batch += 16) {
      fopo_recall r;
      ok(fopo_index_measure(&r, norm, Q, k, truth.scores, batch));
      assert_true(fabs(r.recall - (double)hits / (double)(Q.rows * k)) < 1e-12);
      assert_int_equal(r.short_rows, reachable < k ? Q.rows : 0);
      assert_true(r.scored <= (double)reachable / 1000.0 + 1e-12);
      if (batch == 0) assert_true(r.recall >= before);
      before = r.recall;
    }
    fopo_index_free(norm);
  }
  assert_true(before == 1.0);
}

/* The mass of an answer against its definition, at two scales of the queries: near 0 any items hold
 * the same mass, however few of them are the best. */
TEST(the_mass_is_that_of_the_answers) {
  DONE(fopo_matrix_done) fopo_matrix items = world(1000, 8, HEAVY, 373), Q = normal(30, 8, 374);
  const size_t k = 20, budget = 60;
  FREED(fopo_index_free) fopo_index *norm = NULL;
  ok(fopo_index_norm(&norm, items, budget));
  float before = 1.0F;
  const float scales[] = {1e-6F, 1.0F, 100.0F};
  for (size_t s = 0; s < 3; s++) {
    for (size_t b = 0; b < Q.rows; b++) {
      for (size_t j = 0; j < Q.cols; j++) fopo_matrix_row(Q, b)[j] *= scales[s] / before;
    }
    before = scales[s];
    DONE(answer_done) answer truth = plain(items, Q, k), held = ask(norm, Q, k);
    double expected = 0.0;
    for (size_t b = 0; b < Q.rows; b++) {
      double all = 0.0, sum = 0.0;
      for (size_t i = b * k; i < (b + 1) * k; i++) {
        all += exp((double)truth.scores[i] - (double)truth.scores[b * k]);
        sum += exp((double)held.scores[i] - (double)truth.scores[b * k]);
      }
      expected += sum / all / (double)Q.rows;
    }
    fopo_recall r;
    ok(fopo_index_measure(&r, norm, Q, k, truth.scores, 7));
    if (fabs(r.mass - expected) > 1e-9) fail_msg("mass %.12f, not %.12f", r.mass, expected);
    assert_true(r.recall < 0.9 && (s > 0 || r.mass > 0.9999));
  }
}

/* The order holds every item once, by descending norm, with its norm; a refresh gives it a new
 * version.
 */
TEST(the_order_is_by_norm_and_of_its_version) {
  enum { P = 700, L = 9 };
  DONE(fopo_matrix_done) fopo_matrix items = world(P, L, HEAVY, 373);
  FREED(fopo_index_free) fopo_index *norm = NULL, *exact = NULL;
  uint32_t order[P];
  float norms[P];
  uint64_t version, before = 0;
  ok(fopo_index_norm(&norm, items, 30));
  ok(fopo_index_exact(&exact, items));
  assert_true(fopo_index_about(norm).version != fopo_index_about(exact).version);
  for (int again = 0; again < 2; again++) {
    uint8_t seen[P] = {0};
    ok(fopo_index_order(order, norms, &version, norm));
    assert_true(version != before && version == fopo_index_about(norm).version);
    for (size_t i = 0; i < P; i++) {
      assert_true(order[i] < P && !seen[order[i]]++);
      double length = sqrt(norm_of(items, order[i]));
      assert_true((double)norms[i] >= length * (1 - 1e-15) &&
                  (double)norms[i] <= length * 1.000001);
      assert_true(i == 0 || norms[i] <= norms[i - 1]);
    }
    before = version;
    for (size_t j = 0; j < L; j++) fopo_matrix_row(items, order[0])[j] *= 1e-3f;
    ok(fopo_index_refresh(norm));
  }
  refused(fopo_index_order(order, norms, &version, exact), FOPO_ERR_ARGUMENT,
          "of kind exact keeps no order");
}

/* ---- files ---- */

static char path[] = "/tmp/fopo_test_index_XXXXXX";

static int load(fopo_index **ix, fopo_matrix items) { return fopo_index_load(ix, path, items); }

TEST(files_give_the_same_answers) {
  DONE(fopo_matrix_done) fopo_matrix items = world(1200, 10, HEAVY, 171), Q = normal(30, 10, 172);
  fopo_index *kinds[5];
  ok(fopo_index_exact(&kinds[0], items));
  ok(fopo_index_norm(&kinds[1], items, 0));
  ok(fopo_index_norm(&kinds[2], items, 300));
  kinds[3] = hnsw_of(items, 6, 70, 0);
  kinds[4] = hybrid_of(items, 0.03, 70, 0);
  for (size_t i = 0; i < 5; i++) {
    answer a = ask(kinds[i], Q, 25);
    ok(fopo_index_save(kinds[i], path));
    fopo_index *ix;
    ok(load(&ix, items));
    answer b = ask(ix, Q, 25);
    assert_same(a, b);
    fopo_index_facts was = fopo_index_about(kinds[i]), is = fopo_index_about(ix);
    assert_string_equal(was.kind, is.kind);
    assert_int_equal(was.reachable, is.reachable);
    assert_int_equal(was.budget, is.budget);
    assert_int_equal(was.M, is.M);
    assert_int_equal(was.ef, is.ef);
    assert_int_equal(was.prefix, is.prefix);
    assert_int_equal(was.ef_construction, is.ef_construction);
    assert_int_equal(was.scored, is.scored);
    answer_done(&a), answer_done(&b);
    fopo_index_free(ix), fopo_index_free(kinds[i]);
    /* Other items of the same shape, and items of another shape, are refused. */
    items.x[77] += 1.0f;
    assert_int_equal(load(&ix, items), FOPO_ERR_FORMAT);
    assert_null(ix);
    says("other items");
    items.x[77] -= 1.0f;
    items.rows--;
    refused(load(&ix, items), FOPO_ERR_FORMAT, "1199 x 10");
    items.rows++;
  }
}

/* One false value in a file with correct checksums. */
typedef struct {
  const char *member;
  size_t at; /* which element */
  uint64_t value;
  const char *says;
} lie;

static void set(fopo_array *a, size_t at, uint64_t value) {
  assert_true(at < fopo_array_count(a));
  memcpy((char *)a->data + at * a->itemsize, &value, a->itemsize);
}

static uint64_t get(const fopo_array *a, size_t at) {
  uint64_t value = 0;
  memcpy(&value, (const char *)a->data + at * a->itemsize, a->itemsize);
  return value;
}

static void assert_refused(fopo_matrix items, const char *part) {
  fopo_index *ix;
  size_t blocks = fopo_memory_in_use().blocks;
  assert_int_equal(load(&ix, items), FOPO_ERR_FORMAT);
  assert_null(ix);
  says(part);
  assert_int_equal(fopo_memory_in_use().blocks, blocks);
}

static void tell(const lie *l, fopo_matrix items) {
  DONE(fopo_archive_done) fopo_archive archive;
  ok(fopo_npz_load(&archive, path));
  fopo_array *a = fopo_archive_find(&archive, l->member);
  assert_non_null(a);
  uint64_t truth = get(a, l->at);
  set(a, l->at, l->value);
  ok(fopo_npz_save(path, archive.items, archive.n, 0));
  assert_refused(items, l->says);
  set(a, l->at, truth);
  ok(fopo_npz_save(path, archive.items, archive.n, 0));
}

TEST(false_values_in_files_are_refused) {
  DONE(fopo_matrix_done) fopo_matrix items = world(300, 6, GAUSSIAN, 181);
  fopo_index *ix = hnsw_of(items, 4, 40, 1);
  ok(fopo_index_save(ix, path));
  fopo_index_free(ix);
  fopo_archive archive;
  ok(fopo_npz_load(&archive, path));
  const fopo_array *levels = fopo_archive_find(&archive, "levels");
  size_t low = 0, high = 0, below = 0; /* an item of level 0, one above it, items before that */
  for (size_t i = 0; i < 300; i++) {
    if (get(levels, i) == 0) low = i;
    if (get(levels, i) > 0) high = i;
  }
  for (size_t i = 0; i < high; i++) below += get(levels, i);
  fopo_archive_done(&archive);
  /* The first list of `upper` that has a link is high's; 5 numbers to a list. */
  lie lies[] = {
      {"kind", 0, 0x7a7a7a7a, "kind"},
      {"version", 0, 2, "version 2"},
      {"items", 0, 299, "299 x 6"},
      {"fingerprint", 0, 12345, "other items"},
      {"M", 0, 0, "M = 0"},
      {"M", 0, 5, "links is 300 x 9"},
      {"M", 0, 1000, "M is 1000"},
      {"ef_construction", 0, 3, "ef_construction = 3"},
      {"ef_construction", 0, (uint64_t)1 << 40, "ef_construction"},
      {"ef", 0, 0, "ef = 0"},
      {"ef", 0, 301, "ef is 301"},
      {"deterministic", 0, 2, "deterministic"},
      {"entry", 0, 300, "entry"},
      {"entry", 0, low, "entry"},
      {"reachable", 0, 7, "7 could"},
      {"levels", low, 1, "upper is"},
      {"levels", high, 0, "upper is"},
      {"levels", low, 200, "level 200"},
      {"links", 0, 9, "9 links on layer 0"},
      {"links", 0, UINT32_MAX, "links on layer 0"},
      {"links", 1, 300, "leads to 300"},
      {"links", 1, 0, "leads to 0"},
      {"links", 1 + 9 * 17, UINT32_MAX, "layer 0 leads to"},
      {"upper", 5 * below, 5, "5 links on layer 1"},
      {"upper", 5 * below + 1, low, "leads to"},
      {"upper", 5 * below + 1, 300, "leads to 300"},
      {"upper", 5 * below + 1, high, "leads to"},
  };
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) tell(&lies[i], items);

  ok(fopo_index_norm(&ix, items, 50));
  ok(fopo_index_save(ix, path));
  fopo_index_free(ix);
  lie norm_lies[] = {{"order", 0, 300, "entry 1 of order"},
                     {"order", 299, 0, "of order"},
                     {"version", 0, 0, "version 0"}};
  for (size_t i = 0; i < 3; i++) tell(&norm_lies[i], items);

  /* of a graph that does not reach all: one item more, and one less */
  fopo_matrix sparse = world(900, 8, SPARSE, 121);
  ix = hnsw_of(sparse, 4, 900, 1);
  size_t reached = fopo_index_about(ix).reachable;
  ok(fopo_index_save(ix, path));
  fopo_index_free(ix);
  assert_true(reached > 1 && reached < 900);
  tell(&(lie){"reachable", 0, reached + 1, "can be reached"}, sparse);
  tell(&(lie){"reachable", 0, reached - 1, "can be reached"}, sparse);
  fopo_matrix_done(&sparse);

  ix = hybrid_of(items, 0.1, 40, 1);
  ok(fopo_index_save(ix, path));
  fopo_index_free(ix);
  ok(fopo_npz_load(&archive, path));
  levels = fopo_archive_find(&archive, "levels");
  size_t in = 0, out = 0; /* the last items in the graph and out of it */
  for (size_t i = 0; i < 300; i++) *(get(levels, i) == 255 ? &out : &in) = i;
  fopo_archive_done(&archive);
  lie hybrid_lies[] = {{"head", 0, 0, "head is 0"},
                       {"head", 0, 300, "head is 300"},
                       {"head", 0, 29, "missing from"},
                       {"head", 0, 31, "and also in"},
                       {"levels", in, 255, "missing from"},
                       {"levels", out, 0, "and also in"},
                       {"links", 17 * out, 1, "more than 0"},
                       {"links", 17 * in + 1, out, "no other item"},
                       {"entry", 0, out, "entry"}};
  for (size_t i = 0; i < sizeof hybrid_lies / sizeof *hybrid_lies; i++) {
    tell(&hybrid_lies[i], items);
  }
}

/* The levels of a graph as its file has them; *without: lists above layer 0 that have no link,
 * though their layer holds several items. */
static void levels_of_seed(uint8_t levels[400], size_t *without, fopo_matrix items, uint64_t seed) {
  fopo_index *ix;
  DONE(fopo_archive_done) fopo_archive archive;
  fopo_hnsw_options o = {.M = 4, .ef_construction = 40, .ef = 20, .seed = seed, .deterministic = 1};
  ok(fopo_index_hnsw(&ix, items, &o));
  ok(fopo_index_save(ix, path));
  fopo_index_free(ix);
  ok(fopo_npz_load(&archive, path));
  const fopo_array *all = fopo_archive_find(&archive, "levels");
  const fopo_array *upper = fopo_archive_find(&archive, "upper");
  size_t on[64] = {0}, row = 0;
  for (size_t i = 0; i < items.rows; i++) {
    levels[i] = (uint8_t)get(all, i);
    for (int layer = 1; layer <= levels[i]; layer++) on[layer]++;
  }
  *without = 0;
  for (size_t i = 0; i < items.rows; i++) {
    for (int layer = 1; layer <= levels[i]; layer++, row++) {
      *without += on[layer] > 1 && get(upper, row * upper->shape[1]) == 0;
    }
  }
  assert_int_equal(row, upper->shape[0]);
}

/* Another seed gives other levels, and the same seed the same; on every layer that holds several
 * items each of them has a link. */
TEST(levels_follow_from_the_seed) {
  DONE(fopo_matrix_done) fopo_matrix items = normal(400, 6, 183);
  uint8_t one[400], again[400], other[400];
  size_t without;
  levels_of_seed(one, &without, items, 1);
  assert_int_equal(without, 0);
  levels_of_seed(again, &without, items, 1);
  levels_of_seed(other, &without, items, 2);
  assert_int_equal(without, 0);
  assert_memory_equal(one, again, sizeof one);
  assert_memory_not_equal(one, other, sizeof one);
}

/* A set has the items of an answer, in ascending order of their ids. */
TEST(sets_ascend) {
  enum { K = 20 };
  DONE(fopo_matrix_done) fopo_matrix items = normal(500, 6, 184), Q = normal(30, 6, 185);
  fopo_index *kinds[4];
  ok(fopo_index_exact(&kinds[0], items));
  ok(fopo_index_norm(&kinds[1], items, 0));
  kinds[2] = hnsw_of(items, 6, 60, 1);
  kinds[3] = hybrid_of(items, 0.1, 60, 1);
  for (int i = 0; i < 4; i++) {
    answer a = ask(kinds[i], Q, K), ordered = answer_new(Q.rows, K);
    ok(fopo_index_search_within(ordered.ids, ordered.scores, ordered.counts, kinds[i], Q, K, 0, 1));
    for (size_t b = 0; b < Q.rows; b++) {
      const uint32_t *ids = ordered.ids + b * K, *answered = a.ids + b * K;
      assert_int_equal(ordered.counts[b], a.counts[b]);
      for (size_t j = 0; j < ordered.counts[b]; j++) {
        int there = 0;
        for (size_t k = 0; k < a.counts[b]; k++) there |= answered[k] == ids[j];
        assert_true(there && (j == 0 || ids[j - 1] < ids[j]));
      }
    }
    answer_done(&a), answer_done(&ordered);
    fopo_index_free(kinds[i]);
  }
}

/* The first score came with a larger error than the second, which does not make it surer: its item
 * may be the best, and is. */
TEST(errors_of_what_is_held_count) {
  float x[] = {1.0f, 0.95f}, q[] = {1.0f}, score;
  fopo_matrix items = {.x = x, .rows = 2, .cols = 1, .ld = 1};
  const fopo_kernels *kernels = fopo_kernels_get();
  uint64_t keys[4];
  uint32_t id;
  fopo_topk t;
  fopo_topk_init(&t, keys, 4, 1, q, (fopo_left_out){0});
  fopo_topk_set_error(&t, 0.5f);
  fopo_topk_push(&t, kernels, items, 0.55f, 0);
  fopo_topk_set_error(&t, 0.2f);
  fopo_topk_push(&t, kernels, items, 1.1f, 1);
  assert_int_equal(fopo_topk_finish(&t, &id, &score, kernels, items), 1);
  assert_int_equal(id, 0);
  assert_float_equal(score, 1.0f, 0.0f);
}

/* Keys order like scores, then ids the other way round; 0 and -0 are one score. */
TEST(keys_order_like_scores) {
  const float ascending[] = {-3e38f, -1.0f, -1e-45f, 0.0f, 1e-45f, 1.0f, 3e38f};
  for (size_t i = 0; i < sizeof ascending / sizeof *ascending; i++) {
    uint64_t key = fopo_topk_key(ascending[i], 7);
    assert_true(fopo_topk_score(key) == ascending[i] && fopo_topk_id(key) == 7);
    assert_true(key > fopo_topk_key(ascending[i], 8));
    assert_true(i == 0 || key > fopo_topk_key(ascending[i - 1], 6));
  }
  assert_true(fopo_topk_key(-0.0f, 7) == fopo_topk_key(0.0f, 7));
}

TEST(missing_members_are_named) {
  DONE(fopo_matrix_done) fopo_matrix items = world(100, 6, GAUSSIAN, 191);
  fopo_index *ix = hnsw_of(items, 4, 40, 1);
  ok(fopo_index_save(ix, path));
  fopo_index_free(ix);
  DONE(fopo_archive_done) fopo_archive archive;
  ok(fopo_npz_load(&archive, path));
  for (size_t i = 0; i < archive.n; i++) {
    fopo_array kept = archive.items[i], last = archive.items[archive.n - 1];
    archive.items[i] = last;
    ok(fopo_npz_save(path, archive.items, archive.n - 1, 0));
    int kind = strcmp(kept.name, "kind") == 0;
    if (strcmp(kept.name, "seed") != 0) assert_refused(items, kind ? "no index" : kept.name);
    archive.items[i] = kept;
  }
}

/* Random words written into the structure, with correct checksums: the file is refused, or its
 * graph is sound. */
TEST(random_damage_is_survived) {
  DONE(fopo_matrix_done) fopo_matrix items = world(80, 5, GAUSSIAN, 201), Q = normal(6, 5, 202);
  fopo_index *ix = hnsw_of(items, 3, 20, 1);
  ok(fopo_index_save(ix, path));
  fopo_index_free(ix);
  DONE(fopo_archive_done) fopo_archive archive;
  ok(fopo_npz_load(&archive, path));
  const char *members[] = {"links", "upper", "levels", "entry"};
  size_t refused = 0, rounds = 200;
  for (uint32_t i = 0; i < rounds; i++) {
    fopo_words w = fopo_random(9, FOPO_STREAM_WORLD, 1, i, 0);
    fopo_array *a = fopo_archive_find(&archive, members[w.v[0] % 4]);
    size_t at = w.v[1] % fopo_array_count(a);
    uint64_t truth = get(a, at);
    set(a, at, w.v[2] % 2 ? w.v[3] % 90 : truth ^ (1u << w.v[3] % 32));
    ok(fopo_npz_save(path, archive.items, archive.n, 0));
    set(a, at, truth);
    int status = load(&ix, items);
    if (status == FOPO_OK) {
      DONE(answer_done) answer b = ask(ix, Q, 80);
      assert_sound(b, items, Q);
    } else {
      assert_int_equal(status, FOPO_ERR_FORMAT);
      refused++;
    }
    fopo_index_free(ix);
  }
  assert_true(refused > rounds / 4);
}

/* ---- faults ---- */

typedef int maker(fopo_index **ix, fopo_matrix items);

static int make_norm(fopo_index **ix, fopo_matrix items) { return fopo_index_norm(ix, items, 0); }

static int make_hnsw(fopo_index **ix, fopo_matrix items) {
  fopo_hnsw_options o = {.M = 4, .ef_construction = 20, .ef = 20};
  return fopo_index_hnsw(ix, items, &o);
}

static int make_hybrid(fopo_index **ix, fopo_matrix items) {
  fopo_hnsw_options o = {.M = 4, .ef_construction = 20, .ef = 20};
  return fopo_index_hybrid(ix, items, 0.1, &o);
}

/* Builds and searches with the n-th allocation failing, for n = 0, 1 .. until nothing fails: a
 * status, no leak. */
static void survives_faults(maker *make, int forever) {
  DONE(fopo_matrix_done) fopo_matrix items = world(100, 6, GAUSSIAN, 211), Q = normal(70, 6, 212);
  DONE(answer_done) answer a = answer_new(70, 9);
  size_t blocks = fopo_memory_in_use().blocks;
  long n = 0;
  for (int done = 0; !done; n++) {
    assert_true(n < 1000);
    fopo_index *ix;
    fopo_memory_fail_after(n, forever);
    int status = make(&ix, items);
    if (status == FOPO_OK) status = fopo_index_search(a.ids, a.scores, a.counts, ix, Q, 9);
    done = status == FOPO_OK;
    fopo_memory_fail_after(-1, 0);
    if (!done) {
      assert_int_equal(status, FOPO_ERR_MEMORY);
      says("memory");
      if (ix != NULL) { /* the search failed: the index is still usable */
        ok(fopo_index_search(a.ids, a.scores, a.counts, ix, Q, 9));
        assert_sound(a, items, Q);
      }
    }
    fopo_index_free(ix);
    assert_int_equal(fopo_memory_in_use().blocks, blocks);
  }
  assert_true(n > 5);
}

TEST(memory_faults_lose_nothing) {
  DONE(fopo_matrix_done) fopo_matrix items = world(100, 6, GAUSSIAN, 211);
  maker *makers[] = {fopo_index_exact, make_norm, make_hnsw, make_hybrid};
  for (int forever = 0; forever <= 1; forever++) {
    for (size_t i = 0; i < 4; i++) survives_faults(makers[i], forever);
    for (size_t i = 1; i < 4; i++) {
      fopo_index *ix;
      ok(makers[i](&ix, items));
      ok(fopo_index_save(ix, path));
      fopo_index_free(ix);
      survives_faults(load, forever);
    }
  }
}

int main(void) {
  int fd = mkstemp(path);
  if (fd < 0) return 1;
  close(fd);
  int failed = run_all(NULL, NULL);
  unlink(path);
  return failed;
}
