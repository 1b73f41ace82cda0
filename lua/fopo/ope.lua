-- fopo.ope: off-policy evaluation, the value of a policy from a log of another one.
local native = require "fopo.native"
local array = require "fopo.array"
local called = require "fopo.base.called"
local define = require "fopo.base.define"
local cache = require "fopo.base.cache"
local reward = require "fopo.reward"
local sealed = require "fopo.base.sealed"
local text = require "fopo.base.text"

local name = "fopo.ope"

-- Every estimator: its name, the option of its parameter, the options that it needs, its help.
local about = {
  {"ips", text = [[mean of w_i r_i. No bias if the log can show every action of pi; variance
grows with the weights. Horvitz and Thompson 1952.]]},
  {"clipped_ips", "clip", needs = {"clip"}, text = [[w_i = pi(a_i | x_i) / max(tau, p_i), the
paper's clipping. Weights of at most 1 / tau; biased towards 0 (for rewards >= 0). Strehl,
Langford, Li and Kakade 2010.]]},
  {"snips", text = [[sum w_i r_i / sum w_i. Bias of order 1 / n; stays inside the range of the
rewards, usually with less variance. Swaminathan and Joachims 2015.]]},
  {"ix", "exploration", text = [[w_i = pi(a_i | x_i) / (p_i + gamma / 2), implicit exploration.
Biased towards 0 like clipped_ips, without its edge; weights of at most 2 / gamma. Its lower
bound is value - R log(1 / delta) / (gamma n). Gabbianelli, Neu and Papini 2023.]]},
  {"ls", "smoothing", text = [[mean of log(1 + lambda w_i r_i) / lambda, logarithmic smoothing.
Biased towards 0 by about lambda E (w r)^2 / 2; less variance than ips. Its lower bound,
(exp(lambda value - log(1 / delta) / n) - 1) / lambda, is at least that of ix for gamma = lambda,
and no bound of the weights is in it. Sakhi, Aouali, Alquier and Chopin 2024.]]},
  {"dm", needs = {"model"}, text = [[mean of E_pi r_M(., x_i). Little variance; its bias is the
model's error, which no interval here includes. Fit the model to other events, or in folds.]]},
  {"dr", needs = {"model"}, text = [[dm + mean of w_i (r_i - r_M(a_i, x_i)). No bias if the
propensities are right, less variance than ips if the model is good. Dudik, Langford and Li
2011.]]},
  {"clipped_dr", "clip", needs = {"model", "clip"}, text = "dr with the clipped weights."},
  {"dros", "shrinkage", needs = {"model"}, text = [[dr with lambda w_i / (w_i^2 + lambda): from
dm, lambda = 0, to dr, infinite; weights of at most sqrt(lambda) / 2. Its bias is the model's
where weights are large. Su, Dimakopoulou, Krishnamurthy and Dudik 2020.]]},
  {"mips", needs = {"groups", "logging"}, text = [[ips with w_i = pi(c_i | x_i) / mu(c_i | x_i),
c_i the group of a_i and mu the logging policy: far less variance for many actions. No bias if an
action earns what its group does in the same context; groups alone need support. Saito and
Joachims 2022.]]},
  {"offcem", needs = {"model", "groups", "logging"}, text = [[dr with these weights. No bias if
the model is right about differences inside a group; the weights correct the rest. Saito, Ren and
Joachims 2023.]]},
}
local all, parameter_of, needs, texts = {}, {}, {}, {}
for i, row in ipairs(about) do
  all[i], parameter_of[row[1]], needs[row[1]] = row[1], row[2], row.needs
  texts[i] = ("  %-12s %s"):format(row[1], row.text:gsub("\n", " "))
end

-- A normal interval is unreliable if few events decide the estimate: warn if the effective sample
-- size is below 100 or 1 % of the events, or if one event has 10 % of all the weight.
local few, small_share, heavy_share = 100, 0.01, 0.1
local hidden = 0.1 -- share of the policy on actions that the log never shows
local far = 4   -- standard errors of the mean weight from 1
local folds = 5 -- of a model fitted here: no event is predicted by a fit that has seen it

-- ---- which estimators

-- The first option that the estimator needs and o lacks, or nil.
local function missing(estimator, o)
  for _, option in ipairs(needs[estimator] or {}) do
    if o[option] == nil then return option end
  end
end

-- The names in o.estimators, checked; or all estimators whose options are given.
local function chosen(o)
  local list, known = {}, {}
  for _, one in ipairs(all) do
    known[one] = true
    if not o.estimators and not missing(one, o) then list[#list + 1] = one end
  end
  for _, one in ipairs(o.estimators or {}) do
    if not known[one] then
      define.fail("%s: there is no estimator %q%s; use %s", name, tostring(one),
                  define.meant(tostring(one), all), table.concat(all, ", "))
    end
    local option = missing(one, o)
    if option then
      define.fail("%s: %s needs the option %s; give it, or leave %s out of estimators", name, one,
                  option, one)
    end
    list[#list + 1] = one
  end
  return list
end

-- ---- the result as text

local function percent(x) return ("%.3g %%"):format(100 * x) end

local function warnings(e, o)
  local said = {}
  local function say(...) said[#said + 1] = string.format(...) end
  if e.overlap == 0 then
    say("this policy takes none of the %s logged actions: ips is 0 and snips is undefined, "
        .. "whatever the policy is worth", text.count(e.n))
  elseif e.ess < few or e.ess < small_share * e.n then
    say("the effective sample size is %.3g of %s events (%s have any weight): the policy takes "
        .. "actions that the log hardly shows, and standard errors and intervals are likely too "
        .. "small; clip, use dm or dr, or a policy nearer to the logging one", e.ess,
        text.count(e.n), text.count(e.overlap))
  end
  if e.max_share > heavy_share then
    say("one event has %s of all the weight (%.4g)", percent(e.max_share), e.max_weight)
  end
  if e.overlap > 0 and math.abs(e.mean_weight - 1) > far * e.mean_weight_se + 1e-6 then
    say("the mean weight is %.4g +- %.2g, and 1 is expected: the log never shows some actions of "
        .. "the policy, or the propensities are wrong", e.mean_weight, e.mean_weight_se)
  end
  if e.unshown > hidden then
    say("%s of the policy is on actions that no event shows: nothing in this log says what they "
        .. "earn, and only a model or groups can guess it", percent(e.unshown))
  end
  if e.degenerate > 0 then
    say("all weights were 0 in %s of %s bootstrap samples, which snips leaves out",
        text.count(e.degenerate), text.count(o.bootstrap))
  end
  if e.unanswered > 0 then
    say(o.policy == "argmax" and "the index found nothing for %s contexts; they count as reward 0"
        or "no item was left to show in %s contexts; they count as reward 0",
        text.count(e.unanswered))
  end
  if e.z_error > 0.1 then
    say("the relative error of the sampled normaliser is %s in the mean, %s at worst, which makes "
        .. "ips too large by about %.2g; raise samples, or use a mixture proposal",
        percent(e.z_error), percent(e.z_worst), e.z_bias)
  end
  return said
end

local function interval(i)
  return i and ("%.3g..%.3g"):format(i.low, i.high) or "-"
end

local function described(e)
  local parameters = {}
  local rows = {{"estimator", "value", "se", percent(e.level) .. " normal", "bootstrap",
                 "bernstein", "bound"}}
  for _, one in ipairs(e.estimators) do
    local v = e[one]
    rows[#rows + 1] = {one, ("%.4g"):format(v.value), ("%.2g"):format(v.se), interval(v.normal),
                       interval(v.bootstrap), interval(v.bernstein),
                       v.bound and ("%.3g"):format(v.bound) or "-"}
    if v.parameter then
      local option = parameter_of[one]
      parameters[#parameters + 1] = ("%s of %s = %.4g"):format(option, one, v.parameter)
    end
  end
  local shown = text.table(rows)
  if not text.fits(shown) then -- without se: the intervals say it
    for _, row in ipairs(rows) do table.remove(row, 3) end
    shown = text.table(rows)
  end
  local lines = {
    text.page(("value of the %s policy from %s events; the logged reward is %.6g in the mean")
      :format(e.policy, text.count(e.n), e.reward), "  "), shown,
    ("weights: effective sample size %.4g, largest %.4g, mean %.4g"):format(e.ess, e.max_weight,
      e.mean_weight)}
  if #parameters > 0 then
    lines[#lines + 1] = text.page("parameters: " .. table.concat(parameters, ", "), "  ")
  end
  if e.chosen and #e.estimators > 1 then lines[#lines + 1] = "SLOPE takes " .. e.chosen end
  if e.samples then
    lines[#lines + 1] = ("normaliser: %s draws, relative standard error %s in the mean, %s at "
      .. "worst"):format(text.count(e.samples), percent(e.z_error), percent(e.z_worst))
  end
  for _, one in ipairs(e.warnings) do lines[#lines + 1] = text.page("warning: " .. one, "  ") end
  return table.concat(lines, "\n")
end

local result = sealed.kind({__name = "fopo.evaluation", describe = described,
                            __tostring = described}, {
  what = "evaluation", letter = "e",
  remedy = "it was measured; fopo.ope(pi, logs, {...}) measures anew",
  known = {"chosen", "samples", "z_error", "z_worst", "z_bias", table.unpack(all)},
})

-- ---- the options in C

-- The options of native.ope.
local function native_options(pi, logs, estimators, o)
  local n = {level = o.level, bootstrap = o.bootstrap, seed = o.seed, groups = o.groups,
             least_propensity = o.least_propensity, wanted = {}, parameters = {}}
  for _, one in ipairs(estimators) do
    n.wanted[one] = true
    if parameter_of[one] then n.parameters[one] = o[parameter_of[one]] end
  end
  n.logging = o.logging
  if define.kind(o.logging) == "policy" then
    if not o.groups then
      define.fail("%s: logging is for mips and offcem, which need groups", name)
    end
    n.logging = (native.ope_groups(o.logging, logs, {groups = o.groups}))
  end
  if o.policy == "argmax" then
    n.index = o.index or cache.exact_of(pi)
  elseif o.index then
    define.fail("%s: an index is for policy = \"argmax\"; a softmax is summed over all items, or "
                .. "sampled (samples, proposal)", name)
  end
  if o.samples then
    n.samples, n.proposal = o.samples, o.proposal or native.proposal_uniform()
  elseif o.proposal then
    define.fail("%s: a proposal needs samples, the number of draws for each normaliser", name)
  end
  if o.reward_range then
    n.reward_low, n.reward_high = o.reward_range[1], o.reward_range[2]
    if not (math.type(n.reward_low) and math.type(n.reward_high) and n.reward_low < n.reward_high)
    then
      define.fail("%s: reward_range is {low, high}, two numbers with low < high", name)
    end
  end
  return n
end

-- The option `model` as a reward over the events of this log.
local function model_of(logs, o)
  local m = o.model
  if type(m) == "function" then return native.reward_custom(m, logs.n) end
  if type(m) == "string" then
    return reward.direct{logs = logs, model = m, folds = math.min(folds, logs.n), seed = o.seed}
  end
  if m and m.kind == "direct" and not native.reward_over(logs, m) then
    return native.reward_apply(logs, m)
  end
  return m
end

-- ---- a policy that is given as probabilities

local CELLS = 1 << 20 -- probabilities of a block of events, about

-- p, the probabilities [n, P] of the events from the first on, as an array.
local function check_block(p, n, P, first)
  if define.kind(p) == "table" then p = array.from(p) end
  local kind = define.kind(p)
  if kind ~= "array" or p.rows ~= n or p.cols ~= P then
    define.fail("%s: the policy gave %s; probabilities [%d, %d] are needed, a row for each event, "
                .. "a column for each action", name,
                kind == "array" and ("an array [%d, %d]"):format(p.rows, p.cols) or define.a(p),
                n, P)
  end
  local least, sums = p:min("rows"), p:sum("rows")
  for i = 1, n do
    local sum = sums:get(i, 1)
    if not (least:get(i, 1) >= 0 and math.abs(sum - 1) < 1e-3) then
      define.fail("%s: the probabilities of event %d begin at %g and add up to %g; give numbers "
                  .. "from 0 on that add up to 1", name, first + i - 1, least:get(i, 1), sum)
    end
  end
  return p
end

-- The groups [1, P] by numbers of 1 to P.
local function numbered(groups, P)
  local known, list, n = {}, {}, 0
  groups = groups:reshape(1, P)
  for a = 1, P do
    local group = groups:get(1, a)
    if not known[group] then
      n = n + 1
      known[group] = n
    end
    list[a] = known[group]
  end
  return array.ids(list):reshape(1, P)
end

-- What each event contributes, by name as in judge/ope.h: lists of n numbers.
local function terms_of(given, logs, model, groups)
  local n, P = logs.n, logs.n_actions
  local x, actions, items, t = logs:contexts(), logs:actions():reshape(n, 1), {}, {}
  local shown = array.zeros(1, P):transpose():scatter_add(logs:actions(), array.zeros(n, 1) + 1)
                     :gt(0):transpose()
  local of = groups and numbered(groups, P)
  local block = math.max(1, math.min(n, 256, CELLS // P))
  for k = 1, block * P do items[k] = (k - 1) % P + 1 end
  items = array.ids(items):reshape(block, P)
  for first = 1, n, block do
    local rows, last = {}, math.min(n, first + block - 1)
    for i = first, last do rows[#rows + 1] = i end
    local p
    if type(given) == "function" then
      p = given(x:slice(first, last), array.ids(rows))
    else
      p = given:slice(first, last)
    end
    p = check_block(p, #rows, P, first)
    local taken = actions:slice(first, last)
    local found = {chance = p:gather(taken), shown = (p * shown):sum("rows")}
    if of then
      local sums = array.zeros(P, #rows):scatter_add(of, p:transpose()):transpose()
      found.group = sums:gather(of:gather(taken:transpose()):transpose())
    end
    if model then
      local r = model:value(items:slice(1, #rows), rows)
      found.logged, found.expected = r:gather(taken), (p * r):sum("rows")
    end
    for what, values in pairs(found) do
      t[what] = t[what] or {}
      for i = 1, #rows do t[what][first + i - 1] = values:get(i, 1) end
    end
  end
  return t
end

-- The options that say how a policy is computed.
local function refuse_options(o)
  for _, option in ipairs{"index", "samples", "proposal"} do
    if o[option] then
      define.fail("%s: %s is for a policy of fopo.policy; probabilities are taken as they are",
                  name, option)
    end
  end
  if o.policy ~= "softmax" then
    define.fail("%s: policy = %q is for a policy of fopo.policy; give 1 for the best action, 0 for "
                .. "the others", name, o.policy)
  end
  o.policy = "given"
end

local function of_given(given, logs, estimators, o, model)
  refuse_options(o)
  native.ope_check(logs, model)
  if type(given) == "function" then
    given = called("the policy of fopo.ope", given, {"x", "rows"})
  elseif given.rows ~= logs.n then
    define.fail("%s: the probabilities are an array [%d, %d] but the log has %d events and %d "
                .. "actions; give one row for each event", name, given.rows, given.cols, logs.n,
                logs.n_actions)
  end
  return native.ope_given(logs, terms_of(given, logs, model, o.groups),
                          native_options(nil, logs, estimators, o))
end

-- ---- the call

return define.fn{
  name = name, returns = "evaluation",
  args = {{"pi", "policy|function|array", nil, "the policy, over the log's actions; or its "
           .. "probabilities [n, P], each row adding up to 1; or a function that gives those of "
           .. "a block of events: pi(x, rows) -> [B, P], x being their contexts [B, D] and rows "
           .. "their ids [1, B]"},
          {"logs", "logs", nil, "events, preferably ones that the policy was not trained on"}},
  options = {
    {"estimators", "table", nil, "as {\"ips\", \"dr\"}; all that clip and model allow if left out"},
    {"policy", "string", "softmax", "the policy that is evaluated: the softmax itself, or always "
     .. "its best item", one_of = {"softmax", "argmax"}},
    {"clip", "number|string", nil, "tau of clipped_ips and clipped_dr: propensities below it count "
     .. "as tau; slope: chosen", above = 0, max = 1, one_of = {"slope"}},
    {"exploration", "number|string", nil, "gamma of ix; slope, bound: chosen; 1 / sqrt n if left "
     .. "out", above = 0, one_of = {"slope", "bound"}},
    {"smoothing", "number|string", nil, "lambda of ls; slope, bound: chosen; 1 / (R sqrt n) if "
     .. "left out, R the range of a reward, from 0 or less", above = 0,
     one_of = {"slope", "bound"}},
    {"shrinkage", "number|string", "slope", "lambda of dros; slope: chosen", min = 0,
     one_of = {"slope"}},
    {"groups", "array", nil, "ids [1, P], the group of each action, for mips and offcem: "
     .. "fopo.index.clusters(lg:items()):groups(), or categories"},
    {"logging", "policy|array", nil, "for mips and offcem, the policy that showed the log, or the "
     .. "probabilities [1, n] with which it shows the group of a_i (world:groups)"},
    {"model", "reward|function|string", nil, "r_M, for dm and dr: a direct reward, of this log or "
     .. "another; ridge or logistic: fitted to this log in 5 folds; a function as "
     .. "fopo.reward.custom takes it", one_of = {"ridge", "logistic"}},
    {"bootstrap", "integer", 1000, "resamples of the events; 0: no bootstrap interval", min = 0},
    {"level", "number", 0.95, "of all intervals", above = 0, below = 1},
    {"index", "index", nil, "argmax: search through it; exactly if left out"},
    {"samples", "integer", nil, "softmax: draws that estimate each normaliser; all items are "
     .. "summed if left out", min = 2},
    {"proposal", "proposal", nil, "the distribution of the samples; uniform if left out"},
    {"reward_range", "table", nil, "{low, high} of a reward, for bernstein; those of the log if "
     .. "left out"},
    {"least_propensity", "number", nil, "of the logging policy, for bernstein; the log's least if "
     .. "left out", above = 0, max = 1},
    {"seed", "integer", 1, "of the bootstrap and of the draws"},
  },
  text = [[Off-policy evaluation: estimates V = E_x E_pi r, the mean reward of this policy, from
events (x_i, a_i, p_i, r_i) of another one. With w_i = pi(a_i | x_i) / p_i:
]] .. table.concat(texts, "\n") .. [[

Each has value, se and three intervals {low, high}: normal (value -+ z se), bootstrap (percentiles
over resampled events, Efron 1979) and bernstein (Maurer and Pontil 2009, theorem 4: it holds for
any number of events given the ranges of reward and propensity, and is wide; snips, a ratio, has
none), whose width is that of a biased estimator's own mean. Events are treated as independent.
e.ls.bound and e.ix.bound: V is at least that with probability `level`, for any n and whatever the
log covers, given that rewards lie in [0, R]; where they can be negative, both are of r less its
least value, which is added again. To choose the policy of the largest bound of m, take 1 - level a
m-th as large. A parameter, e.dros.parameter, is given or chosen of 16: slope takes the one of
least variance that agrees with all of more variance, by the normal intervals (Su, Srinath and
Krishnamurthy 2020; Tucker and Lee 2021), bound the one of the largest lower bound, which then
holds for all 16 at once; other intervals know nothing of a choice. e.chosen is the estimator that
SLOPE takes of those asked for. e.ess is the effective sample size (sum w)^2 / sum w^2;
e.max_weight and e.mean_weight (expected: 1) describe the overlap of the two policies, e.unshown is
the share of pi on actions that no event shows; e.warnings says in words what is wrong. Cost: the
softmax reads all P items for each event, n P L multiply-adds in tiles and never an n x P matrix,
and the model is evaluated on all of them too; a chosen parameter reads the n terms 32 times;
argmax searches one item an event. samples = S reads S items instead: pi(a_i | x_i) is then too
large by about e.z_error^2, the squared relative
standard error of Z, and e.z_bias is what that adds to ips.]],
  example = [[lg, world = fopo.data.synthetic_logs{n = 2000, actions = 50, dim = 4}
pi = fopo.policy.linear{items = lg:items(), theta = "identity"}
e = fopo.ope(pi, lg, {clip = 0.01})
assert(e.ips.bernstein.low < world:value(pi) and world:value(pi) < e.ips.bernstein.high)
print(e)]],
  call = function(pi, logs, o)
    local estimators, model = chosen(o), model_of(logs, o)
    local started = native.clock()
    local e
    if define.kind(pi) == "policy" then
      e = native.ope(pi, logs, native_options(pi, logs, estimators, o), model)
    else
      e = of_given(pi, logs, estimators, o, model)
    end
    e.seconds = native.clock() - started
    e.estimators, e.policy, e.level, e.samples = estimators, o.policy, o.level, o.samples
    e.warnings = warnings(e, o)
    return sealed.new(result, e)
  end,
}
