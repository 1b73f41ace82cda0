/* Whole trainings on the CUDA device: the same steps as on the CPU up to rounding, the same bits
 * when repeated, and nothing lost or leaked when the device fails. Each fault is a child process
 * that opens a device, trains and closes it while the n-th CUDA call fails, for every n. */
#include <sys/wait.h>

#include "cuda_case.h"
#include "small_sessions.h"
#include "train/state.h"

enum { P = 600, N = 40, L = 12, BATCH = 16, SAMPLES = 60, K = 24 };

typedef struct {
  const fopo_estimator *estimator;
  int baseline, mixture, items, network, refresh;
  size_t graph; /* 0: a norm index, batches of BATCH; else an HNSW graph, batches of so many */
  size_t head;  /* items of a head that all contexts share; 0: none */
  int products; /* of such a head */
  const char *name;
} method;

static const method methods[] = {
    {&fopo_estimator_snis, 0, 0, 0, 0, 1, 0, 0, 0, "uniform"},
    {&fopo_estimator_snis, 0, 1, 0, 0, 1, 0, 0, 0, "mixture"},
    {&fopo_estimator_snis, 0, 1, 0, 0, 3, 0, 0, 0, "mixture, kept candidates"},
    {&fopo_estimator_snis, 0, 1, 1, 0, 1, 0, 0, 0, "mixture, items learnt"},
    {&fopo_estimator_snis, 0, 1, 0, 1, 1, 0, 0, 0, "mixture, network"},
    {&fopo_estimator_head_tail, 0, 1, 0, 0, 1, 0, 0, 0, "head and tail"},
    {&fopo_estimator_head_tail, 0, 1, 0, 0, 3, 0, 0, 0, "head and tail, kept candidates"},
    {&fopo_estimator_head_tail, 0, 0, 0, 0, 1, 0, 100, FOPO_PRODUCTS_FLOAT32, "shared head"},
    {&fopo_estimator_head_tail, 0, 0, 0, 1, 1, 0, 100, FOPO_PRODUCTS_FLOAT32,
     "shared head, network"},
    {&fopo_estimator_head_tail, 0, 0, 1, 0, 1, 0, 100, 0, "shared head, items learnt"},
    {&fopo_estimator_reinforce, 0, 0, 0, 0, 1, 0, 0, 0, "reinforce"},
    {&fopo_estimator_reinforce, 0, 0, 1, 0, 1, 0, 0, 0, "reinforce, items learnt"},
    {&fopo_estimator_reinforce, 1, 0, 0, 0, 1, 0, 0, 0, "reinforce, baseline"},
    {&fopo_estimator_exact, 0, 0, 1, 0, 1, 0, 0, 0, "exact, items learnt"},
};
enum { METHODS = sizeof methods / sizeof *methods };

/* A trainer and all that it uses. */
typedef struct {
  small_world w;
  int masks;  /* 1: the policy masks X */
  fopo_csr X; /* [N, P] */
  int anew;   /* 1: contexts and hits are of `sessions`, which are divided anew each epoch */
  fopo_sessions sessions;
  fopo_reward reward;
  fopo_policy pi;
  fopo_index *ix;
  fopo_gradient *g;
  fopo_optim optim;
  fopo_trainer *t;
} setting;

/* 12 items of each context, of which about one is a hit. */
static int make_lists(fopo_csr *X, size_t n, size_t items) {
  enum { EACH = 12 };
  size_t repeats;
  uint32_t *row = room(n * EACH, sizeof *row), *col = room(n * EACH, sizeof *col);
  for (size_t i = 0; i < n * EACH; i++) {
    fopo_words u = fopo_random(4, FOPO_STREAM_WORLD, 8, (uint32_t)i, 0);
    row[i] = (uint32_t)(i / EACH);
    col[i] = u.v[0] % (uint32_t)items;
  }
  int status = fopo_csr_from_pairs(X, row, col, NULL, n * EACH, n, items, &repeats);
  free(row);
  free(col);
  return status;
}

static int begin(setting *s, const method *m, fopo_device *device) {
  size_t dim = s->w.L, few = s->w.P < P ? 5 : 1; /* the world of the faults is smaller */
  fopo_network net = {2, {dim, 9, dim}, FOPO_TANH};
  fopo_optim_options adam = adam_of(0.01);
  /* beside a head that contexts share, all others: the CPU draws them once for the batch */
  size_t others = s->w.P - m->head / few;
  fopo_gradient_options o = {.estimator = m->estimator,
                             .samples = m->head > 0 && !m->items ? others : SAMPLES / few,
                             .baseline = m->baseline,
                             .head = m->head / few,
                             .products = m->products};
  int status = m->network ? init_network(&s->pi, s->w.items, &net, 0.8f, 3)
                          : fopo_policy_copy(&s->pi, &s->w.pi);
  s->pi.learns[FOPO_BLOCK_ITEMS] = m->items;
  s->pi.masks_seen = s->masks;
  if (status == FOPO_OK && s->masks) status = make_lists(&s->X, s->w.N, s->w.P);
  fopo_hnsw_options graph = {.M = 4, .ef_construction = 40, .ef = 40, .deterministic = 1};
  if (status == FOPO_OK) {
    status = m->graph ? fopo_index_hnsw(&s->ix, s->w.items, &graph)
                      : fopo_index_norm(&s->ix, s->w.items, 0);
  }
  if (m->mixture) {
    o.proposal = (fopo_proposal){.kind = FOPO_PROPOSAL_MIXTURE,
                                 .index = s->ix,
                                 .k = K / few,
                                 .epsilon = m->estimator == &fopo_estimator_snis ? 0.5 : 0.0,
                                 .refresh = (size_t)m->refresh};
  }
  if (status == FOPO_OK) status = fopo_gradient_new(&s->g, &o);
  if (status == FOPO_OK) status = fopo_optim_init(&s->optim, &adam);
  fopo_trainer_options t = trainer_over(&s->w, s->g, &s->optim, m->graph ? m->graph : BATCH / few);
  t.policy = &s->pi;
  t.contexts.X = s->X;
  t.device = device;
  if (s->anew) {
    small_sessions_init(&s->sessions, s->w.N, s->w.P, 5);
    s->reward = s->w.reward;
    s->reward.Y = &s->sessions.Y;
    t.reward = &s->reward;
    t.contexts.X = s->sessions.X;
    t.resplit = (fopo_resplit_source){
        .sessions = &s->sessions, .how = {.encoder = &fopo_encoder_mean}, .items = s->w.items};
    ok(fopo_encode(s->w.contexts, (fopo_encoding){.encoder = &fopo_encoder_mean}, &s->sessions.X,
                   s->w.items));
  }
  return status == FOPO_OK ? fopo_trainer_new(&s->t, &t) : status;
}

