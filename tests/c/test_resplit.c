/* X and Y drawn anew each epoch: the distribution of what is drawn, and a training whose every
 * epoch is that of a trainer over the contexts of that epoch. */
#include <math.h>
#include <string.h>

#include "data/resplit.h"
#include "small_sessions.h"
#include "small_trainer.h"
#include "train/state.h"

enum { P = 300, N = 90, L = 6, BATCH = 16, EPOCHS = 4 };

/* Copies of X and Y of s, drawn for an epoch. */
static fopo_sessions draw(const fopo_sessions *s, uint64_t seed, uint32_t epoch) {
  fopo_sessions drawn = {0};
  size_t room = fopo_csr_nnz(&s->X) + fopo_csr_nnz(&s->Y);
  ok(fopo_csr_init(&drawn.X, s->X.rows, s->X.cols, room, 0));
  ok(fopo_csr_init(&drawn.Y, s->Y.rows, s->Y.cols, room, 0));
  memcpy(drawn.X.indptr, s->X.indptr, (s->X.rows + 1) * sizeof *s->X.indptr);
  memcpy(drawn.Y.indptr, s->Y.indptr, (s->Y.rows + 1) * sizeof *s->Y.indptr);
  fopo_resplit_draw(&drawn.X, &drawn.Y, s, seed, epoch);
  return drawn;
}

static int has(const fopo_csr *m, size_t row, uint32_t id) { return fopo_csr_contains(m, row, id); }

static void same_lists(const fopo_csr *a, const fopo_csr *b) {
  assert_memory_equal(a->ids, b->ids, fopo_csr_nnz(a) * sizeof *a->ids);
}

/* An order of the items of each session: X before Y, each from the largest id to the smallest. */
static void give_order(fopo_sessions *s) {
  uint32_t *to = s->order = fopo_alloc(fopo_csr_nnz(&s->X) + fopo_csr_nnz(&s->Y), sizeof *to);
  s->at_random = 0;
  for (size_t i = 0; i < s->X.rows; i++) {
    for (size_t k = fopo_csr_count(&s->X, i); k-- > 0;) *to++ = fopo_csr_row(&s->X, i)[k];
    for (size_t k = fopo_csr_count(&s->Y, i); k-- > 0;) *to++ = fopo_csr_row(&s->Y, i)[k];
  }
}

/* Every session keeps its items, and how many are in X; rows ascend. */
static void check_items(const fopo_sessions *drawn, const fopo_sessions *s) {
  for (size_t i = 0; i < N; i++) {
    const fopo_csr *sides[] = {&s->X, &s->Y}, *new_sides[] = {&drawn->X, &drawn->Y};
    for (int side = 0; side < 2; side++) {
      const uint32_t *ids = fopo_csr_row(sides[side], i), *now = fopo_csr_row(new_sides[side], i);
      size_t n = fopo_csr_count(sides[side], i);
      for (size_t k = 0; k < n; k++) {
        assert_true(has(&drawn->X, i, ids[k]) != has(&drawn->Y, i, ids[k]));
        assert_true(k == 0 || now[k - 1] < now[k]);
      }
    }
  }
}

/* Over many epochs every item is in X with the probability m / n, and every pair of items with that
 * of a choice without replacement: m (m - 1) / (n (n - 1)). */
