/* A trainer over a small world, with all that it borrows. Shared by the tests of the trainer. */
#ifndef FOPO_TESTS_SMALL_TRAINER_H
#define FOPO_TESTS_SMALL_TRAINER_H

#include "small_world.h"

typedef struct {
  small_world w;
  fopo_index *ix;
  fopo_gradient *g;
  fopo_optim optim;
  fopo_reward custom;
  fopo_trainer *t;
} setting;

/* Makes the trainer of *s, whose world and index are there: the mixture's candidates are those of
 * the index. custom 1: the caller fills the rewards. */
static inline void make_trainer(setting *s, fopo_gradient_options o,
                                const fopo_optim_options *optim, size_t batch, int custom) {
  o.proposal.index = s->ix;
  ok(fopo_gradient_new(&s->g, &o));
  ok(fopo_optim_init(&s->optim, optim));
  s->custom = (fopo_reward){.kind = &fopo_reward_custom};
  fopo_trainer_options t = trainer_over(&s->w, s->g, &s->optim, batch);
  if (custom) t.reward = &s->custom;
  ok(fopo_trainer_new(&s->t, &t));
}

static inline void tear_down(setting *s) {
  fopo_trainer_free(s->t);
  fopo_optim_done(&s->optim);
  fopo_gradient_free(s->g);
  fopo_index_free(s->ix);
  small_world_done(&s->w);
}

/* Fills the rewards that the trainer waits for with the world's hits. */
static inline void fill(setting *s) {
  const fopo_drawn *d = fopo_trainer_drawn(s->t);
  ok(fopo_reward_fill(d->reward, &s->w.reward, d->ids, d->rows, d->B, d->S));
}

static inline fopo_slice run(setting *s, size_t n) {
  fopo_slice slice;
  int status;
  while ((status = fopo_trainer_advance(s->t, n, &slice)) == FOPO_DRAWN) fill(s);
  ok(status);
  assert_int_equal(slice.steps, n);
  assert_int_equal(slice.step, fopo_trainer_step(s->t));
  return slice;
}

#endif
