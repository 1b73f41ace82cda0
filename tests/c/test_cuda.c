/* Every operation of the CUDA device against the CPU's on the same input: draws of the same ids,
 * floats within a tolerance that each test states. On the emulation, unless FOPO_TEST_GPU=1. */
#include <float.h>

#include "cuda_case.h"
#include "device/cuda/cuda.h"

/* Work is split by the number of processors, which is 1 and 70 on the emulation. */
static int processors_end(void) { return emulation_processors != NULL ? 80 : 2; }

static void cut_for(int processors) {
  if (emulation_processors == NULL) return;
  fopo_device_close(gpu);
  emulation_processors(processors);
  ok(fopo_device_open(&gpu, "cuda"));
}

/* ---- memory ---- */

TEST(test_memory) {
  void *blocks[200];
  char back[100], text[100] = "there and back";
  for (size_t i = 0; i < 200; i++) {
    ok(gpu->ops->alloc(gpu, &blocks[i], i));
    assert_non_null(blocks[i]);
    memset(back, 1, sizeof back);
    ok(gpu->ops->get(gpu, back, blocks[i], i < 100 ? i : 100));
    for (size_t j = 0; j < i && j < 100; j++) assert_int_equal(back[j], 0);
  }
  ok(gpu->ops->put(gpu, blocks[150], text, sizeof text));
  ok(gpu->ops->get(gpu, back, blocks[150], sizeof back));
  assert_string_equal(back, text);
  void *shared;
  ok(gpu->ops->share(gpu, &shared, text, sizeof text));
  text[0] = 'x';
  ok(gpu->ops->get(gpu, back, shared, sizeof back));
  assert_string_equal(back, "there and back");
  gpu->ops->release(gpu, shared);
  size_t large = 3 << 20; /* more than goes through the ring: the card reads the host's memory */
  char *data = room(large, 1), *there = room(large, 1);
  memset(data, 7, large);
  ok(gpu->ops->share(gpu, &shared, data, large));
  memset(data, 8, large);
  ok(gpu->ops->get(gpu, there, shared, large));
  for (size_t i = 0; i < large; i += 4096) assert_int_equal(there[i], 7);
  gpu->ops->release(gpu, shared);
  free(data), free(there);
  gpu->ops->release(gpu, NULL);
  for (size_t i = 0; i < 200; i++) gpu->ops->release(gpu, blocks[i]);
  if (emulation_live != NULL) assert_true(emulation_live() <= 7); /* the device's own */
}

/* ---- another build's object ---- */

/* The object refuses a program that was built from other declarations, or by something that does
 * not know their number; the program's own number is another than both. */
TEST(test_other_build) {
  const char *path = getenv("FOPO_CUDA");
  if (path == NULL) skip(); /* the program finds a card's object by itself */
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  assert_non_null(object);
  fopo_cuda_opener *open = NULL;
  fopo_cuda_lister *list = NULL;
  find_switch(&open, object, "fopo_cuda_open");
  find_switch(&list, object, "fopo_cuda_list");
  const uint32_t others[] = {0, 12345};
  for (int i = 0; i < 2; i++) {
    fopo_device *d = NULL;
    void (*close)(fopo_device * d);
    char text[100] = "not empty";
    refused(open(&d, &close, others[i]), FOPO_ERR_UNAVAILABLE, "another build of fopo; run make");
    assert_null(d);
    refused(list(text, sizeof text, others[i]), FOPO_ERR_UNAVAILABLE, "another build");
    assert_string_equal(text, "");
  }
  dlclose(object);
}

/* A row of device/ops.def is implemented by the devices that it names, and by no other. */
TEST(test_rows_of_ops) {
  enum { EVERY = 3, CPU = 1, CUDA = 2 };
#define FOPO_OP(name, who, ...)                                                                    \
  assert_int_equal(cpu->ops->name != NULL, ((who)&CPU) != 0);                                      \
  assert_int_equal(gpu->ops->name != NULL, ((who)&CUDA) != 0);
#include "device/ops.def"
#undef FOPO_OP
}

/* ---- dense operations ---- */

TEST(test_products) {
  const size_t shapes[][3] = {{1, 1, 1}, {6, 20, 33}, {32, 100, 100}, {3, 300, 7}}; /* B, D, L */
  for (size_t k = 0; k < 4; k++) {
    size_t B = shapes[k][0], D = shapes[k][1], L = shapes[k][2], ld = D + 3, N = 2 * B + 5;
    FREED(free) float *contexts = normals(N * ld, 1, 1), *theta = normals(D * L, 1, 2);
    FREED(free)
    float *V = normals(B * L, 1, 3), *X = room(B * D, 4), *Q = room(B * L, 4), *G = room(D * L, 4);
    FREED(free) uint32_t *rows = room(B, sizeof *rows);
    for (size_t b = 0; b < B; b++) rows[b] = (uint32_t)((7 * b + 3) % N);
    float *X_ = blank(B * D * 4), *Q_ = blank(B * L * 4), *G_ = blank(D * L * 4);
    float *V_ = up(V, B * L * 4), *theta_ = up(theta, D * L * 4);
    fopo_matrix X_host = fopo_matrix_view(X, B, D), X_card = fopo_matrix_view(X_, B, D);
    fopo_matrix V_host = fopo_matrix_view(V, B, L), V_card = fopo_matrix_view(V_, B, L);
    ok(cpu->ops->gather_rows(cpu, X_host, (fopo_matrix){contexts, N, D, ld}, rows));
    ok(gpu->ops->gather_rows(gpu, X_card, (fopo_matrix){up(contexts, N * ld * 4), N, D, ld},
                             up(rows, B * 4)));
    assert_same(X_, X, B * D * 4, "gather_rows");
    ok(cpu->ops->queries(cpu, fopo_matrix_view(Q, B, L), X_host, theta, 0.5f));
    ok(gpu->ops->queries(gpu, fopo_matrix_view(Q_, B, L), X_card, theta_, 0.5f));
    assert_close(Q_, Q, B * L, 1e-5, sqrt((double)D), "queries");
    for (int accumulate = 0; accumulate < 2; accumulate++) {
      ok(cpu->ops->outer(cpu, G, X_host, V_host, 0.25f, accumulate));
      ok(gpu->ops->outer(gpu, G_, X_card, V_card, 0.25f, accumulate));
      assert_close(G_, G, D * L, 1e-5, sqrt((double)B), "outer");
    }
    forget();
  }
}

static void check_network(const fopo_network *net) {
  enum { B = 9 };
  size_t D = net->width[0], L = net->width[net->layers];
  size_t n = fopo_network_params(net), units = fopo_network_units(net);
  FREED(free)
  float *X = normals(B * D, 1, 1), *theta = normals(n, 0.3, 2), *V = normals(B * L, 1, 3);
  FREED(free) float *Q = room(B * L, 4), *G = room(n, 4), *hidden = room(B * units, 4);
  float *delta = room(B * units, 4), *Q_ = blank(B * L * 4), *G_ = blank(n * 4);
  float *hidden_ = blank(B * units * 4), *delta_ = blank(B * units * 4);
  float *X_ = up(X, B * D * 4), *theta_ = up(theta, n * 4), *V_ = up(V, B * L * 4);
  ok(cpu->ops->network_forward(cpu, fopo_matrix_view(Q, B, L), fopo_matrix_view(X, B, D),
                               &(fopo_network_pass){net, theta, hidden, NULL, 0.7f}));
  ok(gpu->ops->network_forward(gpu, fopo_matrix_view(Q_, B, L), fopo_matrix_view(X_, B, D),
                               &(fopo_network_pass){net, theta_, hidden_, NULL, 0.7f}));
  assert_close(Q_, Q, B * L, 1e-5, 1, "network's Q");
  assert_close(hidden_, hidden, B * units, 1e-5, 1, "hidden units");
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    ok(cpu->ops->network_backward(cpu, G, fopo_matrix_view(X, B, D), fopo_matrix_view(V, B, L),
                                  &(fopo_network_pass){net, theta, hidden, delta, 0.3f},
                                  accumulate));
    ok(gpu->ops->network_backward(gpu, G_, fopo_matrix_view(X_, B, D), fopo_matrix_view(V_, B, L),
                                  &(fopo_network_pass){net, theta_, hidden_, delta_, 0.3f},
                                  accumulate));
    assert_close(G_, G, n, 1e-5, 2, "network's gradient");
  }
  forget();
  free(delta);
}

TEST(test_network) {
  for (int a = 0; a < 2; a++) {
    fopo_activation act = a == 0 ? FOPO_TANH : FOPO_RELU;
    fopo_network two = {2, {7, 11, 5}, act}, three = {3, {6, 33, 8, 10}, act};
    check_network(&two);
    check_network(&three);
  }
}

/* ---- rows of items ---- */

/* Rows of a type. */
typedef struct {
  float *x; /* [P, ld] in float32 */
  uint16_t *half;
  fopo_rows rows;
  size_t bytes;
} table;

static table table_of(size_t P, size_t L, size_t pad, fopo_float type, uint64_t seed) {
  size_t ld = type == FOPO_FLOAT32 ? L + pad : fopo_rows_ld(L);
  table t = {.x = normals(P * ld, 1, seed), .bytes = P * ld * fopo_float_bytes(type)};
  t.rows = fopo_rows_float32(t.x, ld);
  if (type == FOPO_FLOAT32) return t;
  fopo_matrix items = {t.x, P, L, ld};
  t.half = aligned_alloc(64, (t.bytes + 63) / 64 * 64);
  ok(fopo_rows_halve(t.half, items, type));
  t.rows = (fopo_rows){t.half, ld, type};
  return t;
}

static void table_done(table *t) {
  free(t->half);
  free(t->x);
}

static fopo_rows on_card(const table *t) {
  fopo_rows rows = {up(t->rows.x, t->bytes), t->rows.ld, t->rows.type};
  return rows;
}

static const fopo_float types[] = {FOPO_FLOAT32, FOPO_FLOAT16, FOPO_BFLOAT16};

/* A batch on both sides. */
typedef struct {
  size_t B, S, P, L;
  table items;
  float *Q, *logq, *r;
  uint32_t *ids, *rows;
  fopo_rows items_;
  float *Q_, *logq_, *r_;
  uint32_t *ids_, *rows_;
} batch;

static batch batch_new(size_t B, size_t S, size_t P, size_t L, size_t pad, fopo_float type) {
  batch x = {.B = B, .S = S, .P = P, .L = L, .items = table_of(P, L, pad, type, 1)};
  x.Q = normals(B * L, 1 / sqrt((double)L), 2);
  x.logq = room(B * S, 4);
  x.r = room(B * S, 4);
  x.ids = room(B * S, 4);
  x.rows = room(B, 4);
  for (size_t b = 0; b < B; b++) x.rows[b] = (uint32_t)(3 * b + 1);
  fopo_draw_key key = {7, 1};
  ok(cpu->ops->draw_uniform(
      cpu, &(fopo_samples){x.ids, x.logq, NULL},
      &(fopo_device_batch){.B = B, .S = S, .P = P, .rows = x.rows, .key = key}));
  for (size_t i = 0; i < B * S; i++) {
    x.logq[i] = (float)(-3 + 2 * sin((double)x.ids[i]));
    x.r[i] = x.ids[i] % 5 == 0 ? 1.0f : 0.0f;
  }
  return x;
}

static void batch_up(batch *x) {
  x->items_ = on_card(&x->items);
  x->Q_ = up(x->Q, x->B * x->L * 4);
  x->logq_ = up(x->logq, x->B * x->S * 4);
  x->r_ = up(x->r, x->B * x->S * 4);
  x->ids_ = up(x->ids, x->B * x->S * 4);
  x->rows_ = up(x->rows, x->B * 4);
}

/* The batch as the operations take it. */
static fopo_device_batch on_host(const batch *x) {
  return (fopo_device_batch){
      .B = x->B, .S = x->S, .P = x->P, .L = x->L, .rows = x->rows, .Q = x->Q};
}

static fopo_device_batch on_gpu(const batch *x) {
  return (fopo_device_batch){
      .B = x->B, .S = x->S, .P = x->P, .L = x->L, .rows = x->rows_, .Q = x->Q_};
}

/* Items in float32. */
static fopo_matrix items_on_host(const batch *x) {
  return (fopo_matrix){x->items.x, x->P, x->L, x->items.rows.ld};
}

static fopo_matrix items_on_gpu(const batch *x) {
  fopo_matrix items = items_on_host(x);
  memcpy(&items.x, &x->items_.x, sizeof items.x);
  return items;
}

static int cpu_snis(float *V, float *c, float *stats, const batch *x, float floor) {
  fopo_device_batch host = on_host(x);
  fopo_samples samples = {x->ids, x->logq, x->r};
  return cpu->ops->snis(cpu, &(fopo_estimate){.V = V, .c = c, .stats = stats}, &samples,
                        &x->items.rows, floor, &host);
}

static int gpu_snis(float *V, float *c, float *stats, const batch *x, float floor) {
  fopo_device_batch card = on_gpu(x);
  fopo_samples samples = {x->ids_, x->logq_, x->r_};
  return gpu->ops->snis(gpu, &(fopo_estimate){.V = V, .c = c, .stats = stats}, &samples, &x->items_,
                        floor, &card);
}

static int gpu_policy(uint32_t *ids, float *mean, float *log_z, const batch *x, fopo_draw_key key) {
  fopo_device_batch card = on_gpu(x);
  card.key = key;
  return gpu->ops->draw_policy(gpu, &(fopo_samples){.ids = ids},
                               &(fopo_policy_sums){mean, log_z, 0, NULL, 0}, items_on_gpu(x),
                               &card);
}

static void batch_free(batch *x) {
  forget();
  table_done(&x->items);
  free(x->Q), free(x->logq), free(x->r), free(x->ids), free(x->rows);
}

static const size_t lengths[] = {1, 4, 10, 16, 31, 33, 100, 128, 129, 500, 1000, 1030};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

