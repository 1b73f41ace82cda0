/* The CUDA device at the edges of its loads and of its index arithmetic: rows of every length from
 * 1 to 1,030 at every alignment that a caller can give them, and arrays with more than 2^32
 * numbers, of which the emulation holds only the pages that are touched. FOPO_BOUNDS=all takes
 * every length, and otherwise some of each kind. */
#include "cuda_case.h"

enum { B = 2, S = 9, P = 12, MOST = 1030 };

static const fopo_float types[] = {FOPO_FLOAT32, FOPO_FLOAT16, FOPO_BFLOAT16};

/* The borders of the kernels' shapes, and every 97th length. */
static int is_chosen(size_t L) {
  const size_t borders[] = {1, 2, 3, 4, 5, 7, 8, 32, 33, 128, 129, 130, 512, 516, 1024, 1025, 1026};
  const char *all = getenv("FOPO_BOUNDS");
  if ((all != NULL && strcmp(all, "all") == 0) || L % 97 == 0) return 1;
  for (size_t i = 0; i < sizeof borders / sizeof *borders; i++) {
    if (L == borders[i]) return 1;
  }
  return 0;
}

/* ---- every length, and every alignment ---- */

/* The same samples on both sides; rows of float32 begin `shift` numbers into their array. */
typedef struct {
  float Q[B * MOST], r[B * S], logq[B * S];
  uint32_t ids[B * S];
  float *Q_, *r_, *logq_;
  uint32_t *ids_;
} drawn;

static void drawn_up(drawn *x, size_t L) {
  for (size_t i = 0; i < B * S; i++) {
    x->ids[i] = (uint32_t)((i * 5 + P - 1) % P); /* the last row first */
    x->logq[i] = -1.0f - (float)(i % 3) / 4;
    x->r[i] = i % 4 == 0 ? 1.0f : 0.0f;
  }
  fopo_fill_normal(x->Q, B * L, 1 / sqrt((double)L), 2, FOPO_STREAM_WORLD);
  x->Q_ = up(x->Q, B * L * 4);
  x->r_ = up(x->r, sizeof x->r);
  x->logq_ = up(x->logq, sizeof x->logq);
  x->ids_ = up(x->ids, sizeof x->ids);
}

static float *floats_of(fopo_rows rows) {
  float *x;
  memcpy(&x, &rows.x, sizeof x);
  return x;
}

/* Scores, both estimators, and what copies rows; the card has n rows. */
static void check_rows(drawn *x, fopo_rows items, fopo_rows items_, size_t n, size_t L) {
  static float V[B * MOST], f[B * S], X[B * MOST], stats[B * FOPO_STATS];
  float *V_ = blank(B * L * 4), *f_ = blank(sizeof f), *stats_ = blank(sizeof stats);
  float *X_ = blank(B * L * 4);
  fopo_device_batch host = {.B = B, .S = S, .P = n, .L = L, .Q = x->Q}, card = host;
  fopo_samples samples = {x->ids, x->logq, x->r}, samples_ = {x->ids_, x->logq_, x->r_};
  card.Q = x->Q_;
  ok(cpu->ops->scores(cpu, &(fopo_candidate_sets){S, x->ids, f, NULL}, &items, &host));
  ok(gpu->ops->scores(gpu, &(fopo_candidate_sets){S, x->ids_, f_, NULL}, &items_, &card));
  assert_close(f_, f, B * S, 2e-6, 3, "scores");
  fopo_estimate e = {.V = V, .stats = stats}, e_ = {.V = V_, .stats = stats_};
  ok(cpu->ops->snis(cpu, &e, &samples, &items, -2.0f, &host));
  ok(gpu->ops->snis(gpu, &e_, &samples_, &items_, -2.0f, &card));
  assert_close(V_, V, B * L, 3e-6, 1, "snis' V");
  if (items.type != FOPO_FLOAT32) return;
  fopo_matrix all = {floats_of(items), P, L, items.ld};
  fopo_matrix all_ = {floats_of(items_), n, L, items_.ld};
  ok(cpu->ops->reinforce(cpu, &e, &samples, NULL, all, &host));
  ok(gpu->ops->reinforce(gpu, &e_, &samples_, NULL, all_, &card));
  assert_close(V_, V, B * L, 3e-6, 1, "reinforce's V");
  ok(cpu->ops->gather_rows(cpu, fopo_matrix_view(X, B, L), all, x->ids));
  ok(gpu->ops->gather_rows(gpu, fopo_matrix_view(X_, B, L), all_, x->ids_));
  assert_same(X_, X, B * L * 4, "gather_rows");
}

