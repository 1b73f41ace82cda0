-- fopo.reward: estimators rhat(a, x) of the reward of showing item a in context x.
local native = require "fopo.native"
local define = require "fopo.base.define"
local term = require "fopo.term"
local reward, methods = {}, native.types.reward

reward.hits = define.fn{
  name = "fopo.reward.hits", returns = "reward",
  args = {{"sessions", "sessions", nil, "whose Y decides"}},
  text = "1 where the item stands in Y of the context, else 0: session completion.",
  example = [[s = fopo.data.synthetic{users = 300, items = 400, clusters = 8}:sessions{min_items = 10}
rw = fopo.reward.hits(s.train)]],
  call = native.reward_hits,
}

reward.custom = define.fn{
  name = "fopo.reward.custom", returns = "reward",
  args = {{"f", "function", nil, "f(ids, rows) -> values: ids an array [B, S] of items, rows the "
           .. "ids [1, B] of their contexts; values an array [B, S] or a table of B rows"}},
  text = [[Any reward, computed by a Lua function for a whole batch of draws at once. A value that is
not finite stops the step with its place.]],
  example = [[rw = fopo.reward.custom(function(ids, rows)
  local values = fopo.array.zeros(ids.rows, ids.cols)
  for b = 1, ids.rows do
    for s = 1, ids.cols do values:set(b, s, ids:get(b, s) % 2) end
  end
  return values
end)]],
  call = function(f) return native.reward_custom(term.divisible(f)) end,
}

-- ---- rewards of logs

local the_log = {"logs", "logs", nil, "the log to learn from; train with data = the same log",
                 required = true}
local clip = {"clip", "number", 0, "tau: p below it is taken as tau", min = 0, max = 1}

-- What reward.direct, doubly_robust and switch know of their model.
local function model_options(more)
  local options = {the_log,
    {"model", "string|table|reward", "ridge", "\"ridge\" or \"logistic\": fitted here; "
     .. "{queries = [n, d], items = [P, d], link = \"identity\" | \"logistic\"}: given; "
     .. "a direct reward: its model, also on another log than it was fitted to",
     one_of = {"ridge", "logistic"}},
    {"lambda", "number", 1.0, "penalty lambda |W|^2 / 2 of a fit", above = 0},
    {"dim", "integer", 16, "principal directions of contexts and of items that a fit uses, at most",
     min = 1},
    {"folds", "integer", 1, "cross-fitting: an event's model is fitted without its own fold",
     min = 1, max = 200},
    {"items", "array", nil, "[P, L] features of the actions for a fit; lg:items() if left out"},
    {"seed", "integer", 1, "of the folds"}}
  for _, spec in ipairs(more or {}) do options[#options + 1] = spec end
  return options
end

-- The direct reward of these options.
local function direct(name, o)
  local m = o.model
  if type(m) == "string" then
    return native.reward_fit(o.logs, {logistic = m == "logistic", lambda = o.lambda, dim = o.dim,
                                      folds = o.folds, seed = o.seed, items = o.items})
  elseif define.kind(m) == "reward" then
    if o.items then define.fail("%s: items belong to a fit; this model has its own", name) end
    return native.reward_apply(o.logs, m)
  end
  local known = {queries = 1, items = 1, link = 1}
  for key in pairs(m) do
    if not known[key] then
      define.fail("%s: model has no field '%s'; it takes queries, items and link", name,
                  tostring(key))
    end
  end
  local link = m.link or "identity"
  if define.kind(m.queries) ~= "array" or define.kind(m.items) ~= "array"
     or (link ~= "identity" and link ~= "logistic") then
    define.fail("%s: a given model is {queries = array, items = array, link = \"identity\" or "
                .. "\"logistic\"}", name)
  end
  return native.reward_given(o.logs, m.queries, m.items, link == "logistic")
end

-- The reward whose model is corrected: one over the same log serves as it is.
local function model_of(name, o)
  local given = define.kind(o.model) == "reward"
  return given and native.reward_over(o.logs, o.model) and o.model or direct(name, o)
end

reward.ips = define.fn{
  name = "fopo.reward.ips", returns = "reward",
  options = {the_log, clip,
    {"translate", "number", 0, "lambda, taken from every reward; rw.translate = lambda changes it"}},
  text = [[rhat(a, x_i) = 1[a = a_i] (r_i - lambda) / max(tau, p_i), with tau = clip and lambda = 0.
Bias: none where tau = 0 and the logging policy could show everything that the policy shows; with
clipping, events with p < tau count less than they should: the value is too small for r >= 0.
Variance: grows like the mean of pi^2 / p; at large catalogues single events dominate.
Cost per step: no row beyond those of the draws; one comparison a draw.
Self-normalised IPS, sum w r / sum w, has the gradient of IPS on r - lambda where lambda is its own
present value. That value is no function of theta and the batch, so it is not followed silently (a
resumed run could not repeat it): give lambda as translate, as BanditNet does with a grid of them, or
set rw.translate between runs of the trainer from fopo.ope's snips.
A policy whose proposal never draws the logged action learns nothing from it: with a large catalogue
use a direct or doubly robust reward.
Source: Horvitz and Thompson 1952; the paper, Introduction; Swaminathan and Joachims 2015 (both
clipping and self-normalisation); Joachims, Swaminathan and de Rijke 2018 (translation).]],
  example = [[lg = fopo.data.synthetic_logs{n = 200, actions = 20, dim = 4}
rw = fopo.reward.ips{logs = lg, clip = 0.01}
pi = fopo.policy.linear{items = lg:items()}
t = fopo.trainer{policy = pi, data = lg, reward = rw, gradient = fopo.gradient.exact{}}
t:run{steps = 5, view = false}]],
  call = function(o) return native.reward_ips(o.logs, o.clip, o.translate) end,
}

reward.direct = define.fn{
  name = "fopo.reward.direct", returns = "reward",
  options = model_options(),
  text = [[rhat(a, x) = r_M(a, x), a model of the reward. Fitted here: with x~ and b~_a the contexts
and item features along their first dim principal directions, each with a 1 behind,
r_M = x~^T W b~_a: (dim + 1)^2 parameters at any catalogue, biases of both sides included. Where
there are no item features, r_M = u . x~ + v_a. "ridge" minimises the squared error, "logistic"
(rewards in 0 .. 1) takes the sigmoid of the same form, both with lambda |W|^2 / 2 but for the
constant, by Newton's method on normal equations (BLAS, LAPACK). rw.parameters, rw.loss (mean squared
error, or minus the mean log likelihood) and rw.constant_loss, that of the mean reward alone.
Bias: that of the model, wherever the policy goes and the log was not. Variance: that of the fit,
small; it does not depend on propensities.
Cost per step: S + K rows of min(L, dim) + 1 numbers a context beside the policy's own.
The fit: n (dim + 1)^4 multiply-adds, times folds, times Newton's steps.
Source: the paper, Introduction; the direct method of Dudik, Erhan, Langford and Li 2014.]],
  example = [[lg = fopo.data.synthetic_logs{n = 500, actions = 20, dim = 4}
train, test = lg:split{train = 0.5}
rw = fopo.reward.direct{logs = train, model = "logistic"}
judge = fopo.reward.direct{logs = test, model = rw}
assert(rw.loss < rw.constant_loss)]],
  call = function(o) return direct("fopo.reward.direct", o) end,
}

