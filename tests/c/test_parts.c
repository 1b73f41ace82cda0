/* A catalogue in parts, in one process: parts of a made-up number of ranks are filled by hand. The
 * draws kept by all parts are those of the whole, and the joined sums give its estimate. */
#include <math.h>

#include "checks.h"
#include "core/norm.h"
#include "core/rng.h"
#include "device/device.h"
#include "mips/order.h"
#include "ranks/shard.h"

enum { P = 203, DIM = 6, B = 5, S = 40, RANKS = 3, HEAD = 20 };

static float items[P * DIM], Q[B * DIM];
static uint32_t rows[B], order[P], place[P];
static fopo_device *cpu;

/* The part of rank r of RANKS, as fopo_shard_deal lays it out. */
typedef struct {
  fopo_part part;
  float items[P * DIM];
  uint32_t id[P], sorted[P], guide[P + 2];
} part_of;

static void fill_part(part_of *x, uint32_t r) {
  size_t n = 0;
  memset(x, 0, sizeof *x);
  x->part = (fopo_part){.P = P,
                        .rows = (P + RANKS - 1 - r) / RANKS,
                        .rank = r,
                        .size = RANKS,
                        .id = x->id,
                        .sorted = x->sorted,
                        .guide = x->guide,
                        .shift = 2};
  for (size_t i = 0; i < x->part.rows; i++) {
    x->id[i] = order[i * RANKS + r];
    memcpy(x->items + i * DIM, items + x->id[i] * DIM, DIM * sizeof(float));
  }
  for (size_t a = 0; a <= P + 3; a++) {
    if (a % 4 == 0) x->guide[a / 4] = (uint32_t)n;
    if (a >= P || place[a] % RANKS != r) continue;
    x->sorted[n++] = place[a] / RANKS;
  }
  assert_int_equal(n, x->part.rows);
}

static int set_up(void **state) {
  (void)state;
  float norms[P];
  ok(fopo_device_cpu_open(&cpu));
  fopo_fill_normal(items, P * DIM, 1.0, 1, FOPO_STREAM_INIT);
  fopo_fill_normal(Q, B * DIM, 1.0, 2, FOPO_STREAM_INIT);
  for (size_t a = 0; a < P; a++) norms[a] = fopo_norm_up(fopo_norm(items + a * DIM, DIM));
  ok(fopo_order_descending(order, norms, P));
  for (size_t p = 0; p < P; p++) place[order[p]] = (uint32_t)p;
  for (size_t b = 0; b < B; b++) rows[b] = (uint32_t)(b * 7);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  fopo_device_close(cpu);
  return 0;
}

static fopo_device_batch batch_of(void) {
  return (fopo_device_batch){
      .B = B, .S = S, .P = P, .L = DIM, .rows = rows, .Q = Q, .key = {.seed = 5, .step = 3}};
}

static float reward_of(uint32_t a) { return a % 5 == 0 ? 1.0f : a % 7 == 0 ? -0.5f : 0.0f; }

/* Every item is found in one part alone, and there in its row. */
TEST(test_look_up) {
  static part_of x[RANKS];
  for (uint32_t r = 0; r < RANKS; r++) fill_part(&x[r], r);
  for (uint32_t a = 0; a < P; a++) {
    size_t found = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
      uint32_t row = fopo_part_row(&x[r].part, a);
      if (row == UINT32_MAX) continue;
      assert_int_equal(x[r].id[row], a);
      found++;
    }
    assert_int_equal(found, 1);
  }
  for (size_t places = 0; places <= P; places++) {
    size_t sum = 0;
    for (uint32_t r = 0; r < RANKS; r++) sum += fopo_part_places(&x[r].part, places);
    assert_int_equal(sum, places);
  }
}

