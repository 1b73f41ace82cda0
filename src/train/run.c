/* A record ends when it has its steps or seconds, and when the run does. It is due from then on:
 * first the policy is judged, here or by the caller, then the record is given out. */
#include "train/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "core/memory.h"
#include "core/status.h"
#include "train/checkpoint.h"
#include "train/state.h"

/* A run that ends by the clock makes slices of a tenth of a second at most: the speed of the last
 * steps may not last. */
static const double longest_timed = 0.1;

typedef enum {
  START,  /* the policy is to be judged before the first step */
  STEPS,  /* steps are made */
  DUE,    /* the record is to be judged */
  ASKED,  /* the caller is to judge it */
  JUDGED, /* it is to be given out */
} stage;

struct fopo_run {
  fopo_trainer *t; /* not owned */
  fopo_run_plan plan;
  uint64_t last;  /* step at the end; UINT64_MAX: no limit */
  double spent;   /* seconds of training in this run */
  double rate;    /* steps a second of the last slice */
  uint64_t slice; /* steps of the slice that is open */

  stage stage;
  fopo_validation validation; /* {0}: not on sessions */
  fopo_worth valid;           /* of the record that is due */
  uint64_t judged;            /* the step that was judged by all contexts last; UINT64_MAX: none */

  int goes_on; /* 1: with what the trainer has kept of the run before */
  int over;    /* 1: patience has ended the run */
  char why[80];
};

/* ---- life ---- */

static int validates(const fopo_run *r) { return r->plan.valid.sessions != NULL || r->plan.ask; }

/* What the run knows of its steps so far is with the trainer. */
static fopo_unfinished *known(const fopo_run *r) { return &r->t->unfinished; }

/* A checksum of what decides which validation is the best, so that two can be compared. */
static uint64_t basis_of(const fopo_run_plan *plan) {
  const fopo_validation_options *v = &plan->valid;
  uint64_t numbers[] = {(uint64_t)plan->ask,
                        (uint64_t)plan->by,
                        (uint64_t)(plan->keep_best + 2 * plan->sure),
                        (uint64_t)v->unseen,
                        (uint64_t)v->objective,
                        (uint64_t)v->measure,
                        v->k,
                        v->most,
                        v->expected_most,
                        v->sampled,
                        v->seed,
                        v->contexts.cols,
                        v->sessions != NULL,
                        v->value != NULL};
  uint64_t crc = crc32_z(0, (const Bytef *)numbers, sizeof numbers);
  if (v->sessions == NULL) return crc;
  return fopo_checkpoint_lists(fopo_checkpoint_lists(crc, &v->sessions->X), &v->sessions->Y);
}

static void end_by_patience(fopo_run *r) {
  uint64_t waited = known(r)->waited;
  if (r->plan.patience == 0 || waited < r->plan.patience) return;
  r->over = 1;
  snprintf(r->why, sizeof r->why, "no better validation in %llu records",
           (unsigned long long)waited);
}

static int record_is_full(const fopo_run *r) {
  const fopo_stretch *record = fopo_trainer_record(r->t);
  if (r->plan.every == 0) return record->seconds >= 1.0;
  return record->sum.steps >= (double)r->plan.every;
}

/* Goes on with the run that the trainer has kept, or begins another one. A record that was cut
 * short though it had all its steps is made now. */
static int take_up(fopo_run *r) {
  fopo_unfinished *u = known(r);
  uint64_t basis = basis_of(&r->plan);
  r->goes_on = u->open && u->basis == basis && u->set == r->t->o.policy->set;
  if (!r->goes_on) {
    fopo_unfinished_done(u);
    *u = (fopo_unfinished){.first = r->t->step, .basis = basis, .set = r->t->o.policy->set};
    u->start = u->best.worth = fopo_worth_unknown();
    if (r->plan.keep_best && validates(r)) {
      int status = fopo_unfinished_reserve(u, r->t->o.policy);
      if (status != FOPO_OK) return status;
    }
  }
  u->last = r->last;
  u->every = r->plan.every;
  u->seconds = r->plan.seconds;
  r->stage = !r->goes_on && validates(r) ? START : STEPS;
  u->open = r->stage == STEPS;
  if (r->goes_on) end_by_patience(r);
  if (r->goes_on && r->plan.every > 0 && record_is_full(r)) r->stage = DUE;
  return FOPO_OK;
}

