/* The prefilters: each instruction set's against the definition in plain C, scores against the
 * stated bound, and the answers of indexes with a prefilter against those without, to the bit. */
#include <float.h>
#include <math.h>

#include "checks.h"
#include "core/rng.h"
#include "core/threads.h"
#include "kernels/kernels.h"
#include "mips/index.h"
#include "prefilter_portable.h"
#include "recoded.h"

FREED_BY(fopo_index_free, fopo_index)

static const size_t dims[] = {1, 2, 7, 16, 31, 32, 33, 64, 65, 100, 1000};
enum { DIMS = sizeof dims / sizeof *dims, ROWS = 70 };

static fopo_matrix normal(size_t rows, size_t cols, double scale, uint64_t seed) {
  fopo_matrix m;
  ok(fopo_matrix_init(&m, rows, cols));
  fopo_fill_normal(m.x, rows * cols, scale, seed, FOPO_STREAM_INIT);
  return m;
}

/* ---- kernels ---- */

/* What one call of a prefilter did. scores [count, FOPO_PANEL], NAN where none was listed. */
typedef struct {
  char *rows, *queries;
  size_t row_bytes, query_bytes; /* of all */
  float *scores;
  size_t found;
} passed;

/* Checks that a list has n_found places of `count` rows and queries first .. n - 1 in rising order
 * of rows for each query, and puts the scores into their places. */
static void spread(passed *r, const uint32_t *list, const float *scores, size_t found, size_t first,
                   size_t count, size_t n) {
  size_t next[16] = {0};
  for (size_t f = 0; f < found; f++) {
    size_t i = list[f] / 16, j = list[f] % 16;
    assert_true(i < count && first + j < n && i >= next[j]);
    next[j] = i + 1;
    r->scores[i * FOPO_PANEL + first + j] = scores[f];
  }
  r->found += found;
}

static passed prefilter(const fopo_prefilter *s, fopo_matrix rows, const uint32_t *ids,
                        size_t count, const float *panel, size_t width, size_t n,
                        const float *floor) {
  size_t dim = rows.cols, found[2], half = FOPO_PANEL / 2 * count, places = count * FOPO_PANEL;
  passed r = {.row_bytes = fopo_prefilter_rows(count) * s->row_bytes(dim),
              .query_bytes = FOPO_PANEL * s->query_bytes(dim)};
  r.rows = aligned_alloc(64, r.row_bytes + 64), r.queries = calloc(r.query_bytes, 1);
  r.scores = calloc(places + 1, sizeof *r.scores);
  memset(r.rows, 0xa5, r.row_bytes);
  uint32_t *list = calloc(places + 1, sizeof *list);
  float *scores = calloc(places + 1, sizeof *scores), floors[FOPO_PANEL];
  for (size_t j = 0; j < FOPO_PANEL; j++) floors[j] = j < n ? floor[j] : INFINITY;
  for (size_t i = 0; i < places; i++) r.scores[i] = NAN;
  list[places] = 77;
  s->pack(r.rows, rows.x, rows.ld, ids, count, dim);
  s->pack_queries(r.queries, panel, dim, width);
  s->score_and_select(list, scores, found, r.rows, count, r.queries, dim, n, floors);
  spread(&r, list, scores, found[0], 0, count, n);
  spread(&r, list + half, scores + half, found[1], FOPO_PANEL / 2, count, n);
  assert_int_equal(list[places], 77);
  free(list), free(scores);
  return r;
}

static void passed_free(passed r) { free(r.rows), free(r.queries), free(r.scores); }

