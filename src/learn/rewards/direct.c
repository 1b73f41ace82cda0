/* The direct method: rhat(a, x) = r_M(a, x), a model of the reward. */
#include "learn/rewards/credit.h"

static int make(fopo_reward *r, const fopo_reward_source *source) {
  r->contexts = source->logs->n;
  r->actions = source->logs->n_actions;
  r->model = *source->model;
  return 0;
}

const fopo_reward_kind fopo_reward_direct = {
    .name = "direct",
    .title = "direct",
    .needs =
        FOPO_REWARD_OF_LOGS | FOPO_REWARD_OF_MODEL | FOPO_REWARD_IS_MODEL | FOPO_REWARD_OF_ANY_ITEM,
    .make = make,
    .value = fopo_model_value,
    .look_up = fopo_model_look_up,
    // clang-format off
    .text = "rhat(a, x) = r_M(a, x), a model of the reward. Fitted here: with x~ and b~_a the contexts\n"
          "and item features along their first dim principal directions, each with a 1 behind,\n"
          "r_M = x~^T W b~_a: (dim + 1)^2 parameters at any catalogue, biases of both sides included. Where\n"
          "there are no item features, r_M = u . x~ + v_a. \"ridge\" minimises the squared error, \"logistic\"\n"
          "(rewards in 0 .. 1) takes the sigmoid of the same form, both with lambda |W|^2 / 2 but for the\n"
          "constant, by Newton's method on normal equations (BLAS, LAPACK). rw.parameters, rw.loss (mean squared\n"
          "error, or minus the mean log likelihood) and rw.constant_loss, that of the mean reward alone.\n"
          "Bias: that of the model, wherever the policy goes and the log was not. Variance: that of the fit,\n"
          "small; it does not depend on propensities.\n"
          "Cost per step: S + K rows of min(L, dim) + 1 numbers a context beside the policy's own.\n"
          "The fit: n (dim + 1)^4 multiply-adds, times folds, times Newton's steps.\n"
          "Source: the paper, Introduction; the direct method of Dudik, Erhan, Langford and Li 2014.",
    .example = "lg = fopo.data.synthetic_logs{n = 500, actions = 20, dim = 4}\n"
             "train, test = lg:split{train = 0.5}\n"
             "rw = fopo.reward.direct{logs = train, model = \"logistic\"}\n"
             "judge = fopo.reward.direct{logs = test, model = rw}\n"
             "assert(rw.loss < rw.constant_loss)",
    // clang-format on
};
