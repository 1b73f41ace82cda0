/* A run that has not come to its end, as its trainer keeps it: what decides how it goes on beside
 * the state of training. Jobs and checkpoints move it with that state, so a run that was
 * interrupted and goes on, here or from a file, ends as the one that never stopped: with the same
 * best parameters, the same patience, and records at the same steps. */
#ifndef FOPO_TRAIN_UNFINISHED_H
#define FOPO_TRAIN_UNFINISHED_H

#include "core/npz.h"
#include "train/validation.h"

/* The best validation of a run, its start's included. */
typedef struct {
  int known;     /* 0: there was none, or its parameters were not kept */
  uint64_t step; /* made in all before it */
  int at_start;  /* 1: it is the start of the run */
  int restored;  /* 1: finish has put its parameters back; 0: they are the last ones */
  fopo_worth worth;
  double loss, low, high; /* what the last parameters are worth less, by what decides, over the
                           * same contexts, with its 95 % interval; NaN: it is not known */
} fopo_run_best;

typedef struct {
  int open;         /* 1: it has begun its steps and is not at its end; 0: the rest means nothing */
  uint64_t first;   /* step before its first one */
  uint64_t last;    /* step at its end; UINT64_MAX: not known */
  double seconds;   /* of training that are left to it; INFINITY: no limit */
  uint64_t every;   /* steps of a record; 0: about a second's */
  uint64_t waited;  /* validations since the best one */
  uint64_t basis;   /* a checksum of what it is validated on and of how the best is known */
  uint64_t set;     /* how often the policy's parameters had been set by hand (policy.h) */
  fopo_worth start; /* before its first step */
  fopo_run_best best;
  float *kept[FOPO_BLOCKS]; /* the best values of each block; NULL: not kept, or fixed */
  fopo_worth_each each;     /* of the best validation */
} fopo_unfinished;

struct fopo_trainer;
const fopo_unfinished *fopo_trainer_unfinished(const struct fopo_trainer *t);

/* Memory for the blocks that pi learns. On failure free it all the same. */
int fopo_unfinished_reserve(fopo_unfinished *u, const fopo_policy *pi);
void fopo_unfinished_done(fopo_unfinished *u); /* accepts {0} */

/* The members of a file: arrays [FOPO_UNFINISHED_ARRAYS], which point to u and to *room. */
enum { FOPO_UNFINISHED_COUNTS = 7, FOPO_UNFINISHED_NUMBERS = 1 + 2 * FOPO_WORTH_NUMBERS };
enum { FOPO_UNFINISHED_ARRAYS = 2 + FOPO_BLOCKS + FOPO_BYS };

typedef struct {
  uint64_t counts[FOPO_UNFINISHED_COUNTS];
  double numbers[FOPO_UNFINISHED_NUMBERS];
} fopo_unfinished_room;

size_t fopo_unfinished_describe(fopo_array *a, const fopo_unfinished *u, const fopo_policy *pi,
                                fopo_unfinished_room *room);

/* Reads *u, {0} before, of a run of this policy; open 0 if the file has none. On failure free it
 * all the same. */
int fopo_unfinished_read(fopo_unfinished *u, fopo_archive *archive, const char *path,
                         const fopo_policy *pi, uint64_t step);

#endif
