/* Inverse propensities: rhat(a, x_i) = 1[a = a_i] (r_i - lambda) / max(tau, p_i)
 * (the paper, Introduction; lambda = 0). */
#include <math.h>

#include "learn/rewards/credit.h"

static const fopo_option options[] = {
    FOPO_OPTION_CLIP,
    {.name = "translate",
     .type = FOPO_OPTION_NUMBER,
     .flags = FOPO_OPTION_SETTABLE,
     .member = offsetof(fopo_reward_source, translate),
     .least = -INFINITY,
     .text = "lambda, taken from every reward; rw.translate = lambda changes it"},
    {.name = "smoothing",
     .type = FOPO_OPTION_NUMBER,
     .member = offsetof(fopo_reward_source, smoothing),
     .least = 0,
     .text = "lambda of the objective smoothed, by which rhat is multiplied; 0: 1"},
    {0}};

const fopo_reward_kind fopo_reward_ips = {
    .name = "ips",
    .title = "ips",
    .needs = FOPO_REWARD_OF_LOGS | FOPO_REWARD_TRANSLATES | FOPO_REWARD_IS_SPARSE,
    .make = fopo_credit_init,
    .value = fopo_credit_value,
    .look_up = fopo_credit_look_up,
    .options = options,
    // clang-format off
    .text = "rhat(a, x_i) = 1[a = a_i] (r_i - lambda) / max(tau, p_i), with tau = clip and lambda = 0.\n"
          "Bias: none where tau = 0 and the logging policy could show everything that the policy shows; with\n"
          "clipping, events with p < tau count less than they should: the value is too small for r >= 0.\n"
          "Variance: grows like the mean of pi^2 / p; at large catalogues single events dominate.\n"
          "Cost per step: no row beyond those of the draws; one comparison a draw.\n"
          "Learning by IPS finds what the log hardly shows and was lucky with. The pessimistic way is logarithmic\n"
          "smoothing: smoothing = lambda with fopo.trainer{objective = \"smoothed\"} raises mean log(1 + lambda w r),\n"
          "in which an event counts for less the more it weighs; fopo.ope(pi, lg, {smoothing = lambda}).ls.bound\n"
          "is what the policy earns at least. Rewards must be 0 or more: translate = their least value.\n"
          "Self-normalised IPS, sum w r / sum w, is the objective snips, of each batch. Where batches are small\n"
          "against the weights, the ratio of the whole log is another one: it has the gradient of IPS on\n"
          "r - lambda, lambda being its present value, so set rw.translate between runs of the trainer from\n"
          "fopo.ope's snips (Dinkelbach), or try a grid of them, as BanditNet does.\n"
          "A policy whose proposal never draws the logged action learns nothing from it: with a large catalogue\n"
          "use a direct or doubly robust reward, or gradient.head_tail, which meets every logged action that is\n"
          "in its head.\n"
          "Source: Horvitz and Thompson 1952; the paper, Introduction; Swaminathan and Joachims 2015 (both\n"
          "clipping and self-normalisation); Joachims, Swaminathan and de Rijke 2018 (translation);\n"
          "Sakhi, Aouali, Alquier and Chopin 2024 (smoothing); Dinkelbach 1967.",
    .example = "lg = fopo.data.synthetic_logs{n = 200, actions = 20, dim = 4}\n"
             "rw = fopo.reward.ips{logs = lg, clip = 0.01}\n"
             "pi = fopo.policy.linear{items = lg:items()}\n"
             "t = fopo.trainer{policy = pi, data = lg, reward = rw, gradient = fopo.gradient.exact{}}\n"
             "t:run{steps = 5, view = false}",
    // clang-format on
};
