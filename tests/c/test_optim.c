/* Optimisers by hand in double: schedules, clipping, decoupled weight decay, items that are learnt.
 */
#include <math.h>

#include "checks.h"
#include "device/device.h"
#include "train/optim.h"
#include "train/reach.h"

FREED_BY(fopo_device_close, fopo_device)

/* -- schedules -------------------------------------------------------------------------------- */

static void near(double got, double wanted) {
  if (!(fabs(got - wanted) <= 1e-12)) fail_msg("%.15g instead of %.15g", got, wanted);
}

TEST_WITH(test_factors, no_leak) {
  fopo_schedule flat = {0}, warm = {.warmup = 4};
  fopo_schedule wave = {.kind = FOPO_SCHEDULE_COSINE, .warmup = 10, .steps = 110, .final = 0.2};
  fopo_schedule line = {.kind = FOPO_SCHEDULE_LINEAR, .warmup = 5, .steps = 105, .final = 0.28};
  fopo_schedule stairs = {.kind = FOPO_SCHEDULE_STEP, .warmup = 5, .every = 10, .factor = 0.5};
  near(fopo_schedule_factor(&flat, 0), 1);
  near(fopo_schedule_factor(&flat, UINT64_MAX), 1);
  near(fopo_schedule_factor(&warm, 0), 0.25);
  near(fopo_schedule_factor(&warm, 3), 1);
  near(fopo_schedule_factor(&warm, 4), 1);
  near(fopo_schedule_factor(&wave, 0), 0.1);
  near(fopo_schedule_factor(&wave, 10), 1);
  near(fopo_schedule_factor(&wave, 60), 0.6);
  near(fopo_schedule_factor(&wave, 35), 0.2 + 0.8 * (0.5 + 0.25 * sqrt(2)));
  near(fopo_schedule_factor(&wave, 110), 0.2);
  near(fopo_schedule_factor(&wave, 5000), 0.2);
  near(fopo_schedule_factor(&line, 4), 1);
  near(fopo_schedule_factor(&line, 30), 1 - 0.25 * 0.72);
  near(fopo_schedule_factor(&line, 105), 0.28);
  near(fopo_schedule_factor(&line, 5000), 0.28);
  near(fopo_schedule_factor(&stairs, 4), 1);
  near(fopo_schedule_factor(&stairs, 14), 1);
  near(fopo_schedule_factor(&stairs, 15), 0.5);
  near(fopo_schedule_factor(&stairs, 35), 0.125);
}

TEST_WITH(test_schedules_refused, no_leak) {
  fopo_schedule short_one = {.kind = FOPO_SCHEDULE_COSINE, .warmup = 10, .steps = 10};
  fopo_schedule final = {.kind = FOPO_SCHEDULE_COSINE, .steps = 10, .final = 1.5};
  fopo_schedule line = {.kind = FOPO_SCHEDULE_LINEAR, .warmup = 3, .steps = 2};
  fopo_schedule every = {.kind = FOPO_SCHEDULE_STEP, .factor = 0.5};
  fopo_schedule factor = {.kind = FOPO_SCHEDULE_STEP, .every = 1, .factor = 1.5};
  refused(fopo_schedule_check(&short_one), FOPO_ERR_ARGUMENT, "of 10 steps and its warm-up of 10");
  refused(fopo_schedule_check(&line), FOPO_ERR_ARGUMENT, "of 2 steps and its warm-up of 3");
  refused(fopo_schedule_check(&final), FOPO_ERR_ARGUMENT, "final share is 1.5");
  refused(fopo_schedule_check(&every), FOPO_ERR_ARGUMENT, "`every` is 0");
  refused(fopo_schedule_check(&factor), FOPO_ERR_ARGUMENT, "factor is 1.5");
  fopo_optim o;
  fopo_optim_options sgd = {.kind = &fopo_optimiser_sgd, .lr = 1, .schedule = short_one};
  refused(fopo_optim_init(&o, &sgd), FOPO_ERR_ARGUMENT, "warm-up");
  sgd = (fopo_optim_options){.kind = &fopo_optimiser_sgd, .lr = 1, .clip = -1};
  refused(fopo_optim_init(&o, &sgd), FOPO_ERR_ARGUMENT, "clip is -1");
}