TEST(test_scores) {
  enum { B = 3, S = 21 };
  uint32_t counts[B] = {21, 0, 7};
  for (size_t k = 0; k < LENGTHS * 3; k++) {
    size_t L = lengths[k / 3];
    DONE(batch_free) batch x = batch_new(B, S, 90, L, k % 2 ? 3 : 0, types[k % 3]);
    batch_up(&x);
    float f[B * S], *f_ = blank(sizeof f);
    uint32_t *counts_ = up(counts, sizeof counts);
    fopo_device_batch host = on_host(&x), card = on_gpu(&x);
    for (int counted = 0; counted < 2; counted++) {
      ok(cpu->ops->scores(cpu, &(fopo_candidate_sets){S, x.ids, f, counted ? counts : NULL},
                          &x.items.rows, &host));
      ok(gpu->ops->scores(gpu, &(fopo_candidate_sets){S, x.ids_, f_, counted ? counts_ : NULL},
                          &x.items_, &card));
      assert_close(f_, f, B * S, 2e-6, 3, "scores");
    }
  }
}

/* The tolerance of V and c is relative to the size of the rewards. */
static void check_snis(batch *x, float floor, double tolerance) {
  size_t B = x->B, S = x->S, L = x->L;
  batch_up(x);
  FREED(free) float *V = room(B * L, 4), *c = room(B * S, 4), *stats = room(B * FOPO_STATS, 4);
  float *V_ = blank(B * L * 4), *c_ = blank(B * S * 4), *stats_ = blank(B * FOPO_STATS * 4);
  ok(cpu_snis(V, c, stats, x, floor));
  double size = 0;
  for (size_t i = 0; i < B * S; i++) size = fmax(size, fabs((double)x->r[i]));
  for (int given = 0; given < 2; given++) {
    ok(gpu_snis(V_, given ? c_ : NULL, stats_, x, floor));
    assert_close(V_, V, B * L, tolerance, size, "snis' V");
    assert_close(stats_, stats, B * FOPO_STATS, 20 * tolerance, 1e-3, "snis' statistics");
  }
  assert_close(c_, c, B * S, tolerance, size, "snis' c");
  forget();
}

TEST(test_snis) {
  const size_t samples[] = {2, 3, 65, 700};
  for (int processors = 1; processors < processors_end(); processors += 69) {
    cut_for(processors);
    for (size_t k = 0; k < LENGTHS * 3; k++) {
      DONE(batch_free)
      batch x =
          batch_new(3, samples[(k + k / 3) % 4], 300, lengths[k / 3], k % 2 ? 3 : 0, types[k % 3]);
      check_snis(&x, k % 4 ? -3.0f : INFINITY, 3e-6);
    }
  }
  cut_for(4);
}

TEST(test_snis_extremes) {
  const size_t L[] = {10, 100, 1030};
  for (size_t k = 0; k < 3; k++) {
    DONE(batch_free) batch x = batch_new(3, 500, 300, L[k], 0, FOPO_FLOAT32);
    for (size_t i = 0; i < x.B * L[k]; i++) x.Q[i] *= 1000.0f; /* scores of some thousands */
    check_snis(&x, -3.0f, 5e-3);
    batch_free(&x);
    x = batch_new(2, 500, 300, L[k], 0, FOPO_FLOAT32);
    for (size_t i = 0; i < x.B * x.S; i++) x.r[i] = 100.0f + (float)(i % 7);
    check_snis(&x, INFINITY, 2e-6);
    for (size_t i = 0; i < x.B * x.S; i++) x.logq[i] = 90.0f; /* only differences count */
    check_snis(&x, -INFINITY, 2e-6);
  }
}

/* If all rewards are equal, V is exactly 0. A NaN among the scores makes the result NaN. */
TEST(test_snis_edges) {
  const size_t L[] = {10, 100, 1030};
  for (size_t k = 0; k < 3; k++) {
    DONE(batch_free) batch x = batch_new(2, 300, 400, L[k], 0, FOPO_FLOAT32);
    float *V = room(2 * L[k], 4), stats[2 * FOPO_STATS];
    for (size_t i = 0; i < x.B * x.S; i++) x.r[i] = -0.3f;
    batch_up(&x);
    float *V_ = blank(2 * L[k] * 4), *stats_ = blank(sizeof stats);
    ok(gpu_snis(V_, NULL, stats_, &x, INFINITY));
    down(V, V_, 2 * L[k] * 4);
    down(stats, stats_, sizeof stats);
    for (size_t i = 0; i < 2 * L[k]; i++) assert_true(V[i] == 0);
    assert_true(stats[FOPO_STAT_REWARD] == -0.3f && stats[FOPO_STAT_HEAD_MASS] == 0);
    x.Q[3] = NAN;
    ok(gpu->ops->put(gpu, x.Q_, x.Q, 2 * L[k] * 4));
    ok(gpu_snis(V_, NULL, stats_, &x, INFINITY));
    down(V, V_, 2 * L[k] * 4);
    down(stats, stats_, sizeof stats);
    for (size_t i = 0; i < L[k]; i++) assert_true(isnan(V[i]));
    assert_true(isnan(stats[FOPO_STAT_REWARD]) && V[L[k]] == 0);
    free(V);
  }
}

TEST(test_reinforce) {
  for (size_t k = 0; k < LENGTHS * 2; k++) {
    size_t L = lengths[k / 2], B = 3, S = k % 2 ? 250 : 2;
    int baseline = (int)(k / 2 % 2);
    DONE(batch_free) batch x = batch_new(B, S, 300, L, k % 3, FOPO_FLOAT32);
    batch_up(&x);
    FREED(free) float *mean = normals(B * L, 1, 8), *V = room(B * L, 4), *c = room(B * S, 4);
    float stats[3 * FOPO_STATS], *V_ = blank(B * L * 4), *c_ = blank(B * S * 4);
    float *stats_ = blank(sizeof stats), *mean_ = up(mean, B * L * 4);
    fopo_device_batch host = on_host(&x), card = on_gpu(&x);
    ok(cpu->ops->reinforce(cpu, &(fopo_estimate){.V = V, .c = c, .stats = stats},
                           &(fopo_samples){x.ids, NULL, x.r}, baseline ? NULL : mean,
                           items_on_host(&x), &host));
    ok(gpu->ops->reinforce(gpu, &(fopo_estimate){.V = V_, .c = k % 3 ? c_ : NULL, .stats = stats_},
                           &(fopo_samples){x.ids_, NULL, x.r_}, baseline ? NULL : mean_,
                           items_on_gpu(&x), &card));
    assert_close(V_, V, B * L, 2e-6, 1, "reinforce's V");
    if (k % 3) assert_close(c_, c, B * S, 1e-7, 1e-3, "reinforce's c");
    assert_close(stats_, stats, B * FOPO_STATS, 1e-7, 0, "reinforce's statistics");
  }
}

/* ---- slates ---- */

/* Lists of 0 to 3 items for each of 2 B contexts. */
static fopo_csr few(uint64_t *indptr, uint32_t *ids, size_t rows) {
  indptr[0] = 0;
  for (size_t n = 0; n < rows; n++) {
    indptr[n + 1] = indptr[n] + n % 4;
    for (uint64_t j = 0; j < n % 4; j++) ids[indptr[n] + j] = (uint32_t)(3 * j + n % 3);
  }
  return (fopo_csr){.indptr = indptr, .ids = ids, .rows = rows};
}

/* The slate of what was found for query q is right: the first k ids that are not masked. */
static void check_slate(const uint32_t *ids, const float *logq, size_t k,
                        const fopo_candidate_sets *found, size_t q, const fopo_csr *mask,
                        size_t row) {
  size_t taken = 0;
  for (size_t j = 0; j < found->counts[q]; j++) {
    int masked = 0;
    for (uint64_t e = mask->indptr[row]; e < mask->indptr[row + 1]; e++) {
      masked |= mask->ids[e] == found->ids[q * found->k + j];
    }
    if (masked || taken == k) continue;
    assert_int_equal(ids[taken], found->ids[q * found->k + j]);
    assert_true(logq[taken++] == 0.0f);
  }
  for (size_t j = taken; j < k; j++) assert_true(isinf(logq[j]) && ids[j] == (taken ? ids[0] : 0));
}

static void check_slates(size_t B, size_t S, size_t L, size_t k, int way) {
  const size_t P = 40, wide = 2 * k + 5, n = B * S, draws = n * k;
  fopo_draw_key key = {3, 5};
  fopo_slates x = {.S = S, .k = k, .measure = way % 4, .discount = way % 3 ? 0.0 : 0.8};
  x.baseline = way / 2 % 2, x.paired = way % 2, x.sigma = 0.3, x.beyond = way > 3 ? 0.04f : 0.0f;
  FREED(free) float *Q = normals(B * L, 1 / sqrt((double)L), 2), *near = room(n * L, 4);
  FREED(free) float *scores = room(n * wide, 4), *logq = room(draws, 4), *r = room(draws, 4);
  FREED(free) float *V = room(B * L, 4), *stats = room(B * FOPO_STATS, 4);
  FREED(free) uint32_t *found = room(n * wide, 4), *counts = room(n, 4), *ids = room(draws, 4);
  FREED(free) uint32_t *rows = room(B, 4), *least = room(B, 4), *lists = room(4 * B, 4);
  FREED(free) uint64_t *indptr = room(2 * B + 1, 8);
  for (size_t b = 0; b < B; b++) rows[b] = (uint32_t)(2 * b + 1);
  for (size_t q = 0; q < n; q++) {
    int alone = S > 256 && q % S == 2; /* the first of two that a thread takes */
    counts[q] = (uint32_t)(alone ? 0 : S <= 256 && q % 5 == 1 ? q % wide : wide);
    for (size_t j = 0; j < wide; j++) {
      found[q * wide + j] = (uint32_t)((7 * q + 11 * j) % P);
      scores[q * wide + j] = 0.2f - 0.01f * (float)j;
    }
  }
  fopo_csr list = few(indptr, lists, 2 * B), list_ = list;
  list_.indptr = up(indptr, (2 * B + 1) * 8), list_.ids = up(lists, 4 * B * 4);
  fopo_device_batch host = {.B = B, .S = S * k, .P = P, .L = L, .rows = rows, .Q = Q, .key = key};
  fopo_device_batch card = host;
  card.rows = up(rows, B * 4), card.Q = up(Q, B * L * 4);
  host.sparse = (fopo_sparse_scores){.indptr = indptr, .ids = lists};
  card.sparse = (fopo_sparse_scores){.indptr = list_.indptr, .ids = list_.ids};
  fopo_slates y = x;
  x.near = near, x.Y = list, x.rows = rows;
  y.near = blank(n * L * 4), y.Y = list_, y.rows = card.rows;

  ok(cpu->ops->perturb(cpu, &x, &host));
  ok(gpu->ops->perturb(gpu, &y, &card));
  assert_close(y.near, near, n * L, 1e-5, 1, "perturbed queries");
  y.near = up(near, n * L * 4);

  float *stats_ = blank(B * FOPO_STATS * 4), *logq_ = blank(draws * 4), *V_ = blank(B * L * 4);
  uint32_t *ids_ = blank(draws * 4), *least_ = blank(B * 4);
  fopo_samples a = {ids, logq, r}, a_ = {ids_, logq_, NULL};
  fopo_candidate_sets sets = {wide, found, scores, counts};
  fopo_candidate_sets sets_ = {wide, up(found, n * wide * 4), up(scores, n * wide * 4),
                               up(counts, n * 4)};
  ok(cpu->ops->take_slates(cpu, &a, least, stats, &sets, &x, &host));
  ok(gpu->ops->take_slates(gpu, &a_, least_, stats_, &sets_, &y, &card));
  for (size_t q = 0; q < n; q++) {
    check_slate(ids + q * k, logq + q * k, k, &sets, q, &list, rows[q / S]);
  }
  assert_same(ids_, ids, draws * 4, "slates");
  assert_same(logq_, logq, draws * 4, "the places of slates");
  assert_same(least_, least, B * 4, "the shortest slates");
  assert_close(stats_, stats, B * FOPO_STATS, 1e-7, 0, "what is proven of slates");
  if (x.beyond > 0.0f && n > 20) assert_true(stats[FOPO_STAT_HEAD_MASS] < 1.0f);

  for (size_t i = 0; i < draws; i++) r[i] = ids[i] % 3 == 0 ? 0.5f + (float)(i % 4) : 0.0f;
  a_.r = up(r, draws * 4);
  ok(cpu->ops->weigh_slates(cpu, &a, stats, &x, &host));
  ok(gpu->ops->weigh_slates(gpu, &a_, stats_, &y, &card));
  assert_close(a_.r, r, draws, 1e-6, 1e-3, "the coefficients of slates");
  assert_close(stats_, stats, B * FOPO_STATS, 1e-6, 1e-3, "the statistics of slates");
  ok(cpu->ops->add_perturbed(cpu, &(fopo_estimate){.V = V, .stats = stats}, &a, &x, &host));
  ok(gpu->ops->add_perturbed(gpu, &(fopo_estimate){.V = V_, .stats = stats_}, &a_, &y, &card));
  assert_close(V_, V, B * L, 1e-5, 1, "the gradient of slates");
  assert_close(stats_, stats, B * FOPO_STATS, 1e-5, 1, "the spread of slates");
  forget();
}

TEST(test_slates) {
  const size_t shapes[][4] = {{3, 6, 10, 3}, {2, 300, 33, 1}, {5, 4, 270, 7}}; /* B, S, L, k */
  for (size_t i = 0; i < 3; i++) {
    const size_t *n = shapes[i];
    for (int way = 0; way < 8; way++) check_slates(n[0], n[1], n[2], n[3], way);
  }
}

/* ---- kept candidates, statistics ---- */