static void end(setting *s) {
  fopo_trainer_free(s->t);
  fopo_optim_done(&s->optim);
  fopo_gradient_free(s->g);
  fopo_index_free(s->ix);
  fopo_policy_done(&s->pi);
  fopo_csr_done(&s->X);
  fopo_sessions_done(&s->sessions);
}

/* masks and anew are set. */
static void open_as(setting *s, const method *m, fopo_device *device) {
  small_world_init(&s->w, P, N, L, 0.05, 0.1, 3);
  ok(begin(s, m, device));
}

/* In a world that is smaller, for faults and for many steps; an epoch has 3 steps here too. */
enum { SMALL = 4 };
static void open_small_as(setting *s, const method *m, fopo_device *device) {
  small_world_init(&s->w, 90, 9, SMALL, 0.05, 0.1, 3);
  ok(begin(s, m, device));
}

static void open_small(setting *s, const method *m, fopo_device *device) {
  *s = (setting){0};
  open_small_as(s, m, device);
}

static void open_setting(setting *s, const method *m, fopo_device *device) {
  *s = (setting){0};
  open_as(s, m, device);
}

static void close_setting(setting *s) {
  end(s);
  small_world_done(&s->w);
}

/* theta after `steps`, in `out` [n]; the mean reward of the last half in *reward. */
static size_t train(float *out, float *items, double *reward, const method *m, fopo_device *device,
                    size_t steps, int masks) {
  setting s = {.masks = masks};
  fopo_slice slice;
  open_as(&s, m, device);
  /* trained items reach an index on the host when a slice ends, so slices have one step */
  size_t slices = m->items && m->mixture ? steps : 2;
  for (size_t i = 0; i < slices; i++) {
    ok(fopo_trainer_advance(s.t, steps * (i + 1) / slices - steps * i / slices, &slice));
  }
  *reward = slice.mean.reward;
  size_t n = s.pi.theta.rows * s.pi.theta.cols;
  memcpy(out, s.pi.theta.x, n * sizeof *out);
  memcpy(items, s.w.items.x, (size_t)P * L * sizeof *items);
  close_setting(&s);
  return n;
}

/* |a - b| / |b| */
static double off(const float *a, const float *b, size_t n) {
  double d = 0, size = 0;
  for (size_t i = 0; i < n; i++) {
    d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    size += (double)b[i] * (double)b[i];
  }
  return sqrt(d / size);
}

/* How far theta may be off: rounding of one step is about 1e-7; on a card one id may differ by
 * rounding, which changes a step by 1 / S of it. */
static double allowed(void) { return emulation_calls == NULL ? 2e-2 : 1e-5; }

/* On the card as on the CPU; the same training again gives the same bits. A policy that masks X
 * moves theta elsewhere than one that does not. A graph is searched on the host. */
TEST(test_methods) {
  const method graph = {&fopo_estimator_snis, 0, 1, 0, 0, 1, BATCH, 0, 0, "a graph"};
  float a[1000], b[1000], c[1000], plain[1000], *items = room(3 * P * L, sizeof *items);
  size_t steps = emulation_calls == NULL ? 20 : 3;
  for (size_t k = 0; k <= METHODS; k++) {
    const method *m = k < METHODS ? &methods[k] : &graph;
    for (int masks = 0; masks < 2; masks++) {
      double here, there, again;
      size_t n = train(a, items, &here, m, cpu, steps, masks);
      train(b, items + P * L, &there, m, gpu, steps, masks);
      if (masks == (int)k % 2) {
        train(c, items + 2 * P * L, &again, m, gpu, steps, masks);
        assert_memory_equal(b, c, n * sizeof *b);
        assert_memory_equal(items + P * L, items + 2 * P * L, (size_t)P * L * sizeof *items);
      }
      double theta = off(b, a, n), moved = off(items + P * L, items, P * L);
      if (theta > allowed() || moved > allowed() || fabs(here - there) > allowed() * here) {
        fail_msg("%s, masks %d: theta differs by %.2e, items by %.2e, reward %.6f and %.6f",
                 m->name, masks, theta, moved, here, there);
      }
      if (masks) assert_true(off(a, plain, n) > 10 * allowed());
      memcpy(plain, a, sizeof a);
    }
  }
  free(items);
}

/* X and Y drawn anew each epoch, of 3 steps: the arrays on the device change, and what was recorded
 * over them stays. Steps are queued up to the epoch's end alone. */
TEST(test_resplit) {
  enum { NUMBERS = SMALL * SMALL };
  float theta[3][NUMBERS];
  size_t steps = emulation_calls == NULL ? 14 : 7;
  for (size_t k = 0; k < METHODS; k++) {
    if (methods[k].items || methods[k].network) continue;
    for (int masks = 0; masks < 2; masks++) {
      fopo_device *const on[] = {cpu, gpu, gpu};
      long replays = 0;
      for (int i = 0; i < 3; i++) {
        setting s = {.masks = masks, .anew = 1};
        fopo_slice slice;
        open_small_as(&s, &methods[k], on[i]);
        long before = emulation_replays != NULL ? emulation_replays() : 0;
        for (size_t at = 0; at < steps; at += i == 2 ? 4 : steps) {
          ok(fopo_trainer_advance(s.t, i < 2 ? steps : at + 4 < steps ? 4 : steps - at, &slice));
        }
        if (i == 1 && emulation_replays != NULL) replays = emulation_replays() - before;
        assert_true(s.t->resplit.epoch == (steps - 1) / 3);
        memcpy(theta[i], s.pi.theta.x, sizeof theta[i]);
        close_setting(&s);
      }
      double apart = off(theta[1], theta[0], NUMBERS);
      if (apart > allowed()) fail_msg("%s: theta differs by %.2e", methods[k].name, apart);
      assert_memory_equal(theta[1], theta[2], sizeof theta[1]);
      if (k == 0 && emulation_replays != NULL) assert_true(replays > 0);
    }
  }
}

/* The reward curve of a longer run: 1,000 steps on a card, fewer on the emulation. */
TEST(test_curve) {
  size_t steps = emulation_calls == NULL ? 1000 : 12;
  float a[1000], *items = room(P * L, sizeof *items);
  double here, there;
  train(a, items, &here, &methods[1], cpu, steps, 0);
  train(a, items, &there, &methods[1], gpu, steps, 0);
  /* the standard error of a mean over half of the steps is below 1 % of the reward */
  if (fabs(here - there) > 0.01 * here) fail_msg("rewards %.6f and %.6f", here, there);
  free(items);
}

/* 2 steps each with a budget, with a smaller one that leaves rows short, and with the index built
 * anew without one; items in rows of a type. */
