-- fopo.tune: a search for good settings by successive halving (Jamieson and Talwalkar 2016).
local define = require "fopo.base.define"
local draw = require "fopo.tune.draw"
local interrupt = require "fopo.base.interrupt"
local native = require "fopo.native"
local rungs = require "fopo.tune.rungs"
local sealed = require "fopo.base.sealed"
local seen_items = require "fopo.base.seen"
local text = require "fopo.base.text"
local trial = require "fopo.tune.trial"
local validation = require "fopo.run.validation"

-- ---- printing ----

local function settings_of(options)
  if options.default then return "the defaults" end
  local parts, names = {}, {}
  for name in pairs(options) do if name ~= "steps" then names[#names + 1] = name end end
  table.sort(names)
  for _, name in ipairs(names) do
    local v = options[name]
    parts[#parts + 1] = name .. " " .. (type(v) == "number" and ("%.3g"):format(v) or tostring(v))
  end
  return table.concat(parts, ", ")
end

local function cell(v) return text.finite(v) and ("%.4f"):format(v) or "-" end

local function measure_of(found)
  return found.by:find("@", 1, true) and found.by
    or (found.by == "expected" and "expected " or "") .. (found.valued and "value" or "reward")
end

-- The best ten trials, the best first.
local function as_text(found)
  local rows = {{"steps", "valid", "expected", "best at", "settings"}}
  local by_lists = found.by:find("@", 1, true)
  if by_lists then table.insert(rows[1], 2, found.by) end
  for i = 1, math.min(10, #found.trials) do
    local t = found.trials[i]
    rows[#rows + 1] = {text.count(t.steps), cell(t.valid), cell(t.valid_expected),
                       t.best_step and (t.best_step == 0 and "start" or text.count(t.best_step))
                       or "", settings_of(t.options) .. (t.failed and ": " .. t.failed or "")}
    if by_lists then table.insert(rows[#rows], 2, cell(t.valid_measure)) end
  end
  local more = #found.trials > 10 and ("\nand %d more in .trials"):format(#found.trials - 10) or ""
  return ("tuned by the %s on validation: %d trials%s%s\n%s%s%s"):format(measure_of(found),
    #found.trials, found.seeds > 1 and (" of %d seeds"):format(found.seeds) or "",
    found.interrupted and ", interrupted" or "", text.table(rows), more,
    found.worth and "\n" .. text.page(found.worth, "  ") or "")
end

local meta = sealed.kind({__name = "fopo.tuned", __tostring = as_text, describe = as_text}, {
  what = "result of fopo.tune", letter = "found",
  remedy = "it is what the search found; fopo.tune{...} searches anew", known = {"worth"},
})

-- "tune 4 of 13: ..., 1 min 20 s left" for each trial that has ended.
local function speaker(search)
  local start = native.clock()
  return function(t)
    local rate = (native.clock() - start) / search.steps_made
    local best = search.best and search:value(search.best)
    print(("tune %d of %d: %s, %s steps: %s, best %s, %s left"):format(search.made, search.planned,
      settings_of(t.options), text.count(t.steps),
      t.failed or "valid " .. cell(t.valid) .. " expected " .. cell(t.valid_expected),
      cell(best), text.seconds(rate * (search.steps_planned - search.steps_made))))
  end
end

-- ---- the search ----

-- What each context of validation comes to in the mean over the seeds of a run.
local function each_of(run, t, by)
  local sum
  for _, pi in ipairs(run.policies) do
    local each = validation.each(t, pi, by)
    sum = sum and sum:add(each) or each
  end
  return sum:scale(1 / #run.policies)
end

-- The run that the search ends with, and what it is worth beside the defaults, in words: the best
-- of many is the better one by some chance always.
local function chosen(search, o)
  local best, defaults = search.best, search:defaults()
  if not best or not defaults then return best end
  if best.options.default then return best, "the defaults are the best of the trials" end
  local a, b = each_of(best, best.trainer, o.by), each_of(defaults, best.trainer, o.by)
  local low, high = native.paired_values(a, b)
  local by = ("%+.4f on validation (95 %%: %+.4f to %+.4f)"):format(a:mean() - b:mean(), low, high)
  if low > 0 then return best, "the best differs from the defaults by more than chance: " .. by end
  return defaults, "the defaults are kept: chance can make the difference of the best, " .. by
end

local function result_of(search, best, worth, o)
  return sealed.new(meta, {
    trials = search:ranking(), by = o.by, seeds = o.seeds, interrupted = search.interrupted,
    valued = o.reward ~= nil and o.reward.valued, worth = worth,
    best = {options = best.options, steps = best.steps, policy = best.policy,
            trainer = best.trainer, valid = best.valid, items = best.items,
            valid_expected = best.valid_expected},
  })
end

local tune = define.fn{
  name = "fopo.tune", returns = "table",
  options = {
    {"data", "sessions", nil, "training sessions, as s.train", required = true},
    {"valid", "sessions", nil, "sessions that decide; s.valid where data is s.train"},
    {"reward", "reward", nil, "of hits, that is raised and decides: by its values, if it has some; "
     .. "each hit is worth 1 if left out"},
    {"over", "table", nil, "what is searched: name = {low, high}, a range of numbers, drawn "
     .. "uniformly in the logarithm; or name = {v1, v2, ...}, a list of values (of two numbers: "
     .. "{values = {a, b}}); if left out lr, effective, contexts and, if items are, scale"},
    {"policy", "function", nil, "called with the settings c of a trial; returns a policy, or a "
     .. "table of options of fopo.policy.linear"},
    {"gradient", "function", nil, "called with (c, items); returns an estimator; snis over a "
     .. "mixture if left out"},
    {"optim", "function", nil, "called with c; returns an optimiser; adam if left out"},
    {"items", "array", nil, "embeddings; fopo.embed.svd of data if left out"},
    {"dim", "integer", 64, "of the embeddings if items are left out", min = 1},
    {"steps", "integer", nil, "of the longest runs; 3 passes over the data if left out, 300 to "
     .. "10,000", min = 1},
    {"trials", "integer", 18, "settings that are tried", min = 1},
    {"eta", "integer", 3, "of eta trials one goes on, with eta times the steps", min = 2},
    {"batch", "integer", 32, "contexts a step", min = 1},
    {"by", "string", "greedy", "what decides, as best_by of t:run: greedy, the reward of the best "
     .. "item; expected, the expected reward; or a measure of lists, as \"ndcg@10\""},
    seen_items.option("of validation, as of fopo.trainer"),
    {"seed", "integer", 1, "of the settings, and of each run"},
    {"seeds", "integer", 1, "runs of each trial, with seed, seed + 1, ..., whose mean decides",
     min = 1},
    {"jobs", "integer", 1, "runs at once, in threads of their own", min = 1},
    {"view", "boolean", true, "print a line for each run"},
  },
  text = [[
Searches for settings by successive halving (Jamieson and Talwalkar 2016): `trials`
settings are trained for few steps, and of every eta the best goes on to eta times the steps, until
the last ones have `steps`. A trial that goes on is trained anew, so each line is what
fopo.trainer{...}:run{steps = n} gives with these settings and keep_best, and schedules that need
the length find it in c.steps. With the defaults the search costs about 6 runs of `steps`.
Where nothing is said of what is searched, the first trial is fopo.trainer{} as it is, and the
search ends with it unless the best trial is worth more by more than chance: the 95 % interval of
the paired difference over the contexts of validation, of the means over the seeds, lies above 0.
worth says so in words.
Of a range the draws are one from each of `trials` equal strips (Latin hypercube); if there are only
lists, and no more combinations than trials, all are tried. The built-in parts know temperature,
effective, theta and contexts of fopo.policy.linear; scale of fopo.embed.svd, if items are left out;
lr, weight_decay, clip and schedule ("constant", "cosine", "linear") of fopo.optim.adam; samples, k
(both drawn as integers) and epsilon of the estimator. Functions of yours may use any name, and
c.steps and c.seed.
The result prints as a table and is one: best = {options, policy, trainer, items, valid,
valid_expected, steps}, of several seeds the policy of the first; worth; and trials, a list of
{options, steps, valid, valid_expected, valid_measure, best_step, seconds, failed}, the best run of
each, best first; valid_measure is that of by = "ndcg@10" and its like. The same seed gives the
same result for any number of jobs. Ctrl-C ends the search with what it has (interrupted = true). A
trial that fails, say by a learning rate that overflows, is ranked last with its sentence. The best
of many trials looks better on validation than it is: judge it on s.test. Validation leaves out the
items of X, as fopo.evaluate does, unless exclude = "none".]],
  example = [[
s = fopo.data.synthetic{users = 400, items = 300, clusters = 8}:sessions{min_items = 10}
found = fopo.tune{data = s.train, dim = 8, steps = 40, trials = 4, view = false,
                  over = {lr = {1e-3, 1e-1}, temperature = {0.5, 1, "auto"}}}
print(found)
pi = found.best.policy
assert(#found.trials == 4 and found.best.valid >= found.trials[4].valid)]],
  call = function(o)
    validation.way(o.by, "fopo.tune: by")
    local maker = trial.new(o)
    local settings = draw.settings(maker.over, o.trials, o.seed, maker.whole)
    if not (o.over or o.policy or o.gradient or o.optim) then settings[1] = {default = true} end
    local search = rungs.new(o, settings, maker)
    if o.view then search.say = speaker(search) end
    local best, worth
    search.interrupted = interrupt.ended(function()
      search:run()
      best, worth = chosen(search, o)
    end, function() search:abandon() end)
    if not search.best then
      if search.interrupted then define.fail("interrupted before a trial had ended") end
      define.fail("fopo.tune: every trial failed; the first one said: %s", search.first_failure)
    end
    return result_of(search, best or search.best, worth, o)
  end,
}

return setmetatable({baseline = require "fopo.tune.baseline"},
                    {__call = function(_, ...) return tune(...) end})