TEST(test_sets) {
  enum { N = 50, K = 300, B = 7 };
  uint32_t *ids = room(B * K, 4), *sets = room(N * K, 4), counts[B], of_set[N] = {0}, rows[B];
  uint32_t *sets_ = up(sets, N * K * 4), *of_set_ = up(of_set, sizeof of_set);
  uint32_t *got_ = blank(B * K * 4), *counts_ = blank(sizeof counts);
  fopo_candidate_sets cache = {K, sets, NULL, of_set}, cache_ = {K, sets_, NULL, of_set_};
  for (uint32_t turn = 0; turn < 3; turn++) {
    for (uint32_t b = 0; b < B; b++) rows[b] = (b * 7 + turn * 3) % N, counts[b] = b * 40 + turn;
    for (uint32_t i = 0; i < B * K; i++) ids[i] = i * 7919 + turn;
    const uint32_t *rows_ = up(rows, sizeof rows);
    ok(cpu->ops->store_sets(cpu, &cache, &(fopo_candidate_sets){K, ids, NULL, counts}, rows, B));
    ok(gpu->ops->store_sets(
        gpu, &cache_,
        &(fopo_candidate_sets){K, up(ids, B * K * 4), NULL, up(counts, sizeof counts)}, rows_, B));
    ok(gpu->ops->load_sets(gpu, &(fopo_candidate_sets){K, got_, NULL, counts_}, &cache_, rows_, B));
    assert_same(got_, ids, B * K * 4, "the sets of a batch");
    assert_same(counts_, counts, sizeof counts, "their counts");
  }
  assert_same(sets_, sets, N * K * 4, "the sets");
  assert_same(of_set_, of_set, sizeof of_set, "the counts");
  forget();
  free(ids), free(sets);
}

TEST(test_stats) {
  enum { B = 300, K = 9 };
  float *stats = normals(B * FOPO_STATS, 1, 3), *stats_ = up(stats, B * FOPO_STATS * 4);
  uint32_t counts[B];
  for (uint32_t b = 0; b < B; b++) counts[b] = b % (K + 1);
  uint32_t *counts_ = up(counts, sizeof counts);
  fopo_statistics wanted, got, *sums_ = blank(sizeof wanted);
  const size_t with_candidates[] = {B, 40, 0};
  for (size_t i = 0; i < 3; i++) {
    for (int again = 0; again < 2; again++) {
      size_t n = again ? 33 : B,
             n_with_candidates = with_candidates[i] < n ? with_candidates[i] : n;
      fopo_candidate_sets sets = {K, NULL, NULL, counts}, sets_ = {K, NULL, NULL, counts_};
      fopo_device_batch part = {.B = n, .with_candidates = n_with_candidates};
      ok(cpu->ops->add_stats(cpu, &wanted, stats, &sets, !again, &part));
      ok(gpu->ops->add_stats(gpu, sums_, stats_, &sets_, !again, &part));
    }
    down(&got, sums_, sizeof got);
    assert_true(fabs(got.reward - wanted.reward) < 1e-10 && fabs(got.ess - wanted.ess) < 1e-10);
    assert_true(fabs(got.head_mass - wanted.head_mass) < 1e-10);
    assert_true(got.max_weight == wanted.max_weight &&
                got.n_with_candidates == wanted.n_with_candidates);
    assert_true(got.short_rows == wanted.short_rows && got.contexts == wanted.contexts);
    assert_true(got.contexts == B + 33 && got.norm == 0 && got.steps == 0);
  }
  forget();
  free(stats);
}

/* The ratio of a batch in terms of its own sums; and of one whose weights are all 0. */
TEST(test_ratio) {
  enum { N = 500, B = 300, L = 300 };
  const float shift = -1.5f;
  for (int none = 0; none < 2; none++) {
    FREED(free) float *V = normals(B * L, 1, 3), *gain = normals(N, 0.3f, 4);
    FREED(free) float *stats = normals(B * FOPO_STATS, 1, 5), *was = room(B * L, sizeof *was);
    uint32_t rows[B];
    double W = 0, earned = 0;
    for (uint32_t b = 0; b < B; b++) {
      float *w = stats + b * FOPO_STATS + FOPO_STAT_REWARD;
      rows[b] = (7 * b + 3) % N;
      *w = none ? 0 : fabsf(*w);
      W += (double)*w / ((double)gain[rows[b]] - (double)shift);
      earned += (double)*w / ((double)gain[rows[b]] - (double)shift) * (double)gain[rows[b]];
    }
    memcpy(was, V, B * L * sizeof *V);
    float *V_ = up(V, B * L * 4), *stats_ = up(stats, B * FOPO_STATS * 4);
    fopo_credit credit = {.gain = gain}, credit_ = {.gain = up(gain, N * 4)};
    ok(cpu->ops->take_ratio(cpu, fopo_matrix_view(V, B, L), stats, &credit, shift, rows));
    ok(gpu->ops->take_ratio(gpu, fopo_matrix_view(V_, B, L), stats_, &credit_, shift,
                            up(rows, sizeof rows)));
    assert_close(V_, V, B * L, 1e-6, 1, "V of the ratio");
    assert_close(stats_, stats, B * FOPO_STATS, 1e-6, 1, "its statistics");
    double rho = none ? 0 : earned / W;
    for (size_t b = 0; b < B; b++) {
      double r = (double)gain[rows[b]];
      double factor = none ? 0 : B * (r - rho) / (r - (double)shift) / W;
      assert_true(fabs((double)stats[b * FOPO_STATS + FOPO_STAT_REWARD] - rho) < 1e-5);
      assert_true(fabs((double)V[b * L + 7] - factor * (double)was[b * L + 7]) < 1e-4);
    }
    forget();
  }
}

/* After a gradient that is not finite the totals and the parameters no longer change. */
static void check_totals(size_t n) {
  fopo_statistics sums = {.reward = 3,
                          .ess = 30,
                          .max_weight = 0.5,
                          .head_mass = 1.5,
                          .n_with_candidates = 3,
                          .short_rows = 1,
                          .contexts = 3},
                  *sums_ = up(&sums, sizeof sums);
  fopo_totals got = {.record = {.reward = 7, .steps = 2}}, *tally_ = up(&got, sizeof got);
  float *G = normals(n, 1, 5), *G_ = up(G, n * 4);
  float *theta_ = blank(12), *m_ = blank(12), *v_ = blank(12);
  double norm;
  ok(cpu->ops->norm2(cpu, &norm, G, n));
  for (int step = 0; step < 5; step++) {
    float theta[3], before[3], bad = INFINITY;
    fopo_update u = {.lr = 0.1, .totals = tally_};
    fopo_adam adam = {u, 0.9, 0.999, 1e-8, (uint64_t)step + 1};
    fopo_sgd sgd = {u, 0};
    fopo_adagrad adagrad = {u, 1e-10};
    if (step == 3) ok(gpu->ops->put(gpu, G_ + n - 1, &bad, 4));
    if (step == 4) ok(gpu->ops->put(gpu, G_ + n - 1, G + n - 1, 4)); /* it stays broken */
    down(before, theta_, 12);
    ok(gpu->ops->totals(gpu, tally_, sums_, G_, n));
    ok(gpu->ops->adam(gpu, &(fopo_parameters){theta_, m_, v_, NULL, 1}, G_, &adam));
    ok(gpu->ops->sgd(gpu, &(fopo_parameters){theta_ + 1, m_ + 1, NULL, NULL, 1}, G_, &sgd));
    ok(gpu->ops->adagrad(gpu, &(fopo_parameters){theta_ + 2, NULL, v_ + 2, NULL, 1}, G_, &adagrad));
    down(theta, theta_, 12);
    for (int i = 0; i < 3; i++) assert_int_equal(theta[i] != before[i], step < 3);
  }
  down(&got, tally_, sizeof got);
  const fopo_statistics *slice = &got.slice;
  assert_true(slice->steps == 3 && got.broken == 1);
  assert_true(fabs(slice->norm - 3 * sqrt(norm)) < 1e-9 * norm);
  assert_true(slice->reward == 9 && slice->ess == 90 && slice->max_weight == 1.5);
  assert_true(slice->head_mass == 4.5 && slice->n_with_candidates == 9 && slice->short_rows == 3);
  assert_true(slice->contexts == 9);
  /* the record continues from the slice before */
  assert_true(got.record.reward == 16 && got.record.steps == 5 && got.record.norm == slice->norm);
  forget();
  free(G);
}

/* Of a gradient whose squares one block adds up, and of a longer one. */
TEST(test_totals) {
  check_totals(10000);
  check_totals(40000);
}

TEST(test_clock) {
  double seconds = -1;
  float *x = blank(1 << 20);
  ok(gpu->ops->start_clock(gpu));
  for (int i = 0; i < 20; i++) ok(gpu->ops->clear(gpu, x, 1 << 18));
  ok(gpu->ops->stop_clock(gpu, &seconds));
  assert_true(seconds > 0 && seconds < 10);
  forget();
}

/* The table that a device leaves: more pieces of work than there are events, counted by name. */
TEST(test_profile) {
  char path[] = "/tmp/fopo_profile_XXXXXX", text[4096] = "", expected[64];
  int file = mkstemp(path);
  assert_true(file >= 0);
  setenv("FOPO_GPU_PROFILE", path, 1);
  fopo_device *other = NULL;
  ok(fopo_device_open(&other, "cuda"));
  float *x = NULL, word = 1;
  enum { times = 2500 };
  ok(other->ops->alloc(other, (void **)&x, 4 * sizeof *x));
  for (int i = 0; i < times; i++) ok(other->ops->put(other, x, &word, sizeof word));
  assert_int_equal(other->ops->start_recording(other), FOPO_ERR_UNAVAILABLE);
  fopo_device_close(other);
  assert_true(read(file, text, sizeof text - 1) > 0);
  snprintf(expected, sizeof expected, "%-36s %9d ", "copies to the GPU", times + 1);
  assert_non_null(strstr(text, expected)); /* and one of the first work of a device */
  assert_non_null(strstr(text, "a first kernel"));
  close(file);
  unlink(path);

  setenv("FOPO_GPU_PROFILE", "/nowhere/profile", 1);
  assert_int_equal(fopo_device_open(&other, "cuda"), FOPO_ERR_FILE);
  assert_non_null(strstr(fopo_error_sentence(), "/nowhere/profile"));
  unsetenv("FOPO_GPU_PROFILE");
}

/* Puts more than the ring holds without waiting. */
TEST(test_ring) {
  enum { n = 20000, times = 30 };
  uint32_t *x = room(n, 4), *there[times];
  for (uint32_t i = 0; i < times; i++) there[i] = blank(n * 4);
  for (uint32_t i = 0; i < times; i++) {
    for (uint32_t j = 0; j < n; j++) x[j] = i * n + j;
    ok(gpu->ops->put(gpu, there[i], x, n * 4));
  }
  for (uint32_t i = 0; i < times; i++) {
    for (uint32_t j = 0; j < n; j++) x[j] = i * n + j;
    assert_same(there[i], x, n * 4, "what was put");
  }
  forget();
  free(x);
}

/* ---- rewards ---- */

TEST(test_rewards) {
  enum { P = 3000, B = 4, S = 301, N = 5, R = 12 };
  const uint64_t indptr[N + 1] = {0, 0, 1, 11, 900, 1000};
  uint32_t *y = room(1000, 4), *ids = room(B * S, 4), rows[B] = {3, 0, 2, 1};
  for (uint32_t row = 0; row < N; row++) {
    for (uint64_t i = indptr[row]; i < indptr[row + 1]; i++) {
      y[i] = (uint32_t)(3 * (i - indptr[row]) + row);
    }
  }
  for (size_t i = 0; i < B * S; i++) ids[i] = (uint32_t)(i * 7919 % (i % 3 ? P : 40));
  float r[B * S], *r_ = blank(sizeof r), weight[N] = {1, 2, 0.5f, 4, 0}, gain[N] = {1, 0, 1, 3, 1};
  uint32_t *ids_ = up(ids, B * S * 4), *rows_ = up(rows, sizeof rows);
  fopo_samples samples = {ids, NULL, r}, samples_ = {ids_, NULL, r_};
  fopo_device_batch host = {.B = B, .S = S, .P = P, .rows = rows}, card = host;
  card.rows = rows_;
  fopo_csr Y = {N, P, room(N + 1, 8), y, NULL},
           Y_ = {N, P, up(indptr, sizeof indptr), up(y, 4000), NULL};
  memcpy(Y.indptr, indptr, sizeof indptr);
  FREED(free) float *value = room(P, 4);
  for (size_t a = 0; a < P; a++) value[a] = (float)(a % 7) * 0.3f;
  ok(cpu->ops->reward_hits(cpu, &samples, &Y, value, &host));
  ok(gpu->ops->reward_hits(gpu, &samples_, &Y_, up(value, P * 4), &card));
  assert_same(r_, r, sizeof r, "values of hits");
  ok(cpu->ops->reward_hits(cpu, &samples, &Y, NULL, &host));
  ok(gpu->ops->reward_hits(gpu, &samples_, &Y_, NULL, &card));
  assert_same(r_, r, sizeof r, "hits");

  float *users = normals(N * R, 1, 5), *items = normals(P * R, 1, 6);
  for (int logistic = 0; logistic < 2; logistic++) {
    fopo_low_rank m = {users, items, R, logistic};
    fopo_low_rank m_ = {up(users, N * R * 4), up(items, P * R * 4), R, logistic};
    ok(cpu->ops->reward_model(cpu, &samples, &m, &host));
    ok(gpu->ops->reward_model(gpu, &samples_, &m_, &card));
    assert_close(r_, r, B * S, 2e-6, 1, "the model's reward");
  }
  const uint32_t action[N] = {5, 39, 7, 0, 2};
  fopo_credit c = {action, weight, gain, 0.25f};
  fopo_credit c_ = {up(action, sizeof action), up(weight, sizeof weight), up(gain, sizeof gain),
                    0.25f};
  ok(gpu->ops->put(gpu, r_, r, sizeof r));
  for (int add = 1; add >= 0; add--) {
    ok(cpu->ops->reward_credit(cpu, &samples, &c, add, &host));
    ok(gpu->ops->reward_credit(gpu, &samples_, &c_, add, &card));
    assert_close(r_, r, B * S, 1e-7, 0, "logged rewards");
  }
  forget();
  free(Y.indptr), free(y), free(ids), free(users), free(items);
}

/* ---- draws ---- */

