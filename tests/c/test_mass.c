/* How many of the largest norms hold the policy's mass: the ladder, a probe against sorted scores
 * in double, what is made of it, what it costs, and runs without an index that a user chose. */
#include <unistd.h>

#include "core/progress.h"
#include "small_trainer.h"
#include "train/state.h"

FREED_BY(fopo_mass_probe_free, fopo_mass_probe)

enum { P = 3000, N = 40, L = 6, BATCH = 20, K = 40, PER_EPOCH = 2, STEPS = 301 };

/* ---- the ladder ---- */

TEST_WITH(test_ladder, no_leak) {
  static const uint64_t steps[] = {256,  512,  768,  1024, 1536,  2048,
                                   3072, 4096, 6144, 8192, 12288, 16384};
  uint64_t h = 0;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    assert_int_equal(h = fopo_mass_next(h, 1 << 20), steps[i]);
  }
  assert_int_equal(fopo_mass_next(1024, 3072), 1536);
  assert_int_equal(fopo_mass_next(1536, 3072), 3072); /* more than half: all */
  assert_int_equal(fopo_mass_next(0, 500), 500);
  for (h = 0; h < ((uint64_t)1 << 31); h = fopo_mass_next(h, (uint64_t)1 << 31)) {}
}

/* ---- the probe ---- */

/* Items whose norms fall as 1 / (1 + 4 i / n), in a random order of ids. */
static void shape_norms(fopo_matrix items) {
  for (size_t i = 0; i < items.rows; i++) {
    size_t rank = i * 1237 % items.rows;
    float size = 1.0f / (1.0f + 4.0f * (float)rank / (float)items.rows);
    for (size_t l = 0; l < items.cols; l++) fopo_matrix_row(items, i)[l] *= size;
  }
}

static int descending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* kept(H) in double, of top k among the first `horizon` norms, over the contexts with an item; k =
 * horizon = all items: held(H). */
static double plain_share(const fopo_mass_order *o, fopo_matrix Q, size_t k, size_t head,
                          size_t horizon) {
  size_t n = o->items.cols;
  double share = 0.0, counted = 0.0, *w = fopo_alloc(horizon, sizeof *w);
  for (size_t b = 0; b < Q.rows; b++) {
    double T = 0.0, cumulated = 0.0;
    fopo_score_row row = fopo_score_row_of(o->sparse, b);
    for (size_t i = 0; i < horizon; i++) {
      double f = 0.0;
      const float *beta = fopo_matrix_row(o->items, o->order[i]);
      for (size_t l = 0; l < n; l++) f += (double)beta[l] * (double)fopo_matrix_row(Q, b)[l];
      w[i] = exp(f + (double)fopo_score_of(&row, o->order[i]));
      if (i < head) cumulated += w[i];
    }
    qsort(w, horizon, sizeof *w, descending);
    for (size_t i = 0; i < k; i++) T += w[i];
    if (T == 0.0) continue;
    share += fmin(1.0, cumulated / T);
    counted += 1.0;
  }
  fopo_free(w);
  return share / counted;
}

typedef struct {
  fopo_matrix items, Q;
  fopo_index *ix;
  uint32_t *ids;
  float *norms;
  fopo_mass_order order;
} catalogue;

static void catalogue_init(catalogue *c, size_t items, size_t contexts, double peak) {
  uint64_t version;
  *c = (catalogue){0};
  ok(fopo_matrix_init(&c->items, items, L));
  ok(fopo_matrix_init(&c->Q, contexts, L));
  fopo_fill_normal(c->items.x, items * L, 1.0, 5, FOPO_STREAM_WORLD);
  fopo_fill_normal(c->Q.x, contexts * L, peak, 6, FOPO_STREAM_WORLD);
  shape_norms(c->items);
  ok(fopo_index_norm(&c->ix, c->items, FOPO_BUDGET_AUTO));
  c->ids = fopo_alloc(items, sizeof *c->ids);
  c->norms = fopo_alloc(items, sizeof *c->norms);
  ok(fopo_index_order(c->ids, c->norms, &version, c->ix));
  c->order = (fopo_mass_order){.items = c->items, .order = c->ids, .norms = c->norms};
}