static int check_plan(const fopo_run_plan *plan) {
  const fopo_validation_options *v = &plan->valid;
  if (plan->by == FOPO_BY_EXPECTED && (v->sessions == NULL || v->expected_most == 0)) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "the best step cannot be chosen by the expected reward, which is not computed; "
        "give sessions to validate on, or choose by the greedy reward");
  }
  if (plan->by == FOPO_BY_MEASURE && (v->sessions == NULL || v->k == 0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "the best step cannot be chosen by a measure of lists without sessions to "
                     "validate on; give them, or choose by the greedy reward");
  }
  return FOPO_OK;
}

int fopo_run_new(fopo_run **run, fopo_trainer *t, const fopo_run_plan *plan) {
  *run = NULL;
  int status = check_plan(plan);
  if (status != FOPO_OK) return status;
  fopo_run *r = fopo_alloc(1, sizeof *r);
  if (r == NULL) return FOPO_ERR_MEMORY;
  r->t = t;
  r->plan = *plan;
  r->plan.valid.objective = fopo_gradient_get(t->o.gradient)->objective;
  r->plan.valid.rule = fopo_gradient_get(t->o.gradient)->rule;
  r->plan.valid.value = t->o.reward->value;
  r->plan.valid.seed = t->o.seed;
  fopo_gradient_lend(t->o.gradient, plan->valid.exact);
  r->last = plan->steps < UINT64_MAX - t->step ? t->step + plan->steps : UINT64_MAX;
  r->valid = fopo_worth_unknown();
  r->judged = UINT64_MAX;
  if (plan->valid.sessions != NULL) {
    status = fopo_validation_init(&r->validation, &r->plan.valid, t->o.policy->version);
  }
  if (status == FOPO_OK) status = take_up(r);
  if (status != FOPO_OK) {
    fopo_run_free(r);
    return status;
  }
  *run = r;
  return FOPO_OK;
}

void fopo_run_free(fopo_run *r) {
  if (r == NULL) return;
  fopo_validation_done(&r->validation);
  fopo_free(r);
}

/* ---- slices ---- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Steps that take about so many seconds, by the speed of the last slice; at least 1. */
static uint64_t steps_in(const fopo_run *r, double seconds) {
  double steps = r->rate * fmax(seconds, 0.0);
  return steps < 1.5 ? 1 : steps > 1e9 ? (uint64_t)1e9 : (uint64_t)(steps + 0.5);
}

/* Steps until the record has its own; at least 1. One that was resumed may have more already. */
static uint64_t steps_of_record(const fopo_run *r) {
  const fopo_stretch *record = fopo_trainer_record(r->t);
  uint64_t made = (uint64_t)record->sum.steps;
  if (r->plan.every == 0) return steps_in(r, 1.0 - record->seconds);
  return made < r->plan.every ? r->plan.every - made : 1;
}

int fopo_run_is_done(const fopo_run *r) {
  return r->over || r->t->step >= r->last || r->spent >= r->plan.seconds;
}

uint64_t fopo_run_steps(const fopo_run *r, double seconds, uint64_t most) {
  if (r->stage > STEPS || fopo_run_is_done(r)) return 0;
  uint64_t n = least(least(most, r->last - r->t->step), steps_of_record(r));
  if (isfinite(r->plan.seconds)) {
    n = least(n, steps_in(r, fmin(longest_timed, r->plan.seconds - r->spent)));
  }
  if (isfinite(seconds)) n = least(n, steps_in(r, seconds));
  return n > 0 ? n : 1;
}

