/* An estimator of the gradient is one row that says everything about it: what it needs, how many
 * draws it makes, how it draws and combines, its options and its help. A new one is one file beside
 * estimators/snis.c and one line in estimators/estimators.def; no other file names an estimator.
 *
 * With f = x^T theta beta_a / T every estimator has the shape
 *
 *     v = sum_s c_s beta_{a_s},      G = X^T V / (B T)        (V stacks one v per context)
 *
 * and they differ in what they draw and in c. */
#ifndef FOPO_LEARN_ESTIMATOR_H
#define FOPO_LEARN_ESTIMATOR_H

#include "core/option.h"
#include "learn/reward.h"
#include "plan/proposal.h"

typedef struct fopo_estimator fopo_estimator;
typedef struct fopo_batch fopo_batch; /* learn/batch.h */

typedef struct {
  const fopo_estimator *estimator;
  fopo_objective_kind objective;  /* what the gradient is of (device/objective.h) */
  const fopo_own_objective *rule; /* of the objective custom; NULL: another. Not owned */
  size_t samples;                 /* S draws a context; head_tail: U draws outside the candidates */
  int baseline;                   /* reinforce: 0 none, 1 mean */
  int own_value;                  /* custom: 1: the caller gives the value of each context, too */
  fopo_proposal proposal; /* of estimators that need one; head_tail: its index and k, epsilon 0 */
  size_t head;            /* head_tail: H, items of a head that all contexts share; 0: candidates */
  int products;           /* head_tail: fopo_products of a head that all contexts share */
  size_t limit;           /* slate: norms that its searches look at; 0: as the index allows */
  double sigma;           /* slate: of its draws */
  double sigma_lr;        /* of log sigma, by Adagrad; 0: sigma stays */
  double sigma_squares;   /* the sum of the squares of its gradients so far */
  fopo_own_option own[FOPO_OWN_OPTIONS]; /* what this estimator alone reads */
} fopo_gradient_options;

/* What a gradient is to be used with, for the estimator's check. */
typedef struct {
  size_t P;                  /* items of the catalogue */
  const fopo_policy *policy; /* learns[FOPO_BLOCK_ITEMS]: items are learnt, and so on */
  const fopo_reward *reward; /* its kind, whose needs say what it is */
  const fopo_device *device;
} fopo_estimator_use;

/* What a batch came to. Between finish and the next begin, steps is 1. */
typedef struct {
  fopo_statistics sum, mean;
  double seconds[FOPO_PHASES];
} fopo_gradient_stats;

/* What an estimator needs, and what its draws are. */
enum {
  FOPO_NEEDS_PROPOSAL = 1, /* draws from options.proposal: uniform, or a mixture with candidates */
  FOPO_NEEDS_CANDIDATES = 2,   /* the K candidates of every context, from options.proposal */
  FOPO_TAKES_FAULTS = 4,       /* calls fopo_fault_inject on its draws */
  FOPO_READS_ALL_ITEMS = 8,    /* scores all P items of every context */
  FOPO_IS_BIASED = 16,         /* by a bias of order 1 / samples */
  FOPO_TAKES_OBJECTIVES = 256, /* weighs its draws, so its gradient may be of any objective */
  FOPO_WEIGHTS_ARE_Z = 512,    /* its weights sum to Z; else log q is a density, and they sum to
                                * Z times the number of draws */
  FOPO_TAKES_PARTS = 64,       /* sums over a part of the catalogue can be joined with others' */
  FOPO_CAN_FUSE = 128,         /* its draws can be made, rewarded and combined in one operation */
  FOPO_ASKS_CALLER = 2048,     /* the caller fills the coefficients, draw by draw (fopo_drawn) */
  FOPO_SCORES_LISTS = 1024,    /* for policies that score lists, and for no others; its combine
                                * adds the target items of the objective itself */
  FOPO_SHARES_HEAD = 32,       /* takes a head that all contexts share in the candidates' place */
  FOPO_DRAWS_SLATES = 4096,    /* of lists of items, whose reward is no mean over the softmax */
  FOPO_SEARCHES_ITSELF = 8192  /* for queries of its own: what pi holds of their answers tells
                                * nothing, so no mass is probed; `limit` norms are searched */
};

