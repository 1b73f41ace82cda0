/* A record ends when it has its steps or seconds, and when the run does. It is due from then on:
 * first the policy is judged, here or by the caller, then the record is given out. */
#include "train/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
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
  fopo_worth valid, start;    /* of the record that is due, and before the first step */

  int over; /* 1: patience has ended the run */
  fopo_run_best best;
  float *kept[FOPO_BLOCKS]; /* the best values of each block; NULL: not kept, or fixed */
  uint64_t waited;          /* validations since the best one */
  char why[80];
};

/* ---- life ---- */

static int validates(const fopo_run *r) { return r->plan.valid.sessions != NULL || r->plan.ask; }

static int keep_parameters(fopo_run *r) {
  if (!r->plan.keep_best || !validates(r)) return FOPO_OK;
  for (int i = 0; i < FOPO_BLOCKS; i++) {
    fopo_block_shape shape = fopo_policy_shape(r->t->o.policy, (fopo_block)i);
    if (shape.rows == 0) continue;
    r->kept[i] = fopo_alloc(shape.rows * shape.cols, sizeof *r->kept[i]);
    if (r->kept[i] == NULL) return FOPO_ERR_MEMORY;
  }
  return FOPO_OK;
}

int fopo_run_new(fopo_run **run, fopo_trainer *t, const fopo_run_plan *plan) {
  *run = NULL;
  const fopo_validation_options *valid = &plan->valid;
  if (plan->by_expected && (valid->sessions == NULL || valid->expected_most == 0)) {
    return fopo_fail(
        FOPO_ERR_ARGUMENT,
        "the best step cannot be chosen by the expected reward, which is not computed; "
        "give sessions to validate on, or choose by the greedy reward");
  }
  fopo_run *r = fopo_alloc(1, sizeof *r);
  if (r == NULL) return FOPO_ERR_MEMORY;
  r->t = t;
  r->plan = *plan;
  r->plan.valid.objective = fopo_gradient_get(t->o.gradient)->objective;
  r->plan.valid.value = t->o.reward->value;
  r->last = plan->steps < UINT64_MAX - t->step ? t->step + plan->steps : UINT64_MAX;
  r->valid = r->start = r->best.worth = fopo_worth_unknown();
  r->stage = validates(r) ? START : STEPS;
  int status = keep_parameters(r);
  if (status == FOPO_OK && valid->sessions != NULL) {
    status = fopo_validation_init(&r->validation, &r->plan.valid, t->o.policy->version);
  }
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
  for (int i = 0; i < FOPO_BLOCKS; i++) fopo_free(r->kept[i]);
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

static int record_is_full(const fopo_run *r) {
  const fopo_stretch *record = fopo_trainer_record(r->t);
  if (r->plan.every == 0) return record->seconds >= 1.0;
  return record->sum.steps >= (double)r->plan.every;
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
  int status = fopo_trainer_run(r->t, (size_t)r->slice, &e->slice);
  if (status == FOPO_DRAWN) {
    e->kind = FOPO_RUN_DRAWN;
    return FOPO_OK;
  }
  e->kind = FOPO_RUN_SLICE;
  r->spent += e->slice.seconds;
  if (e->slice.steps > 0) r->rate = (double)e->slice.steps / e->slice.seconds;
  if (status == FOPO_OK && (record_is_full(r) || fopo_run_is_done(r))) r->stage = DUE;
  return status;
}

/* ---- records ---- */

/* Is r->valid the best so far? Of equals the other measure decides; a greedy reward, a share of few
 * hundred contexts, is often equal. */
static int is_best(const fopo_run *r) {
  const fopo_worth *now = &r->valid, *best = &r->best.worth;
  double sign = fopo_objective_rows[r->plan.valid.objective].larger ? 1.0 : -1.0;
  double value[] = {now->reward, sign * now->expected};
  double before[] = {best->reward, sign * best->expected};
  int first = r->plan.by_expected, second = !first;
  if (isnan(value[first])) return 0;
  if (!r->best.known || value[first] != before[first]) {
    return !r->best.known || value[first] > before[first];
  }
  return value[second] > before[second];
}

/* Copies the blocks that are kept from the policy, or back to it. */
static void copy_kept(fopo_run *r, int back) {
  for (int i = 0; i < FOPO_BLOCKS; i++) {
    fopo_matrix x = fopo_policy_values(r->t->o.policy, (fopo_block)i);
    if (r->kept[i] == NULL) continue;
    memcpy(back ? x.x : r->kept[i], back ? r->kept[i] : x.x, x.rows * x.cols * sizeof *x.x);
    if (back && i == FOPO_BLOCK_ITEMS) r->t->o.policy->version++;
  }
}

/* Keeps the parameters at hand, whose worth is r->valid, if it is the best so far; 0 if not. */
static int keep_if_best(fopo_run *r) {
  if (!is_best(r)) return 0;
  r->best = (fopo_run_best){.known = 1, .step = r->t->step, .worth = r->valid};
  copy_kept(r, 0);
  return 1;
}

static void note_best(fopo_run *r) {
  if (keep_if_best(r)) {
    r->waited = 0;
  } else if (++r->waited == r->plan.patience) {
    r->over = 1;
    snprintf(r->why, sizeof r->why, "no better validation in %llu records",
             (unsigned long long)r->waited);
  }
}

/* The start has been judged, or the caller who was to do it did not. */
static void begin_steps(fopo_run *r) {
  r->start = r->valid;
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

/* The record in hand, which begins anew. */
static fopo_run_record end_record(fopo_run *r) {
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
                         .start = r->start};
  memcpy(row.phases, record->phases, sizeof row.phases);
  fopo_trainer_end_record(r->t);
  if (r->stage > STEPS) r->stage = STEPS;
  r->valid = fopo_worth_unknown();
  return row;
}

static int validate(fopo_run *r) {
  if (r->plan.valid.sessions == NULL) return FOPO_OK;
  return fopo_validation_run(&r->valid, &r->validation, r->t->o.policy);
}

static int make_record(fopo_run_event *e, fopo_run *r) {
  int status = FOPO_OK;
  e->kind = FOPO_RUN_VALIDATE;
  if (r->stage == DUE && r->plan.ask) r->stage = ASKED;
  if (r->stage == DUE) {
    status = validate(r);
    if (status == FOPO_OK) r->stage = JUDGED;
  }
  if (r->stage != JUDGED) return status;
  if (validates(r)) note_best(r);
  e->kind = FOPO_RUN_RECORD;
  e->record = end_record(r);
  return FOPO_OK;
}

int fopo_run_record_now(fopo_run *r) {
  if (fopo_trainer_record(r->t)->sum.steps < 1.0) return 0;
  if (r->stage <= STEPS) r->stage = DUE;
  return 1;
}

int fopo_run_cut_record(fopo_run_record *record, fopo_run *r) {
  if (fopo_trainer_record(r->t)->sum.steps < 1.0) return 0;
  r->valid = fopo_worth_unknown();
  *record = end_record(r);
  return 1;
}

/* ---- the machine ---- */

int fopo_run_advance(fopo_run_event *e, fopo_run *r, double seconds, uint64_t most) {
  *e = (fopo_run_event){.kind = FOPO_RUN_DONE};
  int status = FOPO_OK, done = fopo_run_is_done(r);
  if (r->stage == START && !done) status = validate(r);
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

fopo_run_best fopo_run_finish(fopo_run *r) {
  if (!r->plan.keep_best || !validates(r) || !r->best.known) return (fopo_run_best){0};
  if (r->best.step == r->t->step) return r->best;
  copy_kept(r, 1);
  r->best.restored = 1;
  return r->best;
}

uint64_t fopo_run_last(const fopo_run *r) { return r->last; }

const char *fopo_run_why(const fopo_run *r) { return r->why; }