reward.doubly_robust = define.fn{
  name = "fopo.reward.doubly_robust", returns = "reward",
  options = model_options{clip},
  text = [[rhat(a, x_i) = r_M(a, x_i) + 1[a = a_i] (r_i - r_M(a_i, x_i)) / max(tau, p_i).
Bias: none where tau = 0, whatever the model, if the model has not seen the event (folds > 1, or a
fit to other events); with clipping, the model's bias on events with p < tau, in proportion.
Variance: that of IPS with what the model leaves unexplained in the place of the reward; never to be
trusted blindly where the model is bad.
Cost per step: that of the direct reward, and one comparison a draw.
Source: Dudik, Erhan, Langford and Li 2014; the clipped form: the paper, Introduction, and Su,
Dimakopoulou, Krishnamurthy and Dudik 2020; cross-fitting: Chernozhukov et al. 2018.]],
  example = [[lg = fopo.data.synthetic_logs{n = 500, actions = 20, dim = 4}
rw = fopo.reward.doubly_robust{logs = lg, model = "logistic", folds = 2, clip = 0.01}]],
  call = function(o)
    return native.reward_doubly_robust(o.logs, model_of("fopo.reward.doubly_robust", o), o.clip)
  end,
}

reward.switch = define.fn{
  name = "fopo.reward.switch", returns = "reward",
  options = model_options{
    {"threshold", "number", 100, "largest weight 1 / p that is used", min = 1}},
  text = [[rhat(a, x_i) = r_M(a, x_i) + 1[a = a_i] 1[1 / p_i <= threshold] (r_i - r_M(a_i, x_i)) / p_i:
doubly robust where the weight is moderate, the model alone elsewhere. SWITCH compares pi(a | x) / p
with its threshold, which changes with the policy and needs the propensity of every action; a reward
is a function of (a, x) alone, so its bound 1 / p stands here.
Bias: the model's, on the share of events with 1 / p > threshold. Variance: bounded by the threshold.
Cost per step: that of the doubly robust reward.
Source: Wang, Agarwal and Dudik 2017 (SWITCH-DR); Su et al. 2020 (hard thresholding).]],
  example = [[lg = fopo.data.synthetic_logs{n = 500, actions = 20, dim = 4}
rw = fopo.reward.switch{logs = lg, threshold = 50}]],
  call = function(o)
    return native.reward_switch(o.logs, model_of("fopo.reward.switch", o), o.threshold)
  end,
}

function methods.describe(r)
  local parts = {"reward " .. r.kind}
  if r.translate and r.translate ~= 0 then
    parts[#parts + 1] = ("rewards less %.4g"):format(r.translate)
  end
  if r.parameters then
    parts[#parts + 1] = ("%d parameters, loss %.4g (of the mean alone %.4g)"):format(r.parameters,
      r.loss, r.constant_loss)
  end
  return table.concat(parts, "; ")
end

define.doc{name = "reward:value", signature = "rw:value(ids, rows)", returns = "array",
  text = "The rewards [B, S] of items ids [B, S] in the contexts rows."}

return reward