struct fopo_estimator {
  const char *name;  /* of the function in Lua: fopo.gradient.NAME */
  const char *title; /* "head and tail" */
  unsigned needs;    /* of the flags above */
  size_t least;      /* samples; 0: the option has no meaning */

  /* S, how many items of a context the batch lists in draws.ids; NULL: the option samples. */
  size_t (*draws)(const fopo_batch *b);

  /* Sets b->near, for whose arrays the batch makes room (estimators/slate.c); NULL: 0. */
  void (*prepare)(fopo_batch *b);

  /* The options against what they are used with: FOPO_OK, or a refusal, before the first step. NULL
   * if there is nothing more to check. The proposal has been checked before. */
  int (*check)(const fopo_gradient_options *o, const fopo_estimator_use *use);

  /* Fills draws.ids [n, S], and draws.logq [n, S] or draws.mean [n, L], for b->piece. */
  int (*draw)(fopo_batch *b);

  /* piece.V [n, L] and piece.stats [n, FOPO_STATS] from draws.ids and draws.r; draws.c [n, S] too
   * if it is not NULL. */
  int (*combine)(fopo_batch *b);

  /* After V and stats of all contexts of a part are here, whichever rank made them; NULL: nothing
   * is left to do. */
  int (*joined)(fopo_batch *b);

  /* Whether the gradient of items that are learnt has a row for every item; NULL: it never has. */
  int (*dense)(const fopo_gradient_options *o);

  /* Adds the piece's share of the gradient of items that are learnt; NULL: the sums over the draws
   * of c_bs Q_b (learn/batch.h). */
  int (*add_items)(fopo_batch *b);

  /* For Lua: the options, help and an example that a test runs. */
  const fopo_option *options; /* ended by a name of NULL */
  const char *text;           /* formula, bias, variance, cost */
  const char *example;
};

/* Every estimator, ended by NULL. */
extern const fopo_estimator *const fopo_estimators[];

#define X(name) extern const fopo_estimator fopo_estimator_##name;
#include "learn/estimators/estimators.def"
#undef X

/* Options that several estimators have; a row of its own otherwise. */
#define FOPO_OPTION_SAMPLES(help)                                                                  \
  {                                                                                                \
    .name = "samples", .type = FOPO_OPTION_COUNT, .flags = FOPO_OPTION_SETTABLE,                   \
    .member = offsetof(fopo_gradient_options, samples), .standard = 1000, .least = 2,              \
    .symbol = "S", .text = (help)                                                                  \
  }
#define FOPO_OPTION_CANDIDATE_INDEX(help)                                                          \
  {                                                                                                \
    .name = "index", .type = FOPO_OPTION_INDEX, .flags = FOPO_OPTION_OF_CANDIDATES,                \
    .symbol = "index", .text = (help)                                                              \
  }
#define FOPO_OPTION_CANDIDATE_K(help)                                                              \
  {                                                                                                \
    .name = "k", .type = FOPO_OPTION_COUNT,                                                        \
    .flags = FOPO_OPTION_SETTABLE | FOPO_OPTION_OF_CANDIDATES,                                     \
    .member = offsetof(fopo_gradient_options, proposal.k), .standard = 256, .least = 1,            \
    .symbol = "K", .text = (help)                                                                  \
  }
#define FOPO_OPTION_CANDIDATE_REFRESH                                                              \
  {                                                                                                \
    .name = "refresh", .type = FOPO_OPTION_REFRESH, .flags = FOPO_OPTION_OF_CANDIDATES,            \
    .symbol = "refresh",                                                                           \
    .text = "visits that a context's candidates serve, or \"once\"; see fopo.proposal.mixture"     \
  }

/* Whether the caller gives the coefficients of the draws. */
static inline int fopo_estimator_asks(const fopo_estimator *e) {
  return (e->needs & FOPO_ASKS_CALLER) != 0;
}

/* The proposal that the estimator draws from or takes candidates from; NULL if it needs none. */
static inline const fopo_proposal *fopo_options_proposal(const fopo_gradient_options *o) {
  if (o->head > 0) return NULL;
  return o->estimator->needs & (FOPO_NEEDS_PROPOSAL | FOPO_NEEDS_CANDIDATES) ? &o->proposal : NULL;
}

#endif