static void check_same(float V[2][B * DIM], float stats[2][B * FOPO_STATS]) {
  double largest = 0.0;
  for (size_t i = 0; i < B * DIM; i++) largest = fmax(largest, fabs((double)V[0][i]));
  assert_true(largest > 0.01);
  for (size_t i = 0; i < B * DIM; i++) {
    assert_true(fabs((double)V[0][i] - (double)V[1][i]) < 1e-6 * largest);
  }
  for (size_t i = 0; i < B * FOPO_STATS; i++) {
    double one = (double)stats[0][i];
    assert_true(fabs(one - (double)stats[1][i]) <= 1e-6 * fmax(fabs(one), 0.1));
  }
}

/* Estimates the draws ids [B, S] whole, then by parts: V and the statistics agree. `keep` leaves
 * each part's draws in its samples. */
static void compare(const uint32_t *ids, const float *logq, float floor,
                    void (*keep)(fopo_samples *samples, uint32_t *counts, const part_of *x)) {
  static float r[B * S], own_logq[B * S], V[2][B * DIM], stats[2][B * FOPO_STATS];
  static float sums[RANKS * B * (2 * DIM + 2 * FOPO_SUMS_DOUBLES)];
  static uint32_t own[B * S], counts[B];
  static part_of x;
  fopo_device_batch batch = batch_of();
  for (size_t i = 0; i < B * S; i++) r[i] = reward_of(ids[i]);
  fopo_samples whole = {.r = r};
  memcpy(&whole.ids, &ids, sizeof ids);
  memcpy(&whole.logq, &logq, sizeof logq);
  fopo_rows all = fopo_rows_float32(items, DIM);
  fopo_estimate e = {.V = V[0], .stats = stats[0]};
  ok(cpu->ops->snis(cpu, &e, &whole, &all, floor, &batch));
  size_t kept = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    fill_part(&x, rank);
    memcpy(own, ids, sizeof own);
    memcpy(own_logq, logq, sizeof own_logq);
    fopo_samples mine = {own, own_logq, r};
    keep(&mine, counts, &x);
    for (size_t b = 0; b < B; b++) {
      kept += counts[b];
      for (size_t s = 0; s < counts[b]; s++) r[b * S + s] = reward_of(x.id[own[b * S + s]]);
    }
    fopo_device_batch part = batch;
    part.counts = counts;
    fopo_rows here = fopo_rows_float32(x.items, DIM);
    fopo_estimate sum = {.sums = sums + rank * B * fopo_sums_width(DIM)};
    ok(cpu->ops->snis(cpu, &sum, &mine, &here, floor, &part));
  }
  assert_int_equal(kept, B * S); /* no draw is lost, and none is kept twice */
  fopo_estimate joined = {.V = V[1], .stats = stats[1]};
  ok(cpu->ops->join_sums(cpu, &joined, sums, RANKS, &batch));
  check_same(V, stats);
}

static void keep_by_id(fopo_samples *samples, uint32_t *counts, const part_of *x) {
  fopo_device_batch batch = batch_of();
  ok(cpu->ops->keep_part(cpu, samples, counts, &x->part, &batch));
}

TEST(test_uniform) {
  static uint32_t ids[B * S];
  static float logq[B * S];
  fopo_device_batch batch = batch_of();
  fopo_samples samples = {.ids = ids, .logq = logq};
  ok(cpu->ops->draw_uniform(cpu, &samples, &batch));
  compare(ids, logq, INFINITY, keep_by_id);
}

/* Hits of the contexts, a quarter of them of the head, as ids or, of a part, as its rows. */
static fopo_csr hits_of(uint64_t *indptr, uint32_t *ids, const fopo_part *part) {
  size_t n = 0;
  for (size_t c = 0; c <= rows[B - 1]; c++) {
    indptr[c] = n;
    for (size_t a = 0; a < P; a++) {
      uint32_t id = part != NULL && a < part->rows ? part->id[a] : (uint32_t)a;
      if ((part == NULL || a < part->rows) && (id + c) % 17 < 2) ids[n++] = (uint32_t)a;
    }
    indptr[c + 1] = n;
  }
  return (fopo_csr){.rows = rows[B - 1] + 1, .cols = P, .indptr = indptr, .ids = ids};
}

