-- The claims of the paper as rules over the rows of its experiments: "holds", "does not hold" or
-- "not tested here".
--
-- A rule measures one or more numbers, each once a seed, and compares them with a bound. A claim
-- holds if the mean of every number is on the right side of its bound, and it is said to be certain
-- if all the 95 % intervals are too; it does not hold if one mean is on the other side, certain if
-- the whole interval of one is. A claim is not tested where the experiment is missing, or lacks
-- what the rule compares. The interval is over the seeds, by Student's t; where there is one seed,
-- that of a reward is over the test sessions, and a time has none.
--
-- R_test, by which the paper judges, is the reward of the best item; what is trained is the
-- expected reward. Rules on rewards judge both.
--
--   claims.list              {id=, says=, rule=, experiment=, measure=} in the order of the report
--   claims.judge(claim, rows)     {verdict=, certain=, figures=, expected=} of the rows of one
--                            world; expected: the same by the expected reward, or nil
local script = require "script"
local shown = require "shown"

local claims = {list = {}}

local function claim(id, experiment, says, rule, measure)
  claims.list[#claims.list + 1] = {id = id, experiment = experiment, says = says, rule = rule,
                                   measure = measure}
end

-- ---- what the rules measure

local where, values = shown.where, shown.values

-- Half the interval of a reward over the test sessions.
local function half_of(row) return row.low and (row.high - row.low) / 2 or 0 end