static void check_length(size_t L, fopo_float type) {
  static drawn x;
  size_t shift = type == FOPO_FLOAT32 ? L % 4 : 0, pad = type == FOPO_FLOAT32 ? L / 4 % 4 : 0;
  size_t ld = type == FOPO_FLOAT32 ? L + pad : fopo_rows_ld(L);
  size_t bytes = (P * ld + 4) * fopo_float_bytes(type);
  FREED(free) float *numbers = normals(P * ld + 4, 1, L);
  FREED(free) uint16_t *half = aligned_alloc(64, (bytes + 63) / 64 * 64);
  fopo_rows items = fopo_rows_float32(numbers + shift, ld), items_;
  drawn_up(&x, L);
  if (type == FOPO_FLOAT32) {
    items_ = fopo_rows_float32((float *)up(numbers, bytes) + shift, ld);
  } else {
    ok(fopo_rows_halve(half, (fopo_matrix){numbers, P, L, ld}, type));
    items = (fopo_rows){half, ld, type};
    items_ = (fopo_rows){up(half, P * ld * 2), ld, type};
  }
  check_rows(&x, items, items_, P, L);
  forget();
}

TEST(test_lengths) {
  for (size_t L = 1; L <= MOST; L++) {
    for (size_t t = 0; t < 3 && is_chosen(L); t++) check_length(L, types[t]);
  }
}

/* ---- more than 2^32 numbers ---- */

/* Of the pages that nobody touches; a card would have to have them all. */
static int has_room(void) {
#if defined(__SANITIZE_ADDRESS__) /* it would keep a byte for each eight */
  return 0;
#endif
  if (emulation_memory == NULL) return 0;
  emulation_memory((size_t)60 << 30);
  return 1;
}

enum { WIDE_L = 20 };

/* The items of a catalogue whose rows are 2^20 numbers apart, and the same without gaps. */
TEST(test_wide_rows) {
  if (!has_room()) skip();
  const size_t ld = (size_t)1 << 20, n = 4200;
  static drawn x;
  drawn_up(&x, WIDE_L);
  float *near = normals(P * WIDE_L, 1, 5), *far = blank(n * ld * 4);
  uint32_t away[B * S];
  for (size_t a = 0; a < P; a++) { /* item a is row n - 1 - 350 a */
    float *row = far + (n - 1 - 350 * a) * ld;
    ok(gpu->ops->put(gpu, row, near + a * WIDE_L, WIDE_L * 4));
  }
  for (size_t i = 0; i < B * S; i++) away[i] = (uint32_t)(n - 1 - 350 * x.ids[i]);
  ok(gpu->ops->put(gpu, x.ids_, away, sizeof away));
  check_rows(&x, fopo_rows_float32(near, WIDE_L), fopo_rows_float32(far, ld), n, WIDE_L);

  /* the best items, which the zeros between them do not beat */
  uint32_t best[B * 2], *best_ = blank(sizeof best), *counts_ = blank(B * 4);
  float *scores_ = blank(sizeof best);
  fopo_catalogue c = {.items = far, .P = n, .ld = ld, .limit = n};
  fopo_device_batch card = {.B = B, .S = S, .P = n, .L = WIDE_L, .Q = x.Q_};
  ok(gpu->ops->topk(gpu, &(fopo_candidate_sets){2, best_, scores_, counts_}, &c, &card));
  down(best, best_, sizeof best);
  for (size_t b = 0; b < B; b++) {
    size_t first = 0;
    float most = -INFINITY;
    for (size_t a = 0; a < P; a++) {
      float score = 0;
      for (size_t j = 0; j < WIDE_L; j++) score += near[a * WIDE_L + j] * x.Q[b * WIDE_L + j];
      if (score > most) most = score, first = a;
    }
    assert_int_equal(best[2 * b], n - 1 - 350 * first);
  }
  forget();
  free(near);
}