static void catalogue_done(catalogue *c) {
  fopo_matrix_done(&c->items);
  fopo_matrix_done(&c->Q);
  fopo_index_free(c->ix);
  fopo_free(c->ids);
  fopo_free(c->norms);
}

/* The step that a probe must want: the first of k items or more that keeps enough. */
static size_t plain_wanted(const catalogue *c, size_t k, double keep, size_t horizon) {
  size_t h = fopo_mass_next(0, c->items.rows);
  while (h < horizon && (h < k || plain_share(&c->order, c->Q, k, h, horizon) < keep)) {
    h = (size_t)fopo_mass_next(h, c->items.rows);
  }
  return h;
}

/* A share of the whole mass, which 512 items stand for where the pass has ended. */
static void check_held(const catalogue *c, uint64_t H, double held) {
  size_t n = c->items.rows;
  double wanted = plain_share(&c->order, c->Q, n, (size_t)H, n);
  print_message("  %zu norms hold %.4f of all mass, in double %.4f\n", (size_t)H, held, wanted);
  assert_true(held <= 1.0 && fabs(held - wanted) < 0.02);
}

TEST_WITH(test_probe, no_leak) {
  static const struct {
    size_t items, contexts, k, head, horizon;
    double peak, keep;
  } cases[] = {{9001, 16, 32, 0, 9001, 2.0, 0.995},   {9001, 16, 32, 512, 2048, 2.0, 0.995},
               {9001, 5, 300, 256, 9001, 0.5, 0.995}, {9001, 1, 1, 0, 9001, 6.0, 0.9},
               {20000, 16, 64, 0, 20000, 3.0, 0.999}, {300, 3, 20, 0, 300, 1.0, 0.995},
               {9001, 16, 32, 9001, 9001, 2.0, 0.5}};
  FREED(fopo_mass_probe_free) fopo_mass_probe *p = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    DONE(catalogue_done) catalogue c;
    fopo_mass_found one, found;
    size_t k = cases[i].k, horizon = cases[i].horizon, head = cases[i].head;
    catalogue_init(&c, cases[i].items, cases[i].contexts, cases[i].peak);
    ok(fopo_mass_probe_reserve(&p, L, k));
    ok(fopo_mass_measure(&one, p, &c.order, c.Q, k, cases[i].keep, head, horizon));
    ok(fopo_threads_set(3));
    ok(fopo_mass_measure(&found, p, &c.order, c.Q, k, cases[i].keep, head, horizon));
    ok(fopo_threads_set(1));
    assert_memory_equal(&one, &found, offsetof(fopo_mass_found, complete)); /* no padding */
    assert_int_equal(one.complete, found.complete);
    size_t wanted = plain_wanted(&c, k, cases[i].keep, horizon);
    size_t found_step = (size_t)one.wanted < horizon ? (size_t)one.wanted : horizon;
    double kept = plain_share(&c.order, c.Q, k, found_step, horizon);
    print_message("%zu items, top %zu: %zu norms keep %.5f, in double %.5f; %zu of %zu rows\n",
                  cases[i].items, k, (size_t)one.wanted, one.kept, kept, (size_t)one.rows,
                  cases[i].contexts * cases[i].items);
    /* a pass that ends early may take a top K for a little more than it is */
    int flat = cases[i].peak < 1.0 && one.rows < cases[i].contexts * horizon;
    if (!flat || one.wanted != fopo_mass_next(wanted, cases[i].items)) {
      assert_int_equal(one.wanted, wanted);
    }
    assert_true(one.kept < kept + 1e-3 && (flat || one.kept > kept - 5e-3));
    assert_true(one.complete || horizon < cases[i].items);
    size_t most = horizon + 512 < cases[i].items ? horizon + 512 : cases[i].items;
    assert_true(one.rows <= cases[i].contexts * most);
    check_held(&c, one.wanted, one.held);
    if (head > 0) check_held(&c, head, one.held_at_head);
  }
}

