/* Rewards: estimators rhat(a, x) of the reward of showing item a in context x. Every objective of
 * the paper is one of these over the same loop.
 *
 * A reward is one row that says everything about it: what it is made of, the data that it fits, its
 * value on the host in plain form, and how the device looks up a whole batch. A new one is one file
 * beside rewards/hits.c and one line in rewards/rewards.def; no other file names a reward. */
#ifndef FOPO_LEARN_REWARD_H
#define FOPO_LEARN_REWARD_H

#include "core/option.h"
#include "data/logs/logs.h"
#include "device/device.h"
#include "ranks/shared.h"

typedef struct fopo_reward_kind fopo_reward_kind;

typedef struct {
  const fopo_reward_kind *kind;
  const fopo_csr *Y;         /* hits: [N, P]; not owned */
  const float *value;        /* hits: [P] what one on each item earns, >= 0; NULL: 1 */
  const fopo_shared *shared; /* hits: Y is this rank's part of these, and `contexts` counts those of
                              * all ranks; NULL: Y is whole. Not owned */
  size_t contexts;           /* N it covers; 0: any */
  size_t actions;            /* P it covers; 0: the columns of Y, or any */
  fopo_credit credit;        /* on the host; action NULL: none. action is the log's, not owned */
  fopo_low_rank model;       /* on the host; users NULL: none. Not owned */
  float *owned;              /* hits: [P] value; of logs: [2 N] credit.weight, then credit.gain */
} fopo_reward;

/* What a reward is made of. It must outlive the reward. */
typedef struct {
  const fopo_csr *Y;  /* of sessions: [N, P] */
  const float *value; /* of sessions: [n_values] what each item is worth; NULL: 1 each */
  size_t n_values;
  const fopo_shared *shared; /* the sessions are shared out, and Y is theirs; NULL: they are not */
  const fopo_logs *logs;
  const fopo_low_rank *model;            /* of the log's contexts and actions */
  size_t contexts;                       /* custom: N it covers; 0: any */
  double clip;                           /* tau, 0 .. 1: the least propensity that is divided by */
  double translate;                      /* lambda, taken from every reward of the log */
  double smoothing;                      /* lambda of the objective "smoothed", by which all is
                                          * multiplied; 0: 1 */
  double threshold;                      /* the largest weight 1 / p that is used, 1 or more */
  fopo_own_option own[FOPO_OWN_OPTIONS]; /* what this reward alone reads */
} fopo_reward_source;

/* What a reward needs, and what it is. */
enum {
  FOPO_REWARD_OF_SESSIONS = 1,
  FOPO_REWARD_OF_LOGS = 2,
  FOPO_REWARD_OF_MODEL = 4,     /* a model of the reward, beside the log */
  FOPO_REWARD_FROM_CALLER = 8,  /* filled by the caller, draw by draw: no value, no look_up */
  FOPO_REWARD_OF_ANY_ITEM = 16, /* rewards any item in any of its contexts, as a model does */
  FOPO_REWARD_IS_MODEL = 32,    /* its value is the model's and nothing else */
  FOPO_REWARD_TRANSLATES = 64,  /* credit.shift may be changed between two steps */
  FOPO_REWARD_IS_SPARSE = 128   /* 0 but for the items of Y, or for the logged action's credit */
};

struct fopo_reward_kind {
  const char *name;  /* of the function in Lua: fopo.reward.NAME */
  const char *title; /* "doubly robust" */
  unsigned needs;    /* of the flags above */

  /* Fills the empty *r. What it owns is freed by fopo_reward_done, also after a failure. */
  int (*make)(fopo_reward *r, const fopo_reward_source *source);

  /* rhat(a, x_n) on the host: the plain form of what the device computes. */
  double (*value)(const fopo_reward *r, size_t n, uint32_t a);

  /* samples->r of samples->ids in the contexts of x, on the device. NULL: the draws come to the
   * host and `value` fills them, which is correct on every device, and slower. */
  int (*look_up)(fopo_device *d, const fopo_samples *samples, const fopo_reward_arrays *arrays,
                 const fopo_device_batch *x);

  /* For Lua: the options beside what `needs` says, help, and an example that a test runs. */
  const fopo_option *options; /* ended by a name of NULL; NULL: none */
  const char *text, *example;
};

/* Every reward, ended by NULL. */
extern const fopo_reward_kind *const fopo_rewards[];

/* The place of a kind in the list, which checkpoints keep: new lines go to its end. */
size_t fopo_reward_number(const fopo_reward_kind *kind);

#define X(name) extern const fopo_reward_kind fopo_reward_##name;
#include "learn/rewards/rewards.def"
#undef X

/* Makes *r anew. */
int fopo_reward_init(fopo_reward *r, const fopo_reward_kind *kind,
                     const fopo_reward_source *source);
void fopo_reward_done(fopo_reward *r); /* accepts {0} */

/* r->value = a copy of the source's values, if it has any, of the items of its Y. */
int fopo_reward_take_values(fopo_reward *r, const fopo_reward_source *source);

/* Whether the caller fills the rewards, draw by draw. */
static inline int fopo_reward_from_caller(const fopo_reward *r) {
  return (r->kind->needs & FOPO_REWARD_FROM_CALLER) != 0;
}

/* Whether all items of a context but a few have the reward 0 (fopo_sparse_reward). */
static inline int fopo_reward_is_sparse(const fopo_reward *r) {
  return (r->kind->needs & FOPO_REWARD_IS_SPARSE) != 0;
}

/* Its arrays on the host. */
fopo_reward_arrays fopo_reward_arrays_of(const fopo_reward *r);

/* Checks that it covers N contexts and P items. */
int fopo_reward_check(const fopo_reward *r, size_t N, size_t P);

/* values [B, S] on the host for ids [B, S] of contexts rows [B]; FOPO_ERR_ARGUMENT if the caller
 * fills this reward, or for an item that it does not cover. */
int fopo_reward_fill(float *values, const fopo_reward *r, const uint32_t *ids, const uint32_t *rows,
                     size_t B, size_t S);

/* The draws whose rewards, and whose coefficients, a caller is to fill: ids [B, S] in the contexts
 * rows [B], on the host. Of a custom proposal the draws themselves are asked for before that. */
typedef struct {
  const uint32_t *ids;
  const uint32_t *rows;
  float *reward; /* [B, S] to be filled, if the reward is the caller's */
  size_t B, S;

  /* Of an estimator whose coefficients are the caller's (FOPO_ASKS_CALLER), else NULL. */
  const float *f, *logq; /* [B, S] the scores, -INFINITY of masked items; the draws' log density */
  float *c;              /* [B, S] to be filled, after the rewards; not read for masked items */
  float *value;          /* [B] to be filled with them: what is raised; NULL: not asked for */

  /* Draws of a custom proposal: these alone are to be filled; NULL: they are there. */
  uint32_t *draws; /* [B, S] */
  float *density;  /* [B, S] their log q */
  fopo_matrix Q;   /* [B, L] the queries */
  fopo_draw_key key;
} fopo_drawn;

enum { FOPO_DRAWN = 1 }; /* the status of work that waits for a fopo_drawn */

#endif