/* A slice that waited for rewards goes on with the steps that it was begun with. */
static int make_slice(fopo_run_event *e, fopo_run *r, double seconds, uint64_t most) {
  if (fopo_trainer_drawn(r->t) == NULL) r->slice = fopo_run_steps(r, seconds, most);
  int status = fopo_trainer_advance(r->t, (size_t)r->slice, &e->slice);
  if (status == FOPO_DRAWN) {
    e->kind = FOPO_RUN_DRAWN;
    return FOPO_OK;
  }
  e->kind = FOPO_RUN_SLICE;
  r->spent += e->slice.seconds;
  known(r)->seconds = fmax(0.0, r->plan.seconds - r->spent);
  if (e->slice.steps > 0) r->rate = (double)e->slice.steps / e->slice.seconds;
  if (status == FOPO_OK && (record_is_full(r) || fopo_run_is_done(r))) r->stage = DUE;
  return status;
}

/* ---- records ---- */

/* A worth as a number of which more is better. */
static double value_of(const fopo_run *r, const fopo_worth *w, fopo_by by) {
  if (by == FOPO_BY_MEASURE) return w->measure;
  if (by == FOPO_BY_REWARD) return w->reward;
  return fopo_objective_rows[r->plan.valid.objective].larger ? w->expected : -w->expected;
}

/* Of a - b, where more is better; 0: the pairs are not known. */
static int difference(double *mean, double *low, double *high, const fopo_run *r,
                      const fopo_worth_each *a, const fopo_worth_each *b, fopo_by by) {
  const fopo_validation_options *v = &r->plan.valid;
  int turned = by == FOPO_BY_EXPECTED && !fopo_objective_rows[v->objective].larger;
  return fopo_worth_difference(mean, low, high, turned ? b : a, turned ? a : b, by,
                               v->value != NULL);
}

/* What decides between equals; a greedy reward, a share of few hundred contexts, is often equal. */
static fopo_by second_of(fopo_by by) {
  return by == FOPO_BY_EXPECTED ? FOPO_BY_REWARD : FOPO_BY_EXPECTED;
}

/* Is the worth at hand above the best one's by more than chance, by the measure that decides or, if
 * that cannot tell, by the reward? */
static int is_surely_best(const fopo_run *r) {
  double mean, low, high;
  for (int i = 0; i < 2; i++) {
    fopo_by by = i == 0 ? r->plan.by : FOPO_BY_REWARD;
    if (!difference(&mean, &low, &high, r, &r->validation.each, &known(r)->each, by)) return 1;
    if (low > 0.0 || high < 0.0) return low > 0.0;
  }
  return 0;
}

/* What the worth at hand is above the best one's, over the contexts of both. */
static double gain(const fopo_run *r, fopo_by by) {
  double mean, low, high;
  const fopo_unfinished *u = known(r);
  if (fopo_validation_samples(&r->validation) &&
      difference(&mean, &low, &high, r, &r->validation.each, &u->each, by)) {
    return mean;
  }
  return value_of(r, &r->valid, by) - value_of(r, &u->best.worth, by);
}

/* Is r->valid the best so far? */
static int is_best(const fopo_run *r) {
  const fopo_run_best *best = &known(r)->best;
  fopo_by by = r->plan.by;
  if (r->plan.sure && best->known && r->plan.valid.sessions != NULL) return is_surely_best(r);
  if (isnan(value_of(r, &r->valid, by))) return 0;
  if (!best->known) return 1;
  double more = gain(r, by);
  return more > 0.0 || (!(more < 0.0) && gain(r, second_of(by)) > 0.0);
}

typedef enum { KEEP, PUT_BACK, EXCHANGE } way;

/* Copies the blocks that are kept from the policy, or back to it, or exchanges the two. */
static void copy_kept(fopo_run *r, way how) {
  float *const *kept = known(r)->kept;
  for (int i = 0; i < FOPO_BLOCKS; i++) {
    fopo_matrix x = fopo_policy_values(r->t->o.policy, (fopo_block)i);
    for (size_t j = 0; kept[i] != NULL && j < x.rows * x.cols; j++) {
      float value = x.x[j];
      if (how != KEEP) x.x[j] = kept[i][j];
      if (how != PUT_BACK) kept[i][j] = value;
    }
    if (kept[i] != NULL && how != KEEP && i == FOPO_BLOCK_ITEMS) r->t->o.policy->version++;
  }
}