/* Sparse scores of 16 contexts: of the item in every `step`-th place of the norm order, of all but
 * that of the smallest norm, of all, of none. */
static void make_sparse(fopo_csr *X, const catalogue *c) {
  size_t items = c->items.rows, n = 0;
  FREED(fopo_free) uint8_t *is_entry = fopo_alloc(items, 1);
  ok(fopo_csr_init(X, FOPO_MASS_CONTEXTS, items, FOPO_MASS_CONTEXTS * items, 1));
  for (size_t b = 0; b < X->rows; b++) {
    memset(is_entry, b == 1 || b == 2, items);
    if (b == 1) is_entry[c->ids[items - 1]] = 0;
    for (size_t i = 0; b > 3 && i < items; i += b - 2) is_entry[c->ids[i]] = 1;
    for (size_t a = 0; a < items; a++) {
      if (is_entry[a]) X->ids[n++] = (uint32_t)a;
    }
    X->indptr[b + 1] = n;
  }
  fopo_fill_normal(X->values, n, 1.5, 9, FOPO_STREAM_WORLD);
}

/* The same of a catalogue that is dealt out, to this process alone. */
static void check_dealt(fopo_mass_probe *p, const catalogue *c, const fopo_mass_found *whole) {
  DONE(fopo_shard_done) fopo_shard shard = {0};
  DONE(catalogue_done) catalogue dealt = {0};
  fopo_mass_found found;
  uint64_t version;
  ok(fopo_shard_deal(&shard, c->items));
  dealt.ids = fopo_alloc(c->items.rows, sizeof *dealt.ids);
  dealt.norms = fopo_alloc(c->items.rows, sizeof *dealt.norms);
  ok(fopo_index_norm(&dealt.ix, shard.items, FOPO_BUDGET_AUTO));
  ok(fopo_index_order(dealt.ids, dealt.norms, &version, dealt.ix));
  dealt.order = (fopo_mass_order){.items = shard.items,
                                  .order = dealt.ids,
                                  .norms = dealt.norms,
                                  .shard = &shard,
                                  .sparse = c->order.sparse};
  ok(fopo_mass_measure(&found, p, &dealt.order, c->Q, 32, 0.995, 256, 9001));
  assert_int_equal(found.wanted, whole->wanted);
  assert_true(fabs(found.held - whole->held) < 1e-6);
  assert_true(fabs(found.held_at_head - whole->held_at_head) < 1e-6);
}

