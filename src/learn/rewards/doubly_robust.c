/* Doubly robust: rhat(a, x_i) = r_M(a, x_i) + 1[a = a_i] (r_i - r_M(a_i, x_i)) / max(tau, p_i). */
#include "learn/rewards/credit.h"

static int make(fopo_reward *r, const fopo_reward_source *source) {
  int status = fopo_credit_init(r, source);
  if (status == 0) fopo_credit_correct(r, source);
  return status;
}

static const fopo_option options[] = {FOPO_OPTION_CLIP, {0}};

const fopo_reward_kind fopo_reward_doubly_robust = {
    .name = "doubly_robust",
    .title = "doubly robust",
    .needs = FOPO_REWARD_OF_LOGS | FOPO_REWARD_OF_MODEL,
    .make = make,
    .value = fopo_credit_value,
    .look_up = fopo_credit_look_up,
    .options = options,
    // clang-format off
    .text = "rhat(a, x_i) = r_M(a, x_i) + 1[a = a_i] (r_i - r_M(a_i, x_i)) / max(tau, p_i).\n"
          "Bias: none where tau = 0, whatever the model, if the model has not seen the event (folds > 1, or a\n"
          "fit to other events); with clipping, the model's bias on events with p < tau, in proportion.\n"
          "Variance: that of IPS with what the model leaves unexplained instead of the reward; never to be\n"
          "trusted blindly if the model is bad.\n"
          "Cost per step: that of the direct reward, and one comparison a draw.\n"
          "Source: Dudik, Erhan, Langford and Li 2014; the clipped form: the paper, Introduction, and Su,\n"
          "Dimakopoulou, Krishnamurthy and Dudik 2020; cross-fitting: Chernozhukov et al. 2018.",
    .example = "lg = fopo.data.synthetic_logs{n = 500, actions = 20, dim = 4}\n"
             "rw = fopo.reward.doubly_robust{logs = lg, model = \"logistic\", folds = 2, clip = 0.01}",
    // clang-format on
};
