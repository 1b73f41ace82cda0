/* One run of a trainer, as a state machine: how many steps it makes and in which slices, when a
 * record ends, what the policy is worth then, and when the run is over. Whoever drives it (t:run,
 * the live view, a job's thread) calls fopo_run_advance again and again and does what the event
 * says; the numbers are the same for all of them, to the bit.
 *
 * A run that is left before its end, by an interruption, an error, or with the program, is kept by
 * its trainer and in checkpoints (train/unfinished.h). The next run of the trainer goes on with it:
 * its best parameters, its patience and the record in hand; unless the policy's parameters were set
 * by hand since, or validation is by other means: then all but the record begins anew.
 *
 * Where a validation may be by a sample (fopo_validation_options.sampled), records are, and the
 * start, the end and, at the end, the best parameters are judged by all contexts. Two of them are
 * compared over the contexts of both.
 *
 * The best parameters are put back at the end only if the last ones are worth less by more than
 * chance, over the same contexts: by what decides, or else by the other one of reward and expected
 * reward. Where contexts cannot be paired (ask), whenever the last ones are worth less.
 *
 * The seconds of a run are those of training: validation is not counted. */
#ifndef FOPO_TRAIN_RUN_H
#define FOPO_TRAIN_RUN_H

#include "train/trainer.h"
#include "train/unfinished.h"
#include "train/validation.h"

typedef struct {
  uint64_t steps; /* to make; UINT64_MAX: no limit */
  double seconds; /* of training; INFINITY: no limit */
  uint64_t every; /* steps of a record; 0: about a second's */
  double trained; /* seconds of the trainer's earlier runs */

  /* Validation before the first step and at every record: by the caller, who is asked with
   * FOPO_RUN_VALIDATE; or on sessions; or, if valid.sessions is NULL, not at all. */
  int ask; /* 1: by the caller */
  fopo_validation_options valid;
  fopo_by by;        /* which is the better validation; equals: by the expected reward, or where
                      * that decides by the reward */
  uint64_t patience; /* validations in a row without a better one that end the run; 0: none */
  int keep_best;     /* 1: fopo_run_finish restores the parameters of the best validation */
  int sure; /* 1: one that is not above the best by more than chance is none, and if none is
             * above the start, that is restored */
} fopo_run_plan;

/* A row of the history. */
typedef struct {
  uint64_t step;  /* made in all */
  double seconds; /* of training, in all */
  double steps_per_second;
  fopo_statistics mean;
  double phases[FOPO_PHASES]; /* seconds */
  double lr, epsilon;         /* epsilon: NaN if the estimator has none */
  double head, held;          /* largest norms in use, and the share of the mass that they hold
                               * (plan/mass.h); NaN unless they follow from the mass */
  fopo_worth valid, start;    /* at its end, and before the first step of the run */
  int cut;                    /* 1: it was cut short and is not over: its steps will be in the
                               * next record again, if the run goes on */
} fopo_run_record;

typedef enum {
  FOPO_RUN_SLICE,    /* steps were made: event.slice */
  FOPO_RUN_DRAWN,    /* rewards are wanted: fill fopo_trainer_drawn, then advance */
  FOPO_RUN_VALIDATE, /* the policy's worth is wanted: fopo_run_judged, then advance */
  FOPO_RUN_RECORD,   /* a record has ended: event.record */
  FOPO_RUN_DONE      /* the run is over */
} fopo_run_event_kind;

typedef struct {
  fopo_run_event_kind kind;
  int record_due;         /* 1: the next advance makes no steps, but ends the record */
  double seconds;         /* of training, in all */
  fopo_slice slice;       /* FOPO_RUN_SLICE */
  fopo_run_record record; /* FOPO_RUN_RECORD */
} fopo_run_event;

typedef struct fopo_run fopo_run;

/* t must outlive the run. Begins with the record that the trainer has in hand, and goes on with the
 * run that it has kept. */
int fopo_run_new(fopo_run **r, fopo_trainer *t, const fopo_run_plan *plan);
void fopo_run_free(fopo_run *r); /* accepts NULL */

/* Validates the start, at the first call. Makes a slice, of at most about so many seconds
 * (INFINITY: no limit) and `most` steps; or, if a record is due, validates and ends it. On failure
 * the event is SLICE, with the whole steps that were made before it, or VALIDATE: then start or
 * record is still to be validated, and the next advance does so. */
int fopo_run_advance(fopo_run_event *e, fopo_run *r, double seconds, uint64_t most);

/* How many steps advance would make now; 0: a record is due, or the run is over. */
uint64_t fopo_run_steps(const fopo_run *r, double seconds, uint64_t most);

/* The answer to FOPO_RUN_VALIDATE; NaN: there is none. Before the first advance: the worth of the
 * start, for which the caller is not asked. */
void fopo_run_judged(fopo_run *r, double valid);

/* Makes the record in hand due before its steps are made; 0 if it has none. */
int fopo_run_record_now(fopo_run *r);

/* The record in hand as it is, without validation; 0 if it has no steps. It stays in hand. */
int fopo_run_cut_record(fopo_run_record *record, fopo_run *r);

/* Ends a run that is not given up: restores the best parameters, if they are kept and the last ones
 * are worth less by more than chance. */
fopo_run_best fopo_run_finish(fopo_run *r);

int fopo_run_is_done(const fopo_run *r);
int fopo_run_goes_on(const fopo_run *r);     /* 1: it began with best parameters and patience of the
                                              * run before; its start is not judged again */
uint64_t fopo_run_last(const fopo_run *r);   /* the step at its end; UINT64_MAX: not known */
const char *fopo_run_why(const fopo_run *r); /* why it ended early; "": it did not */

#endif