TEST_WITH(test_draws, no_leak) {
  enum { DRAWS = 4000 };
  fopo_sessions s, all = {0};
  double chi = 0, cells = 0, together = 0, expected = 0, variance = 0;
  small_sessions_init(&s, N, P, 3);
  double *in_x = fopo_alloc(N * 13, sizeof *in_x);
  for (uint32_t epoch = 1; epoch <= DRAWS; epoch++) {
    fopo_sessions now = draw(&s, 7, epoch);
    if (epoch <= 3) check_items(&now, &s);
    for (size_t i = 0; i < N; i++) {
      const uint32_t *x = fopo_csr_row(&s.X, i), *y = fopo_csr_row(&s.Y, i);
      size_t m = fopo_csr_count(&s.X, i), n = m + fopo_csr_count(&s.Y, i);
      for (size_t k = 0; k < n; k++) {
        in_x[i * 13 + k] += has(&now.X, i, k < m ? x[k] : y[k - m]);
      }
      double p = (double)(m * (m - 1)) / (double)(n * (n - 1));
      together += has(&now.X, i, y[0]) && has(&now.X, i, n - m > 1 ? y[1] : x[0]);
      expected += p;
      variance += p * (1 - p);
    }
    fopo_csr_done(&all.X);
    fopo_csr_done(&all.Y);
    all = now;
  }
  for (size_t i = 0; i < N; i++) {
    size_t m = fopo_csr_count(&s.X, i), n = m + fopo_csr_count(&s.Y, i);
    double p = (double)m / (double)n, here = 0;
    for (size_t k = 0; k < n; k++) {
      double off = in_x[i * 13 + k] - DRAWS * p;
      here += off * off / (DRAWS * p * (1 - p));
    }
    chi += here * (double)(n - 1) / (double)n; /* the counts of a session have a fixed sum */
    cells += (double)(n - 1);
  }
  /* 4.5 standard deviations of a chi square, and of a sum of independent coins */
  if (fabs(chi - cells) > 4.5 * sqrt(2 * cells)) fail_msg("chi square %.1f of %.0f", chi, cells);
  if (fabs(together - expected) > 4.5 * sqrt(variance)) {
    fail_msg("pairs in X: %.0f, expected %.0f", together, expected);
  }
  fopo_csr_done(&all.X);
  fopo_csr_done(&all.Y);
  fopo_free(in_x);
  fopo_sessions_done(&s);
}

/* In order X is the first c items, each c from that of s to n - 1 as often, and Y the others. */
TEST_WITH(test_prefixes, no_leak) {
  enum { DRAWS = 2000 };
  fopo_sessions s;
  double chi = 0, cells = 0;
  small_sessions_init(&s, N, P, 3);
  give_order(&s);
  double *cuts = fopo_alloc(N * 13, sizeof *cuts);
  for (uint32_t epoch = 1; epoch <= DRAWS; epoch++) {
    fopo_sessions now = draw(&s, 7, epoch);
    for (size_t i = 0; i < N; i++) {
      const uint32_t *order = s.order + s.X.indptr[i] + s.Y.indptr[i];
      size_t m = fopo_csr_count(&s.X, i), n = m + fopo_csr_count(&s.Y, i);
      size_t cut = fopo_csr_count(&now.X, i);
      assert_in_range(cut, m, n - 1);
      assert_int_equal(cut + fopo_csr_count(&now.Y, i), n);
      cuts[i * 13 + cut]++;
      for (size_t k = 0; k < n && epoch <= 20; k++) {
        assert_int_equal(has(&now.X, i, order[k]), k < cut);
        assert_int_equal(has(&now.Y, i, order[k]), k >= cut);
      }
    }
    fopo_sessions_done(&now);
  }
  for (size_t i = 0; i < N; i++) {
    size_t m = fopo_csr_count(&s.X, i), y = fopo_csr_count(&s.Y, i);
    for (size_t c = m; c < m + y; c++) {
      chi += pow(cuts[i * 13 + c] - (double)DRAWS / (double)y, 2.0) * (double)y / DRAWS;
    }
    cells += (double)y - 1;
  }
  assert_true(fabs(chi - cells) < 5 * sqrt(2 * cells));
  fopo_free(cuts);
  fopo_sessions_done(&s);
}

/* A function of (seed, epoch, context): not of threads, nor of what was drawn before. */
static void function_of_epoch(int in_order) {
  fopo_sessions s;
  small_sessions_init(&s, N, P, 3);
  if (in_order) give_order(&s);
  int before = fopo_threads();
  fopo_threads_set(1);
  fopo_sessions a = draw(&s, 7, 2);
  fopo_threads_set(3);
  fopo_sessions b = draw(&s, 7, 2), other = draw(&s, 7, 3), seeded = draw(&s, 8, 2);
  fopo_threads_set(before);
  same_lists(&a.X, &b.X);
  same_lists(&a.Y, &b.Y);
  assert_memory_equal(a.X.indptr, b.X.indptr, (N + 1) * sizeof *a.X.indptr);
  size_t n = fopo_csr_nnz(&s.X) * sizeof *s.X.ids;
  assert_memory_not_equal(a.X.ids, other.X.ids, n);
  assert_memory_not_equal(a.X.ids, seeded.X.ids, n);
  fopo_resplit_draw(&other.X, &other.Y, &s, 7, 2);
  same_lists(&a.X, &other.X);
  fopo_sessions *const all[] = {&s, &a, &b, &other, &seeded};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) fopo_sessions_done(all[i]);
}