static void train_budgets(float *out, fopo_device *device, fopo_float rows, size_t *queries,
                          double *short_rows) {
  const method m = {&fopo_estimator_snis, 0, 1, 0, 0, 1, 0, 0, 0, "mixture, budget"};
  setting s;
  fopo_slice slice[4];
  open_setting(&s, &m, device);
  ok(fopo_policy_halve(&s.pi, rows));
  ok(fopo_trainer_bind(s.t));
  ok(fopo_index_set_budget(s.ix, 200));
  ok(fopo_trainer_advance(s.t, 2, &slice[0]));
  ok(fopo_index_set_budget(s.ix, K / 2));
  ok(fopo_trainer_advance(s.t, 2, &slice[1]));
  ok(fopo_index_refresh(s.ix));
  ok(fopo_index_set_budget(s.ix, 0));
  ok(fopo_trainer_advance(s.t, 2, &slice[2]));
  *short_rows = slice[1].mean.short_rows;
  assert_true(slice[0].mean.short_rows == 0 && slice[2].mean.short_rows == 0);
  *queries = fopo_index_about(s.ix).queries;
  memcpy(out, s.pi.theta.x, L * L * sizeof *out);
  close_setting(&s);
}

/* The device searches by itself, with the index's present budget. */
TEST(test_budget) {
  float a[L * L], b[L * L];
  size_t n_with_candidates, none;
  double some, same;
  for (int half = 0; half < 2; half++) { /* with a bfloat16 copy the search has a first pass */
    fopo_float rows = half ? FOPO_BFLOAT16 : FOPO_FLOAT32;
    train_budgets(a, cpu, rows, &n_with_candidates, &some);
    train_budgets(b, gpu, rows, &none, &same);
    assert_true(n_with_candidates == 2 * N && none == 0); /* two epochs of three steps */
    assert_true(some == BATCH + N % BATCH && same == some);
    double theta = off(b, a, L * L);
    if (theta > allowed()) fail_msg("theta differs by %.2e", theta);
  }
}

static void train_head(float *out, fopo_device *device, fopo_float rows, fopo_products products) {
  setting s;
  fopo_slice slice;
  method m = methods[7];
  m.products = (int)products;
  open_setting(&s, &m, device);
  ok(fopo_policy_halve(&s.pi, rows));
  ok(fopo_trainer_bind(s.t));
  ok(fopo_trainer_advance(s.t, 2, &slice));
  memcpy(out, s.pi.theta.x, L * L * sizeof *out);
  close_setting(&s);
}

/* A shared head of rows in half the bytes, and of float32 rows that the card rounds for itself: it
 * moves theta as it does on the CPU. Queries and weights keep 16 bits, and what they lose is far
 * less than what the rows have lost. */
TEST(test_head_rows) {
  float a[L * L], b[L * L], plain[L * L];
  const struct {
    fopo_float rows;
    fopo_products here, there;
  } kinds[] = {{FOPO_FLOAT16, FOPO_PRODUCTS_AUTO, FOPO_PRODUCTS_AUTO},
               {FOPO_BFLOAT16, FOPO_PRODUCTS_AUTO, FOPO_PRODUCTS_AUTO},
               {FOPO_BFLOAT16, FOPO_PRODUCTS_FLOAT32, FOPO_PRODUCTS_FLOAT32},
               {FOPO_FLOAT16, FOPO_PRODUCTS_BFLOAT16, FOPO_PRODUCTS_BFLOAT16},
               {FOPO_FLOAT32, FOPO_PRODUCTS_BFLOAT16, FOPO_PRODUCTS_BFLOAT16},
               {FOPO_FLOAT32, FOPO_PRODUCTS_BFLOAT16, FOPO_PRODUCTS_AUTO}};
  train_head(plain, cpu, FOPO_FLOAT32, FOPO_PRODUCTS_AUTO);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    train_head(a, cpu, kinds[i].rows, kinds[i].here);
    train_head(b, gpu, kinds[i].rows, kinds[i].there);
    double theta = off(b, a, L * L), moved = off(a, plain, L * L);
    if (theta > allowed()) fail_msg("kind %zu: theta differs by %.2e", i, theta);
    if (moved < 2e-5) fail_msg("kind %zu: rounding moves theta by %.2e", i, moved);
  }
}

/* The card's operations, with calls counted. */
static fopo_device_ops counted;
static size_t n_gets, n_draws;

static int count_get(fopo_device *d, void *host, const void *device, size_t bytes) {
  (void)d;
  n_gets++;
  return gpu->ops->get(gpu, host, device, bytes);
}

static int count_draw(fopo_device *d, const fopo_estimate *e, const fopo_drawing *draws,
                      const fopo_sparse_reward *reward, const fopo_rows *items, float floor,
                      const fopo_device_batch *batch) {
  (void)d;
  n_draws++;
  return gpu->ops->snis_drawn(gpu, e, draws, reward, items, floor, batch);
}

/* theta after 2 steps of all contexts each. */
static void train_graph(float *out, const method *m, fopo_device *d, int asynchronous) {
  setting s = {0};
  fopo_slice slice;
  fopo_device with_counts = *d;
  if (d == gpu) {
    counted = *gpu->ops;
    counted.get = count_get;
    counted.snis_drawn = count_draw;
    counted.asynchronous = asynchronous;
    with_counts.ops = &counted;
  }
  n_gets = n_draws = 0;
  small_world_init(&s.w, P, m->graph, L, 0.05, 0.1, 3);
  ok(begin(&s, m, &with_counts));
  ok(fopo_trainer_advance(s.t, 2, &slice));
  assert_int_equal(fopo_index_about(s.ix).queries, m->refresh > 1 ? m->graph : 2 * m->graph);
  memcpy(out, s.pi.theta.x, s.pi.theta.rows * s.pi.theta.cols * sizeof *out);
  close_setting(&s);
}

/* A batch that the host searches in pieces, while the device works on the piece before, has the
 * bits of a batch in one piece, and the host waits as often: once, for the queries. */
TEST(test_pieces) {
  const method some[] = {
      {&fopo_estimator_snis, 0, 1, 0, 0, 1, 100, 0, 0, "a graph"},
      {&fopo_estimator_snis, 0, 1, 0, 1, 1, 70, 0, 0, "a graph, network"},
      {&fopo_estimator_snis, 0, 1, 0, 0, 3, 100, 0, 0, "a graph, kept candidates"}};
  const size_t draws[] = {6, 4, 4}; /* 3 pieces, 2, and 3 if all have expired */
  float a[1000], b[1000], c[1000];
  for (size_t i = 0; i < 3; i++) {
    memset(a, 0, sizeof a), memset(b, 0, sizeof b), memset(c, 0, sizeof c);
    train_graph(a, &some[i], cpu, 0);
    train_graph(b, &some[i], gpu, 0);
    size_t gets = n_gets;
    assert_int_equal(n_draws, 2);
    train_graph(c, &some[i], gpu, 1);
    assert_int_equal(n_gets, gets);
    assert_int_equal(n_draws, draws[i]);
    /* a card splits the samples of a smaller piece among more blocks */
    if (emulation_calls != NULL) assert_memory_equal(b, c, sizeof b);
    double theta = off(c, a, 1000);
    if (theta > allowed()) fail_msg("%s: theta differs by %.2e", some[i].name, theta);
  }
}

