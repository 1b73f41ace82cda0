/* What estimators of slates share: lists of k items, drawn as a whole and rewarded as a whole. The
 * draws of a context are S slates of k places, one behind another, and the rewards of its items
 * r_1 .. r_k, looked up as those of single items are, become the reward R of a slate:
 *
 *     hit   max r_j           sum   sum r_j
 *     dcg   sum d_j r_j       ndcg  dcg over that of a slate that begins with all of Y
 *
 * with d_j = 1 / log2(1 + j) or g^(j - 1), the chance that a user looks at place j (Moffat and
 * Zobel 2008). A place without an item has log q = -infinity, and earns nothing. */
#ifndef FOPO_LEARN_ESTIMATORS_SLATES_H
#define FOPO_LEARN_ESTIMATORS_SLATES_H

#include "learn/batch.h"

/* The places of the options that they share. */
enum { FOPO_SLATE_MEASURE, FOPO_SLATE_DISCOUNT, FOPO_SLATE_BASELINE, FOPO_SLATE_OPTIONS };

extern const char *const fopo_slate_measures[];  /* of the measures of device/slate.h */
extern const char *const fopo_slate_baselines[]; /* leave-one-out, none */

#define FOPO_OPTION_SLATE_K(more)                                                                  \
  {                                                                                                \
    .name = "k", .type = FOPO_OPTION_COUNT, .flags = FOPO_OPTION_SETTABLE | (more),                \
    .member = offsetof(fopo_gradient_options, proposal.k), .standard = 10, .least = 1,             \
    .symbol = "k", .text = "k, items of a slate"                                                   \
  }
#define FOPO_OPTION_SLATE_SAMPLES                                                                  \
  {                                                                                                \
    .name = "samples", .type = FOPO_OPTION_COUNT, .flags = FOPO_OPTION_SETTABLE,                   \
    .member = offsetof(fopo_gradient_options, samples), .standard = 100, .least = 2,               \
    .symbol = "S", .text = "S, slates of a context"                                                \
  }
#define FOPO_OPTION_SLATE_MEASURE                                                                  \
  {                                                                                                \
    .name = "measure", .type = FOPO_OPTION_CHOICE,                                                 \
    .member = offsetof(fopo_gradient_options, own[FOPO_SLATE_MEASURE].choice),                     \
    .choices = fopo_slate_measures, .symbol = "by",                                                \
    .text = "the reward of a slate: hit, the largest reward of its items; sum, of all; dcg, each " \
            "with the discount of its place; ndcg, dcg over the best possible"                     \
  }
#define FOPO_OPTION_SLATE_DISCOUNT                                                                 \
  {                                                                                                \
    .name = "discount", .type = FOPO_OPTION_NUMBER, .flags = FOPO_OPTION_ABOVE | FOPO_OPTION_AUTO, \
    .member = offsetof(fopo_gradient_options, own[FOPO_SLATE_DISCOUNT].number), .most = 1,         \
    .text = "of place j in dcg and ndcg: auto, 1 / log2(1 + j); g, g^(j - 1), the chance that a "  \
            "user who goes from place to place with probability g looks at it"                     \
  }
#define FOPO_OPTION_SLATE_BASELINE                                                                 \
  {                                                                                                \
    .name = "baseline", .type = FOPO_OPTION_CHOICE,                                                \
    .member = offsetof(fopo_gradient_options, own[FOPO_SLATE_BASELINE].choice),                    \
    .choices = fopo_slate_baselines,                                                               \
    .text = "subtracted from a slate's reward: the mean of the context's other slates, or none"    \
  }

/* S k, for draws of a row. */
size_t fopo_slate_draws(const fopo_batch *b);

/* Whether the mean of the context's other slates is subtracted. */
int fopo_slate_has_baseline(const fopo_gradient_options *o);

/* Refuses what no estimator of slates can do. */
int fopo_slate_check(const fopo_gradient_options *o, const fopo_estimator_use *use);

/* The slates of b->piece; what is of perturbed queries alone is 0. */
fopo_slates fopo_slates_of(const fopo_batch *b);

#endif