/* -- updates ---------------------------------------------------------------------------------- */

/* The optimiser's definition for one number. */
typedef struct {
  double x, m, v, t;
} number;

static void move(number *n, const fopo_optim_options *o, double lr, double g) {
  if (o->decoupled) {
    n->x -= lr * o->weight_decay * n->x;
  } else {
    g -= o->weight_decay * n->x;
  }
  n->t++;
  if (o->kind == &fopo_optimiser_sgd) {
    n->m = o->momentum * n->m + g;
    n->x += lr * n->m;
    return;
  }
  if (o->kind == &fopo_optimiser_adagrad) {
    n->v += g * g;
    n->x += lr * g / (sqrt(n->v) + o->eps);
    return;
  }
  n->m = o->beta1 * n->m + (1 - o->beta1) * g;
  n->v = o->beta2 * n->v + (1 - o->beta2) * g * g;
  double mhat = n->m / (1 - pow(o->beta1, n->t)), vhat = n->v / (1 - pow(o->beta2, n->t));
  n->x += lr * mhat / (sqrt(vhat) + o->eps);
}

/* theta [2] and items [P, L], whose gradients are clipped together. Item 0 has a gradient in every
 * step, item 1 in some, item 2 in none. */
static void by_hand(fopo_optim_options o) {
  enum { STEPS = 12, P = 3, L = 2 };
  FREED(fopo_device_close) fopo_device *d = NULL;
  DONE(fopo_optim_done) fopo_optim optim;
  float theta[2] = {1, -2}, items[P * L] = {3, 0.5f, -1, 2, 5, 6};
  number x[2 + P * L] = {{.x = 1}, {.x = -2}, {.x = 3}, {.x = 0.5}, {.x = -1}, {.x = 2}};
  ok(fopo_device_cpu_open(&d));
  ok(fopo_optim_init(&optim, &o));
  fopo_block_shape shapes[FOPO_BLOCKS] = {{1, 2, 0}, {P, L, 1}};
  ok(fopo_optim_prepare(&optim, d, shapes));
  near(fopo_optim_rate(&optim), o.lr * fopo_schedule_factor(&o.schedule, 0));
  for (int step = 0; step < STEPS; step++) {
    float s = (float)step, G[] = {1 - s / 4, 0.3f, 0.2f * s, -1, 1, -0.3f * s};
    uint32_t ids[] = {0, 1};
    size_t n = step % 3 == 1 ? 1 : 2; /* items with a gradient */
    fopo_item_gradient theta_G = {.rows = G}, items_G = {.rows = G + 2, .ids = ids, .n = n};
    double norm = 0;
    for (size_t i = 0; i < 2 + n * L; i++) norm += (double)G[i] * (double)G[i];
    norm = sqrt(norm);
    ok(fopo_optim_step(&optim, FOPO_BLOCK_THETA, theta, &theta_G, (fopo_optim_norm){.norm = norm}));
    ok(fopo_optim_step(&optim, FOPO_BLOCK_ITEMS, items, &items_G, (fopo_optim_norm){.norm = norm}));
    optim.t++;
    double factor = fopo_schedule_factor(&o.schedule, (uint64_t)step);
    double scale = o.clip > 0 && norm > o.clip ? o.clip / norm : 1;
    near(fopo_optim_rate(&optim), o.lr * factor);
    for (size_t i = 0; i < 2 + n * L; i++) {
      double lr = i < 2 ? o.lr : o.block_lr[FOPO_BLOCK_ITEMS];
      move(&x[i], &o, lr * factor, scale * (double)G[i]);
    }
    for (size_t i = 0; i < 6; i++) {
      double got = (double)(i < 2 ? theta[i] : items[i - 2]);
      if (fabs(got - x[i].x) > 1e-5) fail_msg("step %d, %zu: %g, not %g", step, i, got, x[i].x);
    }
    assert_true(items[4] == 5 && items[5] == 6);
  }
  shapes[FOPO_BLOCK_ITEMS].rows = P + 1;
  refused(fopo_optim_prepare(&optim, d, shapes), FOPO_ERR_ARGUMENT, "3 items of dimension 2");
}