/* Ctrl-C in the middle: the slice ends, nothing is damaged, and the run can go on. */
TEST(test_cancelled) {
  setting s;
  fopo_slice slice;
  open_setting(&s, &methods[7], gpu);
  ok(fopo_trainer_advance(s.t, 2, &slice));
  fopo_interrupt_request();
  refused(fopo_trainer_advance(s.t, 5, &slice), FOPO_ERR_INTERRUPTED, "interrupted");
  fopo_interrupt_clear();
  assert_int_equal(fopo_trainer_step(s.t), 2);
  ok(fopo_trainer_advance(s.t, 2, &slice));
  assert_int_equal(fopo_trainer_step(s.t), 4);
  close_setting(&s);
}

/* ---- kept candidates ---- */

/* When every context has candidates, an epoch sends the card its order, and nothing for a step but
 * the numbers of those that are replayed. */
TEST(test_kept) {
  if (emulation_sent == NULL) return;
  const method *kinds[] = {&methods[2], &methods[6]};
  for (size_t k = 0; k < 2; k++) {
    setting s;
    fopo_slice slice;
    open_setting(&s, kinds[k], gpu);
    size_t epoch = fopo_trainer_steps_per_epoch(s.t);
    ok(fopo_trainer_advance(s.t, epoch, &slice));
    size_t before = emulation_sent();
    ok(fopo_trainer_advance(s.t, epoch, &slice));
    size_t went = emulation_sent() - before, theta = L * L * sizeof(float);
    size_t numbers = 8 + 24; /* of the one step that is replayed */
    assert_int_equal(went, N * sizeof(uint32_t) + theta + sizeof(fopo_totals) + numbers);
    assert_int_equal(fopo_index_about(s.ix).queries, 0); /* the card searches itself */
    assert_true(slice.mean.n_with_candidates == N && slice.mean.short_rows == 0);
    close_setting(&s);
  }
}

/* Compares the parameters, up to rounding, and the candidate caches. */
static void assert_alike(setting *a, setting *b) {
  fopo_candidate_cache *v = &a->t->cache, *w = &b->t->cache;
  assert_true(off(b->pi.theta.x, a->pi.theta.x, L * L) <= allowed());
  ok(fopo_candidate_cache_fetch(v));
  ok(fopo_candidate_cache_fetch(w));
  assert_memory_equal(v->served, w->served, N * sizeof *v->served);
  assert_memory_equal(v->counts, w->counts, N * sizeof *v->counts);
  size_t other = 0;
  for (size_t i = 0; i < N * K; i++) other += v->ids[i] != w->ids[i];
  assert_true(other <= N * K / 50); /* equal scores change places */
}

/* A run that moves to the other device, by a checkpoint or directly, equals one that stayed. */
TEST(test_moved) {
  fopo_device *on[] = {cpu, gpu};
  char path[64];
  fopo_slice slice;
  snprintf(path, sizeof path, "/tmp/fopo_cuda_%d.npz", (int)getpid());
  for (int from = 0; from < 2; from++) {
    setting stays, resumes, gives, takes;
    open_setting(&stays, &methods[2], on[from]);
    open_setting(&resumes, &methods[2], on[1 - from]);
    open_setting(&gives, &methods[2], on[from]);
    open_setting(&takes, &methods[2], on[1 - from]);
    ok(fopo_trainer_advance(stays.t, 5, &slice));
    ok(fopo_trainer_save(stays.t, path, NULL, 0));
    ok(fopo_trainer_resume(resumes.t, path, NULL));
    ok(fopo_trainer_resume(gives.t, path, NULL));
    ok(fopo_trainer_move_state(takes.t, gives.t));
    assert_int_equal(gives.t->cache.N, 0);
    assert_alike(&stays, &resumes);
    assert_alike(&stays, &takes);
    ok(fopo_trainer_advance(stays.t, 5, &slice));
    ok(fopo_trainer_advance(resumes.t, 5, &slice));
    ok(fopo_trainer_advance(takes.t, 5, &slice));
    assert_alike(&stays, &resumes);
    assert_alike(&stays, &takes);
    close_setting(&stays);
    close_setting(&resumes);
    close_setting(&takes);
    close_setting(&gives); /* only now: the other run uses its index */
  }
  unlink(path);
}

/* ---- steps that the host does not wait for ---- */

/* The sums of a record of 6 steps in slices of `at_once`. */
static fopo_statistics record_of(const method *m, size_t at_once) {
  setting s;
  fopo_slice slice;
  open_small(&s, m, gpu);
  for (size_t made = 0; made < 6; made += at_once) ok(fopo_trainer_advance(s.t, at_once, &slice));
  fopo_statistics sum = fopo_trainer_record(s.t)->sum;
  close_setting(&s);
  return sum;
}

/* The statistics of a record are the same to the bit wherever its slices end. */
TEST(test_sums) {
  const size_t some[] = {0, 1, 2, 6, 7};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    fopo_statistics whole = record_of(&methods[some[i]], 6);
    assert_true(whole.steps == 6 && whole.contexts == 18 && whole.norm > 0);
    for (size_t at_once = 1; at_once <= 3; at_once++) {
      fopo_statistics cut = record_of(&methods[some[i]], at_once);
      assert_memory_equal(&cut, &whole, sizeof cut);
    }
  }
}

/* Equal bits in three ways: slices of one step, each launched directly and waited for; a long
 * slice, replayed as a CUDA graph without waiting; and a long slice with recording switched off. */
