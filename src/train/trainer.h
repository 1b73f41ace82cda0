/* The training loop, in slices: at most n steps, which end early when they are interrupted or the
 * caller must fill rewards. It never calls Lua. A step allocates nothing. Step t
 * takes the contexts at places (t mod steps_per_epoch) * batch of the permutation of the epoch t /
 * steps_per_epoch, so it is a function of (seed, t) alone, interrupted and resumed or not.
 *
 * If the device is asynchronous, the host reads its totals (device/ops.h) some fifty times a second
 * and waits for no step in between. The seconds of phases are then those of queueing steps, and the
 * gradient's include the waiting. */
#ifndef FOPO_TRAIN_TRAINER_H
#define FOPO_TRAIN_TRAINER_H

#include "core/npz.h"
#include "learn/gradient.h"
#include "ranks/resplit.h"
#include "train/optim.h"

typedef struct {
  fopo_policy *policy;       /* not owned; theta, and items that are learnt, are written back at
                              * the end of every slice */
  fopo_contexts contexts;    /* N, with dense rows; not owned */
  const fopo_reward *reward; /* not owned */
  fopo_gradient *gradient;   /* not owned */
  fopo_optim *optim;         /* not owned */
  fopo_device *device;       /* not owned */
  size_t batch;              /* contexts a step, 1 .. N */
  size_t index_refresh;      /* if items are learnt: steps between two refreshes of the index that
                              * candidates come from; 0: never */
  uint64_t seed;
  fopo_resplit_source resplit; /* {0}: contexts and reward are the same in every epoch; else those
                                * of epoch 0: before the first step of each other epoch X and Y of
                                * the sessions, of which the contexts were made and whose Y the
                                * reward is of, are drawn anew, and x is encoded */
} fopo_trainer_options;

/* A stretch of steps: sums of its statistics, and its seconds. */
typedef struct {
  fopo_statistics sum;
  double seconds;             /* of training; by the device's clock if it has one and the host did
                               * not wait for each step */
  double phases[FOPO_PHASES]; /* seconds */
} fopo_stretch;

/* A slice as its caller sees it. */
typedef struct {
  size_t steps;  /* made in this slice */
  uint64_t step; /* made in all */
  double seconds;
  double phases[FOPO_PHASES];
  fopo_statistics mean;
} fopo_slice;

typedef struct fopo_trainer fopo_trainer;

int fopo_trainer_new(fopo_trainer **t, const fopo_trainer_options *options);
void fopo_trainer_free(fopo_trainer *t); /* accepts NULL; the gradient must be there still */

/* Binds the gradient to the trainer's data and prepares the optimiser's state, as fopo_trainer_new
 * has done: before the next run if others have used one of them, or moved items that are learnt. */
int fopo_trainer_bind(fopo_trainer *t);

enum { FOPO_DUE = 2 }; /* the status of a run that waits for fopo_trainer_prepare */

/* A slice is prepared, then run. prepare opens it (theta goes to the device) and makes what is due
 * before the next step: the X and Y of another epoch, the refresh of an index, the plan of batches
 * (plan/plan.h) with all memory. run makes steps until the slice has n of them, which plan nothing
 * and allocate nothing, and says how it went:
 *
 * FOPO_OK: the n steps are made. FOPO_DUE: something is due before the next one; prepare, and run
 * again with the same n: the slice goes on. FOPO_DRAWN: the caller must fill the rewards of
 * fopo_trainer_drawn(t) and run again with the same n. A failure, which may be that of prepare,
 * ends the slice and leaves the state after the last whole step; a gradient that is not finite
 * stops before the update (FOPO_ERR_NUMERIC with step, learning rate and the rows). */
void fopo_trainer_prepare(fopo_trainer *t);
int fopo_trainer_run(fopo_trainer *t, size_t n, fopo_slice *slice);

/* prepare and run by turns: never FOPO_DUE. */
int fopo_trainer_advance(fopo_trainer *t, size_t n, fopo_slice *slice);
const fopo_drawn *fopo_trainer_drawn(const fopo_trainer *t);

/* The record: all whole steps since the last fopo_trainer_end_record. It runs on from slice to
 * slice, step by step, so its sums do not depend on where slices end; checkpoints keep it. */
const fopo_stretch *fopo_trainer_record(const fopo_trainer *t);
void fopo_trainer_end_record(fopo_trainer *t);

/* Gives up the step that waits for rewards (the Lua function failed): the state is the one after
 * the last whole step, and the next run draws that step again. */
void fopo_trainer_abandon(fopo_trainer *t);

/* The contexts of step `step` of a run over N of them, as the trainer takes them: rows [batch],
 * *B how many (the last batch of an epoch may be smaller). For users' own loops; it permutes all N
 * anew at every call. */
int fopo_trainer_batch(uint32_t *rows, size_t *B, size_t N, size_t batch, uint64_t seed,
                       uint64_t step);

uint64_t fopo_trainer_step(const fopo_trainer *t);

/* How many of the largest norms are in use, if that follows from the mass; head 0: it does not. */
const fopo_mass *fopo_trainer_norms(const fopo_trainer *t);
size_t fopo_trainer_steps_per_epoch(const fopo_trainer *t);

/* Moves what a checkpoint holds, without a file: theta, the optimiser's state and options, the
 * estimator's options, the step, the record, and the candidate cache, which `from` loses. Both must
 * be made of the same data, batch and seed, with fixed items, and be between slices. On failure
 * nothing has changed. */
int fopo_trainer_move_state(fopo_trainer *t, fopo_trainer *from);

/* .npz: theta, items that are learnt, the optimiser's state, step, seed, batch, the fingerprint of
 * what must not change (shapes, kinds), the record, the candidate cache (plan/candidate_cache.h;
 * 4 N (K + 2) bytes of candidates), and the caller's further arrays (histories). Options such as lr
 * are not taken from the file: a new lr is honoured on resume. All ranks have the same state and
 * the first one writes it, so any number of ranks resumes it. If an index is refreshed, or a
 * gradient orders items that are learnt by itself, the file has the items of that order too. Saving
 * changes nothing. */
int fopo_trainer_save(fopo_trainer *t, const char *path, const fopo_array *more, size_t n_more);

/* Whether fopo_trainer_resume would take the file. Changes nothing. */
int fopo_trainer_reads(fopo_trainer *t, const char *path);

/* On failure nothing has changed. *archive (may be NULL) receives the file's arrays. */
int fopo_trainer_resume(fopo_trainer *t, const char *path, fopo_archive *archive);

#endif