TEST_WITH(test_by_hand, no_leak) {
  fopo_schedule wave = {.kind = FOPO_SCHEDULE_COSINE, .warmup = 3, .steps = 10, .final = 0.1};
  fopo_optim_options adam = {.kind = &fopo_optimiser_adam,
                             .lr = 0.1,
                             .block_lr[FOPO_BLOCK_ITEMS] = 0.03,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .eps = 1e-8,
                             .weight_decay = 0.2,
                             .schedule = wave};
  fopo_optim_options sgd = {.kind = &fopo_optimiser_sgd,
                            .lr = 0.1,
                            .block_lr[FOPO_BLOCK_ITEMS] = 0.03,
                            .momentum = 0.5,
                            .weight_decay = 0.2,
                            .schedule = wave};
  fopo_optim_options adagrad = sgd;
  adagrad.kind = &fopo_optimiser_adagrad, adagrad.eps = 1e-3;
  for (int way = 0; way < 4; way++) {
    adam.decoupled = sgd.decoupled = adagrad.decoupled = way & 1;
    adam.clip = sgd.clip = adagrad.clip = way & 2 ? 1.2 : 0.0;
    by_hand(adam);
    by_hand(sgd);
    by_hand(adagrad);
  }
}

/* -- how far the parameters reach ------------------------------------------------------------- */

TEST_WITH(test_reach, no_leak) {
  const float good[] = {1.0f, -3.0f, 2.0f};
  assert_true(fopo_reach_of(good, 3) == 3.0 && fopo_reach_of(good, 0) == 0.0);
  const float wrong[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 3; i++) { /* wherever it stands */
    for (int k = 0; k < 3; k++) {
      float x[] = {1.0f, -3.0f, 2.0f};
      x[i] = wrong[k];
      assert_true(isinf(fopo_reach_of(x, 3)));
    }
  }
}

/* The bound of one number is never below it, under gradients of every size and a decay. */
TEST_WITH(test_reach_holds, no_leak) {
  for (int k = 0; fopo_optimisers[k] != NULL; k++) {
    fopo_optim o = {.options = {.kind = fopo_optimisers[k],
                                .lr = 0.1,
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .eps = 1e-10,
                                .momentum = 0.5,
                                .weight_decay = 0.1}};
    number x = {.x = 2};
    fopo_reach r = {.bound = (double)INFINITY};
    assert_true(isinf(fopo_reach_after(&r, &o, 0.1, 1.0))); /* to be looked at */
    r.bound = x.x;
    for (int step = 0; step < 40; step++) {
      double g = pow(10, step % 9 - 4) * (step % 3 ? 1 : -1);
      r.bound = fopo_reach_after(&r, &o, 0.1, fabs(g));
      move(&x, &o.options, 0.1, g);
      o.t++;
      assert_true(fabs(x.x) <= r.bound && r.bound < 1e9);
    }
  }
  /* without clipping sgd alone needs the norm */
  fopo_optim o = {.options = {.kind = &fopo_optimiser_adagrad, .eps = 1e-10}};
  fopo_reach r = {.bound = 3};
  near(fopo_reach_after(&r, &o, 0.5, (double)INFINITY), 3.5);
  o.options.kind = &fopo_optimiser_sgd;
  near(fopo_reach_after(&r, &o, 0.5, (double)INFINITY), 3);
}

int main(void) { return run_all(NULL, NULL); }