static double norm(const float *x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

/* The bound of kernels/prefilter.h on the error of a score of row a and query b. Their rounding is
 * what the prefilter says it is, and no more than it can be. */
static double bound(const fopo_prefilter *s, const float *a, const float *b, size_t n) {
  double tiny = (double)FLT_MIN, L = (double)n, root = sqrt(L);
  double na = norm(a, n), nb = norm(b, n), ra = s->rounding(a, n), rb = s->rounding(b, n);
  assert_true(ra <= s->most_rounding(n) * na + tiny * root);
  assert_true(rb <= s->most_rounding(n) * nb + tiny * root);
  return (na * rb + ra * (nb + rb)) * (1 + 1e-9) +
         (L + 16) * 1.01 * 0x1p-24 * (na + ra) * (nb + rb) + tiny * (root * (na + nb) + 2 * L + 1);
}

static void check_bounds(const fopo_prefilter *s, passed r, fopo_matrix rows, fopo_matrix queries,
                         size_t n) {
  assert_int_equal(r.found, ROWS * n);
  for (size_t i = 0; i < ROWS; i++) {
    for (size_t j = 0; j < n; j++) {
      const float *a = fopo_matrix_row(rows, i), *b = fopo_matrix_row(queries, j);
      double sum = 0, most = bound(s, a, b, rows.cols);
      for (size_t l = 0; l < rows.cols; l++) sum += (double)a[l] * (double)b[l];
      double error = fabs((double)r.scores[i * FOPO_PANEL + j] - sum);
      if (!(error <= most)) fail_msg("%zu dimensions: %.3g > %.3g", rows.cols, error, most);
    }
  }
}

static void check_scores(const fopo_prefilter *s, double scale, double query_scale) {
  const size_t numbers[] = {1, 3, 16, 17, 31, 32};
  float all[FOPO_PANEL];
  for (size_t j = 0; j < FOPO_PANEL; j++) all[j] = -INFINITY;
  for (size_t d = 0; d < DIMS; d++) {
    size_t dim = dims[d], n = numbers[d % 6], width = n > 16 ? FOPO_PANEL : 16;
    DONE(fopo_matrix_done) fopo_matrix rows = normal(ROWS, dim, scale, 1);
    DONE(fopo_matrix_done) fopo_matrix panel = normal(dim, width, query_scale, 2);
    DONE(fopo_matrix_done) fopo_matrix queries = normal(width, dim, 1.0, 2);
    for (size_t i = 0; i < dim * width; i++) {
      queries.x[i % width * dim + i / width] = panel.x[i];
    }
    passed r = prefilter(s, rows, NULL, ROWS, panel.x, width, n, all);
    check_bounds(s, r, rows, queries, n);
    passed_free(r);
  }
}

/* Calls test for the prefilter of every instruction set. Those that this CPU lacks are skipped by
 * name; but the code of avxvnni is tested in the coding of AVX-512 where the CPU has that. */
static void each_prefilter(void (*test)(const fopo_prefilter *s)) {
  const char *name;
  for (size_t i = 0; (name = fopo_kernels_name(i)) != NULL; i++) {
    const fopo_kernels *k = fopo_kernels_named(name);
    if (k != NULL && k->prefilter != NULL) test(k->prefilter);
    if (k == NULL) print_message("skip the prefilter of %s: this CPU lacks it\n", name);
  }
  const fopo_prefilter *recoded = recoded_avxvnni();
  if (recoded != NULL) test(recoded);
}

static void check_all_scales(const fopo_prefilter *s) {
  check_scores(s, 1.0, 1.0);
  check_scores(s, 1e17, 1e18);
  check_scores(s, 1e-20, 1e-20); /* products are subnormal or less */
  check_scores(s, 1e-39, 1.0);   /* operands are */
  check_scores(s, 1e-39, 1e17);
}

TEST(definitions_keep_the_bound) {
  for (int kind = 0; kind < FOPO_PACKED_KINDS; kind++) {
    check_all_scales(prefilter_portable((fopo_packed)kind));
  }
}

TEST(instruction_sets_keep_the_bound) { each_prefilter(check_all_scales); }

/* The largest values that a kind has, in the longest rows that a sum of integers is exact for. */
static void check_longest(const fopo_prefilter *s) {
  size_t dim = s->kind == FOPO_PACKED_INT8 ? s->max_dim : 5000;
  DONE(fopo_matrix_done) fopo_matrix rows = normal(1, dim, 1.0, 1), panel = normal(dim, 16, 1.0, 2);
  float all[FOPO_PANEL] = {0};
  for (size_t j = 0; j < FOPO_PANEL; j++) all[j] = -INFINITY;
  for (size_t i = 0; i < dim; i++) rows.x[i] = i % 2 ? 1.0f : -1.0f, panel.x[i * 16] = rows.x[i];
  passed r = prefilter(s, rows, NULL, 1, panel.x, 16, 1, all);
  assert_int_equal(r.found, 1);
  assert_true(fabs((double)r.scores[0] - (double)dim) <= 0.01 * (double)dim);
  passed_free(r);
}

TEST(longest_rows_do_not_overflow) { each_prefilter(check_longest); }

/* Packing to the bit; the rows that pass are those whose own score is at least the floor. */
static void check_definition(const fopo_prefilter *s) {
  const fopo_prefilter *plain = prefilter_portable(s->kind);
  uint32_t ids[ROWS];
  for (uint32_t i = 0; i < ROWS; i++) ids[i] = (i * 37 + 11) % ROWS;
  for (size_t d = 0; d < DIMS; d++) {
    size_t dim = dims[d];
    fopo_matrix rows = normal(ROWS, dim + 3, 1.0, 3), panel = normal(dim, FOPO_PANEL, 1.0, 4);
    rows.cols = dim;
    rows.x[0] = 1e-40f, rows.x[dim - 1] = -0.0f, panel.x[0] = -1e-42f;
    for (size_t count = 0; count <= ROWS; count += count < 34 ? 1 : 7) {
      float floor[FOPO_PANEL], all[FOPO_PANEL];
      size_t n = 1 + (count + 5 * d) % FOPO_PANEL;
      for (size_t j = 0; j < FOPO_PANEL; j++) {
        floor[j] = j % 5 == 0 ? INFINITY : 0.5f, all[j] = -INFINITY;
      }
      passed a = prefilter(s, rows, ids, count, panel.x, FOPO_PANEL, n, all);
      passed b = prefilter(plain, rows, ids, count, panel.x, FOPO_PANEL, n, floor);
      passed c = prefilter(s, rows, ids, count, panel.x, FOPO_PANEL, n, floor);
      assert_memory_equal(a.rows, b.rows, a.row_bytes);
      assert_memory_equal(a.queries, b.queries, a.query_bytes);
      assert_int_equal(a.found, count * n);
      for (size_t i = 0; i < count * FOPO_PANEL; i++) {
        size_t j = i % FOPO_PANEL;
        if (j >= n) continue;
        int passes = a.scores[i] >= floor[j];
        assert_true(passes ? c.scores[i] == a.scores[i] : isnan(c.scores[i]));
      }
      passed_free(a), passed_free(b), passed_free(c);
    }
    fopo_matrix_done(&rows), fopo_matrix_done(&panel);
  }
}

TEST(instruction_sets_agree_with_the_definition) { each_prefilter(check_definition); }

/* ---- indexes ---- */

/* The best kernels without a prefilter, and with the one that is tested. */
static fopo_kernels without, with;

static void use_prefilter(const fopo_kernels *kernels, const fopo_prefilter *s) {
  without = with = *kernels;
  without.prefilter = NULL;
  with.prefilter = s;
}

typedef struct {
  uint32_t *ids, *counts;
  float *scores;
} answer;

static answer ask(fopo_index *ix, fopo_matrix Q, size_t k) {
  answer a = {calloc(Q.rows * k, 4), calloc(Q.rows, 4), calloc(Q.rows * k, 4)};
  ok(fopo_index_search(a.ids, a.scores, a.counts, ix, Q, k));
  return a;
}

static void answer_done(answer *a) { free(a->ids), free(a->counts), free(a->scores); }

static int by_id(const void *a, const void *b) {
  uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
  return (i > j) - (i < j);
}

/* The same items when no scores are asked for, by rising id. */
static void check_set(fopo_index *ix, fopo_matrix Q, size_t k, answer expected) {
  DONE(answer_done) answer a = {calloc(Q.rows * k, 4), calloc(Q.rows, 4), calloc(Q.rows * k, 4)};
  ok(fopo_index_search_within(a.ids, a.scores, a.counts, ix, Q, k, 0, 1));
  FREED(free) uint32_t *ids = malloc(k * sizeof *ids);
  for (size_t b = 0; b < Q.rows; b++) {
    memcpy(ids, expected.ids + b * k, k * sizeof *ids);
    qsort(ids, expected.counts[b], sizeof *ids, by_id);
    assert_memory_equal(a.ids + b * k, ids, k * sizeof *ids);
    assert_int_equal(a.counts[b], expected.counts[b]);
  }
}

/* The index built with and without a prefilter, searched with it, by teams of several sizes: the
 * first and the last search the one that was built with it, the second the other. */
static void check_index(int (*build)(fopo_index **ix, fopo_matrix items), fopo_matrix items,
                        fopo_matrix Q, size_t k) {
  int before = fopo_threads(), teams[] = {1, 2, 3};
  fopo_index *plain, *filtered;
  fopo_kernels_use(&without);
  ok(build(&plain, items));
  answer expected = ask(plain, Q, k);
  fopo_kernels_use(&with);
  ok(build(&filtered, items));
  for (size_t t = 0; t < 3; t++) {
    ok(fopo_threads_set(teams[t]));
    answer a = ask(t == 1 ? plain : filtered, Q, k);
    assert_memory_equal(a.ids, expected.ids, Q.rows * k * sizeof *a.ids);
    assert_memory_equal(a.scores, expected.scores, Q.rows * k * sizeof *a.scores);
    assert_memory_equal(a.counts, expected.counts, Q.rows * sizeof *a.counts);
    answer_done(&a);
    if (t == 1) check_set(filtered, Q, k, expected);
  }
  fopo_threads_set(before);
  answer_done(&expected);
  fopo_index_free(plain), fopo_index_free(filtered);
}

static int exact_of(fopo_index **ix, fopo_matrix items) { return fopo_index_exact(ix, items); }
static int norm_of(fopo_index **ix, fopo_matrix items) { return fopo_index_norm(ix, items, 0); }
static int budget_of(fopo_index **ix, fopo_matrix items) {
  return fopo_index_norm(ix, items, items.rows / 3);
}

typedef enum { GAUSSIAN, HEAVY, CLUSTERS, COPIES, NEAR, TINY, HUGE_NORMS, SUBNORMAL, SHAPES } shape;

static fopo_matrix world(size_t P, size_t L, shape s) {
  double scale = s == TINY ? 1e-30 : s == HUGE_NORMS ? 1e15 : s == SUBNORMAL ? 1e-39 : 1.0;
  fopo_matrix m = normal(P, L, scale, 5);
  for (size_t i = 0; i < P; i++) {
    float *row = fopo_matrix_row(m, i);
    uint32_t w = fopo_random(6, FOPO_STREAM_WORLD, 0, (uint32_t)i, 0).v[0];
    const float *centre = fopo_matrix_row(m, w % 20);
    float size = (float)pow(1.0 + (double)(w % P), -0.7);
    for (size_t l = 0; l < L; l++) {
      if (s == HEAVY || s == TINY || s == HUGE_NORMS) row[l] *= size;
      if (s == CLUSTERS && i >= 20) row[l] = centre[l] + 0.01f * row[l];
      if (s == COPIES && i >= 20) row[l] = centre[l];
      if (s == NEAR && i > 0) row[l] = m.x[l];
    }
    if (s == NEAR && i > 0) row[i % L] = nextafterf(row[i % L], i % 2 ? INFINITY : -INFINITY);
  }
  return m;
}

/* The fastest prefilter of a kind that this CPU can run; the definition if there is no other. */
static const fopo_prefilter *best_of(fopo_packed kind) {
  const fopo_prefilter *best = prefilter_portable(kind), *recoded = recoded_avxvnni();
  const char *name;
  if (recoded != NULL && recoded->kind == kind) best = recoded;
  for (size_t i = 0; (name = fopo_kernels_name(i)) != NULL; i++) {
    const fopo_kernels *k = fopo_kernels_named(name);
    if (k != NULL && k->prefilter != NULL && k->prefilter->kind == kind) best = k->prefilter;
  }
  return best;
}

/* Calls test for every kind, with `slow` if there is only its definition. All are made to pack
 * items during a search too, so that the bounds on any row's rounding are tested. */
static void each_kind(void (*test)(int slow)) {
  const fopo_kernels *kernels = fopo_kernels_get();
  for (int kind = 0; kind < FOPO_PACKED_KINDS; kind++) {
    fopo_prefilter prefilter = *best_of((fopo_packed)kind);
    int slow = prefilter.pack == prefilter_portable((fopo_packed)kind)->pack;
    prefilter.pays_from = 3;
    use_prefilter(kernels, &prefilter);
    test(slow);
  }
  fopo_kernels_use(kernels);
}

/* Each shape at every other length; with a definition alone at one of two. */
static void same_bits(int slow) {
  const size_t lengths[] = {1, 7, 16, 31, 32, 33, 100};
  for (size_t l = slow ? 1 : 0; l < sizeof lengths / sizeof *lengths; l += slow ? 4 : 1) {
    for (int s = 0; s < SHAPES; s++) {
      if (s != HEAVY && (l / (slow ? 4 : 1) + (size_t)s) % 2 != 0) continue;
      size_t B = s % 2 == 0 ? 32 : 100; /* panels shared by threads, and groups of their own */
      fopo_matrix items = world(2500, lengths[l], (shape)s), Q = normal(B, lengths[l], 1.0, 7);
      check_index(norm_of, items, Q, 20);
      check_index(exact_of, items, Q, 1);
      if (s == HEAVY) check_index(norm_of, items, Q, 256);
      if (s == HEAVY) check_index(budget_of, items, Q, 100);
      if (s == HEAVY) check_index(norm_of, items, fopo_matrix_rows(Q, 0, 2), 10);
      fopo_matrix_done(&items), fopo_matrix_done(&Q);
    }
  }
}

TEST(answers_are_the_same_bits) { each_kind(same_bits); }

static void many_same_bits(int slow) {
  if (slow) return;
  DONE(fopo_matrix_done) fopo_matrix items = world(1500, 1000, HEAVY);
  DONE(fopo_matrix_done) fopo_matrix Q = normal(33, 1000, 1e-3, 8);
  check_index(norm_of, items, Q, 1);
  check_index(norm_of, items, Q, 700);
  check_index(exact_of, items, Q, 1500);
}

TEST(many_dimensions_and_many_answers) { each_kind(many_same_bits); }

/* In the groups of 16 items that the initial floors are estimated from, every fourth, 12 items
 * score high: more than the estimate for k = 16 requires of the sample, and fewer than k. So the
 * estimate is too high and the round must be repeated. For the odd queries these items score low.
 */
static void too_high_floors(int slow) {
  (void)slow;
  DONE(fopo_matrix_done) fopo_matrix items = normal(9000, 16, 0.01, 10);
  DONE(fopo_matrix_done) fopo_matrix Q = normal(40, 16, 1.0, 11);
  for (size_t i = 0; i < 12; i++) items.x[((i * 4 + 2) * 16 + i) * 16] = 10.0f + (float)i;
  for (size_t b = 0; b < 40; b++) {
    Q.x[b * 16] = b % 2 == 0 ? 5.0f : -5.0f;
  }
  for (size_t B = 2; B <= 40; B += 19) {
    check_index(exact_of, items, fopo_matrix_rows(Q, 0, B), 16);
    check_index(exact_of, items, fopo_matrix_rows(Q, 0, B), 20);
    check_index(norm_of, items, fopo_matrix_rows(Q, 0, B), 16);
  }
}

TEST(floors_estimated_too_high_are_repaired) { each_kind(too_high_floors); }

/* A query whose products overflow is refused before the search, and so are values that are not
 * finite.
 */
static void refuses(int slow) {
  (void)slow;
  fopo_kernels_use(&with);
  DONE(fopo_matrix_done) fopo_matrix items = world(5000, 16, HUGE_NORMS);
  DONE(fopo_matrix_done) fopo_matrix Q = normal(40, 16, 1.0, 9);
  float odd[] = {INFINITY, -INFINITY, NAN, 1e30f};
  FREED(fopo_index_free) fopo_index *ix = NULL;
  ok(fopo_index_norm(&ix, items, 0));
  for (size_t i = 0; i < 4; i++) {
    uint32_t ids[40], counts[40];
    float scores[40], kept = Q.x[100];
    Q.x[100] = odd[i];
    assert_int_equal(fopo_index_search(ids, scores, counts, ix, Q, 1), FOPO_ERR_NUMERIC);
    Q.x[100] = kept;
    kept = items.x[77];
    items.x[77] = odd[i];
    fopo_index *none;
    assert_int_equal(fopo_index_norm(&none, items, 0), FOPO_ERR_NUMERIC);
    items.x[77] = kept;
  }
}

TEST(not_finite_is_refused) { each_kind(refuses); }

int main(void) { return run_all(NULL, NULL); }