/* Masks, and values: half of the largest norms are masked in some contexts. */
TEST_WITH(test_probe_sparse, no_leak) {
  FREED(fopo_mass_probe_free) fopo_mass_probe *p = NULL;
  DONE(catalogue_done) catalogue c;
  DONE(fopo_csr_done) fopo_csr X = {0};
  catalogue_init(&c, 9001, 16, 2.0);
  make_sparse(&X, &c);
  ok(fopo_mass_probe_reserve(&p, L, 32));
  fopo_mass_found none, found, again;
  ok(fopo_mass_measure(&none, p, &c.order, c.Q, 32, 0.995, 0, 9001));
  for (int i = 0; i < 4; i++) {
    size_t horizon = i / 2 ? 2048 : 9001;
    fopo_sparse_scores s = fopo_mask_of(&X);
    if (i % 2) s.values = X.values;
    c.order.sparse = &s;
    ok(fopo_mass_measure(&found, p, &c.order, c.Q, 32, 0.995, 256, horizon));
    ok(fopo_threads_set(3));
    ok(fopo_mass_measure(&again, p, &c.order, c.Q, 32, 0.995, 256, horizon));
    ok(fopo_threads_set(1));
    assert_memory_equal(&found, &again, offsetof(fopo_mass_found, complete));
    size_t wanted = plain_wanted(&c, 32, 0.995, horizon);
    double kept = plain_share(&c.order, c.Q, 32, wanted < horizon ? wanted : horizon, horizon);
    print_message("%s: %zu norms keep %.5f, in double %.5f; %zu rows\n", i % 2 ? "values" : "mask",
                  (size_t)found.wanted, found.kept, kept, (size_t)found.rows);
    assert_int_equal(found.wanted, wanted);
    assert_true(fabs(found.kept - kept) < 1e-3);
    if (horizon == 9001) check_held(&c, wanted, found.held); /* else one context is overlooked */
    assert_true(found.held_at_head < found.held);
    if (horizon == 9001) check_dealt(p, &c, &found);
  }
  /* One context alone: no item is left, so that nothing is missed, or the last one. */
  fopo_sparse_scores s = fopo_mask_of(&X);
  c.order.sparse = &s;
  for (uint32_t b = 1; b < 3; b++) {
    s.rows = &b;
    ok(fopo_mass_measure(&found, p, &c.order, fopo_matrix_rows(c.Q, 0, 1), 32, 0.995, 0, 9001));
    assert_int_equal(found.wanted, b == 1 ? 9001 : 256);
    assert_true(found.complete && found.rows == 9001 && found.held == 1.0);
  }
  /* Rows without entries change nothing; nor does a mask that is gone. */
  uint32_t empty[FOPO_MASS_CONTEXTS];
  for (size_t b = 0; b < FOPO_MASS_CONTEXTS; b++) empty[b] = 0;
  s.rows = empty;
  ok(fopo_mass_measure(&found, p, &c.order, c.Q, 32, 0.995, 0, 9001));
  assert_memory_equal(&found, &none, offsetof(fopo_mass_found, complete));
  fopo_mass_probe_free(p);
  p = NULL;
  ok(fopo_mass_probe_reserve(&p, L, 32));
  s.rows = NULL;
  for (int i = 0; i < 2; i++) { /* one array, then the other: what was got is kept */
    fopo_memory_fail_after(i == 0 ? 1 : 0, 0);
    assert_int_equal(fopo_mass_measure(&found, p, &c.order, c.Q, 32, 0.995, 0, 9001),
                     FOPO_ERR_MEMORY);
    fopo_memory_fail_after(-1, 0);
  }
  ok(fopo_mass_measure(&found, p, &c.order, c.Q, 32, 0.995, 0, 9001));
}

TEST_WITH(test_probe_interrupted, no_leak) {
  DONE(catalogue_done) catalogue c;
  fopo_mass_found found;
  FREED(fopo_mass_probe_free) fopo_mass_probe *p = NULL;
  catalogue_init(&c, 9001, 16, 2.0);
  ok(fopo_mass_probe_reserve(&p, L, 32));
  fopo_interrupt_request();
  refused(fopo_mass_measure(&found, p, &c.order, c.Q, 32, 0.995, 0, 9001), FOPO_ERR_INTERRUPTED,
          "interrupted");
  fopo_interrupt_clear();
}

/* ---- what is made of a probe ---- */

static uint64_t after(fopo_mass *m, uint64_t wanted, int complete) {
  fopo_mass_found found = {
      .wanted = wanted, .held = 0.999, .held_at_head = 1.0, .rows = 1, .complete = complete};
  fopo_mass_take(m, FOPO_MASS_FULL, &found);
  return m->head;
}

TEST_WITH(test_hysteresis, no_leak) {
  fopo_mass m = {0};
  assert_int_equal(after(&m, 512, 1), 512);
  assert_int_equal(after(&m, 2048, 0), 2048); /* grows at once */
  assert_int_equal(after(&m, 512, 1), 2048);
  assert_int_equal(after(&m, 1024, 1), 2048);
  assert_int_equal(after(&m, 256, 0), 2048); /* a near probe proves nothing */
  assert_int_equal(after(&m, 768, 1), 1024); /* the largest of three */
  assert_int_equal(after(&m, 256, 1), 1024);
  assert_int_equal(after(&m, 256, 1), 1024);
  assert_int_equal(after(&m, 1024, 1), 1024); /* no three in a row */
  assert_int_equal(after(&m, 256, 1), 1024);
  assert_int_equal(after(&m, 256, 1), 1024);
  assert_int_equal(after(&m, 256, 1), 256);
}

