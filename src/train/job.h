/* Training in the background: a run in a thread of its own.
 *
 * The thread works on copies of all that training changes (theta, the optimiser, the gradient, the
 * candidate cache) and on a device of its own; items, contexts, rewards and indexes are shared and
 * must not change. So the caller may read and use the trainer's policy meanwhile: it has theta as
 * fopo_job_look last fetched it. The state moves to the thread when the job starts or goes on, and
 * back to the trainer when the job rests or has ended; in between the caller must not change the
 * trainer, its policy, gradient or optimiser.
 *
 * The numbers are those of the same run in the foreground, to the bit. Ctrl-C is not for the job.
 * All functions are called from one thread, that of the program. */
#ifndef FOPO_TRAIN_JOB_H
#define FOPO_TRAIN_JOB_H

#include "train/run.h"

typedef struct fopo_job fopo_job;

typedef enum { FOPO_JOB_TRAINS, FOPO_JOB_RESTS, FOPO_JOB_ENDED } fopo_job_state;

typedef struct {
  fopo_job_state state;
  int validates;              /* 1: is validating now */
  uint64_t step, first, last; /* made in all; at the start; at the end, UINT64_MAX: not known */
  double seconds;             /* of training, in all */
  fopo_slice slice;           /* the last one */
  size_t records;             /* that wait to be taken */
  fopo_run_best best;         /* ended by itself: what it ended with */
  int status;                 /* ended: FOPO_OK, or why with the sentence */
  char sentence[1024];        /* why it ended early; "": it did not */
} fopo_job_status;

/* Starts a job. Refused: rewards that the caller fills, items that are learnt, validation by the
 * caller, several processes. t must outlive the job. */
int fopo_job_start(fopo_job **job, fopo_trainer *t, const fopo_run_plan *plan);

/* Fills *status. theta 1: copies the newest theta that the thread has given out to the trainer's
 * policy, unless the state is with the trainer, and asks the thread for a newer one. */
void fopo_job_look(fopo_job_status *status, fopo_job *job, int theta);

/* Removes the oldest record that waits; 0 if there is none. */
int fopo_job_take(fopo_run_record *record, fopo_job *job);

/* Lets the job rest when its slice, or its record, has ended, and returns when the state is with
 * the trainer (at once if the job rests already or has ended). FOPO_ERR_INTERRUPTED after Ctrl-C:
 * the job goes on. */
int fopo_job_rest(fopo_job *job);

/* Goes on from the trainer's state, with the options that its estimator and optimiser have now. */
int fopo_job_go(fopo_job *job);

/* Ends the job after its step and waits for that; then the state is with the trainer. */
int fopo_job_stop(fopo_job *job);

/* Waits at most so many seconds for the end. FOPO_OK in either case; look tells which. */
int fopo_job_wait(fopo_job *job, double seconds);

/* Stops the thread and forgets the steps since the state was last with the trainer. Accepts NULL.
 */
void fopo_job_free(fopo_job *job);

/* How many jobs of the program have not ended, or have ended without anybody having looked. */
int fopo_jobs_running(void);

#endif