TEST_WITH(test_function_of_epoch, no_leak) {
  function_of_epoch(0);
  function_of_epoch(1);
}

/* ---- trainings ---- */

typedef struct {
  small_world w;
  fopo_sessions s;
  fopo_reward reward;
  fopo_index *ix;
} place;

enum { MASKS = 1, IN_ORDER = 2 };

static void place_init(place *p, int how) {
  small_world_init(&p->w, P, N, L, 0.05, 0.5, 3);
  small_sessions_init(&p->s, N, P, 5);
  if (how & IN_ORDER) give_order(&p->s);
  ok(fopo_encode(p->w.contexts, (fopo_encoding){.encoder = &fopo_encoder_mean}, &p->s.X,
                 p->w.items));
  p->w.pi.masks_seen = how & MASKS;
  p->reward = p->w.reward;
  p->reward.Y = &p->s.Y;
  ok(fopo_index_norm(&p->ix, p->w.items, 0));
}

static void place_done(place *p) {
  fopo_index_free(p->ix);
  fopo_sessions_done(&p->s);
  small_world_done(&p->w);
}

/* A trainer of p, with a gradient and an optimiser of its own. */
static fopo_trainer *make(setting *to, place *p, const fopo_contexts *contexts,
                          const fopo_reward *reward, int resplit, size_t refresh) {
  fopo_gradient_options o = {.estimator = &fopo_estimator_snis,
                             .samples = 40,
                             .proposal = {.kind = FOPO_PROPOSAL_MIXTURE,
                                          .index = p->ix,
                                          .k = 20,
                                          .epsilon = 0.5,
                                          .refresh = refresh}};
  fopo_optim_options adam = adam_of(0.01);
  ok(fopo_gradient_new(&to->g, &o));
  ok(fopo_optim_init(&to->optim, &adam));
  fopo_trainer_options t = trainer_over(&p->w, to->g, &to->optim, BATCH);
  t.contexts = *contexts;
  t.reward = reward;
  if (resplit) {
    t.resplit = (fopo_resplit_source){
        .sessions = &p->s, .how = {.encoder = &fopo_encoder_mean}, .items = p->w.items};
  }
  ok(fopo_trainer_new(&to->t, &t));
  return to->t;
}

static void end(setting *s) {
  fopo_trainer_free(s->t);
  fopo_optim_done(&s->optim);
  fopo_gradient_free(s->g);
}

static fopo_contexts contexts_of(const place *p) {
  return (fopo_contexts){.n = N, .x = p->w.contexts, .X = p->s.X};
}

static void steps(fopo_trainer *t, size_t n) {
  fopo_slice slice;
  ok(fopo_trainer_advance(t, n, &slice));
  assert_int_equal(slice.steps, n);
}

/* theta [L, L] after EPOCHS epochs with X and Y drawn anew, in slices. */
static void train_anew(float *theta, int how, size_t slice, size_t refresh) {
  place p;
  setting s = {0};
  place_init(&p, how);
  fopo_contexts contexts = contexts_of(&p);
  fopo_trainer *t = make(&s, &p, &contexts, &p.reward, 1, refresh);
  size_t all = EPOCHS * fopo_trainer_steps_per_epoch(t);
  for (size_t done = 0; done < all; done += slice) {
    steps(t, all - done < slice ? all - done : slice);
  }
  memcpy(theta, p.w.pi.theta.x, L * L * sizeof *theta);
  end(&s);
  place_done(&p);
}