/* Whatever steps cost, probes stay within 3 % of them, but for the first one. */
TEST_WITH(test_cost, no_leak) {
  enum { ITEMS = 100000 };
  fopo_mass m = {0};
  uint64_t probes = 0, first = 0;
  for (uint32_t step = 0; step < 20000; step++) {
    fopo_mass_kind kind = fopo_mass_due(&m, 16, ITEMS);
    if (kind != FOPO_MASS_NONE) {
      uint64_t horizon = fopo_mass_horizon(&m, kind, 16, ITEMS);
      fopo_mass_found found = {
          .wanted = step < 5000 ? 512 : 4096,
          .complete = kind == FOPO_MASS_FULL,
          .rows = 16 * (kind == FOPO_MASS_FULL && step % 2 ? horizon / 5 : horizon)};
      fopo_mass_take(&m, kind, &found);
      first = first == 0 ? m.full : first;
      probes++;
    }
    m.rows += 32 * (64 + m.head);
    uint64_t spent = m.full + m.near;
    assert_true(spent <= first + m.rows * 3 / 100);
    assert_true(m.full == first || spent <= m.rows * 3 / 100);
  }
  assert_true(probes > 50);
}

/* ---- runs ---- */

static fopo_gradient_options automatic(int i) {
  fopo_gradient_options o = {
      .estimator = i == 1 ? &fopo_estimator_head_tail : &fopo_estimator_snis,
      .samples = 30,
      .proposal = {.kind = FOPO_PROPOSAL_MIXTURE, .k = K, .epsilon = i == 1 ? 0.0 : 0.5}};
  if (i == 2) o.proposal.refresh = 3;
  if (i == 3) {
    o.proposal.adaptive = 1;
    o.proposal.epsilon = 1.0;
    o.proposal.floor = 0.05;
  }
  return o;
}

enum { WHICH = 4 };

static void set_up(setting *s, int i, int custom) {
  memset(s, 0, sizeof *s);
  small_world_init(&s->w, P, N, L, 0.02, 0.6, 3);
  shape_norms(s->w.items);
  fopo_optim_options adam = adam_of(0.02);
  make_trainer(s, automatic(i), &adam, BATCH, custom);
}

static float *theta(const setting *s) { return s->w.pi.theta.x; }
static const size_t bytes = L * L * sizeof(float);

typedef struct {
  float theta[L * L];
  fopo_mass norms;
} outcome;

static outcome state_of(const setting *s) {
  outcome x = {.norms = *fopo_trainer_norms(s->t)};
  memcpy(x.theta, theta(s), bytes);
  return x;
}

/* custom: the caller fills the rewards, and a shared head is read item by item. */
static outcome whole_with(int i, int custom) {
  setting s;
  set_up(&s, i, custom);
  run(&s, STEPS);
  outcome x = state_of(&s);
  tear_down(&s);
  return x;
}

static outcome whole(int i) { return whole_with(i, 0); }

static void check_equal(const setting *s, const outcome *wanted) {
  outcome x = state_of(s);
  assert_memory_equal(x.theta, wanted->theta, bytes);
  assert_memory_equal(&x.norms, &wanted->norms, sizeof x.norms);
}

/* H moves with the policy, and by 3 threads as by one. */
TEST_WITH(test_run, no_leak) {
  for (int i = 0; i < WHICH; i++) {
    setting s;
    set_up(&s, i, 0);
    uint64_t least = P, most = 0;
    for (int step = 0; step < STEPS; step++) {
      run(&s, 1);
      uint64_t head = fopo_trainer_norms(s.t)->head;
      least = head < least ? head : least;
      most = head > most ? head : most;
    }
    outcome x = state_of(&s), threads;
    print_message("%d: %zu to %zu norms, held %.4f\n", i, (size_t)least, (size_t)most,
                  x.norms.held);
    assert_true(least >= 256 && most < P && (i > 0 || most > least));
    assert_true(x.norms.held > 0.5 && x.norms.held <= 1.0);
    tear_down(&s);
    ok(fopo_threads_set(3));
    threads = whole(i);
    ok(fopo_threads_set(1));
    assert_memory_equal(&x, &threads, sizeof x);
  }
}

