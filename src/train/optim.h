/* Optimisers. The objective is a reward: theta moves up the gradient. What differs from one to
 * another is a row: one file beside train/adam.c and one line in train/optimisers.def; no other
 * file names one. */
#ifndef FOPO_TRAIN_OPTIM_H
#define FOPO_TRAIN_OPTIM_H

#include "core/option.h"
#include "learn/gradient.h"
#include "train/schedule.h"

typedef struct fopo_optimiser fopo_optimiser;

typedef struct {
  const fopo_optimiser *kind;
  double lr;                    /* > 0 */
  double beta1, beta2;          /* of adam alone; else 0 */
  double eps;                   /* adam, adagrad */
  double momentum;              /* sgd */
  double block_lr[FOPO_BLOCKS]; /* >= 0: of a block of its own; 0: lr */
  struct {
    char name[FOPO_PARAMETER_NAME];
    double lr;                     /* > 0 */
  } lr_of[FOPO_POLICY_PARAMETERS]; /* of parts of theta by name; the others have theta's */
  size_t n_lr_of;
  double weight_decay;    /* >= 0: L2, added to the gradient as in the authors' code */
  int decoupled;          /* 1: weights decay apart from the gradient instead, by lr
                           * weight_decay theta (Loshchilov and Hutter 2019) */
  double clip;            /* >= 0: the largest norm of a gradient, of all blocks together; 0:
                           * any */
  fopo_schedule schedule; /* of all learning rates */
} fopo_optim_options;

/* The state of a block of parameters. */
typedef struct {
  size_t rows, cols; /* of the block; 0 before its first step */
  float *m, *v;      /* [rows, cols]; NULL: the optimiser has none */
  uint32_t *updates; /* [rows] those that each row had; NULL: the optimiser does not count them, or
                      * the block does not move by rows */
} fopo_moments;

typedef struct {
  fopo_optim_options options;   /* may be changed between steps, the kind apart */
  uint64_t t;                   /* updates so far */
  fopo_device *device;          /* of the state; not owned */
  fopo_moments of[FOPO_BLOCKS]; /* on the device; owned */

  /* What is learnt of theta, since fopo_optim_fit: segments of one learning rate each. */
  fopo_segment learnt[FOPO_POLICY_PARAMETERS];
  int own_lr[FOPO_POLICY_PARAMETERS]; /* of each, its place in lr_of; -1: theta's rate */
  size_t n_learnt;
} fopo_optim;

struct fopo_optimiser {
  const char *name; /* of the function in Lua: fopo.optim.NAME, and in checkpoints */
  int has_m, has_v; /* the moments that its state has */
  int has_updates;  /* 1: and the number of updates of each row, of a block that moves by rows */

  /* One device operation: moves x by G, rows of `cols` numbers; 0: the block does not move by rows.
   * u: what the update has in common with those of every optimiser. */
  int (*update)(const fopo_optim *o, const fopo_parameters *x, const fopo_item_gradient *G,
                size_t cols, const fopo_update *u);

  /* The most that an update at a learning rate of 1 moves a parameter of at most `bound`, the norms
   * of all gradients so far being at most `norm`, or not known (INFINITY). */
  double (*reach)(const fopo_optim_options *o, double norm, double bound);

  /* For Lua: the default learning rate (0: it must be given), options of its own, help and an
   * example that a test runs. */
  double lr;
  const fopo_option *options; /* ended by a name of NULL */
  const char *text, *example;
};

/* Those of train/optimisers.def, ended by NULL. */
extern const fopo_optimiser *const fopo_optimisers[];

#define X(name) extern const fopo_optimiser fopo_optimiser_##name;
#include "train/optimisers.def"
#undef X

int fopo_optim_init(fopo_optim *o, const fopo_optim_options *options);
void fopo_optim_done(fopo_optim *o); /* accepts {0} */

/* The norm of a gradient, by which it is clipped. */
typedef struct {
  double norm;               /* of all parameters that move in this update */
  const fopo_totals *totals; /* device; if not NULL it knows the norm instead, and nothing moves if
                              * it is broken */
} fopo_optim_norm;

/* Allocates the state of the blocks that learn, if there is none yet, and refuses other sizes or
 * another device than before: FOPO_ERR_ARGUMENT. To be called before the steps that move them,
 * which then cannot fail for memory. rows 0: the block does not learn. */
int fopo_optim_prepare(fopo_optim *o, fopo_device *device,
                       const fopo_block_shape shapes[FOPO_BLOCKS]);

/* Looks up what the policy learns of theta, and at which rates; refuses rates of parts that it does
 * not have. To be called before the steps that move theta: a step looks up no name. */
int fopo_optim_fit(fopo_optim *o, const fopo_policy *pi);

/* The update of one block, whose values and gradient are device pointers. A block that moves by
 * rows is updated lazily: a row without a gradient stays as it is, moments and decay included, and
 * Adam's corrections for the start count each row's own updates. After all blocks the caller counts
 * the update: o->t++. */
int fopo_optim_step(fopo_optim *o, fopo_block block, float *values, const fopo_item_gradient *G,
                    fopo_optim_norm norm);

/* The same of the parts of theta that are learnt, each at its own rate. */
int fopo_optim_step_theta(fopo_optim *o, float *theta, const fopo_item_gradient *G,
                          fopo_optim_norm norm);

/* What the next step of theta takes: of adam, or of others as far as a replay needs it. */
fopo_adam fopo_optim_adam(const fopo_optim *o);

/* The learning rate of a block, before its schedule; of theta the largest of its learnt parts. */
double fopo_optim_lr(const fopo_optim *o, fopo_block block);

/* Whether all of theta is learnt, by the update of fopo_optim_adam. */
int fopo_optim_is_one(const fopo_optim *o, const fopo_policy *pi);

/* lr at the last update: lr times the schedule's factor; before the first update, that of the
 * first.
 */
double fopo_optim_rate(const fopo_optim *o);

/* For checkpoints. read: the state of a block goes to arrays on the host, of its shape; they are
 * left as they are if there is no such state (all, before the first step). restore: the
 * state after t updates from arrays on the host, rows 0 for a block without; on failure the old one
 * stands. */
int fopo_optim_read(const fopo_moments *to, const fopo_optim *o, fopo_block block);
int fopo_optim_restore(fopo_optim *o, fopo_device *device, const fopo_moments from[FOPO_BLOCKS],
                       uint64_t t);

#endif