/* Keeps the parameters at hand, whose worth is r->valid, if it is the best so far; 0 if not. */
static int keep_if_best(fopo_run *r) {
  fopo_unfinished *u = known(r);
  if (!is_best(r)) return 0;
  u->best = (fopo_run_best){.known = 1, .step = r->t->step, .worth = r->valid};
  fopo_worth_each_copy(&u->each, &r->validation.each); /* without memory the pairs are unknown */
  copy_kept(r, KEEP);
  return 1;
}

/* Is the record that is due, judged by a sample, the last one that patience allows? */
static int is_over(const fopo_run *r) {
  uint64_t patience = r->plan.patience;
  return patience > 0 && known(r)->waited + 1 >= patience && r->judged != r->t->step && !is_best(r);
}

static void note_best(fopo_run *r) {
  uint64_t *waited = &known(r)->waited;
  *waited = keep_if_best(r) ? 0 : *waited + 1;
  end_by_patience(r);
}

/* The start has been judged, or the caller who was to do it did not. */
static void begin_steps(fopo_run *r) {
  known(r)->start = r->valid;
  known(r)->open = 1;
  keep_if_best(r);
  r->valid = fopo_worth_unknown();
  r->stage = STEPS;
}

void fopo_run_judged(fopo_run *r, double valid) {
  r->valid = fopo_worth_unknown();
  r->valid.reward = valid;
  if (r->stage == START) {
    begin_steps(r);
  } else {
    r->stage = JUDGED;
  }
}

/* The record in hand. */
static fopo_run_record record_of(const fopo_run *r) {
  const fopo_trainer_options *o = &r->t->o;
  const fopo_stretch *record = fopo_trainer_record(r->t);
  const fopo_mass *norms = fopo_trainer_norms(r->t);
  fopo_run_record row = {.step = r->t->step,
                         .seconds = r->plan.trained + r->spent,
                         .steps_per_second = record->sum.steps / record->seconds,
                         .mean = fopo_statistics_means(&record->sum),
                         .lr = fopo_optim_rate(o->optim),
                         .epsilon = fopo_gradient_epsilon(o->gradient),
                         .head = norms->head > 0 ? (double)norms->head : (double)NAN,
                         .held = norms->head > 0 ? norms->held : (double)NAN,
                         .valid = r->valid,
                         .start = known(r)->start};
  memcpy(row.phases, record->phases, sizeof row.phases);
  return row;
}

/* The start and the end are judged by all contexts, records between them by a sample; one of them
 * that tells that patience is over is the end. */
static int validate(fopo_run *r, int all) {
  if (r->plan.valid.sessions == NULL) return FOPO_OK;
  int status = fopo_validation_run(&r->valid, &r->validation, r->t->o.policy, all);
  if (status != FOPO_OK) return status;
  if (all || !fopo_validation_samples(&r->validation)) r->judged = r->t->step;
  return FOPO_OK;
}

static int make_record(fopo_run_event *e, fopo_run *r) {
  int status = FOPO_OK;
  e->kind = FOPO_RUN_VALIDATE;
  if (r->stage == DUE && r->plan.ask) r->stage = ASKED;
  if (r->stage == DUE) {
    status = validate(r, fopo_run_is_done(r));
    if (status == FOPO_OK && is_over(r)) status = validate(r, 1);
    if (status == FOPO_OK) r->stage = JUDGED;
  }
  if (r->stage != JUDGED) return status;
  if (validates(r)) note_best(r);
  e->kind = FOPO_RUN_RECORD;
  e->record = record_of(r);
  fopo_trainer_end_record(r->t);
  r->valid = fopo_worth_unknown();
  r->stage = STEPS;
  return FOPO_OK;
}

