/* The user's own estimator: S items of the proposal q, whose coefficients c_s the caller gives by
 * ids, scores, densities and rewards, e.g. with a Lua function. S + K rows a context. */
#include "core/clock.h"
#include "core/status.h"
#include "learn/estimators/drawn.h"

static int draw(fopo_batch *b) {
  fopo_device *d = b->data->device;
  fopo_candidate_sets drawn = {.k = b->S, .ids = b->draws.samples.ids, .scores = b->draws.f};
  int status = fopo_draw_from_proposal(b);
  if (status != FOPO_OK) return status;
  double start = fopo_clock();
  status = d->ops->scores(d, &drawn, &b->data->beta, &b->piece.device);
  b->seconds[FOPO_PHASE_PROPOSE] += fopo_clock() - start;
  return status;
}

static int combine(fopo_batch *b) {
  fopo_device *d = b->data->device;
  fopo_estimate estimate = fopo_batch_estimate(b);
  float floor = fopo_proposal_floor(&b->plan->q, b->data->P, b->S);
  int status = d->ops->weigh(d, &estimate, &b->draws.samples, b->draws.f, &b->data->beta, floor,
                             &b->piece.device);
  for (size_t i = 0; b->options->own_value && i < b->piece.n; i++) {
    b->piece.stats[i * FOPO_STATS + FOPO_STAT_REWARD] = b->draws.value[i];
  }
  return status;
}

static const char *const values[] = {"reward", "own", NULL};

static const fopo_option options[] = {
    {.name = "coefficients",
     .type = FOPO_OPTION_FUNCTION,
     .text =
         "coefficients(ids, F, log_q, rewards) -> c, arrays [B, S], c also as a table of B rows: "
         "the items drawn for each context, their scores, the log of the density that they "
         "were drawn with, and what they earn"},
    {.name = "draw",
     .type = FOPO_OPTION_PROPOSAL,
     .symbol = "draw",
     .text = "the proposal to draw from; uniform if left out"},
    FOPO_OPTION_SAMPLES("S, draws a context"),
    {.name = "value",
     .type = FOPO_OPTION_CHOICE,
     .member = offsetof(fopo_gradient_options, own_value),
     .choices = values,
     .symbol = "value",
     .text = "what is raised, and shown as reward. reward: the expected reward, by snis; own: a "
             "second array [B, 1] that the function returns, the value of each context, whose "
             "gradient with respect to the F of its draws c is"},
    {0}};

const fopo_estimator fopo_estimator_custom = {
    .name = "custom",
    .title = "custom",
    .needs = FOPO_NEEDS_PROPOSAL | FOPO_IS_BIASED | FOPO_ASKS_CALLER,
    .least = 2,
    .draw = draw,
    .combine = combine,
    .options = options,
    // clang-format off
    .text = "Your own estimator. C draws S items of the proposal for each context of the batch, scores them\n"
          "and looks up what they earn; a Lua function gives their coefficients c; and C sums\n"
          "  G = mean over contexts of sum_s c_s dF_s / dtheta,  F = f(a_s, x)\n"
          "and the same for items that are learnt, so any policy of dense scores serves. An item that the\n"
          "policy masks has F = -inf, which weighs 0; its coefficient is not read. The reward and ess that are\n"
          "shown are those of snis by the same draws. fopo.check says how far the mean of the estimate is from\n"
          "the exact gradient of the expected reward, removing a bias of order 1 / S; a method that clips\n"
          "fails there rightly. One that raises something else says its value (value = own), and is compared\n"
          "with central differences of that over all items, and its mean with this gradient. The function is\n"
          "called once a batch, on the main thread: by t:run, g:compute, races and fopo.check, not by jobs, on\n"
          "a GPU or over several processes. An error in it says the shapes that it was given, and the state\n"
          "is that of the last whole step. A checkpoint holds no function: to resume, give it again. Cost:\n"
          "S + K rows a context, and yours.",
    .example = "local function snis(_, F, log_q, rewards)\n"
             "  local w = (F - log_q):softmax(\"rows\")\n"
             "  return w * (rewards - (w * rewards):sum(\"rows\"))\n"
             "end\n"
             "g = fopo.gradient.custom{coefficients = snis, samples = 200}",
    // clang-format on
};
