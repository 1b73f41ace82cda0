-- The claims of the paper as rules over the rows of its experiments: "holds", "does not hold" or
-- "not tested here".
--
-- A rule measures one or more numbers, each once a seed, and compares them with a bound. A claim
-- holds if the mean of every number is on the right side of its bound, and it is certain if all the
-- 95 % intervals are too; it does not hold if one mean is on the other side, certain if the whole
-- interval of one is. A claim is not tested where the experiment is missing, or lacks what the rule
-- compares, or where the catalogue is too small for what it says.
--
-- Intervals. Each seed has a split of its own, so its differences vary with the sessions, the
-- split, the order and the draws at once. Test users of one split are training users of others:
-- the variance of the mean of J seeds is s^2 (1/J + n_test / n_train), after Nadeau and Bengio
-- (2003), and the interval is Student's t with J - 1 degrees. Of times it is s^2 / J. Of one seed
-- that of a reward is over the test sessions, and a time has none.
--
-- R_test, by which the paper judges, is the reward of the best item; what is trained is the
-- expected reward. Rules on rewards judge both. Where a rule speaks of the best setting, it is the
-- best on the validation sessions.
--
--   claims.list              {id=, says=, paper=, rule=, experiment=, measure=} in the order of the
--                            report; paper: what it measured
--   claims.judge(claim, world)    {verdict=, certain=, numbers=, expected=} of the experiments of a
--                            world; expected: the same by the expected reward, or nil
--   claims.others            {says, state of the evidence} of what no experiment here judges
--   claims.fixed_time(experiments, by)   the records of rq2 with `time`, up to uniform's end
local script = require "script"
local shown = require "shown"

local claims = {list = {}}

-- Items from which a time, and a reward after a time, is judged, the paper's smaller catalogue: how
-- often a method is faster grows with P.
local PAPER_P = 700000