/* With H = P a run has the bits of one over an index without a budget. */
TEST_WITH(test_exact, no_leak) {
  float wanted[L * L];
  for (int own = 0; own < 2; own++) {
    DONE(tear_down) setting s = {0};
    small_world_init(&s.w, 200, N, L, 0.1, 0.2, 3);
    fopo_optim_options adam = adam_of(0.02);
    if (own) ok(fopo_index_norm(&s.ix, s.w.items, 0));
    make_trainer(&s, automatic(0), &adam, BATCH, 0);
    run(&s, STEPS);
    assert_int_equal(fopo_trainer_norms(s.t)->head, own ? 0 : 200);
    if (own) assert_memory_equal(theta(&s), wanted, bytes);
    memcpy(wanted, theta(&s), bytes);
  }
}

/* An index of budget "auto" that the user made is limited in the same way; head and tail then takes
 * candidates of each context, and shares no head. */
TEST_WITH(test_own_index, no_leak) {
  for (int i = 0; i < WHICH; i++) {
    DONE(tear_down) setting s = {0};
    outcome wanted = whole(i);
    small_world_init(&s.w, P, N, L, 0.02, 0.6, 3);
    shape_norms(s.w.items);
    fopo_optim_options adam = adam_of(0.02);
    ok(fopo_index_norm(&s.ix, s.w.items, FOPO_BUDGET_AUTO));
    make_trainer(&s, automatic(i), &adam, BATCH, 0);
    run(&s, STEPS);
    if (i != 1) check_equal(&s, &wanted);
    assert_int_equal(fopo_index_about(s.ix).queries > 0, 1);
    assert_int_equal(fopo_gradient_work(s.g).head, 0);
    assert_true(fopo_index_about(s.ix).budget == FOPO_BUDGET_AUTO);
    assert_true(fopo_gradient_index(s.g) == s.ix);
  }
}

/* A norm index of all items that is lent is the automatic one, to the same bits, and stays when the
 * lender frees it; one of other items, of a part of them, or of another kind is not taken. */
TEST_WITH(test_lent, no_leak) {
  for (int i = 0; i < WHICH; i++) {
    outcome wanted = whole(i);
    for (int other = 0; other < 4; other++) {
      DONE(tear_down) setting s = {0};
      set_up(&s, i, 0);
      fopo_index *lent = NULL;
      fopo_matrix items = other == 1 ? fopo_matrix_rows(s.w.items, 0, P - 1) : s.w.items;
      ok(other == 3 ? fopo_index_exact(&lent, items)
                    : fopo_index_norm(&lent, items, other == 2 ? P / 2 : 0));
      fopo_gradient_lend(s.g, lent);
      run(&s, STEPS);
      assert_true((fopo_gradient_index(s.g) == lent) == (other == 0));
      check_equal(&s, &wanted);
      fopo_index_free(lent);
      run(&s, 1);
    }
  }
}

/* What head and tail makes of H: a head that all contexts share; above 8,192 items candidates among
 * H norms; above half the catalogue the last resort. */