TEST(test_draw_uniform) {
  enum { B = 3, S = 1001 };
  const uint32_t rows[B] = {5, 1000000, 0};
  const size_t sizes[] = {1, 2, 790000, 4294967294u, 3000000000u}; /* the last ones redraw often */
  uint32_t ids[B * S], *ids_ = blank(sizeof ids), *rows_ = up(rows, sizeof rows);
  float logq[B * S], *logq_ = blank(sizeof logq);
  for (size_t k = 0; k < 5; k++) {
    fopo_draw_key key = {99 + ((uint64_t)k << 40), 12};
    fopo_device_batch host = {.B = B, .S = S, .P = sizes[k], .rows = rows, .key = key}, card = host;
    card.rows = rows_;
    ok(cpu->ops->draw_uniform(cpu, &(fopo_samples){ids, logq, NULL}, &host));
    ok(gpu->ops->draw_uniform(gpu, &(fopo_samples){ids_, logq_, NULL}, &card));
    assert_same(ids_, ids, sizeof ids, "uniform ids");
    assert_same(logq_, logq, sizeof logq, "uniform densities");
  }
  forget();
}

/* Candidates of three contexts: all k, some, none. */
typedef struct {
  size_t P;
  fopo_candidate_sets sets;
} heads;

static heads heads_of(size_t k, size_t P) {
  heads h = {P, {k, room(3 * k, 4), normals(3 * k, 2, 17), room(3, 4)}};
  h.sets.counts[0] = (uint32_t)k;
  h.sets.counts[1] = (uint32_t)(k + 1) / 2;
  for (size_t i = 0; i < 3 * k; i++) {
    h.sets.ids[i] = (uint32_t)((i % k * 7919 + i / k) % P); /* 7919 divides no P: all differ */
    h.sets.scores[i] += 1000;
    if (i % k >= h.sets.counts[i / k]) h.sets.scores[i] = 1e30f; /* is nobody's */
  }
  return h;
}

static fopo_candidate_sets heads_up(const heads *h) {
  size_t k = h->sets.k;
  return (fopo_candidate_sets){k, up(h->sets.ids, 3 * k * 4), up(h->sets.scores, 3 * k * 4),
                               up(h->sets.counts, 3 * 4)};
}

static void heads_done(heads *h) {
  forget();
  free(h->sets.ids);
  free(h->sets.scores);
  free(h->sets.counts);
}

/* If a draw from the candidates falls within rounding of the border between two, its id may be the
 * neighbour's: at most one draw in 10^4. All others equal the CPU's. */
static void check_mixture(const heads *h, double epsilon, int stratified, size_t S) {
  enum { B = 3 };
  const uint32_t rows[B] = {4, 9, 2};
  uint32_t *ids = room(B * S, 4), *got = room(B * S, 4), *ids_ = blank(B * S * 4);
  float *logq = room(B * S, 4), *dense = room(B * S, 4), *logq_ = blank(B * S * 4);
  fopo_mixture m = {h->sets, epsilon, stratified}, m_ = {heads_up(h), epsilon, stratified};
  fopo_samples samples = {ids, logq, NULL}, samples_ = {ids_, logq_, NULL};
  uint32_t *rows_ = up(rows, sizeof rows);
  size_t other = 0, steps = 4;
  for (uint32_t step = 0; step < steps; step++) {
    fopo_draw_key key = {1234, step};
    fopo_device_batch host = {.B = B, .S = S, .P = h->P, .rows = rows, .key = key}, card = host;
    card.rows = rows_;
    ok(cpu->ops->draw_mixture(cpu, &samples, &m, &host));
    ok(gpu->ops->draw_mixture(gpu, &samples_, &m_, &card));
    down(got, ids_, B * S * 4);
    down(dense, logq_, B * S * 4);
    float floor = (float)log(epsilon / (double)h->P);
    for (size_t i = 0; i < B * S; i++) {
      if (got[i] != ids[i]) {
        assert_true(logq[i] > floor && dense[i] > floor); /* both are candidates */
        other++;
      } else {
        assert_true(fabs((double)dense[i] - (double)logq[i]) <= 2e-6 * (1 + fabs((double)logq[i])));
        assert_true((dense[i] > floor) == (logq[i] > floor));
      }
    }
  }
  if ((double)other > 1e-4 * (double)(steps * B * S) + 2) {
    fail_msg("%zu of %zu draws are other candidates", other, steps * B * S);
  }
  free(ids), free(got), free(logq), free(dense);
}

TEST(test_mixture) {
  const size_t k[] = {1, 8, 256, 5000};
  const double epsilons[] = {0, 0.25, 0.8, 1};
  for (int processors = 1; processors < processors_end(); processors += 69) {
    cut_for(processors);
    for (size_t i = 0; i < 4; i++) {
      DONE(heads_done) heads h = heads_of(k[i], 20011);
      for (size_t e = 0; e < 4; e++) {
        check_mixture(&h, epsilons[e], 0, 1111);
        check_mixture(&h, epsilons[e], 1, 501);
        forget();
      }
    }
  }
  cut_for(4);
}

TEST(test_tail) {
  enum { B = 3 };
  const size_t k[] = {1, 8, 700, 7000}, more[] = {1, 30, 1000};
  const uint32_t rows[B] = {4, 9, 2};
  for (size_t i = 0; i < 4 * 3; i++) {
    DONE(heads_done) heads h = heads_of(k[i / 3], i / 3 == 1 ? 50 : 20011);
    size_t S = k[i / 3] + more[i % 3] < h.P ? k[i / 3] + more[i % 3] : h.P;
    uint32_t *ids = room(B * S, 4), *ids_ = blank(B * S * 4);
    float *logq = room(B * S, 4), *logq_ = blank(B * S * 4);
    fopo_draw_key key = {77, (uint32_t)i};
    fopo_device_batch host = {.B = B, .S = S, .P = h.P, .rows = rows, .key = key}, card = host;
    fopo_candidate_sets head_ = heads_up(&h);
    card.rows = up(rows, sizeof rows);
    ok(cpu->ops->draw_tail(cpu, &(fopo_samples){ids, logq, NULL}, &h.sets, &host));
    ok(gpu->ops->draw_tail(gpu, &(fopo_samples){ids_, logq_, NULL}, &head_, &card));
    assert_same(ids_, ids, B * S * 4, "the tail's ids");
    assert_close(logq_, logq, B * S, 1e-7, 0, "the tail's densities");
    free(ids), free(logq);
  }
}

/* An id may be a neighbour's by rounding: fewer than one draw in 2,000. */
static void check_policy(size_t B, size_t P, size_t L, size_t S, int mean) {
  DONE(batch_free) batch x = batch_new(B, S, P, L, 1, FOPO_FLOAT32);
  batch_up(&x);
  uint32_t *ids = room(B * S, 4), *got = room(B * S, 4), *ids_ = blank(B * S * 4);
  float *means = room(B * L, 4), *log_z = room(B, 4), *means_ = blank(B * L * 4);
  float *log_z_ = blank(B * 4);
  fopo_draw_key key = {31, (uint32_t)P};
  fopo_device_batch host = on_host(&x);
  host.key = key;
  ok(cpu->ops->draw_policy(cpu, &(fopo_samples){.ids = ids},
                           &(fopo_policy_sums){mean ? means : NULL, log_z, 0, NULL, 0},
                           items_on_host(&x), &host));
  ok(gpu_policy(ids_, mean ? means_ : NULL, mean ? log_z_ : NULL, &x, key));
  down(got, ids_, B * S * 4);
  size_t other = 0;
  for (size_t i = 0; i < B * S; i++) {
    assert_true(got[i] < P);
    other += got[i] != ids[i];
  }
  if (other > 1 + B * S / 2000) fail_msg("%zu of %zu draws of the policy differ", other, B * S);
  if (mean) assert_close(means_, means, B * L, 1e-5, 0.1, "the policy's mean");
  if (mean) assert_close(log_z_, log_z, B, 1e-6, 1, "log Z");
  free(ids), free(got), free(means), free(log_z);
}

TEST(test_policy) {
  check_policy(3, 1, 3, 50, 1);
  check_policy(2, 40, 1, 99, 0);
  check_policy(3, 3000, 17, 500, 1);
  check_policy(1, 70001, 4, 300, 1); /* more than one tile and piece */
  check_policy(40, 256, 8, 7, 1);
}

/* A peaked policy draws its best item at any position, also with scores of +-1e4; a flat one before
 * it in the batch minds nothing. */
TEST(test_policy_peaked) {
  enum { P = 5000, S = 70 };
  const uint32_t places[] = {0, 63, 255, 256, 4095, 4999}, row[] = {8, 3};
  const float q[] = {1, 1e4f};
  float *items = room(P, 4), mean[2], log_z[2], *q_ = up(q, sizeof q), *mean_ = blank(sizeof mean);
  float *log_z_ = blank(sizeof log_z), flat = logf(expf(1) + (P - 1) * expf(-1));
  uint32_t ids[2 * S], *ids_ = blank(sizeof ids), *row_ = up(row, sizeof row);
  float *items_ = blank(P * 4);
  fopo_draw_key key = {3, 3};
  for (size_t k = 0; k < 6; k++) {
    for (size_t a = 0; a < P; a++) items[a] = a == places[k] ? 1.0f : -1.0f;
    ok(gpu->ops->put(gpu, items_, items, P * 4));
    ok(gpu->ops->draw_policy(
        gpu, &(fopo_samples){.ids = ids_}, &(fopo_policy_sums){mean_, log_z_, 0, NULL, 0},
        fopo_matrix_view(items_, P, 1),
        &(fopo_device_batch){.B = 2, .S = S, .P = P, .L = 1, .rows = row_, .Q = q_, .key = key}));
    down(ids, ids_, sizeof ids);
    down(mean, mean_, sizeof mean);
    down(log_z, log_z_, sizeof log_z);
    for (size_t s = 0; s < S; s++) assert_true(ids[s] < P && ids[S + s] == places[k]);
    assert_true(mean[1] == 1.0f && log_z[1] == 1e4f && fabsf(log_z[0] - flat) < 1e-4f);
  }
  free(items);
  forget();
}

/* A card with little memory takes fewer contexts at once and draws the same. */
TEST(test_policy_small_card) {
  enum { B = 20, P = 4000, L = 3, S = 30 };
  const size_t workspace = (size_t)4 << 20; /* cuBLAS's */
  if (emulation_memory == NULL) return;
  DONE(batch_free) batch x = batch_new(B, S, P, L, 0, FOPO_FLOAT32);
  uint32_t wide[B * S], narrow[B * S];
  fopo_draw_key key = {5, 5};
  for (int small = 0; small < 2; small++) {
    cut_for(4); /* a fresh device: its scratch is empty */
    batch_up(&x);
    uint32_t *ids_ = blank(sizeof wide);
    emulation_memory(small ? ((size_t)300 << 10) + workspace : (size_t)2 << 30);
    ok(gpu_policy(ids_, NULL, NULL, &x, key));
    emulation_memory((size_t)2 << 30);
    down(small ? narrow : wide, ids_, sizeof wide);
    forget();
  }
  assert_memory_equal(wide, narrow, sizeof wide);
  emulation_memory(((size_t)50 << 10) + workspace);
  float *items_ = NULL;
  refused(gpu->ops->share(gpu, (void **)(void *)&items_, x.items.x, (size_t)P * L * 8),
          FOPO_ERR_MEMORY, "the GPU has too little memory");
  emulation_memory((size_t)2 << 30);
}

TEST(test_interrupted) {
  DONE(batch_free) batch x = batch_new(2, 10, 3000, 5, 0, FOPO_FLOAT32);
  batch_up(&x);
  fopo_draw_key key = {1, 1};
  fopo_interrupt_request();
  refused(gpu_policy(x.ids_, NULL, NULL, &x, key), FOPO_ERR_INTERRUPTED, "interrupted");
  fopo_interrupt_clear();
  ok(gpu_policy(x.ids_, NULL, NULL, &x, key));
}

/* The search against scoring and sorting on the host: the same items, except among those within
 * rounding of the last. */
typedef struct {
  float score;
  uint32_t id;
} scored;

