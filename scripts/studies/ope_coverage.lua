-- How often the intervals of fopo.ope contain the truth, and its cost at a million actions.
--
--   ./fopo scripts/studies/ope_coverage.lua [quick] [name=value ...]
--
-- Cost: some minutes.
--
-- Coverage: `logs` independent logs of each of `events` from one synthetic world of `actions` items
-- (fopo.data.synthetic_logs), under a policy near the logging one, one far from it, and its argmax.
-- The truth is the policy's value over `contexts` other contexts. dm and dr use a logistic model
-- fitted to the same log in 5 folds, of the form that the world's rewards have; "true dm" and "true
-- dr" use the world's own probabilities. For each estimator: bias, root mean squared error, mean
-- standard error, and for each 95 % interval how often it contains the truth and its width. A
-- coverage of 95 % over 200 logs has a standard error of 1.5 %. clipped_ips is biased by design;
-- the error of a fitted model is in no interval of dm, and only in part in those of clipped_dr.
--
-- Size: one log of 500 events over `big` actions: seconds, and the peak memory of C so far beyond
-- that of the objects that exist before (world, model, index). An n x P matrix would take 2 GB, and
-- so would the model's.
--
-- Options (defaults):
--   logs=200 actions=200 events=200,1000,5000 contexts=200000 big=1000000
-- All numbers except seconds and memory are reproducible. They are kept in runs/ope_coverage.csv
-- and runs/ope_size.csv (quick: runs/ope_coverage_quick.csv, runs/ope_size_quick.csv).
local fopo = require "fopo"
local native = require "fopo.native"
local text = require "fopo.base.text"
package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local study = require "common"

local o, files = study.options(
  {logs = 200, actions = 200, events = {200, 1000, 5000}, contexts = 200000, big = 1000000},
  {logs = 3, actions = 40, events = {200}, contexts = 2000, big = 2000})
if files[1] then study.misuse("there is no word %s", files[1]) end
local logs, actions, big = o.logs, o.actions, o.big
local kinds = {"normal", "bootstrap", "bernstein"}
local estimators = {"ips", "clipped_ips", "snips", "dm", "dr", "clipped_dr", "true dm", "true dr"}
local policies = {{"near", temperature = 2, how = "softmax"}, {"far", temperature = 0.3,
                  how = "softmax"}, {"argmax", temperature = 1, how = "argmax"}}

-- ---- coverage

local function new_sums()
  local s = {value = 0, squares = 0, se = 0, n = 0}
  for _, kind in ipairs(kinds) do s[kind], s[kind .. "_width"] = 0, 0 end
  return s
end

local function add(s, e, truth)
  if e.value ~= e.value then return end -- snips without any overlap
  s.n, s.value, s.squares, s.se = s.n + 1, s.value + e.value, s.squares + (e.value - truth) ^ 2,
                                  s.se + e.se
  for _, kind in ipairs(kinds) do
    local i = e[kind]
    if i and i.low <= truth and truth <= i.high then s[kind] = s[kind] + 1 end
    s[kind .. "_width"] = s[kind .. "_width"] + (i and i.high - i.low or 0)
  end
end

local columns = {"policy", "n", "logs", "truth", "ess", "warned", "estimator", "bias", "rmse", "se",
                 "normal", "bootstrap", "bernstein", "normal_width", "bootstrap_width",
                 "bernstein_width"}
local results = {}

-- The world's own model: P(r = 1 | a, x) = sigmoid(bias + slope x . beta_a) with slope 1.
local bias = -2
local function with_column(a, value)
  local wide = fopo.array.zeros(a.rows, a.cols + 1)
  for i = 1, a.rows do
    for j = 1, a.cols do wide:set(i, j, a:get(i, j)) end
    wide:set(i, a.cols + 1, value)
  end
  return wide
end

