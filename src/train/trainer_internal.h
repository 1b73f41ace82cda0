/* The trainer's state, shared by the loop (trainer.c) and its files (checkpoint.c); private to
 * learn/. */
#ifndef FOPO_TRAIN_TRAINER_INTERNAL_H
#define FOPO_TRAIN_TRAINER_INTERNAL_H

#include "train/trainer.h"

/* What a rank tells all ranks at every step. */
typedef struct {
  int failed, interrupted;
  fopo_statistics sum; /* over the rank's contexts */
} fopo_ballot;

struct fopo_trainer {
  fopo_trainer_options o;
  size_t n_theta;   /* parameters */
  size_t per_epoch; /* steps */
  uint64_t step;    /* made in all */

  uint32_t *order; /* [N] the permutation of epoch `shuffled`; UINT64_MAX: none yet */
  uint64_t shuffled;
  const uint32_t *rows; /* [B] the batch of the current step, in order */
  size_t B;
  uint32_t *mine; /* [batch] this rank's rows, n_mine of them */
  size_t n_mine;

  float *theta;         /* device [n_theta]; the truth while a slice runs */
  fopo_matrix G;        /* as theta, to sum over ranks; {0} alone */
  fopo_ballot *ballots; /* [ranks] */

  fopo_candidate_cache cache; /* lent to the gradient while a slice runs */

  /* Steps that the host does not wait for; of no meaning where it waits for each. */
  fopo_totals *totals; /* device; NULL: it has none */
  int async;           /* this slice's steps go to the totals */
  size_t pending;      /* steps since the totals was last read */
  size_t stride;       /* steps between two readings */
  double read;         /* clock at the last one */
  double on_device;    /* seconds of this slice by the device's clock; 0: not known */
  uint64_t first_t;    /* the optimiser's updates at the slice's start */
  int records;         /* this slice's steps may be recorded */
  fopo_work seen;      /* of the last step; {0}: there was none in this slice */
  fopo_work recorded;  /* of the device's record; {0}: it has none of this slice */

  int running; /* a slice is open */
  int waiting; /* for the rewards of `drawn` */
  fopo_drawn drawn;
  double started;      /* clock at the slice's start */
  uint64_t first;      /* step at the slice's start */
  fopo_stretch slice;  /* so far; steps counts those that are known to be whole */
  fopo_stretch record; /* likewise; its seconds are added at the end of a slice */

  int fingerprinted;
  uint32_t fingerprint; /* CRC-32 of items, contexts and Y */
};

/* The batch of t->step, and this rank's share of it. */
void fopo_trainer_choose_rows(fopo_trainer *t);

/* The sentence for a gradient of step t->step + 1 that is not finite. */
int fopo_trainer_fail_numeric(const fopo_trainer *t);

/* trainer_async.c: whether this slice's steps go to totals, which then starts; and such steps,
 * until the slice has made n. */
int fopo_trainer_begin_async(fopo_trainer *t);
int fopo_trainer_run_async(fopo_trainer *t, size_t n);

/* Refreshes the index of the candidates where index_refresh asks for it. */
int fopo_trainer_refresh(fopo_trainer *t);

#endif
