-- fopo.tune.baseline: the options of a baseline by validation, so that what a policy is compared
-- with is as good as it can be. What is searched, and where, its rows in C say (low, high).
local define = require "fopo.base.define"
local draw = require "fopo.tune.draw"
local interrupt = require "fopo.base.interrupt"
local native = require "fopo.native"
local paired = require "fopo.base.paired"
local sealed = require "fopo.base.sealed"
local text = require "fopo.base.text"

local STEPS = 5        -- values of an option that is searched in even steps
local NARROW = 1 / 3   -- of the logarithm of a range, around the best so far, for the last trials
local FIRST = 2 / 3    -- share of the trials that are drawn from the whole ranges

local rows, names = {}, {} -- kind -> its options that are searched; the kinds that have any
for _, row in ipairs(native.baselines()) do
  for _, option in ipairs(row.options) do
    if option.high then
      if not rows[row.name] then rows[row.name], names[#names + 1] = {}, row.name end
      table.insert(rows[row.name], option)
    end
  end
end

-- ---- printing ----

local function settings_of(kind, options)
  local parts = {}
  for _, row in ipairs(rows[kind]) do
    local v = options[row.name]
    if v ~= nil then
      parts[#parts + 1] = row.name .. " " .. (type(v) == "number" and ("%.3g"):format(v) or v)
    end
  end
  return table.concat(parts, ", ")
end

local function interval(value, low, high) return ("%.4f (%.3f-%.3f)"):format(value, low, high) end

local function line_of(found, t, best)
  if t.failed then
    return {"-", "-", "", "", settings_of(found.kind, t.options) .. ": " .. t.failed}
  end
  local e, against = t.evaluation, ""
  if t ~= best then
    local low, high = paired.difference(e, best.evaluation)
    against = ("%+.4f (%+.3f, %+.3f)"):format(e.reward - best.evaluation.reward, low, high)
  end
  return {interval(t.ndcg, table.unpack(e.interval.ndcg[e.k[1]])),
          interval(e.reward, e.low, e.high),
          against, text.seconds(t.seconds), settings_of(found.kind, t.options)}
end

local function as_text(found)
  local best = found.trials[1]
  local what = best.evaluation.valued and "value" or "reward"
  local list = {{"NDCG@" .. best.evaluation.k[1], what, "against the best", "time", "options"}}
  for i = 1, math.min(10, #found.trials) do
    list[#list + 1] = line_of(found, found.trials[i], best)
  end
  local more = #found.trials > 10 and ("\nand %d more in .trials"):format(#found.trials - 10) or ""
  return ("%s tuned by NDCG@%d of %s users, without what they had seen; %d trials\n%s%s"):format(
    found.kind, best.evaluation.k[1], text.count(found.held), #found.trials, text.table(list), more)
end

local meta = sealed.kind({__name = "fopo.tuned_baseline", __tostring = as_text,
                          describe = as_text}, {
  what = "result of fopo.tune.baseline", letter = "found",
  remedy = "it is what the search found; fopo.tune.baseline{...} searches anew",
})

-- ---- what is tried ----

-- The axes of draw.settings, of the options that are not fixed; around the best if that is given.
local function axes_of(o, best)
  local over, whole = {}, {}
  for _, row in ipairs(rows[o.kind]) do
    local low, high = row.low, row.high
    whole[row.name] = row.type == "integer"
    if o.fixed[row.name] ~= nil then
      whole[row.name] = nil
    elseif row.type == "string" then
      over[row.name] = {values = best and {best[row.name]} or row.one_of}
    elseif low > 0 then
      if best then
        local factor = (high / low) ^ (NARROW / 2)
        low, high = math.max(low, best[row.name] / factor), math.min(high, best[row.name] * factor)
      end
      over[row.name] = {low, high}
    else
      local values = {}
      for i = 1, STEPS do values[i] = low + (high - low) * (i - 1) / (STEPS - 1) end
      over[row.name] = {values = best and {best[row.name]} or values}
    end
  end
  return over, whole
end

-- The defaults, but for options that are chosen by validation anyway.
local function defaults(o)
  local c = {}
  for _, row in ipairs(rows[o.kind]) do
    if row.default == "auto" and o.fixed[row.name] == nil then return nil end
    if o.fixed[row.name] == nil then c[row.name] = row.default end
  end
  return c
end

local function learn(o, c, data)
  local options = {data = data, value = o.reward}
  for _, given in ipairs{o.fixed, c} do
    for name, value in pairs(given) do options[name] = value end
  end
  return require("fopo.baseline")[o.kind](options)
end

local function try(o, c, held, rest)
  local start = native.clock()
  local ok, b = pcall(learn, o, c, rest)
  local t = {options = c}
  if not ok then
    if interrupt.is(b) then error(b, 0) end
    t.failed = tostring(b):gsub("^[^:]*:%d+: ", "")
  else
    t.evaluation = require "fopo.evaluate"(b, held, {k = math.min(20, held.n_items),
                                                     exclude = "seen", expected = false,
                                                     reward = o.reward})
    t.ndcg, t.reward = t.evaluation.ndcg[t.evaluation.k[1]], t.evaluation.reward
  end
  t.seconds = native.clock() - start
  return t
end

local function before(a, b)
  if a.failed or b.failed then return not a.failed end
  return a.ndcg > b.ndcg
end

local function search(o, held, rest)
  local trials, best = {}, nil
  local function all(list)
    for _, c in ipairs(list) do
      local t = try(o, c, held, rest)
      trials[#trials + 1] = t
      if not t.failed and (not best or before(t, best)) then best = t end
      if o.view then
        print(("tune %d of %d: %s: NDCG %s, best %s"):format(#trials, o.trials,
          settings_of(o.kind, c), t.failed or ("%.4f"):format(t.ndcg),
          best and ("%.4f"):format(best.ndcg) or "-"))
      end
    end
  end
  all{defaults(o)}
  local over, whole = axes_of(o)
  local first = math.max(1, math.floor(FIRST * o.trials) - #trials)
  all(draw.settings(over, math.min(first, o.trials - #trials), o.seed, whole))
  if best and #trials < o.trials then
    over, whole = axes_of(o, best.options)
    all(draw.settings(over, o.trials - #trials, o.seed + 1, whole))
  end
  return trials, best
end

-- The best first; equal ones in the order in which they were tried.
local function ranked(trials)
  for i, t in ipairs(trials) do t.number = i end
  table.sort(trials, function(a, b)
    if a.failed and b.failed or not a.failed and not b.failed and a.ndcg == b.ndcg then
      return a.number < b.number
    end
    return before(a, b)
  end)
  return trials
end

local function check(o)
  for name in pairs(o.fixed) do
    if name == "data" then
      define.fail("fopo.tune.baseline: data stands beside fixed, not in it")
    end
  end
  if o.data.n < 2 then
    define.fail("fopo.tune.baseline: %d sessions, of which none can be held out; give s.train",
                o.data.n)
  end
end

return define.fn{
  name = "fopo.tune.baseline", returns = "table",
  options = {
    {"kind", "string", nil, "the baseline", one_of = names, required = true},
    {"data", "sessions", nil, "training sessions, as s.train", required = true},
    {"reward", "reward", nil, "of hits: scores are multiplied by its values, and it is decided by "
     .. "them, if it has some; each hit is worth 1 if left out"},
    {"fixed", "table", {}, "options that are not searched, by name, as {dim = 64}"},
    {"trials", "integer", 12, "options that are tried", min = 1},
    {"seed", "integer", 1, "of the options and of who is held out"},
    {"view", "boolean", true, "print a line for each trial"},
  },
  text = [[Searches for the options of a baseline inside the training sessions: a tenth of the users
(100 to 2,000) are held out, the baseline is learnt from the others, and NDCG@20 of the held-out
users, without the items of X, decides. The first trial has the defaults, two thirds are drawn from
the whole ranges (Latin hypercubes), the last third around the best so far. als searches dim (16 to
512), l2 (0.01 to 1,000), nu (0 to 1), alpha (1 to 300) and iterations (4 to 30), after Rendle,
Krichene, Zhang and Koren 2022; item_knn neighbours, similarity and shrink; ease and slim l2 (1 to
10,000), from all users and items, where their own l2 = "auto" looks at a share.
The result prints as a table, with 95 % intervals and the paired difference in reward from the best,
and is one: baseline, learnt with the best options from all sessions; best = {options, ndcg, reward,
evaluation, seconds}; trials, all of them, best first; held, users held out. Each trial costs a fit:
choose `trials`, or fix dim, accordingly. Judge the baseline on s.test: the best of many looks
better on validation than it is.]],
  example = [[
s = fopo.data.synthetic{users = 300, items = 200, clusters = 8}:sessions{min_items = 10}
found = fopo.tune.baseline{kind = "item_knn", data = s.train, trials = 4, view = false}
print(found)
assert(found.baseline.shrink == found.best.options.shrink and #found.trials == 4)]],
  call = function(o)
    check(o)
    if o.reward and not o.reward.valued then o.reward = nil end
    local n = o.data.n
    local held = math.min(2000, math.max(n // 10, math.min(100, (n + 3) // 4)))
    local out, rest = native.sessions_hold(o.data, 0, held, o.seed)
    local trials, best = search(o, out, rest)
    if not best then
      define.fail("fopo.tune.baseline: every trial failed; the first one said: %s",
                  trials[1].failed)
    end
    return sealed.new(meta, {kind = o.kind, trials = ranked(trials), best = best, held = held,
                             baseline = learn(o, best.options, o.data)})
  end,
}