TEST_WITH(test_change_over, no_leak) {
  enum { ITEMS = 40000 };
  static const struct {
    uint64_t head;
    size_t shared, limit;
  } cases[] = {{512, 512, 0}, {8192, 8192, 0}, {12288, 0, 12288}, {ITEMS, 0, 0}};
  setting s = {0};
  fopo_candidate_cache cache = {0};
  fopo_gradient_stats stats;
  small_world_init(&s.w, ITEMS, 8, L, 0.001, 0.6, 3);
  ok(fopo_index_exact(&s.ix, s.w.items));
  fopo_gradient_options o = automatic(1);
  o.proposal.index = s.ix;
  o.proposal.by_mass = 1;
  ok(fopo_gradient_new(&s.g, &o));
  ok(fopo_gradient_bind(s.g, s.w.device, &s.w.pi, fopo_contexts_of(s.w.contexts), &s.w.reward));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cache.norms = (fopo_mass){.head = cases[i].head, .full_cost = 1 << 20, .full = 1 << 20};
    fopo_gradient_open(s.g, &cache);
    ok(compute_gradient(s.g, (fopo_matrix){0}, &stats, s.w.rows, 8, (fopo_draw_key){1, 0}));
    fopo_work work = fopo_gradient_work(s.g);
    assert_int_equal(work.head, cases[i].shared);
    assert_int_equal(work.limit, cases[i].limit);
    assert_int_equal(fopo_index_about(s.ix).queries, cases[i].head == ITEMS ? 8 : 0);
    assert_true(stats.mean.head_mass > 0.0 && stats.mean.head_mass <= 1.0);
  }
  fopo_gradient_close(s.g);
  fopo_gradient_free(s.g);
  fopo_index_free(s.ix);
  small_world_done(&s.w);
}