static fopo_estimate sum_shared(fopo_estimate e, const float *x, const uint32_t *by, size_t own,
                                const uint32_t *at, const fopo_part *part) {
  static uint64_t indptr[B * 7 + 1];
  static uint32_t ids[(B * 7 + 1) * P];
  static float packed[HEAD * DIM];
  fopo_device_batch batch = batch_of();
  fopo_rows all = fopo_rows_float32(x, DIM);
  fopo_shared_head head = {.H = own, .order = by, .place = at, .rows = {packed, DIM, FOPO_FLOAT32}};
  fopo_shared_tail tail = {HEAD, part};
  fopo_sparse_reward reward = {.Y = hits_of(indptr, ids, part)};
  ok(cpu->ops->pack_head(cpu, &head, &all, DIM, FOPO_PRODUCTS_FLOAT32));
  ok(cpu->ops->snis_shared(cpu, &e, &head, &tail, &reward, &all, &batch));
  return e;
}

/* A head, and draws of the others that all contexts share: of few others each part has some. */
TEST(test_shared) {
  static float V[2][B * DIM], stats[2][B * FOPO_STATS];
  static float sums[RANKS * B * (2 * DIM + 2 * FOPO_SUMS_DOUBLES)];
  static part_of x;
  uint32_t same[P];
  for (uint32_t i = 0; i < P; i++) same[i] = i;
  sum_shared((fopo_estimate){.V = V[0], .stats = stats[0]}, items, order, HEAD, place, NULL);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    fill_part(&x, rank);
    fopo_estimate e = {.sums = sums + rank * B * fopo_sums_width(DIM)};
    sum_shared(e, x.items, same, fopo_part_places(&x.part, HEAD), same, &x.part);
  }
  fopo_device_batch batch = batch_of();
  fopo_estimate joined = {.V = V[1], .stats = stats[1]};
  ok(cpu->ops->join_sums(cpu, &joined, sums, RANKS, &batch));
  check_same(V, stats);
}

/* One rank: the shard is the catalogue in the norm order, and the answers are those of an index. */
TEST(test_one_rank) {
  fopo_shard s;
  ok(fopo_shard_deal(&s, fopo_matrix_view(items, P, DIM)));
  assert_int_equal(s.part.rows, P);
  for (size_t p = 0; p < P; p++) {
    assert_int_equal(s.id[p], order[p]);
    assert_memory_equal(fopo_matrix_row(s.items, p), items + order[p] * DIM, DIM * sizeof(float));
  }
  fopo_matrix range;
  ok(fopo_shard_range(&range, &s));
  assert_memory_equal(range.x, items, sizeof items);
  fopo_matrix_done(&range);

  uint32_t ids[2 * 4] = {3, 1, 0, 9, 2, 5, 7, 7}, counts[2] = {4, 2};
  float scores[2 * 4] = {4, 3, 3, 1, 8, 6, 0, 0};
  ok(fopo_shard_merge(ids, scores, counts, &s, 2, 4, FOPO_OK));
  uint32_t low = order[1] < order[0] ? order[1] : order[0];
  assert_int_equal(ids[0], order[3]);
  assert_int_equal(ids[1], low); /* of equal scores the smaller id */
  assert_int_equal(ids[3], order[9]);
  assert_int_equal(counts[1], 2);
  assert_int_equal(ids[4 + 2], UINT32_MAX);
  assert_true(isinf(scores[4 + 2]));
  assert_int_equal(fopo_shard_merge(ids, scores, counts, &s, 2, 4, FOPO_ERR_MEMORY),
                   FOPO_ERR_MEMORY);
  fopo_shard_done(&s);
  items[7] = NAN;
  assert_int_equal(fopo_shard_deal(&s, fopo_matrix_view(items, P, DIM)), FOPO_ERR_NUMERIC);
  assert_non_null(strstr(fopo_error_sentence(), "row 2"));
  items[7] = 0.5f;
}

int main(void) { return run_all(set_up, tear_down); }