static int by_score(const void *a, const void *b) {
  const scored *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* A catalogue on both sides, in the order of its norms if it is ordered. */
typedef struct {
  batch x;
  size_t k;
  int screened;   /* it has a bfloat16 copy */
  scored *places; /* [P] by norm; score: the norm */
  fopo_catalogue c;
} shelf;

static shelf shelf_new(size_t B, size_t P, size_t L, size_t k) {
  shelf s = {.x = batch_new(B, 2, P, L, 1, FOPO_FLOAT32), .k = k};
  s.places = room(P, sizeof *s.places);
  return s;
}

static void shelf_free(shelf *s) {
  free(s->places);
  batch_free(&s->x);
}

static float dot(const shelf *s, uint32_t a, const float *q) {
  float sum = 0;
  for (size_t i = 0; i < s->x.L; i++) sum += s->x.items.x[a * s->x.items.rows.ld + i] * q[i];
  return sum;
}

static float length(const shelf *s, uint32_t a) {
  double sum = 0;
  for (size_t i = 0; i < s->x.L; i++) {
    double v = (double)s->x.items.x[a * s->x.items.rows.ld + i];
    sum += v * v;
  }
  return nextafterf((float)sqrt(sum), INFINITY);
}

/* Copies the catalogue to the card: ordered by norm, with packed rows, or as it is. */
static void shelf_up(shelf *s, int ordered, size_t n_with_candidates, size_t limit) {
  size_t P = s->x.P, L = s->x.L;
  FREED(free) uint32_t *order = room(P, 4);
  FREED(free) float *norms = room(P, 4), *head = room(n_with_candidates * L, 4);
  batch_up(&s->x);
  for (uint32_t a = 0; a < P; a++) s->places[a] = (scored){ordered ? length(s, a) : 0, a};
  if (ordered) qsort(s->places, P, sizeof *s->places, by_score);
  for (size_t i = 0; i < P; i++) {
    order[i] = s->places[i].id;
    norms[i] = s->places[i].score;
    const float *row = s->x.items.x + order[i] * s->x.items.rows.ld;
    if (i < n_with_candidates) memcpy(head + i * L, row, L * 4);
  }
  s->c = (fopo_catalogue){.items = s->x.items_.x, .P = P, .ld = s->x.items.rows.ld, .limit = limit};
  if (ordered) {
    s->c.order = up(order, P * 4);
    s->c.norms = up(norms, P * 4);
    s->c.packed = up(head, n_with_candidates * L * 4);
    s->c.packed_rows = n_with_candidates;
  }
  if (ordered && s->screened) {
    fopo_matrix items = {(float *)s->c.items, P, L, s->c.ld};
    ok(gpu->ops->round_items(gpu, &s->c.half, items, s->c.order));
    sent[n_sent++] = (void *)s->c.half.x; /* forget() releases it */
  }
}

/* exact: all sums are integers, so the ids must be equal too. */
static void check_answer(const shelf *s, const uint32_t *ids, const float *scores, size_t b,
                         int exact) {
  size_t limit = s->c.limit, found = s->k < limit ? s->k : limit, n = 0;
  scored *all = room(limit, sizeof *all);
  uint8_t *seen = room(s->x.P, 1);
  /* sort only the scores near the best k */
  float least = scores[found - 1] - 1e-3f * (1 + fabsf(scores[found - 1]));
  for (size_t i = 0; i < limit; i++) {
    uint32_t a = s->places[i].id;
    float score = dot(s, a, s->x.Q + b * s->x.L);
    if (score >= least) all[n++] = (scored){score, a};
  }
  assert_true(n >= found);
  qsort(all, n, sizeof *all, by_score);
  for (size_t i = 0; i < found; i++) {
    double wanted = (double)all[i].score, got = (double)scores[i];
    assert_true(ids[i] < s->x.P && !seen[ids[i]]++);
    assert_true(fabs(got - wanted) <= 1e-5 * (1 + fabs(wanted)));
    if (exact) assert_int_equal(ids[i], all[i].id);
  }
  for (size_t i = found; i < s->k; i++) {
    assert_true(ids[i] == UINT32_MAX && isinf(scores[i]) && scores[i] < 0);
  }
  free(all), free(seen);
}

/* Returns the number of CUDA calls, on the emulation. */
static long check_topk(shelf *s, int exact) {
  size_t B = s->x.B, k = s->k;
  uint32_t *ids = room(B * k, 4), *counts = room(B, 4), *ids_ = blank(B * k * 4);
  uint32_t *counts_ = blank(B * 4);
  float *scores = room(B * k, 4), *scores_ = blank(B * k * 4);
  fopo_candidate_sets sets = {k, ids_, scores_, counts_};
  fopo_device_batch card = on_gpu(&s->x);
  long before = emulation_calls != NULL ? emulation_calls() : 0;
  ok(gpu->ops->topk(gpu, &sets, &s->c, &card));
  long calls = emulation_calls != NULL ? emulation_calls() - before : 0;
  down(ids, ids_, B * k * 4);
  down(scores, scores_, B * k * 4);
  down(counts, counts_, B * 4);
  for (size_t b = 0; b < B; b += 1 + B / 20) {
    assert_int_equal(counts[b], k < s->c.limit ? k : s->c.limit);
    check_answer(s, ids + b * k, scores + b * k, b, exact);
  }
  free(ids), free(counts), free(scores);
  return calls;
}

/* Small integers: many equal scores, and no rounding. */
static void make_integers(shelf *s) {
  for (size_t i = 0; i < s->x.P * s->x.items.rows.ld; i++) s->x.items.x[i] = (float)(i % 3) - 1;
  for (size_t i = 0; i < s->x.B * s->x.L; i++) s->x.Q[i] = (float)(i % 2 + 1);
}

TEST(test_topk) {
  const size_t shapes[][4] = {{2, 1, 3, 1},      {3, 100, 5, 100},
                              {2, 5000, 7, 300}, {2, 9000, 7, 2048},
                              {1, 40000, 4, 20}, {70, 300, 2, 17}}; /* B, P, L, k */
  for (int processors = 1; processors < processors_end(); processors += 69) {
    cut_for(processors);
    for (size_t i = 0; i < 6; i++) {
      const size_t *n = shapes[i];
      DONE(shelf_free) shelf s = shelf_new(n[0], n[1], n[2], n[3]);
      if (i == 2) make_integers(&s);
      shelf_up(&s, 0, 0, n[1]);
      check_topk(&s, i == 2);
    }
  }
  cut_for(4);
}

/* The worst orders, for tiles of 512, 1,664 and then 4,096 items on the emulation: every score
 * above all before it; and a few of the best, not yet sorted when a tile passes more than fits. */
TEST(test_topk_rising) {
  enum { SECOND = 512 + 1664, TILE = 4096, P = SECOND + 3 * TILE };
  for (int few = 0; few < 2; few++) {
    DONE(shelf_free) shelf s = shelf_new(2, P, 1, 256);
    for (size_t a = 0; a < P; a++) {
      size_t tile = a < SECOND ? 0 : 1 + (a - SECOND) / TILE;
      float best = tile == 0 ? (float)(a % 700) : tile == 3 ? (float)(1000 + a) : 0;
      if (tile == 2 && a % 41 == 0) best = (float)(50000 + a);
      s.x.items.x[a * s.x.items.rows.ld] = few ? best : (float)(a / 2);
    }
    s.x.Q[0] = 1, s.x.Q[1] = -1;
    shelf_up(&s, 0, 0, P);
    check_topk(&s, 1);
  }
}

/* Only a prefix of the order is searched, whether its rows are packed, gathered or both. */
TEST(test_topk_prefix) {
  enum { P = 9000, L = 8 };
  const size_t limits[] = {1, 30, 700, 5000, 8999, P}, packed[] = {0, 5, 900, P};
  for (size_t i = 0; i < 6 * 4; i++) {
    DONE(shelf_free) shelf s = shelf_new(3, P, L, 64);
    int exact = i % 3 == 0;
    if (exact) make_integers(&s);
    shelf_up(&s, 1, packed[i % 4], limits[i / 4]);
    check_topk(&s, exact);
  }
}

/* If any call fails, the search fails with a sentence, and the next search is right. */
static void fail_topk(shelf *s, long calls) {
  size_t n = s->x.B * s->k * 4;
  uint32_t *ids_ = blank(n), *counts_ = blank(s->x.B * 4);
  float *scores_ = blank(n);
  fopo_candidate_sets sets = {s->k, ids_, scores_, counts_};
  fopo_device_batch card = on_gpu(&s->x);
  for (long i = 0; i < calls; i += 5) {
    emulation_fail_at(i, 2, 0);
    refused(gpu->ops->topk(gpu, &sets, &s->c, &card), FOPO_ERR_MEMORY,
            "the GPU has too little memory");
    emulation_fail_at(-1, 0, 0);
  }
  check_topk(s, 0);
}

/* The first pass in bfloat16 loses no item: neither with equal scores, nor if scores differ by less
 * than its rounding, nor if more pass than fit. */
TEST(test_topk_screened) {
  const size_t shapes[][4] = {{20, 9000, 48, 256},
                              {3, 9000, 7, 2048},
                              {2, 9000, 100, 1},
                              {3, 9000, 8, 300},
                              {3, 9000, 8, 300}};
  for (size_t i = 0; i < 5; i++) {
    const size_t *n = shapes[i];
    DONE(shelf_free) shelf s = shelf_new(n[0], n[1], n[2], n[3]);
    s.screened = 1;
    if (i == 3) make_integers(&s);
    /* equal in bfloat16, different in float32, and later items score higher: below the
     * thresholds by less than its rounding */
    for (size_t a = 0; i == 4 && a < n[1]; a++) {
      float *row = s.x.items.x + a * s.x.items.rows.ld;
      for (size_t j = 0; j < n[2]; j++) row[j] = 1.004f + (float)(a * 7919 % 9000) * 0x1p-23f;
    }
    for (size_t j = 0; i == 4 && j < n[0] * n[2]; j++) s.x.Q[j] = -fabsf(s.x.Q[j]);
    shelf_up(&s, 1, 900, i == 0 ? 7000 : n[1]);
    check_topk(&s, i == 3);
  }
}

/* If the norms fall fast, the search ends early with the same answer; a query of 0 needs none. */
TEST(test_topk_stops) {
  enum { P = 30000 };
  size_t B = emulation_calls != NULL ? 40 : 500, L = emulation_calls != NULL ? 16 : 48;
  /* large enough for the early-exit test */
  DONE(shelf_free) shelf s = shelf_new(B, P, L, 10);
  for (size_t a = 0; a < P; a++) {
    float *row = s.x.items.x + a * s.x.items.rows.ld, scale = 1.0f / (float)(1 + a * 7919 % P);
    for (size_t i = 0; i < L; i++) row[i] *= scale;
  }
  shelf_up(&s, 1, 3000, P);
  long stopped = check_topk(&s, 0);
  const float *norms = s.c.norms;
  s.c.norms = NULL;
  long whole = check_topk(&s, 0);
  if (emulation_calls != NULL && stopped >= whole) {
    fail_msg("%ld calls, %ld for all", stopped, whole);
  }
  s.c.norms = norms;
  memset(s.x.Q, 0, 2 * L * 4);
  ok(gpu->ops->put(gpu, s.x.Q_, s.x.Q, B * L * 4));
  long zeros = check_topk(&s, 0);
  if (emulation_calls != NULL && zeros > stopped) fail_msg("%ld calls, %ld before", zeros, stopped);
  if (emulation_calls != NULL) fail_topk(&s, zeros);
  shelf_free(&s);

  s = shelf_new(B, P, L, 10); /* norms that never end a search early */
  shelf_up(&s, 1, 3000, P);
  check_topk(&s, 0);
}

/* Catalogues in the order of their norms, one whole search by one kernel: two groups of queries,
 * one of which needs none; every prefix; scores that rise in the order, so that nothing fits. */
TEST(test_topk_by_norm) {
  const size_t shapes[][5] = {{70, 3000, 20, 33, 3000},
                              {66, 700, 5, 10, 300},
                              {2, 1300, 3, 64, 129},
                              {1, 600, 130, 600, 600},
                              {3, 200, 8, 7, 1}}; /* B, P, L, k, limit */
  for (int processors = 1; processors < processors_end(); processors += 69) {
    cut_for(processors);
    for (size_t i = 0; i < 5; i++) {
      const size_t *n = shapes[i];
      DONE(shelf_free) shelf s = shelf_new(n[0], n[1], n[2], n[3]);
      s.screened = 1;
      if (i == 1) make_integers(&s);
      for (size_t j = 0; i == 0 && j < 64 * n[2]; j++) s.x.Q[j] = 0;
      shelf_up(&s, 1, 0, n[4]);
      check_topk(&s, i == 1);
    }
  }
  cut_for(4);
}

/* Items nearly as long as each other, whose scores rise as their norms fall: more keys pass than
 * fit in every stretch but the first. */
TEST(test_topk_rising_norms) {
  enum { P = 22003, B = 3 };
  DONE(shelf_free) shelf s = shelf_new(B, P, 2, 300);
  s.screened = 1;
  for (size_t a = 0; a < P; a++) {
    double share = (double)(a * 7919 % P) / P, length = 2 - share * 0.125, c = 2 * share - 1;
    s.x.items.x[a * s.x.items.rows.ld] = (float)(length * c);
    s.x.items.x[a * s.x.items.rows.ld + 1] = (float)(length * sqrt(1 - c * c));
  }
  for (size_t j = 0; j < 2 * B; j++) s.x.Q[j] = j % 2 == 0 ? 1 + (float)j : 0.01f;
  shelf_up(&s, 1, 0, P);
  check_topk(&s, 0);
}

/* The search ends on the card: items that cannot matter by their norms are not seen. Those behind
 * place 6,000 would beat all others if they were. */
TEST(test_topk_stops_alone) {
  enum { P = 9000, L = 6, B = 3, SEEN = 6000 };
  DONE(shelf_free) shelf s = shelf_new(B, P, L, 20);
  s.screened = 1;
  for (size_t a = 0; a < P; a++) {
    float *row = s.x.items.x + a * s.x.items.rows.ld, scale = 1.0f / (float)(1 + a * 7919 % P);
    for (size_t i = 0; i < L; i++) row[i] *= scale;
  }
  shelf_up(&s, 1, 0, P);
  check_topk(&s, 0);
  size_t ld = s.x.items.rows.ld;
  FREED(free) float *liars = room(P * ld, sizeof *liars);
  memcpy(liars, s.x.items.x, P * ld * sizeof *liars);
  for (size_t i = SEEN; i < P; i++) {
    for (size_t j = 0; j < L; j++) liars[s.places[i].id * ld + j] = 1e6f;
  }
  s.c.items = up(liars, P * ld * sizeof *liars);
  fopo_matrix items = {(float *)s.c.items, P, L, ld};
  ok(gpu->ops->round_items(gpu, &s.c.half, items, s.c.order));
  sent[n_sent++] = (void *)s.c.half.x;
  check_topk(&s, 0);
}

/* Queries that are not numbers: the answer is nonsense, but of items, each at most once. */
TEST(test_topk_broken) {
  enum { P = 3000, B = 3, K = 40 };
  const float values[B] = {NAN, INFINITY, FLT_MAX};
  uint32_t ids[B * K], counts[B], *ids_ = blank(sizeof ids), *counts_ = blank(sizeof counts);
  float *scores_ = blank(sizeof ids);
  DONE(shelf_free) shelf s = shelf_new(B, P, 7, K);
  s.screened = 1;
  for (size_t b = 0; b < B; b++) s.x.Q[b * 7] = values[b];
  shelf_up(&s, 1, 0, P);
  fopo_device_batch card = on_gpu(&s.x);
  ok(gpu->ops->topk(gpu, &(fopo_candidate_sets){K, ids_, scores_, counts_}, &s.c, &card));
  down(ids, ids_, sizeof ids);
  down(counts, counts_, sizeof counts);
  for (size_t b = 0; b < B; b++) {
    uint8_t seen[P] = {0};
    assert_int_equal(counts[b], K);
    for (size_t i = 0; i < K; i++) assert_true(ids[b * K + i] < P && !seen[ids[b * K + i]]++);
  }
}

/* A recorded search: each replay answers the queries that are there by then. */
TEST(test_topk_recorded) {
  enum { B = 5, P = 2000, L = 9, K = 30 };
  uint32_t ids[B * K];
  float scores[B * K];
  DONE(shelf_free) shelf s = shelf_new(B, P, L, K);
  s.screened = 1;
  shelf_up(&s, 1, 0, P);
  check_topk(&s, 0); /* takes the memory */
  uint32_t *ids_ = blank(sizeof ids), *counts_ = blank(B * 4);
  float *scores_ = blank(sizeof scores);
  fopo_device_batch card = on_gpu(&s.x);
  fopo_adam adam = {.u.lr = 1, .beta1 = 0.9, .beta2 = 0.99, .t = 1};
  ok(gpu->ops->start_recording(gpu));
  ok(gpu->ops->topk(gpu, &(fopo_candidate_sets){K, ids_, scores_, counts_}, &s.c, &card));
  ok(gpu->ops->stop_recording(gpu, 1));
  for (uint32_t turn = 0; turn < 2; turn++) {
    size_t done = 0;
    for (size_t i = 0; i < B * L; i++) s.x.Q[i] = -1.5f * s.x.Q[i];
    ok(gpu->ops->put(gpu, s.x.Q_, s.x.Q, B * L * 4));
    ok(gpu->ops->replay(gpu, &(fopo_replayed){turn, 0, adam}, 1, &done));
    assert_true(done);
    down(ids, ids_, sizeof ids);
    down(scores, scores_, sizeof scores);
    for (size_t b = 0; b < B; b++) check_answer(&s, ids + b * K, scores + b * K, b, 0);
  }
}

/* ---- a head that all contexts share ---- */

/* A batch, whose samples are the tail, and a head; rewards of 3 B + 2 contexts. */
typedef struct {
  batch x;
  uint32_t *order, *place, *hits, *action;
  uint64_t *indptr;
  float *weight, *gain, *packed;
  fopo_shared_head host, card;
  fopo_products products;
  fopo_sparse_reward reward, reward_;
} shared;

enum { HITS = 1, CREDIT = 2 };

static shared shared_new(size_t B, size_t S, size_t P, size_t L, size_t H, fopo_float type) {
  shared s = {.x = batch_new(B, S, P, L, 3, type)};
  size_t N = 3 * B + 2, most = 600;
  s.order = room(P, 4), s.place = room(P, 4);
  s.hits = room(N * most, 4), s.indptr = room(N + 1, 8);
  s.action = room(N, 4), s.weight = room(N, 4), s.gain = room(N, 4);
  for (size_t i = 0; i < P; i++) s.order[i] = (uint32_t)((i * 7919 + 5) % P);
  for (size_t i = 0; i < P; i++) s.place[s.order[i]] = (uint32_t)i;
  for (size_t row = 0; row < N; row++) { /* of each third context none, of others up to 599 */
    size_t n = row % 9 == 1 ? 0 : row * 131 % most, gap = P / most;
    for (size_t i = 0; i < n; i++) {
      s.hits[s.indptr[row] + i] = (uint32_t)(i * gap + (row + i) % gap);
    }
    s.indptr[row + 1] = s.indptr[row] + n;
    s.action[row] = s.order[row * 17 % P];
    s.weight[row] = 0.5f + (float)(row % 3);
    s.gain[row] = (float)(row % 2);
  }
  s.packed = room(H * fopo_rows_ld(L), 4);
  s.host = (fopo_shared_head){H, s.order, s.place, {s.packed, 0, FOPO_FLOAT32}};
  return s;
}

/* What the card makes of FOPO_PRODUCTS_AUTO; a real one may be older than bfloat16. */
static fopo_products chosen_on_card(const shared *s) {
  if (s->products != FOPO_PRODUCTS_AUTO) return s->products;
  return s->card.rows.type == FOPO_BFLOAT16 ? FOPO_PRODUCTS_BFLOAT16 : FOPO_PRODUCTS_FLOAT32;
}

/* Both sides' heads are packed; kinds: of rewards. */
static void shared_up(shared *s, int kinds) {
  size_t P = s->x.P, L = s->x.L, N = 3 * s->x.B + 2, H = s->host.H;
  batch_up(&s->x);
  s->card = (fopo_shared_head){H,
                               up(s->order, P * 4),
                               up(s->place, P * 4),
                               {blank(H * fopo_rows_ld(L) * 4), 0, FOPO_FLOAT32}};
  ok(gpu->ops->pack_head(gpu, &s->card, &s->x.items_, L, s->products));
  ok(cpu->ops->pack_head(cpu, &s->host, &s->x.items.rows, L, chosen_on_card(s)));
  s->reward = s->reward_ = (fopo_sparse_reward){0};
  if (kinds & HITS) {
    size_t n = s->indptr[N];
    s->reward.Y = (fopo_csr){N, P, s->indptr, s->hits, NULL};
    s->reward_.Y = (fopo_csr){N, P, up(s->indptr, (N + 1) * 8), up(s->hits, n * 4), NULL};
  }
  if (kinds & CREDIT) {
    s->reward.credit = (fopo_credit){s->action, s->weight, s->gain, 0.25f};
    s->reward_.credit =
        (fopo_credit){up(s->action, N * 4), up(s->weight, N * 4), up(s->gain, N * 4), 0.25f};
  }
}

static void shared_free(shared *s) {
  batch_free(&s->x);
  free(s->order), free(s->place), free(s->hits), free(s->indptr), free(s->action);
  free(s->weight), free(s->gain), free(s->packed);
}

static int gpu_head(float *V, float *stats, const shared *s) {
  fopo_device_batch card = on_gpu(&s->x);
  fopo_samples tail = {s->x.ids_, s->x.logq_, s->x.r_};
  return gpu->ops->snis_head(gpu, &(fopo_estimate){.V = V, .stats = stats}, &s->card, &s->reward_,
                             &tail, &s->x.items_, &card);
}

/* How far a score may be off: a sum of L products whose roundings are independent, by about
 * 2^-24 sqrt(sum (q beta)^2 L) on each side; and 2^-16 of each q if queries are split into two
 * bfloat16 parts. Twice that, over the largest of all. */
static double score_error(const shared *s) {
  size_t L = s->x.L, ld = s->host.rows.ld;
  double most = 0, bits = sqrt((double)L) * 0x1p-23;
  if (s->card.rows.type == FOPO_BFLOAT16) bits += 0x1p-16;
  for (size_t b = 0; b < s->x.B; b++) {
    for (size_t h = 0; h < s->host.H; h++) {
      double sum = 0;
      for (size_t i = 0; i < L; i++) {
        double x = (double)s->x.Q[b * L + i] * (double)s->packed[h * ld + i];
        sum += x * x;
      }
      most = fmax(most, sum);
    }
  }
  return 2 * bits * sqrt(most);
}

/* The estimate on the host, of listed items alone: those of the head, whose packed rows stand
 * behind the items, then the tail. */
static void listed_head(float *V, float *stats, shared *s) {
  size_t B = s->x.B, S = s->x.S, H = s->host.H, L = s->x.L, P = s->x.P, all = H + S;
  FREED(free) float *items = room((P + H) * L, 4), *logq = room(B * all, 4), *r = room(B * all, 4);
  FREED(free) uint32_t *ids = room(B * all, 4);
  fopo_rows_widen(fopo_matrix_view(items, P, L), &s->x.items.rows);
  for (size_t h = 0; h < H; h++) {
    memcpy(items + (P + h) * L, s->packed + h * s->host.rows.ld, L * sizeof *items);
  }
  for (size_t b = 0; b < B; b++) memcpy(ids + b * all, s->order, H * sizeof *ids);
  fopo_samples samples = {ids, logq, r};
  fopo_device_batch host = on_host(&s->x);
  host.S = all;
  for (size_t b = 0; b < B; b++) {
    memcpy(ids + b * all + H, s->x.ids + b * S, S * sizeof *ids);
    memcpy(logq + b * all + H, s->x.logq + b * S, S * sizeof *logq);
  }
  if (s->reward.Y.indptr != NULL) {
    ok(cpu->ops->reward_hits(cpu, &samples, &s->reward.Y, s->reward.value, &host));
  }
  if (s->reward.credit.action != NULL) {
    ok(cpu->ops->reward_credit(cpu, &samples, &s->reward.credit, 1, &host));
  }
  for (size_t b = 0; b < B; b++) {
    for (size_t h = 0; h < H; h++) ids[b * all + h] = (uint32_t)(P + h);
    memcpy(r + b * all + H, s->x.r + b * S, S * sizeof *r);
  }
  fopo_rows rows = fopo_rows_float32(items, L);
  ok(cpu->ops->snis(cpu, &(fopo_estimate){.V = V, .stats = stats}, &samples, &rows, FOPO_TAIL_LEAST,
                    &host));
}

/* If no w = exp(f) is off by more than a share e (of rounding a weight too), no wbar is by more
 * than 2 e, nor rbar by more than 2 e R, R the largest reward; so V = sum wbar (r - rbar) beta is
 * off by at most sum wbar (2 e |r - rbar| + 2 e R) |beta| <= 6 e R max |beta|. */
static void check_head(shared *s, int kinds) {
  size_t B = s->x.B, L = s->x.L;
  shared_up(s, kinds);
  FREED(free) float *V = room(B * L, 4), *stats = room(B * FOPO_STATS, 4);
  float *V_ = blank(B * L * 4), *stats_ = blank(B * FOPO_STATS * 4), *got = room(B * FOPO_STATS, 4);
  listed_head(V, stats, s);
  ok(gpu_head(V_, stats_, s));
  double R = 2.5, most = 0; /* a credit's largest */
  double e = score_error(s) + 0x1p-20 + (s->card.rows.type == FOPO_BFLOAT16 ? 0x1p-16 : 0);
  for (size_t i = 0; i < s->x.P * s->x.items.rows.ld; i++) {
    most = fmax(most, fabs((double)s->x.items.x[i]));
  }
  assert_close(V_, V, B * L, 6 * e * R * most, 1, "a head's V");
  down(got, stats_, B * FOPO_STATS * 4);
  for (size_t i = 0; i < B * FOPO_STATS; i++) {
    double wanted = (double)stats[i], size = i % FOPO_STATS == FOPO_STAT_REWARD ? R : wanted;
    if (!(fabs((double)got[i] - wanted) <= 4 * e * size)) {
      fail_msg("statistic %zu of context %zu: %.9g instead of %.9g", i % FOPO_STATS, i / FOPO_STATS,
               (double)got[i], wanted);
    }
  }
  forget();
  free(got);
}

/* Items of each type, packed for each kind of products: the rows that the CPU packs, in bfloat16
 * where the products are. */
TEST(test_pack_head) {
  enum { P = 700, H = 301 };
  const size_t some[] = {1, 8, 33, 130, 300};
  for (size_t k = 0; k < 5 * 3 * 3; k++) {
    size_t L = some[k / 9], ld = fopo_rows_ld(L);
    fopo_float type = types[k % 3];
    DONE(shared_free) shared s = shared_new(1, 2, P, L, H, type);
    s.products = (fopo_products)(k / 3 % 3);
    shared_up(&s, 0);
    int halves = s.card.rows.type == FOPO_BFLOAT16;
    assert_true(halves || s.card.rows.type == FOPO_FLOAT32);
    if (emulation_calls != NULL) {
      int rounds = s.products == FOPO_PRODUCTS_AUTO ? type != FOPO_FLOAT16
                                                    : s.products == FOPO_PRODUCTS_BFLOAT16;
      assert_int_equal(halves, rounds);
    }
    assert_int_equal(s.card.rows.ld, ld);
    float *wide = room(H * ld, 4); /* what the CPU packed, with zeros behind */
    uint16_t *half = room(H * ld, 2);
    for (size_t i = 0; i < H * ld; i++) {
      if (i % ld < L) wide[i] = s.packed[i / ld * s.host.rows.ld + i % ld];
      half[i] = fopo_to_bfloat16(wide[i]);
      if (halves) assert_true(fopo_from_bfloat16(half[i]) == wide[i]);
    }
    if (halves) {
      assert_same(s.card.rows.x, half, H * ld * 2, "a head in bfloat16");
    } else {
      assert_same(s.card.rows.x, wide, H * ld * 4, "a head");
    }
    free(wide), free(half);
  }
}

TEST(test_draw_others) {
  enum { P = 3001, B = 3 };
  const size_t sizes[] = {1, 37, 1024, 3000}, tails[] = {1, 64, 333, 3000};
  for (size_t k = 0; k < 4 * 4 * 2; k++) {
    size_t H = sizes[k % 4], U = tails[k / 4 % 4], listed = k / 16 ? H : 0;
    if (U > P - H) U = P - H; /* then all are drawn */
    size_t S = listed + U;
    DONE(shared_free) shared s = shared_new(B, S, P, 2, H, FOPO_FLOAT32);
    shared_up(&s, 0);
    fopo_device_batch host = on_host(&s.x), card = on_gpu(&s.x);
    host.key = card.key = (fopo_draw_key){5, (uint32_t)k};
    ok(cpu->ops->draw_others(cpu, &(fopo_samples){s.x.ids, s.x.logq, NULL}, &s.host, listed,
                             &host));
    ok(gpu->ops->draw_others(gpu, &(fopo_samples){s.x.ids_, s.x.logq_, NULL}, &s.card, listed,
                             &card));
    assert_same(s.x.ids_, s.x.ids, B * S * 4, "draws outside a head");
    assert_close(s.x.logq_, s.x.logq, B * S, 1e-7, 0, "their densities");
  }
}

/* Every type of rows and products, kind of reward and way of cutting the head into chunks. */
TEST(test_snis_head) {
  const size_t dims[] = {1, 7, 10, 33, 100, 129, 130, 300, 1030};
  const size_t sizes[] = {1, 37, 257, 1001, 4500}, tails[] = {1, 64, 300};
  for (size_t k = 0; k < 9 * 3; k++) {
    size_t H = sizes[(k + k / 3) % 5], B = H < 300 && k % 2 ? 33 : k % 2 + 1;
    DONE(shared_free)
    shared s =
        shared_new(B, tails[k / 2 % 3], H < 1500 ? 2003 : 6007, dims[k / 3], H, types[k % 3]);
    for (int processors = 1; processors < processors_end(); processors += 69) {
      cut_for(processors);
      s.products = (fopo_products)((k / 3 + (size_t)processors / 69) % 3);
      check_head(&s, (int)(k % 4));
    }
  }
  cut_for(4);
}

/* Scores of size 100, which queries in one bfloat16 part would move by 0.1; and a policy that has
 * one item with nearly all of its mass. */
TEST(test_snis_head_peaked) {
  for (size_t k = 0; k < 9; k++) {
    DONE(shared_free) shared s = shared_new(3, 64, 3001, 100, 1001, types[k % 3]);
    s.products = (fopo_products)(k / 3);
    for (size_t i = 0; i < 3 * 100; i++) s.x.Q[i] *= 30.0f;
    check_head(&s, HITS | CREDIT);
  }
}

/* A NaN, here that of a card, breaks its own context alone; and the same bits come again. */
TEST(test_snis_head_edges) {
  enum { B = 3, LONG = 1030 };
  for (size_t k = 0; k < 5; k++) {
    size_t L = k < 4 ? 20 : LONG, P = k < 4 ? 3001 : 1203;
    DONE(shared_free) shared s = shared_new(B, 64, P, L, P / 4, types[k % 3]);
    s.products = k == 3 ? FOPO_PRODUCTS_FLOAT32 : FOPO_PRODUCTS_AUTO;
    float V[2][B * LONG], stats[2][B * FOPO_STATS];
    s.x.Q[1 * L + 3] = fopo_bits_float(0x7fffffffu);
    shared_up(&s, HITS);
    for (int i = 0; i < 2; i++) {
      float *V_ = blank(B * L * 4), *stats_ = blank(sizeof stats[0]);
      ok(gpu_head(V_, stats_, &s));
      down(V[i], V_, B * L * 4);
      down(stats[i], stats_, sizeof stats[0]);
    }
    assert_memory_equal(V[0], V[1], B * L * 4);
    assert_memory_equal(stats[0], stats[1], sizeof stats[0]);
    for (size_t i = 0; i < B * L; i++) assert_int_equal(isnan(V[0][i]) != 0, i / L == 1);
    for (size_t b = 0; b < B; b++) {
      assert_int_equal(isnan(stats[0][b * FOPO_STATS + FOPO_STAT_REWARD]) != 0, b == 1);
    }
  }
}

/* ---- operations that do at once what others do one by one ---- */

/* What the samples that lie on the card come to on the CPU: V, statistics, and their sums. */
static void sums_of(float *V, float *stats, fopo_statistics *sums, shared *s, float floor,
                    const fopo_candidate_sets *sets, size_t with_candidates) {
  batch *x = &s->x;
  size_t n = x->B * x->S;
  fopo_device_batch host = on_host(x);
  fopo_samples samples = {x->ids, x->logq, x->r};
  down(x->ids, x->ids_, n * 4);
  down(x->logq, x->logq_, n * 4);
  memset(x->r, 0, n * 4);
  if (s->reward.Y.indptr != NULL) {
    ok(cpu->ops->reward_hits(cpu, &samples, &s->reward.Y, s->reward.value, &host));
  }
  if (s->reward.credit.action != NULL) {
    ok(cpu->ops->reward_credit(cpu, &samples, &s->reward.credit, 1, &host));
  }
  ok(cpu_snis(V, NULL, stats, x, floor));
  host.with_candidates = with_candidates;
  ok(cpu->ops->add_stats(cpu, sums, stats, sets, 1, &host));
}

static void assert_sums(const fopo_statistics *sums_, const fopo_statistics *wanted, size_t B) {
  fopo_statistics got;
  down(&got, sums_, sizeof got);
  assert_true(fabs(got.reward - wanted->reward) < 1e-4 * (double)B);
  assert_true(fabs(got.ess - wanted->ess) < 1e-4 * wanted->ess + 1e-6);
  assert_true(fabs(got.max_weight - wanted->max_weight) < 1e-4 * wanted->max_weight);
  assert_true(fabs(got.head_mass - wanted->head_mass) < 1e-4 * (double)B);
  assert_true(got.short_rows == wanted->short_rows && got.contexts == wanted->contexts);
  assert_true(got.n_with_candidates == wanted->n_with_candidates && got.steps == 0);
}

/* Candidates of 3 B + 2 contexts, k, some or none of each; of the rows of the batch, or of all. */
static void check_drawn(shared *s, fopo_draw_kind kind, size_t k, int kept, int stratified) {
  enum { MOST = 4 };
  batch *x = &s->x;
  size_t B = x->B, L = x->L, N = 3 * B + 2, P = x->P, S = x->S;
  uint32_t *ids = room(N * k, 4), *counts = room(N, 4), *own = room(B * k, 4), of_batch[MOST] = {0};
  float *V = room(B * L, 4), *scores = normals(B * k, 2, 5), stats[MOST * FOPO_STATS];
  for (size_t i = 0; i < N * k; i++) ids[i] = (uint32_t)((i % k * 7919 + i / k * 13) % P);
  for (size_t n = 0; n < N; n++) counts[n] = (uint32_t)(n % 3 == 1 ? k : k / (n % 3 + 1));
  counts[x->rows[B - 1]] = kind == FOPO_DRAW_MIXTURE ? 0 : (uint32_t)k / 2;
  for (size_t b = 0; b < B; b++) {
    memcpy(own + b * k, ids + x->rows[b] * k, k * 4);
    of_batch[b] = counts[x->rows[b]];
  }
  fopo_candidate_sets sets = {k, own, scores, of_batch};
  fopo_candidate_sets sets_ = {k, up(own, B * k * 4), up(scores, B * k * 4), up(of_batch, B * 4)};
  fopo_mixture m_ = {sets_, 0.25, stratified};
  fopo_device_batch card = on_gpu(x);
  fopo_samples samples_ = {x->ids_, x->logq_, x->r_};
  card.key = (fopo_draw_key){77, (uint32_t)(k + S)};
  if (kind == FOPO_DRAW_UNIFORM) ok(gpu->ops->draw_uniform(gpu, &samples_, &card));
  if (kind == FOPO_DRAW_MIXTURE) ok(gpu->ops->draw_mixture(gpu, &samples_, &m_, &card));
  if (kind == FOPO_DRAW_TAIL) ok(gpu->ops->draw_tail(gpu, &samples_, &sets_, &card));
  float floor = kind == FOPO_DRAW_TAIL ? FOPO_TAIL_LEAST : (float)log(0.25 / (double)P);
  size_t with = kind == FOPO_DRAW_UNIFORM ? 0 : B;
  fopo_statistics sums = {0}, *sums_ = blank(sizeof sums);
  sums_of(V, stats, &sums, s, floor, &sets, with);

  float *V_ = blank(B * L * 4), *stats_ = blank(sizeof stats);
  fopo_estimate e_ = {.V = V_, .stats = stats_, .batch = sums_};
  fopo_drawing draws = {.kind = kind, .mixture = m_};
  if (kept) {
    draws.mixture.sets.ids = up(ids, N * k * 4);
    draws.mixture.sets.counts = up(counts, N * 4);
    draws.kept = x->rows_;
    float *again_ = blank(B * k * 4), *same = room(B * k, 4);
    ok(gpu->ops->scores(gpu, &(fopo_candidate_sets){k, sets_.ids, again_, sets_.counts}, &x->items_,
                        &card));
    down(same, again_, B * k * 4);
    ok(gpu->ops->scores_kept(gpu, again_, &draws.mixture.sets, x->rows_, &x->items_, &card));
    assert_same(again_, same, B * k * 4, "scores of kept candidates");
    free(same);
  }
  card.with_candidates = with;
  ok(gpu->ops->snis_drawn(gpu, &e_, &draws, &s->reward_, &x->items_, floor, &card));
  assert_close(V_, V, B * L, 3e-6, 2.5, "V of draws at once");
  assert_close(stats_, stats, B * FOPO_STATS, 6e-5, 1e-3, "statistics of draws at once");
  assert_sums(sums_, &sums, B);
  free(ids), free(counts), free(own), free(V), free(scores);
}

/* Each way to draw, reward and keep, at lengths of each kernel; a tile of samples and more than
 * one; candidates that fit into shared memory and that do not. */
TEST(test_snis_drawn) {
  const size_t dims[] = {10, 31, 100, 130, 516, 1024}, samples[] = {2, 65, 300, 1100};
  const size_t some[] = {1, 8, 256, 2100};
  for (size_t i = 0; i < 24; i++) {
    fopo_draw_kind kind = (fopo_draw_kind)(i % 3);
    size_t k = some[i / 3 % 4], S = samples[(i + i / 4) % 4], B = 1 + i % 2;
    size_t L = S > 300 || k > 256 ? dims[i / 4 % 2] : dims[i % 6];
    if (kind == FOPO_DRAW_TAIL) S += k;
    cut_for(i % 5 ? 4 : 1);
    DONE(shared_free) shared s = shared_new(B, S, 6007, L, 2, types[i / 2 % 3]);
    shared_up(&s, (int)(i / 2 % 4));
    check_drawn(&s, kind, k, kind != FOPO_DRAW_UNIFORM && i / 3 % 2, i / 6 % 2);
  }
  cut_for(4);
}

/* The draws outside a shared head. */
TEST(test_head_drawn) {
  enum { B = 3 };
  for (size_t k = 0; k < 6; k++) {
    size_t L = k % 2 ? 100 : 33, tail = k < 3 ? 64 : 333;
    DONE(shared_free) shared s = shared_new(B, tail, 6007, L, 999, types[k % 3]);
    shared_up(&s, k % 2 ? HITS : HITS | CREDIT);
    float V[B * 100], stats[B * FOPO_STATS], *V_ = blank(sizeof V), *stats_ = blank(sizeof stats);
    fopo_statistics sums = {0}, *sums_ = blank(sizeof sums);
    fopo_device_batch card = on_gpu(&s.x);
    fopo_samples others = {s.x.ids_, s.x.logq_, s.x.r_};
    card.key = (fopo_draw_key){3, (uint32_t)k};
    ok(gpu->ops->draw_others(gpu, &others, &s.card, 0, &card));
    ok(gpu->ops->reward_hits(gpu, &others, &s.reward_.Y, s.reward_.value, &card));
    if (k % 2 == 0) ok(gpu->ops->reward_credit(gpu, &others, &s.reward_.credit, 1, &card));
    ok(gpu_head(V_, stats_, &s));
    down(V, V_, B * L * 4);
    down(stats, stats_, sizeof stats);
    fopo_device_batch host = on_host(&s.x);
    host.with_candidates = B;
    ok(cpu->ops->add_stats(cpu, &sums, stats, &(fopo_candidate_sets){.k = 999}, 1, &host));
    ok(gpu->ops->clear(gpu, V_, B * L));
    fopo_estimate e_ = {.V = V_, .stats = stats_, .batch = sums_};
    ok(gpu->ops->snis_head(gpu, &e_, &s.card, &s.reward_, NULL, &s.x.items_, &card));
    assert_close(V_, V, B * L, 3e-6, 2.5, "V of a head with its draws");
    assert_close(stats_, stats, B * FOPO_STATS, 1e-5, 1e-3, "statistics of a head with its draws");
    assert_sums(sums_, &sums, B);
  }
}

/* Rows, contexts and queries at once: of rows that are given, of an order, and of a part of a
 * batch; without queries, too. */
TEST(test_start_batch) {
  const size_t some[][3] = {{1, 1, 1}, {7, 10, 33}, {32, 100, 100}, {33, 130, 31}, {130, 257, 20}};
  for (size_t k = 0; k < 5 * 3; k++) {
    size_t B = some[k / 3][0], D = some[k / 3][1], L = some[k / 3][2], N = 300, ld = D + 3;
    size_t skipped = k % 3 == 2 ? B / 3 : 0, first = 41;
    FREED(free)
    float *contexts = normals(N * ld, 1, 3), *theta = normals(D * L, 1 / sqrt((double)D), 4);
    float *X = room(B * D, 4), *Q = room(B * L, 4), *X_ = blank(B * D * 4), *Q_ = blank(B * L * 4);
    uint32_t *order = room(N, 4), *rows_;
    for (size_t i = 0; i < N; i++) order[i] = (uint32_t)(i * 7 % N);
    const uint32_t *rows = order + first + skipped;
    rows_ = k % 3 == 0 ? up(rows, B * 4) : blank(B * 4);
    fopo_matrix all = {contexts, N, D, ld}, all_ = {up(contexts, N * ld * 4), N, D, ld};
    fopo_batch_start start = {.order = k % 3 == 0 ? NULL : up(order, N * 4),
                              .first = first,
                              .skipped = skipped,
                              .rows = rows_,
                              .contexts = all_,
                              .X = fopo_matrix_view(X_, B, D),
                              .Q = fopo_matrix_view(Q_, B, L),
                              .theta = up(theta, D * L * 4),
                              .scale = 0.7f};
    ok(cpu->ops->gather_rows(cpu, fopo_matrix_view(X, B, D), all, rows));
    ok(cpu->ops->queries(cpu, fopo_matrix_view(Q, B, L), fopo_matrix_view(X, B, D), theta, 0.7f));
    for (int wanted = 1; wanted >= 0; wanted--) {
      if (!wanted) start.Q.x = NULL;
      ok(gpu->ops->clear(gpu, X_, B * D));
      ok(gpu->ops->start_batch(gpu, &start));
      assert_same(rows_, rows, B * 4, "the rows of a batch");
      assert_same(X_, X, B * D * 4, "the contexts of a batch");
      if (wanted) assert_close(Q_, Q, B * L, 2e-6, 1, "the queries of a batch");
    }
    forget();
    free(X), free(Q), free(order);
  }
}

/* A gradient with its norm; one that is not finite stops the totals. */
TEST(test_outer_totals) {
  const size_t some[][3] = {{1, 1, 1}, {5, 33, 7}, {32, 100, 100}, {70, 31, 65}, {130, 40, 33}};
  for (size_t k = 0; k < 5; k++) {
    size_t B = some[k][0], D = some[k][1], L = some[k][2];
    float *X = normals(B * D, 1, 3), *V = normals(B * L, 1, 4), *G = room(D * L, 4), bad = INFINITY;
    float *X_ = up(X, B * D * 4), *V_ = up(V, B * L * 4), *G_ = blank(D * L * 4);
    fopo_statistics sums = {.reward = 3, .contexts = (double)B};
    fopo_statistics *sums_ = up(&sums, sizeof sums);
    fopo_totals got = {.record = {.steps = 2}}, *totals_ = up(&got, sizeof got);
    fopo_matrix x = fopo_matrix_view(X_, B, D), v = fopo_matrix_view(V_, B, L);
    double norm;
    ok(cpu->ops->outer(cpu, G, fopo_matrix_view(X, B, D), fopo_matrix_view(V, B, L), 0.3f, 0));
    ok(cpu->ops->norm2(cpu, &norm, G, D * L));
    for (int i = 0; i < 3; i++) { /* the third is not finite */
      if (i == 2) ok(gpu->ops->put(gpu, V_ + B * L - 1, &bad, 4));
      ok(gpu->ops->outer_totals(gpu, totals_, sums_, G_, x, v, 0.3f));
      if (i < 2) assert_close(G_, G, D * L, 2e-6, sqrt((double)B), "a gradient");
    }
    down(&got, totals_, sizeof got);
    assert_true(got.broken == 1 && got.slice.steps == 2 && got.record.steps == 4);
    assert_true(got.slice.reward == 6 && fabs(got.norm - sqrt(norm)) < 1e-5 * sqrt(norm));
    forget();
    free(X), free(V), free(G);
  }
}

/* ---- recorded steps ---- */

/* A step on both sides of a head: the order's contexts, draws, V and an update. */
typedef struct {
  shared s;
  float *V, *stats, *X, *Q, *theta, *m, *v, *G;
  uint32_t *order;
  fopo_statistics *sums;
  fopo_totals *totals;
} stepper;

static int make_step(const stepper *t, uint32_t step) {
  const batch *x = &t->s.x;
  fopo_device_batch card = on_gpu(x);
  fopo_estimate e = {.V = t->V, .stats = t->stats, .batch = t->sums};
  fopo_batch_start start = {.order = t->order,
                            .first = 3 * step,
                            .rows = x->rows_,
                            .contexts = fopo_matrix_view(t->Q, 3 * x->B + 2, x->L),
                            .X = fopo_matrix_view(t->X, x->B, x->L),
                            .Q = fopo_matrix_view(t->Q, x->B, x->L),
                            .theta = t->theta,
                            .scale = 0.5f};
  fopo_adam adam = {{.lr = 0.1, .totals = t->totals}, 0.9, 0.999, 1e-8, step};
  fopo_parameters p = {t->theta, t->m, t->v, NULL, x->L * x->L};
  card.key = (fopo_draw_key){3, step};
  card.Q = t->Q + (3 * x->B + 2) * x->L;
  start.Q.x = t->Q + (3 * x->B + 2) * x->L;
  int status = gpu->ops->start_batch(gpu, &start);
  if (status == FOPO_OK) {
    status = gpu->ops->snis_head(gpu, &e, &t->s.card, &t->s.reward_, NULL, &x->items_, &card);
  }
  if (status == FOPO_OK) {
    status = gpu->ops->outer_totals(gpu, t->totals, t->sums, t->G, start.X,
                                    fopo_matrix_view(t->V, x->B, x->L), 1.0f);
  }
  return status == FOPO_OK ? gpu->ops->adam(gpu, &p, t->G, &adam) : status;
}

static void restart(const stepper *t, const float *theta) {
  size_t n = t->s.x.L * t->s.x.L;
  fopo_totals none = {.norm = 0};
  ok(gpu->ops->put(gpu, t->theta, theta, n * 4));
  ok(gpu->ops->put(gpu, t->totals, &none, sizeof none));
  ok(gpu->ops->clear(gpu, t->m, n));
  ok(gpu->ops->clear(gpu, t->v, n));
}

/* Steps are recorded once and replayed, some in one graph and some alone, with the bits of steps
 * that are not: contexts, draws and updates are those of each step. */
TEST(test_head_recorded) {
  enum { B = 5, L = 33, N = 3 * B + 2, STEPS = 11 };
  for (size_t k = 0; k < 3; k++) {
    stepper t = {.s = shared_new(B, 70, 3001, L, 999, types[k])};
    uint32_t order[3 * STEPS + N];
    FREED(free) float *contexts = normals(N * L + B * L, 0.3, 8), *theta = normals(L * L, 0.2, 9);
    FREED(free) float *wanted = room(L * L, 4);
    for (size_t i = 0; i < 3 * STEPS + N; i++) order[i] = (uint32_t)(i * 5 % N);
    shared_up(&t.s, HITS);
    t.V = blank(B * L * 4), t.stats = blank(B * FOPO_STATS * 4), t.X = blank(B * L * 4);
    t.Q = up(contexts, (N * L + B * L) * 4), t.order = up(order, sizeof order);
    t.theta = blank(L * L * 4), t.m = blank(L * L * 4), t.v = blank(L * L * 4);
    t.G = blank(L * L * 4), t.sums = blank(sizeof *t.sums), t.totals = blank(sizeof *t.totals);
    restart(&t, theta);
    for (uint32_t i = 1; i <= STEPS; i++) ok(make_step(&t, i));
    down(wanted, t.theta, L * L * 4);
    restart(&t, theta);
    ok(gpu->ops->start_recording(gpu));
    ok(make_step(&t, 7));
    ok(gpu->ops->stop_recording(gpu, 1));
    fopo_replayed steps[STEPS];
    size_t done = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
      fopo_adam adam = {{.lr = 0.1}, 0.9, 0.999, 1e-8, i + 1};
      steps[i] = (fopo_replayed){i + 1, 3 * (i + 1), adam};
    }
    long launched = emulation_replays != NULL ? emulation_replays() : 0;
    ok(gpu->ops->replay(gpu, steps, 2, &done));
    assert_int_equal(done, 2);
    ok(gpu->ops->replay(gpu, steps + 2, STEPS - 2, &done));
    assert_int_equal(done, STEPS - 2);
    if (emulation_replays != NULL) assert_int_equal(emulation_replays() - launched, 2 + 1 + 1);
    assert_same(t.theta, wanted, L * L * 4, "theta of recorded steps");
    shared_free(&t.s);
  }
}

