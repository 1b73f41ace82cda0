/* The trainer's state, shared by the loop (trainer.c), the order of contexts (trainer_rows.c),
 * queued steps (queue.c), files (checkpoint.h) and jobs (job.c); private to train/. */
#ifndef FOPO_TRAIN_STATE_H
#define FOPO_TRAIN_STATE_H

#include "train/reach.h"
#include "train/trainer.h"
#include "train/unfinished.h"

/* How steps are made that are not worked off one by one: queued on a device that works on its own
 * (queue.c). */
typedef struct {
  /* Before the plan of the next batch. It may take steps back. */
  int (*prepare)(fopo_trainer *t);

  /* Works off the batch that was begun, with its update. *made = 0: steps of another kind had to be
   * launched first, and the batch is to be prepared again. */
  int (*make)(fopo_trainer *t, fopo_gradient_stats *stats, int *made);

  /* Adds a committed step to the sums of slice and record. */
  int (*add)(fopo_trainer *t, const fopo_gradient_stats *stats);

  /* Waits for all steps, and fails if one was not finite; and the end of the slice, whose seconds
   * are known if it is `whole`. */
  int (*wait)(fopo_trainer *t);
  void (*end)(fopo_trainer *t, int whole);
} fopo_way;

struct fopo_trainer {
  fopo_trainer_options o;
  fopo_resplit resplit;      /* {0}: X and Y stay as they are */
  fopo_reward drawn_reward;  /* then that of the options, of resplit.Y */
  fopo_contexts contexts;    /* what steps read: those of the options, or of resplit */
  const fopo_reward *reward; /* the same */
  size_t n_theta;            /* parameters */
  uint64_t step;             /* made in all */

  uint32_t *order; /* [N] the permutation of epoch `shuffled`; UINT64_MAX: none yet */
  uint64_t shuffled;
  const uint32_t *rows; /* [B] the batch of the current step, in order */
  size_t B;

  float *theta; /* device [n_theta]; the truth while a slice runs */
  fopo_reach reach[FOPO_BLOCKS];

  /* What the gradient orders items by that are learnt: a copy of them, by which a run that was
   * resumed makes the same order. */
  float *ordered;    /* [P, L] on the host; NULL: nothing is ordered by what is learnt. Owned */
  uint64_t ordering; /* fopo_gradient_ordering of it; 0: none was made */

  fopo_candidate_cache cache; /* the gradient is opened with it while a slice runs */

  /* queue.c; only if the device is asynchronous. */
  fopo_totals *totals;  /* device; NULL: the device has none */
  const fopo_way *way;  /* of this slice's steps; NULL: each in turn */
  int waits;            /* 1: the host waits for the step at hand */
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
  fopo_reach reach_before[FOPO_REPLAYS]; /* of theta, which alone moves in them */
  size_t n_replays;

  /* The order of contexts on the device, so that a step sends nothing. */
  uint32_t *device_order; /* [2, N] of an even epoch, then of an odd one; NULL: not there */
  uint64_t placed[2];     /* which epochs; UINT64_MAX: none */

  int running;            /* 1: a slice is open */
  int prepared;           /* the status of the last prepare; FOPO_DUE: there was none */
  uint64_t prepared_step; /* the step that it was for; UINT64_MAX: none */
  int waiting;            /* 1: the caller must fill the rewards of `drawn` */
  fopo_drawn drawn;
  double started;     /* clock at the slice's start */
  uint64_t first;     /* step at the slice's start */
  fopo_stretch slice; /* its steps so far; of queued ones those that were read from totals */
  fopo_unfinished unfinished; /* the run that was begun and is not at its end */
  fopo_stretch record; /* since the last record; its seconds are added at the end of a slice */

  int fingerprinted;
  uint32_t fingerprint; /* CRC-32 of items, contexts and Y */
};

/* ---- trainer_rows.c ---- */

/* The failure of a batch that is not 1 .. N. */
int fopo_trainer_check_batch(size_t batch, size_t N);

/* The batch of t->step. */
void fopo_trainer_choose_rows(fopo_trainer *t);

/* Whether t->step begins another epoch than X and Y were drawn for. */
int fopo_trainer_resplit_is_due(const fopo_trainer *t);

/* Draws X and Y anew if t->step begins another epoch than they were drawn for, and expires what was
 * made of the former ones. Waits for queued steps before, which may take steps back. */
int fopo_trainer_resplit(fopo_trainer *t);

/* The failure of step t->step + 1, whose gradient is not finite. */
int fopo_trainer_fail_numeric(const fopo_trainer *t);

/* ---- queue.c: queued steps ---- */

extern const fopo_way fopo_queued;

/* Decides t->way of a slice and starts totals. */
int fopo_queue_begin(fopo_trainer *t);

/* ---- trainer_parameters.c ---- */

/* Refuses a theta that is not finite, and looks how far it reaches. */
int fopo_trainer_check_theta(fopo_trainer *t);

/* The optimiser's state of all blocks that learn, before a slice. */
int fopo_trainer_prepare_optim(fopo_trainer *t);

/* Moves the blocks that learn by the gradient of the batch at hand. */
int fopo_trainer_move(fopo_trainer *t, fopo_optim_norm norm);

/* FOPO_ERR_NUMERIC if the next update, by a gradient of that norm (INFINITY: not known), could move
 * a parameter beyond FOPO_REACH_MOST. Nothing has moved then. */
int fopo_trainer_check_reach(fopo_trainer *t, double norm);

/* Copies the blocks that learn from the device to the host while a slice runs. */
int fopo_trainer_fetch(fopo_trainer *t);

/* Before a slice: if t->ordered is not what the gradient orders items by, makes the order of it, or
 * both of the items as they are. */
int fopo_trainer_prepare_order(fopo_trainer *t);

/* Brings items that are learnt to the host, and makes what is ordered by them anew. */
int fopo_trainer_refresh(fopo_trainer *t);

/* ---- a step ---- */

/* Begins the batch of t->step, of the rows that were chosen. */
static inline int fopo_trainer_begin_batch(fopo_trainer *t) {
  /* 2^32 steps are out of reach: the key's step is the trainer's. */
  fopo_draw_key key = {t->o.seed, (uint32_t)t->step};
  return fopo_gradient_begin(t->o.gradient, t->theta, t->rows, t->B, key);
}

#endif
