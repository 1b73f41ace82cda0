/* SWITCH: doubly robust where 1 / p_i <= threshold, the model alone elsewhere (Wang, Agarwal and
 * Dudik, ICML 2017). The original compares pi / p, which a reward cannot know; 1 / p is its bound
 * over all pi. */
#include "core/status.h"
#include "learn/rewards/credit.h"

static int make(fopo_reward *r, const fopo_reward_source *source) {
  double threshold = source->threshold;
  if (!(threshold >= 1.0)) {
    return fopo_fail(FOPO_ERR_ARGUMENT,
                     "threshold is %g; it is the largest weight 1 / p that is used, 1 or more",
                     threshold);
  }
  int status = fopo_credit_init(r, source);
  if (status != FOPO_OK) return status;
  fopo_credit_correct(r, source);
  for (size_t i = 0; i < source->logs->n; i++) {
    if ((double)r->owned[i] > threshold) r->owned[i] = 0.0f; /* the weight */
  }
  return FOPO_OK;
}

static const fopo_option options[] = {{.name = "threshold",
                                       .type = FOPO_OPTION_NUMBER,
                                       .member = offsetof(fopo_reward_source, threshold),
                                       .standard = 100,
                                       .least = 1,
                                       .text = "largest weight 1 / p that is used"},
                                      {0}};

const fopo_reward_kind fopo_reward_switch = {
    .name = "switch",
    .title = "switch",
    .needs = FOPO_REWARD_OF_LOGS | FOPO_REWARD_OF_MODEL,
    .make = make,
    .value = fopo_credit_value,
    .look_up = fopo_credit_look_up,
    .options = options,
    // clang-format off
    .text = "rhat(a, x_i) = r_M(a, x_i) + 1[a = a_i] 1[1 / p_i <= threshold] (r_i - r_M(a_i, x_i)) / p_i:\n"
          "doubly robust where the weight is moderate, the model alone elsewhere. SWITCH compares pi(a | x) / p\n"
          "with its threshold, which changes with the policy and needs the propensity of every action; a reward\n"
          "is a function of (a, x) alone, so its bound 1 / p stands here.\n"
          "Bias: the model's, on the share of events with 1 / p > threshold. Variance: bounded by the threshold.\n"
          "Cost per step: that of the doubly robust reward.\n"
          "Source: Wang, Agarwal and Dudik 2017 (SWITCH-DR); Su et al. 2020 (hard thresholding).",
    .example = "lg = fopo.data.synthetic_logs{n = 500, actions = 20, dim = 4}\n"
             "rw = fopo.reward.switch{logs = lg, threshold = 50}",
    // clang-format on
};