/* ---- optimisers, items ---- */

TEST(test_optimisers) {
  enum { n = 1000 };
  FREED(free) float *theta = normals(n, 1, 1), *m = room(n, 4), *v = room(n, 4), *u = room(n, 4);
  float *theta_ = up(theta, n * 4), *m_ = up(m, n * 4), *v_ = up(v, n * 4), *u_ = up(u, n * 4);
  FREED(free) float *w = room(n, 4);
  float *w_ = up(w, n * 4);
  for (uint64_t t = 1; t <= 10; t++) {
    float *G = normals(n, 1, 100 + t), *G_ = up(G, n * 4);
    fopo_update of = {.lr = 1e-2, .weight_decay = 0.1, .decoupled = t > 5, .clip = 20, .norm = 30};
    if (t % 2) of.clip = 0;
    fopo_adam adam = {of, 0.9, 0.999, 1e-8, t};
    fopo_sgd sgd = {of, 0.9};
    fopo_adagrad adagrad = {of, 1e-10};
    ok(cpu->ops->adam(cpu, &(fopo_parameters){theta, m, v, NULL, n}, G, &adam));
    ok(gpu->ops->adam(gpu, &(fopo_parameters){theta_, m_, v_, NULL, n}, G_, &adam));
    ok(cpu->ops->sgd(cpu, &(fopo_parameters){theta, u, NULL, NULL, n}, G, &sgd));
    ok(gpu->ops->sgd(gpu, &(fopo_parameters){theta_, u_, NULL, NULL, n}, G_, &sgd));
    ok(cpu->ops->adagrad(cpu, &(fopo_parameters){theta, NULL, w, NULL, n}, G, &adagrad));
    ok(gpu->ops->adagrad(gpu, &(fopo_parameters){theta_, NULL, w_, NULL, n}, G_, &adagrad));
    free(G);
  }
  assert_close(theta_, theta, n, 1e-6, 1, "theta");
  assert_close(v_, v, n, 1e-6, 1e-3, "adam's v");
  assert_close(u_, u, n, 1e-6, 1, "sgd's velocity");
  assert_close(w_, w, n, 1e-6, 1, "adagrad's sums");
  double wanted, got;
  float *x = normals(50001, 1, 3), *x_ = up(x, 50001 * 4);
  ok(cpu->ops->norm2(cpu, &wanted, x, 50001));
  ok(gpu->ops->norm2(gpu, &got, x_, 50001));
  assert_true(fabs(got - wanted) <= 1e-12 * wanted);
  ok(gpu->ops->clear(gpu, x_ + 1, 50000));
  ok(gpu->ops->norm2(gpu, &got, x_, 50001));
  assert_true(fabs(got - (double)x[0] * (double)x[0]) <= 1e-15);
  ok(gpu->ops->norm2(gpu, &got, x_, 0));
  assert_true(got == 0);
  forget();
  free(x);
}

