/* Uniform sampling, as an example of an estimator: S items drawn uniformly, c_s as in snis. It
 * needs no index and no proposal; its weights w_s = exp(f_s) P are the most uneven of all. Its own
 * options do nothing but show that an option may have any name, those of other estimators too. */
#include <math.h>

#include "core/clock.h"
#include "core/status.h"
#include "learn/estimators/covariance.h"

enum { K, HEAD, TAIL, EPS, BATCH, REFRESH }; /* places in `own` */

static int draw(fopo_batch *b) {
  fopo_device *d = b->data->device;
  double start = fopo_clock();
  int status = d->ops->draw_uniform(d, &b->draws.samples, &b->piece.device);
  b->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

/* No draw counts as a candidate: there are none. */
static int combine(fopo_batch *b) { return fopo_combine_covariance(b, &b->data->beta, INFINITY); }

/* Refuses items that are learnt, and logs. */
static int check(const fopo_gradient_options *o, const fopo_estimator_use *use) {
  if (use->policy->learns[FOPO_BLOCK_ITEMS]) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "uniform does not learn items; use snis, or a policy "
                                        "without train_items");
  }
  if (use->reward->kind->needs & FOPO_REWARD_OF_LOGS) {
    return fopo_fail(FOPO_ERR_ARGUMENT, "uniform hardly draws the action of a log; use head_tail");
  }
  if (o->own[HEAD].count < use->P) return FOPO_OK;
  return fopo_fail(FOPO_ERR_ARGUMENT, "a head of %zu items is all of the %zu items",
                   o->own[HEAD].count, use->P);
}

static const char *const tails[] = {"short", "long", NULL};

static const fopo_option options[] = {
    FOPO_OPTION_SAMPLES("S, draws a context"),
    {.name = "k",
     .type = FOPO_OPTION_NUMBER,
     .member = offsetof(fopo_gradient_options, own[K].number),
     .standard = 0.5,
     .least = 0.25,
     .most = 2,
     .symbol = "k",
     .text = "a number that does nothing"},
    {.name = "head",
     .type = FOPO_OPTION_COUNT,
     .member = offsetof(fopo_gradient_options, own[HEAD].count),
     .standard = 3,
     .least = 1,
     .symbol = "head",
     .text = "a count of items that does nothing"},
    {.name = "tail",
     .type = FOPO_OPTION_CHOICE,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_gradient_options, own[TAIL].choice),
     .choices = tails,
     .symbol = "tail",
     .text = "a word that does nothing"},
    {.name = "epsilon",
     .type = FOPO_OPTION_NUMBER,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_gradient_options, own[EPS].number),
     .standard = 2,
     .least = 1,
     .most = 4,
     .symbol = "eps",
     .text = "another number"},
    {.name = "batch",
     .type = FOPO_OPTION_COUNT,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_gradient_options, own[BATCH].count),
     .standard = 7,
     .least = 2,
     .most = 9,
     .symbol = "batch",
     .text = "a count that is not t.batch"},
    {.name = "refresh",
     .type = FOPO_OPTION_CHOICE,
     .member = offsetof(fopo_gradient_options, own[REFRESH].choice),
     .choices = tails,
     .symbol = "refresh",
     .text = "another word"},
    {0}};

const fopo_estimator fopo_estimator_uniform = {
    .name = "uniform",
    .title = "uniform",
    .least = 2,
    .check = check,
    .draw = draw,
    .combine = combine,
    .options = options,
    .text = "The covariance gradient of S uniform draws. Cost: S rows a context.",
    .example = "g = fopo.gradient.uniform{samples = 200}",
};