TEST(test_recorded) {
  const method *kinds[] = {&methods[0], &methods[2], &methods[6], &methods[7]};
  for (size_t k = 0; k < 4; k++) {
    setting one, many;
    fopo_slice a, b;
    open_small(&one, kinds[k], gpu);
    open_small(&many, kinds[k], gpu);
    for (int i = 0; i < 9; i++) ok(fopo_trainer_advance(one.t, 1, &a));
    many.t->stride = 64;
    setting plain;
    open_small(&plain, kinds[k], gpu);
    setenv("FOPO_RECORD", "0", 1);
    ok(fopo_trainer_advance(plain.t, 9, &b));
    unsetenv("FOPO_RECORD");
    assert_memory_equal(one.pi.theta.x, plain.pi.theta.x, SMALL * SMALL * sizeof(float));
    close_setting(&plain);
    long waits = emulation_waits != NULL ? emulation_waits() : 0;
    long replays = emulation_replays != NULL ? emulation_replays() : 0;
    ok(fopo_trainer_advance(many.t, 9, &b));
    if (k == 0 && emulation_waits != NULL) assert_true(emulation_waits() - waits <= 3);
    if (emulation_replays != NULL) assert_true(emulation_replays() - replays >= (k == 0 ? 5 : 2));
    assert_memory_equal(one.pi.theta.x, many.pi.theta.x, SMALL * SMALL * sizeof(float));
    assert_int_equal(b.steps, 9);
    assert_true(b.seconds > 0 && many.t->on_device > 0);
    assert_int_equal(fopo_trainer_step(many.t), 9);
    assert_true(isfinite(b.mean.norm) && b.mean.norm > 0);
    assert_true(b.mean.head_mass >= 0 && b.mean.head_mass <= 1 && b.mean.ess >= 1);
    close_setting(&one);
    close_setting(&many);
  }
}

/* What a step launches when it is replayed: kernels and products, and copies beside the numbers of
 * the steps. docs/gpu.md has the same counts, from scripts/bench/gpu_model.lua. */
TEST(test_launches) {
  enum { STEPS = 3 }; /* an epoch */
  method rounded = methods[7];
  rounded.products = FOPO_PRODUCTS_AUTO;
  const struct {
    const method *m;
    long launches;
  } kinds[] = {
      {&methods[0], 4}, {&methods[2], 5}, {&methods[6], 4}, {&methods[7], 8}, {&rounded, 9}};
  if (emulation_launches == NULL) return;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    setting s;
    fopo_slice slice;
    open_small(&s, kinds[k].m, gpu);
    s.t->stride = 1024;
    size_t epoch = fopo_trainer_steps_per_epoch(s.t);
    assert_int_equal(epoch, STEPS);
    ok(fopo_trainer_advance(s.t, 2 * epoch, &slice)); /* sets are kept from then on for an epoch */
    long launches = emulation_launches(), copies = emulation_copies();
    ok(fopo_trainer_advance(s.t, epoch, &slice));
    assert_int_equal(emulation_launches() - launches, STEPS * kinds[k].launches);
    /* theta, the totals and the order to the card, and the numbers of what is replayed; the totals
     * and theta back */
    assert_true(emulation_copies() - copies <= 6);
    close_setting(&s);
  }
}

/* Steps of one kernel (FOPO_GPU_PERSISTENT), whose blocks wait for each other: the bits of steps of
 * their own if as many blocks share a context; of a shared head, which it sums in another order,
 * the same numbers. So too if the run is saved and resumed, and with masks, clipping and a
 * schedule. A step that it does not know is left to the graph. */
TEST(test_persistent) {
  enum { FIRST = 7, ALL = 16, LONG = 36, NUMBERS = LONG * LONG };
  method rounded = methods[7];
  rounded.products = FOPO_PRODUCTS_AUTO;
  const struct {
    const method *m;
    const char *rows; /* on their way */
    int masks, same_bits, persistent;
  } kinds[] = {{&methods[0], "1", 0, 1, 1},
               {&methods[0], "2", 1, 1, 1},
               {&methods[7], "2", 0, 0, 1},
               {&rounded, "1", 1, 0, 1},
               {&methods[2], "1", 0, 1, 0}};
  char path[64];
  snprintf(path, sizeof path, "/tmp/fopo_persistent_%d.npz", (int)getpid());
  setenv("FOPO_GPU_SPLITS", "2", 1);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    setting s[3];
    fopo_slice slice[3];
    long launches = 0;
    for (int i = 0; i < 3; i++) {
      s[i] = (setting){.masks = kinds[k].masks};
      small_world_init(&s[i].w, 90, 9, LONG, 0.05, 0.1, 3);
      ok(begin(&s[i], kinds[k].m, gpu));
      fopo_optim_options *o = &s[i].optim.options;
      o->clip = k % 2 ? 0.02 : 0.0, o->weight_decay = 0.1, o->decoupled = 1;
      o->schedule = (fopo_schedule){.kind = FOPO_SCHEDULE_COSINE, .warmup = 3, .steps = 20};
      s[i].t->stride = 64;
    }
    ok(fopo_trainer_advance(s[0].t, FIRST, &slice[0]));
    ok(fopo_trainer_advance(s[0].t, ALL - FIRST, &slice[0]));
    setenv("FOPO_GPU_PERSISTENT", kinds[k].rows, 1);
    if (emulation_launches != NULL) launches = emulation_launches();
    ok(fopo_trainer_advance(s[1].t, FIRST, &slice[1]));
    if (emulation_launches != NULL) { /* a step of its own, then one launch an epoch, or many */
      launches = emulation_launches() - launches;
      assert_true(kinds[k].persistent ? launches < 3 * FIRST : launches > 4 * FIRST);
    }
    ok(fopo_trainer_save(s[1].t, path, NULL, 0));
    ok(fopo_trainer_resume(s[2].t, path, NULL));
    for (int i = 1; i < 3; i++) ok(fopo_trainer_advance(s[i].t, ALL - FIRST, &slice[i]));
    unsetenv("FOPO_GPU_PERSISTENT");
    const float *theta[] = {s[0].pi.theta.x, s[1].pi.theta.x, s[2].pi.theta.x};
    fopo_statistics *mean = &slice[0].mean, *mean1 = &slice[1].mean;
    assert_memory_equal(theta[1], theta[2], NUMBERS * sizeof(float));
    if (kinds[k].same_bits) {
      assert_memory_equal(theta[0], theta[1], NUMBERS * sizeof(float));
      assert_memory_equal(mean, mean1, sizeof *mean);
    }
    double apart = off(theta[1], theta[0], NUMBERS);
    if (apart > 1e-5) fail_msg("%s: theta differs by %.2e", kinds[k].m->name, apart);
    for (size_t i = 0; i < FOPO_STATISTIC_ROWS; i++) {
      double a = fopo_statistics_get(mean, i), b = fopo_statistics_get(mean1, i);
      if (fabs(a - b) > 1e-4 * (fabs(a) + 1)) fail_msg("statistic %zu: %g and %g", i, a, b);
    }
    for (int i = 0; i < 3; i++) close_setting(&s[i]);
  }
  unsetenv("FOPO_GPU_SPLITS");
  unlink(path);
}

static double most_apart(const float *a, const float *b, size_t n) {
  double most = 0;
  for (size_t i = 0; i < n; i++) {
    double apart = fabs((double)a[i] - (double)b[i]);
    if (!(apart <= most)) most = apart; /* NaN counts; fmax in this loop crashes gcc 12 for arm64 */
  }
  return most;
}

/* A schedule, clipping and decoupled weight decay in recorded steps: the bits of steps that were
 * waited for, and the CPU's numbers. Without the schedule they are others. */