-- `more`: at_size: judged from PAPER_P on; rewards: judged by both rewards.
local function claim(id, experiment, says, paper, rule, more, measure)
  local one = {id = id, experiment = experiment, says = says, paper = paper, rule = rule,
               measure = measure}
  for flag in more:gmatch("%S+") do one[flag] = true end
  claims.list[#claims.list + 1] = one
end

-- ---- what the rules measure

local where, values = shown.where, shown.values

-- Half the interval of a reward over the test sessions.
local function half_of(row) return row.low and (row.high - row.low) / 2 or 0 end

-- The values of `of`(a, b) for each seed that both lists of rows have; rows of one run a seed. Of
-- rewards, which have a `unit`, the field overlap is what the splits share; of one seed the field
-- half is half the interval of their difference or ratio, that of independent shares, which is too
-- wide for shares of the same sessions.
local function by_seed(rows, base, of, unit)
  local list, a, b = {}, nil, nil
  for _, row in ipairs(rows) do
    local other = where(base, {seed = row.seed})[1]
    if other then
      list[#list + 1] = of(row, other)
      a, b = row, other
    end
  end
  list.overlap = unit and #list > 1 and a.test / a.contexts or 0
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

-- The rows of the best mixture among the last records: of the eps of the highest mean reward on the
-- validation sessions.
local function best_of(last)
  local best, most = {}, nil
  for _, epsilon in ipairs(values(where(last, {method = "mixture"}), "epsilon")) do
    local rows = where(last, {method = "mixture", epsilon = epsilon})
    local mean = mean_of(rows, rows[1].valid and "valid" or "reward")
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

-- "eps 0.8 at lr 0.1".
local function named(rows)
  local row = rows[1]
  local name = row.method == "mixture" and ("eps %g"):format(row.epsilon) or row.method
  return row.lr and ("%s at lr %g"):format(name, row.lr) or name
end

-- The records of rq2 with `time`, in seconds by the steps' times of rq1 at the same L, up to the
-- time that the uniform proposal takes to its end. Nothing if rq1 has not timed that L.
function claims.fixed_time(experiments, by)
  local rows, times, list = shown.tuned(experiments.rq2 and experiments.rq2.rows or {}, by), {}, {}
  for _, method in ipairs{"uniform", "mixture", "REINFORCE"} do
    local those = where(experiments.rq1 and experiments.rq1.rows or {},
                        {method = method, dim = rows[1] and rows[1].dim})
    if #those == 0 then return {} end
    times[method] = mean_of(those, "ms_step") / 1e3
  end
  local limit = 0
  for _, row in ipairs(where(rows, {method = "uniform"})) do
    limit = math.max(limit, row.step * times.uniform)
  end
  for _, row in ipairs(rows) do
    local time = row.step * times[row.method]
    if time <= 1.001 * limit then list[#list + 1] = setmetatable({time = time}, {__index = row}) end
  end
  return list
end

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

claim("speed", "rq1", "5 to 30 times faster than REINFORCE", "5 to 25 times",
  "time of a step, REINFORCE / method, at least 5 for uniform and mixture at every L", "at_size",
  function(rows)
  local list = {}
  for _, method in ipairs{"uniform", "mixture"} do
    for _, s in ipairs(speedups(rows, method)) do
      list[#list + 1] = number(("%s, L = %d"):format(method, s.dim), s.values, ">=", 5, "%.1f x")
    end
  end
  return list
end)

claim("small L", "rq1", "larger gains at small L", "most at L = 10",
  "the speed-up at the smallest L / that at the largest, above 1 for uniform and mixture",
  "at_size",
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

claim("uniform fastest", "rq1", "uniform is the fastest", "the fastest",
  "time of a step, mixture / uniform, above 1 at every L", "anywhere", function(rows)
  local list = {}
  for _, dim in ipairs(values(rows, "dim")) do
    local v = by_seed(where(rows, {method = "mixture", dim = dim}),
                      where(rows, {method = "uniform", dim = dim}), ratio("ms_step"))
    if #v > 0 then list[#list + 1] = number("L = " .. dim, v, ">", 1, "%.2f") end
  end
  return list
end)

-- ---- RQ2 and the fixed time: reward

claim("uniform not best", "rq2", "but uniform is not the best", "best eps 0.8 and 0.5",
  "reward of the best mixture above that of uniform", "rewards", function(rows)
  local last = shown.last(rows)
  local best, uniform = best_of(last), where(last, {method = "uniform"})
  if #best == 0 or #uniform == 0 then return {} end
  local v = by_seed(best, uniform, gain, PERCENT)
  return {number(named(best) .. " - " .. named(uniform), v, ">", 0, "%+.1f %%")}
end)

claim("as good", "rq2", "a mixture is at least as good as REINFORCE", "as good or better",
  "reward of the best mixture not more than 2 % below that of REINFORCE after as many epochs",
  "rewards", function(rows)
  local base = where(shown.last(rows), {method = "REINFORCE"})
  local epoch = #base > 0 and base[1].epoch
  local best = best_of(shown.last(until_epoch(rows, epoch)))
  if #base == 0 or #best == 0 then return {} end
  local v = by_seed(best, base, gain, PERCENT)
  local after = epoch and (" after %.2g epochs"):format(epoch) or ""
  return {number(named(best) .. " - " .. named(base) .. after, v, ">=", -2, "%+.1f %%")}
end)

local EARLY = 0.15 -- of a training, by which a record is an early one

claim("early and late", "rq2", "uniform draws do early, candidates are needed late",
  "expected, not shown", "the smallest eps above uniform by less than 2 % at the first record, and "
  .. "above it at the end", "rewards", function(rows)
  local last, list = shown.last(rows), {}
  local least = math.huge
  for _, epsilon in ipairs(values(where(last, {method = "mixture"}), "epsilon")) do
    least = math.min(least, epsilon)
  end
  local steps = values(where(rows, {method = "uniform"}), "step")
  table.sort(steps)
  if #steps < 2 or steps[1] > EARLY * steps[#steps] then return {} end
  for i, those in ipairs{where(rows, {step = steps[1]}), last} do
    local v = by_seed(where(those, {method = "mixture", epsilon = least}),
                      where(those, {method = "uniform"}), gain, PERCENT)
    if #v > 0 then
      list[i] = i == 1 and number(("eps %g - uniform, first"):format(least), v, "<=", 2, "%+.1f %%")
                or number("at the end", v, ">", 0, "%+.1f %%")
    end
  end
  return list
end)

-- The numbers of each of the methods at the end less those of `base`.
local function against(last, base, list)
  local function add(what, those)
    local v = by_seed(those, base, gain, PERCENT)
    if #v > 0 then list[#list + 1] = number(what, v, ">", 0, "%+.1f %%") end
  end
  add("uniform - REINFORCE", where(last, {method = "uniform"}))
  for _, epsilon in ipairs(values(where(last, {method = "mixture"}), "epsilon")) do
    local those = where(last, {method = "mixture", epsilon = epsilon})
    add(named(those) .. " - REINFORCE", those)
  end
  return list
end

claim("fixed time", "fixed time", "for a fixed time REINFORCE is the worst", "the worst",
  "reward of uniform and of every mixture above that of REINFORCE after the same time, by the "
  .. "steps' times of rq1", "rewards at_size", function(rows)
  local last = shown.last(rows)
  return against(last, where(last, {method = "REINFORCE"}), {})
end)

claim("slightly above", "fixed time", "for a fixed time a mixture is slightly above uniform",
  "a slight edge", "reward of the best mixture above that of uniform after the same time",
  "rewards at_size", function(rows)
  local last = shown.last(rows)
  local best = best_of(last)
  local v = by_seed(best, where(last, {method = "uniform"}), gain, PERCENT)
  return #v > 0 and {number(named(best) .. " - uniform", v, ">", 0, "%+.1f %%")} or {}
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

claim("robust in K", "rq3", "the reward is robust in K", "no difference",
  "reward of each K >= 64 at least 95 % of that of the best of them", "rewards", function(rows)
  local last, list, best, most = shown.last(rows), {}, nil, nil
  for _, k in ipairs(values(last, "k")) do
    local those = where(last, {k = k})
    local mean = mean_of(those, those[1].valid and "valid" or "reward")
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

claim("time of K", "cost", "K hardly changes the time", "not greatly",
  "time of a step at the largest K / that at the smallest, at most 1.5", "at_size",
  cost_of("K", "k", "samples", 1.5))

claim("better with S", "rq4", "more draws S, better optima", "better optima",
  "reward at the largest S above that at the smallest", "rewards", function(rows)
  local few, many, a, b = ends_of(rows, "samples")
  if not few then return {} end
  local v = by_seed(many, few, gain, PERCENT)
  return {number(("S = %d - %d"):format(b, a), v, ">", 0, "%+.1f %%")}
end)

claim("cost of S", "cost", "and at little cost", "only slightly",
  "time of a step at the largest S / that at the smallest, at most 2", "at_size",
  cost_of("S", "samples", "k", 2))

-- ---- RQ0: fixed items

-- Of REINFORCE a number of learnt items against fixed ones at each L.
local function learnt_over_fixed(what, column, bound, unit)
  return function(rows)
    local last, list = where(shown.last(rows), {method = "REINFORCE"}), {}
    for _, dim in ipairs(values(last, "dim")) do
      local v = by_seed(where(last, {dim = dim, learnt = "yes"}),
                        where(last, {dim = dim, learnt = "no"}), ratio(column), unit)
      if #v > 0 then
        list[#list + 1] = number(("%s, L = %d"):format(what, dim), v, "<=", bound, "%.2f")
      end
    end
    return list
  end
end

claim("fixed beta", "rq0", "fixing beta does no harm", "rP 0.40 to 0.83",
  "rP, the reward of REINFORCE with learnt items / with fixed ones, at most 1.02 at every L",
  "rewards", learnt_over_fixed("rP", "reward", 1.02, SHARE))

claim("time of beta", "rq0", "learning beta takes no more time", "rS 1.00 and 1.01",
  "rS, the time of REINFORCE with learnt items / with fixed ones, at most 1.1 at every L",
  "at_size", learnt_over_fixed("rS", "ms_step", 1.1))

-- ---- beyond: approximate search, and what the paper expects of others

claim("search", "beyond", "the parameters of the search hardly matter", "little to no impact",
  "reward with candidates from HNSW (M = 32) at least 95 % of that with exact ones", "rewards",
  function(rows)
  local last = shown.last(rows)
  local v = by_seed(where(last, {method = "HNSW"}), where(last, {method = "mixture"}),
                    ratio("reward"), SHARE)
  return #v > 0 and {number("HNSW / exact", v, ">=", 0.95, "%.3f")} or {}
end)

local function above_mixture(method)
  return function(rows)
    local last = shown.last(rows)
    local v = by_seed(where(last, {method = method}), where(last, {method = "mixture"}), gain,
                      PERCENT)
    return #v > 0 and {number(method .. " - mixture", v, ">", 0, "%+.1f %%")} or {}
  end
end

claim("adaptive", "beyond", "an adaptive eps may work better", "outlook",
  "reward of the adaptive eps above that of the mixture", "rewards", above_mixture("adaptive"))

claim("learnt", "beyond", "the mixture may learn beta, too", "outlook",
  "reward of the mixture with learnt items above that with fixed ones", "rewards",
  above_mixture("learnt items"))

claims.others = {
  {"the covariance gradient needs no normalising constant, and is the gradient",
   "derived; `tests/c/test_gradient.c` has it beside differences"},
  {"self-normalised importance sampling is biased, less so with more draws",
   "shown: from S = 8 to 128 the bias falls as 1 / S (`tests/c/test_estimators.c`)"},
  {"and less so the closer the proposal is to the policy",
   "shown in part: the cosines below, and the same test by proposal"},
  {"a draw costs O(log P) by approximate search",
   "not measured here; docs/speed.md has searches by P"},
  {"eps does not change the time, as long as it is below 1",
   "by construction: the same search, and the same number of draws"},
  {"the gains grow with the catalogue", "shown below, How fast"},
  {"the gains are larger without a GPU", "no GPU here"},
  {"training with the index that serves leads to better optima",
   "suspected by the paper; not tested: rewards here are of the true argmax"},
}

-- ---- the verdict

-- How far x is on the right side of the bound; not above 0 on the wrong one.
local function beyond(x, n)
  if n.side == ">" then return x - n.bound end
  if n.side == ">=" then return x - n.bound + 1e-12 end
  return n.bound - x + 1e-12
end

-- The 80 % point of Student's t by the 97.5 % point: what a difference must be beyond half the
-- interval to be seen four times in five.
local POWER = {0.108, 0.247, 0.307, 0.339, 0.358}

-- Mean, interval, the smallest difference from the bound that would be seen four times in five, and
-- whether mean, all of the interval, or none of it are right.
local function weigh(n)
  local J, mean, half = #n.values, script.interval(n.values)
  half = n.values.half or half * math.sqrt(1 + J * (n.values.overlap or 0))
  n.bounded = J > 1 or n.values.half ~= nil
  n.mean, n.half, n.low, n.high = mean, half, mean - half, mean + half
  n.least = half * (1 + (POWER[n.values.half and 6 or J - 1] or 0.43))
  n.right = beyond(mean, n) > 0
  n.wholly_right = beyond(n.low, n) > 0 and beyond(n.high, n) > 0
  n.wholly_wrong = beyond(n.low, n) <= 0 and beyond(n.high, n) <= 0
  return n
end

local MANY = 200 -- splits that one could make

-- Splits until the interval would leave the bound, if mean and spread stay; nil if MANY are not
-- enough. Student's t is near 1.96 + 2.4 / (J - 1).
local function enough(n)
  local _, error = script.mean(n.values)
  local away, spread = math.abs(beyond(n.mean, n)), error * math.sqrt(#n.values)
  for J = #n.values + 1, MANY do
    local half = (1.96 + 2.4 / (J - 1)) * spread * math.sqrt(1 / J + (n.values.overlap or 0))
    if half < away then return J end
  end
end

-- What would settle an open verdict, by the number that is the least settled.
local function settles(one, numbers)
  if not one.rewards then return "more runs" end
  local most = 0
  for _, n in ipairs(numbers) do
    if not (n.wholly_right or n.wholly_wrong) or not n.bounded then
      if #n.values < 2 then return "more seeds" end
      local J = enough(n)
      if not J then return "more users" end
      most = math.max(most, J)
    end
  end
  return ("about %d splits"):format(most)
end

-- "uniform, L = 10: 7.1 x (6.8 x to 7.4 x; least 0.4 x)".
local function figure(n)
  local form = n.form
  local text = ("%s: " .. form):format(n.what, n.mean)
  if not n.bounded then return text .. " (one seed)" end
  local over = #n.values < 2 and ", one seed, over the sessions" or ""
  return text .. (" (" .. form .. " to " .. form .. "%s; least " .. form:gsub("+", "") .. ")"):
    format(n.low, n.high, over, n.least)
end

-- The rows with the expected reward in the place of R_test, those that have one. It has no interval
-- over the test sessions.
local function by_expected(rows)
  local list = {}
  for _, row in ipairs(rows) do
    if row.reward and row.expected then
      list[#list + 1] = setmetatable({reward = row.expected, valid = row.valid_expected or false,
                                      low = false}, {__index = row})
    end
  end
  return list
end

-- Without an interval a verdict is never certain.
local function judge(one, rows)
  local numbers = #rows > 0 and one.measure(rows) or {}
  if #numbers == 0 then return {verdict = "not tested here", figures = {}} end
  local all, certainly, refuted, figures = true, true, false, {}
  for i, n in ipairs(numbers) do
    weigh(n)
    all, certainly = all and n.right, certainly and n.wholly_right and n.bounded
    refuted = refuted or n.wholly_wrong and n.bounded
    figures[i] = figure(n)
  end
  local certain = all and certainly or not all and refuted
  local j = {verdict = all and "holds" or "does not hold", certain = certain, figures = figures,
             numbers = numbers, settled = not certain and settles(one, numbers) or nil}
  if one.at_size and rows[1].items < PAPER_P then
    j.verdict, j.certain, j.settled = "not tested here", false, nil
  end
  return j
end

-- The verdict on a claim by the experiments of one world, {name = {rows =}}.
function claims.judge(one, experiments)
  local e = experiments[one.experiment]
  local function rows(by)
    if one.experiment == "fixed time" then return claims.fixed_time(experiments, by) end
    return e and shown.tuned(e.rows, by) or {}
  end
  local j = judge(one, rows("valid"))
  if one.rewards then
    local expected = judge(one, by_expected(rows("valid_expected")))
    j.expected = expected.verdict ~= "not tested here" and expected or nil
  end
  return j
end

return claims
