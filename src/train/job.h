/* Training in the background: a run in a thread of its own.
 *
 * The thread works on copies of all that training changes (theta, the optimiser, the estimator,
 * what is remembered from visit to visit) and on a device of its own; items, contexts, rewards and
 * indexes are shared and stay as they are. So whoever started it may go on to read and use the
 * trainer's policy: it shows theta as fopo_job_look last fetched it. The state goes to the thread
 * when the job starts or goes on, and comes back whenever it rests or has ended; in between the
 * trainer, its policy, estimator and optimiser must not be changed by others.
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
  int validates;              /* 1: is looking at the sessions */
  uint64_t step, first, last; /* made in all; at the start; at the end, UINT64_MAX: not known */
  double seconds;             /* of training, in all */
  fopo_slice slice;           /* the last one */
  size_t records;             /* that wait to be taken */
  uint64_t best_step;         /* of the best validation, 0: none */
  int status;                 /* ended: FOPO_OK, or why with the sentence */
  const char *sentence;       /* why it ended early; "": it did not. Lives as long as the job */
} fopo_job_status;

/* Starts. Refuses rewards from outside, and runs of several processes. t must outlive the job. */
int fopo_job_start(fopo_job **job, fopo_trainer *t, const fopo_run_plan *plan);

/* What there is to see. Where theta is not NULL the newest theta at hand is copied to the trainer's
 * policy, unless the state is there already; the next look brings a newer one. */
void fopo_job_look(fopo_job_status *status, fopo_job *job, int theta);

/* Takes the oldest record; 0 where none waits. */
int fopo_job_take(fopo_run_record *record, fopo_job *job);

/* Lets the job rest after the slice in hand, and returns when it does and the state is with the
 * trainer (at once where it rests or has ended). FOPO_ERR_INTERRUPTED after Ctrl-C: the job goes
 * on. */
int fopo_job_rest(fopo_job *job);

/* Goes on from the trainer's state, with the options that its estimator and optimiser have now. */
int fopo_job_go(fopo_job *job);

/* Ends the job after the step in hand and waits for that; the state is with the trainer then. */
int fopo_job_stop(fopo_job *job);

/* Waits at most so many seconds for the end. FOPO_OK in either case; look tells which. */
int fopo_job_wait(fopo_job *job, double seconds);

/* Stops the thread without a word and forgets what it made since the state was last with the
 * trainer. Accepts NULL. */
void fopo_job_free(fopo_job *job);

/* How many jobs of the program have not ended, or not been seen to. */
int fopo_jobs_running(void);

#endif