TEST(test_recorded_schedule) {
  enum { STEPS = 12, NUMBERS = SMALL * SMALL };
  for (int k = 0; fopo_optimisers[k] != NULL; k++) {
    const fopo_optimiser *kind = fopo_optimisers[k];
    fopo_device *on[] = {gpu, gpu, cpu, cpu};
    setting s[4];
    fopo_slice slice;
    for (int i = 0; i < 4; i++) {
      open_small(&s[i], &methods[0], on[i]);
      fopo_optim_options *o = &s[i].optim.options;
      if (k > 0) *o = (fopo_optim_options){.kind = kind, .momentum = 0.9, .eps = 1e-10};
      o->lr = kind == &fopo_optimiser_sgd ? 3.0 : 0.05;
      o->clip = 0.02;
      o->weight_decay = 0.1;
      o->decoupled = 1;
      o->schedule = (fopo_schedule){.kind = FOPO_SCHEDULE_COSINE, .warmup = 3, .steps = 10};
      if (i == 3) o->schedule = (fopo_schedule){0};
    }
    for (int i = 0; i < STEPS; i++) ok(fopo_trainer_advance(s[0].t, 1, &slice));
    s[1].t->stride = 64;
    long replays = emulation_replays != NULL ? emulation_replays() : 0;
    for (int i = 1; i < 4; i++) ok(fopo_trainer_advance(s[i].t, STEPS, &slice));
    if (emulation_replays != NULL) assert_true(emulation_replays() - replays >= STEPS - 4);
    assert_memory_equal(s[0].pi.theta.x, s[1].pi.theta.x, NUMBERS * sizeof(float));
    double apart = most_apart(s[1].pi.theta.x, s[2].pi.theta.x, NUMBERS);
    double without = most_apart(s[3].pi.theta.x, s[2].pi.theta.x, NUMBERS);
    if (apart > 1e-5 || without < 1e-3) fail_msg("apart %g, without %g", apart, without);
    for (int i = 0; i < 4; i++) close_setting(&s[i]);
  }
}

/* Options that are set between two slices are used in the next, not those of the recorded graph. */
TEST(test_record_anew) {
  setting one, many;
  fopo_slice slice;
  open_small(&one, &methods[2], gpu);
  open_small(&many, &methods[2], gpu);
  for (int turn = 0; turn < 4; turn++) {
    setting *s[] = {&one, &many};
    for (int i = 0; i < 2; i++) {
      fopo_gradient_options o = *fopo_gradient_get(s[i]->g);
      s[i]->optim.options.lr = 0.01 / (1 + turn);
      s[i]->optim.options.beta1 = turn == 1 ? 0.5 : 0.9;
      o.proposal.epsilon = turn == 2 ? 0.3 : 0.5;
      o.samples = turn == 3 ? SAMPLES / 2 : SAMPLES;
      o.proposal.refresh = 1000;
      ok(fopo_gradient_set(s[i]->g, &o));
    }
    for (int i = 0; i < 6; i++) ok(fopo_trainer_advance(one.t, 1, &slice));
    long replays = emulation_replays != NULL ? emulation_replays() : 0;
    ok(fopo_trainer_advance(many.t, 6, &slice));
    if (emulation_replays != NULL && turn > 0) assert_true(emulation_replays() - replays >= 2);
    assert_memory_equal(one.pi.theta.x, many.pi.theta.x, SMALL * SMALL * sizeof(float));
  }
  close_setting(&one);
  close_setting(&many);
}

/* One call fails, in a direct step, a recording or a replay: the run goes on or stops after a whole
 * step, and has the same bits when it goes on. */
TEST(test_record_faults) {
  enum { FIRST = 2, ALL = 8 };
  fopo_slice slice;
  setting whole;
  if (emulation_fail_at == NULL) return;
  open_small(&whole, &methods[0], gpu);
  ok(fopo_trainer_advance(whole.t, ALL, &slice));
  long went_on = 0, left = 0;
  for (long n = 0;; n++) {
    setting s;
    float before[SMALL * SMALL];
    open_small(&s, &methods[0], gpu);
    ok(fopo_trainer_advance(s.t, FIRST, &slice));
    memcpy(before, s.pi.theta.x, sizeof before);
    long calls = emulation_calls();
    s.t->stride = 64;
    emulation_fail_at(n, 2, 0);
    int status = fopo_trainer_advance(s.t, ALL - FIRST, &slice);
    int reached = emulation_calls() - calls > n;
    emulation_fail_at(-1, 0, 0);
    if (status != FOPO_OK) {
      assert_true(strstr(fopo_error_sentence(), "the GPU has too little memory") != NULL);
    }
    /* except theta, if copying it back failed at the end of the slice */
    if (memcmp(before, s.pi.theta.x, sizeof before) != 0) {
      size_t rest = ALL - fopo_trainer_step(s.t);
      if (rest > 0) ok(fopo_trainer_advance(s.t, rest, &slice));
      assert_memory_equal(s.pi.theta.x, whole.pi.theta.x, sizeof before);
      assert_int_equal(s.optim.t, ALL);
      went_on += reached && status == FOPO_OK;
      left += status != FOPO_OK;
    }
    close_setting(&s);
    if (!reached) break;
  }
  if (went_on < 10 || left < 5) fail_msg("%ld runs went on, %ld were left", went_on, left);
  close_setting(&whole);
}

/* A context that is NaN from the second epoch on: the step that draws it is named, as on the CPU,
 * and the steps queued after it are rolled back. */
TEST(test_broken) {
  enum { BAD = 17, EPOCH = 3 };
  fopo_device *on[] = {gpu, cpu};
  const method *kinds[] = {&methods[0], &methods[2], &methods[6]};
  float nothing[L];
  for (size_t i = 0; i < L; i++) nothing[i] = NAN;
  for (size_t k = 0; k < 3; k++) {
    char said[2][400];
    setting broken[2], whole;
    fopo_slice slice;
    for (int i = 0; i < 2; i++) {
      open_setting(&broken[i], kinds[k], on[i]);
      setting *s = &broken[i];
      const fopo_binding *data = fopo_gradient_binding(s->g);
      ok(fopo_trainer_advance(s->t, EPOCH, &slice));
      ok(on[i]->ops->put(on[i], data->device_contexts.x + BAD * data->contexts.ld, nothing,
                         sizeof nothing));
      s->t->stride = 64;
      refused(fopo_trainer_advance(s->t, 9, &slice), FOPO_ERR_NUMERIC, "is not finite");
      assert_int_equal(slice.steps + EPOCH, slice.step);
      assert_int_equal(slice.step, fopo_trainer_step(s->t));
      snprintf(said[i], sizeof said[i], "%s", fopo_error_sentence());
    }
    assert_string_equal(said[0], said[1]);
    uint64_t steps = fopo_trainer_step(broken[0].t);
    assert_true(steps >= EPOCH && steps < 2 * EPOCH);
    assert_int_equal(broken[0].optim.t, steps);
    open_setting(&whole, kinds[k], gpu);
    ok(fopo_trainer_advance(whole.t, steps, &slice));
    assert_memory_equal(whole.pi.theta.x, broken[0].pi.theta.x, whole.t->n_theta * sizeof(float));
    if (kinds[k]->refresh > 1) assert_alike(&whole, &broken[0]);
    close_setting(&whole);
    for (int i = 0; i < 2; i++) close_setting(&broken[i]);
  }
}