-- The values of `of`(a, b) for each seed that both lists of rows have; rows of one run a seed. Of
-- one seed the field half is half the interval of a difference or ratio of rewards, in `unit`: that
-- of independent shares, which is too wide for shares of the same sessions.
local function by_seed(rows, base, of, unit)
  local list, a, b = {}, nil, nil
  for _, row in ipairs(rows) do
    local other = where(base, {seed = row.seed})[1]
    if other then
      list[#list + 1] = of(row, other)
      a, b = row, other
    end
  end
  if #list == 1 and unit and half_of(a) > 0 then
    list.half = unit * math.sqrt(half_of(a) ^ 2 + half_of(b) ^ 2) / b.reward
  end
  return list
end

local PERCENT, SHARE = 100, 1 -- units of gain and of a ratio of rewards

local function ratio(column)
  return function(a, b) return a[column] / b[column] end
end

-- The reward of a in per cent of that of b, less 100.
local function gain(a, b) return 100 * (a.reward / b.reward - 1) end

local mean_of = shown.mean

-- A number of a rule: what it is, its values by seed, the bound and the side it must be on.
local function number(what, list, side, bound, form)
  return {what = what, values = list, side = side, bound = bound, form = form}
end

-- The mixtures among the last records, by eps, and the one of the highest mean reward.
local function best_mixture(last)
  local best, most
  for _, epsilon in ipairs(values(where(last, {method = "mixture"}), "epsilon")) do
    local rows = where(last, {method = "mixture", epsilon = epsilon})
    local mean = mean_of(rows, "reward")
    if not most or mean > most then best, most = rows, mean end
  end
  return best
end

-- The rows up to an epoch: REINFORCE may have had fewer than the others.
local function until_epoch(rows, epoch)
  local list = {}
  for _, row in ipairs(rows) do
    if not epoch or not row.epoch or row.epoch <= 1.001 * epoch then list[#list + 1] = row end
  end
  return list
end

local function named(rows) return ("eps %g"):format(rows[1].epsilon) end

-- ---- RQ1: time

local function speedups(rows, method)
  local list = {}
  for _, dim in ipairs(values(rows, "dim")) do
    local base = where(rows, {method = "REINFORCE", dim = dim})
    local v = by_seed(where(rows, {method = method, dim = dim}), base,
                      function(a, b) return b.ms_step / a.ms_step end)
    if #v > 0 then list[#list + 1] = {dim = dim, values = v} end
  end
  table.sort(list, function(a, b) return a.dim < b.dim end)
  return list
end

claim("speed", "rq1", "5 to 30 times faster than REINFORCE",
  "time of a step, REINFORCE / method, at least 5 for uniform and mixture at every L",
  function(rows)
  local list = {}
  for _, method in ipairs{"uniform", "mixture"} do
    for _, s in ipairs(speedups(rows, method)) do
      list[#list + 1] = number(("%s, L = %d"):format(method, s.dim), s.values, ">=", 5, "%.1f x")
    end
  end
  return list
end)

claim("small L", "rq1", "larger gains at small L",
  "the speed-up at the smallest L / that at the largest, above 1 for uniform and mixture",
  function(rows)
  local list = {}
  for _, method in ipairs{"uniform", "mixture"} do
    local s = speedups(rows, method)
    local few, many = s[1], s[#s]
    if #s > 1 and #few.values == #many.values then
      local v = {}
      for i, x in ipairs(few.values) do v[i] = x / many.values[i] end
      list[#list + 1] = number(("%s, L = %d / %d"):format(method, few.dim, many.dim), v, ">", 1,
                               "%.2f")
    end
  end
  return list
end)

claim("uniform fastest", "rq1", "uniform is the fastest",
  "time of a step, mixture / uniform, above 1 at every L", function(rows)
  local list = {}
  for _, dim in ipairs(values(rows, "dim")) do
    local v = by_seed(where(rows, {method = "mixture", dim = dim}),
                      where(rows, {method = "uniform", dim = dim}), ratio("ms_step"))
    if #v > 0 then list[#list + 1] = number("L = " .. dim, v, ">", 1, "%.2f") end
  end
  return list
end)

-- ---- RQ2 and the fixed time: reward

claim("uniform not best", "rq2", "but uniform is not the best",
  "reward of the best mixture above that of uniform", function(rows)
  local last = shown.last(rows)
  local best, uniform = best_mixture(last), where(last, {method = "uniform"})
  if not best or #uniform == 0 then return {} end
  local v = by_seed(best, uniform, gain, PERCENT)
  return {number(named(best) .. " - uniform", v, ">", 0, "%+.1f %%")}
end)

claim("as good", "rq2", "a mixture is at least as good as REINFORCE",
  "reward of the best mixture not more than 2 % below that of REINFORCE after as many epochs",
  function(rows)
  local base = where(shown.last(rows), {method = "REINFORCE"})
  if #base == 0 then return {} end
  local best, epoch = best_mixture(shown.last(until_epoch(rows, base[1].epoch))), base[1].epoch
  if not best then return {} end
  local v = by_seed(best, base, gain, PERCENT)
  local after = epoch and (" after %.2g epochs"):format(epoch) or ""
  return {number(named(best) .. " - REINFORCE" .. after, v, ">=", -2, "%+.1f %%")}
end)

claim("fixed time", "budget", "for a fixed time REINFORCE is the worst",
  "reward of uniform and of every mixture above that of REINFORCE after the same time",
  function(rows)
  local last, list = shown.last(rows), {}
  local base = where(last, {method = "REINFORCE"})
  local function add(what, those)
    local v = by_seed(those, base, gain, PERCENT)
    if #v > 0 then list[#list + 1] = number(what .. " - REINFORCE", v, ">", 0, "%+.1f %%") end
  end
  add("uniform", where(last, {method = "uniform"}))
  for _, epsilon in ipairs(values(where(last, {method = "mixture"}), "epsilon")) do
    local those = where(last, {method = "mixture", epsilon = epsilon})
    add(named(those), those)
  end
  return list
end)

-- ---- RQ3 and RQ4: K and S

-- The last records of the smallest and of the largest value of a column, and those values.
local function ends_of(rows, column)
  local last = shown.last(rows)
  local list = values(last, column)
  table.sort(list)
  local few, many = list[1], list[#list]
  if #list < 2 then return nil end
  return where(last, {[column] = few}), where(last, {[column] = many}), few, many
end

local LARGE_ENOUGH = 64 -- candidates; the paper says "as long as it is selected big enough"

claim("robust in K", "rq3", "robust in K",
  "reward of each K >= 64 at least 95 % of that of the best of them", function(rows)
  local last, list, best, most = shown.last(rows), {}, nil, nil
  for _, k in ipairs(values(last, "k")) do
    local mean = mean_of(where(last, {k = k}), "reward")
    if k >= LARGE_ENOUGH and (not most or mean > most) then best, most = k, mean end
  end
  for _, k in ipairs(values(last, "k")) do
    if k >= LARGE_ENOUGH and k ~= best then
      list[#list + 1] = number(("K = %d / %d"):format(k, best),
        by_seed(where(last, {k = k}), where(last, {k = best}), ratio("reward"), SHARE), ">=", 0.95,
        "%.3f")
    end
  end
  return list
end)

-- The rows whose value of `fixed` more than one value of `column` has.
local function varied(rows, column, fixed)
  local list = {}
  for _, value in ipairs(values(rows, fixed)) do
    local those = where(rows, {[fixed] = value})
    if #values(those, column) > 1 then table.move(those, 1, #those, #list + 1, list) end
  end
  return list
end

-- The time of a step at the largest value of a column against that at the smallest.
local function cost_of(letter, column, fixed, bound)
  return function(rows)
    local few, many, a, b = ends_of(varied(rows, column, fixed), column)
    if not few then return {} end
    return {number(("%s = %d / %d"):format(letter, b, a), by_seed(many, few, ratio("ms_step")),
                   "<=", bound, "%.2f")}
  end
end

claim("time of K", "cost", "K hardly changes the time",
  "time of a step at the largest K / that at the smallest, at most 1.5",
  cost_of("K", "k", "samples", 1.5))

claim("better with S", "rq4", "better with S",
  "reward at the largest S above that at the smallest", function(rows)
  local few, many, a, b = ends_of(rows, "samples")
  if not few then return {} end
  local v = by_seed(many, few, gain, PERCENT)
  return {number(("S = %d - %d"):format(b, a), v, ">", 0, "%+.1f %%")}
end)

claim("cost of S", "cost", "at little cost",
  "time of a step at the largest S / that at the smallest, at most 2",
  cost_of("S", "samples", "k", 2))

-- ---- RQ0: fixed items

claim("fixed beta", "rq0", "fixing beta does no harm",
  "rP, the reward of REINFORCE with learnt items / with fixed ones, at most 1.02 at every L",
  function(rows)
  local last, list = where(shown.last(rows), {method = "REINFORCE"}), {}
  for _, dim in ipairs(values(last, "dim")) do
    local v = by_seed(where(last, {dim = dim, learnt = "yes"}),
                      where(last, {dim = dim, learnt = "no"}), ratio("reward"), SHARE)
    if #v > 0 then list[#list + 1] = number("rP, L = " .. dim, v, "<=", 1.02, "%.2f") end
  end
  return list
end)

-- ---- the verdict

-- How far x is on the right side of the bound; not above 0 on the wrong one.
local function beyond(x, n)
  if n.side == ">" then return x - n.bound end
  if n.side == ">=" then return x - n.bound + 1e-12 end
  return n.bound - x + 1e-12
end

-- Mean, interval, and whether mean, all of the interval, or none of it are right.
local function weigh(n)
  local mean, half = script.interval(n.values)
  half = n.values.half or half
  n.bounded = #n.values > 1 or n.values.half ~= nil
  n.mean, n.low, n.high = mean, mean - half, mean + half
  n.right = beyond(mean, n) > 0
  n.wholly_right = beyond(n.low, n) > 0 and beyond(n.high, n) > 0
  n.wholly_wrong = beyond(n.low, n) <= 0 and beyond(n.high, n) <= 0
  return n
end

-- "uniform, L = 10: 7.1 x (6.8 to 7.4)".
local function figure(n)
  local form = n.form
  local text = ("%s: " .. form):format(n.what, n.mean)
  if not n.bounded then return text .. " (one seed)" end
  local over = #n.values < 2 and ", one seed, over the sessions" or ""
  return text .. (" (" .. form .. " to " .. form .. "%s)"):format(n.low, n.high, over)
end

-- The rows with the expected reward in the place of R_test, those that have one. It has no interval
-- over the test sessions.
local function by_expected(rows)
  local list = {}
  for _, row in ipairs(rows) do
    if row.reward and row.expected then
      list[#list + 1] = setmetatable({reward = row.expected, low = false}, {__index = row})
    end
  end
  return list
end

-- Without an interval a verdict is never certain.
local function judge(one, rows)
  local numbers = rows and #rows > 0 and one.measure(rows) or {}
  if #numbers == 0 then return {verdict = "not tested here", figures = {}} end
  local all, certainly, refuted, figures = true, true, false, {}
  for i, n in ipairs(numbers) do
    weigh(n)
    all, certainly = all and n.right, certainly and n.wholly_right and n.bounded
    refuted = refuted or n.wholly_wrong and n.bounded
    figures[i] = figure(n)
  end
  if all then
    return {verdict = "holds", certain = certainly, figures = figures, numbers = numbers}
  end
  return {verdict = "does not hold", certain = refuted, figures = figures, numbers = numbers}
end

local of_rewards = {rq0 = true, rq2 = true, rq3 = true, rq4 = true, budget = true}

-- The verdict on a claim by the rows of its experiment in one world; rows nil: there is none.
function claims.judge(one, rows)
  local j = judge(one, rows)
  if rows and of_rewards[one.experiment] then
    local expected = judge(one, by_expected(rows))
    j.expected = expected.verdict ~= "not tested here" and expected or nil
  end
  return j
end

return claims