/* The same by a trainer for each epoch, over its own contexts and hits. */
static void train_each(float *theta, int how, size_t refresh) {
  place p;
  setting first = {0};
  place_init(&p, how);
  fopo_contexts contexts = contexts_of(&p);
  fopo_trainer *t = make(&first, &p, &contexts, &p.reward, 0, refresh);
  size_t each = fopo_trainer_steps_per_epoch(t);
  steps(t, each);
  for (uint32_t epoch = 1; epoch < EPOCHS; epoch++) {
    setting s = {0};
    fopo_sessions drawn = draw(&p.s, 9, epoch);
    fopo_matrix x;
    fopo_reward reward = p.reward;
    ok(fopo_matrix_init(&x, N, L));
    ok(fopo_encode(x, (fopo_encoding){.encoder = &fopo_encoder_mean}, &drawn.X, p.w.items));
    fopo_contexts own = {.n = N, .x = x, .X = drawn.X};
    reward.Y = &drawn.Y;
    make(&s, &p, &own, &reward, 0, refresh);
    ok(fopo_trainer_move_state(s.t, t));
    fopo_candidate_cache_expire(&s.t->cache);
    steps(s.t, each);
    ok(fopo_trainer_move_state(t, s.t));
    end(&s);
    fopo_matrix_done(&x);
    fopo_sessions_done(&drawn);
  }
  memcpy(theta, p.w.pi.theta.x, L * L * sizeof *theta);
  end(&first);
  place_done(&p);
}

TEST_WITH(test_epochs, no_leak) {
  float anew[L * L], each[L * L], slices[L * L], plain[L * L];
  for (int how = 0; how <= (MASKS | IN_ORDER); how++) {
    for (size_t refresh = 1; refresh <= 3; refresh += 2) {
      train_anew(anew, how, SIZE_MAX, refresh);
      train_each(each, how, refresh);
      assert_memory_equal(anew, each, sizeof anew);
      train_anew(slices, how, 5, refresh);
      assert_memory_equal(anew, slices, sizeof anew);
      if (refresh == 1) memcpy(plain, anew, sizeof anew);
      assert_memory_equal(plain, anew, sizeof anew); /* what is kept expires */
    }
  }
}

/* Epoch 0 is the split as it is given, and the next ones allocate nothing. */
static void allocates_nothing(int how) {
  place p;
  setting s = {0};
  place_init(&p, how);
  fopo_contexts contexts = contexts_of(&p);
  fopo_trainer *t = make(&s, &p, &contexts, &p.reward, 1, 1);
  steps(t, fopo_trainer_steps_per_epoch(t));
  assert_true(t->resplit.epoch == 0);
  same_lists(&t->resplit.X, &p.s.X);
  fopo_memory_fail_after(0, 1);
  fopo_slice slice;
  int status = fopo_trainer_advance(t, 2 * fopo_trainer_steps_per_epoch(t), &slice);
  fopo_memory_fail_after(-1, 0);
  ok(status);
  assert_true(t->resplit.epoch == 2);
  end(&s);
  place_done(&p);
}

TEST_WITH(test_allocates_nothing, no_leak) {
  allocates_nothing(MASKS);
  allocates_nothing(MASKS | IN_ORDER);
}

/* A gradient that outlives the trainer is bound to nothing that the trainer owned. */
TEST_WITH(test_unbound, no_leak) {
  place p;
  setting s = {0};
  place_init(&p, 0);
  fopo_contexts contexts = contexts_of(&p);
  make(&s, &p, &contexts, &p.reward, 1, 1);
  assert_ptr_equal(fopo_gradient_binding(s.g)->contexts.x, s.t->resplit.x.x);
  fopo_trainer_free(s.t);
  s.t = NULL;
  assert_null(fopo_gradient_binding(s.g)->device);
  end(&s);
  place_done(&p);
}

TEST_WITH(test_refused, no_leak) {
  place p;
  fopo_resplit r;
  place_init(&p, 0);
  fopo_resplit_source from = {
      .sessions = &p.s, .how = {.encoder = &fopo_encoder_mean}, .items = p.w.items};
  p.s.at_random = 0;
  refused(fopo_resplit_init(&r, &from, p.w.contexts), FOPO_ERR_ARGUMENT, "not divided at random");
  p.s.at_random = 1;
  p.s.all = N;
  refused(fopo_resplit_init(&r, &from, p.w.contexts), FOPO_ERR_ARGUMENT, "shared out to the ranks");
  p.s.all = 0;
  fopo_matrix narrow = {p.w.contexts.x, N, L - 1, L};
  refused(fopo_resplit_init(&r, &from, narrow), FOPO_ERR_ARGUMENT, "were not made of 90 sessions");
  place_done(&p);
}

int main(void) {
  fopo_threads_set(1); /* batches are tiny; the tests that are about threads say so */
  return run_all(NULL, NULL);
}