/* The same of steps of one kernel, of which the one that is not finite moves nothing. */
TEST(test_persistent_broken) {
  enum { BAD = 7, EPOCH = 3, LONG = 36 };
  float nothing[LONG];
  setting s[2];
  fopo_slice slice[2];
  char said[2][400];
  for (size_t i = 0; i < LONG; i++) nothing[i] = NAN;
  setenv("FOPO_GPU_SPLITS", "2", 1);
  for (int i = 0; i < 2; i++) {
    s[i] = (setting){0};
    small_world_init(&s[i].w, 90, 9, LONG, 0.05, 0.1, 3);
    ok(begin(&s[i], &methods[0], gpu));
    s[i].t->stride = 64;
    ok(fopo_trainer_advance(s[i].t, EPOCH, &slice[i]));
    const fopo_binding *data = fopo_gradient_binding(s[i].g);
    ok(gpu->ops->put(gpu, data->device_contexts.x + BAD * data->contexts.ld, nothing,
                     sizeof nothing));
    if (i == 1) setenv("FOPO_GPU_PERSISTENT", "1", 1);
    refused(fopo_trainer_advance(s[i].t, 9, &slice[i]), FOPO_ERR_NUMERIC, "is not finite");
    unsetenv("FOPO_GPU_PERSISTENT");
    snprintf(said[i], sizeof said[i], "%s", fopo_error_sentence());
  }
  unsetenv("FOPO_GPU_SPLITS");
  assert_string_equal(said[0], said[1]);
  assert_int_equal(fopo_trainer_step(s[0].t), fopo_trainer_step(s[1].t));
  assert_true(fopo_trainer_step(s[1].t) > EPOCH);
  assert_memory_equal(s[0].pi.theta.x, s[1].pi.theta.x, LONG * LONG * sizeof(float));
  for (int i = 0; i < 2; i++) close_setting(&s[i]);
}

/* An interruption: the steps that are queued are made, and no further one. */
static int after_five(void *polls) { return ++*(int *)polls > 5; }

TEST(test_interrupted_run) {
  int polls = 0;
  setting cut, whole;
  fopo_slice slice;
  open_small(&cut, &methods[0], gpu);
  open_small(&whole, &methods[0], gpu);
  cut.t->stride = 64;
  fopo_interrupt_by(after_five, &polls);
  refused(fopo_trainer_advance(cut.t, 40, &slice), FOPO_ERR_INTERRUPTED, "interrupted");
  fopo_interrupt_by(NULL, NULL);
  assert_true(slice.steps >= 4 && slice.steps < 40);
  ok(fopo_trainer_advance(whole.t, slice.steps, &slice));
  assert_memory_equal(whole.pi.theta.x, cut.pi.theta.x, SMALL * SMALL * sizeof(float));
  close_setting(&cut);
  close_setting(&whole);
}

/* The adaptive epsilon sees the results of its probes, and changes as on the CPU. */
TEST(test_adaptive) {
  fopo_device *on[] = {cpu, gpu};
  setting s[2];
  fopo_slice slice;
  for (int i = 0; i < 2; i++) {
    open_small(&s[i], &methods[1], on[i]);
    fopo_gradient_options o = *fopo_gradient_get(s[i].g);
    o.proposal.adaptive = 1;
    o.proposal.epsilon = 1;
    o.proposal.floor = 0.1;
    o.samples = 20;
    ok(fopo_gradient_set(s[i].g, &o));
    ok(fopo_trainer_advance(s[i].t, 52, &slice));
    ok(fopo_trainer_advance(s[i].t, 2, &slice));
  }
  assert_int_equal(s[0].t->cache.batches, s[1].t->cache.batches);
  assert_true(fabs(s[0].t->cache.mass - s[1].t->cache.mass) < 1e-4);
  assert_true(off(s[1].pi.theta.x, s[0].pi.theta.x, SMALL * SMALL) < 2e-2);
  for (int i = 0; i < 2; i++) close_setting(&s[i]);
}

/* ---- memory that does not suffice ---- */

static uint64_t free_on_card(void) {
  uint64_t left, all;
  ok(gpu->ops->memory(gpu, &left, &all));
  assert_true(left <= all);
  return left;
}

/* A training whose data do not fit is refused before anything is sent; and none is that has just
 * the memory that it took before. */
TEST(test_memory) {
  const method *some[] = {&methods[0], &methods[2], &methods[7], &methods[9], &methods[11]};
  const uint64_t whole = (uint64_t)2 << 30, items = (uint64_t)P * L * sizeof(float);
  if (emulation_memory == NULL) return;
  for (size_t k = 0; k < 5; k++) {
    setting s;
    fopo_slice slice;
    uint64_t before = free_on_card();
    size_t sent_before = emulation_sent(), live = emulation_live();
    s = (setting){0};
    small_world_init(&s.w, P, N, L, 0.05, 0.1, 3);
    emulation_memory(whole - before + items);
    refused(begin(&s, some[k], gpu), FOPO_ERR_MEMORY, "the training needs");
    says("use fewer items or contexts");
    assert_int_equal(emulation_sent(), sent_before);
    assert_int_equal(emulation_live(), live);
    close_setting(&s);
    emulation_memory(whole);
    uint64_t taken = 0;
    for (int again = 0; again < 2; again++) {
      if (again) emulation_memory(whole - before + taken);
      open_setting(&s, some[k], gpu);
      ok(fopo_trainer_advance(s.t, 1, &slice));
      taken = before - (again ? before : free_on_card());
      close_setting(&s);
      emulation_memory(whole);
    }
  }
}

/* ---- no usable card ---- */