/* The candidates of millions of contexts. */
TEST(test_many_sets) {
  if (!has_room()) skip();
  const size_t K = 1000, N = 4400000;
  uint32_t contexts[B] = {4399999, 4294968}, counts[B] = {1000, 17}, back[B];
  FREED(free) uint32_t *ids = room(B * K, 4);
  for (size_t i = 0; i < B * K; i++) ids[i] = (uint32_t)(i * 7919);
  uint32_t *rows_ = up(contexts, sizeof contexts), *ids_ = up(ids, B * K * 4);
  uint32_t *counts_ = up(counts, sizeof counts), *again_ = blank(B * K * 4);
  uint32_t *back_ = blank(sizeof back);
  fopo_candidate_sets cache = {K, blank(N * K * 4), NULL, blank(N * 4)};
  fopo_candidate_sets sets = {K, ids_, NULL, counts_}, loaded = {K, again_, NULL, back_};
  ok(gpu->ops->store_sets(gpu, &cache, &sets, rows_, B));
  ok(gpu->ops->load_sets(gpu, &loaded, &cache, rows_, B));
  assert_same(again_, ids, B * K * 4, "kept candidates");
  assert_same(back_, counts, sizeof counts, "their counts");
  assert_same(cache.ids + contexts[0] * K, ids, K * 4, "the last context's place");
  forget();
}

/* Items that learn: rows beyond 2^32 numbers move, as rows near 0 do on the CPU. */
TEST(test_many_items) {
  if (!has_room()) skip();
  const size_t L = 1000, many = 4400000, first = 4399000;
  static drawn x;
  drawn_up(&x, L);
  uint32_t away[B * S], touched[P], touched_[P], updates[P] = {0};
  for (size_t i = 0; i < B * S; i++) away[i] = (uint32_t)first + 83 * x.ids[i];
  ok(gpu->ops->put(gpu, x.ids_, away, sizeof away));
  float c[B * S], *items = room(P * L, 4), *m = room(P * L, 4), *rows = room(P * L, 4);
  FREED(free) float *v = room(P * L, 4);
  for (size_t i = 0; i < B * S; i++) c[i] = (float)i / 10 - 0.7f;
  float *c_ = up(c, sizeof c), *rows_ = blank(P * L * 4), *items_ = blank(many * L * 4);
  float *m_ = blank(many * L * 4), *v_ = blank(many * L * 4);
  uint32_t *ids_ = blank(sizeof touched), *updates_ = blank(many * 4);
  fopo_item_gradient g = {rows, touched, 0}, g_ = {rows_, ids_, 0};
  fopo_parameters at = {items, m, v, updates, P * L}, at_ = {items_, m_, v_, updates_, many * L};
  fopo_samples samples = {.ids = x.ids}, samples_ = {.ids = x.ids_};
  fopo_device_batch host = {.B = B, .S = S, .P = P, .L = L, .Q = x.Q}, card = host;
  fopo_adam adam = {{.lr = 1e-2}, 0.9, 0.999, 1e-8, 0};
  fopo_sgd sgd = {{.lr = 1e-2}, 0.9};
  fopo_adagrad adagrad = {{.lr = 1e-2}, 1e-10};
  card.Q = x.Q_, card.P = many;
  ok(cpu->ops->items_gradient(cpu, &g, c, &samples, 0.5f, &host));
  ok(gpu->ops->items_gradient(gpu, &g_, c_, &samples_, 0.5f, &card));
  assert_int_equal(g_.n, g.n);
  down(touched_, ids_, g.n * 4);
  for (size_t i = 0; i < g.n; i++) assert_int_equal(touched_[i], first + 83 * touched[i]);
  assert_close(rows_, rows, g.n * L, 1e-6, 0.1, "the gradient of the items");
  ok(cpu->ops->adam_rows(cpu, &at, &g, &adam, L));
  ok(gpu->ops->adam_rows(gpu, &at_, &g_, &adam, L));
  ok(cpu->ops->sgd_rows(cpu, &at, &g, &sgd, L));
  ok(gpu->ops->sgd_rows(gpu, &at_, &g_, &sgd, L));
  ok(cpu->ops->adagrad_rows(cpu, &at, &g, &adagrad, L));
  ok(gpu->ops->adagrad_rows(gpu, &at_, &g_, &adagrad, L));
  for (size_t i = 0; i < g.n; i++) {
    assert_close(items_ + touched_[i] * L, items + touched[i] * L, L, 1e-6, 1, "an item");
  }
  /* every item's own row */
  fopo_item_gradient all = {items_, NULL, many};
  ok(gpu->ops->clear(gpu, items_, many * L));
  ok(gpu->ops->items_gradient(gpu, &all, c_, &samples_, 0.5f, &card));
  for (size_t i = 0; i < g.n; i++) {
    assert_close(items_ + touched_[i] * L, rows + i * L, L, 1e-6, 0.1, "an item's gradient");
  }
  forget();
  free(items), free(m), free(rows);
}

int main(int n, char **words) {
  if (!open_both()) return 77;
  if (n > 1) cmocka_set_test_filter(words[1]);
  int failed = run_all(NULL, NULL);
  close_both();
  return failed;
}
