-- How often fopo.ope's intervals hold the truth, and what it takes at a million actions.
--
--   ./fopo scripts/studies/ope_coverage.lua [logs [actions [big]]]
--
-- Coverage: `logs` (200) independent logs of 200, 1000 and 5000 events from one synthetic world of
-- `actions` (200) items (fopo.data.synthetic_logs), under a policy near the logging one, one far
-- from it, and its argmax. The truth is the policy's value over 200,000 other contexts. dm and dr
-- take a logistic model fitted to the same log in 5 folds, of the form that the world's rewards
-- have; "true dm" and "true dr" take the world's own probabilities. For each estimator: bias, root
-- mean squared error, mean standard error, and for each interval of 95 % how often it holds the
-- truth and how wide it is. A coverage of 95 % over 200 logs has a standard error of 1.5 %.
-- clipped_ips is biased by design; a fitted model's error is in no interval of dm, and only in part
-- in those of clipped_dr.
--
-- Size: one log of 500 events over `big` (1,000,000) actions: seconds, and the most memory that C
-- held at any time so far beside what it holds before (world, model, index). An n x P matrix would
-- take 2 GB, and so would the model's.
--
-- Everything but seconds and memory is reproducible. Kept as runs/ope_coverage.csv and
-- runs/ope_size.csv.
local fopo = require "fopo"
local native = require "fopo.native"
local text = require "fopo.base.text"
local logs, actions, big = tonumber(arg[1]) or 200, tonumber(arg[2]) or 200,
                           tonumber(arg[3]) or 1000000
local kinds = {"normal", "bootstrap", "bernstein"}
local estimators = {"ips", "clipped_ips", "snips", "dm", "dr", "clipped_dr", "true dm", "true dr"}
local policies = {{"near", temperature = 2, how = "softmax"}, {"far", temperature = 0.3,
                  how = "softmax"}, {"argmax", temperature = 1, how = "argmax"}}

local function write(path, lines)
  os.execute("mkdir -p runs")
  local f = assert(io.open(path, "w"))
  f:write(table.concat(lines, "\n"), "\n")
  f:close()
  print("kept as " .. path .. "\n")
end

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

local csv = {"policy,n,logs,truth,ess,warned,estimator,bias,rmse,se,normal,bootstrap,bernstein,"
             .. "normal_width,bootstrap_width,bernstein_width"}

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

local function study(policy, n)
  local lg, world = fopo.data.synthetic_logs{n = logs * n, actions = actions, dim = 8,
                                             k = actions // 4, epsilon = 0.3, bias = bias, seed = 1}
  local pi = fopo.policy.linear{items = lg:items(), theta = "identity",
                                temperature = policy.temperature}
  local truth = world:value(pi, {how = policy.how, contexts = world:contexts(200000, 77)})
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
    local s, cells, held = sums[one], {one}, {}
    local numbers = {s.value / s.n - truth, math.sqrt(s.squares / s.n), s.se / s.n}
    for _, x in ipairs(numbers) do cells[#cells + 1] = ("%.4f"):format(x) end
    for _, suffix in ipairs{"", "_width"} do
      for _, kind in ipairs(kinds) do
        local none = one == "snips" and kind == "bernstein"
        local x = s[kind .. suffix] / (suffix == "" and logs or s.n)
        cells[#cells + 1] = none and "-" or (suffix == "" and "%.3f" or "%.4g"):format(x)
        held[#held + 1] = none and "" or ("%.6g"):format(x)
      end
    end
    rows[#rows + 1] = cells
    csv[#csv + 1] = ("%s,%d,%d,%.6g,%.6g,%d,%s,%.6g,%.6g,%.6g,%s"):format(policy[1], n, logs, truth,
      ess, warned, one, numbers[1], numbers[2], numbers[3], table.concat(held, ","))
  end
  print(text.table(rows), "\n")
end

for _, policy in ipairs(policies) do
  for _, n in ipairs{200, 1000, 5000} do study(policy, n) end
end
write("runs/ope_coverage.csv", csv)

-- ---- size

local lg, world = fopo.data.synthetic_logs{n = 500, actions = big, dim = 32, seed = 1}
local pi = fopo.policy.linear{items = lg:items(), theta = "identity"}
local model = fopo.reward.direct{logs = lg, model = "logistic", folds = 5}
local ix = fopo.index.norm(lg:items())
local mixture = fopo.proposal.mixture{index = ix, k = 256, epsilon = 0.5}
local size = {"what,actions,n,seconds,bytes,ips,ips_se,dm,dr,dr_se,ess"}
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
  size[#size + 1] = ("%s,%d,%d,%.3f,%d,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g"):format(one[1]:gsub(",", ""),
    big, lg.n, e.seconds, bytes, e.ips.value, e.ips.se, e.dm.value, e.dr.value, e.dr.se, e.ess)
end
print(("%s actions, 500 events; the true value is %.4f (softmax), %.4f (argmax)"):format(
  text.count(big), world:value(pi), world:value(pi, {how = "argmax"})))
print(text.table(rows))
write("runs/ope_size.csv", size)