TEST(test_absent) {
  fopo_device *d = NULL;
  char text[2000];
  ok(fopo_device_cards(text, sizeof text));
  assert_true(strlen(text) > 10);
  if (emulation_driver == NULL) return;
  emulation_driver(0);
  refused(fopo_device_open(&d, "cuda"), FOPO_ERR_UNAVAILABLE, "there is no NVIDIA driver");
  assert_null(d);
  refused(fopo_device_cards(text, sizeof text), FOPO_ERR_UNAVAILABLE, "driver");
  emulation_driver(11040);
  refused(fopo_device_open(&d, "cuda"), FOPO_ERR_UNAVAILABLE,
          "supports CUDA 11.4 but this build needs 13.0");
  ok(fopo_device_open(&d, "auto"));
  assert_string_equal(d->ops->kind, "cpu");
  assert_non_null(strstr(d->note, "supports CUDA 11.4"));
  assert_null(strstr(d->note, "device ="));
  fopo_device_close(d);
  emulation_driver(13000);
  ok(fopo_device_open(&d, "auto"));
  assert_string_equal(d->ops->kind, "cuda");
  fopo_device_close(d);
}

/* ---- faults, in children ---- */

enum { FINE = 0, WRONG = 2 };

/* A training, and which of its calls fail: every `step`-th from `first` on, each in a child. */
typedef struct {
  const method *m;
  long first, step;
  int code, for_ever;
  long calls, faults; /* so far */
  int failing;        /* 1: this is a child */
} fault_plan;
static fault_plan plan;

/* Where a call shall fail, the process forks, and the call fails in the child: so all children
 * share what was done before it. */
static void fail_in_child(void) {
  long n = plan.calls++;
  if (n < plan.first || (n - plan.first) % plan.step != 0) return;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    plan.failing = 1;
    emulation_at_calls(NULL);
    emulation_fail_at(0, plan.code, plan.for_ever);
    return;
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
    fprintf(stderr, "%s: call %ld with error %d ends the program\n", plan.m->name, n, plan.code);
    _exit(WRONG);
  }
  if (WEXITSTATUS(status) != FINE) {
    fprintf(stderr, "%s: after error %d at call %ld something is lost, left or unsaid\n",
            plan.m->name, plan.code, n);
    _exit(WRONG);
  }
  plan.faults++;
}

/* Opens a device, trains 2 steps, or 4 of which 2 are replayed, and closes it. */
static int run_with_faults(void) {
  const method *m = plan.m;
  setting s = {0};
  fopo_slice slice;
  fopo_device *d = NULL;
  small_world_init(&s.w, 90, m->graph ? m->graph : 9, 4, 0.05, 0.1, 3);
  fopo_memory_use before = fopo_memory_in_use();
  size_t live = emulation_live();
  emulation_at_calls(fail_in_child);
  int status = fopo_device_open(&d, "cuda");
  int opened = status == FOPO_OK;
  if (status == FOPO_OK) status = begin(&s, m, d);
  if (status == FOPO_OK) status = fopo_trainer_advance(s.t, m == methods ? 4 : 2, &slice);
  if (status != FOPO_OK && strlen(fopo_error_sentence()) < 20) return WRONG;
  if (status == FOPO_OK || opened) {
    for (size_t i = 0; i < s.pi.theta.rows * s.pi.theta.cols; i++) { /* the host's theta is whole */
      if (s.pi.theta.x != NULL && !isfinite(s.pi.theta.x[i])) return WRONG;
    }
  }
  end(&s);
  fopo_device_close(d);
  emulation_at_calls(NULL);
  emulation_fail_at(-1, 0, 0);
  if (!opened && d != NULL) return WRONG;
  if (emulation_live() != live || fopo_memory_in_use().blocks != before.blocks) return WRONG;
  if (!plan.failing && status != FOPO_OK) return WRONG;

  /* the session can go on: on the CPU always, on the card unless the error was sticky */
  setting again = {.w = s.w};
  fopo_device *next = NULL;
  if (fopo_device_open(&next, "cpu") != FOPO_OK) return WRONG;
  if (begin(&again, m, next) != FOPO_OK) return WRONG;
  if (fopo_trainer_advance(again.t, 1, &slice) != FOPO_OK) return WRONG;
  end(&again);
  fopo_device_close(next);
  status = fopo_device_open(&next, "cuda");
  if (plan.code == 2 && status != FOPO_OK) return WRONG;
  if (status != FOPO_OK && strstr(fopo_error_sentence(), "is restarted") == NULL) return WRONG;
  if (status == FOPO_OK) fopo_device_close(next);
  return FINE;
}

/* The faults of the plan, in a child whose state nobody else needs. Returns how many there were. */
static long plant_faults(fault_plan p) {
  int to_parent[2], status;
  long faults = 0;
  assert_int_equal(pipe(to_parent), 0);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    plan = p;
    status = run_with_faults();
    if (!plan.failing && write(to_parent[1], &plan.faults, sizeof plan.faults) < 0) status = WRONG;
    _exit(status);
  }
  close(to_parent[1]);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != FINE) {
    fail_msg("%s: the run with error %d is not fine", p.m->name, p.code);
  }
  assert_int_equal(read(to_parent[0], &faults, sizeof faults), sizeof faults);
  close(to_parent[0]);
  return faults;
}

/* Under the sanitizers, where a forked child takes long, only every ninth call fails. */
#ifdef __SANITIZE_ADDRESS__
static const long slowness = 9;
#else
static const long slowness = 1;
#endif

/* The calls that opening a device makes. */
static long calls_to_open(void) {
  fopo_device *d = NULL;
  long before = emulation_calls();
  ok(fopo_device_open(&d, "cuda"));
  long calls = emulation_calls() - before;
  fopo_device_close(d);
  return calls;
}

/* Out of memory at every call, and sticky errors at every third and seventh; those of the opening
 * fail for the first method alone. */
TEST(test_faults) {
  if (emulation_calls == NULL) return;
  const method pieces = {&fopo_estimator_snis, 0, 1, 0, 0, 1, 64, 0, 0, "a graph"};
  const method *some[] = {&methods[2], &methods[8], &pieces, &methods[0]};
  long faults = 0;
  fopo_threads_set(1);
  close_both(); /* a forked child has none of this process's OpenMP threads */
  long opening = calls_to_open();
  for (size_t k = 0; k < 4; k++) {
    const struct { int code, for_ever, step; } kinds[] = {{2, 0, 1}, {719, 1, 3}, {700, 1, 7}};
    for (size_t i = 0; i < 3; i++) {
      long step = kinds[i].step * (some[k]->graph ? 20 : 1) * slowness; /* a graph takes its time */
      faults += plant_faults((fault_plan){.m = some[k],
                                          .first = k > 0 ? opening : 0,
                                          .step = step,
                                          .code = kinds[i].code,
                                          .for_ever = kinds[i].for_ever});
    }
  }
  assert_true(faults > 250 / slowness);
  printf("%ld faults of the GPU\n", faults);
}

/* usage: test_cuda_runs [PATTERN], of the names of tests */
int main(int argc, char **argv) {
  if (!open_both()) return 77;
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  int failed = run_all(NULL, NULL);
  if (emulation_calls == NULL) close_both();
  return failed;
}
