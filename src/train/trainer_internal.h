/* The trainer's state, shared by the loop (trainer.c), the order of contexts (trainer_rows.c),
 * queued steps (trainer_async.c), files (checkpoint.h) and jobs (job.c); private to train/. */
#ifndef FOPO_TRAIN_TRAINER_INTERNAL_H
#define FOPO_TRAIN_TRAINER_INTERNAL_H

#include "train/reach.h"
#include "train/trainer.h"

struct fopo_trainer {
  fopo_trainer_options o;
  size_t n_theta; /* parameters */
  uint64_t step;  /* made in all */

  uint32_t *order; /* [N] the permutation of epoch `shuffled`; UINT64_MAX: none yet */
  uint64_t shuffled;
  const uint32_t *rows; /* [B] the batch of the current step, in order */
  size_t B;

  float *theta;           /* device [n_theta]; the truth while a slice runs */
  fopo_reach reach;       /* of theta */
  fopo_reach items_reach; /* of items that are learnt */

  fopo_candidate_cache cache; /* attached to the gradient while a slice runs */

  /* trainer_async.c; only if the device is asynchronous. */
  fopo_totals *totals;  /* device; NULL: the device has none */
  int async;            /* 1: this slice's steps are queued */
  size_t pending;       /* steps queued since totals was last read */
  size_t stride;        /* steps between two readings */
  double read;          /* clock at the last reading */
  double on_device;     /* seconds of this slice by the device's clock; 0: not known */
  uint64_t first_t;     /* the optimiser's updates at the slice's start */
  int uses_graph;       /* 1: this slice may record and replay a CUDA graph */
  fopo_work last_work;  /* of the last step; {0}: none in this slice */
  fopo_work graph_work; /* of the graph; {0}: none in this slice */

  /* Steps that will be launched by one call, and the reach before each. */
  fopo_replayed replays[FOPO_REPLAYS];
  fopo_reach reach_before[FOPO_REPLAYS];
  size_t n_replays;

  /* The order of contexts on the device, so that a step sends nothing. */
  uint32_t *device_order; /* [2, N] of an even epoch, then of an odd one; NULL: not there */
  uint64_t placed[2];     /* which epochs; UINT64_MAX: none */

  int running; /* 1: a slice is open */
  int waiting; /* 1: the caller must fill the rewards of `drawn` */
  fopo_drawn drawn;
  double started;      /* clock at the slice's start */
  uint64_t first;      /* step at the slice's start */
  fopo_stretch slice;  /* its steps so far; of queued ones those that were read from totals */
  fopo_stretch record; /* since the last record; its seconds are added at the end of a slice */

  int fingerprinted;
  uint32_t fingerprint; /* CRC-32 of items, contexts and Y */
};

/* ---- trainer_rows.c ---- */

/* The failure of a batch that is not 1 .. N. */
int fopo_trainer_check_batch(size_t batch, size_t N);

/* The batch of t->step. */
void fopo_trainer_choose_rows(fopo_trainer *t);

/* The failure of step t->step + 1, whose gradient is not finite. */
int fopo_trainer_fail_numeric(const fopo_trainer *t);

/* ---- trainer_async.c ---- */

/* Decides t->async for a slice and starts totals. */
int fopo_trainer_begin_async(fopo_trainer *t);

/* Makes steps until the slice has n. */
int fopo_trainer_run_async(fopo_trainer *t, size_t n);

/* ---- trainer.c ---- */

/* Begins the batch of t->step, of the rows that were chosen. */
int fopo_trainer_begin_batch(fopo_trainer *t);

/* FOPO_ERR_NUMERIC if the next update, by a gradient of that norm (INFINITY: not known), could move
 * a parameter beyond FOPO_REACH_MOST. Nothing has moved then. */
int fopo_trainer_check_reach(fopo_trainer *t, double norm);

/* Copies theta, and items that are learnt, from the device to the host while a slice runs. */
int fopo_trainer_fetch(fopo_trainer *t);

/* Refreshes the index that candidates come from, if index_refresh > 0; and an order of items that
 * are learnt, if the gradient has made it by itself: a resumed run makes it anew. */
int fopo_trainer_refresh(fopo_trainer *t);

#endif