local function coverage(policy, n)
  local lg, world = fopo.data.synthetic_logs{n = logs * n, actions = actions, dim = 8,
                                             k = actions // 4, epsilon = 0.3, bias = bias, seed = 1}
  local pi = fopo.policy.linear{items = lg:items(), theta = "identity",
                                temperature = policy.temperature}
  local truth = world:value(pi, {how = policy.how, contexts = world:contexts(o.contexts, 77)})
  local betas = with_column(lg:items(), 1)
  local sums, ess, warned = {}, 0, 0
  for _, one in ipairs(estimators) do sums[one] = new_sums() end
  for i = 1, logs do
    local part = lg:part((i - 1) * n + 1, n)
    local e = fopo.ope(pi, part, {
      policy = policy.how, clip = 0.01, model = "logistic", bootstrap = 500, seed = i})
    local known = fopo.reward.direct{logs = part, model = {
      queries = with_column(part:contexts(), bias), items = betas, link = "logistic"}}
    local best = fopo.ope(pi, part, {policy = policy.how, model = known, bootstrap = 500,
                                     seed = i})
    e["true dm"], e["true dr"] = best.dm, best.dr
    ess, warned = ess + e.ess / logs, warned + (#e.warnings > 0 and 1 or 0)
    for _, one in ipairs(estimators) do add(sums[one], e[one], truth) end
  end

  print(("%s policy (%s, temperature %g), n = %d: truth %.4f, effective sample size %.0f, warned "
         .. "in %d of %d"):format(policy[1], policy.how, policy.temperature, n, truth, ess, warned,
                                 logs))
  local rows = {{"estimator", "bias", "rmse", "mean se", "normal", "bootstrap", "bernstein",
                 "width normal", "bootstrap", "bernstein"}}
  for _, one in ipairs(estimators) do
    local s, cells = sums[one], {one}
    local numbers = {s.value / s.n - truth, math.sqrt(s.squares / s.n), s.se / s.n}
    local result = {policy = policy[1], n = n, logs = logs, truth = truth, ess = ess,
                    warned = warned, estimator = one, bias = numbers[1], rmse = numbers[2],
                    se = numbers[3]}
    for _, x in ipairs(numbers) do cells[#cells + 1] = ("%.4f"):format(x) end
    for _, suffix in ipairs{"", "_width"} do
      for _, kind in ipairs(kinds) do
        local none = one == "snips" and kind == "bernstein"
        local x = s[kind .. suffix] / (suffix == "" and logs or s.n)
        cells[#cells + 1] = none and "-" or (suffix == "" and "%.3f" or "%.4g"):format(x)
        if not none then result[kind .. suffix] = x end
      end
    end
    rows[#rows + 1], results[#results + 1] = cells, result
  end
  print(text.table(rows), "\n")
end

for _, policy in ipairs(policies) do
  for _, n in ipairs(o.events) do coverage(policy, n) end
end
print("kept in " .. study.csv("ope_coverage", columns, results))

-- ---- size

local lg, world = fopo.data.synthetic_logs{n = 500, actions = big, dim = 32, seed = 1}
local pi = fopo.policy.linear{items = lg:items(), theta = "identity"}
local model = fopo.reward.direct{logs = lg, model = "logistic", folds = 5}
local ix = fopo.index.norm(lg:items())
local mixture = fopo.proposal.mixture{index = ix, k = 256, epsilon = 0.5}
local size = {}
local rows = {{"what", "seconds", "memory", "ips", "dm", "dr", "ess"}}
for _, one in ipairs{{"argmax", policy = "argmax", index = ix},
                     {"softmax, 1000 draws", samples = 1000, proposal = mixture},
                     {"softmax, exact"}} do
  collectgarbage()
  collectgarbage()
  local before = native.memory().bytes
  local e = fopo.ope(pi, lg, {model = model, samples = one.samples, proposal = one.proposal,
                              policy = one.policy, index = one.index})
  local bytes = native.memory().peak - before
  rows[#rows + 1] = {one[1], ("%.2f"):format(e.seconds), text.bytes(bytes),
                     ("%.4f +- %.4f"):format(e.ips.value, e.ips.se), ("%.4f"):format(e.dm.value),
                     ("%.4f +- %.4f"):format(e.dr.value, e.dr.se), ("%.1f"):format(e.ess)}
  size[#size + 1] = {what = one[1], actions = big, n = lg.n, seconds = e.seconds, bytes = bytes,
                     ips = e.ips.value, ips_se = e.ips.se, dm = e.dm.value, dr = e.dr.value,
                     dr_se = e.dr.se, ess = e.ess}
end
print(("%s actions, 500 events; the true value is %.4f (softmax), %.4f (argmax)"):format(
  text.count(big), world:value(pi), world:value(pi, {how = "argmax"})))
print(text.table(rows))
local size_columns = {"what", "actions", "n", "seconds", "bytes", "ips", "ips_se", "dm", "dr",
                      "dr_se", "ess"}
print("kept in " .. study.csv("ope_size", size_columns, size))