int fopo_run_record_now(fopo_run *r) {
  if (fopo_trainer_record(r->t)->sum.steps < 1.0) return 0;
  if (r->stage <= STEPS) r->stage = DUE;
  return 1;
}

int fopo_run_cut_record(fopo_run_record *record, fopo_run *r) {
  if (fopo_trainer_record(r->t)->sum.steps < 1.0) return 0;
  *record = record_of(r);
  record->valid = fopo_worth_unknown();
  record->cut = 1;
  return 1;
}

/* ---- the machine ---- */

int fopo_run_advance(fopo_run_event *e, fopo_run *r, double seconds, uint64_t most) {
  *e = (fopo_run_event){.kind = FOPO_RUN_DONE};
  int status = FOPO_OK, done = fopo_run_is_done(r);
  if (r->stage == START && !done) status = validate(r, 1);
  if (status != FOPO_OK) {
    e->kind = FOPO_RUN_VALIDATE;
  } else if (r->stage > STEPS) {
    status = make_record(e, r);
  } else if (!done) {
    if (r->stage == START) begin_steps(r);
    status = make_slice(e, r, seconds, most);
  }
  e->record_due = r->stage > STEPS;
  e->seconds = r->plan.trained + r->spent;
  return status;
}

/* Judges the best parameters by all contexts, where a sample has told that they are it. What the
 * last ones came to stays in the validation. */
static int judge_kept(fopo_run *r, fopo_run_best *best) {
  fopo_worth_each last = {0}, *now = &r->validation.each, *kept = &known(r)->each;
  if (kept->n[FOPO_BY_REWARD] >= now->n[FOPO_BY_REWARD]) return FOPO_OK;
  fopo_worth worth;
  int status = fopo_worth_each_copy(&last, now);
  if (status == FOPO_OK) {
    copy_kept(r, EXCHANGE);
    status = fopo_validation_run(&worth, &r->validation, r->t->o.policy, 1);
    copy_kept(r, EXCHANGE);
  }
  if (status == FOPO_OK) status = fopo_worth_each_copy(kept, now);
  if (status == FOPO_OK) status = fopo_worth_each_copy(now, &last);
  if (status == FOPO_OK) best->worth = worth;
  fopo_worth_each_done(&last);
  return status;
}

/* Fills what the last parameters are worth less than the best ones. By more than chance: returns 1.
 */
static int is_lost(fopo_run *r, fopo_run_best *best) {
  const fopo_validation_options *v = &r->plan.valid;
  fopo_by by = r->plan.by, second = second_of(by);
  double mean, low, high;
  best->loss = best->low = best->high = (double)NAN;
  if (v->sessions == NULL || (r->judged != r->t->step && validate(r, 1) != FOPO_OK)) return 1;
  if (judge_kept(r, best) != FOPO_OK) return 1;
  const fopo_worth_each *kept = &known(r)->each, *last = &r->validation.each;
  for (int i = 0; i < 2; i++) {
    if (!difference(&mean, &low, &high, r, kept, last, i == 0 ? by : second)) return i == 0;
    if (i == 0) {
      best->loss = mean;
      best->low = low;
      best->high = high;
    }
    if (low > 0.0) return 1;
  }
  return 0;
}

fopo_run_best fopo_run_finish(fopo_run *r) {
  fopo_unfinished *u = known(r);
  fopo_run_best best = u->best;
  u->open = 0;
  best.at_start = best.step == u->first;
  if (!r->plan.keep_best || !validates(r) || !best.known) return (fopo_run_best){0};
  int is_kept = best.step != r->t->step && is_lost(r, &best);
  if (!is_kept && !(r->plan.sure && best.at_start)) return best;
  copy_kept(r, PUT_BACK);
  best.restored = 1;
  return best;
}

int fopo_run_goes_on(const fopo_run *r) { return r->goes_on; }

uint64_t fopo_run_last(const fopo_run *r) { return r->last; }

const char *fopo_run_why(const fopo_run *r) { return r->why; }