TEST(test_items) {
  enum { B = 6, S = 200, P = 150, L = 40 };
  DONE(batch_free) batch x = batch_new(B, S, P, L, 0, FOPO_FLOAT32);
  batch_up(&x);
  float *c = normals(B * S, 0.1, 4), *c_ = up(c, B * S * 4);
  float *rows = room(P * L, 4), *rows_ = blank(P * L * 4), *dense_ = blank(P * L * 4);
  FREED(free) float *m = room(P * L, 4), *v = room(P * L, 4), *items = room(P * L, 4);
  float *m_ = blank(P * L * 4), *v_ = blank(P * L * 4), *items_ = up(x.items.x, P * L * 4);
  uint32_t touched[P], *touched_ = blank(sizeof touched), updates[P] = {0};
  uint32_t *updates_ = blank(sizeof updates);
  fopo_item_gradient g = {rows, touched, 0}, g_ = {rows_, touched_, 0};
  fopo_item_gradient all_g = {rows, NULL, P}, all_g_ = {rows_, NULL, P};
  fopo_parameters at = {items, m, v, updates, P * L}, at_ = {items_, m_, v_, updates_, P * L};
  fopo_samples samples = {.ids = x.ids}, samples_ = {.ids = x.ids_};
  fopo_device_batch host = on_host(&x), card = on_gpu(&x);
  memcpy(items, x.items.x, P * L * 4);
  for (size_t i = 0; i < B * S; i += 3) x.ids[i] = (uint32_t)(i % 7); /* some many times */
  for (size_t i = 0; i < B * S; i++) x.ids[i] = x.ids[i] == 11 ? 12 : x.ids[i]; /* one never */
  ok(gpu->ops->put(gpu, x.ids_, x.ids, B * S * 4));
  ok(cpu->ops->items_gradient(cpu, &g, c, &samples, 0.5f, &host));
  ok(gpu->ops->items_gradient(gpu, &g_, c_, &samples_, 0.5f, &card));
  assert_int_equal(g_.n, g.n);
  assert_true(g.n < P);
  assert_same(touched_, touched, g.n * 4, "the items drawn");
  assert_close(rows_, rows, g.n * L, 1e-6, 0.1, "the gradient of the items");

  fopo_adam adam = {{.lr = 1e-2, .weight_decay = 0.1}, 0.9, 0.999, 1e-8, 0};
  fopo_sgd sgd = {{.lr = 1e-2, .weight_decay = 0.1}, 0.9};
  fopo_adagrad adagrad = {sgd.u, 1e-10};
  for (int all = 0; all < 2; all++) {
    if (all) {
      adam.u.decoupled = sgd.u.decoupled = 1;
      adam.u.clip = sgd.u.clip = 1, adam.u.norm = sgd.u.norm = 4;
      adagrad.u = sgd.u;
      memset(rows, 0, P * L * 4);
      ok(gpu->ops->clear(gpu, rows_, P * L));
      for (int twice = 0; twice < 2; twice++) {
        ok(cpu->ops->items_gradient(cpu, &all_g, c, &samples, 0.5f, &host));
        ok(gpu->ops->items_gradient(gpu, &all_g_, c_, &samples_, 0.5f, &card));
      }
      assert_close(rows_, rows, P * L, 1e-6, 0.1, "the gradient of all items");
    }
    const fopo_item_gradient *some = all ? &all_g : &g, *some_ = all ? &all_g_ : &g_;

    ok(cpu->ops->adam_rows(cpu, &at, some, &adam, L));
    ok(gpu->ops->adam_rows(gpu, &at_, some_, &adam, L));
    ok(cpu->ops->sgd_rows(cpu, &at, some, &sgd, L));
    ok(gpu->ops->sgd_rows(gpu, &at_, some_, &sgd, L));
    ok(cpu->ops->adagrad_rows(cpu, &at, some, &adagrad, L));
    ok(gpu->ops->adagrad_rows(gpu, &at_, some_, &adagrad, L));
    assert_same(updates_, updates, sizeof updates, "updates");
    assert_close(items_, items, P * L, 1e-6, 1, "items");
  }
  float log_z[B], weight[B], *w_, *z_;
  for (size_t b = 0; b < B; b++) log_z[b] = 6.0f + (float)b / 7, weight[b] = 0.1f * (float)b - 0.2f;
  w_ = up(weight, sizeof weight);
  z_ = up(log_z, sizeof log_z);
  ok(gpu->ops->put(gpu, dense_, rows, P * L * 4));
  ok(cpu->ops->items_expectation(cpu, rows, items_on_host(&x), log_z, weight, &host));
  ok(gpu->ops->items_expectation(gpu, dense_, items_on_gpu(&x), z_, w_, &card));
  assert_close(dense_, rows, P * L, 1e-6, 0.1, "the expectation of the items' gradient");
  free(c), free(rows);
}

/* usage: test_cuda [PATTERN], of the names of tests */
int main(int argc, char **argv) {
  if (!open_both()) return 77;
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  int failed = run_all(NULL, NULL);
  close_both();
  return failed;
}