/* A catalogue that a head and the tail cover together is enumerated: the exact gradient. */
TEST_WITH(test_covers_all, no_leak) {
  DONE(small_world_done) small_world w;
  FREED(fopo_gradient_free) fopo_gradient *g = NULL, *exact = NULL;
  fopo_gradient_stats stats;
  float G[L * L], wanted[L * L];
  small_world_init(&w, 400, 8, L, 0.05, 0.6, 3);
  fopo_gradient_options o = automatic(1);
  ok(fopo_gradient_new(&g, &o));
  ok(fopo_gradient_new(&exact, &(fopo_gradient_options){.estimator = &fopo_estimator_exact}));
  fopo_draw_key key = {1, 0};
  ok(fopo_gradient_bind(g, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
  ok(compute_gradient(g, fopo_matrix_view(G, L, L), &stats, w.rows, 8, key));
  assert_int_equal(fopo_gradient_work(g).head, 400 - 30);
  ok(fopo_gradient_bind(exact, w.device, &w.pi, fopo_contexts_of(w.contexts), &w.reward));
  ok(compute_gradient(exact, fopo_matrix_view(wanted, L, L), &stats, w.rows, 8, key));
  for (size_t i = 0; i < L * L; i++) assert_true(fabs((double)(G[i] - wanted[i])) < 1e-5);
  o.samples = 400;
  ok(fopo_gradient_set(g, &o));
  refused(compute_gradient(g, fopo_matrix_view(G, L, L), &stats, w.rows, 8, key), FOPO_ERR_ARGUMENT,
          "400 draws and 40 candidates are more than the 400 items");
}

static char path[64];

TEST_WITH(test_resume, no_leak) {
  for (int i = 0; i < WHICH; i++) {
    outcome wanted = whole(i);
    for (size_t first = 1; first < STEPS; first += 77) {
      DONE(tear_down) setting a, b;
      set_up(&a, i, 0);
      run(&a, first);
      ok(fopo_trainer_save(a.t, path, NULL, 0));
      set_up(&b, i, 0);
      run(&b, 2);
      ok(fopo_trainer_resume(b.t, path, NULL));
      assert_memory_equal(fopo_trainer_norms(a.t), fopo_trainer_norms(b.t), sizeof(fopo_mass));
      run(&a, STEPS - first);
      run(&b, STEPS - first);
      check_equal(&a, &wanted);
      check_equal(&b, &wanted);
    }
    unlink(path);
  }
}

/* A file with other numbers is refused, and changes nothing. */
TEST_WITH(test_file_refused, no_leak) {
  DONE(tear_down) setting s;
  fopo_archive file;
  set_up(&s, 0, 0);
  run(&s, 3);
  ok(fopo_trainer_save(s.t, path, NULL, 0));
  outcome before = state_of(&s);
  ok(fopo_npz_load(&file, path));
  uint64_t more = P + 1;
  memcpy(fopo_archive_find(&file, "norms")->data, &more, sizeof more);
  ok(fopo_npz_save(path, file.items, file.n, 0));
  fopo_archive_done(&file);
  refused(fopo_trainer_resume(s.t, path, NULL), FOPO_ERR_FORMAT, "3001 norms of 3000 items");
  check_equal(&s, &before);
  unlink(path);
}

/* A step that was given up, and one that was interrupted, leave no trace; nor does another use of
 * the gradient between two slices. */
TEST_WITH(test_given_up, no_leak) {
  for (int i = 0; i < WHICH; i++) {
    outcome wanted = whole_with(i, 1);
    fopo_slice slice;
    fopo_gradient_stats stats;
    DONE(tear_down) setting s;
    set_up(&s, i, 1);
    for (int done = 0; done < STEPS; done += 50) {
      int left = STEPS - done;
      assert_int_equal(fopo_trainer_advance(s.t, 3, &slice), FOPO_DRAWN);
      fopo_trainer_abandon(s.t);
      fopo_interrupt_request();
      assert_int_equal(fopo_trainer_advance(s.t, 3, &slice), FOPO_ERR_INTERRUPTED);
      fopo_interrupt_clear();
      ok(fopo_gradient_bind(s.g, s.w.device, &s.w.pi, fopo_contexts_of(s.w.contexts), &s.w.reward));
      ok(compute_gradient(s.g, (fopo_matrix){0}, &stats, s.w.rows, 5, (fopo_draw_key){1, 1}));
      ok(fopo_trainer_bind(s.t));
      run(&s, (size_t)(left < 50 ? left : 50));
    }
    check_equal(&s, &wanted);
  }
}

/* What a commit adds a rollback takes away. */
TEST_WITH(test_rollback, no_leak) {
  for (int i = 0; i < 2; i++) {
    DONE(tear_down) setting s;
    fopo_gradient_stats stats;
    set_up(&s, i, 0);
    fopo_gradient *g = s.g;
    assert_true(fopo_gradient_must_sync(g, s.w.rows, BATCH)); /* the first probe */
    ok(compute_gradient(g, (fopo_matrix){0}, &stats, s.w.rows, BATCH, (fopo_draw_key){1, 0}));
    fopo_mass before = *fopo_gradient_norms(g);
    assert_true(before.head > 0);
    int rolled = 0;
    for (uint32_t step = 1; step < 30 && !fopo_gradient_must_sync(g, s.w.rows, BATCH); step++) {
      ok(compute_gradient(g, (fopo_matrix){0}, &stats, s.w.rows, BATCH, (fopo_draw_key){1, step}));
      rolled++;
    }
    assert_true(rolled > 0 && fopo_gradient_norms(g)->rows > before.rows);
    while (rolled-- > 0) fopo_gradient_rollback(g, s.w.rows, BATCH);
    assert_memory_equal(fopo_gradient_norms(g), &before, sizeof before);
  }
}

/* Once H is found a step takes no memory, probes included. */
TEST_WITH(test_allocates_nothing, no_leak) {
  for (int i = 0; i < WHICH; i++) {
    DONE(tear_down) setting s;
    fopo_slice slice;
    set_up(&s, i, 0);
    /* A shared head that grows takes some, and so does the first search of adaptive, which comes
     * when it has explored. */
    run(&s, i == 1 || i == 3 ? STEPS : PER_EPOCH);
    uint64_t probed = fopo_trainer_norms(s.t)->near + fopo_trainer_norms(s.t)->full;
    fopo_memory_fail_after(0, 1);
    int status = fopo_trainer_advance(s.t, STEPS, &slice);
    fopo_memory_fail_after(-1, 0);
    ok(status);
    if (i < 2) assert_true(fopo_trainer_norms(s.t)->near + fopo_trainer_norms(s.t)->full > probed);
  }
}

int main(void) {
  fopo_threads_set(1);
  snprintf(path, sizeof path, "/tmp/fopo_test_mass_%d.npz", (int)getpid());
  return run_all(NULL, NULL);
}
